"""How long a collective takes, and how long it keeps a GPU's HB interconnect and NIC busy, one direction.

x of a group's n ranks are in an HB domain, y = n / x domains. Rings, all-to-alls and hops send as much as they receive,
so that both directions of a full-duplex link are busy alike; one of them is counted.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from railcore.training.collectives import hierarchical_time, steps_and_bytes


class LinkTimes(NamedTuple):
    """Seconds: from start to end, and of them the busy time of a GPU's HB interconnect and of its NIC."""

    time_s: Any
    hb_s: Any
    nic_s: Any

    def times(self, factor: Any) -> "LinkTimes":
        """The same, so many times."""
        return LinkTimes(*(factor * seconds for seconds in self))

    def plus(self, other: "LinkTimes") -> "LinkTimes":
        """Two kinds one after the other."""
        return LinkTimes(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


NO_LINK = LinkTimes(0.0, 0.0, 0.0)


def ranks_in_domain(
    hb_domain_size: int, inner: ArrayLike, inner_stride: ArrayLike, outer: ArrayLike = 1, outer_stride: ArrayLike = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Ranks x of a group in one HB domain at worst, and domains y that the group is in.

    A group is `outer` runs of `inner` ranks. x = gcd(n, max(K // stride, 1)) where the runs follow each other at the
    inner stride; else gcd of each level, the outer one only where a whole run is in a domain.

    Parameters
    ----------
    hb_domain_size
        K [GPUs].
    inner, inner_stride
        Ranks of a run, and how many GPUs its neighbours are apart.
    outer, outer_stride
        Runs of a group, and how many GPUs the runs are apart.

    Returns
    -------
    x and y, whole numbers of the arguments' shape.
    """
    n1, s1, n2, s2 = (np.asarray(value, np.int64) for value in (inner, inner_stride, outer, outer_stride))
    x1 = np.gcd(n1, np.maximum(hb_domain_size // s1, 1))
    x2 = np.gcd(n2, np.maximum(hb_domain_size // s2, 1))
    together = np.gcd(n1 * n2, np.maximum(hb_domain_size // s1, 1))
    x = np.where(s2 == n1 * s1, together, np.where(x1 == n1, x1 * x2, x1))
    return x, n1 * n2 // x


def gather_links(
    message_bytes: ArrayLike,
    inside: ArrayLike,
    domains: ArrayLike,
    bandwidths_Bps: tuple[float, float],
    latencies_s: tuple[float, float],
    calls: ArrayLike = 1,
    two_phases: bool = False,
) -> LinkTimes:
    """An AllGather or ReduceScatter of D bytes by x rings through all n ranks; an AllReduce takes twice as long.

    Each ring carries D / x. Time D (n - 1) / n over B_HB, or over min(B_HB, x B_NIC) beyond a domain. A GPU sends
    D (n - 1) / (n x) through its NIC, and what its other x - 1 rings carry through the HB interconnect. In two phases
    the ranks on a rail go first, then those in a domain. Each call has the latency of recursive steps, ceil(log2 x) in
    the domain and ceil(log2 y) between domains.

    Parameters
    ----------
    message_bytes
        Full buffers of a rank, D of all calls together [bytes].
    inside, domains
        x ranks in each of y HB domains.
    bandwidths_Bps, latencies_s
        Of HB interconnect and NIC that collectives reach [bytes/s], and of a step [s].
    calls
        Collectives that D is divided over.
    two_phases
        Whether it is hierarchical.

    Returns
    -------
    Seconds.
    """
    x, y = np.asarray(inside), np.asarray(domains)
    (hb, nic), sizes = bandwidths_Bps, np.asarray(message_bytes, float)
    steps = steps_and_bytes("all_gather", "bruck", 0, np.stack(np.broadcast_arrays(x, y)))[0]
    latency = np.asarray(calls) * (steps[0] * latencies_s[0] + steps[1] * latencies_s[1])
    beyond = y > 1
    if two_phases:
        time = hierarchical_time("all_gather", sizes, x, y, hb, nic)
        return LinkTimes(time + latency, sizes * (x - 1) / x / hb, beyond * sizes * (y - 1) / (x * y) / nic)
    sent = steps_and_bytes("all_gather", "ring", sizes, x * y)[1]
    time = sent / np.where(beyond, np.minimum(hb, x * nic), hb)
    return LinkTimes(time + latency, sent * np.where(beyond, (x - 1) / x, 1.0) / hb, beyond * sent / (x * nic))
