"""data/claims.csv, every quantitative claim of the documents: read once, and checked when it is read."""

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from functools import cache
from typing import NoReturn

from railcore.catalog import files
from railcore.catalog.tables import read_csv
from railcore.catalog.units import unit as unit_of

# cut: the document prints the first digits and cuts the others off.
RELATIONS = {"=": "=", "~": "≈", "<": "≤", ">": "≥", "cut": "="}
_FILE = "claims.csv"
# Units beside those of railcore.catalog.units: what is counted, and how far a formula or rule is off.
_COUNTED = (
    "transfers weights interfaces replicas stages addresses rounds rank authorities devices inputs VLANs subnets units "
    "neighbors windows groups pairs neurons scopes rail"
).split()
_COUNTED += ["GPU pairs", "relative error", "share broken"]
_REASON = "tolerance:"  # begins the reason for a tolerance in a note
_ROUNDED = 0.05  # of a tolerance that is written with two digits or so


@dataclass(frozen=True)
class Claim:
    """One quantitative claim; `paper_value` is in `unit`, `tolerance` relative (absolute where paper_value is 0).

    tolerance: of = and ~ half a unit of the last printed digit that is not 0, of `cut` a whole one, and 0 of a whole
    count; another one has its reason in the note.
    """

    id: str
    document: str
    where: str
    claim: str
    paper_value: float
    unit: str
    relation: str
    tolerance: float
    note: str
    notebook: str

    @property
    def place(self) -> str:
        """`where` for a person: "Section 4.1" of "4.1"."""
        return f"Section {self.where}" if self.where[:1].isdigit() else self.where


@cache
def claims() -> dict[str, Claim]:
    """All claims by id, in the order of data/claims.csv.

    Raises ValueError that names row, column and remedy: for columns that are not those of `Claim`, a blank cell (a note
    may be blank, and the tolerance of < and >), an id that is there twice or not below its document, a number that is
    not finite, a tolerance below 0 or not that of the digits without its reason, and an unknown unit, relation or
    notebook. What is no CSV text in UTF-8 is named.
    """
    path = files.data(_FILE)
    try:
        reader = csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline=""), strict=True)
        rows = [(reader.line_num, row) for row in reader]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"data/{_FILE} is no CSV text in UTF-8 ({error}): save it as that, or restore it") from None
    columns = [field.name for field in fields(Claim)]
    if (header := list(reader.fieldnames or ())) != columns:
        raise ValueError(f"data/{_FILE} has the columns {', '.join(header)}: it must have {', '.join(columns)}")
    notebooks = {row["notebook"] for name in ("figures.csv", "extras.csv") for row in read_csv(files.data(name))}
    ids: dict[str, Claim] = {}
    for line, row in rows:
        entry = _checked(line, row, notebooks)
        if entry.id in ids:
            _refuse(line, "id", entry.id, "it is there twice: give each claim an id of its own")
        ids[entry.id] = entry
    return ids


def _checked(line: int, row: Mapping[str, str], notebooks: set[str]) -> Claim:
    """The claim of a row. line: of the file, where the row ends."""
    if None in row or None in row.values():
        _refuse(line, "id", row.get("id"), "the row has more or fewer cells than the file has columns: quote commas")
    may_be_blank = {"note"} | ({"tolerance"} if row["relation"] in ("<", ">") else set())
    for name, cell in row.items():
        if not cell.strip() and name not in may_be_blank:
            _refuse(line, name, cell, "it may not be blank")
    if not row["id"].startswith(f"{row['document']}."):
        _refuse(line, "id", row["id"], f"begin it with the document: {row['document']}. ...")
    if row["relation"] not in RELATIONS:
        _refuse(line, "relation", row["relation"], f"write one of {' '.join(RELATIONS)}")
    if row["unit"] not in _COUNTED and not _is_unit(row["unit"]):
        _refuse(
            line, "unit", row["unit"], "it is unknown: write a unit as in the catalog, or one that other claims have"
        )
    if row["notebook"] not in notebooks:
        _refuse(line, "notebook", row["notebook"], "it makes no figure or table of data/figures.csv or data/extras.csv")
    numbers = {name: _number(line, name, row[name] or "0") for name in ("paper_value", "tolerance")}
    value, width, relation = *numbers.values(), row["relation"]
    if width < 0:
        _refuse(line, "tolerance", row["tolerance"], "write 0 or more")
    if value and relation not in ("<", ">") and _REASON not in row["note"]:
        exact = width == 0 and value.is_integer() and _counts(row["unit"])
        rule = printed_digit(value) * (1.0 if relation == "cut" else 0.5) / abs(value)
        if not exact and abs(width / rule - 1) > _ROUNDED:
            _refuse(
                line,
                "tolerance",
                row["tolerance"],
                f"the digits give {rule:.3g}: write it, or say why: {_REASON} ... in note",
            )
    return Claim(**{**row, **numbers})  # type: ignore[arg-type]


def _counts(symbol: str) -> bool:
    """Whether what has this unit is a whole number."""
    return symbol in _COUNTED or (symbol not in ("1", "fraction") and unit_of(symbol)[0] == "1")


def printed_digit(value: float) -> float:
    """A unit of the last digit of a number that is not 0: 0.01 of 0.75, 100 of 23,300."""
    return 10.0 ** int(Decimal(f"{value:.12g}").normalize().as_tuple().exponent)


def _number(line: int, name: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        _refuse(line, name, cell, "write a finite number")
    return value


def _is_unit(symbol: str) -> bool:
    try:
        return bool(unit_of(symbol))
    except ValueError:
        return False


def _refuse(line: int, name: str, cell: object, why: str) -> NoReturn:
    raise ValueError(f"data/{_FILE}, line {line}, column {name} is {cell!r}: {why}")
