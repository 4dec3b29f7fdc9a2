"""Carbon of the power that groups of plants give, by their fuels: on average, and of what stands idle.

Intensities are those at the stack (catalog family fuels, `carbon_intensity`): a plant's building, its fuel's mining and
transport and leaked methane are not counted, so nuclear, hydro, wind and solar power have 0. Prices of energy are
those that industry paid on average in a state.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import units
from railcore.network.cost.ownership import energy
from railcore.systems.siting.candidates import Candidates
from railcore.systems.siting.geometry import feeds, indices
from railcore.systems.siting.grid import Grid, electricity_prices
from railcore.systems.siting.supply import counted

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_array


def average_intensity(grid: Grid, plants: "csr_array") -> np.ndarray:
    """Carbon of a joule that each group of plants sells in an average year [kg/J], nan where it sells none.

    k = sum p c e / sum p c, over plants of power p, with capacity factor c and carbon intensity e of their fuel, coal
    and all. plants: sparse (groups, plants of the grid) with 1 for a member, as in `Nodes.plants`.
    """
    return _weighted(grid, plants, _power(grid) * grid.fuel("capacity_factor"))


def marginal_intensity(grid: Grid, plants: "csr_array", oil: bool = True) -> np.ndarray:
    """Carbon of a joule from what each group leaves idle [kg/J], which a new datacenter would draw; nan for none.

    k = sum w e / sum w, w = p f b (1 - c), over the plants of the rule "idle fuelled" (no coal; oil if `oil`), f 1 for
    fuels that run at call, b 1 for those that can be bought: idle hydro power lacks the water. All give the same share
    of what they have idle; the order in which a market calls them is left out.
    """
    idle = _power(grid) * grid.fuel("firm") * grid.fuel("fuelled") * (1 - grid.fuel("capacity_factor"))
    return _weighted(grid, plants, idle * counted(grid, oil))


def running(
    places: Candidates,
    sitings: Mapping[str, Sequence[int]],
    power_w: ArrayLike,
    demand_w: float,
    oil: bool = True,
    years: float = 1.0,
    load: float = 1.0,
) -> "pd.DataFrame":
    """Carbon and cost of the energy of each siting: a row each, every place feeding its `places.shares` of the demand.

    Columns siting, carbon_kg (of years, from what stands idle: `marginal_intensity`), kg_per_kWh, cost_usd (of years at
    what industry paid in the states of the centres, 2023), usd_per_kWh, NaN where a state has no price. A
    datacenter of this size pays another price. Errors as in `places.indices` and
    `cost.ownership.energy`.
    """
    import pandas as pd

    power, joules, rows = np.asarray(power_w, float), float(energy(demand_w, years, load=load)), []
    carbon = marginal_intensity(places.grid, places.plants, oil)
    price = np.array([electricity_prices().get(state, np.nan) for state in places.state])
    for name, at in indices(places, power, sitings).items():
        share = feeds(power[at], demand_w)
        intensity, mean_price = float(share @ carbon[at]), float(share @ price[at])
        rows.append(
            {
                "siting": name,
                "carbon_kg": joules * intensity,
                "kg_per_kWh": intensity * units.kWh,
                "cost_usd": joules * mean_price,
                "usd_per_kWh": mean_price * units.kWh,
            }
        )
    return pd.DataFrame(rows)


def _power(grid: Grid) -> np.ndarray:
    return grid.plants["power_w"].to_numpy(float)


def _weighted(grid: Grid, plants: "csr_array", weight: np.ndarray) -> np.ndarray:
    """Mean carbon intensity of each group, weighted by plant, nan for a group without weight."""
    total, carbon = plants @ weight, plants @ (weight * grid.fuel("carbon_intensity"))
    return np.divide(carbon, total, out=np.full(len(total), np.nan), where=total > 0)
