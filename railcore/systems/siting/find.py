"""Where to put k datacenters, in one call: from a demand, a radius and a rule to named places and the ways between."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from railcore.systems.siting.candidates import Candidates, candidates
from railcore.systems.siting.grid import Grid, nearest_city
from railcore.systems.siting.joined import ways
from railcore.systems.siting.split import Split, options, split

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Found:
    """The best places for a demand.

    candidates: all that were there; split: which of them, as `split.Split`; places: one row each with name (nearest
    city), latitude, longitude, authority, radius_m, power_w (that it carries), usable_w (that it could); ways: one row
    for every two, as `joined.ways`.
    """

    candidates: Candidates
    split: Split
    places: "pd.DataFrame"
    ways: "pd.DataFrame"


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
    """The best k places of a radius that feed a demand [W] together by a requirement rule.

    asked: most_coal and reserve of `rules.passes`. terms: of `split.split`, such as objective="spare" or
    least_separation_m. Errors as in `candidates`, `rules` and `split`: a demand that no k places can meet says how much
    the best have.
    """
    every = candidates(grid, radius_m, step_deg, oil, coal_basis)
    offer = options(every, rule, **(asked or {}))
    chosen = split(offer, demand_w, k, **terms)
    table = chosen.table(offer).assign(radius_m=radius_m)
    table.insert(0, "name", nearest_city(table["latitude"], table["longitude"]))
    return Found(every, chosen, table, ways(every, chosen.places.tolist()))
