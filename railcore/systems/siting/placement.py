"""Sitings: some places, by index, that feed a demand together, and what speaks for each beside training.

Carbon of the power that groups of plants give, by their fuels: on average, and of what stands idle.

Intensities are those at the stack (catalog family fuels, `carbon_intensity`): a plant's building, its fuel's mining and
transport and leaked methane are not counted, so nuclear, hydro, wind and solar power have 0. Prices of energy are
those that industry paid on average in a state.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog, checks, units
from railcore.facts.globe import great_circle_distance
from railcore.systems.siting.candidates import Candidates
from railcore.systems.siting.geometry import Located, fibre_delays_s
from railcore.systems.siting.grid import PowerGrid, cities, electricity_prices, nearest_city, state_of
from railcore.systems.siting.nodes import PowerNodes
from railcore.systems.siting.supply import RULES, SHARE_BASES, available_power_w, marginal_intensity

Places = Candidates | PowerNodes
Sitings = Mapping[str, Sequence[int]]  # indices of places by name of the siting
RENEWABLE = ("geothermal", "hydro", "solar", "wind", "wind_offshore")
DEGREES_PER_HOUR = 15.0  # that the sun moves over
NEARBY_M = 500e3  # places that one storm or fault may take together
_DELAYS_S = (5e-3, 10e-3, 20e-3)  # delays of users that are told


def even_shares(power_w: Sequence[float] | np.ndarray, demand_w: float) -> np.ndarray:
    """Share of a demand that each place feeds, as even as their powers allow; they sum to 1.

    min(p, l) / demand, the level l such that sum min(p, l) = demand. Raises ValueError for powers that do not suffice.
    """
    p = np.asarray(power_w, float)
    if not (p.ndim == 1 and len(p) and np.all(np.isfinite(p) & (p >= 0))):
        raise ValueError(f"power_w is {power_w!r}: give the watts of one or more places, each 0 or more")
    if not 0 < demand_w <= p.sum() * (1 + 1e-12):
        raise ValueError(f"demand_w is {demand_w!r}: give watts above 0 and at most the {p.sum():.6g} of the places")
    rising = np.sort(p)
    left = demand_w - np.concatenate([[0.0], np.cumsum(rising)[:-1]])
    levels = left / np.arange(len(p), 0, -1)
    enough = levels <= rising * (1 + 1e-9)  # from the first place that is not used to the full
    return np.minimum(p, levels[np.argmax(enough)]) / demand_w


def shares_or_nan(power_w: np.ndarray, demand_w: float) -> np.ndarray:
    """`even_shares`, all NaN where the powers do not suffice."""
    return even_shares(power_w, demand_w) if np.sum(power_w) >= demand_w else np.full(len(power_w), np.nan)


def siting_indices(places: Located, power_w: np.ndarray, sitings: Sitings) -> dict[str, np.ndarray]:
    """Sitings as arrays. Raises ValueError for no siting, one of no places, an unknown index and powers of others."""
    if not sitings:
        raise ValueError("sitings is empty: give at least one, such as {'one place': [0]}")
    if np.shape(power_w) != (count := len(places.latitude),):
        raise ValueError(f"power_w has shape {np.shape(power_w)}: give watts for each of the {count} places")
    found = {name: np.asarray(chosen, int) for name, chosen in sitings.items()}
    for name, at in found.items():
        if not len(at) or at.min() < 0 or at.max() >= count or len(set(at)) < len(at):
            raise ValueError(f"siting {name!r} is {sitings[name]!r}: give different indices of places, below {count}")
    return found


def power_mix(places: Places, column: str, basis: str = "capacity") -> pd.DataFrame:
    """Share of each place's power that plants of each fuel, authority or interconnection have: one row for each place.

    column: of the grid's plants. basis: "capacity" sums p, "energy" p c, with capacity factor c of the fuel. All
    plants count, coal too. Raises ValueError for an unknown column or basis.
    """
    checks.one_of("basis", basis, SHARE_BASES)
    checks.one_of("column", column, places.grid.plants.columns)
    weight = places.grid.power_w * (1.0 if basis == "capacity" else places.grid.fuel("capacity_factor"))
    names, by_name = places.grid.power_by(column, weight)
    power = (places.plants @ by_name).toarray()
    whole = power.sum(axis=1, keepdims=True)
    return pd.DataFrame(np.divide(power, whole, out=np.zeros_like(power), where=whole > 0), columns=names)


def places_of_sitings(places: Places, sitings: Sitings, power_w: ArrayLike, demand_w: float) -> pd.DataFrame:
    """Every place of each siting: a row each.

    Parameters
    ----------
    places, sitings
        Places, and which of them each siting takes.
    power_w, demand_w
        What each place can give, and what all together feed [W].

    Returns
    -------
    Columns siting, place (index), name (from the nearest city), state (of the centre), latitude, longitude, radius_m,
    authority and interconnect (by `most_of`, as a split's caps are), power_w (what it can give), fed_w (what it feeds,
    NaN where the powers do not sum to the demand), renewable_capacity, renewable_energy (share of its power).

    Raises
    ------
    ValueError
        As in `siting_indices`.
    """
    power = np.asarray(power_w, float)
    every = siting_indices(places, power, sitings)
    at = np.concatenate(list(every.values()))
    latitude, longitude = places.latitude[at], places.longitude[at]
    columns = {
        "siting": np.repeat(list(every), [len(chosen) for chosen in every.values()]),
        "place": at,
        "name": nearest_city(latitude, longitude),
        "state": state_of(latitude, longitude),
        "latitude": latitude,
        "longitude": longitude,
        "radius_m": places.radius_m,
        "authority": places.most_of("authority")[at],
        "interconnect": places.most_of("interconnect")[at],
        "power_w": power[at],
        "fed_w": np.concatenate([shares_or_nan(power[chosen], demand_w) * demand_w for chosen in every.values()]),
    }
    for basis in SHARE_BASES:
        columns[f"renewable_{basis}"] = power_mix(places, "fuel", basis).filter(RENEWABLE).sum(axis=1).to_numpy()[at]
    return pd.DataFrame(columns)


def mix_diversity(mixes: np.ndarray) -> float:
    """How little the fuel mixes of places overlap: mean over pairs of 1 - sum over fuels min(a, b), 0 for one place.

    mixes: shares, shape (places, fuels); rows are scaled to sum to 1. Places with none of the fuels are left out, NaN
    where fewer than two of several remain.
    """
    whole = mixes.sum(axis=1, keepdims=True)
    each = (mixes / np.where(whole > 0, whole, np.nan))[whole[:, 0] > 0]
    if len(each) < 2:
        return 0.0 if len(mixes) == 1 else float("nan")
    return float(np.mean([1 - np.minimum(a, b).sum() for a, b in combinations(each, 2)]))


def user_latency(
    latitude: ArrayLike, longitude: ArrayLike, within_s: Sequence[float] = (), people: pd.DataFrame | None = None
) -> dict[str, float]:
    """One-way fibre delay from people to the nearest place.

    Parameters
    ----------
    latitude, longitude
        Of the places [degrees].
    within_s
        Delays for which the share of people within them is told [s].
    people
        Columns latitude, longitude, population; by default cities of more than 50,000.

    Returns
    -------
    mean_delay_s (over people), farthest_delay_s, and for each of within_s a share such as people_within_5_ms. Delays
    are the middle ones of `geometry.fibre_delays_s`.

    Raises
    ------
    ValueError
        For no place.
    """
    lat, lon = np.atleast_1d(latitude).astype(float), np.atleast_1d(longitude).astype(float)
    if not len(lat):
        raise ValueError("latitude is empty: give one or more places")
    people = cities() if people is None else people
    north, east = (people[axis].to_numpy(float)[:, None] for axis in ("latitude", "longitude"))
    nearest_m = great_circle_distance(north, east, lat, lon).min(axis=1)
    delay, weight = fibre_delays_s(nearest_m)["middle"], people["population"].to_numpy(float)
    near = {f"people_within_{s / units.ms:g}_ms": float(weight[delay <= s].sum() / weight.sum()) for s in within_s}
    return {"mean_delay_s": float(np.average(delay, weights=weight)), "farthest_delay_s": float(delay.max())} | near


def siting_traits(
    places: Places, sitings: Sitings, power_w: ArrayLike, demand_w: float, nearby_m: float = NEARBY_M
) -> pd.DataFrame:
    """What speaks for each siting beside power and training time.

    Parameters
    ----------
    places, sitings
        Places, and which of them each siting takes.
    power_w, demand_w
        What each place can give, and what all together feed [W].
    nearby_m
        Distance within which places count as lost together [m].

    Returns
    -------
    A row for each siting: siting, places, interconnects and authorities (of its plants, most power first), separate (no
    two places have plants in one interconnection; False for one place); renewable_capacity, renewable_energy (share of
    what feeds the demand: of places weighted by what they feed); fuel_diversity, renewable_diversity (`mix_diversity`
    in energy of all fuels and of renewable ones); sun_hours (from the place farthest east to that farthest west,
    longitude / 15); lost_place, lost_nearby, lost_authority, lost_interconnect (largest share of the demand that the
    loss of one place, of all within nearby_m of one, of an authority, of an interconnection takes); those of
    `user_latency`. NaN for what is weighted by shares where the powers do not sum to the demand.

    Raises
    ------
    ValueError
        As in `siting_indices`.
    """
    power = np.asarray(power_w, float)
    capacity, energy = (power_mix(places, "fuel", basis) for basis in ("capacity", "energy"))
    green = list(energy.columns.intersection(RENEWABLE))
    owners = {column: power_mix(places, column) for column in ("authority", "interconnect")}
    rows = []
    for name, at in siting_indices(places, power, sitings).items():
        fed, lat, lon = shares_or_nan(power[at], demand_w), places.latitude[at], places.longitude[at]
        here = {column: mix.iloc[at] for column, mix in owners.items()}
        near = great_circle_distance(lat[:, None], lon[:, None], lat, lon) <= nearby_m
        rows.append(
            {
                "siting": name,
                "places": len(at),
                "interconnects": _names_by_power(here["interconnect"]),
                "authorities": _names_by_power(here["authority"]),
                "separate": len(at) > 1 and bool(((here["interconnect"] > 0).sum() <= 1).all()),
                "renewable_capacity": float(fed @ capacity[green].to_numpy()[at].sum(axis=1)),
                "renewable_energy": float(fed @ energy[green].to_numpy()[at].sum(axis=1)),
                "fuel_diversity": mix_diversity(energy.to_numpy()[at]),
                "renewable_diversity": mix_diversity(energy[green].to_numpy()[at]),
                "sun_hours": float(np.ptp(lon)) / DEGREES_PER_HOUR,
                "lost_place": float(fed.max()),
                "lost_nearby": float((near @ fed).max()),
                **{f"lost_{column}": float((fed @ mix.to_numpy()).max()) for column, mix in here.items()},
                **user_latency(lat, lon, _DELAYS_S),
            }
        )
    return pd.DataFrame(rows)


def _names_by_power(mix: pd.DataFrame) -> str:
    """Columns that have power in any row, those with most first."""
    total = mix.sum().sort_values(ascending=False, kind="stable")
    return ", ".join(total.index[total > 0])


def carbon_and_cost(
    places: Candidates, sitings: Sitings, power_w: ArrayLike, demand_w: float, oil: bool = True
) -> pd.DataFrame:
    """Carbon and cost of the energy of each siting in a year at full power, every place feeding its share.

    Parameters
    ----------
    places, sitings
        Places, and which of them each siting takes.
    power_w, demand_w
        What each place can give, and what all together feed [W]; shares are `even_shares`.
    oil
        Whether idle plants that burn oil run.

    Returns
    -------
    A row for each siting: siting, carbon_kg (of what stands idle: `marginal_intensity`), kg_per_kWh, cost_usd (at what
    industry paid in the states of the centres, 2023; a datacenter of this size pays another price), usd_per_kWh; NaN
    where a state has no price.

    Raises
    ------
    ValueError
        As in `siting_indices`.
    """
    power, joules, rows = np.asarray(power_w, float), demand_w * units.year, []
    carbon = marginal_intensity(places.grid, places.plants, oil)
    price = np.array([electricity_prices().get(state, np.nan) for state in places.state])
    for name, at in siting_indices(places, power, sitings).items():
        share = shares_or_nan(power[at], demand_w)
        intensity, mean_price = float(share @ carbon[at]), float(share @ price[at])
        rows.append((name, joules * intensity, intensity * units.kWh, joules * mean_price, mean_price * units.kWh))
    return pd.DataFrame(rows, columns=["siting", "carbon_kg", "kg_per_kWh", "cost_usd", "usd_per_kWh"])


def direct_lines(grid: PowerGrid) -> pd.DataFrame:
    """Direct-current lines of a grid, the one of most power first: both ends by substation.

    Columns power_w, length_m, from_name, from_state, from_interconnect, from_latitude, from_longitude, to_name,
    to_state, to_interconnect, to_latitude, to_longitude.
    """
    lines = grid.lines[grid.lines["type"] == "DC"].sort_values("power_w", ascending=False, kind="stable")
    found = lines[["power_w", "length_m"]].reset_index(drop=True)
    stations = grid.substations.set_index("sub_id")
    for end in ("from", "to"):
        for column in ("name", "state", "interconnect", "latitude", "longitude"):
            found[f"{end}_{column}"] = stations[column].reindex(lines[f"{end}_sub"]).to_numpy()
    return found


def nearest_direct_line(grid: PowerGrid, item: str) -> pd.Series:
    """The direct-current line with an end nearest to a place of the catalog's family wide_area.

    With near ("from" or "to"): which end that is, and off_m: how far it is from the place. Raises ValueError for a grid
    without direct current.
    """
    lines, place = direct_lines(grid), catalog.item("wide_area", item)
    if not len(lines):
        raise ValueError(f"grid {grid.name!r} has no line of type DC: mark its direct-current lines so")
    off = distances_to_ends(lines, place["latitude_deg"], place["longitude_deg"])
    near = np.array(["from", "to"])[off.argmin(axis=1)]
    return lines.assign(near=near, off_m=off.min(axis=1)).loc[int(np.argmin(off.min(axis=1)))]


def distances_to_ends(line: pd.Series | pd.DataFrame, latitude: ArrayLike, longitude: ArrayLike) -> np.ndarray:
    """Great circles from places to both ends of a line [m], shape (places, 2); or from one place to those of lines."""
    ends = [(line[f"{end}_latitude"], line[f"{end}_longitude"]) for end in ("from", "to")]
    return np.stack([np.atleast_1d(great_circle_distance(latitude, longitude, *end)) for end in ends], axis=-1)


def places_near_line(
    places: Places, line: pd.Series, demand_w: float, radius_m: float, most_coal: float = 0.5, reserve: str = "unit"
) -> pd.DataFrame:
    """Places near the ends of a line, and which of them feed a demand: a row for each rule and end.

    Parameters
    ----------
    places, line
        Places, and a line of `direct_lines`.
    demand_w, radius_m
        Power asked for [W], and how far a place may lie from an end [m].
    most_coal, reserve
        As in `supply.eligible`.

    Returns
    -------
    Columns rule, end (substation), state, within (places within radius_m), feeding (of these, those that have
    demand_w), best_w (most that a rule lets one of them have), nearest_m: from the end to the nearest place that feeds
    the demand, wherever it is; NaN for none.
    """
    distance, rows = distances_to_ends(line, places.latitude, places.longitude), []
    for rule in RULES:
        power = available_power_w(places.supply, rule, most_coal, reserve)
        for end, away in zip(("from", "to"), distance.T, strict=True):
            near, enough = away <= radius_m, power >= demand_w
            nearest_m = away[enough].min() if enough.any() else np.nan
            counts = int(near.sum()), int((near & enough).sum())
            best_w = float(power[near].max(initial=0.0))
            rows.append((rule, line[f"{end}_name"], line[f"{end}_state"], *counts, best_w, nearest_m))
    return pd.DataFrame(rows, columns="rule end state within feeding best_w nearest_m".split())
