"""The share of its NIC's bandwidth that a GPU has at worst, held against the largest flow over the wired graph."""

import math
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.network.topology.graph import bisection_bandwidth
from railcore.network.topology.rails import RailFabric, fat_tree, rail_only, rail_optimized

ONE = {"nic_Bps": 1.0, "hb_Bps": 1.0}
FABRICS = [
    rail_optimized(64, 8, 8, **ONE),
    rail_optimized(60, 8, 8, **ONE),
    rail_optimized(64, 8, 8, planes=2, **ONE),
    rail_only(128, 4, 8, **ONE),
    rail_only(64, 8, 16, rails_per_switch=None, **ONE),
    RailFabric(64, 8, 8, 3.0, **ONE),
    RailFabric(128, 4, 8, 3.0, **ONE),
    RailFabric(128, 4, 16, 3.0, **ONE),
    RailFabric(64, 8, 8, 2.0, rails=4, **ONE),
    rail_only(128, 4, 8, tier_oversubscription=(3,), **ONE),
    RailFabric(128, 4, 8, 2.0, tier_oversubscription=(3,), **ONE),
    fat_tree(64, 8, 8, **ONE),
    fat_tree(60, 8, 8, **ONE),
    fat_tree(64, 8, 8, tier_oversubscription=(3,), **ONE),
    fat_tree(63, 16, 8, tier_oversubscription=(4,), **ONE),
    fat_tree(64, 8, 8, tier_oversubscription=(1, 3), **ONE),
    fat_tree(16, 16, 8, **ONE),
]


def name_of(fabric):
    given_ = (fabric.gpus, fabric.hb_domain_size, fabric.rails, fabric.radix, fabric.oversubscription, fabric.planes)
    return "-".join(map(str, (*given_, *fabric.tier_oversubscription)))


def gpus_by(graph, what):
    """GPUs by an attribute."""
    groups = defaultdict(list)
    for node, at in graph.nodes(data=True):
        if at["kind"] == "gpu":
            groups[at[what]].append(node)
    return groups


def blocks(graph):
    """GPUs below each switch that is not at the top, at any distance."""
    tops = max(at["tier"] for _, at in graph.nodes(data=True))
    below = defaultdict(set)
    for a, b, at in sorted(graph.edges(data=True), key=lambda edge: edge[2]["tier"]):
        if at["kind"] != "hb":
            lower, upper = sorted((a, b), key=lambda node: graph.nodes[node]["tier"])
            below[upper] |= below.get(lower, {lower})
    return {frozenset(gpus) for switch, gpus in below.items() if graph.nodes[switch]["tier"] < tops}


@pytest.mark.parametrize("fabric", FABRICS[::2], ids=name_of)
def test_shares_are_the_least_that_all_gpus_below_a_switch_can_send(fabric):
    """From the GPUs below any switch to as many or more outside: at worst the share times their number."""
    graph = fabric.graph()
    everything = [gpu for gpus in gpus_by(graph, "domain").values() for gpu in gpus]
    found = [1.0]
    for inside in blocks(graph):
        outside = [gpu for gpu in everything if gpu not in inside]
        rails = {graph.nodes[gpu]["rail"] for gpu in inside}
        if math.isinf(fabric.oversubscription):  # rails do not meet
            outside = [gpu for gpu in outside if graph.nodes[gpu]["rail"] in rails]
        if len(outside) >= len(inside):
            found.append(bisection_bandwidth(graph, sorted(inside), outside) / len(inside))
    within, across = fabric.nic_shares
    joined = math.isfinite(fabric.oversubscription) or fabric.rails == 1
    assert min(found) == pytest.approx(across if joined else within)
    shares = [1.0]
    for rail in gpus_by(graph, "rail").values():
        for inside in blocks(graph):
            here, there = [gpu for gpu in rail if gpu in inside], [gpu for gpu in rail if gpu not in inside]
            if here and len(there) >= len(here):
                shares.append(bisection_bandwidth(graph, here, there) / len(here))
    assert min(shares) == pytest.approx(within)


@given(st.sampled_from(FABRICS), st.randoms(use_true_random=False))
def test_any_gpus_have_their_share_to_any_others(fabric, random):
    graph, (within, across) = fabric.graph(), fabric.nic_shares
    everything = [gpu for gpus in gpus_by(graph, "domain").values() for gpu in gpus]
    rail = random.choice(list(gpus_by(graph, "rail").values()))
    for gpus, share in ((rail, within), *([(everything, across)] if across > 0 else [])):
        mixed = random.sample(gpus, len(gpus))
        half = random.randint(1, len(gpus) // 2)
        flow = bisection_bandwidth(graph, mixed[:half], mixed[half : 2 * half])
        assert flow >= share * half - 1e-9


def test_where_rails_do_not_meet_or_there_is_one_domain():
    assert rail_only(128, 4, 8).nic_shares == (1.0, 0.0)
    assert all(map(math.isnan, rail_only(8, 8, 8).nic_shares))
    within, across = fat_tree(64, 8).nic_shares  # of servers: HB domains of one
    assert within == 1 and math.isnan(across)


def test_a_layer_over_one_pod_is_not_needed():
    assert RailFabric(64, 8, 64, 4.0).nic_shares == (1.0, 1.0)
