"""Transports: completion times of flows on a fabric, from the optimum over fair sharing to packets."""

from railcore.transport.delay import tier_paths
from railcore.transport.fabric import hop_latencies, leaf_spine
from railcore.transport.flows import permutation
from railcore.transport.hashing import most_loaded_chances, most_loaded_links, subflows_needed
from railcore.transport.levels import flow_level_times
from railcore.transport.runs import case_inputs, completed_shares, run_case, study_runs
from railcore.transport.sharing import SharedLinks
from railcore.transport.transports import transport_names
