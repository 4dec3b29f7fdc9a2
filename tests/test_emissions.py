"""Carbon of power: one fuel gives its own intensity, mixtures lie between, and loops over plants agree."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from railcore import catalog
from railcore.catalog import units
from railcore.siting.grid import PowerGrid, load_grid
from railcore.siting.points import points_around
from suite.flops2024.nodes import power_nodes
from suite.flops2024.sitings import carbon_and_cost, electricity_prices, even_shares, marginal_intensity


@pytest.fixture(scope="module")
def embedded() -> PowerGrid:
    return load_grid()


def group_of(mask: np.ndarray) -> csr_array:
    return csr_array(np.atleast_2d(mask).astype(float))


def test_a_loop_over_the_plants_of_nodes(embedded):
    found = power_nodes(embedded, 100e3)
    marginal = marginal_intensity(embedded, found.plants)
    assert marginal.shape == (len(found),)
    fuels = {name: catalog.item("fuels", name) for name in catalog.names("fuels")}
    for node in (0, 1, 10, len(found) // 2):
        idle = idle_kg = 0.0
        for plant in embedded.plants[found.of_plant == node].itertuples():
            fuel = fuels[plant.fuel]
            if plant.fuel != "coal" and fuel["firm"] and fuel["fuelled"]:
                idle += plant.power_w * (1 - fuel["capacity_factor"])
                idle_kg += plant.power_w * (1 - fuel["capacity_factor"]) * fuel["carbon_intensity"]
        assert marginal[node] == pytest.approx(idle_kg / idle if idle else np.nan, nan_ok=True)
        assert idle == pytest.approx(found.supply.idle_fuelled_w[node])


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_union_of_two_groups_lies_between(embedded, seed):
    pick = np.random.default_rng(seed).integers(0, 40, len(embedded.plants))
    groups = group_of(np.stack([pick == 0, pick == 1, pick <= 1]))
    one, other, both = marginal_intensity(embedded, groups)
    assert min(one, other) <= both <= max(one, other)


def test_country_in_a_year_is_near_what_eia_counts(embedded):
    """EIA: 1,532 million t over 4,183 TWh in 2023; the embedded grid has half as much coal again."""
    sold_w = embedded.power_w * embedded.fuel("capacity_factor")
    mean = units.convert(sold_w @ embedded.fuel("carbon_intensity") / sold_w.sum(), "kg/kWh")
    assert 1532 / 4183 < mean < 1.3 * 1532 / 4183


def test_running_is_what_each_place_feeds_at_its_own_carbon_and_price(embedded):
    places = points_around(embedded, 50e3, 1.0)
    power = places.supply.idle_fuelled_w
    at = [
        int(np.flatnonzero(places.state == state)[power[places.state == state].argmax()]) for state in ("Ohio", "Texas")
    ]
    demand = 0.9 * power[at].sum()
    fed = even_shares(power[at], demand)
    assert fed[0] != pytest.approx(fed[1])
    row = carbon_and_cost(places, {"two": at}, power, demand).iloc[0]
    joules = demand * units.year
    carbon = fed @ marginal_intensity(embedded, places.plants)[at]
    price = fed @ [electricity_prices()[state] for state in ("Ohio", "Texas")]
    assert row["carbon_kg"] == pytest.approx(joules * carbon) and row["cost_usd"] == pytest.approx(joules * price)
    assert row["kg_per_kWh"] * joules == pytest.approx(row["carbon_kg"] * units.kWh)
    assert row["usd_per_kWh"] * joules == pytest.approx(row["cost_usd"] * units.kWh)
    assert carbon_and_cost(places, {"two": at}, power, 2 * power[at].sum()).drop(columns="siting").isna().all(axis=None)


def test_a_kilowatt_hour_costs_cents():
    prices = electricity_prices()
    known = [price for price in prices.values() if not math.isnan(price)]
    assert len(known) >= 47 and all(0.04 < price * units.kWh < 0.4 for price in known)  # USD
    assert prices["California"] > 2 * prices["Washington"]
