"""What rail-only costs a mixture of experts over rail-optimized, by what railonly2025's "slowdown" may count."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.facts.checks import whole
from railcore.training.experts.expert_job import ExpertJob
from railcore.training.experts.token_routing import expert_all_to_all_time, expert_demand, link_loads, routed_time

LOADS = {  # name, skew of expert_demand
    "uniform": "hot",
    "one hot expert": "hot",
    "Zipf": "zipf",
    "a favourite for each GPU": "pairs",
}


class PlatformLinks(NamedTuple):
    """A platform's HB domain and links: bandwidths of a GPU in one direction [bytes/s], mesh or behind switches."""

    hb_domain_size: int
    hb_Bps: float
    nic_Bps: float
    mesh: bool


def platform_links(name: str) -> PlatformLinks:
    """Links of a catalog platform by its datasheet. Raises UnknownName."""
    item = catalog.item("platforms", name)
    return PlatformLinks(int(item["gpus"]), item["hb_bandwidth"], item["nic_bandwidth"], item["hb_switches"] == 0)


def slowdown_readings(hb_domain_size: int, domains: int, hb_Bps: float, nic_Bps: float) -> pd.DataFrame:
    """How much longer rail-only takes than rail-optimized at uniform load, by what is counted; r = nic_Bps / hb_Bps.

    Parameters
    ----------
    hb_domain_size, domains
        GPUs of an HB domain K, and domains y; at least 2 each.
    hb_Bps, nic_Bps
        Bandwidths of a GPU, one direction [bytes/s].

    Returns
    -------
    Columns reading, equation, slowdown.
    """
    K, y = int(whole("hb_domain_size", hb_domain_size, 2)), int(whole("domains", domains, 2))
    r = nic_Bps / hb_Bps
    hb, home, nic = r * (1 - 1 / K), r * (K - 1) / (K * y), 1 - 1 / y
    direct = expert_all_to_all_time(1.0, K * y, K, hb_Bps, nic_Bps, "direct", 1.0)
    pipelined = expert_all_to_all_time(1.0, K * y, K, hb_Bps, nic_Bps, pipelined=True)
    rows = [
        ("the document's factor; also the next row where K = y, or both are large", "r", r),
        ("phases in turn, against direct with HB and NIC at once", "r (1 - 1/K) / (1 - 1/y)", hb / nic),
        ("phases in turn, against direct with HB and NIC in turn", "r (1 - 1/K) / (1 + r (1 - 1/K) / (y - 1))",
         (hb - home) / (nic + home)),
        ("forwarded bytes alone, over direct's time on the NIC", "r (1 - 1/K)", (hb - home) / nic),
        ("phases pipelined", "max(0, r (1 - 1/K) / (1 - 1/y) - 1)", float(pipelined / direct) - 1),
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["reading", "equation", "slowdown"])


def platform_slowdown_readings(links: dict[str, PlatformLinks], domains: int) -> pd.DataFrame:
    """`slowdown_readings` of several platforms, a column for each."""
    tables = {
        name: slowdown_readings(link.hb_domain_size, domains, link.hb_Bps, link.nic_Bps).set_index(
            ["reading", "equation"]
        )["slowdown"]
        for name, link in links.items()
    }
    return pd.DataFrame(tables).reset_index()


def routing_slowdowns(demand: ArrayLike, links: PlatformLinks) -> pd.DataFrame:
    """Every routing of one exchange, counted: columns routing, phases, time_s, slowdown over rail-optimized direct.

    demand [i, j] [bytes]: see `expert_demand`. phases: "in turn" or "pipelined".
    """
    K, hb_Bps, nic_Bps, mesh = links
    direct = routed_time(link_loads(demand, K, "direct").busiest(mesh), hb_Bps, nic_Bps, "direct", 1.0)
    rows = []
    for phases in ("in turn", "pipelined"):
        for routing in ("two-hop", "hierarchical"):
            busiest = link_loads(demand, K, routing).busiest(mesh)
            time = routed_time(busiest, hb_Bps, nic_Bps, routing, pipelined=phases == "pipelined")
            rows.append((routing, phases, float(time), round(float(time / direct) - 1, 12) + 0.0))
    return pd.DataFrame(rows, columns=["routing", "phases", "time_s", "slowdown"])


def platform_routing_slowdowns(
    bytes_per_gpu: float, gpus: int, platforms: dict[str, PlatformLinks], imbalance: float, experts: int = 0
) -> pd.DataFrame:
    """`routing_slowdowns` of an exchange with the experts on every platform, at uniform load and every skew.

    Parameters
    ----------
    bytes_per_gpu, gpus, imbalance, experts
        As in `expert_demand`.
    platforms
        Links by name. A mesh is there twice, once with its HB bandwidth behind a switch.

    Returns
    -------
    Columns platform, load, bandwidth_ratio and those of `routing_slowdowns`.
    """
    shown = dict(platforms)
    shown |= {f"{name}, if switched": links._replace(mesh=False) for name, links in platforms.items() if links.mesh}
    tables = []
    for load, skew in LOADS.items():
        demand = expert_demand(bytes_per_gpu, gpus, 1.0 if load == "uniform" else imbalance, skew, experts)
        for name, links in shown.items():
            first = {"platform": name, "load": load, "bandwidth_ratio": links.nic_Bps / links.hb_Bps}
            tables.append(routing_slowdowns(demand, links).assign(**first))
    table = pd.concat(tables, ignore_index=True)
    return table[["platform", "load", "bandwidth_ratio", "routing", "phases", "time_s", "slowdown"]]


def iteration_overheads(job: ExpertJob, platforms: Sequence[str]) -> pd.DataFrame:
    """What rail-only costs over rail-optimized on each platform, from the all-to-all alone to the whole iteration.

    Compute runs at the GPU's dense BF16 peak, and nothing overlaps.
    Columns platform, bandwidth_ratio B_NIC/B_HB, all_to_all, by_volume (share of the bytes times all_to_all),
    communication and iteration, each longer by this share; and seconds of `ExpertJob.times`.
    """
    rows = []
    for name in platforms:
        links, gpu = platform_links(name), catalog.item("gpus", catalog.item("platforms", name)["gpu"])
        seconds = job.times(links.hb_Bps, links.nic_Bps, gpu["bf16_dense_rate"])
        direct, routed, reduce, compute = seconds.values()
        row = {
            "platform": name,
            "bandwidth_ratio": links.nic_Bps / links.hb_Bps,
            "all_to_all": routed / direct - 1,
            "by_volume": job.all_to_all_share * (routed / direct - 1),
            "communication": (routed - direct) / (direct + reduce),
            "iteration": (routed - direct) / (direct + reduce + compute),
        }
        rows.append(row | {f"{kind}_s": time for kind, time in seconds.items()})
    return pd.DataFrame(rows)


def changed_platform_slowdowns(
    job: ExpertJob, platform: str, load: str, experts: int, imbalance: float, hb_domain_size: int, nic_Bps: float
) -> pd.DataFrame:
    """`platform_routing_slowdowns` of one platform and load, its HB domain and NICs changed.

    Parameters
    ----------
    job
        Gives the bytes of an exchange and the GPUs.
    platform, load
        Name in the catalog, and one of LOADS.
    experts, imbalance
        As in `expert_demand`.
    hb_domain_size, nic_Bps
        In place of the platform's own [GPUs, bytes/s].

    Returns
    -------
    Columns of `platform_routing_slowdowns`.
    """
    links = platform_links(platform)._replace(hb_domain_size=hb_domain_size, nic_Bps=nic_Bps)
    table = platform_routing_slowdowns(job.exchange_bytes, job.gpus, {platform: links}, imbalance, experts)
    return table[table["load"] == load]
