"""Folded-Clos networks over rails: tiers, switches and links in closed form, vectorised.

One construction serves every electrical fabric. A rail of R endpoints is a folded Clos. Rails stand in pods; above
the pods an any-to-any layer joins them with an oversubscription s: infinite for rail-only (the layer is absent),
1 for rail-optimized. A fat tree is one rail that holds every endpoint.

Every switch of tier i < top has d = k/2 ports down and k/2 up (d = k s / (1 + s) below an oversubscribed layer); a top
switch has k ports down. A block of tier i joins n blocks of tier i - 1: the switches that stand at the same place in
their blocks, with u uplinks each, share ceil(u / w) switches through trunks of w = floor(d / n) links. Every child
spreads its uplinks in the same way, so each tier carries what its children send, and the network has full bisection
where s = 1, however raggedly it is filled.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from railcore.facts.checks import Ints, whole

# Whole numbers held as floats, exact below 2**52: NumPy divides them several times as fast as integers.
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Parts:
    """Parts of a network; every field has the broadcast shape of the arguments, by tier as a leading axis.

    tiers: switch tiers (0 where no link is needed).
    switches_by_tier [tier, ...]: packet switches of tier 1, 2, ...
    links_by_tier [tier, ...]: links below tier 1 (host links), 2, ...; a link joins two ports.
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
    def transceivers(self) -> Ints:
        """One at each end of every link, the host's included."""
        return 2 * self.links


@dataclass(frozen=True)
class Layout:
    """How a fabric is laid out; arrays of one shape. Blocks and fan-in are lists by tier (index 0 is tier 1)."""

    tiers: Numbers
    pod_tier: Numbers
    pods: Numbers
    rails_per_pod: Numbers
    leaves_per_rail: Numbers
    hosts_per_leaf: Numbers
    blocks: list[Numbers]
    fan_in: list[Numbers]
    down: list[Numbers]
    radix: Numbers
    oversubscription: NDArray[np.float64]
    below: tuple[float, ...]

    def uplinks(self, tier: int, downlinks: Numbers | float) -> Numbers:
        """Uplinks of a switch of `tier` with so many downlinks: ceil(downlinks / s), none at the top."""
        ratio = np.where(tier == self.pod_tier, self.oversubscription, _ratio(self.below, tier))
        return np.where(tier >= self.tiers, 0, np.ceil(downlinks / ratio))


def checked_radix(value: ArrayLike) -> Ints:
    """`value` as switch radix. Raises ValueError unless every one is even and at least 4."""
    radix = whole("radix", value, least=4)
    if np.any(radix % 2):
        raise ValueError(f"radix is {value!r}: give an even number of ports, so that half can face up")
    return radix


def checked_oversubscription(value: ArrayLike, name: str = "oversubscription") -> NDArray[np.float64]:
    """`value` as ratio of downward to upward bandwidth, 1 to infinity. Raises ValueError for anything else."""
    ratio = np.asarray(value, dtype=float)
    if not np.all(ratio >= 1):
        raise ValueError(f"{name} is {value!r}: give 1 (full) or more, up to math.inf (no layer)")
    return ratio


def floor_div(a: ArrayLike, b: ArrayLike) -> Numbers:
    """Largest whole number up to a / b."""
    return np.floor(np.true_divide(a, b))


def ceil_div(a: ArrayLike, b: ArrayLike) -> Numbers:
    """Least whole number from a / b."""
    return np.ceil(np.true_divide(a, b))


def down_ports(radix: Ints | Numbers, ratio: ArrayLike) -> Numbers:
    """Ports that face down at oversubscription s: floor(k s / (1 + s)), all k where s is infinite."""
    return np.floor(radix / (1 + 1 / np.asarray(ratio, dtype=float)) + 1e-9)


def clos_reach(radix: ArrayLike, tiers: ArrayLike) -> Ints:
    """Endpoints that a folded Clos reaches at full bisection: 2 (k/2)^t.

    radix k [ports], tiers t [tiers]. Source: railonly2025 and railonly2023, their tables.
    """
    return 2 * (checked_radix(radix) // 2) ** whole("tiers", tiers)


def ideal_clos_parts(endpoints: ArrayLike, radix: ArrayLike) -> tuple[Ints, NDArray[np.float64], NDArray[np.float64]]:
    """Tiers, switches and transceivers of the smallest full-bisection Clos, switches as fractions.

    t is the least with N <= 2 (k/2)^t; switches (2 t - 1) N / k; transceivers 2 t N, host links included.
    What the documents count; `rail_parts` counts whole switches. endpoints N, radix k [ports].
    """
    endpoints, radix = np.broadcast_arrays(whole("endpoints", endpoints), checked_radix(radix))
    tiers, reach = np.ones(endpoints.shape, dtype=np.int64), radix.copy()
    while np.any(short := reach < endpoints):
        tiers, reach = tiers + short, np.where(short, reach * (radix // 2), reach)
    return tiers, (2 * tiers - 1) * endpoints / radix, (2 * tiers * endpoints).astype(float)


def layout(
    rail_size: ArrayLike,
    rails: ArrayLike,
    radix: ArrayLike,
    oversubscription: ArrayLike = np.inf,
    rails_per_switch: ArrayLike = 1,
    below: tuple[float, ...] = (),
) -> Layout:
    """Tiers, pods and blocks of a fabric of `rails` rails of `rail_size` endpoints.

    oversubscription s: of the any-to-any layer over the rails; below: of the tiers within a rail, tier 1 first.
    rails_per_switch: rails that share a switch (in VLANs) where a rail is one switch and there is no layer above.
    Raises ValueError for sizes that are no whole positive numbers, and for rails that cannot share a switch.
    """
    given = np.broadcast_arrays(
        whole("rail_size", rail_size),
        whole("rails", rails),
        checked_radix(radix),
        checked_oversubscription(oversubscription),
        whole("rails_per_switch", rails_per_switch),
    )
    size, rails, k, s, share = (array.astype(float) for array in given)
    below = tuple(float(ratio) for ratio in np.atleast_1d(checked_oversubscription(below or 1.0, "below")))
    layered = np.isfinite(s)
    if np.any((down_ports(k, max(below)) >= k) | (layered & (down_ports(k, s) >= k))):
        raise ValueError("oversubscription leaves no port facing up: lower it, or give math.inf for no layer")
    pod_tier, leaves, per_pod = _pods(size, rails, k, s, below)
    shared = ~layered & (share > 1)
    if np.any(shared & ((pod_tier > 1) | (share * size > k))):
        raise ValueError(
            f"rails_per_switch is {rails_per_switch!r}, but that many rails do not fit into one switch: "
            "lower it to radix // rail size, or to 1"
        )
    pods = ceil_div(rails, np.where(shared, np.minimum(share, rails), per_pod))
    per_pod = ceil_div(rails, pods)

    in_leaf = pod_tier == 1
    hosts = np.where(in_leaf, per_pod * size, ceil_div(size, leaves))
    blocks, fan_in = [np.where(in_leaf, pods, rails * leaves)], [hosts]
    down = [down_ports(k, np.where(in_leaf, s, _ratio(below, 1)))]
    in_pod, tiers, tier = per_pod * leaves, np.where((pods == 1) | ~layered, pod_tier, 0), 1
    while np.any((tiers == 0) | (tier < tiers)):
        tier += 1
        inside, at_pod = tier < pod_tier, tier == pod_tier
        top = np.where(tiers == 0, (tier > pod_tier) & (blocks[-1] <= k), tier == tiers)
        half = down_ports(k, np.where(inside, _ratio(below, tier), np.where(at_pod, s, 1.0)))
        smaller, above = ceil_div(in_pod, half), np.where(top, 1, ceil_div(blocks[-1], half))
        outside = np.where(at_pod, in_pod, ceil_div(blocks[-1], above))
        fan_in.append(np.where(inside, ceil_div(in_pod, smaller), outside))
        blocks.append(np.where(inside, pods * smaller, np.where(at_pod, pods, above)))
        down.append(np.where(top, k, half))
        in_pod, tiers = np.where(inside, smaller, in_pod), np.where(top, tier, tiers)
    bare = ~layered & (size == 1)  # one HB domain: a rail has no second endpoint to reach
    return Layout(np.where(bare, 0, tiers), pod_tier, pods, per_pod, leaves, hosts, blocks, fan_in, down, k, s, below)


def _ratio(below: tuple[float, ...], tier: int) -> float:
    return below[tier - 1] if tier <= len(below) else 1.0


def _pods(
    size: Numbers, rails: Numbers, k: Numbers, s: Numbers, below: tuple[float, ...]
) -> tuple[Numbers, Numbers, Numbers]:
    """Tier at the head of a pod, leaves of a rail, rails of a pod: the lowest tier whose block holds a rail.

    One pod under full-radix switches takes all rails where they fit: no layer is needed above it.
    """
    layered, first = np.isfinite(s), down_ports(k, _ratio(below, 1))
    pod_tier, leaves, per_pod = np.zeros_like(k), np.ones_like(k), np.zeros_like(k)
    tier, inner = 0, np.ones_like(k)
    while np.any(open_ := pod_tier == 0):
        tier += 1
        inner = inner * (down_ports(k, _ratio(below, tier - 1)) if tier > 2 else 1)
        ours = np.ones_like(k) if tier == 1 else ceil_div(size, first)
        unit = size if tier == 1 else ours
        whole, headed = floor_div(k * inner, unit), floor_div(down_ports(k, s) * inner, unit)
        single = open_ & layered & (whole >= rails)
        fits = open_ & ~single & (np.where(layered, headed, whole) >= 1)
        pod_tier, leaves = np.where(single | fits, tier, pod_tier), np.where(single | fits, ours, leaves)
        many = np.where(layered, np.minimum(headed, rails), 1)
        per_pod = np.where(single, rails, np.where(fits, many, per_pod))
    return pod_tier, leaves, per_pod


def count(plan: Layout, endpoints: ArrayLike) -> Parts:
    """Switches and links of a layout with so many endpoints, tier by tier."""
    used = plan.tiers > 0
    switches = [np.where(used, plan.blocks[0], 0)]
    links = [np.where(used, whole("endpoints", endpoints), 0)]
    # Switches at the head of a block, as (how many, uplinks of each): the last switch of a group has fewer.
    heads = [(np.ones_like(plan.tiers), plan.uplinks(1, plan.hosts_per_leaf))]
    for tier in range(2, len(plan.blocks) + 1):
        here = tier <= plan.tiers
        below, blocks, fan_in = plan.blocks[tier - 2], plan.blocks[tier - 1], plan.fan_in[tier - 1]
        trunk = np.maximum(floor_div(plan.down[tier - 1], np.maximum(fan_in, 1)), 1)
        total, wires = np.zeros_like(plan.tiers), np.zeros_like(plan.tiers)
        above: list[tuple[Numbers, Numbers]] = []
        for heads_of_kind, uplinks in heads:
            full = floor_div(uplinks, trunk)
            rest = uplinks - full * trunk
            wires = wires + heads_of_kind * uplinks
            for many, width in ((heads_of_kind * full, trunk), (heads_of_kind * (rest > 0), rest)):
                if np.any(here & (many > 0)):
                    total = total + many
                    above.append((many, plan.uplinks(tier, fan_in * width)))
        switches.append(np.where(here, blocks * total, 0))
        links.append(np.where(here, below * wires, 0))
        heads = above
    arrays = (plan.tiers, np.stack(switches), np.stack(links), plan.radix)
    tiers, by_tier, wired, radix = (array.astype(np.int64) for array in arrays)
    return Parts(tiers, by_tier, wired, radix)


def rail_size(gpus: ArrayLike, hb_domain_size: ArrayLike, rails: ArrayLike | None = None) -> Ints:
    """Endpoints of the largest rail: GPU j of every HB domain is on rail j modulo `rails` (by default one rail a GPU).

    gpus, hb_domain_size [GPUs]; the last HB domain may be part-filled.
    """
    gpus, domain = whole("gpus", gpus), whole("hb_domain_size", hb_domain_size)
    rails = domain if rails is None else whole("rails", rails)
    full = floor_div(gpus, domain)
    return (full * ceil_div(domain, rails) + ceil_div(gpus - full * domain, rails)).astype(np.int64)


def rail_parts(
    gpus: ArrayLike,
    hb_domain_size: ArrayLike,
    radix: ArrayLike,
    oversubscription: ArrayLike = np.inf,
    rails: ArrayLike | None = None,
    rails_per_switch: ArrayLike = 1,
    planes: ArrayLike = 1,
    below: tuple[float, ...] = (),
) -> Parts:
    """Whole parts of rail networks, one for each element of the broadcast arguments.

    gpus, hb_domain_size [GPUs]; radix [ports of full speed]; oversubscription: of the any-to-any layer over the rails,
    infinite for rail-only and 1 for rail-optimized; rails: by default one for each GPU of a domain, 1 for a fat tree;
    planes: every NIC port and switch port split into so many slower ones, each in a network of its own.
    Raises ValueError naming the argument that is out of range.
    """
    given = np.broadcast_arrays(
        whole("gpus", gpus),
        whole("hb_domain_size", hb_domain_size),
        checked_radix(radix),
        checked_oversubscription(oversubscription),
        whole("rails", hb_domain_size if rails is None else rails),
        whole("rails_per_switch", rails_per_switch),
        whole("planes", planes),
    )
    shape, flat = given[0].shape, [array.ravel() for array in given]
    # Blocks that stay in the processor's cache: three times as fast as whole arrays of a million.
    starts = range(0, max(flat[0].size, 1), _BLOCK)
    blocks = [_rail_parts([array[start : start + _BLOCK] for array in flat], below) for start in starts]
    tiers = max(len(block.switches_by_tier) for block in blocks)

    def joined(arrays: list[Ints]) -> Ints:
        whole = np.zeros((tiers, flat[0].size), dtype=np.int64)
        for start, array in zip(starts, arrays, strict=True):
            whole[: len(array), start : start + _BLOCK] = array
        return whole.reshape(tiers, *shape)

    return Parts(
        np.concatenate([block.tiers for block in blocks]).reshape(shape),
        joined([block.switches_by_tier for block in blocks]),
        joined([block.links_by_tier for block in blocks]),
        np.concatenate([block.radix for block in blocks]).reshape(shape),
    )


_BLOCK = 1 << 13


def _rail_parts(block: list[np.ndarray], below: tuple[float, ...]) -> Parts:
    gpus, domain, radix, oversubscription, rails, rails_per_switch, planes = block
    domain = np.minimum(domain, gpus)
    rails = np.minimum(rails, domain)
    plan = layout(rail_size(gpus, domain, rails), rails, radix * planes, oversubscription, rails_per_switch, below)
    one = count(plan, gpus)
    return Parts(one.tiers, one.switches_by_tier * planes, one.links_by_tier * planes, one.radix)
