"""Scale-out networks by rails and planes: the parts of every combination, what they cost, and the cheapest.

A datacenter's N GPUs are spread over R rails, each rail over P planes: R P networks of n = ceil(N / R) endpoints on
switch chips of K = k P ports, k being a chip's ports at the NIC's full speed. One rail and one plane is a fat tree.
Planes share front ports and wires: a box holds P chips, and P links of 1/P of the speed run in one cable.
"""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from railcore import catalog
from railcore.catalog.arguments import Count, Listed, checked
from railcore.catalog.checks import one_of, whole
from railcore.catalog.units import Gbps, number, significant
from railcore.network.bill import BETWEEN_SWITCHES, bill_counts, bill_total, include_text, merged_bill
from railcore.network.price_books import PriceBook, book_of_links, price_book, switch_book
from railcore.network.topology.clos import Parts, clos_reach, ideal_clos_parts, rail_parts

COUNT_METHODS = ("smooth", "rounded", "whole")


def chip_modes(chip: str, nic_Bps: float) -> dict[int, int]:
    """Ports of a catalog switch chip by number of planes; a port has the NIC's speed divided by the planes.

    nic_Bps [bytes/s, one direction]. Raises ValueError where the chip has no port of nic_Bps or of a whole part of it.
    """
    item = catalog.item("switches", chip)
    slower = {int(name[6:-1]) * Gbps: name for name in item if name.startswith("ports_")}  # such as ports_200g
    parameters = {item["port_bandwidth"]: "ports"} | slower
    planes = {speed: round(nic_Bps / speed) for speed in parameters}
    modes = {n: int(item[parameters[speed]]) for speed, n in planes.items() if math.isclose(n * speed, nic_Bps)}
    if not modes:
        offered = ", ".join(number(speed / Gbps) for speed in sorted(parameters))
        raise ValueError(
            f"nic_Bps is {nic_Bps!r} ({number(nic_Bps / Gbps)} Gbps), but {chip} has ports of {offered} Gbps: "
            "give a whole multiple of one of them, or another chip"
        )
    return dict(sorted(modes.items()))


@dataclass(frozen=True)
class Equipment:
    """What networks are built of: a switch chip of the catalog, and ports and transceivers of the NIC's speed.

    chip: of the catalog.
    nic_Bps: bandwidth of a GPU's NIC, one direction [bytes/s].
    prices, powers: books in USD and in W of peak power, scaled to that speed (`book_of_links`).

    Raises ValueError for a book whose link rate is not known.
    """

    chip: str
    nic_Bps: float
    prices: PriceBook
    powers: PriceBook

    def __post_init__(self) -> None:
        for family in ("prices", "powers"):
            object.__setattr__(self, family, book_of_links(family, getattr(self, family), self.nic_Bps))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Texts where a book is scaled from another link rate."""
        return (*self.prices.warnings, *self.powers.warnings)

    @property
    def modes(self) -> dict[int, int]:
        """`chip_modes` of the chip."""
        return chip_modes(self.chip, self.nic_Bps)

    @property
    def chip_ports(self) -> float:
        """Ports of the NIC's speed that the chip's capacity makes, a fraction perhaps."""
        return catalog.item("switches", self.chip)["capacity"] / self.nic_Bps

    def radix(self, planes: ArrayLike) -> NDArray[np.int64]:
        """Front ports of the chip at the NIC's full speed, k = ports of the mode / planes, for each number of planes.

        Raises ValueError for planes that the chip has no mode for.
        """
        wanted = np.asarray(planes)
        radix = {count: ports // count for count, ports in self.modes.items() if ports % count == 0}
        for count in np.unique(wanted):
            if count not in radix:
                raise ValueError(
                    f"planes is {count}, but with a NIC of {number(self.nic_Bps / Gbps)} Gbps {self.chip} has modes "
                    f"for {', '.join(map(str, radix))} planes: choose one of them, another chip or another NIC"
                )
        return np.vectorize(radix.__getitem__, otypes=[np.int64])(wanted)


def catalog_equipment(chip: str, nic_Bps: float, book: str, optic: str) -> Equipment:
    """Equipment at catalog prices and powers, those of another link rate scaled by the catalog's rule.

    Parameters
    ----------
    chip, nic_Bps
        As of `Equipment`.
    book
        Catalog prices of ports and transceivers.
    optic
        Catalog transceiver, for its power.

    Returns
    -------
    Equipment; a port draws its share of the chip's power.
    """
    return Equipment(chip, nic_Bps, price_book(book), switch_book("powers", chip, optic, nic_Bps))


def network_parts(
    gpus: ArrayLike,
    rails: ArrayLike,
    radix: ArrayLike,
    planes: ArrayLike,
    count: str = "whole",
    tier_oversubscription: tuple[float, ...] = (),
) -> Parts:
    """Chips and logical links of N GPUs spread evenly over R rails, counted in one of three ways; none for one GPU.

    GPU g of the datacenter is on rail g modulo R, so that R need not divide a rack.

    Parameters
    ----------
    gpus, rails, planes
        GPUs N, rails R and planes P; they broadcast.
    radix
        Ports k of a chip at the NIC's full speed.
    count
        smooth: (2 t - 1) N / k chips and N links a tier and plane, as fractions. rounded: chips rounded up in each tier
        of each network. whole: as wired with equal trunks and full bisection (`rail_parts`).
    tier_oversubscription
        Oversubscription by tier; counted whole only.

    Returns
    -------
    Parts of all rails and planes.

    Raises
    ------
    ValueError
        More rails than GPUs, or an unknown count.

    References
    ----------
    flops2024, Section 6.1.
    """
    n, r, k, p = np.broadcast_arrays(whole("gpus", gpus), whole("rails", rails), radix, whole("planes", planes))
    if np.any(r > n):
        raise ValueError(f"rails is {int(r[r > n].max())}, more than the {int(n[r > n].min())} GPUs: give fewer rails")
    if one_of("count", count, COUNT_METHODS) == "whole":
        return rail_parts(n, r, k, rails=r, planes=p, tier_oversubscription=tier_oversubscription)
    size, ports = -(-n // r), k * p
    tiers = np.where(size > 1, ideal_clos_parts(size, ports)[0], 0)
    tier = np.arange(1, tiers.max(initial=1) + 1).reshape(-1, *[1] * tiers.ndim)
    facing_down = np.where(tier == tiers, ports, ports // 2)
    leaves = n / facing_down if count == "smooth" else np.ceil(size / facing_down) * r
    used = tier <= tiers
    chips: NDArray = np.where(used, leaves * p, 0)
    links: NDArray = np.where(used, n * p, 0)
    return Parts(tiers, chips, links, ports)


def rail_plane_networks(
    gpus: ArrayLike,
    rails: ArrayLike,
    planes: ArrayLike,
    equipment: Equipment,
    count: str = "whole",
    tier_oversubscription: tuple[float, ...] = (),
) -> pd.DataFrame:
    """Parts, cost and power of a network for each element of the broadcast GPUs, rails and planes.

    Parameters
    ----------
    gpus, rails, planes
        GPUs, rails and planes; they broadcast.
    equipment
        What they are built of.
    count, tier_oversubscription
        As in `network_parts`.

    Returns
    -------
    Columns gpus, rails, planes, tiers, rail_gpus (GPUs that a GPU reaches without forwarding, itself included),
    leaf_gpus (GPUs under one tier-1 switch, the same under those of all planes), chips, boxes, switch_links (logical,
    between switches), cables (of them), transceivers (modules on them), chips_usd, links_usd, host_links_usd (optics at
    both ends of the links to GPUs); of BETWEEN_SWITCHES, without these: cost_usd = chips_usd + links_usd, power_w at
    listed maxima and typical_power_w where the book has it; price_book (whose prices they are), includes.
    """
    n, r, p = (array.ravel() for array in np.broadcast_arrays(gpus, rails, planes))
    parts = network_parts(n, r, equipment.radix(p), p, count, tier_oversubscription)
    # at full speed: P links of the planes run in one cable, P ports of the chips in one front port
    cables_by_tier: NDArray = parts.links_by_tier / p
    bill = merged_bill(Parts(parts.tiers, parts.switches_by_tier, cables_by_tier, parts.radix // p).bill())
    size, counts = -(-n // r), bill_counts(bill, equipment.prices, ("switch links",))
    cables = counts["link_ends"] / 2
    filled = np.ceil(size * r * p / np.maximum(parts.switches_by_tier[0], 1)).astype(np.int64)
    facing_down = np.where(parts.tiers > 1, parts.radix // 2, size)
    chips_usd, links_usd, host_links_usd = (
        bill_total(bill, equipment.prices, scopes)
        for scopes in (("switches",), ("switch links",), ("host links", "host optics"))
    )
    powers = {"power_w": equipment.powers, "typical_power_w": equipment.powers.typical}
    drawn = {name: bill_total(bill, book, BETWEEN_SWITCHES) for name, book in powers.items() if book is not None}
    return pd.DataFrame(
        {
            "gpus": n,
            "rails": r,
            "planes": p,
            "tiers": parts.tiers,
            "rail_gpus": size,
            "leaf_gpus": filled if count == "whole" else facing_down,
            "chips": parts.switches,
            "boxes": parts.switches / p,
            "switch_links": cables * p,
            "cables": cables,
            "transceivers": counts["transceivers"],
            "chips_usd": chips_usd,
            "links_usd": links_usd,
            "host_links_usd": host_links_usd,
            "cost_usd": chips_usd + links_usd,
            **drawn,
            "price_book": equipment.prices.label(),
            "includes": include_text(BETWEEN_SWITCHES),
        }
    )


def fewest_rails(gpus: ArrayLike, radix: ArrayLike, planes: ArrayLike, tiers: ArrayLike) -> NDArray[np.int64]:
    """Fewest rails whose networks need no more than so many tiers: R = ceil(N / (2 (k P / 2)^t)).

    Parameters
    ----------
    gpus, planes, tiers
        GPUs N, planes P and tiers t.
    radix
        Ports k of a chip at the NIC's full speed.

    Returns
    -------
    Rails R.

    References
    ----------
    flops2024, Section 6.1.
    """
    return -(-np.asarray(gpus) // clos_reach(np.asarray(radix) * planes, tiers))


def rack_rails(rails: ArrayLike, hb_domain_size: int) -> pd.DataFrame:
    """How R rails fit racks of K GPUs that are one HB domain (scale-up or NVLink domain) each.

    Columns rails; divides_a_rack: whether R divides K (yes, no), so that each rank of a rack keeps one rail;
    rails_of_a_rack = min(K, R); racks_to_the_next_equal_rank = R / gcd(R, K): numbered plainly (GPU g on rail g modulo
    R), GPUs of equal rank share a rail only in racks that far apart; rails_any_two_racks_share = max(0, 2 min(K, R) -
    R) at least; groups_of_racks_on_the_same_rails, R / gcd(R, K) where each rack leaves out R - K rails.
    """
    r, k = np.atleast_1d(rails), hb_domain_size
    of_rack, period = np.minimum(r, k), r // np.gcd(r, k)
    return pd.DataFrame(
        {
            "rails": r,
            "divides_a_rack": np.where(k % r, "no", "yes"),
            "rails_of_a_rack": of_rack,
            "racks_to_the_next_equal_rank": period,
            "rails_any_two_racks_share": np.maximum(0, 2 * of_rack - r),
            "groups_of_racks_on_the_same_rails": np.where(r > k, period, 1),
        }
    )


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


def compare_shapes(gpus: Sequence[int], shapes: Shapes, equipment: Equipment) -> pd.DataFrame:
    """`rail_plane_networks` of every shape over each number of GPUs, counted in each way.

    shapes: (rails, planes) by name, as of `network_shapes`. Columns network, count and those of `rail_plane_networks`.
    """
    rails, planes = np.array(list(shapes.values())).T
    tables = [
        rail_plane_networks(n, rails, planes, equipment, way).assign(network=list(shapes), count=way)
        for n in dict.fromkeys(gpus)
        for way in COUNT_METHODS
    ]
    table = pd.concat(tables, ignore_index=True)
    return table[["network", "count", *table.columns.drop(["network", "count"])]]


def counts_side_by_side(table: pd.DataFrame) -> pd.DataFrame:
    """`compare_shapes` with one row for each network and number of GPUs, and a column for each way to count.

    Columns network, gpus, tiers, leaf_gpus, boxes and power_w counted whole; chips, cables and cost_usd by every count;
    price_book.
    """
    keys = ["network", "gpus"]
    by_count = {count: rows.set_index(keys) for count, rows in table.groupby("count")}
    beside = by_count["whole"][["tiers", "leaf_gpus", "boxes", "power_w"]].copy()
    for column, name in (("chips", "chips_{}"), ("cables", "cables_{}"), ("cost_usd", "cost_{}_usd")):
        for count in COUNT_METHODS:
            beside[name.format(count)] = by_count[count][column]
    beside["price_book"] = by_count["whole"]["price_book"]
    return beside.reset_index()


def cost_with_optics(table: pd.DataFrame) -> pd.DataFrame:
    """Cost by part of networks of `rail_plane_networks` with a column network, with optics at the ends of all links.

    Columns links, network, part, cost_usd, price_book.
    """
    named = ["network", "price_book"]
    costs = table.set_index(named)[list(COST_PARTS)].rename(columns=COST_PARTS).rename_axis(columns="part")
    costs = costs.stack().rename("cost_usd").reset_index().assign(links="all optics")
    return costs[["links", "network", "part", "cost_usd", "price_book"]]


def cost_by_part(table: pd.DataFrame, link_costs: pd.Series) -> pd.DataFrame:
    """Cost of each network's switch chips, switch-to-switch links and host links: all optics, or cheapest media.

    table: `rail_plane_networks` with a column network; link_costs: `cheapest_link_costs` of the same networks.
    Columns of `cost_with_optics`.
    """
    optics, host = cost_with_optics(table), link_costs.xs(1, level=1)
    cheapest = {"host links": host, "switch-to-switch links": link_costs.groupby(level=0).sum() - host}
    rows = zip(optics["network"], optics["part"], optics["cost_usd"], strict=True)
    costs = [cheapest[part][name] if part in cheapest else cost for name, part, cost in rows]
    return pd.concat([optics, optics.assign(links="cheapest medium that reaches", cost_usd=costs)], ignore_index=True)


def cost_over_budget(split: pd.DataFrame, budget_usd: float, chip_usd: tuple[float, float, float]) -> pd.DataFrame:
    """Costs of `cost_by_part` divided by a budget, with the price of a switch chip at its low, its value and its high.

    chip_usd: low, value (that of the split) and high. Columns links, network, counted (links between switches, or host
    links too), cost_divided_by_budget, cost_divided_by_budget_at_low_chip_price,
    cost_divided_by_budget_at_high_chip_price, highest_chip_price_within_budget_usd (NaN where links alone are over it).
    """
    rows = []
    for (way, name), part in split.groupby(["links", "network"], sort=False):
        cost = part.set_index("part")["cost_usd"]
        chips, between = cost["switch chips"] / chip_usd[1], cost["switch-to-switch links"]
        for counted, links in (("between switches", between), ("with host links", between + cost["host links"])):
            shares = ((chips * price + links) / budget_usd for price in chip_usd)
            rows.append((way, name, counted, *shares, (budget_usd - links) / chips if links <= budget_usd else np.nan))
    ratios = [f"cost_divided_by_budget{end}" for end in ("_at_low_chip_price", "", "_at_high_chip_price")]
    columns = ["links", "network", "counted", *ratios, "highest_chip_price_within_budget_usd"]
    return pd.DataFrame(rows, columns=columns)


def oversubscribed_leaf_costs(gpus: int, rails: int, planes: int, ratio: float, equipment: Equipment) -> pd.DataFrame:
    """Costs by part of a fat tree, of rails and planes, and of the same with leaves oversubscribed, all with optics.

    The fat tree is left out where the chip has no port of the NIC's speed.

    Parameters
    ----------
    gpus, rails, planes
        GPUs of the datacenter, rails and planes.
    ratio
        Oversubscription of the leaves.
    equipment
        What they are built of.

    Returns
    -------
    Columns of `cost_with_optics`.

    Raises
    ------
    ValueError
        The chip has no mode for the planes.
    """
    drawn: dict[str, tuple[int, int, tuple[float, ...]]] = {"fat tree": (1, 1, ())} if 1 in equipment.modes else {}
    drawn[f"{rails} rails, {planes} planes"] = (rails, planes, ())
    drawn[f"the same, leaves {ratio:g}:1"] = (rails, planes, (ratio,))
    rows = [
        rail_plane_networks(gpus, r, p, equipment, tier_oversubscription=tiers).assign(network=name)
        for name, (r, p, tiers) in drawn.items()
    ]
    return cost_with_optics(pd.concat(rows))


@checked
def network_combinations(gpus: Count, rails: Listed, planes: Sequence[int], equipment: Equipment) -> pd.DataFrame:
    """`rail_plane_networks` of 1 to `rails` rails with each number of planes that the chip has a mode for, whole parts.

    Parameters
    ----------
    gpus, rails
        GPUs of the datacenter; most rails.
    planes
        Numbers of planes.
    equipment
        What they are built of.

    Returns
    -------
    Columns of `rail_plane_networks`.
    """
    r, p = np.meshgrid(np.arange(1, rails + 1), [count for count in planes if count in equipment.modes])
    return rail_plane_networks(gpus, r, p, equipment)


def notable_shapes(
    table: pd.DataFrame,
    hb_domain_size: int,
    rails: int,
    planes: int,
    equipment: Equipment,
    label: str = "asked for",
) -> dict[str, tuple[int, int]]:
    """(rails, planes) to mark on a map: cheapest, cheapest that divides a rack, fewest rails with two tiers.

    Parameters
    ----------
    table
        Of `network_combinations`. Shapes that it lacks are left out.
    hb_domain_size
        GPUs of a rack.
    rails, planes
        A shape given, which is marked too.
    equipment
        What the networks are built of.
    label
        Name of the shape given.

    Returns
    -------
    Shapes by name.
    """
    fewest = int(fewest_rails(table["gpus"].iloc[0], equipment.radix(planes), planes, 2))
    dividing = [r for r in range(1, hb_domain_size + 1) if hb_domain_size % r == 0]
    by_cost = table.assign(cost_usd=table["cost_usd"].map(significant)).sort_values(["cost_usd", "rails", "planes"])
    cheapest = list(by_cost[["rails", "planes"]].itertuples(index=False, name=None))
    shapes = {
        "cheapest": cheapest[0],
        "cheapest that divides a rack": next(shape for shape in cheapest if shape[0] in dividing),
        label: (rails, planes),
        f"fewest rails with 2 tiers at {planes} planes": (fewest, planes),
        "fewest rails with 2 tiers that divide a rack": (next((r for r in dividing if r >= fewest), 0), planes),
    }
    return {name: shape for name, shape in shapes.items() if shape in cheapest}


def block_sizes(
    gpus: int, hb_domain_size: int, shapes: Shapes, equipment: Equipment
) -> dict[str, tuple[int, tuple[int, ...]]]:
    """GPUs of a rack on one rail, and endpoints below a switch of each tier but the top one, by name of the shape.

    e = K / R and (k P / 2)^i; shapes whose rails R do not divide the K GPUs of a rack are left out.

    Parameters
    ----------
    gpus, hb_domain_size
        GPUs of the datacenter and K of a rack.
    shapes
        (rails, planes) by name, as of `network_shapes`.
    equipment
        What the networks are built of.

    Returns
    -------
    (e, endpoints by tier) by name.
    """
    sizes = {}
    for name, (rails, planes) in shapes.items():
        if hb_domain_size % rails == 0:
            radix = int(equipment.radix(planes))
            tiers = next(t for t in range(1, 64) if fewest_rails(gpus, radix, planes, t) <= rails)
            blocks = tuple((radix * planes // 2) ** tier for tier in range(1, tiers))
            sizes[name] = hb_domain_size // rails, blocks
    return sizes
