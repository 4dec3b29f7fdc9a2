"""What parts take with them, against the graph; the three ways to put rails on switches beside each other."""

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_segments import fabrics

from railcore import catalog
from railcore.catalog.units import Gbps
from railcore.deploy.cabling import catalog_floor
from railcore.network.bill import bill_total
from railcore.network.price_books import ItemBook
from railcore.network.reliability import expected_failures
from railcore.network.switches import switch_model
from suite.charts import segment_designs
from suite.deployment.design_build import (
    build_design,
    build_designs,
    design_cost_by_part,
    design_lengths,
    designs_sizing,
    largest_cost_difference,
)
from suite.deployment.design_comparison import design_measures, rails_words
from suite.deployment.part_counts import (
    LOSSES,
    bill_of_parts,
    cost_of_parts,
    design_parts,
    expected_losses,
    parts_that_fail,
)
from suite.deployment.resilience import failure_domains
from suite.deployment.segment_sizing import SegmentDemand, smallest_segment_fabric
from suite.deployment.segments import SegmentFabric
from suite.deployment.subnets import AddressPlan

SN5600, NEXUS = switch_model("SN5600"), switch_model("Nexus 9348D-GX2A")
FLOOR = catalog_floor("GPU hall")


def sized(gpus, rails_per_switch, **options):
    demand = SegmentDemand(gpus, SN5600, rails_per_switch=rails_per_switch, **options)
    return AddressPlan(smallest_segment_fabric(demand).fabric, bundling="none")


def built(gpus, rails_per_switch, switch=SN5600, addresses=None, **options):
    demand = SegmentDemand(gpus, switch, rails_per_switch=rails_per_switch, **options)
    return build_design(demand, FLOOR, addresses=addresses or {"bundling": "none"})


def failing_parts(design):
    return parts_that_fail(design, design_parts(design))


def counted_in_graph(fabric, chassis):
    """GPUs without a host link, and GPUs whose server has none, once a switch has failed."""
    graph = fabric.graph()
    graph.remove_nodes_from([node for node, at in graph.nodes(data=True) if at.get("chassis") == chassis])
    linked = {
        (at["domain"], node): any(edge["kind"] == "host" for *_, edge in graph.edges(node, data=True))
        for node, at in graph.nodes(data=True)
        if at["kind"] == "gpu"
    }
    dead = [domain for domain, _ in linked if not any(has for (other, _), has in linked.items() if other == domain)]
    return sum(not has for has in linked.values()), len(dead)


@given(fabrics())
def test_what_a_switch_takes_is_what_the_graph_loses(fabric):
    parts = failing_parts(fabric).set_index("part")
    for role, name in (("rail switch", "Pod1.Seg1.Leaf1"), ("spine", "Pod1.Spine1"), ("super-spine", "Super1")):
        if role in parts.index:
            assert tuple(parts.loc[role, ["nic_lost", "server_lost"]]) == counted_in_graph(fabric, name)
    for row in failure_domains(fabric).itertuples():
        assert (row.gpus_lost, row.switches) == tuple(parts.loc[row.role, ["nic_lost", "count"]])


@settings(max_examples=10)
@given(fabrics(), st.sampled_from(LOSSES))
def test_losses_are_those_of_the_mean_part(fabric, loss):
    """The same totals as `expected_failures` gives for the mean over all parts of a kind."""
    parts, ours = failing_parts(fabric), expected_losses(fabric, loss, design_parts(fabric))
    lost = parts["count"] * parts[f"{loss.lower()}_lost"]
    counts = parts.groupby("kind", sort=False)["count"].sum()
    mean = lost.groupby(parts["kind"], sort=False).sum() / counts
    taken = pd.DataFrame({"part": counts.index, "kind": counts.index, "count": counts.to_numpy(), "share_lost": 1.0})
    whole = expected_failures(taken.assign(gpus_stopped=mean.to_numpy(), gpus_slowed=mean.to_numpy()))
    assert ours["lost_gpu_hours_per_year"].sum() == pytest.approx(whole["lost_gpu_hours_per_year"].sum())
    yearly = (whole["events_per_year"] * whole["part"].map(mean)).sum()
    assert ours["gpus_lost_per_year"].sum() == pytest.approx(yearly)


@given(fabrics())
def test_a_tier_carries_the_bandwidth_of_its_links(fabric):
    parts = failing_parts(fabric).set_index("part")
    carried = parts["count"] * parts["bandwidth_lost"]
    assert carried["rail switch"] == pytest.approx(fabric.gpus)
    assert carried["host link"] == pytest.approx(fabric.gpus)
    for role in ("spine", "super-spine"):
        if role in parts.index:
            assert carried[role] == pytest.approx(carried[f"{role} link"])


@pytest.mark.parametrize("gpus", [1024, 16_384])
def test_rails_per_switch_change_what_is_left_of_a_server_not_how_many_nics_are_lost(gpus):
    designs = [built(gpus, r) for r in (8, 4, 2, 1)]
    table = design_measures(designs)
    assert table["design"].tolist() == ["multi-rail", "4 rails", "dual-rail", "single-rail"]
    optics = [
        expected_losses(design.plan, "NIC", design_parts(design.plan))["gpus_lost_per_year"].sum() for design in designs
    ]
    assert optics == pytest.approx([optics[0]] * 4)  # copper alone makes a difference
    assert (table["gpus_cut_off_per_year"] > 0).tolist() == [True, False, False, False]
    assert (table["gpus_lost"] == [design.fabric.host_ports for design in designs]).all()
    assert (table["routes_with_summaries"] <= table["routes_of_subnets"] + 1).all()
    assert table["share_of_ports_used"].between(0, 1).all()


def test_two_homes_lose_no_nic_to_a_switch_and_no_more_bandwidth():
    one, two = built(1024, 2), built(1024, 2, nic_ports=2, port_Bps=200 * Gbps)
    table = design_measures([one, two])
    assert table["gpus_lost"].tolist() == [one.fabric.host_ports, 0]
    assert table["nics_lost_per_year"].iloc[1] < table["nics_lost_per_year"].iloc[0]
    losses = [expected_losses(plan.fabric, "bandwidth", design_parts(plan.fabric)) for plan in (one, two)]
    hours = [rows.set_index("part").loc["rail switch", "lost_gpu_hours_per_year"] for rows in losses]
    assert hours[0] == pytest.approx(hours[1])


@pytest.mark.parametrize("rails_per_switch", [8, 2, 1])
def test_cables_grow_with_the_servers_that_share_a_switch(rails_per_switch):
    floor = FLOOR
    lengths = design_lengths(sized(4096, rails_per_switch).fabric, floor, 4)
    assert list(lengths) == ["host", "spine"] and lengths["host"] < lengths["spine"]
    wider = design_lengths(sized(4096, max(rails_per_switch // 2, 1)).fabric, floor, 4)
    assert wider["host"] >= lengths["host"]
    assert set(design_lengths(sized(65_536, rails_per_switch).fabric, floor, 4)) == {"host", "spine", "super-spine"}
    (one_rack,) = design_lengths(SegmentFabric(4, SN5600), floor, 4).values()
    assert one_rack == pytest.approx(2 * floor.drop_m * (1 + floor.slack))  # up to the tray and down


def test_power_is_that_of_the_parts():
    plan = sized(4096, 8)
    parts = design_parts(plan, {"host": 2.0, "spine": 30.0})
    bill, box = bill_of_parts(parts), catalog.item("switches", "SN5600")
    for what in ("power", "typical_power"):
        count = parts[parts["part"] == "switches"]["count"].sum()
        assert bill_total(bill, ItemBook(what), ("switches",)) == pytest.approx(count * box[what])
        assert bill_total(bill, ItemBook(what)) > count * box[what]
    ends = parts[parts["part"] == "links"].set_index("where")
    copper, optic = (catalog.item("transceivers", ends.loc[[where], "item"].iloc[0]) for where in ("host", "spine"))
    links = (
        2 * copper["power"] * ends.loc[["host"], "count"].sum() + optic["power"] * ends.loc[["spine"], "count"].sum()
    )
    assert bill_total(bill, ItemBook("power"), ("switch links", "host links")) == pytest.approx(links)


def counts_of(parts, kind):
    return dict(parts.loc[parts["kind"] == kind, ["part", "count"]].itertuples(index=False))


def test_failures_count_what_is_bought():
    """A copper cable has no transceivers, a splitter cable or a transceiver of a broken-out port serves several."""
    plan = sized(4096, 8)
    for lengths, cables, ends in (({"host": 2.0}, 2048, 0), ({"host": 100.0}, 4096, 2048)):
        parts = design_parts(plan, lengths)
        failing = parts_that_fail(plan, parts)
        modules = counts_of(failing, "transceiver")
        assert counts_of(failing, "link")["host link"] == cables
        assert modules.get("transceiver of a rail switch, down", 0) == ends
        assert modules.get("transceiver of a NIC", 0) == 2 * ends
        losses = expected_losses(plan, "NIC", parts)
        host = losses[losses["part"].isin(["host link", "transceiver of a NIC", "transceiver of a rail switch, down"])]
        taken = host["count"] * host["gpus_lost"]
        assert taken.tolist() == pytest.approx([4096.0] * len(host))  # each kind hits every NIC once
        bought = parts[parts["part"] == "links"]["count"].sum()
        assert bought == sum(modules.values()) + (cables if not ends else 0)


@given(fabrics())
def test_copper_takes_fewer_nics_and_as_many_links(fabric):
    copper, optics = (design_parts(fabric, {"host": length}) for length in (1, 100))
    for loss in ("NIC", "bandwidth"):
        less, more = (
            expected_losses(fabric, loss, parts)["lost_gpu_hours_per_year"].sum() for parts in (copper, optics)
        )
        assert less == pytest.approx(more) if loss == "NIC" and fabric.nic_ports > 1 else less < more


def test_a_module_that_holds_both_ports_of_a_nic_takes_it():
    fabric = SegmentFabric(4, SN5600, nic_ports=2, homing=1)
    failing = failing_parts(fabric).set_index("part")
    assert failing.loc["transceiver of a rail switch, down", "nic_lost"] == 1.0
    assert failing.loc["transceiver of a NIC", "nic_lost"] == failing.loc["host link", "nic_lost"] == 0.0
    whole = failing_parts(SegmentFabric(4, SN5600, gpus_per_server=2)).set_index("part")
    assert whole.loc["transceiver of a rail switch, down", "server_lost"] == 2.0
    assert whole.loc["host link", "server_lost"] == 0.0


def test_peer_links_fail_and_take_nothing():
    plan = AddressPlan(SegmentFabric(4, SN5600, nic_ports=2, port_Bps=200 * Gbps), bundling="mlag")
    failing = failing_parts(plan).set_index("part")
    assert failing.loc["peer link", "count"] == len(plan.trunks) == 2
    assert failing.loc["peer link", ["nic_lost", "server_lost", "bandwidth_lost"]].tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("rails_per_switch", [8, 2, 1])
def test_room_beyond_what_is_asked_is_not_bought(rails_per_switch):
    design = built(1024, rails_per_switch, NEXUS, nic_ports=2, port_Bps=200 * Gbps)
    assert design.fabric.gpus == 1024 + design.spare_gpus > 1024 == design.plan.gpus
    assert f"room for {design.fabric.gpus:,}" in design.warnings[0]
    bought = design.bought.set_index("part")
    assert bought.loc["NICs", "count"] == 1024
    assert len(design.plan.ports) == 2048 == design.parts.query("end == 'NIC'")["count"].sum()
    assert design.plan.subnets.query("nic_port == 1 and rail == 1")["hosts"].sum() == 128
    whole = cost_of_parts(design_parts(AddressPlan(design.fabric, bundling="none"), design.lengths_m))
    assert design.bought["cost_usd"].sum() < whole["cost_usd"].sum()
    used = set(zip(design.plan.ports["switch"], design.plan.ports["interface"], strict=True))
    down = design.parts[design.parts["end"] == "rail switch, down"]["count"].sum()
    assert down == len(used)  # one module for the lanes of an interface
    (row,) = design_measures([design]).to_dict("records")
    trunks = design.plan.trunks
    ends = {*zip(trunks["switch"], trunks["interface"], strict=True)}
    ends |= {*zip(trunks["peer"], trunks["peer_interface"], strict=True)} | used
    ports = sum(n * model.ports for n, model in zip(design.fabric.switches_by_tier, design.fabric.models, strict=True))
    assert row["share_of_ports_used"] == pytest.approx(len(ends) / ports)
    with pytest.raises(ValueError, match="servers"):
        AddressPlan(design.fabric, servers=design.fabric.domains + 1)


def test_designs_of_uneven_room_are_drawn_by_what_is_asked():
    needs, alone = {"rail_switch": NEXUS, "nic_ports": 2, "port_Bps": 200 * Gbps}, {"bundling": "none"}
    designs, refused = build_designs([512, 1024], [8, 2, 1], needs, FLOOR, addresses=alone)
    assert refused.empty
    table = design_measures(designs)
    assert table["asked"].tolist() == [512] * 3 + [1024] * 3
    for data in (table, table.drop(index=[1, 3])):  # a design that cannot be built leaves a hole
        figure = segment_designs.designs_by_size(data, {"cost_per_gpu_usd": "cost"}, marked="rails_apart", note="alone")
        assert len(figure.axes[0].texts) == len(data)
        starred = [text.get_text() for text in figure.axes[0].texts if text.get_text().endswith("*")]
        assert len(starred) == data["rails_apart"].sum()


def test_bars_of_designs_are_their_costs_in_thousands():
    data = pd.DataFrame({"design": ["one", "two"], "part": "switches", "cost_usd": [2e3, 3e3]})
    (ax,) = segment_designs.design_cost_bars(data, "cost").axes
    assert {2.0, 3.0} <= {bar.get_height() for bar in ax.patches} | {bar.get_width() for bar in ax.patches}
    plt.close("all")


def test_a_design_that_cannot_be_built_is_a_row_and_the_others_go_on():
    needs = {"rail_switch": SN5600, "nic_ports": 2, "port_Bps": 200 * Gbps}
    designs, refused = build_designs([1024, 1024], [8, 2, 3, 2], needs, FLOOR, addresses={"bundling": "evpn"})
    assert [design.name for design in designs] == ["multi-rail"] and designs[0].bgp.control_plane == "BGP EVPN"
    assert refused["design"].tolist() == ["dual-rail", "3 rails"]
    assert "rails_apart False" in refused["why"][0] and "does not divide" in refused["why"][1]
    table = designs_sizing(designs, refused)
    assert table["asked"].tolist() == [1024] * 3 and table["why"].notna().all()
    assert table["rail_switches"].isna().tolist() == [False, True, True]
    both, none = build_designs([1024], [8, 2], {**needs, "rails_apart": False}, FLOOR, addresses={"bundling": "evpn"})
    assert len(both) == 2 and none.empty
    with pytest.raises(ValueError, match="no design can be built; multi-rail: bundling is 'mlag' with one port"):
        build_designs([64], [8], {"rail_switch": SN5600}, FLOOR, addresses={"bundling": "mlag"})
    with pytest.raises(ValueError, match="give one or more of each"):
        build_designs([], [8], needs, FLOOR)


def test_like_is_held_against_like():
    apart, joined = built(256, 2), built(256, 2, rails_apart=False)
    assert apart.rails_apart and not joined.rails_apart and joined.with_spines.bought.equals(joined.bought)
    assert apart.with_spines.cost_per_gpu_usd == pytest.approx(joined.cost_per_gpu_usd)
    parts = design_cost_by_part(joined).sub(design_cost_by_part(apart), fill_value=0.0)
    assert parts.sum() == pytest.approx(joined.cost_per_gpu_usd - apart.cost_per_gpu_usd)
    name, more = largest_cost_difference(apart, joined)
    assert more == parts[name] == parts.abs().max() and name in ("spines", "links to spines", "links to hosts")


def test_rails_on_a_switch_in_words_have_their_direction():
    table = pd.DataFrame({"design": ["multi-rail", "dual-rail"], "cost_per_gpu_usd": [4.0, 3.0], "rails_apart": [0, 1]})
    table = table.assign(with_spines_usd=[float("nan"), 5.0], gpus_cut_off_per_year=[8.0, 0.0])
    text = rails_words(table, 64)
    assert text.startswith("All, for the least cost: for 64 GPUs multi-rail is cheapest where all rails meet")
    assert "dual-rail costs 25.0% more" in text and "8 GPUs a year" in text and "those of dual-rail none" in text
    cheaper = rails_words(table.assign(with_spines_usd=3.0, rails_apart=False), 64)
    assert cheaper == (
        "Two, for the least cost: for 64 GPUs dual-rail is cheapest, and failed switches of no other design take fewer "
        "servers off the network."
    )


def test_a_design_announces_summaries_only_where_asked_and_then_warns():
    demand = SegmentDemand(2048, NEXUS, rails_per_switch=8, rails_apart=False)  # three tiers
    for sessions in ({}, {"summarised": False}, {"summarised": True}):
        design = build_design(demand, FLOOR, addresses={"bundling": "none"}, sessions=sessions)
        assert design.fabric.super_spines and design.bgp.summarised == sessions.get("summarised", False)
        warnings = [text for text in design.warnings if "1 in 2 of the flows" in text]
        assert warnings == [f"multi-rail for 2,048 GPUs: {text}" for text in design.bgp.warnings]
        assert len(warnings) == design.bgp.summarised
