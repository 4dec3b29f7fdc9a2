import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs import DENSE, H100, MIXTURE, SOFTWARE, TIED, jobs, llama_8b
from timelines import check

from railcore.photonics.circuits import PhotonicCircuits
from railcore.photonics.simulation import RAIL, ElectricalRails, StaticPartition, simulate
from railcore.photonics.stage_program import StepOptions, fsdp_options
from railcore.photonics.workload import training_step
from railcore.training.machine import UNLIMITED_BANDWIDTH
from railcore.training.parallelism import Strategy

EACH_PASS, ONCE, AFTER = StepOptions(), fsdp_options(), StepOptions(gradients_after_pass=True)
SPLITS_OF_64 = [
    (Strategy(tensor=4, pipeline=2, data=8, sharding="weights", sequence_parallel=True), ONCE),
    (Strategy(tensor=8, pipeline=2, data=4, interleave=2, sharding="gradients"), AFTER),
    (Strategy(tensor=4, pipeline=4, data=4, interleave=2, sharding="optimizer"), EACH_PASS),
    (Strategy(tensor=4, context=2, pipeline=4, data=2, sharding="weights"), EACH_PASS),
    (Strategy(tensor=4, context=2, pipeline=2, data=4, interleave=2), EACH_PASS),
    (Strategy(tensor=8, context=2, pipeline=4, sharding="weights", sequence_parallel=True), ONCE),
]
NETWORKS = {
    "electrical": ElectricalRails(),
    "static": StaticPartition(ports=8),
    "fewest steps": ElectricalRails(algorithm="fewest steps"),
    "first come": PhotonicCircuits(1e-3),
    "provisioned": PhotonicCircuits(1e-3, provisioning=True),
    "no delay": PhotonicCircuits(),
    "no delay, provisioned": PhotonicCircuits(provisioning=True),
    "per port": PhotonicCircuits(1e-4, bandwidth="per port"),
}


@settings(max_examples=20)
@given(jobs(), st.sampled_from(SOFTWARE), st.sampled_from(("ring", "fewest steps")), st.sampled_from((0.0, 0.2)))
def test_timelines_of_electrical_rails_and_static_partitions_are_sound(job, options, algorithm, jitter):
    workload = training_step(*job[:1], H100, *job[1:], options, iterations=2)
    electrical = check(simulate(workload, ElectricalRails(algorithm=algorithm), jitter, 3), jitter)
    static = StaticPartition(ports=max(2 * len(workload.rail_rings), 2), algorithm=algorithm)
    check(simulate(workload, static, jitter, 3), jitter)
    assert electrical.iteration_s <= electrical.total_s


@pytest.mark.parametrize(("strategy", "options"), SPLITS_OF_64, ids=str)
def test_one_replica_has_the_times_of_all(strategy, options):
    """Also at no delay in all of these; `circuits.photonic_overhead` runs all replicas there nevertheless."""
    model = replace(DENSE, layers=strategy.pipeline * strategy.interleave)
    box, batch = H100.changed(hb_domain_size=strategy.tensor), strategy.data * strategy.pipeline
    one, every = (training_step(model, box, strategy, batch, options, one_replica=yes) for yes in (True, False))
    twin = {(every.program[op], every.ranks[op]): op for op in range(len(every.program))}
    twins = [twin[one.program[op], one.ranks[op]] for op in range(len(one.program))]
    for name, network in NETWORKS.items():
        small, large = simulate(one, network), simulate(every, network)
        for part, all_of_it in ((small.start_s, large.start_s), (small.end_s, large.end_s)):
            assert np.abs(part - all_of_it[twins]).max() <= 1e-12 * large.total_s, name


def test_a_transfer_takes_its_latency_and_its_busiest_link():
    """An AllGather among two nodes of four: rings on the rails of all, half of the message over each pair."""
    box = H100.changed(hb_domain_size=8)
    strategy = Strategy(tensor=2, data=8, sharding="optimizer")
    timeline = simulate(training_step(DENSE, box, strategy, 8))
    rows = timeline.table[timeline.table["operation"] == "all_gather"]
    took = (rows["end_s"] - rows["start_s"]).to_numpy()
    sent = rows["message_bytes"].to_numpy() * 7 / 8
    assert box.collective_nic_Bps * 4 < box.collective_hb_Bps
    assert took == pytest.approx(box.links.nic_latency_s + sent / 4 / box.collective_nic_Bps)
    slow = box.changed(hb_Bps=box.nic_Bps)
    rows = simulate(training_step(DENSE, slow, strategy, 8)).table.loc[rows.index]
    took = (rows["end_s"] - rows["start_s"]).to_numpy()
    assert took == pytest.approx(box.links.nic_latency_s + sent / slow.collective_hb_Bps)


@pytest.mark.parametrize(("algorithm", "steps"), [("ring", 7), ("fewest steps", 3)])
def test_steps_of_a_collective(algorithm, steps):
    box = H100.changed(hb_domain_size=1, nic_Bps=UNLIMITED_BANDWIDTH, hb_Bps=UNLIMITED_BANDWIDTH)
    workload = training_step(DENSE, box, Strategy(data=8), 8, one_replica=True)
    table = simulate(workload, ElectricalRails(algorithm=algorithm)).table
    reduced = table[table["operation"] == "all_reduce"]
    assert (reduced["end_s"] - reduced["start_s"]).to_numpy() == pytest.approx(2 * steps * box.links.nic_latency_s)


def test_measured_rates_take_the_place_of_the_machines():
    workload = training_step(DENSE, H100, llama_8b(), 4)
    rate = 1e9
    measured = simulate(workload, ElectricalRails(rates_Bps={"all_gather": rate})).table
    plain = simulate(workload).table
    took, before = ((each["end_s"] - each["start_s"]).to_numpy() for each in (measured, plain))
    gathers = (plain["operation"] == "all_gather").to_numpy()
    latency = H100.links.nic_latency_s
    assert (took - latency)[gathers] == pytest.approx((before - latency)[gathers] * H100.collective_nic_Bps / rate)
    assert took[~gathers] == pytest.approx(before[~gathers])


@pytest.mark.parametrize("strategy", [Strategy(tensor=4, data=4), Strategy(tensor=4, pipeline=4), llama_8b()], ids=str)
def test_a_static_partition_is_an_electrical_network_with_its_share(strategy):
    """Where one kind of traffic never waits for another; where it does, its own ports spare it that."""
    batch = strategy.data * 4
    workload = training_step(DENSE, H100, strategy, batch)
    rings = len(workload.rail_rings)
    assert rings == (strategy.data > 1) + (strategy.pipeline > 1)
    for ports in (2 * rings, 2 * rings + 1, 4 * rings):
        share = 2 * (2 if ports == 4 * rings else 1) / ports
        static = simulate(workload, StaticPartition(ports=ports))
        thin = H100.changed(nic_Bps=H100.nic_Bps * share)
        electrical = simulate(training_step(DENSE, thin, strategy, batch))
        if rings == 1:
            assert static.end_s == pytest.approx(electrical.end_s)
        else:
            assert static.total_s < electrical.total_s


def test_a_static_partition_names_the_rings_that_do_not_fit():
    strategy = Strategy(data=16, expert=4, pipeline=2)
    workload = training_step(MIXTURE, H100.changed(hb_domain_size=1), strategy, 32)
    assert workload.rail_rings == ("expert", "pipeline", "data", "expert data")
    simulate(workload, StaticPartition(ports=8))
    tied = training_step(TIED, H100.changed(hb_domain_size=1), Strategy(pipeline=4), 4)
    assert tied.rail_rings == ("pipeline", "tied embeddings")


def test_a_seed_gives_the_same_bytes_and_another_others():
    workload = training_step(DENSE, H100, llama_8b(), 4)
    runs = [check(simulate(workload, jitter=0.1, seed=seed), 0.1) for seed in (1, 1, 2)]
    assert runs[0].end_s.tobytes() == runs[1].end_s.tobytes() != runs[2].end_s.tobytes()
    computes = np.array(workload.link) != RAIL
    seconds = np.array(workload.seconds)[computes]
    factors = [((run.end_s - run.start_s)[computes][seconds > 0] / seconds[seconds > 0]) for run in runs]
    assert np.std(factors) == pytest.approx(0.1, rel=0.1) and np.mean(factors) == pytest.approx(1, abs=0.01)
    assert np.abs(np.array(factors) - 1).max() <= math.sqrt(3) * 0.1 + 1e-9
    calm = simulate(workload)
    assert simulate(workload, seed=7).end_s.tobytes() == calm.end_s.tobytes()


def test_iterations_follow_each_other():
    one, three = (simulate(training_step(DENSE, H100, llama_8b(), 4, iterations=n)) for n in (1, 3))
    assert one.iteration_s == one.total_s
    assert three.iteration_s == pytest.approx(one.total_s)
    assert list(three.table.groupby("iteration")["start_s"].min()) == pytest.approx([0, one.total_s, 2 * one.total_s])
