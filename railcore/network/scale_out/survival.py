"""What remains of a network of rails and planes when a GPU, a plane, a leaf or a whole rail fails.

In closed form at any size, and counted on the graph of a small fabric. A GPU is cut off when its NIC has no link left;
it needs forwarding when another NIC of its HB domain (scale-up or NVLink domain) still has one, and is isolated when
none has.
"""

import math

import networkx as nx
import numpy as np
import pandas as pd

from railcore.facts.checks import whole
from railcore.network.topology.faults import bandwidth, nic_bandwidth_left
from railcore.network.topology.rails import RailFabric

FAULTS = ("GPU", "plane", "leaf chip", "leaf box", "rail")
REMAINS = "fault gpus_touched bandwidth_left gpus_cut_off need_forwarding isolated domain_bandwidth_left".split()


def remains(gpus: int, hb_domain_size: int, rails: int, planes: int, leaf_gpus: int) -> pd.DataFrame:
    """What one failure of each kind leaves, worst case, in closed form.

    A rail takes e = ceil(K / R) GPUs of a rack. leaf chip: one plane's chip; leaf box: the chips of all planes at one
    place, which share its front ports; rail: all planes of it.

    Parameters
    ----------
    gpus, hb_domain_size
        GPUs N, and K of a rack.
    rails, planes
        Rails R and planes P.
    leaf_gpus
        GPUs under one tier-1 switch, in the order of their racks.

    Returns
    -------
    Columns fault; gpus_touched; bandwidth_left of their NICs (share); gpus_cut_off; need_forwarding; isolated;
    domain_bandwidth_left, of the NICs of the live GPUs of the rack that is worst off (share).

    Raises
    ------
    ValueError
        More rails than GPUs, or a leaf larger than its rail.
    """
    given = {"gpus": gpus, "hb_domain_size": hb_domain_size, "rails": rails, "planes": planes, "leaf_gpus": leaf_gpus}
    n, k, r, p, leaf = (int(whole(name, value)) for name, value in given.items())
    if r > n:
        raise ValueError(f"rails is {r}, more than the {n} GPUs: give fewer rails")
    size, of_rack = math.ceil(n / r), math.ceil(k / r)
    if leaf > size:
        raise ValueError(f"leaf_gpus is {leaf}, more than the {size} GPUs of a rail: give {size} or fewer")
    touched = {"plane": (n, k), "leaf chip": (leaf, min(leaf, of_rack)), "leaf box": (leaf, min(leaf, of_rack))}
    touched["rail"] = (size, of_rack)
    rows: list[tuple] = [("GPU", 1, 0.0, 0, 0, 0, 1.0)]
    for fault in FAULTS[1:]:
        count, worst = touched[fault]
        left = 1 - 1 / p if fault in ("plane", "leaf chip") else 0.0
        cut = 0 if left else count
        alone = n if cut == n else cut // k * k if of_rack == k else 0
        rows.append((fault, count, left, cut, cut - alone, alone, 1 - worst / k * (1 - left)))
    return pd.DataFrame(rows, columns=REMAINS)


def remains_table(table: pd.DataFrame, hb_domain_size: int) -> pd.DataFrame:
    """`remains` of every row of a `rail_plane_networks` table with a column network, which comes first."""
    rows = [
        remains(row.gpus, hb_domain_size, row.rails, row.planes, row.leaf_gpus).assign(network=row.network)
        for row in table.itertuples()
    ]
    return pd.concat(rows, ignore_index=True)[["network", *REMAINS]]


def counted_remains(fabric: RailFabric) -> pd.DataFrame:
    """`remains` of a fabric, counted on its graph: GPU 1 of domain 1, its plane 1, its leaf and its rail fail."""
    graph = fabric.graph()
    rows = [_effect(graph, _without(graph, fault), fault) for fault in FAULTS]
    return pd.DataFrame(rows, columns=REMAINS)


def _without(graph: nx.Graph, fault: str) -> nx.Graph:
    gpu, nodes = "D1.GPU1", graph.nodes(data=True)
    leaves = [node for node in graph[gpu] if graph.nodes[node]["kind"] == "switch"]
    gone = {
        "GPU": [gpu],
        "plane": [node for node, at in nodes if at["kind"] == "switch" and at["plane"] == 1],
        "leaf chip": [leaf for leaf in leaves if graph.nodes[leaf]["plane"] == 1],
        "leaf box": leaves,
        "rail": [node for node, at in nodes if at["kind"] == "switch" and at["rail"] in (None, 1)],
    }[fault]
    left = graph.copy()
    left.remove_nodes_from(gone)
    return left


def _effect(before: nx.Graph, after: nx.Graph, fault: str) -> tuple:
    live = [node for node, at in after.nodes(data=True) if at["kind"] == "gpu"]
    had, has = ({g: bandwidth(graph, g, ("host",)) for g in live} for graph in (before, after))
    touched = [g for g in live if has[g] < had[g]]
    cut = [g for g in live if not has[g]]
    share = nic_bandwidth_left(before, after)
    alone = [g for g in cut if not share[before.nodes[g]["domain"]]]
    left = np.mean([has[g] / had[g] for g in touched]) if touched else 0.0
    return fault, len(touched) or 1, left, len(cut), len(cut) - len(alone), len(alone), min(share.values())
