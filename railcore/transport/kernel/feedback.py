"""What travels back, and comes a fixed latency later: acknowledgements, credits, notices of losses, pauses."""

import numpy as np

from railcore.compiled import inlined, njit
from railcore.transport.kernel.layout import (
    EV_BITS,
    FLOW_BITS,
    FREE,
    FULL,
    KIND_BITS,
    NEVER,
    NOTICE,
    NOW,
    TOLD,
    draw,
    entropy_of,
    flow_of,
    seq_of,
)

TOLD_TOGETHER = 8  # headers going back that links are charged for at once: one stands for all


@njit
def _append(rings, ring_of, tally, ring, due, first, second):
    if ring_of[ring]["in"] - ring_of[ring]["out"] > ring_of[ring]["mask"]:
        tally[FREE] = FULL
        return
    row = ring_of[ring]["row"] + (ring_of[ring]["in"] & ring_of[ring]["mask"])
    rings[row]["due"], rings[row]["word"], rings[row]["second"] = due, first, second
    ring_of[ring]["in"] += 1


@inlined
def push_words(s, ring, delay, first, second):
    """Two words that come some slots later.

    Parameters
    ----------
    s
        State.
    ring
        One whose words all have this delay.
    delay
        Slots from now.
    first, second
        The words.

    Returns
    -------
    Nothing; where the ring is full the tally FULL.
    """
    # types are made the same, or Numba compiles for each mix of them; arrays alone are passed faster than all of State
    due = np.int64(s.tally[NOW] + delay)
    _append(s.rings, s.ring_of, s.tally, np.int64(ring), due, np.int64(first), np.int64(second))


@inlined
def first_due(s, ring):
    """Slot of the first word of a ring."""
    if s.ring_of[ring]["out"] == s.ring_of[ring]["in"]:
        return np.int64(NEVER)
    return s.rings[s.ring_of[ring]["row"] + (s.ring_of[ring]["out"] & s.ring_of[ring]["mask"])]["due"]


@inlined
def queue_header(queue, port, header):
    """A header of some bytes goes before the packets that wait at a port; where none wait it takes no time."""
    if queue[port]["length"] > 0:
        queue[port]["header_bytes"] += header


@njit
def _queue_headers_back(queue, back, offset, random, f, header, busy):
    """Headers go back from the receiver of flow f to its sender, on one path. busy: the receiver is sending itself."""
    path = draw(random, len(offset))
    for stage in range(back.shape[1]):
        if back[f, stage] >= 0:
            port = back[f, stage] + offset[path, stage]
            if stage == 0 and busy:  # packets of a host wait in no queue
                queue[port]["header_bytes"] += header
            else:
                queue_header(queue, port, header)


@inlined
def path_report(ev, marked, packets):
    """What an acknowledgement tells: entropy, whether it was marked, packets received."""
    return ev | (marked << EV_BITS) | (packets << (EV_BITS + 1))


@inlined
def back_word(f, kind, report):
    """The first word that goes back to flow f: kind, and its report, of which the lowest bits are the entropy."""
    return (f << KIND_BITS) | kind | (report << (KIND_BITS + FLOW_BITS))


@inlined
def send_back(s, o, f, kind, report, second):
    """Send something back to the sender of a flow; it comes a loop's latency later.

    Parameters
    ----------
    s, o
        State and options.
    f
        Flow.
    kind
        ACK, NACK or CREDIT.
    report
        Of `path_report`.
    second
        Delay of the packet [slots] with ACK; with NACK the number of a packet.

    Returns
    -------
    Nothing.
    """
    s.tally[TOLD] += 1
    if s.tally[TOLD] % TOLD_TOGETHER == 0:
        busy = s.ables[s.base[f, o.stages - 1]] > 0
        header = np.int64(o.header * TOLD_TOGETHER)
        _queue_headers_back(s.queue, s.back, s.offset, s.random, np.int64(f), header, busy)
    push_words(s, s.loop[f], s.rtt[f], back_word(f, kind, report), second)


@inlined
def notice_later(s, o, word):
    """Let the sender's timer tell of the loss of a packet."""
    f = flow_of(word)
    ring = s.loop[f] + (len(s.ring_of) - 1) // 2
    push_words(s, ring, s.rtt[f] + o.timeout, back_word(f, NOTICE, entropy_of(word)), seq_of(word))
