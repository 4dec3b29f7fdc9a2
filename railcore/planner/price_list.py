"""A price list of your own, in a spreadsheet: read into a spec's books, and written with what a plan used."""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd

from railcore.catalog import files
from railcore.catalog.checks import LARGEST, short
from railcore.catalog.libraries import needed_library
from railcore.catalog.lookup import near_names
from railcore.catalog.text_files import check_file, csv_cells, read_text
from railcore.catalog.units import Gbps
from railcore.catalog.workbooks import check_unpacked
from railcore.planner.result import Plan

COLUMNS = ("part", "price_usd", "power_w", "rate_gbps")
_NOTE = "note"  # a column for words of the reader's own
PARTS = ("port", "transceiver", "dac", "circuit_port")  # of the network, whose links have a rate
_SERVER = "server"  # or rack
_SHEET = "prices"
_MOST_ROWS, _MOST_UNPACKED = 10_000, 10_000_000  # rows of a list; bytes of its workbook when unpacked
_LETTERS = 60  # of a part that is compared with those that are known


def read_price_list(path: Path) -> dict[str, Any]:
    """Keys of [books] that a price list gives.

    Parameters
    ----------
    path
        A CSV, or a workbook with a sheet "prices". Columns part (port, transceiver, dac, circuit_port, or server),
        price_usd, power_w and rate_gbps (of the links, one direction); note is not read. Empty cells are left out.

    Returns
    -------
    prices, powers, server and server_power as a spec has them, as far as the list has them.

    Raises
    ------
    ValueError
        Naming the file, and the line or column that does not fit: no cell is passed over.
    """
    parts, books = _parts(path), dict[str, Any]()
    for key, column, unit in (("prices", "price_usd", "USD"), ("powers", "power_w", "W")):
        numbers = {part: cells[column] for part, cells in parts.items() if column in cells}
        of_links = {part: f"{_digits(value)} {unit}" for part, value in numbers.items() if part in PARTS}
        if of_links:
            books[key] = of_links | {"rate": f"{_rate(path.name, parts):.12g} Gbps", "name": path.stem}
        if _SERVER in numbers:
            books["server" if key == "prices" else "server_power"] = f"{_digits(numbers[_SERVER])} {unit}"
    if not books:
        raise ValueError(f"{path.name} has no price: give each part its price_usd")
    return books


def _parts(path: Path) -> dict[str, dict[str, float]]:
    """Numbers by part and column."""
    header, parts, known = dict[int, str](), dict[str, dict[str, float]](), (*PARTS, _SERVER)
    for line, cells in _rows(path):
        if not header:
            header = _header(path.name, cells)
            continue
        row = {header.get(place, ""): cell for place, cell in cells.items()}
        row.pop(_NOTE, None)
        where, part = f"{path.name}, line {line}", str(row.pop("part", ""))
        if "" in row:
            raise ValueError(f"{where}: {short(row[''])} stands in a column without a name: remove it")
        if part not in known:
            near = near_names(part[:_LETTERS], known)
            nearest = f"the nearest is {near[0]!r}, " if near else ""
            raise ValueError(f"{where}: part is {short(part)}: {nearest}give {', '.join(known)}")
        if part in parts:
            raise ValueError(f"{where}: {part} is there twice: give each part one line")
        parts[part] = {column: _number(f"{where}: {column} of {part}", cell) for column, cell in row.items()}
    return parts


def _header(name: str, cells: Mapping[int, Any]) -> dict[int, str]:
    """Columns by their place."""
    columns = [str(cell) for cell in cells.values()]
    if missing := [column for column in COLUMNS[:2] if column not in columns]:
        raise ValueError(f"{name} has no column {missing[0]}: give {', '.join(COLUMNS)}")
    for column in columns:
        if column not in (*COLUMNS, _NOTE):
            raise ValueError(f"{name}: column {short(column)} is unknown: give {', '.join(COLUMNS)}, and {_NOTE}")
        if columns.count(column) > 1:
            raise ValueError(f"{name}: column {column!r} is there twice: leave one")
    return dict(zip(cells, columns, strict=True))


def _rows(path: Path) -> Iterator[tuple[int, dict[int, Any]]]:
    """Line and filled cells, by their place, of each row that has some."""
    for line, cells in (_csv_rows if path.suffix.lower() == ".csv" else _sheet_rows)(path):
        stripped = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
        if filled := {place: cell for place, cell in enumerate(stripped) if cell not in (None, "")}:
            if line > _MOST_ROWS:
                raise ValueError(f"{path.name} has more than {_MOST_ROWS:,} rows: remove those below the list")
            yield line, filled


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    try:
        text = read_text(path, path.name)
    except OSError as error:
        raise ValueError(files.refusal(error)) from None
    yield from csv_cells(text, path.name)


def _sheet_rows(path: Path) -> Iterator[tuple[int, list[Any]]]:
    """Line and cells of a workbook's sheet. A formula without a value, which no spreadsheet has saved, is its text."""
    check_workbooks(path.name)
    try:
        check_file(path, path.name)
        check_unpacked(path, path.name, _MOST_UNPACKED)
    except OSError as error:
        raise ValueError(files.refusal(error)) from None
    from openpyxl import load_workbook  # only for who has one

    try:
        values, formulas = (load_workbook(path, read_only=True, data_only=only) for only in (True, False))
        with closing(values), closing(formulas):
            sheets = values.sheetnames
            pages = [book[_SHEET] for book in (values, formulas) if _SHEET in sheets]
            for page in pages:
                page.reset_dimensions()  # a file may say wrong ones
            rows = zip(*(page.iter_rows(values_only=True) for page in pages), strict=True)
            for line, (cells, written) in enumerate(rows, start=1):
                pairs = zip(cells, written, strict=True)
                yield line, [getattr(text, "text", text) if cell is None else cell for cell, text in pairs]
    except Exception as error:  # of openpyxl or zipfile
        why = f"{error}" or type(error).__name__
        raise ValueError(
            f'{path.name} cannot be read ({why}): give a CSV or a workbook with a sheet "prices"'
        ) from None
    if not pages:
        raise ValueError(f'{path.name} has no sheet "prices", but {", ".join(map(repr, sheets))}: name the list\'s so')


def _number(what: str, cell: Any) -> float:
    """A cell as a positive number. what: it is, for messages."""
    try:
        number = 0.0 if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError, OverflowError):
        number = 0.0
    if 0 < number <= LARGEST:
        return number
    formula = " (a formula that no spreadsheet has worked out)" if str(cell).startswith("=") else ""
    raise ValueError(f"{what} is {short(str(cell))}{formula}: give a number above 0, without a unit")


def _digits(value: float) -> str:
    """A number that a spec reads: three decimals may be thousands there, and get a fourth."""
    text = f"{value:.12g}"
    return f"{text}0" if len(text.partition(".")[2]) == 3 else text


def _rate(name: str, parts: Mapping[str, Mapping[str, float]]) -> float:
    """The one link rate of all parts of the network [Gbps]. name: of the file."""
    rates = {cells["rate_gbps"] for part, cells in parts.items() if part in PARTS and "rate_gbps" in cells}
    if len(rates) != 1:
        has = "no rate_gbps" if not rates else f"rate_gbps of {' and '.join(f'{rate:g}' for rate in sorted(rates))}"
        raise ValueError(f"{name} has {has}: give all parts of the network the rate of their links, such as 400")
    return rates.pop()


def price_list(plan: Plan) -> pd.DataFrame:
    """What a plan takes for prices and powers, in the form that `read_price_list` reads."""
    case = plan.case
    rows: list[tuple[str, float, float | None, float | None]] = []
    books = [book.times(dict.fromkeys(PARTS, 1.0)) for book in (case.prices, case.powers)]  # with what others price
    for part in PARTS:
        price, power = (getattr(book, part) for book in books)
        if price is not None:
            rows.append((part, float(price), None if power is None else float(power), case.machine.nic_Bps / Gbps))
    costs = case.rack_costs({})
    rows.append((_SERVER, float(costs["rack_usd"]), float(costs["rack_w"]), None))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def check_workbooks(name: str) -> None:
    """Raises ValueError where openpyxl, which reads and writes workbooks, is not installed or broken."""
    needed_library("openpyxl", f"{name}: a workbook, unlike a CSV, needs openpyxl", "workbooks")


def workbook(plans: Sequence[Plan], tables: Sequence[str]) -> bytes:
    """A workbook with the networks, the bill, the price list and other tables of plans, a sheet each.

    plans: of several, sheets begin with their number. tables: names of tables of a plan.
    """
    stream = io.BytesIO()
    with pd.ExcelWriter(stream, engine="openpyxl") as writer:
        for place, plan in enumerate(plans, start=1):
            prefix = "" if len(plans) == 1 else f"{place} "
            sheets: Mapping[str, pd.DataFrame] = {name: getattr(plan, name) for name in tables}
            for name, table in ({**sheets, _SHEET: price_list(plan)}).items():
                if len(table):
                    table.to_excel(writer, sheet_name=f"{prefix}{name}", index=False)
    return stream.getvalue()
