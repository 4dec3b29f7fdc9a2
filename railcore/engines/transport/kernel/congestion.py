"""How senders answer to congestion: the windows of NSCC (Ultra Ethernet), and the rates of DCQCN."""

from railcore.engines.transport.kernel.layout import (
    ADJUSTED_AT,
    ALPHA,
    CALM,
    CAME_THROUGH,
    COUNTED,
    COUNTER_STEPS,
    CREPT_AT,
    CUT_AT,
    GOAL,
    IGNORE,
    IGNORED,
    INCREASE,
    LOSS_SEEN,
    MEAN_DELAY,
    NEXT_AT,
    NOW,
    PERIOD_END,
    RATE,
    TIMED_AT,
    TIMER_STEPS,
    UNADJUSTED,
    WINDOW_NOW,
)
from railcore.facts.compiled import inlined, njit

FAST_GROWTH = -1.0  # in the column CALM


@inlined
def update_window(s, o, f, marked, delay, packets):
    """NSCC on an acknowledgement: by mark and delay the window grows, stays or shrinks.

    Columns of a flow's window: the window; mean delay; increase to come; packets since the last adjustment, and its
    slot; packets of low delay in a row; slot of the last cut; packets that came through since the last quick
    adaptation, and the end of its period; packets to ignore after it, and ignored; 1 where a loss asks for
    adaptation; slot of the last creep.

    Parameters
    ----------
    s, o
        State and options.
    f
        Flow.
    marked
        Whether the packet was marked.
    delay
        Of the packet, beyond the latency [slots].
    packets
        Acknowledged.

    Returns
    -------
    Nothing; `State.window` has changed.
    """
    w, now = s.window[f], s.tally[NOW]
    w[CAME_THROUGH] += packets
    w[UNADJUSTED] += packets
    w[IGNORED] += packets
    if s.rtt[f] >= o.long_rtt:
        delay += o.behind
    w[MEAN_DELAY] = o.smoothing * delay + (1.0 - o.smoothing) * w[MEAN_DELAY]
    if (w[IGNORED] < w[IGNORE] and marked) or _adapt_quickly(s, o, f, False):
        return
    if not marked:
        fast = False
        if delay >= o.target:
            w[INCREASE] += o.fair * packets
        else:
            if delay >= o.fast_delay:
                w[CALM] = 0.0
            elif w[CALM] == FAST_GROWTH or w[CALM] + packets > w[WINDOW_NOW]:
                w[CALM], fast = FAST_GROWTH, True
                w[WINDOW_NOW] += packets * o.fast
            else:
                w[CALM] += packets
            if not fast:
                w[INCREASE] += o.gain * packets * (o.target - delay)
                w[INCREASE] += o.fair * packets
    elif delay >= o.target:
        w[CALM] = 0.0
        if w[MEAN_DELAY] > o.target and now - w[CUT_AT] > s.rtt[f]:
            w[WINDOW_NOW] *= max(1.0 - o.cut * (w[MEAN_DELAY] - o.target) / w[MEAN_DELAY], 0.5)
            w[CUT_AT] = now
    if w[UNADJUSTED] > o.adjust or now - w[ADJUSTED_AT] > o.period:
        w[WINDOW_NOW] += w[INCREASE] / w[WINDOW_NOW]
        w[INCREASE], w[UNADJUSTED], w[ADJUSTED_AT] = 0.0, 0.0, now
    if now - w[CREPT_AT] > o.period:
        w[WINDOW_NOW] += o.creep
        w[CREPT_AT] = now
    w[WINDOW_NOW] = min(max(w[WINDOW_NOW], 1.0), o.most_window)


@inlined
def _adapt_quickly(s, o, f, lost):
    """NSCC's quick adaptation: after a loss or a long delay the window falls to what came through in a round trip.

    lost: whether a loss asks for it now. Returns whether the window fell.
    """
    w, now = s.window[f], s.tally[NOW]
    if now <= w[PERIOD_END]:
        return False
    asked = lost or w[LOSS_SEEN] > 0.0 or w[MEAN_DELAY] > o.quick_delay
    if w[PERIOD_END] > 0.0 and asked and w[WINDOW_NOW] >= w[CAME_THROUGH]:
        w[WINDOW_NOW] = max(w[CAME_THROUGH], 1.0)
        w[IGNORE], w[IGNORED], w[LOSS_SEEN] = s.flying[f], 0.0, 0.0
        return True
    w[CAME_THROUGH] = 0.0
    w[PERIOD_END] = now + s.rtt[f] + o.target
    return False


@inlined
def shrink_window(s, o, f):
    """NSCC on a loss."""
    w = s.window[f]
    w[WINDOW_NOW] = max(1.0, w[WINDOW_NOW] - 1.0)
    w[LOSS_SEEN] = 1.0
    if w[IGNORED] >= w[IGNORE]:
        _adapt_quickly(s, o, f, True)


@inlined
def cut_rate(s, o, f):
    """DCQCN on a notification of congestion.

    Columns of a flow's rate: rate and goal [packets a slot]; alpha; slot of the next packet; slot of the last
    notification or step of the timer, steps of the timer; packets since the last step of the byte counter, its steps;
    slot in which the receiver notified last.
    """
    r = s.rate[f]
    r[GOAL] = r[RATE]
    r[RATE] = max(r[RATE] * (1.0 - r[ALPHA] / 2.0), o.least_rate)
    r[ALPHA] = (1.0 - o.smoothing) * r[ALPHA] + o.smoothing
    r[TIMED_AT], r[TIMER_STEPS], r[COUNTED], r[COUNTER_STEPS] = s.tally[NOW], 0.0, 0.0, 0.0


@inlined
def raise_rate(o, r):
    """One step up: fast recovery for the first five (F of DCQCN's paper), then additive, then by a larger amount."""
    if max(r[TIMER_STEPS], r[COUNTER_STEPS]) > 5.0:
        r[GOAL] = min(1.0, r[GOAL] + (o.fast if min(r[TIMER_STEPS], r[COUNTER_STEPS]) > 5.0 else o.gain))
    r[RATE] = (r[RATE] + r[GOAL]) / 2.0


@inlined
def count_packet(s, o, f):
    """DCQCN sends a packet: when the next may go, and a step of the byte counter."""
    r = s.rate[f]
    r[NEXT_AT] = max(r[NEXT_AT], s.tally[NOW] - 1.0) + 1.0 / r[RATE]
    r[COUNTED] += 1.0
    if r[COUNTED] >= o.adjust and r[GOAL] > 0.0:
        r[COUNTED] = 0.0
        r[COUNTER_STEPS] += 1.0
        raise_rate(o, r)


@njit
def raise_rates(s, o):
    """DCQCN's timer, for the flows that were cut and may send: alpha decays, and the rate makes a step up."""
    for f in range(len(s.rate)):
        r = s.rate[f]
        if r[GOAL] == 0.0 or s.able[f] == 0 or s.tally[NOW] - r[TIMED_AT] < o.period:
            continue
        r[ALPHA] *= 1.0 - o.smoothing
        r[TIMED_AT] += o.period
        r[TIMER_STEPS] += 1.0
        raise_rate(o, r)
