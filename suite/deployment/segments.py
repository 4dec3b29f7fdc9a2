"""The engineer's fabric: servers in segments, segments in pods under spines, pods under super-spines.

    rail switch   tier 1. Joins the NIC ports of some rails of one segment's servers; rail j is GPU j of every server.
    spine         tier 2. Joins all rail switches of its pod: full mesh.
    super-spine   tier 3. Joins the spines of all pods: all of them, or those of its plane.

Multi-rail, dual-rail and single-rail per switch are `rails_per_switch` of all, two and one. With `homing` 2 the ports
of a NIC go to two switches (an MLAG or EVPN pair); this is not `RailFabric.planes`, whose networks never meet.
Names count from 1: "Pod1.Seg2.Leaf3", "Pod1.Spine2", "Super4"; "D5.GPU1" is GPU 1 of server 5 of the whole fabric.
"""

import math
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from railcore.catalog.arguments import Bandwidth, Count, Listed, NonNegativeInt, checked
from railcore.catalog.checks import Ints
from railcore.catalog.derived_fields import derive, given
from railcore.catalog.units import Gbps, either
from railcore.network.switches import SwitchModel
from railcore.network.topology.rails import default_bandwidth

if TYPE_CHECKING:
    import networkx as nx


@checked
@dataclass(frozen=True)
class SegmentFabric:
    """A backend network as an engineer builds it.

    servers: of a segment.
    gpus_per_server: R, one NIC and one rail each.
    segments: of a pod.
    pods: of the fabric.
    rail_switch: its model.
    port_Bps: of a NIC port, one direction [bytes/s].
    nic_ports: of a NIC.
    homing: switches that the ports of a NIC are spread over; by default each port to another.
    rails_per_switch: r, by default all R.
    spines, spine: number in a pod, and model; by default that of the rail switches.
    spine_links: between a rail switch and a spine.
    super_spines, super_spine: number in the fabric, and model; by default that of the spines.
    super_spine_links: between a spine and a super-spine that are joined.
    super_spine_planes: 1 joins every spine with every super-spine, q joins spine s with those of plane s mod q.
    uplink_Bps: of a link between switches, one direction [bytes/s]; by default that of the rail switch's interfaces.
    breakout: whether an interface may hold several slower ports, where its model has that.
    routed: whether rail switches route between their rails, as gateways of the VLANs; by default where there are
        spines.
    hb_Bps: of a GPU in its server, one direction [bytes/s].
    hb_switches: HB switches of a server.

    Raises ValueError naming what does not divide, join or fit, and what would.
    """

    servers: Listed
    rail_switch: SwitchModel
    gpus_per_server: Listed = 8
    segments: Count = 1
    pods: Count = 1
    nic_ports: Count = 1
    homing: NonNegativeInt = 0
    port_Bps: Bandwidth = 400 * Gbps
    rails_per_switch: NonNegativeInt = 0
    spines: NonNegativeInt = 0
    spine: SwitchModel | None = None
    spine_links: Count = 1
    super_spines: NonNegativeInt = 0
    super_spine: SwitchModel | None = None
    super_spine_links: Count = 1
    super_spine_planes: Count = 1
    uplink_Bps: Bandwidth = 0.0
    breakout: bool = True
    routed: bool | None = None
    hb_Bps: Bandwidth = field(default_factory=lambda: default_bandwidth("hb"))
    hb_switches: NonNegativeInt = 1

    def __post_init__(self) -> None:
        derive(self, "homing", given(self, "homing") or self.nic_ports)
        derive(self, "rails_per_switch", given(self, "rails_per_switch") or self.rails)
        derive(self, "uplink_Bps", given(self, "uplink_Bps") or self.rail_switch.port_Bps)
        asked = given(self, "routed")
        derive(self, "routed", bool(self.spines) if asked is None else asked)
        self._check_division()
        self._check_ports()

    def _check_division(self) -> None:
        for name, divides, of in (
            ("rails_per_switch", self.rails, "rails"),
            ("homing", self.nic_ports, "nic_ports"),
            ("super_spine_planes", math.gcd(self.spines, self.super_spines), "spines and super_spines"),
        ):
            asked = getattr(self, name)
            if divides and divides % asked:
                fits = ", ".join(str(n) for n in range(1, divides + 1) if divides % n == 0)
                raise ValueError(f"{name} is {asked}, which does not divide the {of}, {divides}: give one of {fits}")
        if self.segments > 1 and not self.spines:
            raise ValueError(f"segments is {self.segments} with spines 0: nothing joins them, give spines")
        if self.pods > 1 and not self.super_spines:
            raise ValueError(f"pods is {self.pods} with super_spines 0: nothing joins them, give super_spines")
        if self.super_spines and not self.spines:
            raise ValueError(f"super_spines is {self.super_spines} with spines 0: give spines")
        if self.spines and not self.routed:
            raise ValueError("routed is False with spines: rail switches under spines route, leave it out")

    def _check_ports(self) -> None:
        """Refuse a design whose switches have too few interfaces, naming what would fit."""
        for tier, (model, used) in enumerate(zip(self.models, self.interfaces_used, strict=True), start=1):
            if sum(used) <= model.ports:
                continue
            down, up = used
            what = {
                1: f"{self.host_ports} host ports take {down} interfaces and uplinks {up}",
                2: f"links to {self.rail_switches_of_pod} rail switches take {down} interfaces and uplinks {up}",
                3: f"links to the spines take {down} interfaces",
            }[tier]
            part = ("servers", "segments", "pods")[tier - 1]
            remedy = self._remedy(tier, part)
            raise ValueError(
                f"{part} is {getattr(self, part)}: on a {('rail switch', 'spine', 'super-spine')[tier - 1]} {what}, "
                f"but {model.name} has {model.ports}: {remedy}"
            )

    def _remedy(self, tier: int, part: str) -> str:
        """What would fit in place of a number of parts that a switch of a tier has no interfaces for."""
        fits = max((n for n in range(getattr(self, part)) if self._fits(tier, part, n)), default=0)
        ways = [f"{part} {fits} or less"] if fits else []
        if tier == 1:
            fewer = [r for r in range(1, self.rails_per_switch) if self.rails % r == 0]
            rails = max((r for r in fewer if self._fits(1, "rails_per_switch", r)), default=0)
            ways += [f"rails_per_switch {rails} or less"] if rails else []
            ways += ["more segments" if self.spines else "several segments under spines"] if fits else []
        none = "" if fits else f"no number of {part} fits, "
        return f"{none}give {either([*ways, 'a larger switch'])}"

    def _fits(self, tier: int, part: str, count: int) -> bool:
        if not count:
            return False
        other = object.__new__(type(self))
        other.__dict__.update({**vars(self), part: count})
        return sum(other.interfaces_used[tier - 1]) <= self.models[tier - 1].ports

    @property
    def rails(self) -> int:
        """Rails R, one for each GPU of a server."""
        return self.gpus_per_server

    @property
    def gpus(self) -> int:
        """GPUs of the fabric."""
        return self.servers * self.segments * self.pods * self.gpus_per_server

    @property
    def domains(self) -> int:
        """Servers of the fabric, one HB domain (scale-up or NVLink domain) each."""
        return self.servers * self.segments * self.pods

    @property
    def hb_domain_size(self) -> int:
        """GPUs of a server."""
        return self.gpus_per_server

    @property
    def nic_Bps(self) -> float:
        """Bandwidth of a NIC, all its ports together, one direction [bytes/s]."""
        return self.nic_ports * self.port_Bps

    @property
    def tiers(self) -> int:
        """Tiers of switches."""
        return 1 + bool(self.spines) + bool(self.super_spines)

    @property
    def stages(self) -> int:
        """Switches on the longest path: 2 tiers - 1."""
        return 2 * self.tiers - 1

    @property
    def models(self) -> tuple[SwitchModel, ...]:
        """Model of the switches of each tier."""
        spine = self.spine or self.rail_switch
        return (self.rail_switch, spine, self.super_spine or spine)[: self.tiers]

    @property
    def rail_switches_of_segment(self) -> int:
        """Rail switches of a segment: R / r x homing."""
        return self.rails // self.rails_per_switch * self.homing

    @property
    def rail_switches_of_pod(self) -> int:
        """Rail switches of a pod."""
        return self.rail_switches_of_segment * self.segments

    @property
    def host_ports(self) -> int:
        """NIC ports on one rail switch: servers x r x nic_ports / homing."""
        return self.servers * self.rails_per_switch * (self.nic_ports // self.homing)

    @property
    def spine_uplinks(self) -> int:
        """Links of a spine to super-spines."""
        return self.super_spines // self.super_spine_planes * self.super_spine_links

    @property
    def ports_used(self) -> tuple[tuple[int, int], ...]:
        """(down, up) ports of a switch of each tier."""
        below = self.spines // self.super_spine_planes * self.super_spine_links * self.pods
        every = (
            (self.host_ports, self.spines * self.spine_links),
            (self.rail_switches_of_pod * self.spine_links, self.spine_uplinks),
            (below, 0),
        )
        return every[: self.tiers]

    @property
    def interfaces_used(self) -> tuple[tuple[int, int], ...]:
        """(down, up) interfaces of a switch of each tier, slower ports sharing one where breakout allows it."""
        interfaces = []
        for model, (down, up), speed in zip(self.models, self.ports_used, self._down_speeds, strict=True):
            here = [model.ports_of_interface(speed_Bps) for speed_Bps in ((speed, self.uplink_Bps) if up else (speed,))]
            lower, upper = (here[0], here[-1]) if self.breakout else (1, 1)
            interfaces.append((-(-down // lower), -(-up // upper)))
        return tuple(interfaces)

    @property
    def _down_speeds(self) -> tuple[float, ...]:
        """Bandwidth of a port below the switches of each tier."""
        return (self.port_Bps, self.uplink_Bps, self.uplink_Bps)[: self.tiers]

    @property
    def switches_by_tier(self) -> tuple[int, ...]:
        """Switches of each tier."""
        every = self.rail_switches_of_pod * self.pods, self.spines * self.pods, self.super_spines
        return every[: self.tiers]

    @property
    def links_by_tier(self) -> tuple[int, ...]:
        """Links below each tier: host links, rail switch to spine, spine to super-spine."""
        leaves, spines = (*self.switches_by_tier, 0)[:2]
        every = self.gpus * self.nic_ports, leaves * self.spines * self.spine_links, spines * self.spine_uplinks
        return every[: self.tiers]

    @property
    def capacities_Bps(self) -> tuple[tuple[float, float], ...]:
        """(down, up) bandwidth of a switch of each tier, one direction [bytes/s]."""
        used = zip(self.ports_used, self._down_speeds, strict=True)
        return tuple((down * speed, up * self.uplink_Bps) for (down, up), speed in used)

    @property
    def oversubscription(self) -> tuple[float, ...]:
        """Downlink over uplink bandwidth of the switches of each tier below the top one."""
        return tuple(down / up for down, up in self.capacities_Bps[:-1])

    def host_links(self) -> dict[str, Ints]:
        """Every NIC port and where it goes: arrays pod, segment, server, gpu, nic_port, leaf, domain, all from 1.

        server: in its segment; leaf: rail switch in its segment; domain: server of the whole fabric. Port q of NIC j
        goes to member (q - 1) mod homing + 1 of the switches of rail j: leaf (j - 1) // r x homing + member.
        """
        shape = (self.pods, self.segments, self.servers, self.gpus_per_server, self.nic_ports)
        at = dict(zip(("pod", "segment", "server", "gpu", "nic_port"), np.indices(shape).reshape(5, -1), strict=True))
        leaf = at["gpu"] // self.rails_per_switch * self.homing + at["nic_port"] % self.homing
        domain = (at["pod"] * self.segments + at["segment"]) * self.servers + at["server"]
        return {name: values + 1 for name, values in {**at, "leaf": leaf, "domain": domain}.items()}

    def graph(self) -> "nx.Graph":
        """The fabric as a networkx graph, with the attributes of `graph.build_graph`, and pod and segment of a switch.

        Where rail switches do not route, each of their rails is a node of its own (chassis: the switch).
        """
        import networkx as nx

        from railcore.network.topology.graph import add_hb_domains

        graph = nx.Graph(name=self.name)
        add_hb_domains(graph, self, self.hb_Bps)
        place: dict[str, Any] = {"kind": "switch", "domain": None, "rank": None, "plane": None, "rail": None}
        links = self.host_links()
        for pod, seg, leaf, gpu, domain in zip(
            *(links[name].tolist() for name in ("pod", "segment", "leaf", "gpu", "domain")), strict=True
        ):
            chassis, alone = leaf_name(pod, seg, leaf), self.rails_per_switch == 1
            node = chassis if self.routed or alone else f"{chassis}.R{gpu}"
            if node not in graph:
                rail = gpu if alone or not self.routed else None
                graph.add_node(node, **{**place, "rail": rail}, tier=1, chassis=chassis, pod=pod, segment=seg)
            ends = (f"D{domain}.GPU{gpu}", node)
            count = graph.edges[ends]["links"] + 1 if graph.has_edge(*ends) else 1
            graph.add_edge(*ends, kind="host", tier=1, links=count, bandwidth_Bps=count * self.port_Bps)
        self._add_trunks(graph, place)
        return graph

    def _add_trunks(self, graph: "nx.Graph", place: dict[str, Any]) -> None:
        def join(lower: str, upper: str, tier: int, links: int) -> None:
            graph.add_edge(lower, upper, kind="trunk", tier=tier, links=links, bandwidth_Bps=links * self.uplink_Bps)

        for pod, s in product(range(1, self.pods + 1), range(1, self.spines + 1)):
            spine = f"Pod{pod}.Spine{s}"
            graph.add_node(spine, **place, tier=2, chassis=spine, pod=pod, segment=None)
            for seg, leaf in product(range(1, self.segments + 1), range(1, self.rail_switches_of_segment + 1)):
                join(leaf_name(pod, seg, leaf), spine, 2, self.spine_links)
        for top_number in range(1, self.super_spines + 1):
            top = f"Super{top_number}"
            graph.add_node(top, **place, tier=3, chassis=top, pod=None, segment=None)
            for pod, s in product(range(1, self.pods + 1), range(1, self.spines + 1)):
                if (s - top_number) % self.super_spine_planes == 0:
                    join(f"Pod{pod}.Spine{s}", top, 3, self.super_spine_links)

    @property
    def name(self) -> str:
        """What tables and titles call it."""
        rails = rails_name(self.rails_per_switch, self.rails)
        level = ("segment", "pod", "multi-pod")[self.tiers - 1]
        return f"{level}, {rails} per switch, {self.nic_ports}-port NICs" + (
            f" to {self.homing} switches" if self.homing > 1 else ""
        )


def rails_name(rails_per_switch: int, rails: int) -> str:
    """Name of a design by its rail switches: multi-rail, dual-rail, single-rail, or "4 rails"."""
    if rails_per_switch in (0, rails):
        return "multi-rail"
    return {1: "single-rail", 2: "dual-rail"}.get(rails_per_switch, f"{rails_per_switch} rails")


def leaf_name(pod: int, segment: int, leaf: int) -> str:
    """Name of a rail switch: all numbers from 1."""
    return f"Pod{pod}.Seg{segment}.Leaf{leaf}"
