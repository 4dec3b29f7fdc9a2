"""What a user brings from the US Energy Information Administration (EIA): plants, and hourly demand and generation."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog import files, units
from railcore.catalog.tables import read_csv
from railcore.siting.grid import REQUIRED_COLUMNS

_WORDS = {"watts": "w", "kilowatts": "kw", "megawatts": "mw", "megawatthours": "mwh"}
_UNIT = re.compile(r"\b(?:[kmgt]?wh?|kilowatts|megawatts|megawatthours|watts)\b")


@cache
def code_meanings(kind: str) -> Mapping[str, str]:
    """Meaning of each of EIA's codes of a kind, such as "energy source" or "state", from data/grid/eia_codes.csv."""
    rows = read_csv(files.data("grid/eia_codes.csv"))
    return {row["code"]: row["meaning"] for row in rows if row["kind"] == kind}


@cache
def authority_codes() -> Mapping[str, Mapping[str, str]]:
    """Balancing authorities that EIA's forms name: name, region, interconnect and serves_load ("1" or "0") by code."""
    return {row["authority"]: row for row in read_csv(files.data("grid/authorities.csv"))}


@cache
def interconnects() -> Mapping[str, str]:
    """Interconnection of each of `authority_codes`."""
    return {code: row["interconnect"] for code, row in authority_codes().items()}


def check_authorities(codes: Iterable[str], where: str) -> None:
    """Raise UnknownName (a ValueError) for the first code that is no balancing authority; "" passes."""
    if stray := sorted(set(codes) - set(authority_codes()) - {""}):
        raise catalog.UnknownName(f"{where}: balancing authority", stray[0], list(authority_codes()))


def plain_name(name: object) -> str:
    """A column's name without case, underscores and spaces that differ between years of a form."""
    return " ".join(re.sub(r"[_\s]+", " ", "" if name is None else str(name)).lower().split())


def split_unit(name: object) -> tuple[str, str]:
    """A column's plain name without its unit, and the unit: ("demand (adjusted)", "mw") of "Demand (MW) (Adjusted)"."""
    text = plain_name(name)
    match = _UNIT.search(text)
    if match is None:
        return text, ""
    stem = re.sub(r"\(\s*\)", "", text[: match.start()] + text[match.end() :])
    return " ".join(stem.split()), _WORDS.get(match[0], match[0])


def find_columns(names: Sequence[object], wanted: Mapping[str, Sequence[str]], where: str) -> dict[str, object]:
    """The table's name of each wanted column, which may be spelled in several ways.

    Raises ValueError naming the file and a column that is missing, with the nearest, or one in another unit.
    """
    by_plain_name = {plain_name(name): name for name in reversed(names) if name is not None}
    columns = {}
    for key, spellings in wanted.items():
        plain = [name for name in map(plain_name, spellings) if name in by_plain_name]
        if not plain:
            raise ValueError(_missing(by_plain_name, spellings, where))
        columns[key] = by_plain_name[plain[0]]
    return columns


def _missing(by_plain_name: Mapping[str, object], spellings: Sequence[str], where: str) -> str:
    """A refusal of a table that lacks a column, or has it in another unit."""
    units_wanted = dict(map(split_unit, spellings))
    for name, column in by_plain_name.items():
        stem, unit = split_unit(name)
        if stem in units_wanted and unit:
            wanted = units_wanted[stem] or "no unit"
            return f"{where}: column {column!r} is in {unit}, expected {wanted}: convert it and rename it"
    near = [str(by_plain_name[name]) for name in catalog.near_names(plain_name(spellings[0]), by_plain_name)]
    there = f"the nearest are {', '.join(map(repr, near))}" if near else "none is like it"
    return f"{where}: no column {spellings[0]!r}; {there}: give the file as EIA publishes it"


def as_numbers(table: pd.DataFrame, column: object, where: str) -> pd.Series:
    """A column as numbers, NaN where blank or "."; separators of thousands are read.

    Raises ValueError naming the file, the column and the first text that is no number.
    """
    values = table[column]
    if pd.api.types.is_numeric_dtype(values):
        return values.astype(float)
    text = values.astype(object).map(lambda cell: "" if pd.isna(cell) else str(cell).replace(",", "").strip())
    blank = text.isin(["", "."])
    read = pd.to_numeric(text.where(~blank), errors="coerce")
    if (bad := read.isna() & ~blank).any():
        raise ValueError(f"{where}: column {column!r} holds {text[bad].iloc[0]!r}, expected a number: correct that row")
    return read.astype(float)


def check_has_rows(table: pd.DataFrame, where: str) -> None:
    """Raise ValueError for a table without rows."""
    if table.empty:
        raise ValueError(f"{where}: no rows below the header: give a file with data")


def existing_file(path: str | Path) -> Path:
    """The path of a file that exists. Raises ValueError."""
    if not (path := Path(path)).is_file():
        raise ValueError(f"path {str(path)!r} is no file: give one as EIA publishes it")
    return path


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
_SITE_COLUMNS = {
    "sub_id": ("plant_code",),
    "name": ("name",),
    "state": ("state",),
    "authority": ("ba",),
    "latitude": ("lat",),
    "longitude": ("lon",),
}
_SUM_COLUMNS = ("nameplate_mw", "summer_mw")  # of all fuels of a plant
_LATITUDES, _LONGITUDES = (24.0, 50.0), (-126.0, -66.0)  # of the contiguous states and their shelf [degrees]
_SHEET = "Operating"
_MOST_TITLE_ROWS = 20  # rows in which the header is looked for
_STORAGE = "storage"
_NERC_INTERCONNECTS = {"WECC": "Western", "TRE": "Texas"}  # the others are Eastern


def plants(path: str | Path, storage: bool = False) -> pd.DataFrame:
    """Plants of an EIA-860M workbook (.xlsx, sheet "Operating") or of a CSV with MW by fuel, a row for each and fuel.

    Columns as `PowerGrid.plants`:

    - sub_id: the EIA plant code, which is no substation of the grid;
    - authority: the balancing authority's code;
    - interconnect: that of the authority; without one, that of the CSV's column nerc, "" in a workbook;
    - power_w: net summer capacity, nameplate where that is blank, of units on standby and out of service too;
    - units, largest_unit_w: by generator; the CSV has no generators, so a plant's fuel is one unit there.

    storage: True counts batteries, pumped storage and flywheels as fuel "other". They are left out by default: storage
    produces no energy, so no datacenter runs on it through a year.
    attrs["warnings"]: what was left out and filled in, as sentences.

    Raises ValueError naming the file, the column, what was expected and the remedy.
    """
    path = existing_file(path)
    read = _workbook_plants(path) if path.suffix.lower() == ".xlsx" else _csv_plants(path)
    notes = list(read.attrs.get("warnings", ()))
    inside = [name for name in code_meanings("state").values() if name]
    read = _without(read, ~read["state"].isin(inside), "outside the contiguous states", notes)
    read = _without(read, read["latitude"].isna() | read["longitude"].isna(), "without coordinates", notes)
    if not storage:
        read = _without(read, read["fuel"] == _STORAGE, "of storage", notes)
    read = _without(read, ~(read["power_w"] > 0), "without power", notes)
    if not len(read):
        raise ValueError(f"{path.name}: no plant is left ({'; '.join(notes) or 'no rows'}): give plants of the country")
    _check_in_country(read, path.name)
    read = read.assign(fuel=read["fuel"].replace(_STORAGE, "other"))
    firsts = {name: (name, "first") for name in ("name", "state", "interconnect", "authority", "latitude", "longitude")}
    sums = {"units": ("power_w", "size"), "power_w": ("power_w", "sum")}
    grouped = read.groupby(["sub_id", "fuel"], as_index=False).agg(**firsts, **sums, largest_unit_w=("power_w", "max"))
    result = grouped[REQUIRED_COLUMNS["plants"].split()]
    result.attrs["warnings"] = tuple(notes)
    return result


def _without(table: pd.DataFrame, lost: pd.Series, text: str, notes: list[str]) -> pd.DataFrame:
    """The other rows; what is left out is said in `notes`."""
    if lost.any():
        total = units.show(float(table.loc[lost, "power_w"].sum()), "W", 4)
        notes.append(f"left out: {units.counted(lost.sum(), 'rows')} {text}, {total}")
    return table[~lost]


def _check_in_country(table: pd.DataFrame, where: str) -> None:
    good = table["latitude"].between(*_LATITUDES) & table["longitude"].between(*_LONGITUDES)
    if not good.all():
        row = table[~good].iloc[0]
        raise ValueError(
            f"{where}: plant {row['sub_id']} ({row['name']}) at latitude {row['latitude']}, longitude "
            f"{row['longitude']} is outside the contiguous states: give degrees north and east (west is negative)"
        )


def _workbook_plants(path: Path) -> pd.DataFrame:
    """Generators of a workbook whose header is the first row that has a plant's code and an energy source."""
    if find_spec("openpyxl") is None:
        raise ValueError(f'{path.name}: a workbook needs openpyxl: pip install "railcore[workbooks]", or give a CSV')
    try:
        book = pd.ExcelFile(path, engine="openpyxl")
    except Exception as error:  # openpyxl lets zipfile's and its own errors through
        raise ValueError(f"{path.name}: cannot be read as a workbook ({error}): give EIA-860M's .xlsx") from None
    with book:
        if _SHEET not in book.sheet_names:
            there = ", ".join(map(str, book.sheet_names))
            raise ValueError(f"{path.name}: no sheet {_SHEET!r}; it has {there}: give EIA-860M's .xlsx")
        cells = pd.read_excel(book, _SHEET, header=None, dtype=object, keep_default_na=False, na_values=[""])
    needed = [{plain_name(spelling) for spelling in _GENERATOR_COLUMNS[key]} for key in ("sub_id", "energy")]
    where = f"{path.name}, sheet {_SHEET!r}"
    for number, row in cells.head(_MOST_TITLE_ROWS).iterrows():
        if all(spellings & set(row.map(plain_name)) for spellings in needed):
            table = cells.loc[number + 1 :].set_axis(pd.Index(row), axis=1)
            return _generators(table.loc[:, table.columns.notna() & ~table.columns.duplicated()], where)
    raise ValueError(
        f"{where}: none of its first {_MOST_TITLE_ROWS} rows has the columns 'Plant ID' and 'Energy Source Code': "
        "give EIA-860M's inventory of generators"
    )


def _generators(table: pd.DataFrame, where: str) -> pd.DataFrame:
    header = list(table.columns)
    here = find_columns(header, _GENERATOR_COLUMNS, where)
    code = pd.to_numeric(table[here["sub_id"]], errors="coerce")
    stray = code.isna() & table[here["energy"]].map(_text).ne("")
    if stray.any():
        cell = table.loc[stray, here["sub_id"]].iloc[0]
        raise ValueError(
            f"{where}: column {here['sub_id']!r} holds {cell!r}, expected a plant's code: correct that row"
        )
    table = table[code.notna()]
    check_has_rows(table, where)
    power_w, notes = as_numbers(table, here["power_w"], where) * units.MW, []
    if (blank := power_w.isna()).any() and plain_name(_NAMEPLATE) in map(plain_name, header):
        nameplate = find_columns(header, {"": (_NAMEPLATE,)}, where)[""]
        power_w = power_w.fillna(as_numbers(table, nameplate, where) * units.MW)
        notes = [f"nameplate power is taken for {units.counted(blank.sum(), 'generators')} without net summer capacity"]
    text = {key: table[here[key]].map(_text) for key in ("name", "state", "authority", "energy", "mover")}
    check_authorities(text["authority"], f"{where}, column {here['authority']!r}")
    fuel = _meaning(text["energy"], "energy source", f"{where}, column {here['energy']!r}")
    result = pd.DataFrame(
        {
            "sub_id": code[code.notna()].astype(int),
            "name": text["name"],
            "state": _meaning(text["state"], "state", f"{where}, column {here['state']!r}"),
            "authority": text["authority"],
            "interconnect": text["authority"].map(interconnects()).fillna(""),
            "latitude": as_numbers(table, here["latitude"], where),
            "longitude": as_numbers(table, here["longitude"], where),
            "fuel": text["mover"].map(code_meanings("prime mover")).fillna(fuel),
            "power_w": power_w,
        }
    )
    result.attrs["warnings"] = notes
    return result


def _text(cell: object) -> str:
    return "" if cell is None or cell != cell else str(cell).strip()


def _meaning(codes: pd.Series, kind: str, where: str) -> pd.Series:
    if stray := sorted(set(codes) - set(code_meanings(kind))):
        raise ValueError(f"{where}: {kind} {stray[0]!r} is unknown: add it to data/grid/eia_codes.csv")
    return codes.map(code_meanings(kind))


def _csv_plants(path: Path) -> pd.DataFrame:
    """Plants of a CSV with a row for each plant and net summer MW in a column for each fuel."""
    try:
        table = pd.read_csv(path, keep_default_na=False, na_values=[""], low_memory=False)
    except (ValueError, OSError) as error:  # no columns, no text, no such compression
        raise ValueError(f"{path.name}: cannot be read as CSV ({error}): give EIA-860M as .xlsx or CSV") from None
    names, where = list(table.columns), path.name
    check_has_rows(table, where)
    here = find_columns(names, _SITE_COLUMNS, where)
    fuels = find_columns(names, {source: (f"{source}_mw",) for source in code_meanings("plant column")}, where)
    if stray := [
        name for name in names if split_unit(name)[1] == "mw" and name not in {*fuels.values(), *_SUM_COLUMNS}
    ]:
        raise ValueError(f"{where}: column {stray[0]!r} is of an unknown fuel: add it to data/grid/eia_codes.csv")
    code = table[here["authority"]].map(_text)
    check_authorities(code, f"{where}, column {here['authority']!r}")
    nerc = table["nerc"].map(lambda name: _NERC_INTERCONNECTS.get(name, "Eastern")) if "nerc" in table else ""
    site = pd.DataFrame({key: table[column] for key, column in here.items()}).assign(
        state=table[here["state"]].replace(dict(code_meanings("state"))),
        authority=code,
        interconnect=code.map(interconnects()).fillna(nerc),
        latitude=as_numbers(table, here["latitude"], where),
        longitude=as_numbers(table, here["longitude"], where),
    )
    parts = [
        site.assign(fuel=code_meanings("plant column")[source], power_w=as_numbers(table, column, where) * units.MW)
        for source, column in fuels.items()
    ]
    rows = pd.concat(parts, ignore_index=True)
    return rows[rows["power_w"].fillna(0.0) != 0]


_HOUR_COLUMNS = {
    "authority": ("Balancing Authority",),
    "hour_utc": ("UTC Time at End of Hour",),
    "demand_w": ("Demand (MW)",),
    "net_generation_w": ("Net Generation (MW)",),
}
_HOUR_FORMATS = ("%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %H:%M", "ISO8601")  # of an hour; the six-month files write the first


def balance_series(*paths: str | Path) -> pd.DataFrame:
    """Hours of EIA-930's six-month BALANCE files (CSV), one row as each file has it, none dropped.

    Columns: authority, hour_utc (end of the hour), demand_w, net_generation_w as reported.
    Raises ValueError naming the file, the column, what was expected and the remedy.
    """
    if not paths:
        raise ValueError("paths is empty: give one or more BALANCE files, such as EIA930_BALANCE_2023_Jan_Jun.csv")
    tables = [_balance_table(existing_file(path)) for path in paths]
    codes = sorted({code for table in tables for code in table["authority"].cat.categories})
    authorities = pd.CategoricalDtype(codes)
    return pd.concat([table.astype({"authority": authorities}) for table in tables], ignore_index=True)


def _balance_table(path: Path) -> pd.DataFrame:
    where = path.name
    try:
        names = list(pd.read_csv(path, nrows=0).columns)
        here = find_columns(names, _HOUR_COLUMNS, where)
        read = pd.read_csv(
            path, usecols=list(here.values()), thousands=",", keep_default_na=False, na_values=[""], low_memory=False
        )
    except (UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise ValueError(f"{where}: cannot be read as CSV ({error}): give a BALANCE file of EIA-930") from None
    check_has_rows(read, where)
    values = {name: as_numbers(read, here[name], where) * units.MW for name in ("demand_w", "net_generation_w")}
    code = read[here["authority"]].astype("category")
    if code.isna().any():
        raise ValueError(f"{where}: column {here['authority']!r} has blank cells: give a code in every row")
    code = code.cat.rename_categories([str(name).strip() for name in code.cat.categories])
    check_authorities(code.cat.categories, f"{where}, column {here['authority']!r}")
    hours = _utc_hours(read[here["hour_utc"]], where, here["hour_utc"])
    return pd.DataFrame({"authority": code, "hour_utc": hours, **values})


def _utc_hours(cells: pd.Series, where: str, column: object) -> np.ndarray:
    """Hours in UTC without a zone; each different text is read once."""
    codes, texts = pd.factorize(cells)
    hours = pd.DatetimeIndex([pd.NaT] * len(texts))
    for style in _HOUR_FORMATS:
        read = pd.to_datetime(pd.Index(texts).astype(str), format=style, errors="coerce")
        hours = hours.where(hours.notna(), read)
    odd = hours.isna() | (hours != hours.floor("h"))
    if odd.any() or (codes < 0).any():
        first = repr(str(texts[odd][0])) if odd.any() else "a blank"
        raise ValueError(
            f"{where}: column {column!r} holds {first}, expected the end of an hour such as "
            "01/01/2023 6:00:00 AM: correct that row"
        )
    return hours.to_numpy()[codes].astype("datetime64[s]")
