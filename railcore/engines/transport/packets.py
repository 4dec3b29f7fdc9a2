"""Packets on a fabric: completion times of flows under one transport, and a checker of every run."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from railcore.engines.transport.fabric import SKIPPED, PathFabric
from railcore.engines.transport.flows import Flows, FlowTimes
from railcore.engines.transport.hashing import ecmp_paths, entropy_paths, hash64, live_paths
from railcore.engines.transport.kernel import layout, slots
from railcore.engines.transport.optimum import Framing, single_flow_s
from railcore.engines.transport.transports import BALANCINGS, CONTROLS, OVERFLOWS, PACINGS, RECOVERIES, Transport
from railcore.facts.arguments import Quantity, checked
from railcore.facts.checks import Ints, positive, seed_of, share

ACKNOWLEDGED = Framing(acknowledged=True)
TOLD_EVERY_S = 2.0
_TALLIES = {  # column of a run: place in the kernel's counts
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

    packets [flows]: of each flow, sent once.
    tallies: packets sent, sent again, trimmed, lost, marked, pauses, arrivals discarded, the deepest queue.
    port_packets [ports]: what each port sent.
    slot_s: time of one packet on a link [s].
    slots: how long the run lasted.
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


def _slots(time_s: Any, slot_s: float) -> Any:
    """Whole slots that have room for a time."""
    return np.ceil(time_s / slot_s - 1e-9).astype(np.int64)


def _room(needed: float) -> int:
    return 1 << max(6, (math.ceil(needed) - 1).bit_length())


@checked
def simulate_packets(
    fabric: PathFabric,
    flows: Flows,
    transport: Transport,
    framing: Framing = ACKNOWLEDGED,
    seed: int = 0,
    loss: float = 0.0,
    converged: bool = True,
    most_s: Quantity = 60.0,
    progress: Callable[[str], Any] | None = None,
) -> PacketRun:
    """Completion times of flows, packet by packet, with one transport for all.

    Acknowledgements, credits and headers of trimmed packets take capacity of the links: those that go back are charged
    eight at a time, on a path drawn at random. What it leaves out: they never wait in a queue themselves, and are never
    lost; links and stages have one latency each; two hosts under one switch meet others' packets as if they were as far
    as the rest (their own round trip is the short one); every packet is a full one; a loss without a trace is noticed
    after a round trip where a later packet shows the gap, else after the timeout, never too early.

    Parameters
    ----------
    fabric, flows, transport
        Where, what, and how.
    framing
        Bytes of packets; whether the way of the last acknowledgement counts.
    seed
        Of paths and of every draw. Single-path transports share their paths for one seed.
    loss
        Probability that a packet is lost on a link.
    converged
        Whether routing has withdrawn paths with a dead link, or packets run into it.
    most_s
        Simulated time after which the run is given up [s].
    progress
        Told every two seconds how far the run is.

    Returns
    -------
    A `PacketRun`, checked.

    Raises
    ------
    ValueError
        For numbers out of range, or what the fabric does not have.
    RuntimeError
        Where flows are not complete after `most_s`.
    """
    share("loss", loss, below_1=True)
    positive("most_s", most_s, "s")
    seed = seed_of(seed)
    slot_s = framing.packet_bytes / float(fabric.link_Bps)
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
    tallies = {name: int(state.tally[place]) for name, place in _TALLIES.items()}
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
    """The run; with `progress` in parts of some tenths of a second. Returns how it ended.

    Where it ends for want of room it begins anew, and so does what is told.
    """
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
    lossless = transport.overflow == "pause" and not options.loss and np.all(fabric.rates > 0)
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
    """State and options of a run, what a flow of one packet takes [s], and the order of the flows, by their hosts."""
    slot_s = framing.packet_bytes / float(fabric.link_Bps)
    order = np.argsort(flows.source, kind="stable")
    base, offset = fabric.tables(flows.source[order], flows.destination[order])
    hosts, planes, count = fabric.hosts, fabric.planes, len(flows)
    need = framing.packets(flows.size_bytes[order]).astype(np.int64)
    latency = fabric.latency_s(flows.source[order], flows.destination[order])
    one_way_s = (base != SKIPPED).sum(1) * slot_s + latency
    base_s = one_way_s + latency
    rtt = _slots(base_s, slot_s)
    ev_path = _paths_by_entropy(fabric, flows, transport, seed, converged, order)
    _limits(fabric, need, count, ev_path.shape[1])
    if not converged and np.any(fabric.rates == 0):
        _never_complete(live_paths(fabric, flows)[order], ev_path)
    entropies = ev_path.shape[1] // planes if transport.balancing != "single path" else 1
    options = _options(fabric, transport, framing, loss, entropies, latency.max(), base_s.max())
    long_ago = -layout.NEVER
    window = np.zeros((count, layout.WINDOW_COLUMNS))
    window[:, layout.WINDOW_NOW] = options.window
    rate = np.zeros((count if transport.control == "dcqcn" else 1, layout.RATE_COLUMNS))
    rate[:, [layout.RATE, layout.ALPHA]] = 1.0
    rate[:, layout.NOTIFIED_AT] = long_ago
    first = np.searchsorted(flows.source[order], np.arange(hosts + 1))
    begins = _slots(flows.start_s[order], slot_s)
    flying = min(hosts * planes * rtt.max() * 2.0, need.sum() * 2.0)
    waiting = fabric.ports * (
        options.pause_at + options.pause_delay + 2.0 if transport.overflow == "pause" else options.queue
    )
    nodes = int(min(need.sum(), waiting + flying + 1e4) * room) + hosts + 64
    sub, recycles = count * planes, transport.balancing in ("reps", "mixed")
    skips = transport.balancing in ("bitmap", "mixed")
    loops, loop = np.unique(-rtt, return_inverse=True)  # the longest first
    shares = [flying] + [flying / 4] * (len(loops) - 1) + [1024.0] * len(loops)
    rooms = np.array([_room(4 * fabric.ports * room)] + [_room((each + count) * room) for each in shares])
    ring_of = np.zeros((len(rooms), 4), np.int64)
    ring_of[:, layout.ROW], ring_of[:, layout.MASK] = np.cumsum(rooms) - rooms, rooms - 1
    divisors = [each for each in range(1, entropies + 1) if math.gcd(each, entropies) == 1]
    state = layout.State(
        base=base.astype(np.int32),
        back=fabric.tables(flows.destination[order], flows.source[order])[0].astype(np.int32),
        offset=offset.astype(np.int32),
        ev_path=ev_path.astype(np.int16),
        strides=np.array(divisors, np.int64),
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
        queue=np.zeros((fabric.ports, 4), np.int32),
        waiting=np.zeros(fabric.ports // 32 + 1, np.int64),
        pool=np.empty((nodes, 2), np.int64),
        free=np.empty(nodes, np.int32),
        taken=np.empty((int(fabric.stage_ports.max()), 4), np.int32),
        held=np.zeros(fabric.ports, np.int32),
        stopped=np.zeros((fabric.ports, 2), np.int8),
        rings=np.empty((int(rooms.sum()), 3), np.int64),
        ring_of=ring_of,
        turn=np.zeros(hosts, np.int64),
        able=np.zeros(count, np.int8),
        ables=np.zeros(hosts, np.int32),
        sent=np.zeros(count, np.int64),
        again=np.full((count, 2), layout.END, np.int64),
        flying=np.zeros(count, np.int64),
        window=window,
        credit=np.minimum(options.window, need) if transport.control == "pulls" else np.full(count, options.window),
        heard=np.zeros(count, np.int8),
        cycle=np.tile(np.array([entropies, 0, 1], np.int64), (sub, 1)),
        penalty=np.zeros((sub if skips else 1, entropies), np.int8),
        recycled=np.zeros((sub if recycles else 1, 256 if recycles else 1), np.int16),
        recycled_at=np.zeros((sub, 2), np.int64),
        last=np.full(count, long_ago, np.int64),
        got=np.zeros(count, np.int64),
        seen=np.zeros((count, int(need.max()) // 32 + 1), np.uint32),
        expected=np.array([[0, 0, long_ago]] * count, np.int64),
        unacked=np.zeros(count, np.int64),
        finish=np.full(count, -1, np.int64),
        asked=np.zeros(count),
        wants=np.full((hosts, 2), layout.END, np.int64),
        wants_next=np.full(count, layout.END, np.int64),
        pace=np.tile([1.0, 0, 0, 0, 0, options.pace_step, options.pace_period], (hosts, 1)),
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


def _options(fabric, transport, framing, loss, entropies, latency_s, loop_s):
    """What the loops need of a transport. latency_s, loop_s: of the farthest flow; of its way and back."""
    slot_s = framing.packet_bytes / float(fabric.link_Bps)
    rtt = _slots(loop_s, slot_s)
    round_trip_s = loop_s + 2 * fabric.tiers * float(framing.header_bytes) / float(fabric.link_Bps)
    target_s = transport.target_round_trips * round_trip_s
    target = target_s / slot_s
    # NSCC's parameters hold for a product of bandwidth and delay, and for a target
    planes = 1 if transport.balancing in ("single path", "flowlets") else fabric.planes  # that a flow uses at once
    reference_bytes = transport.reference_Bps * transport.reference_rtt_s
    of_product = 2 * latency_s * planes * float(fabric.link_Bps) / reference_bytes
    of_target = target_s / transport.reference_rtt_s
    unloaded = 2 * latency_s / slot_s  # of the latency alone, which a sender knows
    most_window = planes * max(transport.window_products * unloaded, rtt)  # slow links take their time to send, too
    queue, low, high = transport.queue_packets, transport.mark_low_packets, transport.mark_high_packets
    queue = queue or rtt
    if not high:
        low, high = (math.ceil(part * queue) for part in (transport.mark_low_share, transport.mark_high_share))
    pause_delay = math.ceil((2 * fabric.link_latency_s + fabric.switch_latency_s) / slot_s) + 1
    pauses, needed = transport.overflow == "pause", transport.pause_packets + pause_delay + 1
    if pauses and needed * framing.packet_bytes > transport.buffer_bytes:
        raise ValueError(
            f"buffer_bytes is {transport.buffer_bytes:,.0f}: a link of this length sends on until {needed:,} packets "
            f"wait; give {needed * framing.packet_bytes:,.0f}, or lower pause_packets"
        )
    if transport.marking and not pauses and high > queue:
        raise ValueError(f"mark_high_packets is {high:g}: the queue has room for {queue}; give at most that")
    if transport.control == "dcqcn":
        gain, fast = transport.dcqcn_step_Bps / fabric.link_Bps, transport.dcqcn_fast_step_Bps / fabric.link_Bps
        smoothing, period_s, bytes_a_step = (
            transport.dcqcn_smoothing,
            transport.dcqcn_timer_s,
            transport.dcqcn_counter_bytes,
        )
    else:
        gain, fast = transport.proportional * of_product * of_target / target, transport.fast * of_product
        smoothing, period_s, bytes_a_step = transport.smoothing, transport.period_s, transport.adjust_bytes * of_target
    options = layout.Options(
        control=CONTROLS.index(transport.control),
        balancing=BALANCINGS.index(transport.balancing),
        overflow=OVERFLOWS.index(transport.overflow),
        recovery=RECOVERIES.index(transport.recovery),
        stages=fabric.stages,
        planes=fabric.planes,
        entropies=entropies,
        queue=1 << 30 if pauses else queue,
        wire=round(framing.packet_bytes),
        header=round(framing.header_bytes),
        mark_low=low if transport.marking else math.inf,
        mark_high=high,
        mark_most=transport.mark_probability,
        pause_at=transport.pause_packets,
        resume_at=transport.resume_packets,
        pause_delay=pause_delay,
        sack=max(1, math.ceil(transport.sack_bytes / framing.packet_bytes)),
        flowlet_gap=round(transport.flowlet_gap_s / slot_s),
        timeout=max(1, round(transport.timeout_s / slot_s)),
        loss=loss,
        even=bool(np.all((fabric.rates == 1.0) | (fabric.rates == 0.0))),
        dead=bool(np.any(fabric.rates == 0.0)),
        window=transport.start_packets or most_window,
        most_window=most_window,
        target=target,
        long_rtt=rtt,
        behind=loop_s / slot_s - unloaded,
        fast_delay=transport.fast_delay_s / slot_s,
        gain=gain,
        fair=transport.fair * of_product,
        fast=fast,
        creep=transport.creep * of_product,
        cut=transport.cut,
        smoothing=smoothing,
        period=max(1, round(period_s / slot_s)),
        adjust=max(1, round(bytes_a_step / framing.mtu_bytes)),
        quick_delay=transport.quick_targets * target,
        credit_gap=1.0 / (transport.credit_rate * fabric.planes),
        pacing=PACINGS.index(transport.pacing) if fabric.oversubscribed and transport.control == "credits" else 0,
        pace_period=transport.pace_period_s / slot_s,
        pace_step=transport.pace_step,
        pace_growth=transport.pace_growth,
        pace_cut=transport.pace_cut,
        pace_marks=transport.pace_marks,
        least_rate=transport.dcqcn_least_share,
        notice_gap=round(transport.dcqcn_notice_s / slot_s),
    )
    types = layout.Options.__annotations__.values()  # or Numba compiles anew where a number is whole
    return layout.Options(*(kind(value) for kind, value in zip(types, options, strict=True)))


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
