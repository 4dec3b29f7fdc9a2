"""Rail designs: claims, failed switches, rail switches by how many rails share one, what is inside a switch."""

from itertools import pairwise

import networkx as nx

from railcore.catalog.units import Gbps
from railcore.network.switches import SwitchModel
from railcore.network.topology.faults import fail
from railcore.network.topology.graph import route
from suite.deployment.segments import SegmentFabric
from suite.deployment.subnets import AddressPlan
from suite.nwktimes2025 import rail_claims
from suite.nwktimes2025 import rail_designs as designs

SWITCH = SwitchModel("of 48", 48, 400 * Gbps)


def test_the_joined_pod_needs_no_spines():
    """HB domains join its rails; it has the GPUs and the rail switches of the pod."""
    pod, joined = designs.rail_design("fig13_8"), designs.joined_pod()
    assert (joined.gpus, joined.rail_switches_of_pod) == (pod.gpus, pod.rail_switches_of_pod)
    assert joined.spines == 0 and nx.is_connected(joined.graph())


def test_a_copy_to_another_rail_goes_over_the_hb_domain_of_its_source():
    graph = SegmentFabric(3, SWITCH).graph()
    path = [n for n in route(graph, "D1.GPU3", "D2.GPU4") if graph.nodes[n]["kind"] != "hb"]
    hops = ["hb" if not graph.has_edge(a, b) else graph.edges[a, b]["kind"] for a, b in pairwise(path)]
    assert hops == ["hb", "host", "host"]


def test_packing_against_filling_switches_one_by_one():
    order = designs.model_order("12.8T")
    for n, model, switches in order[["ports_per_rail", "model", "switches"]].itertuples(index=False):
        filled, r = 0, designs.MODELS[model]
        for _group in range(8 // r):
            room = 0
            for _port in range(n * r):
                filled, room = (filled, room - 1) if room else (filled + 1, 31)
        assert switches == filled


def test_more_rails_on_a_switch_never_take_more_switches():
    """Not strictly fewer, but never more; strictly where four or eight rails fit on a switch."""
    for switch, ports in (("12.8T", 32), (designs.SWITCH, 48), ("51.2T", 64)):
        order = designs.model_order(switch)
        steps = order.groupby("ports_per_rail")["switches"].diff().dropna()
        assert order["ports_per_rail"].max() == ports and (steps >= 0).all()
        for rails in designs.HOSTED_RAILS:
            assert order.loc[order["ports_per_rail"] <= ports // rails, "rises"].all()
        assert not order["rises"].all()
    values = rail_claims.switch_claims(designs.model_order(designs.SWITCH)).values
    assert values["nwktimes2025.fig13_12.switch_order"] == 0
    assert [values[f"nwktimes2025.fig13_10.ports_of_{n}_rails"] for n in (4, 8)] == [12, 6]
    assert values["nwktimes2025.fig13_10.rails_lost_dual_nic"] == 0 < values["nwktimes2025.fig13_10.rails_lost"]
    small = rail_claims.switch_claims(designs.model_order("12.8T")).values
    assert 0 <= small["nwktimes2025.fig13_12.switch_order"] < 1


def test_the_printed_interfaces_follow_the_rule():
    check = designs.interface_check(designs.rail_plan("fig13_7"))
    assert len(check) == 32 and check["agrees"].all() and check["interface"].nunique() == 32
    by_server = designs.interface_check(AddressPlan(designs.rail_design("fig13_7")))
    assert not by_server["agrees"].all()


def test_a_failed_switch_takes_what_the_graph_loses():
    """The closed form of failure domains against GPUs without a link on the graph, NICs of one port and of two."""
    for r in (8, 2, 1):
        for ports in (1, 2):
            fabric = SegmentFabric(4, SWITCH, rails_per_switch=r, nic_ports=ports, breakout=False)
            left = fail(fabric.graph(), "rail switch")
            lost = [n for n, at in left.nodes(data=True) if at["kind"] == "gpu" and not _host_links(left, n)]
            said = rail_claims.rail_losses(fabric)
            assert said["gpus_lost"] == len(lost)
            assert said["rails_lost"] == len({left.nodes[node]["rail"] for node in lost})


def _host_links(graph, gpu):
    return [other for other in graph[gpu] if graph.edges[gpu, other]["kind"] == "host"]


def test_routes_of_the_switches_say_what_the_summary_lacks():
    routes = designs.switch_contents("fig13_10")["routes"]
    assert list(routes.loc[~routes["valid"], "prefix"]) == [designs.ADVERTISED] * 2
    assert list(routes.loc[routes["variant"] == "valid", "prefix"]) == ["10.0.0.0/20"] * 2
    assert designs.switch_contents("fig13_12")["routes"]["valid"].all()
    assert len(designs.contents_table(designs.switch_contents("fig13_11"))) == 2 + 32 + 8


def test_mac_tables_of_both_switches_of_a_bundle_are_the_same():
    ports = designs.rail_plan("fig13_5").ports
    first, second = (designs.mac_tables(part) for _, part in ports.groupby("switch"))
    assert first.equals(second) and first["mac"].nunique() == 24
    assert first["mac"].iloc[0] == "06:00:00:01:01:01"  # locally administered: server 1, GPU 1, port 1
    apart = designs.mac_tables(AddressPlan(designs.rail_design("fig13_5"), bundling="none").ports)
    assert apart["mac"].nunique() == 48


def test_a_segment_of_ones_own_has_mlag_where_peer_links_fit():
    fits, full = (designs.own_plan(designs.own_segment(n, 2, 2, "51.2T", "200 Gbps")) for n in (120, 126))
    assert fits.bundling == "mlag" and not designs.own_plan_warnings(fits)
    assert full.bundling == "evpn" and "fewer than 2 interfaces left" in designs.own_plan_warnings(full)[0]
    alone = designs.own_plan(designs.own_segment(128, 1, 2, "51.2T", "200 Gbps"))
    assert alone.bundling == "none" and not designs.own_plan_warnings(alone)


def test_host_ports_are_the_most_that_the_other_interfaces_carry_upwards():
    """Against trying every number of host ports."""
    for port in (100 * Gbps, 200 * Gbps, 400 * Gbps):
        assert designs.most_host_ports(designs.SWITCH, port) == most_that_fit(port)
    hosts = [designs.rail_design(figure).servers for figure in designs.SUBNETS]
    assert hosts == [most_that_fit(200 * Gbps) // rails for rails in (8, 2, 1)]


def most_that_fit(port):
    return max(h for h in range(49) if h * port <= (48 - h) * 400 * Gbps)


def test_tiers_and_stages_counted_on_the_graph_are_those_of_the_closed_form():
    for figure in ("fig13_7", "fig13_8", "fig13_9"):
        fabric = designs.rail_design(figure)
        assert rail_claims.graph_tiers(fabric) == fabric.tiers
        if fabric.tiers > 1:  # without spines the rails do not meet
            assert rail_claims.graph_stages(fabric) == fabric.stages


def test_super_spines_send_up_what_spines_take_in():
    pods = designs.rail_design("fig13_9")
    assert pods.oversubscription == (1.0, 1.0)
    assert designs.rail_design("fig13_9", super_spines=2).oversubscription == (1.0, 2.0)
