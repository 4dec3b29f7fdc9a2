"""Transfers of one training iteration: which group sends what, how often, for any strategy and software.

`exchanges` has the table of what one micro-batch sends in a layer and at the model's ends, and of gradients and weights
by sharding. Here it is counted over a step: m micro-batches, v chunks, and the layers of each of p stages.

What a pass has gathered may be kept for the backward pass (`KEPT`): weights are then gathered once a step, keys and
values once a micro-batch. Full recompute repeats the forward pass of a layer (pass "recompute"), selective what the
runtime's modules exchange. With `embeddings` the first and the last stage add theirs. Layers that predict further
tokens are layers of the last stage, with a projection and logits each. Parameters are those that a rank holds
(`trained_and_frozen`) of the average layer, copies of what other tensor ranks hold included. Left out are small sums:
those of copies' gradients over the tensor ranks, of the loss and of the gradients' norm. The tests train a transformer
on simulated ranks that send these bytes, and hold them to the link times of `iteration_time`.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from railcore.catalog.checks import Floats, one_of
from railcore.training.collectives import bus_factor
from railcore.training.exchanges import (
    REPLICA_EXCHANGES,
    Exchange,
    adapter_exchanges,
    boundary_exchanges,
    context_exchanges,
    embedding_exchanges,
    expert_exchanges,
    logits_exchanges,
    projection_exchanges,
    replica_element_bytes,
    tensor_exchanges,
)
from railcore.training.formats import FORMATS
from railcore.training.parallelism import Strategy
from railcore.training.rank import Rank
from railcore.training.runtime import Runtime
from railcore.training.software import as_runtime
from railcore.training.transformer import Transformer
from railcore.training.transformer_memory import RankParameters

# What may be kept once it is gathered, and the kind of its traffic; `keep_gathered` of a strategy has tensor inputs.
KEPT = {"weights": "data", "keys": "context"}


class Transfer(NamedTuple):
    """One row of a step: `calls` times on one rank, of the stages named.

    kind, phase, operation: one of TRAFFIC_KINDS; pass of the step; a collective or "send_receive".
    group: a kind of group of `Strategy`, "ends" (first and last stage of a pipeline), or "expert domain" and "expert
        rail" (members of an expert group in one HB domain, and those at the same place in each domain).
    ranks: members of the group.
    per: what it is done once for, such as "layer".
    calls: times in a step, on the stage that has it most often.
    message_bytes: the buffer that is gathered or reduced, whole; of an all_to_all and a send what one rank sends.
    stages: that have it: "every", "first", "last", "ends", "all but first" or "all but last"; the stage left out there
        makes (v - 1) / v of the calls.
    shares: share of `calls` that each stage makes [p], where the stages of "every" differ.
    """

    kind: str
    phase: str
    operation: str
    per: str
    group: str
    stages: str
    calls: float
    message_bytes: float
    ranks: int
    shares: tuple[float, ...] = ()

    @property
    def sent_bytes(self) -> float:
        """Bytes that one rank sends in all its calls, with an algorithm that is optimal in bandwidth."""
        share = 1.0 if self.operation == "send_receive" else float(bus_factor(self.operation, self.ranks))
        return self.calls * self.message_bytes * share

    def stage_weights(self, strategy: Strategy) -> NDArray[np.float64]:
        """Share of `calls` that each pipeline stage makes [p]."""
        if self.shares:
            return np.array(self.shares)
        p, v = strategy.pipeline, strategy.interleave
        weights = np.full(p, float(self.stages.startswith(("every", "all"))))
        wrapped = (v - 1) / v if self.stages.startswith("all") else 1.0
        if self.stages in ("first", "ends", "all but first"):
            weights[0] = wrapped
        if self.stages in ("last", "ends", "all but last"):
            weights[-1] = wrapped
        return weights


def transfer_table(
    model: Transformer,
    strategy: Strategy,
    global_batch: int,
    runtime: Runtime | str | None = None,
    precision: str = "bf16",
    hb_domain_size: int = 0,
    embeddings: bool = True,
    kept: Collection[str] = (),
) -> pd.DataFrame:
    """The communication of one training step, as a rank of the stage with most layers sees it.

    Parameters
    ----------
    model, strategy
        The model, and how it is split.
    global_batch
        Sequences of the step.
    runtime
        The training software, or its name in the catalog; None for the newest for NVIDIA's GPUs. Of it count the bytes
        of gradients, slices of what tensor ranks send, the dispatcher of experts, and what selective recompute makes
        again.
    precision
        Of the linear layers, in which some software sends.
    hb_domain_size
        GPUs of an HB domain (scale-up or NVLink domain); a runtime whose dispatcher is "nodes" needs it.
    embeddings
        Whether the traffic of the embedding, of the last norm and of the logits counts.
    kept
        What is not gathered again in the backward pass, of KEPT: "weights" that data ranks share (FSDP that does not
        reshard), "keys" and values of context ranks.

    Returns
    -------
    Columns kind, pass ("forward", "recompute", "backward", "after"), operation, per ("operator", "layer",
    "microbatch", "model"), stages (that have it), calls (in a step), message_bytes (the full gathered buffer on one
    rank; of an all_to_all and a send what one rank sends, its own share counted in), ranks, sent_bytes (by one rank
    in a step, with algorithms that are optimal in bandwidth).

    Raises
    ------
    ValueError
        As `Strategy.check`, for another precision or thing to keep, and for the dispatcher "nodes" without HB domains
        that divide the experts' ranks.
    """
    rows = step_transfers(model, strategy, global_batch, runtime, precision, hb_domain_size, embeddings, kept)
    table = pd.DataFrame(rows, columns=Transfer._fields).rename(columns={"phase": "pass"})
    return table.drop(columns=["group", "shares"]).assign(sent_bytes=np.array([row.sent_bytes for row in rows], float))


def step_transfers(
    model: Transformer,
    strategy: Strategy,
    global_batch: int,
    runtime: Runtime | str | None = None,
    precision: str = "bf16",
    hb_domain_size: int = 0,
    embeddings: bool = True,
    kept: Collection[str] = (),
) -> list[Transfer]:
    """The transfers of one training step. Those of a single rank and those of no bytes are left out.

    Parameters
    ----------
    model, strategy, global_batch, runtime, precision, hb_domain_size, embeddings, kept
        As for `transfer_table`.

    Returns
    -------
    One row for each kind of transfer.
    """
    strategy.check(model, global_batch)
    one_of("precision", precision, FORMATS)
    for name in kept:
        one_of("kept", name, KEPT)
    software = as_runtime(runtime)
    if model.experts and software.dispatcher == "nodes" and hb_domain_size < 1:
        raise ValueError("hb_domain_size is 0: the dispatcher 'nodes' sends by HB domains, give their GPUs")
    step = _Step(model, strategy, strategy.microbatches(global_batch), software, precision, hb_domain_size)
    parts = (_layers, _boundaries, _replicas, *[_ends] * embeddings)
    rows = _without_repeats((row for part in parts for row in part(step)), step.m, kept)
    return [row for row in rows if row.ranks > 1 and row.calls * row.message_bytes > 0]


def _without_repeats(rows: Iterable[Transfer], m: int, kept: Collection[str]) -> Iterator[Transfer]:
    """Rows without AllGathers that repeat what is kept; weights are gathered for the first of m micro-batches."""
    kinds = [KEPT[name] for name in kept]
    for row in rows:
        if row.kind not in kinds or row.operation != "all_gather" or row.phase == "after":
            yield row
        elif row.phase == "forward":
            yield row._replace(calls=row.calls / (m if row.kind == "data" else 1))


_FULL, _SELECTIVE = ("recompute", "forward"), ("recompute", "again")  # passes, and the phase that they repeat


@dataclass(frozen=True)
class _Step:
    """A training step, and what all kinds of its traffic need. m: micro-batches."""

    model: Transformer
    strategy: Strategy
    m: int
    runtime: Runtime
    precision: str
    hb_domain_size: int

    @cached_property
    def rank(self) -> Rank:
        """A rank of each stage [p]."""
        columns = self.strategy.columns(1)  # of the batch nothing depends here
        of_stages = {name: np.full(self.strategy.pipeline, value) for name, value in columns.items()}
        mixtures = self.mixtures / np.maximum(self.layers, 1e-9)
        return Rank(self.model, self.runtime, of_stages, mixtures, self.precision, self.hb_domain_size)

    @property
    def passes(self) -> tuple[tuple[str, str], ...]:
        """Passes of the step, and phases of a layer's exchanges that they have, in their order."""
        recompute = self.strategy.recompute
        return (
            ("forward", "forward"),
            *[_FULL] * (recompute == "full"),
            ("backward", "backward"),
            *[_SELECTIVE] * (recompute == "selective"),
        )

    @property
    def dual(self) -> bool:
        """Whether a rank has two stages, one from each end (DualPipe)."""
        return bool(self.runtime.dual(self.strategy.pipeline, self.strategy.interleave))

    @cached_property
    def layers(self) -> Floats:
        """Layers of each stage [p], spread evenly; embedding and loss may take the place of one each."""
        return np.diff(self._layer_bounds) + self.model.mtp_layers * self._is_last

    @cached_property
    def recomputed(self) -> Floats:
        """Layers of each stage that full recompute repeats [p]."""
        predicting = self.model.mtp_layers * self._is_last  # are always recomputed
        return np.minimum(self.strategy.recomputed_layers or np.inf, self.layers - predicting) + predicting

    @cached_property
    def mixtures(self) -> Floats:
        """Mixture layers of each stage [p], spread evenly behind the dense layers."""
        before = np.maximum(self._layer_bounds - self.model.dense_layers, 0.0) / self.model.expert_layer_interval
        return (np.diff(before) + self.model.mtp_layers * self._is_last) * bool(self.model.experts)

    @property
    def _layer_bounds(self) -> Floats:
        """Layers before each stage, and all of them [p + 1]."""
        p, ends = self.strategy.pipeline, self.strategy.ends_as_layers
        return np.clip(np.arange(p + 1) * (self.model.layers + 2 * ends) / p - ends, 0.0, self.model.layers)

    @property
    def _is_last(self) -> Floats:
        return (np.arange(self.strategy.pipeline) == self.strategy.pipeline - 1).astype(float)

    def of_ranks(self, stages: Floats, times: float = 1.0) -> tuple[float, tuple[float, ...]]:
        """From numbers for the stages [p]: the largest number that a rank has, and each rank's share of that.

        In a pipeline from both ends (DualPipe) a rank has the numbers of two stages.
        times: factor on each of the two; 0.5 where a rank has half of the micro-batches of each.
        """
        of_ranks = (stages + stages[::-1]) * times if self.dual else stages
        most = float(of_ranks.max())
        return most, () if np.ptp(of_ranks) <= 1e-9 * most else tuple((of_ranks / most).tolist())

    def layered(self, row: Exchange, phase: str, calls: Floats) -> Transfer:
        """What layers exchange in every micro-batch. calls: of the layers of each stage [p]."""
        most, shares = self.of_ranks(calls, 0.5)
        per = "operator" if row.group == "tensor" else "layer"
        size, ranks = _number(row.message_bytes), self.ranks(row.group)
        return Transfer(row.kind, phase, row.operation, per, row.group, "every", most * self.m, size, ranks, shares)

    def ranks(self, group: str) -> int:
        """Members of a kind of group."""
        if group in ("expert domain", "expert rail"):
            x, y = self.strategy.group_levels()["expert"].in_domains(self.hb_domain_size)
            return int(x if group == "expert domain" else y)
        return int(getattr(self.strategy, group))

    def at_end(self, row: Exchange, stage: str, times: float) -> Transfer:
        """What the first or the last stage exchanges in every micro-batch; with DualPipe both have half of them."""
        where, m = ("ends", self.m / 2) if self.dual else (stage, self.m)
        calls, size = _number(row.calls) * m * times, _number(row.message_bytes)
        head = row.kind, row.phase, row.operation, "microbatch", row.group
        return Transfer(*head, where, calls, size, self.ranks(row.group))


def _number(value: Any) -> float:
    """The number of the first stage, of stages that are alike."""
    return float(np.ravel(value)[0])


def _layers(step: _Step) -> Iterator[Transfer]:
    for exchanges in (tensor_exchanges, adapter_exchanges, context_exchanges, expert_exchanges):
        rows = list(exchanges(step.rank))
        for phase, of_pass in step.passes:
            layers = step.recomputed if (phase, of_pass) == _FULL else step.layers
            for row, calls in _summed(row for row in rows if row.phase == of_pass):
                yield step.layered(row, phase, calls * layers)


def _summed(rows: Iterable[Exchange]) -> Iterator[tuple[Exchange, Any]]:
    """Rows with their calls. AllReduces around routed experts are added to those around other operators."""
    rows = list(rows)
    routed = sum(row.calls for row in rows if row.operation == "all_reduce" and row.routed)
    for row in rows:
        if row.operation != "all_reduce":
            yield row, row.calls
        elif not row.routed:
            yield row, row.calls + routed


def _boundaries(step: _Step) -> Iterator[Transfer]:
    strategy = step.strategy
    if strategy.pipeline == 1:
        return
    ends = {"forward": ("last", "first"), "backward": ("first", "last")}
    for row in boundary_exchanges(step.rank):
        senders, receivers = ends[row.phase]
        stages, ranks = (senders, 2) if row.operation == "send_receive" else (receivers, strategy.tensor)
        calls, size = _number(row.calls) * step.m * strategy.interleave, _number(row.message_bytes)
        head = row.kind, row.phase, row.operation, "microbatch", row.group
        yield Transfer(*head, f"all but {stages}", calls, size, ranks)


def _trained_and_frozen(step: _Step) -> tuple[RankParameters, RankParameters]:
    return step.model.trained_and_frozen(step.strategy.tensor, step.strategy.expert, step.strategy.whole_experts)


def _replicas(step: _Step) -> Iterator[Transfer]:
    model, strategy, held = step.model, step.strategy, _trained_and_frozen(step)
    shared = [float(part.layers(1 - model.mixture_share, model.mixture_share)) for part in held]
    replica = strategy.context * strategy.data
    layers = step.layers - model.mtp_layers * step._is_last  # parameters of predicting layers count with the ends
    yield from _synchronised(step, shared, *step.of_ranks(layers), "replica", replica)
    if model.experts:
        ranks = replica * (strategy.tensor if strategy.whole_experts else 1) // strategy.expert
        yield from _synchronised(
            step, [float(part.experts) for part in held], *step.of_ranks(step.mixtures), "expert_replica", ranks
        )


def _synchronised(
    step: _Step, layer_parameters: Sequence[float], layers: float, shares: tuple[float, ...], group: str, ranks: int
) -> Iterator[Transfer]:
    """Gradients and weights that a group exchanges; frozen weights are gathered in passes alone.

    layer_parameters: trained and frozen ones. layers: of the stage with most. shares: of them, by stage.
    """
    element_bytes, (trained, frozen) = (
        replica_element_bytes(step.runtime, FORMATS[step.precision], step.model),
        layer_parameters,
    )
    for row in REPLICA_EXCHANGES[step.strategy.sharding]:
        in_passes = row.what == "weights" and row.phase != "after"
        size = trained * element_bytes[row.what] + frozen * element_bytes["frozen"] * in_passes
        per, calls, message = (
            ("model", 1.0, size * layers) if row.phase == "after" else ("layer", layers * step.m, size)
        )
        yield Transfer("data", row.phase, row.operation, per, group, "every", calls, message, ranks, shares)


def _ends(step: _Step) -> Iterator[Transfer]:
    """Embedding, last norm and logits: their tensor collectives, their gradients, and the sum of tied gradients.

    Tied gradients that are sharded in the backward pass are summed shard by shard; else each of the two ranks has them
    whole. A predicting layer has logits and a projection.
    """
    strategy, held = step.strategy, _trained_and_frozen(step)
    p, predicting = strategy.pipeline, step.model.mtp_layers
    for exchanges, stage, times in (
        (embedding_exchanges, "first", 1),
        (logits_exchanges, "last", 1 + predicting),
        (projection_exchanges, "last", predicting),
    ):
        yield from (step.at_end(row, stage, times) for row in exchanges(step.rank))
    replica = strategy.context * strategy.data
    first, last = [float(part.first) for part in held], [float(part.last(1 if step.dual else p)) for part in held]
    for sizes, stage in ((first, "first"), (last, "last")):
        for row in _synchronised(step, sizes, 1, (), "replica", replica):
            yield row._replace(stages="ends" if step.dual else stage)
    tied = float(held[0].tied) / (replica if strategy.sharding in ("gradients", "weights") else 1)
    calls = int(p > 1 and not step.dual)
    size = tied * step.runtime.gradient_bytes
    yield Transfer("pipeline", "after", "all_reduce", "model", "ends", "ends", calls, size, 2)
