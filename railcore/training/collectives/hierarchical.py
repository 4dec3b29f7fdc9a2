"""Collectives of x by y GPUs, x in each of y HB domains (scale-up or NVLink domains), that never leave their rail.

GPU j of domain d is rank d x + j and stands on rail j. Each operation is a chain of phases, in the HB domains or along
the rails; every phase is a flat collective of `algorithms`:

    all_gather      rails: all_gather of D / x among y; HB: all_gather of D among x
    reduce_scatter  HB: reduce_scatter of D; rails: reduce_scatter of D / x
    all_reduce      HB: reduce_scatter of D; rails: all_reduce of D / x; HB: all_gather of D
    broadcast       HB of the root: scatter of D; rails: broadcast of D / x; HB: all_gather of D
    all_to_all      rails and HB, in either order: all_to_all of D
    point_to_point  rails and HB, in either order: one send of D each

The last two are rail-forwarded: what is meant for another rail makes one hop in an HB domain, in the sender's
(hb_first, NCCL's PXN) or in the receiver's.

Sources: railonly2025, LLM Traffic in the NIC Domain and Routing in Rail-Only Networks; railonly2023, 3.1.
"""

from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import checks
from railcore.facts.checks import Floats
from railcore.training.collectives.algorithms import collective_time, default_algorithm
from railcore.training.collectives.execution import Node, Schedule, Send, Step, count
from railcore.training.collectives.schedules import collective_schedule

HB, NIC = "hb", "nic"
# Phases in order: where, and which flat operation; what runs along a rail moves D / x of a buffer that all share.
_PHASES: dict[str, tuple[tuple[str, str], ...]] = {
    "all_gather": ((NIC, "all_gather"), (HB, "all_gather")),
    "reduce_scatter": ((HB, "reduce_scatter"), (NIC, "reduce_scatter")),
    "all_reduce": ((HB, "reduce_scatter"), (NIC, "all_reduce"), (HB, "all_gather")),
    "broadcast": ((HB, "scatter"), (NIC, "broadcast"), (HB, "all_gather")),
    "all_to_all": ((NIC, "all_to_all"), (HB, "all_to_all")),
    "point_to_point": ((NIC, "point_to_point"), (HB, "point_to_point")),
}
_FORWARDED = ("all_to_all", "point_to_point")


def hierarchical_phase_times(
    operation: str,
    message_bytes: ArrayLike,
    hb_ranks: ArrayLike,
    domains: ArrayLike,
    hb_Bps: ArrayLike,
    nic_Bps: ArrayLike,
    hb_latency_s: ArrayLike = 0.0,
    nic_latency_s: ArrayLike = 0.0,
    hb_algorithm: str | None = None,
    nic_algorithm: str | None = None,
) -> dict[str, Floats]:
    """Time of each phase of a hierarchical collective, in order.

    Parameters
    ----------
    operation, message_bytes, hb_ranks, domains, hb_Bps, nic_Bps, hb_latency_s, nic_latency_s
        As for `hierarchical_time`.
    hb_algorithm, nic_algorithm
        As for `hierarchical_time`.

    Returns
    -------
    Seconds by "hb" or "nic" and the flat operation, such as "hb reduce_scatter".
    """
    x, y = checks.whole("hb_ranks", hb_ranks), checks.whole("domains", domains)
    size = checks.at_least("message_bytes", message_bytes)
    links = {HB: (x, hb_Bps, hb_latency_s), NIC: (y, nic_Bps, nic_latency_s)}
    names = {HB: hb_algorithm, NIC: nic_algorithm}
    times = {}
    for where, flat in _phases(operation):
        moved = size / x if where == NIC and operation not in _FORWARDED else size
        times[f"{where} {flat}"] = collective_time(flat, moved, *links[where], _algorithm(flat, names[where]))
    return times


def hierarchical_time(
    operation: str,
    message_bytes: ArrayLike,
    hb_ranks: ArrayLike,
    domains: ArrayLike,
    hb_Bps: ArrayLike,
    nic_Bps: ArrayLike,
    hb_latency_s: ArrayLike = 0.0,
    nic_latency_s: ArrayLike = 0.0,
    chunks: ArrayLike = 1,
    hb_algorithm: str | None = None,
    nic_algorithm: str | None = None,
) -> Floats:
    """Time of a hierarchical collective [s], its phases pipelined over chunks: sum(t_i) + (chunks - 1) max(HB, NIC).

    t_i is the time of a chunk of D / chunks in phase i. HB and NIC are the sums of its phases in the HB domain and on
    the rail, because phases on the same links take turns. Exact with two phases, and with three where NIC >= HB; else
    too long by at most one chunk's NIC time.

    Parameters
    ----------
    operation
        One of those in the module's table.
    message_bytes, hb_ranks, domains
        D [bytes], x and y.
    hb_Bps, nic_Bps, hb_latency_s, nic_latency_s
        Of a GPU in one direction [bytes/s], and of a step [s].
    chunks
        Parts that D is cut into. All arguments up to here broadcast.
    hb_algorithm, nic_algorithm
        Of the flat collectives, such as "nvls" and "in_network"; by default `default_algorithm`. Scatter and
        point_to_point are always direct.

    Returns
    -------
    Seconds, an array of the arguments' common shape.

    Raises
    ------
    ValueError
        For an unknown operation or algorithm, and for values out of range.
    """
    parts = checks.whole("chunks", chunks)
    size = checks.at_least("message_bytes", message_bytes) / parts
    links = (hb_ranks, domains, hb_Bps, nic_Bps, hb_latency_s, nic_latency_s, hb_algorithm, nic_algorithm)
    busy = {HB: np.zeros(()), NIC: np.zeros(())}
    for name, time in hierarchical_phase_times(operation, size, *links).items():
        where = name.split()[0]
        busy[where] = busy[where] + time
    return busy[HB] + busy[NIC] + (parts - 1) * np.maximum(busy[HB], busy[NIC])


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
        As for `hierarchical_time`. Broadcast and point_to_point start at rank 0, point_to_point ends at the last rank.
    hb_first
        Whether all_to_all and point_to_point start in the HB domains.

    Returns
    -------
    A schedule whose switches that reduce are ("hb", domain) and ("rail", rail).

    Raises
    ------
    ValueError
        As `hierarchical_time`, and for hb_first with an operation that has one order only.
    """
    phases = _phases(operation)
    if hb_first and operation not in _FORWARDED:
        raise ValueError(f"hb_first is True: only {' and '.join(_FORWARDED)} have both orders")
    x, y = int(checks.whole("hb_ranks", hb_ranks)), int(checks.whole("domains", domains))
    sizes, names = {HB: x, NIC: y}, {HB: hb_algorithm, NIC: nic_algorithm}
    flats = [(where, collective_schedule(flat, _algorithm(flat, names[where]), sizes[where])) for where, flat in phases]
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
    groups: list[tuple[list[int], np.ndarray, Node]] = []
    for group, members in enumerate(ranks):
        rows, slots = flat.ranks, ranks.T if where == HB else members
        if flat.operation == "all_to_all":
            rows, slots = (
                flat.ranks**2,
                pairs[group].swapaxes(1, 2) if first else np.moveaxis(pairs[:, :, group], 0, -1),
            )
        elif flat.operation == "point_to_point":
            slots = np.arange(x * y)
        groups.append((members.tolist(), slots.reshape(rows, -1), (kind, group)))
    if flat.operation == "point_to_point":
        return groups[:1] if first else groups[-1:]
    return groups[:1] if flat.operation == "scatter" else groups


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


@dataclass(frozen=True)
class GridBytes:
    """Bytes that all GPUs send: inside HB domains [domain], between domains along a rail [rail], across rails."""

    by_domain: Floats
    by_rail: Floats
    across_rails: float

    @property
    def network(self) -> float:
        """Between domains, along all rails and across them."""
        return float(self.by_rail.sum() + self.across_rails)


def grid_bytes(schedule: Schedule, message_bytes: float, hb_ranks: int) -> GridBytes:
    """Bytes of a schedule, flat or hierarchical, whose ranks fill HB domains of `hb_ranks` in order.

    Raises ValueError where hb_ranks does not divide the ranks.
    """
    if schedule.ranks % checks.whole("hb_ranks", hb_ranks):
        raise ValueError(f"hb_ranks is {hb_ranks!r}: give a divisor of the schedule's {schedule.ranks} ranks")
    by_domain, by_rail, across = np.zeros(schedule.ranks // hb_ranks), np.zeros(hb_ranks), 0.0
    for (source, target), sent in count(schedule, message_bytes / schedule.blocks).pairs.items():
        (domain, rail), (other_domain, other_rail) = _place(source, hb_ranks), _place(target, hb_ranks)
        if domain == other_domain is not None:
            by_domain[domain] += sent
        elif rail == other_rail is not None:
            by_rail[rail] += sent
        else:
            across += sent
    return GridBytes(by_domain, by_rail, across)


def _place(node: Node, hb_ranks: int) -> tuple[int | None, int | None]:
    """HB domain and rail of a rank; of a switch the one that it serves."""
    if isinstance(node, int):
        return node // hb_ranks, node % hb_ranks
    kind, number = node
    return (number, None) if kind == "hb" else (None, number)


def hierarchical_all_gather_bytes(message_bytes: float, hb_ranks: int, domains: int) -> GridBytes:
    """Counted bytes of a hierarchical AllGather of D bytes: D (y - 1) / x on each rail, D (x - 1) in each domain.

    All GPUs together send D (y - 1) between domains, over x rails. Source: railonly2025, LLM Traffic in the NIC Domain.
    """
    return grid_bytes(hierarchical_schedule("all_gather", hb_ranks, domains), message_bytes, hb_ranks)


def _phases(operation: str) -> tuple[tuple[str, str], ...]:
    return _PHASES[checks.one_of("operation", operation, _PHASES)]


def _algorithm(flat: str, algorithm: str | None) -> str:
    return algorithm if algorithm and flat not in ("scatter", "point_to_point") else default_algorithm(flat)
