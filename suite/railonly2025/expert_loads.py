"""Uneven demand of a mixture's experts: who sends how much to whom, and bytes on every link, counted pair by pair.

Routings and symbols as in `expert_routing`, which has the closed form for a uniform load or one hot expert.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from railcore.catalog.checks import Floats
from suite.railonly2025.expert_routing import BusiestLinks


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
    Raises ValueError for an imbalance out of range.
    """
    if not 1 <= imbalance <= experts:
        raise ValueError(f"imbalance is {imbalance!r}: give 1 (uniform) to the number of experts, {experts!r}")
    if skew == "zipf":
        from scipy.optimize import elementwise

        rank = np.arange(1.0, experts + 1)
        ends = np.array([0.0, 64.0])  # uniform, and all on one
        root = elementwise.find_root(lambda z: experts / (rank ** -z[..., None]).sum(-1) - imbalance, tuple(ends))
        return rank**-root.x / (rank**-root.x).sum()
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
    """
    load = bytes_per_gpu * expert_load(experts or ranks, imbalance, skew).reshape(ranks, -1).sum(axis=1)
    source, target = np.indices((ranks, ranks))
    return load[(target - source - ranks // 2 - 1) % ranks] if skew == "pairs" else load[target]


def link_loads(demand: ArrayLike, hb_domain_size: int, routing: str = "two-hop") -> LinkLoads:
    """Bytes on every link for a demand matrix, counted pair by pair.

    demand: bytes from GPU i to GPU j [i, j], of whole HB domains; hb_domain_size: GPUs of an HB domain, K; routing: one
    of `expert_routing.ROUTINGS`.
    """
    matrix, size = np.asarray(demand, float), hb_domain_size
    domains = matrix.shape[0] // size
    pairs = matrix.reshape(domains, size, domains, size)  # [a, i, b, j]
    home, own_rail = np.eye(domains, dtype=bool)[:, None, :, None], np.eye(size, dtype=bool)[None, :, None, :]
    inside, away = np.einsum("aiaj->aij", pairs) * (1 - np.eye(size)), np.where(home, 0.0, pairs)
    crossing = np.where(own_rail, 0.0, away)
    out, into, layer = away.sum((2, 3)), away.sum((0, 1)), np.zeros_like(crossing)
    if routing == "two-hop":
        inside = inside + crossing.sum(2)
        out = (away - crossing).sum((2, 3)) + crossing.sum((1, 2))
    elif routing == "hierarchical":
        inside = inside + crossing.sum(0).transpose(1, 0, 2)
        into = (away - crossing).sum((0, 1)) + crossing.sum((0, 3)).T
    else:
        layer = crossing
    return LinkLoads(inside, out, into, layer.sum((0, 2, 3)) / domains, layer.sum((0, 1, 2)) / domains)
