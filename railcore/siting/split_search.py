"""The solver of a split: the strongest k places by a mixed-integer programme, the nearest k as cliques of a graph.

HiGHS solves the programme. The graph joins points that can be chosen together; k places are a clique of k.
"""

from dataclasses import dataclass, field
from heapq import nlargest
from itertools import pairwise

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from railcore.catalog.units import MW
from railcore.network.globe import unit_vectors
from railcore.siting.distances import diameter_m, index_pairs, pair_distances_m
from railcore.siting.geometry import within_radius
from railcore.siting.rules import AvailablePower
from railcore.siting.split_terms import SplitConstraints, pairs_within

Bits = int  # a set of points: bit i for point i
Weighed = tuple[float, list[int]]  # usable power of a clique [W], and the clique
_SAME = 1e-9  # distances that differ by less of themselves are equal
_MANY = 1000  # of more points, so many give a first upper bound: a third of the time at 4,000
_FEW = 300  # points that go with a pair; where there are more, the programme is solved
_GROWTH = 1.3  # of the distance that the search tries next
_OPTIONS = {"mip_rel_gap": 0, "presolve": False}  # of HiGHS; presolve takes longer than the rest
_FIRST_SIZE = 64  # points of the first programme


@dataclass
class MixedIntegerProgramme:
    """A mixed-integer programme: max worth x over x from 0 to high, low <= rows x <= high for each row, some x whole.

    x: y of each point, 0 or 1, then t, the power of each capped authority [MW].
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
        result = milp(-self.worth, constraints=self.rows, bounds=box, integrality=self.whole, options=_OPTIONS)
        if result.status == 2:
            return None
        if result.x is None or result.status:
            raise RuntimeError(f"HiGHS gives no best places: {result.message}")
        return result.x


def strongest_places(constraints: SplitConstraints, maximise: bool = True, reach_m: float = np.inf) -> list[int] | None:
    """The k places with most usable power together that meet the constraints.

    Solves the programme of the first points, then of more, until a bound says that the others add nothing.
    The bound: discs with a radius of half the separation, around points taken by falling power v_1 >= v_2 >= ...,
    cover all points, and at most one place lies in each. With u the power of the strongest point left out,
    places that include such a one have at most u and what k - 1 of the v have together under the caps.

    Parameters
    ----------
    constraints
        Points by falling power, and what the places must meet.
    maximise
        False for any such places, not those with most power.
    reach_m
        Greatest distance between two [m].

    Returns
    -------
    Numbers of the places, None where there are none.
    """
    usable, size = constraints.power.power_w, _FIRST_SIZE
    spread = _spread_out(constraints.power, constraints.separation_m / 2 * (1 - 1e-6))
    most_of_others_w = _most_together_w(constraints, spread, constraints.k - 1)
    while True:
        places = _places(constraints[:size], maximise, reach_m)
        if size >= len(usable) or (places and not maximise):
            return places
        if places is None:
            size *= 4
        elif usable[size] + most_of_others_w <= constraints.power_w(places):
            return places
        else:
            size = int((usable + most_of_others_w > constraints.power_w(places)).sum())


def _most_together_w(constraints: SplitConstraints, points: np.ndarray, count: int) -> float:
    """Most power that `count` of some points have together [W]: the largest of what each adds under its group's cap.

    points: by falling power, so that what each adds to min(cap, sum of its group) falls too.
    """
    adds_w, group = constraints.power.power_w[points], constraints.cap_group[points]
    for number, cap_w in enumerate(constraints.cap_w):
        members = group == number
        adds_w[members] = np.diff(np.minimum(np.cumsum(adds_w[members]), cap_w), prepend=0.0)
    return float(np.sort(adds_w)[::-1][:count].sum())


def _places(constraints: SplitConstraints, maximise: bool, reach_m: float) -> list[int] | None:
    """The programme's k places: solved again and again, with rows for the pairs that break a distance, until none does.

    Rows for the separation: sum of y_i <= 1 over points nearer to each other than it, in balls around some
    points and around the middle of each pair that is too near. For the reach: y_i + y_j <= 1 of a pair beyond it.
    """
    power, separation_m = constraints.power, constraints.separation_m
    programme = _programme(constraints, maximise)
    if separation_m > 0:
        at = _spread_out(power, separation_m / 4)
        middles = unit_vectors(power.latitude[at], power.longitude[at])
        programme.add_rows(_balls(power, middles, separation_m), high=1)
    while (x := programme.solve()) is not None:
        chosen = np.flatnonzero(x[: len(power)] > 0.5)
        pairs = index_pairs(chosen)
        far = pair_distances_m(power, pairs)
        near, apart = pairs[far < separation_m], pairs[far > reach_m]
        if not len(near) + len(apart):
            return [int(place) for place in chosen]
        for pair in near:
            programme.add_rows(_around(power, pair, separation_m), high=1)
        for pair in apart:
            programme.add_rows(np.isin(np.arange(len(power)), pair).astype(float), high=1)
    return None


def _programme(constraints: SplitConstraints, maximise: bool) -> MixedIntegerProgramme:
    """The programme without its rows for distances, which `_places` adds.

    max sum over the rest of u_i y_i + sum t_a over y in {0, 1}^n and t >= 0, the power of each capped authority a, with
    sum y_i = k; for each plant, sum of y_i over the points that hold it <= 1;
    t_a <= cap_a; t_a <= sum over a of u_i y_i; sum over the rest of u_i y_i + sum t_a >= demand;
    sum over a of y_i <= its most places.
    """
    capped, usable = len(constraints.cap_w), constraints.power.power_w / MW
    ones, none = np.ones(len(usable)), np.zeros(capped)
    programme = MixedIntegerProgramme(
        worth=np.concatenate([usable * (constraints.cap_group < 0), none + 1]) * maximise,
        high=np.concatenate([ones, np.array(constraints.cap_w, float) / MW]),
        whole=np.concatenate([ones, none]),
    )
    programme.add_rows(ones, constraints.k, constraints.k)
    programme.add_rows(_holders(constraints.power), high=1)
    for number in range(capped):
        members = constraints.cap_group == number
        programme.add_rows(np.concatenate([-usable * members, np.eye(capped)[number]]), high=0)
        programme.add_rows(members.astype(float), high=constraints.most_places[number])
    programme.add_rows(np.concatenate([usable * (constraints.cap_group < 0), none + 1]), low=constraints.demand_w / MW)
    return programme


def _holders(power: AvailablePower) -> csr_array:
    """A row for each plant that several points hold, 1 for those; rows that another contains are left out."""
    holders = power.plants.T.tocsr()
    of_plant = [holders.indices[a:b].tobytes() for a, b in pairwise(holders.indptr.tolist()) if b > a + 1]
    sets = [np.frombuffer(raw, holders.indices.dtype) for raw in dict.fromkeys(of_plant)]
    at = np.cumsum([0, *map(len, sets)])
    table = csr_array((np.ones(at[-1]), np.concatenate([*sets, np.zeros(0, int)]), at), shape=(len(sets), len(power)))
    both = (table @ table.T).tocoo()
    within = both.row[(both.row != both.col) & (both.data == np.diff(at)[both.row])]
    return table[np.setdiff1d(np.arange(len(sets)), within)]


def _spread_out(power: AvailablePower, spacing_m: float) -> np.ndarray:
    """Points taken in turn, each farther than the spacing from all before; all of them at a spacing of 0."""
    if not spacing_m:
        return np.arange(len(power))
    at = unit_vectors(power.latitude, power.longitude)
    near = within_radius(at, at, spacing_m)
    free, taken = np.ones(len(power), bool), []
    while free.any():
        one = int(free.argmax())
        taken.append(one)
        free[near.indices[near.indptr[one] : near.indptr[one + 1]]] = False
    return np.array(taken)


def _balls(power: AvailablePower, middles: np.ndarray, separation_m: float) -> csr_array:
    """Rows of 1 for the points less than half a separation from each middle: no two of them go together."""
    return within_radius(middles, unit_vectors(power.latitude, power.longitude), separation_m / 2 * (1 - 1e-6))


def _around(power: AvailablePower, pair: np.ndarray, separation_m: float) -> np.ndarray:
    """A pair too near to each other and the points in the ball around its midpoint: no two of all go together."""
    middle = unit_vectors(power.latitude[pair], power.longitude[pair]).sum(axis=0, keepdims=True)
    row = _balls(power, middle / np.linalg.norm(middle), separation_m).toarray()
    row[0, pair] = 1
    return row


class CliqueSearch:
    """Cliques of k in a graph of points that meet `constraints`, by branch and bound."""

    def __init__(self, constraints: SplitConstraints) -> None:
        self.constraints, self.k = constraints, constraints.k
        self.cap_groups = [bits_of(constraints.cap_group == number) for number in range(len(constraints.cap_w))]
        self.demand_w = constraints.demand_w * (1 - 1e-12)
        self.usable_w = constraints.power.power_w.tolist()
        even = constraints.even or not constraints.cap_w  # else places of an authority may share too small a cap
        self.any_feed = even and bool(min(self.usable_w) * self.k >= self.demand_w)  # every allowed set has the demand

    def connect(self, edges: np.ndarray) -> None:
        """Take these pairs as the graph, less points that have too few neighbours."""
        n = len(self.usable_w)
        while len(edges):
            enough = np.bincount(edges.ravel(), minlength=n) >= self.k - 1
            if enough[edges].all():
                break
            edges = edges[enough[edges].all(axis=1)]
        self.near = neighbour_sets(n, edges)

    def first_clique(self, start: int) -> tuple[int, list[int]]:
        """The first clique whose lowest member is `start` or later, with that member; [] where there is none."""
        for lowest in self.near:
            if lowest >= start and (clique := self._above(lowest)):
                return lowest, clique
        return start, []

    def common_neighbours(self, a: int, b: int) -> Bits:
        """The points that go with both of a pair."""
        return self.near.get(a, 0) & self.near.get(b, 0)

    def heaviest(self, a: int, b: int, best: Weighed) -> Weighed:
        """The clique with most usable power that holds both of a pair, or `best` where none has more."""
        others = self.common_neighbours(a, b)
        near = {one: self.near[one] & others for one in members_of(others)}
        return self._branch(near, others, 0).heaviest([a, b], others, best)

    def _above(self, lowest: int) -> list[int]:
        """A clique of `lowest` and later points; sets count from it on, so that they are short."""
        shift = lowest + 1
        others = self.near[lowest] >> shift
        near = {one: self.near[one + shift] >> shift & others for one in members_of(others)}
        for one, joint in near.items():
            if joint.bit_count() < self.k - 2:
                others ^= 1 << one
        top = nlargest(self.k - 1, (self.usable_w[one + shift] for one in members_of(others)))
        if not self.any_feed and self.constraints.power_w([lowest]) + sum(top) < self.demand_w:
            return []
        return self._branch(near, others, shift).grow([lowest], others)

    def _branch(self, near: dict[int, Bits], others: Bits, shift: int) -> "Branch":
        inside = members_of(others)
        apart = {one: others & ~near[one] & ~(1 << one) for one in inside}
        return Branch(self, near, apart, shift, max((self.usable_w[one + shift] for one in inside), default=0.0))

    def allowed(self, chosen: list[int], others: Bits, most_w: float, shift: int = 0) -> Bits | None:
        """Those of `others` that may still join the chosen ones.

        Parameters
        ----------
        chosen, others
            Points of the clique, and the set of those that go with all of them, in numbers less `shift`.
        most_w
            Usable power that none of the others exceeds [W].
        shift
            Added to a number of the set for the point's own.

        Returns
        -------
        A set, or None where no completion can meet the constraints.
        """
        constraints, need = self.constraints, self.k - len(chosen)
        for number, members in enumerate(self.cap_groups):
            free = constraints.most_places[number] - int((constraints.cap_group[chosen] == number).sum())
            if free < 0:
                return None
            others = others if free else others & ~(members >> shift)
        if others.bit_count() < need:
            return None
        if self.any_feed or constraints.power_w(chosen) + need * most_w >= self.demand_w:
            return others
        return None


@dataclass(frozen=True)
class Branch:
    """The part of a search above one point: sets hold numbers less `shift`.

    near: by point, those that go with it.
    apart: by point, those that do not.
    most_w: usable power of the strongest.
    """

    search: CliqueSearch
    near: dict[int, Bits]
    apart: dict[int, Bits]
    shift: int
    most_w: float

    def grow(self, chosen: list[int], others: Bits) -> list[int]:
        """A completion of `chosen` to k by some of `others`, [] where there is none."""
        need = self.search.k - len(chosen)
        allowed = self.search.allowed(chosen, others, self.most_w, self.shift)
        if allowed is None:
            return []
        if not need:
            return chosen
        for point in self._branches(allowed, need):
            if clique := self.grow([*chosen, point + self.shift], allowed & self.near[point]):
                return clique
            allowed ^= 1 << point
        return []

    def heaviest(self, chosen: list[int], others: Bits, best: Weighed) -> Weighed:
        """The completion of `chosen` to k with most usable power, or `best` where none has more."""
        search, need = self.search, self.search.k - len(chosen)
        allowed = search.allowed(chosen, others, self.most_w, self.shift)
        if allowed is None:
            return best
        inside = members_of(allowed)
        weight = search.constraints.power_w(chosen)
        if weight + sum(nlargest(need, (search.usable_w[one + self.shift] for one in inside))) <= best[0]:
            return best
        if not need:
            return weight, chosen
        for point in inside if self._branches(allowed, need) else []:
            best = self.heaviest([*chosen, point + self.shift], allowed & self.near[point], best)
            allowed ^= 1 << point
        return best

    def _branches(self, others: Bits, need: int) -> list[int]:
        """Points one of which every clique of `need` holds: all but those of the first need - 1 colours.

        A colour is a set in which no two go together, so that a clique has at most one member of each.
        """
        apart = self.apart
        for _ in range(need - 1):
            free = others
            while free:
                low = free & -free
                others ^= low
                free &= apart[low.bit_length() - 1]
        return members_of(others)


def bits_of(mask: np.ndarray) -> Bits:
    """The set of a boolean mask."""
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def members_of(bits: Bits) -> list[int]:
    """Numbers of a set's members, rising."""
    members = []
    while bits:
        low = bits & -bits
        members.append(low.bit_length() - 1)
        bits ^= low
    return members


def neighbour_sets(n: int, edges: np.ndarray) -> dict[int, Bits]:
    """For each of n points that has an edge the set of those it shares one with, by rising number."""
    graph = csr_array((np.ones(2 * len(edges), bool), (edges.T.ravel(), edges[:, ::-1].T.ravel())), shape=(n, n))
    near = {}
    for one in np.flatnonzero(np.diff(graph.indptr)).tolist():
        mask = np.zeros(n, bool)
        mask[graph.indices[graph.indptr[one] : graph.indptr[one + 1]]] = True
        near[one] = bits_of(mask)
    return near


def nearest_places(constraints: SplitConstraints, upper_m: float) -> list[int]:
    """The k places with the least longest distance, and of these with most usable power.

    A graph joins points that go together: no plant in common, separation <= d_ij <= D. D grows until the graph has
    a clique of k; then the longest distance of each clique found is the next D, until there is no clique below it.
    Of the cliques with a pair D apart the one with most power is taken: by search where few points go with the
    pair, else by the programme.

    constraints: points in an order along the map, so that the neighbours left to try lie to one side.
    upper_m: a distance within which there are k places [m]. Gives their numbers, none where there are no k places.
    """
    search, usable = CliqueSearch(constraints), constraints.power.power_w
    diameter, edges, far = _least_diameter(search, upper_m)
    reach_m = diameter * (1 + _SAME)
    search.connect(edges[far <= reach_m])
    best: Weighed = (-1.0, [])
    for a, b in edges[np.abs(far - diameter) <= diameter * _SAME].tolist():
        common = search.common_neighbours(a, b)
        if common.bit_count() <= _FEW:
            best = search.heaviest(a, b, best)
            continue
        some = np.array(sorted([a, b, *members_of(common)], key=lambda one: -usable[one]))
        if usable[some[: constraints.k]].sum() > best[0]:
            places = some[strongest_places(constraints[some], reach_m=reach_m) or []]
            best = max(best, (constraints.power_w(places.tolist()), places.tolist()), key=lambda weighed: weighed[0])
    return best[1]


def _least_diameter(search: CliqueSearch, upper_m: float) -> tuple[float, np.ndarray, np.ndarray]:
    """Least longest distance of k places [m], inf where there are none, with pairs that hold them and their lengths."""
    constraints, n, sharing = search.constraints, len(search.usable_w), _sharing(search.constraints.power)
    reach = max(constraints.separation_m, upper_m / 64)
    if n > _MANY:
        some = np.sort(np.random.default_rng(0).permutation(n)[:_MANY])
        of_some = _least_diameter(CliqueSearch(constraints[some]), upper_m)[0]
        reach, upper_m = (of_some, of_some) if of_some < np.inf else (reach, upper_m)
    while True:
        reach = min(reach * _GROWTH, upper_m * (1 + 2 * _SAME))
        edges, far = _edges(constraints, sharing, reach)
        search.connect(edges)
        start, clique = search.first_clique(0)
        if clique:
            break
        if reach > upper_m:
            return np.inf, edges[:0], far[:0]
    while clique:
        longest = _diameter_around(search, edges, far, clique)
        search.connect(edges[(far < longest * (1 - _SAME)) & (edges[:, 0] >= start)])
        start, clique = search.first_clique(start)
    return longest, edges, far


def _diameter_around(search: CliqueSearch, edges: np.ndarray, far: np.ndarray, clique: list[int]) -> float:
    """Least longest distance [m] of the cliques among the first place of a clique and its neighbours."""
    around = np.zeros(len(search.usable_w), bool)
    around[edges[(edges == clique[0]).any(axis=1)]] = True
    inside = around[edges].all(axis=1)
    edges, far = edges[inside], far[inside]
    while clique:
        longest = diameter_m(search.constraints.power, clique)
        near = far < longest * (1 - _SAME)
        edges, far = edges[near], far[near]
        search.connect(edges)
        clique = search.first_clique(0)[1]
    return longest


def _sharing(power: AvailablePower) -> np.ndarray:
    """Pairs of points that share a plant, i n + j, sorted."""
    both = (power.plants @ power.plants.T).tocoo()
    return np.sort(both.row.astype(np.int64) * len(power) + both.col)


def _edges(constraints: SplitConstraints, sharing: np.ndarray, reach_m: float) -> tuple[np.ndarray, np.ndarray]:
    """Pairs that go together at most `reach_m` apart, in the order of the points, and their distances [m]."""
    power, near = constraints.power, pairs_within(constraints.power, reach_m)
    key = near[:, 0] * len(power) + near[:, 1]
    at = np.minimum(np.searchsorted(sharing, key), max(len(sharing) - 1, 0))
    near = near[sharing[at] != key] if len(sharing) else near
    far = pair_distances_m(power, near)
    cap_group, single = constraints.cap_group[near], np.array([*constraints.most_places, 2]) < 2
    alone = (cap_group[:, 0] == cap_group[:, 1]) & single[cap_group[:, 0]]  # two of an authority that may have one
    fits = (far >= constraints.separation_m) & (far <= reach_m) & ~alone
    return near[fits], far[fits]
