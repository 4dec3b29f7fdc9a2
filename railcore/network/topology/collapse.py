"""Why an oversubscribed fabric is the same as at 1:1, or rail-only takes no less than rail-optimized.

A rail takes the fewest tiers (`topology.clos`). Where it does not fit under switches that keep ports for a layer above,
it takes a tier more; one block of that tier may hold all rails at full bisection, so that no layer is needed above it.
Rail-only without a tier left out is a Clos for each rail, each filled in part, in place of one for all.
"""

from dataclasses import replace
from math import inf, prod

import numpy as np

from railcore.network.topology.clos import Parts, clos_reach, down_ports, rail_size
from railcore.network.topology.rails import RailFabric


def collapse_warning(fabric: RailFabric) -> str:
    """Why an oversubscribed fabric takes the parts of 1:1, and what would change that.

    Empty where its oversubscription takes parts away (`RailFabric.is_oversubscribed`), and where it has none.
    """
    layered = 1 < fabric.oversubscription < inf
    ratio = fabric.oversubscription if layered else max(fabric.tier_oversubscription, default=1.0)
    if ratio == 1 or fabric.is_oversubscribed:
        return ""
    tier = int(fabric.layout.pod_tier)
    if not fabric.tiers:
        why = "the GPUs need no network."
    elif layered and fabric.rails == 1:
        why = "there is one rail, and no layer over it."
    elif fabric.layout.pods > 1 or not (layered or tier == 1):
        why = "the ratio is too small to take a port of a switch away. Give a larger one."
    elif tier == 1:
        why = "one switch joins all GPUs. Give more GPUs, or smaller switches."
    else:
        why = _rail_without_layer(fabric, tier)
    return f"A network oversubscribed {ratio:g}:1 is the same as 1:1 here, no design of its own: {why}"


def _rail_without_layer(fabric: RailFabric, tiers: int) -> str:
    """Why rails of so many tiers have no layer above, and the largest cluster whose rails fit below one."""
    size = fabric.hb_domain_size
    rail, of_domain = (int(rail_size(gpus, size, fabric.rails)) for gpus in (fabric.gpus, size))
    *below, top = fabric.layout.down
    held = int(down_ports(top, fabric.oversubscription) * prod(below[: tiers - 2]))
    return (
        f"a rail of {rail:,} GPUs does not fit into {_tiers(tiers - 1)} of switches that keep ports for a layer above, "
        f"and {tiers} tiers join all rails at full bandwidth without one. Rails of at most {held:,} fit: "
        f"{held // of_domain * size:,} GPUs. Or oversubscribe within the rails "
        "(`tier_oversubscription` of `RailFabric`)."
    )


def takes_no_less(rail_only: Parts, rail_optimized: Parts) -> np.ndarray:
    """Where rail-only takes more switches or links than rail-optimized, or the same of both; not without links."""
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
        f"{int(each.parts.switches):,} switches and {int(each.parts.link_ends):,} optical ends"
        for each in (fabric, full)
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
