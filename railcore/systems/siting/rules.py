"""When a group of plants can feed a datacenter: one formula for each rule.

Source: the rules are readings of flops2024, section 2, which asks for spare capacity without a formula.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from railcore.facts import checks
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
    checks.share("most_coal", most_coal, above_0=True)
    checks.one_of("reserve", reserve, RESERVES)
    clean = supply.coal_share < most_coal
    if reserve == "none":
        return clean
    return clean & (supply.interconnect_w >= getattr(supply, PRODUCERS[reserve]))


def available(supply: Supply, name: str, most_coal: float = 0.5, reserve: str = "unit") -> np.ndarray:
    """Power that a rule lets a datacenter have of each group [W], 0 where the group is not eligible.

    Parameters
    ----------
    supply, name
        Of the groups, and the rule's name in `RULES`.
    most_coal, reserve
        As in `eligible`.

    Returns
    -------
    Array of shape (groups,).

    Raises
    ------
    UnknownName (a ValueError) for a rule; errors of `eligible`.
    """
    return np.where(eligible(supply, most_coal, reserve), np.maximum(rule(name).power(supply), 0.0), 0.0)


def passes(supply: Supply, demand_w: float, name: str, most_coal: float = 0.5, reserve: str = "unit") -> np.ndarray:
    """True where a group is eligible and has the demand by the rule.

    Parameters
    ----------
    supply, demand_w
        Of the groups, and the power asked for [W].
    name, most_coal, reserve
        As in `available`.

    Returns
    -------
    Array of booleans of shape (groups,).

    Raises
    ------
    ValueError for a demand that is not above 0; errors of `available`.
    """
    checks.positive("demand_w", demand_w, "watts")
    return available(supply, name, most_coal, reserve) >= demand_w
