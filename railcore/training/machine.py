"""A GPU and its links: datasheet rates, the shares that kernels and collectives reach, and times of collectives."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import catalog, checks
from railcore.facts.arguments import Quantity, checked
from railcore.network.topology.clos import checked_oversubscription
from railcore.network.topology.rails import RailFabric
from railcore.training.experts import ROUTINGS, expert_all_to_all_time
from railcore.training.formats import FORMATS, LinearFormat
from railcore.training.link_times import Latencies, LinkTimes, all_reduce_links, gather_links

PRECISIONS = tuple(FORMATS)
ATTENTION_KERNELS = ("flash1", "flash2", "flash3", "cudnn", "cudnn_2025")
_ATTENTION_SHAPES = ("head64", "mla")  # heads of 64, and of latent attention, whose queries are longer than its values
_WINDOW = 128  # keys of the window that rows of attention_fraction_window are of
RESERVED = ("context_memory", "communication_memory", "fragmentation_memory")  # rows of "all" in efficiencies
_ATTENTION_TOKENS = 4096  # of the sequences on which rates of attention are given
UNLIMITED_BANDWIDTH = 1e30  # bytes/s of a memory or link that costs nothing


@checked
@dataclass(frozen=True)
class GpuRates:
    """What a GPU computes: dense peaks, and the shares of them that kernels reach.

    linear_rate, bf16_rate: dense peak in the precision of the linear layers, and in bf16 [FLOP/s].
    linear_fraction, bf16_fraction: share of it that large matrix products sustain, see `product_share`.
    attention_fraction: share of bf16_rate that the best fused attention reaches, on _ATTENTION_TOKENS tokens.
    processors: over which the tiles of a product are spread.
    rank_spread: standard deviation of the compute time of equal GPUs, over its mean; the slowest is waited for.
    unaligned_share: of the rate that products keep whose weights have a side that no 64 divides.
    attention_ramp: tokens of a sequence at which attention has half of its rate for long ones.
    attention_kernels: names and shares of other attention kernels.
    attention_shapes: of heads of 64 elements and of latent attention, what is left of the share.
    window_keys: keys of whole tiles and of masks that a window takes beside its own.
    """

    linear_rate: Quantity
    bf16_rate: Quantity
    linear_fraction: float
    bf16_fraction: float
    attention_fraction: float
    processors: int
    rank_spread: float
    unaligned_share: float = 1.0
    attention_ramp: float = 0.0
    attention_kernels: tuple[tuple[str, float], ...] = ()
    attention_shapes: tuple[tuple[str, float], ...] = ()
    window_keys: float = 0.0

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

    memory_bytes: Quantity
    memory_Bps: Quantity
    memory_fraction: float
    reserved_bytes: Quantity
    cast_fraction: float

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
    oversubscription: of the any-to-any layer over the rails, which only "direct" routing uses; math.inf is rail-only.
    """

    hb_domain_size: int
    hb_Bps: Quantity
    hb_fraction: float
    hb_latency_s: Quantity
    nic_Bps: Quantity
    nic_fraction: float
    nic_latency_s: Quantity
    call_latency_s: Quantity = 0.0
    multicast_latency_s: Quantity = math.inf
    oversubscription: float = math.inf

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
        checked_oversubscription(self.oversubscription)


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

    kernel_s: Quantity
    launch_s: Quantity
    kernel_launch_s: Quantity
    iteration_host_s: Quantity
    forward_operators: int
    backward_operators: int
    dropless_serial_share: float
    exchange_hidden_share: float
    host_Bps: Quantity
    host_memory_Bps: Quantity

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
    routing, pipelined: of tokens to their experts, see `experts`.
    """

    collective_processors: float
    overlap_slowdown: float = 1.0
    memory_contention: bool = False
    two_phase_collectives: bool = False
    routing: str = "two-hop"
    pipelined: bool = True

    def __post_init__(self) -> None:
        checks.at_least("collective_processors", self.collective_processors)
        checks.at_least("overlap_slowdown", self.overlap_slowdown, 1.0)
        checks.one_of("routing", self.routing, ROUTINGS)


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
    host: HostWork
    collectives: CollectiveWays
    platform: str = field(default="", repr=False, compare=False)  # a name: nothing is computed from it
    made_by = "catalog_machine(platform, precision), or the name of a platform in the catalog"

    def __post_init__(self) -> None:
        checks.one_of("precision", self.precision, PRECISIONS)

    @classmethod
    def of_values(cls, values: Mapping[str, Any]) -> "Machine":
        """A machine of the fields of its parts, all by their names. Raises UnknownName for another name."""
        names = {each.name for each in fields(cls)} - set(PARTS)
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
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in PARTS}
        return own | {name: getattr(getattr(self, part), name) for name, part in PART_OF.items()}

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

    def attention_share(
        self, kernel: str, tokens: ArrayLike, query_dim: float = 128, value_dim: float = 128
    ) -> np.ndarray:
        """Share of bf16_rate that a kernel of fused attention reaches: g f (1 + r / 4,096) / (1 + r / s), r the ramp.

        Parameters
        ----------
        kernel
            Of ATTENTION_KERNELS; f is its share. Where it has no row of its own, it is that of the same kernel without
            a year, or of the best one.
        tokens
            s, of a sequence.
        query_dim, value_dim
            Elements of a head. g is what is left of f for heads of 64 or fewer, and for latent attention.

        Returns
        -------
        Shares, of the shape of tokens.
        """
        rates, known = self.rates, dict(self.rates.attention_kernels)
        share = known.get(kernel, known.get(kernel.partition("_")[0], rates.attention_fraction))
        shape = "head64" if query_dim <= 64 else "mla" if query_dim != value_dim else ""
        share, ramp = share * dict(rates.attention_shapes).get(shape, 1.0), rates.attention_ramp
        return np.asarray(share * (1 + ramp / _ATTENTION_TOKENS) / (1 + ramp / np.asarray(tokens)))

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
        """HB bandwidth that collectives reach [bytes/s]."""
        return self.links.hb_Bps * self.links.hb_fraction

    @property
    def collective_nic_Bps(self) -> float:
        """NIC bandwidth that collectives reach [bytes/s]."""
        return self.links.nic_Bps * self.links.nic_fraction

    @checked
    def on(self, fabric: RailFabric) -> "Machine":
        """The same GPU on a fabric: its HB domain, its bandwidths and the layer over its rails."""
        links = {name: getattr(fabric, name) for name in ("hb_domain_size", "hb_Bps", "nic_Bps", "oversubscription")}
        return self.changed(**links)

    def gather_links(
        self, message_bytes: ArrayLike, inside: ArrayLike, domains: ArrayLike, calls: ArrayLike = 1
    ) -> LinkTimes:
        """`link_times.gather_links` on this machine's links.

        Parameters
        ----------
        message_bytes, inside, domains, calls
            D bytes of all calls, x ranks in each of y HB domains, as there.

        Returns
        -------
        Seconds.
        """
        return gather_links(
            message_bytes, inside, domains, *self.reached, calls, self.collectives.two_phase_collectives
        )

    def all_reduce_links(
        self, message_bytes: ArrayLike, inside: ArrayLike, domains: ArrayLike, calls: ArrayLike = 1
    ) -> LinkTimes:
        """`link_times.all_reduce_links` on this machine's links.

        Parameters
        ----------
        message_bytes, inside, domains, calls
            As for `gather_links`.

        Returns
        -------
        Seconds.
        """
        phases = self.collectives.two_phase_collectives
        return all_reduce_links(message_bytes, inside, domains, *self.reached, calls, phases)

    @property
    def reached(self) -> tuple[tuple[float, float], Latencies]:
        """Bandwidths that collectives reach over HB interconnect and NIC, and latencies."""
        links = self.links
        latencies = Latencies(links.hb_latency_s, links.nic_latency_s, links.call_latency_s, links.multicast_latency_s)
        return (self.collective_hb_Bps, self.collective_nic_Bps), latencies

    def all_to_all_links(self, message_bytes: ArrayLike, inside: ArrayLike, domains: ArrayLike) -> LinkTimes:
        """Times of an all-to-all, D bytes a rank, x ranks in each of y HB domains, and of the links that it uses.

        Of the D bytes (y - 1) / y leave the domain. By "direct" routing (x - 1) / (x y) stay within it; else all that
        is not for the rank's own rail passes the HB interconnect, (x - 1) / x.
        """
        x, y = np.asarray(inside), np.asarray(domains)
        (hb, nic), (hb_latency, nic_latency, *_) = self.reached
        across = (self.collectives.routing, self.links.oversubscription)
        time = expert_all_to_all_time(message_bytes, x * y, x, hb, nic, *across, pipelined=self.collectives.pipelined)
        sent = np.asarray(message_bytes, float)
        within = sent * (x - 1) / (x * y if self.collectives.routing == "direct" else x) / hb
        beyond = sent * (y - 1) / y / nic
        return LinkTimes(time + (x > 1) * hb_latency + (y > 1) * nic_latency, within, beyond)

    def routed_links(
        self, hb_bytes: ArrayLike, nic_bytes: ArrayLike, inside: ArrayLike, domains: ArrayLike
    ) -> LinkTimes:
        """Times of an exchange of these bytes over a GPU's HB interconnect and NIC, at once where `pipelined`.

        Parameters
        ----------
        hb_bytes, nic_bytes
            That a GPU sends, one direction.
        inside, domains
            x ranks in each of y HB domains, for the latency of a step on each network.

        Returns
        -------
        Seconds.
        """
        (hb, nic), (hb_latency, nic_latency, *_) = self.reached
        within, beyond = np.asarray(hb_bytes, float) / hb, np.asarray(nic_bytes, float) / nic
        time = np.maximum(within, beyond) if self.collectives.pipelined else within + beyond
        start = (np.asarray(inside) > 1) * hb_latency + (np.asarray(domains) > 1) * nic_latency
        return LinkTimes(time + start, within, beyond)

    def hop_link(self, inside: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Bandwidth [bytes/s] and latency [s] of a hop between two GPUs, by whether they are in one HB domain."""
        (hb, nic), (hb_latency, nic_latency, *_) = self.reached
        return np.where(inside, hb, nic), np.where(inside, hb_latency, nic_latency)


PARTS: dict[str, Any] = {
    "rates": GpuRates,
    "memory": GpuMemory,
    "links": GpuLinks,
    "host": HostWork,
    "collectives": CollectiveWays,
}
PART_OF = {each.name: part for part, kind in PARTS.items() for each in fields(kind)}


def product_share(shares: catalog.Item, precision: str) -> float:
    """Share of the dense peak in a precision that large products sustain, of the catalog's rows of a GPU.

    In training products follow each other, and power limits their clocks: they take matmul_sustained, measured on
    large products one after the other, and not matmul_fraction, the best of any shape. Where a GPU has no such row, it
    is the best one; where it has none in MXFP8 or NVFP4, that of FP8.
    """
    formats = ("bf16",) if precision == "bf16" else (precision, "fp8")
    names = [f"matmul_{kind}_{each}" for each in formats for kind in ("sustained", "fraction")]
    return shares[next((name for name in names if name in shares), names[-1])]


def shared_memory(gpu: catalog.Item) -> float:
    """Memory of a GPU of the catalog that its programs share [bytes].

    It is driver_memory, what nvidia-smi shows: makers round it down to a name of the part. It is `memory` where the GPU
    has no such row, or where a folder of the user's own has another `memory` and no driver_memory for it.
    """
    named = gpu.row("memory")
    driver = gpu.row("driver_memory") if "driver_memory" in gpu else named
    return (named if named.own and not driver.own else driver).value


def reserved_memory() -> float:
    """Memory of a GPU that is not for states and activations [bytes]: context, communication buffers and fragments.

    The sum of the catalog's rows `RESERVED` of "all", or reserved_memory where a folder of the user's own has that row.
    """
    common = catalog.item("efficiencies", "all")
    return common["reserved_memory"] if "reserved_memory" in common else sum(common[part] for part in RESERVED)


@checked
def catalog_machine(
    platform: str,
    precision: str = "bf16",
    hb_domain_size: int | None = None,
    nic_Bps: Quantity | None = None,
    **changes: Any,
) -> Machine:
    """A GPU of a catalog platform, such as catalog_machine("DGX H100", "fp8", hb_domain_size=256).

    Parameters
    ----------
    platform, precision
        Of the catalog's platforms; one of PRECISIONS.
    hb_domain_size, nic_Bps
        GPUs of an HB domain, and bandwidth of a NIC [bytes/s]; None for the platform's.
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
        "linear_fraction": product_share(share, precision),
        "bf16_fraction": product_share(share, "bf16"),
        "processors": int(share["processors"]),
        "memory_bytes": shared_memory(gpu),
        "memory_Bps": gpu["memory_bandwidth"],
        "kernel_s": common["kernel_time"],
        "reserved_bytes": reserved_memory(),
        "launch_s": common["launch_time"],
        "kernel_launch_s": common["kernel_launch_time"],
        "iteration_host_s": common["iteration_host_time"],
        "forward_operators": int(common["forward_operators"]),
        "backward_operators": int(common["backward_operators"]),
        "dropless_serial_share": common["dropless_serial_share"],
        "exchange_hidden_share": common["exchange_hidden_share"],
        "rank_spread": common["rank_spread"],
        "collective_processors": int(common["collective_processors"]),
        "hb_domain_size": int(box["gpus"]),
        "hb_Bps": box["hb_bandwidth"],
        "hb_latency_s": common["hb_latency"],
        "nic_Bps": box["nic_bandwidth"],
        "nic_latency_s": common["nic_latency"],
        "call_latency_s": common["call_latency"],
        "multicast_latency_s": share.get("multicast_latency", math.inf),
        "host_Bps": gpu.get("cpu_bandwidth", gpu["pcie_bandwidth"]),
        "host_memory_Bps": common["host_memory_bandwidth"],
    }
    links = {"hb_domain_size": hb_domain_size, "nic_Bps": nic_Bps}
    changes |= {name: value for name, value in links.items() if value is not None}
    shares = {f"{part}_fraction": share[f"{part}_fraction"] for part in ("attention", "memory", "hb", "nic")}
    casts_blocks = FORMATS[precision].scale_kernels > 0
    values["cast_fraction"] = common["block_cast_fraction"] if casts_blocks else share["memory_fraction"]
    best = share["attention_fraction"]
    kernels, shapes = (
        {name: share[row] for name in names if (row := f"attention_fraction_{name}") in share}
        for names in (ATTENTION_KERNELS, _ATTENTION_SHAPES)
    )
    values["attention_kernels"] = tuple(kernels.items())
    values["attention_shapes"] = tuple((name, known / best) for name, known in shapes.items())
    small = share.get("attention_fraction_head64", best)
    values["window_keys"] = 2 * _WINDOW * (small / share.get("attention_fraction_window", small) - 1)
    values |= {"unaligned_share": share.get("unaligned_share", 1.0)}
    values |= {"memory_contention": bool(share.get("memory_contention", 0.0))}
    values |= {"overlap_slowdown": share.get("overlap_slowdown", 1.0), "attention_ramp": common["attention_ramp"]}
    return Machine.of_values({**values, **shares, **changes})


@checked
def as_machine(machine: Machine | str) -> Machine:
    """A machine as it is, or `catalog_machine` of a platform's name. Raises ValueError for anything else."""
    return machine if isinstance(machine, Machine) else catalog_machine(machine)
