"""Table 1 of flops2024: disposable power of four balancing authorities, what it implies, and whom it feeds."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from railcore.facts import catalog, claims, units
from railcore.systems.siting.authorities import MAX_PARTS, authority_row, authority_table, feeders_of_parts

TABLE_1 = "flops2024.table1"


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
    Columns authority, region (as the paper prints it), printed_w, and for kind raw and clean peak_demand_<kind>_w,
    implied_generation_<kind>_w, possible_<kind>; capacity_w, implied_over_capacity (clean), bound_w = C - max L (clean)
    and bound_rank among the 54. A peak that is a spike makes an implied generation that is impossible; one that
    is impossible without spikes says that the printed value rests on another spike, in generation.
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
