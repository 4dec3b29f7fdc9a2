"""Port map of a segment fabric: interfaces used once, both ends of a trunk, the graph's edges, rules of one's own."""

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from test_segments import LARGE

from railcore.catalog.units import Gbps
from railcore.network.switches import SwitchModel, switch_model
from suite.deployment.cables import cabling_table
from suite.deployment.port_map import fabric_switches, nic_bundling
from suite.deployment.segments import SegmentFabric
from suite.deployment.subnets import AddressPlan

SN5600 = switch_model("SN5600")
SMALL = SwitchModel("small", 48, 400 * Gbps)


@st.composite
def plans(draw):
    """Plans of fabrics of every kind: tiers, homing, NIC ports, rails per switch, planes, bundling and break-out."""
    tiers, homing = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2, 4]))
    planes = draw(st.sampled_from([1, 2, 3])) if tiers > 2 else 1
    rails = draw(st.sampled_from([1, 2, 4]))
    fabric = SegmentFabric(
        servers=draw(st.integers(1, 5)),
        rail_switch=draw(st.sampled_from([LARGE, SwitchModel("broken out", 512, 800 * Gbps, ((400 * Gbps, 1024),))])),
        gpus_per_server=rails,
        homing=homing,
        nic_ports=homing * draw(st.sampled_from([1, 2])),
        rails_per_switch=draw(st.sampled_from([r for r in (1, 2, 4) if rails % r == 0])),
        segments=draw(st.integers(1, 3)) if tiers > 1 else 1,
        pods=draw(st.integers(1, 3)) if tiers > 2 else 1,
        spines=planes * draw(st.integers(1, 3)) if tiers > 1 else 0,
        spine_links=draw(st.integers(1, 3)),
        super_spines=planes * draw(st.integers(1, 2)) if tiers > 2 else 0,
        super_spine_planes=planes,
        super_spine_links=draw(st.integers(1, 2)),
        uplink_Bps=draw(st.sampled_from([400, 800])) * Gbps,
        breakout=draw(st.booleans()),
    )
    fits = {1: ["none", "lag"], 2: ["none", "mlag", "evpn"], 4: ["none", "evpn"]}[homing]
    return AddressPlan(
        fabric,
        rule=draw(st.sampled_from(["by server", "by rail"])),
        bundling=draw(st.sampled_from(fits if fabric.nic_ports > 1 else ["none"])),
        trunk_bundles=draw(st.booleans()),
        peer_links=draw(st.integers(1, 3)),
    )


def every_kind(test):
    """Property test over `plans`, and always over one of each bundling, with break-out, planes and port channels."""
    two = {"servers": 3, "gpus_per_server": 4, "rails_per_switch": 2, "port_Bps": "200 Gbps", "spine_links": 2}
    three = {**two, "segments": 2, "pods": 2, "spines": 4, "super_spines": 4, "super_spine_planes": 2}
    kinds = [
        AddressPlan(SegmentFabric(rail_switch=SN5600, segments=2, spines=2, nic_ports=2, **two), bundling="mlag"),
        AddressPlan(SegmentFabric(rail_switch=SN5600, nic_ports=4, homing=2, **three), bundling="mlag"),
        AddressPlan(SegmentFabric(rail_switch=SN5600, nic_ports=2, **three), bundling="evpn"),
        AddressPlan(SegmentFabric(rail_switch=SN5600, nic_ports=4, homing=2, **three), bundling="none"),
        AddressPlan(SegmentFabric(rail_switch=LARGE, nic_ports=2, homing=1, **three), bundling="lag"),
    ]

    for plan in kinds:
        test = example(plan)(test)
    return given(plans())(test)


def ends(plan):
    """Every interface in use: (switch, interface, lane), of host ports and of both ends of links between switches."""
    hosts, trunks = plan.ports, plan.trunks
    interfaces = list(zip(hosts["switch"], hosts["interface"], hosts["lane"], strict=True))
    interfaces += zip(trunks["switch"], trunks["interface"], trunks["lane"], strict=True)
    return interfaces + list(zip(trunks["peer"], trunks["peer_interface"], trunks["peer_lane"], strict=True))


@every_kind
def test_every_interface_is_used_once_and_is_one_of_the_model(plan):
    used = ends(plan)
    assert len(set(used)) == len(used)
    models = dict(zip(plan.switches["switch"], plan.switches["tier"], strict=True))
    lanes = {}
    for switch, interface, lane in used:
        assert 1 <= interface <= plan.fabric.models[models[switch] - 1].ports
        lanes.setdefault((switch, interface), set()).add(lane)
    for taken in lanes.values():
        assert taken == {0} or 0 not in taken


@every_kind
def test_the_port_map_is_the_graph_s_edges(plan):
    graph, ports = plan.fabric.graph(), plan.ports
    counted = Counter(zip(ports["domain"], ports["gpu"], ports["switch"], strict=True))
    wired = {}
    for a, b, at in graph.edges(data=True):
        gpu, switch = sorted((a, b), key=lambda node: graph.nodes[node]["kind"])
        if at["kind"] == "host":
            wired[graph.nodes[gpu]["domain"], graph.nodes[gpu]["rank"], graph.nodes[switch]["chassis"]] = at["links"]
    assert wired == dict(counted)
    trunks = plan.trunks[plan.trunks["kind"] == "trunk"]
    joined = Counter(frozenset(pair) for pair in zip(trunks["switch"], trunks["peer"], strict=True))
    assert joined == {frozenset((a, b)): at["links"] for a, b, at in graph.edges(data=True) if at["kind"] == "trunk"}


@every_kind
def test_switches_count_from_1_in_their_place_and_the_super_spines_are_named_so(plan):
    table = fabric_switches(plan.fabric)
    assert table["switch"].is_unique and len(table) == sum(plan.fabric.switches_by_tier)
    for _, here in table.groupby(["tier", "pod", "segment"]):
        assert here["number"].tolist() == list(range(1, len(here) + 1))
    top = table[table["tier"] == 3]
    assert top["switch"].tolist() == [f"Super{number}" for number in top["number"]]


@every_kind
def test_both_ends_of_a_trunk_agree(plan):
    """Parallel links count from 1, share a port channel of both ends or none, and channels of a switch are apart."""
    for _, links in plan.trunks.groupby(["switch", "peer"]):
        assert sorted(links["link"]) == list(range(1, len(links) + 1))
        low, high = set(links["port_channel"]), set(links["peer_port_channel"])
        assert len(low) == len(high) == 1 and ((0 in low) == (0 in high))
        assert 0 not in low or len(links) == 1 or not plan.trunk_bundles
    channels = {}
    hosts = plan.ports[plan.ports["port_channel"] > 0]
    for switch, channel, host, gpu in hosts[["switch", "port_channel", "host", "gpu"]].itertuples(index=False):
        channels.setdefault((switch, channel), set()).add((host, gpu))
    for one, two in (("", "peer_"), ("peer_", "")):
        names = ["switch" if side == "" else "peer" for side in (one, two)]
        for row in plan.trunks[[names[0], f"{one}port_channel", names[1]]].itertuples(index=False):
            if row[1]:
                channels.setdefault(tuple(row[:2]), set()).add(row[2])
    assert all(len(users) == 1 for users in channels.values())


@every_kind
def test_members_of_a_bundle_have_the_same_numbers_on_every_switch(plan):
    for _, nic in plan.ports.groupby(["domain", "gpu"]):
        assert len(nic) == plan.fabric.nic_ports and nic["switch"].nunique() == plan.fabric.homing
        if plan.is_bundled:
            assert nic["port_channel"].nunique() == nic["vlan"].nunique() == nic["address"].nunique() == 1
        else:
            assert set(nic["port_channel"]) == {0} and nic["vlan"].nunique() == len(nic)


def test_groups_of_consecutive_ports_one_a_server_or_one_a_rail():
    table = AddressPlan(SegmentFabric(3, SMALL, port_Bps="200 Gbps")).ports
    assert list(table["interface"]) == list(range(1, 25)) and list(table["vlan"]) == list(range(101, 109)) * 3
    assert set(table["host"]) == {"Pod1.Seg1.Host1", "Pod1.Seg1.Host2", "Pod1.Seg1.Host3"}
    table = AddressPlan(SegmentFabric(4, SMALL), rule="by rail").ports
    of_rail = table.groupby("rail")["interface"].agg(["min", "max"])
    assert of_rail.loc[1].tolist() == [1, 4] and of_rail.loc[2].tolist() == [5, 8] and of_rail["max"].max() == 32


def test_a_rule_of_ones_own():
    fabric = SegmentFabric(4, SMALL, nic_ports=2, port_Bps="200 Gbps", spines=4, spine_links=2)

    def every_third(rail, server, port):
        return 12 * ((rail - 1) % 4) + 1 + (rail > 4) + 3 * (server - 1)

    plan = AddressPlan(fabric, every_third)
    table, trunks = plan.ports, plan.trunks
    assert table.query("rail == 6 and nic_port == 2")["interface"].tolist() == [14, 17, 20, 23]
    uplinks = trunks.query("switch == 'Pod1.Seg1.Leaf1' and kind == 'trunk'")["interface"].tolist()
    assert uplinks == [3, 6, 9, 12, 15, 18, 21, 24]  # what the rule leaves free, lowest first
    assert not set(trunks["interface"]) & set(table["interface"])


def test_slower_ports_take_the_lanes_of_an_interface():
    table = AddressPlan(SegmentFabric(2, SN5600, port_Bps="400 Gbps")).ports
    assert table["interface"].tolist() == [n // 2 + 1 for n in range(16)] and set(table["lane"]) == {1, 2}
    whole = AddressPlan(SegmentFabric(2, SN5600, port_Bps="400 Gbps", breakout=False)).ports
    assert set(whole["lane"]) == {0} and whole["interface"].tolist() == list(range(1, 17))


def test_cables_are_all_links_with_their_medium_where_lengths_are_given():
    fabric = SegmentFabric(2, SN5600, segments=2, spines=2)
    plan = AddressPlan(fabric)
    cables = cabling_table(plan, {"host": 2, "spine": 100})
    assert len(cables) == sum(fabric.links_by_tier) and cables["cable"].tolist() == list(range(1, len(cables) + 1))
    assert cables.groupby("kind")["medium"].unique().map(list).to_dict() == {
        "host": ["800G DAC for 2"],
        "spine": ["800G DR8"],
    }
    assert cables.groupby("kind")["speed_Gbps"].first().to_dict() == {"host": 400, "spine": 800}
    assert cabling_table(plan, {"host": "2 m", "spine": "0.1 km"}).equals(cables)
    assert "medium" not in cabling_table(plan)
    with pytest.raises(ValueError, match="lengths_m is 'hosts': give one of host, spine"):
        cabling_table(plan, {"hosts": 2})


@pytest.mark.parametrize(
    ("nic_ports", "homing", "default", "refused"),
    [
        (1, 1, "none", {"lag": "one port a NIC", "mlag": "one port a NIC", "evpn": "one port a NIC"}),
        (2, 1, "lag", {"mlag": "give homing 2 or 'lag'", "evpn": "give 'lag' or 'none'"}),
        (2, 2, "mlag", {"lag": "give 'evpn', 'mlag' or 'none'"}),
        (4, 4, "evpn", {"mlag": "give homing 2 or 'evpn'", "lag": "give 'evpn' or 'none'"}),
    ],
)
def test_bundling_is_what_the_homing_allows(nic_ports, homing, default, refused):
    fabric = SegmentFabric(4, LARGE, nic_ports=nic_ports, homing=homing)
    assert nic_bundling(fabric) == default
    for bundling, message in refused.items():
        with pytest.raises(ValueError, match=message):
            nic_bundling(fabric, bundling)


def test_what_does_not_fit_is_refused_with_what_would():
    fabric = SegmentFabric(4, SMALL, nic_ports=2, spines=4, spine_links=4)
    with pytest.raises(ValueError, match=r"uplinks take 16 and peer links 2, but 16 are left: give bundling 'evpn'"):
        AddressPlan(fabric)
    assert not AddressPlan(fabric, bundling="evpn").trunks.empty
    with pytest.raises(ValueError, match="peer_links 1, or bundling 'evpn'"):
        AddressPlan(SegmentFabric(4, SMALL, nic_ports=2, spines=15), peer_links=2)


def test_a_rule_that_spreads_over_lanes_leaves_fewer_interfaces():
    fabric = SegmentFabric(4, SN5600, port_Bps="400 Gbps", spines=40)
    with pytest.raises(ValueError, match=r"NIC ports take 32: uplinks take 40, but 32 are left: give a rule"):
        AddressPlan(fabric, lambda rail, server, port: 16 * server + 2 * rail - 17)
    assert len(AddressPlan(fabric).trunks) == 40
