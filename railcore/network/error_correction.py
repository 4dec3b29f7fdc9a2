"""Bit errors on a link: the packets that they lose, codes that correct them, and packets sent again or repaired."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.facts.checks import Floats, at_least, positive, share, whole

ETHERNET_CODE = "KP4"  # of the catalog


def packet_loss(bit_error_rate: ArrayLike, packet_bytes: ArrayLike) -> Floats:
    """Probability that a packet has a wrong bit and is dropped: p = 1 - (1 - b)^(8 L).

    bit_error_rate b, each bit for itself; packet_bytes L.
    """
    b = share("bit_error_rate", bit_error_rate, below_1=True)
    return -np.expm1(8 * positive("packet_bytes", packet_bytes) * np.log1p(-b))


def bit_error_rate(loss: ArrayLike, packet_bytes: ArrayLike) -> Floats:
    """The bit error rate that loses so many packets, inverse of `packet_loss`: b = 1 - (1 - p)^(1 / (8 L))."""
    return -np.expm1(np.log1p(-share("loss", loss, below_1=True)) / (8 * positive("packet_bytes", packet_bytes)))


@dataclass(frozen=True)
class ReedSolomon:
    """A Reed-Solomon code: n symbols of m bits, k of them message; it corrects t = (n - k) / 2 wrong symbols.

    interleaved: codewords on a link that take symbols in turn, so that a packet is spread over all of them. Wrong bits
    fall independently; a real receiver's come in bursts, which cost more than their number. The few bits of transcoding
    and markers are left out.
    """

    codeword_symbols: int
    message_symbols: int
    symbol_bits: int
    interleaved: int = 1

    def __post_init__(self):
        for field in fields(self):
            whole(field.name, getattr(self, field.name))
        if self.message_symbols >= self.codeword_symbols:
            raise ValueError(f"message_symbols is {self.message_symbols!r}: give fewer than {self.codeword_symbols}")

    @property
    def correctable(self) -> int:
        """Wrong symbols in a codeword that are corrected, t."""
        return (self.codeword_symbols - self.message_symbols) // 2

    def codeword_loss(self, bit_error_rate: ArrayLike) -> Floats:
        """Probability that a codeword has more than t wrong symbols: P[Bin(n, s) > t], s = 1 - (1 - b)^m."""
        from scipy.special import bdtrc

        wrong = -np.expm1(self.symbol_bits * np.log1p(-share("bit_error_rate", bit_error_rate, below_1=True)))
        return bdtrc(self.correctable, self.codeword_symbols, wrong)

    def codewords(self, packet_bytes: ArrayLike) -> Floats:
        """Codewords that a packet of L bytes touches on average: I + (8 L - 1) / (k m), I interleaved ones at least."""
        bits = 8 * positive("packet_bytes", packet_bytes)
        return self.interleaved + (bits - 1) / (self.message_symbols * self.symbol_bits)

    def packet_loss(self, bit_error_rate: ArrayLike, packet_bytes: ArrayLike) -> Floats:
        """Probability that a codeword of the packet fails: 1 - (1 - q)^c, q `codeword_loss`, c `codewords`."""
        with np.errstate(divide="ignore"):
            return -np.expm1(self.codewords(packet_bytes) * np.log1p(-self.codeword_loss(bit_error_rate)))

    def bit_error_rate(self, loss: ArrayLike, packet_bytes: ArrayLike) -> Floats:
        """The bit error rate before correction that loses so many packets, inverse of `packet_loss`.

        P[Bin(n, s) > t] is the regularised incomplete beta function I_s(t + 1, n - t).
        """
        from scipy.special import betaincinv

        lost = share("loss", loss, above_0=True, below_1=True)
        codeword_loss = -np.expm1(np.log1p(-lost) / self.codewords(packet_bytes))
        wrong = betaincinv(self.correctable + 1, self.codeword_symbols - self.correctable, codeword_loss)
        return -np.expm1(np.log1p(-wrong) / self.symbol_bits)


def catalog_code(name: str) -> ReedSolomon:
    """A code of the catalog's wide_area, such as "KP4"."""
    item = catalog.item("wide_area", name)
    return ReedSolomon(**{field.name: int(item[field.name]) for field in fields(ReedSolomon)})


def link_losses(packet: str = "9000-byte packet") -> dict[str, float]:
    """Share of packets lost on the worst link that each standard allows: without correction, KP4, coherent.

    For coherent links the bit error rate after correction is known. Its errors are taken as independent; errors in
    bursts would lose fewer packets.
    """
    frame = catalog.item("wide_area", packet)["frame"]
    plain, coded, coherent = (catalog.item("wide_area", name) for name in ("no FEC", ETHERNET_CODE, "oFEC"))
    return {
        f"no FEC at {plain['bit_error_rate']:g}": float(packet_loss(plain["bit_error_rate"], frame)),
        f"{ETHERNET_CODE} at {coded['bit_error_rate']:g}": float(
            catalog_code(ETHERNET_CODE).packet_loss(coded["bit_error_rate"], frame)
        ),
        f"oFEC at {coherent['bit_error_rate']:g}": float(packet_loss(coherent["bit_error_rate_after"], frame)),
    }


def any_packet_lost(packets: ArrayLike, loss: ArrayLike, transfers: ArrayLike = 1) -> Floats:
    """Probability that any packet of n transfers of N packets is lost: 1 - (1 - p)^(N n)."""
    every = positive("packets", packets) * positive("transfers", transfers)
    return -np.expm1(every * np.log1p(-share("loss", loss, below_1=True)))


def loss_for_failure(failure: ArrayLike, packets: ArrayLike, transfers: ArrayLike = 1) -> Floats:
    """Largest loss with which `any_packet_lost` is at most `failure`: p = 1 - (1 - failure)^(1 / (N n))."""
    every = positive("packets", packets) * positive("transfers", transfers)
    return -np.expm1(np.log1p(-share("failure", failure, below_1=True)) / every)


def mean_sending_rounds(packets: ArrayLike, loss: ArrayLike, transfers: ArrayLike = 1) -> Floats:
    """Mean number of rounds until all of n transfers are whole; a round trip later, lost packets are sent again.

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
    """Fewest extra packets (erasure code) for each transfer of N packets, so that n transfers need no resending.

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
    allowed = float(loss_for_failure(share("failure", failure, above_0=True, below_1=True), 1, transfers))
    low, high = -1, 0
    while bdtrc(high, packets + high, loss) > allowed:
        low, high = high, 2 * high + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if bdtrc(middle, packets + middle, loss) <= allowed else (middle, high)
    return high
