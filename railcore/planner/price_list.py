"""A price list of your own, in a spreadsheet: read into a spec's books, and written with what a plan used."""

import io
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from railcore.catalog import files
from railcore.catalog.text_files import check_file, read_text
from railcore.catalog.units import Gbps
from railcore.planner.result import Plan

COLUMNS = ("part", "price_usd", "power_w", "rate_gbps")
PARTS = ("port", "transceiver", "dac", "circuit_port")  # of the network, whose links have a rate
_SERVER = "server"  # or rack
_SHEET = "prices"


def read_price_list(path: Path) -> dict[str, Any]:
    """Keys of [books] that a price list gives.

    Parameters
    ----------
    path
        A CSV, or a workbook with a sheet "prices". Columns part (port, transceiver, dac, circuit_port, or server),
        price_usd, power_w and rate_gbps (of the links, one direction). Empty cells are left out.

    Returns
    -------
    prices, powers, server and server_power as a spec has them, as far as the list has them.

    Raises
    ------
    ValueError
        Naming the file, and the line or column that does not fit.
    """
    table = _rows(path)
    if missing := [column for column in ("part", "price_usd") if column not in table]:
        raise ValueError(f"{path.name} has no column {missing[0]}: give {', '.join(COLUMNS)}")
    table["part"] = table["part"].astype(str).str.strip()
    lines = {part: line for line, part in enumerate(table["part"], start=2)}
    for part, line in lines.items():
        if part not in (*PARTS, _SERVER):
            raise ValueError(f"{path.name}, line {line}: part is {part!r}: give {', '.join((*PARTS, _SERVER))}")
    if len(lines) < len(table):
        raise ValueError(f"{path.name} has a part twice: give each part one line")
    rows, books = table.set_index("part"), dict[str, Any]()
    for key, column, unit in (("prices", "price_usd", "USD"), ("powers", "power_w", "W")):
        numbers = {part: _number(path, rows, part, column) for part in lines}
        of_links = {
            part: f"{_digits(value)} {unit}" for part, value in numbers.items() if part in PARTS and value is not None
        }
        if of_links:
            books[key] = of_links | {"rate": f"{_rate(path, rows):.12g} Gbps", "name": path.stem}
        server = numbers.get(_SERVER)
        if server is not None:
            books["server" if key == "prices" else "server_power"] = f"{_digits(server)} {unit}"
    return books


def _rows(path: Path) -> pd.DataFrame:
    """The table of a file."""
    in_text = path.suffix.lower() == ".csv"
    if not in_text:
        check_workbooks(path.name)
    try:
        if in_text:
            return pd.read_csv(io.StringIO(read_text(path, path.name)), skipinitialspace=True)
        check_file(path, path.name)
        return pd.read_excel(path, _SHEET, engine="openpyxl")
    except OSError as error:
        raise ValueError(files.refusal(error)) from None
    except Exception as error:  # of pandas, openpyxl or zipfile
        raise ValueError(
            f'{path.name} cannot be read ({error}): give a CSV or a workbook with a sheet "prices"'
        ) from None


def _number(path: Path, rows: pd.DataFrame, part: str, column: str) -> float | None:
    """A cell as a positive number; None for an empty one."""
    cell = rows[column].get(part) if column in rows else None
    if cell is None or pd.isna(cell):
        return None
    try:
        number = float(cell)
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number < float("inf"):
        told = cell if isinstance(cell, str) else f"{cell:g}"
        raise ValueError(f"{path.name}: {column} of {part} is {told!r}: give a number above 0, without a unit")
    return number


def _digits(value: float) -> str:
    """A number that a spec reads: three decimals may be thousands there, and get a fourth."""
    text = f"{value:.12g}"
    return f"{text}0" if len(text.partition(".")[2]) == 3 else text


def _rate(path: Path, rows: pd.DataFrame) -> float:
    """The one link rate of all parts of the network [Gbps]."""
    cells = [_number(path, rows, part, "rate_gbps") for part in rows.index if part in PARTS]
    rates = {rate for rate in cells if rate is not None}
    if len(rates) != 1:
        has = "no rate_gbps" if not rates else f"rate_gbps of {' and '.join(f'{rate:g}' for rate in sorted(rates))}"
        raise ValueError(f"{path.name} has {has}: give all parts of the network the rate of their links, such as 400")
    return float(rates.pop())


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
    """Raises ValueError where openpyxl, which reads and writes workbooks, is not installed."""
    if find_spec("openpyxl") is None:
        raise ValueError(f'{name}: a workbook needs openpyxl: pip install "railcore[workbooks]", or use CSV')


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
