"""Cost over years: purchase and energy, and which input changes the saving most."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog, units
from railcore.facts.checks import at_least, share
from railcore.facts.sensitivity import tornado_table
from railcore.network.cost.prices import PriceBook, network_total
from railcore.network.cost.savings import saving
from railcore.network.topology.clos import rail_parts


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


def total_cost(
    purchase_usd: ArrayLike,
    power_w: ArrayLike,
    years: float,
    electricity_price: float,
    pue: float,
    load: float = 1.0,
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


def ownership(
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
    Columns network, host_links, power_w, purchase_usd, energy_usd, total_usd.
    """
    rows = []
    for name, layer in (("rail-optimized", 1), ("rail-only", np.inf)):
        parts = rail_parts(gpus, hb_domain_size, radix, layer, rails_per_switch=None)
        for links, copper in (("optics", 0), ("copper", 1)):
            power = network_total(parts, powers, copper)
            costs = total_cost(network_total(parts, prices, copper), power, years, electricity_price, pue)
            rows.append({"network": name, "host_links": links, "power_w": power, **costs})
    return pd.DataFrame(rows).astype(dict.fromkeys(["power_w", "purchase_usd", "energy_usd", "total_usd"], float))


def ownership_saving(gpus: int, hb_domain_size: int, radix: int, years: float, inputs: Mapping[str, float]) -> float:
    """Share of the cost of owning an all-optics rail-optimized network that rail-only saves.

    Parameters
    ----------
    gpus, hb_domain_size, radix, years
        As in `ownership`.
    inputs
        port_price, transceiver_price [USD], port_power, transceiver_power [W], electricity_price [USD/J] and pue.

    Returns
    -------
    Share of the total cost.
    """
    prices, powers = (PriceBook(inputs[f"port_{each}"], inputs[f"transceiver_{each}"]) for each in ("price", "power"))
    rates = inputs["electricity_price"], inputs["pue"]
    table = ownership(gpus, hb_domain_size, radix, prices, powers, years, *rates)
    optics = table[table["host_links"] == "optics"].set_index("network")["total_usd"]
    return float(saving(optics["rail-only"], optics["rail-optimized"]))


def ownership_sensitivity(
    gpus: int, hb_domain_size: int, radix: int, years: float, ranges: Mapping[str, catalog.Value]
) -> pd.DataFrame:
    """`ownership_saving` with each input at its low and at its high, the others at their value.

    Parameters
    ----------
    gpus, hb_domain_size, radix, years
        As in `ownership`.
    ranges
        Catalog rows with low and high of the inputs of `ownership_saving`, such as `book_rows`.

    Returns
    -------
    Table of `tornado_table`, low and high in the units of the rows.

    Raises
    ------
    ValueError
        A row has no low or no high.
    """
    own = {name: row.value for name, row in ranges.items()}

    def at(name: str, value: float) -> float:
        return ownership_saving(gpus, hb_domain_size, radix, years, {**own, name: value})

    table = tornado_table(
        {name: (row.low, row.high) for name, row in ranges.items()},
        at,
        ownership_saving(gpus, hb_domain_size, radix, years, own),
        lambda name, value: units.number(units.convert(value, ranges[name].unit), 4),
    )
    units_of = {name: f" [{row.unit}]" if row.unit != "1" else "" for name, row in ranges.items()}
    return table.assign(input=[units.words(name) + units_of[name] for name in table["input"]])
