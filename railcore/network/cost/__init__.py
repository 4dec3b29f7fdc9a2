"""Parts times prices and powers: purchase, power, energy over years, and what redundancy adds."""

from railcore.network.cost.ownership import energy, ownership, ownership_saving, ownership_sensitivity, total_cost
from railcore.network.cost.prices import (
    PriceBook,
    book_rate,
    book_rows,
    network_total,
    part_totals,
    parts_breakdown,
    power_book,
    price_book,
)
from railcore.network.cost.redundancy import doubled, redundancy, with_spares
from railcore.network.cost.savings import (
    RAIL_NETWORKS,
    cluster,
    cluster_breakdown,
    compare,
    contenders,
    network_curve,
    ratio_bounds,
    ratio_for_total,
    saving,
)
