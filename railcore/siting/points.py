"""Points on the map, and what the plants within a radius of each have."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from railcore.network.globe import unit_vectors
from railcore.siting.geometry import within_radii
from railcore.siting.grid import PowerGrid, state_of, state_outlines
from railcore.siting.supply import Supply, counted_plants, supply_of_groups

Lattice = tuple[np.ndarray, np.ndarray, np.ndarray]  # latitude, longitude, state


@dataclass(frozen=True)
class MapPoints:
    """Points on the map, and the plants within a radius of each.

    grid: whose plants they are.
    radius_m: how far a plant may lie from its point [m].
    oil: whether plants that burn oil count.
    latitude, longitude, state: of the points, shape (n,).
    plants: sparse (n, plants of the grid) with 1 for a member.
    supply: what the plants of each have.
    """

    grid: PowerGrid
    radius_m: float
    oil: bool
    latitude: np.ndarray
    longitude: np.ndarray
    state: np.ndarray
    plants: csr_array
    supply: Supply

    def __len__(self) -> int:
        return len(self.latitude)

    def __getitem__(self, chosen: Any) -> "MapPoints":
        """The same of some points, by mask or index."""
        parts = ("latitude", "longitude", "state", "plants", "supply")
        return replace(self, **{name: getattr(self, name)[chosen] for name in parts})

    def most_of(self, column: str) -> np.ndarray:
        """Label of the plants' column ("authority", "interconnect") that has most of each point's counted power."""
        return self.grid.largest_label(column, self.plants, self.grid.power_w * counted_plants(self.grid, self.oil))

    @cached_property
    def interconnect(self) -> np.ndarray:
        """Interconnection that has most of each point's counted power."""
        return self.most_of("interconnect")


def lattice(grid: PowerGrid, step_deg: float = 0.25) -> Lattice:
    """Latitude, longitude and state of a lattice of points over the country and of each site of plants.

    The sites are points too because a small circle around a point of the lattice misses plants between two points.
    step_deg: between two points [degrees], above 0.
    """
    corners = np.concatenate([ring for rings in state_outlines().values() for ring in rings])  # longitude, latitude
    first, last = np.floor(corners.min(axis=0) / step_deg), np.ceil(corners.max(axis=0) / step_deg)
    east, north = (np.arange(low, high + 1) * step_deg for low, high in zip(first, last, strict=True))
    latitude, longitude = (axis.ravel() for axis in np.meshgrid(north, east, indexing="ij"))
    sites = grid.plants.drop_duplicates("sub_id")
    latitude, longitude = np.append(latitude, sites["latitude"]), np.append(longitude, sites["longitude"])
    state = state_of(latitude, longitude)
    land = state != ""  # a site off the simplified coast lies in circles, but is no point
    return latitude[land], longitude[land], state[land]


def points_around(
    grid: PowerGrid,
    radius_m: float,
    step_deg: float = 0.25,
    oil: bool = True,
    coal_basis: str = "capacity",
    at: Lattice | None = None,
) -> MapPoints:
    """Points that have plants to count within a radius.

    Parameters
    ----------
    grid, radius_m
        Whose plants, and how far they may lie from a point [m], 5 to 150 km.
    step_deg
        Between the points of the lattice [degrees].
    oil
        Whether plants that burn oil count.
    coal_basis
        Of the share of coal: "capacity" or "energy".
    at
        Lattice in place of those of `lattice`.

    Returns
    -------
    `MapPoints` of the radius.

    Raises
    ------
    ValueError
        For a radius outside 5 to 150 km.
    """
    return points_by_radius(grid, [radius_m], [oil], step_deg, coal_basis, at)[0]


def points_by_radius(
    grid: PowerGrid,
    radii_m: Iterable[float],
    oil: Iterable[bool] = (True, False),
    step_deg: float = 0.25,
    coal_basis: str = "capacity",
    at: Lattice | None = None,
) -> list[MapPoints]:
    """`points_around` each radius, with and without oil, of the same lattice.

    Parameters
    ----------
    grid, step_deg, coal_basis, at
        As in `points_around`.
    radii_m
        Each radius, 5 to 150 km [m].
    oil
        Whether plants that burn oil count: True, False or both.

    Returns
    -------
    `MapPoints` by radius, then by oil.

    Raises
    ------
    ValueError
        For a radius outside 5 to 150 km.
    """
    radii, oil_counts = list(radii_m), list(oil)
    for radius in radii:
        if not 5e3 <= radius <= 150e3:
            raise ValueError(f"radius_m is {radius!r}: give 5000 to 150000 m (5 to 150 km)")
    at = lattice(grid, step_deg) if at is None else at
    here = unit_vectors(at[0], at[1])
    tables = (grid.plants, grid.loads, grid.substations)
    circles = (within_radii(here, unit_vectors(table["latitude"], table["longitude"]), radii) for table in tables)
    by_radius = []
    for radius, plants, loads, substations in zip(radii, *circles, strict=True):
        for with_oil in oil_counts:
            supply = supply_of_groups(grid, plants, loads, substations, with_oil, coal_basis)
            found = MapPoints(grid, radius, with_oil, *at, plants, supply)
            by_radius.append(found[np.flatnonzero(supply.installed_w > 0)])
    return by_radius
