"""Profiles of a fabric: each rule broken once, all breaks at once, a fabric built from them and held to them."""

from dataclasses import replace

import matplotlib.pyplot as plt
import pytest

from railcore.documents.nwktimes2025.profiles import OTHER_HOST_PORT, document_profiles, named_values
from railcore.engines.deployment.profiles import (
    FabricProfiles,
    GlobalAIFabricProfile,
    GpuIoTopology,
    RailSwitchFabricProfile,
    SpineSwitchProfile,
    SuperSpineSwitchProfile,
    build_fabric,
    profile_breaks,
    profile_table,
    rocev2_packet_bytes,
)
from railcore.facts.units import Gbps
from railcore.network.switches import switch_model
from railcore.workbench.drawing.clusters import profiles_figure
from railcore.workbench.drawing.diagram import text_collisions

SWITCH = switch_model("51.2T")
OTHER = replace(SWITCH, name="other")


def changed(**parts):
    """The document's profiles with other fields: changed(overall={"data_plane": "VXLAN"}, spine=None)."""
    profiles = document_profiles()
    new = {name: with_ and replace(getattr(profiles, name), **with_) for name, with_ in parts.items()}
    return replace(profiles, **new)


IB = {"data_plane": "InfiniBand", "control_plane": "subnet manager", "congestion_control": ("credits",)}
BROKEN = {  # change: fields that break
    "VXLAN needs EVPN": ({"overall": {"data_plane": "VXLAN"}}, ["GlobalAIFabricProfile.control_plane"]),
    "EVPN needs VXLAN": ({"overall": {"control_plane": "BGP EVPN"}}, ["GlobalAIFabricProfile.data_plane"]),
    "lossless": ({"overall": {"congestion_control": ()}}, ["GlobalAIFabricProfile.congestion_control"]),
    "credits": (
        {"overall": {"congestion_control": ("PFC", "credits")}},
        ["GlobalAIFabricProfile.congestion_control"],
    ),
    "queue": ({"rail": {"queues": {}}}, ["RailSwitchFabricProfile.queues"]),
    "CNP queue": ({"rail": {"queues": {"RoCEv2": 3, "CNP": 3}}}, ["RailSwitchFabricProfile.queues"]),
    "MTU": ({"overall": {"mtu_bytes": 4096}}, ["GlobalAIFabricProfile.mtu_bytes"]),
    "no multihoming": ({"rail": {"multihoming": "none"}}, ["RailSwitchFabricProfile.multihoming"]),
    "multihoming of one": ({"rail": {"homing": 1}}, ["RailSwitchFabricProfile.multihoming"]),
    "MLAG of four": ({"gpu_io": {"nic_ports": 4, "hosts": 2}}, ["RailSwitchFabricProfile.multihoming"]),
    "homing does not divide": ({"rail": {"homing": 3, "multihoming": "EVPN"}}, None),
    "EVPN multihoming": ({"rail": {"multihoming": "EVPN"}}, ["GlobalAIFabricProfile.control_plane"]),
    "rails": ({"rail": {"rails_per_switch": 3}}, ["RailSwitchFabricProfile.rails_per_switch"]),
    "no spine": ({"spine": None}, ["SpineSwitchProfile"]),
    "planes": ({"super_spine": {"planes": 3}}, ["SuperSpineSwitchProfile.planes"]),
    "InfiniBand NICs": (
        {"gpu_io": {"interconnect": "InfiniBand"}},
        [f"GlobalAIFabricProfile.{name}" for name in ("data_plane", "control_plane", "congestion_control")],
    ),
    "InfiniBand switches": (
        {"overall": IB},
        [f"GlobalAIFabricProfile.{name}" for name in ("data_plane", "control_plane", *["congestion_control"] * 2)],
    ),
    "NVLink": ({"gpu_io": {"interconnect": "NVLink"}}, ["GpuIoTopology.interconnect"]),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_each_rule_names_its_field_and_says_why(rule):
    change, wanted = BROKEN[rule]
    profiles = changed(**change)
    found = profile_breaks(None, profiles)
    assert len(found) and (found["why"].str.len() > 10).all()
    if wanted:
        assert list(found["field"]) == wanted
    with pytest.raises(ValueError, match="profiles break") as refused:
        build_fabric(profiles)
    assert all(field in str(refused.value) for field in found["field"])


def test_profiles_that_fit_each_other_break_nothing():
    evpn = {"control_plane": "BGP EVPN", "data_plane": "VXLAN"}
    four = {"nic_ports": 4, "hosts": 2}
    for profiles in (
        document_profiles(),
        changed(overall=evpn),
        changed(overall=evpn, rail={"multihoming": "EVPN"}, gpu_io=four, super_spine={"links": 2}),
        changed(overall=IB, gpu_io={"interconnect": "InfiniBand"}),
        changed(super_spine=None),
        changed(super_spine=None, spine=None),
    ):
        assert profile_breaks(None, profiles).empty
        fabric = build_fabric(profiles)
        assert fabric.tiers == profiles.tiers and profile_breaks(fabric, profiles).empty


def test_all_breaks_come_at_once():
    profiles = changed(
        overall={"data_plane": "VXLAN", "congestion_control": ()}, rail={"multihoming": "none"}, spine=None
    )
    assert len(profile_breaks(None, profiles)) == 4


FABRIC_FIELDS = {
    "GpuIoTopology.hosts": {"servers": 3},
    "GpuIoTopology.gpus_per_host / gpus_per_nic": {"gpus_per_server": 4, "rails_per_switch": 4},
    "GpuIoTopology.nic_ports": {"nic_ports": 4, "homing": 2},
    "GpuIoTopology.port_Bps": {"port_Bps": 200 * Gbps},
    "RailSwitchFabricProfile.switch": {"rail_switch": OTHER, "spine": SWITCH},
    "RailSwitchFabricProfile.rails_per_switch": {"rails_per_switch": 4},
    "RailSwitchFabricProfile.homing": {"homing": 1},
    "SpineSwitchProfile.switch": {"spine": OTHER, "super_spine": SWITCH},
    "SpineSwitchProfile.spines": {"spines": 8},
    "SpineSwitchProfile.segments": {"segments": 1},
    "SpineSwitchProfile.links": {"spine_links": 2},
    "SpineSwitchProfile.uplink_Bps": {"uplink_Bps": 400 * Gbps},
    "SuperSpineSwitchProfile.switch": {"super_spine": OTHER},
    "SuperSpineSwitchProfile.super_spines": {"super_spines": 8},
    "SuperSpineSwitchProfile.pods": {"pods": 1},
    "SuperSpineSwitchProfile.links": {"super_spine_links": 2},
    "SuperSpineSwitchProfile.planes": {"super_spine_planes": 2, "super_spine_links": 1},
}


@pytest.mark.parametrize("field", FABRIC_FIELDS)
def test_a_fabric_that_leaves_its_profile_is_told_the_field(field):
    profiles = document_profiles()
    fabric = replace(build_fabric(profiles), **FABRIC_FIELDS[field])
    assert field in list(profile_breaks(fabric, profiles)["field"])


@pytest.mark.parametrize("missing", ["spine", "super_spine"])
def test_each_tier_needs_its_profile(missing):
    profiles, name = document_profiles(), {"spine": "SpineSwitchProfile", "super_spine": "SuperSpineSwitchProfile"}
    fabric = build_fabric(profiles)
    without = changed(super_spine=None) if missing == "super_spine" else changed(spine=None, super_spine=None)
    assert name[missing] in list(profile_breaks(fabric, without)["field"])
    smaller = build_fabric(without)
    found = profile_breaks(smaller, profiles).set_index("field")
    assert found.loc[name[missing], "found"] == "given"


def test_an_oversubscribed_tier_is_refused_with_its_ratio():
    with pytest.raises(ValueError, match=r"SpineSwitchProfile.oversubscription: wanted ≤ 1, found 2"):
        build_fabric(document_profiles(OTHER_HOST_PORT))
    profiles = document_profiles(OTHER_HOST_PORT)
    allowed = replace(profiles, spine=replace(profiles.spine, oversubscription=2.0))
    assert build_fabric(allowed).oversubscription[0] == 2


def test_packets_have_their_headers():
    """IP 20 + UDP 8 + BTH 12 + RETH 16 + immediate 4 + ICRC 4 around the payload; VXLAN 50 more, IPv6 20 more."""
    assert rocev2_packet_bytes(4096) == 4096 + 64
    assert rocev2_packet_bytes(4096, vxlan=True) - rocev2_packet_bytes(4096) == 50
    assert rocev2_packet_bytes(1024, "IPv6") - rocev2_packet_bytes(1024) == 20
    evpn = {"control_plane": "BGP EVPN", "data_plane": "VXLAN"}
    fits = rocev2_packet_bytes(4096, vxlan=True)
    assert profile_breaks(None, changed(overall={**evpn, "mtu_bytes": fits})).empty
    assert len(profile_breaks(None, changed(overall={**evpn, "mtu_bytes": fits - 1}))) == 1


def test_a_shared_nic_stands_for_its_gpus():
    profiles = changed(gpu_io={"gpus_per_nic": 2})
    assert build_fabric(profiles).rails == 4 and profiles.rails_per_switch == 4


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: GpuIoTopology(4, nic_ports=3), "nic_ports is 3: give one of 1, 2, 4"),
        (lambda: GpuIoTopology(4, port_Bps="300 Gbps"), "port_Bps is 300 Gbps: give one of 100 Gbps"),
        (lambda: GpuIoTopology(4, gpus_per_nic=3), "gpus_per_nic is 3: give a divisor"),
        (lambda: GpuIoTopology(4, interconnect="Myrinet"), "interconnect is 'Myrinet'"),
        (lambda: RailSwitchFabricProfile(SWITCH, queues={"RoCEv2": 8}), "from 0 to 7"),
        (lambda: RailSwitchFabricProfile(SWITCH, multihoming="LACP"), "multihoming is 'LACP'"),
        (lambda: SpineSwitchProfile(SWITCH, 0), "spines is 0"),
        (lambda: SuperSpineSwitchProfile(SWITCH, 4, 0), "pods is 0"),
        (lambda: GlobalAIFabricProfile(control_plane="RIP"), "control_plane is 'RIP'"),
        (lambda: GlobalAIFabricProfile(ecmp="random"), "ecmp is 'random'"),
        (lambda: GlobalAIFabricProfile(payload_bytes=4000), "payload_bytes is 4000"),
        (lambda: GlobalAIFabricProfile(congestion_control=("RED",)), "congestion_control is 'RED'"),
        (lambda: FabricProfiles(GlobalAIFabricProfile(), "x", RailSwitchFabricProfile(SWITCH)), "gpu_io is 'x'"),
    ],
)
def test_each_object_checks_its_own_fields(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_the_table_has_every_field_and_the_picture_every_profile():
    profiles = document_profiles()
    table = named_values(profiles)
    assert set(table["layer"]) == {"Segment", "Pod", "Multi-Pod", "Global"}
    assert len(profile_table(changed(super_spine=None))) < len(table)
    for few in (profiles, changed(super_spine=None), changed(spine=None, super_spine=None)):
        plt.close("all")
        page = profiles_figure(build_fabric(few).graph(), named_values(few), "Profiles")
        assert text_collisions(page) == []
        texts = " ".join(text.get_text() for text in page.axes[0].texts)
        assert all(name in texts for name in profile_table(few)["profile"].unique())
