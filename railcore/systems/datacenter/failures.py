"""What failures do to a job laid out over racks: the GPUs that each part stops, and goodput by way of recovery.

Tensor groups stay inside a rack; L groups, one of each layer, are a replica, and all groups of a layer hold the same
weights. Symbols: t GPUs of a group, g groups of a rack, s its spare GPUs, L layers, M mean time between interruptions,
delta checkpoint, tau work between two, c standstill of the job after a failure, w share of the work done without it,
G goodput.
A part that fails at rate f and is repaired in r is out of service for the share u = f r / (1 + f r) of the time; parts
are independent, in steady state.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.facts.units import day, hour, show, year
from railcore.network import reliability
from railcore.systems.datacenter.layer import Layer
from railcore.systems.datacenter.layout import Layout
from railcore.systems.datacenter.site import Site
from railcore.training.degraded.slowdowns import HOST_GPUS

ENDS = ("low", "value", "high")


@dataclass(frozen=True)
class Grid:
    """A layout as failures see it, in whole numbers.

    layers: L; tensor: t; groups_per_rack: g; rack_gpus: GPUs of a rack; racks: of a layer in one datacenter.
    Raises ValueError naming the argument that is out of range.
    """

    layers: int
    tensor: int
    groups_per_rack: int
    rack_gpus: int
    racks: int
    datacenters: int = 1

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not (value >= 1 and value == int(value)):
                raise ValueError(f"{name} is {value!r}: give a whole number from 1")
        if self.spares < 0:
            raise ValueError(f"groups_per_rack is {self.groups_per_rack}: give what {self.rack_gpus} GPUs hold")

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

    def groups_met(self, block: int) -> float:
        """Mean number of groups that a block of neighbouring GPUs of a rack belongs to; spares stand at its end."""
        owner = np.arange(self.rack_gpus - self.spares) // self.tensor
        return float(np.mean([len(np.unique(owner[i : i + block])) for i in range(0, len(owner), block)]))


def grid(laid: Layout, tensor: int = 0) -> Grid:
    """Grid of one layout, of a model that fits. tensor: groups of another size, as many as a rack has room for."""
    if np.ndim(laid.tensor) or not laid.tensor > 0:
        raise ValueError(f"laid has the tensor degree {laid.tensor!r}: give one layout, of a model that fits")
    t, rack = tensor or int(laid.tensor), int(laid.rack_gpus)
    return Grid(int(laid.layers), t, rack // t, rack, int(laid.racks_per_layer_here), int(laid.datacenters))


def blast_radius(
    job: Grid, platform: str, radix: int = 64, planes: int = 1, leaf_layers: int = 1, rates: str = "value"
) -> pd.DataFrame:
    """What one failed part of each kind stops, and how often; spare GPUs are not counted.

    A GPU stops its group, a group its replica. A host stops the groups of its GPUs, an HB switch is taken to stop its
    rack, a leaf switch one GPU in each of radix / 2 racks; with several planes links, transceivers and leaf switches
    take bandwidth only. process: the catalog's software failures, taken to be confined to the GPU of one process.
    leaf_layers: layers among the racks below a leaf, 1 where all hold the same one, up to radix / 2.
    platform: of the catalog. rates: "low", "value" or "high" of failure and repair.
    Rows part, count, failures_per_year (of one), repair_h, events_per_day, out_of_service (share u), gpus (that fail at
    once), groups, replicas (that stop), replica_gpus (theirs). Raises ValueError for numbers out of range.
    """
    leaf = radix // 2
    if not (radix >= 2 and planes >= 1 and 1 <= leaf_layers <= leaf):
        raise ValueError(
            f"radix is {radix}, planes {planes}, leaf_layers {leaf_layers}: give at least 2, 1 and 1, at most radix / 2"
        )
    box, one, g = catalog.item("platforms", platform), int(planes == 1), job.groups_per_rack
    host = int(box.get("host_gpus", HOST_GPUS))
    met = job.groups_met(host)
    parts = {  # count, and GPUs, groups and replicas that one failure stops
        "GPU": (job.gpus, 1, 1, 1),
        "NIC": (job.gpus, 1, 1, 1),
        "host": (-(-job.gpus // host), host, met, met),
        "HB switch": (job.all_racks * int(box["hb_switch_parts"]), job.rack_gpus, g, g),
        "link": (job.gpus * one, 1, 1, 1),
        "transceiver": (2 * job.gpus * one, 1, 1, 1),
        "switch": (-(-job.gpus // leaf) * one, leaf, leaf, leaf / leaf_layers),
    }
    failures = reliability.expected_failures(
        {part: row[0] for part, row in parts.items()}, dict.fromkeys(parts, 1.0), rates
    )
    table = failures[["part", "count", "failures_per_year", "repair_h"]].copy()
    job_rows = catalog.item("failure_rates", "job")
    software, restart = (getattr(job_rows.row(name), rates) for name in ("software_failure_rate", "restart_time"))
    table.loc[len(table)] = ["process", job.gpus, software * year, restart / hour]
    down = table["failures_per_year"] * table["repair_h"] * hour / year
    table["events_per_day"] = table["count"] * table["failures_per_year"] * day / year
    table["out_of_service"] = down / (1 + down)
    stops = pd.DataFrame([row[1:] for row in (*parts.values(), (0, 1, 1, 1))], columns=["gpus", "groups", "replicas"])
    return (
        pd.concat([table, stops], axis=1)
        .assign(replica_gpus=stops["replicas"] * job.tensor * job.layers)
        .astype({"count": int})
    )


def interruption_time(blast: pd.DataFrame) -> float:
    """Mean time between failures that stop GPUs of the job [s], from `blast_radius`."""
    return reliability.mean_time_between_failures(float(blast["events_per_day"].sum()) * year / day)


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


def restart_cases(job: Grid, mtbf: float, iteration_s: float, published_gpus: int) -> dict[str, tuple[float, float]]:
    """Cases of `restart_curves`: all GPUs of a job, saved at will or after iterations, and a job of fewer GPUs.

    mtbf: M of all GPUs [s], in inverse proportion to their number. Raises ValueError for no GPUs.
    """
    if not published_gpus >= 1:
        raise ValueError(f"published_gpus is {published_gpus!r}: give the GPUs of a published run, 1 at least")
    few = mtbf * job.gpus / published_gpus
    return {
        f"{published_gpus:,} GPUs, a failure every {few / hour:,.1f} h": (few, 0.0),
        f"all GPUs, a failure every {mtbf:,.0f} s": (mtbf, 0.0),
        f"all, saved after iterations of {iteration_s:,.0f} s": (mtbf, iteration_s),
    }


def checkpoint_names(checkpoints: Mapping[str, float], storage_Bps: float) -> dict[str, float]:
    """Checkpoint times [s] of `state_times` by names that say them, and what storage takes from all GPUs at once."""
    rates = {"storage": f", {show(storage_Bps, 'B/s', 3)} in all"}
    return {f"checkpoint in {name}: {s:.2g} s{rates.get(name, '')}": s for name, s in checkpoints.items()}


def replica_availability(blast: pd.DataFrame, job: Grid) -> float:
    """Share of time in which a replica of fixed groups is whole: product over its parts of 1 - u.

    Of a kind of part, count x replicas stopped by one / replicas belong to a replica.
    """
    each = blast["count"] * blast["replicas"] / job.replicas
    return float(np.exp(np.sum(each * np.log1p(-blast["out_of_service"]))))


def whole_groups(blast: pd.DataFrame, job: Grid, same_rail: bool = True) -> float:
    """Share of replicas that work when groups of successive layers are paired anew after every failure.

    Any working group of a layer can stand in for another: a pool of n groups of each layer carries as many pipelines as
    its layer with the fewest has groups, n - E[max over L layers of the groups out] on average.
    same_rail: pools are the groups in one place of the racks of a datacenter (traffic stays on its rails), else all
    groups of a datacenter. Failures of one group each are binomial; those of several of a layer at once (leaf and HB
    switches) come on top as Poisson.
    """
    from scipy import special

    n = job.racks * (1 if same_rail else job.groups_per_rack)
    wide = {"switch"} if same_rail else {"switch", "HB switch"}
    several = (blast["part"].isin(wide) & (blast["replicas"] > 1)).to_numpy()
    each = blast["count"] * blast["groups"] / (job.replicas * job.layers)  # of a kind that a group depends on
    alone = -np.expm1(np.sum(each[~several] * np.log1p(-blast["out_of_service"][~several])))
    out = _binomial(n, alone)
    for row, parts in zip(blast[several].itertuples(), each[several], strict=True):
        size, times = round(row.replicas), np.arange(n // round(row.replicas) + 1)
        events = np.zeros(n + 1)
        events[times * size] = np.diff(special.pdtr(times, parts * n / size * row.out_of_service), prepend=0)
        out = np.convolve(out, events)[: n + 1]
    return pipelines(out, job.layers)


def pipelines(out: ArrayLike, layers: int) -> float:
    """Share of n groups of each layer that find a partner in every layer: 1 - E[max over L layers of those out] / n.

    out: probabilities that 0, 1, ... n groups of a layer are out; E[max] = sum over k < n of 1 - P(out <= k)^L.
    """
    up_to = np.minimum(np.cumsum(out), 1)[:-1]
    return float(1 - np.sum(1 - up_to**layers) / len(up_to))


def rack_groups(blast: pd.DataFrame, job: Grid) -> float:
    """Share of a rack's groups that work when any of its GPUs can join any group: 1 - E[groups lost] / g.

    With X GPUs out of service, ceil((X - s) / t) groups are lost, all where an HB switch is. X is binomial over GPUs
    with what else stops one, and over hosts, of all the rack, spares included; leaf switches count rack by rack.
    """
    parts = blast.set_index("part")
    u, counts = parts["out_of_service"], parts["count"]
    gpu = 1 - np.prod([1 - u[part] for part in ("GPU", "NIC", "process")])
    if counts["link"]:
        gpu = 1 - (1 - gpu) * (1 - u["link"]) * (1 - u["transceiver"]) ** 2 * (1 - u["switch"])
    size = int(parts["gpus"]["host"])
    out = _binomial(job.rack_gpus, gpu)
    hosts, events = -(-job.rack_gpus // size), np.zeros(job.rack_gpus + size + 1)
    events[np.arange(hosts + 1) * size] = _binomial(hosts, u["host"])
    out = np.convolve(out, events)
    lost = np.minimum(np.ceil(np.maximum(np.arange(len(out)) - job.spares, 0) / job.tensor), job.groups_per_rack)
    switches = (1 - u["HB switch"]) ** (counts["HB switch"] / job.all_racks)
    return float(switches * (1 - np.sum(out * lost) / job.groups_per_rack))


def spares_needed(needed: int, out_of_service: float, probability: float, pools: int = 1) -> int:
    """Fewest spares k so that of needed + k parts at most k are out, in all pools at once with a probability.

    P(Binomial(needed + k, u) <= k) >= probability^(1 / pools).
    """
    from scipy import special

    if not (needed >= 1 and pools >= 1 and 0 < probability < 1 and 0 <= out_of_service < 1):
        raise ValueError(
            f"needed, out_of_service, probability, pools are {(needed, out_of_service, probability, pools)}: give 1 or "
            "more parts and pools, a share below 1, and a probability between 0 and 1"
        )
    most, asked = needed, probability ** (1 / pools)
    while special.bdtr(most, needed + most, out_of_service) < asked:
        most *= 2
    k = np.arange(most + 1)
    return int(np.argmax(special.bdtr(k, needed + k, out_of_service) >= asked))


def state_times(layer: Layer, laid: Layout, site: Site, storage_Bps: float) -> tuple[dict[str, float], float]:
    """Time of a checkpoint by where it goes, and of loading a GPU's state [s].

    "storage": every GPU of the machine writes an equal share, as all replicas hold the same state, at storage_Bps each
    [bytes/s]; "host memory": every GPU writes its own. Loaded is from another replica over the scale-out network.
    """
    if not 0 < storage_Bps < np.inf:
        raise ValueError(f"storage_Bps is {storage_Bps!r}: give positive bytes per second")
    own = float(laid.device_bytes)
    stored = sum(layer.state_bytes.values()) / float(site.gpus) / storage_Bps
    return {"storage": stored, "host memory": own / float(site.host_Bps)}, own / float(site.nic_Bps)


def recoveries(
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

    G = w exp(-c / M): after each failure the whole job stands still for c, and anew where it fails meanwhile.
    Restart of all: c is the restart, on spare hosts, and w = `reliability.goodput` without it, with a checkpoint time
    for each of `checkpoints` [s] and work between two of at least iteration_s, after which the state changes.
    All other ways keep the state in the survivors' memory: c is the regrouping, and w = in use x working, the GPUs
    that are no spares and those of them whose replica has a group in every layer; the failed replica's part of an
    iteration, which is lost too, is not counted. The failed replica is left out until repaired; groups are paired anew
    (`whole_groups`); racks keep spare GPUs beside groups of one or two GPUs fewer, which are taken to be slower in
    proportion, and to fit; or spare racks make every layer complete with `probability`, of each layer or of a
    datacenter. reload_s: loading of a spare's state, on top of c. network: radix, planes, leaf_layers of
    `blast_radius`.
    Rows way, rates, interruption_s (M), in_use_share, working_share, stall_s (c), goodput, and longest_stall_s that
    leaves the goodput `target`, M log(w / target), not a number where none does.
    Raises ValueError for a target that is no share.
    """
    if not 0 < target < 1:
        raise ValueError(f"target is {target!r}: give a share between 0 and 1")
    rows = []
    for rates in ENDS:
        job, times = grid(laid), catalog.item("failure_rates", "job")
        restart, regroup = (getattr(times.row(name), rates) for name in ("restart_time", "regroup_time"))
        blast = blast_radius(job, platform, rates=rates, **network)
        m = interruption_time(blast)
        for name, delta in checkpoints.items():
            tau = _interval(m, delta, iteration_s)
            left = float(reliability.goodput(m, delta, 0.0, tau))
            rows.append((f"restart all from {name}", rates, m, 1.0, left, restart))
        others = _confined(job, laid, platform, blast, rates, probability, network)
        for way, used, works, mtbf, stall in others:
            rows.append((way, rates, mtbf, used, works, regroup + reload_s * stall))
    columns = "way rates interruption_s in_use_share working_share stall_s".split()
    table = pd.DataFrame(rows, columns=columns)
    m, left = table["interruption_s"], table["in_use_share"] * table["working_share"]
    longest = m * np.log(left / target)
    return table.assign(goodput=left * np.exp(-table["stall_s"] / m), longest_stall_s=longest.where(longest >= 0))


def _interval(mtbf: float, checkpoint: float, iteration_s: float) -> float:
    return max(float(reliability.checkpoint_interval(mtbf, checkpoint)), iteration_s)


def _confined(job, laid, platform, blast, rates, probability, network):
    """Ways without a restart of all: name, share of GPUs in use, share of those working, M, and whether spares load."""
    m = interruption_time(blast)
    yield "leave the replica out", 1.0, replica_availability(blast, job), m, False
    yield "pair groups anew, on their rails", 1.0, whole_groups(blast, job), m, False
    yield "pair groups anew, in a datacenter", 1.0, whole_groups(blast, job, same_rail=False), m, False
    for t in range(job.tensor - 1, max(job.tensor - 3, 0), -1):
        if not (less := grid(laid, t)).spares:
            continue
        other = blast_radius(less, platform, rates=rates, **network)
        works, used = rack_groups(other, less), 1 - less.spares / less.rack_gpus
        name, mtbf = f"{less.spares} spare GPUs in a rack, t = {t}", interruption_time(other)
        yield name, used, works**less.layers, mtbf, True
        out = _binomial(less.racks, 1 - works)
        yield f"{name}, and pair anew", used, pipelines(out, less.layers), mtbf, True
    parts = blast["count"] / job.all_racks * np.where(blast["part"] == "switch", blast["gpus"], 1)
    u = -np.expm1(np.sum(parts * np.log1p(-blast["out_of_service"])))
    for name, racks, pools in (("each layer", job.racks, job.layers), ("a datacenter", job.racks * job.layers, 1)):
        k = spares_needed(racks, float(u), probability, pools * job.datacenters)
        yield f"spare racks of {name}", racks / (racks + k), 1.0, m, True


def _binomial(n: int, p: float) -> np.ndarray:
    """Probabilities of 0 to n."""
    from scipy import special

    return np.diff(special.bdtr(np.arange(n + 1), n, p), prepend=0)
