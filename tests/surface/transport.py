"""Good calls of what is public in railcore.engines.transport."""

import numpy as np

from railcore.engines.deployment.cabling import Floor
from railcore.engines.transport.delay import DelayPath, correction_delay, hall_cables, latency, tier_paths
from railcore.engines.transport.fabric import PathFabric, hop_latencies, leaf_spine, three_tier
from railcore.engines.transport.flows import Flows, all_to_all, incast, permutation, permutation_in_groups, split_flows
from railcore.engines.transport.hashing import (
    ecmp_paths,
    entropy_paths,
    flows_per_link,
    hash64,
    most_loaded_links,
    subflows_needed,
)
from railcore.engines.transport.levels import LeveledTimes, completion_times, flow_level_times
from railcore.engines.transport.optimum import Framing
from railcore.engines.transport.packets import PacketRun, simulate_packets
from railcore.engines.transport.runs import case_hash, case_inputs, packet_hops, run_case, study_runs
from railcore.engines.transport.sharing import SharedLinks, fair_sharing
from railcore.engines.transport.slot_numbers import slot_numbers, slots_for
from railcore.engines.transport.transports import Dcqcn, Nscc, Pulls, Queues, Rccc, Transport, transport

DelayPath("ConnectX-7", [], 50000000000.0, 64.0).delay_s(64.0)
DelayPath(ends="ConnectX-7", switches=(), link_Bps=50000000000.0, packet_bytes=4096).longest_cables_m(2e-06)
DelayPath("ConnectX-7", ["SN5600", "SN5600", "SN5600"], "400 Gbps", 4096).table([2, 30, 30, 2])
correction_delay(12500000000.0)
hall_cables(
    Floor(
        rack_pitch_m=0.6, row_pitch_m=2.4, racks_per_row=16.0, cross_aisle_m=2.4, drop_m=1.5, in_rack_m=1.5, slack=0.1
    ),
    64,
    4,
    [64],
)
tier_paths("ConnectX-7", "SN5600", 50000000000.0, 4096)
leaf_spine(20, 6, 12500000000.0, 3, planes=2).degraded(0.2, 4, 0.5)
leaf_spine(8192, 64, "800 Gbps").latency_s([0, 0], [1, 8191])
leaf_spine(8192, 64, "800 Gbps").tables([0, 0], [1, 8191])
hop_latencies(12500000000.0)
leaf_spine(8, 4, 12500000000.0)
three_tier(54, 6, 12500000000.0)
Flows(np.array([2, 9, 14]), np.array([9, 14, 2]), 1000000.0)
all_to_all([[0, 2, 4], [1, 3, 5]], 1000000.0)
incast(3, 0, 1000000.0, 64)
permutation(8, 100000.0)
ecmp_paths(leaf_spine(256, 16, 12500000000.0), permutation(256, 8000000.0, seed=4), 1, True)
entropy_paths(leaf_spine(256, 16, 12500000000.0), permutation(256, 8000000.0, seed=4), 1, 1, True)
flows_per_link(
    PathFabric(
        leaf=np.array([0, 0]),
        uplinks=0,
        link_Bps=12500000000.0,
        group=np.array([0]),
        pod=np.array([0]),
        rates=np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
    ),
    Flows(
        source=np.array([0, 1]),
        destination=np.array([1, 0]),
        size_bytes=np.array([100000.0, 100000.0]),
        start_s=np.array([0.0, 0.0]),
    ),
    np.array([0, 0]),
)
hash64(3)
subflows_needed(
    PathFabric(
        leaf=np.array([0, 0, 0, 0, 0, 0, 0, 0]),
        uplinks=0,
        link_Bps=12500000000.0,
        group=np.array([0]),
        pod=np.array([0]),
        rates=np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
    ),
    Flows(
        source=np.array([0, 1, 2, 3, 4, 5, 6, 7]),
        destination=np.array([6, 2, 7, 4, 5, 1, 0, 3]),
        size_bytes=np.array([1000000.0, 1000000.0, 1000000.0, 1000000.0, 1000000.0, 1000000.0, 1000000.0, 1000000.0]),
        start_s=np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
    ),
)
LeveledTimes(
    np.array([0.00229, 0.00229, 0.00229, 0.00229]),
    np.array([0.00029, 0.000295, 0.000295, 0.000295]),
    "flows",
    "incast: the flow level is within 8% of packets for the last flow",
    0.08,
)
Framing(256.0)
Framing(4096, 64).packets(1000000.0)
Framing(4096, 64).wire_bytes(1000000.0)
PacketRun(
    np.array([3e-05, 3.26e-05, 3.3e-05, 2.29e-05]),
    np.array([1.43e-05, 1.43e-05, 1.43e-05, 1.43e-05]),
    np.array([30, 30, 30, 30]),
    {
        "sent": 198,
        "retransmitted": 9,
        "trimmed": 9,
        "lost": 0,
        "marked": 56,
        "pauses": 0,
        "discarded": 0,
        "deepest_queue": 15,
    },
    np.array([4, 62, 132, 0]),
    3.33e-07,
    181,
)
simulate_packets(
    PathFabric(np.array([0, 0, 0, 0]), 4, 12500000000.0), Flows([0], [2], 1230000.0, 5e-06), transport("NDP")
)
case_hash(
    {
        "transport": "NDP",
        "hosts": 16,
        "hosts_per_leaf": 4,
        "link_Bps": 12500000000.0,
        "flow_bytes": 65536,
        "load": 0.5,
        "seed": 2,
    }
)
case_inputs({"transport": "NDP", "hosts": 16, "hosts_per_leaf": 4, "link_Bps": 12500000000.0, "flow_bytes": 65536})
packet_hops(
    {
        "transport": "NDP",
        "hosts": 16,
        "hosts_per_leaf": 4,
        "link_Bps": 12500000000.0,
        "flow_bytes": 65536,
        "seed": 0,
        "pattern": "incast",
        "senders": 5,
    }
)
run_case(
    {"transport": "NDP", "hosts": 16, "hosts_per_leaf": 4, "link_Bps": 12500000000.0, "flow_bytes": 65536, "tiers": 3}
)
study_runs(
    [
        {
            "transport": "NDP",
            "hosts": 16,
            "hosts_per_leaf": 4,
            "link_Bps": 12500000000.0,
            "flow_bytes": 65536,
            "seed": 0,
        },
        {
            "transport": "NDP",
            "hosts": 16,
            "hosts_per_leaf": 4,
            "link_Bps": 12500000000.0,
            "flow_bytes": 65536,
            "seed": 1,
        },
        {
            "transport": "spraying",
            "hosts": 16,
            "hosts_per_leaf": 4,
            "link_Bps": 12500000000.0,
            "flow_bytes": 65536,
            "seed": 0,
        },
        {
            "transport": "spraying",
            "hosts": 16,
            "hosts_per_leaf": 4,
            "link_Bps": 12500000000.0,
            "flow_bytes": 65536,
            "seed": 1,
        },
    ]
)
SharedLinks(np.array([[0], [0]]), np.array([1.0]), np.array([1.0, 1.0]), np.array([0.0, 0.5]))
fair_sharing(
    leaf_spine(256, 16, 12500000000.0),
    permutation(256, 8000000.0, seed=4),
    ecmp_paths(leaf_spine(256, 16, 12500000000.0), permutation(256, 8000000.0, seed=4), 1, True),
    Framing(acknowledged=True),
)
slot_numbers(PathFabric(np.array([0, 0, 0, 0]), 4, 12500000000.0), transport("NDP"), Framing(acknowledged=True), 0.0, 4)
slots_for(8.33e-06, 8.32e-08)
Dcqcn(
    dcqcn_least_share=0.01,
    dcqcn_smoothing=0.00391,
    dcqcn_timer_s=5.5e-05,
    dcqcn_notice_s=5e-05,
    dcqcn_counter_bytes=10000000.0,
    dcqcn_step_Bps=5000000.0,
    dcqcn_fast_step_Bps=50000000.0,
)
Nscc(
    quick_targets=2,
    target_round_trips=0.75,
    fast_delay_s=1e-06,
    cut=0.8,
    smoothing=0.0125,
    proportional=4.0,
    fair=5.0,
    fast=0.25,
    creep=0.15,
    adjust_bytes=16000.0,
    period_s=1.2e-05,
    reference_Bps=12500000000.0,
    reference_rtt_s=1.2e-05,
)
Pulls(credit_rate=0.5)
Queues(
    mark_high_packets=5,
    mark_low_packets=2,
    overflow="drop",
    queue_packets=6,
    marking=True,
    mark_low_share=0.2,
    mark_high_share=0.8,
    mark_probability=1.0,
    pause_packets=15,
    resume_packets=12,
    buffer_bytes=2500000.0,
)
Rccc(
    credit_rate=0.99,
    pacing="trims",
    pace_period_s=1.8e-05,
    pace_step=0.1,
    pace_growth=2.0,
    pace_marks=0.3,
    pace_cut=0.5,
    pace_least=0.8,
)
Transport(
    balancing="mixed",
    entropies=64,
    control=Pulls(credit_rate=0.99),
    queues=Queues(
        overflow="trim",
        queue_packets=8,
        marking=False,
        mark_low_packets=0.0,
        mark_high_packets=0.0,
        mark_low_share=0.2,
        mark_high_share=0.8,
        mark_probability=1.0,
        pause_packets=15,
        resume_packets=12,
        buffer_bytes=2500000.0,
    ),
    recovery="selective",
    flowlet_gap_s=1e-05,
    window_products=1.5,
    start_packets=0,
    sack_bytes=0.0,
    timeout_s=0.0001,
)
transport("NDP")
DelayPath("ConnectX-7", ["SN5600"], 50000000000.0, 4096)
latency("ConnectX-7")
permutation_in_groups([0, 0, 1, 1], 1000000.0)
split_flows(permutation(32, 1000000.0), 2)
PathFabric(np.array([0, 0, 1, 1]), 2, 50000000000.0)
completion_times(leaf_spine(16, 4, 50000000000.0), permutation(16, 100000.0), transport("spraying"))
flow_level_times(leaf_spine(16, 4, 50000000000.0), permutation(16, 100000.0), transport("spraying"))
most_loaded_links(leaf_spine(16, 4, 50000000000.0), permutation(16, 100000.0), 10)
leaf_spine(16, 4, 50000000000.0).port_table(np.array([0]), np.array([8]), 0)
