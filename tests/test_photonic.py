import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.facts import catalog, claims
from railcore.network.topology import PhotonicRails

TABLE3 = {"gpus_gb200": "GB200 NVL72", "gpus_h200": "DGX H200"}
SWITCHES = {
    catalog.item("circuit_switches", name)["claim_key"]: name
    for name in catalog.names("circuit_switches")
    if "claim_key" in catalog.item("circuit_switches", name)
}


def test_table_has_every_switch_and_platform():
    assert len(SWITCHES) * len(TABLE3) == len(claims.ids("photonic2025.table3")) - 1 == 14


@pytest.mark.parametrize("key", SWITCHES)
@pytest.mark.parametrize("column", TABLE3)
def test_largest_cluster_behind_a_circuit_switch(key, column):
    paper = int(claims.paper_value(f"photonic2025.table3.{key}.{column}"))
    ports = int(catalog.item("circuit_switches", SWITCHES[key])["ports"])
    domain = int(catalog.item("platforms", TABLE3[column])["gpus"])
    assert PhotonicRails(paper, domain, ports).domains * 2 == ports
    with pytest.raises(ValueError, match=f"ocs_ports is {ports}, but a rail has {ports + 2} ports"):
        PhotonicRails(paper + 1, domain, ports)


@given(st.integers(1, 8), st.integers(1, 12), st.integers(1, 4), st.data())
def test_graph_holds_the_parts(hb_domain_size, domains, nic_ports, data):
    gpus = data.draw(st.integers((domains - 1) * hb_domain_size + 1, domains * hb_domain_size))
    gpus = max(gpus, hb_domain_size)
    fabric = PhotonicRails(gpus, hb_domain_size, domains * nic_ports, nic_ports)
    graph = fabric.graph()
    kinds = nx.get_node_attributes(graph, "kind")
    switches = [node for node, kind in kinds.items() if kind == "ocs"]
    fibres = [(a, b, at) for a, b, at in graph.edges(data=True) if at["kind"] == "host"]
    assert list(kinds.values()).count("gpu") == gpus
    assert len(switches) == fabric.rails == hb_domain_size
    assert sum(at["links"] for _, _, at in fibres) == fabric.transceivers == gpus * nic_ports
    for switch in switches:
        assert sum(at["links"] for _, _, at in graph.edges(switch, data=True)) <= fabric.ocs_ports
        assert {graph.nodes[gpu]["rank"] for gpu in graph[switch]} == {graph.nodes[switch]["rail"]}
    rails = graph.subgraph([node for node, kind in kinds.items() if kind != "hb"])
    assert nx.number_connected_components(rails) == hb_domain_size
    assert nx.is_connected(graph)


@pytest.mark.parametrize("name", ["gpus", "hb_domain_size", "ocs_ports", "nic_ports"])
@pytest.mark.parametrize("value", [0, -2, 1.5, float("nan")])
def test_bad_size_is_named(name, value):
    with pytest.raises(ValueError, match=f"{name} is "):
        PhotonicRails(**{"gpus": 16, "hb_domain_size": 4, "ocs_ports": 64, "nic_ports": 2, name: value})


def test_cluster_smaller_than_a_domain():
    assert PhotonicRails(8, 16, 64).rails == 8


@pytest.mark.parametrize(("name", "value"), [("nic_Bps", -1), ("hb_Bps", float("nan")), ("hb_switches", -1)])
def test_bad_bandwidth_is_named(name, value):
    with pytest.raises(ValueError, match=f"{name} is "):
        PhotonicRails(16, 4, 64, **{name: value})
