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
