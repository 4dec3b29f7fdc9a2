"""One line of a bill of materials: the form in which every fabric states its parts, before any price."""

from dataclasses import dataclass
from typing import Any

SCOPES = ("switches", "switch links", "host links", "host optics", "NICs")  # what a bill may include


@dataclass(frozen=True)
class BillLine:
    """Parts of one kind in one place of a network.

    Counts are numbers, or arrays with a number for each network of a sweep.

    part: "switch", "circuit switch", "transceiver", "copper cable" or "NIC".
    scope: of SCOPES. Switches come with all their ports. Links between switches have both ends, links to hosts (NICs of
        GPUs, servers) the end at the switch or the whole copper cable; optics at the host are a scope of their own.
    units: what a book of prices by kind counts: ports of switches, ends of optical links, copper cables, NICs.
    count: pieces to buy (switches, modules, cables, NICs); None where the book knows how many units a piece has. A
        switch of 64 ports has 64 units and a count of 1.
    tier: of the switch, or of the upper end of the link, 1 next to the hosts; 0 beside the network.
    network: that it belongs to, such as "scale-out" or "storage".
    item: of the catalog; "" where a book prices the kind.
    rate_Bps: bandwidth of a unit, one direction [bytes/s]; None for the rate of the book.
    """

    part: str
    scope: str
    units: Any
    count: Any = None
    tier: int = 0
    network: str = "scale-out"
    item: str = ""
    rate_Bps: float | None = None


Bill = tuple[BillLine, ...]
