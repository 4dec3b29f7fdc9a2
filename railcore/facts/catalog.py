"""The catalog: numbers of the world, one row per value with unit, source and date, read from data/catalog.

A family is a file (gpus, platforms, switches, ...), an item is a name in it, a value is one of its parameters.
The variable RAILCORE_CATALOG names a folder of files of the same form that is laid over ours.
"""

import csv
import difflib
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from railcore.facts import files, units

COLUMNS = ("name", "parameter", "value", "low", "high", "unit", "kind", "source", "as_of", "note")
INPUT_COLUMNS = ("notebook", "family", "name", "parameter", "value", "unit", "kind", "source", "as_of")
KINDS = ("datasheet", "paper", "measured", "derived", "assumed")


class UnknownName(KeyError, ValueError):
    """A name that the catalog or the ledger does not have; the message lists the nearest ones."""

    def __init__(self, what: str, name: object, known: Iterator[str] | list[str]):
        known = sorted(known)
        near = difflib.get_close_matches(str(name).lower(), [entry.lower() for entry in known], n=3, cutoff=0.4)
        nearest = [entry for entry in known if entry.lower() in near] or known[:8]
        super().__init__(f"{what} {name!r} does not exist: the nearest are {', '.join(map(repr, nearest))}")

    def __str__(self) -> str:
        return self.args[0]


@dataclass(frozen=True)
class Value:
    """One row of a family. `value`, `low` and `high` are in SI units, or None; a reference to another item is text."""

    family: str
    name: str
    parameter: str
    value: Any
    low: Any
    high: Any
    unit: str
    kind: str
    source: str
    as_of: str
    note: str


_used: dict[tuple[str, str, str], Value] = {}


def rows_used() -> list[dict[str, str]]:
    """Rows that this process has looked up, sorted: the inputs of a notebook, as texts in their own units."""
    rows = []
    for _, row in sorted(_used.items()):
        value = row.value if row.unit == "name" else f"{units.convert(row.value, row.unit):.12g}"
        rows.append({column: getattr(row, column) for column in INPUT_COLUMNS[1:]} | {"value": value})
    return rows


@dataclass(frozen=True)
class Item(Mapping):
    """An item of the catalog: item["power"] is the SI value, item.row("power") the whole row with its source."""

    name: str
    family: str
    rows: tuple[Value, ...]

    def row(self, parameter: str) -> Value:
        """The row of a parameter. Raises UnknownName listing the nearest ones."""
        for row in self.rows:
            if row.parameter == parameter:
                _used[self.family, self.name, parameter] = row
                return row
        raise UnknownName(f"parameter of {self.name!r} in {self.family}", parameter, list(self))

    def __getitem__(self, parameter: str):
        return self.row(parameter).value

    def __iter__(self) -> Iterator[str]:
        return (row.parameter for row in self.rows)

    def __contains__(self, parameter: object) -> bool:
        return any(row.parameter == parameter for row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def _number(text: str, factor: float, what: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text) * factor
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{what}: {text!r} is no finite number: write it without separators")
    return value


def _value(family: str, row: dict[str, str], where: str) -> Value:
    text = {key: (row.get(key) or "").strip() for key in COLUMNS}
    where = f"{where}, {text['name']} {text['parameter']}"
    for key in ("name", "parameter", "value", "unit", "source"):
        if not text[key]:
            raise ValueError(f"{where}: column {key!r} is blank: fill it in")
    if text["kind"] not in KINDS:
        raise ValueError(f"{where}: kind {text['kind']!r} is none of {', '.join(KINDS)}")
    numbers: dict[str, Any] = {"value": text["value"], "low": None, "high": None}
    if text["unit"] == "name" and text["kind"] == "assumed":
        raise ValueError(f"{where}: a name has no bounds, so its kind cannot be 'assumed'")
    if text["unit"] != "name":
        try:
            factor = units.unit(text["unit"])[1]
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
        numbers = {key: _number(text[key], factor, f"{where}, column {key!r}") for key in numbers}
        value, low, high = numbers.values()
        if (low is not None and low > value) or (high is not None and high < value):
            raise ValueError(f"{where}: value {text['value']} is not between low {text['low']} and high {text['high']}")
        if text["kind"] == "assumed" and None in (low, high):
            raise ValueError(f"{where}: kind 'assumed' needs low and high")
    fields: dict[str, Any] = {**text, **numbers}
    return Value(family, **fields)


def _rows(path: Path) -> list[Value]:
    """Rows of a file, its family by its name."""
    where = path.relative_to(files.DATA.parent) if path.is_relative_to(files.DATA.parent) else path
    with path.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise ValueError(f"{where}: columns are {reader.fieldnames}: write {','.join(COLUMNS)}")
        rows = []
        for row in reader:
            if None in row:
                raise ValueError(f"{where} line {reader.line_num}: a comma too many: quote texts that hold commas")
            rows.append(_value(path.stem, row, f"{where} line {reader.line_num}"))
    keys = [(row.name, row.parameter) for row in rows]
    if len(set(keys)) < len(keys):
        twice = next(key for i, key in enumerate(keys) if key in keys[:i])
        raise ValueError(f"{where}: duplicate row {' '.join(twice)}: delete one")
    return rows


@cache
def _family(family: str, overlay: str | None) -> dict[str, Item]:
    if family not in (known := families()):
        raise UnknownName("catalog family", family, known)
    rows: dict[tuple[str, str], Value] = {}
    paths = [files.data(f"catalog/{family}.csv")] if (files.DATA / f"catalog/{family}.csv").exists() else []
    if overlay and (extra := Path(overlay) / f"{family}.csv").exists():
        paths.append(extra)
    for path in paths:
        rows |= {(row.name, row.parameter): row for row in _rows(path)}
    items = dict.fromkeys(name for name, _ in rows)
    return {name: Item(name, family, tuple(row for row in rows.values() if row.name == name)) for name in items}


def _overlay() -> str | None:
    overlay = os.environ.get("RAILCORE_CATALOG") or None
    if overlay and not Path(overlay).is_dir():
        raise ValueError(f"RAILCORE_CATALOG is {overlay!r}, which is no folder: name a folder of catalog CSV files")
    return overlay


def families() -> list[str]:
    """Names of the catalog's files, sorted."""
    overlay = _overlay()
    folders = [files.DATA / "catalog", *([Path(overlay)] if overlay else [])]
    return sorted({path.stem for folder in folders for path in folder.glob("*.csv")})


def names(family: str) -> list[str]:
    """Items of a family, in the file's order."""
    return list(_family(family, _overlay()))


def item(family: str, name: str) -> Item:
    """An item such as item("platforms", "DGX H100"). Raises UnknownName (a KeyError and ValueError)."""
    items = _family(family, _overlay())
    if name not in items:
        raise UnknownName(f"{family} item", name, list(items))
    return items[name]


def variant_value(item: Item, parameter: str, variant: str = "") -> Any:
    """Value of the row <parameter>_<variant>, such as an announced size, or of <parameter> where there is none."""
    named = f"{parameter}_{variant}"
    return item[named if named in item else parameter]


def values(kind: str | None = None) -> list[Value]:
    """Every row of every family, or those of one kind: values("assumed")."""
    if kind is not None and kind not in KINDS:
        raise ValueError(f"kind {kind!r} is none of {', '.join(KINDS)}")
    rows = [row for family in families() for name in names(family) for row in item(family, name).rows]
    return [row for row in rows if kind in (None, row.kind)]
