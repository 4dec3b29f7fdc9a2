"""What a transport does: when it sends, on which path, what full queues do, and how it makes good a loss."""

from dataclasses import dataclass, fields
from typing import Any

from railcore.facts import catalog
from railcore.facts.arguments import Quantity, checked
from railcore.facts.checks import at_least, positive, share, whole

CONTROLS = ("line rate", "window", "credits", "pulls", "dcqcn")
BALANCINGS = ("single path", "flowlets", "oblivious", "bitmap", "reps", "mixed")
OVERFLOWS = ("trim", "drop", "pause")
RECOVERIES = ("selective", "go-back-n")
PACINGS = ("steady", "marks", "trims")
CHOICES = {"control": CONTROLS, "balancing": BALANCINGS, "overflow": OVERFLOWS, "recovery": RECOVERIES, "pacing": PACINGS}


@checked
@dataclass(frozen=True, kw_only=True)
class Transport:
    """One transport: four choices and their numbers. Queues are those of the switches' output ports [packets].

    control: `line rate` sends whenever it can; `window` is Ultra Ethernet's NSCC (driven by marks and delay);
    `credits` is its RCCC (the receiver paces credits, as much as it is asked for); `pulls` is NDP (a credit for each
    packet or header that comes in); `dcqcn` sets a rate by marks.
    balancing: `single path` and `flowlets` keep to a path (until a gap of `flowlet_gap_s`); the others spray over
    `entropies` paths (0: over all): `oblivious` in turn, `bitmap` leaving out what was bad, `reps` reusing what was
    good, `mixed` both.
    overflow: a full queue trims packets to headers, drops them, or pauses the links that fill it.
    recovery: `selective` sends again what is missing, `go-back-n` all from there on.

    queue_packets: room of a queue that does not pause; 0 for one bandwidth-delay product of a link. marking: whether
    queues mark packets: from mark_low_packets on, with a probability that grows to mark_probability at
    mark_high_packets; above, all; 0 for both: mark_low_share and mark_high_share of the room.
    pause_packets, resume_packets: of one incoming link, waiting in a switch; buffer_packets: room that it must have for
    them, so that nothing is ever dropped: a run with less is refused.
    window_products: most of a window, in bandwidth-delay products, at least a round trip with the time of sending;
    start_packets: first window, not held to that; 0 for the most.
    sack_packets: received for one acknowledgement; what is marked is acknowledged at once. timeout_s: after a round
    trip, where nothing else tells of a loss.
    credit_rate: of the receiver, as a share of its link. paced: receivers slow their credits where packets are trimmed
    before the last switch, and grow them again by pace_step and more, as for oversubscribed networks.
    target_delay_s, fast_delay_s, quick_targets, cut, smoothing, proportional, fair, fast, creep, adjust_bytes,
    period_s, reference_Bps, reference_rtt_s: of NSCC. dcqcn_*: of DCQCN.

    Raises ValueError naming what is out of range.
    """

    control: str
    balancing: str
    overflow: str
    recovery: str
    entropies: int
    queue_packets: int
    marking: bool
    mark_low_packets: float
    mark_high_packets: float
    mark_low_share: float
    mark_high_share: float
    mark_probability: float
    pause_packets: int
    resume_packets: int
    buffer_bytes: Quantity
    start_packets: int
    window_products: float
    sack_bytes: Quantity
    flowlet_gap_s: Quantity
    timeout_s: Quantity
    credit_rate: float
    pacing: str
    pace_step: float
    pace_growth: float
    pace_cut: float
    pace_marks: float
    pace_period_s: Quantity
    target_round_trips: float
    fast_delay_s: Quantity
    quick_targets: float
    cut: float
    smoothing: float
    proportional: float
    fair: float
    fast: float
    creep: float
    adjust_bytes: Quantity
    period_s: Quantity
    reference_Bps: Quantity
    reference_rtt_s: Quantity
    dcqcn_smoothing: float
    dcqcn_timer_s: Quantity
    dcqcn_notice_s: Quantity
    dcqcn_counter_bytes: Quantity
    dcqcn_step_Bps: Quantity
    dcqcn_fast_step_Bps: Quantity
    dcqcn_least_share: float

    def __post_init__(self) -> None:
        for name, names in CHOICES.items():
            if getattr(self, name) not in names:
                raise catalog.UnknownName(name, getattr(self, name), set(names))
        for name in ("pause_packets",):
            whole(name, getattr(self, name))
        for name in ("entropies", "queue_packets", "resume_packets", "start_packets"):
            whole(name, getattr(self, name), 0)
        for name in ("mark_low_packets", "flowlet_gap_s", "timeout_s", "fast_delay_s", "proportional", "fair", "fast",
                     "creep", "pace_marks", "sack_bytes", "dcqcn_notice_s", "dcqcn_step_Bps", "dcqcn_fast_step_Bps"):  # fmt: skip
            at_least(name, getattr(self, name))
        for name in ("target_round_trips", "buffer_bytes", "pace_growth", "pace_period_s", "period_s", "reference_Bps", "reference_rtt_s", "adjust_bytes", "quick_targets",
                     "window_products", "dcqcn_timer_s", "dcqcn_counter_bytes"):  # fmt: skip
            positive(name, getattr(self, name))
        for name in ("cut", "smoothing", "credit_rate", "pace_step", "pace_cut", "mark_low_share", "mark_high_share",
                     "mark_probability", "dcqcn_smoothing", "dcqcn_least_share"):  # fmt: skip
            share(name, getattr(self, name), above_0=True)
        self._in_order("mark_high_packets", "mark_low_packets")
        self._in_order("mark_high_share", "mark_low_share")
        if self.overflow == "pause":
            self._in_order("pause_packets", "resume_packets", 1)
            if self.marking:
                positive("mark_high_packets", self.mark_high_packets, "packets")
        elif self.marking and self.queue_packets:
            self._in_order("queue_packets", "mark_high_packets")
        if self.recovery == "go-back-n" and self.balancing != "single path":
            raise ValueError(f"balancing is {self.balancing!r}: go-back-n needs packets in order; choose 'single path'")
        if self.recovery == "go-back-n" and self.control in ("credits", "pulls"):
            raise ValueError(f"control is {self.control!r}: go-back-n discards what was credited; choose 'window'")

    def _in_order(self, larger: str, smaller: str, above: float = 0) -> None:
        """Raise ValueError where one field is not larger than another, or, with above 0, equal."""
        high, low = getattr(self, larger), getattr(self, smaller)
        if high < low + above:
            remedy = f"give at least {low + above:g}, or at most {high - above:g} for {smaller}"
            raise ValueError(f"{larger} is {high:g}: {remedy}")


SHARED = "default"  # of the catalog: values of every transport that has none of its own


def transport_names() -> list[str]:
    """Transports of the catalog."""
    return [name for name in catalog.names("transports") if name != SHARED]


@checked
def transport(name: str, **changes: Any) -> Transport:
    """A transport of the catalog, with other values for some fields: transport("NDP", queue_packets=16).

    name: of `transport_names`. Raises UnknownName for another name or field, with the nearest.
    """
    if name not in (names := transport_names()):
        raise catalog.UnknownName("transport", name, names)
    types: dict[str, Any] = {field.name: field.type for field in fields(Transport)}
    for each in changes:
        if each not in types:
            raise catalog.UnknownName(f"field of transport {name!r}", each, types)
    own = catalog.item("transports", name)
    rows = {**catalog.item("transports", SHARED), **own} | {choice: own[choice] for choice in CHOICES if choice in own}
    stored = {key: types[key](value) if types[key] in (int, bool) else value for key, value in rows.items()}
    return Transport(**stored | changes)
