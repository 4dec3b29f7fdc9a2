"""Where a plan's power is: places that feed the facility, and what energy costs and emits there."""

import re
from dataclasses import dataclass

import pandas as pd

from railcore.catalog.units import kWh
from railcore.planner.case import area_of
from railcore.planner.spec import SiteSpec
from railcore.siting.grid import load_grid
from suite.flops2024.sitings import carbon_and_cost
from railcore.siting.split import FoundPlaces, find_places
from railcore.siting.supply import AFTER_LOAD

_KEYS = {"near_m": "within", "people_m": "people_within", "radius_m": "radius"}  # of a spec, by arguments of `Area`


@dataclass(frozen=True)
class PowerPlaces:
    """Places for a demand. note: why there are none; then `places` is None.

    usd_per_J, carbon_kg_per_J: of energy there; None where unknown.
    """

    demand_w: float
    places: FoundPlaces | None = None
    note: str = ""
    usd_per_J: float | None = None
    carbon_kg_per_J: float | None = None

    @property
    def table(self) -> pd.DataFrame:
        """A row for each place."""
        return pd.DataFrame() if self.places is None else self.places.places


def power_places_of(spec: SiteSpec, demand_w: float) -> PowerPlaces:
    """The best places for a demand [W]; where there is none, a note says why."""
    try:
        terms = (spec.radius, spec.rule or AFTER_LOAD, spec.places, area_of(spec))
        places = find_places(load_grid(), demand_w, *terms)
    except ValueError as error:
        text = re.sub("|".join(_KEYS), lambda argument: _KEYS[argument[0]], str(error))
        return PowerPlaces(demand_w, note=f"site: {text}")
    chosen = places.split.places.tolist()
    power = pd.Series(0.0, index=range(len(places.candidates)))
    power.iloc[chosen] = places.split.usable_w
    year = carbon_and_cost(places.candidates, {"site": chosen}, power.to_numpy(), demand_w).iloc[0]
    prices = [None if pd.isna(year[name]) else float(year[name]) / kWh for name in ("usd_per_kWh", "kg_per_kWh")]
    return PowerPlaces(demand_w, places, "", *prices)
