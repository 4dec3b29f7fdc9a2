"""Transports: completion times of flows on a fabric, from the optimum over fair sharing to packets."""

from railcore.network.transport.fabric import PathFabric, leaf_spine, rail_paths, three_tier
from railcore.network.transport.flows import Flows, all_to_all, incast, permutation
