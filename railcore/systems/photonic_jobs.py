"""Several jobs on the rails of one photonic fabric: what they cost each other.

Jobs have GPUs of their own, so that a port belongs to one job. What they share is the circuit switch of a rail: one
that changes all its circuits at once makes every job wait for the others' traffic, and one that does one change after
the other makes changes queue. Assumed: requests of several rails of a switch are changes of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

from railcore.facts.arguments import checked
from railcore.facts.checks import Floats, at_least, whole
from railcore.systems.photonics import CircuitPolicy, PhotonicCircuits
from railcore.training.simulation import Need, StepTimeline, simulate
from railcore.training.stage_program import Operation
from railcore.training.workload import Workload

_SIZES = ("link", "seconds", "least_s", "sent_bytes", "ring_bytes", "steps", "ring_steps")  # of each operation


@dataclass(frozen=True, eq=False)
class JoinedWorkload(Workload):
    """Operations of several jobs in one graph; made by `joined_jobs`.

    job_of: the job of each operation; start_s: when each job starts [s]. Model, strategy and batch are the first job's;
    machine is the cluster's.
    """

    job_of: np.ndarray = field(kw_only=True)
    start_s: tuple[float, ...] = field(kw_only=True)


@checked
def joined_jobs(jobs: Sequence[Workload], start_s: Sequence[float] = (), domain_slices: bool = False) -> JoinedWorkload:
    """Several jobs on one cluster, each on GPUs of its own.

    Parameters
    ----------
    jobs
        Of `training_step`, of all their replicas, with as many iterations each.
    start_s
        When each job starts [s]; by default all at 0.
    domain_slices
        The jobs share HB domains (scale-up or NVLink domains): each has a slice of every domain, as large as the HB
        domain of its machine, and so rails of its own. Else each has whole domains; which ones is the same to a switch
        that joins any ports.

    Returns
    -------
    One workload, for any network.

    Raises
    ------
    ValueError
        For a job of one replica, other GPUs or NICs, other numbers of iterations, and other HB domains where the jobs
        do not share them.
    """
    starts = at_least("start_s", list(start_s) or np.zeros(len(jobs)))
    if len(starts) != len(jobs) or not jobs:
        raise ValueError(f"start_s has {len(starts)} times for {len(jobs)} jobs: give one for each job")
    sizes = [job.machine.hb_domain_size for job in jobs]
    if len({job.iterations for job in jobs}) > 1:
        raise ValueError(f"jobs have {[job.iterations for job in jobs]} iterations: give as many to each")
    if not domain_slices and len(set(sizes)) > 1:
        raise ValueError(f"jobs have HB domains of {sizes} GPUs: give one size, or domain_slices=True")
    if any(replace(job.machine, hb_domain_size=sizes[0]) != jobs[0].machine for job in jobs):
        raise ValueError("jobs have GPUs or NICs that differ: build all with one machine")
    if any(job.one_replica for job in jobs):
        raise ValueError("jobs has a workload of one replica: build all with one_replica=False")
    size = sum(sizes) if domain_slices else sizes[0]
    joined: dict[str, list] = {name: [] for name in ("programs", "program", "ranks", "after", "job_of", *_SIZES)}
    simulated: set[int] = set()
    free = 0  # GPU
    for number, (job, start) in enumerate(zip(jobs, starts.tolist(), strict=True)):
        own = np.arange(job.strategy.gpus)
        if domain_slices:
            gpus = own // sizes[number] * size + sum(sizes[:number]) + own % sizes[number]
        else:
            gpus, free = own + free, free + -(-len(own) // size) * size
        _append(joined, _delayed(job, start), gpus, number)
        simulated |= set(gpus.tolist())
    job_of = np.array(joined.pop("job_of"))
    named = {name: value for name, value in vars(jobs[0]).items() if name in Workload.__dataclass_fields__}
    machine = replace(jobs[0].machine, hb_domain_size=size)
    warnings = tuple(dict.fromkeys(text for job in jobs for text in job.warnings))
    fields: dict[str, Any] = {**named, **joined, "machine": machine, "warnings": warnings}
    return JoinedWorkload(
        **{**fields, "simulated": frozenset(simulated)}, job_of=job_of, start_s=tuple(starts.tolist())
    )


def _delayed(job: Workload, start_s: float) -> Workload:
    """A job that begins later: all of it waits for one operation more."""
    if not start_s:
        return job
    wait = Operation("compute", "start", "forward", "rank", 0, seconds=start_s)
    fields: dict[str, Any] = {name: [*getattr(job, name), 0] for name in _SIZES}
    fields |= {"seconds": [*job.seconds, start_s], "ranks": [*job.ranks, (min(job.simulated),)]}
    fields |= {"programs": [*job.programs, wait], "program": [*job.program, len(job.programs)]}
    fields["after"] = [*(before or (len(job.program),) for before in job.after), ()]
    return replace(job, **fields)


def _append(joined: dict[str, list], job: Workload, gpus: np.ndarray, number: int) -> None:
    """Put the operations of a job behind those of the jobs before."""
    programs, operations = len(joined["programs"]), len(joined["program"])
    joined["programs"] += job.programs
    joined["program"] += [each + programs for each in job.program]
    joined["ranks"] += [tuple(gpus[list(ranks)].tolist()) for ranks in job.ranks]
    joined["after"] += [tuple(op + operations for op in before) for before in job.after]
    for name in _SIZES:
        joined[name] += getattr(job, name)
    joined["job_of"] += [number] * len(job.program)


def job_iteration_times(timeline: StepTimeline) -> Floats:
    """Mean time of the iterations of each job that lie in the time in which all jobs run [s].

    The first iteration of a job does not count, since it sets up its circuits. timeline: of `joined_jobs`.
    Raises ValueError where a job has no such iteration.
    """
    workload = timeline.workload
    if not isinstance(workload, JoinedWorkload):
        raise ValueError("timeline is of one job: run joined_jobs([...]), or read its iteration_s")
    ends = np.zeros((len(workload.start_s), workload.iterations))
    np.maximum.at(ends, (workload.job_of, workload.iteration_of), timeline.end_s)
    begins = ends[:, :-1]
    counted = (begins >= max(workload.start_s)) & (ends[:, 1:] <= ends[:, -1].min() * (1 + 1e-12))
    if not counted.any(axis=1).all():
        raise ValueError(f"jobs have {workload.iterations} iterations: give more, so that whole ones lie side by side")
    return (np.diff(ends, axis=1) * counted).sum(axis=1) / counted.sum(axis=1)


@checked
@dataclass(frozen=True)
class SharedSwitches(PhotonicCircuits):
    """Photonic rails whose circuit switches several jobs, or several rails, share.

    rails_per_switch: rails of a circuit switch. one_at_a_time: a switch begins a change when the one before has ended.
    """

    rails_per_switch: int = 1
    one_at_a_time: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        whole("rails_per_switch", self.rails_per_switch)

    def switch(self, workload: Workload, lane: tuple) -> int:
        """The circuit switch of a port, or of a rail."""
        rail = lane[1] if lane[0] == "rail" else lane[1] % workload.machine.hb_domain_size
        return rail // self.rails_per_switch

    def needs(self, workload: Workload, op: int) -> list[Need]:
        """As on other photonic rails; where a rail changes as a whole, all rails of its switch do."""
        found = super().needs(workload, op)
        of_rail = [need.lane[0] == "rail" for need in found]
        switches = [self.switch(workload, need.lane) for need in found]
        return [
            Need(("rail", switch), *need[1:]) if rail else need
            for need, switch, rail in zip(found, switches, of_rail, strict=True)
        ]

    def policy(self, workload: Workload, seed: int) -> CircuitPolicy:
        """Circuits of a run."""
        usual = super().policy(workload, seed)
        return _OneAtATime(workload, usual.network, seed) if self.one_at_a_time else usual


class _OneAtATime(CircuitPolicy):
    """Circuits of switches that begin a change when the one before has ended."""

    network: SharedSwitches

    def __init__(self, workload: Workload, network: PhotonicCircuits, seed: int) -> None:
        super().__init__(workload, network, seed)
        self.free: dict[int, float] = {}  # when a switch is

    def _switch(self, need: Need) -> int:
        return need.lane[1] if need.lane[0] == "rail" else self.network.switch(self.workload, need.lane)

    def _join(self, circuits: list[Need], op: int, now: float) -> float:
        up = super()._join(circuits, op, now)
        self.free |= dict.fromkeys(map(self._switch, circuits), up)
        return up

    def _make_room(self, need: Need, now: float) -> float:
        return max(super()._make_room(need, now), self.free.get(self._switch(need), 0.0))


@checked
def slowdowns_of_jobs(
    jobs: Sequence[Workload],
    networks: Mapping[str, SharedSwitches],
    start_s: Sequence[float] = (0.0,),
    domain_slices: bool = False,
) -> pd.DataFrame:
    """What jobs cost each other on the same rails, over that each has them alone.

    Parameters
    ----------
    jobs, domain_slices
        As for `joined_jobs`.
    networks
        By name.
    start_s
        Starts of the last job, a run for each; the others start at 0 [s].

    Returns
    -------
    Columns network, start_s, job (from 0), alone_s, iteration_s, slowdown (1 where the others cost it nothing).
    """
    rows = []
    for name, network in networks.items():
        alone = [job_iteration_times(simulate(joined_jobs([job]), network))[0] for job in jobs]
        for start in at_least("start_s", list(start_s)).tolist():
            starts = [0.0] * (len(jobs) - 1) + [start]
            times = job_iteration_times(simulate(joined_jobs(jobs, starts, domain_slices), network))
            rows += [(name, start, job, alone[job], time, time / alone[job]) for job, time in enumerate(times.tolist())]
    return pd.DataFrame(rows, columns=["network", "start_s", "job", "alone_s", "iteration_s", "slowdown"])
