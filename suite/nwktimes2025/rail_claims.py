"""nwktimes2025's claims about rail designs: Fig. 13-4 to 13-12."""

from ipaddress import ip_network
from itertools import product

import networkx as nx
import pandas as pd

from railcore.catalog.units import counted, number
from railcore.network.switches import SwitchModel, switch_model
from suite.deployment.resilience import failover, failure_domains
from suite.deployment.segments import SegmentFabric
from suite.ledger.readings import Entries, merge_entries, with_prefix
from suite.nwktimes2025 import rail_designs as designs

_BITS = 8  # of a byte


def rail_losses(fabric: SegmentFabric) -> dict[str, float]:
    """What one failed rail switch stops: the columns of `failure_domains` by name."""
    return failure_domains(fabric).iloc[0].to_dict()


def model_losses(servers: int, switch: SwitchModel, port_Bps: float) -> pd.DataFrame:
    """What one failed rail switch stops of the same servers with each model, with NICs of one and of two ports.

    port_Bps: of a NIC port, one direction [bytes/s].
    Columns model, nic_ports, rail_switches, gpus, gpus_touched (that have a port at the switch), gpus_lost,
    rails_lost, share_left (of the bandwidth of the GPUs touched).
    """
    rows = []
    for (model, r), ports in product(designs.MODELS.items(), (1, 2)):
        fabric = SegmentFabric(servers, switch, rails_per_switch=r, nic_ports=ports, port_Bps=port_Bps)
        lost = rail_losses(fabric)
        shown = {name: lost[name] for name in ("gpus_touched", "gpus_lost", "rails_lost", "share_left")}
        switches = {"rail_switches": fabric.switches_by_tier[0], "gpus": fabric.gpus}
        rows.append({"model": model, "nic_ports": ports, **switches, **shown})
    return pd.DataFrame(rows)


def segment_claims(mapping: pd.DataFrame) -> Entries:
    """Fig. 13-4 to 13-7: ports, rails, what a failure takes, the interfaces printed, and the copy between rails.

    mapping: of `rail_designs.interface_check`.
    """
    single, dual, segment = (designs.rail_design(figure) for figure in ("fig13_4", "fig13_5", "fig13_7"))
    left = failover(designs.rail_plan("fig13_5")).set_index("failure")["gpus_isolated"]
    vlans = designs.rail_plan("fig13_4").ports["vlan"].nunique()
    copy = designs.cross_rail_copy().set_index("network")["rail"]
    panel = designs.front_panel_table(designs.rail_plan("fig13_7"))
    values = {
        "fig13_4.ports": single.host_ports,
        "fig13_4.vlans": vlans,
        "fig13_4.gpus_lost": rail_losses(single)["gpus_lost"],
        "fig13_4.cross_rail_scale_up": (copy.index == "scale-up").sum(),
        "fig13_4.cross_rail_scale_out": (copy.index == "scale-out").sum(),
        "fig13_4.cross_rail_exit": copy["scale-out"],
        "fig13_5.switches": dual.switches_by_tier[0],
        "fig13_5.cable_ratio": dual.links_by_tier[0] / single.links_by_tier[0],
        "fig13_5.gpus_isolated": left[["rail switch", "host link", "NIC port"]].max(),
        "fig13_6.interfaces": (panel["rail"] > 0).sum(),
        "fig13_6.mapping": 1 - mapping["agrees"].mean(),
        "fig13_7.gpus": segment.gpus,
        "fig13_7.gpu_bandwidth": _BITS * segment.nic_Bps,
        "fig13_7.ports_per_switch": segment.host_ports,
        "fig13_7.rails": panel.loc[panel["rail"] > 0, "rail"].nunique(),
    }
    reading = {
        "fig13_5.switches": "three hosts, as in Fig. 13-4: the text gives no number; more hosts take more ports of the "
        "same two switches"
    }
    return _entries(values, {}, reading)


def pod_claims() -> Entries:
    """Fig. 13-8 and 13-9: capacities, spines, tiers and stages."""
    pod, pods = (designs.rail_design(figure) for figure in ("fig13_8", "fig13_9"))
    printed = doubled_ports(pod)
    down, _ = pod.capacities_Bps[0]
    values = {
        "fig13_8.downlink": _BITS * down,
        "fig13_8.uplink": _BITS * pod.capacities_Bps[0][1],
        "fig13_8.pod_gpus": pod.gpus,
        "fig13_8.rail_switches": pod.switches_by_tier[0],
        "fig13_8.spines": pod.spines,
        "fig13_8.oversubscription": pod.oversubscription[0],
        "fig13_8.tiers": graph_tiers(pod),
        "fig13_8.stages": graph_stages(pod),
        "fig13_8.port_rate": _BITS * printed.port_Bps,
        "fig13_9.stages": graph_stages(pods),
        "fig13_9.gpus": pods.gpus,
        "fig13_9.super_spines": pods.super_spines,
        "fig13_9.spine_uplink": _BITS * pods.capacities_Bps[1][1],
        "fig13_9.tiers": graph_tiers(pods),
    }
    faster = number(printed.capacities_Bps[0][0] * _BITS / 1e12)
    reasons = {
        "fig13_8.downlink": f"ports of 100 Gbps, as the claim has them; the 200 Gbps of Fig. 13-7 make it {faster} "
        "Tbps",
        "fig13_8.port_rate": "the pod joins the host segments of Fig. 13-7, whose NICs have two ports of 200 Gbps",
    }
    readings = {
        "fig13_8.oversubscription": f"{pod.spines} spines, counted from the capacity that uplinks need; with the "
        f"200 Gbps ports of Fig. 13-7 and as many spines it is {number(printed.oversubscription[0])}:1"
    }
    return _entries(values, reasons, readings)


def graph_tiers(fabric: SegmentFabric) -> int:
    """Tiers of switches, counted on the graph: links from the farthest switch down to the next GPU."""
    graph, gpus = _network(fabric)
    hops = nx.multi_source_dijkstra_path_length(graph, set(gpus), weight=lambda *_: 1)
    return max(hops.values())


def graph_stages(fabric: SegmentFabric) -> int:
    """Switches between the first GPU and the one that is farthest from it, counted on the graph."""
    graph, gpus = _network(fabric)
    hops = nx.single_source_shortest_path_length(graph, gpus[0])
    return max(hops[gpu] for gpu in gpus) - 1


def _network(fabric: SegmentFabric) -> tuple[nx.Graph, list[str]]:
    """The network without what is inside of hosts, and its GPUs."""
    graph = fabric.graph()
    outside = graph.edge_subgraph(edge for edge in graph.edges if graph.edges[edge]["kind"] != "hb")
    return outside, [node for node, at in outside.nodes(data=True) if at["kind"] == "gpu"]


def doubled_ports(pod: SegmentFabric) -> SegmentFabric:
    """The pod of Fig. 13-8 with the host ports of Fig. 13-7 and as many spines as before."""
    return designs.rail_design("fig13_8", port_Bps=designs.DESIGNS["fig13_7"]["port_Bps"], spines=pod.spines)


def switch_claims(order: pd.DataFrame) -> Entries:
    """Fig. 13-10 to 13-12: subnets, interfaces, summaries, failed switches; and the order of the three models.

    order: of `rail_designs.model_order`.
    """
    values: dict[str, float] = {}
    reasons, readings = {}, {}
    for figure, subnets in designs.SUBNETS.items():
        plan, dual = designs.rail_plan(figure), rail_losses(designs.rail_design(figure, nic_ports=2))
        check = designs.advertised_check(figure)
        name = "interfaces" if figure == "fig13_12" else "interfaces_per_rail"
        values |= {
            f"{figure}.rails_subnet": ip_network(subnets[0]).num_addresses,
            f"{figure}.{name}": plan.ports.groupby("rail")["interface"].nunique().max(),
            f"{figure}.rails_lost": rail_losses(designs.rail_design(figure))["rails_lost"],
        }
        ports = plan.fabric.rail_switch.ports
        readings[f"{figure}.{name}"] = (
            f"{plan.fabric.host_ports} host ports of 200 Gbps, the most that the other interfaces of a switch of "
            f"{ports} carry upwards, over {counted(len(subnets), 'rails')}; all {ports} would be "
            f"{ports // len(subnets)} each"
        )
        readings[f"{figure}.rails_lost"] = (
            "each NIC at this switch alone; with NICs at two switches, as the section's opening has them, "
            f"{dual['rails_lost']} rails are lost, and {dual['share_left']:.0%} of their bandwidth stays"
        )
        if len(subnets) > 1:
            values[f"{figure}.subnets_in_summary"] = len(check.covers)
            moved = [str(network) for network in check.renumbered]
            reasons[f"{figure}.subnets_in_summary"] = (
                f"{check.misses[0]} lies outside of {check.summary}; the smallest single summary is {check.cover}, or "
                f"the subnets become {moved[0]} to {moved[-1]}"
            )
    values["fig13_10.vlans"] = designs.rail_plan("fig13_10").subnets["vlan"].nunique()
    both = rail_losses(designs.rail_design("fig13_10", nic_ports=2))
    values["fig13_10.rails_lost_dual_nic"] = both["rails_lost"]
    reasons["fig13_10.rails_lost_dual_nic"] = (
        f"the other switch carries all rails, with {both['share_left']:.0%} of their bandwidth"
    )
    ports = switch_model(designs.SWITCH).ports
    values |= {f"fig13_10.ports_of_{hosted}_rails": ports // hosted for hosted in designs.HOSTED_RAILS}
    fits = _ordered(order, ports // min(designs.HOSTED_RAILS))
    every = _ordered(order, order["ports_per_rail"].max())
    values["fig13_12.switch_order"] = fits
    rest = order[~order["rises"]]["ports_per_rail"].min()
    readings["fig13_12.switch_order"] = (
        f"up to {ports // min(designs.HOSTED_RAILS)} ports a rail, as four rails on a switch of {ports} leave (up to "
        f"{order['ports_per_rail'].max()}, where fewer than four fit, {every:.0%} break it: from {rest} on two tie)"
    )
    return _entries(values, reasons, readings)


def _ordered(order: pd.DataFrame, most: int) -> float:
    """Share of the sizes up to so many NIC ports a rail at which the order of the three models is not strict."""
    rises = order[order["ports_per_rail"] <= most].groupby("ports_per_rail")["rises"].first()
    return float(1 - rises.mean())


def rail_claims(mapping: pd.DataFrame, order: pd.DataFrame) -> Entries:
    """All claims of Fig. 13-4 to 13-12, from the tables that the notebook shows: see the parts above."""
    return merge_entries(segment_claims(mapping), pod_claims(), switch_claims(order))


def _entries(values: dict, reasons: dict[str, str], readings: dict[str, str]) -> Entries:
    return with_prefix("nwktimes2025", {name: float(value) for name, value in values.items()}, reasons, readings)
