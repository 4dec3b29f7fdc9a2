"""Designs of one size beside each other: parts, failures, paths, addresses, routes, ports."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from railcore.engines.deployment.design_build import BuiltDesign
from railcore.engines.deployment.design_cost import compare_designs
from railcore.engines.deployment.part_counts import LOSSES, expected_losses, host_interfaces, links_by_kind
from railcore.engines.deployment.segments import SegmentFabric
from railcore.engines.deployment.subnets import address_use
from railcore.facts.units import hour, year

HOURS_OF_A_YEAR = year / hour


def design_measures(designs: Sequence[BuiltDesign]) -> pd.DataFrame:
    """Designs beside each other, a row for each.

    Columns asked (GPUs), design, gpus (that are there), nic_ports, spare_gpus (further room), rails_apart, tiers,
    rail_switches, spines, super_spines, links, cost_per_gpu_usd, with_spines_usd (where rails meet in the network; NaN
    for no such fabric), power_per_gpu_w (listed maxima) and typical_power_per_gpu_w; reach and comparable (of
    `compare_designs`, with the first of its size); of a full rail switch that fails gpus_lost (whose NIC has no link
    left) and servers_touched; nics_lost_per_year of all parts, and gpus_cut_off_per_year (whose server has no link
    left); bandwidth_lost (NICs' worth, on average); paths_same_rail between NICs of a rail, as far apart in a pod as
    they get, and paths_other_pod (0 for no other); nic_subnets, addresses and share_of_addresses_used (of NICs, links
    and loopbacks); routes_of_subnets and routes_with_summaries (of a rail switch), loopback_routes;
    share_of_ports_used (of all switches).
    """
    rows = [_design_row(built) for built in designs]
    for size in dict.fromkeys(built.asked for built in designs):
        here = {i: built.plan for i, built in enumerate(designs) if built.asked == size}
        for i, row in compare_designs(here, cost=False).set_index("design").iterrows():
            rows[i] |= {name: row[name] for name in ("gpus_lost", "reach", "comparable")}  # type: ignore[index]
    return pd.DataFrame(rows)


def _design_row(built: BuiltDesign) -> dict[str, Any]:
    plan, fabric, use = built.plan, built.fabric, address_use(built.plan)
    switches = {name: built.sizing.counts[name] for name in ("rail_switches", "spines", "super_spines")}
    losses = {loss: expected_losses(plan, loss, parts=built.parts) for loss in LOSSES}
    routes, (in_pod, between_pods) = built.bgp.route_counts.iloc[0], equal_cost_paths(fabric)
    used = [count * sum(ports) for count, ports in zip(fabric.switches_by_tier, fabric.interfaces_used, strict=True)]
    leaves, (down, _) = fabric.switches_by_tier[0], fabric.interfaces_used[0]
    on_leaves = host_interfaces(fabric, plan.servers) + leaves * (plan.peer_links - down)
    there = sum(count * model.ports for count, model in zip(fabric.switches_by_tier, fabric.models, strict=True))
    return {
        "asked": built.asked,
        "design": built.name,
        "gpus": plan.gpus,
        "nic_ports": fabric.nic_ports,
        "spare_gpus": built.spare_gpus,
        "rails_apart": built.rails_apart,
        "tiers": fabric.tiers,
        **switches,
        "links": sum(links_by_kind(plan).values()),
        "cost_per_gpu_usd": built.cost_per_gpu_usd,
        "with_spines_usd": built.with_spines.cost_per_gpu_usd if built.with_spines else math.nan,
        "power_per_gpu_w": built.power_per_gpu_w,
        "typical_power_per_gpu_w": built.typical_power_per_gpu_w,
        "servers_touched": fabric.servers,
        "nics_lost_per_year": losses["NIC"]["gpus_lost_per_year"].sum(),
        "gpus_cut_off_per_year": losses["server"]["gpus_lost_per_year"].sum(),
        "bandwidth_lost": losses["bandwidth"]["lost_gpu_hours_per_year"].sum() / HOURS_OF_A_YEAR,
        "paths_same_rail": in_pod,
        "paths_other_pod": between_pods,
        "nic_subnets": int(use["networks"].iloc[0]),
        "addresses": int(use["addresses"].sum()),
        "share_of_addresses_used": use["used"].sum() / use["addresses"].sum(),
        "routes_of_subnets": int(routes["subnets_without_summaries"]),
        "routes_with_summaries": int(routes["subnets_with_summaries"]),
        "loopback_routes": int(routes["loopbacks"]),
        "share_of_ports_used": (sum(used) + on_leaves) / there,
    }


def equal_cost_paths(fabric: SegmentFabric) -> tuple[int, int]:
    """Equal-cost paths between two NICs of a rail: as far apart in a pod as they get, and in two pods; 0 for no other.

    Paths are sequences of switches: h homes, s spines of a pod, t super-spines, q planes. In a segment h, between
    segments h s h, between pods h (s / q) t (s / q) h.
    """
    ends, spines = fabric.homing**2, fabric.spines // fabric.super_spine_planes
    in_pod = ends * fabric.spines if fabric.segments > 1 else fabric.homing * (fabric.servers > 1)
    return in_pod, ends * spines**2 * fabric.super_spines * (fabric.pods > 1)
