"""CapEx of a segment fabric from the catalog, part by part, and designs held beside each other by counting."""

import math
from collections.abc import Mapping

import pandas as pd

from railcore.facts import catalog
from railcore.facts.arguments import checked
from railcore.facts.checks import at_least, one_of
from railcore.facts.units import Gbps
from railcore.network.addressing.cables import CABLE_KINDS, link_medium, ports_at_ends
from railcore.network.addressing.resilience import failure_domains
from railcore.network.addressing.routing import ROLES
from railcore.network.addressing.subnets import AddressPlan
from railcore.network.topology.segments import SegmentFabric

COUNTED = ("gpus", "gpu_Gbps", "oversubscription", "nic_switches", "reach")  # in which comparable designs are equal


@checked
def design_cost(
    design: SegmentFabric | AddressPlan,
    lengths_m: Mapping = {},
    prices: Mapping = {},
    nic: str = "",
) -> pd.DataFrame:
    """What the parts of a design cost: switches, transceivers or cables of every kind of link, NICs.

    Parameters
    ----------
    design
        A fabric, or an address plan, which adds the peer links of its MLAG pairs.
    lengths_m
        Length of the links of some kinds [m], as in `cabling_table`: the cheapest medium that reaches; without one the
        cheapest optics.
    prices
        Price of parts by name [USD], before the catalog's: of a switch model that it lacks, or a quote of yours.
    nic
        Catalog NIC, by default the smallest that has the NIC's bandwidth.

    Returns
    -------
    Columns part (switches, links, NICs), where, item, count, unit_usd, cost_usd, and low_usd and high_usd of the cost,
    where prices have bounds.

    Raises
    ------
    ValueError
        A part without a price, or a link that no medium reaches.
    """
    peers, fabric = (0, design) if isinstance(design, SegmentFabric) else (design.peer_links, design.fabric)
    for kind in lengths_m:
        one_of("lengths_m", kind, CABLE_KINDS)
    rows: list[tuple] = []
    for role, model, count in zip(ROLES, fabric.models, fabric.switches_by_tier, strict=False):
        rows.append(("switches", role, model.name, count, *_price("switches", model.name, prices)))
    for kind, links in _links(fabric, peers).items():
        medium = link_medium(fabric, kind, lengths_m.get(kind))
        shared = ports_at_ends(fabric, kind)
        for end, (item, ports, side) in enumerate(medium.ends):
            end = end if len(medium.ends) > 1 else int(shared[1] > shared[0])  # a cable splits at the end that shares
            count = side * (_modules(fabric, kind, end) if ports > 1 else links)
            rows.append(("links", kind, item, count, *_price("transceivers", item, prices)))
    item, each = _nic(fabric, nic)
    rows.append(("NICs", "servers", item, fabric.gpus * each, *_price("nics", item, prices)))
    table = pd.DataFrame(rows, columns="part where item count unit_usd low high".split())
    table = table.groupby(["part", "where", "item", "unit_usd", "low", "high"], sort=False, as_index=False)[
        "count"
    ].sum()
    for name, unit in (("cost_usd", "unit_usd"), ("low_usd", "low"), ("high_usd", "high")):
        table[name] = table["count"] * table[unit]
    return table[["part", "where", "item", "count", "unit_usd", "cost_usd", "low_usd", "high_usd"]]


def _links(fabric: SegmentFabric, peers: int) -> dict[str, int]:
    """Links of each kind that the fabric has."""
    counts = [*fabric.links_by_tier, 0, 0][:3]
    every = dict(zip(CABLE_KINDS, [*counts, fabric.switches_by_tier[0] // 2 * peers], strict=True))
    return {kind: links for kind, links in every.items() if links}


def _modules(fabric: SegmentFabric, kind: str, end: int) -> int:
    """Interfaces in use at one end of a kind of link (0 lower, 1 upper), a module or splitter cable each."""
    tier = {"host": 0, "spine": 1, "super-spine": 2}[kind]
    if kind == "host" or end == 1:
        return fabric.interfaces_used[tier][0] * fabric.switches_by_tier[tier]
    return fabric.interfaces_used[tier - 1][1] * fabric.switches_by_tier[tier - 1]


def _price(family: str, name: str, prices: Mapping) -> tuple[float, float, float]:
    """Price, low and high [USD]. Raises ValueError where neither the mapping nor the catalog has one."""
    if name in prices:
        return (float(at_least(f"prices of {name}", prices[name])),) * 3
    if name not in catalog.names(family) or "price" not in catalog.item(family, name):
        raise ValueError(
            f"{name!r} of {family} has no price: give prices={{{name!r}: 30000}} with yours in USD, or a row price in "
            f"{family}.csv of your catalog"
        )
    row = catalog.item(family, name).row("price")
    return row.value, (row.value if row.low is None else row.low), (row.value if row.high is None else row.high)


def _nic(fabric: SegmentFabric, name: str) -> tuple[str, int]:
    """The NIC and how many of it a GPU takes, by default the smallest of the catalog that has the bandwidth."""
    if name:
        return name, math.ceil(fabric.nic_Bps / catalog.item("nics", name)["bandwidth"] - 1e-9)
    speeds = {each: catalog.item("nics", each)["bandwidth"] for each in catalog.names("nics")}
    fitting = [each for each in speeds if speeds[each] >= fabric.nic_Bps * (1 - 1e-9)]
    if fitting:
        return min(fitting, key=lambda each: speeds[each]), 1
    largest = max(speeds, key=lambda each: speeds[each])
    return largest, math.ceil(fabric.nic_Bps / speeds[largest] - 1e-9)


@checked
def compare_designs(
    designs: Mapping,
    cost: bool = True,
    lengths_m: Mapping = {},
    prices: Mapping = {},
) -> pd.DataFrame:
    """Designs beside each other, and whether each is comparable to the first, by counting.

    Parameters
    ----------
    designs
        SegmentFabric or AddressPlan by name, at least one.
    cost
        Whether CapEx is listed too, of `design_cost`.
    lengths_m, prices
        As of `design_cost`.

    Returns
    -------
    Columns design; what comparable designs have in common: gpus, gpu_Gbps (NIC bandwidth of a GPU, one direction),
    oversubscription (of the longest way, the worst product of its tiers), nic_switches (that a NIC is on), reach (all
    GPUs, or those of the same rail, over the network); differs_in (of these, from the first), comparable; what it
    takes: switches, links, gpus_lost (by one rail switch), gpus_touched, cost_usd, low_usd, high_usd, usd_per_gpu.

    Raises
    ------
    ValueError
        No design, or one that is neither.
    """
    if not designs or not all(isinstance(design, SegmentFabric | AddressPlan) for design in designs.values()):
        raise ValueError(f"designs is {list(designs)}: give a SegmentFabric or AddressPlan by name, at least one")
    rows: list[dict] = []
    for name, design in designs.items():
        fabric = design if isinstance(design, SegmentFabric) else design.fabric
        row = {"design": name, **_counted(fabric)}
        first = rows[0] if rows else row
        differs = [key for key in COUNTED if row[key] != first[key]]
        worst = failure_domains(fabric).iloc[0]
        row |= {"differs_in": ", ".join(differs), "comparable": not differs}
        row |= {"switches": sum(fabric.switches_by_tier), "links": sum(fabric.links_by_tier)}
        row |= {"gpus_lost": int(worst["gpus_lost"]), "gpus_touched": int(worst["gpus_touched"])}
        if cost:
            table = design_cost(design, lengths_m, prices)
            row |= {column: float(table[column].sum()) for column in ("cost_usd", "low_usd", "high_usd")}
            row["usd_per_gpu"] = row["cost_usd"] / fabric.gpus
        rows.append(row)
    return pd.DataFrame(rows)


def _counted(fabric: SegmentFabric) -> dict:
    """What designs must have in common to be comparable."""
    ratio, worst = 1.0, 1.0
    for each in fabric.oversubscription:
        ratio *= each
        worst = max(worst, ratio)
    alone = fabric.rails == 1 or (fabric.routed and (bool(fabric.spines) or fabric.rails_per_switch == fabric.rails))
    values = fabric.gpus, round(fabric.nic_Bps / Gbps, 6), round(worst, 9), fabric.homing
    return dict(zip(COUNTED, [*values, "all GPUs" if alone else "same rail"], strict=True))
