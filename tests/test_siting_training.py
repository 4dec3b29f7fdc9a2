import warnings
from dataclasses import fields, replace
from functools import partial
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from railcore import catalog
from railcore.catalog import UnknownName
from railcore.catalog.units import GW, MW, Gbps, km, ms
from railcore.siting import distances
from railcore.siting.cities import cities
from railcore.siting.grid import PowerGrid, load_grid
from railcore.siting.points import MapPoints
from railcore.siting.rules import AvailablePower
from railcore.siting.supply import Supply
from railcore.training.transformer import catalog_model
from suite.flops2024 import direct_lines, siting_claims, sitings, specification, training_case
from suite.flops2024.multisite import multisite_times, training_by_siting, training_cases
from suite.flops2024.sitings import nearest_to_anchors
from suite.ledger import claims

DOCUMENT = {"bytes_of": "flops2024", "options": {"recomputed": 3.0}}
MACHINE = specification.document_site(23333, rate="fp4_sparse_rate")
NAMES = ("flops2024 dense", "flops2024 MoE")
CASES = training_cases(NAMES, MACHINE, **DOCUMENT)
DENSE, MIXTURE = (CASES[name] for name in NAMES)
WASHINGTON, CELILO, PHOENIX, AUSTIN = (38.9072, -77.0369), (45.5938, -121.1125), (33.4, -112.0), (30.27, -97.74)


class Somewhere(NamedTuple):
    latitude: np.ndarray
    longitude: np.ndarray


def longest(latitude, longitude) -> float:
    return distances.diameter_m(Somewhere(np.array(latitude, float), np.array(longitude, float)), range(len(latitude)))


# Delay


def test_delay_is_distance_times_route_factor_times_fibre():
    far = longest(*zip(WASHINGTON, CELILO, strict=True))
    assert far == pytest.approx(3654 * km, rel=1e-3)
    delay = distances.fibre_delays_s(far)
    assert delay["middle"] == pytest.approx(3654e3 * 1.7 * 4.8974e-9, rel=1e-3)
    assert delay["low"] < claims.paper_value("flops2024.fig3c.one_way_delay") < delay["high"]
    assert distances.fibre_delays_s(0.0) == {"low": 0, "middle": 0, "high": 0}


def test_the_longest_of_several_is_that_of_a_pair():
    every = [WASHINGTON, CELILO, PHOENIX, AUSTIN]
    pairs = [longest(*zip(a, b, strict=True)) for a, b in combinations(every, 2)]
    assert longest(*zip(*every, strict=True)) == pytest.approx(max(pairs), rel=1e-12)
    assert longest([38.9072], [-77.0369]) == 0


# Shares of the demand


@given(st.lists(st.floats(0.001, 10) | st.just(0.0), min_size=1, max_size=6), st.floats(0.01, 1))
def test_shares_are_as_even_as_powers_allow(power, part):
    total = sum(power)
    if total < 1e-3:
        return
    share = sitings.even_shares(np.array(power), demand := part * total)
    fed = share * demand
    assert share.sum() == pytest.approx(1) and np.all(fed <= np.array(power) * (1 + 1e-9))
    free = fed < np.array(power) * (1 - 1e-6)
    if free.any():  # whoever has power left feeds as much as anyone
        assert np.allclose(fed[free], fed.max(), rtol=1e-6)


def test_shares_by_hand():
    assert sitings.even_shares([9.0, 5.0], 4.0) == pytest.approx([0.5, 0.5])
    assert sitings.even_shares([9.0, 1.0], 4.0) == pytest.approx([0.75, 0.25])
    assert sitings.even_shares([1.0, 9.0, 2.0], 12.0) == pytest.approx([1 / 12, 0.75, 1 / 6])
    two = Somewhere(np.zeros(2), np.zeros(2))
    _, shares = sitings.demand_shares(two, {"both": [0, 1]}, [1.0, 2.0], 4.0)["both"]
    assert np.isnan(shares).all()


# Training over several datacenters


def even(cases, places, delay, **site) -> pd.DataFrame:
    """`multisite_times` with equal racks in each place, on a site with some other fields."""
    changed = {name: case.changed(site=site) for name, case in cases.items()}
    k, delay = np.broadcast_arrays(np.atleast_1d(places), delay)
    return multisite_times(changed, delay, [np.full(count, 1 / count) for count in k])


def test_over_datacenters_it_is_the_table_of_the_datacenter_model():
    tables = even(CASES, [1, 2, 3, 4], 30 * ms), training_case.share_by_datacenters(CASES, [1, 2, 3, 4])
    ours, ordered = (table.sort_values(["datacenters", "model"], ignore_index=True) for table in tables)
    for mine, theirs in {
        "exposed_share": "exposed_share",
        "tokens": "tokens",
        "wide_area_s": "wide_area_s",
        "least_wan_Bps": "needed_per_gpu_Bps",
        "least_site_Bps": "needed_per_datacenter_Bps",
        "fibre_pairs": "fibre_pairs",
    }.items():
        assert ours[mine].to_numpy() == pytest.approx(ordered[theirs].to_numpy(), rel=1e-12), mine


def test_one_datacenter_has_no_wide_area():
    table = even(CASES, 1, [0.0, 30 * ms, 1.0])
    assert (table[["wide_area_s", "unhidden_s", "least_wan_Bps", "fibre_pairs", "one_way_delay_s"]] == 0).all(axis=None)
    assert np.isinf(table.hidden_m).all() and table.slowdown.to_numpy() == pytest.approx(1)


@given(st.integers(2, 6), st.floats(0, 0.2), st.floats(0, 0.2), st.floats(0.5, 500), st.sampled_from([0.0, 1.0]))
def test_farther_is_never_faster_and_more_capacity_never_slower(places, near, more, gbps, lost):
    wan_Bps = gbps * Gbps * np.array([1, 1, 2])
    table = even(CASES, places, [near, near + more, near], tail_loss_rtts=lost, wan_Bps=wan_Bps)
    for _, of_one in table.groupby("model"):
        for column in ("exposed_share", "wide_area_s", "time_s", "iteration_s", "slowdown"):
            here, farther, wider = of_one[column]
            assert farther >= here * (1 - 1e-12) and wider <= here * (1 + 1e-12), column
        assert of_one.least_wan_Bps.iloc[1] >= of_one.least_wan_Bps.iloc[0]


def test_more_places_exchange_for_longer_and_need_more():
    for _, of_one in even(CASES, [1, 2, 3, 4, 5, 6], 20 * ms).groupby("model"):
        for column in ("wide_area_s", "least_wan_Bps", "least_site_Bps"):
            assert (np.diff(of_one[column]) > 0).all(), column
        assert (np.diff(of_one.hidden_m.fillna(0)) <= 0)[1:].all()


@pytest.mark.parametrize("lost", [0.0, 1.0])
def test_at_the_hidden_distance_the_exchange_takes_the_backward_pass(lost):
    for name, case in CASES.items():
        lossy = {"tail_loss_rtts": lost, "wan_Bps": 100 * Gbps}
        flat = even({name: case}, [2, 3, 4, 6], 0.0, **lossy)
        at = even({name: case}, [2, 3, 4, 6], distances.fibre_delays_s(flat.hidden_m)["middle"], **lossy)
        assert at.wide_area_s.to_numpy() == pytest.approx(case.times.backward_s, rel=1e-9)
        assert (at.unhidden_s < 1e-9).all()
        least = float(even({name: case}, 3, 10 * ms, **lossy).least_wan_Bps.iloc[0])
        enough = even({name: case}, 3, 10 * ms, **lossy | {"wan_Bps": least})
        assert enough.wide_area_s.to_numpy() == pytest.approx(case.times.backward_s, rel=1e-9)
    short = even(CASES, 2, 0.0, wan_Bps=0.1 * Gbps)
    assert short.hidden_m.isna().all() and (short.unhidden_s > 0).all()


def test_unequal_places_wait_for_the_smallest():
    name, case = NAMES[1], MIXTURE
    uneven = multisite_times({name: case}, 10 * ms, [np.array([0.3, 0.7])]).iloc[0]
    small, large = (np.floor(part * 23333 / case.model.layers) for part in (0.3, 0.7))
    laid, site, chunk = (
        case.layout,
        case.site,
        case.layer.gradient_bytes / (case.layout.tensor * case.layout.layers_per_rack),
    )
    assert uneven.racks_per_layer == small + large
    assert uneven.wide_area_s == pytest.approx(chunk / small / site.wan_Bps + 10 * ms)
    scale_out = 2 * (large - 1) / large * chunk / site.nic_Bps
    exposed = 2 * case.times.waits_s + scale_out - case.times.backward_s
    assert uneven.time_s == pytest.approx(1.5 * case.times.backward_s + exposed)
    assert uneven.tokens == pytest.approx(32_000 * laid.layers_per_rack * (small + large))
    halves = even({name: case}, 2, 10 * ms).iloc[0]
    assert uneven.wide_area_s > halves.wide_area_s and uneven.least_wan_Bps > halves.least_wan_Bps
    assert uneven.least_site_Bps == pytest.approx(halves.least_site_Bps)  # as many gradients, in the same pass


def test_a_place_without_a_replica_is_not_a_number():
    table = multisite_times(CASES, 10 * ms, [np.array([0.001, 0.999])])
    assert table.drop(columns=["model", "datacenters", "one_way_delay_s", "wan_Bps"]).isna().all(axis=None)


def test_racks_that_hold_no_model_are_not_a_number():
    """As many racks as 10 MW feed: fewer than the dense model has layers."""
    few = training_cases(NAMES, replace(MACHINE, racks=55), **DOCUMENT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = even(few, [1, 2], 10 * ms)
    assert table[["slowdown", "time_s", "exposed_share"]].isna().all(axis=None) and len(table) == 4
    best = training_by_siting(few, PLACES, POWER, SITINGS, 4.19 * GW)
    assert not best["best"].any() and best["slowdown"].isna().all()


def test_models_of_ones_own_and_unknown_ones():
    mine = replace(catalog_model("GPT-3"), name="ours")
    table = even(training_cases([mine, "GPT-3"], replace(MACHINE, racks=2000)), 2, 5 * ms)
    assert list(table.model) == ["ours", "GPT-3"] and table.time_s[0] == table.time_s[1]
    with pytest.raises(UnknownName, match="GPT-33"):
        training_cases(["GPT-33"], MACHINE)


# Sitings


def tiny():
    """Four places with a plant each, the second with one more in the other interconnection."""
    plants = pd.DataFrame(
        {
            "sub_id": [1, 2, 3, 4, 5],
            "name": list("abcde"),
            "state": ["Virginia", "Oregon", "Arizona", "Texas", "Oregon"],
            "interconnect": ["Eastern", "Western", "Western", "Texas", "Western"],
            "authority": ["PJM", "BPAT", "SRP", "ERCO", "NEVP"],
            "latitude": [WASHINGTON[0], CELILO[0], PHOENIX[0], AUSTIN[0], CELILO[0]],
            "longitude": [WASHINGTON[1], CELILO[1], PHOENIX[1], AUSTIN[1], CELILO[1]],
            "fuel": ["gas", "hydro", "nuclear", "wind", "gas"],
            "units": 1,
            "power_w": [9e9, 1.5e9, 3e9, 4e9, 0.5e9],
            "largest_unit_w": 1e8,
        }
    )
    stations = plants[["sub_id", "name", "state", "interconnect", "latitude", "longitude"]].assign(load_w=0.0)
    line = {"from_sub": [2, 1], "to_sub": [3, 4], "kv": 500, "circuits": 1, "power_w": [1e9, 2e9], "length_m": 1e6}
    lines = pd.DataFrame(line | {"type": ["DC", "AC"]})
    mine = PowerGrid("tiny", plants, lines, stations, plants[["latitude", "longitude"]].assign(load_w=0.0))
    members = csr_array(np.array([[1, 0, 0, 0, 0], [0, 1, 0, 0, 1], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0.0]]))
    lat, lon = (plants[axis].to_numpy()[:4] for axis in ("latitude", "longitude"))
    power, none = np.array([9e9, 2e9, 3e9, 4e9]), np.zeros(4)
    powers = {"installed_w": power, "firm_w": power, "idle_w": power / 2, "interconnect_w": power}
    offered = Supply(**{field.name: powers.get(field.name, none) for field in fields(Supply)})
    return MapPoints(mine, 1.0, True, lat, lon, plants["state"].to_numpy()[:4], members, offered), power


PLACES, POWER = tiny()
SITINGS = {"one": [0], "east-west": [0, 1], "west": [1, 2], "three": [0, 1, 2], "four": [0, 1, 2, 3], "none": [1]}


@pytest.fixture(scope="module")
def table():
    return training_by_siting(CASES, PLACES, POWER, SITINGS, 4.19 * GW)


def test_sitings_are_marked(table):
    assert len(table) == len(SITINGS) * len(CASES)
    for _, of_one in table.groupby("model"):
        rows = of_one.set_index("siting")
        assert rows.meets.to_dict() == {name: name != "none" for name in SITINGS}
        assert rows.spare_w["west"] == pytest.approx(0.81 * GW) and rows.spare_w["none"] < 0
        assert np.isnan(rows.slowdown["none"]) and not rows.pareto["none"]
        assert rows.least_share["east-west"] == pytest.approx(2 / 4.19)
        fits = rows[rows.meets]
        assert rows.best.sum() == 1
        fastest = fits[fits.slowdown <= fits.slowdown.min() + 1e-9]
        assert rows.best.idxmax() == fastest.spare_w.idxmax()
        score = list(zip(-fits.spare_w, fits.slowdown.round(9), strict=True))
        ahead = {
            a: any(b <= a2 and c <= a3 and (b, c) != (a2, a3) for b, c in score)
            for a, (a2, a3) in zip(fits.index, score, strict=True)
        }
        assert {name for name in fits.index if fits.pareto[name]} == {
            name for name, beaten in ahead.items() if not beaten
        }


def test_sitings_share_the_caps_of_authorities():
    authority = np.array(["PJM", "BPAT", "BPAT", "ERCO"])
    capped = AvailablePower(PLACES.latitude, PLACES.longitude, POWER, PLACES.plants, authority)
    free, bound = (
        training_by_siting(CASES, PLACES, POWER, SITINGS, 4.19 * GW, capped=replace(capped, authority_caps=caps))
        for caps in ({}, {"BPAT": 4 * GW})
    )
    before, after = (table.drop_duplicates("siting").set_index("siting") for table in (free, bound))
    assert (before.power_w - after.power_w).to_dict() == pytest.approx(
        {"one": 0, "east-west": 0, "west": 1 * GW, "three": 1 * GW, "four": 1 * GW, "none": 0}
    )
    assert before.meets["west"] and not after.meets["west"]


def test_a_tolerance_gives_power_the_choice():
    tied = training_by_siting(CASES, PLACES, POWER, SITINGS, 4.19 * GW, tolerance=10.0)
    assert set(tied.siting[tied.best]) == {"four"}
    strict = training_by_siting(CASES, PLACES, POWER, SITINGS, 4.19 * GW)
    assert "four" not in set(strict.siting[strict.best])
    assert tied.pareto.equals(strict.pareto)


def test_a_siting_is_its_places_joined(table):
    row = table[(table.siting == "four") & (table.model == NAMES[1])].iloc[0]
    assert row.longest_m == longest(PLACES.latitude, PLACES.longitude)
    delay = distances.fibre_delays_s(row.longest_m)
    assert (row.delay_low_s, row.one_way_delay_s, row.delay_high_s) == tuple(delay.values())
    shares = sitings.even_shares(POWER, 4.19 * GW)
    alone = multisite_times({NAMES[1]: MIXTURE}, delay["middle"], [shares]).iloc[0]
    assert alone.exposed_share == row.exposed_share and alone.slowdown == row.slowdown


@pytest.mark.parametrize(
    ("asked", "power", "what"),
    [
        ({}, POWER, "sitings is empty"),
        ({"no": []}, POWER, "'no' is"),
        ({"x": [0, 4]}, POWER, "below 4"),
        ({"x": [0, 0]}, POWER, "different"),
        ({"one": [0]}, POWER[:2], "power_w has shape"),
    ],
)
def test_sitings_of_nothing_are_refused(asked, power, what):
    for call in (partial(training_by_siting, CASES), sitings.siting_traits, sitings.places_of_sitings):
        with pytest.raises(ValueError, match=what):
            call(PLACES, **{"sitings": asked, "power_w": power, "demand_w": 4 * GW})


# Reasons for east and west


def test_traits_by_hand():
    rows = sitings.siting_traits(PLACES, SITINGS, POWER, 4 * GW).set_index("siting")
    assert rows.interconnects.to_dict() == {
        "one": "Eastern",
        "east-west": "Eastern, Western",
        "west": "Western",
        "three": "Western, Eastern",
        "four": "Western, Eastern, Texas",
        "none": "Western",
    }
    assert rows.separate.to_dict() == {name: name == "east-west" for name in SITINGS}
    assert rows.renewable_capacity["one"] == 0 and rows.renewable_capacity["east-west"] == pytest.approx(0.5 * 0.75)
    hydro, gas = (
        1.5 * catalog.item("fuels", "hydro")["capacity_factor"],
        0.5 * catalog.item("fuels", "gas")["capacity_factor"],
    )
    assert rows.renewable_energy["east-west"] == pytest.approx(0.5 * hydro / (hydro + gas))
    assert rows.fuel_diversity["east-west"] == pytest.approx(1 - gas / (hydro + gas))
    assert rows.fuel_diversity["one"] == 0 and rows.fuel_diversity["west"] == 1
    assert np.isnan(rows.renewable_diversity["east-west"])  # one has none
    assert rows.sun_hours["east-west"] == pytest.approx((121.1125 - 77.0369) / 15)
    assert rows.lost_place["four"] == pytest.approx(0.25) and rows.lost_place["one"] == 1
    assert (rows.lost_nearby.drop("none") == rows.lost_place.drop("none")).all()
    close = replace(PLACES, latitude=PLACES.latitude + [0, 0, 9, 0], longitude=PLACES.longitude + [0, 0, -6, 0])
    assert sitings.siting_traits(close, {"west": [1, 2]}, POWER, 4 * GW).lost_nearby[0] == 1
    assert rows.lost_interconnect["four"] == pytest.approx(0.5)
    assert rows.lost_authority["west"] == pytest.approx(0.5)
    assert np.isnan(rows.lost_place["none"])


def test_places_of_a_siting():
    rows = sitings.places_of_sitings(PLACES, {"ew": [0, 1]}, POWER, 5 * GW)
    assert list(rows.authority) == ["PJM", "BPAT"] and list(rows.interconnect) == ["Eastern", "Western"]
    assert list(rows.fed_w) == pytest.approx([3e9, 2e9]) and rows.renewable_capacity[1] == pytest.approx(0.75)


def test_coal_has_no_say_in_the_authority_of_a_place():
    burnt = PLACES.grid.plants.assign(fuel=["gas", "coal", "nuclear", "wind", "gas"])
    coal = replace(PLACES, grid=PLACES.grid.with_plants(burnt))
    assert list(sitings.places_of_sitings(coal, {"ew": [0, 1]}, POWER, 5 * GW).authority) == ["PJM", "NEVP"]


@given(st.lists(st.lists(st.floats(0.01, 1), min_size=4, max_size=4), min_size=2, max_size=5))
def test_diversity_is_none_of_equals_and_all_of_strangers(rows):
    mixes = np.array(rows)
    assert -1e-12 <= sitings.mix_diversity(mixes) < 1
    assert sitings.mix_diversity(np.tile(mixes[:1], (3, 1)) * [[1], [2], [5]]) == pytest.approx(0, abs=1e-12)
    assert sitings.mix_diversity(np.eye(4)) == 1 and sitings.mix_diversity(mixes[:1]) == 0
    bare = np.vstack([mixes[:2], np.zeros(4)])
    assert sitings.mix_diversity(bare) == sitings.mix_diversity(mixes[:2]) and np.isnan(sitings.mix_diversity(bare[1:]))
    a, b = mixes[:2] / mixes[:2].sum(axis=1, keepdims=True)  # the other way round: half of what differs
    assert sitings.mix_diversity(mixes[:2]) == pytest.approx(np.abs(a - b).sum() / 2)


def test_latency_falls_with_places():
    """One place: from every city to it, weighted by people; more places are never farther."""
    table = cities()
    far = [longest(*zip(WASHINGTON, there, strict=True)) for there in zip(table.latitude, table.longitude, strict=True)]
    delay = distances.fibre_delays_s(np.array(far))["middle"]
    one = sitings.user_latency(*np.array(WASHINGTON)[:, None])
    assert one["mean_delay_s"] == pytest.approx((delay * table.population).sum() / table.population.sum())
    assert one["farthest_delay_s"] == pytest.approx(delay.max())
    near = table.population[delay <= 10 * ms].sum() / table.population.sum()
    assert one["people_within_10_ms"] == pytest.approx(near)
    several = [sitings.user_latency(PLACES.latitude[:n], PLACES.longitude[:n]) for n in (1, 2, 3, 4)]
    assert (np.diff([latency["mean_delay_s"] for latency in several]) < 0).all()
    assert (np.diff([latency["people_within_10_ms"] for latency in several]) >= 0).all()


# The direct-current line


def test_the_intertie_of_the_embedded_grid():
    line = siting_claims.intertie(load_grid())
    assert line.power_w == pytest.approx(3100 * MW) and line.length_m == pytest.approx(1281 * km, rel=0.01)
    assert (line.from_state, line.to_state) == ("Oregon", "California") and line.off_m < 5 * km
    assert line.power_w == direct_lines.direct_lines(load_grid()).power_w.max()


def test_places_near_the_line():
    line = siting_claims.intertie(PLACES.grid)
    assert line.power_w == 1e9 and line.off_m == pytest.approx(0, abs=1) and line.from_name == "b"
    ends = direct_lines.distances_to_ends(line, PLACES.latitude, PLACES.longitude)
    assert ends[1, 0] == 0 and ends[2, 1] == 0 and ends.shape == (4, 2)
    rows = direct_lines.places_near_line(PLACES, line, 2 * GW, 10 * km).set_index(["rule", "end"])
    assert rows.loc[("installed", "b")].tolist() == ["Oregon", 1, 1, 2e9, 0]
    assert rows.loc[("idle firm", "b")].tolist()[:4] == ["Oregon", 1, 0, 1e9]
    assert rows.loc[("idle firm", "b"), "nearest_m"] == pytest.approx(longest(*zip(CELILO, AUSTIN, strict=True)))
    bare = replace(PLACES.grid, lines=PLACES.grid.lines.assign(type="AC"))
    with pytest.raises(ValueError, match="no line of type DC"):
        siting_claims.intertie(bare)


ANCHORS = (siting_claims.WASHINGTON, siting_claims.CELILO)


def test_the_pair_is_the_nearest_with_half():
    assert nearest_to_anchors(PLACES, POWER, 4 * GW, 100 * km, ANCHORS) == [0, 1]
    assert nearest_to_anchors(PLACES, POWER, 5 * GW, 2000 * km, ANCHORS) == [0, 2]
    assert nearest_to_anchors(PLACES, POWER, 2 * GW, 100 * km, ANCHORS[1:]) == [1]
    message = "each place needs 2.1 GW, and the best within 100 km of flops2024 west has 2 GW"
    with pytest.raises(ValueError, match=message):
        nearest_to_anchors(PLACES, POWER, 4.2 * GW, 100 * km, ANCHORS)
    with pytest.raises(ValueError, match="share a plant"):
        nearest_to_anchors(PLACES, POWER, 10 * GW, 5000 * km, ANCHORS)
