"""All-to-all with the experts of a mixture on rail networks: forwarding of tokens, busiest links, and time.

N = y K GPUs, K in each of y HB domains (scale-up or NVLink domains), each on a rail of its own. A GPU sends D bytes in
all, its own share included: d = D / N to each at uniform load.

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
Pipelined takes no longer while that stays below 1. Tests hold it to demands counted pair by pair.

Source: railonly2025, All-to-All Traffic for MoE Models and Routing in Rail-Only Networks.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from railcore.catalog.checks import Floats

ROUTINGS = ("direct", "two-hop", "hierarchical")


class BusiestLinks(NamedTuple):
    """Bytes through the busiest HB port, NIC and share of the any-to-any layer, one direction of a GPU [bytes]."""

    hb_bytes: Floats
    nic_bytes: Floats
    layer_bytes: Floats


def busiest_links(
    bytes_per_gpu: ArrayLike,
    ranks: ArrayLike,
    hb_domain_size: ArrayLike,
    routing: str = "two-hop",
    imbalance: ArrayLike = 1.0,
) -> BusiestLinks:
    """The module's table, in closed form: for a uniform load or one hot expert.

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

    Returns
    -------
    Bytes of the busiest links, arrays of the arguments' shape.
    """
    N, m, D = np.asarray(ranks), np.asarray(imbalance, float), np.asarray(bytes_per_gpu, float)
    K = np.minimum(hb_domain_size, N)
    y = N // K
    hot, cool = D * m / N, D * (1 - m / N) / np.maximum(N - 1, 1)
    excess = hot - cool
    hb = {"direct": hot, "two-hop": y * cool + excess, "hierarchical": y * hot}[routing]
    nic = K * cool + excess if routing == "hierarchical" else K * hot
    layer = (K - 1) * (y - 1) * (cool + excess / y) if routing == "direct" else 0.0
    return BusiestLinks(*np.broadcast_arrays((K - 1) * hb, (y - 1) * nic, layer))


def routed_time(
    busiest: BusiestLinks,
    hb_Bps: float | Floats,
    nic_Bps: float | Floats,
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
    crossing = np.where(busiest.layer_bytes > 0, oversubscription, 1.0) * busiest.layer_bytes
    net, hb = np.maximum(busiest.nic_bytes, crossing) / nic_Bps, busiest.hb_bytes / hb_Bps
    return np.maximum(hb, net) if pipelined or routing == "direct" else hb + net


def expert_all_to_all_time(
    bytes_per_gpu: ArrayLike,
    ranks: ArrayLike,
    hb_domain_size: ArrayLike,
    hb_Bps: float | Floats,
    nic_Bps: float | Floats,
    routing: str = "two-hop",
    oversubscription: ArrayLike = math.inf,
    imbalance: ArrayLike = 1.0,
    pipelined: bool = False,
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
    routing, imbalance
        As in `busiest_links`.
    oversubscription, pipelined
        As in `routed_time`; the layer carries "direct" alone.

    Returns
    -------
    Seconds, an array of the arguments' shape.

    References
    ----------
    railonly2025, Routing in Rail-Only Networks.
    """
    loads = busiest_links(bytes_per_gpu, ranks, hb_domain_size, routing, imbalance)
    return routed_time(loads, hb_Bps, nic_Bps, routing, oversubscription, pipelined)
