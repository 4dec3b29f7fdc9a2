"""What a transport does: when it sends, on which path, what full queues do, and how it makes good a loss."""

from dataclasses import dataclass

from railcore.facts import catalog
from railcore.facts.arguments import Quantity, checked
from railcore.facts.checks import at_least, positive, share, whole

CONTROLS = ("line rate", "window", "credits", "pulls", "dcqcn")
BALANCINGS = ("single path", "flowlets", "oblivious", "bitmap", "reps", "mixed")
OVERFLOWS = ("trim", "drop", "pause")
RECOVERIES = ("selective", "go-back-n")


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

    queue_packets: room of a queue that does not pause; 0 for one bandwidth-delay product of a link, with marks from 20%
    to 80% of it. marking: whether queues mark packets: from mark_low_packets on, with a probability that grows to
    mark_probability at mark_high_packets; above, all. pause_packets, resume_packets: of one incoming
    link, waiting in a switch.
    start_packets: first window; 0 for 1.5 bandwidth-delay products. sack_packets: received for one acknowledgement;
    what is marked is acknowledged at once. timeout_s: after a round trip, where nothing else tells of a loss.
    credit_rate: of the receiver, as a share of its link.
    target_delay_s, fast_delay_s, cut, smoothing, proportional, fair, fast, creep, adjust_bytes, period_s: of NSCC.
    dcqcn_*: of DCQCN.

    Raises ValueError naming what is out of range.
    """

    control: str = "window"
    balancing: str = "oblivious"
    overflow: str = "trim"
    recovery: str = "selective"
    entropies: int = 0
    queue_packets: int = 50
    marking: bool = True
    mark_low_packets: float = 12
    mark_high_packets: float = 37
    mark_probability: float = 1.0
    pause_packets: int = 15
    resume_packets: int = 12
    start_packets: int = 0
    sack_packets: int = 4
    flowlet_gap_s: Quantity = 10e-6
    timeout_s: Quantity = 100e-6
    credit_rate: float = 1.0
    target_delay_s: Quantity = 6e-6
    fast_delay_s: Quantity = 1e-6
    cut: float = 0.8
    smoothing: float = 0.0125
    proportional: float = 4.0
    fair: float = 5.0
    fast: float = 0.25
    creep: float = 0.15
    adjust_bytes: Quantity = 8000.0
    period_s: Quantity = 12e-6
    reference_bytes: Quantity = 150e3  # bandwidth-delay product of 100 Gbps and 12 us
    dcqcn_smoothing: float = 1 / 256
    dcqcn_timer_s: Quantity = 55e-6
    dcqcn_notice_s: Quantity = 50e-6
    dcqcn_counter_bytes: Quantity = 10e6
    dcqcn_step_Bps: Quantity = 5e6
    dcqcn_fast_step_Bps: Quantity = 50e6

    def __post_init__(self) -> None:
        for name, names in (("control", CONTROLS), ("balancing", BALANCINGS), ("overflow", OVERFLOWS),
                            ("recovery", RECOVERIES)):  # fmt: skip
            if getattr(self, name) not in names:
                raise catalog.UnknownName(name, getattr(self, name), set(names))
        for name in ("pause_packets", "sack_packets"):
            whole(name, getattr(self, name))
        for name in ("entropies", "queue_packets", "resume_packets", "start_packets"):
            whole(name, getattr(self, name), 0)
        for name in ("mark_low_packets", "flowlet_gap_s", "timeout_s", "fast_delay_s"):
            at_least(name, getattr(self, name))
        for name in ("target_delay_s", "period_s", "reference_bytes", "dcqcn_timer_s", "dcqcn_counter_bytes"):
            positive(name, getattr(self, name))
        for name in ("cut", "smoothing", "credit_rate", "mark_probability", "dcqcn_smoothing"):
            share(name, getattr(self, name), above_0=True)
        if self.mark_high_packets < self.mark_low_packets:
            raise ValueError(
                f"mark_high_packets is {self.mark_high_packets:g}: give at least mark_low_packets, "
                f"{self.mark_low_packets:g}"
            )
        if self.overflow == "pause" and self.resume_packets >= self.pause_packets:
            raise ValueError(f"resume_packets is {self.resume_packets}: give less than pause_packets, "
                             f"{self.pause_packets}")  # fmt: skip
        if self.overflow != "pause" and self.marking and self.mark_low_packets > self.queue_packets > 0:
            raise ValueError(
                f"mark_low_packets is {self.mark_low_packets:g}: the queue holds {self.queue_packets}; give less"
            )
        if self.recovery == "go-back-n" and self.balancing != "single path":
            raise ValueError(f"balancing is {self.balancing!r}: go-back-n needs packets in order; choose 'single path'")
        if self.recovery == "go-back-n" and self.control in ("credits", "pulls"):
            raise ValueError(f"control is {self.control!r}: go-back-n discards what was credited; choose 'window'")


PRESETS = {
    "RoCEv2": Transport(
        control="line rate", balancing="single path", overflow="pause", recovery="go-back-n", marking=False
    ),
    "RoCEv2 with DCQCN": Transport(  # marks from 5 KB on, 1% at 200 KB
        control="dcqcn",
        balancing="single path",
        overflow="pause",
        recovery="go-back-n",
        mark_low_packets=1,
        mark_high_packets=50,
        mark_probability=0.01,
    ),
    "single path": Transport(balancing="single path", queue_packets=0),
    "flowlets": Transport(balancing="flowlets", queue_packets=0),
    "spraying": Transport(balancing="bitmap", entropies=64, queue_packets=0),
    "NDP": Transport(control="pulls", queue_packets=8, sack_packets=1, marking=False),
    "UEC NSCC": Transport(entropies=128, start_packets=75),
    "UEC RCCC": Transport(control="credits", entropies=128, start_packets=75),
}


def transport(name: str) -> Transport:
    """A preset by its name. Raises UnknownName, which lists them."""
    if name not in PRESETS:
        raise catalog.UnknownName("transport", name, set(PRESETS))
    return PRESETS[name]
