"""Tables of the two rail-only papers: savings, the prices that they allow, redundant parts, cost over years."""

import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import catalog
from railcore.network import cost, price_books
from railcore.network.bill import bill_total
from railcore.network.topology import faults, reach, wiring
from railcore.network.topology.rails import rail_only, rail_optimized
from suite import workspace
from suite.ledger import claims, grounds, readings
from suite.railonly2023 import rail_networks, table2
from suite.railonly2025 import table1

WATTS = price_books.PriceBook(1, 1)  # where only the cost counts
DOCUMENTS = ["railonly2025", "railonly2023"]
TABLES = ["railonly2025.table1", "railonly2023.table2"]
OWNED = {"gpus": 4096, "hb_domain_size": 16, "radix": 32, "years": 5}
BOOK_2023 = price_books.price_book("railonly2023")
STREET = price_books.matching_books("street2025")
BOOKS_2025 = price_books.price_book("railonly2025"), price_books.power_book("railonly2025")
ROWS_2025 = rail_networks.savings_table(TABLES[0], 256, *BOOKS_2025)


def test_parts_that_can_fail_by_hand():
    """Radix 64, three tiers against two: 5 N / 64 switches and 3 N links, and 3 N / 64 switches and 2 N links."""
    row = cost.compare_rail_networks(65536, 256, 64, BOOKS_2025[0], WATTS)
    assert table1.printed_text_values(row)["fault_parts_ratio"] == pytest.approx((3 / 64 + 2) / (5 / 64 + 3))


def test_the_ends_of_the_savings_are_those_of_all_rows():
    text = table1.printed_text_values(ROWS_2025)
    largest = ROWS_2025[ROWS_2025.gpus == 65536]
    for what, unit, of in (("cost", "usd", largest), ("power", "w", ROWS_2025)):  # as the text has them
        saved = [row[f"{what}_{unit}_rail_optimized"] - row[f"{what}_{unit}_rail_only"] for _, row in of.iterrows()]
        assert (text[f"{what}_saving_min"], text[f"{what}_saving_max"]) == (min(saved), max(saved))
    assert text["intro_cost_saving_max"] == max(1 - ROWS_2025.cost_usd_rail_only / ROWS_2025.cost_usd_rail_optimized)


@pytest.mark.parametrize(("gpus", "hb_domain_size", "radix"), [(65536, 256, 64), (32768, 256, 256)])
def test_a_cluster_of_the_tables_saves_what_they_save(gpus, hb_domain_size, radix):
    """At 32,768 GPUs and radix 256 two rails share a switch: in the tables, in one cluster and over the years alike."""
    row = cost.compare_rail_networks(gpus, hb_domain_size, radix, BOOK_2023, WATTS).iloc[0]
    rows = cost.cluster_networks(gpus, hb_domain_size, radix, 4, BOOK_2023, WATTS).set_index("network")
    assert list(rows.index) == ["rail-optimized", "Clos", "rails + layer 4:1", "Clos, leaves 4:1", "rail-only"]
    assert rows.cost_saved["rail-optimized"] == 0 < rows.cost_saved["rails + layer 4:1"] < row.cost_saving
    assert rows.cost_saved["rail-only"] == pytest.approx(row.cost_saving)
    inputs = {"port_price": BOOK_2023.port, "transceiver_price": BOOK_2023.transceiver, "port_power": 1.0}
    inputs |= {"transceiver_power": 1.0, "pue": 1.2, "electricity_price": 0.0}
    saved = rail_networks.ownership_saving(gpus, hb_domain_size, radix, 5, inputs)
    assert saved == pytest.approx(row.cost_saving)


@pytest.mark.parametrize("name", TABLES)
def test_a_plain_clos_costs_as_much_as_rail_optimized_in_the_documents_cases(name):
    for n, radix in rail_networks.table_cases(name).itertuples(index=False):
        rows = cost.cluster_networks(n, 256, radix, 4, BOOK_2023, WATTS).set_index("network").cost_usd
        assert rows["Clos"] == rows["rail-optimized"]


@pytest.mark.parametrize("table", TABLES)
def test_the_documents_count_hb_domains_of_their_own_size(table):
    """With it the switches are those printed, with a user's HB domains they are not."""

    def off(hb_domain_size):
        values = claims.table_values(table, rail_networks.savings_table(table, hb_domain_size, *BOOKS_2025))
        return sum(values[name] != claims.paper_value(name) for name in values if name.endswith("switches_rail_only"))

    assert off(rail_networks.hb_domain_size()) == 0 < off(72)


@pytest.mark.parametrize(
    ("document", "values", "sizes", "less"),  # less: claims of "fewer", which "<" lets hold at a ratio of 1
    [
        (
            "railonly2025",
            lambda size: table1._table_and_text(rail_networks.savings_table(TABLES[0], size, *BOOKS_2025)),
            (8,),
            ["text.fault_parts_ratio"],
        ),
        ("railonly2023", lambda size: table2._values(size, BOOK_2023, WATTS), (8, 16), ["fault.switch_ratio"]),
    ],
)
def test_what_turns_with_smaller_hb_domains_is_declared(document, values, sizes, less):
    """The size is solved from one count of each document's table; what rests on it is in data/calibrations.csv."""
    cases = rail_networks.table_cases(dict(zip(DOCUMENTS, TABLES, strict=True))[document])

    def every(size):
        if document == "railonly2025":
            return values(size)
        cut = [
            [faults.nics_cut_by_rail_switch(build(n, size, k, **options)) for n, k in cases.itertuples(index=False)]
            for build, options in ((rail_only, {"rails_per_switch": None}), (rail_optimized, {}))
        ]
        return values(size) | {"railonly2023.fault.rail_switch_difference": np.subtract(*cut).max()}

    name = f"HB domain of {document}"
    ours, (row,) = every(256), [each for each in grounds.calibrations() if each.parameter.startswith(name)]
    turned = {claim_id for size in sizes for claim_id in readings.changed_verdicts(ours, every(size))}
    strict = {f"{document}.{name}" for name in less}
    assert all(ours[name] < 1 == every(8)[name] for name in strict)
    declared = {*row.used, *row.predicted}
    assert turned | strict <= declared and row.used[0] in turned
    assert not {name for name in declared - turned - strict if ".n65536.r128." not in name and name in ours}


def test_routes_of_the_documents_networks():
    """A leaf has domains 1 and 2 of a rail; the next rail is three switches away where a pod has both, else five."""
    routes = rail_networks.route_survey(256)
    assert set(routes.next_domain) == {1} and set(routes.next_rail) == {3} and set(routes.rails) == {256}
    assert set(routes.bisection) == {1} and set(routes.nics_kept) == {0}
    servers = wiring.whole_wiring(rail_optimized(32768, 8, 64))  # a pod has 1,024 of a rail's 4,096 GPUs
    assert reach.switches_on_the_way(replace(servers, hb_share=np.zeros(32768)), 9) == 5
    by_case = routes.set_index(["gpus", "radix"]).pod_rails
    assert by_case[32768, 256] == 1 and by_case[32768, 64] == 32**2 * 256 // 32768


def test_least_saving_radix():
    rows = pd.DataFrame({"gpus": [1, 1, 2, 2], "radix": [64, 128, 64, 128], "cost_saving": [0.3, 0.2, 0.4, 0.4]})
    assert rail_networks.least_saving_radix(rows) == 128
    assert rail_networks.least_saving_radix(rows.assign(cost_saving=[0.2, 0.3, 0.4, 0.4])) == 64
    assert rail_networks.least_saving_radix(rows.assign(cost_saving=[0.2, 0.3, 0.4, 0.3])) == 0
    assert rail_networks.least_saving_radix(rows.assign(cost_saving=0.3)) == 64  # the smallest of tied ones


# Prices that the savings allow

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
    bounds = table1.ratio_bounds(pd.DataFrame(counts), low, high)
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


@pytest.mark.parametrize(
    ("kept", "fits"),  # of the ports, of the transceivers; savings of 0 and more
    [
        ((0.75, 0.5), [False, False, True, False]),
        ((0.5, 0.75), [False, False, True, False]),
        ((1, 1), [True] + 3 * [False]),
    ],
)
def test_saving_that_no_ratio_or_any_gives(kept, fits):
    counts = {"ports_rail_optimized": 8.0, "transceivers_rail_optimized": 8.0}
    counts |= {"ports_rail_only": 8 * kept[0], "transceivers_rail_only": 8 * kept[1]}
    rows = pd.DataFrame({"gpus": [1] * 4, "radix": 4, **counts})
    bounds = table1.ratio_bounds(rows, [0.0, 0.1, 0.3, 0.6], [0.005, 0.2, 0.4, 0.7])
    assert list(bounds.least <= bounds.most) == fits
    if fits[0]:
        assert (bounds.least[0], bounds.most[0]) == (0, math.inf)


def test_the_books_solved_from_two_claims_fit_all_printed_savings():
    prices, powers = BOOKS_2025
    largest = ROWS_2025[ROWS_2025.gpus == 65536].iloc[0]
    ratio = table1._ratio_for_total(largest, largest.cost_usd_rail_optimized, prices.port + prices.transceiver)
    assert ratio == pytest.approx(prices.transceiver / prices.port)
    fits = table1.fitted_books(ROWS_2025, prices, powers)
    assert (fits.r_from < fits.r_to).all()
    rounded = fits[fits.digits == "rounded"]
    assert ((rounded.r_from < rounded["r of the book"]) & (rounded["r of the book"] < rounded.r_to)).all()
    sums = "port + transceiver of the book", "port + transceiver, solved"
    assert list(rounded[sums[0]]) == pytest.approx(list(rounded[sums[1]]), rel=1e-3)


def test_a_table_as_the_documents_print_theirs_has_their_percentages_unless_the_numbers_are_the_readers(monkeypatch):
    shown = rail_networks.printed_table(ROWS_2025, TABLES[0])
    assert shown["cost saved (document)"].iloc[1] == "76.5% (77%)" and shown["power saved [MW]"].iloc[-1] == "6.9"
    assert shown["switches, rail-optimized → rail-only"].iloc[0] == "2,560 → 1,536" and shown.shape[1] == 8
    rows = rail_networks.savings_table(TABLES[1], 256, BOOK_2023, WATTS)
    assert rail_networks.printed_table(rows, TABLES[1])["cost saved (document)"].iloc[0] == "54.5% (54%)"
    of_2025, of_2023 = table1.table1_claims(256, *BOOKS_2025).values, table2.table2_claims(256, BOOK_2023, WATTS).values
    assert "24 of 24 counts" in rail_networks.table_title(TABLES[0], ROWS_2025, 256, *BOOKS_2025)
    assert "30 of 30 counts" in rail_networks.table_title(TABLES[1], rows, 256, BOOK_2023, WATTS)
    of_text = table1.table1_words(ROWS_2025, of_2025)
    assert "from 4 of" in of_text and "117 M USD to 234 M USD (at 65,536 GPUs) and 1.7 MW to 6.9 MW" in of_text
    ratio = "At radix 64 its text has rail-only with 75% of the switches; the table has 60%."
    assert of_text.endswith(ratio) and "SOTA" in table2.table2_words(of_2023) and ratio in table2.table2_words(of_2023)
    monkeypatch.setattr(workspace, "parameterized", lambda: True)
    assert rail_networks.printed_table(ROWS_2025, TABLES[0])["cost saved"].iloc[1] == "76.5%"
    assert "document" not in rail_networks.table_title(TABLES[0], ROWS_2025, 256, *BOOKS_2025)
    assert not table1.cost_marks({}) and table1.table1_words(ROWS_2025, of_2025) == table2.table2_words(of_2023) == ""


def test_notes_say_where_lines_of_one_rate_meet_and_what_contradicts():
    curve = table1.link_rate_costs([8192, 65536], 256, [(5e10, 64), (5e10, 128), (1e11, 64)], *BOOKS_2025)
    values = table1.table1_claims(256, *BOOKS_2025).values
    meet, contradiction = table1.cost_notes(curve, values)
    assert "400 Gbps" in meet and "the same tiers, 3 at 65,536 GPUs" in meet and "6.9 MW" in contradiction
    assert len(table1.cost_notes(curve[curve["gpus"] == 8192], values)) == 1


def test_curve_of_link_rates():
    curve = table1.link_rate_costs([1024, 4096], 256, [(5e10, 64), (1e11, 64)], *STREET)
    same, double = (curve[curve.link_rate == rate].set_index("gpus") for rate in (5e10, 1e11))
    for what, family in (("cost_usd", "prices"), ("power_w", "powers")):
        exponent = catalog.item(family, "scaling")["rate_exponent"]
        assert list(double[what] / same[what]) == pytest.approx([2**exponent] * 2)
    assert same.cost_usd[1024] == pytest.approx(
        float(bill_total(rail_optimized(1024, 256, 64).parts.bill(), STREET[0]))
    )
    assert list(dict.fromkeys(curve.link)) == ["400 Gbps, radix 64", "800 Gbps, radix 64"]


# Redundant parts


@pytest.mark.parametrize(("fabric", "hosts"), [(rail_only(64, 4, 16), [16]), (rail_only(256, 4, 16), [8, 8])])
def test_spare_switches(fabric, hosts):
    """Rails of 16 GPUs have one switch, rails of 64 have leaves with 8 of 16 ports down."""
    parts, dark, lit = fabric.parts, *(table2.parts_with_spares(fabric, optics) for optics in (False, True))
    for spared in (dark, lit):
        assert list(spared.switches_by_tier - parts.switches_by_tier) == [4, *[0] * (fabric.tiers - 1)]
    assert list(dark.links_by_tier) == list(parts.links_by_tier)
    assert list(lit.links_by_tier - parts.links_by_tier) == [4 * host for host in hosts]
    alone = rail_only(8, 8, 4)
    assert table2.parts_with_spares(alone, True) is alone.parts  # no network needs no spares


def test_a_switch_that_rails_share_has_one_spare():
    """Two rails of 8 GPUs fill a switch of 16 ports: two switches for four rails, and a spare for each is all again."""
    shared = rail_only(32, 4, 16, rails_per_switch=None)
    dark, lit = (table2.parts_with_spares(shared, optics) for optics in (False, True))
    assert [list(parts.switches_by_tier) for parts in (shared.parts, dark, lit)] == [[2], [4], [4]]
    assert list(lit.links_by_tier) == [2 * links for links in shared.parts.links_by_tier]


def test_redundancy_as_the_ledger_notes_it():
    cases = rail_networks.table_cases("railonly2023.table2")
    shared = table2.redundancy_costs(cases, 256, BOOK_2023, None)
    noted = re.findall(r"\d\.\d\d", claims.claim("railonly2023.fault.redundant_cost_ratio").note)
    ours = [shared.spare_switch_and_optics.max(), shared.spare_switch.max(), shared.everything_doubled.max()]
    assert [f"{ratio:.2f}" for ratio in ours] == noted
    savings = rail_networks.savings_table("railonly2023.table2", 256, BOOK_2023, WATTS).cost_saving
    assert list(1 - shared.none) == pytest.approx(list(savings))


# Cost over years, one input at a time


def test_sensitivity_lies_about_its_centre():
    rows = rail_networks.book_rows(*STREET)
    swing = rail_networks.ownership_sensitivity(**OWNED, ranges=rows)
    centre = rail_networks.ownership_saving(**OWNED, inputs={name: row.value for name, row in rows.items()})
    assert list(swing.centre) == [centre] * len(rows) and swing.attrs["warnings"] == ()
    low, high = swing[["at_low", "at_high"]].min(axis=1), swing[["at_low", "at_high"]].max(axis=1)
    assert ((low <= centre) & (centre <= high)).all()
    # ports are what rail-only saves most of: dearer ports raise the saving, dearer transceivers lower it
    by_input = swing.set_index(swing.input.str.partition(" [")[0])
    assert by_input.at_high["port price"] > by_input.at_low["port price"]
    assert by_input.at_high["transceiver price"] < by_input.at_low["transceiver price"]


def test_an_input_without_bounds_moves_nothing_and_is_named():
    rows = rail_networks.book_rows(*STREET) | {"pue": catalog.item("prices", "energy").row("pue_low_flops2024")}
    swing = rail_networks.ownership_sensitivity(**OWNED, ranges=rows)
    still = swing[swing.input == "PUE"].iloc[0]
    assert still.low == still.high and still.swing == 0 and still.at_low == still.at_high == still.centre
    assert (swing.swing[swing.input != "PUE"] > 0).all()
    (text,) = swing.attrs["warnings"]
    assert "PUE of energy" in text and "port price" not in text
