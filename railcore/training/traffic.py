"""GPU-by-GPU bytes of one training iteration, by kind, as sparse matrices.

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

"ring" is one ring in rank order: of x members in an HB domain one alone sends to the next domain, all of it. NCCL, and
the iteration time, run x rings, so that each of x NICs carries 1 / x of that: "hierarchical" shows such a spread.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from railcore.catalog.arguments import Count, NonNegativeInt, checked
from railcore.catalog.checks import Floats, one_of, whole
from railcore.catalog.units import show
from railcore.training.exchanges import TRAFFIC_KINDS
from railcore.training.parallelism import Strategy, as_strategy
from railcore.training.runtime import Runtime
from railcore.training.transfers import Transfer, step_transfers
from railcore.training.transformer import Transformer, as_model

Ranks = NDArray[np.int32]
_BLOCK = 2**17  # entries at a time: what is worked out over all kinds stays in the processor's cache
_PAIR, _GPU = ("domain_pair_bytes", "network_pair_bytes"), ("domain_gpu_bytes", "nic_bytes")
_Figures = dict[str, Any]


class TrafficMatrix(NamedTuple):
    """Traffic of one kind, whole or some rows: targets [N, k] and bytes [N, k]; a row has each target once."""

    targets: Ranks
    bytes: Floats


def _merged(rank: Ranks, parts: Sequence[TrafficMatrix]) -> TrafficMatrix:
    """The same rows of several matrices as one, the bytes of a repeated target added up. rank: of each row."""
    if len(parts) == 1:
        return parts[0]
    targets, size = (np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True))
    rows = np.flatnonzero(_repeated(rank, parts).any(axis=1))
    if len(rows):
        order = np.argsort(targets[rows], axis=1, kind="stable")
        ordered = np.take_along_axis(targets[rows], order, axis=1)
        starts = np.diff(ordered, axis=1, prepend=-1) > 0
        sums = np.add.reduceat(np.take_along_axis(size[rows], order, axis=1).ravel(), np.flatnonzero(starts))
        added = np.zeros(starts.shape)
        added[starts] = sums
        targets[rows], size[rows] = np.where(starts, ordered, rank[rows, None]), added
    return TrafficMatrix(targets, size)


def _repeated(rank: Ranks, parts: Iterable[TrafficMatrix]) -> NDArray[np.bool_]:
    """Where a row of the parts' targets, sorted, repeats one; its own rank does not count [rows, k - 1]."""
    ordered = np.concatenate([part.targets for part in parts], axis=1)
    ordered.sort(axis=1)
    return (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != rank[:, None])


@dataclass(frozen=True)
class Traffic:
    """What N GPUs send each other in one iteration: a sparse matrix for each kind of traffic.

    Links of switches are not in it: `network.topology.routed_flows` has them.

    Raises ValueError without any.
    """

    matrices: dict[str, TrafficMatrix]

    def __post_init__(self) -> None:
        if not self.matrices:
            raise ValueError("strategy is one GPU, which sends nothing: give more than one rank")

    @property
    def gpus(self) -> int:
        """GPUs, N."""
        return len(next(iter(self.matrices.values())).targets)

    def __repr__(self) -> str:
        sums = [f"{kind} {show(float(part.bytes.sum()), 'B', 4)}" for kind, part in self.matrices.items()]
        return f"traffic of an iteration between {self.gpus:,} GPUs: {', '.join(sums)}"

    @property
    def shared_pairs(self) -> int:
        """Ordered pairs that carry more than one kind of traffic."""
        pairs = 0
        for rank, parts in self._blocks():
            twice = _repeated(rank, parts.values())
            again = np.pad(twice, ((0, 0), (1, 0)))[:, :-1]  # a third kind on a pair is no second pair
            pairs += int(np.count_nonzero(twice & ~again))
        return pairs

    def dense(self) -> Floats:
        """Bytes from GPU i to GPU j of all kinds [i, j], for as many GPUs as a square of them fits into memory."""
        size = np.zeros((self.gpus, self.gpus))
        for part in self.matrices.values():
            np.add.at(size, (np.arange(self.gpus)[:, None], part.targets), part.bytes)
        return size

    @checked
    def entries(self, first: NonNegativeInt = 0, last: NonNegativeInt | None = None) -> pd.DataFrame:
        """Entries between GPUs first to last (not included): columns kind, source, target, bytes."""
        last = self.gpus if last is None else last
        if not 0 <= first < last <= self.gpus:
            raise ValueError(f"first is {first} and last {last}: give 0 <= first < last <= {self.gpus}")
        tables = []
        for kind, part in self.matrices.items():
            targets, size = part.targets[first:last], part.bytes[first:last]
            row, column = np.nonzero((targets >= first) & (targets < last) & (size > 0))
            chosen = {"source": row + first, "target": targets[row, column], "bytes": size[row, column]}
            tables.append(pd.DataFrame(chosen).assign(kind=kind))
        table = pd.concat(tables, ignore_index=True)[["kind", "source", "target", "bytes"]]
        return table.sort_values(["kind", "source", "target"], kind="stable", ignore_index=True)

    @checked
    def summary(self, hb_domain_size: Count, rails: NonNegativeInt = 0) -> pd.DataFrame:
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
        by_kind: dict[str, list[_Figures]] = {kind: [] for kind in (*self.matrices, "all")}
        for rank, parts in self._blocks():
            of_kinds = {kind: _figures(rank, rows, hb_domain_size, rails) for kind, rows in parts.items()}
            together = _together(list(of_kinds.values()))
            if _repeated(rank, parts.values()).any():
                together = _figures(rank, _merged(rank, list(parts.values())), hb_domain_size, rails)
            for kind, figures in (of_kinds | {"all": together}).items():
                by_kind[kind].append(figures)
        table = pd.DataFrame([{"kind": kind, **_over_blocks(blocks)} for kind, blocks in by_kind.items()])
        table.insert(2, "share_of_pairs", table["pairs"] / (self.gpus * (self.gpus - 1)))
        table.insert(4, "share_of_bytes", table["bytes"] / table["bytes"].iloc[-1])
        return table

    def _blocks(self) -> Iterator[tuple[Ranks, dict[str, TrafficMatrix]]]:
        """Ranks of some rows, and these rows of every kind."""
        height = max(_BLOCK // sum(part.targets.shape[1] for part in self.matrices.values()), 1)
        for start in range(0, self.gpus, height):
            some = slice(start, min(start + height, self.gpus))
            rows = {kind: TrafficMatrix(part.targets[some], part.bytes[some]) for kind, part in self.matrices.items()}
            yield np.arange(some.start, some.stop, dtype=np.int32), rows


def traffic_summaries(cases: Mapping[str, Traffic], hb_domain_size: int) -> pd.DataFrame:
    """Summaries of several iterations one below the other: columns case, silent_pairs (share), those of `summary`."""
    tables = []
    for case, traffic in cases.items():
        table = traffic.summary(hb_domain_size)
        table.insert(0, "case", case)
        table.insert(1, "silent_pairs", 1 - table["share_of_pairs"].iloc[-1])
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def _figures(rank: Ranks, rows: TrafficMatrix, hb_domain_size: int, rails: int) -> _Figures:
    """The summary's figures of some rows; those by GPU are arrays [rows]."""
    targets, size = rows
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
    """Figures of all kinds together where they share no pair: entries are the largest of a kind, all else adds up."""
    return {name: (max if name in _PAIR else sum)(kind[name] for kind in kinds) for name in kinds[0]}


def _over_blocks(blocks: list[_Figures]) -> dict[str, float]:
    most = (*_PAIR, *_GPU)
    return {name: (max if name in most else sum)(np.max(block[name]) for block in blocks) for name in blocks[0]}


ALGORITHMS = ("ring", "bidirectional_ring", "direct", "tree", "hierarchical", "hierarchical_direct")
# Members that each member sends to, and the share of its bytes that goes to each of them, both [members, k].
_Pattern = tuple[NDArray[np.int64], Floats]


@checked
def iteration_traffic(
    model: Transformer | str,
    strategy: Strategy | Mapping[str, object],
    global_batch: Count,
    runtime: Runtime | str | None = None,
    algorithms: Mapping[str, str] | None = None,
    hb_domain_size: NonNegativeInt = 0,
    precision: str = "bf16",
    embeddings: bool = True,
) -> Traffic:
    """Traffic of one training step as sparse matrices by kind; every row sums to the bytes that the GPU sends.

    Parameters
    ----------
    model
        Trained model: a `Transformer`, or its name in the catalog.
    strategy
        How the model is split over GPUs: a `Strategy`, or a row of `search`'s tables.
    global_batch
        Sequences of the step.
    runtime
        The training software, or its name in the catalog; None for the newest for NVIDIA's GPUs.
    algorithms
        One of ALGORITHMS for each kind, by default "ring", such as {"data": "hierarchical"}.
    hb_domain_size
        GPUs of an HB domain, for the hierarchical ones, and for a runtime that sends tokens by HB domains.
    precision
        Number format of the linear layers, one of PRECISIONS.
    embeddings
        Whether traffic of the model's ends counts: embedding and logits.

    Returns
    -------
    `Traffic`: a sparse matrix for each kind; its `summary(hb_domain_size)` has the bytes by kind and network.

    Raises
    ------
    ValueError
        As `Strategy.check`, for an unknown algorithm, and for a hierarchical one whose groups do not have equally many
        members in each HB domain.

    Examples
    --------
    >>> import railcore as rc
    >>> strategy = rc.Strategy(tensor=8, data=8)
    >>> traffic = rc.iteration_traffic("Llama-3 8B", strategy, global_batch=64)
    >>> summary = rc.readable(traffic.summary(hb_domain_size=8), 3)
    >>> print(summary[["kind", "domain GPU", "NIC"]].to_string(index=False))
      kind domain GPU      NIC
    tensor   122.1 GB      0 B
      data        0 B 3.514 GB
       all   122.1 GB 3.514 GB
    """
    model, strategy = as_model(model), as_strategy(strategy)
    rows = step_transfers(model, strategy, global_batch, runtime, precision, hb_domain_size, embeddings)
    return from_transfers(strategy, rows, algorithms, hb_domain_size)


def from_transfers(
    strategy: Strategy, rows: Iterable[Transfer], algorithms: Mapping[str, str] | None = None, hb_domain_size: int = 0
) -> Traffic:
    """Sparse matrices of any transfers.

    Parameters
    ----------
    strategy, rows
        How the GPUs are grouped, and what the groups do.
    algorithms, hb_domain_size
        As for `iteration_traffic`, and so are the errors.

    Returns
    -------
    A sparse matrix for each kind.
    """
    by_kind = dict({} if algorithms is None else algorithms)
    for kind, algorithm in by_kind.items():
        one_of("a kind of traffic in algorithms", kind, TRAFFIC_KINDS)
        one_of(f"algorithm of {kind}", algorithm, ALGORITHMS)
    stage = np.empty(strategy.gpus, np.int64)
    stage[strategy.groups("pipeline")] = np.arange(strategy.pipeline)
    bytes_of: dict[tuple[str, str, str], Floats] = {}
    for row in rows:
        amount = row.sent_bytes * row.stage_weights(strategy)[stage]
        key = row.kind, row.group, _direction(row, by_kind.get(row.kind, "ring"))
        bytes_of[key] = bytes_of.get(key, 0.0) + amount
    parts: dict[str, list[TrafficMatrix]] = {}
    for (kind, group, way), amount in bytes_of.items():
        groups = _members(strategy, group, hb_domain_size)
        for suffix, ranks, pattern, factor in _phases(groups.astype(np.int32), way, hb_domain_size):
            parts.setdefault(kind + suffix, []).append(_placed(ranks, pattern, amount * factor))
    every = np.arange(strategy.gpus, dtype=np.int32)
    return Traffic({kind: _merged(every, matrices) for kind, matrices in parts.items()})


def _members(strategy: Strategy, group: str, hb_domain_size: int) -> NDArray[np.int64]:
    """Ranks of every group of a transfer [groups, members]."""
    if group == "ends":
        return strategy.groups("pipeline")[:, [0, -1]]
    if group not in ("expert domain", "expert rail"):
        return strategy.groups(group)
    grid = _in_domains(strategy.groups("expert"), hb_domain_size)
    grid = grid if group == "expert domain" else grid.swapaxes(1, 2)
    return grid.reshape(-1, grid.shape[-1])


def _in_domains(groups: NDArray[Any], hb_domain_size: int) -> NDArray[Any]:
    """Members of groups by HB domain [groups, y, x]. Raises ValueError unless each of y domains has x of them."""
    if hb_domain_size < 1:
        raise ValueError(f"hb_domain_size is {hb_domain_size}: a hierarchical algorithm needs the HB domain's GPUs")
    n, domain = groups.shape[1], groups // hb_domain_size
    y = len(np.unique(domain[0]))
    x = n // y
    if n % y or np.any(np.diff(domain.reshape(len(groups), y, -1), axis=2)) or np.any(np.diff(domain[:, ::x]) <= 0):
        raise ValueError(
            f"hb_domain_size is {hb_domain_size}: groups of {n} do not have equally many members in each HB domain, "
            "give another size or a flat algorithm"
        )
    return groups.reshape(-1, y, x)


def _direction(row: Transfer, algorithm: str) -> str:
    if row.operation == "send_receive":
        return {"forward": "next", "backward": "previous"}[row.phase]
    if row.operation == "all_to_all":
        return "direct"
    if algorithm == "tree" and row.operation != "all_reduce":
        raise ValueError(f"algorithm of {row.kind} is 'tree', which has no {row.operation}: give 'ring'")
    return algorithm


def _phases(groups: Ranks, way: str, hb_domain_size: int) -> list[tuple[str, Ranks, _Pattern, float]]:
    """Each phase of a collective as (suffix of the kind, groups, pattern, its bytes over a flat collective's)."""
    n = groups.shape[1]
    if not way.startswith("hierarchical"):
        return [("", groups, _pattern(way, n), 1.0)]
    grid, flat = _in_domains(groups, hb_domain_size), (n - 1) / n
    _, y, x = grid.shape
    inner = "direct" if way.endswith("direct") else "ring"
    phases = []
    if x > 1:
        phases.append((" within", grid.reshape(-1, x), _pattern(inner, x), (x - 1) / x / flat))
    if y > 1:
        across = grid.swapaxes(1, 2).reshape(-1, y)
        phases.append((" between", across, _pattern(inner, y), (y - 1) / y / x / flat))
    return phases


def _pattern(way: str, n: int) -> _Pattern:
    """Members that each of n sends to [n, k], and the share of its bytes for each [n or 1, k].

    A member with fewer targets than k has itself in their place, with share 0.
    """
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


def _placed(groups: Ranks, pattern: _Pattern, amount: Floats) -> TrafficMatrix:
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
    return TrafficMatrix(targets, size)
