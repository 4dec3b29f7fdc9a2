"""Flows routed on the wired graph, target by target: the reference for `routed_flows.fabric_loads`.

A flow inside an HB domain takes its HB interconnect. A flow between domains takes the shortest ways of the scale-out
network. Only where the network alone does not connect the two GPUs, HB domains forward it. Every node splits what it
has for a target over the next links of all shortest ways, by their bandwidth.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from railcore.network.topology import routed_flows

# Cost of an HB hop; a hop of the network costs 1.
_HB_COST = 0.4  # inside the domain of source and target: HB is shorter than any way through the network
_FORWARD_COST = 100.0  # of a flow between domains: longer than any way through the network alone
_FORWARD_AT_TARGET_COST = 100.1  # the same in the target's domain: where either would do, the source's forwards
_BLOCK = 2**22  # targets x links at a time


@dataclass(frozen=True)
class _Links:
    """Links of a graph, each direction one.

    table: columns from, to, kind, tier, bandwidth_Bps. names: of nodes; tail, head: their places at the ends of links.
    domain: of each node; hb_domain: of an HB link, else 0. out, into: incidence [nodes, links] of tails and heads.
    """

    table: pd.DataFrame
    rate: np.ndarray
    names: pd.Index
    tail: np.ndarray
    head: np.ndarray
    domain: np.ndarray
    hb_domain: np.ndarray
    out: Any
    into: Any


def _links(graph) -> _Links:
    from scipy.sparse import csr_array

    rows = [(a, b, at["kind"], at["tier"], at["bandwidth_Bps"]) for a, b, at in graph.edges(data=True)]
    rows += [(b, a, *rest) for a, b, *rest in rows]
    table = pd.DataFrame(rows, columns=["from", "to", "kind", "tier", "bandwidth_Bps"])
    names, rate = pd.Index(list(graph)), table["bandwidth_Bps"].to_numpy()
    domain = np.array([at["domain"] or 0 for _, at in graph.nodes(data=True)])
    tail, head = (names.get_indexer(table[end]) for end in ("from", "to"))
    every, shape = np.arange(len(table)), (len(names), len(table))
    out, into = (csr_array((np.ones(len(table)), (end, every)), shape) for end in (tail, head))
    hb_domain = np.where(table["kind"] == "hb", domain[head], 0)
    return _Links(table, rate, names, tail, head, domain, hb_domain, out, into)


def wired_loads(graph, flows: pd.DataFrame) -> pd.DataFrame:
    """Bytes and time of every link that flows use, a row for each direction, the busiest first.

    Columns from, to, kind, tier, bytes, bandwidth_Bps, time_s = bytes / bandwidth.
    graph: of a fabric, whole or with failed parts; flows: columns source, target (names of GPUs) and bytes.
    Raises ValueError for a flow whose GPU the graph lacks, and for GPUs that are cut off from each other.
    """
    return _load_table(_links(graph), flows)


def _load_table(links: _Links, flows: pd.DataFrame) -> pd.DataFrame:
    total = _link_bytes(links, flows)
    table = links.table.assign(bytes=total, time_s=total / links.rate)[total > 0]
    table = table.sort_values("time_s", ascending=False, kind="stable", ignore_index=True)
    return table[["from", "to", "kind", "tier", "bytes", "bandwidth_Bps", "time_s"]]


def _link_bytes(links: _Links, flows: pd.DataFrame) -> np.ndarray:
    """Bytes of flows over every link."""
    flows = flows[(flows["source"] != flows["target"]) & (flows["bytes"] > 0)]
    source, target = (links.names.get_indexer(flows[name]) for name in ("source", "target"))
    if (missing := (source < 0) | (target < 0)).any():
        ends = flows[missing].iloc[0]
        name = ends["source"] if ends["source"] not in links.names else ends["target"]
        raise ValueError(f"flows name {name}, which the graph lacks: it has failed, or is no GPU of the fabric")
    amount, total = flows["bytes"].to_numpy(float), np.zeros(links.tail.size)
    inside = links.domain[source] == links.domain[target]
    for domain in np.unique(links.domain[target]):
        for within in (True, False):
            some = (links.domain[target] == domain) & (inside == within)
            if some.any():
                total += _to_domain(links, source[some], target[some], amount[some], domain, within)
    return total


def _to_domain(links: _Links, source, target, amount, domain: int, within: bool) -> np.ndarray:
    """Load of every link from flows to GPUs of one domain, all within it or all from others."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    far = np.where(links.hb_domain == domain, _FORWARD_AT_TARGET_COST, _FORWARD_COST)
    cost = np.where(links.hb_domain > 0, _HB_COST if within else far, 1.0)
    nodes, ends = len(links.names), np.unique(target)
    back = csr_array((cost, (links.head, links.tail)), shape=(nodes, nodes))
    left = dijkstra(back, indices=ends)
    row = np.searchsorted(ends, target)
    if np.isinf(away := left[row, source]).any():
        first = int(np.argmax(np.isinf(away)))
        raise ValueError(
            f"no route from {links.names[source[first]]} to {links.names[target[first]]}: they are cut off from each "
            "other, drop the flow or restore the part"
        )
    held = np.zeros((len(ends), nodes))
    np.add.at(held, (row, source), amount)
    total, step = np.zeros(links.tail.size), max(_BLOCK // links.tail.size, 1)
    for start in range(0, len(ends), step):
        some = slice(start, start + step)
        total += _pushed(links, held[some], left[some], cost, ends[some])
    return total


def _pushed(links: _Links, held, left, cost, ends) -> np.ndarray:
    """Load of every link as what nodes hold for each target [targets, nodes] moves there link by link."""
    with np.errstate(invalid="ignore"):
        way = np.abs(left[:, links.tail] - left[:, links.head] - cost) < 1e-6
    rate = way * links.rate
    share = rate / np.maximum((links.out @ rate.T).T[:, links.tail], 1e-300)
    total = np.zeros(links.tail.size)
    every = np.arange(len(ends))
    held[every, ends] = 0.0
    while held.any():
        moved = held[:, links.tail] * share
        total += moved.sum(axis=0)
        held = (links.into @ moved.T).T
        held[every, ends] = 0.0
    return total


def named_flows(entries, hb_domain_size):
    """Columns source, target, bytes of `Traffic.entries`, ranks as names of nodes."""
    ends = {name: routed_flows.gpu_names(entries[name], hb_domain_size) for name in ("source", "target")}
    return entries[["bytes"]].assign(**ends)
