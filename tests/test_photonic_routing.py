"""Forwarding between rails, and experts beside the rails: limiting cases and invariants."""

from dataclasses import replace

import pytest
from timelines import check

from railcore.photonics.circuits import PhotonicCircuits
from railcore.photonics.simulation import ElectricalRails, simulate
from railcore.photonics.stage_program import fsdp_options
from railcore.photonics.workload import training_step
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy


def step(domain, strategy, micro_batches=1, **options):
    machine = catalog_machine("DGX A100", hb_domain_size=domain)
    batch = strategy.data * micro_batches
    return training_step("Llama-3 8B", machine, strategy, batch, fsdp_options(**options), iterations=2)


@pytest.mark.parametrize(("tensor", "data", "pipeline"), [(4, 3, 2), (4, 1, 4), (2, 3, 4), (2, 2, 4)])
def test_every_circuit_stays_on_its_rail(tensor, data, pipeline):
    workload = step(8, Strategy(tensor=tensor, data=data, pipeline=pipeline))
    for op, link in enumerate(workload.link):
        if link == 2:
            own, forwarded = workload.transfers(op), workload.transfers(op, forwarded=True)
            assert all(a % 8 == b % 8 and a // 8 != b // 8 for a, b in forwarded)
            assert [a // 8 for a, _ in own] == [a // 8 for a, _ in forwarded]
            domains = {rank // 8 for rank in workload.ranks[op]}
            assert {each // 8 for pair in forwarded for each in pair} == (domains if len(domains) > 1 else set())


@pytest.mark.parametrize("network", [ElectricalRails(), PhotonicCircuits(0.01)])
@pytest.mark.parametrize("provisioning", [False, True])
def test_timelines_with_forwarding_are_sound(network, provisioning):
    if isinstance(network, PhotonicCircuits):
        network = replace(network, provisioning=provisioning)
    for tensor, data, pipeline in ((4, 3, 2), (2, 3, 4), (4, 1, 4)):
        workload = step(8, Strategy(tensor=tensor, data=data, pipeline=pipeline, sharding="weights"), 2)
        check(simulate(workload, network, 0.1, 1), 0.1)


def test_experts_on_the_frontend_need_no_circuits():
    machine = catalog_machine("DGX H200")
    workload = training_step("MoE-1.3B", machine, Strategy(data=32, expert=16), 32, iterations=2)
    network = PhotonicCircuits(1e-3, frontend_kinds=("expert",), frontend_Bps=3e9)
    runs = [simulate(workload, each) for each in (network, PhotonicCircuits(1e-3))]
    kinds = [{workload.operation(op).kind for op in run.reconfigurations["op"]} for run in runs]
    assert "expert" not in kinds[0] and "expert" in kinds[1]
    assert all(not network.needs(workload, op) for op in range(200) if workload.operation(op).kind == "expert")
    fast = replace(network, frontend_Bps=1e30, frontend_s=0.0)
    assert simulate(workload, fast).iteration_s < runs[0].iteration_s
    assert simulate(workload, ElectricalRails(algorithm="fewest steps")).iteration_s > 0
