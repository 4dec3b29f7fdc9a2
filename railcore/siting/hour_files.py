"""Hours of demand and net generation of files that a user brings: EIA-930's BALANCE files, or a plain table."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from railcore.catalog import units
from railcore.siting import eia

_KEYS = {
    "authority": ("Balancing Authority", "authority", "ba"),
    "hour_utc": ("UTC Time at End of Hour", "hour_utc", "utc_end", "utc"),
}
_TOTALS = {
    "demand_w": ("Demand (MW)", "demand_mw"),
    "net_generation_w": ("Net Generation (MW)", "net_generation_mw", "net_gen_mw"),
}
_HOUR_FORMATS = ("%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %H:%M", "ISO8601")  # of an hour; the six-month files write the first


def balance_series(*paths: str | Path) -> pd.DataFrame:
    """Hours of EIA-930's six-month BALANCE files, one row as each file has it, none dropped.

    paths: of CSV or Parquet files with the BALANCE files' columns; or with columns of your own: ba, hour_utc (end of
    the hour), and demand_mw, net_generation_mw or both.
    Columns: authority, hour_utc (end of the hour), demand_w, net_generation_w as reported, NaN where there is none.
    Raises ValueError naming the file, the column, what was expected and the remedy.
    """
    if not paths:
        raise ValueError("paths is empty: give one or more BALANCE files, such as EIA930_BALANCE_2023_Jan_Jun.csv")
    tables = [_hours(eia.existing_file(path)) for path in paths]
    codes = sorted({code for table in tables for code in table["authority"].cat.categories})
    authorities = pd.CategoricalDtype(codes)
    return pd.concat([table.astype({"authority": authorities}) for table in tables], ignore_index=True)


def _hours(path: Path) -> pd.DataFrame:
    where = path.name
    read, here = _parquet(path) if eia.is_parquet(path) else _csv(path)
    eia.check_has_rows(read, where)
    values = {name: eia.as_numbers(read, here[name], where) * units.MW if name in here else np.nan for name in _TOTALS}
    code = read[here["authority"]].astype("category")
    if code.isna().any():
        raise ValueError(f"{where}: column {here['authority']!r} has blank cells: give a code in every row")
    code = code.cat.remove_unused_categories()
    code = code.cat.rename_categories([str(name).strip() for name in code.cat.categories])
    eia.check_authorities(code.cat.categories, f"{where}, column {here['authority']!r}")
    hours = _utc_hours(read[here["hour_utc"]], where, here["hour_utc"])
    return pd.DataFrame({"authority": code, "hour_utc": hours, **values})


def _parquet(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    read = eia.read_parquet(path)
    return read, _columns(list(read.columns), path.name)


def _csv(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    wanted = "a BALANCE file of EIA-930"
    here = _columns(list(eia.read_table(path, wanted, nrows=0).columns), path.name)
    options: dict[str, Any] = {"thousands": ",", "low_memory": False}
    return eia.read_table(path, wanted, usecols=list(here.values()), **options), here


def _columns(names: list[Any], where: str) -> dict[str, Any]:
    """The table's name of each column. EIA's own files have both totals; a table of yours may have one of them."""
    here = eia.find_columns(names, _KEYS, where)
    plain = set(map(eia.plain_name, names))
    there = {key: spellings for key, spellings in _TOTALS.items() if plain & set(map(eia.plain_name, spellings))}
    published = eia.plain_name(here["authority"]) == eia.plain_name(_KEYS["authority"][0])
    return here | eia.find_columns(names, _TOTALS if published or not there else there, where)


def _utc_hours(cells: pd.Series, where: str, column: object) -> np.ndarray:
    """Hours in UTC without a zone; each different text is read once."""
    codes, texts = pd.factorize(cells)
    if pd.api.types.is_datetime64_any_dtype(cells):
        hours = pd.DatetimeIndex(texts)
        hours = hours if hours.tz is None else hours.tz_convert("UTC").tz_localize(None)
    else:
        hours = pd.DatetimeIndex([pd.NaT] * len(texts))
        for style in _HOUR_FORMATS:
            read = pd.to_datetime(pd.Index(texts).astype(str), format=style, errors="coerce", utc=True)
            hours = hours.where(hours.notna(), read.tz_localize(None))
    odd = hours.isna() | (hours != hours.floor("h"))
    if odd.any() or (codes < 0).any():
        first = repr(str(texts[odd][0])) if odd.any() else "a blank"
        raise ValueError(
            f"{where}: column {column!r} holds {first}, expected the end of an hour such as "
            "01/01/2023 6:00:00 AM: correct that row"
        )
    return hours.to_numpy()[codes].astype("datetime64[s]")
