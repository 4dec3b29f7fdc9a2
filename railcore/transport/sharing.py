"""Flow-level model: at every moment flows share links max-min fairly, until each has sent its bytes.

Rates change when a flow starts or ends, and at once (progressive filling): no flow could have more without one that
has less or as much getting less. Exact for these assumptions. Leaves out packets and queues, the time that a
congestion control takes to find its rate, losses, pauses, and what a hot link does to flows that do not use it.
"""

from dataclasses import dataclass

import numpy as np

from railcore.catalog.arguments import NonNegativeArray, checked
from railcore.catalog.checks import Floats, Ints
from railcore.compiled import njit
from railcore.transport.fabric import PathFabric
from railcore.transport.flows import Flows, FlowTimes
from railcore.transport.optimum import RECEIVED, Framing, cuts, pair_planes_Bps, path_delay_s, single_flow_s

_TIE = 1e-12  # shares that differ by less are equal
_SAME = 1e-9  # rates that differ by less are one rate
_DONE = 1e-10  # of a flow's bytes: what is left by rounding


@dataclass(frozen=True)
class SharedLinks:
    """Flows over shared links: what each has to send, and over which links.

    port [flows, uses]: numbers of the links, `SKIPPED` for none.
    capacity_Bps [ports]: of each link [bytes/s].
    wire_bytes [flows]: bytes of each flow on each of its links.
    start_s [flows]: start of each flow [s].
    """

    port: Ints
    capacity_Bps: Floats
    wire_bytes: Floats
    start_s: Floats

    def finish_s(self) -> Floats:
        """When each flow has sent its last byte; infinite for flows over a dead link. Compiled."""
        flows, ports = len(self.port), len(self.capacity_Bps)
        part = np.empty(flows, np.int64)
        _parts(self.port, np.arange(ports), part)
        order = np.lexsort((self.start_s, part))
        first = np.append(np.flatnonzero(np.diff(part[order], prepend=-1)), flows)
        wire = self.wire_bytes[order]
        numbers = np.stack([wire, np.zeros(flows), np.zeros(flows)])
        scratch = np.zeros((4, ports)), np.empty(ports, np.int64), numbers, np.empty((2, flows), np.int64)
        in_order = np.full(flows, np.inf)
        _finish(first, self.port[order], self.capacity_Bps, wire, self.start_s[order], scratch, in_order)
        finish = np.empty(flows)
        finish[order] = in_order
        return finish


@njit
def _fill(active, least_new, port, capacity, rate, room, used, level, unsettled):  # type: ignore[no-untyped-def]
    """Max-min fair rates of the flows in `active`. The last four are room: row 1 of `room` is 0 before and after.

    Flows slower than `least_new` keep their rate: only faster flows have ended, and these did not limit them.

    A port whose share is no larger than that of any port that it has a flow in common with limits its flows to this
    share, whatever happens elsewhere: all such ports are settled in one round.
    """
    left, load, share, lowest = room
    ports, count = 0, 0
    for f in active:
        if rate[f] < least_new:
            continue
        unsettled[count] = f
        count += 1
        for u in range(port.shape[1]):
            p = port[f, u]
            if p >= 0:
                if load[p] == 0:
                    used[ports], left[p] = p, capacity[p]
                    ports += 1
                load[p] += 1
    for f in active:
        if rate[f] < least_new:
            for u in range(port.shape[1]):
                p = port[f, u]
                if p >= 0 and load[p] > 0:
                    left[p] = max(0.0, left[p] - rate[f])
    while count > 0:
        for p in used[:ports]:
            share[p], lowest[p] = left[p] / max(load[p], 1.0), 1.0
        for i in range(count):
            least = np.inf
            for p in port[unsettled[i]]:
                if p >= 0 and share[p] < least:
                    least = share[p]
            level[i] = least
            for p in port[unsettled[i]]:
                if p >= 0 and share[p] > least * (1 + _TIE):
                    lowest[p] = 0.0
        still = 0
        for i in range(count):
            f, settled = unsettled[i], False
            for p in port[f]:
                settled = settled or (p >= 0 and lowest[p] > 0)
            if not settled:
                unsettled[still] = f
                still += 1
                continue
            rate[f] = level[i]
            for u in range(port.shape[1]):
                p = port[f, u]
                if p >= 0:
                    left[p] = max(0.0, left[p] - level[i])
                    load[p] -= 1
        count = still
    for p in used[:ports]:
        load[p] = 0.0


@njit
def _parts(port, above, part):  # type: ignore[no-untyped-def]
    """Part of each flow, where flows that share a link, at any time and through others too, are one part.

    above [ports]: each its own number at first. part [flows]: the result.
    """
    for f in range(len(port)):
        first = -1
        for p in port[f]:
            if p >= 0:
                while above[p] != p:
                    above[p] = above[above[p]]
                    p = above[p]
                if first < 0:
                    first = p
                elif p < first:
                    above[first] = p
                    first = p
                else:
                    above[p] = first
    for f in range(len(port)):
        for p in port[f]:
            if p >= 0:
                while above[p] != p:
                    p = above[p]
                part[f] = p
                break


@njit
def _finish(first, port, capacity, wire, start, scratch, finish):  # type: ignore[no-untyped-def]
    """When each flow ends. first: where each part begins, and the end; flows of a part in order of their starts.

    scratch: room, with the bytes of the flows in it; finish [flows]: infinite at first, then the result.
    """
    room, used, (rest, rate, level), (flying, unsettled) = scratch
    for part in range(len(first) - 1):
        following, end = first[part], first[part + 1]
        active = flying[following:end]
        count, now, least = 0, start[following], 0.0
        while count > 0 or following < end:
            while following < end and start[following] <= now:
                least = 0.0
                active[count] = following
                count += 1
                following += 1
            _fill(active[:count], least, port, capacity, rate, room, used, level, unsettled)
            last = start[following] if following < end else np.inf
            lasting = last - now
            for f in active[:count]:
                if rate[f] > 0 and rest[f] < rate[f] * lasting:
                    lasting = rest[f] / rate[f]
            if lasting == np.inf:
                break
            now = last if lasting == last - now else now + lasting
            still, least = 0, np.inf
            for f in active[:count]:
                rest[f] -= rate[f] * lasting
                if rest[f] <= _DONE * wire[f]:
                    finish[f] = now
                    least = min(least, rate[f] * (1 - _SAME))
                else:
                    active[still] = f
                    still += 1
            count = still


@dataclass(frozen=True)
class FairRun(FlowTimes):
    """Completion times under fair sharing, with the delay of the path; infinite where a flow waits for a dead link.

    links: that the flows share.
    """

    links: SharedLinks


def _run(fabric: PathFabric, flows: Flows, port: Ints, capacity_Bps: Floats, framing: Framing) -> FairRun:
    """Completion times over shared links, with the delay of the path."""
    links = SharedLinks(port, capacity_Bps, framing.wire_bytes(flows.size_bytes), flows.start_s)
    alone = single_flow_s(fabric, flows, framing)
    shared = links.finish_s() - flows.start_s + path_delay_s(fabric, flows, framing)
    return FairRun(np.maximum(shared, alone), alone, links)  # packets are whole, flows here are not


@checked
def fair_sharing(fabric: PathFabric, flows: Flows, path: NonNegativeArray, framing: Framing = RECEIVED) -> FairRun:
    """Flows on fixed paths that share links max-min fairly.

    Parameters
    ----------
    fabric, flows
        Where the flows run.
    path
        Of each flow, shape [flows], such as `ecmp_paths` gives.
    framing
        Packets, for bytes on the wire and the delay of a path.

    Returns
    -------
    A `FairRun`. A flow over a dead link never ends.
    """
    if np.shape(path) != (len(flows),):
        raise ValueError(f"path has shape {np.shape(path)}: give one for each of {len(flows):,} flows")
    port = fabric.port_table(flows.source, flows.destination, path)
    return _run(fabric, flows, port, fabric.rates * float(fabric.link_Bps), framing)


def ideal_spraying(fabric: PathFabric, flows: Flows, framing: Framing = RECEIVED) -> FairRun:
    """Flows that spread over all paths and share groups of links max-min fairly.

    Paths need not be loaded evenly: flows are limited only by NICs, by all links of a leaf or pod together, and by all
    paths between two hosts together. With all links at one speed, even loads give the same times.

    fabric, flows: where the flows run. framing: packets, for bytes on the wire and the delay of a path.
    """
    port, capacity_Bps = cuts(fabric, flows)
    if np.any(fabric.rates != 1):
        port = np.column_stack([port, len(capacity_Bps) + np.arange(len(flows))])
        capacity_Bps = np.concatenate([capacity_Bps, pair_planes_Bps(fabric, flows).sum(1)])
    return _run(fabric, flows, port, capacity_Bps, framing)
