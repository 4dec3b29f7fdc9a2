"""What rail-only and oversubscribed networks save on the any-to-any Clos, and what printed savings say of prices."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import units
from railcore.network.cost.prices import PriceBook, network_total
from railcore.network.topology.clos import Parts, rail_parts
from railcore.network.topology.rails import rails_that_share

NETWORKS = ("rail_optimized", "rail_only")


def saving(less: ArrayLike, more: ArrayLike) -> np.ndarray:
    """Share saved, 1 - less / more; 0 where both are 0."""
    less, more = np.asarray(less, dtype=float), np.asarray(more, dtype=float)
    return np.where(more > 0, 1 - less / np.where(more > 0, more, 1), 0.0)


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
    if not (table["radix"] == 64).any():
        raise ValueError("table has no row of radix 64, which the documents' texts speak of: compare with radix 64 too")
    at_64 = table[table["radix"] == 64].iloc[0]
    can_fail = [table[f"switches_{name}"] + table[f"links_{name}"] for name in reversed(NETWORKS)]
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

    Rows network, oversubscription, switches, transceivers, cost_usd, power_w, relative_cost (to rail-optimized).
    """
    s = np.asarray(oversubscriptions, float)
    together = np.where(np.isinf(s), rails_that_share(gpus, hb_domain_size, radix), 1)
    layer = rail_parts(gpus, hb_domain_size, radix, s, rails_per_switch=together)
    thinned = [rail_parts(gpus, 1, radix, np.inf, rails=1, below=(r,)) for r in s if np.isfinite(r)]
    full = float(network_total(rail_parts(gpus, hb_domain_size, radix, 1), prices))
    rows = [("rails under an oversubscribed layer", r, part) for r, part in zip(s, _each(layer), strict=True)]
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
    always = ~never & (lower == upper)
    least = np.where(never, np.inf, np.where(always, 0.0, np.minimum(*ends)))
    most = np.where(never, 0.0, np.where(always, np.inf, np.maximum(*ends)))
    bounds = {"least": least, "most": most}
    return table[["gpus", "radix"]].assign(**bounds)


def ratio_for_total(row: pd.Series, total_usd: float, port_and_transceiver_usd: float) -> float:
    """Ratio transceiver / port that gives a rail-optimized network this total, their sum being known.

    total = P p + T q with p + q known: q = (total - P (p + q)) / (T - P). row: of a `compare` table.
    """
    ports, transceivers = row["ports_rail_optimized"], row["transceivers_rail_optimized"]
    transceiver = (total_usd - ports * port_and_transceiver_usd) / (transceivers - ports)
    return float(transceiver / (port_and_transceiver_usd - transceiver))


def network_curve(
    gpus: list[int],
    hb_domain_size: int,
    links: list[tuple[float, int]],
    book_Bps: float,
    prices: PriceBook,
    powers: PriceBook,
    exponents: Sequence[float],
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


def shown_table(table: pd.DataFrame, power: bool) -> pd.DataFrame:
    """A `compare` table as the documents print theirs: counts of both networks and the savings in per cent."""
    names = {"gpus": "GPUs", "radix": "switch radix"}
    for part in ("switches", "transceivers"):
        names |= {f"{part}_rail_optimized": f"{part}, rail-optimized", f"{part}_rail_only": f"{part}, rail-only"}
    shown = table[list(names)].rename(columns=names)
    for what in ("cost", "power") if power else ("cost",):
        shown[f"{what} saved"] = [f"{units.significant(share):.1%}" for share in table[f"{what}_saving"]]
    return shown
