"""The reasons for an east-west split as numbers: grids, fuels, sun, faults, users nearby, and a direct-current line.

Places are `Candidates` or `Nodes`; a siting is some of them, by index, each feeding its `places.shares` of the demand.
Source: flops2024, section 2, which gives the reasons without numbers.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import catalog, units
from railcore.network.wide_area import great_circle_distance
from railcore.systems.siting.geometry import Places, between_m, delays_s, feeds, indices
from railcore.systems.siting.grid import Grid, cities, nearest_city, state_of
from railcore.systems.siting.rules import RULES, available
from railcore.systems.siting.supply import BASES

if TYPE_CHECKING:
    import pandas as pd

RENEWABLE = ("geothermal", "hydro", "solar", "wind", "wind_offshore")
DEGREES_PER_HOUR = 15.0  # that the sun moves over
EAST, WEST = "flops2024 east", "flops2024 west"  # of the catalog's wide_area


def parts(places: Places, column: str, basis: str = "capacity") -> "pd.DataFrame":
    """Share of each place's power that plants of each fuel, authority or interconnection have: one row for each place.

    column: of the grid's plants. basis: "capacity" sums p, "energy" p c, with capacity factor c of the fuel. All
    plants count, coal too. Raises ValueError for an unknown column or basis.
    """
    import pandas as pd

    plants = places.grid.plants
    if basis not in BASES or column not in plants:
        what, given, known = ("basis", basis, BASES) if basis not in BASES else ("column", column, plants.columns)
        raise ValueError(f"{what} is {given!r}: give one of {', '.join(known)}")
    weight = plants["power_w"].to_numpy(float) * (1.0 if basis == "capacity" else places.grid.fuel("capacity_factor"))
    names, label = np.unique(plants[column].fillna("").to_numpy(str), return_inverse=True)
    each = np.zeros((len(plants), len(names)))
    each[np.arange(len(plants)), label] = weight
    power = places.plants @ each
    whole = power.sum(axis=1, keepdims=True)
    return pd.DataFrame(np.divide(power, whole, out=np.zeros_like(power), where=whole > 0), columns=names)


def diversity(mixes: np.ndarray) -> float:
    """How little the fuel mixes of places overlap: mean over pairs of 1 - sum over fuels min(a, b), 0 for one place.

    mixes: shares, shape (places, fuels); rows are scaled to sum to 1. Places with none of the fuels are left out, NaN
    where fewer than two of several remain.
    """
    whole = mixes.sum(axis=1, keepdims=True)
    each = (mixes / np.where(whole > 0, whole, np.nan))[whole[:, 0] > 0]
    if len(each) < 2:
        return 0.0 if len(mixes) == 1 else float("nan")
    return float(np.mean([1 - np.minimum(a, b).sum() for a, b in combinations(each, 2)]))


def latency(
    latitude: ArrayLike,
    longitude: ArrayLike,
    within_s: Sequence[float] = (),
    people: "pd.DataFrame | None" = None,
    route_factor: float = 0.0,
) -> dict[str, float]:
    """One-way fibre delay from people to the nearest place: mean over people, of the farthest, and who is within.

    people: latitude, longitude, population; by default cities of more than 50,000. Delays as `places.delays_s`.
    Keys mean_delay_s, farthest_delay_s, and people_within_5_ms: the share of people within each of within_s.
    Raises ValueError for no place.
    """
    lat, lon = np.atleast_1d(latitude).astype(float), np.atleast_1d(longitude).astype(float)
    if not len(lat):
        raise ValueError("latitude is empty: give one or more places")
    people = cities() if people is None else people
    north, east = (people[axis].to_numpy(float)[:, None] for axis in ("latitude", "longitude"))
    way = great_circle_distance(north, east, lat, lon)
    delay, weight = delays_s(way.min(axis=1), route_factor)["middle"], people["population"].to_numpy(float)
    near = {f"people_within_{s / units.ms:g}_ms": float(weight[delay <= s].sum() / weight.sum()) for s in within_s}
    return {"mean_delay_s": float(np.average(delay, weights=weight)), "farthest_delay_s": float(delay.max())} | near


def traits(
    places: Places,
    sitings: Mapping[str, Sequence[int]],
    power_w: ArrayLike,
    demand_w: float,
    nearby_m: float = 500e3,
    within_s: Sequence[float] = (5e-3, 10e-3, 20e-3),
    people: "pd.DataFrame | None" = None,
    route_factor: float = 0.0,
) -> "pd.DataFrame":
    """What speaks for each siting beside power and training time: a row for each.

    Columns siting, places, interconnects and authorities (that any of its plants belong to), separate (no two places
    have plants in one interconnection; False for one place); renewable_capacity, renewable_energy: share of what feeds
    the demand, that is of places weighted by what they feed; fuel_diversity, renewable_diversity: `diversity` in
    energy of all fuels and of renewable ones; sun_hours: from the place farthest east to that farthest west, longitude
    / 15; lost_place, lost_nearby, lost_authority, lost_interconnect: largest share of the demand that the loss of one
    place, of all within nearby_m of one, of an authority, of an interconnection takes; those of `latency`.
    What is weighted by shares of the demand is NaN where the powers do not sum to it. Errors as in `places.indices`.
    """
    import pandas as pd

    power = np.asarray(power_w, float)
    capacity, energy = (parts(places, "fuel", basis) for basis in BASES)
    green = [fuel for fuel in energy if fuel in RENEWABLE]
    within = {column: parts(places, column) for column in ("authority", "interconnect")}
    rows = []
    for name, at in indices(places, power, sitings).items():
        fed, lat, lon = feeds(power[at], demand_w), places.latitude[at], places.longitude[at]
        here = {column: table.iloc[at] for column, table in within.items()}
        near = between_m(lat, lon) <= nearby_m
        rows.append(
            {
                "siting": name,
                "places": len(at),
                "interconnects": _named(here["interconnect"]),
                "authorities": _named(here["authority"]),
                "separate": len(at) > 1 and bool(((here["interconnect"] > 0).sum() <= 1).all()),
                "renewable_capacity": float(fed @ capacity[green].to_numpy()[at].sum(axis=1)),
                "renewable_energy": float(fed @ energy[green].to_numpy()[at].sum(axis=1)),
                "fuel_diversity": diversity(energy.to_numpy()[at]),
                "renewable_diversity": diversity(energy[green].to_numpy()[at]),
                "sun_hours": float(np.ptp(lon)) / DEGREES_PER_HOUR,
                "lost_place": float(fed.max()),
                "lost_nearby": float((near @ fed).max()),
                **{f"lost_{column}": float((fed @ table.to_numpy()).max()) for column, table in here.items()},
                **latency(lat, lon, within_s, people, route_factor),
            }
        )
    return pd.DataFrame(rows)


def placed(places: Places, sitings: Mapping[str, Sequence[int]], power_w: ArrayLike, demand_w: float) -> "pd.DataFrame":
    """Every place of each siting: a row each.

    Columns siting, place (index), name (from the nearest city), state (of the centre), latitude, longitude, radius_m,
    authority and interconnect (by `most_of`, as a split's caps are), power_w (that the rule lets it have), fed_w (that
    it feeds, NaN where the powers do not sum to the demand), renewable_capacity, renewable_energy (share of its power).
    Errors as in `places.indices`.
    """
    import pandas as pd

    power, rows = np.asarray(power_w, float), []
    for name, at in indices(places, power, sitings).items():
        where = {"latitude": places.latitude[at], "longitude": places.longitude[at]}
        fed = {"power_w": power[at], "fed_w": feeds(power[at], demand_w) * demand_w}
        rows.append(pd.DataFrame({"siting": name, "place": at, **where, "radius_m": places.radius_m, **fed}))
    table = pd.concat(rows, ignore_index=True)
    table.insert(2, "name", nearest_city(table["latitude"], table["longitude"]))
    table.insert(3, "state", state_of(table["latitude"], table["longitude"]))
    for number, column in enumerate(("authority", "interconnect")):
        table.insert(7 + number, column, places.most_of(column)[table["place"]])
    for basis in BASES:
        mix = parts(places, "fuel", basis)
        green = mix[[fuel for fuel in mix if fuel in RENEWABLE]].sum(axis=1)
        table[f"renewable_{basis}"] = green.to_numpy()[table["place"]]
    return table


def _named(table: "pd.DataFrame") -> str:
    """Columns that have power in any row, those with most first."""
    total = table.sum().sort_values(ascending=False, kind="stable")
    return ", ".join(total.index[total > 0])


def direct_lines(grid: Grid) -> "pd.DataFrame":
    """Direct-current lines of a grid, the one of most power first: power_w, length_m, and both ends by substation.

    Columns from_ and to_ with name, state, interconnect, latitude, longitude.
    """
    lines = grid.lines[grid.lines["type"] == "DC"].sort_values("power_w", ascending=False, kind="stable")
    found = lines[["power_w", "length_m"]].reset_index(drop=True)
    stations = grid.substations.set_index("sub_id")
    for end in ("from", "to"):
        for column in ("name", "state", "interconnect", "latitude", "longitude"):
            found[f"{end}_{column}"] = stations[column].reindex(lines[f"{end}_sub"]).to_numpy()
    return found


def intertie(grid: Grid, near: str = WEST) -> "pd.Series":
    """The direct-current line with an end nearest to a place of the catalog's wide_area, by default Celilo's.

    With `off_m`, how far its nearer end is from there. Raises ValueError for a grid without direct current.
    """
    lines, place = direct_lines(grid), catalog.item("wide_area", near)
    if not len(lines):
        raise ValueError(f"grid {grid.name!r} has no line of type DC: mark its direct-current lines so")
    off = to_ends(lines, place["latitude_deg"], place["longitude_deg"]).min(axis=1)
    return lines.assign(off_m=off).loc[int(np.argmin(off))]


def to_ends(line: Any, latitude: ArrayLike, longitude: ArrayLike) -> np.ndarray:
    """Great circles from places to both ends of a line [m], shape (places, 2); or from one place to those of lines."""
    ends = [(line[f"{end}_latitude"], line[f"{end}_longitude"]) for end in ("from", "to")]
    return np.stack([np.atleast_1d(great_circle_distance(latitude, longitude, *end)) for end in ends], axis=-1)


def near_line(
    places: Places,
    line: "pd.Series",
    demand_w: float,
    radius_m: float,
    most_coal: float = 0.5,
    reserve: str = "unit",
) -> "pd.DataFrame":
    """Places near the ends of a line, and which of them feed a demand: a row for each rule and end.

    Columns rule, end (substation), state, within (places within radius_m), feeding (of these, those that have
    demand_w), best_w (most that a rule lets one of them have), nearest_m: from the end to the nearest place that feeds
    the demand, wherever it is; NaN for none.
    """
    import pandas as pd

    distance, rows = to_ends(line, places.latitude, places.longitude), []
    for rule in RULES:
        power = available(places.supply, rule, most_coal, reserve)
        for end, away in zip(("from", "to"), distance.T, strict=True):
            near, enough = away <= radius_m, power >= demand_w
            best, nearest = power[near].max(initial=0.0), away[enough].min() if enough.any() else np.nan
            where = (line[f"{end}_name"], line[f"{end}_state"])
            rows.append((rule, *where, int(near.sum()), int((near & enough).sum()), float(best), nearest))
    return pd.DataFrame(rows, columns=["rule", "end", "state", "within", "feeding", "best_w", "nearest_m"])


def pair(
    places: Places, power_w: ArrayLike, demand_w: float, radius_m: float, anchors: tuple[str, str] = (EAST, WEST)
) -> list[int]:
    """The place nearest to each anchor, a place of the catalog's wide_area, that has half of the demand.

    Raises ValueError where no place within radius_m of an anchor has (it says what the best has), and where the
    nearest of the two anchors share a plant.
    """
    power, found = np.asarray(power_w, float), []
    for name in anchors:
        anchor = catalog.item("wide_area", name)
        here = (anchor["latitude_deg"], anchor["longitude_deg"])
        away = great_circle_distance(places.latitude, places.longitude, *here)
        enough = (away <= radius_m) & (power >= demand_w / 2)
        if not enough.any():
            best = units.show(power[away <= radius_m].max(initial=0.0), "W", 3)
            raise ValueError(
                f"demand_w is {units.show(demand_w, 'W', 3)}: no place within {radius_m / units.km:g} km of {name} has "
                f"half of it, the best has {best}: give a smaller demand, a larger radius or another rule"
            )
        found.append(int(np.argmin(np.where(enough, away, np.inf))))
    if (places.plants[[found[0]]] @ places.plants[[found[1]]].T).nnz:
        raise ValueError(f"anchors are {anchors!r}: their nearest places share a plant; give anchors farther apart")
    return found
