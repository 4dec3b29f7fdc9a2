"""Cost and power of a cluster's networks: their bills, at books of prices and powers."""

import math
from collections.abc import Collection, Mapping

import pandas as pd

from railcore.catalog import units
from railcore.deploy.cluster import Cluster
from railcore.network.bill import NETWORK, bill_counts, bill_totals, include_text
from railcore.network.price_books import FARTHEST_RATE, PriceBook, book_of_links


def cluster_network_parts(
    cluster: Cluster,
    prices: PriceBook,
    powers: PriceBook,
    books: Mapping[str, tuple[PriceBook, PriceBook]] | None = None,
    include: Collection[str] = NETWORK,
) -> pd.DataFrame:
    """Parts, price and power of each of a cluster's networks, of their bills.

    Parameters
    ----------
    cluster
        With its networks. NICs and scale-up links come with the servers and are not priced.
    prices, powers
        Books of prices [USD] and of powers [W]; their numbers are scaled to the rates of ports and links.
    books
        Prices and powers of some networks, by name, in place of these.
    include
        Of a network, as of `bill_total`.

    Returns
    -------
    Columns network, switch, tiers, switches, ports, links, transceivers, cables, cost_usd, share (of the cost of all),
    power_w, typical_power_w where the books have it, price_book, power_book, includes. A network whose links are more
    than FARTHEST_RATE times slower than its book's has no price and no power, and attrs["warnings"] says so.

    Raises
    ------
    ValueError
        A book whose link rate is not known.
    """
    rows, warnings = [], []
    for name, network in cluster.networks.items():
        if not network.bill or network.parts is None or network.switch is None:
            continue
        price_book, power_book = (books or {}).get(name, (prices, powers))
        counts = {column: int(getattr(network.parts, column)) for column in ("tiers", "switches", "ports", "links")}
        pieces = {column: int(count) for column, count in bill_counts(network.bill, price_book, include).items()}
        row = {"network": name, "switch": network.switch.name, **counts}
        row |= {"transceivers": pieces["transceivers"], "cables": pieces["cables"], "cost_usd": math.nan}
        slow = [
            book
            for book in (price_book, power_book)
            if book.rate_Bps and FARTHEST_RATE * network.port_Bps < book.rate_Bps
        ]
        if slow:
            links, rate = units.show(network.port_Bps, "bps"), units.show(slow[0].rate_Bps or 0.0, "bps")
            warnings.append(
                f"The {name} network has {links} links, and book {slow[0].name} is of {rate} ones: no price and no "
                "power are given. Give its own books in books."
            )
        else:
            bought = book_of_links("prices", price_book, network.port_Bps)
            drawn = book_of_links("powers", power_book, network.port_Bps)
            totals = bill_totals(network.bill, bought, drawn, include)
            row |= {column: float(totals[column]) for column in totals if column.endswith(("_usd", "_w"))}
            copper = bool(pieces["cables"])
            row |= {"price_book": bought.label(copper), "power_book": drawn.label(copper)}
        rows.append(row)
    table = pd.DataFrame(rows).assign(includes=include_text(include))
    table.insert(table.columns.get_loc("cost_usd") + 1, "share", table["cost_usd"] / table["cost_usd"].sum())
    table.attrs["warnings"] = tuple(warnings)
    return table
