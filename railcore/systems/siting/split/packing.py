"""The k places with most power as a mixed-integer programme (HiGHS), or whether there are any."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, hstack, vstack

from railcore.facts.units import MW
from railcore.systems.siting.geometry import distances_m, pairs_of, unit_vectors, within_radius
from railcore.systems.siting.split.cliques import SplitNeeds
from railcore.systems.siting.split.options import SiteOptions

HIGHS = {"mip_rel_gap": 0, "presolve": False}  # presolve takes longer than the rest
FIRST = 64  # candidates of the first programme


@dataclass
class Programme:
    """A mixed-integer programme: max worth x over x from 0 to high, low <= rows x <= high for each row, some x whole.

    x: y of each candidate, 0 or 1, then t, the power of each capped authority [MW].
    """

    worth: np.ndarray
    high: np.ndarray
    whole: np.ndarray
    parts: list[Any] = field(default_factory=list)
    bounds: list[np.ndarray] = field(default_factory=list)

    def add(self, rows: Any, low: float = -np.inf, high: float = np.inf) -> None:
        """Rows with the same bounds, dense or sparse; columns left out are 0."""
        rows = csr_array(np.atleast_2d(rows) if isinstance(rows, np.ndarray) else rows)
        count, columns = rows.shape
        self.parts.append(hstack([rows, csr_array((count, len(self.worth) - columns))]))
        self.bounds.append(np.tile([[low], [high]], count))

    def solved(self) -> np.ndarray | None:
        """The best x, None where there is none. Raises RuntimeError where HiGHS stops without an answer."""
        limits = LinearConstraint(vstack(self.parts, format="csr"), *np.hstack(self.bounds))
        box = Bounds(0, self.high)
        found = milp(-self.worth, constraints=limits, bounds=box, integrality=self.whole, options=HIGHS)
        if found.status == 2:
            return None
        if found.x is None or found.status:
            raise RuntimeError(f"HiGHS gives no best places: {found.message}")
        return found.x


def strongest(
    options: SiteOptions,
    needs: SplitNeeds,
    k: int,
    separation_m: float,
    heavy: bool = True,
    reach_m: float = np.inf,
) -> list[int] | None:
    """The k places with most usable power that meet the needs.

    Solves the programme of the first candidates, then of more: one left out, with power u, adds nothing where
    u + (most of k - 1 places, heedless of caps, groups and demand) <= (most found).

    Parameters
    ----------
    options, needs
        Candidates by falling power, and what the places must meet.
    k, separation_m, reach_m
        Number of places, and the least and greatest distance between two [m].
    heavy
        False for any such places, in place of those with most power.

    Returns
    -------
    Numbers of the places, None where there are none.
    """
    usable, size = needs.usable_w, FIRST
    free = replace(needs, demand_w=0.0, area=np.full(len(usable), -1), cap_w=(), most_places=(), least=())
    others = strongest(options, free, k - 1, separation_m, True, reach_m) if heavy and k > 1 else []
    if others is None:
        return None
    while True:
        found = _places(options[:size], needs[:size], k, separation_m, heavy, reach_m)
        if size >= len(options) or (found and not heavy):
            return found
        if found is None:
            size *= 4
        elif usable[size] + usable[others].sum() <= usable[found].sum():
            return found
        else:
            size = int((usable + usable[others].sum() > usable[found].sum()).sum())


def _places(
    options: SiteOptions, needs: SplitNeeds, k: int, separation_m: float, heavy: bool, reach_m: float
) -> list[int] | None:
    """The programme's k places, solved again with rows for the pairs that a solution breaks, until it breaks none."""
    programme = _programme(options, needs, k, heavy)
    if separation_m > 0:
        at = _net(options, separation_m / 4)
        programme.add(_balls(options, unit_vectors(options.latitude[at], options.longitude[at]), separation_m), high=1)
    while (x := programme.solved()) is not None:
        chosen = np.flatnonzero(x[: len(options)] > 0.5)
        pairs = pairs_of(chosen)
        far = distances_m(options, pairs)
        near, apart = pairs[far < separation_m], pairs[far > reach_m]
        if not len(near) + len(apart):
            return [int(place) for place in chosen]
        for pair in near:
            programme.add(_around(options, pair, separation_m), high=1)
        for pair in apart:
            programme.add(np.isin(np.arange(len(options)), pair).astype(float), high=1)
    return None


def _programme(options: SiteOptions, needs: SplitNeeds, k: int, heavy: bool) -> Programme:
    """All rows but those of distances; in them

    max sum u_i y_i over y in {0, 1}^n and t >= 0, the power of each capped authority a, with
    sum y_i = k; sum over the candidates that hold a plant of y_i <= 1, for each plant;
    t_a <= cap_a, t_a <= sum over a of u_i y_i, sum over the rest of u_i y_i + sum t_a >= demand;
    sum over a of y_i <= its most places, sum over a group of y_i >= its least places.
    Distances: sum over candidates nearer to each other than the separation of y_i <= 1, for balls around some
    candidates and around the middle of each pair that a solution breaks; y_i + y_j <= 1 for pairs beyond the reach.
    """
    n, areas, usable = len(options), len(needs.cap_w), needs.usable_w / MW
    ones, none = np.ones(n), np.zeros(areas)
    programme = Programme(
        worth=np.concatenate([usable * heavy, none]),
        high=np.concatenate([ones, np.array(needs.cap_w, float) / MW]),
        whole=np.concatenate([ones, none]),
    )
    programme.add(ones, k, k)
    programme.add(_holders(options), high=1)
    for label in range(areas):
        here = needs.area == label
        programme.add(np.concatenate([-usable * here, np.eye(areas)[label]]), high=0)
        programme.add(here.astype(float), high=needs.most_places[label])
    for label, least in enumerate(needs.least):
        programme.add((needs.group == label).astype(float), low=least)
    programme.add(np.concatenate([usable * (needs.area < 0), none + 1]), low=needs.demand_w / MW)
    return programme


def _holders(options: SiteOptions) -> csr_array:
    """Candidates that hold a plant, a row for each plant that several hold; rows within another are left out."""
    holders = options.plants.T.tocsr()
    of_plant = [holders.indices[a:b].tobytes() for a, b in pairwise(holders.indptr) if b > a + 1]
    sets = [np.frombuffer(raw, holders.indices.dtype) for raw in dict.fromkeys(of_plant)]
    at = np.cumsum([0, *map(len, sets)])
    table = csr_array((np.ones(at[-1]), np.concatenate([*sets, np.zeros(0, int)]), at), shape=(len(sets), len(options)))
    both = (table @ table.T).tocoo()
    within = both.row[(both.row != both.col) & (both.data == np.diff(at)[both.row])]
    return table[np.setdiff1d(np.arange(len(sets)), within)]


def _net(options: SiteOptions, spacing_m: float) -> np.ndarray:
    """Candidates taken in turn, each farther than the spacing from all before."""
    points = unit_vectors(options.latitude, options.longitude)
    near = within_radius(points, points, spacing_m)
    free, net = np.ones(len(options), bool), []
    while free.any():
        net.append(int(free.argmax()))
        free[near.indices[near.indptr[net[-1]] : near.indptr[net[-1] + 1]]] = False
        free[net[-1]] = False
    return np.array(net)


def _balls(options: SiteOptions, centres: np.ndarray, separation_m: float) -> csr_array:
    """Rows of 1 for the candidates less than half a separation from each centre: no two of them go together."""
    return within_radius(centres, unit_vectors(options.latitude, options.longitude), separation_m / 2 * (1 - 1e-6))


def _around(options: SiteOptions, pair: np.ndarray, separation_m: float) -> np.ndarray:
    """A pair too near to each other and the candidates in the ball around its midpoint: no two of all go together."""
    middle = unit_vectors(options.latitude[pair], options.longitude[pair]).sum(axis=0, keepdims=True)
    row = _balls(options, middle / np.linalg.norm(middle), separation_m).toarray()
    row[0, pair] = 1
    return row
