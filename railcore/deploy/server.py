"""A server as a graph: GPUs, their HB switch chips, PCIe switches, NICs and hosts; bandwidth between them by max-flow.

Names: "GPU 0" counts from 0, "NVSwitch 1-2" is HB switch chip 2 of baseboard 1 of any vendor, "PCIe switch 1",
"NIC 1", "host" (all CPUs of the server), "network" (beyond the NICs).
Node attributes: kind (gpu, hb, pcie, nic, host, network), board, number. Edge attributes: kind (hb, pcie, ethernet),
links (lanes of PCIe), bandwidth_Bps (one direction, all its links together; the other direction has as much).
GPUs and the network pass nothing on.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog.arguments import Count, NonNegativeInt, PositiveBandwidth, checked
from railcore.catalog.checks import one_of, whole
from railcore.catalog.units import counted, significant

if TYPE_CHECKING:
    import networkx as nx

NETWORK = "network"
SERVER_LINKS = ("hb", "pcie", "ethernet")  # kinds of edges
_ENDS = ("gpu", NETWORK)
Edge = tuple[str, str]


def pcie_bandwidth(generation: int, lanes: int = 16) -> float:
    """Bandwidth of a PCIe link, one direction [bytes/s]: B = l r k / n.

    l lanes, r transfers a second of a lane, k of n bits sent are data (catalog family pcie). Headers of packets, some
    24 bytes each, still count as data. Raises UnknownName for a generation that the catalog lacks.
    """
    item = catalog.item("pcie", f"Gen{generation}")
    return float(lanes) * item["lane_rate"] * item["coding_payload"] / item["coding_line"]


@checked
@dataclass(frozen=True)
class Server:
    """Parts of a server and the links between them.

    gpus, baseboards: GPUs are spread evenly over the baseboards.
    chip_links: HB links of a GPU to each switch chip of its baseboard, such as (5, 4, 4, 5); () without chips.
    pair_links: HB links between chips of equal number on each two baseboards, one number for each chip.
    mesh_links: HB links between each two GPUs without chips.
    hb_link_Bps: of one HB link, one direction.
    nics, nic_Bps: NICs and the rate of each to the network.
    pcie_generation, pcie_lanes: of the link of a GPU or NIC to its PCIe switch.
    pcie_switches: GPUs and NICs are spread over them in their order.
    switch_lanes: lanes of a PCIe switch; 0 where unknown.
    host_lanes: of each PCIe switch to the host; 0: no host, and nothing joins the PCIe switches.

    Raises ValueError for parts that do not fit together.
    """

    gpus: Count
    hb_link_Bps: PositiveBandwidth
    nics: Count
    nic_Bps: PositiveBandwidth
    pcie_generation: NonNegativeInt
    chip_links: Sequence[int] = ()
    baseboards: Count = 1
    pair_links: Sequence[int] = ()
    mesh_links: NonNegativeInt = 0
    pcie_lanes: Count = 16
    pcie_switches: Count = 1
    switch_lanes: NonNegativeInt = 0
    host_lanes: NonNegativeInt = 0
    name: str = "server"

    def __post_init__(self) -> None:
        for field in ("chip_links", "pair_links"):
            object.__setattr__(self, field, tuple(whole(field, list(getattr(self, field)), 0).tolist()))
        pcie_bandwidth(self.pcie_generation)  # refuses an unknown generation
        if self.gpus % self.baseboards:
            raise ValueError(f"baseboards is {self.baseboards}: give a divisor of gpus {self.gpus}")
        if self.mesh_links and self.chip_links:
            raise ValueError(f"mesh_links is {self.mesh_links}, but chip_links are given: give one of them")
        if 0 < self.switch_lanes < (least := self.pcie_lanes + self.host_lanes):
            raise ValueError(f"switch_lanes is {self.switch_lanes}: give {least} or more, for a GPU and the host, or 0")
        if self.pair_links and self.baseboards == 1:
            raise ValueError(f"pair_links is {self.pair_links}, but baseboards is 1: give (), or 2 baseboards or more")
        if self.pair_links and len(self.pair_links) != len(self.chip_links):
            raise ValueError(f"pair_links is {self.pair_links}: give a number for each of {len(self.chip_links)} chips")

    @property
    def hb_Bps(self) -> float:
        """Bandwidth of a GPU's HB links together, one direction [bytes/s]."""
        return (sum(self.chip_links) + self.mesh_links * (self.gpus - 1)) * self.hb_link_Bps

    @property
    def pcie_Bps(self) -> float:
        """Bandwidth of a GPU's or NIC's PCIe link, one direction [bytes/s]."""
        return pcie_bandwidth(self.pcie_generation, self.pcie_lanes)

    @property
    def warnings(self) -> tuple[str, ...]:
        """PCIe lanes that the switches lack."""
        lanes = pcie_lane_use(self)
        short = lanes[lanes["needed"] > lanes["lanes"]] if self.switch_lanes else lanes[:0]
        if short.empty:
            return ()
        needs = f"{self.name}: {short['pcie_switch'].iloc[0]} needs {short['needed'].iloc[0]} PCIe lanes"
        remedy = f"take {counted(pcie_switches_needed(self), 'switches')} or fewer lanes for each part"
        return (f"{needs} and has {self.switch_lanes}: {remedy}",)

    def graph(self) -> "nx.Graph":
        """The server as a graph, as the module describes it."""
        import networkx as nx  # only where a graph is asked for

        graph = nx.Graph(name=self.name)
        self._add_hb(graph)
        self._add_pcie(graph)
        return graph

    def _add_hb(self, graph: "nx.Graph") -> None:
        board_gpus = self.gpus // self.baseboards
        for gpu in range(self.gpus):
            graph.add_node(f"GPU {gpu}", kind="gpu", board=gpu // board_gpus + 1, number=gpu)
        for board in range(1, self.baseboards + 1):
            for chip, links in enumerate(self.chip_links, start=1):
                graph.add_node(f"NVSwitch {board}-{chip}", kind="hb", board=board, number=chip)
                for gpu in range((board - 1) * board_gpus, board * board_gpus):
                    self._join_hb(graph, f"GPU {gpu}", f"NVSwitch {board}-{chip}", links)
        for chip, links in enumerate(self.pair_links, start=1):
            for a, b in combinations(range(1, self.baseboards + 1), 2):
                self._join_hb(graph, f"NVSwitch {a}-{chip}", f"NVSwitch {b}-{chip}", links)
        for a, b in combinations(range(self.gpus), 2):
            self._join_hb(graph, f"GPU {a}", f"GPU {b}", self.mesh_links)

    def _join_hb(self, graph: "nx.Graph", a: str, b: str, links: int) -> None:
        if links:
            graph.add_edge(a, b, kind="hb", links=links, bandwidth_Bps=links * self.hb_link_Bps)

    def _add_pcie(self, graph: "nx.Graph") -> None:
        link = {"kind": "pcie", "links": self.pcie_lanes, "bandwidth_Bps": self.pcie_Bps}
        for number in range(1, self.pcie_switches + 1):
            graph.add_node(f"PCIe switch {number}", kind="pcie", board=None, number=number)
        for gpu in range(self.gpus):
            graph.add_edge(f"GPU {gpu}", self._pcie_switch(gpu, self.gpus), **link)
        graph.add_node(NETWORK, kind=NETWORK, board=None, number=1)
        for nic in range(self.nics):
            name = f"NIC {nic + 1}"
            graph.add_node(name, kind="nic", board=None, number=nic + 1)
            graph.add_edge(self._pcie_switch(nic, self.nics), name, **link)
            graph.add_edge(name, NETWORK, kind="ethernet", links=1, bandwidth_Bps=self.nic_Bps)
        if self.host_lanes:
            graph.add_node("host", kind="host", board=None, number=1)
            up = pcie_bandwidth(self.pcie_generation, self.host_lanes)
            for number in range(1, self.pcie_switches + 1):
                at = {"kind": "pcie", "links": self.host_lanes, "bandwidth_Bps": up}
                graph.add_edge(f"PCIe switch {number}", "host", **at)

    def _pcie_switch(self, part: int, parts: int) -> str:
        return f"PCIe switch {part * self.pcie_switches // parts + 1}"


@checked
def catalog_server(platform: str, pcie_switch: str | None = None, **changes: Any) -> Server:
    """Server of a catalog platform with all its GPUs on one baseboard; `changes` are fields of `Server`.

    Without a number of NICs in the catalog, each GPU has one. HB links of a GPU are spread over the chips as evenly as
    possible, with more at both ends: 5, 4, 4, 5. pcie_switch: of the catalog's pcie_switches, for its lanes; its link
    to the host has the lanes of a GPU. Raises UnknownName, also for a platform without PCIe switches in the catalog.
    """
    box = catalog.item("platforms", platform)
    gpus, links, chips = (int(box[name]) for name in ("gpus", "hb_links", "hb_switches"))
    nics = int(box.get("nics", gpus))
    fields = {
        "name": platform,
        "gpus": gpus,
        "hb_link_Bps": box["hb_link_bandwidth"],
        "chip_links": _spread(links, chips),
        "mesh_links": 0 if chips or gpus == 1 else links // (gpus - 1),
        "nics": nics,
        "nic_Bps": box["nic_bandwidth"] * gpus / nics,
        "pcie_switches": int(box["pcie_switches"]),
        "host_lanes": changes.get("pcie_lanes", Server.pcie_lanes),
    }
    if pcie_switch is None:
        fields["pcie_generation"] = int(box["pcie_generation"])
    else:
        item = catalog.item("pcie_switches", pcie_switch)
        fields |= {"pcie_generation": int(item["generation"]), "switch_lanes": int(item["lanes"])}
    return Server(**{**fields, **changes})


def _spread(links: int, chips: int) -> tuple[int, ...]:
    """Links over chips as evenly as possible, those with one more at both ends."""
    if not chips:
        return ()
    least, more = divmod(links, chips)
    first = (more + 1) // 2
    return tuple(least + (chip < first or chip >= chips - (more - first)) for chip in range(chips))


def pcie_lane_use(server: Server) -> pd.DataFrame:
    """Lanes of each PCIe switch: columns pcie_switch, gpus, nics, host, needed, lanes (0 where not known)."""
    rows, graph = [], server.graph()
    for switch in (node for node, at in graph.nodes(data=True) if at["kind"] == "pcie"):
        used = dict.fromkeys(("gpu", "nic", "host"), 0)
        for other in graph[switch]:
            used[graph.nodes[other]["kind"]] += graph.edges[switch, other]["links"]
        rows.append((switch, *used.values(), sum(used.values()), server.switch_lanes))
    return pd.DataFrame(rows, columns=["pcie_switch", "gpus", "nics", "host", "needed", "lanes"])


def pcie_switches_needed(server: Server) -> int:
    """Fewest PCIe switches of `switch_lanes`, which are known, that join all GPUs and NICs, each on one switch.

    n = ceil((GPUs + NICs) / floor((switch_lanes - host_lanes) / pcie_lanes)). Links from switch to switch are not
    counted: switches meet in the host.
    """
    room = (server.switch_lanes - server.host_lanes) // server.pcie_lanes
    return -(-(server.gpus + server.nics) // room)


@dataclass(frozen=True)
class PartBandwidth:
    """Largest flow between two parts, one direction [bytes/s], the links that limit it, and these as a text."""

    value_Bps: float
    bottleneck: tuple[Edge, ...]
    text: str


def part_bandwidth(graph: "nx.Graph", source: str, target: str, kinds: Sequence[str] = SERVER_LINKS) -> PartBandwidth:
    """Bandwidth from one part of a server to another: max-flow, which equals the smallest cut.

    Parameters
    ----------
    graph, source, target
        Of `Server.graph`, and two of its nodes.
    kinds
        Of links that may carry it, of SERVER_LINKS: ("hb",) for traffic of GPUs over the HB network alone.

    Returns
    -------
    The flow in this direction; the other direction has the same at the same time. 0 without a path.

    Raises
    ------
    ValueError
        A part that the server lacks, twice the same part, or another kind.
    """
    _check_parts(graph, [(source, target)])
    import networkx as nx

    capacity = nx.DiGraph()
    capacity.add_nodes_from((source, target))
    for a, b in _arcs(graph, kinds, (source, target)):
        outer = a == source or b == target  # a byte more: of equal cuts, the one through shared links is named
        capacity.add_edge(a, b, capacity=round(graph.edges[a, b]["bandwidth_Bps"]) + outer)
    _, (near, _) = nx.minimum_cut(capacity, source, target)
    cut = tuple((a, b) for a, b in capacity.edges if a in near and b not in near)
    value = sum(graph.edges[edge]["bandwidth_Bps"] for edge in cut)
    return PartBandwidth(float(value), cut, bottleneck_text(graph, cut))


def bottleneck_text(graph: "nx.Graph", edges: Iterable[Edge]) -> str:
    """Links in words: "NVSwitch 1-1 to NVSwitch 2-1 and 3 more, 16 links"."""
    if not (edges := list(edges)):
        return "not joined"
    (a, b), *more = edges
    at = [graph.edges[edge] for edge in edges]
    links, unit = sum(edge["links"] for edge in at), "lanes" if at[0]["kind"] == "pcie" else "links"
    return f"{a} to {b}{f' and {len(more)} more' if more else ''}, {counted(links, unit)}"


def flow_bandwidths(graph: "nx.Graph", flows: Sequence[Edge], kinds: Sequence[str] = SERVER_LINKS) -> pd.DataFrame:
    """Rates of several flows at the same time that share links fairly, each over all its paths.

    Rates are max-min fair over all routings, unlike those of `transport.sharing.fair_sharing`: the lowest rate is as
    high as any routing allows, then the next. Each step is a linear program: largest r with flow conservation and sum
    of flows on a link and direction <= its bandwidth. Flows with a shadow price can be no faster and keep r.

    Parameters
    ----------
    graph, kinds
        As for `part_bandwidth`.
    flows
        Pairs of parts: from, to.

    Returns
    -------
    Columns from, to, bandwidth_Bps, bottleneck, in the order of the flows.

    Raises
    ------
    ValueError
        As `part_bandwidth`.
    """
    _check_parts(graph, flows)
    problem = _FlowProblem(graph, list(flows), kinds)
    rates: dict[int, tuple[float, str]] = {}
    while len(rates) < len(flows):
        rate, limited, arcs = problem.largest_rate({flow: rate for flow, (rate, _) in rates.items()})
        rates |= {flow: (rate, bottleneck_text(graph, arcs)) for flow in limited}
    rows = [(*flow, *rates[i]) for i, flow in enumerate(flows)]
    return pd.DataFrame(rows, columns=["from", "to", "bandwidth_Bps", "bottleneck"])


def compare_servers(servers: Sequence[Server]) -> pd.DataFrame:
    """Bandwidths of GPUs in each server, one direction: columns server, case, bandwidth_Bps (of a flow), bottleneck.

    Cases over the HB network: a GPU to its neighbour, a GPU to one of the other half, all GPUs to the other half at
    once. Cases to the network, over all NICs that PCIe reaches: a GPU, all GPUs at once. A server of one GPU has the
    last two.
    """
    rows = []
    for server in servers:
        graph, n = server.graph(), server.gpus
        away = [(f"GPU {i}", f"GPU {(i + n // 2) % n}") for i in range(n)]
        out = [(f"GPU {i}", NETWORK) for i in range(n)]
        cases = {
            "a GPU to its neighbour": ([("GPU 0", "GPU 1")], ("hb",)),
            "a GPU to one of the other half": (away[:1], ("hb",)),
            "all GPUs to the other half at once": (away, ("hb",)),
            "a GPU to the network over all NICs": (out[:1], ("pcie", "ethernet")),
            "all GPUs to the network at once": (out, ("pcie", "ethernet")),
        }
        for case, (flows, over) in list(cases.items())[0 if n > 1 else -2 :]:
            slowest = flow_bandwidths(graph, flows, over).sort_values("bandwidth_Bps", kind="stable").iloc[0]
            rows.append((server.name, case, slowest["bandwidth_Bps"], slowest["bottleneck"]))
    return pd.DataFrame(rows, columns=["server", "case", "bandwidth_Bps", "bottleneck"])


def link_table(graph: "nx.Graph") -> pd.DataFrame:
    """Links of a server: columns from, to, kind, links (lanes of PCIe), bandwidth_Bps (one direction)."""
    import networkx as nx

    return nx.to_pandas_edgelist(graph, "from", "to")[["from", "to", "kind", "links", "bandwidth_Bps"]]


class _FlowProblem:
    """Linear program of several flows: a variable for each flow and arc that it may take; the last one is the rate."""

    def __init__(self, graph: "nx.Graph", flows: list[Edge], kinds: Sequence[str]):
        self.ways = [(flow, arc) for flow, ends in enumerate(flows) for arc in _arcs(graph, kinds, ends)]
        self.arcs = list(dict.fromkeys(arc for _, arc in self.ways))
        self.capacity = np.array([graph.edges[arc]["bandwidth_Bps"] for arc in self.arcs])
        self.scale = float(self.capacity.max()) if self.arcs else 1.0
        # links at GPUs and network get a trifle more: of equal limits, links that others share are named
        outer = [any(graph.nodes[end]["kind"] in _ENDS for end in arc) for arc in self.arcs]
        self.room = self.capacity / self.scale * (1 + 1e-9 + 1e-6 * np.array(outer, float))
        nodes = list(graph)
        # a row for each flow and node but its target: outflow less inflow; rows of the sources come first
        self.rows = [(flow, source) for flow, (source, _) in enumerate(flows)]
        self.rows += [(flow, node) for flow, ends in enumerate(flows) for node in nodes if node not in ends]
        at = {row: i for i, row in enumerate(self.rows)}
        number = {arc: i for i, arc in enumerate(self.arcs)}
        self.balance = np.zeros((len(self.rows), len(self.ways) + 1))
        self.load = np.zeros((len(self.arcs), len(self.ways) + 1))
        for column, (flow, (a, b)) in enumerate(self.ways):
            self.load[number[a, b], column] = 1
            for node, sign in ((a, 1), (b, -1)):
                if (flow, node) in at:
                    self.balance[at[flow, node], column] = sign
        self.flows = len(flows)

    def largest_rate(self, fixed: dict[int, float]) -> tuple[float, list[int], list[Edge]]:
        """Rate of the flows that are not fixed, those of them that cannot be faster, and the arcs that limit them."""
        from scipy.optimize import linprog

        free = [flow for flow in range(self.flows) if flow not in fixed]
        balance, wanted = self.balance.copy(), np.zeros(len(self.rows))
        balance[free, -1] = -1
        wanted[list(fixed)] = [rate / self.scale for rate in fixed.values()]
        cost = np.zeros(len(self.ways) + 1)
        cost[-1] = -1
        solution = linprog(cost, self.load, self.room, balance, wanted, method="highs")
        prices, limits = solution.eqlin.marginals, solution.ineqlin.marginals
        limited = [flow for flow in free if abs(prices[flow]) > 1e-9] or free
        arcs = [arc for arc, price in zip(self.arcs, limits, strict=True) if abs(price) > 1e-9]
        rate = -(limits @ self.capacity + prices @ wanted * self.scale)  # by duality, with the links as they are
        return significant(rate), limited, arcs


def _arcs(graph: "nx.Graph", kinds: Sequence[str], ends: Edge) -> list[Edge]:
    """Arcs that a flow may take: links of these kinds in both directions, through no other GPU or network."""
    for kind in kinds:
        one_of("kinds", kind, SERVER_LINKS)
    source, target = ends
    arcs = []
    for a, b, at in graph.edges(data=True):
        if at["kind"] in kinds and all(node in ends or graph.nodes[node]["kind"] not in _ENDS for node in (a, b)):
            arcs += [(start, end) for start, end in ((a, b), (b, a)) if start != target and end != source]
    return arcs


def _check_parts(graph: "nx.Graph", flows: Sequence[Edge]) -> None:
    for source, target in flows:
        for part in (source, target):
            if part not in graph:
                raise catalog.UnknownName(f"part of {graph.name or 'the server'}", part, graph)
        if source == target:
            raise ValueError(f"target is {target!r}, the source too: give two different parts")
