"""One-way delay of an unloaded path, itemised: NICs, switches, error correction, cables and serialisation.

T = 2 e + sum of s + n f + tau x + m L / B: e of an end (NIC or HB port), s of each switch, f of error correction on
each of n links, tau x of x metres of cable (fibre; copper is a little faster), and L / B of a packet of L bytes on a
link of B, m times: once with cut-through switches, on each link where they store and forward. Queues and software are
left out. Latencies are those of the catalog, each with bounds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from railcore import catalog
from railcore.catalog.arguments import MetresArray, PositiveBandwidth, Quantity, Range, checked
from railcore.catalog.units import counted
from railcore.deploy import cabling

DECODER = "KP4 decoder"  # of the catalog's latencies: error correction of all links
ETHERNET_CODE = "KP4"  # of the catalog's wide_area
DELAYS = ("delay_s", "low_s", "high_s")  # columns: all parts at their value, at their low, at their high
Bounded = NDArray[np.float64]  # value, low, high
PacketBytes = Annotated[Quantity, Range(0, above_0=True, example="4 KiB")]
Duration = Annotated[Quantity, Range(0, above_0=True, example="5 ms")]


@checked
@dataclass(frozen=True)
class DelayPath:
    """A path between two ends over switches, n = switches + 1 links, all of one speed.

    ends, switches: items of the catalog's latencies, such as "ConnectX-7" and ["SN5600", "SN5600", "SN5600"].
    link_Bps: B of every link, one direction [bytes/s].
    packet_bytes: L, a packet on the wire [bytes].
    code: item of wide_area with the links' error correction; "" for none.
    store_and_forward: whether switches receive the whole packet before they send it on.
    """

    ends: str
    switches: Sequence[str]
    link_Bps: PositiveBandwidth
    packet_bytes: PacketBytes
    code: str = ETHERNET_CODE
    store_and_forward: bool = False
    _fixed: dict[str, tuple[int, Bounded]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "switches", tuple(self.switches))
        parts = {f"{self.ends}, both ends": (2, latency(self.ends))}
        for name in dict.fromkeys(self.switches):
            parts[name] = (self.switches.count(name), latency(name))
        if self.code:
            parts[f"{self.code} error correction"] = (self.links, correction_delay(self.link_Bps, self.code))
        once = np.full(3, float(self.packet_bytes / self.link_Bps))
        parts["serialisation"] = (self.links if self.store_and_forward else 1, once)
        object.__setattr__(self, "_fixed", parts)

    @property
    def links(self) -> int:
        """Links of the path, one more than its switches."""
        return len(self.switches) + 1

    @property
    def fixed_s(self) -> Bounded:
        """Delay without cables: value, low, high [s]."""
        return np.sum([count * delay_s for count, delay_s in self._fixed.values()], axis=0)

    @checked
    def table(self, cables_m: MetresArray) -> pd.DataFrame:
        """Delay by part: columns part, count, delay_s, low_s, high_s, the last row all of them.

        cables_m: lengths of all cables of the path, or their sum [m].
        """
        parts = {**self._fixed, "cables": (1, float(np.sum(cables_m)) * _metre())}
        rows = [(name, count, *(count * delay_s)) for name, (count, delay_s) in parts.items()]
        table = pd.DataFrame(rows, columns=["part", "count", *DELAYS])
        total = pd.DataFrame([{"part": "in all", "count": 1, **table[list(DELAYS)].sum()}])
        return pd.concat([table, total], ignore_index=True)

    @checked
    def delay_s(self, cables_m: MetresArray) -> Bounded:
        """Delay at each total length of cables [m]: value, low and high in a last axis [s]."""
        return self.fixed_s + np.asarray(cables_m, float)[..., None] * _metre()

    @checked
    def longest_cables_m(self, bound_s: Duration) -> Bounded:
        """Total length of cables at which the delay reaches a bound [s]: value, at low and at high latencies [m].

        x = (T - fixed) / tau; 0 where the bound is broken without any cable.
        """
        return np.maximum(bound_s - self.fixed_s, 0) / _metre()


def latency(name: str) -> Bounded:
    """Latency of an item of the catalog's latencies: value, low, high [s]. Raises UnknownName."""
    return _bounds(catalog.item("latencies", name).row("latency"))


def correction_delay(link_Bps: float, code: str = ETHERNET_CODE) -> Bounded:
    """Delay of a receiver that corrects errors: value, low, high [s]: k m i / (8 B) + d.

    It waits for i interleaved codewords with k message symbols of m bits, then decodes in d (`DECODER`).
    """
    item = catalog.item("wide_area", code)
    bits = item["message_symbols"] * item["symbol_bits"] * _bounds(item.row("interleaved"))
    return bits / (8 * link_Bps) + latency(DECODER)


def hall_cables(floor: cabling.Floor, racks: int, rack_endpoints: int, blocks: Sequence[int]) -> list[float]:
    """Longest cables of a path in a hall, from one end up to the top tier and down to the other end [m].

    Parameters
    ----------
    floor, racks
        The hall, and the racks in it.
    rack_endpoints, blocks
        Endpoints of a rack on the rail, and below a switch block of each tier but the top: `cabling.rail_link_lengths`.

    Returns
    -------
    Lengths of 2 (len(blocks) + 1) cables; the switches between them are one fewer.
    """
    up = [float(lengths.max()) for lengths in cabling.rail_link_lengths(floor, racks, rack_endpoints, blocks)]
    return [*up, *reversed(up)]


def tier_paths(
    ends: str, switch: str, link_Bps: float, packet_bytes: float, tiers: Sequence[int] = (1, 2, 3)
) -> dict[str, DelayPath]:
    """Paths over the top tier of folded Clos networks, which cross 2 t - 1 switches, all of one model.

    Parameters
    ----------
    ends, switch
        Items of the catalog's latencies.
    link_Bps, packet_bytes
        Of `DelayPath`.
    tiers
        Numbers of tiers t.

    Returns
    -------
    Paths by name, such as "2 tiers, 3 switches".
    """
    paths = {}
    for count in tiers:
        name = f"{counted(count, 'tiers')}, {counted(2 * count - 1, 'switches')}"
        paths[name] = DelayPath(ends, [switch] * (2 * count - 1), link_Bps, packet_bytes)
    return paths


def _metre() -> Bounded:
    """Delay of a metre of fibre: value, low, high [s/m]."""
    return _bounds(catalog.item("wide_area", "fibre").row("delay"))


def _bounds(row: catalog.Value) -> Bounded:
    return np.array([row.value, *(row.value if end is None else end for end in (row.low, row.high))], float)
