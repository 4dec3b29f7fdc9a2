"""Copies between rails over HB links (NVLink), and pods that need no spines because HB links join their rails."""

import math
from dataclasses import replace
from itertools import pairwise

import networkx as nx
import pandas as pd

from railcore.engines.deployment.segments import SegmentFabric
from railcore.facts.arguments import Quantity, checked
from railcore.facts.checks import whole
from railcore.facts.units import Gbps
from railcore.network.switches import SwitchModel


def path_transfers(graph: nx.Graph, path: list[str]) -> pd.DataFrame:
    """The transfers from GPU to GPU that a path of `graph.route` is made of, one row each.

    Columns from, to: GPUs; network: "scale-up" within an HB domain (scale-up or NVLink domain), "scale-out" over
    switches; rail: over which it leaves, 0 for scale-up; switches on its way. Raises ValueError for a path whose
    ends are no GPUs.
    """
    stops = [i for i, node in enumerate(path) if graph.nodes[node]["kind"] == "gpu"]
    if stops[:1] != [0] or stops[-1] != len(path) - 1:
        raise ValueError(f"path is {path!r}: give one that begins and ends with a GPU, as route does")
    rows = []
    for start, end in pairwise(stops):
        inside = graph.edges[path[start], path[start + 1]]["kind"] == "hb"
        rail = 0 if inside else graph.nodes[path[start]]["rail"]
        switches = 0 if inside else end - start - 1
        rows.append((path[start], path[end], "scale-up" if inside else "scale-out", rail, switches))
    return pd.DataFrame(rows, columns=["from", "to", "network", "rail", "switches"])


@checked
def servers_without_spines(
    switch: SwitchModel,
    rails_per_switch: int,
    nic_ports: int = 1,
    homing: int = 0,
    port_Bps: Quantity = 400 * Gbps,
    breakout: bool = True,
) -> int:
    """Most servers whose GPUs all reach each other without spines: HB links join the rails, a switch each rail.

    n r p / h <= ports of the switch at their speed; n servers, r rails a switch, p NIC ports over h switches.

    Parameters
    ----------
    switch
        Model of the rail switches.
    rails_per_switch
        Rails r of a switch.
    nic_ports, homing
        Ports p of a NIC, and the switches h that they go to, by default each to another.
    port_Bps
        Of a NIC port, one direction [bytes/s].
    breakout
        Whether an interface may hold several slower ports.

    Returns
    -------
    Servers n; 0 where not even one fits.

    Raises
    ------
    ValueError
        A count below 1, ports that do not divide, or a port faster than the switch's interfaces.
    """
    homing = homing or nic_ports
    for name, count in (("rails_per_switch", rails_per_switch), ("nic_ports", nic_ports), ("homing", homing)):
        whole(name, count, 1)
    if nic_ports % homing:
        raise ValueError(f"homing is {homing}, which does not divide the nic_ports, {nic_ports}: give a divisor")
    ports = switch.ports * (switch.ports_of_interface(port_Bps) if breakout else 1)
    return ports // (rails_per_switch * nic_ports // homing)


def pods_without_spines(fabric: SegmentFabric) -> pd.DataFrame:
    """Whether a pod's GPUs all reach each other without its spines, for each number of rails on a switch.

    One row for the pod as it is and one for each divisor r of the rails, with all its servers in one segment: every
    rail then is one switch, or the switches that a NIC is homed to. Counted by ports, and beside it on the graph.

    Columns design, rails_per_switch, segments; rail_switches; host_ports: that a switch needs; switch_ports: that it
    has at their speed; needs_spines: by counting, where one segment does not hold all servers; apart_forwarding,
    apart_network: share of pairs of GPUs that cannot reach each other without spines, with HB links as a way between
    rails and without (NaN where the switches have too few ports).
    """
    pod = replace(fabric, pods=1, super_spines=0, super_spine=None, super_spine_links=1, super_spine_planes=1)
    cases = [(pod.rails_per_switch, pod.servers, pod.segments)]
    divisors = [n for n in range(pod.rails, 0, -1) if pod.rails % n == 0]
    cases += [(r, pod.servers * pod.segments, 1) for r in divisors if pod.segments > 1 or r != pod.rails_per_switch]
    rows: list[dict[str, object]] = []
    for r, servers, segments in cases:
        of_switch = (pod.rail_switch, r, pod.nic_ports, pod.homing, pod.port_Bps, pod.breakout)
        most, each = servers_without_spines(*of_switch), r * (pod.nic_ports // pod.homing)
        has = pod.rail_switch.ports * (pod.rail_switch.ports_of_interface(pod.port_Bps) if pod.breakout else 1)
        apart = (math.nan, math.nan)
        if segments > 1:
            apart = pairs_apart(pod.graph())
        elif servers <= most:
            alone = replace(pod, servers=servers, segments=1, rails_per_switch=r, spines=0, spine_links=1, routed=False)
            apart = pairs_apart(alone.graph())
        rows.append(
            {
                "design": "one segment" if rows else "as built",
                "rails_per_switch": r,
                "segments": segments,
                "rail_switches": pod.rails // r * pod.homing * segments,
                "host_ports": servers * each,
                "switch_ports": has,
                "needs_spines": segments > 1 or servers > most,
                "apart_forwarding": apart[0],
                "apart_network": apart[1],
            }
        )
    return pd.DataFrame(rows)


def pairs_apart(graph: nx.Graph) -> tuple[float, float]:
    """Share of a fabric's pairs of GPUs that cannot reach each other without its switches above tier 1.

    The first with HB domains as a way (a GPU forwards to its neighbour over NVLink), the second over the network alone.
    """
    below = nx.subgraph_view(graph, filter_node=lambda node: graph.nodes[node]["tier"] < 2)
    network = nx.subgraph_view(below, filter_edge=lambda a, b: graph.edges[a, b]["kind"] != "hb")
    return _apart(below), _apart(network)


def _apart(graph: nx.Graph) -> float:
    parts = [sum(graph.nodes[node]["kind"] == "gpu" for node in part) for part in nx.connected_components(graph)]
    gpus = sum(parts)
    return 1 - sum(n * (n - 1) for n in parts) / (gpus * (gpus - 1)) if gpus > 1 else 0.0
