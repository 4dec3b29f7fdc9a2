"""Parts times prices and powers: purchase, power, what rail-only saves, what redundancy adds, energy over years."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog, units
from railcore.facts.arguments import Quantity, checked, si
from railcore.facts.checks import at_least, share, whole
from railcore.facts.sensitivity import tornado_table
from railcore.network.topology.clos import Parts, rail_parts
from railcore.network.topology.rails import RailFabric, most_rails_per_switch


@dataclass(frozen=True)
class PriceBook:
    """Price [USD] or peak power [W] of one switch port, one transceiver, and one passive copper cable (DAC).

    Texts with a unit, such as "600 USD" or "25 W", are all of one dimension. Raises ValueError for what is below 0.
    """

    port: Quantity
    transceiver: Quantity
    dac: Quantity = 0.0
    made_by = "PriceBook(port=..., transceiver=...), price_book(name) or power_book(name)"

    def __post_init__(self) -> None:
        power = any(units.dimension_of(value) == "W" for value in vars(self).values())
        for name, value in vars(self).items():
            object.__setattr__(self, name, si(name, value, "25 W" if power else "600 USD"))
            at_least(name, getattr(self, name))

    def scaled(self, factor: float) -> "PriceBook":
        """The book for parts that cost or draw `factor` times as much."""
        return PriceBook(*(value * factor for value in vars(self).values()))


@checked
def price_book(name: str) -> PriceBook:
    """Prices of a book of the catalog [USD]. Raises UnknownName listing the nearest books."""
    return _book("prices", name, "price", "USD")


@checked
def power_book(name: str) -> PriceBook:
    """Peak powers of a book of the catalog [W]. Raises UnknownName listing the nearest books."""
    return _book("powers", name, "power", "W")


@checked
def book_rate(name: str) -> float:
    """Link rate that a price book's ports and transceivers are for, one direction [bytes/s]."""
    item = catalog.item("prices", name)
    if "bandwidth" not in item:
        raise ValueError(f"price book {name!r} has no row 'bandwidth': add the link rate of its parts, e.g. 400 Gbps")
    return item["bandwidth"]


def _book(family: str, name: str, what: str, unit: str) -> PriceBook:
    books = [book for book in catalog.names(family) if f"port_{what}" in catalog.item(family, book)]
    if name not in books:
        raise catalog.UnknownName(f"book of {family}", name, books)
    item = catalog.item(family, name)
    for row in item.rows:
        if row.parameter.endswith(f"_{what}") and units.unit(row.unit)[0] != unit:
            raise ValueError(f"{family} book {name!r}: {row.parameter} is in {row.unit}: give it in {unit}")
    return PriceBook(item[f"port_{what}"], item[f"transceiver_{what}"], item.get(f"dac_{what}", 0.0))


def book_rows(name: str) -> dict[str, catalog.Value]:
    """Catalog rows of a book's prices and powers, port_price to transceiver_power, with electricity price and PUE."""
    rows = {
        f"{part}_{what}": catalog.item(family, name).row(f"{part}_{what}")
        for family, what in (("prices", "price"), ("powers", "power"))
        for part in ("port", "transceiver")
    }
    return rows | {key: catalog.item("prices", "energy").row(key) for key in ("electricity_price", "pue")}


@checked
def network_total(parts: Parts, book: PriceBook, copper_tiers: int = 0) -> np.ndarray:
    """Price [USD] or peak power [W] of a network: C = P k N_SW + T N_TR + D N_DAC.

    Port P of all N_SW switches of radix k, transceiver T at both ends of an optical link, cable D. Links below tiers
    1 to `copper_tiers` are copper (1: host links), the rest optics. With several planes ports and links are slower:
    give a book for their speed, such as `book.scaled(1 / planes)`. Source: railonly2023, section 4.
    """
    whole("copper_tiers", copper_tiers, least=0)
    copper = parts.links_by_tier[:copper_tiers].sum(axis=0)
    return book.port * parts.ports + book.transceiver * 2 * (parts.links - copper) + book.dac * copper


def part_totals(parts: Parts, prices: PriceBook, powers: PriceBook) -> dict[str, np.ndarray]:
    """Columns tiers, switches, ports, links, transceivers, cost_usd, power_w of networks, an entry for each."""
    counts = {name: getattr(parts, name) for name in ("tiers", "switches", "ports", "links", "transceivers")}
    return counts | {"cost_usd": network_total(parts, prices), "power_w": network_total(parts, powers)}


@checked
def parts_breakdown(parts: Parts, prices: PriceBook, powers: PriceBook, copper_tiers: int = 0) -> pd.DataFrame:
    """Cost and power of one network by part and tier.

    Parameters
    ----------
    parts
        Parts of one network.
    prices, powers
        Books of prices [USD] and of peak powers [W].
    copper_tiers
        Links below tiers 1 to this one are copper, as in `network_total`.

    Returns
    -------
    Columns part, tier, count, cost_usd, power_w; their sums are `network_total`.
    """
    rows = []
    for tier, (switches, links) in enumerate(zip(parts.switches_by_tier, parts.links_by_tier, strict=True), start=1):
        rows.append(("switch ports", tier, int(switches * parts.radix), prices.port, powers.port))
        if tier <= copper_tiers:
            rows.append(("copper cables", tier, int(links), prices.dac, powers.dac))
        else:
            rows.append(("transceivers", tier, 2 * int(links), prices.transceiver, powers.transceiver))
    table = pd.DataFrame(rows, columns=["part", "tier", "count", "cost_usd", "power_w"])
    return table.assign(cost_usd=table["cost_usd"] * table["count"], power_w=table["power_w"] * table["count"])


RAIL_NETWORKS = ("rail_optimized", "rail_only")


def share_saved(less: ArrayLike, more: ArrayLike) -> np.ndarray:
    """Share saved, 1 - less / more; 0 where both are 0."""
    less, more = np.asarray(less, dtype=float), np.asarray(more, dtype=float)
    return np.where(more > 0, 1 - less / np.where(more > 0, more, 1), 0.0)


@checked
def compare_rail_networks(
    gpus: ArrayLike,
    hb_domain_size: ArrayLike,
    radix: ArrayLike,
    prices: PriceBook,
    powers: PriceBook,
    share_switches: bool = True,
) -> pd.DataFrame:
    """Rail-only beside rail-optimized, a row for each element of the broadcast arguments.

    Parameters
    ----------
    gpus, hb_domain_size
        GPUs of the cluster and of an HB domain (scale-up or NVLink domain).
    radix
        Ports of a switch.
    prices, powers
        Books of prices [USD] and of peak powers [W].
    share_switches
        Whether rails that are less than a switch share one in rail-only.

    Returns
    -------
    Columns gpus, hb_domain_size, radix; those of `part_totals` for each network (ending in _rail_optimized and
    _rail_only); switch_ratio (rail-only over rail-optimized), cost_saving, power_saving.
    """
    n, k, ports = (array.ravel() for array in np.broadcast_arrays(gpus, hb_domain_size, radix))
    table = {"gpus": n, "hb_domain_size": k, "radix": ports}
    for name, parts in (
        ("rail_optimized", rail_parts(n, k, ports, 1)),
        ("rail_only", rail_parts(n, k, ports, rails_per_switch=None if share_switches else 1)),
    ):
        table |= {f"{what}_{name}": values for what, values in part_totals(parts, prices, powers).items()}
    table["switch_ratio"] = table["switches_rail_only"] / table["switches_rail_optimized"]
    for what, unit in (("cost", "usd"), ("power", "w")):
        table[f"{what}_saving"] = share_saved(table[f"{what}_{unit}_rail_only"], table[f"{what}_{unit}_rail_optimized"])
    return pd.DataFrame(table)


def _cluster_layers(oversubscription: float) -> dict[str, float]:
    """Oversubscription of the layer over the rails by network: rail-optimized, with this layer, rail-only."""
    layers = sorted({1.0, float(oversubscription), np.inf})
    return {{1.0: "rail-optimized", np.inf: "rail-only"}.get(s, f"rails + layer {s:g}:1"): s for s in layers}


@checked
def cluster_networks(
    gpus: int, hb_domain_size: int, radix: int, oversubscription: float, prices: PriceBook, powers: PriceBook
) -> pd.DataFrame:
    """One cluster's rail-optimized network, its rails under a layer with this oversubscription, and rail-only.

    Parameters
    ----------
    gpus, hb_domain_size, radix
        GPUs of the cluster and of an HB domain; ports of a switch.
    oversubscription
        Of the layer over the rails in the second network.
    prices, powers
        Books of prices [USD] and of peak powers [W].

    Returns
    -------
    Columns network, tiers, switches, transceivers, cost_usd, power_w, cost_saved (share of rail-optimized's). Rails
    that are less than a switch share one in rail-only.
    """
    layers = _cluster_layers(oversubscription)
    parts = rail_parts(gpus, hb_domain_size, radix, list(layers.values()), rails_per_switch=None)
    table = pd.DataFrame({"network": list(layers), **part_totals(parts, prices, powers)})
    table["cost_saved"] = share_saved(table["cost_usd"], table["cost_usd"].iloc[0])
    return table.drop(columns=["ports", "links"])


@checked
def cluster_breakdown(
    gpus: int, hb_domain_size: int, radix: int, oversubscription: float, prices: PriceBook, powers: PriceBook
) -> pd.DataFrame:
    """Cost and power by part and tier of the networks of `cluster_networks`.

    Parameters
    ----------
    gpus, hb_domain_size, radix
        GPUs of the cluster and of an HB domain; ports of a switch.
    oversubscription
        Of the layer over the rails in the second network.
    prices, powers
        Books of prices [USD] and of peak powers [W].

    Returns
    -------
    Columns of `parts_breakdown`, and network.
    """
    frames = []
    for name, s in _cluster_layers(oversubscription).items():
        parts = rail_parts(gpus, hb_domain_size, radix, s, rails_per_switch=None)
        frames.append(parts_breakdown(parts, prices, powers).assign(network=name))
    return pd.concat(frames, ignore_index=True)


@checked
def oversubscription_costs(
    gpus: int, hb_domain_size: int, radix: int, oversubscriptions: ArrayLike, prices: PriceBook, powers: PriceBook
) -> pd.DataFrame:
    """An any-to-any Clos with oversubscribed leaves, and rails under an oversubscribed layer: cost at each ratio.

    Parameters
    ----------
    gpus, hb_domain_size, radix
        GPUs of the cluster and of an HB domain; ports of a switch.
    oversubscriptions
        Of the leaves or of the layer; an infinite one is rail-only.
    prices, powers
        Books of prices [USD] and of peak powers [W].

    Returns
    -------
    Columns network, oversubscription, switches, transceivers, cost_usd, power_w, relative_cost (to rail-optimized).
    """
    ratios = np.asarray(oversubscriptions, float)
    networks = [("rails under an oversubscribed layer", s, {"oversubscription": s}) for s in ratios]
    for s in ratios[np.isfinite(ratios)]:
        networks.append(("Clos with oversubscribed leaves", s, {"rails": 1, "tier_oversubscription": (s,)}))
    rows = []
    for name, s, shape in networks:
        parts = rail_parts(gpus, hb_domain_size, radix, **shape, rails_per_switch=None)
        rows.append({"network": name, "oversubscription": s, **part_totals(parts, prices, powers)})
    table = pd.DataFrame(rows).drop(columns=["tiers", "ports", "links"])
    full = float(network_total(rail_parts(gpus, hb_domain_size, radix, 1), prices))
    return table.assign(relative_cost=table["cost_usd"] / full)


def ratio_bounds(table: pd.DataFrame, low: ArrayLike, high: ArrayLike) -> pd.DataFrame:
    """Ratios r = transceiver / port with which each row of `compare_rail_networks` saves from `low` to `high`.

    saving(r) = (dP + r dT) / (P + r T), with P ports and T transceivers of rail-optimized and dP, dT what rail-only
    has less, is monotone in r, so each bound is r = (s P - dP) / (dT - s T). Columns gpus, radix, least, most (0 to
    infinity; least > most where no ratio does). Rows hold together from the largest `least` to the smallest `most`.
    """
    p, t = (table[f"{part}_rail_optimized"].to_numpy(float) for part in ("ports", "transceivers"))
    dp, dt = (p - table["ports_rail_only"].to_numpy(float), t - table["transceivers_rail_only"].to_numpy(float))
    at_zero, at_infinity = dp / p, dt / t
    lowest, highest = np.minimum(at_zero, at_infinity), np.maximum(at_zero, at_infinity)
    ends = []
    for saved in (np.clip(low, lowest, highest), np.clip(high, lowest, highest)):
        with np.errstate(divide="ignore", invalid="ignore"):
            ends.append(np.where(saved == at_infinity, np.inf, np.abs((saved * p - dp) / (dt - saved * t))))
    never = (np.asarray(high) < lowest) | (np.asarray(low) > highest)
    any_ratio = lowest == highest
    least = np.select([never, any_ratio], [np.inf, 0.0], np.minimum(*ends))
    most = np.select([never, any_ratio], [0.0, np.inf], np.maximum(*ends))
    return table[["gpus", "radix"]].assign(least=least, most=most)


def ratio_for_total(row: pd.Series, total_usd: float, port_and_transceiver_usd: float) -> float:
    """Price ratio transceiver / port with which a rail-optimized network costs this total; the sum of both is known.

    total = P p + T q with p + q known: q = (total - P (p + q)) / (T - P). row: of a `compare_rail_networks` table.
    """
    ports, transceivers = row["ports_rail_optimized"], row["transceivers_rail_optimized"]
    transceiver = (total_usd - ports * port_and_transceiver_usd) / (transceivers - ports)
    return float(transceiver / (port_and_transceiver_usd - transceiver))


@checked
def link_rate_costs(
    gpus: Sequence[int],
    hb_domain_size: int,
    links: Sequence[tuple[float, int]],
    book_Bps: float,
    prices: PriceBook,
    powers: PriceBook,
    exponents: Sequence[float],
) -> pd.DataFrame:
    """Cost and power of rail-optimized networks, a row for each kind of link and each number of GPUs.

    Parameters
    ----------
    gpus, hb_domain_size
        GPUs of the clusters, and of an HB domain.
    links
        Link rate [bytes/s, one direction] and radix of each kind.
    book_Bps
        Rate of the parts in the books [bytes/s].
    prices, powers
        Books of prices [USD] and of peak powers [W].
    exponents
        Of price and of power: they scale by (rate / book_Bps) ** exponent.

    Returns
    -------
    Columns link (rate and radix as text), link_rate, radix, gpus, cost_usd, power_w.
    """
    frames = []
    for rate, radix in links:
        scaled = [book.scaled((rate / book_Bps) ** e) for book, e in zip((prices, powers), exponents, strict=True)]
        table = {"link": f"{units.show(rate, 'bps')}, radix {radix}", "link_rate": rate, "radix": radix, "gpus": gpus}
        totals = part_totals(rail_parts(gpus, hb_domain_size, radix, 1), *scaled)
        frames.append(pd.DataFrame(table | {name: totals[name] for name in ("cost_usd", "power_w")}))
    return pd.concat(frames, ignore_index=True)


def doubled_parts(parts: Parts) -> Parts:
    """Full redundancy: every switch and every link twice."""
    return Parts(parts.tiers, 2 * parts.switches_by_tier, 2 * parts.links_by_tier, parts.radix)


def parts_with_spares(fabric: RailFabric, spares_per_rail: int = 1, transceivers: bool = True) -> Parts:
    """Parts of a fabric with spare tier-1 switches for each rail.

    transceivers: every spare has the links of a switch of its rail, with optics at both ends, and replaces it by
    itself; else it waits in the rack and somebody moves the optics. Raises ValueError for a negative number.
    """
    whole("spares_per_rail", spares_per_rail, least=0)
    parts, layout = fabric.parts, fabric.layout
    if not fabric.tiers:  # no network, no switch to replace
        return parts
    switches, links = parts.switches_by_tier.copy(), parts.links_by_tier.copy()
    spares = spares_per_rail * fabric.rails * fabric.planes
    hosts = min(int(layout.hosts_per_leaf), len(fabric.endpoints(1)))
    switches[0] += spares
    if transceivers:
        links[0] += spares * hosts
        links[1:2] += spares * int(layout.uplinks(1, layout.hosts_per_leaf))
    return Parts(parts.tiers, switches, links, parts.radix)


def redundancy_costs(cases: pd.DataFrame, hb_domain_size: int, prices: PriceBook) -> pd.DataFrame:
    """Cost of rail-only with redundant parts, divided by that of the any-to-any Clos without them.

    cases: columns gpus and radix. Columns gpus, radix, rails_per_switch (as many as fit, and 1), none, spare_switch,
    spare_switch_and_optics (one for each rail), everything_doubled.
    """
    rows = []
    for n, k in cases[["gpus", "radix"]].itertuples(index=False):
        clos = float(network_total(rail_parts(n, hb_domain_size, k, 1), prices))
        for sharing in sorted({int(most_rails_per_switch(n, hb_domain_size, k)), 1}, reverse=True):
            fabric = RailFabric(n, hb_domain_size, k, rails_per_switch=sharing)
            spared = (parts_with_spares(fabric, 1, optics) for optics in (False, True))
            ways = (fabric.parts, *spared, doubled_parts(fabric.parts))
            rows.append((n, k, sharing, *(float(network_total(parts, prices)) / clos for parts in ways)))
    columns = "gpus radix rails_per_switch none spare_switch spare_switch_and_optics everything_doubled".split()
    return pd.DataFrame(rows, columns=columns)


@checked
def energy(power_w: ArrayLike, years: float, pue: float = 1.0, load: float = 1.0) -> np.ndarray:
    """Energy drawn over years [J]: power x load x PUE x time.

    Parameters
    ----------
    power_w
        Peak power [W].
    years
        Time in use.
    pue
        Power of the facility over that of its IT, at least 1.
    load
        Mean power over peak, 0 to 1.

    Returns
    -------
    Energy of each power [J].

    Raises
    ------
    ValueError
        An argument is out of its range.
    """
    power, time = at_least("power_w", power_w), at_least("years", years) * units.year
    return power * share("load", load) * at_least("pue", pue, 1) * time


@checked
def total_cost(
    purchase_usd: ArrayLike, power_w: ArrayLike, years: float, electricity_price: float, pue: float, load: float = 1.0
) -> dict[str, np.ndarray]:
    """Cost of owning a network over years: purchase, energy and their sum [USD].

    Parameters
    ----------
    purchase_usd, power_w
        Price [USD] and peak power [W].
    years, pue, load
        As in `energy`.
    electricity_price
        Price of energy [USD/J].

    Returns
    -------
    purchase_usd, energy_usd and total_usd.

    Raises
    ------
    ValueError
        An argument is out of its range.
    """
    purchase = np.asarray(purchase_usd, float)
    energy_usd = energy(power_w, years, pue, load) * at_least("electricity_price", electricity_price)
    return {"purchase_usd": purchase, "energy_usd": energy_usd, "total_usd": purchase + energy_usd}


@checked
def ownership_costs(
    gpus: int,
    hb_domain_size: int,
    radix: int,
    prices: PriceBook,
    powers: PriceBook,
    years: float,
    electricity_price: float,
    pue: float,
) -> pd.DataFrame:
    """Cost over years of rail-optimized and rail-only networks at full load, all optics and with copper to the hosts.

    Parameters
    ----------
    gpus, hb_domain_size, radix
        GPUs of the cluster and of an HB domain; ports of a switch. Rails that are less than a switch share one in
        rail-only.
    prices, powers
        Books of prices [USD] and of peak powers [W].
    years, electricity_price, pue
        As in `total_cost`.

    Returns
    -------
    Columns network, host_links, power_w, purchase_usd, energy_usd, total_usd.
    """
    rows = []
    for name, layer in (("rail-optimized", 1), ("rail-only", np.inf)):
        parts = rail_parts(gpus, hb_domain_size, radix, layer, rails_per_switch=None)
        for links, copper in (("optics", 0), ("copper", 1)):
            power = network_total(parts, powers, copper)
            costs = total_cost(network_total(parts, prices, copper), power, years, electricity_price, pue)
            rows.append({"network": name, "host_links": links, "power_w": power, **costs})
    return pd.DataFrame(rows).astype({"purchase_usd": float})


def ownership_saving(gpus: int, hb_domain_size: int, radix: int, years: float, inputs: Mapping[str, float]) -> float:
    """Share of the cost of owning an all-optics rail-optimized network that rail-only saves.

    Parameters
    ----------
    gpus, hb_domain_size, radix, years
        As in `ownership_costs`.
    inputs
        port_price, transceiver_price [USD], port_power, transceiver_power [W], electricity_price [USD/J] and pue.

    Returns
    -------
    Share of the total cost.
    """
    prices, powers = (PriceBook(inputs[f"port_{each}"], inputs[f"transceiver_{each}"]) for each in ("price", "power"))
    rates = inputs["electricity_price"], inputs["pue"]
    table = ownership_costs(gpus, hb_domain_size, radix, prices, powers, years, *rates)
    optics = table[table["host_links"] == "optics"].set_index("network")["total_usd"]
    return float(share_saved(optics["rail-only"], optics["rail-optimized"]))


def ownership_sensitivity(
    gpus: int, hb_domain_size: int, radix: int, years: float, ranges: Mapping[str, catalog.Value]
) -> pd.DataFrame:
    """`ownership_saving` with each input at its low and at its high, the others at their value.

    Parameters
    ----------
    gpus, hb_domain_size, radix, years
        As in `ownership_costs`.
    ranges
        Catalog rows with low and high of the inputs of `ownership_saving`, such as `book_rows`.

    Returns
    -------
    Table of `tornado_table`, low and high in the units of the rows.

    Raises
    ------
    ValueError
        A row has no low or no high.
    """
    own = {name: row.value for name, row in ranges.items()}

    def at(name: str, value: float) -> float:
        return ownership_saving(gpus, hb_domain_size, radix, years, {**own, name: value})

    table = tornado_table(
        {name: (row.low, row.high) for name, row in ranges.items()},
        at,
        ownership_saving(gpus, hb_domain_size, radix, years, own),
        lambda name, value: units.number(units.convert(value, ranges[name].unit), 4),
    )
    units_of = {name: f" [{row.unit}]" if row.unit != "1" else "" for name, row in ranges.items()}
    return table.assign(input=[units.words(name) + units_of[name] for name in table["input"]])
