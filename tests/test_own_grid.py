"""Lines of one's own on a grid, and what a demand that gives way may have more."""

import re

import numpy as np
import pandas as pd
import pytest
from small_grids import small_grid

from railcore.catalog.units import GW, MW
from railcore.network.globe import great_circle_distance
from railcore.siting.authorities import authority_row
from railcore.siting.grid import load_grid
from railcore.siting.own_lines import line_table
from railcore.siting.places import Survey, find_places
from railcore.siting.points import points_around
from railcore.siting.rules import available_power
from railcore.siting.split import find_split

EMBEDDED = load_grid()
PLANTS = [(1, 40.0, -80.0, "gas", 3 * GW, 0.1 * GW), (2, 40.0, -84.0, "gas", 2 * GW, 0.1 * GW)]
ROWS = ["lat,lon,lat_to,lon_to,mw", "40.0,-80.0,41.5,-80.0,900", "40.0,-80.0,40.1,-80.0,500", "41.5,-80,42.5,-80,70"]


def table(**columns):
    ends = {"latitude": [40.0], "longitude": [-80.0], "latitude_to": [41.5], "longitude_to": [-80.0]}
    return pd.DataFrame(ends | {"power_w": [900 * MW]} | columns)


def written(tmp_path, rows=ROWS, name="lines.csv"):
    path = tmp_path / name
    path.write_text("\n".join(rows) + "\n")
    return path


def at(latitude, longitude):
    return np.array(latitude), np.array(longitude), np.full(len(latitude), "Eastern", object)


# Lines.


def test_lines_of_a_file_are_those_that_cross_a_circle(tmp_path):
    lines = line_table(written(tmp_path))
    assert lines["power_w"].tolist() == [900 * MW, 500 * MW, 70 * MW]
    grid = small_grid(PLANTS).with_lines(lines)
    assert len(grid.substations) == 4  # three lines of six ends, two of which are at one place and two at another
    out = points_around(grid, 50e3, at=at([40.0, 40.0], [-80.0, -84.0])).supply.interconnect_w
    assert out.tolist() == pytest.approx([900 * MW, 0.0])  # the short line is inside
    far = great_circle_distance(lines["latitude"], lines["longitude"], lines["latitude_to"], lines["longitude_to"])
    assert np.allclose(grid.lines["length_m"], far) and set(grid.lines["circuits"]) == {1}
    assert grid.substations["state"].tolist()[0] == "Pennsylvania"


def test_lines_given_back_to_the_grid_that_has_them_change_no_power():
    ends = EMBEDDED.substations.set_index("sub_id")[["latitude", "longitude"]]
    start, end = (ends.loc[EMBEDDED.lines[side]].reset_index(drop=True) for side in ("from_sub", "to_sub"))
    lines = pd.concat([start, end.add_suffix("_to"), EMBEDDED.lines[["power_w", "kv", "type"]]], axis=1)
    again = EMBEDDED.with_lines(lines)
    cities = at([29.8, 41.0, 38.5], [-95.5, -84.0, -121.5])
    mine, theirs = (points_around(grid, 75e3, at=cities).supply.interconnect_w for grid in (again, EMBEDDED))
    assert mine.tolist() == pytest.approx(theirs.tolist()) and mine.min() > 0
    assert again.lines["type"].tolist() == EMBEDDED.lines["type"].tolist()


def test_the_name_says_which_tables_are_ones_own_and_that_the_rest_is_synthetic():
    plants, lines = EMBEDDED.plants, table()
    assert EMBEDDED.with_lines(lines).name == f"lines of your own, plants and loads: {EMBEDDED.name}"
    both = EMBEDDED.with_plants(plants).with_lines(lines)
    assert both.name == f"plants and lines of your own, loads: {EMBEDDED.name}" and "synthetic" in both.name
    assert both.with_lines(lines).with_plants(plants).name == both.name


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["lat,lon,lat_to,mw", "40,-80,41,5"], r"lines\.csv: no column 'lon_to': give lat, lon, lat_to, lon_to, mw"),
        (ROWS[:1], r"lines\.csv: no rows"),
        ([*ROWS, "40,-80,41,-80,"], r"column 'mw' holds a blank: give numbers"),
        ([*ROWS, "40,-80,41,-80,-5"], r"column 'mw' holds -5: give numbers in every row, mw of 0 or more"),
        ([*ROWS, "40,-80,41,-80,many"], r"column 'mw' holds 'many', expected a number"),
        ([*ROWS, "40,-80,,-80,5"], r"column 'lat_to' holds a blank"),
        ([*ROWS, "40,80,41,80,5"], r"of 40, 80, 41, 80 is outside the contiguous states: .*west is negative"),
        ([""], r"lines\.csv: cannot be read as CSV"),
    ],
)
def test_lines_that_are_wrong_are_refused_by_name(tmp_path, rows, message):
    with pytest.raises(ValueError, match=message):
        line_table(written(tmp_path, rows))


def test_headers_are_read_as_people_type_them_and_kinds_are_kept(tmp_path):
    rows = ["Lat,Lon,Lat to,LON_TO,MW,kV,type", '40,-80,49.5,-97,"1,500",345,DC', "40,-80,41,-80,5,,"]
    lines = line_table(written(tmp_path, rows))
    assert lines["power_w"].tolist() == [1500 * MW, 5 * MW] and lines["type"].tolist() == ["DC", ""]
    assert lines["kv"].tolist()[0] == 345 and np.isnan(lines["kv"][1])
    with pytest.raises(ValueError, match="lines lack column 'power_w': give at least latitude"):
        EMBEDDED.with_lines(lines.drop(columns="power_w"))


# A demand that gives way.


def power(flexible_w=None, caps=None, rule="headroom", load_w=2 * GW):
    grid = small_grid(PLANTS[:1], [(1, 9, 5 * GW)], [(40.0, -80.0, load_w)], [(1, 40.0, -80.0), (9, 45.0, -80.0)])
    return available_power(points_around(grid, 50e3), rule, authority_caps=caps, flexible_w=flexible_w)


def test_the_bound_grows_by_what_giving_way_frees():
    without, more = power(caps={"PJM": 0.1 * GW}), power({"PJM": 0.05 * GW}, {"PJM": 0.1 * GW})
    assert (without.power_w.max(), more.power_w.max()) == pytest.approx((0.1 * GW, 0.15 * GW))
    assert more.authority_caps == {"PJM": pytest.approx(0.15 * GW)}  # places of one authority share it


def test_nothing_is_gained_where_power_lacks():
    """An authority below its peak, and a place whose load its plants do not carry: these come first."""
    lacking = power({"PJM": 1 * GW}, {"PJM": -0.5 * GW})
    assert lacking.power_w.max() == 0 and lacking.authority_caps == {"PJM": 0.0}
    peak_w = authority_row("PJM")["peak_demand_clean_w"]
    assert power({"PJM": 0.5 * peak_w}, {}, load_w=3 * GW).power_w.max() == 0
    for wrong in (-1.0, np.nan):
        with pytest.raises(ValueError, match=r"flexible_w\['PJM'\]"):
            power({"PJM": wrong})


def test_of_the_load_nearby_a_share_of_the_peak_counts_no_more():
    peak_w = authority_row("PJM")["peak_demand_clean_w"]
    without, tenth, all_of_it = (power({"PJM": part * peak_w}, {}).power_w.max() for part in (0, 0.1, 2))
    assert without == pytest.approx(3 * GW - 0.1 * GW - 2 * GW)
    assert tenth - without == pytest.approx(0.1 * 2 * GW)
    mean_w = 3 * GW - power(rule="idle firm", caps={}).power_w.max()
    assert all_of_it == pytest.approx(3 * GW - 0.1 * GW - mean_w)  # what the plants sell on average stays sold


def test_nothing_given_way_and_authorities_that_are_not_known_change_nothing():
    plain = power().power_w
    for flexible_w in ({}, {"PJM": 0.0}, {"MISO": 5 * GW}, None):
        assert power(flexible_w).power_w.tolist() == plain.tolist()


def test_places_and_splits_have_it_and_say_it():
    grid = small_grid(PLANTS, [(1, 2, 9 * GW)], [(40.0, -80.0, 2.4 * GW)])
    options = {"survey": Survey(reserve="none"), "flexible_w": {"PJM": 3 * GW}}
    plain = find_places(grid, 0.1 * GW, 50e3, survey=options["survey"])
    places = find_places(grid, 0.1 * GW, 50e3, **options)
    at_load, before = (table.places.set_index("latitude")["available_w"][40.0].min() for table in (places, plain))
    more = at_load - before
    assert more == pytest.approx(2.4 * GW * 3 * GW / authority_row("PJM")["peak_demand_clean_w"])
    told = "the demand gives way in hours of high load, which adds to the bound: PJM 3 GW"
    assert told in str(places) and told not in str(plain)
    assert told in str(find_split(grid, 0.1 * GW, 50e3, 2, **options))
    unknown = find_places(grid, 0.1 * GW, 50e3, survey=options["survey"], flexible_w={"MISO": 1 * GW})
    assert re.search("adds to the bound: PJM unknown", str(unknown))
