"""Oversubscription that takes nothing away: why a fabric is the same as at 1:1, and what would make it another.

A rail takes the fewest tiers (`topology.clos`). Where it does not fit under switches that keep ports for a layer above,
it takes a tier more; one block of that tier may hold all rails at full bisection, so that no layer is needed above it.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

from railcore.network.topology.clos import rail_size
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
    others = [f"{each.gpus:,} GPUs ({_tiers(each.tiers)})" for each in of_gpus if each]
    others += [f"{each.radix} ports of a switch ({_tiers(each.tiers)})" for each in of_radix if each]
    remedy = f" The nearest with such a network: {', '.join(others)}." if others else ""
    if tier == 1:
        return f"{start} one switch joins all GPUs.{remedy}"
    rail, held = (int(rail_size(each.gpus, size, fabric.rails)) if each else 0 for each in (fabric, of_gpus[0]))
    return (
        f"{start} a rail of {rail:,} GPUs does not fit into {_tiers(tier - 1)} of switches that keep ports for a layer "
        f"above{f' (at most {held:,})' if held else ''}, and {tier} tiers join all rails at full bandwidth without one."
        f"{remedy} Or oversubscribe within the rails (`tier_oversubscription` of `RailFabric`)."
    )


def _tiers(count: int) -> str:
    return f"{count} tier{'s' * (count != 1)}"


def _nearest(fabric: RailFabric, name: str, values: Sequence[int]) -> RailFabric | None:
    """The fabric with the first of `values`, ever farther from its own, at which one pod of its tier is not the whole.

    None where its oversubscription takes nothing away there either.
    """
    tier = fabric.layout.pod_tier

    def changed(value: int) -> RailFabric:
        change: dict[str, Any] = {name: value}
        return replace(fabric, **change)

    def differs(value: int) -> bool:
        layout = changed(value).layout
        return bool(layout.pods > 1 or layout.pod_tier != tier or layout.tiers != tier)

    at = bisect_left(values, True, key=differs)
    other = changed(values[at]) if at < len(values) else None
    return other if other and other.is_oversubscribed else None
