"""Parts of a design, counted once for their cost, their power and their failures."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog.checks import Ints
from railcore.deploy.cabling import is_copper_item
from railcore.network.price_books import ItemBook
from railcore.network.reliability import expected_failures
from railcore.network.topology.bill_line import Bill, BillLine
from suite.deployment.cables import CABLE_KINDS, cable_lengths, cable_speed, link_medium, ports_at_ends
from suite.deployment.port_map import lanes_of, rail_switch_ports
from suite.deployment.routing import ROLES
from suite.deployment.segments import SegmentFabric
from suite.deployment.subnets import AddressPlan

LOSSES = ("NIC", "server", "bandwidth")
_ENDS = {
    "host": ("NIC", "rail switch, down"),
    "spine": ("rail switch, up", "spine, down"),
    "super-spine": ("spine, up", "super-spine, down"),
    "peer": ("rail switch, to its peer", "rail switch, to its peer"),
}


def design_parts(design: SegmentFabric | AddressPlan, lengths_m: Mapping = {}) -> pd.DataFrame:
    """Parts of a design: switches, transceivers or cables of every kind of link, NICs.

    design: a fabric, or an address plan, which has the servers that are there and the peer links of its MLAG pairs.
    lengths_m: length of the links of some kinds [m], as in `cabling_table`: the cheapest medium that reaches; without
    one the cheapest optics.
    Columns part (switches, links, NICs), where (tier, kind of link, servers), end (what a transceiver is plugged into,
    "" for others), item (of the catalog), count, carries (links, or of a NIC's bandwidth the share, that go with one),
    units and rate_Bps of its `BillLine` (`bill_of_parts`).
    Raises ValueError for a link that no medium reaches.
    """
    fabric, servers, _ = _as_planned(design)
    lengths = cable_lengths(lengths_m)
    rows: list[tuple] = []
    for tier, (role, model, count) in enumerate(zip(ROLES, fabric.models, fabric.switches_by_tier, strict=False), 1):
        lanes = lanes_of(fabric, tier, up=False)
        units, rate = count * model.ports * lanes, model.port_Bps / lanes
        rows.append(("switches", role, "", model.name, count, 0.0, units, rate))
    for kind, links in links_by_kind(design).items():
        medium, shared = link_medium(fabric, kind, lengths.get(kind)), ports_at_ends(fabric, kind)
        for end, (item, ports, side) in enumerate(medium.ends):
            at = _ENDS[kind][end] if len(medium.ends) > 1 else ""
            end = end if at else int(shared[1] > shared[0])  # a cable splits at the end that shares
            count = side * (_modules(fabric, kind, end, servers) if ports > 1 else links)
            rows.append(("links", kind, at, item, count, side * links / count, links, cable_speed(fabric, kind)))
    nic, nics_of_gpu = _nic(fabric)
    count = servers * fabric.rails * nics_of_gpu
    rows.append(("NICs", "servers", "", nic, count, 1 / nics_of_gpu, count, fabric.nic_Bps / nics_of_gpu))
    return pd.DataFrame(rows, columns="part where end item count carries units rate_Bps".split())


def bill_of_parts(parts: pd.DataFrame) -> Bill:
    """A bill with a line for each item that `design_parts` lists."""
    tiers = {where: tier for names in (ROLES, CABLE_KINDS) for tier, where in enumerate(names, start=1)} | {"peer": 1}
    lines = []
    for row in parts.itertuples():
        if row.part == "links":
            part = "copper cable" if is_copper_item(str(row.item)) else "transceiver"
            to_host = "host optics" if row.end == _ENDS["host"][0] else "host links"
            scope = to_host if row.where == "host" else "switch links"
        else:
            part, scope = {"switches": ("switch", "switches"), "NICs": ("NIC", "NICs")}[str(row.part)]
        numbers = {"units": row.units, "count": row.count, "rate_Bps": row.rate_Bps, "tier": tiers.get(row.where, 0)}
        lines.append(BillLine(part, scope, item=str(row.item), **numbers))
    return tuple(lines)


def _as_planned(design: SegmentFabric | AddressPlan) -> tuple[SegmentFabric, int, int]:
    """Fabric, servers that are there, peer links of an MLAG pair."""
    if isinstance(design, SegmentFabric):
        return design, design.domains, 0
    return design.fabric, design.servers, design.peer_links


def links_by_kind(design: SegmentFabric | AddressPlan) -> dict[str, int]:
    """Links of each kind that a design has."""
    fabric, servers, peers = _as_planned(design)
    trunks = [*fabric.links_by_tier[1:], 0, 0][:2]
    pairs = fabric.switches_by_tier[0] // 2
    counts = servers * fabric.rails * fabric.nic_ports, *trunks, pairs * peers
    return {kind: links for kind, links in zip(CABLE_KINDS, counts, strict=True) if links}


def host_interfaces(fabric: SegmentFabric, servers: int) -> int:
    """Interfaces of rail switches with NIC ports, where so many servers fill one segment after another."""
    here = np.clip(servers - fabric.servers * np.arange(fabric.pods * fabric.segments), 0, fabric.servers)
    ports: Ints = here * (fabric.host_ports // fabric.servers)
    return int((-(-ports // lanes_of(fabric, 1, up=False))).sum()) * fabric.rail_switches_of_segment


def _modules(fabric: SegmentFabric, kind: str, end: int, servers: int) -> int:
    """Interfaces in use at one end of a kind of link (0 lower, 1 upper), a module or splitter cable each."""
    if kind == "host":
        return host_interfaces(fabric, servers)
    tier = {"spine": 1, "super-spine": 2}[kind]
    if end == 1:
        return fabric.interfaces_used[tier][0] * fabric.switches_by_tier[tier]
    return fabric.interfaces_used[tier - 1][1] * fabric.switches_by_tier[tier - 1]


def _nic(fabric: SegmentFabric) -> tuple[str, int]:
    """The smallest NIC of the catalog that has the bandwidth, or several of the largest: its name, and how many."""
    speeds = {name: catalog.item("nics", name)["bandwidth"] for name in catalog.names("nics")}
    fitting = [speed for speed in speeds if speeds[speed] >= fabric.nic_Bps * (1 - 1e-9)]
    if fitting:
        return min(fitting, key=lambda name: speeds[name]), 1
    largest = max(speeds, key=lambda name: speeds[name])
    return largest, math.ceil(fabric.nic_Bps / speeds[largest] - 1e-9)


def parts_that_fail(design: SegmentFabric | AddressPlan, parts: pd.DataFrame) -> pd.DataFrame:
    """Network parts that can fail, and what one failure stops, on average over the parts of a kind.

    parts: of the design, by `design_parts`. A splitter cable, or a transceiver whose interface breaks out, takes all
    its links. Copper cables have no transceivers; optical ones have a fibre each.
    Columns part (in words), kind (of the catalog's failure rates), count, and GPUs that one failure takes, by what
    counts as lost: nic_lost (their NIC has no link left), server_lost (their server has no link left, so that no other
    GPU of it can forward for them), bandwidth_lost (NICs' worth of bandwidth between the tiers that goes through it).
    """
    fabric, servers, _ = _as_planned(design)
    gpus, rows = servers * fabric.rails, []
    alone, all_rails, links = fabric.homing == 1, fabric.rails_per_switch == fabric.rails, links_by_kind(design)
    through = [gpus / fabric.switches_by_tier[0]]
    through += [down / fabric.nic_Bps for down, _ in fabric.capacities_Bps[1:]]
    share = {"host": 1 / fabric.nic_ports, "peer": 0.0}

    def add_link(part: str, kind: str, count: int, where: str, carries: float, lanes: int) -> None:
        within = _within_one(fabric, lanes) if where == "host" else (0.0, 0.0)
        lost = (speed_share * gpus * carries / links[where] for speed_share in within)
        rows.append((part, kind, count, *lost, carries * share.get(where, fabric.uplink_Bps / fabric.nic_Bps)))

    columns = ["part", "where", "end", "item", "count", "carries"]
    fibres = set()
    for part, where, end, item, count, carries in parts[columns].itertuples(index=False, name=None):
        if part == "NICs":
            only = float(carries == 1)
            rows.append(("NIC", "NIC", count, only, only * (fabric.rails == 1), carries))
        elif part == "switches":
            tier = ROLES.index(where)
            lost = through[0] * float(alone and tier == 0)
            rows.append((where, "switch", count, lost, lost * all_rails, through[tier]))
        else:
            lanes = 1 if end == _ENDS["host"][0] else ports_at_ends(fabric, where)[1]
            if is_copper_item(item):
                add_link(f"{where} link", "link", count, where, carries, lanes)
                continue
            add_link(f"transceiver of a {end}", "transceiver", count, where, carries, lanes)
            if where not in fibres:
                add_link(f"{where} link", "link", links[where], where, 1.0, 1)
                fibres.add(where)
    columns = ["part", "kind", "count", *(f"{loss.lower()}_lost" for loss in LOSSES)]
    return pd.DataFrame(rows, columns=columns)


def _within_one(fabric: SegmentFabric, lanes: int) -> tuple[float, float]:
    """Share of NICs, and of servers, whose ports are all in one interface of so many lanes."""
    interface = (rail_switch_ports(fabric) - 1) // lanes
    nics = (interface == interface[..., :1]).all(axis=-1) & (fabric.homing == 1)
    servers = nics.all(axis=0) & (interface == interface[:1, :, :1]).all(axis=(0, 2))
    return float(nics.mean()), float(servers.mean()) * (fabric.rails_per_switch == fabric.rails)


def expected_losses(design: SegmentFabric | AddressPlan, loss: str, parts: pd.DataFrame) -> pd.DataFrame:
    """Failures a year of a design's network parts, and the GPUs that they stop.

    loss: what counts, one of LOSSES. parts: what is bought, of `design_parts`. See `parts_that_fail`.
    Columns part, count, gpus_lost (by one failure), events_per_year, gpus_lost_per_year, lost_gpu_hours_per_year.
    """
    failing = parts_that_fail(design, parts)
    lost = failing[f"{loss.lower()}_lost"]
    taken = failing[["part", "kind", "count"]].assign(gpus_stopped=lost, gpus_slowed=lost, share_lost=1.0)
    table = expected_failures(taken).assign(gpus_lost=lost)
    table["gpus_lost_per_year"] = table["events_per_year"] * lost
    columns = "part count gpus_lost events_per_year gpus_lost_per_year lost_gpu_hours_per_year"
    return table[columns.split()]


def cost_of_parts(parts: pd.DataFrame) -> pd.DataFrame:
    """Cost of the parts that `design_parts` lists.

    Columns part (switches, links, NICs), where, item, count, unit_usd, cost_usd, and low_usd and high_usd of the cost,
    where prices have bounds. Raises ValueError for a part without a price.
    """
    books = {end: ItemBook(end=end) for end in ("value", "low", "high")}
    table, bill = parts[["part", "where", "item", "count"]].copy(), bill_of_parts(parts)
    table["unit_usd"] = [books["value"].number(line) for line in bill]
    for name, book in zip(("cost_usd", "low_usd", "high_usd"), books.values(), strict=True):
        table[name] = [float(book.of(line)) for line in bill]
    return table.groupby(["part", "where", "item", "unit_usd"], sort=False, as_index=False).sum()[
        ["part", "where", "item", "count", "unit_usd", "cost_usd", "low_usd", "high_usd"]
    ]
