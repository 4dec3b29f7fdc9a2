"""A GPU and its links: datasheet rates, the shares that kernels and collectives reach, and times of collectives."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.catalog import checks
from railcore.catalog.arguments import Bandwidth, Count, Flags, PositiveArray, PositiveShare, checked
from railcore.catalog.units import show
from railcore.training.domain_links import domain_all_to_all_s
from railcore.training.formats import BF16, FORMATS, LinearFormat
from railcore.training.group_shares import Fabric, group_shares
from railcore.training.link_times import Latencies, LinkTimes, all_reduce_links, gather_links
from railcore.training.machine_parts import (
    ATTENTION_HEADS,
    ATTENTION_TOKENS,
    PART_OF,
    PARTS,
    UNLIMITED_BANDWIDTH,
    CollectiveWays,
    DomainCollectives,
    GpuLinks,
    GpuMemory,
    GpuRates,
    HostWork,
)
from railcore.training.machine_rows import (
    cast_share_row,
    epilogue_row,
    full_clock_row,
    product_share_row,
    reserved_memory,
    shared_memory,
)
from railcore.training.rank_order import GroupLevels

PRECISIONS = tuple(FORMATS)
ATTENTION_KERNELS = ("flash1", "flash2", "flash3", "cudnn", "cudnn_2025")
_LONG_TAILS = ("flash1", "flash2")  # kernels that do not order their blocks by length
# Heads of 64, of all kernels and of one; of latent attention, whose queries are longer than its values; in fp8.
_ATTENTION_SHAPES = ("head64", "flash2_head64", "mla", "fp8", "mla_fp8")
_COMMON_KERNELS = (  # fields, and rows of the same name of a GPU or of "all" GPUs in efficiencies
    *("spare_power", "layer_spare_power", "grouped_epilogue_share", "rank_spread", "rack_spread"),
    *("attention_backward_share", "attention_ramp", "attention_ramp_backward"),
    *("attention_tail", "attention_tail_flash2", "attention_tail_backward"),
    *("norm_share", "norm_backward_share", "activation_backward_share", "loss_share", "adam_extra_bytes"),
)
_WINDOW = 128  # keys of the window that rows of attention_fraction_window are of
_DOMAIN_ROWS = {  # fields of DomainCollectives, and rows of a GPU or of "all" GPUs in efficiencies
    "domain_call_latency_s": "domain_call_latency",
    "domain_step_latency_s": "domain_step_latency",
    "low_latency_share": "low_latency_share",
    "bulk_latency_s": "bulk_latency",
    "local_step": "local_step",
    "multicast_share": "multicast_share",
    "all_to_all_latency_s": "all_to_all_latency",
    "all_to_all_share": "all_to_all_share",
    "peer_Bps": "peer_bandwidth",
}
# Fields of a machine whose products and attention take their FLOPs alone: no size, start or pause changes their rate.
IDEAL_KERNELS: dict[str, Any] = {
    "memory_Bps": UNLIMITED_BANDWIDTH,
    "linear_epilogue_rate": math.inf,
    "bf16_epilogue_rate": math.inf,
    "whole_waves": False,
    **dict.fromkeys(("spare_power", "layer_spare_power"), 0.0),
    "kernel_s": 0.0,
    "grouped_start_s": 0.0,
    **dict.fromkeys(("attention_ramp", "attention_ramp_backward"), 0.0),
    **dict.fromkeys(("attention_tail", "attention_tail_flash2", "attention_tail_backward"), 0.0),
}


class GroupPlace(NamedTuple):
    """Where a group of ranks lies, in numbers or in arrays of one shape.

    inside, domains: x ranks in each of y HB domains.
    nic_share: of a NIC's bandwidth that its traffic between domains gets.
    direct_share: the same of an all-to-all that is not forwarded; 0 where rails do not meet.
    """

    inside: Any
    domains: Any
    nic_share: Any = 1.0
    direct_share: Any = 0.0


@checked
@dataclass(frozen=True)
class Machine:
    """One GPU of a cluster, with its links.

    gpu, precision: name, and precision of the linear layers, of PRECISIONS; attention and logits stay in bf16.
    rates, memory, links, host, collectives: its parts.
    platform: of the catalog, from which the values are, "" for none.

    Raises ValueError naming the argument that is out of range.
    """

    gpu: str
    precision: str
    rates: GpuRates
    memory: GpuMemory
    links: GpuLinks
    domain: DomainCollectives
    host: HostWork
    collectives: CollectiveWays
    platform: str = field(default="", repr=False, compare=False)  # a name: nothing is computed from it
    made_by = "catalog_machine(platform, precision), or the name of a platform in the catalog"

    def __post_init__(self) -> None:
        checks.one_of("precision", self.precision, PRECISIONS)

    @classmethod
    @checked
    def of_values(cls, values: Mapping[str, Any]) -> "Machine":
        """A machine of the fields of its parts, all by their names. Raises UnknownName for another name."""
        names = {item.name for item in fields(cls)} - set(PARTS)
        if stray := [name for name in values if name not in names and name not in PART_OF]:
            raise catalog.UnknownName("argument of Machine", stray[0], [*PART_OF, *names])
        parts = {
            part: kind(**{name: value for name, value in values.items() if PART_OF.get(name) == part})
            for part, kind in PARTS.items()
        }
        return cls(**parts, **{name: value for name, value in values.items() if name in names})

    @property
    def values(self) -> dict[str, Any]:
        """Fields of all its parts, and its own, by their names."""
        of_machine = {item.name: getattr(self, item.name) for item in fields(self) if item.name not in PARTS}
        return of_machine | {name: getattr(getattr(self, part), name) for name, part in PART_OF.items()}

    @checked
    def changed(self, **changes: Any) -> "Machine":
        """The same with other values of its fields, or of its parts' by their names, such as nic_Bps."""
        return Machine.of_values(self.values | changes)

    @property
    def format(self) -> LinearFormat:
        """Number format of the linear layers."""
        return FORMATS[self.precision]

    @property
    def narrow(self) -> bool:
        """Whether linear layers compute in 8 bits or fewer."""
        return self.precision != "bf16"

    @property
    def hb_domain_size(self) -> int:
        """K, GPUs of an HB domain."""
        return self.links.hb_domain_size

    @property
    def hb_Bps(self) -> float:
        """Bandwidth of the HB interconnect, one direction [bytes/s]."""
        return self.links.hb_Bps

    @property
    def nic_Bps(self) -> float:
        """Bandwidth of the NIC, one direction [bytes/s]."""
        return self.links.nic_Bps

    @property
    def memory_bytes(self) -> float:
        """Memory of the GPU [bytes]."""
        return self.memory.memory_bytes

    @property
    def linear_flops(self) -> float:
        """Rate of a large matrix product of the linear layers [FLOP/s]."""
        return self.rates.linear_rate * self.rates.linear_fraction

    @property
    def bf16_flops(self) -> float:
        """Rate of a large matrix product in bf16 [FLOP/s]."""
        return self.rates.bf16_rate * self.rates.bf16_fraction

    @cached_property
    def at_full_clock(self) -> "Machine":
        """The same where products leave power for the full clock."""
        rates = self.rates
        return self.changed(
            linear_fraction=max(rates.linear_fraction, rates.linear_full_clock),
            bf16_fraction=max(rates.bf16_fraction, rates.bf16_full_clock),
        )

    def attention_shares(
        self, kernel: str, heads: Any, tokens: Any, query_dim: float = 128, value_dim: float = 128, fp8: bool = False
    ) -> tuple[Any, Any]:
        """Shares of bf16_rate that fused attention reaches, forward and backward: f / (1 + L / s + P q / r).

        - f: of long sequences of many heads, from the kernel's share of both passes and attention_backward_share.
        - L, the ramp: of a sequence of s tokens, what tiles on the diagonal compute in vain, and what a kernel does
          once for each token.
        - P q / r, the tail: of r queries, heads times tokens, the last q of a processor, while the P others are idle.

        Parameters
        ----------
        kernel
            Of ATTENTION_KERNELS. Where it has no share of its own, it has that of the same kernel without a year, or of
            the best one.
        heads, tokens
            Of all sequences of a kernel, and of one sequence; they broadcast.
        query_dim, value_dim
            Elements of a head. Heads of 64 or fewer, and latent attention, have factors in attention_shapes.
        fp8
            Whether its products are in fp8, where the GPU has a factor for that.

        Returns
        -------
        Shares forward and backward, of the shape of heads and tokens.
        """
        rates, kernels, shapes = self.rates, dict(self.rates.attention_kernels), dict(self.rates.attention_shapes)
        share = kernels.get(kernel, kernels.get(kernel.partition("_")[0], rates.attention_fraction))
        shape = "head64" if query_dim <= 64 else "mla" if query_dim != value_dim else ""
        names = [f"{shape}_fp8".strip("_")] * fp8 + [f"{kernel}_{shape}", shape]
        share = share * next((shapes[name] for name in names if name in shapes), 1.0)
        backward, work = rates.attention_backward_share, backward_attention_work(query_dim, value_dim)
        share = share * (1 + work / backward) / (1 + work)  # forward
        tail = rates.attention_tail_flash2 if kernel in _LONG_TAILS else rates.attention_tail

        def reached(rate: float, ramp: float, queries: float) -> Any:
            lost = ramp / ATTENTION_TOKENS + rates.processors * queries / (ATTENTION_HEADS * ATTENTION_TOKENS)
            return rate * (1 + lost) / (1 + ramp / tokens + rates.processors * queries / (heads * tokens))

        return (
            reached(share, rates.attention_ramp, tail),
            reached(share * backward, rates.attention_ramp_backward, rates.attention_tail_backward),
        )

    @property
    def hbm_Bps(self) -> float:
        """HBM bandwidth that kernels reach [bytes/s]."""
        return self.memory.memory_Bps * self.memory.memory_fraction

    @property
    def cast_Bps(self) -> float:
        """HBM bandwidth that casts to the format of linear layers reach [bytes/s]."""
        return self.memory.memory_Bps * self.memory.cast_fraction

    @property
    def collective_hb_Bps(self) -> float:
        """HB bandwidth that collectives reach, of what a failed part of the fabric leaves [bytes/s]."""
        return self.links.hb_Bps * self.links.hb_fraction * getattr(self.links.fabric, "hb_share", 1.0)

    @property
    def collective_nic_Bps(self) -> float:
        """NIC bandwidth that collectives reach [bytes/s]."""
        return self.links.nic_Bps * self.links.nic_fraction

    @checked
    def on(self, fabric: Fabric | None) -> "Machine":
        """The same GPU on a fabric, which says where ranks lie and what share of a NIC each kind of traffic gets.

        Bandwidths stay the machine's, and so does its number of GPUs in use of each HB domain.
        Raises ValueError where that is more than the fabric's HB domains have, for a fabric that was given other
        bandwidths than the machine's, and for one that has lost a part without which the job stops.
        """
        used = self.hb_domain_size
        for name, what in (("nic_Bps", "NICs"), ("hb_Bps", "HB interconnects")):
            of_fabric, of_machine = getattr(fabric, name, None), getattr(self, name)
            if of_fabric is not None and not math.isclose(of_fabric, of_machine):
                raise ValueError(
                    f"fabric has {what} of {show(of_fabric, 'bps')}, the machine {show(of_machine, 'bps')}: give both "
                    f"the same, such as the machine with {name}={of_fabric:g}"
                )
        if fabric and used > fabric.hb_domain_size and fabric.domains > 1:
            raise ValueError(
                f"fabric has HB domains of {fabric.hb_domain_size:,} GPUs, the machine {used:,}: give a fabric with "
                f"hb_domain_size={used}, or the machine with hb_domain_size={fabric.hb_domain_size}"
            )
        return self.changed(fabric=fabric)

    def off_fabrics(self, why: str) -> "Machine":
        """The same. Raises ValueError where it is on a fabric. why: what knows nothing of it."""
        if self.links.fabric:
            raise ValueError(f"machine is on a fabric, of which {why} know nothing: give machine.changed(fabric=None)")
        return self

    def places(self, groups: Mapping[str, GroupLevels], gpus: ArrayLike) -> dict[str, GroupPlace]:
        """Where groups of kinds lie, and what share of a NIC they get (`group_shares`). gpus: of the job."""
        K = self.hb_domain_size
        shares = group_shares(self.links.fabric, groups, K, gpus)
        return {
            kind: GroupPlace(*levels.in_domains(K), shares.by_kind[kind], shares.direct)
            for kind, levels in groups.items()
        }

    def gather_links(
        self,
        message_bytes: ArrayLike,
        inside: ArrayLike,
        domains: ArrayLike,
        calls: ArrayLike = 1,
        nic_share: PositiveArray = 1.0,
    ) -> LinkTimes:
        """Link times of an AllGather or a ReduceScatter: `link_times.gather_links` on this machine's links.

        Parameters
        ----------
        message_bytes, inside, domains, calls
            Full buffers of all calls D [bytes]; x ranks in each of y HB domains; collectives that D is divided over.
        nic_share
            Of the NIC's bandwidth that it gets.

        Returns
        -------
        Seconds.
        """
        phases = self.collectives.two_phase_collectives
        return gather_links(message_bytes, inside, domains, *self.reached(nic_share), calls, phases)

    def all_reduce_links(
        self,
        message_bytes: ArrayLike,
        inside: ArrayLike,
        domains: ArrayLike,
        calls: ArrayLike = 1,
        nic_share: PositiveArray = 1.0,
    ) -> LinkTimes:
        """Link times of an AllReduce: `link_times.all_reduce_links` on this machine's links.

        Parameters
        ----------
        message_bytes, inside, domains, calls
            Buffers of all calls D [bytes]; x ranks in each of y HB domains; collectives that D is divided over.
        nic_share
            Of the NIC's bandwidth that it gets.

        Returns
        -------
        Seconds.
        """
        phases = self.collectives.two_phase_collectives
        return all_reduce_links(message_bytes, inside, domains, *self.reached(nic_share), calls, phases)

    def reached(self, nic_share: Any = 1.0) -> tuple[tuple[float, Any], Latencies]:
        """Bandwidths of HB interconnect and NIC that collectives reach [bytes/s], and latencies."""
        links = self.links
        latencies = Latencies(links.hb_latency_s, links.nic_latency_s, links.call_latency_s, self.domain)
        return (self.collective_hb_Bps, self.collective_nic_Bps * nic_share), latencies

    def all_to_all_links(
        self,
        message_bytes: ArrayLike,
        inside: ArrayLike,
        domains: ArrayLike,
        nic_share: ArrayLike = 1.0,
        direct_share: ArrayLike = 0.0,
    ) -> LinkTimes:
        """Link times of an all-to-all: tokens of a GPU to their experts, a copy for each expert (`expert_dispatch`).

        In one HB domain its time is `domain_all_to_all_s`.

        Between domains, (y - 1) / y of the D bytes leave the HB domain. Forwarded, each goes over the HB interconnect
        to the GPU on its rail first: the HB interconnect carries (x - 1) / x of D. Where rails meet, it may go straight
        over the NIC instead: then the HB interconnect carries (x - 1) / (x y). The straight way is taken where it is
        faster and keeps the NIC busy no longer.

        Parameters
        ----------
        message_bytes, inside, domains
            D of a GPU, its own share included [bytes]; x ranks in each of y HB domains.
        nic_share, direct_share
            Of the NIC's bandwidth, forwarded and straight; see `GroupPlace`.

        Returns
        -------
        Seconds.
        """
        x, y, direct = np.asarray(inside), np.asarray(domains), np.asarray(direct_share, float)
        sent = np.asarray(message_bytes, float)
        leaving = sent * (y - 1) / y
        forwarded = self.routed_links(sent * (x - 1) / x, leaving, x, y, nic_share)
        inside_s = domain_all_to_all_s(sent, x, self.collective_hb_Bps, self.domain)
        forwarded = forwarded._replace(time_s=np.where(y > 1, forwarded.time_s, inside_s)[()])
        if not direct.any():
            return forwarded
        rails_meet = direct > 0
        share = np.where(rails_meet, direct, 1.0)
        straight = self.routed_links(sent * (x - 1) / (x * y), leaving, x, y, share, forwarded=False)
        better = rails_meet & (y > 1) & (straight.time_s < forwarded.time_s) & (straight.nic_s <= forwarded.nic_s)
        return LinkTimes(*(np.where(better, *pair)[()] for pair in zip(straight, forwarded, strict=True)))

    def routed_links(
        self,
        hb_bytes: ArrayLike,
        nic_bytes: ArrayLike,
        inside: ArrayLike,
        domains: ArrayLike,
        nic_share: ArrayLike = 1.0,
        forwarded: bool = True,
    ) -> LinkTimes:
        """Link times of an exchange of these bytes over a GPU's HB interconnect and NIC.

        Both work at once where nothing is forwarded, and where the software pipelines what is; else in turn.

        Parameters
        ----------
        hb_bytes, nic_bytes
            That a GPU sends, one direction.
        inside, domains
            x ranks in each of y HB domains, for the latency of a step on each network.
        nic_share
            Of the NIC's bandwidth that it gets.
        forwarded
            Whether what leaves the domain passes the HB interconnect too.

        Returns
        -------
        Seconds.
        """
        (hb, nic), (hb_latency, nic_latency, *_) = self.reached(nic_share)
        hb_s, nic_s = np.asarray(hb_bytes, float) / hb, np.asarray(nic_bytes, float) / nic
        at_once = self.collectives.pipelined or not forwarded
        time = np.maximum(hb_s, nic_s) if at_once else hb_s + nic_s
        start = (np.asarray(inside) > 1) * hb_latency + (np.asarray(domains) > 1) * nic_latency
        return LinkTimes(time + start, hb_s, nic_s)

    def hop_link(self, same_domain: Flags, nic_share: PositiveArray = 1.0) -> tuple[np.ndarray, np.ndarray]:
        """Bandwidth [bytes/s] and latency [s] of a hop between two GPUs: of a collective's call and one step.

        same_domain: whether both are in one HB domain. nic_share: of the NIC's bandwidth that the hop gets.
        """
        (hb, nic), (hb_latency, nic_latency, call_latency, _) = self.reached(nic_share)
        return np.where(same_domain, hb, nic), call_latency + np.where(same_domain, hb_latency, nic_latency)


def backward_attention_work(query_dim: float, value_dim: float) -> float:
    """FLOPs of fused attention backward over those forward: it makes the scores again, and four gradients.

    Forward 1 product of queries and one of values; backward 3 and 2: 2.5 where both have as many elements.
    """
    return (3 * query_dim + 2 * value_dim) / (query_dim + value_dim)


@checked
def catalog_machine(
    platform: str,
    precision: str = "bf16",
    hb_domain_size: Count | None = None,
    nic_Bps: Bandwidth | None = None,
    sustained_share: PositiveShare | None = None,
    **changes: Any,
) -> Machine:
    """A GPU of a catalog platform, such as catalog_machine("DGX H100", "fp8", hb_domain_size=256).

    Parameters
    ----------
    platform
        Name of a platform in the catalog, such as "DGX H100".
    precision
        Number format of the linear layers, one of PRECISIONS, such as "bf16" or "fp8".
    hb_domain_size
        GPUs of an HB domain (scale-up or NVLink domain); None for the platform's.
    nic_Bps
        Bandwidth of a GPU's NIC, one direction [bytes/s]; None for the platform's.
    sustained_share
        Share of the peak that your own card sustains in large products of this precision, one after the other; None for
        the catalog's. Cards differ: of B200 0.48 and 0.63 are published in bf16.
    changes
        Other fields of `Machine` in place of the catalog's.

    Returns
    -------
    A machine: rates from the family gpus, links from platforms, shares and latencies from efficiencies.

    Raises
    ------
    ValueError
        For another precision, and for blocks (mxfp8, nvfp4) on a GPU whose products do not scale them.
    KeyError
        UnknownName; where the GPU has no rate in that precision.

    Examples
    --------
    >>> import railcore as rc
    >>> gpu = rc.catalog_machine("DGX H100", "fp8", nic_Bps="800 Gbps")
    >>> gpu.hb_domain_size, rc.show(gpu.nic_Bps, "bps")
    (8, '800 Gbps')
    """
    checks.one_of("precision", precision, PRECISIONS)
    box = catalog.item("platforms", platform)
    name = str(box["gpu"])
    if FORMATS[precision].scale_kernels and FORMATS[precision].rate not in catalog.item("gpus", name):
        raise ValueError(f"precision is {precision!r}: {name} has no products with scales of blocks; give fp8 or bf16")
    gpu, share, common = (catalog.item(*of) for of in (("gpus", name), ("efficiencies", name), ("efficiencies", "all")))
    values: dict[str, Any] = {
        "platform": platform,
        "gpu": name,
        "precision": precision,
        "linear_rate": gpu[FORMATS[precision].rate],
        "bf16_rate": gpu["bf16_dense_rate"],
        "linear_fraction": share[product_share_row(share, precision)],
        "bf16_fraction": share[product_share_row(share, "bf16")],
        "linear_full_clock": share[full_clock_row(share, precision)],
        "bf16_full_clock": share[full_clock_row(share, "bf16")],
        "linear_epilogue_rate": share.get(epilogue_row(share, precision), math.inf),
        "bf16_epilogue_rate": share.get(epilogue_row(share, "bf16"), math.inf),
        "processors": int(share["processors"]),
        "memory_bytes": shared_memory(gpu),
        "memory_Bps": gpu["memory_bandwidth"],
        "kernel_s": common["kernel_time"],
        "reserved_bytes": reserved_memory(),
        "launch_s": common["launch_time"],
        "kernel_launch_s": common["kernel_launch_time"],
        "forward_operators": int(common["forward_operators"]),
        "backward_operators": int(common["backward_operators"]),
        "dropless_serial_share": common["dropless_serial_share"],
        "exchange_hidden_share": common["exchange_hidden_share"],
        "rack_gpus": int(common["rack_gpus"]),
        "grouped_start_s": share.get("grouped_start", common["grouped_start"]),
        "collective_processors": int(common["collective_processors"]),
        "hb_domain_size": int(box["gpus"]),
        "hb_Bps": box["hb_bandwidth"],
        "hb_latency_s": common["hb_latency"],
        "nic_Bps": box["nic_bandwidth"],
        "nic_latency_s": common["nic_latency"],
        "call_latency_s": common["call_latency"],
        "multicast_latency_s": share.get("multicast_latency", math.inf),
        **{name: share.get(row, common[row]) for name, row in _DOMAIN_ROWS.items()},
        "host_Bps": gpu.get("cpu_bandwidth", gpu["pcie_bandwidth"]),
        "host_memory_Bps": common["host_memory_bandwidth"],
    }
    links = {"hb_domain_size": hb_domain_size, "nic_Bps": nic_Bps}
    changes |= {name: value for name, value in links.items() if value is not None}
    if sustained_share is not None:
        kinds = ("linear",) if FORMATS[precision] is not BF16 else ("linear", "bf16")
        changes |= {f"{kind}_fraction": sustained_share for kind in kinds}
    shares = {f"{part}_fraction": share[f"{part}_fraction"] for part in ("attention", "memory", "hb", "nic")}
    best = share["attention_fraction"]
    kernels, shapes = (
        {name: share[row] for name in names if (row := f"attention_fraction_{name}") in share}
        for names in (ATTENTION_KERNELS, _ATTENTION_SHAPES)
    )
    small = shapes.get("head64", best)
    cast_row = cast_share_row(precision)
    values |= {
        "cast_fraction": (share if cast_row in share else common)[cast_row],
        "attention_kernels": tuple(kernels.items()),
        "attention_shapes": tuple(
            (name, value / kernels.get(name.rpartition("_")[0], best)) for name, value in shapes.items()
        ),
        **{name: share.get(name, common[name]) for name in _COMMON_KERNELS},
        "window_keys": 2 * _WINDOW * (small / share.get("attention_fraction_window", small) - 1),
        "unaligned_share": share.get("unaligned_share", 1.0),
        "whole_waves": bool(share.get("whole_waves", 0.0)),
        "overlap_slowdown": share.get("overlap_slowdown", 1.0),
        "memory_contention": bool(share.get("memory_contention", 0.0)),
    }
    return Machine.of_values({**values, **shares, **changes})


def machine_of_gpu(gpu: str, precision: str = "bf16") -> Machine:
    """The machine of the first platform of the catalog with a GPU. Raises ValueError where none has it."""
    platforms = [name for name in catalog.names("platforms") if catalog.item("platforms", name)["gpu"] == gpu]
    if not platforms:
        raise ValueError(f"gpu is {gpu!r}, which no platform of the catalog has: see catalog.names('platforms')")
    return catalog_machine(platforms[0], precision)


def as_machine(machine: Machine | str, fabric: Fabric | None = None) -> Machine:
    """A machine as it is, or `catalog_machine` of a platform's name; on a fabric, where one is given.

    Raises ValueError for anything else, and as `Machine.on`.
    """
    box = machine if isinstance(machine, Machine) else catalog_machine(machine)
    return box.on(fabric) if fabric else box
