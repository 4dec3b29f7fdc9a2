"""Rows as CSV and Markdown text, and tables as people read them: `readable`."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railcore.facts import units

if TYPE_CHECKING:
    import pandas as pd

_COLUMN_UNITS = {"usd": "USD", "w": "W", "Bps": "bps", "bytes": "B", "s": "s", "m": "m", "kg": "t"}
_AMOUNT = re.compile(r"(?<=\d) ((?:[kMGTPE] )?)([^\s,;:.)|]+)")  # what may be a unit, behind a digit
_DOLLAR = "<span>&#36;</span>"  # JupyterLab and GitHub typeset what is between two bare ones, and between two of "\\$"


def markdown_words(text: str) -> str:
    """Words with amounts such as $100B as Markdown that shows them: what is between two bare $ would be a formula."""
    return text.replace("$", _DOLLAR)


@dataclass(frozen=True)
class MarkdownText:
    """Markdown that Jupyter and GitHub render as the result of a cell; amounts in dollars are escaped."""

    text: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", markdown_words(self.text))

    def _repr_markdown_(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


def csv_text(columns: Sequence[str], rows: Iterable[Mapping]) -> str:
    """Rows (mappings) as CSV text with a header and plain line ends."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file, none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8-sig") as stream:  # some editors put a mark before the first column
        return list(csv.DictReader(stream))


def markdown_table(rows: Sequence[Mapping]) -> str:
    """Rows (mappings with the same keys) as a Markdown table, columns of numbers to the right.

    A number and its unit stay on one line: a space that does not break is between them.
    """
    if not rows:
        return "none\n"
    columns = list(rows[0])
    right = [all(_numeric(row[column]) for row in rows) for column in columns]
    lines = [columns, ["---:" if flag else ":---" for flag in right], *([row[c] for c in columns] for row in rows)]
    return "".join(f"| {' | '.join(map(_cell_text, cells))} |\n" for cells in lines)


def _cell_text(cell: object) -> str:
    return _unbroken(markdown_words(str(cell).replace("|", "/")))


def _unbroken(text: str) -> str:
    """Text whose numbers do not part from their units."""
    return _AMOUNT.sub(lambda found: found[0].replace(" ", "\u00a0") if _is_unit(found[2]) else found[0], text)


def _is_unit(symbol: str) -> bool:
    try:
        return bool(units.unit(symbol))
    except ValueError:
        return False


def aligned_table(rows: Sequence[Mapping]) -> str:
    """Rows (mappings with the same keys) as lines for a terminal, columns of numbers to the right."""
    columns = list(rows[0]) if rows else []
    lines = [columns, *([str(row[column]) for column in columns] for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    pads = [str.rjust if all(_numeric(row[column]) for row in rows) else str.ljust for column in columns]
    padded = [[pad(*cell) for pad, *cell in zip(pads, line, widths, strict=True)] for line in lines]
    return "".join(f"{'  '.join(cells).rstrip()}\n" for cells in padded)


def _numeric(cell: object) -> bool:
    """True for a number, perhaps with a relation before it and a unit behind it, and for an empty cell."""
    words = str(cell).strip("=≈≤≥+-–∞% ").replace(",", "").split() or ["0"]
    try:
        float(words[0])
    except ValueError:
        return False
    return len(words) <= 3


def readable(table: "pd.DataFrame", digits: int = 6) -> "pd.DataFrame":
    """Every cell as text with so many significant digits at most, counts whole; a unit of the column in each cell.

    "cost_usd" becomes "cost" with cells such as "305.2 M USD", "hb_domain_size" becomes "HB domain size". To be printed
    with `print(readable(table).to_string())`, or `.T.to_string()` for columns as rows.
    """
    columns = {}
    for name, column in table.items():
        words = str(name).split("_")
        at = next((i for i in (len(words) - 1, *range(1, len(words) - 1)) if words[i] in _COLUMN_UNITS), 0)
        unit = _COLUMN_UNITS[words[at]] if at and not words[0].startswith("share") else ""
        label = units.words("_".join(words[:at] + words[at + 1 :]) if unit else str(name))
        columns[label if label not in columns else units.words(str(name))] = [
            cell if isinstance(cell, str) else _cell(cell, unit, digits) for cell in column
        ]
    return type(table)(columns)


def _cell(value: Any, unit: str, digits: int) -> str:
    special = {"nan": "–", "NaT": "–", "<NA>": "–", "inf": "∞", "True": "yes", "False": "no"}
    if isinstance(value, datetime):
        return special.get(f"{value}") or f"{value:%Y-%m-%d %H:%M}"
    digits = 4 if unit else 12 if isinstance(value, Integral) else digits  # a count is exact
    return special.get(f"{value}") or units.show(value, unit, digits)
