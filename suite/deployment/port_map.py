"""Port map of a segment fabric: the interface of every NIC port and of every link between switches.

Names count from 1: "Pod1.Seg2.Host3" is host 3 of segment 2 of pod 1, domain 5 of the graph's "D5.GPU1". An interface
that breaks out has lanes from 1; lane 0 is a whole interface.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from railcore.catalog.checks import Ints, one_of, whole
from suite.deployment.segments import SegmentFabric, leaf_name

InterfaceRule = str | Callable[[Ints, Ints, Ints], Ints]  # a name of RULES, or a function: see `rail_switch_ports`
RULES = ("by server", "by rail")
BUNDLINGS = ("none", "lag", "mlag", "evpn")
PEER_LINKS = 2  # of an MLAG pair, so that one may fail
MOST_VLAN = 4094


def nic_bundling(fabric: SegmentFabric, bundling: str = "") -> str:
    """How the ports of a NIC are joined, by default as its homing allows. Raises ValueError for what does not fit.

    none: each port has a VLAN and an address of its own. lag: a port channel to one switch. mlag: a port channel over
    two switches that have a peer link. evpn: a port channel over two or more switches, known by its Ethernet segment.
    """
    default = "none" if fabric.nic_ports == 1 else {1: "lag", 2: "mlag"}.get(fabric.homing, "evpn")
    bundling = one_of("bundling", bundling or default, BUNDLINGS)
    homing, ports = fabric.homing, fabric.nic_ports
    if bundling != "none" and ports == 1:
        raise ValueError(f"bundling is {bundling!r} with one port a NIC: give 'none', or nic_ports of 2 or more")
    if bundling == "mlag" and homing != 2:
        other = "lag" if homing == 1 else "evpn"
        raise ValueError(f"bundling is 'mlag' with homing {homing}: a pair is two switches, give homing 2 or {other!r}")
    if (bundling == "lag") != (homing == 1) and bundling in ("lag", "evpn"):
        fits = "'lag'" if homing == 1 else "'evpn'" + (", 'mlag'" if homing == 2 else "")
        raise ValueError(f"bundling is {bundling!r} with homing {homing}: give {fits} or 'none'")
    return bundling


def leaf_names(fabric: SegmentFabric) -> np.ndarray:
    """Names of the rail switches [pods, segments, rail switches of a segment]."""
    shape = fabric.pods, fabric.segments, fabric.rail_switches_of_segment
    names = [leaf_name(*(n + 1 for n in at)) for at in np.ndindex(shape)]
    return np.array(names, dtype=object).reshape(shape)


def spine_names(fabric: SegmentFabric) -> np.ndarray:
    """Names of the spines [pods, spines of a pod]."""
    names = [f"Pod{pod + 1}.Spine{spine + 1}" for pod, spine in product(range(fabric.pods), range(fabric.spines))]
    return np.array(names, dtype=object).reshape(fabric.pods, fabric.spines)


def super_spine_names(fabric: SegmentFabric) -> np.ndarray:
    """Names of the super-spines."""
    return np.array([f"Super{top + 1}" for top in range(fabric.super_spines)], dtype=object)


def fabric_switches(fabric: SegmentFabric) -> pd.DataFrame:
    """Every switch: columns switch, tier, pod, segment, number (0 where it is of none), model."""
    rows: list[tuple] = []
    for (pod, segment, leaf), name in np.ndenumerate(leaf_names(fabric)):
        rows.append((name, 1, pod + 1, segment + 1, leaf + 1, fabric.models[0].name))
    for (pod, spine), name in np.ndenumerate(spine_names(fabric)):
        rows.append((name, 2, pod + 1, 0, spine + 1, fabric.models[1].name))
    rows += [(name, 3, 0, 0, top + 1, fabric.models[2].name) for top, name in enumerate(super_spine_names(fabric))]
    return pd.DataFrame(rows, columns="switch tier pod segment number model".split())


def rail_switch_ports(fabric: SegmentFabric, rule: InterfaceRule = "by server") -> Ints:
    """Port of a rail switch that each of its NIC ports takes [rails of the switch, servers, ports of a NIC there].

    rule: "by server" gives each server a group of consecutive ports, its rails in order; "by rail" gives each rail a
    group, its servers in order. A rule of one's own is a function of arrays rail (of the switch), server and port, all
    from 1. Ports count from 1, through the lanes of interface 1, then those of 2.
    """
    r, servers, k = fabric.rails_per_switch, fabric.servers, fabric.nic_ports // fabric.homing
    rail, server, port = np.indices((r, servers, k)) + 1
    if callable(rule):
        return rule(rail, server, port)
    place = (server - 1) * r + rail - 1 if rule == "by server" else (rail - 1) * servers + server - 1
    return place * k + port


def lanes_of(fabric: SegmentFabric, tier: int, up: bool) -> int:
    """Ports that an interface of a switch of a tier gives at the speed of its links up or down."""
    speed = fabric.port_Bps if tier == 1 and not up else fabric.uplink_Bps
    return fabric.models[tier - 1].ports_of_interface(speed) if fabric.breakout else 1


def _place(port: Ints, lanes: int) -> tuple[Ints, Ints]:
    """Interface and lane of ports that count from 1."""
    return (port - 1) // lanes + 1, ((port - 1) % lanes + 1 if lanes > 1 else np.zeros_like(port))


def free_interfaces(fabric: SegmentFabric, rule: InterfaceRule, peer_links: int) -> Ints:
    """Interfaces of a rail switch that no NIC port takes. Raises ValueError for fewer than uplinks and peer links."""
    ports, model = rail_switch_ports(fabric, rule), fabric.rail_switch
    taken, _ = _place(ports.ravel(), lanes_of(fabric, 1, up=False))
    free = np.setdiff1d(np.arange(1, model.ports + 1), taken)
    uplinks = fabric.interfaces_used[0][1]
    if uplinks + peer_links > free.size:
        peers = f" and peer links {peer_links}" if peer_links else ""
        remedy = (
            f"give peer_links {free.size - uplinks}, or bundling 'evpn', which needs none"
            if peer_links and free.size > uplinks
            else "give bundling 'evpn', which needs no peer link"
            if peer_links and free.size == uplinks
            else "give a rule that fills the lanes of an interface before the next, or fewer spines"
        )
        raise ValueError(
            f"{model.name} has {model.ports} interfaces, NIC ports take {model.ports - free.size}: uplinks take "
            f"{uplinks}{peers}, but {free.size} are left: {remedy}; or take a larger switch"
        )
    return free


def peer_link_count(fabric: SegmentFabric, bundling: str, peer_links: int) -> int:
    """Interfaces of a rail switch that join it to its MLAG peer: one or more with MLAG, else none."""
    return int(whole("peer_links", peer_links, 1)) if nic_bundling(fabric, bundling) == "mlag" else 0


def host_port_map(fabric: SegmentFabric, rule: InterfaceRule, bundling: str, vlan_base: int) -> pd.DataFrame:
    """Every NIC port and the interface that it goes to.

    Parameters
    ----------
    fabric
        Servers, NICs and rail switches.
    rule
        Of the interfaces, see `rail_switch_ports`.
    bundling
        Of a NIC's ports, see `nic_bundling`.
    vlan_base
        VLAN of rail 1. Bundled NICs have a VLAN a rail, vlan_base + rail - 1; else one a rail and NIC port: those of
        NIC port 2 follow those of all rails' port 1. Segments use the same numbers.

    Returns
    -------
    Columns pod, segment, server, domain, host, gpu, nic_port, rail, switch, interface, lane, port_channel (of the
    switches, 0 for none), vlan.
    """
    bundled, at = nic_bundling(fabric, bundling) != "none", fabric.host_links()
    ports, rail_here = rail_switch_ports(fabric, rule), (at["gpu"] - 1) % fabric.rails_per_switch
    port = ports[rail_here, at["server"] - 1, (at["nic_port"] - 1) // fabric.homing]
    interface, lane = _place(port, lanes_of(fabric, 1, up=False))
    shape = fabric.pods, fabric.segments, fabric.servers
    hosts = [f"Pod{pod + 1}.Seg{segment + 1}.Host{server + 1}" for pod, segment, server in np.ndindex(shape)]
    nic = (at["server"] - 1) * fabric.rails_per_switch + rail_here + 1
    return pd.DataFrame(
        {
            **{name: at[name] for name in ("pod", "segment", "server", "domain")},
            "host": np.array(hosts, dtype=object)[at["domain"] - 1],
            "gpu": at["gpu"],
            "nic_port": at["nic_port"],
            "rail": at["gpu"],
            "switch": leaf_names(fabric)[at["pod"] - 1, at["segment"] - 1, at["leaf"] - 1],
            "interface": interface,
            "lane": lane,
            "port_channel": nic if bundled else np.zeros_like(nic),
            "vlan": vlan_base + at["gpu"] - 1 + (0 if bundled else (at["nic_port"] - 1) * fabric.rails),
        }
    )


def checked_vlan_base(fabric: SegmentFabric, bundling: str, vlan_base: int) -> int:
    """The first VLAN of a segment: one a rail where the ports of a NIC are bundled, else one a rail and NIC port.

    Raises ValueError where the VLANs from there are more than there are.
    """
    vlans = fabric.rails * (fabric.nic_ports if nic_bundling(fabric, bundling) == "none" else 1)
    whole("vlan_base", vlan_base, 1, MOST_VLAN)
    if vlan_base + vlans - 1 > MOST_VLAN:
        raise ValueError(
            f"vlan_base is {vlan_base}: {vlans} VLANs end at {vlan_base + vlans - 1}, above {MOST_VLAN}: "
            f"give {MOST_VLAN - vlans + 1} or less"
        )
    return int(vlan_base)


def trunk_port_map(
    fabric: SegmentFabric,
    rule: InterfaceRule,
    bundling: str,
    peer_links: int,
    trunk_bundles: bool,
) -> pd.DataFrame:
    """Every link between switches and its interface at both ends.

    Uplinks of a rail switch take the lowest interfaces that no NIC port takes, peer links those after them. A spine has
    its links down first, then its uplinks.

    Parameters
    ----------
    fabric, rule, bundling
        As of `host_port_map`.
    peer_links
        Interfaces that join the switches of an MLAG pair; none without MLAG.
    trunk_bundles
        Whether parallel links between two switches are one port channel.

    Returns
    -------
    Columns kind (trunk or peer), tier (of the upper end), pod (of the lower end), switch, interface, lane, port_channel
    (0 for none), peer, peer_interface, peer_lane, peer_port_channel, link (of those between the two, from 1).

    Raises
    ------
    ValueError
        Interfaces that do not suffice.
    """
    peers = peer_link_count(fabric, bundling, peer_links)
    free = free_interfaces(fabric, rule, peers)
    on_leaf = 0 if nic_bundling(fabric, bundling) == "none" else fabric.servers * fabric.rails_per_switch
    frames = [_trunk_frame("peer", 1, *_peer_ends(fabric, free, peers, on_leaf))] if peers else []
    if fabric.spines:
        bundles = trunk_bundles and fabric.spine_links > 1
        frames.insert(0, _trunk_frame("trunk", 2, *_leaf_uplinks(fabric, free, on_leaf), bundles))
    if fabric.super_spines:
        bundles = trunk_bundles and fabric.super_spine_links > 1
        frames.insert(1, _trunk_frame("trunk", 3, *_spine_uplinks(fabric), bundles))
    if not frames:
        nobody = np.zeros(0, dtype=int)
        empty = (np.zeros(0, dtype=object), nobody, nobody, nobody)
        frames = [_trunk_frame("trunk", 2, nobody, empty, empty, nobody, False)]
    return pd.concat(frames, ignore_index=True)


Ends = tuple[np.ndarray, Ints, Ints, Ints]  # switch, interface, lane, port channel


def _trunk_frame(
    kind: str, tier: int, pod: Ints, low: Ends, high: Ends, link: Ints, bundled: bool = True
) -> pd.DataFrame:
    columns: dict[str, Any] = {"kind": np.full(pod.size, kind, dtype=object), "tier": tier, "pod": pod + 1}
    for prefix, name, ends in (("", "switch", low), ("peer_", "peer", high)):
        switch, interface, lane, channel = ends
        columns |= {name: switch, f"{prefix}interface": interface, f"{prefix}lane": lane}
        columns[f"{prefix}port_channel"] = channel if bundled else np.zeros_like(channel)
    ends_order = "switch interface lane port_channel peer peer_interface peer_lane peer_port_channel".split()
    return pd.DataFrame({**columns, "link": link + 1})[["kind", "tier", "pod", *ends_order, "link"]]


def _leaf_uplinks(fabric: SegmentFabric, free: Ints, on_leaf: int) -> tuple[Ints, Ends, Ends, Ints]:
    """(pod, lower ends, upper ends, link) of the links between rail switches and spines; channels follow `on_leaf`."""
    shape = fabric.pods, fabric.segments, fabric.rail_switches_of_segment, fabric.spines, fabric.spine_links
    pod, segment, leaf, spine, link = np.indices(shape).reshape(5, -1)
    slot, lane = _place(spine * fabric.spine_links + link + 1, lanes_of(fabric, 1, up=True))
    low = leaf_names(fabric)[pod, segment, leaf], free[slot - 1], lane, on_leaf + spine + 1
    below = segment * fabric.rail_switches_of_segment + leaf
    high = _place(below * fabric.spine_links + link + 1, lanes_of(fabric, 2, up=False))
    return pod, low, (spine_names(fabric)[pod, spine], *high, below + 1), link


def _spine_uplinks(fabric: SegmentFabric) -> tuple[Ints, Ends, Ends, Ints]:
    """(pod, lower ends, upper ends, link) of the links between spines and super-spines of their plane."""
    planes, links = fabric.super_spine_planes, fabric.super_spine_links
    shape = fabric.pods, fabric.spines, fabric.super_spines // planes, links
    pod, spine, nth, link = np.indices(shape).reshape(4, -1)
    down = fabric.interfaces_used[1][0]
    interface, lane = _place(nth * links + link + 1, lanes_of(fabric, 2, up=True))
    low = spine_names(fabric)[pod, spine], down + interface, lane, fabric.rail_switches_of_pod + nth + 1
    below = pod * (fabric.spines // planes) + spine // planes
    high = _place(below * links + link + 1, lanes_of(fabric, 3, up=False))
    return pod, low, (super_spine_names(fabric)[nth * planes + spine % planes], *high, below + 1), link


def _peer_ends(fabric: SegmentFabric, free: Ints, peers: int, on_leaf: int) -> tuple[Ints, Ends, Ends, Ints]:
    """(pod, first switches, second switches, link) of the peer links of all MLAG pairs."""
    shape = fabric.pods, fabric.segments, fabric.rail_switches_of_segment // 2, peers
    pod, segment, pair, link = np.indices(shape).reshape(4, -1)
    interface = free[fabric.interfaces_used[0][1] + link]
    channel = np.full_like(link, on_leaf + fabric.spines + 1)
    names = leaf_names(fabric)
    first, second = ((names[pod, segment, 2 * pair + n], interface, 0 * link, channel) for n in (0, 1))
    return pod, first, second, link


def interface_texts(interface: Sequence[int] | Ints, lane: Sequence[int] | Ints) -> np.ndarray:
    """Names of interfaces as in Linux: "swp7", or "swp7s0" for lane 1 of one that breaks out."""
    interface, lane = np.asarray(interface), np.asarray(lane)
    ends = zip(interface.ravel().tolist(), lane.ravel().tolist(), strict=True)
    texts = [f"swp{i}s{n - 1}" if n else f"swp{i}" for i, n in ends]
    return np.array(texts, dtype=object)
