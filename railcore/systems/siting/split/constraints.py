"""What is asked of a split, checked, and how k places share a demand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from railcore.systems.siting.split.choices import Options
from railcore.systems.siting.split.search import Needs

OBJECTIVES = ("shortest", "spare")
MOST_PLACES = 10  # that an exact search has time for


@dataclass(frozen=True)
class Terms:
    """What is asked of a split, as in `split`."""

    demand_w: float
    k: int
    objective: str
    least_separation_m: float
    place_cap_w: float
    authority_caps: Mapping[str, float]
    least_share: float
    least: Mapping[str, int]
    within_m: float

    def __post_init__(self) -> None:
        if int(self.k) != self.k or not 1 <= self.k <= MOST_PLACES:
            raise ValueError(f"k is {self.k!r}: give a whole number of places, 1 to {MOST_PLACES}; the search is exact")
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective is {self.objective!r}: give one of {', '.join(OBJECTIVES)}")
        if not 0 <= self.least_share <= 1:
            raise ValueError(f"least_share is {self.least_share!r}: give 0 to 1, 1 for even parts")
        for name, least in (("least_separation_m", 0), ("within_m", 0)):
            if not least <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} is {getattr(self, name)!r}: give metres of 0 or more")
        if not 0 < self.demand_w < np.inf:
            raise ValueError(f"demand_w is {self.demand_w!r}: give watts above 0, such as 4.2e9")
        if not self.place_cap_w > 0:
            raise ValueError(f"place_cap_w is {self.place_cap_w!r}: give watts above 0, or math.inf for no cap")
        for authority, cap in self.authority_caps.items():
            if not cap >= 0:
                raise ValueError(f"authority_caps[{authority!r}] is {cap!r}: give watts of 0 or more")
        if sum(self.least.values()) > self.k or min(self.least.values(), default=0) < 0:
            raise ValueError(f"least is {dict(self.least)!r}: give counts of 0 or more, {self.k} together at most")

    @property
    def part_w(self) -> float:
        """The least that a place carries: s d / k [W]."""
        return self.least_share * self.demand_w / self.k

    def check(self, options: Options) -> None:
        """Raises ValueError for more places than candidates, and for authorities and groups that no candidate has."""
        if self.k > len(options):
            raise ValueError(f"k is {self.k}: there are {len(options)} candidates, give at most as many places")
        for name, asked, known in (
            ("authority_caps", self.authority_caps, options.authority),
            ("least", self.least, options.group),
        ):
            if unknown := sorted(set(asked) - set(known.tolist())):
                raise ValueError(
                    f"{name} has {unknown}: no candidate has them, give some of {sorted(set(known.tolist()))}"
                )

    def usable_w(self, options: Options) -> np.ndarray:
        """u = min(P, place cap) [W]."""
        return np.minimum(options.power_w, self.place_cap_w)

    def needs(self, options: Options) -> Needs:
        """What `search` asks of places, for options whose power is the usable one."""
        caps = {name: min(cap, self.demand_w) for name, cap in self.authority_caps.items() if cap < np.inf}
        most = [int(min(cap * (1 + 1e-12) / self.part_w, self.k)) if self.part_w else self.k for cap in caps.values()]
        return Needs(
            options.power_w,
            self.demand_w,
            _labels(options.authority, list(caps)),
            list(caps.values()),
            most,
            _labels(options.group, list(self.least)),
            list(self.least.values()),
        )

    def dealt_w(self, options: Options) -> np.ndarray:
        """Power that each chosen place carries [W]: x_i = l + f (v_i - l), options those of the places.

        l the least part; v_i = l + (u_i - l) min(1, (cap - n l) / sum of u - l) with the sum over the n places of i's
        authority: what i may carry; f = (d - k l) / (sum of v - k l), the same for all.
        """
        over = self.usable_w(options) - self.part_w
        for authority, cap in self.authority_caps.items():
            own = options.authority == authority
            if (total := over[own].sum()) > 0:
                over[own] *= min(1.0, max(cap - own.sum() * self.part_w, 0.0) / total)
        rest = self.demand_w - self.k * self.part_w
        return np.full(len(over), self.part_w) + (rest / over.sum() * over if rest > 0 else 0.0)


def _labels(names: np.ndarray, asked: Sequence[str]) -> np.ndarray:
    """Place of each name in `asked`, -1 for others."""
    numbers = {name: number for number, name in enumerate(asked)}
    return np.array([numbers.get(name, -1) for name in names.tolist()], int)
