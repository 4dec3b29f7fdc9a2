"""Parts times prices and powers: purchase, energy over years, what a printed saving says about unknown prices."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog, units
from railcore.network.topology.clos import Parts, positive_integer, rail_parts
from railcore.network.topology.rails import RailFabric, rails_that_share


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


def _book(family: str, name: str, what: str) -> PriceBook:
    item = catalog.item(family, name)
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
            rows.append(
                ("transceivers", tier, 2 * links, prices.transceiver * 2 * links, powers.transceiver * 2 * links)
            )
    return pd.DataFrame(rows, columns=["part", "tier", "count", "cost_usd", "power_w"])


def by_part(
    gpus: int, hb_domain_size: int, radix: int, oversubscription: float, prices: PriceBook, powers: PriceBook
) -> pd.DataFrame:
    """`breakdown` of rail-optimized, of rails under a layer with this oversubscription, and of rail-only.

    Rows network, part, tier, count, cost_usd, power_w.
    """
    frames = []
    for s in sorted({1.0, float(oversubscription), np.inf}):
        name = {1.0: "rail-optimized", np.inf: "rail-only"}.get(s, f"layer {s:g}:1")
        share = rails_that_share(gpus, hb_domain_size, radix) if s == np.inf else 1
        parts = rail_parts(gpus, hb_domain_size, radix, s, rails_per_switch=share)
        frames.append(breakdown(parts, prices, powers).assign(network=name))
    return pd.concat(frames, ignore_index=True)


def compare(
    gpus: ArrayLike,
    hb_domain_size: ArrayLike,
    radix: ArrayLike,
    prices: PriceBook,
    powers: PriceBook,
    share: bool = True,
) -> pd.DataFrame:
    """Rail-only beside rail-optimized, a row for each element of the broadcast arguments.

    Columns gpus, hb_domain_size, radix; tiers, switches, ports, links, transceivers, cost_usd, power_w of each (ending
    in _rail_optimized and _rail_only); switch_ratio (rail-only over rail-optimized), cost_saving, power_saving.
    share: rails that are less than a switch share one, as the documents count.
    """
    n, k, ports = (array.ravel() for array in np.broadcast_arrays(gpus, hb_domain_size, radix))
    together = rails_that_share(n, k, ports) if share else 1
    table = {"gpus": n, "hb_domain_size": k, "radix": ports}
    for name, parts in (
        ("rail_optimized", rail_parts(n, k, ports, 1)),
        ("rail_only", rail_parts(n, k, ports, np.inf, rails_per_switch=together)),
    ):
        for what in ("tiers", "switches", "ports", "links", "transceivers"):
            table[f"{what}_{name}"] = getattr(parts, what)
        table[f"cost_usd_{name}"] = network_total(parts, prices)
        table[f"power_w_{name}"] = network_total(parts, powers)
    table["switch_ratio"] = table["switches_rail_only"] / table["switches_rail_optimized"]
    for what, unit in (("cost", "usd"), ("power", "w")):
        table[f"{what}_saving"] = saving(table[f"{what}_{unit}_rail_only"], table[f"{what}_{unit}_rail_optimized"])
    return pd.DataFrame(table)


def summary(table: pd.DataFrame) -> dict[str, float]:
    """What the documents' texts say of a `compare` table, by the last part of the claims' ids.

    Savings from least to most [USD, W]; radix 64: tiers and switch_ratio; most cost_saving; the radix that saves least;
    and the largest ratio of parts that can fail, switches and links, rail-only over rail-optimized.
    """
    money = table["cost_usd_rail_optimized"] - table["cost_usd_rail_only"]
    power = table["power_w_rail_optimized"] - table["power_w_rail_only"]
    at_64 = table[table["radix"] == 64].iloc[0]
    can_fail = [table[f"switches_{name}"] + table[f"links_{name}"] for name in ("rail_only", "rail_optimized")]
    return {
        "cost_saving_min": money.min(),
        "cost_saving_max": money.max(),
        "power_saving_min": power.min(),
        "power_saving_max": power.max(),
        "intro_cost_saving_max": table["cost_saving"].max(),
        "r64_switch_ratio": at_64["switch_ratio"],
        "r64_tiers_rail_optimized": at_64["tiers_rail_optimized"],
        "r64_tiers_rail_only": at_64["tiers_rail_only"],
        "worst_radix": least_saving_radix(table),
        "fault_parts_ratio": (can_fail[0] / can_fail[1]).max(),
    }


def least_saving_radix(table: pd.DataFrame) -> int:
    """Radix with the least cost saving in every cluster size of a `compare` table, the smallest of tied ones, or 0."""
    least = table.assign(saving=table["cost_saving"].round(9))
    worst = [set(part.loc[part["saving"] == part["saving"].min(), "radix"]) for _, part in least.groupby("gpus")]
    return min(set.intersection(*worst), default=0)


def contenders(
    gpus: int, hb_domain_size: int, radix: int, oversubscriptions: ArrayLike, prices: PriceBook, powers: PriceBook
) -> pd.DataFrame:
    """The any-to-any Clos with thinner leaves, and rails under a thinner layer, at each oversubscription.

    Rows network, oversubscription, switches, transceivers, cost_usd, power_w, relative_cost (to the full Clos).
    """
    s = np.asarray(oversubscriptions, float)
    layer = rail_parts(gpus, hb_domain_size, radix, s)
    thinned = [rail_parts(gpus, 1, radix, np.inf, rails=1, below=(r,)) for r in s if np.isfinite(r)]
    full = float(network_total(rail_parts(gpus, hb_domain_size, radix, 1), prices))
    rows = [("rails whole, layer over them oversubscribed", r, part) for r, part in zip(s, _each(layer), strict=True)]
    finite = [r for r in s if np.isfinite(r)]
    rows += [("Clos with oversubscribed leaves", r, part) for r, part in zip(finite, thinned, strict=True)]
    table = [
        (
            name,
            r,
            int(p.switches),
            int(p.transceivers),
            float(network_total(p, prices)),
            float(network_total(p, powers)),
        )
        for name, r, p in rows
    ]
    frame = pd.DataFrame(table, columns="network oversubscription switches transceivers cost_usd power_w".split())
    return frame.assign(relative_cost=frame["cost_usd"] / full)


def _each(parts: Parts) -> list[Parts]:
    """The elements of vectorised parts, one by one."""
    whole = (parts.tiers, parts.switches_by_tier, parts.links_by_tier, parts.radix)
    return [Parts(*(array[..., i] for array in whole)) for i in range(parts.tiers.size)]


def saving(less: ArrayLike, more: ArrayLike) -> np.ndarray:
    """Share saved, 1 - less / more; 0 where both are 0."""
    less, more = np.asarray(less, dtype=float), np.asarray(more, dtype=float)
    return np.where(more > 0, 1 - less / np.where(more > 0, more, 1), 0.0)


def ratio_bounds(table: pd.DataFrame, low: ArrayLike, high: ArrayLike) -> pd.DataFrame:
    """Ratios r = transceiver / port that give each row of a `compare` table a saving from `low` to `high`.

    saving(r) = (dP + r dT) / (P + r T), with P ports and T transceivers of rail-optimized and dP, dT what rail-only
    has less, is monotone in r, so each bound is r = (s P - dP) / (dT - s T). Columns gpus, radix, least, most (0 to
    infinity; least > most where no ratio does). Rows hold together from the largest `least` to the smallest `most`.
    """
    p, t = (table[f"{part}_rail_optimized"].to_numpy(float) for part in ("ports", "transceivers"))
    dp, dt = (p - table["ports_rail_only"].to_numpy(float), t - table["transceivers_rail_only"].to_numpy(float))
    at_zero, at_infinity = dp / p, dt / t
    lower, upper = np.minimum(at_zero, at_infinity), np.maximum(at_zero, at_infinity)
    ends = []
    for share in (np.broadcast_to(np.asarray(bound, float), p.shape) for bound in (low, high)):
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = (share * p - dp) / (dt - share * t)
        before = np.where(at_infinity > at_zero, share <= at_zero, share >= at_zero)
        ends.append(np.where(before, 0.0, np.where((share > lower) & (share < upper), inside, np.inf)))
    never = (np.asarray(high) < lower) | (np.asarray(low) > upper)
    bounds = {"least": np.where(never, np.inf, np.minimum(*ends)), "most": np.where(never, 0.0, np.maximum(*ends))}
    return table[["gpus", "radix"]].assign(**bounds)


def network_curve(
    gpus: list[int],
    hb_domain_size: int,
    links: list[tuple[float, int]],
    book_Bps: float,
    prices: PriceBook,
    powers: PriceBook,
    exponents: tuple[float, float],
) -> pd.DataFrame:
    """Cost and power of rail-optimized networks, a row for each (rate, radix) of `links` and each number of GPUs.

    links: link rate [bytes/s, one direction] and radix; book_Bps: rate of the book's parts; exponents: of price and of
    power, (rate / book_Bps) ** exponent. Columns gpus, link_rate, radix, link, cost_usd, power_w.
    """
    frames = []
    for rate, radix in links:
        scale = [(rate / book_Bps) ** exponent for exponent in exponents]
        table = compare(gpus, hb_domain_size, radix, prices.scaled(scale[0]), powers.scaled(scale[1]))
        table = table.rename(columns={"cost_usd_rail_optimized": "cost_usd", "power_w_rail_optimized": "power_w"})
        name = f"{units.show(rate, 'bps')}, radix {radix}"
        frames.append(
            table.assign(link=name, link_rate=rate)[["link", "link_rate", "radix", "gpus", "cost_usd", "power_w"]]
        )
    return pd.concat(frames, ignore_index=True)


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
    spares = spares_per_rail * fabric.rails * fabric.planes
    hosts = min(int(plan.hosts_per_leaf), len(fabric.endpoints(1)))
    switches[0] += spares
    if transceivers:
        links[0] += spares * hosts
        links[1:2] += spares * int(plan.uplinks(1, plan.hosts_per_leaf))
    return Parts(parts.tiers, switches, links, parts.radix)


def redundancy(cases: pd.DataFrame, hb_domain_size: int, prices: PriceBook) -> pd.DataFrame:
    """Cost of rail-only with redundant parts over the any-to-any Clos without, for cases with columns gpus and radix.

    Columns shared (rails that are less than a switch share one), none, spare_switch, spare_switch_and_optics (one for
    each rail), everything_doubled.
    """
    rows = []
    for n, k in cases[["gpus", "radix"]].itertuples(index=False):
        clos = float(network_total(rail_parts(n, hb_domain_size, k, 1), prices))
        together = int(rails_that_share(n, hb_domain_size, k))
        for share in sorted({together, 1}, reverse=True):
            fabric = RailFabric(n, hb_domain_size, k, rails_per_switch=share)
            ways = (fabric.parts, with_spares(fabric, 1, False), with_spares(fabric, 1, True), doubled(fabric.parts))
            rows.append((n, k, share, *(float(network_total(parts, prices)) / clos for parts in ways)))
    columns = "gpus radix rails_per_switch none spare_switch spare_switch_and_optics everything_doubled".split()
    return pd.DataFrame(rows, columns=columns)


def ownership(
    gpus: int,
    hb_domain_size: int,
    radix: int,
    port_price: float,
    transceiver_price: float,
    port_power: float,
    transceiver_power: float,
    years: float,
    electricity_price: float,
    pue: float,
    dac_price: float = 0.0,
    dac_power: float = 0.0,
    load: float = 1.0,
) -> pd.DataFrame:
    """Cost over years of rail-optimized and rail-only networks, all optics and with copper to the hosts.

    Prices [USD], powers [W] of one part, electricity_price [USD/J]. Rows network, host_links, purchase_usd, power_w,
    energy_usd, total_usd.
    """
    prices = PriceBook(port_price, transceiver_price, dac_price)
    powers = PriceBook(port_power, transceiver_power, dac_power)
    together = rails_that_share(gpus, hb_domain_size, radix)
    rows = []
    for name, s, share in (("rail-optimized", 1, 1), ("rail-only", np.inf, together)):
        parts = rail_parts(gpus, hb_domain_size, radix, s, rails_per_switch=share)
        for links, copper in (("optics", 0), ("copper", 1)):
            power = float(network_total(parts, powers, copper))
            costs = total_cost(float(network_total(parts, prices, copper)), power, years, electricity_price, pue, load)
            rows.append(
                {"network": name, "host_links": links, "power_w": power, **{k: float(v) for k, v in costs.items()}}
            )
    return pd.DataFrame(rows)


def ownership_saving(**inputs) -> float:
    """Share of the total cost of owning an all-optics rail-optimized network that rail-only saves; see `ownership`."""
    table = ownership(**inputs).query("host_links == 'optics'").set_index("network")["total_usd"]
    return float(saving(table["rail-only"], table["rail-optimized"]))


def sensitivity(ranges: Mapping[str, catalog.Value], fixed: Mapping[str, float]) -> pd.DataFrame:
    """`ownership_saving` with each input of `ranges` at its low and at its high, the others at their value.

    ranges: catalog rows with low and high by input; fixed: the other inputs. Rows input, low, high (texts with units),
    at_low, at_high, centre, for `plotting.tornado`. Raises ValueError for a row without bounds.
    """
    centre = {name: row.value for name, row in ranges.items()}
    at = ownership_saving(**fixed, **centre)
    rows = []
    for name, row in ranges.items():
        if row.low is None or row.high is None:
            raise ValueError(f"ranges[{name!r}] has no low and high: give them in the catalog")
        texts = [units.number(units.convert(value, row.unit), 4) for value in (row.low, row.high)]
        ends = [ownership_saving(**fixed, **{**centre, name: value}) for value in (row.low, row.high)]
        rows.append((f"{name.replace('_', ' ')} [{row.unit}]", *texts, *ends, at))
    return pd.DataFrame(rows, columns=["input", "low", "high", "at_low", "at_high", "centre"])


def shown_table(table: pd.DataFrame, power: bool) -> pd.DataFrame:
    """A `compare` table as the documents print theirs: counts of both networks and the savings in per cent."""
    names = {"gpus": "GPUs", "radix": "switch radix"}
    for part in ("switches", "transceivers"):
        names |= {f"{part}_rail_optimized": f"{part}, rail-optimized", f"{part}_rail_only": f"{part}, rail-only"}
    shown = table[list(names)].rename(columns=names)
    for what in ("cost", "power") if power else ("cost",):
        shown[f"{what} saved"] = [f"{share:.1%}" for share in table[f"{what}_saving"]]
    return shown
