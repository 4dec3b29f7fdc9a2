"""Event-driven run of a workload on a network: when every compute and collective starts and ends.

An operation is ready when all that it waits for has ended, so a collective starts with its slowest rank. A compute or
an in-domain collective starts then. An operation over the rails asks the network for lanes. A lane is one direction of
a rank's NIC, or a port that a circuit switch joins to another. It serves operations in the order in which they ask. An
operation takes all its lanes at once, so that no two operations wait for each other.

A network says which lanes an operation needs, in which state, and how long its transfer takes:

    latency steps x L + max(bytes / B_HB, bytes through a NIC / (share x B_NIC))

Networks here: electrical rails, which join any pair at any time, and the static partition of a NIC's ports. Assumed: a
NIC serves one transfer at a time in each direction, at full rate.
"""

import heapq
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from railcore.catalog.arguments import NonNegativeInt, Range, checked
from railcore.catalog.checks import one_of, positive
from railcore.photonics.workload import LINKS, Workload

Ports = Annotated[int, Range(2)]  # of a NIC: a ring takes two
RAIL_OPERATIONS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "send_receive")
RAIL = LINKS.index("rail")
_AT_ONCE = 1e-12  # events at most this share of the time apart are one: sums in another order differ in the last bit
_TOLD_APART = 1e-3  # largest rounding of a run, over the time of a mean operation


class Need(NamedTuple):
    """A lane and the state in which an operation wants it, None to have it alone; a circuit stays when idle."""

    lane: tuple
    state: Any
    circuit: bool = False


@dataclass(slots=True)
class Lane:
    """Who holds a lane and who waits for it.

    slots: states at a time.
    held: [users, time from which it can be used] by state, longest idle first.
    runs: queue of (state, operations): neighbours that want the same state stand together.
    """

    slots: int = 1
    held: dict = field(default_factory=dict)
    runs: deque = field(default_factory=deque)

    def queue(self, op: int, state: Any) -> None:
        """An operation is the last to wait."""
        if not self.runs or self.runs[-1][0] != state:
            self.runs.append((state, {}))
        self.runs[-1][1][op] = None

    def admits(self, op: int, state: Any) -> bool:
        """Whether an operation may have the lane: it is first in the queue, and a slot has its state or is idle."""
        if op not in self.runs[0][1]:
            return False
        return state in self.held or len(self.held) < self.slots or self.idle_state() is not None

    def leave(self, op: int) -> bool:
        """An operation of the first run leaves the queue. Returns whether it was the last of the run."""
        self.runs[0][1].pop(op)
        if last := not self.runs[0][1]:
            self.runs.popleft()
        return last

    def idle_state(self) -> Any:
        """The state that nobody has used for longest, None where all are in use."""
        return next((state for state, (users, _) in self.held.items() if not users), None)


class LanePolicy:
    """Lanes of one run, first come first served; what a network's `policy` gives."""

    def __init__(self, workload: Workload, network: "RailNetwork") -> None:
        self.workload, self.network = workload, network
        self.lanes: dict[tuple, Lane] = {}
        self.needs: dict[int, dict[tuple, Need]] = {}
        self.alike: dict[tuple, list[Need]] = {}  # needs of operations that differ in their turn alone
        self.waiting: set[int] = set()
        self.candidates: set[int] = set()
        self.asked: dict[int, int] = {}  # the turn in which an operation asked

    def needs_of(self, op: int) -> dict[tuple, Need]:
        """Needs of an operation by lane."""
        if op not in self.needs:
            what = self.workload.operation(op)
            like = (self.workload.ranks[op], what.kind, what.group, what.phase, what.message_bytes)
            if like not in self.alike:
                self.alike[like] = self.network.needs(self.workload, op)
            self.needs[op] = {
                need.lane: Need(need.lane, op) if need.state is None else need for need in self.alike[like]
            }
        return self.needs[op]

    def lane(self, name: tuple) -> Lane:
        """A lane by its name."""
        if name not in self.lanes:
            self.lanes[name] = Lane(self.network.slots_of(name))
        return self.lanes[name]

    def ask(self, op: int, now: float) -> None:
        """An operation is ready for its lanes."""
        self.asked[op] = len(self.asked)
        self.queue(op)

    def queue(self, op: int) -> None:
        """Put an operation at the end of the queues of its lanes."""
        for name, need in self.needs_of(op).items():
            self.lane(name).queue(op, need.state)
        self.waiting.add(op)
        self.candidates.add(op)

    def release(self, op: int, now: float) -> None:
        """An operation has ended."""
        for name, need in self.needs_of(op).items():
            lane = self.lanes[name]
            users, since = lane.held.pop(need.state)
            if need.circuit:
                lane.held[need.state] = [users - 1, since]
            self.retry(name)
        self.needs.pop(op)

    def retry(self, name: tuple, new: bool = False) -> None:
        """The first in a lane's queue may get it now. Those that want its present state had their turn, unless new."""
        lane = self.lanes[name]
        if lane.runs and (new or lane.runs[0][0] not in lane.held):
            self.candidates.update(lane.runs[0][1])

    def grant(self, now: float) -> list[tuple[int, float]]:
        """Operations that get their lanes now, and when they can start."""
        granted = []
        while self.candidates:
            turn = sorted(self.candidates, key=self.turn)
            self.candidates.clear()
            for op in turn:
                if op in self.waiting and self.admits(op):
                    granted += self.serve(op, now)
        return granted

    def turn(self, op: int) -> int:
        """Place of an operation among those that wait."""
        return self.asked[op]

    def serve(self, op: int, now: float) -> list[tuple[int, float]]:
        """An operation takes its lanes; itself and its start, where it starts."""
        return [(op, self.take(op, now))]

    def admits(self, op: int) -> bool:
        """Whether an operation may have all its lanes."""
        lanes = self.lanes
        for name, need in self.needs_of(op).items():  # noqa: SIM110 - hot: `all` takes a fifth longer
            if not lanes[name].admits(op, need.state):
                return False
        return True

    def take(self, op: int, now: float) -> float:
        """Give an operation its lanes; the time from which it can use them."""
        needs = self.needs_of(op)
        self.waiting.remove(op)
        for name in needs:
            self.retry(name, new=self.lanes[name].leave(op))
        usable = self.set_up(op, [need for need in needs.values() if need.state not in self.lanes[need.lane].held], now)
        for name, need in needs.items():
            held = self.lanes[name].held[need.state]
            held[0] += 1
            usable = max(usable, held[1])
        return usable

    def set_up(self, op: int, missing: list[Need], now: float) -> float:
        """Bring lanes into the state needed; when the last of them is."""
        for need in missing:
            self.lanes[need.lane].held[need.state] = [0, now]
        return now

    def logs(self) -> tuple[list[tuple], list[tuple]]:
        """Circuits that were up, and changes of them; see `StepTimeline`."""
        return [], []


@checked
@dataclass(frozen=True)
class RailNetwork:
    """What all networks of rails have: how long a transfer takes.

    algorithm: of collectives. rates_Bps: measured bandwidth of an operation ("all_gather", ...) per NIC, in place of
    the machine's.
    """

    algorithm: Literal["ring", "fewest steps"] = field(default="ring", kw_only=True)
    rates_Bps: Mapping[str, float] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        for operation, rate in self.rates_Bps.items():
            one_of("operation in rates_Bps", operation, RAIL_OPERATIONS)
            positive(f"rates_Bps[{operation!r}]", rate, "bytes/s")

    def nic_share(self, workload: Workload) -> float:
        """Share of its NIC's bandwidth that a transfer has."""
        return 1.0

    def transfer_s(self, workload: Workload, op: int) -> float:
        """Time of a transfer over the rails, once it has its lanes [s]."""
        machine, ring = workload.machine, self.algorithm == "ring"
        rate = self.rates_Bps.get(workload.operation(op).operation, machine.collective_nic_Bps)
        size, steps = (workload.ring_bytes, workload.ring_steps) if ring else (workload.sent_bytes, workload.steps)
        link_s = max(workload.least_s[op], size[op] / (rate * self.nic_share(workload)))
        return steps[op] * machine.links.nic_latency_s + link_s

    def needs(self, workload: Workload, op: int) -> list[Need]:
        """Lanes that a transfer needs: its NICs, out and in.

        Operations of one kind, group, phase and size on the same ranks need the same lanes.
        """
        pairs = workload.transfers(op)
        lanes = [lane for source, target in pairs for lane in (("send", source), ("receive", target))]
        return [Need(lane, None) for lane in lanes if lane[1] in workload.simulated]

    def slots_of(self, lane: tuple) -> int:
        """States that a lane has at a time."""
        return 1

    def policy(self, workload: Workload) -> LanePolicy:
        """Lanes of a run. Raises ValueError where the workload does not fit the network."""
        return LanePolicy(workload, self)


@dataclass(frozen=True)
class ElectricalRails(RailNetwork):
    """Packet switches: any pair of ranks at any time, at the NIC's full bandwidth."""


@checked
@dataclass(frozen=True)
class StaticPartition(RailNetwork):
    """Circuits that stay for the whole job: each kind of traffic on the rails has a ring of its own on every NIC.

    ports: of a NIC, each with 1 / ports of its bandwidth. A ring takes an equal part of them, two or more.
    """

    ports: Ports = field(default=4, kw_only=True)

    def nic_share(self, workload: Workload) -> float:
        """Ports of one ring, over those of the NIC."""
        return 2 * (self.ports // (2 * len(workload.rail_rings))) / self.ports

    def needs(self, workload: Workload, op: int) -> list[Need]:
        """Lanes of the NIC that the ring has to itself."""
        ring = workload.ring(op)
        return [Need((*need.lane, ring), None) for need in super().needs(workload, op)]

    def policy(self, workload: Workload) -> LanePolicy:
        """Lanes of a run. Raises ValueError where the rings need more ports than the NIC has."""
        rings = workload.rail_rings
        if 2 * len(rings) > self.ports:
            raise ValueError(
                f"ports is {self.ports}, but rings of {', '.join(rings)} traffic need {2 * len(rings)} ports of each "
                "NIC: give more ports, larger HB domains, or circuits that change during the job"
            )
        return super().policy(workload)


@dataclass(frozen=True, eq=False)
class StepTimeline:
    """When every operation of a workload ran; made by `simulate`.

    ready_s, start_s, end_s [operation]: its slowest rank has joined, it starts, it ends [s].
    circuit_log: (rank, port, circuit, up, down) [s]. reconfiguration_log: (operation, start, end) [s]. Both are empty
    for networks without circuits.
    """

    workload: Workload
    network: RailNetwork
    ready_s: np.ndarray
    start_s: np.ndarray
    end_s: np.ndarray
    circuit_log: list[tuple] = field(default_factory=list)
    reconfiguration_log: list[tuple] = field(default_factory=list)

    @property
    def total_s(self) -> float:
        """End of the last operation [s]."""
        return float(self.end_s.max())

    @property
    def rounding_s(self) -> float:
        """Rounding in a difference of the run's times [s]."""
        return _AT_ONCE * self.total_s

    @property
    def iteration_s(self) -> float:
        """Time of the last iteration: from the end of the one before, or the start, to its end [s]."""
        iteration = self.workload.iteration_of
        before = self.end_s[iteration < self.workload.iterations - 1]
        return self.total_s - float(before.max(initial=0.0))

    @cached_property
    def table(self) -> pd.DataFrame:
        """`Workload.table` with ready_s, start_s, end_s."""
        return self.workload.table.assign(ready_s=self.ready_s, start_s=self.start_s, end_s=self.end_s)

    @cached_property
    def circuits(self) -> pd.DataFrame:
        """Circuits of every port: rank, port, circuit, up_s (usable from), down_s (infinite where it stays)."""
        columns = ["rank", "port", "circuit", "up_s", "down_s"]
        return pd.DataFrame(self.circuit_log, columns=columns).sort_values(["up_s", "rank", "port"], ignore_index=True)

    @cached_property
    def reconfigurations(self) -> pd.DataFrame:
        """Changes of circuits by start: op, group, asked_s (when its slowest rank had joined), start_s, end_s."""
        table = pd.DataFrame(self.reconfiguration_log, columns=["op", "start_s", "end_s"])
        op = table["op"].to_numpy(int)
        table.insert(1, "group", self.workload.table["group"].to_numpy()[op])
        table.insert(2, "asked_s", self.ready_s[op])
        return table.sort_values(["start_s", "op"], ignore_index=True)


@checked
def simulate(
    workload: Workload,
    network: RailNetwork | None = None,
    jitter: Annotated[float, Range(0, 3**-0.5)] = 0.0,
    seed: NonNegativeInt = 0,
    progress: Callable[[str], object] | None = None,
) -> StepTimeline:
    """Run a workload on a network.

    Parameters
    ----------
    workload
        Of `training_step`.
    network
        By default `ElectricalRails`.
    jitter
        Standard deviation of a compute's time over its mean. The time is uniform, so that more than 1 / sqrt(3) would
        be below 0.
    seed
        Of the computes.
    progress
        Called with a text at each tenth of the operations, such as `print`.

    Returns
    -------
    When every operation ran.

    Raises
    ------
    ValueError
        For a workload of one replica with jitter, a workload that does not fit the network, and circuits that take so
        long that floats do not tell the operations between them apart.
    """
    network = network or ElectricalRails()
    if jitter and workload.one_replica:
        raise ValueError(f"jitter is {jitter:g} with a workload of one replica: build it with one_replica=False")
    rng = np.random.default_rng([seed, 0])
    spread = np.sqrt(3) * jitter * (2 * rng.random(len(workload.program)) - 1)
    seconds = (np.array(workload.seconds) * (1 + spread)).tolist()
    policy, link = network.policy(workload), workload.link
    waiting, followers = [len(before) for before in workload.after], workload.followers
    ready_s, start_s, end_s = ([np.nan] * len(waiting) for _ in range(3))
    ends: list[tuple[float, int]] = []
    tell, ended, tenth = progress or (lambda line: None), 0, max(len(waiting) // 10, 1)
    now, free = 0.0, [op for op, count in enumerate(waiting) if not count]
    while True:
        for op in sorted(free):
            ready_s[op] = now
            if link[op] == RAIL:
                policy.ask(op, now)
            else:
                start_s[op], end_s[op] = now, now + seconds[op]
                heapq.heappush(ends, (end_s[op], op))
        for op, start in policy.grant(now):
            start_s[op], end_s[op] = start, start + network.transfer_s(workload, op)
            heapq.heappush(ends, (end_s[op], op))
        if not ends:
            break
        free, first = [], ends[0][0]
        while ends and ends[0][0] <= first * (1 + _AT_ONCE):
            now, op = heapq.heappop(ends)
            ended += 1
            if ended % tenth == 0:
                tell(f"{ended:,} of {len(waiting):,} operations")
            if link[op] == RAIL:
                policy.release(op, now)
            for follower in followers[op]:
                waiting[follower] -= 1
                if not waiting[follower]:
                    free.append(follower)
    if stuck := [op for op, end in enumerate(end_s) if np.isnan(end)]:
        raise ValueError(
            f"order lets {len(stuck)} operations wait for ever, such as {stuck[:4]}: give an order in which each "
            "stands after those that it waits for, as learned_order does"
        )
    run = StepTimeline(workload, network, np.array(ready_s), np.array(start_s), np.array(end_s), *policy.logs())
    mean_s = float((run.end_s - run.start_s).mean())
    if run.rounding_s > _TOLD_APART * mean_s:
        raise ValueError(
            f"network waits so long that the run takes {run.total_s:.3g} s, in which floats do not tell its "
            "operations apart: give a shorter time of a change (reconfiguration_s)"
        )
    return run
