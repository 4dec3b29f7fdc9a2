"""Bytes that a GPU sends for the tokens of a mixture layer, on their way to the experts and back.

A token of h elements goes to k of E experts, which e ranks hold in equal parts. x of these ranks share an HB domain
(scale-up or NVLink domain), which makes y = e / x domains. A runtime sends tokens in one of two ways, its dispatcher:

    dispatcher   copies of a token                          over the NIC    over the HB interconnect
    "copies"     one for each expert: an all-to-all         k (1 - 1 / y)   k (x - 1) / x, forwarded to the right rail
                                                                            k (x - 1) / e, where rails meet
    "nodes"      one for each HB domain, which its rank     D (1 - 1 / y)   R (x - 1) / x
                 on the sender's rail forwards to ranks

D is the expected number of domains, and R that of ranks, that the experts of a token lie in (`copies_by_place`). The
experts are taken as drawn evenly and without replacement: that is what a router in balance does on average, and what
the benchmarks do that replace its logits by random ones (Megatron-Core, option moe_router_force_load_balancing).

Here are the bytes of "nodes". Those of "copies" and the times of both are in `machine`: `Machine.all_to_all_links` and
`Machine.routed_links`. `exchanges` says how often they are sent.

Sources: DeepSeek-AI 2024, arXiv:2412.19437, 2.1.2 and 3.2.2 (node-limited routing; one copy a node over InfiniBand,
then NVLink); Megatron-Core, megatron/core/transformer/moe (dispatchers).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from railcore.catalog.checks import Floats, Ints

DISPATCHERS = ("copies", "nodes")


class DispatchBytes(NamedTuple):
    """Bytes that a rank sends on average, one direction, what it keeps itself not counted [bytes]."""

    nic_bytes: Floats
    hb_bytes: Floats


def dispatch_bytes(
    token_bytes: ArrayLike,
    experts: int,
    top_k: ArrayLike,
    ranks: ArrayLike,
    ranks_in_domain: ArrayLike,
    groups: int = 0,
    token_groups: int = 0,
) -> DispatchBytes:
    """Bytes that a rank sends one way with the dispatcher "nodes": the module's table.

    The way back takes as many: the copies of a domain are summed on its rank before they leave it.

    Parameters
    ----------
    token_bytes
        All tokens of the rank, each once [bytes].
    experts, top_k
        Experts E, and experts of a token k.
    ranks, ranks_in_domain
        Expert-parallel ranks e, a divisor of the experts, and those of them in one HB domain x, a divisor of e.
    groups, token_groups
        Groups of experts, and the most of them that a token's experts lie in; 0 for no limit.

    Returns
    -------
    Bytes over the NIC and over the HB interconnect; arrays broadcast.

    References
    ----------
    DeepSeek-AI 2024, arXiv:2412.19437, 3.2.2; GitHub deepseek-ai/DeepEP, normal kernels.
    """
    e, x, size = np.asarray(ranks), np.asarray(ranks_in_domain), np.asarray(token_bytes, float)
    y = e // x
    domains_of_token, ranks_of_token = (copies_by_place(experts, top_k, n, groups, token_groups) for n in (y, e))
    nic, hb = domains_of_token * (1 - 1 / y), ranks_of_token * (1 - 1 / x)
    return DispatchBytes(*np.broadcast_arrays(size * nic, size * hb))


def copies_by_place(
    experts: int, top_k: ArrayLike, places: ArrayLike, groups: int = 0, token_groups: int = 0
) -> Floats:
    """Expected places (HB domains or ranks) that hold the experts of a token, under even routing.

    Without groups n (1 - C(E - E / n, k) / C(E, k)), as a product of k factors. With groups a token's experts are drawn
    evenly from the E g / G experts of g groups, which are drawn evenly of G. Then the same holds for one place and the
    number of drawn groups that touch it: a place of whole groups has j of the g drawn ones with hypergeometric
    probability, and one inside a group has its group with g / G.

    Parameters
    ----------
    experts, top_k
        Experts E, and experts of a token k, no more than its groups have.
    places
        n, a divisor of the experts.
    groups, token_groups
        G of equal size, each within a place or made of whole ones, and g; 0 for routing without groups.

    Returns
    -------
    From 1 to min(k, n), and no more than the places that g groups touch; arrays broadcast.

    References
    ----------
    DeepSeek-AI 2024, arXiv:2412.19437, 2.1.2, where the groups are the nodes.
    """
    G = groups or 1
    g = token_groups or G
    E, k, n = np.broadcast_arrays(experts, top_k, places)
    pool, size = E // G * g, np.minimum(E // n, E // G)  # experts to draw from; of a place in one group
    place_groups = np.maximum(G // n, 1)
    missed = np.zeros(E.shape)
    for drawn in range(g + 1):
        missed = missed + _hypergeometric(drawn, G, g, place_groups) * _share_of_misses(pool, drawn * size, k)
    return np.clip(n * (1 - missed), 1.0, np.minimum(k, n))


def _share_of_misses(pool: Ints, place_experts: Ints, top_k: Ints) -> Floats:
    """C(pool - place_experts, k) / C(pool, k): probability that none of k experts of a pool is on a place."""
    steps = np.arange(int(np.max(top_k)))
    left = np.maximum(pool[..., None] - steps, 1)
    factors = np.maximum(left - place_experts[..., None], 0) / left
    return np.where(steps < top_k[..., None], factors, 1.0).prod(axis=-1)


def _hypergeometric(drawn: int, groups: int, token_groups: int, place_groups: Ints) -> Floats:
    """Probability that of the groups of a place so many are among the token's."""
    table = [
        math.comb(n, drawn) * math.comb(groups - n, token_groups - drawn) / math.comb(groups, token_groups)
        for n in range(groups + 1)
    ]
    return np.array(table)[place_groups]


def splits_groups(groups: int, ranks: ArrayLike, domains: ArrayLike) -> NDArray[np.bool_]:
    """Whether an HB domain or a rank holds parts of several groups of experts; "nodes" has no rule for that.

    groups: G of `copies_by_place`, 0 for none. ranks, domains: that the experts are spread over; arrays broadcast.
    """
    of_ranks, of_domains = (
        (groups % n > 0) & (n % max(groups, 1) > 0) for n in (np.asarray(ranks), np.asarray(domains))
    )
    return of_ranks | of_domains
