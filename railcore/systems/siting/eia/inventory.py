"""Plants that a user brings, in the columns of `PowerGrid.plants`: EIA-860M workbooks, or a CSV of the inventory."""

from pathlib import Path

import pandas as pd

from railcore.facts import units
from railcore.systems.siting.eia.headers import (
    as_numbers,
    as_watts,
    check_authorities,
    existing_file,
    find_columns,
    interconnects,
    meanings,
    plain_name,
    split_unit,
    with_rows,
)
from railcore.systems.siting.grid import NEEDED

GENERATORS = {
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
NAMEPLATE = "Nameplate Capacity (MW)"
SITES = {
    "sub_id": ("plant_code",),
    "name": ("name",),
    "state": ("state",),
    "authority": ("ba",),
    "latitude": ("lat",),
    "longitude": ("lon",),
}
SUMS = ("nameplate_mw", "summer_mw")  # of all fuels of a plant
LATITUDES, LONGITUDES = (24.0, 50.0), (-126.0, -66.0)  # of the contiguous states and their shelf [degrees]
TITLES = 20  # rows in which the header is looked for
STORAGE = "storage"
OF_NERC = {"WECC": "Western", "TRE": "Texas"}  # the others are Eastern


def plants(path: str | Path, storage: bool = False, sheet: str = "Operating") -> pd.DataFrame:
    """Plants of an EIA-860M workbook (.xlsx) or of a CSV with MW by fuel, one row for each plant and fuel.

    Columns as `PowerGrid.plants`: sub_id the EIA plant code, authority the balancing authority's code, interconnect
    that of the authority (where there is none, of the CSV's column nerc, and "" in a workbook, which has no such
    column).
    power_w: net summer capacity, nameplate where that is blank, of units on standby and out of service too. units,
    largest_unit_w: by generator; the CSV has no generators, so a plant's fuel is one unit there.
    A plant's code is no substation of the grid. Which lines can replace a group's largest producer (N-1) is decided by
    the substations within the same radius.
    storage: True counts batteries, pumped storage and flywheels as fuel "other". They are left out by default: storage
    produces no energy, so no datacenter runs on it through a year.
    attrs["warnings"]: what was left out and filled in, as sentences.

    Raises ValueError naming the file, the column, what was expected and the remedy.
    """
    path = existing_file(path)
    read = _workbook(path, sheet) if path.suffix.lower() == ".xlsx" else _table(path)
    notes = list(read.attrs["warnings"])
    inside = [name for name in meanings("state").values() if name]
    read = _without(read, ~read["state"].isin(inside), "outside the contiguous states", notes)
    read = _without(read, read["latitude"].isna() | read["longitude"].isna(), "without coordinates", notes)
    if not storage:
        read = _without(read, read["fuel"] == STORAGE, "of storage", notes)
    read = _without(read, ~(read["power_w"] > 0), "without power", notes)
    if not len(read):
        raise ValueError(f"{path.name}: no plant is left ({'; '.join(notes) or 'no rows'}): give plants of the country")
    _in_country(read, path.name)
    read = read.assign(fuel=read["fuel"].replace(STORAGE, "other"))
    firsts = {name: (name, "first") for name in ("name", "state", "interconnect", "authority", "latitude", "longitude")}
    sums = {"units": ("count", "sum"), "power_w": ("power_w", "sum")}
    grouped = read.groupby(["sub_id", "fuel"], as_index=False).agg(**firsts, **sums, largest_unit_w=("power_w", "max"))
    result = grouped[NEEDED["plants"].split()]
    result.attrs["warnings"] = tuple(notes)
    return result


def _without(table: pd.DataFrame, lost: pd.Series, text: str, notes: list[str]) -> pd.DataFrame:
    """The other rows; what is left out is said in `notes`."""
    if lost.any():
        total = units.show(float(table.loc[lost, "power_w"].sum()), "W", 4)
        notes.append(f"{int(lost.sum())} rows {text}, {total}, are left out")
    return table[~lost]


def _in_country(table: pd.DataFrame, where: str) -> None:
    good = table["latitude"].between(*LATITUDES) & table["longitude"].between(*LONGITUDES)
    if not good.all():
        row = table[~good].iloc[0]
        raise ValueError(
            f"{where}: plant {row['sub_id']} ({row['name']}) at latitude {row['latitude']}, longitude "
            f"{row['longitude']} is outside the contiguous states: give degrees north and east (west is negative)"
        )


def _workbook(path: Path, sheet: str) -> pd.DataFrame:
    """Generators of a workbook whose header is the first row that has a plant's code and an energy source."""
    try:
        book = pd.ExcelFile(path, engine="openpyxl")
    except Exception as error:  # openpyxl lets zipfile's and its own errors through
        raise ValueError(f"{path.name}: cannot be read as a workbook ({error}): give EIA-860M's .xlsx") from None
    with book:
        if sheet not in book.sheet_names:
            there = ", ".join(map(str, book.sheet_names))
            raise ValueError(f"{path.name}: no sheet {sheet!r}; it has {there}: name one as sheet")
        cells = pd.read_excel(book, sheet, header=None, dtype=object, keep_default_na=False, na_values=[""])
    needed = [{plain_name(spelling) for spelling in GENERATORS[key]} for key in ("sub_id", "energy")]
    where = f"{path.name}, sheet {sheet!r}"
    for number, row in cells.head(TITLES).iterrows():
        if all(spellings & set(row.map(plain_name)) for spellings in needed):
            table = cells.loc[number + 1 :].set_axis(pd.Index(row), axis=1)
            return _generators(table.loc[:, table.columns.notna() & ~table.columns.duplicated()], where)
    raise ValueError(
        f"{where}: none of its first {TITLES} rows has the columns 'Plant ID' and 'Energy Source Code': "
        "give EIA-860M's inventory of generators"
    )


def _generators(table: pd.DataFrame, where: str) -> pd.DataFrame:
    header = list(table.columns)
    here = find_columns(header, GENERATORS, where)
    code = pd.to_numeric(table[here["sub_id"]], errors="coerce")
    stray = code.isna() & table[here["energy"]].map(_text).ne("")
    if stray.any():
        given = table.loc[stray, here["sub_id"]].iloc[0]
        raise ValueError(
            f"{where}: column {here['sub_id']!r} holds {given!r}, expected a plant's code: correct that row"
        )
    table = with_rows(table[code.notna()], where)
    power_w, notes = as_watts(table, here["power_w"], where), []
    if (blank := power_w.isna()).any() and plain_name(NAMEPLATE) in map(plain_name, header):
        own = find_columns(header, {"": (NAMEPLATE,)}, where)[""]
        power_w = power_w.fillna(as_watts(table, own, where))
        notes = [f"{int(blank.sum())} generators have no net summer capacity: nameplate is taken for it"]
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
            "fuel": text["mover"].map(meanings("prime mover")).fillna(fuel),
            "count": 1,
            "power_w": power_w,
        }
    )
    result.attrs["warnings"] = notes
    return result


def _text(cell: object) -> str:
    return "" if cell is None or cell != cell else str(cell).strip()


def _meaning(codes: pd.Series, kind: str, where: str) -> pd.Series:
    if stray := sorted(set(codes) - set(meanings(kind))):
        raise ValueError(f"{where}: {kind} {stray[0]!r} is unknown: add it to data/grid/eia_codes.csv")
    return codes.map(meanings(kind))


def _table(path: Path) -> pd.DataFrame:
    """Plants of a CSV with a row for each plant and net summer MW in a column for each fuel."""
    try:
        table = pd.read_csv(path, keep_default_na=False, na_values=[""], low_memory=False)
    except (ValueError, OSError) as error:  # no columns, no text, no such compression
        raise ValueError(f"{path.name}: cannot be read as CSV ({error}): give EIA-860M as .xlsx or CSV") from None
    names, where = list(with_rows(table, path.name).columns), path.name
    here = find_columns(names, SITES, where)
    fuels = find_columns(names, {source: (f"{source}_mw",) for source in meanings("plant column")}, where)
    if stray := [name for name in names if split_unit(name)[1] == "mw" and name not in {*fuels.values(), *SUMS}]:
        raise ValueError(f"{where}: column {stray[0]!r} is of an unknown fuel: add it to data/grid/eia_codes.csv")
    code = table[here["authority"]].map(_text)
    check_authorities(code, f"{where}, column {here['authority']!r}")
    nerc = table["nerc"].map(lambda name: OF_NERC.get(name, "Eastern")) if "nerc" in table else ""
    site = pd.DataFrame({key: table[own] for key, own in here.items()}).assign(
        state=table[here["state"]].replace(dict(meanings("state"))),
        authority=code,
        interconnect=code.map(interconnects()).fillna(nerc),
        latitude=as_numbers(table, here["latitude"], where),
        longitude=as_numbers(table, here["longitude"], where),
    )
    parts = []
    for source, own in fuels.items():
        watts = as_watts(table, own, where).fillna(0.0)
        parts.append(site.assign(fuel=meanings("plant column")[source], count=1, power_w=watts))
    every = pd.concat([part[part["power_w"] != 0] for part in parts], ignore_index=True)
    every.attrs["warnings"] = []
    return every
