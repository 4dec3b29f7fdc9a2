"""BGP over an address plan: AS numbers, both ends of a session, routes held against sets of them, tables of a leaf."""

import re
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_addressing import LARGE, SMALL, SN5600, plans

from railcore.engines.deployment import AddressPlan
from railcore.engines.deployment.routing import BGP_CONTROL_PLANES, EVPN, PRIVATE_ASNS, BgpDesign
from railcore.engines.deployment.segments import SegmentFabric


@st.composite
def designs(draw):
    options = {"leaf_asns": ["each", "unit"], "spine_asns": ["pod", "each"], "control_plane": BGP_CONTROL_PLANES}
    picked = {name: draw(st.sampled_from(values)) for name, values in options.items()}
    return BgpDesign(draw(plans()), **picked, summarised=draw(st.booleans()))


@given(designs())
def test_as_numbers_are_private_and_apart_where_they_should_be(design):
    table = design.switches
    assert all(any(low <= asn <= high for low, high in PRIVATE_ASNS) for asn in table["asn"])
    if design.control_plane == "iBGP":
        assert table["asn"].nunique() == 1 and (table["reflects"] == (table["tier"] > 1)).all()
        return
    assert table.groupby("asn")["tier"].nunique().eq(1).all() and not table["reflects"].any()
    leaves, spines = (table[table["tier"] == tier] for tier in (1, 2))
    assert leaves["asn"].nunique() == leaves["switch" if design.leaf_asns == "each" else "unit"].nunique()
    assert spines["asn"].nunique() == (len(spines) if design.spine_asns == "each" else spines["pod"].nunique())
    assert spines.empty or design.spine_asns == "each" or spines.groupby("pod")["asn"].nunique().eq(1).all()


@given(designs())
def test_both_ends_of_a_session_agree(design):
    table = design.neighbours
    ends = ["switch", "asn", "address", "neighbour", "neighbour_asn", "neighbour_address"]
    mine = set(table[[*ends, "session", "family", "kind"]].itertuples(index=False, name=None))
    theirs = set(table[[*ends[3:], *ends[:3], "session", "family", "kind"]].itertuples(index=False, name=None))
    assert mine == theirs and len(mine) == len(table)
    links = design.plan.routed_links
    pairs = len(design.plan.trunks.query("kind == 'trunk'").drop_duplicates(["switch", "peer"]))
    assert len(table) == 2 * {"eBGP": links, "iBGP": pairs, "BGP EVPN": links + pairs}[design.control_plane]
    assert (table["family"] == EVPN).sum() == (2 * pairs if design.control_plane == "BGP EVPN" else 0)
    tier = dict(zip(design.switches["switch"], design.switches["tier"], strict=True))
    for row in table.itertuples():
        assert row.client == (design.control_plane == "iBGP" and tier[row.switch] > tier[row.neighbour])
        assert (row.kind == "internal") == (design.control_plane == "iBGP")


def held(design, switch, summarised):
    """Prefixes of NIC subnets that a switch holds, by following the advertisements."""
    plan, fabric = design.plan, design.plan.fabric
    place = design.switches.set_index("switch").loc[switch]
    subnets, summaries = plan.subnets, plan.summaries
    own = set(subnets.loc[subnets["unit"] == place["unit"], "subnet"]) if place["tier"] == 1 else set()
    if not fabric.spines:
        return own
    if not summarised:
        return set(subnets["subnet"])
    units, pods = (summaries[summaries["level"] == level] for level in ("unit", "pod"))
    if place["tier"] == 3:
        return set(pods["summary"])
    found = own | set(units.loc[units["pod"] == place["pod"], "summary"])
    found |= set(pods.loc[pods["pod"] != place["pod"], "summary"])
    if place["tier"] == 2 and fabric.super_spines:
        found |= set(pods.loc[pods["pod"] == place["pod"], "summary"])
    return found


@given(designs())
def test_route_counts_are_the_sizes_of_what_switches_hold(design):
    for row in design.route_counts.itertuples():
        assert row.subnets_with_summaries == len(held(design, row.switch, True)), row
        assert row.subnets_without_summaries == len(held(design, row.switch, False)), row
    sessions = design.neighbours["switch"].value_counts()
    assert (design.route_counts.set_index("switch")["sessions"].loc[sessions.index] == sessions).all()


@given(designs())
def test_tables_of_a_rail_switch_hold_what_it_is_said_to(design):
    switch = design.switches["switch"].iloc[0]
    table = design.leaf_tables(switch, learned=True)
    best = set(table.loc[table["table"] == "Loc-RIB", "prefix"])
    assert best == held(design, switch, design.summarised)
    assert (
        set(table.loc[table["table"] == "RIB", "prefix"]) | set(table.loc[table["source"] == "summary", "prefix"])
        == best
    )
    sent = table[table["table"] == "Adj-RIB-Out"]
    said = design.advertised[(design.advertised["switch"] == switch) & (design.advertised["origin"] != "loopback")]
    assert set(sent["prefix"]) == set(said["prefix"]) and table["valid"].all()
    own = {design.plan.switches["loopback"].iloc[0]} if design.is_internal else set()
    own |= set(design.plan.trunks.loc[design.plan.trunks["switch"] == switch, "address"])
    assert set(sent["next_hop"]) <= own


def test_an_aggregate_of_ones_own_is_checked_beside_others():
    fabric = SegmentFabric(4, SMALL, segments=2, spines=2)
    rails = [f"10.0.{rail}.0/28" for rail in range(1, 17)]
    design = BgpDesign(AddressPlan(fabric, "by rail", own_subnets=rails))
    table = design.leaf_tables("Pod1.Seg1.Leaf1", aggregate="10.0.1.0/24")
    sent = table[table["table"] == "Adj-RIB-Out"]
    assert set(sent["prefix"]) == {"10.0.1.0/24"} and not sent["valid"].any()
    assert sent["reason"].str.contains("covers 1 of 8 subnets").all() and sent["next_hop"].nunique() == 2
    assert table[table["table"] == "RIB"]["prefix"].tolist() == rails[:8]
    assert table["out"].iloc[:2].tolist() == ["VLAN 101", "VLAN 102"]


def test_summaries_save_routes_at_scale():
    fabric = SegmentFabric(16, SN5600, segments=4, pods=4, spines=8, super_spines=8, rails_per_switch=2)
    counts = BgpDesign(AddressPlan(fabric)).route_counts.groupby("role").first()
    assert counts["subnets_without_summaries"].eq(128).all()
    assert counts.loc["rail switch", "subnets_with_summaries"] == 2 + 1 + 15 + 3
    assert counts.loc["super-spine", "subnets_with_summaries"] == 4


def test_reflected_routes_keep_the_next_hop_of_who_has_them():
    fabric = SegmentFabric(4, SMALL, segments=2, spines=2, rails_per_switch=4)
    loopbacks = AddressPlan(fabric).switches.set_index("switch")["loopback"]
    table = BgpDesign(AddressPlan(fabric), "iBGP").leaf_tables("Pod1.Seg1.Leaf1", learned=True)
    learned = table[(table["table"] == "RIB") & (table["source"] == "bgp")]
    assert set(learned["next_hop"]) == set(loopbacks.iloc[1:4]) and set(learned["as_path"]) == {""}
    outside = BgpDesign(AddressPlan(fabric)).leaf_tables("Pod1.Seg1.Leaf1", learned=True)
    learned = outside[(outside["table"] == "RIB") & (outside["source"] == "bgp")]
    assert set(learned["next_hop"]) == {"172.16.0.1", "172.16.0.3"}  # of the spines on the links


def test_four_byte_numbers_where_two_do_not_suffice():
    small = SegmentFabric(1, LARGE, segments=2, spines=1)
    large = SegmentFabric(1, LARGE, segments=60, pods=4, spines=1, super_spines=1, rails_per_switch=1)
    assert BgpDesign(AddressPlan(small)).first_asn == 64512
    design = BgpDesign(AddressPlan(large))
    assert design.first_asn == 4200000000 and design.switches["asn"].nunique() == 1 + 4 + 4 * 60 * 8
    assert BgpDesign(AddressPlan(large), "iBGP").first_asn == 64512
    assert BgpDesign(AddressPlan(small), first_asn=65001).switches["asn"].tolist() == [65002, 65003, 65001]
    for first, message in ((65534, "give 64512 to 65532 or 4200000000 to 4294967292"), (100, "leave the private ones")):
        with pytest.raises(ValueError, match=message):
            BgpDesign(AddressPlan(small), first_asn=first)


def test_what_is_not_there_is_refused():
    design = BgpDesign(AddressPlan(SegmentFabric(4, SMALL)))
    assert design.neighbours.empty and design.leaf_tables("Pod1.Seg1.Leaf1")["table"].unique().tolist() == [
        "RIB",
        "Loc-RIB",
    ]
    assert all(ip_network(prefix) for prefix in design.advertised["prefix"])
    with pytest.raises(ValueError, match=re.escape("give a rail switch, Pod1.Seg1.Leaf1 to Pod1.Seg1.Leaf1")):
        design.leaf_tables("Pod1.Spine1")
    with pytest.raises(ValueError, match="control_plane is 'OSPF': give one of eBGP, iBGP, BGP EVPN"):
        BgpDesign(design.plan, "OSPF")
