"""Under which assumptions the country has a place for a datacenter: radius x rule x region x oil."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from railcore.facts import catalog
from railcore.systems.siting.candidates import (
    FARTHEST,
    NEAREST,
    Candidates,
    candidates,
    centres,
    most_disjoint,
    neighbours,
)
from railcore.systems.siting.grid import Grid
from railcore.systems.siting.rules import RULES, available, passes

if TYPE_CHECKING:
    import pandas as pd

AROUND = 100e3  # of a city [m]
Region = Callable[[Candidates], np.ndarray]


def _around(item: str) -> Region:
    place = catalog.item("wide_area", item)
    return lambda found: found.distance_m(place["latitude_deg"], place["longitude_deg"]) <= AROUND


# Which centres count; Washington, D.C. and the northern end of the Pacific DC Intertie are the catalog's.
REGIONS: dict[str, Region] = {
    "whole country": lambda found: np.ones(len(found), bool),
    "100 km of Washington, D.C.": lambda found: _around("flops2024 east")(found),
    "Washington State": lambda found: found.state == "Washington",
    "100 km of the intertie": lambda found: _around("flops2024 west")(found),
    "Eastern": lambda found: found.most_of("interconnect") == "Eastern",
    "Western": lambda found: found.most_of("interconnect") == "Western",
    "Texas": lambda found: found.most_of("interconnect") == "Texas",
}


def sensitivity(
    grid: Grid,
    radii_m: Iterable[float],
    demand_w: float,
    oil: Iterable[bool] = (True, False),
    rules: Iterable[str] = tuple(RULES),
    regions: Mapping[str, Region] = REGIONS,
    step_deg: float = 0.25,
    most_coal: float = 0.5,
    coal_basis: str = "capacity",
    reserve: str = "unit",
) -> "pd.DataFrame":
    """What passes for every combination of assumptions, one row each.

    Columns radius_m, rule, oil, region; centres: that pass; places: of them that share no plant (see
    `candidates.most_disjoint`), exact: whether `places` is exact or a lower bound; best_w: most that one centre has.
    """
    import pandas as pd

    at, rows = centres(grid, step_deg), []
    for radius in radii_m:
        near = neighbours(grid, radius, at)
        for with_oil in oil:
            found = candidates(grid, radius, oil=with_oil, coal_basis=coal_basis, at=at, near=near)
            masks = {name: region(found) for name, region in regions.items()}
            for rule in rules:
                passing = passes(found.supply, demand_w, rule, most_coal, reserve)
                power = available(found.supply, rule, most_coal, reserve)
                for name, mask in masks.items():
                    count, exact = most_disjoint(found.plants[np.flatnonzero(passing & mask)])
                    best = float(power[mask].max(initial=0.0))
                    row = {"radius_m": radius, "rule": rule, "oil": with_oil, "region": name}
                    rows.append(row | {"centres": int((passing & mask).sum())})
                    rows[-1] |= {"places": count, "exact": exact, "best_w": best}
    return pd.DataFrame(rows)


def least_radius(
    grid: Grid, demand_w: float, rule: str, region: Region | None = None, step_m: float = 1e3, **options
) -> float:
    """Smallest radius [m], to step_m, at which some centre passes; NaN where none does up to 150 km.

    By bisection, as a larger circle never has less installed, firm or idle power; where coal, load or a lacking line
    make a larger circle fail, it is a radius at which one passes and a step less does not.
    options: of `candidates` (oil, coal_basis, step_deg) and of `rules.passes` (most_coal, reserve).
    """
    where = region or REGIONS["whole country"]
    judged = {key: options.pop(key) for key in ("most_coal", "reserve") if key in options}
    at = centres(grid, options.pop("step_deg", 0.25))

    def some(radius: float) -> bool:
        found = candidates(grid, radius, at=at, **options)
        return bool((passes(found.supply, demand_w, rule, **judged) & where(found)).any())

    low, high = NEAREST, FARTHEST
    if some(low):
        return low
    if not some(high):
        return float("nan")
    while high - low > step_m:
        middle = (low + high) / 2
        low, high = (low, middle) if some(middle) else (middle, high)
    return high
