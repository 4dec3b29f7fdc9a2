"""A link that several kinds of traffic share: the rates admitted, and how long packets wait."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.facts.checks import Floats, at_least, positive


def admitted_rates(
    capacity: float,
    demands: ArrayLike,
    weights: ArrayLike = 1.0,
    priorities: ArrayLike = 0,
    reserved: ArrayLike = 0.0,
) -> Floats:
    """Rates admitted to a link or a bundle of parallel tunnels, by reserve, priority and max-min fairness.

    Everyone gets min(d, g) first. The rest goes to the lowest priority number first, and within one priority by
    water-filling: x = max(min(d, g), min(d, w L)) with one level L. Nobody can then get more without taking it from
    one who has no more for its weight (weighted max-min). What a reserve does not use goes to the others.

    Parameters
    ----------
    capacity
        Of the link [bytes/s].
    demands, reserved
        d, and the reserve g of each [bytes/s].
    weights, priorities
        w and the priority of each.

    Returns
    -------
    Rates x in the order of the demands [bytes/s].

    Raises
    ------
    ValueError
        The reserves exceed the capacity.

    References
    ----------
    Jain et al. 2013 (B4), Section 5; weights in place of its bandwidth functions; traffic divides over tunnels freely.
    """
    d = np.atleast_1d(at_least("demands", demands))
    w, order, g = (np.broadcast_to(value, d.shape) for value in (weights, priorities, reserved))
    positive("weights", w), at_least("reserved", g)
    if g.sum() > at_least("capacity", capacity) * (1 + 1e-12):
        raise ValueError(f"reserved is {reserved!r}, {g.sum():g} bytes/s in all: reserve at most {capacity!r}")
    admitted = np.minimum(d, g)
    for priority in np.unique(order):
        mine = order == priority
        share = capacity - admitted[~mine].sum()
        admitted[mine] = _filled(share, admitted[mine], d[mine], np.asarray(w, float)[mine])
    return admitted


def _filled(share: float, least: Floats, most: Floats, weights: Floats) -> Floats:
    """max(least, min(most, w L)) with the level L at which the sum is `share`, or `most`."""
    if most.sum() <= share:
        return most
    points = np.concatenate((least / weights, most / weights))
    slopes = np.concatenate((weights, -weights))
    order = np.argsort(points, kind="stable")
    points, slope = points[order], np.cumsum(slopes[order])
    totals = least.sum() + np.concatenate(([0], np.cumsum(slope[:-1] * np.diff(points))))
    return np.clip(weights * np.interp(share, totals, points), least, most)


def sharing_policies(need: float, others: Sequence[float], capacities: Sequence[float]) -> pd.DataFrame:
    """Rates of gradients and of other traffic as a link loses capacity, under each sharing policy [bytes/s].

    Gradients need a rate and take more where they are given it, to end earlier. Policies: max-min (all alike),
    reserved (what they need is set aside, as far as the link has it), priority (gradients first). Columns
    capacity_Bps, policy, gradients_Bps, others_Bps, time_over_allowed (need over what is admitted,
    late where more than 1).
    """
    rows = []
    for capacity in capacities:
        demands = np.array([capacity, *others], float)
        first = np.arange(len(demands)) == 0
        ways: dict[str, dict] = {
            "max-min": {},
            "reserved": {"reserved": np.where(first, min(float(positive("need", need)), capacity), 0)},
            "priority": {"priorities": ~first},
        }
        for policy, options in ways.items():
            admitted = admitted_rates(capacity, demands, **options)
            rows.append((capacity, policy, admitted[0], admitted[1:].sum(), need / admitted[0]))
    return pd.DataFrame(rows, columns=["capacity_Bps", "policy", "gradients_Bps", "others_Bps", "time_over_allowed"])


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


def single_queue_wait(loads: ArrayLike, packet_bytes: ArrayLike, link: float, variation: ArrayLike = 0.0) -> float:
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
    """Loads, mean transmission times, and mean rest of the transmission that an arriving packet finds on the wire."""
    rho = np.atleast_1d(at_least("loads", loads))
    S = positive("packet_bytes", packet_bytes) / positive("link", link) * np.ones_like(rho)
    return rho, S, S * (1 + at_least("variation", variation)) / 2


def queue_waits(
    load: float, other_loads: Sequence[float], link: float, packet: str = "9000-byte packet"
) -> pd.DataFrame:
    """Mean wait of gradients against the load of other traffic on their link.

    Parameters
    ----------
    load, other_loads
        Of gradients and of other traffic, shares of the link.
    link
        Bandwidth [bytes/s].
    packet
        Packet of the catalog, of all traffic.

    Returns
    -------
    Columns other_load, queue (strict priority, preemptive priority, one queue), wait_s.
    """
    sizes, rows = catalog.item("wide_area", packet)["frame"], []
    for other_load in other_loads:
        at = ((load, other_load), sizes, link)
        rows.append((other_load, "strict priority", priority_waits(*at)[0]))
        rows.append((other_load, "preemptive priority", priority_waits(*at, preemptive=True)[0]))
        rows.append((other_load, "one queue", single_queue_wait(*at)))
    return pd.DataFrame(rows, columns=["other_load", "queue", "wait_s"])
