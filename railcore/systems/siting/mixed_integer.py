"""The strongest k places of a split: a mixed-integer programme, solved by HiGHS."""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from railcore.facts.units import MW
from railcore.systems.siting.geometry import index_pairs, pair_distances_m, unit_vectors, within_radius
from railcore.systems.siting.split_problem import SiteOptions, SplitConstraints

_OPTIONS = {"mip_rel_gap": 0, "presolve": False}  # of HiGHS; presolve takes longer than the rest
_FIRST_SIZE = 64  # candidates of the first programme


@dataclass
class MixedIntegerProgramme:
    """A mixed-integer programme: max worth x over x from 0 to high, low <= rows x <= high for each row, some x whole.

    x: y of each candidate, 0 or 1, then t, the power of each capped authority [MW].
    """

    worth: np.ndarray
    high: np.ndarray
    whole: np.ndarray
    rows: list[LinearConstraint] = field(default_factory=list)

    def add_rows(self, rows: np.ndarray | csr_array, low: float = -np.inf, high: float = np.inf) -> None:
        """Rows with the same bounds; columns left out are 0."""
        rows = csr_array(np.atleast_2d(rows) if isinstance(rows, np.ndarray) else rows)
        rows.resize(rows.shape[0], len(self.worth))
        self.rows.append(LinearConstraint(rows, low, high))

    def solve(self) -> np.ndarray | None:
        """The best x, None where there is none. Raises RuntimeError where HiGHS stops without an answer."""
        box = Bounds(0, self.high)
        found = milp(-self.worth, constraints=self.rows, bounds=box, integrality=self.whole, options=_OPTIONS)
        if found.status == 2:
            return None
        if found.x is None or found.status:
            raise RuntimeError(f"HiGHS gives no best places: {found.message}")
        return found.x


def strongest_places(
    options: SiteOptions,
    constraints: SplitConstraints,
    k: int,
    separation_m: float,
    maximise: bool = True,
    reach_m: float = np.inf,
) -> list[int] | None:
    """The k places with most usable power that meet the constraints.

    Solves the programme of the first candidates, then of more, until a bound says that those left out add nothing.
    The bound: discs with a radius of half the separation, around candidates taken by falling power v_1 >= v_2 >= ...,
    cover all candidates, and at most one place lies in each. With u the power of the strongest candidate left out,
    places that include such a one have at most u + v_1 + ... + v_(k-1).

    Parameters
    ----------
    options, constraints
        Candidates by falling power, and what the places must meet.
    k, separation_m, reach_m
        Number of places, and the least and greatest distance between two [m].
    maximise
        False for any such places, not those with most power.

    Returns
    -------
    Numbers of the places, None where there are none.
    """
    usable, size = constraints.usable_w, _FIRST_SIZE
    most_of_others_w = usable[_spread_out(options, separation_m / 2 * (1 - 1e-6))[: k - 1]].sum()
    while True:
        found = _places(options[:size], constraints[:size], k, separation_m, maximise, reach_m)
        if size >= len(options) or (found and not maximise):
            return found
        if found is None:
            size *= 4
        elif usable[size] + most_of_others_w <= usable[found].sum():
            return found
        else:
            size = int((usable + most_of_others_w > usable[found].sum()).sum())


def _places(
    options: SiteOptions, constraints: SplitConstraints, k: int, separation_m: float, maximise: bool, reach_m: float
) -> list[int] | None:
    """The programme's k places, solved again with rows for the pairs that a solution breaks, until it breaks none."""
    programme = _programme(options, constraints, k, maximise)
    if separation_m > 0:
        at = _spread_out(options, separation_m / 4)
        centres = unit_vectors(options.latitude[at], options.longitude[at])
        programme.add_rows(_balls(options, centres, separation_m), high=1)
    while (x := programme.solve()) is not None:
        chosen = np.flatnonzero(x[: len(options)] > 0.5)
        pairs = index_pairs(chosen)
        far = pair_distances_m(options, pairs)
        near, apart = pairs[far < separation_m], pairs[far > reach_m]
        if not len(near) + len(apart):
            return [int(place) for place in chosen]
        for pair in near:
            programme.add_rows(_around(options, pair, separation_m), high=1)
        for pair in apart:
            programme.add_rows(np.isin(np.arange(len(options)), pair).astype(float), high=1)
    return None


def _programme(options: SiteOptions, constraints: SplitConstraints, k: int, maximise: bool) -> MixedIntegerProgramme:
    """All rows but those of distances; in them

    max sum u_i y_i over y in {0, 1}^n and t >= 0, the power of each capped authority a, with
    sum y_i = k; sum over the candidates that hold a plant of y_i <= 1, for each plant;
    t_a <= cap_a, t_a <= sum over a of u_i y_i, sum over the rest of u_i y_i + sum t_a >= demand;
    sum over a of y_i <= its most places.
    Distances: sum over candidates nearer to each other than the separation of y_i <= 1, for balls around some
    candidates and around the middle of each pair that a solution breaks; y_i + y_j <= 1 for pairs beyond the reach.
    """
    n, areas, usable = len(options), len(constraints.cap_w), constraints.usable_w / MW
    ones, none = np.ones(n), np.zeros(areas)
    programme = MixedIntegerProgramme(
        worth=np.concatenate([usable * maximise, none]),
        high=np.concatenate([ones, np.array(constraints.cap_w, float) / MW]),
        whole=np.concatenate([ones, none]),
    )
    programme.add_rows(ones, k, k)
    programme.add_rows(_holders(options), high=1)
    for label in range(areas):
        here = constraints.cap_group == label
        programme.add_rows(np.concatenate([-usable * here, np.eye(areas)[label]]), high=0)
        programme.add_rows(here.astype(float), high=constraints.most_places[label])
    programme.add_rows(np.concatenate([usable * (constraints.cap_group < 0), none + 1]), low=constraints.demand_w / MW)
    return programme


def _holders(options: SiteOptions) -> csr_array:
    """Candidates that hold a plant, a row for each plant that several hold; rows within another are left out."""
    holders = options.plants.T.tocsr()
    of_plant = [holders.indices[a:b].tobytes() for a, b in pairwise(holders.indptr.tolist()) if b > a + 1]
    sets = [np.frombuffer(raw, holders.indices.dtype) for raw in dict.fromkeys(of_plant)]
    at = np.cumsum([0, *map(len, sets)])
    table = csr_array((np.ones(at[-1]), np.concatenate([*sets, np.zeros(0, int)]), at), shape=(len(sets), len(options)))
    both = (table @ table.T).tocoo()
    within = both.row[(both.row != both.col) & (both.data == np.diff(at)[both.row])]
    return table[np.setdiff1d(np.arange(len(sets)), within)]


def _spread_out(options: SiteOptions, spacing_m: float) -> np.ndarray:
    """Candidates taken in turn, each farther than the spacing from all before; all of them at a spacing of 0."""
    if not spacing_m:
        return np.arange(len(options))
    points = unit_vectors(options.latitude, options.longitude)
    near = within_radius(points, points, spacing_m)
    free, taken = np.ones(len(options), bool), []
    while free.any():
        one = int(free.argmax())
        taken.append(one)
        free[near.indices[near.indptr[one] : near.indptr[one + 1]]] = False
    return np.array(taken)


def _balls(options: SiteOptions, centres: np.ndarray, separation_m: float) -> csr_array:
    """Rows of 1 for the candidates less than half a separation from each centre: no two of them go together."""
    return within_radius(centres, unit_vectors(options.latitude, options.longitude), separation_m / 2 * (1 - 1e-6))


def _around(options: SiteOptions, pair: np.ndarray, separation_m: float) -> np.ndarray:
    """A pair too near to each other and the candidates in the ball around its midpoint: no two of all go together."""
    middle = unit_vectors(options.latitude[pair], options.longitude[pair]).sum(axis=0, keepdims=True)
    row = _balls(options, middle / np.linalg.norm(middle), separation_m).toarray()
    row[0, pair] = 1
    return row
