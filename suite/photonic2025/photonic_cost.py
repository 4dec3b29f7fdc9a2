"""Cost and power of photonic rails beside electrical networks for the same GPUs, and what a circuit switch serves."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog.arguments import CountArray, NonNegativeArray, checked
from railcore.catalog.checks import whole
from railcore.catalog.units import significant
from railcore.network.bill import bill_total
from railcore.network.cost import part_totals, share_saved, total_cost, with_book_names, with_domain_warnings
from railcore.network.price_books import PriceBook
from railcore.network.topology.clos import rail_parts
from railcore.network.topology.photonic import circuit_parts, ring_lengths

PHOTONIC = "photonic rails"
CITED = ", as cited"  # after the name of a circuit switch: with the ports of the switch that its source cites
ELECTRICAL_NETWORKS: Mapping[str, dict[str, Any]] = {  # options of `rail_parts`
    "rail-optimized": {"oversubscription": 1.0},
    "fat tree": {"rails": 1},
    "rail-only": {"rails_per_switch": None},
}


@checked
def photonic_network_costs(
    gpus: CountArray,
    hb_domain_size: CountArray,
    radix: CountArray,
    prices: PriceBook,
    powers: PriceBook,
    ocs_ports: NonNegativeArray | None = None,
    **wiring,
) -> pd.DataFrame:
    """Photonic rails and electrical networks at the same link speed, a row for each network and element.

    Electrical are rail-optimized, a fat tree over all GPUs, and rail-only with rails that share switches.

    Parameters
    ----------
    gpus, hb_domain_size
        GPUs of the cluster and of an HB domain (scale-up or NVLink domain).
    radix
        Ports of a packet switch.
    prices, powers
        Books of prices [USD] and of peak powers [W], with circuit ports.
    ocs_ports
        Ports of a circuit switch, all of them bought; None counts the ports in use alone, whatever switch has them.
    **wiring
        Of the NICs, as in `circuit_parts`.

    Returns
    -------
    Columns network, gpus, hb_domain_size, tiers, switches, ports, transceivers, cost_usd, power_w, those of
    `photonic_savings`, price_book, power_book; NaN where rails do not fit into a circuit switch. attrs["warnings"]:
    texts where the GPUs of a row do not fill HB domains, and where a book is scaled from another link rate.
    """
    radices = np.ones(1, np.int64) if ocs_ports is None else whole("ocs_ports", ocs_ports)
    asked = {"gpus": gpus, "hb_domain_size": hb_domain_size, "radix": radix}
    checked_sizes = (whole(name, value) for name, value in asked.items())
    n, k, ports, ocs = (array.ravel() for array in np.broadcast_arrays(*checked_sizes, radices))
    parts = circuit_parts(n, k, ocs, **wiring)
    switched = ocs_ports is not None
    cost, power = (bill_total(parts.bill(switched), book) for book in (prices, powers))
    clusters = {"gpus": n, "hb_domain_size": k}
    counts = {
        "tiers": 1,
        "switches": parts.switches if switched else np.nan,
        "ports": parts.switch_ports if switched else parts.used_ports.astype(float),
        "transceivers": parts.transceivers,
        "cost_usd": cost,
        "power_w": power,
    }
    blocks = [pd.DataFrame({"network": PHOTONIC} | clusters | counts)]
    for network, shape in ELECTRICAL_NETWORKS.items():
        totals = part_totals(rail_parts(n, k, ports, **shape), prices, powers.listed)
        blocks.append(pd.DataFrame({"network": network} | clusters | {name: totals[name] for name in counts}))
    table = pd.concat(blocks, ignore_index=True)
    table = with_domain_warnings(photonic_savings(table), n, k)
    return with_book_names(table, prices, powers, circuits=True)


def photonic_savings(table: pd.DataFrame) -> pd.DataFrame:
    """A table of networks with what photonic rails save of each.

    table: columns network, cost_usd and power_w; the same clusters in the same order for each network, photonic rails
    first. Adds cost_saved and power_saved (share of the row's; below 0 where photonic rails take more), cost_ratio and
    power_ratio (the row's over theirs).
    """
    photonic = table[table["network"] == PHOTONIC]
    for what, column in (("cost", "cost_usd"), ("power", "power_w")):
        mine = np.resize(photonic[column].to_numpy(), len(table))
        table[f"{what}_saved"], table[f"{what}_ratio"] = share_saved(mine, table[column]), table[column] / mine
    return table


def photonic_ownership(table: pd.DataFrame, years: float, electricity_price: float, pue: float) -> pd.DataFrame:
    """Cost of owning the networks of a table over years at full load, and when photonic rails have paid for themselves.

    Parameters
    ----------
    table
        `photonic_network_costs`.
    years, electricity_price, pue
        As in `total_cost`.

    Returns
    -------
    The table with energy_usd and total_usd; total_saved (share of the row's total that photonic rails save);
    payback_years, after which the energy that they save has paid what they cost more than the row: 0 where they cost
    less, infinite where they save no energy.
    """
    usd_per_watt = [float(total_cost(0, 1, span, electricity_price, pue)["energy_usd"]) for span in (years, 1)]
    table = table.assign(energy_usd=table["power_w"] * usd_per_watt[0])
    table["total_usd"] = table["cost_usd"] + table["energy_usd"]
    photonic = table[table["network"] == PHOTONIC]
    cost, power, total = (np.resize(photonic[name], len(table)) for name in ("cost_usd", "power_w", "total_usd"))
    dearer, saved = cost - table["cost_usd"], (table["power_w"] - power).clip(lower=0) * usd_per_watt[1]  # a year
    after = (dearer / saved).where(dearer > 0, 0.0).mask(dearer.isna())
    return table.assign(total_saved=share_saved(total, table["total_usd"]), payback_years=after)


def cheapest_planes(plans: pd.DataFrame, circuit_switch: str) -> int:
    """Planes with which a circuit switch serves a cluster at the least cost; as many as it can have where none do.

    plans: of `circuit_switch_plans`.
    """
    mine = plans[plans["circuit_switch"] == circuit_switch].set_index("planes")["cost_usd"]
    return int(mine.map(significant).idxmin() if mine.notna().any() else mine.index.max())


def circuit_switch_plans(
    switches: Iterable[str],
    gpus: int,
    hb_domain_size: int,
    radix: int,
    prices: PriceBook,
    powers: PriceBook,
    nic_ports: int = 2,
    **wiring,
) -> pd.DataFrame:
    """What each circuit switch would take for one cluster, beside electrical networks for the same GPUs.

    Parameters
    ----------
    switches
        Of the catalog's circuit_switches; one whose source cites a switch of other ports has rows for that one too.
    gpus, hb_domain_size
        GPUs of the cluster and of an HB domain (scale-up or NVLink domain).
    radix
        Ports of a packet switch of the electrical networks.
    prices, powers
        Books of prices [USD] and of peak powers [W], with circuit ports.
    nic_ports
        Ports of a NIC.
    **wiring
        Others of `circuit_parts`.

    Returns
    -------
    A row for each switch and each number of planes that divides the ports of a NIC. Columns circuit_switch, ports,
    reconfiguration_s, planes, largest_cluster [GPUs], rings (numbers of GPUs around which rings close, `ring_lengths`),
    rails_per_switch, switches, ports_used (share), cost_usd, power_w, rail_optimized_cost_usd and rail_only_cost_usd,
    price_book, power_book; NaN where a rail does not fit.
    """
    electrical = {}
    for network in ("rail-optimized", "rail-only"):
        built = rail_parts(gpus, hb_domain_size, radix, **ELECTRICAL_NETWORKS[network])
        electrical[f"{network.replace('-', '_')}_cost_usd"] = float(part_totals(built, prices, powers)["cost_usd"])
    sizes = []
    for item in (catalog.item("circuit_switches", name) for name in switches):
        cited = [(f"{item.name}{CITED}", item, item["ports_reference"])] if "ports_reference" in item else []
        sizes += [(item.name, item, item["ports"]), *cited]
    rows = []
    for name, item, ports in sizes:
        for planes in (number for number in range(1, nic_ports + 1) if nic_ports % number == 0):
            parts = circuit_parts(gpus, hb_domain_size, int(ports), nic_ports, planes, **wiring)
            row = {
                "circuit_switch": name,
                "ports": int(ports),
                "reconfiguration_s": item.get("reconfiguration_time", np.nan),
                "planes": planes,
                "largest_cluster": int(parts.reach),
                "rings": ring_lengths(nic_ports, planes, wiring.get("fibres_per_port", 1)),
                "rails_per_switch": float(parts.rails_per_switch),
                "switches": float(parts.switches),
                "ports_used": float(parts.used_ports / parts.switch_ports),
                "cost_usd": float(bill_total(parts.bill(), prices)),
                "power_w": float(bill_total(parts.bill(), powers)),
                **electrical,
            }
            rows.append(row)
    return with_book_names(pd.DataFrame(rows), prices, powers, circuits=True)
