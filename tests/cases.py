"""Twelve fixed clusters through all models: parts, price, power, best strategy and its time, stops a year.

`tests/cases.csv` has the clusters and what came out; tests/test_cases.py computes it again. Whoever moves a number
rewrites the file with `python tests/cases.py`, and says what moved and why. The iteration time is that of platform and
NIC: it does not know the fabric yet.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from railcore import catalog
from railcore.catalog.files import write_whole
from railcore.catalog.tables import csv_text, read_csv
from railcore.deploy import cluster_cost
from railcore.deploy.cluster import Cluster
from railcore.network import reliability
from railcore.network.bill import bill_totals
from railcore.network.price_books import matching_books
from railcore.network.switches import switch_model
from railcore.network.topology.photonic import PhotonicRails
from railcore.network.topology.rails import HBDomains, RailFabric
from railcore.strategies.labels import strategy_label
from railcore.strategies.parts import search
from suite.deployment.part_counts import bill_of_parts, design_parts
from suite.deployment.segment_sizing import SegmentDemand, smallest_segment_fabric

PATH = Path(__file__).with_suffix(".csv")
BOOK, SWITCH, OCS_PORTS = "street2025", "SN5600", 576
INPUTS = ("case", "model", "platform", "gpus", "batch", "fabric", "radix", "planes")
COUNTS = ("switches", "ports", "link_ends", "transceivers", "cables")
NUMBERS = ("price_usd", "power_w", "typical_power_w", "iteration_s", "stops_per_year")
COLUMNS = (*INPUTS, *COUNTS, *NUMBERS, "strategy")
SHAPES: Mapping[str, dict[str, Any]] = {  # of `RailFabric`
    "rail-optimized": {"oversubscription": 1.0},
    "rail-only": {"rails_per_switch": None},
    "Clos": {"rails": 1},
    "rails under a 4:1 layer": {"oversubscription": 4.0},
}
RAILS_PER_SWITCH = {"multi-rail segments": 0, "single-rail segments": 1}


def results(case: Mapping[str, str]) -> dict[str, Any]:
    """What comes out for one row of the file, by the names of COUNTS, NUMBERS and "strategy"."""
    platform, gpus, batch = case["platform"], int(case["gpus"]), int(case["batch"])
    best = search(case["model"], platform, gpus, batch, progress=False).best.iloc[0]
    found = {"strategy": strategy_label(best), "iteration_s": float(best["sequence_s"]) * batch}
    network = _five_networks(case) if case["fabric"] == "five networks" else _one_network(case)
    return {**network, **found}


def _one_network(case: Mapping[str, str]) -> dict[str, Any]:
    """Counts, price, power and stops of one scale-out network."""
    fabric, planes = _fabric(case), int(case["planes"])
    books = matching_books(
        BOOK, rate_Bps=(fabric.nic_rate_Bps if isinstance(fabric, HBDomains) else fabric.nic_Bps) / planes
    )
    if isinstance(fabric, RailFabric | PhotonicRails):
        bill = fabric.parts.bill()
    else:
        bill = bill_of_parts(design_parts(fabric))
    return _network(bill_totals(bill, *books)) | {"stops_per_year": _stops(fabric, case["platform"])}


def _five_networks(case: Mapping[str, str]) -> dict[str, Any]:
    """The same of all networks of a cluster; stops are those of the scale-out network."""
    box = catalog.item("platforms", case["platform"])
    nodes, nic_Bps = int(case["gpus"]) // int(box["gpus"]), box["nic_bandwidth"]
    cluster = Cluster(nodes, int(box["gpus"]), oversubscription=1.0, nic_Bps=nic_Bps)
    slow = {"management": matching_books("management2025")}
    table = cluster_cost.cluster_network_parts(cluster, *matching_books(BOOK), slow)
    totals = table[["switches", "ports", "links", "transceivers", "cables", "cost_usd", "power_w", "typical_power_w"]]
    totals = totals.sum().to_dict()
    totals["link_ends"] = 2 * (totals["links"] - totals["cables"])
    return _network(totals) | {"stops_per_year": _stops(cluster.networks["scale-out"].fabric, case["platform"])}


def _network(totals: Mapping[str, Any]) -> dict[str, Any]:
    counts = {name: int(totals[name]) for name in COUNTS}
    return counts | {"price_usd": float(totals["cost_usd"])} | {name: float(totals[name]) for name in NUMBERS[1:3]}


def _fabric(case: Mapping[str, str]) -> Any:
    """The scale-out network of a case."""
    box, gpus, kind = catalog.item("platforms", case["platform"]), int(case["gpus"]), case["fabric"]
    domain, nic = int(box["gpus"]), {"nic_Bps": box["nic_bandwidth"]}
    if kind in SHAPES:
        shape = SHAPES[kind] | nic
        return RailFabric(gpus, domain, int(case["radix"]), planes=int(case["planes"]), **shape)
    if kind in RAILS_PER_SWITCH:
        rails = {"gpus_per_server": domain, "rails_per_switch": RAILS_PER_SWITCH[kind]}
        demand = SegmentDemand(gpus, switch_model(SWITCH), port_Bps=box["nic_bandwidth"], rails_apart=False, **rails)
        return smallest_segment_fabric(demand).fabric
    return PhotonicRails(gpus, domain, OCS_PORTS, rails_per_switch=None, **nic)


def _stops(fabric: Any, platform: str) -> float:
    """Failures a year that stop a job on all GPUs."""
    parts = reliability.parts_at_risk(fabric, platform)
    events = reliability.expected_failures(parts, "value")["events_per_year"]
    return float(events[parts["gpus_stopped"] > 0].sum())


def rewritten() -> str:
    """The file with what comes out now; numbers of at most 9 digits, so that machines write the same."""
    rows = []
    for case in read_csv(PATH):
        found = results(case)
        rows.append({**case, **found, **{name: f"{found[name]:.9g}" for name in NUMBERS}})
    return csv_text(COLUMNS, rows)


def same(one: float, other: float) -> bool:
    """Whether two numbers are the same to 1e-6 of them."""
    return math.isclose(one, other, rel_tol=1e-6)


if __name__ == "__main__":
    write_whole(PATH, rewritten())
