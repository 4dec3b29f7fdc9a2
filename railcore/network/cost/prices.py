"""Price and power books of the catalog, and what a network's parts come to."""

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from railcore.facts import catalog, units
from railcore.facts.checks import whole
from railcore.network.topology.clos import Parts, rail_parts
from railcore.network.topology.rails import rails_that_share


@dataclass(frozen=True)
class PriceBook:
    """Price [USD] or peak power [W] of one switch port, one transceiver, and one passive copper cable (DAC)."""

    port: float
    transceiver: float
    dac: float = 0.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 0 <= value < math.inf:
                raise ValueError(f"{name} is {value!r}: give a price or power of 0 or more")

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


def book_rows(name: str, parts: tuple[str, ...] = ("port", "transceiver")) -> dict[str, catalog.Value]:
    """Rows of a book's prices and powers, port_price to transceiver_power, with electricity price and PUE."""
    rows: dict[str, catalog.Value] = {}
    for family, what in (("prices", "price"), ("powers", "power")):
        rows |= {f"{part}_{what}": catalog.item(family, name).row(f"{part}_{what}") for part in parts}
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


def breakdown(parts: Parts, prices: PriceBook, powers: PriceBook, copper_tiers: int = 0) -> pd.DataFrame:
    """Rows part, tier, count, cost_usd, power_w of one network; their sums are `network_total`."""
    rows = []
    for tier, (switches, links) in enumerate(zip(parts.switches_by_tier, parts.links_by_tier, strict=True), start=1):
        ports, links = int(switches * parts.radix), int(links)
        rows.append(("switch ports", tier, ports, prices.port * ports, powers.port * ports))
        if tier <= copper_tiers:
            rows.append(("copper cables", tier, links, prices.dac * links, powers.dac * links))
        else:
            rows.append(
                ("transceivers", tier, 2 * links, prices.transceiver * 2 * links, powers.transceiver * 2 * links)
            )
    return pd.DataFrame(rows, columns=["part", "tier", "count", "cost_usd", "power_w"])


def cluster(
    gpus: int, hb_domain_size: int, radix: int, oversubscription: float, prices: PriceBook, powers: PriceBook
) -> pd.DataFrame:
    """One cluster's rail-optimized network, its rails under a layer with this oversubscription, and rail-only.

    Rows network; columns tiers, switches, transceivers, cost_usd, power_w, cost_saved (share of rail-optimized's).
    """
    rows = []
    for s in sorted({1.0, float(oversubscription), np.inf}):
        share = rails_that_share(gpus, hb_domain_size, radix) if s == np.inf else 1
        parts = rail_parts(gpus, hb_domain_size, radix, s, rails_per_switch=share)
        name = {1.0: "rail-optimized", np.inf: "rail-only"}.get(s, f"rails + layer {s:g}:1")
        counts = (int(parts.tiers), int(parts.switches), int(parts.transceivers))
        rows.append((name, *counts, float(network_total(parts, prices)), float(network_total(parts, powers))))
    columns = ["network", "tiers", "switches", "transceivers", "cost_usd", "power_w"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(cost_saved=1 - table["cost_usd"] / table["cost_usd"].iloc[0])


def by_part(
    gpus: int, hb_domain_size: int, radix: int, oversubscription: float, prices: PriceBook, powers: PriceBook
) -> pd.DataFrame:
    """`breakdown` of rail-optimized, of rails under a layer with this oversubscription, and of rail-only.

    Rows network, part, tier, count, cost_usd, power_w.
    """
    frames = []
    for s in sorted({1.0, float(oversubscription), np.inf}):
        name = {1.0: "rail-optimized", np.inf: "rail-only"}.get(s, f"rails + layer {s:g}:1")
        share = rails_that_share(gpus, hb_domain_size, radix) if s == np.inf else 1
        parts = rail_parts(gpus, hb_domain_size, radix, s, rails_per_switch=share)
        frames.append(breakdown(parts, prices, powers).assign(network=name))
    return pd.concat(frames, ignore_index=True)
