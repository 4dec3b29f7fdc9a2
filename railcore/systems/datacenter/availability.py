"""Shares of replicas and groups that work while parts are out of service: probabilities, from a blast radius.

Symbols as in `failures`: L layers, t GPUs of a group, g groups of a rack, s its spare GPUs, u share of the time that a
part is out of service. Parts are independent.
"""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from railcore.facts import checks
from railcore.systems.datacenter.failures import ReplicaGrid


def replica_availability(blast: pd.DataFrame, job: ReplicaGrid) -> float:
    """Share of time in which a replica of fixed groups is whole: product over its parts of 1 - u.

    Of each kind, a replica has count x (replicas that one part stops) / (all replicas) parts.
    """
    each = blast["count"] * blast["replicas"] / job.replicas
    return float(np.exp(np.sum(each * np.log1p(-blast["out_of_service"]))))


def paired_groups(blast: pd.DataFrame, job: ReplicaGrid, same_rail: bool = True) -> float:
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
    each = blast["count"] * blast["groups"] / (job.replicas * job.layers)  # of a kind that a group depends on
    alone = -np.expm1(np.sum(each[~several] * np.log1p(-blast["out_of_service"][~several])))
    out = binomial(n, alone)
    for row, parts in zip(blast[several].itertuples(), each[several], strict=True):
        size, times = round(row.replicas), np.arange(n // round(row.replicas) + 1)
        events = np.zeros(n + 1)
        events[times * size] = np.diff(special.pdtr(times, parts * n / size * row.out_of_service), prepend=0)
        out = np.convolve(out, events)[: n + 1]
    return complete_pipelines(out, job.layers)


def complete_pipelines(out: ArrayLike, layers: int) -> float:
    """Share of n groups of each layer that find a partner in every layer: 1 - E[max over L layers of those out] / n.

    out: probabilities that 0, 1, ... n groups of a layer are out; E[max] = sum over k < n of 1 - P(out <= k)^L.
    """
    up_to = np.minimum(np.cumsum(out), 1)[:-1]
    return float(1 - np.sum(1 - up_to**layers) / len(up_to))


def groups_with_spares(blast: pd.DataFrame, job: ReplicaGrid) -> float:
    """Share of a rack's groups that work when any of its GPUs can join any group: 1 - E[groups lost] / g.

    With X GPUs out of service, ceil((X - s) / t) groups are lost; with an HB switch out of service, all. X is the sum
    of a binomial over the rack's GPUs, spares included, and one over its hosts. Leaf switches count rack by rack.
    """
    parts = blast.set_index("part")
    u, counts = parts["out_of_service"], parts["count"]
    gpu = 1 - np.prod([1 - u[part] for part in ("GPU", "NIC", "process")])
    if counts["link"]:
        gpu = 1 - (1 - gpu) * (1 - u["link"]) * (1 - u["transceiver"]) ** 2 * (1 - u["switch"])
    size = int(parts["gpus"]["host"])
    out = binomial(job.rack_gpus, gpu)
    hosts, events = -(-job.rack_gpus // size), np.zeros(job.rack_gpus + size + 1)
    events[np.arange(hosts + 1) * size] = binomial(hosts, u["host"])
    out = np.convolve(out, events)
    lost = np.minimum(np.ceil(np.maximum(np.arange(len(out)) - job.spares, 0) / job.tensor), job.groups_per_rack)
    switches = (1 - u["HB switch"]) ** (counts["HB switch"] / job.all_racks)
    return float(switches * (1 - np.sum(out * lost) / job.groups_per_rack))


def spares_needed(needed: int, out_of_service: float, probability: float, pools: int = 1) -> int:
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
    checks.whole("needed", needed)
    checks.whole("pools", pools)
    checks.share("out_of_service", out_of_service, below_1=True)
    checks.share("probability", probability, above_0=True, below_1=True)
    most, asked = needed, probability ** (1 / pools)
    while special.bdtr(most, needed + most, out_of_service) < asked:
        most *= 2
    k = np.arange(most + 1)
    return int(np.argmax(special.bdtr(k, needed + k, out_of_service) >= asked))


def binomial(n: int, p: float) -> np.ndarray:
    """Probabilities of 0 to n events in n trials of probability p each."""
    return np.diff(special.bdtr(np.arange(n + 1), n, p), prepend=0)
