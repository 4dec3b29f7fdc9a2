"""Mean waits at a link with strict priorities, and without: the queue M/G/1."""

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts.checks import Floats, at_least, positive


def priority_waits(
    loads: ArrayLike, packet_bytes: ArrayLike, link: float, variation: ArrayLike = 0.0, preemptive: bool = False
) -> Floats:
    """Mean wait of a packet of each class before and during its transmission, first class first.

    W_k = R / ((1 - sigma_(k-1)) (1 - sigma_k)) with sigma_k = rho_1 + ... + rho_k and R = sum rho_i S_i (1 + v_i) / 2,
    what is left of the packet on the wire. Preemptive: R of classes to k alone, and S_k / (1 - sigma_(k-1)) - S_k more.
    Poisson arrivals. A class that finds the link full has an infinite wait; those above it only notice the
    packet on the wire.

    Parameters
    ----------
    loads
        rho_k, shares of the link.
    packet_bytes, variation
        Mean size of a packet, S_k = packet_bytes / link [s]; and v_k, the variance of sizes over their squared mean, 0
        for equal packets.
    link
        Bandwidth [bytes/s].
    preemptive
        Whether a class interrupts packets of those below it.

    Returns
    -------
    W_k [s].

    References
    ----------
    Cobham 1954, Operations Research 2; Kleinrock, Queueing Systems II, Chapter 3 (preemptive resume).
    """
    rho, S, left = _classes(loads, packet_bytes, link, variation)
    sigma = np.cumsum(rho)
    before = np.minimum(np.concatenate(([0.0], sigma[:-1])), 1)
    served = np.minimum(rho, 1 - before)
    R = np.cumsum(served * left) if preemptive else np.sum(served * left)
    full = sigma >= 1
    room = np.where(full, 1, (1 - before) * (1 - sigma))
    interrupted = S / np.where(full, 1, 1 - before) - S if preemptive else 0
    return np.where(full, np.inf, R / room + interrupted)


def shared_wait(loads: ArrayLike, packet_bytes: ArrayLike, link: float, variation: ArrayLike = 0.0) -> float:
    """Mean wait of all classes in one queue: W = R / (1 - rho), infinite for a full link.

    Parameters
    ----------
    loads, packet_bytes, link, variation
        As in `priority_waits`.

    Returns
    -------
    W [s].

    References
    ----------
    Pollaczek and Khinchine.
    """
    rho, _, left = _classes(loads, packet_bytes, link, variation)
    return float(np.sum(rho * left) / (1 - rho.sum())) if rho.sum() < 1 else np.inf


def _classes(loads, packet_bytes, link, variation) -> tuple[Floats, Floats, Floats]:
    """Loads, mean times of transmission, and mean times left of a transmission that is met."""
    rho = np.atleast_1d(at_least("loads", loads))
    S = positive("packet_bytes", packet_bytes) / positive("link", link) * np.ones_like(rho)
    return rho, S, S * (1 + at_least("variation", variation)) / 2
