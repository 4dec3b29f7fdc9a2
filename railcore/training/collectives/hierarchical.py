"""Collectives of x by y GPUs, x in each of y HB domains (scale-up or NVLink domains), that never leave their rail.

GPU j of domain d is rank d x + j and stands on rail j. Each operation is a chain of phases, in the HB domains or along
the rails, every one a flat collective of `railcore.training.collectives.algorithms`:

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

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from railcore.training.collectives import algorithms
from railcore.training.collectives.execution import Node, Schedule, Send, Step, count
from railcore.training.collectives.schedules import schedule

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
_WHOLE = ("all_to_all", "point_to_point")


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
) -> dict[str, NDArray[np.float64]]:
    """Time of each phase [s] in order, by "hb" or "nic" and its flat operation: "hb reduce_scatter".

    Arguments and errors as in `hierarchical_time`.
    """
    x, y = algorithms.whole("hb_ranks", hb_ranks), algorithms.whole("domains", domains)
    size = algorithms.checked("message_bytes", message_bytes, 0)
    links = {HB: (x, hb_Bps, hb_latency_s, hb_algorithm), NIC: (y, nic_Bps, nic_latency_s, nic_algorithm)}
    times = {}
    for where, flat in _phases(operation):
        ranks, bandwidth, latency, algorithm = links[where]
        moved = size / x if where == NIC and operation not in _WHOLE else size
        times[f"{where} {flat}"] = algorithms.collective_time(
            flat, moved, ranks, bandwidth, latency, _algorithm(flat, algorithm)
        )
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
) -> NDArray[np.float64]:
    """Time of a hierarchical collective [s], its phases pipelined over chunks: sum(t_i) + (chunks - 1) max(HB, NIC).

    t_i is a chunk's time in phase i, D / chunks at a time; HB and NIC are its phases in the HB domain and on the rail
    added up, for phases on the same links take turns. Exact with two phases, and with three where NIC >= HB; else at
    most one chunk's NIC time too long.
    message_bytes D [bytes], hb_ranks x, domains y, hb_Bps and nic_Bps [bytes/s] one direction of a GPU, latencies of
    a step [s], chunks: broadcast against each other.
    hb_algorithm, nic_algorithm: of the flat forms, such as "nvls" and "in_network"; by default "ring", and "direct"
    for scatter, all_to_all and point_to_point. Raises ValueError for what is unknown or out of range.
    """
    parts = algorithms.whole("chunks", chunks)
    size = algorithms.checked("message_bytes", message_bytes, 0) / parts
    links = (hb_ranks, domains, hb_Bps, nic_Bps, hb_latency_s, nic_latency_s, hb_algorithm, nic_algorithm)
    busy = {HB: np.zeros(()), NIC: np.zeros(())}
    for name, time in hierarchical_phase_times(operation, size, *links).items():
        where = name.split()[0]
        busy[where] = busy[where] + time
    return busy[HB] + busy[NIC] + (parts - 1) * np.maximum(busy[HB], busy[NIC])


def direct_all_to_all_time(
    message_bytes: ArrayLike,
    hb_ranks: ArrayLike,
    domains: ArrayLike,
    hb_Bps: ArrayLike,
    nic_Bps: ArrayLike,
    hb_latency_s: ArrayLike = 0.0,
    nic_latency_s: ArrayLike = 0.0,
) -> NDArray[np.float64]:
    """All-to-all of x y GPUs over HB domains and an any-to-any network, both at once [s].

    max(hb_latency_s + D (x - 1) / (x y) / hb_Bps, nic_latency_s + D (y - 1) / y / nic_Bps): without forwarding, what
    the rail-forwarded one is held against (railonly2025, Routing in Rail-Only Networks).
    Arguments and errors as in `hierarchical_time`.
    """
    y = algorithms.whole("domains", domains)
    size = algorithms.checked("message_bytes", message_bytes, 0)
    inside = algorithms.all_to_all_time(size / y, hb_ranks, hb_Bps, hb_latency_s)
    return np.maximum(inside, algorithms.all_to_all_time(size, y, nic_Bps, nic_latency_s))


def hierarchical_schedule(
    operation: str,
    hb_ranks: int,
    domains: int,
    hb_algorithm: str | None = None,
    nic_algorithm: str | None = None,
    hb_first: bool = False,
) -> Schedule:
    """The phases as a schedule of hb_ranks x domains ranks, each phase done before the next begins.

    Its switches that reduce are ("hb", domain) and ("rail", rail). Broadcast and point-to-point start at rank 0,
    point-to-point ends at the last rank. hb_first: the order of all_to_all and point_to_point.
    Raises ValueError as `hierarchical_time`.
    """
    phases = _phases(operation)
    if hb_first and operation not in _WHOLE:
        raise ValueError(f"hb_first is True: only {' and '.join(_WHOLE)} have both orders")
    x, y = int(algorithms.whole("hb_ranks", hb_ranks)), int(algorithms.whole("domains", domains))
    sizes, names = {HB: x, NIC: y}, {HB: hb_algorithm, NIC: nic_algorithm}
    flats = [(where, schedule(flat, _algorithm(flat, names[where]), sizes[where])) for where, flat in phases]
    grid = _Grid(x, y, max(flat.parts for _, flat in flats), hb_first)
    steps = [step for where, flat in flats[:: -1 if hb_first else 1] for step in grid.phase(where, flat, operation)]
    return Schedule(operation, x * y, grid.parts, tuple(steps))


@dataclass(frozen=True)
class GridBytes:
    """What a schedule on a grid of GPUs sends [bytes].

    by_domain [domain]: inside HB domains; by_rail [rail]: between domains along a rail; across_rails: between domains
    and rails. A send to or from a switch that reduces counts where the switch is.
    """

    by_domain: NDArray[np.float64]
    by_rail: NDArray[np.float64]
    across_rails: float

    @property
    def network(self) -> float:
        """Between domains, over all rails and across them."""
        return float(self.by_rail.sum() + self.across_rails)


def grid_bytes(schedule: Schedule, message_bytes: float, hb_ranks: int) -> GridBytes:
    """Count a schedule, flat or hierarchical, of ranks that fill HB domains of `hb_ranks` in order.

    Raises ValueError where hb_ranks does not divide the ranks.
    """
    if schedule.ranks % algorithms.whole("hb_ranks", hb_ranks):
        raise ValueError(f"hb_ranks is {hb_ranks!r}: give a divisor of the schedule's {schedule.ranks} ranks")
    by_domain, by_rail, across = np.zeros(schedule.ranks // hb_ranks), np.zeros(hb_ranks), 0.0
    for pair, sent in count(schedule, message_bytes / schedule.blocks).pairs.items():
        shared = {kind: _common(pair, hb_ranks, kind) for kind in ("hb", "rail")}
        if shared["hb"] is not None:
            by_domain[shared["hb"]] += sent
        elif shared["rail"] is not None:
            by_rail[shared["rail"]] += sent
        else:
            across += sent
    return GridBytes(by_domain, by_rail, across)


def hierarchical_all_gather_bytes(message_bytes: float, hb_ranks: int, domains: int) -> GridBytes:
    """Counted bytes of a hierarchical AllGather of D bytes: D (y - 1) / x on each rail, D (x - 1) in each domain.

    The document prints the first as the bytes of all GPUs in the network; those are D (y - 1), over x rails.
    Source: railonly2025, LLM Traffic in the NIC Domain.
    """
    return grid_bytes(hierarchical_schedule("all_gather", hb_ranks, domains), message_bytes, hb_ranks)


@dataclass(frozen=True)
class _Grid:
    """x by y GPUs, and which blocks of the whole a flat schedule's block stands for on one of its groups."""

    x: int
    y: int
    parts: int
    hb_first: bool

    def phase(self, where: str, flat: Schedule, operation: str) -> list[Step]:
        """The flat schedule in every group of HB domains or rails that takes part, at the same time."""
        groups = range(self.y if where == HB else self.x)
        if operation == "point_to_point":
            groups = groups[:1] if (where == HB) == self.hb_first else groups[-1:]
        elif flat.operation == "scatter":
            groups = groups[:1]
        placed = [self._placed(where, group, flat) for group in groups]
        return [[send for step in steps for send in step] for steps in zip(*placed, strict=True)]

    def _placed(self, where: str, group: int, flat: Schedule) -> list[Step]:
        blocks = self._blocks(where, group, flat)
        nodes: Mapping[Node, Node] = dict(enumerate(self._ranks(where, group)))
        switch: Node = ("hb" if where == HB else "rail", group)

        def moved(send: Send) -> Send:
            ends = nodes.get(send.source, switch), nodes.get(send.target, switch)
            return Send(*ends, tuple(b for block in send.blocks for b in blocks[block]), send.reduce)

        return [[moved(send) for send in step] for step in flat]

    def _ranks(self, where: str, group: int) -> range:
        if where == HB:
            return range(group * self.x, (group + 1) * self.x)
        return range(group, self.x * self.y, self.x)

    def _blocks(self, where: str, group: int, flat: Schedule) -> list[list[int]]:
        slots = [self._slots(where, group, slot, flat) for slot in range(self._flat_slots(flat))]
        shares = [range(h * self.parts // flat.parts, (h + 1) * self.parts // flat.parts) for h in range(flat.parts)]
        return [[slot * self.parts + c for slot in each for c in share] for each in slots for share in shares]

    @staticmethod
    def _flat_slots(flat: Schedule) -> int:
        return flat.ranks**2 if flat.operation == "all_to_all" else flat.ranks

    def _slots(self, where: str, group: int, slot: int, flat: Schedule) -> list[int]:
        """Slots of the whole buffer that a slot of the group's buffer stands for."""
        if flat.operation == "point_to_point":
            share = self.x * self.y // flat.ranks
            return list(range(slot * share, (slot + 1) * share))
        if flat.operation != "all_to_all":
            other = HB if where == NIC else NIC
            return [self._ranks(where, group)[slot]] if where == NIC else list(self._ranks(other, slot))
        source, target = (self._ranks(where, group)[end] for end in divmod(slot, flat.ranks))
        sources, targets = [source], [target]
        # The second phase carries what the first has brought here from others, the first what is meant for others.
        if (where == HB) == self.hb_first:
            targets = list(self._ranks(HB if where == NIC else NIC, slot % flat.ranks))
        else:
            sources = list(self._ranks(HB if where == NIC else NIC, slot // flat.ranks))
        return [s * self.x * self.y + t for s in sources for t in targets]


def _common(pair: tuple[Node, Node], hb_ranks: int, kind: str) -> int | None:
    """HB domain or rail that both ends share, None where there is none."""
    places: list[int | None] = []
    for node in pair:
        if isinstance(node, int):
            places.append(node // hb_ranks if kind == "hb" else node % hb_ranks)
        else:
            places.append(node[1] if node[0] == kind else None)
    return places[0] if places[0] == places[1] else None


def _phases(operation: str) -> tuple[tuple[str, str], ...]:
    if operation not in _PHASES:
        raise ValueError(f"operation {operation!r} has no hierarchical form: choose from {', '.join(_PHASES)}")
    return _PHASES[operation]


def _algorithm(flat: str, algorithm: str | None) -> str:
    if flat in ("scatter", "point_to_point"):
        return "direct"
    return algorithm or ("direct" if flat == "all_to_all" else "ring")
