"""Rows as CSV and Markdown text, and tables as people read them: `readable`."""

import csv
import html
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from railcore.catalog import units
from railcore.catalog.arguments import Count, checked

if TYPE_CHECKING:
    import pandas as pd

_COLUMN_UNITS = {"usd": "USD", "w": "W", "Bps": "bps", "bytes": "B", "s": "s", "m": "m", "kg": "t"}
_AMOUNT = re.compile(r"(?<=\d) ((?:[kMGTPE] |B (?=USD))?)([^\s,;:.)|]+)")  # what may be a unit, behind a digit
_DOLLAR = "<span>&#36;</span>"  # JupyterLab and GitHub typeset what is between two bare ones, and between two of "\\$"
_MARKS = re.compile(r"[\\`*|<>]|&(?=#?\w+;)|(?<!\w)_|_(?!\w)|\](?=[(\[])")  # of Markdown and HTML
_OURS = re.compile(  # tags that railcore writes: links and pictures that stay in the project
    r"(<(?:/?(?:details|summary|br|a|span)"
    r'|a href="(?!\w+:|//)[^"<>]*"'
    r'|img src="(?!\w+:|//)[^"<>]*"(?: (?:width|loading|alt)="[^"<>]*")*)>)'
)
_FORMULA = re.compile(r"[=@\t\r](?!$)|[+-](?!$|inf$|[\d.]+(?:e[+-]?\d+)?%?$)", re.IGNORECASE)


def markdown_words(text: str) -> str:
    """Words that are data, such as a name or a source, as Markdown that shows them letter by letter.

    Without it "a|b" would be two cells, "<b>" a tag, and what is between two $ a formula.
    """
    shown = _MARKS.sub(lambda mark: f"\\{mark[0]}" if mark[0] not in "<>&" else html.escape(mark[0]), text)
    return " ".join(shown.replace("$", _DOLLAR).splitlines())


def spreadsheet_cell(value: Any) -> Any:
    """A cell of a CSV file: a text that a spreadsheet would compute, such as "=1+1", begins with an apostrophe."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


class Markdown(str):
    """A cell that is Markdown already, such as a link."""


@dataclass(frozen=True)
class MarkdownText:
    """Markdown that Jupyter and GitHub render as the result of a cell.

    Amounts in dollars are escaped, and so is every tag but those that railcore writes.
    """

    text: str

    def __post_init__(self) -> None:
        plain = "".join(part if at % 2 else part.replace("<", "&lt;") for at, part in enumerate(_OURS.split(self.text)))
        object.__setattr__(self, "text", plain.replace("$", _DOLLAR))

    def _repr_markdown_(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows (mappings) as CSV text with a header and plain line ends."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns, lineterminator="\n", extrasaction="ignore")
    writer.writeheader()
    writer.writerows({column: spreadsheet_cell(row[column]) for column in columns if column in row} for row in rows)
    return stream.getvalue()


def frame_csv(table: "pd.DataFrame", float_format: str | None = None) -> str:
    """A table as CSV text with plain line ends."""
    texts = table.select_dtypes(exclude="number").map(spreadsheet_cell)
    shown = table.assign(**{name: texts[name] for name in texts}).rename(columns=spreadsheet_cell)
    return shown.to_csv(index=False, float_format=float_format, lineterminator="\n")


def read_csv(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file, none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8-sig") as stream:  # some editors put a mark before the first column
        return list(csv.DictReader(stream))


def markdown_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows (mappings with the same keys) as a Markdown table, columns of numbers to the right.

    Cells are data, shown as they are, but for those of class Markdown. A number and its unit stay on one line: a space
    that does not break is between them.
    """
    if not rows:
        return "none\n"
    columns = list(rows[0])
    right = [all(_numeric(row[column]) for row in rows) for column in columns]
    lines = [columns, ["---:" if flag else ":---" for flag in right], *([row[c] for c in columns] for row in rows)]
    return "".join(f"| {' | '.join(map(_cell_text, cells))} |\n" for cells in lines)


def folded(summary: str, text: str) -> str:
    """Markdown folded away under a line."""
    return f"<details><summary>{summary}</summary>\n\n{text}\n</details>\n"


def _cell_text(cell: object) -> str:
    text = str(cell).replace("|", "/")
    return _unbroken(text.replace("$", _DOLLAR) if isinstance(cell, Markdown) else markdown_words(text))


def _unbroken(text: str) -> str:
    """Text whose numbers do not part from their units."""
    return _AMOUNT.sub(lambda amount: amount[0].replace(" ", "\u00a0") if _is_unit(amount[2]) else amount[0], text)


def _is_unit(symbol: str) -> bool:
    try:
        return bool(units.unit(symbol))
    except ValueError:
        return False


def aligned_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows (mappings with the same keys) as lines for a terminal, columns of numbers to the right."""
    columns = list(rows[0]) if rows else []
    lines = [columns, *([str(row[column]) for column in columns] for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*lines, strict=True)]
    pads = [str.rjust if all(_numeric(row[column]) for row in rows) else str.ljust for column in columns]
    padded = [[pad(cell, width) for pad, cell, width in zip(pads, line, widths, strict=True)] for line in lines]
    return "".join(f"{'  '.join(cells).rstrip()}\n" for cells in padded)


def _numeric(cell: object) -> bool:
    """True for a number, perhaps with a relation before it and a unit behind it, and for an empty cell."""
    words = str(cell).strip("=≈≤≥+-–∞% ").replace(",", "").split() or ["0"]
    try:
        float(words[0])
    except ValueError:
        return False
    return len(words) <= 3


@checked
def readable(table: "pd.DataFrame", digits: Count = 6) -> "pd.DataFrame":
    """Every cell of a table as text: counts whole, quantities with a unit.

    "cost_usd" becomes "cost" with cells such as "305.2 M USD", "hb_domain_size" becomes "HB domain size". To be printed
    with `print(readable(table).to_string())`, or `.T.to_string()` for columns as rows.

    table: in SI units, with columns named as this package names them.
    digits: significant ones at most.

    Examples
    --------
    >>> import pandas as pd
    >>> import railcore as rc
    >>> table = pd.DataFrame({"network": ["rail-only", "Clos"], "cost_usd": [1.25e6, 2e6]})
    >>> print(rc.readable(table, 3).to_string(index=False))
      network       cost
    rail-only 1.25 M USD
         Clos    2 M USD
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
