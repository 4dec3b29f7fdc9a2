"""Senders: which flow of a host sends, on which path, and what they do with what comes back."""

import numpy as np

from railcore.compiled import inlined, njit, prefetch
from railcore.transport.kernel.congestion import count_packet, cut_rate, shrink_window, update_window
from railcore.transport.kernel.feedback import first_due
from railcore.transport.kernel.layout import (
    ABLE,
    ACK,
    AGAIN,
    AGAIN_SHIFT,
    AHEAD,
    AT_ONCE_SHIFT,
    BITMAP,
    CREDIT,
    DCQCN,
    END,
    EV_BITS,
    FLOW_BITS,
    FLOWLET,
    GO_BACK_N,
    KIND_BITS,
    MIXED,
    NACK,
    NOTICE,
    NOW,
    NSCC,
    PATH_BITS,
    PULLS,
    RCCC,
    REPS,
    SENT,
    SEQ_BITS,
    SINGLE,
    SLOT_BITS,
    SLOT_SHIFT,
    allocate_node,
    draw,
    first_turn,
)
from railcore.transport.kernel.ports import had_time, is_held_up
from railcore.transport.kernel.receivers import acknowledge, awaits_acknowledgement, covered, owe_credits

# turns of a path that are left out, as GitHub ultraethernet/uet-htsim, htsim/sim/uec_mp.cpp
MARKED_PENALTY, LOST_PENALTY, MOST_PENALTY = 1, 4, 15


@inlined
def update_able(s, o, f):
    """Write down whether the flow may send now."""
    ready = 0
    if s.again[f, 0] >= 0 or s.sent[f] < s.need[f]:
        if o.control == NSCC:
            ready = 1 if s.flying[f] < s.window[f]["now"] else 0
        elif o.control == RCCC or o.control == PULLS:
            ready = 1 if s.credit[f] >= 1.0 else 0
        else:
            ready = 1
    if ready != s.able[f]:
        s.able[f] = ready
        s.ables[s.base[f, 0]] += 2 * ready - 1
        s.tally[ABLE] += 2 * ready - 1


@inlined
def _recycles(o):
    return o.balancing == REPS or o.balancing == MIXED


@inlined
def _leaves_out(o):
    return o.balancing == BITMAP or o.balancing == MIXED


@inlined
def _next_entropy(s, o, f, plane):
    """The entropy of the next packet of flow f on a plane, by the way of balancing."""
    at, n = f * o.planes + plane, o.entropies
    if o.balancing == SINGLE:
        return 0
    if o.balancing == FLOWLET:
        return s.cycle[f * o.planes]["start"]
    if _recycles(o) and s.recycled_at[at, 1] > s.recycled_at[at, 0]:
        ev = s.recycled[at, s.recycled_at[at, 0] & (s.recycled.shape[1] - 1)]
        s.recycled_at[at, 0] += 1
        return ev
    if o.balancing == REPS and s.sent[f] > min(s.window[f]["now"], n):
        return plane * n + draw(s.random, n)
    tries = 2 * n if _leaves_out(o) else 1
    ev = 0
    for _ in range(tries):
        if s.cycle[at]["place"] >= n:  # each round in another order
            s.cycle[at]["place"] = 0
            s.cycle[at]["start"], s.cycle[at]["stride"] = draw(s.random, n), s.strides[draw(s.random, len(s.strides))]
        ev = (s.cycle[at]["start"] + s.cycle[at]["place"] * s.cycle[at]["stride"]) % n
        s.cycle[at]["place"] += 1
        if tries == 1 or s.penalty[at, ev] == 0:
            break
        s.penalty[at, ev] -= 1
    return plane * n + ev


@inlined
def _remember_path(s, o, f, ev, penalty):
    """What the sender remembers of a path: good (penalty 0), marked, or lost."""
    at = f * o.planes + ev // o.entropies
    if penalty:
        if _leaves_out(o):
            s.penalty[at, ev % o.entropies] = min(MOST_PENALTY, s.penalty[at, ev % o.entropies] + penalty)
    elif _recycles(o) and s.recycled_at[at, 1] - s.recycled_at[at, 0] < s.recycled.shape[1]:
        s.recycled[at, s.recycled_at[at, 1] & (s.recycled.shape[1] - 1)] = ev
        s.recycled_at[at, 1] += 1


@inlined
def _next_packet(s, o, f, plane):
    """A node with the next packet of flow f: what is sent again comes first. Returns it, and 1 for sent again."""
    again = np.int64(s.again[f, 0] >= 0)
    if again:
        node = s.again[f, 0]
        seq, s.again[f, 0] = s.pool[node, 0], s.pool[node, 1]
        s.tally[AGAIN] += 1
    else:
        node = allocate_node(s)
        seq = s.sent[f]
        s.sent[f] += 1
    ev = _next_entropy(s, o, f, plane)
    path = np.int64(s.ev_path[f if len(s.ev_path) > 1 else 0, ev])
    s.pool[node, 0] = (((((f << SEQ_BITS) | seq) << EV_BITS) | ev) << PATH_BITS) | path
    return node, again


@inlined
def _send_packet(s, o, host, plane, count):
    """Take one packet of a host for a plane: the next of its flows, in turn, that may send. Returns the new count."""
    port = s.start[0] + plane * len(s.ables) + host
    now = s.tally[NOW]
    if s.rates[port] == 0.0 or is_held_up(s, o, port):
        return count
    low, many = s.first[host], s.first[host + 1] - s.first[host]
    for step in range(many):
        f = low + (s.turn[host] + step) % many
        if not s.able[f] or (o.control == DCQCN and s.rate[f]["next_at"] > now):
            continue
        if o.balancing == SINGLE and s.ev_path[f, 0] // (len(s.offset) // o.planes) != plane:
            continue
        if o.balancing == FLOWLET:  # plane and path are drawn together, once a slot where the first plane's port works
            if (plane == 0 or s.rates[s.start[0] + host] == 0.0) and now - s.last[f] > o.flowlet_gap:
                s.cycle[f * o.planes]["start"] = draw(s.random, o.planes * o.entropies)
            if s.cycle[f * o.planes]["start"] // o.entropies != plane:
                continue
        if not o.even and not had_time(s, port):
            return count
        s.turn[host] = (s.turn[host] + step + 1) % many
        node, again = _next_packet(s, o, f, plane)
        s.tally[SENT] += 1
        s.last[f] = now
        s.flying[f] += 1
        if o.control == RCCC or o.control == PULLS:
            s.credit[f] -= 1.0
        elif o.control == DCQCN:
            count_packet(s, o, f)
        update_able(s, o, f)
        at_once = np.int64(again or not s.able[f])  # nothing more is sent before the answer comes
        slot = now & ((np.int64(1) << SLOT_BITS) - 1)
        s.pool[node, 1] = (slot << SLOT_SHIFT) | (at_once << AT_ONCE_SHIFT) | (again << AGAIN_SHIFT)
        s.taken[count]["node"], s.taken[count]["port"] = node, port
        return count + 1
    return count


@njit
def send_packets(s, o):
    """Every host that may sends a packet on each of its planes. Returns how many there are."""
    hosts, count = len(s.senders), 0
    first = first_turn(s, hosts)
    for place in range(first, first + hosts):
        host = s.senders[place if place < hosts else place - hosts]
        if s.ables[host] > 0:
            turn = draw(s.random, o.planes) if o.planes > 1 and o.balancing != FLOWLET else 0  # no plane is preferred
            for plane in range(turn, turn + o.planes):
                count = _send_packet(s, o, host, plane % o.planes, count)
    return count


@inlined
def _send_again(s, f, seq):
    """Append a packet to what the flow sends again."""
    node = allocate_node(s)
    s.pool[node, 0], s.pool[node, 1] = seq, END
    if s.again[f, 0] < 0:
        s.again[f, 0] = node
    else:
        s.pool[s.again[f, 1], 1] = node
    s.again[f, 1] = node


@inlined
def _go_back(s, f, kind, seq):
    """Go-back-n: send again from the receiver's next packet on; a notice counts if no round trip has passed since."""
    now, wanted = s.tally[NOW], s.expected[f]["next"]
    if kind == NACK or (seq >= wanted and now - s.expected[f]["went_back"] >= s.rtt[f]):
        again = max(0, s.sent[f] - (seq if kind == NACK else wanted))
        s.tally[AGAIN] += again
        s.flying[f] -= again
        s.sent[f] -= again
        s.expected[f]["went_back"] = now


@inlined
def _recover(s, o, f, kind, ev, seq):
    """Selective repeat of a packet that was trimmed or lost."""
    s.flying[f] -= 1
    _remember_path(s, o, f, ev, LOST_PENALTY)
    _send_again(s, f, seq)
    if o.control == NSCC:
        shrink_window(s, o, f)
    elif o.control == RCCC:
        owe_credits(s, o, f, 1.0)
    elif o.control == PULLS and kind == NOTICE:  # no header came that would have given a credit
        s.credit[f] += 1.0


@inlined
def _hear(s, o, word, second):
    """Something comes back to a sender."""
    kind, f = word & ((1 << KIND_BITS) - 1), (word >> KIND_BITS) & ((1 << FLOW_BITS) - 1)
    report = word >> (KIND_BITS + FLOW_BITS)
    ev = report & ((1 << EV_BITS) - 1)
    if o.control == RCCC and s.heard[f] == 0:  # the first answer: what is left of the first window is void
        s.heard[f] = 1
        owe_credits(s, o, f, max(0.0, covered(s, o, f) - s.sent[f]))
        s.credit[f] = 0.0
    if kind == ACK:
        marked, packets = (report >> EV_BITS) & 1, report >> (EV_BITS + 1)
        s.flying[f] -= packets
        _remember_path(s, o, f, ev, marked * MARKED_PENALTY)
        if o.control == NSCC:
            update_window(s, o, f, marked, second, packets)
        elif o.control == DCQCN:
            cut_rate(s, o, f)
    elif kind == CREDIT:
        s.credit[f] += 1.0
    elif o.recovery == GO_BACK_N:
        _go_back(s, f, kind, second)
    else:
        _recover(s, o, f, kind, ev, second)
    update_able(s, o, f)
    if o.control == NSCC and awaits_acknowledgement(s, f):  # it asks for the acknowledgement
        acknowledge(s, o, f, ev, 0)


@njit
def hear_all(s, o):
    """Ports hear pauses, and senders what comes back to them, as far as it is due."""
    for ring in range(len(s.ring_of)):
        while first_due(s, ring) <= s.tally[NOW]:
            row = s.ring_of[ring]["row"] + (s.ring_of[ring]["out"] & s.ring_of[ring]["mask"])
            if o.control == NSCC:
                later = s.ring_of[ring]["row"] + ((s.ring_of[ring]["out"] + AHEAD) & s.ring_of[ring]["mask"])
                prefetch(s.window, (s.rings[later]["word"] >> KIND_BITS) & ((1 << FLOW_BITS) - 1), 0)
            s.ring_of[ring]["out"] += 1
            if ring == 0:
                s.stopped[s.rings[row]["word"]]["paused"] = s.rings[row]["second"]
            else:
                _hear(s, o, s.rings[row]["word"], s.rings[row]["second"])
