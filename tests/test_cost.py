import json
import math
import os
import re
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.documents import rail_networks
from railcore.documents.rail_networks import least_saving_radix, table_cases
from railcore.documents.railonly2023 import table2
from railcore.documents.railonly2025 import table1
from railcore.facts import catalog, claims, files
from railcore.network import cost, price_books
from railcore.network.bill import bill_total
from railcore.network.topology import (
    Parts,
    domain_warnings,
    fat_tree,
    ideal_clos_parts,
    rail_only,
    rail_optimized,
    rail_parts,
)

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
TABLES = {"railonly2025": "railonly2025.table1", "railonly2023": "railonly2023.table2"}


def table(book, share_switches=True):
    cases = pd.DataFrame(claims.cases(TABLES[book]))
    prices = price_books.price_book(book)
    powers = price_books.power_book(book) if book == "railonly2025" else WATTS
    return cost.compare_rail_networks(cases.n, 256, cases.r, prices, powers, share_switches)


@given(FABRICS, BOOKS, BOOKS, st.integers(0, 4))
def test_breakdown_adds_up_to_the_total(parts, prices, powers, copper):
    rows = cost.parts_breakdown(parts, prices, powers, copper)
    assert rows.cost_usd.sum() == pytest.approx(float(bill_total(parts.bill(copper), prices)))
    assert rows.power_w.sum() == pytest.approx(float(bill_total(parts.bill(copper), powers)))
    units = rows.groupby("part")["units"].sum()
    assert units.get("switch", 0) == parts.ports
    assert units.get("transceiver", 0) + 2 * units.get("copper cable", 0) == parts.link_ends
    assert set(rows.tier[rows.part == "copper cable"]) <= set(range(1, copper + 1))


@given(FABRICS, BOOKS, BOOKS, st.floats(0, 10), st.integers(0, 3))
def test_total_is_linear_in_prices(parts, a, b, factor, copper):
    def total(book):
        return float(bill_total(parts.bill(copper), book))

    both = price_books.PriceBook(a.port + b.port, a.transceiver + b.transceiver, a.dac + b.dac)
    assert total(both) == pytest.approx(total(a) + total(b))
    assert total(a.scaled(factor)) == pytest.approx(factor * total(a))
    assert total(price_books.PriceBook(1, 0, 0)) == parts.ports
    assert total(price_books.PriceBook(0, 1, 2)) == parts.link_ends  # a cable for two transceivers


def test_copper_takes_the_lowest_tiers():
    parts = rail_only(512, 8, 16).parts
    assert list(parts.links_by_tier) == [512, 512]
    totals = [float(bill_total(parts.bill(tiers), price_books.PriceBook(0, 1000, 1))) for tiers in (0, 1, 2, 5)]
    assert totals == [2_048_000, 1_024_512, 1024, 1024]


@given(st.integers(1, 60), st.sampled_from([8, 16, 64]), st.integers(1, 4), BOOKS)
def test_more_gpus_and_thicker_layers_cost_no_less(domains, radix, layer, book):
    totals = bill_total(rail_parts([8 * domains, 16 * domains], 8, radix, layer).bill(), book)
    assert totals[0] <= totals[1] * (1 + 1e-9)


@pytest.mark.parametrize("book", TABLES)
def test_savings_of_the_tables(book):
    ours = claims.table_values(TABLES[book], table(book))
    savings = {claim_id: value for claim_id, value in ours.items() if claim_id.endswith("_saving")}
    assert len(savings) == {"railonly2025": 12, "railonly2023": 7}[book]
    for claim_id, value in savings.items():
        digits = math.floor(100 * value) if book == "railonly2023" else round(100 * value)  # 2023 truncates
        assert digits == round(100 * claims.paper_value(claim_id))


def test_saving_by_hand():
    # 3 tiers against 2 at radix 64, transceiver t and port p: 1 - (3 p + 4 t) / (5 p + 6 t)
    book = price_books.price_book("railonly2023")
    row = table("railonly2023").query("gpus == 65536 and radix == 64").iloc[0]
    by_hand = 1 - (3 * book.port + 4 * book.transceiver) / (5 * book.port + 6 * book.transceiver)
    assert row.cost_saving == pytest.approx(by_hand)
    assert row.switch_ratio == 3 / 5


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


def test_saving_of_nothing():
    assert list(cost.share_saved([0, 0, 1, 2], [0, 4, 4, 1])) == [0, 1, 0.75, -1]


def test_shared_switches_change_one_case():
    cases = table("railonly2023"), table("railonly2023", share_switches=False)
    differ = cases[0][cases[0].switches_rail_only != cases[1].switches_rail_only]
    assert differ[["gpus", "radix"]].values.tolist() == [[32768, 256]]


def test_what_the_texts_say_of_the_tables():
    text = table1.printed_text_values(table("railonly2025"))
    assert text["r64_tiers_rail_optimized"] == claims.paper_value("railonly2025.text.r64_tiers_rail_optimized")
    assert text["r64_tiers_rail_only"] == claims.paper_value("railonly2025.text.r64_tiers_rail_only")
    assert text["worst_radix"] == claims.paper_value("railonly2025.text.worst_radix")
    assert text["fault_parts_ratio"] <= claims.paper_value("railonly2025.text.fault_parts_ratio")
    assert text["r64_switch_ratio"] == pytest.approx(0.6)  # printed 0.75, against the table beside it
    rows = table("railonly2025")
    saved = rows.cost_usd_rail_optimized - rows.cost_usd_rail_only
    assert saved.max() / saved.min() == pytest.approx(4)  # whatever the prices
    assert text["cost_saving_max"] / text["cost_saving_min"] == pytest.approx(2)


def test_parts_that_can_fail_by_hand():
    """Radix 64, three tiers against two: 5 N / 64 switches and 3 N links, and 3 N / 64 switches and 2 N links."""
    book = price_books.price_book("railonly2025")
    row = cost.compare_rail_networks(65536, 256, 64, book, WATTS)
    assert table1.printed_text_values(row)["fault_parts_ratio"] == pytest.approx((3 / 64 + 2) / (5 / 64 + 3))


def test_the_ends_of_the_savings_are_those_of_all_rows():
    rows = table("railonly2025")
    text = table1.printed_text_values(rows)
    for what, unit, of in (("cost", "usd", rows[rows.gpus == 65536]), ("power", "w", rows)):  # as the text has them
        saved = [row[f"{what}_{unit}_rail_optimized"] - row[f"{what}_{unit}_rail_only"] for _, row in of.iterrows()]
        assert (text[f"{what}_saving_min"], text[f"{what}_saving_max"]) == (min(saved), max(saved))
    assert text["intro_cost_saving_max"] == max(1 - rows.cost_usd_rail_only / rows.cost_usd_rail_optimized)


@pytest.mark.parametrize(("gpus", "hb_domain_size", "radix"), [(65536, 256, 64), (32768, 256, 256)])
def test_a_cluster_of_the_tables_saves_what_they_save(gpus, hb_domain_size, radix):
    """At 32,768 GPUs and radix 256 two rails share a switch: in the tables, in one cluster and over the years alike."""
    book = price_books.price_book("railonly2023")
    row = cost.compare_rail_networks(gpus, hb_domain_size, radix, book, WATTS).iloc[0]
    rows = cost.cluster_networks(gpus, hb_domain_size, radix, 4, book, WATTS).set_index("network")
    assert list(rows.index) == ["rail-optimized", "Clos", "rails + layer 4:1", "Clos, leaves 4:1", "rail-only"]
    assert rows.cost_saved["rail-optimized"] == 0 < rows.cost_saved["rails + layer 4:1"] < row.cost_saving
    assert rows.cost_saved["rail-only"] == pytest.approx(row.cost_saving)
    inputs = {"port_price": book.port, "transceiver_price": book.transceiver, "port_power": 1.0}
    inputs |= {"transceiver_power": 1.0, "pue": 1.2, "electricity_price": 0.0}
    saved = cost.ownership_saving(gpus, hb_domain_size, radix, 5, inputs)
    assert saved == pytest.approx(row.cost_saving)


def test_least_saving_radix():
    rows = pd.DataFrame({"gpus": [1, 1, 2, 2], "radix": [64, 128, 64, 128], "cost_saving": [0.3, 0.2, 0.4, 0.4]})
    assert least_saving_radix(rows) == 128
    assert least_saving_radix(rows.assign(cost_saving=[0.2, 0.3, 0.4, 0.4])) == 64
    assert least_saving_radix(rows.assign(cost_saving=[0.2, 0.3, 0.4, 0.3])) == 0


COUNT = st.integers(1, 10_000)


@given(
    st.lists(st.tuples(COUNT, COUNT, st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=5),
    st.floats(0.01, 0.9),
    st.floats(0.001, 0.2),
    st.lists(st.floats(-4, 4).map(lambda e: 10**e), min_size=1, max_size=10),
)
def test_ratio_bounds_hold_just_the_ratios_that_fit(rows, low, width, ratios):
    high = low + width
    p, t, less_p, less_t = (np.array(column, float) for column in zip(*rows, strict=True))
    counts = {
        "gpus": 1,
        "radix": 4,
        "ports_rail_optimized": p,
        "transceivers_rail_optimized": t,
        "ports_rail_only": p * less_p,
        "transceivers_rail_only": t * less_t,
    }
    bounds = cost.ratio_bounds(pd.DataFrame(counts), low, high)
    for i, (least, most) in enumerate(zip(bounds.least, bounds.most, strict=True)):

        def saved(r, i=i):
            return 1 - (p[i] * less_p[i] + r * t[i] * less_t[i]) / (p[i] + r * t[i])

        if abs(less_p[i] - less_t[i]) < 1e-3:
            continue
        for end in (least, most):
            if 1e-6 < end < 1e6 and least <= most:
                assert min(abs(saved(end) - low), abs(saved(end) - high)) < 1e-6
        for r in ratios:
            fits = low <= saved(r) <= high
            clear = min(abs(saved(r) - low), abs(saved(r) - high)) > 1e-9
            assert not clear or fits == (least <= r <= most)


@pytest.mark.parametrize("kept", [(0.75, 0.5), (0.5, 0.75)])  # of the ports, of the transceivers
def test_saving_that_no_ratio_gives(kept):
    counts = {"ports_rail_optimized": 8.0, "transceivers_rail_optimized": 8.0}
    counts |= {"ports_rail_only": 8 * kept[0], "transceivers_rail_only": 8 * kept[1]}
    rows = pd.DataFrame({"gpus": [1] * 3, "radix": 4, **counts})
    bounds = cost.ratio_bounds(rows, [0.1, 0.3, 0.6], [0.2, 0.4, 0.7])
    assert list(bounds.least > bounds.most) == [True, False, True]


@pytest.mark.parametrize(("what", "book"), [("cost", price_books.price_book), ("power", price_books.power_book)])
def test_one_ratio_serves_all_printed_savings_of_2025(what, book):
    rows = table("railonly2025")
    printed = np.array(
        [claims.paper_value(f"railonly2025.table1.n{row.gpus}.r{row.radix}.{what}_saving") for row in rows.itertuples()]
    )
    bounds = cost.ratio_bounds(rows, printed - 0.005, printed + 0.005)
    least, most = bounds.least.max(), bounds.most.min()
    assert least < book("railonly2025").transceiver / book("railonly2025").port < most


def test_prices_of_2023_do_not_give_the_savings_of_2025():
    cases, book = table("railonly2025"), price_books.price_book("railonly2023")
    ours = cost.compare_rail_networks(cases.gpus, 256, cases.radix, book, WATTS).cost_saving
    ids = [f"railonly2025.table1.n{row.gpus}.r{row.radix}.cost_saving" for row in cases.itertuples()]
    assert max(abs(saved - claims.paper_value(name)) for saved, name in zip(ours, ids, strict=True)) > 0.01


def test_total_cost_of_ownership():
    price = 0.1 / 3.6e6  # 0.1 USD/kWh
    costs = cost.total_cost([1000.0, 0.0], [500.0, 0.0], years=2, electricity_price=price, pue=1.2, load=0.5)
    energy = 0.5 * 0.5 * 1.2 * 2 * 8760 * 0.1  # kW, load, PUE, hours, USD/kWh
    assert costs["energy_usd"] == pytest.approx([energy, 0])
    assert costs["total_usd"] == pytest.approx([1000 + energy, 0])
    assert cost.total_cost(7, 9, 0, price, 1)["total_usd"] == 7


def test_a_kilowatt_for_a_year_and_energy_is_linear():
    assert cost.energy(1e3, 1) == pytest.approx(8760 * 3.6e6)
    assert cost.energy([1e3, 0], 2, load=0.5) == pytest.approx([8760 * 3.6e6, 0])
    assert cost.energy(3e3, 2, 1.2, 0.4) == pytest.approx(3 * 2 * 1.2 * 0.4 * cost.energy(1e3, 1))
    for power, remedy in ((-1.0, "0 or more"), (math.nan, "a finite number of at least 0")):
        with pytest.raises(ValueError, match=f"power_w is {power}: give {remedy}"):
            cost.energy(power, 1)
    with pytest.raises(ValueError, match=r"power_w is \[5\.0, -1\.0\]: give 0 or more"):
        cost.energy([5.0, -1.0], 1)  # one bad element is enough


@pytest.mark.parametrize(
    ("name", "value"),
    [("years", -1), ("electricity_price", -1e-9), ("pue", 0.99), ("load", 1.1), ("load", -0.1), ("years", math.nan)],
)
def test_bad_cost_input_is_named(name, value):
    good = {"years": 5, "electricity_price": 2e-8, "pue": 1.2, "load": 1}
    with pytest.raises(ValueError, match=f"{name} is {value}: give (0 or more|1 or more|a share from 0 to 1|a finite)"):
        cost.total_cost(1, 1, **{**good, name: value})


@pytest.mark.parametrize("value", [-1, math.nan, math.inf])
@pytest.mark.parametrize("name", ["port", "transceiver", "dac"])
def test_bad_price_is_named(name, value):
    remedy = "0 or more" if value == -1 else "a finite number of at least 0"
    with pytest.raises(ValueError, match=f"{name} is {value}: give {remedy}"):
        price_books.PriceBook(**{"port": 1, "transceiver": 1, name: value})


def test_books_of_the_documents():
    assert (price_books.price_book("railonly2023").port, price_books.price_book("railonly2023").transceiver) == (
        748,
        374,
    )
    rows = price_books.book_rows("street2025")
    assert list(rows) == [
        "port_price",
        "transceiver_price",
        "port_power",
        "transceiver_power",
        "electricity_price",
        "pue",
    ]
    assert rows["port_price"].value == price_books.price_book("street2025").port
    assert rows["transceiver_power"].value == price_books.power_book("street2025").transceiver


def test_everything_doubled_costs_twice():
    parts, book = rail_only(65536, 256, 64).parts, price_books.price_book("railonly2023")
    twice = cost.doubled_parts(parts)
    assert (twice.tiers, twice.switches, twice.links) == (parts.tiers, 2 * parts.switches, 2 * parts.links)
    assert bill_total(twice.bill(), book) == pytest.approx(2 * bill_total(parts.bill(), book))


@pytest.mark.parametrize("fabric", [rail_only(64, 4, 16), rail_only(256, 4, 16), rail_only(256, 4, 8, planes=2)])
@pytest.mark.parametrize("spares", [0, 1, 3])
def test_spare_switches(fabric, spares):
    parts, more = fabric.parts, spares * 4 * fabric.planes
    dark, lit = (cost.parts_with_spares(fabric, spares, optics) for optics in (False, True))
    leaf_hosts = {1: 16, 2: 8}[fabric.tiers]
    for with_spares in (dark, lit):
        assert with_spares.switches_by_tier[0] == parts.switches_by_tier[0] + more
        assert list(with_spares.switches_by_tier[1:]) == list(parts.switches_by_tier[1:])
    assert list(dark.links_by_tier) == list(parts.links_by_tier)
    extra = [leaf_hosts] if fabric.tiers == 1 else [leaf_hosts, leaf_hosts]
    assert list(lit.links_by_tier - parts.links_by_tier) == [more * hosts for hosts in extra]
    one = cost.parts_with_spares(fabric, 1, True)
    assert list(cost.parts_with_spares(fabric).links_by_tier) == list(
        one.links_by_tier
    )  # one for each rail, by default


@pytest.mark.parametrize("spares", [-1, 0.5])
def test_bad_spares_are_named(spares):
    with pytest.raises(ValueError, match=f"spares_per_rail is {spares}"):
        cost.parts_with_spares(rail_only(64, 4, 16), spares)


def test_redundancy_as_the_ledger_notes_it():
    cases = pd.DataFrame(claims.cases(TABLES["railonly2023"])).rename(columns={"n": "gpus", "r": "radix"})
    ways = cost.redundancy_costs(cases, 256, price_books.price_book("railonly2023"))
    shared = ways.loc[ways.groupby(["gpus", "radix"]).rails_per_switch.idxmax()]
    apart = ways[(ways.gpus == 32768) & (ways.radix == 256) & (ways.rails_per_switch == 1)]
    noted = re.findall(r"\d\.\d\d", claims.claim("railonly2023.fault.redundant_cost_ratio").note)
    ours = [
        shared.everything_doubled.max(),
        shared.spare_switch.max(),
        shared.spare_switch_and_optics.max(),
        apart.spare_switch.iloc[0],
        apart.spare_switch_and_optics.iloc[0],
    ]
    assert [f"{ratio:.2f}" for ratio in ours] == noted
    assert list(ways.everything_doubled) == pytest.approx(list(2 * ways.none))
    savings = table("railonly2023").sort_values(["gpus", "radix"]).cost_saving
    assert list(1 - shared.none) == pytest.approx(list(savings))


@pytest.mark.parametrize("gpus", [1024, 4096])
def test_contenders_meet_the_full_clos(gpus):
    prices, powers = price_books.price_book("street2025"), price_books.power_book("street2025")
    rows = cost.oversubscription_costs(gpus, 16, 16, [1, 3, 7, math.inf], prices, powers)
    full, none = rows[rows.oversubscription == 1], rows[np.isinf(rows.oversubscription)].iloc[0]
    assert len(full) == 2
    assert list(full.relative_cost) == [1, 1]
    assert list(full.switches) == [int(ideal_clos_parts(gpus, 16)[1])] * 2
    assert none.cost_usd == pytest.approx(float(bill_total(rail_only(gpus, 16, 16).parts.bill(), prices)))
    assert none.power_w == pytest.approx(float(bill_total(rail_only(gpus, 16, 16).parts.bill(), powers)))
    for _, line in rows.groupby("network"):
        assert (np.diff(line.sort_values("oversubscription").transceivers) <= 0).all()
    thin = rows[(rows.network == "Clos with oversubscribed leaves") & (rows.oversubscription == 3)].iloc[0]
    assert thin.transceivers == fat_tree(gpus, 16, tier_oversubscription=(3,)).parts.link_ends


def test_parts_of_each_contender():
    book = price_books.price_book("street2025")
    totals = cost.cluster_breakdown(1024, 16, 16, 3, book, WATTS).groupby("network").cost_usd.sum()
    expected = {"rail-optimized": 1, "rails + layer 3:1": 3, "rail-only": math.inf}
    parts = {name: rail_parts(1024, 16, 16, layer) for name, layer in expected.items()}
    parts |= {
        "Clos": fat_tree(1024, 16).parts,
        "Clos, leaves 3:1": fat_tree(1024, 16, tier_oversubscription=(3,)).parts,
    }
    assert totals.to_dict() == pytest.approx(
        {name: float(bill_total(each.bill(), book)) for name, each in parts.items()}
    )


def test_ratio_that_gives_a_total():
    row = table("railonly2025").iloc[0]
    book = price_books.price_book("railonly2025")
    ratio = cost.ratio_for_total(row, row.cost_usd_rail_optimized, book.port + book.transceiver)
    assert ratio == pytest.approx(book.transceiver / book.port)


def test_curve_of_link_rates():
    book = price_books.price_book("railonly2023")
    powers = price_books.PriceBook(book.port, book.transceiver, rate_Bps=book.rate_Bps)
    curve = cost.link_rate_costs([1024, 4096], 256, [(5e10, 64), (1e11, 64)], book, powers, (1, 0.5))
    same, double = (curve[curve.link_rate == rate].set_index("gpus") for rate in (5e10, 1e11))
    assert list(double.cost_usd / same.cost_usd) == pytest.approx([2, 2])
    assert list(double.power_w / same.power_w) == pytest.approx([math.sqrt(2)] * 2)
    assert same.cost_usd[1024] == pytest.approx(float(bill_total(rail_optimized(1024, 256, 64).parts.bill(), book)))
    assert list(dict.fromkeys(curve.link)) == ["400 Gbps, radix 64", "800 Gbps, radix 64"]


OWNED = {"gpus": 4096, "hb_domain_size": 16, "radix": 32, "years": 5}


def test_ownership_adds_up():
    prices, powers = price_books.PriceBook(500, 200, 100), price_books.PriceBook(20, 10, 0.1)
    rows = cost.ownership_costs(**OWNED, prices=prices, powers=powers, electricity_price=2e-8, pue=1.2)
    assert list(rows.total_usd) == pytest.approx(list(rows.purchase_usd + rows.energy_usd))
    assert list(rows.energy_usd) == pytest.approx(list(rows.power_w * 1.2 * 5 * 365 * 86400 * 2e-8))
    optics = rows[rows.host_links == "optics"].set_index("network")
    copper = rows[rows.host_links == "copper"].set_index("network")
    saved = optics.purchase_usd - copper.purchase_usd
    assert list(saved) == pytest.approx([4096 * (2 * 200 - 100)] * 2)  # a host link for each GPU
    assert optics.purchase_usd["rail-only"] < optics.purchase_usd["rail-optimized"]


def test_sensitivity_lies_about_its_centre():
    rows = price_books.book_rows("street2025")
    swing = cost.ownership_sensitivity(**OWNED, ranges=rows)
    centre = cost.ownership_saving(**OWNED, inputs={name: row.value for name, row in rows.items()})
    assert list(swing.centre) == [centre] * len(rows)
    low, high = swing[["at_low", "at_high"]].min(axis=1), swing[["at_low", "at_high"]].max(axis=1)
    assert ((low <= centre) & (centre <= high)).all()
    assert (high - low).max() > 0.001
    # ports are what rail-only saves most of: dearer ports raise the saving, dearer transceivers lower it
    assert (swing.swing.diff().dropna() <= 0).all()
    by_input = swing.set_index(swing.input.str.partition(" [")[0])
    assert by_input.at_high["port price"] > by_input.at_low["port price"]
    assert by_input.at_high["transceiver price"] < by_input.at_low["transceiver price"]


def test_an_input_without_bounds_moves_nothing_and_is_named():
    rows = price_books.book_rows("street2025") | {"pue": catalog.item("prices", "energy").row("pue_low_flops2024")}
    swing = cost.ownership_sensitivity(**OWNED, ranges=rows)
    still = swing[swing.input == "PUE"].iloc[0]
    assert still.low == still.high and still.swing == 0 and still.at_low == still.at_high == still.centre
    assert (swing.swing[swing.input != "PUE"] > 0).all()
    (text,) = swing.attrs["warnings"]
    assert "PUE of energy" in text and "port price" not in text
    assert cost.ownership_sensitivity(**OWNED, ranges=price_books.book_rows("street2025")).attrs["warnings"] == ()


def test_saving_that_no_ratio_changes():
    counts = {"ports_rail_optimized": [8.0], "transceivers_rail_optimized": [4.0]}
    same = {name.replace("optimized", "only"): value for name, value in counts.items()}
    bounds = cost.ratio_bounds(pd.DataFrame({"gpus": [1], "radix": [4], **counts, **same}), 0.0, 0.005)
    assert (bounds.least[0], bounds.most[0]) == (0, math.inf)


def test_negative_copper_tiers_are_refused():
    with pytest.raises(ValueError, match="copper_tiers is -1"):
        bill_total(rail_only(512, 8, 16).parts.bill(-1), price_books.PriceBook(1, 1, 1))


def test_no_network_needs_no_spares():
    assert isinstance(spared := cost.parts_with_spares(rail_only(8, 8, 4)), Parts)
    assert (spared.switches, spared.links) == (0, 0)


def test_text_values_without_radix_64():
    book = price_books.PriceBook(2, 1)
    with pytest.raises(ValueError, match="radix"):
        table1.printed_text_values(cost.compare_rail_networks(1024, 8, 128, book, book))


def test_the_documents_record_what_their_tables_say():
    prices, powers = price_books.price_book("railonly2025"), price_books.power_book("railonly2025")
    values, reasons, taken = table1.table1_claims(256, prices, powers)
    assert set(reasons) | set(taken) <= set(values) and set(claims.ids("railonly2025.table1")) <= set(values)
    assert values["railonly2025.fig1.cost_65536_400g"] == table("railonly2025").cost_usd_rail_optimized.max()
    fits = table1.fitted_books(table("railonly2025"), prices, powers)
    assert (fits.r_from < fits.r_to).all()
    rounded = fits[fits.digits == "rounded"]
    assert ((rounded.r_from < rounded["r of the book"]) & (rounded["r of the book"] < rounded.r_to)).all()
    sums = "port + transceiver of the book", "port + transceiver, solved"
    assert list(rounded[sums[0]]) == pytest.approx(list(rounded[sums[1]]), rel=1e-3)
    values, reasons, taken = table2.table2_claims(256, price_books.price_book("railonly2023"), powers)
    assert set(reasons) | set(taken) <= set(values) and set(claims.ids("railonly2023.table2")) <= set(values)
    assert values["railonly2023.table2.worst_radix"] == claims.paper_value("railonly2023.table2.worst_radix")


# Contenders


def test_what_8192_gpus_on_nvl72_can_have():
    """Rail-only saves three quarters of rail-optimized, and little more than half of a Clos with as much bandwidth."""
    prices, powers = price_books.PriceBook(600, 400), price_books.power_book("street2025")
    rows = cost.cluster_networks(8192, 72, 128, 4.0, prices, powers).set_index("network")
    assert (rows.tiers["rail-optimized"], rows.tiers["Clos"], rows.tiers["rail-only"]) == (3, 2, 1)
    assert rows.cost_usd["Clos"] == 192 * 128 * 600 + 4 * 8192 * 400  # 128 leaves and 64 spines
    assert rows.cost_usd["rail-only"] == 72 * 128 * 600 + 2 * 8192 * 400
    assert rows.cost_saved["rail-only"] == pytest.approx(0.77, abs=0.005)
    assert rows.cost_saved["Clos"] == pytest.approx(0.47, abs=0.005)
    assert rows.cost_saved_over_any_to_any["rail-only"] == pytest.approx(0.566, abs=0.001)
    assert rows.cheapest[rows.cheapest != ""].to_dict() == {"Clos": "any-to-any", "rail-only": "of all"}
    assert rows.across_rails[rows.share_across_rails == 0].to_dict() == {"rail-only": "through the HB domain"}
    assert rows.price_book.unique() == ["given"] and rows.power_book.unique() == ["street2025 (400 Gbps)"]
    assert cost.cluster_networks(8192, 72, 128, 4.0, prices, powers).attrs["warnings"] == domain_warnings(8192, 72)


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


@pytest.mark.parametrize("name", TABLES.values())
def test_a_plain_clos_costs_as_much_as_rail_optimized_in_the_documents_cases(name):
    book = price_books.price_book("railonly2023")
    for n, radix in table_cases(name).itertuples(index=False):
        rows = cost.cluster_networks(n, 256, radix, 4, book, WATTS).set_index("network").cost_usd
        assert rows["Clos"] == rows["rail-optimized"]


def test_rows_that_do_not_fill_hb_domains_are_counted():
    book = price_books.PriceBook(1, 1, rate_Bps=1e11)
    rows = cost.compare_rail_networks([4096, 7200, 16384], 72, 64, book, book)
    text = f"2 rows have GPUs that do not fill HB domains. The first: {domain_warnings(4096, 72)[0]}"
    assert rows.attrs["warnings"] == (text,)
    assert cost.compare_rail_networks([7200], 72, 64, book, book).attrs["warnings"] == ()
    curve = cost.link_rate_costs([4096], 72, [(1e11, 64)], book, book, (1, 1))
    assert curve.attrs["warnings"] == domain_warnings(4096, 72)
    for rows in (
        cost.cluster_breakdown(4096, 72, 64, 4, book, book),
        cost.oversubscription_costs(4096, 72, 64, [1, 4], book, book),
        cost.redundancy_costs(pd.DataFrame({"gpus": [4096], "radix": [64]}), 72, book),
        cost.ownership_costs(4096, 72, 64, *price_books.matching_books("street2025"), 5, 0, 1),
    ):
        assert rows.attrs["warnings"] == domain_warnings(4096, 72)


def test_a_cluster_of_one_hb_domain_needs_no_network():
    book = price_books.PriceBook(1, 1)
    rows = cost.cluster_networks(8, 8, 4, 4.0, book, book).set_index("network")
    assert rows.share_same_rail.isna().all() and rows.cost_usd["rail-only"] == 0
    assert rows.across_rails["rail-only"] == "through the HB domain"
    assert rows.attrs["warnings"][0].startswith("One HB domain holds all GPUs")
    assert rows.cost_saved_over_any_to_any.dropna().to_dict() == {"rail-only": 0.0}  # all others are over nothing
    assert not cost.cluster_networks(16, 8, 4, 4.0, book, book).attrs["warnings"]


@pytest.mark.parametrize("gpus", [16384, 24576, 32768])
@pytest.mark.parametrize("ratio", [2.0, 4.0])
def test_a_layer_that_cannot_be_thinned_is_no_design(gpus, ratio):
    books = price_books.matching_books("street2025")
    table = cost.cluster_networks(gpus, 8, 64, ratio, *books)
    rows, name = table.set_index("network"), f"rails + layer {ratio:g}:1"
    texts = ["cheapest", "across_rails", "note", "includes", "price_book", "power_book"]
    assert rows.loc[name].drop(texts).isna().all()
    assert rows.note[name] == "no such design: the same as 1:1" and (rows.note[:2] == "").all()
    assert rows.cheapest[name] == "" and set(rows.index[rows.cheapest == "any-to-any"]) == {"rail-optimized", "Clos"}
    said = table.attrs["warnings"][0]
    assert said.startswith(f"{name}: A network oversubscribed {ratio:g}:1 is the same as 1:1 here")
    assert "65,544 GPUs (4 tiers)" in said
    least = {2.0: "10,752 GPUs (3 tiers)", 4.0: "13,056 GPUs (3 tiers)"}[ratio]  # 8 x 32 x 42 and 8 x 32 x 51
    assert least in said
    parts = cost.cluster_breakdown(gpus, 8, 64, ratio, *books)
    assert name not in set(parts.network) and parts.attrs["warnings"][0] == said
    curve = cost.oversubscription_costs(gpus, 8, 64, [1, ratio, 2 * ratio, math.inf], *books)
    layer = curve[curve.network == "rails under an oversubscribed layer"]
    assert list(layer.cost_usd.isna()) == list(layer.relative_cost.isna()) == [False, True, True, False]
    said, *of_rail_only = curve.attrs["warnings"]
    assert len(of_rail_only) == (gpus > 16384)
    assert f"oversubscribed {ratio:g}:1 is" in said and said.endswith(f"So it is at {2 * ratio:g}:1.")


def test_one_switch_has_no_leaves_to_oversubscribe():
    table = cost.cluster_networks(64, 8, 64, 4.0, *price_books.matching_books("street2025"))
    assert set(table.network[table.cost_usd.isna()]) == {"rails + layer 4:1", "Clos, leaves 4:1"}
    assert all("one switch joins all GPUs" in text for text in table.attrs["warnings"][:2])
    built = cost.cluster_networks(72, 8, 64, 4.0, *price_books.matching_books("street2025"))
    assert built.cost_usd.notna().all() and (built.note == "").all()


def test_rail_only_that_leaves_no_tier_out_says_so():
    """Each rail of 8,481 just exceeds two tiers of 128 ports (8,192), and needs three, as all GPUs do."""
    books = price_books.matching_books("street2025")
    table = cost.cluster_networks(67840, 8, 128, 1.0, *books)
    (said,) = table.attrs["warnings"]
    assert "needs 3 tiers, as many as all GPUs together" in said and "Up to 65,536 GPUs a rail needs 2 tiers." in said
    assert table.set_index("network").note.to_dict() == {
        "rail-optimized": "",
        "Clos": "",
        "rail-only": "no less than rail-optimized",
    }
    assert cost.cluster_breakdown(67840, 8, 128, 1.0, *books).attrs["warnings"] == (said,)
    assert cost.oversubscription_costs(67840, 8, 128, [1, math.inf], *books).attrs["warnings"] == (said,)
    one = cost.compare_rail_networks([65536, 67840], 8, 128, *books).attrs["warnings"]
    assert one == (said,)
    (two,) = cost.compare_rail_networks([67840, 65536, 67848], 8, 128, *books).attrs["warnings"]
    assert two == f"In 2 rows rail-only takes no less than rail-optimized. The first: {one[0]}"
    (alone,) = cost.compare_rail_networks([72], 8, 64, *books, share_switches=False).attrs["warnings"]
    assert "8 switches" in alone and "Let rails share switches" in alone
    assert cost.compare_rail_networks([72], 8, 64, *books).attrs["warnings"] == ()


def test_networks_that_cost_the_same_are_both_the_cheapest():
    books = price_books.matching_books("street2025")
    rows = cost.cluster_networks(8192, 8, 64, 4.0, *books).set_index("network")
    assert set(rows.index[rows.cheapest == "any-to-any"]) == {"rail-optimized", "Clos"}


# Books


OURS = """name,parameter,value,low,high,unit,kind,source,as_of,note
ours,bandwidth,{rate},,,Gbps,measured,our quote,2026,
ours,port_price,600,,,USD,measured,our quote,2026,
ours,transceiver_price,400,300,500,USD,assumed,our estimate,2026,
"""


@pytest.fixture
def own_catalog(tmp_path, monkeypatch):
    """Gives write(family, text): a family of a catalog of one's own, which counts from then on."""

    def write(family, text):
        folder = tmp_path / f"catalog{len(list(tmp_path.iterdir()))}"  # families are read once from each folder
        folder.mkdir()
        (folder / f"{family}.csv").write_text(text)
        monkeypatch.setenv("RAILCORE_CATALOG", str(folder))

    return write


def test_a_book_of_ones_own_without_powers_and_copper(own_catalog):
    own_catalog("prices", OURS.format(rate=400))
    prices, powers = price_books.matching_books("ours")
    default = price_books.price_book(price_books.DEFAULT_BOOK), price_books.power_book(price_books.DEFAULT_BOOK)
    assert (prices.port, prices.transceiver, prices.dac) == (600, 400, default[0].dac)
    assert powers == default[1]
    rows = cost.ownership_costs(**OWNED, prices=prices, powers=powers, electricity_price=2e-8, pue=1.2)
    copper = rows.set_index("host_links").price_book
    assert set(copper["optics"]) == {"ours (400 Gbps)"}
    assert set(copper["copper"]) == {"ours (400 Gbps), copper of street2025"}
    assert set(rows.power_book) == {"street2025 (400 Gbps)"}
    cluster = cost.cluster_networks(4096, 16, 32, 4, prices, powers).set_index("network").cost_usd
    bought = rows[rows.host_links == "optics"].set_index("network").purchase_usd
    assert bought["rail-optimized"] == cluster["rail-optimized"] and bought["rail-only"] == cluster["rail-only"]
    swing = cost.ownership_sensitivity(**OWNED, ranges=price_books.book_rows("ours"))
    assert "port price of ours" in swing.attrs["warnings"][0] and "transceiver" not in swing.attrs["warnings"][0]
    assert price_books.books_text(prices, powers) == "prices of ours, powers of street2025"
    assert price_books.books_text(*default) == "prices and powers of street2025"


def test_powers_of_another_link_rate_are_scaled_and_say_so(own_catalog):
    own_catalog("prices", OURS.format(rate=800))
    prices, powers = price_books.matching_books("ours")
    default = price_books.power_book(price_books.DEFAULT_BOOK)
    assert (powers.port, powers.transceiver) == (2 * default.port, 2 * default.transceiver)
    assert prices.dac == 2 * price_books.price_book(price_books.DEFAULT_BOOK).dac
    scaled = "street2025 (scaled from 400 Gbps to 800 Gbps)"
    assert powers.label() == scaled and prices.label() == "ours" and prices.label(rate=True) == "ours (800 Gbps)"
    assert prices.label(copper=True) == f"ours, copper of {scaled}"
    assert powers.warnings == ("Powers of street2025 are of 400 Gbps links: they are scaled to 800 Gbps.",)
    assert prices.warnings == ()
    rows = price_books.book_rows("ours")
    assert rows["port_power"].value == powers.port and rows["port_power"].low == 20
    assert rows["port_price"].value == prices.port and rows["port_price"].low is None


def test_powers_of_the_same_name_count(own_catalog):
    own_catalog("powers", OURS.format(rate=400).replace("price", "power").replace("USD", "W"))
    assert price_books.matching_books("street2025", "ours")[1].port == 600
    assert price_books.matching_books("street2025")[1] == price_books.power_book("street2025")


def test_powers_without_a_link_rate_are_at_that_of_the_prices(own_catalog):
    head, rate, *rows = OURS.format(rate=800).replace("price", "power").replace("USD", "W").splitlines()
    own_catalog("powers", "\n".join([head, *rows]))
    assert price_books.power_book("ours").rate_Bps is None
    prices, powers = price_books.matching_books("flops2024", "ours")
    assert (powers.port, powers.rate_Bps, powers.label()) == (600, prices.rate_Bps, "ours")
    assert powers.dac == 2 * price_books.power_book(price_books.DEFAULT_BOOK).dac
    curve = cost.link_rate_costs([4096], 8, [(5e10, 64)], prices, powers, (1, 1))
    assert curve.power_book.tolist() == ["ours (scaled from 800 Gbps to 400 Gbps)"]
    own_catalog("powers", "\n".join([head, rate, *rows]))
    assert price_books.matching_books("street2025", "ours")[1].port == 300


def test_copper_is_scaled_as_the_rest_and_says_so(own_catalog):
    own_catalog(
        "powers",
        "name,parameter,value,low,high,unit,kind,source,as_of,note\n"
        "scaling,rate_exponent,0.7,,,1,measured,ours,2026,\n"
        + OURS.format(rate=800).replace("price", "power").replace("USD", "W").partition("\n")[2],
    )
    own, default = price_books.power_book("ours"), price_books.power_book("street2025")
    scaled = price_books.matching_books("flops2024")[1]
    assert own.dac == scaled.dac == pytest.approx(2**0.7 * default.dac)


def test_all_rows_that_a_book_lacks_are_named_at_once(own_catalog):
    head, *rows = OURS.format(rate=400).splitlines()
    for kept in ([], [0], [1], [0, 1], [1, 2]):
        own_catalog("prices", "\n".join([head, *(rows[i] for i in kept)]))
        with pytest.raises(catalog.UnknownName) as refused:
            price_books.price_book("ours")
        for i, parameter in enumerate(("bandwidth", "port_price", "transceiver_price")):
            assert (parameter in str(refused.value).partition("Rows to add:")[2]) == (i not in kept)
        assert '`python -m railcore catalog template prices "ours"`' in str(refused.value)
    with pytest.raises(catalog.UnknownName, match="book of prices 'energy' does not exist"):
        price_books.price_book("energy")


def test_a_book_without_copper_or_link_rate_is_refused_where_it_needs_them():
    book = price_books.PriceBook(1, 1, name="mine")
    with pytest.raises(ValueError, match="book 'mine' has no dac"):
        bill_total(rail_only(512, 8, 16).parts.bill(1), book)
    rows = cost.ownership_costs(**OWNED, prices=book, powers=book, electricity_price=2e-8, pue=1.2)
    assert list(rows.host_links) == ["optics"] * 2 and "'mine' has no dac" in rows.attrs["warnings"][0]
    with pytest.raises(ValueError, match="book 'mine' has no rate_Bps"):
        book.at_rate(1e11)


def test_books_in_each_others_place_are_refused():
    cluster, prices, powers = (4096, 16, 32), price_books.price_book("street2025"), price_books.power_book("street2025")
    texts = price_books.PriceBook(port="600 USD", transceiver="400 USD", name="mine")
    calls = [
        lambda *books: cost.cluster_networks(*cluster, 4, *books),
        lambda *books: cost.cluster_breakdown(*cluster, 4, *books),
        lambda *books: cost.compare_rail_networks(*cluster, *books),
        lambda *books: cost.parts_breakdown(rail_only(*cluster).parts, *books),
        lambda *books: cost.part_totals(rail_only(*cluster).parts, *books),
        lambda *books: cost.ownership_costs(**OWNED, prices=books[0], powers=books[1], electricity_price=0, pue=1),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="prices is book 'street2025', which is in W: give one in USD"):
            call(powers, prices)
        with pytest.raises(ValueError, match="powers is book 'mine', which is in USD: give one in W"):
            call(prices, texts.scaled(1))
        call(price_books.PriceBook(1, 1), price_books.PriceBook(2, 1))  # numbers alone do not tell
    assert (texts.scaled(2).unit, powers.at_rate(1e11).unit, price_books.PriceBook(1, 1).unit) == ("USD", "W", "")
    with pytest.raises(ValueError, match="port is '6 W': give a number in USD"):
        price_books.PriceBook("6 W", 1, unit="USD")


TABLES_OF_A_CLUSTER = [
    lambda *books: cost.cluster_networks(4096, 16, 32, 4, *books),
    lambda *books: cost.cluster_breakdown(4096, 16, 32, 4, *books),
    lambda *books: cost.compare_rail_networks(4096, 16, 32, *books),
    lambda *books: cost.oversubscription_costs(4096, 16, 32, [2], *books),
    lambda *books: cost.ownership_costs(**OWNED, prices=books[0], powers=books[1], electricity_price=0, pue=1),
]


def test_powers_of_another_link_rate_than_the_prices_are_refused():
    prices, powers = (
        price_books.PriceBook(900, 700, 90, name="mine", rate_Bps="800 Gbps", unit="USD"),
        price_books.power_book("street2025"),
    )
    for table in (*TABLES_OF_A_CLUSTER, lambda *books: cost.part_totals(rail_only(512, 8, 16).parts, *books)):
        with pytest.raises(ValueError, match="prices of mine are of 800 Gbps links, powers of street2025 of 400 Gbps"):
            table(prices, powers)
        table(prices, price_books.PriceBook(20, 10, 0.1))
    for table in TABLES_OF_A_CLUSTER:
        scaled = table(prices, powers.at_rate("800 Gbps"))
        assert scaled.attrs["warnings"] == ("Powers of street2025 are of 400 Gbps links: they are scaled to 800 Gbps.",)
        assert set(scaled.price_book) == {"mine (800 Gbps)"}
        assert all(text.startswith("street2025 (scaled from 400 Gbps to 800 Gbps)") for text in scaled.power_book)


def test_books_for_links_of_another_rate_follow_the_catalogs_rule(own_catalog):
    head = "name,parameter,value,low,high,unit,kind,source,as_of,note\n"
    own_catalog("prices", f"{head}scaling,rate_exponent,0.8,,,1,measured,ours,2026,\n")
    dear, (prices, powers) = (
        price_books.matching_books("flops2024"),
        price_books.matching_books("flops2024", rate_Bps="400 Gbps"),
    )
    for part in ("port", "transceiver"):
        assert getattr(prices, part) == pytest.approx(getattr(dear[0], part) / 2**0.8)
        assert getattr(powers, part) == getattr(price_books.power_book("street2025"), part)
    assert prices == price_books.book_of_links("prices", dear[0], 5e10) == dear[0].at_rate("400 Gbps")
    for table in TABLES_OF_A_CLUSTER[:3]:
        full, half = (table(*books).filter(like="cost_usd").to_numpy() for books in (dear, (prices, powers)))
        assert half == pytest.approx(full / 2**0.8)
    said = cost.cluster_networks(4096, 16, 32, 4, prices, powers)
    assert set(said.price_book) == {"flops2024 (scaled from 800 Gbps to 400 Gbps)"}
    assert said.attrs["warnings"] == ("Prices of flops2024 are of 800 Gbps links: they are scaled to 400 Gbps.",)
    rows = price_books.book_rows("flops2024", rate_Bps="400 Gbps")
    assert rows["port_price"].value == prices.port and rows["port_power"].value == powers.port


def test_a_book_that_cannot_be_scaled_is_refused():
    plain = price_books.PriceBook(2, 4, name="mine")
    with pytest.raises(ValueError, match="book 'mine' has no rate_Bps, and links are of 400 Gbps"):
        price_books.book_of_links("prices", plain, 5e10)
    assert price_books.book_of_links("prices", plain) is plain
    with pytest.raises(ValueError, match="rate_Bps is 'fast': give"):
        price_books.price_book("street2025").at_rate("fast")
    of_no_unit = price_books.PriceBook(2, 4, name="mine", rate_Bps=5e10)
    with pytest.raises(ValueError, match=r"book 'mine' is of 400 Gbps links.*give its unit, 'USD' or 'W'"):
        of_no_unit.at_rate(1e11)
    for family, port in (("prices", 4), ("powers", 4)):  # its place tells
        assert price_books.book_of_links(family, of_no_unit, 1e11).port == port


def test_a_scaled_book_says_so():
    book = price_books.PriceBook(2, 4, name="mine", rate_Bps=5e10, unit="USD")
    assert book.scaled(0.5).label() == "mine x 0.5" and book.scaled(1) is book
    faster = book.at_rate(1e11)
    assert (faster.port, faster.label()) == (4, "mine (scaled from 400 Gbps to 800 Gbps)")
    assert book.at_rate(2e11, 0.5).transceiver == 8 and book.at_rate(5e10) is book
    assert faster.at_rate(2e11).label() == "mine (scaled from 400 Gbps to 1.6 Tbps)"
    assert (faster.at_rate(5e10).label(), faster.at_rate(5e10).warnings) == ("mine", ())
    flops = price_books.price_book("flops2024")
    assert flops.label(copper=True) == "flops2024, copper of street2025 (scaled from 400 Gbps to 800 Gbps)"
    slower = flops.at_rate(5e10)  # copper at the rate that it is listed at
    assert slower.dac == 120
    assert slower.label(copper=True) == "flops2024 (scaled from 800 Gbps to 400 Gbps), copper of street2025"


def tables_of_a_run(folder, **variables):
    """Runs the cells of notebook 01 as they stand, in a process of its own; the tables that it saved, by name."""
    source = json.loads((files.NOTEBOOKS / "01_network_cost.ipynb").read_text())["cells"]
    cells = [cell for cell in source if cell["cell_type"] == "code"]
    script = ["".join(cell["source"]) for cell in cells[:-1]]
    script[0] += "\n" + "\n".join(f"{name} = {value!r}" for name, value in variables.items())
    environment = os.environ | {"MPLBACKEND": "agg", "RAILCORE_OUT": str(folder / "out")}
    command = [sys.executable, "-c", "\n".join(script)]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {path.stem: pd.read_csv(path) for path in (folder / "out").rglob("*.csv")}, done.stdout


def test_the_recipe_of_readme_has_one_book(tmp_path, monkeypatch):
    text = (files.ROOT / "README.md").read_text()
    recipe = re.search(r"```\n(  name,parameter.*?)  ```", text, re.DOTALL)[1]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "prices.csv").write_text(textwrap.dedent(recipe))
    assert 'RAILCORE_CATALOG=mine make figures NB=01 PARAMS="-p price_book ours"' in text
    monkeypatch.setenv("RAILCORE_CATALOG", "mine")
    tables, printed = tables_of_a_run(tmp_path, price_book="ours", gpus=8192, hb_domain_size=72, radix=128)
    books = pd.concat(table.price_book for table in tables.values() if "price_book" in table)
    assert set(books.str.replace(r" \(.*?\)", "", regex=True)) == {"ours", "ours, copper of street2025"}
    assert all(set(table.power_book.str[:10]) == {"street2025"} for table in tables.values() if "power_book" in table)
    cluster = tables["01_cluster"].set_index("network")
    owned = tables["01_ownership"].query("host_links == 'optics'").set_index("network")
    curve = tables["01_contenders"].set_index(["network", "oversubscription"])
    fig1 = tables["fig1"].query("gpus == 8192 and link == '400 Gbps, radix 128'").iloc[0]
    swept = tables["01_saving_map"].query("gpus == 8192 and hb_domain_size == 64 and radix == 128").iloc[0]
    for what in ("cost_usd", "power_w"):
        full, rails = cluster[what][["rail-optimized", "rail-only"]]
        assert fig1[what] == curve[what]["rails under an oversubscribed layer", 1] == full
        assert curve[what]["Clos with oversubscribed leaves", 1] == cluster[what]["Clos"]
        assert curve[what]["rails under an oversubscribed layer", math.inf] == rails
        assert list(owned["purchase_usd" if what == "cost_usd" else what]) == [full, rails]
    assert swept.cost_usd_rail_only == swept.ports_rail_only * 600 + swept.transceivers_rail_only * 400
    assert "Warning: 8,192 GPUs do not fill HB domains of 72" in printed
    assert "port price of ours" in printed


@pytest.mark.parametrize("table", ["railonly2025.table1", "railonly2023.table2"])
def test_the_documents_count_hb_domains_of_their_own_size(table):
    """With it the switches are those printed, with a user's HB domains they are not."""
    books = price_books.matching_books("railonly2025", None)

    def off(hb_domain_size):
        found = claims.table_values(table, rail_networks.savings_table(table, hb_domain_size, *books))
        return sum(found[name] != claims.paper_value(name) for name in found if name.endswith("switches_rail_only"))

    assert off(rail_networks.hb_domain_size()) == 0 < off(72)
