"""Splits: k places that feed a demand together, against all combinations; the one-call search for them."""

import os
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_array
from small_grids import GAS_PLANTS, gas_grid

from railcore import catalog
from railcore.catalog.units import GW, km
from railcore.network.globe import great_circle_distance
from railcore.siting import plants
from railcore.siting.areas import Area
from railcore.siting.authorities import authority_caps
from railcore.siting.grid import load_grid
from railcore.siting.places import NoPlaces, Survey
from railcore.siting.rules import AvailablePower
from railcore.siting.split import best_split, find_split
from suite.flops2024.sitings import splits

FOLDER = Path(os.environ.get("RAILCORE_EIA_DIR") or "none")
SMALL, WIDE = gas_grid(), Survey(step_deg=2.0)
IDLE = 1 - catalog.item("fuels", "gas")["capacity_factor"]


def make(seed: int, n: int = 9, plants: int = 12, span: float = 4.0) -> AvailablePower:
    """Points on a small map, each with a few of the plants near it."""
    random = np.random.default_rng(seed)
    latitude, longitude = 40 + random.uniform(0, span, n).round(2), -100 + random.uniform(0, span, n).round(2)
    where = random.uniform(0, span, (2, plants))
    near = np.hypot(latitude[:, None] - 40 - where[0], longitude[:, None] + 100 - where[1]) < span / 4
    power = random.integers(1, 9, plants) * 1e8
    return AvailablePower(
        latitude, longitude, near @ power, csr_array(near.astype(float)), random.choice(["A", "B", "C"], n)
    )


def table(options: AvailablePower) -> np.ndarray:
    at = options.latitude, options.longitude
    return great_circle_distance(at[0][:, None], at[1][:, None], at[0], at[1])


def feeds(usable, authority, demand, k, caps, share) -> bool:
    """By linear programme: powers of the places that meet the demand."""
    rows = [(authority == name).astype(float) for name in caps]
    bounds = [(share * demand / k, max(power, 0)) for power in usable]
    if any(low > high * (1 + 1e-9) for low, high in bounds):
        return False
    bounds = [(min(low, high), high) for low, high in bounds]
    found = linprog(
        np.zeros(k), np.array(rows) if rows else None, list(caps.values()) or None, np.ones((1, k)), [demand], bounds
    )
    return found.status == 0


def brute(options, demand, k, separation=0.0, place_cap=np.inf, caps=None, share=1.0):
    """(longest, spare) of every k candidates that meet the terms."""
    far, both = table(options), (options.plants @ options.plants.T).toarray()
    caps = caps or {}
    cap_w = [min(place_cap, caps.get(code, np.inf)) for code in options.authority.tolist()]
    usable, found = np.minimum(options.power_w, cap_w), []
    for chosen in combinations(range(len(options)), k):
        at = list(chosen)
        pairs = list(combinations(at, 2))
        if any(both[pair] or far[pair] < separation for pair in pairs) or (usable[at] <= 0).any():
            continue
        if feeds(usable[at], options.authority[at], demand, k, caps, share):
            groups = {code: usable[at][options.authority[at] == code].sum() for code in options.authority[at]}
            together = sum(min(power, caps.get(code, np.inf)) for code, power in groups.items())
            found.append((max((far[pair] for pair in pairs), default=0.0), together - demand))
    return found


terms_of = st.fixed_dictionaries(
    {
        "demand": st.sampled_from([4e8, 1e9, 2e9, 3e9]),
        "k": st.integers(1, 4),
        "separation": st.sampled_from([0.0, 60 * km, 150 * km, 250 * km]),
        "place_cap": st.sampled_from([np.inf, 9e8, 5e8]),
        "caps": st.sampled_from([{}, {"A": 6e8}, {"A": 0.0, "B": 1.2e9}, {"C": 5e8, "A": 1e9}]),
        "share": st.sampled_from([1.0, 0.5, 0.0]),
    }
)


def solve(options, terms, objective, resolution_m=0.0):
    return best_split(
        options,
        terms["demand"],
        terms["k"],
        objective,
        least_separation_m=terms["separation"],
        place_cap_w=terms["place_cap"],
        authority_caps=terms["caps"],
        least_share=terms["share"],
        resolution_m=resolution_m,
    )


def possible(terms, options) -> bool:
    return set(terms["caps"]) <= set(options.authority.tolist())


@settings(max_examples=20)
@given(seed=st.integers(0, 10**6), terms=terms_of, objective=st.sampled_from(["shortest", "spare"]))
def test_split_is_the_best_of_all_combinations(seed, terms, objective):
    options = make(seed)
    if not possible(terms, options):
        return
    every = brute(options, **terms)
    if not every:
        with pytest.raises(ValueError, match=r"no (. )?place"):
            solve(options, terms, objective)
        return
    found = solve(options, terms, objective)
    best = min(every, key=lambda pair: (round(pair[0], 3), -pair[1])) if objective == "shortest" else None
    spare = best[1] if best else max(pair[1] for pair in every)
    assert found.spare_w == pytest.approx(spare, rel=1e-9, abs=1)
    if best:
        assert found.longest_m == pytest.approx(best[0], rel=1e-9)
    check(found, options, terms)


def test_places_of_one_authority_share_its_cap_where_parts_are_unequal():
    """Two of three places have 1 GW each under a cap of 0.5 GW together: the third must be one."""
    options = AvailablePower(
        np.array([40.0, 40.1, 44.0]),
        np.full(3, -80.0),
        np.full(3, 1e9),
        csr_array(np.eye(3)),
        np.array(["A", "A", "B"]),
    )
    for share in (0.5, 0.1, 0.0):
        found = best_split(options, 1e9, 2, authority_caps={"A": 5e8}, least_share=share)
        assert "B" in options.authority[found.places] and found.power_w.sum() == pytest.approx(1e9)
        assert found.power_w[options.authority[found.places] == "A"].sum() <= 5e8 * (1 + 1e-9)
    with pytest.raises(ValueError, match="no 2 places"):
        best_split(options[:2], 1e9, 2, authority_caps={"A": 5e8}, least_share=0.1)


def check(found, options, terms):
    at, k = found.places, terms["k"]
    assert len(set(at.tolist())) == k
    assert (options.plants[at].sum(axis=0) <= 1).all()
    far = table(options)[np.ix_(at, at)] + np.diag(np.full(k, np.inf))
    assert far.min() >= terms["separation"] or k == 1
    assert found.power_w.sum() == pytest.approx(terms["demand"], rel=1e-9)
    assert (found.power_w <= found.usable_w * (1 + 1e-9)).all()
    assert (found.power_w >= terms["share"] * terms["demand"] / k * (1 - 1e-9)).all()
    for name, cap in terms["caps"].items():
        assert found.power_w[options.authority[at] == name].sum() <= cap * (1 + 1e-9)


def circles(seed: int) -> AvailablePower:
    """Points with all plants within 50 km: those 120 km apart share none."""
    random = np.random.default_rng(seed)
    at = 38 + random.uniform(0, 8, 60), -100 + random.uniform(0, 8, 60)
    sites = 38 + random.uniform(0, 8, 90), -100 + random.uniform(0, 8, 90)
    near = great_circle_distance(at[0][:, None], at[1][:, None], *sites) <= 50 * km
    return AvailablePower(
        *at, near.sum(axis=1) * 1e9, csr_array(near.astype(float)), np.full(60, "A"), radius_m=50 * km
    )


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 30 * km, 80 * km]), st.sampled_from([{}, {"A": 6e8}, None]))
def test_the_dominated_cost_at_most_the_resolution(seed, within, caps):
    """L(s) <= L_kept(s) <= L(s + 2 w) + 2 w; at w = 0 nothing changes. None for circles."""
    options, separation = (circles(seed), 120 * km) if caps is None else (make(seed, 40, 14, 3.0), 70 * km)
    terms = dict(demand=8e8, k=3, place_cap=np.inf, caps=caps or {}, share=1.0)

    def longest(separation, within):
        try:
            return solve(options, terms | {"separation": separation}, "shortest", within).longest_m
        except ValueError:
            return np.inf

    kept = longest(separation, within)
    assert longest(separation, 0) <= kept * (1 + 1e-9)
    assert kept <= (longest(separation + 2 * within, 0) + 2 * within) * (1 + 1e-9)


@settings(max_examples=5)
@given(seed=st.integers(0, 10**6))
def test_both_ways_to_the_spare_power_of_the_shortest(seed):
    """Cliques tried one by one and the programme; and all candidates at once or from some of them first."""
    options = make(seed, n=40, plants=60, span=7.0)
    found = best_split(options, 1e9, 3, least_separation_m=80 * km, resolution_m=0)
    for name, value in (("_FEW", -1), ("_MANY", 10)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"railcore.siting.split_search.{name}", value)
            other = best_split(options, 1e9, 3, least_separation_m=80 * km, resolution_m=0)
        assert other.longest_m == pytest.approx(found.longest_m, rel=1e-9)
        assert other.spare_w == pytest.approx(found.spare_w, rel=1e-9)


def test_power_dealt_between_unequal_places():
    plants = csr_array(np.eye(3))
    power, where = np.array([4e9, 2e9, 1e9]), (np.array([40, 41, 42.0]), np.full(3, -100.0))
    options = AvailablePower(*where, power, plants, np.array(["A", "A", "B"]))
    terms = dict(least_share=0.3, resolution_m=0)
    found = best_split(options, 3e9, 3, **terms)
    assert found.power_w.tolist() == pytest.approx(
        [1e8 * x for x in (3 + 21 * 37 / 61, 3 + 21 * 17 / 61, 3 + 21 * 7 / 61)]
    )
    capped = best_split(options, 3e9, 3, authority_caps={"A": 2.1e9}, **terms)
    assert capped.power_w[:2].sum() <= 2.1e9 * (1 + 1e-12) and capped.power_w.sum() == pytest.approx(3e9)
    with pytest.raises(ValueError, match=r"3 GW: the best have 2\.\d* GW"):
        best_split(options, 3e9, 3, authority_caps={"A": 1.9e9}, **terms)


def test_rows_of_every_k():
    options = make(2, n=12, plants=24, span=6.0)
    rows = splits(options, 1.5e9, range(1, 7), least_separation_m=50 * km)
    assert rows["k"].tolist() == [1, 2, 3, 4, 5, 6]
    solved = rows[rows["problem"] == ""]
    assert len(solved) and len(solved) < 6 and rows.loc[rows["problem"] != "", "longest_m"].isna().all()
    assert np.allclose(solved["part_w"] * solved["k"], 1.5e9)
    assert (solved["with_power"] >= solved["strong_enough"]).all()
    assert (solved["strong_enough"] >= solved["undominated"]).all()
    most = best_split(options, 1.5e9, int(solved["k"].iloc[-1]), least_separation_m=50 * km)
    assert most.table(options).shape[1] == 6


# `find_split`


@given(st.integers(1, 4), st.floats(0.05, 1.7), st.sampled_from(["shortest", "spare"]))
def test_split_of_a_grid_is_the_best_of_all_subsets(k, part_gw, objective):
    """Even parts: every place has demand / k; shortest is the least diameter, spare the most power."""
    power = np.array([row[2] for row in GAS_PLANTS]) * GW * IDLE
    lat, lon = np.array([row[:2] for row in GAS_PLANTS], float).T
    far = great_circle_distance(lat[:, None], lon[:, None], lat, lon)
    sets = [list(some) for some in combinations(range(5), k) if power[list(some)].min() >= part_gw * GW]
    terms = {"objective": objective, "least_separation_m": 0.0}
    found = find_split(SMALL, k * part_gw * GW, 30 * km, k, "idle fuelled", survey=WIDE, **terms)
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
    apart = find_split(SMALL, 2 * GW, 30 * km, 2, "idle fuelled", survey=WIDE, least_separation_m=500 * km)
    near = find_split(SMALL, 2 * GW, 30 * km, 2, "installed", survey=WIDE, least_separation_m=0.0)
    usual = find_split(SMALL, 2 * GW, 30 * km, 2, "installed", survey=WIDE)
    assert apart.split.longest_m >= 500 * km > 61 * km > near.split.longest_m
    assert usual.split.longest_m >= 61 * km  # two circles of plants and a kilometre
    capped = find_split(SMALL, 2 * GW, 30 * km, 2, "installed", survey=WIDE, authority_caps={"PJM": 0.0})
    assert not set(capped.places["authority"]) & {"PJM"}
    weak = replace(SMALL, lines=SMALL.lines.assign(power_w=0.0))
    with pytest.raises(ValueError, match="no such places exist"):
        find_split(weak, 1 * GW, 30 * km, 1, "installed", survey=WIDE)
    assert len(find_split(weak, 1 * GW, 30 * km, 1, "installed", survey=replace(WIDE, reserve="none")).places) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"demand_w": 50 * GW, "k": 1}, r"50 GW: the best ha(s|ve) 5\.\d+ GW"),
        ({"demand_w": 50 * GW}, "2 places .* the best ha"),
        ({"rule": "idle fueled"}, "rule 'idle fueled' does not exist: the nearest are .*'idle fuelled'"),
        ({"authority_caps": {"PJN": 1.0}}, "authority_caps has .*PJN"),
    ],
)
def test_bad_input_names_itself(changes, words):
    asked = {"demand_w": 2 * GW, "radius_m": 30 * km, "rule": "idle fuelled", "survey": WIDE} | changes
    with pytest.raises(ValueError, match=words):
        find_split(SMALL, **asked)


# The bound of authorities holds for the places of a split together


def test_places_of_a_split_share_the_bound_of_their_authority():
    """Both plants of PJM have 5.2 and 2.9 GW idle; its bound is for both."""
    tight = replace(SMALL, authority_caps={"PJM": 4 * GW, "BPAT": 1 * GW})
    east = {"area": Area(states=["MD", "VA", "DC"]), "survey": WIDE, "least_separation_m": 0.0}
    asked = ("30 km", 2, "idle fuelled")
    for demand in (3 * GW, 4 * GW):
        found = find_split(tight, demand, *asked, **east)
        assert found.places["power_w"].sum() == pytest.approx(demand) and found.places["available_w"].max() == 4 * GW
    with pytest.raises(NoPlaces, match=r"2 places .* have 4\.1 GW: the best have (4|3\.9\d) GW"):
        find_split(tight, 4.1 * GW, *asked, **east)
    assert find_split(SMALL, 4.1 * GW, *asked, **east).warnings == ("no bound is known of PJM",)
    # a cap of one authority leaves the bounds of the others
    capped = find_split(tight, 4.1 * GW, *asked, survey=WIDE, least_separation_m=0.0, authority_caps={"BPAT": 0.5 * GW})
    assert set(capped.places["authority"]) == {"PJM", "SRP"}
    in_place = find_split(tight, 4.1 * GW, *asked, **east, authority_caps={"PJM": 5 * GW})
    assert set(in_place.places["authority"]) == {"PJM"}


def check_shared_bounds(grid, reserve: str) -> None:
    """Together no places of an authority carry more than its bound, which two would have by the rule alone."""
    bound, survey = authority_caps()["FPL"], Survey(step_deg=1.0, reserve=reserve)
    for k, radius, objective in ((2, 50 * km, "shortest"), (3, 75 * km, "spare")):
        asked = {"area": Area(authorities=["FPL"]), "survey": survey, "least_separation_m": 10 * km}
        asked |= {"objective": objective}
        found = find_split(grid, 0.99 * bound, radius, k, "idle fuelled", **asked)
        assert found.places["power_w"].sum() == pytest.approx(0.99 * bound)
        assert (found.places["available_w"] <= bound).all()
        with pytest.raises(NoPlaces):
            find_split(grid, 1.01 * bound, radius, k, "idle fuelled", **asked)
        free = find_split(replace(grid, authority_caps={}), 1.01 * bound, radius, k, "idle fuelled", **asked)
        assert set(free.places["authority"]) == {"FPL"}


def test_places_of_a_split_of_the_embedded_grid_share_the_bound():
    check_shared_bounds(load_grid(), "unit")


@pytest.mark.skipif(not FOLDER.is_dir(), reason="RAILCORE_EIA_DIR names no folder with EIA's files")
def test_places_of_a_split_among_real_plants_share_the_bound():
    check_shared_bounds(load_grid().with_plants(plants(FOLDER / "plants.csv.gz")), "none")


def test_a_split_reads_with_ways_and_shares():
    found = find_split(SMALL, 2 * GW, 30 * km, 2, "installed", survey=WIDE)
    text = str(found)
    assert text.startswith("2 places for 2 GW, plants within 30 km; searched: the whole country")
    assert [*found.shown()][3:6] == ["carries", "available", "limited by"]
    assert (
        f"farthest apart: {found.places['name'][0]} and {found.places['name'][1]}, " in text and " ms one way" in text
    )
    assert list(found.ways[["name", "name_to"]].iloc[0]) == list(found.places["name"])
