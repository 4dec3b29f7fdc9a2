"""Parts times prices and powers: purchase, power, energy over years, and what redundancy adds."""

from railcore.network.cost.ownership import energy, ownership, ownership_saving, ownership_sensitivity, total_cost
from railcore.network.cost.prices import (
    PriceBook,
    book_rate,
    book_rows,
    breakdown,
    network_total,
    part_totals,
    power_book,
    price_book,
)
from railcore.network.cost.redundancy import doubled, redundancy, with_spares
from railcore.network.cost.savings import (
    NETWORKS,
    cluster,
    cluster_breakdown,
    compare,
    contenders,
    network_curve,
    ratio_bounds,
    ratio_for_total,
    saving,
)

__all__ = [
    "NETWORKS",
    "PriceBook",
    "book_rate",
    "book_rows",
    "breakdown",
    "cluster",
    "cluster_breakdown",
    "compare",
    "contenders",
    "doubled",
    "energy",
    "network_curve",
    "network_total",
    "ownership",
    "ownership_saving",
    "ownership_sensitivity",
    "part_totals",
    "power_book",
    "price_book",
    "ratio_bounds",
    "ratio_for_total",
    "redundancy",
    "saving",
    "total_cost",
    "with_spares",
]
