"""Propagation between sites, from the length of the way that light takes."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.facts.checks import Floats, at_least, positive


def great_circle_distance(
    latitude_a: ArrayLike, longitude_a: ArrayLike, latitude_b: ArrayLike, longitude_b: ArrayLike
) -> Floats:
    """Shortest way over the Earth between two places.

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

    Raises
    ------
    ValueError
        A latitude outside [-90, 90] or a longitude outside [-180, 180].
    """
    for name, value, most in (
        ("latitude_a", latitude_a, 90),
        ("latitude_b", latitude_b, 90),
        ("longitude_a", longitude_a, 180),
        ("longitude_b", longitude_b, 180),
    ):
        if not np.all(np.abs(value) <= most):
            raise ValueError(f"{name} is {value!r}: give degrees from {-most} to {most}")
    phi_a, lambda_a, phi_b, lambda_b = map(np.radians, (latitude_a, longitude_a, latitude_b, longitude_b))
    across = np.cos(phi_a) * np.cos(phi_b) * np.sin((lambda_b - lambda_a) / 2) ** 2
    chord = np.sqrt(np.minimum(np.sin((phi_b - phi_a) / 2) ** 2 + across, 1))
    return 2 * catalog.item("wide_area", "Earth")["radius"] * np.arcsin(chord)


def one_way_delay(distance: ArrayLike, route_factor: ArrayLike, fibre_delay: ArrayLike) -> Floats:
    """Propagation from one site to the other [s]: T = D f tau.

    distance D: great circle [m]; route_factor f: length of the fibre over it, at least 1; fibre_delay tau [s/m].
    """
    f = at_least("route_factor", route_factor, 1)
    return at_least("distance", distance) * f * positive("fibre_delay", fibre_delay)


@dataclass(frozen=True)
class Route:
    """Fibre between two sites: great circle [m], its length over that with bounds, and delay of the fibre [s/m]."""

    distance_m: float
    factor: float
    factor_low: float
    factor_high: float
    fibre_delay: float

    @property
    def delay_s(self) -> float:
        """One way, at the middle of the route factor's range."""
        return float(one_way_delay(self.distance_m, self.factor, self.fibre_delay))

    @property
    def round_trip_s(self) -> float:
        """There and back."""
        return 2 * self.delay_s

    @property
    def delays_s(self) -> tuple[float, float]:
        """One way at the ends of the range."""
        ends = one_way_delay(self.distance_m, [self.factor_low, self.factor_high], self.fibre_delay)
        return float(ends[0]), float(ends[1])

    def factor_for(self, delay: float) -> float:
        """Fibre over great circle that a one-way delay [s] stands for: f = T / (D tau)."""
        return float(positive("delay", delay) / (self.distance_m * self.fibre_delay))


def fibre_route(site_a: str, site_b: str) -> Route:
    """Route between two items of the catalog's wide_area that have coordinates, along the catalog's fibre."""
    a, b, fibre = (catalog.item("wide_area", name) for name in (site_a, site_b, "fibre"))
    places = (place[axis] for place in (a, b) for axis in ("latitude_deg", "longitude_deg"))
    factor = fibre.row("route_factor")
    return Route(float(great_circle_distance(*places)), factor.value, factor.low, factor.high, fibre["delay"])
