"""Failover, failure domains and paths against the graph: max-flow, what is cut off, all shortest paths."""

import networkx as nx
import pytest
from test_addressing import LARGE, every_kind

from railcore.catalog.units import Gbps
from railcore.network.topology.graph import bisection_bandwidth
from suite.deployment.design_comparison import equal_cost_paths
from suite.deployment.resilience import FAILURES, SPINE_LINKS, failover, failure_domains
from suite.deployment.segments import SegmentFabric
from suite.deployment.subnets import AddressPlan, bundling_warnings


def network(graph):
    """Without HB domains."""
    return nx.Graph((a, b, at) for a, b, at in graph.edges(data=True) if at["kind"] != "hb")


def without(plan, failure):
    """The plan's graph after a failure that `failover` names, and the name of GPU 1."""
    graph, gpu = plan.fabric.graph(), "D1.GPU1"
    hosts = plan.ports[(plan.ports["domain"] == 1) & (plan.ports["gpu"] == 1)]
    chassis = {"rail switch": {hosts["switch"].iloc[0]}, "rail switches of a NIC": set(hosts["switch"])}
    gone = chassis.get(failure, set())
    graph.remove_nodes_from([node for node, at in graph.nodes(data=True) if at.get("chassis") in gone])
    for leaf in list(graph[gpu]):
        at = graph.edges[gpu, leaf]
        if at["kind"] != "host" or failure not in ("NIC", "NIC port", "host link"):
            continue
        here = at.get("chassis") or graph.nodes[leaf]["chassis"]
        links = at["links"] - 1 if failure != "NIC" and here == hosts["switch"].iloc[0] else at["links"]
        links = 0 if failure == "NIC" else links
        at.update(links=links, bandwidth_Bps=links * plan.fabric.port_Bps)
    return graph, gpu


FABRICS = [
    {"nic_ports": 1},
    {"nic_ports": 2},
    {"nic_ports": 2, "homing": 1},
    {"nic_ports": 4},
    {"nic_ports": 4, "homing": 2, "rails_per_switch": 2},
    {"nic_ports": 2, "rails_per_switch": 1, "segments": 2, "spines": 4, "spine_links": 4},
]


@pytest.mark.parametrize("options", FABRICS, ids=str)
@pytest.mark.parametrize("failure", FAILURES)
def test_failover_is_the_max_flow_that_is_left(options, failure):
    plan = AddressPlan(SegmentFabric(3, LARGE, gpus_per_server=4, port_Bps="100 Gbps", **options))
    row = failover(plan).set_index("failure").loc[failure]
    graph, gpu = without(plan, failure)
    others = [node for node, at in graph.nodes(data=True) if at["kind"] == "gpu" and node != gpu]
    flow = bisection_bandwidth(graph, [gpu], others)
    assert flow == pytest.approx(row["nic_Gbps_left"] * Gbps)
    assert row["nic_share_left"] == pytest.approx(flow / plan.fabric.nic_Bps)
    left = network(graph)
    cut = [n for n in [gpu, *others] if n not in left or not left.degree(n, weight="links")]
    assert len(cut) == row["gpus_isolated"]


def test_no_gpu_is_isolated_by_one_part_where_nics_go_to_two_switches():
    for bundling, lost in (("mlag", 0), ("evpn", 0), ("none", 1)):
        table = failover(AddressPlan(SegmentFabric(3, LARGE, nic_ports=2), bundling=bundling)).set_index("failure")
        one = table.loc[["NIC port", "host link", "rail switch"]]
        assert (one["gpus_isolated"] == 0).all() and (one["nic_share_left"] == 0.5).all()
        assert table.loc["NIC port", "addresses_lost"] == lost
        assert table.loc["rail switch", "addresses_lost"] == lost * 24
        assert table.loc["rail switches of a NIC", "gpus_isolated"] == 24
    alone = failover(AddressPlan(SegmentFabric(3, LARGE))).set_index("failure")
    assert alone.loc["rail switch", "gpus_isolated"] == 24 and alone.loc["NIC port", "gpus_isolated"] == 1


@pytest.mark.parametrize(
    ("spines", "pods", "bundling", "healed", "summarised"),
    [
        (2, 2, "none", 0, 1 / 2),
        (4, 2, "none", 0, 1 / 4),
        (2, 2, "evpn", 0, 0),
        (2, 1, "none", 0, 0),
        (1, 2, "none", 1, 1),
    ],
)
def test_a_cut_between_rail_switch_and_spine_takes_flows_of_summaries(spines, pods, bundling, healed, summarised):
    """`test_frr` follows the exported routes."""
    shape = {"segments": 2, "pods": pods, "spines": spines, "super_spines": 2 * (pods > 1), "nic_ports": 2}
    table = failover(AddressPlan(SegmentFabric(3, LARGE, **shape), bundling=bundling)).set_index("failure")
    lost = table[["flows_lost", "flows_lost_with_summaries"]]
    assert lost.loc[SPINE_LINKS].tolist() == [healed, summarised]
    assert not lost.drop(index=SPINE_LINKS).to_numpy().any(), "other failures are seen behind summaries"
    row = table.loc[SPINE_LINKS]
    assert (row["gpus_touched"], row["gpus_isolated"], row["nic_Gbps_left"], row["addresses_lost"]) == (24, 0, 800, 0)
    assert row["part"] == "Pod1.Seg1.Leaf1 to Pod1.Spine1"


@every_kind
def test_failure_domains_are_those_of_the_graph(plan):
    fabric, graph = plan.fabric, plan.fabric.graph()
    gpus = [node for node, at in graph.nodes(data=True) if at["kind"] == "gpu"]
    table = failure_domains(fabric)
    assert tuple(table["switches"]) == fabric.switches_by_tier
    names = plan.switches.drop_duplicates("tier")["switch"]
    for row, name in zip(table.itertuples(), names, strict=True):
        failed = [node for node, at in graph.nodes(data=True) if at.get("chassis") == name]
        left = graph.copy()
        left.remove_nodes_from(failed)
        lost = [gpu for gpu in gpus if not any(left.edges[gpu, at]["kind"] == "host" for at in left[gpu])]
        assert len(lost) == row.gpus_lost
        assert len({graph.nodes[gpu]["rail"] for gpu in lost}) == row.rails_lost
        if row.role == "rail switch":
            touched = [gpu for gpu in gpus if any(graph.has_edge(gpu, node) for node in failed)]
            assert len(touched) == row.gpus_touched
            assert len({graph.nodes[gpu]["rail"] for gpu in touched}) == row.rails_touched
            assert row.share_left == pytest.approx(1 - 1 / fabric.homing)
        before, after = reached(graph, gpus), reached(left, gpus)
        of_pod = fabric.servers * fabric.segments
        scope = [gpu for gpu in gpus if row.role != "spine" or graph.nodes[gpu]["domain"] <= of_pod]
        assert row.role == "rail switch" or row.gpus_touched == len(scope)
        cut = [gpu for gpu in scope if gpu in lost or before[gpu] - set(lost) != after[gpu]]
        assert len(cut) == row.gpus_cut_off, row


def reached(graph, gpus):
    """GPUs that each GPU reaches over the network."""
    parts = [part & set(gpus) for part in nx.connected_components(network(graph))]
    return {gpu: {gpu} for gpu in gpus} | {gpu: part for part in parts for gpu in part}


@every_kind
def test_path_counts_are_those_of_all_shortest_paths(plan):
    fabric = plan.fabric
    graph = network(fabric.graph())
    in_pod = fabric.servers * (fabric.segments - 1) + 1 if fabric.segments > 1 else min(2, fabric.servers)
    for domain, paths in zip((in_pod, fabric.servers * fabric.segments + 1), equal_cost_paths(fabric), strict=True):
        if 1 < domain <= fabric.domains:
            assert len(list(nx.all_shortest_paths(graph, "D1.GPU1", f"D{domain}.GPU1"))) == paths
        else:
            assert paths == 0


def test_switches_that_nothing_joins_are_warned_of():
    fabric = SegmentFabric(3, LARGE, nic_ports=2)
    assert "give spines" in bundling_warnings(AddressPlan(fabric, bundling="evpn"))[0]
    under = SegmentFabric(3, LARGE, nic_ports=2, spines=2)
    for plan in (AddressPlan(fabric, bundling="mlag"), AddressPlan(under, bundling="evpn")):
        assert bundling_warnings(plan) == ()
    with pytest.raises(ValueError, match="peer_links is 0"):
        AddressPlan(fabric, bundling="mlag", peer_links=0)
