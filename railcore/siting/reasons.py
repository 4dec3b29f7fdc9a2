"""What speaks for each siting beside power and training: mix of fuels, sun, faults, delay to people, carbon and cost.

Carbon intensities are those at the stack (catalog family fuels, `carbon_intensity`): a plant's building, its fuel's
mining and transport and leaked methane are not counted, so nuclear, hydro, wind and solar power have 0. Prices of
energy are those that industry paid on average in a state.
"""

from collections.abc import Mapping
from functools import cache
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from railcore.catalog import files, units
from railcore.network.globe import great_circle_distance
from railcore.siting.candidates import Candidates
from railcore.siting.cities import cities
from railcore.siting.distances import fibre_delays_s
from railcore.siting.grid import PowerGrid
from railcore.siting.sitings import RENEWABLE, Places, Sitings, power_mix, shares_or_nan, siting_indices
from railcore.siting.supply import plant_idle_fuelled_w

DEGREES_PER_HOUR = 15.0  # that the sun moves over
NEARBY_M = 500e3  # places that one storm or fault may take together
_DELAYS_S = (5e-3, 10e-3, 20e-3)  # delays of users that are told


def siting_traits(places: Places, sitings: Sitings, power_w: ArrayLike, demand_w: float) -> pd.DataFrame:
    """What speaks for each siting beside power and training time.

    Parameters
    ----------
    places, sitings
        Places, and which of them each siting takes.
    power_w, demand_w
        What each place can give, and what all together feed [W].

    Returns
    -------
    A row for each siting: siting, places, interconnects and authorities (of its plants, most power first), separate (no
    two places have plants in one interconnection; False for one place); renewable_capacity, renewable_energy (share of
    what feeds the demand: of places weighted by what they feed); fuel_diversity, renewable_diversity (`mix_diversity`
    in energy of all fuels and of renewable ones); sun_hours (from the place farthest east to that farthest west,
    longitude / 15); lost_place, lost_nearby, lost_authority, lost_interconnect (largest share of the demand that the
    loss of one place, of all within 500 km of one, of an authority, of an interconnection takes); those of
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
        near = great_circle_distance(lat[:, None], lon[:, None], lat, lon) <= NEARBY_M
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
                **user_latency(lat, lon),
            }
        )
    return pd.DataFrame(rows)


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
