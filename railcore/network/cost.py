"""Parts times prices and powers: purchase, energy over years, what a printed saving says about unknown prices."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.network.topology.clos import Parts, positive_integer
from railcore.network.topology.rails import RailFabric


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


def price_book(name: str) -> PriceBook:
    """Prices of a book of the catalog [USD]. Raises UnknownName listing the nearest books."""
    return _book("prices", name, "price")


def power_book(name: str) -> PriceBook:
    """Peak powers of a book of the catalog [W]. Raises UnknownName listing the nearest books."""
    return _book("powers", name, "power")


def _book(family: str, name: str, what: str) -> PriceBook:
    item = catalog.item(family, name)
    dac = item[f"dac_{what}"] if f"dac_{what}" in item else 0.0
    return PriceBook(item[f"port_{what}"], item[f"transceiver_{what}"], dac)


def network_total(parts: Parts, book: PriceBook, copper_tiers: int = 0) -> np.ndarray:
    """Price [USD] or peak power [W] of a network: C = P k N_SW + T N_TR + D N_DAC.

    Port P of all N_SW switches of radix k, transceiver T at both ends of an optical link, cable D. Links below tiers
    1 to `copper_tiers` are copper (1: host links), the rest optics. Source: railonly2023, section 4.
    """
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
            rows.append(("transceivers", tier, 2 * links, prices.transceiver * 2 * links, powers.transceiver * 2 * links))
    return pd.DataFrame(rows, columns=["part", "tier", "count", "cost_usd", "power_w"])


def saving(less: ArrayLike, more: ArrayLike) -> np.ndarray:
    """Share saved, 1 - less / more; 0 where both are 0."""
    less, more = np.asarray(less, dtype=float), np.asarray(more, dtype=float)
    return np.where(more > 0, 1 - less / np.where(more > 0, more, 1), 0.0)


def ratio_bounds(rows: pd.DataFrame, low: ArrayLike, high: ArrayLike) -> pd.DataFrame:
    """Ratios r = transceiver / port that give each row a saving from `low` to `high`.

    saving(r) = (dP + r dT) / (P + r T) is monotone in r, so each bound is r = (s P - dP) / (dT - s T).
    rows: columns ports, transceivers (of the dearer network), saved_ports, saved_transceivers.
    Gives columns least and most (0 to infinity); least > most where no ratio does. The rows hold together for r from
    the largest `least` to the smallest `most`.
    """
    ports, transceivers = rows["ports"].to_numpy(float), rows["transceivers"].to_numpy(float)
    saved_p, saved_t = rows["saved_ports"].to_numpy(float), rows["saved_transceivers"].to_numpy(float)
    rising = saved_t * ports > saved_p * transceivers
    at_zero, at_infinity = saved_p / ports, saved_t / transceivers

    def crossing(share: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            r = (share * ports - saved_p) / (saved_t - share * transceivers)
        below, above = np.minimum(at_zero, at_infinity), np.maximum(at_zero, at_infinity)
        outside_at_zero = np.where(rising, share <= at_zero, share >= at_zero)
        return np.where(outside_at_zero, 0.0, np.where((share > below) & (share < above), r, np.inf))

    ends = np.stack([crossing(np.broadcast_to(np.asarray(share, float), ports.shape)) for share in (low, high)])
    lower, upper = np.minimum(at_zero, at_infinity), np.maximum(at_zero, at_infinity)
    never = (np.asarray(high) < lower) | (np.asarray(low) > upper)
    least = np.where(never, np.inf, ends.min(axis=0))
    return rows.assign(least=least, most=np.where(never, 0.0, ends.max(axis=0)))


def total_cost(
    purchase_usd: ArrayLike,
    power_w: ArrayLike,
    years: float,
    electricity_price: float,
    pue: float,
    load: float = 1.0,
) -> dict[str, np.ndarray]:
    """Cost of owning a network over years: purchase, energy and their sum [USD].

    energy = power x load x PUE x time x price. power_w: peak [W]; electricity_price [USD/J]; load: mean power over
    peak, 0 to 1. Raises ValueError for negative years or price, a PUE below 1 and a load outside 0 to 1.
    """
    from railcore.facts.units import year

    for name, value, low, high in (
        ("years", years, 0, math.inf),
        ("electricity_price", electricity_price, 0, math.inf),
        ("pue", pue, 1, math.inf),
        ("load", load, 0, 1),
    ):
        if not low <= value <= high:
            raise ValueError(f"{name} is {value!r}: give a number from {low:g} to {high:g}")
    energy = np.asarray(power_w, float) * load * pue * years * year * electricity_price
    purchase = np.asarray(purchase_usd, float)
    return {"purchase_usd": purchase, "energy_usd": energy, "total_usd": purchase + energy}


def doubled(parts: Parts) -> Parts:
    """Every switch and every link twice: a second network beside the first, full redundancy."""
    return Parts(parts.tiers, 2 * parts.switches_by_tier, 2 * parts.links_by_tier, parts.radix)


def with_spares(fabric: RailFabric, spares_per_rail: int = 1, transceivers: bool = True) -> Parts:
    """Parts of a fabric with more tier-1 switches for each rail.

    transceivers: every spare is wired like the switch that it stands by for, optics at both ends, and takes over
    without a hand; else it stands by in the rack and the optics are moved. Raises ValueError for a negative number.
    """
    positive_integer("spares_per_rail", spares_per_rail, least=0)
    parts, plan = fabric.parts, fabric.plan
    switches, links = parts.switches_by_tier.copy(), parts.links_by_tier.copy()
    spares = spares_per_rail * int(fabric.rails or 1) * fabric.planes
    hosts = min(int(plan.hosts_per_leaf), len(fabric.endpoints(1)))
    switches[0] += spares
    if transceivers:
        links[0] += spares * hosts
        links[1:2] += spares * int(plan.uplinks(1, plan.hosts_per_leaf))
    return Parts(parts.tiers, switches, links, parts.radix)


def sensitivity(evaluate, inputs: Mapping[str, tuple[float, float, float]]) -> pd.DataFrame:
    """Result of `evaluate(**values)` with each input at its low and high while the others keep their value.

    inputs: (low, value, high) by name. Gives rows input, low, high, at_low, at_high, for `plotting.tornado`.
    """
    centre = {name: value for name, (_, value, _) in inputs.items()}
    rows = [
        (name, low, high, float(evaluate(**{**centre, name: low})), float(evaluate(**{**centre, name: high})))
        for name, (low, _, high) in inputs.items()
    ]
    return pd.DataFrame(rows, columns=["input", "low", "high", "at_low", "at_high"])
