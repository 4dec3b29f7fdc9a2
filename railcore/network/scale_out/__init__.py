"""Scale-out networks of many GPUs: rails and planes, locality of traffic, reach of cables, what faults leave."""

from railcore.network.scale_out.comparison import (
    choices,
    combinations,
    comparison,
    shapes,
    side_by_side,
    thinned_costs,
    tree_levels,
)
from railcore.network.scale_out.designs import (
    chip_modes,
    chip_ports,
    chip_powers,
    chip_radix,
    fewest_rails,
    network_parts,
    networks,
    rack_rails,
    scaled_prices,
    shared_wires,
)

__all__ = [
    "chip_modes",
    "chip_ports",
    "chip_powers",
    "chip_radix",
    "choices",
    "combinations",
    "comparison",
    "fewest_rails",
    "network_parts",
    "networks",
    "rack_rails",
    "scaled_prices",
    "shapes",
    "shared_wires",
    "side_by_side",
    "thinned_costs",
    "tree_levels",
]
