"""Packets on a fabric: completion times of flows under one transport, and a checker of every run."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from railcore.catalog.arguments import NonNegativeInt, Share, checked
from railcore.catalog.checks import Ints, share
from railcore.transport.delay import Duration
from railcore.transport.fabric import SKIPPED, PathFabric
from railcore.transport.flows import Flows, FlowTimes
from railcore.transport.hashing import ecmp_paths, entropy_paths, hash64, live_paths
from railcore.transport.kernel import layout, slots
from railcore.transport.optimum import Framing, single_flow_s
from railcore.transport.slot_numbers import slot_numbers, slot_time_s, slots_for
from railcore.transport.transports import Dcqcn, Pulls, Transport

ACKNOWLEDGED = Framing(acknowledged=True)
TOLD_EVERY_S = 2.0
TALLIES = {  # column of a run: place in the kernel's counts
    "sent": layout.SENT,
    "retransmitted": layout.AGAIN,
    "trimmed": layout.TRIMMED,
    "lost": layout.LOST,
    "marked": layout.MARKED,
    "pauses": layout.PAUSES,
    "discarded": layout.DISCARDED,
    "deepest_queue": layout.DEEPEST,
}


@dataclass(frozen=True)
class PacketRun(FlowTimes):
    """Completion times of a run, and what happened in it.

    packets [flows]: of each flow, each counted once.
    tallies: packets sent, sent again, trimmed, lost, marked, pauses, arrivals discarded, the deepest queue.
    port_packets [ports]: sent by each port.
    slot_s: time of one packet on a link [s].
    slots: length of the run.
    """

    packets: Ints
    tallies: dict[str, int]
    port_packets: Ints
    slot_s: float
    slots: int

    @property
    def retransmitted_share(self) -> float:
        """Packets sent again over packets of the flows."""
        return self.tallies["retransmitted"] / int(self.packets.sum())


def _room(needed: float) -> int:
    """The next power of two, 64 or more."""
    return 1 << max(6, (math.ceil(needed) - 1).bit_length())


@checked
def simulate_packets(
    fabric: PathFabric,
    flows: Flows,
    transport: Transport,
    framing: Framing = ACKNOWLEDGED,
    seed: NonNegativeInt = 0,
    loss: Share = 0.0,
    converged: bool = True,
    most_s: Duration = 60.0,
    progress: Callable[[str], Any] | None = None,
) -> PacketRun:
    """Completion times of flows, packet by packet, with one transport for all.

    Acknowledgements, credits and headers of trimmed packets take capacity of the links: on the way back they are
    charged eight at a time, on a path drawn at random.

    Simplified: these small packets never wait in a queue and are never lost. All links have one latency. Two hosts
    under one switch meet the packets of others as late as hosts far apart do, though their own round trip is short.
    Every packet is full. A loss without a trace is noticed after a round trip where a later packet shows the gap, else
    after the timeout, never too early.
    Largest run: 1,048,576 flows of 524,288 packets each, 4,096 paths, 67 million packets on the way.

    Parameters
    ----------
    fabric, flows, transport
        Where, what, and how.
    framing
        Bytes of packets; whether the way of the last acknowledgement counts.
    seed
        Of paths and of every draw. With one seed, all single-path transports have the same paths.
    loss
        Probability that a packet is lost on a link.
    converged
        Whether routing has withdrawn paths with a dead link; else packets run into it.
    most_s
        Simulated time after which the run is given up [s].
    progress
        Called with a text every two seconds, such as `print`.

    Returns
    -------
    A `PacketRun`, checked.

    Raises
    ------
    ValueError
        For flows that the fabric cannot carry, and runs that are too large.
    RuntimeError
        Where flows are not complete after `most_s`.
    """
    share("loss", loss, below_1=True)
    slot_s = slot_time_s(fabric, framing)
    room = 1.0
    while True:
        state, options, base_s, order = _prepare(fabric, flows, transport, framing, seed, loss, converged, room)
        end = _run(state, options, round(most_s / slot_s), progress)
        if end != layout.NO_ROOM:
            break
        room *= 2
    if end == layout.TOO_LONG:
        late = int((state.finish < 0).sum())
        raise RuntimeError(
            f"{late:,} of {len(flows):,} flows are not complete after most_s, {most_s:g} s: give more time, or look "
            f"for dead links on their paths"
        )
    completion = np.empty(len(flows))
    completion[order] = state.finish * slot_s - flows.start_s[order] + base_s
    packets = np.empty(len(flows), np.int64)
    packets[order] = state.need
    tallies = {name: int(state.tally[place]) for name, place in TALLIES.items()}
    result = PacketRun(
        completion,
        single_flow_s(fabric, flows, framing),
        packets,
        tallies,
        state.passed,
        slot_s,
        int(state.tally[layout.NOW]),
    )
    _check(result, fabric, transport, state, options)
    return result


def _run(state: Any, options: Any, most_slots: int, progress: Callable[[str], Any] | None) -> int:
    """Run the kernel; with `progress` in parts of some tenths of a second. Returns how the run ended."""
    step, told = (1 << 10 if progress else most_slots), time.monotonic()
    while True:
        began, until = time.monotonic(), min(int(state.tally[layout.NOW]) + step, most_slots)
        end = slots.run_slots(state, options, until)
        if end != layout.TOO_LONG or until == most_slots:
            return end
        now = time.monotonic()
        step *= 2 if now - began < 0.2 else 1
        if progress and now - told > TOLD_EVERY_S:
            told = now
            progress(f"{state.got.sum() / state.need.sum():.0%} of {state.need.sum():,} packets are delivered")


def _check(result: PacketRun, fabric: PathFabric, transport: Transport, state: Any, options: Any) -> None:
    """Laws that every run obeys. Raises AssertionError naming the one that is broken."""
    delivered = np.bitwise_count(state.seen).sum(1)
    lossless = transport.lossless and not options.loss and np.all(fabric.rates > 0)
    laws = {
        "a packet was not delivered, or twice": np.array_equal(delivered, state.need),
        "packets received are not those of the flows": np.array_equal(state.got, state.need),
        "a port was too fast": np.all(result.port_packets <= result.slots * fabric.rates + 2),
        "a lossless fabric lost packets": not (lossless and result.tallies["lost"]),
    }
    for broken, holds in laws.items():
        if not holds:
            raise AssertionError(broken)


def _prepare(fabric, flows, transport, framing, seed, loss, converged, room):
    """State and options of a run, time of a flow of one packet [s], and the order of the flows by their hosts."""
    slot_s = slot_time_s(fabric, framing)
    order = np.argsort(flows.source, kind="stable")
    base, offset = fabric.tables(flows.source[order], flows.destination[order])
    hosts, planes, count = fabric.hosts, fabric.planes, len(flows)
    need = framing.packets(flows.size_bytes[order]).astype(np.int64)
    latency = fabric.latency_s(flows.source[order], flows.destination[order])
    one_way_s = (base != SKIPPED).sum(1) * slot_s + latency
    base_s = one_way_s + latency
    rtt = slots_for(base_s, slot_s)
    ev_path = _paths_by_entropy(fabric, flows, transport, seed, converged, order)
    _limits(fabric, need, count, ev_path.shape[1])
    if not converged and np.any(fabric.rates == 0):
        _never_complete(live_paths(fabric, flows)[order], ev_path)
    entropies = ev_path.shape[1] // planes if transport.balancing != "single path" else 1
    options = slot_numbers(fabric, transport, framing, loss, entropies)
    long_ago = -layout.NEVER
    window = np.zeros(count, layout.WINDOW)
    window["now"] = options.window
    rate = np.zeros(count if isinstance(transport.control, Dcqcn) else 1, layout.RATE)
    rate["rate"] = rate["alpha"] = 1.0
    rate["notified_at"] = long_ago
    pace = np.zeros(hosts, layout.PACE)
    pace["share"], pace["step"], pace["paced_at"] = 1.0, options.credits.step, options.credits.period
    cycle = np.zeros(count * planes, layout.CYCLE)
    cycle["place"], cycle["stride"] = entropies, 1
    expected = np.zeros(count, layout.EXPECTED)
    expected["went_back"] = long_ago
    first = np.searchsorted(flows.source[order], np.arange(hosts + 1))
    begins = slots_for(flows.start_s[order], slot_s)
    flying = min(hosts * planes * rtt.max() * 2.0, need.sum() * 2.0)
    port = options.port
    waiting = fabric.ports * (port.pause_at + port.pause_delay + 2.0 if transport.lossless else port.room)
    nodes = int(min(need.sum(), waiting + flying + 1e4) * room) + hosts + 64
    if nodes > 1 << layout.NEXT_BITS:
        raise ValueError(
            f"the run may have {nodes:,} packets on the way at once: at most {1 << layout.NEXT_BITS:,} can be "
            f"simulated; choose fewer hosts, shorter links or smaller flows"
        )
    sub, recycles = count * planes, transport.balancing in ("reps", "mixed")
    skips = transport.balancing in ("bitmap", "mixed")
    loops, loop = np.unique(-rtt, return_inverse=True)  # the longest first
    shares = [flying] + [flying / 4] * (len(loops) - 1) + [1024.0] * len(loops)
    rooms = np.array([_room(4 * fabric.ports * room)] + [_room((packets + count) * room) for packets in shares])
    ring_of = np.zeros(len(rooms), layout.RING)
    ring_of["row"], ring_of["mask"] = np.cumsum(rooms) - rooms, rooms - 1
    strides = [stride for stride in range(1, entropies + 1) if math.gcd(stride, entropies) == 1]
    state = layout.State(
        base=base.astype(np.int32),
        back=fabric.tables(flows.destination[order], flows.source[order])[0].astype(np.int32),
        offset=offset.astype(np.int32),
        ev_path=ev_path.astype(np.int16),
        strides=np.array(strides, np.int64),
        start=fabric.stage_start,
        rates=fabric.rates,
        free_at=np.zeros(fabric.ports),
        rtt=rtt,
        loop=1 + loop,
        need=need,
        first=first,
        senders=np.unique(flows.source),
        receivers=np.unique(flows.destination),
        begins=begins,
        order=np.argsort(begins, kind="stable"),
        queue=np.zeros(fabric.ports, layout.QUEUE),
        waiting=np.zeros(fabric.ports // 32 + 1, np.int64),
        pool=np.empty((nodes, 2), np.int64),
        free=np.empty(nodes, np.int32),
        taken=np.empty(int(fabric.stage_ports.max()), layout.TAKEN),
        held=np.zeros(fabric.ports, np.int32),
        stopped=np.zeros(fabric.ports, layout.STOPPED),
        rings=np.empty(int(rooms.sum()), layout.BACK),
        ring_of=ring_of,
        turn=np.zeros(hosts, np.int64),
        able=np.zeros(count, np.int8),
        ables=np.zeros(hosts, np.int32),
        sent=np.zeros(count, np.int64),
        again=np.full((count, 2), layout.END, np.int64),
        flying=np.zeros(count, np.int64),
        window=window,
        credit=np.minimum(options.window, need)
        if isinstance(transport.control, Pulls)
        else np.full(count, options.window),
        heard=np.zeros(count, np.int8),
        cycle=cycle,
        penalty=np.zeros((sub if skips else 1, entropies), np.int8),
        recycled=np.zeros((sub if recycles else 1, 256 if recycles else 1), np.int16),
        recycled_at=np.zeros((sub, 2), np.int64),
        last=np.full(count, long_ago, np.int64),
        got=np.zeros(count, np.int64),
        seen=np.zeros((count, int(need.max()) // 32 + 1), np.uint32),
        expected=expected,
        unacked=np.zeros(count, np.int64),
        finish=np.full(count, -1, np.int64),
        asked=np.zeros(count),
        wants=np.full((hosts, 2), layout.END, np.int64),
        wants_next=np.full(count, layout.END, np.int64),
        pace=pace,
        credit_at=np.zeros(hosts),
        passed=np.zeros(fabric.ports, np.int64),
        rate=rate,
        random=hash64(seed),
        tally=np.zeros(layout.COUNTS, np.int64),
    )
    state.tally[layout.UNFINISHED] = count
    back_s = latency + (base != SKIPPED).sum(1) * float(framing.header_bytes) / float(fabric.link_Bps)
    return state, options, one_way_s + back_s * framing.acknowledged, order


def _paths_by_entropy(fabric, flows, transport, seed, converged, order):
    """Path of each entropy, one plane after the other [flows or 1, entropies]."""
    planes, per_plane = fabric.planes, fabric.paths_per_plane
    if transport.balancing == "single path":
        return ecmp_paths(fabric, flows, seed, converged)[order, None]
    if transport.entropies:
        ev_path = entropy_paths(fabric, flows, transport.entropies * planes, seed, converged)[order]
        if planes > 1:
            ev_path = ev_path % per_plane + np.repeat(np.arange(planes), transport.entropies) * per_plane
    else:
        ev_path = np.arange(fabric.paths)[None, :]
        if converged and np.any(fabric.rates == 0):
            live = live_paths(fabric, flows)[order]
            ev_path = np.where(live, ev_path, entropy_paths(fabric, flows, fabric.paths, seed)[order])
    return ev_path


def _never_complete(live: np.ndarray, ev_path: Ints) -> None:
    """Raise RuntimeError where all paths that a flow uses have a dead link and no routing withdraws them."""
    stuck = ~np.take_along_axis(live, np.broadcast_to(ev_path, (len(live), ev_path.shape[1])), 1).any(1)
    if np.any(stuck):
        raise RuntimeError(
            f"{int(stuck.sum()):,} of {len(live):,} flows can never be complete: all their paths have a dead link; "
            f"choose converged=True, or a transport that sprays over more paths"
        )


def _limits(fabric: PathFabric, need: Ints, flows: int, entropies: int) -> None:
    """Raise ValueError where a packet's word has no room for its numbers."""
    for name, value, bits in (
        ("flows", flows, layout.FLOW_BITS),
        ("packets of a flow", int(need.max()), layout.SEQ_BITS),
        ("entropies of all planes", entropies, layout.EV_BITS),
        ("paths of the fabric", fabric.paths, layout.PATH_BITS),
    ):
        if value > 1 << bits:
            raise ValueError(f"{value:,} {name}: at most {1 << bits:,} can be simulated; choose fewer")
