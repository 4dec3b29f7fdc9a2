"""Profiles of an AI fabric: objects from which a fabric is built, and against which one is checked.

    GpuIoTopology              how GPUs reach the network          segment
    RailSwitchFabricProfile    switches that join the NIC ports    segment
    SpineSwitchProfile         switches that join segments         pod
    SuperSpineSwitchProfile    switches that join pods             multi-pod
    GlobalAIFabricProfile      what holds on all of them           all

Each object checks its own fields when it is made. What one profile asks of another (VXLAN of EVPN, two tiers of a
spine profile) are rules: `profile_breaks` gives all that are broken, as a table.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import pandas as pd

from railcore.engines.deployment.routing import BGP_CONTROL_PLANES, lacks_evpn
from railcore.engines.deployment.segments import SegmentFabric
from railcore.facts import catalog
from railcore.facts.arguments import Quantity, checked
from railcore.facts.checks import at_least, one_of, positive, whole
from railcore.facts.units import Gbps, number, show
from railcore.network.switches import SwitchModel

NIC_PORTS = (1, 2, 4)  # single, dual, quad
PORT_SPEEDS = tuple(speed * Gbps for speed in (100, 200, 400, 800, 1600))
INTERCONNECTS = ("RoCEv2", "InfiniBand", "NVLink")
MULTIHOMING = ("none", "MLAG", "EVPN")
CONTROL_PLANE_CHOICES = (*BGP_CONTROL_PLANES, "subnet manager")
DATA_PLANE_CHOICES = ("Ethernet", "VXLAN", "InfiniBand")
ECMP_CHOICES = ("flow-based", "flowlet-based", "per-packet")
CONGESTION_CONTROLS = ("ECN", "PFC", "credits")
QUEUES = 8  # of a port: 802.1Q has eight priorities
LAYERS = ("Segment", "Pod", "Multi-Pod", "Global")
_PAYLOADS = (256, 512, 1024, 2048, 4096)  # path MTUs of RDMA


@checked
@dataclass(frozen=True)
class GpuIoTopology:
    """How the GPUs of a segment reach the network.

    hosts: of a segment.
    gpus_per_host: GPUs of a host.
    gpus_per_nic: 1 is a NIC for each GPU; more share one.
    nic_ports: of NIC_PORTS.
    port_Bps: of PORT_SPEEDS, one direction [bytes/s].
    interconnect: of INTERCONNECTS.
    """

    hosts: int
    gpus_per_host: int = 8
    gpus_per_nic: int = 1
    nic_ports: int = 1
    port_Bps: Quantity = 400 * Gbps
    interconnect: str = "RoCEv2"

    def __post_init__(self) -> None:
        for name in ("hosts", "gpus_per_host", "gpus_per_nic"):
            whole(name, getattr(self, name))
        one_of("nic_ports", self.nic_ports, NIC_PORTS)
        one_of("interconnect", self.interconnect, INTERCONNECTS)
        positive("port_Bps", self.port_Bps, "bytes/s")
        if not any(math.isclose(self.port_Bps, speed) for speed in PORT_SPEEDS):
            known = ", ".join(show(speed, "bps") for speed in PORT_SPEEDS)
            raise ValueError(f"port_Bps is {show(self.port_Bps, 'bps')}: give one of {known}")
        if self.gpus_per_host % self.gpus_per_nic:
            raise ValueError(
                f"gpus_per_nic is {self.gpus_per_nic}: give a divisor of gpus_per_host {self.gpus_per_host}"
            )

    @property
    def rails(self) -> int:
        """NICs of a host, one on each rail."""
        return self.gpus_per_host // self.gpus_per_nic


@checked
@dataclass(frozen=True)
class RailSwitchFabricProfile:
    """Rail switches of a segment.

    switch: model.
    rails_per_switch: 1 maps each rail to a switch of its own, 0 all rails to every switch.
    homing: switches that the ports of a NIC are spread over, by default each port to another.
    multihoming: of MULTIHOMING, how these act as one.
    queues: queue, 0 to 7, of the traffic that ingress classification tells apart: "RoCEv2" and "CNP", its congestion
        notifications.
    """

    switch: SwitchModel
    rails_per_switch: int = 0
    homing: int = 0
    multihoming: str = "none"
    queues: Mapping[str, int] = field(default_factory=lambda: {"RoCEv2": 3, "CNP": 6})

    def __post_init__(self) -> None:
        for name in ("rails_per_switch", "homing"):
            whole(name, getattr(self, name), least=0)
        one_of("multihoming", self.multihoming, MULTIHOMING)
        for traffic, queue in self.queues.items():
            one_of("a key of queues", traffic, ("RoCEv2", "CNP"))
            whole(f"queues[{traffic!r}]", queue, least=0, most=QUEUES - 1)


@checked
@dataclass(frozen=True)
class SpineSwitchProfile:
    """Spines of a pod of `segments`: `links` to each rail switch of `uplink_Bps`, by default the switch's own speed.

    oversubscription: most that a rail switch may have, downlink over uplink bandwidth.
    """

    switch: SwitchModel
    spines: int
    segments: int = 1
    links: int = 1
    uplink_Bps: Quantity = 0.0
    oversubscription: float = 1.0

    def __post_init__(self) -> None:
        for name in ("spines", "segments", "links"):
            whole(name, getattr(self, name))
        at_least("uplink_Bps", self.uplink_Bps)
        positive("oversubscription", self.oversubscription)


@checked
@dataclass(frozen=True)
class SuperSpineSwitchProfile:
    """Super-spines over `pods`: `links` to each spine; planes: 1 joins each with every spine, q with one in q.

    oversubscription: most that a spine may have, downlink over uplink bandwidth.
    """

    switch: SwitchModel
    super_spines: int
    pods: int
    links: int = 1
    planes: int = 1
    oversubscription: float = 1.0

    def __post_init__(self) -> None:
        for name in ("super_spines", "pods", "links", "planes"):
            whole(name, getattr(self, name))
        positive("oversubscription", self.oversubscription)


@checked
@dataclass(frozen=True)
class GlobalAIFabricProfile:
    """What holds on all layers.

    control_plane, data_plane, ecmp: of CONTROL_PLANE_CHOICES, DATA_PLANE_CHOICES, ECMP_CHOICES.
    congestion_control: of CONGESTION_CONTROLS, ECN and PFC together are DCQCN.
    bfd: whether links between switches are watched by BFD.
    mtu_bytes: largest IP packet on every link.
    payload_bytes: path MTU of RDMA; by default the catalog's largest.
    """

    control_plane: str = "eBGP"
    data_plane: str = "Ethernet"
    ecmp: str = "flow-based"
    congestion_control: Sequence[str] = ("ECN", "PFC")
    bfd: bool = True
    mtu_bytes: int = field(default_factory=lambda: int(catalog.item("protocols", "Ethernet")["jumbo_mtu"]))
    payload_bytes: int = field(default_factory=lambda: int(catalog.item("protocols", "RoCEv2")["payload"]))

    def __post_init__(self) -> None:
        one_of("control_plane", self.control_plane, CONTROL_PLANE_CHOICES)
        one_of("data_plane", self.data_plane, DATA_PLANE_CHOICES)
        one_of("ecmp", self.ecmp, ECMP_CHOICES)
        for each in self.congestion_control:
            one_of("an entry of congestion_control", each, CONGESTION_CONTROLS)
        whole("mtu_bytes", self.mtu_bytes)
        one_of("payload_bytes", self.payload_bytes, _PAYLOADS)

    @property
    def dcqcn(self) -> bool:
        """Whether congestion control is DCQCN: ECN marks and PFC behind them."""
        return {"ECN", "PFC"} <= set(self.congestion_control)

    @property
    def least_mtu_bytes(self) -> int:
        """MTU that a RoCEv2 packet with `payload_bytes` needs."""
        return rocev2_packet_bytes(self.payload_bytes, vxlan=self.data_plane == "VXLAN")


@checked
def rocev2_packet_bytes(payload_bytes: float, ip: str = "IPv4", vxlan: bool = False) -> int:
    """Largest IP packet that carries so much RDMA payload: headers of IP, UDP and InfiniBand, and VXLAN's where used.

    ip: "IPv4" or "IPv6", of the packet inside. Header sizes are the catalog's, family protocols.
    """
    names = [one_of("ip", ip, ("IPv4", "IPv6")), "UDP", "InfiniBand BTH", "InfiniBand RETH", "InfiniBand immediate"]
    names += ["InfiniBand ICRC", *["VXLAN"] * vxlan]
    sizes = [catalog.item("protocols", name)["header"] for name in names]
    return int(positive("payload_bytes", payload_bytes, "bytes") + sum(sizes))


@checked
@dataclass(frozen=True)
class FabricProfiles:
    """The profiles of one fabric: a segment has the first three, a pod a spine profile, a multi-pod fabric all."""

    overall: GlobalAIFabricProfile
    gpu_io: GpuIoTopology
    rail: RailSwitchFabricProfile
    spine: SpineSwitchProfile | None = None
    super_spine: SuperSpineSwitchProfile | None = None

    @property
    def tiers(self) -> int:
        """Tiers of switches that the profiles describe."""
        return 1 + (self.spine is not None) + (self.super_spine is not None)

    @property
    def homing(self) -> int:
        """Switches that the ports of a NIC go to."""
        return self.rail.homing or self.gpu_io.nic_ports

    @property
    def rails_per_switch(self) -> int:
        """Rails of a rail switch."""
        return self.rail.rails_per_switch or self.gpu_io.rails


_TITLES = {
    "gpu_io": "GPU I/O Topology",
    "rail": "Rail Switch Fabric Profile",
    "spine": "Spine Switch Profile",
    "super_spine": "Super Spine Switch Profile",
    "overall": "Global AI Fabric Profile",
}


class ProfileBreak(NamedTuple):
    """A field that is not as it must be: what is wanted, what was found, and why."""

    field: str
    wanted: Any
    found: Any
    why: str


_Breaks = Iterator[ProfileBreak]


def _plane_rules(profiles: FabricProfiles) -> _Breaks:
    overall, kind = profiles.overall, profiles.gpu_io.interconnect
    name = "GlobalAIFabricProfile"
    if lacks_evpn(overall.data_plane, overall.control_plane):
        why = "VXLAN tunnels learn from EVPN which addresses are behind which switch"
        yield ProfileBreak(f"{name}.control_plane", "BGP EVPN", overall.control_plane, why)
    if overall.control_plane == "BGP EVPN" and overall.data_plane != "VXLAN":
        why = "EVPN's routes describe VXLAN segments, which nothing carries here"
        yield ProfileBreak(f"{name}.data_plane", "VXLAN", overall.data_plane, why)
    infiniband = kind == "InfiniBand"
    if infiniband != (overall.data_plane == "InfiniBand"):
        why = f"NICs speak {kind}, and switches forward what NICs speak"
        wanted = "InfiniBand" if infiniband else "Ethernet or VXLAN"
        yield ProfileBreak(f"{name}.data_plane", wanted, overall.data_plane, why)
    if infiniband != (overall.control_plane == "subnet manager"):
        why = "the subnet manager routes InfiniBand, BGP routes IP"
        wanted = "subnet manager" if infiniband else "eBGP, iBGP or BGP EVPN"
        yield ProfileBreak(f"{name}.control_plane", wanted, overall.control_plane, why)
    if kind == "NVLink":
        why = "NVLink joins the GPUs of a host through switches of its own; rails need packets"
        yield ProfileBreak("GpuIoTopology.interconnect", "RoCEv2 or InfiniBand", kind, why)


def _lossless_rules(profiles: FabricProfiles) -> _Breaks:
    overall, kind, queues = profiles.overall, profiles.gpu_io.interconnect, profiles.rail.queues
    have = tuple(overall.congestion_control)
    if kind == "RoCEv2" and not {"ECN", "PFC"} & set(have):
        why = "RoCEv2 sends again from the lost packet on: the network must slow senders before it drops"
        yield ProfileBreak("GlobalAIFabricProfile.congestion_control", "ECN or PFC", have, why)
    if ("credits" in have) != (kind == "InfiniBand"):
        why = "InfiniBand has link-level credits, Ethernet has none"
        wanted = "credits" if kind == "InfiniBand" else "ECN or PFC"
        yield ProfileBreak("GlobalAIFabricProfile.congestion_control", wanted, have, why)
    if kind == "RoCEv2" and "RoCEv2" not in queues:
        why = "rail switches put RoCEv2 traffic into a queue of its own, which PFC pauses and ECN marks"
        yield ProfileBreak("RailSwitchFabricProfile.queues", "a queue for RoCEv2", dict(queues), why)
    if "CNP" in queues and queues.get("RoCEv2") == queues["CNP"]:
        why = "congestion notifications must not wait behind the traffic that they slow down"
        yield ProfileBreak("RailSwitchFabricProfile.queues", "CNP in another queue", dict(queues), why)
    if kind == "RoCEv2" and overall.mtu_bytes < overall.least_mtu_bytes:
        over = " and VXLAN" if overall.data_plane == "VXLAN" else ""
        why = f"{overall.payload_bytes:,} bytes of payload with their headers{over}; larger packets are dropped"
        yield ProfileBreak(
            "GlobalAIFabricProfile.mtu_bytes", f"≥ {overall.least_mtu_bytes:,} B", overall.mtu_bytes, why
        )


def _homing_rules(profiles: FabricProfiles) -> _Breaks:
    rail, io, homing = profiles.rail, profiles.gpu_io, profiles.homing
    name = "RailSwitchFabricProfile"
    if io.nic_ports % homing:
        why = "the ports of a NIC are spread evenly"
        yield ProfileBreak(f"{name}.homing", f"a divisor of {io.nic_ports} NIC ports", homing, why)
    if homing > 1 and rail.multihoming == "none":
        why = f"a NIC on {homing} switches bonds its ports: they must act as one towards it"
        yield ProfileBreak(f"{name}.multihoming", "MLAG or EVPN", rail.multihoming, why)
    if homing == 1 and rail.multihoming != "none":
        yield ProfileBreak(f"{name}.multihoming", "none", rail.multihoming, "all ports of a NIC are on one switch")
    if homing > 2 and rail.multihoming == "MLAG":
        yield ProfileBreak(f"{name}.multihoming", "EVPN", rail.multihoming, f"MLAG joins two switches, not {homing}")
    if rail.multihoming == "EVPN" and profiles.overall.control_plane != "BGP EVPN":
        why = "switches share an Ethernet segment through EVPN routes"
        yield ProfileBreak("GlobalAIFabricProfile.control_plane", "BGP EVPN", profiles.overall.control_plane, why)
    if io.rails % profiles.rails_per_switch:
        why = "each rail switch has as many rails as the others"
        yield ProfileBreak(f"{name}.rails_per_switch", f"a divisor of {io.rails} rails", rail.rails_per_switch, why)


def _tier_rules(profiles: FabricProfiles) -> _Breaks:
    if profiles.super_spine and not profiles.spine:
        yield ProfileBreak("SpineSwitchProfile", "given", "none", "super-spines join spines, not rail switches")
    spine, top = profiles.spine, profiles.super_spine
    if spine and top and math.gcd(spine.spines, top.super_spines) % top.planes:
        shared = math.gcd(spine.spines, top.super_spines)
        why = "planes share out spines and super-spines evenly"
        yield ProfileBreak("SuperSpineSwitchProfile.planes", f"a divisor of {shared}", top.planes, why)


_RULES: tuple[Callable[[FabricProfiles], _Breaks], ...] = (_plane_rules, _lossless_rules, _homing_rules, _tier_rules)


def _fabric_breaks(fabric: SegmentFabric, profiles: FabricProfiles) -> _Breaks:
    """Fields in which a fabric is not as its profiles say."""
    io, rail, spine, top = profiles.gpu_io, profiles.rail, profiles.spine, profiles.super_spine
    pairs: list[tuple[str, Any, Any]] = [
        ("GpuIoTopology.hosts", io.hosts, fabric.servers),
        ("GpuIoTopology.gpus_per_host / gpus_per_nic", io.rails, fabric.gpus_per_server),
        ("GpuIoTopology.nic_ports", io.nic_ports, fabric.nic_ports),
        ("GpuIoTopology.port_Bps", io.port_Bps, fabric.port_Bps),
        ("RailSwitchFabricProfile.switch", rail.switch, fabric.rail_switch),
        ("RailSwitchFabricProfile.rails_per_switch", profiles.rails_per_switch, fabric.rails_per_switch),
        ("RailSwitchFabricProfile.homing", profiles.homing, fabric.homing),
    ]
    if spine and fabric.tiers > 1:
        pairs += [
            ("SpineSwitchProfile.switch", spine.switch, fabric.spine),
            ("SpineSwitchProfile.spines", spine.spines, fabric.spines),
            ("SpineSwitchProfile.segments", spine.segments, fabric.segments),
            ("SpineSwitchProfile.links", spine.links, fabric.spine_links),
            ("SpineSwitchProfile.uplink_Bps", spine.uplink_Bps or rail.switch.port_Bps, fabric.uplink_Bps),
        ]
    if top and fabric.tiers > 2:
        pairs += [
            ("SuperSpineSwitchProfile.switch", top.switch, fabric.super_spine),
            ("SuperSpineSwitchProfile.super_spines", top.super_spines, fabric.super_spines),
            ("SuperSpineSwitchProfile.pods", top.pods, fabric.pods),
            ("SuperSpineSwitchProfile.links", top.links, fabric.super_spine_links),
            ("SuperSpineSwitchProfile.planes", top.planes, fabric.super_spine_planes),
        ]
    for name, wanted, found in pairs:
        same = math.isclose(wanted, found) if isinstance(wanted, float) else wanted == found
        if not same:
            yield ProfileBreak(name, wanted, found, "the fabric is built otherwise than its profile says")
    for tier, name, given in ((2, "SpineSwitchProfile", spine), (3, "SuperSpineSwitchProfile", top)):
        if fabric.tiers >= tier and not given:
            why = f"the fabric has {fabric.tiers} tiers, {fabric.stages} stages: tier {tier} has no profile"
            yield ProfileBreak(name, "given", "none", why)
        if fabric.tiers < tier and given:
            yield ProfileBreak(name, "none", "given", f"the fabric has no switches of tier {tier}")
        if given and fabric.tiers >= tier and (ratio := fabric.oversubscription[tier - 2]) > given.oversubscription:
            why = f"switches of tier {tier - 1} take in more from below than they can send up"
            yield ProfileBreak(f"{name}.oversubscription", f"≤ {number(given.oversubscription)}", ratio, why)


def profile_breaks(fabric: SegmentFabric | None, profiles: FabricProfiles) -> pd.DataFrame:
    """All fields in which profiles contradict each other, and in which a fabric is not as they say.

    fabric: None checks the profiles alone. Columns field, wanted, found (texts), why; no rows where all is well.
    """
    found = [each for rule in _RULES for each in rule(profiles)]
    found += list(_fabric_breaks(fabric, profiles)) if fabric else []
    rows = [(each.field, *(_text(each.field, value) for value in each[1:3]), each.why) for each in found]
    return pd.DataFrame(rows, columns=list(ProfileBreak._fields), dtype=object)


def build_fabric(profiles: FabricProfiles) -> SegmentFabric:
    """The fabric that profiles describe. Where several GPUs share a NIC, a GPU of the fabric stands for a NIC.

    Raises ValueError naming every field that breaks a rule, and where switches have too few ports or a tier is more
    oversubscribed than its profile allows.
    """
    _refuse(profile_breaks(None, profiles))
    io, spine, top = profiles.gpu_io, profiles.spine, profiles.super_spine
    design: dict[str, Any] = {
        "servers": io.hosts,
        "rail_switch": profiles.rail.switch,
        "gpus_per_server": io.rails,
        "nic_ports": io.nic_ports,
        "homing": profiles.homing,
        "port_Bps": io.port_Bps,
        "rails_per_switch": profiles.rails_per_switch,
    }
    if spine:
        design |= {"segments": spine.segments, "spines": spine.spines, "spine": spine.switch}
        design |= {"spine_links": spine.links, "uplink_Bps": spine.uplink_Bps}
    if top:
        design |= {"pods": top.pods, "super_spines": top.super_spines, "super_spine": top.switch}
        design |= {"super_spine_links": top.links, "super_spine_planes": top.planes}
    fabric = SegmentFabric(**design)
    _refuse(profile_breaks(fabric, profiles))
    return fabric


def _refuse(breaks: pd.DataFrame) -> None:
    """Raise ValueError with all breaks, where there are any."""
    if len(breaks):
        lines = [f"\n  {row.field}: wanted {row.wanted}, found {row.found}: {row.why}" for row in breaks.itertuples()]
        raise ValueError(f"profiles break {len(breaks)} rule{'s' * (len(breaks) > 1)}:{''.join(lines)}")


def profile_table(profiles: FabricProfiles) -> pd.DataFrame:
    """Fields and values of the profiles as texts: columns layer, profile, field, value; no rows for a missing one."""
    rows = []
    for (name, title), layer in zip(_TITLES.items(), ("Segment", *LAYERS), strict=True):
        profile = getattr(profiles, name)
        for each in fields(profile) if profile else ():
            value = _shown_value(profiles, name, each.name, getattr(profile, each.name))
            rows.append((layer, title, each.name.removesuffix("_Bps").removesuffix("_bytes"), value))
    return pd.DataFrame(rows, columns=["layer", "profile", "field", "value"])


def _shown_value(profiles: FabricProfiles, profile: str, name: str, value: Any) -> str:
    """A field's value as text; what stands for a default is written out."""
    if profile == "rail" and name in ("rails_per_switch", "homing"):
        value = getattr(profiles, name)
    if name == "uplink_Bps" and not value:
        value = profiles.rail.switch.port_Bps
    return _text(name, value)


def _text(name: str, value: Any) -> str:
    """A value for a person."""
    if isinstance(value, SwitchModel):
        return value.name
    if name.endswith("_Bps") and isinstance(value, float | int):
        return show(value, "bps")
    if name.endswith("_bytes") and isinstance(value, int):
        return f"{value:,} B"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {each}" for key, each in value.items()) or "none"
    if isinstance(value, tuple | list):
        return " + ".join(value) or "none"
    return number(value) if isinstance(value, int | float) else str(value)
