"""Where to put k datacenters: from a demand, a radius and a rule to named places and the links between them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import units
from railcore.systems.siting.candidates import Candidates, candidates
from railcore.systems.siting.geometry import distance_to, links_between
from railcore.systems.siting.grid import PowerGrid, nearest_city
from railcore.systems.siting.placement import Places
from railcore.systems.siting.split import SiteOptions, Split, site_options, split, splits

OBJECTIVES = {"nearest": "shortest", "roomiest": "spare"}  # of `split`, by the name that a siting gets


@dataclass(frozen=True)
class FoundPlaces:
    """The best places for a demand.

    candidates: all that were there; split: which of them, as `split.Split`; places: one row each with name (nearest
    city), latitude, longitude, authority, radius_m, power_w (that it carries), usable_w (that it could); ways: one row
    for every two, as `geometry.links_between`.
    """

    candidates: Candidates
    split: Split
    places: pd.DataFrame
    ways: pd.DataFrame

    @property
    def map_layers(self) -> dict[str, pd.DataFrame]:
        """Places and the links between them, as maps take them."""
        return {"places": self.places, "ways": self.ways}


def find_places(
    grid: PowerGrid,
    demand_w: float,
    radius_m: float,
    rule: str,
    k: int = 1,
    asked: Mapping[str, Any] | None = None,
    oil: bool = True,
    step_deg: float = 0.25,
    coal_basis: str = "capacity",
    **terms: Any,
) -> FoundPlaces:
    """The best k places that feed a demand together.

    Parameters
    ----------
    grid
        Whose plants feed it.
    demand_w, radius_m
        Power of all places together [W], and how far a plant may lie from its place [m].
    rule, asked
        Requirement rule, one of `rules.RULES`; most_coal and reserve of `rules.eligible`.
    k
        Number of places.
    oil, step_deg, coal_basis
        As in `candidates.candidates`.
    terms
        Of `split.split`, as in `SplitTerms`; least_separation_m is by default just over two radii, so that circles do
        not overlap.

    Returns
    -------
    `FoundPlaces`.

    Raises
    ------
    ValueError as in `candidates`, `rules` and `split`: a demand that no k places meet says how much the best have.
    """
    every = candidates(grid, radius_m, step_deg, oil, coal_basis)
    options = site_options(every, rule, **(asked or {}))
    chosen = split(options, demand_w, k, **{"least_separation_m": 2 * radius_m + units.km, **terms})
    table = chosen.table(options).assign(radius_m=radius_m)
    table.insert(0, "name", nearest_city(table["latitude"], table["longitude"]))
    return FoundPlaces(every, chosen, table, links_between(every, chosen.places.tolist()))


def sitings_by_objective(
    options: SiteOptions, demand_w: float, ks: Iterable[int], **terms: Any
) -> tuple[dict[str, tuple[int, ...]], pd.DataFrame]:
    """Sitings by name, and how each number of places came out: "nearest 2" and "roomiest 2" for k = 2.

    Parameters
    ----------
    options
        Candidates to choose from.
    demand_w, ks
        Power of all places together [W], and the numbers of places to try.
    terms
        Of `split.split`, without the objective.

    Returns
    -------
    Indices of the places by name of the siting, and a table with the column siting and those of `splits`. A siting that
    does not exist is left out, and the table says why.

    Raises
    ------
    ValueError for no ks, and where no siting at all meets the demand, with how much the best k places have.
    """
    if not (ks := list(ks)):
        raise ValueError("ks is empty: give numbers of places, such as range(1, 7)")
    tables = []
    for name, objective in OBJECTIVES.items():
        rows = splits(options, demand_w, ks, objective=objective, **terms)
        rows.insert(0, "siting", name + " " + rows["k"].astype(str))
        tables.append(rows)
    every = pd.concat(tables, ignore_index=True)
    found = {row.siting: row.places for row in every.itertuples() if row.places}
    if not found:
        raise ValueError("\n".join(dict.fromkeys(every["problem"])))
    return found, every


def nearest_to_anchors(
    places: Places, power_w: ArrayLike, demand_w: float, radius_m: float, anchors: Sequence[str]
) -> list[int]:
    """The place nearest to each anchor that has an even part of the demand.

    Parameters
    ----------
    places, power_w
        Places, and what each can give [W].
    demand_w, radius_m
        Power of all together [W], and how far a place may lie from its anchor [m].
    anchors
        Names of places in the catalog's family wide_area.

    Returns
    -------
    Indices of the places, in the order of the anchors.

    Raises
    ------
    ValueError where no place within radius_m of an anchor has its part (it says what the best has), and where the
    places found share a plant.
    """
    power, part_w, found = np.asarray(power_w, float), demand_w / len(anchors), []
    for name in anchors:
        away = distance_to(places, name)
        enough = (away <= radius_m) & (power >= part_w)
        if not enough.any():
            best, part = (units.show(each, "W", 3) for each in (power[away <= radius_m].max(initial=0.0), part_w))
            raise ValueError(
                f"demand_w is {units.show(demand_w, 'W', 3)}: each place needs {part}, and the best within "
                f"{radius_m / units.km:g} km of {name} has {best}: give a smaller demand, larger radius or another rule"
            )
        found.append(int(np.argmin(np.where(enough, away, np.inf))))
    if places.plants[found].sum(axis=0).max() > 1:
        raise ValueError(f"anchors are {anchors!r}: their nearest places share a plant; give anchors farther apart")
    return found
