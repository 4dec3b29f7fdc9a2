"""Parts times prices and powers: purchase, power, what each network saves and gives, energy over years.

Links are of the rate of the books, which tables name. `price_books.matching_books` and `PriceBook.at_rate` give books
for other links. Prices and powers of unlike link rates are refused.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.catalog import units
from railcore.catalog.arguments import (
    Count,
    CountArray,
    EnergyPrice,
    Listed,
    NonNegative,
    Range,
    Unbounded,
    checked,
)
from railcore.network.bill import bill_table, bill_total, bill_totals, include_text
from railcore.network.price_books import PriceBook, check_books
from railcore.network.topology.clos import Parts, checked_oversubscription, rail_parts
from railcore.network.topology.collapse import collapse_warning, rail_only_warning, takes_no_less
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import RailFabric, domain_warnings


def with_book_names(table: pd.DataFrame, prices: PriceBook, powers: PriceBook, circuits: bool = False) -> pd.DataFrame:
    """A table of costs with the names and link rates of its books, and their warnings.

    Parameters
    ----------
    table
        Of costs, perhaps with attrs["warnings"].
    prices, powers
        Its books.
    circuits
        Whether it has circuit switches.

    Returns
    -------
    The table with columns includes (what of the networks is counted: `bill_total`), price_book and power_book. Raises
    as `check_books`.
    """
    check_books(prices, powers)
    table["includes"] = include_text()
    for column, book in (("price_book", prices), ("power_book", powers)):
        table[column] = book.label(circuits=circuits, rate=True)
    return _with_book_warnings(table, prices, powers)


def _with_book_warnings(table: pd.DataFrame, prices: PriceBook, powers: PriceBook) -> pd.DataFrame:
    warnings = (*table.attrs.get("warnings", ()), *prices.warnings, *powers.warnings)
    table.attrs["warnings"] = tuple(dict.fromkeys(warnings))
    return table


def part_totals(parts: Parts, prices: PriceBook, powers: PriceBook) -> dict[str, np.ndarray]:
    """Of networks, an entry for each: tiers, switches, ports, links, transceivers, cost_usd, power_w.

    typical_power_w too, where it is known for all. NICs and hosts' other parts are not counted.

    Raises as `check_books`.
    """
    totals = {"tiers": parts.tiers, "links": parts.links} | bill_totals(parts.bill(), prices, powers)
    names = "tiers switches ports links transceivers cost_usd power_w typical_power_w".split()
    return {name: totals[name] for name in names if name in totals}


RAIL_NETWORKS = ("rail_optimized", "rail_only")


def share_saved(less: ArrayLike, more: ArrayLike) -> np.ndarray:
    """Share saved, 1 - less / more; 0 where both are 0, NaN where `more` alone is 0."""
    less, more = np.asarray(less, dtype=float), np.asarray(more, dtype=float)
    return np.where(more > 0, 1 - less / np.where(more > 0, more, 1), np.where(less > 0, np.nan, 0.0))


@checked
def compare_rail_networks(
    gpus: CountArray,
    hb_domain_size: CountArray,
    radix: CountArray,
    prices: PriceBook,
    powers: PriceBook,
    share_switches: bool = True,
) -> pd.DataFrame:
    """Rail-only beside rail-optimized, a row for each element of the broadcast arguments.

    Parameters
    ----------
    gpus
        GPUs of the cluster.
    hb_domain_size
        GPUs of an HB domain (scale-up or NVLink domain).
    radix
        Ports of a switch.
    prices
        Book of prices [USD].
    powers
        Book of peak powers [W].
    share_switches
        Whether rails that are less than a switch share one in rail-only.

    Returns
    -------
    Columns gpus, hb_domain_size, radix; those of `part_totals` for each network (ending in _rail_optimized and
    _rail_only); switch_ratio (rail-only over rail-optimized), cost_saving, power_saving; price_book, power_book,
    includes.
    attrs["warnings"]: a text where GPUs of a row do not fill HB domains, and where rail-only takes no less.

    Examples
    --------
    >>> import railcore as rc
    >>> books = rc.matching_books("street2025")
    >>> table = rc.compare_rail_networks([1024, 16384], 8, 64, *books)
    >>> print(table[["gpus", "cost_saving"]].round(2).to_string(index=False))
     gpus  cost_saving
     1024         0.00
    16384         0.38
    """
    try:
        n, k, ports = (array.ravel() for array in np.broadcast_arrays(gpus, hb_domain_size, radix))
    except ValueError:
        shapes = ", ".join(map(str, map(np.shape, (gpus, hb_domain_size, radix))))
        raise ValueError(f"gpus, hb_domain_size and radix are of shapes {shapes}: give ones that broadcast") from None
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
    """A table with `domain_warnings` as attrs["warnings"]: that of the first row that has one, and how many have."""
    n, k = np.broadcast_arrays(*map(np.atleast_1d, (gpus, hb_domain_size)))
    ragged = np.flatnonzero(n % k)
    texts = domain_warnings(int(n[ragged[0]]), int(k[ragged[0]])) if ragged.size else ()
    if ragged.size > 1:
        texts = (f"{ragged.size:,} rows have GPUs that do not fill HB domains. The first: {texts[0]}",)
    table.attrs["warnings"] = (*texts, *table.attrs.get("warnings", ()))
    return table


def cluster_fabrics(
    gpus: int, hb_domain_size: int, radix: int, oversubscriptions: Sequence[float] = (), planes: int = 1, **links: Any
) -> dict[str, RailFabric]:
    """Networks of packet switches that one cluster can have, by name.

    Rail-optimized; a Clos over all GPUs; rails under a layer of the largest oversubscription; a Clos with leaves of
    each; rail-only, also in planes. All have the fewest tiers, and rails that are less than a switch share one.

    Parameters
    ----------
    gpus, hb_domain_size, radix
        GPUs of the cluster and of an HB domain; ports of a switch.
    oversubscriptions
        Of the layer and the leaves; 1 and infinite ones add no network.
    planes
        Over which every NIC's ports are split; 1 for no such network.
    links
        Other fields of `RailFabric`: nic_Bps, hb_Bps, hb_switches.

    Returns
    -------
    Fabrics, some perhaps equal to others (`collapse_warning`).
    """
    ratios = [s for s in map(float, map(checked_oversubscription, oversubscriptions)) if 1 < s < np.inf]
    shapes: dict[str, dict[str, Any]] = {"rail-optimized": {"oversubscription": 1.0}, "Clos": {"rails": 1}}
    if ratios:
        shapes[f"rails + layer {max(ratios):g}:1"] = {"oversubscription": max(ratios)}
    shapes |= {f"Clos, leaves {s:g}:1": {"rails": 1, "tier_oversubscription": (s,)} for s in ratios}
    shapes["rail-only"] = {}
    if planes > 1:
        shapes[f"rail-only, {planes} planes"] = {"planes": planes}
    cluster = {"gpus": gpus, "hb_domain_size": hb_domain_size, "radix": radix, "rails_per_switch": None, **links}
    return {name: RailFabric(**cluster, **shape) for name, shape in shapes.items()}


def fabric_cost(fabric: RailFabric | PhotonicRails, prices: PriceBook, powers: PriceBook) -> dict[str, Any]:
    """Purchase and power of a fabric.

    Parameters
    ----------
    fabric
        Network whose NICs split their rate evenly over their ports.
    prices, powers
        Books of prices [USD] and of peak powers [W] for the rate of its NICs; their numbers may be arrays.

    Returns
    -------
    cost_usd and power_w; NaN where ports are slower than the book's links and the book does not say its rate.
    """
    bill, totals, ports = fabric.parts.bill(), {}, fabric.nic_ports
    for name, book in (("cost_usd", prices), ("power_w", powers)):
        scalable = ports == 1 or book.rate_Bps is not None
        totals[name] = bill_total(bill, book.of_ports(ports))[()] if scalable else np.nan
    return totals


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
    """A table whose notes are short, and in full in attrs["warnings"]."""
    missing, notes = table["cost_usd"].isna(), table["note"]
    kinds = np.where(missing, "no such design: the same as 1:1", "no less than rail-optimized")
    full = [f"{name}: {note}" for name, note in zip(table["network"][missing], notes[missing], strict=True)]
    table = table.assign(note=np.where(notes == "", "", kinds))
    table.attrs["warnings"] = (*full, *(note for note in notes[~missing] if note))
    return table


@checked
def cluster_networks(
    gpus: Count, hb_domain_size: Count, radix: Listed, oversubscription: Unbounded, prices: PriceBook, powers: PriceBook
) -> pd.DataFrame:
    """The networks that one cluster can have: what each costs, and what bandwidth it gives.

    rail-optimized; Clos, a fat tree over all GPUs in the order of their HB domains; with an oversubscription, rails
    under an oversubscribed layer, and a Clos with oversubscribed leaves; rail-only. All have the fewest tiers. Rails
    that are less than a switch share one in rail-only.

    Parameters
    ----------
    gpus
        GPUs of the cluster.
    hb_domain_size
        GPUs of an HB domain (scale-up or NVLink domain).
    radix
        Ports of a switch.
    oversubscription
        Of the layer over the rails, and of the leaves of the Clos; 1 or infinite for neither.
    prices
        Book of prices [USD].
    powers
        Book of peak powers [W].

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

    Examples
    --------
    >>> import railcore as rc
    >>> books = rc.matching_books("street2025")
    >>> table = rc.cluster_networks(4096, 8, 64, 4.0, *books)
    >>> print(table[["network", "tiers", "switches"]].to_string(index=False))
              network  tiers  switches
       rail-optimized      3       320
                 Clos      3       320
    rails + layer 4:1      3       256
     Clos, leaves 4:1      3       146
            rail-only      2       192
    """
    fabrics = cluster_fabrics(gpus, hb_domain_size, radix, [oversubscription])
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


def cluster_breakdown(
    gpus: Count, hb_domain_size: Count, radix: Listed, oversubscription: Unbounded, prices: PriceBook, powers: PriceBook
) -> pd.DataFrame:
    """Cost and power by part and tier of the networks of `cluster_networks`.

    Parameters
    ----------
    gpus, hb_domain_size, radix, oversubscription
        As in `cluster_networks`, whose warnings are of these networks too.
    prices, powers
        Books of prices [USD] and of peak powers [W].

    Returns
    -------
    Columns of `bill_table`, network, price_book, power_book, includes; without networks whose oversubscription
    takes nothing away.
    """
    fabrics = cluster_fabrics(gpus, hb_domain_size, radix, [oversubscription])
    bills = {name: fabric.parts.bill() for name, fabric in fabrics.items() if not collapse_warning(fabric)}
    tables = [bill_table(bill, prices, powers).assign(network=name) for name, bill in bills.items()]
    return with_book_names(pd.concat(tables, ignore_index=True), prices, powers)


def total_cost(
    purchase_usd: ArrayLike, power_w: ArrayLike, years: float, electricity_price: float, pue: float, load: float = 1.0
) -> dict[str, np.ndarray]:
    """Cost of owning a network over years: purchase, energy and their sum [USD].

    energy = power x load x PUE x time.

    Parameters
    ----------
    purchase_usd, power_w
        Price [USD] and peak power [W].
    years
        Time in use.
    electricity_price
        Price of energy [USD/J].
    pue
        Power of the facility over that of its IT, at least 1.
    load
        Mean power over peak, 0 to 1.

    Returns
    -------
    purchase_usd, energy_usd and total_usd.
    """
    purchase = np.asarray(purchase_usd, float)
    energy_usd = np.asarray(power_w, float) * load * pue * (years * units.year) * electricity_price
    return {"purchase_usd": purchase, "energy_usd": energy_usd, "total_usd": purchase + energy_usd}


@checked
def ownership_costs(
    gpus: Count,
    hb_domain_size: Count,
    radix: Listed,
    prices: PriceBook,
    powers: PriceBook,
    years: NonNegative,
    electricity_price: EnergyPrice,
    pue: Annotated[float, Range(1)],
) -> pd.DataFrame:
    """Cost over years of rail-optimized and rail-only networks at full load, all optics and with copper to the hosts.

    Parameters
    ----------
    gpus
        GPUs of the cluster.
    hb_domain_size
        GPUs of an HB domain (scale-up or NVLink domain).
    radix
        Ports of a switch. Rails that are less than a switch share one in rail-only.
    prices
        Book of prices [USD].
    powers
        Book of peak powers [W].
    years
        Years that the network runs.
    electricity_price
        Price of energy [USD/J], or a text such as "0.1 USD/kWh".
    pue
        Power usage effectiveness: power of the facility over that of its IT.

    Returns
    -------
    Columns network, host_links, power_w, purchase_usd, energy_usd, total_usd, price_book, power_book.
    attrs["warnings"]: texts where the GPUs do not fill HB domains, and where a book has no copper and its rows are left
    out.

    Examples
    --------
    >>> import railcore as rc
    >>> books = rc.matching_books("street2025")
    >>> table = rc.ownership_costs(
    ...     16384, 8, 64, *books, years=4, electricity_price="0.1 USD/kWh", pue=1.2
    ... )
    >>> shown = rc.readable(table[["network", "host_links", "total_usd"]], 3)
    >>> print(shown.to_string(index=False))
           network host links       total
    rail-optimized     optics 86.99 M USD
    rail-optimized     copper 80.42 M USD
         rail-only     optics  53.9 M USD
         rail-only     copper 47.33 M USD
    """
    check_books(prices, powers)
    rows, without = [], [book.name for book in (prices, powers) if book.dac is None and not book.copper_name]
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
