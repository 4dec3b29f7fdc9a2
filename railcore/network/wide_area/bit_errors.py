"""Bit errors to lost packets and back, without error correction and under a Reed-Solomon code."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.facts.checks import Floats, positive, share, whole
from railcore.network.wide_area.inverse import inverse

_LEAST_RATE, _MOST_RATE = 1e-25, 0.5


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
    """A code of n symbols of m bits, k of them message, that corrects t = (n - k) / 2 wrong symbols.

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

        return bdtrc(self.correctable, self.codeword_symbols, self._wrong_symbol(bit_error_rate))

    def codewords(self, packet_bytes: ArrayLike) -> Floats:
        """Codewords that a packet of L bytes touches on average: I + (8 L - 1) / (k m), I interleaved ones at least."""
        bits = 8 * positive("packet_bytes", packet_bytes)
        return self.interleaved + (bits - 1) / (self.message_symbols * self.symbol_bits)

    def packet_loss(self, bit_error_rate: ArrayLike, packet_bytes: ArrayLike) -> Floats:
        """Probability that a codeword of the packet fails: 1 - (1 - q)^c, q `codeword_loss`, c `codewords`."""
        with np.errstate(divide="ignore"):
            return -np.expm1(self.codewords(packet_bytes) * np.log1p(-self.codeword_loss(bit_error_rate)))

    def bit_error_rate(self, loss: ArrayLike, packet_bytes: ArrayLike) -> Floats:
        """The bit error rate before correction that loses so many packets, inverse of `packet_loss`."""
        target = share("loss", loss, above_0=True, below_1=True)
        return inverse(self.packet_loss, target, _LEAST_RATE, _MOST_RATE, positive("packet_bytes", packet_bytes))

    def _wrong_symbol(self, bit_error_rate: ArrayLike) -> Floats:
        return -np.expm1(self.symbol_bits * np.log1p(-share("bit_error_rate", bit_error_rate, below_1=True)))


def code(name: str) -> ReedSolomon:
    """A code of the catalog's wide_area, such as "KP4"."""
    item = catalog.item("wide_area", name)
    return ReedSolomon(**{field.name: int(item[field.name]) for field in fields(ReedSolomon)})
