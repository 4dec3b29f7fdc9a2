"""Under which assumptions the country has a place for a datacenter: radius x rule x region x oil."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pandas as pd

from railcore.systems.siting.candidates import Candidates
from railcore.systems.siting.geometry import distance_to
from railcore.systems.siting.grid import nearest_city
from railcore.systems.siting.rules import RULES, available

Region = Callable[[Candidates], np.ndarray]  # True for the candidates that lie in it


def around(item: str, radius_m: float) -> Region:
    """Centres within a radius of a place of the catalog's family wide_area."""
    return lambda found: distance_to(found, item) <= radius_m


def of_column(column: str, value: str) -> Region:
    """Centres whose "state" or "interconnect" is this one."""
    return lambda found: getattr(found, column) == value


def siting_sensitivity(
    found: Iterable[Candidates],
    demand_w: float,
    regions: Mapping[str, Region],
    most_coal: float = 0.5,
    reserve: str = "unit",
) -> pd.DataFrame:
    """What passes for every combination of assumptions.

    Parameters
    ----------
    found
        Candidates of several radii, with and without oil, as `candidates.every` gives them.
    demand_w
        Power asked for [W].
    regions
        Which centres count, by name.
    most_coal, reserve
        As in `rules.eligible`.

    Returns
    -------
    A row for each combination: radius_m, rule, oil, region; centres: that pass; places: of them that share no plant
    (see `candidates.most_disjoint`), exact: whether `places` is exact or a lower bound; best_w: most that one centre
    has.
    """
    rows = []
    for each in found:
        masks, known = {name: region(each) for name, region in regions.items()}, dict[bytes, tuple[int, bool]]()
        for rule in RULES:
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


def best_by_rule(found: Candidates, most_coal: float = 0.5, reserve: str = "unit") -> pd.DataFrame:
    """Each rule with its formula and meaning, the most that it lets one candidate have, and the nearest city to that.

    Columns rule, radius_m, formula, meaning, most_of_one_place_w, near.
    """
    power = np.stack([available(found.supply, name, most_coal, reserve) for name in RULES])
    best = power.argmax(axis=1)
    return pd.DataFrame(
        {
            "rule": list(RULES),
            "radius_m": found.radius_m,
            "formula": [rule.formula for rule in RULES.values()],
            "meaning": [rule.meaning for rule in RULES.values()],
            "most_of_one_place_w": power.max(axis=1),
            "near": nearest_city(found.latitude[best], found.longitude[best]),
        }
    )
