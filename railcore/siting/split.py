"""The best k places for a demand: nearest to each other, or with most spare power.

With u_i = min(P_i, place cap) for a candidate's power P_i, d the demand, s the least share, y_i 1 for a chosen
candidate and x_i its power, every split meets

sum y_i = k, sum x_i = d, (s d / k) y_i <= x_i <= u_i y_i, sum of x_i over an authority <= its cap,
sum of y_i over the candidates that hold a plant <= 1 for each plant, y_i + y_j <= 1 where d_ij < least separation.

"spare": max sum u_i y_i - d. `search.strongest_places` solves this programme; x follows in closed form
(`SplitTerms.allocated_w`).
"shortest": min D with y_i + y_j <= 1 where d_ij > D, then max spare. The programme says whether there are k places at
all. `search.nearest_places` then finds the least D and the spare power at it by an exact search: HiGHS took 1 to 20 s
or more for one D on 1,300 candidates of radius 100 km, the search takes 0.1 s.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from inspect import signature
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.catalog import UnknownName, units
from railcore.catalog.arguments import Metres, NonNegativeInt, Range, Watts, checked
from railcore.catalog.units import GW, km
from railcore.siting.areas import Area
from railcore.siting.candidates import Candidates
from railcore.siting.cities import nearest_city
from railcore.siting.distances import diameter_m, distance_to_place, index_pairs, pairwise_links
from railcore.siting.grid import PowerGrid
from railcore.siting.search import nearest_places, strongest_places
from railcore.siting.split_problem import (
    OBJECTIVES,
    Objective,
    SiteOptions,
    SplitTerms,
    site_options,
    undominated_sites,
)
from railcore.siting.supply import AFTER_LOAD, IGNORED_BY_ALL, RULES, demand_warnings


class NoPlaces(ValueError):
    """No k places feed the demand."""


@dataclass(frozen=True)
class Split:
    """k places that feed a demand together.

    terms: what they must meet.
    places: indices of the options, most power first.
    power_w: what each place carries [W].
    usable_w: what it could carry [W].
    longest_m: between any two [m]; 0 for one place.
    spare_w: usable power of all over the demand [W].
    candidates: how many had power to offer.
    strong_enough: how many of these have the least share.
    undominated: how many of these no other replaces; among them the split is optimal.
    """

    terms: SplitTerms
    places: np.ndarray
    power_w: np.ndarray
    usable_w: np.ndarray
    longest_m: float
    spare_w: float
    candidates: int
    strong_enough: int
    undominated: int

    def table(self, options: SiteOptions) -> pd.DataFrame:
        """One row for each place: its index, where, authority, power that it carries and could [W]."""
        columns = {name: getattr(options, name)[self.places] for name in ("latitude", "longitude", "authority")}
        return pd.DataFrame({"place": self.places, **columns, "power_w": self.power_w, "usable_w": self.usable_w})


def best_split(options: SiteOptions, demand_w: float, k: int, objective: Objective = "shortest", **terms: Any) -> Split:
    """The best k places that feed a demand together, as in the module's equations.

    Parameters
    ----------
    options
        Candidates to choose from.
    demand_w, k, objective, terms
        As in `SplitTerms`; resolution_m is by default the radius of the candidates, and 0 (exact) where they have none.

    Returns
    -------
    `Split`.

    Raises
    ------
    ValueError
        It names the argument out of range or unknown, or says how much the best k places have.
    """
    resolution = options.radius_m if np.isfinite(options.radius_m) else 0.0
    split_terms = SplitTerms(demand_w, k, objective, **{"resolution_m": resolution} | terms)
    split_terms.check(options)
    usable = split_terms.usable_w(options)
    kept, enough = _shortlist(options, split_terms)
    places = _best_places(options, kept, split_terms)
    if not len(places):
        raise NoPlaces(_why_infeasible(options, split_terms))
    places = places[np.lexsort((places, -usable[places]))]
    return Split(
        split_terms,
        places,
        power_w=split_terms.allocated_w(options[places]),
        usable_w=usable[places],
        longest_m=diameter_m(options, places),
        spare_w=float(usable[places].sum() - demand_w),
        candidates=int((usable > 0).sum()),
        strong_enough=enough,
        undominated=len(kept),
    )


def splits(options: SiteOptions, demand_w: float, ks: Iterable[int], **terms: Any) -> pd.DataFrame:
    """What `best_split` finds for each k, and why not where it finds none.

    Parameters
    ----------
    options, demand_w, terms
        As in `best_split`.
    ks
        Numbers of places.

    Returns
    -------
    A row for each k: k, demand_w, longest_m, spare_w, part_w (most that a place carries), places (indices), candidates,
    strong_enough, undominated, problem (empty, or what `best_split` says of the demand).
    """
    rows = []
    for k in ks:
        try:
            split = best_split(options, demand_w, k, **terms)
        except NoPlaces as error:
            row = {"places": (), "problem": str(error)}
        else:
            names = ("longest_m", "spare_w", "candidates", "strong_enough", "undominated")
            row = {name: getattr(split, name) for name in names}
            row |= {"part_w": split.power_w.max(), "places": tuple(split.places.tolist()), "problem": ""}
        rows.append({"k": k, "demand_w": demand_w, **row})
    columns = "k demand_w longest_m spare_w part_w places candidates strong_enough undominated problem".split()
    return pd.DataFrame(rows).reindex(columns=columns)


def _shortlist(options: SiteOptions, terms: SplitTerms) -> tuple[np.ndarray, int]:
    """Indices of candidates with at least the least part that none dominates, and how many have that part.

    For the shortest split in even parts, power beyond the part is worth nothing: fewer candidates are left.
    """
    usable = terms.usable_w(options)
    enough = np.flatnonzero((usable >= terms.least_part_w * (1 - 1e-12)) & (usable > 0))
    even = terms.objective == "shortest" and terms.least_share == 1 and terms.k > 1
    worth = np.minimum(usable, terms.least_part_w) if even else usable
    strong = replace(options[enough], power_w=worth[enough])
    kept = undominated_sites(strong, terms.resolution_m, terms.authority_caps, terms.least_separation_m)
    return enough[kept], len(enough)


def _best_places(options: SiteOptions, kept: np.ndarray, terms: SplitTerms) -> np.ndarray:
    """Indices of the best k of the options kept, none where no k meet the terms."""
    if len(kept) < terms.k:
        return kept[:0]
    choices = replace(options[kept], power_w=terms.usable_w(options)[kept])
    constraints, nearest = terms.constraints(choices), terms.objective == "shortest" and terms.k > 1
    order = np.argsort(-choices.power_w, kind="stable")
    places = order[strongest_places(constraints[order], maximise=not nearest) or order[:0]]
    if len(places) and nearest:
        upper_m = diameter_m(choices, places)
        order = np.lexsort((choices.latitude, choices.longitude))
        places = order[nearest_places(constraints[order], upper_m)]
    return kept[places]


def _why_infeasible(options: SiteOptions, terms: SplitTerms) -> str:
    """A refusal with the most power that k places have: by bisection, to 1 / 2^8 of what the k strongest have."""
    apart = f"s {terms.least_separation_m / km:.0f} km apart" if terms.k > 1 else ""
    capped = f" with at most {terms.place_cap_w / GW:.3g} GW each" if np.isfinite(terms.place_cap_w) else ""
    none, verb = (f"no {terms.k} place", "have") if terms.k > 1 else ("no place", "has")
    asked = f"{none}{apart}{capped} {verb} {terms.demand_w / GW:.3g} GW"
    most_w = min(terms.demand_w, float(np.sort(terms.usable_w(options))[-terms.k :].sum()))
    low, high = 0.0, 1.0
    for _ in range(8 if most_w else 0):
        middle = (low + high) / 2
        less = replace(terms, demand_w=most_w * middle, objective="spare")
        places = _best_places(options, _shortlist(options, less)[0], less)
        low, high = (middle, high) if len(places) else (low, middle)
    even = " in even parts" if terms.k > 1 and terms.least_share == 1 else ""
    have = f"the best {verb} {low * most_w / GW:.3g} GW{even}" if low else "no such places exist at any demand"
    return f"{asked}: {have}; lower the demand or the separation, raise caps, radius or k"


@dataclass(frozen=True)
class FoundPlaces:
    """The best places for a demand; print it to read it.

    rule, area: what was asked.
    candidates: all that the area has.
    split: which of them are chosen.
    places: one row each with name (nearest city), latitude, longitude, authority, radius_m, power_w (that it carries),
        usable_w (that it could).
    ways: one row for every two, as `distances.pairwise_links`, with name and name_to.
    warnings: what is odd.
    """

    rule: str
    area: Area
    candidates: Candidates
    split: Split
    places: pd.DataFrame
    ways: pd.DataFrame
    warnings: tuple[str, ...] = ()

    @property
    def ignores(self) -> str:
        """What the rule leaves out, and what every rule does."""
        return f"{RULES[self.rule].ignores}; as every rule: {IGNORED_BY_ALL}"

    @property
    def summary(self) -> str:
        """What was asked, in a line."""
        terms, radius = self.split.terms, units.show(self.candidates.radius_m, "m")
        head = f"{units.counted(terms.k, 'places')} for {units.show(terms.demand_w, 'W', 4)}, plants within {radius}"
        return f"{head}; searched: {', '.join(self.area.words) or 'the whole country'}"

    @property
    def map_layers(self) -> dict[str, Any]:
        """Places, the links between them, a title and a note, as maps take them."""
        notes = [self.candidates.grid.name, f"rule {self.rule!r} ignores {RULES[self.rule].ignores}", *self.warnings]
        return {"places": self.places, "ways": self.ways, "title": self.summary, "note": "; ".join(notes)}

    def __repr__(self) -> str:
        shown = {
            "place": self.places["name"],
            "authority": self.places["authority"],
            "latitude": self.places["latitude"].map("{:.2f}".format),
            "longitude": self.places["longitude"].map("{:.2f}".format),
            "carries": [units.show(power, "W", 4) for power in self.places["power_w"]],
            "has by the rule": [units.show(power, "W", 4) for power in self.places["usable_w"]],
        }
        if self.rule != AFTER_LOAD:
            after_w = _after_load_w(self.candidates, self.places)
            shown["left after load"] = [units.show(power, "W", 4) for power in after_w]
        lines = [self.summary, pd.DataFrame(shown).to_string(index=False)]
        if len(self.ways):
            far = self.ways.loc[self.ways["distance_m"].idxmax()]
            away = f"{units.show(far['distance_m'], 'm', 4)}, {units.show(far['delay_s'], 's', 3)} one way"
            lines.append(f"farthest apart: {far['name']} and {far['name_to']}, {away}")
        lines += [f"rule {self.rule!r}: {RULES[self.rule].meaning}", f"it ignores {self.ignores}"]
        return "\n".join([*lines, *(f"warning: {text}" for text in self.warnings)])


@checked
@dataclass(frozen=True)
class Survey:
    """Which plants count, and how densely centres are laid.

    step_deg: between centres [degrees].
    oil: whether plants that burn oil count.
    coal_basis, most_coal: share of coal, of "capacity" or "energy", from which it dominates a place.
    reserve: largest producer that lines must replace: "unit", "site" or "none".
    """

    step_deg: Annotated[float, Range(0, 2, above_0=True)] = 0.25
    oil: bool = True
    coal_basis: Literal["capacity", "energy"] = "capacity"
    most_coal: Annotated[float, Range(0, 1, above_0=True)] = 0.5
    reserve: Literal["unit", "site", "none"] = "unit"


SURVEY, ANYWHERE = Survey(), Area()


@checked
def find_places(
    grid: PowerGrid,
    demand_w: Watts,
    radius_m: Metres,
    rule: str = AFTER_LOAD,
    k: NonNegativeInt = 1,
    area: Area = ANYWHERE,
    survey: Survey = SURVEY,
    **terms: Any,
) -> FoundPlaces:
    """The best k places that feed a demand together: nearest to each other, then with most spare power.

    `area` says where places may be; nearness to its city does not count.

    Parameters
    ----------
    grid
        Whose plants feed it.
    demand_w
        Power of all places together [W].
    radius_m
        How far a plant may lie from its place [m].
    rule
        Requirement rule, one of `supply.RULES`, by default what the load nearby leaves.
    k
        Number of places.
    area
        Where places may be, such as Area(near="Chicago", near_m=300e3) or Area(states=["IL"]). It holds for the place:
        its plants may lie radius_m farther.
    survey
        Which plants count, and how densely centres are laid.
    terms
        Of `best_split`, as in `SplitTerms`; least_separation_m is by default just over two radii, so that circles do
        not overlap.

    Returns
    -------
    `FoundPlaces`, with a warning for a demand below 1 MW, and for places whose plants the load nearby needs.

    Raises
    ------
    ValueError
        As in `Area`, `candidates`, `supply` and `best_split`: an area without places says which condition left how
        many, a demand that no k places meet how much the best have.

    Examples
    --------
    >>> import railcore as rc
    >>> ohio = rc.Area(states=["OH"])
    >>> places = rc.find_places(rc.load_grid(), "1 GW", "75 km", rule="installed", area=ohio)
    >>> places.places[["name", "authority"]].to_dict("list")
    {'name': ['11 km NE of Toledo, OH'], 'authority': ['PJM']}
    """
    arguments = {*signature(find_places).parameters, *(term.name for term in fields(SplitTerms))} - {"terms"}
    if stray := [name for name in terms if name not in arguments]:
        raise UnknownName("argument of find_places", stray[0], arguments)
    candidates = area.candidates(grid, radius_m, survey.step_deg, survey.oil, survey.coal_basis)
    options = site_options(candidates, rule, survey.most_coal, survey.reserve)
    try:
        chosen = best_split(options, demand_w, k, **{"least_separation_m": 2 * radius_m + units.km, **terms})
    except NoPlaces as error:
        here = f"; searched: {units.counted(len(candidates), 'candidates')} {', '.join(area.words)}"
        raise NoPlaces(f"{error}{here if area.words else ''}") from None
    table = chosen.table(options).assign(radius_m=radius_m)
    table.insert(0, "name", nearest_city(table["latitude"], table["longitude"]))
    names = table["name"].to_numpy()[index_pairs(range(len(table)))].reshape(-1, 2).T
    ways = pairwise_links(candidates, chosen.places.tolist()).assign(name=names[0], name_to=names[1])
    warnings = (*demand_warnings(demand_w), *_load_warnings(candidates, table, rule))
    return FoundPlaces(rule, area, candidates, chosen, table, ways, warnings)


def _after_load_w(candidates: Candidates, places: pd.DataFrame) -> np.ndarray:
    """What the load within the radius leaves of the firm power of places [W]."""
    return np.maximum(RULES[AFTER_LOAD].power(candidates.supply[places["place"].to_numpy()]), 0.0)


def _load_warnings(candidates: Candidates, places: pd.DataFrame, rule: str) -> tuple[str, ...]:
    """A text for places that cannot carry their part once the load within the radius has its power."""
    after_w = _after_load_w(candidates, places)
    short = after_w < places["power_w"].to_numpy() * (1 - 1e-9)
    if rule == AFTER_LOAD or not short.any():
        return ()
    left = ", ".join(
        f"{name} ({units.show(left_w, 'W', 3)} left of {units.show(part, 'W', 3)})"
        for name, left_w, part in zip(places["name"][short], after_w[short], places["power_w"][short], strict=True)
    )
    return (f"rule {rule!r} does not subtract the load nearby: it leaves less than a place carries at {left}",)


def sitings_by_objective(
    options: SiteOptions, demand_w: float, ks: Iterable[int], **terms: Any
) -> tuple[dict[str, tuple[int, ...]], pd.DataFrame]:
    """The best splits as sitings: "nearest 2" and "roomiest 2" are those of k = 2.

    Parameters
    ----------
    options
        Candidates to choose from.
    demand_w, ks
        Power of all places together [W], and the numbers of places to try.
    terms
        Of `best_split`, without the objective.

    Returns
    -------
    Indices of the places by name of the siting, and a table with the column siting and those of `splits`. A siting that
    does not exist is left out, and the table says why.

    Raises
    ------
    ValueError
        For no ks, and where no siting at all meets the demand, with how much the best k places have.
    """
    if not (ks := list(ks)):
        raise ValueError("ks is empty: give numbers of places, such as range(1, 7)")
    tables = []
    for name, objective in OBJECTIVES.items():
        rows = splits(options, demand_w, ks, objective=objective, **terms)
        rows.insert(0, "siting", name + " " + rows["k"].astype(str))
        tables.append(rows)
    table = pd.concat(tables, ignore_index=True)
    sitings = {row.siting: row.places for row in table.itertuples() if row.places}
    if not sitings:
        raise ValueError("\n".join(dict.fromkeys(table["problem"])))
    return sitings, table


def nearest_to_anchors(
    places: Candidates, power_w: ArrayLike, demand_w: float, radius_m: float, anchors: Sequence[str]
) -> list[int]:
    """The place nearest to each anchor that has an even part of the demand.

    Parameters
    ----------
    places, power_w
        Places, and what each can give [W].
    demand_w, radius_m
        Power of all together [W], and how far a place may lie from its anchor [m].
    anchors
        Names of places in the catalog's family wide_area.

    Returns
    -------
    Indices of the places, in the order of the anchors.

    Raises
    ------
    ValueError
        Where no place within radius_m of an anchor has its part (it says what the best has), and where the nearest
        places share a plant.
    """
    power, part_w, nearest = np.asarray(power_w, float), demand_w / len(anchors), []
    for name in anchors:
        away = distance_to_place(places, name)
        enough = (away <= radius_m) & (power >= part_w)
        if not enough.any():
            best_w = power[away <= radius_m].max(initial=0.0)
            best, part = units.show(best_w, "W", 3), units.show(part_w, "W", 3)
            raise ValueError(
                f"demand_w is {units.show(demand_w, 'W', 3)}: each place needs {part}, and the best within "
                f"{radius_m / units.km:g} km of {name} has {best}: give a smaller demand, larger radius or another rule"
            )
        nearest.append(int(np.argmin(np.where(enough, away, np.inf))))
    if places.plants[nearest].sum(axis=0).max() > 1:
        raise ValueError(f"anchors are {anchors!r}: their nearest places share a plant; give anchors farther apart")
    return nearest
