"""What one failed part leaves, walked on the graph node by node: the reference for `faults.fault_effects`."""

import math

import networkx as nx
import numpy as np

from railcore.network.topology.faults import fail, wiring_left
from railcore.network.topology.graph import bisection_bandwidth
from railcore.network.topology.reach import connected_gpus
from railcore.network.topology.wiring import whole_wiring


def node_bandwidth(graph, node, kinds):
    """Bandwidth of a node's edges of these kinds."""
    return sum(at["bandwidth_Bps"] for _, _, at in graph.edges(node, data=True) if at["kind"] in kinds)


def gpus(graph):
    return [node for node, at in graph.nodes(data=True) if at["kind"] == "gpu"]


def cut_nics(before, after):
    """Live GPUs whose NIC has lost every link."""
    return [g for g in gpus(after) if node_bandwidth(before, g, ("host",)) and not node_bandwidth(after, g, ("host",))]


def lost_on_the_wiring(fabric, kind):
    """GPUs that a fault takes from a job: failed, cut off from most others, or without the HB domain that they had."""
    whole = whole_wiring(fabric)
    left = wiring_left(whole, kind) or whole
    return np.flatnonzero(~connected_gpus(left) | (whole.hb_works & ~left.hb_works))


def share(has, had):
    return has / had if had else 1.0


def nic_bandwidth_left(before, after):
    """Share of NIC bandwidth that the live GPUs of each HB domain keep, 1 where they had none."""
    domains = {}
    for g in gpus(after):
        has, had = domains.get(after.nodes[g]["domain"], (0, 0))
        here = has + node_bandwidth(after, g, ("host",)), had + node_bandwidth(before, g, ("host",))
        domains[after.nodes[g]["domain"]] = here
    return {domain: share(*both) for domain, both in domains.items()}


def connected(graph):
    return max(nx.connected_components(graph), key=len) if len(graph) else set()


def switches(graph, source, target):
    """Fewest switches on any shortest way, as `graph.route` counts."""
    if source not in graph or target not in graph:
        return math.nan

    def weight(a, b, at):
        hop = (90000 if graph.nodes[a]["domain"] == 1 else 95000) if at["kind"] == "hb" else 100000
        return hop + (graph.nodes[b]["kind"] == "switch")

    try:
        length = nx.shortest_path_length(graph, source, target, weight)
    except nx.NetworkXNoPath:
        return math.nan
    return float(length % 1000)


def fault_effect(graph, kind):
    after = fail(graph, kind)
    live = gpus(after)
    hb = [share(node_bandwidth(after, g, ("hb",)), node_bandwidth(graph, g, ("hb",))) for g in live]
    rail = [g for g in live if graph.nodes[g]["rail"] == 1]
    half = len(rail) // 2
    flows = [bisection_bandwidth(net, rail[:half], rail[-half:]) if half else 1.0 for net in (graph, after)]
    last = f"D{max(graph.nodes[g]['domain'] for g in gpus(graph))}.GPU1"
    return {
        "fabric": graph.name,
        "fault": kind,
        "gpus_failed": len(gpus(graph)) - len(live),
        "nics_cut": len(cut_nics(graph, after)),
        "gpus_cut_off": len(set(live) - connected(after)),
        "domain_nic_bandwidth": min(nic_bandwidth_left(graph, after).values(), default=math.nan),
        "hb_bandwidth": min(hb, default=math.nan),
        "rail_bisection": share(flows[1], flows[0]),
        "switches_before": switches(graph, "D1.GPU1", last),
        "switches_after": switches(after, "D1.GPU1", last),
    }
