"""Networks of rails and planes side by side: their parts, the combinations worth a mark, and the blocks of tiers."""

from collections.abc import Container, Mapping, Sequence

import numpy as np
import pandas as pd

from railcore.network.cost import PriceBook
from railcore.network.scale_out.designs import COUNTS, chip_modes, chip_radix, fewest_rails, rail_plane_networks

Shapes = Mapping[str, tuple[int, int]]
COST_PARTS = {"chips_usd": "switch chips", "links_usd": "switch-to-switch links", "host_links_usd": "host links"}


def network_shapes(
    hb_domain_size: int, rails: int, planes: int, modes: Container[int] | None = None
) -> dict[str, tuple[int, int]]:
    """(rails, planes) of the networks compared, by name: fat tree, planes, a rail for each GPU of a rack, both, given.

    Parameters
    ----------
    hb_domain_size
        GPUs of an HB domain (scale-up or NVLink domain), a rack.
    rails, planes
        Of the last network.
    modes
        Planes that a chip has a mode for (`chip_modes`). Networks of one plane are left out where it has none.

    Returns
    -------
    Shapes by name.
    """
    k = hb_domain_size
    named = {"fat tree": (1, 1), f"{planes} planes": (1, planes), f"{k} rails": (k, 1)}
    named |= {f"{k} rails, {planes} planes": (k, planes), f"{rails} rails, {planes} planes": (rails, planes)}
    wanted = [planes] if modes is not None and 1 not in modes else [1, planes]
    return {name: shape for name, shape in named.items() if shape[1] in wanted}


def comparison(
    gpus: Sequence[int], named: Shapes, prices: PriceBook, powers: PriceBook, chip: str, nic_Bps: float
) -> pd.DataFrame:
    """`rail_plane_networks` of every shape over each number of GPUs, counted in each way.

    Parameters
    ----------
    gpus
        Numbers of GPUs.
    named
        (rails, planes) by name, as of `shapes`.
    prices, powers, chip, nic_Bps
        As in `rail_plane_networks`.

    Returns
    -------
    Columns network, count and those of `rail_plane_networks`.
    """
    rails, planes = np.array(list(named.values())).T
    tables = [
        rail_plane_networks(n, rails, planes, prices, powers, chip, nic_Bps, way).assign(network=list(named), count=way)
        for n in dict.fromkeys(gpus)
        for way in COUNTS
    ]
    table = pd.concat(tables, ignore_index=True)
    return table[["network", "count", *table.columns.drop(["network", "count"])]]


def side_by_side(table: pd.DataFrame) -> pd.DataFrame:
    """A `comparison` with a row for each network and number of GPUs, its counts beside each other.

    Columns network, gpus, tiers, leaf_gpus, boxes and power_w counted whole; chips, cables and cost_usd by every count.
    """
    keys = ["network", "gpus"]
    by_count = {count: rows.set_index(keys) for count, rows in table.groupby("count")}
    beside = by_count["whole"][["tiers", "leaf_gpus", "boxes", "power_w"]].copy()
    for column in ("chips", "cables", "cost_usd"):
        stem, unit = column.removesuffix("_usd"), "_usd" if column.endswith("_usd") else ""
        for count in COUNTS:
            beside[f"{stem}_{count}{unit}"] = by_count[count][column]
    return beside.reset_index()


def thinned_costs(
    gpus: int, rails: int, planes: int, ratio: float, prices: PriceBook, powers: PriceBook, chip: str, nic_Bps: float
) -> pd.DataFrame:
    """Costs by part of a fat tree, of rails and planes, and of the same with leaves oversubscribed, all with optics.

    The fat tree is left out where the chip has no port of the NIC's speed.

    Parameters
    ----------
    gpus, rails, planes
        GPUs of the datacenter, rails and planes.
    ratio
        Oversubscription of the leaves.
    prices, powers, chip, nic_Bps
        As in `rail_plane_networks`.

    Returns
    -------
    Columns links, network, part, cost_usd.

    Raises
    ------
    ValueError
        The chip has no mode for the planes.
    """
    drawn: dict[str, tuple[int, int, tuple[float, ...]]] = {
        "fat tree": (1, 1, ()),
        f"{rails} rails, {planes} planes": (rails, planes, ()),
        f"the same, leaves {ratio:g}:1": (rails, planes, (ratio,)),
    }
    if 1 not in chip_modes(chip, nic_Bps):
        del drawn["fat tree"]
    rows = [
        rail_plane_networks(gpus, r, p, prices, powers, chip, nic_Bps, below=below).assign(network=name)
        for name, (r, p, below) in drawn.items()
    ]
    costs = pd.concat(rows)[["network", *COST_PARTS]].rename(columns=COST_PARTS)
    return costs.melt("network", var_name="part", value_name="cost_usd").assign(links="all optics")


def network_combinations(
    gpus: int, rails: int, planes: Sequence[int], prices: PriceBook, powers: PriceBook, chip: str, nic_Bps: float
) -> pd.DataFrame:
    """`rail_plane_networks` of 1 to `rails` rails with each number of planes that the chip has a mode for, whole parts.

    Parameters
    ----------
    gpus, rails
        GPUs of the datacenter; most rails.
    planes
        Numbers of planes.
    prices, powers, chip, nic_Bps
        As in `rail_plane_networks`.

    Returns
    -------
    Columns of `rail_plane_networks`.
    """
    modes = chip_modes(chip, nic_Bps)
    r, p = np.meshgrid(np.arange(1, rails + 1), [count for count in planes if count in modes])
    return rail_plane_networks(gpus, r, p, prices, powers, chip, nic_Bps)


def choices(
    table: pd.DataFrame, hb_domain_size: int, rails: int, planes: int, chip: str, nic_Bps: float, tiers: int = 2
) -> dict[str, tuple[int, int]]:
    """(rails, planes) worth a mark: cheapest, cheapest that divides a rack, fewest rails.

    Parameters
    ----------
    table
        Of `network_combinations`. Shapes that it lacks are left out.
    hb_domain_size
        GPUs of a rack.
    rails, planes
        A shape given, which is marked too.
    chip, nic_Bps
        As in `rail_plane_networks`.
    tiers
        Of the fewest rails (`fewest_rails`), and of the fewest that divide a rack, both with these planes.

    Returns
    -------
    Shapes by name.
    """
    dividing = table[hb_domain_size % table["rails"] == 0]
    radix = chip_radix(chip, planes, nic_Bps)
    fewest = int(fewest_rails(table["gpus"].iloc[0], radix, planes, tiers))
    whole = next((r for r in range(fewest, hb_domain_size + 1) if hb_domain_size % r == 0), 0)
    first = (rows.sort_values(["cost_usd", "rails", "planes"]).iloc[0] for rows in (table, dividing))
    best, in_rack = ((int(row["rails"]), int(row["planes"])) for row in first)
    found = {
        "cheapest": best,
        "cheapest that divides a rack": in_rack,
        "given": (rails, planes),
        f"fewest rails with {tiers} tiers at {planes} planes": (fewest, planes),
        "fewest of these that divide a rack": (whole, planes),
    }
    shown = set(zip(table["rails"], table["planes"], strict=True))
    return {name: shape for name, shape in found.items() if shape in shown}


def tree_levels(
    gpus: int, hb_domain_size: int, named: Shapes, chip: str, nic_Bps: float
) -> dict[str, tuple[int, tuple[int, ...]]]:
    """GPUs of a rack on one rail, and endpoints below a switch of each tier but the top one, of each shape by name.

    e = K / R and (k P / 2)^i; shapes whose rails R do not divide the K GPUs of a rack are left out.

    Parameters
    ----------
    gpus, hb_domain_size
        GPUs of the datacenter and K of a rack.
    named
        (rails, planes) by name, as of `shapes`.
    chip, nic_Bps
        As in `rail_plane_networks`.

    Returns
    -------
    (e, endpoints by tier) by name.
    """
    found = {}
    for name, (rails, planes) in named.items():
        if hb_domain_size % rails == 0:
            radix = int(chip_radix(chip, planes, nic_Bps))
            tiers = next(t for t in range(1, 64) if fewest_rails(gpus, radix, planes, t) <= rails)
            blocks = tuple((radix * planes // 2) ** tier for tier in range(1, tiers))
            found[name] = hb_domain_size // rails, blocks
    return found
