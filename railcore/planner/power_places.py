"""Where a plan's power is: places that feed the facility, and what energy costs and emits there."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from railcore.catalog.units import show
from railcore.planner.site_terms import area_of, flexible_power_w, grid_of, in_words_of_the_spec
from railcore.planner.spec import SiteSpec
from railcore.siting.places import FoundPlaces, find_places
from railcore.siting.rules import HEADROOM, demand_warnings
from railcore.siting.split import find_split

_SHOWN = 3  # places, of which the first is the plan's


@dataclass(frozen=True)
class PowerPlaces:
    """Places for a demand [W]. note: why there are none; then `places` is None.

    drawn_w: what the plan draws [W]; demand_w is more where the spec asks for it.
    grid_name: says whether the grid is synthetic, and which tables are one's own.
    places: the best one and others that have the demand alone, or those that share it.
    usd_per_J, carbon_kg_per_J: of energy at the plan's place, or by what each of several carries; None where unknown.
    spec_warnings: what the files of one's own grid leave out, and a demand of the spec that is below what is drawn.
    """

    demand_w: float
    drawn_w: float
    grid_name: str
    places: FoundPlaces | None = None
    note: str = ""
    usd_per_J: float | None = None
    carbon_kg_per_J: float | None = None
    spec_warnings: tuple[str, ...] = ()

    @property
    def table(self) -> pd.DataFrame:
        """A row for each place that is shown, the best first."""
        return pd.DataFrame() if self.places is None else self.places.places

    @property
    def chosen(self) -> pd.DataFrame:
        """Rows of the places that feed the plan: the first, or all that share the demand."""
        return self.table if self.places is None or self.places.split is not None else self.table.iloc[:1]

    @property
    def prices(self) -> pd.DataFrame:
        """What energy costs at each place that is shown, or at those that share the demand: place, usd_per_J."""
        if self.places is not None and self.places.split is None:
            return self.table[["name", "usd_per_J"]].rename(columns={"name": "place"})
        rows = [("; ".join(self.chosen["name"]), self.usd_per_J)] if len(self.table) else []
        return pd.DataFrame(rows, columns=["place", "usd_per_J"]).astype({"usd_per_J": float})

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about the places and the spec's demand and files; that the demand is small a plan knows."""
        small, texts = demand_warnings(self.demand_w), () if self.places is None else self.places.warnings
        return (*self.spec_warnings, *(text for text in texts if text not in small))


def power_places_of(spec: SiteSpec, drawn_w: float) -> PowerPlaces:
    """The best places for what a plan draws [W], or for more where the spec asks; a note says why there are none."""
    demand_w, (grid, warnings) = max(drawn_w, spec.demand or 0.0), grid_of(spec)
    if spec.demand is not None and spec.demand < drawn_w:
        warnings += (_less_words(spec.demand, drawn_w),)
    terms: dict[str, Any] = {
        "rule": spec.rule or HEADROOM,
        "area": area_of(spec),
        "flexible_w": flexible_power_w(spec.flexible),
    }
    try:
        if spec.places == 1:
            places = find_places(grid, demand_w, spec.radius, k=_SHOWN, **terms)
        else:
            places = find_split(grid, demand_w, spec.radius, spec.places, **terms)
    except ValueError as error:
        note = f"site: {in_words_of_the_spec(str(error))}"
        return PowerPlaces(demand_w, drawn_w, grid.name, note=note, spec_warnings=warnings)
    found = PowerPlaces(demand_w, drawn_w, grid.name, places, spec_warnings=warnings)
    usd, carbon = (weighted_mean(found.chosen, name) for name in ("usd_per_J", "carbon_kg_per_J"))
    return replace(found, usd_per_J=usd, carbon_kg_per_J=carbon)


def _less_words(asked_w: float, drawn_w: float) -> str:
    """That the spec asks for less power than the plan draws [W], and what to do."""
    asked, drawn = (show(power_w, "W", 4) for power_w in (asked_w, drawn_w))
    return f"site.demand is {asked}, but the plan draws {drawn}, which counts: give more, or leave it out"


def weighted_mean(places: pd.DataFrame, column: str) -> float | None:
    """Mean of a column by what each place carries; None where one is unknown."""
    mean = float(np.average(places[column].to_numpy(float), weights=places["power_w"].to_numpy(float)))
    return None if np.isnan(mean) else mean
