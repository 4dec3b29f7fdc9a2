"""Rail designs: copies between rails, pods without spines, and rail switches by how many rails share one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore.documents.nwktimes2025 import rail_claims
from railcore.documents.nwktimes2025 import rail_designs as designs
from railcore.engines.degraded.faults import fail
from railcore.engines.deployment.forwarding import (
    pairs_apart,
    path_transfers,
    pods_without_spines,
    servers_without_spines,
)
from railcore.engines.deployment.mac_tables import mac_addresses, mac_tables
from railcore.engines.deployment.rail_packing import packed_rail_switches, rail_switch_order
from railcore.engines.deployment.segments import SegmentFabric
from railcore.engines.deployment.subnets import AddressPlan
from railcore.facts import claims
from railcore.facts.units import Gbps
from railcore.network.switches import SwitchModel
from railcore.network.topology.graph import route

SWITCH = SwitchModel("of 48", 48, 400 * Gbps)


@pytest.mark.parametrize("nic_ports", [1, 2])
@pytest.mark.parametrize(("side", "rail", "networks"), [("source", 4, "ud"), ("destination", 3, "du")])
def test_a_copy_to_another_rail_takes_one_transfer_of_each_kind(nic_ports, side, rail, networks):
    graph = SegmentFabric(3, SWITCH, nic_ports=nic_ports).graph()
    table = path_transfers(graph, route(graph, "D1.GPU3", "D2.GPU4", side=side))
    kinds = {"u": "scale-up", "d": "scale-out"}
    assert list(table["network"]) == [kinds[letter] for letter in networks]
    assert set(table["rail"]) == {0, rail} and table["switches"].sum() == 1


def test_the_side_changes_no_route_that_needs_no_forwarding():
    graph = SegmentFabric(3, SWITCH).graph()
    for target, network in (("D2.GPU3", "scale-out"), ("D1.GPU5", "scale-up")):
        paths = [route(graph, "D1.GPU3", target, side=side) for side in ("source", "destination")]
        assert paths[0] == paths[1] and list(path_transfers(graph, paths[0])["network"]) == [network]
    with pytest.raises(ValueError, match="side is 'middle': give one of source, destination"):
        route(graph, "D1.GPU3", "D2.GPU4", side="middle")
    with pytest.raises(ValueError, match="begins and ends with a GPU"):
        path_transfers(graph, ["D1.GPU3", "D1.HB1"])


@given(r=st.sampled_from([1, 2, 4]), homing=st.sampled_from([1, 2]), more=st.sampled_from([1, 2]), k=st.integers(1, 24))
def test_the_count_without_spines_is_what_the_graph_says(r, homing, more, k):
    """At the count every pair meets over HB links; with one server more the switch refuses."""
    switch = SwitchModel("small", k, 400 * Gbps)
    most = servers_without_spines(switch, r, homing * more, homing)
    options = {"gpus_per_server": 4, "rails_per_switch": r, "nic_ports": homing * more, "homing": homing}
    if most:
        forwarding, network = pairs_apart(SegmentFabric(most, switch, **options).graph())
        gpus = 4 * most
        assert forwarding == 0 and network == pytest.approx(1 - 4 * most * (most - 1) / (gpus * (gpus - 1)))
    with pytest.raises(ValueError, match="host ports"):
        SegmentFabric(most + 1, switch, **options)


def test_a_pod_of_two_segments_needs_its_spines_until_rails_are_spread():
    pod = SegmentFabric(
        4, SWITCH, segments=2, nic_ports=2, port_Bps="100 Gbps", spines=4, spine_links=2, breakout=False
    )
    table = pods_without_spines(pod)
    assert list(table["rails_per_switch"]) == [8, 8, 4, 2, 1]
    assert list(table["needs_spines"]) == [True, True, False, False, False]
    assert list(table["host_ports"]) == [32, 64, 32, 16, 8] and set(table["switch_ports"]) == {48}
    assert table["apart_forwarding"][0] == pytest.approx(1 - 2 * 32 * 31 / (64 * 63))
    assert (table["apart_forwarding"][2:] == 0).all() and (table["apart_network"][2:] > 0.8).all()
    assert np.isnan(table["apart_network"][1])
    # one segment: the pod as built is a case of its own, once
    alone = pods_without_spines(SegmentFabric(4, SWITCH, rails_per_switch=4))
    assert list(alone["rails_per_switch"]) == [4, 8, 2, 1] and not alone["needs_spines"].any()


def test_packing_against_filling_switches_one_by_one():
    """First-fit of each group's ports: the closed form is what filling switches gives."""
    for n in range(1, 70):
        for r in (1, 2, 4, 8):
            filled = 0
            for _group in range(8 // r):
                room = 0
                for _port in range(n * r):
                    filled, room = (filled, room - 1) if room else (filled + 1, 31)
            assert packed_rail_switches(n, 32, 8, r) == filled
    with pytest.raises(ValueError, match="does not divide the 8 rails, 1, 2, 4, 8 do"):
        packed_rail_switches(4, 32, 8, 3)


def test_the_order_of_designs_is_that_of_their_cost():
    table = rail_switch_order([4, 13, 32], 32, 8, [8, 2, 1], {"switch": 100.0, "host_link": 1.0})
    assert list(table["switches"]) == [1, 4, 8, 4, 4, 8, 8, 8, 8]
    cases = table.groupby("ports_per_rail")
    assert list(cases["rises"].first()) == [True, False, False] and list(cases["ties"].first()) == [0, 1, 2]
    assert (table["total_usd"] == table["switches"] * 100 + table["ports_per_rail"] * 8).all()
    assert table["used"].max() == 1.0
    assert (cases["total_usd"].diff().dropna() >= 0).all()


def test_more_rails_on_a_switch_never_take_more_switches():
    """Not strictly fewer, but never more: the order of all 32 cases, and of any other size."""
    order = designs.model_order("12.8T", 1.0)
    steps = order.groupby("ports_per_rail")["switches"].diff().dropna()
    with pytest.raises(ValueError, match=r"switch is '51.2T' with 64 ports: give one with 32, 12.8T"):
        designs.model_order("51.2T", 1.0)
    assert (steps >= 0).all() and order["rises"].groupby(order["ports_per_rail"]).first().sum() == 12


def test_the_printed_interfaces_follow_the_rule():
    check = designs.interface_check(designs.rail_plan("fig13_7"))
    assert len(check) == 32 and check["agrees"].all() and check["interface"].nunique() == 32
    by_server = designs.interface_check(AddressPlan(designs.rail_design("fig13_7")))
    assert not by_server["agrees"].all()


def test_every_claim_of_the_notebook_has_a_value_and_what_differs_a_reason():
    order = designs.model_order("12.8T", 1.0)
    mapping = designs.interface_check(designs.rail_plan("fig13_7"))
    entries = rail_claims.rail_claims(mapping, designs.cross_rail_copies(), order)
    mine = {claim_id: claim for claim_id, claim in claims.claims().items() if claim.notebook == "19_rail_designs"}
    assert set(entries.values) == set(mine)
    differ = {
        claim_id
        for claim_id, claim in mine.items()
        if claims.verdict(entries.values[claim_id], claim.paper_value, claim.relation, claim.tolerance) != "reproduced"
    }
    assert differ == set(entries.reasons)
    assert {claim_id.rpartition(".")[2] for claim_id in differ} == {"subnets_in_summary", "switch_order"}


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


@given(st.integers(1, 2**24 - 1), st.integers(1, 255), st.integers(1, 255))
def test_mac_addresses_are_local_and_tell_the_nic(domain, gpu, port):
    (mac,) = mac_addresses(domain, gpu, port)
    octets = [int(byte, 16) for byte in mac.split(":")]
    assert len(octets) == 6 and octets[0] & 3 == 2  # locally administered, unicast
    assert (octets[1] << 16 | octets[2] << 8 | octets[3], octets[4], octets[5]) == (domain, gpu, port)


def test_mac_tables_of_both_switches_of_a_bundle_are_the_same():
    table = mac_tables(designs.rail_plan("fig13_5").ports)
    first, second = (part.drop(columns="switch").reset_index(drop=True) for _, part in table.groupby("switch"))
    assert first.equals(second) and first["mac"].nunique() == 24
    apart = mac_tables(AddressPlan(designs.rail_design("fig13_5"), bundling="none").ports)
    assert apart["mac"].nunique() == 48


def test_a_segment_of_ones_own_has_mlag_where_peer_links_fit():
    fits, full = (designs.own_plan(designs.own_segment(n, 2, 2, "51.2T", "200 Gbps")) for n in (120, 126))
    assert fits.bundling == "mlag" and not designs.bundling_warnings(fits)
    assert full.bundling == "evpn" and "fewer than 2 interfaces left" in designs.bundling_warnings(full)[0]
    alone = designs.own_plan(designs.own_segment(128, 1, 2, "51.2T", "200 Gbps"))
    assert alone.bundling == "none" and not designs.bundling_warnings(alone)
