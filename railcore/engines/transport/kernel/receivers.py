"""Receivers: what they do with arrivals, what they acknowledge, and the credits that they give."""

import numpy as np

from railcore.engines.transport.kernel.feedback import path_report, send_back
from railcore.engines.transport.kernel.layout import (
    ACK,
    AT_ONCE_SHIFT,
    BY_MARKS,
    BY_TRIMS,
    CAME,
    CREDIT,
    DCQCN,
    DEMAND,
    DISCARDED,
    END,
    GAP_TOLD,
    GO_BACK_N,
    IN_ORDER,
    LINE_RATE,
    MARK_SHIFT,
    MARKED,
    MARKED_OF_CAME,
    MEAN_MARKED,
    NACK,
    NOTIFIED_AT,
    NOW,
    PACED_AT,
    PULLS,
    SHARE,
    SLOT_BITS,
    SLOT_SHIFT,
    STEADY,
    STEP,
    TRIMMED_BEFORE,
    UNFINISHED,
    entropy_of,
    flow_of,
    release_node,
    seq_of,
    uniform,
)
from railcore.facts.compiled import inlined, njit


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
    return min(o.window, s.rtt[f], s.need[f])


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
    if o.pacing != STEADY:
        s.pace[s.base[f, o.stages - 1], CAME] += 1.0
        s.pace[s.base[f, o.stages - 1], MARKED_OF_CAME] += marked
    if o.control == PULLS and s.sent[f] + s.asked[f] + s.credit[f] < s.need[f]:
        owe_credits(s, o, f, 1.0)
    if o.recovery == GO_BACK_N:
        if seq != s.expected[f, IN_ORDER]:
            s.tally[DISCARDED] += 1
            if seq > s.expected[f, IN_ORDER] and s.expected[f, GAP_TOLD] == 0:
                s.expected[f, GAP_TOLD] = 1
                send_back(s, o, f, NACK, ev, s.expected[f, IN_ORDER])
            return
        s.expected[f, IN_ORDER] += 1
        s.expected[f, GAP_TOLD] = 0
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
        if marked and now - s.rate[f, NOTIFIED_AT] >= o.notice_gap:
            s.rate[f, NOTIFIED_AT] = now
            send_back(s, o, f, ACK, path_report(ev, marked, 0), delay)
        return
    s.unacked[f] += 1
    first = s.got[f] == 1
    if marked or complete or at_once or first or s.unacked[f] >= o.sack or awaits_acknowledgement(s, f):
        acknowledge(s, o, f, path_report(ev, marked, 0), delay)


@njit
def _set_pace(s, o, host):
    """A receiver slows its credits by marks, and by the share trimmed before the last switch; else they grow.

    Least share, weight of the newest marks and spread of the times: GitHub ultraethernet/uet-htsim,
    oversubscribed_cc.cpp.
    """
    p = s.pace[host]
    p[MEAN_MARKED] = (p[MEAN_MARKED] + p[MARKED_OF_CAME] / max(p[CAME], 1.0)) / 2.0
    slows = p[MEAN_MARKED] > o.pace_marks
    if o.pacing == BY_TRIMS and p[TRIMMED_BEFORE] > 0.0:
        p[SHARE] -= p[TRIMMED_BEFORE] / (p[CAME] + p[TRIMMED_BEFORE])
        slows = True
    if p[MEAN_MARKED] > o.pace_marks:
        p[SHARE] *= 1.0 - (p[MEAN_MARKED] - o.pace_marks) * o.pace_cut
    if slows:
        p[STEP] = o.pace_step
    else:
        p[SHARE] += p[STEP] if p[MARKED_OF_CAME] == 0.0 or o.pacing == BY_MARKS else o.pace_step
        p[STEP] *= o.pace_growth
    p[SHARE] = min(max(p[SHARE], 0.01), 1.0)
    p[CAME], p[TRIMMED_BEFORE], p[MARKED_OF_CAME] = 0.0, 0.0, 0.0
    p[PACED_AT] = s.tally[NOW] + (0.75 + 0.5 * uniform(s)) * o.pace_period  # receivers do not move in step


@njit
def give_credits(s, o):
    """Every receiver sends the next credit that it owes, its flows in turn."""
    now = s.tally[NOW]
    for host in s.receivers:
        if o.pacing != STEADY and s.pace[host, PACED_AT] <= now:
            _set_pace(s, o, host)
        while s.wants[host, 0] >= 0 and s.credit_at[host] < now + 1.0 - 1e-9:
            f = s.wants[host, 0]
            s.credit_at[host] = max(s.credit_at[host], now) + o.credit_gap / s.pace[host, SHARE]
            s.asked[f] -= 1.0
            s.wants[host, 0] = s.wants_next[f]
            if s.wants[host, 0] < 0:
                s.tally[DEMAND] -= 1
            if s.asked[f] >= 1.0:
                _wait_for_credit(s, f, host)
            send_back(s, o, f, CREDIT, 0, 0)
