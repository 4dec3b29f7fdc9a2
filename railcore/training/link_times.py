"""How long a collective takes, and how long it keeps a GPU's HB interconnect and NIC busy, one direction.

x of a group's n ranks are in an HB domain, y = n / x domains. Rings, all-to-alls and hops send as much as they receive,
so that both directions of a full-duplex link are busy alike; one of them is counted.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from railcore.training.collectives import doublings, hierarchical_time
from railcore.training.domain_links import BULK_STEP, TREE_SHARE, domain_ring_s, tree_levels
from railcore.training.machine_parts import DomainCollectives


class LinkTimes(NamedTuple):
    """Seconds from start to end, and how long a GPU's HB interconnect and its NIC are busy in them."""

    time_s: Any
    hb_s: Any
    nic_s: Any

    def times(self, factor: Any) -> "LinkTimes":
        """So many of them, one after the other."""
        return LinkTimes(*(factor * seconds for seconds in self))

    def plus(self, other: "LinkTimes") -> "LinkTimes":
        """Two kinds one after the other."""
        return LinkTimes(*(first + second for first, second in zip(self, other, strict=True)))


NO_LINK = LinkTimes(0.0, 0.0, 0.0)


def exposed_time(link_s: ArrayLike, window_s: ArrayLike, lost: float, least: ArrayLike = 0.0) -> np.ndarray:
    """Time that an exchange adds to the compute that runs beside it: max(E - W, a E + r (1 - a) E).

    Where the exchange takes longer, what compute does not cover is added. Where compute takes longer, it loses r of
    every second beside the exchange.

    Parameters
    ----------
    link_s, window_s
        E of the exchange, and W of the compute beside it [s].
    lost
        r, share of the compute that is lost while a collective runs beside it.
    least
        a, share of the exchange that nothing hides.

    Returns
    -------
    Seconds; NaN where neither exchange nor compute ends.
    """
    link, free = np.asarray(link_s, float), 1 - np.asarray(least, float)
    return np.maximum(link - np.asarray(window_s, float), link * (1 - free + lost * free))


def exposed_beside(
    link: LinkTimes, window_s: ArrayLike, busy: LinkTimes, lost: float, least: ArrayLike = 0.0
) -> np.ndarray:
    """`exposed_time` of an exchange beside work that uses the links too: at least what keeps a link busy too long.

    Parameters
    ----------
    link
        Of the exchange [s].
    window_s, busy
        The work beside it, and how long that keeps the links busy [s].
    lost, least
        Share of the compute that is lost while it runs, and share of the exchange that nothing hides.

    Returns
    -------
    Seconds.
    """
    window = np.asarray(window_s, float)
    beyond = np.maximum(link.hb_s + busy.hb_s - window, link.nic_s + busy.nic_s - window)
    return np.maximum(exposed_time(link.time_s, window, lost, least), beyond)


class Latencies(NamedTuple):
    """Latencies of collectives.

    hb_s, nic_s: of a step of a ring over the HB interconnect, and over NICs, between HB domains [s].
    call_s: to start a collective between HB domains [s].
    domain: of collectives inside one.
    """

    hb_s: Any
    nic_s: Any
    call_s: Any = 0.0
    domain: DomainCollectives = DomainCollectives()


class _Way(NamedTuple):
    """A protocol or an algorithm of NCCL: factors on the bandwidth and latencies of rings with its protocol Simple."""

    bandwidth: float
    call: float
    hb: float
    nic: float


# NVIDIA/nccl, src/graph/tuning.cc as of 2026: base and hardware latencies and bandwidths of ncclTopoTuneModel.
_SIMPLE = _Way(1.0, 1.0, 1.0, 1.0)
_LL128 = _Way(0.92, 14 / 8.4, 1 / BULK_STEP, 4.0 / 14)
_TREE = _Way(TREE_SHARE, 1.0, 4.0 / 3.4, 1.0)
_PAT = _Way(0.75, 8 / 8.4, 0.0, 1 / 3.5)
_PAT_RANK = 2.8 / 14  # latency that each rank adds, over that of a step over NICs


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

    In one HB domain its time is `domain_ring_s`. Between domains it is D (n - 1) / n over a bandwidth, and latencies.
    The bandwidth is min(B_HB, x B_NIC): each ring carries D / x through its NICs, and all of them pass the HB
    interconnect (GitHub NVIDIA/nccl, issue 43). A GPU sends D (n - 1) / (n x) through its NIC, and what its other x - 1
    rings carry through the HB interconnect.

    A call between domains has a latency to start, and one for each of n - 1 steps, y - 1 of them between domains. It
    takes the faster of NCCL's protocols Simple and LL128, which has less latency and less bandwidth; with one rank a
    domain also its algorithm PAT, whose steps grow with log2(y). In two phases (`hierarchical_time`) the ranks on a
    rail go first, then those in a domain.

    Parameters
    ----------
    message_bytes
        Full buffers of a rank, D of all calls together [bytes].
    inside, domains
        x ranks in each of y HB domains.
    bandwidths_Bps
        Of HB interconnect and NIC that collectives reach [bytes/s].
    latencies
        Of a step, of a call, and of calls inside a domain [s].
    calls
        Collectives that D is divided over.
    two_phases
        Whether it is hierarchical.

    Returns
    -------
    Seconds.

    References
    ----------
    GitHub NVIDIA/nccl, src/graph/tuning.cc, ncclTopoTuneModel; railonly2025, LLM Traffic in the NIC Domain (phases).
    """
    x, y = np.asarray(inside), np.asarray(domains)
    rings, once_s = _rings(message_bytes, x, y, bandwidths_Bps, latencies, calls, two_phases, 1)
    if two_phases:
        return rings
    steps = _PAT.call * latencies.call_s + (_PAT.nic * doublings(y) + _PAT_RANK * y) * latencies.nic_s
    pat = once_s / _PAT.bandwidth + np.asarray(calls) * steps
    alone = (x == 1) & (y > 1)
    return rings._replace(time_s=np.where(alone, np.minimum(rings.time_s, pat), rings.time_s)[()])  # a scalar of one


def all_reduce_links(
    message_bytes: ArrayLike,
    inside: ArrayLike,
    domains: ArrayLike,
    bandwidths_Bps: tuple[float, float],
    latencies: Latencies,
    calls: ArrayLike = 1,
    two_phases: bool = False,
) -> LinkTimes:
    """An AllReduce: the rings of `gather_links` twice in one call, or a tree where that is faster.

    In one HB domain its time is `domain_ring_s`. Between domains a tree passes the GPUs of a host in a chain, then by
    twos the hosts of a domain, and ceil(log2 y) levels of domains, up and down, at a little less bandwidth.

    Parameters
    ----------
    message_bytes, inside, domains, bandwidths_Bps, latencies, calls, two_phases
        As for `gather_links`.

    Returns
    -------
    Seconds.
    """
    x, y = np.asarray(inside), np.asarray(domains)
    rings, once_s = _rings(message_bytes, x, y, bandwidths_Bps, latencies, calls, two_phases, 2)
    levels = tree_levels(x) * _TREE.hb * latencies.hb_s + doublings(y) * latencies.nic_s
    tree_s = 2 * once_s / _TREE.bandwidth + np.asarray(calls) * (latencies.call_s + 2 * levels)
    return rings._replace(time_s=np.where(y > 1, np.minimum(rings.time_s, tree_s), rings.time_s)[()])


def _rings(
    message_bytes: ArrayLike,
    x: np.ndarray,
    y: np.ndarray,
    bandwidths_Bps: tuple[float, float],
    latencies: Latencies,
    calls: ArrayLike,
    two_phases: bool,
    passes: int,
) -> tuple[LinkTimes, np.ndarray]:
    """Link times of `passes` passes of D through the rings, and the time of one pass without latencies [s]."""
    (hb, nic), D = bandwidths_Bps, np.asarray(message_bytes, float)
    if two_phases:
        once_s, within = hierarchical_time("all_gather", D, x, y, hb, nic), x - 1
        hb_bytes, nic_bytes = D * (x - 1) / x, (y > 1) * D * (y - 1) / (x * y)
    else:
        rate, within = np.where(y > 1, np.minimum(hb, x * np.asarray(nic)), hb), x * y - y
        once_s, sent = (x * y - 1) / (x * y) * D / rate, D * (x * y - 1) / (x * y)
        hb_bytes, nic_bytes = sent * np.where(y > 1, (x - 1) / x, 1.0), (y > 1) * sent / x

    def latency(way: _Way) -> Any:
        steps = within * way.hb * latencies.hb_s + (y - 1) * way.nic * latencies.nic_s
        return way.call * latencies.call_s + passes * steps

    calls = np.asarray(calls)
    time_s = np.minimum(
        passes * once_s + calls * latency(_SIMPLE), passes * once_s / _LL128.bandwidth + calls * latency(_LL128)
    )
    time_s = np.where(y > 1, time_s, domain_ring_s(D, x, hb, latencies.domain, calls, passes))[()]
    # Switches that reduce let the links carry less than rings do.
    hb_s = np.minimum(passes * hb_bytes / hb, time_s)
    return LinkTimes(time_s, hb_s, passes * nic_bytes / nic), once_s
