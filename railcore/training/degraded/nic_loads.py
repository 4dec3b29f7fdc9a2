"""Flows between GPUs routed over a wired fabric: bytes and time of every link, and what of its NICs a job gets.

A flow within an HB domain (scale-up or NVLink domain) takes its HB interconnect. One between domains takes the
shortest ways of the scale-out network, and HB domains forward it, the source's before the target's, only where the
network alone does not connect the two: from rail to rail in rail-only. Every node splits what it has for a target over
the next links of all shortest ways, by their bandwidth (equal-cost multipath).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railcore.network.topology import RailFabric
from railcore.network.topology.faults import cut_nics, fail
from railcore.training.parallelism import Strategy
from railcore.training.traffic import Wire, from_transfers, transfers
from railcore.training.transformer import Transformer

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

FORWARD = 100.0  # hops that a way over HB counts as: no way through the network alone is as long
TOWARDS = 100.1  # the same within the target's domain: where either would do, the source's forwards
_BLOCK = 2**22  # targets x links at a time


@dataclass(frozen=True)
class _Links:
    """Links of a graph as arrays, each direction one: places of its nodes, bandwidth; domain of an HB link, else 0.

    out, into: incidence [links, nodes] of tails and heads.
    """

    place: dict[str, int]
    domain: np.ndarray
    tail: np.ndarray
    head: np.ndarray
    rate: np.ndarray
    hb_domain: np.ndarray
    out: Any
    into: Any


def _links(graph: "nx.Graph") -> _Links:
    from scipy.sparse import csr_array

    place = {node: i for i, node in enumerate(graph)}
    edges = [(place[a], place[b], at["bandwidth_Bps"], at["kind"] == "hb") for a, b, at in graph.edges(data=True)]
    a, b, rate, hb = (np.array(column) for column in zip(*edges, strict=True))
    tail, head = np.concatenate([a, b]).astype(np.int64), np.concatenate([b, a]).astype(np.int64)
    domain = np.array([at["domain"] or 0 for _, at in graph.nodes(data=True)])
    hb, every = np.concatenate([hb, hb]), np.arange(tail.size)
    out, into = (csr_array((np.ones(tail.size), (every, end)), (tail.size, len(place))) for end in (tail, head))
    return _Links(place, domain, tail, head, np.concatenate([rate, rate]), np.where(hb, domain[head], 0), out, into)


def wired_loads(graph: "nx.Graph", flows: "pd.DataFrame") -> "pd.DataFrame":
    """Bytes and time of every link that flows use, a row for each direction, the busiest first.

    Columns from, to, kind, tier, bytes, bandwidth_Bps, time_s = bytes / bandwidth.
    graph: of a fabric, whole or with failed parts; flows: columns source, target (names of GPUs) and bytes.
    Raises ValueError for a flow whose GPU the graph lacks, and for GPUs that are cut off from each other.
    """
    import pandas as pd

    flows = flows[(flows["source"] != flows["target"]) & (flows["bytes"] > 0)]
    links, total = _links(graph), np.zeros(2 * graph.number_of_edges())
    if missing := sorted({*flows["source"], *flows["target"]} - set(links.place)):
        raise ValueError(f"flows name {missing[0]}, which the graph lacks: it has failed, or is no GPU of the fabric")
    source, target = (flows[name].map(links.place).to_numpy(np.int64) for name in ("source", "target"))
    inside = links.domain[source] == links.domain[target]
    for domain in np.unique(links.domain[target]):
        for within in (True, False):
            some = (links.domain[target] == domain) & (inside == within)
            if some.any():
                amount = flows["bytes"].to_numpy(float)[some]
                total += _to_domain(links, source[some], target[some], amount, domain, within)
    names, used = list(links.place), np.flatnonzero(total)
    used = used[np.argsort(-total[used] / links.rate[used], kind="stable")]
    ends = [(names[links.tail[i]], names[links.head[i]]) for i in used]
    rows = [(a, b, graph.edges[a, b]["kind"], graph.edges[a, b]["tier"]) for a, b in ends]
    table = pd.DataFrame(rows, columns=["from", "to", "kind", "tier"])
    columns = {"bytes": total[used], "bandwidth_Bps": links.rate[used], "time_s": total[used] / links.rate[used]}
    return table.assign(**columns)


def _to_domain(links: _Links, source, target, amount, domain: int, within: bool) -> np.ndarray:
    """Load of every link from flows to GPUs of one domain, all within it or all from others."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    far = np.where(links.hb_domain == domain, TOWARDS, FORWARD)
    cost = np.where(links.hb_domain > 0, 0.4 if within else far, 1.0)
    nodes, ends = len(links.place), np.unique(target)
    back = csr_array((cost, (links.head, links.tail)), shape=(nodes, nodes))
    left = dijkstra(back, indices=ends)
    row = np.searchsorted(ends, target)
    if np.isinf(away := left[row, source]).any():
        names, first = list(links.place), int(np.argmax(np.isinf(away)))
        raise ValueError(
            f"no route from {names[source[first]]} to {names[target[first]]}: they are cut off from each other, "
            "drop the flow or restore the part"
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
    share = rate / np.maximum((rate @ links.out)[:, links.tail], 1e-300)
    total = np.zeros(links.tail.size)
    every = np.arange(len(ends))
    held[every, ends] = 0.0
    while held.any():
        moved = held[:, links.tail] * share
        total += moved.sum(axis=0)
        held = moved @ links.into
        held[every, ends] = 0.0
    return total


def moved(graph: "nx.Graph", flows: "pd.DataFrame", cut: Sequence[str], one_neighbour: bool = False) -> "pd.DataFrame":
    """The flows between domains with those of GPUs whose NICs are cut off moved to other rails, at both ends.

    HB takes such a flow to GPUs of the source's domain, their rails to GPUs of equal rank in the target's, and HB to
    the target: alike over all ranks whose NICs work at both ends, or by `one_neighbour`, the next of these ranks.
    graph: the whole one; flows: as `wired_loads` takes them. Raises ValueError where no NIC is left.
    """
    import pandas as pd

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
        for rank in ranks[:1] if one_neighbour else ranks:
            ways = (source, here[rank]), (here[rank], there[rank]), (there[rank], target)
            rows += [(*way, size / (1 if one_neighbour else len(ranks))) for way in ways]
    return pd.concat([flows[~hit], pd.DataFrame(rows, columns=["source", "target", "bytes"])], ignore_index=True)


def gpu_names(ranks: Iterable[int], hb_domain_size: int) -> list[str]:
    """Nodes of ranks (from 0), which fill HB domains in their order: rank 0 is "D1.GPU1"."""
    return [f"D{rank // hb_domain_size + 1}.GPU{rank % hb_domain_size + 1}" for rank in ranks]


def named_flows(entries: "pd.DataFrame", hb_domain_size: int) -> "pd.DataFrame":
    """Columns source, target, bytes of `Traffic.entries`, ranks as names of nodes."""
    ends = {name: gpu_names(entries[name], hb_domain_size) for name in ("source", "target")}
    return entries[["bytes"]].assign(**ends)


def patterns(
    model: Transformer, strategy: Strategy, global_batch: int, hb_domain_size: int
) -> "dict[str, pd.DataFrame]":
    """Flows between HB domains of each kind of group that has some, as `wired_loads` takes them.

    One transfer stands for all of its group: rings of gradients and of weights, and sends forward and backward, load
    the same links with other bytes. global_batch [sequences], hb_domain_size [GPUs].
    """
    chosen: dict[str, Any] = {}
    for transfer in transfers(model, strategy, global_batch, Wire(embeddings=False)):
        chosen.setdefault(transfer.group, transfer)
    found = {}
    for group, transfer in chosen.items():
        entries = from_transfers(strategy, [transfer]).entries()
        across = entries["source"] // hb_domain_size != entries["target"] // hb_domain_size
        if across.any():
            found[group] = named_flows(entries[across], hb_domain_size)
    return found


def nic_share(
    fabric: RailFabric, flows: "Sequence[pd.DataFrame]", fault: str | None = None, one_neighbour: bool = False
) -> float:
    """Share of its NICs' bandwidth that a job gets, 1 where nothing but NICs holds it back: the least over patterns.

    (most bytes that a GPU sends or receives) / nic_Bps over the time of the busiest link, each pattern alone on the
    fabric. flows: between domains, see `patterns`; fault: a part of `faults.KINDS` that has failed; flows whose NIC it
    cuts off are `moved`. Raises ValueError as `wired_loads`.
    """
    graph, cut = fabric.graph(), list[str]()
    whole = graph
    if fault is not None:
        graph = fail(whole, fault)
        cut = cut_nics(whole, graph)
    shares = [1.0]
    for pattern in flows:
        most = max(pattern.groupby(end)["bytes"].sum().max() for end in ("source", "target"))
        routed = moved(whole, pattern, cut, one_neighbour) if cut else pattern
        shares.append(most / fabric.nic_Bps / wired_loads(graph, routed)["time_s"].max())
    return float(min(shares))
