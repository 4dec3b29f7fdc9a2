"""Points on the map, and what the plants within a radius of each have."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from railcore.network.globe import unit_vectors
from railcore.siting.geometry import within_radii, within_radius
from railcore.siting.grid import PowerGrid, state_of, state_outlines
from railcore.siting.supply import Supply, counted_plants, supply_of_groups

Lattice = tuple[np.ndarray, np.ndarray, np.ndarray]  # latitude, longitude, state


@dataclass(frozen=True)
class MapPoints:
    """Points on the map, and the plants of one interconnection within a radius of each: no line joins two of them.

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
        """Interconnection that each point's plants belong to: that of most power within the radius."""
        return self.most_of("interconnect")

    def share_of_authority(self, authority: np.ndarray) -> np.ndarray:
        """Share of each point's counted power that plants of an authority have. authority: of each point."""
        labels, power = self.grid.power_by("authority", self.grid.power_w * counted_plants(self.grid, self.oil))
        by_label = (self.plants @ power).toarray()
        return by_label[np.arange(len(self)), np.searchsorted(labels, authority)] / by_label.sum(axis=1)

    def firm_within_w(self, radii: float) -> np.ndarray:
        """Firm power of the interconnection within so many radii of each point [W]."""
        firm_w = self.grid.power_w * self.grid.fuel("firm") * counted_plants(self.grid, self.oil)
        labels, power = self.grid.power_by("interconnect", firm_w)
        by_label = (self._within(self.grid.plants, radii) @ power).toarray()
        return by_label[np.arange(len(self)), np.searchsorted(labels, self.interconnect)]

    def load_within_w(self, radii: float) -> np.ndarray:
        """Load of others within so many radii of each point [W]."""
        return self._within(self.grid.loads, radii) @ self.grid.loads["load_w"].to_numpy(float)

    def _within(self, table: pd.DataFrame, radii: float) -> csr_array:
        here, there = (unit_vectors(places["latitude"], places["longitude"]) for places in (vars(self), table))
        return within_radius(here, there, radii * self.radius_m)


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
    for radius, near, loads, substations in zip(radii, *circles, strict=True):
        plants = _of_one_interconnection(grid, near)
        for with_oil in oil_counts:
            supply = supply_of_groups(grid, plants, loads, substations, with_oil, coal_basis)
            found = MapPoints(grid, radius, with_oil, *at, plants, supply)
            by_radius.append(found[np.flatnonzero(supply.installed_w > 0)])
    return by_radius


def _of_one_interconnection(grid: PowerGrid, plants: csr_array) -> csr_array:
    """The plants of each point that belong to the interconnection with most of its power, coal not counted.

    plants: sparse (points, plants of the grid) with 1 for a member.
    """
    number, labels = pd.factorize(grid.plants["interconnect"].fillna(""), sort=True)
    if len(labels) < 2:
        return plants
    _, by_label = grid.power_by("interconnect", grid.power_w * counted_plants(grid))
    most = (plants @ by_label).toarray().argmax(axis=1)
    keep = number[plants.indices] == np.repeat(most, np.diff(plants.indptr))
    start = np.concatenate([[0], np.cumsum(keep)])[plants.indptr]
    return csr_array((plants.data[keep], plants.indices[keep], start), shape=plants.shape)
