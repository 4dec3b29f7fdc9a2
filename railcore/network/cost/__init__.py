"""Parts times prices and powers: purchase, power, energy over years, and what redundancy adds."""

from railcore.network.cost.ownership import energy, ownership, ownership_saving, sensitivity, total_cost
from railcore.network.cost.prices import (
    PriceBook,
    book_rate,
    book_rows,
    breakdown,
    by_part,
    cluster,
    network_total,
    power_book,
    price_book,
)
from railcore.network.cost.redundancy import doubled, redundancy, with_spares
from railcore.network.cost.savings import (
    NETWORKS,
    compare,
    contenders,
    least_saving_radix,
    network_curve,
    ratio_bounds,
    ratio_for_total,
    saving,
    shown_table,
    summary,
)

__all__ = [
    "NETWORKS",
    "PriceBook",
    "book_rate",
    "book_rows",
    "breakdown",
    "by_part",
    "cluster",
    "compare",
    "contenders",
    "doubled",
    "energy",
    "least_saving_radix",
    "network_curve",
    "network_total",
    "ownership",
    "ownership_saving",
    "power_book",
    "price_book",
    "ratio_bounds",
    "ratio_for_total",
    "redundancy",
    "saving",
    "sensitivity",
    "shown_table",
    "summary",
    "total_cost",
    "with_spares",
]
