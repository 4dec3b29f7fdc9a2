"""The parts of a `Machine`: a GPU's rates, memory and links, the host's work, and the ways of collectives."""

import math
from dataclasses import dataclass, fields
from typing import Annotated, Any

from railcore.catalog import checks
from railcore.catalog.arguments import (
    Bandwidth,
    Bytes,
    Count,
    FlopRate,
    NonNegative,
    NonNegativeInt,
    Quantity,
    Range,
    Seconds,
    checked,
)
from railcore.network.topology.failed_part import FailedPart
from railcore.training.group_shares import Fabric

ATTENTION_TOKENS = 4096  # of the sequences on which rates of attention are given


@checked
@dataclass(frozen=True)
class GpuRates:
    """What a GPU computes: dense peaks, and the shares of them that kernels reach.

    linear_rate, bf16_rate: dense peak in the precision of the linear layers, and in bf16 [FLOP/s].
    linear_fraction, bf16_fraction: share of it that large matrix products sustain, see `product_share`.
    attention_fraction: share of bf16_rate that the best fused attention reaches, on ATTENTION_TOKENS tokens.
    processors: over which the tiles of a product are spread.
    rank_spread: standard deviation of the compute time of equal GPUs, over its mean; the slowest is waited for.
    unaligned_share: of the rate that products keep whose weights have a side that no 64 divides.
    attention_ramp: tokens of a sequence at which attention has half of its rate for long ones.
    attention_kernels: names and shares of other attention kernels.
    attention_shapes: of heads of 64 elements and of latent attention, what is left of the share.
    window_keys: keys of whole tiles and of masks that a window takes beside its own.
    """

    linear_rate: FlopRate
    bf16_rate: FlopRate
    linear_fraction: NonNegative
    bf16_fraction: NonNegative
    attention_fraction: NonNegative
    processors: NonNegativeInt
    rank_spread: NonNegative
    unaligned_share: NonNegative = 1.0
    attention_ramp: NonNegative = 0.0
    attention_kernels: tuple[tuple[str, float], ...] = ()
    attention_shapes: tuple[tuple[str, float], ...] = ()
    window_keys: NonNegative = 0.0

    def __post_init__(self) -> None:
        checks.whole("processors", self.processors)
        for name in ("linear_rate", "bf16_rate"):
            checks.positive(name, getattr(self, name))
        for name in ("linear_fraction", "bf16_fraction", "attention_fraction"):
            checks.share(name, getattr(self, name), above_0=True)
        checks.share("unaligned_share", self.unaligned_share, above_0=True)
        checks.share("rank_spread", self.rank_spread, below_1=True)
        checks.at_least("attention_ramp", self.attention_ramp)
        checks.at_least("window_keys", self.window_keys)


@checked
@dataclass(frozen=True)
class GpuMemory:
    """A GPU's memory (HBM).

    memory_bytes: size, as the driver reports it [bytes].
    memory_Bps, memory_fraction: bandwidth [bytes/s], and the share of it that kernels reach.
    cast_fraction: share of it that casts to the format of linear layers reach.
    reserved_bytes: for the runtime's context, its communication buffers and fragments [bytes].
    """

    memory_bytes: Bytes
    memory_Bps: Bandwidth
    memory_fraction: NonNegative
    reserved_bytes: Bytes
    cast_fraction: NonNegative

    def __post_init__(self) -> None:
        for name in ("memory_bytes", "memory_Bps"):
            checks.positive(name, getattr(self, name))
        for name in ("memory_fraction", "cast_fraction"):
            checks.share(name, getattr(self, name), above_0=True)
        checks.at_least("reserved_bytes", self.reserved_bytes)


@checked
@dataclass(frozen=True)
class GpuLinks:
    """A GPU's links to other GPUs, one direction each.

    hb_domain_size: K, GPUs of an HB domain (scale-up or NVLink domain).
    hb_Bps, nic_Bps: bandwidth of the HB interconnect and of the NIC [bytes/s].
    hb_fraction, nic_fraction: share of it that collectives reach.
    hb_latency_s, nic_latency_s: of one step [s].
    call_latency_s, multicast_latency_s: of a collective's start, and of one within an HB domain whose switches
        multicast and reduce (NVLink SHARP), math.inf where they do not [s].
    fabric: that the NICs are on (`Machine.on`); None for one that limits nothing, with rails that do not meet.
    """

    hb_domain_size: Count
    hb_Bps: Bandwidth
    hb_fraction: NonNegative
    hb_latency_s: Seconds
    nic_Bps: Bandwidth
    nic_fraction: NonNegative
    nic_latency_s: Seconds
    call_latency_s: Seconds = 0.0
    multicast_latency_s: Annotated[Quantity, Range(0, infinite=True, example="5 ms")] = math.inf
    fabric: Fabric | None = None

    def __post_init__(self) -> None:
        checks.whole("hb_domain_size", self.hb_domain_size)
        for network in ("hb", "nic"):
            checks.positive(f"{network}_Bps", getattr(self, f"{network}_Bps"))
            checks.share(f"{network}_fraction", getattr(self, f"{network}_fraction"), above_0=True)
        for name in ("hb_latency_s", "nic_latency_s", "call_latency_s"):
            checks.at_least(name, getattr(self, name))
        if not self.multicast_latency_s >= 0:
            raise ValueError(
                f"multicast_latency_s is {self.multicast_latency_s!r}: give 0 or more, math.inf for no multicast"
            )
        if isinstance(self.fabric, FailedPart):
            self.fabric.check_goes_on()


@checked
@dataclass(frozen=True)
class HostWork:
    """The host's part of a step, and what the GPU waits for.

    kernel_s: idle time of the GPU between two kernels [s].
    launch_s, kernel_launch_s: to start one operator from Python, and one kernel of those that a library starts in a
        loop; they count where the GPU is faster [s].
    iteration_host_s: work once an iteration, while the GPU waits [s].
    forward_operators, backward_operators: that the host starts for a layer without experts.
    dropless_serial_share: of the shorter of GPU's and host's time, what adds to the longer where the host waits for the
        numbers of tokens of each expert.
    exchange_hidden_share: of an exchange of tokens behind another micro-batch, the most that is hidden.
    host_Bps, host_memory_Bps: to the CPU's memory, and of that memory a GPU's share [bytes/s].
    """

    kernel_s: Seconds
    launch_s: Seconds
    kernel_launch_s: Seconds
    iteration_host_s: Seconds
    forward_operators: NonNegativeInt
    backward_operators: NonNegativeInt
    dropless_serial_share: NonNegative
    exchange_hidden_share: NonNegative
    host_Bps: Bandwidth
    host_memory_Bps: Bandwidth

    def __post_init__(self) -> None:
        for name in ("kernel_s", "launch_s", "kernel_launch_s", "iteration_host_s"):
            checks.at_least(name, getattr(self, name))
        for name in ("forward_operators", "backward_operators"):
            checks.whole(name, getattr(self, name), 0)
        for name in ("dropless_serial_share", "exchange_hidden_share"):
            checks.share(name, getattr(self, name))
        for name in ("host_Bps", "host_memory_Bps"):
            checks.positive(name, getattr(self, name))


@checked
@dataclass(frozen=True)
class CollectiveWays:
    """How collectives run, and what they take of the compute beside them.

    collective_processors: of the GPU's, those that a collective keeps while products run beside it; a mean need not be
        whole.
    overlap_slowdown: factor by which products beside a collective slow down where they do not leave them free.
    memory_contention: whether that is because both want the memory: then it lasts as long as the HB interconnect is
        busy, and beside a collective that waits for slow NICs little is lost.
    two_phase_collectives: beyond an HB domain they run as two phases, one after the other.
    pipelined: whether tokens on their way to experts are forwarded in the HB domain while others are on the NICs.
    """

    collective_processors: NonNegative
    overlap_slowdown: NonNegative = 1.0
    memory_contention: bool = False
    two_phase_collectives: bool = False
    pipelined: bool = True

    def __post_init__(self) -> None:
        checks.at_least("collective_processors", self.collective_processors)
        checks.at_least("overlap_slowdown", self.overlap_slowdown, 1.0)


PARTS: dict[str, Any] = {
    "rates": GpuRates,
    "memory": GpuMemory,
    "links": GpuLinks,
    "host": HostWork,
    "collectives": CollectiveWays,
}
PART_OF = {each.name: part for part, kind in PARTS.items() for each in fields(kind)}
