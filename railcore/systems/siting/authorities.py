"""Balancing authorities: demand, capacity, disposable power from hourly series, and who feeds parts of a demand.

Disposable power D = max G - max L over a window, with net generation G and demand L [W]. Where the hourly generation of
a window is not at hand, only L, the capacity C and the bound D <= C - max L can be given; the bound holds as far as an
authority generates no more than the net summer capacity of the plants that are counted as its own.
Source: flops2024, section 2 and Table 1 (no equation number).
"""

from collections.abc import Iterable, Mapping
from functools import cache

import numpy as np
import pandas as pd

from railcore.facts import catalog, checks, files, units
from railcore.systems.siting.eia import headers
from railcore.systems.siting.eia.screening import screened

MOST_PARTS = 12
CLEANED = ("screened", "clean", "adjusted")  # by our rule, by the publisher of a file, by EIA


@cache
def authority_table() -> pd.DataFrame:
    """The 54 balancing authorities that serve load: name, region of EIA-930, interconnect, peaks, capacity and bound.

    Columns authority, name, region, interconnect, peak_demand_raw_w and peak_demand_clean_w (largest hourly demand in
    the window, as reported and without spikes), capacity_w (net summer), bound_w = capacity_w - peak_demand_clean_w,
    bound_rank (1 is largest), window, capacity_as_of. NaN where an authority reported no demand.
    Source: data/grid/balancing_authorities.csv and authorities.csv.
    """
    read = pd.read_csv(files.data("grid/balancing_authorities.csv"), keep_default_na=False, na_values=[""])
    about = pd.DataFrame.from_dict(headers.authority_codes(), orient="index")
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


def authority(code: str) -> pd.Series:
    """The row of `authority_table` of one authority. Raises UnknownName listing the nearest codes."""
    rows = authority_table().set_index("authority", drop=False)
    if code not in rows.index:
        raise catalog.UnknownName("balancing authority", code, list(rows.index))
    return rows.loc[code]


def authority_caps(codes: Iterable[str]) -> dict[str, float]:
    """Bound C - max L on the disposable power of authorities [W], at least 0: for `split`'s authority_caps.

    codes: such as `SiteOptions.authority`. Authorities without known demand, such as those that have plants alone,
    have no cap and are left out, and so is "". Raises UnknownName for an unknown code.
    """
    asked = sorted({str(code) for code in codes})
    headers.check_authorities(asked, "codes")
    bounds = authority_table().set_index("authority")["bound_w"].dropna()
    return {code: max(float(bounds[code]), 0.0) for code in asked if code in bounds}


def disposable_power(
    series: pd.DataFrame, start: str = "", end: str = "", clean: str = "screened", **rule: float
) -> pd.DataFrame:
    """Disposable power of each authority over a window, as reported and without spikes, largest clean value first.

    D = max G - max L [W], the two maxima each in its own hour.

    Parameters
    ----------
    series
        As `eia.balance_series` or `eia.parquet_series` gives it; generation and demand may be on different rows
        (pandas.concat).
    start, end
        Dates such as "2022-10-08": hours between the two midnights (UTC), by default all.
    clean
        "screened" removes spikes by `eia.screened`; "clean" and "adjusted" take the publisher's columns, and generation
        by our rule where the publisher cleans demand alone.
    rule
        Parameters of `eia.expected_hours`.

    Returns
    -------
    Columns authority; for kind raw and clean generation_<kind>_w, generation_<kind>_at, demand_<kind>_w,
    demand_<kind>_at, disposable_<kind>_w; generation_spikes, demand_spikes: hours in the window that `eia.screened`
    removes. NaN where there are no values.

    Raises
    ------
    ValueError for missing columns, an unknown kind of cleaning and a window without hours.
    """
    checks.one_of("clean", clean, CLEANED)
    _has(series, "demand_w", "net_generation_w", *([] if clean == CLEANED[0] else [f"demand_{clean}_w"]))
    kept = _between(screened(series, **rule), start, end).astype({"authority": str})
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


def _has(series: pd.DataFrame, *names: str) -> None:
    if missing := [name for name in names if name not in series]:
        raise ValueError(
            f"series has no column {missing[0]!r}: disposable power needs demand_w and net_generation_w; "
            "join a file of each with pandas.concat"
        )


def _between(series: pd.DataFrame, start: str, end: str) -> pd.DataFrame:
    """Rows whose hour (which ends at hour_utc) lies after start and not after end."""
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


def feeders_of_parts(disposable_w: Mapping[str, float], demand_w: float, most: int = 4) -> pd.DataFrame:
    """Which authorities feed each of k even parts of a demand, for k = 1 .. most: D >= demand / k.

    disposable_w: D by authority [W]. Columns parts k, part_w, authorities (a tuple), count, room = sum of
    floor(D / part) parts that they feed together, feasible (room >= k). k = 1 says who feeds the demand alone.
    Raises UnknownName for an unknown code, ValueError for a demand that is not above 0 and for most outside 1 to 12.
    """
    checks.positive("demand_w", demand_w, "watts")
    checks.whole("most", most, 1, MOST_PARTS)
    for code in disposable_w:
        authority(code)
    rows = []
    for k in range(1, most + 1):
        part = demand_w / k
        enough = tuple(code for code, power in disposable_w.items() if power >= part)
        room = sum(int(disposable_w[code] // part) for code in enough)
        row = {"parts": k, "part_w": part, "authorities": enough, "count": len(enough), "room": room}
        rows.append(row | {"feasible": room >= k})
    return pd.DataFrame(rows)
