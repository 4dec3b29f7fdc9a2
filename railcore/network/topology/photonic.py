"""Photonic rails: an optical circuit switch for each rail in place of its packet switches.

Source: photonic2025, Fig. 1.
"""

import math
from dataclasses import dataclass, field

import networkx as nx

from railcore.facts.checks import positive, whole
from railcore.network.topology.rails import platform_value


@dataclass(frozen=True)
class PhotonicRails:
    """HB domains whose GPUs of equal rank share one optical circuit switch (OCS): it joins ports one to one.

    gpus, hb_domain_size [GPUs]; nic_ports: ports of a NIC, each with a circuit of its own at nic_Bps / nic_ports;
    ocs_ports: duplex ports of the circuit switch; nic_Bps, hb_Bps [bytes/s] as in `RailFabric`.
    Raises ValueError where a rail does not fit into its switch.
    """

    gpus: int
    hb_domain_size: int
    ocs_ports: int
    nic_ports: int = 2
    nic_Bps: float = field(default_factory=lambda: platform_value("nic_bandwidth"))
    hb_Bps: float = field(default_factory=lambda: platform_value("hb_bandwidth"))
    hb_switches: int = 1

    def __post_init__(self) -> None:
        for name in ("gpus", "hb_domain_size", "ocs_ports", "nic_ports"):
            object.__setattr__(self, name, int(whole(name, getattr(self, name))))
        whole("hb_switches", self.hb_switches, least=0)
        positive("nic_Bps", self.nic_Bps, "bytes/s")
        positive("hb_Bps", self.hb_Bps, "bytes/s")
        object.__setattr__(self, "hb_domain_size", min(self.hb_domain_size, self.gpus))
        if self.domains * self.nic_ports > self.ocs_ports:
            raise ValueError(
                f"ocs_ports is {self.ocs_ports}, but a rail has {self.domains * self.nic_ports} ports: "
                "take a larger switch, larger HB domains or fewer NIC ports"
            )

    @property
    def domains(self) -> int:
        """HB domains, the last part-filled perhaps."""
        return math.ceil(self.gpus / self.hb_domain_size)

    @property
    def circuit_switches(self) -> int:
        """One for each rail."""
        return self.hb_domain_size

    @property
    def transceivers(self) -> int:
        """One for each NIC port: light passes the circuit switch without conversion."""
        return self.gpus * self.nic_ports

    def graph(self) -> nx.Graph:
        """GPUs, HB switches and circuit switches (kind "ocs"), with an edge for the fibres of each NIC."""
        from railcore.network.topology.graph import hb_domains

        graph = nx.Graph(name="photonic rails")
        hb_domains(graph, self)
        for rail in range(1, self.hb_domain_size + 1):
            name = f"R{rail}.OCS"
            graph.add_node(name, kind="ocs", tier=1, domain=None, rank=None, rail=rail, plane=None, chassis=name)
        for node, at in list(graph.nodes(data=True)):
            if at["kind"] == "gpu":
                edge = {"kind": "host", "tier": 1, "links": self.nic_ports, "bandwidth_Bps": self.nic_Bps}
                graph.add_edge(node, f"R{at['rail']}.OCS", **edge)
        return graph
