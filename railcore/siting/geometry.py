"""Which points of the Earth lie within a radius of others, and which inside an outline."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.spatial import cKDTree

from railcore.network.globe import chord_length

Vectors = NDArray[np.float64]  # unit vectors


def within_radius(a: Vectors, b: Vectors, radius_m: float) -> csr_array:
    """Sparse matrix (a, b) with 1.0 where point b lies within radius_m of point a."""
    return within_radii(a, b, [radius_m])[0]


def within_radii(a: Vectors, b: Vectors, radii_m: Iterable[float]) -> list[csr_array]:
    """`within_radius` of each radius: the pairs of the largest radius are found once, the others are among them."""
    chords = [chord_length(radius) for radius in radii_m]
    pairs = cKDTree(a).sparse_distance_matrix(cKDTree(b), max(chords), output_type="ndarray")
    ends = (pairs["i"].astype(np.int32), pairs["j"].astype(np.int32))
    near, matrices = coo_array((pairs["v"], ends), shape=(len(a), len(b))), []
    near.has_canonical_format = True  # each pair is there once
    near = near.tocsc().tocsr()  # sorts the columns of each row
    for limit in chords:
        inside = near.data <= limit
        start = np.concatenate([[0], np.cumsum(inside, dtype=near.indptr.dtype)])[near.indptr]
        matrices.append(csr_array((np.ones(start[-1]), near.indices[inside], start), shape=near.shape))
    return matrices


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
