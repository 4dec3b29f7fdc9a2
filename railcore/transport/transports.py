"""Transports: when a sender sends, on which path, what full queues do, and how a loss is repaired."""

from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal, get_args

from railcore import catalog
from railcore.catalog.arguments import (
    Bandwidth,
    Bytes,
    Count,
    NonNegative,
    NonNegativeInt,
    Positive,
    PositiveBandwidth,
    PositiveShare,
    Quantity,
    Range,
    Seconds,
    checked,
)
from railcore.transport.delay import Duration

Balancing = Literal["single path", "flowlets", "oblivious", "bitmap", "reps", "mixed"]
Overflow = Literal["trim", "drop", "pause"]
Recovery = Literal["selective", "go-back-n"]
Pacing = Literal["steady", "marks", "trims"]
BALANCINGS, OVERFLOWS, RECOVERIES, PACINGS = map(get_args, (Balancing, Overflow, Recovery, Pacing))
_Size = Annotated[Quantity, Range(0, above_0=True, example="1 MB")]


class Control:
    """When a sender may send: one of the classes below, with its own numbers."""


@dataclass(frozen=True)
class LineRate(Control):
    """Sends whenever it can."""


@checked
@dataclass(frozen=True, kw_only=True)
class Pulls(Control):
    """NDP: after the first window, the receiver gives a credit for each packet or header that comes in.

    credit_rate: of the receiver, as a share of its link.
    """

    credit_rate: PositiveShare


@checked
@dataclass(frozen=True, kw_only=True)
class Nscc(Control):
    """Ultra Ethernet's control by the sender: a window, driven by marks and delay.

    target_round_trips: delay in queues that a window aims at, in round trips of the longest path without queues (with
        the time to send a packet and its acknowledgement).
    fast_delay_s: delay below which a window grows fast [s].
    quick_targets: mean delay above which it falls at once [targets].
    cut: share of a multiplicative decrease.
    smoothing: weight of the newest delay.
    proportional, fair, fast, creep: gains of increases, on a network of reference_Bps [bytes/s] and reference_rtt_s
        [s]; they grow with the product of rate and round trip.
    adjust_bytes: acknowledged before a window is adjusted, times the target over reference_rtt_s [bytes].
    period_s: longest time between two adjustments [s].
    """

    target_round_trips: Positive
    fast_delay_s: Seconds
    quick_targets: Positive
    cut: PositiveShare
    smoothing: PositiveShare
    proportional: NonNegative
    fair: NonNegative
    fast: NonNegative
    creep: NonNegative
    adjust_bytes: _Size
    period_s: Duration
    reference_Bps: PositiveBandwidth
    reference_rtt_s: Duration


@checked
@dataclass(frozen=True, kw_only=True)
class Rccc(Control):
    """Ultra Ethernet's control by the receiver: after a first round trip it paces the credits that senders ask for.

    credit_rate: of the receiver, as a share of its link.
    pacing: how receivers change that rate on an oversubscribed fabric: not at all (`steady`), by `marks`, or by marks
        and by `trims` before the last switch.
    pace_period_s: mean time between two changes [s].
    pace_step: growth of the rate without congestion, as a share of the link; with `trims`, of the link over the
        oversubscription.
    pace_growth: factor on the step each time that the rate does not fall; marks undo it once.
    pace_least: least rate, as a share of the link over the oversubscription.
    pace_marks, pace_cut: where the mean share of marks is above pace_marks, the rate is multiplied by
        1 - pace_cut (mean share - pace_marks).
    """

    credit_rate: PositiveShare
    pacing: Pacing
    pace_period_s: Duration
    pace_step: PositiveShare
    pace_growth: Positive
    pace_marks: PositiveShare
    pace_cut: PositiveShare
    pace_least: PositiveShare


@checked
@dataclass(frozen=True, kw_only=True)
class Dcqcn(Control):
    """A rate for each flow, cut by notices of marks.

    dcqcn_smoothing: weight of the newest notice.
    dcqcn_timer_s: between two increases [s].
    dcqcn_notice_s: least time between two notices to a flow [s].
    dcqcn_counter_bytes: sent between two increases [bytes].
    dcqcn_step_Bps, dcqcn_fast_step_Bps: additive and hyper increase [bytes/s].
    dcqcn_least_share: least rate, as a share of the link.
    """

    dcqcn_smoothing: PositiveShare
    dcqcn_timer_s: Duration
    dcqcn_notice_s: Seconds
    dcqcn_counter_bytes: _Size
    dcqcn_step_Bps: Bandwidth
    dcqcn_fast_step_Bps: Bandwidth
    dcqcn_least_share: PositiveShare


CONTROLS = {"line rate": LineRate, "NSCC": Nscc, "RCCC": Rccc, "pulls": Pulls, "DCQCN": Dcqcn}  # in the kernel's order


@checked
@dataclass(frozen=True, kw_only=True)
class Queues:
    """Output ports of switches at full speed. A slower port has room and marks in proportion to its speed.

    overflow: a full queue trims packets to headers, drops them, or pauses the links that fill it.
    queue_packets: room of a queue that does not pause; 0 for one bandwidth-delay product of a link.
    marking: whether queues mark packets: none below mark_low_packets, then with a probability that grows to
        mark_probability at mark_high_packets, and all above.
    mark_low_share, mark_high_share: the same as shares of the room, where mark_high_packets is 0.
    pause_packets, resume_packets: packets of one incoming link that wait in a switch when it pauses and resumes.
    buffer_bytes: room of a switch for them [bytes]. A run that needs more, so that packets could drop, is refused.

    Raises ValueError for thresholds in the wrong order.
    """

    overflow: Overflow
    queue_packets: NonNegativeInt
    marking: bool
    mark_low_packets: NonNegative
    mark_high_packets: NonNegative
    mark_low_share: PositiveShare
    mark_high_share: PositiveShare
    mark_probability: PositiveShare
    pause_packets: Count
    resume_packets: NonNegativeInt
    buffer_bytes: _Size

    def __post_init__(self) -> None:
        self._in_order("mark_high_packets", "mark_low_packets")
        self._in_order("mark_high_share", "mark_low_share")
        if self.overflow == "pause":
            self._in_order("pause_packets", "resume_packets", 1)
            if self.marking and not self.mark_high_packets:
                raise ValueError("mark_high_packets is 0: give a positive number, since queues that pause have no room")
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
    """One transport: when it sends, what queues do, how it chooses paths and repairs a loss.

    control: one of `CONTROLS`, with its numbers. queues: of the switches' output ports.
    balancing: `single path` and `flowlets` keep to a path (until a gap of `flowlet_gap_s`); the others spray over
        `entropies` paths (0: over all): `oblivious` in turn, `bitmap` leaving out bad paths, `reps` reusing good ones,
        `mixed` both.
    recovery: `selective` sends missing packets again, `go-back-n` all from the first missing one on.
    window_products: largest window, in bandwidth-delay products; at least a round trip with the time of sending.
    start_packets: first window, which may be larger; 0 for the largest window.
    sack_bytes: received bytes, with headers, for one acknowledgement; a mark is answered at once.
    timeout_s: after a round trip, where nothing else tells of a loss [s].

    Raises ValueError for go-back-n with sprayed packets or with credits.
    """

    control: Control
    queues: Queues
    balancing: Balancing
    recovery: Recovery
    entropies: NonNegativeInt
    flowlet_gap_s: Seconds
    window_products: Positive
    start_packets: NonNegativeInt
    sack_bytes: Bytes
    timeout_s: Seconds

    def __post_init__(self) -> None:
        if self.recovery == "go-back-n" and self.balancing != "single path":
            raise ValueError(f"balancing is {self.balancing!r}: go-back-n needs packets in order; choose 'single path'")
        if self.recovery == "go-back-n" and isinstance(self.control, Rccc | Pulls):
            name = type(self.control).__name__
            raise ValueError(f"control is {name}: go-back-n discards credited packets; choose Nscc, or selective")

    @property
    def lossless(self) -> bool:
        """Whether full queues pause links and drop nothing."""
        return self.queues.overflow == "pause"

    def changed(self, **changes: Any) -> "Transport":
        """The transport with other values of some fields, also of its control and queues. Raises UnknownName."""
        parts = {name: changes.pop(name, getattr(self, name)) for name in ("control", "queues")}
        if not isinstance(parts["control"], Control):
            controls = ", ".join(control.__name__ for control in CONTROLS.values())
            raise ValueError(f"control is {parts['control']!r}: give numbers of a control, one of {controls}")
        names = {field.name for part in (self, *parts.values()) for field in fields(part)}
        for unknown in sorted(changes.keys() - names):
            raise catalog.UnknownName("field of a transport", unknown, names)
        for name, part in parts.items():
            of_part = [field.name for field in fields(part) if field.name in changes]
            parts[name] = replace(part, **{field: changes.pop(field) for field in of_part})
        return replace(self, **parts | changes)


CHOICES = ("control", "balancing", "overflow", "recovery")  # rows that every transport of the catalog has
SHARED = "default"  # item of the catalog with the values that a transport does not set


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
    item = catalog.item("transports", name)
    rows = {**catalog.item("transports", SHARED), **item} | {choice: item[choice] for choice in CHOICES}
    if rows["control"] not in CONTROLS:
        raise catalog.UnknownName("control", rows["control"], CONTROLS)

    def part(kind: type, **parts: Any) -> Any:
        names = [field.name for field in fields(kind) if field.name in rows and field.name not in parts]
        return kind(**{name: rows[name] for name in names}, **parts)

    rows["marking"] = bool(rows["marking"])
    made = part(Transport, control=part(CONTROLS[rows["control"]]), queues=part(Queues))
    return made.changed(**changes) if changes else made
