"""Photonic rails: circuits between the ports of a rail's NICs, changed during the job.

A NIC has ports. A ring takes two ports of a rank: out to the next rank, in from the one before. A circuit joins an out
port and an in port, and carries both directions. A hop of the pipeline uses one circuit. An operation starts when all
its circuits are up. The switch takes `reconfiguration_s` to set up a missing one, on ports whose circuits are idle: the
circuit that is idle for longest goes first.

- First come first served: an operation asks when its slowest rank has joined.
- With an order, a port serves operations in that order. Then a longer reconfiguration never shortens the iteration.
- With provisioning, circuits change as soon as the traffic before has left the ports. The order is learnt from a run
  that is first come first served.

Source: photonic2025, sections 3 and 4.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import pandas as pd

from railcore.catalog import units
from railcore.catalog.arguments import Bytes, Listed, PositiveBandwidth, Seconds, SecondsArray, checked
from railcore.catalog.checks import one_of
from railcore.photonics.control_plane import catalog_control_plane
from railcore.photonics.simulation import (
    RAIL,
    ElectricalRails,
    LanePolicy,
    Need,
    Ports,
    RailNetwork,
    StepTimeline,
    simulate,
)
from railcore.photonics.stage_program import DEFAULT_STEP, StepOptions
from railcore.photonics.workload import WORKLOAD_KINDS, Workload, differing_replicas, training_step
from railcore.training.machine import Machine, as_machine
from railcore.training.parallelism import Strategy, as_strategy
from railcore.training.runtime import Runtime
from railcore.training.transformer import Transformer


@checked
@dataclass(frozen=True)
class PhotonicCircuits(RailNetwork):
    """How photonic rails serve a workload.

    reconfiguration_s: time to set up circuits, control plane included [s].
    ports: of a NIC, each with a circuit of its own.
    provisioning: circuits change before they are asked for.
    order: operations in the order in which ports serve them. None: first come first served, or with provisioning the
        order of such a run.
    bandwidth: of a circuit: "equal" is all of the NIC's, "per port" that of one port.
    frontend_bytes: collectives below this size take the host network [bytes]; by default none. The catalog's control
        plane has a size (frontend_message).
    frontend_s: time of a step there [s]. None: the time of a message between a host and the controller of the catalog's
        control plane, which crosses the same network.
    frontend_kinds: kinds of traffic of any size that take the host network, such as ("expert",).
    frontend_Bps: a GPU's part of the host network, for these kinds [bytes/s].
    """

    reconfiguration_s: Seconds = 0.0
    ports: Ports = 2
    provisioning: bool = False
    order: tuple[int, ...] | None = None
    bandwidth: Literal["equal", "per port"] = "equal"
    frontend_bytes: Bytes = 0.0
    frontend_s: Seconds | None = None
    frontend_kinds: tuple[str, ...] = ()
    frontend_Bps: PositiveBandwidth | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for kind in self.frontend_kinds:
            one_of("frontend_kinds", kind, WORKLOAD_KINDS)
        if self.frontend_kinds and self.frontend_Bps is None:
            raise ValueError(f"frontend_Bps is None with frontend_kinds {self.frontend_kinds}: give the bandwidth")

    def slots_of(self, lane: tuple[Any, ...]) -> int:
        """Circuits of a side of a NIC at a time, one of other lanes."""
        return self.ports // 2 if lane[0] in ("out", "in") else 1

    def nic_share(self, workload: Workload) -> float:
        """All of it, or one port's part."""
        return 1.0 if self.bandwidth == "equal" else 1 / self.ports

    def ranks_change_together(self, workload: Workload) -> bool:
        """Whether all ranks of a stage change circuits at the same times.

        They do where a side of a NIC has one circuit at a time, or all its rings at once. Otherwise rings may share a
        circuit, so that ranks have different circuits to tear down first.
        """
        circuits = self.ports // 2
        return circuits == 1 or circuits >= len(workload.rail_rings)

    @cached_property
    def frontend_step_s(self) -> float:
        """Time of a step on the host network [s]."""
        return catalog_control_plane().message_s if self.frontend_s is None else self.frontend_s

    def on_frontend(self, workload: Workload, op: int) -> bool:
        """Whether an operation takes the host network: by its size or its kind."""
        what = workload.operation(op)
        return what.message_bytes < self.frontend_bytes or what.kind in self.frontend_kinds

    def transfer_s(self, workload: Workload, op: int) -> float:
        """Time of a transfer, once it has its circuits [s]."""
        if not self.on_frontend(workload, op):
            return super().transfer_s(workload, op)
        time = workload.steps[op] * self.frontend_step_s
        if self.frontend_Bps is not None and workload.operation(op).kind in self.frontend_kinds:
            time += workload.sent_bytes[op] / self.frontend_Bps
        return time

    def needs(self, workload: Workload, op: int) -> list[Need]:
        """NIC lanes, and ports with their circuits, named by the ranks that they join."""
        if self.on_frontend(workload, op):
            return []
        lanes, what, here = [], workload.operation(op), workload.simulated
        for source, target in workload.transfers(op, forwarded=True):
            if here.isdisjoint((source, target)):
                continue
            circuit = (target, source) if (what.group, what.phase) == ("hop", "backward") else (source, target)
            port = () if self.bandwidth == "equal" else circuit  # with a port's bandwidth each circuit has a lane
            ends = (("send", source), ("receive", target))
            lanes += [Need((side, rank, *port), None) for side, rank in ends if rank in here]
            ends = (("out", circuit[0]), ("in", circuit[1]))
            lanes += [Need(lane, circuit, True) for lane in ends if lane[1] in here]
        return lanes

    def policy(self, workload: Workload) -> "CircuitPolicy":
        """Circuits of a run. Raises ValueError where one replica cannot stand for all."""
        network = self
        if workload.one_replica and not self.ranks_change_together(workload):
            raise ValueError(
                f"ports is {self.ports} with a workload of one replica, which cannot stand for all then "
                f"({', '.join(workload.rail_rings)} rings on the rails): build it with one_replica=False"
            )
        if self.provisioning and self.order is None:
            network = replace(self, order=learned_order(simulate(workload, replace(self, provisioning=False))))
        return CircuitPolicy(workload, network)


@checked
def photonic_overhead(
    model: Transformer | str,
    machine: Machine | str,
    strategy: Strategy | Mapping[str, object],
    reconfiguration_s: SecondsArray,
    global_batch: Listed,
    provisioning: bool | Sequence[bool] = (False, True),
    options: StepOptions = DEFAULT_STEP,
    runtime: Runtime | str | None = None,
    progress: Callable[[str], object] | None = None,
    **circuits: Any,
) -> pd.DataFrame:
    """What reconfiguration adds to a training iteration, over electrical rails of equal bandwidth.

    The second of two iterations is timed, in which every circuit is set up from what the first one left. Where all
    replicas lie alike, one stands for all; a time of 0 is run with all ranks.

    Parameters
    ----------
    model
        Trained model: a `Transformer`, or its name in the catalog.
    machine
        GPU with its links: a `Machine`, or the name of a platform in the catalog.
    strategy
        How the model is split over GPUs: a `Strategy`, or a row of `search`'s tables.
    global_batch
        Sequences of an iteration.
    runtime
        Training software: a `Runtime`, or its name in the catalog; None for the newest for the GPU.
    reconfiguration_s
        Times of the switch with its control plane [s].
    options
        How the software runs a step. By default sharded weights are gathered in every pass, and gradients exchanged
        with every micro-batch; `fsdp_options()` does both once an iteration, which changes circuits far less often.
    provisioning
        Whether circuits change before they are asked for; several values for a row each.
    progress
        Told each run before it starts, such as `print`.
    circuits
        Other fields of `PhotonicCircuits`.

    Returns
    -------
    Columns reconfiguration_s, provisioning, iteration_s, electrical_s, overhead (iteration_s / electrical_s - 1; with
    bandwidth="per port" it has what less bandwidth costs too), reconfigurations (operations of the second
    iteration that changed circuits, of the first pipeline). attrs["warnings"]: what is odd about the step.

    Raises
    ------
    ValueError
        As `training_step`, `PhotonicCircuits` and `simulate`.

    Examples
    --------
    >>> import railcore as rc
    >>> table = rc.photonic_overhead(
    ...     "Llama-3 8B",
    ...     "DGX H100",
    ...     rc.Strategy(tensor=8, pipeline=2, data=2),
    ...     ["0 ms", "10 ms"],
    ...     global_batch=8,
    ... )
    >>> table = table[["reconfiguration_s", "provisioning", "reconfigurations"]]
    >>> print(table.to_string(index=False))
     reconfiguration_s  provisioning  reconfigurations
                  0.00         False                 5
                  0.01         False                 5
                  0.00          True                 5
                  0.01          True                 5
    """
    strategy = as_strategy(strategy)
    delays = np.asarray(reconfiguration_s, float).ravel().tolist()
    ways = (provisioning,) if isinstance(provisioning, bool) else tuple(provisioning)
    if not ways:
        raise ValueError("provisioning is empty: give True, False or both")
    networks = [PhotonicCircuits(delay, provisioning=early, **circuits) for early in ways for delay in delays]
    step = partial(training_step, model, machine, strategy, global_batch, options, runtime, iterations=2)
    whole_job: list[Workload] = []
    tell = progress or (lambda line: None)
    uneven = differing_replicas(as_machine(machine), strategy)
    one_replica, warnings = not uneven, []
    if uneven:
        warnings.append(f"All {strategy.gpus:,} GPUs are simulated, which takes long for many: {uneven}.")
        tell(warnings[0])
    small = step(one_replica=one_replica)
    if one_replica and not all(network.ranks_change_together(small) for network in networks):
        tell(f"All {strategy.gpus:,} GPUs are simulated: with these ports the ranks of a stage change circuits apart.")
        one_replica, small = False, step()
    first = set(strategy.groups("pipeline")[0].tolist())

    def workload(network: PhotonicCircuits) -> Workload:
        """One replica, or all of them where a change takes no time: then requests of all stages meet."""
        if not one_replica or network.reconfiguration_s:
            return small
        if not whole_job:
            tell(f"All {strategy.gpus:,} GPUs are simulated, as circuits change in no time.")
            whole_job.append(step())
        return whole_job[0]

    electrical_s = simulate(small, electrical_twin(networks[0])).iteration_s
    rows = []
    for number, network in enumerate(networks, start=1):
        how = "provisioned" if network.provisioning else "on demand"
        tell(f"{number} of {len(networks)}: {units.show(network.reconfiguration_s, 's')} {how}")
        run = simulate(workload(network), network)
        changed = [op for op, *_ in run.reconfiguration_log if not first.isdisjoint(run.workload.ranks[op])]
        changes = int((run.workload.iteration_of[changed] == 1).sum())
        added_s = run.iteration_s - electrical_s
        overhead = added_s / electrical_s if abs(added_s) > run.rounding_s else 0.0
        rows.append((network.reconfiguration_s, network.provisioning, run.iteration_s, electrical_s, overhead, changes))
    columns = ["reconfiguration_s", "provisioning", "iteration_s", "electrical_s", "overhead", "reconfigurations"]
    table = pd.DataFrame(rows, columns=columns)
    ports = networks[0].ports
    if ports % 2:
        warnings.append(f"ports is {ports}: a ring takes two, so that one is left idle.")
    if not table["reconfigurations"].any():
        rings = ", ".join(small.rail_rings) or "no"
        warnings.append(f"Circuits never change: ports or the host network serve all rail traffic ({rings} rings).")
    table.attrs["warnings"] = (*warnings, *small.warnings)
    return table


def electrical_twin(network: PhotonicCircuits) -> ElectricalRails:
    """Electrical rails with the algorithm and rates of photonic ones."""
    return ElectricalRails(algorithm=network.algorithm, rates_Bps=network.rates_Bps)


def learned_order(timeline: StepTimeline) -> tuple[int, ...]:
    """Operations over the rails in the order in which they started."""
    ops = np.flatnonzero(np.array(timeline.workload.link) == RAIL)
    return tuple(ops[np.lexsort((ops, timeline.start_s[ops]))].tolist())


class CircuitPolicy(LanePolicy):
    """Circuits of one run: which are up on which ports, who waits for them, and a log of all changes."""

    network: PhotonicCircuits

    def __init__(self, workload: Workload, network: PhotonicCircuits) -> None:
        super().__init__(workload, network)
        self.circuit_log: list[tuple[Any, ...]] = []
        self.reconfiguration_log: list[tuple[Any, ...]] = []
        self.slot: dict[tuple[Any, ...], int] = {}  # by lane and state
        self.ready: set[int] = set()
        self.reserved: dict[int, float] = {}  # operations with circuits before they ask, and when these are up
        self.joined: list[int] = []
        order = network.order or ()
        self.place = {op: place for place, op in enumerate(order)}
        if network.order is not None:
            self._check_order(order)
        for op in order:
            self.queue(op)

    def _check_order(self, order: tuple[int, ...]) -> None:
        on_rails = {op for op, link in enumerate(self.workload.link) if link == RAIL}
        if set(order) != on_rails or len(order) != len(on_rails):
            raise ValueError(
                f"order has {len(order)} operations, the workload {len(on_rails)} over the rails: give each of them "
                "once, as learned_order does"
            )

    def ask(self, op: int, now: float) -> None:
        """An operation is ready."""
        self.ready.add(op)
        if self.network.order is None:
            super().ask(op, now)
        elif op in self.reserved:
            self.joined.append(op)
        else:
            self.candidates.add(op)

    def turn(self, op: int) -> int:
        """Place in the order, or among those that asked."""
        return self.place[op] if self.place else self.asked[op]

    def grant(self, now: float) -> list[tuple[int, float]]:
        """Operations that start, those whose circuits were provisioned first."""
        started = [(op, max(now, self.reserved.pop(op))) for op in self.joined]
        self.joined.clear()
        return started + super().grant(now)

    def serve(self, op: int, now: float) -> list[tuple[int, float]]:
        """An operation takes its circuits. Before it asks they are reserved for it."""
        if op in self.ready:
            return super().serve(op, now)
        self.reserved[op] = self.take(op, now)
        return []

    def admits(self, op: int) -> bool:
        """Whether an operation may have all its lanes; before it asks only with provisioning."""
        return (op in self.ready or self.network.provisioning) and super().admits(op)

    def set_up(self, op: int, missing: list[Need], now: float) -> float:
        """Tear down what is in the way, set up what is missing."""
        circuits = [need for need in missing if need.circuit]
        super().set_up(op, [need for need in missing if not need.circuit], now)
        return self._join(circuits, op, now) if circuits else now

    def _join(self, circuits: list[Need], op: int, now: float) -> float:
        """Set up an operation's circuits; when they are up."""
        begin = max([now, *(self._make_room(need, now) for need in circuits)])
        up = begin + self.network.reconfiguration_s
        for need in circuits:
            lane = self.lanes[need.lane]
            used = {self.slot[need.lane, state] for state in lane.held}
            self.slot[need.lane, need.state] = min(set(range(lane.slots)) - used)
            lane.held[need.state] = [0, up]
        self.reconfiguration_log.append((op, begin, up))
        return up

    def _make_room(self, need: Need, now: float) -> float:
        """Make room on a lane; when the change there can begin."""
        lane = self.lanes[need.lane]
        if len(lane.held) < lane.slots:
            return now
        state = lane.idle_state()
        begin = max(now, lane.held[state][1])
        self._tear_down(state, begin)
        return begin

    def _tear_down(self, state: Any, now: float) -> None:
        """A circuit goes at both its ends."""
        for end in (("out", state[0]), ("in", state[1])):
            if end in self.lanes and state in self.lanes[end].held:
                up = self.lanes[end].held.pop(state)[1]
                self._log(end, state, up, now)

    def _log(self, name: tuple[Any, ...], state: Any, up: float, down: float) -> None:
        slot = self.slot.pop((name, state))
        self.circuit_log.append((name[1], f"{name[0]} {slot}", f"{state[0]}-{state[1]}", up, down))

    def logs(self) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """Circuits with those that stay, and all changes."""
        for name, lane in self.lanes.items():
            for state, (_, up) in lane.held.items():
                if (name, state) in self.slot:
                    self._log(name, state, up, np.inf)
        return self.circuit_log, self.reconfiguration_log
