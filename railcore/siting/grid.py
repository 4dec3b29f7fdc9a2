"""A power grid: plants, lines, substations and loads, the one in data/grid or a user's own."""

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from railcore import catalog
from railcore.catalog import files, units
from railcore.catalog.arguments import NeededColumns, checked, si
from railcore.network.globe import great_circle_distance, unit_vectors
from railcore.siting import eia
from railcore.siting.geometry import inside_rings

_EMBEDDED_NAME = "synthetic grid, drawn from public statistics of about 2016 to 2020"
_PLACE_COLUMNS = {"lat": "latitude", "lon": "longitude"}
_COLUMN_NAMES = {
    "plants": _PLACE_COLUMNS | {"mw": "power_w", "largest_unit_mw": "largest_unit_w"},
    "lines": {"mw": "power_w", "km": "length_m"},
    "substations": _PLACE_COLUMNS | {"load_mw": "load_w"},
    "loads": _PLACE_COLUMNS | {"load_mw": "load_w"},
}
REQUIRED_COLUMNS = {
    "plants": "sub_id name state interconnect authority latitude longitude fuel units power_w largest_unit_w",
    "lines": "from_sub to_sub kv circuits power_w length_m type",
    "substations": "sub_id name state latitude longitude",
    "loads": "latitude longitude load_w",
}
_UNITS_TAKEN = (
    "the plants' units are not given: the largest unit of a plant is taken as all its power, and at most as the "
    "largest US unit of its fuel (catalog family fuels, largest_unit)"
)
_TABLES = ("plants", "lines", "loads")  # that a name tells of
_LEAST_PLANT_COLUMNS = ("latitude", "longitude", "fuel", "power_w")
LINE_ENDS = ("latitude", "longitude", "latitude_to", "longitude_to")  # of lines of your own [degrees]


@checked
@dataclass(frozen=True)
class PowerGrid:
    """Tables of a grid, in watts, metres and degrees.

    name: of the grid.
    plants: one row for each site (`sub_id`) and fuel.
    lines: of 200 kV and more, merged by pair of substations and voltage.
    substations: one row each.
    loads: in cells of 0.1 degree.
    authority_caps: bounds of balancing authorities of your own by code [W], such as from hours
        (`authorities.authority_caps`), laid over those of public statistics; infinite frees one, {} all.
    own: which tables are your own; `with_plants` and `with_lines` say it, and the name has it.

    Columns are at least `REQUIRED_COLUMNS`; largest_unit_w is NaN where it is unknown.
    Raises ValueError for missing columns, negative power, a fuel that the catalog lacks and places off the Earth.
    """

    name: str
    plants: Annotated[pd.DataFrame, NeededColumns(REQUIRED_COLUMNS["plants"].split())]
    lines: Annotated[pd.DataFrame, NeededColumns(REQUIRED_COLUMNS["lines"].split())]
    substations: Annotated[pd.DataFrame, NeededColumns(REQUIRED_COLUMNS["substations"].split())]
    loads: Annotated[pd.DataFrame, NeededColumns(REQUIRED_COLUMNS["loads"].split())]
    authority_caps: Mapping[str, float] | None = None
    own: tuple[str, ...] = ()
    made_by = "load_grid()"

    def __post_init__(self) -> None:
        for kind, needed in REQUIRED_COLUMNS.items():
            table = getattr(self, kind)
            for column in {"power_w", "load_w", "largest_unit_w"} & set(needed.split()):
                unknown = table[column].isna() & (column == "largest_unit_w")  # rules that need it refuse it
                if not (unknown | (table[column] >= 0)).all():
                    raise ValueError(f"{kind} of grid {self.name!r} have {column} below 0 or none: give 0 W or more")
            if "latitude" in table and not (table["latitude"].abs().le(90) & table["longitude"].abs().le(180)).all():
                raise ValueError(f"{kind} of grid {self.name!r} have places off the Earth: give degrees")
        caps = {code: si(f"authority_caps[{code!r}]", cap, "2 GW") for code, cap in (self.authority_caps or {}).items()}
        if self.authority_caps is not None:
            object.__setattr__(self, "authority_caps", caps)
        for code, cap in caps.items():
            if np.isnan(float(cap)):
                raise ValueError(f"authority_caps[{code!r}] is {cap!r}: give watts, such as 2e9")
        known = {*eia.authority_codes(), *self.plants["authority"].dropna()}
        if unknown := sorted(set(caps) - known):
            raise catalog.UnknownName("authority_caps: balancing authority", unknown[0], sorted(known))
        if stray := sorted(set(self.plants["fuel"]) - set(catalog.names("fuels"))):
            raise catalog.UnknownName("fuel", stray[0], catalog.names("fuels"))
        ends = set(self.lines["from_sub"]) | set(self.lines["to_sub"])
        if lost := sorted(ends - set(self.substations["sub_id"])):
            raise ValueError(f"lines of grid {self.name!r} end at substation {lost[0]}, which substations lack: add it")

    @checked
    def with_plants(self, plants: pd.DataFrame) -> "PowerGrid":
        """The same lines and loads with other plants, such as an EIA-860M workbook's (`siting.plants`).

        plants: at least latitude, longitude [degrees], fuel (of the catalog's fuels) and power_w. Other required
        columns that it lacks are filled in: a site (`sub_id`) for each place, the state of the outlines, interconnect
        and authority of the nearest plant here, and units as `with_unit_sizes` has them, which the plants'
        attrs["warnings"] says.
        """
        table = plants.reset_index(drop=True)
        if missing := [column for column in _LEAST_PLANT_COLUMNS if column not in table]:
            raise ValueError(f"plants lack column {missing[0]!r}: give at least {', '.join(_LEAST_PLANT_COLUMNS)}")
        if set(REQUIRED_COLUMNS["plants"].split()) - set(table):
            here, at = (unit_vectors(sites["latitude"], sites["longitude"]) for sites in (self.plants, table))
            nearest = self.plants.iloc[cKDTree(here).query(at)[1]]
            filled = {
                "sub_id": np.unique(at, axis=0, return_inverse=True)[1].ravel(),
                "name": "",
                "state": state_of(table["latitude"], table["longitude"]),
                "interconnect": nearest["interconnect"].to_numpy(),
                "authority": nearest["authority"].to_numpy(),
            }
            table = table.assign(**{column: value for column, value in filled.items() if column not in table})
            table = with_unit_sizes(table)
        return self._with_own("plants", plants=table)

    @checked
    def with_lines(self, lines: pd.DataFrame) -> "PowerGrid":
        """The same plants and loads with other lines, whose ends are its substations.

        lines: latitude, longitude, latitude_to, longitude_to (both ends [degrees]) and power_w, the power that a line
        carries [W]; a row each. Ends at the same place are one substation. Other required columns that it lacks are
        filled in: one circuit, the length of the great circle, and neither voltage nor type.
        """
        table = lines.reset_index(drop=True)
        if missing := [column for column in (*LINE_ENDS, "power_w") if column not in table]:
            raise ValueError(f"lines lack column {missing[0]!r}: give at least {', '.join((*LINE_ENDS, 'power_w'))}")
        ends = np.concatenate([table[[*LINE_ENDS[:2]]].to_numpy(float), table[[*LINE_ENDS[2:]]].to_numpy(float)])
        places, station = np.unique(ends, axis=0, return_inverse=True)
        from_sub, to_sub = station.reshape(2, -1)
        latitude, longitude = places.T
        length_m = great_circle_distance(*(table[column].to_numpy(float) for column in LINE_ENDS))
        usual = {"kv": np.nan, "circuits": 1, "length_m": length_m, "type": ""}
        filled = {column: value for column, value in usual.items() if column not in table}
        stations = {"sub_id": np.arange(len(places)), "name": "", "state": state_of(latitude, longitude)}
        return self._with_own(
            "lines",
            lines=table.assign(from_sub=from_sub, to_sub=to_sub, **filled),
            substations=pd.DataFrame({**stations, "latitude": latitude, "longitude": longitude}),
        )

    def _with_own(self, kind: str, **tables: pd.DataFrame) -> "PowerGrid":
        """The grid with tables of the user's, and a name that says which, and where the rest is from."""
        own = tuple(one for one in _TABLES if one in (*self.own, kind))
        rest = " and ".join(one for one in _TABLES if one not in own)
        source = self.name.partition(": ")[2] if self.own else self.name
        return replace(self, name=f"{' and '.join(own)} of your own, {rest}: {source}", own=own, **tables)

    @cached_property
    def power_w(self) -> np.ndarray:
        """Power of each plant [W]."""
        return self.plants["power_w"].to_numpy(float)

    def fuel(self, parameter: str) -> np.ndarray:
        """A parameter of each plant's fuel from the catalog, such as "capacity_factor"."""
        number, names = pd.factorize(self.plants["fuel"])
        return np.array([catalog.item("fuels", name)[parameter] for name in names], float)[number]

    def power_by(self, column: str, weight: np.ndarray) -> tuple[np.ndarray, csr_array]:
        """Labels of a plants' column, and a sparse (plants, labels) with each plant's weight at its label."""
        number, labels = pd.factorize(self.plants[column].fillna(""), sort=True)
        shape = (len(number), len(labels))
        return np.asarray(labels, str), csr_array((weight, (np.arange(len(number)), number)), shape=shape)

    def fuel_mix(self, groups: csr_array) -> list[str]:
        """Fuels of each group by share of power, the largest first: "nuclear 55%, gas 45%"; those below 0.5% left out.

        groups: sparse (groups, plants) with 1 for a member.
        """
        names, by_fuel = self.power_by("fuel", self.power_w)
        power, mixes = (groups @ by_fuel).toarray(), []
        for row in np.round(power / np.maximum(power.sum(axis=1, keepdims=True), 1e-9), 12):
            largest = [at for at in np.argsort(-row, kind="stable") if row[at] >= 0.005]
            mixes.append(", ".join(f"{names[at].replace('_', ' ')} {row[at]:.0%}" for at in largest))
        return mixes

    def largest_label(self, column: str, groups: csr_array, weight: np.ndarray) -> np.ndarray:
        """Label of a plants' column that has most weight in each group. groups: sparse (groups, plants)."""
        labels, by_label = self.power_by(column, weight)
        return labels[(groups @ by_label).toarray().argmax(axis=1)]


def with_unit_sizes(plants: pd.DataFrame) -> pd.DataFrame:
    """Plants with the columns units and largest_unit_w, filled in where one is missing.

    u = min(p, s), n = ceil(p / u), with power p [W] and the size s [W] that no unit of the fuel exceeds (catalog family
    fuels, `largest_unit`). So u is the most that one unit may have, and n the fewest units that there are: 1 where u is
    NaN, as of a fuel without that row. A column that is there stays as it is.

    plants: at least fuel and power_w. attrs["warnings"] of the result say what was filled in.
    """
    if {"units", "largest_unit_w"} <= {*plants}:
        return plants
    sizes = {fuel: _largest_unit_w(fuel) for fuel in sorted(set(plants["fuel"]))}
    power = plants["power_w"].to_numpy(float)
    largest = plants["largest_unit_w"] if "largest_unit_w" in plants else np.minimum(power, plants["fuel"].map(sizes))
    share = np.divide(power, largest, out=np.ones_like(power), where=np.asarray(largest) > 0)
    fewest = np.ceil(np.round(share, 9)).clip(1).astype(int)  # rounded: a whole number of units stays one
    result = plants.assign(largest_unit_w=largest, units=plants.get("units", fewest))
    notes = [*plants.attrs.get("warnings", ()), *[_UNITS_TAKEN] * ("largest_unit_w" not in plants)]
    if unknown := [fuel for fuel, size in sizes.items() if np.isnan(size)]:
        notes.append(f"largest unit unknown: catalog family fuels has no largest_unit of {', '.join(unknown)}: add it")
    result.attrs["warnings"] = tuple(notes)
    return result


def _largest_unit_w(fuel: str) -> float:
    known = fuel in catalog.names("fuels") and "largest_unit" in (row := catalog.item("fuels", fuel))
    return row["largest_unit"] if known else np.nan


@checked
def load_grid(folder: str | Path = "") -> PowerGrid:
    """Plants, lines and loads of the embedded grid, or of a folder's.

    Parameters
    ----------
    folder
        With files of the same names and columns as data/grid (its README.md has them); "" for the embedded grid.

    Returns
    -------
    Plants [W], lines, substations and loads, each a table.

    Raises
    ------
    ValueError
        Naming the file or column that is missing.

    Examples
    --------
    >>> import railcore as rc
    >>> grid = rc.load_grid()
    >>> grid.name, {"fuel", "latitude", "longitude"} <= {*grid.plants.columns}
    ('synthetic grid, drawn from public statistics of about 2016 to 2020', True)
    """
    tables: dict[str, Any] = {kind: _table(kind, folder) for kind in _COLUMN_NAMES}
    return PowerGrid(Path(folder).name if folder else _EMBEDDED_NAME, **tables)


def _table(kind: str, folder: str | Path) -> pd.DataFrame:
    ends = (".csv.gz", ".csv")
    paths = [Path(folder) / f"{kind}{end}" for end in ends] if folder else [files.data(f"grid/{kind}.csv.gz")]
    path = next(filter(Path.is_file, paths), None)
    if path is None:
        needed = ", ".join(_COLUMN_NAMES)
        raise ValueError(f"folder {str(folder)!r} has no {kind}.csv.gz or {kind}.csv: give one for each of {needed}")
    read = eia.read_table(path, "a table of the grid")
    if missing := [column for column in _COLUMN_NAMES[kind] if column not in read]:
        raise ValueError(f"{path.name} has no column {missing[0]!r}: it needs {', '.join(_COLUMN_NAMES[kind])}")
    table = read.rename(columns=_COLUMN_NAMES[kind])
    for old, new in _COLUMN_NAMES[kind].items():
        if old in read and old not in _PLACE_COLUMNS:
            table[new] = read[old].astype(float) * (units.km if old == "km" else units.MW)
    if kind == "plants" and "authority" not in table and "ipm_region" in table:
        regions = pd.read_csv(files.data("grid/regions.csv"), index_col="ipm_region", keep_default_na=False)
        table["authority"] = table["ipm_region"].map(regions["authority"])  # the region's lead authority
    return table


@cache
def state_outlines() -> dict[str, list[np.ndarray]]:
    """Rings of longitude and latitude, shape (n, 2), that bound each state and the District of Columbia."""
    outlines: dict[str, list[np.ndarray]] = {}
    for feature in json.loads(gzip.decompress(files.data("grid/states.geojson.gz").read_bytes()))["features"]:
        shape = feature["geometry"]
        parts = [shape["coordinates"]] if shape["type"] == "Polygon" else shape["coordinates"]
        outlines[feature["properties"]["name"]] = [np.array(ring, float) for part in parts for ring in part]
    return outlines


def state_of(latitude: ArrayLike, longitude: ArrayLike) -> np.ndarray:
    """State that each place lies in, "" outside the country. A place inside an odd number of rings is inside."""
    places = np.column_stack([np.atleast_1d(longitude).astype(float), np.atleast_1d(latitude).astype(float)])
    state = np.full(len(places), "", dtype=object)
    for name, rings in state_outlines().items():
        corners = np.concatenate(rings)
        near = np.flatnonzero(np.all((places >= corners.min(axis=0)) & (places <= corners.max(axis=0)), axis=1))
        state[near[inside_rings(places[near], rings)]] = name
    return state
