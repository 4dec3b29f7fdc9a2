"""Sitings side by side: their places, mix of fuels, sun, faults, delay to people, carbon and cost of energy.

A siting names some places, by index, that feed a demand together, each a share as even as its power allows. Where the
powers of its places do not sum to the demand, all that is weighted by shares is NaN. Carbon and prices of energy are
those of `railcore.siting.energy`.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.catalog import units
from railcore.network.globe import great_circle_distance
from railcore.siting.cities import cities, nearest_city
from railcore.siting.distances import Located, distance_to_place, fibre_delays_s
from railcore.siting.energy import electricity_prices, marginal_intensity
from railcore.siting.grid import state_of
from railcore.siting.places import NoPlaces
from railcore.siting.points import MapPoints
from railcore.siting.rules import AvailablePower
from railcore.siting.split import best_split
from railcore.siting.supply import power_or_energy
from suite.flops2024.nodes import PowerNodes

Places = MapPoints | PowerNodes
OBJECTIVES = {"nearest": "shortest", "roomiest": "spare"}  # of a split, by the name that its siting gets
Sitings = Mapping[str, Sequence[int]]  # indices of places by name of the siting
DEGREES_PER_HOUR = 15.0  # that the sun moves over
NEARBY_M = 500e3  # places that one storm or fault may take together
_RENEWABLE = ("geothermal", "hydro", "solar", "wind", "wind_offshore")
_DELAYS_S = (5e-3, 10e-3, 20e-3)  # within which people are counted


def demand_shares(
    places: Located, sitings: Sitings, power_w: ArrayLike, demand_w: float
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Indices of the places of each siting, and the share of the demand that each of them feeds.

    Parameters
    ----------
    places, sitings
        Places, and which of them each siting takes.
    power_w, demand_w
        What each place can give, and what all places of a siting feed together [W].

    Returns
    -------
    (Indices, shares) by name of the siting; shares are those of `even_shares`, NaN where the powers do not suffice.

    Raises
    ------
    ValueError
        For no siting, a siting of no places, an unknown or repeated index, and powers that are not one for each place.
    """
    power, count, shares = np.asarray(power_w, float), len(places.latitude), {}
    if not sitings:
        raise ValueError("sitings is empty: give at least one, such as {'one place': [0]}")
    if power.shape != (count,):
        raise ValueError(f"power_w has shape {power.shape}: give watts for each of the {count} places")
    for name, chosen in sitings.items():
        at = np.asarray(chosen, int)
        if not len(at) or at.min() < 0 or at.max() >= count or len(set(at)) < len(at):
            raise ValueError(f"siting {name!r} is {chosen!r}: give different indices of places, below {count}")
        enough = power[at].sum() >= demand_w
        shares[name] = at, even_shares(power[at], demand_w) if enough else np.full(len(at), np.nan)
    return shares


def even_shares(power_w: np.ndarray, demand_w: float) -> np.ndarray:
    """Share of a demand that each place feeds, as even as their powers allow; they sum to 1.

    min(p, l) / demand, the level l such that sum min(p, l) = demand. power_w: p of one or more places [W], which sum to
    the demand at least.
    """
    rising = np.sort(power_w)
    left = demand_w - np.concatenate([[0.0], np.cumsum(rising)[:-1]])
    levels = left / np.arange(len(rising), 0, -1)
    enough = levels <= rising * (1 + 1e-9)  # from the first place that is not used to the full
    return np.minimum(power_w, levels[np.argmax(enough)]) / demand_w


def power_mix(places: Places, column: str, basis: str = "capacity") -> pd.DataFrame:
    """Share of each place's power that plants of each fuel, authority or interconnection have: one row for each place.

    column: of the grid's plants. basis: "capacity", or "energy" for mean power. All plants count, coal too.
    """
    names, by_name = places.grid.power_by(column, power_or_energy(places.grid, basis))
    power = (places.plants @ by_name).toarray()
    total = power.sum(axis=1, keepdims=True)
    return pd.DataFrame(np.divide(power, total, out=np.zeros_like(power), where=total > 0), columns=names)


def places_of_sitings(places: Places, sitings: Sitings, power_w: ArrayLike, demand_w: float) -> pd.DataFrame:
    """Every place of each siting: a row each.

    Parameters
    ----------
    places, sitings, power_w, demand_w
        As in `demand_shares`, and so are the errors.

    Returns
    -------
    Columns siting, place (index), name (from the nearest city), state (of the place), latitude, longitude, radius_m,
    authority and interconnect (by `most_of`, as a split's caps are), power_w (what it can give), fed_w (what it feeds),
    renewable_capacity, renewable_energy (share of its power).
    """
    shares = demand_shares(places, sitings, power_w, demand_w)
    at = np.concatenate([chosen for chosen, _ in shares.values()])
    latitude, longitude = places.latitude[at], places.longitude[at]
    columns = {
        "siting": np.repeat(list(shares), [len(chosen) for chosen, _ in shares.values()]),
        "place": at,
        "name": nearest_city(latitude, longitude),
        "state": state_of(latitude, longitude),
        "latitude": latitude,
        "longitude": longitude,
        "radius_m": places.radius_m,
        "authority": places.most_of("authority")[at],
        "interconnect": places.most_of("interconnect")[at],
        "power_w": np.asarray(power_w, float)[at],
        "fed_w": np.concatenate([share * demand_w for _, share in shares.values()]),
    }
    for basis in ("capacity", "energy"):
        columns[f"renewable_{basis}"] = power_mix(places, "fuel", basis).filter(_RENEWABLE).sum(axis=1).to_numpy()[at]
    return pd.DataFrame(columns)


def siting_traits(places: Places, sitings: Sitings, power_w: ArrayLike, demand_w: float) -> pd.DataFrame:
    """What speaks for each siting beside power and training time.

    Parameters
    ----------
    places, sitings, power_w, demand_w
        As in `demand_shares`, and so are the errors.

    Returns
    -------
    A row for each siting:

    - siting; places, their number; interconnects and authorities of its plants, most power first; separate: no two
      places have plants in one interconnection (False for one place);
    - renewable_capacity, renewable_energy: share of what feeds the demand;
    - fuel_diversity, renewable_diversity: `mix_diversity` in energy of all fuels and of renewable ones;
    - sun_hours: from the place farthest east to that farthest west, longitude / 15;
    - lost_place, lost_nearby, lost_authority, lost_interconnect: largest share of the demand that the loss of one
      place, of all within 500 km of one, of an authority, of an interconnection takes;
    - the columns of `user_latency`.
    """
    capacity, energy = (power_mix(places, "fuel", basis) for basis in ("capacity", "energy"))
    renewable = list(energy.columns.intersection(_RENEWABLE))
    owners = {column: power_mix(places, column) for column in ("authority", "interconnect")}
    rows = []
    for name, (at, share) in demand_shares(places, sitings, power_w, demand_w).items():
        lat, lon = places.latitude[at], places.longitude[at]
        owned = {column: mix.iloc[at] for column, mix in owners.items()}
        near = great_circle_distance(lat[:, None], lon[:, None], lat, lon) <= NEARBY_M
        rows.append(
            {
                "siting": name,
                "places": len(at),
                "interconnects": _names_by_power(owned["interconnect"]),
                "authorities": _names_by_power(owned["authority"]),
                "separate": len(at) > 1 and bool(((owned["interconnect"] > 0).sum() <= 1).all()),
                "renewable_capacity": float(share @ capacity[renewable].to_numpy()[at].sum(axis=1)),
                "renewable_energy": float(share @ energy[renewable].to_numpy()[at].sum(axis=1)),
                "fuel_diversity": mix_diversity(energy.to_numpy()[at]),
                "renewable_diversity": mix_diversity(energy[renewable].to_numpy()[at]),
                "sun_hours": float(np.ptp(lon)) / DEGREES_PER_HOUR,
                "lost_place": float(share.max()),
                "lost_nearby": float((near @ share).max()),
                **{f"lost_{column}": float((share @ mix.to_numpy()).max()) for column, mix in owned.items()},
                **user_latency(lat, lon),
            }
        )
    return pd.DataFrame(rows)


def mix_diversity(mixes: np.ndarray) -> float:
    """How little the fuel mixes of places overlap: mean over pairs of 1 - sum over fuels min(a, b), 0 for one place.

    mixes: shares, shape (places, fuels); rows are scaled to sum to 1. Places with none of the fuels are left out, NaN
    where fewer than two of several remain.
    """
    total = mixes.sum(axis=1, keepdims=True)
    rows = (mixes / np.where(total > 0, total, np.nan))[total[:, 0] > 0]
    if len(rows) < 2:
        return 0.0 if len(mixes) == 1 else float("nan")
    return float(np.mean([1 - np.minimum(a, b).sum() for a, b in combinations(rows, 2)]))


def user_latency(latitude: np.ndarray, longitude: np.ndarray) -> dict[str, float]:
    """One-way fibre delay from people in `cities` to the nearest place.

    latitude, longitude: of the places [degrees]. Gives mean_delay_s (over people), farthest_delay_s, and the shares of
    people within 5, 10 and 20 ms, such as people_within_5_ms. Delays are the middle ones of `fibre_delays_s`.
    """
    people = cities()
    north, east = (people[axis].to_numpy(float)[:, None] for axis in ("latitude", "longitude"))
    nearest_m = great_circle_distance(north, east, latitude, longitude).min(axis=1)
    delay, weight = fibre_delays_s(nearest_m)["middle"], people["population"].to_numpy(float)
    near = {f"people_within_{s / units.ms:g}_ms": float(weight[delay <= s].sum() / weight.sum()) for s in _DELAYS_S}
    return {"mean_delay_s": float(np.average(delay, weights=weight)), "farthest_delay_s": float(delay.max())} | near


def _names_by_power(mix: pd.DataFrame) -> str:
    """Columns that have power in any row, those with most first."""
    total = mix.sum().sort_values(ascending=False, kind="stable")
    return ", ".join(total.index[total > 0])


def carbon_and_cost(
    places: MapPoints, sitings: Sitings, power_w: ArrayLike, demand_w: float, oil: bool = True
) -> pd.DataFrame:
    """Carbon and cost of the energy of each siting in a year at full power.

    Parameters
    ----------
    places, sitings, power_w, demand_w
        As in `demand_shares`, and so are the errors.
    oil
        Whether idle plants that burn oil run.

    Returns
    -------
    A row for each siting: siting, carbon_kg (of what stands idle: `marginal_intensity`), kg_per_kWh, cost_usd (at what
    industry paid in the states of the places, 2023; a datacenter of this size pays another price), usd_per_kWh; NaN
    where a state has no price.
    """
    joules, rows = demand_w * units.year, []
    carbon = marginal_intensity(places.grid, places.plants, oil)
    price = np.array([electricity_prices().get(state, np.nan) for state in places.state])
    for name, (at, share) in demand_shares(places, sitings, power_w, demand_w).items():
        intensity, mean_price = float(share @ carbon[at]), float(share @ price[at])
        rows.append((name, joules * intensity, intensity * units.kWh, joules * mean_price, mean_price * units.kWh))
    return pd.DataFrame(rows, columns=["siting", "carbon_kg", "kg_per_kWh", "cost_usd", "usd_per_kWh"])


def splits(power: AvailablePower, demand_w: float, ks: Iterable[int], **terms: Any) -> pd.DataFrame:
    """What `best_split` finds for each k, and why not where it finds none.

    Parameters
    ----------
    power, demand_w, terms
        As in `best_split`.
    ks
        Numbers of places.

    Returns
    -------
    A row for each k: k, demand_w, longest_m, spare_w, part_w (most that a place carries), places (indices), with_power,
    strong_enough, undominated, problem (empty, or what `best_split` says of the demand).
    """
    rows = []
    for k in ks:
        try:
            split = best_split(power, demand_w, k, **terms)
        except NoPlaces as error:
            row = {"places": (), "problem": str(error)}
        else:
            names = ("longest_m", "spare_w", "with_power", "strong_enough", "undominated")
            row = {name: getattr(split, name) for name in names}
            row |= {"part_w": split.power_w.max(), "places": tuple(split.places.tolist()), "problem": ""}
        rows.append({"k": k, "demand_w": demand_w, **row})
    columns = "k demand_w longest_m spare_w part_w places with_power strong_enough undominated problem".split()
    return pd.DataFrame(rows).reindex(columns=columns)


def sitings_by_objective(
    power: AvailablePower, demand_w: float, ks: Iterable[int], **terms: Any
) -> tuple[dict[str, tuple[int, ...]], pd.DataFrame]:
    """The best splits as sitings: "nearest 2" and "roomiest 2" are those of k = 2.

    Parameters
    ----------
    power
        That may be had at each of the points to choose from.
    demand_w, ks
        Power of all places together [W], and the numbers of places to try.
    terms
        Of `best_split`, without the objective.

    Returns
    -------
    Indices of the places by name of the siting, and a table with the column siting and those of `splits`. A siting that
    does not exist is left out, and the table says why.

    Raises
    ------
    ValueError
        For no ks, and where no siting at all meets the demand, with how much the best k places have.
    """
    if not (ks := list(ks)):
        raise ValueError("ks is empty: give numbers of places, such as range(1, 7)")
    tables = []
    for name, objective in OBJECTIVES.items():
        rows = splits(power, demand_w, ks, objective=objective, **terms)
        rows.insert(0, "siting", name + " " + rows["k"].astype(str))
        tables.append(rows)
    table = pd.concat(tables, ignore_index=True)
    sitings = {row.siting: row.places for row in table.itertuples() if row.places}
    if not sitings:
        raise ValueError("\n".join(dict.fromkeys(table["problem"])))
    return sitings, table


def nearest_to_anchors(
    places: MapPoints, power_w: ArrayLike, demand_w: float, radius_m: float, anchors: Sequence[str]
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
    ValueError
        Where no place within radius_m of an anchor has its part (it says what the best has), and where the nearest
        places share a plant.
    """
    power, part_w, nearest = np.asarray(power_w, float), demand_w / len(anchors), []
    for name in anchors:
        away = distance_to_place(places, name)
        enough = (away <= radius_m) & (power >= part_w)
        if not enough.any():
            best_w = power[away <= radius_m].max(initial=0.0)
            best, part = units.show(best_w, "W", 3), units.show(part_w, "W", 3)
            raise ValueError(
                f"demand_w is {units.show(demand_w, 'W', 3)}: each place needs {part}, and the best within "
                f"{radius_m / units.km:g} km of {name} has {best}: give a smaller demand, larger radius or another rule"
            )
        nearest.append(int(np.argmin(np.where(enough, away, np.inf))))
    if places.plants[nearest].sum(axis=0).max() > 1:
        raise ValueError(f"anchors are {anchors!r}: their nearest places share a plant; give anchors farther apart")
    return nearest
