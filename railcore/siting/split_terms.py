"""A split: k places that feed a demand together, what they must meet, and which points need not be looked at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.spatial import cKDTree

from railcore.catalog import checks
from railcore.catalog.arguments import Metres, Quantity, Range, Share, checked, si
from railcore.network.globe import chord_length, unit_vectors
from railcore.siting.rules import AvailablePower


def pairs_within(power: AvailablePower, distance_m: float) -> np.ndarray:
    """Pairs (i, j), i < j, of points at most about this far apart, shape (pairs, 2)."""
    tree = cKDTree(unit_vectors(power.latitude, power.longitude))
    pairs = tree.query_pairs(chord_length(distance_m * (1 + 1e-9)) + 1e-9, output_type="ndarray")
    return np.asarray(pairs, np.int64).reshape(-1, 2)


def undominated_points(
    power: AvailablePower, resolution_m: float, caps: Mapping[str, float] | None = None, separation_m: float = 0.0
) -> np.ndarray:
    """Indices of the points that no other one replaces.

    Points are taken in order: with the fewest plants first, or by falling power where separation_m exceeds two
    radii. One that is kept, B, replaces a later one, A, where

    - d(A, B) <= resolution_m;
    - B has at least A's power and, where either authority has a cap, A's authority;
    - the plants of B are among those of A. This is not asked where separation_m exceeds two radii: chosen places then
      cannot share a plant.

    Of equals the one with fewer plants stays, then the first. The split is exact at resolution_m = 0. Else, with
    w = resolution_m, B in place of A moves a place by at most w, so that the least longest distance L(s) at separation
    s is bounded by L(s) <= L_kept(s) <= L(s + 2 w) + 2 w.

    Parameters
    ----------
    power
        At each point.
    resolution_m, separation_m
        w, and the least separation s of a split [m].
    caps
        By authority; only its keys count here.

    Returns
    -------
    Indices, rising.
    """
    size, apart = np.diff(power.plants.indptr), separation_m > 2 * power.radius_m
    order = np.lexsort((size, -power.power_w) if apart else (-power.power_w, size))
    some, size = power[order], size[order]
    b, a = pairs_within(some, resolution_m).T  # b comes first and may replace a
    capped = pd.Index(list(caps or {})).get_indexer(some.authority)  # -1 for the others
    alike = (some.power_w[b] >= some.power_w[a]) & (capped[b] == capped[a])
    b, a = b[alike], a[alike]
    if not apart:
        subset = _shared(some, a, b) == size[b]
        b, a = b[subset], a[subset]
    pairs = coo_array((np.ones(len(a), bool), (b, a)), shape=(len(order), len(order)))
    pairs.has_canonical_format = True  # each pair is there once
    replaced = pairs.tocsr()
    keep = np.ones(len(order), bool)
    for one, (start, end) in enumerate(pairwise(replaced.indptr.tolist())):
        if keep[one]:
            keep[replaced.indices[start:end]] = False
    return np.sort(order[keep])


def _shared(power: AvailablePower, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Plants that a and b of each pair both hold."""
    count = np.zeros(len(a))
    for part in np.array_split(np.arange(len(a)), max(len(a) // 100_000, 1)):
        count[part] = power.plants[a[part]].multiply(power.plants[b[part]]).sum(axis=1)
    return count


Objective = Literal["shortest", "spare"]
MOST_PLACES = 10  # an exact search takes too long for more


@dataclass(frozen=True)
class SplitConstraints:
    """Usable power at points, and what k places among them must meet.

    power: at each point, the usable one.
    k: number of places.
    demand_w: of all places together.
    separation_m: least distance between two.
    cap_group: number of each point's capped authority, -1 for none.
    cap_w, most_places: most power [W] and places of each such group.
    even: every place carries an even part, so that most_places are all that caps ask.
    """

    power: AvailablePower
    k: int
    demand_w: float
    separation_m: float
    cap_group: np.ndarray
    cap_w: Sequence[float]
    most_places: Sequence[int]
    even: bool

    def power_w(self, chosen: Sequence[int]) -> float:
        """Power that places can have together: sum over capped authorities of min(cap, their usable), and the rest."""
        usable, group = self.power.power_w[list(chosen)], self.cap_group[list(chosen)]
        capped = (min(cap, float(usable[group == number].sum())) for number, cap in enumerate(self.cap_w))
        return float(usable[group < 0].sum()) + sum(capped)

    def __getitem__(self, chosen: Any) -> "SplitConstraints":
        """The same of some points, by index or slice."""
        return replace(self, power=self.power[chosen], cap_group=self.cap_group[chosen])


@checked
@dataclass(frozen=True)
class SplitTerms:
    """What a split must meet.

    demand_w: power of all places together [W].
    k: their number.
    objective: "shortest", least longest distance, and of these most spare power; or "spare", most spare power.
    least_separation_m: between two places.
    place_cap_w, authority_caps: most power [W] of a place, and of the places of an authority by its code.
    least_share: of an even part, that every place carries; 1 for even parts, as training in step over all places wants.
    resolution_m: distance within which a point replaces those that it dominates (`undominated_points`); not how near
        places are.

    Raises ValueError naming the argument out of range.
    """

    demand_w: Annotated[Quantity, Range(0, above_0=True, example="1.2 GW")]
    k: Annotated[int, Range(1, MOST_PLACES)]
    objective: Objective = "shortest"
    least_separation_m: Metres = 0.0
    place_cap_w: Annotated[Quantity, Range(0, above_0=True, infinite=True, example="1.2 GW")] = np.inf
    authority_caps: Mapping[str, float] = field(default_factory=dict)
    least_share: Share = 1.0
    resolution_m: Metres = 0.0

    def __post_init__(self) -> None:
        caps = {name: si(f"authority_caps[{name!r}]", cap, "2 GW") for name, cap in self.authority_caps.items()}
        for authority, cap in caps.items():
            if not checks.numbers(f"authority_caps[{authority!r}]", cap) >= 0:  # infinite for no cap
                raise ValueError(f"authority_caps[{authority!r}] is {cap!r}: give watts of 0 or more")
        object.__setattr__(self, "authority_caps", caps)

    @property
    def least_part_w(self) -> float:
        """The least that a place carries: s d / k [W]."""
        return self.least_share * self.demand_w / self.k

    def check(self, power: AvailablePower) -> None:
        """Raises ValueError for more places than points, and for authorities that no point has."""
        if self.k > len(power):
            raise ValueError(f"k is {self.k}: give at most as many places as there are points, {len(power)}")
        if unknown := sorted(code for code in self.authority_caps if code not in power.authority):
            choices = np.unique(power.authority).tolist()
            raise ValueError(f"authority_caps has {unknown}: no point has them, give some of {choices}")

    def usable_w(self, power: AvailablePower) -> np.ndarray:
        """u = min(P, place cap, cap of the authority) [W]."""
        cap_w = [self.authority_caps.get(code, np.inf) for code in power.authority.tolist()]
        return np.minimum(power.power_w, np.minimum(cap_w, self.place_cap_w))

    def constraints(self, power: AvailablePower) -> SplitConstraints:
        """What a search for places must meet, for power that is the usable one."""
        caps = {name: cap for name, cap in self.authority_caps.items() if cap < np.inf}
        most = [
            int(min(cap * (1 + 1e-12) / self.least_part_w, self.k)) if self.least_part_w else self.k
            for cap in caps.values()
        ]
        group = pd.Index(list(caps)).get_indexer(power.authority)  # -1 for those without a cap
        cap_w, separation_m = list(caps.values()), self.least_separation_m
        even = self.least_share == 1
        return SplitConstraints(power, self.k, self.demand_w, separation_m, group, cap_w, most, even)

    def allocated_w(self, power: AvailablePower) -> np.ndarray:
        """Power that each chosen place carries [W]: x_i = l + f (v_i - l).

        l: the least part.
        v_i: what i may carry, l + (u_i - l) min(1, (cap - n l) / sum of u - l), the sum over the n places of i's
        authority.
        f: the same for all places, (d - k l) / (sum of v - k l).
        power: at the places.
        """
        over = self.usable_w(power) - self.least_part_w
        for authority, cap in self.authority_caps.items():
            places = power.authority == authority
            if (total := over[places].sum()) > 0:
                over[places] *= min(1.0, max(cap - places.sum() * self.least_part_w, 0.0) / total)
        rest = self.demand_w - self.k * self.least_part_w
        return np.full(len(over), self.least_part_w) + (rest / over.sum() * over if rest > 0 else 0.0)


@dataclass(frozen=True)
class Split:
    """k places that feed a demand together.

    terms: what they must meet.
    places: indices of the points, most power first.
    power_w: what each place carries [W].
    usable_w: what it could carry [W].
    longest_m: between any two [m]; 0 for one place.
    spare_w: what they could carry together, over the demand [W]: places of one authority share its cap.
    with_power: how many points had power to offer.
    strong_enough: how many of these have the least share.
    undominated: how many of these no other replaces; among them the split is optimal.
    """

    terms: SplitTerms
    places: np.ndarray
    power_w: np.ndarray
    usable_w: np.ndarray
    longest_m: float
    spare_w: float
    with_power: int
    strong_enough: int
    undominated: int

    def table(self, power: AvailablePower) -> pd.DataFrame:
        """One row for each place: its index, where, authority, power that it carries and could [W]."""
        columns = {name: getattr(power, name)[self.places] for name in ("latitude", "longitude", "authority")}
        return pd.DataFrame({"place": self.places, **columns, "power_w": self.power_w, "usable_w": self.usable_w})
