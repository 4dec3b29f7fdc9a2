"""Cost over years: purchase and energy, and which price the saving hangs on."""

import math
from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog, units
from railcore.network.cost.prices import PriceBook, network_total
from railcore.network.cost.savings import saving
from railcore.network.topology.clos import rail_parts
from railcore.network.topology.rails import rails_that_share


def energy(power_w: ArrayLike, years: float, pue: float = 1.0, load: float = 1.0) -> np.ndarray:
    """Energy drawn over years [J]: power x load x PUE x time.

    power_w: peak [W]; load: mean power over peak, 0 to 1. Raises ValueError for negative power or years, a PUE below 1
    and a load outside 0 to 1.
    """
    for name, value, low, high in (
        ("power_w", power_w, 0, math.inf),
        ("years", years, 0, math.inf),
        ("pue", pue, 1, math.inf),
        ("load", load, 0, 1),
    ):
        if not np.all((np.asarray(value) >= low) & (np.asarray(value) <= high)):
            raise ValueError(f"{name} is {value!r}: give a number from {low:g} to {high:g}")
    return np.asarray(power_w, float) * load * pue * years * units.year


def total_cost(
    purchase_usd: ArrayLike,
    power_w: ArrayLike,
    years: float,
    electricity_price: float,
    pue: float,
    load: float = 1.0,
) -> dict[str, np.ndarray]:
    """Cost of owning a network over years: purchase, energy and their sum [USD].

    The energy is `energy` x price. electricity_price [USD/J]. Raises ValueError for a negative price; other errors as
    in `energy`.
    """
    if not electricity_price >= 0:
        raise ValueError(f"electricity_price is {electricity_price!r}: give a number from 0 up")
    energy_usd = energy(power_w, years, pue, load) * electricity_price
    purchase = np.asarray(purchase_usd, float)
    return {"purchase_usd": purchase, "energy_usd": energy_usd, "total_usd": purchase + energy_usd}


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
        label = units.words(name) + (f" [{row.unit}]" if row.unit != "1" else "")
        rows.append((label, *texts, *ends, at))
    return pd.DataFrame(rows, columns=["input", "low", "high", "at_low", "at_high", "centre"])
