"""Admission to a link as a central controller does it: reserved rates, priorities, and max-min fairness within one."""

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts.checks import Floats, at_least, positive


def allocation(
    capacity: float,
    demands: ArrayLike,
    weights: ArrayLike = 1.0,
    priorities: ArrayLike = 0,
    reserved: ArrayLike = 0.0,
) -> Floats:
    """Rates admitted to a link or a bundle of parallel tunnels, by reserve, priority and max-min fairness.

    Everyone has min(d, g) for sure. What is left goes to the lowest number of priority first, and within one priority
    by water-filling: x = max(min(d, g), min(d, w L)) with one level L, so that nobody can get more but at the expense
    of one who has no more for its weight (weighted max-min). What a reserve does not use goes to the others.

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
