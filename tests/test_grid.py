"""A grid of one's own, and where its places lie: radii, states, names after cities."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.path import Path
from small_grids import small_grid

from railcore import catalog
from railcore.network.globe import great_circle_distance, unit_vectors
from railcore.siting import grid as siting_grid
from railcore.siting.cities import cities, nearest_city
from railcore.siting.geometry import within_radius
from railcore.siting.grid import load_grid, state_of, state_outlines
from railcore.siting.points import points_around

EMBEDDED = load_grid()
places = st.lists(st.tuples(st.floats(-80, 80), st.floats(-179, 179)), min_size=1, max_size=12)


@given(places, places, st.floats(1e3, 1.9e7))
def test_members_are_those_within_the_great_circle(a, b, radius):
    (lat_a, lon_a), (lat_b, lon_b) = np.array(a).T, np.array(b).T
    distance = great_circle_distance(lat_a[:, None], lon_a[:, None], lat_b, lon_b)
    found = within_radius(unit_vectors(lat_a, lon_a), unit_vectors(lat_b, lon_b), radius).toarray()
    clear = np.abs(distance - radius) > 1  # [m]
    assert (found == (distance <= radius))[clear].all()
    assert np.allclose(np.linalg.norm(unit_vectors(lat_a, lon_a), axis=1), 1)


def test_state_of_a_lattice_with_borders_along_it_is_what_another_library_finds():
    east, north = (axis.ravel() for axis in np.meshgrid(np.arange(-125, -66, 0.5), np.arange(24, 50, 0.5)))
    inside = np.full(len(east), "", object)
    for name, rings in state_outlines().items():
        hits = sum(Path(ring).contains_points(np.column_stack([east, north])).astype(int) for ring in rings)
        inside[hits % 2 == 1] = name
    assert (state_of(north, east) == inside).all()


@pytest.mark.parametrize("bearing", range(0, 360, 15))
def test_places_are_named_by_the_way_from_the_nearest_city(bearing):
    """40 km from the city that is farthest from all others, on a flat map around it; ways are 45 degrees wide."""
    every_city = cities()
    points = unit_vectors(every_city["latitude"], every_city["longitude"])
    city = every_city.iloc[int(np.sort(points @ points.T, axis=1)[:, -2].argmin())]
    degree = np.pi * catalog.item("wide_area", "Earth")["radius"] / 180
    up, right = (40e3 / degree * turn(np.radians(bearing)) for turn in (np.cos, np.sin))
    lat, lon = city["latitude"] + up, city["longitude"] + right / np.cos(np.radians(city["latitude"] + up / 2))
    way, name = "N NE E SE S SW W NW N".split()[(2 * bearing + 45) // 90], f"{city['city']}, {city['state']}"
    assert nearest_city(lat, lon)[0] == f"40 km {way} of {name}"
    assert nearest_city(city["latitude"] + up / 5, city["longitude"] + right / 5)[0] == name  # less than 10 km away


def test_own_plants_need_four_columns():
    own = pd.DataFrame({"latitude": [38.9, 38.9, 47.9], "longitude": [-77.1, -77.1, -119.0]})
    own = own.assign(fuel=["gas", "oil", "hydro"], power_w=[3e9, 1e9, 2e9])
    made = EMBEDDED.with_plants(own).plants
    assert made["sub_id"].nunique() == 2 and made["sub_id"][0] == made["sub_id"][1]
    assert made["state"].tolist() == ["Virginia", "Virginia", "Washington"]
    assert made["authority"].tolist() == ["PJM", "PJM", "BPAT"] and made["interconnect"][2] == "Western"
    sizes = [catalog.item("fuels", fuel)["largest_unit"] for fuel in own["fuel"]]
    assert made["largest_unit_w"].tolist() == [min(pair) for pair in zip(own["power_w"], sizes, strict=True)]
    found = points_around(EMBEDDED.with_plants(own), 50e3, step_deg=1.0)
    assert found.supply.largest_site_w.max() == 4e9
    with pytest.raises(ValueError, match="lack column 'fuel': give at least latitude, longitude, fuel, power_w"):
        EMBEDDED.with_plants(own.drop(columns="fuel"))


def test_own_grid_from_a_folder(tmp_path):
    for kind in siting_grid.REQUIRED_COLUMNS:
        source = siting_grid.files.DATA / "grid" / f"{kind}.csv.gz"
        (tmp_path / source.name).write_bytes(source.read_bytes())
    again = load_grid(tmp_path)
    assert again.name == tmp_path.name and again.plants.equals(EMBEDDED.plants)
    (tmp_path / "loads.csv.gz").unlink()
    with pytest.raises(ValueError, match=r"no loads\.csv"):
        load_grid(tmp_path)
    (tmp_path / "loads.csv").write_text("lat,lon,load_kw\n40,-80,3\n")
    with pytest.raises(ValueError, match="no column 'load_mw'"):
        load_grid(tmp_path)
    (tmp_path / "loads.csv").write_text("lat,lon,load_mw\n40,-80,3\n")
    (tmp_path / "plants.csv.gz").unlink()
    whose = "sub_id,name,state,interconnect,lat,lon,fuel,units,mw,largest_unit_mw\n1,a,Ohio,Eastern,40,-80,gas,1,5,5\n"
    (tmp_path / "plants.csv").write_text(whose)
    with pytest.raises(ValueError, match="plants has no column 'authority'"):
        load_grid(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: small_grid([(1, 40, -80, "gaz", 1e9, 1e9)]), "gas"),
        (lambda: replace(EMBEDDED, plants=EMBEDDED.plants.drop(columns="fuel")), "plants has no column 'fuel'"),
        (lambda: replace(EMBEDDED, loads=EMBEDDED.loads.assign(load_w=-1.0)), "load_w below 0"),
        (lambda: replace(EMBEDDED, substations=EMBEDDED.substations.iloc[1:]), "substations lack"),
        (lambda: replace(EMBEDDED, loads=EMBEDDED.loads.assign(latitude=100.0)), "off the Earth"),
    ],
)
def test_bad_input_names_itself(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()
