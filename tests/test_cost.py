"""What networks cost and draw: algebra of the totals, networks that one cluster can have, cost over years."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.network import cost, price_books
from railcore.network.bill import bill_total
from railcore.network.topology.clos import rail_parts
from railcore.network.topology.rails import domain_warnings, fat_tree, rail_only

PRICE = st.floats(0, 5000)
BOOKS = st.builds(price_books.PriceBook, PRICE, PRICE, PRICE)
FABRICS = st.builds(
    lambda n, k, half, layer: rail_parts(n, k, 2 * half, layer),
    st.integers(1, 5000),
    st.integers(1, 80),
    st.integers(3, 32),
    st.sampled_from([1, 2, math.inf]),
)
WATTS = price_books.PriceBook(1, 1)  # where only the cost counts
STREET = price_books.matching_books("street2025")
OWNED = {"gpus": 4096, "hb_domain_size": 16, "radix": 32, "years": 5, "electricity_price": 2e-8, "pue": 1.2}


@given(FABRICS, BOOKS, BOOKS, st.integers(0, 3))
def test_total_is_linear_in_prices(parts, a, b, copper):
    def total(book):
        return float(bill_total(parts.bill(copper), book))

    both = price_books.PriceBook(a.port + b.port, a.transceiver + b.transceiver, a.dac + b.dac)
    assert total(both) == pytest.approx(total(a) + total(b))
    assert total(price_books.PriceBook(1, 0, 0)) == parts.ports
    assert total(price_books.PriceBook(0, 1, 2)) == parts.link_ends  # a cable for two transceivers


def test_copper_takes_the_lowest_tiers():
    parts = rail_only(512, 8, 16).parts
    assert list(parts.links_by_tier) == [512, 512]
    totals = [float(bill_total(parts.bill(tiers), price_books.PriceBook(0, 1000, 1))) for tiers in (0, 1, 2, 5)]
    assert totals == [2_048_000, 1_024_512, 1024, 1024]


@given(st.integers(1, 3000), st.integers(1, 80), st.integers(2, 40).map(lambda half: 2 * half), BOOKS)
def test_compare_prices_both_networks(gpus, hb_domain_size, radix, book):
    row = cost.compare_rail_networks(
        gpus, hb_domain_size, radix, book, price_books.PriceBook(1, 0), share_switches=False
    ).iloc[0]
    for name, layer in (("rail_only", math.inf), ("rail_optimized", 1)):
        parts = rail_parts(gpus, hb_domain_size, radix, layer)
        counts = (parts.tiers, parts.switches, parts.ports, parts.links, parts.link_ends)
        found = [row[f"{what}_{name}"] for what in ("tiers", "switches", "ports", "links", "transceivers")]
        assert found == [int(count) for count in counts]
        assert row[f"cost_usd_{name}"] == pytest.approx(float(bill_total(parts.bill(), book)))
    if row.cost_usd_rail_optimized > 0:
        assert row.cost_saving == pytest.approx(1 - row.cost_usd_rail_only / row.cost_usd_rail_optimized)
        assert row.power_saving == pytest.approx(1 - row.ports_rail_only / row.ports_rail_optimized)


# Over years


def test_total_cost_of_ownership():
    price = 0.1 / 3.6e6  # 0.1 USD/kWh
    costs = cost.total_cost([1000.0, 0.0], [500.0, 0.0], years=2, electricity_price=price, pue=1.2, load=0.5)
    energy = 0.5 * 0.5 * 1.2 * 2 * 8760 * 0.1  # kW, load, PUE, hours, USD/kWh
    assert costs["energy_usd"] == pytest.approx([energy, 0])
    assert costs["total_usd"] == pytest.approx([1000 + energy, 0])
    assert cost.total_cost(7, 9, 0, price, 1)["total_usd"] == 7


def test_ownership_adds_up():
    prices, powers = price_books.PriceBook(500, 200, 100), price_books.PriceBook(20, 10, 0.1)
    rows = cost.ownership_costs(**OWNED, prices=prices, powers=powers)
    assert list(rows.total_usd) == pytest.approx(list(rows.purchase_usd + rows.energy_usd))
    assert list(rows.energy_usd) == pytest.approx(list(rows.power_w * 1.2 * 5 * 365 * 86400 * 2e-8))
    optics = rows[rows.host_links == "optics"].set_index("network")
    copper = rows[rows.host_links == "copper"].set_index("network")
    saved = optics.purchase_usd - copper.purchase_usd
    assert list(saved) == pytest.approx([4096 * (2 * 200 - 100)] * 2)  # a host link for each GPU
    cluster = cost.cluster_networks(4096, 16, 32, 4, prices, powers).set_index("network").cost_usd
    assert all(optics.purchase_usd[name] == cluster[name] for name in ("rail-only", "rail-optimized"))


# Networks of one cluster


def test_what_8192_gpus_on_nvl72_can_have():
    """Rail-only saves three quarters of rail-optimized, and little more than half of a Clos with as much bandwidth."""
    prices, powers = price_books.PriceBook(600, 400), STREET[1]
    table = cost.cluster_networks(8192, 72, 128, 4.0, prices, powers)
    rows = table.set_index("network")
    assert (rows.tiers["rail-optimized"], rows.tiers["Clos"], rows.tiers["rail-only"]) == (3, 2, 1)
    assert rows.cost_usd["Clos"] == 192 * 128 * 600 + 4 * 8192 * 400  # 128 leaves and 64 spines
    assert rows.cost_usd["rail-only"] == 72 * 128 * 600 + 2 * 8192 * 400
    assert rows.cost_saved["rail-only"] == pytest.approx(0.77, abs=0.005)
    assert rows.cost_saved["Clos"] == pytest.approx(0.47, abs=0.005)
    assert rows.cost_saved_over_any_to_any["rail-only"] == pytest.approx(0.566, abs=0.001)
    assert rows.cheapest[rows.cheapest != ""].to_dict() == {"Clos": "any-to-any", "rail-only": "of all"}
    assert rows.across_rails[rows.share_across_rails == 0].to_dict() == {"rail-only": "through the HB domain"}
    assert rows.price_book.unique() == ["given"] and rows.power_book.unique() == ["street2025 (400 Gbps)"]
    assert table.attrs["warnings"] == domain_warnings(8192, 72)


@given(st.integers(1, 4000), st.integers(1, 80), st.integers(3, 32), st.sampled_from([1, 2, 4.5, math.inf]), BOOKS)
def test_the_cheapest_is_the_cheapest(gpus, hb_domain_size, half, oversubscription, book):
    rows = cost.cluster_networks(gpus, hb_domain_size, 2 * half, oversubscription, book, book)
    assert len(rows) == (3 if oversubscription in (1, math.inf) else 5)
    full = rows[rows.cost_usd.notna() & ~(rows.share_same_rail < 1) & ~(rows.share_across_rails < 1)]
    assert {"rail-optimized", "Clos"} <= set(full.network)
    for name, among in (("of all", rows), ("any-to-any", full)):  # each that costs the least
        least = np.isclose(among.cost_usd, among.cost_usd.min())
        assert rows.network[rows.cheapest.str.contains(name)].tolist() == among.network[least].tolist()
    # NaN: over nothing, or no such network
    assert (rows.cost_saved_over_any_to_any.fillna(-math.inf) <= rows.cost_saved.fillna(0) + 1e-9).all()


def test_parts_of_each_network():
    totals = cost.cluster_breakdown(1024, 16, 16, 3, STREET[0], WATTS).groupby("network").cost_usd.sum()
    expected = {"rail-optimized": 1, "rails + layer 3:1": 3, "rail-only": math.inf}
    parts = {name: rail_parts(1024, 16, 16, layer) for name, layer in expected.items()}
    parts["Clos"] = fat_tree(1024, 16).parts
    parts["Clos, leaves 3:1"] = fat_tree(1024, 16, tier_oversubscription=(3,)).parts
    bills = {name: float(bill_total(each.bill(), STREET[0])) for name, each in parts.items()}
    assert totals.to_dict() == pytest.approx(bills)
    costs = cost.cluster_networks(1024, 16, 16, 3, STREET[0], WATTS).set_index("network").cost_usd
    assert costs.to_dict() == pytest.approx(bills)


def test_rows_that_do_not_fill_hb_domains_are_counted():
    rows = cost.compare_rail_networks([4096, 7200, 16384], 72, 64, WATTS, WATTS)
    text = f"2 rows have GPUs that do not fill HB domains. The first: {domain_warnings(4096, 72)[0]}"
    assert rows.attrs["warnings"] == (text,)
    assert cost.compare_rail_networks([7200], 72, 64, WATTS, WATTS).attrs["warnings"] == ()
    owned = cost.ownership_costs(**OWNED | {"hb_domain_size": 72}, prices=STREET[0], powers=STREET[1])
    assert owned.attrs["warnings"] == domain_warnings(4096, 72)


def test_a_cluster_of_one_hb_domain_needs_no_network():
    rows = cost.cluster_networks(8, 8, 4, 4.0, WATTS, WATTS).set_index("network")
    assert rows.share_same_rail.isna().all() and rows.cost_usd["rail-only"] == 0
    assert rows.across_rails["rail-only"] == "through the HB domain"
    assert rows.attrs["warnings"][0].startswith("One HB domain holds all GPUs")
    assert rows.cost_saved_over_any_to_any.dropna().to_dict() == {"rail-only": 0.0}  # all others are over nothing
    assert not cost.cluster_networks(16, 8, 4, 4.0, WATTS, WATTS).attrs["warnings"]


@pytest.mark.parametrize(
    ("gpus", "missing", "why"),
    [
        (16384, {"rails + layer 4:1"}, "13,056 GPUs (3 tiers), 65,544 GPUs (4 tiers)"),  # 51 x 32 GPUs
        (64, {"rails + layer 4:1", "Clos, leaves 4:1"}, "one switch joins all GPUs"),
        (72, set(), ""),
    ],
)
def test_an_oversubscription_that_takes_nothing_away_is_no_design(gpus, missing, why):
    table = cost.cluster_networks(gpus, 8, 64, 4.0, *STREET)
    rows = table.set_index("network")
    assert set(rows.index[rows.cost_usd.isna()]) == missing
    texts = ["cheapest", "across_rails", "note", "includes", "price_book", "power_book"]
    for name, said in zip(sorted(missing, reverse=True), table.attrs["warnings"], strict=False):
        assert rows.loc[name].drop(texts).isna().all() and rows.cheapest[name] == ""
        assert rows.note[name] == "no such design: the same as 1:1"
        assert said.startswith(f"{name}: A network oversubscribed 4:1 is the same as 1:1 here") and why in said
    assert not missing & set(cost.cluster_breakdown(gpus, 8, 64, 4.0, *STREET).network)


def test_rail_only_that_leaves_no_tier_out_says_so():
    """Each rail of 8,481 just exceeds two tiers of 128 ports (8,192), and needs three, as all GPUs do."""
    table = cost.cluster_networks(67840, 8, 128, 1.0, *STREET)
    (said,) = table.attrs["warnings"]
    assert "needs 3 tiers, as many as all GPUs together" in said and "Up to 65,536 GPUs a rail needs 2 tiers." in said
    assert table.note.tolist() == ["", "", "no less than rail-optimized"]
    one = cost.compare_rail_networks([65536, 67840], 8, 128, *STREET).attrs["warnings"]
    assert one == (said,)
    (two,) = cost.compare_rail_networks([67840, 65536, 67848], 8, 128, *STREET).attrs["warnings"]
    assert two == f"In 2 rows rail-only takes no less than rail-optimized. The first: {one[0]}"
    (alone,) = cost.compare_rail_networks([72], 8, 64, *STREET, share_switches=False).attrs["warnings"]
    assert "8 switches" in alone and "Let rails share switches" in alone
    assert cost.compare_rail_networks([72], 8, 64, *STREET).attrs["warnings"] == ()
