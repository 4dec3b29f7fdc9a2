"""Configurations of the switches of an address plan, and a design's files: tables and configurations."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from railcore.catalog import UnknownName
from railcore.catalog.files import user_path, write_all
from railcore.catalog.tables import frame_csv
from suite.deployment.cables import cabling_table
from suite.deployment.frr import (
    ABOVE,
    BELOW,
    EthernetSegment,
    EvpnPeer,
    RoutedLink,
    SwitchConfig,
    VlanGateway,
    frr_text,
)
from suite.deployment.port_map import interface_texts
from suite.deployment.routing import BgpDesign
from suite.deployment.subnets import AddressPlan
from suite.deployment.summaries import ipv4_network

LOCAL_MAC = 0x02_00_00_00_00_00  # locally administered, of no maker
_TABLES = ("switches", "port_map", "cabling", "subnets", "summaries", "neighbours")
_MOST_NAMED = 3  # files of others in a message


def switch_config(bgp: BgpDesign, switch: str, mtu: int = 9216) -> SwitchConfig:
    """The configuration of one switch, for `frr.frr_text`.

    A rail switch announces its subnets, or their summary, and no other switch's. A spine passes on what it learns. With
    summaries it announces that of its pod to the super-spines, and to its rail switches all but that: each of them
    knows when another one is cut off, other pods do not (`BgpDesign.flows_lost`).

    bgp: over an address plan. switch: a name of `bgp.switches`. mtu: of the links between switches [bytes]; VLANs have
    `SwitchConfig.vlan_mtu`.
    Raises UnknownName for a switch that the plan lacks, ValueError for Ethernet segments without EVPN sessions and a
    summary that overlaps another's.
    """
    plan, switches = bgp.plan, bgp.switches.set_index("switch")
    if switch not in switches.index:
        raise UnknownName("switch of the plan", switch, list(switches.index))
    at, fabric = switches.loc[switch], plan.fabric
    tier, links, peers = int(at["tier"]), _routed_links(plan, switch, bgp.asns), _evpn_peers(bgp, switch)
    check_exportable(bgp)
    subnets = plan.subnets[plan.subnets["unit"] == at["unit"]] if tier == 1 else plan.subnets[:0]
    summary = _summary(bgp, at) if links else ""
    announced = (summary,) if summary else tuple(subnets["subnet"])
    many = plan.subnets_of_unit if tier == 1 else fabric.segments * plan.units_of_segment  # what a summary is over
    above = {1: (*announced, f"{at['loopback']}/32"), 2: (summary, f"{plan.loopback_pool} le 32") if summary else ()}
    return SwitchConfig(
        hostname=switch,
        loopback=str(at["loopback"]),
        as_number=int(at["asn"]) if links else 0,
        mtu=mtu,
        links=links,
        gateways=_vlan_gateways(plan, subnets, switch) if fabric.routed else (),
        ethernet_segments=_segments_of(plan, switch, at["unit"]) if peers and tier == 1 else (),
        networks=tuple(subnets["subnet"]) if links else (),
        aggregates=announced if summary and many > 1 else (),
        summary_only=tier == 1,
        above_only=above.get(tier, ()) if links else (),
        not_below=announced if summary and tier == 2 and many > 1 else (),
        maximum_paths=max(sum(link.group == group for link in links) for group in (ABOVE, BELOW)) or 1,
        evpn_peers=peers,
    )


def check_exportable(bgp: BgpDesign) -> None:
    """Raise ValueError for what the export cannot write, naming what it could."""
    if bgp.plan.bundling == "evpn" and not (bgp.control_plane == "BGP EVPN" and bgp.plan.fabric.spines):
        raise ValueError(
            "bundling is 'evpn', but rail switches have nobody to tell of their Ethernet segments: give control_plane "
            "'BGP EVPN' and spines (rails_apart False when the fabric is sized), or bundling 'mlag'"
        )


def interface_name(interface: int, lane: int, port_channel: int) -> str:
    """Name of an interface in Linux: "swp7", "swp7s0" for lane 1 of one that breaks out, "bond3" for a port channel."""
    if port_channel:
        return f"bond{port_channel}"
    return str(interface_texts([interface], [lane])[0])


def _routed_links(plan: AddressPlan, switch: str, as_numbers: Mapping) -> tuple[RoutedLink, ...]:
    """Links of a switch to the tiers above and below, a port channel once."""
    routed, links = plan.trunks[plan.trunks["kind"] == "trunk"], []
    for group, near, far in ((ABOVE, ("switch", ""), ("peer", "peer_")), (BELOW, ("peer", "peer_"), ("switch", ""))):
        (name, here), (other, there) = near, far
        every = routed[routed[name] == switch]
        bonds = _bond_members(every, here, "subnet")
        for row in every.drop_duplicates("subnet").to_dict("records"):
            near_end, far_end = (
                interface_name(*(row[f"{side}{column}"] for column in ("interface", "lane", "port_channel")))
                for side in (here, there)
            )
            address, peer = f"{row[f'{here}address']}/31", str(row[other])
            to = group, peer, far_end, str(row[f"{there}address"]), int(as_numbers[peer])
            links.append(RoutedLink(near_end, address, *to, bonds.get(row["subnet"], ())))
    return tuple(links)


def _bond_members(ends: pd.DataFrame, side: str, by: str) -> dict[Any, tuple[str, ...]]:
    """Names of the interfaces of each port channel at one end ("" or "peer_") of some links, by a column."""
    bonded = ends[ends[f"{side}port_channel"] > 0]
    names = pd.Series(interface_texts(bonded[f"{side}interface"], bonded[f"{side}lane"]), bonded.index, dtype=object)
    return {key: tuple(part) for key, part in names.groupby(bonded[by])}


def _evpn_peers(bgp: BgpDesign, switch: str) -> tuple[EvpnPeer, ...]:
    if bgp.control_plane != "BGP EVPN":
        return ()
    table = bgp.neighbours
    sessions = table[(table["switch"] == switch) & (table["session"] == "loopback")]
    ends = zip(sessions["neighbour"], sessions["neighbour_address"], sessions["neighbour_asn"], strict=True)
    return tuple(EvpnPeer(str(peer), str(address), int(asn)) for peer, address, asn in ends)


def _vlan_gateways(plan: AddressPlan, subnets: pd.DataFrame, switch: str) -> tuple[VlanGateway, ...]:
    """Gateways of a rail switch's VLANs. Where its unit shares one, each switch has an address of its own before it."""
    if subnets.empty:
        return ()
    members = plan.switches.loc[plan.switches["unit"] == subnets["unit"].iloc[0], "switch"].tolist()
    position = members.index(switch) if plan.gateways > len(members) else None
    gateways = []
    for vlan, rail, subnet, gateway in subnets[["vlan", "rail", "subnet", "gateway"]].itertuples(index=False):
        address, shared = gateway, ""
        if position is not None and len(members) > 1:
            address, shared = str(ipv4_network("subnet", subnet)[1 + position]), gateway
        gateways.append(VlanGateway(int(vlan), int(rail), f"{address}/{subnet.partition('/')[2]}", shared))
    return tuple(gateways)


def _segments_of(plan: AddressPlan, switch: str, unit: str) -> tuple[EthernetSegment, ...]:
    """Port channels that a switch shares with its unit, under the unit's MAC address."""
    members = _bond_members(plan.ports[plan.ports["switch"] == switch], "", "port_channel")
    number = plan.unit_names.ravel().tolist().index(unit) + 1
    mac = (LOCAL_MAC | number).to_bytes(6).hex(":")
    return tuple(EthernetSegment(f"bond{channel}", channel, mac, members[channel]) for channel in sorted(members))


def _summary(bgp: BgpDesign, at: pd.Series) -> str:
    """Summary route that a switch announces upwards, "" for none: of one subnet it is the subnet itself."""
    plan, tier = bgp.plan, int(at["tier"])
    if not bgp.summarised or tier == 3 or (tier == 2 and not plan.fabric.super_spines):
        return ""
    if tier == 1 and plan.subnets_of_unit == 1:
        return ""
    level, name = ("unit", at["unit"]) if tier == 1 else ("pod", f"Pod{at['pod']}")
    table = plan.summaries
    (row,) = table[(table["level"] == level) & (table["name"] == name)].itertuples(index=False)
    if not row.valid:
        raise ValueError(
            f"the summary {row.summary} of {name} overlaps another {level}'s: give summarised False, or subnets of a "
            f"{level} that follow each other"
        )
    return str(row.summary)


def check_folder(bgp: BgpDesign, folder: str | Path) -> Path:
    """A folder for a design's files. Raises ValueError for one that is a file or has files of other names."""
    root = user_path("folder", folder)
    there = next((path for path in (root, *root.parents) if path.exists()), root)
    if there.exists() and not there.is_dir():
        raise ValueError(f"folder is '{folder}', but '{there.name}' is a file: give a new or an empty folder")
    ours = {root / f"{name}.csv" for name in _TABLES}
    ours |= {root / "frr" / f"{name}.conf" for name in bgp.switches["switch"]}
    others = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and path not in ours)
    if others:
        shown = ", ".join(others[:_MOST_NAMED]) + ", ..." * (len(others) > _MOST_NAMED)
        raise ValueError(f"folder '{folder}' has other files ({shown}): give a new or an empty folder")
    return root


def write_deployment(bgp: BgpDesign, folder: str | Path, lengths_m: Mapping = {}, mtu: int = 9216) -> pd.DataFrame:
    """Write a design's tables, and a file of FRRouting for each switch, all of them or none.

    Parameters
    ----------
    bgp
        AS numbers and sessions over an address plan.
    folder
        That is new, empty, or holds files of these names alone, which are replaced.
    lengths_m
        Of cables, as in `cabling_table`, for their media.
    mtu
        Of the links between switches [bytes]; VLANs have `SwitchConfig.vlan_mtu`.

    Returns
    -------
    Columns file and lines: switches.csv, port_map.csv, cabling.csv, subnets.csv, neighbours.csv, frr/<switch>.conf, and
    summaries.csv where the design announces them.

    Raises
    ------
    ValueError
        A folder with other files, or a design that cannot be exported; nothing is written then.
    """
    root, plan = check_folder(bgp, folder), bgp.plan
    cables = cabling_table(plan, lengths_m)
    frames = (bgp.switches, plan.ports, cables, plan.subnets, plan.summaries, bgp.neighbours)
    contents: dict[Path, str | bytes | None] = {}
    for name, frame in zip(_TABLES, frames, strict=True):
        announced = name != "summaries" or bgp.summarised
        contents[root / f"{name}.csv"] = frame_csv(frame, "%.10g") if announced else None
    for name in bgp.switches["switch"]:
        contents[root / "frr" / f"{name}.conf"] = frr_text(switch_config(bgp, name, mtu))
    write_all(contents)
    rows = [(path.relative_to(root).as_posix(), str(text).count("\n")) for path, text in contents.items() if text]
    return pd.DataFrame(rows, columns=["file", "lines"])
