"""Configuration of one switch in the integrated syntax of FRRouting (frr.conf), from the template frr.conf.j2.

What Linux sets up, not FRRouting, is not in it: bridges, VLANs of ports, VXLANs of EVPN, the MAC address of a gateway
that switches share, peer links and NIC bonds of MLAG pairs; and the MTU and the members of bonds, which stand in the
descriptions of the interfaces.
"""

import ipaddress
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from railcore import catalog
from railcore.catalog.arguments import Range, checked
from railcore.catalog.checks import one_of, whole

if TYPE_CHECKING:
    import jinja2

ABOVE, BELOW = "ABOVE", "BELOW"  # peer groups: the switches of the tier above, of the tier below
Vlan = Annotated[int, Range(1, 4094)]
AsNumber = Annotated[int, Range(0, 2**32 - 1)]
LEAST_MTU = 68  # of IPv4: RFC 791
Mtu = Annotated[int, Range(LEAST_MTU, 65535)]
_WORD = re.compile(r"[\w.:/-]{1,64}")  # of a configuration: a name that no line is broken by


def _words(**names: str | Iterable[str]) -> None:
    """Refuse names that would break a line of the configuration. An argument may be several names."""
    for argument, texts in names.items():
        for name in [texts] if isinstance(texts, str) else texts:
            if not _WORD.fullmatch(name):
                raise ValueError(f"{argument} is {name!r}: give letters, digits and . : / - _, at most 64")


def _addresses(**texts: str | Iterable[str]) -> None:
    """Refuse what is no IP address, with or without a prefix length; "" is none."""
    for argument, networks in texts.items():
        for text in [networks] if isinstance(networks, str) else networks:
            try:
                ipaddress.ip_interface(text.partition(" le ")[0] or "0.0.0.0")
            except ValueError:
                raise ValueError(f"{argument} is {text!r}: give an address such as '172.16.0.0/31'") from None


@checked
@dataclass(frozen=True)
class RoutedLink:
    """A link to another switch: interface, its address such as "172.16.0.0/31", other end; members of a bond."""

    interface: str
    address: str
    group: str
    peer: str
    peer_interface: str
    peer_address: str
    peer_as: AsNumber
    members: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        one_of("group", self.group, (ABOVE, BELOW))
        _words(interface=self.interface, peer=self.peer, peer_interface=self.peer_interface, members=self.members)
        _addresses(address=self.address, peer_address=self.peer_address)


@checked
@dataclass(frozen=True)
class VlanGateway:
    """Gateway of a VLAN: own address with prefix length, and the address that a pair of switches shares, if any."""

    vlan: Vlan
    rail: int
    address: str
    shared: str = ""

    def __post_init__(self) -> None:
        _addresses(address=self.address, shared=self.shared)


@checked
@dataclass(frozen=True)
class EthernetSegment:
    """A port channel that ends on several switches: its number and MAC are the same on all. members: interfaces."""

    interface: str
    number: int
    mac: str
    members: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _words(interface=self.interface, members=self.members)
        if not re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", self.mac):
            raise ValueError(f"mac is {self.mac!r}: give an address such as '02:00:00:00:00:01'")


@checked
@dataclass(frozen=True)
class EvpnPeer:
    """A neighbour that is told of Ethernet segments, by its loopback."""

    peer: str
    address: str
    as_number: AsNumber

    def __post_init__(self) -> None:
        _words(peer=self.peer)
        _addresses(address=self.address)


@checked
@dataclass(frozen=True)
class SwitchConfig:
    """What a switch is configured with.

    as_number: 0 where it has no neighbours.
    mtu: of the links between switches, the largest IP packet [bytes]; that of VLANs and hosts is `vlan_mtu`.
    networks: subnets that it announces of its own, with its loopback.
    aggregates: summary routes.
    summary_only: whether what they cover is kept from every neighbour.
    above_only: networks that the tier above learns from it, longer ones within them too where the text ends in " le
        32"; () for all.
    not_below: networks that the tier below does not learn from it.
    evpn_peers: whom it tells of Ethernet segments.
    """

    hostname: str
    loopback: str
    as_number: AsNumber = 0
    mtu: Mtu = 9216
    links: tuple[RoutedLink, ...] = ()
    gateways: tuple[VlanGateway, ...] = ()
    ethernet_segments: tuple[EthernetSegment, ...] = ()
    networks: tuple[str, ...] = ()
    aggregates: tuple[str, ...] = ()
    summary_only: bool = True
    above_only: tuple[str, ...] = ()
    not_below: tuple[str, ...] = ()
    maximum_paths: Annotated[int, Range(1, 256)] = 1
    evpn_peers: tuple[EvpnPeer, ...] = ()

    def __post_init__(self) -> None:
        _words(hostname=self.hostname)
        _addresses(loopback=self.loopback, networks=self.networks, aggregates=self.aggregates)
        _addresses(above_only=self.above_only, not_below=self.not_below)
        if self.vlan_mtu < LEAST_MTU:
            least = LEAST_MTU + self.mtu - self.vlan_mtu
            raise ValueError(f"mtu is {self.mtu}: VXLAN leaves {self.vlan_mtu} bytes to VLANs: give {least} or more")

    @property
    def vlan_mtu(self) -> int:
        """MTU of VLANs, of the ports to hosts and of the hosts [bytes]: under EVPN below `mtu` by what VXLAN adds.

        VXLAN over IPv4 puts an inner Ethernet header, 14, its own, 8, UDP, 8, and IP, 20, around a packet (RFC 7348,
        section 5).
        """
        return self.mtu - (int(catalog.item("protocols", "VXLAN")["header"]) if self.evpn_peers else 0)

    @property
    def links_by_group(self) -> dict[str, list[RoutedLink]]:
        """Links by the peer group of their neighbours, of those that it has."""
        groups = {name: [link for link in self.links if link.group == name] for name in (ABOVE, BELOW)}
        return {name: links for name, links in groups.items() if links}


@checked
def frr_text(config: SwitchConfig, line_end: int | None = None) -> str:
    """The configuration as a file frr.conf.

    each: interfaces, neighbours and list entries of a kind that are written at most, the others counted in a comment;
    None for all.
    """
    most = sys.maxsize if line_end is None else int(whole("each", line_end))
    return _template().render(config=config, each=most)


@cache
def _template() -> "jinja2.Template":
    import jinja2  # takes longer than a fabric's addresses

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template("frr.conf.j2")
