"""The profiles of Fig. 13-13: objects from which a fabric is built, and the rules that they keep among each other.

    GpuIoTopology              how GPUs reach the network          segment
    RailSwitchFabricProfile    switches that join the NIC ports    segment
    SpineSwitchProfile         switches that join segments         pod
    SuperSpineSwitchProfile    switches that join pods             multi-pod
    GlobalAIFabricProfile      what holds on all of them           all

What one profile asks of another (VXLAN of EVPN, two tiers of a spine profile) are rules: `profile_breaks` gives all
that are broken, as a table.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pandas as pd

from railcore import catalog
from railcore.catalog.units import Gbps, number, show
from railcore.network.switches import SwitchModel, switch_model
from suite.deployment.segments import SegmentFabric

LAYERS = ("Segment", "Pod", "Multi-Pod", "Global")
_HEADERS = ("IPv4", "UDP", "InfiniBand BTH", "InfiniBand RETH", "InfiniBand immediate", "InfiniBand ICRC")  # RoCEv2's
SWITCH = "51.2T"  # of the catalog, with ports of 800 Gbps as in Fig. 13-8; the document names no model
_SHOWN: dict[str, dict[str, tuple[str, str]]] = {  # by profile and field: its name, and what the text names for it
    "gpu_io": {
        "hosts": ("GPU hosts", "multiple"),
        "gpus_per_host": ("GPUs of a host", ""),
        "gpus_per_nic": ("GPUs of a NIC", "dedicated or shared"),
        "nic_ports": ("NIC ports", "single, dual, quad"),
        "port": ("speed of a port", "100, 200, 400 Gbps"),
        "interconnect": ("interconnect type", "InfiniBand, RoCEv2, NVLink"),
    },
    "rail": {
        "switch": ("switch ports", ""),
        "rails_per_switch": ("rails per switch", "one, two or more"),
        "homing": ("switches of a NIC", ""),
        "multihoming": ("NIC ports joined by", ""),
        "queues": ("queues, 0 to 7", "RoCEv2 in its queue"),
    },
    "spine": {
        "switch": ("switch ports", "high-density, high-speed"),
        "spines": ("Spine switches of a Pod", ""),
        "segments": ("Segments of a Pod", "n"),
        "links": ("links to a Rail switch", ""),
        "uplink": ("speed of a link", ""),
        "oversubscription": ("oversubscription", ""),
    },
    "super_spine": {
        "switch": ("switch ports", "very high port density"),
        "super_spines": ("Super Spine switches", ""),
        "pods": ("Pods", "multiple"),
        "links": ("links to a Spine switch", ""),
        "planes": ("Spines that each joins", ""),
        "oversubscription": ("oversubscription", ""),
    },
    "overall": {
        "control_plane": ("control plane", "eBGP, iBGP, BGP EVPN"),
        "data_plane": ("data plane", "Ethernet, VXLAN"),
        "ecmp": ("Layer 3 ECMP", "flow-based, flowlet-based, per-packet"),
        "congestion_control": ("congestion control", "ECN marking, PFC"),
        "bfd": ("link monitoring", "BFD between switches"),
        "mtu": ("MTU", "global"),
        "payload": ("RDMA payload", ""),
    },
}


@dataclass(frozen=True)
class GpuIoTopology:
    """How the GPUs of a segment reach the network.

    hosts: of a segment.
    gpus_per_host: GPUs of a host.
    gpus_per_nic: 1 is a NIC for each GPU; more share one.
    nic_ports: 1, 2 or 4.
    port_Bps: one direction [bytes/s].
    interconnect: RoCEv2, InfiniBand or NVLink.
    """

    hosts: int
    gpus_per_host: int = 8
    gpus_per_nic: int = 1
    nic_ports: int = 1
    port_Bps: float = 400 * Gbps
    interconnect: str = "RoCEv2"

    @property
    def rails(self) -> int:
        """NICs of a host, one on each rail."""
        return self.gpus_per_host // self.gpus_per_nic


@dataclass(frozen=True)
class RailSwitchFabricProfile:
    """Rail switches of a segment.

    switch: model.
    rails_per_switch: 1 maps each rail to a switch of its own, 0 all rails to every switch.
    homing: switches that the ports of a NIC are spread over, by default each port to another.
    multihoming: how these act as one: MLAG, EVPN or none.
    queues: queue, 0 to 7, of the traffic that ingress classification tells apart: "RoCEv2" and "CNP", its congestion
        notifications.
    """

    switch: SwitchModel
    rails_per_switch: int = 0
    homing: int = 0
    multihoming: str = "none"
    queues: Mapping[str, int] = field(default_factory=lambda: {"RoCEv2": 3, "CNP": 6})


@dataclass(frozen=True)
class SpineSwitchProfile:
    """Spines of a pod of `segments`: `links` to each rail switch of `uplink_Bps`, by default the switch's own speed.

    oversubscription: most that a rail switch may have, downlink over uplink bandwidth.
    """

    switch: SwitchModel
    spines: int
    segments: int = 1
    links: int = 1
    uplink_Bps: float = 0.0
    oversubscription: float = 1.0


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


@dataclass(frozen=True)
class GlobalAIFabricProfile:
    """Settings of all layers.

    control_plane: eBGP, iBGP, BGP EVPN or subnet manager.
    data_plane: Ethernet, VXLAN or InfiniBand.
    ecmp: flow-based, flowlet-based or per-packet.
    congestion_control: of ECN, PFC and credits; ECN and PFC together are DCQCN.
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

    @property
    def least_mtu_bytes(self) -> int:
        """MTU that a RoCEv2 packet with `payload_bytes` needs: with its headers, and VXLAN's where it is used."""
        names = (*_HEADERS, *["VXLAN"] * (self.data_plane == "VXLAN"))
        return self.payload_bytes + int(sum(catalog.item("protocols", name)["header"] for name in names))


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


def document_profiles() -> FabricProfiles:
    """Profiles of the multi-pod design of Fig. 13-7 to 13-9: two pods of two segments of four hosts.

    A NIC port has the 100 Gbps of Fig. 13-8; Fig. 13-7, whose segment it repeats, has 200 Gbps. MLAG and the counts are
    printed; control plane, queues and MTU are usual ones, as the document prints none.
    """
    switch = switch_model(SWITCH)
    return FabricProfiles(
        GlobalAIFabricProfile(),
        GpuIoTopology(hosts=4, gpus_per_host=8, nic_ports=2, port_Bps=100 * Gbps),
        RailSwitchFabricProfile(switch, multihoming="MLAG"),
        SpineSwitchProfile(switch, spines=4, segments=2),
        SuperSpineSwitchProfile(switch, super_spines=4, pods=2),
    )


_TITLES = {
    "gpu_io": "GPU I/O Topology",
    "rail": "Rail Switch Fabric Profile",
    "spine": "Spine Switch Profile",
    "super_spine": "Super Spine Switch Profile",
    "overall": "Global AI Fabric Profile",
}


def profile_breaks(profiles: FabricProfiles) -> pd.DataFrame:
    """Fields in which profiles contradict each other: columns field, wanted, found (texts), why.

    No rows where all is well.
    """
    rules = (_plane_rules, _lossless_rules, _homing_rules, _tier_rules)
    breaks = [text for rule in rules for text in rule(profiles)]
    rows = [(name, wanted, _text(name, value), why) for name, wanted, value, why in breaks]
    return pd.DataFrame(rows, columns=["field", "wanted", "found", "why"], dtype=object)


_Breaks = Iterator[tuple[str, str, Any, str]]  # field, what is wanted, what was found, and why
_GLOBAL, _RAIL = "GlobalAIFabricProfile", "RailSwitchFabricProfile"


def _plane_rules(profiles: FabricProfiles) -> _Breaks:
    data, control, nics = profiles.overall.data_plane, profiles.overall.control_plane, profiles.gpu_io.interconnect
    infiniband = nics == "InfiniBand"
    if data == "VXLAN" and control != "BGP EVPN":
        yield f"{_GLOBAL}.control_plane", "BGP EVPN", control, "EVPN tells VXLAN tunnels which addresses are where"
    if control == "BGP EVPN" and data != "VXLAN":
        yield f"{_GLOBAL}.data_plane", "VXLAN", data, "EVPN's routes describe VXLAN segments, and there are none"
    if infiniband != (data == "InfiniBand"):
        wanted = "InfiniBand" if infiniband else "Ethernet or VXLAN"
        yield f"{_GLOBAL}.data_plane", wanted, data, f"NICs speak {nics}, and switches forward what NICs speak"
    if infiniband != (control == "subnet manager"):
        wanted = "subnet manager" if infiniband else "eBGP, iBGP or BGP EVPN"
        yield f"{_GLOBAL}.control_plane", wanted, control, "the subnet manager routes InfiniBand, BGP routes IP"
    if nics == "NVLink":
        yield "GpuIoTopology.interconnect", "RoCEv2 or InfiniBand", nics, "NVLink ends in the host; rails need packets"


def _lossless_rules(profiles: FabricProfiles) -> _Breaks:
    overall, queues, nics = profiles.overall, profiles.rail.queues, profiles.gpu_io.interconnect
    have, least = tuple(overall.congestion_control), overall.least_mtu_bytes
    if nics == "RoCEv2" and not {"ECN", "PFC"} & set(have):
        yield f"{_GLOBAL}.congestion_control", "ECN or PFC", have, "RoCEv2 sends all again from a lost packet on"
    if ("credits" in have) != (nics == "InfiniBand"):
        wanted = "credits" if nics == "InfiniBand" else "ECN or PFC"
        yield f"{_GLOBAL}.congestion_control", wanted, have, "InfiniBand has link-level credits, Ethernet has none"
    if nics == "RoCEv2" and "RoCEv2" not in queues:
        yield f"{_RAIL}.queues", "a queue for RoCEv2", queues, "PFC and ECN need a queue of RoCEv2 alone"
    if "CNP" in queues and queues.get("RoCEv2") == queues["CNP"]:
        why = "congestion notifications must not wait behind the traffic that they slow down"
        yield f"{_RAIL}.queues", "CNP in another queue", queues, why
    if nics == "RoCEv2" and overall.mtu_bytes < least:
        why = f"{overall.payload_bytes:,} bytes of payload with their headers; larger packets are dropped"
        yield f"{_GLOBAL}.mtu_bytes", f"≥ {least:,} B", overall.mtu_bytes, why


def _homing_rules(profiles: FabricProfiles) -> _Breaks:
    ports, rails, homing = profiles.gpu_io.nic_ports, profiles.gpu_io.rails, profiles.homing
    how, control = profiles.rail.multihoming, profiles.overall.control_plane
    if ports % homing:
        yield f"{_RAIL}.homing", f"a divisor of {ports} NIC ports", homing, "the ports of a NIC are spread evenly"
    if homing > 1 and how == "none":
        why = f"a NIC on {homing} switches bonds its ports: they must act as one towards it"
        yield f"{_RAIL}.multihoming", "MLAG or EVPN", how, why
    if homing == 1 and how != "none":
        yield f"{_RAIL}.multihoming", "none", how, "all ports of a NIC are on one switch"
    if homing > 2 and how == "MLAG":
        yield f"{_RAIL}.multihoming", "EVPN", how, f"MLAG joins two switches, not {homing}"
    if how == "EVPN" and control != "BGP EVPN":
        yield f"{_GLOBAL}.control_plane", "BGP EVPN", control, "switches share an Ethernet segment through EVPN routes"
    if rails % (r := profiles.rails_per_switch):
        yield f"{_RAIL}.rails_per_switch", f"a divisor of {rails} rails", r, "each rail switch has as many rails"


def _tier_rules(profiles: FabricProfiles) -> _Breaks:
    spine, top = profiles.spine, profiles.super_spine
    if top and not spine:
        yield "SpineSwitchProfile", "given", "none", "super-spines join spines, not rail switches"
    if top and spine and (shared := math.gcd(spine.spines, top.super_spines)) % top.planes:
        why = "planes share out spines and super-spines evenly"
        yield "SuperSpineSwitchProfile.planes", f"a divisor of {shared}", top.planes, why


def build_fabric(profiles: FabricProfiles) -> SegmentFabric:
    """The fabric that profiles describe. Where several GPUs share a NIC, a GPU of the fabric stands for a NIC.

    Raises ValueError naming every field that breaks a rule, and where switches have too few ports or a tier is more
    oversubscribed than its profile allows.
    """
    if len(breaks := profile_breaks(profiles)):
        lines = [f"\n  {row.field}: wanted {row.wanted}, found {row.found}: {row.why}" for row in breaks.itertuples()]
        raise ValueError(f"profiles break {len(breaks)} rule{'s' * (len(breaks) > 1)}:{''.join(lines)}")
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
    for ratio, profile in zip(fabric.oversubscription, (spine, top), strict=False):
        if profile and ratio > profile.oversubscription:
            raise ValueError(
                f"{type(profile).__name__}.oversubscription is {number(profile.oversubscription)}, but the switches "
                f"below take in {number(ratio)} times what they can send up: give more links upwards, or allow it"
            )
    return fabric


def profile_table(profiles: FabricProfiles) -> pd.DataFrame:
    """Fields and values of the profiles as texts: columns layer, profile, field, name, value, document.

    name: of the field in words. document: the values that the text names for a field, "–" where it names none. A
    missing profile has no rows.
    """
    rows = []
    for (part, title), layer in zip(_TITLES.items(), ("Segment", *LAYERS), strict=True):
        profile = getattr(profiles, part)
        for profile_field in fields(profile) if profile else ():
            field_name = profile_field.name.removesuffix("_Bps").removesuffix("_bytes")
            value = _shown_value(profiles, part, profile_field.name, getattr(profile, profile_field.name))
            name, document = _SHOWN[part][field_name]
            rows.append((layer, title, field_name, name, value, document or "–"))
            if (part, field_name) == ("super_spine", "links"):  # of the rail switches' speed, as all links above them
                speed = _shown_value(profiles, part, "uplink_Bps", profiles.spine.uplink_Bps if profiles.spine else 0.0)
                rows.append((layer, title, "uplink", "speed of a link", speed, "–"))
    return pd.DataFrame(rows, columns=["layer", "profile", "field", "name", "value", "document"])


def _shown_value(profiles: FabricProfiles, profile: str, name: str, value: Any) -> str:
    """A field's value as text; a default is written out."""
    if profile == "rail" and name in ("rails_per_switch", "homing"):
        value = getattr(profiles, name)
    if name == "uplink_Bps" and not value:
        value = profiles.rail.switch.port_Bps
    if name == "planes":
        return "all" if value == 1 else f"one in {value}"
    if name == "oversubscription":
        return f"{number(value)}:1 at most"
    if name == "bfd":
        return "BFD" if value else "none"
    return _text(name, value)


def _text(name: str, value: Any) -> str:
    """A value for a person."""
    if isinstance(value, SwitchModel):
        return f"{value.ports} x {show(value.port_Bps, 'bps')}"
    if name.endswith("_Bps") and isinstance(value, float | int):
        return show(value, "bps")
    if name.endswith("_bytes") and isinstance(value, int):
        return f"{value:,} B"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {entry}" for key, entry in value.items()) or "none"
    if isinstance(value, tuple | list):
        return " + ".join(value) or "none"
    return number(value) if isinstance(value, int | float) else str(value)
