"""Networks: fabrics, one bill of materials, prices and cost, reliability, and the wide area."""

from railcore.network.bill import bill_table
from railcore.network.cost import (
    RAIL_NETWORKS,
    cluster_breakdown,
    cluster_fabrics,
    cluster_networks,
    compare_rail_networks,
    ownership_costs,
    share_saved,
)
from railcore.network.platforms import platform_links
from railcore.network.price_books import DEFAULT_BOOK, PriceBook, books_text, matching_books, power_book, price_book
from railcore.network.reliability import cluster_failures, expected_failures, parts_at_risk, platform_fabrics
from railcore.network.switches import switch_model
from railcore.network.topology.faults import (
    FAULT_KINDS,
    fail,
    fault_effects,
    nics_cut_by_rail_switch,
    rail_bisection_with_spare,
    replace_gpu,
)
from railcore.network.topology.graph import edge_table, route
from railcore.network.topology.photonic import PhotonicRails, circuit_reach, ring_warnings
from railcore.network.topology.rails import RailFabric, domain_warnings, fat_tree, rail_only, rail_optimized
