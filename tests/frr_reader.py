"""A configuration of FRRouting read back: what its lines mean, to hold it against what was meant."""

import re

from railcore.engines.deployment.frr import (
    ABOVE,
    BELOW,
    BfdTimers,
    EthernetSegment,
    EvpnPeer,
    RoutedLink,
    SwitchConfig,
    VlanGateway,
)


def blocks_of(text):
    """Lines of each block by its first line, inner blocks included; lines that are in none under ""."""
    found, name = {"": []}, ""
    for line in text.splitlines():
        if line and not line.startswith((" ", "!", "exit")):
            name = line if line.startswith(("interface ", "bfd", "route-map ", "router ")) else ""
            found.setdefault(name, [])
            if not name:
                found[""].append(line)
        elif line.startswith(" "):
            found[name].append(line.strip())
    return found


def one(lines, pattern, default=""):
    """The group of the one line that a pattern fits."""
    fits = [match for line in lines if (match := re.fullmatch(pattern, line))]
    assert len(fits) <= 1, (pattern, lines)
    return (fits[0].groups() or (True,))[0] if fits else default


def every(lines, pattern):
    return [match.groups() for line in lines if (match := re.fullmatch(pattern, line))]


def read_frr(text):
    """What a text of `frr_text` configures."""
    blocks = blocks_of(text)
    top, bgp = blocks[""], next((lines for name, lines in blocks.items() if name.startswith("router bgp")), [])
    parts = {name.removeprefix("interface "): lines for name, lines in blocks.items() if name.startswith("interface")}
    loopback = one(parts["lo"], r"ip address (\S+)/32")
    (mtu,) = {number for lines in parts.values() for line in lines for number in re.findall(r"MTU (\d+)", line)}
    known = {address: {"as": int(number)} for address, number in every(bgp, r"neighbor (\S+) remote-as (\d+)")}
    for word, form in (("group", "peer-group"), ("peer", "description")):
        for address, value in every(bgp, rf"neighbor (\S+) {form} (\S+)"):
            known[address][word] = value
    links, gateways, segments = [], [], []
    by_peer = {(at["peer"], address): address for address, at in known.items() if at["group"] in (ABOVE, BELOW)}
    for name, lines in parts.items():
        address, bond = one(lines, r"ip address (\S+)"), one(lines, r"description \S+ \S+, members (\S+), MTU \d+")
        if name.startswith("vlan"):
            rail, shared = one(lines, r"description rail (\d+), .*"), one(lines, r"vrrp \d+ ip (\S+)")
            gateways.append(VlanGateway(int(name.removeprefix("vlan")), int(rail), address, shared))
        elif number := one(lines, r"evpn mh es-id (\d+)"):
            members = one(lines, r"description members (\S+)")
            mac = one(lines, r"evpn mh es-sys-mac (\S+)")
            segments.append(EthernetSegment(name, int(number), mac, tuple(members.split("+")) if members else ()))
        elif name != "lo":
            ((peer, port),) = every(lines, r"description (\S+) (\S+),.* MTU \d+")
            near = address.split("/")[0]
            (far,) = [at for (whose, at) in by_peer if whose == peer and beside(near, at)]
            at = known[far]
            members = tuple(bond.split("+")) if bond else ()
            links.append(RoutedLink(name, address, at["group"], peer, port, far, at["as"], members))
    lists = {}
    for name, action, network in every(top, r"ip prefix-list (\S+) seq \d+ (permit|deny) (.+)"):
        lists.setdefault((name, action), []).append(network)
    assert not bgp or one(bgp, r"bgp router-id (\S+)") == loopback
    bfd = blocks.get("bfd")
    timers = (
        BfdTimers(int(one(bfd, r"detect-multiplier (\d+)")), int(one(bfd, r"receive-interval (\d+)"))) if bfd else None
    )
    return SwitchConfig(
        hostname=one(top, r"hostname (\S+)"),
        loopback=loopback,
        as_number=int(next((name.split()[-1] for name in blocks if name.startswith("router bgp")), 0)),
        mtu=int(mtu),
        links=tuple(links),
        gateways=tuple(gateways),
        ethernet_segments=tuple(segments),
        networks=tuple(each for each in lists.get(("OWN", "permit"), []) if each != f"{loopback}/32"),
        aggregates=tuple(network for network, _ in every(bgp, r"aggregate-address (\S+)( summary-only)?")),
        summary_only=all(only for _, only in every(bgp, r"aggregate-address (\S+)( summary-only)?")),
        above_only=tuple(lists.get(("TO-ABOVE", "permit"), [])),
        not_below=tuple(lists.get(("TO-BELOW", "deny"), [])),
        maximum_paths=int(one(bgp, r"maximum-paths (\d+)", 1)),
        bfd=timers,
        evpn_peers=tuple(EvpnPeer(at["peer"], ip, at["as"]) for ip, at in known.items() if at["group"] == "OVERLAY"),
    )


def beside(near, far):
    """Whether two addresses are the ends of a link of two."""
    numbers = [sum(int(part) << 8 * (3 - i) for i, part in enumerate(text.split("."))) for text in (near, far)]
    return numbers[0] ^ numbers[1] == 1
