"""Goodput of a job by way of recovery from failures, checkpoints and restarts.

Symbols as in `failures`; M mean time between interruptions, delta checkpoint, tau work between two, c standstill of the
job after a failure, w share of the work done without it, G goodput.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog, checks
from railcore.facts.units import hour, show
from railcore.network import reliability
from railcore.systems.datacenter.availability import (
    binomial,
    complete_pipelines,
    groups_with_spares,
    paired_groups,
    replica_availability,
    spares_needed,
)
from railcore.systems.datacenter.failures import ReplicaGrid, blast_radius, interruption_time, replica_grid
from railcore.systems.datacenter.layer import Layer
from railcore.systems.datacenter.layout import Layout
from railcore.systems.datacenter.site import Site


def restart_curves(
    cases: Mapping[str, tuple[float, float]], checkpoints: Mapping[str, float], restarts_s: ArrayLike
) -> pd.DataFrame:
    """`reliability.goodput` over the restart time R of a job that restarts as a whole.

    cases: M and the least work between two checkpoints [s] by name; checkpoints: delta [s] by name.
    Rows case, checkpoint, restart_s, interval_s (tau), goodput.
    """
    tables = []
    for case, (mtbf, iteration_s) in cases.items():
        for name, delta in checkpoints.items():
            tau = _interval(mtbf, delta, iteration_s)
            left = reliability.goodput(mtbf, delta, restarts_s, tau)
            rows = {"case": case, "checkpoint": name, "restart_s": restarts_s, "interval_s": tau, "goodput": left}
            tables.append(pd.DataFrame(rows))
    return pd.concat(tables, ignore_index=True)


def restart_cases(
    job: ReplicaGrid, mtbf: float, iteration_s: float, published_gpus: int
) -> dict[str, tuple[float, float]]:
    """Cases of `restart_curves`: all GPUs of a job, saved at will or after iterations, and a job of fewer GPUs.

    Parameters
    ----------
    job
        Groups of the job.
    mtbf
        M of all GPUs [s], in inverse proportion to their number.
    iteration_s
        Time of an iteration [s].
    published_gpus
        GPUs of the smaller job.

    Returns
    -------
    M and the least work between two checkpoints [s] by name.
    """
    few = mtbf * job.gpus / int(checks.whole("published_gpus", published_gpus))
    return {
        f"{published_gpus:,} GPUs, a failure every {few / hour:,.1f} h": (few, 0.0),
        f"all GPUs, a failure every {mtbf:,.0f} s": (mtbf, 0.0),
        f"all, saved after iterations of {iteration_s:,.0f} s": (mtbf, iteration_s),
    }


def checkpoint_names(checkpoints: Mapping[str, float], storage_Bps: float) -> dict[str, float]:
    """Checkpoint times [s] of `state_times` by names that say them, and what storage takes from all GPUs at once."""
    rates = {"storage": f", {show(storage_Bps, 'B/s', 3)} in all"}
    return {f"checkpoint in {name}: {s:.2g} s{rates.get(name, '')}": s for name, s in checkpoints.items()}


def state_times(layer: Layer, laid: Layout, site: Site, storage_Bps: float) -> tuple[dict[str, float], float]:
    """Time of a checkpoint by where it goes, and time of loading a GPU's state from another replica [s].

    Parameters
    ----------
    layer, laid, site
        The layer, its layout, and the machine.
    storage_Bps
        Rate at which each GPU writes to storage while all do [bytes/s].

    Returns
    -------
    Times of a checkpoint: "storage", to which every GPU of the machine writes an equal share, as all replicas hold the
    same state; "host memory", to which every GPU writes its own. Then the time of loading over the scale-out network.
    """
    checks.positive("storage_Bps", storage_Bps, "bytes/s")
    own = float(laid.device_bytes)
    stored = sum(layer.state_bytes.values()) / float(site.gpus) / storage_Bps
    return {"storage": stored, "host memory": own / float(site.host_Bps)}, own / float(site.nic_Bps)


def recovery_goodput(
    laid: Layout,
    platform: str,
    checkpoints: Mapping[str, float],
    iteration_s: float = 0.0,
    reload_s: float = 0.0,
    probability: float = 0.999,
    target: float = 0.9,
    **network: int,
) -> pd.DataFrame:
    """Goodput by way of recovery, at the catalog's low, middle and high rates, repair, restart and regrouping times.

    G = w exp(-c / M): after each failure the whole job stands still for c; a failure in that time starts c again.
    Restart of all: c is the restart, w = `reliability.goodput` without it. The state changes after an iteration, so
    that work between two checkpoints is at least one.
    All other ways keep the state in the survivors' memory: c is the regrouping, and w = in use x working. In use are
    the GPUs that are no spares; working those of them whose replica has a group in every layer. The part of an
    iteration that the failed replica loses is not counted. The ways:

    - leave the replica out until it is repaired;
    - pair groups anew (`paired_groups`);
    - keep spare GPUs in racks, with groups of one or two GPUs fewer, assumed to fit and to be slower in proportion;
    - keep spare racks, so that every layer is complete with `probability`.

    Parameters
    ----------
    laid, platform
        One layout, of a model that fits, on a platform of the catalog.
    checkpoints
        Time of a checkpoint by where it goes [s].
    iteration_s
        Time of an iteration [s].
    reload_s
        Loading of a spare's state, on top of c [s].
    probability
        That every layer is complete with spare racks.
    target
        Goodput that longest_stall_s leaves.
    **network
        radix, planes, leaf_layers of `blast_radius`.

    Returns
    -------
    Columns way, rates, interruption_s (M), in_use_share, working_share, stall_s (c), goodput, and longest_stall_s that
    leaves the goodput `target`, M log(w / target), not a number where none does.

    Raises
    ------
    ValueError
        For a target or a probability that is no share.
    """
    checks.share("target", target, above_0=True, below_1=True)
    rows = []
    for rates in ("low", "value", "high"):
        job, times = replica_grid(laid), catalog.item("failure_rates", "job")
        restart, regroup = (getattr(times.row(name), rates) for name in ("restart_time", "regroup_time"))
        blast = blast_radius(job, platform, rates=rates, **network)
        m = interruption_time(blast)
        for name, delta in checkpoints.items():
            left = float(reliability.goodput(m, delta, 0.0, _interval(m, delta, iteration_s)))
            rows.append((f"restart all from {name}", rates, m, 1.0, left, restart))
        for way, works in _without_spares(job, blast).items():
            rows.append((way, rates, m, 1.0, works, regroup))
        for t in range(job.tensor - 1, max(job.tensor - 3, 0), -1):
            less = replica_grid(laid, t)
            other = blast_radius(less, platform, rates=rates, **network)
            for way, used, works in _spare_gpus(less, other):
                rows.append((way, rates, interruption_time(other), used, works, regroup + reload_s))
        for way, used in _spare_racks(job, blast, probability).items():
            rows.append((way, rates, m, used, 1.0, regroup + reload_s))
    columns = ["way", "rates", "interruption_s", "in_use_share", "working_share", "stall_s"]
    table = pd.DataFrame(rows, columns=columns)
    m, left = table["interruption_s"], table["in_use_share"] * table["working_share"]
    longest = m * np.log(left / target)
    return table.assign(goodput=left * np.exp(-table["stall_s"] / m), longest_stall_s=longest.where(longest >= 0))


def _interval(mtbf: float, checkpoint: float, iteration_s: float) -> float:
    return max(float(reliability.checkpoint_interval(mtbf, checkpoint)), iteration_s)


def _without_spares(job: ReplicaGrid, blast: pd.DataFrame) -> dict[str, float]:
    """Share of the GPUs that works, by way."""
    return {
        "leave the replica out": replica_availability(blast, job),
        "pair groups anew, on their rails": paired_groups(blast, job),
        "pair groups anew, in a datacenter": paired_groups(blast, job, same_rail=False),
    }


def _spare_gpus(job: ReplicaGrid, blast: pd.DataFrame) -> list[tuple[str, float, float]]:
    """Way, share of GPUs in use and share of them that works, where groups leave GPUs of a rack unused."""
    if not job.spares:
        return []
    works, used = groups_with_spares(blast, job), 1 - job.spares / job.rack_gpus
    name = f"{job.spares} spare GPUs in a rack, t = {job.tensor}"
    paired = complete_pipelines(binomial(job.racks, 1 - works), job.layers)
    return [(name, used, works**job.layers), (f"{name}, and pair anew", used, paired)]


def _spare_racks(job: ReplicaGrid, blast: pd.DataFrame, probability: float) -> dict[str, float]:
    """Share of the racks in use, by way; the others stand in for those that fail."""
    parts = blast["count"] / job.all_racks * np.where(blast["part"] == "switch", blast["gpus"], 1)
    u = float(-np.expm1(np.sum(parts * np.log1p(-blast["out_of_service"]))))
    pools = {"each layer": (job.racks, job.layers), "a datacenter": (job.racks * job.layers, 1)}
    spares = {name: spares_needed(racks, u, probability, n * job.datacenters) for name, (racks, n) in pools.items()}
    return {f"spare racks of {name}": racks / (racks + spares[name]) for name, (racks, _) in pools.items()}
