"""The parts of a `Machine`: a GPU's rates, memory and links, the host's work, and the ways of collectives."""

import math
from dataclasses import dataclass, fields
from typing import Annotated, Any

from railcore.catalog.arguments import (
    Bytes,
    Count,
    NonNegative,
    NonNegativeInt,
    PositiveBandwidth,
    PositiveBytes,
    PositiveFlopRate,
    PositiveShare,
    Quantity,
    Range,
    Seconds,
    Share,
    checked,
)
from railcore.network.topology.failed_part import FailedPart
from railcore.training.group_shares import Fabric

UNLIMITED_BANDWIDTH = 1e30  # bytes/s of a memory or link that costs nothing
PositiveRate = Annotated[float, Range(0, infinite=True, above_0=True)]  # 1/s; infinity: takes no time

ATTENTION_TOKENS, ATTENTION_HEADS = 4096, 128  # of a sequence, in all: shares of attention are given for these


@checked
@dataclass(frozen=True)
class GpuRates:
    """What a GPU computes: dense peaks, and the shares of them that kernels reach.

    linear_rate, bf16_rate: dense peak in the precision of the linear layers, and in bf16 [FLOP/s].
    linear_fraction, bf16_fraction: share of it that large matrix products sustain one after the other, at the GPU's
        limit of power, see `product_share_row`.
    linear_full_clock, bf16_full_clock: the same at full clock, where pauses leave power; one that is lower than the
        sustained one changes nothing.
    linear_epilogue_rate, bf16_epilogue_rate: results that the ends of a product's tiles write, beside which nothing
        else runs on the processor [1/s].
    attention_fraction: share of bf16_rate that the best fused attention reaches in both passes, on ATTENTION_HEADS
        heads of ATTENTION_TOKENS tokens.
    processors: over which the tiles of a product are spread.
    spare_power: share of the time of copies by which their spare power shortens the products beside them, on a GPU
        alone.
    layer_spare_power: the same of a layer's other kernels, in a job.
    whole_waves: whether libraries run whole waves of tiles over all processors; else they split what is left.
    grouped_start_s: of a kernel with the products of all experts [s].
    grouped_epilogue_share: of the epilogue rate that it reaches.
    rank_spread, rack_spread: standard deviations of compute time over its mean: of equal GPUs of a rack, and of the
        means of racks. The slowest GPU is waited for (`stage.slowest_gpu`).
    rack_gpus: GPUs that share a rack's power and cooling.
    unaligned_share: factor on the rate of products whose weights have a side that 64 does not divide.
    attention_backward_share: of its rate forward that attention reaches backward.
    attention_ramp, attention_ramp_backward: tokens of a sequence at which attention has half of its rate for long ones.
    attention_tail, attention_tail_flash2, attention_tail_backward: queries for which a processor is busy while others
        are out of work: forward, with the first two FlashAttentions, and backward.
    attention_kernels: names of other attention kernels, and their attention_fraction.
    attention_shapes: factors on attention_fraction, for heads of 64 elements ("head64"; of a kernel "flash2_head64"),
        latent attention ("mla"), and both in fp8 ("fp8", "mla_fp8").
    window_keys: keys that a window takes more than it has, for whole tiles and masks.
    """

    linear_rate: PositiveFlopRate
    bf16_rate: PositiveFlopRate
    linear_fraction: PositiveShare
    bf16_fraction: PositiveShare
    linear_full_clock: PositiveShare
    bf16_full_clock: PositiveShare
    linear_epilogue_rate: PositiveRate
    bf16_epilogue_rate: PositiveRate
    attention_fraction: PositiveShare
    processors: Count
    rank_spread: Share
    rack_spread: Share = 0.0
    rack_gpus: Count = 1
    spare_power: Share = 0.0
    layer_spare_power: Share = 0.0
    whole_waves: bool = False
    grouped_start_s: Seconds = 0.0
    grouped_epilogue_share: PositiveShare = 1.0
    unaligned_share: PositiveShare = 1.0
    attention_backward_share: PositiveShare = 1.0
    attention_ramp: NonNegative = 0.0
    attention_ramp_backward: NonNegative = 0.0
    attention_tail: NonNegative = 0.0
    attention_tail_flash2: NonNegative = 0.0
    attention_tail_backward: NonNegative = 0.0
    attention_kernels: tuple[tuple[str, float], ...] = ()
    attention_shapes: tuple[tuple[str, float], ...] = ()
    window_keys: NonNegative = 0.0


@checked
@dataclass(frozen=True)
class GpuMemory:
    """A GPU's memory (HBM).

    memory_bytes: size, as the driver reports it [bytes].
    memory_Bps, memory_fraction: bandwidth [bytes/s], and the share of it that kernels reach.
    cast_fraction: share of it that casts to the format of linear layers reach.
    norm_share, norm_backward_share, activation_backward_share, loss_share: of that bandwidth, which kernels reach that
        reduce, or compute much for each element.
    adam_extra_bytes: that pass HBM in the time that Adam's kernel takes for a parameter beyond its bytes.
    reserved_bytes: for the runtime's context, its communication buffers and fragments [bytes].
    """

    memory_bytes: PositiveBytes
    memory_Bps: PositiveBandwidth
    memory_fraction: PositiveShare
    reserved_bytes: Bytes
    cast_fraction: PositiveShare
    norm_share: PositiveShare = 1.0
    norm_backward_share: PositiveShare = 1.0
    activation_backward_share: PositiveShare = 1.0
    loss_share: PositiveShare = 1.0
    adam_extra_bytes: NonNegative = 0.0


@checked
@dataclass(frozen=True)
class GpuLinks:
    """A GPU's links to other GPUs, one direction each.

    hb_domain_size: K, GPUs of an HB domain (scale-up or NVLink domain).
    hb_Bps, nic_Bps: bandwidth of the HB interconnect and of the NIC [bytes/s].
    hb_fraction, nic_fraction: share of it that collectives reach.
    hb_latency_s, nic_latency_s: of one step [s].
    call_latency_s: of the start of a collective between HB domains, and of a hop [s].
    fabric: that the NICs are on (`Machine.on`); None for one that limits nothing, with rails that do not meet.
    """

    hb_domain_size: Count
    hb_Bps: PositiveBandwidth
    hb_fraction: PositiveShare
    hb_latency_s: Seconds
    nic_Bps: PositiveBandwidth
    nic_fraction: PositiveShare
    nic_latency_s: Seconds
    call_latency_s: Seconds = 0.0
    fabric: Fabric | None = None

    def __post_init__(self) -> None:
        if isinstance(self.fabric, FailedPart):
            self.fabric.check_goes_on()


@checked
@dataclass(frozen=True)
class DomainCollectives:
    """Latencies of collectives inside an HB domain, and shares of hb_fraction that they reach (`domain_links`).

    domain_call_latency_s, domain_step_latency_s: of a small collective's start, and of one of its steps [s].
    low_latency_share: bandwidth of NCCL's protocols for small messages, LL and LL128, over that of Simple.
    bulk_latency_s: what Simple takes to start beyond a small collective [s].
    local_step: time of a rank's own part, which it copies or adds in its memory, over that of a step of the links.
    multicast_latency_s, multicast_share: where switches multicast and reduce (NVLink SHARP), of a collective's start,
        math.inf where they do not [s], and share of the bandwidth.
    all_to_all_latency_s, all_to_all_share: what an all-to-all takes to start beyond a small collective [s], and share
        of the bandwidth.
    peer_Bps: that the smallest messages of an all-to-all reach to each peer [bytes/s].

    Without values a collective starts at once and has all of hb_fraction.
    """

    domain_call_latency_s: Seconds = 0.0
    domain_step_latency_s: Seconds = 0.0
    low_latency_share: PositiveShare = 1.0
    bulk_latency_s: Seconds = 0.0
    local_step: Share = 0.0
    multicast_latency_s: Annotated[Quantity, Range(0, infinite=True, example="5 ms")] = math.inf
    multicast_share: PositiveShare = 1.0
    all_to_all_latency_s: Seconds = 0.0
    all_to_all_share: PositiveShare = 1.0
    peer_Bps: PositiveBandwidth = UNLIMITED_BANDWIDTH


@checked
@dataclass(frozen=True)
class HostWork:
    """The host's part of a step, and what the GPU waits for.

    kernel_s: idle time of the GPU between two kernels [s].
    launch_s, kernel_launch_s: time to start one operator from Python, and one of the kernels that a library starts in a
        loop; they count where the GPU is faster [s].
    forward_operators, backward_operators: that the host starts for a layer without experts.
    dropless_serial_share: share of the shorter of the GPU's and the host's time that does not overlap with the longer,
        where the host waits for the numbers of tokens of each expert.
    exchange_hidden_share: largest share of an exchange of tokens that another micro-batch hides.
    host_Bps, host_memory_Bps: bandwidth to the CPU's memory, and a GPU's share of that memory's bandwidth [bytes/s].
    """

    kernel_s: Seconds
    launch_s: Seconds
    kernel_launch_s: Seconds
    forward_operators: NonNegativeInt
    backward_operators: NonNegativeInt
    dropless_serial_share: Share
    exchange_hidden_share: Share
    host_Bps: PositiveBandwidth
    host_memory_Bps: PositiveBandwidth


@checked
@dataclass(frozen=True)
class CollectiveWays:
    """How collectives run, and what they take of the compute beside them.

    collective_processors: of the GPU's, those that a collective keeps while products run beside it; a mean need not be
        whole.
    overlap_slowdown: factor by which products beside a collective slow down where they keep all processors.
    memory_contention: whether they slow down because both need the memory: then only while the HB interconnect is busy,
        so that a collective that waits for slow NICs costs little.
    two_phase_collectives: whether collectives of several HB domains run as two phases, one after the other.
    pipelined: whether tokens on their way to experts are forwarded in the HB domain while others are on the NICs.
    """

    collective_processors: NonNegative
    overlap_slowdown: Annotated[float, Range(1)] = 1.0
    memory_contention: bool = False
    two_phase_collectives: bool = False
    pipelined: bool = True


PARTS: dict[str, Any] = {
    "rates": GpuRates,
    "memory": GpuMemory,
    "links": GpuLinks,
    "domain": DomainCollectives,
    "host": HostWork,
    "collectives": CollectiveWays,
}
PART_OF = {item.name: part for part, kind in PARTS.items() for item in fields(kind)}
