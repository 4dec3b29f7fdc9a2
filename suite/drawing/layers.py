"""Places in a drawing of a fabric: GPUs by HB domain (scale-up or NVLink domain), switches by tier above them.

Read from a graph are: of nodes kind (gpu, hb, switch, ocs), tier, domain, rank, rail, plane and chassis; of edges kind
(hb, host, trunk), tier and links. x is in GPU widths, y in rows.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from railcore.catalog.units import counted

if TYPE_CHECKING:
    import networkx as nx

_GAP, _HB_LEVEL = 0.7, -1.15
_LEAST_FONT, _MOST_FONT = 8.0, 9.0  # points
_LETTER_WIDTH = 0.64  # mean width of a digit or capital over its font size
SMALL_LETTER_WIDTH = 0.56  # the same of a small letter


@dataclass(frozen=True)
class NodeRow:
    """Nodes of one kind, tier and plane from left to right, ways to label them (longest first), width of each one."""

    kind: str
    nodes: list[str]
    texts: list[list[str]]
    slot: float


@dataclass(frozen=True)
class FabricLayout:
    """A graph with its places.

    at: (x, y) of every node.
    domains: name and GPUs of every HB domain or rack.
    rows: all nodes.
    levels: names of the rows by y.
    planes: names of the planes by x.
    width: x of the last GPU.
    floor, top: lowest and highest y.
    """

    graph: "nx.Graph"
    at: dict[str, tuple[float, float]]
    domains: dict[str, list[str]]
    rows: list[NodeRow]
    levels: dict[float, str]
    planes: dict[float, str]
    width: float
    floor: float
    top: float

    def path(self, a: str, b: str, half: Mapping[str, float]) -> list[tuple[float, float]]:
        """Points of an edge: straight, or an arc below the GPUs where it joins two of them.

        half: half the height of each node's box; an edge ends there, above or below, so that it crosses no neighbour.
        """
        (xa, ya), (xb, yb) = self.at[a], self.at[b]
        if ya != yb:
            up = 1 if yb > ya else -1
            return [(xa, ya + up * half[a]), (xb, yb - up * half[b])]
        depth = 0.25 + 0.65 * min(abs(xb - xa) / 8, 1)
        return [(xa + (xb - xa) * i / 12, ya - depth * math.sin(math.pi * i / 12)) for i in range(13)]


def fabric_layout(graph: "nx.Graph", tiers: Sequence[str], endpoint: str, group: str) -> FabricLayout:
    """Places of all nodes.

    Parameters
    ----------
    graph
        Of a fabric.
    tiers
        Names of the rows of switches, tier 1 first; without them, from what the switches join.
    endpoint, group
        Names of a GPU and of a domain.

    Returns
    -------
    The graph with the places of its nodes.
    """
    gpus, tiers = nodes_of_kind(graph, "gpu"), tiers or tier_names(graph)
    domains = _domains(graph, gpus, group)
    at: dict[str, tuple[float, float]] = {}
    for i, members in enumerate(domains.values()):
        at |= {node: (len(at) + j + _GAP * i, 0.0) for j, node in enumerate(members)}
    width = max(x for x, _ in at.values())
    one_rank = len({graph.nodes[node]["rank"] for node in gpus}) == 1
    numbers = [str(graph.nodes[node]["domain" if one_rank else "rank"]) for node in at]
    rows = [NodeRow("gpu", list(at), [[f"{endpoint} {number}" for number in numbers], numbers], 1.0)]
    levels = {0.0: f"{endpoint}s"}
    if hubs := nodes_of_kind(graph, "hb"):
        rows.append(_hubs(graph, at, domains))
        levels[_HB_LEVEL] = row_name("HB")
    planes = sorted({at["plane"] for _, at in graph.nodes(data=True) if at["plane"]})
    switches = nodes_of_kind(graph, "switch", "ocs")
    for (tier, plane), nodes in grouped(switches, lambda node: itemgetter("tier", "plane")(graph.nodes[node])).items():
        share = (width + 1) / max(len(planes), 1)
        left = -0.5 + share * (planes.index(plane) if plane else 0) + (0.03 * share if len(planes) > 1 else 0)
        slot, y = share * (0.94 if len(planes) > 1 else 1) / len(nodes), 0.3 + 1.7 * tier
        at |= {node: (left + (j + 0.5) * slot, y) for j, node in enumerate(nodes)}
        if one_rank and len(nodes) == len(domains):  # each above its rack
            over = [(at[members[0]][0] + at[members[-1]][0]) / 2 for members in domains.values()]
            at |= {node: (x, y) for node, x in zip(nodes, over, strict=True)}
        name = tiers[min(tier, len(tiers)) - 1]
        rows.append(NodeRow(graph.nodes[nodes[0]]["kind"], nodes, _switch_texts(graph, nodes, name, tier), slot))
        levels[y] = row_name(name)
    mesh = any(edge["kind"] == "hb" for *_, edge in graph.edges(data=True))
    floor = -1.6 if hubs else -1.1 if mesh else -0.5
    top = max(y for _, y in at.values()) + (1.0 if len(planes) > 1 else 0.55)
    middles = {-0.5 + (i + 0.5) * (width + 1) / len(planes): f"plane {plane}" for i, plane in enumerate(planes)}
    return FabricLayout(graph, at, domains, rows, levels, middles if len(planes) > 1 else {}, width, floor, top)


def nodes_of_kind(graph: "nx.Graph", *kinds: str) -> list[str]:
    """Nodes of one or more kinds, in the order in which the graph names them."""
    return [node for node, at in graph.nodes(data=True) if at["kind"] in kinds]


def grouped(members: Iterable, key: Callable) -> dict[Any, list]:
    """Members by their key, in the order in which they come."""
    groups: dict[Any, list] = {}
    for member in members:
        groups.setdefault(key(member), []).append(member)
    return groups


def rail_numbers(graph: "nx.Graph") -> set[int]:
    """Numbers of the rails."""
    return {at["rail"] for _, at in graph.nodes(data=True) if at["rail"]}


def tier_names(graph: "nx.Graph") -> list[str]:
    """Names of the rows of switches, tier 1 first, from what they join."""
    kinds = {(at["tier"], at["kind"]) for _, at in graph.nodes(data=True)}
    within = {at["tier"] for _, at in graph.nodes(data=True) if at["rail"] and at["kind"] == "switch"}
    several, top, names = len(rail_numbers(graph)) > 1, max(tier for tier, _ in kinds), []
    for tier in range(1, top + 1):
        if (tier, "ocs") in kinds:
            names.append("optical circuit")
        elif several and (tier in within or tier == 1):
            names.append("rail" if max(within, default=1) == 1 else f"rail tier {tier}")
        else:
            names.append("leaf" if tier == 1 else "spine" if tier == top else "aggregation")
    return names


def row_name(name: str) -> str:
    """A row's name in short lines: "rail tier 2" becomes rail / switches, / tier 2."""
    kind, _, tier = name.partition(" tier ")
    return "\n".join([*kind.split(), "switches"]) + (f",\ntier {tier}" if tier else "")


def route_label(graph: "nx.Graph", path: Sequence[str], endpoint: str, group: str) -> str:
    """From where to where a route goes, over how many packet or circuit switches; with forwarding GPUs, each hop.

    Parameters
    ----------
    graph, path
        The fabric, and the nodes of the route in their order.
    endpoint, group
        Names of a GPU and of a domain.

    Returns
    -------
    "GPU 1, Domain 1 to GPU 2, Domain 3: 3 switches"; with forwarding "... to GPU 2, Domain 2: 2 hops, (1) HB switch to
    GPU 2, Domain 1, (2) rail switch 2".
    """
    names = {node: f"{endpoint} {at['rank']}, {group} {at['domain']}" for node, at in graph.nodes(data=True)}
    stops = [i for i, node in enumerate(path) if graph.nodes[node]["kind"] == "gpu"]
    text, hops = f"{names[path[0]]} to {names[path[-1]]}", []
    for start, end in pairwise(stops):
        passed = [graph.nodes[node] for node in path[start + 1 : end]]
        switches = [at for at in passed if at["kind"] in ("switch", "ocs")]
        hop = counted(len(switches), "switches") if switches else "HB switch" if passed else "HB link"
        if len(stops) > 2 and len(switches) == 1 and switches[0]["rail"]:
            hop = f"rail switch {switches[0]['rail']}"
        hops.append(hop + (f" to {names[path[end]]}" if end < stops[-1] else ""))
    if len(hops) == 1:
        return f"{text}: {hops[0]}"
    return f"{text}: {counted(len(hops), 'hops')}, " + ", ".join(f"({i}) {hop}" for i, hop in enumerate(hops, start=1))


def _domains(graph: "nx.Graph", gpus: list[str], group: str) -> dict[str, list[str]]:
    """GPUs by HB domain; where a domain is one endpoint, by the switch that they hang on."""
    alone = len({graph.nodes[node]["domain"] for node in gpus}) == len(gpus)
    order = sorted(gpus, key=lambda node: itemgetter("domain", "rank")(graph.nodes[node]))
    domains = grouped(order, lambda node: tuple(graph[node]) if alone else graph.nodes[node]["domain"])
    return {f"{group} {number}": members for number, members in enumerate(domains.values(), start=1)}


def _hubs(graph: "nx.Graph", at: dict, domains: dict[str, list[str]]) -> NodeRow:
    """HB switches below the GPUs that they join; their places go into `at`."""
    nodes, least = list[str](), math.inf
    for members in domains.values():
        below = [other for other in graph[members[0]] if graph.nodes[other]["kind"] == "hb"]
        slot, left = len(members) / max(len(below), 1), at[members[0]][0] - 0.5
        at |= {node: (left + (i + 0.5) * slot, _HB_LEVEL) for i, node in enumerate(below)}
        nodes, least = nodes + below, min(least, slot)
    numbers = [node.rpartition("HB")[2] for node in nodes]
    one = len(set(numbers)) == 1
    long = ["HB switch" if one else f"HB switch {number}" for number in numbers]
    return NodeRow("hb", nodes, [long, ["HB" if one else f"HB {number}" for number in numbers], numbers], least)


def _switch_texts(graph: "nx.Graph", nodes: list[str], name: str, tier: int) -> list[list[str]]:
    """Three labels of every switch of a row: "Rail 3.2", "R3.2", "3.2" (switch 2 of rail 3), "Spine 4", "S4", "4"."""
    rails, several = [graph.nodes[node]["rail"] for node in nodes], len(rail_numbers(graph)) > 1
    word, above, texts = name.split()[0], f".T{tier}" if tier > 1 else "", []
    for i, (node, rail) in enumerate(zip(nodes, rails, strict=True)):
        hosted = sorted({graph.nodes[gpu]["rail"] for gpu in graph[node] if graph.nodes[gpu]["kind"] == "gpu"})
        if several and rail:
            number = f".{rails[: i + 1].count(rail)}" if rails.count(rail) > 1 else ""
            texts.append((f"Rail {rail}{above}{number}", f"R{rail}{above}{number}", f"{rail}{number}"))
        elif several and hosted:
            span = f"{hosted[0]}–{hosted[-1]}"
            texts.append((f"Rails {span}", span, span))
        else:
            texts.append((f"{word[0].upper()}{word[1:]} {i + 1}", f"{word[0].upper()}{i + 1}", f"{i + 1}"))
    return [list(way) for way in zip(*texts, strict=True)]


def fit_labels(texts: Sequence[Sequence[str]], room: float, padding: float) -> tuple[list[str], float, bool]:
    """Labels, font size [points], and whether all are there: the first way in which none overlaps its neighbour.

    texts: labels, a list for each way to write them; room: of each label [points]; padding: of its box, in font
    sizes. Where none fits, every nth label of the last way stays and the others are blank.
    """
    for labels in texts:
        size = 0.93 * room / (_LETTER_WIDTH * max(map(len, labels)) + padding)
        if size >= _LEAST_FONT:
            return list(labels), min(size, _MOST_FONT), True
    step = math.ceil((_LETTER_WIDTH * max(map(len, texts[-1])) + 1) * _LEAST_FONT / room)
    return [label if i % step == 0 else "" for i, label in enumerate(texts[-1])], _LEAST_FONT, False
