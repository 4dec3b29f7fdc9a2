"""Subnets, summaries and addresses: unique, inside, apart; pools that overlap or do not suffice."""

import re
from ipaddress import ip_address, ip_network
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_addressing import LARGE, SMALL, every_kind

from suite.deployment.segments import SegmentFabric
from suite.deployment.subnets import AddressPlan, address_texts, address_use
from suite.deployment.summaries import free_network, summary_check


def apart(networks):
    ordered = sorted(networks)
    return not any(a.overlaps(b) for a, b in pairwise(ordered))


@every_kind
def test_addresses_are_unique_and_in_their_subnet(plan):
    ports, gateways = plan.ports, dict(zip(plan.subnets["subnet"], plan.subnets["gateway"], strict=True))
    per_nic = ports.drop_duplicates(["domain", "gpu"]) if plan.is_bundled else ports
    assert per_nic["address"].is_unique
    assert len(set(ports["address"])) == plan.fabric.gpus * (1 if plan.is_bundled else plan.fabric.nic_ports)
    for subnet, address in set(zip(ports["subnet"], ports["address"], strict=True)):
        network, host, gateway = ip_network(subnet), ip_address(address), ip_address(gateways[subnet])
        assert host in network and gateway in network
        assert int(network.network_address) + plan.gateways < int(host) < int(network.broadcast_address)
        assert int(network.network_address) < int(gateway) < int(host)


@every_kind
def test_no_two_subnets_overlap_and_a_summary_covers_its_own_alone(plan):
    subnets = [ip_network(text) for text in plan.subnets["subnet"]]
    assert apart(subnets) and all(net.subnet_of(ip_network(plan.pool)) for net in subnets)
    assert plan.summaries["valid"].all()
    for level, names in (("unit", ["unit"]), ("segment", ["pod", "segment"]), ("pod", ["pod"])):
        rows = plan.summaries[plan.summaries["level"] == level]
        assert apart([ip_network(text) for text in rows["summary"]])
        groups = [[ip_network(text) for text in part["subnet"]] for _, part in plan.subnets.groupby(names, sort=False)]
        assert len(rows) == len(groups)
        for i, (text, members) in enumerate(zip(rows["summary"], groups, strict=True)):
            others = [net for j, group in enumerate(groups) if i != j for net in group]
            check = summary_check(text, members)
            assert check.valid and check.cover == check.summary, check.reason
            assert not any(net.overlaps(check.summary) for net in others)


@every_kind
def test_vlans_and_subnets_are_those_of_the_ports(plan):
    """A VLAN is one subnet on a switch; a switch's rails stand in its unit's subnets."""
    ports = plan.ports
    assert (ports.groupby(["switch", "vlan"])["subnet"].nunique() == 1).all()
    assert (ports.groupby(["switch", "subnet"])["vlan"].nunique() == 1).all()
    unit = dict(zip(plan.switches["switch"], plan.switches["unit"], strict=True))
    table = {row.subnet: row for row in plan.subnets.itertuples()}
    assert len(table) == len(plan.subnets)
    seen = ports[["switch", "vlan", "subnet", "rail", "nic_port", "pod", "segment"]].drop_duplicates()
    for row in seen.itertuples():
        subnet = table[row.subnet]
        assert (subnet.unit, subnet.vlan, subnet.rail) == (unit[row.switch], row.vlan, row.rail)
        assert (subnet.pod, subnet.segment) == (row.pod, row.segment) and subnet.nic_port in (0, row.nic_port)
    assert set(ports["subnet"]) == set(table)


@every_kind
def test_links_and_loopbacks_have_addresses_of_their_own(plan):
    trunks = plan.trunks[plan.trunks["kind"] == "trunk"]
    assert (plan.trunks.loc[plan.trunks["kind"] == "peer", "address"] == "").all()
    by_link = trunks.drop_duplicates("subnet")
    assert len(by_link) == plan.routed_links
    both = [*by_link["address"], *by_link["peer_address"], *plan.switches["loopback"], *set(plan.ports["address"])]
    assert len(set(both)) == len(both)
    for row in by_link.itertuples():
        assert set(ip_network(row.subnet)) == {ip_address(row.address), ip_address(row.peer_address)}
    bundles = trunks[trunks["port_channel"] > 0]
    assert (bundles.groupby(["switch", "port_channel"])["subnet"].nunique() == 1).all()
    use = address_use(plan).set_index("use")
    assert use.loc["links between switches", "networks"] == len(by_link)
    assert use.loc["NIC subnets", "used"] == len(set(plan.ports["address"])) + len(plan.subnets) * plan.gateways


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=30))
def test_addresses_are_written_as_ipaddress_does(values):
    assert address_texts(values).tolist() == [str(ip_address(value)) for value in values]


NETWORKS = st.builds(
    lambda start, prefix: ip_network((start >> (32 - prefix) << (32 - prefix), prefix)),
    st.integers(0, 2**20),
    st.integers(20, 32),
)


@given(NETWORKS, st.lists(NETWORKS, min_size=1, max_size=6).filter(apart))
def test_a_summary_is_valid_where_it_holds_all_subnets(summary, own):
    check = summary_check(str(summary), own)
    inside = all(set_of(net) <= set_of(summary) for net in own)
    assert check.valid == inside and set(check.covers) | set(check.misses) == set(own)
    assert all(net.subnet_of(check.cover) for net in own)
    if check.cover.prefixlen < 32:  # none of its halves would do
        assert not any(all(net.subnet_of(half) for net in own) for half in check.cover.subnets())
    if check.renumbered:
        assert summary_check(summary, check.renumbered).valid
        assert [net.prefixlen for net in check.renumbered] == [net.prefixlen for net in own]


def set_of(network):
    return set(range(int(network.network_address), int(network.broadcast_address) + 1))


def test_rails_outside_the_summary_are_named_and_valid_ones_given():
    rails = [f"10.0.{rail}.0/28" for rail in range(1, 9)]
    check = summary_check("10.0.1.0/24", rails)
    assert not check.valid and len(check.covers) == 1 and str(check.cover) == "10.0.0.0/20"
    assert [str(net) for net in check.renumbered[:2]] == ["10.0.1.0/28", "10.0.1.16/28"]
    assert "covers 1 of 8 subnets, not 10.0.2.0/28 and 6 more: not valid" in check.reason
    two = summary_check("10.0.1.0/24", ["10.0.1.0/25", "10.0.128.0/25"])
    assert len(two.covers) == 1 and str(two.cover) == "10.0.0.0/16" and len(two.renumbered) == 2


def test_subnets_hold_hosts_gateways_network_and_broadcast():
    plan = AddressPlan(SegmentFabric(13, LARGE))
    assert (plan.prefix_length, plan.gateways) == (28, 1) and set(plan.subnets["spare"]) == {0}
    assert AddressPlan(SegmentFabric(14, LARGE)).prefix_length == 27
    pair = AddressPlan(SegmentFabric(13, LARGE, nic_ports=2))
    assert (pair.gateways, pair.prefix_length, set(pair.subnets["reserved"])) == (3, 27, {5})
    for gateways in (1, 3):
        assert AddressPlan(pair.fabric, gateways=gateways).subnets["gateway"].iloc[0] == f"10.0.0.{gateways}"
    with pytest.raises(ValueError, match=r"gateways is 2 for 2 switches .*: give 1, which they share, or 3"):
        AddressPlan(pair.fabric, gateways=2)
    with pytest.raises(ValueError, match="hold 13 hosts, but servers is 14: give 27 or less"):
        AddressPlan(SegmentFabric(14, LARGE), prefix_length=28)


def test_subnets_go_round_what_is_reserved():
    fabric = SegmentFabric(4, LARGE, segments=2, pods=2, spines=2, super_spines=2)
    free, beside = AddressPlan(fabric), AddressPlan(fabric, reserved=["10.0.0.64/26", "10.0.1.0/25"])
    assert free.subnets["subnet"].iloc[0] == "10.0.0.0/29"
    assert beside.subnets["subnet"].iloc[0] == "10.0.1.128/29"  # the first two /25 that are free
    nets = [ip_network(text) for text in beside.subnets["subnet"]]
    assert not any(net.overlaps(ip_network(text)) for net in nets for text in beside.reserved)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"pool": "10.0.0.0/24"},
            "2 pods of 256 addresses (a /24 each, of /28 subnets) do not fit. A /23 would fit, or 1 pod",
        ),
        ({"pool": "10.0.0.0/23", "reserved": ["10.0.0.0/25"]}, "beside 1 reserved network"),
        ({"link_pool": "172.16.0.0/30"}, "link_pool is 172.16.0.0/30 with 4 addresses, the plan takes 32"),
        ({"loopback_pool": "192.168.0.0/29"}, "loopback_pool is 192.168.0.0/29 with 8 addresses, the plan takes 11"),
        (
            {"link_pool": "10.1.0.0/16"},
            "link_pool is 10.1.0.0/16, which overlaps pool 10.0.0.0/8: give others, such as 172.16.0.0/27",
        ),
        ({"reserved": ["172.16.0.0/16"]}, "link_pool is 172.16.0.0/12, which overlaps reserved 172.16.0.0/16"),
        ({"pool": "10.0.0.1/8"}, "pool is '10.0.0.1/8', which has bits after its prefix: write '10.0.0.0/8'"),
        ({"pool": "2001:db8::/32"}, "which is IPv6"),
        ({"vlan_base": 4093}, "8 VLANs end at 4100, above 4094: give 4087 or less"),
        ({"own_subnets": ["10.0.0.0/28"]}, "own_subnets has 1 network, but the fabric takes 32: give 32"),
    ],
)
def test_pools_that_overlap_or_do_not_suffice_are_refused_with_what_would(options, message):
    fabric = SegmentFabric(8, LARGE, segments=2, pods=2, spines=2, super_spines=2)
    with pytest.raises(ValueError, match=re.escape(message)):
        AddressPlan(fabric, **options)


def test_subnets_of_ones_own_are_summarised_as_they_stand():
    fabric = SegmentFabric(4, SMALL)
    plan = AddressPlan(fabric, "by rail", own_subnets=[f"10.0.{rail}.0/28" for rail in range(1, 9)])
    assert plan.prefix_length == 28
    assert plan.summaries["summary"].tolist() == ["10.0.0.0/20"] * 3 and plan.summaries["valid"].all()
    assert plan.ports["address"].iloc[:2].tolist() == ["10.0.1.2", "10.0.2.2"]
    interleaved = AddressPlan(
        SegmentFabric(4, SMALL, gpus_per_server=4, rails_per_switch=2),
        own_subnets=["10.0.1.0/28", "10.0.3.0/28", "10.0.2.0/28", "10.0.4.0/28"],
    )
    assert interleaved.summaries.query("level == 'unit'")["valid"].tolist() == [False, False]
    with pytest.raises(ValueError, match=r"10.0.1.0/28 and 10.0.1.0/28, which overlap: give 10.0.1.0/28 other"):
        AddressPlan(fabric, own_subnets=["10.0.1.0/28"] * 8)


def test_a_free_network_starts_where_its_own_length_divides():
    taken = [ip_network(text) for text in ("10.0.0.0/24", "10.0.2.0/25")]
    assert free_network(24, []) == "10.0.0.0/24" and free_network(24, taken) == "10.0.1.0/24"
    assert free_network(23, taken) == "10.0.4.0/23" and free_network(25, taken) == "10.0.1.0/25"
    assert free_network(8, taken, [ip_network("10.0.0.0/8")]) == "none: the addresses end here"
