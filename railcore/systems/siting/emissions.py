"""Carbon of the power that groups of plants give, by their fuels: on average, and of what stands idle.

Intensities are those at the stack (catalog family fuels, `carbon_intensity`): a plant's building, its fuel's mining and
transport and leaked methane are not counted, so nuclear, hydro, wind and solar power have 0. Prices of energy are
those that industry paid on average in a state.
"""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from railcore.facts import units
from railcore.systems.siting.candidates import Candidates
from railcore.systems.siting.grid import PowerGrid, electricity_prices
from railcore.systems.siting.placement import Sitings, checked_sitings, shares_or_nan
from railcore.systems.siting.supply import idle_fuelled_w, weighted_carbon


def marginal_intensity(grid: PowerGrid, plants: csr_array, oil: bool = True) -> np.ndarray:
    """Carbon of a joule from what each group leaves idle [kg/J], which a new datacenter would draw; nan for none.

    k = sum w e / sum w, with carbon intensity e and w of `supply.idle_fuelled_w`. All plants give the same share of
    what they have idle; the order in which a market calls them is left out.
    """
    return weighted_carbon(grid, plants, idle_fuelled_w(grid, oil))


def carbon_and_cost(
    places: Candidates, sitings: Sitings, power_w: ArrayLike, demand_w: float, oil: bool = True
) -> pd.DataFrame:
    """Carbon and cost of the energy of each siting in a year at full power, every place feeding its share.

    Parameters
    ----------
    places, sitings
        Places, and which of them each siting takes.
    power_w, demand_w
        What each place can give, and what all together feed [W]; shares are `placement.even_shares`.
    oil
        Whether idle plants that burn oil run.

    Returns
    -------
    A row for each siting: siting, carbon_kg (of what stands idle: `marginal_intensity`), kg_per_kWh, cost_usd (at what
    industry paid in the states of the centres, 2023; a datacenter of this size pays another price), usd_per_kWh; NaN
    where a state has no price.

    Raises
    ------
    ValueError as in `placement.checked_sitings`.
    """
    power, joules, rows = np.asarray(power_w, float), demand_w * units.year, []
    carbon = marginal_intensity(places.grid, places.plants, oil)
    price = np.array([electricity_prices().get(state, np.nan) for state in places.state])
    for name, at in checked_sitings(places, power, sitings).items():
        share = shares_or_nan(power[at], demand_w)
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
