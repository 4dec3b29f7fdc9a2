"""Points on the Earth: unit vectors, which points lie within a radius of others, distances, fibre and its delay."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array
from scipy.spatial import cKDTree

from railcore.facts import catalog, checks
from railcore.facts.globe import chord_length, great_circle_distance
from railcore.network.wide_area import one_way_delay


class Located(Protocol):
    """Sites with a centre each, such as `Candidates`, `PowerNodes` and `SiteOptions`."""

    @property
    def latitude(self) -> np.ndarray:
        """Of the centres [degrees], shape (sites,)."""

    @property
    def longitude(self) -> np.ndarray:
        """Of the centres [degrees], shape (sites,)."""


def within_radius(a: np.ndarray, b: np.ndarray, radius_m: float) -> csr_array:
    """Sparse matrix (a, b) with 1.0 where point b lies within radius_m of point a; both as `unit_vectors`.

    Raises ValueError for a radius that is not above 0.
    """
    return within_radii(a, b, [radius_m])[0]


def within_radii(a: np.ndarray, b: np.ndarray, radii_m: Iterable[float]) -> list[csr_array]:
    """`within_radius` of each radius: the pairs of the largest radius are found once, the others are among them."""
    chords = [chord_length(float(checks.positive("radius_m", radius, "metres"))) for radius in radii_m]
    pairs = cKDTree(a).sparse_distance_matrix(cKDTree(b), max(chords), output_type="ndarray")
    ends = (pairs["i"].astype(np.int32), pairs["j"].astype(np.int32))
    near, found = coo_array((pairs["v"], ends), shape=(len(a), len(b))), []
    near.has_canonical_format = True  # each pair is there once
    near = near.tocsc().tocsr()  # sorts the columns of each row
    for limit in chords:
        inside = near.data <= limit
        start = np.concatenate([[0], np.cumsum(inside, dtype=near.indptr.dtype)])[near.indptr]
        found.append(csr_array((np.ones(start[-1]), near.indices[inside], start), shape=near.shape))
    return found


def inside_rings(points: np.ndarray, rings: Sequence[np.ndarray]) -> np.ndarray:
    """True for the points (n, 2) inside an odd number of closed rings (m, 2) of corners.

    A ray from a point inside crosses edges an odd number of times. A point on an edge is inside of at most one side.
    """
    start, end = (np.concatenate([ring[part] for ring in rings]) for part in (slice(-1), slice(1, None)))
    rising = np.argsort(points[:, 1], kind="stable")
    low, high = (
        np.searchsorted(points[rising, 1], edge(start[:, 1], end[:, 1]), "right") for edge in (np.minimum, np.maximum)
    )
    count = high - low  # of the points level with each edge
    edge = np.repeat(np.arange(len(count)), count)
    point = rising[np.arange(len(edge)) + np.repeat(low - np.cumsum(count) + count, count)]
    (x, y), (x0, y0), (x1, y1) = points[point].T, start[edge].T, end[edge].T
    left = (y - y0) * (x1 - x0) >= (x - x0) * (y1 - y0)  # of an edge that rises; an edge that falls has it on its right
    crossed = left == (y1 > y0)
    return np.bincount(point[crossed], minlength=len(points)) % 2 == 1


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
