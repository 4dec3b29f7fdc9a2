"""The k places with most power as a mixed-integer programme (HiGHS), or whether there are any."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts.units import MW
from railcore.systems.siting.sphere import members, unit_vectors
from railcore.systems.siting.split.choices import Options, lengths
from railcore.systems.siting.split.search import Needs

HIGHS = {"mip_rel_gap": 0, "presolve": False}  # presolve takes longer than the rest


@dataclass
class Rows:
    """Rows of a programme, low <= (rows x) <= high, gathered piece by piece."""

    parts: list[Any] = field(default_factory=list)
    low: list[np.ndarray] = field(default_factory=list)
    high: list[np.ndarray] = field(default_factory=list)

    def add(self, rows: Any, low: float = -np.inf, high: float = np.inf) -> None:
        """Rows with the same bounds, dense or sparse."""
        from scipy.sparse import csr_array

        rows = csr_array(np.atleast_2d(rows) if isinstance(rows, np.ndarray) else rows)
        self.parts.append(rows)
        self.low.append(np.full(rows.shape[0], low))
        self.high.append(np.full(rows.shape[0], high))

    def constraint(self) -> Any:
        """All of them, for scipy.optimize.milp."""
        from scipy.optimize import LinearConstraint
        from scipy.sparse import vstack

        return LinearConstraint(vstack(self.parts, format="csr"), np.concatenate(self.low), np.concatenate(self.high))


def strongest(
    options: Options, needs: Needs, k: int, separation_m: float, heavy: bool = True, reach_m: float = np.inf
) -> list[int] | None:
    """The k places with most usable power that meet `needs`, None where there are none; numbers of falling power.

    The programme of `solved` on the first candidates, then on more: one left out, with power u, adds nothing where
    u + (most of k - 1 places, heedless of caps, groups and demand) <= (most found). heavy: False for any such places.
    reach_m: no two are farther apart [m].
    """
    usable, size = needs.usable_w, 64
    free = replace(needs, demand_w=0.0, area=np.full(len(usable), -1), cap_w=(), most_places=(), least=())
    others = strongest(options, free, k - 1, separation_m, True, reach_m) if heavy and k > 1 else []
    if others is None:
        return None
    while True:
        found = solved(options[:size], needs[:size], k, separation_m, heavy, reach_m)
        if size >= len(options) or (found and not heavy):
            return found
        if found is None:
            size *= 4
        elif usable[size] + usable[others].sum() <= usable[found].sum():
            return found
        else:
            size = int((usable + usable[others].sum() > usable[found].sum()).sum())


def solved(
    options: Options, needs: Needs, k: int, separation_m: float, heavy: bool, reach_m: float
) -> list[int] | None:
    """The programme's k places, None where it has none.

    max sum u_i y_i over y in {0, 1}^n and t >= 0, the power of each capped authority a, with
    sum y_i = k; sum over the candidates that hold a plant of y_i <= 1, for each plant;
    sum over candidates nearer to each other than the separation of y_i <= 1, for balls around some candidates and
    then for the pairs that a solution breaks (the programme is solved again with a ball around their midpoint);
    y_i + y_j <= 1 for pairs of a solution beyond the reach, solved again in the same way;
    t_a <= cap_a, t_a <= sum over a of u_i y_i, sum over the rest of u_i y_i + sum t_a >= demand;
    sum over a of y_i <= its most places, sum over a group of y_i >= its least places.
    Raises RuntimeError where HiGHS stops without an answer.
    """
    from scipy.optimize import Bounds, milp

    n, areas = len(options), len(needs.cap_w)
    rows = _rows(options, needs, k)
    if separation_m > 0:
        net = _net(options, separation_m / 4)
        rows.add(_balls(options, options.latitude[net], options.longitude[net], separation_m, areas), high=1)
    worth = np.concatenate([needs.usable_w / -MW if heavy else np.zeros(n), np.zeros(areas)])
    bounds = Bounds(0, np.concatenate([np.ones(n), np.array(needs.cap_w, float) / MW]))
    whole = np.concatenate([np.ones(n), np.zeros(areas)])
    while True:
        found = milp(worth, constraints=rows.constraint(), bounds=bounds, integrality=whole, options=HIGHS)
        if found.status == 2:
            return None
        if found.x is None or found.status:
            raise RuntimeError(f"HiGHS gives no best places: {found.message}")
        chosen = np.flatnonzero(found.x[:n] > 0.5)
        two = chosen[np.stack(np.triu_indices(k, 1), axis=1)]
        far = lengths(options, two)
        near, apart = two[far < separation_m], two[far > reach_m]
        if not len(near) + len(apart):
            return [int(place) for place in chosen]
        for pair in near:
            rows.add(_around(options, pair, separation_m, areas), high=1)
        for pair in apart:
            rows.add(np.isin(np.arange(n + areas), pair), high=1)


def _rows(options: Options, needs: Needs, k: int) -> Rows:
    """All rows but those of the separation."""
    from scipy.sparse import csr_array, hstack

    rows, n, areas = Rows(), len(options), len(needs.cap_w)
    usable, none = needs.usable_w / MW, np.zeros(areas)
    rows.add(np.concatenate([np.ones(n), none]), k, k)
    holders = options.plants.T.tocsr()
    of_plant = [holders.indices[a:b].tobytes() for a, b in pairwise(holders.indptr) if b > a + 1]
    sets = [np.frombuffer(raw, holders.indices.dtype) for raw in dict.fromkeys(of_plant)]
    if sets:
        at = np.concatenate([[0], np.cumsum([len(one) for one in sets])])
        table = csr_array((np.ones(at[-1]), np.concatenate(sets), at), shape=(len(sets), n))
        both = (table @ table.T).tocoo()
        within = both.row[(both.row != both.col) & (both.data == np.diff(at)[both.row])]
        table = table[np.setdiff1d(np.arange(len(sets)), within)]  # a row within another says nothing more
        rows.add(hstack([table, csr_array((table.shape[0], areas))]), high=1)
    for label in range(areas):
        own, here = np.eye(areas)[label], needs.area == label
        rows.add(np.concatenate([-usable * here, own]), high=0)
        rows.add(np.concatenate([here, none]), high=needs.most_places[label])
    for label, least in enumerate(needs.least):
        rows.add(np.concatenate([needs.group == label, none]), low=least)
    rows.add(np.concatenate([usable * (needs.area < 0), none + 1]), low=needs.demand_w / MW)
    return rows


def _net(options: Options, spacing_m: float) -> np.ndarray:
    """Candidates taken in turn, each farther than the spacing from all before."""
    near = members(options.latitude, options.longitude, options.latitude, options.longitude, spacing_m)
    free, net = np.ones(len(options), bool), []
    while free.any():
        net.append(int(free.argmax()))
        free[near.indices[near.indptr[net[-1]] : near.indptr[net[-1] + 1]]] = False
        free[net[-1]] = False
    return np.array(net)


def _balls(options: Options, latitude: ArrayLike, longitude: ArrayLike, separation_m: float, areas: int) -> Any:
    """Rows of 1 for the candidates less than half a separation from each point: no two of them go together."""
    from scipy.sparse import csr_array, hstack

    near = members(latitude, longitude, options.latitude, options.longitude, separation_m / 2 * (1 - 1e-6))
    return hstack([near, csr_array((near.shape[0], areas))])


def _around(options: Options, pair: np.ndarray, separation_m: float, areas: int) -> np.ndarray:
    """A pair too near to each other and the candidates in the ball around its midpoint: no two of all go together."""
    x, y, z = unit_vectors(options.latitude[pair], options.longitude[pair]).sum(axis=0)
    latitude, longitude = np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.arctan2(y, x))
    row = _balls(options, latitude, longitude, separation_m, areas).toarray()
    row[0, pair] = 1
    return row
