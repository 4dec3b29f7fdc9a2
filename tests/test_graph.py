import math
import pickle
import random
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from counted_parts import count_parts
from hypothesis import example, given
from hypothesis import strategies as st

from railcore import catalog
from railcore.network.topology.blocks import pod_blocks
from railcore.network.topology.clos import rail_size
from railcore.network.topology.graph import bisection_bandwidth, route, same_rail_switches, switches_to_gpus
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import HBDomains, RailFabric, rail_only, rail_optimized
from railcore.network.topology.reach import switches_on_the_way
from railcore.network.topology.wiring import whole_wiring, wire_list

FAN_IN = st.sampled_from([(), (), (3,), (4, 2), (16, 3), (2, 2, 2)])
LAYERS = st.sampled_from([1, 1.5, 2, 3, math.inf, math.inf])
RATIOS = st.sampled_from([(), (), (2,), (1, 2), (1.5,)])
GPUS = st.integers(1, 130)


@st.composite
def fabrics(draw, layers=LAYERS, ratios=RATIOS, gpus=GPUS):
    n, k, radix = draw(gpus), draw(st.integers(1, 12)), draw(st.sampled_from([4, 6, 8, 10, 16]))
    rails, planes, layer = draw(st.sampled_from([0, 0, 1, 2, 3])), draw(st.integers(1, 3)), draw(layers)
    inside = min(k, n)
    size = int(rail_size(n, inside, min(rails or inside, inside)))
    share = draw(st.integers(1, max(1, radix * planes // size))) if math.isinf(layer) else 1
    hb_switches = draw(st.sampled_from([0, 1, 2]))
    blocks = {"fan_in": draw(FAN_IN) if share == 1 else (), "one_pod": layer == 1 and draw(st.booleans())}
    return RailFabric(n, k, radix, layer, rails, share, planes, draw(ratios), hb_switches=hb_switches, **blocks)


def gpus(graph):
    return [node for node, at in graph.nodes(data=True) if at["kind"] == "gpu"]


def on_rail(fabric, rail):
    return [f"D{d}.GPU{j}" for d, j in fabric.endpoints(rail)]


def without_hb(graph):
    return graph.edge_subgraph([(a, b) for a, b, at in graph.edges(data=True) if at["kind"] != "hb"])


def by_tier(counts):
    return {tier: int(many) for tier, many in enumerate(counts, start=1) if many}


def test_bandwidths_are_read_from_the_catalog_when_they_are_asked_for(monkeypatch):
    with monkeypatch.context() as without:
        without.delattr(catalog, "item")
        fabric = rail_only(64, 8, 8)
        assert fabric.parts.tiers == 1 and fabric.endpoints(1)
        assert "H100" not in repr(fabric) and hash(fabric) == hash(rail_only(64, 8, 8)) and fabric.nic_Bps is None
        assert pickle.loads(pickle.dumps(fabric)) == fabric != replace(fabric, hb_Bps=1.0)
    box = catalog.item("platforms", "DGX H100")
    assert (fabric.nic_rate_Bps, fabric.hb_rate_Bps) == (box["nic_bandwidth"], box["hb_bandwidth"])


def test_a_changed_fabric_is_the_fabric_of_what_was_given():
    """What was made of the arguments, such as an HB domain cut to all GPUs, is made anew from them."""
    small = rail_only(64, 72, 64)
    assert (small.hb_domain_size, small.rails, small.domains) == (64, 64, 1)
    for fabric in (replace(small, gpus=144), pickle.loads(pickle.dumps(replace(small, gpus=144)))):
        assert fabric == rail_only(144, 72, 64) and (fabric.hb_domain_size, fabric.rails) == (72, 72)
    assert small.warnings == replace(small, radix=32).warnings == rail_only(64, 72, 32).warnings
    assert replace(rail_only(64, 4, 64), hb_domain_size=8) == rail_only(64, 8, 64)
    assert replace(rail_only(8, 4, 64, rails=6), hb_domain_size=8).rails == 6
    circuits = PhotonicRails(64, 72, 320)
    assert replace(circuits, gpus=144) == PhotonicRails(144, 72, 320) and circuits.warnings


@given(fabrics())
@example(RailFabric(32, 8, 8, 1.0, fan_in=(8, 2)))  # groups above pods
def test_nodes_and_edges_count_what_the_formula_counts(fabric):
    graph = fabric.graph()
    assert count_parts(graph) == (by_tier(fabric.parts.switches_by_tier), by_tier(fabric.parts.links_by_tier))

    ports = {}
    for a, b, at in without_hb(graph).edges(data=True):
        assert at["bandwidth_Bps"] == pytest.approx(at["links"] * fabric.nic_rate_Bps / fabric.planes)
        for node in (a, b):
            if graph.nodes[node]["kind"] == "switch":
                chassis = graph.nodes[node]["chassis"]
                ports[chassis] = ports.get(chassis, 0) + at["links"]
    assert max(ports.values(), default=0) <= fabric.radix * fabric.planes
    assert len(ports) == fabric.parts.switches  # no switch without a link
    for tier in pod_blocks(fabric):
        assert tier.rails.size == fabric.layout.blocks[tier.tier - 1] and tier.rails.sum() == fabric.rails


@pytest.mark.parametrize(
    ("rails", "radix", "fan_in"), [(4, 24, (12, 4)), (6, 16, (5, 3)), (1, 24, (7, 4)), (4, 16, (3, 2))]
)
def test_scalable_units_are_wired_as_counted_with_equal_trunks(rails, radix, fan_in):
    """A trunk is the widest that divides a leaf's uplinks: all spines of a group have equal links from each leaf."""
    fabric = RailFabric(12 * 19, 12, radix, 1.0, rails, one_pod=True, fan_in=fan_in)
    assert count_parts(fabric.graph()) == (by_tier(fabric.parts.switches_by_tier), by_tier(fabric.parts.links_by_tier))
    wires = wire_list(fabric)
    assert {len(hosts) <= fan_in[0] for _, hosts in wires.hosts} == {True} and fabric.tiers >= 3
    below, widths = {}, {}
    for lower, upper, links in wires.trunks:
        if wires.switches[upper].tier == 2:
            below.setdefault(upper, set()).add(lower)
            widths.setdefault(lower, set()).add(links)
    assert all(len(leaves) <= fan_in[1] for leaves in below.values())
    assert all(len(width) == 1 for width in widths.values())


@given(fabrics())
def test_every_gpu_stands_on_its_rail(fabric):
    graph = fabric.graph()
    size, rails = fabric.hb_domain_size, fabric.rails
    every = {f"D{i // size + 1}.GPU{i % size + 1}": i for i in range(fabric.gpus)}
    assert set(gpus(graph)) == set(every)
    assert all(graph.nodes[name]["rail"] == i % size % rails + 1 for name, i in every.items())
    assert sorted(name for rail in range(1, rails + 1) for name in on_rail(fabric, rail)) == sorted(every)
    for name in every:
        planes = [graph.nodes[other]["plane"] for other in graph[name] if graph.edges[name, other]["kind"] == "host"]
        assert sorted(planes) == (list(range(1, fabric.planes + 1)) if fabric.tiers else [])


@given(st.integers(8, 64), st.integers(1, 12), st.sampled_from([0, 1, 3]))
def test_hb_interconnect_gives_each_gpu_its_bandwidth(n, hb_domain_size, hb_switches):
    fabric = rail_only(n, hb_domain_size, 8, hb_switches=hb_switches)
    graph = fabric.graph()
    full = [name for name in gpus(graph) if graph.nodes[name]["domain"] <= fabric.gpus // fabric.hb_domain_size]
    for name in full if fabric.hb_domain_size > 1 else []:
        edges = [at["bandwidth_Bps"] for _, _, at in graph.edges(name, data=True) if at["kind"] == "hb"]
        assert len(edges) == (hb_switches or fabric.hb_domain_size - 1)
        assert sum(edges) == pytest.approx(fabric.hb_rate_Bps)


@given(fabrics(layers=st.just(1), ratios=st.just(()), gpus=st.integers(2, 90)), st.integers(0, 999))
def test_full_bisection_between_any_halves(fabric, seed):
    graph, half = fabric.graph(), fabric.gpus // 2
    names = gpus(graph)
    random.Random(seed).shuffle(names)
    flow = bisection_bandwidth(graph, names[:half], names[half : 2 * half])
    assert flow == pytest.approx(half * fabric.nic_rate_Bps)


@given(fabrics(layers=st.just(math.inf)))
def test_rails_meet_in_hb_domains_only(fabric):
    graph = fabric.graph()
    assert nx.is_connected(graph)
    islands = [gpus(graph.subgraph(island)) for island in nx.connected_components(without_hb(graph))]
    if fabric.tiers:
        assert sorted(map(sorted, islands)) == sorted(sorted(on_rail(fabric, r)) for r in range(1, fabric.rails + 1))
    else:
        assert islands == []


def test_two_hops_through_the_hb_domain():
    graph = rail_only(16, 4, 4).graph()
    assert route(graph, "D1.GPU1", "D3.GPU2") == ["D1.GPU1", "D1.HB1", "D1.GPU2", "R2.T1.S1", "D3.GPU2"]
    assert route(graph, "D1.GPU1", "D3.GPU1") == ["D1.GPU1", "R1.T1.S1", "D3.GPU1"]
    assert route(graph, "D1.GPU1", "D1.GPU3") == ["D1.GPU1", "D1.HB1", "D1.GPU3"]
    mesh = rail_only(16, 4, 4, hb_switches=0).graph()
    assert route(mesh, "D1.GPU1", "D3.GPU2") == ["D1.GPU1", "D1.GPU2", "R2.T1.S1", "D3.GPU2"]


def test_without_forwarding_only_the_network_carries():
    layered = rail_optimized(16, 4, 4).graph()
    path = route(layered, "D1.GPU1", "D3.GPU2", forward=False)
    assert {layered.nodes[node]["kind"] for node in path[1:-1]} == {"switch"}
    assert max(layered.nodes[node]["tier"] for node in path[1:-1]) == rail_optimized(16, 4, 4).tiers


@given(fabrics(layers=st.just(math.inf), gpus=st.integers(2, 60)))
def test_a_route_leaves_the_rail_at_most_once(fabric):
    graph = fabric.graph()
    source, target = "D1.GPU1", max(gpus(graph), key=lambda name: (graph.nodes[name]["domain"], name))
    path = route(graph, source, target)
    domains = [graph.nodes[node]["domain"] for node in path if graph.nodes[node]["domain"]]
    assert domains == sorted(domains)
    assert set(domains) == {1, graph.nodes[target]["domain"]}
    rails = {graph.nodes[node]["rail"] for node in path if graph.nodes[node]["kind"] == "switch"}
    assert len(rails) <= 1


@given(fabrics())
def test_one_pod_tells_the_switches_of_a_rail(fabric):
    whole = switches_to_gpus(fabric.graph(), "D1.GPU1")
    assert same_rail_switches(fabric) == max((whole.get(name, 0) for name in on_rail(fabric, 1)), default=0)
    assert all(n % 2 and n <= 2 * fabric.tiers - 1 for n in whole.values())


@given(fabrics(), st.integers(1, 10**6))
def test_the_wiring_tells_the_switches_to_any_gpu(fabric, at):
    target = at % fabric.gpus
    whole = whole_wiring(fabric)
    alone = replace(whole, hb_share=np.zeros(fabric.gpus))
    name = f"D{target // fabric.hb_domain_size + 1}.GPU{target % fabric.hb_domain_size + 1}"
    ways = switches_to_gpus(fabric.graph(), "D1.GPU1")
    expected = ways.get(name, 0 if not target else math.nan)
    assert switches_on_the_way(alone, target) == pytest.approx(expected, nan_ok=True)


def test_some_rails_alone():
    fabric = rail_only(64, 8, 4)
    whole, two = fabric.graph(), fabric.graph(rails=range(3, 5))
    assert set(gpus(two)) == {*on_rail(fabric, 3), *on_rail(fabric, 4)}
    assert two.number_of_edges() * 4 == without_hb(whole).number_of_edges()


def test_half_of_an_hb_domain_reaches_the_other_half():
    behind_switches, mesh = (HBDomains(64, 8, hb_Bps=7e9, hb_switches=count) for count in (4, 0))
    assert behind_switches.hb_bisection_Bps == pytest.approx(4 * 7e9)
    assert mesh.hb_bisection_Bps == pytest.approx(4 * 4 * 7e9 / 7)  # 16 links, each a seventh of a GPU's bandwidth


@pytest.mark.parametrize(
    ("fabric", "words"),
    [
        (rail_only(10**7, 8, 64), "gpus is 10,000,000: a graph has at most 1,048,576"),
        (rail_only(2**20, 2**16, 64, hb_switches=0), "HB domains have .* links: a graph has at most"),
    ],
)
def test_a_graph_that_no_memory_holds_is_refused_at_once(fabric, words):
    with pytest.raises(ValueError, match=words):
        fabric.graph()
    assert fabric.parts.links >= fabric.gpus  # parts are counted without it
