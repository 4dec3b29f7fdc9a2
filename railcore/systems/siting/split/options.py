"""What a split chooses from: candidates with their power, plants and authority, without the dominated ones."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from railcore.facts import checks
from railcore.systems.siting.candidates import Candidates
from railcore.systems.siting.geometry import chord, unit_vectors
from railcore.systems.siting.rules import available


@dataclass(frozen=True)
class SiteOptions:
    """Candidates that the places of a split are chosen from.

    latitude, longitude [degrees]; power_w that a rule lets a datacenter have [W]; authority and group, labels: arrays
    of shape (n,). plants: sparse 0/1, shape (n, plants). radius_m: of the candidates, where they are circles: those
    more than two radii apart share no plant.

    Raises ValueError naming the array whose length differs, a power that is not 0 or more, and a place off the Earth.
    """

    latitude: np.ndarray
    longitude: np.ndarray
    power_w: np.ndarray
    plants: csr_array
    authority: np.ndarray
    group: np.ndarray = field(default_factory=lambda: np.array(""))
    radius_m: float = np.inf

    def __post_init__(self) -> None:
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
        checks.at_least("power_w", self.power_w)
        unit_vectors(self.latitude, self.longitude)  # refuses places off the Earth

    def __len__(self) -> int:
        return len(self.power_w)

    def __getitem__(self, chosen: Any) -> "SiteOptions":
        """The same of some candidates, by mask, index or slice."""
        parts = ("latitude", "longitude", "power_w", "plants", "authority", "group")
        return replace(self, **{name: getattr(self, name)[chosen] for name in parts})


def site_options(
    candidates: Candidates,
    rule: str,
    most_coal: float = 0.5,
    reserve: str = "unit",
    group: ArrayLike = "",
) -> SiteOptions:
    """Options of `candidates` by a requirement rule, with the authority that has most of each one's power.

    Parameters
    ----------
    candidates
        To choose from.
    rule, most_coal, reserve
        As in `rules.available`, which gives the power.
    group
        Label of each candidate, for `split`'s `least`.

    Returns
    -------
    `SiteOptions` in the order of the candidates.
    """
    power = available(candidates.supply, rule, most_coal, reserve)
    return SiteOptions(
        candidates.latitude,
        candidates.longitude,
        power,
        candidates.plants,
        candidates.most_of("authority"),
        np.asarray(group),
        candidates.radius_m,
    )


def pairs_within(options: SiteOptions, distance_m: float) -> np.ndarray:
    """Pairs (i, j), i < j, of candidates at most about this far apart, shape (pairs, 2)."""
    tree = cKDTree(unit_vectors(options.latitude, options.longitude))
    found = tree.query_pairs(chord(distance_m * (1 + 1e-9)) + 1e-9, output_type="ndarray")
    return np.asarray(found, np.int64).reshape(-1, 2)


def undominated(
    options: SiteOptions, within_m: float, caps: Mapping[str, float] | None = None, separation_m: float = 0.0
) -> np.ndarray:
    """Indices of the candidates that no other one replaces.

    B replaces A where B is kept, d(A, B) <= within_m, B has at least A's power, the same group and, where it is capped,
    the same authority, and plants of B are among those of A; the last is not asked where separation_m exceeds two
    radii, so that chosen places cannot share a plant. Of equals the one with fewer plants stays, then the first. Exact
    at within_m = 0. Else a resolution w: B for A moves a place by at most w, so the shortest longest distance L(s) at
    least separation s is bounded by L(s) <= L_kept(s) <= L(s + 2 w) + 2 w.

    Parameters
    ----------
    options
        Candidates.
    within_m, separation_m
        w, and the least separation s of a split [m].
    caps
        By authority; only its keys count here.

    Returns
    -------
    Indices, rising.

    Raises
    ------
    ValueError for a within_m below 0.
    """
    checks.at_least("within_m", within_m)
    size, apart = np.diff(options.plants.indptr), separation_m > 2 * options.radius_m
    first = (size, -options.power_w) if apart else (-options.power_w, size)
    rank = np.argsort(np.lexsort((np.arange(len(options)), *first)))
    near = pairs_within(options, within_m)
    a, b = np.where(rank[near[:, 0]] < rank[near[:, 1]], near[:, ::-1].T, near.T)  # b may replace a
    alike = options.power_w[b] >= options.power_w[a]
    authority, group = (np.unique(labels, return_inverse=True)[1] for labels in (options.authority, options.group))
    authority[~np.isin(options.authority, list(caps or {}))] = -1
    alike &= (authority[a] == authority[b]) & (group[a] == group[b])
    a, b = a[alike], b[alike]
    if not apart:
        subset = _shared(options, a, b) == size[b]
        a, b = a[subset], b[subset]
    order = np.argsort(rank[b], kind="stable")
    a, b = a[order], b[order]
    keep, ends = np.ones(len(options), bool), np.flatnonzero(np.diff(b, prepend=-1, append=-1))
    for start, end in pairwise(ends.tolist() if len(b) else []):  # those that one candidate may replace
        if keep[b[start]]:
            keep[a[start:end]] = False
    return np.flatnonzero(keep)


def _shared(options: SiteOptions, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Plants that a and b of each pair both hold."""
    count = np.zeros(len(a))
    for part in np.array_split(np.arange(len(a)), max(len(a) // 100_000, 1)):
        count[part] = options.plants[a[part]].multiply(options.plants[b[part]]).sum(axis=1)
    return count
