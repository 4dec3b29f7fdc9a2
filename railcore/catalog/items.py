"""The catalog: numbers of the world, one row per value with unit, source and date, read from data/catalog.

A family is a file (gpus, platforms, switches, ...), an item is a name in it, a value is one of its parameters.
The variable RAILCORE_CATALOG names a folder of files of the same form that is laid over ours.
"""

import csv
import io
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from railcore.catalog import checks, files, tables, units
from railcore.catalog.letters import hidden_character_fault
from railcore.catalog.lookup import UnknownName, nearest_names
from railcore.catalog.text_files import read_text

COLUMNS = ("name", "parameter", "value", "low", "high", "unit", "kind", "source", "as_of", "note", "shape")
OLD_COLUMNS = COLUMNS[:-1]  # which a user's file may have
INPUT_COLUMNS = ("notebook", "family", "name", "parameter", "value", "unit", "kind", "source", "as_of")
KINDS = ("datasheet", "paper", "measured", "derived", "assumed")
SHAPES = ("linear", "log", "whole")
GPU_FAMILIES = ("gpus", "efficiencies")  # files in which a GPU has rows
BOOKS = {"prices": ("price", "USD"), "powers": ("power", "W")}  # files in which a book has rows: of what, and its unit
_SHEETS = (".xlsx", ".xls", ".ods", ".txt", ".tsv")
_SHOWN = 10  # faults of a file in a message
_MOST_LETTERS, _LETTERS = 2_000, 100  # of a cell; of a row's name and parameter in a message
GIVEN = "given on the command line"  # source of what a template has filled in


class MissingRow(UnknownName):
    """A row that an item lacks; the message lists all rows that it lacks for the same use, and how to add them."""

    def __init__(self, family: str, name: str, parameter: str):
        need = next(need for need in row_needs(family) if need.parameter == parameter)
        use = f", needed for {' and '.join(need.uses)}" if need.uses else ""
        there = "" if need.required else f"; the nearest that it has are {nearest_names(parameter, item(family, name))}"
        if family == "gpus" and parameter.endswith("_rate") and there:
            there += ": give one of these as the rate, or add it"
        rows = rows_to_add(family, name, parameter)
        KeyError.__init__(self, f"{name!r} of {family} has no row {parameter!r}{use}{there}{rows}")


@dataclass(frozen=True)
class Value:
    """One row of a family.

    name, parameter: of the item, and which of its numbers this is.
    value, low, high: in SI units, or None; a reference to another item is text.
    unit: as the file has it.
    kind: of KINDS.
    source, as_of, note: where it comes from, and when.
    shape: of SHAPES, how `distributions` spreads it from low to high; "" where low and high do not differ.
    own: whether a folder of RAILCORE_CATALOG has it.
    """

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
    shape: str = ""
    own: bool = False  # of the folder in RAILCORE_CATALOG


@dataclass(frozen=True)
class RowNeed:
    """A row that railcore asks of the items of a family, as declared in data/catalog_rows.csv.

    uses: what it is needed for, none where the row may be left out.
    required: an item without it is of little use.
    heading: of its column in lists, "" where it is not shown there.
    """

    family: str
    parameter: str
    unit: str
    uses: tuple[str, ...]
    required: bool
    heading: str
    meaning: str


Used = dict[tuple[str, str, str], Value]  # rows by family, item and parameter
_recordings: list[Used] = []  # that are open, the outermost first


@contextmanager
def recording() -> Iterator[Used]:
    """Rows that are looked up inside, by this process: `with recording() as used:`; nothing is recorded outside.

    Each of several open recordings gets every row. A row counts where its value is looked up, by item["power"], get or
    row, and not where an item's `rows` are listed. What a cache holds is not looked up again.
    """
    used: Used = {}
    _recordings.append(used)
    try:
        yield used
    finally:
        _recordings.pop()


def input_rows(used: Used) -> list[dict[str, str]]:
    """Rows of a recording, sorted, as the inputs of a notebook: texts in their own units."""
    rows = []
    for _, row in sorted(used.items()):
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
        """The row of a parameter. Raises UnknownName: with all rows that the item lacks, or the nearest parameters."""
        if row := self._used_row(parameter):
            return row
        if any(need.parameter == parameter for need in row_needs(self.family)):
            raise MissingRow(self.family, self.name, parameter)
        raise UnknownName(f"parameter of {self.name!r} in {self.family}", parameter, self)

    def get(self, parameter: str, default: Any = None) -> Any:
        """The value of a parameter, or the default where the item has no such row."""
        row = self._used_row(parameter)
        return row.value if row else default

    def _used_row(self, parameter: str) -> Value | None:
        """The row of a parameter, which open recordings get."""
        for row in self.rows:
            if row.parameter == parameter:
                for used in _recordings:
                    used[self.family, self.name, parameter] = row
                return row
        return None

    def __getitem__(self, parameter: str):
        return self.row(parameter).value

    def __iter__(self) -> Iterator[str]:
        return (row.parameter for row in self.rows)

    def __contains__(self, parameter: object) -> bool:
        return any(row.parameter == parameter for row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)


def _number(text: str, factor: float, what: str, faults: list[str]) -> float | None:
    try:
        value = float(text) * factor if text else None
    except ValueError:
        value = math.nan
    if value is not None and not math.isfinite(value):
        faults.append(f"{what}: {checks.short(text)} is no finite number: write a decimal point and no separators")
        return None
    return value


def _value(family: str, text: dict[str, str], of_user: bool, faults: list[str]) -> Value:
    """A row from its texts; what is wrong with it goes to `faults`, each with its remedy."""
    faults += [f"column {key!r} is blank: fill it in" for key in (*COLUMNS[:3], "unit", "source") if not text[key]]
    faults += [f"column {key!r} {fault}" for key, cell in text.items() if (fault := hidden_character_fault(cell))]
    if text["kind"] not in KINDS:
        faults.append(f"kind {text['kind']!r} is none of {', '.join(KINDS)}")
    numbers: dict[str, Any] = {"value": text["value"], "low": None, "high": None}
    if text["unit"] == "name" and text["kind"] == "assumed":
        faults.append("a name has no bounds, so its kind cannot be 'assumed'")
    dimension, factor = "name", 1.0
    if text["unit"] not in ("", "name"):
        try:
            dimension, factor = units.unit(text["unit"])
        except ValueError as error:
            faults.append(str(error))
        numbers = {key: _number(text[key], factor, f"column {key!r}", faults) for key in numbers}
        value, low, high = numbers.values()
        if value is not None and ((low is not None and low > value) or (high is not None and high < value)):
            faults.append(f"value {text['value']} is not between low {text['low']} and high {text['high']}")
        if text["kind"] == "assumed" and not (text["low"] and text["high"]):
            faults.append("kind 'assumed' needs low and high")
    numbers["shape"] = _shape(text, numbers, dimension, of_user, faults)
    if of_user and not faults:
        wanted = {need.parameter: need.unit for need in row_needs(family)}.get(text["parameter"], text["unit"])
        if dimension != ("name" if wanted == "name" else units.unit(wanted)[0]):
            faults.append(f"unit {text['unit']!r} does not fit {text['parameter']}: write {wanted}")
        elif family == "platforms" and text["parameter"] == "gpu" and text["value"] not in names("gpus"):
            gpu = text["value"]  # the platforms are being read: not to be asked which of them have it
            near, rows = nearest_names(gpu, names("gpus")), _rows_to_add([(name, gpu) for name in GPU_FAMILIES])
            faults.append(f"{gpu!r} is no GPU of gpus.csv: the nearest are {near}{rows}")
        elif (parameters := _parameters(family)) and not _is_of(parameters, text["parameter"]):
            near = nearest_names(text["parameter"], parameters)
            faults.append(f"unknown parameter {text['parameter']!r}: the nearest are {near}")
    return Value(family, **{**text, **numbers}, own=of_user)


def _shape(text: dict[str, str], numbers: dict[str, Any], dimension: str, of_user: bool, faults: list[str]) -> str:
    """Shape of a row's distribution, "" where low and high do not differ.

    By default of a user's row: log where low is above 0 and the unit is no plain number, else linear.
    """
    shape, low, high = text["shape"], numbers["low"], numbers["high"]
    if shape and shape not in SHAPES:
        faults.append(f"shape {shape!r} is none of {', '.join(SHAPES)}")
    elif shape and text["kind"] != "assumed" and not (text["low"] and text["high"]):
        faults.append(f"shape {shape!r} needs low and high: give both, or leave it blank")
    if low is None or high is None or low == high:
        return ""
    if shape == "log" and low <= 0:
        faults.append(f"shape 'log' needs a low above 0, not {text['low']}: write linear")
    elif shape == "whole" and any(number and number % 1 for number in numbers.values()):
        faults.append("shape 'whole' needs whole numbers as value, low and high: write linear")
    elif not shape and of_user:
        return "log" if low > 0 and dimension != "1" else "linear"
    elif not shape:
        faults.append(f"column 'shape' is blank: write one of {', '.join(SHAPES)}")
    return shape


def _parameters(family: str) -> tuple[str, ...]:
    """Parameters of our items and those that railcore asks for; none for a family of which it asks no certain rows."""
    asked = {need.parameter for need in row_needs(family)}
    return tuple(asked | {name for item in _family(family, None, 0).values() for name in item}) if asked else ()


def _is_of(parameters: Iterable[str], parameter: str) -> bool:
    """Whether a parameter is one of these, or one with "_" and a word more, as `variant_row` reads it."""
    return any(f"{parameter}_".startswith(f"{plain}_") for plain in parameters)


def _rows(path: Path, of_user: bool = False) -> list[Value]:
    """Rows of a file, whose name is the family. Raises ValueError with the faults of the whole file."""
    where = path.relative_to(files.DATA.parent) if path.is_relative_to(files.DATA.parent) else path
    return rows_of_text(csv_content(path, str(where)), path.stem, str(where), of_user)


def csv_content(path: Path, where: str) -> str:
    """Text of a CSV file. where: what messages call it. Raises ValueError for what cannot be read."""
    try:
        return read_text(path, where)
    except OSError as error:
        raise ValueError(files.refusal(error)) from None


def rows_of_text(content: str, family: str, where: str, of_user: bool = False) -> list[Value]:
    """Rows of a CSV of a family; rows and items that are not filled in are left out.

    Parameters
    ----------
    content
        Its text.
    family
        Of the rows.
    where
        What messages call it.
    of_user
        Whether it is a user's, which may lack the column shape, and is held against the rows that railcore asks for.

    Returns
    -------
    Rows, each once.

    Raises
    ------
    ValueError
        With the faults of the whole text, each by its line.
    """
    try:
        reader = csv.DictReader(io.StringIO(content, newline=""), strict=True)
        header = reader.fieldnames or ()
        read = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise ValueError(f"{where} line {reader.line_num}: {error}: is the file cut, or a quote not closed?") from None
    if tuple(header) not in ((COLUMNS, OLD_COLUMNS) if of_user else (COLUMNS,)):
        divided = next((sign for sign in ";\t" if any(sign in cell for cell in header)), "")
        remedy = f"; it is divided by {divided!r}: save it with commas, and points in numbers" if divided else ""
        raise ValueError(f"{where}: columns are {str(list(header))[:_MOST_LETTERS]}: write {','.join(COLUMNS)}{remedy}")
    rows: dict[tuple[str, str], Value] = {}
    messages: list[str] = []
    lines = [(line, row, {key: (row.get(key) or "").strip() for key in COLUMNS}) for line, row in read]
    filled = [any(text[key] for key in ("value", "low", "high", "source")) for _, _, text in lines]
    begun = {text["name"] for (_, _, text), some in zip(lines, filled, strict=True) if some and text["source"] != GIVEN}
    for (line, row, text), some in zip(lines, filled, strict=True):
        short = sum(row[column] is None for column in header)
        if (
            short == 1
            and of_user
            and header[-1] == COLUMNS[-1]
            and (line < read[-1][0] or content.endswith(("\n", "\r")))
        ):
            short = 0  # the row of an older file, which had no shape
        if None not in row and not short and not (some and text["name"] in begun):
            continue
        key, faults = (text["name"], text["parameter"]), []
        if None in row:
            faults.append("a comma too many: quote texts that hold commas")
        elif short:
            faults.append(f"{len(header) - short} cells of {len(header)}: is the file cut? Blank cells need commas too")
        elif long := [column for column, cell in text.items() if len(cell) > _MOST_LETTERS]:
            faults.append(f"column {long[0]!r} has {len(text[long[0]]):,} letters: give at most {_MOST_LETTERS:,}")
        else:
            value = _value(family, text, of_user, faults)
            if key in rows:
                faults.append("duplicate row: delete one")
            rows[key] = value
        messages += [f"line {line}, {' '.join(key)[:_LETTERS]}: {fault}" for fault in faults]
    if len(messages) == 1:
        raise ValueError(f"{where} {messages[0]}")
    if messages:
        more = [f"and {len(messages) - _SHOWN} more"] if len(messages) > _SHOWN else []
        raise ValueError("\n  ".join([f"{where} has {len(messages)} faults:", *messages[:_SHOWN], *more]))
    return list(rows.values())


@cache
def _family(family: str, overlay: Path | None, _changed: int) -> dict[str, Item]:
    """Items of a family, with the rows of a user's file laid over ours; read again when that file has changed."""
    rows = {(row.name, row.parameter): row for row in _rows(files.data(f"catalog/{family}.csv"))}
    if overlay:
        rows |= {(row.name, row.parameter): row for row in _rows(overlay, of_user=True)}
    items = dict.fromkeys(name for name, _ in rows)
    return {name: Item(name, family, tuple(row for row in rows.values() if row.name == name)) for name in items}


_laid: ContextVar[tuple[Value, ...]] = ContextVar("rows laid over the catalog", default=())


@contextmanager
def laid_over(rows: Iterable[Value]) -> Iterator[None]:
    """Rows that lie over the catalog inside, for this thread or task alone; they are of items that the catalog has."""
    before = _laid.set((*_laid.get(), *rows))
    try:
        yield
    finally:
        _laid.reset(before)


def _items(family: str) -> dict[str, Item]:
    if family not in families():
        raise UnknownName("catalog family", family, families())
    rows = tuple(row for row in _laid.get() if row.family == family)
    version = own_version(family)
    return _with_rows(family, *version, rows) if rows else _family(family, *version)


@lru_cache(maxsize=64)
def _with_rows(family: str, overlay: Path | None, changed: int, rows: tuple[Value, ...]) -> dict[str, Item]:
    """Items of a family, with rows in place of their own."""
    items, new = dict(_family(family, overlay, changed)), {(row.name, row.parameter): row for row in rows}
    for name in dict.fromkeys(row.name for row in rows):
        of_item = {row.parameter: row for row in items[name].rows}
        of_item |= {parameter: row for (of, parameter), row in new.items() if of == name}
        items[name] = Item(name, family, tuple(of_item.values()))
    return items


def own_version(family: str) -> tuple[Path | None, int]:
    """The user's file that lies over a family, and when it was changed; while both are the same, so are the items."""
    if family not in _our_families():
        raise UnknownName("catalog family", family, _our_families())
    folder = os.environ.get("RAILCORE_CATALOG")
    overlay = Path(folder or "") / f"{family}.csv"
    return (overlay, overlay.stat().st_mtime_ns) if folder and files.regular_file(overlay) else (None, 0)


@cache
def _check_folder(folder: str, _changed: int) -> None:
    """Refuse a file of the folder that no family would read."""
    for path in sorted(Path(folder).iterdir()):
        if path.suffix.lower() == ".csv" and not path.name.startswith(".") and path.stem not in _our_families():
            near = nearest_names(path.stem, _our_families())
            raise ValueError(f"{path} is read by nothing: name it after a family, the nearest are {near}")
        if path.stem in _our_families() and path.suffix != ".csv" and path.suffix.lower() in (".csv", *_SHEETS):
            raise ValueError(f"{path} is read by nothing: save it as {path.stem}.csv, with commas, in UTF-8")
        if path.suffix == ".csv":
            files.regular_file(path)


@cache
def _our_families() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in (files.DATA / "catalog").glob("*.csv")))


def families() -> list[str]:
    """Names of the catalog's files, sorted. Raises ValueError for a folder in RAILCORE_CATALOG with others."""
    if folder := os.environ.get("RAILCORE_CATALOG"):
        try:
            if not Path(folder).is_dir():
                raise ValueError(f"RAILCORE_CATALOG is {folder!r}, which is no folder: name one of catalog CSV files")
            _check_folder(folder, Path(folder).stat().st_mtime_ns)
        except OSError as error:
            raise ValueError(f"RAILCORE_CATALOG cannot be read: {files.refusal(error)}") from None
    return list(_our_families())


def names(family: str) -> list[str]:
    """Items of a family, in the file's order."""
    return list(_items(family))


def item(family: str, name: str) -> Item:
    """An item such as item("platforms", "DGX H100"). Raises UnknownName (a KeyError and ValueError).

    The message has the nearest names, and all rows that a new item of this name needs, its GPU's included.
    """
    items = _items(family)
    if name not in items:
        raise UnknownName(f"{family} item", name, items, rows_to_add(family, name))
    return items[name]


def variant_row(item: Item, parameter: str, variant: str = "") -> str:
    """The item's row <parameter>_<variant>, such as an announced size, or <parameter> where it has none.

    Raises UnknownName for a variant that no item of the catalog has.
    """
    if variant and variant not in variants():
        raise UnknownName("variant", variant, variants())
    named = f"{parameter}_{variant}"
    return named if named in item else parameter


def variants() -> list[str]:
    """What `variant_row` takes, sorted: last words of rows such as memory_<variant>, and books."""
    return list(_variants(tuple(own_version(family) for family in families())))


@cache
def _variants(_versions: tuple) -> tuple[str, ...]:
    words = {name for family in BOOKS for name in names(family)}
    for row in values():
        for need in row_needs(row.family):
            if row.parameter.startswith(f"{need.parameter}_"):
                words.add(row.parameter.removeprefix(f"{need.parameter}_"))
    return tuple(sorted(words))


def values(kind: str | None = None) -> list[Value]:
    """Every row of every family, or those of one kind: values("assumed")."""
    if kind is not None and kind not in KINDS:
        raise ValueError(f"kind {kind!r} is none of {', '.join(KINDS)}")
    rows = [row for family in families() for name in names(family) for row in item(family, name).rows]
    return [row for row in rows if kind in (None, row.kind)]


@cache
def _all_needs() -> dict[str, tuple[RowNeed, ...]]:
    needs: dict[str, tuple[RowNeed, ...]] = {}
    for row in tables.read_csv(files.DATA / "catalog_rows.csv"):  # no result depends on it: no input of a run
        uses, required = row.pop("needed_for"), row.pop("required") == "yes"
        need = RowNeed(**row, uses=tuple(filter(None, uses.split("; "))), required=required)
        needs[need.family] = (*needs.get(need.family, ()), need)
    return needs


def row_needs(family: str = "") -> tuple[RowNeed, ...]:
    """Rows that railcore asks of a family's items; of all families where none is named."""
    needs = _all_needs()
    if family and family not in _our_families():
        raise UnknownName("catalog family", family, _our_families())
    return needs.get(family, ()) if family else tuple(need for of_family in needs.values() for need in of_family)


def related_items(family: str, name: str, gpu: str = "") -> list[tuple[str, str]]:
    """Families and items that need each other: a platform, its GPU's rates and its GPU's efficiencies.

    gpu: of a platform that has no row for it yet; "" for an unknown one.
    """
    if family not in _our_families():
        raise UnknownName("catalog family", family, _our_families())
    if family not in ("platforms", *GPU_FAMILIES):
        return [(family, name)]
    if family == "platforms":
        box, platforms = _items(family).get(name), [name]
        gpu = gpu or (str(box["gpu"]) if box and "gpu" in box else "")
    else:
        platforms = [key for key, box in _items("platforms").items() if box.get("gpu") == name]
        gpu = name
    return [*(("platforms", platform) for platform in platforms), *((name, gpu) for name in GPU_FAMILIES)]


def missing_rows(family: str, name: str) -> list[RowNeed]:
    """Rows that an item lacks, which may be all; the required ones first."""
    there = _items(family).get(name, ())
    lacking = [need for need in row_needs(family) if need.parameter not in there]
    return sorted(lacking, key=lambda need: not need.required)


def rows_to_add(family: str, name: str, parameter: str = "") -> str:
    """Rows that an item and its related items lack, and the command that prints them: the end of a refusal.

    parameter: a row that the item lacks: the text lists the rows for the same uses. Without it the text lists the
    required rows, and for each other use its rows. "" where nothing is missing.
    """
    return _rows_to_add(related_items(family, name), (family, parameter) if parameter else None)


def _rows_to_add(items: list[tuple[str, str]], asked: tuple[str, str] | None = None) -> str:
    """The text of `rows_to_add` for related items. asked: family and parameter of a row that one of them lacks."""
    uses = {use for need in row_needs() if (need.family, need.parameter) == asked for use in need.uses}
    lines, lacking = [], []
    for family, name in items:
        groups: dict[str, list[str]] = {}
        for need in missing_rows(family, name):
            if uses & set(need.uses) or asked == (family, need.parameter) or (need.required and not asked):
                groups.setdefault("", []).append(need.parameter)
            elif need.uses and not asked:
                groups.setdefault(f" (for {' and '.join(need.uses)})", []).append(need.parameter)
        if groups:
            rows = "; ".join(", ".join(parameters) + use for use, parameters in groups.items())
            lines.append(f"\n  {family}.csv, {repr(name) if name else 'its GPU if that is new'}: {rows}")
            lacking.append((family, name))
    if not lines:
        return ""
    gpu = " --gpu NAME" if ("gpus", "") in lacking else ""
    command = f'python -m railcore catalog template {lacking[0][0]} "{lacking[0][1]}"{gpu}'
    unset = "" if os.environ.get("RAILCORE_CATALOG") else "\nRAILCORE_CATALOG, the folder of your own rows, is not set"
    return f". Rows to add:{''.join(lines)}\n`{command}` prints them to fill in, with units{unset}"
