"""What a split chooses from: candidates with their power, plants and authority, without the dominated ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.systems.siting.candidates import Candidates
from railcore.systems.siting.rules import available
from railcore.systems.siting.sphere import chord, unit_vectors

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True)
class Options:
    """Candidates that places are chosen from.

    latitude, longitude [degrees]; power_w that a rule lets a datacenter have [W]; authority and group, labels: arrays
    of shape (n,). plants: sparse 0/1, shape (n, plants). radius_m: of the candidates, where they are circles: those
    more than two radii apart share no plant.

    Raises ValueError naming the array whose length differs, a power that is not 0 or more, and a place off the Earth.
    """

    latitude: np.ndarray
    longitude: np.ndarray
    power_w: np.ndarray
    plants: "csr_array"
    authority: np.ndarray
    group: np.ndarray = field(default_factory=lambda: np.array(""))
    radius_m: float = np.inf

    def __post_init__(self) -> None:
        from scipy.sparse import csr_array

        object.__setattr__(self, "plants", csr_array(self.plants, dtype=np.float32))
        n = self.plants.shape[0]
        labels = np.full(n, "") if np.shape(self.group) == () else self.group
        for name, value, kind in (
            ("latitude", self.latitude, float),
            ("longitude", self.longitude, float),
            ("power_w", self.power_w, float),
            ("authority", self.authority, str),
            ("group", labels, str),
        ):
            array = np.asarray(value, dtype=kind)
            if array.shape != (n,):
                raise ValueError(f"{name} has shape {array.shape}: plants has {n} rows, give ({n},)")
            object.__setattr__(self, name, array)
        if not np.all((self.power_w >= 0) & np.isfinite(self.power_w)):
            raise ValueError("power_w has values that are negative or not finite: give watts of 0 or more")
        for name, most in (("latitude", 90), ("longitude", 180)):
            if not np.all(np.abs(getattr(self, name)) <= most):
                raise ValueError(f"{name} goes beyond {most}: give degrees from {-most} to {most}")

    def __len__(self) -> int:
        return len(self.power_w)

    def __getitem__(self, chosen: Any) -> "Options":
        """The same of some candidates, by mask, index or slice."""
        parts = ("latitude", "longitude", "power_w", "plants", "authority", "group")
        return replace(self, **{name: getattr(self, name)[chosen] for name in parts})


def site_options(
    candidates: Candidates,
    rule: str,
    most_coal: float = 0.5,
    reserve: str = "unit",
    group: ArrayLike = "",
) -> Options:
    """Options of `candidates` by a requirement rule, with the authority that has most of each one's power.

    Power is `rules.available`, 0 where coal dominates or the lines are too weak. group: labels for `split`'s `least`.
    """
    power = available(candidates.supply, rule, most_coal, reserve)
    return Options(
        candidates.latitude,
        candidates.longitude,
        power,
        candidates.plants,
        candidates.most_of("authority"),
        np.asarray(group),
        candidates.radius_m,
    )


def pairs(options: Options, distance_m: float) -> np.ndarray:
    """Pairs (i, j), i < j, of candidates at most about this far apart, shape (pairs, 2)."""
    from scipy.spatial import cKDTree

    tree = cKDTree(unit_vectors(options.latitude, options.longitude))
    found = tree.query_pairs(chord(distance_m * (1 + 1e-9)) + 1e-9, output_type="ndarray")
    return np.asarray(found, np.int64).reshape(-1, 2)


def lengths(options: Options, pairs: np.ndarray) -> np.ndarray:
    """Great circles between the two of each pair [m], shape (pairs,)."""
    from railcore.network.wide_area import great_circle_distance

    a, b = pairs.T
    return np.asarray(
        great_circle_distance(options.latitude[a], options.longitude[a], options.latitude[b], options.longitude[b])
    )


def undominated(
    options: Options, within_m: float, caps: Mapping[str, float] | None = None, separation_m: float = 0.0
) -> np.ndarray:
    """Indices of the candidates that no other one replaces.

    B replaces A where B is kept, d(A, B) <= within_m, B has at least A's power, the same group and, where it is capped,
    the same authority, and plants of B are among those of A; the last is not asked where separation_m exceeds two
    radii, so that chosen places cannot share a plant. Of equals the one with fewer plants stays, then the first. Exact
    at within_m = 0. Else a resolution w: B for A moves a place by at most w, so the shortest longest distance L(s) at
    least separation s is bounded by L(s) <= L_kept(s) <= L(s + 2 w) + 2 w.
    """
    if not within_m >= 0:
        raise ValueError(f"within_m is {within_m!r}: give metres of 0 or more")
    size, apart = np.diff(options.plants.indptr), separation_m > 2 * options.radius_m
    first = (size, -options.power_w) if apart else (-options.power_w, size)
    rank = np.argsort(np.lexsort((np.arange(len(options)), *first)))
    near = pairs(options, within_m)
    near = np.where(rank[near[:, :1]] < rank[near[:, 1:]], near[:, ::-1], near)  # (A, B)
    a, b = near.T
    alike = options.power_w[b] >= options.power_w[a]
    capped = np.isin(options.authority, list(caps or {}))
    for labels in (np.where(capped, np.char.add("+", options.authority), ""), options.group):
        number = np.unique(labels, return_inverse=True)[1]
        alike &= number[a] == number[b]
    near = near[alike]
    near = near[lengths(options, near) <= within_m] if len(near) else near
    near = near if apart or not len(near) else near[_shared(options, near) == size[near[:, 1]]]
    near = near[np.argsort(rank[near[:, 1]], kind="stable")]
    keep, ends = np.ones(len(options), bool), np.flatnonzero(np.diff(near[:, 1], prepend=-1, append=-1))
    for start, end in pairwise(ends.tolist() if len(near) else []):  # those that one candidate may replace
        if keep[near[start, 1]]:
            keep[near[start:end, 0]] = False
    return np.flatnonzero(keep)


def _shared(options: Options, near: np.ndarray) -> np.ndarray:
    """Plants that both of each pair hold."""
    parts = np.array_split(near, max(len(near) // 100_000, 1))
    both = [options.plants[p[:, 0]].multiply(options.plants[p[:, 1]]).sum(axis=1) for p in parts]
    return np.concatenate([np.asarray(count).ravel() for count in both])
