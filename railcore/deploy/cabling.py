"""Copper against optics: lengths of a network's links on a floor of racks, and which medium reaches that far.

Racks stand in rows. Rows stand behind each other in columns, and columns beside each other in a nearly square hall.
Racks are numbered along the rows, up one column and down the next. All switches of a block stand at the rack nearest to
the block's centre, those of the top tier in the middle of the hall; they take no room. Lengths are thus about the
shortest possible, and the share of copper about the largest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from railcore import catalog
from railcore.catalog.units import Gbps, number

BlockSizes = Mapping[str, tuple[int, Sequence[int]]]
COPPER = ("DAC", "ACC", "AEC")


@dataclass(frozen=True)
class Floor:
    """A hall of racks; lengths in metres.

    rack_pitch_m: from rack to rack along a row.
    row_pitch_m: from row to row.
    racks_per_row: racks of a full row.
    cross_aisle_m: between columns of rows.
    drop_m: from a switch or NIC up to the tray.
    in_rack_m: a cable within a rack.
    slack: added share of length.
    """

    rack_pitch_m: float
    row_pitch_m: float
    racks_per_row: int
    cross_aisle_m: float
    drop_m: float
    in_rack_m: float
    slack: float

    def rack_positions(self, racks: int) -> NDArray[np.float64]:
        """Positions of racks in the order of their numbers [racks, 2], metres along and across the rows."""
        width, rows = self.racks_per_row * self.rack_pitch_m + self.cross_aisle_m, -(-racks // self.racks_per_row)
        columns = max(1, round(np.sqrt(rows * self.row_pitch_m / width)))
        deep, rack = -(-rows // columns), np.arange(racks)
        row = rack // self.racks_per_row
        column, down = row // deep, row % deep
        across = np.where(column % 2, deep - 1 - down, down)
        along = column * width + rack % self.racks_per_row * self.rack_pitch_m
        return np.column_stack([along, across * self.row_pitch_m])


def catalog_floor(name: str) -> Floor:
    """A floor of the catalog, such as "GPU hall". Raises UnknownName."""
    item = catalog.item("floor", name)
    lengths = {field.name: item[field.name[:-2]] for field in fields(Floor) if field.name.endswith("_m")}
    return Floor(**lengths, racks_per_row=round(item["racks_per_row"]), slack=item["cable_slack"])


def rail_link_lengths(
    floor: Floor, racks: int, rack_endpoints: int, blocks: Sequence[int]
) -> list[NDArray[np.float64]]:
    """Lengths of the links below tier 1, 2, ... of one rail, one for each endpoint and tier, sorted [m].

    Length = (|dx| + |dy| + 2 drops)(1 + slack), or in_rack_m within a rack.

    Parameters
    ----------
    floor, racks
        The hall and the racks in it.
    rack_endpoints
        Endpoints e of a rack on the rail.
    blocks
        Endpoints below a switch block of each tier but the top one, which stands in the middle of the hall.

    Returns
    -------
    Lengths of each tier.
    """
    at = floor.rack_positions(racks)
    endpoint = np.arange(racks * rack_endpoints)
    lower, lengths = endpoint // rack_endpoints, []
    for block in blocks:
        upper = _centres(at, lower, endpoint // block)
        a, b, links = _runs(lower, upper)
        lengths.append(_cable_lengths(floor, at[a], at[b], a == b, links))
        lower = upper
    centre = (at.min(axis=0) + at.max(axis=0)) / 2
    a, _, links = _runs(lower, lower)
    lengths.append(_cable_lengths(floor, at[a], centre, np.zeros(a.shape, bool), links))
    return lengths


def _runs(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Runs of neighbouring endpoints that share the rack below and above: both racks, and endpoints of each run."""
    changes = np.flatnonzero((np.diff(lower) != 0) | (np.diff(upper) != 0)) + 1
    starts = np.concatenate([[0], changes])
    return lower[starts], upper[starts], np.diff(np.append(starts, lower.size))


def _centres(at: np.ndarray, lower: np.ndarray, block: np.ndarray) -> np.ndarray:
    """Rack with the switches of each endpoint's block: the one nearest to the block's mean position."""
    rack, of_block, weight = _runs(lower, block)
    first = np.flatnonzero(np.diff(of_block, prepend=-1))
    mean = np.add.reduceat(at[rack] * weight[:, None], first) / np.add.reduceat(weight, first)[:, None]
    off = np.abs(at[rack] - mean[of_block]).sum(axis=1).round(6)  # of equally near racks the first one
    return rack[np.lexsort((off, of_block))[first]][block]


def _cable_lengths(
    floor: Floor, a: np.ndarray, b: np.ndarray, same_rack: np.ndarray, links: np.ndarray
) -> NDArray[np.float64]:
    """Sorted lengths of the links from each position a to its position b. links: number of each."""
    tray = (np.abs(a - b).sum(axis=1) + 2 * floor.drop_m) * (1 + floor.slack)
    lengths = np.where(same_rack, floor.in_rack_m, tray)
    order = np.argsort(lengths, kind="stable")
    return np.repeat(lengths[order], links[order])


def is_copper_item(item: str) -> bool:
    """Whether an item of the catalog's transceivers is a copper cable, by the last word of its name."""
    return catalog.item("transceivers", item).name.split()[-1] in COPPER


def link_media(nic_Bps: float, optic_price: float | None = None) -> pd.DataFrame:
    """Media of the catalog for links of the NIC's speed, shortest reach first.

    Columns item, side (items side by side), copper, reach_m, price_usd of a whole link with both ends. Of media with
    the same reach only the cheapest is listed. optic_price: of the optics of one end [USD], in place of the catalog's.
    Without a medium of the speed, a link is several of the fastest one that divides it. Raises ValueError where none
    does.
    """
    rows = []
    for name, count in _of_speed(nic_Bps).items():
        item, copper = catalog.item("transceivers", name), is_copper_item(name)
        items_usd = count * item["price"]
        price = items_usd if copper else 2 * (items_usd if optic_price is None else optic_price)
        rows.append((name, count, copper, item["reach"], price))
    table = pd.DataFrame(rows, columns="item side copper reach_m price_usd".split())
    return table.sort_values(["reach_m", "price_usd"]).drop_duplicates("reach_m", ignore_index=True)


def _of_speed(nic_Bps: float) -> dict[str, int]:
    """Catalog media of the fastest speed that divides the NIC's, with how many of them a NIC needs."""
    speeds = {name: catalog.item("transceivers", name)["bandwidth"] for name in catalog.names("transceivers")}
    counts = {name: round(nic_Bps / speed) for name, speed in speeds.items()}
    fitting = {name: n for name, n in counts.items() if n and np.isclose(n * speeds[name], nic_Bps)}
    if not fitting:
        raise ValueError(
            f"nic_Bps is {nic_Bps!r}: the catalog has no medium of {number(nic_Bps / Gbps)} Gbps or of a whole "
            "part of it, add one to its transceivers"
        )
    return {name: n for name, n in fitting.items() if n == min(fitting.values())}


def cheapest_link_costs(
    floor: Floor, racks: int, block_sizes: BlockSizes, cables: int, media: pd.DataFrame
) -> pd.Series:
    """Cost of the links of each network and tier, each of the cheapest medium that reaches [USD].

    Parameters
    ----------
    floor, racks
        The hall and the racks in it.
    block_sizes
        (rack_endpoints, blocks) of `rail_link_lengths`, by network.
    cables
        Of a tier, one a GPU.
    media
        Of `link_media`.

    Returns
    -------
    Costs by network and tier.

    Raises
    ------
    ValueError
        No medium reaches that far.
    """
    reach, prices = media["reach_m"].to_numpy(), media["price_usd"].to_numpy()
    cheapest = np.array([prices[row:].min() for row in range(len(prices))])
    costs: dict[tuple[str, int], float] = {}
    for name, (endpoints, blocks) in block_sizes.items():
        for tier, lengths in enumerate(rail_link_lengths(floor, racks, endpoints, blocks), start=1):
            if lengths[-1] > reach.max():
                raise ValueError(f"lengths up to {number(lengths[-1], 4)} m: no medium of the table reaches that far")
            costs[name, tier] = cables * float(cheapest[np.searchsorted(reach, lengths)].mean())
    return pd.Series(costs)
