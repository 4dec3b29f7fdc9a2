"""Places of a siting: how far apart they are, the delay between them, and the share of a demand that each feeds."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.network.wide_area import great_circle_distance, one_way_delay
from railcore.systems.siting.grid import Grid
from railcore.systems.siting.supply import Supply

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_array

BOUNDS = ("low", "middle", "high")


class Located(Protocol):
    """Places by their centres, such as `split.Options`."""

    @property
    def latitude(self) -> np.ndarray:
        """Of the centres [degrees], shape (places,)."""
        ...

    @property
    def longitude(self) -> np.ndarray:
        """Of the centres [degrees]."""
        ...


class Places(Located, Protocol):
    """Places with their plants, such as `Candidates` and `Nodes`."""

    @property
    def grid(self) -> Grid:
        """Whose plants they are."""
        ...

    @property
    def radius_m(self) -> float:
        """Of each [m]."""
        ...

    @property
    def plants(self) -> "csr_array":
        """1 where a row of the grid's plants belongs to a place."""
        ...

    @property
    def supply(self) -> Supply:
        """Powers of the places."""
        ...

    def most_of(self, column: str) -> np.ndarray:
        """Label of the plants' column that has most of each place's power."""
        ...


def between_m(latitude: np.ndarray, longitude: np.ndarray) -> np.ndarray:
    """Great circle between every two places [m], shape (places, places)."""
    return great_circle_distance(latitude[:, None], longitude[:, None], latitude, longitude)


def ways(places: Located, chosen: Sequence[int], route_factor: float = 0.0) -> "pd.DataFrame":
    """Every two of the chosen places: columns latitude, longitude, latitude_to, longitude_to, distance_m, delay_s."""
    import pandas as pd

    at = np.asarray(chosen, int)
    one, other = (at[ends] for ends in np.triu_indices(len(at), 1))
    lat, lon = places.latitude, places.longitude
    far = great_circle_distance(lat[one], lon[one], lat[other], lon[other])
    where = {"latitude": lat[one], "longitude": lon[one], "latitude_to": lat[other], "longitude_to": lon[other]}
    return pd.DataFrame(where | {"distance_m": far, "delay_s": delays_s(far, route_factor)["middle"]})


def delays_s(distance_m: ArrayLike, route_factor: float = 0.0) -> dict[str, Any]:
    """One-way delay T = D f tau [s] of a great circle D: low, middle and high, of the catalog's fibre.

    route_factor f: length of the fibre over the great circle; 0 for the catalog's, whose bounds give low and high.
    """
    fibre = catalog.item("wide_area", "fibre")
    row, tau = fibre.row("route_factor"), fibre["delay"]
    factors = [route_factor] * 3 if route_factor else [row.low, row.value, row.high]
    return {bound: one_way_delay(distance_m, factor, tau) for bound, factor in zip(BOUNDS, factors, strict=True)}


def shares(power_w: Sequence[float], demand_w: float) -> np.ndarray:
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


def feeds(power_w: Sequence[float], demand_w: float) -> np.ndarray:
    """`shares`, all NaN where the powers do not suffice."""
    return shares(power_w, demand_w) if np.sum(power_w) >= demand_w else np.full(len(power_w), np.nan)


def indices(places: Located, power_w: np.ndarray, sitings: Mapping[str, Sequence[int]]) -> dict[str, np.ndarray]:
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
