"""Plants of a file that a user brings: EIA-860M's inventory of generators, or a table of MW by fuel."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from railcore.catalog import units
from railcore.catalog.letters import escaped
from railcore.catalog.libraries import needed_library
from railcore.catalog.workbooks import check_unpacked
from railcore.siting import eia
from railcore.siting.grid import REQUIRED_COLUMNS, with_unit_sizes

_GENERATOR_COLUMNS = {
    "sub_id": ("Plant ID", "Plant Code"),
    "name": ("Plant Name",),
    "state": ("Plant State", "State"),
    "authority": ("Balancing Authority Code",),
    "energy": ("Energy Source Code", "Energy Source 1"),
    "mover": ("Prime Mover Code", "Prime Mover"),
    "latitude": ("Latitude",),
    "longitude": ("Longitude",),
    "power_w": ("Net Summer Capacity (MW)", "Summer Capacity (MW)"),
}
_NAMEPLATE = "Nameplate Capacity (MW)"
_RETIREMENT = ("Planned Retirement Year", "Planned Retirement Month")
_OPERATION = ("Planned Operation Year", "Planned Operation Month")
_SITE_COLUMNS = {
    "sub_id": ("plant_code",),
    "name": ("name",),
    "state": ("state",),
    "authority": ("ba",),
    "latitude": ("lat",),
    "longitude": ("lon",),
}
_SUM_COLUMNS = ("nameplate_mw", "summer_mw")  # of all fuels of a plant
_MOST_ROWS, _MOST_UNPACKED = 200_000, 200_000_000  # rows of a sheet, of which EIA's have 30,000; bytes when unpacked
_MOST_TITLE_ROWS = 20  # rows in which the header is looked for
_STORAGE = "storage"
_NERC_INTERCONNECTS = {"WECC": "Western", "TRE": "Texas"}  # the others are Eastern
_COUNTED_STATUS = {"Operating": "operating", "Planned": "under construction"}  # by sheet


def plants(path: str | Path, storage: bool = False, as_of: str = "") -> pd.DataFrame:
    """Plants of EIA-860M's workbook, or of a table, a row for each and fuel.

    The file is a workbook (.xlsx), or a CSV or Parquet with the columns of the workbook's sheet, or with a row for each
    plant and its MW in a column for each fuel. Columns as `PowerGrid.plants`:

    - sub_id: the EIA plant code, which is no substation of the grid;
    - authority: the balancing authority's code;
    - interconnect: that of the authority; without one, that of the CSV's column nerc, "" in a workbook;
    - power_w: net summer capacity, nameplate where that is blank; units on standby and out of service for a time count;
    - units, largest_unit_w: by generator, or as `with_unit_sizes` has them where the file has no generators.

    A unit that is out of service for good is left out, and so is a row that cannot be used: its place, balancing
    authority, state or energy source is missing or unknown. attrs["warnings"]: what was left out, with the first row
    and the sum, and what was filled in, as sentences.

    Parameters
    ----------
    path
        Of the file.
    storage
        True counts batteries, pumped storage and flywheels as fuel "other". They are left out by default: storage
        produces no energy, so no datacenter runs on it through a year.
    as_of
        A month such as "2027-06", at whose end the plants are wanted: units that plan to retire by then are left out,
        and units under construction, to run by then (sheet Planned) are counted. Units that are planned and
        not yet under construction never are, for many are never built. "" for the inventory as it is.

    Raises
    ------
    ValueError
        Naming the file, the column, what was expected and the remedy; where no row is left.
    """
    path = eia.existing_file(path)
    notes: list[str] = []
    read = _workbook if path.suffix.lower() == ".xlsx" else _table
    rows = _usable(read(path, _month(as_of), notes), notes)
    if not storage:
        rows = _without(rows, rows["fuel"] == _STORAGE, "of storage", notes)
    if not len(rows):
        raise ValueError(f"{path.name}: no plant is left ({'; '.join(notes) or 'no rows'}): give plants of the country")
    rows = rows.assign(fuel=rows["fuel"].replace(_STORAGE, "other"))
    rows.attrs["warnings"] = tuple(notes)
    rows = with_unit_sizes(rows)
    firsts = {name: (name, "first") for name in ("name", "state", "interconnect", "authority", "latitude", "longitude")}
    sums = {"units": ("units", "sum"), "power_w": ("power_w", "sum"), "largest_unit_w": ("largest_unit_w", "max")}
    result = rows.groupby(["sub_id", "fuel"], as_index=False).agg(**firsts, **sums)
    result = result[REQUIRED_COLUMNS["plants"].split()]
    result.attrs["warnings"] = rows.attrs["warnings"]
    return result


def _usable(rows: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """Rows whose plant, fuel, state, place, balancing authority and power are known, with the state by its name."""
    states = eia.code_meanings("state")
    inside = {name for name in states.values() if name}
    known = {*eia.authority_codes(), ""}
    places = eia.in_country(rows["latitude"], rows["longitude"])
    unplaced = rows["latitude"].isna() | rows["longitude"].isna()
    name = rows["state"].replace(dict(states))
    reasons: tuple[tuple[pd.Series, str, tuple[str, ...]], ...] = (
        (rows["sub_id"].isna(), "without a plant's code", ()),
        (rows["fuel"].isna(), "of an unknown energy source", ("energy",)),
        (~name.isin(inside), "outside the contiguous states", ("state",)),
        (unplaced, "without coordinates", ()),
        (~places, "at coordinates outside the contiguous states", ("latitude", "longitude")),
        (~rows["authority"].isin(known), "of an unknown balancing authority", ("authority",)),
        (~(rows["power_w"] > 0), "without power", ()),
    )
    for lost, text, shown in reasons:
        rows = _without(rows, lost.loc[rows.index], text, notes, shown)
    rows = rows.assign(state=name.loc[rows.index])
    return rows.astype({"sub_id": int}) if pd.api.types.is_numeric_dtype(rows["sub_id"]) else rows


def _without(
    rows: pd.DataFrame, lost: pd.Series, text: str, notes: list[str], shown: tuple[str, ...] = ()
) -> pd.DataFrame:
    """The other rows. `notes` gets what is left out: how many, their power, and the first with its columns `shown`."""
    if lost.any():
        first = rows[lost].iloc[0]
        total = units.show(float(rows.loc[lost, "power_w"].sum()), "W", 4)
        cells = "".join(f", {column} {first[column]}" for column in shown)
        plant = escaped(f"{first['sub_id']} ({first['name']}{cells})")
        notes.append(f"left out: {units.counted(lost.sum(), 'rows')} {text}, {total}; the first is plant {plant}")
    return rows[~lost]


def _month(text: str) -> float:
    """Months since year 0 of a text such as "2027-06", NaN for ""."""
    if not text:
        return np.nan
    if not re.fullmatch(r"\d{4}-(0[1-9]|1[0-2])", text):
        raise ValueError(f'as_of is {text!r}, expected a month such as "2027-06", or "" for the inventory as it is')
    return 12.0 * int(text[:4]) + int(text[5:])


def _workbook(path: Path, month: float, notes: list[str]) -> pd.DataFrame:
    """Generators of the sheets that count: Operating, and for a month Planned too."""
    needed_library("openpyxl", f"{path.name}: a workbook, unlike a CSV, needs openpyxl", "workbooks")
    check_unpacked(path, path.name, _MOST_UNPACKED)
    try:
        book = pd.ExcelFile(path, engine="openpyxl")
    except Exception as error:  # openpyxl lets zipfile's and its own errors through
        raise ValueError(f"{path.name}: cannot be read as a workbook ({error}): give EIA-860M's .xlsx") from None
    sheets = list(_COUNTED_STATUS) if month == month else list(_COUNTED_STATUS)[:1]
    with book:
        if lacks := [sheet for sheet in sheets if sheet not in book.sheet_names]:
            there = ", ".join(map(str, book.sheet_names))
            raise ValueError(f"{path.name}: no sheet {lacks[0]!r}; it has {there}: give EIA-860M's .xlsx")
        options: dict[str, Any] = {"header": None, "dtype": object, "keep_default_na": False, "na_values": [""]}
        cells = {sheet: pd.read_excel(book, sheet, nrows=_MOST_ROWS + 1, **options) for sheet in sheets}
    if long := [sheet for sheet in sheets if len(cells[sheet]) > _MOST_ROWS]:
        raise ValueError(f"{path.name}: sheet {long[0]!r} has more than {_MOST_ROWS:,} rows: give EIA-860M's .xlsx")
    parts = [_generators(*_below_header(cells[sheet], path, sheet), sheet, month, notes) for sheet in sheets]
    return pd.concat(parts, ignore_index=True)


def _below_header(cells: pd.DataFrame, path: Path, sheet: str) -> tuple[pd.DataFrame, str]:
    """The table whose header is the first row that has a plant's code and an energy source, and its name."""
    where = f"{path.name}, sheet {sheet!r}"
    for number, row in cells.head(_MOST_TITLE_ROWS).iterrows():
        if _has_generators(row):
            table = cells.loc[number + 1 :].set_axis(pd.Index(row), axis=1)
            return table.loc[:, table.columns.notna() & ~table.columns.duplicated()], where
    raise ValueError(
        f"{where}: none of its first {_MOST_TITLE_ROWS} rows has the columns 'Plant ID' and 'Energy Source Code': "
        "give EIA-860M's inventory of generators"
    )


def _has_generators(header: Iterable[object]) -> bool:
    names = set(map(eia.plain_name, header))
    return all(names & set(map(eia.plain_name, _GENERATOR_COLUMNS[key])) for key in ("sub_id", "energy"))


def _generators(table: pd.DataFrame, where: str, sheet: str, month: float, notes: list[str]) -> pd.DataFrame:
    """Rows of the generators of a sheet that count, one unit each, with columns of `plants` and energy."""
    header = list(table.columns)
    here = eia.find_columns(header, _GENERATOR_COLUMNS, where)
    text = {key: table[here[key]].map(_text) for key in ("sub_id", "name", "state", "authority", "energy", "mover")}
    code = pd.to_numeric(text["sub_id"], errors="coerce")
    code = code.where(code % 1 == 0)
    below = code.isna() & text["energy"].eq("")  # notes below the table
    table, code = table[~below], code[~below]
    eia.check_has_rows(table, where)
    text = {key: cells[~below] for key, cells in text.items()}
    power_w = eia.as_numbers(table, here["power_w"], where) * units.MW
    if (blank := power_w.isna()).any() and eia.plain_name(_NAMEPLATE) in map(eia.plain_name, header):
        nameplate = eia.find_columns(header, {"": (_NAMEPLATE,)}, where)[""]
        power_w = power_w.fillna(eia.as_numbers(table, nameplate, where) * units.MW)
        notes.append(
            f"nameplate power is taken for {units.counted(blank.sum(), 'generators')} without net summer capacity"
        )
    rows = pd.DataFrame(
        {
            "sub_id": code.astype("Int64"),
            **{key: text[key] for key in ("name", "state", "authority", "energy")},
            "interconnect": text["authority"].map(eia.interconnects()).fillna(""),
            "latitude": _degrees(table[here["latitude"]]),
            "longitude": _degrees(table[here["longitude"]]),
            "fuel": text["mover"]
            .map(eia.code_meanings("prime mover"))
            .fillna(text["energy"].map(eia.code_meanings("energy source"))),
            "power_w": power_w,
            "units": 1,
            "largest_unit_w": power_w,
        }
    )
    return _in_service(rows, table, where, sheet, month, notes)


def _in_service(
    rows: pd.DataFrame, table: pd.DataFrame, where: str, sheet: str, month: float, notes: list[str]
) -> pd.DataFrame:
    """Rows of generators whose status counts on their sheet, and that run at the end of a month, if one is asked.

    Parameters
    ----------
    rows
        Of generators.
    table
        The sheet's, by the same index.
    where
        Name of the sheet in messages.
    sheet
        "Operating" or "Planned".
    month
        As `_month` gives it.
    notes
        Gets what is left out.

    Returns
    -------
    The rows that count. A date with a year alone is the first month of a retirement, and the last of a start.
    """
    names = {eia.plain_name(name): name for name in table.columns}
    if "status" in names:
        code = table[names["status"]].map(_text).str.extract(r"^\(?([A-Z]+)\b", expand=False)
        status = code.map(eia.code_meanings("status")).fillna("of unknown status")
        for meaning in sorted(set(status) - {_COUNTED_STATUS[sheet]}):
            rows = _without(rows, status.loc[rows.index] == meaning, meaning, notes)
    else:
        notes.append(f"{where}: no column 'Status': all generators count")
    if month != month:
        return rows
    spelled = _RETIREMENT if sheet == "Operating" else _OPERATION
    here = eia.find_columns(list(table.columns), {name: (name,) for name in spelled}, where)
    year, of_year = (eia.as_numbers(table, here[name], where).loc[rows.index] for name in spelled)
    if sheet == "Operating":
        gone = 12 * year + of_year.fillna(1) <= month
        return _without(rows, gone, "to retire by then", notes)
    rows = _without(rows, ~(12 * year + of_year.fillna(12) <= month), "to run later", notes)
    if len(rows):
        total = units.show(float(rows["power_w"].sum()), "W", 4)
        notes.append(f"counted: {units.counted(len(rows), 'units')} under construction, to run by then, {total}")
    return rows


def _degrees(cells: pd.Series) -> pd.Series:
    """Degrees, NaN for what is no number: one bad place costs its row alone."""
    return pd.to_numeric(cells.map(_text), errors="coerce")


def _text(cell: object) -> str:
    return "" if pd.isna(cell) else escaped(" ".join(str(cell).split()))


def _table(path: Path, month: float, notes: list[str]) -> pd.DataFrame:
    """Rows of a CSV or Parquet: generators, or plants with net summer MW in a column for each fuel."""
    if eia.is_parquet(path):
        table = eia.read_parquet(path)
    else:
        table = eia.read_table(path, "EIA-860M as .xlsx or CSV", low_memory=False)
    eia.check_has_rows(table, path.name)
    if _has_generators(table.columns):
        return _generators(table, path.name, "Operating", month, notes)
    if month == month:
        raise ValueError(f'{path.name}: as_of needs the dates of EIA-860M\'s generators: give its .xlsx, or as_of=""')
    return _plants_by_fuel(table, path.name)


def _plants_by_fuel(table: pd.DataFrame, where: str) -> pd.DataFrame:
    """A row for each plant and column of MW, without units, with columns of `plants` and energy."""
    names = list(table.columns)
    here = eia.find_columns(names, _SITE_COLUMNS, where)
    meanings = eia.code_meanings("plant column")
    fuels = eia.find_columns(names, {source: (f"{source}_mw",) for source in meanings}, where)
    if stray := [
        name for name in names if eia.split_unit(name)[1] == "mw" and name not in {*fuels.values(), *_SUM_COLUMNS}
    ]:
        raise ValueError(f"{where}: column {stray[0]!r} is of an unknown fuel: add it to data/grid/eia_codes.csv")
    code = table[here["authority"]].map(_text)
    nerc = table["nerc"].map(lambda name: _NERC_INTERCONNECTS.get(name, "Eastern")) if "nerc" in table else ""
    site = pd.DataFrame({key: table[column] for key, column in here.items()}).assign(
        name=table[here["name"]].map(_text),
        state=table[here["state"]].map(_text),
        authority=code,
        interconnect=code.map(eia.interconnects()).fillna(nerc),
        latitude=_degrees(table[here["latitude"]]),
        longitude=_degrees(table[here["longitude"]]),
    )
    parts = [
        site.assign(fuel=meanings[source], energy=source, power_w=eia.as_numbers(table, column, where) * units.MW)
        for source, column in fuels.items()
    ]
    rows = pd.concat(parts, ignore_index=True)
    return rows[rows["power_w"].fillna(0.0) != 0]
