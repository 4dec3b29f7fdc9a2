"""Flexible load: what a load that gives way in the hours of highest demand may draw, beside the demand that is there.

An authority is ready to serve a peak in each season. A new load of constant power fits below that peak in nearly every
hour; in the others it draws less. Which share of its energy it gives up in a year says how large it may be.

Symbols: D_t demand in hour t [W], T_t peak of the hour's season [W], g_t = T_t - D_t margin [W], n number of hours,
P the new load [W], c the share of its energy n P that is curtailed, H headroom [W].

    c(P) = sum over t of max(P - g_t, 0) / (n P),   H(q) = largest P with c(P) <= q

The seasons are April to October and November to March. The peak of a season is its largest hour in all years that are
given. This bounds no plant and no line: what a place can carry is another question.
Source: T. H. Norris, T. Profeta, D. Patiño-Echeverri, A. Cowie-Haskell, Rethinking Load Growth, Nicholas Institute,
Duke University, February 2025, https://hdl.handle.net/10161/32077: section Data and Method, and Appendix C.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.catalog import checks, files, units
from railcore.catalog.checks import Floats
from railcore.catalog.tables import read_csv
from railcore.siting import eia

SUMMER = (4, 5, 6, 7, 8, 9, 10)  # months; the others are winter
_YEAR_HOURS = units.year / units.hour
_HOUR = np.timedelta64(1, "h")
Peaks = tuple[float, float]  # of summer and winter [W]


@dataclass(frozen=True)
class Curtailment:
    """What a load gives up, arrays with the shape of authorities and loads.

    share: of the energy that the load would use at full power.
    hours_per_year: in which it gives way, by however little.
    longest_hours: longest run of such hours.
    """

    share: Floats
    hours_per_year: Floats
    longest_hours: Floats


def in_summer(hour_utc: ArrayLike) -> np.ndarray:
    """True for hours that begin in April to October, in UTC. hour_utc: the end of each hour, shape (hours,)."""
    months = (np.asarray(hour_utc, "datetime64[h]") - _HOUR).astype("datetime64[M]").astype(int) % 12 + 1
    return np.isin(months, SUMMER)


def season_peaks(hour_utc: ArrayLike, demand_w: ArrayLike) -> Peaks:
    """Largest demand of summer and of winter [W], NaN for a season without values.

    hour_utc, demand_w: end of each hour, and its demand [W] (NaN: unknown), both of shape (hours,).
    """
    summer, demand = in_summer(hour_utc), np.asarray(demand_w, float)
    first, second = (np.fmax.reduce(demand[season], initial=np.nan) for season in (summer, ~summer))
    return float(first), float(second)


def demand_margin(hour_utc: ArrayLike, demand_w: ArrayLike, peaks_w: Peaks) -> Floats:
    """Margin g of each hour below the peak of its season [W], shape (hours,); NaN where demand is unknown.

    hour_utc, demand_w: as for `season_peaks`. peaks_w: T of summer and winter, such as `season_peaks` gives.
    Raises ValueError where demand is above its peak.
    """
    summer, winter = peaks_w
    margin = np.where(in_summer(hour_utc), summer, winter) - np.asarray(demand_w, float)
    if (margin < 0).any():
        over = units.show(-float(np.nanmin(margin)), "W", 3)
        raise ValueError(f"peaks_w is {peaks_w}: demand is up to {over} above it; give peaks that the hours stay below")
    return margin


def curtailed_load(margin_w: ArrayLike, load_w: ArrayLike) -> Curtailment:
    """What loads of constant power give up: c(P) = sum of max(P - g, 0) / (n P), and 0 at P = 0.

    margin_w: g of each hour in their order, shape (..., hours), such as (authorities, hours); NaN hours are left out.
    load_w: P, shape (loads,) [W]. The result has the shape (..., loads).
    Raises ValueError for a negative margin or load. Source: see the module.

    Examples
    --------
    >>> from railcore.siting import curtailed_load
    >>> cut = curtailed_load([0.0, 1e9, 4e9, 5e9], [2e9])
    >>> float(cut.share[0]), float(cut.hours_per_year[0]), float(cut.longest_hours[0])
    (0.375, 4380.0, 2.0)
    """
    margin = _checked_margin(margin_w)
    loads = np.atleast_1d(checks.at_least("load_w", load_w))
    hours = np.isfinite(margin).sum(axis=-1)
    parts = []
    for load in loads:
        cut = np.fmax(load - margin, 0.0)  # a NaN cuts nothing
        share = cut.sum(axis=-1) / (hours * load) if load > 0 else np.zeros(hours.shape)
        parts.append((share, (cut > 0).sum(axis=-1) / hours * _YEAR_HOURS, _longest_run(cut > 0)))
    return Curtailment(*(np.stack(part, axis=-1).astype(float) for part in zip(*parts, strict=True)))


def flexible_headroom(margin_w: ArrayLike, share: ArrayLike) -> Floats:
    """Largest load that gives up at most a share of its energy [W]: H(q), the inverse of `curtailed_load`.

    Exact, without iteration: with margins in rising order and S_k the sum of the first k, k hours are touched by loads
    from g_k to g_(k+1), so that c(P) = (k - S_k / P) / n there, and H = S_k / (k - q n).

    margin_w: g, shape (..., hours) [W]; NaN hours are left out.
    share: q, shape (shares,), from 0 to below 1; at 0 the least margin is the headroom.
    The result has the shape (..., shares).
    Raises ValueError for a negative margin and a share outside. Source: see the module.

    Examples
    --------
    >>> from railcore.siting import flexible_headroom
    >>> (flexible_headroom([0.0, 1e9, 4e9, 5e9], [0.375]) / 1e9).tolist()
    [2.0]
    """
    margin = np.sort(_checked_margin(margin_w), axis=-1)  # NaN come last
    shares = np.atleast_1d(checks.share("share", share, below_1=True))
    n = np.isfinite(margin).sum(axis=-1, keepdims=True)
    sums = np.cumsum(margin, axis=-1)
    ratio = np.divide(sums, margin, out=np.full(margin.shape, np.nan), where=margin > 0)
    at_margin = np.where(margin == 0, 0.0, (np.arange(1, margin.shape[-1] + 1) - ratio) / n)  # c(g_k), rising
    columns = []
    for q in shares:
        k = (at_margin <= q).sum(axis=-1, keepdims=True)
        total = np.take_along_axis(sums, k - 1, axis=-1)
        columns.append(np.divide(total, k - q * n, out=np.zeros(total.shape), where=total > 0))
    return np.concatenate(columns, axis=-1)


def headroom_table(
    series: pd.DataFrame, shares: Sequence[float], record_peaks_w: Mapping[str, Peaks] | None = None
) -> pd.DataFrame:
    """Flexible headroom of each authority at each share of curtailed energy, from hours of demand.

    series: columns authority, hour_utc, demand_w, as `hour_files.balance_series` gives them, of whole years; where
    `screen_spikes` has added demand_screened_w, that is taken. One hour that is wrong and high sets the peak.
    shares: of the load's energy in a year. record_peaks_w: summer and winter peak of a longer record by authority; the
    larger of it and the series' own counts.

    Columns authority, share, headroom_w, hours_per_year, longest_hours (`Curtailment`), summer_peak_w, winter_peak_w.
    Authorities without demand are left out. Raises ValueError for a missing column, a repeated hour, a missing month.
    """
    column = "demand_screened_w" if "demand_screened_w" in series else "demand_w"
    if missing := [name for name in ("authority", "hour_utc", column) if name not in series]:
        raise ValueError(f"series has no column {missing[0]!r}; it has {', '.join(series)}: see `balance_series`")
    known = series[series[column].notna()]
    tables = []
    for code, hours in known.groupby(known["authority"].astype(str)):
        rows = hours.sort_values("hour_utc")
        at, demand = rows["hour_utc"].to_numpy(), rows[column].to_numpy(float)
        if not demand.max() > 0:
            continue
        _check_whole_years(str(code), rows["hour_utc"])
        longer = (record_peaks_w or {}).get(str(code), (np.nan, np.nan))
        summer, winter = np.fmax(season_peaks(at, demand), longer)
        margin = _with_gaps(at, demand_margin(at, demand, (float(summer), float(winter))))
        headroom_w = flexible_headroom(margin, shares)
        cut = curtailed_load(margin, headroom_w)
        table = pd.DataFrame({"authority": str(code), "share": shares, "headroom_w": headroom_w})
        runs = {"hours_per_year": cut.hours_per_year, "longest_hours": cut.longest_hours}
        tables.append(table.assign(**runs, summer_peak_w=summer, winter_peak_w=winter))
    if not tables:
        raise ValueError("series has no hour with demand: give one or more years of one or more authorities")
    return pd.concat(tables, ignore_index=True)


@cache
def stored_headroom() -> pd.DataFrame:
    """Flexible headroom of the authorities that serve load, from two years of hours that are not part of this package.

    Columns as `headroom_table`, then record_headroom_w (the same with the largest peaks of nine years, NaN where these
    are unknown) and window. Source: data/measured/flexible_headroom.csv.
    """
    read = pd.read_csv(files.data("measured/flexible_headroom.csv"), keep_default_na=False, na_values=[""])
    powers = {name: f"{name[:-3]}_w" for name in read if name.endswith("_mw")}
    read[[*powers]] *= units.MW
    return read.rename(columns=powers)


def authority_flexible_headroom(codes: Iterable[str], share: float) -> dict[str, float]:
    """Load that each authority has room for if the load gives up a share of its energy in a year [W], without hours.

    By a straight line between the stored shares, from 0.1% to 5%, and 0 at 0: up to 8% below the exact value under
    0.25%, up to 4% below it above, and nowhere more than 0.4% over it. codes: of authorities; those without stored
    hours, and "", are left out.
    The stored hours are two years: `published_headroom` says how far that is from a study of nine.
    Raises UnknownName for an unknown code, ValueError for another share. Source: `stored_headroom`.

    Examples
    --------
    >>> from railcore.siting import authority_flexible_headroom
    >>> few, many = (authority_flexible_headroom(["PJM"], share)["PJM"] for share in (0.0025, 0.01))
    >>> 0 < few < many
    True
    """
    different = sorted({str(code) for code in codes})
    eia.check_authorities(different, "codes")
    table = stored_headroom()
    low, high = table["share"].min(), table["share"].max()
    if share and not low <= float(checks.share("share", share)) <= high:
        raise ValueError(
            f"share is {share:g}: give 0, or a share from {low:g} to {high:g}, for which hours were counted"
        )
    rows = dict(iter(table.groupby("authority")))
    return {
        code: float(np.interp(share, [0.0, *rows[code]["share"]], [0.0, *rows[code]["headroom_w"]]))
        for code in different
        if code in rows
    }


@cache
def published_headroom() -> pd.DataFrame:
    """Published headroom and hours of nine years, beside the stored ones of two.

    Columns quantity (headroom [W], hours a year), authority ("" for all of the study: a sum, and for hours a mean),
    share, published, ours, error = ours / published - 1; record and record_error: the same with our hours below the
    largest peaks of nine years, where known (NaN for hours); source.
    Source: data/measured/flexible_load_checks.csv, `stored_headroom`.
    """
    rows = [row for row in read_csv(files.data("measured/flexible_load_checks.csv")) if row["share"]]
    codes = [row["authority"] for row in rows if row["authority"]]
    stored = stored_headroom().set_index(["share", "authority"]).sort_index()
    result = []
    for row in rows:
        share, hours = float(row["share"]), row["quantity"] == "hours"
        part = stored.loc[share].loc[[row["authority"]] if row["authority"] else codes]
        ours = part["hours_per_year"].mean() if hours else part["headroom_w"].sum()
        record = np.nan if hours else part["record_headroom_w"].sum()
        published = float(row["value"]) * (1.0 if hours else units.unit(row["unit"])[1])
        numbers = {"published": published, "ours": ours, "error": ours / published - 1}
        numbers |= {"record": record, "record_error": record / published - 1}
        result.append({"quantity": row["quantity"], "authority": row["authority"], "share": share} | numbers)
    return pd.DataFrame(result).assign(source=[row["source"] for row in rows])


def _checked_margin(margin_w: ArrayLike) -> Floats:
    margin = np.atleast_1d(checks.numbers("margin_w", margin_w))
    if (margin < 0).any() or np.isinf(margin).any():
        raise ValueError("margin_w has a value below 0 or without end: give each season's peak less the hour's demand")
    if not np.isfinite(margin).any(axis=-1).all():
        raise ValueError("margin_w has no hour with a value: give one or more")
    return margin


def _longest_run(true: np.ndarray) -> np.ndarray:
    """Length of the longest run of True along the last axis."""
    at = np.arange(true.shape[-1])
    last_false = np.maximum.accumulate(np.where(true, -1, at), axis=-1)
    return (at - last_false).max(axis=-1)


def _with_gaps(hour_utc: np.ndarray, values: Floats) -> Floats:
    """Values at consecutive hours, NaN where the series has none, so that a run ends there."""
    at = ((hour_utc - hour_utc[0]) / _HOUR).astype(int)
    every = np.full(at[-1] + 1, np.nan)
    every[at] = values
    return every


def _check_whole_years(code: str, hour_utc: pd.Series) -> None:
    if (twice := hour_utc.duplicated()).any():
        raise ValueError(f"series has hour {hour_utc[twice].iloc[0]} of {code} twice: keep one (see `data_quality`)")
    if absent := sorted({*range(1, 13)} - {*hour_utc.dt.month}):
        raise ValueError(f"series has no hour of {code} in month {absent[0]}: give whole years")
