"""Codes and columns of the files of the US Energy Information Administration (EIA), and how a table is read.

`plant_files` reads plants with them, `hour_files` hours of demand and generation.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from railcore import catalog
from railcore.catalog import files
from railcore.catalog.libraries import needed_library
from railcore.catalog.tables import read_csv
from railcore.catalog.text_files import check_mark, check_no_nul

_LATITUDES, _LONGITUDES = (24.0, 50.0), (-126.0, -66.0)  # of the contiguous states and their shelf [degrees]
_WORDS = {"watts": "w", "kilowatts": "kw", "megawatts": "mw", "megawatthours": "mwh"}
_UNIT = re.compile(r"\b(?:[kmgt]?wh?|kilowatts|megawatts|megawatthours|watts)\b")


@cache
def code_meanings(kind: str) -> Mapping[str, str]:
    """Meaning of each of EIA's codes of a kind, such as "energy source" or "state", from data/grid/eia_codes.csv."""
    rows = read_csv(files.data("grid/eia_codes.csv"))
    return {row["code"]: row["meaning"] for row in rows if row["kind"] == kind}


@cache
def authority_codes() -> Mapping[str, Mapping[str, str]]:
    """Balancing authorities that EIA's forms name: name, region, interconnect and serves_load ("1" or "0") by code."""
    return {row["authority"]: row for row in read_csv(files.data("grid/authorities.csv"))}


@cache
def interconnects() -> Mapping[str, str]:
    """Interconnection of each of `authority_codes`."""
    return {code: row["interconnect"] for code, row in authority_codes().items()}


def check_authorities(codes: Iterable[str], where: str) -> None:
    """Raise UnknownName (a ValueError) for the first code that is no balancing authority; "" passes."""
    if stray := sorted(set(codes) - set(authority_codes()) - {""}):
        raise catalog.UnknownName(f"{where}: balancing authority", stray[0], list(authority_codes()))


def plain_name(name: object) -> str:
    """A column's name without case, underscores and spaces that differ between years of a form."""
    return " ".join(re.sub(r"[_\s]+", " ", "" if name is None else str(name)).lower().split())


def split_unit(name: object) -> tuple[str, str]:
    """A column's plain name without its unit, and the unit: ("demand (adjusted)", "mw") of "Demand (MW) (Adjusted)"."""
    text = plain_name(name)
    match = _UNIT.search(text)
    if match is None:
        return text, ""
    stem = re.sub(r"\(\s*\)", "", text[: match.start()] + text[match.end() :])
    return " ".join(stem.split()), _WORDS.get(match[0], match[0])


def find_columns(names: Sequence[object], wanted: Mapping[str, Sequence[str]], where: str) -> dict[str, object]:
    """The table's name of each wanted column, which may be spelled in several ways.

    Raises ValueError naming the file and a column that is missing, with the nearest, or one in another unit.
    """
    by_plain_name = {plain_name(name): name for name in reversed(names) if name is not None}
    columns = {}
    for key, spellings in wanted.items():
        plain = [name for name in map(plain_name, spellings) if name in by_plain_name]
        if not plain:
            raise ValueError(_missing(by_plain_name, spellings, where))
        columns[key] = by_plain_name[plain[0]]
    return columns


def _missing(by_plain_name: Mapping[str, object], spellings: Sequence[str], where: str) -> str:
    """A refusal of a table that lacks a column, or has it in another unit."""
    units_wanted = dict(map(split_unit, spellings))
    for name, column in by_plain_name.items():
        stem, unit = split_unit(name)
        if stem in units_wanted and unit:
            wanted = units_wanted[stem] or "no unit"
            return f"{where}: column {column!r} is in {unit}, expected {wanted}: convert it and rename it"
    near = [str(by_plain_name[name]) for name in catalog.near_names(plain_name(spellings[0]), by_plain_name)]
    there = f"the nearest are {', '.join(map(repr, near))}" if near else "none is like it"
    return f"{where}: no column {spellings[0]!r}; {there}: give the file as EIA publishes it"


def as_numbers(table: pd.DataFrame, column: object, where: str) -> pd.Series:
    """A column as numbers, NaN where blank or "."; separators of thousands are read.

    Raises ValueError naming the file, the column and the first text that is no number.
    """
    values = table[column]
    if pd.api.types.is_numeric_dtype(values):
        return values.astype(float)
    text = values.astype(object).map(lambda cell: "" if pd.isna(cell) else str(cell).replace(",", "").strip())
    blank = text.isin(["", "."])
    read = pd.to_numeric(text.where(~blank), errors="coerce")
    if (bad := read.isna() & ~blank).any():
        raise ValueError(f"{where}: column {column!r} holds {text[bad].iloc[0]!r}, expected a number: correct that row")
    return read.astype(float)


def check_has_rows(table: pd.DataFrame, where: str) -> None:
    """Raise ValueError for a table without rows."""
    if table.empty:
        raise ValueError(f"{where}: no rows below the header: give a file with data")


def existing_file(path: str | Path) -> Path:
    """The path of a regular file that exists. Raises ValueError."""
    if not files.regular_file(path := Path(path)):
        raise ValueError(f"path {str(path)!r} is no file: give one as EIA publishes it")
    return path


def read_table(path: Path, wanted: str, **options: Any) -> pd.DataFrame:
    """A table of a CSV, which may be compressed.

    wanted: what to give instead, for messages. options: of pandas.
    Raises ValueError naming the file for what is no CSV, and no text in UTF-8.
    """
    try:
        table = pd.read_csv(path, keep_default_na=False, na_values=[""], **options)
    except UnicodeDecodeError:
        with path.open("rb") as stream:
            check_mark(stream.read(2), path.name)
        raise ValueError(f"{path.name} is no text in UTF-8: save the file in UTF-8") from None
    except (ValueError, OSError) as error:  # no columns, no such compression
        raise ValueError(f"{path.name}: cannot be read as CSV ({error}): give {wanted}") from None
    check_no_nul(",".join(map(str, table.columns)), path.name)
    return table


def read_parquet(path: Path) -> pd.DataFrame:
    """A table of a Parquet file. Raises ValueError naming the file where pyarrow cannot read it, or is missing."""
    needed_library("pyarrow", f"{path.name}: Parquet, unlike CSV, needs pyarrow", "sweeps")
    try:
        return pd.read_parquet(path, engine="pyarrow")
    except (ValueError, OSError) as error:  # pyarrow's own errors are of these kinds
        raise ValueError(f"{path.name}: cannot be read as Parquet ({error}): write it again, or give a CSV") from None


def is_parquet(path: Path) -> bool:
    """Whether a file's name ends as Parquet's do."""
    return path.suffix.lower() == ".parquet"


def in_country(latitude: pd.Series, longitude: pd.Series) -> pd.Series:
    """True for places within the bounds of the contiguous states and their shelf."""
    return latitude.between(*_LATITUDES) & longitude.between(*_LONGITUDES)
