"""What a mixture of experts sends in an iteration, and what its routing on rail-only networks costs.

Every GPU holds a copy of all but the experts, whose gradients an AllReduce sums, and its share of the experts, with
which all GPUs exchange activations. S gradients, D what a GPU sends in one exchange, X exchanges of an iteration.
Source: railonly2025, All-to-All Traffic for MoE Models and Routing in Rail-Only Networks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.training.collectives import hierarchical_time
from railcore.training.experts.token_routing import (
    Floats,
    busiest_links,
    expert_all_to_all_time,
    expert_demand,
    link_loads,
    routed_time,
)
from railcore.training.transformer import Transformer

if TYPE_CHECKING:
    import pandas as pd

LOADS = {  # name, skew of expert_demand
    "uniform": "hot",
    "one hot expert": "hot",
    "Zipf": "zipf",
    "a favourite for each GPU": "pairs",
}


class PlatformLinks(NamedTuple):
    """A platform's HB domain and links: bandwidths of a GPU in one direction [bytes/s], mesh or behind switches."""

    hb_domain_size: int
    hb_Bps: float
    nic_Bps: float
    mesh: bool


def platform_links(name: str) -> PlatformLinks:
    """Links of a catalog platform by its datasheet. Raises UnknownName."""
    item = catalog.item("platforms", name)
    return PlatformLinks(int(item["gpus"]), item["hb_bandwidth"], item["nic_bandwidth"], item["hb_switches"] == 0)


@dataclass(frozen=True)
class ExpertJob:
    """Training a mixture of experts with one data-parallel copy of the rest on every GPU, the experts spread over all.

    model: with experts; gpus N, whole HB domains of hb_domain_size K; sequences_per_gpu: of an iteration (a fraction
    for what-if). element_bytes, gradient_bytes: of an activation sent to the experts and of a gradient. exchanges: of
    a mixture layer and iteration: to the experts and back, forward and backward.

    Raises ValueError for a dense model, experts that do not divide over the GPUs, and part-filled domains.
    Source: railonly2025, All-to-All Traffic for MoE Models.
    """

    model: Transformer
    gpus: int
    hb_domain_size: int
    sequences_per_gpu: float
    element_bytes: float = 2
    gradient_bytes: float = 2
    exchanges: int = 4

    def __post_init__(self) -> None:
        if not self.model.experts or self.model.experts % self.gpus:
            raise ValueError(
                f"model has {self.model.experts} experts: give a mixture with a multiple of gpus {self.gpus}"
            )
        if self.gpus % self.hb_domain_size:
            raise ValueError(f"gpus is {self.gpus}: give a multiple of hb_domain_size {self.hb_domain_size}")

    @property
    def domains(self) -> int:
        """HB domains, y."""
        return self.gpus // self.hb_domain_size

    @property
    def exchange_bytes(self) -> float:
        """What a GPU sends in one exchange, its own share included [bytes]: D = s b h top_k element_bytes."""
        model = self.model
        return model.sequence_length * self.sequences_per_gpu * model.hidden * model.top_k * self.element_bytes

    @property
    def static_bytes(self) -> float:
        """Gradients that all GPUs sum, those of everything but the experts [bytes]."""
        model = self.model
        biases = (model.ffn_matrices - 1) * model.ffn_hidden + model.hidden if model.biases else 0
        own = model.mixture_layers * model.experts * (model.ffn_weights + biases)
        return (model.total_parameters - own) * self.gradient_bytes

    def matrix(self, imbalance: float = 1.0) -> dict[str, Floats]:
        """Bytes from GPU i to GPU j in an iteration [i, j], by kind: "AllReduce" and "all-to-all".

        The AllReduce is hierarchical, in rings: in a domain S (K - 1) / K to the next GPU twice, along the rail
        2 (S / K)(y - 1) / y to the next domain. The all-to-all is before any forwarding; the diagonal is 0.
        """
        K, y, S = self.hb_domain_size, self.domains, self.static_bytes
        next_gpu, next_domain = (np.roll(np.eye(n), 1, axis=1) * (n > 1) for n in (K, y))
        rings = np.kron(np.eye(y), next_gpu) * 2 * S * (K - 1) / K
        rings += np.kron(next_domain, np.eye(K)) * 2 * S / K * (y - 1) / y
        there = expert_demand(self.exchange_bytes, self.gpus, imbalance, experts=self.model.experts)
        both = (there + there.T) / 2 * self.exchanges * self.model.mixture_layers
        np.fill_diagonal(both, 0.0)
        return {"AllReduce": rings, "all-to-all": both}

    def volumes(self) -> "pd.DataFrame":
        """Bytes of all GPUs in an iteration, counted from `matrix`: columns kind, path, bytes."""
        import pandas as pd

        domain, rank = np.divmod(np.arange(self.gpus), self.hb_domain_size)
        home, rail = domain[:, None] == domain, rank[:, None] == rank
        paths = {"HB domain": home, "NIC, same rail": ~home & rail, "NIC, other rail": ~home & ~rail}
        rows = [(kind, path, sent[on].sum()) for kind, sent in self.matrix().items() for path, on in paths.items()]
        return pd.DataFrame(rows, columns=["kind", "path", "bytes"])

    @property
    def all_to_all_share(self) -> float:
        """Share of the all-to-all in all bytes, HB included: A / (A + 2 S), A = exchanges x mixture layers x D.

        The common factor (N - 1) / N of both drops out.
        """
        sent = self.exchanges * self.model.mixture_layers * self.exchange_bytes
        return sent / (sent + 2 * self.static_bytes)

    def sequences_for_share(self, share: float) -> float:
        """Sequences per GPU that would make `share` the all-to-all's: b share (1 - share_b) / (share_b (1 - share))."""
        return self.sequences_per_gpu * share / (1 - share) * (1 / self.all_to_all_share - 1)

    def times(self, hb_Bps: float, nic_Bps: float, rate: float) -> dict[str, float]:
        """Seconds of an iteration by kind, one after the other, nothing overlapped.

        "all-to-all, rail-optimized" direct, "all-to-all, rail-only" two-hop in turn, "AllReduce" (hierarchical, alike
        in both), "compute" at `rate` [FLOP/s] of a GPU.
        """
        exchanges = self.exchanges * self.model.mixture_layers
        link = (self.exchange_bytes, self.gpus, self.hb_domain_size, hb_Bps, nic_Bps)
        reduce = hierarchical_time("all_reduce", self.static_bytes, self.hb_domain_size, self.domains, hb_Bps, nic_Bps)
        times = {
            "all-to-all, rail-optimized": exchanges * expert_all_to_all_time(*link, "direct", 1.0),
            "all-to-all, rail-only": exchanges * expert_all_to_all_time(*link),
            "AllReduce": reduce,
            "compute": self.model.training_flops(self.sequences_per_gpu) / rate,
        }
        return {kind: float(seconds) for kind, seconds in times.items()}


def iteration_overheads(job: ExpertJob, platforms: Sequence[str]) -> "pd.DataFrame":
    """What rail-only costs over rail-optimized on each platform, from the all-to-all alone to the whole iteration.

    Compute runs at the GPU's dense BF16 peak, and nothing overlaps.
    Columns platform, bandwidth_ratio B_NIC/B_HB, all_to_all, by_volume (share of the bytes times all_to_all),
    communication and iteration, each longer by this share; and seconds of `ExpertJob.times`.
    """
    import pandas as pd

    rows = []
    for name in platforms:
        links, gpu = platform_links(name), catalog.item("gpus", catalog.item("platforms", name)["gpu"])
        seconds = job.times(links.hb_Bps, links.nic_Bps, gpu["bf16_dense_rate"])
        direct, routed, reduce, compute = seconds.values()
        shares = [(routed - direct) / whole for whole in (direct, direct + reduce, direct + reduce + compute)]
        found = dict(zip(("all_to_all", "communication", "iteration"), shares, strict=True))
        ratio = {"bandwidth_ratio": links.nic_Bps / links.hb_Bps, "by_volume": job.all_to_all_share * shares[0]}
        rows.append({"platform": name, **ratio, **found, **{f"{kind}_s": time for kind, time in seconds.items()}})
    columns = ["platform", "bandwidth_ratio", "all_to_all", "by_volume", "communication", "iteration"]
    table = pd.DataFrame(rows)
    return table[[*columns, *table.columns.difference(columns, sort=False)]]


def routing_times(demand: ArrayLike, links: PlatformLinks) -> "pd.DataFrame":
    """Every routing of one exchange, counted: columns routing, phases, time_s, slowdown over rail-optimized direct.

    demand [i, j] [bytes]: see `expert_demand`. phases: "in turn" or "pipelined".
    """
    import pandas as pd

    K, hb_Bps, nic_Bps, mesh = links
    direct = routed_time(link_loads(demand, K, "direct").busiest(mesh), hb_Bps, nic_Bps, "direct", 1.0)
    rows = []
    for phases in ("in turn", "pipelined"):
        for routing in ("two-hop", "hierarchical"):
            busiest = link_loads(demand, K, routing).busiest(mesh)
            time = routed_time(busiest, hb_Bps, nic_Bps, routing, pipelined=phases == "pipelined")
            rows.append((routing, phases, float(time), round(float(time / direct) - 1, 12) + 0.0))
    return pd.DataFrame(rows, columns=["routing", "phases", "time_s", "slowdown"])


def platform_slowdowns(
    bytes_per_gpu: float, gpus: int, platforms: dict[str, PlatformLinks], imbalance: float, experts: int = 0
) -> "pd.DataFrame":
    """`routing_times` of an exchange to the experts on every platform, at uniform load and every skew.

    Columns platform, load, bandwidth_ratio and those of `routing_times`. A mesh stands once more with its HB bandwidth
    behind a switch. bytes_per_gpu D [bytes], imbalance, experts: see `expert_demand`.
    """
    import pandas as pd

    shown = dict(platforms)
    shown |= {f"{name}, if switched": links._replace(mesh=False) for name, links in platforms.items() if links.mesh}
    tables = []
    for load, skew in LOADS.items():
        demand = expert_demand(bytes_per_gpu, gpus, 1.0 if load == "uniform" else imbalance, skew, experts)
        for name, links in shown.items():
            first = {"platform": name, "load": load, "bandwidth_ratio": links.nic_Bps / links.hb_Bps}
            tables.append(routing_times(demand, links).assign(**first))
    table = pd.concat(tables, ignore_index=True)
    return table[["platform", "load", "bandwidth_ratio", "routing", "phases", "time_s", "slowdown"]]


def layer_times(
    bytes_per_gpu: float,
    ranks: int,
    hb_domain_sizes: Sequence[int],
    oversubscriptions: Sequence[float],
    hb_Bps: float,
    nic_Bps: float,
    imbalance: float = 1.0,
) -> "pd.DataFrame":
    """Time of one exchange over the oversubscription of the any-to-any layer, and without that layer.

    Columns hb_domain_size, oversubscription, imbalance, direct_s, two_hop_s, hierarchical_s (both in turn, without the
    layer) and equal_at: oversubscription from which on direct takes as long as the faster of these or longer.
    """
    import pandas as pd

    sizes, ratios = (array.ravel() for array in np.meshgrid(hb_domain_sizes, oversubscriptions, indexing="ij"))
    link = (bytes_per_gpu, ranks, sizes, hb_Bps, nic_Bps)
    routed = [expert_all_to_all_time(*link, routing, imbalance=imbalance) for routing in ("two-hop", "hierarchical")]
    best = np.min(routed, axis=0)
    layer = busiest_links(bytes_per_gpu, ranks, sizes, "direct", imbalance).layer_bytes / nic_Bps
    slower = expert_all_to_all_time(*link, "direct", 1.0, imbalance) >= best
    equal = np.where(slower, 1.0, best / np.maximum(layer, np.finfo(float).tiny))
    columns = {"hb_domain_size": sizes, "oversubscription": ratios, "imbalance": imbalance}
    columns["direct_s"] = expert_all_to_all_time(*link, "direct", ratios, imbalance)
    return pd.DataFrame({**columns, "two_hop_s": routed[0], "hierarchical_s": routed[1], "equal_at": equal})
