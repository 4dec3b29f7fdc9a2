"""Balancing authorities: demand, capacity and what that leaves at most, disposable power from hourly series.

Disposable power D = max G - max L over a window, with net generation G and demand L [W]. Where the hourly generation of
a window is not at hand, only L, the capacity C and the bound D <= C - max L can be given; the bound holds as far as an
authority generates no more than the net summer capacity of the plants that are counted as its own.
Source: flops2024, section 2 and Table 1 (no equation number).
"""

from functools import cache

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog import files, units
from railcore.siting import eia

_TOTALS = ("demand", "net_generation")
_SIGMA_PER_MAD = 1.4826  # of a normal distribution over its median absolute deviation
_LEAST_SPREADS, _LEAST_SHARE = 8.0, 0.25  # of the usual scatter, and of the level, that a spike is off
_DAY = 24  # hours
_HOUR = np.timedelta64(1, "h")


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


def authority_caps(series: pd.DataFrame | None = None) -> dict[str, float]:
    """Bound on the power that each authority has to spare [W] by code, at least 0: for `PowerGrid.authority_caps`.

    C - max L of `authority_table`: capacity less largest demand. series: hours, as `balance_series` gives them; an
    authority with both demand and generation there is bounded by max G - max L of `disposable_power` without spikes.
    Authorities without known demand, such as those that have plants alone, have no bound and are left out.
    """
    bounds = authority_table().set_index("authority")["bound_w"].dropna()
    if series is not None:
        by_hours = disposable_power(series).set_index("authority")["disposable_clean_w"].dropna()
        bounds = by_hours.combine_first(bounds)
    return bounds.clip(lower=0.0).to_dict()


def bound_words(of_hours: bool = False) -> str:
    """What `authority_caps` are, in words. of_hours: where they are a grid's own."""
    if of_hours:
        return "the bounds of authorities that the grid was given, such as generation less demand of its hours"
    first, last = authority_table()["window"].iloc[0].split("/")
    as_of = authority_table()["capacity_as_of"].iloc[0]
    return f"capacity of its plants ({as_of}) less its largest hour of demand ({first} to {last})"


def disposable_power(series: pd.DataFrame) -> pd.DataFrame:
    """Disposable power of each authority, as reported and without spikes, largest clean value first.

    D = max G - max L [W], the two maxima each in its own hour. series: as `eia.balance_series` gives it; generation and
    demand may be on different rows (pandas.concat). Spikes are those of `screen_spikes`.
    Columns authority; for kind raw and clean generation_<kind>_w, demand_<kind>_w, disposable_<kind>_w;
    generation_spikes, demand_spikes: hours that are removed. NaN where there are no values.
    Raises ValueError for missing columns.
    """
    _check_columns(series, ("demand_w", "net_generation_w"))
    by = screen_spikes(series).astype({"authority": str}).groupby("authority")
    result = pd.DataFrame()
    for kind, ending in (("raw", ""), ("clean", "_screened")):
        for name, column in (("generation", "net_generation"), ("demand", "demand")):
            result[f"{name}_{kind}_w"] = by[f"{column}{ending}_w"].max()
        result[f"disposable_{kind}_w"] = result[f"generation_{kind}_w"] - result[f"demand_{kind}_w"]
    result["generation_spikes"] = by["net_generation_spike"].sum()
    result["demand_spikes"] = by["demand_spike"].sum()
    largest_first = result.reset_index().sort_values(["disposable_clean_w", "authority"], ascending=[False, True])
    return largest_first.reset_index(drop=True)


def expected_values(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What each hour of consecutive hourly values should be, and how far it may be off.

    m = median of x over a day to either side, h = median of x / m over the same hour of the week to either side,
    e = m h; s = 1.4826 times the median of |x - e| over a week to either side, limit = max(8 s, |m| / 4).
    The rule and its numbers are ours: an hour must be both far outside the usual scatter and a large part of the level.

    values: x, shape (hours,). A NaN is missing: a straight line bridges it. At both ends the series is mirrored.
    Gives e and limit, in the shape of values.
    """
    x = _bridged(np.asarray(values, float))
    m = _median(x, _DAY)
    part = np.divide(x, m, out=np.ones_like(x), where=m != 0)
    days = np.pad(part, (0, -len(x) % _DAY), constant_values=1.0).reshape(-1, _DAY)
    h = np.stack([_median(column, 7) for column in days.T], axis=1).ravel()[: len(x)]
    e = m * h
    s = _SIGMA_PER_MAD * _median(np.abs(x - e), 7 * _DAY)
    return e, np.maximum(_LEAST_SPREADS * s, _LEAST_SHARE * np.abs(m))


def _bridged(values: np.ndarray) -> np.ndarray:
    good = np.flatnonzero(np.isfinite(values))
    return np.interp(np.arange(len(values)), good, values[good]) if len(good) else np.zeros(len(values))


def _median(values: np.ndarray, reach: int) -> np.ndarray:
    """Median over the `reach` values on either side and the value itself."""
    from scipy.ndimage import median_filter

    return median_filter(np.ascontiguousarray(values), 2 * reach + 1, mode="mirror")


def _flags(series: pd.DataFrame, column: str) -> np.ndarray:
    """True where a row of a long series is a reporting spike: |x - e| > limit, with e and limit of `expected_values`.

    Absent hours count as missing, each row of a repeated hour is judged, NaN is no spike. An error that lasts longer
    than a day moves the level with it and stays.
    """
    category = series["authority"].astype("category").cat
    code, hours = category.codes.to_numpy(), series["hour_utc"].to_numpy("datetime64[h]")
    at = ((hours - hours.min()) / _HOUR).astype(int)
    values = series[column].to_numpy(float)
    there = np.flatnonzero(np.isfinite(values))
    matrix = np.full((len(category.categories), at.max() + 1), np.nan)
    matrix[code[there], at[there]] = values[there]
    e, limit = np.stack([expected_values(row) for row in matrix], axis=1)
    off = np.abs(np.where(np.isfinite(values), values, np.inf) - e[code, at])
    return np.isfinite(values) & (off > limit[code, at])


def _check_columns(series: pd.DataFrame, names: tuple[str, ...]) -> None:
    if missing := [name for name in names if name not in series]:
        raise ValueError(
            f"series has no column {missing[0]!r}; it has {', '.join(series)}: join files with pandas.concat"
        )
    if not len(series):
        raise ValueError("series has no rows: give one or more hours")


def screen_spikes(series: pd.DataFrame) -> pd.DataFrame:
    """The series with demand_spike (True or False) and demand_screened_w (NaN at a spike), and so for net_generation.

    Raises ValueError for a series without authority, hour_utc and either total.
    """
    present = [name for name in _TOTALS if f"{name}_w" in series]
    _check_columns(series, ("authority", "hour_utc", *(() if present else ("demand_w",))))
    added = {}
    for name in present:
        added[f"{name}_spike"] = _flags(series, f"{name}_w")
        added[f"{name}_screened_w"] = series[f"{name}_w"].where(~added[f"{name}_spike"])
    return series.assign(**added)


def data_quality(series: pd.DataFrame) -> pd.DataFrame:
    """What the demand of a long series lacks, one row for each authority.

    Columns authority; hours with a value; first, last: hour in the series; missing: hours between them that are absent
    or blank; duplicated: rows with a value beyond the first of an hour; differing: hours whose rows disagree; spikes:
    rows that `screen_spikes` marks. Raises ValueError for a missing column.
    """
    _check_columns(series, ("authority", "hour_utc", "demand_w"))
    keys = ["authority", "hour_utc"]
    table = series[keys].assign(value=series["demand_w"], spike=_flags(series, "demand_w"))
    hours = table.groupby(keys, observed=True)["value"].agg(["count", "min", "max"])
    hours["hours"] = hours["count"] > 0
    hours["duplicated"] = hours["count"] - hours["hours"]
    hours["differing"] = hours["min"] < hours["max"]
    spans = {"first": ("hour_utc", "min"), "last": ("hour_utc", "max"), "spikes": ("spike", "sum")}
    counts = hours[["hours", "duplicated", "differing"]].groupby("authority", observed=True).sum()
    result = table.groupby("authority", observed=True).agg(**spans).join(counts)
    result["missing"] = ((result["last"] - result["first"]) / _HOUR).astype(int) + 1 - result["hours"]
    columns = ["authority", "hours", "first", "last", "missing", "duplicated", "differing", "spikes"]
    return result.reset_index().astype({"authority": str})[columns]
