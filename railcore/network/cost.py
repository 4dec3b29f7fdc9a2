"""Parts times prices and powers: purchase, power, what each network saves and gives, redundancy, energy over years.

Links are of the rate of the books, which tables name. `price_books.matching_books` and `PriceBook.at_rate` give books
for other links. Prices and powers of unlike link rates are refused.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog, units
from railcore.facts.arguments import checked
from railcore.facts.checks import at_least, share, whole
from railcore.facts.sensitivity import tornado_table
from railcore.network.bill import bill_table, bill_total, bill_totals, include_text
from railcore.network.price_books import PriceBook, check_books
from railcore.network.topology.clos import Parts, checked_oversubscription, rail_parts
from railcore.network.topology.collapse import collapse_warning, rail_only_warning, takes_no_less
from railcore.network.topology.rails import RailFabric, domain_warnings, most_rails_per_switch


def with_book_names(
    table: pd.DataFrame, prices: PriceBook, powers: PriceBook | None, copper: bool = False, circuits: bool = False
) -> pd.DataFrame:
    """A table of costs with the names and link rates of its books, and their warnings.

    Parameters
    ----------
    table
        Of costs, perhaps with attrs["warnings"].
    prices, powers
        Its books.
    copper, circuits
        Whether it has copper cables, and circuit switches.

    Returns
    -------
    The table with columns includes (what of the networks is counted: `bill_total`), price_book and power_book. Raises
    as `check_books`.
    """
    check_books(prices, powers)
    table["includes"] = include_text()
    for column, book in (("price_book", prices), ("power_book", powers)):
        if book is not None:
            table[column] = book.label(copper, circuits, rate=True)
    return _with_book_warnings(table, prices, powers)


def _with_book_warnings(table: pd.DataFrame, prices: PriceBook, powers: PriceBook | None) -> pd.DataFrame:
    scaled = (*prices.warnings, *(powers.warnings if powers else ()))
    table.attrs["warnings"] = tuple(dict.fromkeys((*table.attrs.get("warnings", ()), *scaled)))
    return table


def part_totals(parts: Parts, prices: PriceBook, powers: PriceBook) -> dict[str, np.ndarray]:
    """Of networks, an entry for each: tiers, switches, ports, links, transceivers, and `bill_totals` of NETWORK.

    Raises as `check_books`.
    """
    totals = {"tiers": parts.tiers, "links": parts.links} | bill_totals(parts.bill(), prices, powers)
    names = "tiers switches ports links transceivers cost_usd power_w typical_power_w".split()
    return {name: totals[name] for name in names if name in totals}


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
        Links below tiers 1 to this one are copper, as in `Parts.bill`.

    Returns
    -------
    Columns of `bill_table` of NETWORK, price_book, power_book.
    """
    return with_book_names(bill_table(parts.bill(copper_tiers), prices, powers), prices, powers, copper_tiers > 0)


RAIL_NETWORKS = ("rail_optimized", "rail_only")


def share_saved(less: ArrayLike, more: ArrayLike) -> np.ndarray:
    """Share saved, 1 - less / more; 0 where both are 0, NaN where `more` alone is 0."""
    less, more = np.asarray(less, dtype=float), np.asarray(more, dtype=float)
    return np.where(more > 0, 1 - less / np.where(more > 0, more, 1), np.where(less > 0, np.nan, 0.0))


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
    _rail_only); switch_ratio (rail-only over rail-optimized), cost_saving, power_saving; price_book, power_book.
    attrs["warnings"]: a text where GPUs of a row do not fill HB domains, and where rail-only takes no less.
    """
    n, k, ports = (array.ravel() for array in np.broadcast_arrays(gpus, hb_domain_size, radix))
    table = {"gpus": n, "hb_domain_size": k, "radix": ports}
    shared = None if share_switches else 1
    only, optimized = rail_parts(n, k, ports, rails_per_switch=shared), rail_parts(n, k, ports, 1)
    for name, parts in (("rail_optimized", optimized), ("rail_only", only)):
        table |= {f"{what}_{name}": values for what, values in part_totals(parts, prices, powers.listed).items()}
    table["switch_ratio"] = table["switches_rail_only"] / table["switches_rail_optimized"]
    for what, unit in (("cost", "usd"), ("power", "w")):
        table[f"{what}_saving"] = share_saved(table[f"{what}_{unit}_rail_only"], table[f"{what}_{unit}_rail_optimized"])
    compared = with_domain_warnings(pd.DataFrame(table), n, k)
    no_less = np.flatnonzero(takes_no_less(only, optimized))
    if no_less.size:
        first = no_less[0]
        text = rail_only_warning(RailFabric(n[first], k[first], ports[first], rails_per_switch=shared))
        if no_less.size > 1:
            text = f"In {no_less.size:,} rows rail-only takes no less than rail-optimized. The first: {text}"
        compared.attrs["warnings"] += (text,)
    return with_book_names(compared, prices, powers)


def with_domain_warnings(table: pd.DataFrame, gpus: ArrayLike, hb_domain_size: ArrayLike) -> pd.DataFrame:
    """A table with `domain_warnings` as attrs["warnings"]; of many rows the first that needs one, and how many do."""
    n, k = np.broadcast_arrays(*map(np.atleast_1d, (gpus, hb_domain_size)))
    ragged = np.flatnonzero(n % k)
    texts = domain_warnings(int(n[ragged[0]]), int(k[ragged[0]])) if ragged.size else ()
    if ragged.size > 1:
        texts = (f"{ragged.size:,} rows have GPUs that do not fill HB domains. The first: {texts[0]}",)
    table.attrs["warnings"] = (*texts, *table.attrs.get("warnings", ()))
    return table


def _contenders(gpus: int, hb_domain_size: int, radix: int, oversubscription: float) -> dict[str, RailFabric]:
    """Networks for one cluster by name: two without oversubscription, the same two with it, rail-only."""
    s = float(checked_oversubscription(oversubscription))
    shapes: dict[str, dict[str, Any]] = {"rail-optimized": {"oversubscription": 1.0}, "Clos": {"rails": 1}}
    if 1 < s < np.inf:
        shapes[f"rails + layer {s:g}:1"] = {"oversubscription": s}
        shapes[f"Clos, leaves {s:g}:1"] = {"rails": 1, "tier_oversubscription": (s,)}
    shapes["rail-only"] = {}
    given: dict[str, Any] = {"gpus": gpus, "hb_domain_size": hb_domain_size, "radix": radix, "rails_per_switch": None}
    return {name: RailFabric(**given, **shape) for name, shape in shapes.items()}


def _network_row(fabric: RailFabric, prices: PriceBook, powers: PriceBook) -> dict[str, Any]:
    """`part_totals` of one network, the shares of `RailFabric.nic_shares`, and a note.

    The note is `collapse_warning`, with all numbers NaN, or `rail_only_warning`.
    """
    within, across = fabric.nic_shares
    path = "over the network" if fabric.tiers and across != 0 else "through the HB domain"
    row = {**part_totals(fabric.parts, prices, powers), "tiers": fabric.tiers}
    row |= {"share_same_rail": within, "share_across_rails": across}
    if note := collapse_warning(fabric):
        row, path = dict.fromkeys(row, np.nan), ""
    return {**row, "across_rails": path, "note": note or rail_only_warning(fabric)}


def _with_short_notes(table: pd.DataFrame) -> pd.DataFrame:
    """A table whose notes are short, and in full in attrs["warnings"]: of ratios without a design the first."""
    missing, texts = table["cost_usd"].isna(), []
    kinds = np.where(missing, "no such design: the same as 1:1", "no less than rail-optimized")
    short = np.where(table["note"] == "", "", kinds)
    for name, rows in table[missing].groupby("network", sort=False):
        others = ", ".join(f"{ratio:g}:1" for ratio in rows.get("oversubscription", ())[1:])
        texts.append(f"{name}: {rows['note'].iloc[0]}" + f" So it is at {others}." * bool(others))
    texts += [note for note in table["note"][~missing] if note]
    table = table.assign(note=short)
    table.attrs["warnings"] = tuple(texts)
    return table


@checked
def cluster_networks(
    gpus: int, hb_domain_size: int, radix: int, oversubscription: float, prices: PriceBook, powers: PriceBook
) -> pd.DataFrame:
    """The networks that one cluster can have: what each costs, and what bandwidth it gives.

    rail-optimized; Clos, a fat tree over all GPUs in the order of their HB domains; with an oversubscription, rails
    under an oversubscribed layer, and a Clos with oversubscribed leaves; rail-only. All have the fewest tiers. Rails
    that are less than a switch share one in rail-only.

    Parameters
    ----------
    gpus, hb_domain_size, radix
        GPUs of the cluster and of an HB domain; ports of a switch.
    oversubscription
        Of the layer over the rails, and of the leaves of the Clos; 1 or infinite for neither.
    prices, powers
        Books of prices [USD] and of peak powers [W].

    Returns
    -------
    Columns network, tiers, switches, transceivers, cost_usd, power_w (listed maxima), typical_power_w where the book
    has it; cost_saved (share of rail-optimized's cost) and cost_saved_over_any_to_any (of the cheapest any-to-any
    network: one that gives any two GPUs the NICs' bandwidth);
    cheapest ("any-to-any", "of all", both or none); share_same_rail and share_across_rails (of its NIC's bandwidth that
    a GPU has at worst while all send at once: `RailFabric.nic_shares`); across_rails ("over the network",
    "through the HB domain"); note; includes, price_book, power_book. Where an oversubscription takes nothing away,
    there is no such network: the numbers of its row are NaN, and its note says so. The note of rail-only says where it
    takes no less than rail-optimized. attrs["warnings"]: texts why, and what to do; where the GPUs do not fill HB
    domains or all are in one; where a book is scaled from another link rate.
    """
    fabrics = _contenders(gpus, hb_domain_size, radix, oversubscription)
    rows = [{"network": name, **_network_row(fabric, prices, powers)} for name, fabric in fabrics.items()]
    table = pd.DataFrame(rows)
    full = ~((table["share_same_rail"] < 1) | (table["share_across_rails"] < 1))  # NaN: there are no such GPUs
    costs, any_to_any = table["cost_usd"], table["cost_usd"][full].min()
    marks = {"any-to-any": full & np.isclose(costs, any_to_any), "of all": np.isclose(costs, costs.min())}
    saved: dict[str, Any] = {
        "cost_saved": share_saved(costs, costs.iloc[0]),
        "cost_saved_over_any_to_any": share_saved(costs, any_to_any),
        "cheapest": [", ".join(name for name, marked in marks.items() if marked[row]) for row in table.index],
    }
    powered = table.columns.intersection(["power_w", "typical_power_w"], sort=False)
    columns = ["network", "tiers", "switches", "transceivers", "cost_usd", *powered, *saved]
    table = table.assign(**saved)[[*columns, "share_same_rail", "share_across_rails", "across_rails", "note"]]
    table = with_book_names(with_domain_warnings(_with_short_notes(table), gpus, hb_domain_size), prices, powers)
    if gpus <= hb_domain_size:
        none = "One HB domain holds all GPUs: they need no network, and what is saved of one means nothing."
        table.attrs["warnings"] = (none, *table.attrs["warnings"])
    return table


@checked
def cluster_breakdown(
    gpus: int, hb_domain_size: int, radix: int, oversubscription: float, prices: PriceBook, powers: PriceBook
) -> pd.DataFrame:
    """Cost and power by part and tier of the networks of `cluster_networks`.

    Parameters
    ----------
    gpus, hb_domain_size, radix, oversubscription
        As in `cluster_networks`.
    prices, powers
        Books of prices [USD] and of peak powers [W].

    Returns
    -------
    Columns of `parts_breakdown`, and network; without networks whose oversubscription takes nothing away.
    attrs["warnings"] as of `cluster_networks`.
    """
    fabrics = _contenders(gpus, hb_domain_size, radix, oversubscription)
    collapses = {name: collapse_warning(each) for name, each in fabrics.items()}
    built = {name: each.parts for name, each in fabrics.items() if not collapses[name]}
    frames = [parts_breakdown(parts, prices, powers).assign(network=name) for name, parts in built.items()]
    table = with_domain_warnings(pd.concat(frames, ignore_index=True), gpus, hb_domain_size)
    why = [f"{name}: {text}" for name, text in collapses.items() if text]
    why += [text for each in fabrics.values() if (text := rail_only_warning(each))]
    table.attrs["warnings"] = (*why, *table.attrs["warnings"])
    return table


@checked
def oversubscription_costs(
    gpus: int, hb_domain_size: int, radix: int, oversubscriptions: ArrayLike, prices: PriceBook, powers: PriceBook
) -> pd.DataFrame:
    """An any-to-any Clos with oversubscribed leaves, and rails under an oversubscribed layer, at each ratio.

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
    Columns network, oversubscription, switches, transceivers, cost_usd, power_w, share_same_rail, share_across_rails
    across_rails and note (of `cluster_networks`), relative_cost (to rail-optimized), price_book, power_book.
    attrs["warnings"] as of `cluster_networks`.
    """
    ratios = np.asarray(oversubscriptions, float)
    networks: list[tuple[str, float, dict]]
    networks = [("rails under an oversubscribed layer", s, {"oversubscription": s}) for s in ratios]
    for s in ratios[np.isfinite(ratios)]:
        networks.append(("Clos with oversubscribed leaves", s, {"rails": 1, "tier_oversubscription": (s,)}))
    rows = []
    for name, s, shape in networks:
        fabric = RailFabric(gpus, hb_domain_size, radix, **shape, rails_per_switch=None)
        rows.append({"network": name, "oversubscription": s, **_network_row(fabric, prices, powers)})
    table = pd.DataFrame(rows).drop(columns=["tiers", "ports", "links", "typical_power_w"], errors="ignore")
    full = float(bill_total(rail_parts(gpus, hb_domain_size, radix, 1).bill(), prices))
    table = _with_short_notes(table.assign(relative_cost=table["cost_usd"] / full))
    table = with_domain_warnings(table, gpus, hb_domain_size)
    return with_book_names(table, prices, powers)


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
    prices, powers
        Books of prices [USD] and of peak powers [W], with the link rates of their parts.
    exponents
        Of price and of power: they scale by (rate / the book's) ** exponent.

    Returns
    -------
    Columns link (rate and radix as text), link_rate, radix, gpus, cost_usd, power_w, price_book, power_book.
    attrs["warnings"]: a text where GPUs of a row do not fill HB domains.

    Raises
    ------
    ValueError
        A book has no link rate.
    """
    frames = []
    for rate, radix in links:
        scaled = [book.at_rate(rate, e) for book, e in zip((prices, powers), exponents, strict=True)]
        table = {"link": f"{units.show(rate, 'bps')}, radix {radix}", "link_rate": rate, "radix": radix, "gpus": gpus}
        totals = part_totals(rail_parts(gpus, hb_domain_size, radix, 1), *scaled)
        frame = pd.DataFrame(table | {name: totals[name] for name in ("cost_usd", "power_w")})
        frames.append(with_book_names(frame, scaled[0], scaled[1]))
    table = pd.concat(frames, ignore_index=True)
    table.attrs["warnings"] = ()  # rows of scaled books are what was asked for
    return with_domain_warnings(table, table["gpus"], hb_domain_size)


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
    """Cost of rail-only with redundant parts, divided by that of rail-optimized without them.

    cases: columns gpus and radix. Columns gpus, radix, rails_per_switch (as many as fit, and 1), none, spare_switch,
    spare_switch_and_optics (one for each rail), everything_doubled, price_book. attrs["warnings"]: a text where GPUs of
    a case do not fill HB domains.
    """
    rows = []
    for n, k in cases[["gpus", "radix"]].itertuples(index=False):
        clos = float(bill_total(rail_parts(n, hb_domain_size, k, 1).bill(), prices))
        for sharing in sorted({int(most_rails_per_switch(n, hb_domain_size, k)), 1}, reverse=True):
            fabric = RailFabric(n, hb_domain_size, k, rails_per_switch=sharing)
            spared = (parts_with_spares(fabric, 1, optics) for optics in (False, True))
            ways = (fabric.parts, *spared, doubled_parts(fabric.parts))
            rows.append((n, k, sharing, *(float(bill_total(parts.bill(), prices)) / clos for parts in ways)))
    columns = "gpus radix rails_per_switch none spare_switch spare_switch_and_optics everything_doubled".split()
    table = with_domain_warnings(pd.DataFrame(rows, columns=columns), cases["gpus"], hb_domain_size)
    return with_book_names(table, prices, None)


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
    Columns network, host_links, power_w, purchase_usd, energy_usd, total_usd, price_book, power_book.
    attrs["warnings"]: texts where the GPUs do not fill HB domains, and where a book has no copper and its rows are left
    out.
    """
    check_books(prices, powers)
    rows, without = [], [book.name for book in (prices, powers) if book.dac is None]
    for name, layer in (("rail-optimized", 1), ("rail-only", np.inf)):
        parts = rail_parts(gpus, hb_domain_size, radix, layer, rails_per_switch=None)
        for links, copper in (("optics", 0),) if without else (("optics", 0), ("copper", 1)):
            power, price = (bill_total(parts.bill(copper), book) for book in (powers, prices))
            costs = total_cost(price, power, years, electricity_price, pue)
            books = {"price_book": prices.label(copper > 0, rate=True)}
            books["power_book"] = powers.label(copper > 0, rate=True)
            rows.append({"network": name, "host_links": links, "power_w": power, **costs, **books})
    table = with_domain_warnings(pd.DataFrame(rows).astype({"purchase_usd": float}), gpus, hb_domain_size)
    table = _with_book_warnings(table, prices, powers)
    if without:
        text = f"No copper to the hosts: book {' and '.join(map(repr, without))} has no dac, the number of a cable."
        table.attrs["warnings"] += (text,)
    return table


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
    parts = rail_parts(gpus, hb_domain_size, radix, [1, np.inf], rails_per_switch=None)
    rates = years, inputs["electricity_price"], inputs["pue"]
    price, power = (bill_total(parts.bill(), book) for book in (prices, powers))
    full, rails = total_cost(price, power, *rates)["total_usd"]
    return float(share_saved(rails, full))


def ownership_sensitivity(
    gpus: int, hb_domain_size: int, radix: int, years: float, ranges: Mapping[str, catalog.Value]
) -> pd.DataFrame:
    """`ownership_saving` with each input at its low and at its high, the others at their value.

    Parameters
    ----------
    gpus, hb_domain_size, radix, years
        As in `ownership_costs`.
    ranges
        Catalog rows of the inputs of `ownership_saving`, such as `book_rows`.

    Returns
    -------
    Table of `tornado_table`, low and high in the units of the rows, and price_book and power_book, the names of the
    rows. An input without a low or a high keeps its value there; attrs["warnings"], a tuple of texts, names it.
    """
    own = {name: row.value for name, row in ranges.items()}

    def at(name: str, value: float) -> float:
        return ownership_saving(gpus, hb_domain_size, radix, years, {**own, name: value})

    table = tornado_table(
        {name: tuple(row.value if end is None else end for end in (row.low, row.high)) for name, row in ranges.items()},
        at,
        ownership_saving(gpus, hb_domain_size, radix, years, own),
        lambda name, value: units.number(units.convert(value, ranges[name].unit), 4),
    )
    units_of = {name: f" [{row.unit}]" if row.unit != "1" else "" for name, row in ranges.items()}
    table["input"] = [units.words(name) + units_of[name] for name in table["input"]]
    for column, name in (("price_book", "port_price"), ("power_book", "port_power")):
        table[column] = ranges[name].name
    fixed = [f"{units.words(name)} of {row.name}" for name, row in ranges.items() if None in (row.low, row.high)]
    text = f"The catalog has no low and high for {', '.join(fixed)}: they stay at their values and move nothing."
    table.attrs["warnings"] = (text,) if fixed else ()
    return table
