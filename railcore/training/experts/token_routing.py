"""All-to-all of a mixture of experts on rail networks: who forwards, what each link carries, how long it takes.

N = y K GPUs, K in each of y HB domains (scale-up or NVLink domains). GPU j of domain a is rank a K + j, on rail
j modulo R; R = K unless said. A GPU sends D bytes in all, its own share included: d = D / N to each at uniform load.

    direct        HB inside the domain, NIC to all others; what changes rails crosses the any-to-any layer
    two-hop       HB to the GPU of the own domain on the target's rail, then the rail (NCCL's PXN)
    hierarchical  the rail to the GPU of the target's domain on the own rail, then HB (the document's two phases)

Bytes of the busiest link (one direction of a GPU, the layer's per GPU of a rail). One hot expert takes D_h of every
GPU, the others D_o each, D_h = m D / N, and at uniform load m = 1, D_h = D_o = d; with e = D_h - D_o:

                  HB                      NIC                    layer
    direct        (K-1) D_h               (y-1) K D_h            (K-1)(y-1)(D_o + e / y)
    two-hop       (K-1)(y D_o + e)        (y-1) K D_h            0
    hierarchical  (K-1) y D_h             (y-1)(K D_o + e)       0

On the way back (combine) every path is reversed, so that two-hop and hierarchical change places.
At uniform load forwarding sends D (1 - 1/K) over HB and, as without it, D (1 - 1/y) over the NIC: done one after the
other it takes r (1 - 1/K) / (1 - 1/y) longer than direct, r = B_NIC / B_HB, which is r where K = y or both are large;
pipelined it takes no longer at all while that stays below 1.

Source: railonly2025, All-to-All Traffic for MoE Models and Routing in Rail-Only Networks.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from railcore.facts.checks import whole
from railcore.network.topology.clos import checked_oversubscription

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
ROUTINGS = ("direct", "two-hop", "hierarchical")
SKEWS = ("hot", "zipf", "pairs")
_REVERSED = {"direct": "direct", "two-hop": "hierarchical", "hierarchical": "two-hop"}


class BusiestLinks(NamedTuple):
    """Bytes through the busiest HB port, NIC and share of the any-to-any layer, one direction of a GPU [bytes]."""

    hb_bytes: Floats
    nic_bytes: Floats
    layer_bytes: Floats


@dataclass(frozen=True)
class LinkLoads:
    """What every link carries [bytes], one direction each, counted from a demand matrix.

    hb_pair_bytes [domain, from, to]: between GPUs of a domain; nic_egress_bytes, nic_ingress_bytes [domain, GPU];
    layer_up_bytes, layer_down_bytes [rail]: to and from the any-to-any layer, per GPU of the rail.
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
    if skew not in SKEWS:
        raise ValueError(f"skew is {skew!r}: give one of {', '.join(SKEWS)}")
    _check_imbalance(imbalance, experts)
    if skew == "zipf":
        rank = np.arange(1.0, experts + 1)
        low, high = 0.0, 64.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if experts / (rank**-middle).sum() < imbalance else (low, middle)
        return rank**-high / (rank**-high).sum()
    cool = (1 - imbalance / experts) / max(experts - 1, 1)
    return np.where(np.arange(experts) == 0, imbalance / experts, cool)


def expert_demand(
    bytes_per_gpu: float, ranks: int, imbalance: float = 1.0, skew: str = "hot", experts: int = 0
) -> Floats:
    """Bytes that GPU i has for the experts of GPU j [i, j], in rows of D: to the experts; back it is the transpose.

    bytes_per_gpu D [bytes]: what one GPU sends in all, the diagonal included. experts: a multiple of ranks, in order
    over the GPUs; 0 for one each. imbalance, skew: see `expert_load`; with "pairs" every GPU has a favourite of its
    own, in another domain and on the next rail, so that the experts' loads are equal and the pairs' are not.
    Raises ValueError for experts that do not divide over the ranks.
    """
    ranks = int(whole("ranks", ranks))
    if (experts := experts or ranks) % ranks:
        raise ValueError(f"experts is {experts}: give a multiple of ranks {ranks}, or 0 for one each")
    load = bytes_per_gpu * expert_load(experts, imbalance, skew).reshape(ranks, -1).sum(axis=1)
    source, target = np.indices((ranks, ranks))
    return load[(target - source - ranks // 2 - 1) % ranks] if skew == "pairs" else load[target]


def link_loads(demand: ArrayLike, hb_domain_size: int, routing: str = "two-hop", rails: int = 0) -> LinkLoads:
    """Bytes on every link for a demand matrix, counted pair by pair.

    demand [i, j] [bytes], hb_domain_size K, rails R: up to K, 0 for K. With R < K two GPUs of one rail are direct.
    Raises ValueError for an unknown routing, a matrix that is not square or not of whole domains.
    """
    matrix, size = np.asarray(demand, float), int(whole("hb_domain_size", hb_domain_size))
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] % size:
        raise ValueError(f"demand has shape {matrix.shape}: give a square matrix of whole HB domains of {size} GPUs")
    if not 0 <= rails <= size:
        raise ValueError(f"rails is {rails!r}: give 1 to hb_domain_size {size}, or 0 for as many")
    _check_routing(routing)
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

    bytes_per_gpu D [bytes], ranks N, hb_domain_size K (no more than N are used), imbalance m: broadcast against each
    other. combine: the way back from the experts.
    Raises ValueError for ranks that do not fill their domains, an unknown routing and an imbalance out of range.
    """
    _check_routing(routing)
    N, size = whole("ranks", ranks), whole("hb_domain_size", hb_domain_size)
    K = np.minimum(size, N)
    if np.any(N % K):
        raise ValueError(f"ranks is {ranks!r}: give a multiple of hb_domain_size {hb_domain_size!r}")
    y, m = N // K, _check_imbalance(imbalance, N)
    if not np.all((D := np.asarray(bytes_per_gpu, float)) >= 0):
        raise ValueError(f"bytes_per_gpu is {bytes_per_gpu!r}: give 0 or more bytes")
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
    """Completion time of routed loads [s]: HB / hb_Bps + net, or the larger of the two where they run at once.

    net = max(NIC, oversubscription x layer) / nic_Bps. Direct uses HB and NIC at once, and so does a pipelined
    two-hop or hierarchical exchange; else its phases follow each other. Infinite where bytes have no layer to cross.
    hb_Bps, nic_Bps [bytes/s] one direction of a GPU; oversubscription of the any-to-any layer, 1 rail-optimized,
    math.inf rail-only: broadcast against each other.
    """
    _check_routing(routing)
    rates = {"hb_Bps": np.asarray(hb_Bps, float), "nic_Bps": np.asarray(nic_Bps, float)}
    for name, rate in rates.items():
        if not np.all(rate > 0):
            raise ValueError(f"{name} is {rate!r}: give positive bytes/s")
    ratio = checked_oversubscription(oversubscription)
    crossing = np.where(busiest.layer_bytes > 0, ratio, 1.0) * busiest.layer_bytes
    net = np.maximum(busiest.nic_bytes, crossing) / rates["nic_Bps"]
    hb = busiest.hb_bytes / rates["hb_Bps"]
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
    """Time of one exchange with the experts [s], vectorised: `routed_time` of `busiest_links`.

    At uniform load, two-hop one after the other: D (1 - 1/K) / hb_Bps + D (1 - 1/y) / nic_Bps.
    bytes_per_gpu D [bytes] what a GPU sends in all, ranks N, hb_domain_size K, hb_Bps, nic_Bps [bytes/s] one direction
    of a GPU, oversubscription of the any-to-any layer ("direct" only), imbalance m of one hot expert: broadcast.
    mesh: HB domains are full meshes; at these loads all links of the busiest GPU carry the same, so that it only
    matters where fewer ranks than a domain leave links idle. pipelined: both hops at once. combine: back from experts.
    Source: railonly2025, Routing in Rail-Only Networks.
    """
    loads = busiest_links(bytes_per_gpu, ranks, hb_domain_size, routing, imbalance, combine)
    size = np.asarray(hb_domain_size, float)
    used = np.maximum(np.minimum(size, ranks) - 1, 1) / np.maximum(size - 1, 1) if mesh else 1.0
    return routed_time(loads, np.asarray(hb_Bps, float) * used, nic_Bps, routing, oversubscription, pipelined)


def slowdown_readings(hb_domain_size: int, domains: int, hb_Bps: float, nic_Bps: float) -> "pd.DataFrame":
    """How much longer rail-only takes than rail-optimized at uniform load, by what is counted; r = nic_Bps / hb_Bps.

    Columns reading, equation, slowdown. hb_domain_size K, domains y: at least 2 each.
    Raises ValueError for fewer.
    """
    import pandas as pd

    if hb_domain_size < 2 or domains < 2:
        raise ValueError(f"hb_domain_size and domains are {hb_domain_size} and {domains}: give 2 or more of each")
    K, y, r = hb_domain_size, domains, nic_Bps / hb_Bps
    hb, home, nic = r * (1 - 1 / K), r * (K - 1) / (K * y), 1 - 1 / y
    direct = expert_all_to_all_time(1.0, K * y, K, hb_Bps, nic_Bps, "direct", 1.0)
    pipelined = expert_all_to_all_time(1.0, K * y, K, hb_Bps, nic_Bps, pipelined=True)
    rows = [
        ("the document's factor; also the next row where K = y, or both are large", "r", r),
        ("phases in turn, against direct with HB and NIC at once", "r (1 - 1/K) / (1 - 1/y)", hb / nic),
        ("phases in turn, against direct with HB and NIC in turn", "r (1 - 1/K) / (1 + r (1 - 1/K) / (y - 1))",
         (hb - home) / (nic + home)),
        ("forwarded bytes alone, over direct's time on the NIC", "r (1 - 1/K)", (hb - home) / nic),
        ("phases pipelined", "max(0, r (1 - 1/K) / (1 - 1/y) - 1)", float(pipelined / direct) - 1),
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["reading", "equation", "slowdown"])


def _check_routing(routing: str) -> None:
    if routing not in ROUTINGS:
        raise ValueError(f"routing is {routing!r}: give one of {', '.join(ROUTINGS)}")


def _check_imbalance(imbalance: ArrayLike, experts: ArrayLike) -> Floats:
    m = np.asarray(imbalance, float)
    if not np.all((m >= 1) & (m <= experts)):
        raise ValueError(f"imbalance is {imbalance!r}: give 1 (uniform) to the number of experts, {experts!r}")
    return m
