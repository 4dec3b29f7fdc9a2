"""What a group of plants offers: power by kind, largest producers, load nearby, lines across its border."""

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from railcore.systems.siting.grid import Grid
from railcore.systems.siting.sphere import row_max

if TYPE_CHECKING:
    import pandas as pd
    from scipy.sparse import csr_array

COAL = "coal"
BASES = ("capacity", "energy")


@dataclass(frozen=True)
class Supply:
    """Powers of groups of plants [W], arrays with one entry for each group; coal is counted by itself alone.

    installed_w: of all other plants. firm_w: of those that run at call. idle_w: of the firm ones, what an average hour
    leaves; idle_fuelled_w: of that, what fuel can be bought for, so neither water nor heat of the earth.
    largest_unit_w, largest_site_w: largest producer, by generator and by site. coal_w: installed. coal_share: of coal
    in capacity or energy. load_w: of the base case, inside. interconnect_w: lines that cross the group's border.
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
        return Supply(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})

    def table(self) -> "pd.DataFrame":
        """One row for each group."""
        import pandas as pd

        return pd.DataFrame({field.name: getattr(self, field.name) for field in fields(self)})


def counted(grid: Grid, oil: bool = True) -> np.ndarray:
    """True for the plants that rules count: all but coal and, where `oil` is False, oil."""
    return ~grid.plants["fuel"].isin([COAL] if oil else [COAL, "oil"]).to_numpy()


def supply(
    grid: Grid,
    plants: "csr_array",
    loads: "csr_array",
    substations: "csr_array",
    oil: bool = True,
    coal_basis: str = "capacity",
    known: Supply | None = None,
) -> Supply:
    """Powers of groups of plants, from sparse matrices (groups, rows of the grid's table) with 1 for a member.

    installed = sum p; firm = sum f p; idle = sum f p (1 - c), fuelled times e as well; over plants p with f 1 for
    fuels that run at call, e 1 for fuels that can be bought and capacity factor c. interconnect = sum over lines with
    one end inside. coal share = coal / all, of p or of c p. known: of the same groups, with oil or without, whose load
    and lines are taken.
    Raises ValueError for an unknown coal_basis.
    """
    if coal_basis not in BASES:
        raise ValueError(f"coal_basis is {coal_basis!r}: give one of {', '.join(BASES)}")
    p, f, c = grid.plants["power_w"].to_numpy(float), grid.fuel("firm"), grid.fuel("capacity_factor")
    mine, coal = counted(grid, oil), (grid.plants["fuel"] == COAL).to_numpy()
    site = grid.plants["sub_id"].to_numpy()
    _, at = np.unique(site, return_inverse=True)
    by_site = np.bincount(at, weights=p * mine)[at]
    weight = p if coal_basis == "capacity" else p * c
    burnt, all_of = plants @ (weight * coal), plants @ weight
    return Supply(
        installed_w=plants @ (p * mine),
        firm_w=plants @ (p * f * mine),
        idle_w=plants @ (p * f * (1 - c) * mine),
        idle_fuelled_w=plants @ (p * f * grid.fuel("fuelled") * (1 - c) * mine),
        largest_unit_w=row_max(plants, grid.plants["largest_unit_w"].to_numpy(float) * mine),
        largest_site_w=row_max(plants, by_site),
        coal_w=plants @ (p * coal),
        coal_share=np.divide(burnt, all_of, out=np.zeros_like(all_of), where=all_of > 0),
        load_w=known.load_w if known else loads @ grid.loads["load_w"].to_numpy(float),
        interconnect_w=known.interconnect_w if known else _crossing(grid, substations),
    )


def _crossing(grid: Grid, substations: "csr_array") -> np.ndarray:
    """Power of the lines with one end inside each group [W]: sum over both ends, less twice the lines within."""
    at = {sub: i for i, sub in enumerate(grid.substations["sub_id"])}
    ends = [grid.lines[end].map(at).to_numpy() for end in ("from_sub", "to_sub")]
    power = grid.lines["power_w"].to_numpy(float)
    touching = sum(np.bincount(end, weights=power, minlength=len(at)) for end in ends)
    one, other = (substations.tocsc()[:, end] for end in ends)
    return substations @ touching - 2 * (one.multiply(other) @ power)
