"""Flows between GPUs routed over a wired fabric: bytes and time of every link, and the share of NIC bandwidth left.

A flow inside an HB domain (scale-up or NVLink domain) takes its HB interconnect. A flow between domains takes the
shortest ways of the scale-out network. Every switch splits what it has for a target over the next links of all shortest
ways, by their bandwidth (equal-cost multipath). Flows from leaf to leaf are added up before they are routed.

Only where the network alone does not connect the two GPUs (from rail to rail in rail-only), HB domains forward: the
source's, to those of its GPUs that are nearest to the target, in equal parts. If none of them reaches the target, the
target's domain does; if that fails too, both do.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from railcore.network.topology.rails import RailFabric
from railcore.network.topology.wiring import Wiring, whole_wiring

_NO_WAY = 9999  # hops


@dataclass(frozen=True, eq=False)
class _Network:
    """Routes through what works of a fabric."""

    wiring: Wiring

    @cached_property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Tail and head of every trunk, all upwards and then all downwards."""
        lower, upper = self.wiring.lower, self.wiring.upper
        return np.concatenate([lower, upper]), np.concatenate([upper, lower])

    @cached_property
    def rates(self) -> np.ndarray:
        """Bandwidth of every trunk as in `ends` [bytes/s]."""
        return np.tile(self.wiring.links * self.wiring.fabric.link_Bps, 2)

    @cached_property
    def leaf_place(self) -> np.ndarray:
        """Place of every leaf among the leaves [switches]."""
        leaf = np.unique(self.wiring.leaf[self.wiring.leaf >= 0])
        place = np.zeros(len(self.wiring.switches), int)
        place[leaf] = np.arange(leaf.size)
        return place

    @cached_property
    def hops_to_leaf(self) -> np.ndarray:
        """Trunks on the shortest way from a switch to a leaf [switches, leaves]."""
        from scipy.sparse import csr_array

        (works,), switches = np.nonzero(self.rates), len(self.wiring.switches)
        ones = np.ones(works.size, np.float32)
        step = csr_array((ones, tuple(end[works] for end in self.ends)), shape=(switches, switches))
        leaf = np.unique(self.wiring.leaf[self.wiring.leaf >= 0])
        hops = np.full((switches, leaf.size), _NO_WAY, np.int16)
        hops[leaf, np.arange(leaf.size)] = 0
        for far in count(1):
            reached = (step @ (hops == far - 1).astype(np.float32) > 0) & (hops == _NO_WAY)
            if not reached.any():
                return hops
            hops[reached] = far
        raise AssertionError

    @cached_property
    def out(self) -> tuple[np.ndarray, np.ndarray]:
        """Trunks that work by their tail, and where those of each switch begin."""
        (works,) = np.nonzero(self.rates)
        order = works[np.argsort(self.ends[0][works], kind="stable")]
        return order, np.searchsorted(self.ends[0][order], np.arange(len(self.wiring.switches) + 1))

    def hops(self, source: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Trunks between GPUs over the network alone in each plane, `_NO_WAY` without a way [planes, ...]."""
        near, far = self.wiring.leaf[:, source], self.wiring.leaf[:, target]
        if not self.hops_to_leaf.size:
            return np.full(np.broadcast_shapes(near.shape, far.shape), _NO_WAY)
        return np.where((near >= 0) & (far >= 0), self.hops_to_leaf[near, self.leaf_place[far]], _NO_WAY)


@lru_cache(maxsize=4)
def _network(fabric: RailFabric | Wiring) -> _Network:
    return _Network(fabric if isinstance(fabric, Wiring) else whole_wiring(fabric))


class _Flows(NamedTuple):
    """Flows between GPUs, all arrays of one length."""

    source: np.ndarray
    target: np.ndarray
    bytes: np.ndarray

    def some(self, which: Any) -> "_Flows":
        return _Flows(*(column[which] for column in self))


class _Links(NamedTuple):
    """Load of links, a direction each. tail, head: GPUs from 0, then HB switches by domain, then switches."""

    tail: np.ndarray
    head: np.ndarray
    bytes: np.ndarray
    bandwidth_Bps: np.ndarray


def _joined(parts: list) -> Any:
    return type(parts[0])(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _checked_flows(network: _Network, flows: pd.DataFrame) -> _Flows:
    source, target = (flows[end].to_numpy(int) for end in ("source", "target"))
    size, gpus = flows["bytes"].to_numpy(float), network.wiring.fabric.gpus
    moving = _Flows(source, target, size).some((source != target) & (size > 0))
    ends = np.unique(np.concatenate([moving.source, moving.target]))
    inside = (ends >= 0) & (ends < gpus)
    wrong = ends[~(inside & network.wiring.gpu_works[np.where(inside, ends, 0)])]
    if wrong.size:
        raise ValueError(f"flows name GPU {wrong[0]}, which has failed or is none of the fabric's {gpus}: drop them")
    return moving


def _by_interconnect(network: _Network, flows: pd.DataFrame) -> tuple[_Flows, _Flows]:
    """Flows within HB domains, and flows over the network alone, from flows between any GPUs."""
    wiring, moving = network.wiring, _checked_flows(network, flows)
    inside = wiring.domain[moving.source] == wiring.domain[moving.target]
    inside &= wiring.hb_works[moving.source] & wiring.hb_works[moving.target]
    hb, left = [moving.some(inside)], moving.some(~inside)
    reached = (network.hops(left.source, left.target) < _NO_WAY).any(axis=0)
    net, left = [left.some(reached)], left.some(~reached)
    for at_source, at_target in ((True, False), (False, True), (True, True)):
        if left.source.size:
            here, network_only, there, left = _forwarded(network, left, at_source, at_target)
            hb, net = [*hb, here, there], [*net, network_only]
    if left.source.size:
        raise ValueError(
            f"no route from GPU {left.source[0]} to GPU {left.target[0]}: they are cut off from each other, drop the "
            "flow or restore the part"
        )
    return _joined(hb), _joined(net)


def _forwarded(network: _Network, flows: _Flows, at_source: bool, at_target: bool) -> tuple[_Flows, ...]:
    """Flows through the HB domain at their source, at their target or at both, by GPUs of equal rank there.

    Flows in the source's domain, over the network, in the target's domain, and those that find no way.
    """
    wiring = network.wiring
    size, ranks = wiring.fabric.hb_domain_size, np.arange(wiring.fabric.hb_domain_size)
    ends, there = [], np.ones((flows.source.size, size), bool)
    for end, moves in ((flows.source, at_source), (flows.target, at_target)):
        gpu = wiring.domain[end][:, None] * size + ranks if moves else np.repeat(end[:, None], size, axis=1)
        inside = gpu < wiring.fabric.gpus
        gpu = np.where(inside, gpu, 0)
        there &= inside & ((wiring.hb_works[gpu] & wiring.hb_works[end][:, None]) if moves else True)
        ends.append(gpu)
    hops = np.where(there, network.hops(*ends).min(axis=0), _NO_WAY)
    least = hops.min(axis=1, initial=_NO_WAY)
    best = (hops == least[:, None]) & (hops < _NO_WAY)
    row, column = np.nonzero(best)
    part = (flows.bytes / np.maximum(best.sum(axis=1), 1))[row]
    near, far = (gpu[row, column] for gpu in ends)
    ways = ((flows.source[row], near), (near, far), (far, flows.target[row]))
    return *(_Flows(*way, part).some(way[0] != way[1]) for way in ways), flows.some(least == _NO_WAY)


def _over_domains(network: _Network, flows: _Flows) -> _Links:
    """Load of HB links."""
    wiring, fabric = network.wiring, network.wiring.fabric
    if not fabric.hb_switches:
        pair, of = np.unique(flows.source * fabric.gpus + flows.target, return_inverse=True)
        load, rate = np.bincount(of, flows.bytes, pair.size), fabric.hb_rate_Bps / max(fabric.hb_domain_size - 1, 1)
        return _Links(pair // fabric.gpus, pair % fabric.gpus, load, np.full(pair.size, rate))
    rate = fabric.hb_rate_Bps / fabric.hb_switches
    working = np.rint(wiring.hb_share * fabric.hb_switches).astype(int)
    first = fabric.hb_switches - working  # the first switches fail first
    links = []
    for end, upwards in ((flows.source, True), (flows.target, False)):
        load = np.bincount(end, flows.bytes, fabric.gpus) / np.maximum(working, 1)
        gpu, switch = np.nonzero((load > 0)[:, None] & (np.arange(fabric.hb_switches) >= first[:, None]))
        other = fabric.gpus + wiring.domain[gpu] * fabric.hb_switches + switch
        tail, head = (gpu, other) if upwards else (other, gpu)
        links.append(_Links(tail, head, load[gpu], np.full(gpu.size, rate)))
    return _joined(links)


def _over_network(network: _Network, flows: _Flows) -> _Links:
    """Load of host links and trunks."""
    wiring, fabric = network.wiring, network.wiring.fabric
    hops, first = network.hops(flows.source, flows.target), fabric.gpus + fabric.domains * fabric.hb_switches
    taken = hops == hops.min(axis=0, initial=_NO_WAY)
    plane, part = np.nonzero(taken)
    size = (flows.bytes / np.maximum(taken.sum(axis=0), 1))[part]
    links = []
    for end, upwards in ((flows.source, True), (flows.target, False)):
        port = plane * fabric.gpus + end[part]
        load = np.bincount(port, size, fabric.planes * fabric.gpus)
        (used,) = np.nonzero(load)
        ends = used % fabric.gpus, first + wiring.leaf.ravel()[used]
        tail, head = ends if upwards else ends[::-1]
        links.append(_Links(tail, head, load[used], np.full(used.size, fabric.link_Bps)))
    leaf, other = wiring.leaf[plane, flows.source[part]], wiring.leaf[plane, flows.target[part]]
    between = leaf != other
    load = _over_trunks(network, leaf[between], other[between], size[between])
    (used,) = np.nonzero(load)
    tail, head = (first + end[used] for end in network.ends)
    return _joined([*links, _Links(tail, head, load[used], network.rates[used])])


def _over_trunks(network: _Network, leaf: np.ndarray, other: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Bytes of every trunk as in `_Network.ends`.

    Parameters
    ----------
    network
        Routes.
    leaf, other, size
        Flows from leaf to leaf [bytes]. They move trunk by trunk towards their leaves.

    Returns
    -------
    An entry for each trunk.
    """
    (order, starts), (_, heads), places = network.out, network.ends, network.hops_to_leaf.shape[1]
    load = np.zeros(heads.size)
    at, of = np.unique(leaf * places + network.leaf_place[other], return_inverse=True)
    held = np.bincount(of, size, at.size)
    while at.size:
        switch, target = np.divmod(at, places)
        wide = starts[switch + 1] - starts[switch]
        entry = np.repeat(np.arange(at.size), wide)
        trunk = order[np.arange(entry.size) - np.repeat(np.cumsum(wide) - wide, wide) + starts[switch][entry]]
        ahead = network.hops_to_leaf[heads[trunk], target[entry]]
        closer = ahead < network.hops_to_leaf[switch, target][entry]
        entry, trunk, ahead = entry[closer], trunk[closer], ahead[closer]
        rate = network.rates[trunk]
        moved = held[entry] * rate / np.bincount(entry, rate, at.size)[entry]
        load += np.bincount(trunk, moved, load.size)
        onward = ahead > 0
        following, next_of = np.unique((heads[trunk] * places + target[entry])[onward], return_inverse=True)
        at, held = following, np.bincount(next_of, moved[onward], following.size)
    return load


def fabric_loads(fabric: RailFabric | Wiring, flows: pd.DataFrame) -> pd.DataFrame:
    """Bytes and time of every link that flows use, a row for each direction, the busiest first.

    Columns from, to, kind, tier, bytes, bandwidth_Bps, time_s = bytes / bandwidth.
    fabric: whole, or the wiring that is left of one. flows: columns source, target (GPUs from 0, domain by domain) and
    bytes.
    Raises ValueError for a flow whose GPU has failed, and for GPUs that are cut off from each other.
    """
    network = _network(fabric)
    hb_flows, network_flows = _by_interconnect(network, flows)
    links = _joined([_over_domains(network, hb_flows), _over_network(network, network_flows)])
    whole, switches = network.wiring.fabric, network.wiring.switches
    size = whole.hb_switches
    hb = [f"D{d}.HB{h}" for d in range(1, whole.domains + 1) for h in range(1, size + 1)]
    gpus = gpu_names(range(whole.gpus), whole.hb_domain_size)
    tiers = np.array([*[0] * whole.gpus, *[-1] * whole.domains * size, *(switch.tier for switch in switches)])
    names = np.array([*gpus, *hb, *(switch.name for switch in switches)], object)
    ends = tiers[np.stack([links.tail, links.head])]
    tier = np.where((ends <= 0).all(axis=0), -1, ends.max(axis=0))
    kind = np.select([tier < 0, tier == 1], ["hb", "host"], "trunk")
    table = pd.DataFrame({"from": names[links.tail], "to": names[links.head], "kind": kind, "tier": tier})
    table = table.assign(bytes=links.bytes, bandwidth_Bps=links.bandwidth_Bps, time_s=links.bytes / links.bandwidth_Bps)
    return table.sort_values("time_s", ascending=False, kind="stable", ignore_index=True)


def gpu_names(ranks: Iterable[int], hb_domain_size: int) -> list[str]:
    """Names of ranks (from 0), which fill HB domains in their order: rank 0 is "D1.GPU1"."""
    return [f"D{rank // hb_domain_size + 1}.GPU{rank % hb_domain_size + 1}" for rank in ranks]


def domain_ring(gpus: int, hb_domain_size: int) -> pd.DataFrame:
    """A flow of one byte from every GPU to the GPU of equal rank in the next HB domain, the last to the first."""
    ranks = np.arange(gpus)
    return pd.DataFrame({"source": ranks, "target": (ranks + hb_domain_size) % gpus, "bytes": 1.0})


def nic_bandwidth_share(fabric: RailFabric, flows: pd.DataFrame) -> float:
    """Share of NIC bandwidth that flows get while all run at once, 1 where nothing but NICs limits them.

    (Most bytes that a GPU sends or receives) / nic_Bps over the time of the busiest link. flows: as of `fabric_loads`.
    """
    most = max(np.bincount(flows[end], flows["bytes"]).max() for end in ("source", "target"))
    return float(most / fabric.nic_rate_Bps / fabric_loads(fabric, flows)["time_s"].max())
