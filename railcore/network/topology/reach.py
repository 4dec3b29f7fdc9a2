"""What still reaches what in a fabric of which parts have failed: GPUs, switches on the way, flow of a rail."""

import math
from typing import Any

import numpy as np

from railcore.network.topology.wiring import Wiring


def connected_gpus(wiring: Wiring) -> np.ndarray:
    """Live GPUs of the largest part that network and HB domains connect, as True in an array of all."""
    from scipy.sparse.csgraph import connected_components

    labels = connected_components(_paths(wiring), directed=False)[1]
    hb_nodes = np.zeros(wiring.fabric.domains)
    hb_nodes[wiring.domain[wiring.hb_works]] = wiring.fabric.hb_switches
    sizes = np.bincount(labels, np.concatenate([wiring.gpu_works, hb_nodes, wiring.switch_works]))
    return wiring.gpu_works & (labels[: wiring.fabric.gpus] == np.argmax(sizes))


def _paths(wiring: Wiring) -> Any:
    """Length of every link: GPUs, a node for the HB interconnect of each domain, switches.

    A million times what `graph.route` counts, and one for each end at a switch: of equal ways that of fewest switches.
    """
    from scipy.sparse import csr_array

    fabric, (hb,) = wiring.fabric, np.nonzero(wiring.hb_works)
    plane, gpu = np.nonzero(wiring.leaf >= 0)
    (trunk,) = np.nonzero(wiring.links)
    above = fabric.gpus + fabric.domains
    crossing = np.where(wiring.domain[hb], 95e4, 90e4) / (1 if fabric.hb_switches else 2)
    tail = np.concatenate([hb, gpu, above + wiring.lower[trunk]])
    ends = fabric.gpus + wiring.domain[hb], above + wiring.leaf[plane, gpu], above + wiring.upper[trunk]
    head = np.concatenate(ends)
    cost = np.concatenate([crossing, np.full(gpu.size, 1e6 + 1), np.full(trunk.size, 1e6 + 2)])
    nodes = above + len(wiring.switches)
    return csr_array((np.tile(cost, 2), (np.r_[tail, head], np.r_[head, tail])), shape=(nodes, nodes))


def switches_on_the_way(wiring: Wiring, target: int | None = None) -> float:
    """Switches on the way from the first GPU to another, NaN without a way.

    target: index of the other GPU, by default the first one of the last domain.
    """
    from scipy.sparse.csgraph import dijkstra

    fabric, switches = wiring.fabric, 0
    node = (fabric.domains - 1) * fabric.hb_domain_size if target is None else target
    if not wiring.gpu_works[[0, node]].all():
        return math.nan
    before = dijkstra(_paths(wiring), indices=0, return_predecessors=True)[1]
    while node:
        node = before[node]
        if node < 0:
            return math.nan
        switches += node >= fabric.gpus + fabric.domains
    return float(switches)


def rail_flow(whole: Wiring, left: Wiring, side: np.ndarray) -> int:
    """Largest flow of what is left of a fabric from GPUs of side 1 to GPUs of side 2, over the network alone [links].

    side [GPUs]. GPUs of a side on one leaf are alike, but for the first GPU: they count as one with all their links.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    alike = whole.leaf[0] * (side.max() + 1) + side
    alike[0] = -len(side)
    _, one, count = np.unique(alike, return_index=True, return_counts=True)
    switches, gpus = len(left.switches), 2 + len(left.switches) + np.arange(one.size)
    plane, there = np.nonzero(left.leaf[:, one] >= 0)
    source, sink = (gpus[side[one] == end] for end in (1, 2))
    links = [  # from, to, room
        (gpus[there], 2 + left.leaf[plane, one[there]], count[there]),
        (2 + left.lower, 2 + left.upper, left.links),
        (np.zeros_like(source), source, np.full(source.size, left.leaf.size)),
        (sink, np.ones_like(sink), np.full(sink.size, left.leaf.size)),
    ]
    both_ways = [(head, tail, room) for tail, head, room in links[:2]]
    tail, head, room = (np.concatenate(parts) for parts in zip(*links, *both_ways, strict=True))
    nodes = 2 + switches + one.size
    return int(maximum_flow(csr_array((room.astype(np.int32), (tail, head)), shape=(nodes, nodes)), 0, 1).flow_value)
