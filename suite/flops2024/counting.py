"""How many places have a demand: points that share no plant, by rule, radius and region."""

from collections.abc import Callable, Iterable, Mapping

import numpy as np
import pandas as pd
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from railcore.siting.cities import nearest_city
from railcore.siting.points import MapPoints
from railcore.siting.rules import RULES, available_power, power_by_rule_w

Region = Callable[[MapPoints], np.ndarray]  # True for the points that lie in it
_MOST_EXACT_ROWS = 110  # up to which the most disjoint rows are counted exactly


def most_disjoint(plants: csr_array) -> tuple[int, bool]:
    """How many rows can be taken at once so that no two share a plant, and whether that is exact.

    Set packing, max sum y with sum over the rows that hold a plant of y <= 1, y in {0, 1}, solved by HiGHS for at most
    110 rows, of which `_undominated` leaves few. More rows: a lower bound, rows with fewer plants taken first.
    """
    if plants.shape[0] > _MOST_EXACT_ROWS:
        return _taken_in_turn(plants), False
    plants = plants[_undominated(plants)]
    holders = plants.T.tocsr()
    shared = holders[np.flatnonzero(np.diff(holders.indptr) > 1)]
    if not shared.shape[0]:
        return plants.shape[0], True
    ones = np.ones(plants.shape[0])
    limits = LinearConstraint(shared, -np.inf, 1)
    result = milp(-ones, constraints=limits, bounds=Bounds(0, 1), integrality=ones, options={"mip_rel_gap": 0})
    return round(-result.fun), True


def _undominated(plants: csr_array) -> np.ndarray:
    """Rows left after dropping each row that another dominates: they meet, and the other meets no further row.

    Rows meet where they share a plant. Some largest choice of rows that do not meet is among those left.
    """
    meets = (plants @ plants.T).toarray() > 0
    np.fill_diagonal(meets, True)
    left = np.arange(len(meets))
    while True:
        replaces = meets & ~(meets @ ~meets)  # [i, j]: i meets j, and none that j does not
        replaces &= ~(replaces.T & np.tri(len(left), dtype=bool))  # of two alike the first stays
        keep = ~replaces.any(axis=0)
        if keep.all():
            return left
        left, meets = left[keep], meets[np.ix_(keep, keep)]


def _taken_in_turn(plants: csr_array) -> int:
    """A greedy choice: rows by rising number of plants, each sharing no plant with an earlier one."""
    order, holders = np.argsort(np.diff(plants.indptr), kind="stable"), plants.T.tocsr()
    position = np.argsort(order)[holders.indices]  # of each plant's rows in that order
    free, count = np.ones(len(order), bool), 0
    while free.any():
        first = free.argmax()
        count += 1
        free[first] = False
        mine = plants.indices[plants.indptr[order[first]] : plants.indptr[order[first] + 1]]
        for start, end in zip(holders.indptr[mine].tolist(), holders.indptr[mine + 1].tolist(), strict=True):
            free[position[start:end]] = False
    return count


def siting_sensitivity(
    groups: Iterable[MapPoints],
    demand_w: float,
    regions: Mapping[str, Region],
    most_coal: float = 0.5,
    reserve: str = "unit",
) -> pd.DataFrame:
    """How many places pass under every combination of assumptions.

    Parameters
    ----------
    groups
        Points of several radii, with and without oil, as `points_by_radius` gives them.
    demand_w
        Power asked for [W].
    regions
        Which points count, by name.
    most_coal, reserve
        As in `rules.eligible`.

    Returns
    -------
    A row for each combination: radius_m, rule, oil, region; centres: points that pass; places: of them that share no
    plant (see `most_disjoint`), exact: whether `places` is exact or a lower bound; best_w: most that one point has.
    """
    rows = []
    for points in groups:
        inside = {name: region(points) for name, region in regions.items()}
        counted: dict[bytes, tuple[int, bool]] = {}  # by mask: where all pass by one rule they do by others
        for rule in RULES:
            power = power_by_rule_w(points.supply, rule, most_coal, reserve)
            for name, mask in inside.items():
                passing = mask & (power >= demand_w)
                if (key := passing.tobytes()) not in counted:
                    counted[key] = most_disjoint(points.plants[np.flatnonzero(passing)])
                passed = (int(passing.sum()), *counted[key], float(power[mask].max(initial=0.0)))
                rows.append((points.radius_m, rule, points.oil, name, *passed))
    return pd.DataFrame(rows, columns="radius_m rule oil region centres places exact best_w".split())


def best_by_rule(points: MapPoints, most_coal: float = 0.5, reserve: str = "unit") -> pd.DataFrame:
    """Each rule with its formula, what it counts and ignores, and the most that one point has.

    Columns rule, radius_m, formula, meaning, ignores, most_of_one_place_w (by the rule alone), near (the nearest city),
    within_its_authority_w (the most of one point with the bound of its authority).
    """
    power = np.stack([power_by_rule_w(points.supply, name, most_coal, reserve) for name in RULES])
    best = power.argmax(axis=1)
    bounded = [available_power(points, name, most_coal, reserve).power_w.max(initial=0.0) for name in RULES]
    rows = [(name, points.radius_m, rule.formula, rule.meaning, rule.ignores) for name, rule in RULES.items()]
    return pd.DataFrame(rows, columns=["rule", "radius_m", "formula", "meaning", "ignores"]).assign(
        most_of_one_place_w=power.max(axis=1),
        near=nearest_city(points.latitude[best], points.longitude[best]),
        within_its_authority_w=bounded,
    )
