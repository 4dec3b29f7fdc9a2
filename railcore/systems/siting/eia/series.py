"""Hourly demand and net generation of balancing authorities: EIA-930's six-month files, and a Parquet form."""

import re
from pathlib import Path

import numpy as np
import pandas as pd

from railcore.systems.siting.eia.headers import (
    as_watts,
    check_authorities,
    existing_file,
    find_columns,
    meanings,
    plain_name,
    split_unit,
    with_rows,
)

NEEDED = {
    "authority": ("Balancing Authority",),
    "hour_utc": ("UTC Time at End of Hour",),
    "demand_w": ("Demand (MW)",),
    "net_generation_w": ("Net Generation (MW)",),
}
TOTALS = {"demand": "demand", "net generation": "net_generation", "total interchange": "interchange"}
STYLES = ("%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %H:%M", "ISO8601")  # of an hour; the six-month files write the first
DEMAND = {
    "authority": ("ba",),
    "hour_utc": ("utc_end",),
    "clean": ("demand_clean_mw",),
    "rest": ("raw_minus_clean_mw",),
    "raw_only": ("demand_raw_only_mw",),
}
GENERATION = {"authority": ("ba",), "hour_utc": ("utc",), "net_generation_w": ("net_gen_mw",)}


def balance_series(*paths: str | Path) -> pd.DataFrame:
    """Hours of EIA-930's six-month BALANCE files (CSV), one row as each file has it, none dropped.

    Columns: authority, hour_utc (end of the hour), demand_w, net_generation_w as reported; where the files have them
    interchange_w, the same with _imputed and _adjusted before _w (EIA's own repairs), and net generation by source
    (coal_w, ..., storage_w), sources of one fuel added.
    Raises ValueError naming the file, the column, what was expected and the remedy.
    """
    if not paths:
        raise ValueError("paths is empty: give one or more BALANCE files, such as EIA930_BALANCE_2023_Jan_Jun.csv")
    tables = [_balance(existing_file(path)) for path in paths]
    codes = sorted({code for table in tables for code in table["authority"].cat.categories})
    of = pd.CategoricalDtype(codes)
    return pd.concat([table.astype({"authority": of}) for table in tables], ignore_index=True)


def _balance(path: Path) -> pd.DataFrame:
    where = path.name
    try:
        names = list(pd.read_csv(path, nrows=0).columns)
        here = find_columns(names, NEEDED, where)
        parts = _parts(names, where)
        chosen = [here["authority"], here["hour_utc"], *(name for own in parts.values() for name in own)]
        read = pd.read_csv(path, usecols=chosen, thousands=",", keep_default_na=False, na_values=[""], low_memory=False)
    except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(f"{where}: cannot be read as CSV ({error}): give a BALANCE file of EIA-930") from None
    with_rows(read, where)
    values = {name: as_watts(read, own[0], where) for name, own in parts.items() if len(own) == 1}
    for name, own in parts.items():
        if len(own) > 1:
            values[name] = pd.concat([as_watts(read, each, where) for each in own], axis=1).sum(axis=1, min_count=1)
    at = {"authority": read[here["authority"]], "hour_utc": read[here["hour_utc"]]}
    return _series(at, {name: values[name] for name in parts}, where, here)


def _parts(names: list[str], where: str) -> dict[str, list[str]]:
    """Columns of the file that make up each of ours, in the file's order."""
    sources = {plain_name(source): fuel for source, fuel in meanings("hourly source").items()}
    parts: dict[str, list[str]] = {}
    for name in names:
        stem, of = split_unit(name)
        match = re.fullmatch(r"(.*?)(?: \((imputed|adjusted)\))?", stem)
        base, ending = (match[1], match[2]) if match else (stem, None)
        source = base.removeprefix("net generation from ")
        if source != base and source not in sources:
            raise ValueError(f"{where}: column {name!r} is of an unknown source: add it to data/grid/eia_codes.csv")
        ours = TOTALS.get(base) or (sources.get(source) if source != base else None)
        if ours and of != "mw":
            raise ValueError(f"{where}: column {name!r} is in {of or 'no unit'}, expected MW: convert it and rename it")
        if ours:
            parts.setdefault(f"{ours}_{ending}_w" if ending else f"{ours}_w", []).append(name)
    return parts


def parquet_series(path: str | Path) -> pd.DataFrame:
    """Hours of a Parquet file, with columns as `balance_series` has them.

    Of a demand file (ba, utc_end, demand_clean_mw, raw_minus_clean_mw, demand_raw_only_mw): demand_w as reported, the
    sum of clean and difference or, where that is blank, raw_only, and demand_clean_w as cleaned by its publisher. Of a
    generation file (ba, utc, MW by source, net_gen_mw): net_generation_w and by source. Demand and generation go
    together by pandas.concat.
    Raises ValueError naming the file, the column, what was expected and the remedy.
    """
    where = existing_file(path).name
    try:
        read = pd.read_parquet(path)
    except Exception as error:  # pyarrow's errors are its own
        raise ValueError(f"{where}: cannot be read as Parquet ({error}): give a file in that form") from None
    with_rows(read, where)
    names = list(read.columns)
    stems = {split_unit(name)[0] for name in names}
    if "net gen" in stems and "demand clean" not in stems:
        here = find_columns(names, GENERATION, where)
        spellings = {f"{fuel}_w": (name,) for name, fuel in meanings("hourly column").items()}
        own = find_columns(names, spellings, where)
        values = {"net_generation_w": as_watts(read, here["net_generation_w"], where)}
        values |= {name: as_watts(read, column, where) for name, column in own.items()}
    else:
        here = find_columns(names, DEMAND, where)
        clean = as_watts(read, here["clean"], where)
        raw = clean + as_watts(read, here["rest"], where)
        values = {"demand_w": raw.fillna(as_watts(read, here["raw_only"], where)), "demand_clean_w": clean}
    return _series({key: read[here[key]] for key in ("authority", "hour_utc")}, values, where, here)


def _series(at: dict, values: dict, where: str, here: dict) -> pd.DataFrame:
    code = at["authority"].astype("category")
    if code.isna().any():
        raise ValueError(f"{where}: column {here['authority']!r} has blank cells: give a code in every row")
    code = code.cat.rename_categories([str(name).strip() for name in code.cat.categories])
    check_authorities(code.cat.categories, f"{where}, column {here['authority']!r}")
    return pd.DataFrame({"authority": code, "hour_utc": _hours(at["hour_utc"], where, here["hour_utc"]), **values})


def _hours(given: pd.Series, where: str, column: object) -> np.ndarray:
    """Hours in UTC without a zone; each different text is read once."""
    codes, texts = pd.factorize(given)
    if pd.api.types.is_datetime64_any_dtype(given):
        hours = pd.to_datetime(pd.DatetimeIndex(texts), utc=True).tz_localize(None)
    else:
        hours = pd.DatetimeIndex([pd.NaT] * len(texts))
        for style in STYLES:
            read = pd.to_datetime(pd.Index(texts).astype(str), format=style, errors="coerce")
            hours = hours.where(hours.notna(), read)
    odd = hours.isna() | (hours != hours.floor("h"))
    if odd.any() or (codes < 0).any():
        first = repr(str(texts[odd][0])) if odd.any() else "a blank"
        raise ValueError(
            f"{where}: column {column!r} holds {first}, expected the end of an hour such as "
            "01/01/2023 6:00:00 AM: correct that row"
        )
    return hours.to_numpy()[codes].astype("datetime64[s]")
