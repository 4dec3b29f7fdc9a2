"""Traffic locality: the share of a job's flows that leaves a leaf or pod, by placement, and what that saves.

A job is `stages` rings of `members` racks: racks of a ring exchange gradients with their neighbours on it, and the
racks at one place of two consecutive stages exchange activations (a chain). GPU j of a rack talks to GPU j of others.
A network numbers its endpoints rack by rack, e of each rack (all K where it is one rail, K / R with R rails), and a
block (a leaf, a pod) holds B consecutive ones.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from railcore.network.topology.clos import down_ports
from suite.flops2024.scale_out import Equipment, rail_plane_networks

Racks = NDArray[np.int64]


def ring_crossing(members: ArrayLike, stride: ArrayLike, rack_endpoints: ArrayLike, block: ArrayLike) -> np.ndarray:
    """Share of a ring's flows that leave their block, averaged over the ring's possible starts.

    f = ((n - 1) min(1, e g / B) + min(1, e g (n - 1) / B)) / n: n - 1 steps to the next member and one back.

    Parameters
    ----------
    members, stride
        Members n of the ring; racks g from member to member.
    rack_endpoints, block
        Endpoints e of a rack and B of a block.

    Returns
    -------
    Share f, 0 for a ring of one.
    """
    n, step = np.asarray(members, float), np.asarray(rack_endpoints, float) * stride
    return np.where(n > 1, ((n - 1) * _leaves(step, block) + _leaves(step * (n - 1), block)) / n, 0.0)


def chain_crossing(
    stages: ArrayLike, members: ArrayLike, bands: ArrayLike, rack_endpoints: ArrayLike, block: ArrayLike
) -> np.ndarray:
    """Share of the flows between stages that leave their block, averaged over a band's possible starts.

    f = ((S - b) min(1, e / B) + (b - 1) min(1, e (h (n - 1) + 1) / B)) / (S - 1): S - b steps within a band, to the
    next rack, and b - 1 from band to band, with h = S / b stages in each.

    Parameters
    ----------
    stages, members, bands
        Stages S, members n of a stage's ring, and bands b.
    rack_endpoints, block
        Endpoints e of a rack and B of a block.

    Returns
    -------
    Share f, 0 for a chain of one stage.
    """
    s, b, e = (np.asarray(value, float) for value in (stages, bands, rack_endpoints))
    between = e * (s / b * (np.asarray(members) - 1) + 1)
    flows = (s - b) * _leaves(e, block) + (b - 1) * _leaves(between, block)
    return np.where(s > 1, flows / np.maximum(s - 1, 1), 0.0)


def _leaves(distance: ArrayLike, block: ArrayLike) -> np.ndarray:
    return np.minimum(1.0, np.asarray(distance, float) / block)


def best_band_count(stages: int, members: int, block: int) -> int:
    """Number of bands that lets least traffic leave a leaf of `block` racks, counting the worse kind of flow.

    Many bands keep rings inside (each stage its own: a ring's racks stand in a row), few keep chains. The least maximum
    of `ring_crossing` at a stride of S / b and `chain_crossing`, over b = 1 ... S.
    """
    bands = np.arange(1, stages + 1)
    ring = ring_crossing(members, stages / bands, 1, block)
    worse = np.maximum(ring, chain_crossing(stages, members, bands, 1, block))
    return int(bands[np.argmin(worse)])


def band_placement(stages: int, members: int, bands: int) -> Racks:
    """Place of each stage's and ring member's rack in the row of racks [stages, members], in bands of stages.

    A band holds about S / b consecutive stages; in it the stages of member 1 stand in a row, then those of member 2.
    """
    stage, member = np.mgrid[:stages, :members]
    order = np.lexsort([array.ravel() for array in (stage, member, stage * bands // stages)])
    place = np.empty(stages * members, dtype=np.int64)
    place[order] = np.arange(order.size)
    return place.reshape(stages, members)


def placement_bands(stages: int, members: int, block: int) -> dict[str, int]:
    """Number of bands of each placement: rings together (a band a stage), pipelines together (one), best for leaves."""
    best = best_band_count(stages, members, block)
    return {"rings together": stages, "pipelines together": 1, f"bands, {best} of them": best}


def rack_placements(stages: int, members: int, block: int) -> dict[str, Racks]:
    """Places of racks [stages, members] by the names of `placement_bands`, and at random; block: racks of a leaf."""
    placed = {
        name: band_placement(stages, members, bands) for name, bands in placement_bands(stages, members, block).items()
    }
    shuffled = np.random.default_rng(0).permutation(stages * members)
    return placed | {"random": shuffled.reshape(stages, members)}


class Crossing(NamedTuple):
    """Flows that leave their block: shares of all ring and chain flows, and flows out of the busiest block over B."""

    ring: float
    chain: float
    ring_most: float
    chain_most: float

    @property
    def most(self) -> float:
        """Share of the busiest block's bandwidth that leaves it, for the kind of flow that needs more."""
        return max(self.ring_most, self.chain_most)


def counted_crossing(place: Racks, rack_endpoints: int, block: int) -> Crossing:
    """Flows counted on a placement. place [stages, members]: racks' places; rack_endpoints e, block B [endpoints]."""
    ranks = np.arange(rack_endpoints, dtype=np.int32)[:, None, None]
    at = (place[None].astype(np.int32) * np.int32(rack_endpoints) + ranks) // np.int32(block)

    def leaving(source: np.ndarray, target: np.ndarray) -> tuple[float, float]:
        away = source[source != target]
        return (away.size / source.size, int(np.bincount(away).max()) / block) if away.size else (0.0, 0.0)

    ring, ring_most = leaving(at, np.roll(at, -1, axis=2))
    chain, chain_most = leaving(at[:, :-1], at[:, 1:])
    return Crossing(ring, chain, ring_most, chain_most)


def oversubscribed_leaves(
    gpus: int,
    rails: int,
    planes: int,
    ratios: ArrayLike,
    stages: int,
    members: int,
    equipment: Equipment,
    outside: float = 0.0,
) -> pd.DataFrame:
    """Rails of one GPU a rack under oversubscribed leaves: cost, and whether all flows of a placement fit at once.

    A leaf has d = floor(k P s / (1 + s)) GPUs and ceil(d / s) uplinks. It fits where what leaves the busiest leaf, on a
    placement for leaves of d, is no more than its uplinks: (1 - w) x flows + w d.

    Parameters
    ----------
    gpus, rails, planes
        GPUs of the datacenter, rails and planes P.
    ratios
        Oversubscriptions s of the leaves.
    stages, members
        Stages of the job and racks of each.
    equipment
        What the network is built of.
    outside
        Share w of a GPU's bandwidth that goes to other datacenters.

    Returns
    -------
    Columns placement (bands as one name), oversubscription s, leaf_gpus d, uplinks, most_leaving [NICs' worth], fits,
    tiers, chips, cables, cost_usd, power_w, price_book, saved (share of the cost at s = 1).

    Raises
    ------
    ValueError
        An oversubscription below 1.
    """
    ports, rows = int(equipment.radix(planes)) * planes, []
    parts = ["tiers", "chips", "cables", "cost_usd", "power_w", "price_book"]
    for s in np.atleast_1d(np.asarray(ratios, float)):
        network = rail_plane_networks(gpus, rails, planes, equipment, tier_oversubscription=(float(s),)).iloc[0]
        leaf = int(down_ports(np.array(ports), s))
        uplinks = int(np.ceil(leaf / s))
        for layout, place in rack_placements(stages, members, leaf).items():
            counted = counted_crossing(place, 1, leaf)
            most = ((1 - outside) * counted.most + outside) * leaf
            rows.append((layout.partition(",")[0], s, leaf, uplinks, most, most <= uplinks + 1e-9, *network[parts]))
    columns = ["placement", "oversubscription", "leaf_gpus", "uplinks", "most_leaving", "fits", *parts]
    table = pd.DataFrame(rows, columns=columns)
    full = rail_plane_networks(gpus, rails, planes, equipment)["cost_usd"].iloc[0]
    return table.assign(saved=1 - table["cost_usd"] / full)


def largest_oversubscription(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of `oversubscribed_leaves` with the largest oversubscription that each placement allows."""
    fitting = table[table["fits"]].sort_values("oversubscription", kind="stable")
    return fitting.groupby("placement", sort=False).tail(1).drop(columns="fits")
