"""Where traffic goes on photonic rails: over other GPUs' NICs, in another order on each rail, around rings.

- Forwarding (PXN): a circuit joins NICs of one rail. What is meant for another rail passes the HB domain (scale-up or
  NVLink domain) to the GPU on that rail, and leaves from its NIC, beside what that GPU sends itself.
- Diverging rails: ranks of one HB domain communicate at slightly different times, so that two operations may be served
  in one order on a rail and in the other order on another.
- All-to-all: on rings every rank passes on what is meant for others. With ports for several rings each may skip ranks,
  which shortens the way; on electrical rails every pair has its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts.arguments import Quantity, checked
from railcore.facts.checks import Floats, at_least, one_of, positive, whole
from railcore.systems.photonics import PhotonicCircuits, electrical_twin
from railcore.training.collectives import steps_and_bytes
from railcore.training.simulation import RAIL, StepTimeline, simulate
from railcore.training.workload import WORKLOAD_KINDS, Workload

_CLOSE = 1e-12  # share of the time: closer starts are at once


def nic_traffic(workload: Workload) -> pd.DataFrame:
    """What each NIC sends over its rail in all iterations, with rings, and for which rank.

    Columns nic (GPU whose NIC it is), rank (whose data), kind, forwarded (the data are another rank's, which passed
    the HB domain), operations, sent_bytes.
    """
    rows = []
    for op, link in enumerate(workload.link):
        if link == RAIL:
            kind, size = workload.operation(op).kind, workload.ring_bytes[op]
            ways = zip(workload.transfers(op), workload.transfers(op, forwarded=True), strict=True)
            rows += [(nic, rank, kind, nic != rank, size) for (rank, _), (nic, _) in ways]
    table = pd.DataFrame(rows, columns=["nic", "rank", "kind", "forwarded", "sent_bytes"])
    groups = table.groupby(["nic", "rank", "kind", "forwarded"])["sent_bytes"]
    return groups.agg(operations="size", sent_bytes="sum").reset_index()


def forwarding_nics(workload: Workload) -> pd.DataFrame:
    """NICs that forward for other ranks, and what shares their links; empty where no traffic changes its rail.

    Columns nic, forwards_for (ranks, as a text), forwarded (kinds of traffic), shares_with (kinds of its own traffic),
    own_bytes, forwarded_bytes, load (bytes in all over those that a NIC sends on average; above 1 it is busier than
    most).
    """
    traffic = nic_traffic(workload)
    mean = traffic["sent_bytes"].sum() / len(workload.simulated)
    rows = []
    for nic, part in traffic.groupby("nic"):
        foreign, own = part[part["forwarded"]], part[~part["forwarded"]]
        if len(foreign):
            sums = own["sent_bytes"].sum(), foreign["sent_bytes"].sum()
            ranks = ", ".join(str(rank) for rank in sorted(set(foreign["rank"])))
            named = (nic, ranks, _kinds(foreign), _kinds(own))
            rows.append((*named, *sums, sum(sums) / mean))
    columns = "nic forwards_for forwarded shares_with own_bytes forwarded_bytes load".split()
    return pd.DataFrame(rows, columns=columns)


def _kinds(traffic: pd.DataFrame) -> str:
    return ", ".join(kind for kind in WORKLOAD_KINDS if kind in set(traffic["kind"]))


def diverging_rails(timeline: StepTimeline) -> pd.DataFrame:
    """Pairs of operations that two rails of the same HB domains served in different order.

    An operation is on several rails when its ranks in the same HB domains do the same with other tensor slices. Only
    pairs that want the same lane for different circuits, or one after the other, count; others do not meet.

    Columns first, second (operations, on the lowest of their rails), first_kind, second_kind, rails (that served the
    first one first), other_rails. Raises ValueError for a workload of one replica, which has one rail alone.
    """
    workload = timeline.workload
    if workload.one_replica:
        raise ValueError("timeline is of one replica, with one rail: build the workload with one_replica=False")
    size, starts = workload.machine.hb_domain_size, timeline.start_s
    lanes: dict[tuple, dict[tuple, tuple]] = {}  # what the operations on a domain's lane want of it
    bundles: dict[tuple, dict[int, int]] = {}  # operations by rail
    for op, link in enumerate(workload.link):
        needs = timeline.network.needs(workload, op) if link == RAIL else []
        name = workload.bundle(op)
        for need in needs:
            if need.lane[0] != "rail":
                bundles.setdefault(name, {})[need.lane[1] % size] = op
                lane = (need.lane[0], need.lane[1] // size, *need.lane[2:])
                lanes.setdefault(lane, {})[name] = tuple(np.floor_divide(need.state, size)) if need.circuit else name
    found: dict[tuple, tuple] = {}
    for wanted in lanes.values():
        names = list(wanted)
        times = np.full((size, len(names)), np.nan)
        for place, name in enumerate(names):
            for rail, op in bundles[name].items():
                times[rail, place] = starts[op]
        order = _order(times, timeline.total_s)
        for a, b in np.argwhere((order > 0).any(axis=0) & (order < 0).any(axis=0)):
            earlier, later = (tuple(np.flatnonzero(order[:, a, b] == sign).tolist()) for sign in (1, -1))
            if earlier < later and wanted[names[a]] != wanted[names[b]]:
                found.setdefault((names[a], names[b]), (earlier, later))
    rows = []
    for (a, b), rails in found.items():
        pair = [bundles[name][min(bundles[name])] for name in (a, b)]
        rows.append((*pair, *(workload.operation(op).kind for op in pair), *rails))
    table = pd.DataFrame(rows, columns=["first", "second", "first_kind", "second_kind", "rails", "other_rails"])
    return table.sort_values(["first", "second"], ignore_index=True)


def _order(times: Floats, total_s: float) -> np.ndarray:
    """1 where a rail starts a before b, -1 after, 0 at once or where one is not on it; [rails, a, b]."""
    apart = times[:, None, :] - times[:, :, None]
    apart = np.where(np.abs(apart) > _CLOSE * total_s, apart, 0.0)
    return np.sign(np.nan_to_num(apart)).astype(int)


def divergence_by_seed(
    workload: Workload, network: PhotonicCircuits, jitter: float, seeds: Iterable[int]
) -> pd.DataFrame:
    """How often rails diverge when each of them serves its own requests, and what it costs; a row for each run.

    Parameters
    ----------
    workload
        Of all replicas.
    network
        Circuits; runs are with and without coalesced rails.
    jitter, seeds
        Of the computes, as for `simulate`.

    Returns
    -------
    Columns seed, coalesced, pairs (that diverge), iteration_s, overhead (over electrical rails of the same seed).
    """
    rows = []
    for seed in seeds:
        electrical_s = simulate(workload, electrical_twin(network), jitter, seed).iteration_s
        for coalesced in (False, True):
            run = simulate(workload, replace(network, coalesced=coalesced), jitter, seed)
            time = run.iteration_s
            rows.append((seed, coalesced, len(diverging_rails(run)), time, time / electrical_s - 1))
    return pd.DataFrame(rows, columns=["seed", "coalesced", "pairs", "iteration_s", "overhead"])


def forwarding_load(ranks: int, strides: Sequence[int]) -> Floats:
    """Messages that a rank sends over each of its ports in an all-to-all on rings of these strides.

    A ring of stride s joins rank i to i + s and i - s modulo n, by a port each. A message takes a shortest way; where
    there are several, an equal part each. All ranks are alike. With stride 1 alone the sum over ports is n^2 / 4.

    ranks: n; strides: from 1 to n - 1, together reaching every rank. Returns a load for each of the 2 x strides ports,
    in messages of one pair; their sum is at least n - 1.
    Raises ValueError for strides that do not reach every rank.
    """
    n, steps = int(whole("ranks", ranks)), [int(s) for s in whole("strides", list(strides), 1)]
    ports = np.array([sign * s for s in steps for sign in (1, -1)])
    distance = np.full(n, -1)
    distance[0], order = 0, [0]
    for node in order:
        for other in (node + ports) % n:
            if distance[other] < 0:
                distance[other] = distance[node] + 1
                order.append(int(other))
    if len(order) < n:
        raise ValueError(f"strides is {tuple(steps)}: of {n} ranks they reach {len(order)}, add stride 1")
    passing, loads = np.ones(n), np.zeros(len(ports))
    for node in reversed(order[1:]):
        before = np.flatnonzero(distance[(node - ports) % n] == distance[node] - 1)
        loads[before] += passing[node] / len(before)
        np.add.at(passing, (node - ports[before]) % n, passing[node] / len(before))
    return loads


def ring_strides(ranks: int, ports: int) -> tuple[int, ...]:
    """Strides of a NIC's rings with which an all-to-all is fastest: those with the least load on the busiest port.

    ranks: of the group; ports: of a NIC, two for each ring. The first ring has stride 1. Of equally fast ones those
    that forward least, then the smallest strides. Raises ValueError for fewer than 2 ports.
    """
    n, rings = int(whole("ranks", ranks)), int(whole("ports", ports, 2)) // 2
    others = range(1, max(n // 2, 1) + 1)
    choices = [(1, *more) for more in combinations_with_replacement(others, rings - 1)]
    return min(choices, key=lambda strides: _busiest_and_all(forwarding_load(n, strides)))


def _busiest_and_all(loads: Floats) -> tuple[float, float]:
    """The largest load and their sum, without the last bits, which would break ties."""
    return round(float(loads.max()), 9), round(float(loads.sum()), 9)


@checked
def all_to_all_ways(
    message_bytes: ArrayLike,
    ranks: ArrayLike,
    nic_Bps: Quantity,
    latency_s: Quantity,
    frontend_Bps: Quantity,
    frontend_s: Quantity,
    reconfiguration_s: Quantity,
    ports: Sequence[int] = (2, 4),
) -> pd.DataFrame:
    """Time of an all-to-all of one rail's ranks on electrical rails, on rings, by circuits in turn, on the frontend.

    A port has nic_Bps / ports. Time on rings is steps x latency_s + bytes of the busiest port over its bandwidth, where
    steps is the longest way. Circuits in turn join every rank to as many others as it has ports, then to the next ones.

    Parameters
    ----------
    message_bytes, ranks
        What a rank sends in all, and ranks of the group; a row for each pair of them.
    nic_Bps, latency_s
        Of a NIC with all its ports, and of one step over the rails.
    frontend_Bps, frontend_s
        A GPU's part of the host network, and a step on it.
    reconfiguration_s
        Of the circuit switch.
    ports
        Of a NIC.

    Returns
    -------
    Columns message_bytes, ranks, way, time_s, sent_bytes (by a rank), tax (sent_bytes over those of a direct
    all-to-all), slowdown (time over that of electrical rails).
    """
    positive("nic_Bps", nic_Bps)
    positive("frontend_Bps", frontend_Bps)
    for name, value in (("latency_s", latency_s), ("frontend_s", frontend_s), ("reconfiguration_s", reconfiguration_s)):
        at_least(name, value)
    rows = []
    for n in np.atleast_1d(whole("ranks", ranks, 2)).tolist():
        strides = {count: ring_strides(n, count) for count in ports}
        loads = {count: (forwarding_load(n, some), _longest_way(n, some)) for count, some in strides.items()}
        for size in np.atleast_1d(at_least("message_bytes", message_bytes)).tolist():
            direct, pair = size * (n - 1) / n, size / n
            one_way = [float(each) for each in steps_and_bytes("all_to_all", "ring", size, n)]
            ways = {"electrical rails": (latency_s + direct / nic_Bps, direct)}
            ways["one-way ring, 1 of 2 ports sends"] = (one_way[0] * latency_s + one_way[1] * 2 / nic_Bps, one_way[1])
            for count, (load, steps) in loads.items():
                name = f"rings of {count} ports"
                ways[name] = (steps * latency_s + load.max() * pair * count / nic_Bps, load.sum() * pair)
            for count in ports:
                turns, each = -(-(n - 1) // count), max(count // (n - 1), 1)  # ports to each of the others
                time = turns * (reconfiguration_s + latency_s + pair * count / each / nic_Bps)
                ways[f"circuits in turn, {count} ports"] = (time, direct)
            ways["frontend network"] = (frontend_s + direct / frontend_Bps, direct)
            rows += [(size, n, way, *found) for way, found in ways.items()]
    table = pd.DataFrame(rows, columns=["message_bytes", "ranks", "way", "time_s", "sent_bytes"])
    first = table[table["way"] == "electrical rails"].set_index(["message_bytes", "ranks"])
    base = first.loc[list(zip(table["message_bytes"], table["ranks"], strict=True))]
    table["tax"] = table["sent_bytes"].to_numpy() / base["sent_bytes"].to_numpy()
    return table.assign(slowdown=table["time_s"].to_numpy() / base["time_s"].to_numpy())


def _longest_way(ranks: int, strides: Sequence[int]) -> int:
    """Circuits on the longest of the shortest ways."""
    reached, steps = {0}, 0
    while len(reached) < ranks:
        reached |= {(node + sign * s) % ranks for node in reached for s in strides for sign in (1, -1)}
        steps += 1
    return steps


@checked
@dataclass(frozen=True)
class CircuitsBesideFrontend(PhotonicCircuits):
    """Photonic rails with whole kinds of traffic on the host network, whatever their size.

    frontend_kinds: such as ("expert",). frontend_Bps: a GPU's part of the host network, for these kinds.
    """

    frontend_Bps: Quantity = field(kw_only=True)
    frontend_kinds: tuple[str, ...] = ("expert",)

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("frontend_Bps", self.frontend_Bps)
        for kind in self.frontend_kinds:
            one_of("frontend_kinds", kind, WORKLOAD_KINDS)

    def on_frontend(self, workload: Workload, op: int) -> bool:
        """Whether an operation takes the host network: by its kind or its size."""
        return workload.operation(op).kind in self.frontend_kinds or super().on_frontend(workload, op)

    def transfer_s(self, workload: Workload, op: int) -> float:
        """Time of a transfer, once it has its circuits [s]."""
        time = super().transfer_s(workload, op)
        offloaded = workload.operation(op).kind in self.frontend_kinds
        return time + workload.sent_bytes[op] / self.frontend_Bps if offloaded else time
