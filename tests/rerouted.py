"""What a failed part leaves of NIC bandwidth, with flows routed one by one: `FailedPart` is held to it."""

import numpy as np
import pandas as pd

from railcore.network.topology.faults import cut_from_network, wiring_left
from railcore.network.topology.routed_flows import fabric_loads
from railcore.network.topology.wiring import whole_wiring


def share_left(fabric, flows, fault, one_neighbour=False):
    """Share of NIC bandwidth that flows between domains get where those of cut-off NICs take other rails."""
    whole = whole_wiring(fabric)
    left = wiring_left(whole, fault)
    moved = moved_to_other_rails(fabric, flows, cut_from_network(whole, left), one_neighbour)
    most = max(np.bincount(flows[end], flows["bytes"]).max() for end in ("source", "target"))
    return float(most / fabric.nic_rate_Bps / fabric_loads(left, moved)["time_s"].max())


def moved_to_other_rails(fabric, flows, cut, one_neighbour=False):
    """Flows after those of cut-off NICs have moved to other rails: all whose NICs work at both ends, or the next one.

    The HB domain takes such a flow to other GPUs of the source's domain, the rails of these GPUs to GPUs of equal rank
    in the target's domain, and the HB domain there to the target. flow: row of the flow of which it is a part.
    """
    if not len(cut):
        return flows.assign(flow=np.arange(len(flows)))
    K, gone = fabric.hb_domain_size, np.zeros(fabric.gpus + 1, bool)
    gone[[*cut, fabric.gpus]] = True
    source, target = (flows[end].to_numpy(int) for end in ("source", "target"))
    hit = gone[source] | gone[target]
    (flow,), ranks = np.nonzero(hit), np.arange(K)
    source, target, size = source[hit], target[hit], flows["bytes"].to_numpy(float)[hit]
    here, there = (np.minimum((end // K * K)[:, None] + ranks, fabric.gpus) for end in (source, target))
    works = ~gone[here] & ~gone[there]
    assert works.any(axis=1).all()
    if one_neighbour:
        broken = np.where(gone[source], source, target) % K
        away = np.where(works, (ranks - broken[:, None]) % K, K)
        works = away == away.min(axis=1)[:, None]
    row, rank = np.nonzero(works)
    part = (size / works.sum(axis=1))[row]
    ways = ((source[row], here[row, rank]), (here[row, rank], there[row, rank]), (there[row, rank], target[row]))
    moved = [pd.DataFrame({"source": a, "target": b, "bytes": part, "flow": flow[row]}) for a, b in ways]
    kept = flows.loc[~hit, ["source", "target", "bytes"]].assign(flow=np.flatnonzero(~hit))
    return pd.concat([kept, *moved], ignore_index=True)
