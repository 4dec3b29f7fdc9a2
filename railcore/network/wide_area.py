"""A flow over the wide area: the route and its delay, the rate of one TCP flow under loss, and what a loss delays; bit
errors and the codes against them; and a link that several kinds of traffic share.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.facts.checks import Floats, at_least, one_of, positive, share, whole
from railcore.facts.globe import great_circle_distance

ETHERNET_CODE = "KP4"  # of the catalog


def one_way_delay(distance: ArrayLike, route_factor: ArrayLike, fibre_delay: ArrayLike) -> Floats:
    """Propagation from one site to the other [s]: T = D f tau.

    distance D: great circle [m]; route_factor f: length of the fibre over it, at least 1; fibre_delay tau [s/m].
    """
    f = at_least("route_factor", route_factor, 1)
    return at_least("distance", distance) * f * positive("fibre_delay", fibre_delay)


@dataclass(frozen=True)
class Route:
    """Fibre between two sites.

    distance_m: on the great circle [m].
    factor, factor_low, factor_high: length of the fibre over that, with bounds.
    fibre_delay: of the fibre [s/m].
    """

    distance_m: float
    factor: float
    factor_low: float
    factor_high: float
    fibre_delay: float

    @property
    def delay_s(self) -> float:
        """One way, at the middle of the route factor's range."""
        return float(one_way_delay(self.distance_m, self.factor, self.fibre_delay))

    @property
    def round_trip_s(self) -> float:
        """There and back."""
        return 2 * self.delay_s

    @property
    def delay_range_s(self) -> tuple[float, float]:
        """One way at the ends of the range."""
        ends = one_way_delay(self.distance_m, [self.factor_low, self.factor_high], self.fibre_delay)
        return float(ends[0]), float(ends[1])

    def factor_for(self, delay: float) -> float:
        """Route factor that a one-way delay [s] implies: f = T / (D tau)."""
        return float(positive("delay", delay) / (self.distance_m * self.fibre_delay))


def fibre_route(site_a: str, site_b: str) -> Route:
    """Route between two items of the catalog's wide_area that have coordinates, along the catalog's fibre."""
    a, b, fibre = (catalog.item("wide_area", name) for name in (site_a, site_b, "fibre"))
    places = (place[axis] for place in (a, b) for axis in ("latitude_deg", "longitude_deg"))
    factor = fibre.row("route_factor")
    return Route(float(great_circle_distance(*places)), factor.value, factor.low, factor.high, fibre["delay"])


def bit_error_rate(loss: ArrayLike, packet_bytes: ArrayLike) -> Floats:
    """The bit error rate that loses a share p of packets of L bytes: b = 1 - (1 - p)^(1 / (8 L))."""
    return -np.expm1(np.log1p(-share("loss", loss, below_1=True)) / (8 * positive("packet_bytes", packet_bytes)))


@dataclass(frozen=True)
class ReedSolomon:
    """A Reed-Solomon code: it corrects t = (n - k) / 2 wrong symbols of a codeword.

    codeword_symbols: n.
    message_symbols: k of them.
    symbol_bits: m.
    interleaved: codewords on a link that take symbols in turn, so that a packet is spread over all of them.

    Wrong bits fall independently; a real receiver's come in bursts, which cost more than their number. The few bits of
    transcoding and markers are left out.
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

    def bit_error_rate(self, loss: ArrayLike, packet_bytes: ArrayLike) -> Floats:
        """The bit error rate before correction that loses such a share of packets of L bytes.

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


def mathis_window(loss: ArrayLike, rtt: ArrayLike) -> Floats:
    """Mean window that halves at a loss and grows by one a round trip [segments]: W = sqrt(3 / (2 p)), infinite at 0.

    Source: Mathis, Semke, Mahdavi, Ott 1997, Section 2, every segment acknowledged.
    """
    with np.errstate(divide="ignore"):
        return np.sqrt(1.5 / share("loss", loss, below_1=True)) * np.ones_like(positive("rtt", rtt))


def cubic_window(loss: ArrayLike, rtt: ArrayLike) -> Floats:
    """Mean window of CUBIC [segments]: W = max(W_mathis, (C (3 + beta) / (4 (1 - beta)))^(1/4) (R / p)^(3/4)).

    p loss, a loss after every 1 / p segments; R rtt [s]; C and beta of the catalog's TCP. The first of the two is
    its window in the Reno-friendly region, where it grows as the standard's does; where the regions meet, the mean over
    both is up to 4% more. Source: RFC 8312, Section 4.2, Eq. (5), Tables 1 and 2.
    """
    p, R = share("loss", loss, below_1=True), positive("rtt", rtt)
    with np.errstate(divide="ignore"):
        return np.maximum(mathis_window(p, R), _cubic_factor() * (R / p) ** 0.75)


def _cubic_factor() -> float:
    """(C (3 + beta) / (4 (1 - beta)))^(1/4)."""
    tcp = catalog.item("wide_area", "TCP")
    C, beta = tcp["cubic_c"], tcp["cubic_beta"]
    return (C * (3 + beta) / (4 * (1 - beta))) ** 0.25


WINDOW_LAWS: dict[str, Callable[[ArrayLike, ArrayLike], Floats]] = {"Mathis": mathis_window, "CUBIC": cubic_window}


def tolerable_loss(rate: ArrayLike, rtt: ArrayLike, mss: ArrayLike, law: str = "CUBIC") -> Floats:
    """Largest loss at which a flow still carries a rate: the p with M W(p, R) / R = rate.

    With W = rate R / M, Mathis: p = 3 / (2 W^2); CUBIC: that or R (factor / W)^(4/3), the larger, with the factor of
    `cubic_window`.

    Parameters
    ----------
    rate, rtt
        Rate [bytes/s] and round trip R [s].
    mss
        Payload M of a segment [bytes].
    law
        Of `WINDOW_LAWS`, for the window W.

    Returns
    -------
    Loss p, just below 1 where any loss will do.
    """
    one_of("law", law, WINDOW_LAWS)
    R = positive("rtt", rtt)
    W = positive("rate", rate) * R / positive("mss", mss)
    loss = 1.5 / W**2
    if law == "CUBIC":
        loss = np.maximum(loss, R * (_cubic_factor() / W) ** (4 / 3))
    return np.minimum(loss, np.nextafter(1, 0))


def slow_start_rounds(transfer_bytes: ArrayLike, mss: ArrayLike) -> Floats:
    """Round trips in which a new connection sends a transfer: n = ceil(log2(1 + N / w)), its window doubling each time.

    N = transfer_bytes / mss rounded up [segments], w the catalog's initial window of TCP; no loss, no limiting link.
    """
    N = np.ceil(positive("transfer_bytes", transfer_bytes) / positive("mss", mss))
    mantissa, exponent = np.frexp(1 + N / catalog.item("wide_area", "TCP")["initial_window"])  # log2 rounds; this not
    return exponent - (mantissa == 0.5)


def recovery_time(rate: ArrayLike, rtt: ArrayLike, mss: ArrayLike, law: str = "CUBIC") -> Floats:
    """Time from one loss until a flow has its window W = rate R / M again.

    CUBIC: K = (W (1 - beta) / C)^(1/3), or (1 - beta) W R / alpha where that is sooner; others: W R / 2;
    alpha = 3 (1 - beta) / (1 + beta).

    Parameters
    ----------
    rate, rtt
        Rate [bytes/s] and round trip R [s].
    mss
        Payload M of a segment [bytes].
    law
        Of `WINDOW_LAWS`.

    Returns
    -------
    Time [s].

    References
    ----------
    RFC 8312, Sections 4.1, 4.2.
    """
    one_of("law", law, WINDOW_LAWS)
    R = positive("rtt", rtt)
    W = positive("rate", rate) * R / positive("mss", mss)
    if law != "CUBIC":
        return W * R / 2
    tcp = catalog.item("wide_area", "TCP")
    C, beta = tcp["cubic_c"], tcp["cubic_beta"]
    return np.minimum(np.cbrt(W * (1 - beta) / C), W * R * (1 + beta) / 3)


def flow_needs(
    transfer_bytes: Mapping[str, float], within: float, rtts: Mapping[str, float], packet: str = "9000-byte packet"
) -> pd.DataFrame:
    """What one flow needs to move each transfer in time over each path, a row for each law of TCP.

    Parameters
    ----------
    transfer_bytes
        Transfers by name [bytes].
    within
        Time allowed [s].
    rtts
        Round trips by path [s].
    packet
        Packet of the catalog.

    Returns
    -------
    Columns transfer, path, law, rate_Bps, window_bytes (rate x rtt), loss (the largest that it stands), bit_error_rate
    and bit_error_rate_before_fec (behind that loss, without correction and before that of the code `ETHERNET_CODE`),
    cold_start_s (`slow_start_rounds` in time) and recovery_s (after one loss).
    """
    size, fec = catalog.item("wide_area", packet), catalog_code(ETHERNET_CODE)
    mss, frame, rows = size["payload"], size["frame"], []
    for (transfer, data), (path, rtt), law in product(transfer_bytes.items(), rtts.items(), WINDOW_LAWS):
        rate = float(positive("transfer_bytes", data) / positive("within", within))
        loss = tolerable_loss(rate, rtt, mss, law)
        bers = (bit_error_rate(loss, frame), fec.bit_error_rate(loss, frame))
        times = (slow_start_rounds(data, mss) * rtt, recovery_time(rate, rtt, mss, law))
        rows.append((transfer, path, law, rate, rate * rtt, *map(float, (loss, *bers, *times))))
    columns = "transfer path law rate_Bps window_bytes loss bit_error_rate bit_error_rate_before_fec cold_start_s"
    columns += " recovery_s"
    return pd.DataFrame(rows, columns=columns.split())
