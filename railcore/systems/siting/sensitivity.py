"""Under which assumptions the country has a place for a datacenter: radius x rule x region x oil."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from railcore.facts import catalog
from railcore.systems.siting.candidates import (
    Candidates,
    candidates,
    centres,
    neighbours,
)
from railcore.systems.siting.grid import Grid, nearest_city
from railcore.systems.siting.rules import RULES, available

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


def every(
    grid: Grid,
    radii_m: Iterable[float],
    oil: Iterable[bool] = (True, False),
    step_deg: float = 0.25,
    coal_basis: str = "capacity",
) -> list[Candidates]:
    """Candidates of each radius, with and without oil, around the same centres. Errors as in `candidates`."""
    at, found, kinds = centres(grid, step_deg), [], tuple(oil)
    for radius in radii_m:
        near = neighbours(grid, radius, at)
        found += [candidates(grid, radius, oil=kind, coal_basis=coal_basis, at=at, near=near) for kind in kinds]
    return found


def sensitivity(
    found: Iterable[Candidates],
    demand_w: float,
    rules: Iterable[str] = tuple(RULES),
    regions: Mapping[str, Region] = REGIONS,
    most_coal: float = 0.5,
    reserve: str = "unit",
) -> "pd.DataFrame":
    """What passes for every combination of assumptions, one row each; found: as `every` gives them.

    Columns radius_m, rule, oil, region; centres: that pass; places: of them that share no plant (see
    `candidates.most_disjoint`), exact: whether `places` is exact or a lower bound; best_w: most that one centre has.
    """
    import pandas as pd

    rows = []
    for each in found:
        masks, known = {name: region(each) for name, region in regions.items()}, dict[bytes, tuple[int, bool]]()
        for rule in rules:
            passing = each.passing(demand_w, rule, most_coal, reserve)
            power = available(each.supply, rule, most_coal, reserve)
            for name, mask in masks.items():
                here = passing & mask
                if (key := here.tobytes()) not in known:  # where all pass by one rule they do by others
                    known[key] = each.places(here)
                count, exact = known[key]
                row = {"radius_m": each.radius_m, "rule": rule, "oil": each.oil, "region": name}
                row |= {"centres": int(here.sum()), "places": count, "exact": exact}
                rows.append(row | {"best_w": float(power[mask].max(initial=0.0))})
    return pd.DataFrame(rows)


def best_by_rule(found: Candidates, most_coal: float = 0.5, reserve: str = "unit") -> "pd.DataFrame":
    """Each rule with its formula and meaning, the most that it lets one candidate have, and the nearest city to that.

    Columns rule, formula, meaning, most_of_one_place_w, near.
    """
    import pandas as pd

    power = {name: available(found.supply, name, most_coal, reserve) for name in RULES}
    best = [int(each.argmax()) for each in power.values()]
    return pd.DataFrame(
        {
            "rule": list(RULES),
            "formula": [rule.formula for rule in RULES.values()],
            "meaning": [rule.meaning for rule in RULES.values()],
            "most_of_one_place_w": [float(each.max()) for each in power.values()],
            "near": nearest_city(found.latitude[best], found.longitude[best]),
        }
    )
