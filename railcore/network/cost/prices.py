"""Price and power books of the catalog, and what a network's parts come to."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from railcore.facts import catalog, units
from railcore.facts.checks import at_least, whole
from railcore.network.topology.clos import Parts


@dataclass(frozen=True)
class PriceBook:
    """Price [USD] or peak power [W] of one switch port, one transceiver, and one passive copper cable (DAC)."""

    port: float
    transceiver: float
    dac: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            at_least(name, value)

    def scaled(self, factor: float) -> "PriceBook":
        """The book for parts that cost or draw `factor` times as much."""
        return PriceBook(*(value * factor for value in vars(self).values()))


def price_book(name: str) -> PriceBook:
    """Prices of a book of the catalog [USD]. Raises UnknownName listing the nearest books."""
    return _book("prices", name, "price")


def power_book(name: str) -> PriceBook:
    """Peak powers of a book of the catalog [W]. Raises UnknownName listing the nearest books."""
    return _book("powers", name, "power")


def book_rate(name: str) -> float:
    """Link rate that a price book's ports and transceivers are for, one direction [bytes/s]."""
    if "bandwidth" not in catalog.item("prices", name):
        raise ValueError(
            f"price book {name!r} has no row 'bandwidth': add the link rate of its parts, such as 400 Gbps"
        )
    return catalog.item("prices", name)["bandwidth"]


def _book(family: str, name: str, what: str) -> PriceBook:
    books = [book for book in catalog.names(family) if f"port_{what}" in catalog.item(family, book)]
    if name not in books:
        raise catalog.UnknownName(f"book of {family}", name, books)
    item, wanted = catalog.item(family, name), {"price": "USD", "power": "W"}[what]
    for row in item.rows:
        if row.parameter.endswith(f"_{what}") and units.unit(row.unit)[0] != wanted:
            raise ValueError(f"{family} book {name!r}: {row.parameter} is in {row.unit}: give it in {wanted}")
    dac = item.get(f"dac_{what}", 0.0)
    return PriceBook(item[f"port_{what}"], item[f"transceiver_{what}"], dac)


def book_rows(name: str) -> dict[str, catalog.Value]:
    """Catalog rows of a book's prices and powers, port_price to transceiver_power, with electricity price and PUE."""
    rows = {
        f"{part}_{what}": catalog.item(family, name).row(f"{part}_{what}")
        for family, what in (("prices", "price"), ("powers", "power"))
        for part in ("port", "transceiver")
    }
    return rows | {key: catalog.item("prices", "energy").row(key) for key in ("electricity_price", "pue")}


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
