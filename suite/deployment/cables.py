"""Cables and transceivers of a fabric: the medium of each kind of link, and one line a cable for those who lay them.

An interface that breaks out takes one module, or one splitter cable, of its whole speed for several links. Modules at
both ends are of one reach; whether their lanes are of one rate is not checked.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from railcore.catalog.arguments import si
from railcore.catalog.checks import at_least, one_of
from railcore.catalog.units import Gbps, number, significant
from railcore.deploy.cabling import link_media
from suite.deployment.port_map import interface_texts, lanes_of
from suite.deployment.segments import SegmentFabric
from suite.deployment.subnets import AddressPlan

CABLE_KINDS = ("host", "spine", "super-spine", "peer")


@dataclass(frozen=True)
class LinkMedium:
    """What one kind of link is made of.

    ends: (item of the catalog's transceivers, ports of a switch or NIC that one module serves, modules side by side for
    that) of the lower and of the upper end; a copper cable has one entry. link_usd: of a link, its share of both.
    """

    ends: tuple[tuple[str, int, int], ...]
    link_usd: float

    @property
    def text(self) -> str:
        """Such as "400G DAC" or "400G DR4 to 800G 2xDR4 for 2"."""
        names = [
            (f"{side} x " if side > 1 else "") + name + (f" for {ports}" if ports > 1 else "")
            for name, ports, side in self.ends
        ]
        return " to ".join(dict.fromkeys(names))


def cable_speed(fabric: SegmentFabric, kind: str) -> float:
    """Bandwidth of a link of a kind of `CABLE_KINDS`, one direction [bytes/s]."""
    speeds = (fabric.port_Bps, fabric.uplink_Bps, fabric.uplink_Bps, fabric.rail_switch.port_Bps)
    return float(dict(zip(CABLE_KINDS, speeds, strict=True))[kind])


def cable_lengths(lengths_m: Mapping) -> dict[str, float]:
    """Lengths by kind of `CABLE_KINDS` [m]; a text with its unit, such as "20 m", is read.

    Raises ValueError for another kind, and for what is no length.
    """
    for kind in lengths_m:
        one_of("lengths_m", kind, CABLE_KINDS)
    read = {kind: si(f"lengths_m of {kind}", lengths_m[kind], "20 m") for kind in lengths_m}
    return {kind: float(at_least(f"lengths_m of {kind}", length)) for kind, length in read.items()}


def ports_at_ends(fabric: SegmentFabric, kind: str) -> tuple[int, int]:
    """Links that share an interface at the lower and at the upper end of a kind of link."""
    lanes = {"host": (1, lanes_of(fabric, 1, up=False)), "peer": (1, 1)}
    for tier, name in ((1, "spine"), (2, "super-spine")):
        if fabric.tiers > tier:
            lanes[name] = lanes_of(fabric, tier, up=True), lanes_of(fabric, tier + 1, up=False)
    return lanes[kind]


def link_medium(fabric: SegmentFabric, kind: str, length_m: float | None) -> LinkMedium:
    """Cheapest medium of the catalog for a kind of link; without a length the cheapest optics.

    Where interfaces break out at both ends, copper is only possible if all lanes of one lead to the same interface.
    Raises ValueError where the catalog has none of the speed, or none that reaches so far.
    """
    speed, ends, media = cable_speed(fabric, kind), ports_at_ends(fabric, kind), []
    parallel = {"spine": fabric.spine_links, "super-spine": fabric.super_spine_links}.get(kind, 1)
    if length_m is not None and parallel % min(ends) == 0:  # one copper cable has two ends: the same two switches
        for name, price, side, _ in _reaching(max(ends) * speed, length_m, copper=True):
            media.append(LinkMedium(((name, max(ends), side),), price / max(ends)))
    low, high = ({row[3]: row for row in _reaching(ports * speed, length_m, copper=False)} for ports in ends)
    for reach in low.keys() & high.keys():
        modules = [(*low[reach], ends[0]), (*high[reach], ends[1])]
        price = sum(usd / 2 / ports for _, usd, _, _, ports in modules)
        media.append(LinkMedium(tuple((name, ports, side) for name, _, side, _, ports in modules), price))
    if not media:
        raise ValueError(
            f"lengths_m of {kind} is {length_m}: no medium of {number(speed / Gbps)} Gbps reaches that far, give a "
            "shorter one or add a row to the catalog's transceivers"
        )
    return min(media, key=lambda medium: (significant(medium.link_usd), medium.text))


def _reaching(speed_Bps: float, length_m: float | None, copper: bool) -> list[tuple[str, float, int, float]]:
    """(item, price with both ends [USD], modules side by side, reach [m]) of media that reach, copper or optics."""
    media = link_media(speed_Bps)
    fitting = media[(media["copper"] == copper) & ((length_m is None) | (media["reach_m"] >= (length_m or 0.0)))]
    return list(fitting[["item", "price_usd", "side", "reach_m"]].itertuples(index=False, name=None))


def cabling_table(plan: AddressPlan, lengths_m: Mapping = {}) -> pd.DataFrame:
    """One line a link of an address plan, for those who lay cables.

    lengths_m: length of the cables of some kinds [m], or such as "20 m": "host", "spine", "super-spine", "peer". The
    cheapest medium of the catalog that reaches so far is given; a kind without a length has none.
    Columns cable (number from 1), kind, from, from_port, to, to_port, speed_Gbps, and length_m and medium where there
    are lengths. Links to lanes of one interface ("swp7s0", "swp7s1") share a splitter cable.
    Raises ValueError for a kind that does not exist, and where no medium reaches.
    """
    fabric, hosts, trunks = plan.fabric, plan.ports, plan.trunks
    kinds = dict(zip((("trunk", 2), ("trunk", 3), ("peer", 1)), CABLE_KINDS[1:], strict=True))
    lengths = cable_lengths(lengths_m)
    ports = zip(hosts["gpu"].tolist(), hosts["nic_port"].tolist(), strict=True)
    nic = [f"GPU{gpu} NIC port {port}" for gpu, port in ports]
    down = {"kind": "host", "from": hosts["host"], "from_port": nic, "to": hosts["switch"]}
    frames = [pd.DataFrame({**down, "to_port": interface_texts(hosts["interface"], hosts["lane"])})]
    for (kind, tier), part in trunks.groupby(["kind", "tier"], sort=False):
        ends = {"kind": kinds[kind, tier], "from": part["switch"].to_numpy()}
        ends |= {"from_port": interface_texts(part["interface"], part["lane"]), "to": part["peer"].to_numpy()}
        frames.append(pd.DataFrame({**ends, "to_port": interface_texts(part["peer_interface"], part["peer_lane"])}))
    table = pd.concat(frames, ignore_index=True)
    table.insert(0, "cable", np.arange(1, len(table) + 1))
    there = table["kind"].unique()
    table["speed_Gbps"] = table["kind"].map({kind: round(cable_speed(fabric, kind) / Gbps, 6) for kind in there})
    if lengths:
        table["length_m"] = table["kind"].map(lengths).astype(float)
        media = {kind: link_medium(fabric, kind, lengths[kind]).text for kind in there if kind in lengths}
        table["medium"] = table["kind"].map(media).fillna("")
    return table
