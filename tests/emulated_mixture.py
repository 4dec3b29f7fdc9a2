"""A mixture of experts on simulated ranks: tokens go to the ranks of their experts and back, forward and backward.

Each rank sends the k copies of its tokens, its slice of the sequence with sequence parallelism; then the tensor ranks
of an expert, which split its columns, gather the slices that have come to them, and keep them. Every expert gets
equally many tokens from each rank (`expert_positions`): this is the uniform load that `transfers` counts. Chances of
the router weight what comes back, so that they are not sent. Each tensor rank adds 1 / t of an expert's bias behind the
last matrix.
"""

import emulated_parts as parts
import numpy as np
from emulated_parts import Tensors
from emulated_shards import ShardedParameters, Values

from suite.emulator.ranks import TransferLabel


class ShardedMixture:
    """Passes of the mixture layers of a model over all ranks of a stage."""

    def __init__(self, parameters: ShardedParameters) -> None:
        self.parameters, self.model = parameters, parameters.model
        strategy = parameters.strategy
        self._tensor, self._expert, self._sliced = strategy.tensor, strategy.expert, strategy.sequence_parallel

    def forward(self, n: Values, kept: dict[int, Tensors], label: TransferLabel) -> Values:
        """What the experts give for normed inputs: in slices whole, else each tensor rank's part of the sum.

        kept: gets what the backward pass needs. label: of the collectives of tensor ranks.
        """
        places, y, copies = self._places(n), {}, {}
        w, experts = self._tensors(label, "weights")
        for rank in n:
            kept[rank]["chances"] = parts.expert_chances(n[rank], w[rank])
            copies[rank] = n[rank][places[rank]]
        tokens = self._arrived(copies, label)
        whole = self._gathered(tokens, label)
        outputs = {}
        for rank in n:
            kept[rank]["tokens"] = whole[rank]
            outputs_here = []
            for i in range(whole[rank].shape[1]):
                mine = parts.one_expert(experts[rank], i)
                inside = parts.widened(whole[rank][:, i], mine)
                kept[rank] |= {f"{name} {i}": array for name, array in inside.items()}
                outputs_here.append(inside["wide"] @ mine["down"] + mine.get("down_bias", 0.0) / self._tensor)
            outputs[rank] = np.stack(outputs_here, axis=1)
        for rank, returned in self._returned(outputs, label).items():
            kept[rank]["given"] = returned
            y[rank] = np.zeros_like(n[rank])
            for expert, at in enumerate(places[rank]):
                y[rank][at] += kept[rank]["chances"][at, :, expert, None] * returned[expert]
        return y

    def backward(self, dy: Values, n: Values, kept: dict[int, Tensors], label: TransferLabel) -> Values:
        """Gradients of the normed inputs n, whole or in parts as `forward` gives; those of weights are added up."""
        places, dn, by_given = self._places(n), {}, {}
        (w, experts), (g, by_experts) = self._tensors(label, "weights"), self._tensors(label, "gradients")
        for rank in dy:
            chances, by_chance = kept[rank]["chances"], np.zeros_like(kept[rank]["chances"])
            for expert, at in enumerate(places[rank]):
                by_chance[at, :, expert] = (dy[rank][at] * kept[rank]["given"][expert]).sum(axis=-1)
            dn[rank] = parts.expert_chances_backward(by_chance, chances, n[rank], w[rank], g[rank])
            weights = [chances[at, :, expert, None] for expert, at in enumerate(places[rank])]
            by_given[rank] = dy[rank][places[rank]] * np.stack(weights)
        by_found = self._gathered(self._arrived(by_given, label), label)
        tokens = {rank: tensors["tokens"] for rank, tensors in kept.items()}
        by_tokens = {}
        for rank in dy:
            outputs_here = []
            for i in range(tokens[rank].shape[1]):
                mine, by_mine = parts.one_expert(experts[rank], i), parts.one_expert(by_experts[rank], i)
                inside = {
                    name: kept[rank][f"{name} {i}"] for name in ("up", "gate", "wide") if f"{name} {i}" in kept[rank]
                }
                if "down_bias" in mine:
                    by_mine["down_bias"] += by_found[rank][:, i].sum(axis=(0, 1)) / self._tensor
                outputs_here.append(
                    parts.widened_backward(by_found[rank][:, i], tokens[rank][:, i], inside, mine, by_mine)
                )
            by_tokens[rank] = np.stack(outputs_here, axis=1)
        for rank, back in self._returned(by_tokens, label).items():
            for expert, at in enumerate(places[rank]):
                dn[rank][at] += back[expert]
        return dn

    def _tensors(self, label: TransferLabel, what: str) -> tuple[dict[int, Tensors], dict[int, Tensors]]:
        """Weights or gradients of the layer and of its experts, by rank."""
        of = self.parameters.unit_ranks(f"layer {label.layer}")
        read = self.parameters.weights if what == "weights" else self.parameters.gradients
        layer, experts = ({rank: read(rank, f"{unit} {label.layer}") for rank in of} for unit in ("layer", "experts"))
        return layer, experts

    def _places(self, n: Values) -> dict[int, np.ndarray]:
        """Positions of each rank's tokens that go to each expert."""
        positions = {}
        for rank, array in n.items():
            before = self.parameters.place["context"][rank] * (self._tensor if self._sliced else 1)
            before += self.parameters.place["tensor"][rank] if self._sliced else 0
            positions[rank] = parts.expert_positions(self.model, len(array), before * len(array))
        return positions

    def _arrived(self, copies: Values, label: TransferLabel) -> Values:
        """Copies of tokens [E, ...] at the ranks of their experts: [tokens, E / e, b, h]."""
        held = {}
        for rank, array in self._exchanged(copies, label).items():
            blocks = array.reshape(self._expert, -1, *array.shape[1:]).swapaxes(1, 2)
            held[rank] = blocks.reshape(-1, *blocks.shape[2:])
        return held

    def _returned(self, exchanged: Values, label: TransferLabel) -> Values:
        """What experts give [tokens, E / e, b, h] at the ranks of the tokens: [E, ...]."""
        if self._sliced:
            exchanged = self.parameters.together("reduce_scatter", "tensor", exchanged, label)
        blocks = {}
        for rank, array in exchanged.items():
            by_source = array.reshape(self._expert, -1, *array.shape[1:]).swapaxes(1, 2)
            blocks[rank] = by_source.reshape(-1, *by_source.shape[2:])
        return self._exchanged(blocks, label)

    def _exchanged(self, blocks: Values, label: TransferLabel) -> Values:
        label = TransferLabel(label.phase, "expert", label.layer, label.microbatch)
        return self.parameters.together("all_to_all", "expert", blocks, label)

    def _gathered(self, tokens: Values, label: TransferLabel) -> Values:
        """Tokens of all slices."""
        return self.parameters.together("all_gather", "tensor", tokens, label) if self._sliced else tokens
