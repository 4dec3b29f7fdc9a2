"""What a run of packets holds: options, arrays and their columns, words of packets, the pool, random numbers."""

from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np

from railcore.compiled import inlined

# choices, in the order of `transports`
LINE_RATE, NSCC, RCCC, PULLS, DCQCN = range(5)  # control
SINGLE, FLOWLET, OBLIVIOUS, BITMAP, REPS, MIXED = range(6)  # balancing
TRIM, DROP, PAUSE = range(3)  # overflow
SELECTIVE, GO_BACK_N = range(2)  # recovery
STEADY, BY_MARKS, BY_TRIMS = range(3)  # pacing

ACK, NACK, CREDIT, NOTICE = range(4)  # what comes back to a sender; a notice is of a loss without a trace
DONE, TOO_LONG, NO_ROOM = range(3)  # how a run ends
END, FULL = -1, -2  # no further node of a list; the pool or a ring was too small, and the run is void
NEVER = 1 << 60  # slot that does not come
AHEAD = 8  # packets between asking for memory and needing it

# places in State.tally
(NOW, FREE, FRESH, ABLE, QUEUED, UNFINISHED, LOSS_IN, DEMAND) = range(8)
(SENT, AGAIN, TRIMMED, LOST, MARKED, PAUSES, DISCARDED, DEEPEST, TOLD, BEGUN, COUNTS) = range(8, 19)

# rows of arrays of State
QUEUE = np.dtype([(name, np.int32) for name in ("head", "tail", "length", "header_bytes")])
RING = np.dtype([(name, np.int64) for name in ("out", "in", "row", "mask")])
BACK = np.dtype([(name, np.int64) for name in ("due", "word", "second")])
TAKEN = np.dtype([(name, np.int32) for name in ("node", "port", "to", "came_over", "mark")])
STOPPED = np.dtype([(name, np.int8) for name in ("told_to_pause", "paused")])
EXPECTED = np.dtype([(name, np.int64) for name in ("next", "gap_told", "went_back")])
CYCLE = np.dtype([(name, np.int64) for name in ("place", "start", "stride")])
PACE = np.dtype([(name, np.float64) for name in (
    "share", "came", "trimmed_last", "trimmed_before", "marked", "mean_marked", "step", "paced_at")])  # fmt: skip
WINDOW = np.dtype([(name, np.float64) for name in (
    "now", "mean_delay", "increase", "unadjusted", "adjusted_at", "calm", "cut_at", "came_through", "period_end",
    "ignore", "ignored", "loss_seen", "crept_at")])  # fmt: skip
RATE = np.dtype([(name, np.float64) for name in (
    "rate", "goal", "alpha", "next_at", "timed_at", "timer_steps", "counted", "counter_steps",
    "notified_at")])  # fmt: skip

FLOW_BITS, SEQ_BITS, EV_BITS, PATH_BITS = 20, 19, 12, 12  # of a packet's first word
NEXT_BITS = 26  # of a packet's second word; above: whether marked, sent again, to be answered at once; slot of sending
SLOT_BITS = 34  # of it: a slot is stored without what is above
MARK_SHIFT, AGAIN_SHIFT, AT_ONCE_SHIFT, SLOT_SHIFT = range(NEXT_BITS, NEXT_BITS + 4)
KIND_BITS = 2  # of a word that goes back; above: flow, then what it tells


# numbers of queues and controls, in slots and packets; `slot_numbers` makes them
PortNumbers = namedtuple("PortNumbers", "room mark_low mark_high mark_most pause_at resume_at pause_delay")
WindowNumbers = namedtuple(  # NSCC
    "WindowNumbers",
    "most target long_rtt behind fast_delay quick_delay gain fair fast creep cut smoothing period adjust",
)
CreditNumbers = namedtuple("CreditNumbers", "gap pacing period step growth cut marks least")  # RCCC and pulls
RateNumbers = namedtuple("RateNumbers", "smoothing step fast_step timer counter least notice_gap")  # DCQCN


class Options(NamedTuple):
    """Numbers of a run that do not change; times in slots, sizes in packets. A control that is not used has zeros."""

    control: int
    balancing: int
    overflow: int
    recovery: int
    stages: int
    planes: int
    entropies: int  # of a plane
    wire: int  # bytes of a packet on a link
    header: int  # bytes of what has no payload
    window: float  # first one
    sack: int
    flowlet_gap: int
    timeout: int
    loss: float  # of a packet on a link
    even: bool  # all ports are at full speed, or dead
    dead: bool  # some ports are dead
    port: Any  # PortNumbers, and so on
    nscc: Any
    credits: Any
    dcqcn: Any


class State(NamedTuple):
    """Arrays of a run; `packets.simulate_packets` makes them. Flows are in the order of their hosts."""

    base: np.ndarray  # [flows, stages] int32; negative where a flow skips the stage
    back: np.ndarray  # of the way from receiver to sender
    offset: np.ndarray  # [paths, stages] int32
    ev_path: np.ndarray  # [flows or 1, planes * entropies] int16
    strides: np.ndarray  # numbers without a common divisor with the entropies
    start: np.ndarray  # [stages + 1] first port
    rates: np.ndarray  # [ports] shares of full speed, 0: dead
    free_at: np.ndarray  # [ports] slot from which the port may send again, where rates differ
    rtt: np.ndarray  # [flows] slots of the loop without queues
    loop: np.ndarray  # [flows] ring of what comes back to it: one ring for each length of the loop
    need: np.ndarray  # [flows] packets
    first: np.ndarray  # [hosts + 1] flows of a host
    senders: np.ndarray  # hosts with flows
    receivers: np.ndarray
    begins: np.ndarray  # [flows] slot of the start
    order: np.ndarray  # flows by their start
    queue: np.ndarray  # [ports] QUEUE: nodes, packets, and bytes of headers that go before them
    waiting: np.ndarray  # [words] bits of the ports that have packets, 32 a word
    pool: np.ndarray  # [nodes, 2]
    free: np.ndarray  # [nodes] int32; those that can be used again
    taken: np.ndarray  # [ports of the largest stage] TAKEN: node, port, next port, port before, whether marked
    held: np.ndarray  # [ports] packets that came over this link and wait at the next switch
    stopped: np.ndarray  # [ports] STOPPED
    rings: np.ndarray  # [room of all] BACK: due, words: of pauses (port, state), of others `back_word` and a number
    ring_of: np.ndarray  # [rings] RING: words taken out, words put in, first row, room - 1
    turn: np.ndarray  # [hosts] next flow of the host to look at
    able: np.ndarray  # [flows] 1 where the flow may send
    ables: np.ndarray  # [hosts]
    sent: np.ndarray  # [flows] next new packet
    again: np.ndarray  # [flows, 2] first and last node of what is sent again
    flying: np.ndarray  # [flows] packets sent that nothing has come back of
    window: np.ndarray  # [flows] WINDOW, of NSCC
    credit: np.ndarray  # [flows] packets that may be sent
    heard: np.ndarray  # [flows] 1 where something has come back
    cycle: np.ndarray  # [flows * planes] CYCLE
    penalty: np.ndarray  # [flows * planes, entropies] turns of a path that are left out
    recycled: np.ndarray  # [flows * planes, room] recycled entropies
    recycled_at: np.ndarray  # [flows * planes, 2] entropies taken out, put in
    last: np.ndarray  # [flows] slot of the last sending
    got: np.ndarray  # [flows] packets received
    seen: np.ndarray  # [flows, words] bits of packets received
    expected: np.ndarray  # [flows] EXPECTED: next in order; 1 where a gap is told; when the sender went back last
    unacked: np.ndarray  # [flows] packets received and not acknowledged
    finish: np.ndarray  # [flows] slot of the last packet's arrival, -1 before
    asked: np.ndarray  # [flows] credits that the receiver still owes
    wants: np.ndarray  # [hosts, 2] first and last flow that waits for credits
    wants_next: np.ndarray  # [flows]
    pace: np.ndarray  # [hosts] PACE: share of the credits; packets, trims and marks since it changed; next step, when
    credit_at: np.ndarray  # [hosts] slot of the next credit
    passed: np.ndarray  # [ports] packets sent
    rate: np.ndarray  # [flows] RATE, of DCQCN
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
    """A random number above 0, at most 1."""
    return (draw(s.random, 2147483647) + 1) / 2147483648.0


@inlined
def first_turn(s, count):
    """Which of `count` hosts or ports comes first in this slot: another one in each, so that none is preferred."""
    return (s.tally[NOW] * 7919) % count


@inlined
def flow_of(word):
    """Flow of a packet, from its first word: flow, number in its flow, entropy, path."""
    return word >> (SEQ_BITS + EV_BITS + PATH_BITS)


@inlined
def seq_of(word):
    """Number of a packet in its flow."""
    return (word >> (EV_BITS + PATH_BITS)) & ((1 << SEQ_BITS) - 1)


@inlined
def entropy_of(word):
    """Entropy of a packet."""
    return (word >> PATH_BITS) & ((1 << EV_BITS) - 1)


@inlined
def path_of(word):
    """Path of a packet."""
    return word & ((1 << PATH_BITS) - 1)


@inlined
def port_at(s, word, stage):
    """Port of a packet's path at a stage that its flow does not skip."""
    return s.base[flow_of(word), stage] + s.offset[path_of(word), stage]


@inlined
def allocate_node(s):
    """A node of the pool; the first one and the tally FULL where there is none left."""
    free = s.tally[FREE]
    if free > 0:
        s.tally[FREE] = free - 1
        return np.int64(s.free[free - 1])
    if free == 0 and s.tally[FRESH] < len(s.pool):  # nodes that were never used: their memory is not touched yet
        s.tally[FRESH] += 1
        return s.tally[FRESH] - 1
    s.tally[FREE] = FULL
    return np.int64(0)


@inlined
def release_node(s, node):
    """Give a node back."""
    free = s.tally[FREE]
    if free != FULL:
        s.free[free] = node
        s.tally[FREE] = free + 1
