import math

import networkx as nx
import pandas as pd
import pytest
from graph_faults import cut_nics, fault_effect, node_bandwidth
from hypothesis import given
from hypothesis import strategies as st
from test_graph import fabrics

from railcore.network.topology.faults import (
    FAULT_KINDS,
    fail,
    failed_part,
    fault_effects,
    nics_cut_by_rail_switch,
    replace_gpu,
)
from railcore.network.topology.graph import bisection_bandwidth, route
from railcore.network.topology.rails import RailFabric, rail_only

ONE_TIER, TWO_TIERS = rail_only(16, 4, 4), rail_only(32, 4, 4)


def on_the_graph(fabric):
    """The table of `fault_effects`, every row walked on the graph."""
    graph = fabric.graph()
    return pd.DataFrame([fault_effect(graph, kind) for kind in FAULT_KINDS if any(failed_part(graph, kind))])


@given(fabrics())
def test_symmetry_finds_what_the_graph_of_any_fabric_has(fabric):
    pd.testing.assert_frame_equal(fault_effects(fabric), on_the_graph(fabric), rtol=1e-12, check_dtype=False)


def test_traffic_of_a_failed_rail_switch_takes_another_rail():
    before = ONE_TIER.graph()
    after = fail(before, "rail switch")
    assert route(before, "D1.GPU1", "D3.GPU1") == ["D1.GPU1", "R1.T1.S1", "D3.GPU1"]
    path = route(after, "D1.GPU1", "D3.GPU1")
    assert [path[1], path[2][:6], path[4][:6], path[5]] == ["D1.HB1", "D1.GPU", "D3.GPU", "D3.HB1"]
    assert after.nodes[path[3]]["kind"] == "switch"
    assert cut_nics(before, after) == ["D1.GPU1", "D2.GPU1", "D3.GPU1", "D4.GPU1"]


def test_a_fault_leaves_the_graph_that_it_was_given_alone():
    graph = TWO_TIERS.graph()
    nodes, edges = dict(graph.nodes(data=True)), {frozenset(edge[:2]): dict(edge[2]) for edge in graph.edges(data=True)}
    for kind in FAULT_KINDS:
        fail(graph, kind)
    assert dict(graph.nodes(data=True)) == nodes
    assert {frozenset(edge[:2]): edge[2] for edge in graph.edges(data=True)} == edges


@given(
    st.integers(2, 90),
    st.integers(1, 9),
    st.sampled_from([4, 6, 8, 16]),
    st.sampled_from([1, 2, math.inf]),
    st.integers(1, 2),
)
def test_most_nics_that_a_rail_switch_cuts_off(gpus, hb_domain_size, radix, layer, planes):
    fabric = RailFabric(gpus, hb_domain_size, radix, layer, planes=planes)
    graph, most = fabric.graph(), 0
    for leaf in [node for node, at in graph.nodes(data=True) if at["kind"] == "switch" and at["tier"] == 1]:
        after = graph.copy()
        after.remove_node(leaf)
        most = max(most, len(cut_nics(graph, after)))
        if hb_domain_size > 1 and gpus % hb_domain_size == 0:  # a part-filled domain may have a single rail
            whole = {node for node, at in graph.nodes(data=True) if at["kind"] == "gpu"}
            assert whole <= nx.node_connected_component(after, "D1.GPU1")
    assert most == nics_cut_by_rail_switch(fabric)


def test_optical_switch_gives_a_spare_the_failed_gpus_place():
    graph = rail_only(32, 4, 8).graph()
    rail = [f"D{d}.GPU1" for d in range(1, 9)]
    others = [f"D{d}.GPU1" for d in range(5, 9)]
    whole = bisection_bandwidth(graph, rail[:4], others)

    failed = fail(graph, "GPU")
    assert bisection_bandwidth(failed, rail[1:4], others) == pytest.approx(whole * 3 / 4)
    after = replace_gpu(graph, "D1.GPU1", "D1.GPU4")
    assert "D1.GPU1" not in after
    assert after.nodes["D1.GPU4"]["rail"] == 1
    assert bisection_bandwidth(after, ["D1.GPU4", *rail[1:4]], others) == pytest.approx(whole)
    assert node_bandwidth(after, "D1.GPU4", ("host",)) == node_bandwidth(graph, "D1.GPU1", ("host",))
    assert route(after, "D1.GPU4", "D5.GPU1", forward=False) == ["D1.GPU4", "R1.T1.S1", "D5.GPU1"]
