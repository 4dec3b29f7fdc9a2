"""The files of data/grid, and the script that rebuilds them from the packages they come from."""

import csv
import hashlib
import importlib
import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.catalog import files

GRID = files.DATA / "grid"
ARCHIVES = "RAILCORE_GRID_ARCHIVES"
FUELS = "coal gas geothermal hydro nuclear oil other solar wind wind_offshore".split()


@pytest.fixture(scope="module")
def scripts():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(GRID))
        yield importlib.import_module("rebuild"), importlib.import_module("reduction")


@pytest.fixture(scope="module")
def rebuild(scripts):
    return scripts[0]


@pytest.fixture(scope="module")
def reduction(scripts):
    return scripts[1]


@pytest.fixture(scope="module")
def table():
    names = ("plants.csv.gz", "lines.csv.gz", "substations.csv.gz", "loads.csv.gz", "cities.csv.gz")
    return {name.partition(".")[0]: pd.read_csv(GRID / name) for name in names}


# the files


def test_contents_are_those_of_the_manifest(rebuild):
    rows = list(csv.DictReader((GRID / "MANIFEST.csv").open()))
    assert {row["file"] for row in rows} == set(rebuild.KEYS)
    for row in rows:
        text = rebuild.content(GRID / row["file"])
        assert hashlib.sha256(text.encode()).hexdigest() == row["content_sha256"], row["file"]
        found = len(json.loads(text)["features"]) if "geojson" in row["file"] else len(text.splitlines()) - 1
        assert found == int(row["rows"])


def test_zipped_files_carry_no_time():
    for path in GRID.glob("*.gz"):
        assert path.read_bytes()[4:8] == bytes(4), path.name


def test_readme_names_every_archive_and_file(rebuild):
    text = (GRID / "README.md").read_text()
    for wanted in [*rebuild.SHA256.values(), *(path.name for path in GRID.glob("*.*") if path.name != "README.md")]:
        assert wanted in text, wanted


def test_plants_are_whole(table):
    plants = table["plants"]
    assert not plants.isna().any(axis=None) and not plants.duplicated(["sub_id", "fuel"]).any()
    assert set(plants["fuel"]) == set(FUELS)
    assert (plants["mw"] > 0).all() and (plants["units"] >= 1).all()
    for less, more in (("dispatch_mw", "online_mw"), ("online_mw", "mw"), ("largest_unit_mw", "mw")):
        assert (plants[less] <= plants[more]).all(), less
    assert (plants["largest_unit_mw"] * plants["units"] >= plants["mw"] - 0.05 * plants["units"] - 0.05 - 1e-9).all()
    sites = plants.groupby("sub_id")
    assert (sites[["lat", "lon", "state", "zone"]].nunique() == 1).all(axis=None)


def test_every_line_end_is_a_substation_and_every_substation_a_line_end(table):
    lines, substations = table["lines"], table["substations"]
    assert {*lines["from_sub"], *lines["to_sub"]} == set(substations["sub_id"])
    assert substations["sub_id"].is_unique
    ac, dc = lines[lines["type"] == "AC"], lines[lines["type"] == "DC"]
    assert len(ac) + len(dc) == len(lines)
    assert (ac["kv"] >= 200).all() and (dc["kv"] == 0).all()
    assert (ac["from_sub"] < ac["to_sub"]).all()
    assert (lines["unrated"] <= lines["circuits"]).all()
    assert ((lines["mw"] > 0) | (lines["unrated"] == lines["circuits"])).all()
    highest = pd.concat([ac.groupby("from_sub")["kv"].max(), ac.groupby("to_sub")["kv"].max()]).groupby(level=0).max()
    assert (substations.set_index("sub_id")["max_kv"].reindex(highest.index) >= highest).all()


def test_authorities_demand_less_when_cleaned_but_for_three():
    frame = pd.read_csv(GRID / "balancing_authorities.csv")
    assert frame["ba"].is_unique and len(frame) == 54
    given_both = frame.dropna()
    assert len(given_both) == 53
    assert (given_both["max_demand_clean_mw"] <= 1.04 * given_both["max_demand_raw_mw"]).all()
    higher = given_both["max_demand_clean_mw"] > given_both["max_demand_raw_mw"]
    assert given_both.loc[higher, "ba"].tolist() == ["ERCO", "ISNE", "NYIS"]  # cleaning also fills hours
    assert (frame["net_summer_capacity_mw"] > 0).all()


# the reduction


def test_units_merge_by_substation_and_fuel(reduction):
    bus = pd.DataFrame({"sub_id": [7, 7, 8], "zone_id": 1}, index=[70, 71, 80])
    for name in ("state", "zone", "interconnect", "reeds_rto", "neem"):
        bus[name] = name
    plant = pd.DataFrame(
        {
            "bus_id": [80, 71, 70, 70, 70],
            "type": ["ng", "ng", "ng", "dfo", "coal"],
            "Pmax": [5.0, 10.0, 20.0, 3.0, 0.0],
            "Pg": [9.0, 12.0, 4.0, 1.0, 0.0],
            "status": [1, 1, 0, 1, 1],
        }
    )
    places = pd.DataFrame({"sub_id": [7, 8], "name": ["A", "B"], "lat": [40.00004, 41.0], "lon": [-90.0, -91.0]})
    made = reduction.plants(reduction.generators(plant, bus), places)
    columns = ["sub_id", "fuel", "units", "mw", "largest_unit_mw", "online_mw", "dispatch_mw", "lat"]
    assert made[columns].to_numpy().tolist() == [
        [7, "gas", 2, 30, 20, 10, 10, 40.0],
        [7, "oil", 1, 3, 3, 3, 1, 40.0],
        [8, "gas", 1, 5, 5, 5, 5, 41.0],
    ]


def test_circuits_merge_and_unrated_ones_are_counted(reduction):
    bus = pd.DataFrame({"sub_id": [1, 2, 1, 2, 3, 1], "baseKV": [230, 230, 345, 345, 115, 230]}, index=range(1, 7))
    branch = pd.DataFrame(
        [(1, 2, 100.0), (2, 1, 50.5), (2, 6, 0.0), (3, 4, 0.0), (1, 6, 9.0), (5, 5, 7.0)],
        columns=["from_bus_id", "to_bus_id", "rateA"],
    )
    dcline = pd.DataFrame({"from_bus_id": [4], "to_bus_id": [1], "Pmax": [500.0]})
    places = pd.DataFrame({"sub_id": [1, 2, 3], "lat": [40.0, 41.0, 42.0], "lon": [-90.0, -90.0, -90.0]})
    made = reduction.lines(branch, dcline, bus, places)
    columns = ["from_sub", "to_sub", "kv", "circuits", "unrated", "mw", "km", "type"]
    assert made[columns].to_numpy().tolist() == [
        [1, 2, 230, 3, 1, 150.5, 111.19, "AC"],  # a degree of a meridian: 6371 pi / 180 km
        [1, 2, 345, 1, 1, 0, 111.19, "AC"],
        [2, 1, 0, 1, 0, 500, 111.19, "DC"],
    ]


@given(st.lists(st.tuples(st.floats(25, 49), st.floats(-125, -67), st.floats(0.5, 900)), min_size=1, max_size=30))
def test_cells_keep_the_load(reduction, places):
    lat, lon, load = np.array(places).T
    numbers = range(len(lat))
    made = reduction.loads(
        pd.DataFrame({"sub_id": numbers, "Pd": load}), pd.DataFrame({"sub_id": numbers, "lat": lat, "lon": lon})
    )
    assert abs(made["load_mw"].sum() - load.sum()) <= 0.5 * len(made) + 1e-6
    assert made["lat"].between(lat.min() - 0.005, lat.max() + 0.005).all()


# outlines


def test_albers_keeps_areas_and_has_its_origin_where_the_standard_puts_it(reduction):
    x, y = reduction.albers(np.array([0.0]), np.array([-120.0]))
    assert (x.item(), y.item()) == pytest.approx((0, -4e6))
    step, e2 = 1e-4, 0.00669438002290
    for lat in (26.0, 37.25, 48.0):
        x, y = reduction.albers(np.array([lat, lat + step, lat]), np.array([-100, -100, -100 + step]))
        (ax, bx), (ay, by) = x[1:] - x[0], y[1:] - y[0]
        s2 = np.sin(np.radians(lat)) ** 2
        north = 6378137 * (1 - e2) / (1 - e2 * s2) ** 1.5 * np.radians(step)
        east = 6378137 * np.sqrt(1 - s2) / np.sqrt(1 - e2 * s2) * np.radians(step)
        assert abs(ax * by - ay * bx) == pytest.approx(north * east, rel=1e-4)
        if lat == 37.25:  # between the two parallels that keep their length
            assert np.hypot(bx, by) / east == pytest.approx(1, abs=0.002)


SQUARE = np.array([[0, 0], [4, 0], [4, 4], [0, 4], [0, 0]], float)


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(-9, 9)), min_size=2, max_size=40), st.floats(0.01, 3))
def test_simplification_is_a_subsequence_with_both_ends(reduction, points, tolerance):
    line = np.array(points)
    kept = reduction.simplified(line, tolerance)
    left = iter(line.tolist())
    assert all(point in left for point in kept.tolist())
    assert kept[0].tolist() == line[0].tolist() and kept[-1].tolist() == line[-1].tolist()


def topology(*states):
    steps = [[[0, 0], [10, 0], [0, 10]], [[10, 10], [-10, 0], [0, -10]], [[50, 50], [1, 0], [0, 1], [-1, -1]]]
    return {
        "transform": {"scale": [0.1, 0.2], "translate": [-100, 40]},
        "arcs": steps,
        "objects": {"states": {"geometries": list(states)}},
    }


def test_arcs_add_up_and_stitch(reduction):
    lines = reduction.arcs(topology())
    assert lines[0].tolist() == [[-100, 40], [-99, 40], [-99, 42]]
    there = reduction.stitched(lines, [0, 1])
    assert there.tolist() == [[-100, 40], [-99, 40], [-99, 42], [-100, 42], [-100, 40]]
    assert reduction.stitched(lines, [~1, ~0]).tolist() == there[::-1].tolist()


def test_outlines_leave_out_overseas_and_small_islands(reduction):
    state = {"id": "19", "properties": {"name": "Iowa"}, "type": "MultiPolygon", "arcs": [[[0, 1]], [[2]]]}
    hawaii = {"id": "15", "properties": {"name": "Hawaii"}, "type": "Polygon", "arcs": [[0, 1]]}
    (made,) = reduction.outlines(topology(hawaii, state), tolerance=1.0)
    assert made["geometry"]["coordinates"] == []  # at 1 degree even the square is a line
    (made,) = reduction.outlines(topology(hawaii, state), tolerance=0.3)
    (polygon,) = made["geometry"]["coordinates"]
    assert made["properties"] == {"name": "Iowa"} and len(polygon[0]) == 5 and polygon[0][0] == [-100, 40]


def test_cities_fall_by_population_and_then_by_name(reduction):
    place = {"countrycode": "US", "admin1code": "TX", "latitude": 30.12345, "longitude": -97.0}
    given_places = [
        place | {"name": "Small", "population": 49_999},
        place | {"name": "Beta", "population": 60_000},
        place | {"name": "Alpha", "population": 60_000},
        place | {"name": "Edge", "population": 50_000},
        place | {"name": "Hilo", "population": 70_000, "admin1code": "HI"},
        place | {"name": "Paris", "population": 2_000_000, "countrycode": "FR"},
    ]
    made = reduction.cities(given_places)
    assert made["city"].tolist() == ["Alpha", "Beta", "Edge"]
    assert made["lat"].unique().tolist() == [30.1234]


# archives, comparison, command


def test_an_archive_of_another_content_is_refused(rebuild, tmp_path):
    with pytest.raises(ValueError, match=r"us-atlas-3.0.1.tgz is not in"):
        rebuild.verified(tmp_path, "us-atlas@3.0.1")
    (tmp_path / "us-atlas-3.0.1.tgz").write_bytes(b"other")
    with pytest.raises(ValueError, match=re.escape(hashlib.sha256(b"other").hexdigest()) + ".*remove it"):
        rebuild.verified(tmp_path, "us-atlas@3.0.1")


def test_a_bad_archive_ends_the_command(rebuild, tmp_path, capsys):
    for package in rebuild.SHA256:
        (tmp_path / rebuild.archive(package)).write_bytes(b"other")
    assert rebuild.main(["--archives", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "powersimdata-0.5.5-py3-none-any.whl" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("pip", "first"), [(object(), "-m"), (None, "run")])
def test_packages_come_by_pip_or_npm(rebuild, tmp_path, monkeypatch, pip, first):
    called = []
    monkeypatch.setattr(rebuild.importlib.util, "find_spec", lambda name: pip)
    monkeypatch.setattr(rebuild.subprocess, "run", lambda command, **_: called.append(command))
    rebuild.download(tmp_path, "powersimdata==0.5.5")
    rebuild.download(tmp_path, "us-atlas@3.0.1")
    assert called[0][1] == first and "--no-deps" in called[0] and called[0][-1] == "powersimdata==0.5.5"
    assert called[1][:2] == ["npm", "pack"] and called[1][-1] == "us-atlas@3.0.1"


def test_a_missing_client_is_said(rebuild, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match=r"us-atlas-3.0.1.tgz could not be downloaded: put it into"):
        rebuild.download(tmp_path, "us-atlas@3.0.1")


def verdict(rebuild, name, change):
    text = rebuild.content(GRID / name)
    return rebuild.compared({name: change(text)}, {name: text}).iloc[0]


def replaced(pattern, new, count=1):
    return lambda text: re.sub(pattern, new, text, count=count)


@pytest.mark.parametrize(
    ("name", "change", "accepted"),
    [
        ("plants.csv.gz", lambda text: text, True),
        ("plants.csv.gz", replaced("17.5,17.5,17.5", "17.6,17.5,17.5"), True),
        ("plants.csv.gz", replaced("17.5,17.5,17.5", "17.7,17.5,17.5"), False),
        ("plants.csv.gz", replaced("NENG_ME", "NENG_CT", 50), True),
        ("plants.csv.gz", replaced("NENG_ME", "NENG_CT", 60), False),
        ("plants.csv.gz", replaced(r"\n18,", "\n19,"), False),
        ("lines.csv.gz", replaced(r"\n0,150,.*", ""), False),
        ("loads.csv.gz", replaced("24.48,-81.95,42", "24.48,-81.95,43"), True),
        ("loads.csv.gz", replaced("24.48,-81.95,42", "24.48,-81.95,1420"), False),
        ("states.geojson.gz", replaced("-88.331", "-88.339", 2), True),
        ("states.geojson.gz", replaced("-88.331", "-88.345", 2), False),
        ("cities.csv.gz", replaced("8804190", "8804191"), False),
    ],
)
def test_comparison_accepts_no_more_than_it_says(rebuild, name, change, accepted):
    assert verdict(rebuild, name, change)["accepted"] == accepted


@pytest.mark.skipif(not os.environ.get(ARCHIVES), reason=f"{ARCHIVES} names no folder with the four archives")
def test_rebuild_gives_the_same_contents(rebuild, tmp_path, capsys):
    assert rebuild.main(["--archives", str(Path(os.environ[ARCHIVES])), "--out", str(tmp_path)]) == 0
    assert (tmp_path / "MANIFEST.csv").read_text() == (GRID / "MANIFEST.csv").read_text()
    assert "plants.csv.gz" in capsys.readouterr().out
