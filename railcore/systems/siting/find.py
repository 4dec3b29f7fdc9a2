"""Where to put k datacenters, in one call: from a demand, a radius and a rule to named places and the ways between."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from railcore.documents.flops2024.east_west import pair
from railcore.facts import units
from railcore.systems.siting.candidates import Candidates, candidates
from railcore.systems.siting.geometry import ways
from railcore.systems.siting.grid import Grid, nearest_city
from railcore.systems.siting.split import Options, Split, site_options, split, splits

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Found:
    """The best places for a demand.

    candidates: all that were there; split: which of them, as `split.Split`; places: one row each with name (nearest
    city), latitude, longitude, authority, radius_m, power_w (that it carries), usable_w (that it could); ways: one row
    for every two, as `places.ways`.
    """

    candidates: Candidates
    split: Split
    places: "pd.DataFrame"
    ways: "pd.DataFrame"

    @property
    def drawn(self) -> "tuple[pd.DataFrame, pd.DataFrame]":
        """Places and ways, as maps take them."""
        return self.places, self.ways


def find(
    grid: Grid,
    demand_w: float,
    radius_m: float,
    rule: str,
    k: int = 1,
    asked: Mapping[str, Any] | None = None,
    oil: bool = True,
    step_deg: float = 0.25,
    coal_basis: str = "capacity",
    **terms: Any,
) -> Found:
    """The best k places of a radius [m] that feed a demand [W] together by a requirement rule (one of `rules.RULES`).

    asked: most_coal and reserve of `rules.passes`. terms: of `split.split`: objective "shortest" or "spare",
    least_separation_m (by default just over two radii, so that circles do not overlap), place_cap_w, authority_caps,
    least_share, within_m. Errors as in `candidates`, `rules` and `split`: a demand that no k places can meet says how
    much the best have.
    """
    every = candidates(grid, radius_m, step_deg, oil, coal_basis)
    offer = site_options(every, rule, **(asked or {}))
    chosen = split(offer, demand_w, k, **{"least_separation_m": 2 * radius_m + units.km, **terms})
    table = chosen.table(offer).assign(radius_m=radius_m)
    table.insert(0, "name", nearest_city(table["latitude"], table["longitude"]))
    return Found(every, chosen, table, ways(every, chosen.places.tolist()))


PAIR, OBJECTIVES = "east and west", {"nearest": "shortest", "roomiest": "spare"}


def sitings(
    near: Candidates, offer: Options, demand_w: float, ks: Iterable[int], anchors_m: float, **terms: Any
) -> "tuple[dict[str, tuple[int, ...]], pd.DataFrame]":
    """Ways to place a demand, by name, and how each number of places came out.

    "east and west": `east_west.pair` within anchors_m of its anchors; "nearest 2" and "roomiest 2": the two objectives
    of `split` for each k. What does not exist is left out, and the table says why: columns siting and those of
    `splits`. offer: `split.options` of near. terms: of `split`.
    Raises ValueError for no ks, and where no siting at all meets the demand, with how much the best k places have.
    """
    import pandas as pd

    if not (ks := list(ks)):
        raise ValueError("ks is empty: give numbers of places, such as range(1, 7)")
    tables = [
        splits(offer, demand_w, ks, objective=objective, **terms).assign(
            siting=lambda rows, name=name: name + " " + rows["k"].astype(str)
        )
        for name, objective in OBJECTIVES.items()
    ]
    every = pd.concat(tables, ignore_index=True)
    found = {row.siting: row.places for row in every.itertuples() if row.places}
    if not found:
        raise ValueError("\n".join(dict.fromkeys(every["problem"])))
    caps = terms.get("authority_caps") or {}
    cap_w = np.minimum([caps.get(code, np.inf) for code in offer.authority], terms.get("place_cap_w", np.inf))
    try:
        two = pair(near, np.minimum(offer.power_w, cap_w), demand_w, anchors_m)
        found = {PAIR: tuple(two)} | found
        problem = ""
    except ValueError as error:
        problem = str(error)
    row = pd.DataFrame([{"siting": PAIR, "k": 2, "demand_w": demand_w, "problem": problem}])
    return found, pd.concat([row, every]).reindex(columns=["siting", *every.columns.drop("siting")])
