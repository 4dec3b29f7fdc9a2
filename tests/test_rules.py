"""Available power at a point: what the plants around it have, the rules, and the bound of the authority."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from small_grids import small_grid

from railcore import catalog
from railcore.catalog.units import km
from railcore.network.globe import great_circle_distance
from railcore.siting import plants
from railcore.siting.authorities import authority_caps, authority_table
from railcore.siting.grid import load_grid
from railcore.siting.points import lattice, points_around
from railcore.siting.rules import HEADROOM, RULES, available_power, eligible, feeds_demand, power_by_rule_w
from railcore.siting.supply import Supply, supply_of_groups

EMBEDDED = load_grid()
FOLDER = Path(os.environ.get("RAILCORE_EIA_DIR") or "none")
needs_eia = pytest.mark.skipif(not FOLDER.is_dir(), reason="RAILCORE_EIA_DIR names no folder with EIA's files")
FUELS = catalog.names("fuels")


def around(made, radius=50e3, latitude=40.0, longitude=-80.0, **options):
    at = (np.array([latitude]), np.array([longitude]), np.array(["Ohio"], object))
    return points_around(made, radius, at=at, **options)


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
        "largest_firm_unit_w": np.array([1e9]),
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


def test_coal_has_no_say_in_what_a_point_belongs_to():
    made = small_grid([(1, 40.0, -80.0, "gas", 1e9, 1e9), (2, 40.0, -80.0, "coal", 3e9, 1e9)])
    made = made.with_plants(made.plants.assign(authority=["PJM", "MISO"]))
    assert around(made).most_of("authority").tolist() == ["PJM"]
    assert made.name == "plants of your own, lines and loads: small"


def test_points_grow_with_the_radius():
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


# The rule that takes off all that others use


def random_grid(seed: int, scale: float = 1.0):
    """Some plants and loads within 40 km of a point; scale multiplies all powers."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    power = rng.integers(1, 40, n) * 1e8 * scale
    where = 40 + rng.uniform(-0.25, 0.25, n), -80 + rng.uniform(-0.3, 0.3, n)
    plants = zip(range(n), *where, rng.choice(FUELS, n), power, power / rng.integers(1, 9, n), strict=True)
    return small_grid([*plants], loads=[(40.0, -80.0, rng.integers(0, 60) * 1e8 * scale)])


def by_rule(grid, rule: str) -> float:
    """Power at the point in watts; 0 where no plant but coal is there."""
    points = around(grid)
    return float(power_by_rule_w(points.supply, rule, most_coal=1.0, reserve="none").sum())


@given(st.integers(0, 2**32 - 1), st.floats(0.1, 10))
def test_headroom_is_the_least_of_what_two_rules_leave(seed, scale):
    """min(idle fuelled, firm - l) - u: below every other rule."""
    grid = random_grid(seed)
    supply = around(grid).supply
    by_hand = np.minimum(supply.idle_fuelled_w, supply.firm_w - supply.load_w) - supply.largest_firm_unit_w
    headroom = by_rule(grid, HEADROOM)
    assert headroom == pytest.approx(np.maximum(by_hand, 0).sum(), rel=1e-9, abs=1)
    assert all(headroom <= by_rule(grid, name) + 1 for name in RULES)
    if supply.load_w.sum() >= supply.firm_w.sum():
        assert headroom == 0
    for name in RULES:
        assert by_rule(random_grid(seed, scale), name) == pytest.approx(scale * by_rule(grid, name), rel=1e-9, abs=1)


def test_a_plant_that_runs_all_year_leaves_next_to_nothing():
    """Nuclear: 93% of four reactors are sold, the rest is less than the one that may fail. More load, less power."""
    sold = catalog.item("fuels", "nuclear")["capacity_factor"]
    assert sold > 0.9
    four, many = (small_grid([(1, 40.0, -80.0, "nuclear", 4e9, 4e9 / units)]) for units in (4, 400))
    assert by_rule(four, HEADROOM) == 0 < by_rule(four, "headroom after load")
    assert by_rule(many, HEADROOM) == pytest.approx(4e9 * (1 - sold) - 1e7)
    powers = [
        by_rule(small_grid([(1, 40.0, -80.0, "gas", 4e9, 1e8)], loads=[(40.0, -80.0, load)]), HEADROOM)
        for load in (0.0, 1e9, 3e9, 3.8e9, 4e9)
    ]
    idle = 4e9 * (1 - catalog.item("fuels", "gas")["capacity_factor"]) - 1e8
    assert powers == pytest.approx([idle, idle, 9e8, 1e8, 0])


def test_what_decides_the_power_is_said_of_every_point():
    points = points_around(EMBEDDED, 75 * km, 1.0)
    power, caps, supply = available_power(points), authority_caps(), points.supply
    parts = {
        "what its plants sell on average": supply.idle_fuelled_w - supply.largest_firm_unit_w,
        "load within 75 km": supply.firm_w - supply.largest_firm_unit_w - supply.load_w,
        "load within 112.5 km": points.firm_within_w(1.5) - points.load_within_w(1.5) - supply.largest_firm_unit_w,
        "bound": np.array([max(caps.get(code, np.inf), 0.0) for code in power.authority]),
    }
    least = np.stack([*parts.values()]).min(axis=0)
    allowed = eligible(supply)
    assert power.power_w == pytest.approx(np.where(allowed, np.maximum(least, 0), 0))
    for limit, code, can, *of_parts in zip(power.limit, power.authority, allowed, *parts.values(), strict=True):
        if not can:
            assert limit == "coal, or too few lines"
            continue
        said = "bound" if limit == f"bound of {code}" else limit
        assert of_parts[list(parts).index(said)] <= max(min(of_parts), 0) + 1
    assert {"coal, or too few lines", "bound of FPL", *list(parts)[:3]} <= set(power.limit)
    assert set(available_power(points, "installed", authority_caps={}).limit[allowed]) == {"rule 'installed'"}


def test_a_wind_farm_is_no_unit_that_firm_power_loses():
    made = small_grid([(1, 40.0, -80.0, "gas", 2e9, 2e8), (2, 40.0, -80.0, "wind", 3e9, 1e9)], loads=[])
    supply = around(made).supply
    assert (supply.largest_unit_w, supply.largest_firm_unit_w) == (1e9, 2e8)
    assert by_rule(made, "firm minus largest") == pytest.approx(1.8e9)


def test_a_circle_has_plants_of_one_interconnection():
    plants = [(1, 40.0, -80.0, "gas", 2e9, 2e8), (2, 40.1, -80.0, "gas", 1e9, 1e8), (3, 40.0, -80.1, "oil", 5e8, 1e8)]
    apart = around(small_grid(plants, loads=[], interconnect=["Eastern", "Texas", "Western"]))
    assert apart.supply.installed_w == 2e9 and apart.interconnect == "Eastern" and apart.plants.nnz == 1
    assert around(small_grid(plants, loads=[])).supply.installed_w == 3.5e9
    alone = around(small_grid(plants[2:], loads=[], interconnect=["Western"]))
    both = around(
        small_grid(plants[2:] + [(4, 40.0, -80.0, "coal", 4e9, 1e9)], loads=[], interconnect=["Western", "Eastern"])
    )
    assert alone.supply.installed_w == both.supply.installed_w == 5e8  # coal has no say, oil has


def test_the_load_of_a_city_beyond_the_circle_counts_for_headroom():
    """60 km north, within one and a half radii: a circle does not cut off the city that its plants serve."""
    city = (40.0 + 60e3 / (np.pi * catalog.item("wide_area", "Earth")["radius"] / 180), -80.0)
    near, far = (
        small_grid([(1, 40.0, -80.0, "gas", 4e9, 1e8)], loads=[(*place, 3e9)]) for place in (city, (48.0, -80.0))
    )
    powers = [available_power(around(made), reserve="none", authority_caps={}) for made in (near, far)]
    assert powers[0].power_w == pytest.approx(4e9 - 1e8 - 3e9) and powers[0].limit == "load within 75 km"
    assert powers[1].power_w == pytest.approx(by_rule(far, HEADROOM)) and powers[1].power_w > 2e9
    other = available_power(around(near), "idle firm", reserve="none", authority_caps={})
    assert other.power_w == pytest.approx(by_rule(near, "idle firm"))  # the default rule alone asks


# The bound of the authority


def check_bounds(grid, step_deg: float, reserve: str) -> None:
    """No point has more than its authority by any rule; some would have, so that the bound decides."""
    caps, bounded = authority_caps(), 0
    most = authority_table().set_index("authority")["bound_w"].dropna().clip(lower=0)  # all capacity less the peak
    for radius in (50 * km, 75 * km, 100 * km):
        points = points_around(grid, radius, step_deg)
        with_units = not np.isnan(points.supply.largest_unit_w).any()
        for name, rule in RULES.items():
            if rule.needs_units and not with_units:
                continue
            power = available_power(points, name, reserve=reserve)
            bound = np.array([max(caps.get(code, np.inf), 0.0) for code in power.authority.tolist()])
            assert (power.power_w <= bound).all()
            assert (power.power_w <= most.reindex(power.authority, fill_value=np.inf) + 1e6).all()
            bounded += (power_by_rule_w(points.supply, name, reserve=reserve) > bound).sum()
            best = int(power.power_w.argmax())
            assert power.authority[best] == authority_by_hand(
                grid, radius, points.latitude[best], points.longitude[best]
            )
    assert bounded > 100


def authority_by_hand(grid, radius_m, latitude, longitude) -> str:
    """That of most power that is not coal within the radius."""
    plants = grid.plants[grid.plants["fuel"] != "coal"]
    near = great_circle_distance(plants["latitude"], plants["longitude"], latitude, longitude) <= radius_m
    return plants[near].groupby("authority")["power_w"].sum().idxmax()


def test_no_point_of_the_embedded_grid_is_above_the_bound_of_its_authority():
    check_bounds(EMBEDDED, 0.5, "unit")


@needs_eia
def test_no_point_among_real_plants_is_above_the_bound_of_its_authority():
    check_bounds(EMBEDDED.with_plants(plants(FOLDER / "plants.csv.gz")), 0.5, "none")


def test_sixteen_gigawatts_are_not_found_in_an_authority_that_has_four():
    """What the rule after load gives at 100 km in Florida, and what the whole authority has to spare."""
    points = points_around(EMBEDDED, 100 * km, 0.5)
    old = power_by_rule_w(points.supply, "headroom after load")
    best = [int(old.argmax())]
    power = available_power(points, "headroom after load")[best]
    assert power.authority[0] == "FPL" and old[best[0]] == pytest.approx(15.9e9, rel=0.01)
    assert power.power_w[0] == authority_caps()["FPL"] < 5e9 and power.limit[0] == "bound of FPL"


def test_caps_of_one_s_own_are_checked_and_leave_the_other_bounds():
    plants = [(1, 40.0, -80.0, "gas", 90e9, 1e8)]
    rule = "firm minus largest"
    own = replace(small_grid(plants, loads=[]), authority_caps={"BPAT": "1 GW"})
    assert own.authority_caps == {"BPAT": 1e9}
    assert available_power(around(own), rule, reserve="none").power_w == authority_caps()["PJM"]
    free = replace(own, authority_caps={"PJM": np.inf})
    assert available_power(around(free), rule, reserve="none").power_w == 89.9e9
    for caps, words in (
        ({"PJM": np.nan}, r"authority_caps\['PJM'\] is nan"),
        ({"PJM": "2 GB"}, r"authority_caps\['PJM'\]"),
        ({"ERCOT": 1e9}, "authority_caps: balancing authority 'ERCOT' does not exist: the nearest are 'ERCO'"),
    ):
        with pytest.raises(ValueError, match=words):
            replace(own, authority_caps=caps)


def test_caps_of_a_grid_take_the_place_of_published_ones():
    plants = small_grid([(1, 40.0, -80.0, "gas", 9e9, 1e8)], loads=[])
    usual, none = (around(replace(plants, authority_caps=caps)) for caps in (None, {}))
    rule = "firm minus largest"
    assert available_power(usual, rule, reserve="none").power_w == 8.9e9 < authority_caps()["PJM"]
    tight = around(replace(plants, authority_caps={"PJM": 2e9}))
    power = available_power(tight, rule, reserve="none")
    assert power.power_w == 2e9 and power.limit == "bound of PJM" and power.authority_caps == {"PJM": 2e9}
    assert available_power(tight, rule, reserve="none", authority_caps={}).power_w == 8.9e9  # asked for without
    unknown = around(small_grid([(1, 40.0, -80.0, "gas", 90e9, 1e8)], loads=[], authority="of its own"))
    for points, most in ((none, 8.9e9), (unknown, 89.9e9)):
        power = available_power(points, rule, reserve="none")
        assert power.power_w == most and power.limit == f"rule {rule!r}" and not power.authority_caps


# Units that are not known


def test_without_units_the_rules_and_the_reserve_that_need_them_are_refused():
    grid = small_grid([(1, 40.0, -80.0, "gas", 2e9, 1e8), (2, 40.0, -80.0, "hydro", 1e9, 1e8)], [(1, 2, 5e9)])
    grid.plants.loc[1, "largest_unit_w"] = np.nan
    points = around(grid)
    without = [name for name, rule in RULES.items() if not rule.needs_units]
    assert set(without) == {"idle firm", "idle fuelled", "installed"}
    for name in RULES:
        if name in without:
            assert available_power(points, name, reserve="none").power_w > 0
            words = "reserve 'unit' needs units, and 1 of 1 points .* take reserve 'site' or 'none'"
        else:
            words = (
                f"rule '{name}' needs units, .* give largest_unit_w of every plant, or take rule {', '.join(without)}"
            )
        with pytest.raises(ValueError, match=words):
            available_power(points, name)
    with pytest.raises(ValueError, match="rule 'headroom' needs units"):
        available_power(points, HEADROOM, reserve="none")
    assert available_power(points, "idle firm", reserve="site").power_w == 0  # no line leaves the circle
    known = replace(grid, plants=grid.plants.assign(largest_unit_w=1e8))
    assert available_power(around(known), HEADROOM, reserve="none").power_w > 0
