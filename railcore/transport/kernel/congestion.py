"""How senders answer to congestion: the windows of NSCC (Ultra Ethernet), and the rates of DCQCN."""

from railcore.compiled import inlined, njit
from railcore.transport.kernel.layout import NOW

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
    w["came_through"] += packets
    w["unadjusted"] += packets
    w["ignored"] += packets
    if s.rtt[f] >= o.nscc.long_rtt:
        delay += o.nscc.behind
    w["mean_delay"] = o.nscc.smoothing * delay + (1.0 - o.nscc.smoothing) * w["mean_delay"]
    if (w["ignored"] < w["ignore"] and marked) or _adapt_quickly(s, o, f, False):
        return
    if not marked:
        fast = False
        if delay >= o.nscc.target:
            w["increase"] += o.nscc.fair * packets
        else:
            if delay >= o.nscc.fast_delay:
                w["calm"] = 0.0
            elif w["calm"] == FAST_GROWTH or w["calm"] + packets > w["now"]:
                w["calm"], fast = FAST_GROWTH, True
                w["now"] += packets * o.nscc.fast
            else:
                w["calm"] += packets
            if not fast:
                w["increase"] += o.nscc.gain * packets * (o.nscc.target - delay)
                w["increase"] += o.nscc.fair * packets
    elif delay >= o.nscc.target:
        w["calm"] = 0.0
        if w["mean_delay"] > o.nscc.target and now - w["cut_at"] > s.rtt[f]:
            w["now"] *= max(1.0 - o.nscc.cut * (w["mean_delay"] - o.nscc.target) / w["mean_delay"], 0.5)
            w["cut_at"] = now
    if w["unadjusted"] > o.nscc.adjust or now - w["adjusted_at"] > o.nscc.period:
        w["now"] += w["increase"] / w["now"]
        w["increase"], w["unadjusted"], w["adjusted_at"] = 0.0, 0.0, now
    if now - w["crept_at"] > o.nscc.period:
        w["now"] += o.nscc.creep
        w["crept_at"] = now
    w["now"] = min(max(w["now"], 1.0), o.nscc.most)


@inlined
def _adapt_quickly(s, o, f, lost):
    """NSCC's quick adaptation: after a loss or a long delay the window falls to what came through in a round trip.

    lost: whether a loss asks for it now. Returns whether the window fell.
    """
    w, now = s.window[f], s.tally[NOW]
    if now <= w["period_end"]:
        return False
    asked = lost or w["loss_seen"] > 0.0 or w["mean_delay"] > o.nscc.quick_delay
    if w["period_end"] > 0.0 and asked and w["now"] >= w["came_through"]:
        w["now"] = max(w["came_through"], 1.0)
        w["ignore"], w["ignored"], w["loss_seen"] = s.flying[f], 0.0, 0.0
        return True
    w["came_through"] = 0.0
    w["period_end"] = now + s.rtt[f] + o.nscc.target
    return False


@inlined
def shrink_window(s, o, f):
    """NSCC on a loss."""
    w = s.window[f]
    w["now"] = max(1.0, w["now"] - 1.0)
    w["loss_seen"] = 1.0
    if w["ignored"] >= w["ignore"]:
        _adapt_quickly(s, o, f, True)


@inlined
def cut_rate(s, o, f):
    """DCQCN on a notification of congestion.

    Columns of a flow's rate: rate and goal [packets a slot]; alpha; slot of the next packet; slot of the last
    notification or step of the timer, steps of the timer; packets since the last step of the byte counter, its steps;
    slot in which the receiver notified last.
    """
    r = s.rate[f]
    r["goal"] = r["rate"]
    r["rate"] = max(r["rate"] * (1.0 - r["alpha"] / 2.0), o.dcqcn.least)
    r["alpha"] = (1.0 - o.dcqcn.smoothing) * r["alpha"] + o.dcqcn.smoothing
    r["timed_at"], r["timer_steps"], r["counted"], r["counter_steps"] = s.tally[NOW], 0.0, 0.0, 0.0


@inlined
def raise_rate(o, r):
    """One step up: fast recovery for the first five (F of DCQCN's paper), then additive, then by a larger amount."""
    if max(r["timer_steps"], r["counter_steps"]) > 5.0:
        r["goal"] = min(
            1.0, r["goal"] + (o.dcqcn.fast_step if min(r["timer_steps"], r["counter_steps"]) > 5.0 else o.dcqcn.step)
        )
    r["rate"] = (r["rate"] + r["goal"]) / 2.0


@inlined
def count_packet(s, o, f):
    """DCQCN sends a packet: when the next may go, and a step of the byte counter."""
    r = s.rate[f]
    r["next_at"] = max(r["next_at"], s.tally[NOW] - 1.0) + 1.0 / r["rate"]
    r["counted"] += 1.0
    if r["counted"] >= o.dcqcn.counter and r["goal"] > 0.0:
        r["counted"] = 0.0
        r["counter_steps"] += 1.0
        raise_rate(o, r)


@njit
def raise_rates(s, o):
    """DCQCN's timer, for the flows that were cut and may send: alpha decays, and the rate makes a step up."""
    for f in range(len(s.rate)):
        r = s.rate[f]
        if r["goal"] == 0.0 or s.able[f] == 0 or s.tally[NOW] - r["timed_at"] < o.dcqcn.timer:
            continue
        r["alpha"] *= 1.0 - o.dcqcn.smoothing
        r["timed_at"] += o.dcqcn.timer
        r["timer_steps"] += 1.0
        raise_rate(o, r)
