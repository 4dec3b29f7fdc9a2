"""Plans and their models held against what is published of clusters: data/measured/cluster_checks.csv.

Each check asks what the publication states and gives our number for it; its remark says where a value is no test. They
are stored in data/derived/plan_checks.csv, which `published` reads.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import pandas as pd

from railcore import catalog
from railcore.catalog.units import day, hour
from railcore.network.cost import fabric_cost
from railcore.network.price_books import matching_books
from railcore.network.reliability import job_interruptions, mean_time_between_failures
from railcore.network.switches import TECHNOLOGIES
from railcore.network.topology.rails import RailFabric, fat_tree, rail_only, rail_optimized
from railcore.planner.candidates import network_candidates
from railcore.planner.case import case_of
from railcore.planner.planning import plan
from railcore.planner.result import Plan
from railcore.planner.spec_reading import read_spec


class Check(NamedTuple):
    """ours: gives our number in the unit of the publication. remark: what explains an error, or what to know."""

    ours: Callable[[], float]
    remark: str


_LLAMA: dict[str, Any] = {
    "cluster": {"platform": "DGX H100", "gpus": 16384},
    "job": {"model": "Llama-3 405B", "batch": 2048, "runtime": "llama3"},
    "network": {"candidates": ["Clos"]},
}
_LLAMA_SPLIT = {"tensor": 8, "context": 1, "pipeline": 16, "data": 128}
_DEEPSEEK: dict[str, Any] = {
    "cluster": {"platform": "DGX H800", "gpus": 2048},
    "job": {"model": "DeepSeek-V3", "batch": 15360, "precision": "fp8", "runtime": "deepseek2024"},
    "network": {"candidates": ["rail-only"]},
}
_DEEPSEEK_SPLIT = {"tensor": 1, "context": 1, "pipeline": 16, "expert": 64}
_MEGASCALE: dict[str, Any] = {
    "cluster": {"platform": "DGX A100", "gpus": 12288},
    "job": {"model": "GPT-3", "batch": 6144, "runtime": "megatron2022"},
    "network": {"candidates": ["Clos"]},
}
_MEGASCALE_SPLIT = {"tensor": 8, "context": 1, "pipeline": 8}


@cache
def _planned(name: str, split: bool) -> Plan:
    spec, plans = {
        "llama": (_LLAMA, _LLAMA_SPLIT),
        "deepseek": (_DEEPSEEK, _DEEPSEEK_SPLIT),
        "megascale": (_MEGASCALE, _MEGASCALE_SPLIT),
    }[name]
    return plan(spec | {"job": spec["job"] | ({"search": plans} if split else {})})


def _number(name: str, number: str, split: bool = True, times: float = 1.0) -> float:
    best = _planned(name, split).best
    return float("nan") if best is None else best.numbers[number] * times


def _gpu_hours(name: str) -> float:
    """GPU hours of the wall time."""
    return _number(name, "gpus") * _number(name, "days") * day / hour


def _between_stops(gpus: int) -> float:
    """Time between failures that stop a job on so many A100 of a rail-optimized network [s]."""
    table = job_interruptions(gpus, 8, 64, "DGX A100")
    mine = table[(table["fabric"] == "rail-optimized") & (table["stops"] == table["stops"].iloc[0])]
    return mean_time_between_failures(float(mine[mine["rates"] == "value"]["events_per_year"].iloc[0]))


def _price(fabric: Any) -> float:
    """Price of a network of 400 Gbps InfiniBand by the book of plans [M USD]."""
    return float(fabric_cost(fabric, *matching_books(TECHNOLOGIES["InfiniBand"]))["cost_usd"]) / 1e6


def _switches(platform: str, gpus: int, network: str = "rail-optimized", **keys: Any) -> float:
    """Switches of a network of a plan. keys: of the spec's network."""
    spec: dict[str, Any] = {"cluster": {"platform": platform, "gpus": gpus}, "network": keys}
    case = case_of(read_spec(spec | {"job": {"model": "Llama-3 8B", "tokens": 1e12, "batch": 4096}}))
    (fabric,) = (candidate.build(gpus) for candidate in network_candidates(case) if candidate.name == network)
    return float(fabric.parts.switches)  # type: ignore[arg-type]


def _hpn_switches() -> float:
    """Switches of a pod of Alibaba's HPN: leaves with 128 ports of 200 Gbps down and 60 of 400 Gbps up."""
    pod = RailFabric(15360, 8, 128, 1.0, planes=2, tier_oversubscription=(128 / 120,), one_pod=True)
    return float(pod.parts.switches)


def _it_power(platform: str, gpus: int) -> float:
    """Power of servers and a rail-optimized network, cooling left out [MW]."""
    spec: dict[str, Any] = {
        "cluster": {"platform": platform, "gpus": gpus},
        "network": {"candidates": ["rail-optimized"]},
    }
    best = plan(spec | {"job": {"model": "Llama-3 8B", "tokens": 1e12, "batch": 4096}}).best
    return float("nan") if best is None else best.numbers["power_w"] / catalog.item("prices", "energy")["pue"] / 1e6


def _network_share() -> float:
    """Share of the network in the price of 10,000 A100 in DGX A100, radix 40 [%]."""
    spec: dict[str, Any] = {"cluster": {"platform": "DGX A100", "gpus": 10000}}
    spec["network"] = {"candidates": ["Clos"], "radix": 40, "technology": "InfiniBand"}
    best = plan(spec | {"job": {"model": "Llama-3 8B", "tokens": 1e12, "batch": 4096}}).best
    return float("nan") if best is None else 100 * best.numbers["network_usd"] / best.numbers["purchase_usd"]


_RATES = "Our rates are means of several clusters; Meta's research clusters failed far more often at small sizes."
_UNITS = "The size of its leaves and groups is NVIDIA's; other switches are filled."
_PRICES = (
    "By our InfiniBand book, as their cluster has it. The publication's prices follow the Slim Fly paper's method."
)
_SHEET = "No test of a switch's price: the sheet's is among the sources of our book. Its price of a link is not."
CHECKS = {
    "llama31_405b.mfu_16384": Check(lambda: _number("llama", "mfu", times=100), "With the published split of ranks."),
    "deepseek_v3.mfu": Check(
        lambda: _number("deepseek", "mfu", times=100),
        "Theirs counts attention for the causal half; high: for the whole matrix, as ours. As the step time.",
    ),
    "megascale.mfu": Check(lambda: _number("megascale", "mfu", times=100), "As the iteration time."),
    "llama31_405b.gpu_hours": Check(
        lambda: _gpu_hours("llama"),
        "Ours is one run on 15.6T tokens at full size; theirs hold all stages, restarts and smaller starts.",
    ),
    "llama31_405b.effective_time": Check(
        lambda: _number("llama", "goodput", times=100),
        "Its failures are among the sources of our rates: no test of them.",
    ),
    "deepseek_v3.step_time": Check(
        lambda: _number("deepseek", "iteration_s"),
        "With the published split: PP 16, EP 64; software that overlaps experts.",
    ),
    "deepseek_v3.gpu_hours_pretraining": Check(lambda: _gpu_hours("deepseek"), "Ours counts stops and slow time."),
    "megascale.iteration_time": Check(
        lambda: _number("megascale", "iteration_s"),
        "Ours is GPT-3 with Megatron-LM of 2022; MegaScale changes the model and overlaps more. Megatron-LM: 8.57 s.",
    ),
    "megascale.effective_time": Check(lambda: _number("megascale", "goodput", times=100), ""),
    "meta_rsc.mttf_8": Check(lambda: _between_stops(8) / day, _RATES),
    "meta_rsc.mttf_1024": Check(lambda: _between_stops(1024) / hour, _RATES),
    "meta_rsc.mttf_16384": Check(lambda: _between_stops(16384) / hour, _RATES),
    "meta_rsc.mttf_131072": Check(lambda: _between_stops(131072) / hour, _RATES),
    "topologies2025.ft2.switches": Check(lambda: float(fat_tree(2048, 64).parts.switches), ""),
    "topologies2025.mpft.switches": Check(
        lambda: float(rail_only(16384, 8, 64).parts.switches), "Eight planes that do not meet are rail-only."
    ),
    "topologies2025.ft3.switches": Check(lambda: float(fat_tree(65536, 64).parts.switches), ""),
    "topologies2025.ft2.price": Check(lambda: _price(fat_tree(2048, 64)), _PRICES),
    "topologies2025.mpft.price": Check(lambda: _price(rail_only(16384, 8, 64)), _PRICES),
    "topologies2025.ft3.price": Check(lambda: _price(fat_tree(65536, 64)), _PRICES),
    "freakonomics2024.price_1024": Check(lambda: _price(fat_tree(1024, 64)), _SHEET),
    "freakonomics2024.price_16384": Check(lambda: _price(rail_only(16384, 8, 64)), _SHEET),
    "freakonomics2024.price_32768": Check(lambda: _price(fat_tree(32768, 64)), _SHEET),
    "superpod_h100.switches_1024": Check(lambda: float(rail_optimized(1024, 8, 64).parts.switches), ""),
    "superpod_h100.switches_16384": Check(lambda: float(rail_optimized(16384, 8, 64).parts.switches), ""),
    "superpod_b200.switches_4096": Check(partial(_switches, "DGX B200", 4096, switch="QM9700"), ""),
    "superpod_b300.switches_8192": Check(
        partial(_switches, "DGX B300", 8192, "rail-optimized, 2 planes"), "As a plan builds it by default."
    ),
    "superpod_b300_xdr.switches_2304": Check(partial(_switches, "DGX B300", 2304, radix=144), ""),
    "superpod_gb200.switches_2304": Check(partial(_switches, "GB200 NVL72", 2304, switch="QM9700"), _UNITS),
    "superpod_gb200.switches_9216": Check(partial(_switches, "GB200 NVL72", 9216, switch="QM9700"), _UNITS),
    "alibaba_hpn.switches": Check(_hpn_switches, "With the published leaf; a plan's two planes have full leaves."),
    "fireflyer2.switches_dgx": Check(
        lambda: float(fat_tree(10000, 40).parts.switches),
        "Theirs leaves out what full bisection would take at the top.",
    ),
    "fireflyer2.network_share": Check(_network_share, "Ours is at 200 Gbps by scaling the book of 400 Gbps links."),
    "superpod_gb200.power": Check(
        lambda: _it_power("GB200 NVL72", 576),
        "Theirs has racks of management and storage networks too, at design power.",
    ),
    "h100_100k.it_power": Check(
        lambda: _it_power("DGX H100", 100000), "Theirs has storage and processors' servers too."
    ),
}


def computed_checks(ids: list[str] | None = None) -> pd.DataFrame:
    """Our number of each check, computed now. ids: some of CHECKS. Columns id, ours (in the published unit), remark."""
    rows = [(name, CHECKS[name].ours(), CHECKS[name].remark) for name in ids or CHECKS]
    return pd.DataFrame(rows, columns=["id", "ours", "remark"])
