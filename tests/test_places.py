"""Places in order: where they may be, the list of those that have a demand, what a result and a refusal say."""

import re
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
from small_grids import gas_grid, small_grid

from railcore.catalog import units
from railcore.catalog.units import GW, MW, km
from railcore.network.globe import great_circle_distance
from railcore.siting.areas import Area, city_point, people_within, state_names
from railcore.siting.authorities import authority_caps
from railcore.siting.cities import cities, nearest_city
from railcore.siting.energy import electricity_prices
from railcore.siting.grid import load_grid, state_of
from railcore.siting.places import NoPlaces, Survey, find_places
from railcore.siting.points import points_around
from railcore.siting.rules import HEADROOM, IGNORED_BY_ALL, RULES, available_power, demand_warnings

COARSE = Survey(step_deg=1.0)
OF_AREA = {each.name for each in fields(Area)}


@pytest.fixture(scope="module")
def us():
    return load_grid()


def find(us, demand_w=1 * GW, radius_m=75 * km, rule=HEADROOM, **asked):
    area = Area(**{name: asked.pop(name) for name in OF_AREA & asked.keys()})
    return find_places(us, demand_w, radius_m, rule, area=area, **({"survey": COARSE} | asked))


# What a condition keeps


def test_places_lie_near_a_city_or_the_same_point(us):
    name, (latitude, longitude) = city_point("Chicago")
    found = find(us, k=2, near="Chicago", near_m=500 * km)
    away = great_circle_distance(found.points.latitude, found.points.longitude, latitude, longitude)
    assert city_point("New York") == city_point("New York City, NY")
    assert name == "Chicago, IL" and away.max() <= 500 * km and len(found.places) == 2
    every = find(us, k=2).points
    whole = great_circle_distance(every.latitude, every.longitude, latitude, longitude)
    assert len(found.points) == (whole <= 500 * km).sum()  # none is lost that is near
    point = find(us, k=2, near=(latitude, longitude), near_m=500 * km)
    assert point.places.equals(found.places)


def test_places_lie_in_the_states_and_authorities_by_name_or_code(us):
    by_code = find(us, k=2, states=["TX", "la"])
    by_name = find(us, k=2, states=["Texas", "louisiana"])
    assert set(by_code.points.state) == {"Texas", "Louisiana"} and by_code.places.equals(by_name.places)
    assert by_code.points.state.tolist() == by_name.points.state.tolist()
    owned = find(us, k=2, authorities="ercO")
    assert set(owned.places["authority"]) == {"ERCO"}
    both = find(us, k=1, states="TX", authorities=["MISO"])  # a part of Texas
    assert set(both.points.state) == {"Texas"} and set(both.points.most_of("authority")) == {"MISO"}
    assert set(state_names(["dc", "District of Columbia"])) == {"District of Columbia"}


def test_few_people_live_around_a_place(us):
    found = find(us, states="TX", most_people=2e5, people_m=60 * km)
    around = people_within(found.points.latitude, found.points.longitude, 60 * km)
    others = find(us, states="TX").points
    every = people_within(others.latitude, others.longitude, 60 * km)
    assert around.max() <= 2e5 < every.max() and len(around) == (every <= 2e5).sum()
    table = cities()
    assert people_within([39.0], [-98.0], 2e7) == pytest.approx(table["population"].sum())  # half a turn around


def test_conditions_choose_among_the_points_of_the_whole_country(us):
    """The same as all points, those left out that miss a condition; none leaves all in."""
    every = points_around(us, 75 * km, 1.0)
    area = Area(states=["OH", "IN"], authorities=["PJM"], near="Columbus, OH", near_m=250 * km, most_people=3e6)
    kept = area.points(us, 75 * km, 1.0)
    point = area.place[1]
    mask = np.isin(every.state, ["Ohio", "Indiana"]) & (every.most_of("authority") == "PJM")
    mask &= great_circle_distance(every.latitude, every.longitude, *point) <= 250 * km
    mask &= people_within(every.latitude, every.longitude, area.people_m) <= 3e6
    assert 0 < len(kept) == mask.sum() < len(every)
    assert np.array_equal(kept.latitude, every.latitude[mask])
    assert np.array_equal(kept.supply.idle_w, every.supply.idle_w[mask])
    assert len(Area().points(us, 75 * km, 1.0)) == len(every) and Area().words == []


def test_points_lie_on_land(us):
    found = points_around(us, 75 * km, 0.5)
    assert (state_of(found.latitude, found.longitude) == found.state).all() and (found.state != "").all()
    assert not state_of([44.0, 42.2, 40.0], [-87.0, -81.5, -70.0]).any()  # Lake Michigan, Lake Erie, the Atlantic


# Names


@pytest.mark.parametrize("name", ["Portland, OR", "portland, Oregon", "PORTLAND,or", "Portland, or "])
def test_a_city_is_told_by_its_state(name):
    assert city_point(name) == ("Portland, OR", pytest.approx((45.5234, -122.6762)))


def test_the_capital_is_found_by_each_of_its_names():
    assert {city_point(name)[0] for name in ("Washington", "Washington, DC", "Washington, D.C.")} == {"Washington, DC"}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"near": "Chicgo", "near_m": 1e5}, "'Chicgo' does not exist: the nearest are 'Chicago, IL'"),
        (
            {"near": "Springfield", "near_m": 1e5},
            r"5 cities .* 'Springfield, MO' \(170,188 people\), 'Springfield, MA'",
        ),
        ({"near": "Portland, TX", "near_m": 1e5}, "'Portland, TX' does not exist"),
        ({"near": "Portland, Orgon", "near_m": 1e5}, "state 'Orgon' does not exist: .*'Oregon'"),
        ({"near": "Chicago"}, "near is 'Chicago': give near_m too"),
        ({"near_m": 1e5}, "near_m is 100000.0: give near too"),
        ({"states": ["Texs"]}, "state 'Texs' does not exist: .*'Texas'"),
        ({"states": ["AK"]}, "state 'AK' does not exist"),
        ({"states": ["DC"]}, "of these 0 in District of Columbia; .*give one of these states or a smaller step_deg"),
        ({"authorities": ["ERCT"]}, "balancing authority 'ERCT' does not exist: .*'ERCO'"),
        (
            {"near": "Chicago", "near_m": 300 * km, "states": ["OR"]},
            r"no place is left: [\d,]+ points, of these \d+ within 300 km of Chicago, IL, of these 0 in Oregon; "
            "they are in Illinois",
        ),
        ({"near": (41.0, -88.5), "near_m": 10.0}, r"0 within 0.01 km of 41, -88.5; the nearest is \d+(\.\d+)? km away"),
        (
            {"states": "WY", "authorities": "ERCO"},
            "in Wyoming, of these .* with plants within 75 km, of these 0 with most power of ERCO; authorities there",
        ),
        (
            {"near": "Newark, NJ", "near_m": 20e3, "most_people": 1e5},
            "0 with at most 100,000 people within 50 km; the fewest are [1-9]",
        ),
        (
            {"states": "OR", "demand_w": 50 * GW},
            r"no place has 50 GW: the most is .*; searched: \d+ points in Oregon; lower",
        ),
    ],
)
def test_a_refusal_names_the_argument_or_which_condition_left_how_many(us, asked, words):
    with pytest.raises(ValueError, match=words):
        find(us, **asked)


# What a result says


def test_a_demand_in_the_wrong_unit_is_warned_about(us):
    found = find(us, 500.0, states="TX")
    assert found.warnings[0] == "demand_w is 500 W: it is in watts; did you mean 500 MW?"
    assert "warning: demand_w is 500 W" in str(found)
    assert demand_warnings(1e6) == () and demand_warnings(9e5) == ("demand_w is 900 kW, less than 1 MW",)
    assert not any("demand_w" in text for text in find(us, states="TX").warnings)


def test_a_rule_that_ignores_load_says_so_in_manhattan(us):
    asked = {"near": "Manhattan, NY", "near_m": 40 * km, "radius_m": 25 * km, "survey": Survey(0.5)}
    found = find(us, 4.2 * GW, rule="installed", **asked)
    assert any("does not take off all that others use" in text and "of 4.2 GW" in text for text in found.warnings)
    assert "the load of others" in found.ignores and IGNORED_BY_ALL in str(found)
    assert found.shown()["headroom"].str.startswith("0 W").all()
    with pytest.raises(NoPlaces, match=r"no place has 4\.2 GW"):
        find(us, 4.2 * GW, rule="headroom after load", **asked)
    far = find(us, 0.2 * GW)
    assert far.warnings == () and "load beyond the radius" in far.ignores and "headroom" not in far.shown()


def test_every_rule_says_what_it_ignores():
    assert all(rule.ignores and rule.meaning for rule in RULES.values())
    without = [name for name, rule in RULES.items() if not rule.ignores.startswith(("the load", "peaks of load"))]
    assert without == [HEADROOM, "headroom after load"]


def test_a_result_reads_with_cities_and_units(us):
    found = find(us, k=2, near="Houston", near_m=600 * km)
    text = str(found)
    assert text.startswith("2 places, each with 1 GW, plants within 75 km; searched: within 600 km of Houston, TX")
    assert all(name in text for name in found.places["name"]) and " GW " in text and " km " in text
    assert "e+0" not in text and repr(found) == text and "nan" not in text
    columns = [
        "place",
        "state",
        "authority",
        "available",
        "limited by",
        "from Houston, TX",
        "USD/kWh",
        "lines out",
        "fuels",
    ]
    assert [*found.shown()] == columns
    assert (
        f"grid: {us.name}" in text and f"rule {HEADROOM!r}: " in text and "where a bound is known: capacity of" in text
    )
    one = str(find(us, k=1))
    assert one.startswith("1 place, each with 1 GW, plants within 75 km; searched: the whole country")
    assert "from " not in one.splitlines()[1] and not len(found.ways) and found.split is None
    own = replace(us, authority_caps=authority_caps())
    assert "given with the grid for" in str(find(own, k=1))


def test_a_price_is_that_of_the_state(us):
    table = find(us, 1 * MW, k=60, states=["WA", "WY", "CA", "OH"], rule="installed").places
    assert {"Washington", "California", "Ohio", "Wyoming"} == set(table["state"])
    for row in table.itertuples():
        assert row.usd_per_J == electricity_prices().get(row.state) or np.isnan(row.usd_per_J)
    assert set(table["state"][table["usd_per_J"].isna()]) == {"Wyoming"}
    shown = find(us, 1 * MW, k=1, states=["WY"], rule="installed").shown()
    assert shown["USD/kWh"].tolist() == ["unknown"]


# The list


@pytest.mark.parametrize(
    ("demand_w", "radius_m", "near", "k"),
    [
        (1 * MW, 50 * km, None, 40),
        (2 * GW, 75 * km, None, 12),
        (500 * MW, 100 * km, "Chicago", 50),
        (50 * MW, 50 * km, (45.6, -121.1), 6),
    ],
)
def test_a_list_has_the_best_of_all_points_that_are_apart(us, demand_w, radius_m, near, k):
    """Places have the demand, are no worse than the next and a radius apart; a point left out is near a better."""
    area = {"near": near, "near_m": 400 * km} if near else {}
    found = find(us, demand_w, radius_m, k=k, **area)
    table, points = found.places, found.points
    power, chosen = available_power(points).power_w, table["place"].to_numpy()
    assert 3 < len(table) <= k and (table["power_w"] == demand_w).all() and power[chosen].min() >= demand_w
    assert (table["available_w"] == power[chosen]).all()
    at = points.latitude, points.longitude
    score = great_circle_distance(*at, *found.area.place[1]) if near else -power
    assert (np.diff(score[chosen]) >= -1).all()  # metres or watts
    if near:
        assert table["distance_m"].to_numpy() == pytest.approx(score[chosen])
    apart = great_circle_distance(*(axis[:, None] for axis in at), *(axis[chosen] for axis in at))
    assert (apart[chosen] + np.diag(np.full(len(chosen), np.inf))).min() >= radius_m
    others = np.setdiff1d(np.flatnonzero(power >= demand_w), chosen)
    replaced = (apart[others] < radius_m) & (score[chosen] <= score[others][:, None] + 1)
    assert (replaced.any(axis=1) | (len(table) == k) & (score[others] >= score[chosen].max() - 1)).all()
    head = find(us, demand_w, radius_m, k=3, **area).places
    assert head.equals(table.head(3))


def test_places_of_a_list_may_be_nearer_to_each_other_or_farther_apart(us):
    counts = [len(find(us, k=1000, states=["TX"], apart_m=apart).places) for apart in (1 * km, 75 * km, 300 * km)]
    assert counts[0] > counts[1] > counts[2] and counts[1] == len(find(us, k=1000, states=["TX"]).places)
    lone = gas_grid()
    found = find(lone, 2 * GW, 30 * km, "installed", k=9, apart_m=1 * km)
    assert set(found.places["authority"]) == {"PJM", "BPAT", "SRP", "ERCO"}


def test_three_demands_near_chicago_have_three_answers(us):
    asked = {"radius_m": 100 * km, "near": "Chicago", "near_m": 300 * km, "survey": Survey()}
    small, large = (find(us, demand, **asked).places for demand in (1 * MW, 1 * GW))
    assert small["distance_m"].iloc[0] < large["distance_m"].iloc[0] and small["name"].iloc[0] != large["name"].iloc[0]
    assert small["available_w"].min() < 1 * GW <= large["available_w"].min()
    points = Area(near="Chicago", near_m=300 * km).points(us, 100 * km)
    power = available_power(points)
    best = [int(power.power_w.argmax())]
    most, name = (
        units.show(power.power_w[best[0]], "W", 3),
        nearest_city(points.latitude[best], points.longitude[best])[0],
    )
    said = (
        f"no place has 5 GW: the most is {most} at {name}, limited by: {power.limit[best[0]]}; searched: {len(points)} "
        "points within 300 km of Chicago, IL; lower the demand, raise the radius, or split it over several places"
    )
    with pytest.raises(NoPlaces, match=f"^{re.escape(said)}$"):
        find(us, 5 * GW, **asked)


def test_no_place_is_found_above_the_bound_of_its_authority(us):
    """Florida has 12 GW of headroom within 100 km, and its authority less than half of that to spare."""
    caps = authority_caps()
    for rule in RULES:
        found = find(us, 1 * GW, 100 * km, rule, k=300, states=["FL", "NY", "WA"])
        bound = found.places["authority"].map(caps)
        assert (found.places[["available_w", "headroom_w"]].max(axis=1) <= bound).all()
        assert (found.places["limit"] == "bound of FPL").any()
    free = replace(us, authority_caps={})
    asked = {"radius_m": 100 * km, "states": ["FL"]}
    with pytest.raises(NoPlaces, match="limited by: bound of FPL"):
        find(us, 8 * GW, **asked)
    (warning,) = (places := find(free, 8 * GW, **asked)).warnings
    assert warning == "no bound is known of FPL" and places.places["available_w"].max() > 8 * GW
    own = find(replace(us, authority_caps={"FPL": 2.5 * GW}), 2 * GW, k=1, authorities=["FPL"], **asked)
    assert own.places["available_w"].tolist() == [2.5 * GW] and own.warnings == ()


def test_an_authority_without_a_bound_is_named_and_not_bounded():
    plants = [(1, 40.0, -80.0, "gas", 90 * GW, 0.1 * GW), (2, 40.0, -90.0, "gas", 80 * GW, 0.1 * GW)]
    grid = small_grid(plants, loads=[], authority=["of its own", None])
    found = find(grid, 5 * GW, 50 * km, "firm minus largest", survey=Survey(2.0, reserve="none"), k=2)
    assert found.places["available_w"].tolist() == [89.9 * GW, 79.9 * GW]
    assert "no bound is known of plants without an authority, of its own" in found.warnings


def test_plants_without_units_are_placed_by_the_rules_that_need_none():
    grid = gas_grid()
    grid.plants.loc[:, "largest_unit_w"] = np.nan
    with pytest.raises(ValueError, match=r"rule 'headroom' needs units, and . of . points .* or take rule idle firm, "):
        find(grid, 1 * GW, 30 * km)
    with pytest.raises(ValueError, match=r"reserve 'unit' needs units, .* or take reserve 'site' or 'none'"):
        find(grid, 1 * GW, 30 * km, "idle firm")
    for reserve in ("site", "none"):
        found = find(grid, 1 * GW, 30 * km, "idle firm", survey=Survey(2.0, reserve=reserve))
        assert found.places["headroom_w"].isna().all() and "nan" not in str(found)
        assert len(found.places) == {"site": 2, "none": 5}[reserve]


def test_no_city_is_found_whose_load_leaves_nothing():
    loads = pd.DataFrame({"latitude": [38.9, 39.3], "longitude": [-77.0, -76.6], "load_w": 100 * GW})
    grid = replace(gas_grid(), loads=loads)
    by_load, named = (find(grid, 2 * GW, 30 * km, rule, k=1) for rule in (HEADROOM, "idle fuelled"))
    assert by_load.rule == HEADROOM and by_load.places["authority"].tolist() == ["SRP"]
    assert named.places["authority"].tolist() == ["PJM"] and "headroom is less at" in named.warnings[1]
    assert "(0 W of 2 GW)" in named.warnings[1] and named.shown()["headroom"].tolist() == ["0 W"]


def test_where_no_point_has_any_power_a_refusal_says_so():
    weak = replace(gas_grid(), lines=gas_grid().lines.assign(power_w=0.0))
    with pytest.raises(
        NoPlaces, match=r"no place has 1 GW: nothing is left at any point, limited by: .*; lower the demand"
    ):
        find(weak, 1 * GW, 30 * km, "installed")
    assert len(find(weak, 1 * GW, 30 * km, "installed", survey=Survey(2.0, reserve="none")).places) == 5
