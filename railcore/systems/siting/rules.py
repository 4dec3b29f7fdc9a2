"""When a group of plants can feed a datacenter: one formula for each reading of flops2024, section 2."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts.catalog import UnknownName
from railcore.systems.siting.supply import Supply

PRODUCERS = {"unit": "largest_unit_w", "site": "largest_site_w"}
RESERVES = (*PRODUCERS, "none")


@dataclass(frozen=True)
class Rule:
    """A requirement: name, formula, what it says, and the power that it lets a datacenter have [W].

    Symbols: p installed power of the plants that are not coal, f 1 for fuels that run at call, e 1 for fuels that can
    be bought, c capacity factor, u largest unit, l load of others nearby.
    """

    name: str
    formula: str
    meaning: str
    power: Callable[[Supply], Any]


RULES = {
    rule.name: rule
    for rule in (
        Rule("installed", "Σ p", "every plant at full power, all for the datacenter", lambda s: s.installed_w),
        Rule(
            "firm minus largest",
            "Σ f p − u",
            "plants that run at call, the largest unit out of service",
            lambda s: s.firm_w - s.largest_unit_w,
        ),
        Rule(
            "idle firm",
            "Σ f p (1 − c)",
            "what plants that run at call do not sell in an average hour",
            lambda s: s.idle_w,
        ),
        Rule(
            "idle fuelled",
            "Σ f e p (1 − c)",
            "of that, plants whose fuel can be bought: idle hours of water power have no water",
            lambda s: s.idle_fuelled_w,
        ),
        Rule(
            "headroom after load",
            "Σ f p − u − l",
            "plants that run at call, the largest unit out, after the load within the same radius",
            lambda s: s.firm_w - s.largest_unit_w - s.load_w,
        ),
    )
}


def rule(name: str) -> Rule:
    """The rule of this name. Raises UnknownName listing the nearest."""
    if name not in RULES:
        raise UnknownName("rule", name, list(RULES))
    return RULES[name]


def eligible(supply: Supply, most_coal: float = 0.5, reserve: str = "unit") -> np.ndarray:
    """True where coal does not dominate and the lines replace the largest producer.

    coal share < most_coal, and interconnect >= largest unit or site (reserve "unit" or "site"; "none" asks for no
    lines). Raises ValueError for a share outside (0, 1] and an unknown reserve.
    """
    if not 0 < most_coal <= 1:
        raise ValueError(f"most_coal is {most_coal!r}: give a share above 0 and at most 1, such as 0.5")
    if reserve not in RESERVES:
        raise ValueError(f"reserve is {reserve!r}: give one of {', '.join(RESERVES)}")
    clean = supply.coal_share < most_coal
    if reserve == "none":
        return clean
    return clean & (supply.interconnect_w >= getattr(supply, PRODUCERS[reserve]))


def available(supply: Supply, name: str, most_coal: float = 0.5, reserve: str = "unit") -> np.ndarray:
    """Power that a rule lets a datacenter have of each group [W], 0 where it is not eligible or less than none."""
    return np.where(eligible(supply, most_coal, reserve), np.maximum(rule(name).power(supply), 0.0), 0.0)


def passes(supply: Supply, demand_w: ArrayLike, name: str, most_coal: float = 0.5, reserve: str = "unit") -> np.ndarray:
    """True where a group is eligible and has the demand [W]. Raises ValueError for a demand that is not above 0."""
    if not np.all(np.isfinite(demand_w) & (np.asarray(demand_w) > 0)):
        raise ValueError(f"demand_w is {demand_w!r}: give watts above 0, such as 4.2e9")
    return available(supply, name, most_coal, reserve) >= demand_w
