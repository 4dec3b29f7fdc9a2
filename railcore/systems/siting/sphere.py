"""Which points lie within a radius of others on the Earth, as a sparse matrix."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import catalog

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def unit_vectors(latitude: ArrayLike, longitude: ArrayLike) -> np.ndarray:
    """Points of the unit sphere, shape (n, 3): (cos phi cos lambda, cos phi sin lambda, sin phi), from degrees.

    Raises ValueError for a latitude outside [-90, 90] and a longitude outside [-180, 180].
    """
    for name, given, most in (("latitude", latitude, 90), ("longitude", longitude, 180)):
        if not np.all(np.abs(np.asarray(given, float)) <= most):
            raise ValueError(f"{name} is {given!r}: give degrees from {-most} to {most}")
    phi, lam = np.radians(np.atleast_1d(latitude).astype(float)), np.radians(np.atleast_1d(longitude).astype(float))
    return np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)], axis=-1)


def chord(distance_m: float) -> float:
    """Straight way through the unit sphere between points that are a great-circle distance apart: 2 sin(D / 2R)."""
    return float(2 * np.sin(min(distance_m / (2 * catalog.item("wide_area", "Earth")["radius"]), np.pi / 2)))


def members(
    latitude_a: ArrayLike, longitude_a: ArrayLike, latitude_b: ArrayLike, longitude_b: ArrayLike, radius_m: float
) -> "csr_array":
    """Sparse matrix (a, b) with 1.0 where point b lies within radius_m of point a.

    Raises ValueError for a radius that is not above 0.
    """
    return circles(latitude_a, longitude_a, latitude_b, longitude_b, [radius_m])[0]


def circles(
    latitude_a: ArrayLike,
    longitude_a: ArrayLike,
    latitude_b: ArrayLike,
    longitude_b: ArrayLike,
    radii_m: Iterable[float],
) -> "list[csr_array]":
    """`members` of each radius: pairs are looked for at the largest, and those of the others are taken from them."""
    from scipy.sparse import coo_array, csr_array
    from scipy.spatial import cKDTree

    radii = list(radii_m)
    for radius in radii:
        if not 0 < radius < np.inf:
            raise ValueError(f"radius_m is {radius!r}: give a distance above 0, such as 100e3 for 100 km")
    a, b = cKDTree(unit_vectors(latitude_a, longitude_a)), cKDTree(unit_vectors(latitude_b, longitude_b))
    pairs = a.sparse_distance_matrix(b, chord(max(radii)), output_type="ndarray")  # keeps pairs at distance 0
    at = (pairs["i"].astype(np.int32), pairs["j"].astype(np.int32))
    near = coo_array((pairs["v"], at), shape=(a.n, b.n))
    near.has_canonical_format = True  # no pair comes twice
    near, found = near.tocsc().tocsr(), {}  # by way of columns, which sorts them
    for radius in sorted(set(radii), reverse=True):
        inside = near.data <= chord(radius)
        start = np.concatenate([[0], np.cumsum(inside, dtype=near.indptr.dtype)])[near.indptr]
        near = csr_array((near.data[inside], near.indices[inside], start), shape=near.shape)
        found[radius] = csr_array((np.ones(near.nnz), near.indices, start), shape=near.shape)
    return [found[radius] for radius in radii]


def row_max(groups: "csr_array", values: np.ndarray) -> np.ndarray:
    """Largest value of each group's members, 0 for a group of none. groups: (groups, members) of a `members` kind."""
    most = np.zeros(groups.shape[0])
    filled = np.flatnonzero(np.diff(groups.indptr))
    if len(filled):
        most[filled] = np.maximum.reduceat(values[groups.indices], groups.indptr[filled])
    return most
