"""What a split must meet, checked, and how k places share a demand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from railcore.facts import checks
from railcore.systems.siting.split.cliques import SplitNeeds
from railcore.systems.siting.split.options import SiteOptions

OBJECTIVES = ("shortest", "spare")
MOST_PLACES = 10  # an exact search takes too long for more


@dataclass(frozen=True)
class SplitTerms:
    """What a split must meet.

    demand_w: power of all places together [W]. k: their number. objective: "shortest", least longest distance, and of
    these most spare power; or "spare", most spare power. least_separation_m: between two places. place_cap_w,
    authority_caps: most power [W] of a place, and of the places of an authority by its code. least_share: of an even
    part, that every place carries; 1 for even parts, as training in step over all places wants. least: least number of
    places by group of the options. within_m: resolution at which dominated candidates are removed (`undominated`).

    Raises ValueError naming the argument out of range.
    """

    demand_w: float
    k: int
    objective: str = "shortest"
    least_separation_m: float = 0.0
    place_cap_w: float = np.inf
    authority_caps: Mapping[str, float] = field(default_factory=dict)
    least_share: float = 1.0
    least: Mapping[str, int] = field(default_factory=dict)
    within_m: float = 0.0

    def __post_init__(self) -> None:
        checks.whole("k", self.k, 1, MOST_PLACES)
        checks.one_of("objective", self.objective, OBJECTIVES)
        checks.share("least_share", self.least_share)
        checks.at_least("least_separation_m", self.least_separation_m)
        checks.at_least("within_m", self.within_m)
        checks.positive("demand_w", self.demand_w, "watts")
        if not self.place_cap_w > 0:
            raise ValueError(f"place_cap_w is {self.place_cap_w!r}: give watts above 0, or math.inf for no cap")
        for authority, cap in self.authority_caps.items():
            if not cap >= 0:  # infinite for no cap
                raise ValueError(f"authority_caps[{authority!r}] is {cap!r}: give watts of 0 or more")
        if sum(self.least.values()) > self.k or min(self.least.values(), default=0) < 0:
            raise ValueError(f"least is {dict(self.least)!r}: give counts of 0 or more, {self.k} together at most")

    @property
    def part_w(self) -> float:
        """The least that a place carries: s d / k [W]."""
        return self.least_share * self.demand_w / self.k

    def check(self, options: SiteOptions) -> None:
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

    def usable_w(self, options: SiteOptions) -> np.ndarray:
        """u = min(P, place cap) [W]."""
        return np.minimum(options.power_w, self.place_cap_w)

    def needs(self, options: SiteOptions) -> SplitNeeds:
        """What a search for places must meet, for options whose power is the usable one."""
        caps = {name: min(cap, self.demand_w) for name, cap in self.authority_caps.items() if cap < np.inf}
        most = [int(min(cap * (1 + 1e-12) / self.part_w, self.k)) if self.part_w else self.k for cap in caps.values()]
        return SplitNeeds(
            options.power_w,
            self.demand_w,
            _labels(options.authority, list(caps)),
            list(caps.values()),
            most,
            _labels(options.group, list(self.least)),
            list(self.least.values()),
        )

    def dealt_w(self, options: SiteOptions) -> np.ndarray:
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
