"""A flow over the wide area: the route and its delay, the rate of one TCP flow under loss, and what a loss delays."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.facts.checks import Floats, at_least, one_of, positive, share
from railcore.network.error_correction import (
    ETHERNET_CODE,
    any_packet_lost,
    bit_error_rate,
    catalog_code,
    mean_sending_rounds,
    repair_packets,
)


def great_circle_distance(
    latitude_a: ArrayLike, longitude_a: ArrayLike, latitude_b: ArrayLike, longitude_b: ArrayLike
) -> Floats:
    """Shortest distance over the Earth between two places.

    D = 2 R asin sqrt(sin^2((phi_b - phi_a) / 2) + cos phi_a cos phi_b sin^2((lambda_b - lambda_a) / 2))

    Parameters
    ----------
    latitude_a, latitude_b
        Latitudes phi, north positive [degrees].
    longitude_a, longitude_b
        Longitudes lambda, east positive [degrees].

    Returns
    -------
    D [m], with R of the catalog's Earth.

    Raises
    ------
    ValueError
        A latitude outside [-90, 90] or a longitude outside [-180, 180].
    """
    for name, value, most in (
        ("latitude_a", latitude_a, 90),
        ("latitude_b", latitude_b, 90),
        ("longitude_a", longitude_a, 180),
        ("longitude_b", longitude_b, 180),
    ):
        if not np.all(np.abs(value) <= most):
            raise ValueError(f"{name} is {value!r}: give degrees from {-most} to {most}")
    phi_a, lambda_a, phi_b, lambda_b = map(np.radians, (latitude_a, longitude_a, latitude_b, longitude_b))
    across = np.cos(phi_a) * np.cos(phi_b) * np.sin((lambda_b - lambda_a) / 2) ** 2
    chord = np.sqrt(np.minimum(np.sin((phi_b - phi_a) / 2) ** 2 + across, 1))
    return 2 * catalog.item("wide_area", "Earth")["radius"] * np.arcsin(chord)


def one_way_delay(distance: ArrayLike, route_factor: ArrayLike, fibre_delay: ArrayLike) -> Floats:
    """Propagation from one site to the other [s]: T = D f tau.

    distance D: great circle [m]; route_factor f: length of the fibre over it, at least 1; fibre_delay tau [s/m].
    """
    f = at_least("route_factor", route_factor, 1)
    return at_least("distance", distance) * f * positive("fibre_delay", fibre_delay)


@dataclass(frozen=True)
class Route:
    """Fibre between two sites: great circle [m], its length over that with bounds, and delay of the fibre [s/m]."""

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


def tcp_throughput(loss: ArrayLike, rtt: ArrayLike, mss: ArrayLike, link: ArrayLike, law: str = "CUBIC") -> Floats:
    """Mean rate of one flow: min(M W(p, R) / R, B). Arguments broadcast; the receiver's window is no limit.

    Parameters
    ----------
    loss, rtt
        Share p of packets lost, in [0, 1), and round trip R [s].
    mss
        Payload M of a segment [bytes].
    link
        Bandwidth B [bytes/s].
    law
        Of `WINDOW_LAWS`, for the window W.

    Returns
    -------
    Throughput [bytes/s].
    """
    R = positive("rtt", rtt)
    window = WINDOW_LAWS[one_of("law", law, WINDOW_LAWS)](loss, R)
    return np.minimum(positive("mss", mss) * window / R, positive("link", link))


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


def flows_needed(rate: ArrayLike, loss: ArrayLike, rtt: ArrayLike, mss: ArrayLike, link: ArrayLike) -> Floats:
    """Parallel flows of CUBIC that carry a rate together: its multiple of `tcp_throughput`, rounded up.

    Parameters
    ----------
    rate
        Rate [bytes/s].
    loss, rtt, mss, link
        As in `tcp_throughput`.

    Returns
    -------
    Whole flows.
    """
    return np.ceil(positive("rate", rate) / tcp_throughput(loss, rtt, mss, link) * (1 - 1e-12))


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


def throughput_by_loss(
    losses: ArrayLike, rtts: Mapping[str, float], link: float, packet: str = "9000-byte packet"
) -> pd.DataFrame:
    """`tcp_throughput` at each loss, path and law.

    Parameters
    ----------
    losses
        Shares of packets lost.
    rtts
        Round trips by path [s].
    link
        Bandwidth of the link [bytes/s].
    packet
        Packet of the catalog.

    Returns
    -------
    Columns path, law, loss, bit_error_rate (behind it without correction), throughput_Bps.
    """
    size, p = catalog.item("wide_area", packet), np.asarray(losses, float)
    ber = bit_error_rate(p, size["frame"])
    parts = [
        pd.DataFrame({"path": path, "law": law, "loss": p, "bit_error_rate": ber}).assign(
            throughput_Bps=tcp_throughput(p, rtt, size["payload"], link, law)
        )
        for path, rtt in rtts.items()
        for law in WINDOW_LAWS
    ]
    return pd.concat(parts, ignore_index=True)


def loss_delays(
    losses: Mapping[str, float],
    transfer_bytes: float,
    devices: float,
    rtt: float,
    capacity: float,
    failure: float = 0.01,
    packet: str = "9000-byte packet",
) -> pd.DataFrame:
    """Delay that packet loss adds to a step in which every device must finish its transfer, and repair that avoids it.

    Parameters
    ----------
    losses
        Shares of packets lost, by case.
    transfer_bytes, devices
        Transfer of a device [bytes], and how many devices there are.
    rtt
        Round trip [s].
    capacity
        Of a device [bytes/s].
    failure
        Probability with which some device may have to send again in spite of repair packets.
    packet
        Packet of the catalog.

    Returns
    -------
    Columns case, loss, flows (of CUBIC that fill the capacity of a device) and flows_in_all (of all devices),
    device_resends_share and iterations_delayed_share (probability that one device, and that any, sends again),
    mean_delay_s (of the slowest device); repair_packets and repair_share (redundancy with which no device sends again
    but with probability `failure`).
    """
    mss = catalog.item("wide_area", packet)["payload"]
    packets, rows = int(np.ceil(positive("transfer_bytes", transfer_bytes) / mss)), []
    for case, loss in losses.items():
        flows = float(flows_needed(capacity, loss, rtt, mss, capacity))
        extra = float(mean_sending_rounds(packets, loss, devices) - 1) * rtt
        repair = repair_packets(packets, loss, failure, devices)
        some = (float(any_packet_lost(packets, loss, n)) for n in (1, devices))
        rows.append((case, loss, flows, flows * devices, *some, extra, repair, repair / packets))
    columns = "case loss flows flows_in_all device_resends_share iterations_delayed_share mean_delay_s"
    columns += " repair_packets repair_share"
    return pd.DataFrame(rows, columns=columns.split())
