"""A transformer trained on simulated ranks that really send: every strategy of tensor, sequence, context, expert,
pipeline and data parallelism, its losses, gradients and weights those of one rank, its bytes those of `transfers`.

All ranks of a pipeline stage run a micro-batch at the same time, each on its own arrays: its slice of the sequence,
its heads, its columns of the feed-forward, its rows of the vocabulary. What another rank has comes by a send or a
collective of `EmulatedRanks`. Stages compute in the order of `timetable`.

What `transfers` says by convention, and what is done here so that it holds:

- A layer's recompute is its whole forward pass, the last sum included.
- With sequence parallelism, inputs of operators are gathered again in the backward pass, after a recompute too, unless
  they are kept; so are keys and values over context ranks.
- Tokens go to experts by their position, all experts equally often; stages have equally many mixture layers, or
  `transfers` has their mean.
- Positions are split over tensor ranks by rows, as the vocabulary is.
- Sharded weights of an embedding are gathered for the backward pass, which does not read them, as FSDP does.
- Tied weights of a model on one stage are held from the embedding to the logits.

What `transfers` leaves out is logged under kinds of its own: "copies" (gradients of what tensor ranks hold copies
of), "loss" (of logits that are split by vocabulary, and its sum), and "ends" where those are left out.
The vocabulary and the positions must divide by the tensor ranks. Units that the replicas do not divide are filled with
zeros, which are sent and which `transfers` does not count; an AllReduce has a smaller last block instead.

Sources: Shoeybi et al. 2019 (tensor); Korthikanti et al. 2022 (sequence, recompute); Narayanan et al. 2021 (pipeline);
Rajbhandari et al. 2020 (sharding).
"""

from collections.abc import Callable

import emulated_parts as parts
import numpy as np
import pandas as pd
from emulated_mixture import ShardedMixture
from emulated_parts import Projected, Tensors, Weights, random_tokens, starting_weights
from emulated_shards import ShardedParameters, Values

from railcore.catalog.checks import Ints
from railcore.photonics.timetable import schedule
from railcore.training.formats import ELEMENT_BYTES
from railcore.training.parallelism import Strategy
from railcore.training.runtime import MODERN, Runtime
from railcore.training.traffic import from_transfers
from railcore.training.transfers import step_transfers
from railcore.training.transformer import Transformer
from suite.emulator.ranks import SCALE_OUT, SCALE_UP, EmulatedRanks, TransferLabel

_Kept = dict[int, Tensors]  # what each rank keeps for a backward pass
_BACKWARD_TIME = 2  # of a forward pass, for the order of passes
_COMPARED = ("kind", "phase", "operation", "link")


class ShardedTransformer:
    """A transformer on simulated ranks; `step` trains it, `ranks` logs what is sent and held."""

    def __init__(
        self,
        model: Transformer,
        strategy: Strategy,
        global_batch: int,
        weights: Weights | None = None,
        runtime: Runtime = MODERN,
        embeddings: bool = True,
        hb_domain_size: int = 8,
    ) -> None:
        strategy.check(model, global_batch)
        self.model, self.strategy, self.global_batch = model, strategy, global_batch
        self.runtime, self.embeddings = runtime, embeddings
        self.steps = 0
        self.ranks = EmulatedRanks(strategy.gpus, hb_domain_size, ELEMENT_BYTES)
        weights = starting_weights(model) if weights is None else weights
        self.parameters = ShardedParameters(model, strategy, runtime, embeddings, self.ranks, weights)
        self._mixture = ShardedMixture(self.parameters)
        self._place, self._sliced = self.parameters.place, strategy.sequence_parallel
        self._chunk_layers = model.layers // (strategy.pipeline * strategy.interleave)
        self._last = strategy.pipeline * strategy.interleave - 1
        self._kept: dict[tuple[str, int], _Kept] = {}
        self._arrived: dict[tuple[str, int, int], Values] = {}
        self._losses: Values = {}
        self._tokens = np.zeros((0, 0), np.int64)

    def step(self, tokens: Ints) -> float:
        """One training step on tokens [batch, s + 1]: the mean loss before it."""
        p, v, m = self.strategy.pipeline, self.strategy.interleave, self.strategy.microbatches(self.global_batch)
        self._tokens, self._losses = tokens, {}
        self.parameters.begin_step()
        order = schedule("interleaved" if v > 1 else "1f1b", p, m, 1, _BACKWARD_TIME, chunks=v).events
        for event in order[order["event"] == "compute"].itertuples():
            run: Callable[[int, int], None] = self._forward if event.direction == "forward" else self._backward
            run(event.chunk * p + event.stage, event.microbatch)
        self.parameters.update()
        self.steps += 1
        label = TransferLabel("after", "loss")
        return float(next(iter(self.parameters.together("all_reduce", "replica", self._losses, label).values()))[0])

    def collected(self, what: str) -> Weights:
        """Whole tensors, tied ones once: "shard" (the weights) or "summed" (gradients of the last step)."""
        arrays = self.parameters.collected(what)
        return {unit: array for unit, array in arrays.items() if not (self.model.tied_embeddings and unit == "output")}

    def comparison(self) -> pd.DataFrame:
        """Bytes of a step as sent and as `transfers` predicts them: kind, phase, operation, link, both bytes.

        What `transfers` leaves out has predicted_bytes 0. link: "scale-up" within an HB domain, else "scale-out".
        """
        rows = []
        for row in step_transfers(
            self.model, self.strategy, self.global_batch, self.runtime, embeddings=self.embeddings
        ):
            for part in from_transfers(self.strategy, [row]).matrices.values():
                near = self.ranks.nodes[part.targets] == self.ranks.nodes[:, None]
                for link, where in ((SCALE_UP, near), (SCALE_OUT, ~near)):
                    rows.append((row.kind, row.phase, row.operation, link, part.bytes.sum(where=where)))
        predicted = pd.DataFrame(rows, columns=[*_COMPARED, "predicted_bytes"])
        sent = self.ranks.log.rename(columns={"bytes": "emulated_bytes"})
        sent = sent.groupby(list(_COMPARED))["emulated_bytes"].sum() / max(self.steps, 1)
        table = pd.concat([sent, predicted.groupby(list(_COMPARED))["predicted_bytes"].sum()], axis=1).fillna(0.0)
        table = table[table.sum(axis=1) > 0].reset_index()
        phases = {"forward": 0, "recompute": 1, "backward": 2, "after": 3}
        return table.sort_values(
            list(_COMPARED), key=lambda column: column.map(phases) if column.name == "phase" else column
        ).reset_index(drop=True)

    def matrix(self, kind: str) -> np.ndarray:
        """Bytes of a step that rank i sends to rank j for a kind of traffic [i, j]."""
        sent = np.zeros((self.strategy.gpus, self.strategy.gpus))
        for send in self.ranks.sends:
            if send.kind == kind:
                sent[send.source, send.target] += send.bytes
        return sent / max(self.steps, 1)

    def peak_activation_bytes(self) -> np.ndarray:
        """Most bytes that each rank kept for backward passes at once [rank]."""
        table = self.ranks.memory
        table = table[table["name"].str.startswith("kept ")]
        peaks = table.groupby("rank")["bytes"].apply(lambda changes: changes.cumsum().max())
        return peaks.reindex(range(self.strategy.gpus), fill_value=0.0).to_numpy()

    def _units(self, layer: int) -> list[str]:
        """Units of weights of a layer."""
        mixture = "experts" in parts.operators(self.model, layer)[-1]
        return [f"layer {layer}"] + ([f"experts {layer}"] if mixture else [])

    def _of(self, unit: str) -> dict[int, Tensors]:
        return {rank: self.parameters.weights(rank, unit) for rank in self.parameters.unit_ranks(unit)}

    def _gradients(self, unit: str) -> dict[int, Tensors]:
        return {rank: self.parameters.gradients(rank, unit) for rank in self.parameters.unit_ranks(unit)}

    def _keep(self, unit: str, microbatch: int, kept: _Kept) -> None:
        """Hold what a backward pass needs."""
        self._kept[unit, microbatch] = kept
        for rank, tensors in kept.items():
            for name, tensor in tensors.items():
                self.ranks.hold(rank, f"kept {microbatch} {unit} {name}", tensor)

    def _taken(self, unit: str, microbatch: int) -> _Kept:
        """What was kept, which is free from now on."""
        kept = self._kept.pop((unit, microbatch))
        for rank, tensors in kept.items():
            for name in tensors:
                self.ranks.free(rank, f"kept {microbatch} {unit} {name}")
        return kept

    def _enter(self, x: Values, label: TransferLabel) -> Values:
        """The whole input of what tensor ranks split: gathered where ranks have slices of it."""
        return self.parameters.together("all_gather", "tensor", x, label) if self._sliced else x

    def _leave(self, y: Values, label: TransferLabel) -> Values:
        """The sum of what tensor ranks have found, in slices where ranks have slices."""
        return self.parameters.together("reduce_scatter" if self._sliced else "all_reduce", "tensor", y, label)

    def _tensor_label(self, unit: str, phase: str, microbatch: int) -> TransferLabel:
        kind = "sequence" if self._sliced else "tensor"
        if unit.startswith("layer"):
            return TransferLabel(phase, kind, int(unit.split()[1]), microbatch)
        return TransferLabel(phase, kind if self.embeddings else "ends", None, microbatch)

    def _forward(self, chunk: int, microbatch: int) -> None:
        x = self._received("forward", chunk, microbatch) if chunk else self._embedded(microbatch)
        for i in range(chunk * self._chunk_layers, (chunk + 1) * self._chunk_layers):
            unit = f"layer {i}"
            for member in self._units(i):
                self.parameters.gather(member, "forward", microbatch)
            y, kept = self._layer(unit, x, "forward", microbatch)
            if self.strategy.recompute == "full":
                kept = {rank: {"x0": array} for rank, array in x.items()}
            elif self.strategy.recompute == "selective":
                kept = {
                    rank: {n: tensor for n, tensor in tensors.items() if n != "scores"}
                    for rank, tensors in kept.items()
                }
            self._keep(unit, microbatch, kept)
            for member in self._units(i):
                self.parameters.release(member)
            x = y
        if chunk == self._last:
            self._logits(x, microbatch)
        else:
            self._send(x, "forward", chunk, chunk + 1, microbatch)

    def _backward(self, chunk: int, microbatch: int) -> None:
        last = chunk == self._last
        dy = self._logits_backward(microbatch) if last else self._received("backward", chunk, microbatch)
        for i in reversed(range(chunk * self._chunk_layers, (chunk + 1) * self._chunk_layers)):
            unit = f"layer {i}"
            for member in self._units(i):
                self.parameters.begin_backward(member, microbatch)
            kept = self._taken(unit, microbatch)
            if self.strategy.recompute == "full":
                x = {rank: tensors["x0"] for rank, tensors in kept.items()}
                kept = self._layer(unit, x, "recompute", microbatch)[1]
            dy = self._layer_backward(unit, dy, kept, microbatch)
            for member in self._units(i):
                self.parameters.end_backward(member, microbatch)
        if chunk:
            self._send(dy, "backward", chunk, chunk - 1, microbatch)
        else:
            self._embedded_backward(dy, microbatch)

    def _send(self, x: Values, phase: str, chunk: int, to: int, microbatch: int) -> None:
        """Send each rank's activations to the rank of the same place in another stage."""
        p, t = self.strategy.pipeline, self.strategy.tensor
        sliced = self.runtime.scatter_gather and not self._sliced and t > 1
        label, arrived, shape = TransferLabel(phase, "pipeline", None, microbatch), {}, next(iter(x.values())).shape
        for group in self.parameters.groups["pipeline"]:
            source, target = group[chunk % p], group[to % p]
            what = x[source].reshape(t, -1)[self._place["tensor"][source]] if sliced else x[source]
            arrived[target] = self.ranks.send(source, target, what, label)
        if sliced:
            label = TransferLabel(phase, "tensor", None, microbatch)
            gathered = self.parameters.together("all_gather", "tensor", arrived, label)
            arrived = {rank: array.reshape(shape) for rank, array in gathered.items()}
        self._arrived[phase, to, microbatch] = arrived
        for rank, array in arrived.items():
            self.ranks.hold(rank, f"arrived {phase} {to} {microbatch}", array)

    def _received(self, phase: str, chunk: int, microbatch: int) -> Values:
        """What another stage has sent for a pass of a chunk."""
        message = self._arrived.pop((phase, chunk, microbatch))
        for rank in message:
            self.ranks.free(rank, f"arrived {phase} {chunk} {microbatch}")
        return message

    def _layer(self, unit: str, x: Values, phase: str, microbatch: int) -> tuple[Values, _Kept]:
        """Output of a layer, and all that its backward pass needs."""
        w, kept = self._of(unit), {rank: dict[str, np.ndarray]() for rank in x}
        label = self._tensor_label(unit, phase, microbatch)
        for i, branches in enumerate(parts.operators(self.model, int(unit.split()[1]))):
            mixture = "experts" in branches
            n = {rank: parts.normalise(x[rank], w[rank], i) for rank in x}
            whole = n if mixture else self._enter(n, label)
            for rank in x:
                self.ranks.compute(rank, phase, label.layer, microbatch)
                kept[rank] |= {f"x{i}": x[rank], f"n{i}": (whole if self.strategy.keep_gathered else n)[rank]}
            y = {rank: np.zeros_like(whole[rank]) for rank in x}
            if "attention" in branches:
                self._attend(whole, w, kept, label)
                y = {rank: y[rank] + np.tensordot(kept[rank]["heads"], w[rank]["o"], 2) for rank in x}
            if "ffn" in branches:
                for rank in x:
                    kept[rank] |= parts.widened(whole[rank], w[rank])
                    y[rank] += kept[rank]["wide"] @ w[rank]["down"]
            if mixture:
                y = self._mixture.forward(n, kept, label)
            if not (mixture and self._sliced):
                y = self._leave(y, label)
            x = {rank: x[rank] + y[rank] + sum(w[rank][name] for name in self._biases(branches)) for rank in x}
        return x, kept

    def _biases(self, branches: tuple[str, ...]) -> list[str]:
        """Biases that are added to the sum over tensor ranks."""
        names = {"attention": "o_bias", "ffn": "down_bias"}
        return [names[branch] for branch in branches if branch in names] if self.model.biases else []

    def _attend(self, whole: Values, w: dict[int, Tensors], kept: _Kept, label: TransferLabel) -> None:
        """Attention of each rank's queries to the keys and values of all context ranks."""
        for rank in whole:
            kept[rank] |= parts.project(whole[rank], w[rank])._asdict()
        for rank, qkv in self._contexts(kept, label).items():
            scores = self._scores(rank, qkv)
            kept[rank] |= {"scores": scores, "heads": parts.attended(qkv, scores)}

    def _scores(self, rank: int, qkv: Projected) -> np.ndarray:
        return parts.attention_scores(qkv, len(qkv.q) * self._place["context"][rank])

    def _contexts(self, kept: _Kept, label: TransferLabel) -> dict[int, Projected]:
        """Queries of each rank with the keys and values of the whole sequence."""
        pairs = {rank: np.stack([tensors["k"], tensors["v"]], axis=1) for rank, tensors in kept.items()}
        pairs = self.parameters.together("all_gather", "context", pairs, self._context_label(label))
        return {rank: Projected(kept[rank]["q"], pair[:, 0], pair[:, 1]) for rank, pair in pairs.items()}

    def _context_label(self, label: TransferLabel) -> TransferLabel:
        return TransferLabel(label.phase, "context", label.layer, label.microbatch)

    def _layer_backward(self, unit: str, dy: Values, kept: _Kept, microbatch: int) -> Values:
        """Gradient of a layer's input; those of its weights are added up."""
        w, g, label = self._of(unit), self._gradients(unit), self._tensor_label(unit, "backward", microbatch)
        for i, branches in reversed(list(enumerate(parts.operators(self.model, int(unit.split()[1]))))):
            mixture = "experts" in branches
            for rank, array in dy.items():
                self.ranks.compute(rank, "backward", label.layer, microbatch)
                for name in self._biases(branches):
                    g[rank][name] += array.sum(axis=(0, 1))
            n = {rank: kept[rank][f"n{i}"] for rank in dy}
            whole_dy = dy if mixture else self._enter(dy, label)
            if not (mixture or self.strategy.keep_gathered):
                n = self._enter(n, label)
            dn = {rank: np.zeros_like(array) for rank, array in n.items()}
            if "attention" in branches:
                for rank, by_qkv in self._attend_backward(whole_dy, w, g, kept, label).items():
                    dn[rank] += parts.project_backward(n[rank], by_qkv, w[rank], g[rank])
            if "ffn" in branches:
                for rank in dy:
                    dn[rank] += parts.widened_backward(whole_dy[rank], n[rank], kept[rank], w[rank], g[rank])
            if mixture:
                dn = self._mixture.backward(dy, n, kept, label)
            if not (mixture and self._sliced):
                dn = self._leave(dn, label)
            dy = {
                rank: dy[rank] + parts.normalise_backward(dn[rank], kept[rank][f"x{i}"], w[rank], g[rank], i)
                for rank in dy
            }
        return dy

    def _attend_backward(
        self, dy: Values, w: dict[int, Tensors], g: dict[int, Tensors], kept: _Kept, label: TransferLabel
    ) -> dict[int, Projected]:
        """Gradients of each rank's queries, keys and values; that of the output projection is added up."""
        held, pairs = {}, {}
        for rank, qkv in self._contexts(kept, label).items():
            scores = kept[rank]["scores"] if "scores" in kept[rank] else self._scores(rank, qkv)
            of_heads = parts.output_backward(dy[rank], kept[rank]["heads"], w[rank], g[rank])
            held[rank] = parts.attended_backward(of_heads, qkv, scores)
            pairs[rank] = np.stack([held[rank].k, held[rank].v], axis=1)
        pairs = self.parameters.together("reduce_scatter", "context", pairs, self._context_label(label))
        return {rank: held[rank]._replace(k=pair[:, 0], v=pair[:, 1]) for rank, pair in pairs.items()}

    def _sequences(self, rank: int, microbatch: int) -> Ints:
        """Tokens of a rank's part of the sequence, and its targets [2, s / c, b]."""
        b, m = self.strategy.micro_batch, self.strategy.microbatches(self.global_batch)
        first = (self._place["data"][rank] * m + microbatch) * b
        both = np.stack([self._tokens[first : first + b, :-1].T, self._tokens[first : first + b, 1:].T])
        return np.split(both, self.strategy.context, axis=1)[self._place["context"][rank]]

    def _rows(self, rank: int, microbatch: int) -> dict[str, tuple[Ints, int]]:
        """Rows of each table that a rank's tokens ask for, and the first that the rank has."""
        tokens, r = self._sequences(rank, microbatch)[0], self._place["tensor"][rank]
        places = np.arange(len(tokens)) + len(tokens) * self._place["context"][rank]
        inputs = {"embedding": (tokens, r * self.model.vocabulary // self.strategy.tensor)}
        if self.model.positions:
            rows = np.broadcast_to(places[:, None], tokens.shape)
            inputs["positions"] = rows, r * self.model.positions // self.strategy.tensor
        return inputs

    def _tables(self) -> list[str]:
        return ["embedding", "positions"] if self.model.positions else ["embedding"]

    def _embedded(self, microbatch: int) -> Values:
        """Embeddings of tokens and positions: each rank's rows, summed over the tensor ranks."""
        x: Values = {}
        for unit in self._tables():
            self.parameters.gather(unit, "forward", microbatch)
            for rank, tensors in self._of(unit).items():
                x[rank] = x.get(rank, 0.0) + parts.table_rows(tensors[unit], *self._rows(rank, microbatch)[unit])
            if unit != self.parameters.output_unit:
                self.parameters.release(unit)
        return self._leave(x, self._tensor_label("embedding", "forward", microbatch))

    def _embedded_backward(self, dy: Values, microbatch: int) -> None:
        whole = self._enter(dy, self._tensor_label("embedding", "backward", microbatch))
        for unit in self._tables():
            self.parameters.begin_backward(unit, microbatch)
            for rank, tensors in self._gradients(unit).items():
                rows, first = self._rows(rank, microbatch)[unit]
                parts.add_table_rows(tensors[unit], rows, whole[rank], first)
            self.parameters.end_backward(unit, microbatch)

    def _logits(self, x: Values, microbatch: int) -> None:
        """Last norm, logits split by vocabulary, and the loss."""
        unit = self.parameters.output_unit
        for name in ("last norm", unit):
            self.parameters.gather(name, "forward", microbatch)
        norm, table = self._of("last norm"), self._of(unit)
        n = {rank: parts.normalise(x[rank], norm[rank]) for rank in x}
        whole = self._enter(n, self._tensor_label(unit, "forward", microbatch))
        logits = {rank: whole[rank] @ table[rank][unit].T for rank in x}
        slopes = self._loss_slopes(logits, microbatch)
        held = whole if self.strategy.keep_gathered else n
        self._keep(unit, microbatch, {r: {"x": x[r], "n": held[r], "logits": slopes[r]} for r in x})
        for name in ("last norm", unit):
            self.parameters.release(name)

    def _loss_slopes(self, logits: Values, microbatch: int) -> Values:
        """Gradients of the mean loss by logits; the loss is added up."""
        label, rows = TransferLabel("forward", "loss", None, microbatch), self.model.vocabulary // self.strategy.tensor
        most = {rank: array.max(axis=-1)[None] for rank, array in logits.items()}
        most = self.parameters.together("all_gather", "tensor", most, label)
        sums = {}
        for rank, array in logits.items():
            logits[rank] = array - most[rank].max(axis=0)[..., None]
            targets = self._sequences(rank, microbatch)[1] - self._place["tensor"][rank] * rows
            here = (targets >= 0) & (targets < rows)
            correct = np.take_along_axis(logits[rank], np.where(here, targets, 0)[..., None], -1)[..., 0] * here
            sums[rank] = np.stack([np.exp(logits[rank]).sum(axis=-1), correct])
        sums, tokens = self.parameters.together("all_reduce", "tensor", sums, label), self._tokens[:, 1:].size
        slopes = {}
        for rank, (total, correct) in sums.items():
            self._losses[rank] = self._losses.get(rank, np.zeros(1)) + (np.log(total) - correct).sum() / tokens
            targets = self._sequences(rank, microbatch)[1] - self._place["tensor"][rank] * rows
            one_hot = np.arange(rows) == targets[..., None]
            slopes[rank] = (np.exp(logits[rank]) / total[..., None] - one_hot) / tokens
        return slopes

    def _logits_backward(self, microbatch: int) -> Values:
        unit = self.parameters.output_unit
        for name in (unit, "last norm"):
            self.parameters.begin_backward(name, microbatch)
        kept, label = self._taken(unit, microbatch), self._tensor_label(unit, "backward", microbatch)
        table, g = self._of(unit), self._gradients(unit)
        n = {rank: tensors["n"] for rank, tensors in kept.items()}
        if not self.strategy.keep_gathered:
            n = self._enter(n, label)
        dn = {}
        for rank, tensors in kept.items():
            g[rank][unit] += np.tensordot(tensors["logits"], n[rank], ((0, 1), (0, 1)))
            dn[rank] = tensors["logits"] @ table[rank][unit]
        dn, norm, by_norm = self._leave(dn, label), self._of("last norm"), self._gradients("last norm")
        dx = {r: parts.normalise_backward(dn[r], kept[r]["x"], norm[r], by_norm[r]) for r in kept}
        self.parameters.end_backward("last norm", microbatch)
        if unit == "output":
            self.parameters.end_backward(unit, microbatch)
        return dx


def one_rank_step(model: Transformer, weights: Weights, tokens: Ints) -> tuple[float, Weights]:
    """Loss of all sequences at once on one rank, which sends nothing, and its gradients."""
    run = ShardedTransformer(model, Strategy(micro_batch=len(tokens)), len(tokens), weights)
    return run.step(tokens), run.collected("summed")


def transformer_transfers(
    model: Transformer,
    strategy: Strategy,
    global_batch: int,
    runtime: Runtime = MODERN,
    embeddings: bool = True,
    hb_domain_size: int = 8,
) -> pd.DataFrame:
    """`comparison` of a step from random weights and tokens."""
    run = ShardedTransformer(
        model, strategy, global_batch, runtime=runtime, embeddings=embeddings, hb_domain_size=hb_domain_size
    )
    run.step(random_tokens(model, global_batch))
    return run.comparison()
