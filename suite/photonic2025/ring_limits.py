"""Few NIC ports allow only rings between GPUs: how many, and what share of the NIC each gets.

A circuit joins one port of a NIC to one port of another. A ring takes two circuits of each member, to the member before
and to the one after; two members need one. Groups that never use the NIC at the same time may take turns; here each
keeps its circuits for the whole job.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.catalog.checks import Floats, Ints
from railcore.catalog.units import Gbps
from railcore.training.collectives import steps_and_bytes
from railcore.training.parallelism import DIMENSIONS, Strategy


def ring_step_ratio(ranks: ArrayLike) -> Floats:
    """Latency steps of an AllReduce on a ring over those of recursive doubling: 2 (n - 1) / log2 n.

    ranks: n, powers of two from 2.
    """
    ring, doubling = (steps_and_bytes("all_reduce", way, 0, ranks)[0] for way in ("ring", "recursive_doubling"))
    return np.asarray(ring / doubling)


def ring_all_to_all_ratio(ranks: int, both_ways: bool = True) -> float:
    """Time of an all-to-all on a ring over that on the same ports with switches that join any two ranks.

    Counted link by link: each rank sends D / y to every other; on the ring each piece takes the links between. One way,
    all ports of a NIC send onward: y / 2. Both ways, half of them send each way and pieces take the shorter one: about
    y / 4. ranks: y, from 3.
    """
    y = ranks
    forward, backward = np.zeros(y), np.zeros(y)
    for source in range(y):
        for hops in range(1, y):
            onward = [(source + i) % y for i in range(hops)]
            back = [(source - i) % y for i in range(y - hops)]
            share = 1.0 if not both_ways or 2 * hops < y else 0.5 if 2 * hops == y else 0.0
            forward[onward] += share / y
            backward[back] += (1 - share) / y
    rate = 0.5 if both_ways else 1.0
    return float(max(forward.max(), backward.max()) / rate / ((y - 1) / y))


def ring_ports(members: ArrayLike) -> Ints:
    """Ports that a ring takes of each member's NIC: 0 for one member, 1 for two, else 2."""
    return np.minimum(np.asarray(members) - 1, 2)


def static_port_partition(groups: Mapping[str, int], ports: int, nic_Bps: float) -> pd.DataFrame:
    """Ports of a NIC shared out among groups for the whole job: rings in the groups' order, up to the first misfit.

    A ring takes `ring_ports`, and as many times that as the ports allow for all that fit; the rest is idle. A ring of
    two members takes one port here; `simulation.StaticPartition` gives every ring two, as a run keeps out and in apart.

    Parameters
    ----------
    groups
        Members of each group that a GPU communicates with over its NIC, by name.
    ports, nic_Bps
        Of the NIC, and bandwidth of all its ports together, one direction [bytes/s].

    Returns
    -------
    A row for each group: group, members, needed_ports, ports (0 where it does not fit), bandwidth_Bps, share.
    """
    names, members = list(groups), list(groups.values())
    needed = ring_ports(members)
    fits = np.cumsum(needed) <= ports
    turns = ports // max(int(needed[fits].sum()), 1)
    group_ports = np.where(fits, needed * turns, 0)
    share = group_ports / ports
    columns = {"group": names, "members": members, "needed_ports": needed, "ports": group_ports}
    return pd.DataFrame({**columns, "bandwidth_Bps": share * nic_Bps, "share": share})


def ring_neighbours(strategy: Strategy, hb_domain_size: int) -> pd.DataFrame:
    """Ranks that each rank exchanges data with when all its groups run rings: its communication degree.

    A pipeline is a chain, or with interleaved chunks a ring. A row for each rank: tensor, context, data, pipeline
    (neighbours in its group of that kind), neighbours (all), on_rail (those in another HB domain, the scale-up or
    NVLink domain). Ranks fill HB domains in their order. hb_domain_size [GPUs].
    """
    counts = {}
    on_rail = np.zeros(strategy.gpus, np.int64)
    for kind in DIMENSIONS:
        ring = kind != "pipeline" or strategy.interleave > 1
        ranks, others = _neighbour_pairs(strategy.groups(kind), ring).T
        counts[kind] = np.bincount(ranks, minlength=strategy.gpus)
        away = ranks // hb_domain_size != others // hb_domain_size
        on_rail += np.bincount(ranks[away], minlength=strategy.gpus)
    table = pd.DataFrame({"rank": np.arange(strategy.gpus), **counts})
    return table.assign(neighbours=table[list(DIMENSIONS)].sum(axis=1), on_rail=on_rail)


def _neighbour_pairs(groups: Ints, ring: bool) -> Ints:
    """Ordered pairs of neighbours, each once [pairs, 2]."""
    pairs = np.stack([groups, np.roll(groups, -1, axis=1)], axis=-1)
    pairs = (pairs if ring else pairs[:, :-1]).reshape(-1, 2)
    both = np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)
    return both[both[:, 0] != both[:, 1]]


def nic_port_modes(nic: str) -> pd.DataFrame:
    """Modes of a NIC of the catalog: columns ports, port_Bps, total_Bps, over_rate (total over the NIC's rate)."""
    item = catalog.item("nics", nic)
    speeds = [name for name in item if name.startswith("ports_")]  # such as ports_200g
    table = pd.DataFrame(
        {"ports": [int(item[name]) for name in speeds], "port_Bps": [int(name[6:-1]) * Gbps for name in speeds]}
    )
    table["total_Bps"] = table["ports"] * table["port_Bps"]
    return table.assign(over_rate=table["total_Bps"] / item["bandwidth"])
