"""Rail switches that so many NIC ports take, by how many rails share a switch, and whether fewer rails cost more."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts.checks import Ints, whole


def packed_rail_switches(
    ports_per_rail: ArrayLike, switch_ports: ArrayLike, rails: int, rails_per_switch: ArrayLike
) -> Ints:
    """Switches for the NIC ports of all rails, packed over as few as hold them.

    (R / r) ceil(r n / k): each group of r rails has switches of its own; r = R packs all rails together. A group whose
    ports do not fit one switch takes several, which then meet above them.

    Parameters
    ----------
    ports_per_rail
        NIC ports n of one rail.
    switch_ports
        Ports k of a switch.
    rails, rails_per_switch
        R, and how many of them r share a switch.

    Returns
    -------
    Switches, one number for each case.

    Raises
    ------
    ValueError
        No whole number, or an r that does not divide R.
    """
    n, k, r = (
        whole(name, value)
        for name, value in (
            ("ports_per_rail", ports_per_rail),
            ("switch_ports", switch_ports),
            ("rails_per_switch", rails_per_switch),
        )
    )
    if np.any(int(whole("rails", rails)) % r):
        fits = ", ".join(str(each) for each in range(1, rails + 1) if rails % each == 0)
        raise ValueError(f"rails_per_switch is {rails_per_switch!r}: that does not divide the {rails} rails, {fits} do")
    return rails // r * -(-r * n // k)


def rail_switch_order(
    ports_per_rail: Iterable[int],
    switch_ports: int,
    rails: int,
    rails_per_switch: Sequence[int],
    prices_usd: Mapping[str, float],
) -> pd.DataFrame:
    """Whether each design takes fewer switches than the next, case by case; what they cost, in the same order.

    Parameters
    ----------
    ports_per_rail
        NIC ports of a rail, a case each.
    switch_ports, rails
        Ports of a switch, and rails.
    rails_per_switch
        Of the designs, in the order in which the number of switches is said to rise.
    prices_usd
        "switch", and "host_link": a cable with what is at both its ends.

    Returns
    -------
    Columns ports_per_rail, rails_per_switch; switches; switches_usd, links_usd, total_usd; used: share of the switches'
    ports in use; and of the whole case rises: whether every design takes strictly fewer switches than the next, ties:
    how many designs take as many as the one before.
    """
    rows = []
    for n in ports_per_rail:
        counts = [int(packed_rail_switches(n, switch_ports, rails, r)) for r in rails_per_switch]
        steps = np.diff(counts)
        for r, switches in zip(rails_per_switch, counts, strict=True):
            costs = switches * prices_usd["switch"], n * rails * prices_usd["host_link"]
            used = n * rails / (switches * switch_ports)
            rows.append((n, r, switches, *costs, sum(costs), used, bool((steps > 0).all()), int((steps == 0).sum())))
    columns = "ports_per_rail rails_per_switch switches switches_usd links_usd total_usd used rises ties".split()
    return pd.DataFrame(rows, columns=columns)
