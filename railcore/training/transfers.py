"""Transfers of one training iteration: which group sends what, how often, for any strategy and software.

Symbols: L layers, h hidden, s sequence length, V vocabulary, k copies of a token (top_k) of the model; t, c, p, d, e, v
of the strategy; b micro-batch [sequences], m micro-batches, u = s b h / c activation elements of one micro-batch.
Operators of a layer: attention and feed-forward, one where they are parallel (PaLM).

    kind      group           operation, and how often on one rank
    tensor    tensor          all_reduce of u for each operator, forward and backward
    sequence  tensor          in its place all_gather and reduce_scatter of u, of k u around routed experts; backward a
                              second all_gather of u, unless the operator's gathered input was kept
    context   context         keys and values (of latent attention the heads' own): all_gather forward and backward,
                              reduce_scatter of gradients backward
    expert    expert          all_to_all of k u (k u / t in slices) to the experts and back, forward and backward
    pipeline  pipeline        send of u (u / t in slices) for each of v chunks, forward and backward
    data      replica         gradients and weights by sharding; of experts over expert_replica

Whole experts take the tokens in slices always; without sequence parallelism their results are gathered. Full recompute
repeats the forward pass of a layer (pass "recompute"), selective what the runtime's modules exchange. With `embeddings`
the first and the last stage add theirs. Layers that predict further tokens are layers of the last stage, with a
projection and logits each. Parameters are those that a rank holds (`rank_parameters`) of the average layer, copies of
what other tensor ranks hold included. Left out are small sums: those of copies' gradients over the tensor ranks, of the
loss and of the gradients' norm. The tests train a transformer on simulated ranks that send these bytes, and hold them
to the link times of `iteration_time`.

Sources: Shoeybi et al. 2019 (tensor); Korthikanti et al. 2022 (sequence); Narayanan et al. 2021 (pipeline); Rajbhandari
et al. 2020 (sharding); Llama Team 2024, Section 3.3 (context).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from railcore.facts.checks import Floats, one_of
from railcore.training.collectives import bus_factor
from railcore.training.expert_dispatch import dispatch_bytes
from railcore.training.formats import FORMATS
from railcore.training.parallelism import Strategy
from railcore.training.products import ELEMENT_BYTES
from railcore.training.rank import expert_rows
from railcore.training.recompute import recomputed_operators
from railcore.training.runtime import Runtime
from railcore.training.software import as_runtime
from railcore.training.transformer import Transformer
from railcore.training.transformer_memory import WEIGHT_BYTES, RankParameters

TRAFFIC_KINDS = ("tensor", "sequence", "context", "expert", "pipeline", "data")


class Transfer(NamedTuple):
    """One row of a step: `calls` times on one rank, of the stages named.

    kind, phase, operation: of TRAFFIC_KINDS, pass of the step, collective or "send_receive".
    group: a kind of group of `Strategy`, "ends" (first and last stage of a pipeline), or "expert domain" and "expert
        rail" (members of an expert group in one HB domain, and those at the same place in each domain).
    ranks: its members.
    per: what it is done once for, such as "layer".
    calls: times in a step, on the stage that has it most often.
    message_bytes: of the whole operation.
    stages: "every", "first", "last", "ends", or "all but first" / "all but last", whose exception has (v - 1) / v.
    shares: of `calls`, that each stage makes [p], where stages of "every" differ.
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

    Returns
    -------
    Columns kind, pass ("forward", "recompute", "backward", "after"), operation, per ("operator", "layer",
    "microbatch", "model"), stages (that have it), calls (in a step), message_bytes (the full gathered buffer on one
    rank; of an all_to_all and a send what one rank sends, its own share counted in), ranks, sent_bytes (by one rank
    in a step, with algorithms that are optimal in bandwidth).

    Raises
    ------
    ValueError
        As `Strategy.check`, for another precision, and for the dispatcher "nodes" without HB domains that divide the
        experts' ranks.
    """
    rows = step_transfers(model, strategy, global_batch, runtime, precision, hb_domain_size, embeddings)
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
) -> list[Transfer]:
    """The transfers of one training step. Those of a single rank and those of no bytes are left out.

    Parameters
    ----------
    model, strategy, global_batch, runtime, precision, hb_domain_size, embeddings
        As in `transfer_table`.

    Returns
    -------
    One row for each kind of transfer.
    """
    strategy.check(model, global_batch)
    one_of("precision", precision, FORMATS)
    step = _Step(model, strategy, strategy.microbatches(global_batch), as_runtime(runtime), precision, hb_domain_size)
    parts = (_operators, _contexts, _experts, _boundaries, _replicas, *[_ends] * embeddings)
    rows = [row for part in parts for row in part(step)]
    return [row for row in rows if row.ranks > 1 and row.calls * row.message_bytes > 0]


@dataclass(frozen=True)
class _Step:
    """What is asked for, and what of it all kinds of traffic need. m: micro-batches."""

    model: Transformer
    strategy: Strategy
    m: int
    runtime: Runtime
    precision: str
    hb_domain_size: int

    @property
    def tokens(self) -> float:
        """Of a micro-batch on a rank: s b / c."""
        return self.strategy.micro_batch * self.model.sequence_length / self.strategy.context

    @property
    def activations(self) -> float:
        """Bytes of u."""
        return self.tokens * self.model.hidden * ELEMENT_BYTES

    @property
    def narrow(self) -> float:
        """What fp8 leaves of the bytes that tensor ranks gather."""
        return 0.5 if self.runtime.fp8_tensor and self.precision != "bf16" else 1.0

    @property
    def passes(self) -> tuple[str, ...]:
        """Passes with the whole traffic of a layer."""
        full = self.strategy.recompute == "full"
        return ("forward", "recompute", "backward") if full else ("forward", "backward")

    @property
    def modules(self) -> frozenset[str]:
        """Modules that selective recompute makes again."""
        return frozenset(self.runtime.recompute_modules if self.strategy.recompute == "selective" else ())

    @property
    def dual(self) -> bool:
        """Whether a rank has two stages, one from each end (DualPipe)."""
        return bool(self.runtime.dual(self.strategy.pipeline, self.strategy.interleave))

    @cached_property
    def layers(self) -> Floats:
        """Layers of each stage [p]: equal places, of which embedding and loss may take one each."""
        return np.diff(self._layer_bounds) + self.model.mtp_layers * self._is_last

    @cached_property
    def mixtures(self) -> Floats:
        """Mixture layers of each stage [p]: the average of every interval behind the dense layers."""
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
        """What all ranks do of what is given for their stages [p]: the most, and each one's share of it.

        times: 0.5 where a rank of DualPipe has half of the micro-batches of each of its stages.
        """
        found = (stages + stages[::-1]) * times if self.dual else stages
        most = float(found.max())
        return most, () if np.ptp(found) <= 1e-9 * most else tuple((found / most).tolist())

    def layered(
        self, kind: str, phase: str, operation: str, per: str, group: str, each: Floats, size: float
    ) -> Transfer:
        """A row of what layers do in every micro-batch. each: how often on the layers of each stage [p]."""
        most, shares = self.of_ranks(each, 0.5)
        ranks = getattr(self.strategy, group)
        return Transfer(kind, phase, operation, per, group, "every", most * self.m, size, ranks, shares)


def _operators(step: _Step) -> Iterator[Transfer]:
    model, strategy, u = step.model, step.strategy, step.activations
    tail = ("operator", "tensor")
    mixed, layers = step.mixtures, np.maximum(step.layers, 1e-9)
    plain = step.layers * (1 if model.parallel_block else 2) - mixed * (0 if model.shared_hidden else 1)
    # Selective recompute repeats a part of the exchanges around what is not routed, and all around routed experts or
    # none.
    part = recomputed_operators(model, step.modules, mixed / layers, plain / layers)
    some = [("recompute", plain * part, mixed * ("moe" in step.modules))] * bool(step.modules - {"core_attn"})
    for phase, operators, routed in [*((phase, plain, mixed) for phase in step.passes), *some]:
        if not strategy.sequence_parallel:
            # Tensor ranks sum their parts of what sliced experts make; what whole ones make of slices they gather.
            summed = operators if strategy.whole_experts or model.shared_hidden else operators + routed
            yield step.layered("tensor", phase, "all_reduce", *tail, summed, u)
            if strategy.whole_experts:
                yield step.layered("tensor", phase, "all_gather", *tail, routed, u)
            continue
        again = phase == "backward" and not strategy.keep_gathered
        yield step.layered("sequence", phase, "all_gather", *tail, operators * (1 + again), u * step.narrow)
        yield step.layered("sequence", phase, "reduce_scatter", *tail, operators, u)
        # Sliced experts: tokens are gathered over the tensor ranks after they have come to them, k copies of each.
        copies = 0.0 if strategy.whole_experts else u * expert_rows(model, step.runtime)
        yield step.layered("sequence", phase, "all_gather", *tail, routed, copies)
        yield step.layered("sequence", phase, "reduce_scatter", *tail, routed, copies)


def _contexts(step: _Step) -> Iterator[Transfer]:
    elements = float(step.model.key_value_elements(step.strategy.tensor))
    both = elements * step.model.sequence_length * step.strategy.micro_batch * ELEMENT_BYTES
    for phase in step.passes:
        yield step.layered("context", phase, "all_gather", "layer", "context", step.layers, both)
    yield step.layered("context", "backward", "reduce_scatter", "layer", "context", step.layers, both)


def _experts(step: _Step) -> Iterator[Transfer]:
    if not step.model.experts:
        return
    strategy, runtime = step.strategy, step.runtime
    slices = strategy.tensor if strategy.sequence_parallel or strategy.whole_experts else 1
    rows = expert_rows(step.model, runtime)
    for phase in [*step.passes, *["recompute"] * ("moe" in step.modules)]:
        there = ELEMENT_BYTES if phase == "backward" else runtime.dispatch_bytes
        for element_bytes in (there, ELEMENT_BYTES):
            if runtime.dispatcher == "nodes":
                yield from _by_domain(step, phase, step.tokens / slices, element_bytes, rows / step.model.top_k)
                continue
            size = rows * step.tokens / slices * step.model.hidden * element_bytes
            yield step.layered("expert", phase, "all_to_all", "layer", "expert", step.mixtures, size)


def _by_domain(step: _Step, phase: str, tokens: float, element_bytes: float, busiest: float) -> Iterator[Transfer]:
    """One way with a copy for each HB domain, which forwards it. busiest: rows of the busiest rank over the mean."""
    model, e = step.model, step.strategy.expert
    if step.hb_domain_size < 1:
        raise ValueError("hb_domain_size is 0: the dispatcher 'nodes' sends by HB domains, give their GPUs")
    x, y = (int(n) for n in step.strategy.group_levels()["expert"].in_domains(step.hb_domain_size))
    sizes = (tokens, model.hidden, model.experts, model.top_k, e, x, "nodes", element_bytes)
    sent = dispatch_bytes(*sizes, model.expert_groups, model.token_groups)
    for group, n, size in (("expert rail", y, sent.nic_bytes), ("expert domain", x, sent.hb_bytes)):
        if n > 1:  # of a message one's own part stays
            message = busiest * float(size) * n / (n - 1)
            row = step.layered("expert", phase, "all_to_all", "layer", "expert", step.mixtures, message)
            yield row._replace(group=group, ranks=n)


def _boundaries(step: _Step) -> Iterator[Transfer]:
    strategy, u = step.strategy, step.activations
    if strategy.pipeline == 1:
        return
    calls = step.m * strategy.interleave
    gathered = step.runtime.scatter_gather and not strategy.sequence_parallel
    size = u / (strategy.tensor if gathered or strategy.sequence_parallel else 1)
    for phase, senders, receivers in (("forward", "last", "first"), ("backward", "first", "last")):
        row = ("microbatch", "pipeline", f"all but {senders}", calls, size, 2)
        yield Transfer("pipeline", phase, "send_receive", *row)
        if gathered:
            row = ("microbatch", "tensor", f"all but {receivers}", calls, u, strategy.tensor)
            yield Transfer("tensor", phase, "all_gather", *row)


def _held(step: _Step) -> RankParameters:
    return step.model.rank_parameters(step.strategy.tensor, step.strategy.expert, step.strategy.whole_experts)


def _replicas(step: _Step) -> Iterator[Transfer]:
    model, strategy, held = step.model, step.strategy, _held(step)
    shared = float(held.layers(1 - model.mixture_share, model.mixture_share))
    replica = strategy.context * strategy.data
    own = step.layers - model.mtp_layers * step._is_last  # parameters of predicting layers count with the ends
    yield from _synchronised(step, shared, *step.of_ranks(own), "replica", replica)
    if model.experts:
        ranks = replica * (strategy.tensor if strategy.whole_experts else 1) // strategy.expert
        yield from _synchronised(step, float(held.experts), *step.of_ranks(step.mixtures), "expert_replica", ranks)


def _synchronised(
    step: _Step, each: float, most: float, shares: tuple[float, ...], group: str, ranks: int
) -> Iterator[Transfer]:
    """Gradients summed and weights shared over a group: at most so many layers of `each` parameters, by stage."""
    sent = FORMATS[step.precision].gathered_bytes if step.runtime.fp8_weights else WEIGHT_BYTES
    weights, gradients = each * sent, each * step.runtime.gradient_bytes
    by_layer, once = ("layer", group, "every", most * step.m), ("model", group, "every", 1)
    if step.strategy.sharding == "none":
        yield Transfer("data", "after", "all_reduce", *once, gradients * most, ranks, shares)
    elif step.strategy.sharding == "optimizer":
        yield Transfer("data", "after", "reduce_scatter", *once, gradients * most, ranks, shares)
        yield Transfer("data", "after", "all_gather", *once, weights * most, ranks, shares)
    elif step.strategy.sharding == "gradients":
        yield Transfer("data", "backward", "reduce_scatter", *by_layer, gradients, ranks, shares)
        yield Transfer("data", "after", "all_gather", *once, weights * most, ranks, shares)
    else:
        yield Transfer("data", "forward", "all_gather", *by_layer, weights, ranks, shares)
        yield Transfer("data", "backward", "all_gather", *by_layer, weights, ranks, shares)
        yield Transfer("data", "backward", "reduce_scatter", *by_layer, gradients, ranks, shares)


def _ends(step: _Step) -> Iterator[Transfer]:
    """Embedding, last norm and logits: their tensor collectives, their gradients, and the sum of those that are tied.

    Tied gradients that are sharded as they come are summed shard by shard; else each of the two ranks has them whole.
    From both ends the first and the last rank have embedding and logits, each for half of the micro-batches.
    """
    strategy, held = step.strategy, _held(step)
    u, t, p, further = step.activations, strategy.tensor, strategy.pipeline, step.model.mtp_layers
    tensor = [("backward", "all_reduce", "last"), ("forward", "all_reduce", "first")]
    if strategy.sequence_parallel:
        tensor = [("forward", "reduce_scatter", "first"), ("backward", "all_gather", "first")]
        tensor += [("forward", "all_gather", "last"), ("backward", "reduce_scatter", "last")]
        tensor += [] if strategy.keep_gathered else [("backward", "all_gather", "last")]
    kind = "sequence" if strategy.sequence_parallel else "tensor"
    m = step.m / 2 if step.dual else step.m
    for phase, operation, stage in tensor:
        # A further token has logits and, as a product whose input and result tensor ranks exchange once, a projection.
        times = 1 + further if stage == "last" else 1
        yield Transfer(kind, phase, operation, "microbatch", "tensor", _at(step, stage), m * times, u, t)
    for phase, operation in (("forward", "all_gather"), ("backward", "reduce_scatter")):
        yield Transfer(kind, phase, operation, "microbatch", "tensor", _at(step, "last"), m * further, u, t)
    replica = strategy.context * strategy.data
    for size, stage in ((held.first, "first"), (held.last(1 if step.dual else p), "last")):
        for row in _synchronised(step, float(size), 1, (), "replica", replica):
            yield row._replace(stages=_at(step, stage))
    tied = float(held.tied) / (replica if strategy.sharding in ("gradients", "weights") else 1)
    calls = int(p > 1 and not step.dual)
    size = tied * step.runtime.gradient_bytes
    yield Transfer("pipeline", "after", "all_reduce", "model", "ends", "ends", calls, size, 2)


def _at(step: _Step, stage: str) -> str:
    return "ends" if step.dual else stage
