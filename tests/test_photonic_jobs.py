"""Two jobs on the rails of one photonic fabric: limiting cases and invariants."""

from dataclasses import replace

import numpy as np
import pytest
from timelines import check

from railcore.systems.photonic_jobs import (
    SharedSwitches,
    job_iteration_times,
    joined_jobs,
    slowdowns_of_jobs,
)
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.simulation import ElectricalRails, simulate
from railcore.training.stage_program import fsdp_options
from railcore.training.workload import training_step

MACHINE = catalog_machine("DGX A100", hb_domain_size=2)
STRATEGY = Strategy(tensor=2, data=2, pipeline=2, sharding="weights")


def job(iterations=3, machine=MACHINE, data=2, **options):
    strategy = replace(STRATEGY, data=data)
    return training_step("Llama-3 8B", machine, strategy, 2 * data, fsdp_options(**options), iterations=iterations)


JOB = job()
NETWORKS = {
    "group": SharedSwitches(0.02),
    "provisioned": SharedSwitches(0.02, provisioning=True),
    "rail": SharedSwitches(0.02, granularity="rail"),
    "one at a time": SharedSwitches(0.02, one_at_a_time=True),
}


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_one_job_joined_is_the_job(network):
    run = simulate(joined_jobs([JOB]), network)
    assert np.array_equal(run.end_s, simulate(JOB, network).end_s)
    assert job_iteration_times(run)[0] == pytest.approx(simulate(JOB, network).iteration_s)


@pytest.mark.parametrize("slices", [False, True])
@pytest.mark.parametrize("name", ["group", "provisioned"])
def test_jobs_on_ports_of_their_own_cost_each_other_nothing(name, slices):
    other = job(data=4)
    table = slowdowns_of_jobs([JOB, other], {name: NETWORKS[name]}, (0.0, 0.3), slices)
    assert table["slowdown"].to_numpy() == pytest.approx(np.ones(4))


def test_jobs_in_step_on_electrical_rails_end_when_they_do_alone():
    both = joined_jobs([JOB, JOB])
    ends = simulate(both, ElectricalRails()).end_s
    for number in (0, 1):
        assert np.array_equal(ends[both.job_of == number], simulate(JOB, ElectricalRails()).end_s)


def test_a_switch_that_changes_one_circuit_set_at_a_time_or_all_at_once_couples_jobs():
    names = {name: NETWORKS[name] for name in ("rail", "one at a time")}
    table = slowdowns_of_jobs([JOB, job(data=4)], names, (0.0, 0.1))
    assert (table.groupby("network")["slowdown"].max() > 1.01).all()
    instant = {name: replace(network, reconfiguration_s=0.0) for name, network in names.items()}
    free = slowdowns_of_jobs([JOB, job(data=4)], {"one at a time": instant["one at a time"]}, (0.1,))
    assert free["slowdown"].to_numpy() == pytest.approx(np.ones(2))


def test_slices_of_a_domain_have_rails_of_their_own_unless_the_switch_holds_several():
    jobs = [JOB, job(data=4)]
    one = {"rail": replace(NETWORKS["rail"], rails_per_switch=1)}
    assert slowdowns_of_jobs(jobs, one, (0.1,), True)["slowdown"].to_numpy() == pytest.approx(np.ones(2))
    assert (
        slowdowns_of_jobs(jobs, {"rail": replace(NETWORKS["rail"], rails_per_switch=4)}, (0.1,), True)["slowdown"].max()
        > 1.01
    )


@pytest.mark.parametrize("start", [0.0, 0.25])
@pytest.mark.parametrize("rails_per_switch", [1, 2])
def test_changes_of_a_switch_do_not_overlap(start, rails_per_switch):
    both = joined_jobs([JOB, job(data=4)], [0.0, start])
    network = SharedSwitches(0.02, one_at_a_time=True, rails_per_switch=rails_per_switch)
    run = simulate(both, network)
    spans = {}
    for op, begin, end in run.reconfiguration_log:
        rank = both.transfers(op, forwarded=True)[0][0]
        spans.setdefault(network.switch(both, ("out", rank)), []).append((begin, end))
    assert len(spans) == 2 // rails_per_switch
    for times in spans.values():
        times = np.array(sorted(times))
        assert np.all(times[1:, 0] >= times[:-1, 1] - 1e-12)


@pytest.mark.parametrize("provisioning", [False, True])
@pytest.mark.parametrize("granularity", ["group", "rail"])
@pytest.mark.parametrize("one_at_a_time", [False, True])
@pytest.mark.parametrize("slices", [False, True])
def test_timelines_of_several_jobs_are_sound(provisioning, granularity, one_at_a_time, slices):
    jobs = [job(2), job(2, data=4, detail=True)]
    network = SharedSwitches(
        0.03,
        provisioning=provisioning,
        granularity=granularity,
        one_at_a_time=one_at_a_time,
        reconfiguration_jitter=0.2,
    )
    check(simulate(joined_jobs(jobs, [0.0, 0.2], slices), network, 0.1, 5), 0.1)


def test_joined_jobs_keep_their_operations_on_gpus_of_their_own():
    other = job(data=4)
    for slices in (False, True):
        both = joined_jobs([JOB, other], ["0 s", "500 ms"], slices)
        gpus = [{rank for op in np.flatnonzero(both.job_of == j) for rank in both.ranks[op]} for j in (0, 1)]
        assert not gpus[0] & gpus[1]
        assert both.simulated == gpus[0] | gpus[1]
        assert sum(both.ring_bytes) == sum(JOB.ring_bytes) + sum(other.ring_bytes)
        started = simulate(both).start_s[(both.job_of == 1) & (both.table["operation"] != "start")].min()
        assert started == 0.5
        positions = [{rank % both.machine.hb_domain_size for rank in each} for each in gpus]
        assert positions == ([{0, 1}, {2, 3}] if slices else [{0, 1}, {0, 1}])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([JOB, job(2)],), "iterations"),
        (([JOB, JOB], [0.0]), "start_s has 1"),
        (([],), "start_s has 0 times for 0 jobs"),
        (([JOB, job(machine=replace(MACHINE, hb_domain_size=4))],), "domain_slices=True"),
        (([JOB, JOB], [0.0, -1.0]), "start_s is"),
        (([JOB, job(machine=replace(MACHINE, nic_Bps=1e9))],), "NICs that differ"),
    ],
)
def test_jobs_that_cannot_be_joined_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        joined_jobs(*arguments)


def test_too_few_iterations_and_one_job_are_refused():
    with pytest.raises(ValueError, match="give more"):
        job_iteration_times(simulate(joined_jobs([JOB, JOB], [0.0, 100.0])))
    with pytest.raises(ValueError, match="joined_jobs"):
        job_iteration_times(simulate(JOB))


def test_jobs_of_one_replica_are_refused():
    machine = replace(MACHINE, hb_domain_size=4)
    small = training_step("Llama-3 8B", machine, replace(STRATEGY, data=4), 8, fsdp_options(), one_replica=True)
    with pytest.raises(ValueError, match="one replica"):
        joined_jobs([small])
