"""What a group of plants offers, and when it can feed a datacenter: one formula for each rule.

Source: the rules are readings of flops2024, section 2, which asks for spare capacity without a formula.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from railcore.catalog import UnknownName
from railcore.catalog.checks import Floats
from railcore.catalog.units import MW, show
from railcore.siting.grid import PowerGrid

COAL = "coal"


@dataclass(frozen=True)
class Supply:
    """Powers of groups of plants [W], arrays with one entry for each group. Coal counts in coal_w and coal_share only.

    installed_w: of all plants but coal.
    firm_w: of those that are dispatchable: they run at call.
    idle_w: what the firm plants do not use in an average hour.
    idle_fuelled_w: of idle_w, that of plants whose fuel can be bought: neither water nor heat of the earth.
    largest_unit_w, largest_site_w: largest producer, by generator and by site.
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
    return Supply(
        installed_w=plants @ (p * counted),
        firm_w=plants @ (p * f * counted),
        idle_w=plants @ (p * f * (1 - c) * counted),
        idle_fuelled_w=plants @ plant_idle_fuelled_w(grid, oil),
        largest_unit_w=largest_member(plants, grid.plants["largest_unit_w"].to_numpy(float) * counted),
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


RESERVES = {"unit": "largest_unit_w", "site": "largest_site_w", "none": ""}  # what lines must replace


@dataclass(frozen=True)
class Rule:
    """A reading of "spare power".

    formula, meaning: what it counts, in symbols and in words.
    ignores: what it leaves out.
    power: that it lets a datacenter have [W].

    Symbols: p installed power of the plants that are not coal, f 1 for dispatchable fuels, e 1 for fuels that can
    be bought, c capacity factor, u largest unit, l load of others nearby.
    """

    formula: str
    meaning: str
    ignores: str
    power: Callable[[Supply], Floats]


RULES = {
    "installed": Rule(
        "Σ p",
        "every plant at full power, all for the datacenter",
        "the load of others, hours without wind, sun or water, outages",
        lambda supply: supply.installed_w,
    ),
    "firm minus largest": Rule(
        "Σ f p − u",
        "plants that run at call, the largest unit out of service",
        "the load of others, hours without water, fuel",
        lambda supply: supply.firm_w - supply.largest_unit_w,
    ),
    "idle firm": Rule(
        "Σ f p (1 − c)",
        "what plants that run at call do not sell in an average hour",
        "peaks of load (plants are idle on average, not in every hour), hours without water, outages",
        lambda supply: supply.idle_w,
    ),
    "idle fuelled": Rule(
        "Σ f e p (1 − c)",
        "what plants that can buy more fuel do not sell in an average hour, so without water power",
        "peaks of load (plants are idle on average, not in every hour), outages",
        lambda supply: supply.idle_fuelled_w,
    ),
    "headroom after load": Rule(
        "Σ f p − u − l",
        "plants that run at call, the largest unit out, after the load within the same radius",
        "power and load beyond the radius, hours other than the grid's one, hours without water",
        lambda supply: supply.firm_w - supply.largest_unit_w - supply.load_w,
    ),
}
IGNORED_BY_ALL = "gas pipelines, lines inside the radius, contracts of the plants, land and permits"
AFTER_LOAD = "headroom after load"  # the one rule that subtracts load
_LEAST_DEMAND_W = 1e6  # less than any datacenter of these models draws


def demand_warnings(demand_w: float) -> tuple[str, ...]:
    """A text for a demand below 1 MW [W]: was it meant in MW?"""
    if demand_w >= _LEAST_DEMAND_W:
        return ()
    meant = f": it is in watts; did you mean {show(demand_w * MW, 'W')}?"
    return (f"demand_w is {show(demand_w, 'W')}{meant if demand_w <= _LEAST_DEMAND_W / 10 else ', less than 1 MW'}",)


def eligible(supply: Supply, most_coal: float = 0.5, reserve: str = "unit") -> np.ndarray:
    """True where coal does not dominate and the lines replace the largest producer.

    coal share < most_coal, above 0 to 1; interconnect >= largest unit or site, as `reserve` says: "unit", "site", or
    "none" for no lines.
    """
    producer = RESERVES[reserve]
    clean = supply.coal_share < most_coal
    return clean & (supply.interconnect_w >= getattr(supply, producer)) if producer else clean


def available_power_w(supply: Supply, name: str, most_coal: float = 0.5, reserve: str = "unit") -> np.ndarray:
    """Power of each group that a rule lets a datacenter have [W], 0 where the group is not `eligible`.

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
        For a rule; it is a ValueError too.
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
    """
    return available_power_w(supply, name, most_coal, reserve) >= demand_w
