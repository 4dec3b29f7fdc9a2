"""Packets slot by slot: laws that every run obeys, limiting cases, and the same answer without compilation."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.catalog.units import Gbps
from railcore.transport import packets
from railcore.transport.fabric import leaf_spine, three_tier
from railcore.transport.flows import Flows, all_to_all, incast, permutation
from railcore.transport.hashing import ecmp_paths, live_paths
from railcore.transport.kernel import layout, slots
from railcore.transport.optimum import Framing, optimum_s, single_flow_s
from railcore.transport.packets import ACKNOWLEDGED, simulate_packets
from railcore.transport.transports import LineRate, Rccc, transport, transport_names

LINK = 100 * Gbps
PACKET = float(ACKNOWLEDGED.mtu_bytes)
PRESETS = {name: transport(name) for name in transport_names()}
NAMES = sorted(PRESETS)
SPRAYED = [name for name in NAMES if PRESETS[name].balancing not in ("single path", "flowlets")]
PLAIN = transport("UEC NSCC", balancing="oblivious", entropies=0, start_packets=0)
WINDOWED = PLAIN.changed(balancing="single path", recovery="go-back-n", overflow="drop", timeout_s=20e-6)
CREDITS = PRESETS["UEC RCCC"].control
MIXES = {
    **PRESETS,
    "drops": PLAIN.changed(overflow="drop", queue_packets=6, mark_low_packets=2, mark_high_packets=5, timeout_s=20e-6),
    "recycled": replace(PLAIN, balancing="reps", entropies=8),
    "both": replace(PLAIN, balancing="mixed", entropies=8, sack_bytes=0),
    "window, go-back-n": WINDOWED,
    "credits, single path": PLAIN.changed(control=CREDITS, balancing="single path", overflow="drop", queue_packets=20),
    "pulls, single path": PRESETS["NDP"].changed(balancing="single path", overflow="drop", timeout_s=20e-6),
}


class Audit:
    """Looks at a plain run after every slot: rates of ports, lengths of queues, and what is on the way."""

    def __init__(self, monkeypatch):
        monkeypatch.setenv("RAILCORE_NO_JIT", "1")
        self.passed, self.slots = [], []
        heard = slots.hear_all.plain
        monkeypatch.setattr(slots, "hear_all", lambda s, o: (self.look(s, o), heard(s, o)))

    def look(self, s, o):
        self.passed.append(s.passed.copy())
        self.slots.append(int(s.tally[layout.NOW]))
        if len(self.slots) % 5:
            return
        lengths = s.queue["length"]
        assert lengths.min() >= 0 and lengths.sum() == s.tally[layout.QUEUED]
        assert np.all(lengths <= np.maximum(1, np.ceil(o.port.room * np.where(s.rates > 0, s.rates, 1))))
        for port in np.flatnonzero(lengths):
            node, count = s.queue[port]["head"], 1
            while node != s.queue[port]["tail"]:
                node, count = s.pool[node, 1] & ((1 << layout.NEXT_BITS) - 1), count + 1
            assert count == lengths[port]
        if o.overflow == layout.PAUSE:
            assert s.held.min() >= 0 and s.held.sum() == lengths.sum()
            assert s.held.max() <= o.port.pause_at + o.port.pause_delay + 1
        assert s.flying.min() >= 0 and s.ables.min() >= 0 and s.able.sum() == s.ables.sum() == s.tally[layout.ABLE]
        for f in range(len(s.got)):
            assert sum(int(word).bit_count() for word in s.seen[f]) == s.got[f] <= s.need[f]

    def check_rates(self, fabric):
        """No port sends more than its rate times the time, and one packet, in any interval."""
        ahead = np.array(self.passed) - fabric.rates * np.array(self.slots)[:, None]
        assert np.all(ahead - np.minimum.accumulate(ahead) <= 1 + 1e-6)


@st.composite
def cases(draw):
    planes = draw(st.integers(1, 2))
    if draw(st.booleans()):
        fabric = leaf_spine(draw(st.sampled_from([3, 8, 12])), 4, LINK, draw(st.sampled_from([1, 2])), planes=planes)
    else:
        fabric = three_tier(draw(st.sampled_from([9, 16])), 4, LINK, planes=planes)
    slow = draw(st.sampled_from([0.0, 0.3])) if fabric.uplinks else 0.0
    fabric = fabric.degraded(slow, draw(st.integers(0, 9)), 0.4)
    random = np.random.default_rng(draw(st.integers(0, 99)))
    count = draw(st.integers(1, 12))
    source = random.integers(0, fabric.hosts, count)
    destination = (source + random.integers(1, fabric.hosts, count)) % fabric.hosts
    starts = random.choice([0.0, 3e-6, 40e-6], count)
    flows = Flows(source, destination, random.choice([1.0, PACKET, 3 * PACKET + 1, 30 * PACKET], count), starts)
    return fabric, flows, draw(st.sampled_from(sorted(MIXES))), draw(st.sampled_from([0.0, 0.0, 0.02]))


@given(cases())
def test_every_slot_of_a_run_obeys_the_laws(case):
    fabric, flows, name, loss = case
    with pytest.MonkeyPatch.context() as patch:
        audit = Audit(patch)
        run = simulate_packets(fabric, flows, MIXES[name], loss=loss, seed=3)
        audit.check_rates(fabric)
    assert np.array_equal(run.packets, ACKNOWLEDGED.packets(flows.size_bytes))
    assert np.all(run.completion_s >= run.alone_s - 1e-12)
    assert run.port_packets[: fabric.planes * fabric.hosts].sum() == run.tallies["sent"] >= run.packets.sum()
    if MIXES[name].lossless and not loss:
        assert run.tallies["lost"] == 0 and run.tallies["sent"] == run.packets.sum()
    compiled = simulate_packets(fabric, flows, MIXES[name], loss=loss, seed=3)
    np.testing.assert_array_equal(compiled.completion_s, run.completion_s)
    np.testing.assert_array_equal(compiled.port_packets, run.port_packets)
    assert compiled.tallies == run.tallies and compiled.slots == run.slots


@pytest.mark.parametrize("name", sorted(MIXES))
def test_a_flow_alone_takes_what_links_and_bytes_ask_for(name):
    unpaid = (
        300 * (1 / MIXES[name].control.credit_rate - 1) if isinstance(MIXES[name].control, Rccc) else 0
    )  # slots without credit
    for fabric in (
        leaf_spine(8, 4, LINK),
        three_tier(16, 4, LINK),
        leaf_spine(8, 4, LINK, switch_latency_s=3e-7, nic_latency_s=2e-6),
    ):
        for destination in (1, 2, fabric.hosts - 1):
            flow = Flows([0], [destination], 300 * PACKET, 5e-6)
            run = simulate_packets(fabric, flow, MIXES[name])
            late = (run.completion_s[0] - single_flow_s(fabric, flow, ACKNOWLEDGED)[0]) / run.slot_s
            assert 0 <= late < 1.01 + unpaid
            assert run.tallies["sent"] == 300 and run.tallies["marked"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_two_flows_into_one_host_take_twice_as_long(name):
    fabric = leaf_spine(16, 4, LINK)
    flows = Flows([0, 5], [15, 15], 2e6)
    run = simulate_packets(fabric, flows, MIXES[name])
    twice = optimum_s(fabric, flows, ACKNOWLEDGED)
    assert twice <= run.completion_s.max() <= (1.2 if "DCQCN" in name else 1.08) * twice
    assert run.completion_s.min() > 0.8 * twice  # they share


@pytest.mark.parametrize("name", NAMES)
def test_runs_follow_their_seed(name):
    fabric, flows = leaf_spine(32, 8, LINK), permutation(32, 4e5, seed=1)
    one, same, other = (simulate_packets(fabric, flows, MIXES[name], seed=seed) for seed in (5, 5, 6))
    assert np.array_equal(one.completion_s, same.completion_s) and one.tallies == same.tallies
    assert not np.array_equal(one.completion_s, other.completion_s)


def test_spraying_is_no_worse_than_a_single_path_and_pauses_cost_most():
    fabric, mean = leaf_spine(128, 16, LINK), {}
    for name in ("spraying", "NDP", "flowlets", "single path", "RoCEv2"):
        runs = [simulate_packets(fabric, permutation(128, 2e6, seed=seed), MIXES[name], seed=seed) for seed in range(5)]
        mean[name] = [np.mean([run.slowdown.mean() for run in runs]), np.mean([run.slowdown.max() for run in runs])]
    for at in range(2):
        assert 1 <= max(mean["spraying"][at], mean["NDP"][at]) < mean["single path"][at] < mean["RoCEv2"][at]
    assert mean["flowlets"][0] <= mean["single path"][0]


def test_single_path_transports_share_their_paths():
    fabric, flows = leaf_spine(64, 8, LINK), permutation(64, 4e5, seed=1)
    table = fabric.port_table(flows.source, flows.destination, ecmp_paths(fabric, flows, 9))
    expected = np.zeros(fabric.ports)
    np.add.at(expected, table[table >= 0], np.repeat(ACKNOWLEDGED.packets(flows.size_bytes), (table >= 0).sum(1)))
    for name in ("RoCEv2", "RoCEv2 with DCQCN"):
        assert np.array_equal(simulate_packets(fabric, flows, MIXES[name], seed=9).port_packets, expected)


@pytest.mark.parametrize("name", sorted(MIXES))
def test_every_transport_makes_good_random_loss(name):
    fabric, flows = leaf_spine(16, 4, LINK), permutation(16, 1e6, seed=1)
    run = simulate_packets(fabric, flows, MIXES[name], loss=0.01)
    hops = run.port_packets.sum()
    assert abs(run.tallies["lost"] - 0.01 * hops) < 5 * np.sqrt(0.01 * hops) or MIXES[name].queues.overflow == "drop"
    assert run.tallies["retransmitted"] >= run.tallies["lost"] * (MIXES[name].recovery == "selective")
    assert run.completion_s.max() > simulate_packets(fabric, flows, MIXES[name]).completion_s.max()


def test_a_paused_link_holds_up_flows_to_other_hosts():
    fabric, mean = leaf_spine(24, 8, LINK, 2), {}
    flows = Flows([0, 1, 8, 9, 4, 5, 6, 7], [23, 23, 23, 23, 16, 17, 18, 19], [4e6] * 4 + [2e5] * 4)
    for name in ("RoCEv2", "single path"):
        mean[name] = np.mean(
            [simulate_packets(fabric, flows, MIXES[name], seed=s).completion_s[4:].mean() for s in range(10)]
        )
    assert mean["RoCEv2"] > 1.15 * mean["single path"]


def test_later_starts_and_many_flows_of_a_host():
    fabric = leaf_spine(16, 4, LINK)
    for name in NAMES:
        early = simulate_packets(fabric, permutation(16, 4e5, seed=1), MIXES[name])
        flows = replace(permutation(16, 4e5, seed=1), start_s=1.0)
        late = simulate_packets(fabric, flows, MIXES[name], most_s=2)
        np.testing.assert_allclose(late.completion_s.mean(), early.completion_s.mean(), rtol=0.15)
        many = all_to_all(np.arange(16).reshape(2, 8), 1e5)
        run = simulate_packets(fabric, many, MIXES[name])
        assert optimum_s(fabric, many, ACKNOWLEDGED) <= run.completion_s.max() < 2.5 * run.slot_s * 7 * 25 + 3e-5


def test_planes_carry_a_flow_together_and_a_single_path_takes_one():
    one, four = leaf_spine(32, 8, LINK), leaf_spine(32, 8, LINK, planes=4)
    flows = permutation(32, 2e6, seed=1)
    for name in SPRAYED:
        alone, together = (simulate_packets(each, flows, MIXES[name]).completion_s.mean() for each in (one, four))
        assert 3 < alone / together < 4.2
    run = simulate_packets(four, flows, MIXES["RoCEv2"])
    used = run.port_packets[: 4 * 32].reshape(4, 32)
    assert np.all((used > 0).sum(0) == 1) and run.slowdown.min() > 3


def dead_link():
    """A flow whose single path has a dead link that no routing withdraws."""
    fabric, flow = leaf_spine(8, 4, LINK), Flows([0], [7], 2e6)
    port = fabric.port_table([0], [7], ecmp_paths(fabric, flow, 0))[0, 1]
    rates = fabric.rates.copy()
    rates[port] = 0
    fabric = replace(fabric, rates=rates)
    assert live_paths(fabric, flow).sum() == 3
    return fabric, flow


@pytest.mark.parametrize("name", NAMES)
def test_who_recovers_from_a_dead_link(name):
    fabric, flow = dead_link()
    assert simulate_packets(fabric, flow, MIXES[name]).slowdown[0] < 1.01  # routing has withdrawn the path
    if MIXES[name].balancing == "single path":
        with pytest.raises(RuntimeError, match=r"1 of 1 flows can never be complete.*converged=True"):
            simulate_packets(fabric, flow, MIXES[name], converged=False)
    else:
        runs = [simulate_packets(fabric, flow, MIXES[name], converged=False, seed=seed) for seed in range(8)]
        assert all(run.tallies["lost"] <= run.tallies["retransmitted"] for run in runs)
        assert max(run.tallies["lost"] for run in runs) > 0
        assert all(run.completion_s > run.alone_s for run in runs if run.tallies["lost"])


def test_what_is_not_complete_in_time_is_told():
    with pytest.raises(RuntimeError, match=r"8 of 8 flows are not complete after most_s, 1e-05 s"):
        simulate_packets(leaf_spine(8, 4, LINK), permutation(8, 1e6), transport("spraying"), most_s=1e-5)


def test_a_dcqcn_sender_backs_off_and_comes_back():
    fabric = leaf_spine(16, 4, LINK)
    flows = Flows([0, 4], [12, 12], [8e6, 1e6])
    plain, controlled = (simulate_packets(fabric, flows, MIXES[name]) for name in ("RoCEv2", "RoCEv2 with DCQCN"))
    assert controlled.tallies["marked"] > 0 and controlled.tallies["deepest_queue"] <= plain.tallies["deepest_queue"]
    assert controlled.completion_s.max() < 2 * plain.completion_s.max()


@pytest.mark.parametrize("rtt_s", [60e-3, 8e-6])
def test_wide_area_losses_cost_rounds_or_windows(rtt_s):
    """Selective repeat needs as many rounds as the wide-area model; go-back-n sends the window again for each loss."""
    fabric, flow = leaf_spine(2, 1, 400 * Gbps, link_latency_s=rtt_s / 8), Flows([0], [1], 4e6)
    slowdown, again = {}, {}
    for way in ("selective", "go-back-n"):
        control = WINDOWED.changed(control=LineRate(), recovery=way, timeout_s=1e-3)
        assert simulate_packets(fabric, flow, control).slowdown[0] < 1.0001
        runs = [
            simulate_packets(fabric, flow, control, loss=1e-3 / 4, seed=seed) for seed in range(40)
        ]  # of four links
        slowdown[way] = np.mean([run.slowdown[0] for run in runs])
        again[way] = np.mean([run.retransmitted_share for run in runs])
    assert again["go-back-n"] > 3 * again["selective"]
    if rtt_s > 1e-2:  # sent within a small part of a round trip
        lost = 1e-3 ** np.arange(1, 9)  # a packet, so many times in a row; the last of all counts
        rounds = 1 - np.expm1(ACKNOWLEDGED.packets(4e6) * np.log1p(-lost)).sum()
        np.testing.assert_allclose(slowdown["selective"], rounds, rtol=0.08)


def test_numbers_that_happen_to_be_whole_compile_nothing_anew():
    pytest.importorskip("numba")
    for changes in ({}, {"cut": 1, "creep": 0, "mark_probability": 1, "mark_low_packets": 10, "mark_high_packets": 20}):
        simulate_packets(leaf_spine(8, 4, LINK), permutation(8, 1e5), transport("UEC NSCC", **changes))
    assert len(slots.run_slots.compiled.signatures) == 1


def test_memory_of_wide_area_runs_follows_the_packets_and_not_the_product_of_rate_and_delay():
    fabric = leaf_spine(64, 8, 800 * Gbps, link_latency_s=7.5e-3)
    tracemalloc.start()
    try:
        simulate_packets(fabric, permutation(64, 4e5), transport("spraying"))
        assert tracemalloc.get_traced_memory()[1] < 30e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["NDP", "UEC RCCC"])
def test_a_run_in_parts_is_the_run_and_tells_how_far_it_is(name, monkeypatch):
    flows = incast(6, 0, 4e6, 16, spread_s=1e-3)
    case = (leaf_spine(16, 4, LINK), flows, transport(name), Framing(acknowledged=True), 0, 1e-3)
    whole, told = simulate_packets(*case), []
    monkeypatch.setattr(packets, "TOLD_EVERY_S", -1.0)
    parts = simulate_packets(*case, progress=told.append)
    assert np.array_equal(parts.completion_s, whole.completion_s) and parts.tallies == whole.tallies
    assert len(told) >= 2 and told == sorted(told, key=lambda text: float(text.split("%")[0]))
    assert all(text.endswith(f"% of {whole.packets.sum():,} packets are delivered") for text in told)


def test_a_flowlet_is_on_one_plane_at_a_time():
    fabric, flows = leaf_spine(16, 4, LINK, planes=2), permutation(16, 1e6)
    kept = simulate_packets(fabric, flows, transport("flowlets", flowlet_gap_s=1.0)).port_packets[:32].reshape(2, 16)
    assert np.array_equal(np.sort(kept, 0)[0], np.zeros(16)) and kept.any(1).all()
    rates = fabric.rates.copy()
    rates[:16] = 0  # the first plane's ports of hosts
    run = simulate_packets(replace(fabric, rates=rates), flows, transport("flowlets"), converged=False)
    assert run.port_packets[:16].sum() == 0


@pytest.mark.parametrize("name", ["UEC NSCC", "UEC RCCC", "NDP", "spraying"])
def test_a_slow_spine_takes_what_it_can_and_no_more(name):
    """Queues of slow ports hold and mark what their speed has time for: the last flow stays near the optimum."""
    fabric, flows = leaf_spine(64, 8, LINK).degraded(spines=1, rate=0.25), permutation(64, 4e6, seed=1)
    run = simulate_packets(fabric, flows, transport(name))
    assert 1 <= run.completion_s.max() / optimum_s(fabric, flows, ACKNOWLEDGED) < 1.25


def test_ndp_sends_again_on_a_pull_alone():
    """63 senders of four packets: nobody sends a packet again before its receiver has room for it."""
    fabric, flows = leaf_spine(128, 16, LINK), incast(63, 0, 4 * PACKET, 128)
    run = simulate_packets(fabric, flows, MIXES["NDP"])
    assert run.retransmitted_share < 1.2
    assert run.completion_s.max() < 1.15 * optimum_s(fabric, flows, ACKNOWLEDGED)
