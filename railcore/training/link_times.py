"""How long a collective takes, and how long it keeps a GPU's HB interconnect and NIC busy, one direction.

x of a group's n ranks are in an HB domain, y = n / x domains. Rings, all-to-alls and hops send as much as they receive,
so that both directions of a full-duplex link are busy alike; one of them is counted.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from railcore.training.collectives import hierarchical_time, rings_time


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


def exposed_time(link_s: ArrayLike, window_s: ArrayLike, lost: float, least: ArrayLike = 0.0) -> np.ndarray:
    """What an exchange adds to the compute that hides it: max(E - W, a E + r (1 - a) E).

    Where the exchange is the longer, it sets the time, and compute that it slows is hidden in turn. Where compute is
    the longer, it loses r of every second beside the exchange.

    Parameters
    ----------
    link_s, window_s
        E of the exchange, and W of the compute beside it [s].
    lost
        r, share of a second of compute that a collective beside it takes.
    least
        a, share of the exchange that nothing hides.

    Returns
    -------
    Seconds.
    """
    link, free = np.asarray(link_s, float), 1 - np.asarray(least, float)
    return np.maximum(link - np.asarray(window_s, float), link * (1 - free + lost * free))


class Latencies(NamedTuple):
    """Seconds: of a step of a ring over HB interconnect and NIC, of a call, and of a call that switches multicast."""

    hb_s: Any
    nic_s: Any
    call_s: Any = 0.0
    multicast_s: Any = np.inf


class _Protocol(NamedTuple):
    """A protocol of NCCL beside "Simple": bandwidth and latencies over those of it."""

    bandwidth: float
    call: float
    hb: float
    nic: float


_LL128 = _Protocol(0.92, 10 / 8.4, 1.9 / 3.4, 4.0 / 14)  # NVIDIA/nccl src/graph/tuning.cc: 120 of 128 bytes are data
_TREE_BANDWIDTH = 0.9  # of a tree, over that of rings; the same file


def gather_links(
    message_bytes: ArrayLike,
    inside: ArrayLike,
    domains: ArrayLike,
    bandwidths_Bps: tuple[float, float],
    latencies: Latencies,
    calls: ArrayLike = 1,
    two_phases: bool = False,
) -> LinkTimes:
    """An AllGather or ReduceScatter of D bytes by x rings through all n ranks.

    A call starts with its own latency and passes n - 1 steps, y - 1 of them between domains: latency grows with the
    ranks. In one domain a call is no slower than one that the switches multicast (NVLink SHARP); with one rank a domain
    it takes ceil(log2 y) steps (PAT). To that comes the time of `rings_time`. It is the faster of NCCL's protocols
    Simple and LL128, which has less latency and less bandwidth. A GPU sends D (n - 1) / (n x) through its NIC, and what
    its other x - 1 rings carry through the HB interconnect. In two phases (`hierarchical_time`) the ranks on a rail go
    first, then those in a domain.

    Parameters
    ----------
    message_bytes
        Full buffers of a rank, D of all calls together [bytes].
    inside, domains
        x ranks in each of y HB domains.
    bandwidths_Bps
        Of HB interconnect and NIC that collectives reach [bytes/s].
    latencies
        Of a step, of a call, and of one that is multicast [s].
    calls
        Collectives that D is divided over.
    two_phases
        Whether it is hierarchical.

    Returns
    -------
    Seconds.

    References
    ----------
    GitHub NVIDIA/nccl, src/graph/tuning.cc@01afd20, ncclTopoTuneModel (steps, protocols), and its notes of release 2.23
    (PAT); railonly2025, LLM Traffic in the NIC Domain (phases).
    """
    x, y = np.asarray(inside), np.asarray(domains)
    (hb, nic), sizes, beyond = bandwidths_Bps, np.asarray(message_bytes, float), y > 1
    within, between = x - 1 if two_phases else x * y - y, np.where(x == 1, np.ceil(np.log2(y)), y - 1)
    started = np.asarray(calls) * (x * y > 1)
    simple = latencies.call_s + within * latencies.hb_s + between * latencies.nic_s
    simple = started * np.where(beyond, simple, np.minimum(simple, latencies.multicast_s))
    if two_phases:
        time = hierarchical_time("all_gather", sizes, x, y, hb, nic)
        return LinkTimes(time + simple, sizes * (x - 1) / x / hb, beyond * sizes * (y - 1) / (x * y) / nic)
    other = _LL128.call * latencies.call_s + within * _LL128.hb * latencies.hb_s
    other = started * (other + between * _LL128.nic * latencies.nic_s)
    time, sent = rings_time(sizes, x, y, hb, nic), sizes * (x * y - 1) / (x * y)
    time = np.minimum(time + simple, time / _LL128.bandwidth + other)
    return LinkTimes(time, sent * np.where(beyond, (x - 1) / x, 1.0) / hb, beyond * sent / (x * nic))


def all_reduce_links(
    message_bytes: ArrayLike,
    inside: ArrayLike,
    domains: ArrayLike,
    bandwidths_Bps: tuple[float, float],
    latencies: Latencies,
    calls: ArrayLike = 1,
    two_phases: bool = False,
) -> LinkTimes:
    """An AllReduce: an AllGather and a ReduceScatter of `gather_links`, or a tree where that is faster.

    A tree passes the ranks of a domain and ceil(log2 y) domains, up and down, at a little less bandwidth; in two phases
    too, whose bandwidth it has then.

    Parameters
    ----------
    message_bytes, inside, domains, bandwidths_Bps, latencies, calls, two_phases
        As there.

    Returns
    -------
    Seconds.
    """
    x, y = np.asarray(inside), np.asarray(domains)
    rings = gather_links(message_bytes, x, y, bandwidths_Bps, latencies, calls, two_phases).times(2)
    levels = (x - 1) * latencies.hb_s + np.ceil(np.log2(y)) * latencies.nic_s
    steps = np.asarray(calls) * ((x * y > 1) * latencies.call_s + 2 * levels)
    if two_phases:  # in domains and then between them, whatever the steps
        once = hierarchical_time("all_gather", message_bytes, x, y, *bandwidths_Bps)
    else:
        once = rings_time(message_bytes, x, y, *bandwidths_Bps)
    tree = 2 * once / _TREE_BANDWIDTH + steps
    return rings._replace(time_s=np.minimum(rings.time_s, tree))
