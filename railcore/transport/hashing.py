"""Which path a flow takes by a hash, as ECMP does, how flows pile up on links, and how many paths even them out."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import special

from railcore.catalog.arguments import Listed, NonNegativeInt, checked
from railcore.catalog.checks import Floats, Ints, positive, seed_of, share, whole
from railcore.transport.fabric import SKIPPED, PathFabric
from railcore.transport.flows import Flows

_AT_ONCE = 2**15  # hashes that are held together: they fit a core's cache
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
    """Whether each path of each flow passes no dead port; shape [flows, paths] of booleans."""
    base, offset = fabric.tables(flows.source, flows.destination)
    live = np.ones((len(flows), fabric.paths), bool)
    if np.any(fabric.rates == 0):
        for column, step in zip(base.T, offset.T, strict=True):
            passed = column != SKIPPED
            live[passed] &= fabric.rates[column[passed, None] + step] > 0
    return live


def entropy_paths(fabric: PathFabric, flows: Flows, entropies: Listed, seed: int = 0, converged: bool = True) -> Ints:
    """The path of each entropy of each flow: what a sender sprays over that changes a field of its packets.

    Two entropies may hash to one path. One hash chooses the whole path; switches that hash alike one after another
    (polarization) are left out.

    Parameters
    ----------
    fabric, flows
        Where the flows run.
    entropies
        Values that each flow uses in turn.
    seed
        Of the hash: each gives another draw.
    converged
        Routing has withdrawn the paths with a dead port; else flows are hashed onto them too.

    Returns
    -------
    Path of each, shape [flows, entropies]. One entropy gives `ecmp_paths`.

    Raises
    ------
    ValueError
        For a flow that has no live path.
    """
    draw = np.atleast_1d(np.uint64(seed_of(seed)))
    count = int(whole("entropies", entropies))
    keys = _keys(flows, count)
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
    chosen = _chosen(keys, draw, paths[:, None])
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
        Routing has withdrawn the paths with a dead port; else flows are hashed onto them too.

    Returns
    -------
    Path of each flow, shape [flows], for `PathFabric.port_table`.
    """
    return entropy_paths(fabric, flows, 1, seed, converged)[:, 0]


def flows_per_link(fabric: PathFabric, flows: Flows, path: ArrayLike) -> Floats:
    """Flows on each port, shape [ports]; a flow over several paths counts for its share on each.

    path: of each flow, shape [flows], or [flows, entropies] for flows that spread evenly over several.
    """
    many = np.reshape(whole("path", path, 0, fabric.paths - 1), (len(flows), -1))
    if not many.size:
        raise ValueError(f"path is {path!r}: give a path of each flow")
    base, offset = fabric.tables(flows.source, flows.destination)
    load = np.zeros(fabric.ports)
    for column, step in zip(base.T, offset.T, strict=True):
        passed = column != SKIPPED
        ports = (column[passed, None] + step[many[passed]]).ravel()
        load += np.bincount(ports, minlength=fabric.ports)
    return load / many.shape[1]


@checked
def most_loaded_links(
    fabric: PathFabric, flows: Flows, draws: Listed = 1000, seed: NonNegativeInt = 0, entropies: Listed = 1
) -> pd.DataFrame:
    """The most loaded link of each stage in many draws of the hash, and what it makes of the last flow's time.

    Parameters
    ----------
    fabric, flows
        Where the flows run; all of one size.
    draws
        Rows of the table.
    seed
        Of the first draw; draw d has the paths of `entropy_paths` with seed + d.
    entropies
        Paths that each flow spreads over evenly; 1 is ECMP.

    Returns
    -------
    One row a draw, with the seed as index. A column for each stage: the largest load of a link, in flows. slowdown:
    of the last flow against one alone on the fabric, where the most loaded port is busy until the end, at its rate.

    Raises
    ------
    ValueError
        For a fabric with dead ports: there the hash depends on the pair.
    """
    if np.any(fabric.rates == 0):
        raise ValueError("rates has dead ports: draw paths with entropy_paths and count them with flows_per_link")
    base, offset = fabric.tables(flows.source, flows.destination)
    keys, first = _keys(flows, int(whole("entropies", entropies))).ravel(), seed_of(seed)
    names, starts = _stage_names(fabric), fabric.stage_start
    most = np.zeros((int(whole("draws", draws)), fabric.stages))
    worst = np.zeros_like(most)
    step = max(1, _AT_ONCE // len(keys))
    hashed = [s for s in range(fabric.stages) if np.ptp(offset[:, s])]
    for at in range(0, len(most), step):
        seeds = np.arange(first + at, first + min(at + step, len(most)), dtype=np.uint64)
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
    table = pd.DataFrame(most / entropies, pd.Index(range(first, first + len(most)), name="seed"), names)
    return table.assign(slowdown=worst.max(1) / entropies * fabric.planes)


def _stage_names(fabric: PathFabric) -> list[str]:
    """What sends at each stage."""
    return ["host", "leaf up", *(["aggregation up", "core down", "aggregation down"] if fabric.cores else
            ["spine down"]), "leaf down"]  # fmt: skip


def _even_groups(fabric: PathFabric, flows: Flows) -> tuple[Ints, Ints]:
    """Flows of every group of links that a hash chooses among, and links of the group; shape [groups]."""
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
    """Chance that no link has more than a load [flows]: the product of single links' binomial chances."""
    most: Floats = np.floor(np.atleast_1d(load) * entropies + 1e-9)
    chance = np.ones(len(most))
    pairs, times = np.unique(np.stack(groups), axis=1, return_counts=True)
    for (count, links), equal in zip(pairs.T, times, strict=True):
        hashes = int(count * entropies)
        below = np.where(most >= hashes, 1.0, special.bdtr(np.minimum(most, hashes), hashes, 1 / links))
        chance = chance * below ** float(equal * links)
    return chance


def most_loaded_chances(fabric: PathFabric, flows: Flows) -> pd.DataFrame:
    """How likely no link carries more than a number of flows, each hashed onto one path, as if links were independent.

    They are not: what one link of a leaf has, the others have not. On a few links the chance is off by up to 0.2, on
    a network of 1,024 hosts by less than 0.04.

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
    """Paths that each flow has to be hashed onto, evenly, until the most loaded link is near even spraying.

    Parameters
    ----------
    fabric, flows
        Where the flows run; every link at full speed.
    within
        How much more than under even spraying the most loaded link may have, as a share.
    probability
        Chance that a draw does so, as in `most_loaded_chances`.

    Returns
    -------
    The fewest entropies for each flow; whole packets and fewer make steps that are left out.
    """
    groups, chance = _even_groups(fabric, flows), float(share("probability", probability, above_0=True, below_1=True))
    load = float(np.max(groups[0] / groups[1])) * (1 + float(positive("within", within)))
    enough = 1
    while _most_loaded_chance(groups, load, enough)[0] < chance:
        if enough >= _MOST_SUBFLOWS:
            raise ValueError(f"within is {within:g}: even {enough:,} paths for each flow are not enough; give more")
        enough *= 2
    least = enough // 2
    while enough - least > 1:
        middle = (least + enough) // 2
        met = _most_loaded_chance(groups, load, middle)[0] >= chance
        least, enough = (least, middle) if met else (middle, enough)
    return enough
