"""What holds in every simulated timeline: `check` runs on each that a test makes (conftest.py)."""

from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np

from railcore.photonics.circuits import PhotonicCircuits
from railcore.photonics.simulation import RAIL, StaticPartition

_WIDEST = 3**0.5  # times its standard deviation reaches a uniform number


def check(timeline, jitter=0.0):
    """Check all of a timeline; jitter: of its computes, as given to `simulate`. Returns the timeline."""
    _check_operations(timeline, jitter)
    _check_lanes(timeline)
    if isinstance(timeline.network, PhotonicCircuits):
        _check_circuits(timeline)
        _check_reconfigurations(timeline)
    else:
        assert timeline.circuits.empty and timeline.reconfigurations.empty
    return timeline


def slack(timeline):
    """Rounding of times [s]."""
    return 1e-11 * timeline.total_s


def _check_operations(timeline, jitter):
    """Each ran once, after all that it waits for, as long as its network says; only the rails make it wait."""
    workload, near = timeline.workload, slack(timeline)
    ready, start, end = timeline.ready_s, timeline.start_s, timeline.end_s
    assert len(ready) == len(start) == len(end) == len(workload.program)
    assert np.isfinite([ready, start, end]).all() and np.all((ready >= 0) & (ready <= start) & (start <= end))
    for op, before in enumerate(workload.after):
        last = max((end[each] for each in before), default=0.0)
        assert last <= start[op] and abs(ready[op] - last) <= near
    rail = np.array(workload.link) == RAIL
    seconds, took = np.array(workload.seconds), end - start
    assert np.array_equal(start[~rail], ready[~rail])
    assert np.all(np.abs(took - seconds)[~rail] <= _WIDEST * jitter * seconds[~rail] + near)
    says = [timeline.network.transfer_s(workload, int(op)) for op in np.flatnonzero(rail)]
    assert np.all(np.abs(took[rail] - says) <= near)


def on_circuits(timeline):
    """Operations over the rails whose traffic does not take the host network."""
    workload, network = timeline.workload, timeline.network
    ops = np.flatnonzero(np.array(workload.link) == RAIL)
    frontend = network.on_frontend if isinstance(network, PhotonicCircuits) else lambda *_: False
    return [int(op) for op in ops if not frontend(workload, int(op))]


def transfers(timeline, op):
    """Transfers of an operation: (from, to, its circuit)."""
    workload = timeline.workload
    what, photonic = workload.operation(op), isinstance(timeline.network, PhotonicCircuits)
    for source, target in workload.transfers(op, forwarded=photonic):
        turned = what.group == "hop" and what.phase == "backward"
        yield source, target, (target, source) if turned else (source, target)


def _check_lanes(timeline):
    """A NIC, or what a transfer has of it, sends to one and receives from one at a time."""
    workload, network, busy = timeline.workload, timeline.network, defaultdict(list)
    for op in on_circuits(timeline):
        for source, target, circuit in transfers(timeline, op):
            part = ()
            if isinstance(network, StaticPartition):
                part = (workload.ring(op),)
            elif getattr(network, "bandwidth", "equal") == "per port":
                part = circuit
            for lane in (("send", source, *part), ("receive", target, *part)):
                busy[lane].append((timeline.start_s[op], timeline.end_s[op]))
    for lane, times in busy.items():
        _check_apart(times, slack(timeline), lane)


def _check_apart(times, near, what, gap=0.0):
    """Intervals do not overlap; between two of them lies at least a gap."""
    for (_, end), (start, _) in pairwise(sorted(times)):
        assert start >= end + gap - near, (what, end, start)


def _check_circuits(timeline):
    """A transfer's circuit is up all the time; a port has one circuit at a time, with the delay between two."""
    workload, network, near = timeline.workload, timeline.network, slack(timeline)
    ports, ends = defaultdict(list), defaultdict(set)
    for rank, port, circuit, up, down in timeline.circuit_log:
        assert up <= down
        ports[rank, port].append((up, down))
        ends[rank, port.split()[0], circuit].add((up, down))
    for port, times in ports.items():
        _check_apart(times, near, port, network.reconfiguration_s)
    counts = Counter(rank for rank, _ in ports)
    assert max(counts.values(), default=0) <= network.ports
    for op in on_circuits(timeline):
        start, end = timeline.start_s[op], timeline.end_s[op]
        for _, _, (out, into) in transfers(timeline, op):
            wanted = [(out, "out", f"{out}-{into}"), (into, "in", f"{out}-{into}")]
            for name in [name for name in wanted if name[0] in workload.simulated]:
                assert any(up <= start + near and end <= down + near for up, down in ends[name]), (op, name)
    for (_, side, circuit), times in ends.items():  # a circuit comes and goes at both its ends
        first, last = circuit.split("-")
        far = int(last if side == "out" else first)
        assert far not in workload.simulated or ends[far, "in" if side == "out" else "out", circuit] == times


def _check_reconfigurations(timeline):
    """Each takes its delay, not before it is asked for without provisioning, and all circuits come from one."""
    network, near = timeline.network, slack(timeline)
    delay = network.reconfiguration_s
    ends = {end for _, _, end in timeline.reconfiguration_log}
    for op, start, end in timeline.reconfiguration_log:
        assert abs(end - start - delay) <= near
        assert network.provisioning or start >= timeline.ready_s[op]
        assert start <= timeline.start_s[op]
    assert {up for _, _, _, up, _ in timeline.circuit_log} <= ends
