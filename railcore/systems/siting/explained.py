"""Values and reasons of flops2024's claims on power and siting, from what the other modules compute."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from railcore.facts import catalog, claims, units
from railcore.systems.siting import authorities
from railcore.systems.siting.candidates import Candidates
from railcore.systems.siting.east_west import EAST
from railcore.systems.siting.rules import RULES

if TYPE_CHECKING:
    import pandas as pd

TABLE, SITING, ALONE = "flops2024.table1", "flops2024.siting", "flops2024.infra.viable_authorities"


def printed() -> dict[str, float]:
    """Disposable power that the paper's Table 1 prints, by authority, in its order [W]: inputs of kind `paper`."""
    codes = authorities.printed_regions()
    return {code: claims.paper_value(f"{TABLE}.{code.lower()}") * units.MW for code in codes}


def counts(found: Candidates, demand_w: float, around_m: float = math.inf, **asked: Any) -> dict[str, int]:
    """Places that feed a demand by each rule and share no plant; around_m: centres that near to Washington, D.C. alone.

    asked: most_coal and reserve of `rules.passes`. Lower bounds where `candidates.most_disjoint` gives one.
    """
    city = catalog.item("wide_area", EAST)
    here = found.distance_m(city["latitude_deg"], city["longitude_deg"]) <= around_m
    return {name: found.places(here & found.passing(demand_w, name, **asked))[0] for name in RULES}


def values(
    low_w: float, high_w: float, rule: str, point: Mapping[str, int], city: Mapping[str, int]
) -> dict[str, float | None]:
    """Values of the claims by id; Table 1's have none, for the hourly generation behind them is not at hand.

    low_w, high_w: of the document's datacenter at its lowest and highest PUE [W]. point, city: `counts` at the radius
    of a single place, and around Washington, D.C.
    """
    power = printed()
    low, high = (authorities.suffices(power, demand, 2).set_index("parts") for demand in (low_w, high_w))
    table: dict[str, float | None] = dict.fromkeys(claims.ids(TABLE))
    return table | {
        f"{SITING}.single_site": point[rule],
        f"{SITING}.near_washington_100km": city[rule],
        f"{SITING}.datacenters": authorities.least_split(power, low_w),
        f"{SITING}.northwest_half": int(low.loc[2, "northwest"]),
        ALONE: len(set(low.loc[1, "authorities"]) & set(high.loc[1, "authorities"])),
    }


def reasons(
    high_w: float, rule: str, point: Mapping[str, int], city: Mapping[str, int], table: "pd.DataFrame"
) -> dict[str, str]:
    """Why a claim comes out as it does. table: of `sensitivity`, for one setting of oil."""
    country = table[(table["region"] == "whole country") & (table["rule"] == rule)]
    by_radius = ", ".join(
        f"{'' if row.exact else 'at least '}{row.places} at {row.radius_m / units.km:g} km"
        for row in country.itertuples()
    )
    power = printed()
    high = authorities.suffices(power, high_w, 2).set_index("parts")
    found = {
        f"{SITING}.single_site": f"fitted: rule and radius from {SITING}.single_site: at that radius "
        f"{_listed(point)}; by the rule {rule!r} {by_radius}, which share no plant",
        f"{SITING}.near_washington_100km": f"fitted: rule from {SITING}.single_site: {_listed(city)}, by centres: "
        f"plants may lie as far again; in the country {by_radius}, so Washington is not the only one",
        f"{SITING}.datacenters": "least even parts that an eastern and a Northwest authority of Table 1 feed, at the "
        f"lowest PUE; {authorities.least_split(power, high_w):g} at the highest",
        f"{SITING}.northwest_half": f"at the highest PUE {high.loc[2, 'northwest']} of them can",
    }
    for row in authorities.demand_side(power).itertuples():
        found[f"{TABLE}.{row.authority.lower()}"] = (
            "hourly generation of the two years is not at hand; with the largest demand the printed value means "
            f"{units.show(row.implied_generation_clean_w, 'W', 4)} of generation, {row.implied_over_capacity:.0%} of "
            f"the capacity of May 2023, and {units.show(row.implied_generation_raw_w, 'W', 4)} with raw demand"
        )
    return found


def _listed(found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in found.items())
