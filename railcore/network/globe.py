"""Points on the Earth, a sphere: unit vectors, distances, and the shortest way between two places."""

import numpy as np
from numpy.typing import ArrayLike

from railcore import catalog


def earth_radius_m() -> float:
    """Mean radius R of the catalog's Earth [m]."""
    return catalog.item("wide_area", "Earth")["radius"]


def great_circle_distance(
    latitude_a: ArrayLike, longitude_a: ArrayLike, latitude_b: ArrayLike, longitude_b: ArrayLike
) -> np.ndarray:
    """Shortest distance over the Earth between two places.

    D = 2 R asin sqrt(sin^2((phi_b - phi_a) / 2) + cos phi_a cos phi_b sin^2((lambda_b - lambda_a) / 2))

    Parameters
    ----------
    latitude_a, latitude_b
        Latitudes phi, north positive [degrees].
    longitude_a, longitude_b
        Longitudes lambda, east positive [degrees].

    Returns
    -------
    D [m], with R of the catalog's Earth.
    """
    phi_a, lambda_a, phi_b, lambda_b = map(np.radians, (latitude_a, longitude_a, latitude_b, longitude_b))
    across = np.cos(phi_a) * np.cos(phi_b) * np.sin((lambda_b - lambda_a) / 2) ** 2
    chord = np.sqrt(np.minimum(np.sin((phi_b - phi_a) / 2) ** 2 + across, 1))
    return 2 * earth_radius_m() * np.arcsin(chord)


def unit_vectors(latitude: ArrayLike, longitude: ArrayLike) -> np.ndarray:
    """Points of the unit sphere, shape (n, 3): (cos phi cos lambda, cos phi sin lambda, sin phi), from degrees."""
    phi, lam = np.radians(np.atleast_1d(latitude).astype(float)), np.radians(np.atleast_1d(longitude).astype(float))
    return np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)], axis=-1)


def degrees_of(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Latitude and longitude [degrees] of vectors of any length, shape (n, 3)."""
    x, y, z = vectors.T
    return np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.arctan2(y, x))


def chord_length(distance_m: float) -> float:
    """Straight line between points of the unit sphere a great-circle distance D apart: 2 sin(D / 2R)."""
    return float(2 * np.sin(min(distance_m / (2 * earth_radius_m()), np.pi / 2)))


def chord_distance(chord: ArrayLike) -> np.ndarray:
    """Great circle between points of the unit sphere a straight line `chord` apart [m]: 2 R arcsin(chord / 2)."""
    return 2 * np.arcsin(np.asarray(chord) / 2) * earth_radius_m()


def great_circle_way(start: tuple[float, float], end: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Latitude and longitude [degrees] of 41 points along the shortest way between two places.

    (start sin (1 - t) d + end sin t d) / sin d of their unit vectors, d the angle between them, t from 0 to 1.
    start, end: (latitude, longitude) [degrees].
    """
    one, other = unit_vectors(*np.array([start, end]).T)
    d = np.arccos(np.clip(one @ other, -1, 1)) or 1e-9
    t = np.linspace(0, 1, 41)[:, None]
    return degrees_of((one * np.sin((1 - t) * d) + other * np.sin(t * d)) / np.sin(d))
