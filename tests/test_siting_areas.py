"""Where places may be: cities, states, authorities and people; refusals that say what is left; what a result shows."""

from dataclasses import fields

import numpy as np
import pytest

from railcore.catalog.units import GW, km
from railcore.network.globe import great_circle_distance
from railcore.siting.areas import Area, city_point, people_within, state_names
from railcore.siting.available_power import IGNORED_BY_ALL, RULES, demand_warnings
from railcore.siting.cities import cities
from railcore.siting.grid import load_grid, state_of
from railcore.siting.places import Survey, find_places
from railcore.siting.points import points_around

COARSE = Survey(step_deg=1.0)
OF_AREA = {each.name for each in fields(Area)}


@pytest.fixture(scope="module")
def us():
    return load_grid()


def find(us, demand_w=1 * GW, radius_m=75 * km, rule="idle fuelled", **asked):
    area = Area(**{name: asked.pop(name) for name in OF_AREA & asked.keys()})
    return find_places(us, demand_w, radius_m, rule, area=area, **({"survey": COARSE} | asked))


# What a condition keeps


def test_places_lie_near_a_city_or_the_same_point(us):
    name, (latitude, longitude) = city_point("Chicago")
    found = find(us, k=2, near="Chicago", near_m=500 * km)
    away = great_circle_distance(found.candidates.latitude, found.candidates.longitude, latitude, longitude)
    assert city_point("New York") == city_point("New York City, NY")
    assert name == "Chicago, IL" and away.max() <= 500 * km and len(found.places) == 2
    every = find(us, k=2).candidates
    whole = great_circle_distance(every.latitude, every.longitude, latitude, longitude)
    assert len(found.candidates) == (whole <= 500 * km).sum()  # none is lost that is near
    point = find(us, k=2, near=(latitude, longitude), near_m=500 * km)
    assert point.places.equals(found.places)


def test_places_lie_in_the_states_and_authorities_by_name_or_code(us):
    by_code = find(us, k=2, states=["TX", "la"])
    by_name = find(us, k=2, states=["Texas", "louisiana"])
    assert set(by_code.candidates.state) == {"Texas", "Louisiana"} and by_code.places.equals(by_name.places)
    assert by_code.candidates.state.tolist() == by_name.candidates.state.tolist()
    owned = find(us, k=2, authorities="ercO")
    assert set(owned.places["authority"]) == {"ERCO"}
    both = find(us, k=1, states="TX", authorities=["MISO"])  # a part of Texas
    assert set(both.candidates.state) == {"Texas"} and set(both.candidates.most_of("authority")) == {"MISO"}
    assert set(state_names(["dc", "District of Columbia"])) == {"District of Columbia"}


def test_few_people_live_around_a_place(us):
    found = find(us, states="TX", most_people=2e5, people_m=60 * km)
    around = people_within(found.candidates.latitude, found.candidates.longitude, 60 * km)
    others = find(us, states="TX").candidates
    every = people_within(others.latitude, others.longitude, 60 * km)
    assert around.max() <= 2e5 < every.max() and len(around) == (every <= 2e5).sum()
    table = cities()
    assert people_within([39.0], [-98.0], 2e7) == pytest.approx(table["population"].sum())  # half a turn around


def test_conditions_choose_among_the_candidates_of_the_whole_country(us):
    """The same as the candidates of all centres, those left out that miss a condition; none leaves all in."""
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


def test_centres_lie_on_land(us):
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
            r"no place is left: [\d,]+ centres, of these \d+ within 300 km of Chicago, IL, of these 0 in Oregon; "
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
        ({"states": "OR", "demand_w": 50 * GW}, r"no place has 50 GW: the best has .*: \d+ candidates in Oregon"),
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
    assert any("does not subtract the load nearby" in text and "of 4.2 GW" in text for text in found.warnings)
    assert "the load of others" in found.ignores and IGNORED_BY_ALL in str(found)
    with pytest.raises(ValueError, match=r"the best has|no such places"):
        find(us, 4.2 * GW, rule="headroom after load", **asked)
    far = find(us, 0.2 * GW, rule="headroom after load")
    assert far.warnings == () and "load beyond the radius" in far.ignores


def test_every_rule_says_what_it_ignores():
    assert all(rule.ignores and rule.meaning for rule in RULES.values())
    without = [name for name, rule in RULES.items() if not rule.ignores.startswith(("the load", "peaks of load"))]
    assert without == ["headroom after load"]


def test_a_result_reads_with_cities_and_units(us):
    found = find(us, 2 * GW, k=2, near="Houston", near_m=600 * km)
    text = str(found)
    assert text.startswith("2 places for 2 GW, plants within 75 km; searched: within 600 km of Houston, TX")
    assert all(name in text for name in found.places["name"]) and "1 GW" in text and " km, " in text and " ms" in text
    assert "e+0" not in text and repr(found) == text
    one = str(find(us, 2 * GW))
    assert one.startswith("1 place for 2 GW, plants within 75 km; searched: the whole country") and "apart" not in one
    assert list(found.ways[["name", "name_to"]].iloc[0]) == list(found.places["name"])
