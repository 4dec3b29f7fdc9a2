"""A cluster as five networks: counts, bandwidths by max-flow, prices; pictures without texts that collide."""

import math

import matplotlib.pyplot as plt
import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railcore.catalog.units import Gbps
from railcore.deploy.cluster import NETWORKS, Cluster, network_table
from railcore.deploy.cluster_cost import cluster_network_parts
from railcore.network import price_books
from railcore.network.switches import SwitchModel
from suite import legible
from suite.drawing.clusters import cluster_figure
from suite.nwktimes2025.cluster import GPUS_PER_NODE, cluster_claims, document_cluster, documents_notes, networks_words

SHARED = ("frontend", "management", "storage")


@pytest.fixture(autouse=True)
def close_pictures():
    yield
    plt.close("all")


def of_kind(graph, kind):
    return [node for node, at in graph.nodes(data=True) if at["kind"] == kind]


def flow(graph, sources, targets):
    """Largest flow from some nodes to others [bytes/s]."""
    arcs = nx.DiGraph()
    for a, b, at in graph.edges(data=True):
        arcs.add_edge(a, b, capacity=at["bandwidth_Bps"])
        arcs.add_edge(b, a, capacity=at["bandwidth_Bps"])
    arcs.add_edges_from(("from", node) for node in sources)  # without capacity: unlimited
    arcs.add_edges_from((node, "to") for node in targets)
    return nx.maximum_flow_value(arcs, "from", "to")


small = st.builds(
    Cluster,
    nodes=st.integers(2, 9),
    gpus_per_node=st.integers(1, 6),
    oversubscription=st.sampled_from([1.0, math.inf]),
    storage_servers=st.integers(1, 4),
    management_servers=st.integers(1, 3),
    hb_switches=st.integers(0, 3),
)


@settings(max_examples=20)
@given(small)
def test_graphs_have_the_parts_that_are_counted(cluster):
    for name, network in cluster.networks.items():
        graph = network.graph()
        assert len(of_kind(graph, "gpu")) == cluster.gpus
        hosts = sum(at["links"] for *_, at in graph.edges(data=True) if at["kind"] == "host")
        trunks = sum(at["links"] for *_, at in graph.edges(data=True) if at["kind"] == "trunk")
        if network.parts is None:
            assert name == "scale-up" and hosts == trunks == 0
            assert len(of_kind(graph, "hb")) == cluster.nodes * cluster.hb_switches
            continue
        assert (hosts, hosts + trunks) == (network.endpoints, network.parts.links)
        assert len(of_kind(graph, "switch")) == network.parts.switches
        assert len(of_kind(graph, "server")) == network.servers
        nics = cluster.gpus if name == "scale-out" else cluster.nodes
        assert len(of_kind(graph, "nic")) == nics


@settings(max_examples=10)
@given(small)
def test_bandwidth_of_a_node_is_its_max_flow(cluster):
    for name in SHARED:
        network = cluster.networks[name]
        graph = network.graph()
        mine = [f"D1.GPU{j}" for j in range(1, cluster.gpus_per_node + 1)]
        others = [node for node in of_kind(graph, "gpu") if node not in mine]
        reached = min(network.node_Bps, cluster.gpus_per_node * network.pcie_Bps)
        assert flow(graph, mine, others) == pytest.approx(min(reached, len(others) * network.pcie_Bps))
        assert flow(graph, mine[:1], others) == pytest.approx(network.alone_Bps)  # alone a GPU has the whole NIC


def test_a_nic_is_no_faster_than_its_pcie_link():
    """800 Gbps are 100 GB/s, x16 of generation 5 carries 63: the GPU gets these, by table and by max-flow."""
    cluster = Cluster(2, 2, nic_Bps="800 Gbps")
    network, graph = cluster.networks["scale-out"], cluster.graph("scale-out")
    pcie = network.pcie_Bps
    assert network.gpu_Bps == pcie == pytest.approx(16 * 32e9 / 8 * 128 / 130)
    assert flow(graph, ["D1.GPU1"], ["D2.GPU1"]) == pytest.approx(pcie)
    assert "its PCIe link carries 504.1 Gbps" in cluster.warnings[0]
    assert Cluster(2, 2, nic_Bps="800 Gbps", pcie_generation=6).warnings == Cluster(2, 2).warnings == ()


WATTS = price_books.PriceBook(
    port=20, transceiver=10, dac=0, typical_port=5, rate_Bps="400 Gbps", name="watts", unit="W"
)


def test_prices_are_ports_transceivers_and_cables():
    prices = price_books.PriceBook(port=80, transceiver=20, dac=5, rate_Bps="400 Gbps", name="ours")
    cluster = document_cluster(switches={"storage": SwitchModel("mine", 16, 400 * Gbps)})
    slow = {"management": (price_books.PriceBook(0.8, 0.2, 0.05, rate_Bps="400 Gbps"), WATTS)}
    table = cluster_network_parts(cluster, prices, WATTS, slow).set_index("network")
    storage = cluster.networks["storage"]
    assert table.loc["storage", "cost_usd"] == 16 * 80 + 2 * storage.endpoints * 20
    assert table.loc["storage", "power_w"] == 16 * 20 + 2 * storage.endpoints * 10
    assert table.loc["storage", "typical_power_w"] == 16 * 5 + 2 * storage.endpoints * 10
    assert table.loc["storage", "transceivers"] == 2 * table.loc["storage", "links"]
    assert math.isnan(table.loc["management", "cost_usd"]) and math.isnan(table.loc["management", "power_w"])
    assert "Give its own books" in table.attrs["warnings"][0]
    copper = {"port": 1, "transceiver": 9, "dac": 2, "rate_Bps": "1 Gbps", "name": "copper"}
    cheap = {"management": (price_books.PriceBook(**copper), price_books.PriceBook(**copper))}
    table = cluster_network_parts(cluster, prices, WATTS, cheap).set_index("network")
    assert table.loc["management", "cost_usd"] == 48 * 1 + cluster.networks["management"].endpoints * 2
    assert table.loc["management", "power_w"] == table.loc["management", "cost_usd"]
    assert table.loc["management", "cables"] == cluster.networks["management"].endpoints
    assert (
        table.loc["management", "transceivers"] == table.loc["storage", "cables"] == 0
    )  # one tier: all are host links
    assert table["share"].sum() == pytest.approx(1) and not table.attrs["warnings"]
    assert table.loc["frontend", "price_book"] == "ours (scaled from 400 Gbps to 100 Gbps)"


def test_a_port_costs_its_share_of_the_interface():
    """Two ports of 400 Gbps on an interface of 800: each is half of it; slower ones without a mode are the whole."""
    prices = price_books.price_book("street2025")
    for ports, slower in ((128, ((400 * Gbps, 128),)), (64, ())):
        switch = SwitchModel("mine", 64, 800 * Gbps, slower)
        cluster = document_cluster(switches={"storage": switch})
        row = cluster_network_parts(cluster, prices, WATTS).set_index("network").loc["storage"]
        assert row["ports"] == ports
        assert row["cost_usd"] - row["transceivers"] * prices.transceiver == pytest.approx(128 * prices.port)


def test_gpus_of_a_rail_are_counted_over_all_its_switches():
    many = document_cluster(nodes=200, switches={"scale-out": SwitchModel("small", 16, 400 * Gbps)})
    values = cluster_claims(many).values
    assert (values["nwktimes2025.fig1_1.rails"], values["nwktimes2025.fig1_1.gpus_per_rail"]) == (GPUS_PER_NODE, 200)


@pytest.mark.parametrize("lit", ["", *NETWORKS])
def test_pictures_have_no_texts_that_collide(lit):
    said = documents_notes()[lit]
    for cluster in (document_cluster(), Cluster(20, 8, oversubscription=1.0, storage_servers=9), Cluster(1, 12)):
        page = cluster_figure(cluster.graph(), network_table(cluster), lit, 0, "A cluster", said)
        assert legible.faults(page) == []
        texts = "\n".join(text.get_text() for text in page.axes[0].texts)
        assert said in texts and "Scale-out backend" in texts and ("Gateway 1\nto users" in texts)


def test_notes_have_the_documents_words_and_numbers():
    notes = documents_notes()
    assert "400 to 800 Gbps" in notes["scale-out"] and "100 Gbps" in notes["frontend"]
    wanted = ("NTP", "LDAP", "Active Directory", "licence", "telemetry", "IPMI", "Redfish", "automation", "VRFs")
    assert all(word in notes["management"] for word in wanted) and "Fibre Channel" in notes["storage"]
    cluster = document_cluster()
    page = cluster_figure(cluster.graph(), network_table(cluster), "scale-up", title="Mine")
    assert any("450 GB/s a GPU, 9 x its NIC of 400 Gbps" in text.get_text() for text in page.axes[0].texts)


def test_a_picture_numbers_rails_as_asked_and_says_what_it_leaves_out():
    cluster = Cluster(20, 4)
    for first in (0, 1):
        page = cluster_figure(cluster.graph(), network_table(cluster), "scale-out", first, "Mine")
        texts = [text.get_text() for text in page.axes[0].texts]
        assert f"Rail {first}" in texts and f"Rail {first + 3}" in texts and f"Rail {first + 4}" not in texts
        assert page.get_suptitle() == "Mine (drawn: 6 of 20 nodes)"


@pytest.mark.parametrize("switches", [0, 1, 4])
def test_links_of_a_gpu_in_its_node_carry_its_bandwidth_together(switches):
    cluster = Cluster(2, 4, hb_switches=switches)
    graph = cluster.graph("scale-up")
    own = sum(at["bandwidth_Bps"] for *_, at in graph.edges("D2.GPU3", data=True))
    assert own == pytest.approx(cluster.hb_Bps) and graph.degree("D2.GPU3") == (switches or 3)


def test_a_server_of_one_gpu_has_no_scale_up_network():
    texts = [networks_words(network_table(document_cluster(gpus_per_node=count))) for count in (4, 1)]
    assert texts[0].startswith("Five: ") and "scale-up inside it" in texts[0]
    assert texts[1] == "Four: scale-out to GPUs of other servers, frontend, management and storage."
