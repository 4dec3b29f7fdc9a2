from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobs import DENSE, H100, SOFTWARE, jobs, llama_8b
from timelines import check

from railcore.photonics.circuits import PhotonicCircuits, learned_order, photonic_overhead
from railcore.photonics.control_plane import catalog_control_plane
from railcore.photonics.simulation import ElectricalRails, simulate
from railcore.photonics.stage_program import StepOptions, fsdp_options
from railcore.photonics.workload import training_step
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy

A100 = catalog_machine("DGX A100", hb_domain_size=4)
DELAYS = (0.0, 1e-3, 0.1, 1.0)  # of the time of an iteration on electrical rails


@pytest.fixture(scope="module")
def llama():
    """The Llama-3 8B run of two stages and two replicas, two iterations."""
    return training_step("Llama-3 8B", A100, llama_8b(), 4, fsdp_options(), iterations=2, one_replica=True)


def rail_job(job, options=SOFTWARE[0], **more):
    """Workload of a job, None where it does not use the rails."""
    model, strategy, batch = job
    workload = training_step(model, H100, strategy, batch, options, **more)
    return workload if workload.rail_rings else None


networks = st.fixed_dictionaries(
    {
        "ports": st.sampled_from((2, 3, 4, 6)),
        "provisioning": st.booleans(),
        "bandwidth": st.sampled_from(("equal", "per port")),
        "frontend_bytes": st.sampled_from((0.0, 1000.0)),
    }
)


@given(
    jobs(),
    st.sampled_from(SOFTWARE),
    networks,
    st.sampled_from((0.0, 1e-4, 1e-2)),
    st.sampled_from((0.0, 0.1)),
    st.integers(0, 9),
)
def test_timelines_of_circuits_are_sound(job, options, fields, delay_s, jitter, seed):
    workload = training_step(*job[:1], H100, *job[1:], options, iterations=2)
    network = PhotonicCircuits(delay_s, **fields)
    timeline = check(simulate(workload, network, jitter, seed), jitter)
    again = simulate(workload, network, jitter, seed)
    assert timeline.end_s.tobytes() == again.end_s.tobytes()
    pd.testing.assert_frame_equal(timeline.circuits, again.circuits)


@given(jobs(), st.sampled_from(SOFTWARE), st.sampled_from((2, 4)), st.booleans())
def test_without_delay_circuits_are_electrical_rails(job, options, ports, provisioning):
    """At equal bandwidth. One port's bandwidth is slower."""
    if (workload := rail_job(job, options)) is None:
        return
    electrical = simulate(workload)
    near = 1e-9 * electrical.total_s
    equal = simulate(workload, PhotonicCircuits(ports=ports, provisioning=provisioning))
    assert np.abs(equal.end_s - electrical.end_s).max() <= near
    assert simulate(workload, PhotonicCircuits(ports=ports, bandwidth="per port")).total_s >= electrical.total_s - near


@given(jobs(), st.sampled_from(SOFTWARE), st.sampled_from((2, 4)), st.sampled_from(DELAYS))
def test_with_a_fixed_order_delays_never_help_and_provisioning_never_hurts(job, options, ports, learned):
    if (workload := rail_job(job, options)) is None:
        return
    least = simulate(workload).total_s
    first = PhotonicCircuits(least * learned, ports)
    fixed = replace(first, order=learned_order(simulate(workload, first)))
    before = dict.fromkeys(("asked", "early"), 0.0)
    for delay in DELAYS:
        network = replace(fixed, reconfiguration_s=least * delay)
        asked = simulate(workload, network).total_s
        early = simulate(workload, replace(network, provisioning=True)).total_s
        near = 1e-9 * asked
        assert before["asked"] <= asked + near and before["early"] <= early + near
        assert least <= early + near <= asked + 2 * near
        before = {"asked": asked, "early": early}


def test_a_port_for_every_ring_needs_no_change(llama):
    """With two rings and four ports all circuits of the first iteration stay."""
    timeline = simulate(llama, PhotonicCircuits(0.1, ports=4))
    assert timeline.iteration_s == pytest.approx(simulate(llama).iteration_s)
    assert timeline.circuits["down_s"].min() == np.inf
    assert timeline.reconfigurations["start_s"].max() < timeline.total_s - timeline.iteration_s


@pytest.mark.parametrize("ports", [2, 4])
def test_one_port_has_its_part_of_the_bandwidth(llama, ports):
    equal, part = (PhotonicCircuits(ports=ports, bandwidth=bandwidth) for bandwidth in ("equal", "per port"))
    op = learned_order(simulate(llama, equal))[0]
    latency_s = llama.ring_steps[op] * llama.machine.links.nic_latency_s
    times = [network.transfer_s(llama, op) - latency_s for network in (equal, part)]
    assert times[1] == pytest.approx(ports * times[0])


def test_tiny_collectives_on_the_host_network_spare_circuits(llama):
    network = PhotonicCircuits(0.1, frontend_bytes=1000, frontend_s=1e-3)
    timeline = simulate(llama, network)
    table = timeline.table
    tiny = table[(table["link"] == "rail") & (table["message_bytes"] < 1000)]
    assert len(tiny) == 2 * (2 + 1) and set(tiny["operation"]) == {"all_reduce"}
    assert (tiny["end_s"] - tiny["start_s"]).to_numpy() == pytest.approx(2e-3)
    changed = set(timeline.reconfigurations["op"])
    assert not changed.intersection(tiny["op"])
    assert len(changed) < len(simulate(llama, replace(network, frontend_bytes=0)).reconfigurations)


@pytest.mark.parametrize("provisioning", [False, True])
def test_an_order_is_kept_on_every_lane(llama, provisioning):
    order = learned_order(simulate(llama, PhotonicCircuits(1.0)))
    timeline = simulate(llama, PhotonicCircuits(1e-6, order=order, provisioning=provisioning))
    lanes = {}
    for op in order:
        for need in timeline.network.needs(llama, op):
            if not need.circuit:
                lanes.setdefault(need.lane, []).append(timeline.start_s[op])
    assert all((np.diff(starts) > 0).all() for starts in lanes.values())


def test_a_step_on_the_host_network_is_by_default_a_message_of_the_control_plane(llama):
    network = PhotonicCircuits(frontend_bytes="1 kB")
    op = next(op for op in learned_order(simulate(llama)) if llama.operation(op).message_bytes < 1000)
    assert network.transfer_s(llama, op) == llama.steps[op] * catalog_control_plane().message_s


def test_the_llama_run_changes_circuits_eight_times_an_iteration():
    """Between data and pipeline traffic, each on demand: T = T0 + 8 d."""
    delays = [0.0, 1e-6, 0.1, 1.0]
    table = photonic_overhead("Llama-3 8B", A100, llama_8b(), delays, 4, options=fsdp_options())
    assert list(table["reconfiguration_s"]) == delays * 2
    assert list(table["provisioning"]) == [False] * 4 + [True] * 4
    assert table["overhead"].to_numpy() == pytest.approx(table["iteration_s"] / table["electrical_s"] - 1)
    assert table["overhead"][[0, 4]].to_numpy() == pytest.approx(0, abs=1e-9)
    demand = table[~table["provisioning"]]
    added = (demand["iteration_s"] - demand["electrical_s"]).to_numpy()
    assert added == pytest.approx(8 * np.array(delays), abs=1e-9)
    assert (table["overhead"].to_numpy()[4:] <= demand["overhead"].to_numpy() + 1e-9).all()
    assert demand["reconfigurations"].nunique() == 1  # of the first replica, however many are simulated
    assert table.attrs["warnings"] == ()


def test_runs_all_replicas_where_one_does_not_stand_for_all():
    strategy = Strategy(tensor=4, context=2, pipeline=2, data=2)
    model = replace(DENSE, layers=4)
    table = photonic_overhead(model, H100, strategy, [1e-3], 4, True, ports=4)
    workload = training_step(model, H100, strategy, 4, iterations=2)
    run = simulate(workload, PhotonicCircuits(1e-3, provisioning=True, ports=4))
    assert table["iteration_s"].item() == run.iteration_s
    assert table["electrical_s"].item() == simulate(workload, ElectricalRails()).iteration_s


@pytest.mark.parametrize(
    "parts",
    [{}, {"tensor": 4}, {"data": 4}, {"pipeline": 2, "data": 2}]  # nothing leaves the HB domain
    + [{"tensor": 4, "pipeline": 4}, {"tensor": 4, "data": 4}],  # one kind of traffic does
)
def test_circuits_of_one_kind_of_traffic_stay(parts):
    job, alone = (replace(DENSE, layers=4), H100, Strategy(**parts)), StepOptions(sync_groups=())
    table = photonic_overhead(*job, [0.0, 1.0], 4, options=alone)
    assert table["overhead"].to_numpy() == pytest.approx(0, abs=1e-9) and not table["reconfigurations"].any()


@pytest.mark.parametrize("parts", [{"pipeline": 2}, {"data": 2, "pipeline": 2}])
def test_no_delay_makes_a_step_faster_and_what_floats_lose_is_refused(parts):
    """Where circuits stay, a long time of the first change adds nothing to the second iteration."""
    job = replace(DENSE, layers=4), H100, Strategy(tensor=4, **parts)
    for exponent in range(-12, 4):
        table = photonic_overhead(*job, 10.0**exponent, 4)
        assert (table["overhead"] >= 0).all()
        stay = table["reconfigurations"] == 0
        assert (table["overhead"][stay] == 0).all() and ("data" in parts or stay.all())
    for exponent in range(8, 60, 3):
        with pytest.raises(ValueError, match="floats do not tell its operations apart: give a shorter time of a c"):
            photonic_overhead(*job, 10.0**exponent, 4)


def test_an_overhead_says_what_is_odd():
    def told(strategy, batch=4, box=H100, **fields):
        return " ".join(photonic_overhead(DENSE, box, strategy, "1 ms", batch, True, **fields).attrs["warnings"])

    pipeline = Strategy(tensor=4, data=2, pipeline=2)
    assert told(pipeline) == ""
    assert "Circuits never change" in told(Strategy(tensor=4, pipeline=2))
    assert "one is left idle" in told(pipeline, ports=3)
    uneven = told(Strategy(tensor=2, data=3, pipeline=2), batch=6)
    assert "All 12 GPUs are simulated" in uneven and "data 2 or 4 would" in uneven
