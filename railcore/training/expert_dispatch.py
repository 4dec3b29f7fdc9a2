"""Tokens on their way to the experts of a mixture layer: copies, bytes, rows computed, and the host's work for them.

A token goes to k of E experts, which e ranks hold in equal parts. x of these ranks share an HB domain (scale-up or
NVLink domain), which makes y = e / x domains. The experts are taken as drawn evenly and without replacement: that is
what a router in balance does on average, and what the benchmarks do that replace its logits by random ones
(Megatron-Core, option moe_router_force_load_balancing).

    dispatcher   NIC, copies of a token           HB, copies of a token
    "copies"     k (1 - 1 / y)                    k (x - 1) / e
    "nodes"      D (1 - 1 / y)                    R (x - 1) / x

D is the expected number of domains, and R that of ranks, that its experts lie in. "copies" sends one copy an expert, as
a plain all-to-all does. "nodes" sends one copy a domain over the NIC, to the rank on its own rail, which forwards one
to each rank of its domain that holds an expert of the token.

Sources: DeepSeek-AI 2024, arXiv:2412.19437, 2.1.2 and 3.2.2 (node-limited routing; one copy a node over InfiniBand,
then NVLink); Megatron-Core, megatron/core/transformer/moe (dispatchers, capacity); Lepikhin et al. 2020,
arXiv:2006.16668 (capacity).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from railcore.catalog.checks import Floats, Ints, at_least, one_of, positive, share, whole

DISPATCHERS = ("copies", "nodes")
_LINEAR_LAYERS = 2  # of an expert: gate and up in one, and down
_COMMON_OPERATORS = (28, 14)  # forward and backward, whatever the experts are; see host_operators
_GRAPHED_OPERATORS = (17, 4)  # of them, what a graph of router and preprocessing holds; see host_operators


class DispatchBytes(NamedTuple):
    """Bytes that a rank sends on average, one direction, what it keeps itself not counted [bytes]."""

    nic_bytes: Floats
    hb_bytes: Floats


class HostOperators(NamedTuple):
    """What the host starts for one mixture layer and one micro-batch.

    forward, backward: operators, each from Python.
    forward_kernels, backward_kernels: kernels that a library starts in a loop over the experts.
    """

    forward: Floats
    backward: Floats
    forward_kernels: Floats
    backward_kernels: Floats


def copies_by_place(
    experts: ArrayLike, top_k: ArrayLike, places: ArrayLike, groups: int = 0, token_groups: int = 0
) -> Floats:
    """Expected places (HB domains or ranks) that hold the experts of a token, under even routing.

    Without groups n (1 - C(E - E / n, k) / C(E, k)), as a product of k factors. With groups a token's experts are drawn
    evenly from the E g / G experts of g groups, which are drawn evenly of G. Then the same holds for one place and the
    number of drawn groups that touch it: a place of whole groups has j of the g drawn ones with hypergeometric
    probability, and one inside a group has its group with g / G.

    Parameters
    ----------
    experts, top_k
        Experts E, and experts of a token k.
    places
        n, a divisor of the experts.
    groups, token_groups
        G of equal size, each within a place or made of whole ones, and g; 0 for routing without groups.

    Returns
    -------
    From 1 to min(k, n), and no more than the places that g groups touch; arrays broadcast.

    Raises
    ------
    ValueError
        For experts that do not divide over places or groups, a place that holds part of two groups, and fewer experts
        in a token's groups than it is sent to.

    References
    ----------
    DeepSeek-AI 2024, arXiv:2412.19437, 2.1.2, where the groups are the nodes.
    """
    E, k, n = (whole(name, value) for name, value in (("experts", experts), ("top_k", top_k), ("places", places)))
    G, g = int(whole("groups", groups, 0)) or 1, int(whole("token_groups", token_groups, 0)) or int(groups) or 1
    if np.any(E % n):
        raise ValueError(f"places is {places!r}: give a divisor of experts {experts!r}")
    if np.any(E % G) or not g <= G:
        raise ValueError(f"groups is {groups!r}: give a divisor of experts {experts!r}, token_groups no more than it")
    if np.any((G % n != 0) & (n % G != 0)):
        raise ValueError(f"groups is {groups!r}: give a multiple or a divisor of places {places!r}")
    if np.any(k > E // G * g):
        raise ValueError(f"top_k is {top_k!r}: give no more than the {E // G * g!r} experts of a token's groups")
    E, k, n = np.broadcast_arrays(E, k, n)
    pool, size = E // G * g, np.minimum(E // n, E // G)  # experts to draw from; of a place in one group
    of_place = np.maximum(G // n, 1)  # groups of a place
    missed = np.zeros(E.shape)
    for drawn in range(g + 1):
        missed = missed + _hypergeometric(drawn, G, g, of_place) * _share_of_misses(pool, drawn * size, k)
    return np.clip(n * (1 - missed), 1.0, np.minimum(k, n))


def parts_groups(dispatcher: str, groups: int, ranks: ArrayLike, domains: ArrayLike) -> NDArray[np.bool_]:
    """Whether "nodes" has no rule for experts so spread: an HB domain or a rank holds parts of several groups.

    Parameters
    ----------
    dispatcher
        One of DISPATCHERS.
    groups
        G of `copies_by_place`; 0 for none.
    ranks, domains
        That the experts are spread over.

    Returns
    -------
    Arrays broadcast.
    """
    one_of("dispatcher", dispatcher, DISPATCHERS)
    uneven = [(groups % n > 0) & (n % max(groups, 1) > 0) for n in (np.asarray(ranks), np.asarray(domains))]
    return (uneven[0] | uneven[1]) & (dispatcher == "nodes")


def _share_of_misses(pool: Ints, held: Ints, top_k: Ints) -> Floats:
    """C(pool - held, k) / C(pool, k): probability that none of k experts of a pool is among those held."""
    steps = np.arange(int(np.max(top_k)))
    left = np.maximum(pool[..., None] - steps, 1)
    factors = np.maximum(left - held[..., None], 0) / left
    return np.where(steps < top_k[..., None], factors, 1.0).prod(axis=-1)


def _hypergeometric(drawn: int, groups: int, token_groups: int, of_place: Ints) -> Floats:
    """Probability that of the groups of a place so many are among the token's."""
    table = [
        math.comb(own, drawn) * math.comb(groups - own, token_groups - drawn) / math.comb(groups, token_groups)
        for own in range(groups + 1)
    ]
    return np.array(table)[of_place]


def dispatch_bytes(
    tokens: ArrayLike,
    hidden: ArrayLike,
    experts: ArrayLike,
    top_k: ArrayLike,
    ranks: ArrayLike,
    ranks_in_domain: ArrayLike,
    dispatcher: str = "copies",
    element_bytes: ArrayLike = 2.0,
    groups: int = 0,
    token_groups: int = 0,
) -> DispatchBytes:
    """Bytes that a rank sends in one dispatch, or in one combine with its element_bytes: the module's table times u h.

    A combine goes the same ways back; with "nodes" the copies of a domain are summed on its rank before they leave it.
    Where tokens are dropped or padded, scale what "copies" sends by `capacity_copies` / k.

    Parameters
    ----------
    tokens, hidden
        Of the rank, u, and elements of a token, h.
    experts, top_k
        Experts E, and experts of a token k.
    ranks, ranks_in_domain
        Expert-parallel ranks e, a divisor of the experts, and those of them in one HB domain x, a divisor of e.
    dispatcher
        One of DISPATCHERS.
    element_bytes
        Of what is sent: 2 for bf16, 1 for fp8 (its scales, 4 bytes for 128 elements, 3 % more, are yours to add).
    groups, token_groups
        As in `copies_by_place`.

    Returns
    -------
    Bytes over the NIC and over HB, one direction of a GPU; arrays broadcast.

    Raises
    ------
    ValueError
        For an unknown dispatcher, ranks that do not divide, and as `copies_by_place`.

    References
    ----------
    DeepSeek-AI 2024, arXiv:2412.19437, 3.2.2; GitHub deepseek-ai/DeepEP, normal kernels.
    """
    one_of("dispatcher", dispatcher, DISPATCHERS)
    e, x = whole("ranks", ranks), whole("ranks_in_domain", ranks_in_domain)
    if np.any(e % x):
        raise ValueError(f"ranks_in_domain is {ranks_in_domain!r}: give a divisor of ranks {ranks!r}")
    domains = e // x
    size = at_least("tokens", tokens) * at_least("hidden", hidden) * positive("element_bytes", element_bytes, "bytes")
    of_domains, of_ranks = (copies_by_place(experts, top_k, n, groups, token_groups) for n in (domains, e))
    nic, hb = of_domains * (1 - 1 / domains), of_ranks * (1 - 1 / x)
    if dispatcher == "copies":
        k = whole("top_k", top_k)
        nic, hb = k * (1 - 1 / domains), k * (x - 1) / e
    return DispatchBytes(*np.broadcast_arrays(size * nic, size * hb))


def capacity_copies(
    top_k: ArrayLike, capacity: ArrayLike = math.inf, imbalance: ArrayLike = 1.0, padded: bool = False
) -> Floats:
    """Rows that the busiest expert rank computes, over its own tokens: k min(c, m), and k c where padded.

    An expert takes at most c u k / E tokens of each rank and drops the rest; padded ones compute zeros up to that.

    Parameters
    ----------
    top_k
        Experts of a token, k.
    capacity
        Capacity factor c; math.inf for dropless routing.
    imbalance
        Load of the busiest over the mean before anything is dropped, m, at least 1.
    padded
        Every expert is filled up to its capacity, which then must be finite.

    Returns
    -------
    Rows of a token; arrays broadcast.

    Raises
    ------
    ValueError
        For an imbalance below 1, a capacity that is not positive, and padding without a capacity.

    References
    ----------
    Lepikhin et al. 2020, arXiv:2006.16668, 2.2; Megatron-Core, moe README (moe-expert-capacity-factor,
    moe-pad-expert-input-to-capacity).
    """
    k, m, c = at_least("top_k", top_k, 1), at_least("imbalance", imbalance, 1), np.asarray(capacity, float)
    if not np.all(c > 0):
        raise ValueError(f"capacity is {capacity!r}: give a positive factor, or math.inf for dropless routing")
    if padded and not np.all(np.isfinite(c)):
        raise ValueError(f"capacity is {capacity!r} with padded: give a finite capacity factor to pad to")
    return k * (c + 0 * m if padded else np.minimum(c, m))


def host_operators(
    experts_local: ArrayLike, cast_kernels: int = 0, bias: bool = False, graphed: bool = False
) -> HostOperators:
    """What a host starts for a mixture layer, without attention and norms, as Megatron-Core launches it.

    Common to all experts are 28 operators forward: router in fp32 and its losses 6; counts of tokens, their exchange
    and copies to the host 11; two orderings of tokens with their maps 5; exchanges of tokens and of their weights 3;
    activation 1; orderings back 2. Backward 14: seven kernels of the same chain reversed, three exchanges and four of
    the router. Casts pad rows to whole blocks and back, 2 in each pass. Biases take two operators an expert and pass.
    One call starts the kernels of all experts: a product for each linear layer forward, two backward and a place for
    each weight's gradient, 2; and in each pass the casts of each linear layer's operand.

    Parameters
    ----------
    experts_local
        Experts of a rank.
    cast_kernels
        That cast an expert's matrix; 0 in bf16.
    bias
        Whether experts have biases.
    graphed
        Router, counts and their preprocessing are in a CUDA graph, of which only the start counts.

    Returns
    -------
    Numbers. The fixed counts come from reading the code; take them as good to a third.

    References
    ----------
    GitHub NVIDIA/Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py at 0014f13 (2025: dispatcher
    "alltoall"), moe README (grouped products on several streams); GitHub NVIDIA/TransformerEngine,
    pytorch/module/grouped_linear.py at 0069563 (2025), pull request 1525 (2025-04: current scaling).
    """
    n = np.asarray(whole("experts_local", experts_local), float)
    ordered = (2.0 if cast_kernels else 0.0) + 2 * bias * n
    counts = zip(_COMMON_OPERATORS, _GRAPHED_OPERATORS, strict=True)
    forward, backward = (count - graphed * (inside - 1) + ordered for count, inside in counts)
    casts = n * _LINEAR_LAYERS * cast_kernels
    return HostOperators(forward, backward, n * _LINEAR_LAYERS + casts, n * 3 * _LINEAR_LAYERS + casts)


def host_bound_time(gpu_s: ArrayLike, host_s: ArrayLike, serial: ArrayLike = 0.0) -> Floats:
    """Time of work that a host starts and a GPU does: the longer, and of the shorter the serial share.

    max(gpu_s, host_s) + serial min(gpu_s, host_s). serial is 0 where the host is always ahead, as without waits or
    with CUDA graphs, and 1 where each waits for the other. Experts have the host wait once a layer in the forward pass
    for the counts of tokens, so that the share lies between: padded ones too, whose counts are read as a list.
    Source: Megatron-Core, token_dispatcher.py (synchronization before the exchange), experts.py (tokens_per_expert).
    """
    gpu, host = at_least("gpu_s", gpu_s), at_least("host_s", host_s)
    return np.maximum(gpu, host) + share("serial", serial) * np.minimum(gpu, host)
