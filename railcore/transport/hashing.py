"""Paths by a hash, as ECMP draws them: how flows pile up on links, and how many paths even them out."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from railcore.catalog.arguments import Listed, NonNegativeInt, checked
from railcore.catalog.checks import Floats, Ints
from railcore.transport.fabric import SKIPPED, PathFabric
from railcore.transport.flows import Flows

_AT_ONCE = 2**15  # hashes in one array, which fits a core's cache
_STEP = 0x9E3779B97F4A7C15  # of splitmix64: 2^64 over the golden ratio
_MOST_SUBFLOWS = 2**20


def hash64(key: ArrayLike) -> np.ndarray:
    """A 64-bit hash of 64-bit keys that is the same on every machine: the last step of splitmix64.

    References
    ----------
    Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014.
    """
    bits = np.atleast_1d(np.asarray(key, np.uint64)) + np.uint64(_STEP)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def _keys(flows: Flows, entropies: int) -> np.ndarray:
    """Hash of source, destination, number of the flow, and entropy; shape [flows, entropies]."""
    key = hash64(flows.source)
    for part in (flows.destination, np.arange(len(flows))):
        key = hash64(key ^ part.astype(np.uint64))
    return hash64(key[:, None] ^ np.arange(entropies, dtype=np.uint64))


def _chosen(keys: np.ndarray, seed: np.ndarray, choices: ArrayLike) -> Ints:
    """A whole number below `choices` for each key: the upper half of its hash with the seed, scaled."""
    upper = hash64(keys ^ hash64(seed)) >> np.uint64(32)
    return (upper * np.asarray(choices, np.uint64) >> np.uint64(32)).astype(np.int64)


def live_paths(fabric: PathFabric, flows: Flows) -> np.ndarray:
    """Whether each path of each flow passes no dead port [flows, paths]."""
    base, offset = fabric.tables(flows.source, flows.destination)
    live = np.ones((len(flows), fabric.paths), bool)
    if np.any(fabric.rates == 0):
        for column, step in zip(base.T, offset.T, strict=True):
            passed = column != SKIPPED
            live[passed] &= fabric.rates[column[passed, None] + step] > 0
    return live


def entropy_paths(fabric: PathFabric, flows: Flows, entropies: int, seed: int = 0, converged: bool = True) -> Ints:
    """The path of each entropy of each flow. A sender sprays by changing this field of its packets.

    Two entropies may hash to one path. One hash chooses the whole path, so that polarization (equal hashes in switches
    one after another) is left out.

    Parameters
    ----------
    fabric, flows
        Where the flows run.
    entropies
        Values that each flow uses in turn.
    seed
        Of the hash: each gives another draw.
    converged
        Whether routing has withdrawn the paths with a dead port; else flows are hashed onto them too.

    Returns
    -------
    Path of each [flows, entropies]. One entropy gives `ecmp_paths`.

    Raises
    ------
    ValueError
        For a flow that has no live path.
    """
    keys = _keys(flows, entropies)
    if not converged or np.all(fabric.rates > 0):
        fabric.tables(flows.source, flows.destination)  # refuses what cannot be reached
        live = np.ones((1, fabric.paths), bool)
    else:
        live = live_paths(fabric, flows)
    paths = live.sum(1)
    least = int(np.argmin(paths))
    if not paths[least]:
        raise ValueError(
            f"destination {flows.destination[least]} cannot be reached from host {flows.source[least]}: every path "
            f"has a dead link; give rates above 0, or another seed of `degraded`"
        )
    chosen = _chosen(keys, np.atleast_1d(np.uint64(seed)), paths[:, None])
    if live.all():
        return chosen
    return np.take_along_axis(np.argsort(~live, axis=1, kind="stable"), chosen, 1)  # live paths first


@checked
def ecmp_paths(fabric: PathFabric, flows: Flows, seed: NonNegativeInt = 0, converged: bool = True) -> Ints:
    """The one path of each flow that ECMP's hash of source, destination and number of the flow gives.

    Parameters
    ----------
    fabric, flows
        Where the flows run.
    seed
        Of the hash: each gives another draw.
    converged
        Whether routing has withdrawn the paths with a dead port; else flows are hashed onto them too.

    Returns
    -------
    Path of each flow [flows], for `PathFabric.port_table`.
    """
    return entropy_paths(fabric, flows, 1, seed, converged)[:, 0]


@checked
def most_loaded_links(
    fabric: PathFabric, flows: Flows, draws: Listed = 1000, seed: NonNegativeInt = 0, entropies: Listed = 1
) -> pd.DataFrame:
    """The most loaded link of each stage in many draws of the hash, and the slowdown of the last flow by it.

    Parameters
    ----------
    fabric, flows
        Where the flows run; all of one size.
    draws
        Rows of the table.
    seed
        Of the first draw; draw d has the paths of `entropy_paths` with seed + d.
    entropies
        Paths over which each flow spreads evenly; 1 is ECMP.

    Returns
    -------
    One row a draw, with the seed as index. A column for each stage: the largest load of a link, in flows. slowdown:
    time of the last flow over that of a flow alone, if the most loaded port sends at its rate until the end.

    Raises
    ------
    ValueError
        For a fabric with dead ports: there the hash depends on the pair.
    """
    if np.any(fabric.rates == 0):
        raise ValueError("rates has dead ports: draw paths with ecmp_paths, and times with fair_sharing")
    base, offset = fabric.tables(flows.source, flows.destination)
    keys, starts = _keys(flows, entropies).ravel(), fabric.stage_start
    most = np.zeros((draws, fabric.stages))
    worst = np.zeros_like(most)
    step = max(1, _AT_ONCE // len(keys))
    hashed = [s for s in range(fabric.stages) if np.ptp(offset[:, s])]
    for at in range(0, draws, step):
        seeds = np.arange(seed + at, seed + min(at + step, draws), dtype=np.uint64)
        path = _chosen(keys, seeds[:, None], fabric.paths)
        for s in range(fabric.stages) if at == 0 else hashed:
            passed = np.repeat(base[:, s] != SKIPPED, entropies)
            if not passed.any():
                continue
            ports, rates = int(fabric.stage_ports[s]), fabric.rates[starts[s] : starts[s + 1]]
            row = np.repeat(base[:, s] - starts[s], entropies)[passed] + ports * np.arange(len(seeds))[:, None]
            chosen = path if passed.all() else path[:, passed]
            load = np.bincount((row + offset[:, s][chosen]).ravel(), minlength=ports * len(seeds)).reshape(-1, ports)
            rows = slice(at, at + step) if s in hashed else slice(None)  # the same in every draw
            most[rows, s] = load.max(1) if s in hashed else load[0].max()
            worst[rows, s] = (load / rates).max(1) if s in hashed else (load[0] / rates).max()
    middle = ["aggregation up", "core down", "aggregation down"] if fabric.cores else ["spine down"]
    index = pd.Index(range(seed, seed + draws), name="seed")
    table = pd.DataFrame(most / entropies, index, ["host", "leaf up", *middle, "leaf down"])
    return table.assign(slowdown=worst.max(1) / entropies * fabric.planes)


def _even_groups(fabric: PathFabric, flows: Flows) -> tuple[Ints, Ints]:
    """Flows and links of every group of links that a hash chooses among [groups]."""
    if np.any(fabric.rates != 1):
        raise ValueError("rates are not all 1: links of several speeds have no such bound; use most_loaded_links")
    base, offset = fabric.tables(flows.source, flows.destination)
    flows_of, links_of = [], []
    for column, step in zip(base.T, offset.T, strict=True):
        count = np.unique(column[column != SKIPPED], return_counts=True)[1]
        flows_of.append(count)
        links_of.append(np.full(len(count), len(np.unique(step))))
    return np.concatenate(flows_of), np.concatenate(links_of)


def _most_loaded_chance(groups: tuple[Ints, Ints], load: ArrayLike, entropies: int = 1) -> Floats:
    """Chance that no link has more than a load [flows]: product of the binomial chances of single links."""
    most: Floats = np.floor(np.atleast_1d(load) * entropies + 1e-9)
    chance = np.ones(len(most))
    pairs, times = np.unique(np.stack(groups), axis=1, return_counts=True)
    for (count, links), equal in zip(pairs.T, times, strict=True):
        hashes = int(count * entropies)
        below = np.where(most >= hashes, 1.0, special.bdtr(np.minimum(most, hashes), hashes, 1 / links))
        chance = chance * below ** float(equal * links)
    return chance


def most_loaded_chances(fabric: PathFabric, flows: Flows) -> pd.DataFrame:
    """Chance that no link carries more than a number of flows, each hashed onto one path, with independent links.

    Links are not independent: a flow on one link of a leaf is not on the others. On a few links the chance is off by up
    to 0.2, on a network of 1,024 hosts by less than 0.04.

    fabric, flows: where the flows run; every link at full speed.
    Columns load [flows] and chance (that the most loaded link has at most this load), a row for each load.
    """
    groups = _even_groups(fabric, flows)
    even = float(np.max(groups[0] / groups[1]))
    last = even
    while _most_loaded_chance(groups, last)[0] < 1 - 1e-6:
        last = last * 1.1 + 1
    load = np.arange(np.floor(even), np.ceil(last) + 1)
    return pd.DataFrame({"load": load, "chance": _most_loaded_chance(groups, load)})


def subflows_needed(fabric: PathFabric, flows: Flows, within: float = 0.1, probability: float = 0.5) -> int:
    """Fewest paths onto which each flow is hashed evenly, for a most loaded link near that of even spraying.

    Parameters
    ----------
    fabric, flows
        Where the flows run; every link at full speed.
    within
        Load of the most loaded link over that under even spraying, less 1; above 0.
    probability
        Chance of such a draw, as in `most_loaded_chances`; above 0 and below 1.

    Returns
    -------
    Entropies of each flow. That packets are whole is left out.
    """
    groups = _even_groups(fabric, flows)
    load = float(np.max(groups[0] / groups[1])) * (1 + within)
    enough = 1
    while _most_loaded_chance(groups, load, enough)[0] < probability:
        if enough >= _MOST_SUBFLOWS:
            raise ValueError(f"within is {within:g}: even {enough:,} paths for each flow are not enough; give more")
        enough *= 2
    least = enough // 2
    while enough - least > 1:
        middle = (least + enough) // 2
        met = _most_loaded_chance(groups, load, middle)[0] >= probability
        least, enough = (least, middle) if met else (middle, enough)
    return enough
