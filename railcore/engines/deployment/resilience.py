"""What a failed part leaves: bundles of switches, failover of NICs, failure domains, paths, use of ports by tier."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd

from railcore.engines.deployment.port_map import fabric_switches, leaf_names
from railcore.engines.deployment.routing import ROLES
from railcore.engines.deployment.segments import SegmentFabric
from railcore.engines.deployment.subnets import AddressPlan
from railcore.facts.arguments import checked
from railcore.facts.units import Gbps

ESI_TYPE_3 = 3  # of a MAC address and a number: RFC 7432, section 5
LOCAL_MAC = 0x02_00_00_00_00_00  # locally administered, of no maker


def _mac(number: int) -> str:
    return (LOCAL_MAC | number).to_bytes(6).hex(":")


def bundle_units(plan: AddressPlan) -> pd.DataFrame:
    """Groups of switches that bundle the same NICs: MLAG pairs, or EVPN multihoming of two and more.

    Columns unit, pod, segment, kind (mlag or evpn), switches, nics, system_mac (of the port channels, the same on all),
    peer_link_Gbps and peer_channel (0 without MLAG). Empty where no NIC is bundled over several switches.
    attrs["warnings"]: what the bundle lacks.
    """
    fabric, rows = plan.fabric, []
    peers = plan.trunks[plan.trunks["kind"] == "peer"].drop_duplicates("switch").set_index("switch")["port_channel"]
    if plan.bundling in ("mlag", "evpn"):
        names = leaf_names(fabric).reshape(-1, fabric.homing)
        for number, (members, (place, unit)) in enumerate(zip(names, np.ndenumerate(plan.unit_names), strict=True)):
            nics = fabric.servers * fabric.rails_per_switch
            speed = plan.peer_links * fabric.rail_switch.port_Bps / Gbps
            where = (unit, place[0] + 1, place[1] + 1, plan.bundling, " ".join(members), nics, _mac(number + 1))
            rows.append((*where, round(speed, 6), int(peers.get(members[0], 0))))
    columns = "unit pod segment kind switches nics system_mac peer_link_Gbps peer_channel".split()
    table = pd.DataFrame(rows, columns=columns)
    if not len(table) or plan.peer_links or (plan.bundling == "evpn" and fabric.spines):
        return table
    if fabric.spines:
        text = "MLAG pairs have no peer links: give peer_links, or switches that do without, over the spines."
    elif plan.bundling == "mlag":
        text = "Nothing joins the two switches of an MLAG pair: give peer_links."
    else:
        text = "Nothing joins the switches that share Ethernet segments (EVPN): give spines."
    table.attrs["warnings"] = (text,)
    return table


def ethernet_segments(plan: AddressPlan) -> pd.DataFrame:
    """The Ethernet segment of every NIC that EVPN bundles: domain to port_channel, es_id, system_mac, esi.

    esi: identifier of 10 bytes, type 3: 03, the unit's system MAC, and es_id in 3 bytes. es_id counts the NICs of a
    unit from 1, and is their port channel. Empty without EVPN bundles.
    """
    columns = "domain host gpu unit port_channel es_id system_mac esi".split()
    if plan.bundling != "evpn":
        return pd.DataFrame(columns=columns)
    nics = plan.ports.drop_duplicates(["domain", "gpu"])[["domain", "host", "gpu", "switch", "port_channel"]]
    units = dict(zip(plan.switches["switch"], plan.switches["unit"], strict=True))
    macs = dict(zip(plan.unit_names.ravel(), (_mac(n + 1) for n in range(plan.unit_names.size)), strict=True))
    table = nics.assign(unit=nics["switch"].map(units), es_id=nics["port_channel"]).reset_index(drop=True)
    table["system_mac"] = table["unit"].map(macs)
    pairs = zip(table["system_mac"], table["es_id"].tolist(), strict=True)
    table["esi"] = [f"{ESI_TYPE_3:02x}:{mac}:{number.to_bytes(3).hex(':')}" for mac, number in pairs]
    return table[columns]


FAILURES = ("NIC port", "host link", "NIC", "rail switch", "rail switches of a NIC")


@checked
def failover(plan: AddressPlan) -> pd.DataFrame:
    """What is left when one part fails, a row for each kind of part, counted in the port map.

    The part is the first that serves GPU 1 of the first host. Columns failure, part, gpus_touched; gpus_isolated: whose
    NIC has no link left; nic_share_left and nic_Gbps_left: of the NIC bandwidth of the GPU that is worst off;
    addresses_lost: that no port carries any more, so that sessions to them end. Where NICs are bundled their address
    moves to the ports that are left.
    """
    ports, fabric = plan.ports, plan.fabric
    gpu = ((ports["domain"] - 1) * fabric.rails + ports["gpu"] - 1).to_numpy()
    first = gpu == 0
    switch = ports["switch"].to_numpy()
    mine = ports.loc[first, "switch"].unique()
    port = first & (ports["nic_port"] == 1).to_numpy()
    link = f"{ports['host'].iloc[0]} GPU1 port 1"
    failed: Mapping[str, tuple[str, np.ndarray]] = {
        "NIC port": (link, port),
        "host link": (f"{link} to {mine[0]}", port),
        "NIC": (f"{ports['host'].iloc[0]} GPU1", first),
        "rail switch": (mine[0], switch == mine[0]),
        "rail switches of a NIC": (" ".join(mine), np.isin(switch, mine)),
    }
    address, rows = pd.factorize(ports["address"])[0], []
    for failure in FAILURES:
        part, gone = failed[failure]
        left = np.bincount(gpu[~gone], minlength=fabric.gpus)
        carried = np.bincount(address[~gone], minlength=address.max() + 1)
        touched = np.unique(gpu[gone])
        worst = left[touched].min()
        row = (failure, part, touched.size, int((left[touched] == 0).sum()), worst / fabric.nic_ports)
        rows.append((*row, round(worst * fabric.port_Bps / Gbps, 6), int((carried == 0).sum())))
    columns = "failure part gpus_touched gpus_isolated nic_share_left nic_Gbps_left addresses_lost".split()
    return pd.DataFrame(rows, columns=columns)


@checked
def failure_domains(fabric: SegmentFabric) -> pd.DataFrame:
    """What every switch takes with it when it fails.

    Columns switch, role, pod, segment; gpus_touched: GPUs whose NIC, or whose way between rail switches or pods, runs
    through it; gpus_lost: of these, whose NIC is on it alone; rails_touched, rails_lost: rails of its segment;
    share_left: of the bandwidth of these NICs, or between the rail switches of the pod, or between pods;
    gpus_cut_off: of the GPUs touched those lost, and those that lose their only way over the network to GPUs on other
    switches or pods.
    """
    table = fabric_switches(fabric).drop(columns=["number", "model"])
    tier = table["tier"].to_numpy()
    of_leaf = fabric.servers * fabric.rails_per_switch
    of_pod = fabric.gpus // fabric.pods
    alone, rails = fabric.homing == 1, fabric.rails_per_switch
    lone_spine = fabric.spines == 1 and (fabric.rail_switches_of_pod > fabric.homing or fabric.pods > 1)
    lone_top = fabric.super_spines == 1 and fabric.pods > 1

    def by_tier(*values: float) -> np.ndarray:
        return np.array([*values, 0, 0][:3])[tier - 1]

    table.insert(1, "role", np.array(ROLES, dtype=object)[tier - 1])
    table["gpus_touched"] = by_tier(of_leaf, of_pod, fabric.gpus)
    table["gpus_lost"] = by_tier(of_leaf * alone, 0, 0)
    table["rails_touched"] = by_tier(rails, fabric.rails, fabric.rails)
    table["rails_lost"] = by_tier(rails * alone, 0, 0)
    shares = (1 - 1 / n if n else 1.0 for n in (fabric.homing, fabric.spines, fabric.super_spines))
    table["share_left"] = by_tier(*shares)
    table["gpus_cut_off"] = by_tier(of_leaf * alone, of_pod * lone_spine, fabric.gpus * lone_top)
    return table.drop(columns="tier")


@checked
def path_diversity(fabric: SegmentFabric) -> pd.DataFrame:
    """Equal-cost shortest paths between the NICs of two GPUs, without HB domains, by where the two are.

    Columns rail (same or other), place, switches (on a path), paths (sequences of switches), link_paths (parallel links
    counted too). A rail reaches another where rail switches route or spines join them. Without any way: 0 paths.
    """
    h, spines, planes = fabric.homing, fabric.spines, fabric.super_spine_planes
    host = (fabric.nic_ports // h) ** 2
    trunk, top = fabric.spine_links**2, fabric.super_spine_links**2
    over_spines = h * spines * h
    over_tops = h * h * (spines // planes) ** 2 * fabric.super_spines
    rows: list[tuple] = []
    shares = fabric.rails_per_switch > 1
    for rail, place, exists, level in (
        ("same", "same segment", fabric.servers > 1, 1),
        ("same", "other segment", fabric.segments > 1, 2),
        ("same", "other pod", fabric.pods > 1, 3),
        ("other", "same rail switch", shares, 1 if fabric.routed else 0),
        ("other", "same segment, other rail switch", fabric.rails > fabric.rails_per_switch, 2 if spines else 0),
        ("other", "other segment", fabric.segments > 1 and fabric.rails > 1, 2),
        ("other", "other pod", fabric.pods > 1 and fabric.rails > 1, 3),
    ):
        paths = (0, h, over_spines, over_tops)[level]
        links = (0, host, host * trunk, host * trunk * top)[level]
        if exists:
            rows.append((rail, place, 2 * level - 1 if level else math.nan, paths, paths * links))
    return pd.DataFrame(rows, columns=["rail", "place", "switches", "paths", "link_paths"])
