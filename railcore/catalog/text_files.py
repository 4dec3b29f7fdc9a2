"""Reading a text file of the user's: whole, in UTF-8, and never a pipe, a device, or more than is meant."""

import codecs
import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from railcore.catalog import files
from railcore.catalog.letters import hidden_character_fault

MOST_BYTES = 100_000_000  # of a table or a log
_read: set[Path] = set()


def read_text(path: Path, where: str = "", most: int = MOST_BYTES) -> str:
    """Text of a file in UTF-8, with a mark at its start or without; its lines end by newlines.

    where: what messages call it, by default its path. most: bytes.

    Raises ValueError with the remedy as `check_file`, for more bytes, and for what is no text in UTF-8; OSError for
    what the system refuses.
    """
    where = where or str(path)
    check_file(path, where)
    with path.open("rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{where} has more than {most // 1_000_000} MB: give a smaller file")
    check_mark(content, where)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{where} line {line} is no text in UTF-8: save the file in UTF-8") from None
    check_no_nul(text, where)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def check_file(path: Path, where: str) -> None:
    """Raises ValueError as `check_regular`, and for a name with a control or invisible character; OSError as it.

    where: what messages call it. The process remembers the file, so that no result is written over it.
    """
    if (fault := hidden_character_fault(path.name)) or "\0" in str(path):
        raise ValueError(f"the name of file {str(path)!r} {fault or 'has a NUL: give another'}")
    files.check_regular(path, where)
    _read.add(path.resolve())


def check_not_read(what: str, path: Path) -> None:
    """Raises ValueError, which begins with `what`, for writing over a file that the process has read."""
    if (place := path.resolve()) in _read:
        raise ValueError(f"{what} would write over {place.name}, which was read: give another place")


def check_mark(content: bytes, where: str) -> None:
    """Raises ValueError for bytes that begin with a mark of UTF-16. where: what messages call their file."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(f"{where} is no text in UTF-8, but in UTF-16, as PowerShell's > writes it: save it in UTF-8")


def check_no_nul(text: str, where: str) -> None:
    """Raises ValueError for a text with a NUL. where: what messages call its file."""
    if (place := text.find("\0")) >= 0:
        line = text.count("\n", 0, place) + 1
        raise ValueError(f"{where} line {line} has a NUL, as UTF-16 and binary files have: save the file in UTF-8")


def csv_header(text: str, where: str) -> list[str]:
    """Cells of the first line of a CSV's text. where, raises: as `csv_rows`."""
    return next(csv_cells(text, where), (0, []))[1]


def csv_cells(text: str, where: str) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of each line of a CSV's text. where, raises: as `csv_rows`."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    yield from ((reader.line_num, cells) for cells in _of_csv(reader, where))


def csv_rows(text: str, where: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Line and cells of each row of a CSV's text. where: what messages call it. Raises ValueError for what is none."""
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    yield from ((reader.line_num, row) for row in _of_csv(reader, where))


def _of_csv(reader: Any, where: str) -> Iterator[Any]:
    """What a reader of the module csv reads."""
    try:
        yield from reader
    except csv.Error as error:
        raise ValueError(f"{where} line {reader.line_num}: {error}: is the file cut, or a quote not closed?") from None
