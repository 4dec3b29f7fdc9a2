"""Transfers of one training iteration: which group sends what, how often, for any strategy.

Symbols: L layers, h hidden, s sequence length, V vocabulary, k top_k of the model; t, c, p, d, e, v of the strategy;
b micro-batch [sequences], m micro-batches, n = L / p layers of a rank, u = b s h / c activation elements of one
micro-batch. Operators of a layer: attention and feed-forward, one where they are parallel (PaLM).

    kind      group           operation, and how often on one rank
    tensor    tensor          all_reduce of u for each operator, forward and backward
    sequence  tensor          in its place all_gather and reduce_scatter of u; backward a second all_gather, for the
                              operator's input was kept as a slice only
    context   context         keys and values (of latent attention the heads' own): all_gather forward and backward,
                              reduce_scatter of gradients backward
    expert    expert          all_to_all of k u (k u / t in slices) to the experts and back, forward and backward
    pipeline  pipeline        send of u (u / t in slices) for each of v chunks, forward and backward
    data      replica         gradients and weights by sharding; of experts over expert_replica

Full recompute repeats the forward pass of a layer (pass "recompute"). With `embeddings` the first and the last stage
add theirs. Parameters are those that a rank holds (`rank_parameters`) of the average layer, copies of what other tensor
ranks hold included. Left out are the traffic of further-token layers and of modules that selective recompute does
again, and small sums: those of copies' gradients over the tensor ranks, of the loss and of the gradients' norm. The
tests train a transformer on simulated ranks that send these bytes.

Sources: Shoeybi et al. 2019 (tensor); Korthikanti et al. 2022 (sequence); Narayanan et al. 2021 (pipeline); Rajbhandari
et al. 2020 (sharding); Llama Team 2024, Section 3.3 (context).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from railcore.facts.arguments import Positive, checked
from railcore.training.collectives import bus_factor
from railcore.training.parallelism import Strategy
from railcore.training.transformer import Transformer

TRAFFIC_KINDS = ("tensor", "sequence", "context", "expert", "pipeline", "data")


@checked
@dataclass(frozen=True)
class TrafficOptions:
    """Bytes of an element, and variants of a step's communication.

    activation_bytes, weight_bytes, gradient_bytes: of an element.
    keep_gathered: with sequence parallelism, gathered inputs are kept. That takes memory and saves the second gather.
    scatter_gather: without sequence parallelism, tensor ranks send slices to the next stage, which gathers them
        (Narayanan et al. 2021, 4.1).
    embeddings: count the traffic of the embedding, of the last norm and of the logits.
    """

    activation_bytes: Positive = 2
    weight_bytes: Positive = 2
    gradient_bytes: Positive = 2
    keep_gathered: bool = False
    scatter_gather: bool = False
    embeddings: bool = True


DEFAULT_OPTIONS = TrafficOptions()


class Transfer(NamedTuple):
    """One row of a step: `calls` times on one rank, of the stages named.

    kind, phase, operation: of TRAFFIC_KINDS, pass of the step, collective or "send_receive".
    group: a kind of group of `Strategy`, or "ends" (first and last stage of a pipeline).
    ranks: its members.
    per: what it is done once for, such as "layer".
    calls: times in a step.
    message_bytes: of the whole operation.
    stages: "every", "first", "last", "ends", or "all but first" / "all but last", whose exception has (v - 1) / v.
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

    @property
    def sent_bytes(self) -> float:
        """Bytes that one rank sends in all its calls, with an algorithm that is optimal in bandwidth."""
        share = 1.0 if self.operation == "send_receive" else float(bus_factor(self.operation, self.ranks))
        return self.calls * self.message_bytes * share

    def stage_weights(self, strategy: Strategy) -> NDArray[np.float64]:
        """Share of `calls` that each pipeline stage makes [p]."""
        p, v = strategy.pipeline, strategy.interleave
        weights = np.full(p, float(self.stages.startswith(("every", "all"))))
        wrapped = (v - 1) / v if self.stages.startswith("all") else 1.0
        if self.stages in ("first", "ends", "all but first"):
            weights[0] = wrapped
        if self.stages in ("last", "ends", "all but last"):
            weights[-1] = wrapped
        return weights


def transfer_table(
    model: Transformer, strategy: Strategy, global_batch: int, options: TrafficOptions = DEFAULT_OPTIONS
) -> pd.DataFrame:
    """The communication of one training step, as a rank of a stage sees it.

    Parameters
    ----------
    model, strategy, options
        The model, how it is split, and what is sent.
    global_batch
        Sequences of the step.

    Returns
    -------
    Columns kind, pass ("forward", "recompute", "backward", "after"), operation, per ("operator", "layer",
    "microbatch", "model"), stages (that have it), calls (in a step), message_bytes (the full gathered buffer on one
    rank; of an all_to_all and a send what one rank sends, its own share counted in), ranks, sent_bytes (by one rank
    in a step, with algorithms that are optimal in bandwidth).

    Raises
    ------
    ValueError
        As `Strategy.check`.
    """
    rows = step_transfers(model, strategy, global_batch, options)
    table = pd.DataFrame(rows, columns=Transfer._fields).rename(columns={"phase": "pass"}).drop(columns="group")
    return table.assign(sent_bytes=np.array([row.sent_bytes for row in rows], float))


def step_transfers(
    model: Transformer, strategy: Strategy, global_batch: int, options: TrafficOptions = DEFAULT_OPTIONS
) -> list[Transfer]:
    """The transfers of one training step. Those of a single rank and those of no bytes are left out.

    Parameters
    ----------
    model, strategy, global_batch, options
        As in `transfer_table`.

    Returns
    -------
    One row for each kind of transfer.
    """
    strategy.check(model, global_batch)
    m = strategy.microbatches(global_batch)
    parts = (_operators, _contexts, _experts, _boundaries, _replicas)
    rows = [row for part in parts for row in part(model, strategy, m, options)]
    if options.embeddings:
        rows += _ends(model, strategy, m, options)
    return [row for row in rows if row.ranks > 1 and row.calls * row.message_bytes > 0]


def _activations(model: Transformer, strategy: Strategy, options: TrafficOptions) -> float:
    """Bytes of u."""
    tokens = strategy.micro_batch * model.sequence_length / strategy.context
    return tokens * model.hidden * options.activation_bytes


def _passes(strategy: Strategy) -> tuple[str, ...]:
    return ("forward", "recompute", "backward") if strategy.recompute == "full" else ("forward", "backward")


def _operators(model: Transformer, strategy: Strategy, m: int, options: TrafficOptions) -> Iterator[Transfer]:
    u, n = _activations(model, strategy, options), model.layers / strategy.pipeline
    mixed = model.mixture_layers / strategy.pipeline
    dense = n * (1 if model.parallel_block else 2) - mixed
    tail = ("operator", "tensor", "every")
    if not strategy.sequence_parallel:
        for phase in _passes(strategy):
            yield Transfer("tensor", phase, "all_reduce", *tail, (dense + mixed) * m, u, strategy.tensor)
        return
    # A mixture's tokens are gathered over the tensor ranks after they have come to their experts, k copies of each; for
    # its shared experts they are gathered as in a dense layer.
    plain = dense + (mixed if model.shared_hidden else 0)
    for size, operators in ((u, plain), (u * model.top_k, mixed)):
        for phase in _passes(strategy):
            gathers = 2 if phase == "backward" and not options.keep_gathered else 1
            yield Transfer("sequence", phase, "all_gather", *tail, gathers * operators * m, size, strategy.tensor)
            yield Transfer("sequence", phase, "reduce_scatter", *tail, operators * m, size, strategy.tensor)


def _contexts(model: Transformer, strategy: Strategy, m: int, options: TrafficOptions) -> Iterator[Transfer]:
    elements = float(model.key_value_elements(strategy.tensor))
    both = elements * model.sequence_length * strategy.micro_batch * options.activation_bytes
    calls = model.layers / strategy.pipeline * m
    for phase in _passes(strategy):
        yield Transfer("context", phase, "all_gather", "layer", "context", "every", calls, both, strategy.context)
    yield Transfer("context", "backward", "reduce_scatter", "layer", "context", "every", calls, both, strategy.context)


def _experts(model: Transformer, strategy: Strategy, m: int, options: TrafficOptions) -> Iterator[Transfer]:
    sliced = strategy.tensor if strategy.sequence_parallel else 1
    sent = _activations(model, strategy, options) * model.top_k / sliced
    calls = 2 * model.mixture_layers / strategy.pipeline * m
    for phase in _passes(strategy):
        yield Transfer("expert", phase, "all_to_all", "layer", "expert", "every", calls, sent, strategy.expert)


def _boundaries(model: Transformer, strategy: Strategy, m: int, options: TrafficOptions) -> Iterator[Transfer]:
    if strategy.pipeline == 1:
        return
    u, calls = _activations(model, strategy, options), m * strategy.interleave
    gathered = options.scatter_gather and not strategy.sequence_parallel
    size = u / (strategy.tensor if gathered or strategy.sequence_parallel else 1)
    for phase, senders, receivers in (("forward", "last", "first"), ("backward", "first", "last")):
        row = ("microbatch", "pipeline", f"all but {senders}", calls, size, 2)
        yield Transfer("pipeline", phase, "send_receive", *row)
        if gathered:
            row = ("microbatch", "tensor", f"all but {receivers}", calls, u, strategy.tensor)
            yield Transfer("tensor", phase, "all_gather", *row)


def _replicas(model: Transformer, strategy: Strategy, m: int, options: TrafficOptions) -> Iterator[Transfer]:
    held = model.rank_parameters(strategy.tensor, strategy.expert)
    shared = float(held.layers(1 - model.mixture_share, model.mixture_share))
    n, replica = model.layers / strategy.pipeline, strategy.context * strategy.data
    yield from _synchronised(strategy, options, shared, n, m, "every", "replica", replica)
    if mixed := model.mixture_layers:
        each, ranks = float(held.experts), replica // strategy.expert
        yield from _synchronised(
            strategy, options, each, mixed / strategy.pipeline, m, "every", "expert_replica", ranks
        )


def _synchronised(
    strategy: Strategy, options: TrafficOptions, each: float, layers: float, m: int, stages: str, group: str, ranks: int
) -> Iterator[Transfer]:
    """Gradients summed and weights shared over a group: `layers` layers of `each` parameters on a rank."""
    weights, gradients = each * options.weight_bytes, each * options.gradient_bytes
    by_layer, once = ("layer", group, stages, layers * m), ("model", group, stages, 1)
    if strategy.sharding == "none":
        yield Transfer("data", "after", "all_reduce", *once, gradients * layers, ranks)
    elif strategy.sharding == "optimizer":
        yield Transfer("data", "after", "reduce_scatter", *once, gradients * layers, ranks)
        yield Transfer("data", "after", "all_gather", *once, weights * layers, ranks)
    elif strategy.sharding == "gradients":
        yield Transfer("data", "backward", "reduce_scatter", *by_layer, gradients, ranks)
        yield Transfer("data", "after", "all_gather", *once, weights * layers, ranks)
    else:
        yield Transfer("data", "forward", "all_gather", *by_layer, weights, ranks)
        yield Transfer("data", "backward", "all_gather", *by_layer, weights, ranks)
        yield Transfer("data", "backward", "reduce_scatter", *by_layer, gradients, ranks)


def _ends(model: Transformer, strategy: Strategy, m: int, options: TrafficOptions) -> Iterator[Transfer]:
    """Embedding, last norm and logits: their tensor collectives, their gradients, and the sum of those that are tied.

    Tied gradients that are sharded as they come are summed shard by shard; else each of the two ranks has them whole.
    """
    u, t, p = _activations(model, strategy, options), strategy.tensor, strategy.pipeline
    tensor = [("backward", "all_reduce", "last"), ("forward", "all_reduce", "first")]
    if strategy.sequence_parallel:
        tensor = [("forward", "reduce_scatter", "first"), ("backward", "all_gather", "first")]
        tensor += [("forward", "all_gather", "last"), ("backward", "reduce_scatter", "last")]
        tensor += [] if options.keep_gathered else [("backward", "all_gather", "last")]
    kind = "sequence" if strategy.sequence_parallel else "tensor"
    for phase, operation, stages in tensor:
        yield Transfer(kind, phase, operation, "microbatch", "tensor", stages, m, u, t)
    held, replica = model.rank_parameters(t), strategy.context * strategy.data
    for size, stages in ((held.first, "first"), (held.last(p), "last")):
        yield from _synchronised(strategy, options, float(size), 1, m, stages, "replica", replica)
    tied = float(held.tied) / (replica if strategy.sharding in ("gradients", "weights") else 1)
    calls = int(p > 1)
    yield Transfer("pipeline", "after", "all_reduce", "model", "ends", "ends", calls, tied * options.gradient_bytes, 2)
