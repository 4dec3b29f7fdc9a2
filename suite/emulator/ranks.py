"""Simulated ranks that send NumPy arrays to each other: every send is logged, every array that is held is counted.

Arithmetic is in the arrays' own precision (float64); bytes are elements x element_bytes, so that the same run can be
counted as it would be sent in FP32 or BF16. Collectives run their schedule (`collective_schedules`) send by send:
rings, and all_to_all direct.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pandas as pd

from railcore.catalog.checks import Ints
from suite.emulator.collective_schedules import Schedule, collective_schedule, run_schedule

SCALE_UP, SCALE_OUT = "scale-up", "scale-out"
PHASES = ("forward", "recompute", "backward", "after")
_schedule = cache(collective_schedule)


@dataclass(frozen=True)
class TransferLabel:
    """Why a transfer happens.

    phase: one of PHASES.
    kind: as in `traffic`, or copies, loss or ends.
    layer, microbatch: where it has one.
    element_bytes: that its elements are counted as, where they are not as all others of its ranks [bytes].
    """

    phase: str
    kind: str
    layer: int | None = None
    microbatch: int | None = None
    element_bytes: float | None = None


class LoggedSend(NamedTuple):
    """One send between two ranks.

    order: of the operation among all events of the run.
    step: of the collective's schedule, 0 for a send of its own.
    bytes: of this send.
    """

    order: int
    step: int
    phase: str
    kind: str
    operation: str
    layer: int | None
    microbatch: int | None
    group: tuple[int, ...]
    source: int
    target: int
    link: str
    bytes: float


class LoggedOperation(NamedTuple):
    """One collective, or one send of its own.

    link: "scale-out" where any send is.
    bytes: of all sends.
    """

    order: int
    phase: str
    kind: str
    operation: str
    layer: int | None
    microbatch: int | None
    group: tuple[int, ...]
    link: str
    steps: int
    bytes: float


class LoggedCompute(NamedTuple):
    """One computation: what a rank did for one layer and one micro-batch."""

    order: int
    rank: int
    phase: str
    layer: int | None
    microbatch: int | None


class MemoryChange(NamedTuple):
    """An array held (bytes above 0) or freed (below 0); rank_bytes and total_bytes: held after it."""

    order: int
    rank: int
    name: str
    bytes: float
    rank_bytes: float
    total_bytes: float


class EmulatedRanks:
    """Simulated ranks in nodes, each node an HB domain (scale-up or NVLink domain).

    sends, computes, changes: what happened, in order; `log` and `memory` are the same as tables.
    current_bytes, peak_bytes [rank]: held now, and at most so far; peak_total_bytes: at most at once on all ranks.

    Parameters
    ----------
    ranks
        Number of ranks.
    hb_domain_size
        Ranks of a node; they fill nodes in order.
    element_bytes
        Bytes that an element is counted as [bytes].
    """

    def __init__(self, ranks: int, hb_domain_size: int, element_bytes: float = 4.0) -> None:
        self.ranks, self.element_bytes = ranks, element_bytes
        self.nodes: Ints = np.arange(ranks) // hb_domain_size
        self.sends: list[LoggedSend] = []
        self.computes: list[LoggedCompute] = []
        self.changes: list[MemoryChange] = []
        self.current_bytes, self.peak_bytes = np.zeros(self.ranks), np.zeros(self.ranks)
        self.peak_total_bytes = self._total_bytes = 0.0
        self._held: list[dict[str, np.ndarray]] = [{} for _ in range(self.ranks)]
        self._held_bytes: list[dict[str, float]] = [{} for _ in range(self.ranks)]
        self._events = 0

    @property
    def log(self) -> pd.DataFrame:
        """Every send, a row each, with the columns of `LoggedSend`. Rows of a collective share `order`."""
        kinds = {"layer": "Int64", "microbatch": "Int64", "bytes": "float64"}
        return pd.DataFrame(self.sends, columns=LoggedSend._fields).astype(kinds)

    def logged_operations(self) -> list[LoggedOperation]:
        """Every collective and every send of its own, in order."""
        return [_operation(list(call)) for _, call in groupby(self.sends, key=lambda send: send.order)]

    @property
    def memory(self) -> pd.DataFrame:
        """Every array held and freed, a row each, with the columns of `MemoryChange`."""
        return pd.DataFrame(self.changes, columns=MemoryChange._fields)

    def link(self, ranks: Sequence[int]) -> str:
        """The network that ranks send over: "scale-up" where all are on one node, else "scale-out"."""
        return SCALE_UP if len({int(self.nodes[rank]) for rank in ranks}) == 1 else SCALE_OUT

    def compute(self, rank: int, phase: str, layer: int | None = None, microbatch: int | None = None) -> None:
        """Log that a rank computes a layer of a micro-batch.

        Parameters
        ----------
        rank, phase, layer, microbatch
            Who computes what.

        Returns
        -------
        Nothing.
        """
        self.computes.append(LoggedCompute(self._next(), rank, phase, layer, microbatch))

    def hold(self, rank: int, name: str, array: np.ndarray, element_bytes: float | None = None) -> np.ndarray:
        """Keep an array in a rank's memory under a name, in place of what had that name.

        Parameters
        ----------
        rank, name, array
            Whose memory, and what it keeps.
        element_bytes
            That its elements are counted as, where they are not as all others [bytes].

        Returns
        -------
        The array.
        """
        if name in self._held[rank]:
            self.free(rank, name)
        self._held[rank][name] = array
        self._held_bytes[rank][name] = array.size * (element_bytes or self.element_bytes)
        self._changed(rank, name, self._held_bytes[rank][name])
        return array

    def holds(self, rank: int, name: str) -> bool:
        """Whether a rank holds an array under a name."""
        return name in self._held[rank]

    def held(self, rank: int, name: str) -> np.ndarray:
        """The array that a rank holds under a name."""
        return self._held[rank][name]

    def free(self, rank: int, name: str) -> np.ndarray:
        """Drop an array from a rank's memory; the array."""
        array = self.held(rank, name)
        del self._held[rank][name]
        self._changed(rank, name, -self._held_bytes[rank].pop(name))
        return array

    def send(self, source: int, target: int, array: np.ndarray, label: TransferLabel) -> np.ndarray:
        """Send an array from one rank to another: the copy that arrives.

        Parameters
        ----------
        source, target
            Ranks.
        array
            What is sent; the source keeps its own.
        label
            Why.

        Returns
        -------
        A copy.
        """
        size = array.size * (label.element_bytes or self.element_bytes)
        self._log(self._next(), 0, label, "send_receive", (source, target), source, target, size)
        return array.copy()

    def all_gather(self, group: Sequence[int], arrays: Sequence[np.ndarray], label: TransferLabel) -> list[np.ndarray]:
        """Give every rank of a group the shards of all, joined along the first axis.

        group, arrays: ranks, and the shard of each, in the same order; shards have one shape. label: why.
        Returns the joined array of each rank.
        """
        rows = [np.atleast_1d(array) for array in arrays]
        return self._joined("all_gather", group, rows, len(group) * rows[0].size, label)

    def reduce_scatter(
        self, group: Sequence[int], arrays: Sequence[np.ndarray], label: TransferLabel
    ) -> list[np.ndarray]:
        """Sum arrays over a group, and leave each rank one slice of the sum, in the order of the group.

        group, arrays: ranks, and the array of each; arrays have one shape, whose first axis is cut. label: why.
        Returns the slice of each rank.
        """
        return self._joined("reduce_scatter", group, arrays, arrays[0].size, label)

    def all_to_all(self, group: Sequence[int], arrays: Sequence[np.ndarray], label: TransferLabel) -> list[np.ndarray]:
        """Send slice t of each rank's array to rank t of a group, its own slice to itself.

        group, arrays, label: as in `reduce_scatter`.
        Returns the slices that each rank received, joined along the first axis.
        """
        return self._joined("all_to_all", group, arrays, arrays[0].size, label)

    def all_reduce(self, group: Sequence[int], arrays: Sequence[np.ndarray], label: TransferLabel) -> list[np.ndarray]:
        """The sum of arrays over a group, on every rank of it; arrays of any shape, the same on all.

        Where the elements do not divide by the ranks, the last blocks are smaller: nothing is padded. The total of
        what ranks send is then the closed form's, that of the busiest rank may be more.

        group, arrays: ranks, and the array of each, in the same order. label: why.
        """
        rows = [np.atleast_1d(array) for array in arrays]
        schedule = _schedule("all_reduce", "ring", len(group))
        shape, elements = rows[0].shape, rows[0].size
        room = -elements % schedule.blocks
        flat = [np.concatenate([array.reshape(-1), np.zeros(room, array.dtype)]) for array in rows]
        return [array[:elements].reshape(shape) for array in self._run(schedule, group, flat, elements, label)]

    def _next(self) -> int:
        self._events += 1
        return self._events - 1

    def _changed(self, rank: int, name: str, amount: float) -> None:
        bytes_now = float(self.current_bytes[rank]) + amount
        self._total_bytes += amount
        self.current_bytes[rank], self.peak_bytes[rank] = bytes_now, max(float(self.peak_bytes[rank]), bytes_now)
        self.peak_total_bytes = max(self.peak_total_bytes, self._total_bytes)
        self.changes.append(MemoryChange(self._next(), rank, name, amount, bytes_now, self._total_bytes))

    def _joined(
        self, operation: str, group: Sequence[int], rows: Sequence[np.ndarray], elements: int, label: TransferLabel
    ) -> list[np.ndarray]:
        """Results of a collective whose blocks are equal, joined along the first axis."""
        schedule = _schedule(operation, "direct" if operation == "all_to_all" else "ring", len(group))
        parts = self._run(schedule, group, [array.reshape(-1) for array in rows], elements, label)
        return [part.reshape(-1, *rows[0].shape[1:]) for part in parts]

    def _run(
        self, schedule: Schedule, group: Sequence[int], arrays: list[np.ndarray], elements: int, label: TransferLabel
    ) -> list[np.ndarray]:
        """Run a schedule on flat arrays and log its sends; `elements` of the message are real, the rest is not sent."""
        members, order = tuple(group), self._next()
        size, element_bytes = -(-elements // schedule.blocks), label.element_bytes or self.element_bytes
        for number, step in enumerate(schedule):
            for send in step:
                # A block of an all-to-all counts on beyond the message: there all blocks are whole.
                real = [min(max(elements - block % schedule.blocks * size, 0), size) for block in send.blocks]
                source, target = (members[node] for node in send[:2] if isinstance(node, int))
                sent = sum(real) * element_bytes
                self._log(order, number, label, schedule.operation, members, source, target, sent)
        return run_schedule(schedule, arrays) if len(schedule) else arrays

    def _log(
        self,
        order: int,
        step: int,
        label: TransferLabel,
        operation: str,
        group: tuple[int, ...],
        source: int,
        target: int,
        sent: float,
    ) -> None:
        link = self.link((source, target))
        why = (label.phase, label.kind, operation, label.layer, label.microbatch)
        self.sends.append(LoggedSend(order, step, *why, group, source, target, link, sent))


def _operation(sends: Sequence[LoggedSend]) -> LoggedOperation:
    first = sends[0]
    link = SCALE_OUT if any(send.link == SCALE_OUT for send in sends) else SCALE_UP
    why = (first.order, first.phase, first.kind, first.operation, first.layer, first.microbatch, first.group)
    return LoggedOperation(*why, link, sends[-1].step + 1, sum(send.bytes for send in sends))
