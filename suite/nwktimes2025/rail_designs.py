"""nwktimes2025's rail designs, Fig. 13-4 to 13-12, as fabrics and address plans with the numbers that it prints.

It counts GPUs from 0 and rails, hosts and interfaces from 1; fabrics and their tables count all from 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from railcore.catalog import files
from railcore.catalog.tables import read_csv
from railcore.catalog.units import Gbps, counted, number
from railcore.network.switches import switch_model
from railcore.network.topology.graph import route
from suite.deployment.port_map import PEER_LINKS
from suite.deployment.resilience import failure_domains
from suite.deployment.routing import BgpDesign
from suite.deployment.segments import SegmentFabric, leaf_name, rails_name
from suite.deployment.subnets import AddressPlan
from suite.deployment.summaries import SummaryCheck, summary_check

SWITCH = "Nexus 9348D-GX2A"  # of Fig. 13-6 and 13-7; the other figures name none
MAPPING_RULE = (  # of `interface_of`, in words
    "By the rule, rail r of server s is on interface 12 ((r − 1) mod 4) + o + 3 (s − 1), where o is 1 for rails 1 to 4 "
    "and 2 for rails 5 to 8."
)
PANEL_ROWS = 3  # of Fig. 13-6: its numbers run down columns of three
VLAN_OF_RAIL_1 = 101  # of Fig. 13-10 to 13-12
CONNECTION_Bps = 800 * Gbps  # of a switch to one above it: one link, or a port channel of two
ORDER_RAILS = 8  # in the order of the three models
HOSTED_RAILS = (4, 8)  # that the text puts on a switch of 48 ports
MODELS = {rails_name(rails, ORDER_RAILS): rails for rails in (ORDER_RAILS, 2, 1)}  # rails per switch
COPY = (1, 2), (2, 3)  # host and GPU, from 0, that a copy between rails starts at and ends at

_POD = {"servers": 4, "nic_ports": 2, "port_Bps": 100 * Gbps, "segments": 2, "spine_links": 2}
_ROUTED = {"port_Bps": 200 * Gbps, "spines": 4, "spine_links": 2}  # the spines are those of Fig. 13-8
DESIGNS: dict[str, dict[str, Any]] = {
    "fig13_4": {"servers": 3, "port_Bps": 200 * Gbps},
    "fig13_5": {"servers": 3, "nic_ports": 2, "port_Bps": 200 * Gbps},
    "fig13_7": {"servers": 4, "nic_ports": 2, "port_Bps": 200 * Gbps},
    "fig13_8": _POD,
    "fig13_9": {**_POD, "pods": 2, "super_spine_links": 2},
    "fig13_10": {"rails_per_switch": 8, **_ROUTED},
    "fig13_11": {"rails_per_switch": 2, **_ROUTED},
    "fig13_12": {"rails_per_switch": 1, **_ROUTED},
}
SUBNETS = {  # of the rails of one switch; of Fig. 13-10 the first two are printed, the rest follow their pattern
    "fig13_10": tuple(f"10.0.{rail}.0/28" for rail in range(1, 9)),
    "fig13_11": ("10.0.1.0/25", "10.0.128.0/25"),
    "fig13_12": ("10.0.1.0/24",),
}
ADVERTISED = "10.0.1.0/24"  # by each of the three switches


def rail_design(figure: str, **changes: Any) -> SegmentFabric:
    """A design of the document, such as "fig13_8", with changes of SegmentFabric's fields.

    Spines and super-spines of the pods are as many as leave no oversubscription at CONNECTION_Bps each. Of Fig. 13-10
    to 13-12, hosts are as many as the host ports of `most_host_ports` take with so many rails on a switch.
    """
    options = {**DESIGNS[figure], **changes}
    if "servers" not in options:
        options["servers"] = most_host_ports(SWITCH, options["port_Bps"]) // options["rails_per_switch"]
    if options.get("segments", 1) > 1 and "spines" not in options:
        options["spines"] = connections_needed(_built(options, _OF_PODS).capacities_Bps[0][0])
    if options.get("pods", 1) > 1 and "super_spines" not in options:
        options["super_spines"] = connections_needed(_built(options, _OF_SUPER_SPINES).capacities_Bps[1][0])
    return _built(options)


_OF_SUPER_SPINES = ("pods", "super_spines", "super_spine_links")
_OF_PODS = ("segments", "spine_links", *_OF_SUPER_SPINES)


def _built(options: Mapping[str, Any], without: Sequence[str] = ()) -> SegmentFabric:
    """The fabric of SegmentFabric's fields, some left out."""
    kept = {name: value for name, value in options.items() if name not in without}
    return SegmentFabric(rail_switch=switch_model(SWITCH), breakout=False, **kept)


def most_host_ports(switch: str, port_Bps: float) -> int:
    """Most host ports of a switch whose other interfaces carry as much upwards, an interface each: k B / (b + B).

    switch: of the catalog, k interfaces of B. port_Bps: b of a host port [bytes/s].
    """
    model = switch_model(switch)
    return int(round(model.ports * model.port_Bps / (port_Bps + model.port_Bps), 9))


def connections_needed(downlink_Bps: float) -> int:
    """Connections upwards, one to each switch above, that carry as much as comes from below [bytes/s]."""
    return int(np.ceil(round(downlink_Bps / CONNECTION_Bps, 9)))


def priced_plans() -> dict[str, AddressPlan]:
    """The designs of Fig. 13-4 to 13-9 by name, and the pod of Fig. 13-8 in one segment on the same rail switches."""
    plans = {f"Fig. {name[3:].replace('_', '-')}": rail_plan(name) for name in list(DESIGNS)[:5]}
    return {**plans, "Fig. 13-8 without spines": AddressPlan(joined_pod(), vlan_base=VLAN_OF_RAIL_1)}


def joined_pod() -> SegmentFabric:
    """The pod of Fig. 13-8 without spines: its servers in one segment, fewer rails on each of its rail switches."""
    pod = rail_design("fig13_8")
    alone = replace(pod, segments=1, spines=0, spine_links=1, routed=False)
    servers, rails = pod.servers * pod.segments, pod.rails_per_switch // pod.segments
    return replace(alone, servers=servers, rails_per_switch=rails)


def own_segment(
    servers: int, nic_ports: int, rails_per_switch: int, rail_switch: str, port_Bps: float, uplinks: int = 0
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


def own_plan_warnings(plan: AddressPlan) -> list[str]:
    """Warnings about how `own_plan` joins the ports of a NIC."""
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
        left, touched = number(100 * lost["share_left"], 3), counted(int(lost["gpus_touched"]), "GPUs")
        text = f"leaves {left}% of the bandwidth of {touched}"
    return dict.fromkeys(
        (leaf_name(1, 1, n) for n in _leaf_numbers(fabric)),
        f"{', '.join(links)}{ratio}\nfailed, it {text}",
    )


def printed_interfaces() -> pd.DataFrame:
    """Fig. 13-6 as printed: columns rail, position (from 0) and interface."""
    rows = read_csv(files.data("rules/nwktimes2025_fig13_6.csv"))
    interfaces = [(int(row["rail"]), i, int(port)) for row in rows for i, port in enumerate(row["interfaces"].split())]
    return pd.DataFrame(interfaces, columns=["rail", "position", "interface"])


def interface_of(rail: Any, server: Any, port: Any) -> Any:
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
    peers = peer_interfaces(plan)
    used += f"; peer links on {', '.join(map(str, peers))}" if len(peers) else ""
    return {leaf_name(1, 1, n): f"Rail switch {n} ({model.name}): {used}" for n in _leaf_numbers(fabric)}


def peer_interfaces(plan: AddressPlan) -> list[int]:
    """Interfaces that peer links take, the same on both switches of a pair."""
    return plan.trunks.loc[plan.trunks["kind"] == "peer", "interface"].unique().tolist()


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


def cross_rail_copy() -> pd.DataFrame:
    """The document's copy between rails, on the shortest path of its fabric: a row for each transfer.

    Columns network (scale-up within a server, scale-out over switches) and rail over which it leaves, 0 for scale-up.
    """
    graph = rail_design("fig13_4").graph()
    source, target = (f"D{host}.GPU{gpu + 1}" for host, gpu in COPY)
    path = route(graph, source, target)
    stops = [i for i, node in enumerate(path) if graph.nodes[node]["kind"] == "gpu"]
    rows = []
    for start, _ in pairwise(stops):
        inside = graph.edges[path[start], path[start + 1]]["kind"] == "hb"
        rows.append(("scale-up", 0) if inside else ("scale-out", graph.nodes[path[start]]["rail"]))
    return pd.DataFrame(rows, columns=["network", "rail"])


def model_order(switch: str) -> pd.DataFrame:
    """Rail switches of the three models by NIC ports a rail, packed over as few switches as hold them.

    (R / r) ceil(r n / k): each group of r of R rails has switches of its own; n ports a rail, k ports of a switch.
    switch: of the catalog. Columns ports_per_rail (1 to k), model, switches, and rises: whether of these ports every
    model takes strictly fewer switches than the next.
    """
    ports, rows = switch_model(switch).ports, list[tuple]()
    for n in range(1, ports + 1):
        counts = [ORDER_RAILS // r * -(-r * n // ports) for r in MODELS.values()]
        rises = all(fewer < more for fewer, more in pairwise(counts))
        rows += [(n, model, switches, rises) for model, switches in zip(MODELS, counts, strict=True)]
    return pd.DataFrame(rows, columns=["ports_per_rail", "model", "switches", "rises"])


def advertised_check(figure: str) -> SummaryCheck:
    """What the summary that the document advertises covers of the subnets of its switch."""
    return summary_check(ADVERTISED, SUBNETS[figure])


def switch_contents(figure: str) -> dict[str, pd.DataFrame]:
    """Tables of the switch of Fig. 13-10, 13-11 or 13-12: "vlans", "macs" and "routes".

    vlans: vlan, rail, interfaces, subnet, gateway. macs: vlan, interface, mac. routes: table, variant, prefix, via,
    text, valid; the document's summary, and beside it one that is valid. NEXT_HOP is the switch's address on each link.
    """
    plan = rail_plan(figure)
    name = leaf_name(1, 1, 1)
    ports = plan.ports[plan.ports["switch"] == name]
    blocks = ports.groupby("vlan")["interface"].agg(_ranges)
    vlans = plan.subnets[["vlan", "rail", "subnet", "gateway"]].assign(
        interfaces=[blocks[vlan] for vlan in plan.subnets["vlan"]]
    )
    return {"vlans": vlans, "macs": mac_tables(ports), "routes": _routes(figure, BgpDesign(plan), name)}


def mac_tables(ports: pd.DataFrame) -> pd.DataFrame:
    """MAC tables of a switch's VLANs once every NIC has sent: columns vlan, interface, mac.

    ports: of `AddressPlan.ports`. MAC addresses are locally administered: 06, server (3 bytes), GPU, NIC port. Ports of
    a bundle send with that of its first port.
    """
    port = ports["nic_port"].where(ports["port_channel"] == 0, 1)
    numbers = zip(*(column.tolist() for column in (ports["domain"], ports["gpu"], port)), strict=True)
    macs = [(6 << 40 | server << 16 | gpu << 8 | nic).to_bytes(6).hex(":") for server, gpu, nic in numbers]
    table = ports[["vlan", "interface"]].assign(mac=macs)
    return table.sort_values(["vlan", "interface"], kind="stable", ignore_index=True)


def contents_table(contents: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """`switch_contents` as one table: part (vlans, macs or routes), then all columns, "" where a part has none."""
    parts = {name: table.astype(object) for name, table in contents.items()}
    return pd.concat(parts, names=["part"]).reset_index("part").fillna("").reset_index(drop=True)


def _routes(figure: str, bgp: BgpDesign, switch: str) -> pd.DataFrame:
    """Routes of the one rail switch on their way to the spines, with the printed summary and with a valid one."""
    check, subnets = advertised_check(figure), bgp.plan.subnets
    rows: list[tuple] = [
        ("RIB: connected", "", subnet, f"VLAN {vlan}", "", True)
        for subnet, vlan in zip(subnets["subnet"], subnets["vlan"], strict=True)
    ]
    rows += [("BGP Loc-RIB: imported", "", subnet, "", "", True) for subnet in subnets["subnet"]]
    peers = bgp.neighbours.loc[bgp.neighbours["switch"] == switch, ["neighbour", "address"]]
    hops = [f"Spine {spine.rpartition('Spine')[2]}: {address}" for spine, address in peers.itertuples(index=False)]
    told = "\n".join([f"AS path: {bgp.asns[switch]}", "NEXT_HOP, by spine:", *hops])

    def announce(variant: str, prefix: object, reason: str, said: str, valid: bool = True) -> None:
        flag = "" if valid else "NOT VALID"
        rows.append(("BGP output policy", variant, str(prefix), flag, reason, valid))
        rows.append(("Adj-RIB-Out", variant, str(prefix), flag, said, valid))

    if not check.misses:
        announce("", subnets["subnet"].iloc[0], "the subnet itself: no summary", told)
    else:
        covered = f"covers {len(check.covers)} of {counted(len(subnets), 'subnets')}"
        announce("document", check.summary, check.reason, f"{covered}\n{told}", valid=False)
        more = check.cover.num_addresses - subnets["addresses"].sum()
        reason = f"{summary_check(check.cover, SUBNETS[figure]).reason}, but {number(more)} further addresses. Or keep "
        reason += f"{check.summary} and renumber: {_brief([str(net) for net in check.renumbered])}"
        announce("valid", check.cover, reason, told)
    return pd.DataFrame(rows, columns=["table", "variant", "prefix", "via", "text", "valid"])


def _brief(texts: Sequence[str]) -> str:
    return ", ".join(texts) if len(texts) < 3 else f"{texts[0]}, {texts[1]} to {texts[-1]}"


def _ranges(interfaces: pd.Series) -> str:
    """Interfaces in a row as "1 to 4", else one by one."""
    values = sorted(interfaces)
    in_row = values[-1] - values[0] == len(values) - 1 and len(values) > 2
    return f"{values[0]} to {values[-1]}" if in_row else ", ".join(map(str, values))
