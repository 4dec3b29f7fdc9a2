"""Traffic of one training iteration: its transfers for any strategy, and GPU-by-GPU bytes by kind as sparse matrices.

Symbols: L layers, h hidden, s sequence length, V vocabulary, k top_k of the model; t, c, p, d, e, v of the strategy;
b micro-batch [sequences], m micro-batches, n = L / p layers of a rank, u = b s h / c activation elements of one
micro-batch. Operators of a layer: attention and feed-forward, one where they are parallel (PaLM).

    kind      group           operation, and how often on one rank
    tensor    tensor          all_reduce of u for each operator, forward and backward
    sequence  tensor          in its place all_gather and reduce_scatter of u; backward a second all_gather, for the
                              operator's input was kept as a slice only
    context   context         keys and values: all_gather forward and backward, reduce_scatter of gradients backward
    expert    expert          all_to_all of k u (k u / t in slices) to the experts and back, forward and backward
    pipeline  pipeline        send of u (u / t in slices) for each of v chunks, forward and backward
    data      replica         gradients and weights by sharding; of experts over expert_replica

Full recompute repeats the forward's of a layer (pass "recompute"). With `embeddings` the ends of the pipeline add
theirs. Left out, for they are small: sums of norm gradients, of the loss and of the gradients' norm.

A matrix has a row for each of N GPUs and k columns: the targets that one GPU sends to, and the bytes. GPUs in equal
groups have equally many targets, so that the rows are full; where one has fewer, it is its own target with 0 bytes.
Which member of a group sends to which depends on the algorithm; an all_to_all is always direct:

    ring                  to the next member
    bidirectional_ring    half to the next, half to the one before
    direct                equal parts to every other member
    tree                  all_reduce alone: to the parent and to the children of a binary tree, the root first
    hierarchical          rings: among the members in one HB domain, and among those at the same place in each domain,
                          which move 1 / x of the buffer with x members in a domain (kinds "... within", "... between")
    hierarchical_direct   the same with equal parts to every other in place of the rings

Sources: Shoeybi et al. 2019 (tensor); Korthikanti et al. 2022 (sequence); Narayanan et al. 2021 (pipeline); Rajbhandari
et al. 2020 (sharding); Llama Team 2024, Section 3.3 (context).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from railcore.facts.checks import Floats, one_of, whole
from railcore.training.parallelism import Strategy
from railcore.training.transformer import Transformer

SENT = {
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "send_receive": lambda n: 1.0,
}


@dataclass(frozen=True)
class Wire:
    """What goes over the wire.

    activation_bytes, weight_bytes, gradient_bytes: of an element.
    keep_gathered: with sequence parallelism the gathered inputs are kept, which takes memory and saves the second
    gather. scatter_gather: without it, the ends of a stage send slices and gather them (Narayanan et al. 2021, 4.1).
    embeddings: the ends of the pipeline add what embedding and logits need.
    """

    activation_bytes: float = 2
    weight_bytes: float = 2
    gradient_bytes: float = 2
    keep_gathered: bool = False
    scatter_gather: bool = False
    embeddings: bool = True


WIRE = Wire()


class Transfer(NamedTuple):
    """One row of a step: `calls` times on one rank, of the stages named.

    group: a kind of group of `Strategy`, or "ends" (first and last stage of a pipeline); ranks: its members.
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
        return self.calls * self.message_bytes * SENT[self.operation](self.ranks)

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


def step(model: Transformer, strategy: Strategy, global_batch: int, wire: Wire = WIRE) -> pd.DataFrame:
    """The communication of one training step, as a rank of a stage sees it.

    Parameters
    ----------
    model, strategy, wire
        The model, how it is split, and what goes over the wire.
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
    rows = transfers(model, strategy, global_batch, wire)
    table = pd.DataFrame(rows, columns=Transfer._fields).rename(columns={"phase": "pass"}).drop(columns="group")
    return table.assign(sent_bytes=np.array([row.sent_bytes for row in rows], float))


def transfers(model: Transformer, strategy: Strategy, global_batch: int, wire: Wire = WIRE) -> list[Transfer]:
    """The rows of `step`, those of one rank or of no bytes left out.

    Parameters
    ----------
    model, strategy, global_batch, wire
        As in `step`.

    Returns
    -------
    One row for each kind of transfer.
    """
    strategy.check(model, global_batch)
    m = strategy.microbatches(global_batch)
    parts = (_operators, _contexts, _experts, _boundaries, _replicas)
    rows = [row for part in parts for row in part(model, strategy, m, wire)]
    if wire.embeddings:
        rows += _ends(model, strategy, m, wire)
    return [row for row in rows if row.ranks > 1 and row.calls * row.message_bytes > 0]


def _activations(model: Transformer, strategy: Strategy, wire: Wire) -> float:
    """Bytes of u."""
    tokens = strategy.micro_batch * model.sequence_length / strategy.context
    return tokens * model.hidden * wire.activation_bytes


def _forwards(strategy: Strategy) -> tuple[str, ...]:
    return ("forward", "recompute") if strategy.recompute == "full" else ("forward",)


def _operators(model: Transformer, strategy: Strategy, m: int, wire: Wire) -> Iterator[Transfer]:
    u, n = _activations(model, strategy, wire), model.layers // strategy.pipeline
    mixed = model.mixture_layers / strategy.pipeline
    dense = n * (1 if model.parallel_block else 2) - mixed
    tail = ("operator", "tensor", "every")
    if not strategy.sequence_parallel:
        for phase in (*_forwards(strategy), "backward"):
            yield Transfer("tensor", phase, "all_reduce", *tail, (dense + mixed) * m, u, strategy.tensor)
        return
    # A mixture's tokens are gathered over the tensor ranks after they have come to their experts, k copies of each.
    for size, operators in ((u, dense), (u * model.top_k, mixed)):
        for phase in _forwards(strategy):
            for operation in ("all_gather", "reduce_scatter"):
                yield Transfer("sequence", phase, operation, *tail, operators * m, size, strategy.tensor)
        gathers = operators * m * (1 if wire.keep_gathered else 2)
        yield Transfer("sequence", "backward", "all_gather", *tail, gathers, size, strategy.tensor)
        yield Transfer("sequence", "backward", "reduce_scatter", *tail, operators * m, size, strategy.tensor)


def _contexts(model: Transformer, strategy: Strategy, m: int, wire: Wire) -> Iterator[Transfer]:
    heads = max(model.kv_heads / strategy.tensor, 1)
    both = 2 * heads * model.head_dim * model.sequence_length * strategy.micro_batch * wire.activation_bytes
    calls = model.layers / strategy.pipeline * m
    for phase in (*_forwards(strategy), "backward"):
        yield Transfer("context", phase, "all_gather", "layer", "context", "every", calls, both, strategy.context)
    yield Transfer("context", "backward", "reduce_scatter", "layer", "context", "every", calls, both, strategy.context)


def _experts(model: Transformer, strategy: Strategy, m: int, wire: Wire) -> Iterator[Transfer]:
    sliced = strategy.tensor if strategy.sequence_parallel else 1
    sent = _activations(model, strategy, wire) * model.top_k / sliced
    calls = 2 * model.mixture_layers / strategy.pipeline * m
    for phase in (*_forwards(strategy), "backward"):
        yield Transfer("expert", phase, "all_to_all", "layer", "expert", "every", calls, sent, strategy.expert)


def _boundaries(model: Transformer, strategy: Strategy, m: int, wire: Wire) -> Iterator[Transfer]:
    if strategy.pipeline == 1:
        return
    u, calls = _activations(model, strategy, wire), m * strategy.interleave
    gathered = wire.scatter_gather and not strategy.sequence_parallel
    size = u / (strategy.tensor if gathered or strategy.sequence_parallel else 1)
    for phase, senders, receivers in (("forward", "last", "first"), ("backward", "first", "last")):
        row = ("microbatch", "pipeline", f"all but {senders}", calls, size, 2)
        yield Transfer("pipeline", phase, "send_receive", *row)
        if gathered:
            row = ("microbatch", "tensor", f"all but {receivers}", calls, u, strategy.tensor)
            yield Transfer("tensor", phase, "all_gather", *row)


def _replicas(model: Transformer, strategy: Strategy, m: int, wire: Wire) -> Iterator[Transfer]:
    kinds = model.parameters()
    outside = model.expert_parameters + sum(kinds[kind] for kind in ("embedding", "positions", "output"))
    shared = (model.total_parameters - outside) / (model.layers * strategy.tensor)
    n, replica = model.layers / strategy.pipeline, strategy.context * strategy.data
    yield from _synchronised(strategy, wire, shared, n, m, "every", "replica", replica)
    if mixed := model.mixture_layers:
        each = model.expert_parameters / (mixed * strategy.tensor * strategy.expert)
        ranks = replica // strategy.expert
        yield from _synchronised(strategy, wire, each, mixed / strategy.pipeline, m, "every", "expert_replica", ranks)


def _synchronised(
    strategy: Strategy, wire: Wire, each: float, layers: float, m: int, stages: str, group: str, ranks: int
) -> Iterator[Transfer]:
    """Gradients summed and weights shared over a group: `layers` layers of `each` parameters on a rank."""
    weights, gradients = each * wire.weight_bytes, each * wire.gradient_bytes
    by_layer, once = ("layer", group, stages, layers * m), ("model", group, stages, 1)
    if strategy.sharding == "none":
        yield Transfer("data", "after", "all_reduce", *once, gradients * layers, ranks)
        return
    if strategy.sharding == "weights":
        yield Transfer("data", "forward", "all_gather", *by_layer, weights, ranks)
        yield Transfer("data", "backward", "all_gather", *by_layer, weights, ranks)
    if strategy.sharding == "optimizer":
        yield Transfer("data", "after", "reduce_scatter", *once, gradients * layers, ranks)
    else:
        yield Transfer("data", "backward", "reduce_scatter", *by_layer, gradients, ranks)
    if strategy.sharding != "weights":
        yield Transfer("data", "after", "all_gather", *once, weights * layers, ranks)


def _ends(model: Transformer, strategy: Strategy, m: int, wire: Wire) -> Iterator[Transfer]:
    """Embedding and logits: their tensor collectives, their gradients, and the sum of those that are tied."""
    u, t, kinds = _activations(model, strategy, wire), strategy.tensor, model.parameters()
    tensor = [("backward", "all_reduce", "last"), ("forward", "all_reduce", "first")]
    if strategy.sequence_parallel:
        tensor = [("forward", "reduce_scatter", "first"), ("backward", "all_gather", "first")]
        tensor += [("forward", "all_gather", "last"), ("backward", "reduce_scatter", "last")]
        tensor += [] if wire.keep_gathered else [("backward", "all_gather", "last")]
    kind = "sequence" if strategy.sequence_parallel else "tensor"
    for phase, operation, stages in tensor:
        yield Transfer(kind, phase, operation, "microbatch", "tensor", stages, m, u, t)
    tied = kinds["embedding"] if model.tied_embeddings and strategy.pipeline > 1 else 0
    replica = strategy.context * strategy.data
    for size, stages in ((kinds["embedding"] + kinds["positions"], "first"), (kinds["output"] or tied, "last")):
        yield from _synchronised(strategy, wire, size / t, 1, m, stages, "replica", replica)
    yield Transfer("pipeline", "after", "all_reduce", "model", "ends", "ends", 1, tied / t * wire.gradient_bytes, 2)


Ranks = NDArray[np.int32]
_BLOCK = 2**17  # entries at a time: what is worked out over all kinds stays in the processor's cache
_PAIR, _GPU = ("domain_pair_bytes", "network_pair_bytes"), ("domain_gpu_bytes", "nic_bytes")
_Figures = dict[str, Any]


@dataclass(frozen=True)
class Matrix:
    """Traffic of one kind: targets [N, k] and bytes [N, k]; a row has each target once."""

    targets: Ranks
    bytes: Floats

    @property
    def pairs(self) -> int:
        """Ordered pairs of GPUs with traffic."""
        return int(np.count_nonzero(self.bytes))

    @property
    def sent(self) -> Floats:
        """Bytes that each GPU sends [N]: the rows' sums."""
        return self.bytes.sum(axis=1)

    @property
    def received(self) -> Floats:
        """Bytes that each GPU receives [N]: the columns' sums."""
        return np.asarray(np.bincount(self.targets.ravel(), self.bytes.ravel(), len(self.targets)), float)


def merged_rows(rank: Ranks, parts: Sequence[tuple[Ranks, Floats]]) -> tuple[Ranks, Floats]:
    """Rows of several matrices as one: targets and bytes side by side, the bytes of a repeated target added up.

    rank: of the rows. parts: of these rows, each (targets, bytes).
    """
    if len(parts) == 1:
        return parts[0]
    targets, size = (np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True))
    rows = np.flatnonzero(_repeated(rank, [targets]).any(axis=1))
    if len(rows):
        order = np.argsort(targets[rows], axis=1, kind="stable")
        ordered = np.take_along_axis(targets[rows], order, axis=1)
        starts = np.diff(ordered, axis=1, prepend=-1) > 0
        sums = np.add.reduceat(np.take_along_axis(size[rows], order, axis=1).ravel(), np.flatnonzero(starts))
        added = np.zeros(starts.shape)
        added[starts] = sums
        targets[rows], size[rows] = np.where(starts, ordered, rank[rows, None]), added
    return targets, size


def _repeated(rank: Ranks, targets: Sequence[Ranks]) -> NDArray[np.bool_]:
    """Where a sorted row repeats a target, its own rank not counted [rows, k - 1]."""
    ordered = np.concatenate(targets, axis=1)
    ordered.sort(axis=1)
    return (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != rank[:, None])


@dataclass(frozen=True)
class Traffic:
    """What N GPUs send each other in one iteration: a sparse matrix for each kind of traffic.

    Raises ValueError without any.
    """

    matrices: dict[str, Matrix]

    def __post_init__(self) -> None:
        if not self.matrices:
            raise ValueError("matrices is empty: the strategy sends nothing, give one with more than one rank")

    @property
    def gpus(self) -> int:
        """GPUs, N."""
        return len(next(iter(self.matrices.values())).targets)

    @property
    def shared_pairs(self) -> int:
        """Ordered pairs that carry more than one kind of traffic."""
        found = 0
        for rank, parts in self._blocks():
            twice = _repeated(rank, [targets for targets, _ in parts.values()])
            again = np.pad(twice, ((0, 0), (1, 0)))[:, :-1]  # a third kind on a pair is no second pair
            found += int(np.count_nonzero(twice & ~again))
        return found

    def dense(self) -> Floats:
        """Bytes from GPU i to GPU j of all kinds [i, j], for as many GPUs as a square of them fits into memory."""
        found = np.zeros((self.gpus, self.gpus))
        for part in self.matrices.values():
            np.add.at(found, (np.arange(self.gpus)[:, None], part.targets), part.bytes)
        return found

    def entries(self, first: int = 0, last: int | None = None) -> pd.DataFrame:
        """Entries between GPUs first to last (not included): columns kind, source, target, bytes."""
        last = self.gpus if last is None else last
        if not 0 <= first < last <= self.gpus:
            raise ValueError(f"first is {first} and last {last}: give 0 <= first < last <= {self.gpus}")
        found = []
        for kind, part in self.matrices.items():
            targets, size = part.targets[first:last], part.bytes[first:last]
            row, column = np.nonzero((targets >= first) & (targets < last) & (size > 0))
            chosen = {"source": row + first, "target": targets[row, column], "bytes": size[row, column]}
            found.append(pd.DataFrame(chosen).assign(kind=kind))
        table = pd.concat(found, ignore_index=True)[["kind", "source", "target", "bytes"]]
        return table.sort_values(["kind", "source", "target"], kind="stable", ignore_index=True)

    def summary(self, hb_domain_size: int, rails: int = 0) -> pd.DataFrame:
        """A row for each kind, and one for "all" of them together.

        GPUs fill HB domains (scale-up or NVLink domains) in their order; GPU j of a domain is on rail j mod rails.
        Columns kind, pairs, share_of_pairs (of all ordered pairs), bytes, share_of_bytes, network_bytes (between
        domains), cross_rail_bytes (of these, between different rails), domain_pair_bytes and network_pair_bytes
        (largest entries within domains and between them), domain_gpu_bytes and nic_bytes (most that one GPU sends
        within its domain and over its NIC).
        hb_domain_size [GPUs]; rails: by default one for each GPU of a domain.
        Raises ValueError for an HB domain larger than the cluster, or more rails than its GPUs.
        """
        whole("hb_domain_size", hb_domain_size, most=self.gpus)
        rails = int(whole("rails", rails or hb_domain_size, most=hb_domain_size))
        found: dict[str, list[_Figures]] = {kind: [] for kind in (*self.matrices, "all")}
        for rank, parts in self._blocks():
            each = {kind: _figures(rank, *rows, hb_domain_size, rails) for kind, rows in parts.items()}
            together = _together(list(each.values()))
            if _repeated(rank, [targets for targets, _ in parts.values()]).any():
                together = _figures(rank, *merged_rows(rank, list(parts.values())), hb_domain_size, rails)
            for kind, figures in (each | {"all": together}).items():
                found[kind].append(figures)
        table = pd.DataFrame([{"kind": kind, **_over_blocks(figures)} for kind, figures in found.items()])
        table.insert(2, "share_of_pairs", table["pairs"] / (self.gpus * (self.gpus - 1)))
        table.insert(4, "share_of_bytes", table["bytes"] / table["bytes"].iloc[-1])
        return table

    def _blocks(self) -> Iterator[tuple[Ranks, dict[str, tuple[Ranks, Floats]]]]:
        """Ranks of some rows, and these rows of every kind."""
        height = max(_BLOCK // sum(part.targets.shape[1] for part in self.matrices.values()), 1)
        for start in range(0, self.gpus, height):
            stop = min(start + height, self.gpus)
            rows = {kind: (part.targets[start:stop], part.bytes[start:stop]) for kind, part in self.matrices.items()}
            yield np.arange(start, stop, dtype=np.int32), rows


def traffic_summaries(cases: Mapping[str, Traffic], hb_domain_size: int) -> pd.DataFrame:
    """Summaries of several iterations one below the other: columns case, silent_pairs (share), those of `summary`."""
    tables = []
    for case, traffic in cases.items():
        table = traffic.summary(hb_domain_size)
        table.insert(0, "case", case)
        table.insert(1, "silent_pairs", 1 - table["share_of_pairs"].iloc[-1])
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def _figures(rank: Ranks, targets: Ranks, size: Floats, hb_domain_size: int, rails: int) -> _Figures:
    """The summary's figures of some rows; what is asked by GPU is an array [rows]."""
    domain = targets // np.int32(hb_domain_size)
    inside = np.where(domain == rank[:, None] // np.int32(hb_domain_size), size, 0.0)
    outside = size - inside
    rail = (targets - domain * np.int32(hb_domain_size)) % np.int32(rails)
    strays = rail != (rank % np.int32(hb_domain_size) % np.int32(rails))[:, None]
    return {
        "pairs": np.count_nonzero(size),
        "bytes": size.sum(),
        "network_bytes": outside.sum(),
        "cross_rail_bytes": outside.sum(where=strays),
        "domain_pair_bytes": inside.max(),
        "network_pair_bytes": outside.max(),
        "domain_gpu_bytes": inside.sum(axis=1),
        "nic_bytes": outside.sum(axis=1),
    }


def _together(kinds: list[_Figures]) -> _Figures:
    """Figures of kinds that share no pair: an entry is the largest of one kind, the rest adds up."""
    return {name: (max if name in _PAIR else sum)(kind[name] for kind in kinds) for name in kinds[0]}


def _over_blocks(blocks: list[_Figures]) -> dict[str, float]:
    most = (*_PAIR, *_GPU)
    return {name: (max if name in most else sum)(np.max(block[name]) for block in blocks) for name in blocks[0]}


ALGORITHMS = ("ring", "bidirectional_ring", "direct", "tree", "hierarchical", "hierarchical_direct")
# Members that one sends to, and its share of what goes to each, both [members, k].
_Pattern = tuple[NDArray[np.int64], Floats]


def matrix(
    model: Transformer,
    strategy: Strategy,
    global_batch: int,
    wire: Wire = WIRE,
    algorithms: Mapping[str, str] | None = None,
    hb_domain_size: int = 0,
) -> Traffic:
    """Traffic of one training step as sparse matrices by kind; every row sums to the bytes that the GPU sends.

    Parameters
    ----------
    model, strategy, wire
        The model, how it is split, and what goes over the wire.
    global_batch
        Sequences of the step.
    algorithms
        One of ALGORITHMS for each kind, by default "ring".
    hb_domain_size
        GPUs of an HB domain, for the hierarchical ones.

    Returns
    -------
    A sparse matrix for each kind.

    Raises
    ------
    ValueError
        As `Strategy.check`, for an unknown algorithm, and for a hierarchical one whose groups do not have equally many
        members in each HB domain.
    """
    return from_transfers(strategy, transfers(model, strategy, global_batch, wire), algorithms, hb_domain_size)


def from_transfers(
    strategy: Strategy, rows: Iterable[Transfer], algorithms: Mapping[str, str] | None = None, hb_domain_size: int = 0
) -> Traffic:
    """Sparse matrices of any transfers.

    Parameters
    ----------
    strategy, rows
        How the GPUs are grouped, and what the groups do.
    algorithms, hb_domain_size
        As in `matrix`, and so are the errors.

    Returns
    -------
    A sparse matrix for each kind.
    """
    chosen = dict(algorithms or {})
    for kind, algorithm in chosen.items():
        one_of(f"algorithm of {kind}", algorithm, ALGORITHMS)
    stage = np.empty(strategy.gpus, np.int64)
    stage[strategy.groups("pipeline")] = np.arange(strategy.pipeline)
    bytes_of: dict[tuple[str, str, str], Floats] = {}
    for row in rows:
        amount = row.sent_bytes * row.stage_weights(strategy)[stage]
        key = row.kind, row.group, _way(row, chosen.get(row.kind, "ring"))
        bytes_of[key] = bytes_of.get(key, 0.0) + amount
    parts: dict[str, list[tuple[Ranks, Floats]]] = {}
    for (kind, group, way), amount in bytes_of.items():
        groups = strategy.groups("pipeline")[:, [0, -1]] if group == "ends" else strategy.groups(group)
        for suffix, ranks, pattern, factor in _stages(groups.astype(np.int32), way, hb_domain_size):
            parts.setdefault(kind + suffix, []).append(_placed(ranks, pattern, amount * factor))
    every = np.arange(strategy.gpus, dtype=np.int32)
    return Traffic({kind: Matrix(*merged_rows(every, found)) for kind, found in parts.items()})


def _way(row: Transfer, algorithm: str) -> str:
    if row.operation == "send_receive":
        return {"forward": "next", "backward": "previous"}[row.phase]
    if row.operation == "all_to_all":
        return "direct"
    if algorithm == "tree" and row.operation != "all_reduce":
        raise ValueError(f"algorithm of {row.kind} is 'tree', which has no {row.operation}: give 'ring'")
    return algorithm


def _stages(groups: Ranks, way: str, hb_domain_size: int) -> list[tuple[str, Ranks, _Pattern, float]]:
    """Each phase of a collective as (suffix of the kind, groups, pattern, its bytes over a flat collective's)."""
    n = groups.shape[1]
    if not way.startswith("hierarchical"):
        return [("", groups, _pattern(way, n), 1.0)]
    if hb_domain_size < 1:
        raise ValueError(f"hb_domain_size is {hb_domain_size}: a hierarchical algorithm needs the HB domain's GPUs")
    domain = groups // hb_domain_size
    y = len(np.unique(domain[0]))
    x, flat = n // y, (n - 1) / n
    if n % y or np.any(np.diff(domain.reshape(len(groups), y, -1), axis=2)) or np.any(np.diff(domain[:, ::x]) <= 0):
        raise ValueError(
            f"hb_domain_size is {hb_domain_size}: groups of {n} do not have equally many members in each HB domain, "
            "give another size or a flat algorithm"
        )
    inner = "direct" if way.endswith("direct") else "ring"
    grid = groups.reshape(-1, y, x)
    found = []
    if x > 1:
        found.append((" within", grid.reshape(-1, x), _pattern(inner, x), (x - 1) / x / flat))
    if y > 1:
        across = grid.swapaxes(1, 2).reshape(-1, y)
        found.append((" between", across, _pattern(inner, y), (y - 1) / y / x / flat))
    return found


def _pattern(way: str, n: int) -> _Pattern:
    """Members that each of n sends to [n, k], and the share of its bytes for each [n or 1, k]; itself with 0: none."""
    i = np.arange(n)[:, None]
    if way == "tree":
        family = np.hstack([(i - 1) // 2, 2 * i + 1, 2 * i + 2])
        there = (family >= 0) & (family < n) & (family != i)
        return np.where(there, family, i), there * n / (2 * (n - 1))  # each edge carries the buffer, up and down
    if way == "bidirectional_ring" and n > 2:
        return (i + np.array([1, -1])) % n, np.full((1, 2), 0.5)
    if way == "direct":
        return (i + np.arange(1, n)) % n, np.full((1, n - 1), 1 / (n - 1))
    return (i + (-1 if way == "previous" else 1)) % n, np.ones((1, 1))


def _placed(groups: Ranks, pattern: _Pattern, amount: Floats) -> tuple[Ranks, Floats]:
    """Targets and bytes of every GPU [N, k] from the members of groups [groups, n] and each GPU's bytes [N]."""
    members, share = pattern
    every = np.arange(len(amount), dtype=np.int32)
    targets = np.empty((len(amount), members.shape[1]), np.int32)
    if groups.size < len(amount):  # ranks that have no part in it
        targets[:] = every[:, None]
    for some in np.array_split(groups, max(targets.size >> 20, 1)):  # no second array as large as the first
        targets[some] = np.take(some, members, axis=1)
    if len(share) == 1:  # all targets of a GPU get the same bytes: no copy
        size = np.broadcast_to(amount[:, None] * share[:, :1], targets.shape)
    else:
        size = np.zeros(targets.shape)
        size[groups] = amount[groups][:, :, None] * share
    silent = size == 0 if len(share) > 1 else (amount == 0)[:, None]
    if silent.any():
        np.copyto(targets, every[:, None], where=silent)
    return targets, size
