"""nwktimes2025's rail designs, Fig. 13-4 to 13-12, as fabrics and address plans with the numbers that it prints.

It counts GPUs from 0 and rails, hosts and interfaces from 1; fabrics and their tables count all from 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from railcore.engines.deployment.forwarding import path_transfers
from railcore.engines.deployment.mac_tables import mac_tables
from railcore.engines.deployment.port_map import PEER_LINKS
from railcore.engines.deployment.rail_packing import rail_switch_order
from railcore.engines.deployment.resilience import failure_domains
from railcore.engines.deployment.routing import BgpDesign
from railcore.engines.deployment.segments import SegmentFabric, leaf_name, rails_name
from railcore.engines.deployment.subnets import AddressPlan
from railcore.engines.deployment.summaries import SummaryCheck, summary_check
from railcore.facts import catalog, files
from railcore.facts.arguments import Quantity, checked
from railcore.facts.checks import one_of
from railcore.facts.tables import read_csv
from railcore.facts.units import Gbps, counted, number
from railcore.network.switches import switch_model
from railcore.network.topology.graph import route

SWITCH = "Nexus 9348D-GX2A"  # of Fig. 13-6 and 13-7; the other figures name none
PANEL_ROWS = 3  # of Fig. 13-6: its numbers run down columns of three
VLAN_OF_RAIL_1 = 101  # of Fig. 13-10 to 13-12
CONNECTION_Bps = 800 * Gbps  # of a switch to one above it: one link, or a port channel of two
ORDER_PORTS, ORDER_RAILS = 32, 8  # of the switches, and rails, in the order of the three models
MODELS = {rails_name(rails, ORDER_RAILS): rails for rails in (ORDER_RAILS, 2, 1)}  # rails per switch
COPY = (1, 2), (2, 3)  # host and GPU, from 0, that a copy between rails starts at and ends at

_POD = {"servers": 4, "nic_ports": 2, "port_Bps": 100 * Gbps, "segments": 2, "spine_links": 2}
_ROUTED = {"port_Bps": 200 * Gbps, "spines": 4, "spine_links": 2}  # the spines are those of Fig. 13-8
DESIGNS: dict[str, dict[str, Any]] = {
    "fig13_4": {"servers": 3, "port_Bps": 200 * Gbps},
    "fig13_5": {"servers": 3, "nic_ports": 2, "port_Bps": 200 * Gbps},
    "fig13_7": {"servers": 4, "nic_ports": 2, "port_Bps": 200 * Gbps},
    "fig13_8": _POD,
    "fig13_9": {**_POD, "pods": 2, "super_spines": 4, "super_spine_links": 2},
    "fig13_10": {"servers": 4, **_ROUTED},
    "fig13_11": {"servers": 16, "rails_per_switch": 2, **_ROUTED},
    "fig13_12": {"servers": 32, "rails_per_switch": 1, **_ROUTED},
}
SUBNETS = {  # of the rails of one switch; of Fig. 13-10 the first two are printed, the rest follow their pattern
    "fig13_10": tuple(f"10.0.{rail}.0/28" for rail in range(1, 9)),
    "fig13_11": ("10.0.1.0/25", "10.0.128.0/25"),
    "fig13_12": ("10.0.1.0/24",),
}
ADVERTISED = "10.0.1.0/24"  # by each of the three switches


def rail_design(figure: str, **changes: Any) -> SegmentFabric:
    """A design of the document, such as "fig13_8", with changes of SegmentFabric's fields.

    Spines of the pods are as many as leave no oversubscription at CONNECTION_Bps each. Raises ValueError for a figure
    without a design.
    """
    options = {**DESIGNS[one_of("figure", figure, DESIGNS)], **changes}
    if options.get("segments", 1) > 1 and "spines" not in options:
        alone: dict[str, Any] = {name: value for name, value in options.items() if name not in _OF_PODS}
        segment = SegmentFabric(rail_switch=switch_model(SWITCH), breakout=False, **alone)
        options["spines"] = connections_needed(segment.capacities_Bps[0][0])
    return SegmentFabric(rail_switch=switch_model(SWITCH), breakout=False, **options)


_OF_PODS = ("segments", "pods", "spine_links", "super_spines", "super_spine_links")


def connections_needed(downlink_Bps: float, connection_Bps: float = CONNECTION_Bps) -> int:
    """Connections upwards, one to each switch above, that carry as much as comes from below [bytes/s each]."""
    return int(np.ceil(round(downlink_Bps / connection_Bps, 9)))


def priced_plans() -> dict[str, AddressPlan]:
    """The designs of Fig. 13-4 to 13-9 by name, and the pod of Fig. 13-8 in one segment on the same rail switches."""
    plans = {f"Fig. {name[3:].replace('_', '-')}": rail_plan(name) for name in list(DESIGNS)[:5]}
    pod = plans["Fig. 13-8"].fabric
    joined = joined_segments(pod, pod.rails_per_switch // pod.segments)
    return {**plans, "Fig. 13-8 without spines": AddressPlan(joined, vlan_base=VLAN_OF_RAIL_1)}


def joined_segments(pod: SegmentFabric, rails_per_switch: int) -> SegmentFabric:
    """A pod's servers in one segment without spines, with so many rails on a switch."""
    alone = replace(pod, segments=1, spines=0, spine_links=1, routed=False, rails_per_switch=rails_per_switch)
    return replace(alone, servers=pod.servers * pod.segments)


@checked
def own_segment(
    servers: int, nic_ports: int, rails_per_switch: int, rail_switch: str, port_Bps: Quantity, uplinks: int = 0
) -> SegmentFabric:
    """A segment of one's own in the document's terms: servers of eight GPUs, NIC ports to as many switches.

    Parameters
    ----------
    servers, nic_ports, rails_per_switch
        Of the segment, of a NIC, and of a switch.
    rail_switch
        Of the catalog.
    port_Bps
        Bandwidth of a NIC port, one direction [bytes/s].
    uplinks
        Of a rail switch, at the speed of its interfaces, to a spine each; 0 for none.

    Returns
    -------
    The fabric; slower ports share an interface where the switch has that mode.

    Raises
    ------
    ValueError
        What does not fit the switch, and what would.
    """
    options: dict[str, Any] = {"nic_ports": nic_ports, "rails_per_switch": rails_per_switch, "spines": uplinks}
    return SegmentFabric(servers, switch_model(rail_switch), port_Bps=port_Bps, **options)


def own_plan(fabric: SegmentFabric) -> AddressPlan:
    """Address plan of a segment: pairs of switches by MLAG, or by EVPN where no interfaces are left for peer links."""
    free = fabric.rail_switch.ports - sum(fabric.interfaces_used[0])
    return AddressPlan(fabric, bundling="evpn" if fabric.homing == 2 and free < PEER_LINKS else "")


def bundling_warnings(plan: AddressPlan) -> list[str]:
    """What is to be known of how `own_plan` joins the ports of a NIC."""
    if plan.bundling != "evpn" or plan.fabric.homing != 2:
        return []
    name = plan.fabric.rail_switch.name
    return [f"{name} has fewer than {PEER_LINKS} interfaces left for peer links of MLAG: pairs are joined by EVPN"]


def switch_notes(plan: AddressPlan) -> dict[str, str]:
    """Of each rail switch of a segment: its links, its oversubscription, and what its failure takes."""
    fabric = plan.fabric
    (down, up), *_ = fabric.capacities_Bps
    links = [counted(fabric.host_ports, "NIC ports"), counted(fabric.ports_used[0][1], "uplinks")]
    links += [counted(plan.peer_links, "peer links")] * bool(plan.peer_links)
    ratio = f"; {number(down / up, 3)}:1" if up else ""
    lost = failure_domains(fabric).iloc[0]
    if lost["gpus_lost"]:
        text = f"takes {counted(int(lost['gpus_lost']), 'GPUs')} off {counted(int(lost['rails_lost']), 'rails')}"
    else:
        text = f"leaves {lost['share_left']:.0%} of the bandwidth of {counted(int(lost['gpus_touched']), 'GPUs')}"
    return dict.fromkeys(
        (leaf_name(1, 1, n) for n in _leaf_numbers(fabric)),
        f"{', '.join(links)}{ratio}\nfailed, it {text}",
    )


def printed_interfaces() -> pd.DataFrame:
    """Fig. 13-6 as printed: columns rail, position (from 0) and interface."""
    rows = read_csv(files.data("rules/nwktimes2025_fig13_6.csv"))
    found = [(int(row["rail"]), i, int(port)) for row in rows for i, port in enumerate(row["interfaces"].split())]
    return pd.DataFrame(found, columns=["rail", "position", "interface"])


def interface_of(rail: Any, server: Any, port: Any = 1) -> Any:
    """Interface of a rail's NIC on the switch of Fig. 13-6: 12 ((r - 1) mod 4) + o + 3 i.

    o = 1 for rails 1 to 4 and 2 for 5 to 8, i = server - 1. Blocks of four columns of the panel hold two rails each,
    one in the upper row and one in the middle row; the lower row stays free. port: each NIC has one there.
    """
    return 12 * ((rail - 1) % 4) + (rail - 1) // 4 + 3 * (server - 1) + port


def rail_plan(figure: str, **changes: Any) -> AddressPlan:
    """Interfaces, VLANs and addresses of a design. Of Fig. 13-11 and 13-12 of one switch, whose subnets are printed."""
    fabric = rail_design(figure, **changes)
    rule = {"fig13_4": "by server", "fig13_5": "by server"}.get(figure, interface_of)
    if figure in SUBNETS:
        one = replace(fabric, gpus_per_server=fabric.rails_per_switch)
        return AddressPlan(one, "by rail", vlan_base=VLAN_OF_RAIL_1, own_subnets=SUBNETS[figure])
    return AddressPlan(fabric, rule, vlan_base=VLAN_OF_RAIL_1)


def as_printed(ports: pd.DataFrame) -> pd.DataFrame:
    """A port map with GPUs counted from 0, as the document does."""
    return ports.assign(gpu=ports["gpu"] - 1)


def switch_titles(plan: AddressPlan) -> dict[str, str]:
    """Text for each rail switch of a segment: its number, model, interfaces in use, their speed, and peer links."""
    fabric = plan.fabric
    model, speed = fabric.rail_switch, number(fabric.port_Bps / Gbps)
    used = f"{fabric.interfaces_used[0][0]} of {model.ports} interfaces, {speed} Gbps each"
    peers = plan.trunks.loc[plan.trunks["kind"] == "peer", "interface"].unique()  # the same on both switches of a pair
    used += f"; peer links on {', '.join(map(str, peers))}" if len(peers) else ""
    return {leaf_name(1, 1, n): f"Rail switch {n} ({model.name}): {used}" for n in _leaf_numbers(fabric)}


def _leaf_numbers(fabric: SegmentFabric) -> range:
    return range(1, fabric.rail_switches_of_segment + 1)


def front_panel_table(plan: AddressPlan) -> pd.DataFrame:
    """Every interface of the first rail switch: columns interface, rail and server (0 where it is free)."""
    ports = plan.ports[plan.ports["switch"] == leaf_name(1, 1, 1)].set_index("interface")
    every = ports[["rail", "server"]].reindex(range(1, plan.fabric.rail_switch.ports + 1), fill_value=0)
    return every.rename_axis("interface").reset_index()


def interface_check(plan: AddressPlan) -> pd.DataFrame:
    """Fig. 13-6 beside the port map: columns rail, position, interface, by_rule, agrees."""
    first = plan.ports[plan.ports["switch"] == leaf_name(1, 1, 1)]
    by_rule = first.set_index(["rail", "server"])["interface"].to_dict()
    table = printed_interfaces()
    table["by_rule"] = [by_rule[rail, i + 1] for rail, i in zip(table["rail"], table["position"], strict=True)]
    return table.assign(agrees=table["interface"] == table["by_rule"])


def printed_mapping(check: pd.DataFrame) -> pd.DataFrame:
    """Fig. 13-6 to show: a row a rail with the interfaces printed and those of the rule."""
    texts = check.groupby("rail")[["interface", "by_rule"]].agg(lambda column: ", ".join(map(str, column)))
    return texts.rename(columns={"interface": "interfaces as printed", "by_rule": "by the rule"}).reset_index()


def cross_rail_copies(figure: str = "fig13_4") -> pd.DataFrame:
    """The document's copy between rails, each side forwarding: columns of `path_transfers`, and side, step, path."""
    graph = rail_design(figure).graph()
    source, target = (f"D{host}.GPU{gpu + 1}" for host, gpu in COPY)
    found = []
    for side in ("source", "destination"):
        path = route(graph, source, target, side=side)
        table = path_transfers(graph, path)
        found.append(table.assign(side=side, step=range(1, len(table) + 1), path=" > ".join(path)))
    table = pd.concat(found, ignore_index=True)
    names = {f"D{host}.GPU{gpu + 1}": f"GPU-{gpu} of Host-{host}" for host in (1, 2) for gpu in range(8)}
    return table.assign(**{end: table[end].map(names) for end in ("from", "to")})


def model_order(switch: str, link_usd: float) -> pd.DataFrame:
    """`rail_switch_order` of the three models over the 32 cases, with the column model.

    switch: of the catalog, with ORDER_PORTS ports; link_usd: of a host link. Raises ValueError for other ports.
    """
    if (ports := switch_model(switch).ports) != ORDER_PORTS:
        fits = [name for name in catalog.names("switches") if switch_model(name).ports == ORDER_PORTS]
        raise ValueError(f"switch is {switch!r} with {ports} ports: give one with {ORDER_PORTS}, {' or '.join(fits)}")
    prices_usd = {"switch": catalog.item("switches", switch)["price"], "host_link": link_usd}
    cases = range(1, ORDER_PORTS + 1)
    table = rail_switch_order(cases, ORDER_PORTS, ORDER_RAILS, list(MODELS.values()), prices_usd)
    return table.assign(model=table["rails_per_switch"].map({rails: name for name, rails in MODELS.items()}))


def advertised_check(figure: str) -> SummaryCheck:
    """What the summary that the document advertises covers of the subnets of its switch."""
    return summary_check(ADVERTISED, SUBNETS[figure])


def switch_contents(figure: str) -> dict[str, pd.DataFrame]:
    """What is inside the switch of Fig. 13-10, 13-11 or 13-12: its tables "vlans", "macs" and "routes".

    vlans: vlan, rail, interfaces, subnet, gateway. macs: vlan, interface, mac. routes: table, variant, prefix, via,
    text, valid; the summary as printed, and beside it one that is valid. NEXT_HOP is the switch's address on each link.
    """
    plan = rail_plan(figure)
    name = leaf_name(1, 1, 1)
    ports = plan.ports[plan.ports["switch"] == name]
    blocks = ports.groupby("vlan")["interface"].agg(_ranges)
    vlans = plan.subnets[["vlan", "rail", "subnet", "gateway"]].assign(
        interfaces=[blocks[vlan] for vlan in plan.subnets["vlan"]]
    )
    macs = mac_tables(plan.ports)
    macs = macs[macs["switch"] == name][["vlan", "interface", "mac"]].reset_index(drop=True)
    return {"vlans": vlans, "macs": macs, "routes": _routes(figure, BgpDesign(plan), name)}


def contents_table(contents: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """`switch_contents` as one table: part (vlans, macs or routes), then all columns, "" where a part has none."""
    parts = {name: table.astype(object) for name, table in contents.items()}
    return pd.concat(parts, names=["part"]).reset_index("part").fillna("").reset_index(drop=True)


def _routes(figure: str, bgp: BgpDesign, switch: str) -> pd.DataFrame:
    """Routes of a switch on their way to the spines, with the printed summary and with a valid one."""
    check = advertised_check(figure)
    summaries = {"as printed": check.summary, "valid": check.cover} if check.misses else {"": ""}
    rows: list[tuple] = []
    for variant, summary in summaries.items():
        tables = bgp.leaf_tables(switch, str(summary))
        own, out = tables[tables["source"] == "connected"], tables[tables["table"] == "Adj-RIB-Out"]
        if not rows:
            inside = own[own["table"] == "RIB"]
            rows += [("RIB: connected", "", row.prefix, row.out, "", True) for row in inside.itertuples()]
            rows += [("BGP Loc-RIB: imported", "", row.prefix, "", "", True) for row in inside.itertuples()]
        first = out.iloc[0]
        flag, total = "" if first["valid"] else "NOT VALID", len(check.covers) + len(check.misses)
        text = first["reason"] or "the subnet itself: no summary"
        if summary == check.cover:
            more = check.cover.num_addresses - sum(net.num_addresses for net in check.covers + check.misses)
            text += f", but {number(more)} further addresses. Or keep {check.summary} and renumber: "
            text += _brief([str(net) for net in check.renumbered])
        hops = [f"to {spine.partition('.')[2]} {hop}" for spine, hop in zip(out["out"], out["next_hop"], strict=True)]
        covered = [] if first["valid"] else [f"covers {len(check.covers)} of {counted(total, 'subnets')}"]
        told = "\n".join([*covered, f"AS path {first['as_path']}, NEXT_HOP", *hops])
        rows.append(("BGP output policy", variant, first["prefix"], flag, text, first["valid"]))
        rows.append(("Adj-RIB-Out", variant, first["prefix"], flag, told, first["valid"]))
    return pd.DataFrame(rows, columns=["table", "variant", "prefix", "via", "text", "valid"])


def _brief(texts: Sequence[str]) -> str:
    return ", ".join(texts) if len(texts) < 3 else f"{texts[0]}, {texts[1]} to {texts[-1]}"


def _ranges(interfaces: pd.Series) -> str:
    """Interfaces in a row as "1 to 4", else one by one."""
    values = sorted(interfaces)
    in_row = values[-1] - values[0] == len(values) - 1 and len(values) > 2
    return f"{values[0]} to {values[-1]}" if in_row else ", ".join(map(str, values))
