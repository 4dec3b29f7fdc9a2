"""Exact searches for the k places of a split."""

from dataclasses import dataclass, field, replace
from heapq import nlargest
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, hstack, vstack

from railcore.facts.units import MW
from railcore.systems.siting.geometry import distances_m, longest_m, pairs_of, unit_vectors, within_radius
from railcore.systems.siting.options import SiteOptions, SplitNeeds, pairs_within

Bits = int  # a set of candidates: bit i for candidate i
Weighed = tuple[float, list[int]]  # usable power of a clique [W], and the clique
HIGHS = {"mip_rel_gap": 0, "presolve": False}  # presolve takes longer than the rest
FIRST = 64  # candidates of the first programme
_SAME = 1e-9  # distances that differ by less of themselves are equal
_MANY = 1000  # candidates, of which so many give a first upper bound
_FEW = 300  # candidates that go with a pair, more are left to the programme
_GROWTH = 1.3  # of the distance that the search tries next


class CliqueSearch:
    """Cliques of k in a graph of candidates that meet `needs`, by branch and bound."""

    def __init__(self, needs: SplitNeeds, k: int) -> None:
        self.needs, self.k = needs, k
        self.areas = [set_of(needs.area == label) for label in range(len(needs.cap_w))]
        self.enough = needs.demand_w * (1 - 1e-12)
        self.usable_w = needs.usable_w.tolist()
        self.any_feed = bool(needs.usable_w.min() * k >= self.enough)  # every allowed set has the demand

    def connect(self, edges: np.ndarray) -> None:
        """Take these pairs as the graph, less candidates that have too few neighbours."""
        n = len(self.needs.usable_w)
        while len(edges):
            deep = np.bincount(edges.ravel(), minlength=n) >= self.k - 1
            if deep[edges].all():
                break
            edges = edges[deep[edges].all(axis=1)]
        self.near = neighbour_sets(n, edges)

    def first(self, start: int) -> tuple[int, list[int]]:
        """The first clique whose lowest member is `start` or later, with that member; [] where there is none."""
        for lowest in self.near:
            if lowest >= start and (found := self._above(lowest)):
                return lowest, found
        return start, []

    def joined(self, a: int, b: int) -> Bits:
        """The candidates that go with both of a pair."""
        return self.near.get(a, 0) & self.near.get(b, 0)

    def heaviest(self, a: int, b: int, best: Weighed) -> Weighed:
        """The clique with most usable power that holds both of a pair, or `best` where none has more."""
        others = self.joined(a, b)
        near = {one: self.near[one] & others for one in numbers_in(others)}
        return self._branch(near, others, 0).heaviest([a, b], others, best)

    def _above(self, lowest: int) -> list[int]:
        """A clique of `lowest` and later candidates, in numbers from it on: the sets are short."""
        shift = lowest + 1
        others = self.near[lowest] >> shift
        near = {one: self.near[one + shift] >> shift & others for one in numbers_in(others)}
        for one, joint in near.items():
            if joint.bit_count() < self.k - 2:
                others ^= 1 << one
        top = nlargest(self.k - 1, (self.usable_w[one + shift] for one in numbers_in(others)))
        if not self.any_feed and self.needs.power_w([lowest]) + sum(top) < self.enough:
            return []
        return self._branch(near, others, shift).grow([lowest], others)

    def _branch(self, near: dict[int, Bits], others: Bits, shift: int) -> "Branch":
        inside = numbers_in(others)
        apart = {one: others & ~near[one] & ~(1 << one) for one in inside}
        return Branch(self, near, apart, shift, max((self.usable_w[one + shift] for one in inside), default=0.0))

    def allowed(self, chosen: list[int], others: Bits, most_w: float, shift: int = 0) -> Bits | None:
        """Those of `others` that may still join the chosen ones.

        Parameters
        ----------
        chosen, others
            Candidates of the clique, and the set of those that go with all of them, in numbers less `shift`.
        most_w
            Usable power that none of the others exceeds [W].
        shift
            Added to a number of the set for the candidate's own.

        Returns
        -------
        A set, or None where no completion can meet the needs.
        """
        needs, need = self.needs, self.k - len(chosen)
        for label, area in enumerate(self.areas):
            free = needs.most_places[label] - int((needs.area[chosen] == label).sum())
            if free < 0:
                return None
            others = others if free else others & ~(area >> shift)
        if others.bit_count() < need:
            return None
        if self.any_feed or needs.power_w(chosen) + need * most_w >= self.enough:
            return others
        return None


@dataclass(frozen=True)
class Branch:
    """The part of a search above one candidate: sets hold numbers less `shift`.

    near: neighbours of each there; apart: the others but itself; most_w: usable power of the strongest.
    """

    search: CliqueSearch
    near: dict[int, Bits]
    apart: dict[int, Bits]
    shift: int
    most_w: float

    def grow(self, chosen: list[int], others: Bits) -> list[int]:
        """A completion of `chosen` to k by some of `others`, [] where there is none."""
        allowed, need = self.search.allowed(chosen, others, self.most_w, self.shift), self.search.k - len(chosen)
        if allowed is None or not need:
            return [] if allowed is None else chosen
        for candidate in self._branches(allowed, need):
            if found := self.grow([*chosen, candidate + self.shift], allowed & self.near[candidate]):
                return found
            allowed ^= 1 << candidate
        return []

    def heaviest(self, chosen: list[int], others: Bits, best: Weighed) -> Weighed:
        """The completion of `chosen` to k with most usable power, or `best` where none has more."""
        search, need = self.search, self.search.k - len(chosen)
        allowed = search.allowed(chosen, others, self.most_w, self.shift)
        if allowed is None:
            return best
        inside = numbers_in(allowed)
        weight = sum(search.usable_w[one] for one in chosen)
        if weight + sum(nlargest(need, (search.usable_w[one + self.shift] for one in inside))) <= best[0]:
            return best
        if not need:
            return weight, chosen
        for candidate in inside if self._branches(allowed, need) else []:
            best = self.heaviest([*chosen, candidate + self.shift], allowed & self.near[candidate], best)
            allowed ^= 1 << candidate
        return best

    def _branches(self, others: Bits, need: int) -> list[int]:
        """Candidates one of which every clique of `need` holds: all but those of the first need - 1 colours.

        A colour is a set in which no two go together, so that a clique has at most one member of each.
        """
        apart = self.apart
        for _ in range(need - 1):
            free = others
            while free:
                low = free & -free
                others ^= low
                free &= apart[low.bit_length() - 1]
        return numbers_in(others)


def set_of(mask: np.ndarray) -> Bits:
    """The set of a boolean mask."""
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def numbers_in(of: Bits) -> list[int]:
    """Numbers of a set's members, rising."""
    found = []
    while of:
        low = of & -of
        found.append(low.bit_length() - 1)
        of ^= low
    return found


def neighbour_sets(n: int, edges: np.ndarray) -> dict[int, Bits]:
    """For each of n candidates that has an edge the set of those it shares one with, by rising number."""
    graph = csr_array((np.ones(2 * len(edges), bool), (edges.T.ravel(), edges[:, ::-1].T.ravel())), shape=(n, n))
    found = {}
    for one in np.flatnonzero(np.diff(graph.indptr)).tolist():
        mask = np.zeros(n, bool)
        mask[graph.indices[graph.indptr[one] : graph.indptr[one + 1]]] = True
        found[one] = set_of(mask)
    return found


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
    u + (most of k - 1 places, heedless of caps and demand) <= (most found).

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
    free = replace(needs, demand_w=0.0, area=np.full(len(usable), -1), cap_w=(), most_places=())
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
    sum over a of y_i <= its most places.
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
    programme.add(np.concatenate([usable * (needs.area < 0), none + 1]), low=needs.demand_w / MW)
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


def shortest(options: SiteOptions, needs: SplitNeeds, k: int, separation_m: float, upper_m: float) -> list[int]:
    """The k places with the least longest distance, and of these with most usable power.

    A graph joins candidates that go together: no plant in common, separation <= d_ij <= D. D grows until the graph has
    a clique of k; then the longest distance of each clique found is the next D, until there is no clique below it.
    Where the pairs that are D apart go with few others, their cliques are tried for power, else the programme is.

    Parameters
    ----------
    options, needs
        Candidates in an order along the map, so that neighbours left to try lie to one side, and what they must meet.
    k, separation_m
        Number of places, and the least distance between two [m].
    upper_m
        A distance within which k places are known [m].

    Returns
    -------
    Their numbers, none where there are no k places.
    """
    search = CliqueSearch(needs, k)
    longest, edges, far = _least(search, options, separation_m, upper_m)
    search.connect(edges[far <= longest * (1 + _SAME)])
    best: Weighed = (-1.0, [])
    for a, b in edges[np.abs(far - longest) <= longest * _SAME].tolist():
        if search.joined(a, b).bit_count() <= _FEW:
            best = search.heaviest(a, b, best)
        else:
            some = sorted([a, b, *numbers_in(search.joined(a, b))], key=lambda one: -needs.usable_w[one])
            best = _strongest(options, needs, k, separation_m, longest * (1 + _SAME), some, best)
    return best[1]


def _strongest(
    options: SiteOptions,
    needs: SplitNeeds,
    k: int,
    separation_m: float,
    reach_m: float,
    some: list[int],
    best: Weighed,
) -> Weighed:
    """The k places of some candidates, none farther apart than the reach, with most power; or `best`."""
    if needs.usable_w[some[:k]].sum() <= best[0]:
        return best
    found = strongest(options[some], needs[some], k, separation_m, reach_m=reach_m)
    power = float(needs.usable_w[some][found].sum()) if found else -1.0
    return (power, [some[one] for one in found]) if found and power > best[0] else best


def _least(
    search: CliqueSearch, options: SiteOptions, separation_m: float, upper_m: float
) -> tuple[float, np.ndarray, np.ndarray]:
    """Least longest distance of k places [m], inf where there are none, with pairs that hold them and their lengths."""
    needs, sharing = search.needs, _sharing(options)
    reach = max(separation_m, upper_m / 64)
    if len(options) > _MANY:
        some = np.sort(np.random.default_rng(0).permutation(len(options))[:_MANY])
        known = _least(CliqueSearch(needs[some], search.k), options[some], separation_m, upper_m)[0]
        reach, upper_m = (known, known) if known < np.inf else (reach, upper_m)
    while True:
        reach = min(reach * _GROWTH, upper_m * (1 + 2 * _SAME))
        edges, far = _edges(options, needs, sharing, separation_m, reach)
        search.connect(edges)
        start, found = search.first(0)
        if found:
            break
        if reach > upper_m:
            return np.inf, edges[:0], far[:0]
    while found:
        longest = _tightened(search, options, edges, far, found)
        search.connect(edges[(far < longest * (1 - _SAME)) & (edges[:, 0] >= start)])
        start, found = search.first(start)
    return longest, edges, far


def _tightened(
    search: CliqueSearch, options: SiteOptions, edges: np.ndarray, far: np.ndarray, found: list[int]
) -> float:
    """Least longest distance [m] of the cliques among the neighbours of a found one's first place."""
    around = np.zeros(len(options), bool)
    around[edges[(edges == found[0]).any(axis=1)]] = True
    inside = around[edges].all(axis=1)
    edges, far = edges[inside], far[inside]
    while found:
        longest = longest_m(options, found)
        near = far < longest * (1 - _SAME)
        edges, far = edges[near], far[near]
        search.connect(edges)
        found = search.first(0)[1]
    return longest


def _sharing(options: SiteOptions) -> np.ndarray:
    """Pairs of candidates that share a plant, i n + j, sorted."""
    both = (options.plants @ options.plants.T).tocoo()
    return np.sort(both.row.astype(np.int64) * len(options) + both.col)


def _edges(
    options: SiteOptions, needs: SplitNeeds, sharing: np.ndarray, separation_m: float, reach_m: float
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs that go together at most `reach_m` apart, the first on the map first, and their distances [m]."""
    near = np.sort(pairs_within(options, reach_m), axis=1)
    key = near[:, 0] * len(options) + near[:, 1]
    at = np.minimum(np.searchsorted(sharing, key), max(len(sharing) - 1, 0))
    near = near[sharing[at] != key] if len(sharing) else near
    far = distances_m(options, near)
    area, single = needs.area[near], np.array([*needs.most_places, 2]) < 2
    alone = (area[:, 0] == area[:, 1]) & single[area[:, 0]]  # two of an authority that may have one
    fits = (far >= separation_m) & (far <= reach_m) & ~alone
    return near[fits], far[fits]
