"""Fabrics: parts counted in closed form, wiring, and the graph."""

from railcore.network.topology.clos import Parts, clos_reach, ideal_clos_parts, rail_parts
from railcore.network.topology.failed_part import FailedPart
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import RailFabric, domain_warnings, fat_tree, rail_only, rail_optimized
