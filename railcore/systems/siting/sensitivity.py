"""Under which assumptions the country has a place for a datacenter: radius x rule x region x oil."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from railcore.facts import catalog
from railcore.network.wide_area import great_circle_distance
from railcore.systems.siting.candidates import Candidates, every
from railcore.systems.siting.grid import nearest_city
from railcore.systems.siting.rules import RULES, available

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["REGIONS", "best_by_rule", "every", "sensitivity"]

AROUND = 100e3  # of a city [m]
Region = Callable[[Candidates], np.ndarray]


def _around(item: str) -> Region:
    place = catalog.item("wide_area", item)
    there = place["latitude_deg"], place["longitude_deg"]
    return lambda found: great_circle_distance(found.latitude, found.longitude, *there) <= AROUND


# Which centres count; Washington, D.C. and the northern end of the Pacific DC Intertie are the catalog's.
REGIONS: dict[str, Region] = {
    "whole country": lambda found: np.ones(len(found), bool),
    "100 km of Washington, D.C.": lambda found: _around("flops2024 east")(found),
    "Washington State": lambda found: found.state == "Washington",
    "100 km of the intertie": lambda found: _around("flops2024 west")(found),
    "Eastern": lambda found: found.interconnect == "Eastern",
    "Western": lambda found: found.interconnect == "Western",
    "Texas": lambda found: found.interconnect == "Texas",
}


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

    Columns rule, radius_m, formula, meaning, most_of_one_place_w, near.
    """
    import pandas as pd

    power = {name: available(found.supply, name, most_coal, reserve) for name in RULES}
    best = [int(each.argmax()) for each in power.values()]
    return pd.DataFrame(
        {
            "rule": list(RULES),
            "radius_m": found.radius_m,
            "formula": [rule.formula for rule in RULES.values()],
            "meaning": [rule.meaning for rule in RULES.values()],
            "most_of_one_place_w": [float(each.max()) for each in power.values()],
            "near": nearest_city(found.latitude[best], found.longitude[best]),
        }
    )
