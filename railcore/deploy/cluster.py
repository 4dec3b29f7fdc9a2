"""One GPU cluster as five networks: scale-out backend, scale-up, frontend, management, storage.

Each network has its ends, NIC ports, parts, and a graph; the graph of the cluster is the union of the five.
Names count from 1: "D3.GPU2" is GPU 2 of node 3, "D3.NIC2" its NIC, "D3.HB1" the scale-up switch, "D3.Storage" the
storage NIC that the node's GPUs share, "Storage server 2" a machine beside the nodes, "Frontend.T1.S1" a switch.
Node attributes: kind (gpu, nic, hb, switch, server), network ("" for a GPU), domain (node of the cluster), rank, rail,
tier. Edge attributes: kind (pcie, hb, host, trunk), network, tier, links, bandwidth_Bps (one direction, all its links).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import pandas as pd

from railcore import catalog
from railcore.catalog.arguments import Count, NonNegativeInt, PositiveBandwidth, Unbounded, checked
from railcore.catalog.units import show
from railcore.deploy.server import pcie_bandwidth
from railcore.network.switches import SwitchModel, switch_model, usual_networks
from railcore.network.topology.bill_line import Bill
from railcore.network.topology.clos import Parts
from railcore.network.topology.rails import RailFabric, default_bandwidth

if TYPE_CHECKING:
    import networkx as nx

NETWORKS = ("scale-out", "scale-up", "frontend", "management", "storage")
_SERVERS = {"frontend": "Gateway", "management": "Management server", "storage": "Storage server"}


@dataclass(frozen=True)
class ClusterNetwork:
    """One of the networks of a cluster.

    name: of NETWORKS.
    nodes, gpus_per_node: of the cluster.
    port_Bps: of a port, one direction [bytes/s].
    switch: its model; None within the nodes.
    servers: machines beside the nodes, with a port each.
    rails, rails_per_switch, oversubscription: of `RailFabric`. A network of shared NICs is one Clos (rails 1).
    hb_switches: of a node's scale-up network; 0 joins its GPUs pair by pair.
    pcie_Bps: of the link between a GPU or NIC and the rest of its node.
    """

    name: str
    nodes: int
    gpus_per_node: int
    port_Bps: float
    switch: SwitchModel | None = None
    servers: int = 0
    rails: int = 1
    rails_per_switch: int = 1
    oversubscription: float = math.inf
    hb_switches: int = 1
    pcie_Bps: float = math.inf

    def __post_init__(self) -> None:
        _ = self.fabric  # refuses sizes that do not fit

    @property
    def dedicated(self) -> bool:
        """Whether each GPU has a port of its own."""
        return self.name in ("scale-out", "scale-up")

    @property
    def node_ports(self) -> int:
        """Ports of a node: one for each GPU, or one that they share."""
        return self.gpus_per_node if self.dedicated else 1

    @property
    def server_kind(self) -> str:
        """Kind of the machines beside the nodes; "" without any."""
        return _SERVERS[self.name] if self.servers else ""

    @property
    def joins(self) -> str:
        """What the network joins."""
        return {
            "scale-out": "GPUs of different nodes, those of one rank on one rail",
            "scale-up": "GPUs of one node",
            "frontend": "nodes and users, through gateways",
            "management": "nodes and management servers",
            "storage": "nodes and storage servers",
        }[self.name]

    @property
    def nic(self) -> str:
        """What a GPU sends through."""
        if self.name == "scale-up":
            return "links of the GPU"
        return "a NIC for each GPU" if self.dedicated else f"one NIC for {self.gpus_per_node} GPUs"

    @property
    def endpoints(self) -> int:
        """Ports that the network joins."""
        return self.nodes * self.node_ports + self.servers

    @property
    def node_Bps(self) -> float:
        """Bandwidth of a node into the network, one direction [bytes/s]."""
        return self.node_ports * self.port_Bps

    @property
    def alone_Bps(self) -> float:
        """Bandwidth of a GPU that sends alone, one direction [bytes/s]: its NIC's or PCIe link's, the slower one."""
        if self.name == "scale-up":
            return self.port_Bps
        return min(self.port_Bps if self.dedicated else self.node_Bps, self.pcie_Bps)

    @property
    def gpu_Bps(self) -> float:
        """Bandwidth of a GPU while all GPUs of its node send, one direction [bytes/s]."""
        return self.alone_Bps if self.dedicated else self.alone_Bps / self.gpus_per_node

    @property
    def warnings(self) -> tuple[str, ...]:
        """What limits a GPU below the speed of its NIC."""
        speed = self.port_Bps if self.dedicated else self.node_Bps
        if self.name == "scale-up" or speed <= self.pcie_Bps * (1 + 1e-9):
            return ()
        rates = [show(rate, "bps", 4) for rate in (speed, self.pcie_Bps)]
        return (f"The {self.name} NIC has {rates[0]}, its PCIe link carries {rates[1]}: this is what a GPU gets.",)

    @cached_property
    def fabric(self) -> RailFabric | None:
        """Its switches; None within the nodes."""
        if self.switch is None:
            return None
        radix = self.switch.ports * self.switch.ports_of_interface(self.port_Bps)
        if self.name == "scale-out":
            named: dict[str, Any] = {"rails": self.rails, "rails_per_switch": self.rails_per_switch}
            sizes = (self.endpoints, self.gpus_per_node, radix, self.oversubscription)
            return RailFabric(*sizes, nic_Bps=self.port_Bps, **named)
        return RailFabric(self.endpoints, 1, radix, rails=1, nic_Bps=self.port_Bps, hb_switches=0)

    @property
    def parts(self) -> Parts | None:
        """Switches and links; None within the nodes."""
        return self.fabric.parts if self.fabric else None

    @cached_property
    def bill(self) -> Bill:
        """Its lines; empty within the nodes. Host links of the management network are copper, all others optical.

        The rate of a port is its share of the switch's interface. NICs and scale-up links come with the servers and are
        not listed.
        """
        if self.fabric is None or self.switch is None:
            return ()
        port_Bps = self.switch.port_Bps / self.switch.ports_of_interface(self.port_Bps)
        lines = []
        for line in self.fabric.parts.bill(copper_tiers=int(self.name == "management")):
            rate_Bps, item = (port_Bps, self.switch.name) if line.part == "switch" else (self.port_Bps, "")
            lines.append(replace(line, network=self.name, rate_Bps=rate_Bps, item=item))
        return tuple(lines)

    def graph(self) -> "nx.Graph":
        """The network with the GPUs that it serves, as the module describes it."""
        import networkx as nx

        from railcore.network.topology.graph import check_size

        check_size(self.nodes * self.gpus_per_node)
        graph = nx.Graph(name=self.name)
        for d in range(1, self.nodes + 1):
            for j in range(1, self.gpus_per_node + 1):
                graph.add_node(f"D{d}.GPU{j}", kind="gpu", network="", domain=d, rank=j, rail=None, tier=0)
        if self.fabric is None:
            self._add_scale_up(graph)
        else:
            self._add_fabric(graph, self.fabric.graph())
        return graph

    def _add_scale_up(self, graph: "nx.Graph") -> None:
        at = {"kind": "hb", "network": self.name, "tier": -1, "links": 1}
        for d in range(1, self.nodes + 1):
            gpus = [f"D{d}.GPU{j}" for j in range(1, self.gpus_per_node + 1)]
            for s in range(1, self.hb_switches + 1):
                name, share = f"D{d}.HB{s}", self.port_Bps / self.hb_switches
                graph.add_node(name, kind="hb", network=self.name, domain=d, rank=None, rail=None, tier=-1)
                graph.add_edges_from(((gpu, name) for gpu in gpus), **at, bandwidth_Bps=share)
            if not self.hb_switches:
                link_Bps = self.port_Bps / max(self.gpus_per_node - 1, 1)
                graph.add_edges_from(combinations(gpus, 2), **at, bandwidth_Bps=link_Bps)

    def _add_fabric(self, graph: "nx.Graph", fabric: "nx.Graph") -> None:
        names, label = {}, self.name.capitalize()
        for node, at in fabric.nodes(data=True):
            if at["kind"] == "switch":
                names[node] = f"{label}.{node if self.dedicated else node.removeprefix('R1.')}"
                place = {"domain": None, "rank": None, "rail": at["rail"] if self.dedicated else None}
                graph.add_node(names[node], kind="switch", network=self.name, **place, tier=at["tier"])
            elif at["kind"] == "gpu":
                names[node] = self._port_owner(graph, at["domain"], at["rank"])
        for a, b, at in fabric.edges(data=True):
            if at["kind"] == "hb":
                continue
            ends = names[a], names[b]
            joined = graph.edges[ends] if graph.has_edge(*ends) else {"links": 0, "bandwidth_Bps": 0.0}
            links, speed = joined["links"] + at["links"], joined["bandwidth_Bps"] + at["bandwidth_Bps"]
            graph.add_edge(*ends, kind=at["kind"], network=self.name, tier=at["tier"], links=links, bandwidth_Bps=speed)
        for nic in [node for node, at in graph.nodes(data=True) if at["kind"] == "nic"]:
            d, j = graph.nodes[nic]["domain"], graph.nodes[nic]["rank"]
            link = {"kind": "pcie", "network": self.name, "tier": 0, "links": 1, "bandwidth_Bps": self.pcie_Bps}
            graph.add_edges_from(
                ((f"D{d}.GPU{rank}", nic) for rank in ((j,) if j else range(1, self.gpus_per_node + 1))), **link
            )

    def _port_owner(self, graph: "nx.Graph", domain: int, rank: int) -> str:
        """The NIC or server of an endpoint of the fabric, added to the graph."""
        at = {"network": self.name, "rail": None, "tier": 0}
        if self.dedicated:
            name, place = f"D{domain}.NIC{rank}", {"kind": "nic", "domain": domain, "rank": rank}
        elif domain <= self.nodes:
            name, place = f"D{domain}.{self.name.capitalize()}", {"kind": "nic", "domain": domain, "rank": None}
        else:
            name = f"{self.server_kind} {domain - self.nodes}"
            place = {"kind": "server", "domain": None, "rank": None}
        graph.add_node(name, **place, **at)
        return name


def _typical_Bps(network: str) -> float:
    return catalog.item("cluster_networks", network)["bandwidth"]


@checked
@dataclass(frozen=True)
class Cluster:
    """GPU nodes and their five networks; speeds are of a port, one direction [bytes/s], by default the catalog's.

    nodes, gpus_per_node: sizes of the cluster.
    rails: of the backend; 0 for one for each GPU of a node.
    rails_per_switch: rails that share a switch.
    oversubscription: of the switches that join rails; by default no switches join them.
    nic_Bps: of the NIC of a GPU.
    hb_Bps, hb_switches: of a GPU in its node (scale-up).
    pcie_generation: of the links, 16 lanes each, between GPUs and NICs.
    frontend_Bps, management_Bps, storage_Bps: of a port of a node in the network that its GPUs share.
    gateways, management_servers, storage_servers: machines beside the nodes.
    switches: switch models by network, in place of the usual ones.

    Raises UnknownName for a network that does not exist, and ValueError for sizes that its switches do not fit.
    """

    nodes: Count
    gpus_per_node: Count
    rails: NonNegativeInt = 0
    rails_per_switch: NonNegativeInt = 1
    oversubscription: Unbounded = math.inf
    nic_Bps: PositiveBandwidth = field(default_factory=lambda: _typical_Bps("scale-out"))
    hb_Bps: PositiveBandwidth = field(default_factory=lambda: default_bandwidth("hb"))
    hb_switches: NonNegativeInt = 1
    pcie_generation: NonNegativeInt = 5
    frontend_Bps: PositiveBandwidth = field(default_factory=lambda: _typical_Bps("frontend"))
    management_Bps: PositiveBandwidth = field(default_factory=lambda: _typical_Bps("management"))
    storage_Bps: PositiveBandwidth = field(default_factory=lambda: _typical_Bps("storage"))
    gateways: Count = 1
    management_servers: Count = 1
    storage_servers: Count = 1
    switches: Mapping[str, SwitchModel] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if unknown := [key for key in self.switches if key not in NETWORKS]:
            raise catalog.UnknownName("network of switches", unknown[0], NETWORKS)
        if "scale-up" in self.switches:
            raise ValueError("switches has 'scale-up', which is within the nodes: give hb_switches")
        _ = self.networks  # refuses sizes that do not fit

    @property
    def gpus(self) -> int:
        """GPUs of the cluster."""
        return self.nodes * self.gpus_per_node

    @cached_property
    def networks(self) -> dict[str, ClusterNetwork]:
        """The five networks by name."""
        rails = {name: getattr(self, name) for name in ("rails", "rails_per_switch", "oversubscription")}
        by_name: dict[str, dict[str, Any]] = {
            "scale-out": {"port_Bps": self.nic_Bps, **rails},
            "scale-up": {"port_Bps": self.hb_Bps, "hb_switches": self.hb_switches},
            "frontend": {"port_Bps": self.frontend_Bps, "servers": self.gateways},
            "management": {"port_Bps": self.management_Bps, "servers": self.management_servers},
            "storage": {"port_Bps": self.storage_Bps, "servers": self.storage_servers},
        }
        size: dict[str, Any] = {"nodes": self.nodes, "gpus_per_node": self.gpus_per_node}
        size["pcie_Bps"] = pcie_bandwidth(self.pcie_generation)
        return {
            name: ClusterNetwork(name=name, **size, **by_name[name], switch=self._switch(name)) for name in NETWORKS
        }

    @property
    def bill(self) -> Bill:
        """Lines of all its networks."""
        return tuple(line for network in self.networks.values() for line in network.bill)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd but allowed."""
        return tuple(text for network in self.networks.values() for text in network.warnings)

    def _switch(self, network: str) -> SwitchModel | None:
        if network in self.switches or network == "scale-up":
            return self.switches.get(network)
        if network == "management":
            item = catalog.item("cluster_networks", network)
            ports, speed = int(item["switch_ports"]), self.management_Bps
            return SwitchModel(f"{ports} x {show(speed, 'bps')}", ports, speed)
        return switch_model(usual_networks()[network]["switch"])

    def graph(self, *names: str) -> "nx.Graph":
        """The graph of these networks together, by default of all."""
        import networkx as nx

        graph = nx.compose_all([self.networks[name].graph() for name in names or NETWORKS])
        graph.graph["name"] = ", ".join(names or ["all networks"])
        return graph


def network_table(cluster: Cluster) -> pd.DataFrame:
    """What each network of a cluster joins, its bandwidth, and how it is run.

    Columns network, joins, nic, endpoints, node_ports, port_Bps, node_Bps, alone_Bps and gpu_Bps (of a GPU that sends
    alone, and while all of its node send; one direction), and technology, transport, control_plane, data_plane,
    isolation, lossless and flows, as usual.
    """
    columns = "joins nic endpoints node_ports port_Bps node_Bps alone_Bps gpu_Bps".split()
    run = "technology transport control_plane data_plane isolation lossless flows".split()
    rows = []
    for name, network in cluster.networks.items():
        usual = usual_networks()[name]
        row = {"network": name} | {column: getattr(network, column) for column in columns}
        rows.append(row | {column: usual[column] for column in run})
    return pd.DataFrame(rows).assign(lossless=lambda table: table["lossless"] == "yes")


def network_links(graph: "nx.Graph") -> pd.DataFrame:
    """Links of a graph of networks: columns network, from, to, kind, links, bandwidth_Bps (one direction)."""
    import networkx as nx

    return nx.to_pandas_edgelist(graph, "from", "to")[["network", "from", "to", "kind", "links", "bandwidth_Bps"]]
