"""Profiles of a fabric: each rule broken once, all breaks at once, a fabric built from them and held to them."""

from dataclasses import replace

import matplotlib.pyplot as plt
import pytest

from railcore.catalog.units import Gbps
from suite import legible
from suite.drawing.clusters import profiles_figure
from suite.nwktimes2025.profiles import (
    GlobalAIFabricProfile,
    build_fabric,
    document_profiles,
    profile_breaks,
    profile_table,
)


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
    breaks = profile_breaks(profiles)
    assert len(breaks) and (breaks["why"].str.len() > 10).all()
    if wanted:
        assert list(breaks["field"]) == wanted
    with pytest.raises(ValueError, match="profiles break") as refused:
        build_fabric(profiles)
    assert all(field in str(refused.value) for field in breaks["field"])


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
        assert profile_breaks(profiles).empty
        fabric = build_fabric(profiles)
        assert fabric.tiers == profiles.tiers


def test_all_breaks_come_at_once():
    profiles = changed(
        overall={"data_plane": "VXLAN", "congestion_control": ()}, rail={"multihoming": "none"}, spine=None
    )
    assert len(profile_breaks(profiles)) == 4


def test_an_oversubscribed_tier_is_refused_with_its_ratio():
    """The pod of Fig. 13-8 with the host ports of Fig. 13-7."""
    profiles = changed(gpu_io={"port_Bps": 200 * Gbps})
    with pytest.raises(ValueError, match=r"SpineSwitchProfile.oversubscription is 1, but .* take in 2 times"):
        build_fabric(profiles)
    allowed = replace(profiles, spine=replace(profiles.spine, oversubscription=2.0))
    assert build_fabric(allowed).oversubscription[0] == 2


def test_packets_have_their_headers():
    """IP 20 + UDP 8 + BTH 12 + RETH 16 + immediate 4 + ICRC 4 around the payload; VXLAN 50 more."""
    assert GlobalAIFabricProfile(payload_bytes=1024).least_mtu_bytes == 1024 + 64
    evpn = {"control_plane": "BGP EVPN", "data_plane": "VXLAN"}
    for mtu, breaks in ((4096 + 64 + 50, 0), (4096 + 64 + 49, 1)):
        assert len(profile_breaks(changed(overall={**evpn, "mtu_bytes": mtu}))) == breaks


def test_a_shared_nic_stands_for_its_gpus():
    profiles = changed(gpu_io={"gpus_per_nic": 2})
    assert build_fabric(profiles).rails == 4 and profiles.rails_per_switch == 4


def test_the_table_has_every_field_and_the_picture_every_profile():
    profiles = document_profiles()
    table = profile_table(profiles)
    assert set(table["layer"]) == {"Segment", "Pod", "Multi-Pod", "Global"}
    assert len(profile_table(changed(super_spine=None))) < len(table)
    speeds = table[table["name"] == "speed of a link"].set_index("layer")["value"]
    assert speeds.to_dict() == {"Pod": "800 Gbps", "Multi-Pod": "800 Gbps"}
    page = profiles_figure(build_fabric(profiles).graph(), table, "Profiles", "a note")
    assert legible.overlaps(page) == []
    texts = " ".join(text.get_text() for text in page.axes[0].texts)
    assert all(name in texts for name in table["profile"].unique())
    plt.close(page)
