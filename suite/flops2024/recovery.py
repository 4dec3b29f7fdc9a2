"""Failures of a job laid out over racks, and its goodput by way of recovery, checkpoints and restarts.

First the GPUs that each part stops, and how often; then the shares of replicas and groups that work while parts are
out of service; then goodput. Tensor groups stay inside a rack; L groups, one of each layer, are a replica, and all
groups of a layer hold the same weights. A part that fails at rate f and is repaired in r is out of service for the
share u = f r / (1 + f r) of the time; parts are independent, in steady state.
Symbols: t GPUs of a group, g groups of a rack, s its spare GPUs, L layers, M mean time between interruptions, delta
checkpoint, tau work between two, c standstill of the job after a failure, w share of the work done without it, G
goodput.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from scipy import special

from railcore import catalog
from railcore.catalog.arguments import Bandwidth, Count, NonNegative, Seconds, SecondsArray, checked
from railcore.catalog.units import day, hour, show, year
from railcore.datacenter.layouts import Layer, Layout
from railcore.datacenter.sizing import DatacenterSite
from railcore.network import reliability
from railcore.network.topology.rails import rail_optimized

_BLAST_COLUMNS = "part count failures_per_year repair_h events_per_day out_of_service gpus replicas".split()
_SPARES_SUFFICE = 0.999  # probability with which spare racks complete every layer
_STALL_GOODPUT = 0.9  # that `longest_stall_s` leaves


@dataclass(frozen=True)
class ReplicaGrid:
    """Tensor groups of a layout by layer and rack, in whole numbers.

    layers: L.
    tensor: t.
    groups_per_rack: g.
    rack_gpus: GPUs of a rack.
    racks: of a layer in one datacenter.
    """

    layers: int
    tensor: int
    groups_per_rack: int
    rack_gpus: int
    racks: int
    datacenters: int = 1

    @property
    def replicas(self) -> int:
        """Groups of a layer in all datacenters, which is the number of replicas."""
        return self.groups_per_rack * self.racks * self.datacenters

    @property
    def all_racks(self) -> int:
        """Racks of all layers and datacenters."""
        return self.racks * self.datacenters * self.layers

    @property
    def gpus(self) -> int:
        """GPUs of all groups."""
        return self.all_racks * self.groups_per_rack * self.tensor

    @property
    def spares(self) -> int:
        """GPUs of a rack that no group needs, s."""
        return self.rack_gpus - self.tensor * self.groups_per_rack

    def groups_per_block(self, block: int) -> float:
        """Mean number of groups that share a block of neighbouring GPUs of a rack; spares come last."""
        owner = np.arange(self.rack_gpus - self.spares) // self.tensor
        return float(np.mean([len(np.unique(owner[i : i + block])) for i in range(0, len(owner), block)]))


def replica_grid(laid: Layout, tensor: int = 0) -> ReplicaGrid:
    """Groups of a layout that fits. tensor: another group size, with as many groups as a rack holds."""
    t, rack = tensor or int(laid.tensor), int(laid.rack_gpus)
    return ReplicaGrid(int(laid.layers), t, rack // t, rack, int(laid.racks_per_layer_here), int(laid.datacenters))


def blast_radius(
    job: ReplicaGrid, platform: str, radix: int = 64, planes: int = 1, rates: str = "value"
) -> pd.DataFrame:
    """GPUs that one failed part of each kind stops, and failures a year; spare GPUs are not counted.

    The parts of `reliability.parts_at_risk` of a rail-optimized network that stop GPUs. A GPU stops its group, a group
    its replica. A host stops the groups of its GPUs, an HB switch its rack, which is taken to stand still until repair,
    a leaf switch one GPU in each of radix / 2 racks of one layer. With several planes, links, transceivers and leaf
    switches take bandwidth only and are not listed.

    Parameters
    ----------
    job
        Groups of the job.
    platform
        Of the catalog.
    radix, planes
        Of the scale-out network.
    rates
        "low", "value" or "high" of failure and repair.

    Returns
    -------
    Columns part (a kind of part), count, failures_per_year (of one), repair_h, events_per_day, out_of_service (share
    u), gpus (that fail at once), replicas (that stop, one for each of their groups).
    """
    fabric = rail_optimized(job.gpus, job.groups_per_rack * job.tensor, radix, planes=planes)
    parts = reliability.parts_at_risk(fabric, platform)
    table = reliability.expected_failures(parts, rates).join(parts["gpus_stopped"])
    table = table[table["gpus_stopped"] > 0].drop(columns="part").rename(columns={"kind": "part"}).set_index("part")
    table = table.rename(columns={"gpus_stopped": "gpus"})
    table["replicas"] = table["gpus"]
    table.loc["host", "replicas"] = job.groups_per_block(reliability.host_gpus(platform))
    table.loc["HB switch", "replicas"] = job.groups_per_rack
    down = table["failures_per_year"] * table["repair_h"] * hour / year
    table["events_per_day"] = table["count"] * table["failures_per_year"] * day / year
    table["out_of_service"] = down / (1 + down)
    return table.reset_index()[_BLAST_COLUMNS]


def mean_time_between_interruptions(blast: pd.DataFrame) -> float:
    """Mean time between failures that stop GPUs of the job [s], from `blast_radius`."""
    return reliability.mean_time_between_failures(float(blast["events_per_day"].sum()) * year / day)


def replica_availability(blast: pd.DataFrame, job: ReplicaGrid) -> float:
    """Share of time in which a replica of fixed groups is whole: product over its parts of 1 - u.

    Of each kind, a replica has count x (replicas that one part stops) / (all replicas) parts.
    """
    replicas = blast["count"] * blast["replicas"] / job.replicas
    return float(np.exp(np.sum(replicas * np.log1p(-blast["out_of_service"]))))


def share_of_paired_groups(blast: pd.DataFrame, job: ReplicaGrid, same_rail: bool = True) -> float:
    """Share of replicas that work when groups of successive layers are paired anew after every failure.

    Any working group of a layer can take the place of another. A pool of n groups of each layer carries as many
    pipelines as the layer with the fewest groups has: n - E[max over L layers of the groups out] on average.
    same_rail: a pool is the groups in one place of the racks of a datacenter, so that traffic stays on its rails; else
    all groups of a datacenter. Failures of one group are binomial. Failures of several groups of a layer at once (leaf
    and HB switches) are Poisson, on top.
    """
    n = job.racks * (1 if same_rail else job.groups_per_rack)
    wide = {"switch"} if same_rail else {"switch", "HB switch"}
    several = (blast["part"].isin(wide) & (blast["replicas"] > 1)).to_numpy()
    replicas = blast["count"] * blast["replicas"] / (job.replicas * job.layers)  # of a kind that a group depends on
    alone = -np.expm1(np.sum(replicas[~several] * np.log1p(-blast["out_of_service"][~several])))
    out = binomial_probabilities(n, alone)
    for row, parts in zip(blast[several].itertuples(), replicas[several], strict=True):
        size, times = round(row.replicas), np.arange(n // round(row.replicas) + 1)
        events = np.zeros(n + 1)
        events[times * size] = np.diff(special.pdtr(times, parts * n / size * row.out_of_service), prepend=0)
        out = np.convolve(out, events)[: n + 1]
    return share_of_complete_pipelines(out, job.layers)


def share_of_complete_pipelines(out: np.ndarray, layers: int) -> float:
    """Share of n groups of each layer that find a partner in every layer: 1 - E[max over L layers of those out] / n.

    out: probabilities that 0, 1, ... n groups of a layer are out; E[max] = sum over k < n of 1 - P(out <= k)^L.
    """
    up_to = np.minimum(np.cumsum(out), 1)[:-1]
    return float(1 - np.sum(1 - up_to**layers) / len(up_to))


def share_of_groups_with_spares(blast: pd.DataFrame, job: ReplicaGrid) -> float:
    """Share of a rack's groups that work when any of its GPUs can join any group: 1 - E[groups lost] / g.

    With X GPUs out of service, ceil((X - s) / t) groups are lost; with an HB switch out of service, all. X is the sum
    of a binomial over the rack's GPUs, spares included, and one over its hosts. Leaf switches count rack by rack.
    """
    parts = blast.set_index("part")
    u, counts = parts["out_of_service"], parts["count"]
    gpu = 1 - np.prod([1 - u[part] for part in ("GPU", "NIC", "software")])
    if "switch" in u:
        gpu = 1 - (1 - gpu) * (1 - u["link"]) * (1 - u["transceiver"]) ** 2 * (1 - u["switch"])
    size = math.ceil(parts["gpus"]["host"])
    out = binomial_probabilities(job.rack_gpus, gpu)
    hosts, events = -(-job.rack_gpus // size), np.zeros(job.rack_gpus + size + 1)
    events[np.arange(hosts + 1) * size] = binomial_probabilities(hosts, u["host"])
    out = np.convolve(out, events)
    lost = np.minimum(np.ceil(np.maximum(np.arange(len(out)) - job.spares, 0) / job.tensor), job.groups_per_rack)
    switches = (1 - u["HB switch"]) ** (counts["HB switch"] / job.all_racks)
    return float(switches * (1 - np.sum(out * lost) / job.groups_per_rack))


def spares_needed(needed: int, out_of_service: float, probability: float, pools: int) -> int:
    """Fewest spares k so that of needed + k parts at most k are out, in all pools at once with a probability.

    P(Binomial(needed + k, u) <= k) >= probability^(1 / pools).

    Parameters
    ----------
    needed
        Parts of a pool that have to work.
    out_of_service
        u of a part, below 1.
    probability
        That no pool lacks a part, above 0 and below 1.
    pools
        Pools that are complete at once.

    Returns
    -------
    k, spares of each pool.
    """
    most, asked = needed, probability ** (1 / pools)
    while special.bdtr(most, needed + most, out_of_service) < asked:
        most *= 2
    k = np.arange(most + 1)
    return int(np.argmax(special.bdtr(k, needed + k, out_of_service) >= asked))


def binomial_probabilities(n: int, p: float) -> np.ndarray:
    """Probabilities of 0 to n events in n trials of probability p each."""
    return np.diff(special.bdtr(np.arange(n + 1), n, p), prepend=0)


@checked
def restart_curves(
    job: ReplicaGrid,
    mtbf: NonNegative,
    iteration_s: Seconds,
    published_gpus: Count,
    checkpoints: Mapping[str, float],
    storage_Bps: Bandwidth,
    restarts_s: SecondsArray,
) -> pd.DataFrame:
    """`reliability.goodput` over the restart time R of a job that restarts as a whole.

    Three cases: a job of fewer GPUs, and all GPUs of a job, saved at will or after whole iterations.

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
    checkpoints
        Of `checkpoint_and_load_times`: delta [s] by where it goes.
    storage_Bps
        What storage takes from all GPUs at once [bytes/s], for the names.
    restarts_s
        R [s].

    Returns
    -------
    Columns case, checkpoint, restart_s, interval_s (tau), goodput.
    """
    few = mtbf * job.gpus / published_gpus
    cases = {
        f"{published_gpus:,} GPUs, a failure every {few / hour:,.1f} h": (few, 0.0),
        f"all GPUs, a failure every {mtbf:,.0f} s": (mtbf, 0.0),
        f"all, saved after iterations of {iteration_s:,.0f} s": (mtbf, iteration_s),
    }
    rates = {"storage": f", {show(storage_Bps, 'B/s', 3)} in all"}
    tables = []
    for (case, (m, least)), (place, delta) in product(cases.items(), checkpoints.items()):
        tau = _interval(m, delta, least)
        left = reliability.goodput(m, delta, restarts_s, tau)
        name = f"checkpoint in {place}: {delta:.2g} s{rates.get(place, '')}"
        rows = {"case": case, "checkpoint": name, "restart_s": restarts_s, "interval_s": tau, "goodput": left}
        tables.append(pd.DataFrame(rows))
    return pd.concat(tables, ignore_index=True)


def checkpoint_and_load_times(
    layer: Layer, laid: Layout, site: DatacenterSite, storage_Bps: float
) -> tuple[dict[str, float], float]:
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
    state_bytes = float(laid.device_bytes)
    stored = sum(layer.state_bytes.values()) / float(site.gpus) / storage_Bps
    return {"storage": stored, "host memory": state_bytes / float(site.host_Bps)}, state_bytes / float(site.nic_Bps)


def recovery_goodput(
    laid: Layout,
    platform: str,
    checkpoints: Mapping[str, float],
    iteration_s: float = 0.0,
    reload_s: float = 0.0,
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
    - pair groups anew (`share_of_paired_groups`);
    - keep spare GPUs in racks, with groups of one or two GPUs fewer, assumed to fit and to be slower in proportion;
    - keep spare racks, so that every layer is complete with a probability of 99.9%.

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
    **network
        radix, planes of `blast_radius`.

    Returns
    -------
    Columns way, rates, interruption_s (M), in_use_share, working_share, stall_s (c), goodput, and longest_stall_s that
    leaves a goodput of 0.9, M log(w / 0.9), not a number where none does.
    """
    rows = []
    for rates in ("low", "value", "high"):
        job, times = replica_grid(laid), catalog.item("failure_rates", "job")
        restart, regroup = (getattr(times.row(name), rates) for name in ("restart_time", "regroup_time"))
        blast = blast_radius(job, platform, rates=rates, **network)
        m = mean_time_between_interruptions(blast)
        for name, delta in checkpoints.items():
            left = float(reliability.goodput(m, delta, 0.0, _interval(m, delta, iteration_s)))
            rows.append((f"restart all from {name}", rates, m, 1.0, left, restart))
        unspared = {
            "leave the replica out": replica_availability(blast, job),
            "pair groups anew, on their rails": share_of_paired_groups(blast, job),
            "pair groups anew, in a datacenter": share_of_paired_groups(blast, job, same_rail=False),
        }
        for way, works in unspared.items():
            rows.append((way, rates, m, 1.0, works, regroup))
        for t in range(job.tensor - 1, max(job.tensor - 3, 0), -1):
            less = replica_grid(laid, t)
            other = blast_radius(less, platform, rates=rates, **network)
            for way, used, works in _spare_gpus(less, other):
                rows.append((way, rates, mean_time_between_interruptions(other), used, works, regroup + reload_s))
        for way, used in _spare_racks(job, blast).items():
            rows.append((way, rates, m, used, 1.0, regroup + reload_s))
    columns = ["way", "rates", "interruption_s", "in_use_share", "working_share", "stall_s"]
    table = pd.DataFrame(rows, columns=columns)
    m, left = table["interruption_s"], table["in_use_share"] * table["working_share"]
    longest = m * np.log(left / _STALL_GOODPUT)
    return table.assign(goodput=left * np.exp(-table["stall_s"] / m), longest_stall_s=longest.where(longest >= 0))


def _interval(mtbf: float, checkpoint: float, iteration_s: float) -> float:
    return max(float(reliability.checkpoint_interval(mtbf, checkpoint)), iteration_s)


def _spare_gpus(job: ReplicaGrid, blast: pd.DataFrame) -> list[tuple[str, float, float]]:
    """Way, share of GPUs in use and working share of them, where groups leave spare GPUs in a rack."""
    if not job.spares:
        return []
    works, used = share_of_groups_with_spares(blast, job), 1 - job.spares / job.rack_gpus
    name = f"{job.spares} spare GPUs in a rack, t = {job.tensor}"
    paired = share_of_complete_pipelines(binomial_probabilities(job.racks, 1 - works), job.layers)
    return [(name, used, works**job.layers), (f"{name}, and pair anew", used, paired)]


def _spare_racks(job: ReplicaGrid, blast: pd.DataFrame) -> dict[str, float]:
    """Share of the racks in use, by way; the others stand in for those that fail."""
    parts = blast["count"] / job.all_racks * np.where(blast["part"] == "switch", blast["gpus"], 1)
    u = float(-np.expm1(np.sum(parts * np.log1p(-blast["out_of_service"]))))
    pools = {"each layer": (job.racks, job.layers), "a datacenter": (job.racks * job.layers, 1)}
    spares = {name: spares_needed(racks, u, _SPARES_SUFFICE, n * job.datacenters) for name, (racks, n) in pools.items()}
    return {f"spare racks of {name}": racks / (racks + spares[name]) for name, (racks, _) in pools.items()}
