"""The bill of materials: the same cluster costs and draws the same through every entry point, for the same boundary."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import catalog, datacenter
from railcore.catalog.units import Gbps
from railcore.datacenter import rack_network
from railcore.deploy import cluster_cost
from railcore.deploy.cluster import Cluster
from railcore.network import cost, price_books
from railcore.network.bill import (
    BETWEEN_SWITCHES,
    NETWORK,
    bill_counts,
    bill_table,
    bill_total,
    bill_totals,
    include_text,
    merged_bill,
)
from railcore.network.price_books import ItemBook, PriceBook, switch_book
from railcore.network.switches import switch_model
from railcore.network.topology.bill_line import SCOPES, BillLine
from railcore.network.topology.rails import rail_only, rail_optimized
from suite.deployment.part_counts import bill_of_parts, design_parts
from suite.deployment.segment_sizing import SegmentDemand, smallest_segment_fabric
from suite.flops2024 import scale_out
from suite.photonic2025 import photonic_cost

NUMBER = st.floats(0, 1e4)
NIC = 400 * Gbps
GPUS, DOMAIN, RADIX = 4096, 8, 128
STREET = price_books.matching_books("street2025")
OF_SWITCH = tuple(
    replace(switch_book(family, "SN5600", "800G 2xDR4", NIC), circuit_port=1) for family in ("prices", "powers")
)


def entry_points(prices, powers):
    """(USD, W) of the network that joins the rails of 4,096 GPUs at full bisection, by who is asked."""
    shape = {"gpus": GPUS, "hb_domain_size": DOMAIN, "radix": RADIX}
    books = {"prices": prices, "powers": powers}
    row = cost.cluster_networks(**shape, oversubscription=1, **books).set_index("network").loc["rail-optimized"]
    found = {"cluster_networks": (row.cost_usd, row.power_w)}
    row = cost.compare_rail_networks(**shape, **books).iloc[0]
    found["compare_rail_networks"] = row.cost_usd_rail_optimized, row.power_w_rail_optimized
    table = (
        cost.cluster_breakdown(**shape, oversubscription=1, **books).groupby("network")[["cost_usd", "power_w"]].sum()
    )
    found["cluster_breakdown"] = tuple(table.loc["rail-optimized"])
    table = photonic_cost.photonic_network_costs(**shape, **books).set_index("network")
    found["photonic_network_costs"] = tuple(table.loc["rail-optimized", ["cost_usd", "power_w"]])
    cluster = Cluster(GPUS // DOMAIN, DOMAIN, oversubscription=1.0, nic_Bps=NIC)
    row = cluster_cost.cluster_network_parts(cluster, prices, powers).set_index("network").loc["scale-out"]
    found["cluster_network_parts"] = row.cost_usd, row.power_w
    network = rack_network.RackNetwork(DOMAIN, RADIX, prices, powers)
    sized = datacenter.datacenter_size(gpus=GPUS, platform="DGX H100", network=network)
    found["size"] = sized.network_usd, sized.network_w
    demand = SegmentDemand(GPUS, switch_model("SN5600"), rails_apart=False)
    bill = bill_of_parts(design_parts(smallest_segment_fabric(demand).fabric))
    found["design_parts"] = tuple(float(bill_total(bill, book)) for book in (prices, powers))
    return found


@pytest.mark.parametrize("books", [STREET, OF_SWITCH], ids=["street2025", "SN5600"])
def test_every_entry_point_has_the_same_network(books):
    found = entry_points(*books)
    by_hand = [192 * RADIX // 2 * book.port + 4 * GPUS * book.transceiver for book in books]  # 64 leaves, 32 spines
    for name, pair in found.items():
        assert pair == pytest.approx(by_hand), name


def test_items_cost_what_the_book_of_their_switch_says():
    """Where all interfaces of modules and switches are full, prices by item and by kind are the same."""
    demand = SegmentDemand(GPUS, switch_model("SN5600"), rails_apart=False)
    parts = design_parts(smallest_segment_fabric(demand).fabric)
    between, links = bill_of_parts(parts[parts["where"] != "host"]), parts[parts["part"] == "links"]
    (optic,) = set(links.loc[links["where"] == "spine", "item"])
    for family, what in (("prices", "price"), ("powers", "power"), ("powers", "typical_power")):
        book = switch_book(family, "SN5600", optic, NIC)
        by_kind = book.typical if what == "typical_power" else book
        items = bill_total(between, ItemBook(what), BETWEEN_SWITCHES)
        assert float(items) == pytest.approx(float(bill_total(between, by_kind, BETWEEN_SWITCHES)))


def test_scale_out_networks_leave_the_links_to_hosts_out_and_say_so():
    books = [book.at_rate(2 * NIC) for book in STREET]
    row = scale_out.rail_plane_networks(GPUS, DOMAIN, 1, scale_out.Equipment("51.2T", 2 * NIC, *books)).iloc[0]
    bill = rail_only(GPUS, DOMAIN, 64).parts.bill()
    assert row.includes == include_text(BETWEEN_SWITCHES) == "switches, switch links"
    found = row.cost_usd, row.power_w, row.cost_usd + row.host_links_usd
    wanted = (books[0], BETWEEN_SWITCHES), (books[1], BETWEEN_SWITCHES), (books[0], NETWORK)
    assert found == pytest.approx([float(bill_total(bill, *each)) for each in wanted])
    assert row.typical_power_w == pytest.approx(float(bill_total(bill, books[1].typical, BETWEEN_SWITCHES)))


@given(st.integers(1, 5000), st.integers(1, 80), st.sampled_from([16, 64]), NUMBER, NUMBER, NUMBER, st.integers(0, 3))
def test_scopes_add_up(gpus, domain, radix, port, transceiver, cable, copper):
    parts, book = rail_optimized(gpus, domain, radix).parts, PriceBook(port, transceiver, cable)
    bill = parts.bill(copper)
    each = {scope: float(bill_total(bill, book, (scope,))) for scope in SCOPES}
    assert sum(each.values()) == pytest.approx(float(bill_total(bill, book, SCOPES)))
    assert each["switches"] + each["switch links"] == pytest.approx(float(bill_total(bill, book, BETWEEN_SWITCHES)))
    assert each["NICs"] == 0
    if copper == 0:  # the two ends of a link
        assert each["host links"] == each["host optics"]
    else:
        assert (each["host links"], each["host optics"]) == (parts.links_by_tier[0] * cable, 0)
    assert float(bill_total(bill, book, ())) == 0
    table = bill_table(bill, book, book)
    assert table.cost_usd.sum() == table.power_w.sum() == pytest.approx(float(bill_total(bill, book)))
    assert set(table.tier[table.part == "copper cable"]) <= set(range(1, copper + 1))


def test_modules_are_fewer_than_ends_where_they_have_two_ports():
    """A reference design of 127 nodes of 8 GPUs: modules of two ports at switches and at servers."""
    parts = rail_optimized(127 * 8, 8, 64).parts
    assert parts.links == 2 * 1016 + 8  # rails of 127 over pairs of leaves
    one, two = (PriceBook(1, 1, ends_per_module=ends) for ends in (1, 2))
    ends = bill_counts(parts.bill(), one)
    assert ends["link_ends"] == ends["transceivers"] == parts.link_ends == 4080
    twin = bill_counts(parts.bill(), two)
    assert (twin["link_ends"], twin["transceivers"]) == (4080, 2040)
    assert float(bill_total(parts.bill(), one)) == pytest.approx(
        float(bill_total(parts.bill(), two))
    )  # a price is of an end


def test_typical_power_stands_beside_the_listed_maximum():
    prices, powers = STREET
    totals = bill_totals(rail_optimized(GPUS, DOMAIN, RADIX).parts.bill(), prices, powers)
    assert totals["power_w"] == 96 * RADIX * powers.port + 4 * GPUS * powers.transceiver
    assert totals["typical_power_w"] == 96 * RADIX * powers.typical_port + 4 * GPUS * powers.transceiver
    without = bill_totals(rail_optimized(GPUS, DOMAIN, RADIX).parts.bill(), prices, powers.listed)
    assert "typical_power_w" not in without and PriceBook(1, 1).typical is None
    assert powers.at_rate("800 Gbps").typical_port == pytest.approx(2 * powers.typical_port)
    for name in catalog.names("switches"):
        item = catalog.item("switches", name)
        assert item["typical_power"] < item["power"]


def test_a_line_has_its_own_rate():
    line, book = BillLine("switch", "switches", 64, rate_Bps=2 * NIC), PriceBook(100, 10, rate_Bps=NIC, unit="USD")
    assert float(book.of(line)) == pytest.approx(64 * book.at_rate(2 * NIC).port)


@given(st.integers(1, 5000), st.integers(1, 80), st.integers(0, 3), st.sampled_from([1, 2]))
def test_a_merged_bill_has_the_same_total_and_counts(gpus, domain, copper, ends):
    bill, book = rail_optimized(gpus, domain, 16).parts.bill(copper), PriceBook(3, 5, 7, ends_per_module=ends)
    merged = merged_bill(bill)
    assert len({(line.part, line.scope) for line in bill}) == len(merged)
    for include in ((), BETWEEN_SWITCHES, NETWORK):
        assert float(bill_total(merged, book, include)) == pytest.approx(float(bill_total(bill, book, include)))
        assert bill_counts(merged, book, include) == bill_counts(bill, book, include)
