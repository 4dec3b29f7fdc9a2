"""railonly2025 on a mixture of experts: what its "slowdown" of rail-only may count, the readings and the claims."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.catalog import units
from railcore.catalog.checks import whole
from railcore.network.platforms import PlatformLinks, platform_links
from suite.ledger import claims
from suite.ledger.readings import Entries, with_prefix
from suite.railonly2025.expert_job import ExpertJob
from suite.railonly2025.expert_loads import expert_demand, link_loads
from suite.railonly2025.expert_routing import expert_all_to_all_time, routed_time

ROUTING_LOADS = {  # name, skew of expert_demand
    "uniform": "hot",
    "one hot expert": "hot",
    "Zipf": "zipf",
    "a favourite for each GPU": "pairs",
}


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


def platform_slowdown_readings(links: Mapping[str, PlatformLinks], domains: int) -> pd.DataFrame:
    """`slowdown_readings` of several platforms, a column for each."""
    table = pd.DataFrame()
    for name, platform in links.items():
        readings = slowdown_readings(platform.hb_domain_size, domains, platform.hb_Bps, platform.nic_Bps)
        table[["reading", "equation", name]] = readings
    return table


def routing_slowdowns(demand: ArrayLike, links: PlatformLinks, mesh: bool | None = None) -> pd.DataFrame:
    """Every routing of one exchange, counted: columns routing, phases, time_s, slowdown over rail-optimized direct.

    demand [i, j] [bytes]: see `expert_demand`. phases: "in turn" or "pipelined". mesh: False puts the HB bandwidth of a
    mesh behind a switch; None leaves it as it is.
    """
    K, hb_Bps, nic_Bps = links.hb_domain_size, links.hb_Bps, links.nic_Bps
    mesh = links.mesh if mesh is None else mesh
    direct = routed_time(link_loads(demand, K, "direct").busiest(mesh), hb_Bps, nic_Bps, "direct", 1.0)
    rows = []
    for phases in ("in turn", "pipelined"):
        for routing in ("two-hop", "hierarchical"):
            busiest = link_loads(demand, K, routing).busiest(mesh)
            time = routed_time(busiest, hb_Bps, nic_Bps, routing, pipelined=phases == "pipelined")
            rows.append((routing, phases, float(time), round(float(time / direct) - 1, 12) + 0.0))
    return pd.DataFrame(rows, columns=["routing", "phases", "time_s", "slowdown"])


def platform_routing_slowdowns(
    bytes_per_gpu: float, gpus: int, platforms: Mapping[str, PlatformLinks], imbalance: float, experts: int = 0
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
    drawn = {name: (links, links.mesh) for name, links in platforms.items()}
    drawn |= {f"{name}, if switched": (links, False) for name, (links, mesh) in drawn.items() if mesh}
    tables = []
    for load, skew in ROUTING_LOADS.items():
        demand = expert_demand(bytes_per_gpu, gpus, 1.0 if load == "uniform" else imbalance, skew, experts)
        for name, (links, mesh) in drawn.items():
            first = {"platform": name, "load": load, "bandwidth_ratio": links.nic_Bps / links.hb_Bps}
            tables.append(routing_slowdowns(demand, links, mesh).assign(**first))
    table = pd.concat(tables, ignore_index=True)
    return table[["platform", "load", "bandwidth_ratio", "routing", "phases", "time_s", "slowdown"]]


def iteration_overheads(job: ExpertJob, platforms: Sequence[str]) -> pd.DataFrame:
    """What rail-only costs over rail-optimized on each platform, from the all-to-all alone to the whole iteration.

    Compute runs at the GPU's dense BF16 peak, and nothing overlaps.
    Columns platform, bandwidth_ratio B_NIC/B_HB, all_to_all, by_volume (share of the bytes times all_to_all),
    communication and iteration, each longer by this share; iteration_at_once, the iteration's share if HB domain and
    NIC send at once; and seconds of `ExpertJob.times`.
    """
    rows = []
    for name in platforms:
        links, gpu = platform_links(name), catalog.item("gpus", catalog.item("platforms", name)["gpu"])
        seconds = job.times(links.hb_Bps, links.nic_Bps, gpu["bf16_dense_rate"])
        direct, routed, reduce, compute = seconds.values()
        link = (job.exchange_bytes, job.gpus, job.hb_domain_size, links.hb_Bps, links.nic_Bps)
        at_once = job.exchanges * float(expert_all_to_all_time(*link, pipelined=True))
        row = {
            "platform": name,
            "bandwidth_ratio": links.nic_Bps / links.hb_Bps,
            "all_to_all": routed / direct - 1,
            "by_volume": job.all_to_all_share * (routed / direct - 1),
            "communication": (routed - direct) / (direct + reduce),
            "iteration": (routed - direct) / (direct + reduce + compute),
            "iteration_at_once": (at_once - direct) / (direct + reduce + compute),
        }
        rows.append(row | {f"{kind}_s": time for kind, time in seconds.items()})
    return pd.DataFrame(rows)


def load_slowdowns(job: ExpertJob, load: str, experts: int, imbalance: float, links: PlatformLinks) -> pd.DataFrame:
    """`platform_routing_slowdowns` of one platform and load.

    Parameters
    ----------
    job
        Gives the bytes of an exchange and the GPUs.
    load
        One of ROUTING_LOADS.
    experts, imbalance
        As in `expert_demand`.
    links
        Of the platform.

    Returns
    -------
    Columns of `platform_routing_slowdowns`.
    """
    table = platform_routing_slowdowns(job.exchange_bytes, job.gpus, {links.platform: links}, imbalance, experts)
    return table[table["load"] == load]


_SHARE, _FORMULA = "fig4.all_to_all_share", "moe.forwarding_formula"
_PLATFORMS = {"a100": "DGX A100", "h100": "DGX H100"}  # by the end of the claims' ids


def share_readings(job: ExpertJob) -> dict[str, float]:
    """Share of the all-to-all in the traffic, by what the document leaves open and by what is counted."""
    paths = job.volumes().pivot(index="kind", columns="path", values="bytes")
    sent, reduced = paths.loc["all-to-all"], paths.loc["AllReduce"]
    forwarded = sent["NIC, other rail"]
    untied = replace(job, model=replace(job.model, tied_embeddings=False))
    wide, again = replace(job, runtime=replace(job.runtime, gradient_bytes=4)), replace(job, recompute="full")
    return {
        "as above": job.all_to_all_share,
        "output embedding not tied to the input's": untied.all_to_all_share,
        "gradients of 4 bytes": wide.all_to_all_share,
        "forward pass recomputed: 6 exchanges": again.all_to_all_share,
        "both of these": replace(wide, recompute="full").all_to_all_share,
        "of the all-to-all only what changes rails": forwarded / (forwarded + reduced.sum()),
        "bytes on links, forwarded ones twice": (sent.sum() + forwarded) / (paths.sum().sum() + forwarded),
        "bytes on NICs alone": 1 - reduced.filter(like="NIC").sum() / paths.filter(like="NIC").sum().sum(),
    }


def share_mark(values: Mapping[str, float]) -> dict[str, tuple[float, str]]:
    """The all-to-all's share of the traffic by the document, and our verdict. values: ours, by claim id."""
    claim_id = f"railonly2025.{_SHARE}"
    marks = claims.marks({claim_id: values[claim_id]}).values()
    return {kind: (mark.value, mark.verdict) for kind, mark in zip(["all-to-all"], marks, strict=False)}


def entry_sizes(job: ExpertJob) -> dict[str, float]:
    """Largest entries of the traffic matrix [bytes], by the kinds of traffic of a pair and where its ring is."""
    entries = job.iteration_traffic.entries().assign(ring=lambda rows: rows["kind"] != "expert")
    pairs = entries.groupby(["source", "target"]).agg(bytes=("bytes", "sum"), ring=("ring", "any")).reset_index()
    within = pairs["source"] // job.hb_domain_size == pairs["target"] // job.hb_domain_size
    parts = {"all-to-all alone": ~pairs["ring"], "all-to-all and a ring in an HB domain": pairs["ring"] & within}
    parts["all-to-all and a ring on a rail"] = pairs["ring"] & ~within
    return {name: float(pairs.loc[rows, "bytes"].max()) for name, rows in parts.items() if rows.any()}


def printed_slowdowns(values: Mapping[str, float]) -> dict[str, str]:
    """Slowdown of the all-to-all by the document, as text, by platform. values: ours, by claim id."""
    platforms = {f"railonly2025.moe.slowdown_{chip}": platform for chip, platform in _PLATFORMS.items()}
    marks = claims.marks({name: values[name] for name in platforms})
    return {platforms[name]: f"{units.number(100 * mark.value)}%" for name, mark in marks.items()}


def _forwarded_share(job: ExpertJob) -> float:
    """Share of the all-to-all's bytes that go to another rail of another domain, which rail-only has to forward."""
    sent = job.volumes().query("kind == 'all-to-all'").set_index("path")["bytes"]
    return float(sent["NIC, other rail"] / sent.sum())


def formula_error(job: ExpertJob, links: PlatformLinks) -> float:
    """Relative error of B_NIC / B_HB against the slowdown of one uniform exchange, counted link by link.

    The document's routing: first the rails, then the HB domains, one after the other.
    """
    counted = routing_slowdowns(expert_demand(job.exchange_bytes, job.gpus, 1.0, "hot", job.model.experts), links)
    in_turn = counted[(counted["routing"] == "hierarchical") & (counted["phases"] == "in turn")]["slowdown"].item()
    return abs(links.nic_Bps / links.hb_Bps / in_turn - 1)


def moe_claims(job: ExpertJob) -> Entries:
    """Values, reasons and readings of the claims on the all-to-all and its slowdown."""
    shares, printed = share_readings(job), claims.paper_value(f"railonly2025.{_SHARE}")
    needed, sequences = job.sequences_for_share(printed), job.sequences_per_gpu
    values = {
        "fig4.gpus": job.iteration_traffic.gpus,
        _SHARE: job.all_to_all_share,
        "fig4.forwarded_share": _forwarded_share(job),
    }
    reasons = {
        _SHARE: f"the printed share needs {needed:.3g} sequences a GPU, no whole number ({needed * job.gpus:.0f} in "
        f"all); of bytes that change rails alone it would be {shares['of the all-to-all only what changes rails']:.3g}"
    }
    readings = {
        _FORMULA: f"largest over {' and '.join(_PLATFORMS.values())}, {job.domains} domains of {job.hb_domain_size}, "
        "phases in turn; pipelined the count is 0, and so the formula too large; exact where there are as many domains "
        "as GPUs in one",
        _SHARE: f"batch and precision are not printed; {sequences:g} sequences a GPU, the batch of the model's own "
        f"paper, and 2-byte gradients; gradients of 4 bytes give {shares['gradients of 4 bytes']:.3g}, with the "
        f"forward pass recomputed {shares['both of these']:.3g}",
    }
    overheads = iteration_overheads(job, list(_PLATFORMS.values())).set_index("platform")
    values[_FORMULA] = max(formula_error(job, platform_links(name)) for name in _PLATFORMS.values())
    for chip, platform in _PLATFORMS.items():
        link, row = platform_links(platform), overheads.loc[platform]
        alone, overall = f"moe.slowdown_{chip}", f"text.intro_moe_overhead_{chip}"
        values |= {alone: row["bandwidth_ratio"], overall: row["iteration"]}
        wanted, total = (claims.paper_value(f"railonly2025.{name}") for name in (alone, overall))
        half = values[alone] / 2
        ended = "rounded" if units.number(half, 2) == units.number(wanted / 2, 2) else "cut off"
        reasons[alone] = (
            f"{units.show(link.nic_Bps, 'bps')} over {units.show(link.hb_Bps, 'bps')} in one direction; the printed "
            f"value needs {units.show(link.nic_Bps / wanted, 'bps', 4)}. A guess at its origin: over the sum of both "
            f"directions the ratio is {half:.2%}, {ended} to {wanted / 2:.1%} and doubled. Counted on {job.domains} "
            f"domains of {job.hb_domain_size} with phases in turn it is {row['all_to_all']:.2%}, pipelined 0"
        )
        reasons[overall] = (
            f"contradiction: the routing section has {wanted:.1%} for the all-to-all alone, {printed:.0%} of the "
            f"traffic, thus {wanted * printed:.1%} by volume; all {total:.1%} only where nothing but all-to-all "
            "takes time"
        )
        readings[overall] = (
            f"share of the iteration, compute at the dense peak, phases in turn; {row['by_volume']:.1%} by volume, "
            f"{row['communication']:.1%} of all communication time, pipelined 0"
        )
    return with_prefix("railonly2025", values, reasons, readings)
