"""Configuration of one switch in the integrated syntax of FRRouting (frr.conf), from the template frr.conf.j2.

What Linux sets up, not FRRouting, is not in it: bridges, VLANs of ports, VXLANs of EVPN, the MAC address of a gateway
that switches share, peer links and NIC bonds of MLAG pairs; and the MTU and the members of bonds, which stand in the
descriptions of the interfaces.
"""

import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from railcore import catalog
from railcore.catalog.arguments import NonNegativeInt, Range, checked

if TYPE_CHECKING:
    import jinja2

ABOVE, BELOW = "ABOVE", "BELOW"  # peer groups: the switches of the tier above, of the tier below
LEAST_MTU = 68  # of IPv4: RFC 791


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
    members: tuple[str, ...]


@dataclass(frozen=True)
class VlanGateway:
    """Gateway of a VLAN: own address with prefix length, and the address that a pair of switches shares, or ""."""

    vlan: int
    rail: int
    address: str
    shared: str


@dataclass(frozen=True)
class EthernetSegment:
    """A port channel that ends on several switches: its number and MAC are the same on all. members: interfaces."""

    interface: str
    number: int
    mac: str
    members: tuple[str, ...]


@dataclass(frozen=True)
class EvpnPeer:
    """A neighbour that is told of Ethernet segments, by its loopback."""

    peer: str
    address: str
    as_number: int


@checked
@dataclass(frozen=True)
class SwitchConfig:
    """Configuration of one switch.

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
    as_number: NonNegativeInt
    mtu: Annotated[int, Range(LEAST_MTU, 65535)]
    links: tuple[RoutedLink, ...]
    gateways: tuple[VlanGateway, ...]
    ethernet_segments: tuple[EthernetSegment, ...]
    networks: tuple[str, ...]
    aggregates: tuple[str, ...]
    summary_only: bool
    above_only: tuple[str, ...]
    not_below: tuple[str, ...]
    maximum_paths: NonNegativeInt
    evpn_peers: tuple[EvpnPeer, ...]

    def __post_init__(self) -> None:
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
def frr_text(config: SwitchConfig, entries: Annotated[int, Range(1)] = sys.maxsize) -> str:
    """The configuration as a file frr.conf.

    entries: interfaces, neighbours and list entries of a kind that are written at most; a comment counts the others.
    """
    return _template().render(config=config, most=entries)


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
