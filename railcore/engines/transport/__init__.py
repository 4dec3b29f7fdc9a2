"""Transports: completion times of flows on a fabric, from the optimum over fair sharing to packets."""

from railcore.engines.transport.fabric import PathFabric, hop_latencies, leaf_spine, rail_paths, three_tier
from railcore.engines.transport.flows import Flows, all_to_all, incast, permutation
from railcore.engines.transport.hashing import (
    ecmp_paths,
    entropy_paths,
    flows_per_link,
    most_loaded_chances,
    most_loaded_links,
    subflows_needed,
)
from railcore.engines.transport.levels import LeveledTimes, completion_times, flow_level_times
from railcore.engines.transport.optimum import Framing, optimum_bounds_s, optimum_s, single_flow_s
from railcore.engines.transport.packets import PacketRun, simulate_packets
from railcore.engines.transport.sharing import FairRun, SharedLinks, fair_sharing, ideal_spraying
from railcore.engines.transport.transports import Transport, transport
