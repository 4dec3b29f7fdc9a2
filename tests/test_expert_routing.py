import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.catalog.units import Gbps
from railcore.training import collectives
from suite.railonly2025.expert_loads import expert_demand, expert_load, link_loads
from suite.railonly2025.expert_routing import ROUTINGS, busiest_links, expert_all_to_all_time
from suite.railonly2025.moe import slowdown_readings

HB, NIC = 3600 * Gbps, 400 * Gbps
LOAD_SKEWS = st.sampled_from(["hot", "zipf", "pairs"])
SIZES, ROUTING = st.integers(1, 6), st.sampled_from(ROUTINGS)


def walked(demand, size, routing):
    """Loads with every pair's bytes walked over its links one by one."""
    domains = len(demand) // size
    hb, nic, layer = np.zeros((domains, size, size)), np.zeros((2, domains, size)), np.zeros((2, size))
    for source, row in enumerate(demand):
        for target, sent in enumerate(row):
            (a, i), (b, j) = divmod(source, size), divmod(target, size)
            if a == b:
                hb[a, i, j] += sent * (i != j)
                continue
            leaves = j if routing == "two-hop" else i
            enters = i if routing == "hierarchical" else j
            hb[a, i, leaves] += sent * (i != leaves)
            hb[b, enters, j] += sent * (enters != j)
            nic[0, a, leaves] += sent
            nic[1, b, enters] += sent
            if i != j and routing == "direct":
                layer[0, i] += sent
                layer[1, j] += sent
    return hb, nic, layer / domains


@given(st.integers(1, 4), st.integers(1, 5), ROUTING)
def test_loads_are_those_of_every_pair_walked_over_its_links(domains, size, routing):
    demand = np.random.default_rng(domains * 10 + size).random((domains * size,) * 2)
    loads = link_loads(demand, size, routing)
    hb, nic, layer = walked(demand, size, routing)
    assert loads.hb_pair_bytes == pytest.approx(hb)
    assert np.stack([loads.nic_egress_bytes, loads.nic_ingress_bytes]) == pytest.approx(nic)
    assert np.stack([loads.layer_up_bytes, loads.layer_down_bytes]) == pytest.approx(layer)


@given(SIZES, SIZES, ROUTING, st.floats(0, 1))
def test_closed_forms_are_the_count(size, domains, routing, excess):
    ranks = size * domains
    imbalance = 1 + excess * (ranks - 1)
    counted = link_loads(expert_demand(7.0, ranks, imbalance), size, routing)
    closed = busiest_links(7.0, ranks, size, routing, imbalance)
    for mesh in (False, True):
        assert closed == pytest.approx(counted.busiest(mesh), rel=1e-9, abs=1e-9)


@given(SIZES, SIZES, st.floats(1e3, 1e9))
def test_uniform_times_are_those_of_the_collectives(size, domains, sent):
    link = (sent, size, domains, HB, NIC)
    direct = expert_all_to_all_time(sent, size * domains, size, HB, NIC, "direct", 1.0)
    inside = collectives.collective_time("all_to_all", sent / domains, size, HB)
    assert direct == pytest.approx(
        np.maximum(inside, collectives.collective_time("all_to_all", sent, domains, NIC)), rel=1e-9
    )
    in_turn = collectives.hierarchical_time("all_to_all", *link)
    for routing in ("two-hop", "hierarchical"):
        time = expert_all_to_all_time(sent, size * domains, size, HB, NIC, routing)
        assert time == pytest.approx(in_turn, rel=1e-9)


@given(st.integers(2, 8), st.integers(2, 8), st.floats(0.01, 1))
def test_readings_follow_from_the_times(size, domains, ratio):
    table = slowdown_readings(size, domains, 1.0, ratio).slowdown
    two_hop = expert_all_to_all_time(1.0, size * domains, size, 1.0, ratio)
    direct = expert_all_to_all_time(1.0, size * domains, size, 1.0, ratio, "direct", 1.0)
    loads = link_loads(expert_demand(1.0, size * domains), size, "direct").busiest()
    assert table[1] == pytest.approx(ratio * (1 - 1 / size) / (1 - 1 / domains))
    if direct == loads.nic_bytes / ratio:
        assert table[1] == pytest.approx(two_hop / direct - 1)
    assert table[2] == pytest.approx(two_hop / (loads.hb_bytes + loads.nic_bytes / ratio) - 1)
    closed = ratio * (1 - 1 / size) / (1 + ratio * (1 - 1 / size) / (domains - 1))
    assert table[2] == pytest.approx(closed, rel=1e-9)
    assert table[3] == pytest.approx(ratio * (1 - 1 / size))
    assert table[4] == pytest.approx(max(0.0, table[1] - 1), abs=1e-12)


def test_the_slowdown_is_the_bandwidth_ratio_with_as_many_domains_as_gpus_in_one():
    size = np.array([2, 8, 64])
    two_hop = expert_all_to_all_time(1.0, size**2, size, HB, NIC)
    direct = expert_all_to_all_time(1.0, size**2, size, HB, NIC, "direct", 1.0)
    assert two_hop / direct - 1 == pytest.approx(NIC / HB)
    assert expert_all_to_all_time(1.0, size**2, size, HB, NIC, pipelined=True) == pytest.approx(direct)


@given(st.integers(1, 64), st.floats(0, 1), LOAD_SKEWS)
def test_expert_load_has_its_sum_and_its_imbalance(experts, excess, skew):
    imbalance = 1 + excess * (experts - 1)
    load = expert_load(experts, imbalance, skew)
    assert load.sum() == pytest.approx(1)
    assert load[0] * experts == pytest.approx(imbalance, rel=1e-9)
    assert load[0] == load.max() or load.max() == pytest.approx(load[0])


@given(SIZES, SIZES, st.integers(1, 3), LOAD_SKEWS)
def test_demand_sends_the_whole_buffer(size, domains, each, skew):
    ranks = size * domains
    demand = expert_demand(5.0, ranks, min(2.0, ranks * each), skew, ranks * each)
    assert demand.sum(axis=1) == pytest.approx(np.full(ranks, 5.0))
    if skew == "pairs":
        assert demand.sum(axis=0) == pytest.approx(np.full(ranks, 5.0))
        assert sorted(demand.argmax(axis=1)) == list(range(ranks)) or np.ptp(demand[0]) == pytest.approx(0)


def test_more_experts_than_gpus_thin_a_hot_one():
    assert expert_demand(1.0, 8, 4.0).max() == pytest.approx(4 / 8)
    assert expert_demand(1.0, 8, 4.0, experts=32)[0, 0] == pytest.approx(4 / 32 + 3 * (1 - 4 / 32) / 31)


def test_the_way_back_reverses_every_path():
    demand = np.random.default_rng(1).random((12, 12))
    there, back = link_loads(demand, 4, "two-hop"), link_loads(demand.T, 4, "hierarchical")
    assert there.hb_pair_bytes == pytest.approx(back.hb_pair_bytes.transpose(0, 2, 1))
    assert there.nic_egress_bytes == pytest.approx(back.nic_ingress_bytes)
    assert there.nic_ingress_bytes == pytest.approx(back.nic_egress_bytes)


def test_limits():
    one_domain = [expert_all_to_all_time(8.0, 4, 8, 2.0, 1.0, routing) for routing in ROUTINGS]
    assert one_domain == pytest.approx([8 * 3 / 4 / 2] * 3)
    no_domain = [expert_all_to_all_time(8.0, 4, 1, 2.0, 1.0, routing) for routing in ROUTINGS]
    assert no_domain == pytest.approx([8 * 3 / 4] * 3)
    assert expert_all_to_all_time(8.0, 4, 2, 2.0, 1.0, "direct") == math.inf


def test_a_layer_slows_what_crosses_it():
    ratios = np.array([1.0, 1.5, 2.0, 4.0])
    times = expert_all_to_all_time(1.0, 32, 8, HB, NIC, "direct", ratios)
    assert times == pytest.approx(np.maximum(3 / 4, ratios * 7 / 8 * 3 / 4) / NIC)
    assert expert_all_to_all_time(1.0, 32, 8, HB, NIC, oversubscription=ratios) == pytest.approx(
        [7 / 8 / HB + 3 / 4 / NIC] * 4
    )


def test_a_hot_expert_is_reached_through_its_domain():
    hot = {name: expert_all_to_all_time(1.0, 128, 8, HB, NIC, name, 1.0, 8.0) for name in ROUTINGS}
    assert hot["hierarchical"] < 0.5 * hot["direct"] < hot["direct"] < hot["two-hop"]


def test_a_mesh_is_slower_only_where_pairs_differ():
    by_expert, by_pair = (expert_demand(1.0, 64, 8.0, skew) for skew in ("zipf", "pairs"))
    for routing in ROUTINGS:
        loads = link_loads(by_expert, 8, routing)
        assert loads.busiest(mesh=True) == pytest.approx(loads.busiest())
    loads = link_loads(by_pair, 8, "two-hop")
    assert loads.busiest(mesh=True).hb_bytes > 1.5 * loads.busiest().hb_bytes
    assert loads.busiest(mesh=True).hb_bytes == 7 * loads.hb_pair_bytes.max()


@given(ROUTING, st.booleans(), st.floats(1, 8))
def test_arrays_equal_the_loop_and_no_time_beats_its_links(routing, pipelined, imbalance):
    sizes, rates = np.array([[1], [2], [4], [8]]), np.array([50, 200, 400]) * Gbps
    options = {"oversubscription": 2.0, "imbalance": imbalance, "pipelined": pipelined}
    times = expert_all_to_all_time(1e6, 64, sizes, HB, rates, routing, **options)
    one = [[float(expert_all_to_all_time(1e6, 64, k[0], HB, r, routing, **options)) for r in rates] for k in sizes]
    assert times == pytest.approx(np.array(one), rel=1e-12)
    loads = busiest_links(1e6, 64, sizes, routing, imbalance)
    assert np.all(times >= np.maximum(loads.hb_bytes / HB, loads.nic_bytes / rates) * (1 - 1e-12))


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: expert_load(8, 0.5), "imbalance"),
        (lambda: slowdown_readings(1, 4, HB, NIC), "hb_domain_size"),
    ],
)
def test_bad_input_is_named(call, named):
    with pytest.raises(ValueError, match=named):
        call()
