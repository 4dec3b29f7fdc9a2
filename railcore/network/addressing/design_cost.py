"""CapEx of a segment fabric from the catalog, part by part, and designs held beside each other by counting."""

from collections.abc import Mapping

import pandas as pd

from railcore.facts import catalog
from railcore.facts.arguments import checked
from railcore.facts.checks import at_least
from railcore.facts.units import Gbps
from railcore.network.addressing.part_counts import design_parts
from railcore.network.addressing.resilience import failure_domains
from railcore.network.addressing.subnets import AddressPlan
from railcore.network.topology.segments import SegmentFabric

COUNTED = ("gpus", "gpu_Gbps", "oversubscription", "nic_switches", "reach")  # in which comparable designs are equal
_FAMILIES = {"switches": "switches", "links": "transceivers", "NICs": "nics"}  # of the catalog, by part


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
    table = parts.copy()
    items = zip(table["part"], table["item"], strict=True)
    table[["unit_usd", "low", "high"]] = [_price(_FAMILIES[part], item, prices) for part, item in items]
    by = ["part", "where", "item", "unit_usd", "low", "high"]
    table = table.groupby(by, sort=False, as_index=False)["count"].sum()
    for name, unit in (("cost_usd", "unit_usd"), ("low_usd", "low"), ("high_usd", "high")):
        table[name] = table["count"] * table[unit]
    return table[["part", "where", "item", "count", "unit_usd", "cost_usd", "low_usd", "high_usd"]]


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
        gpus = fabric.gpus if design is fabric else design.gpus
        row = {"design": name, **_counted(fabric, gpus)}
        first = rows[0] if rows else row
        differs = [key for key in COUNTED if row[key] != first[key]]
        worst = failure_domains(fabric).iloc[0]
        row |= {"differs_in": ", ".join(differs), "comparable": not differs}
        row |= {"switches": sum(fabric.switches_by_tier), "links": sum(fabric.links_by_tier)}
        row |= {"gpus_lost": int(worst["gpus_lost"]), "gpus_touched": int(worst["gpus_touched"])}
        if cost:
            table = design_cost(design, lengths_m, prices)
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
