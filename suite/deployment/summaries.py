"""Summary routes: whether one covers its subnets and no other's, and one that does."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_network
from itertools import pairwise
from typing import Any

from railcore.catalog.units import counted

PRIVATE = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))


def ipv4_network(name: str, text: Any) -> IPv4Network:
    """A network such as "10.0.1.0/24". Raises ValueError for IPv6 and for bits after the prefix."""
    if isinstance(text, IPv4Network):
        return text
    try:
        network = ip_network(str(text), strict=False)
    except ValueError:
        raise ValueError(f"{name} is {text!r}: give an IPv4 network such as '10.0.0.0/8'") from None
    if not isinstance(network, IPv4Network):
        raise ValueError(f"{name} is {text!r}, which is IPv6: give an IPv4 network such as '10.0.0.0/8'")
    if "/" in str(text) and str(network.network_address) != str(text).partition("/")[0].strip():
        raise ValueError(f"{name} is {text!r}, which has bits after its prefix: write '{network}'")
    return network


def refuse_overlaps(name: str, networks: Iterable[IPv4Network]) -> list[IPv4Network]:
    """The networks, in their order. Raises ValueError where two share addresses."""
    networks = list(networks)
    ordered = sorted(networks)
    for before, after in pairwise(ordered):
        if before.overlaps(after):
            raise ValueError(
                f"{name} has {before} and {after}, which overlap: give {after} other addresses, "
                f"such as {free_network(after.prefixlen, networks, [before.supernet(new_prefix=8), *PRIVATE])}"
            )
    return networks


def first_free(size: int, taken: Iterable[IPv4Network], area: IPv4Network, count: int) -> int | None:
    """First address of `count` consecutive free blocks of `size` addresses in an area.

    Parameters
    ----------
    size, count
        Addresses of a block, and blocks.
    taken
        Networks of others.
    area
        Where to look.

    Returns
    -------
    The address, or None where there is no room.
    """
    start = int(area.network_address)
    for network in sorted(taken):
        if int(network.network_address) < start + count * size and int(network.broadcast_address) >= start:
            start = -(-(int(network.broadcast_address) + 1) // size) * size
    return start if start + count * size <= int(area.broadcast_address) + 1 else None


def free_network(prefix_length: int, taken: Collection[IPv4Network], within: Iterable[IPv4Network] = PRIVATE) -> str:
    """First free network of a prefix length inside some networks, as text; "none" in words."""
    starts = (first_free(2 ** (32 - prefix_length), taken, area, 1) for area in within)
    start = next((start for start in starts if start is not None), None)
    return "none: the addresses end here" if start is None else str(IPv4Network((start, prefix_length)))


def smallest_cover(networks: list[IPv4Network]) -> IPv4Network:
    """Smallest network that holds all of these."""
    cover = min(networks)
    last = max(int(network.broadcast_address) for network in networks)
    while int(cover.broadcast_address) < last:
        cover = cover.supernet()
    return cover


@dataclass(frozen=True)
class SummaryCheck:
    """What a summary route covers.

    covers, misses: subnets inside and outside.
    cover: smallest single network over all subnets.
    renumbered: the subnets moved into the summary side by side, () where they do not fit.
    """

    summary: IPv4Network
    covers: tuple[IPv4Network, ...]
    misses: tuple[IPv4Network, ...]
    cover: IPv4Network
    renumbered: tuple[IPv4Network, ...]

    @property
    def valid(self) -> bool:
        """Whether the summary covers all of its subnets."""
        return not self.misses

    @property
    def reason(self) -> str:
        """Why the summary is valid or not, and what would be."""
        total = len(self.covers) + len(self.misses)
        said = f"{self.summary} covers {len(self.covers)} of {counted(total, 'subnets')}"
        if self.valid:
            return f"{said} and nothing of others: valid"
        more = f" and {len(self.misses) - 1} more" if len(self.misses) > 1 else ""
        return f"{said}, not {self.misses[0]}{more}: not valid. The smallest that is: {self.cover}"


def summary_check(summary: str | IPv4Network, subnets: Iterable[str]) -> SummaryCheck:
    """Whether a summary route, such as "10.0.1.0/24", is valid over the subnets of its switch; see `SummaryCheck`."""
    over = ipv4_network("summary", summary)
    networks = [IPv4Network(subnet) for subnet in subnets]
    return SummaryCheck(
        over,
        tuple(network for network in networks if network.subnet_of(over)),
        tuple(network for network in networks if not network.subnet_of(over)),
        smallest_cover(networks),
        tuple(_side_by_side(over, networks)),
    )


def _side_by_side(over: IPv4Network, networks: list[IPv4Network]) -> list[IPv4Network]:
    """Networks moved into another one, each at a multiple of its size; none where they do not fit."""
    moved, end = [], int(over.network_address)
    for network in networks:
        start = -(-end // network.num_addresses) * network.num_addresses
        moved.append(IPv4Network((start, network.prefixlen)))
        end = start + network.num_addresses
    return moved if end <= int(over.broadcast_address) + 1 else []
