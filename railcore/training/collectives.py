"""Latency steps, bytes and time of collectives among n ranks, flat and hierarchical: closed forms, vectorised.

    time = steps x latency_s + bytes / bandwidth_Bps

bytes pass the port of the busiest rank: the larger of what it sends and what it receives, because ports are full
duplex. bandwidth_Bps is one direction of one GPU, over all links that the algorithm uses. D is message_bytes: the full
gathered buffer on one rank; for all-to-all what one rank sends in all, including its own share D / n.

- ring, bidirectional_ring: every rank sends to its neighbours only, so both work on a torus, on circuits and over a
  switch. Both move the same bytes per GPU; the bidirectional ring takes half the steps. It gains bandwidth only where
  each direction has its own link, as in a torus or a mesh: there bandwidth_Bps is the sum of both links, and a one-way
  ring gets the bandwidth of one. Behind one port both directions share the port, and nothing is gained.
- recursive: doubling, halving, or halving and then doubling, between ranks that differ in one bit; for powers of two
  only, except a broadcast. bruck takes as many steps for any n. recursive_doubling sends the whole buffer in each step.
- tree: binary; the children of i are 2 i + 1 and 2 i + 2. double_binary_tree: two trees, each with half of the buffer;
  no rank has children in both.
- direct: every pair at once. It needs a switch or a full mesh, and pays the latency once for n - 1 messages, so that
  "best" seldom finds another where direct is a choice: over circuits or a torus, name the algorithms that they allow.
  one_shot: every rank sends its whole buffer to all others. pairwise: one partner a step.
- in_network: the switch reduces and multicasts (SHARP); the way up and the way down are a step each. nvls: the same,
  started by the GPUs (NVLink SHARP); a GPU's own share passes the switch too, so an AllReduce moves D (n + 1) / n.
  Only an AllReduce sends less than over a ring: in an AllGather every rank still receives (n - 1) / n of D.

Trees, broadcasts along a ring and reductions in the network forward what they receive: their bytes / bandwidth is the
limit of many chunks, in which a busy port never waits.

The hierarchical ones are of x by y GPUs, x in each of y HB domains (scale-up or NVLink domains), and never leave their
rail. GPU j of domain d is rank d x + j and stands on rail j. Each operation is a chain of phases, in the HB domains or
along the rails; every phase is a flat collective:

    all_gather      rails: all_gather of D / x among y; HB: all_gather of D among x
    reduce_scatter  HB: reduce_scatter of D; rails: reduce_scatter of D / x
    all_reduce      HB: reduce_scatter of D; rails: all_reduce of D / x; HB: all_gather of D
    broadcast       HB of the root: scatter of D; rails: broadcast of D / x; HB: all_gather of D
    all_to_all      rails and HB, in either order: all_to_all of D
    point_to_point  rails and HB, in either order: one send of D each

The last two are rail-forwarded: what is meant for another rail makes one hop in an HB domain, in the sender's
(hb_first, NCCL's PXN) or in the receiver's.

Sources: Thakur, Rabenseifner and Gropp 2005 (ring, recursive); Bruck et al. 1997; Sanders, Speck and Traff 2009 (two
trees); NVIDIA nccl-tests, doc/PERFORMANCE.md (bandwidths); railonly2025, LLM Traffic in the NIC Domain and Routing in
Rail-Only Networks, and railonly2023, 3.1 (hierarchical).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from railcore.catalog import checks
from railcore.catalog.arguments import PositiveArray
from railcore.catalog.checks import Floats


@dataclass(frozen=True)
class AlgorithmCost:
    """Cost of an algorithm as functions of the ranks n: steps, and share = bytes / D."""

    steps: Callable[[Floats], Floats]
    share: Callable[[Floats], Floats]
    powers_of_two: bool = False


def _constant(value: float) -> Callable[[Floats], Floats]:
    return lambda n: np.full_like(n, value)


def _half(n: Floats) -> Floats:
    return n // 2


def _others(n: Floats) -> Floats:
    return n - 1


def _share_of_others(n: Floats) -> Floats:
    return (n - 1) / n


def doublings(n: ArrayLike) -> Floats:
    """ceil(log2(n)) of whole numbers, exact: a CPU may round a logarithm over a whole number."""
    return np.asarray(np.frexp(np.asarray(n) - 1.0)[1], float)


def _levels(n: Floats) -> Floats:
    """floor(log2(n)), exact."""
    return np.frexp(n)[1] - 1.0


def _bruck_share(n: Floats) -> Floats:
    """Share that Bruck's all_to_all sends: ones in the binary numbers below n, over n."""
    whole = n.astype(np.int64)
    total = np.zeros_like(whole)
    for k in range(int(whole.max(initial=1)).bit_length()):
        total += (whole >> (k + 1) << k) + np.maximum(0, whole % (2 << k) - (1 << k))
    return total / n


def _twice(cost: AlgorithmCost) -> AlgorithmCost:
    return AlgorithmCost(lambda n: 2 * cost.steps(n), lambda n: 2 * cost.share(n), cost.powers_of_two)


_ONE, _TWO = _constant(1), _constant(2)
_GATHER = {
    "ring": AlgorithmCost(_others, _share_of_others),
    "bidirectional_ring": AlgorithmCost(_half, _share_of_others),
    "recursive": AlgorithmCost(doublings, _share_of_others, powers_of_two=True),
    "bruck": AlgorithmCost(doublings, _share_of_others),
    "direct": AlgorithmCost(_ONE, _share_of_others),
    "in_network": AlgorithmCost(_TWO, _share_of_others),
    "nvls": AlgorithmCost(_TWO, _ONE),
}
_IN_SWITCH = ("in_network", "nvls")
ALGORITHM_COSTS: dict[str, dict[str, AlgorithmCost]] = {
    "all_gather": _GATHER,
    "reduce_scatter": _GATHER,
    "all_reduce": {name: _twice(cost) for name, cost in _GATHER.items() if name not in _IN_SWITCH}
    | {
        "recursive_doubling": AlgorithmCost(doublings, doublings, powers_of_two=True),
        "one_shot": AlgorithmCost(_ONE, _others),
        "tree": AlgorithmCost(lambda n: 2 * _levels(n), lambda n: np.minimum(3, (n + 1) // 2)),
        "double_binary_tree": AlgorithmCost(lambda n: 2 * doublings(n), lambda n: np.minimum(2, n / 2)),
        "in_network": AlgorithmCost(_TWO, _ONE),
        "nvls": AlgorithmCost(_constant(4), lambda n: (n + 1) / n),
    },
    "broadcast": {
        "ring": AlgorithmCost(_others, _ONE),
        "bidirectional_ring": AlgorithmCost(_others, _ONE),
        "recursive": AlgorithmCost(doublings, doublings),
        "tree": AlgorithmCost(_levels, lambda n: np.minimum(2, n - 1)),
        "double_binary_tree": AlgorithmCost(doublings, _ONE),
        "direct": AlgorithmCost(_ONE, _others),
        "in_network": AlgorithmCost(_TWO, _ONE),
    },
    "scatter": {"direct": AlgorithmCost(_ONE, _share_of_others)},
    "all_to_all": {
        "direct": AlgorithmCost(_ONE, _share_of_others),
        "pairwise": AlgorithmCost(_others, _share_of_others),
        "ring": AlgorithmCost(_others, lambda n: (n - 1) / 2),
        "bidirectional_ring": AlgorithmCost(_half, lambda n: n**2 // 4 / n),
        "bruck": AlgorithmCost(doublings, _bruck_share),
    },
    "point_to_point": {"direct": AlgorithmCost(_ONE, _ONE)},
}
OPERATIONS = tuple(ALGORITHM_COSTS)


def algorithm_names(operation: str) -> tuple[str, ...]:
    """Names of the algorithms of an operation. Raises ValueError for an unknown operation, naming those that exist."""
    return tuple(ALGORITHM_COSTS[checks.one_of("operation", operation, ALGORITHM_COSTS)])


def default_algorithm(operation: str) -> str:
    """What an operation runs unless named: "ring", or "direct" for scatter, all_to_all and point_to_point.

    Raises ValueError for an unknown operation.
    """
    checks.one_of("operation", operation, OPERATIONS)
    return "direct" if operation in ("scatter", "all_to_all", "point_to_point") else "ring"


def algorithm_cost(operation: str, algorithm: str) -> AlgorithmCost:
    """Cost of one algorithm. Raises ValueError for an unknown pair, naming those that exist."""
    if algorithm not in algorithm_names(operation):
        known = ", ".join(algorithm_names(operation))
        raise ValueError(f"algorithm {algorithm!r} does not exist for {operation}: choose from {known}")
    return ALGORITHM_COSTS[operation][algorithm]


def steps_and_bytes(
    operation: str, algorithm: str, message_bytes: ArrayLike, ranks: ArrayLike
) -> tuple[Floats, Floats]:
    """Latency steps, and bytes through the busiest rank's port: bytes = share(n) D; both 0 for one rank.

    Parameters
    ----------
    operation, algorithm
        One of OPERATIONS, and one of its `algorithm_names`.
    message_bytes, ranks
        D [bytes] and n; they broadcast.

    Returns
    -------
    Steps [1] and bytes [bytes], arrays of one shape.

    Raises
    ------
    ValueError
        For an unknown algorithm, and for a number of ranks that it does not support.
    """
    chosen = algorithm_cost(operation, algorithm)
    size, n = checks.at_least("message_bytes", message_bytes), _ranks(ranks)
    if not np.all(_fits(chosen, n)):
        raise ValueError(
            f"ranks is {ranks!r}: {algorithm} {operation} takes powers of two; bruck and ring take any number"
        )
    return _cost(chosen, size, n)


def collective_time(
    operation: str,
    message_bytes: ArrayLike,
    ranks: ArrayLike,
    bandwidth_Bps: ArrayLike,
    latency_s: ArrayLike = 0.0,
    algorithm: str | Sequence[str] | None = None,
) -> Floats:
    """Time of an operation [s]: steps x latency_s + bytes / bandwidth_Bps; 0 for one rank.

    Parameters
    ----------
    operation
        One of OPERATIONS.
    message_bytes, ranks
        D [bytes] and n.
    bandwidth_Bps, latency_s
        Of a GPU in one direction [bytes/s], and of one step [s]; they broadcast with D and n.
    algorithm
        A name; several names, for the fastest of them element by element; or "best", the fastest of all that need no
        reduction in the switch. An algorithm for powers of two is no choice for other n. None takes
        `default_algorithm`.

    Returns
    -------
    Seconds, an array of the arguments' common shape.

    Raises
    ------
    ValueError
        For an unknown algorithm, for a number of ranks that it does not support, and for values out of range.
    """
    return np.min(_times(operation, message_bytes, ranks, bandwidth_Bps, latency_s, algorithm)[1], axis=0)


# `collective_time` of one operation: all_gather_time(message_bytes, ranks, bandwidth_Bps, latency_s, algorithm).
all_gather_time = partial(collective_time, "all_gather")
reduce_scatter_time = partial(collective_time, "reduce_scatter")
all_reduce_time = partial(collective_time, "all_reduce")
all_to_all_time = partial(collective_time, "all_to_all")


def bus_factor(operation: str, ranks: ArrayLike) -> Floats:
    """Share of D that every port must carry without reduction in the network, nccl-tests' factor of an operation.

    2 (n - 1) / n for all_reduce; 1 for broadcast and point_to_point; (n - 1) / n for the others.
    """
    n = _ranks(ranks)
    if checks.one_of("operation", operation, OPERATIONS) in ("broadcast", "point_to_point"):
        return np.ones_like(n)
    return (2 if operation == "all_reduce" else 1) * _share_of_others(n)


def _ranks(ranks: ArrayLike) -> Floats:
    return checks.whole("ranks", ranks).astype(float)


def _fits(chosen: AlgorithmCost, n: Floats) -> NDArray[np.bool_]:
    return np.frexp(n)[0] == 0.5 if chosen.powers_of_two else np.ones(np.shape(n), bool)


def _cost(chosen: AlgorithmCost, size: Floats, n: Floats) -> tuple[Floats, Floats]:
    steps, share = (np.where(n > 1, each(n), 0.0) for each in (chosen.steps, chosen.share))
    sent = share * size
    return np.broadcast_to(steps, np.shape(sent))[()], sent


def _times(
    operation: str, message_bytes, ranks, bandwidth_Bps, latency_s, algorithm: str | Sequence[str] | None
) -> tuple[list[str], Floats]:
    """Names, and times [name, ...] with infinity where an algorithm does not support so many ranks."""
    alpha, bandwidth = checks.at_least("latency_s", latency_s), checks.positive("bandwidth_Bps", bandwidth_Bps)
    size, n = checks.at_least("message_bytes", message_bytes), _ranks(ranks)
    algorithm = default_algorithm(operation) if algorithm is None else algorithm
    if algorithm == "best":
        names = [name for name in algorithm_names(operation) if name not in _IN_SWITCH]
    else:
        names = [algorithm] if isinstance(algorithm, str) else list(algorithm)
    costs = [algorithm_cost(operation, name) for name in names]
    if not costs or not np.all(np.any([_fits(cost, n) for cost in costs], axis=0)):
        raise ValueError(f"algorithm is {algorithm!r}: name one that takes ranks {ranks!r}, such as 'bruck'")
    times = []
    for cost in costs:
        steps, sent = _cost(cost, size, n)
        times.append(np.where(_fits(cost, n), steps * alpha + sent / bandwidth, np.inf))
    return names, np.array(np.broadcast_arrays(*times))


HB, NIC = "hb", "nic"
# Phases in order: where, and which flat operation; what runs along a rail moves D / x of a buffer that all share.
HIERARCHICAL_PHASES: dict[str, tuple[tuple[str, str], ...]] = {
    "all_gather": ((NIC, "all_gather"), (HB, "all_gather")),
    "reduce_scatter": ((HB, "reduce_scatter"), (NIC, "reduce_scatter")),
    "all_reduce": ((HB, "reduce_scatter"), (NIC, "all_reduce"), (HB, "all_gather")),
    "broadcast": ((HB, "scatter"), (NIC, "broadcast"), (HB, "all_gather")),
    "all_to_all": ((NIC, "all_to_all"), (HB, "all_to_all")),
    "point_to_point": ((NIC, "point_to_point"), (HB, "point_to_point")),
}
RAIL_FORWARDED = ("all_to_all", "point_to_point")


def hierarchical_phases(
    operation: str, hb_algorithm: str | None = None, nic_algorithm: str | None = None
) -> list[tuple[str, str, str]]:
    """Phases of a hierarchical collective in order: HB or NIC, the flat operation, its algorithm.

    Scatter and point_to_point are always direct. Raises ValueError for an unknown operation and algorithm.
    """
    named, phases = {HB: hb_algorithm, NIC: nic_algorithm}, []
    for where, flat in HIERARCHICAL_PHASES[checks.one_of("operation", operation, HIERARCHICAL_PHASES)]:
        chosen = None if flat in ("scatter", "point_to_point") else named[where]
        chosen = default_algorithm(flat) if chosen is None else chosen
        algorithm_cost(flat, chosen)
        phases.append((where, flat, chosen))
    return phases


def hierarchical_phase_times(
    operation: str,
    message_bytes: ArrayLike,
    hb_ranks: ArrayLike,
    domains: ArrayLike,
    hb_Bps: ArrayLike,
    nic_Bps: ArrayLike,
    hb_latency_s: ArrayLike = 0.0,
    nic_latency_s: ArrayLike = 0.0,
    hb_algorithm: str | None = None,
    nic_algorithm: str | None = None,
) -> dict[str, Floats]:
    """Time of each phase of a hierarchical collective, in order.

    Parameters
    ----------
    operation, message_bytes, hb_ranks, domains, hb_Bps, nic_Bps
        As for `hierarchical_time`.
    hb_latency_s, nic_latency_s, hb_algorithm, nic_algorithm
        As for `hierarchical_time`.

    Returns
    -------
    Seconds by "hb" or "nic" and the flat operation, such as "hb reduce_scatter".
    """
    x, y = checks.whole("hb_ranks", hb_ranks), checks.whole("domains", domains)
    size = checks.at_least("message_bytes", message_bytes)
    links = {HB: (x, hb_Bps, hb_latency_s), NIC: (y, nic_Bps, nic_latency_s)}
    times = {}
    for where, flat, algorithm in hierarchical_phases(operation, hb_algorithm, nic_algorithm):
        moved = size / x if where == NIC and operation not in RAIL_FORWARDED else size
        times[f"{where} {flat}"] = collective_time(flat, moved, *links[where], algorithm)
    return times


def hierarchical_time(
    operation: str,
    message_bytes: ArrayLike,
    hb_ranks: ArrayLike,
    domains: ArrayLike,
    hb_Bps: ArrayLike,
    nic_Bps: ArrayLike,
    hb_latency_s: ArrayLike = 0.0,
    nic_latency_s: ArrayLike = 0.0,
    chunks: ArrayLike = 1,
    hb_algorithm: str | None = None,
    nic_algorithm: str | None = None,
) -> Floats:
    """Time of a hierarchical collective [s], its phases pipelined over chunks: sum(t_i) + (chunks - 1) max(HB, NIC).

    t_i is the time of a chunk of D / chunks in phase i. HB and NIC are the sums of its phases in the HB domain and on
    the rail, because phases on the same links take turns. Exact with two phases, and with three where NIC >= HB; else
    too long by at most one chunk's NIC time.

    Parameters
    ----------
    operation
        One of those in the module's table.
    message_bytes, hb_ranks, domains
        D [bytes], x and y.
    hb_Bps, nic_Bps, hb_latency_s, nic_latency_s
        Of a GPU in one direction [bytes/s], and of a step [s].
    chunks
        Parts that D is cut into. All arguments up to here broadcast.
    hb_algorithm, nic_algorithm
        Of the flat collectives, such as "nvls" and "in_network"; by default `default_algorithm`. Scatter and
        point_to_point are always direct.

    Returns
    -------
    Seconds, an array of the arguments' common shape.

    Raises
    ------
    ValueError
        For an unknown operation or algorithm, and for values out of range.
    """
    parts = checks.whole("chunks", chunks)
    size = checks.at_least("message_bytes", message_bytes) / parts
    links = (hb_ranks, domains, hb_Bps, nic_Bps, hb_latency_s, nic_latency_s, hb_algorithm, nic_algorithm)
    times = hierarchical_phase_times(operation, size, *links)
    hb, nic = (
        sum((time for name, time in times.items() if name.startswith(where)), np.zeros(())) for where in (HB, NIC)
    )
    return hb + nic + (parts - 1) * np.maximum(hb, nic)


def rings_time(
    message_bytes: ArrayLike, hb_ranks: ArrayLike, domains: ArrayLike, hb_Bps: PositiveArray, nic_Bps: PositiveArray
) -> Floats:
    """Time of an AllGather or ReduceScatter by x rings through all n = x y ranks, without latency [s].

    D (n - 1) / n over B_HB in one HB domain, else over min(B_HB, x B_NIC), since each ring carries D / x through its
    NICs and all of them pass the HB interconnect. An AllReduce takes twice as long.

    Parameters
    ----------
    message_bytes, hb_ranks, domains
        D [bytes], x and y.
    hb_Bps, nic_Bps
        Of a GPU in one direction [bytes/s]. All arguments broadcast.

    Returns
    -------
    Seconds, an array of the arguments' common shape.

    References
    ----------
    GitHub NVIDIA/nccl, issue 43 (many rings).
    """
    x, y = np.asarray(hb_ranks), np.asarray(domains)
    rate = np.where(y > 1, np.minimum(hb_Bps, x * np.asarray(nic_Bps)), hb_Bps)
    return np.asarray(steps_and_bytes("all_gather", "ring", message_bytes, x * y)[1] / rate)
