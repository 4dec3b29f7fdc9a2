"""Sitings: some places, by index, that feed a demand together, and how they share it."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.catalog import checks
from railcore.siting.candidates import Candidates
from railcore.siting.cities import nearest_city
from railcore.siting.distances import Located
from railcore.siting.grid import state_of
from railcore.siting.nodes import PowerNodes
from railcore.siting.supply import SHARE_BASES

Places = Candidates | PowerNodes
Sitings = Mapping[str, Sequence[int]]  # indices of places by name of the siting
RENEWABLE = ("geothermal", "hydro", "solar", "wind", "wind_offshore")


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
