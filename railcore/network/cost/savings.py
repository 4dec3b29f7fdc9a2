"""What rail-only and oversubscribed networks save on the any-to-any Clos, and the prices that a saving allows."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import units
from railcore.network.cost.prices import PriceBook, part_totals, parts_breakdown
from railcore.network.topology.clos import rail_parts

RAIL_NETWORKS = ("rail_optimized", "rail_only")


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

    Parameters
    ----------
    gpus, hb_domain_size
        GPUs of the cluster and of an HB domain (scale-up or NVLink domain).
    radix
        Ports of a switch.
    prices, powers
        Books of prices [USD] and of peak powers [W].
    share
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
        ("rail_only", rail_parts(n, k, ports, rails_per_switch=None if share else 1)),
    ):
        table |= {f"{what}_{name}": values for what, values in part_totals(parts, prices, powers).items()}
    table["switch_ratio"] = table["switches_rail_only"] / table["switches_rail_optimized"]
    for what, unit in (("cost", "usd"), ("power", "w")):
        table[f"{what}_saving"] = saving(table[f"{what}_{unit}_rail_only"], table[f"{what}_{unit}_rail_optimized"])
    return pd.DataFrame(table)


def cluster_layers(oversubscription: float) -> dict[str, float]:
    """Oversubscription of the layer over the rails by network: rail-optimized, with this layer, rail-only."""
    layers = sorted({1.0, float(oversubscription), np.inf})
    return {{1.0: "rail-optimized", np.inf: "rail-only"}.get(s, f"rails + layer {s:g}:1"): s for s in layers}


def cluster(
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
    layers = cluster_layers(oversubscription)
    parts = rail_parts(gpus, hb_domain_size, radix, list(layers.values()), rails_per_switch=None)
    table = pd.DataFrame({"network": list(layers), **part_totals(parts, prices, powers)})
    table = table.drop(columns=["ports", "links"])
    return table.assign(cost_saved=1 - table["cost_usd"] / table["cost_usd"].iloc[0])


def cluster_breakdown(
    gpus: int, hb_domain_size: int, radix: int, oversubscription: float, prices: PriceBook, powers: PriceBook
) -> pd.DataFrame:
    """Cost and power by part and tier of the networks of `cluster`.

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
    for name, s in cluster_layers(oversubscription).items():
        parts = rail_parts(gpus, hb_domain_size, radix, s, rails_per_switch=None)
        frames.append(parts_breakdown(parts, prices, powers).assign(network=name))
    return pd.concat(frames, ignore_index=True)


def contenders(
    gpus: int, hb_domain_size: int, radix: int, oversubscriptions: ArrayLike, prices: PriceBook, powers: PriceBook
) -> pd.DataFrame:
    """The any-to-any Clos with thinner leaves, and rails under a thinner layer, at each oversubscription.

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
    layered = rail_parts(gpus, hb_domain_size, radix, ratios, rails_per_switch=None)
    networks = [("rails under an oversubscribed layer", ratios, layered)]
    for ratio in ratios[np.isfinite(ratios)]:
        tree = rail_parts(gpus, 1, radix, rails=1, below=(ratio,))
        networks.append(("Clos with oversubscribed leaves", np.atleast_1d(ratio), tree))
    frames = [
        pd.DataFrame({"network": name, "oversubscription": ratio, **part_totals(parts, prices, powers)})
        for name, ratio, parts in networks
    ]
    table = pd.concat(frames, ignore_index=True).drop(columns=["tiers", "ports", "links"])
    full = part_totals(rail_parts(gpus, hb_domain_size, radix, 1), prices, powers)["cost_usd"]
    return table.assign(relative_cost=table["cost_usd"] / float(full))


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
    return table[["gpus", "radix"]].assign(least=least, most=most)


def ratio_for_total(row: pd.Series, total_usd: float, port_and_transceiver_usd: float) -> float:
    """Ratio transceiver / port that gives a rail-optimized network this total, their sum being known.

    total = P p + T q with p + q known: q = (total - P (p + q)) / (T - P). row: of a `compare` table.
    """
    ports, transceivers = row["ports_rail_optimized"], row["transceivers_rail_optimized"]
    transceiver = (total_usd - ports * port_and_transceiver_usd) / (transceivers - ports)
    return float(transceiver / (port_and_transceiver_usd - transceiver))


def network_curve(
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
