"""Lines of one's own from a CSV, for `PowerGrid.with_lines`."""

from pathlib import Path

import numpy as np
import pandas as pd

from railcore.catalog import units
from railcore.catalog.letters import escaped
from railcore.siting.eia import as_numbers, check_has_rows, existing_file, in_country, plain_name, read_table
from railcore.siting.grid import LINE_ENDS

_ENDS = ("lat", "lon", "lat_to", "lon_to")  # in a file, in the order of LINE_ENDS
_COLUMNS = (*_ENDS, "mw")


def line_table(path: str | Path) -> pd.DataFrame:
    """Lines of a CSV with columns lat, lon, lat_to, lon_to [degrees] and mw, a row each; kv and type where it has them.

    Columns latitude, longitude, latitude_to, longitude_to, power_w, and kv and type.

    Raises ValueError naming the file, the column, what was expected and the remedy; also for a line of which no end
    lies in the contiguous states.
    """
    path = existing_file(path)
    read = read_table(path, "a CSV of lines")
    read.columns = [plain_name(name).replace(" ", "_") for name in read.columns]
    if missing := [column for column in _COLUMNS if column not in read]:
        raise ValueError(f"{path.name}: no column {missing[0]!r}: give {', '.join(_COLUMNS)}, and kv and type if known")
    check_has_rows(read, path.name)
    numbers = {column: as_numbers(read, column, path.name) for column in _COLUMNS}
    for column, values in numbers.items():
        if (bad := ~np.isfinite(values) | ((values < 0) & (column == "mw"))).any():
            what = "a blank" if np.isnan(values[bad].iloc[0]) else f"{values[bad].iloc[0]:g}"
            raise ValueError(f"{path.name}: column {column!r} holds {what}: give numbers in every row, mw of 0 or more")
    _check_inside(numbers, path.name)
    table = pd.DataFrame({name: numbers[column] for name, column in zip(LINE_ENDS, _ENDS, strict=True)})
    of_kind = {"kv": as_numbers(read, "kv", path.name)} if "kv" in read else {}
    of_kind |= {"type": read["type"].fillna("").astype(str).map(escaped)} if "type" in read else {}
    return table.assign(power_w=numbers["mw"] * units.MW, **of_kind)


def _check_inside(numbers: dict[str, pd.Series], where: str) -> None:
    inside = in_country(numbers["lat"], numbers["lon"]) | in_country(numbers["lat_to"], numbers["lon_to"])
    if not inside.all():
        row = ", ".join(f"{numbers[column][~inside].iloc[0]:g}" for column in _ENDS)
        raise ValueError(
            f"{where}: the line with {', '.join(_ENDS)} of {row} is outside the contiguous states: "
            "give degrees north and east (west is negative)"
        )
