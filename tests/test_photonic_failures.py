"""Failed ports and circuit switches: limiting cases and invariants."""

from collections import Counter

import pytest
from timelines import check

from railcore.network.reliability import expected_failures, parts_at_risk
from railcore.network.topology.photonic import PhotonicRails
from railcore.photonics.circuits import PhotonicCircuits
from railcore.photonics.simulation import ElectricalRails, StaticPartition, simulate
from railcore.photonics.stage_program import fsdp_options
from railcore.photonics.workload import training_step
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from suite.photonic2025.failed_parts import FailedPort, failure_slowdowns, moved_rings, slower_nic

MACHINE = catalog_machine("DGX A100", hb_domain_size=2)
STRATEGY = Strategy(tensor=2, data=2, pipeline=2, sharding="weights")
DETAILED = training_step("Llama-3 8B", MACHINE, STRATEGY, 4, fsdp_options(detail=True), iterations=2)
RAIL = [rank for rank in DETAILED.simulated if rank % 2 == 0]


def nic_bytes(workload):
    """Bytes that each NIC sends over its rail."""
    sent = Counter()
    for op, link in enumerate(workload.link):
        for nic, _ in workload.transfers(op, forwarded=True) if link == 2 else ():
            sent[nic] += workload.ring_bytes[op]
    return sent


def test_a_lost_rail_doubles_the_load_of_the_next_one():
    before, after = (nic_bytes(workload) for workload in (DETAILED, moved_rings(DETAILED, RAIL)))
    assert after.total() == pytest.approx(before.total())
    assert not set(RAIL) & set(after)
    for rank in RAIL:
        assert after[rank + 1] == pytest.approx(before[rank] + before[rank + 1])


def test_a_lost_nic_moves_the_rings_through_it_alone():
    ring = moved_rings(DETAILED, [0])
    moved = set(ring.nic_of)
    for op, link in enumerate(ring.link):
        pairs = DETAILED.transfers(op, forwarded=True) if link == 2 else []
        assert (op in moved) == any(0 in pair for pair in pairs)
        if op in moved:
            assert all(a % 2 == b % 2 == 1 for a, b in ring.transfers(op, forwarded=True) if a // 2 != b // 2)
    only = moved_rings(DETAILED, [0], ["pipeline"])
    assert {only.operation(op).kind for op in only.nic_of} == {"pipeline"}


def test_nothing_lost_changes_nothing():
    assert not moved_rings(DETAILED, []).nic_of
    assert slower_nic(DETAILED, 0, 1.0).ring_bytes == DETAILED.ring_bytes
    with pytest.raises(ValueError, match="no rail"):
        moved_rings(DETAILED, range(8))


@pytest.mark.parametrize("network", [ElectricalRails(), PhotonicCircuits(0.01), StaticPartition(ports=4)])
def test_less_of_a_nic_takes_longer(network):
    times = [simulate(slower_nic(DETAILED, 0, left), network).iteration_s for left in (1.0, 0.75, 0.5, 0.25)]
    assert times == sorted(times)
    assert times[0] == pytest.approx(simulate(DETAILED, network).iteration_s)
    assert times[-1] > times[0]


def test_a_failed_port_of_four_leaves_circuits_of_two_to_that_nic():
    four, failed = PhotonicCircuits(0.05, ports=4), FailedPort(0.05, ports=4)
    assert (failed.slots_of(("out", 0)), failed.slots_of(("in", 0)), failed.slots_of(("out", 1))) == (1, 1, 2)
    times = [simulate(DETAILED, network).iteration_s for network in (four, failed, PhotonicCircuits(0.05))]
    assert times == sorted(times)


@pytest.mark.parametrize("network", [ElectricalRails(), PhotonicCircuits(0.02), StaticPartition(ports=4)])
def test_timelines_with_failed_parts_are_sound(network):
    check(simulate(moved_rings(DETAILED, [0]), network, 0.1, 2), 0.1)
    check(simulate(moved_rings(DETAILED, RAIL), network, 0.1, 2), 0.1)
    check(simulate(slower_nic(DETAILED, 1, 0.5), network, 0.1, 2), 0.1)
    check(simulate(DETAILED, FailedPort(0.02, ports=4, rank=3), 0.1, 2), 0.1)


def test_failures_slow_a_job_and_more_ports_less_and_are_those_of_its_parts():
    table = failure_slowdowns(DETAILED, PhotonicCircuits(0.01), (2, 4))
    assert len(table.attrs["warnings"]) == 1 and "ports is 2" in table.attrs["warnings"][0]
    assert set(table["way"]) == {"electrical rails", "circuits change", "circuits set once"}
    assert (table["slowdown"] >= 1 - 1e-12).all()
    times = table.set_index(["way", "ports", "failure"])["slowdown"]
    assert times["electrical rails", 4, "port"] < times["electrical rails", 2, "port"]
    assert times["circuits change", 4, "port"] < times["circuits change", 2, "port"]
    for way, ports in {failure[:2] for failure in times.index}:
        assert times[way, ports, "switch of a rail"] > 1
        assert times[way, ports, "none"] == 1
    broken = table["failure"] != "none"
    for column in ("events_per_year", "time_share"):
        assert not table.loc[~broken, column].any() and (table.loc[broken, column] > 0).all()
    events = table.set_index(["way", "ports", "failure"])["events_per_year"]
    for ports in (2, 4):
        parts = parts_at_risk(PhotonicRails(8, 2, 16, ports))
        here = expected_failures(parts).set_index("part")["events_per_year"]
        assert events["circuits change", ports, "switch of a rail"] == here["circuit switch"]
        assert events["circuits change", ports, "port"] == here[["host link", "host transceiver"]].sum()
        assert events["electrical rails", ports, "port"] > events["circuits change", ports, "port"]  # light passes


def test_circuits_that_take_for_ever_are_refused():
    """No way that is left out: a time that floats lose is no lack of ports."""
    with pytest.raises(ValueError, match="floats do not tell its operations apart"):
        failure_slowdowns(DETAILED, PhotonicCircuits(1e12))
