"""Collectives as schedules of sends between ranks: run on arrays, pipelined, and their bytes counted."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from railcore.facts import checks
from railcore.facts.checks import Floats
from railcore.training.collectives import OPERATIONS

# A rank, or a switch that reduces and multicasts: its kind and number.
Node = int | tuple[str, int]


class Send(NamedTuple):
    """Blocks that one node sends to another in one step; reduce: the receiver adds them to what it holds."""

    source: Node
    target: Node
    blocks: tuple[int, ...]
    reduce: bool = False


Step = list[Send]


@dataclass(frozen=True)
class Schedule:
    """Steps of sends that perform an operation among `ranks`; iterating gives the steps.

    The message D is ranks x parts equal blocks: part h of the slot of rank r is block r parts + h. In an all-to-all,
    where D is what one rank sends, part h of what rank s has for rank t is block (s ranks + t) parts + h. Broadcast,
    scatter and point-to-point start at rank 0; point-to-point ends at the last rank.
    """

    operation: str
    ranks: int
    parts: int
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        checks.one_of("operation", self.operation, OPERATIONS)
        checks.whole("ranks", self.ranks)
        checks.whole("parts", self.parts)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def blocks(self) -> int:
        """Blocks that message_bytes is made of: a block is message_bytes / blocks."""
        return self.ranks * self.parts

    def start(self, rank: int) -> list[int]:
        """Blocks that a rank holds before the first step."""
        if self.operation == "all_gather":
            return self._slots([rank])
        if self.operation == "all_to_all":
            return self._slots([rank * self.ranks + t for t in range(self.ranks)])
        one = self.operation in ("broadcast", "scatter", "point_to_point")
        return self._slots(range(self.ranks)) if rank == 0 or not one else []

    def end(self, rank: int) -> list[int]:
        """Blocks that are a rank's result after the last step."""
        if self.operation in ("reduce_scatter", "scatter"):
            return self._slots([rank])
        if self.operation == "all_to_all":
            return self._slots([s * self.ranks + rank for s in range(self.ranks)])
        if self.operation == "point_to_point" and rank != self.ranks - 1:
            return []
        return self._slots(range(self.ranks))

    def _slots(self, slots: Sequence[int]) -> list[int]:
        return [slot * self.parts + h for slot in slots for h in range(self.parts)]


@dataclass(frozen=True)
class ScheduleBytes:
    """What a schedule sends [bytes].

    sent, received [rank]. pairs: by (source, target), switches that reduce included. step_bytes [step]: through the
    busiest rank's port in each step; their sum over the bandwidth is the time of a run that waits after every step.
    """

    steps: int
    sent: NDArray[np.float64]
    received: NDArray[np.float64]
    pairs: dict[tuple[Node, Node], float]
    step_bytes: NDArray[np.float64]

    @property
    def bytes(self) -> float:
        """Through the port of the busiest rank: the larger of sent and received."""
        return float(max(self.sent.max(), self.received.max()))


def count_bytes(schedule: Schedule, block_bytes: float = 1.0) -> ScheduleBytes:
    """Steps and bytes of a schedule whose blocks have `block_bytes` each [bytes]."""
    ports = np.zeros((len(schedule), 2, schedule.ranks))
    pairs: Counter[tuple[Node, Node]] = Counter()
    for number, step in enumerate(schedule):
        for send in step:
            pairs[send.source, send.target] += len(send.blocks)
            for direction, node in enumerate((send.source, send.target)):
                if isinstance(node, int):
                    ports[number, direction, node] += len(send.blocks)
    ports *= block_bytes
    sent, received = ports.sum(axis=0)
    busiest = ports.max(axis=(1, 2))
    return ScheduleBytes(len(schedule), sent, received, {pair: n * block_bytes for pair, n in pairs.items()}, busiest)


def run_schedule(schedule: Schedule, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Perform a schedule: arrays[r] is what rank r starts with; the result is what each rank ends with.

    All sends of a step read what their sources held when the step began. For all_gather arrays[r] is a shard, else a
    full buffer, cut along its first axis. Raises ValueError where arrays do not fit, and where a rank sends a block
    that it does not hold or lacks one at the end.
    """
    if len(arrays) != schedule.ranks:
        raise ValueError(f"arrays has {len(arrays)} entries: give one for each of {schedule.ranks} ranks")
    held: dict[Node, dict[int, np.ndarray]] = {r: _pieces(schedule, r, array) for r, array in enumerate(arrays)}
    for step in schedule:
        moved = [(send, [_block(held, send.source, block) for block in send.blocks]) for send in step]
        for send, pieces in moved:
            target = held.setdefault(send.target, {})
            for block, piece in zip(send.blocks, pieces, strict=True):
                target[block] = target[block] + piece if send.reduce and block in target else piece
    ends = [[_block(held, r, block) for block in schedule.end(r)] for r in range(schedule.ranks)]
    return [np.concatenate(pieces) if pieces else arrays[0][:0] for pieces in ends]


def pipelined_schedule(schedule: Schedule, chunks: int) -> Schedule:
    """The same schedule with every block cut into chunks, each of which starts a step after the one before.

    It has chunks - 1 steps more and the same bytes. Where ranks forward what they receive, the sum of
    `ScheduleBytes.step_bytes` falls to `ScheduleBytes.bytes` as chunks grow: the bandwidth term of the closed forms.
    """
    checks.whole("chunks", chunks)
    steps: list[Step] = [[] for _ in range(len(schedule) + chunks - 1 if len(schedule) else 0)]
    for chunk in range(chunks):
        for number, step in enumerate(schedule):
            cut = [send._replace(blocks=tuple(block * chunks + chunk for block in send.blocks)) for send in step]
            steps[number + chunk].extend(cut)
    return replace(schedule, parts=schedule.parts * chunks, steps=tuple(steps))


def _pieces(schedule: Schedule, rank: int, array: np.ndarray) -> dict[int, np.ndarray]:
    blocks = schedule.start(rank)
    if blocks and len(array) % len(blocks):
        raise ValueError(f"arrays[{rank}] has {len(array)} rows: give a multiple of its {len(blocks)} blocks")
    return dict(zip(blocks, np.split(array, len(blocks)), strict=True)) if blocks else {}


def _block(held: dict[Node, dict[int, np.ndarray]], node: Node, block: int) -> np.ndarray:
    if block not in held.get(node, {}):
        raise ValueError(f"schedule: {node} does not hold block {block} when it is asked for; add the send before")
    return held[node][block]


@dataclass(frozen=True)
class DomainRailBytes:
    """Bytes that all GPUs send: inside HB domains [domain], between domains along a rail [rail], across rails."""

    by_domain: Floats
    by_rail: Floats
    across_rails: float

    @property
    def network(self) -> float:
        """Between domains, along all rails and across them."""
        return float(self.by_rail.sum() + self.across_rails)


def domain_rail_bytes(schedule: Schedule, message_bytes: float, hb_ranks: int) -> DomainRailBytes:
    """Bytes of a schedule, flat or hierarchical, whose ranks fill HB domains of `hb_ranks` in order.

    Raises ValueError where hb_ranks does not divide the ranks.
    """
    if schedule.ranks % checks.whole("hb_ranks", hb_ranks):
        raise ValueError(f"hb_ranks is {hb_ranks!r}: give a divisor of the schedule's {schedule.ranks} ranks")
    by_domain, by_rail, across = np.zeros(schedule.ranks // hb_ranks), np.zeros(hb_ranks), 0.0
    for (source, target), sent in count_bytes(schedule, message_bytes / schedule.blocks).pairs.items():
        (domain, rail), (other_domain, other_rail) = _place(source, hb_ranks), _place(target, hb_ranks)
        if domain == other_domain is not None:
            by_domain[domain] += sent
        elif rail == other_rail is not None:
            by_rail[rail] += sent
        else:
            across += sent
    return DomainRailBytes(by_domain, by_rail, across)


def _place(node: Node, hb_ranks: int) -> tuple[int | None, int | None]:
    """HB domain and rail of a rank; of a switch the one that it serves."""
    if isinstance(node, int):
        return node // hb_ranks, node % hb_ranks
    kind, number = node
    return (number, None) if kind == "hb" else (None, number)
