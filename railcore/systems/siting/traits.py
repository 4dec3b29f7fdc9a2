"""What speaks for a siting beside power and training time: separate grids, fuels, sun, faults, users nearby."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import units
from railcore.network.wide_area import great_circle_distance
from railcore.systems.siting.geometry import fibre_delays_s
from railcore.systems.siting.grid import cities
from railcore.systems.siting.placement import RENEWABLE, Places, Sitings, checked_sitings, power_mix, shares_or_nan

DEGREES_PER_HOUR = 15.0  # that the sun moves over
NEARBY_M = 500e3  # places that one storm or fault may take together
WITHIN_S = (5e-3, 10e-3, 20e-3)  # delays of users that are told


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
    ValueError for no place.
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
    ValueError as in `placement.checked_sitings`.
    """
    power = np.asarray(power_w, float)
    capacity, energy = (power_mix(places, "fuel", basis) for basis in ("capacity", "energy"))
    green = list(energy.columns.intersection(RENEWABLE))
    owners = {column: power_mix(places, column) for column in ("authority", "interconnect")}
    rows = []
    for name, at in checked_sitings(places, power, sitings).items():
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
                **user_latency(lat, lon, WITHIN_S),
            }
        )
    return pd.DataFrame(rows)


def _names_by_power(mix: pd.DataFrame) -> str:
    """Columns that have power in any row, those with most first."""
    total = mix.sum().sort_values(ascending=False, kind="stable")
    return ", ".join(total.index[total > 0])
