"""Table 2 of railonly2023: counts and cost, and what redundant rail switches cost."""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from railcore.network import price_books
from railcore.network.bill import bill_total
from railcore.network.topology.clos import Parts
from railcore.network.topology.rails import RailFabric
from suite.ledger import claims
from suite.ledger.readings import Entries, joined_texts, verdict_readings
from suite.railonly2023.rail_networks import (
    TIED_RADIX,
    least_saving_radix,
    savings_table,
    switch_ratio_words,
    table_cases,
)

_TABLE, _SPARES = "railonly2023.table2", "railonly2023.fault.redundant_cost_ratio"
_FEWER, _RATIO = "railonly2023.fault.switch_ratio", f"{_TABLE}.n32768.r64.switch_ratio"
SERVER_GPUS = (8, 16)  # of an HB domain that is one server, beside the GH200's 256: the text names them


def parts_with_spares(fabric: RailFabric, optics: bool) -> Parts:
    """Parts of a fabric with a spare tier-1 switch for each rail, or for each switch that rails share.

    optics: a spare has the links of a switch of its rail, with optics at both ends, and replaces it by itself; else it
    waits in the rack and somebody moves the optics.
    """
    parts, layout = fabric.parts, fabric.layout
    if not fabric.tiers:  # no network, no switch to replace
        return parts
    switches, links = parts.switches_by_tier.copy(), parts.links_by_tier.copy()
    spares = min(fabric.rails, int(switches[0]))
    switches[0] += spares
    if optics:
        links[0] += spares * min(int(layout.hosts_per_leaf), -(-fabric.gpus // spares))
        links[1:2] += spares * int(layout.uplinks(1, layout.hosts_per_leaf))
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
    Columns none, spare_switch and spare_switch_and_optics (`parts_with_spares`), everything_doubled.
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


def _values(
    hb_domain_size: int, prices: price_books.PriceBook, powers: price_books.PriceBook, shared: bool = True
) -> dict[str, float]:
    """Values of the claims by their ids. shared: whether rails that are less than a switch share one."""
    table = savings_table(_TABLE, hb_domain_size, prices, powers, shared)
    costs = redundancy_costs(table, hb_domain_size, prices, None if shared else 1)
    return claims.table_values(_TABLE, table) | {
        f"{_TABLE}.worst_radix": least_saving_radix(table),
        _SPARES: costs["spare_switch_and_optics"].max(),
        _FEWER: table["switch_ratio"].max(),
    }


def table2_claims(hb_domain_size: int, prices: price_books.PriceBook, powers: price_books.PriceBook) -> Entries:
    """Values, reasons and readings of the claims on counts and cost, and on the cost of redundant switches.

    powers: peak powers, for the columns of the table; the document prints none.
    """
    values = _values(hb_domain_size, prices, powers)
    servers = {f"{size}": _values(size, prices, powers) for size in SERVER_GPUS}
    own_switches = _values(hb_domain_size, prices, powers, shared=False)
    fewer = ", ".join(f"{size}: {others[_FEWER]:.3g}" for size, others in servers.items())
    doubled = redundancy_costs(table_cases(_TABLE), hb_domain_size, prices, None)["everything_doubled"].max()
    readings = joined_texts(
        verdict_readings(
            values,
            {
                "HB domains of 256 GPUs": servers,
                "rails that are less than a switch share one": {"a switch for each rail": own_switches},
            },
        ),
        {
            f"{_TABLE}.worst_radix": TIED_RADIX,
            _FEWER: f"HB domains of 256 GPUs ({fewer})",
            _SPARES: f"a spare, with optics, for each rail or shared switch (all parts doubled: {doubled:.3g})",
        },
    )
    reasons = {
        f"{_TABLE}.n32768.r32.cost_saving": "the document cuts digits off: 54.5% is printed as 54%",
        _RATIO: "contradicts the table beside it, 1,536 of 2,560 switches; of the transceivers it is two thirds",
    }
    return Entries(values, reasons, readings)


def table2_words(values: Mapping[str, float]) -> str:
    """What the title of Table 2 says of the document. values: ours, by claim id."""
    ratio = switch_ratio_words(_RATIO, values[_RATIO])
    return ratio and f" The document calls rail-optimized SOTA, and cuts its percentages off after two digits. {ratio}"
