"""Supply, rules, candidates and the table of assumptions."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.path import Path
from scipy.sparse import csr_array
from small_grids import small_grid

from railcore import catalog
from railcore.network.globe import great_circle_distance, unit_vectors
from railcore.siting import grid as siting_grid
from railcore.siting.available_power import RULES, Supply, eligible, feeds_demand, power_by_rule_w, supply_of_groups
from railcore.siting.cities import cities, nearest_city
from railcore.siting.geometry import within_radius
from railcore.siting.grid import load_grid, state_of, state_outlines
from railcore.siting.points import lattice, points_around, points_by_radius
from suite.flops2024 import counting
from suite.flops2024.counting import best_by_rule, most_disjoint, siting_sensitivity
from suite.flops2024.siting_claims import REGIONS

EMBEDDED = load_grid()
FUELS = catalog.names("fuels")


def around(made, radius=50e3, latitude=40.0, longitude=-80.0, **options):
    at = (np.array([latitude]), np.array([longitude]), np.array(["Ohio"], object))
    return points_around(made, radius, at=at, **options)


places = st.lists(st.tuples(st.floats(-80, 80), st.floats(-179, 179)), min_size=1, max_size=12)


@given(places, places, st.floats(1e3, 1.9e7))
def test_members_are_those_within_the_great_circle(a, b, radius):
    (lat_a, lon_a), (lat_b, lon_b) = np.array(a).T, np.array(b).T
    distance = great_circle_distance(lat_a[:, None], lon_a[:, None], lat_b, lon_b)
    found = within_radius(unit_vectors(lat_a, lon_a), unit_vectors(lat_b, lon_b), radius).toarray()
    clear = np.abs(distance - radius) > 1  # [m]
    assert (found == (distance <= radius))[clear].all()
    assert np.allclose(np.linalg.norm(unit_vectors(lat_a, lon_a), axis=1), 1)


def test_supply_of_one_circle_by_hand():
    made = small_grid(
        [
            (1, 40.0, -80.0, "gas", 1000e6, 400e6),
            (1, 40.0, -80.0, "oil", 200e6, 100e6),
            (2, 40.1, -80.0, "nuclear", 900e6, 900e6),
            (3, 40.2, -80.0, "coal", 2000e6, 950e6),
            (4, 40.0, -80.1, "hydro", 300e6, 50e6),
            (5, 40.0, -79.9, "wind", 500e6, 2e6),
            (6, 43.0, -80.0, "gas", 7000e6, 7000e6),
        ],
        lines=[(1, 2, 500e6), (1, 6, 800e6), (6, 2, 300e6), (3, 4, 100e6)],
        loads=[(40.0, -80.0, 150e6), (40.1, -80.1, 250e6), (44.0, -80.0, 9e9)],
    )
    cf = {fuel: catalog.item("fuels", fuel)["capacity_factor"] for fuel in FUELS}
    got = around(made).supply[0]
    assert got.installed_w == pytest.approx(2900e6) and got.firm_w == pytest.approx(2400e6)
    idle = {"gas": 1000e6, "oil": 200e6, "nuclear": 900e6, "hydro": 300e6}
    assert got.idle_w == pytest.approx(sum(p * (1 - cf[f]) for f, p in idle.items()))
    assert got.idle_w - got.idle_fuelled_w == pytest.approx(300e6 * (1 - cf["hydro"]))
    assert (got.largest_unit_w, got.largest_site_w) == (900e6, 1200e6)
    assert got.coal_share == pytest.approx(2000 / 4900) and got.load_w == pytest.approx(400e6)
    assert got.interconnect_w == pytest.approx(1100e6)  # the two lines to site 6 alone
    assert RULES["headroom after load"].power(got) == pytest.approx(2400e6 - 900e6 - 400e6)
    dry = around(made, oil=False).supply[0]
    assert got.installed_w - dry.installed_w == pytest.approx(200e6) and dry.largest_site_w == 1000e6
    by_energy = around(made, coal_basis="energy").supply[0].coal_share
    burnt = {"gas": 1000, "oil": 200, "nuclear": 900, "coal": 2000, "hydro": 300, "wind": 500}
    assert by_energy == pytest.approx(2000 * cf["coal"] / sum(p * cf[f] for f, p in burnt.items()))
    wide = around(made, radius=150e3).supply[0]
    assert wide.interconnect_w == got.interconnect_w


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_supply_is_additive_and_lines_cross_by_definition(seed, oil):
    rng = np.random.default_rng(seed)
    n = 9
    rows = [(i, 40 + rng.random(), -80 + rng.random(), rng.choice(FUELS), *2 * [rng.random() * 1e9]) for i in range(n)]
    wires = [(*rng.choice(n, 2, replace=False), rng.random() * 1e9) for _ in range(14)]
    made = small_grid(rows, wires)
    split = rng.random(n) < 0.5
    groups = csr_array(np.array([split, ~split, np.ones(n)], float))
    got = supply_of_groups(made, groups, csr_array((3, len(made.loads))), groups, oil)
    for name in ("installed_w", "firm_w", "idle_w", "idle_fuelled_w", "coal_w"):
        one, two, both = getattr(got, name)
        assert one + two == pytest.approx(both)
    across = sum(power for a, b, power in wires if split[a] != split[b])
    assert got.interconnect_w == pytest.approx([across, across, 0], abs=1e-3)
    assert np.all(got.idle_fuelled_w <= got.idle_w) and np.all(got.idle_w <= got.firm_w)
    assert np.all(got.firm_w <= got.installed_w + 1e-3) and np.all(got.largest_unit_w <= got.largest_site_w + 1e-3)


def offer(**changes):
    base = dict.fromkeys(Supply.__dataclass_fields__, np.array([0.0])) | {
        "installed_w": np.array([5e9]),
        "firm_w": np.array([4e9]),
        "interconnect_w": np.array([1e9]),
        "largest_unit_w": np.array([1e9]),
        "largest_site_w": np.array([2e9]),
    }
    return Supply(**{**base, **{name: np.array([value]) for name, value in changes.items()}})


def test_coal_and_reserve_exclude_and_a_bare_margin_passes():
    assert eligible(offer()).all() and not eligible(offer(), reserve="site").any()
    assert eligible(offer(), reserve="none").all() and not eligible(offer(interconnect_w=0.99e9)).any()
    assert not eligible(offer(coal_w=5e9, coal_share=0.5)).any()
    assert eligible(offer(coal_w=5e9, coal_share=0.5), most_coal=0.6).all()
    assert feeds_demand(offer(), 5e9, "installed").all() and not feeds_demand(offer(), 5.01e9, "installed").any()
    assert (
        feeds_demand(offer(), 3e9, "firm minus largest").all()
        and not feeds_demand(offer(), 3.01e9, "firm minus largest").any()
    )
    assert power_by_rule_w(offer(load_w=9e9), "headroom after load") == 0
    assert not feeds_demand(offer(load_w=9e9), 1.0, "headroom after load").any()


def test_rules_never_give_more_than_is_installed_and_less_is_less():
    found = points_around(EMBEDDED, 50e3)
    given_by = {name: power_by_rule_w(found.supply, name) for name in RULES}
    for power in given_by.values():
        assert np.all(power <= found.supply.installed_w + 1)
    assert np.all(given_by["idle fuelled"] <= given_by["idle firm"] + 1)
    assert np.all(given_by["headroom after load"] <= given_by["firm minus largest"] + 1)
    stricter = feeds_demand(found.supply, 4e9, "installed", reserve="site")
    assert np.all(stricter <= feeds_demand(found.supply, 4e9, "installed")) and stricter.sum() > 0


@given(st.lists(st.sets(st.integers(0, 7), min_size=1, max_size=3), min_size=1, max_size=9))
def test_most_disjoint_against_all_subsets(sets):
    matrix = csr_array(np.array([[float(plant in mine) for plant in range(8)] for mine in sets]))
    best = max(
        size
        for size in range(1, len(sets) + 1)
        for chosen in itertools.combinations(sets, size)
        if sum(map(len, chosen)) == len(set.union(*chosen))
    )
    assert most_disjoint(matrix) == (best, True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "_MOST_EXACT_ROWS", 0)
        bound, exact = most_disjoint(matrix)
    assert 1 <= bound <= best and not exact


def test_coal_has_no_say_in_what_a_candidate_belongs_to():
    made = small_grid([(1, 40.0, -80.0, "gas", 1e9, 1e9), (2, 40.0, -80.0, "coal", 3e9, 1e9)])
    made = made.with_plants(made.plants.assign(authority=["PJM", "MISO"]))
    assert around(made).most_of("authority").tolist() == ["PJM"]
    assert made.name == "small, plants of your own"


def test_state_of_a_lattice_with_borders_along_it_is_what_another_library_finds():
    east, north = (axis.ravel() for axis in np.meshgrid(np.arange(-125, -66, 0.5), np.arange(24, 50, 0.5)))
    inside = np.full(len(east), "", object)
    for name, rings in state_outlines().items():
        hits = sum(Path(ring).contains_points(np.column_stack([east, north])).astype(int) for ring in rings)
        inside[hits % 2 == 1] = name
    assert (state_of(north, east) == inside).all()


def test_candidates_grow_with_the_radius():
    at = lattice(EMBEDDED, 2.0)
    small, large = (points_around(EMBEDDED, radius, at=at) for radius in (25e3, 75e3))
    assert len(small) < len(large) <= len(at[0])
    where = {place: i for i, place in enumerate(zip(large.latitude, large.longitude, strict=True))}
    same = [where[place] for place in zip(small.latitude, small.longitude, strict=True)]
    assert np.all(large.supply.installed_w[same] >= small.supply.installed_w - 1)
    assert np.all(large.supply.load_w[same] >= small.supply.load_w - 1)
    assert set(small.most_of("interconnect")) <= {"Eastern", "Western", "Texas"}
    chosen = small[feeds_demand(small.supply, 2e9, "installed")]
    assert len(chosen) and (chosen.supply.installed_w >= 2e9).all()


def test_sensitivity_is_monotone_and_agrees_with_candidates():
    every_one = points_by_radius(EMBEDDED, (25e3, 50e3), step_deg=1.0)
    table = siting_sensitivity(every_one, 4.2e9, REGIONS)
    assert len(table) == 2 * len(RULES) * len(REGIONS) * 2
    keyed = table.set_index(["radius_m", "rule", "oil", "region"]).sort_index()
    for radius, name, region in itertools.product((25e3, 50e3), RULES, REGIONS):
        with_oil, without = (keyed.loc[(radius, name, oil, region)] for oil in (True, False))
        assert with_oil["best_w"] >= without["best_w"] - 1
        assert with_oil["places"] <= with_oil["centres"] and (with_oil["places"] > 0) == (with_oil["centres"] > 0)
    for name in ("installed", "idle firm"):
        assert (
            keyed.loc[(50e3, name, True, "whole country"), "best_w"]
            >= keyed.loc[(25e3, name, True, "whole country"), "best_w"]
        )
    parts = sum(keyed.loc[(50e3, "idle firm", True, part), "centres"] for part in ("Eastern", "Western", "Texas"))
    assert parts == keyed.loc[(50e3, "idle firm", True, "whole country"), "centres"]
    found = points_around(EMBEDDED, 50e3, step_deg=1.0, oil=False)
    assert (
        keyed.loc[(50e3, "installed", False, "whole country"), "centres"]
        == feeds_demand(found.supply, 4.2e9, "installed").sum()
    )
    ruled = best_by_rule(found)
    assert list(ruled["rule"]) == list(RULES) and (ruled["near"].str.len() > 3).all()
    best = (
        keyed.loc[(50e3, list(RULES), False, "whole country"), "best_w"].reset_index("rule").set_index("rule")["best_w"]
    )
    assert (ruled.set_index("rule")["most_of_one_place_w"] == best).all()


def test_regions_of_cities_end_at_100_km():
    """A degree of latitude is pi R / 180 = 111.195 km: 0.899 degrees are within 100 km, 0.9 degrees are not."""
    degree = np.pi * catalog.item("wide_area", "Earth")["radius"] / 180
    assert 0.899 * degree < 100e3 < 0.9 * degree
    for region, place in (
        ("100 km of Washington, D.C.", "flops2024 east"),
        ("100 km of the intertie", "flops2024 west"),
    ):
        lat, lon = (catalog.item("wide_area", place)[axis] for axis in ("latitude_deg", "longitude_deg"))
        at = (lat + np.array([-0.9, -0.899, 0, 0.899, 0.9]), np.full(5, lon), np.full(5, "Ohio", object))
        plants = [(i, lat + step, lon, "gas", 1e9, 1e9) for i, step in enumerate((-0.9, 0, 0.9))]
        found = points_around(small_grid(plants), 50e3, at=at)
        assert len(found) == 5 and REGIONS[region](found).tolist() == [False, True, True, True, False]


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
    assert made["largest_unit_w"].tolist() == [3e9, 1e9, 2e9]
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
    with pytest.raises(ValueError, match="lack column 'authority'"):
        load_grid(tmp_path)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: small_grid([(1, 40, -80, "gaz", 1e9, 1e9)]), "gas"),
        (lambda: replace(EMBEDDED, plants=EMBEDDED.plants.drop(columns="fuel")), "lack column 'fuel'"),
        (lambda: replace(EMBEDDED, loads=EMBEDDED.loads.assign(load_w=-1.0)), "load_w below 0"),
        (lambda: replace(EMBEDDED, substations=EMBEDDED.substations.iloc[1:]), "substations lack"),
        (lambda: replace(EMBEDDED, loads=EMBEDDED.loads.assign(latitude=100.0)), "off the Earth"),
    ],
)
def test_bad_input_names_itself(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()
