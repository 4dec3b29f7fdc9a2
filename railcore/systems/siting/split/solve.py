"""The best k places for a demand: nearest to each other, or with most spare power.

A place is a chosen candidate; chosen places share no plant. With u_i = min(P_i, place cap), d the demand, s the least
share, y_i 1 for a chosen candidate and x_i its power, every split meets

sum y_i = k, sum x_i = d, s d / k y_i <= x_i <= u_i y_i, sum of x_i over an authority <= its cap,
sum of y_i over the candidates that hold a plant <= 1 for each plant, y_i + y_j <= 1 where d_ij < least separation,
sum of y_i over a group >= its least places.

"spare": max sum u_i y_i - d, solved as this mixed-integer programme (`packing.strongest`; x follows in closed form,
`SplitTerms.dealt_w`). "shortest": min D with y_i + y_j <= 1 where d_ij > D, then max spare. The same programme says
whether there are k places at all; an exact search for cliques in the graph of pairs that go together (`cliques`) finds
the least D and the spare power at it. One D as a programme took HiGHS 1 to 20 s or more on 1,300 candidates of radius
100 km, the search 0.1 s: parts of candidates pack far more tightly than whole ones.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from railcore.facts.units import GW, km
from railcore.systems.siting.geometry import longest_m
from railcore.systems.siting.split.constraints import SplitTerms
from railcore.systems.siting.split.options import SiteOptions, undominated
from railcore.systems.siting.split.packing import strongest
from railcore.systems.siting.split.shortest import shortest


class NoPlaces(ValueError):
    """No k places feed the demand."""


@dataclass(frozen=True)
class Split:
    """k places for a demand.

    terms: what was asked. places: indices of the options, most power first. power_w: what each carries [W]; usable_w:
    what it could. longest_m: between any two [m], 0 for one place. spare_w: usable power of all over the demand [W].
    candidates: with power to offer; enough: of these, with at least the least share; left: of these, undominated,
    among which the split is optimal.
    """

    terms: SplitTerms
    places: np.ndarray
    power_w: np.ndarray
    usable_w: np.ndarray
    longest_m: float
    spare_w: float
    candidates: int
    enough: int
    left: int

    def table(self, options: SiteOptions) -> pd.DataFrame:
        """One row for each place: its index, where, authority, power that it carries and could [W]."""
        at = self.places
        return pd.DataFrame(
            {
                "place": at,
                "latitude": options.latitude[at],
                "longitude": options.longitude[at],
                "authority": options.authority[at],
                "power_w": self.power_w,
                "usable_w": self.usable_w,
            }
        )


def split(options: SiteOptions, demand_w: float, k: int, objective: str = "shortest", **terms: Any) -> Split:
    """The best k places that feed a demand together, as in the module's equations.

    Parameters
    ----------
    options
        Candidates to choose from.
    demand_w, k, objective, terms
        As in `SplitTerms`; within_m is by default the radius of the candidates, and 0 (exact) where they have none.

    Returns
    -------
    `Split`.

    Raises
    ------
    ValueError naming the argument out of range, or saying how much the best k places have.
    """
    resolution = options.radius_m if np.isfinite(options.radius_m) else 0.0
    asked = SplitTerms(demand_w, k, objective, **{"within_m": resolution} | terms)
    asked.check(options)
    usable = asked.usable_w(options)
    kept, enough = left(options, asked)
    chosen = best(replace(options[kept], power_w=usable[kept]), asked)
    if not chosen:
        raise NoPlaces(_why(options, asked))
    places = kept[chosen]
    places = places[np.lexsort((places, -usable[places]))]
    return Split(
        asked,
        places,
        power_w=asked.dealt_w(options[places]),
        usable_w=usable[places],
        longest_m=longest_m(options, places),
        spare_w=float(usable[places].sum() - demand_w),
        candidates=int((usable > 0).sum()),
        enough=enough,
        left=len(kept),
    )


def splits(options: SiteOptions, demand_w: float, ks: Iterable[int] = range(1, 7), **terms: Any) -> pd.DataFrame:
    """What `split` finds for each k, and why not where it finds none.

    Parameters
    ----------
    options, demand_w, terms
        As in `split`.
    ks
        Numbers of places.

    Returns
    -------
    A row for each k: k, demand_w, longest_m, spare_w, part_w (most that a place carries), places (indices), candidates,
    enough, left, problem (empty, or what `split` says of the demand).
    """
    columns, rows = "k demand_w longest_m spare_w part_w places candidates enough left problem".split(), []
    for k in ks:
        row: dict[str, Any] = {"k": k, "demand_w": demand_w}
        try:
            found = split(options, demand_w, k, **terms)
        except NoPlaces as error:
            rows.append(row | {"places": (), "problem": str(error)})
        else:
            row |= {name: getattr(found, name) for name in ("longest_m", "spare_w", "candidates", "enough", "left")}
            rows.append(row | {"part_w": found.power_w.max(), "places": tuple(found.places.tolist()), "problem": ""})
    return pd.DataFrame(rows).reindex(columns=columns)


def left(options: SiteOptions, terms: SplitTerms) -> tuple[np.ndarray, int]:
    """Indices of candidates with at least the least part that none dominates, and how many have that part.

    For the shortest split in even parts any power beyond the part is worth nothing, so that fewer plants dominate.
    """
    usable = terms.usable_w(options)
    enough = np.flatnonzero((usable >= terms.part_w * (1 - 1e-12)) & (usable > 0))
    even = terms.objective == "shortest" and terms.least_share == 1 and terms.k > 1
    worth = np.minimum(usable, terms.part_w) if even else usable
    some = replace(options[enough], power_w=worth[enough])
    kept = undominated(some, terms.within_m, terms.authority_caps, terms.least_separation_m)
    return enough[kept], len(enough)


def best(options: SiteOptions, terms: SplitTerms) -> list[int]:
    """The best k of options whose power is the usable one, none where no k meet the terms."""
    if len(options) < terms.k:
        return []
    k, separation, needs = terms.k, terms.least_separation_m, terms.needs(options)
    nearest = terms.objective == "shortest" and k > 1
    order = np.argsort(-options.power_w, kind="stable")
    found = strongest(options[order], needs[order], k, separation, heavy=not nearest)
    if not found or not nearest:
        return order[found].tolist() if found else []
    upper_m = longest_m(options, order[found])
    order = np.lexsort((options.latitude, options.longitude))
    return order[shortest(options[order], needs[order], k, separation, upper_m)].tolist()


def _why(options: SiteOptions, terms: SplitTerms, steps: int = 8) -> str:
    """How much the best k places have, by halving a range to 1 / 2^steps of what the k strongest alone would have."""
    apart = f"s {terms.least_separation_m / km:.0f} km apart" if terms.k > 1 else ""
    capped = f" with at most {terms.place_cap_w / GW:.3g} GW each" if np.isfinite(terms.place_cap_w) else ""
    asked = f"no {terms.k} place{apart}{capped} ha{'ve' if terms.k > 1 else 's'} {terms.demand_w / GW:.3g} GW"
    most_w = min(terms.demand_w, float(np.sort(terms.usable_w(options))[-terms.k :].sum()))
    low, high = 0.0, 1.0
    for _ in range(steps if most_w else 0):
        middle = (low + high) / 2
        less = replace(terms, demand_w=most_w * middle, objective="spare")
        kept, _ = left(options, less)
        some = best(replace(options[kept], power_w=less.usable_w(options)[kept]), less)
        low, high = (middle, high) if some else (low, middle)
    even = " in even parts" if terms.k > 1 and terms.least_share == 1 else ""
    have = f"the best have {low * most_w / GW:.3g} GW{even}" if low else "no such places exist at any demand"
    return f"{asked}: {have}; lower the demand or the separation, raise caps, radius or k"
