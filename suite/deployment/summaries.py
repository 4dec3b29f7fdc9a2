"""Summary routes: whether one covers its subnets and no other's, and one that does."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, collapse_addresses, ip_network
from itertools import pairwise
from typing import Annotated, Any

from railcore.catalog.arguments import Range, checked
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


@checked
def first_free(size: int, taken: Iterable[IPv4Network], area: IPv4Network, count: int = 1) -> int | None:
    """First address of `count` blocks in a row, of `size` addresses each, that others leave free in an area.

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


@checked
def free_network(
    prefix_length: Annotated[int, Range(0, 32)], taken: Collection[IPv4Network], within: Iterable[IPv4Network] = PRIVATE
) -> str:
    """First network of a prefix length within some that shares no address with others, or "none" in words."""
    starts = (first_free(2 ** (32 - prefix_length), taken, area) for area in within)
    start = next((start for start in starts if start is not None), None)
    return "none: the addresses end here" if start is None else str(IPv4Network((start, prefix_length)))


def smallest_cover(networks: Iterable[IPv4Network]) -> IPv4Network:
    """Smallest single network that holds all of some. Raises ValueError for none."""
    networks = list(networks)
    if not networks:
        raise ValueError("subnets is empty: give at least one")
    cover = min(networks)
    last = max(int(network.broadcast_address) for network in networks)
    while int(cover.broadcast_address) < last:
        cover = cover.supernet()
    return cover


@dataclass(frozen=True)
class SummaryCheck:
    """What a summary route covers.

    valid: it covers every subnet and shares no address with others.
    covers, misses: subnets inside and outside.
    overlaps: networks of others that it shares addresses with.
    cover: smallest single network over all subnets.
    cover_overlaps: others that this one overlaps.
    exact: fewest networks that hold just the subnets.
    renumbered: the subnets moved into the summary side by side, () where they do not fit. reason: in words.
    """

    summary: IPv4Network
    covers: tuple[IPv4Network, ...]
    misses: tuple[IPv4Network, ...]
    overlaps: tuple[IPv4Network, ...]
    cover: IPv4Network
    cover_overlaps: tuple[IPv4Network, ...]
    exact: tuple[IPv4Network, ...]
    renumbered: tuple[IPv4Network, ...]

    @property
    def valid(self) -> bool:
        """Whether the summary covers all of its subnets and nothing of others."""
        return not self.misses and not self.overlaps

    @property
    def smallest_valid(self) -> IPv4Network | None:
        """Smallest valid single summary of the subnets; None where others stand between them."""
        return None if self.cover_overlaps else self.cover

    @property
    def reason(self) -> str:
        """Why the summary is valid or not, and what would be."""
        total = len(self.covers) + len(self.misses)
        said = f"{self.summary} covers {len(self.covers)} of {counted(total, 'subnets')}"
        if self.misses:
            said += f", not {self.misses[0]}" + (f" and {len(self.misses) - 1} more" if len(self.misses) > 1 else "")
        if self.overlaps:
            said += f"; it overlaps {', '.join(map(str, self.overlaps[:3]))} of others"
        if self.valid:
            return f"{said} and nothing of others: valid"
        if self.smallest_valid:
            return f"{said}: not valid. The smallest that is: {self.cover}"
        more = f" and {len(self.exact) - 4} more" if len(self.exact) > 4 else ""
        exact = ", ".join(map(str, self.exact[:4])) + more
        said += f": not valid, and {self.cover}, which covers all, overlaps {self.cover_overlaps[0]}"
        return f"{said}. Advertise {exact}"


@checked
def summary_check(summary: str | IPv4Network, subnets: Iterable, others: Iterable = ()) -> SummaryCheck:
    """Whether a summary route is valid over subnets, beside the networks of others; see `SummaryCheck`.

    summary: such as "10.0.1.0/24"; subnets: that its switch has; others: subnets or summaries of other switches.
    Raises ValueError for what is no IPv4 network, and for subnets that overlap each other.
    """
    over = ipv4_network("summary", summary)
    networks = refuse_overlaps("subnets", (ipv4_network("subnets", subnet) for subnet in subnets))
    strange = [ipv4_network("others", network) for network in others]
    cover = smallest_cover(networks)
    covered = {network: network.subnet_of(over) for network in networks}
    return SummaryCheck(
        over,
        tuple(network for network in networks if covered[network]),
        tuple(network for network in networks if not covered[network]),
        tuple(other for other in strange if other.overlaps(over)),
        cover,
        tuple(other for other in strange if other.overlaps(cover)),
        tuple(collapse_addresses(networks)),
        tuple(_side_by_side(over, networks)),
    )


def _ends(networks: list[IPv4Network]) -> list[int]:
    """Addresses up to the end of each of some networks put side by side from 0, each at a multiple of its size."""
    ends, end = [], 0
    for network in networks:
        end = (-(-end // network.num_addresses) + 1) * network.num_addresses
        ends.append(end)
    return ends


def _side_by_side(over: IPv4Network, networks: list[IPv4Network]) -> list[IPv4Network]:
    ends, first = _ends(networks), int(over.network_address)
    if not ends or ends[-1] > over.num_addresses:
        return []
    pairs = zip(ends, networks, strict=True)
    return [IPv4Network((first + end - network.num_addresses, network.prefixlen)) for end, network in pairs]
