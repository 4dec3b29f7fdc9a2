"""What redundant switches cost."""

import pandas as pd

from railcore.facts.checks import whole
from railcore.network.cost.prices import PriceBook, network_total
from railcore.network.topology.clos import Parts, rail_parts
from railcore.network.topology.rails import RailFabric, rails_that_share


def doubled(parts: Parts) -> Parts:
    """Every switch and every link twice: a second network beside the first, full redundancy."""
    return Parts(parts.tiers, 2 * parts.switches_by_tier, 2 * parts.links_by_tier, parts.radix)


def with_spares(fabric: RailFabric, spares_per_rail: int = 1, transceivers: bool = True) -> Parts:
    """Parts of a fabric with spare tier-1 switches for each rail.

    transceivers: every spare has the links of a switch of its rail, with optics at both ends, and replaces it by
    itself; else it waits in the rack and somebody moves the optics. Raises ValueError for a negative number.
    """
    whole("spares_per_rail", spares_per_rail, least=0)
    parts, plan = fabric.parts, fabric.plan
    if not fabric.tiers:  # no network, no switch to replace
        return parts
    switches, links = parts.switches_by_tier.copy(), parts.links_by_tier.copy()
    spares = spares_per_rail * fabric.rails * fabric.planes
    hosts = min(int(plan.hosts_per_leaf), len(fabric.endpoints(1)))
    switches[0] += spares
    if transceivers:
        links[0] += spares * hosts
        links[1:2] += spares * int(plan.uplinks(1, plan.hosts_per_leaf))
    return Parts(parts.tiers, switches, links, parts.radix)


def redundancy(cases: pd.DataFrame, hb_domain_size: int, prices: PriceBook) -> pd.DataFrame:
    """Cost of rail-only with redundant parts over the any-to-any Clos without, for cases with columns gpus and radix.

    Columns gpus, radix, rails_per_switch (as many as fit, and 1), none, spare_switch, spare_switch_and_optics (one for
    each rail), everything_doubled.
    """
    rows = []
    for n, k in cases[["gpus", "radix"]].itertuples(index=False):
        clos = float(network_total(rail_parts(n, hb_domain_size, k, 1), prices))
        for share in sorted({int(rails_that_share(n, hb_domain_size, k)), 1}, reverse=True):
            fabric = RailFabric(n, hb_domain_size, k, rails_per_switch=share)
            ways = (fabric.parts, with_spares(fabric, 1, False), with_spares(fabric, 1, True), doubled(fabric.parts))
            rows.append((n, k, share, *(float(network_total(parts, prices)) / clos for parts in ways)))
    columns = "gpus radix rails_per_switch none spare_switch spare_switch_and_optics everything_doubled".split()
    return pd.DataFrame(rows, columns=columns)
