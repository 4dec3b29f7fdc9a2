"""Values, readings and reasons of flops2024's claims on power and siting, from what the other modules compute."""

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from railcore.documents.flops2024 import balancing_authorities
from railcore.documents.flops2024.east_west import EAST, WEST, intertie, near_line, to_ends
from railcore.documents.readings import readings as turning
from railcore.facts import catalog, claims, files, units
from railcore.network.wide_area import great_circle_distance
from railcore.systems.siting.candidates import Candidates
from railcore.systems.siting.geometry import Places
from railcore.systems.siting.nodes import Nodes
from railcore.systems.siting.rules import RULES, passes
from railcore.systems.siting.sensitivity import AROUND

if TYPE_CHECKING:
    import pandas as pd

TABLE, SITING, ALONE = "flops2024.table1", "flops2024.siting", "flops2024.infra.viable_authorities"
SINGLE, CITY, SPLIT, HALF = (
    f"{SITING}.{name}" for name in ("single_site", "near_washington_100km", "datacenters", "northwest_half")
)
REAL = "measured/siting_real_plants.csv"


def printed() -> dict[str, float]:
    """Disposable power that the paper's Table 1 prints, by authority, in its order [W]: inputs of kind `paper`."""
    codes = balancing_authorities.printed_regions()
    return {code: claims.paper_value(f"{TABLE}.{code.lower()}") * units.MW for code in codes}


def counts(found: Candidates, demand_w: float, around_m: float = math.inf, **asked: Any) -> dict[str, int]:
    """Places that feed a demand by each rule and share no plant; around_m: centres that near to Washington, D.C. alone.

    asked: most_coal and reserve of `rules.passes`. Lower bounds where `candidates.most_disjoint` gives one.
    """
    here = _within(found, EAST, around_m)
    return {name: found.places(here & found.passing(demand_w, name, **asked))[0] for name in RULES}


def _within(found: Places, around: str, around_m: float) -> np.ndarray:
    there = catalog.item("wide_area", around)
    place = there["latitude_deg"], there["longitude_deg"]
    return great_circle_distance(found.latitude, found.longitude, *place) <= around_m


def account(
    point: Candidates, near: Candidates, groups: Iterable[Nodes], demand_w: float, anchors_m: float, **asked: Any
) -> "pd.DataFrame":
    """The document's account of places, in numbers: a row for each rule.

    Columns demand_w, rule; single_places: places of the point's radius; washington_places: places within 100 km of
    Washington, D.C.; washington_nodes_<method>: the same of power nodes of near's radius, for each method of groups;
    western_candidates: candidates within anchors_m of the intertie's northern end that have half of the demand, and
    western_best_w, the most that one of them has.
    """
    import pandas as pd

    columns: dict[str, Any] = {
        "demand_w": demand_w,
        "rule": list(RULES),
        "single_places": counts(point, demand_w, **asked).values(),
        "washington_places": counts(near, demand_w, AROUND, **asked).values(),
    }
    for group in (each for each in groups if each.radius_m == near.radius_m):
        here = _within(group, EAST, AROUND)
        meets = [int((here & passes(group.supply, demand_w, rule, **asked)).sum()) for rule in RULES]
        columns[f"washington_nodes_{group.method.replace(' ', '_')}"] = meets
    line, place = intertie(near.grid), catalog.item("wide_area", WEST)
    northern = ("from", "to")[int(to_ends(line, place["latitude_deg"], place["longitude_deg"])[0].argmin())]
    west = near_line(near, line, demand_w / 2, anchors_m, **asked)
    west = west[west["end"] == line[f"{northern}_name"]].set_index("rule").loc[list(RULES)]
    columns |= {"western_candidates": west["feeding"].to_numpy(), "western_best_w": west["best_w"].to_numpy()}
    return pd.DataFrame(columns)


def real_account() -> "pd.DataFrame":
    """`account` on real plants as stored, with plants (whose) before it, source and as_of behind it."""
    import pandas as pd

    return pd.read_csv(files.data(REAL))


def beside_real(found: "pd.DataFrame", name: str) -> "pd.DataFrame":
    """`account` on plants of this name above `real_account`."""
    import pandas as pd

    real = real_account()
    return pd.concat([found.assign(plants=name, source="", as_of=""), real], ignore_index=True)[list(real)]


def values(low_w: float, high_w: float, rule: str, found: "pd.DataFrame") -> dict[str, float | None]:
    """Values of the claims by id; Table 1's have none, for the hourly generation behind them is not at hand.

    low_w, high_w: of the document's datacenter at its lowest and highest PUE [W]. found: `account` by all rules. One
    datacenter where a single place has all of the demand, else the least split.
    """
    own = found.set_index("rule").loc[rule]
    power = printed()
    low, high = (balancing_authorities.suffices(power, demand, 2).set_index("parts") for demand in (low_w, high_w))
    table: dict[str, float | None] = dict.fromkeys(claims.ids(TABLE))
    return table | {
        SINGLE: float(own.single_places),
        CITY: float(own.washington_places),
        SPLIT: 1.0 if own.single_places else balancing_authorities.least_split(power, low_w),
        HALF: int(low.loc[2, "northwest"]),
        ALONE: len(set(low.loc[1, "authorities"]) & set(high.loc[1, "authorities"])),
    }


def readings(ours: Mapping[str, float | None], high_w: float, rule: str, found: "pd.DataFrame") -> dict[str, str]:
    """Claims whose verdict turns on a reading of the text or on the grid, with what the others give.

    ours: of `values`, as the other arguments are.
    """
    own, real = (table.set_index("rule").loc[rule] for table in (found, real_account()))
    others = {f"plants of {real.plants}": {CITY: float(real.washington_places)}}
    for column in own.index[own.index.str.startswith("washington_nodes_")]:
        words = column.removeprefix("washington_nodes_").replace("_", " ")
        others[f"power nodes by {words}"] = {CITY: float(own[column])}
    power = printed()
    high = balancing_authorities.suffices(power, high_w, 2).set_index("parts")
    split = 1.0 if own.single_places else balancing_authorities.least_split(power, high_w)
    return turning(
        ours,
        {
            "circles around any point, on the plants of a synthetic grid": others,
            "the lowest PUE": {"the highest": {SPLIT: split, HALF: float(high.loc[2, "northwest"])}},
            "a single place is one point with its circle": {"PJM, which has it all by Table 1": {SPLIT: 1.0}},
        },
    )


def reasons(rule: str, found: "pd.DataFrame", table: "pd.DataFrame") -> dict[str, str]:
    """Why a claim comes out as it does. found: `account` on the grid at hand. table: of `sensitivity`, for one oil."""
    country = table[(table["region"] == "whole country") & (table["rule"] == rule)]
    by_radius = ", ".join(
        f"{'' if row.exact else 'at least '}{row.places} at {row.radius_m / units.km:g} km"
        for row in country.itertuples()
    )
    own, real = (each.set_index("rule") for each in (found, real_account()))
    beside = {
        column: f"{_listed(own[column])}; on the plants of {real.plants.iloc[0]} {_listed(real[column])}"
        for column in ("single_places", "washington_places", "western_candidates")
    }
    result = {
        SINGLE: f"places at that radius by rule: {beside['single_places']}; by the rule {rule!r} {by_radius}, which "
        "share no plant",
        CITY: f"places by rule: {beside['washington_places']}; by centres: plants may lie as far again; in the country "
        f"{by_radius}, so Washington is not the only one",
        SPLIT: "one where a single place has all, else the least even parts that an eastern and a Northwest authority "
        "of Table 1 feed",
        HALF: f"by Table 1 alone; candidates near the intertie that have a half, by rule: "
        f"{beside['western_candidates']}",
    }
    for row in balancing_authorities.demand_side(printed()).itertuples():
        result[f"{TABLE}.{row.authority.lower()}"] = (
            "hourly generation of the two years is not at hand; with the largest demand the printed value means "
            f"{units.show(row.implied_generation_clean_w, 'W', 4)} of generation, {row.implied_over_capacity:.0%} of "
            f"the capacity of May 2023, and {units.show(row.implied_generation_raw_w, 'W', 4)} with raw demand"
        )
    return result


def _listed(found: "pd.Series") -> str:
    return ", ".join(f"{name} {count}" for name, count in found.items())
