"""Sitings side by side: their places, mix of fuels, sun, faults, delay to people, carbon and cost of energy.

A siting names some places, by index, that feed a demand together, each a share as even as its power allows. Where the
powers of its places do not sum to the demand, all that is weighted by shares is NaN.

Carbon intensities are those at the stack (catalog family fuels, `carbon_intensity`): a plant's building, its fuel's
mining and transport and leaked methane are not counted, so nuclear, hydro, wind and solar power have 0. Prices of
energy are those that industry paid on average in a state.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from railcore.catalog import files, units
from railcore.network.globe import great_circle_distance
from railcore.siting.candidates import Candidates
from railcore.siting.cities import cities, nearest_city
from railcore.siting.distances import Located, fibre_delays_s
from railcore.siting.grid import PowerGrid, state_of
from railcore.siting.nodes import PowerNodes
from railcore.siting.supply import plant_idle_fuelled_w, power_or_energy

Places = Candidates | PowerNodes
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
    Columns siting, place (index), name (from the nearest city), state (of the centre), latitude, longitude, radius_m,
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
    places: Candidates, sitings: Sitings, power_w: ArrayLike, demand_w: float, oil: bool = True
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
    industry paid in the states of the centres, 2023; a datacenter of this size pays another price), usd_per_kWh; NaN
    where a state has no price.
    """
    joules, rows = demand_w * units.year, []
    carbon = marginal_intensity(places.grid, places.plants, oil)
    price = np.array([electricity_prices().get(state, np.nan) for state in places.state])
    for name, (at, share) in demand_shares(places, sitings, power_w, demand_w).items():
        intensity, mean_price = float(share @ carbon[at]), float(share @ price[at])
        rows.append((name, joules * intensity, intensity * units.kWh, joules * mean_price, mean_price * units.kWh))
    return pd.DataFrame(rows, columns=["siting", "carbon_kg", "kg_per_kWh", "cost_usd", "usd_per_kWh"])


def marginal_intensity(grid: PowerGrid, plants: csr_array, oil: bool = True) -> np.ndarray:
    """Carbon of a joule from what each group leaves idle [kg/J], which a new datacenter would draw; NaN for none.

    k = sum w e / sum w, with carbon intensity e and w of `plant_idle_fuelled_w`. All plants give the same share of
    what they have idle; the order in which a market calls them is left out. plants: sparse (groups, plants of the
    grid) with 1 for a member.
    """
    idle_w = plant_idle_fuelled_w(grid, oil)
    total, carbon = plants @ idle_w, plants @ (idle_w * grid.fuel("carbon_intensity"))
    return np.divide(carbon, total, out=np.full(len(total), np.nan), where=total > 0)


@cache
def electricity_prices() -> Mapping[str, float]:
    """What industry paid for energy in 2023 by state [USD/J]; no value for Wyoming."""
    table = pd.read_csv(files.data("grid/state_prices.csv"))
    return dict(zip(table["state"], table["industrial_cents_per_kwh"] / 100 / units.kWh, strict=True))
