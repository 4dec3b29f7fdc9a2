"""Forwarding between rails, rails that diverge, and all-to-all over rings: limiting cases and invariants."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from timelines import check

from railcore.systems.photonic_routing import (
    CircuitsBesideFrontend,
    all_to_all_ways,
    divergence_by_seed,
    diverging_rails,
    forwarding_load,
    forwarding_nics,
    nic_traffic,
    ring_strides,
)
from railcore.systems.photonics import PhotonicCircuits
from railcore.training.collectives import steps_and_bytes
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.simulation import ElectricalRails, simulate
from railcore.training.stage_program import fsdp_options
from railcore.training.workload import training_step


def step(domain, strategy, micro_batches=1, **options):
    machine = catalog_machine("DGX A100", hb_domain_size=domain)
    batch = strategy.data * micro_batches
    return training_step("Llama-3 8B", machine, strategy, batch, fsdp_options(**options), iterations=2)


def test_stages_that_fill_domains_forward_nothing():
    workload = step(4, Strategy(tensor=4, data=2, pipeline=2, sharding="weights"))
    assert forwarding_nics(workload).empty
    assert not nic_traffic(workload)["forwarded"].any()


def test_a_hop_that_changes_rails_leaves_from_the_nic_on_the_receivers_rail():
    workload = step(8, Strategy(tensor=4, data=3, pipeline=2, sharding="weights"))  # 12 ranks of a stage, domains of 8
    found = forwarding_nics(workload).set_index("nic")
    assert found["forwards_for"].to_dict() == {nic: str(nic ^ 4) for nic in range(24)}
    assert set(found["forwarded"]) == {"pipeline"}
    assert set(found.loc[list(range(4)), "shares_with"]) == {"data"}  # ranks 0 and 8 are a ring of rail 0


@pytest.mark.parametrize(("tensor", "data", "pipeline"), [(4, 3, 2), (4, 1, 4), (2, 3, 4), (2, 2, 4)])
def test_every_circuit_stays_on_its_rail_and_bytes_are_kept(tensor, data, pipeline):
    workload = step(8, Strategy(tensor=tensor, data=data, pipeline=pipeline))
    for op, link in enumerate(workload.link):
        if link == 2:
            own, forwarded = workload.transfers(op), workload.transfers(op, forwarded=True)
            assert all(a % 8 == b % 8 and a // 8 != b // 8 for a, b in forwarded)
            assert [a // 8 for a, _ in own] == [a // 8 for a, _ in forwarded]
            domains = {rank // 8 for rank in workload.ranks[op]}
            assert {each // 8 for pair in forwarded for each in pair} == (domains if len(domains) > 1 else set())
    traffic = nic_traffic(workload)
    sent = sum(workload.ring_bytes[op] * len(workload.transfers(op)) for op in range(len(workload.link)))
    assert traffic["sent_bytes"].sum() == pytest.approx(sent)
    loads = forwarding_nics(workload)
    assert loads["forwarded_bytes"].sum() == pytest.approx(traffic.loc[traffic["forwarded"], "sent_bytes"].sum())


@pytest.mark.parametrize(
    "network", [ElectricalRails(), PhotonicCircuits(0.01), PhotonicCircuits(0.01, granularity="rail")]
)
@pytest.mark.parametrize("provisioning", [False, True])
def test_timelines_with_forwarding_are_sound(network, provisioning):
    if isinstance(network, PhotonicCircuits):
        network = replace(network, provisioning=provisioning)
    for tensor, data, pipeline in ((4, 3, 2), (2, 3, 4), (4, 1, 4)):
        workload = step(8, Strategy(tensor=tensor, data=data, pipeline=pipeline, sharding="weights"), 2)
        check(simulate(workload, network, 0.1, 1), 0.1)


TIED = step(2, Strategy(tensor=2, data=2, pipeline=2, interleave=2, sharding="weights"), 4)


def test_rails_diverge_with_jitter_and_not_when_they_change_together():
    network = PhotonicCircuits(0.02)
    assert diverging_rails(simulate(TIED, network)).empty
    table = divergence_by_seed(TIED, network, 0.1, range(4))
    assert (table.loc[~table["coalesced"], "pairs"] > 0).any()
    assert (table.loc[table["coalesced"], "pairs"] == 0).all()
    varied = divergence_by_seed(TIED, replace(network, reconfiguration_jitter=0.3), 0.1, range(2))
    assert (varied.loc[varied["coalesced"], "pairs"] == 0).all()


def test_diverging_pairs_are_served_in_the_order_that_is_told():
    run = simulate(TIED, PhotonicCircuits(0.02), 0.1, 3)
    pairs = diverging_rails(run)
    same = {}
    for op, link in enumerate(TIED.link):
        domains = tuple(rank // 2 for rank in TIED.ranks[op])
        if link == 2:
            same.setdefault((TIED.program[op], domains), {})[TIED.ranks[op][0] % 2] = op
    rails = {op: group for group in same.values() for op in group.values()}
    for row in pairs.itertuples():
        first, second = rails[row.first], rails[row.second]
        assert all(run.start_s[first[rail]] < run.start_s[second[rail]] for rail in row.rails)
        assert all(run.start_s[first[rail]] > run.start_s[second[rail]] for rail in row.other_rails)


def test_rails_of_one_replica_are_refused():
    machine = catalog_machine("DGX A100", hb_domain_size=4)
    small = training_step("Llama-3 8B", machine, Strategy(tensor=2, data=4), 4, one_replica=True)
    with pytest.raises(ValueError, match="one_replica=False"):
        diverging_rails(simulate(small))


@given(st.integers(2, 40))
def test_one_ring_carries_what_the_closed_form_says(n):
    loads = forwarding_load(n, [1])
    assert loads.sum() == pytest.approx(steps_and_bytes("all_to_all", "bidirectional_ring", n, n)[1])
    assert loads[0] == pytest.approx(loads[1])


@given(st.integers(2, 24), st.integers(1, 3))
def test_messages_cross_at_least_one_circuit_and_more_ports_carry_no_more(n, rings):
    loads = forwarding_load(n, ring_strides(n, 2 * rings))
    assert loads.sum() >= n - 1 - 1e-9
    assert loads.sum() <= n**2 / 4 + 1e-9
    fewer = forwarding_load(n, ring_strides(n, 2))
    assert loads.max() <= fewer.max() + 1e-9
    if 2 * rings >= n - 1 and n % 2:
        assert loads.sum() == pytest.approx(n - 1)


def test_the_best_strides_are_those_of_all():
    every = itertools.combinations_with_replacement(range(1, 9), 2)
    reaching = [pair for pair in every if np.gcd.reduce([*pair, 17]) == 1]
    best = min(forwarding_load(17, pair).max() for pair in reaching)
    assert forwarding_load(17, ring_strides(17, 4)).max() == pytest.approx(best)


def test_strides_that_do_not_reach_all_are_refused():
    with pytest.raises(ValueError, match="they reach 4"):
        forwarding_load(8, [2])
    with pytest.raises(ValueError, match="ports is 1"):
        ring_strides(8, 1)


LINKS = {"nic_Bps": 50e9, "latency_s": 0.0, "frontend_Bps": 5e9, "frontend_s": 0.0}


def test_all_to_all_of_two_ranks_is_the_same_on_rings_and_without_delay_in_turn():
    table = all_to_all_ways(1e9, [2, 3], **LINKS, reconfiguration_s=0.0, ports=(2,)).set_index(["ranks", "way"])
    assert table.loc[(2, "rings of 2 ports"), "slowdown"] == pytest.approx(1)
    assert table.loc[(3, "rings of 2 ports"), "slowdown"] == pytest.approx(1)
    for n in (2, 3):
        assert table.loc[(n, "circuits in turn, 2 ports"), "slowdown"] == pytest.approx(1)
    assert table.loc[(2, "frontend network"), "slowdown"] == pytest.approx(10)
    assert (table["tax"] >= 1).all()


def test_the_tax_of_a_ring_is_a_quarter_of_its_ranks():
    table = all_to_all_ways(1e9, [16, 64], **LINKS, reconfiguration_s=1e-3)
    ring = table[table["way"] == "rings of 2 ports"]
    assert ring["tax"].to_numpy() == pytest.approx(np.array([16 / 4 * 16 / 15, 64 / 4 * 64 / 63]))
    assert ring["slowdown"].to_numpy() == pytest.approx(ring["tax"].to_numpy())
    one_way = table[table["way"].str.startswith("one-way")]
    assert one_way["tax"].to_numpy() == pytest.approx(np.array([8.0, 32.0]))
    with pytest.raises(ValueError, match="ranks is"):
        all_to_all_ways(1e9, [1], **LINKS, reconfiguration_s=1e-3)


def test_experts_on_the_frontend_need_no_circuits():
    machine = catalog_machine("DGX H200")
    workload = training_step("MoE-1.3B", machine, Strategy(data=32, expert=16), 32, iterations=2)
    network = CircuitsBesideFrontend(1e-3, frontend_Bps=3e9)
    runs = [simulate(workload, each) for each in (network, PhotonicCircuits(1e-3))]
    kinds = [{workload.operation(op).kind for op in run.reconfigurations["op"]} for run in runs]
    assert "expert" not in kinds[0] and "expert" in kinds[1]
    assert all(not network.needs(workload, op) for op in range(200) if workload.operation(op).kind == "expert")
    fast = replace(network, frontend_Bps=1e30, frontend_s=0.0)
    assert simulate(workload, fast).iteration_s < runs[0].iteration_s
    with pytest.raises(ValueError, match="frontend_kinds"):
        CircuitsBesideFrontend(frontend_Bps=1e9, frontend_kinds=("expert", "x"))
    assert simulate(workload, ElectricalRails(algorithm="fewest steps")).iteration_s > 0
