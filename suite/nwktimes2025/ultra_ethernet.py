"""Ultra Ethernet's objects on a small cluster, as a graph: who owns what, what is wired to what, and fabric planes.

- FI, fabric interface: a NIC that speaks Ultra Ethernet, with one or two ports. All its endpoints share its MAC.
- FEP, fabric endpoint: ends the transport protocol on one port of an FI, at its fabric address (FA).
- PDC, packet delivery context: delivers packets from one FEP to another, one way. CCC, congestion control context:
  sets the rate of a PDC; one of each here.
- PID: a process, which runs on a GPU and is given FEPs by the FI. VAS: the memory that is registered for it, by its
  process address space identifier (PASID).
- Plane: FEPs that reach each other over the same switches.

Node attributes: kind (node, gpu, process, vas, fi, port, fep, leaf, spine) and node (where it is, None for switches);
fep has address. Edge attributes: kind (holds, runs, registers, gives, ends, link); a link to a leaf has leaf_port.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations, product

import networkx as nx
import pandas as pd

_SWITCHES = ("leaf", "spine")


@dataclass(frozen=True)
class FabricEndpoint:
    """A FEP and all that belongs to it, each by its name.

    name, address: of the FEP, and its FA.
    node, gpu, interface, port: node, GPU, FI and port of the FI.
    leaf, leaf_port: the switch and its interface at the other end.
    process, address_space: PID and PASID.
    """

    name: str
    address: str
    node: str
    gpu: str
    interface: str
    port: str
    leaf: str
    leaf_port: str
    process: str
    address_space: str


@dataclass(frozen=True)
class UltraEthernetSystem:
    """FEPs, and spines that each join all leaf switches."""

    endpoints: Sequence[FabricEndpoint]
    spines: Sequence[str]

    def graph(self) -> nx.Graph:
        """The system as a graph, as the module describes it."""
        graph = nx.Graph(name="Ultra Ethernet system")
        for endpoint in self.endpoints:
            graph.add_node(endpoint.node, kind="node", node=endpoint.node)
            for kind, name in (("gpu", endpoint.gpu), ("process", endpoint.process), ("vas", endpoint.address_space)):
                graph.add_node(name, kind=kind, node=endpoint.node)
            for kind, name in (("fi", endpoint.interface), ("port", endpoint.port)):
                graph.add_node(name, kind=kind, node=endpoint.node)
            graph.add_node(endpoint.name, kind="fep", node=endpoint.node, address=endpoint.address)
            graph.add_node(endpoint.leaf, kind="leaf", node=None)
            edges = (
                (endpoint.node, endpoint.gpu, "holds"),
                (endpoint.node, endpoint.interface, "holds"),
                (endpoint.interface, endpoint.port, "holds"),
                (endpoint.interface, endpoint.name, "holds"),
                (endpoint.gpu, endpoint.process, "runs"),
                (endpoint.process, endpoint.address_space, "registers"),
                (endpoint.name, endpoint.process, "gives"),
                (endpoint.name, endpoint.port, "ends"),
            )
            for a, b, kind in edges:
                graph.add_edge(a, b, kind=kind)
            graph.add_edge(endpoint.port, endpoint.leaf, kind="link", leaf_port=endpoint.leaf_port)
        leaves = list(dict.fromkeys(endpoint.leaf for endpoint in self.endpoints))
        for spine in self.spines:
            graph.add_node(spine, kind="spine", node=None)
        graph.add_edges_from(product(self.spines, leaves), kind="link")
        return graph

    def delivery_contexts(self) -> pd.DataFrame:
        """PDCs of all pairs of FEPs of different nodes in a plane: columns pdc, ccc, plane, source, target."""
        at: dict[str, FabricEndpoint] = {endpoint.name: endpoint for endpoint in self.endpoints}
        rows: list[tuple] = []
        for plane, members in enumerate(fabric_planes(self.graph()), start=1):
            for source, target in permutations(members, 2):
                if at[source].node != at[target].node:
                    rows.append((f"PDC {len(rows) + 1}", f"CCC {len(rows) + 1}", plane, source, target))
        return pd.DataFrame(rows, columns=["pdc", "ccc", "plane", "source", "target"])

    def table(self) -> pd.DataFrame:
        """A row for each FEP: columns plane, fep and the fields of `FabricEndpoint` but its name."""
        planes = fabric_planes(self.graph())
        number = {name: i for i, members in enumerate(planes, start=1) for name in members}
        rows = [{"plane": number[endpoint.name], "fep": endpoint.name, **vars(endpoint)} for endpoint in self.endpoints]
        return pd.DataFrame(rows).drop(columns="name")


def fabric_planes(graph: nx.Graph, through: Sequence[str] = ("leaf",)) -> list[list[str]]:
    """FEPs by plane: those that links join over switches of these kinds, in the order in which the graph names them.

    through: ("leaf", "spine") where each plane has spines of its own. Spines that are shared would make all one plane.
    """
    kinds = {"fep", "port", *through}
    wired = graph.subgraph([node for node, at in graph.nodes(data=True) if at["kind"] in kinds])
    ends = [node for node in graph if graph.nodes[node]["kind"] == "fep"]
    planes: dict[frozenset, list[str]] = {}
    for end in ends:
        planes.setdefault(frozenset(nx.node_connected_component(wired, end)), []).append(end)
    return list(planes.values())


def longest_way(graph: nx.Graph) -> list[str]:
    """Switches between the two FEPs of different nodes that are farthest apart; the first where several are."""
    kinds = {"fep", "port", *_SWITCHES}
    wired = graph.subgraph(node for node, at in graph.nodes(data=True) if at["kind"] in kinds)
    ends = [node for node, at in graph.nodes(data=True) if at["kind"] == "fep"]
    pairs = [(a, b) for a, b in permutations(ends, 2) if graph.nodes[a]["node"] != graph.nodes[b]["node"]]
    way = max((nx.shortest_path(wired, *pair) for pair in pairs), key=len)
    return [node for node in way if graph.nodes[node]["kind"] in _SWITCHES]
