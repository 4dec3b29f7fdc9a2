"""Why an oversubscribed fabric is the same as at 1:1, or rail-only takes no less than rail-optimized, and what to do.

A rail takes the fewest tiers (`topology.clos`). Where it does not fit under switches that keep ports for a layer above,
it takes a tier more; one block of that tier may hold all rails at full bisection, so that no layer is needed above it.
Rail-only without a tier left out is a Clos for each rail, each filled in part, in place of one for all.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from railcore.network.topology.clos import Parts, clos_reach, rail_size
from railcore.network.topology.rails import RailFabric


def collapse_warning(fabric: RailFabric) -> str:
    """Why an oversubscribed fabric takes the parts of 1:1, and the nearest numbers at which it would not.

    Empty where its oversubscription takes parts away (`RailFabric.is_oversubscribed`), and where it has none.
    """
    layered = 1 < fabric.oversubscription < inf
    ratio = fabric.oversubscription if layered else max(fabric.tier_oversubscription, default=1.0)
    if ratio == 1 or fabric.is_oversubscribed:
        return ""
    tier, k, size = int(fabric.layout.pod_tier), fabric.radix, fabric.hb_domain_size
    start = f"A network oversubscribed {ratio:g}:1 is the same as 1:1 here, no design of its own:"
    if not fabric.tiers:
        return f"{start} the GPUs need no network."
    if layered and fabric.rails == 1:
        return f"{start} there is one rail, and no layer over it."
    if fabric.layout.pods > 1 or not (layered or tier == 1):
        return f"{start} the ratio is too small to take a port of a switch away. Give a larger one."
    gpus = range((fabric.domains - 1) * size, 0, -size), range((fabric.domains + 1) * size, fabric.gpus * k, size)
    of_gpus = [_nearest(fabric, "gpus", values) for values in gpus]
    of_radix = [_nearest(fabric, "radix", values) for values in (range(k - 2, 2, -2), range(k + 2, 4 * k, 2))]
    others = [f"{other.gpus:,} GPUs ({_tiers(other.tiers)})" for other in of_gpus if other]
    others += [f"{other.radix} ports of a switch ({_tiers(other.tiers)})" for other in of_radix if other]
    remedy = f" The nearest with such a network: {', '.join(others)}." if others else ""
    if tier == 1:
        return f"{start} one switch joins all GPUs.{remedy}"
    rail, held = (int(rail_size(one.gpus, size, fabric.rails)) if one else 0 for one in (fabric, of_gpus[0]))
    return (
        f"{start} a rail of {rail:,} GPUs does not fit into {_tiers(tier - 1)} of switches that keep ports for a layer "
        f"above{f' (at most {held:,})' if held else ''}, and {tier} tiers join all rails at full bandwidth without one."
        f"{remedy} Or oversubscribe within the rails (`tier_oversubscription` of `RailFabric`)."
    )


def takes_no_less(rail_only: Parts, rail_optimized: Parts) -> np.ndarray:
    """Where rail-only takes more switches or links than rail-optimized, or as many of both; False without a network."""
    switches, links = rail_only.switches - rail_optimized.switches, rail_only.links - rail_optimized.links
    return (rail_only.tiers > 0) & ((switches > 0) | (links > 0) | ((switches == 0) & (links == 0)))


def rail_only_warning(fabric: RailFabric) -> str:
    """Why rail-only takes no less than rail-optimized (`takes_no_less`), and what to do; empty for other fabrics."""
    if fabric.oversubscription < inf or fabric.rails == 1:
        return ""
    full = fabric.with_layer(1.0)
    if not takes_no_less(fabric.parts, full.parts):
        return ""
    ours, theirs = (
        f"{int(network.parts.switches):,} switches and {int(network.parts.link_ends):,} optical ends"
        for network in (fabric, full)
    )
    start = f"Rail-only takes {ours}, rail-optimized {'the same' if ours == theirs else theirs}:"
    if fabric.tiers < full.tiers:
        return f"{start} each rail has a switch of its own and fills a part of it. Let rails share switches."
    size = fabric.hb_domain_size
    rail, of_domain = (int(rail_size(gpus, size, fabric.rails)) for gpus in (fabric.gpus, size))
    why = (
        f"{start} a rail of {rail:,} GPUs needs {_tiers(fabric.tiers)}, as many as all GPUs together, so that no tier "
        "is left out. The rail-optimized network serves as rail-only too."
    )
    if fabric.tiers == 1:
        return why
    domains = int(clos_reach(fabric.radix * fabric.planes, fabric.tiers - 1)) // of_domain
    smaller = replace(fabric, gpus=max(domains, 1) * size)
    return why + f" Up to {smaller.gpus:,} GPUs a rail needs {_tiers(smaller.tiers)}." * (smaller.tiers < fabric.tiers)


def _tiers(count: int) -> str:
    return f"{count} tier{'s' * (count != 1)}"


def _nearest(fabric: RailFabric, name: str, values: Sequence[int]) -> RailFabric | None:
    """The fabric with the first of `values` at which it needs more than one pod, or pods of another tier.

    values: ever farther from its own. None where its oversubscription takes nothing away there either.
    """
    tier = fabric.layout.pod_tier

    def changed(value: int) -> RailFabric:
        change: dict[str, Any] = {name: value}
        return replace(fabric, **change)

    def differs(value: int) -> bool:
        layout = changed(value).layout
        return bool(layout.pod_tier != tier or layout.tiers != tier)

    at = bisect_left(values, True, key=differs)
    other = changed(values[at]) if at < len(values) else None
    return other if other and other.is_oversubscribed else None
