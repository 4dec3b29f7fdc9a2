"""Configuration of one switch in the integrated syntax of FRRouting (frr.conf), written and read back.

Each line that can be written stands once, as a form in `_FORMS`; the reader takes the same forms and refuses all other
lines. So what is read from a text is what was meant when it was written: `parse_frr(frr_text(config)) == config`.

What Linux sets up, not FRRouting, is not in it: bridges, VLANs of ports, members of bonds, and the MTU, which stands in
the descriptions of the interfaces.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Interface, IPv4Network
from typing import Any

from railcore.facts.checks import whole
from railcore.facts.units import counted
from railcore.network.addressing.summaries import ipv4_network

ABOVE, BELOW = "ABOVE", "BELOW"  # peer groups: the switches of the tier above, of the tier below
_OVERLAY = "OVERLAY"  # and those that Ethernet segments are told to, from loopback to loopback


@dataclass(frozen=True)
class RoutedLink:
    """A link to another switch: interface, its address such as "172.16.0.0/31", and the other end."""

    interface: str
    address: str
    group: str
    peer: str
    peer_interface: str
    peer_address: str
    peer_as: int


@dataclass(frozen=True)
class VlanGateway:
    """Gateway of a VLAN: own address with prefix length, and the address that a pair of switches shares, if any."""

    vlan: int
    rail: int
    address: str
    shared: str = ""


@dataclass(frozen=True)
class EthernetSegment:
    """A port channel that ends on several switches: its number and MAC are the same on all of them."""

    interface: str
    number: int
    mac: str


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


@dataclass
class _Block:
    """A line, by the name of its form, with the words in it, and the lines inside its block."""

    form: str
    words: dict[str, str] = field(default_factory=dict)
    inside: list["_Block"] = field(default_factory=list)


_FORMS: dict[str, dict[str, str]] = {  # block: name of a line, its form
    "top": {
        "hostname": "hostname {name}",
        "integrated": "service integrated-vtysh-config",
        "interface": "interface {interface}",
        "prefix": "ip prefix-list {list} seq {number} permit {network}",
        "prefix longer": "ip prefix-list {list} seq {number} permit {network} le 32",
        "no prefix": "ip prefix-list {list} seq {number} deny {network}",
        "route-map": "route-map {map} permit 10",
        "bfd": "bfd",
        "bgp": "router bgp {as}",
    },
    "interface": {
        "vlan": "description rail {rail}, MTU {mtu}",
        "link": "description {peer} {interface}, MTU {mtu}",
        "loopback": "description loopback of a switch with MTU {mtu}",
        "address": "ip address {address}",
        "vrrp version": "vrrp {group} version 3",
        "vrrp": "vrrp {group} ip {address}",
        "segment number": "evpn mh es-id {number}",
        "segment mac": "evpn mh es-sys-mac {mac}",
        "evpn uplink": "evpn mh uplink",
    },
    "route-map": {"match": "match ip address prefix-list {list}"},
    "bfd": {"profile": "profile {profile}"},
    "profile": {
        "multiplier": "detect-multiplier {count}",
        "receive": "receive-interval {time}",
        "transmit": "transmit-interval {time}",
    },
    "bgp": {
        "router-id": "bgp router-id {address}",
        "no policy": "no bgp ebgp-requires-policy",
        "multipath": "bgp bestpath as-path multipath-relax",
        "group": "neighbor {group} peer-group",
        "group bfd": "neighbor {group} bfd profile {profile}",
        "neighbor": "neighbor {address} remote-as {as}",
        "neighbor group": "neighbor {address} peer-group {group}",
        "neighbor name": "neighbor {address} description {peer}",
        "multihop": "neighbor {group} ebgp-multihop 2",
        "source": "neighbor {group} update-source lo",
        "ipv4": "address-family ipv4 unicast",
        "evpn": "address-family l2vpn evpn",
    },
    "ipv4": {
        "redistribute": "redistribute connected route-map {map}",
        "aggregate": "aggregate-address {network}",
        "aggregate only": "aggregate-address {network} summary-only",
        "filter": "neighbor {group} prefix-list {list} out",
        "paths": "maximum-paths {count}",
        "evpn alone": "no neighbor {group} activate",
    },
    "evpn": {"activate": "neighbor {group} activate", "advertise": "advertise-all-vni"},
}
_ENDS = {"ipv4": "exit-address-family", "evpn": "exit-address-family"}  # of a block; of all others: exit
_OWN, _UP, _DOWN, _PROFILE = "OWN", "TO-ABOVE", "TO-BELOW", "fabric"
_ALL = "0.0.0.0/0 le 32"


def frr_text(config: SwitchConfig) -> str:
    """The configuration as a file frr.conf."""
    return "\n".join(_lines(_blocks(config), "top", 0)) + "\n"


def _lines(blocks: list[_Block], place: str, depth: int) -> Iterator[str]:
    for block in blocks:
        if not block.form:
            yield " " * depth + "! " + block.words["text"]
            continue
        yield " " * depth + _FORMS[place][block.form].format(**block.words)
        if block.form in _FORMS:
            yield from _lines(block.inside, block.form, depth + 1)
            yield " " * depth + _ENDS.get(block.form, "exit")
            if depth == 0:
                yield "!"


def _blocks(config: SwitchConfig) -> list[_Block]:
    """Lines of a configuration, in their blocks."""
    found = [_Block("hostname", {"name": config.hostname}), _Block("integrated"), *_interfaces(config)]
    if config.bfd:
        timers = {"multiplier": "count", "receive": "time", "transmit": "time"}
        values = dict(zip(timers, (config.bfd.multiplier, *[config.bfd.interval_ms] * 2), strict=True))
        inside = [_Block(form, {word: str(values[form])}) for form, word in timers.items()]
        found.append(_Block("bfd", inside=[_Block("profile", {"profile": _PROFILE}, inside)]))
    if config.as_number:
        for name, refused, entries in (
            (_OWN, (), (f"{config.loopback}/32", *config.networks)),
            (_UP, (), config.above_only),
            (_DOWN, config.not_below, (_ALL,) if config.not_below else ()),
        ):
            found += _prefix_list(name, refused, entries)
        found += [_Block("route-map", {"map": _OWN}, [_Block("match", {"list": _OWN})]), _bgp(config)]
    return found


def _prefix_list(name: str, refused: tuple[str, ...], permitted: tuple[str, ...]) -> Iterator[_Block]:
    for number, entry in enumerate((*refused, *permitted), start=1):
        network, longer, _ = entry.partition(" le 32")
        form = "no prefix" if number <= len(refused) else "prefix longer" if longer else "prefix"
        yield _Block(form, {"list": name, "number": str(5 * number), "network": network})


def _interfaces(config: SwitchConfig) -> Iterator[_Block]:
    mtu = {"mtu": str(config.mtu)}
    loopback = [_Block("loopback", mtu), _Block("address", {"address": f"{config.loopback}/32"})]
    yield _Block("interface", {"interface": "lo"}, loopback)
    for each in config.gateways:
        inside = [_Block("vlan", {"rail": str(each.rail), **mtu}), _Block("address", {"address": each.address})]
        if each.shared:
            group = {"group": str(each.rail)}
            inside += [_Block("vrrp version", group), _Block("vrrp", {**group, "address": each.shared})]
        yield _Block("interface", {"interface": f"vlan{each.vlan}"}, inside)
    for segment in config.ethernet_segments:
        inside = [
            _Block("segment number", {"number": str(segment.number)}),
            _Block("segment mac", {"mac": segment.mac}),
        ]
        yield _Block("interface", {"interface": segment.interface}, inside)
    for link in config.links:
        inside = [
            _Block("link", {"peer": link.peer, "interface": link.peer_interface, **mtu}),
            _Block("address", {"address": link.address}),
            *[_Block("evpn uplink")] * bool(config.ethernet_segments),
        ]
        yield _Block("interface", {"interface": link.interface}, inside)


def _bgp(config: SwitchConfig) -> _Block:
    inside = [_Block("router-id", {"address": config.loopback}), _Block("no policy"), _Block("multipath")]
    for group in config.groups:
        inside.append(_Block("group", {"group": group}))
        if config.bfd:
            inside.append(_Block("group bfd", {"group": group, "profile": _PROFILE}))
    for link in config.links:
        inside += _neighbour(link.peer_address, link.peer_as, link.group, link.peer)
    inside += _overlay(config)
    form = "aggregate only" if config.summary_only else "aggregate"
    routes = [_Block("redistribute", {"map": _OWN}), *(_Block(form, {"network": each}) for each in config.aggregates)]
    for group, name, entries in ((ABOVE, _UP, config.above_only), (BELOW, _DOWN, config.not_below)):
        routes += [_Block("filter", {"group": group, "list": name})] * bool(entries)
    overlay = {"group": _OVERLAY}
    routes += [_Block("evpn alone", overlay)] * bool(config.evpn_peers)
    inside.append(_Block("ipv4", inside=[*routes, _Block("paths", {"count": str(config.maximum_paths)})]))
    if config.evpn_peers:
        macs = [_Block("activate", overlay), *[_Block("advertise")] * bool(config.ethernet_segments)]
        inside.append(_Block("evpn", inside=macs))
    return _Block("bgp", {"as": str(config.as_number)}, inside)


def _neighbour(address: str, as_number: int, group: str, peer: str) -> list[_Block]:
    at = {"address": address}
    in_group, name = _Block("neighbor group", {**at, "group": group}), _Block("neighbor name", {**at, "peer": peer})
    return [_Block("neighbor", {**at, "as": str(as_number)}), in_group, name]


def _overlay(config: SwitchConfig) -> list[_Block]:
    """Neighbours that are told of Ethernet segments."""
    if not config.evpn_peers:
        return []
    group = {"group": _OVERLAY}
    found = [_Block(form, group) for form in ("group", "multihop", "source")]
    for peer in config.evpn_peers:
        found += _neighbour(peer.address, peer.as_number, _OVERLAY, peer.peer)
    return found


def frr_excerpt(text: str, each: int = 2) -> str:
    """A configuration with so many interfaces, neighbours and list entries of a kind at most, the others counted.

    Raises ValueError for a text that `parse_frr` does not know.
    """
    return "\n".join(_lines(_excerpt(_read_blocks(text), each), "top", 0)) + "\n"


_MANY = {"interface": "interfaces", "neighbor": "neighbours", "prefix": "networks"}  # forms of which a switch has many


def _excerpt(blocks: list[_Block], each: int) -> list[_Block]:
    """Blocks without those that follow `each` others of their kind, and a comment in their place."""
    runs: list[tuple[tuple, dict[str, list[_Block]]]] = []
    peers = {block.words["address"]: block.words["peer"] for block in blocks if block.form == "neighbor name"}
    for number, block in enumerate(blocks):
        form, first = block.form.partition(" ")[0], (block.inside or [block])[0]
        peer = peers.get(block.words.get("address", ""), first.words.get("peer", ""))
        kind = form, first.form if form == "interface" else block.words.get("list", ""), re.sub(r"\d+", "", peer)
        if not runs or runs[-1][0] != kind:
            runs.append((kind, {}))
        name = block.words["address"] if form == "neighbor" else str(number)
        runs[-1][1].setdefault(name, []).append(block)
    found: list[_Block] = []
    for (form, *_), members in runs:
        kept = list(members.values())[: each if form in _MANY else None]
        found += [replace(block, inside=_excerpt(block.inside, each)) for one in kept for block in one]
        if left := len(members) - len(kept):
            found.append(_Block("", {"text": f"left out: {counted(left, _MANY[form])} like this"}))
    return found


def _pattern(form: str) -> re.Pattern:
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^\\s,]+)", re.escape(form)))


_PATTERNS = {place: {name: _pattern(form) for name, form in forms.items()} for place, forms in _FORMS.items()}


def _read_blocks(text: str) -> list[_Block]:
    """Lines of a text in their blocks. Raises ValueError for a line that is of no form of its block."""
    top = _Block("top")
    stack = [top]
    for number, line in enumerate(text.splitlines(), start=1):
        words, place = line.strip(), stack[-1].form
        if not words or words.startswith("!"):
            continue
        if len(stack) > 1 and words == _ENDS.get(place, "exit"):
            stack.pop()
            continue
        matches = ((name, pattern.fullmatch(words)) for name, pattern in _PATTERNS[place].items())
        found = next(((name, match) for name, match in matches if match), None)
        if not found:
            known = "; ".join([*_FORMS[place].values(), *[_ENDS.get(place, "exit")] * (len(stack) > 1)])
            where = "at the top" if place == "top" else f"inside {place!r}"
            raise ValueError(f"line {number} is {words!r}, which is not known {where}: give one of: {known}")
        block = _Block(found[0], found[1].groupdict())
        stack[-1].inside.append(block)
        if block.form in _FORMS:
            stack.append(block)
    if len(stack) > 1:
        raise ValueError(
            f"the text ends inside {stack[-1].form!r}: close it with {_ENDS.get(stack[-1].form, 'exit')!r}"
        )
    return top.inside


def _one(blocks: list[_Block], form: str, word: str = "") -> str:
    """The word of the one line of a form, "" where there is none. Raises ValueError for several."""
    found = [block.words.get(word, form) for block in blocks if block.form == form]
    if len(found) > 1:
        raise ValueError(f"{form!r} is given {len(found)} times ({', '.join(found)}): give it once")
    return found[0] if found else ""


def _inside(blocks: list[_Block], form: str) -> list[_Block]:
    """Lines inside the block of a form, none where it is not there."""
    _one(blocks, form)
    return next((block.inside for block in blocks if block.form == form), [])


def parse_frr(text: str) -> SwitchConfig:
    """What a text of `frr_text` configures.

    Raises ValueError, with the line, for one that is not known; for a neighbour without AS number, interface or name;
    for addresses that are none, lie outside their link, or are given twice; and for lists that are used but not given.
    """
    blocks = _read_blocks(text)
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


def _prefix_lists(blocks: list[_Block]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for block in blocks:
        if block.form in ("prefix", "prefix longer", "no prefix"):
            network = str(ipv4_network("prefix-list", block.words["network"]))
            found.setdefault(block.words["list"], []).append(network + " le 32" * (block.form == "prefix longer"))
    return {name: tuple(entries) for name, entries in found.items()}


def _check_lists(blocks: list[_Block], routes: list[_Block], lists: dict[str, tuple[str, ...]]) -> None:
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


def _check_addresses(parts: list[tuple[str, list[_Block]]]) -> None:
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


def _neighbours(bgp: list[_Block]) -> dict[str, dict[str, Any]]:
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


def _links(parts: list[tuple[str, list[_Block]]], known: dict[str, dict[str, Any]]) -> Iterator[RoutedLink]:
    """Links to other switches, each with its neighbour."""
    for name, lines in parts:
        end = next((line for line in lines if line.form == "link"), None)
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
        yield RoutedLink(name, str(address), at["group"], *ends)
    if known:
        raise ValueError(f"neighbor {next(iter(known))} is on no interface's network: give an interface with one")


def _gateways(parts: list[tuple[str, list[_Block]]]) -> Iterator[VlanGateway]:
    for name, lines in parts:
        if name.startswith("vlan"):
            address, shared = _one(lines, "address", "address"), _one(lines, "vrrp", "address")
            if shared and IPv4Interface(shared).ip not in _interface_address(address).network:
                raise ValueError(f"interface {name} has {address}: its shared address {shared} lies outside")
            yield VlanGateway(int(name.removeprefix("vlan")), int(_one(lines, "vlan", "rail") or 0), address, shared)


def _ethernet_segments(parts: list[tuple[str, list[_Block]]]) -> Iterator[EthernetSegment]:
    for name, lines in parts:
        number, mac = _one(lines, "segment number", "number"), _one(lines, "segment mac", "mac")
        if bool(number) != bool(mac):
            raise ValueError(f"interface {name} is in an Ethernet segment: give both its number and its MAC")
        if number:
            yield EthernetSegment(name, int(number), mac)


def _timers(blocks: list[_Block]) -> BfdTimers | None:
    lines = _inside(_inside(blocks, "bfd"), "profile")
    if not lines:
        return None
    times = {_one(lines, form, "time") for form in ("receive", "transmit")}
    if len(times) != 1:
        raise ValueError(f"profile has intervals {' and '.join(sorted(times))}: give one for both")
    return BfdTimers(int(_one(lines, "multiplier", "count")), int(times.pop()))
