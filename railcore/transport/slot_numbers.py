"""A transport on a fabric in the kernel's units: slots (the time of one packet on a link) and packets."""

import math
from typing import Any

import numpy as np

from railcore.transport.fabric import PathFabric
from railcore.transport.kernel import layout
from railcore.transport.optimum import Framing
from railcore.transport.transports import (
    BALANCINGS,
    CONTROLS,
    OVERFLOWS,
    PACINGS,
    RECOVERIES,
    Control,
    Dcqcn,
    Nscc,
    Pulls,
    Queues,
    Rccc,
    Transport,
)


def slot_time_s(fabric: PathFabric, framing: Framing) -> float:
    """Time of one packet on a link at full speed [s]."""
    return framing.packet_bytes / float(fabric.link_Bps)


def slots_for(time_s: Any, slot_s: float) -> Any:
    """Whole slots of at least a time."""
    return np.ceil(time_s / slot_s - 1e-9).astype(np.int64)


def slot_numbers(
    fabric: PathFabric,
    transport: Transport,
    framing: Framing,
    loss: float,
    entropies: int,
) -> layout.Options:
    """Numbers of a transport for the kernel.

    Parameters
    ----------
    fabric, transport, framing, loss
        Of the run.
    entropies
        Of a plane.

    Returns
    -------
    `layout.Options`. Raises ValueError for queues that the fabric's links would overrun.
    """
    slot_s = slot_time_s(fabric, framing)
    latency_s = fabric.longest_latency_s
    loop_s = 2 * fabric.tiers * slot_s + latency_s + latency_s  # there, sent on every link, and back
    rtt, unloaded = int(slots_for(loop_s, slot_s)), 2 * latency_s / slot_s  # of the latency alone: a sender knows it
    planes = 1 if transport.balancing in ("single path", "flowlets") else fabric.planes  # that a flow uses at once
    most_window = planes * max(transport.window_products * unloaded, rtt)  # slow links take their time to send, too
    control = transport.control
    return _typed(
        layout.Options(
            control=list(CONTROLS.values()).index(type(control)),
            balancing=BALANCINGS.index(transport.balancing),
            overflow=OVERFLOWS.index(transport.queues.overflow),
            recovery=RECOVERIES.index(transport.recovery),
            stages=fabric.stages,
            planes=fabric.planes,
            entropies=entropies,
            wire=round(framing.packet_bytes),
            header=round(framing.header_bytes),
            window=transport.start_packets or most_window,
            sack=max(1, math.ceil(transport.sack_bytes / framing.packet_bytes)),
            flowlet_gap=round(transport.flowlet_gap_s / slot_s),
            timeout=max(1, round(transport.timeout_s / slot_s)),
            loss=loss,
            even=bool(np.all((fabric.rates == 1.0) | (fabric.rates == 0.0))),
            dead=bool(np.any(fabric.rates == 0.0)),
            port=_port(transport.queues, fabric, framing, rtt),
            nscc=_window(control, fabric, framing, planes, latency_s, loop_s, most_window),
            credits=_credits(control, fabric, slot_s),
            dcqcn=_rates(control, fabric, framing),
        )
    )


def _typed(numbers: Any) -> Any:
    """Numbers in their annotated types, else floats. With other types Numba would compile again."""
    kinds = getattr(type(numbers), "__annotations__", {})
    return type(numbers)(
        **{
            name: _typed(value) if isinstance(value, tuple) else kinds.get(name, float)(value)
            for name, value in numbers._asdict().items()
        }
    )


def _port(queues: Queues, fabric: PathFabric, framing: Framing, rtt: int) -> Any:
    slot_s = slot_time_s(fabric, framing)
    room, low, high = queues.queue_packets or rtt, queues.mark_low_packets, queues.mark_high_packets
    if not high:
        low, high = (math.ceil(part * room) for part in (queues.mark_low_share, queues.mark_high_share))
    pause_delay = math.ceil((2 * fabric.link_latency_s + fabric.switch_latency_s) / slot_s) + 1
    pauses, needed = queues.overflow == "pause", queues.pause_packets + pause_delay + 1
    if pauses and needed * framing.packet_bytes > queues.buffer_bytes:
        raise ValueError(
            f"buffer_bytes is {queues.buffer_bytes:,.0f}: a link of this length sends on until {needed:,} packets "
            f"wait; give {needed * framing.packet_bytes:,.0f}, or lower pause_packets"
        )
    if queues.marking and not pauses and high > room:
        raise ValueError(f"mark_high_packets is {high:g}: the queue has room for {room}; give at most that")
    return layout.PortNumbers(
        room=1 << 30 if pauses else room,
        mark_low=low if queues.marking else math.inf,
        mark_high=high,
        mark_most=queues.mark_probability,
        pause_at=queues.pause_packets,
        resume_at=queues.resume_packets,
        pause_delay=pause_delay,
    )


def _unused(kind: Any) -> Any:
    return kind(*[0] * len(kind._fields))


def _window(
    nscc: Control, fabric: PathFabric, framing: Framing, planes: int, latency_s: float, loop_s: float, most: float
) -> Any:
    """NSCC's numbers. Its gains hold for a reference network and target: they are scaled to those of the fabric."""
    if not isinstance(nscc, Nscc):
        return _unused(layout.WindowNumbers)
    link_Bps = float(fabric.link_Bps)
    slot_s = slot_time_s(fabric, framing)
    acknowledgement_s = 2 * fabric.tiers * float(framing.header_bytes) / link_Bps
    target_s = nscc.target_round_trips * (loop_s + acknowledgement_s)
    target, of_target = target_s / slot_s, target_s / nscc.reference_rtt_s
    of_product = 2 * latency_s * planes * link_Bps / (nscc.reference_Bps * nscc.reference_rtt_s)
    return layout.WindowNumbers(
        most=most,
        target=target,
        long_rtt=int(slots_for(loop_s, slot_s)),
        behind=loop_s / slot_s - 2 * latency_s / slot_s,
        fast_delay=nscc.fast_delay_s / slot_s,
        quick_delay=nscc.quick_targets * target,
        gain=nscc.proportional * of_product * of_target / target,
        fair=nscc.fair * of_product,
        fast=nscc.fast * of_product,
        creep=nscc.creep * of_product,
        cut=nscc.cut,
        smoothing=nscc.smoothing,
        period=max(1, round(nscc.period_s / slot_s)),
        adjust=max(1, round(nscc.adjust_bytes * of_target / framing.mtu_bytes)),
    )


def _credits(control: Control, fabric: PathFabric, slot_s: float) -> Any:
    if not isinstance(control, Rccc | Pulls):
        return _unused(layout.CreditNumbers)
    steady = _unused(layout.CreditNumbers)._replace(gap=1.0 / (control.credit_rate * fabric.planes))
    ratio = fabric.oversubscription
    if isinstance(control, Pulls) or ratio == 1:
        return steady
    return steady._replace(
        pacing=PACINGS.index(control.pacing),
        period=control.pace_period_s / slot_s,
        step=control.pace_step / (ratio if control.pacing == "trims" else 1),
        growth=control.pace_growth,
        cut=control.pace_cut,
        marks=control.pace_marks,
        least=control.pace_least / ratio,
    )


def _rates(dcqcn: Control, fabric: PathFabric, framing: Framing) -> Any:
    if not isinstance(dcqcn, Dcqcn):
        return _unused(layout.RateNumbers)
    slot_s = slot_time_s(fabric, framing)
    return layout.RateNumbers(
        smoothing=dcqcn.dcqcn_smoothing,
        step=dcqcn.dcqcn_step_Bps / fabric.link_Bps,
        fast_step=dcqcn.dcqcn_fast_step_Bps / fabric.link_Bps,
        timer=max(1, round(dcqcn.dcqcn_timer_s / slot_s)),
        counter=max(1, round(dcqcn.dcqcn_counter_bytes / framing.mtu_bytes)),
        least=dcqcn.dcqcn_least_share,
        notice_gap=round(dcqcn.dcqcn_notice_s / slot_s),
    )
