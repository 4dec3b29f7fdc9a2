"""What energy costs and emits at a place: prices that industry paid by state, carbon of the plants that stand idle.

Carbon intensities are those at the stack (catalog family fuels, `carbon_intensity`): a plant's building, its fuel's
mining and transport and leaked methane are not counted, so nuclear, hydro, wind and solar power have 0. A datacenter of
this size pays another price than industry did on average in the state.
"""

from collections.abc import Mapping
from functools import cache

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from railcore.catalog import files, units
from railcore.siting.grid import PowerGrid
from railcore.siting.supply import plant_idle_fuelled_w


def marginal_intensity(grid: PowerGrid, plants: csr_array, oil: bool = True) -> np.ndarray:
    """Carbon of a joule from what each group leaves idle [kg/J], which a new datacenter would draw; NaN for none.

    k = sum w e / sum w, with carbon intensity e and w of `plant_idle_fuelled_w`. All plants give the same share of
    what they have idle; the order in which a market calls them is left out. plants: sparse (groups, plants of the
    grid) with 1 for a member.
    """
    idle_w = plant_idle_fuelled_w(grid, oil)
    total, carbon = plants @ idle_w, plants @ (idle_w * grid.fuel("carbon_intensity"))
    return np.divide(carbon, total, out=np.full(len(total), np.nan), where=total > 0)


@cache
def electricity_prices() -> Mapping[str, float]:
    """What industry paid for energy in 2023 by state [USD/J]; no value for Wyoming."""
    table = pd.read_csv(files.data("grid/state_prices.csv"))
    return dict(zip(table["state"], table["industrial_cents_per_kwh"] / 100 / units.kWh, strict=True))
