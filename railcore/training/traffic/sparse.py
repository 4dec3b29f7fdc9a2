"""Sparse traffic matrices by kind: every GPU's few targets, never a dense matrix.

A matrix has a row for each of N GPUs and k columns: the targets that one GPU sends to, and the bytes. GPUs in equal
groups have equally many targets, so that the rows are full; where one has fewer, it is its own target with 0 bytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from railcore.facts.checks import Floats, whole

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
