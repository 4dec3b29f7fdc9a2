"""Transfers that are split over several flows, for the planes of a NIC and for ECMP, by the flow-level model."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from railcore.engines.transport.fabric import PathFabric
from railcore.engines.transport.flows import Flows, split_flows
from railcore.engines.transport.hashing import ecmp_paths, most_loaded_links
from railcore.engines.transport.sharing import fair_sharing, ideal_spraying
from railcore.facts.arguments import checked
from railcore.facts.checks import Floats, Ints


@checked
def split_transfers_s(
    fabric: PathFabric, flows: Flows, parts: int, seed: int = 0, one_a_plane: bool = False
) -> tuple[Floats, Ints]:
    """Transfers that are split into equal flows, each on one path by ECMP and complete when the last of them is.

    Parameters
    ----------
    fabric, flows
        Where the transfers run, and the transfers, whole.
    parts
        Flows that each is split into.
    seed
        Of the hash.
    one_a_plane
        Give the parts to the planes in turn, and let the hash choose within each; else it chooses among all paths.

    Returns
    -------
    Completion time of each transfer, shape [flows] [s], and the plane of each part, shape [flows, parts].
    """
    each, within = split_flows(flows, parts), fabric.paths_per_plane
    path = ecmp_paths(fabric, each, seed)
    if one_a_plane:
        path = path % within + np.tile(np.arange(parts) % fabric.planes, len(flows)) * within
    times = fair_sharing(fabric, each, path).completion_s
    return times.reshape(-1, parts).max(1), (path // within).reshape(-1, parts)


def plane_slowdowns(fabric: PathFabric, flows: Sequence[Flows]) -> pd.DataFrame:
    """Ways to use the ports of a NIC, each on a plane of its own, over one transfer alone.

    fabric: of several planes. flows: one draw each; its place is the seed of the hash.
    Columns way, seed, mean and slowdown (of the last transfer), busiest_plane (share of a transfer's bytes on the plane
    that has most of them, mean of the transfers).
    """
    planes, rows = fabric.planes, []
    ways = {
        "one flow, plane by hash": (1, False),
        f"{planes} flows, planes by hash": (planes, False),
        f"{planes} flows, one a plane": (planes, True),
    }
    for seed, each in enumerate(flows):
        sprayed = ideal_spraying(fabric, each)
        for way, (parts, one_a_plane) in ways.items():
            times, used = split_transfers_s(fabric, each, parts, seed, one_a_plane)
            slow = times / sprayed.alone_s
            most = (used[:, :, None] == np.arange(planes)).mean(1).max(1)
            rows.append((way, seed, slow.mean(), slow.max(), most.mean()))
        rows.append(("packets sprayed", seed, sprayed.slowdown.mean(), sprayed.slowdown.max(), 1 / planes))
    return pd.DataFrame(rows, columns=["way", "seed", "mean", "slowdown", "busiest_plane"])


def subflow_slowdowns(
    fabric: PathFabric, flows: Sequence[Flows], subflows: Sequence[int], shared: int = 4
) -> pd.DataFrame:
    """The last of transfers that are split for ECMP, over one alone.

    Parameters
    ----------
    fabric, flows
        Where they run; one draw each, whose place is the seed of the hash.
    subflows
        Flows of a transfer.
    shared
        Up to so many are computed by fair sharing too, whose time grows with their square.

    Returns
    -------
    Columns model ("most loaded link" or "fair sharing"), subflows, seed, slowdown.
    """
    rows = []
    for seed, each in enumerate(flows):
        alone = ideal_spraying(fabric, each).alone_s
        for parts in subflows:
            loaded = most_loaded_links(fabric, each, 1, seed, parts)["slowdown"].iloc[0]
            rows.append(("most loaded link", parts, seed, loaded))
            if parts <= shared:
                slow = split_transfers_s(fabric, each, parts, seed)[0] / alone
                rows.append(("fair sharing", parts, seed, slow.max()))
    return pd.DataFrame(rows, columns=["model", "subflows", "seed", "slowdown"])
