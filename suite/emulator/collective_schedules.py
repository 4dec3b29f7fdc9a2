"""Collectives as schedules of sends between ranks, flat among n ranks or hierarchical among HB domains and rails.

A schedule is run on arrays, or its bytes are counted.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from railcore.catalog.checks import Floats
from railcore.training.collectives import HB, NIC, hierarchical_phases, steps_and_bytes

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

    sent, received: by rank.
    pairs: by (source, target), switches that reduce included.
    steps: of the schedule.
    step_bytes: through the busiest rank's port in each step; their sum over the bandwidth is the time of a run that
        waits after every step.
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
    full buffer, cut along its first axis. Raises ValueError where a rank sends a block that it does not hold, or lacks
    one at the end.
    """
    held: dict[Node, dict[int, np.ndarray]] = {r: _pieces(schedule, r, array) for r, array in enumerate(arrays)}
    for step in schedule:
        moved = [(send, [_block(held, send.source, block) for block in send.blocks]) for send in step]
        for send, pieces in moved:
            target = held.setdefault(send.target, {})
            for block, piece in zip(send.blocks, pieces, strict=True):
                target[block] = target[block] + piece if send.reduce and block in target else piece
    ends = [[_block(held, r, block) for block in schedule.end(r)] for r in range(schedule.ranks)]
    return [np.concatenate(pieces) if pieces else arrays[0][:0] for pieces in ends]


def _pieces(schedule: Schedule, rank: int, array: np.ndarray) -> dict[int, np.ndarray]:
    blocks = schedule.start(rank)
    return dict(zip(blocks, np.split(array, len(blocks)), strict=True)) if blocks else {}


def _block(held: dict[Node, dict[int, np.ndarray]], node: Node, block: int) -> np.ndarray:
    if block not in held.get(node, {}):
        raise ValueError(f"{node} does not hold block {block} when it is asked for: add the send before")
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
    """Bytes of a schedule, flat or hierarchical, whose ranks fill HB domains of `hb_ranks` in order."""
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
    """HB domain and rail of a rank, or of the ranks that a switch serves."""
    if isinstance(node, int):
        return node // hb_ranks, node % hb_ranks
    kind, number = node
    return (number, None) if kind == "hb" else (None, number)


SWITCH: Node = ("switch", 0)
# Algorithms that send the two halves of a block by different paths.
_HALVED = ("bidirectional_ring", "double_binary_tree")
_Steps = list[Step]
_Blocks = Callable[[int], tuple[int, ...]]


def collective_schedule(operation: str, algorithm: str, ranks: int) -> Schedule:
    """Schedule of one algorithm; no steps for one rank. Its counted bytes equal `steps_and_bytes`.

    A switch that reduces is the node ("switch", 0). Raises ValueError for an unknown algorithm, and for a number of
    ranks that it does not support.
    """
    steps_and_bytes(operation, algorithm, 0, ranks)  # refuses
    parts = 2 if algorithm in _HALVED else 1
    return Schedule(operation, ranks, parts, tuple(_steps(operation, algorithm, ranks) if ranks > 1 else []))


def _steps(operation: str, algorithm: str, n: int) -> _Steps:
    """Steps among two or more ranks. Some operations are built from others, forward or reversed."""
    if algorithm in _STEPS[operation]:
        return _STEPS[operation][algorithm](n)
    if operation == "reduce_scatter":
        return _reversed(_GATHER[algorithm](n))
    if algorithm in _GATHER:  # an all_reduce
        return _steps("reduce_scatter", algorithm, n) + _GATHER[algorithm](n)
    return _reversed(_BROADCAST[algorithm](n)) + _BROADCAST[algorithm](n)


def _reversed(steps: _Steps) -> _Steps:
    """The schedule backwards in time: what copied a block now sums it."""
    return [[Send(send.target, send.source, send.blocks, True) for send in step] for step in reversed(steps)]


def _doublings(n: int) -> range:
    return range((n - 1).bit_length())


def _halves(slot: int, which: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(2 * slot + h for h in which)


def _ways(distance: int, n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Halves that go a distance forward and backward round a ring: one each where it is halfway round."""
    return ((0,), (1,)) if 2 * distance == n else ((0, 1), (0, 1))


def _gather_both_ways(n: int) -> _Steps:
    steps = []
    for t in range(1, n // 2 + 1):
        forward, backward = _ways(t, n)
        step = [Send(r, (r + 1) % n, _halves((r - t + 1) % n, forward)) for r in range(n)]
        steps.append(step + [Send(r, (r - 1) % n, _halves((r + t - 1) % n, backward)) for r in range(n)])
    return steps


def _gather_recursive(n: int) -> _Steps:
    return [
        [Send(r, r ^ 1 << k, tuple(range(r >> k << k, (r >> k << k) + (1 << k)))) for r in range(n)]
        for k in _doublings(n)
    ]


def _gather_bruck(n: int) -> _Steps:
    return [
        [Send(r, (r - (1 << k)) % n, tuple((r + j) % n for j in range(min(1 << k, n - (1 << k))))) for r in range(n)]
        for k in _doublings(n)
    ]


def _through_switch(n: int, up: _Blocks, down: _Blocks, reduce: bool = False) -> _Steps:
    """Every rank sends blocks to the switch, and then receives blocks from it."""
    there = [Send(r, SWITCH, up(r), reduce) for r in range(n)]
    return [there, [Send(SWITCH, r, down(r)) for r in range(n)]]


def _reduce_doubling(n: int) -> _Steps:
    return [[Send(r, r ^ 1 << k, tuple(range(n)), True) for r in range(n)] for k in _doublings(n)]


def _spread(levels: list[list[tuple[int, int]]], n: int) -> _Steps:
    return [[Send(source, target, tuple(range(n))) for source, target in level] for level in levels]


def _broadcast_recursive(n: int) -> _Steps:
    return _spread([[(r, r + (1 << k)) for r in range(min(1 << k, n - (1 << k)))] for k in _doublings(n)], n)


def _broadcast_both_ways(n: int) -> _Steps:
    forward, backward = (tuple(range(h, 2 * n, 2)) for h in (0, 1))
    return [[Send(r, r + 1, forward), Send(-r % n, n - r - 1, backward)] for r in range(n - 1)]


def _broadcast_tree(n: int) -> _Steps:
    parents = [range((1 << d) - 1, (2 << d) - 1) for d in range(n.bit_length() - 1)]
    return _spread([[(i, c) for i in level for c in (2 * i + 1, 2 * i + 2) if c < n] for level in parents], n)


def _broadcast_in_network(n: int) -> _Steps:
    everything = tuple(range(n))
    return [[Send(0, SWITCH, everything)], [Send(SWITCH, r, everything) for r in range(1, n)]]


def _ordered_tree(n: int) -> list[list[tuple[int, int]]]:
    """Edges by depth of a binary tree under 0 over 1 to n - 1 in order: odd numbers have no children."""
    levels, ranges = [], [(0, 1, n)]
    while ranges:
        rooted = [(up, low, low + (1 << (high - low).bit_length() - 1) - 1, high) for up, low, high in ranges]
        levels.append([(up, root) for up, _, root, _ in rooted])
        under = [pair for _, low, root, high in rooted for pair in ((root, low, root), (root, root + 1, high))]
        ranges = [(up, low, high) for up, low, high in under if low < high]
    return levels


def _broadcast_two_trees(n: int) -> _Steps:
    """The second tree is the first with its ranks mirrored or shifted, so that odd and even change places."""
    m = n - 1
    second = [0] + [(p - 2) % m + 1 if m % 2 else n - p for p in range(1, n)]
    first_half, second_half = (tuple(range(h, 2 * n, 2)) for h in (0, 1))
    return [
        [send for a, b in level for send in (Send(a, b, first_half), Send(second[a], second[b], second_half))]
        for level in _ordered_tree(n)
    ]


def _exchange_pairwise(n: int) -> _Steps:
    return [[Send(r, (r + k) % n, (r * n + (r + k) % n,)) for r in range(n)] for k in range(1, n)]


def _exchange_ring(n: int) -> _Steps:
    def passing(r: int, t: int) -> tuple[int, ...]:
        source = (r - t + 1) % n
        return tuple(source * n + (source + j) % n for j in range(t, n))

    return [[Send(r, (r + 1) % n, passing(r, t)) for r in range(n)] for t in range(1, n)]


def _exchange_both_ways(n: int) -> _Steps:
    def passing(r: int, t: int, sign: int) -> tuple[int, ...]:
        source = (r - sign * (t - 1)) % n
        ways = [(j, _ways(j, n)[sign < 0]) for j in range(t, n // 2 + 1)]
        return tuple(half for j, way in ways for half in _halves(source * n + (source + sign * j) % n, way))

    return [
        [Send(r, (r + sign) % n, passing(r, t, sign)) for r in range(n) for sign in (1, -1)]
        for t in range(1, n // 2 + 1)
    ]


def _exchange_bruck(n: int) -> _Steps:
    def passing(r: int, k: int) -> tuple[int, ...]:
        sources = [((r - j % (1 << k)) % n, j) for j in range(1, n) if j >> k & 1]
        return tuple(source * n + (source + j) % n for source, j in sources)

    return [[Send(r, (r + (1 << k)) % n, passing(r, k)) for r in range(n)] for k in _doublings(n)]


_Table = dict[str, Callable[[int], _Steps]]
_GATHER: _Table = {
    "ring": lambda n: [[Send(r, (r + 1) % n, ((r - t) % n,)) for r in range(n)] for t in range(n - 1)],
    "bidirectional_ring": _gather_both_ways,
    "recursive": _gather_recursive,
    "bruck": _gather_bruck,
    "direct": lambda n: [[Send(r, t, (r,)) for r in range(n) for t in range(n) if t != r]],
    "in_network": lambda n: _through_switch(n, lambda r: (r,), lambda r: tuple(b for b in range(n) if b != r)),
    "nvls": lambda n: _through_switch(n, lambda r: (r,), lambda r: tuple(range(n))),
}
_BROADCAST: _Table = {
    "ring": lambda n: _spread([[(r, r + 1)] for r in range(n - 1)], n),
    "bidirectional_ring": _broadcast_both_ways,
    "recursive": _broadcast_recursive,
    "tree": _broadcast_tree,
    "double_binary_tree": _broadcast_two_trees,
    "direct": lambda n: _spread([[(0, r) for r in range(1, n)]], n),
    "in_network": _broadcast_in_network,
}
_STEPS: dict[str, _Table] = {
    "all_gather": _GATHER,
    "reduce_scatter": {
        # A ring turns the same way as that of all_gather, so that those of an all_reduce are one.
        "ring": lambda n: [[Send(r, (r + 1) % n, ((r - t - 1) % n,), True) for r in range(n)] for t in range(n - 1)],
        "nvls": lambda n: _through_switch(n, lambda r: tuple(range(n)), lambda r: (r,), reduce=True),
    },
    "all_reduce": {
        "recursive_doubling": _reduce_doubling,
        "one_shot": lambda n: [[Send(r, t, tuple(range(n)), True) for r in range(n) for t in range(n) if t != r]],
        "in_network": lambda n: _through_switch(n, lambda r: tuple(range(n)), lambda r: tuple(range(n)), reduce=True),
    },
    "broadcast": _BROADCAST,
    "scatter": {"direct": lambda n: [[Send(0, r, (r,)) for r in range(1, n)]]},
    "all_to_all": {
        "direct": lambda n: [[send for step in _exchange_pairwise(n) for send in step]],
        "pairwise": _exchange_pairwise,
        "ring": _exchange_ring,
        "bidirectional_ring": _exchange_both_ways,
        "bruck": _exchange_bruck,
    },
    "point_to_point": {"direct": lambda n: [[Send(0, n - 1, tuple(range(n)))]]},
}


def hierarchical_schedule(
    operation: str,
    hb_ranks: int,
    domains: int,
    hb_algorithm: str | None = None,
    nic_algorithm: str | None = None,
    hb_first: bool = False,
) -> Schedule:
    """The phases as a schedule of hb_ranks x domains ranks; each phase ends before the next begins.

    Parameters
    ----------
    operation, hb_ranks, domains, hb_algorithm, nic_algorithm
        As for `hierarchical_phase_times`. Broadcast and point_to_point start at rank 0, point_to_point ends at the last
        rank.
    hb_first
        Whether all_to_all and point_to_point start in the HB domains.

    Returns
    -------
    A schedule whose switches that reduce are ("hb", domain) and ("rail", rail).
    """
    phases, x, y = hierarchical_phases(operation, hb_algorithm, nic_algorithm), hb_ranks, domains
    sizes = {HB: x, NIC: y}
    flats = [(where, collective_schedule(flat, name, sizes[where])) for where, flat, name in phases]
    parts = max(flat.parts for _, flat in flats)
    steps: list[Step] = []
    for number, (where, flat) in enumerate(flats[:: -1 if hb_first else 1]):
        placed = [_placed(flat, *group, parts) for group in _groups(where, flat, x, y, number == 0)]
        steps += [list(chain(*together)) for together in zip(*placed, strict=True)]
    return Schedule(operation, x * y, parts, tuple(steps))


def _groups(where: str, flat: Schedule, x: int, y: int, first: bool) -> list[tuple[list[int], np.ndarray, Node]]:
    """Groups that run a flat schedule at the same time: ranks, slots of the whole buffer, switch.

    Row i of the slots: those of the whole buffer that slot i of the group's buffer stands for. In an all_to_all the
    first phase carries what its senders have for the other groups too, the second what the first brought from them.
    """
    grid = np.arange(x * y).reshape(y, x)
    ranks, kind = (grid, "hb") if where == HB else (grid.T, "rail")  # [group, rank in it]
    pairs = ranks[..., None, None] * x * y + ranks  # slots of an all_to_all [source's group, source, target's, target]
    rows = flat.ranks**2 if flat.operation == "all_to_all" else flat.ranks
    groups: list[tuple[list[int], np.ndarray, Node]] = []
    for group, members in enumerate(ranks):
        if flat.operation == "all_to_all":
            slots = pairs[group].swapaxes(1, 2) if first else np.moveaxis(pairs[:, :, group], 0, -1)
        elif flat.operation == "point_to_point":
            slots = np.arange(x * y)
        else:
            slots = ranks.T if where == HB else members
        groups.append((members.tolist(), slots.reshape(rows, -1), (kind, group)))
    if flat.operation == "scatter" or (flat.operation == "point_to_point" and first):
        return groups[:1]
    return groups[-1:] if flat.operation == "point_to_point" else groups


def _placed(flat: Schedule, ranks: list[int], slots: np.ndarray, switch: Node, parts: int) -> list[Step]:
    """The flat schedule among `ranks`, its blocks those of a whole buffer with `parts` blocks in each slot."""
    whole = (slots[..., None] * parts + np.arange(parts)).reshape(len(slots), -1, flat.parts, parts // flat.parts)
    blocks = whole.swapaxes(1, 2).reshape(len(slots) * flat.parts, -1).tolist()
    nodes: dict[Node, Node] = dict(enumerate(ranks))
    return [
        [
            Send(
                nodes.get(send.source, switch),
                nodes.get(send.target, switch),
                tuple(chain.from_iterable(blocks[block] for block in send.blocks)),
                send.reduce,
            )
            for send in step
        ]
        for step in flat
    ]
