"""The run: slot after slot until every flow is complete."""

import numpy as np

from railcore.compiled import njit
from railcore.transport.kernel.congestion import raise_rates
from railcore.transport.kernel.feedback import first_due
from railcore.transport.kernel.layout import (
    ABLE,
    BEGUN,
    DCQCN,
    DEMAND,
    DONE,
    FREE,
    FULL,
    LOSS_IN,
    NEVER,
    NO_ROOM,
    NOW,
    QUEUED,
    RCCC,
    TOO_LONG,
    UNFINISHED,
)
from railcore.transport.kernel.ports import hops_to_loss, pass_on, take_packets
from railcore.transport.kernel.receivers import covered, give_credits, owe_credits
from railcore.transport.kernel.senders import hear_all, send_packets, update_able


@njit
def run_slots(s, o, until):
    """Run until every flow is complete, or beyond a slot; a run that was stopped there goes on where it was.

    Returns how it ended: DONE, TOO_LONG (beyond slot `until`), or NO_ROOM in the pool or a ring.
    """
    flows = len(s.need)
    if o.loss > 0.0 and s.tally[LOSS_IN] == 0:
        s.tally[LOSS_IN] = hops_to_loss(s, o)
    while s.tally[UNFINISHED] > 0:
        now = s.tally[NOW]
        if now > until:
            return TOO_LONG
        if s.tally[FREE] == FULL:
            return NO_ROOM
        while s.tally[BEGUN] < flows and s.begins[s.order[s.tally[BEGUN]]] <= now:
            f = s.order[s.tally[BEGUN]]
            update_able(s, o, f)
            if o.control == RCCC:
                owe_credits(s, o, f, s.need[f] - covered(s, o, f))
            s.tally[BEGUN] += 1
        hear_all(s, o)
        if s.tally[ABLE] > 0:
            pass_on(s, o, np.int64(0), send_packets(s, o))
        if s.tally[QUEUED] > 0:
            for stage in range(1, o.stages):
                pass_on(s, o, stage, take_packets(s, o, stage))
        if s.tally[DEMAND] > 0:
            give_credits(s, o)
        if o.control == DCQCN and now % max(1, np.int64(o.dcqcn.timer) // 8) == 0:
            raise_rates(s, o)
        s.tally[NOW] = now + 1
        if s.tally[ABLE] + s.tally[QUEUED] + s.tally[DEMAND] == 0 and s.tally[UNFINISHED] > 0:
            soon = s.begins[s.order[s.tally[BEGUN]]] if s.tally[BEGUN] < flows else np.int64(NEVER)
            for ring in range(1, len(s.ring_of)):
                soon = min(soon, first_due(s, ring))
            s.tally[NOW] = max(s.tally[NOW], soon)
    return NO_ROOM if s.tally[FREE] == FULL else DONE
