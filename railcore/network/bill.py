"""The bill of materials: parts of any fabric times a book, to USD and W, with what is included said."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from railcore.catalog.arguments import checked
from railcore.catalog.checks import one_of
from railcore.network.price_books import ItemBook, PriceBook, check_books
from railcore.network.topology.bill_line import SCOPES, Bill, BillLine

BETWEEN_SWITCHES = ("switches", "switch links")
NETWORK = (*BETWEEN_SWITCHES, "host links", "host optics")  # all that comes beside the servers
Book = PriceBook | ItemBook


def bill_total(bill: Bill, book: Book, include: Collection[str] = NETWORK) -> np.ndarray:
    """Price [USD] or power [W] of what a bill includes: C = sum over lines of units x number of the book.

    Parameters
    ----------
    bill
        Lines of any fabric, or of several.
    book
        Of prices or of powers.
    include
        Of SCOPES: BETWEEN_SWITCHES leaves out the links to hosts, NETWORK has their optics at both ends, SCOPES has the
        NICs too.

    Returns
    -------
    Total, of the shape of the lines' units; 0 where nothing is included.

    Raises
    ------
    ValueError
        A scope that there is not, or a part that the book has no number of.
    """
    return sum((book.of(line) for line in _included(bill, include)), np.zeros(()))


def bill_counts(bill: Bill, book: Book | None = None, include: Collection[str] = NETWORK) -> dict[str, np.ndarray]:
    """What a bill counts: switches, ports, link_ends (optical), transceivers (modules that serve them), cables, NICs.

    book: its `ends_per_module` is used; None for one module at each end. include: as of `bill_total`.
    """
    counts: dict[str, Any] = dict.fromkeys(("switches", "ports", "link_ends", "transceivers", "cables", "NICs"), 0)
    names = {"transceiver": ("transceivers", "link_ends"), "copper cable": ("cables", ""), "NIC": ("NICs", "")}
    for line in _included(bill, include):
        pieces, units = names.get(line.part, ("switches", "ports"))
        ordered = line.units if line.count is None else line.count
        counts[pieces] = counts[pieces] + (ordered if book is None else book.pieces(line))
        if units:
            counts[units] = counts[units] + line.units
    return counts


def bill_totals(
    bill: Bill, prices: PriceBook, powers: PriceBook, include: Collection[str] = NETWORK
) -> dict[str, np.ndarray]:
    """What networks count, cost and draw.

    Parameters
    ----------
    bill
        Lines of networks.
    prices, powers
        Books of prices [USD] and of listed maxima of power [W].
    include
        As of `bill_total`.

    Returns
    -------
    `bill_counts`, cost_usd, power_w and, where the book has it, typical_power_w.

    Raises
    ------
    ValueError
        As `check_books`.
    """
    check_books(prices, powers)
    bill = merged_bill(bill)
    drawn = {"power_w": powers, "typical_power_w": powers.typical}
    totals = {name: bill_total(bill, book, include) for name, book in drawn.items() if book is not None}
    return {**bill_counts(bill, prices, include), "cost_usd": bill_total(bill, prices, include), **totals}


@checked
def bill_table(
    bill: Bill, prices: Book, powers: Book | None = None, include: Collection[str] = NETWORK
) -> pd.DataFrame:
    """A bill of one network, or of several, line by line.

    Parameters
    ----------
    bill
        Lines whose units are numbers.
    prices
        Book of prices [USD].
    powers
        Book of peak powers [W]; None for prices alone.
    include
        Which lines count: scopes out of "switches", "switch links", "host links", "host optics", "NICs".

    Returns
    -------
    Columns network, part, scope, tier, item, count (pieces), units (ports, ends of links, cables, NICs), cost_usd and,
    with powers, power_w; their sums are `bill_total`.

    Examples
    --------
    >>> import railcore as rc
    >>> bill = rc.rail_only(gpus=1024, hb_domain_size=8, radix=64).parts.bill()
    >>> table = rc.bill_table(bill, rc.price_book("street2025"))
    >>> print(table[["part", "scope", "count"]].to_string(index=False))
           part        scope  count
         switch     switches   32.0
    transceiver   host links 1024.0
    transceiver  host optics 1024.0
         switch     switches   16.0
    transceiver switch links 2048.0
    """
    rows = []
    for line in _included(bill, include):
        row = {name: getattr(line, name) for name in ("network", "part", "scope", "tier", "item")}
        row |= {"count": float(prices.pieces(line)), "units": float(line.units), "cost_usd": float(prices.of(line))}
        rows.append(row | ({} if powers is None else {"power_w": float(powers.of(line))}))
    return pd.DataFrame(rows)


def merged_bill(bill: Bill) -> Bill:
    """A bill with one line for each kind of part, scope, item and rate of a network: tiers are added up (tier 0).

    Several totals of the same bill are faster so.
    """
    lines: dict[tuple[object, ...], BillLine] = {}
    for line in bill:
        key = line.network, line.part, line.scope, line.item, line.rate_Bps, line.count is None
        if key in lines:
            count = None if line.count is None else lines[key].count + line.count
            lines[key] = replace(lines[key], units=lines[key].units + line.units, count=count, tier=0)
        else:
            lines[key] = line
    return tuple(lines.values())


def include_text(include: Collection[str] = NETWORK) -> str:
    """What a bill includes, as tables say it: "switches, switch links, host links, host optics"."""
    return ", ".join(scope for scope in SCOPES if scope in include)


def _included(bill: Bill, include: Collection[str]) -> list[BillLine]:
    for scope in include:
        one_of("include", scope, SCOPES)
    return [line for line in bill if line.scope in include]
