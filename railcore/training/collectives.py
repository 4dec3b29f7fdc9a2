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
- direct: every pair at once. It needs a switch or a full mesh, and pays the latency once for n - 1 messages. one_shot:
  every rank sends its whole buffer to all others. pairwise: one partner a step.
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

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from railcore.catalog import checks
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
    """What an operation runs unless named: "ring", or "direct" for scatter, all_to_all and point_to_point."""
    return "direct" if operation in ("scatter", "all_to_all", "point_to_point") else "ring"


def algorithm_cost(operation: str, algorithm: str) -> AlgorithmCost:
    """Cost of one algorithm. Raises ValueError for an unknown pair, naming those that exist."""
    if algorithm not in algorithm_names(operation):
        names = ", ".join(algorithm_names(operation))
        raise ValueError(f"algorithm {algorithm!r} does not exist for {operation}: choose from {names}")
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
    cost = algorithm_cost(operation, algorithm)
    n, size = np.asarray(ranks, float), np.asarray(message_bytes, float)
    if cost.powers_of_two and not np.all(np.frexp(n)[0] == 0.5):
        raise ValueError(
            f"ranks is {ranks!r}: {algorithm} {operation} takes powers of two; bruck and ring take any number"
        )
    steps, share = (np.where(n > 1, of_ranks(n), 0.0) for of_ranks in (cost.steps, cost.share))
    sent = share * size
    return np.broadcast_to(steps, np.shape(sent))[()], sent


def collective_time(
    operation: str,
    message_bytes: ArrayLike,
    ranks: ArrayLike,
    bandwidth_Bps: ArrayLike,
    latency_s: ArrayLike = 0.0,
    algorithm: str | None = None,
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
        One of `algorithm_names`; None takes `default_algorithm`.

    Returns
    -------
    Seconds, an array of the arguments' common shape.

    Raises
    ------
    ValueError
        For an unknown algorithm, and for a number of ranks that it does not support.
    """
    steps, sent = steps_and_bytes(operation, algorithm or default_algorithm(operation), message_bytes, ranks)
    return steps * np.asarray(latency_s, float) + sent / np.asarray(bandwidth_Bps, float)


all_gather_time = partial(collective_time, "all_gather")  # message_bytes, ranks, bandwidth_Bps, latency_s, algorithm


def bus_factor(operation: str, ranks: ArrayLike) -> Floats:
    """Share of D that every port must carry without reduction in the network, nccl-tests' factor of an operation.

    2 (n - 1) / n for all_reduce; 1 for broadcast and point_to_point; (n - 1) / n for the others.
    """
    n = np.asarray(ranks, float)
    if operation in ("broadcast", "point_to_point"):
        return np.ones_like(n)
    return (2 if operation == "all_reduce" else 1) * _share_of_others(n)


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
    algorithms, phases = {HB: hb_algorithm, NIC: nic_algorithm}, []
    for where, flat in HIERARCHICAL_PHASES[checks.one_of("operation", operation, HIERARCHICAL_PHASES)]:
        algorithm = None if flat in ("scatter", "point_to_point") else algorithms[where]
        algorithm = algorithm or default_algorithm(flat)
        algorithm_cost(flat, algorithm)
        phases.append((where, flat, algorithm))
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
    """Time of each phase of a hierarchical collective, in order; arrays broadcast.

    Parameters
    ----------
    operation
        One of those in the module's table.
    message_bytes, hb_ranks, domains
        D [bytes], x and y.
    hb_Bps, nic_Bps, hb_latency_s, nic_latency_s
        Of a GPU in one direction [bytes/s], and of a step [s].
    hb_algorithm, nic_algorithm
        Of the flat collectives, such as "nvls" and "in_network"; by default `default_algorithm`. Scatter and
        point_to_point are always direct.

    Returns
    -------
    Seconds by "hb" or "nic" and the flat operation, such as "hb reduce_scatter".

    Raises
    ------
    ValueError
        For an unknown operation or algorithm.
    """
    size = np.asarray(message_bytes, float)
    links = {HB: (hb_ranks, hb_Bps, hb_latency_s), NIC: (domains, nic_Bps, nic_latency_s)}
    times = {}
    for where, flat, algorithm in hierarchical_phases(operation, hb_algorithm, nic_algorithm):
        moved = size / hb_ranks if where == NIC and operation not in RAIL_FORWARDED else size
        times[f"{where} {flat}"] = collective_time(flat, moved, *links[where], algorithm)
    return times


def hierarchical_time(
    operation: str,
    message_bytes: ArrayLike,
    hb_ranks: ArrayLike,
    domains: ArrayLike,
    hb_Bps: ArrayLike,
    nic_Bps: ArrayLike,
) -> Floats:
    """Time of a hierarchical collective without latency, its phases one after the other.

    Parameters
    ----------
    operation
        One of those in the module's table.
    message_bytes, hb_ranks, domains
        D [bytes], x and y.
    hb_Bps, nic_Bps
        Of a GPU in one direction [bytes/s]. All arguments broadcast.

    Returns
    -------
    Seconds, an array of the arguments' common shape.
    """
    phases = hierarchical_phase_times(operation, message_bytes, hb_ranks, domains, hb_Bps, nic_Bps)
    return sum(phases.values(), np.zeros(()))
