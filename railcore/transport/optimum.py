"""The least time that flows need, from links and sizes alone: what completion times are measured against."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from railcore.catalog.arguments import Bytes, Quantity, Range, checked
from railcore.catalog.checks import Floats, Ints
from railcore.transport.fabric import SKIPPED, PathFabric
from railcore.transport.flows import Flows

CUTS = ("sending host", "links up from a leaf", "links up from a pod", "links down to a pod", "links down to a leaf",
        "receiving host")  # fmt: skip
_AT_ONCE = 2**21  # pairs of flow and path in one array


@checked
@dataclass(frozen=True)
class Framing:
    """How bytes become packets, and when a flow counts as complete.

    mtu_bytes: payload of a packet [bytes]. Every packet is full, also the last one.
    header_bytes: of every packet, and size of an acknowledgement [bytes].
    acknowledged: whether a flow is complete when its last acknowledgement is back; else when its last byte is received.
    """

    mtu_bytes: Annotated[Quantity, Range(1, example="4 KiB")] = 4096.0
    header_bytes: Bytes = 64.0
    acknowledged: bool = False

    @property
    def packet_bytes(self) -> float:
        """A full packet on the wire [bytes]."""
        return float(self.mtu_bytes) + float(self.header_bytes)

    def packets(self, size_bytes: ArrayLike) -> Floats:
        """Packets of a flow."""
        return np.ceil(np.asarray(size_bytes, float) / float(self.mtu_bytes))

    def wire_bytes(self, size_bytes: ArrayLike) -> Floats:
        """Bytes of a flow on each link [bytes]."""
        return self.packets(size_bytes) * self.packet_bytes


RECEIVED = Framing()  # complete when received


def stage_rates(fabric: PathFabric) -> list[Floats]:
    """Rates of the ports of each stage: [planes, hosts] first and last, between them [planes, switch, up or down]."""
    pods = int(fabric.pod.max()) + 1
    rows: list[Floats] = [
        np.reshape(part, (fabric.planes, -1)) for part in np.split(fabric.rates, fabric.stage_start[1:-1])
    ]
    up = [fabric.leaves, pods] if fabric.tiers == 3 else [fabric.leaves]
    for at, switches in enumerate(up, start=1):
        rows[at] = rows[at].reshape(fabric.planes, switches, -1)
        rows[-1 - at] = rows[-1 - at].reshape(fabric.planes, -1, switches).swapaxes(1, 2)
    return rows


def cuts(fabric: PathFabric, flows: Flows) -> tuple[Ints, Floats]:
    """Groups of ports that flows cross on any path [flows, 6], and the capacity of each group [bytes/s].

    A column for each of `CUTS`: number of the group that a flow crosses, `SKIPPED` for none. Numbers run through all
    columns.
    """
    base, _ = fabric.tables(flows.source, flows.destination)
    leaf, rows = fabric.leaf, stage_rates(fabric)
    ends = [(flows.source, leaf[flows.source], fabric.pod[leaf[flows.source]]),
            (flows.destination, leaf[flows.destination], fabric.pod[leaf[flows.destination]])]  # fmt: skip
    used, capacity, first = [], [], 0
    for at in (0, 1, 2, -3, -2, -1):
        level = min(at % 6, 5 - at % 6)
        if level == 2 and fabric.tiers < 3:
            used.append(np.full(len(flows), SKIPPED))
            continue
        here = ends[at < 0][level]
        used.append(np.where(base[:, at] == SKIPPED, SKIPPED, first + here))
        total = rows[at].sum(0) if level == 0 else rows[at].sum((0, 2))
        capacity.append(total * float(fabric.link_Bps))
        first += len(total)
    return np.stack(used, 1), np.concatenate(capacity)


def pair_planes_Bps(fabric: PathFabric, flows: Flows) -> Floats:
    """Largest rate of each flow alone in each plane, over all its paths [flows, planes] [bytes/s].

    Raises ValueError for a flow that no live path carries.
    """
    most_Bps = np.full((len(flows), fabric.planes), float(fabric.link_Bps))
    if np.all(fabric.rates == 1):
        return most_Bps
    base, offset = fabric.tables(flows.source, flows.destination)
    shape = (fabric.planes, max(1, fabric.uplinks), max(1, fabric.cores))
    step = max(1, _AT_ONCE // fabric.paths)
    for at in range(0, len(flows), step):
        some = base[at : at + step, None]
        rates = np.where(some == SKIPPED, np.inf, fabric.rates[np.where(some == SKIPPED, 0, some + offset)])
        stage = [rates[..., s].reshape(-1, *shape) for s in range(fabric.stages)]
        over = stage[1][..., 0] if fabric.tiers < 3 else np.minimum(stage[2], stage[3]).sum(-1)
        over = np.minimum(np.minimum(over, stage[1][..., 0]), stage[-2][..., 0]).sum(-1)
        ends = np.minimum(stage[0], stage[-1])[..., 0, 0]
        most_Bps[at : at + step] *= np.minimum(over, ends)
    if np.any(most_Bps.sum(1) == 0):
        at = int(np.argmax(most_Bps.sum(1) == 0))
        raise ValueError(
            f"destination {flows.destination[at]} cannot be reached from host {flows.source[at]}: every path has a "
            f"dead link; give rates above 0, or another seed of `degraded`"
        )
    return most_Bps


def path_delay_s(fabric: PathFabric, flows: Flows, framing: Framing) -> Floats:
    """Time of a flow beyond that to send its bytes once [s].

    Cables, switches, store and forward of a packet, and the acknowledgement where it counts.
    """
    base, _ = fabric.tables(flows.source, flows.destination)
    links, link_Bps = (base != SKIPPED).sum(1), float(fabric.link_Bps)
    latency = fabric.latency_s(flows.source, flows.destination)
    back = (latency + links * float(framing.header_bytes) / link_Bps) * framing.acknowledged
    return latency + (links - 1) * framing.packet_bytes / link_Bps + back


def single_flow_s(fabric: PathFabric, flows: Flows, framing: Framing = RECEIVED) -> Floats:
    """Completion time of each flow alone on the fabric, from its start; shape [flows] [s].

    All ports of the NIC send, over all paths. A packet is not split: the last one of each plane may run alone. Queues,
    host software and processing of packets are left out.
    """
    planes_Bps = pair_planes_Bps(fabric, flows)
    packets, alive = framing.packets(flows.size_bytes), (planes_Bps > 0).sum(1)
    whole = framing.packet_bytes * np.ceil(packets / alive) / float(fabric.link_Bps)
    sending = np.maximum(framing.wire_bytes(flows.size_bytes) / planes_Bps.sum(1), whole)
    return sending + path_delay_s(fabric, flows, framing)


def optimum_bounds_s(fabric: PathFabric, flows: Flows, framing: Framing = RECEIVED) -> dict[str, float]:
    """Lower bounds of the time at which the last flow is complete, by their cause, from time 0 [s].

    "one flow": each flow alone. The other entries, of `CUTS`: bytes that cross one group of links, at the group's full
    rate from the first start on; for the busiest group of the kind. No schedule is claimed to meet all bounds at once.
    """
    bounds = {"one flow": float((flows.start_s + single_flow_s(fabric, flows, framing)).max())}
    used, capacity = cuts(fabric, flows)
    wire, delay = framing.wire_bytes(flows.size_bytes), path_delay_s(fabric, flows, framing)
    for name, column in zip(CUTS, used.T, strict=True):
        crosses = np.flatnonzero(column != SKIPPED)
        if not len(crosses):
            continue
        order = crosses[np.lexsort((-flows.start_s[crosses], column[crosses]))]  # a group's latest start first
        group, total = column[order], np.cumsum(wire[order])
        first = np.flatnonzero(np.diff(group, prepend=-1))
        before = np.repeat(total[first] - wire[order][first], np.diff(first, append=len(order)))
        least = np.repeat(np.minimum.reduceat(delay[order], first), np.diff(first, append=len(order)))
        bounds[name] = float((flows.start_s[order] + (total - before) / capacity[group] + least).max())
    return bounds


@checked
def optimum_s(fabric: PathFabric, flows: Flows, framing: Framing = RECEIVED) -> float:
    """Earliest time at which the last flow can be complete, from time 0 [s]: the largest of `optimum_bounds_s`."""
    return max(optimum_bounds_s(fabric, flows, framing).values())
