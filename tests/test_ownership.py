"""What a second of training costs on a machine that is bought: items, their limits and sums; published rents."""

from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import catalog
from railcore.catalog.units import MW, hour, year
from railcore.datacenter.operation import OperatingPrices, operating_prices
from railcore.datacenter.ownership import (
    ADDED,
    ITEMS,
    OwnershipTerms,
    cost_rates,
    item_keys,
    ownership_terms,
    term_keys,
)
from railcore.datacenter.sizing import datacenter_size
from railcore.planner.costs import rents_table, rents_text
from railcore.planner.price_basis import BASES, basis_factor, basis_keys, basis_text, price_basis

MACHINE = SimpleNamespace(racks_usd=600e6, network_usd=50e6, it_w=25 * MW, total_w=30 * MW, total_usd=650e6)
PRICES = OperatingPrices(0.08 / 3.6e6, 5 * year, 0.8)


def a_year(terms, machine=MACHINE, prices=PRICES):
    """Cost of a year of training by item [M USD]."""
    return {item: rate * year / 1e6 for item, rate in cost_rates(machine, prices, terms).items()}


def test_terms_by_default_add_nothing_to_wear_and_electricity():
    assert tuple(ADDED) == ("building", "interest", "spares", "maintenance", "staff", "idle time")
    assert ownership_terms(ADDED) == OwnershipTerms() and not term_keys(ADDED)
    rates = a_year(OwnershipTerms())
    assert tuple(rates) == ITEMS and not any(rates[item] for item in ADDED)
    energy, wear = (rate * year / 1e6 for rate in PRICES.per_second(MACHINE))
    assert rates["electricity"] == pytest.approx(energy) == pytest.approx(30e3 * 0.8 * 8760 * 0.08 / 1e6)
    assert rates["servers"] + rates["network"] == pytest.approx(wear) == pytest.approx(130)


def test_items_are_what_one_works_out_by_hand():
    terms = OwnershipTerms(12.0, 20 * year, 0.08 / year, 0.03, 0.02 / year, 0.1 / year, 0.8)
    rates = a_year(terms)
    assert rates["building"] == pytest.approx(25 * 12 / 20)
    # payments of a loan of 1 over 5 and 20 years at 8%, paid all the time, are 0.2427 and 0.1002 a year
    assert rates["interest"] == pytest.approx(650 * (0.24266 - 0.2) + 300 * (0.10024 - 0.05), rel=1e-3)
    assert rates["spares"] == pytest.approx(0.03 * 600 * 0.24266, rel=1e-4)
    assert rates["maintenance"] == pytest.approx(0.02 * (650 + 300))
    assert rates["staff"] == pytest.approx(25 * 0.1)
    fixed = sum(rates[item] for item in ITEMS if item not in ("electricity", "idle time"))
    assert rates["idle time"] == pytest.approx(fixed / 4)


@given(st.floats(1e-6, 0.5), st.floats(1, 30))
def test_interest_pays_a_loan_back(rate, years):
    """Payments at a steady rate, discounted, are worth the purchase; small interest is half the rate on average."""
    prices = replace(PRICES, useful_life=years * year)
    rates = a_year(OwnershipTerms(interest=rate / year), prices=prices)
    payment = rates["servers"] + rates["network"] + rates["interest"]
    assert payment * -np.expm1(-rate * years) / rate == pytest.approx(650)
    assert 650 * rate / 2 <= rates["interest"] * (1 + 1e-6) and rates["interest"] < 650 * rate
    if rate * years < 1e-3:
        assert rates["interest"] == pytest.approx(650 * rate / 2, rel=1e-3)


@given(st.lists(st.sampled_from(ADDED), unique=True))
def test_what_is_left_out_is_gone_and_nothing_grows(items):
    whole, without = a_year(ownership_terms()), a_year(ownership_terms(items))
    assert all(without[item] == 0 for item in items)
    assert all(without[item] <= whole[item] * (1 + 1e-12) for item in ITEMS)
    assert {item for item in ITEMS if without[item]} == set(ITEMS) - set(items)


def test_costs_scale_with_the_machine_and_take_arrays():
    twice = SimpleNamespace(**{name: 2 * value for name, value in vars(MACHINE).items()})
    one, two = (a_year(ownership_terms(), machine) for machine in (MACHINE, twice))
    assert two == pytest.approx({item: 2 * rate for item, rate in one.items()})
    keys = term_keys()
    drawn = {key: np.linspace(0.9, 1.1, 5) * catalog.item(*key[:2])[key[2]] for key in keys.values()}
    rates = a_year(ownership_terms((), drawn))
    assert all(np.shape(rates[item]) == (5,) for item in ADDED)
    assert {item: np.broadcast_to(rate, 5)[2] for item, rate in rates.items()} == pytest.approx(one)


def test_every_term_is_a_row_of_the_catalog_with_range_and_source():
    assert set(term_keys()) == {field.name for field in fields(OwnershipTerms)}
    assert [key for item in ADDED for key in item_keys(item)] == list(term_keys().values())
    rows = [catalog.item(*key[:2]).row(key[2]) for key in term_keys().values()]
    assert {row.family for row in rows} == {"ownership"} and all(row.shape and row.source for row in rows)
    assert len(rows) == sum(len(catalog.item("ownership", name)) for name in catalog.names("ownership"))


def test_a_megawatt_year_of_gb200_costs_what_a_published_model_says():
    """Epoch AI, 2026-05-14: 8.5 million USD a year for a MW of IT with GB200 NVL72 and 5 years for IT; energy 0.6.

    Its site is always in use and draws power nearly at full load; it counts storage and other networks too.
    """
    machine = datacenter_size(racks=7000, platform="GB200 NVL72", compute_share=1.0, network_share=0.0)
    rates = cost_rates(machine, operating_prices(), ownership_terms(["idle time"]))
    of_MW = {item: float(rate) * year / (float(machine.it_w) / MW) / 1e6 for item, rate in rates.items()}
    assert sum(of_MW.values()) == pytest.approx(8.5, rel=0.15)
    assert of_MW["electricity"] == pytest.approx(0.6, rel=0.2)


# Prices of platforms on one basis


def value(key):
    return catalog.item(*key[:2])[key[2]]


def test_each_platform_with_a_price_says_whose_it_is():
    for name in catalog.names("platforms"):
        rack = catalog.item("platforms", name)
        assert ("price" in rack) == ("price_basis" in rack)
        if "price" in rack:
            assert price_basis(rack) in BASES and not basis_keys(rack, price_basis(rack))
            assert basis_factor(rack, price_basis(rack), value) == 1.0


def test_a_price_goes_from_one_basis_to_another_and_back():
    """By way of the price in volume: the share of its own basis over that of the wanted one."""
    share = {"volume": 1.0} | {name: catalog.item("price_bases", name)["volume_share"] for name in ("reseller", "list")}
    for name in ("GB200 NVL72", "DGX H100", "DGX A100"):
        rack = catalog.item("platforms", name)
        for wanted in BASES:
            assert basis_factor(rack, wanted, value) == pytest.approx(share[price_basis(rack)] / share[wanted])
            assert len(basis_keys(rack, wanted)) == len({price_basis(rack), wanted} - {"volume"}) * (
                price_basis(rack) != wanted
            )
    assert set(catalog.names("price_bases")) == set(BASES) - {"volume"}


def test_a_price_of_ones_own_catalog_is_taken_as_it_is(monkeypatch, tmp_path):
    (tmp_path / "platforms.csv").write_text(
        ",".join(catalog.COLUMNS) + "\nDGX H100,price,250000,,,USD,datasheet,my contract,2026,,\n"
    )
    monkeypatch.setenv("RAILCORE_CATALOG", str(tmp_path))
    rack = catalog.item("platforms", "DGX H100")
    assert not basis_keys(rack, "volume") and basis_factor(rack, "volume", value) == 1.0
    assert basis_text(rack, "volume") == "DGX H100: price as the catalog has it, 250 k USD."


# Published rents


def test_published_rents_name_gpus_and_cost_more_than_owning():
    rents = rents_table()
    assert set(rents["gpu"]) <= set(catalog.names("gpus")) and rents["source"].all() and rents["as_of"].all()
    assert {"A100", "H100", "H200", "B200", "GB200", "MI300X"} <= set(rents["gpu"])
    inside = rents.dropna()
    assert (inside["low_usd"] <= inside["usd_per_gpu_hour"]).all()
    assert (inside["usd_per_gpu_hour"] <= inside["high_usd"]).all()
    assert rents_text("H100").startswith(
        "published rents of H100: 2.58 to 6.16 USD on demand, from 2.46 USD reserved (20"
    )
    assert rents_text("H800") == "no published rent of H800 is known here"
    rack = catalog.item("platforms", "DGX H100")
    changes = {
        "rack_usd": rack["price"] * basis_factor(rack, "volume", value),
        "compute_share": 1.0,
        "network_share": 0.0,
    }
    machine = datacenter_size(gpus=16384, platform="DGX H100", **changes)
    owned = float(sum(cost_rates(machine, operating_prices(), ownership_terms()).values())) * hour / 16384
    rented = rents[rents["gpu"] == "H100"].set_index("terms")["usd_per_gpu_hour"]
    assert 0.5 * rented["reserved"] < owned < rented["reserved"] < rented["on demand"]
