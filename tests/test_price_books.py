"""Books of prices and powers: the catalog's, one's own, at other link rates; and that one book serves a whole table."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from railcore import catalog
from railcore.catalog import files
from railcore.network import cost, price_books
from railcore.network.bill import bill_total
from railcore.network.switches import TECHNOLOGIES
from railcore.network.topology.rails import rail_only
from suite.railonly2025 import table1

CLUSTER = (4096, 16, 32)
OWNED = {"years": 5, "electricity_price": 2e-8, "pue": 1.2}
STREET = price_books.matching_books("street2025")
TABLES_OF_A_CLUSTER = [
    lambda *books: cost.cluster_networks(*CLUSTER, 4, *books),
    lambda *books: cost.cluster_breakdown(*CLUSTER, 4, *books),
    lambda *books: cost.compare_rail_networks(*CLUSTER, *books),
    lambda *books: cost.ownership_costs(*CLUSTER, *books, **OWNED),
]
OURS = """name,parameter,value,low,high,unit,kind,source,as_of,note
ours,bandwidth,{rate},,,Gbps,measured,our quote,2026,
ours,port_price,600,,,USD,measured,our quote,2026,
ours,transceiver_price,400,300,500,USD,assumed,our estimate,2026,
"""


def our_powers(rate):
    return OURS.format(rate=rate).replace("price", "power").replace("USD", "W")


@pytest.fixture
def own_catalog(tmp_path, monkeypatch):
    """Gives write(family, text): a family of a catalog of one's own, which counts from then on."""

    def write(family, text):
        folder = tmp_path / f"catalog{len(list(tmp_path.iterdir()))}"  # families are read once from each folder
        folder.mkdir()
        (folder / f"{family}.csv").write_text(text)
        monkeypatch.setenv("RAILCORE_CATALOG", str(folder))

    return write


@pytest.mark.parametrize("part", ["port", "transceiver"])
@pytest.mark.parametrize(("technology", "book"), TECHNOLOGIES.items())
def test_prices_of_plans_are_means_of_offers(technology, book, part):
    """Each seller or document has one vote, the geometric mean of its offers; a price, the geometric mean of votes."""
    offers = pd.read_csv(files.data("measured/link_prices.csv")).query("technology == @technology and part == @part")
    each_usd = offers["price_usd"] / offers["units"]
    votes = np.log(each_usd).groupby(offers["seller"]).mean()
    row = catalog.item("prices", book).row(f"{part}_price")
    assert row.value == round(np.exp(votes.mean())) and len(votes) > 1
    assert (row.low, row.high) == (each_usd.min(), each_usd.max())
    assert f"over {len(votes)} sellers" in row.source


def test_powers_of_plans_leave_optics_to_the_transceivers():
    """Ports and ends of a full switch draw what the makers print for it with optics, within a fifth."""
    for book, ports, printed_W in (("ethernet2026", 128, 2080), ("infiniband2026", 64, 1720)):
        powers = price_books.power_book(book)
        assert ports * (powers.port + powers.transceiver) == pytest.approx(printed_W, rel=0.2)
        assert powers.typical_port < powers.port


def test_a_book_of_ones_own_without_powers_and_copper(own_catalog):
    own_catalog("prices", OURS.format(rate=400))
    prices, powers = price_books.matching_books("ours")
    default = price_books.price_book(price_books.DEFAULT_BOOK), price_books.power_book(price_books.DEFAULT_BOOK)
    assert (prices.port, prices.transceiver, prices.cable) == (600, 400, default[0].cable)
    assert powers == default[1]
    rows = cost.ownership_costs(*CLUSTER, prices, powers, **OWNED)
    copper = rows.set_index("host_links").price_book
    assert set(copper["optics"]) == {"ours (400 Gbps)"}
    assert set(copper["copper"]) == {"ours (400 Gbps), copper of street2025"}
    assert set(rows.power_book) == {"street2025 (400 Gbps)"}
    assert price_books.books_text(prices, powers) == "prices of ours, powers of street offers of 2025"
    assert price_books.books_text(*default) == "prices and powers of street offers of 2025"


def test_powers_of_another_link_rate_are_scaled_and_say_so(own_catalog):
    own_catalog("prices", OURS.format(rate=800))
    prices, powers = price_books.matching_books("ours")
    default = price_books.power_book(price_books.DEFAULT_BOOK)
    assert (powers.port, powers.transceiver) == (2 * default.port, 2 * default.transceiver)
    assert prices.cable == 2 * price_books.price_book(price_books.DEFAULT_BOOK).cable
    scaled = "street2025 (scaled from 400 Gbps to 800 Gbps)"
    assert powers.label() == scaled and prices.label() == "ours" and prices.label(rate=True) == "ours (800 Gbps)"
    assert prices.label(copper=True) == f"ours, copper of {scaled}"
    assert powers.warnings == ("Powers of street2025 are of 400 Gbps links: they are scaled to 800 Gbps.",)
    assert prices.warnings == ()


def test_powers_without_a_link_rate_are_at_that_of_the_prices(own_catalog):
    head, rate, *rows = our_powers(800).splitlines()
    own_catalog("powers", "\n".join([head, *rows]))
    assert price_books.power_book("ours").rate_Bps is None
    prices, powers = price_books.matching_books("flops2024", "ours")
    assert (powers.port, powers.rate_Bps, powers.label()) == (600, prices.rate_Bps, "ours")
    assert powers.cable == 2 * price_books.power_book(price_books.DEFAULT_BOOK).cable
    curve = table1.link_rate_costs([4096], 8, [(5e10, 64)], prices, powers)
    assert curve.power_book.tolist() == ["ours (scaled from 800 Gbps to 400 Gbps)"]
    own_catalog("powers", "\n".join([head, rate, *rows]))
    assert price_books.matching_books("street2025", "ours")[1].port == 300


def test_copper_and_circuits_of_another_book_are_inputs_only_where_they_are_used():
    with catalog.recording() as made:
        prices = price_books.matching_books("flops2024")[0].at_rate(5e10)
    with catalog.recording() as used:
        costs = prices.cable, prices.circuit
    default = price_books.price_book(price_books.DEFAULT_BOOK)
    assert costs == (default.dac, default.circuit_port)
    rows = {("prices", price_books.DEFAULT_BOOK, f"{part}_price") for part in ("dac", "circuit_port")}
    assert not rows & set(made) and rows <= set(used)


def test_copper_is_scaled_as_the_rest_and_says_so(own_catalog):
    head, ours = our_powers(800).split("\n", 1)
    own_catalog("powers", f"{head}\nscaling,rate_exponent,0.7,,,1,measured,ours,2026,\n{ours}")
    own, default = price_books.power_book("ours"), price_books.power_book("street2025")
    scaled = price_books.matching_books("flops2024")[1]
    assert own.cable == scaled.cable == pytest.approx(2**0.7 * default.cable)


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


def test_a_book_without_copper_is_refused_where_it_needs_it():
    book = price_books.PriceBook(1, 1, name="mine")
    with pytest.raises(ValueError, match="book 'mine' has no dac"):
        bill_total(rail_only(512, 8, 16).parts.bill(1), book)
    rows = cost.ownership_costs(*CLUSTER, book, book, **OWNED)
    assert list(rows.host_links) == ["optics"] * 2 and "'mine' has no dac" in rows.attrs["warnings"][0]


@pytest.mark.parametrize("table", TABLES_OF_A_CLUSTER)
def test_books_in_each_others_place_are_refused(table):
    texts = price_books.PriceBook(port="600 USD", transceiver="400 USD", name="mine")
    with pytest.raises(ValueError, match="prices is book 'street2025', which is in W: give one in USD"):
        table(STREET[1], STREET[0])
    with pytest.raises(ValueError, match="powers is book 'mine', which is in USD: give one in W"):
        table(STREET[0], texts)
    table(price_books.PriceBook(1, 1), price_books.PriceBook(2, 1))  # numbers alone do not tell
    with pytest.raises(ValueError, match="port is '6 W': give a number in USD"):
        price_books.PriceBook("6 W", 1, unit="USD")


@pytest.mark.parametrize("table", TABLES_OF_A_CLUSTER)
def test_powers_of_another_link_rate_than_the_prices_are_refused(table):
    prices = price_books.PriceBook(900, 700, 90, name="mine", rate_Bps="800 Gbps", unit="USD")
    with pytest.raises(ValueError, match="prices of mine are of 800 Gbps links, powers of street2025 of 400 Gbps"):
        table(prices, STREET[1])
    table(prices, price_books.PriceBook(20, 10, 0.1))
    scaled = table(prices, STREET[1].at_rate("800 Gbps"))
    assert scaled.attrs["warnings"] == ("Powers of street2025 are of 400 Gbps links: they are scaled to 800 Gbps.",)
    assert set(scaled.price_book) == {"mine (800 Gbps)"}
    assert all(text.startswith("street2025 (scaled from 400 Gbps to 800 Gbps)") for text in scaled.power_book)


def test_books_for_links_of_another_rate_follow_the_catalogs_rule(own_catalog):
    head = "name,parameter,value,low,high,unit,kind,source,as_of,note\n"
    own_catalog("prices", f"{head}scaling,rate_exponent,0.8,,,1,measured,ours,2026,\n")
    dear = price_books.matching_books("flops2024")
    prices, powers = price_books.matching_books("flops2024", rate_Bps="400 Gbps")
    for part in ("port", "transceiver"):
        assert getattr(prices, part) == pytest.approx(getattr(dear[0], part) / 2**0.8)
        assert getattr(powers, part) == getattr(price_books.power_book("street2025"), part)
    assert prices == price_books.book_of_links("prices", dear[0], 5e10) == dear[0].at_rate("400 Gbps")
    for table in TABLES_OF_A_CLUSTER[:3]:
        full, half = (table(*books).filter(like="cost_usd").to_numpy() for books in (dear, (prices, powers)))
        assert half == pytest.approx(full / 2**0.8)


def test_a_book_that_cannot_be_scaled_is_refused():
    plain = price_books.PriceBook(2, 4, name="mine")
    with pytest.raises(ValueError, match="book 'mine' has no rate_Bps, and links are of 400 Gbps"):
        price_books.book_of_links("prices", plain, 5e10)
    assert price_books.book_of_links("prices", plain) is plain
    with pytest.raises(ValueError, match="rate_Bps is 'fast': give"):
        STREET[0].at_rate("fast")
    of_no_unit = price_books.PriceBook(2, 4, name="mine", rate_Bps=5e10)
    with pytest.raises(ValueError, match=r"book 'mine' is of 400 Gbps links.*give its unit, 'USD' or 'W'"):
        of_no_unit.at_rate(1e11)
    for family, port in (("prices", 4), ("powers", 4)):  # its place tells
        assert price_books.book_of_links(family, of_no_unit, 1e11).port == port


def test_a_book_of_split_nics_is_that_of_their_ports():
    prices = STREET[0]
    assert prices.of_ports(1) is prices
    assert prices.of_ports(4) == prices.at_rate(prices.rate_Bps / 4) != prices
    plain = price_books.PriceBook(2, 4, name="mine")
    assert plain.of_ports(1) is plain
    with pytest.raises(ValueError, match="book 'mine' has no rate_Bps, and NICs are split into 2 ports: give"):
        plain.of_ports(2)


def test_a_scaled_book_says_so():
    book = price_books.PriceBook(2, 4, name="mine", rate_Bps=5e10, unit="USD")
    faster = book.at_rate(1e11)
    assert (faster.port, faster.label()) == (4, "mine (scaled from 400 Gbps to 800 Gbps)")
    assert replace(book, rate_exponent=0.5).at_rate(2e11).transceiver == 8 and book.at_rate(5e10) is book
    assert faster.at_rate(2e11).label() == "mine (scaled from 400 Gbps to 1.6 Tbps)"
    assert (faster.at_rate(5e10).label(), faster.at_rate(5e10).warnings) == ("mine", ())
    flops = price_books.price_book("flops2024")
    assert flops.label(copper=True) == "flops2024, copper of street2025 (scaled from 400 Gbps to 800 Gbps)"
    slower = flops.at_rate(5e10)  # copper at the rate that it is listed at
    assert slower.cable == price_books.price_book("street2025").cable
    assert slower.label(copper=True) == "flops2024 (scaled from 800 Gbps to 400 Gbps), copper of street2025"


def test_a_book_takes_dollars_as_people_type_them():
    book = price_books.PriceBook(port="$600", transceiver="300 usd", rate_Bps="400 Gbps", name="ours")
    assert (book.port, book.transceiver, book.unit) == (600, 300, "USD")
    with pytest.raises(ValueError, match="mixes USD and W"):
        price_books.PriceBook(port="$600", transceiver="9 w", rate_Bps="400 Gbps", name="ours")
