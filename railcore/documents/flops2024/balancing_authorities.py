"""Balancing authorities: disposable power from hourly series, what printed values imply, and which feed a datacenter.

Disposable power D = max G - max L over a window, with net generation G and demand L [W]; flops2024, section 2, Table 1.
The hourly generation behind the paper's table is not at hand: without it only L, the capacity C and the bound
D <= C - max L can be given, as far as an authority generates no more than the net summer capacity of the plants that
are counted as its own.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from railcore.facts import catalog, files, units
from railcore.systems.siting.eia import headers
from railcore.systems.siting.eia.screening import cleaned

if TYPE_CHECKING:
    import pandas as pd

MOST_PARTS = 12
CLEANED = ("screened", "clean", "adjusted")  # by our rule, by the publisher of a file, by EIA


def table() -> "pd.DataFrame":
    """The 54 balancing authorities that serve load: name, region of EIA-930, interconnect, peaks, capacity and bound.

    Columns authority, name, region, interconnect, peak_demand_raw_w and peak_demand_clean_w (largest hourly demand in
    the window, as reported and without spikes), capacity_w (net summer), bound_w = capacity_w - peak_demand_clean_w,
    bound_rank (1 is largest), window, capacity_as_of. NaN where an authority reported no demand.
    Source: data/grid/balancing_authorities.csv and authorities.csv.
    """
    return _table().copy()


@cache
def _table() -> "pd.DataFrame":
    import pandas as pd

    read = pd.read_csv(files.data("grid/balancing_authorities.csv"), keep_default_na=False, na_values=[""])
    about = pd.DataFrame.from_dict(headers.authorities(), orient="index")
    peaks = {f"peak_demand_{kind}_w": read[f"max_demand_{kind}_mw"] * units.MW for kind in ("raw", "clean")}
    result = (
        read[["ba"]]
        .rename(columns={"ba": "authority"})
        .join(about[["name", "region", "interconnect"]], on="authority")
        .assign(**{name: peak.where(peak > 0) for name, peak in peaks.items()})
        .assign(capacity_w=read["net_summer_capacity_mw"] * units.MW)
    )
    result["bound_w"] = result["capacity_w"] - result["peak_demand_clean_w"]
    result["bound_rank"] = result["bound_w"].rank(ascending=False, method="min").astype("Int64")
    return result.assign(window=read["window"], capacity_as_of=read["capacity_as_of"].astype(str))


def authority(code: str) -> "pd.Series":
    """The row of `table` of one authority. Raises UnknownName listing the nearest codes."""
    rows = _table().set_index("authority", drop=False)
    if code not in rows.index:
        raise catalog.UnknownName("balancing authority", code, list(rows.index))
    return rows.loc[code]


def caps(codes: Iterable[str]) -> dict[str, float]:
    """Bound C - max L on the disposable power of authorities [W], at least 0: for `split`'s authority_caps.

    codes: such as `split.Options.authority`. Authorities without known demand, such as those that have plants alone,
    have no cap and are left out, and so is "". Raises UnknownName for an unknown code.
    """
    asked = sorted({str(code) for code in codes})
    headers.known(asked, "codes")
    bounds = _table().set_index("authority")["bound_w"].dropna()
    return {code: max(float(bounds[code]), 0.0) for code in asked if code in bounds}


def printed_regions() -> dict[str, str]:
    """Region of each authority of the paper's Table 1, in its order, from the catalog's family authorities."""
    return {code: catalog.item("authorities", code)["region"] for code in catalog.names("authorities")}


def disposable_power(
    series: "pd.DataFrame", start: str = "", end: str = "", clean: str = "screened", **rule: float
) -> "pd.DataFrame":
    """Disposable power of each authority over a window, as reported and without spikes, largest clean value first.

    D = max G - max L [W], the two maxima each in its own hour. series: as `eia.balance` or `eia.hourly` give it;
    generation and demand may be on different rows (pandas.concat). start, end: dates such as "2022-10-08"; the hours
    that lie between the two midnights (UTC), by default all.
    clean: "screened" removes spikes by `eia.cleaned` with `rule`; "clean" and "adjusted" take the publisher's columns,
    and generation by our rule where the publisher cleans demand alone.
    Columns authority; for kind raw and clean generation_<kind>_w, generation_<kind>_at, demand_<kind>_w,
    demand_<kind>_at, disposable_<kind>_w; generation_spikes, demand_spikes: hours in the window that `eia.cleaned`
    removes. NaN where there are no values.
    Source: flops2024, section 2 and Table 1 (no equation number). Raises ValueError for missing columns, an unknown
    kind of cleaning and a window without hours.
    """
    import pandas as pd

    if clean not in CLEANED:
        raise ValueError(f"clean is {clean!r}: give one of {', '.join(CLEANED)}")
    _has(series, "demand_w", "net_generation_w", *([] if clean == CLEANED[0] else [f"demand_{clean}_w"]))
    kept = _between(cleaned(series, **rule), start, end).astype({"authority": str})
    kept = kept.sort_values("hour_utc", kind="stable", ignore_index=True)
    published = f"net_generation_{clean}_w"
    of = {
        "generation_raw": "net_generation_w",
        "generation_clean": published if published in kept else f"net_generation_{CLEANED[0]}_w",
        "demand_raw": "demand_w",
        "demand_clean": f"demand_{clean}_w",
    }
    by = kept.groupby("authority")
    result = pd.DataFrame(index=pd.Index(sorted(by.groups), name="authority"))
    for name, column in of.items():
        given = kept[kept[column].notna()]
        rows = given.loc[given.groupby("authority")[column].idxmax()].set_index("authority")
        result[f"{name}_w"], result[f"{name}_at"] = rows[column], rows["hour_utc"]
    for kind in ("raw", "clean"):
        result[f"disposable_{kind}_w"] = result[f"generation_{kind}_w"] - result[f"demand_{kind}_w"]
    result["generation_spikes"] = by["net_generation_spike"].sum()
    result["demand_spikes"] = by["demand_spike"].sum()
    order = result.reset_index().sort_values(["disposable_clean_w", "authority"], ascending=[False, True])
    return order.reset_index(drop=True)


def _has(series: "pd.DataFrame", *names: str) -> None:
    if missing := [name for name in names if name not in series]:
        raise ValueError(
            f"series has no column {missing[0]!r}: disposable power needs demand_w and net_generation_w; "
            "join a file of each with pandas.concat"
        )


def _between(series: "pd.DataFrame", start: str, end: str) -> "pd.DataFrame":
    """Rows whose hour (which ends at hour_utc) lies after start and not after end."""
    import pandas as pd

    mask = np.ones(len(series), bool)
    for name, text, after in (("start", start, True), ("end", end, False)):
        if not text:
            continue
        when = pd.to_datetime(text, errors="coerce")
        if pd.isna(when) or when.tzinfo:
            raise ValueError(f"{name} is {text!r}: give a date such as 2022-10-08, without a zone")
        mask &= (series["hour_utc"] > when) == after
    if not mask.any():
        span = f"{series['hour_utc'].min()} to {series['hour_utc'].max()}" if len(series) else "nothing"
        raise ValueError(f"start {start!r} and end {end!r} leave no hour of {span}: give a window inside it")
    return series[mask]


def demand_side(printed_w: Mapping[str, float]) -> "pd.DataFrame":
    """What printed disposable powers imply beside the demand and the capacity that are known, in the order printed.

    Implied generation max G = D + max L, with max L as reported and without spikes; possible where it is at most the
    net summer capacity C, None where no demand is reported. printed_w: D by authority [W].
    Columns authority, region (as the paper prints it), printed_w, and for kind raw and clean peak_demand_<kind>_w,
    implied_generation_<kind>_w, possible_<kind>; capacity_w, implied_over_capacity (clean), bound_w = C - max L (clean)
    and bound_rank among the 54. A peak that is a spike makes an implied generation that is impossible; one that
    is impossible without spikes says that the printed value rests on another spike, in generation.
    Raises UnknownName for an unknown code, ValueError for a printed value that is not finite.
    """
    import pandas as pd

    regions, rows = printed_regions(), []
    for code, printed in printed_w.items():
        row = authority(code)
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


def above(printed_w: Mapping[str, float]) -> "pd.DataFrame":
    """Authorities that the paper does not print, but whose bound C - max L exceeds the least of its printed values.

    Columns as `table`, largest bound first. That they exceed it does not say that their disposable power does: a bound
    only. Raises ValueError for no printed value, UnknownName for an unknown code.
    """
    if not printed_w:
        raise ValueError("printed_w is empty: give disposable power by authority in watts")
    for code in printed_w:
        authority(code)
    rows = table()
    chosen = ~rows["authority"].isin(printed_w) & (rows["bound_w"] > min(printed_w.values()))
    return rows[chosen].sort_values("bound_w", ascending=False, ignore_index=True)


def suffices(printed_w: Mapping[str, float], demand_w: float, most: int = 4) -> "pd.DataFrame":
    """Which authorities feed each of k even parts of a demand, for k = 1 .. most: D >= demand / k.

    printed_w: disposable power D by authority [W]. Columns parts k, part_w, authorities (a tuple), count, room = sum of
    floor(D / part) parts that they feed together, feasible (room >= k), east and northwest: how many of the authorities
    lie in the Eastern interconnection and in the paper's Northwest (its printed region).
    k = 1 says who feeds the demand alone, k = 2 who feeds a half. Source: flops2024, section 2, arithmetic on Table 1.
    Raises UnknownName for an unknown code, ValueError for a demand that is not above 0 and for most outside 1 to 12.
    """
    import pandas as pd

    if not demand_w > 0 or not np.isfinite(demand_w):
        raise ValueError(f"demand_w is {demand_w!r}: give watts above 0")
    if not 1 <= most <= MOST_PARTS:
        raise ValueError(f"most is {most!r}: give 1 to {MOST_PARTS} parts")
    printed = printed_regions()
    about = {code: authority(code) for code in printed_w}
    region = {code: printed.get(code, row["region"]) for code, row in about.items()}
    rows = []
    for k in range(1, most + 1):
        part = demand_w / k
        enough = tuple(code for code, power in printed_w.items() if power >= part)
        room = sum(int(printed_w[code] // part) for code in enough)
        east = sum(about[code]["interconnect"] == "Eastern" for code in enough)
        north_west = sum(region[code] == "Northwest" for code in enough)
        entry = {"parts": k, "part_w": part, "authorities": enough, "count": len(enough), "room": room}
        rows.append(entry | {"feasible": room >= k, "east": east, "northwest": north_west})
    return pd.DataFrame(rows)


def least_split(printed_w: Mapping[str, float], demand_w: float, most: int = MOST_PARTS) -> float:
    """Least number k >= 2 of even parts that an eastern and a northwestern authority each can feed, all k at once.

    The least k of `suffices` with an Eastern and a Northwest authority and room for all parts: the datacenters of
    the paper's split. NaN where no k up to `most` does.
    """
    found = suffices(printed_w, demand_w, most)
    good = found[(found["parts"] > 1) & found["feasible"] & (found["east"] > 0) & (found["northwest"] > 0)]
    return float(good["parts"].min())
