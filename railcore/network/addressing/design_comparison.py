"""Designs of one size beside each other: parts, failures, paths, addresses, routes, ports."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from railcore.facts import catalog
from railcore.facts.arguments import checked
from railcore.facts.checks import one_of, whole
from railcore.facts.units import counted, hour, year
from railcore.network.addressing.cables import CABLE_KINDS, is_copper_item
from railcore.network.addressing.resilience import path_diversity
from railcore.network.addressing.routing import ROLES, BgpDesign
from railcore.network.addressing.subnets import AddressPlan, address_use
from railcore.network.cabling import Floor, rail_link_lengths
from railcore.network.reliability import expected_failures
from railcore.network.topology.segment_sizing import SegmentDemand, smallest_segment_fabric
from railcore.network.topology.segments import SegmentFabric

HOURS_OF_A_YEAR = year / hour
LOSSES = ("NIC", "server", "bandwidth")


def copper_links(parts: pd.DataFrame) -> tuple[str, ...]:
    """Kinds of links of a design that are copper cables, of what `design_cost` lists."""
    links = parts[parts["part"] == "links"]
    return tuple(kind for kind, item in zip(links["where"], links["item"], strict=True) if is_copper_item(item))


def parts_of_fabric(fabric: SegmentFabric, copper: Sequence[str] = ()) -> pd.DataFrame:
    """Network parts that can fail, and what one of them takes.

    copper: kinds of links (host, spine, super-spine) that are copper cables, which have no transceivers.
    Columns part (in words), kind (of the catalog's failure rates), count, and GPUs that one failure takes, by what
    counts as lost: nic_lost (their NIC has no link left), server_lost (their server has no link left, so that no other
    GPU of it can forward for them), bandwidth_lost (NICs' worth of bandwidth between the tiers that goes through it).
    """
    rails, one_port, alone = fabric.rails, fabric.nic_ports == 1, fabric.homing == 1
    on_leaf = fabric.servers * fabric.rails_per_switch
    all_rails = fabric.rails_per_switch == rails
    port = 1 / fabric.nic_ports
    rows: list[tuple] = [("NIC", "NIC", fabric.gpus, 1.0, float(rails == 1), 1.0)]
    modules = {kind: 0 if kind in copper else 2 for kind in CABLE_KINDS}  # of a link
    for name, kind, each in (("host transceiver", "transceiver", modules["host"]), ("host link", "link", 1)):
        lost = float(one_port)
        rows.append((name, kind, each * fabric.links_by_tier[0], lost, lost * (rails == 1), port))
    through = [down / fabric.nic_Bps for down, _ in fabric.capacities_Bps]
    for tier, (count, bandwidth) in enumerate(zip(fabric.switches_by_tier, through, strict=True)):
        lost = on_leaf * float(alone and tier == 0)
        rows.append((ROLES[tier], "switch", count, lost, lost * all_rails, bandwidth))
    for links, name in zip(fabric.links_by_tier[1:], ROLES[1:], strict=False):
        share = fabric.uplink_Bps / fabric.nic_Bps
        rows += [(f"transceiver to a {name}", "transceiver", modules[name] * links, 0.0, 0.0, share)]
        rows += [(f"link to a {name}", "link", links, 0.0, 0.0, share)]
    columns = ["part", "kind", "count", *(f"{loss.lower()}_lost" for loss in LOSSES)]
    return pd.DataFrame(rows, columns=columns)


@checked
def expected_losses(
    fabric: SegmentFabric, loss: str = "NIC", rates: str = "value", copper: Sequence[str] = ()
) -> pd.DataFrame:
    """A year's failures of the network parts of a fabric, and the GPUs that they take.

    Parameters
    ----------
    fabric
        Its switches, links and NICs.
    loss
        What counts, one of LOSSES, see `parts_of_fabric`.
    rates
        "value", "low" or "high" of the catalog's rows.
    copper
        Kinds of links without transceivers, see `copper_links`.

    Returns
    -------
    Columns part, count, gpus_lost (by one failure), events_per_year, gpus_lost_per_year, lost_gpu_hours_per_year.
    """
    parts = parts_of_fabric(fabric, copper)
    kinds = parts["kind"].unique()
    each = expected_failures(dict.fromkeys(kinds, 1), dict.fromkeys(kinds, 1.0), rates).set_index("part")
    table = parts[["part", "count"]].assign(gpus_lost=parts[f"{one_of('loss', loss, LOSSES).lower()}_lost"])
    table["events_per_year"] = table["count"] * parts["kind"].map(each["events_per_year"])
    table["gpus_lost_per_year"] = table["events_per_year"] * table["gpus_lost"]
    hours = parts["kind"].map(each["lost_gpu_hours_per_year"])
    table["lost_gpu_hours_per_year"] = table["count"] * table["gpus_lost"] * hours
    return table


def lost_nics(fabric: SegmentFabric) -> np.ndarray:
    """NICs that one rail switch takes with it [servers of its segment, rails]: the share of their bandwidth."""
    links = fabric.host_links()
    first = (links["pod"] == 1) & (links["segment"] == 1)
    shares = np.zeros((fabric.servers, fabric.rails))
    on_first = first & (links["leaf"] == 1)
    np.add.at(shares, (links["server"][on_first] - 1, links["gpu"][on_first] - 1), 1 / fabric.nic_ports)
    return shares


def sized_loss(demand: SegmentDemand) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """What one rail switch of the smallest fabric for a demand takes with it, and the fabric in words, by its name."""
    sizing = smallest_segment_fabric(demand)
    fabric, name = sizing.fabric, rails_name(sizing.fabric)
    names = ("rail switches", "spines", "super-spines")
    switches = [counted(count, each) for count, each in zip(fabric.switches_by_tier, names, strict=False)]
    words = f"{counted(fabric.gpus, 'GPUs')}, {counted(fabric.servers, 'servers')} a segment; {', '.join(switches)}"
    return {name: lost_nics(fabric)}, {name: words}


def rails_name(fabric: SegmentFabric) -> str:
    """Name of a fabric's rail switches: multi-rail, dual-rail, single-rail, or "4 rails"."""
    if fabric.rails_per_switch == fabric.rails:
        return "multi-rail"
    return {1: "single-rail", 2: "dual-rail"}.get(fabric.rails_per_switch, f"{fabric.rails_per_switch} rails")


def design_lengths(fabric: SegmentFabric, floor: Floor, servers_per_rack: int) -> dict[str, float]:
    """Longest cable of each kind of a fabric on a floor of racks [m]: host, spine, super-spine.

    Switches stand in the middle of what they join, as of `cabling.rail_link_lengths`.
    """
    racks = -(-fabric.domains // int(whole("servers_per_rack", servers_per_rack)))
    blocks = (fabric.servers, fabric.servers * fabric.segments)[: fabric.tiers - 1]
    lengths = rail_link_lengths(floor, racks, servers_per_rack, blocks)
    return {kind: float(each[-1]) for kind, each in zip(CABLE_KINDS, lengths, strict=False)}


def design_power(parts: pd.DataFrame) -> float:
    """Power of the switches and transceivers of a design [W]: what `design_cost` lists, times the catalog's power."""
    total = 0.0
    for part, family in (("switches", "switches"), ("links", "transceivers")):
        own = parts[parts["part"] == part]
        for item, count in zip(own["item"], own["count"], strict=True):
            ends = 2 if is_copper_item(item) else 1  # a cable has both ends, a transceiver is one
            total += float(count) * ends * catalog.item(family, item)["power"]
    return total


@checked
def design_measures(
    plans: Iterable, costs: Mapping = {}, rates: str = "value", copper: Sequence[Sequence[str]] = ()
) -> pd.DataFrame:
    """Address plans beside each other, a row for each.

    Parameters
    ----------
    plans
        `AddressPlan`s of the fabrics.
    costs
        Further columns, each a list with a value for each plan, such as cost_usd.
    rates
        "value", "low" or "high" of the catalog's failure rates.
    copper
        For each plan the kinds of its links that are copper cables, see `copper_links`; by default none.

    Returns
    -------
    Columns gpus, design, tiers, rail_switches, spines, super_spines, links, those of `costs`; of one rail switch that
    fails gpus_lost (whose NIC has no link left) and servers_touched, the latter a year too; nics_lost_per_year of all
    parts, and gpus_cut_off_per_year (whose server has no link left); bandwidth_lost (NICs' worth out of service on
    average); paths_same_rail between NICs of a rail in a pod,
    as far apart as they get, and paths_other_pod (0 for no other); nic_subnets,
    addresses and share_of_addresses_used (of NICs, links and loopbacks); routes_of_subnets and routes_with_summaries
    (of a rail switch), loopback_routes; share_of_ports_used (of all switches).

    Raises
    ------
    ValueError
        A list of costs or of copper links of another length than the plans.
    """
    plans = list(plans)
    for name, values in costs.items():
        if len(values) != len(plans):
            raise ValueError(f"costs[{name!r}] has {len(values)} values for {len(plans)} plans: give one for each")
    copper = copper or [()] * len(plans)
    if len(copper) != len(plans):
        raise ValueError(f"copper has {len(copper)} entries for {len(plans)} plans: give one for each")
    rows = [
        _design_row(plan, {name: costs[name][i] for name in costs}, rates, copper[i]) for i, plan in enumerate(plans)
    ]
    return pd.DataFrame(rows)


def _design_row(plan: AddressPlan, costs: dict[str, Any], rates: str, copper: Sequence[str]) -> dict[str, Any]:
    fabric, use = plan.fabric, address_use(plan)
    switches = dict(zip(("rail_switches", "spines", "super_spines"), (*fabric.switches_by_tier, 0, 0), strict=False))
    losses = {loss: expected_losses(fabric, loss, rates, copper) for loss in LOSSES}
    leaf = losses["NIC"].set_index("part").loc[ROLES[0]]
    routes = BgpDesign(plan).route_counts.iloc[0]
    used = sum(count * sum(ports) for count, ports in zip(fabric.switches_by_tier, fabric.interfaces_used, strict=True))
    there = sum(count * model.ports for count, model in zip(fabric.switches_by_tier, fabric.models, strict=True))
    return {
        "gpus": fabric.gpus,
        "design": rails_name(fabric),
        "tiers": fabric.tiers,
        **switches,
        "links": sum(fabric.links_by_tier),
        **costs,
        "gpus_lost": int(leaf["gpus_lost"]),
        "servers_touched": fabric.servers,
        "servers_touched_per_year": fabric.servers * leaf["events_per_year"],
        "nics_lost_per_year": losses["NIC"]["gpus_lost_per_year"].sum(),
        "gpus_cut_off_per_year": losses["server"]["gpus_lost_per_year"].sum(),
        "bandwidth_lost": losses["bandwidth"]["lost_gpu_hours_per_year"].sum() / HOURS_OF_A_YEAR,
        "paths_same_rail": _paths(fabric, "other segment") or _paths(fabric, "same segment"),
        "paths_other_pod": _paths(fabric, "other pod"),
        "nic_subnets": int(use["networks"].iloc[0]),
        "addresses": int(use["addresses"].sum()),
        "share_of_addresses_used": use["used"].sum() / use["addresses"].sum(),
        "routes_of_subnets": int(routes["subnets_without_summaries"]),
        "routes_with_summaries": int(routes["subnets_with_summaries"]),
        "loopback_routes": int(routes["loopbacks"]),
        "share_of_ports_used": used / there,
    }


def _paths(fabric: SegmentFabric, place: str) -> int:
    """Shortest paths between NICs of a rail there, 0 for none."""
    table = path_diversity(fabric)
    found = table.loc[(table["rail"] == "same") & (table["place"] == place), "paths"]
    return int(found.iloc[0]) if len(found) else 0
