"""The one-call search for places, ways to place a demand by name, and the values of the claims on siting."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_grids import small_grid

from railcore import catalog
from railcore.catalog import UnknownName
from railcore.catalog.units import GW, km
from railcore.network.globe import great_circle_distance
from railcore.siting.authorities import authority_caps
from railcore.siting.available_power import HEADROOM, RULES, available_power, feeds_demand
from railcore.siting.grid import PowerGrid, load_grid
from railcore.siting.places import Survey, find_places
from railcore.siting.points import points_around, points_by_radius
from railcore.siting.split_terms import OBJECTIVES
from suite.flops2024 import siting_claims, specification
from suite.flops2024.counting import room_for
from suite.flops2024.siting_claims import EAST_AND_WEST, sitings_with_pair

# Gas plants: near Washington twice, at Celilo, Phoenix and Austin [latitude, longitude, GW, state, authority]
PLANTS = [
    (38.9, -77.0, 9.0, "Maryland", "PJM"),
    (39.3, -76.6, 5.0, "Maryland", "PJM"),
    (45.6, -121.1, 4.0, "Oregon", "BPAT"),
    (33.4, -112.0, 6.0, "Arizona", "SRP"),
    (30.3, -97.7, 3.0, "Texas", "ERCO"),
]
IDLE = 1 - catalog.item("fuels", "gas")["capacity_factor"]

WIDE = Survey(step_deg=2.0)


def small() -> PowerGrid:
    at, at_longitude, power, states, authorities = zip(*PLANTS, strict=True)
    plants = [(i, at[i], at_longitude[i], "gas", power[i] * GW, 0.1 * GW) for i in range(5)]
    lines = [(a, b, 1 * GW) for a, b in combinations(range(5), 2)]
    owners = {"state": states, "authority": authorities, "name": list("abcde"), "units": 10}
    owners["interconnect"] = ["Eastern", "Eastern", "Western", "Western", "Texas"]
    return small_grid(plants, lines, [(40.0, -100.0, 1 * GW)], **owners)


SMALL = small()
NEAR = points_around(SMALL, 30 * km, 2.0)
OFFER = available_power(NEAR, "idle fuelled")


@given(st.integers(1, 4), st.floats(0.05, 1.7), st.sampled_from(["shortest", "spare"]))
def test_places_are_the_best_of_all_subsets(k, part_gw, objective):
    """Even parts: every place has demand / k; shortest is the least diameter, spare the most power."""
    power = np.array([row[2] for row in PLANTS]) * GW * IDLE
    lat, lon = np.array([row[:2] for row in PLANTS], float).T
    far = great_circle_distance(lat[:, None], lon[:, None], lat, lon)
    sets = [list(some) for some in combinations(range(5), k) if power[list(some)].min() >= part_gw * GW]
    terms = {"objective": objective, "least_separation_m": 0.0}
    found = find_places(SMALL, k * part_gw * GW, 30 * km, "idle fuelled", k, survey=WIDE, **terms)
    longest, spare = far[np.ix_(*2 * [found_at(found)])].max(), power[found_at(found)].sum()
    assert found.places["power_w"].to_numpy() == pytest.approx(part_gw * GW)
    assert len(found.ways) == k * (k - 1) // 2
    assert found.ways["distance_m"].max() == pytest.approx(longest) if k > 1 else found.ways.empty
    if objective == "shortest":
        assert longest == pytest.approx(min(far[np.ix_(some, some)].max() for some in sets))
    else:
        assert spare == pytest.approx(max(power[some].sum() for some in sets))


def found_at(found) -> list[int]:
    """Numbers of the plants whose circles were chosen."""
    plants = found.points.plants[found.split.places]
    assert plants.sum(axis=0).max() <= 1  # no plant is shared
    return sorted(plants.indices.tolist())


def test_terms_and_assumptions_reach_the_split():
    apart = find_places(SMALL, 2 * GW, 30 * km, "idle fuelled", 2, survey=WIDE, least_separation_m=500 * km)
    near = find_places(SMALL, 2 * GW, 30 * km, "installed", 2, survey=WIDE, least_separation_m=0.0)
    usual = find_places(SMALL, 2 * GW, 30 * km, "installed", 2, survey=WIDE)
    assert apart.split.longest_m >= 500 * km > 61 * km > near.split.longest_m
    assert usual.split.longest_m >= 61 * km  # two circles of plants and a kilometre
    capped = find_places(SMALL, 2 * GW, 30 * km, "installed", 2, survey=WIDE, authority_caps={"PJM": 0.0})
    assert not set(capped.places["authority"]) & {"PJM"}
    weak = replace(SMALL, lines=SMALL.lines.assign(power_w=0.0))
    with pytest.raises(ValueError, match="no such places exist"):
        find_places(weak, 1 * GW, 30 * km, "installed", survey=WIDE)
    assert len(find_places(weak, 1 * GW, 30 * km, "installed", survey=replace(WIDE, reserve="none")).places) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"demand_w": 50 * GW}, r"50 GW: the best ha(s|ve) 5\.\d+ GW"),
        ({"demand_w": 50 * GW, "k": 2}, "2 places .* the best ha"),
        ({"rule": "idle fueled"}, "rule 'idle fueled' does not exist: the nearest are .*'idle fuelled'"),
        ({"authority_caps": {"PJN": 1.0}}, "authority_caps has .*PJN"),
    ],
)
def test_bad_input_names_itself(changes, words):
    asked = {"demand_w": 2 * GW, "radius_m": 30 * km, "rule": "idle fuelled", "survey": WIDE} | changes
    with pytest.raises(ValueError, match=words):
        find_places(SMALL, **asked)


# Ways to place a demand, by name


def test_sitings_by_name():
    found, table = sitings_with_pair(NEAR, OFFER, 4 * GW, [1, 2, 5], 60 * km, least_separation_m=500 * km)
    assert list(found) == [EAST_AND_WEST, "nearest 1", "nearest 2", "roomiest 1", "roomiest 2"]
    assert list(table["siting"]) == [EAST_AND_WEST, *(f"{name} {k}" for name in OBJECTIVES for k in (1, 2, 5))]
    lost = table.set_index("siting")["problem"]
    assert (
        (lost[list(found)] == "").all()
        and "no such places exist" in lost["nearest 5"]
        and lost["nearest 5"] == lost["roomiest 5"]
    )
    assert NEAR.most_of("authority")[list(found[EAST_AND_WEST])].tolist() == ["PJM", "BPAT"]
    assert found["roomiest 1"] == found["nearest 1"] == (int(OFFER.power_w.argmax()),)


def test_a_pair_that_does_not_exist_is_left_out_and_says_why():
    found, table = sitings_with_pair(NEAR, OFFER, 5 * GW, [1, 2], 60 * km)
    assert set(found) == {"nearest 1", "nearest 2", "roomiest 1", "roomiest 2"}
    problem = table.set_index("siting").loc[EAST_AND_WEST, "problem"]
    assert "each place needs 2.5 GW, and the best within 60 km of flops2024 west has 2.32 GW" in problem
    found, table = sitings_with_pair(NEAR, OFFER, 3.0 * GW, [2, 3], 60 * km, place_cap_w=1.4 * GW)
    assert set(found) == {"nearest 3", "roomiest 3"}  # a half is over the cap of a place
    assert "east has 1.4 GW" in table.set_index("siting").loc[EAST_AND_WEST, "problem"]
    caps = authority_caps(OFFER.authority) | {"BPAT": 1.9 * GW}
    found, table = sitings_with_pair(NEAR, OFFER, 4 * GW, [1, 2], 60 * km, authority_caps=caps)
    assert EAST_AND_WEST not in found and "west has 1.9 GW" in table.set_index("siting").loc[EAST_AND_WEST, "problem"]


def test_a_demand_for_no_siting_says_what_each_number_of_places_has():
    with pytest.raises(ValueError, match=r"no place [^\n]*the best ha[^\n]*\nno 2 places [^\n]*the best ha") as error:
        sitings_with_pair(NEAR, OFFER, 90 * GW, [1, 2], 60 * km)
    assert str(error.value).count("\n") == 1  # once for each k, not for each objective
    with pytest.raises(ValueError, match="ks is empty"):
        sitings_with_pair(NEAR, OFFER, 4 * GW, [], 60 * km)
    with pytest.raises(ValueError, match="authority_caps has"):
        sitings_with_pair(NEAR, OFFER, 4 * GW, [1], 60 * km, authority_caps={"XXX": 1.0})


# Values of the claims


LOW, HIGH = (float(power) for power in specification.document_size(document="flops2024").total_w[[0, -1]])
RULE = "idle fuelled"


def account(single=0, city=2, **others) -> pd.DataFrame:
    """`siting_claims.siting_account` with the same numbers for every rule, but others by rule."""
    columns = {"single_places": single, "washington_places": city, "western_candidates": 3}
    return pd.DataFrame({"rule": list(RULES)} | columns).assign(**others)


REAL = account(range(10, 15), range(30, 35), western_candidates=range(50, 55), plants="a user")


def sensitivity_rows() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "radius_m": [5 * km, 100 * km, 100 * km],
            "rule": [RULE, RULE, "installed"],
            "region": "whole country",
            "places": [0, 31, 97],
            "exact": [True, False, False],
        }
    )


def test_values_by_hand():
    """Table 1: PJM 9,915, SRP 2,634, NEVP 2,209, BPAT 2,143 MW."""
    assert list(siting_claims.printed_powers().values()) == pytest.approx([9.915e9, 2.634e9, 2.209e9, 2.143e9])
    assert list(siting_claims.printed_powers()) == ["PJM", "SRP", "NEVP", "BPAT"]

    def ours(low, high, single=0):
        found = siting_claims.siting_values(low, high, RULE, account(single))
        return tuple(
            found[name]
            for name in (siting_claims.NORTHWEST_HALF, siting_claims.DATACENTERS, siting_claims.VIABLE_AUTHORITIES)
        )

    assert ours(4.16 * GW, 4.71 * GW) == (2, 2, 1)
    assert ours(4.16 * GW, 4.71 * GW, single=1) == (2, 1, 1)  # one place has it all
    assert ours(4.3 * GW, 4.71 * GW) == (1, 2, 1)  # NEVP alone has 2.15 GW
    assert ours(4.5 * GW, 4.71 * GW) == (0, 3, 1)
    assert ours(2.2 * GW, 2.5 * GW) == (2, 2, 2)  # NEVP feeds the lowest alone, not the highest
    assert ours(4.2 * GW, 9.92 * GW) == (2, 2, 0)
    each = account(single_places=range(5), washington_places=range(9, 4, -1))
    for i, name in enumerate(RULES):
        found = siting_claims.siting_values(LOW, HIGH, name, each)
        assert found[siting_claims.SINGLE_SITE] == i and found[siting_claims.NEAR_WASHINGTON] == 9 - i


def test_reasons_name_real_plants_only_where_they_are_stored():
    with_real, bare = (
        siting_claims.siting_reasons(RULE, account(), sensitivity_rows(), real) for real in (REAL, REAL[:0])
    )
    name = siting_claims.SINGLE_SITE
    assert "at least 31 within 100 km" in bare[name] and "97" not in bare[name]
    of_rule = REAL.set_index("rule").loc[RULE, "single_places"]
    assert with_real[name] == f"{bare[name]}; {of_rule} on the plants of a user"
    assert f"{RULE} " not in bare[siting_claims.NEAR_WASHINGTON]  # the others alone
    assert bare.keys() == with_real.keys() and not any("a user" in text for text in bare.values())


def test_counts_of_places_near_a_city():
    anywhere = siting_claims.counts_by_rule(NEAR, 2 * GW)
    near = siting_claims.counts_by_rule(NEAR, 2 * GW, 100 * km)
    assert anywhere["installed"] == 5 and anywhere["idle fuelled"] == 4 == anywhere["idle firm"]  # ERCO has 1.7 GW idle
    assert near == dict.fromkeys(RULES, 2)
    place = catalog.item("wide_area", siting_claims.WASHINGTON)
    away = great_circle_distance(39.3, -76.6, place["latitude_deg"], place["longitude_deg"])
    assert siting_claims.counts_by_rule(NEAR, 2 * GW, float(away) - 1)["installed"] == 1
    assert siting_claims.counts_by_rule(NEAR, 2 * GW, reserve="site")["installed"] == 2 and anywhere["installed"] == 5
    assert siting_claims.counts_by_rule(NEAR, 20 * GW) == dict.fromkeys(RULES, 0)


def test_no_single_place_has_it_by_the_default_rule_up_to_7_km():
    """What the notebook says of the radius that the document leaves out."""
    narrow, wide = points_by_radius(load_grid(), [7 * km, 8 * km], [True])
    assert not feeds_demand(narrow.supply, LOW, RULE).any() and feeds_demand(wide.supply, LOW, RULE).any()
    others = {name: feeds_demand(narrow.supply, LOW, name).any() for name in RULES if name != RULE}
    assert all(others.values())


def test_a_count_agrees_with_its_verb():
    assert siting_claims.that_have(0, "place") == "no place has"
    assert siting_claims.that_have(1.0, "place", " near it") == "1 place near it has"
    assert siting_claims.that_have(3.0, "centre") == "3 centres have"
    assert siting_claims.that_have(1459, "place", exact=False) == "at least 1,459 places have"


# A demand of one's own


def city_of_two(load_gw=100.0) -> PowerGrid:
    """`small` where people near Washington and Baltimore take all of the power."""
    loads = pd.DataFrame({"latitude": [38.9, 39.3], "longitude": [-77.0, -76.6], "load_w": load_gw * GW})
    return replace(SMALL, loads=loads)


def test_a_demand_of_one_s_own_is_answered_after_load_and_the_document_s_by_its_rule():
    assert siting_claims.answering_rule("", "") == siting_claims.DOCUMENT_RULE == RULE
    assert siting_claims.answering_rule("", "30 MW") == HEADROOM
    for name in RULES:  # one that the user names counts
        assert siting_claims.answering_rule(name, "30 MW") == siting_claims.answering_rule(name, "") == name
    with pytest.raises(UnknownName, match="rule 'idle fueled' does not exist: the nearest are"):
        siting_claims.answering_rule("idle fueled", "")


def test_the_roomiest_place_has_what_the_load_leaves():
    found = points_around(city_of_two(), 30 * km, 2.0)
    rooms = {rule: room_for(found, 2 * GW, rule) for rule in RULES}
    after, document = rooms[HEADROOM], rooms[RULE]
    assert [after.best_w, after.after_load_w] == pytest.approx([5.9 * GW] * 2) and after.near.endswith(", AZ")
    assert (after.places, after.exact) == (3, True)  # Celilo, Phoenix, Austin
    assert document.best_w == pytest.approx(9 * GW * IDLE) and document.after_load_w == 0
    assert siting_claims.roomiest(after) == f"{after.near} (30 km around it: 5.9 GW)"
    assert siting_claims.roomiest(document).endswith("(30 km around it: 5.23 GW, after the load nearby 0 W)")
    counts = siting_claims.counts_by_rule(found, 2 * GW)
    assert {rule: room.places for rule, room in rooms.items()} == counts
    assert room_for(found, 9 * GW, HEADROOM).places == 0 and room_for(found, 9 * GW, HEADROOM).best_w == after.best_w


def test_no_city_is_found_whose_load_leaves_nothing():
    grid = city_of_two()
    by_load = find_places(grid, 2 * GW, 30 * km, survey=WIDE)
    named = find_places(grid, 2 * GW, 30 * km, RULE, survey=WIDE)
    assert by_load.rule == HEADROOM and by_load.places["authority"].tolist() == ["SRP"] and not by_load.warnings
    assert "after load" not in str(by_load).partition("rule '")[0]
    assert named.places["authority"].tolist() == ["PJM"] and "(0 W left of 2 GW)" in named.warnings[0]
    row = str(named).splitlines()[2]
    assert "left after load" in str(named) and row.split()[-2:] == ["0", "W"] and "5.229 GW" in row


def test_training_is_told_only_where_the_racks_hold_the_model():
    rows = [("a", 1, 1.0), ("a", 2, 1.2), ("a", 3, np.nan), ("b", 1, 1.0), ("b", 2, np.nan), ("b", 3, np.nan)]
    sited = pd.DataFrame([*rows, *[("c", k, np.nan) for k in (1, 2, 3)]], columns=["model", "datacenters", "slowdown"])
    assert siting_claims.training_words(sited, 55, "20 Gbps") == (
        "Several places slow training by at most 20.0% (a, up to 2 places), at 20 Gbps of wide area a GPU. "
        "With each layer on racks of its own, as the document has it, 55 racks cannot hold b in more than one place, "
        "and not c in even one place."
    )
    alone = sited[sited["datacenters"] == 1]
    assert siting_claims.training_words(alone, 55, "1 Gbps").endswith(" 55 racks cannot hold c in even one place.")
    assert siting_claims.training_words(alone[alone["model"] != "c"], 55, "1 Gbps") == ""
