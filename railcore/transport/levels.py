"""Completion times of flows by the cheapest model that is good enough: the flow level, else packets."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from railcore.catalog.arguments import NonNegative, NonNegativeInt, Share, checked
from railcore.transport.delay import Duration
from railcore.transport.fabric import SKIPPED, PathFabric
from railcore.transport.flows import Flows, FlowTimes
from railcore.transport.hashing import ecmp_paths
from railcore.transport.optimum import Framing, path_delay_s
from railcore.transport.packets import ACKNOWLEDGED, simulate_packets
from railcore.transport.sharing import FairRun, fair_sharing, ideal_spraying
from railcore.transport.transports import Nscc, Pulls, Rccc, Transport, transport_names
from railcore.transport.transports import transport as catalog_transport


@dataclass(frozen=True)
class Limits:
    """Where the flow level holds, and how well.

    products: least size of a flow, in products of bandwidth and round trip.
    slowdown: least slowdown of the last flow.
    packets: least packets that a link sends in a round trip.
    flow_packets: the same, for each flow of the busiest link. A window is at least a packet: too many flows fill the
        queue whatever they do, and trimmed packets take the senders' links a second time.
    error: of the last flow's time, as a share.
    """

    products: float
    slowdown: float
    packets: float
    flow_packets: float
    error: float


# Measured in 8,500 runs of packets beside the flow level. 2,700 on 32 to 1,024 hosts, 100 to 800 Gbps, with 1 us a
# link; 5,800 drawn on 7 to 128 hosts: 25 to 800 Gbps, latencies of the catalog and of links from 0 to 100 us, packets
# of 256 to 9,000 bytes; one to three tiers, with and without oversubscription; permutations, all to all, random pairs,
# one to many, incasts of 3 and more, one or several at once, parted flows, unequal sizes and starts. Packets are
# slower. Largest error within the limits, and that of half the runs; of the drawn ones: incasts 0.06, 0.006 (of 1,312);
# one path 0.10, 0.005 (489), of the others 0.13; in turn 0.11, 0.04 (146), of the others 0.12; by marks 0.28, 0.01
# (540). The last 532 of these were drawn after all numbers below were set: none is beyond what is stated. Outside, all
# to all on one path with more flows on a link than packets in a round trip 0.83, incasts so 0.44; one path with few
# flows on the busiest link 0.24, where full queues drop 0.62, where they pause 0.26; credits on an oversubscribed
# fabric 0.47; in turn over hashed paths 0.38; packets of 4 headers 0.36; reps 0.28; RoCEv2 0.26, with DCQCN 0.74;
# flowlets 0.98; incasts on two planes 0.52. Some runs are stored: data/derived/level_errors.csv.
LIMITS = {
    "incast": Limits(20, 4.5, 0, 1, 0.08),
    "one path": Limits(60, 5.5, 0, 2, 0.15),
    "sprayed in turn": Limits(100, 0, 60, 10, 0.15),
    "sprayed by marks": Limits(100, 0, 60, 2, 0.35),
}
COLUMNS = {
    "products": "smallest flow from [bandwidth-delay products]",
    "slowdown": "slowdown of the last flow from",
    "packets": "round trip from [packets]",
    "flow_packets": "and from [packets of each flow]",
    "error": "error of the last flow up to [%]",
}
UNKNOWN = "the flow level is not known to be close for this transport on this fabric"
LEFT_OUT = "the flow level leaves out losses, slow and dead links, and routing that is not done"
LEAST_HEADERS = 20  # in a packet's payload: an acknowledgement is a header, and the flow level has none
LEAST_ENTROPIES = 64  # of transports that spray over hashed paths: fewer do not even out the load


def limits_table() -> pd.DataFrame:
    """`LIMITS` in words, a row for each kind of case."""
    table = pd.DataFrame(map(vars, LIMITS.values())).rename(columns=COLUMNS)
    table[COLUMNS["error"]] *= 100
    table.insert(0, "kind of case", list(LIMITS))
    return table


@dataclass(frozen=True)
class LeveledTimes(FlowTimes):
    """Completion times, and the level that gave them.

    level: "flows" or "packets". reason: why this level.
    error: largest relative error of the last flow's time against packets, measured for such cases, with some room.
        0 for packets; infinite for flows that the caller asked for where no error is known.
    """

    level: str
    reason: str
    error: float


def flow_level_times(
    fabric: PathFabric,
    flows: Flows,
    transport: Transport,
    framing: Framing = ACKNOWLEDGED,
    seed: int = 0,
    converged: bool = True,
) -> FairRun:
    """Times by fair sharing on the paths of `simulate_packets`; ideal spraying where packets spread.

    Parameters
    ----------
    fabric, flows
        Where the flows run.
    transport
        Only its balancing counts. Flowlets keep to one path.
    framing, seed, converged
        As for `simulate_packets`.

    Returns
    -------
    A `FairRun`.
    """
    if transport.balancing in ("single path", "flowlets"):
        return fair_sharing(fabric, flows, ecmp_paths(fabric, flows, seed, converged), framing)
    return ideal_spraying(fabric, flows, framing)


def _has_usual_numbers(transport: Transport) -> bool:
    """Whether all but its balancing is that of a transport of the catalog: errors were measured with these."""
    usual = map(catalog_transport, transport_names())
    return any(replace(transport, balancing=item.balancing, entropies=item.entropies) == item for item in usual)


def _kind(fabric: PathFabric, flows: Flows, transport: Transport) -> str:
    """Name in `LIMITS` of the case; "" for transports that the flow level does not describe."""
    balancing, paced = transport.balancing, isinstance(transport.control, Nscc | Rccc | Pulls)
    repaired = transport.queues.overflow == "trim" and transport.recovery == "selective"  # no loss waits for a timeout
    if not (paced and repaired) or balancing == "flowlets" or fabric.planes > 1 or not _has_usual_numbers(transport):
        return ""
    if np.all(flows.destination == flows.destination[0]):
        return "incast"
    if balancing == "single path":
        return "one path" if isinstance(transport.control, Nscc) else ""
    if balancing == "reps" or 0 < transport.entropies < LEAST_ENTROPIES or fabric.oversubscription > 1:
        return ""
    if balancing == "oblivious":
        return "" if transport.entropies else "sprayed in turn"  # in turn over hashed paths, none leaves out a full one
    return "sprayed by marks" if transport.queues.marking else ""


def _promise(kind: str, fabric: PathFabric, flows: Flows, framing: Framing, run: FairRun) -> tuple[float, str]:
    """Error of the last flow at the flow level, infinite where it is not known, and why."""
    limits, round_trip_s = LIMITS[kind], path_delay_s(fabric, flows, replace(framing, acknowledged=True))
    product_bytes = float(round_trip_s.max()) * float(fabric.link_Bps)
    packets, port, ports_Bps = product_bytes / framing.packet_bytes, run.links.port, run.links.capacity_Bps
    flows_at = np.bincount(port[port != SKIPPED], minlength=len(ports_Bps))
    busiest = (flows_at * float(fabric.link_Bps) / ports_Bps).max()
    last = int(np.argmax(flows.start_s + run.completion_s))
    for name, value, least in (
        ("the smallest flow in bandwidth-delay products", flows.size_bytes.min() / product_bytes, limits.products),
        ("a round trip in packets", packets, limits.packets),
        ("a round trip in packets of each flow on the busiest link", packets / busiest, limits.flow_packets),
        ("a packet's payload in headers", framing.mtu_bytes / max(framing.header_bytes, 1.0), LEAST_HEADERS),
        ("the slowdown of the last flow", run.slowdown[last], limits.slowdown),
    ):
        if value < least:
            return np.inf, f"{kind}: {name} is {value:.3g}, and the flow level is close from {least:g} on"
    return limits.error, f"{kind}: the flow level is within {limits.error:.0%} of packets for the last flow"


@checked
def completion_times(
    fabric: PathFabric,
    flows: Flows,
    transport: Transport,
    level: Literal["auto", "flows", "packets"] = "auto",
    framing: Framing = ACKNOWLEDGED,
    seed: NonNegativeInt = 0,
    loss: Share = 0.0,
    converged: bool = True,
    within: NonNegative = 0.15,
    most_s: Duration = 60.0,
    progress: Callable[[str], Any] | None = None,
) -> LeveledTimes:
    """Completion times of flows by the flow level where its error is known and small, else packet by packet.

    Errors were measured with the catalog's transports. With your own numbers, packets are simulated.

    Parameters
    ----------
    fabric, flows, transport
        Where, what, and how.
    level
        "flows" or "packets" in any case; "auto" chooses.
    framing, seed, loss, converged, most_s, progress
        As for `simulate_packets`.
    within
        Largest error of the last flow's time at the flow level, as a share.

    Returns
    -------
    `LeveledTimes`, with the level, the reason and the error.

    Raises
    ------
    ValueError, RuntimeError
        As `simulate_packets`.
    """
    whole = converged and not loss and bool(np.all(fabric.rates == 1))
    kind, error, reason = "", np.inf, UNKNOWN if whole else LEFT_OUT
    if whole and level != "packets":
        kind = _kind(fabric, flows, transport)
    if kind or level == "flows":
        run = flow_level_times(fabric, flows, transport, framing, seed, converged)
        if kind:
            error, reason = _promise(kind, fabric, flows, framing, run)
        if level == "flows" or error <= within:
            return LeveledTimes(run.completion_s, run.alone_s, "flows", reason, error)
        if np.isfinite(error):
            reason = f"{kind}: the flow level is within {error:.0%} of packets, and within is {within:.0%}"
    packets = simulate_packets(fabric, flows, transport, framing, seed, loss, converged, most_s, progress)
    reason = "packets were asked for" if level == "packets" else reason
    return LeveledTimes(packets.completion_s, packets.alone_s, "packets", reason, 0.0)
