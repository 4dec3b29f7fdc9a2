"""Throughput of one TCP flow against loss and round trip, its inverse, and what a cold or an interrupted flow needs."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.facts.checks import Floats, one_of, positive, share
from railcore.network.wide_area.inverse import inverse

_LEAST_LOSS, _MOST_LOSS = 1e-30, float(np.nextafter(1, 0))


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
    tcp, (p, R) = catalog.item("wide_area", "TCP"), (share("loss", loss, below_1=True), positive("rtt", rtt))
    C, beta = tcp["cubic_c"], tcp["cubic_beta"]
    with np.errstate(divide="ignore"):
        return np.maximum(mathis_window(p, R), (C * (3 + beta) / (4 * (1 - beta))) ** 0.25 * (R / p) ** 0.75)


LAWS: dict[str, Callable[[ArrayLike, ArrayLike], Floats]] = {
    "Mathis": mathis_window,
    "CUBIC": cubic_window,
}


def tcp_throughput(
    loss: ArrayLike,
    rtt: ArrayLike,
    mss: ArrayLike,
    link: ArrayLike,
    law: str = "CUBIC",
) -> Floats:
    """What one flow carries on average: min(M W(p, R) / R, B). Arguments broadcast; the receiver's window is no limit.

    Parameters
    ----------
    loss, rtt
        Share p of packets lost, in [0, 1), and round trip R [s].
    mss
        Payload M of a segment [bytes].
    link
        Bandwidth B [bytes/s].
    law
        Of `LAWS`, for the window W.

    Returns
    -------
    Throughput [bytes/s].
    """
    R = positive("rtt", rtt)
    return np.minimum(positive("mss", mss) * _law(law)(loss, R) / R, positive("link", link))


def tolerable_loss(rate: ArrayLike, rtt: ArrayLike, mss: ArrayLike, law: str = "CUBIC") -> Floats:
    """Largest loss at which a flow still carries a rate: the p with M W(p, R) / R = rate.

    Parameters
    ----------
    rate, rtt
        Rate [bytes/s] and round trip R [s].
    mss
        Payload M of a segment [bytes].
    law
        Of `LAWS`, for the window W.

    Returns
    -------
    Loss p, just below 1 where any loss will do.
    """
    R = positive("rtt", rtt)
    return inverse(_law(law), positive("rate", rate) * R / positive("mss", mss), _LEAST_LOSS, _MOST_LOSS, R)


def flows_needed(
    rate: ArrayLike,
    loss: ArrayLike,
    rtt: ArrayLike,
    mss: ArrayLike,
    link: ArrayLike,
    law: str = "CUBIC",
) -> Floats:
    """Parallel flows that carry a rate together: its multiple of `tcp_throughput`, rounded up.

    Parameters
    ----------
    rate
        Rate [bytes/s].
    loss, rtt, mss, link, law
        As in `tcp_throughput`.

    Returns
    -------
    Whole flows.
    """
    one = tcp_throughput(loss, rtt, mss, link, law)
    return np.ceil(positive("rate", rate) / one * (1 - 1e-12))


def start_rounds(transfer_bytes: ArrayLike, mss: ArrayLike) -> Floats:
    """Round trips in which a new connection sends a transfer: n = ceil(log2(1 + N / w)), its window doubling each time.

    N = transfer_bytes / mss rounded up [segments], w the catalog's initial window of TCP; no loss, no limiting link.
    """
    N = np.ceil(positive("transfer_bytes", transfer_bytes) / positive("mss", mss))
    mantissa, exponent = np.frexp(1 + N / catalog.item("wide_area", "TCP")["initial_window"])  # log2 rounds; this not
    return exponent - (mantissa == 0.5)


def recovery_time(rate: ArrayLike, rtt: ArrayLike, mss: ArrayLike, law: str = "CUBIC") -> Floats:
    """Time after one loss until a flow has its window W = rate R / M again.

    CUBIC: K = (W (1 - beta) / C)^(1/3), or (1 - beta) W R / alpha where that is sooner; others: W R / 2;
    alpha = 3 (1 - beta) / (1 + beta).

    Parameters
    ----------
    rate, rtt
        Rate [bytes/s] and round trip R [s].
    mss
        Payload M of a segment [bytes].
    law
        Of `LAWS`.

    Returns
    -------
    Time [s].

    References
    ----------
    RFC 8312, Sections 4.1, 4.2.
    """
    _law(law)
    R = positive("rtt", rtt)
    W = positive("rate", rate) * R / positive("mss", mss)
    if law != "CUBIC":
        return W * R / 2
    tcp = catalog.item("wide_area", "TCP")
    C, beta = tcp["cubic_c"], tcp["cubic_beta"]
    return np.minimum(np.cbrt(W * (1 - beta) / C), W * R * (1 + beta) / 3)


def _law(law: str) -> Callable[[ArrayLike, ArrayLike], Floats]:
    return LAWS[one_of("law", law, LAWS)]
