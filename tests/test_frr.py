"""FRRouting export: read as written, both ends of a link agree, routes reach every NIC, the suite takes it."""

import re
import shutil
import subprocess
from ipaddress import ip_address, ip_interface, ip_network

import pytest
from frr_reader import read_frr
from hypothesis import given
from hypothesis import strategies as st
from test_addressing import plans

from railcore.engines.deployment import AddressPlan
from railcore.engines.deployment.cables import cabling_table
from railcore.engines.deployment.frr import ABOVE, BELOW, BfdTimers, SwitchConfig, frr_text
from railcore.engines.deployment.routing import BgpDesign
from railcore.engines.deployment.segments import SegmentFabric
from railcore.engines.deployment.switch_configs import switch_config
from railcore.facts.catalog import UnknownName
from railcore.facts.units import Gbps
from railcore.network.switches import switch_model

SN5600 = switch_model("SN5600")


def design(bundling="none", summarised=True, **options):
    shape = {"servers": 4, "segments": 2, "pods": 2, "spines": 2, "super_spines": 2, "nic_ports": 2}
    fabric = SegmentFabric(**{**shape, "rail_switch": SN5600, "port_Bps": 200 * Gbps, "rails_per_switch": 4, **options})
    plane = "BGP EVPN" if bundling == "evpn" else "eBGP"
    return BgpDesign(AddressPlan(fabric, bundling=bundling), control_plane=plane, summarised=summarised)


@st.composite
def designs(draw):
    plan = draw(plans())
    evpn = plan.bundling == "evpn"
    if evpn and not plan.fabric.spines:
        plan, evpn = AddressPlan(plan.fabric, bundling="none"), False
    plane = "BGP EVPN" if evpn and plan.fabric.spines else "eBGP"
    return BgpDesign(plan, control_plane=plane, summarised=draw(st.booleans()))


def configs_of(bgp):
    """What every switch of a design reads from its own text."""
    return {name: read_frr(frr_text(switch_config(bgp, name))) for name in bgp.switches["switch"]}


@given(designs())
def test_what_is_read_is_what_was_written(bgp):
    for name in bgp.switches["switch"]:
        config = switch_config(bgp, name)
        assert read_frr(frr_text(config)) == config


@given(designs())
def test_members_of_bonds_are_those_of_the_cabling_list(bgp):
    cables = cabling_table(bgp.plan)
    ends = [("to", "to_port", cables), ("from", "from_port", cables[cables["kind"] != "host"])]
    cabled = {(at, port): kind for side, name, part in ends for at, port, kind in part[[side, name, "kind"]].to_numpy()}
    for switch, config in configs_of(bgp).items():
        uplinks = [name for link in config.links for name in (link.members or (link.interface,))]
        hosts = [name for segment in config.ethernet_segments for name in segment.members]
        assert len({*uplinks, *hosts}) == len(uplinks) + len(hosts)
        assert {cabled[switch, name] for name in uplinks} <= {"spine", "super-spine"}
        assert {cabled[switch, name] for name in hosts} <= {"host"}
        wanted = [at for (at, _), kind in cabled.items() if at == switch and kind in ("spine", "super-spine")]
        assert len(uplinks) == len(wanted)
        if config.ethernet_segments:
            assert len(hosts) == sum(at == switch and kind == "host" for (at, _), kind in cabled.items())


@given(designs())
def test_both_ends_of_a_link_agree_and_have_the_addresses_of_the_tables(bgp):
    configs, ends = configs_of(bgp), set()
    for name, config in configs.items():
        for link in config.links:
            other = configs[link.peer]
            (back,) = [each for each in other.links if each.interface == link.peer_interface]
            assert (back.peer, back.peer_interface, back.peer_as) == (name, link.interface, config.as_number)
            assert (link.peer_as, link.peer_address) == (other.as_number, str(ip_interface(back.address).ip))
            assert ip_interface(back.address).network == ip_interface(link.address).network
            assert {link.group, back.group} == {ABOVE, BELOW}
            ends.add((name, str(ip_interface(link.address).ip), link.peer, link.peer_address))
        for peer in config.evpn_peers:
            assert configs[peer.peer].loopback == peer.address
            assert configs[peer.peer].as_number == peer.as_number
            assert name in {each.peer for each in configs[peer.peer].evpn_peers}
    table = bgp.neighbours[bgp.neighbours["session"] == "link"]
    columns = ["switch", "address", "neighbour", "neighbour_address"]
    assert ends == set(table[columns].itertuples(index=False, name=None))


@given(designs())
def test_gateways_are_those_of_the_subnets_and_summaries_cover_their_own_alone(bgp):
    configs, plan = configs_of(bgp), bgp.plan
    gateways = {(row.unit, row.vlan): (row.subnet, row.gateway) for row in plan.subnets.itertuples()}
    units = dict(zip(plan.switches["switch"], plan.switches["unit"], strict=True))
    for name, config in configs.items():
        mine = {vlan: ends for (unit, vlan), ends in gateways.items() if unit == units[name]}
        assert {each.vlan for each in config.gateways} == (set(mine) if plan.fabric.routed else set())
        for each in config.gateways:
            subnet, gateway = mine[each.vlan]
            assert str(ip_interface(each.address).network) == subnet
            assert (each.shared or str(ip_interface(each.address).ip)) == gateway
        for aggregate in map(ip_network, config.aggregates):
            inside = {unit for unit, vlan in gateways if ip_network(gateways[unit, vlan][0]).subnet_of(aggregate)}
            pod = name.partition(".")[0]
            assert inside == ({units[name]} if units[name] else {unit for unit in units.values() if f"{pod}." in unit})
    for unit in {unit for unit in units.values() if unit}:
        members = [configs[name] for name in units if units[name] == unit]
        assert len({each.ethernet_segments for each in members}) == 1, "the pair must say the same"
        addresses = [each.address for member in members for each in member.gateways if each.shared]
        assert len(set(addresses)) == len(addresses), "each has an address of its own"
        shared = {each.shared for member in members for each in member.gateways}
        assert not {str(ip_interface(text).ip) for text in addresses} & (shared | set(plan.ports["address"]))


def learnt(configs):
    """Best AS path of every prefix at every switch, by what the configurations announce, filter and suppress."""
    best = {}
    for name, config in configs.items():
        own = [f"{config.loopback}/32", *config.networks, *config.aggregates]
        best[name] = {prefix: (0, ()) for prefix in own if config.as_number}
    changed = True
    while changed:
        changed = False
        for config in configs.values():
            for link in config.links:
                for prefix, (_, path) in tuple(best[config.hostname].items()):
                    network, told = ip_network(prefix), (config.as_number, *path)
                    if config.summary_only and any(hidden(network, each) for each in config.aggregates):
                        continue
                    if link.group == ABOVE and not permitted(network, config.above_only):
                        continue
                    if link.group == BELOW and prefix in config.not_below:
                        continue
                    if link.peer_as in told or best[link.peer].get(prefix, (9, ()))[0] <= len(told):
                        continue
                    best[link.peer][prefix] = (len(told), told)
                    changed = True
    return best


def hidden(network, aggregate):
    return network.subnet_of(ip_network(aggregate)) and network != ip_network(aggregate)


def permitted(network, entries):
    """Whether a prefix list takes a network; without entries there is no list."""
    ends = [(ip_network(at), longer) for at, *longer in map(str.split, entries)]
    return not entries or any(network == at or (longer and network.subnet_of(at)) for at, longer in ends)


@given(designs())
def test_every_rail_switch_has_a_route_to_every_nic_and_as_many_as_are_counted(bgp):
    configs, plan = configs_of(bgp), bgp.plan
    if not plan.fabric.spines:
        assert not any(config.links or config.as_number for config in configs.values())
        return
    best, loopbacks = learnt(configs), {f"{config.loopback}/32" for config in configs.values()}
    counted = bgp.route_counts.set_index("switch")
    column = "subnets_with_summaries" if bgp.summarised else "subnets_without_summaries"
    subnets = [ip_network(text) for text in plan.subnets["subnet"]]
    leaves = {name for name in configs if ".Leaf" in name}
    for name in configs:
        routes = [ip_network(prefix) for prefix in best[name] if prefix not in loopbacks]
        assert len(routes) == counted.loc[name, column], (name, routes)
        if name in leaves:
            assert all(any(subnet.subnet_of(route) for route in routes) for subnet in subnets)
            assert {f"{configs[leaf].loopback}/32" for leaf in leaves} <= set(best[name])


@pytest.mark.parametrize("bundling", ["none", "mlag", "evpn"])
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
    assert "router bgp" not in text and "prefix-list" not in text and not config.gateways
    assert read_frr(text) == config


@pytest.mark.parametrize("each", [1, 3])
def test_an_excerpt_leaves_out_what_repeats_and_says_how_much(each):
    config = switch_config(design(segments=3), "Pod1.Spine1")
    text, short = frr_text(config), frr_text(config, each)
    assert f"! left out: {3 * 4 - each} interfaces like this" in short
    assert short.count("remote-as") == min(each, 2) + each
    kept = [line for line in short.splitlines() if not line.strip().startswith("! left out")]
    lines = iter(text.splitlines())
    assert all(any(line == other for other in lines) for line in kept), "lines in their order"
    assert frr_text(config, 99) == text
    with pytest.raises(ValueError, match="each is 0"):
        frr_text(config, 0)


def test_every_list_and_map_that_is_used_is_given():
    for bundling in ("none", "mlag", "evpn"):
        bgp = design(bundling)
        for name in bgp.switches["switch"]:
            text = frr_text(switch_config(bgp, name))
            for kind in ("prefix-list", "route-map"):
                used = set(re.findall(rf"^ +.*{kind} (\S+)", text, re.M))
                assert used == set(re.findall(rf"^(?:ip )?{kind} (\S+)", text, re.M))
            opened = len(re.findall(r"^(interface|bfd|route-map|router| profile)", text, re.M))
            assert opened == len(re.findall(r"^ *exit$", text, re.M))


def test_options_stand_in_the_text():
    text = frr_text(switch_config(design(), "Pod1.Spine1", mtu=4200, bfd=BfdTimers(5, 50)))
    assert "MTU 4200" in text and "detect-multiplier 5" in text and "receive-interval 50" in text
    without = switch_config(design(), "Pod1.Spine1", bfd=None)
    assert "bfd" not in frr_text(without) and read_frr(frr_text(without)) == without


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: switch_config(design(), "Pod1.Spine9"), UnknownName, "switch of the plan"),
        (lambda: switch_config(BgpDesign(design().plan, "iBGP"), "Super1"), ValueError, "the export has eBGP"),
        (
            lambda: switch_config(BgpDesign(design("evpn").plan), "Pod1.Seg1.Leaf1"),
            ValueError,
            "nobody to tell of their Ethernet segments: give control_plane 'BGP EVPN' and spines",
        ),
        (
            lambda: switch_config(BgpDesign(design("evpn").plan, "BGP EVPN", leaf_asns="unit"), "Pod1.Seg1.Leaf1"),
            ValueError,
            "leaf_asns is 'unit'",
        ),
        (lambda: SwitchConfig("a", "1.1.1.1", networks=("10.0.0.0/24",)), ValueError, "as_number of a is 0"),
    ],
)
def test_what_the_export_has_no_lines_for_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_a_summary_that_overlaps_anothers_is_refused():
    fabric = SegmentFabric(4, SN5600, gpus_per_server=2, segments=2, spines=1)
    plan = AddressPlan(fabric, own_subnets=("10.0.0.0/28", "10.0.0.32/28", "10.0.0.16/28", "10.0.0.48/28"))
    with pytest.raises(ValueError, match=r"10.0.0.0/26 of Pod1.Seg1.Leaf1 overlaps another unit's: give summarised"):
        switch_config(BgpDesign(plan), "Pod1.Seg1.Leaf1")
    assert not switch_config(BgpDesign(plan, summarised=False), "Pod1.Seg1.Leaf1").aggregates


@pytest.mark.parametrize("bundling", ["none", "mlag", "evpn"])
def test_the_suite_itself_takes_the_export(bundling, tmp_path):
    """FRRouting's own check of a file, where the suite is installed."""
    vtysh = shutil.which("vtysh")
    if not vtysh:
        pytest.skip("vtysh of FRRouting is not installed: the export is checked by our own reader alone")
    bgp = design(bundling)
    for name in bgp.switches["switch"]:
        path = tmp_path / f"{name}.conf"
        path.write_text(frr_text(switch_config(bgp, name)))
        said = subprocess.run([vtysh, "-C", "-f", str(path)], capture_output=True, text=True, timeout=60, check=False)
        assert not re.search("Unknown command|line [0-9]+", said.stdout + said.stderr), said.stdout + said.stderr
        assert said.returncode == 0


def test_an_address_of_every_kind_is_in_one_network_alone():
    for config in configs_of(design("mlag")).values():
        at = [ip_interface(each.address) for each in (*config.links, *config.gateways)]
        assert len({each.network for each in at}) == len(at)
        assert ip_address(config.loopback) in ip_network("192.168.0.0/16")
