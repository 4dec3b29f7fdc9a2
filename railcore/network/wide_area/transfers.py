"""Transfers that all have to end: chance of a loss, rounds of retransmission, and repair packets that avoid them."""

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts.checks import Floats, at_least, positive, share


def any_loss(packets: ArrayLike, loss: ArrayLike, transfers: ArrayLike = 1) -> Floats:
    """Probability that a packet of n transfers of N packets is lost: 1 - (1 - p)^(N n)."""
    every = positive("packets", packets) * positive("transfers", transfers)
    return -np.expm1(every * np.log1p(-share("loss", loss, below_1=True)))


def loss_for(failure: ArrayLike, packets: ArrayLike, transfers: ArrayLike = 1) -> Floats:
    """Largest loss with which `any_loss` is at most `failure`: p = 1 - (1 - failure)^(1 / (N n))."""
    every = positive("packets", packets) * positive("transfers", transfers)
    return -np.expm1(np.log1p(-share("failure", failure, below_1=True)) / every)


def sending_rounds(packets: ArrayLike, loss: ArrayLike, transfers: ArrayLike = 1) -> Floats:
    """Mean number of rounds until the last of n transfers is whole, lost packets sent again a round trip later.

    E[max] = sum over r >= 0 of 1 - (1 - p^r)^(N n): after r rounds a packet is still missing with p^r.
    packets N of each transfer, loss p, transfers n. One round without loss.
    """
    every = positive("packets", packets) * positive("transfers", transfers)
    p, every = np.broadcast_arrays(share("loss", loss, below_1=True), every)
    total, missing = np.ones(p.shape), np.array(p, float)
    while np.any(missing * every > 1e-16):
        total = total - np.expm1(every * np.log1p(-missing))
        missing = missing * p
    return total


def repair_packets(packets: int, loss: float, failure: float, transfers: float = 1) -> int:
    """Fewest packets of an erasure code beside N of a transfer, for n transfers to need no retransmission.

    The least r with 1 - (1 - P[Bin(N + r, p) > r])^n <= failure: a transfer is whole from any N of its N + r packets.
    Losses are independent.

    Parameters
    ----------
    packets, transfers
        Packets N of a transfer; transfers n.
    loss
        Share p of packets lost.
    failure
        Probability allowed that some transfer is not whole, above 0.

    Returns
    -------
    Packets r.
    """
    from scipy.special import bdtrc

    at_least("packets", packets, 1)
    share("loss", loss, below_1=True)
    allowed = float(loss_for(share("failure", failure, above_0=True, below_1=True), 1, transfers))
    low, high = -1, 0
    while bdtrc(high, packets + high, loss) > allowed:
        low, high = high, 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bdtrc(middle, packets + middle, loss) <= allowed else (middle, high)
    return high
