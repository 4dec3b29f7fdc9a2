"""Folded-Clos networks over rails: tiers, switches and links in closed form, vectorised.

One construction serves every electrical fabric. A rail of R endpoints is a folded Clos. Pods hold whole rails. An
any-to-any layer above the pods joins them with an oversubscription s: infinite for rail-only (no layer), 1 for
rail-optimized. A fat tree is one rail that holds every endpoint.

Every switch of tier i < top has d = k/2 ports down and k/2 up (d = k s / (1 + s) below an oversubscribed layer); a
top switch has k ports down. A block of tier i joins n blocks of tier i - 1. Take the n switches at the same place in
these blocks, each with u uplinks: they share ceil(u / w) switches of tier i. A trunk of w = floor(d / n) links joins
each of them to each of those. Every child spreads its uplinks in the same way, so each tier carries what its children
send, and the network has full bisection where s = 1, however raggedly it is filled.

Scalable units are blocks that are kept smaller than their ports allow (`fan_in`: hosts of a leaf, leaves of a group):
NVIDIA's GB200 has a leaf for each rack and rail, and groups of eight leaves. A trunk into such a block is the widest
that divides the uplinks, so that all its switches are alike."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from railcore.catalog.arguments import PositiveArray, UnboundedArray
from railcore.catalog.checks import Ints, numbers, whole
from railcore.network.topology.bill_line import Bill, BillLine

# Whole numbers held as floats, exact below 2**52: NumPy divides them several times as fast as integers.
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Parts:
    """Parts of a network; every field has the broadcast shape of the arguments, by tier as a leading axis.

    tiers: switch tiers; 0 where no link is needed.
    switches_by_tier: packet switches of tier 1, 2, ...
    links_by_tier: links below tier 1 (host links), below tier 2, ...; a link joins two ports.
    radix: ports of a switch, all of them bought.
    """

    tiers: Ints
    switches_by_tier: Ints
    links_by_tier: Ints
    radix: Ints

    @property
    def switches(self) -> Ints:
        """Switches of all tiers."""
        return self.switches_by_tier.sum(axis=0)

    @property
    def links(self) -> Ints:
        """Links of all tiers, host links included."""
        return self.links_by_tier.sum(axis=0)

    @property
    def ports(self) -> Ints:
        """Switch ports bought: switches x radix."""
        return self.switches * self.radix

    @property
    def link_ends(self) -> Ints:
        """Ends of all links, the host's included: each takes optics, of a module that may serve several ends."""
        return 2 * self.links

    def bill(self, copper_tiers: int = 0) -> Bill:
        """Its lines by tier. Links below tiers 1 to `copper_tiers` are copper (1: host links), the rest optics.

        Lines name no rate: with several planes ports and links are slower than the NIC, and so must the book be.
        """
        lines: list[BillLine] = []
        for tier, (switches, links) in enumerate(zip(self.switches_by_tier, self.links_by_tier, strict=True), start=1):
            lines.append(BillLine("switch", "switches", switches * self.radix, switches, tier))
            scope = "switch links" if tier > 1 else "host links"
            if tier <= copper_tiers:
                lines.append(BillLine("copper cable", scope, links, links, tier))
            elif tier > 1:
                lines.append(BillLine("transceiver", scope, 2 * links, tier=tier))
            else:
                lines += [BillLine("transceiver", end, links, tier=tier) for end in ("host links", "host optics")]
        return tuple(lines)


@dataclass(frozen=True)
class Pods:
    """The lowest blocks that hold whole rails, and the tiers of a fabric; arrays with an entry for each fabric.

    pod_tier: tier of the switches at the head of a pod.
    tiers: of the whole fabric.
    pods: their number.
    rails_per_pod: rails of a pod.
    leaves_per_rail: leaf switches of a rail.
    """

    pod_tier: Any
    tiers: Any
    pods: Numbers
    rails_per_pod: Numbers
    leaves_per_rail: Numbers


@dataclass(frozen=True)
class ClosLayout(Pods):
    """Blocks of fabrics whose pod_tier and tiers are one number each: arrays with an entry for each fabric.

    hosts_per_leaf: downlinks of a leaf switch.
    blocks: by tier, tier 1 first.
    fan_in: children of a block, by tier.
    down: ports of a switch that face down, by tier.
    most: children of a block at most, by tier: its ports down, or fewer in scalable units.
    ratios: oversubscription by tier.
    """

    hosts_per_leaf: Numbers
    blocks: list[Numbers]
    fan_in: list[Numbers]
    down: list[Numbers]
    most: list[Numbers]
    ratios: Sequence[float | Numbers]

    def trunk(self, tier: int, uplinks: Numbers | float) -> Numbers:
        """Links that join two switches, the upper one of `tier`; the lower one has so many uplinks."""
        width = np.maximum(floor_div(self.down[tier - 1], self.fan_in[tier - 1]), 1)
        if np.all(self.most[tier - 1] >= self.down[tier - 1]):
            return width
        while np.any(uneven := np.asarray(uplinks) % width > 0):  # of a scalable unit: ends at 1
            width = width - uneven
        return width

    def uplinks(self, tier: int, downlinks: Numbers | float) -> Numbers:
        """Uplinks of a switch of `tier` with so many downlinks: ceil(downlinks / s), none at the top."""
        if tier >= self.tiers:
            return np.zeros_like(downlinks)
        return np.ceil(downlinks / self.ratios[tier - 1])


def checked_radix(value: ArrayLike) -> Ints:
    """`value` as switch radix. Raises ValueError unless every one is even and at least 4."""
    radix = whole("radix", value, least=4)
    if np.any(radix % 2):
        raise ValueError(f"radix is {value!r}: give an even number of ports, so that half can face up")
    return radix


def checked_oversubscription(value: ArrayLike, name: str = "oversubscription") -> NDArray[np.float64]:
    """`value` as ratio of downward to upward bandwidth, 1 to infinity. Raises ValueError for anything else."""
    wanted = "1 (full) or more, up to math.inf (no layer)"
    ratio = numbers(name, value, wanted)
    if not np.all(ratio >= 1):
        raise ValueError(f"{name} is {value!r}: give {wanted}")
    return ratio


def floor_div(a: ArrayLike, b: PositiveArray) -> Numbers:
    """Largest whole number of at most a / b."""
    return np.floor(np.true_divide(a, b))


def ceil_div(a: ArrayLike, b: PositiveArray) -> Numbers:
    """Smallest whole number of at least a / b."""
    return np.ceil(np.true_divide(a, b))


def down_ports(radix: Ints | Numbers, ratio: UnboundedArray) -> Numbers:
    """Ports that face down at oversubscription s: floor(k s / (1 + s)), all k where s is infinite."""
    return np.floor(radix / (1 + 1 / np.asarray(ratio, dtype=float)) + 1e-9)


def clos_reach(radix: ArrayLike, tiers: ArrayLike) -> Ints:
    """Endpoints that a folded Clos reaches at full bisection: 2 (k/2)^t.

    radix k: even [ports]; tiers t [tiers]. Source: railonly2025 and railonly2023, their tables.
    """
    return 2 * (np.asarray(radix) // 2) ** np.asarray(tiers)


def ideal_clos_parts(endpoints: ArrayLike, radix: ArrayLike) -> tuple[Ints, NDArray[np.float64], NDArray[np.float64]]:
    """Tiers, switches and transceivers of the smallest full-bisection Clos, switches as fractions.

    t is the least with N <= 2 (k/2)^t; switches (2 t - 1) N / k; transceivers 2 t N, host links included.
    `rail_parts` counts whole switches. endpoints N: whole; radix k: even, at least 4 [ports].
    """
    endpoints, radix = np.broadcast_arrays(np.asarray(endpoints, np.int64), np.asarray(radix, np.int64))
    tiers, reach = np.ones(endpoints.shape, dtype=np.int64), radix.copy()
    while np.any(short := reach < endpoints):
        tiers, reach = tiers + short, np.where(short, reach * (radix // 2), reach)
    return tiers, (2 * tiers - 1) * endpoints / radix, (2 * tiers * endpoints).astype(float)


def rail_size(gpus: int | Ints, hb_domain_size: int | Ints, rails: int | Ints) -> Ints:
    """Endpoints of the largest rail: GPU j of every HB domain is on rail j modulo `rails`.

    gpus, hb_domain_size [GPUs]; the last HB domain may be part-filled.
    """
    full = floor_div(gpus, hb_domain_size)
    last = gpus - full * hb_domain_size
    return (full * ceil_div(hb_domain_size, rails) + ceil_div(last, rails)).astype(np.int64)


class Rules(NamedTuple):
    """How blocks are made, the same for all fabrics of an array.

    ratios: oversubscription of the tiers within a rail, tier 1 first; 1 beyond.
    fan_in: of scalable units: hosts of a leaf, leaves of a group, ... at most, tier 1 first; beyond as many as fit.
    one_pod: whether blocks above the leaves hold leaves of any rails, in place of pods of whole rails under a layer.
    """

    ratios: tuple[float, ...] = ()
    fan_in: tuple[int, ...] = ()
    one_pod: bool = False

    def ratio(self, tier: int) -> float:
        """Oversubscription of a tier within a rail."""
        return self.ratios[tier - 1] if tier <= len(self.ratios) else 1.0

    def most(self, tier: int | Ints, ports: Numbers) -> Numbers:
        """Children of a block of a tier at most, whose switches have so many ports down."""
        return np.minimum(ports, np.array([*self.fan_in, np.inf])[np.minimum(tier, len(self.fan_in) + 1) - 1])


def _pods(size: Numbers, rails: Numbers, k: Numbers, s: Numbers, share: Numbers, rules: Rules) -> Pods:
    """Pods of fabrics of `rails` rails of `size` endpoints: the head of a pod is the lowest tier that holds a rail.

    Where all rails fit under switches with all ports down, there is one pod and no layer above it. share: rails of a
    switch, where a rail is one switch without a layer above; 0 for as many as fit.
    """
    layered = np.isfinite(s)
    if np.any((down_ports(k, max(rules.ratios, default=1.0)) >= k) | (layered & (down_ports(k, s) >= k))):
        raise ValueError("oversubscription leaves no port facing up: lower it, or give math.inf for no layer")
    leaves = ceil_div(size, rules.most(1, down_ports(k, rules.ratio(1))))  # of a rail of several leaves
    pod_tier, held = np.zeros(k.shape, np.int64), np.ones_like(k)
    tier, under_port = 0, np.ones_like(k)  # endpoints (tier 1) or leaves below one port of a switch of the tier
    while np.any(higher := pod_tier == 0):
        tier += 1
        if tier > 2:
            under_port = under_port * rules.most(tier - 1, down_ports(k, rules.ratio(tier - 1)))
        rail = size if tier == 1 else leaves
        in_block, last = (floor_div(rules.most(tier, ports) * under_port, rail) for ports in (down_ports(k, s), k))
        in_block = np.where(last >= rails, rails, 0 if rules.one_pod else np.minimum(in_block, rails))
        here = higher & (in_block >= 1)
        pod_tier[here] = tier
        held = np.where(here, in_block, held)
    share = np.where(share == 0, np.maximum(floor_div(k, size), 1), share)
    too_many = ~layered & (share > 1) & (share * size > k)
    if np.any(too_many):
        raise ValueError(
            f"rails_per_switch is {share[too_many].max():g}, but that many rails do not fit into one switch: "
            "lower it to radix // rail size, or to 1"
        )
    pods = ceil_div(rails, np.where(layered, held, np.minimum(share, rails)))
    above, blocks = layered & (pods > 1), pods
    tiers = pod_tier + above
    while np.any(more := above & (blocks > rules.most(tiers, k))):
        blocks = np.where(more, ceil_div(blocks, rules.most(tiers, down_ports(k, 1))), blocks)
        tiers = tiers + more
    alone = ~layered & (size == 1)  # one HB domain: a rail has no second endpoint to reach
    return Pods(pod_tier, np.where(alone, 0, tiers), pods, ceil_div(rails, pods), np.where(pod_tier == 1, 1, leaves))


def _clos_above(children: Numbers, most: list[Numbers]) -> tuple[list[Numbers], list[Numbers]]:
    """Blocks of each tier of a Clos over so many children (one block at the top), and the children of a block."""
    blocks: list[Numbers] = []
    fan_in: list[Numbers] = []
    for tier, of_block in enumerate(most, start=1):
        blocks.append(np.ones_like(children) if tier == len(most) else ceil_div(children, of_block))
        fan_in.append(ceil_div(children, blocks[-1]))
        children = blocks[-1]
    return blocks, fan_in


def _layout(size: Numbers, rails: Numbers, k: Numbers, s: Numbers, pods_of: Pods, rules: Rules) -> ClosLayout:
    """Layout of fabrics with equal pod_tier and tiers: leaves, the Clos of a pod, and the Clos above the pods."""
    pod_tier, tiers = int(pods_of.pod_tier.flat[0]), int(pods_of.tiers.flat[0])
    inside: list[float | Numbers] = [rules.ratio(tier) for tier in range(1, pod_tier)]
    ratios = [*inside, s, *[1.0] * (tiers - pod_tier)]
    down = [k if tier == tiers else down_ports(k, ratio) for tier, ratio in enumerate(ratios, start=1)]
    most = [rules.most(tier, ports) for tier, ports in enumerate(down, start=1)]
    pods, in_pod, leaves = pods_of.pods, pods_of.rails_per_pod, pods_of.leaves_per_rail
    if pod_tier == 1:
        hosts, lowest = in_pod * size, pods
    else:
        hosts, lowest = ceil_div(size, leaves), rails * leaves
    blocks_of_pod, children_of_pod = _clos_above(in_pod * leaves, most[1:pod_tier])
    above, children_above = _clos_above(pods, most[pod_tier:])
    blocks = [lowest, *(pods * count for count in blocks_of_pod), *above]
    children = [hosts, *children_of_pod, *children_above]
    return ClosLayout(pod_tier, tiers, pods, in_pod, leaves, hosts, blocks, children, down, most, ratios)


def clos_layout(
    rail_size: int,
    rails: int,
    radix: int,
    oversubscription: float,
    rails_per_switch: int | None,
    rules: Rules,
) -> ClosLayout:
    """Tiers, pods and blocks of one fabric.

    Parameters
    ----------
    rail_size, rails, radix
        Endpoints of a rail; rails; ports of a switch.
    oversubscription
        Of the any-to-any layer over the rails, infinite without one.
    rails_per_switch
        Rails that share a switch (in VLANs) where a rail is one switch and there is no layer above; None for as many
        as fit.
    rules
        Of its blocks.

    Returns
    -------
    Layout with one number in each array.
    """
    numbers = rail_size, rails, radix, oversubscription, rails_per_switch or 0
    size, count, k, s, share = (np.asarray(number, float) for number in numbers)
    return _layout(size, count, k, s, _pods(size, count, k, s, share, rules), rules)


def _layout_parts(layout: ClosLayout, endpoints: Numbers) -> tuple[Numbers, Numbers]:
    """Switches and links of a layout by tier; endpoints: of the whole fabric."""
    if not layout.tiers:
        return np.zeros((1, *endpoints.shape)), np.zeros((1, *endpoints.shape))
    switches, links = [layout.blocks[0]], [endpoints]
    # Switches at the head of a block, as (how many, uplinks of each): the last switch of a group has fewer.
    heads = [(np.ones_like(endpoints), layout.uplinks(1, layout.hosts_per_leaf))]
    for tier in range(2, layout.tiers + 1):
        fan_in = layout.fan_in[tier - 1]
        wires = sum((many * uplinks for many, uplinks in heads), np.zeros_like(endpoints))
        heads_above = []
        for many, uplinks in heads:
            trunk = layout.trunk(tier, uplinks)
            full = floor_div(uplinks, trunk)
            rest = uplinks - full * trunk
            heads_above += [(many * full, layout.uplinks(tier, fan_in * trunk))]
            if np.any(rest > 0):
                heads_above += [(many * (rest > 0), layout.uplinks(tier, fan_in * rest))]
        heads = heads_above
        switches.append(layout.blocks[tier - 1] * sum((many for many, _ in heads), np.zeros_like(endpoints)))
        links.append(layout.blocks[tier - 2] * wires)
    return np.stack(switches), np.stack(links)


def rail_parts(
    gpus: ArrayLike,
    hb_domain_size: ArrayLike,
    radix: ArrayLike,
    oversubscription: ArrayLike = np.inf,
    rails: ArrayLike | None = None,
    rails_per_switch: ArrayLike | None = 1,
    planes: ArrayLike = 1,
    tier_oversubscription: tuple[float, ...] = (),
    fan_in: tuple[int, ...] = (),
    one_pod: bool = False,
) -> Parts:
    """Whole parts of rail networks, one for each element of the broadcast arguments.

    Parameters
    ----------
    gpus, hb_domain_size
        GPUs of the cluster and of an HB domain (scale-up or NVLink domain).
    radix
        Ports of a switch at the NIC's full speed.
    oversubscription
        Of the any-to-any layer over the rails: infinite for rail-only, 1 for rail-optimized.
    rails
        Rails: one for each GPU of a domain by default, 1 for a fat tree.
    rails_per_switch
        Rails that share a switch (in VLANs) where a rail is one switch and there is no layer above; None for as many
        as fit.
    planes
        Every NIC port and switch port is split into so many slower ones, each in a network of its own.
    tier_oversubscription
        Oversubscription of the tiers within a rail, tier 1 first.
    fan_in
        Of scalable units: hosts of a leaf, leaves of a group, ... at most, tier 1 first; beyond it as many as fit.
    one_pod
        Whether blocks above the leaves hold leaves of any rails, not pods of whole rails; at oversubscription 1.

    Returns
    -------
    Parts of all planes together; radix is that of the split ports.

    Raises
    ------
    ValueError
        An argument is out of range, or the rails cannot share a switch.
    """
    arguments = np.broadcast_arrays(
        whole("gpus", gpus),
        whole("hb_domain_size", hb_domain_size),
        checked_radix(radix),
        checked_oversubscription(oversubscription),
        hb_domain_size if rails is None else rails,
        0.0 if rails_per_switch is None else rails_per_switch,
        planes,
    )
    shape, flat = arguments[0].shape, [array.ravel() for array in arguments]
    within = checked_oversubscription(tier_oversubscription or 1.0, "tier_oversubscription")
    if one_pod and not np.all(arguments[3] == 1):
        raise ValueError(f"one_pod is True at oversubscription {oversubscription!r}: give 1, or pods of whole rails")
    units, rows = tuple(whole("fan_in", fan_in).tolist()) if fan_in else (), flat[0].size
    rules = Rules(tuple(np.atleast_1d(within).tolist()), units, one_pod)
    tiers, ports = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    groups = []
    for start in range(0, rows, _BLOCK):  # blocks that stay in the cache of the processor are faster
        here = slice(start, start + _BLOCK)
        tiers[here], ports[here], of_block = _block_parts([array[here] for array in flat], rules)
        groups += [(start + index, switches, links) for index, switches, links in of_block]
    by_tier = np.zeros((2, max(tiers.max(initial=0), 1), rows), np.int64)
    for index, *counts in groups:
        by_tier[:, : len(counts[0]), index] = counts
    switches, links = by_tier.reshape(2, -1, *shape)
    return Parts(tiers.reshape(shape), switches, links, ports.reshape(shape))


_BLOCK = 1 << 15
Group = tuple[NDArray[np.intp], Numbers, Numbers]


def _block_parts(block: list[np.ndarray], rules: Rules) -> tuple[Ints, Ints, list[Group]]:
    """Tiers and ports of fabrics, and by group of equal pod_tier and tiers: row numbers, switches, links."""
    gpus, domain, radix, s, rails, share, planes = block
    domain = np.minimum(domain, gpus)
    rails = np.minimum(rails, domain)
    size, count, k = rail_size(gpus, domain, rails).astype(float), rails.astype(float), (radix * planes).astype(float)
    every = _pods(size, count, k, s, share, rules)
    kinds, groups = every.pod_tier * 64 + every.tiers, []
    for kind in np.unique(kinds):
        at = np.flatnonzero(kinds == kind)
        pods = Pods(*(array[at] for array in vars(every).values()))
        layout = _layout(size[at], count[at], k[at], s[at], pods, rules)
        switches, links = _layout_parts(layout, gpus[at].astype(float))
        groups.append((at, switches * planes[at], links * planes[at]))
    return every.tiers, k.astype(np.int64), groups
