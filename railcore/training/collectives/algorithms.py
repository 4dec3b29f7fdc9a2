"""Latency steps, bytes and time of collectives among n ranks, in closed form and vectorised.

    time = steps x latency_s + bytes / bandwidth_Bps

bytes go through the port of the busiest rank: the larger of what it sends and what it receives, for ports are full
duplex. bandwidth_Bps is one direction of one GPU, over all the links that the form uses. D is message_bytes: the full
gathered buffer on one rank; for all-to-all what one rank sends in all, its own share of D / n counted in.

- ring, bidirectional_ring: sends to neighbours only, so they suit a torus or circuits as well as a switch. Both move
  the same bytes per GPU, and a bidirectional ring takes half the steps. It gains bandwidth only where each direction
  has a link of its own, as in a torus or a mesh: there bandwidth_Bps is both links together, and a one-way ring must
  be given one link's. Behind one port, as over a switch, the two directions share the port and gain nothing.
- recursive: doubling, halving, or halving and then doubling, between ranks that differ in one bit: powers of two only
  (but a broadcast). bruck takes as many steps for any n. recursive_doubling sends the whole buffer in each step.
- tree: binary, the children of i being 2 i + 1 and 2 i + 2. double_binary_tree: two trees, each with half of the
  buffer, in which no rank has children twice.
- direct: every pair at once, which wants a switch or a full mesh and pays the latency once for n - 1 messages: with it
  in the choice "best" seldom finds another. Over circuits or a torus, name the forms that they offer instead.
  one_shot: every rank sends its whole buffer to all others. pairwise: one partner a step.
- in_network: the switch reduces and multicasts (SHARP), and is a step of its own up and down. nvls: likewise, but
  driven by the GPUs (NVLink SHARP), whose own share passes the switch too: AllReduce moves D (n + 1) / n.
  Only an AllReduce sends less than over a ring: every rank still receives its (n - 1) / n of an AllGather.

Trees, broadcasts along a ring and reductions in the network forward what they have received: their bytes / bandwidth
is the limit of many chunks, in which a busy port never waits (`railcore.training.collectives.pipelined`).

Sources: Thakur, Rabenseifner and Gropp 2005 (ring, recursive); Bruck et al. 1997; Sanders, Speck and Traff 2009 (two
trees); NVIDIA nccl-tests, doc/PERFORMANCE.md (bandwidths).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Form:
    """An algorithm's cost as functions of the ranks n: steps, and share = bytes / D."""

    steps: Callable[[Floats], Floats]
    share: Callable[[Floats], Floats]
    powers_of_two: bool = False


def _constant(value: float) -> Callable[[Floats], Floats]:
    return lambda n: np.full_like(n, value)


def _half(n: Floats) -> Floats:
    return n // 2


def _rest(n: Floats) -> Floats:
    return (n - 1) / n


def _others(n: Floats) -> Floats:
    return n - 1


def _doublings(n: Floats) -> Floats:
    """ceil(log2(n)), exact."""
    return np.frexp(n - 1)[1].astype(float)


def _levels(n: Floats) -> Floats:
    """floor(log2(n)), exact."""
    return np.frexp(n)[1] - 1.0


def _bits(n: Floats) -> Floats:
    """Ones in the binary numbers below n, over n."""
    whole = n.astype(np.int64)
    total = np.zeros_like(whole)
    for k in range(int(whole.max(initial=1)).bit_length()):
        total += (whole >> (k + 1) << k) + np.maximum(0, whole % (2 << k) - (1 << k))
    return total / n


def _twice(form: Form) -> Form:
    return Form(lambda n: 2 * form.steps(n), lambda n: 2 * form.share(n), form.powers_of_two)


_ONE, _TWO = _constant(1), _constant(2)
_GATHER = {
    "ring": Form(_others, _rest),
    "bidirectional_ring": Form(_half, _rest),
    "recursive": Form(_doublings, _rest, powers_of_two=True),
    "bruck": Form(_doublings, _rest),
    "direct": Form(_ONE, _rest),
    "in_network": Form(_TWO, _rest),
    "nvls": Form(_TWO, _ONE),
}
_IN_SWITCH = ("in_network", "nvls")
FORMS: dict[str, dict[str, Form]] = {
    "all_gather": _GATHER,
    "reduce_scatter": _GATHER,
    "all_reduce": {name: _twice(form) for name, form in _GATHER.items() if name not in _IN_SWITCH}
    | {
        "recursive_doubling": Form(_doublings, _doublings, powers_of_two=True),
        "one_shot": Form(_ONE, _others),
        "tree": Form(lambda n: 2 * _levels(n), lambda n: np.minimum(3, (n + 1) // 2)),
        "double_binary_tree": Form(lambda n: 2 * _doublings(n), lambda n: np.minimum(2, n / 2)),
        "in_network": Form(_TWO, _ONE),
        "nvls": Form(_constant(4), lambda n: (n + 1) / n),
    },
    "broadcast": {
        "ring": Form(_others, _ONE),
        "bidirectional_ring": Form(_others, _ONE),
        "recursive": Form(_doublings, _doublings),
        "tree": Form(_levels, lambda n: np.minimum(2, n - 1)),
        "double_binary_tree": Form(_doublings, _ONE),
        "direct": Form(_ONE, _others),
        "in_network": Form(_TWO, _ONE),
    },
    "scatter": {"direct": Form(_ONE, _rest)},
    "all_to_all": {
        "direct": Form(_ONE, _rest),
        "pairwise": Form(_others, _rest),
        "ring": Form(_others, lambda n: (n - 1) / 2),
        "bidirectional_ring": Form(_half, lambda n: n**2 // 4 / n),
        "bruck": Form(_doublings, _bits),
    },
    "point_to_point": {"direct": Form(_ONE, _ONE)},
}
OPERATIONS = tuple(FORMS)
# What a port at full speed would have to carry of D, by nccl-tests' definition.
_BUS = dict.fromkeys(("all_gather", "reduce_scatter", "scatter", "all_to_all"), _rest) | {
    "all_reduce": lambda n: 2 * _rest(n),
    "broadcast": _ONE,
    "point_to_point": _ONE,
}


def algorithm_names(operation: str) -> tuple[str, ...]:
    """Names of the forms of an operation. Raises ValueError for an unknown operation, naming those that exist."""
    return tuple(_forms(operation))


def form(operation: str, algorithm: str) -> Form:
    """Cost of one form. Raises ValueError for an unknown pair, naming those that exist."""
    forms = _forms(operation)
    if algorithm not in forms:
        raise ValueError(f"algorithm {algorithm!r} does not exist for {operation}: choose from {', '.join(forms)}")
    return forms[algorithm]


def steps_and_bytes(
    operation: str, algorithm: str, message_bytes: ArrayLike, ranks: ArrayLike
) -> tuple[Floats, Floats]:
    """Latency steps, and bytes through the busiest rank's port: bytes = share(n) D; both 0 for one rank.

    message_bytes D [bytes], ranks n: broadcast against each other.
    Raises ValueError for an unknown form, and for ranks that it cannot have.
    """
    chosen = form(operation, algorithm)
    size, n = checked("message_bytes", message_bytes, 0), whole("ranks", ranks)
    if not np.all(_fits(chosen, n)):
        raise ValueError(f"ranks is {ranks!r}: {algorithm} {operation} takes powers of two, bruck or ring any number")
    return _cost(chosen, size, n)


def collective_time(
    operation: str,
    message_bytes: ArrayLike,
    ranks: ArrayLike,
    bandwidth_Bps: ArrayLike,
    latency_s: ArrayLike = 0.0,
    algorithm: str | Sequence[str] = "ring",
) -> Floats:
    """Time of an operation [s]: steps x latency_s + bytes / bandwidth_Bps; 0 for one rank.

    message_bytes D [bytes], ranks n, bandwidth_Bps [bytes/s] one direction of a GPU, latency_s of a step [s]:
    broadcast against each other.
    algorithm: a form's name; several, for the fastest of them element by element; or "best", the fastest of all that
    need no reduction in the switch. A form that needs a power of two is left out of the choice where n is none.
    Raises ValueError for a form that does not exist or cannot have these ranks, and for values out of range.
    """
    alpha, bandwidth = checked("latency_s", latency_s, 0), _bandwidth(bandwidth_Bps)
    if isinstance(algorithm, str) and algorithm != "best":
        steps, size = steps_and_bytes(operation, algorithm, message_bytes, ranks)
        return steps * alpha + size / bandwidth
    return np.min(_times(operation, message_bytes, ranks, bandwidth, alpha, algorithm)[1], axis=0)


def best_algorithm(
    operation: str,
    message_bytes: ArrayLike,
    ranks: ArrayLike,
    bandwidth_Bps: ArrayLike,
    latency_s: ArrayLike = 0.0,
    algorithm: str | Sequence[str] = "best",
) -> NDArray[np.str_]:
    """Name of the fastest form, element by element, the first in the order of `algorithm_names` among equals.

    Arguments and errors as in `collective_time`.
    """
    alpha, bandwidth = checked("latency_s", latency_s, 0), _bandwidth(bandwidth_Bps)
    names, times = _times(operation, message_bytes, ranks, bandwidth, alpha, algorithm)
    return np.array(names)[np.argmin(times, axis=0)]


def all_gather_time(
    message_bytes: ArrayLike,
    ranks: ArrayLike,
    bandwidth_Bps: ArrayLike,
    latency_s: ArrayLike = 0.0,
    algorithm: str | Sequence[str] = "ring",
) -> Floats:
    """Time in which every rank gets all shards of D / n [s]; see `collective_time`."""
    return collective_time("all_gather", message_bytes, ranks, bandwidth_Bps, latency_s, algorithm)


def reduce_scatter_time(
    message_bytes: ArrayLike,
    ranks: ArrayLike,
    bandwidth_Bps: ArrayLike,
    latency_s: ArrayLike = 0.0,
    algorithm: str | Sequence[str] = "ring",
) -> Floats:
    """Time in which each rank gets D / n of the sum of all buffers [s]; see `collective_time`."""
    return collective_time("reduce_scatter", message_bytes, ranks, bandwidth_Bps, latency_s, algorithm)


def all_reduce_time(
    message_bytes: ArrayLike,
    ranks: ArrayLike,
    bandwidth_Bps: ArrayLike,
    latency_s: ArrayLike = 0.0,
    algorithm: str | Sequence[str] = "ring",
) -> Floats:
    """Time in which every rank gets the sum of all buffers [s]; see `collective_time`."""
    return collective_time("all_reduce", message_bytes, ranks, bandwidth_Bps, latency_s, algorithm)


def broadcast_time(
    message_bytes: ArrayLike,
    ranks: ArrayLike,
    bandwidth_Bps: ArrayLike,
    latency_s: ArrayLike = 0.0,
    algorithm: str | Sequence[str] = "ring",
) -> Floats:
    """Time in which every rank gets the buffer of one [s]; see `collective_time`."""
    return collective_time("broadcast", message_bytes, ranks, bandwidth_Bps, latency_s, algorithm)


def all_to_all_time(
    message_bytes: ArrayLike,
    ranks: ArrayLike,
    bandwidth_Bps: ArrayLike,
    latency_s: ArrayLike = 0.0,
    algorithm: str | Sequence[str] = "direct",
) -> Floats:
    """Time in which every rank gets D / n from every rank [s]; see `collective_time`."""
    return collective_time("all_to_all", message_bytes, ranks, bandwidth_Bps, latency_s, algorithm)


def point_to_point_time(message_bytes: ArrayLike, bandwidth_Bps: ArrayLike, latency_s: ArrayLike = 0.0) -> Floats:
    """Time of one send [s]: latency_s + D / bandwidth_Bps."""
    return collective_time("point_to_point", message_bytes, 2, bandwidth_Bps, latency_s, "direct")


def algorithm_bandwidth(message_bytes: ArrayLike, time_s: ArrayLike) -> Floats:
    """Message over time [bytes/s]: D / t, as nccl-tests define it. Raises ValueError where time_s is not positive."""
    size, t = checked("message_bytes", message_bytes, 0), np.asarray(time_s, float)
    if not np.all(t > 0):
        raise ValueError(f"time_s is {time_s!r}: give positive seconds; a group of one rank sends nothing")
    return size / t


def bus_bandwidth(operation: str, message_bytes: ArrayLike, ranks: ArrayLike, time_s: ArrayLike) -> Floats:
    """Port bandwidth that this time comes to [bytes/s]: f(n) D / t, as nccl-tests define it.

    f = 2 (n - 1) / n for all_reduce; 1 for broadcast and point_to_point; (n - 1) / n for the others. In the network
    an AllReduce sends less than f D, and its bus bandwidth may exceed the port's.
    """
    _forms(operation)
    return _BUS[operation](whole("ranks", ranks)) * algorithm_bandwidth(message_bytes, time_s)


def checked(name: str, value: ArrayLike, least: float) -> Floats:
    """`value` as an array of finite floats of at least `least`; ValueError names the argument."""
    array = np.asarray(value, float)
    if not np.all((array >= least) & np.isfinite(array)):
        raise ValueError(f"{name} is {value!r}: give finite numbers from {least:g} up")
    return array


def whole(name: str, value: ArrayLike) -> Floats:
    """`value` as an array of whole numbers from 1 up; ValueError names the argument."""
    array = np.asarray(value, float)
    if not np.all((array >= 1) & (array == np.floor(array)) & np.isfinite(array)):
        raise ValueError(f"{name} is {value!r}: give whole numbers from 1 up")
    return array


def _bandwidth(value: ArrayLike) -> Floats:
    array = np.asarray(value, float)
    if not np.all(array > 0):
        raise ValueError(f"bandwidth_Bps is {value!r}: give positive bytes/s")
    return array


def _forms(operation: str) -> dict[str, Form]:
    if operation not in FORMS:
        raise ValueError(f"operation {operation!r} does not exist: choose from {', '.join(FORMS)}")
    return FORMS[operation]


def _fits(chosen: Form, n: Floats) -> NDArray[np.bool_]:
    return (np.frexp(n)[0] == 0.5) | (not chosen.powers_of_two)


def _cost(chosen: Form, size: Floats, n: Floats) -> tuple[Floats, Floats]:
    steps, share = (np.where(n > 1, each(n), 0.0) for each in (chosen.steps, chosen.share))
    sent = share * size
    return np.broadcast_to(steps, np.shape(sent))[()], sent


def _times(
    operation: str, message_bytes, ranks, bandwidth: Floats, alpha: Floats, algorithm: str | Sequence[str]
) -> tuple[list[str], Floats]:
    """Names, and times [name, ...] with infinity where a form cannot have so many ranks."""
    best = [name for name in _forms(operation) if name not in _IN_SWITCH]
    names = best if algorithm == "best" else [algorithm] if isinstance(algorithm, str) else list(algorithm)
    size, n = checked("message_bytes", message_bytes, 0), whole("ranks", ranks)
    forms = [form(operation, name) for name in names]
    if not forms or not np.all(np.any([_fits(each, n) for each in forms], axis=0)):
        raise ValueError(f"algorithm is {algorithm!r}: name a form that takes ranks {ranks!r}, such as 'bruck'")
    times = []
    for each in forms:
        steps, sent = _cost(each, size, n)
        times.append(np.where(_fits(each, n), steps * alpha + sent / bandwidth, np.inf))
    return names, np.array(np.broadcast_arrays(*times))
