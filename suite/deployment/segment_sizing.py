"""Servers, segments, spines, pods and super-spines: the smallest `SegmentFabric` that holds the GPUs asked for.

Fewest tiers first, then fewest switches, then fewest links. Every choice of servers a segment, segments a pod, links of
a trunk and planes is tried; switches are never oversubscribed by more than what is allowed.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any

from railcore.catalog.arguments import Bandwidth, Count, Few, NonNegativeInt, Range, checked
from railcore.catalog.checks import whole
from railcore.catalog.units import Gbps, number
from railcore.network.switches import SwitchModel
from suite.deployment.segments import SegmentFabric

_TIERS = ("rail switches", "spines", "super-spines")


@checked
@dataclass(frozen=True)
class SegmentDemand:
    """What a fabric is to hold, and of which parts.

    gpus: at least so many, in whole servers of gpus_per_server.
    rail_switch, spine, super_spine: models, each by default that below it.
    nic_ports, homing, port_Bps, rails_per_switch, breakout: as of `SegmentFabric`.
    uplink_Bps: of a link between switches, one direction [bytes/s]; by default the speed of the rail switch's
        interfaces or that of the NIC's ports, whichever gives the smaller fabric.
    oversubscription, spine_oversubscription: most that the downlinks of a rail switch, of a spine may carry over its
        uplinks; 1 is non-blocking.
    rails_apart: whether a fabric of one segment may leave its rails apart, joined by the HB domains alone; otherwise it
        has spines wherever rails are on several switches.
    spare_interfaces: of every rail switch, kept free, such as for the peer links of an MLAG pair.
    """

    gpus: Count
    rail_switch: SwitchModel
    gpus_per_server: NonNegativeInt = 8
    nic_ports: Few = 1
    homing: NonNegativeInt = 0
    port_Bps: Bandwidth = 400 * Gbps
    rails_per_switch: NonNegativeInt = 0
    spine: SwitchModel | None = None
    super_spine: SwitchModel | None = None
    uplink_Bps: Bandwidth = 0.0
    oversubscription: Annotated[float, Range(1)] = 1.0
    spine_oversubscription: Annotated[float, Range(1)] = 1.0
    rails_apart: bool = True
    breakout: bool = True
    spare_interfaces: NonNegativeInt = 0

    def __post_init__(self) -> None:
        whole("spare_interfaces", self.spare_interfaces, 0, self.rail_switch.ports - 1)
        self.one_server  # noqa: B018  refuses what does not divide, and a server that no rail switch holds

    @cached_property
    def servers(self) -> int:
        """Servers that the GPUs fill."""
        return -(-self.gpus // self.gpus_per_server)

    @cached_property
    def one_server(self) -> SegmentFabric:
        """A segment of one server: the smallest fabric of these parts."""
        alike = "gpus_per_server nic_ports homing port_Bps rails_per_switch spine super_spine breakout"
        options = {name: getattr(self, name) for name in alike.split()}
        return SegmentFabric(1, self.rail_switch, uplink_Bps=max(self.uplink_speeds), **options)

    @property
    def uplink_speeds(self) -> tuple[float, ...]:
        """Speeds of links between switches to try [bytes/s]: those that every model has."""
        if self.uplink_Bps:
            return (float(self.uplink_Bps),)
        models = [model for model in (self.rail_switch, self.spine, self.super_spine) if model]
        most = min(model.port_Bps for model in models)
        return tuple(sorted({min(most, self.rail_switch.port_Bps), min(most, float(self.port_Bps))}, reverse=True))


@dataclass(frozen=True)
class SegmentSizing:
    """The smallest fabric for a demand, and why it has the tiers that it has (a sentence each)."""

    demand: SegmentDemand
    fabric: SegmentFabric
    reasons: tuple[str, ...]

    @property
    def spare_gpus(self) -> int:
        """GPUs that the fabric holds beyond the demand."""
        return self.fabric.gpus - self.demand.gpus

    @property
    def counts(self) -> dict[str, Any]:
        """What the fabric is made of, by names of columns."""
        fabric = self.fabric
        switches = dict(
            zip(("rail_switches", "spines", "super_spines"), (*fabric.switches_by_tier, 0, 0), strict=False)
        )
        return {
            "gpus": fabric.gpus,
            "rails_per_switch": fabric.rails_per_switch,
            "nic_ports": fabric.nic_ports,
            "homing": fabric.homing,
            "tiers": fabric.tiers,
            "servers_a_segment": fabric.servers,
            "segments_a_pod": fabric.segments,
            "pods": fabric.pods,
            **switches,
            "switches": sum(fabric.switches_by_tier),
            "super_spine_planes": fabric.super_spine_planes if fabric.super_spines else 0,
            "uplink_Bps": fabric.uplink_Bps if fabric.spines else math.nan,
            "links": sum(fabric.links_by_tier),
        }


@dataclass(frozen=True)
class _Room:
    """Ports of the switches of a demand, with links between switches of one speed."""

    demand: SegmentDemand
    uplink_Bps: float

    @cached_property
    def base(self) -> SegmentFabric:
        return replace(self.demand.one_server, uplink_Bps=self.uplink_Bps)

    @cached_property
    def models(self) -> tuple[SwitchModel, ...]:
        base = self.base
        spine = base.spine or base.rail_switch
        return base.rail_switch, spine, base.super_spine or spine

    def ports(self, tier: int, speed_Bps: float) -> int:
        """Ports of a speed that an interface of a tier's switch gives."""
        return self.models[tier - 1].ports_of_interface(speed_Bps) if self.demand.breakout else 1

    def free(self, tier: int) -> int:
        """Interfaces of a tier's switch that are not kept free."""
        return self.models[tier - 1].ports - self.demand.spare_interfaces * (tier == 1)

    @cached_property
    def below(self) -> tuple[int, int, int]:
        """Most links below a switch of each tier, without uplinks."""
        speeds = (self.base.port_Bps, self.uplink_Bps, self.uplink_Bps)
        return tuple(self.free(i) * self.ports(i, speed) for i, speed in enumerate(speeds, start=1))  # type: ignore

    def fits(self, tier: int, down: int, up: int) -> bool:
        """Whether a switch of a tier has interfaces for so many links below and above it."""
        lower = self.ports(tier, self.base.port_Bps if tier == 1 else self.uplink_Bps)
        return -(-down // lower) + -(-up // self.ports(tier, self.uplink_Bps)) <= self.free(tier)

    def leaf_uplinks(self, servers: int) -> int:
        """Fewest uplinks of a rail switch with so many servers."""
        down_Bps = servers * self.base.host_ports * self.base.port_Bps
        return _ceil(down_Bps / (self.demand.oversubscription * self.uplink_Bps))

    def spine_uplinks(self, down: int) -> int:
        """Fewest uplinks of a spine with so many links below it."""
        return _ceil(down / self.demand.spine_oversubscription)

    @cached_property
    def most_servers(self) -> tuple[int, int]:
        """Servers of a segment at most: without uplinks, and with those that the oversubscription asks for."""
        alone = self.below[0] // self.base.host_ports
        under = (n for n in range(alone, 0, -1) if self.fits(1, n * self.base.host_ports, self.leaf_uplinks(n)))
        return alone, next(under, 0)

    @cached_property
    def most_segments(self) -> tuple[int, int]:
        """Segments of a pod at most: under spines alone, and under spines with uplinks."""
        leaves = self.base.rail_switches_of_segment
        alone = self.below[1] // leaves
        under = (g for g in range(alone, 0, -1) if self.fits(2, g * leaves, self.spine_uplinks(g * leaves)))
        return alone, next(under, 0)

    @property
    def most_gpus(self) -> tuple[int, int, int]:
        """GPUs that one, two and three tiers hold at most."""
        rails, (alone, under), (pod, pod_under) = self.base.rails, self.most_servers, self.most_segments
        joined = self.base.rails_per_switch == rails or self.demand.rails_apart
        return rails * alone * joined, rails * under * pod, rails * under * pod_under * self.below[2]


def _ceil(value: float) -> int:
    """Smallest whole number of at least a value, its last bits aside."""
    return math.ceil(value - 1e-9)


def _trunks(room: _Room, servers: int, leaves: int) -> Iterator[tuple[int, int]]:
    """(spines, links of a trunk) of a pod of so many rail switches: fewest spines for each number of links."""
    need, hosts = room.leaf_uplinks(servers), servers * room.base.host_ports
    for links in range(1, min(room.below[1] // leaves, need) + 1):
        spines = -(-need // links)
        if room.fits(1, hosts, spines * links):
            yield spines, links


def _pods(room: _Room, servers: int) -> Iterator[SegmentFabric]:
    """Fabrics of two tiers with so many servers a segment."""
    segments = -(-room.demand.servers // servers)
    if segments <= room.most_segments[0]:
        leaves = segments * room.base.rail_switches_of_segment
        if trunks := [*_trunks(room, servers, leaves)]:
            spines, links = min(trunks)
            shape = {"servers": servers, "segments": segments, "spines": spines, "spine_links": links}
            yield replace(room.base, routed=True, **shape)  # type: ignore[arg-type]


def _multi_pods(room: _Room, servers: int, most_switches: float) -> Iterator[SegmentFabric]:
    """Fabrics of three tiers with so many servers a segment and at most so many switches."""
    segments = -(-room.demand.servers // servers)
    switches = room.base.rail_switches_of_segment
    for pods in range(-(-segments // max(room.most_segments[1], 1)), room.below[2] + 1):
        in_pod = -(-segments // pods)
        leaves, servers = in_pod * switches, -(-room.demand.servers // (pods * in_pod))
        if pods * leaves >= most_switches or (pods - 1) * in_pod >= segments:
            continue  # more than the best, or a pod stands empty
        for spines, links in _trunks(room, servers, leaves):
            if pods * (leaves + spines) < most_switches and (top := _tops(room, spines, leaves * links, pods)):
                count, top_links, planes = top
                shape = {"servers": servers, "segments": in_pod, "pods": pods, "spines": spines, "spine_links": links}
                shape |= {"super_spines": count, "super_spine_links": top_links, "super_spine_planes": planes}
                yield replace(room.base, routed=True, **shape)  # type: ignore[arg-type]


def _tops(room: _Room, spines: int, down: int, pods: int) -> tuple[int, int, int] | None:
    """Fewest super-spines over pods of so many spines with `down` links below each; their links; fewest planes."""
    need, tops = room.spine_uplinks(down), []
    for planes in (q for q in range(1, spines + 1) if spines % q == 0):
        for links in range(1, min(room.below[2] // (spines // planes * pods), need) + 1):
            in_plane = -(-need // links)
            if room.fits(2, down, in_plane * links):
                tops.append((in_plane * planes, planes, links))
    if not tops:
        return None
    count, planes, links = min(tops)
    return count, links, planes


def _candidates(room: _Room, tiers: int) -> Iterator[SegmentFabric]:
    """Fabrics of so many tiers that hold the demand."""
    wanted = room.demand.servers
    if tiers == 1:
        if wanted * room.base.rails <= room.most_gpus[0]:
            together = room.base.rails_per_switch == room.base.rails
            yield replace(room.base, servers=wanted, routed=together)
        return
    best = math.inf
    tried: set[int] = set()
    for most in range(room.most_servers[1], 0, -1):
        segments = -(-wanted // most)
        servers = -(-wanted // segments)  # spread evenly
        if servers in tried or segments * room.base.rail_switches_of_segment >= best:
            continue
        tried.add(servers)
        for fabric in _pods(room, servers) if tiers == 2 else _multi_pods(room, servers, best):
            best = min(best, sum(fabric.switches_by_tier))
            yield fabric


def _size(fabric: SegmentFabric) -> tuple[float, ...]:
    return sum(fabric.switches_by_tier), sum(fabric.links_by_tier), fabric.gpus, fabric.pods


def smallest_segment_fabric(demand: SegmentDemand) -> SegmentSizing:
    """The smallest fabric that holds a demand: fewest tiers, then switches, then links.

    Raises ValueError where even three tiers do not hold it, naming how many GPUs they hold and what would hold more.
    """
    rooms = [_Room(demand, speed) for speed in demand.uplink_speeds]
    for tiers in (1, 2, 3):
        fabrics = [fabric for room in rooms for fabric in _candidates(room, tiers)]
        if fabrics:
            fabric = min(fabrics, key=_size)
            return SegmentSizing(demand, fabric, tuple(_reasons(demand, rooms, fabric)))
    most = max(max(room.most_gpus) for room in rooms)
    raise ValueError(
        f"gpus is {demand.gpus:,}: three tiers of these switches, {demand.one_server.rails_per_switch} rails on a rail "
        f"switch, hold {most:,} at most. Give {most:,} GPUs or fewer, switches with more ports, slower links between "
        "switches (uplink_Bps), or more oversubscription"
    )


def _reasons(demand: SegmentDemand, rooms: list[_Room], fabric: SegmentFabric) -> Iterator[str]:
    """Why each tier is there."""
    room = next(room for room in rooms if room.uplink_Bps == fabric.uplink_Bps or fabric.tiers == 1)
    base, (one, two, _) = room.base, (max(most) for most in zip(*(room.most_gpus for room in rooms), strict=True))
    rails = "all rails" if base.rails_per_switch == base.rails else f"{base.rails_per_switch} of {base.rails} rails"
    alone = room.most_servers[0]
    start = (
        f"{_TIERS[0]}: one {base.rail_switch.name} with {rails} takes {room.below[0]:,} host ports of "
        f"{number(base.port_Bps / Gbps)} Gbps, so {alone:,} servers make the largest segment without uplinks"
    )
    if fabric.tiers == 1:
        apart = fabric.rails_per_switch < fabric.rails
        yield f"{start}. {fabric.servers:,} servers fit" + (
            "; rails on unlike switches meet in the HB domains of the servers alone" if apart else ""
        )
        return
    yield start
    speed = f"links of {number(fabric.uplink_Bps / Gbps)} Gbps"
    if one:
        why = f"{demand.servers:,} servers are more than {one // base.rails:,}"
    else:
        why = "rails on unlike switches are to meet in the network"
    yield (
        f"{_TIERS[1]}: {why}. With {fabric.ports_used[0][1]} uplinks ({speed}) a segment holds {fabric.servers} servers"
    )
    if fabric.tiers == 3:
        yield (
            f"{_TIERS[2]}: {demand.gpus:,} GPUs are more than the {two:,} of one pod. With {fabric.ports_used[1][1]} "
            f"uplinks a spine joins {fabric.rail_switches_of_pod} rail switches: {fabric.segments} segments make a pod"
        )
