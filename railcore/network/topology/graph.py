"""The fabric as a graph: every GPU, HB switch, packet switch and trunk, wired one by one.

Names count from 1: "D2.GPU1" is GPU 1 of domain 2, "D2.HB1" its HB switch,
"R3.T1.S2" the second tier-1 switch of rail 3, "T3.S5" a switch above the rails, "P2." before it the plane.
Node attributes: kind (gpu, hb, switch), tier (gpu 0, switches from 1, HB switches -1), domain, rank, rail, plane,
chassis (nodes of one chassis are VLANs of one switch). Edge attributes: kind (hb, host, trunk), links, tier (of its
upper end), bandwidth_Bps (one direction, all its links together).
"""

import math

import networkx as nx
import pandas as pd

from railcore.catalog.units import convert
from railcore.network.topology.wiring import WireList, rails_of_pods, wire_list

MOST_GPUS, MOST_LINKS = 2**20, 2**23  # of a graph; either takes a minute and some GB


def check_size(gpus: int, links: int = 0) -> None:
    """Raises ValueError for a graph of more than `MOST_GPUS`, or of more `MOST_LINKS` inside HB domains."""
    if gpus > MOST_GPUS:
        raise ValueError(f"gpus is {gpus:,}: a graph has at most {MOST_GPUS:,}; parts of more are counted without one")
    if links > MOST_LINKS:
        raise ValueError(f"HB domains have {links:,} links: a graph has at most {MOST_LINKS:,}; give smaller domains")


def build_graph(fabric, rails: range | None = None) -> nx.Graph:
    """Graph of a RailFabric; `rails` (from 1) keeps only those rails of a rail-only fabric, without HB domains.

    Raises ValueError where a part of a fabric with an any-to-any layer is asked for.
    """
    if rails is not None and math.isfinite(fabric.oversubscription):
        raise ValueError(f"rails is {rails!r}, but a layer joins all rails: build the whole graph")
    graph = nx.Graph(name=fabric.layout_name)
    if rails is None:
        add_hb_domains(graph, fabric, fabric.hb_rate_Bps)
        rails = range(1, fabric.rails + 1)
    else:
        _add_rails(graph, fabric, rails)
    _add_network(graph, wire_list(fabric, rails))
    return graph


def first_pod(fabric) -> nx.Graph:
    """Graph of the first pod's rails in one plane, without HB domains and without the layer that joins the pods.

    A rail stands whole in a pod, and its leaves meet there: routes within a rail are those of the whole fabric.
    """
    graph, rails, wires = nx.Graph(name=f"{fabric.layout_name}, pod 1"), rails_of_pods(fabric)[0], WireList(fabric)
    _add_rails(graph, fabric, rails)
    if fabric.tiers:
        wires.add_pod(1, rails)
    _add_network(graph, wires)
    return graph


def switches_to_gpus(graph: nx.Graph, source: str) -> dict[str, int]:
    """Number of switches on the shortest path from a GPU to each GPU that it reaches without an HB domain."""
    network = nx.subgraph_view(graph, filter_edge=lambda a, b: graph.edges[a, b]["kind"] != "hb")
    lengths = nx.single_source_shortest_path_length(network, source)
    return {node: n - 1 for node, n in lengths.items() if n and graph.nodes[node]["kind"] == "gpu"}


def bisection_bandwidth(graph: nx.Graph, left: list[str], right: list[str]) -> float:
    """Largest flow from nodes `left` to nodes `right` over the network alone, without HB domains, one way [bytes/s]."""
    capacity = nx.DiGraph()
    capacity.add_nodes_from([*left, *right])
    for a, b, at in graph.edges(data=True):
        if at["kind"] != "hb":
            for ends in ((a, b), (b, a)):
                capacity.add_edge(*ends, capacity=at["bandwidth_Bps"])
    capacity.add_edges_from((("source", node) for node in left), capacity=math.inf)
    capacity.add_edges_from(((node, "sink") for node in right), capacity=math.inf)
    return nx.maximum_flow_value(capacity, "source", "sink")


def same_rail_switches(fabric) -> int:
    """Most switches between GPU 1 of domain 1 and any other GPU of its rail (see `first_pod`)."""
    graph = first_pod(fabric)
    switches = switches_to_gpus(graph, "D1.GPU1")
    return max((count for gpu, count in switches.items() if graph.nodes[gpu]["rail"] == 1), default=0)


def rail_bisection_bandwidth(graph: nx.Graph) -> float:
    """Largest flow between the two halves of rail 1's GPUs, by domain, over the network alone [bytes/s]."""
    gpus = {node: at for node, at in graph.nodes(data=True) if at["kind"] == "gpu"}
    middle = max(at["domain"] for at in gpus.values()) // 2
    halves: tuple[list[str], list[str]] = ([], [])
    for node, at in gpus.items():
        if at["rail"] == 1:
            halves[at["domain"] > middle].append(node)
    return bisection_bandwidth(graph, *halves)


def route(graph: nx.Graph, source: str, target: str, forward: bool = True) -> list[str]:
    """Shortest path between two GPUs.

    Parameters
    ----------
    graph, source, target
        Fabric, and the names of two GPUs in it.
    forward
        Whether HB domains may carry it to another rail, that of the source where either can, as NCCL's PXN does; else
        the scale-out network alone does.

    Returns
    -------
    Nodes of the path.

    Raises
    ------
    ValueError
        They are cut off from each other.
    """
    home = graph.nodes[source]["domain"]

    def weight(a: str, b: str, at: dict) -> float | None:
        if at["kind"] != "hb":
            return 1.0
        return None if not forward else 0.9 if graph.nodes[a]["domain"] == home else 0.95

    try:
        return nx.shortest_path(graph, source, target, weight)
    except nx.NetworkXNoPath:
        raise ValueError(f"no route from {source} to {target}: they are cut off from each other") from None


def edge_table(graph: nx.Graph) -> pd.DataFrame:
    """Edges as wired: columns from, to, kind, tier, links, bandwidth_Gbps."""
    table = nx.to_pandas_edgelist(graph, "from", "to")
    table["bandwidth_Gbps"] = convert(table["bandwidth_Bps"], "Gbps").round(6)
    return table[["from", "to", "kind", "tier", "links", "bandwidth_Gbps"]]


def _add_gpu(graph: nx.Graph, domain: int, rank: int, rail: int) -> str:
    name = f"D{domain}.GPU{rank}"
    graph.add_node(name, kind="gpu", tier=0, domain=domain, rank=rank, rail=rail, plane=None)
    return name


def _add_rails(graph: nx.Graph, fabric, rails: range) -> None:
    check_size(fabric.gpus // fabric.rails * len(rails))
    for rail in rails:
        for d, j in fabric.endpoints(rail):
            _add_gpu(graph, d, j, rail)


def add_hb_domains(graph: nx.Graph, fabric, hb_Bps: float) -> None:
    """Add GPUs and HB interconnects of a fabric, domain by domain, to an empty graph. hb_Bps: of a GPU [bytes/s]."""
    size = fabric.hb_domain_size
    check_size(fabric.gpus, fabric.gpus * (fabric.hb_switches or (size - 1) // 2))
    for d in range(1, fabric.domains + 1):
        here = min(size, fabric.gpus - (d - 1) * size)
        members = [_add_gpu(graph, d, j, (j - 1) % fabric.rails + 1) for j in range(1, here + 1)]
        if size == 1:
            continue
        edge = {"kind": "hb", "tier": -1, "links": 1}
        for h in range(1, fabric.hb_switches + 1):
            name = f"D{d}.HB{h}"
            graph.add_node(name, kind="hb", tier=-1, domain=d, rank=None, rail=None, plane=None)
            share = hb_Bps / fabric.hb_switches
            graph.add_edges_from(((member, name) for member in members), **edge, bandwidth_Bps=share)
        if not fabric.hb_switches:
            pairs = ((a, b) for i, a in enumerate(members) for b in members[i + 1 :])
            graph.add_edges_from(pairs, **edge, bandwidth_Bps=hb_Bps / (size - 1))


def _add_network(graph: nx.Graph, wires: WireList) -> None:
    """Add switches, host links and trunks to a graph of their GPUs."""
    switches, link_Bps = wires.switches, wires.fabric.link_Bps
    for name, tier, rail, plane, chassis in switches:
        place = {"domain": None, "rank": None, "rail": rail, "plane": plane}
        graph.add_node(name, kind="switch", tier=tier, **place, chassis=chassis)
    for leaf, gpus in wires.hosts:
        pairs = ((f"D{d}.GPU{j}", switches[leaf].name) for d, j in gpus)
        graph.add_edges_from(pairs, kind="host", tier=1, links=1, bandwidth_Bps=link_Bps)
    for lower, upper, links in wires.trunks:
        at = {"kind": "trunk", "tier": switches[upper].tier, "links": links, "bandwidth_Bps": links * link_Bps}
        graph.add_edge(switches[lower].name, switches[upper].name, **at)
