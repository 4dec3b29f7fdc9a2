"""flops2024 on power and siting: the split into east and west, and values, reasons and readings of the claims."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog import UnknownName, files, units
from railcore.siting.authorities import authority_row, authority_table
from railcore.siting.distances import distance_to_place
from railcore.siting.grid import PowerGrid
from railcore.siting.places import FoundPlaces, NoPlaces, Survey, find_places
from railcore.siting.points import MapPoints
from railcore.siting.rules import HEADROOM, RULES, AvailablePower, feeds_demand
from suite.flops2024.counting import Region, most_disjoint
from suite.flops2024.direct_lines import nearest_direct_line, places_near_line
from suite.flops2024.nodes import PowerNodes
from suite.flops2024.sitings import nearest_to_anchors, sitings_by_objective
from suite.ledger import claims
from suite.ledger.readings import Entries, verdict_readings

WASHINGTON, CELILO = "flops2024 east", "flops2024 west"  # of the catalog's wide_area
EAST_AND_WEST = "east and west"
NEARBY_M = 100e3  # the document's "within 100 km"
REGIONS: dict[str, Region] = {
    "whole country": lambda points: np.ones(len(points), bool),
    "100 km of Washington, D.C.": lambda points: distance_to_place(points, WASHINGTON) <= NEARBY_M,
    "Washington State": lambda points: points.state == "Washington",
    "100 km of the intertie": lambda points: distance_to_place(points, CELILO) <= NEARBY_M,
    "Eastern": lambda points: points.interconnect == "Eastern",
    "Western": lambda points: points.interconnect == "Western",
    "Texas": lambda points: points.interconnect == "Texas",
}
SINGLE_SITE, NEAR_WASHINGTON = "flops2024.siting.single_site", "flops2024.siting.near_washington_100km"
DATACENTERS, NORTHWEST_HALF = "flops2024.siting.datacenters", "flops2024.siting.northwest_half"
TABLE_1, VIABLE_AUTHORITIES = "flops2024.table1", "flops2024.infra.viable_authorities"
DOCUMENT_RULE = "idle fuelled"  # calibrated, see data/calibrations.csv
COUNTED_WITH = tuple(
    "demand_w grid radius_m point_radius_m anchors_m step_deg oil coal_basis most_coal reserve".split()
)
MAX_PARTS = 12  # of a demand
_NODE_COLUMN = "washington_nodes_"  # and the method, with underscores


def answering_rule(rule: str, demand: str) -> str:
    """The rule that is asked for; for "" that of the document's datacenter, or of a demand of one's own.

    The document's rule leaves out what others use, which a datacenter of one's own cannot.
    Raises UnknownName for a rule.
    """
    if rule not in ("", *RULES):
        raise UnknownName("rule", rule, list(RULES))
    return rule or (HEADROOM if demand else DOCUMENT_RULE)


def intertie(grid: PowerGrid) -> pd.Series:
    """The Pacific DC Intertie: the direct-current line with an end nearest to Celilo, as `nearest_direct_line`."""
    return nearest_direct_line(grid, CELILO)


def sitings_with_pair(
    near: MapPoints, power: AvailablePower, demand_w: float, ks: Iterable[int], anchors_m: float, **terms: Any
) -> tuple[dict[str, tuple[int, ...]], pd.DataFrame]:
    """`sitings_by_objective`, and first "east and west": the places nearest to the anchors that have a half each.

    Parameters
    ----------
    near, power
        Points, and the power that may be had at them.
    demand_w, ks
        Power of all places together [W], and the numbers of places to try.
    anchors_m
        How far a place of the pair may lie from its anchor [m].
    terms
        Of `split.best_split`, without the objective; caps hold for the pair too.

    Returns
    -------
    Indices of the places by name of the siting, and the table of `sitings_by_objective` with a row for the pair. A pair
    that does not exist is left out, and the table says why.

    Raises
    ------
    ValueError
        As in `sitings_by_objective`.
    """
    sitings, every = sitings_by_objective(power, demand_w, ks, **terms)
    caps = terms.get("authority_caps") or {}
    cap_w = np.minimum([caps.get(code, np.inf) for code in power.authority], terms.get("place_cap_w", np.inf))
    problem = ""
    try:
        two = nearest_to_anchors(near, np.minimum(power.power_w, cap_w), demand_w, anchors_m, (WASHINGTON, CELILO))
        sitings = {EAST_AND_WEST: tuple(two)} | sitings
    except ValueError as error:
        problem = str(error)
    row = pd.DataFrame([{"siting": EAST_AND_WEST, "k": 2, "demand_w": demand_w, "problem": problem}])
    return sitings, pd.concat([row, every]).reindex(columns=every.columns)


def counts_by_rule(points: MapPoints, demand_w: float, around_m: float = math.inf, **asked: Any) -> dict[str, int]:
    """Places that feed a demand and share no plant, by rule.

    Parameters
    ----------
    points, demand_w
        Points, and the power asked for [W].
    around_m
        Only points that near to Washington, D.C. count [m].
    asked
        most_coal and reserve of `rules.eligible`.

    Returns
    -------
    Counts by rule, lower bounds where `counting.most_disjoint` gives one.
    """
    near = distance_to_place(points, WASHINGTON) <= around_m
    feeding = {name: near & feeds_demand(points.supply, demand_w, name, **asked) for name in RULES}
    return {name: most_disjoint(points.plants[np.flatnonzero(has)])[0] for name, has in feeding.items()}


def siting_account(
    point: MapPoints, near: MapPoints, groups: Iterable[PowerNodes], demand_w: float, anchors_m: float, **asked: Any
) -> pd.DataFrame:
    """The document's account of places, in numbers.

    Parameters
    ----------
    point, near
        Points of a single place's radius, and of the radius of the others.
    groups
        Power nodes; those of near's radius count.
    demand_w, anchors_m
        Power asked for [W], and how far a western point may lie from the intertie's northern end [m].
    asked
        most_coal and reserve of `rules.eligible`.

    Returns
    -------
    A row for each rule: demand_w, rule; single_places: places of the point's radius; washington_places: places within
    100 km of Washington, D.C.; washington_nodes_<method>: the same of power nodes, and washington_nodes: the most of
    these; western_candidates: candidates near
    the intertie's northern end that have half of the demand, and western_best_w, the most that one of them has.
    """
    columns: dict[str, Any] = {
        "demand_w": demand_w,
        "rule": list(RULES),
        "single_places": counts_by_rule(point, demand_w, **asked).values(),
        "washington_places": counts_by_rule(near, demand_w, NEARBY_M, **asked).values(),
    }
    for group in (group for group in groups if group.radius_m == near.radius_m):
        here = distance_to_place(group, WASHINGTON) <= NEARBY_M
        meets = [int((here & feeds_demand(group.supply, demand_w, rule, **asked)).sum()) for rule in RULES]
        columns[_NODE_COLUMN + group.method.replace(" ", "_")] = meets
    ways = [counts for name, counts in columns.items() if name.startswith(_NODE_COLUMN)]
    columns["washington_nodes"] = np.max(ways, axis=0) if ways else 0
    line = intertie(near.grid)
    west = places_near_line(near, line, demand_w / 2, anchors_m, **asked)
    west = west[west["end"] == line[f"{line['near']}_name"]]
    columns |= {"western_candidates": west["feeding"].to_numpy(), "western_best_w": west["best_w"].to_numpy()}
    return pd.DataFrame(columns)


def real_account(counted: Mapping[str, Any]) -> pd.DataFrame:
    """Stored rows of `siting_account` on real plants that were counted with the parameters of a run, else no rows.

    counted: the run's parameters by the names of `COUNTED_WITH`; grid is the name of the grid whose lines and loads
    serve. Rows of your own in the catalog's fuels or places (wide_area) are other parameters too.
    Columns of `siting_account`, with plants (whose) before them, source and as_of behind.
    """
    stored = pd.read_csv(files.data("measured/siting_real_plants.csv"))
    same = not any(catalog.own_version(family)[0] for family in ("fuels", "wide_area"))
    for name in COUNTED_WITH:
        pair, was = counted[name], stored[name]
        same &= np.isclose(was, pair, rtol=1e-9, atol=0) if isinstance(pair, int | float) else was == pair
    return stored[same].drop(columns=[name for name in COUNTED_WITH if name != "demand_w"])


def counts_on_real(real: pd.DataFrame, rule: str) -> dict[str, str]:
    """Words to put behind each count of the account: " (0 on the plants of X)", "" where `real_account` has no rows."""
    columns = ("single_places", "washington_nodes", "western_candidates")
    if real.empty:
        return dict.fromkeys(columns, "")
    row = real.set_index("rule").loc[rule]
    whose = (f"the plants of {row.plants}", "those plants", "those plants")
    return {column: f" ({row[column]} on {plants})" for column, plants in zip(columns, whose, strict=True)}


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
    """
    regions, rows = printed_regions(), []
    for code, printed in printed_w.items():
        row = authority_row(code)
        entry = {"authority": code, "region": regions.get(code, row["region"]), "printed_w": float(printed)}
        for kind in ("raw", "clean"):
            peak = row[f"peak_demand_{kind}_w"]
            entry |= {f"peak_demand_{kind}_w": peak, f"implied_generation_{kind}_w": peak + printed}
            entry[f"possible_{kind}"] = bool(peak + printed <= row["capacity_w"]) if peak > 0 else None
        entry["capacity_w"] = row["capacity_w"]
        entry["implied_over_capacity"] = entry["implied_generation_clean_w"] / row["capacity_w"]
        rows.append(entry | {"bound_w": row["bound_w"], "bound_rank": row["bound_rank"]})
    return pd.DataFrame(rows)


def table1_shown(implied: pd.DataFrame) -> pd.DataFrame:
    """Table 1 for a reader: the document's three columns, then what is known beside them.

    implied: of `demand_side`. Powers in MW, shares in percent.
    """
    needs_w = [claims.paper_value(f"flops2024.infra.total_power_{end}") for end in ("low", "high")]
    rows = [authority_row(code) for code in implied["authority"]]
    megawatts = {name: (implied[name] / units.MW).round() for name in implied if name.endswith("_w")}
    return pd.DataFrame(
        {
            "Balancing Authority": [f"{row['authority']} ({row['name']})" for row in rows],
            "Max Available, the document's [MW]": megawatts["printed_w"],
            "Region": implied["region"],
            f"feeds {' / '.join(units.show(need, 'W', 3) for need in needs_w)}": [
                " / ".join(_part_fed(power, need) for need in needs_w) for power in implied["printed_w"]
            ],
            "largest demand [MW]": megawatts["peak_demand_clean_w"],
            "generation implied [MW]": megawatts["implied_generation_clean_w"],
            "share of the capacity": [
                f"{units.number(100 * share, 3)}%" + ": impossible" * (share > 1)
                for share in implied["implied_over_capacity"]
            ],
            "most that can be free [MW]": megawatts["bound_w"],
        }
    )


def table1_title(implied: pd.DataFrame) -> str:
    """What `table1_shown` does not say in its headings.

    implied: of `demand_side`. Raises ValueError where authorities differ in the window of their demand or the date of
    their capacity.
    """
    rows = [authority_row(code) for code in implied["authority"]]
    window, capacity_as_of = (_of_all(rows, name) for name in ("window", "capacity_as_of"))
    since, until = window.split("/")
    return (
        f"Largest demand from {since} to {until} without spikes, capacity of the plants in {capacity_as_of}. Max "
        "Available is not recomputed. Both together imply a generation: above the capacity it cannot be. The most "
        "that can be free is the capacity less the largest demand. Whole, half: feeds one place with everything, or "
        "one of two; the powers are the document's."
    )


def _of_all(rows: Sequence[Mapping[str, Any]], name: str) -> str:
    """What all rows have in a column."""
    values = {row[name] for row in rows}
    if len(values) != 1:
        raise ValueError(f"authorities have {name} {sorted(values)}: a table of them needs one")
    return values.pop()


def judged_headroom(published: pd.DataFrame) -> pd.DataFrame:
    """`published_headroom` with a column verdict: of ours, reproduced where within 1% of the study's."""
    pairs = zip(published["ours"], published["published"], strict=True)
    return published.assign(verdict=[claims.verdict(ours, theirs, "~", 0.01) for ours, theirs in pairs])


def _part_fed(power_w: float, need_w: float) -> str:
    """Which part of a datacenter in one or two places a power feeds."""
    return "whole" if power_w >= need_w else "half" if power_w >= need_w / 2 else "no"


def larger_bounds(printed_w: Mapping[str, float]) -> pd.DataFrame:
    """Authorities that the paper does not print, but whose bound C - max L exceeds the least of its printed values.

    Columns as `authority_table`, largest bound first. That a bound exceeds it does not say that the disposable power
    does.
    """
    rows = authority_table()
    chosen = ~rows["authority"].isin(printed_w) & (rows["bound_w"] > min(printed_w.values()))
    return rows[chosen].sort_values("bound_w", ascending=False, ignore_index=True)


def feeders_of_parts(disposable_w: Mapping[str, float], demand_w: float, most: int = 4) -> pd.DataFrame:
    """Which authorities feed each of k even parts of a demand, for k = 1 .. most: D >= demand / k.

    disposable_w: D by authority [W]. Columns parts k, part_w, authorities (a tuple), count, room = sum of
    floor(D / part) parts that they feed together, feasible (room >= k). k = 1 says who feeds the demand alone.
    """
    rows = []
    for k in range(1, most + 1):
        part = demand_w / k
        enough = tuple(code for code, power in disposable_w.items() if power >= part)
        room = sum(int(disposable_w[code] // part) for code in enough)
        row = {"parts": k, "part_w": part, "authorities": enough, "count": len(enough), "room": room}
        rows.append(row | {"feasible": room >= k})
    return pd.DataFrame(rows)


def feeders_by_region(disposable_w: Mapping[str, float], demand_w: float, most: int = 4) -> pd.DataFrame:
    """`feeders_of_parts`, with how many of them lie east and northwest: columns east, northwest.

    East: in the Eastern interconnection. Northwest: in the region of that name, as Table 1 prints it or else as EIA
    does. Source: flops2024, section 2, arithmetic on Table 1. Raises UnknownName for an unknown code.
    """
    parts, printed = feeders_of_parts(disposable_w, demand_w, most), printed_regions()
    eastern = {code for code in disposable_w if authority_row(code)["interconnect"] == "Eastern"}
    northwestern = {code for code in disposable_w if printed.get(code, authority_row(code)["region"]) == "Northwest"}
    for name, codes in (("east", eastern), ("northwest", northwestern)):
        parts[name] = [len(codes.intersection(feeders)) for feeders in parts["authorities"]]
    return parts


def fewest_even_parts(disposable_w: Mapping[str, float], demand_w: float) -> float:
    """Least number k >= 2 of even parts that an eastern and a northwestern authority each can feed, all k at once.

    The least k of `feeders_by_region` with an Eastern and a Northwest authority and room for all parts: the datacenters
    of the paper's split. NaN where no k up to `MAX_PARTS` does.
    """
    feeders = feeders_by_region(disposable_w, demand_w, MAX_PARTS)
    good = feeders[(feeders["parts"] > 1) & feeders["feasible"] & (feeders["east"] > 0) & (feeders["northwest"] > 0)]
    return float(good["parts"].min())


def siting_values(low_w: float, high_w: float, rule: str, account: pd.DataFrame) -> dict[str, float | None]:
    """Values of the claims by id; Table 1's have none, for the hourly generation behind them is not at hand.

    One datacenter where a single place has all of the demand, else the least split.

    Parameters
    ----------
    low_w, high_w
        Power of the document's datacenter at its lowest and highest PUE [W].
    rule
        By which places count.
    account
        `siting_account`.

    Returns
    -------
    Values in the claims' own units, None where there is none.
    """
    siting, printed = account.set_index("rule").loc[rule], printed_powers()
    feeders = (feeders_by_region(printed, demand, 2) for demand in (low_w, high_w))
    low, high = (counts.set_index("parts") for counts in feeders)
    table: dict[str, float | None] = dict.fromkeys(claims.ids(TABLE_1))
    return table | {
        SINGLE_SITE: float(siting.single_places),
        NEAR_WASHINGTON: float(siting.washington_nodes),
        DATACENTERS: 1.0 if siting.single_places else fewest_even_parts(printed, low_w),
        NORTHWEST_HALF: int(low.loc[2, "northwest"]),
        VIABLE_AUTHORITIES: len(set(low.loc[1, "authorities"]) & set(high.loc[1, "authorities"])),
    }


def siting_readings(
    ours: Mapping[str, float | None], high_w: float, rule: str, account: pd.DataFrame, real: pd.DataFrame
) -> dict[str, str]:
    """Claims whose verdict turns on a reading of the text or on the grid, with what the others give.

    Parameters
    ----------
    ours
        `siting_values`.
    high_w, rule, account
        As in `siting_values`.
    real
        `real_account`.

    Returns
    -------
    Texts by claim, for `claims.record`.
    """
    siting, stored = account.set_index("rule").loc[rule], real[real["rule"] == rule]
    circles = "circles around any point"
    others = {circles: {NEAR_WASHINGTON: float(siting.washington_places)}}
    for _, row in stored.iterrows():
        others[f"on plants of {row.plants}"] = {NEAR_WASHINGTON: float(row.washington_places)}
    highest = siting_values(high_w, high_w, rule, account)
    return verdict_readings(
        ours,
        {
            "power nodes, by the kinder of two ways": others,
            "the lowest PUE": {"the highest": {key: highest[key] for key in (DATACENTERS, NORTHWEST_HALF)}},
            "a single place is one point with its circle": {"PJM, which has it all by Table 1": {DATACENTERS: 1.0}},
        },
    )


def _washington_nodes(account_row: pd.Series) -> dict[str, float]:
    """Power nodes near Washington that have the demand, by the way of grouping: of a row of `siting_account`."""
    counts = account_row.filter(like=_NODE_COLUMN)
    return {name.removeprefix(_NODE_COLUMN).replace("_", " "): float(count) for name, count in counts.items()}


def hours_words(authority: str) -> str:
    """What single hours at hand say of an authority's disposable power D = max G - max L, "" where there are none.

    In the hour of the largest demand L, G - L is at most D: max G is no less than G then. As reported both may be one
    spike. Hours: data/measured/authority_hours.csv.
    """
    hours, peaks = pd.read_csv(files.data("measured/authority_hours.csv")), authority_row(authority)
    hours, texts = hours[hours["authority"] == authority], []
    for kind, words in (("raw", "with a spike in both"), ("clean", "without spikes")):
        at = np.isclose(hours[f"demand_{kind}_mw"] * units.MW, peaks[f"peak_demand_{kind}_w"], rtol=1e-9, atol=0)
        for row in hours[at].itertuples():
            left_w = (row.net_generation_mw - getattr(row, f"demand_{kind}_mw")) * units.MW
            texts.append(f"{words} at least {units.show(left_w, 'W', 4)}")
    return f"; by the hour of largest demand it is {', '.join(texts)}" if texts else ""


def siting_reasons(rule: str, account: pd.DataFrame, table: pd.DataFrame, real: pd.DataFrame) -> dict[str, str]:
    """Why a claim comes out as it does.

    Parameters
    ----------
    rule, account
        As in `siting_values`.
    table
        Of `siting_sensitivity`, for one oil.
    real
        `real_account`.

    Returns
    -------
    Texts by claim.
    """
    country = table[(table["region"] == "whole country") & (table["rule"] == rule)].sort_values("radius_m")
    wider = [
        f"{'' if row.exact else 'at least '}{row.places} within {row.radius_m / units.km:g} km"
        for row in country.iloc[1:2].itertuples()
    ]
    on_real = counts_on_real(real, rule)
    west = account.set_index("rule").loc[rule, "western_candidates"]
    nodes, known = (
        {} if rows.empty else _washington_nodes(rows.set_index("rule").loc[rule]) for rows in (account, real)
    )
    by_way = [
        f"{count:g} by {way}" + (f" (real plants {known[way]:g})" if way in known else "")
        for way, count in nodes.items()
    ]
    places = zip(account["rule"], account["single_places"], strict=True)
    single = ", ".join(f"{name} {count}" for name, count in places if name != rule)
    result = {
        SINGLE_SITE: f"by the other rules {single}"
        + "".join(f"; by this rule {text}" for text in wider)
        + on_real["single_places"].replace(" (", "; ").removesuffix(")"),
        NEAR_WASHINGTON: f"nodes: {', '.join(by_way)}",
        DATACENTERS: "the least even parts that an eastern and a Northwest authority of Table 1 feed",
        NORTHWEST_HALF: "arithmetic on Table 1; on the grid, candidates near the intertie's northern end with a half, "
        f"by the rule {rule!r}: {west:g}{on_real['western_candidates']}",
    }
    for row in demand_side(printed_powers()).itertuples():
        result[f"{TABLE_1}.{row.authority.lower()}"] = (
            f"no hourly generation of the two years is at hand{hours_words(row.authority)}; "
            f"at the largest demand the printed value means {units.show(row.implied_generation_clean_w, 'W', 4)} of "
            f"generation, {row.implied_over_capacity:.0%} of the capacity of May 2023, "
            f"{units.show(row.implied_generation_raw_w, 'W', 4)} with raw demand"
        )
    return result


def siting_entries(
    low_w: float, high_w: float, rule: str, account: pd.DataFrame, table: pd.DataFrame, real: pd.DataFrame
) -> Entries:
    """Values, reasons and readings of the claims.

    Parameters
    ----------
    low_w, high_w, rule, account
        As in `siting_values`.
    table, real
        As in `siting_reasons`.

    Returns
    -------
    For `claims.record`.
    """
    ours = siting_values(low_w, high_w, rule, account)
    return Entries(ours, siting_reasons(rule, account, table, real), siting_readings(ours, high_w, rule, account, real))


def that_have(count: float, noun: str, where: str = "", exact: bool = True) -> str:
    """Subject and verb of a sentence: "no place has", "1 place has", "3 places have".

    Parameters
    ----------
    count, noun
        How many of what.
    where
        Words between subject and verb.
    exact
        Whether the count is exact, or the least that there are.

    Returns
    -------
    The words.
    """
    words = f"{units.number(count)} {noun}s{where} have" if count > 1 else f"{'1' if count else 'no'} {noun}{where} has"
    return words if exact else f"at least {words}"


def places_or_why(
    grid: PowerGrid, demand_w: float, radius_m: float, rule: str, survey: Survey
) -> tuple[FoundPlaces | None, str]:
    """Places that have a demand alone, and "", or None and why there are none.

    Parameters
    ----------
    grid, demand_w, radius_m, rule, survey
        As in `find_places`.

    Returns
    -------
    (`FoundPlaces`, "") or (None, a sentence).
    """
    try:
        return find_places(grid, demand_w, radius_m, rule, survey=survey), ""
    except NoPlaces as error:
        return None, str(error).partition("; lower")[0]


def places_words(found: FoundPlaces | None, problem: str, radius: str) -> str:
    """How many places feed a demand alone from plants within a radius, and where most is; or why none does. A clause.

    found, problem: as `places_or_why` gives them. radius: in words.
    """
    if found is None:
        return f"{problem}, within {radius} of a point"
    first, count = found.places.iloc[0], len(found.places)
    many = f"at least {units.counted(count, 'places')}" if count > 1 else "one place"
    each = f"{units.show(found.demand_w, 'W', 3)}{' each' * (count > 1)} from plants within {radius}"
    return f"{many} could feed {each}, by our rule; most is free near {first['name']} ({first['authority']})"


def training_words(sited: pd.DataFrame, racks: int, wan: str) -> str:
    """How much several places slow the training of each model, and which ones the racks cannot hold.

    Parameters
    ----------
    sited
        Of `multisite.training_by_siting`.
    racks, wan
        That train, and wide-area capacity of a GPU, as words have it.

    Returns
    -------
    Sentences, "" where no siting has several places and one place holds every model.
    """
    slower: list[str] = []
    few: dict[str, list[str]] = {"more than one place": [], "even one place": []}
    for model, rows in sited.groupby("model"):
        fit, asked = rows[rows["slowdown"].notna()], rows["datacenters"].max()
        most = fit["datacenters"].max() if len(fit) else 0
        if most > 1:
            share = fit.loc[fit["datacenters"] > 1, "slowdown"].max() - 1
            up_to = f", up to {most} places" if most < asked else ""
            slower.append(f"{share:{'.1%' if share < 1 else ',.0%'}} ({model}{up_to})")
        elif most < asked:
            few["more than one place" if most else "even one place"].append(model)
    sentences = [f"Several places slow training by at most {' and '.join(slower)}, at {wan} of wide area a GPU."]
    cannot = f"With each layer on racks of its own, as the document has it, {units.counted(racks, 'racks')} cannot hold"
    not_held = [f"{' and '.join(them)} in {where}" for where, them in few.items() if them]
    return " ".join(sentences * bool(slower) + [f"{cannot} {', and not '.join(not_held)}."] * bool(not_held))
