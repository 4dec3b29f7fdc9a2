"""What parts take with them, against the graph; the three ways to put rails on switches beside each other."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from test_segments import fabrics

from railcore.facts import catalog
from railcore.facts.units import Gbps
from railcore.network.addressing import AddressPlan
from railcore.network.addressing.design_comparison import (
    LOSSES,
    copper_links,
    design_lengths,
    design_measures,
    design_power,
    expected_losses,
    lost_nics,
    parts_of_fabric,
    rails_name,
    sized_loss,
)
from railcore.network.addressing.design_cost import design_cost
from railcore.network.addressing.resilience import failure_domains
from railcore.network.cabling import catalog_floor
from railcore.network.reliability import expected_failures
from railcore.network.topology.segment_sizing import SegmentDemand, smallest_segment_fabric
from railcore.network.topology.segments import SegmentFabric, switch_model

SN5600 = switch_model("SN5600")


def sized(gpus, rails_per_switch, **options):
    demand = SegmentDemand(gpus, SN5600, rails_per_switch=rails_per_switch, **options)
    return AddressPlan(smallest_segment_fabric(demand).fabric, bundling="none")


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
@settings(max_examples=25, deadline=None)
def test_what_a_switch_takes_is_what_the_graph_loses(fabric):
    parts = parts_of_fabric(fabric).set_index("part")
    for role, name in (("rail switch", "Pod1.Seg1.Leaf1"), ("spine", "Pod1.Spine1"), ("super-spine", "Super1")):
        if role in parts.index:
            assert tuple(parts.loc[role, ["nic_lost", "server_lost"]]) == counted_in_graph(fabric, name)
    domains = failure_domains(fabric)
    for role, rows in domains.groupby("role"):
        assert (rows["gpus_lost"] == parts.loc[role, "nic_lost"]).all() and len(rows) == parts.loc[role, "count"]


@given(fabrics())
@settings(max_examples=25, deadline=None)
def test_losses_are_those_of_the_mean_part(fabric):
    """The same totals as `expected_failures` gives for the mean over all parts of a kind."""
    parts = parts_of_fabric(fabric)
    for loss in LOSSES:
        lost = parts["count"] * parts[f"{loss.lower()}_lost"]
        counts = parts.groupby("kind", sort=False)["count"].sum()
        mean = lost.groupby(parts["kind"], sort=False).sum() / counts
        whole = expected_failures(counts.to_dict(), mean.to_dict())
        ours = expected_losses(fabric, loss)
        assert ours["lost_gpu_hours_per_year"].sum() == pytest.approx(whole["lost_gpu_hours_per_year"].sum())
        assert ours["gpus_lost_per_year"].sum() == pytest.approx(
            (whole["events_per_year"] * whole["part"].map(mean)).sum()
        )
    by_rate = [expected_losses(fabric, "NIC", end)["gpus_lost_per_year"].sum() for end in ("low", "value", "high")]
    assert by_rate == sorted(by_rate)


@given(fabrics())
@settings(max_examples=25, deadline=None)
def test_a_tier_carries_the_bandwidth_of_its_links(fabric):
    parts = parts_of_fabric(fabric).set_index("part")
    carried = parts["count"] * parts["bandwidth_lost"]
    assert carried["rail switch"] == pytest.approx(fabric.gpus)
    assert carried["host link"] == pytest.approx(fabric.gpus)
    for role in ("spine", "super-spine"):
        if role in parts.index:
            assert carried[role] == pytest.approx(carried[f"link to a {role}"])


@given(fabrics())
@settings(max_examples=25, deadline=None)
def test_the_nics_of_a_rail_switch_are_those_on_its_ports(fabric):
    shares = lost_nics(fabric)
    assert shares.shape == (fabric.servers, fabric.rails)
    assert shares.sum() == pytest.approx(fabric.host_ports / fabric.nic_ports)
    assert (shares > 0).any(axis=0).sum() == fabric.rails_per_switch and (shares > 0).any(axis=1).all()
    assert np.allclose(shares[shares > 0], 1 / fabric.homing)


@pytest.mark.parametrize("gpus", [1024, 16_384])
def test_rails_per_switch_change_what_is_left_of_a_server_not_how_many_nics_are_lost(gpus):
    plans = [sized(gpus, r) for r in (8, 4, 2, 1)]
    table = design_measures(plans, {"cost_usd": [4.0, 3.0, 2.0, 1.0]})
    assert table["design"].tolist() == ["multi-rail", "4 rails", "dual-rail", "single-rail"]
    assert table["cost_usd"].tolist() == [4.0, 3.0, 2.0, 1.0]
    assert np.ptp(table["nics_lost_per_year"]) < 1e-9 * table["nics_lost_per_year"].max()
    assert (table["gpus_cut_off_per_year"] > 0).tolist() == [True, False, False, False]
    assert (table["gpus_lost"] == [plan.fabric.host_ports for plan in plans]).all()
    assert (table["routes_with_summaries"] <= table["routes_of_subnets"] + 1).all()
    assert table["share_of_ports_used"].between(0, 1).all()


def test_two_homes_lose_no_nic_to_a_switch_and_no_more_bandwidth():
    one, two = sized(1024, 2), sized(1024, 2, nic_ports=2, port_Bps=200 * Gbps)
    table = design_measures([one, two])
    assert table["gpus_lost"].tolist() == [one.fabric.host_ports, 0]
    assert table["nics_lost_per_year"].iloc[1] < table["nics_lost_per_year"].iloc[0]
    switches = [expected_losses(plan.fabric, "bandwidth").query("part == 'rail switch'") for plan in (one, two)]
    hours = [float(each["lost_gpu_hours_per_year"].iloc[0]) for each in switches]
    assert hours[0] == pytest.approx(hours[1])


@pytest.mark.parametrize("rails_per_switch", [8, 2, 1])
def test_cables_grow_with_the_servers_that_share_a_switch(rails_per_switch):
    floor = catalog_floor("GPU hall")
    lengths = design_lengths(sized(4096, rails_per_switch).fabric, floor, 4)
    assert list(lengths) == ["host", "spine"] and lengths["host"] < lengths["spine"]
    wider = design_lengths(sized(4096, max(rails_per_switch // 2, 1)).fabric, floor, 4)
    assert wider["host"] >= lengths["host"]
    assert set(design_lengths(sized(65_536, rails_per_switch).fabric, floor, 4)) == {"host", "spine", "super-spine"}
    (one_rack,) = design_lengths(SegmentFabric(4, SN5600), floor, 4).values()
    assert one_rack == pytest.approx(2 * floor.drop_m * (1 + floor.slack))  # up to the tray and down


def test_power_is_that_of_the_parts():
    plan = sized(4096, 8)
    parts = design_cost(plan, {"host": 2.0, "spine": 30.0})
    switches = parts[parts["part"] == "switches"]["count"].sum() * catalog.item("switches", "SN5600")["power"]
    assert design_power(parts[parts["part"] != "links"]) == pytest.approx(switches)
    assert design_power(parts) > switches
    twice = pd.concat([parts, parts])
    assert design_power(twice) == pytest.approx(2 * design_power(parts))


def test_a_sized_loss_is_that_of_the_smallest_fabric():
    demand = SegmentDemand(4096, SN5600, rails_per_switch=2)
    shares, words = sized_loss(demand)
    assert set(shares) == set(words) == {"dual-rail"}
    assert "64 rail switches, 32 spines" in words["dual-rail"]
    assert (shares["dual-rail"] == lost_nics(smallest_segment_fabric(demand).fabric)).all()


def test_what_is_given_wrongly_is_refused():
    with pytest.raises(ValueError, match="loss is 'GPU': give one of NIC, server, bandwidth"):
        expected_losses(sized(64, 8).fabric, "GPU")
    with pytest.raises(ValueError, match=r"costs\['cost_usd'\] has 2 values for 1 plans"):
        design_measures([sized(64, 8)], {"cost_usd": [1, 2]})
    assert rails_name(SegmentFabric(2, SN5600, rails_per_switch=4)) == "4 rails"


@given(fabrics())
@settings(max_examples=25, deadline=None)
def test_copper_cables_have_no_transceivers_to_fail(fabric):
    optics = parts_of_fabric(fabric).set_index("part")["count"]
    copper = parts_of_fabric(fabric, ("host",)).set_index("part")["count"]
    assert optics["host transceiver"] == 2 * fabric.links_by_tier[0] and copper["host transceiver"] == 0
    assert (optics.drop("host transceiver") == copper.drop("host transceiver")).all()
    for loss in ("NIC", "bandwidth"):
        tables = [expected_losses(fabric, loss, copper=kinds) for kinds in (("host",), ())]
        less, more = (table["lost_gpu_hours_per_year"].sum() for table in tables)
        assert less == pytest.approx(more) if loss == "NIC" and fabric.nic_ports > 1 else less < more


def test_short_host_links_are_copper():
    fabric = sized(4096, 8).fabric
    assert copper_links(design_cost(fabric, {"host": 2.0, "spine": 30.0})) == ("host",)
    assert copper_links(design_cost(fabric, {"host": 30.0})) == ()
    with pytest.raises(ValueError, match="copper has 2 entries for 1 plans"):
        design_measures([sized(64, 8)], copper=[(), ()])


@pytest.mark.parametrize(("rails_per_switch", "paths"), [(8, 2), (1, 1)])
def test_nics_of_a_rail_have_a_path_with_spines_and_without(rails_per_switch, paths):
    plan = sized(256, rails_per_switch)
    table = design_measures([plan])
    assert table["paths_same_rail"].tolist() == [paths] and table["paths_other_pod"].tolist() == [0]
    graph, last = plan.fabric.graph(), f"D{plan.fabric.domains}.GPU1"
    switches = graph.subgraph(n for n, at in graph.nodes(data=True) if at["kind"] == "switch" or n in ("D1.GPU1", last))
    assert len(list(nx.all_shortest_paths(switches, "D1.GPU1", last))) == paths
