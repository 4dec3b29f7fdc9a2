"""Mixtures of experts on rail networks: bytes of an iteration, forwarding of tokens, and time.

N = y K GPUs, K in each of y HB domains (scale-up or NVLink domains). GPU j of domain a is rank a K + j, on rail
j modulo R; R = K unless said. A GPU sends D bytes in all, its own share included: d = D / N to each at uniform load.

    direct        HB inside the domain, NIC to all others; what changes rails crosses the any-to-any layer
    two-hop       HB to the GPU of the own domain on the target's rail, then the rail (NCCL's PXN)
    hierarchical  the rail to the GPU of the target's domain on the own rail, then HB

Bytes of the busiest link (one direction of a GPU, the layer's per GPU of a rail). One hot expert takes D_h of every
GPU, the others D_o each, D_h = m D / N, and at uniform load m = 1, D_h = D_o = d; with e = D_h - D_o:

                  HB                      NIC                    layer
    direct        (K-1) D_h               (y-1) K D_h            (K-1)(y-1)(D_o + e / y)
    two-hop       (K-1)(y D_o + e)        (y-1) K D_h            0
    hierarchical  (K-1) y D_h             (y-1)(K D_o + e)       0

On the way back (combine) every path is reversed, so that two-hop and hierarchical change places.
At uniform load forwarding sends D (1 - 1/K) over HB. The NIC carries D (1 - 1/y) with and without it. One after the
other takes r (1 - 1/K) / (1 - 1/y) longer than direct, r = B_NIC / B_HB; that is r where K = y or both are large.
Pipelined takes no longer while that stays below 1.

Every GPU holds its share of the experts and a copy of all other weights. In an iteration all GPUs exchange activations
with the experts X times, and an AllReduce sums the gradients S of the copies. An expert's biases belong to the expert.

Source: railonly2025, All-to-All Traffic for MoE Models and Routing in Rail-Only Networks.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts.checks import Floats, at_least, one_of, positive, whole
from railcore.network.topology.clos import checked_oversubscription
from railcore.training.collectives import hierarchical_time
from railcore.training.parallelism import Strategy
from railcore.training.traffic import Traffic, from_transfers
from railcore.training.transfers import DEFAULT_OPTIONS, TrafficOptions, Transfer, step_transfers
from railcore.training.transformer import Transformer

ROUTINGS = ("direct", "two-hop", "hierarchical")
LOAD_SKEWS = ("hot", "zipf", "pairs")
_REVERSED = {"direct": "direct", "two-hop": "hierarchical", "hierarchical": "two-hop"}


class BusiestLinks(NamedTuple):
    """Bytes through the busiest HB port, NIC and share of the any-to-any layer, one direction of a GPU [bytes]."""

    hb_bytes: Floats
    nic_bytes: Floats
    layer_bytes: Floats


@dataclass(frozen=True)
class LinkLoads:
    """Bytes on every link, one direction each; `link_loads` counts them from a demand matrix.

    hb_pair_bytes: by domain, between GPU and GPU of it.
    nic_egress_bytes, nic_ingress_bytes: by domain and GPU.
    layer_up_bytes, layer_down_bytes: to and from the any-to-any layer, of a rail, per GPU of it.
    """

    hb_pair_bytes: Floats
    nic_egress_bytes: Floats
    nic_ingress_bytes: Floats
    layer_up_bytes: Floats
    layer_down_bytes: Floats

    @property
    def hb_egress_bytes(self) -> Floats:
        """Out of each GPU into its HB domain [domain, GPU]."""
        return self.hb_pair_bytes.sum(axis=2)

    @property
    def hb_ingress_bytes(self) -> Floats:
        """Into each GPU out of its HB domain [domain, GPU]."""
        return self.hb_pair_bytes.sum(axis=1)

    def busiest(self, mesh: bool = False) -> BusiestLinks:
        """The busiest of each kind; in a mesh a pair's link has 1 / (K - 1) of the HB bandwidth and counts K - 1 times.

        mesh: HB domains are full meshes of GPUs, not behind HB switches.
        """
        hb = [self.hb_egress_bytes, self.hb_ingress_bytes]
        if mesh:
            hb = [(self.hb_pair_bytes.shape[1] - 1) * self.hb_pair_bytes]
        nic, layer = (self.nic_egress_bytes, self.nic_ingress_bytes), (self.layer_up_bytes, self.layer_down_bytes)
        return BusiestLinks(*(np.max([load.max() for load in loads]) for loads in (hb, nic, layer)))


def expert_load(experts: int, imbalance: float = 1.0, skew: str = "hot") -> Floats:
    """Share of the tokens that each expert gets, the busiest first; they sum to 1.

    imbalance m: load of the busiest over the mean, 1 (uniform) to `experts`. skew: "hot", one expert with m / E and
    all others alike ("pairs" too, see `expert_demand`); "zipf", k^-z / sum(k^-z) with z solved for m.
    Raises ValueError for an unknown skew and an imbalance out of range.
    """
    experts = int(whole("experts", experts))
    one_of("skew", skew, LOAD_SKEWS)
    _check_imbalance(imbalance, experts)
    if skew == "zipf":
        from scipy.optimize import elementwise

        rank = np.arange(1.0, experts + 1)
        ends = np.array([0.0, 64.0])  # uniform, and all on one
        found = elementwise.find_root(lambda z: experts / (rank ** -z[..., None]).sum(-1) - imbalance, tuple(ends))
        return rank**-found.x / (rank**-found.x).sum()
    cool = (1 - imbalance / experts) / max(experts - 1, 1)
    return np.where(np.arange(experts) == 0, imbalance / experts, cool)


def expert_demand(
    bytes_per_gpu: float, ranks: int, imbalance: float = 1.0, skew: str = "hot", experts: int = 0
) -> Floats:
    """Bytes that each GPU sends to the experts of each other one; on the way back it is the transpose.

    Parameters
    ----------
    bytes_per_gpu
        What one GPU sends in all, D, its own experts' part included [bytes].
    ranks
        GPUs.
    imbalance, skew
        As in `expert_load`. With "pairs" every GPU has a favourite of its own, in another domain and on the next rail:
        the experts' loads are equal and the pairs' are not.
    experts
        A multiple of ranks, in order over the GPUs; 0: one each.

    Returns
    -------
    Bytes from GPU i to GPU j [i, j]; each row adds up to D.

    Raises
    ------
    ValueError
        Where the experts do not divide over the ranks.
    """
    ranks = int(whole("ranks", ranks))
    if (experts := experts or ranks) % ranks:
        raise ValueError(f"experts is {experts}: give a multiple of ranks {ranks}, or 0 for one each")
    load = bytes_per_gpu * expert_load(experts, imbalance, skew).reshape(ranks, -1).sum(axis=1)
    source, target = np.indices((ranks, ranks))
    return load[(target - source - ranks // 2 - 1) % ranks] if skew == "pairs" else load[target]


def link_loads(demand: ArrayLike, hb_domain_size: int, routing: str = "two-hop", rails: int = 0) -> LinkLoads:
    """Bytes on every link for a demand matrix, counted pair by pair.

    Parameters
    ----------
    demand
        Bytes from GPU i to GPU j [i, j].
    hb_domain_size, rails
        GPUs of an HB domain K; rails up to K, 0 for K. With fewer, two GPUs of a domain on one rail need no forwarding.
    routing
        One of ROUTINGS.

    Returns
    -------
    Bytes by link.

    Raises
    ------
    ValueError
        For an unknown routing and a matrix that is not square or not of whole domains.
    """
    matrix, size = np.asarray(demand, float), int(whole("hb_domain_size", hb_domain_size))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] % size:
        raise ValueError(f"demand has shape {matrix.shape}: give a square matrix of whole HB domains of {size} GPUs")
    if not 0 <= rails <= size:
        raise ValueError(f"rails is {rails!r}: give 1 to hb_domain_size {size}, or 0 for as many")
    one_of("routing", routing, ROUTINGS)
    domains, rail = matrix.shape[0] // size, np.arange(size) % (rails or size)
    pairs = matrix.reshape(domains, size, domains, size)  # [a, i, b, j]
    home = np.eye(domains, dtype=bool)[:, None, :, None]
    inside, away = np.einsum("aiaj->aij", pairs) * (1 - np.eye(size)), np.where(home, 0.0, pairs)
    crossing = away * (rail[:, None] != rail)[None, :, None, :]
    out, into, layer = away.sum((2, 3)), away.sum((0, 1)), np.zeros_like(crossing)
    if routing == "two-hop":
        inside = inside + crossing.sum(2)
        out = (away - crossing).sum((2, 3)) + crossing.sum((1, 2))
    elif routing == "hierarchical":
        inside = inside + crossing.sum(0).transpose(1, 0, 2)
        into = (away - crossing).sum((0, 1)) + crossing.sum((0, 3)).T
    else:
        layer = crossing
    on_rail = np.arange(rail.max() + 1)[:, None] == rail
    of_rail = on_rail / (domains * on_rail.sum(1, keepdims=True))
    return LinkLoads(inside, out, into, of_rail @ layer.sum((0, 2, 3)), of_rail @ layer.sum((0, 1, 2)))


def busiest_links(
    bytes_per_gpu: ArrayLike,
    ranks: ArrayLike,
    hb_domain_size: ArrayLike,
    routing: str = "two-hop",
    imbalance: ArrayLike = 1.0,
    combine: bool = False,
) -> BusiestLinks:
    """The module's table, in closed form: what `link_loads` counts for a uniform load or one hot expert.

    Parameters
    ----------
    bytes_per_gpu
        What one GPU sends in all, D [bytes].
    ranks, hb_domain_size
        GPUs N, and GPUs of an HB domain K, of which no more than N are used.
    routing
        One of ROUTINGS.
    imbalance
        Load of one hot expert over the mean, m.
    combine
        The way back from the experts.

    Returns
    -------
    Bytes of the busiest links, arrays of the arguments' shape.

    Raises
    ------
    ValueError
        For ranks that do not fill their domains, an unknown routing and an imbalance out of range.
    """
    one_of("routing", routing, ROUTINGS)
    N, size = whole("ranks", ranks), whole("hb_domain_size", hb_domain_size)
    K = np.minimum(size, N)
    if np.any(N % K):
        raise ValueError(f"ranks is {ranks!r}: give a multiple of hb_domain_size {hb_domain_size!r}")
    y, m = N // K, _check_imbalance(imbalance, N)
    D = at_least("bytes_per_gpu", bytes_per_gpu)
    hot, cool = D * m / N, D * (1 - m / N) / np.maximum(N - 1, 1)
    excess = hot - cool
    path = _REVERSED[routing] if combine else routing
    hb = {"direct": hot, "two-hop": y * cool + excess, "hierarchical": y * hot}[path]
    nic = K * cool + excess if path == "hierarchical" else K * hot
    layer = (K - 1) * (y - 1) * (cool + excess / y) if path == "direct" else 0.0
    return BusiestLinks(*np.broadcast_arrays((K - 1) * hb, (y - 1) * nic, layer))


def routed_time(
    busiest: BusiestLinks,
    hb_Bps: ArrayLike,
    nic_Bps: ArrayLike,
    routing: str = "two-hop",
    oversubscription: ArrayLike = math.inf,
    pipelined: bool = False,
) -> Floats:
    """Completion time of routed loads: HB / hb_Bps + net, or the larger of the two where they run at once.

    net = max(NIC, oversubscription x layer) / nic_Bps. Direct uses HB and NIC at once, and so does a pipelined
    two-hop or hierarchical exchange; else its phases follow each other.

    Parameters
    ----------
    busiest
        Bytes of the busiest links.
    hb_Bps, nic_Bps
        Bandwidths of a GPU, one direction [bytes/s].
    routing
        One of ROUTINGS.
    oversubscription
        Of the any-to-any layer: 1 rail-optimized, math.inf rail-only.
    pipelined
        Both hops at once.

    Returns
    -------
    Seconds; infinite where bytes have no layer to cross.
    """
    one_of("routing", routing, ROUTINGS)
    ratio = checked_oversubscription(oversubscription)
    crossing = np.where(busiest.layer_bytes > 0, ratio, 1.0) * busiest.layer_bytes
    net = np.maximum(busiest.nic_bytes, crossing) / positive("nic_Bps", nic_Bps, "bytes/s")
    hb = busiest.hb_bytes / positive("hb_Bps", hb_Bps, "bytes/s")
    return np.maximum(hb, net) if pipelined or routing == "direct" else hb + net


def expert_all_to_all_time(
    bytes_per_gpu: ArrayLike,
    ranks: ArrayLike,
    hb_domain_size: ArrayLike,
    hb_Bps: ArrayLike,
    nic_Bps: ArrayLike,
    routing: str = "two-hop",
    oversubscription: ArrayLike = math.inf,
    imbalance: ArrayLike = 1.0,
    mesh: bool = False,
    pipelined: bool = False,
    combine: bool = False,
) -> Floats:
    """Time of one all-to-all with the experts, vectorised: `routed_time` of `busiest_links`.

    At uniform load, two-hop one after the other: D (1 - 1/K) / hb_Bps + D (1 - 1/y) / nic_Bps.

    Parameters
    ----------
    bytes_per_gpu
        What one GPU sends in all, D [bytes].
    ranks, hb_domain_size
        GPUs N, and GPUs of an HB domain K.
    hb_Bps, nic_Bps
        Bandwidths of a GPU, one direction [bytes/s].
    routing, imbalance, combine
        As in `busiest_links`.
    oversubscription, pipelined
        As in `routed_time`; the layer carries "direct" alone.
    mesh
        HB domains are full meshes. At these loads all links of the busiest GPU carry the same, so that it matters only
        where fewer ranks than a domain leave links idle.

    Returns
    -------
    Seconds, an array of the arguments' shape.

    References
    ----------
    railonly2025, Routing in Rail-Only Networks.
    """
    loads = busiest_links(bytes_per_gpu, ranks, hb_domain_size, routing, imbalance, combine)
    size = np.asarray(hb_domain_size, float)
    used = np.maximum(np.minimum(size, ranks) - 1, 1) / np.maximum(size - 1, 1) if mesh else 1.0
    return routed_time(loads, np.asarray(hb_Bps, float) * used, nic_Bps, routing, oversubscription, pipelined)


def _check_imbalance(imbalance: ArrayLike, experts: ArrayLike) -> Floats:
    m = np.asarray(imbalance, float)
    if not np.all((m >= 1) & (m <= experts)):
        raise ValueError(f"imbalance is {imbalance!r}: give 1 (uniform) to the number of experts, {experts!r}")
    return m


@dataclass(frozen=True)
class ExpertJob:
    """Training a mixture of experts with one data-parallel copy of the rest on every GPU, the experts spread over all.

    model: with experts.
    gpus: N, in whole HB domains.
    hb_domain_size: K.
    sequences_per_gpu: of an iteration; a fraction for what-if.
    options: bytes of an element.
    recompute: "full" exchanges a third time with the experts.

    Raises ValueError for a dense model, experts that do not divide over the GPUs, and part-filled domains.
    """

    model: Transformer
    gpus: int
    hb_domain_size: int
    sequences_per_gpu: float
    options: TrafficOptions = DEFAULT_OPTIONS
    recompute: str = "none"

    def __post_init__(self) -> None:
        whole("gpus", self.gpus, 2)
        whole("hb_domain_size", self.hb_domain_size)
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
    def strategy(self) -> Strategy:
        """Data parallel over all GPUs, and so are the experts."""
        return Strategy(data=self.gpus, expert=self.gpus, recompute=self.recompute)

    @cached_property
    def iteration_transfers(self) -> list[Transfer]:
        """`step_transfers` of one sequence a GPU, the activations `sequences_per_gpu` times as large."""
        rows = step_transfers(self.model, self.strategy, self.gpus, self.options)
        times = {"expert": self.sequences_per_gpu}
        return [row._replace(message_bytes=row.message_bytes * times.get(row.kind, 1)) for row in rows]

    @property
    def exchanges(self) -> float:
        """Exchanges of an iteration, X: of each mixture layer, to the experts and back, in every pass."""
        return sum(row.calls for row in self.iteration_transfers if row.kind == "expert")

    @property
    def exchange_bytes(self) -> float:
        """What a GPU sends in one exchange, its own share included [bytes]: D = s b h top_k element_bytes."""
        return next(row.message_bytes for row in self.iteration_transfers if row.kind == "expert")

    @property
    def shared_gradient_bytes(self) -> float:
        """Gradients that all GPUs sum, those of everything but the experts [bytes]: S."""
        return sum(row.calls * row.message_bytes for row in self.iteration_transfers if row.kind == "data")

    @cached_property
    def iteration_traffic(self) -> Traffic:
        """Bytes of an iteration between GPUs: the AllReduce in hierarchical rings, the all-to-all before forwarding."""
        return from_transfers(self.strategy, self.iteration_transfers, {"data": "hierarchical"}, self.hb_domain_size)

    def volumes(self) -> pd.DataFrame:
        """Bytes of all GPUs in an iteration, counted from `iteration_traffic`: columns kind, path, bytes."""
        table = self.iteration_traffic.summary(self.hb_domain_size).query("kind != 'all'")
        kind = np.where(table["kind"] == "expert", "all-to-all", "AllReduce")
        paths = {
            "HB domain": table["bytes"] - table["network_bytes"],
            "NIC, same rail": table["network_bytes"] - table["cross_rail_bytes"],
            "NIC, other rail": table["cross_rail_bytes"],
        }
        wide = pd.DataFrame(paths).groupby(kind).sum().rename_axis(index="kind", columns="path")
        return wide.stack().rename("bytes").reset_index()

    @property
    def all_to_all_share(self) -> float:
        """Share of the all-to-all in all bytes, HB included: X D / (X D + 2 S).

        The common factor (N - 1) / N of both drops out.
        """
        sent = self.exchanges * self.exchange_bytes
        return sent / (sent + 2 * self.shared_gradient_bytes)

    def sequences_for_share(self, share: float) -> float:
        """Sequences per GPU that would make `share` the all-to-all's: b share (1 - share_b) / (share_b (1 - share))."""
        return self.sequences_per_gpu * share / (1 - share) * (1 / self.all_to_all_share - 1)

    def times(self, hb_Bps: float, nic_Bps: float, rate: float) -> dict[str, float]:
        """Seconds of an iteration by kind, one after the other, nothing overlapped.

        "all-to-all, rail-optimized" direct, "all-to-all, rail-only" two-hop in turn, "AllReduce" (hierarchical, alike
        in both), "compute" at `rate` [FLOP/s] of a GPU.
        """
        link = (self.exchange_bytes, self.gpus, self.hb_domain_size, hb_Bps, nic_Bps)
        reduce = hierarchical_time(
            "all_reduce", self.shared_gradient_bytes, self.hb_domain_size, self.domains, hb_Bps, nic_Bps
        )
        times = {
            "all-to-all, rail-optimized": self.exchanges * expert_all_to_all_time(*link, "direct", 1.0),
            "all-to-all, rail-only": self.exchanges * expert_all_to_all_time(*link),
            "AllReduce": reduce,
            "compute": self.model.training_flops(self.sequences_per_gpu, self.recompute) / rate,
        }
        return {kind: float(seconds) for kind, seconds in times.items()}
