"""Receivers: what they do with arrivals, what they acknowledge, and the credits that they give."""

import numpy as np

from railcore.compiled import inlined, njit
from railcore.transport.kernel.feedback import path_report, send_back
from railcore.transport.kernel.layout import (
    ACK,
    AT_ONCE_SHIFT,
    BY_MARKS,
    BY_TRIMS,
    CREDIT,
    DCQCN,
    DEMAND,
    DISCARDED,
    END,
    FLOWLET,
    GO_BACK_N,
    LINE_RATE,
    MARK_SHIFT,
    MARKED,
    NACK,
    NOW,
    PULLS,
    SLOT_BITS,
    SLOT_SHIFT,
    STEADY,
    UNFINISHED,
    entropy_of,
    flow_of,
    release_node,
    seq_of,
    uniform,
)


@inlined
def _wait_for_credit(s, f, host):
    s.wants_next[f] = END
    if s.wants[host, 0] < 0:
        s.wants[host, 0] = f
        s.tally[DEMAND] += 1
    else:
        s.wants_next[s.wants[host, 1]] = f
    s.wants[host, 1] = f


@inlined
def owe_credits(s, o, f, packets):
    """The receiver owes a flow credits; a flow that it owes a whole one waits in turn.

    Parameters
    ----------
    s, o
        State and options.
    f
        Flow.
    packets
        Credits more.

    Returns
    -------
    Nothing.
    """
    if s.asked[f] < 1.0 <= s.asked[f] + packets:
        _wait_for_credit(s, f, s.base[f, o.stages - 1])
    s.asked[f] += packets


@inlined
def covered(s, o, f):
    """Packets that a flow sends without credits: those of its first window that a round trip has time for."""
    planes = o.planes if o.balancing > FLOWLET else 1  # that a flow uses at once
    return min(o.window, s.rtt[f] * planes, s.need[f])


@inlined
def awaits_acknowledgement(s, f):
    """Whether a sender waits for packets that came and were not acknowledged yet, and for nothing else."""
    return not s.able[f] and 0 < s.flying[f] == s.unacked[f]


@inlined
def acknowledge(s, o, f, report, delay):
    """Acknowledge all that a flow's receiver has got and not acknowledged.

    Parameters
    ----------
    s, o
        State and options.
    f
        Flow.
    report
        Entropy and mark, of `path_report`.
    delay
        Of the last packet, from sender to receiver [slots beyond the latency].

    Returns
    -------
    Nothing.
    """
    send_back(s, o, f, ACK, report | path_report(0, 0, s.unacked[f]), delay)
    s.unacked[f] = 0


@inlined
def receive_packet(s, o, node):
    """A packet comes to its receiver."""
    word, second = s.pool[node, 0], s.pool[node, 1]
    release_node(s, node)
    f, seq, ev, now = flow_of(word), seq_of(word), entropy_of(word), s.tally[NOW]
    marked, at_once = (second >> MARK_SHIFT) & 1, (second >> AT_ONCE_SHIFT) & 1
    delay = (now - (second >> SLOT_SHIFT)) & ((np.int64(1) << SLOT_BITS) - 1)
    if o.credits.pacing != STEADY:
        s.pace[s.base[f, o.stages - 1]]["came"] += 1.0
        s.pace[s.base[f, o.stages - 1]]["marked"] += marked
    if o.control == PULLS and s.sent[f] + s.asked[f] + s.credit[f] < s.need[f]:
        owe_credits(s, o, f, 1.0)
    if o.recovery == GO_BACK_N:
        if seq != s.expected[f]["next"]:
            s.tally[DISCARDED] += 1
            if seq > s.expected[f]["next"] and s.expected[f]["gap_told"] == 0:
                s.expected[f]["gap_told"] = 1
                send_back(s, o, f, NACK, ev, s.expected[f]["next"])
            return
        s.expected[f]["next"] += 1
        s.expected[f]["gap_told"] = 0
    bit = np.int64(1) << (seq & 31)
    if s.seen[f, seq >> 5] & bit:
        s.tally[DISCARDED] += 1
        return
    s.seen[f, seq >> 5] |= bit
    s.got[f] += 1
    complete = s.got[f] == s.need[f]
    s.tally[MARKED] += marked
    if complete:
        s.finish[f] = now
        s.tally[UNFINISHED] -= 1
    if o.control == LINE_RATE:
        return
    if o.control == DCQCN:
        if marked and now - s.rate[f]["notified_at"] >= o.dcqcn.notice_gap:
            s.rate[f]["notified_at"] = now
            send_back(s, o, f, ACK, path_report(ev, marked, 0), delay)
        return
    s.unacked[f] += 1
    first = s.got[f] == 1
    if marked or complete or at_once or first or s.unacked[f] >= o.sack or awaits_acknowledgement(s, f):
        acknowledge(s, o, f, path_report(ev, marked, 0), delay)


@njit
def _set_pace(s, o, host):
    """A receiver slows its credits by marks, and by the share trimmed before the last switch; else they grow.

    Weight of the newest marks and spread of the times: GitHub ultraethernet/uet-htsim, oversubscribed_cc.cpp.
    """
    p = s.pace[host]
    p["mean_marked"] = (p["mean_marked"] + p["marked"] / max(p["came"], 1.0)) / 2.0
    slows = p["mean_marked"] > o.credits.marks
    if o.credits.pacing == BY_TRIMS and p["trimmed_before"] > 0.0:
        p["share"] -= p["trimmed_before"] / (p["came"] + p["trimmed_last"] + p["trimmed_before"])
        slows = True
    if p["mean_marked"] > o.credits.marks:
        p["share"] *= 1.0 - (p["mean_marked"] - o.credits.marks) * o.credits.cut
    if slows:
        p["step"] = o.credits.step
    else:
        p["share"] += p["step"] if p["marked"] == 0.0 or o.credits.pacing == BY_MARKS else o.credits.step
        p["step"] *= o.credits.growth
    p["share"] = min(max(p["share"], o.credits.least), 1.0)
    p["came"], p["trimmed_last"], p["trimmed_before"], p["marked"] = 0.0, 0.0, 0.0, 0.0
    p["paced_at"] = s.tally[NOW] + (0.75 + 0.5 * uniform(s)) * o.credits.period  # receivers do not move in step


@njit
def give_credits(s, o):
    """Every receiver sends the next credit that it owes, its flows in turn."""
    now = s.tally[NOW]
    for host in s.receivers:
        if o.credits.pacing != STEADY and s.pace[host]["paced_at"] <= now:
            _set_pace(s, o, host)
        while s.wants[host, 0] >= 0 and s.credit_at[host] < now + 1.0 - 1e-9:
            f = s.wants[host, 0]
            s.credit_at[host] = max(s.credit_at[host], now) + o.credits.gap / s.pace[host]["share"]
            s.asked[f] -= 1.0
            s.wants[host, 0] = s.wants_next[f]
            if s.wants[host, 0] < 0:
                s.tally[DEMAND] -= 1
            if s.asked[f] >= 1.0:
                _wait_for_credit(s, f, host)
            send_back(s, o, f, CREDIT, 0, 0)
