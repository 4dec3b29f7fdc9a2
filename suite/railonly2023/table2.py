"""Table 2 of railonly2023: counts and cost, and what redundant rail switches cost."""

from dataclasses import replace

import pandas as pd

from railcore.network import price_books
from railcore.network.bill import bill_total
from railcore.network.topology.clos import Parts
from railcore.network.topology.rails import RailFabric
from suite.ledger import claims
from suite.ledger.readings import Entries, verdict_readings
from suite.railonly2023.rail_networks import TIED_RADIX, least_saving_radix, savings_table

_TABLE, _SPARES = "railonly2023.table2", "railonly2023.fault.redundant_cost_ratio"


def parts_with_spares(fabric: RailFabric, optics: bool) -> Parts:
    """Parts of a fabric with a spare tier-1 switch for each rail.

    optics: a spare has the links of a switch of its rail, with optics at both ends, and replaces it by itself; else it
    waits in the rack and somebody moves the optics.
    """
    parts, layout = fabric.parts, fabric.layout
    if not fabric.tiers:  # no network, no switch to replace
        return parts
    switches, links = parts.switches_by_tier.copy(), parts.links_by_tier.copy()
    switches[0] += fabric.rails
    if optics:
        links[0] += fabric.rails * min(int(layout.hosts_per_leaf), len(fabric.endpoints(1)))
        links[1:2] += fabric.rails * int(layout.uplinks(1, layout.hosts_per_leaf))
    return replace(parts, switches_by_tier=switches, links_by_tier=links)


def redundancy_costs(
    cases: pd.DataFrame, hb_domain_size: int, prices: price_books.PriceBook, rails_per_switch: int | None
) -> pd.DataFrame:
    """Cost of rail-only with redundant parts, divided by that of rail-optimized without them.

    Parameters
    ----------
    cases
        Columns gpus and radix.
    hb_domain_size
        GPUs of an HB domain (scale-up or NVLink domain).
    prices
        Book of prices [USD].
    rails_per_switch
        Rails that share a switch where a rail is less than one; None for as many as fit.

    Returns
    -------
    Columns none, spare_switch and spare_switch_and_optics (one for each rail), everything_doubled.
    """
    rows = []
    for n, k in cases[["gpus", "radix"]].itertuples(index=False):
        fabric = RailFabric(n, hb_domain_size, k, rails_per_switch=rails_per_switch)
        built = (
            fabric.with_layer(1.0).parts,
            fabric.parts,
            *(parts_with_spares(fabric, optics) for optics in (False, True)),
        )
        clos, none, switch, optics = (float(bill_total(parts.bill(), prices)) for parts in built)
        rows.append((none / clos, switch / clos, optics / clos, 2 * none / clos))
    return pd.DataFrame(rows, columns=["none", "spare_switch", "spare_switch_and_optics", "everything_doubled"])


def table2_claims(hb_domain_size: int, prices: price_books.PriceBook, powers: price_books.PriceBook) -> Entries:
    """Values, reasons and readings of the claims on counts and cost, and on the cost of redundant switches.

    powers: peak powers, for the columns of the table; the document prints none.
    """
    table = savings_table(_TABLE, hb_domain_size, prices, powers)
    alone, shared = (redundancy_costs(table, hb_domain_size, prices, sharing) for sharing in (1, None))
    values = claims.table_values(_TABLE, table)
    own_switches = claims.table_values(
        _TABLE, savings_table(_TABLE, hb_domain_size, prices, powers, share_switches=False)
    )
    shares = {"rails that are less than a switch share one": {"a switch for each rail": own_switches}}
    readings = verdict_readings(values, shares)
    values |= {f"{_TABLE}.worst_radix": least_saving_radix(table), _SPARES: alone["spare_switch_and_optics"].max()}
    readings |= {
        f"{_TABLE}.worst_radix": TIED_RADIX,
        _SPARES: "one more switch with its optics for every rail, each rail on switches of its own; "
        f"{shared['spare_switch_and_optics'].max():.3g} where rails share switches as in Table 2, "
        f"{shared['everything_doubled'].max():.3g} with all switches and links doubled",
    }
    reasons = {
        f"{_TABLE}.n32768.r32.cost_saving": "the document cuts digits off: 54.5% is printed as 54%",
        f"{_TABLE}.n32768.r64.switch_ratio": "contradicts the table beside it, 1,536 of 2,560 switches; of the "
        "transceivers it is two thirds",
        _SPARES: "dearer in one case alone, 32,768 GPUs with radix 256, where a rail is half a switch",
    }
    return Entries(values, reasons, readings)
