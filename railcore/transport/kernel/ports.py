"""Output ports: queues, marks, trims, pauses and losses, and how a packet passes from port to port."""

import numpy as np

from railcore.compiled import inlined, njit, prefetch
from railcore.transport.kernel.feedback import notice_later, push_words, queue_header, send_back
from railcore.transport.kernel.layout import (
    AGAIN_SHIFT,
    AHEAD,
    DEEPEST,
    FLOWLET,
    LOSS_IN,
    LOST,
    MARK_SHIFT,
    NACK,
    NEXT_BITS,
    NOW,
    PAUSE,
    PAUSES,
    PULLS,
    QUEUED,
    RCCC,
    SELECTIVE,
    TRIM,
    TRIMMED,
    entropy_of,
    first_turn,
    flow_of,
    port_at,
    release_node,
    seq_of,
    uniform,
)
from railcore.transport.kernel.receivers import owe_credits, receive_packet

# place of the only bit of a number, by its remainder of 37, which no two of 2^0 to 2^35 share
BIT = np.array([0 if place == 0 else max(b for b in range(36) if (1 << b) % 37 == place) for place in range(37)])
HEADER, GONE, DEAD = range(3)  # what is left of a packet: its header, a gap, or nothing that anyone sees


@njit
def _end_early(s, o, node, left):
    """A packet ends on its way.

    The receiver asks again for a packet whose header comes, or whose gap a later one of the same path shows, if the
    path is not dead; else the sender's timer tells.
    """
    word, again = s.pool[node, 0], (s.pool[node, 1] >> AGAIN_SHIFT) & 1
    f, seq, ev = flow_of(word), seq_of(word), entropy_of(word)
    release_node(s, node)
    s.tally[TRIMMED if left == HEADER else LOST] += 1
    in_order = o.balancing <= FLOWLET and seq < s.need[f] - 1 and not again and o.recovery == SELECTIVE
    if left == HEADER or (left == GONE and in_order):
        if o.control == PULLS:
            owe_credits(s, o, f, 1.0)
        send_back(s, o, f, NACK, ev, seq)
    else:
        notice_later(s, o, word)


@njit
def _forward_header(s, o, port, word):
    """The header of a trimmed packet goes before the packets of this port and of those after it."""
    f, passed = flow_of(word), False
    for stage in range(1, o.stages):
        if s.base[f, stage] >= 0:
            later = port_at(s, word, stage)
            passed |= later == port
            if passed:
                queue_header(s.queue, later, o.header)
    before_last = port_at(s, word, o.stages - 1) != port
    pace = s.pace[s.base[f, o.stages - 1]]
    if before_last:
        pace["trimmed_before"] += 1.0
    else:
        pace["trimmed_last"] += 1.0


@inlined
def _enqueue(s, o, port, came_over, node):
    """A packet comes to an output port: it waits, or is trimmed, dropped, or stops the link that it came over."""
    length = s.queue[port]["length"]
    if o.dead and s.rates[port] == 0.0:
        _end_early(s, o, node, np.int64(DEAD))
    elif length >= (o.port.room if o.even else max(1.0, o.port.room * s.rates[port])):
        if o.overflow == TRIM:
            _forward_header(s, o, port, s.pool[node, 0])
        _end_early(s, o, node, np.int64(HEADER if o.overflow == TRIM else GONE))
    else:
        if length == 0:
            s.queue[port]["head"] = node
            s.waiting[port >> 5] |= 1 << (port & 31)
        else:
            s.pool[s.queue[port]["tail"], 1] += node  # its lowest bits are 0: it was the last
        s.queue[port]["tail"] = node
        s.queue[port]["length"] = length + 1
        s.tally[QUEUED] += 1
        s.tally[DEEPEST] = max(s.tally[DEEPEST], length + 1)
        if o.overflow == PAUSE:
            s.held[came_over] += 1
            if s.held[came_over] >= o.port.pause_at and s.stopped[came_over]["told_to_pause"] == 0:
                s.tally[PAUSES] += 1
                _tell_link(s, o, came_over, 1)


@inlined
def _tell_link(s, o, port, pause):
    """Tell the port at the other end of a link to pause, or to resume."""
    s.stopped[port]["told_to_pause"] = pause
    push_words(s, 0, o.port.pause_delay, port, pause)


@inlined
def _leave_buffer(s, o, came_over):
    """A packet leaves the buffer of the link that it came over, which may resume."""
    s.held[came_over] -= 1
    if s.held[came_over] <= o.port.resume_at and s.stopped[came_over]["told_to_pause"] == 1:
        _tell_link(s, o, came_over, 0)


@inlined
def hops_to_loss(s, o):
    """Packet hops until the next loss, geometric: one draw for each loss, and not for each packet."""
    return np.int64(np.log(uniform(s)) / np.log1p(-o.loss)) + 1


@njit
def _is_lost(s, o, node):
    """Whether a packet is lost on the link."""
    s.tally[LOSS_IN] -= 1
    if s.tally[LOSS_IN] > 0:
        return False
    s.tally[LOSS_IN] = hops_to_loss(s, o)
    _end_early(s, o, node, np.int64(GONE))
    return True


@inlined
def _port_before(s, word, stage):
    """The port that a packet passed before this stage."""
    stage -= 1
    while s.base[flow_of(word), stage] < 0:
        stage -= 1
    return port_at(s, word, stage)


@inlined
def _next_port(s, word, stage):
    """The port that a packet comes to after this stage."""
    stage += 1
    while s.base[flow_of(word), stage] < 0:
        stage += 1
    return port_at(s, word, stage)


@inlined
def is_held_up(s, o, port):
    """Whether a port sends no packet in this slot because it is paused, or because of headers."""
    if o.overflow == PAUSE and s.stopped[port]["paused"]:
        return True
    if s.queue[port]["header_bytes"] >= o.wire:
        s.queue[port]["header_bytes"] -= o.wire
        return True
    return False


@inlined
def had_time(s, port):
    """Whether a port has had the time that its next packet takes; for ports that are not all alike."""
    now = s.tally[NOW]
    done = s.free_at[port] + 1.0 / s.rates[port]
    if done <= now:  # it was idle
        s.free_at[port] = now
        done = now + 1.0 / s.rates[port]
    if done > now + 1.0 + 1e-9:
        return False
    s.free_at[port] = done
    return True


@inlined
def _is_marked(s, o, port, length):
    """Whether a packet is marked that leaves so many in the queue: perhaps above mark_low, always above mark_high.

    Both go with the port's speed, as the room of a queue does.
    """
    if not o.even:
        length /= s.rates[port]
    if length <= o.port.mark_low:
        return False
    if length > o.port.mark_high:
        return True
    return uniform(s) * (o.port.mark_high - o.port.mark_low) < o.port.mark_most * (length - o.port.mark_low)


@inlined
def _list_waiting(s, low, high, count):
    """Append ports from low up to high where packets wait to `State.taken`. Returns how many it has."""
    for word in range(low >> 5, (high + 31) >> 5):
        bits = s.waiting[word]
        while bits:
            port = (word << 5) + BIT[(bits & -bits) % 37]
            bits &= bits - 1
            if low <= port < high:
                s.taken[count]["port"] = port
                count += 1
    return count


@njit
def take_packets(s, o, stage):
    """Every port of a stage that may send takes its first packet. Returns how many there are.

    All are chosen, then taken, then passed on, and each is asked for before that: so the waits for memory overlap.
    """
    high, count = s.start[stage + 1], 0
    first = s.start[stage] + first_turn(s, high - s.start[stage])
    marks = o.control != RCCC or stage < o.stages - 1  # credits rule the receiver's own link
    waiting = _list_waiting(s, s.start[stage], first, _list_waiting(s, first, high, 0))
    for place in range(waiting):
        port = np.int64(s.taken[place]["port"])
        length = s.queue[port]["length"] - 1
        if is_held_up(s, o, port) or not (o.even or had_time(s, port)):
            continue
        s.queue[port]["length"] = length
        s.waiting[port >> 5] ^= np.int64(length == 0) << (port & 31)
        node = s.queue[port]["head"]
        prefetch(s.pool, node, 0)
        s.taken[count]["node"], s.taken[count]["port"] = node, port
        s.taken[count]["mark"] = marks and _is_marked(s, o, port, length)
        count += 1
    s.tally[QUEUED] -= count
    for place in range(count):
        node, port = np.int64(s.taken[place]["node"]), np.int64(s.taken[place]["port"])
        second = s.pool[node, 1]
        s.queue[port]["head"] = second & ((1 << NEXT_BITS) - 1)
        second &= ~((np.int64(1) << NEXT_BITS) - 1)
        s.pool[node, 1] = second | (np.int64(s.taken[place]["mark"]) << MARK_SHIFT)
    return count


@inlined
def _look_ahead(s, stage, place, last, buffered):
    """Find the ports where a packet goes and came from, and ask for what it needs there."""
    word = s.pool[s.taken[place]["node"], 0]
    if buffered:
        s.taken[place]["came_over"] = came_over = _port_before(s, word, stage)
        prefetch(s.held, came_over, 0)
    if last:
        prefetch(s.seen, flow_of(word), seq_of(word) >> 5)
    else:
        s.taken[place]["to"] = to = _next_port(s, word, stage)
        prefetch(s.queue, to, 0)


@njit
def pass_on(s, o, stage, count):
    """Packets leave their ports: they come to the next port of their path, or to their receiver.

    What a packet needs is asked for while those before it pass on: its next queue, then the last packet of that queue.

    Parameters
    ----------
    s, o
        State and options; `State.taken` has the packets.
    stage
        Of the ports.
    count
        Packets.

    Returns
    -------
    Nothing.
    """
    last, buffered = stage == o.stages - 1, o.overflow == PAUSE and stage > 0
    for step in range(count + 2 * AHEAD):
        if step < count:
            _look_ahead(s, stage, step, last, buffered)
        if not last and AHEAD <= step < count + AHEAD:
            prefetch(s.pool, s.queue[s.taken[step - AHEAD]["to"]]["tail"], 0)
        if step < 2 * AHEAD:
            continue
        place = step - 2 * AHEAD
        node, port = np.int64(s.taken[place]["node"]), np.int64(s.taken[place]["port"])
        s.passed[port] += 1
        if buffered:
            _leave_buffer(s, o, np.int64(s.taken[place]["came_over"]))
        if o.loss > 0.0 and _is_lost(s, o, node):
            continue
        if last:
            receive_packet(s, o, node)
        else:
            _enqueue(s, o, np.int64(s.taken[place]["to"]), port, node)
