"""Places that have the power for a demand, in order: the nearest to a city first, or those with most power to spare."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd

from railcore.catalog import units
from railcore.catalog.arguments import Count, Metres, Range, Watts, checked
from railcore.network.globe import great_circle_distance
from railcore.siting.areas import Area
from railcore.siting.authorities import bound_words
from railcore.siting.cities import nearest_city
from railcore.siting.energy import electricity_prices, marginal_intensity
from railcore.siting.grid import PowerGrid, state_of
from railcore.siting.points import MapPoints
from railcore.siting.rules import (
    HEADROOM,
    IGNORED_BY_ALL,
    RULES,
    AvailablePower,
    available_power,
    demand_warnings,
)
from railcore.siting.split_terms import Split

_ALL = 0.995  # share of a place's power from which one authority has all


class NoPlaces(ValueError):
    """No place, or no k places together, feed the demand."""


@checked
@dataclass(frozen=True)
class Survey:
    """Which plants count, and how densely points are laid.

    step_deg: between points [degrees].
    oil: whether plants that burn oil count.
    coal_basis, most_coal: share of coal, of "capacity" or "energy", from which it dominates a place.
    reserve: largest producer that lines must replace: "unit", "site" or "none".
    """

    step_deg: Annotated[float, Range(0, 2, above_0=True)] = 0.25
    oil: bool = True
    coal_basis: Literal["capacity", "energy"] = "capacity"
    most_coal: Annotated[float, Range(0, 1, above_0=True)] = 0.5
    reserve: Literal["unit", "site", "none"] = "unit"

    def points(self, grid: PowerGrid, radius_m: float, area: Area) -> MapPoints:
        """Points of a grid in an area, with the plants within the radius of each [m]."""
        return area.points(grid, radius_m, self.step_deg, self.oil, self.coal_basis)

    def power(self, points: MapPoints, rule: str, flexible_w: Mapping[str, float] | None = None) -> AvailablePower:
        """Power that a datacenter may have at each of them by a rule. flexible_w: as in `available_power`."""
        return available_power(points, rule, self.most_coal, self.reserve, flexible_w=flexible_w)


SURVEY, ANYWHERE = Survey(), Area()


@dataclass(frozen=True)
class FoundPlaces:
    """Places for a demand; print it to read it.

    demand_w, rule, area: what was asked.
    points: all that the area has.
    places: a row for each place, as `place_table` has it.
    split: the places feed the demand together; None: each of them has it alone.
    ways: of a split one row for every two, as `distances.pairwise_links`, with name and name_to.
    warnings: what is odd.
    flexible_w: what the demand gains by giving way, by authority [W], as in `available_power`.
    """

    demand_w: float
    rule: str
    area: Area
    points: MapPoints
    places: pd.DataFrame
    split: Split | None
    ways: pd.DataFrame
    warnings: tuple[str, ...] = ()
    flexible_w: Mapping[str, float] = field(default_factory=dict)

    @property
    def ignores(self) -> str:
        """What the rule leaves out, and what every rule does."""
        return f"{RULES[self.rule].ignores}; as every rule: {IGNORED_BY_ALL}"

    @property
    def summary(self) -> str:
        """What was asked, in a line."""
        demand, radius = units.show(self.demand_w, "W", 4), units.show(self.points.radius_m, "m")
        count = units.counted(len(self.places), "places")
        head = f"{count} for {demand}" if self.split is not None else f"{count}, each with {demand}"
        return f"{head}, plants within {radius}; searched: {', '.join(self.area.words) or 'the whole country'}"

    @property
    def basis(self) -> list[str]:
        """Sentences: the grid, the rule, the bound of authorities, and what is left out."""
        grid = self.points.grid
        return [
            f"grid: {grid.name}",
            f"rule {self.rule!r}: {RULES[self.rule].meaning}",
            bound_words(grid.authority_caps),
            *self._flexible_words,
            f"it ignores {self.ignores}",
        ]

    @property
    def _flexible_words(self) -> list[str]:
        """What the authorities of the places gain where the demand gives way; none where it does not."""
        if not self.flexible_w:
            return []
        codes = sorted(set(self.places["authority"]) - {""})
        gains = (
            f"{code} {units.show(self.flexible_w[code], 'W', 3) if code in self.flexible_w else 'unknown'}"
            for code in codes
        )
        return [f"the demand gives way in hours of high load, which adds to the bound: {', '.join(gains)}"]

    @property
    def map_layers(self) -> dict[str, Any]:
        """Places, the links between them, a title and a note, as maps take them."""
        notes = [self.points.grid.name, f"rule {self.rule!r} ignores {RULES[self.rule].ignores}", *self.warnings]
        return {"places": self.places, "ways": self.ways, "title": self.summary, "note": "; ".join(notes)}

    def shown(self) -> pd.DataFrame:
        """The table of places as people read it."""
        table = self.places

        def power(column: str) -> pd.Series:
            return _texts(table[column], lambda power_w: units.show(power_w, "W", 4))

        shares = zip(table["authority"], table["authority_share"], strict=True)
        mostly = [code if share > _ALL else f"{code} {share:.0%}" for code, share in shares]
        columns = {"place": table["name"], "state": table["state"], "authority": mostly}
        if self.split is not None:
            columns["carries"] = power("power_w")
        columns |= {"available": power("available_w"), "limited by": table["limit"]}
        if self.rule != HEADROOM:
            columns[HEADROOM] = power("headroom_w")
        if table["distance_m"].notna().any():
            columns[f"from {self.area.place[0]}"] = [units.show(far, "m", 3) for far in table["distance_m"]]
        columns |= {
            "USD/kWh": _texts(table["usd_per_J"] * units.kWh, "{:.3f}".format),
            "lines out": power("lines_w"),
            "fuels": table["fuels"],
        }
        return pd.DataFrame(columns)

    def __repr__(self) -> str:
        shown = self.shown()
        shown.index = range(1, len(shown) + 1)
        lines = [self.summary, shown.to_string()]
        if len(self.ways):
            far = self.ways.loc[self.ways["distance_m"].idxmax()]
            away = f"{units.show(far['distance_m'], 'm', 4)}, {units.show(far['delay_s'], 's', 3)} one way"
            lines.append(f"farthest apart: {far['name']} and {far['name_to']}, {away}")
        return "\n".join([*lines, *self.basis, *(f"warning: {text}" for text in self.warnings)])


def _texts(values: pd.Series, text: Callable[[float], str]) -> pd.Series:
    """Each value as a text, "unknown" for NaN."""
    return values.map(lambda value: "unknown" if np.isnan(value) else text(value))


def place_table(
    points: MapPoints,
    power: AvailablePower,
    chosen: np.ndarray,
    carried_w: np.ndarray,
    area: Area,
    survey: Survey,
    flexible_w: Mapping[str, float] | None = None,
) -> pd.DataFrame:
    """What is known of each chosen point.

    Parameters
    ----------
    points, power
        All points, and the power that may be had at them.
    chosen, carried_w
        Indices of the places, and what each carries [W].
    area, survey, flexible_w
        That were asked.

    Returns
    -------
    A row for each place: place (index), name (nearest city), state, latitude, longitude, authority, authority_share (of
    the plants' power), interconnect, radius_m, power_w (that it carries), available_w, limit (what decided it),
    headroom_w (by the default rule, NaN where units are unknown), distance_m (to the asked city, else NaN), usd_per_J
    (that industry paid in the state),
    carbon_kg_per_J (of idle plants), lines_w (that cross the circle), fuels (of all plants within it, by power).
    """
    here = points[chosen]
    state = state_of(here.latitude, here.longitude)
    known = not np.isnan(here.supply.largest_unit_w).any()
    headroom_w = survey.power(here, HEADROOM, flexible_w).power_w if known else np.nan
    return pd.DataFrame(
        {
            "place": chosen,
            "name": nearest_city(here.latitude, here.longitude),
            "state": state,
            "latitude": here.latitude,
            "longitude": here.longitude,
            "authority": power.authority[chosen],
            "authority_share": here.share_of_authority(power.authority[chosen]),
            "interconnect": here.interconnect,
            "radius_m": points.radius_m,
            "power_w": carried_w,
            "available_w": power.power_w[chosen],
            "limit": power.limit[chosen],
            "headroom_w": headroom_w,
            "distance_m": area.distance_m(here.latitude, here.longitude),
            "usd_per_J": [electricity_prices().get(name, np.nan) for name in state],
            "carbon_kg_per_J": marginal_intensity(points.grid, here.plants, survey.oil),
            "lines_w": here.supply.interconnect_w,
            "fuels": points.grid.fuel_mix(here.plants),
        }
    )


def place_warnings(demand_w: float, places: pd.DataFrame, power: AvailablePower, rule: str) -> tuple[str, ...]:
    """Texts for what is odd: a tiny demand, authorities without a bound, and a rule that leaves others' use out.

    Parameters
    ----------
    demand_w, places
        The demand [W], and `place_table`.
    power, rule
        Power at all points, and the rule that gave it.

    Returns
    -------
    Sentences.
    """
    texts = list(demand_warnings(demand_w))
    unbounded = sorted(set(places["authority"]) - set(power.authority_caps))
    if unbounded:
        texts.append(f"no bound is known of {', '.join(code or 'plants without an authority' for code in unbounded)}")
    short = places["headroom_w"] < places["power_w"] * (1 - 1e-9)
    if rule != HEADROOM and short.any():
        left = ", ".join(
            f"{row.name} ({units.show(row.headroom_w, 'W', 3)} of {units.show(row.power_w, 'W', 3)})"
            for row in places[short].itertuples(index=False)
        )
        texts.append(f"rule {rule!r} does not take off all that others use: {HEADROOM} is less at {left}")
    return tuple(texts)


@checked
def find_places(
    grid: PowerGrid,
    demand_w: Watts,
    radius_m: Metres,
    rule: str = HEADROOM,
    k: Count = 10,
    area: Area = ANYWHERE,
    survey: Survey = SURVEY,
    apart_m: Metres | None = None,
    flexible_w: Mapping[str, float] | None = None,
) -> FoundPlaces:
    """Places each of which has a demand alone, the best first: nearest to the asked city, else with most power.

    Parameters
    ----------
    grid
        Whose plants feed it.
    demand_w
        Power of the place [W].
    radius_m
        How far a plant may lie from its place [m].
    rule
        One of `rules.RULES`, by default what is left of plants that run at call after what others use.
    k
        Most places of the list.
    area
        Where places may be, such as Area(near="Chicago", near_m=300e3) or Area(states=["IL"]). It holds for the place:
        its plants may lie radius_m farther.
    survey
        Which plants count, and how densely points are laid.
    apart_m
        Least distance between two of the list [m], by default radius_m. They may share plants: each is alone.
    flexible_w
        What each authority has more for a demand that gives way [W], by code; nothing by default.

    Returns
    -------
    `FoundPlaces`, fewer than k where no more have the demand. No place has more than the bound of its balancing
    authority, which the grid gives (`PowerGrid.authority_caps`).

    Raises
    ------
    ValueError
        As in `Area`, `points` and `available_power`: an area without places says which condition left how many, a
        demand that no place meets how much the best has and what limits it.

    Examples
    --------
    >>> import railcore as rc
    >>> ohio = rc.Area(states=["OH"])
    >>> found = rc.find_places(rc.load_grid(), "500 MW", "75 km", "installed", 2, ohio)
    >>> print(found.places[["name", "authority"]].to_string(index=False))
                       name authority
     11 km NE of Toledo, OH       PJM
    42 km N of Hamilton, OH       PJM
    """
    points = survey.points(grid, radius_m, area)
    power = survey.power(points, rule, flexible_w)
    enough = np.flatnonzero(power.power_w >= demand_w * (1 - 1e-12))
    if not len(enough):
        raise NoPlaces(_none_has(demand_w, points, power, area))
    spare, far = power.power_w[enough], area.distance_m(points.latitude[enough], points.longitude[enough])
    order = enough[np.argsort(np.rint(-spare if area.near is None else far), kind="stable")]  # by watts, metres
    chosen = _distinct(points, order, k, radius_m if apart_m is None else apart_m)
    table = place_table(points, power, chosen, np.full(len(chosen), demand_w), area, survey, flexible_w)
    warnings = place_warnings(demand_w, table, power, rule)
    return FoundPlaces(demand_w, rule, area, points, table, None, pd.DataFrame(), warnings, flexible_w or {})


def _distinct(points: MapPoints, order: np.ndarray, k: int, apart_m: float) -> np.ndarray:
    """The first k of some points in order that are apart from all before."""
    chosen: list[int] = []
    while len(order) and len(chosen) < k:
        first = int(order[0])
        chosen.append(first)
        lat, lon = points.latitude, points.longitude
        order = order[1:][great_circle_distance(lat[first], lon[first], lat[order[1:]], lon[order[1:]]) >= apart_m]
    return np.array(chosen, int)


def _none_has(demand_w: float, points: MapPoints, power: AvailablePower, area: Area) -> str:
    """A refusal that says how much the best place has, where, and what limits it."""
    asked = f"no place has {units.show(demand_w, 'W', 4)}"
    here = f"; searched: {units.counted(len(points), 'points')} {', '.join(area.words)}" if area.words else ""
    remedy = "; lower the demand, raise the radius, or split it over several places"
    if not len(points):
        return f"{asked}: there is no point with plants{here}{remedy}"
    if not power.power_w.max():
        limits, counts = np.unique(power.limit.astype(str), return_counts=True)
        most = ", ".join(f"{limits[at]} ({counts[at]})" for at in np.argsort(-counts, kind="stable")[:3])
        return f"{asked}: nothing is left at any point, limited by: {most}{here}{remedy}"
    best = int(power.power_w.argmax())
    name = nearest_city(points.latitude[[best]], points.longitude[[best]])[0]
    most = units.show(float(power.power_w[best]), "W", 3)
    return f"{asked}: the most is {most} at {name}, limited by: {power.limit[best]}{here}{remedy}"
