"""What a datacenter may have of the power at a point: a rule for the plants around it, and the bound of its authority.

available = min(rule, bound of the authority), 0 where coal dominates or lines do not carry the largest producer.

The rule looks at the plants and the load within the radius, the bound at the whole balancing authority that has most of
them: a datacenter is connected to one. By the default rule the load must leave as much within one and a half radii too,
so that a circle does not count plants and cut off the city that they serve.

A datacenter that gives way in hours of high load may have more. With the limit C of an authority, its load L and the
datacenter's power X = (C - max L) + y, the energy that gives way is sum of max(0, L - max L + y) over the hours. With
y = h, the power that may be added to max L at a share of its own energy, that share of X is not exceeded, because
X >= h: the bound + h is safe where the bound is 0 or more, and nothing is gained where it is less. Of the load near a
place the part h / max L counts no more, where the plants carry it all.

Source: the rules are readings of flops2024, section 2, which asks for spare capacity without a formula; "headroom" and
the bound are ours.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from railcore.catalog import UnknownName, checks
from railcore.catalog.checks import Floats
from railcore.catalog.units import MW, show
from railcore.siting.authorities import authority_caps as published_caps
from railcore.siting.authorities import authority_table
from railcore.siting.points import MapPoints
from railcore.siting.supply import Supply

RESERVES = {"unit": "largest_unit_w", "site": "largest_site_w", "none": ""}  # what lines must replace


@dataclass(frozen=True)
class Rule:
    """A reading of "spare power".

    formula, meaning: what it counts, in symbols and in words.
    ignores: what it leaves out.
    power: that it lets a datacenter have [W].
    needs_units: whether it needs the largest unit of each plant.

    Symbols: p installed power of the plants that are not coal, f 1 for dispatchable fuels, e 1 for fuels that can
    be bought, c capacity factor, u largest unit of firm plants, l load of others nearby.
    """

    formula: str
    meaning: str
    ignores: str
    power: Callable[[Supply], Floats]
    needs_units: bool = False


WIDER = 1.5  # radii within which the default rule asks for the load again
HEADROOM = "headroom"  # the rule by default: the least of all, since it takes off all that others use
RULES = {
    HEADROOM: Rule(
        "min(Σ f p − l, Σ f e p (1 − c)) − u",
        "plants that run at call, the largest unit out: what the load within the radius leaves at the grid's peak, or "
        "what plants that can buy more fuel do not sell on average, where that is less",
        "load beyond the radius at its peak, but for the bound of the authority",
        lambda supply: np.minimum(supply.firm_w - supply.load_w, supply.idle_fuelled_w) - supply.largest_firm_unit_w,
        needs_units=True,
    ),
    "headroom after load": Rule(
        "Σ f p − u − l",
        "plants that run at call, the largest unit out, after the load within the same radius",
        "what the plants sell beyond the radius, hours other than the grid's one, hours without water",
        lambda supply: supply.firm_w - supply.largest_firm_unit_w - supply.load_w,
        needs_units=True,
    ),
    "idle firm": Rule(
        "Σ f p (1 − c)",
        "what plants that run at call do not sell in an average hour",
        "peaks of load (plants are idle on average, not in every hour), hours without water, outages",
        lambda supply: supply.idle_w,
    ),
    "idle fuelled": Rule(
        "Σ f e p (1 − c)",
        "what plants that can buy more fuel do not sell in an average hour, so without water power",
        "peaks of load (plants are idle on average, not in every hour), outages",
        lambda supply: supply.idle_fuelled_w,
    ),
    "firm minus largest": Rule(
        "Σ f p − u",
        "plants that run at call, the largest unit out of service",
        "the load of others, hours without water, fuel",
        lambda supply: supply.firm_w - supply.largest_firm_unit_w,
        needs_units=True,
    ),
    "installed": Rule(
        "Σ p",
        "every plant at full power, all for the datacenter",
        "the load of others, hours without wind, sun or water, outages",
        lambda supply: supply.installed_w,
    ),
}
IGNORED_BY_ALL = (
    "requests before yours for connection, growth of load, planned closures, forced outages, gas pipelines, lines "
    "inside the radius, contracts of the plants, land and permits"
)
_LEAST_DEMAND_W = 1e6  # less than any datacenter of these models draws


def demand_warnings(demand_w: float) -> tuple[str, ...]:
    """A text for a demand below 1 MW [W]: was it meant in MW?"""
    if demand_w >= _LEAST_DEMAND_W:
        return ()
    meant = f": it is in watts; did you mean {show(demand_w * MW, 'W')}?"
    return (f"demand_w is {show(demand_w, 'W')}{meant if demand_w <= _LEAST_DEMAND_W / 10 else ', less than 1 MW'}",)


def eligible(supply: Supply, most_coal: float = 0.5, reserve: str = "unit") -> np.ndarray:
    """True where coal does not dominate and the lines replace the largest producer.

    coal share < most_coal, above 0 to 1; interconnect >= largest unit or site, as `reserve` says: "unit", "site", or
    "none" for no lines. Raises ValueError for "unit" where units are unknown.
    """
    producer = RESERVES[reserve]
    clean = supply.coal_share < most_coal
    if reserve == "unit":
        _check_units(supply, "reserve 'unit'", "reserve 'site' or 'none'")
    return clean & (supply.interconnect_w >= getattr(supply, producer)) if producer else clean


def _check_units(supply: Supply, what: str, other: str) -> None:
    if (unknown := np.isnan(supply.largest_unit_w)).any():
        raise ValueError(
            f"{what} needs units, and {unknown.sum()} of {len(unknown)} points have plants without: "
            f"give largest_unit_w of every plant, or take {other}"
        )


def power_by_rule_w(supply: Supply, rule: str, most_coal: float = 0.5, reserve: str = "unit") -> np.ndarray:
    """Power of each group that a rule lets a datacenter have [W], 0 where the group is not `eligible`.

    Parameters
    ----------
    supply, rule
        Of the groups, and the rule's name in `RULES`.
    most_coal, reserve
        As in `eligible`.

    Returns
    -------
    Array of shape (groups,).

    Raises
    ------
    UnknownName
        For a rule; it is a ValueError too.
    ValueError
        For a rule or a reserve that needs units where they are unknown.
    """
    if rule not in RULES:
        raise UnknownName("rule", rule, list(RULES))
    if RULES[rule].needs_units:
        _check_units(supply, f"rule {rule!r}", f"rule {', '.join(n for n, r in RULES.items() if not r.needs_units)}")
    return np.where(eligible(supply, most_coal, reserve), np.maximum(RULES[rule].power(supply), 0.0), 0.0)


def feeds_demand(
    supply: Supply, demand_w: float, rule: str, most_coal: float = 0.5, reserve: str = "unit"
) -> np.ndarray:
    """True where a group is eligible and has the demand by the rule.

    Parameters
    ----------
    supply, demand_w
        Of the groups, and the power asked for [W].
    rule, most_coal, reserve
        As in `power_by_rule_w`.

    Returns
    -------
    Array of booleans of shape (groups,).
    """
    return power_by_rule_w(supply, rule, most_coal, reserve) >= demand_w


@dataclass(frozen=True)
class AvailablePower:
    """Power at points; arrays of shape (n,).

    latitude, longitude: of the points [degrees].
    power_w: that a datacenter may have [W].
    plants: sparse 0/1, shape (n, plants).
    authority: balancing authority that has most of the plants' power.
    radius_m: of the points' circles, where they are circles: those more than two radii apart share no plant.
    limit: what decided the power, in words; "coal, or too few lines" where that leaves none.
    authority_caps: most power of all places of an authority together [W], by code.
    """

    latitude: np.ndarray
    longitude: np.ndarray
    power_w: np.ndarray
    plants: csr_array
    authority: np.ndarray
    radius_m: float = np.inf
    limit: np.ndarray = field(default_factory=lambda: np.array([], object))
    authority_caps: Mapping[str, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.power_w)

    def together_w(self, chosen: Any) -> float:
        """Power that some points have together [W]: sum over capped authorities of min(cap, theirs), and the rest."""
        power_w, authority, total_w = self.power_w[chosen], self.authority[chosen], 0.0
        for code in np.unique(authority).tolist():
            total_w += min(float(power_w[authority == code].sum()), self.authority_caps.get(code, np.inf))
        return total_w

    def __getitem__(self, chosen: Any) -> "AvailablePower":
        """The same of some points, by mask, index or slice."""
        parts = ("latitude", "longitude", "power_w", "plants", "authority")
        limit = self.limit[chosen] if len(self.limit) else self.limit
        return replace(self, limit=limit, **{name: getattr(self, name)[chosen] for name in parts})


def available_power(
    points: MapPoints,
    rule: str = HEADROOM,
    most_coal: float = 0.5,
    reserve: str = "unit",
    authority_caps: Mapping[str, float] | None = None,
    flexible_w: Mapping[str, float] | None = None,
) -> AvailablePower:
    """Power that a datacenter may have at each point: min(rule, bound of its authority), as in the module's text.

    Parameters
    ----------
    points
        With their plants.
    rule, most_coal, reserve
        As in `power_by_rule_w`.
    authority_caps
        Bounds of authorities of your own by code [W], laid over the others, by default those of the points' grid; {}
        for no bounds at all. An authority without one is not bounded.
    flexible_w
        What a datacenter that gives way gains, by authority [W], as in the module's text; nothing by default.

    Returns
    -------
    `AvailablePower` in the order of the points.

    Raises
    ------
    ValueError
        As in `power_by_rule_w`.
    """
    authority, flexible_w = points.most_of("authority"), flexible_w or {}
    for code, power_w in flexible_w.items():
        checks.at_least(f"flexible_w[{code!r}]", power_w)
    supply = _with_flexible_load(points.supply, authority, flexible_w)
    by_rule_w = power_by_rule_w(supply, rule, most_coal, reserve)
    caps = _caps(points.grid.authority_caps if authority_caps is None else authority_caps)
    here = {
        code: caps[code] + flexible_w.get(code, 0.0) if caps[code] >= 0 else 0.0
        for code in np.unique(authority).tolist()
        if code in caps
    }
    bound_w = np.array([here.get(code, np.inf) for code in authority.tolist()], float)
    limit = _limit(points, supply, rule)
    if rule == HEADROOM:
        some = np.flatnonzero(by_rule_w > 0)  # the others have nothing to lose
        here_w, wider_w = (
            by_rule_w[some],
            _left_in_wider_circle_w(points[some], supply[some], authority[some], flexible_w),
        )
        limit[some] = np.where(here_w <= wider_w, limit[some], f"load within {show(WIDER * points.radius_m, 'm')}")
        by_rule_w[some] = np.minimum(here_w, wider_w)
    limit = np.where(by_rule_w <= bound_w, limit, np.char.add("bound of ", authority)).astype(object)
    limit[~eligible(supply, most_coal, reserve)] = "coal, or too few lines"
    return AvailablePower(
        points.latitude,
        points.longitude,
        power_w=np.minimum(by_rule_w, bound_w),
        plants=points.plants.astype(np.float32),
        authority=authority,
        radius_m=points.radius_m,
        limit=limit,
        authority_caps=here,
    )


def _left_in_wider_circle_w(
    points: MapPoints, supply: Supply, authority: np.ndarray, flexible_w: Mapping[str, float]
) -> Floats:
    """What the load leaves of the firm power within one and a half radii, the largest firm unit out [W]."""
    firm_w = points.firm_within_w(WIDER) - supply.largest_firm_unit_w
    return np.maximum(firm_w - _load_that_counts_w(firm_w, points.load_within_w(WIDER), authority, flexible_w), 0.0)


def _caps(given: Mapping[str, float] | None) -> Mapping[str, float]:
    """Bounds of authorities: those given over those of public statistics; none for {}."""
    if given is not None and not given:
        return {}
    return {**published_caps(), **(given or {})}


def _with_flexible_load(supply: Supply, authority: np.ndarray, flexible_w: Mapping[str, float]) -> Supply:
    """Supply at points with the load that counts."""
    firm_w = supply.firm_w - supply.largest_firm_unit_w
    return replace(supply, load_w=_load_that_counts_w(firm_w, supply.load_w, authority, flexible_w))


def _load_that_counts_w(
    firm_w: Floats, load_w: Floats, authority: np.ndarray, flexible_w: Mapping[str, float]
) -> Floats:
    """Load near points that counts [W]: l (1 - h / max L) of their authorities, where firm power carries all of l."""
    if not flexible_w:
        return load_w
    peak_w = authority_table().set_index("authority")["peak_demand_clean_w"].dropna()
    part = {code: max(1 - flexible_w.get(code, 0.0) / peak, 0.0) for code, peak in peak_w.items()}
    return load_w * np.where(firm_w >= load_w, [part.get(code, 1.0) for code in authority.tolist()], 1.0)


def _limit(points: MapPoints, supply: Supply, rule: str) -> np.ndarray:
    """What decides by a rule: of the default one the smaller of its two parts."""
    if rule != HEADROOM:
        return np.full(len(points), f"rule {rule!r}", object)
    at_peak, on_average = f"load within {show(points.radius_m, 'm')}", "what its plants sell on average"
    return np.where(supply.idle_fuelled_w <= supply.firm_w - supply.load_w, on_average, at_peak).astype(object)
