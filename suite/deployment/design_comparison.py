"""Designs of one size beside each other: parts, failures, paths, addresses, routes, ports."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from railcore.catalog.units import Gbps, hour, significant, year
from suite.deployment.design_build import BuiltDesign
from suite.deployment.part_counts import (
    LOSSES,
    cost_of_parts,
    design_parts,
    expected_losses,
    host_interfaces,
    links_by_kind,
)
from suite.deployment.resilience import failure_domains
from suite.deployment.segments import SegmentFabric
from suite.deployment.subnets import address_use

_RAILS_WORDS = {"multi-rail": "All", "dual-rail": "Two", "single-rail": "One"}
COUNTED = ("gpus", "gpu_Gbps", "oversubscription", "nic_switches", "reach")  # in which comparable designs are equal


def compare_designs(designs: Mapping, cost: bool = True, lengths_m: Mapping = {}) -> pd.DataFrame:
    """Designs beside each other, and whether each is comparable to the first, by counting.

    designs: SegmentFabric or AddressPlan by name. cost: whether CapEx is listed too. lengths_m: as of `design_parts`.
    Columns design; what comparable designs have in common: gpus, gpu_Gbps (NIC bandwidth of a GPU, one direction),
    oversubscription (of the longest way, the worst product of its tiers), nic_switches (that a NIC is on), reach (all
    GPUs, or those of the same rail, over the network); differs_in (of these, from the first), comparable; what it
    takes: switches, links, gpus_lost (by one rail switch), gpus_touched, cost_usd, low_usd, high_usd, usd_per_gpu.
    """
    rows: list[dict] = []
    for name, design in designs.items():
        fabric = design if isinstance(design, SegmentFabric) else design.fabric
        gpus = fabric.gpus if design is fabric else design.gpus
        row = {"design": name, **_counted(fabric, gpus)}
        first = rows[0] if rows else row
        differs = [key for key in COUNTED if row[key] != first[key]]
        worst = failure_domains(fabric).iloc[0]
        row |= {"differs_in": ", ".join(differs), "comparable": not differs}
        row |= {"switches": sum(fabric.switches_by_tier), "links": sum(fabric.links_by_tier)}
        row |= {"gpus_lost": int(worst["gpus_lost"]), "gpus_touched": int(worst["gpus_touched"])}
        if cost:
            table = cost_of_parts(design_parts(design, lengths_m))
            row |= {column: float(table[column].sum()) for column in ("cost_usd", "low_usd", "high_usd")}
            row["usd_per_gpu"] = row["cost_usd"] / gpus
        rows.append(row)
    return pd.DataFrame(rows)


def _counted(fabric: SegmentFabric, gpus: int) -> dict:
    """What designs must have in common to be comparable."""
    ratio, worst = 1.0, 1.0
    for shares in fabric.oversubscription:
        ratio *= shares
        worst = max(worst, ratio)
    alone = fabric.rails == 1 or (fabric.routed and (bool(fabric.spines) or fabric.rails_per_switch == fabric.rails))
    values = gpus, round(fabric.nic_Bps / Gbps, 6), round(worst, 9), fabric.homing
    return dict(zip(COUNTED, [*values, "all GPUs" if alone else "same rail"], strict=True))


def rails_words(measures: pd.DataFrame, gpus: int) -> str:
    """How many rails should share a switch, by cost and by what failed switches take; sentences.

    measures: `design_measures` of one size. gpus: of that size.
    """
    rows = measures.set_index("design")
    usd = rows["with_spines_usd"].fillna(rows["cost_per_gpu_usd"]).map(significant)  # like against like: rails meet
    cut_off = rows["gpus_cut_off_per_year"].map(significant)
    cheapest, safest = cut_off[usd == usd.min()].idxmin(), cut_off.idxmin()
    many = _RAILS_WORDS.get(cheapest, f"As many as in {cheapest}")
    meet = " where all rails meet in the network" * bool(rows["rails_apart"].any())
    told = f"{many}, for the least cost: for {gpus:,} GPUs {cheapest} is cheapest{meet}"
    if safest == cheapest or cut_off[safest] == cut_off[cheapest]:
        return f"{told}, and failed switches of no other design take fewer servers off the network."
    few = f"{cut_off[safest]:,.0f}" if cut_off[safest] else "none"
    return (
        f"{told} and {safest} costs {usd[safest] / usd[cheapest] - 1:.1%} more. But failed switches of {cheapest} take "
        f"whole servers off the network, {cut_off[cheapest]:,.0f} GPUs a year by assumed failure rates, those of "
        f"{safest} {few}. Take {safest} if your software goes on with a part of a server's NICs and stops cost more."
    )


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
    losses = {loss: expected_losses(plan, loss, built.parts) for loss in LOSSES}
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
        "bandwidth_lost": losses["bandwidth"]["lost_gpu_hours_per_year"].sum() / (year / hour),
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
