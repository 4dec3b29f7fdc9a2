"""Table 2 of railonly2023: counts and cost, and what redundant rail switches cost."""

from railcore.documents.rail_networks import TIED_RADIX, least_saving_radix, savings_table
from railcore.documents.readings import Entries, verdict_readings
from railcore.facts import claims
from railcore.network import cost, price_books

_TABLE, _SPARES = "railonly2023.table2", "railonly2023.fault.redundant_cost_ratio"


def table2_claims(hb_domain_size: int, prices: price_books.PriceBook, powers: price_books.PriceBook) -> Entries:
    """Values, reasons and readings of the claims on counts and cost, and on the cost of redundant switches.

    powers: peak powers, for the columns of the table; the document prints none.
    """
    table = savings_table(_TABLE, hb_domain_size, prices, powers)
    spares = cost.redundancy_costs(table, hb_domain_size, prices)
    alone = spares[spares["rails_per_switch"] == 1]
    shared = spares.loc[spares.groupby(["gpus", "radix"])["rails_per_switch"].idxmax()]
    values = claims.table_values(_TABLE, table)
    own_switches = claims.table_values(
        _TABLE, savings_table(_TABLE, hb_domain_size, prices, powers, share_switches=False)
    )
    shares = {"rails that are less than a switch share one": {"a switch for each rail": own_switches}}
    readings = verdict_readings(values, shares)
    values |= {f"{_TABLE}.worst_radix": least_saving_radix(table), _SPARES: alone["spare_switch_and_optics"].max()}
    readings |= {
        f"{_TABLE}.worst_radix": TIED_RADIX,
        _SPARES: "one more switch with its optics for every rail, each rail on a switch of its own; "
        f"{shared['spare_switch_and_optics'].max():.3g} where rails share switches as in Table 2, no saving in one "
        f"case; {shared['spare_switch'].max():.3g} without optics on the spare, "
        f"{shared['everything_doubled'].max():.3g} with all switches and links doubled",
    }
    reasons = {
        f"{_TABLE}.n32768.r32.cost_saving": "the document cuts digits off: 54.5% is printed as 54%",
        f"{_TABLE}.n32768.r64.switch_ratio": "contradicts the table beside it, 1,536 of 2,560 switches; of the "
        "transceivers it is two thirds",
        _SPARES: "dearer in one case alone, 32,768 GPUs with radix 256; a rail there is half a switch",
    }
    return Entries(values, reasons, readings)
