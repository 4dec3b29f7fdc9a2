"""Configuration of one switch in the integrated syntax of FRRouting (frr.conf), written and read back.

The lines are those of `frr_lines`. What is read from a text is what was meant when it was written:
`parse_frr(frr_text(config)) == config`.

What Linux sets up, not FRRouting, is not in it: bridges, VLANs of ports, VXLANs of EVPN, the MAC address of a gateway
that switches share, peer links and NIC bonds of MLAG pairs; and the MTU and the members of bonds, which stand in the
descriptions of the interfaces.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Interface, IPv4Network
from typing import Any

from railcore.engines.deployment.frr_lines import FrrLine, read_frr_lines, write_frr_lines
from railcore.engines.deployment.summaries import ipv4_network
from railcore.facts.checks import whole

ABOVE, BELOW = "ABOVE", "BELOW"  # peer groups: the switches of the tier above, of the tier below
_OVERLAY = "OVERLAY"  # and those that Ethernet segments are told to, from loopback to loopback


@dataclass(frozen=True)
class RoutedLink:
    """A link to another switch: interface, its address such as "172.16.0.0/31", other end; members of a bond."""

    interface: str
    address: str
    group: str
    peer: str
    peer_interface: str
    peer_address: str
    peer_as: int
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class VlanGateway:
    """Gateway of a VLAN: own address with prefix length, and the address that a pair of switches shares, if any."""

    vlan: int
    rail: int
    address: str
    shared: str = ""


@dataclass(frozen=True)
class EthernetSegment:
    """A port channel that ends on several switches: its number and MAC are the same on all. members: interfaces."""

    interface: str
    number: int
    mac: str
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class EvpnPeer:
    """A neighbour that is told of Ethernet segments, by its loopback."""

    peer: str
    address: str
    as_number: int


@dataclass(frozen=True)
class BfdTimers:
    """Bidirectional forwarding detection: a link is down after `multiplier` lost packets, one every interval_ms."""

    multiplier: int = 3
    interval_ms: int = 100


@dataclass(frozen=True)
class SwitchConfig:
    """What a switch is configured with.

    as_number: 0 where it has no neighbours. networks: subnets that it announces of its own, with its loopback.
    aggregates: summary routes; summary_only: whether what they cover is kept from every neighbour. above_only: networks
    that the tier above learns from it, longer ones within them too where the text ends in " le 32"; () for all.
    not_below: networks that the tier below does not learn from it. evpn_peers: whom it tells of Ethernet segments.
    """

    hostname: str
    loopback: str
    as_number: int = 0
    mtu: int = 9216
    links: tuple[RoutedLink, ...] = ()
    gateways: tuple[VlanGateway, ...] = ()
    ethernet_segments: tuple[EthernetSegment, ...] = ()
    networks: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    summary_only: bool = True
    above_only: tuple[str, ...] = ()
    not_below: tuple[str, ...] = ()
    maximum_paths: int = 1
    bfd: BfdTimers | None = field(default_factory=BfdTimers)
    evpn_peers: tuple[EvpnPeer, ...] = ()

    def __post_init__(self) -> None:
        if not self.aggregates:
            object.__setattr__(self, "summary_only", True)
        routed = self.links or self.networks or self.aggregates or self.above_only or self.not_below or self.evpn_peers
        if routed and not self.as_number:
            raise ValueError(f"as_number of {self.hostname} is 0, but it has links or networks to announce: give one")

    @property
    def groups(self) -> tuple[str, ...]:
        """Peer groups that it has neighbours in."""
        return tuple(name for name in (ABOVE, BELOW) if any(link.group == name for link in self.links))


_OWN, _UP, _DOWN, _PROFILE = "OWN", "TO-ABOVE", "TO-BELOW", "fabric"
_ALL = "0.0.0.0/0 le 32"


def frr_text(config: SwitchConfig) -> str:
    """The configuration as a file frr.conf."""
    return write_frr_lines(_blocks(config))


def _blocks(config: SwitchConfig) -> list[FrrLine]:
    """Lines of a configuration, in their blocks."""
    found = [FrrLine("hostname", {"name": config.hostname}), FrrLine("integrated"), *_interfaces(config)]
    if config.bfd:
        timers = {"multiplier": "count", "receive": "time", "transmit": "time"}
        values = dict(zip(timers, (config.bfd.multiplier, *[config.bfd.interval_ms] * 2), strict=True))
        inside = [FrrLine(form, {word: str(values[form])}) for form, word in timers.items()]
        found.append(FrrLine("bfd", inside=[FrrLine("profile", {"profile": _PROFILE}, inside)]))
    if config.as_number:
        for name, refused, entries in (
            (_OWN, (), (f"{config.loopback}/32", *config.networks)),
            (_UP, (), config.above_only),
            (_DOWN, config.not_below, (_ALL,) if config.not_below else ()),
        ):
            found += _prefix_list(name, refused, entries)
        found += [FrrLine("route-map", {"map": _OWN}, [FrrLine("match", {"list": _OWN})]), _bgp(config)]
    return found


def _prefix_list(name: str, refused: tuple[str, ...], permitted: tuple[str, ...]) -> Iterator[FrrLine]:
    for number, entry in enumerate((*refused, *permitted), start=1):
        network, longer, _ = entry.partition(" le 32")
        form = "no prefix" if number <= len(refused) else "prefix longer" if longer else "prefix"
        yield FrrLine(form, {"list": name, "number": str(5 * number), "network": network})


def _interfaces(config: SwitchConfig) -> Iterator[FrrLine]:
    mtu = {"mtu": str(config.mtu)}
    loopback = [FrrLine("loopback", mtu), FrrLine("address", {"address": f"{config.loopback}/32"})]
    yield FrrLine("interface", {"interface": "lo"}, loopback)
    for each in config.gateways:
        inside = [FrrLine("vlan", {"rail": str(each.rail), **mtu}), FrrLine("address", {"address": each.address})]
        if each.shared:
            group = {"group": str(each.rail)}
            inside += [FrrLine("vrrp version", group), FrrLine("vrrp", {**group, "address": each.shared})]
        yield FrrLine("interface", {"interface": f"vlan{each.vlan}"}, inside)
    for segment in config.ethernet_segments:
        inside = [
            *[FrrLine("members", {"members": "+".join(segment.members)})] * bool(segment.members),
            FrrLine("segment number", {"number": str(segment.number)}),
            FrrLine("segment mac", {"mac": segment.mac}),
        ]
        yield FrrLine("interface", {"interface": segment.interface}, inside)
    for link in config.links:
        end = {"peer": link.peer, "interface": link.peer_interface, **mtu}
        bond = FrrLine("bond link", {**end, "members": "+".join(link.members)})
        inside = [
            bond if link.members else FrrLine("link", end),
            FrrLine("address", {"address": link.address}),
            *[FrrLine("evpn uplink")] * bool(config.ethernet_segments),
        ]
        yield FrrLine("interface", {"interface": link.interface}, inside)


def _bgp(config: SwitchConfig) -> FrrLine:
    inside = [FrrLine("router-id", {"address": config.loopback}), FrrLine("no policy"), FrrLine("multipath")]
    for group in config.groups:
        inside.append(FrrLine("group", {"group": group}))
        if config.bfd:
            inside.append(FrrLine("group bfd", {"group": group, "profile": _PROFILE}))
    for link in config.links:
        inside += _neighbour(link.peer_address, link.peer_as, link.group, link.peer)
    inside += _overlay(config)
    form = "aggregate only" if config.summary_only else "aggregate"
    routes = [FrrLine("redistribute", {"map": _OWN}), *(FrrLine(form, {"network": each}) for each in config.aggregates)]
    for group, name, entries in ((ABOVE, _UP, config.above_only), (BELOW, _DOWN, config.not_below)):
        routes += [FrrLine("filter", {"group": group, "list": name})] * bool(entries)
    overlay = {"group": _OVERLAY}
    routes += [FrrLine("evpn alone", overlay)] * bool(config.evpn_peers)
    inside.append(FrrLine("ipv4", inside=[*routes, FrrLine("paths", {"count": str(config.maximum_paths)})]))
    if config.evpn_peers:
        macs = [FrrLine("activate", overlay), *[FrrLine("advertise")] * bool(config.ethernet_segments)]
        inside.append(FrrLine("evpn", inside=macs))
    return FrrLine("bgp", {"as": str(config.as_number)}, inside)


def _neighbour(address: str, as_number: int, group: str, peer: str) -> list[FrrLine]:
    at = {"address": address}
    in_group, name = FrrLine("neighbor group", {**at, "group": group}), FrrLine("neighbor name", {**at, "peer": peer})
    return [FrrLine("neighbor", {**at, "as": str(as_number)}), in_group, name]


def _overlay(config: SwitchConfig) -> list[FrrLine]:
    """Neighbours that are told of Ethernet segments."""
    if not config.evpn_peers:
        return []
    group = {"group": _OVERLAY}
    found = [FrrLine(form, group) for form in ("group", "multihop", "source")]
    for peer in config.evpn_peers:
        found += _neighbour(peer.address, peer.as_number, _OVERLAY, peer.peer)
    return found


def _one(blocks: list[FrrLine], form: str, word: str = "") -> str:
    """The word of the one line of a form, "" where there is none. Raises ValueError for several."""
    found = [block.words.get(word, form) for block in blocks if block.form == form]
    if len(found) > 1:
        raise ValueError(f"{form!r} is given {len(found)} times ({', '.join(found)}): give it once")
    return found[0] if found else ""


def _inside(blocks: list[FrrLine], form: str) -> list[FrrLine]:
    """Lines inside the block of a form, none where it is not there."""
    _one(blocks, form)
    return next((block.inside for block in blocks if block.form == form), [])


def parse_frr(text: str) -> SwitchConfig:
    """What a text of `frr_text` configures.

    Raises ValueError, with the line, for one that is not known; for a neighbour without AS number, interface or name;
    for addresses that are none, lie outside their link, or are given twice; and for lists that are used but not given.
    """
    blocks = read_frr_lines(text)
    bgp = _inside(blocks, "bgp")
    routes, as_text = _inside(bgp, "ipv4"), _one(blocks, "bgp", "as")
    lists = _prefix_lists(blocks)
    _check_lists(blocks, routes, lists)
    parts = [(block.words["interface"], block.inside) for block in blocks if block.form == "interface"]
    _check_addresses(parts)
    (loopback,) = [_one(lines, "address", "address") for name, lines in parts if name == "lo"] or [""]
    mtus = {line.words["mtu"] for _, lines in parts for line in lines if "mtu" in line.words}
    if len(mtus) != 1 or not loopback.endswith("/32") or not _one(blocks, "hostname", "name"):
        raise ValueError("a switch has a hostname, an interface lo with a /32, and one MTU: give each once")
    loopback = loopback.removesuffix("/32")
    if as_text and _one(bgp, "router-id", "address") != loopback:
        raise ValueError(f"bgp router-id is not {loopback}, the address of lo: give the same")
    own, neighbours = lists.get(_OWN, ()), _neighbours(bgp)
    overlay = {address: at for address, at in neighbours.items() if at["group"] == _OVERLAY}
    found = SwitchConfig(
        hostname=_one(blocks, "hostname", "name"),
        loopback=loopback,
        as_number=int(as_text or 0),
        mtu=int(mtus.pop()),
        links=tuple(_links(parts, {ip: at for ip, at in neighbours.items() if ip not in overlay})),
        gateways=tuple(_gateways(parts)),
        ethernet_segments=tuple(_ethernet_segments(parts)),
        networks=tuple(each for each in own if each != f"{loopback}/32"),
        aggregates=tuple(b.words["network"] for b in routes if b.form.startswith("aggregate")),
        above_only=lists.get(_UP, ()),
        not_below=tuple(b.words["network"] for b in blocks if b.form == "no prefix" and b.words["list"] == _DOWN),
        bfd=_timers(blocks),
        evpn_peers=tuple(EvpnPeer(at["peer"], address, int(at["as"])) for address, at in overlay.items()),
    )
    if paths := _one(routes, "paths", "count"):
        found = replace(found, maximum_paths=int(whole("maximum-paths", int(paths))))
    return replace(found, summary_only=not any(block.form == "aggregate" for block in routes))


def _prefix_lists(blocks: list[FrrLine]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for block in blocks:
        if block.form in ("prefix", "prefix longer", "no prefix"):
            network = str(ipv4_network("prefix-list", block.words["network"]))
            found.setdefault(block.words["list"], []).append(network + " le 32" * (block.form == "prefix longer"))
    return {name: tuple(entries) for name, entries in found.items()}


def _check_lists(blocks: list[FrrLine], routes: list[FrrLine], lists: dict[str, tuple[str, ...]]) -> None:
    """Refuse a prefix list or a route map that is used but not given."""
    maps = {block.words["map"] for block in blocks if block.form == "route-map"}
    used = [line.words["list"] for block in blocks if block.form == "route-map" for line in block.inside]
    used += [block.words["list"] for block in routes if block.form == "filter"]
    for kind, names, known in (
        ("prefix-list", used, set(lists)),
        ("route-map", [block.words["map"] for block in routes if block.form == "redistribute"], maps),
    ):
        if missing := [name for name in names if name not in known]:
            raise ValueError(f"{kind} {missing[0]} is used but not given: give it, or take the line out")


def _check_addresses(parts: list[tuple[str, list[FrrLine]]]) -> None:
    """Refuse interfaces that are given twice, and networks that overlap."""
    names = [name for name, _ in parts]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"interface {twice[0]} is given twice: give it once")
    taken: dict[IPv4Network, str] = {}
    for name, lines in parts:
        for line in lines:
            if line.form == "address":
                network = _interface_address(line.words["address"]).network
                if network in taken:
                    raise ValueError(f"interfaces {taken[network]} and {name} are both in {network}: give two networks")
                taken[network] = name


def _interface_address(text: str) -> IPv4Interface:
    try:
        found = IPv4Interface(text)
    except ValueError:
        raise ValueError(f"ip address is {text!r}: give one such as '10.0.0.1/28'") from None
    if "/" not in text:
        raise ValueError(f"ip address is {text!r}: give its prefix length too, such as '10.0.0.1/28'")
    return found


def _neighbours(bgp: list[FrrLine]) -> dict[str, dict[str, Any]]:
    """AS number, group and name of every neighbour, by address."""
    found: dict[str, dict[str, Any]] = {}
    groups = {block.words["group"] for block in bgp if block.form == "group"}
    for form, word in (("neighbor", "as"), ("neighbor group", "group"), ("neighbor name", "peer")):
        for block in bgp:
            if block.form == form:
                found.setdefault(block.words["address"], {})[word] = block.words[word]
    for address, at in found.items():
        if set(at) != {"as", "group", "peer"} or at["group"] not in groups:
            raise ValueError(f"neighbor {address}: give its remote-as, a peer-group that is there, and a description")
    return found


def _links(parts: list[tuple[str, list[FrrLine]]], known: dict[str, dict[str, Any]]) -> Iterator[RoutedLink]:
    """Links to other switches, each with its neighbour."""
    for name, lines in parts:
        end = next((line for line in lines if line.form in ("link", "bond link")), None)
        if not end:
            continue
        address = _interface_address(_one(lines, "address", "address"))
        others = [other for other in known if other != str(address.ip) and IPv4Interface(other).ip in address.network]
        at = known.pop(others[0]) if others else {}
        if at.get("peer") != end.words["peer"]:
            raise ValueError(
                f"interface {name} in {address.network} leads to {end.words['peer']}: give a neighbour there with that "
                "description"
            )
        ends = end.words["peer"], end.words["interface"], others[0], int(at["as"])
        yield RoutedLink(name, str(address), at["group"], *ends, _member_names(end.words.get("members", "")))
    if known:
        raise ValueError(f"neighbor {next(iter(known))} is on no interface's network: give an interface with one")


def _gateways(parts: list[tuple[str, list[FrrLine]]]) -> Iterator[VlanGateway]:
    for name, lines in parts:
        if name.startswith("vlan"):
            address, shared = _one(lines, "address", "address"), _one(lines, "vrrp", "address")
            if shared and IPv4Interface(shared).ip not in _interface_address(address).network:
                raise ValueError(f"interface {name} has {address}: its shared address {shared} lies outside")
            yield VlanGateway(int(name.removeprefix("vlan")), int(_one(lines, "vlan", "rail") or 0), address, shared)


def _ethernet_segments(parts: list[tuple[str, list[FrrLine]]]) -> Iterator[EthernetSegment]:
    for name, lines in parts:
        number, mac = _one(lines, "segment number", "number"), _one(lines, "segment mac", "mac")
        if bool(number) != bool(mac):
            raise ValueError(f"interface {name} is in an Ethernet segment: give both its number and its MAC")
        if number:
            yield EthernetSegment(name, int(number), mac, _member_names(_one(lines, "members", "members")))


def _member_names(text: str) -> tuple[str, ...]:
    return tuple(text.split("+")) if text else ()


def _timers(blocks: list[FrrLine]) -> BfdTimers | None:
    lines = _inside(_inside(blocks, "bfd"), "profile")
    if not lines:
        return None
    times = {_one(lines, form, "time") for form in ("receive", "transmit")}
    if len(times) != 1:
        raise ValueError(f"profile has intervals {' and '.join(sorted(times))}: give one for both")
    return BfdTimers(int(_one(lines, "multiplier", "count")), int(times.pop()))
