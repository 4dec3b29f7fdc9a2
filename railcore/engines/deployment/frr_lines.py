"""Lines of the integrated syntax of FRRouting (frr.conf): the forms that are known, and texts to lines and back.

Each line that can be written stands once, as a form in `_FORMS`; the reader takes the same forms and refuses all other
lines.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from railcore.facts.units import counted


@dataclass
class FrrLine:
    """A line, by the name of its form, with the words in it, and the lines inside its block."""

    form: str
    words: dict[str, str] = field(default_factory=dict)
    inside: list["FrrLine"] = field(default_factory=list)


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
        "bond link": "description {peer} {interface}, members {members}, MTU {mtu}",
        "members": "description members {members}",
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


def write_frr_lines(lines: list[FrrLine]) -> str:
    """The text of lines and of what is inside them."""
    return "\n".join(_indented(lines, "top", 0)) + "\n"


def _indented(blocks: list[FrrLine], place: str, depth: int) -> Iterator[str]:
    for block in blocks:
        if not block.form:
            yield " " * depth + "! " + block.words["text"]
            continue
        yield " " * depth + _FORMS[place][block.form].format(**block.words)
        if block.form in _FORMS:
            yield from _indented(block.inside, block.form, depth + 1)
            yield " " * depth + _ENDS.get(block.form, "exit")
            if depth == 0:
                yield "!"


def _pattern(form: str) -> re.Pattern:
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^\\s,]+)", re.escape(form)))


_PATTERNS = {place: {name: _pattern(form) for name, form in forms.items()} for place, forms in _FORMS.items()}


def read_frr_lines(text: str) -> list[FrrLine]:
    """Lines of a text in their blocks. Raises ValueError for a line that is of no form of its block."""
    top = FrrLine("top")
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
        block = FrrLine(found[0], found[1].groupdict())
        stack[-1].inside.append(block)
        if block.form in _FORMS:
            stack.append(block)
    if len(stack) > 1:
        raise ValueError(
            f"the text ends inside {stack[-1].form!r}: close it with {_ENDS.get(stack[-1].form, 'exit')!r}"
        )
    return top.inside


def frr_excerpt(text: str, each: int = 2) -> str:
    """A configuration with so many interfaces, neighbours and list entries of a kind at most, the others counted.

    Raises ValueError for a text that `parse_frr` does not know.
    """
    return write_frr_lines(_excerpt(read_frr_lines(text), each))


_MANY = {"interface": "interfaces", "neighbor": "neighbours", "prefix": "networks"}  # forms of which a switch has many


def _excerpt(blocks: list[FrrLine], each: int) -> list[FrrLine]:
    """Blocks without those that follow `each` others of their kind, and a comment in their place."""
    runs: list[tuple[tuple, dict[str, list[FrrLine]]]] = []
    peers = {block.words["address"]: block.words["peer"] for block in blocks if block.form == "neighbor name"}
    for number, block in enumerate(blocks):
        form, first = block.form.partition(" ")[0], (block.inside or [block])[0]
        peer = peers.get(block.words.get("address", ""), first.words.get("peer", ""))
        kind = form, first.form if form == "interface" else block.words.get("list", ""), re.sub(r"\d+", "", peer)
        if not runs or runs[-1][0] != kind:
            runs.append((kind, {}))
        name = block.words["address"] if form == "neighbor" else str(number)
        runs[-1][1].setdefault(name, []).append(block)
    found: list[FrrLine] = []
    for (form, *_), members in runs:
        kept = list(members.values())[: each if form in _MANY else None]
        found += [replace(block, inside=_excerpt(block.inside, each)) for one in kept for block in one]
        if left := len(members) - len(kept):
            found.append(FrrLine("", {"text": f"left out: {counted(left, _MANY[form])} like this"}))
    return found
