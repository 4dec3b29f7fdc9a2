"""What a group of plants offers, and when it can feed a datacenter: one formula for each rule.

Source: the rules are readings of flops2024, section 2, which asks for spare capacity without a formula.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from railcore.catalog import UnknownName, checks
from railcore.catalog.units import MW, show
from railcore.siting.grid import PowerGrid

COAL = "coal"
SHARE_BASES = ("capacity", "energy")


@dataclass(frozen=True)
class Supply:
    """Powers of groups of plants [W], arrays with one entry for each group. Coal counts in coal_w and coal_share only.

    installed_w: of all other plants.
    firm_w: of those that are dispatchable: they run at call.
    idle_w: of the firm ones, what an average hour leaves.
    idle_fuelled_w: of idle_w, what fuel can be bought for: neither water nor heat of the earth.
    largest_unit_w, largest_site_w: largest producer, by generator and by site.
    coal_w: installed coal.
    coal_share: of coal, in capacity or energy.
    load_w: of others inside the group, in the one hour that the grid models.
    interconnect_w: lines that cross the group's border.
    """

    installed_w: Any
    firm_w: Any
    idle_w: Any
    idle_fuelled_w: Any
    largest_unit_w: Any
    largest_site_w: Any
    coal_w: Any
    coal_share: Any
    load_w: Any
    interconnect_w: Any

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

    Symbols as in `supply_of_groups`.
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

    installed = sum p; firm = sum f p; idle = sum f p (1 - c), fuelled times e as well; over plants p with f 1 for
    dispatchable fuels, e 1 for fuels that can be bought and capacity factor c. coal share = coal / all, of p or of
    c p.

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

    Raises
    ------
    ValueError
        For an unknown coal_basis.
    """
    checks.one_of("coal_basis", coal_basis, SHARE_BASES)
    p, f, c = grid.power_w, grid.fuel("firm"), grid.fuel("capacity_factor")
    mine, coal = counted_plants(grid, oil), (grid.plants["fuel"] == COAL).to_numpy()
    _, site = np.unique(grid.plants["sub_id"], return_inverse=True)
    by_site = np.bincount(site, weights=p * mine)[site]
    weight = p if coal_basis == "capacity" else p * c
    burnt, all_of = plants @ (weight * coal), plants @ weight
    return Supply(
        installed_w=plants @ (p * mine),
        firm_w=plants @ (p * f * mine),
        idle_w=plants @ (p * f * (1 - c) * mine),
        idle_fuelled_w=plants @ plant_idle_fuelled_w(grid, oil),
        largest_unit_w=largest_member(plants, grid.plants["largest_unit_w"].to_numpy(float) * mine),
        largest_site_w=largest_member(plants, by_site),
        coal_w=plants @ (p * coal),
        coal_share=np.divide(burnt, all_of, out=np.zeros_like(all_of), where=all_of > 0),
        load_w=loads @ grid.loads["load_w"].to_numpy(float),
        interconnect_w=crossing_lines_w(grid, substations),
    )


def largest_member(groups: csr_array, values: np.ndarray) -> np.ndarray:
    """Largest value, 0 or more, of each group's members; 0 for a group of none. groups: sparse (groups, members)."""
    of_members = csr_array((values[groups.indices], groups.indices, groups.indptr), shape=groups.shape)
    return of_members.max(axis=1).toarray().ravel()


def crossing_lines_w(grid: PowerGrid, substations: csr_array) -> np.ndarray:
    """Power of the lines with one end inside each group [W]: sum over both ends, less twice the lines within.

    substations: sparse (groups, substations of the grid) with 1 for a member.
    """
    stations = pd.Index(grid.substations["sub_id"])
    ends = tuple(stations.get_indexer(grid.lines[end]) for end in ("from_sub", "to_sub"))
    lines = csr_array((grid.lines["power_w"].to_numpy(float), ends), shape=(len(stations), len(stations)))
    touching = lines.sum(axis=0) + lines.sum(axis=1)
    return substations @ touching - 2 * (substations @ lines).multiply(substations).sum(axis=1)


RESERVES = {"unit": "largest_unit_w", "site": "largest_site_w", "none": ""}  # what lines must replace


@dataclass(frozen=True)
class Rule:
    """A requirement: formula, what it counts, what it ignores, and the power that it lets a datacenter have [W].

    Symbols: p installed power of the plants that are not coal, f 1 for dispatchable fuels, e 1 for fuels that can
    be bought, c capacity factor, u largest unit, l load of others nearby.
    """

    formula: str
    meaning: str
    ignores: str
    power: Callable[[Supply], Any]


RULES = {
    "installed": Rule(
        "Σ p",
        "every plant at full power, all for the datacenter",
        "the load of others, hours without wind, sun or water, outages",
        lambda s: s.installed_w,
    ),
    "firm minus largest": Rule(
        "Σ f p − u",
        "plants that run at call, the largest unit out of service",
        "the load of others, hours without water, fuel",
        lambda s: s.firm_w - s.largest_unit_w,
    ),
    "idle firm": Rule(
        "Σ f p (1 − c)",
        "what plants that run at call do not sell in an average hour",
        "peaks of load (plants are idle on average, not in every hour), hours without water, outages",
        lambda s: s.idle_w,
    ),
    "idle fuelled": Rule(
        "Σ f e p (1 − c)",
        "what plants that can buy more fuel do not sell in an average hour, so without water power",
        "peaks of load (plants are idle on average, not in every hour), outages",
        lambda s: s.idle_fuelled_w,
    ),
    "headroom after load": Rule(
        "Σ f p − u − l",
        "plants that run at call, the largest unit out, after the load within the same radius",
        "power and load beyond the radius, hours other than the grid's one, hours without water",
        lambda s: s.firm_w - s.largest_unit_w - s.load_w,
    ),
}
IGNORED_BY_ALL = "gas pipelines, lines inside the radius, contracts of the plants, land and permits"
AFTER_LOAD = "headroom after load"  # the one rule that subtracts load
_LEAST_DEMAND_W = 1e6  # less than any datacenter of these models draws


def demand_warnings(demand_w: float) -> tuple[str, ...]:
    """A text for a demand below 1 MW [W], which was hardly meant in watts."""
    if demand_w >= _LEAST_DEMAND_W:
        return ()
    meant = f": it is in watts; did you mean {show(demand_w * MW, 'W')}?"
    return (f"demand_w is {show(demand_w, 'W')}{meant if demand_w <= _LEAST_DEMAND_W / 10 else ', less than 1 MW'}",)


def eligible(supply: Supply, most_coal: float = 0.5, reserve: str = "unit") -> np.ndarray:
    """True where coal does not dominate and the lines replace the largest producer.

    coal share < most_coal, and interconnect >= largest unit or site (reserve "unit" or "site"; "none" asks for no
    lines). Raises ValueError for a share outside (0, 1] and an unknown reserve.
    """
    checks.share("most_coal", most_coal, above_0=True)
    producer = RESERVES[checks.one_of("reserve", reserve, RESERVES)]
    clean = supply.coal_share < most_coal
    return clean & (supply.interconnect_w >= getattr(supply, producer)) if producer else clean


def available_power_w(supply: Supply, name: str, most_coal: float = 0.5, reserve: str = "unit") -> np.ndarray:
    """Power that a rule lets a datacenter have of each group [W], 0 where the group is not eligible.

    Parameters
    ----------
    supply, name
        Of the groups, and the rule's name in `RULES`.
    most_coal, reserve
        As in `eligible`.

    Returns
    -------
    Array of shape (groups,).

    Raises
    ------
    UnknownName
        For a rule; it is a ValueError too. Other errors as in `eligible`.
    """
    if name not in RULES:
        raise UnknownName("rule", name, list(RULES))
    return np.where(eligible(supply, most_coal, reserve), np.maximum(RULES[name].power(supply), 0.0), 0.0)


def feeds_demand(
    supply: Supply, demand_w: float, name: str, most_coal: float = 0.5, reserve: str = "unit"
) -> np.ndarray:
    """True where a group is eligible and has the demand by the rule.

    Parameters
    ----------
    supply, demand_w
        Of the groups, and the power asked for [W].
    name, most_coal, reserve
        As in `available_power_w`.

    Returns
    -------
    Array of booleans of shape (groups,).

    Raises
    ------
    ValueError
        For a demand that is not above 0. Other errors as in `available_power_w`.
    """
    checks.positive("demand_w", demand_w, "watts")
    return available_power_w(supply, name, most_coal, reserve) >= demand_w
