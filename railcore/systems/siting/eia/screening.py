"""Reporting errors in hourly series: spikes against a local expectation, missing and duplicated hours."""

from typing import Any

import numpy as np
import pandas as pd

from railcore.facts import checks

TOTALS = ("demand", "net_generation")
SPREAD = 1.4826  # of a normal distribution over its median absolute deviation
HOUR = np.timedelta64(1, "h")


def expected_hours(
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
        x: shape (hours,) or (series, hours); NaN is missing and bridged by a straight line. At both ends the series is
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
    ValueError for numbers that are not above 0.
    """
    checks.positive("spreads", spreads)
    checks.positive("floor", floor)
    for name, reach in (("level_hours", level_hours), ("profile_days", profile_days), ("spread_hours", spread_hours)):
        checks.whole(name, reach)
    values = np.asarray(values, float)
    if values.ndim > 1:
        each = [expected_hours(row, spreads, floor, level_hours, profile_days, spread_hours) for row in values]
        e, limit = np.stack(each, axis=1)
        return e, limit
    x = _bridged(values)
    m = _median(x, level_hours)
    part = np.divide(x, m, out=np.ones_like(x), where=m != 0)
    days = np.pad(part, (0, -len(x) % 24), constant_values=1.0).reshape(-1, 24)
    h = np.stack([_median(column, profile_days) for column in days.T], axis=1).ravel()[: len(x)]
    e = m * h
    s = SPREAD * _median(np.abs(x - e), spread_hours)
    return e, np.maximum(spreads * s, floor * np.abs(m))


def _bridged(values: np.ndarray) -> np.ndarray:
    good = np.flatnonzero(np.isfinite(values))
    return np.interp(np.arange(len(values)), good, values[good]) if len(good) else np.zeros(len(values))


def _median(values: np.ndarray, reach: int) -> np.ndarray:
    """Median over the `reach` values on either side and the value itself."""
    from scipy.ndimage import median_filter

    return median_filter(np.ascontiguousarray(values), 2 * reach + 1, mode="mirror") if len(values) else values


def spikes(values: np.ndarray, **rule: Any) -> np.ndarray:
    """True where an hour is a reporting spike: |x - e| > limit, with e, limit and parameters of `expected_hours`.

    values x: consecutive hours, shape (hours,) or (series, hours). NaN is no spike. An error that lasts longer than
    level_hours moves the level with it and is not found.
    """
    values = np.asarray(values, float)
    e, limit = expected_hours(values, **rule)
    return np.isfinite(values) & (np.abs(np.where(np.isfinite(values), values, e) - e) > limit)


def _flags(series: pd.DataFrame, column: str, **rule: Any) -> np.ndarray:
    """`spikes` of each row of a long series: absent hours are missing, all rows of a repeated hour are judged."""
    code, at, shape = _places(series)
    values = series[column].to_numpy(float)
    there = np.flatnonzero(np.isfinite(values))
    matrix = np.full(shape, np.nan)
    matrix[code[there], at[there]] = values[there]
    e, limit = expected_hours(matrix, **rule)
    off = np.abs(np.where(np.isfinite(values), values, np.inf) - e[code, at])
    return np.isfinite(values) & (off > limit[code, at])


def _places(series: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, tuple[int, int]]:
    """Row's authority and hour as indices into a matrix (authorities, hours), and its shape."""
    _known_columns(series, ("authority", "hour_utc"))
    category = series["authority"].astype("category").cat
    hours = series["hour_utc"].to_numpy("datetime64[h]")
    at = ((hours - hours.min()) / HOUR).astype(int)
    return category.codes.to_numpy(), at, (len(category.categories), int(at.max()) + 1)


def _known_columns(series: pd.DataFrame, names: tuple[str, ...]) -> None:
    if missing := [name for name in names if name not in series]:
        raise ValueError(f"series has no column {missing[0]!r}; it has {', '.join(series)}: load it with this package")
    if not len(series):
        raise ValueError("series has no rows: give one or more hours")


def screened(series: pd.DataFrame, **rule: Any) -> pd.DataFrame:
    """The series with demand_spike (True or False) and demand_screened_w (NaN at a spike), and so for net_generation.

    rule: parameters of `expected_hours`. The screened columns are ours; demand_clean_w and demand_adjusted_w are the
    publisher's, where a file has them. Raises ValueError for a series without authority, hour_utc and either total.
    """
    present = [name for name in TOTALS if f"{name}_w" in series]
    _known_columns(series, ("authority", "hour_utc", *(() if present else ("demand_w",))))
    added = {}
    for name in present:
        added[f"{name}_spike"] = _flags(series, f"{name}_w", **rule)
        added[f"{name}_screened_w"] = series[f"{name}_w"].where(~added[f"{name}_spike"])
    return series.assign(**added)


def quality(series: pd.DataFrame, column: str = "demand_w", **rule: Any) -> pd.DataFrame:
    """What a column of a long series lacks, one row for each authority.

    Columns authority; hours with a value; first, last: hour in the series; missing: hours between them that are absent
    or blank; duplicated: rows with a value beyond the first of an hour; differing: hours whose rows disagree; spikes:
    rows that `spikes` finds. rule: parameters of `expected_hours`. Raises ValueError for an unknown column.
    """
    _known_columns(series, ("authority", "hour_utc", column))
    table = series[["authority", "hour_utc"]].assign(value=series[column], spike=_flags(series, column, **rule))
    keys = ["authority", "hour_utc"]
    given = table[table["value"].notna()]
    twice = given[given.duplicated(keys, keep=False)]
    differ = (twice.groupby(keys, observed=True)["value"].nunique() > 1).groupby("authority", observed=True).sum()
    by = table.groupby("authority", observed=True)
    whole = given.drop_duplicates(keys).groupby("authority", observed=True).size()
    result = pd.DataFrame({"first": by["hour_utc"].min(), "last": by["hour_utc"].max()})
    result["hours"] = whole.reindex(result.index).fillna(0).astype(int)
    span = ((result["last"] - result["first"]) / HOUR).astype(int) + 1
    result["missing"] = span - result["hours"]
    rows = given.groupby("authority", observed=True).size().reindex(result.index).fillna(0).astype(int)
    result["duplicated"] = rows - result["hours"]
    result["differing"] = differ.reindex(result.index).fillna(0).astype(int)
    result["spikes"] = by["spike"].sum().astype(int)
    columns = ["authority", "hours", "first", "last", "missing", "duplicated", "differing", "spikes"]
    return result.reset_index().astype({"authority": str})[columns]
