"""Hourly demand and net generation of balancing authorities: what is missing and wrong, and the power that they leave.

Disposable power D = max G - max L over a window, with net generation G and demand L [W].
Source: flops2024, section 2 and Table 1 (no equation number).
"""

from typing import Any

import numpy as np
import pandas as pd

from railcore.catalog import units

_TOTALS = ("demand", "net_generation")
_KEYS = ["authority", "hour_utc"]
_SIGMA_PER_MAD = 1.4826  # of a normal distribution over its median absolute deviation
_LEAST_SPREADS, _LEAST_SHARE = 8.0, 0.25  # of the usual scatter, and of the level, that a spike is off
_LEAST_SHARE_ALONE = 0.20  # of the level, for an hour between two that are off by less than half of it: no weather
_GROSS, _RARE = 2.0, 0.1  # an hour is no part of the level beyond twice the range of all but this share of hours
_DAY = 24  # hours
_GROSS_REACH = 21 * _DAY  # to either side: an error of as many hours does not move the median
_HOUR = np.timedelta64(1, "h")
_FEW = 0.9  # share of a window's hours below which matching hours are few


def expected_values(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What each hour of consecutive hourly values should be, and how far it may be off.

    m = median of x over a day to either side, h = median of x / m over the same hour of the day, a week to either side,
    e = m h; s = 1.4826 times the median of |x - e| over a week to either side, limit = max(8 s, |m| / 4).
    The rule and its numbers are ours: an hour must be both far outside the usual scatter and a large part of the level.
    Before that, gross errors are bridged, so that one of days does not move the level: with M = median of x over three
    weeks to either side, x / M beyond twice its 90% quantile, or below half of its 10% quantile.

    values: x, shape (hours,). A NaN is missing: a straight line between the same hour of other days
    bridges it. At both ends the series is mirrored.
    Gives e and limit, in the shape of values.
    """
    e, m, s = _expected(values)
    return e, np.maximum(_LEAST_SPREADS * s, _LEAST_SHARE * np.abs(m))


def _expected(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """e, m and s of `expected_values`."""
    x = _without_gross_errors(np.asarray(values, float))
    m = _median(x, _DAY)
    part = np.divide(x, m, out=np.ones_like(x), where=m != 0)
    days = np.pad(part, (0, -len(x) % _DAY), constant_values=1.0).reshape(-1, _DAY)
    h = np.stack([_median(column, 7) for column in days.T], axis=1).ravel()[: len(x)]
    return m * h, m, _SIGMA_PER_MAD * _median(np.abs(x - m * h), 7 * _DAY)


def _without_gross_errors(values: np.ndarray) -> np.ndarray:
    x = _bridged(values)
    level = _median(x, _GROSS_REACH)
    ratio = np.divide(x, level, out=np.ones_like(x), where=level != 0)
    low, high = np.quantile(ratio, [_RARE, 1 - _RARE])
    gross = (ratio > _GROSS * max(high, 0.0)) | (ratio < min(low / _GROSS, low * _GROSS))
    return _bridged(np.where(gross, np.nan, values))


def _bridged(values: np.ndarray) -> np.ndarray:
    """Values with straight lines between the same hour of other days where they are missing, 0 where none is there."""
    days = np.pad(values, (0, -len(values) % _DAY), constant_values=np.nan).reshape(-1, _DAY)
    every_day = np.arange(len(days))
    for hour in days.T:  # columns are views: what is written fills the table
        good = np.flatnonzero(np.isfinite(hour))
        hour[:] = np.interp(every_day, good, hour[good]) if len(good) else np.nan
    x = days.ravel()[: len(values)]
    good = np.flatnonzero(np.isfinite(x))
    return np.interp(np.arange(len(x)), good, x[good]) if len(good) else np.zeros(len(x))


def _median(values: np.ndarray, reach: int) -> np.ndarray:
    """Median over the `reach` values on either side and the value itself."""
    from scipy.ndimage import median_filter

    return median_filter(np.ascontiguousarray(values), 2 * reach + 1, mode="mirror")


def _spikes(series: pd.DataFrame, column: str) -> np.ndarray:
    """True where a row of a long series is a reporting spike: |x - e| > limit, with e and limit of `expected_values`.

    An hour is judged more strictly, by |m| / 5 in place of |m| / 4, where the hours before and after it are off by less
    than half of it: weather lasts. Absent hours count as missing, each row of a repeated hour is judged, NaN is no
    spike. An error of more than a day that is not gross moves the level with it and stays, and so does one of more than
    three weeks. Hours in which most of an authority is dark are marked too.
    """
    category = series["authority"].astype("category").cat
    code, hours = category.codes.to_numpy(), series["hour_utc"].to_numpy("datetime64[h]")
    at = ((hours - hours.min()) / _HOUR).astype(int)
    values = series[column].to_numpy(float)
    there = np.flatnonzero(np.isfinite(values))
    matrix = np.full((len(category.categories), at.max() + 1), np.nan)
    matrix[code[there], at[there]] = values[there]
    e, m, s = np.stack([_expected(row) for row in matrix], axis=1)
    beside = np.pad(np.nan_to_num(np.abs(matrix - e)), ((0, 0), (1, 1)))
    beside = np.maximum(beside[:, :-2], beside[:, 2:])[code, at]
    off = np.abs(np.where(np.isfinite(values), values, e[code, at]) - e[code, at])
    share = np.where(beside < off / 2, _LEAST_SHARE_ALONE, _LEAST_SHARE)
    return off > np.maximum(_LEAST_SPREADS * s[code, at], share * np.abs(m[code, at]))


def _check_columns(series: pd.DataFrame, names: tuple[str, ...]) -> None:
    if missing := [name for name in names if name not in series]:
        raise ValueError(
            f"series has no column {missing[0]!r}; it has {', '.join(series)}: join files with pandas.concat"
        )
    if not len(series):
        raise ValueError("series has no rows: give one or more hours")


def _totals(series: pd.DataFrame) -> list[str]:
    """Which totals a series has. Raises ValueError where it has none, or lacks authority or hour_utc."""
    present = [name for name in _TOTALS if f"{name}_w" in series]
    _check_columns(series, (*_KEYS, *(() if present else ("demand_w",))))
    return present


def screen_spikes(series: pd.DataFrame) -> pd.DataFrame:
    """The series with demand_spike (True or False) and demand_screened_w (NaN at a spike), and so for net_generation.

    Raises ValueError for a series without authority, hour_utc and either total.
    """
    added: dict[str, Any] = {}
    for name in _totals(series):
        added[f"{name}_spike"] = _spikes(series, f"{name}_w")
        added[f"{name}_screened_w"] = series[f"{name}_w"].where(~added[f"{name}_spike"])
    return series.assign(**added)


def data_quality(series: pd.DataFrame) -> pd.DataFrame:
    """What the demand and the net generation of a long series lack, a row for each authority and total.

    Columns authority; total: "demand" or "net generation"; hours with a value; first, last: hour of the authority in
    the series; missing: hours between them that are absent or blank; duplicated: rows with a value beyond the first of
    an hour; differing: hours whose rows disagree; negative: rows below 0; spikes: rows that `screen_spikes` marks.
    Raises ValueError for a series without authority, hour_utc and either total.
    """
    tables = [_quality(series, name).assign(total=units.words(name)) for name in _totals(series)]
    columns = [
        "authority",
        "total",
        "hours",
        "first",
        "last",
        "missing",
        "duplicated",
        "differing",
        "negative",
        "spikes",
    ]
    together = pd.concat(tables).reset_index().astype({"authority": str})
    return together.sort_values(["authority", "total"], ignore_index=True)[columns]


def _quality(series: pd.DataFrame, name: str) -> pd.DataFrame:
    value = series[f"{name}_w"]
    table = series[_KEYS].assign(value=value, negative=value < 0, spike=_spikes(series, f"{name}_w"))
    hours = table.groupby(_KEYS, observed=True)["value"].agg(["count", "min", "max"])
    hours["hours"] = hours["count"] > 0
    hours["duplicated"] = hours["count"] - hours["hours"]
    hours["differing"] = hours["min"] < hours["max"]
    spans = {"first": ("hour_utc", "min"), "last": ("hour_utc", "max")}
    spans |= {"negative": ("negative", "sum"), "spikes": ("spike", "sum")}
    counts = hours[["hours", "duplicated", "differing"]].groupby("authority", observed=True).sum()
    result = table.groupby("authority", observed=True).agg(**spans).join(counts)
    result["missing"] = ((result["last"] - result["first"]) / _HOUR).astype(int) + 1 - result["hours"]
    return result


def disposable_power(series: pd.DataFrame, matching: bool = True) -> pd.DataFrame:
    """Disposable power of each authority, as reported and without spikes, largest clean value first.

    D = max G - max L [W], the two maxima each in its own hour, over the same set of hours: those in which both are
    reported, and for the clean value neither is a spike (`screen_spikes`).

    series: as `balance_series` gives it; generation and demand may be on different rows (pandas.concat).
    matching: False takes each maximum over all hours that it has, as for a window in which they do not meet. D is wrong
    where the peak of one lies in hours that the other lacks: it is then far below 0, or too large.
    Columns authority; for kind raw and clean generation_<kind>_w, demand_<kind>_w, disposable_<kind>_w; note: where
    the hours of both are few, or not the same, which; "" else; generation_spikes, demand_spikes: hours that are spikes;
    generation_hours, demand_hours, matching_hours: hours that have generation, demand and both. NaN where there are no
    values. Raises ValueError for missing columns.
    """
    _check_columns(series, (*_KEYS, "demand_w", "net_generation_w"))
    screened = screen_spikes(series).astype({"authority": str})
    hours = screened.groupby(_KEYS)[[f"{name}{end}_w" for name in _TOTALS for end in ("", "_screened")]].max()
    result = pd.DataFrame(index=pd.Index(sorted(set(screened["authority"])), name="authority"))
    for kind, end in (("raw", ""), ("clean", "_screened")):
        pair = hours[[f"{name}{end}_w" for name in _TOTALS]].set_axis(["demand", "generation"], axis=1)
        largest = (pair.dropna() if matching else pair).groupby("authority").max().reindex(result.index)
        result[f"generation_{kind}_w"], result[f"demand_{kind}_w"] = largest["generation"], largest["demand"]
        result[f"disposable_{kind}_w"] = largest["generation"] - largest["demand"]
    spikes = screened.groupby("authority")[["net_generation_spike", "demand_spike"]].sum()
    there = hours[["net_generation_w", "demand_w"]].notna()
    counts = there.assign(both=there.all(axis=1), any=there.any(axis=1)).groupby("authority").sum()
    result["note"] = [_matching_note(row, matching) for row in counts.itertuples()]
    result[["generation_spikes", "demand_spikes"]] = spikes
    result[["generation_hours", "demand_hours", "matching_hours"]] = counts[["net_generation_w", "demand_w", "both"]]
    largest_first = result.reset_index().sort_values(["disposable_clean_w", "authority"], ascending=[False, True])
    return largest_first.reset_index(drop=True)


def _matching_note(row: Any, matching: bool) -> str:
    """What is odd about the hours that an authority's demand and generation share."""
    if not row.both and (matching or not row.demand_w or not row.net_generation_w):
        return "no hour has both demand and generation"
    if row.both >= _FEW * row.any:
        return ""
    hours = f"{row.both:,} of {units.counted(row.any, 'hours')} have both demand and generation"
    return f"{hours}: the other hours do not count" if matching else f"{hours}: the maxima are of different hours"
