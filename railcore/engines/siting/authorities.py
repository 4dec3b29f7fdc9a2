"""Balancing authorities: demand, capacity, disposable power from hourly series, and who feeds parts of a demand.

Disposable power D = max G - max L over a window, with net generation G and demand L [W]. Where the hourly generation of
a window is not at hand, only L, the capacity C and the bound D <= C - max L can be given; the bound holds as far as an
authority generates no more than the net summer capacity of the plants that are counted as its own.
Source: flops2024, section 2 and Table 1 (no equation number).
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from railcore.engines.siting import eia
from railcore.facts import catalog, checks, files, units

MAX_PARTS = 12
_TOTALS = ("demand", "net_generation")
_SIGMA_PER_MAD = 1.4826  # of a normal distribution over its median absolute deviation
_HOUR = np.timedelta64(1, "h")
_CLEANINGS = ("screened", "clean", "adjusted")  # by our rule, by the publisher of a file, by EIA


@cache
def authority_table() -> pd.DataFrame:
    """The 54 balancing authorities that serve load: name, region of EIA-930, interconnect, peaks, capacity and bound.

    Columns authority, name, region, interconnect, peak_demand_raw_w and peak_demand_clean_w (largest hourly demand in
    the window, as reported and without spikes), capacity_w (net summer), bound_w = capacity_w - peak_demand_clean_w,
    bound_rank (1 is largest), window, capacity_as_of. NaN where an authority reported no demand.
    Source: data/grid/balancing_authorities.csv and authorities.csv.
    """
    read = pd.read_csv(files.data("grid/balancing_authorities.csv"), keep_default_na=False, na_values=[""])
    about = pd.DataFrame.from_dict(eia.authority_codes(), orient="index")
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


@cache
def authority_row(code: str) -> pd.Series:
    """The row of `authority_table` of one authority. Raises UnknownName listing the nearest codes."""
    rows = authority_table().set_index("authority", drop=False)
    if code not in rows.index:
        raise catalog.UnknownName("balancing authority", code, list(rows.index))
    return rows.loc[code]


def authority_caps(codes: Iterable[str]) -> dict[str, float]:
    """Bound C - max L on the disposable power of authorities [W], at least 0: for `best_split`'s authority_caps.

    codes: such as `SiteOptions.authority`. Authorities without known demand, such as those that have plants alone,
    have no cap and are left out, and so is "". Raises UnknownName for an unknown code.
    """
    asked = sorted({str(code) for code in codes})
    eia.check_authorities(asked, "codes")
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
        As `eia.balance_series` gives it; generation and demand may be on different rows (pandas.concat).
    start, end
        Dates such as "2022-10-08": hours between the two midnights (UTC), by default all.
    clean
        "screened" removes spikes by `screen_spikes`. "clean" and "adjusted" take the publisher's columns, and remove
        spikes of generation by our rule where the publisher cleans demand alone.
    rule
        Parameters of `expected_values`.

    Returns
    -------
    Columns authority; for kind raw and clean generation_<kind>_w, generation_<kind>_at, demand_<kind>_w,
    demand_<kind>_at, disposable_<kind>_w; generation_spikes, demand_spikes: hours in the window that `screen_spikes`
    removes. NaN where there are no values.

    Raises
    ------
    ValueError
        For missing columns, an unknown kind of cleaning and a window without hours.
    """
    checks.one_of("clean", clean, _CLEANINGS)
    _known_columns(series, ("demand_w", "net_generation_w", *([] if clean == "screened" else [f"demand_{clean}_w"])))
    kept = _between(screen_spikes(series, **rule), start, end).astype({"authority": str})
    kept = kept.sort_values("hour_utc", kind="stable", ignore_index=True)
    published = f"net_generation_{clean}_w"
    of = {
        "generation_raw": "net_generation_w",
        "generation_clean": published if published in kept else "net_generation_screened_w",
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
        span = f"{series['hour_utc'].min()} to {series['hour_utc'].max()}"
        raise ValueError(f"start {start!r} and end {end!r} leave no hour of {span}: give a window inside it")
    return series[mask]


def feeders_of_parts(disposable_w: Mapping[str, float], demand_w: float, most: int = 4) -> pd.DataFrame:
    """Which authorities feed each of k even parts of a demand, for k = 1 .. most: D >= demand / k.

    disposable_w: D by authority [W]. Columns parts k, part_w, authorities (a tuple), count, room = sum of
    floor(D / part) parts that they feed together, feasible (room >= k). k = 1 says who feeds the demand alone.
    Raises UnknownName for an unknown code, ValueError for a demand that is not above 0 and for most outside 1 to 12.
    """
    checks.positive("demand_w", demand_w, "watts")
    checks.whole("most", most, 1, MAX_PARTS)
    for code in disposable_w:
        authority_row(code)
    rows = []
    for k in range(1, most + 1):
        part = demand_w / k
        enough = tuple(code for code, power in disposable_w.items() if power >= part)
        room = sum(int(disposable_w[code] // part) for code in enough)
        row = {"parts": k, "part_w": part, "authorities": enough, "count": len(enough), "room": room}
        rows.append(row | {"feasible": room >= k})
    return pd.DataFrame(rows)


def expected_values(
    values: np.ndarray,
    spreads: float = 8.0,
    floor: float = 0.25,
    level_hours: int = 24,
    profile_days: int = 7,
    spread_hours: int = 168,
) -> tuple[np.ndarray, np.ndarray]:
    """What each hour of consecutive hourly values should be, and how far it may be off.

    m = median of x over t -+ level_hours, h = median of x / m over the same hour of day of t -+ profile_days,
    e = m h; s = 1.4826 times the median of |x - e| over t -+ spread_hours, limit = max(spreads s, floor |m|).
    The rule and its numbers are ours: an hour must be both far outside the usual scatter and a large part of the level.

    Parameters
    ----------
    values
        x, shape (hours,); NaN is missing and bridged by a straight line. At both ends the series is
        mirrored.
    spreads, floor
        Factors of s and of |m| in the limit.
    level_hours, profile_days, spread_hours
        Reach of the medians to either side [hours, days, hours].

    Returns
    -------
    e and limit, in the shape of values.

    Raises
    ------
    ValueError
        For numbers that are not above 0.
    """
    checks.positive("spreads", spreads)
    checks.positive("floor", floor)
    for name, reach in (("level_hours", level_hours), ("profile_days", profile_days), ("spread_hours", spread_hours)):
        checks.whole(name, reach)
    x = _bridged(np.asarray(values, float))
    m = _median(x, level_hours)
    part = np.divide(x, m, out=np.ones_like(x), where=m != 0)
    days = np.pad(part, (0, -len(x) % 24), constant_values=1.0).reshape(-1, 24)
    h = np.stack([_median(column, profile_days) for column in days.T], axis=1).ravel()[: len(x)]
    e = m * h
    s = _SIGMA_PER_MAD * _median(np.abs(x - e), spread_hours)
    return e, np.maximum(spreads * s, floor * np.abs(m))


def _bridged(values: np.ndarray) -> np.ndarray:
    good = np.flatnonzero(np.isfinite(values))
    return np.interp(np.arange(len(values)), good, values[good]) if len(good) else np.zeros(len(values))


def _median(values: np.ndarray, reach: int) -> np.ndarray:
    """Median over the `reach` values on either side and the value itself."""
    from scipy.ndimage import median_filter

    return median_filter(np.ascontiguousarray(values), 2 * reach + 1, mode="mirror")


def _flags(series: pd.DataFrame, column: str, **rule: Any) -> np.ndarray:
    """True where a row of a long series is a reporting spike: |x - e| > limit, with e and limit of `expected_values`.

    Absent hours are missing; all rows of a repeated hour are judged; NaN is no spike. An error that lasts longer than
    level_hours moves the level with it and is not found.
    """
    category = series["authority"].astype("category").cat
    code, hours = category.codes.to_numpy(), series["hour_utc"].to_numpy("datetime64[h]")
    at = ((hours - hours.min()) / _HOUR).astype(int)
    values = series[column].to_numpy(float)
    there = np.flatnonzero(np.isfinite(values))
    matrix = np.full((len(category.categories), at.max() + 1), np.nan)
    matrix[code[there], at[there]] = values[there]
    e, limit = np.stack([expected_values(row, **rule) for row in matrix], axis=1)
    off = np.abs(np.where(np.isfinite(values), values, np.inf) - e[code, at])
    return np.isfinite(values) & (off > limit[code, at])


def _known_columns(series: pd.DataFrame, names: tuple[str, ...]) -> None:
    if missing := [name for name in names if name not in series]:
        raise ValueError(
            f"series has no column {missing[0]!r}; it has {', '.join(series)}: join files with pandas.concat"
        )
    if not len(series):
        raise ValueError("series has no rows: give one or more hours")


def screen_spikes(series: pd.DataFrame, **rule: Any) -> pd.DataFrame:
    """The series with demand_spike (True or False) and demand_screened_w (NaN at a spike), and so for net_generation.

    rule: parameters of `expected_values`. The screened columns are ours; demand_clean_w and demand_adjusted_w are the
    publisher's, where a file has them. Raises ValueError for a series without authority, hour_utc and either total.
    """
    present = [name for name in _TOTALS if f"{name}_w" in series]
    _known_columns(series, ("authority", "hour_utc", *(() if present else ("demand_w",))))
    added = {}
    for name in present:
        added[f"{name}_spike"] = _flags(series, f"{name}_w", **rule)
        added[f"{name}_screened_w"] = series[f"{name}_w"].where(~added[f"{name}_spike"])
    return series.assign(**added)


def data_quality(series: pd.DataFrame, column: str = "demand_w", **rule: Any) -> pd.DataFrame:
    """What a column of a long series lacks, one row for each authority.

    Columns authority; hours with a value; first, last: hour in the series; missing: hours between them that are absent
    or blank; duplicated: rows with a value beyond the first of an hour; differing: hours whose rows disagree; spikes:
    rows that `screen_spikes` marks. rule: parameters of `expected_values`. Raises ValueError for an unknown column.
    """
    _known_columns(series, ("authority", "hour_utc", column))
    keys = ["authority", "hour_utc"]
    table = series[keys].assign(value=series[column], spike=_flags(series, column, **rule))
    each = table.groupby(keys, observed=True)["value"].agg(["count", "min", "max"])
    each["hours"] = each["count"] > 0
    each["duplicated"] = each["count"] - each["hours"]
    each["differing"] = each["min"] < each["max"]
    spans = {"first": ("hour_utc", "min"), "last": ("hour_utc", "max"), "spikes": ("spike", "sum")}
    counts = each[["hours", "duplicated", "differing"]].groupby("authority", observed=True).sum()
    result = table.groupby("authority", observed=True).agg(**spans).join(counts)
    result["missing"] = ((result["last"] - result["first"]) / _HOUR).astype(int) + 1 - result["hours"]
    columns = ["authority", "hours", "first", "last", "missing", "duplicated", "differing", "spikes"]
    return result.reset_index().astype({"authority": str})[columns]
