"""What a transport does: when it sends, on which path, what full queues do, and how it makes good a loss."""

from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from railcore import catalog
from railcore.catalog.arguments import (
    Bandwidth,
    Bytes,
    FlopRate,
    NonNegative,
    NonNegativeInt,
    Seconds,
    checked,
)
from railcore.catalog.checks import at_least, positive, share, whole

BALANCINGS = ("single path", "flowlets", "oblivious", "bitmap", "reps", "mixed")
OVERFLOWS = ("trim", "drop", "pause")
RECOVERIES = ("selective", "go-back-n")
PACINGS = ("steady", "marks", "trims")


def _one_of(field: str, value: str, names: tuple[str, ...]) -> None:
    if value not in names:
        raise catalog.UnknownName(field, value, names)


def _check_ranges(part: Any, **names: str) -> None:
    """Raise ValueError naming a field out of range. names: fields with spaces between, by the range of each."""
    ranges: dict[str, Any] = {
        "counts": partial(whole, least=0),
        "not_negative": at_least,
        "positive": positive,
        "shares": partial(share, above_0=True),
    }
    for each, listed in names.items():
        for name in listed.split():
            ranges[each](name, getattr(part, name))


class Control:
    """When a sender may send: one of the classes below, with the numbers of that control alone."""


@dataclass(frozen=True)
class LineRate(Control):
    """Sends whenever it can."""


@checked
@dataclass(frozen=True, kw_only=True)
class Pulls(Control):
    """NDP: after the first window, the receiver gives a credit for each packet or header that comes in.

    credit_rate: of the receiver, as a share of its link.
    """

    credit_rate: FlopRate

    def __post_init__(self) -> None:
        _check_ranges(self, shares="credit_rate")


@checked
@dataclass(frozen=True, kw_only=True)
class Nscc(Control):
    """Ultra Ethernet's control by the sender: a window, driven by marks and delay.

    target_round_trips: delay in queues that a window aims at, in round trips of the longest path without queues, with
    the time of sending a packet and its acknowledgement.
    fast_delay_s: below it a window grows fast [s]. quick_targets: mean delay above which it falls at once [targets].
    cut: share of a multiplicative decrease. smoothing: weight of the newest delay.
    proportional, fair, fast, creep: gains of increases, on a network of reference_Bps [bytes/s] and reference_rtt_s
    [s]; they grow with the product of rate and round trip.
    adjust_bytes: acknowledged before a window is adjusted, times the target over reference_rtt_s [bytes].
    period_s: longest time between two adjustments [s].
    """

    target_round_trips: NonNegative
    fast_delay_s: Seconds
    quick_targets: NonNegative
    cut: NonNegative
    smoothing: NonNegative
    proportional: NonNegative
    fair: NonNegative
    fast: NonNegative
    creep: NonNegative
    adjust_bytes: Bytes
    period_s: Seconds
    reference_Bps: Bandwidth
    reference_rtt_s: Seconds

    def __post_init__(self) -> None:
        _check_ranges(
            self,
            not_negative="fast_delay_s proportional fair fast creep",
            positive="target_round_trips quick_targets adjust_bytes period_s reference_Bps reference_rtt_s",
            shares="cut smoothing",
        )


@checked
@dataclass(frozen=True, kw_only=True)
class Rccc(Control):
    """Ultra Ethernet's control by the receiver: after a first round trip, it paces credits, as many as it is asked for.

    credit_rate: of the receiver, as a share of its link.
    pacing: how receivers change that rate where the fabric is oversubscribed: not (`steady`), by `marks`, or by marks
    and by `trims` before the last switch.
    pace_period_s: mean time between two changes [s].
    pace_step: that a rate grows by without congestion, as a share of the link; with `trims` of the link over the
    oversubscription. pace_growth: times that the step grows each time that the rate does not fall; marks undo it once.
    pace_least: least rate, as a share of the link over the oversubscription.
    pace_marks, pace_cut: where the mean share of marks is above the first, the rate is multiplied by
    1 - pace_cut (mean share - pace_marks).
    """

    credit_rate: FlopRate
    pacing: str
    pace_period_s: Seconds
    pace_step: NonNegative
    pace_growth: NonNegative
    pace_marks: NonNegative
    pace_cut: NonNegative
    pace_least: NonNegative

    def __post_init__(self) -> None:
        _one_of("pacing", self.pacing, PACINGS)
        _check_ranges(
            self, positive="pace_period_s pace_growth", shares="credit_rate pace_step pace_cut pace_marks pace_least"
        )


@checked
@dataclass(frozen=True, kw_only=True)
class Dcqcn(Control):
    """A rate for each flow, cut by notices of marks.

    dcqcn_smoothing: weight of the newest notice. dcqcn_timer_s: between two increases [s]. dcqcn_counter_bytes: sent
    between two increases [bytes]. dcqcn_notice_s: least time between two notices to a flow [s].
    dcqcn_step_Bps, dcqcn_fast_step_Bps: additive and hyper increase [bytes/s]. dcqcn_least_share: least rate, of the
    link's.
    """

    dcqcn_smoothing: NonNegative
    dcqcn_timer_s: Seconds
    dcqcn_notice_s: Seconds
    dcqcn_counter_bytes: Bytes
    dcqcn_step_Bps: Bandwidth
    dcqcn_fast_step_Bps: Bandwidth
    dcqcn_least_share: NonNegative

    def __post_init__(self) -> None:
        _check_ranges(
            self,
            not_negative="dcqcn_notice_s dcqcn_step_Bps dcqcn_fast_step_Bps",
            positive="dcqcn_timer_s dcqcn_counter_bytes",
            shares="dcqcn_smoothing dcqcn_least_share",
        )


CONTROLS = {"line rate": LineRate, "NSCC": Nscc, "RCCC": Rccc, "pulls": Pulls, "DCQCN": Dcqcn}  # as the kernel has them


@checked
@dataclass(frozen=True, kw_only=True)
class Queues:
    """Output ports of switches at full speed; room and marks of a slower port go with its speed.

    overflow: a full queue trims packets to headers, drops them, or pauses the links that fill it.
    queue_packets: room of a queue that does not pause; 0 for one bandwidth-delay product of a link.
    marking: whether queues mark packets: from mark_low_packets on, with a probability that grows to mark_probability at
    mark_high_packets; above, all; 0 for both: mark_low_share and mark_high_share of the room.
    pause_packets, resume_packets: of one incoming link, waiting in a switch. buffer_bytes: room that it must have for
    them, so that nothing is ever dropped: a run with less is refused [bytes].
    """

    overflow: str
    queue_packets: NonNegativeInt
    marking: bool
    mark_low_packets: NonNegative
    mark_high_packets: NonNegative
    mark_low_share: NonNegative
    mark_high_share: NonNegative
    mark_probability: NonNegative
    pause_packets: NonNegativeInt
    resume_packets: NonNegativeInt
    buffer_bytes: Bytes

    def __post_init__(self) -> None:
        _one_of("overflow", self.overflow, OVERFLOWS)
        whole("pause_packets", self.pause_packets)
        _check_ranges(
            self,
            counts="queue_packets resume_packets",
            not_negative="mark_low_packets",
            positive="buffer_bytes",
            shares="mark_low_share mark_high_share mark_probability",
        )
        self._in_order("mark_high_packets", "mark_low_packets")
        self._in_order("mark_high_share", "mark_low_share")
        if self.overflow == "pause":
            self._in_order("pause_packets", "resume_packets", 1)
            if self.marking:
                positive("mark_high_packets", self.mark_high_packets, "packets")
        elif self.marking and self.queue_packets:
            self._in_order("queue_packets", "mark_high_packets")

    def _in_order(self, larger: str, smaller: str, above: float = 0) -> None:
        """Raise ValueError where one field is not larger than another, or, with above 0, equal."""
        high, low = getattr(self, larger), getattr(self, smaller)
        if high < low + above:
            remedy = f"give at least {low + above:g}, or at most {high - above:g} for {smaller}"
            raise ValueError(f"{larger} is {high:g}: {remedy}")


@checked
@dataclass(frozen=True, kw_only=True)
class Transport:
    """One transport: when it sends, what queues do, how it chooses paths and makes good a loss.

    control: one of `CONTROLS`, with its numbers. queues: of the switches' output ports.
    balancing: `single path` and `flowlets` keep to a path (until a gap of `flowlet_gap_s`); the others spray over
    `entropies` paths (0: over all): `oblivious` in turn, `bitmap` leaving out what was bad, `reps` reusing what was
    good, `mixed` both.
    recovery: `selective` sends again what is missing, `go-back-n` all from there on.
    window_products: most of a window, in bandwidth-delay products, at least a round trip with the time of sending.
    start_packets: first window, not held to that; 0 for the most.
    sack_bytes: received from this on, headers included, for one acknowledgement [bytes]; a mark is answered at once.
    timeout_s: after a round trip, where nothing else tells of a loss [s].

    Raises ValueError naming what is out of range.
    """

    control: Control
    queues: Queues
    balancing: str
    recovery: str
    entropies: NonNegativeInt
    flowlet_gap_s: Seconds
    window_products: NonNegative
    start_packets: NonNegativeInt
    sack_bytes: Bytes
    timeout_s: Seconds

    def __post_init__(self) -> None:
        _one_of("balancing", self.balancing, BALANCINGS)
        _one_of("recovery", self.recovery, RECOVERIES)
        _check_ranges(
            self,
            counts="entropies start_packets",
            not_negative="flowlet_gap_s timeout_s sack_bytes",
            positive="window_products",
        )
        if self.recovery == "go-back-n" and self.balancing != "single path":
            raise ValueError(f"balancing is {self.balancing!r}: go-back-n needs packets in order; choose 'single path'")
        if self.recovery == "go-back-n" and isinstance(self.control, Rccc | Pulls):
            name = type(self.control).__name__
            raise ValueError(f"control is {name}: go-back-n discards what was credited; choose Nscc, or selective")

    @property
    def lossless(self) -> bool:
        """Whether full queues pause links and drop nothing."""
        return self.queues.overflow == "pause"

    def changed(self, **changes: Any) -> "Transport":
        """With other values for some fields, of the control and of the queues too. Raises UnknownName for others."""
        parts = {name: changes.pop(name, getattr(self, name)) for name in ("control", "queues")}
        if not isinstance(parts["control"], Control):
            names = ", ".join(each.__name__ for each in CONTROLS.values())
            raise ValueError(f"control is {parts['control']!r}: give numbers of a control, one of {names}")
        for name, part in parts.items():
            own = {each.name for each in fields(part)} & changes.keys()
            parts[name] = replace(part, **{each: changes.pop(each) for each in sorted(own)})
        known = {each.name for part in (self, *parts.values()) for each in fields(part)}
        for each in changes.keys() - known:
            raise catalog.UnknownName("field of a transport", each, known)
        return replace(self, **parts | changes)


CHOICES = ("control", "balancing", "overflow", "recovery")  # that every transport of the catalog makes
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
    own = catalog.item("transports", name)
    rows = {**catalog.item("transports", SHARED), **own} | {choice: own[choice] for choice in CHOICES}
    _one_of("control", rows["control"], tuple(CONTROLS))

    def part(kind: type, **more: Any) -> Any:
        kinds: dict[str, Any] = {each.name: each.type for each in fields(kind) if each.name in rows}
        found = {key: each(rows[key]) if each in (int, bool) else rows[key] for key, each in kinds.items()}
        return kind(**found | more)

    made = part(Transport, control=part(CONTROLS[rows["control"]]), queues=part(Queues))
    return made.changed(**changes) if changes else made
