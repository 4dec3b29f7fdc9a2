"""The engineer's fabric: counts against the graph, what joins what, and designs that do not fit."""

from dataclasses import replace

import networkx as nx
import pytest
from counted_parts import count_parts
from hypothesis import given
from hypothesis import strategies as st

from railcore.catalog.units import Gbps
from railcore.network.switches import SwitchModel, switch_model
from railcore.network.topology.graph import bisection_bandwidth
from suite.deployment.routing import BgpDesign
from suite.deployment.segments import SegmentFabric
from suite.deployment.subnets import AddressPlan

LARGE = SwitchModel("large", 512, 800 * Gbps)


@st.composite
def fabrics(draw):
    tiers, homing = draw(st.integers(1, 3)), draw(st.sampled_from([1, 2]))
    planes = draw(st.sampled_from([1, 2, 3])) if tiers > 2 else 1
    options = {
        "servers": draw(st.integers(1, 4)),
        "gpus_per_server": draw(st.sampled_from([1, 2, 4])),
        "homing": homing,
        "nic_ports": homing * draw(st.sampled_from([1, 2])),
        "segments": draw(st.integers(1, 3)) if tiers > 1 else 1,
        "pods": draw(st.integers(1, 3)) if tiers > 2 else 1,
        "spines": planes * draw(st.integers(1, 3)) if tiers > 1 else 0,
        "spine_links": draw(st.integers(1, 2)),
        "super_spines": planes * draw(st.integers(1, 2)) if tiers > 2 else 0,
        "super_spine_planes": planes,
    }
    rails = options["gpus_per_server"]
    options["rails_per_switch"] = draw(st.sampled_from([r for r in (1, 2, 4) if rails % r == 0]))
    return SegmentFabric(rail_switch=LARGE, **options)


@given(fabrics())
def test_counts_are_those_of_the_graph(fabric):
    graph = fabric.graph()
    switches, links = count_parts(graph)
    assert tuple(switches.values()) == fabric.switches_by_tier
    assert tuple(links.values()) == fabric.links_by_tier
    assert sum(at["kind"] == "gpu" for _, at in graph.nodes(data=True)) == fabric.gpus
    for node, at in graph.nodes(data=True):
        if at["kind"] != "switch" or at["chassis"] != node:
            continue
        here = graph.edges(node, data=True)
        down, up = fabric.ports_used[at["tier"] - 1]
        assert sum(edge["links"] for *_, edge in here if edge["tier"] == at["tier"]) == down
        assert sum(edge["links"] for *_, edge in here if edge["kind"] == "trunk" and edge["tier"] > at["tier"]) == up


@given(fabrics())
def test_a_nic_reaches_as_many_switches_as_it_is_homed_to(fabric):
    graph = fabric.graph()
    for node, at in graph.nodes(data=True):
        if at["kind"] == "gpu":
            leaves = [other for other in graph[node] if graph.edges[node, other]["kind"] == "host"]
            assert len(leaves) == fabric.homing
            assert sum(graph.edges[node, leaf]["bandwidth_Bps"] for leaf in leaves) == pytest.approx(fabric.nic_Bps)


def test_what_reaches_what_over_the_network():
    """Rails in VLANs of one switch are apart until it routes; spines join all of a pod, super-spines all pods."""

    def parts(**options):
        graph = SegmentFabric(2, LARGE, gpus_per_server=4, **options).graph()
        network = nx.subgraph_view(graph, filter_edge=lambda a, b: graph.edges[a, b]["kind"] != "hb")
        return sum(any(graph.nodes[n]["kind"] == "gpu" for n in part) for part in nx.connected_components(network))

    assert parts() == 4 and parts(routed=True) == 1
    assert parts(rails_per_switch=1) == parts(rails_per_switch=1, routed=True) == 4
    assert parts(segments=2, spines=1, rails_per_switch=1) == 1
    assert parts(segments=2, pods=2, spines=2, super_spines=2) == 1
    assert parts(segments=2, pods=2, spines=2, super_spines=2, super_spine_planes=2) == 1


@pytest.mark.parametrize(("links", "ratio"), [(1, 4.0), (2, 2.0), (4, 1.0), (8, 0.5)])
def test_oversubscription_is_that_of_the_max_flow(links, ratio):
    fabric = SegmentFabric(4, LARGE, gpus_per_server=2, segments=2, spines=2, spine_links=links, uplink_Bps="400 Gbps")
    assert fabric.oversubscription == (ratio,)
    graph = fabric.graph()
    gpus = [node for node, at in graph.nodes(data=True) if at["kind"] == "gpu"]
    flow = bisection_bandwidth(graph, gpus[: len(gpus) // 2], gpus[len(gpus) // 2 :])
    assert flow == pytest.approx(len(gpus) / 2 * fabric.nic_Bps / max(ratio, 1))


def test_slower_ports_share_an_interface_where_the_model_breaks_out():
    switch = switch_model("SN5600")
    assert switch.ports_of_interface(800 * Gbps) == 1 and switch.ports_of_interface(400 * Gbps) == 2
    assert SegmentFabric(16, switch).interfaces_used == ((64, 0),)
    with pytest.raises(ValueError, match=r"servers is 16: .* host ports take 128 .* has 64: give servers 8 or less"):
        SegmentFabric(16, switch, breakout=False)


def test_a_speed_that_the_model_lacks_is_refused_with_those_it_has():
    with pytest.raises(ValueError, match="no such mode: give 800 Gbps, 400 Gbps, 200 Gbps or a Sw"):
        SegmentFabric(4, switch_model("SN5600"), port_Bps="100 Gbps")
    assert SegmentFabric(4, LARGE, port_Bps="100 Gbps").interfaces_used == ((32, 0),)  # its speeds are not known


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({}, "give servers 64 or less, rails_per_switch 4 or less, several segments under spines or a larger switch"),
        ({"spines": 8}, "give servers 63 or less, rails_per_switch 4 or less, more segments or a larger switch"),
        ({"rails_per_switch": 1, "servers": 600}, "give servers 512 or less, several segments under spines or a lar"),
    ],
)
def test_a_segment_that_is_too_large_is_told_all_ways_out(options, remedy):
    with pytest.raises(ValueError, match=remedy):
        SegmentFabric(**{"servers": 65, "rail_switch": LARGE, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rails_per_switch": 3}, "rails_per_switch is 3, which does not divide the rails, 8: give one of 1, 2, 4, 8"),
        ({"nic_ports": 2, "homing": 4}, "homing is 4, which does not divide the nic_ports, 2: give one of 1, 2"),
        ({"segments": 2}, "segments is 2 with spines 0: nothing joins them"),
        ({"spines": 2, "routed": False}, "routed is False with spines"),
        ({"spines": 2, "super_spines": 3, "super_spine_planes": 2}, "does not divide the spines and super_spines, 1"),
        ({"segments": 600, "spines": 1}, "give segments 512 or less"),
        ({"spines": 513}, "no number of servers fits"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_would(options, message):
    with pytest.raises(ValueError, match=message):
        SegmentFabric(**{"servers": 4, "rail_switch": LARGE, **options})


def test_a_changed_design_is_the_design_of_what_was_given():
    """Homing, rails of a switch, uplinks and routing follow from the others until they are given."""
    one = SegmentFabric(4, LARGE, 4)
    wider = replace(one, nic_ports=2, gpus_per_server=2)
    assert wider == SegmentFabric(4, LARGE, 2, nic_ports=2)
    assert (one.homing, wider.homing, wider.rails_per_switch, bool(wider.routed)) == (1, 2, 2, False)
    under = replace(one, spines=1, gpus_per_server=2)
    assert under.routed and under == SegmentFabric(4, LARGE, 2, spines=1) and under.models == (LARGE, LARGE)
    fast = replace(LARGE, name="fast", port_Bps=2 * LARGE.port_Bps)
    assert replace(one, rail_switch=fast).uplink_Bps == fast.port_Bps
    plan, more = AddressPlan(one), replace(AddressPlan(one), fabric=replace(one, servers=8, nic_ports=1))
    assert (plan.servers, more.servers) == (4, 8) and more == AddressPlan(replace(one, servers=8))
    assert replace(plan, fabric=wider).bundling == AddressPlan(wider).bundling != plan.bundling
    many = AddressPlan(SegmentFabric(1, LARGE, 1, segments=64, pods=32, spines=1, super_spines=1))
    assert replace(BgpDesign(plan), plan=many) == BgpDesign(many)
