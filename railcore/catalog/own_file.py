"""Rows of efficiencies that were measured on a GPU of one's own: a CSV that is laid over the catalog for one plan."""

import csv
import io
from functools import lru_cache
from pathlib import Path

from railcore.catalog import files
from railcore.catalog.items import Value, csv_content, names, rows_of_text
from railcore.catalog.lookup import nearest_names

FAMILY = "efficiencies"
_SHARES = ("fraction", "share", "sustained", "full_clock")  # words in the names of shares of what there is
_OF_BF16 = ("attention_fraction_fp8", "attention_fraction_mla_fp8")  # shares of another rate: they may be above 1


def own_file(path: Path) -> str:
    """Text of such a file, which is read whole. Raises ValueError for what cannot be read, and as `own_file_rows`."""
    if not files.regular_file(path):
        raise ValueError(f"{path} does not exist: `railcore measure read` writes one")
    text = csv_content(path, path.name)
    own_file_rows(text, path.name)
    return text


@lru_cache(maxsize=16)
def own_file_rows(text: str, name: str) -> tuple[Value, ...]:
    """Rows of the text of such a file. name: of the file, for messages.

    Raises ValueError for faults, by line; for no row, a GPU that the catalog lacks, and a share that is not above 0 and
    1 at most.
    """
    rows = rows_of_text(text, FAMILY, name, of_user=True)
    if not rows:
        raise ValueError(f"{name} has no rows: `railcore measure read` writes them")
    for row in rows:
        where = f"{name} line {_line(text, row)}, {row.name} {row.parameter}"
        if row.name not in names(FAMILY):
            near = nearest_names(row.name, names(FAMILY))
            raise ValueError(f"{where}: no GPU of the catalog has this name: the nearest are {near}")
        if row.parameter in _OF_BF16 or not any(word in row.parameter for word in _SHARES):
            continue
        for column in ("value", "low", "high"):
            share = getattr(row, column)
            if share is not None and not 0 < share <= 1:
                raise ValueError(f"{where}, {column} is {share:g}: give a share above 0 and at most 1")
    return tuple(rows)


def _line(text: str, row: Value) -> int:
    """Line of a row in the text."""
    reader = csv.DictReader(io.StringIO(text, newline=""))
    keys = ((each["name"].strip(), each["parameter"].strip()) for each in reader)
    return next(reader.line_num for key in keys if key == (row.name, row.parameter))
