"""How long a collective takes, and how long it keeps a GPU's HB interconnect and NIC busy, one direction.

x of a group's n ranks are in an HB domain, y = n / x domains. Rings, all-to-alls and hops send as much as they receive,
so that both directions of a full-duplex link are busy alike; one of them is counted.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from railcore.training.collectives import hierarchical_time, rings_time, steps_and_bytes


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

    Time of `rings_time`. A GPU sends D (n - 1) / (n x) through its NIC, and what its other x - 1 rings carry through
    the HB interconnect. In two phases (`hierarchical_time`) the ranks on a rail go first, then those in a domain. Each
    call has the latency of recursive steps, ceil(log2 x) in the domain and ceil(log2 y) between domains.

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

    References
    ----------
    railonly2025, LLM Traffic in the NIC Domain (phases).
    """
    x, y = np.asarray(inside), np.asarray(domains)
    (hb, nic), sizes = bandwidths_Bps, np.asarray(message_bytes, float)
    steps = steps_and_bytes("all_gather", "bruck", 0, np.stack(np.broadcast_arrays(x, y)))[0]
    latency = np.asarray(calls) * (steps[0] * latencies_s[0] + steps[1] * latencies_s[1])
    beyond = y > 1
    if two_phases:
        time = hierarchical_time("all_gather", sizes, x, y, hb, nic)
        return LinkTimes(time + latency, sizes * (x - 1) / x / hb, beyond * sizes * (y - 1) / (x * y) / nic)
    time, sent = rings_time(sizes, x, y, hb, nic), sizes * (x * y - 1) / (x * y)
    return LinkTimes(time + latency, sent * np.where(beyond, (x - 1) / x, 1.0) / hb, beyond * sent / (x * nic))
