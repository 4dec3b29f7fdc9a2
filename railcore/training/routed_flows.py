"""Flows between GPUs routed over a wired fabric: bytes and time of every link, and the share of NIC bandwidth left.

A flow inside an HB domain (scale-up or NVLink domain) takes its HB interconnect. A flow between domains takes the
shortest ways of the scale-out network. Only where the network alone does not connect the two GPUs (from rail to rail in
rail-only), HB domains forward it, the source's before the target's. Every node splits what it has for a target over
the next links of all shortest ways, by their bandwidth (equal-cost multipath).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from railcore.network.topology import RailFabric
from railcore.network.topology.faults import cut_nics, fail
from railcore.training.parallelism import Strategy
from railcore.training.traffic import from_transfers
from railcore.training.transfers import TrafficOptions, step_transfers
from railcore.training.transformer import Transformer

if TYPE_CHECKING:
    import networkx as nx

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


def _links(graph: "nx.Graph") -> _Links:
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


def wired_loads(graph: "nx.Graph", flows: pd.DataFrame) -> pd.DataFrame:
    """Bytes and time of every link that flows use, a row for each direction, the busiest first.

    Columns from, to, kind, tier, bytes, bandwidth_Bps, time_s = bytes / bandwidth.
    graph: of a fabric, whole or with failed parts; flows: columns source, target (names of GPUs) and bytes.
    Raises ValueError for a flow whose GPU the graph lacks, and for GPUs that are cut off from each other.
    """
    return _load_table(_links(graph), flows)


def fabric_loads(fabric: RailFabric, flows: pd.DataFrame) -> pd.DataFrame:
    """`wired_loads` of a whole fabric, whose links are kept for the next call."""
    return _load_table(_wired(fabric, None)[2], flows)


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


def moved_to_other_rails(
    graph: "nx.Graph", flows: pd.DataFrame, cut: Sequence[str], one_neighbour: bool = False
) -> pd.DataFrame:
    """Flows, where those of GPUs with cut-off NICs move to other rails at both ends.

    HB takes such a flow to GPUs of the source's domain, their rails to GPUs of equal rank in the target's domain, and
    HB to the target.

    Parameters
    ----------
    graph
        The whole graph.
    flows
        Between domains, as `wired_loads` takes them.
    cut
        GPUs whose NICs are cut off.
    one_neighbour
        Take the next rank whose NICs work at both ends, in place of equal parts over all of these ranks.

    Returns
    -------
    Columns source, target, bytes.

    Raises
    ------
    ValueError
        Where no NIC is left.
    """
    gone, nodes = set(cut), graph.nodes
    domains: dict[int, dict[int, str]] = {}
    for node, at in nodes(data=True):
        if at["kind"] == "gpu" and node not in gone:
            domains.setdefault(at["domain"], {})[at["rank"]] = node
    hit = flows["source"].isin(gone) | flows["target"].isin(gone)
    rows = []
    for source, target, size in flows.loc[hit, ["source", "target", "bytes"]].itertuples(index=False):
        here, there = (domains.get(nodes[end]["domain"], {}) for end in (source, target))
        broken = nodes[source if source in gone else target]["rank"]
        ranks = sorted(here.keys() & there.keys(), key=lambda rank: (rank < broken, rank))
        if not ranks:
            raise ValueError(f"flows from {source} to {target} have no NIC left to go by: drop them")
        taken = ranks[:1] if one_neighbour else ranks
        for rank in taken:
            ways = (source, here[rank]), (here[rank], there[rank]), (there[rank], target)
            rows += [(*way, size / len(taken)) for way in ways]
    return pd.concat([flows[~hit], pd.DataFrame(rows, columns=["source", "target", "bytes"])], ignore_index=True)


def gpu_names(ranks: Iterable[int], hb_domain_size: int) -> list[str]:
    """Nodes of ranks (from 0), which fill HB domains in their order: rank 0 is "D1.GPU1"."""
    return [f"D{rank // hb_domain_size + 1}.GPU{rank % hb_domain_size + 1}" for rank in ranks]


def named_flows(entries: pd.DataFrame, hb_domain_size: int) -> pd.DataFrame:
    """Columns source, target, bytes of `Traffic.entries`, ranks as names of nodes."""
    ends = {name: gpu_names(entries[name], hb_domain_size) for name in ("source", "target")}
    return entries[["bytes"]].assign(**ends)


def domain_ring(gpus: int, hb_domain_size: int) -> pd.DataFrame:
    """A flow of one byte from every GPU to the GPU of equal rank in the next HB domain, the last to the first."""
    ranks = np.arange(gpus)
    ring = pd.DataFrame({"source": ranks, "target": (ranks + hb_domain_size) % gpus, "bytes": 1.0})
    return named_flows(ring, hb_domain_size)


def flow_patterns(
    model: Transformer, strategy: Strategy, global_batch: int, hb_domain_size: int
) -> dict[str, pd.DataFrame]:
    """Flows between HB domains, a table for each kind of group that has some.

    One transfer stands for all of its group: rings of gradients and of weights, and sends forward and backward, load
    the same links with other bytes.

    Parameters
    ----------
    model, strategy
        The job.
    global_batch
        B [sequences].
    hb_domain_size
        K [GPUs].

    Returns
    -------
    By kind of group, as `wired_loads` takes them.
    """
    chosen: dict[str, Any] = {}
    for transfer in step_transfers(model, strategy, global_batch, TrafficOptions(embeddings=False)):
        chosen.setdefault(transfer.group, transfer)
    found = {}
    for group, transfer in chosen.items():
        entries = from_transfers(strategy, [transfer]).entries()
        across = entries["source"] // hb_domain_size != entries["target"] // hb_domain_size
        if across.any():
            found[group] = named_flows(entries[across], hb_domain_size)
    return found


@lru_cache(maxsize=4)
def _wired(fabric: RailFabric, fault: str | None) -> tuple["nx.Graph", list[str], _Links]:
    """The whole graph, the GPUs whose NICs a fault cuts off, and the links that the fault leaves."""
    graph = fabric.graph()
    after = graph if fault is None else fail(graph, fault)
    return graph, cut_nics(graph, after), _links(after)


def nic_bandwidth_share(
    fabric: RailFabric, flows: Sequence[pd.DataFrame], fault: str | None = None, one_neighbour: bool = False
) -> float:
    """Share of NIC bandwidth that the job receives, 1 where nothing but NICs limits it: the least over the patterns.

    (most bytes that a GPU sends or receives) / nic_Bps over the time of the busiest link, each pattern alone on the
    fabric.

    Parameters
    ----------
    fabric
        Wired link by link, some thousands of GPUs at most.
    flows
        Between domains, a table for each pattern, see `flow_patterns`.
    fault
        A failed part of `FAULT_KINDS`. Flows whose NIC it cuts off go by other rails.
    one_neighbour
        As for `moved_to_other_rails`.

    Returns
    -------
    0 to 1.

    Raises
    ------
    ValueError
        As `wired_loads`.
    """
    if not flows:
        return 1.0
    graph, cut, links = _wired(fabric, fault)
    shares = [1.0]
    for pattern in flows:
        most = max(pattern.groupby(end)["bytes"].sum().max() for end in ("source", "target"))
        routed = moved_to_other_rails(graph, pattern, cut, one_neighbour) if cut else pattern
        shares.append(most / fabric.nic_Bps / (_link_bytes(links, routed) / links.rate).max())
    return float(min(shares))
