"""Candidates: centres with the plants within a radius, and under which assumptions any of them feeds a datacenter."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railcore.systems.siting.grid import Grid, state_of
from railcore.systems.siting.rules import available, passes
from railcore.systems.siting.sphere import members
from railcore.systems.siting.supply import Supply, counted, supply

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_array

SPAN = {"latitude": (24.5, 49.5), "longitude": (-125.0, -66.75)}  # of the continental United States [degrees]
Centres = tuple[np.ndarray, np.ndarray, np.ndarray]  # latitude, longitude, state
NEAREST, FARTHEST = 5e3, 150e3  # radii that candidates are meant for [m]


@dataclass(frozen=True)
class Candidates:
    """Centres and the plants within a radius of each.

    latitude, longitude, state: of the centres, shape (n,). plants: sparse (n, plants of the grid). supply: of each.
    """

    grid: Grid
    radius_m: float
    oil: bool
    latitude: np.ndarray
    longitude: np.ndarray
    state: np.ndarray
    plants: "csr_array"
    supply: Supply

    def __len__(self) -> int:
        return len(self.latitude)

    def __getitem__(self, chosen: Any) -> "Candidates":
        """The same of some centres, by mask or index."""
        parts = ("latitude", "longitude", "state", "plants", "supply")
        return replace(self, **{name: getattr(self, name)[chosen] for name in parts})

    def most_of(self, column: str) -> np.ndarray:
        """Label of the plants' column ("authority", "interconnect") that has most of each centre's counted power."""
        from scipy.sparse import csr_array

        names, label = np.unique(self.grid.plants[column].fillna("").to_numpy(str), return_inverse=True)
        power = self.grid.plants["power_w"].to_numpy(float) * counted(self.grid, self.oil)
        split = csr_array((power, (np.arange(len(label)), label)), shape=(len(label), len(names)))
        return names[np.asarray((self.plants @ split).todense()).argmax(axis=1)]

    def distance_m(self, latitude: float, longitude: float) -> np.ndarray:
        """Great circle from each centre to a place [m]."""
        from railcore.network.wide_area import great_circle_distance

        return great_circle_distance(self.latitude, self.longitude, latitude, longitude)

    def passing(self, demand_w: float, rule: str, most_coal: float = 0.5, reserve: str = "unit") -> np.ndarray:
        """True for the centres that feed the demand, as `rules.passes`."""
        return passes(self.supply, demand_w, rule, most_coal, reserve)

    def places(self, mask: np.ndarray) -> tuple[int, bool]:
        """How many of the centres of a mask share no plant, and whether that is exact: `most_disjoint`."""
        return most_disjoint(self.plants[np.flatnonzero(mask)])

    def table(self, rule: str, most_coal: float = 0.5, reserve: str = "unit") -> "pd.DataFrame":
        """One row for each centre: where, authority, interconnection, power by the rule and its parts [W]."""
        return self.supply.table().assign(
            latitude=self.latitude,
            longitude=self.longitude,
            state=self.state,
            authority=self.most_of("authority"),
            interconnect=self.most_of("interconnect"),
            available_w=available(self.supply, rule, most_coal, reserve),
        )


def centres(grid: Grid, step_deg: float = 0.25) -> Centres:
    """Latitude, longitude and state of a lattice of centres over the country and of each site of plants.

    The sites stand in because a small circle around a point of the lattice misses plants between two points.
    Raises ValueError for a step that is not above 0 and at most 2 degrees.
    """
    if not 0 < step_deg <= 2:
        raise ValueError(f"step_deg is {step_deg!r}: give degrees above 0 and at most 2, such as 0.25")
    axes = [np.arange(low, high + step_deg / 2, step_deg) for low, high in SPAN.values()]
    latitude, longitude = (axis.ravel() for axis in np.meshgrid(*axes, indexing="ij"))
    sites = grid.plants.drop_duplicates("sub_id")[["latitude", "longitude", "state"]]
    state = state_of(latitude, longitude)
    land = state != ""
    return (
        np.concatenate([latitude[land], sites["latitude"].to_numpy()]),
        np.concatenate([longitude[land], sites["longitude"].to_numpy()]),
        np.concatenate([state[land], sites["state"].to_numpy(object)]),
    )


def neighbours(grid: Grid, radius_m: float, at: Centres) -> "dict[str, csr_array]":
    """Plants, loads and substations within a radius of each centre, as `sphere.members`.

    Raises ValueError for a radius outside 5 to 150 km.
    """
    if not NEAREST <= radius_m <= FARTHEST:
        raise ValueError(f"radius_m is {radius_m!r}: give {NEAREST:.0f} to {FARTHEST:.0f} m (5 to 150 km)")
    tables = {"plants": grid.plants, "loads": grid.loads, "substations": grid.substations}
    return {
        kind: members(at[0], at[1], table["latitude"], table["longitude"], radius_m) for kind, table in tables.items()
    }


def candidates(
    grid: Grid,
    radius_m: float,
    step_deg: float = 0.25,
    oil: bool = True,
    coal_basis: str = "capacity",
    at: Centres | None = None,
    near: "Mapping[str, csr_array] | None" = None,
) -> Candidates:
    """Candidates of a radius around the points of `centres` that have plants to count.

    at: other centres. near: what `neighbours` found for the same radius and centres, where it is used twice.
    Raises ValueError for a radius outside 5 to 150 km.
    """
    at = centres(grid, step_deg) if at is None else at
    near = neighbours(grid, radius_m, at) if near is None else near
    latitude, longitude, state = at
    found = supply(grid, **near, oil=oil, coal_basis=coal_basis)
    every = Candidates(grid, radius_m, oil, latitude, longitude, state, near["plants"], found)
    return every[np.flatnonzero(found.installed_w > 0)]


def most_disjoint(plants: "csr_array", exact: int = 110) -> tuple[int, bool]:
    """How many rows can be taken at once so that no two share a plant, and whether that is exact.

    Set packing, max sum y with sum over the rows that hold a plant of y <= 1, y in {0, 1}, solved by HiGHS for at most
    `exact` rows. More rows: a lower bound, rows with fewer plants taken first.
    """
    if not plants.shape[0]:
        return 0, True
    order = np.argsort(np.diff(plants.indptr), kind="stable")
    holders = plants[order].T.tocsr()  # rows are plants, columns the candidates with fewest plants first
    if len(order) > exact:
        return _taken_in_turn(holders), False
    from scipy.optimize import Bounds, LinearConstraint, milp

    shared = holders[np.flatnonzero(np.diff(holders.indptr) > 1)]
    limits = [LinearConstraint(shared, -np.inf, 1)] if shared.shape[0] else []
    ones = np.ones(len(order))
    found = milp(-ones, constraints=limits, bounds=Bounds(0, 1), integrality=ones, options={"mip_rel_gap": 0})
    return round(-found.fun), True


def _taken_in_turn(holders: "csr_array") -> int:
    """Columns taken from the left, each that shares no row with one taken before."""
    of_column, free, count = holders.tocsc(), np.ones(holders.shape[1], bool), 0
    while free.any():
        column = int(free.argmax())
        count += 1
        free[column] = False
        for row in of_column.indices[of_column.indptr[column] : of_column.indptr[column + 1]]:
            free[holders.indices[holders.indptr[row] : holders.indptr[row + 1]]] = False
    return count
