"""Scale-out networks of many GPUs: rails and planes, locality of traffic, reach of cables, what faults leave."""

from railcore.network.scale_out.comparison import (
    choices,
    comparison,
    network_combinations,
    network_shapes,
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
    rack_rails,
    rail_plane_networks,
    scaled_prices,
    shared_wires,
)
