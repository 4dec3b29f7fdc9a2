"""FRRouting export: stored texts, both ends of a link, routes to every NIC, and FRRouting's own check of a file."""

import re
import shutil
import subprocess
from functools import cache
from ipaddress import ip_interface, ip_network
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_addressing import plans

from railcore.catalog import UnknownName
from railcore.catalog.units import Gbps
from railcore.network.switches import switch_model
from suite.deployment.cables import cabling_table
from suite.deployment.frr import ABOVE, BELOW, frr_text
from suite.deployment.resilience import SPINE_LINKS, failover
from suite.deployment.routing import BgpDesign
from suite.deployment.segments import SegmentFabric
from suite.deployment.subnets import AddressPlan
from suite.deployment.switch_configs import switch_config

SN5600 = switch_model("SN5600")
BUNDLINGS = ("none", "mlag", "evpn")
STORED = Path(__file__).with_name("frr")  # a configuration of each role and bundling, as FRRouting took it


def design(bundling="none", summarised=True, **options):
    shape = {"servers": 4, "segments": 2, "pods": 2, "spines": 2, "super_spines": 2, "nic_ports": 2}
    fabric = SegmentFabric(**{**shape, "rail_switch": SN5600, "port_Bps": 200 * Gbps, "rails_per_switch": 4, **options})
    plane = "BGP EVPN" if bundling == "evpn" else "eBGP"
    return BgpDesign(AddressPlan(fabric, bundling=bundling), control_plane=plane, summarised=summarised)


@st.composite
def designs(draw):
    plan = draw(plans())
    if plan.bundling == "evpn" and not plan.fabric.spines:
        plan = AddressPlan(plan.fabric, bundling="none")
    plane = "BGP EVPN" if plan.bundling == "evpn" else "eBGP"
    return BgpDesign(plan, control_plane=plane, summarised=draw(st.booleans()))


def configs_of(bgp):
    """The configuration of every switch of a design."""
    return {name: switch_config(bgp, name) for name in bgp.switches["switch"]}


@pytest.mark.parametrize("bundling", BUNDLINGS)
@pytest.mark.parametrize("switch", ["Pod1.Seg1.Leaf1", "Pod1.Spine1", "Super1"])
def test_texts_are_those_stored(bundling, switch):
    bgp = design(bundling, servers=2, spine_links=2, rails_per_switch=8)
    stored = STORED / f"{bundling}_{switch}.conf"
    assert frr_text(switch_config(bgp, switch, 9000)) == stored.read_text()


@settings(max_examples=10)
@given(designs())
def test_configurations_agree_with_each_other_and_with_the_tables(bgp):
    """One test of all, so that each design is exported once."""
    configs = configs_of(bgp)
    check_members_of_bonds(bgp, configs)
    check_links(bgp, configs)
    check_gateways_and_summaries(bgp, configs)
    check_routes(bgp, configs)
    check_cuts(bgp, configs)


def check_members_of_bonds(bgp, configs):
    """They are those of the cabling list."""
    cables = cabling_table(bgp.plan)
    ends = [("to", "to_port", cables), ("from", "from_port", cables[cables["kind"] != "host"])]
    cabled = {(at, port): kind for side, name, part in ends for at, port, kind in part[[side, name, "kind"]].to_numpy()}
    for switch, config in configs.items():
        uplinks = [name for link in config.links for name in (link.members or (link.interface,))]
        hosts = [name for segment in config.ethernet_segments for name in segment.members]
        assert len({*uplinks, *hosts}) == len(uplinks) + len(hosts)
        assert {cabled[switch, name] for name in uplinks} <= {"spine", "super-spine"}
        assert {cabled[switch, name] for name in hosts} <= {"host"}
        wanted = [at for (at, _), kind in cabled.items() if at == switch and kind in ("spine", "super-spine")]
        assert len(uplinks) == len(wanted)
        if config.ethernet_segments:
            assert len(hosts) == sum(at == switch and kind == "host" for (at, _), kind in cabled.items())


def check_links(bgp, configs):
    """Both ends of a link agree and have the addresses of the tables."""
    ends = set()
    for name, config in configs.items():
        for link in config.links:
            other = configs[link.peer]
            (back,) = [back for back in other.links if back.interface == link.peer_interface]
            assert (back.peer, back.peer_interface, back.peer_as) == (name, link.interface, config.as_number)
            assert (link.peer_as, link.peer_address) == (other.as_number, str(ip_interface(back.address).ip))
            assert ip_interface(back.address).network == ip_interface(link.address).network
            assert {link.group, back.group} == {ABOVE, BELOW}
            ends.add((name, str(ip_interface(link.address).ip), link.peer, link.peer_address))
        for peer in config.evpn_peers:
            assert configs[peer.peer].loopback == peer.address
            assert configs[peer.peer].as_number == peer.as_number
            assert name in {far.peer for far in configs[peer.peer].evpn_peers}
    table = bgp.neighbours[bgp.neighbours["session"] == "link"]
    columns = ["switch", "address", "neighbour", "neighbour_address"]
    assert ends == set(table[columns].itertuples(index=False, name=None))


def check_gateways_and_summaries(bgp, configs):
    """Gateways are those of the subnets, and summaries cover their own alone."""
    plan = bgp.plan
    gateways = {(row.unit, row.vlan): (row.subnet, row.gateway) for row in plan.subnets.itertuples()}
    units = dict(zip(plan.switches["switch"], plan.switches["unit"], strict=True))
    for name, config in configs.items():
        mine = {vlan: ends for (unit, vlan), ends in gateways.items() if unit == units[name]}
        assert {gateway.vlan for gateway in config.gateways} == (set(mine) if plan.fabric.routed else set())
        for entry in config.gateways:
            subnet, gateway = mine[entry.vlan]
            assert str(ip_interface(entry.address).network) == subnet
            assert (entry.shared or str(ip_interface(entry.address).ip)) == gateway
        for aggregate in map(ip_network, config.aggregates):
            inside = {unit for unit, vlan in gateways if ip_network(gateways[unit, vlan][0]).subnet_of(aggregate)}
            pod = name.partition(".")[0]
            assert inside == ({units[name]} if units[name] else {unit for unit in units.values() if f"{pod}." in unit})
        at = [ip_interface(end.address).network for end in (*config.links, *config.gateways)]
        assert len(set(at)) == len(at), "a network is on one interface"
    segments = {}
    for unit in {unit for unit in units.values() if unit}:
        members = [configs[name] for name in units if units[name] == unit]
        assert len({switch.ethernet_segments for switch in members}) == 1, "the pair must say the same"
        for entry in members[0].ethernet_segments:
            assert int(entry.mac[:2], 16) & 3 == 2  # locally administered, unicast
            assert segments.setdefault((entry.mac, entry.number), unit) == unit
        addresses = [gateway.address for member in members for gateway in member.gateways if gateway.shared]
        assert len(set(addresses)) == len(addresses), "each has an address of its own"
        shared = {gateway.shared for member in members for gateway in member.gateways}
        assert not {str(ip_interface(text).ip) for text in addresses} & (shared | set(plan.ports["address"]))


def learnt(configs, cut=frozenset()):
    """Best AS path of every prefix at every switch, by what the configurations announce, filter and suppress.

    cut: pairs of switches whose links are down. Aggregates stay: of what each is over, one cut leaves some.
    """
    best = {}
    for name, config in configs.items():
        local = [f"{config.loopback}/32", *config.networks, *config.aggregates]
        best[name] = {prefix: (0, ()) for prefix in local if config.as_number}
    prefixes = {prefix for of in best.values() for prefix in of}
    told = {name: sent_by(config, prefixes) for name, config in configs.items()}
    changed = True
    while changed:
        changed = False
        for name, config in configs.items():
            for link in config.links:
                if {name, link.peer} in cut:
                    continue
                for prefix in best[name].keys() & told[name][link.group]:
                    path = (config.as_number, *best[name][prefix][1])
                    if link.peer_as in path or best[link.peer].get(prefix, (9, ()))[0] <= len(path):
                        continue
                    best[link.peer][prefix] = (len(path), path)
                    changed = True
    return best


def sent_by(config, prefixes):
    """Of some prefixes those that a switch lets out to the tiers above and below."""
    networks = {prefix: ip_network(prefix) for prefix in prefixes}
    aggregates = [ip_network(aggregate) for aggregate in config.aggregates if config.summary_only]
    seen = {p for p, net in networks.items() if not any(net != whole and net.subnet_of(whole) for whole in aggregates)}
    listed = [(ip_network(at), bool(longer)) for at, *longer in map(str.split, config.above_only)]

    def permitted(network):
        return any(network == at or (longer and network.subnet_of(at)) for at, longer in listed)

    above = {prefix for prefix in seen if not listed or permitted(networks[prefix])}
    return {ABOVE: above, BELOW: seen - set(config.not_below)}


def check_routes(bgp, configs):
    """Every rail switch has a route to every NIC, and as many as are counted."""
    plan = bgp.plan
    if not plan.fabric.spines:
        assert not any(config.links or config.as_number for config in configs.values())
        return
    best, loopbacks = learnt(configs), {f"{config.loopback}/32" for config in configs.values()}
    column = "subnets_with_summaries" if bgp.summarised else "subnets_without_summaries"
    counted = bgp.route_counts.set_index("role")[column]
    subnets = [ip_network(text) for text in plan.subnets["subnet"]]
    leaves = {name for name in configs if ".Leaf" in name}
    for name, role in zip(bgp.switches["switch"], bgp.switches["role"], strict=True):
        routes = [ip_network(prefix) for prefix in best[name] if prefix not in loopbacks]
        assert len(routes) == counted[role], (name, routes)
        if name in leaves:
            assert all(any(subnet.subnet_of(route) for route in routes) for subnet in subnets)
            assert {f"{configs[leaf].loopback}/32" for leaf in leaves} <= set(best[name])


def lost_by_pod(bgp, configs, cut):
    """Of the flows to a subnet of the first rail switch the share that is lost while links are down, by source pod.

    Followed over the routes that the configurations leave, spread evenly over the best ones of the longest prefix, from
    every other unit; of a pod the worst.
    """
    plan, best = bgp.plan, learnt(configs, cut)
    target = ip_network(plan.subnets["subnet"].iloc[0])
    covers = {prefix for prefix in set().union(*best.values()) if target.subnet_of(ip_network(prefix))}
    told = {name: sent_by(config, covers) for name, config in configs.items()}

    @cache
    def arrive(name):
        longest = max(covers & best[name].keys(), key=lambda prefix: ip_network(prefix).prefixlen, default=None)
        if longest is None or not best[name][longest][0]:
            return float(longest in configs[name].networks)  # its own; of an aggregate alone it drops the packet
        length, onward = best[name][longest][0], []
        for link in configs[name].links:
            path, back = best[link.peer].get(longest, (length, ())), {ABOVE: BELOW, BELOW: ABOVE}[link.group]
            up = {name, link.peer} not in cut and longest in told[link.peer][back]
            if up and path[0] + 1 == length and configs[name].as_number not in path[1]:
                onward.append(link.peer)
        return sum(map(arrive, onward)) / len(onward)

    lost = {}
    for row in plan.switches[plan.switches["tier"] == 1].itertuples():
        if row.unit != plan.subnets["unit"].iloc[0]:
            lost[row.pod] = max(lost.get(row.pod, 0.0), 1 - arrive(row.switch))
    return lost


def check_cuts(bgp, configs):
    """Flows that a cut loses are those of the routes left.

    Cut are of a rail switch the links to one spine; of this spine those to one super-spine; all of one that bundles.
    """
    trunks = bgp.plan.trunks[bgp.plan.trunks["kind"] == "trunk"]
    if trunks.empty:
        assert bgp.flows_lost == 0 and SPINE_LINKS not in set(failover(bgp.plan)["failure"])
        return
    row = failover(bgp.plan).set_index("failure").loc[SPINE_LINKS]
    assert row["flows_lost_with_summaries" if bgp.summarised else "flows_lost"] == bgp.flows_lost
    one, spine = trunks[["switch", "peer"]].iloc[0]
    assert row["part"] == f"{one} to {spine}"
    fabric, lost = bgp.plan.fabric, lost_by_pod(bgp, configs, [{one, spine}])
    farthest = max(lost, default=0)
    assert not farthest or lost[farthest] == pytest.approx(bgp.flows_lost)
    assert lost.get(1, 0) == (1 in lost and fabric.spines == 1 and bgp.flows_lost), "summaries hide nothing in the pod"
    upper = trunks[trunks["switch"] == spine]
    if len(upper) and fabric.pods > 1:
        lost = lost_by_pod(bgp, configs, [{spine, upper["peer"].iloc[0]}])
        assert lost[fabric.pods] == (fabric.spines == fabric.super_spines == 1), "summaries of pods are withdrawn"
    if bgp.plan.is_bundled and fabric.homing > 1:
        ends = trunks.loc[trunks["switch"] == one, ["switch", "peer"]].to_numpy()
        assert not any(lost_by_pod(bgp, configs, [set(end) for end in ends]).values()), "others of its unit take over"


@pytest.mark.parametrize("summarised", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"spines": 3, "spine_links": 2, "pods": 3},
        {"spines": 4, "super_spines": 4, "super_spine_planes": 2},
        {"super_spine_planes": 2},
        {"segments": 1, "rails_per_switch": 8, "nic_ports": 1},
        {"spines": 1, "super_spines": 1, "nic_ports": 1},
        {"bundling": "mlag"},
        {"bundling": "evpn", "spines": 1},
    ],
    ids=str,
)
def test_flows_that_a_cut_in_three_tiers_loses_are_those_of_the_routes_left(options, summarised):
    bgp = design(**options, summarised=summarised)
    check_cuts(bgp, configs_of(bgp))


@pytest.mark.parametrize("nic_ports", [1, 2])
def test_by_default_a_cut_link_loses_no_flow(nic_ports):
    """As on FRRouting: with summaries half of the flows from another pod are lost, by default none."""
    fabric = design(nic_ports=nic_ports).plan.fabric
    plan = AddressPlan(fabric, bundling="none")
    safe, summarised = BgpDesign(plan), BgpDesign(plan, summarised=True)
    cut = [{"Pod1.Seg1.Leaf1", "Pod1.Spine1"}]
    assert lost_by_pod(safe, configs_of(safe), cut) == {1: 0, 2: 0}
    assert lost_by_pod(summarised, configs_of(summarised), cut) == {1: 0, 2: 0.5}
    assert safe.warnings == () and "aggregate-address" not in frr_text(switch_config(safe, "Pod1.Spine1"))
    (warning,) = summarised.warnings
    assert "1 in 2 of the flows from other pods" in warning
    for row in summarised.route_counts.itertuples():
        assert f"a {row.role} {row.subnets_without_summaries} in place of {row.subnets_with_summaries}" in warning


@pytest.mark.parametrize(
    "options",
    [{"pods": 1, "super_spines": 0}, {"segments": 1, "rails_per_switch": 8, "nic_ports": 1}, {"spines": 1}],
    ids=["two tiers", "one rail switch a pod", "one spine"],
)
def test_summaries_that_lose_nothing_more_are_not_warned_of(options):
    assert design(**options).warnings == ()


def test_a_pair_is_warned_of_with_both_its_switches():
    bgp = design("evpn")
    assert "links to all 2 rail switches that bundle the same NICs" in bgp.warnings[0] and not bgp.flows_lost
    of_both = [{"Pod1.Seg1.Leaf1", "Pod1.Spine1"}, {"Pod1.Seg1.Leaf2", "Pod1.Spine1"}]
    assert lost_by_pod(bgp, configs_of(bgp), of_both) == {1: 0, 2: 0.5}
    safe = design("evpn", summarised=False)
    assert lost_by_pod(safe, configs_of(safe), of_both) == {1: 0, 2: 0}


@pytest.mark.parametrize("bundling", BUNDLINGS)
def test_a_packet_of_a_vlan_fits_the_links_with_what_vxlan_adds(bundling):
    """Under EVPN: inner Ethernet 14, VXLAN 8, UDP 8, IP 20 (RFC 7348)."""
    config = switch_config(design(bundling), "Pod1.Seg1.Leaf1", 9216)
    mtus = dict(re.findall(r"interface (\w+)\n description .*MTU (\d+)", frr_text(config)))
    least = 14 + 8 + 8 + 20 if bundling == "evpn" else 0
    to_hosts = [f"vlan{gateway.vlan}" for gateway in config.gateways] + [
        segment.interface for segment in config.ethernet_segments
    ]
    between = ["lo", *(link.interface for link in config.links)]
    assert mtus == dict.fromkeys(between, "9216") | dict.fromkeys(to_hosts, str(9216 - least))
    if least:
        with pytest.raises(ValueError, match="mtu is 117: VXLAN leaves 67 bytes to VLANs: give 118 or more"):
            switch_config(design(bundling), "Pod1.Seg1.Leaf1", 117)


@pytest.mark.parametrize("bundling", BUNDLINGS)
def test_a_rail_switch_keeps_the_failure_of_another_in_sight(bundling):
    """Spines tell rail switches each unit's summary, not the pod's: a unit cut off has no route, not a dead one."""
    configs = configs_of(design(bundling))
    spine, leaf = configs["Pod1.Spine1"], configs["Pod1.Seg1.Leaf1"]
    assert spine.not_below == spine.aggregates and not spine.summary_only
    assert spine.above_only[0] == spine.aggregates[0]
    routes = learnt(configs)[leaf.hostname]
    assert spine.aggregates[0] not in routes
    assert configs["Pod2.Spine1"].aggregates[0] in routes
    assert set(configs["Pod1.Seg2.Leaf1"].aggregates) <= set(routes)


def test_switches_without_spines_have_no_bgp():
    config = switch_config(design(segments=1, pods=1, spines=0, super_spines=0), "Pod1.Seg1.Leaf1")
    text = frr_text(config)
    assert not re.search("router bgp|prefix-list|bfd", text) and not config.gateways


@pytest.mark.parametrize("entries", [1, 3])
def test_an_excerpt_leaves_out_what_repeats_and_says_how_much(entries):
    config = switch_config(design(segments=3), "Pod1.Spine1")
    text, short = frr_text(config), frr_text(config, entries)
    assert f"! left out: {3 * 4 - entries} interfaces like this" in short
    assert short.count("remote-as") == min(entries, 2) + entries
    kept = [line for line in short.splitlines() if not line.strip().startswith("! left out")]
    lines = iter(text.splitlines())
    assert all(any(line == other for other in lines) for line in kept), "lines in their order"
    assert frr_text(config, 99) == text
    with pytest.raises(ValueError, match="entries is 0"):
        frr_text(config, 0)


def test_what_the_export_has_no_lines_for_is_refused():
    with pytest.raises(UnknownName, match="switch of the plan"):
        switch_config(design(), "Pod1.Spine9")
    with pytest.raises(ValueError, match="nobody to tell of their Ethernet segments: give control_plane 'BGP EVPN'"):
        switch_config(BgpDesign(design("evpn").plan), "Pod1.Seg1.Leaf1")


def test_a_summary_that_overlaps_anothers_is_refused():
    fabric = SegmentFabric(4, SN5600, gpus_per_server=2, segments=2, spines=1)
    plan = AddressPlan(fabric, own_subnets=("10.0.0.0/28", "10.0.0.32/28", "10.0.0.16/28", "10.0.0.48/28"))
    with pytest.raises(ValueError, match=r"10.0.0.0/26 of Pod1.Seg1.Leaf1 overlaps another unit's: give summarised"):
        switch_config(BgpDesign(plan, summarised=True), "Pod1.Seg1.Leaf1")
    assert not switch_config(BgpDesign(plan), "Pod1.Seg1.Leaf1").aggregates


@pytest.mark.parametrize("stored", sorted(STORED.glob("*.conf")), ids=lambda path: path.stem)
def test_the_suite_itself_takes_the_export(stored):
    """FRRouting's own check of a file, where the suite is installed."""
    vtysh = shutil.which("vtysh")
    if not vtysh:
        pytest.skip("vtysh of FRRouting is not installed: the stored texts alone are compared")
    said = subprocess.run([vtysh, "-C", "-f", str(stored)], capture_output=True, text=True, timeout=60, check=False)
    assert not re.search("Unknown command|line [0-9]+", said.stdout + said.stderr), said.stdout + said.stderr
    assert said.returncode == 0
