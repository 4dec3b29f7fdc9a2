"""Exact search for k candidates that go together: cliques of a graph, whose sets are held as bits of integers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from typing import Any

import numpy as np
from scipy.sparse import csr_array

Bits = int  # a set of candidates: bit i for candidate i
Weighed = tuple[float, list[int]]  # usable power of a clique [W], and the clique


@dataclass(frozen=True)
class SplitNeeds:
    """What k places must have besides going together in pairs.

    usable_w: power of each candidate. demand_w: of all k. area: label of each candidate's capped authority, -1 for
    none; cap_w, most_places: by label, of power and places. group: label of each candidate's group, -1 where none is
    asked for; least: places by group.
    """

    usable_w: np.ndarray
    demand_w: float
    area: np.ndarray
    cap_w: Sequence[float]
    most_places: Sequence[int]
    group: np.ndarray
    least: Sequence[int]

    def power_w(self, chosen: Sequence[int]) -> float:
        """Power that places can have together: sum over capped authorities of min(cap, their usable), and the rest."""
        usable, area = self.usable_w[list(chosen)], self.area[list(chosen)]
        capped = (min(cap, float(usable[area == label].sum())) for label, cap in enumerate(self.cap_w))
        return float(usable[area < 0].sum()) + sum(capped)

    def __getitem__(self, chosen: Any) -> "SplitNeeds":
        """The same of some candidates, by index or slice."""
        parts = ("usable_w", "area", "group")
        return replace(self, **{name: getattr(self, name)[chosen] for name in parts})


class CliqueSearch:
    """Cliques of k in a graph of candidates that meet `needs`, by branch and bound."""

    def __init__(self, needs: SplitNeeds, k: int) -> None:
        self.needs, self.k = needs, k
        self.areas = [set_of(needs.area == label) for label in range(len(needs.cap_w))]
        self.groups = [set_of(needs.group == label) for label in range(len(needs.least))]
        self.enough = needs.demand_w * (1 - 1e-12)
        self.usable_w = needs.usable_w.tolist()
        self.any_feed = bool(needs.usable_w.min() * k >= self.enough)  # every allowed set has the demand

    def connect(self, edges: np.ndarray) -> None:
        """Take these pairs as the graph, less candidates that have too few neighbours, in all or in a group."""
        needs, n = self.needs, len(self.needs.usable_w)
        while len(edges):
            deep = np.bincount(edges.ravel(), minlength=n) >= self.k - 1
            for label, least in enumerate(needs.least):
                inside = needs.group == label
                met = sum(np.bincount(edges[:, i], inside[edges[:, 1 - i]], minlength=n) for i in (0, 1))
                deep &= met + inside >= least
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
        missing = 0
        for group, lack in self.lacking(chosen):
            missing += lack
            if lack > (others & group >> shift).bit_count():
                return None
        if missing > need or others.bit_count() < need:
            return None
        if self.any_feed or needs.power_w(chosen) + need * most_w >= self.enough:
            return others
        return None

    def lacking(self, chosen: list[int]) -> list[tuple[Bits, int]]:
        """Groups of which `chosen` has fewer places than asked for, and how many fewer."""
        have = [int((self.needs.group[chosen] == label).sum()) for label in range(len(self.groups))]
        lack = [least - count for least, count in zip(self.needs.least, have, strict=True)]
        return [(group, count) for group, count in zip(self.groups, lack, strict=True) if count > 0]


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
        lacking = [allowed & group >> self.shift for group, _ in self.search.lacking(chosen)]
        for candidate in numbers_in(min(lacking, key=int.bit_count)) if lacking else self._branches(allowed, need):
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
