"""The wide area: fibre between two sites, and its delay."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.catalog.checks import Floats
from railcore.network.globe import great_circle_distance


def one_way_delay(distance: ArrayLike, route_factor: ArrayLike, fibre_delay: ArrayLike) -> Floats:
    """Propagation from one site to the other [s]: T = D f tau.

    distance D: great circle [m]; route_factor f: length of the fibre over it, at least 1; fibre_delay tau [s/m].
    """
    return np.asarray(distance, float) * np.asarray(route_factor, float) * np.asarray(fibre_delay, float)


@dataclass(frozen=True)
class Route:
    """Fibre between two sites.

    distance_m: on the great circle [m].
    factor, factor_low, factor_high: length of the fibre over that, with bounds.
    fibre_delay: propagation along the fibre [s/m].
    """

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
    def delay_range_s(self) -> tuple[float, float]:
        """One way at the ends of the range."""
        ends = one_way_delay(self.distance_m, [self.factor_low, self.factor_high], self.fibre_delay)
        return float(ends[0]), float(ends[1])

    def factor_for(self, delay: float) -> float:
        """Route factor that a one-way delay [s] implies: f = T / (D tau)."""
        return delay / (self.distance_m * self.fibre_delay)


def fibre_route(site_a: str, site_b: str) -> Route:
    """Route between two items of the catalog's wide_area that have coordinates, along the catalog's fibre."""
    a, b, fibre = (catalog.item("wide_area", name) for name in (site_a, site_b, "fibre"))
    places = (place[axis] for place in (a, b) for axis in ("latitude_deg", "longitude_deg"))
    factor = fibre.row("route_factor")
    return Route(float(great_circle_distance(*places)), factor.value, factor.low, factor.high, fibre["delay"])
