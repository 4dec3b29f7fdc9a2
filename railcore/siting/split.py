"""The best k places for a demand: nearest to each other, or with most spare power.

With u_i = min(P_i, place cap, cap of its authority) for the power P_i that may be had at point i, d the demand, s the
least share, y_i 1 for a chosen point and x_i what it carries, every split meets

sum y_i = k, sum x_i = d, (s d / k) y_i <= x_i <= u_i y_i, sum of x_i over an authority <= its cap,
sum of y_i over the points that hold a plant <= 1 for each plant, y_i + y_j <= 1 where d_ij < least separation.

"spare": max sum over authorities of min(cap, sum u_i y_i) - d. `split_search.strongest_places` solves this programme;
x follows in closed form (`SplitTerms.allocated_w`).
"shortest": min D with y_i + y_j <= 1 where d_ij > D, then max spare. The programme says whether there are k places at
all. `split_search.nearest_places` then finds the least D and the spare power at it by an exact search: HiGHS took 1 to
20 s or more for one D on 1,300 points of radius 100 km, the search takes 0.1 s.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from inspect import signature
from typing import Annotated, Any

import numpy as np

from railcore.catalog import UnknownName, units
from railcore.catalog.arguments import Metres, Range, Watts, checked
from railcore.catalog.units import GW, km
from railcore.siting.areas import Area
from railcore.siting.distances import diameter_m, index_pairs, pairwise_links
from railcore.siting.grid import PowerGrid
from railcore.siting.places import ANYWHERE, SURVEY, FoundPlaces, NoPlaces, Survey, place_table, place_warnings
from railcore.siting.rules import HEADROOM, AvailablePower
from railcore.siting.split_search import nearest_places, strongest_places
from railcore.siting.split_terms import MOST_PLACES, Objective, Split, SplitTerms, undominated_points


def best_split(
    power: AvailablePower, demand_w: float, k: int, objective: Objective = "shortest", **terms: Any
) -> Split:
    """The best k places that feed a demand together, as in the module's equations.

    Parameters
    ----------
    power
        That may be had at each of the points to choose from.
    demand_w, k, objective, terms
        As in `SplitTerms`; resolution_m is by default the radius of the points, and 0 (exact) where they have none.

    Returns
    -------
    `Split`.

    Raises
    ------
    ValueError
        It names the argument out of range or unknown, or says how much the best k places have.
    """
    resolution = power.radius_m if np.isfinite(power.radius_m) else 0.0
    split_terms = SplitTerms(demand_w, k, objective, **{"resolution_m": resolution} | terms)
    split_terms.check(power)
    usable = split_terms.usable_w(power)
    kept, enough = _shortlist(power, split_terms)
    places = _best_places(power, kept, split_terms)
    if not len(places):
        raise NoPlaces(_why_infeasible(power, split_terms))
    places = places[np.lexsort((places, -usable[places]))]
    return Split(
        split_terms,
        places,
        power_w=split_terms.allocated_w(power[places]),
        usable_w=usable[places],
        longest_m=diameter_m(power, places),
        spare_w=replace(power, power_w=usable, authority_caps=split_terms.authority_caps).together_w(places)
        - split_terms.demand_w,
        with_power=int((usable > 0).sum()),
        strong_enough=enough,
        undominated=len(kept),
    )


def _shortlist(power: AvailablePower, terms: SplitTerms) -> tuple[np.ndarray, int]:
    """Indices of points with at least the least part that none dominates, and how many have that part.

    For the shortest split in even parts, power beyond the part is worth nothing: fewer points are left.
    """
    usable = terms.usable_w(power)
    enough = np.flatnonzero((usable >= terms.least_part_w * (1 - 1e-12)) & (usable > 0))
    even = terms.objective == "shortest" and terms.least_share == 1 and terms.k > 1
    worth = np.minimum(usable, terms.least_part_w) if even else usable
    strong = replace(power[enough], power_w=worth[enough])
    kept = undominated_points(strong, terms.resolution_m, terms.authority_caps, terms.least_separation_m)
    return enough[kept], len(enough)


def _best_places(power: AvailablePower, kept: np.ndarray, terms: SplitTerms) -> np.ndarray:
    """Indices of the best k of the points kept, none where no k meet the terms."""
    if len(kept) < terms.k:
        return kept[:0]
    choices = replace(power[kept], power_w=terms.usable_w(power)[kept])
    constraints, nearest = terms.constraints(choices), terms.objective == "shortest" and terms.k > 1
    order = np.argsort(-choices.power_w, kind="stable")
    places = order[strongest_places(constraints[order], maximise=not nearest) or order[:0]]
    if len(places) and nearest:
        upper_m = diameter_m(choices, places)
        order = np.lexsort((choices.latitude, choices.longitude))
        places = order[nearest_places(constraints[order], upper_m)]
    return kept[places]


def _why_infeasible(power: AvailablePower, terms: SplitTerms) -> str:
    """A refusal with the most power that k places have: by bisection, to 1 / 2^8 of what the k strongest have."""
    apart = f"s {terms.least_separation_m / km:.0f} km apart" if terms.k > 1 else ""
    capped = f" with at most {terms.place_cap_w / GW:.3g} GW each" if np.isfinite(terms.place_cap_w) else ""
    none, verb = (f"no {terms.k} place", "have") if terms.k > 1 else ("no place", "has")
    asked = f"{none}{apart}{capped} {verb} {terms.demand_w / GW:.3g} GW"
    most_w = min(terms.demand_w, float(np.sort(terms.usable_w(power))[-terms.k :].sum()))
    low, high = 0.0, 1.0
    for _ in range(8 if most_w else 0):
        middle = (low + high) / 2
        less = replace(terms, demand_w=most_w * middle, objective="spare")
        places = _best_places(power, _shortlist(power, less)[0], less)
        low, high = (middle, high) if len(places) else (low, middle)
    even = " in even parts" if terms.k > 1 and terms.least_share == 1 else ""
    have = f"the best {verb} {low * most_w / GW:.3g} GW{even}" if low else "no such places exist at any demand"
    return f"{asked}: {have}; lower the demand or the separation, raise caps, radius or k"


@checked
def find_split(
    grid: PowerGrid,
    demand_w: Watts,
    radius_m: Metres,
    k: Annotated[int, Range(1, MOST_PLACES)] = 2,
    rule: str = HEADROOM,
    area: Area = ANYWHERE,
    survey: Survey = SURVEY,
    flexible_w: Mapping[str, float] | None = None,
    **terms: Any,
) -> FoundPlaces:
    """The best k places that feed a demand together: nearest to each other, then with most power to spare.

    Parameters
    ----------
    grid
        Whose plants feed them.
    demand_w
        Power of all places together [W].
    radius_m
        How far a plant may lie from its place [m].
    k
        Number of places.
    rule
        One of `rules.RULES`, by default what is left of plants that run at call after what others use.
    area
        Where each place may be; nearness to its city does not count.
    survey
        Which plants count, and how densely points are laid.
    flexible_w
        What each authority has more for a demand that gives way [W], by code; nothing by default.
    terms
        Of `best_split`, as in `SplitTerms`. By default least_separation_m is just over two radii, so that circles do
        not overlap. Places of one authority share its bound (`PowerGrid.authority_caps`); authority_caps are caps of
        your own in place of the bounds of these authorities.

    Returns
    -------
    `FoundPlaces`.

    Raises
    ------
    ValueError
        As in `find_places`: a demand that no k places meet says how much the best have.

    Examples
    --------
    >>> import railcore as rc
    >>> west = rc.Area(states=["WA", "OR", "CA"])
    >>> split = rc.find_split(rc.load_grid(), "2 GW", "75 km", area=west)
    >>> split.places[["name", "authority"]].to_dict("list")
    {'name': ['89 km SW of Olympia, WA', 'Woodland, CA'], 'authority': ['BPAT', 'CISO']}
    """
    arguments = {*signature(find_split).parameters, *(term.name for term in fields(SplitTerms))} - {"terms"}
    if stray := [name for name in terms if name not in arguments]:
        raise UnknownName("argument of find_split", stray[0], arguments)
    points = survey.points(grid, radius_m, area)
    power = survey.power(points, rule, flexible_w)
    caps = terms.get("authority_caps", {})
    terms.setdefault("least_separation_m", 2 * radius_m + units.km)
    if isinstance(caps, Mapping):  # else `SplitTerms` refuses them
        terms["authority_caps"] = {**power.authority_caps, **caps}
    try:
        split = best_split(power, demand_w, k, **terms)
    except NoPlaces as error:
        here = f"; searched: {units.counted(len(points), 'points')} {', '.join(area.words)}"
        raise NoPlaces(f"{error}{here if area.words else ''}") from None
    table = place_table(points, power, split.places, split.power_w, area, survey, flexible_w)
    names = table["name"].to_numpy()[index_pairs(range(len(table)))].reshape(-1, 2).T
    ways = pairwise_links(points, split.places.tolist()).assign(name=names[0], name_to=names[1])
    warnings = place_warnings(demand_w, table, power, rule)
    return FoundPlaces(demand_w, rule, area, points, table, split, ways, warnings, flexible_w or {})
