"""Values, reasons and readings of flops2024's claims on power and siting, from what the general models compute."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from railcore.documents.flops2024.east_west import AROUND_M, EAST, intertie
from railcore.documents.flops2024.printed_authorities import (
    TABLE,
    demand_side,
    feeders_by_region,
    least_split,
    printed_powers,
)
from railcore.documents.readings import verdict_readings
from railcore.facts import claims, files, units
from railcore.systems.siting.candidates import Candidates
from railcore.systems.siting.direct_current import places_near_line
from railcore.systems.siting.geometry import distance_to
from railcore.systems.siting.nodes import Nodes
from railcore.systems.siting.rules import RULES, passes

SITING, ALONE = "flops2024.siting", "flops2024.infra.viable_authorities"
SINGLE, CITY, SPLIT, HALF = (
    f"{SITING}.{name}" for name in ("single_site", "near_washington_100km", "datacenters", "northwest_half")
)
REAL = "measured/siting_real_plants.csv"
NODES = "washington_nodes_"  # and the method, with underscores


def counts_by_rule(found: Candidates, demand_w: float, around_m: float = math.inf, **asked: Any) -> dict[str, int]:
    """Places that feed a demand and share no plant, by rule.

    Parameters
    ----------
    found, demand_w
        Candidates, and the power asked for [W].
    around_m
        Only centres that near to Washington, D.C. count [m].
    asked
        most_coal and reserve of `rules.eligible`.

    Returns
    -------
    Counts by rule, lower bounds where `candidates.most_disjoint` gives one.
    """
    here = distance_to(found, EAST) <= around_m
    return {name: found.places(here & found.passing(demand_w, name, **asked))[0] for name in RULES}


def siting_account(
    point: Candidates, near: Candidates, groups: Iterable[Nodes], demand_w: float, anchors_m: float, **asked: Any
) -> pd.DataFrame:
    """The document's account of places, in numbers.

    Parameters
    ----------
    point, near
        Candidates of a single place's radius, and of the radius of the others.
    groups
        Power nodes; those of near's radius count.
    demand_w, anchors_m
        Power asked for [W], and how far a western candidate may lie from the intertie's northern end [m].
    asked
        most_coal and reserve of `rules.eligible`.

    Returns
    -------
    A row for each rule: demand_w, rule; single_places: places of the point's radius; washington_places: places within
    100 km of Washington, D.C.; washington_nodes_<method>: the same of power nodes; western_candidates: candidates near
    the intertie's northern end that have half of the demand, and western_best_w, the most that one of them has.
    """
    columns: dict[str, Any] = {
        "demand_w": demand_w,
        "rule": list(RULES),
        "single_places": counts_by_rule(point, demand_w, **asked).values(),
        "washington_places": counts_by_rule(near, demand_w, AROUND_M, **asked).values(),
    }
    for group in (each for each in groups if each.radius_m == near.radius_m):
        here = distance_to(group, EAST) <= AROUND_M
        meets = [int((here & passes(group.supply, demand_w, rule, **asked)).sum()) for rule in RULES]
        columns[NODES + group.method.replace(" ", "_")] = meets
    line = intertie(near.grid)
    west = places_near_line(near, line, demand_w / 2, anchors_m, **asked)
    west = west[west["end"] == line[f"{line['near']}_name"]]
    columns |= {"western_candidates": west["feeding"].to_numpy(), "western_best_w": west["best_w"].to_numpy()}
    return pd.DataFrame(columns)


def real_account() -> pd.DataFrame:
    """`account` on real plants as stored, with plants (whose) before it, source and as_of behind it."""
    return pd.read_csv(files.data(REAL))


def beside_real(found: pd.DataFrame, name: str) -> pd.DataFrame:
    """`account` on plants of this name above `real_account`."""
    real = real_account()
    return pd.concat([found.assign(plants=name, source="", as_of=""), real], ignore_index=True)[list(real)]


def siting_values(low_w: float, high_w: float, rule: str, found: pd.DataFrame) -> dict[str, float | None]:
    """Values of the claims by id; Table 1's have none, for the hourly generation behind them is not at hand.

    One datacenter where a single place has all of the demand, else the least split.

    Parameters
    ----------
    low_w, high_w
        Power of the document's datacenter at its lowest and highest PUE [W].
    rule
        By which places count.
    found
        `account`.

    Returns
    -------
    Values in the claims' own units, None where there is none.
    """
    own, printed = found.set_index("rule").loc[rule], printed_powers()
    low, high = (feeders_by_region(printed, demand, 2).set_index("parts") for demand in (low_w, high_w))
    table: dict[str, float | None] = dict.fromkeys(claims.ids(TABLE))
    return table | {
        SINGLE: float(own.single_places),
        CITY: float(own.washington_places),
        SPLIT: 1.0 if own.single_places else least_split(printed, low_w),
        HALF: int(low.loc[2, "northwest"]),
        ALONE: len(set(low.loc[1, "authorities"]) & set(high.loc[1, "authorities"])),
    }


def siting_readings(ours: Mapping[str, float | None], high_w: float, rule: str, found: pd.DataFrame) -> dict[str, str]:
    """Claims whose verdict turns on a reading of the text or on the grid, with what the others give.

    Parameters
    ----------
    ours
        `values`.
    high_w, rule, found
        As in `values`.

    Returns
    -------
    Texts by claim, for `claims.record`.
    """
    own, real = (table.set_index("rule").loc[rule] for table in (found, real_account()))
    others = {f"plants of {real.plants}": {CITY: float(real.washington_places)}}
    for column in own.index[own.index.str.startswith(NODES)]:
        words = column.removeprefix(NODES).replace("_", " ")
        others[f"power nodes by {words}"] = {CITY: float(own[column])}
    printed = printed_powers()
    high = feeders_by_region(printed, high_w, 2).set_index("parts")
    split = 1.0 if own.single_places else least_split(printed, high_w)
    return verdict_readings(
        ours,
        {
            "circles around any point, on the plants of a synthetic grid": others,
            "the lowest PUE": {"the highest": {SPLIT: split, HALF: float(high.loc[2, "northwest"])}},
            "a single place is one point with its circle": {"PJM, which has it all by Table 1": {SPLIT: 1.0}},
        },
    )


def siting_reasons(rule: str, found: pd.DataFrame, table: pd.DataFrame) -> dict[str, str]:
    """Why a claim comes out as it does. found: `account`. table: of `siting_sensitivity`, for one oil."""
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
    for row in demand_side(printed_powers()).itertuples():
        result[f"{TABLE}.{row.authority.lower()}"] = (
            "hourly generation of the two years is not at hand; with the largest demand the printed value means "
            f"{units.show(row.implied_generation_clean_w, 'W', 4)} of generation, {row.implied_over_capacity:.0%} of "
            f"the capacity of May 2023, and {units.show(row.implied_generation_raw_w, 'W', 4)} with raw demand"
        )
    return result


def for_ledger(
    low_w: float, high_w: float, rule: str, found: pd.DataFrame, table: pd.DataFrame
) -> tuple[dict[str, float | None], dict[str, str], dict[str, str]]:
    """Values, reasons and readings of the claims, for `claims.record`.

    Parameters
    ----------
    low_w, high_w, rule, found
        As in `values`.
    table
        As in `reasons`.

    Returns
    -------
    `values`, `reasons`, `readings`.
    """
    ours = siting_values(low_w, high_w, rule, found)
    return ours, siting_reasons(rule, found, table), siting_readings(ours, high_w, rule, found)


def _listed(found: pd.Series) -> str:
    return ", ".join(f"{name} {count}" for name, count in found.items())
