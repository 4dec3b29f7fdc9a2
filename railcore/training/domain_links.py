"""How long NCCL's collectives take inside one HB domain, by size and ranks.

NCCL has protocols with little latency for small messages (LL, LL128) and one with the full bandwidth for large ones
(Simple); each is a line in the message's size, and the lowest line at a size is taken.
"""

import math
from typing import Any

import numpy as np

from railcore.training.collectives import doublings
from railcore.training.machine_parts import DomainCollectives

BULK_STEP = 3.4 / 1.9  # latency of a step with protocol Simple over LL128: NVIDIA/nccl, src/graph/tuning.cc
TREE_SHARE = 0.92  # bandwidth of a tree over that of rings, from there too
_HOST_GPUS = 8  # a tree is a chain through so many GPUs, and then goes by twos


def tree_levels(ranks: Any) -> np.ndarray:
    """Levels of NCCL's tree over ranks of an HB domain: a chain through the GPUs of a host, then hosts by twos."""
    x = np.asarray(ranks)
    return np.minimum(x - 1, _HOST_GPUS - 1 + doublings(x) - doublings(_HOST_GPUS))


def domain_ring_s(
    message_bytes: Any, ranks: Any, hb_Bps: Any, domain: DomainCollectives, calls: Any = 1, passes: int = 1
) -> np.ndarray:
    """An AllGather or ReduceScatter (one pass), or an AllReduce (two passes), of D bytes by n ranks of an HB domain.

    It has k = p (n - 1) steps of D / n in p passes. A rank's own part stays in its memory and takes h steps, so that
    links are busy for w D / B with w = (k + h) / n. The time is the least of:

    - c + k s + w D / (a B), with LL or LL128;
    - c + b + 1.8 k s + w D / B, with Simple;
    - m + (n + p - 1) / n D / (u B), where switches multicast and reduce (NVLink SHARP): a rank sends D, and in an
      AllReduce also its sum of D / n.

    An AllReduce of more ranks than a host has may take a tree, of fewer steps.

    Parameters
    ----------
    message_bytes
        Full buffers of a rank, D of all calls together [bytes].
    ranks
        n, of the HB domain.
    hb_Bps
        B, HB bandwidth that collectives reach [bytes/s].
    domain
        c `domain_call_latency_s`, s `domain_step_latency_s`, a `low_latency_share`, b `bulk_latency_s`,
        h `local_step`, m `multicast_latency_s`, u `multicast_share`.
    calls
        Collectives that D is divided over.
    passes
        p: 1, or 2 for an AllReduce.

    Returns
    -------
    Seconds; 0 for one rank.

    References
    ----------
    GitHub NVIDIA/nccl, src/graph/tuning.cc (protocols); data/measured/collectives.csv, of which the values are.
    """
    n = np.asarray(ranks)
    several, D = n > 1, np.asarray(message_bytes, float)
    steps = passes * (n - 1)
    ring_s = several * (steps + domain.local_step) / n * D / hb_Bps
    levels = passes * tree_levels(n) if passes > 1 else steps
    call_s, step_s = domain.domain_call_latency_s, domain.domain_step_latency_s
    bulk_call_s, started = call_s + domain.bulk_latency_s, several * np.asarray(calls)
    time_s = np.minimum(
        ring_s / domain.low_latency_share + started * (call_s + levels * step_s),
        ring_s + started * (bulk_call_s + steps * BULK_STEP * step_s),
    )
    if passes > 1:
        tree_s = ring_s / TREE_SHARE + started * (bulk_call_s + levels * BULK_STEP * step_s)
        time_s = np.minimum(time_s, tree_s)
    if math.isfinite(domain.multicast_latency_s):
        sent_s = several * (n + passes - 1) / n * D / (hb_Bps * domain.multicast_share)
        time_s = np.minimum(time_s, sent_s + started * domain.multicast_latency_s)
    return time_s


def domain_all_to_all_s(message_bytes: Any, ranks: Any, hb_Bps: Any, domain: DomainCollectives) -> np.ndarray:
    """An all-to-all of D bytes of a rank, its own share included, by n ranks of an HB domain.

    With w = (n - 1 + h) / n as for `domain_ring_s`, the time is the least of:

    - c + s + max(D / (n q), w D / (a e B)), with LL, whose few channels pass q to a peer;
    - c + g + w D / (a e B), with more channels;
    - c + b + w D / (e B), with Simple.

    Parameters
    ----------
    message_bytes
        D of a rank [bytes].
    ranks
        n, of the HB domain.
    hb_Bps
        B, HB bandwidth that collectives reach [bytes/s].
    domain
        As for `domain_ring_s`, with g `all_to_all_latency_s`, e `all_to_all_share`, q `peer_Bps`.

    Returns
    -------
    Seconds; 0 for one rank.

    References
    ----------
    data/measured/collectives.csv, of which the values are.
    """
    n = np.asarray(ranks)
    several, peer = n > 1, np.asarray(message_bytes, float) / n
    bulk_s = (n - 1 + domain.local_step) * peer / (hb_Bps * domain.all_to_all_share)
    low_s = bulk_s / domain.low_latency_share
    time_s = np.minimum(
        np.minimum(
            domain.domain_step_latency_s + np.maximum(peer / domain.peer_Bps, low_s),
            domain.all_to_all_latency_s + low_s,
        ),
        domain.bulk_latency_s + bulk_s,
    )
    return several * (domain.domain_call_latency_s + time_s)
