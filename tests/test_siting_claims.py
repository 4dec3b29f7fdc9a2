"""The account of flops2024 on siting: how many places have a demand, ways to place it by name, values of the claims."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from small_grids import gas_grid, small_grid

from railcore import catalog
from railcore.catalog import UnknownName, units
from railcore.catalog.units import GW, km
from railcore.network.globe import great_circle_distance
from railcore.siting.authorities import authority_caps
from railcore.siting.grid import PowerGrid, load_grid
from railcore.siting.places import Survey
from railcore.siting.points import points_around, points_by_radius
from railcore.siting.rules import HEADROOM, RULES, available_power, feeds_demand
from suite.flops2024 import counting, siting_claims, specification
from suite.flops2024.counting import best_by_rule, most_disjoint, siting_sensitivity
from suite.flops2024.siting_claims import EAST_AND_WEST, REGIONS, sitings_with_pair
from suite.flops2024.sitings import OBJECTIVES

EMBEDDED, SMALL = load_grid(), gas_grid()
NEAR = points_around(SMALL, 30 * km, 2.0)
OFFER = available_power(NEAR, "idle fuelled")
IDLE = 1 - catalog.item("fuels", "gas")["capacity_factor"]


# How many places


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
    assert (ruled["within_its_authority_w"] <= ruled["most_of_one_place_w"]).all()


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
    caps = {code: cap for code, cap in authority_caps().items() if code in OFFER.authority} | {"BPAT": 1.9 * GW}
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
    columns = {"single_places": single, "washington_places": 2, "western_candidates": 3, "washington_nodes": city}
    columns |= {"washington_nodes_densest_first": city, "washington_nodes_complete_linkage": 1}
    return pd.DataFrame({"rule": list(RULES)} | columns).assign(**others)


REAL = account(range(10, 16), range(30, 36), western_candidates=range(50, 56), plants="a user")


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
    each = account(single_places=range(6), washington_nodes=range(9, 3, -1))
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
    near = siting_claims.NEAR_WASHINGTON
    assert bare[near] == "nodes: 2 by densest first, 1 by complete linkage"
    assert "(real plants 3" in with_real[near]
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
    others = {name for name in RULES if feeds_demand(narrow.supply, LOW, name).any()}
    assert others == {*RULES} - {RULE, HEADROOM}  # headroom is never above what firm plants have idle


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


def test_a_demand_of_one_s_own_is_answered_by_headroom_and_the_document_s_by_its_rule():
    assert siting_claims.answering_rule("", "") == siting_claims.DOCUMENT_RULE == RULE
    assert siting_claims.answering_rule("", "30 MW") == HEADROOM
    for name in RULES:  # one that the user names counts
        assert siting_claims.answering_rule(name, "30 MW") == siting_claims.answering_rule(name, "") == name
    with pytest.raises(UnknownName, match="rule 'idle fueled' does not exist: the nearest are"):
        siting_claims.answering_rule("idle fueled", "")


def test_the_answer_for_a_demand_of_one_s_own_is_the_first_place_or_why_there_is_none():
    grid = city_of_two()
    found, problem = siting_claims.places_or_why(grid, 2 * GW, 30 * km, HEADROOM, Survey(step_deg=2.0))
    assert len(found.places) == 2 and not problem  # Celilo and Phoenix
    most = units.show(6 * GW * IDLE - 0.1 * GW, "W", 3)
    words = siting_claims.places_words(found, problem, "30 km")
    assert words.startswith("at least 2 places could feed 2 GW each from plants within 30 km, by our rule; ")
    assert words.endswith(", AZ (SRP)")
    none, problem = siting_claims.places_or_why(grid, 9 * GW, 30 * km, HEADROOM, Survey(step_deg=2.0))
    assert none is None and f"no place has 9 GW: the most is {most} at" in siting_claims.places_words(none, problem, "")


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
