import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.network.topology.photonic import PhotonicRails, circuit_parts, circuit_reach, ring_lengths

WIRINGS = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(0, 2)).map(
    lambda drawn: {"nic_ports": drawn[0], "fibres_per_port": drawn[1], "transceivers_per_gpu": drawn[2]}
)


@given(st.integers(1, 8), st.integers(1, 8), WIRINGS, st.data())
def test_graph_holds_the_parts(hb_domain_size, domains, wiring, data):
    planes = data.draw(st.sampled_from([n for n in (1, 2, 3, 4) if wiring["nic_ports"] % n == 0]))
    rail_ports = domains * wiring["nic_ports"] * wiring["fibres_per_port"] // planes
    ports = data.draw(st.integers(rail_ports, 5 * rail_ports))
    most = data.draw(st.sampled_from([None, 1, 2, 3]))
    gpus = max(hb_domain_size * (domains - 1) + data.draw(st.integers(1, hb_domain_size)), hb_domain_size)
    fabric = PhotonicRails(gpus, hb_domain_size, ports, planes=planes, rails_per_switch=most, **wiring)
    graph, parts = fabric.graph(), fabric.parts
    used = {}
    for a, b, at in graph.edges(data=True):
        if at["kind"] == "host":
            chassis = graph.nodes[b if graph.nodes[b]["kind"] == "ocs" else a]["chassis"]
            used[chassis] = used.get(chassis, 0) + at["links"]
    assert len(used) == parts.switches == planes * -(-hb_domain_size // parts.rails_per_switch)
    assert max(used.values()) <= ports and sum(used.values()) == parts.used_ports <= parts.switch_ports
    rails = graph.subgraph([node for node, at in graph.nodes(data=True) if at["kind"] != "hb"])
    assert nx.is_connected(graph) and nx.number_connected_components(rails) == hb_domain_size
    assert parts.switch_ports == ports * parts.switches and parts.rail_ports == rail_ports
    assert parts.transceivers == fabric.gpus * (wiring["transceivers_per_gpu"] or wiring["nic_ports"])
    speed = {gpu: 0.0 for gpu, at in graph.nodes(data=True) if at["kind"] == "gpu"}
    for gpu in speed:
        speed[gpu] = sum(at["bandwidth_Bps"] for *_, at in graph.edges(gpu, data=True) if at["kind"] == "host")
    assert list(speed.values()) == pytest.approx([fabric.nic_rate_Bps] * fabric.gpus)


@given(st.integers(1, 80), st.integers(1, 1200), WIRINGS)
def test_reach_is_the_last_cluster_that_fits(hb_domain_size, ocs_ports, wiring):
    wiring = {name: wiring[name] for name in ("nic_ports", "fibres_per_port")}
    for planes in (1, wiring["nic_ports"]):
        reach = int(circuit_reach(hb_domain_size, ocs_ports, planes=planes, **wiring))
        if not reach:
            assert ocs_ports * planes < wiring["nic_ports"] * wiring["fibres_per_port"]
            continue
        parts = circuit_parts([reach, reach + 1], hb_domain_size, ocs_ports, planes=planes, **wiring)
        assert np.isnan(parts.switches).tolist() == [False, True]
        assert (parts.reach == reach).all() or reach < hb_domain_size
        assert parts.rail_ports[0] <= ocs_ports < parts.rail_ports[1]


def test_parts_of_many_clusters_are_those_of_each():
    gpus, domain = np.array([[64], [100], [4096]]), np.array([8, 72])
    together = circuit_parts(gpus, domain, 320, planes=[1, 2])
    for i, n in enumerate(gpus[:, 0]):
        for j, k in enumerate(domain):
            one = circuit_parts(n, k, 320, planes=j + 1)
            for name, values in vars(together).items():
                assert np.array_equal(values[i, j], getattr(one, name), equal_nan=True), name


def test_beyond_one_switch_the_refusal_says_how_far_and_what_would_do():
    with pytest.raises(
        ValueError, match=r"the largest cluster has 2,304 GPUs.*reaches 4,608 GPUs and takes 16 switches"
    ):
        PhotonicRails(4096, 8, 576)
    with pytest.raises(ValueError, match=r"planes=2, each port of a NIC on a switch of its own, reaches 4,608 GPUs$"):
        PhotonicRails(8192, 8, 576)
    with pytest.raises(ValueError, match=r"larger HB domains or fewer NIC ports$"):
        PhotonicRails(8192, 8, 576, planes=2)
    assert PhotonicRails(4096, 8, 576, planes=2).parts.switches == 16


@pytest.mark.parametrize("nic_ports", [1, 2, 3, 4])
@pytest.mark.parametrize("length", [3, 4, 5])
def test_a_ring_closes_where_its_links_can_change_switches(nic_ports, length):
    """Try all ways to put the links of a ring on switches that have one port of each NIC."""
    ways = itertools.product(range(nic_ports), repeat=length)
    closes = any(all(way[i] != way[i - 1] for i in range(length)) for way in ways)
    wanted = {"any": True, "even": length % 2 == 0, "none": False}[ring_lengths(nic_ports, planes=nic_ports)]
    assert closes == wanted


def test_rings_on_one_switch_and_with_a_fibre_each_way():
    assert [ring_lengths(ports) for ports in (1, 2, 4)] == ["none", "any", "any"]
    assert ring_lengths(1, fibres_per_port=2) == ring_lengths(2, 2, 2) == "any"
    assert "even number" in PhotonicRails(32, 8, 64, planes=2).warnings[0]
    assert "in pairs" in PhotonicRails(32, 8, 64, nic_ports=1).warnings[0]
    for options in ({}, {"nic_ports": 1, "fibres_per_port": 2}, {"nic_ports": 4, "planes": 2}):
        assert PhotonicRails(32, 8, 64, **options).warnings == ()
