"""The k places whose longest distance is least."""

import numpy as np
from scipy.spatial import cKDTree

from railcore.systems.siting.geometry import chord, distances_m, longest_m, unit_vectors
from railcore.systems.siting.split.cliques import CliqueSearch, SplitNeeds, Weighed, numbers_in
from railcore.systems.siting.split.options import SiteOptions, pairs_within
from railcore.systems.siting.split.packing import strongest

_SAME = 1e-9  # distances that differ by less of themselves are equal
_MANY = 1000  # candidates, of which so many give a first upper bound
_FEW = 300  # candidates that go with a pair, more are left to the programme
_GROWTH = 1.3  # of the distance that the search tries next


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
    """Pairs that go together at most `reach_m` apart, the first on the map first, and their distances [m].

    Of candidates that have a member of each group asked for within reach.
    """
    inside = np.flatnonzero(_met(options, needs, reach_m))
    near = inside[np.sort(pairs_within(options[inside], reach_m), axis=1)]
    key = near[:, 0] * len(options) + near[:, 1]
    at = np.minimum(np.searchsorted(sharing, key), max(len(sharing) - 1, 0))
    near = near[sharing[at] != key] if len(sharing) else near
    far = distances_m(options, near)
    area, single = needs.area[near], np.array([*needs.most_places, 2]) < 2
    alone = (area[:, 0] == area[:, 1]) & single[area[:, 0]]  # two of an authority that may have one
    fits = (far >= separation_m) & (far <= reach_m) & ~alone
    return near[fits], far[fits]


def _met(options: SiteOptions, needs: SplitNeeds, reach_m: float) -> np.ndarray:
    """True for candidates that have a member of each group asked for within reach."""
    points, met = unit_vectors(options.latitude, options.longitude), np.ones(len(options), bool)
    for label, least in enumerate(needs.least):
        if least:
            nearest, _ = cKDTree(points[needs.group == label]).query(points)
            met &= nearest <= chord(reach_m * (1 + 1e-9)) + 1e-9
    return met
