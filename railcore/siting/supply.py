"""What a group of plants has: power by kind, its largest producer, the load around it and the lines that leave."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from railcore.catalog.checks import Floats
from railcore.siting.grid import PowerGrid

COAL = "coal"


@dataclass(frozen=True)
class Supply:
    """Powers of groups of plants [W], arrays with one entry for each group. Coal counts in coal_w and coal_share only.

    installed_w: of all plants but coal.
    firm_w: of those that are dispatchable: they run at call.
    idle_w: what the firm plants do not use in an average hour.
    idle_fuelled_w: of idle_w, that of plants whose fuel can be bought: neither water nor heat of the earth.
    largest_unit_w, largest_site_w: largest producer, by generator (NaN where a plant's units are unknown) and by site.
    largest_firm_unit_w: largest generator of the firm plants; NaN as largest_unit_w.
    coal_w: installed coal.
    coal_share: share of coal in capacity or energy.
    load_w: load of others inside the group, in the one hour that the grid models.
    interconnect_w: power of the lines that cross the group's border.
    """

    installed_w: Floats
    firm_w: Floats
    idle_w: Floats
    idle_fuelled_w: Floats
    largest_unit_w: Floats
    largest_site_w: Floats
    largest_firm_unit_w: Floats
    coal_w: Floats
    coal_share: Floats
    load_w: Floats
    interconnect_w: Floats

    def __getitem__(self, chosen: Any) -> "Supply":
        """The same of some groups, by mask or index."""
        return Supply(**{name: power[chosen] for name, power in vars(self).items()})

    def table(self) -> pd.DataFrame:
        """One row for each group."""
        return pd.DataFrame(vars(self))


def counted_plants(grid: PowerGrid, oil: bool = True) -> np.ndarray:
    """True for the plants that rules count: all but coal and, where `oil` is False, oil."""
    return ~grid.plants["fuel"].isin([COAL] if oil else [COAL, "oil"]).to_numpy()


def plant_idle_fuelled_w(grid: PowerGrid, oil: bool = True) -> np.ndarray:
    """What each counted plant leaves idle in an average hour and can buy fuel for [W]: f e p (1 - c).

    f 1 for dispatchable fuels, e 1 for fuels that can be bought, p power, c capacity factor; else 0.
    """
    idle = grid.power_w * grid.fuel("firm") * (1 - grid.fuel("capacity_factor"))
    return idle * grid.fuel("fuelled") * counted_plants(grid, oil)


def supply_of_groups(
    grid: PowerGrid,
    plants: csr_array,
    loads: csr_array,
    substations: csr_array,
    oil: bool = True,
    coal_basis: str = "capacity",
) -> Supply:
    """Powers of groups of plants.

    installed = sum p; firm = sum f p; idle = sum f p (1 - c); idle fuelled = sum f e p (1 - c): sums over the counted
    plants of a group, with power p, capacity factor c, f 1 for dispatchable fuels and e 1 for fuels that can be bought.
    coal share = coal / all, of p (capacity) or of c p (energy).

    Parameters
    ----------
    grid
        Whose plants they are.
    plants, loads, substations
        Sparse (groups, those of the grid) with 1 for a member.
    oil
        Whether plants that burn oil count.
    coal_basis
        Of the coal share: "capacity" or "energy".

    Returns
    -------
    `Supply` of the groups.
    """
    p, f, c = grid.power_w, grid.fuel("firm"), grid.fuel("capacity_factor")
    counted, coal = counted_plants(grid, oil), (grid.plants["fuel"] == COAL).to_numpy()
    _, site = np.unique(grid.plants["sub_id"], return_inverse=True)
    by_site = np.bincount(site, weights=p * counted)[site]
    weight = power_or_energy(grid, coal_basis)
    of_coal, of_all = plants @ (weight * coal), plants @ weight
    unit_w = np.where(counted, grid.plants["largest_unit_w"], 0.0)
    unknown = plants @ np.isnan(unit_w).astype(float) > 0
    units_w = [largest_member(plants, np.nan_to_num(unit_w * share)) for share in (np.ones_like(f), f)]
    largest_unit_w, largest_firm_unit_w = (np.where(unknown, np.nan, unit) for unit in units_w)
    return Supply(
        installed_w=plants @ (p * counted),
        firm_w=plants @ (p * f * counted),
        idle_w=plants @ (p * f * (1 - c) * counted),
        idle_fuelled_w=plants @ plant_idle_fuelled_w(grid, oil),
        largest_unit_w=largest_unit_w,
        largest_firm_unit_w=largest_firm_unit_w,
        largest_site_w=largest_member(plants, by_site),
        coal_w=plants @ (p * coal),
        coal_share=np.divide(of_coal, of_all, out=np.zeros_like(of_all), where=of_all > 0),
        load_w=loads @ grid.loads["load_w"].to_numpy(float),
        interconnect_w=crossing_lines_w(grid, substations),
    )


def power_or_energy(grid: PowerGrid, basis: str) -> np.ndarray:
    """Power p of each plant for the basis "capacity", its mean power c p for "energy" [W]."""
    return {"capacity": grid.power_w, "energy": grid.power_w * grid.fuel("capacity_factor")}[basis]


def largest_member(groups: csr_array, values: np.ndarray) -> np.ndarray:
    """Largest value, 0 or more, of each group's members; 0 for a group of none. groups: sparse (groups, members)."""
    of_members = csr_array((values[groups.indices], groups.indices, groups.indptr), shape=groups.shape)
    return of_members.max(axis=1).toarray().ravel()


def crossing_lines_w(grid: PowerGrid, substations: csr_array) -> np.ndarray:
    """Power of the lines with one end inside each group [W]: sum over ends inside, less twice the lines within.

    substations: sparse (groups, substations of the grid) with 1 for a member.
    """
    stations = pd.Index(grid.substations["sub_id"])
    ends = tuple(stations.get_indexer(grid.lines[end]) for end in ("from_sub", "to_sub"))
    lines = csr_array((grid.lines["power_w"].to_numpy(float), ends), shape=(len(stations), len(stations)))
    touching = lines.sum(axis=0) + lines.sum(axis=1)
    return substations @ touching - 2 * (substations @ lines).multiply(substations).sum(axis=1)
