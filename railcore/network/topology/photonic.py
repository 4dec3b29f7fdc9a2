"""Photonic rails: GPUs of equal rank behind optical circuit switches (OCS), which join their ports one to one.

A NIC is split into ports. Each fibre of a port takes a port of the circuit switch: one fibre with a bidirectional
transceiver, two with one fibre each way, eight with four lanes side by side each way. Light passes a circuit switch
unchanged, so no transceiver stands at its ports.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from railcore.catalog.arguments import Count, Few, NonNegativeInt, checked
from railcore.catalog.checks import Floats, Ints
from railcore.network.topology.bill_line import Bill, BillLine
from railcore.network.topology.clos import rail_size
from railcore.network.topology.rails import HBDomains

if TYPE_CHECKING:
    import networkx as nx

_RING_WARNINGS = {  # by what `ring_lengths` gives
    "none": "A NIC of one port has one circuit at a time: it joins GPUs in pairs, not in rings.",
    "even": "The two ports of a NIC are on two switches, and the links of a ring take them in turn: only rings of an "
    "even number of GPUs close.",
}


@dataclass(frozen=True)
class CircuitParts:
    """Parts of photonic rails; every field has the broadcast shape of the arguments.

    rail_ports: circuit-switch ports that a rail takes in one plane.
    reach: GPUs of the largest cluster whose rails fit.
    rails_per_switch: rails of a circuit switch; NaN where a rail does not fit.
    switches: of all planes; NaN where a rail does not fit.
    switch_ports: of all these switches, used or not; NaN where a rail does not fit.
    used_ports: those with a fibre.
    transceivers: of the NICs.
    """

    rail_ports: Ints
    reach: Ints
    rails_per_switch: Floats
    switches: Floats
    switch_ports: Floats
    used_ports: Ints
    transceivers: Ints

    def bill(self, whole_switches: bool = True) -> Bill:
        """Its lines: circuit switches with all their ports, or with those alone that have a fibre; optics of the NICs.

        Light passes a circuit switch: no optics at its ports. Fibres are left out. NaN as `switch_ports`.
        """
        ports = self.switch_ports if whole_switches else self.used_ports.astype(float)
        return (
            BillLine("circuit switch", "switches", ports, self.switches, 1),
            BillLine("transceiver", "host optics", self.transceivers, tier=1),
        )


def _ports_in_plane(nic_ports: ArrayLike, planes: ArrayLike, fibres_per_port: ArrayLike) -> Ints:
    """Circuit-switch ports of a GPU in one plane."""
    ports, split = np.asarray(nic_ports), np.asarray(planes)
    if np.any(ports % split):
        raise ValueError(f"planes is {planes!r}, but a NIC has {nic_ports!r} ports: give a number that divides them")
    return ports // split * np.asarray(fibres_per_port)


def rings_of_ports(ports: int, fibres_per_port: int = 1) -> int:
    """Rings that so many ports of a NIC hold: with one fibre a port a ring takes two ports, else one."""
    return ports if fibres_per_port > 1 else ports // 2


def ring_lengths(nic_ports: int, planes: int = 1, fibres_per_port: int = 1) -> Literal["any", "even", "none"]:
    """Which rings circuits can close: of "any" number of GPUs, of an "even" number, or "none".

    With one fibre a port, a ring takes two ports of a GPU. With two ports, each on a switch of its own, a ring changes
    the switch at every GPU, so that only even rings close; a third switch helps. With a fibre each way a ring takes one
    port.
    """
    if fibres_per_port > 1 or nic_ports > 2 or planes < nic_ports:
        return "any"
    return "even" if nic_ports == 2 else "none"


def ring_warnings(nic_ports: int, planes: int = 1, fibres_per_port: int = 1) -> tuple[str, ...]:
    """A text where not every ring closes: `ring_lengths`."""
    lengths = ring_lengths(nic_ports, planes, fibres_per_port)
    return () if lengths == "any" else (_RING_WARNINGS[lengths],)


def circuit_reach(
    hb_domain_size: ArrayLike,
    ocs_ports: ArrayLike,
    nic_ports: ArrayLike = 2,
    planes: ArrayLike = 1,
    fibres_per_port: ArrayLike = 1,
) -> Ints:
    """GPUs of the largest cluster with one circuit switch a rail and plane: K floor(ports of a switch / of a GPU).

    Parameters
    ----------
    hb_domain_size
        GPUs of an HB domain (scale-up or NVLink domain), K.
    ocs_ports
        Ports of the circuit switch.
    nic_ports, planes, fibres_per_port
        As in `circuit_parts`.

    Returns
    -------
    GPUs; 0 where a GPU has more ports than the switch.

    References
    ----------
    photonic2025, Table 3: K x radix / 2 with two ports.
    """
    ports = _ports_in_plane(nic_ports, planes, fibres_per_port)
    return np.asarray(hb_domain_size) * (np.asarray(ocs_ports) // ports)


def circuit_parts(
    gpus: ArrayLike,
    hb_domain_size: ArrayLike,
    ocs_ports: ArrayLike,
    nic_ports: ArrayLike = 2,
    planes: ArrayLike = 1,
    fibres_per_port: ArrayLike = 1,
    transceivers_per_gpu: ArrayLike = 0,
    rails_per_switch: ArrayLike | None = None,
) -> CircuitParts:
    """Whole parts of photonic rails, one for each element of the broadcast arguments.

    Parameters
    ----------
    gpus, hb_domain_size
        GPUs of the cluster and of an HB domain (scale-up or NVLink domain); one rail for each GPU of a domain.
    ocs_ports
        Ports of a circuit switch.
    nic_ports
        Ports of a NIC, each with a circuit of its own.
    planes
        Sets of switches over which the ports of a NIC are spread evenly; as many as ports: each port on a switch of its
        own.
    fibres_per_port
        Fibres of a NIC's port, each in a port of the switch: 1 with bidirectional transceivers, 2 with one each way.
    transceivers_per_gpu
        Transceivers of a NIC; 0 for one for each port, 1 for one whose ports are broken out.
    rails_per_switch
        Most rails that share a switch; None for as many as fit.

    Returns
    -------
    Parts; NaN in the fields of switches where a rail does not fit.

    Raises
    ------
    ValueError
        The planes do not divide the ports of a NIC.
    """
    n, radix, split, ports = (np.asarray(count) for count in (gpus, ocs_ports, planes, nic_ports))
    domain, in_plane = np.minimum(hb_domain_size, n), _ports_in_plane(nic_ports, planes, fibres_per_port)
    rail_ports = rail_size(n, domain, domain) * in_plane
    held = np.minimum(radix // rail_ports, domain)
    if rails_per_switch is not None:
        held = np.minimum(held, rails_per_switch)
    fits = held > 0
    switches = np.where(fits, split * np.ceil(domain / np.where(fits, held, 1)), np.nan)
    parts = (
        rail_ports,
        circuit_reach(domain, radix, nic_ports, planes, fibres_per_port),
        np.where(fits, held, np.nan),
        switches,
        switches * radix,
        n * in_plane * split,
        n * np.where(transceivers_per_gpu, transceivers_per_gpu, ports),
    )
    return CircuitParts(*np.broadcast_arrays(*parts))


@checked
@dataclass(frozen=True)
class PhotonicRails(HBDomains):
    """HB domains whose GPUs of equal rank share optical circuit switches (OCS), which join ports one to one.

    gpus: of the cluster.
    hb_domain_size: GPUs of an HB domain (scale-up or NVLink domain).
    ocs_ports: of a circuit switch.
    nic_ports: of a NIC, each with a circuit of its own at nic_Bps / nic_ports.
    planes: over which the NIC ports are spread, each with circuit switches of its own.
    fibres_per_port: of a NIC port, each on a port of the circuit switch: 2 where the directions have one each.
    transceivers_per_gpu: of its NIC; 0 for one for each NIC port.
    rails_per_switch: 1 by default, a switch for each rail and plane; None for as many as fit.
    nic_Bps: of a GPU's NIC, one direction [bytes/s]; None: a job takes its machine's.
    hb_Bps: of a GPU into its HB domain, one direction [bytes/s]; None: a job takes its machine's.
    hb_switches: of a domain, each joining all its GPUs; 0 for a full mesh of GPUs.

    Raises ValueError where a rail does not fit into its switch, with the largest cluster. Source: photonic2025, Fig. 1.

    Examples
    --------
    >>> import railcore as rc
    >>> rails = rc.PhotonicRails(gpus=512, hb_domain_size=8, ocs_ports=128, nic_Bps="400 Gbps")
    >>> int(rails.parts.switches), int(rails.parts.transceivers)
    (8, 1024)
    """

    ocs_ports: NonNegativeInt
    nic_ports: Few = 2
    planes: Few = 1
    fibres_per_port: Few = 1
    transceivers_per_gpu: NonNegativeInt = 0
    rails_per_switch: Count | None = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if math.isnan(float(self.parts.switches)):
            raise ValueError(self._refusal())
        if self.domains > 2:
            rings = ring_warnings(self.nic_ports, self.planes, self.fibres_per_port)
            object.__setattr__(self, "warnings", (*self.warnings, *rings))

    def _refusal(self) -> str:
        """What is too much for one switch, the largest cluster, and what would do."""
        ports, nic_ports = int(self.parts.rail_ports), self.nic_ports
        text = (
            f"ocs_ports is {self.ocs_ports}, but a rail has {ports} ports: the largest cluster has "
            f"{int(self.parts.reach):,} GPUs. Take a larger switch, larger HB domains or fewer NIC ports"
        )
        if self.planes == nic_ports:
            return text
        cluster = self.gpus, self.hb_domain_size, self.ocs_ports
        spread = circuit_parts(*cluster, nic_ports, planes=nic_ports, fibres_per_port=self.fibres_per_port)
        does = f"reaches {int(spread.reach):,} GPUs"
        if not math.isnan(float(spread.switches)):
            does += f" and takes {int(spread.switches):,} switches here"
        return f"{text}. planes={nic_ports}, each port of a NIC on a switch of its own, {does}"

    @cached_property
    def parts(self) -> CircuitParts:
        """Whole parts, all planes together."""
        names = "gpus hb_domain_size ocs_ports nic_ports planes fibres_per_port transceivers_per_gpu rails_per_switch"
        return circuit_parts(**{name: getattr(self, name) for name in names.split()})

    @property
    def rails(self) -> int:
        """Rails, one for each GPU of an HB domain."""
        return self.hb_domain_size

    @property
    def transceivers(self) -> int:
        """Of the NICs alone: light passes the circuit switches without conversion."""
        return int(self.parts.transceivers)

    def graph(self) -> "nx.Graph":
        """GPUs, HB switches and circuit switches (kind "ocs", one for each rail and plane), with each NIC's fibres.

        Rails that share a circuit switch have a node each; their chassis is that switch.
        """
        import networkx as nx

        from railcore.network.topology.graph import add_hb_domains

        graph = nx.Graph(name="photonic rails")
        add_hb_domains(graph, self, self.hb_rate_Bps)
        on_rail: dict[int, list[str]] = {rail: [] for rail in range(1, self.rails + 1)}
        for node, at in graph.nodes(data=True):
            if at["kind"] == "gpu":
                on_rail[at["rail"]].append(node)
        shared, ports = int(self.parts.rails_per_switch), int(self.parts.used_ports) // self.gpus // self.planes
        fibres = {"kind": "host", "tier": 1, "links": ports, "bandwidth_Bps": self.nic_rate_Bps / self.planes}
        for number in range(1, self.planes + 1):
            before, plane = (f"P{number}.", number) if self.planes > 1 else ("", None)
            for rail, gpus in on_rail.items():
                name = f"{before}R{rail}.OCS"
                chassis = f"{before}R{rail - (rail - 1) % shared}.OCS"  # named after its first rail
                at = {"kind": "ocs", "tier": 1, "domain": None, "rank": None, "rail": rail, "plane": plane}
                graph.add_node(name, **at, chassis=chassis)
                graph.add_edges_from(((gpu, name) for gpu in gpus), **fibres)
        return graph
