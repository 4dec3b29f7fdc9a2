"""Fabrics as paths of ports, flows, paths by a hash, and the least time that flows need."""

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.catalog.units import Gbps, us
from railcore.network.topology.rails import RailFabric, fat_tree, rail_only, rail_optimized
from railcore.transport import hashing, optimum
from railcore.transport.fabric import SKIPPED, leaf_spine, rail_paths, three_tier
from railcore.transport.flows import Flows, all_to_all, incast, permutation
from railcore.transport.hashing import (
    ecmp_paths,
    entropy_paths,
    most_loaded_chances,
    most_loaded_links,
)
from railcore.transport.optimum import Framing, optimum_bounds_s, optimum_s, single_flow_s

LINK = 100 * Gbps


@st.composite
def fabrics(draw):
    """Small fabrics of one to three tiers, several planes, oversubscribed or not, some with dead or slow cables."""
    planes = draw(st.integers(1, 3))
    if draw(st.booleans()):
        over, uplinks = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        fabric = leaf_spine(draw(st.integers(2, 24)), over * uplinks, LINK, over, planes=planes)
    else:
        fabric = three_tier(draw(st.integers(2, 16)), 4, LINK, draw(st.sampled_from([1, 2])), planes=planes)
    share = draw(st.sampled_from([0, 0.2])) if fabric.uplinks else 0
    return fabric.degraded(share, draw(st.integers(0, 9)), draw(st.sampled_from([0.5, 0])))


def every_pair(fabric):
    source, destination = np.nonzero(~np.eye(fabric.hosts, dtype=bool))
    return Flows(source, destination, 1e5)


def reachable(fabric, flows):
    """The flows that some live path carries."""
    there = hashing.live_paths(fabric, flows).any(1)
    return Flows(flows.source[there], flows.destination[there], flows.size_bytes[there]) if there.any() else None


def flows_per_link(fabric, flows, paths):
    """Flows on each port; a flow over several paths counts for its share on each."""
    paths = np.reshape(paths, (len(flows), -1))
    load = np.zeros(fabric.ports)
    for path in paths.T:
        ports = fabric.port_table(flows.source, flows.destination, path)
        load += np.bincount(ports[ports != SKIPPED], minlength=fabric.ports)
    return load / paths.shape[1]


# --- fabrics


@given(fabrics())
def test_every_port_of_a_path_belongs_to_its_stage_and_switch(fabric):
    flows = every_pair(fabric)
    for path in range(fabric.paths):
        ports = fabric.port_table(flows.source, flows.destination, np.full(len(flows), path))
        passed = ports != SKIPPED
        assert np.all((ports >= fabric.stage_start[:-1]) & (ports < fabric.stage_start[1:]) | ~passed)
        plane = path // fabric.paths_per_plane
        within = (ports - fabric.stage_start[:-1]) % (fabric.stage_ports // fabric.planes)
        assert np.all(((ports - fabric.stage_start[:-1]) // (fabric.stage_ports // fabric.planes) == plane) | ~passed)
        assert np.array_equal(within[:, 0], flows.source) and np.array_equal(within[:, -1], flows.destination)
        up = passed[:, 1]
        assert np.array_equal(up, fabric.leaf[flows.source] != fabric.leaf[flows.destination])
        assert np.array_equal(within[up, 1] // max(1, fabric.uplinks), fabric.leaf[flows.source][up])
        assert np.array_equal(within[up, -2] % fabric.leaves, fabric.leaf[flows.destination][up])


@given(fabrics())
def test_the_way_back_uses_the_same_cables(fabric):
    flows, back = every_pair(fabric), {int(up): int(down) for up, down in fabric.cables}
    assert len(back) == len(set(back.values())) == len(fabric.cables)
    for path in range(fabric.paths):
        there = fabric.port_table(flows.source, flows.destination, np.full(len(flows), path))
        again = fabric.port_table(flows.destination, flows.source, np.full(len(flows), path))
        for stage in range(1, fabric.stages // 2):
            passed = there[:, stage] != SKIPPED
            assert [back[port] for port in there[passed, stage]] == again[passed, -1 - stage].tolist()


@given(fabrics())
def test_paths_of_a_far_pair_share_only_what_they_must(fabric):
    base, offset = fabric.tables([0], [fabric.hosts - 1])
    assert len(offset) == fabric.paths and len(np.unique(offset, axis=0)) == fabric.paths
    middle = fabric.stages // 2
    if np.all(base != SKIPPED):
        assert len(np.unique(offset[:, middle])) == fabric.paths  # every core or spine once


def test_degraded_cables_are_of_both_directions_and_the_draw_is_fixed():
    whole = leaf_spine(64, 8, LINK)
    broken = whole.degraded(0.1, seed=3)
    assert np.sum(broken.rates == 0) == 2 * round(0.1 * len(whole.cables)) == 12
    assert np.all(broken.rates[whole.cables[:, 0]] == broken.rates[whole.cables[:, 1]])
    assert np.all(broken.rates[:64] == 1) and np.all(broken.rates[-64:] == 1)
    assert np.array_equal(whole.degraded(0.1, seed=3).rates, broken.rates)
    assert not np.array_equal(whole.degraded(0.1, seed=4).rates, broken.rates)
    assert np.array_equal(whole.degraded(0.0).rates, whole.rates)
    slow = broken.degraded(0.5, 1, 0.25)
    assert set(np.unique(slow.rates)) == {0, 0.25, 1}


@pytest.mark.parametrize("planes", [1, 2])
@pytest.mark.parametrize(
    "rails",
    [
        rail_only(256, 8, 64),
        rail_only(1024, 8, 16),
        rail_only(8192, 8, 16),
        rail_only(8192, 8, 32, tier_oversubscription=(3.0,)),
        rail_optimized(256, 8, 64),
        rail_optimized(1024, 16, 32, rails=4),
        RailFabric(256, 8, 64, oversubscription=4.0),
        fat_tree(1024, 16),
        RailFabric(24, 4, 4, rails=3),
        rail_only(200, 8, 8),
        rail_optimized(100, 4, 8),
    ],
    ids=lambda rails: f"{rails.gpus} GPUs, radix {rails.radix}, {rails.oversubscription:g}:1",
)
def test_paths_of_rails_have_the_switches_and_cables_of_the_cluster(rails, planes):
    rails = replace(rails, planes=planes)
    paths = rail_paths(rails)
    assert (paths.hosts, paths.tiers) == (rails.gpus, rails.tiers)
    switches = [paths.leaves, paths.uplinks * (int(paths.pod.max()) + 1)] if paths.tiers == 3 else [paths.leaves]
    assert [planes * each for each in switches] == rails.parts.switches_by_tier[: len(switches)].tolist()
    fullest = np.bincount(paths.leaf).max()
    assert fullest + paths.uplinks <= rails.radix * planes
    assert paths.tiers < 3 or np.bincount(paths.pod).max() + paths.cores <= rails.radix * planes
    full = np.all(np.bincount(paths.leaf) == fullest) and (paths.tiers < 3 or len(set(np.bincount(paths.pod))) == 1)
    cables = planes * paths.hosts + len(paths.cables)  # those of full leaves and pods
    assert cables == rails.parts.links if full else cables >= rails.parts.links
    rail = np.arange(rails.gpus) % rails.hb_domain_size % rails.rails
    joined = np.isfinite(rails.oversubscription)
    assert joined or np.array_equal(paths.group[paths.leaf], rail)
    assert joined == (len(np.unique(paths.group)) == 1) or rails.rails == 1


# --- flows


@given(st.integers(2, 60), st.floats(0.05, 1), st.integers(0, 99))
def test_in_a_permutation_every_active_host_sends_and_receives_once(hosts, load, seed):
    if round(load * hosts) < 2:
        return
    flows = permutation(hosts, 1e6, load, seed)
    assert len(flows) == round(load * hosts)
    assert np.array_equal(np.sort(flows.destination), flows.source)
    assert not np.any(flows.source == flows.destination)
    assert np.array_equal(permutation(hosts, 1e6, load, seed).destination, flows.destination)


def test_senders_of_an_incast_are_different_and_not_the_receiver():
    flows = incast(63, 5, "1 MB", 64, 1e-5, seed=2)
    assert sorted([*flows.source, 5]) == list(range(64)) and set(flows.destination) == {5}
    assert flows.start_s.min() >= 0 and 8e-6 < flows.start_s.max() <= 10e-6
    assert np.array_equal(incast(3, 0, 1e6, 64).start_s, np.zeros(3))


def test_all_to_all_sends_once_to_every_other_host_of_a_group():
    flows = all_to_all([[0, 2, 4], [1, 3, 5]], 1e6)
    pairs = set(zip(flows.source.tolist(), flows.destination.tolist(), strict=True))
    assert len(pairs) == len(flows) == 12 and all((a - b) % 2 == 0 and a != b for a, b in pairs)


# --- paths by a hash


def test_the_hash_is_splitmix64():
    assert hex(int(hashing.hash64(0)[0])) == "0xe220a8397b1dcdaf"
    fabric = leaf_spine(64, 8, LINK)
    assert ecmp_paths(fabric, permutation(64, 1e6), 1)[:8].tolist() == [7, 3, 6, 7, 1, 6, 4, 0]


def test_routing_that_has_converged_avoids_dead_links():
    fabric, flows = leaf_spine(512, 16, LINK).degraded(0.2, 1), permutation(512, 1e6)
    there = [flows_per_link(fabric, flows, ecmp_paths(fabric, flows, 4, converged)) for converged in (True, False)]
    dead = fabric.rates == 0
    assert there[0][dead].sum() == 0 and there[1][dead].sum() > 0
    assert np.array_equal(ecmp_paths(fabric, flows, 4, False), ecmp_paths(leaf_spine(512, 16, LINK), flows, 4))


@pytest.mark.parametrize("entropies", [1, 3])
@pytest.mark.parametrize(
    "fabric",
    [leaf_spine(64, 8, LINK, 2, planes=2), three_tier(54, 6, LINK), leaf_spine(64, 8, LINK).degraded(0.2, 0, 0.5)],
)  # fmt: skip
def test_draws_of_the_most_loaded_link_are_those_of_the_paths(fabric, entropies):
    flows = permutation(fabric.hosts, 1e6)
    table = most_loaded_links(fabric, flows, 5, seed=7, entropies=entropies)
    for seed, row in table.iterrows():
        load = flows_per_link(fabric, flows, entropy_paths(fabric, flows, entropies, seed))
        stages = [part.max() for part in np.split(load, fabric.stage_start[1:-1])]
        assert row.to_numpy()[:-1] == pytest.approx(stages)
        assert row["slowdown"] == pytest.approx(np.max(load / fabric.rates) * fabric.planes)


def test_chances_of_the_most_loaded_link_are_those_of_many_draws():
    fabric, flows = leaf_spine(1024, 32, LINK), permutation(1024, 1e6)
    drawn = most_loaded_links(fabric, flows, 2000)["slowdown"].to_numpy()
    table = most_loaded_chances(fabric, flows)
    below = np.array([np.mean(drawn <= load) for load in table["load"]])
    assert np.abs(table["chance"] - below).max() < 0.04
    assert table["chance"].is_monotonic_increasing and table["chance"].iloc[-1] > 1 - 1e-5


# --- the least time


@pytest.mark.parametrize(
    ("rate", "size_bytes", "mtu_bytes", "microseconds"),
    [(100, 2e6, 4150, 171.524), (100, 2e6, 4000, 171.556), (800, 97e6, 9000, 985.192)],
)
def test_one_flow_alone_takes_what_a_packet_simulator_counts(rate, size_bytes, mtu_bytes, microseconds):
    """Bytes with headers on the first link, the last packet over three more, and its acknowledgement back."""
    fabric = leaf_spine(128, 16, rate * Gbps)
    alone = single_flow_s(fabric, Flows([0], [127], size_bytes), Framing(mtu_bytes, 64, acknowledged=True))
    assert alone == pytest.approx(microseconds * us, abs=0.001 * us)
    packets = -(-size_bytes // mtu_bytes)
    one_way = (packets + 3) * (mtu_bytes + 64) / (rate * Gbps) + 4 * us
    received = single_flow_s(fabric, Flows([0], [127], size_bytes), Framing(mtu_bytes, 64))
    assert received == pytest.approx(one_way)


def test_a_packet_is_not_split_over_planes():
    four = leaf_spine(64, 8, LINK, planes=4)
    pairs = Flows([0, 0, 0], [63, 63, 63], [4096, 4 * 4096, 5 * 4096])
    alone = single_flow_s(four, pairs)
    assert alone - alone[0] == pytest.approx([0, 0, 4160 / LINK], abs=1e-15)


@given(fabrics())
def test_the_rate_of_a_pair_is_the_largest_flow_of_its_graph(fabric):
    flows = reachable(fabric, Flows([0], [fabric.hosts - 1], 1e6))
    if flows is None:
        return
    graph = nx.DiGraph()
    for path in range(fabric.paths):
        ports = fabric.port_table(flows.source, flows.destination, [path])[0]
        ports = ports[ports != SKIPPED].tolist()
        way = ["source", *ports, "sink"]
        for port in ports:
            graph.add_edge((port, "in"), (port, "out"), capacity=float(fabric.rates[port]))
        nodes = [(each, "out") if each != "source" else each for each in way[:-1]]
        for here, there in zip(nodes, way[1:], strict=True):
            graph.add_edge(here, there if there == "sink" else (there, "in"))
    found = optimum.pair_planes_Bps(fabric, flows).sum()
    assert found == pytest.approx(nx.maximum_flow_value(graph, "source", "sink") * LINK)


def test_what_holds_the_last_flow_back():
    framing = Framing(4096, 64)
    wire = framing.wire_bytes(1e6)
    whole, over = leaf_spine(64, 8, LINK), leaf_spine(64, 8, LINK, 4)
    far = Flows(np.arange(8), np.arange(56, 64), 1e6)
    delay = single_flow_s(whole, far)[0] - wire / LINK
    assert optimum_bounds_s(whole, far) == pytest.approx(
        dict.fromkeys(
            ["one flow", "sending host", "links up from a leaf", "links down to a leaf", "receiving host"],
            wire / LINK + delay,
        )
    )
    assert optimum_s(over, far) == pytest.approx(4 * wire / LINK + delay)
    many = incast(7, 0, 1e6, 64, seed=1)
    assert optimum_bounds_s(whole, many)["receiving host"] >= 7 * wire / LINK + 2 * us
    late = Flows([1, 2, 3], [0, 0, 0], 1e6, [0.0, 1.0, 1.0])
    near = single_flow_s(whole, late)[0] - wire / LINK
    assert optimum_s(whole, late) == pytest.approx(1 + 2 * wire / LINK + near)
    pods = optimum_bounds_s(three_tier(54, 6, LINK, 3), Flows(np.arange(9), np.arange(9, 18), 1e6))
    assert max(pods, key=pods.get) == "links up from a pod"
    assert optimum_s(whole.degraded(0.2), far) > optimum_s(whole, far)


@given(fabrics(), st.integers(0, 9))
def test_the_optimum_grows_with_flows_and_bytes_and_shifts_with_the_start(fabric, seed):
    flows = reachable(fabric, permutation(fabric.hosts, 1e6, seed=seed))
    if flows is None:
        return
    all_of_it = optimum_s(fabric, flows)
    assert all_of_it >= single_flow_s(fabric, flows).max() * (1 - 1e-12)
    first = Flows(flows.source[:1], flows.destination[:1], 1e6)
    assert optimum_s(fabric, first) <= all_of_it * (1 + 1e-12)
    assert optimum_s(fabric, Flows(flows.source, flows.destination, 2e6)) > all_of_it
    later = Flows(flows.source, flows.destination, 1e6, 1.0)
    assert optimum_s(fabric, later) == pytest.approx(1 + all_of_it)
