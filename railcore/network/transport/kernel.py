"""Packets over the output ports of a fabric, slot by slot: the loop that `packets.simulate` compiles.

A slot is the time that one packet takes on a link of full speed. Every stage of ports runs on a clock of its own,
late by the latency of the stages before it, so that a packet that meets no queue passes all stages in one slot; only
what travels back (acknowledgements, credits, pauses) waits, for the whole loop's latency. Queues are linked lists of
packets in one pool.
"""

from typing import NamedTuple

import numpy as np

from railcore.network.transport.compiled import inlined, njit

LINE_RATE, WINDOW, CREDITS, PULLS, DCQCN = range(5)  # control
SINGLE, FLOWLET, OBLIVIOUS, BITMAP, REPS, MIXED = range(6)  # balancing
TRIM, DROP, PAUSE = range(3)  # overflow
SELECTIVE, GO_BACK_N = range(2)  # recovery
ACK, NACK, CREDIT, NOTICE = range(4)  # what comes back to a sender
HEADER, GONE, DEAD = range(3)  # how a packet ends on its way
DONE, TOO_LONG, NO_ROOM = range(3)  # how a run ends

# places in State.tally
(NOW, FREE, FRESH, ABLE, QUEUED, UNFINISHED, LOSS_IN, DEMAND) = range(8)
(SENT, AGAIN, TRIMMED, LOST, MARKED, PAUSES, DISCARDED, DEEPEST, TOLD, COUNTS) = range(8, 18)

SEQ_BITS, EV_BITS, PATH_BITS = 22, 11, 11  # of a packet's word, beside its flow
TOLD_TOGETHER = 8  # headers going back that are charged to links at once: every eighth stands for eight
NEXT_BITS = 25  # of a packet's second word; above: marked, sent again, to be answered at once, slot it was sent in


class Options(NamedTuple):
    """Numbers of a run that do not change; times in slots, sizes in packets."""

    control: int
    balancing: int
    overflow: int
    recovery: int
    stages: int
    planes: int
    entropies: int  # of a plane
    queue: int
    wire: int  # bytes of a packet on a link
    header: int  # of what has no payload
    mark_low: float
    mark_high: float
    mark_most: float  # probability at mark_high
    pause_at: int
    resume_at: int
    pause_delay: int
    sack: int
    flowlet_gap: int
    timeout: int
    most_slots: int
    loss: float  # of a packet on a link
    even: bool  # all ports are at full speed
    window: float  # first one
    most_window: float
    target: float  # delay over the latency alone that a window aims at
    long_rtt: int  # of two hosts that are as far apart as can be
    behind: float  # of it, what sending takes
    fast_delay: float  # below it a window grows fast
    gain: float  # of the proportional increase
    fair: float
    fast: float
    creep: float  # that a window grows by each adjustment period
    cut: float
    smoothing: float
    period: int
    adjust: int
    quick_delay: float
    credit_gap: float  # slots between two credits of a receiver
    pace_period: float  # between two changes of a receiver's pace, 0 for a pace that stays
    pace_step: float  # that it grows by, more each time
    least_rate: float
    notice_gap: int  # slots between two notifications of congestion


class State(NamedTuple):
    """Arrays of a run; `packets.simulate` makes them."""

    base: np.ndarray  # [flows, stages] int32
    back: np.ndarray  # of the way from receiver to sender
    offset: np.ndarray  # [paths, stages] int32
    ev_path: np.ndarray  # [flows or 1, planes * entropies] int16
    strides: np.ndarray  # numbers without a common divisor with the entropies
    start: np.ndarray  # [stages + 1] first port
    rates: np.ndarray  # [ports]
    free_at: np.ndarray  # [ports] slot from which the port may send again, where rates differ
    rtt: np.ndarray  # [flows] slots of the loop without queues
    loop: np.ndarray  # [flows] ring of what comes back to it: one ring for each length of the loop
    need: np.ndarray  # [flows] packets
    first: np.ndarray  # [hosts + 1] flows of a host
    begins: np.ndarray  # [flows] slot of the start, and order of the starts
    order: np.ndarray
    queue: np.ndarray  # [ports, 4] head, tail, length, bytes of headers that go before them
    pool: np.ndarray  # [nodes, 2]
    taken: np.ndarray  # [ports of the largest stage, 2] node, port
    held: np.ndarray  # [ports] packets that came over this link and wait at the next switch
    stopped: np.ndarray  # [ports, 2] told to pause; paused
    rings: np.ndarray  # [room of all, 3] due, words: pauses (port, state), then what comes back, then notices of losses
    ring_of: np.ndarray  # [rings, 4] words taken out, words put in, first row, room - 1
    turn: np.ndarray  # [hosts] next flow of the host to look at
    able: np.ndarray  # [flows] 1 where the flow may send
    ables: np.ndarray  # [hosts]
    sent: np.ndarray  # [flows] next new packet
    again: np.ndarray  # [flows, 2] first and last node of what is sent again
    flying: np.ndarray  # [flows]
    window: np.ndarray  # [flows, 9] floats
    credit: np.ndarray  # [flows]
    cycle: np.ndarray  # [flows * planes, 3] place, start, stride
    skip: np.ndarray  # [flows * planes, entropies] penalties
    ring: np.ndarray  # [flows * planes, room] recycled entropies
    ring_at: np.ndarray  # [flows * planes, 2]
    last: np.ndarray  # [flows] slot of the last sending
    got: np.ndarray  # [flows] packets received
    seen: np.ndarray  # [flows, words] bits of packets received
    expected: np.ndarray  # [flows, 3] next in order; 1 where a gap is told; slot in which the sender went back last
    unacked: np.ndarray  # [flows]
    finish: np.ndarray  # [flows] slot of the last packet's arrival, -1 before
    asked: np.ndarray  # [flows] credits that the receiver still owes
    wants: np.ndarray  # [hosts, 2] first and last flow that waits for credits
    pace: np.ndarray  # [hosts, 5] share of the credits, packets, trims before the last switch, next step, slot of it
    credit_at: np.ndarray  # [hosts] slot of the next credit
    wants_next: np.ndarray  # [flows]
    passed: np.ndarray  # [ports] packets sent
    rate: np.ndarray  # [flows, 8] of DCQCN
    random: np.ndarray  # [1] uint64
    tally: np.ndarray  # [COUNTS]


@inlined
def draw(random, below):
    """A random whole number from 0 to below - 1 (xorshift)."""
    x = random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    random[0] = x
    return np.int64(x >> np.uint64(33)) % below


@inlined
def uniform(s):
    """A random number from 0 to 1."""
    return (draw(s.random, 2147483647) + 1) / 2147483648.0


@njit
def _append(rings, ring_of, tally, ring, due, first, second):
    """Append to a ring."""
    head, tail, start, mask = ring_of[ring]
    if tail - head > mask:
        tally[FREE] = -2
        return
    row = start + (tail & mask)
    rings[row, 0], rings[row, 1], rings[row, 2] = due, first, second
    ring_of[ring, 1] = tail + 1


@inlined
def put(s, ring, due, first, second):
    """Append to a ring; constants become numbers of one type, or each would be compiled for itself."""
    _append(s.rings, s.ring_of, s.tally, np.int64(ring), np.int64(due), np.int64(first), np.int64(second))


@inlined
def burden(s, o, port):
    """A header goes before the packets that wait at a port; it takes no time where none wait."""
    if s.queue[port, 2] > 0:
        s.queue[port, 3] += o.header


@njit
def burden_back(queue, back, offset, random, f, header, busy):
    """A header goes from the receiver of flow f to the sender, on a path drawn at random. busy: the receiver sends."""
    path = draw(random, len(offset))
    for stage in range(back.shape[1]):
        if back[f, stage] >= 0:
            port = back[f, stage] + offset[path, stage]
            if queue[port, 2] > 0 or (stage == 0 and busy):
                queue[port, 3] += header


@inlined
def tell(s, o, f, kind, first, second):
    """Send a word back to the sender of flow f; it comes a loop's latency later."""
    s.tally[TOLD] += 1
    if s.tally[TOLD] % TOLD_TOGETHER == 0:
        busy = s.ables[s.base[f, o.stages - 1]] > 0
        burden_back(s.queue, s.back, s.offset, s.random, np.int64(f), np.int64(o.header * TOLD_TOGETHER), busy)
    put(s, s.loop[f], s.tally[NOW] + s.rtt[f], (f << 2) | kind | (first << 21), second)


@inlined
def allocate(s):
    """A node of the pool."""
    node = s.tally[FREE]
    if node >= 0:
        s.tally[FREE] = s.pool[node, 0]
    elif node == -1 and s.tally[FRESH] < len(s.pool):
        node = s.tally[FRESH]
        s.tally[FRESH] = node + 1
    else:
        s.tally[FREE] = -2
        node = 0
    return node


@inlined
def release(s, node):
    """Give a node back."""
    if s.tally[FREE] != -2:
        s.pool[node, 0] = s.tally[FREE]
        s.tally[FREE] = node


@inlined
def set_able(s, o, f, host):
    """Write down whether the flow may send now."""
    ready = 0
    if s.again[f, 0] >= 0 or s.sent[f] < s.need[f]:
        if o.control == WINDOW:
            ready = 1 if s.flying[f] < s.window[f, 0] else 0
        elif o.control == CREDITS or o.control == PULLS:
            ready = 1 if s.credit[f] >= 1.0 else 0
        else:
            ready = 1
    if ready != s.able[f]:
        s.able[f] = ready
        s.ables[host] += 2 * ready - 1
        s.tally[ABLE] += 2 * ready - 1


@inlined
def send_again(s, f, seq):
    """Append a packet to what the flow sends again."""
    node = allocate(s)
    s.pool[node, 0], s.pool[node, 1] = seq, -1
    if s.again[f, 0] < 0:
        s.again[f, 0] = node
    else:
        s.pool[s.again[f, 1], 1] = node
    s.again[f, 1] = node


@inlined
def next_entropy(s, o, f, plane):
    """The entropy of the next packet of flow f on a plane, by the way of balancing."""
    at, n = f * o.planes + plane, o.entropies
    if o.balancing == SINGLE:
        return 0
    if o.balancing == FLOWLET:
        if s.tally[NOW] - s.last[f] > o.flowlet_gap:
            s.cycle[at, 1] = draw(s.random, n)
        return plane * n + s.cycle[at, 1]
    if (o.balancing == REPS or o.balancing == MIXED) and s.ring_at[at, 1] > s.ring_at[at, 0]:
        ev = s.ring[at, s.ring_at[at, 0] & (s.ring.shape[1] - 1)]
        s.ring_at[at, 0] += 1
        return ev
    if o.balancing == REPS and s.sent[f] > min(s.window[f, 0], n):
        return plane * n + draw(s.random, n)
    tries = 2 * n if o.balancing == BITMAP or o.balancing == MIXED else 1
    ev = 0
    for _ in range(tries):
        if s.cycle[at, 0] >= n:
            s.cycle[at, 0] = 0
            s.cycle[at, 1], s.cycle[at, 2] = draw(s.random, n), s.strides[draw(s.random, len(s.strides))]
        ev = (s.cycle[at, 1] + s.cycle[at, 0] * s.cycle[at, 2]) % n
        s.cycle[at, 0] += 1
        if tries == 1 or s.skip[at, ev] == 0:
            break
        s.skip[at, ev] -= 1
    return plane * n + ev


@inlined
def judge_path(s, o, f, ev, penalty):
    """What the sender remembers of a path: penalty 0 is good, 1 marked, 4 trimmed or lost."""
    at = f * o.planes + ev // o.entropies
    if (o.balancing == BITMAP or o.balancing == MIXED) and penalty:
        s.skip[at, ev % o.entropies] = min(15, s.skip[at, ev % o.entropies] + penalty)
    room = s.ring.shape[1]
    if (o.balancing == REPS or o.balancing == MIXED) and not penalty and s.ring_at[at, 1] - s.ring_at[at, 0] < room:
        s.ring[at, s.ring_at[at, 1] & (room - 1)] = ev
        s.ring_at[at, 1] += 1


@njit
def end_early(s, o, node, how):
    """A packet ends on its way: its header goes on, ahead of all queues, or it is gone without a trace.

    The receiver asks again for a packet whose header comes, or whose gap a later one of the same path shows, if the
    path is not dead; else the sender's timer tells.
    """
    word = s.pool[node, 0]
    f, seq = word >> (SEQ_BITS + EV_BITS + PATH_BITS), (word >> (EV_BITS + PATH_BITS)) & ((1 << SEQ_BITS) - 1)
    ev = (word >> PATH_BITS) & ((1 << EV_BITS) - 1)
    again = (s.pool[node, 1] >> (NEXT_BITS + 1)) & 1
    release(s, node)
    s.tally[TRIMMED if how == HEADER else LOST] += 1
    gap = how == GONE and o.balancing <= FLOWLET and seq < s.need[f] - 1 and not again and o.recovery == SELECTIVE
    if how == HEADER or gap:
        if o.control == PULLS:
            ask(s, o, f, 1.0)
        tell(s, o, f, NACK, ev, seq)
    else:
        ring = s.loop[f] + (len(s.ring_of) - 1) // 2
        put(s, ring, s.tally[NOW] + s.rtt[f] + o.timeout, (f << 2) | NOTICE | (ev << 21), seq)


@njit
def head_on(s, o, port, word):
    """The header of a trimmed packet goes on from this port."""
    f, path = word >> (SEQ_BITS + EV_BITS + PATH_BITS), word & ((1 << PATH_BITS) - 1)
    passed = False
    for stage in range(1, o.stages):
        if s.base[f, stage] >= 0:
            later = s.base[f, stage] + s.offset[path, stage]
            passed |= later == port
            if passed:
                burden(s, o, later)
    before_last = s.base[f, o.stages - 1] + s.offset[path, o.stages - 1] != port
    s.pace[s.base[f, o.stages - 1], 2 if before_last else 1] += 1.0


@inlined
def enqueue(s, o, port, came_over, node):
    """A packet comes to an output port: it waits, or is trimmed, dropped, or stops the link that it came over."""
    if s.rates[port] == 0.0 or s.queue[port, 2] >= o.queue:
        alive = s.rates[port] > 0.0
        if alive and o.overflow == TRIM:
            head_on(s, o, port, s.pool[node, 0])
        end_early(s, o, node, np.int64(DEAD if not alive else HEADER if o.overflow == TRIM else GONE))
        return
    length = s.queue[port, 2]
    if length == 0:
        s.queue[port, 0] = node
    else:
        s.pool[s.queue[port, 1], 1] += node
    s.queue[port, 1] = node
    s.queue[port, 2] = length + 1
    s.tally[QUEUED] += 1
    if length >= s.tally[DEEPEST]:
        s.tally[DEEPEST] = length + 1
    if o.overflow == PAUSE:
        s.held[came_over] += 1
        if s.held[came_over] >= o.pause_at and s.stopped[came_over, 0] == 0:
            s.stopped[came_over, 0] = 1
            s.tally[PAUSES] += 1
            put(s, 0, s.tally[NOW] + o.pause_delay, came_over, 1)


@inlined
def ask(s, o, f, packets):
    """The receiver owes flow f credits; flows wait in turn."""
    if s.asked[f] < 1.0 <= s.asked[f] + packets:
        queue_up(s, f, s.base[f, o.stages - 1])
    s.asked[f] += packets


@inlined
def queue_up(s, f, host):
    """A flow waits for the next credit of its receiver."""
    s.wants_next[f] = -1
    if s.wants[host, 0] < 0:
        s.wants[host, 0] = f
        s.tally[DEMAND] += 1
    else:
        s.wants_next[s.wants[host, 1]] = f
    s.wants[host, 1] = f


@inlined
def stuck(s, f):
    """A sender waits for packets that came and were not acknowledged yet, and for nothing else."""
    return not s.able[f] and 0 < s.flying[f] == s.unacked[f]


@inlined
def receive(s, o, node):
    """A packet comes to its receiver."""
    word, second = s.pool[node, 0], s.pool[node, 1]
    release(s, node)
    f, seq = word >> (SEQ_BITS + EV_BITS + PATH_BITS), (word >> (EV_BITS + PATH_BITS)) & ((1 << SEQ_BITS) - 1)
    ev = (word >> PATH_BITS) & ((1 << EV_BITS) - 1)
    marked, answer = (second >> NEXT_BITS) & 1, (second >> (NEXT_BITS + 2)) & 1
    delay = s.tally[NOW] - (second >> (NEXT_BITS + 3))
    if o.pace_period > 0.0:
        s.pace[s.base[f, o.stages - 1], 1] += 1.0
    if o.control == PULLS and s.sent[f] + s.asked[f] + s.credit[f] < s.need[f]:
        ask(s, o, f, 1.0)
    if o.recovery == GO_BACK_N and seq != s.expected[f, 0]:
        s.tally[DISCARDED] += 1
        if seq > s.expected[f, 0] and s.expected[f, 1] == 0:
            s.expected[f, 1] = 1
            tell(s, o, f, NACK, ev, s.expected[f, 0])
        return
    if o.recovery == GO_BACK_N:
        s.expected[f, 0], s.expected[f, 1] = s.expected[f, 0] + 1, 0
    bit = np.int64(1) << (seq & 31)
    if s.seen[f, seq >> 5] & bit:
        s.tally[DISCARDED] += 1
        return
    s.seen[f, seq >> 5] |= bit
    s.got[f] += 1
    complete = s.got[f] == s.need[f]
    if marked:
        s.tally[MARKED] += 1
    if complete:
        s.finish[f] = s.tally[NOW]
        s.tally[UNFINISHED] -= 1
    if o.control == LINE_RATE:
        return
    if o.control == DCQCN:
        if marked and s.tally[NOW] - s.unacked[f] >= o.notice_gap:
            s.unacked[f] = s.tally[NOW]
            tell(s, o, f, ACK, ev | (np.int64(1) << EV_BITS), delay)
        return
    s.unacked[f] += 1
    if marked or complete or answer or s.unacked[f] >= o.sack or s.got[f] == 1 or stuck(s, f):
        tell(s, o, f, ACK, ev | (marked << EV_BITS) | (s.unacked[f] << (EV_BITS + 1)), delay)
        s.unacked[f] = 0


@njit
def lost(s, o, node):
    """Whether a packet is lost on the link."""
    s.tally[LOSS_IN] -= 1
    if s.tally[LOSS_IN] > 0:
        return False
    s.tally[LOSS_IN] = next_loss(s, o)
    end_early(s, o, node, np.int64(GONE))
    return True


@inlined
def next_loss(s, o):
    """Packet hops until the next loss, geometric."""
    return np.int64(np.log(uniform(s)) / np.log1p(-o.loss)) + 1


@inlined
def forward(s, o, stage, port, node):
    """A packet goes on to the next port of its path."""
    word = s.pool[node, 0]
    f, stage = word >> (SEQ_BITS + EV_BITS + PATH_BITS), stage + 1
    while s.base[f, stage] < 0:
        stage += 1
    enqueue(s, o, s.base[f, stage] + s.offset[word & ((1 << PATH_BITS) - 1), stage], port, node)


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


@njit
def take(s, o, stage):
    """Every port of a stage takes its first packet, unless it is paused or still busy. Returns how many there are.

    Who comes first changes. All packets are taken before any is passed on, so that waits for memory overlap.
    """
    low, high, now, count = s.start[stage], s.start[stage + 1], s.tally[NOW], 0
    first = low + (now * 7919) % (high - low)
    for half in range(2):
        a, b = (first, high) if half == 0 else (low, first)
        for port in range(a, b):
            length = s.queue[port, 2] - 1
            if length < 0 or (o.overflow == PAUSE and s.stopped[port, 1]):
                continue
            if s.queue[port, 3] >= o.wire:
                s.queue[port, 3] -= o.wire
                continue
            if not o.even and not had_time(s, port):
                continue
            node = s.queue[port, 0]
            second = s.pool[node, 1]
            s.queue[port, 0], s.queue[port, 2] = second & ((1 << NEXT_BITS) - 1), length
            second &= ~((np.int64(1) << NEXT_BITS) - 1)
            marks = o.control != CREDITS or stage < o.stages - 1  # credits rule the receiver's own link
            if (
                marks
                and length > o.mark_low
                and (
                    length > o.mark_high
                    or uniform(s) * (o.mark_high - o.mark_low) < o.mark_most * (length - o.mark_low)
                )
            ):
                second |= np.int64(1) << NEXT_BITS
            s.pool[node, 1] = second
            s.taken[count, 0], s.taken[count, 1] = node, port
            count += 1
    s.tally[QUEUED] -= count
    return count


@njit
def pass_on(s, o, stage, count):
    """Packets that were taken leave their ports: they come to the next port of their path, or to their receiver."""
    for each in range(count):
        node, port = np.int64(s.taken[each, 0]), np.int64(s.taken[each, 1])
        s.passed[port] += 1
        if o.overflow == PAUSE and stage > 0:
            make_room(s, o, stage, node)
        if o.loss > 0.0 and lost(s, o, node):
            continue
        if stage == o.stages - 1:
            receive(s, o, node)
        else:
            forward(s, o, stage, port, node)


@inlined
def make_room(s, o, stage, node):
    """A packet leaves the buffer of the link that it came over, which may resume."""
    word = s.pool[node, 0]
    f, before = word >> (SEQ_BITS + EV_BITS + PATH_BITS), stage - 1
    while s.base[f, before] < 0:
        before -= 1
    over = s.base[f, before] + s.offset[word & ((1 << PATH_BITS) - 1), before]
    s.held[over] -= 1
    if s.held[over] <= o.resume_at and s.stopped[over, 0] == 1:
        s.stopped[over, 0] = 0
        put(s, 0, s.tally[NOW] + o.pause_delay, over, 0)


@inlined
def send(s, o, host, plane, count):
    """Take one packet of a host for a plane: the next of its flows, in turn, that may send. Returns the new count."""
    port = s.start[0] + plane * (len(s.first) - 1) + host
    now = s.tally[NOW]
    if o.overflow == PAUSE and s.stopped[port, 1]:
        return count
    if s.rates[port] == 0.0:
        return count
    if s.queue[port, 3] >= o.wire:
        s.queue[port, 3] -= o.wire
        return count
    low, many = s.first[host], s.first[host + 1] - s.first[host]
    for step in range(many):
        f = low + (s.turn[host] + step) % many
        if not s.able[f]:
            continue
        if o.control == DCQCN and s.rate[f, 3] > now:
            continue
        if o.balancing == SINGLE and s.ev_path[f, 0] // (len(s.offset) // o.planes) != plane:
            continue
        if not o.even and not had_time(s, port):
            return count
        s.turn[host] = (s.turn[host] + step + 1) % many
        again = 0
        if s.again[f, 0] >= 0:
            node = s.again[f, 0]
            seq, s.again[f, 0] = s.pool[node, 0], s.pool[node, 1]
            again = 1
            s.tally[AGAIN] += 1
        else:
            node = allocate(s)
            seq = s.sent[f]
            s.sent[f] += 1
        ev = next_entropy(s, o, f, plane)
        path = np.int64(s.ev_path[f if len(s.ev_path) > 1 else 0, ev])
        s.pool[node, 0] = (((((f << SEQ_BITS) | seq) << EV_BITS) | ev) << PATH_BITS) | path
        s.tally[SENT] += 1
        s.last[f] = now
        s.flying[f] += 1
        if o.control == CREDITS or o.control == PULLS:
            s.credit[f] -= 1.0
        elif o.control == DCQCN:
            s.rate[f, 3] = max(s.rate[f, 3], now - 1.0) + 1.0 / s.rate[f, 0]
            s.rate[f, 6] += 1.0
            if s.rate[f, 6] >= o.adjust and s.rate[f, 1] > 0.0:
                s.rate[f, 6] = 0.0
                s.rate[f, 7] += 1.0
                raise_rate(o, s.rate[f])
        set_able(s, o, f, host)
        answer = np.int64(again or not s.able[f])  # nothing more is sent before the answer comes
        s.pool[node, 1] = (((((now << 1) | answer) << 1) | again) << 1) << NEXT_BITS
        s.taken[count, 0], s.taken[count, 1] = node, port
        return count + 1
    return count


@njit
def send_all(s, o):
    """Every host that may sends a packet on each of its planes; who comes first changes. Returns how many there are."""
    hosts, count = len(s.ables), 0
    shift = (s.tally[NOW] * 7919) % hosts
    for step in range(hosts):
        host = step + shift
        if host >= hosts:
            host -= hosts
        if s.ables[host] > 0:
            for plane in range(o.planes):
                count = send(s, o, host, plane, count)
    return count


@inlined
def grow_window(s, o, f, marked, delay, packets):
    """NSCC on an acknowledgement: by mark and delay the window grows, stays or shrinks.

    window[f]: 0 window, 1 mean delay, 2 increase to come, 3 packets since the last adjustment, 4 its slot, 5 packets of
    low delay in a row (-1: growing fast), 6 slot of the last cut, 7 packets since the last quick adaptation,
    8 its end; s.rate[f]: 4 packets to ignore, 5 ignored, 6 a loss asks for adaptation, 7 slot of the last creep.
    """
    w, now = s.window[f], s.tally[NOW]
    w[7] += packets
    w[3] += packets
    s.rate[f, 5] += packets
    if s.rtt[f] >= o.long_rtt:
        delay += o.behind
    w[1] = o.smoothing * delay + (1.0 - o.smoothing) * w[1]
    if s.rate[f, 5] < s.rate[f, 4] and marked:
        return
    if adapt(s, o, f, False):
        return
    if not marked:
        fast = False
        if delay < o.target:
            if delay < o.fast_delay:
                if w[5] >= 0.0:
                    w[5] += packets
                if w[5] < 0.0 or w[5] > w[0]:
                    w[5] = -1.0
                    w[0] += packets * o.fast
                    fast = True
            else:
                w[5] = 0.0
            if not fast:
                w[2] += o.gain * packets * (o.target - delay)
        if not fast:
            w[2] += o.fair * packets
    elif delay >= o.target:
        w[5] = 0.0
        if w[1] > o.target and now - w[6] > s.rtt[f]:
            w[0] *= max(1.0 - o.cut * (w[1] - o.target) / w[1], 0.5)
            w[6] = now
    if w[3] > o.adjust or now - w[4] > o.period:
        w[0] += w[2] / w[0]
        w[2], w[3], w[4] = 0.0, 0.0, now
    if now - s.rate[f, 7] > o.period:
        w[0] += o.creep
        s.rate[f, 7] = now
    w[0] = min(max(w[0], 1.0), o.most_window)


@inlined
def adapt(s, o, f, lost):
    """NSCC's quick adaptation: after a loss or a long delay the window falls to what came through in a round trip."""
    w, now, done = s.window[f], s.tally[NOW], False
    if now > w[8]:
        if w[8] > 0.0 and (lost or s.rate[f, 6] > 0.0 or w[1] > o.quick_delay) and w[0] >= w[7]:
            w[0] = max(w[7], 1.0)
            s.rate[f, 4], s.rate[f, 5], s.rate[f, 6] = s.flying[f], 0.0, 0.0
            done = True
        else:
            w[7] = 0.0
            w[8] = now + s.rtt[f] + o.target
    return done


@inlined
def hear(s, o, word, second):
    """Something comes back to a sender."""
    kind, f, first = word & 3, (word >> 2) & ((1 << 19) - 1), word >> 21
    host = s.base[f, 0]
    if o.control == CREDITS and s.rate[f, 0] == 0.0:  # the first answer: what is left of the first window is void
        s.rate[f, 0] = 1.0
        ask(s, o, f, s.credit[f])
        s.credit[f] = 0.0
    if kind == ACK:
        ev, marked, packets = first & ((1 << EV_BITS) - 1), (first >> EV_BITS) & 1, first >> (EV_BITS + 1)
        s.flying[f] -= packets
        judge_path(s, o, f, ev, marked)
        if o.control == WINDOW:
            grow_window(s, o, f, marked, second, packets)
        elif o.control == DCQCN:
            cut_rate(s, o, f)
    elif kind == CREDIT:
        s.credit[f] += 1.0
    else:
        if o.recovery == GO_BACK_N:
            now, back = s.tally[NOW], s.expected[f, 0]
            if kind == NACK or (second >= back and now - s.expected[f, 2] >= s.rtt[f]):
                back = second if kind == NACK else back
                again = max(0, s.sent[f] - back)
                s.tally[AGAIN] += again
                s.flying[f] -= again
                s.sent[f] -= again
                s.expected[f, 2] = now
        else:
            s.flying[f] -= 1
            judge_path(s, o, f, first & ((1 << EV_BITS) - 1), 4)
            send_again(s, f, second)
            if o.control == WINDOW:
                s.window[f, 0] = max(1.0, s.window[f, 0] - 1.0)
                s.rate[f, 6] = 1.0
                if s.rate[f, 5] >= s.rate[f, 4]:
                    adapt(s, o, f, True)
            elif o.control == CREDITS:
                ask(s, o, f, 1.0)
            if kind == NOTICE and o.control == PULLS:
                s.credit[f] += 1.0
    set_able(s, o, f, host)
    if o.control == WINDOW and stuck(s, f):  # it asks for the acknowledgement
        tell(s, o, f, ACK, first & ((1 << EV_BITS) - 1) | (s.unacked[f] << (EV_BITS + 1)), 0)
        s.unacked[f] = 0


@inlined
def cut_rate(s, o, f):
    """DCQCN on a notification of congestion.

    rate[f]: 0 rate [packets a slot], 1 target, 2 alpha, 3 slot of the next packet, 4 slot of the last notification or
    step of the timer, 5 steps of the timer, 6 packets sent since the last step of the byte counter, 7 its steps.
    """
    r = s.rate[f]
    r[1] = r[0]
    r[0] = max(r[0] * (1.0 - r[2] / 2.0), o.least_rate)
    r[2] = (1.0 - o.smoothing) * r[2] + o.smoothing
    r[4], r[5], r[6], r[7] = s.tally[NOW], 0.0, 0.0, 0.0


@njit
def raise_rates(s, o):
    """DCQCN's timer: alpha decays, every rate goes half of the way to its target, then the target grows."""
    for f in range(len(s.rate)):
        r = s.rate[f]
        if r[1] == 0.0 or s.able[f] == 0 or s.tally[NOW] - r[4] < o.period:
            continue
        r[2] *= 1.0 - o.smoothing
        r[4] += o.period
        r[5] += 1.0
        raise_rate(o, r)


@inlined
def raise_rate(o, r):
    """One step up: fast recovery for the first five, then additive, then by a larger amount."""
    if max(r[5], r[7]) > 5.0:
        r[1] = min(1.0, r[1] + (o.fast if min(r[5], r[7]) > 5.0 else o.gain))
    r[0] = (r[0] + r[1]) / 2.0


@njit
def set_pace(s, o, host):
    """A receiver slows its credits by the share trimmed before the last switch; without trims they grow faster."""
    p = s.pace[host]
    if p[2] > 0.0:
        p[0] *= p[1] / (p[1] + p[2])
        p[3] = o.pace_step
    else:
        p[0] += p[3]
        p[3] *= 1.1
    p[0] = min(max(p[0], 0.01), 1.0)
    p[1], p[2], p[4] = 0.0, 0.0, s.tally[NOW] + (0.75 + 0.5 * uniform(s)) * o.pace_period


@njit
def give_credits(s, o):
    """Every receiver sends the next credit that it owes, its flows in turn."""
    now = s.tally[NOW]
    for host in range(len(s.wants)):
        if o.pace_period > 0.0 and s.pace[host, 4] <= now:
            set_pace(s, o, host)
        while s.wants[host, 0] >= 0 and s.credit_at[host] < now + 1.0 - 1e-9:
            f = s.wants[host, 0]
            s.credit_at[host] = max(s.credit_at[host], now) + o.credit_gap / s.pace[host, 0]
            s.asked[f] -= 1.0
            s.wants[host, 0] = s.wants_next[f]
            if s.wants[host, 0] < 0:
                s.tally[DEMAND] -= 1
            if s.asked[f] >= 1.0:
                queue_up(s, f, host)
            tell(s, o, f, CREDIT, 0, 0)


@inlined
def first_due(s, ring):
    """Slot of the first word of a ring; far away where it is empty."""
    head, tail, start, mask = s.ring_of[ring]
    return s.rings[start + (head & mask), 0] if head < tail else np.int64(1) << 60


@njit
def hear_all(s, o):
    """Ports hear pauses, and senders what comes back to them, as far as it is due."""
    for ring in range(len(s.ring_of)):
        while first_due(s, ring) <= s.tally[NOW]:
            row = s.ring_of[ring, 2] + (s.ring_of[ring, 0] & s.ring_of[ring, 3])
            s.ring_of[ring, 0] += 1
            if ring == 0:
                s.stopped[s.rings[row, 1], 1] = s.rings[row, 2]
            else:
                hear(s, o, s.rings[row, 1], s.rings[row, 2])


@njit
def run(s, o):
    """Slots until every flow is complete. Returns how it ended."""
    begun, flows = 0, len(s.need)
    if o.loss > 0.0:
        s.tally[LOSS_IN] = next_loss(s, o)
    while s.tally[UNFINISHED] > 0:
        now = s.tally[NOW]
        if now > o.most_slots:
            return TOO_LONG
        if s.tally[FREE] == -2:
            return NO_ROOM
        while begun < flows and s.begins[s.order[begun]] <= now:
            f = s.order[begun]
            set_able(s, o, f, s.base[f, 0])
            if o.control == CREDITS:
                ask(s, o, f, max(0.0, s.need[f] - s.credit[f]))
            begun += 1
        hear_all(s, o)
        if s.tally[ABLE] > 0:
            pass_on(s, o, np.int64(0), send_all(s, o))
        if s.tally[QUEUED] > 0:
            for stage in range(1, o.stages):
                pass_on(s, o, stage, take(s, o, stage))
        if s.tally[DEMAND] > 0:
            give_credits(s, o)
        if o.control == DCQCN and now % max(1, o.period // 8) == 0:
            raise_rates(s, o)
        s.tally[NOW] = now + 1
        if s.tally[ABLE] + s.tally[QUEUED] + s.tally[DEMAND] == 0 and s.tally[UNFINISHED] > 0:
            soon = s.begins[s.order[begun]] if begun < flows else np.int64(1) << 60
            for ring in range(1, len(s.ring_of)):
                soon = min(soon, first_due(s, ring))
            s.tally[NOW] = max(s.tally[NOW], soon)
    return NO_ROOM if s.tally[FREE] == -2 else DONE
