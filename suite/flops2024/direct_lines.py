"""Direct-current lines of a grid, and places near their ends."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.network.globe import great_circle_distance
from railcore.siting.grid import PowerGrid
from railcore.siting.rules import RULES, power_by_rule_w
from suite.flops2024.sitings import Places


def direct_lines(grid: PowerGrid) -> pd.DataFrame:
    """Direct-current lines of a grid, the one of most power first: both ends by substation.

    Columns power_w, length_m, from_name, from_state, from_interconnect, from_latitude, from_longitude, to_name,
    to_state, to_interconnect, to_latitude, to_longitude.
    """
    lines = grid.lines[grid.lines["type"] == "DC"].sort_values("power_w", ascending=False, kind="stable")
    table = lines[["power_w", "length_m"]].reset_index(drop=True)
    stations = grid.substations.set_index("sub_id")
    for end in ("from", "to"):
        for column in ("name", "state", "interconnect", "latitude", "longitude"):
            table[f"{end}_{column}"] = stations[column].reindex(lines[f"{end}_sub"]).to_numpy()
    return table


def nearest_direct_line(grid: PowerGrid, item: str) -> pd.Series:
    """The direct-current line with an end nearest to a place of the catalog's family wide_area.

    With near ("from" or "to"): which end that is, and off_m: how far it is from the place. Raises ValueError for a grid
    without direct current.
    """
    lines, place = direct_lines(grid), catalog.item("wide_area", item)
    if not len(lines):
        raise ValueError(f"grid {grid.name!r} has no line of type DC: mark its direct-current lines so")
    off = distances_to_ends(lines, place["latitude_deg"], place["longitude_deg"])
    near = np.array(["from", "to"])[off.argmin(axis=1)]
    return lines.assign(near=near, off_m=off.min(axis=1)).loc[int(np.argmin(off.min(axis=1)))]


def distances_to_ends(line: pd.Series | pd.DataFrame, latitude: ArrayLike, longitude: ArrayLike) -> np.ndarray:
    """Great circles from places to both ends of a line [m], shape (places, 2); or from one place to those of lines."""
    ends = [(line[f"{end}_latitude"], line[f"{end}_longitude"]) for end in ("from", "to")]
    return np.stack([np.atleast_1d(great_circle_distance(latitude, longitude, *end)) for end in ends], axis=-1)


def places_near_line(
    places: Places,
    line: pd.Series,
    demand_w: float,
    radius_m: float,
    most_coal: float = 0.5,
    reserve: str = "unit",
) -> pd.DataFrame:
    """Places near the ends of a line, and which of them feed a demand: a row for each rule and end.

    Parameters
    ----------
    places, line
        Places, and a line of `direct_lines`.
    demand_w, radius_m
        Power asked for [W], and how far a place may lie from an end [m].
    most_coal, reserve
        As in `rules.eligible`.

    Returns
    -------
    Columns rule, end (substation), state, within (places within radius_m), feeding (of these, those that have
    demand_w), best_w (most that a rule lets one of them have), nearest_m: from the end to the nearest place that feeds
    the demand, wherever it is; NaN for none.
    """
    distance, rows = distances_to_ends(line, places.latitude, places.longitude), []
    for rule in RULES:
        power = power_by_rule_w(places.supply, rule, most_coal, reserve)
        for end, away in zip(("from", "to"), distance.T, strict=True):
            near, enough = away <= radius_m, power >= demand_w
            nearest_m = away[enough].min() if enough.any() else np.nan
            counts = int(near.sum()), int((near & enough).sum())
            best_w = float(power[near].max(initial=0.0))
            rows.append((rule, line[f"{end}_name"], line[f"{end}_state"], *counts, best_w, nearest_m))
    return pd.DataFrame(rows, columns="rule end state within feeding best_w nearest_m".split())
