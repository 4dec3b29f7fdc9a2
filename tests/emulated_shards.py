"""Weights and gradients of a transformer on simulated ranks: which rank holds what, and how it is exchanged.

A rank keeps each unit of the model (a layer, the embedding, ...) as one flat array:

- t tensor ranks split heads, columns and rows of the feed-forward, rows of the vocabulary and of the positions. Norms
  and biases behind a sum are copied on all of them, heads of keys and values where t is more than k.
- e expert ranks split the experts of a mixture, the c d / e that hold the same ones are replicas for them.
- c d replicas (context and data ranks) hold all else alike. By sharding, replicas share the update, the gradients and
  the weights among them, equal parts of each unit, filled with zeros where that is no whole number.

Each tensor rank exchanges over the replicas all that it holds, copies too, as Megatron-LM does and `transfers` counts.
Where the tensor ranks have parts of a copy's gradient these are summed first (kind "copies", which `transfers` leaves
out).

A unit is exchanged at a time; `transfers` counts those of a stage as one message where they follow each other.
"""

from typing import Any, NamedTuple

import numpy as np
from emulated_parts import Tensors, Weights, unit_shapes

from railcore.catalog.checks import Floats
from railcore.training.formats import WEIGHT_BYTES
from railcore.training.parallelism import GROUP_KINDS, Strategy
from railcore.training.runtime import Runtime
from railcore.training.transformer import Transformer
from suite.emulator.ranks import EmulatedRanks, TransferLabel

RATE = 0.1  # of learning
Values = dict[int, Floats]  # an array of each rank
_SPLIT_AXIS = dict.fromkeys(("q", "k", "v", "up", "gate"), 1) | dict.fromkeys(
    ("o", "down", "q_bias", "k_bias", "v_bias", "up_bias", "gate_bias", "embedding", "positions", "output"), 0
)
_OF_HEADS = ("k", "v", "k_bias", "v_bias")
_PARTIAL = (*_OF_HEADS, "router")  # tensor ranks that hold copies each have a part of the gradient


class _Layout(NamedTuple):
    """Flat array of a unit: place and shape of its tensors, and its length.

    partial: parts of it that so many tensor ranks hold copies of, each with a part of their gradient.
    """

    places: dict[str, tuple[slice, tuple[int, ...]]]
    size: int
    partial: list[tuple[int, slice]]

    def views(self, flat: Floats) -> Tensors:
        """The tensors of a flat array, which share its memory."""
        return {name: flat[where].reshape(shape) for name, (where, shape) in self.places.items()}


class ShardedParameters:
    """Weights and gradients of a model on the ranks of a strategy."""

    def __init__(
        self,
        model: Transformer,
        strategy: Strategy,
        runtime: Runtime,
        embeddings: bool,
        ranks: EmulatedRanks,
        weights: Weights,
    ) -> None:
        self.model, self.strategy, self.ranks = model, strategy, ranks
        self.gradient_bytes, self.embeddings = runtime.gradient_bytes, embeddings
        self.place = {name: places.tolist() for name, places in strategy.coordinates(np.arange(strategy.gpus)).items()}
        self.groups: dict[str, list[list[int]]] = {kind: strategy.groups(kind).tolist() for kind in GROUP_KINDS}
        self.stage_ranks = [np.sort(strategy.groups("pipeline")[:, i]).tolist() for i in range(strategy.pipeline)]
        self.sharded_gradients = strategy.sharding in ("gradients", "weights")
        self.output_unit = "output" if strategy.pipeline > 1 or not model.tied_embeddings else "embedding"
        if self.output_unit == "output" and model.tied_embeddings:
            weights = weights | {"output": {"output": weights["embedding"]["embedding"]}}
        self._layouts = {unit: self._layout(unit, tensors) for unit, tensors in weights.items()}
        for unit, tensors in weights.items():
            for rank in self.unit_ranks(unit):
                self._start(rank, unit, tensors)

    def unit_ranks(self, unit: str) -> list[int]:
        """Ranks of the stage that has a unit, of which each has a part."""
        p, v = self.strategy.pipeline, self.strategy.interleave
        if unit[-1].isdigit():
            return self.stage_ranks[int(unit.split()[1]) // (self.model.layers // (p * v)) % p]
        return self.stage_ranks[0 if unit in ("embedding", "positions") else -1]

    def weights(self, rank: int, unit: str) -> Tensors:
        """Weights of a unit as a rank holds them."""
        return self._layouts[unit].views(self.ranks.held(rank, f"weights {unit}"))

    def gradients(self, rank: int, unit: str) -> Tensors:
        """Gradients of a unit that a rank adds to."""
        return self._layouts[unit].views(self.ranks.held(rank, f"gradients {unit}"))

    def together(
        self, operation: str, kind: str, arrays: Values, label: TransferLabel, ranks: EmulatedRanks | None = None
    ) -> Values:
        """A collective of every group of a kind that the ranks of `arrays` are in.

        ranks: others than those of the training, whose log does not count.
        """
        return self._among(self.groups[kind], operation, arrays, label, ranks)

    def gather(self, unit: str, phase: str, microbatch: int) -> None:
        """With sharded weights, gather a unit's on its ranks, unless they are there."""
        of = self.unit_ranks(unit)
        if self.strategy.sharding == "weights" and not self.ranks.holds(of[0], f"weights {unit}"):
            shards = {rank: self.ranks.held(rank, f"shard {unit}") for rank in of}
            self._spread(unit, shards, self._label(unit, phase, WEIGHT_BYTES, microbatch))

    def release(self, unit: str) -> None:
        """With sharded weights, free what `gather` gathered."""
        if self.strategy.sharding == "weights":
            for rank in self.unit_ranks(unit):
                self.ranks.free(rank, f"weights {unit}")

    def begin_backward(self, unit: str, microbatch: int) -> None:
        """Before a unit's backward pass: gather its weights, hold zeros for its gradients."""
        self.gather(unit, "backward", microbatch)
        for rank in self.unit_ranks(unit):
            if not self.ranks.holds(rank, f"gradients {unit}"):
                zeros = np.zeros(self._layouts[unit].size)
                self.ranks.hold(rank, f"gradients {unit}", zeros, self.gradient_bytes)

    def end_backward(self, unit: str, microbatch: int) -> None:
        """After a unit's backward pass: with sharded gradients, sum them; free what is not kept."""
        if self.sharded_gradients:
            self._reduce(unit, "backward", microbatch)
        self.release(unit)

    def update(self) -> None:
        """After the last pass: sum gradients that are not summed yet, update weights and gather the new ones."""
        if not self.sharded_gradients:
            self._sum_tied("gradients")
            for unit in self._layouts:
                self._reduce(unit, "after")
        else:
            self._sum_tied("summed")
        for unit in self._layouts:
            shards = {}
            for rank in self.unit_ranks(unit):
                shards[rank] = self.ranks.held(rank, f"shard {unit}")
                shards[rank] -= RATE * self.ranks.held(rank, f"summed {unit}")
            if self.strategy.sharding != "weights":
                self._spread(unit, shards, self._label(unit, "after", WEIGHT_BYTES))

    def begin_step(self) -> None:
        """Free the gradients of the step before."""
        for unit in self._layouts:
            for rank in self.unit_ranks(unit):
                if self.ranks.holds(rank, f"summed {unit}"):
                    self.ranks.free(rank, f"summed {unit}")

    def collected(self, what: str = "shard", replica: int = 0) -> Weights:
        """Whole tensors from what the ranks hold, nothing logged: "shard" (the weights) or "summed" (gradients).

        replica: whose copy, in the order of its group. Tied weights of the last stage are unit "output".
        """
        shapes = unit_shapes(self.model) | {"output": {"output": (self.model.vocabulary, self.model.hidden)}}
        collected: Weights = {}
        for unit, layout in self._layouts.items():
            shards = {rank: self.ranks.held(rank, f"{what} {unit}") for rank in self.unit_ranks(unit)}
            aside = EmulatedRanks(self.strategy.gpus, self.strategy.gpus)
            flats = self._whole(unit, shards, self._label(unit, "after", 1.0), aside)
            base = next(row for row in self.groups["replica"] if row[0] in flats)[replica]
            collected[unit] = {}
            for name, shape in shapes[unit].items():
                blocks = []
                for expert in self._row("expert", base) if self._split_by_expert(unit) else [base]:
                    members = self._row("tensor", expert)[:: self._copies(name)]
                    parts = [layout.views(flats[rank])[name] for rank in members]
                    blocks.append(np.concatenate(parts, self._axis(unit, name)))
                collected[unit][name] = np.concatenate(blocks).reshape(shape)
        return collected

    def _row(self, kind: str, rank: int) -> list[int]:
        """The group of a kind that a rank is in."""
        return next(row for row in self.groups[kind] if rank in row)

    def _split_by_expert(self, unit: str) -> bool:
        return unit.startswith("experts")

    def _replica_kind(self, unit: str) -> str:
        return "expert_replica" if self._split_by_expert(unit) else "replica"

    def _axis(self, unit: str, name: str) -> int:
        """Axis of a tensor that tensor ranks split."""
        return _SPLIT_AXIS.get(name, 0) + self._split_by_expert(unit)

    def _copies(self, name: str) -> int:
        """Tensor ranks that hold the same part of a tensor."""
        t = self.strategy.tensor
        return (max(t // self.model.kv_heads, 1) if name in _OF_HEADS else 1) if name in _SPLIT_AXIS else t

    def _piece(self, rank: int, unit: str, name: str, whole: Floats) -> Floats:
        """A rank's part of a tensor."""
        if self._split_by_expert(unit):
            whole = np.split(whole, self.strategy.expert)[self.place["expert"][rank]]
        copies = self._copies(name)
        parts = np.split(whole, self.strategy.tensor // copies, self._axis(unit, name))
        return parts[self.place["tensor"][rank] // copies]

    def _layout(self, unit: str, tensors: Tensors) -> _Layout:
        alike: dict[int, list[str]] = {}  # by the copies whose gradients are summed, 1 for none
        for name in tensors:
            copies = self._copies(name)
            partial = self.strategy.sequence_parallel or self._split_by_expert(unit) or name in _PARTIAL
            alike.setdefault(copies if partial else 1, []).append(name)
        places, sections, stop = {}, [], 0
        for copies, names in alike.items():
            start = stop
            for name in names:
                piece = self._piece(0, unit, name, tensors[name])
                places[name] = slice(stop, stop + piece.size), piece.shape
                stop += piece.size
            sections += [(copies, slice(start, stop))] if copies > 1 else []
        return _Layout(places, stop, sections)

    def _start(self, rank: int, unit: str, tensors: Tensors) -> None:
        """Hold a rank's weights of a unit, and the shard that it updates."""
        layout, bytes_each = self._layouts[unit], WEIGHT_BYTES
        flat = np.zeros(layout.size)
        for name, view in layout.views(flat).items():
            view[...] = self._piece(rank, unit, name, tensors[name])
        shard = flat.copy()
        if self.strategy.sharding != "none":
            group = self._row(self._replica_kind(unit), rank)
            shard = np.split(self._filled(unit, shard), len(group))[group.index(rank)].copy()
        self.ranks.hold(rank, f"shard {unit}", shard, bytes_each)
        if self.strategy.sharding != "weights":
            self.ranks.hold(rank, f"weights {unit}", flat, bytes_each)

    def _filled(self, unit: str, buffer: Floats) -> Floats:
        """With zeros behind it, so that the replicas divide it."""
        return np.pad(buffer, (0, -len(buffer) % len(self.groups[self._replica_kind(unit)][0])))

    def _reduce(self, unit: str, phase: str, microbatch: int | None = None) -> None:
        """Sum the gradients of a unit over its replicas, into what is summed of them already; free the parts."""
        of, grads = self.unit_ranks(unit), {}
        for rank in of:
            grads[rank] = self.ranks.free(rank, f"gradients {unit}")
        label = self._label(unit, phase, self.gradient_bytes, microbatch)
        for copies, where in self._layouts[unit].partial:
            for rank, total in self._sum_of_copies(copies, {rank: grads[rank][where] for rank in of}, label).items():
                grads[rank][where] = total
        if self.strategy.sharding == "none":
            summed = self.together("all_reduce", self._replica_kind(unit), grads, label)
        else:
            grads = {rank: self._filled(unit, gradient) for rank, gradient in grads.items()}
            summed = self.together("reduce_scatter", self._replica_kind(unit), grads, label)
        for rank in of:
            name, total = f"summed {unit}", summed[rank]
            if self.ranks.holds(rank, name):
                total = total + self.ranks.held(rank, name)
            self.ranks.hold(rank, name, total, self.gradient_bytes)

    def _sum_tied(self, what: str) -> None:
        """Sum the tied embedding's gradients of the first and the last stage."""
        if not (self.model.tied_embeddings and self.output_unit == "output"):
            return
        ends = [[row[0], row[-1]] for row in self.groups["pipeline"]]
        arrays: Values = {}
        for unit, side in (("embedding", 0), ("output", 1)):
            arrays |= {rank: self.ranks.held(rank, f"{what} {unit}") for rank in [end[side] for end in ends]}
        label = TransferLabel("after", self._counted("pipeline"), element_bytes=self.gradient_bytes)
        for rank, total in self._among(ends, "all_reduce", arrays, label).items():
            arrays[rank][:] = total

    def _spread(self, unit: str, shards: Values, label: TransferLabel) -> None:
        """Hold the whole weights of a unit, gathered from shards."""
        for rank, flat in self._whole(unit, shards, label).items():
            self.ranks.hold(rank, f"weights {unit}", flat, WEIGHT_BYTES)

    def _whole(self, unit: str, shards: Values, label: TransferLabel, ranks: EmulatedRanks | None = None) -> Values:
        """Flat arrays of a unit, gathered over replicas where these share them."""
        if self.strategy.sharding == "none":
            return {rank: shard.copy() for rank, shard in shards.items()}
        whole = self.together("all_gather", self._replica_kind(unit), shards, label, ranks)
        return {rank: array[: self._layouts[unit].size].copy() for rank, array in whole.items()}

    def _sum_of_copies(self, copies: int, arrays: Values, label: TransferLabel) -> Values:
        """Sums over the tensor ranks that hold the same."""
        rows = self.groups["tensor"]
        groups = [row[i : i + copies] for row in rows for i in range(0, len(row), copies)]
        label = TransferLabel(label.phase, "copies", label.layer, label.microbatch, label.element_bytes)
        return self._among(groups, "all_reduce", arrays, label)

    def _among(
        self,
        groups: list[list[int]],
        operation: str,
        arrays: Values,
        label: TransferLabel,
        ranks: EmulatedRanks | None = None,
    ) -> Values:
        if len(groups[0]) == 1:
            return arrays
        results: Values = {}
        run: Any = getattr(ranks or self.ranks, operation)
        for group in groups:
            if group[0] in arrays:
                results |= zip(group, run(group, [arrays[rank] for rank in group], label), strict=True)
        return results

    def _counted(self, kind: str) -> str:
        """Kind of the ends' transfers: of its own where they are not counted."""
        return kind if self.embeddings else "ends"

    def _label(self, unit: str, phase: str, element_bytes: float, microbatch: int | None = None) -> TransferLabel:
        layer = int(unit.split()[1]) if unit[-1].isdigit() else None
        kind = "data" if layer is not None else self._counted("data")
        return TransferLabel(phase, kind, layer, microbatch, element_bytes)
