"""Columns and codes of EIA's tables: finds columns by name, checks their units, and gives the meaning of codes."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import pandas as pd

from railcore.facts import catalog, files, units
from railcore.facts.tables import read_csv

_WORDS = {"watts": "w", "kilowatts": "kw", "megawatts": "mw", "megawatthours": "mwh"}
_UNIT = re.compile(r"\b(?:[kmgt]?wh?|kilowatts|megawatts|megawatthours|watts)\b")


@cache
def meanings(kind: str) -> Mapping[str, str]:
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
    """The table's own name of each wanted column, which may be spelled in several ways.

    Raises ValueError naming the file and a column that is not there, with the nearest that are, or whose unit is
    another than the one wanted.
    """
    own = {plain_name(name): name for name in reversed(names) if name is not None}
    found = {}
    for key, spellings in wanted.items():
        here = [own[plain_name(spelling)] for spelling in spellings if plain_name(spelling) in own]
        if not here:
            raise ValueError(_missing(own, spellings, where))
        found[key] = here[0]
    return found


def _missing(own: Mapping[str, object], spellings: Sequence[str], where: str) -> str:
    stems = {split_unit(spelling)[0]: split_unit(spelling)[1] for spelling in spellings}
    for name, given in own.items():
        stem, of = split_unit(name)
        if stem in stems and of:
            return (
                f"{where}: column {given!r} is in {of}, expected {stems[stem] or 'no unit'}: convert it and rename it"
            )
    near = [str(own[name]) for name in difflib.get_close_matches(plain_name(spellings[0]), list(own), n=3, cutoff=0.3)]
    there = f"the nearest are {', '.join(map(repr, near))}" if near else "none is like it"
    return f"{where}: no column {spellings[0]!r}; {there}: give the file as EIA publishes it"


def as_watts(table: pd.DataFrame, column: object, where: str) -> pd.Series:
    """A column of MW in watts, NaN where blank or "."; separators of thousands are read.

    Raises ValueError naming the file, the column and the first text that is no number.
    """
    return as_numbers(table, column, where) * units.MW


def as_numbers(table: pd.DataFrame, column: object, where: str) -> pd.Series:
    """A column as numbers, NaN where blank or "."; errors as `as_watts`."""
    values = table[column]
    if pd.api.types.is_numeric_dtype(values):
        return values.astype("Float64").astype(float)
    text = values.astype(object).map(lambda cell: "" if pd.isna(cell) else str(cell).replace(",", "").strip())
    blank = text.isin(["", "."])
    read = pd.to_numeric(text.where(~blank), errors="coerce")
    if (bad := read.isna() & ~blank).any():
        raise ValueError(f"{where}: column {column!r} holds {text[bad].iloc[0]!r}, expected a number: correct that row")
    return read.astype(float)


def with_rows(table: pd.DataFrame, where: str) -> pd.DataFrame:
    """The table. Raises ValueError where it has no rows."""
    if not len(table):
        raise ValueError(f"{where}: no rows below the header: give a file with data")
    return table


def existing_file(path: str | Path) -> Path:
    """The path of a file that exists. Raises ValueError."""
    if not (path := Path(path)).is_file():
        raise ValueError(f"path {str(path)!r} is no file: give one as EIA publishes it")
    return path
