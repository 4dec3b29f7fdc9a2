"""BGP over an address plan: AS numbers, both ends of a session, routes held against sets of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_addressing import LARGE, SN5600, plans

from suite.deployment.routing import EVPN, PRIVATE_ASNS, BgpDesign
from suite.deployment.segments import SegmentFabric
from suite.deployment.subnets import AddressPlan

designs = st.builds(BgpDesign, plans(), st.sampled_from(["eBGP", "BGP EVPN"]))


@given(designs)
def test_as_numbers_are_private_and_apart_where_they_should_be(design):
    table = design.switches
    assert all(any(low <= asn <= high for low, high in PRIVATE_ASNS) for asn in table["asn"])
    assert table.groupby("asn")["tier"].nunique().eq(1).all()
    leaves, spines, tops = (table[table["tier"] == tier] for tier in (1, 2, 3))
    assert leaves["asn"].is_unique and tops["asn"].nunique() <= 1
    assert spines["asn"].nunique() == spines["pod"].nunique()
    assert spines.groupby("pod")["asn"].nunique().eq(1).all()


@given(designs)
def test_both_ends_of_a_session_agree(design):
    table = design.neighbours
    ends = ["switch", "asn", "address", "neighbour", "neighbour_asn", "neighbour_address"]
    mine = set(table[[*ends, "session", "family"]].itertuples(index=False, name=None))
    theirs = set(table[[*ends[3:], *ends[:3], "session", "family"]].itertuples(index=False, name=None))
    assert mine == theirs and len(mine) == len(table)
    links = design.plan.routed_links
    pairs = len(design.plan.trunks.query("kind == 'trunk'").drop_duplicates(["switch", "peer"]))
    assert len(table) == 2 * {"eBGP": links, "BGP EVPN": links + pairs}[design.control_plane]
    assert (table["family"] == EVPN).sum() == (2 * pairs if design.control_plane == "BGP EVPN" else 0)


def held(design, switch, summarised):
    """Prefixes of NIC subnets that a switch holds, by following the advertisements."""
    plan, fabric = design.plan, design.plan.fabric
    place = design.switches.set_index("switch").loc[switch]
    subnets, summaries = plan.subnets, plan.summaries
    subnets_here = set(subnets.loc[subnets["unit"] == place["unit"], "subnet"]) if place["tier"] == 1 else set()
    if not fabric.spines:
        return subnets_here
    if not summarised:
        return set(subnets["subnet"])
    units, pods = (summaries[summaries["level"] == level] for level in ("unit", "pod"))
    if place["tier"] == 3:
        return set(pods["summary"])
    held = subnets_here | set(units.loc[units["pod"] == place["pod"], "summary"])
    held |= set(pods.loc[pods["pod"] != place["pod"], "summary"])
    if place["tier"] == 2 and fabric.super_spines:
        held |= set(pods.loc[pods["pod"] == place["pod"], "summary"])
    return held


@given(designs)
def test_route_counts_are_the_sizes_of_what_switches_hold(design):
    counts = design.route_counts.set_index("role")
    for role, switches in design.switches.groupby("role")["switch"]:
        for switch in switches:
            assert counts.loc[role, "subnets_with_summaries"] == len(held(design, switch, True)), switch
            assert counts.loc[role, "subnets_without_summaries"] == len(held(design, switch, False)), switch
    every = len(design.switches)  # leaves without spines know nobody else
    assert counts["loopbacks"].eq(every if design.plan.fabric.spines else 1).all()


def test_summaries_save_routes_at_scale():
    fabric = SegmentFabric(16, SN5600, segments=4, pods=4, spines=8, super_spines=8, rails_per_switch=2)
    counts = BgpDesign(AddressPlan(fabric)).route_counts.set_index("role")
    assert counts["subnets_without_summaries"].eq(128).all()
    assert counts.loc["rail switch", "subnets_with_summaries"] == 2 + 1 + 15 + 3
    assert counts.loc["super-spine", "subnets_with_summaries"] == 4


def test_four_byte_numbers_where_two_do_not_suffice():
    small = SegmentFabric(1, LARGE, segments=2, spines=1)
    large = SegmentFabric(1, LARGE, segments=60, pods=4, spines=1, super_spines=1, rails_per_switch=1)
    assert BgpDesign(AddressPlan(small)).first_asn == 64512
    design = BgpDesign(AddressPlan(large))
    assert design.first_asn == 4200000000 and design.switches["asn"].nunique() == 1 + 4 + 4 * 60 * 8
    assert BgpDesign(AddressPlan(small), first_asn=65001).switches["asn"].tolist() == [65002, 65003, 65001]
    for first, message in ((65534, "give 64512 to 65532 or 4200000000 to 4294967292"), (100, "leave the private ones")):
        with pytest.raises(ValueError, match=message):
            BgpDesign(AddressPlan(small), first_asn=first)
