"""Which points of the Earth lie within a radius of others, and which inside an outline."""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from railcore.facts import checks
from railcore.facts.globe import chord_length


def within_radius(a: np.ndarray, b: np.ndarray, radius_m: float) -> csr_array:
    """Sparse matrix (a, b) with 1.0 where point b lies within radius_m of point a; both as `unit_vectors`.

    Raises ValueError for a radius that is not above 0.
    """
    chord = chord_length(float(checks.positive("radius_m", radius_m, "metres")))
    pairs = cKDTree(a).sparse_distance_matrix(cKDTree(b), chord, output_type="ndarray")
    near = csr_array((np.ones(len(pairs)), (pairs["i"], pairs["j"])), shape=(len(a), len(b)))
    near.sort_indices()  # so that sums over a row add up in the same order
    return near


def inside_rings(points: np.ndarray, rings: Sequence[np.ndarray]) -> np.ndarray:
    """True for the points (n, 2) inside an odd number of closed rings (m, 2) of corners.

    A ray from a point inside crosses edges an odd number of times. A point on an edge is inside of at most one side.
    """
    x, y = points.T[:, :, None]  # each against all edges, from (x0, y0) to (x1, y1)
    (x0, y0), (x1, y1) = (np.concatenate([ring[ends] for ring in rings]).T for ends in (slice(-1), slice(1, None)))
    level = (np.minimum(y0, y1) < y) & (y <= np.maximum(y0, y1))
    left = (y - y0) * (x1 - x0) >= (x - x0) * (y1 - y0)  # of an edge that rises; an edge that falls has it on its right
    crossed = level & (left == (y1 > y0))
    return crossed.sum(axis=1) % 2 == 1
