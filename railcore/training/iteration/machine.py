"""What a GPU and its links deliver: datasheet rates, and the shares of them that kernels and collectives reach."""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.network.topology.clos import checked_oversubscription
from railcore.training.experts.token_routing import ROUTINGS, expert_all_to_all_time

if TYPE_CHECKING:
    from railcore.network.topology import RailFabric

PRECISIONS = ("bf16", "fp8")
ENDLESS = 1e30  # bytes/s of a memory or link that costs nothing


@dataclass(frozen=True)
class Machine:
    """One GPU of a cluster and the links it has, one direction each.

    gpu, precision: of the linear layers ("bf16" or "fp8"); attention and logits stay in bf16.
    linear_rate, half_rate: dense peak in that precision (used with fp8) and in bf16 [FLOP/s]; linear_fraction,
    half_fraction: share that the best matrix product reaches. sustained_fraction: share of that which products of
    training reach, beyond what tiles and memory explain. processors: that a product's tiles are spread over.
    attention_fraction: share of half_rate that fused attention reaches.
    memory_bytes, memory_Bps, memory_fraction: size, bandwidth and achievable share of HBM. kernel_s: start of a kernel.
    reserved_bytes: memory that the runtime and its communication buffers take.
    hb_domain_size: GPUs of an HB domain (scale-up or NVLink domain), K. hb_Bps, nic_Bps: bandwidth of a GPU's HB
    interconnect and NIC; hb_fraction, nic_fraction: share that collectives reach; hb_latency_s, nic_latency_s: of one
    step. host_Bps: to the CPU's memory; host_memory_Bps: of that memory, a GPU's share. phases: collectives beyond an
    HB domain run as two phases in sequence. routing, pipelined: of tokens to their experts, see `expert_routing`.
    oversubscription: of the any-to-any layer over the rails, which "direct" needs and the others do not use; math.inf
    is rail-only.

    Raises ValueError naming the argument that is out of range.
    """

    gpu: str
    precision: str
    linear_rate: float
    half_rate: float
    linear_fraction: float
    half_fraction: float
    sustained_fraction: float
    attention_fraction: float
    processors: int
    memory_bytes: float
    memory_Bps: float
    memory_fraction: float
    kernel_s: float
    reserved_bytes: float
    hb_domain_size: int
    hb_Bps: float
    hb_fraction: float
    hb_latency_s: float
    nic_Bps: float
    nic_fraction: float
    nic_latency_s: float
    host_Bps: float
    host_memory_Bps: float
    phases: bool = False
    routing: str = "two-hop"
    pipelined: bool = True
    oversubscription: float = math.inf

    def __post_init__(self) -> None:
        checked_oversubscription(self.oversubscription)
        if self.routing not in ROUTINGS:
            raise ValueError(f"routing is {self.routing!r}: give one of {', '.join(ROUTINGS)}")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision is {self.precision!r}: give one of {', '.join(PRECISIONS)}")
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if name in ("gpu", "precision", "phases", "routing", "pipelined", "oversubscription"):
                continue
            least = 0 if name.endswith(("latency_s", "kernel_s", "reserved_bytes")) else math.ulp(0.0)
            most = 1 if name.endswith("_fraction") else math.inf
            if not least <= value <= most or (name in ("hb_domain_size", "processors") and value % 1):
                raise ValueError(f"{name} is {value!r}: give a value above 0" + (" up to 1" if most == 1 else ""))

    @property
    def linear_flops(self) -> float:
        """Rate of a large matrix product of the linear layers [FLOP/s]."""
        return self.linear_rate * self.linear_fraction * self.sustained_fraction

    @property
    def half_flops(self) -> float:
        """Rate of a large matrix product in bf16 [FLOP/s]."""
        return self.half_rate * self.half_fraction * self.sustained_fraction

    @property
    def hbm_Bps(self) -> float:
        """HBM bandwidth that kernels reach [bytes/s]."""
        return self.memory_Bps * self.memory_fraction

    def on(self, fabric: "RailFabric") -> "Machine":
        """The same GPU on a fabric: its HB domain, its bandwidths and the layer over its rails."""
        links = {name: getattr(fabric, name) for name in ("hb_domain_size", "hb_Bps", "nic_Bps", "oversubscription")}
        return replace(self, **links)

    def link_time(
        self, message_bytes: ArrayLike, ranks: ArrayLike, stride: ArrayLike = 1, calls: ArrayLike = 1
    ) -> np.ndarray:
        """Time of AllGathers or ReduceScatters of a group, D bytes together [s]; an AllReduce takes twice as long.

        n ranks, neighbours `stride` apart, x = gcd(n, max(K // stride, 1)) in an HB domain, y = n / x domains. Rings
        through all ranks, one for each of the x, so that every NIC works: (n - 1) / n D / B, B = B_HB within a domain,
        else min(B_HB, x B_NIC). With `phases` the ranks on a rail go first, then those in a domain:
        (y - 1) / (x y) D / B_NIC + (x - 1) / x D / B_HB. Each of the calls has the latency of a tree's steps, log2 x in
        the domain and log2 y between domains.
        message_bytes D: full buffers of a rank [bytes].
        Source: railonly2025, LLM Traffic in the NIC Domain (phases); GitHub NVIDIA/nccl, issue 43 (many rings).
        """
        x, y = self._spread(ranks, stride)
        n, D = x * y, np.asarray(message_bytes, float)
        hb, nic = self.hb_Bps * self.hb_fraction, self.nic_Bps * self.nic_fraction
        latency = np.log2(x) * self.hb_latency_s + np.log2(y) * self.nic_latency_s
        if self.phases:
            return (y - 1) / n * D / nic + (x - 1) / x * D / hb + calls * latency
        return (n - 1) / n * D / np.where(y > 1, np.minimum(hb, x * nic), hb) + calls * latency

    def _spread(self, ranks: ArrayLike, stride: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        """Ranks of a group in one HB domain at worst, and domains that the group is spread over."""
        n = np.asarray(ranks, np.int64)
        x = np.gcd(n, np.maximum(self.hb_domain_size // np.asarray(stride, np.int64), 1))
        return x, n // x

    def exchange_time(self, message_bytes: ArrayLike, ranks: ArrayLike, stride: ArrayLike = 1) -> np.ndarray:
        """Time of an all-to-all of a group [s], D bytes a rank, by `routing`; and one step of latency on each network.

        With x ranks in each of y HB domains, two-hop and hierarchical pipelined: max((x - 1) / x D / B_HB,
        (y - 1) / y D / B_NIC); else and direct: `expert_routing.expert_all_to_all_time`.
        Source: railonly2025, Routing in Rail-Only Networks.
        """
        x, y = self._spread(ranks, stride)
        hb, nic = self.hb_Bps * self.hb_fraction, self.nic_Bps * self.nic_fraction
        time = expert_all_to_all_time(
            message_bytes, x * y, x, hb, nic, self.routing, self.oversubscription, pipelined=self.pipelined
        )
        return time + (x > 1) * self.hb_latency_s + (y > 1) * self.nic_latency_s

    def send_time(self, message_bytes: ArrayLike, ranks: ArrayLike, stride: ArrayLike = 1) -> np.ndarray:
        """Time to pass D bytes to the next of n ranks `stride` apart [s], over the NIC unless all are in one domain."""
        inside = np.asarray(ranks) * np.asarray(stride) <= self.hb_domain_size
        rate = np.where(inside, self.hb_Bps * self.hb_fraction, self.nic_Bps * self.nic_fraction)
        latency = np.where(inside, self.hb_latency_s, self.nic_latency_s)
        return np.where(np.asarray(ranks) > 1, np.asarray(message_bytes, float) / rate + latency, 0.0)


def from_catalog(platform: str, precision: str = "bf16", **changes: Any) -> Machine:
    """A GPU of a catalog platform, such as from_catalog("DGX H100", "fp8", hb_domain_size=256).

    Rates from the family gpus, links from platforms, shares and latencies from efficiencies.
    Raises UnknownName; KeyError where the GPU has no rate in that precision.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"precision is {precision!r}: give one of {', '.join(PRECISIONS)}")
    box = catalog.item("platforms", platform)
    name = str(box["gpu"])
    gpu, share, common = (
        catalog.item("gpus", name),
        catalog.item("efficiencies", name),
        catalog.item("efficiencies", "all"),
    )
    fields: dict[str, Any] = {
        "linear_rate": gpu[f"{precision}_dense_rate"],
        "half_rate": gpu["bf16_dense_rate"],
        "linear_fraction": share[f"matmul_fraction_{precision}"],
        "half_fraction": share["matmul_fraction_bf16"],
        "memory_bytes": gpu["memory"],
        "memory_Bps": gpu["memory_bandwidth"],
        "host_Bps": gpu["pcie_bandwidth"],
        "hb_domain_size": int(box["gpus"]),
        "hb_Bps": box["hb_bandwidth"],
        "nic_Bps": box["nic_bandwidth"],
        "processors": int(share["processors"]),
        "kernel_s": common["kernel_time"],
        "host_memory_Bps": common["host_memory_bandwidth"],
        "reserved_bytes": common["reserved_memory"],
        "hb_latency_s": common["hb_latency"],
        "nic_latency_s": common["nic_latency"],
        "sustained_fraction": common["sustained_fraction"],
    }
    for key in ("attention_fraction", "memory_fraction", "hb_fraction", "nic_fraction"):
        fields[key] = share[key]
    return Machine(**{"gpu": name, "precision": precision, **fields, **changes})
