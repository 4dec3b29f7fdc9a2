"""What one failed part cuts off: NICs, GPUs, bandwidth and routes on the graph; at any size in closed form."""

import math
from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd

from railcore.catalog.arguments import checked
from railcore.catalog.units import convert
from railcore.network.topology.graph import rail_bisection_bandwidth, same_rail_switches
from railcore.network.topology.rails import RailFabric, rail_only, rail_optimized
from railcore.network.topology.reach import connected_gpus, rail_flow, switches_on_the_way
from railcore.network.topology.wiring import Wiring, whole_wiring

FAULT_KINDS = ("GPU", "NIC", "host link", "rail switch", "trunk link", "spine", "HB switch", "HB domain")


def failed_part(graph: nx.Graph, kind: str) -> tuple[list[Any], list[Any]]:
    """One part of a kind, the first in name order that serves GPU 1 of domain 1: (nodes, edges) that fail with it.

    kind: of FAULT_KINDS. A spine is a switch above tier 1; a trunk link is one link of the trunk that leaves the first
    rail switch. Empty where the fabric has no such part.
    """
    gpu = "D1.GPU1"
    hosts = [(gpu, other) for other in graph[gpu] if graph.edges[gpu, other]["kind"] == "host"]
    leaves = [leaf for _, leaf in hosts]
    trunks = [(leaf, up) for leaf in leaves[:1] for up in graph[leaf] if graph.edges[leaf, up]["kind"] == "trunk"]
    hb = [other for other in graph[gpu] if graph.nodes[other]["kind"] == "hb"]
    chassis = nx.get_node_attributes(graph, "chassis")  # the box that a switch is in: with VLANs, one for several nodes
    parts: dict[str, tuple[list[Any], list[Any]]] = {
        "GPU": ([gpu], []),
        "NIC": ([], hosts),
        "host link": ([], hosts[:1]),
        "rail switch": ([node for node in chassis if leaves and chassis[node] == chassis[leaves[0]]], []),
        "trunk link": ([], trunks[:1]),
        "spine": ([up for _, up in trunks[:1]], []),
        "HB switch": (hb[:1], []),
        "HB domain": ([node for node, at in graph.nodes(data=True) if at["domain"] == 1], []),
    }
    return parts[kind]


def fail(graph: nx.Graph, kind: str) -> nx.Graph:
    """The graph without one part of a kind. A trunk of several links loses one; a trunk of one link is removed."""
    nodes, edges = failed_part(graph, kind)
    left = graph.copy()
    left.remove_nodes_from(nodes)
    for a, b in edges:
        at = left.edges[a, b]
        if at["links"] > 1 and kind != "NIC":
            share = (at["links"] - 1) / at["links"]
            at.update(links=at["links"] - 1, bandwidth_Bps=at["bandwidth_Bps"] * share)
        else:
            left.remove_edge(a, b)
    return left


def _left(has: float, had: float) -> float:
    """Share that is left, 1 of nothing."""
    return has / had if had else 1.0


def wiring_left(whole: Wiring, kind: str) -> Wiring | None:
    """What is left of a fabric's wiring without the part that `failed_part` names; None where it has no such part."""
    fabric, leaf = whole.fabric, whole.leaf
    if kind in ("GPU", "HB domain"):
        return whole.without_gpus(1 if kind == "GPU" else fabric.hb_domain_size)
    if kind == "HB switch":
        if not fabric.hb_switches or fabric.hb_domain_size == 1:
            return None
        return replace(whole, hb_share=np.where(whole.domain, 1.0, 1 - 1 / fabric.hb_switches))
    if not fabric.tiers:
        return None
    if kind in ("NIC", "host link"):
        left = leaf.copy()
        left[:: 1 if kind == "NIC" else fabric.planes, 0] = -1
        return replace(whole, leaf=left)
    first, names = int(leaf[0, 0]), np.arange(len(whole.switches))
    if kind == "rail switch":
        chassis = whole.switches[first].chassis
        return whole.without_switches(np.array([switch.chassis == chassis for switch in whole.switches]))
    trunk = np.flatnonzero(whole.lower == first)[:1]
    if not trunk.size:
        return None
    if kind == "spine":
        return whole.without_switches(names == whole.upper[trunk])
    return replace(whole, links=whole.links - (np.arange(whole.links.size) == trunk))


def cut_from_network(whole: Wiring, left: Wiring) -> np.ndarray:
    """Live GPUs whose NIC has lost every link."""
    return np.flatnonzero(left.gpu_works & (whole.leaf >= 0).any(axis=0) & (left.leaf < 0).all(axis=0))


@checked
def fault_effects(fabric: RailFabric) -> pd.DataFrame:
    """What is left when one part fails, a row for each kind of part that the fabric has.

    Parameters
    ----------
    fabric
        Of `rail_only`, `rail_optimized` or `fat_tree`.

    Returns
    -------
    Columns fabric and fault; gpus_failed; nics_cut (live GPUs without a NIC link); gpus_cut_off (live GPUs that not
    even their HB domain connects to the largest remaining part). Shares left of what there was, where 1 is all:
    domain_nic_bandwidth (all NICs of the domain that is worst off, failed GPUs not counted), hb_bandwidth (of the
    live GPU that is worst off), rail_bisection (between the halves of the live endpoints of rail 1, network only).
    switches_before and switches_after on the way from GPU 1 of domain 1 to GPU 1 of the last domain, NaN where one
    of them is gone or cut off.

    Examples
    --------
    >>> import railcore as rc
    >>> table = rc.fault_effects(rc.rail_only(64, 8, 16))
    >>> print(table[["fault", "nics_cut"]].to_string(index=False))
          fault  nics_cut
            GPU         0
            NIC         1
      host link         1
    rail switch         8
      HB switch         0
      HB domain         0
    """
    whole, rows = whole_wiring(fabric), []
    before, flows = switches_on_the_way(whole), dict[bytes, int]()
    for kind in FAULT_KINDS:
        if (left := wiring_left(whole, kind)) is None:
            continue
        live, on_rail = left.gpu_works, np.arange(fabric.gpus) % fabric.hb_domain_size % fabric.rails == 0
        had, has = (np.bincount(whole.domain[live], (wiring.leaf >= 0).sum(axis=0)[live]) for wiring in (whole, left))
        lives = np.unique(whole.domain[live])
        sides, rail = np.where(live, 0, 3), np.flatnonzero(on_rail & live)
        half = rail.size // 2
        sides[rail[:half]], sides[rail[rail.size - half :]] = 1, 2
        if (key := sides.tobytes()) not in flows:
            flows[key] = rail_flow(whole, whole, sides)
        row = {
            "fabric": fabric.layout_name,
            "fault": kind,
            "gpus_failed": int(np.count_nonzero(~live)),
            "nics_cut": cut_from_network(whole, left).size,
            "gpus_cut_off": int(np.count_nonzero(live & ~connected_gpus(left))),
            "domain_nic_bandwidth": min(map(_left, has[lives], had[lives]), default=math.nan),
            "hb_bandwidth": min(left.hb_share[live], default=math.nan),
            "rail_bisection": _left(rail_flow(whole, left, sides), flows[key]),
            "switches_before": before,
            "switches_after": switches_on_the_way(left),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def nics_cut_by_rail_switch(fabric: RailFabric) -> int:
    """NICs that one failed tier-1 switch cuts off at most: the hosts of a leaf, all rails on it together.

    With several planes no NIC is cut off: every other plane still carries it.
    """
    if fabric.planes > 1 or not fabric.tiers:
        return 0
    return int(fabric.layout.hosts_per_leaf)


def rail_switch_survey(cases: pd.DataFrame, hb_domain_size: int) -> pd.DataFrame:
    """Routes, rail bandwidth and failed rail switches of the rail-optimized and the rail-only network at several sizes.

    cases: columns gpus and radix. Columns gpus, radix; same_rail_switches: between GPU 1 of domain 1 and the
    farthest GPU of its rail, rail-optimized; rail_bisection: of a rail over half its NICs' bandwidth, rail-only;
    nics_cut_...: by one failed tier-1 switch (`nics_cut_by_rail_switch`) of rail-optimized, of rail-only with rails
    that share switches where they fit, of rail-only with a switch for each rail; nics_cut_difference: the
    second less the first.
    """
    rows = []
    for gpus, radix in cases[["gpus", "radix"]].itertuples(index=False):
        optimized, apart = rail_optimized(gpus, hb_domain_size, radix), rail_only(gpus, hb_domain_size, radix)
        shared = rail_only(gpus, hb_domain_size, radix, rails_per_switch=None)
        rail = rail_bisection_bandwidth(apart.graph(rails=range(1, 2))) / (apart.domains // 2 * apart.nic_rate_Bps)
        cut = [nics_cut_by_rail_switch(fabric) for fabric in (optimized, shared, apart)]
        rows.append((gpus, radix, same_rail_switches(optimized), rail, *cut, cut[1] - cut[0]))
    columns = "gpus radix same_rail_switches rail_bisection nics_cut_rail_optimized nics_cut_rail_only".split()
    return pd.DataFrame(rows, columns=[*columns, "nics_cut_rail_only_own_switches", "nics_cut_difference"])


def replace_gpu(graph: nx.Graph, failed: str, spare: str) -> nx.Graph:
    """The graph after an optical switch has moved a spare GPU of the HB domain to the failed GPU's rail.

    The spare's links move to the ports of the failed GPU, which leaves the graph. Source: railonly2025, Fault
    Tolerance Properties. Raises ValueError where the spare is in another HB domain or is the failed GPU.
    """
    if failed == spare or graph.nodes[failed]["domain"] != graph.nodes[spare]["domain"]:
        raise ValueError(f"spare is {spare!r}: name another GPU of the HB domain of {failed!r}")
    after = graph.copy()
    for a, b, at in list(graph.edges(spare, data=True)):
        if at["kind"] == "host":
            after.remove_edge(a, b)
    for _, port, at in graph.edges(failed, data=True):
        if at["kind"] == "host":
            after.add_edge(spare, port, **at)
    after.nodes[spare]["rail"] = graph.nodes[failed]["rail"]
    after.remove_node(failed)
    return after


def rail_bisection_with_spare(fabric: RailFabric) -> pd.DataFrame:
    """Bandwidth between the halves of rail 1 (`rail_bisection_bandwidth`) as a GPU of it fails and a spare takes over.

    Columns state, bisection_Gbps. The last GPU of domain 1 is the spare, see `replace_gpu`.
    """
    graph, spare = fabric.graph(), f"D1.GPU{fabric.hb_domain_size}"
    states = {
        "whole": graph,
        "GPU 1 of domain 1 failed": fail(graph, "GPU"),
        "a spare moved to its rail": replace_gpu(graph, "D1.GPU1", spare),
    }
    rows = [(state, convert(rail_bisection_bandwidth(left), "Gbps")) for state, left in states.items()]
    return pd.DataFrame(rows, columns=["state", "bisection_Gbps"])
