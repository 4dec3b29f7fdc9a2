"""flops2024 on power and siting: the split into east and west, and values, reasons and readings of the claims."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from railcore.documents.readings import Entries, verdict_readings
from railcore.facts import catalog, claims, files, units
from railcore.systems.siting.authorities import MAX_PARTS, authority_row, authority_table, feeders_of_parts
from railcore.systems.siting.candidates import Candidates, Region, most_disjoint
from railcore.systems.siting.geometry import distance_to_place
from railcore.systems.siting.grid import PowerGrid
from railcore.systems.siting.nodes import PowerNodes
from railcore.systems.siting.placement import nearest_direct_line, places_near_line
from railcore.systems.siting.split import nearest_to_anchors, sitings_by_objective
from railcore.systems.siting.split_problem import SiteOptions
from railcore.systems.siting.supply import RULES, feeds_demand

WASHINGTON, CELILO = "flops2024 east", "flops2024 west"  # of the catalog's wide_area
EAST_AND_WEST = "east and west"
NEARBY_M = 100e3  # the document's "within 100 km"
REGIONS: dict[str, Region] = {
    "whole country": lambda found: np.ones(len(found), bool),
    "100 km of Washington, D.C.": lambda found: distance_to_place(found, WASHINGTON) <= NEARBY_M,
    "Washington State": lambda found: found.state == "Washington",
    "100 km of the intertie": lambda found: distance_to_place(found, CELILO) <= NEARBY_M,
    "Eastern": lambda found: found.interconnect == "Eastern",
    "Western": lambda found: found.interconnect == "Western",
    "Texas": lambda found: found.interconnect == "Texas",
}
SINGLE_SITE, NEAR_WASHINGTON = "flops2024.siting.single_site", "flops2024.siting.near_washington_100km"
DATACENTERS, NORTHWEST_HALF = "flops2024.siting.datacenters", "flops2024.siting.northwest_half"
TABLE_1, VIABLE_AUTHORITIES = "flops2024.table1", "flops2024.infra.viable_authorities"
_NODE_COLUMN = "washington_nodes_"  # and the method, with underscores


def intertie(grid: PowerGrid) -> pd.Series:
    """The Pacific DC Intertie: the direct-current line with an end nearest to Celilo, as `nearest_direct_line`."""
    return nearest_direct_line(grid, CELILO)


def sitings_with_pair(
    near: Candidates, options: SiteOptions, demand_w: float, ks: Iterable[int], anchors_m: float, **terms: Any
) -> tuple[dict[str, tuple[int, ...]], pd.DataFrame]:
    """`sitings_by_objective`, and first "east and west": the places nearest to the anchors that have a half each.

    Parameters
    ----------
    near, options
        Candidates, and the same as options of a split.
    demand_w, ks
        Power of all places together [W], and the numbers of places to try.
    anchors_m
        How far a place of the pair may lie from its anchor [m].
    terms
        Of `split.split`, without the objective; caps hold for the pair too.

    Returns
    -------
    Indices of the places by name of the siting, and the table of `sitings_by_objective` with a row for the pair. A pair
    that does not exist is left out, and the table says why.

    Raises
    ------
    ValueError
        As in `sitings_by_objective`.
    """
    found, every = sitings_by_objective(options, demand_w, ks, **terms)
    caps = terms.get("authority_caps") or {}
    cap_w = np.minimum([caps.get(code, np.inf) for code in options.authority], terms.get("place_cap_w", np.inf))
    problem = ""
    try:
        two = nearest_to_anchors(near, np.minimum(options.power_w, cap_w), demand_w, anchors_m, (WASHINGTON, CELILO))
        found = {EAST_AND_WEST: tuple(two)} | found
    except ValueError as error:
        problem = str(error)
    row = pd.DataFrame([{"siting": EAST_AND_WEST, "k": 2, "demand_w": demand_w, "problem": problem}])
    return found, pd.concat([row, every]).reindex(columns=every.columns)


def counts_by_rule(found: Candidates, demand_w: float, around_m: float = math.inf, **asked: Any) -> dict[str, int]:
    """Places that feed a demand and share no plant, by rule.

    Parameters
    ----------
    found, demand_w
        Candidates, and the power asked for [W].
    around_m
        Only centres that near to Washington, D.C. count [m].
    asked
        most_coal and reserve of `supply.eligible`.

    Returns
    -------
    Counts by rule, lower bounds where `candidates.most_disjoint` gives one.
    """
    near = distance_to_place(found, WASHINGTON) <= around_m
    feeding = {name: near & feeds_demand(found.supply, demand_w, name, **asked) for name in RULES}
    return {name: most_disjoint(found.plants[np.flatnonzero(has)])[0] for name, has in feeding.items()}


def siting_account(
    point: Candidates, near: Candidates, groups: Iterable[PowerNodes], demand_w: float, anchors_m: float, **asked: Any
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
        most_coal and reserve of `supply.eligible`.

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
        "washington_places": counts_by_rule(near, demand_w, NEARBY_M, **asked).values(),
    }
    for group in (each for each in groups if each.radius_m == near.radius_m):
        here = distance_to_place(group, WASHINGTON) <= NEARBY_M
        meets = [int((here & feeds_demand(group.supply, demand_w, rule, **asked)).sum()) for rule in RULES]
        columns[_NODE_COLUMN + group.method.replace(" ", "_")] = meets
    line = intertie(near.grid)
    west = places_near_line(near, line, demand_w / 2, anchors_m, **asked)
    west = west[west["end"] == line[f"{line['near']}_name"]]
    columns |= {"western_candidates": west["feeding"].to_numpy(), "western_best_w": west["best_w"].to_numpy()}
    return pd.DataFrame(columns)


def real_account() -> pd.DataFrame:
    """`siting_account` on real plants as stored, with plants (whose) before it, source and as_of behind it."""
    return pd.read_csv(files.data("measured/siting_real_plants.csv"))


def beside_real(found: pd.DataFrame, name: str) -> pd.DataFrame:
    """`siting_account` on plants of this name above `real_account`."""
    real = real_account()
    return pd.concat([found.assign(plants=name, source="", as_of=""), real], ignore_index=True)[list(real)]


def printed_regions() -> dict[str, str]:
    """Region of each authority of Table 1, in its order, from the catalog's family authorities."""
    return {code: catalog.item("authorities", code)["region"] for code in catalog.names("authorities")}


def printed_powers() -> dict[str, float]:
    """Disposable power that Table 1 prints, by authority, in its order [W]: inputs of kind `paper`."""
    return {code: claims.paper_value(f"{TABLE_1}.{code.lower()}") * units.MW for code in printed_regions()}


def demand_side(printed_w: Mapping[str, float]) -> pd.DataFrame:
    """What printed disposable powers imply beside the demand and the capacity that are known, in the order printed.

    Implied generation max G = D + max L, with max L as reported and without spikes; possible where it is at most the
    net summer capacity C, None where no demand is reported. printed_w: D by authority [W].
    Columns authority, region (as the paper prints it), printed_w; with the peak as reported: peak_demand_raw_w,
    implied_generation_raw_w, possible_raw; with the peak without spikes: peak_demand_clean_w,
    implied_generation_clean_w, possible_clean; capacity_w, implied_over_capacity (clean), bound_w = C - max L (clean)
    and bound_rank among the 54. A peak that is a spike makes an implied generation that is impossible; one that is
    impossible without spikes says that the printed value rests on another spike, in generation.
    Raises UnknownName for an unknown code, ValueError for a printed value that is not finite.
    """
    regions, rows = printed_regions(), []
    for code, printed in printed_w.items():
        row = authority_row(code)
        if not np.isfinite(printed):
            raise ValueError(f"printed_w of {code} is {printed!r}: give watts")
        entry = {"authority": code, "region": regions.get(code, row["region"]), "printed_w": float(printed)}
        for kind in ("raw", "clean"):
            peak = row[f"peak_demand_{kind}_w"]
            entry |= {f"peak_demand_{kind}_w": peak, f"implied_generation_{kind}_w": peak + printed}
            entry[f"possible_{kind}"] = bool(peak + printed <= row["capacity_w"]) if peak > 0 else None
        entry["capacity_w"] = row["capacity_w"]
        entry["implied_over_capacity"] = entry["implied_generation_clean_w"] / row["capacity_w"]
        rows.append(entry | {"bound_w": row["bound_w"], "bound_rank": row["bound_rank"]})
    return pd.DataFrame(rows)


def larger_bounds(printed_w: Mapping[str, float]) -> pd.DataFrame:
    """Authorities that the paper does not print, but whose bound C - max L exceeds the least of its printed values.

    Columns as `authority_table`, largest bound first. That a bound exceeds it does not say that the disposable power
    does. Raises ValueError for no printed value, UnknownName for an unknown code.
    """
    if not printed_w:
        raise ValueError("printed_w is empty: give disposable power by authority in watts")
    for code in printed_w:
        authority_row(code)
    rows = authority_table()
    chosen = ~rows["authority"].isin(printed_w) & (rows["bound_w"] > min(printed_w.values()))
    return rows[chosen].sort_values("bound_w", ascending=False, ignore_index=True)


def feeders_by_region(disposable_w: Mapping[str, float], demand_w: float, most: int = 4) -> pd.DataFrame:
    """`feeders_of_parts`, with how many of them lie east and northwest: columns east, northwest.

    East: in the Eastern interconnection. Northwest: in the region of that name, as Table 1 prints it or else as EIA
    does. Source: flops2024, section 2, arithmetic on Table 1. Errors as in `feeders_of_parts`.
    """
    found, printed = feeders_of_parts(disposable_w, demand_w, most), printed_regions()
    eastern = {code for code in disposable_w if authority_row(code)["interconnect"] == "Eastern"}
    northwestern = {code for code in disposable_w if printed.get(code, authority_row(code)["region"]) == "Northwest"}
    for name, codes in (("east", eastern), ("northwest", northwestern)):
        found[name] = [len(codes.intersection(feeders)) for feeders in found["authorities"]]
    return found


def fewest_even_parts(disposable_w: Mapping[str, float], demand_w: float) -> float:
    """Least number k >= 2 of even parts that an eastern and a northwestern authority each can feed, all k at once.

    The least k of `feeders_by_region` with an Eastern and a Northwest authority and room for all parts: the datacenters
    of the paper's split. NaN where no k up to `MAX_PARTS` does.
    """
    found = feeders_by_region(disposable_w, demand_w, MAX_PARTS)
    good = found[(found["parts"] > 1) & found["feasible"] & (found["east"] > 0) & (found["northwest"] > 0)]
    return float(good["parts"].min())


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
        `siting_account`.

    Returns
    -------
    Values in the claims' own units, None where there is none.
    """
    own, printed = found.set_index("rule").loc[rule], printed_powers()
    feeders = (feeders_by_region(printed, demand, 2) for demand in (low_w, high_w))
    low, high = (each.set_index("parts") for each in feeders)
    table: dict[str, float | None] = dict.fromkeys(claims.ids(TABLE_1))
    return table | {
        SINGLE_SITE: float(own.single_places),
        NEAR_WASHINGTON: float(own.washington_places),
        DATACENTERS: 1.0 if own.single_places else fewest_even_parts(printed, low_w),
        NORTHWEST_HALF: int(low.loc[2, "northwest"]),
        VIABLE_AUTHORITIES: len(set(low.loc[1, "authorities"]) & set(high.loc[1, "authorities"])),
    }


def siting_readings(ours: Mapping[str, float | None], high_w: float, rule: str, found: pd.DataFrame) -> dict[str, str]:
    """Claims whose verdict turns on a reading of the text or on the grid, with what the others give.

    Parameters
    ----------
    ours
        `siting_values`.
    high_w, rule, found
        As in `siting_values`.

    Returns
    -------
    Texts by claim, for `claims.record`.
    """
    own, real = (table.set_index("rule").loc[rule] for table in (found, real_account()))
    others = {f"plants of {real.plants}": {NEAR_WASHINGTON: float(real.washington_places)}}
    for column in own.index[own.index.str.startswith(_NODE_COLUMN)]:
        words = column.removeprefix(_NODE_COLUMN).replace("_", " ")
        others[f"power nodes by {words}"] = {NEAR_WASHINGTON: float(own[column])}
    return verdict_readings(
        ours,
        {
            "circles around any point, on the plants of a synthetic grid": others,
            "the lowest PUE": {"the highest": siting_values(high_w, high_w, rule, found)},
            "a single place is one point with its circle": {"PJM, which has it all by Table 1": {DATACENTERS: 1.0}},
        },
    )


def siting_reasons(rule: str, found: pd.DataFrame, table: pd.DataFrame) -> dict[str, str]:
    """Why a claim comes out as it does. found: `siting_account`. table: of `siting_sensitivity`, for one oil."""
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
        SINGLE_SITE: f"places at that radius by rule: {beside['single_places']}; by the rule {rule!r} {by_radius}, "
        "which share no plant",
        NEAR_WASHINGTON: f"places by rule: {beside['washington_places']}; by centres: plants may lie as far again; "
        f"in the country {by_radius}, so Washington is not the only one",
        DATACENTERS: "one where a single place has all, else the least even parts that an eastern and a Northwest "
        "authority of Table 1 feed",
        NORTHWEST_HALF: f"by Table 1 alone; candidates near the intertie that have a half, by rule: "
        f"{beside['western_candidates']}",
    }
    for row in demand_side(printed_powers()).itertuples():
        result[f"{TABLE_1}.{row.authority.lower()}"] = (
            "hourly generation of the two years is not at hand; with the largest demand the printed value means "
            f"{units.show(row.implied_generation_clean_w, 'W', 4)} of generation, {row.implied_over_capacity:.0%} of "
            f"the capacity of May 2023, and {units.show(row.implied_generation_raw_w, 'W', 4)} with raw demand"
        )
    return result


def siting_entries(low_w: float, high_w: float, rule: str, found: pd.DataFrame, table: pd.DataFrame) -> Entries:
    """Values, reasons and readings of the claims.

    Parameters
    ----------
    low_w, high_w, rule, found
        As in `siting_values`.
    table
        As in `siting_reasons`.

    Returns
    -------
    For `claims.record`.
    """
    ours = siting_values(low_w, high_w, rule, found)
    return Entries(ours, siting_reasons(rule, found, table), siting_readings(ours, high_w, rule, found))


def _listed(found: pd.Series) -> str:
    return ", ".join(f"{name} {count}" for name, count in found.items())


def that_have(count: float, noun: str, where: str = "") -> str:
    """Subject and verb of a sentence: "no place has", "1 place has", "3 places have"; where: words between the two."""
    return f"{count:.0f} {noun}s{where} have" if count > 1 else f"{'1' if count else 'no'} {noun}{where} has"
