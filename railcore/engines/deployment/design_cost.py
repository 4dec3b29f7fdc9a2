"""CapEx of a segment fabric from the catalog, part by part, and designs held beside each other by counting."""

from collections.abc import Mapping

import pandas as pd

from railcore.engines.deployment.part_counts import bill_of_parts, design_parts
from railcore.engines.deployment.resilience import failure_domains
from railcore.engines.deployment.segments import SegmentFabric
from railcore.engines.deployment.subnets import AddressPlan
from railcore.facts.arguments import checked
from railcore.facts.units import Gbps
from railcore.network.price_books import ItemBook

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
        A fabric, or an address plan, which has the servers that are there and the peer links of its MLAG pairs.
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
    return cost_of_parts(design_parts(design, lengths_m, nic), prices)


def cost_of_parts(parts: pd.DataFrame, prices: Mapping = {}) -> pd.DataFrame:
    """What the parts that `design_parts` lists cost, as of `design_cost`."""
    books = {end: ItemBook(end=end, given=prices) for end in ("value", "low", "high")}
    table, bill = parts[["part", "where", "item", "count"]].copy(), bill_of_parts(parts)
    table["unit_usd"] = [books["value"].number(line) for line in bill]
    for name, book in zip(("cost_usd", "low_usd", "high_usd"), books.values(), strict=True):
        table[name] = [float(book.of(line)) for line in bill]
    return table.groupby(["part", "where", "item", "unit_usd"], sort=False, as_index=False).sum()[
        ["part", "where", "item", "count", "unit_usd", "cost_usd", "low_usd", "high_usd"]
    ]


@checked
def compare_designs(
    designs: Mapping,
    cost: bool = True,
    lengths_m: Mapping = {},
) -> pd.DataFrame:
    """Designs beside each other, and whether each is comparable to the first, by counting.

    Parameters
    ----------
    designs
        SegmentFabric or AddressPlan by name, at least one.
    cost
        Whether CapEx is listed too, of `design_cost`.
    lengths_m
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
        gpus = fabric.gpus if design is fabric else design.gpus
        row = {"design": name, **_counted(fabric, gpus)}
        first = rows[0] if rows else row
        differs = [key for key in COUNTED if row[key] != first[key]]
        worst = failure_domains(fabric).iloc[0]
        row |= {"differs_in": ", ".join(differs), "comparable": not differs}
        row |= {"switches": sum(fabric.switches_by_tier), "links": sum(fabric.links_by_tier)}
        row |= {"gpus_lost": int(worst["gpus_lost"]), "gpus_touched": int(worst["gpus_touched"])}
        if cost:
            table = design_cost(design, lengths_m)
            row |= {column: float(table[column].sum()) for column in ("cost_usd", "low_usd", "high_usd")}
            row["usd_per_gpu"] = row["cost_usd"] / gpus
        rows.append(row)
    return pd.DataFrame(rows)


def _counted(fabric: SegmentFabric, gpus: int) -> dict:
    """What designs must have in common to be comparable."""
    ratio, worst = 1.0, 1.0
    for each in fabric.oversubscription:
        ratio *= each
        worst = max(worst, ratio)
    alone = fabric.rails == 1 or (fabric.routed and (bool(fabric.spines) or fabric.rails_per_switch == fabric.rails))
    values = gpus, round(fabric.nic_Bps / Gbps, 6), round(worst, 9), fabric.homing
    return dict(zip(COUNTED, [*values, "all GPUs" if alone else "same rail"], strict=True))
