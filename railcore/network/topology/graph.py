"""The fabric as a graph: every GPU, HB switch, packet switch and trunk, wired one by one.

Names count from 1: "D2.GPU1" is GPU 1 of domain 2, "D2.HB1" its HB switch,
"R3.T1.S2" the second tier-1 switch of rail 3, "T3.S5" a switch above the rails, "P2." before it the plane.
Node attributes: kind (gpu, hb, switch), tier (gpu 0, switches from 1, HB switches -1), domain, rank, rail, plane,
chassis (nodes of one chassis are VLANs of one switch). Edge attributes: kind (hb, host, trunk), links, tier (of its
upper end), bandwidth_Bps (one direction, all its links together).
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import networkx as nx
import pandas as pd

from railcore.facts.units import convert


def build_graph(fabric, rails: range | None = None) -> nx.Graph:
    """Graph of a RailFabric; `rails` (from 1) keeps only those rails of a rail-only fabric, without HB domains.

    Raises ValueError where a part of a fabric with an any-to-any layer is asked for.
    """
    if rails is not None and math.isfinite(fabric.oversubscription):
        raise ValueError(f"rails is {rails!r}, but a layer joins all rails: build the whole graph")
    graph = nx.Graph(name=_name(fabric))
    if rails is None:
        add_hb_domains(graph, fabric)
        rails = range(1, fabric.rails + 1)
    else:
        _add_rails(graph, fabric, rails)
    for plane in range(1, fabric.planes + 1) if fabric.tiers else ():
        _wire_plane(_Wiring(graph, fabric, plane), rails)
    return graph


def first_pod(fabric) -> nx.Graph:
    """Graph of the first pod's rails in one plane, without HB domains and without the layer that joins the pods.

    A rail stands whole in a pod, and its leaves meet there: routes within a rail are those of the whole fabric.
    """
    graph, rails = nx.Graph(name=f"{_name(fabric)}, pod 1"), _pods(fabric)[0]
    _add_rails(graph, fabric, rails)
    if fabric.tiers:
        _wire_pod(_Wiring(graph, fabric, 1), rails)
    return graph


def switches_to_gpus(graph: nx.Graph, source: str) -> dict[str, int]:
    """Number of switches on the shortest path from a GPU to each GPU that it reaches without an HB domain."""
    network = nx.subgraph_view(graph, filter_edge=lambda a, b: graph.edges[a, b]["kind"] != "hb")
    lengths = nx.single_source_shortest_path_length(network, source)
    return {node: n - 1 for node, n in lengths.items() if n and graph.nodes[node]["kind"] == "gpu"}


def count_parts(graph: nx.Graph) -> tuple[dict[int, int], dict[int, int]]:
    """Switches (one for each chassis) and links by tier, counted from nodes and edges."""
    chassis = {(at["tier"], at["chassis"]) for _, at in graph.nodes(data=True) if at["kind"] == "switch"}
    links: Counter[int] = Counter()
    for _, _, at in graph.edges(data=True):
        if at["kind"] != "hb":
            links[at["tier"]] += at["links"]
    return dict(sorted(Counter(tier for tier, _ in chassis).items())), dict(sorted(links.items()))


def bisection_bandwidth(graph: nx.Graph, left: list[str], right: list[str], network_only: bool = True) -> float:
    """Largest flow from `left` to `right`, one direction: max-flow over the graph.

    Parameters
    ----------
    graph, left, right
        Fabric, and its nodes on each side.
    network_only
        Whether edges of HB domains are left out.

    Returns
    -------
    Bandwidth [bytes/s].

    Raises
    ------
    ValueError
        A side is empty, has a node that the graph lacks, or one of the other side.
    """
    if not left or not right or not {*left, *right} <= set(graph) or set(left) & set(right):
        raise ValueError("left and right must name nodes of the graph, none of them on both sides")
    capacity = nx.DiGraph()
    capacity.add_nodes_from([*left, *right])
    for a, b, at in graph.edges(data=True):
        if not (network_only and at["kind"] == "hb"):
            for ends in ((a, b), (b, a)):
                capacity.add_edge(*ends, capacity=at["bandwidth_Bps"])
    capacity.add_edges_from((("source", node) for node in left), capacity=math.inf)
    capacity.add_edges_from(((node, "sink") for node in right), capacity=math.inf)
    return nx.maximum_flow_value(capacity, "source", "sink")


def same_rail_switches(fabric) -> int:
    """Most switches between GPU 1 of domain 1 and any other GPU of its rail (see `first_pod`)."""
    graph = first_pod(fabric)
    found = switches_to_gpus(graph, "D1.GPU1")
    return max((n for gpu, n in found.items() if graph.nodes[gpu]["rail"] == 1), default=0)


def rail_bisection_bandwidth(graph: nx.Graph, rail: int = 1) -> float:
    """Largest flow between the two halves of a rail's GPUs, by domain, over the network alone [bytes/s]."""
    gpus = {node: at for node, at in graph.nodes(data=True) if at["kind"] == "gpu"}
    middle = max(at["domain"] for at in gpus.values()) // 2
    halves: tuple[list[str], list[str]] = ([], [])
    for node, at in gpus.items():
        if at["rail"] == rail:
            halves[at["domain"] > middle].append(node)
    return bisection_bandwidth(graph, *halves)


def route(graph: nx.Graph, source: str, target: str, forward: bool = True) -> list[str]:
    """Shortest path between two GPUs.

    Parameters
    ----------
    graph, source, target
        Fabric, and the names of two GPUs in it.
    forward
        Whether HB domains may carry it to another rail first, the source's domain before the target's, as NCCL's PXN
        does; else the scale-out network alone does.

    Returns
    -------
    Nodes of the path.

    Raises
    ------
    ValueError
        The graph lacks a GPU, or they are cut off from each other.
    """
    for end in (source, target):
        if end not in graph:
            raise ValueError(f"no route from {source} to {target}: the graph has no {end}")
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


def _name(fabric) -> str:
    s, planes = fabric.oversubscription, f", {fabric.planes} planes" if fabric.planes > 1 else ""
    if fabric.rails == 1:
        return f"fat tree{planes}"
    return {math.inf: "rail-only", 1.0: "rail-optimized"}.get(s, f"rails under {s:g}:1") + planes


def _add_gpu(graph: nx.Graph, domain: int, rank: int, rail: int) -> str:
    name = f"D{domain}.GPU{rank}"
    graph.add_node(name, kind="gpu", tier=0, domain=domain, rank=rank, rail=rail, plane=None)
    return name


def _add_rails(graph: nx.Graph, fabric, rails: Iterable[int]) -> None:
    for rail in rails:
        for d, j in fabric.endpoints(rail):
            _add_gpu(graph, d, j, rail)


def add_hb_domains(graph: nx.Graph, fabric) -> None:
    """Add GPUs and HB interconnects of a fabric, domain by domain, to an empty graph."""
    size = fabric.hb_domain_size
    for d in range(1, fabric.domains + 1):
        here = min(size, fabric.gpus - (d - 1) * size)
        members = [_add_gpu(graph, d, j, (j - 1) % fabric.rails + 1) for j in range(1, here + 1)]
        if size == 1:
            continue
        edge = {"kind": "hb", "tier": -1, "links": 1}
        for h in range(1, fabric.hb_switches + 1):
            name = f"D{d}.HB{h}"
            graph.add_node(name, kind="hb", tier=-1, domain=d, rank=None, rail=None, plane=None)
            share = fabric.hb_Bps / fabric.hb_switches
            graph.add_edges_from(((member, name) for member in members), **edge, bandwidth_Bps=share)
        if not fabric.hb_switches:
            pairs = ((a, b) for i, a in enumerate(members) for b in members[i + 1 :])
            graph.add_edges_from(pairs, **edge, bandwidth_Bps=fabric.hb_Bps / (size - 1))


def _spread(items: list, groups: int) -> list[list]:
    """Consecutive groups whose lengths differ by one at most."""
    size, more = divmod(len(items), groups)
    return [items[a:b] for a, b in pairwise(group * size + min(group, more) for group in range(groups + 1))]


class _Wiring:
    """Adds switches and edges of one plane, numbering switches by place and tier."""

    def __init__(self, graph: nx.Graph, fabric, plane: int):
        self.graph, self.fabric, self.layout, self.plane = graph, fabric, fabric.layout, plane
        self.numbers: dict[str, int] = {}
        self.prefix = f"P{plane}." if fabric.planes > 1 else ""

    def switch(self, tier: int, rail: int | None, chassis: str | None = None) -> str:
        place = f"{self.prefix}{f'R{rail}.' if rail else ''}T{tier}"
        self.numbers[place] = self.numbers.get(place, 0) + 1
        name = f"{place}.S{self.numbers[place]}"
        self.graph.add_node(
            name, kind="switch", tier=tier, domain=None, rank=None, rail=rail, plane=self.plane, chassis=chassis or name
        )
        return name

    def link(self, lower: str, upper: str, tier: int, links: int) -> None:
        kind = "host" if tier == 1 else "trunk"
        self.graph.add_edge(lower, upper, kind=kind, tier=tier, links=links, bandwidth_Bps=links * self.fabric.link_Bps)

    def hosts(self, gpus: list[tuple[int, int]], leaf: str) -> None:
        for d, j in gpus:
            self.link(f"D{d}.GPU{j}", leaf, 1, 1)


def _wire_plane(wiring: _Wiring, rails: range) -> None:
    layout, blocks = wiring.layout, []
    for pod in _pods(wiring.fabric):
        if members := [rail for rail in pod if rail in rails]:
            blocks += _wire_pod(wiring, members)
    for tier in range(layout.pod_tier + 1, layout.tiers + 1):
        groups = 1 if tier == layout.tiers else math.ceil(len(blocks) / int(layout.down[tier - 1]))
        blocks = [_wire_block(wiring, tier, children, None) for children in _spread(blocks, groups)]


def _pods(fabric) -> list[range]:
    """Rails (from 1) of each pod."""
    rails, size = range(1, fabric.rails + 1), int(fabric.layout.rails_per_pod)
    return [rails[at : at + size] for at in range(0, fabric.rails, size)]


def _wire_pod(wiring: _Wiring, rails: Sequence[int]) -> list[list[tuple[str, int]]]:
    """Leaves and inner tiers of the rails of one pod; gives its blocks, each the (switch, uplinks) at its head."""
    fabric, layout = wiring.fabric, wiring.layout
    leaf_uplinks, only = int(layout.uplinks(1, layout.hosts_per_leaf)), rails[0] if len(rails) == 1 else None
    if layout.pod_tier == 1 and not only and math.isinf(fabric.oversubscription):  # a VLAN of one switch for each rail
        for rail in rails:
            wiring.hosts(fabric.endpoints(rail), wiring.switch(1, rail, f"{wiring.prefix}R{rails[0]}-{rails[-1]}.T1"))
        return []  # no layer above
    if layout.pod_tier == 1:
        leaf = wiring.switch(1, only)
        for rail in rails:
            wiring.hosts(fabric.endpoints(rail), leaf)
        return [[(leaf, leaf_uplinks)]]
    blocks = []
    for rail in rails:
        for members in _spread(fabric.endpoints(rail), int(layout.leaves_per_rail)):
            leaf = wiring.switch(1, rail)
            wiring.hosts(members, leaf)
            blocks.append([(leaf, leaf_uplinks)])
    for tier in range(2, layout.pod_tier + 1):
        groups = 1 if tier == layout.pod_tier else int(layout.blocks[tier - 1] // layout.pods)
        blocks = [_wire_block(wiring, tier, children, only) for children in _spread(blocks, groups)]
    return blocks


def _wire_block(
    wiring: _Wiring, tier: int, children: list[list[tuple[str, int]]], rail: int | None
) -> list[tuple[str, int]]:
    """Switches of `tier` over the children: switches at one place in their blocks share a group of switches."""
    layout = wiring.layout
    fan_in, heads = int(layout.fan_in[tier - 1]), []
    trunk = int(layout.down[tier - 1]) // fan_in
    for place, (_, uplinks) in enumerate(children[0]):
        left = uplinks
        while left > 0:
            width = min(trunk, left)
            switch = wiring.switch(tier, rail)
            for child in children:
                wiring.link(child[place][0], switch, tier, width)
            heads.append((switch, int(layout.uplinks(tier, fan_in * width))))
            left -= width
    return heads
