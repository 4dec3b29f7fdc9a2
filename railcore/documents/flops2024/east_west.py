"""The east-west split of flops2024: its two anchors, the regions that it speaks of, and the pair of places near them.

Source: flops2024, section 2, which gives the reasons for a split without numbers; `systems.siting.traits` gives them.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from railcore.systems.siting.candidates import Candidates
from railcore.systems.siting.direct_current import nearest_direct_line
from railcore.systems.siting.find import nearest_to_anchors, sitings_by_objective
from railcore.systems.siting.grid import PowerGrid
from railcore.systems.siting.sensitivity import Region, around, of_column
from railcore.systems.siting.split import SiteOptions

EAST, WEST = "flops2024 east", "flops2024 west"  # Washington, D.C. and Celilo, of the catalog's wide_area
PAIR = "east and west"
AROUND_M = 100e3  # of Washington, D.C.: "within 100 km"
REGIONS: dict[str, Region] = {
    "whole country": lambda found: np.ones(len(found), bool),
    "100 km of Washington, D.C.": around(EAST, AROUND_M),
    "Washington State": of_column("state", "Washington"),
    "100 km of the intertie": around(WEST, AROUND_M),
    **{name: of_column("interconnect", name) for name in ("Eastern", "Western", "Texas")},
}


def intertie(grid: PowerGrid) -> pd.Series:
    """The Pacific DC Intertie: the direct-current line with an end nearest to Celilo, as `nearest_direct_line`."""
    return nearest_direct_line(grid, WEST)


def sitings_with_pair(
    near: Candidates, options: SiteOptions, demand_w: float, ks: Iterable[int], anchors_m: float, **terms: Any
) -> tuple[dict[str, tuple[int, ...]], pd.DataFrame]:
    """`sitings_by_objective`, and first "east and west": the places nearest to the anchors that have a half each.

    Parameters
    ----------
    near, options
        Candidates, and the same as options of a split.
    demand_w, ks
        Power of all places together [W], and the numbers of places to try.
    anchors_m
        How far a place of the pair may lie from its anchor [m].
    terms
        Of `split.split`, without the objective; caps hold for the pair too.

    Returns
    -------
    Indices of the places by name of the siting, and the table of `sitings_by_objective` with a row for the pair. A pair
    that does not exist is left out, and the table says why.

    Raises
    ------
    ValueError as in `sitings_by_objective`.
    """
    found, every = sitings_by_objective(options, demand_w, ks, **terms)
    caps = terms.get("authority_caps") or {}
    cap_w = np.minimum([caps.get(code, np.inf) for code in options.authority], terms.get("place_cap_w", np.inf))
    problem = ""
    try:
        two = nearest_to_anchors(near, np.minimum(options.power_w, cap_w), demand_w, anchors_m, (EAST, WEST))
        found = {PAIR: tuple(two)} | found
    except ValueError as error:
        problem = str(error)
    row = pd.DataFrame([{"siting": PAIR, "k": 2, "demand_w": demand_w, "problem": problem}])
    return found, pd.concat([row, every]).reindex(columns=every.columns)
