"""Sites on the globe: distances between them and to places of the catalog, links, fibre and its delay."""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.network.globe import great_circle_distance
from railcore.network.wide_area import one_way_delay


class Located(Protocol):
    """Sites, such as `MapPoints`, `PowerNodes` and `AvailablePower`."""

    @property
    def latitude(self) -> np.ndarray:
        """Of the sites [degrees], shape (sites,)."""

    @property
    def longitude(self) -> np.ndarray:
        """Of the sites [degrees], shape (sites,)."""


def pair_distances_m(sites: Located, pairs: np.ndarray) -> np.ndarray:
    """Great circles between the two sites of each pair of indices [m], shape (pairs,)."""
    one, other = np.asarray(pairs, int).reshape(-1, 2).T
    lat, lon = sites.latitude, sites.longitude
    return np.asarray(great_circle_distance(lat[one], lon[one], lat[other], lon[other]))


def index_pairs(chosen: Sequence[int] | np.ndarray) -> np.ndarray:
    """Every two of some indices, shape (pairs, 2)."""
    return np.asarray(chosen, int)[np.stack(np.triu_indices(len(chosen), 1), axis=1)]


def diameter_m(sites: Located, chosen: Sequence[int] | np.ndarray) -> float:
    """Longest distance between two of the chosen sites [m], 0 for one."""
    return float(pair_distances_m(sites, index_pairs(chosen)).max(initial=0.0))


def pairwise_links(sites: Located, chosen: Sequence[int]) -> pd.DataFrame:
    """Every two of the chosen sites: columns latitude, longitude, latitude_to, longitude_to, distance_m, delay_s."""
    pairs = index_pairs(chosen)
    ends = {"": pairs[:, 0], "_to": pairs[:, 1]}
    where = {f"{axis}{end}": getattr(sites, axis)[at] for end, at in ends.items() for axis in ("latitude", "longitude")}
    far = pair_distances_m(sites, pairs)
    return pd.DataFrame(where | {"distance_m": far, "delay_s": fibre_delays_s(far)["middle"]})


def fibre_delays_s(distance_m: ArrayLike) -> dict[str, Any]:
    """One-way delay T = D f tau [s] over the catalog's fibre, for a great circle D: low, middle and high.

    f: length of the fibre over the great circle, the catalog's route factor with its bounds.
    """
    fibre = catalog.item("wide_area", "fibre")
    f, tau = fibre.row("route_factor"), fibre["delay"]
    factors = {"low": f.low, "middle": f.value, "high": f.high}
    return {bound: one_way_delay(distance_m, factor, tau) for bound, factor in factors.items()}


def distance_to_place(sites: Located, item: str) -> np.ndarray:
    """Great circle from each site to a place of the catalog's family wide_area [m]."""
    place = catalog.item("wide_area", item)
    return great_circle_distance(sites.latitude, sites.longitude, place["latitude_deg"], place["longitude_deg"])
