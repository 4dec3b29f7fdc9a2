"""Flows between hosts: who sends how much to whom, and when."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from railcore.catalog.arguments import (
    NonNegativeInt,
    NonNegativeInts,
    Quantities,
    Quantity,
    Range,
    SecondsArray,
    checked,
)
from railcore.catalog.checks import Floats, whole

FlowBytes = Annotated[Quantity, Range(0, above_0=True, example="2 MB")]
Hosts = Annotated[int, Range(2, 2**25)]


@checked
@dataclass(frozen=True)
class Flows:
    """Transfers over a fabric, one a row.

    source, destination [flows]: hosts.
    size_bytes [flows]: payload of each, or one number for all [bytes].
    start_s [flows]: when each starts, or one number for all [s].

    Raises ValueError for shapes that do not match.
    """

    source: NonNegativeInts
    destination: NonNegativeInts
    size_bytes: Annotated[Quantities, Range(0, above_0=True, example="2 MB")]
    start_s: SecondsArray = 0.0

    def __post_init__(self) -> None:
        put = object.__setattr__
        source, destination = whole("source", self.source, 0), whole("destination", self.destination, 0)
        if source.ndim != 1 or source.shape != destination.shape or not len(source):
            raise ValueError(f"source has shape {source.shape}, destination {destination.shape}: give two equal rows")
        put(self, "source", source)
        put(self, "destination", destination)
        for name in ("size_bytes", "start_s"):
            value = np.asarray(getattr(self, name), float)
            if value.ndim and value.shape != source.shape:
                raise ValueError(
                    f"{name} has {value.size:,} values: give one, or one for each of {len(source):,} flows"
                )
            put(self, name, np.broadcast_to(value, source.shape).copy())

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class FlowTimes:
    """Completion times of flows from their starts, and those of each flow alone on the fabric [flows, s]."""

    completion_s: Floats
    alone_s: Floats

    @property
    def slowdown(self) -> Floats:
        """Completion time over that of the flow alone."""
        return self.completion_s / self.alone_s


@checked
def permutation(
    hosts: Hosts,
    size_bytes: FlowBytes,
    load: Annotated[float, Range(0, 1, above_0=True)] = 1.0,
    seed: NonNegativeInt = 0,
) -> Flows:
    """Every active host sends one flow to another active host and receives one. All flows start at once.

    Parameters
    ----------
    hosts
        Of the fabric.
    size_bytes
        Of each flow [bytes].
    load
        Share of the hosts that are active, above 0 to 1; at least two of them.
    seed
        Of the draw of active hosts and of their partners, uniform over permutations without fixed points.

    Returns
    -------
    `Flows`, in order of their sources.
    """
    count = round(load * hosts)
    if count < 2:
        raise ValueError(f"load is {load:g}: {count} of {hosts:,} hosts would be active; give {2 / hosts:g} or more")
    draw = np.random.default_rng(seed)
    active = np.sort(draw.permutation(hosts)[:count])
    while True:  # e tries on average
        partner = draw.permutation(count)
        if not np.any(partner == np.arange(count)):
            return Flows(active, active[partner], size_bytes)


def split_flows(flows: Flows, parts: int) -> Flows:
    """Each flow in so many equal parts, which are neighbours in the result."""
    source, destination = np.repeat(flows.source, parts), np.repeat(flows.destination, parts)
    return Flows(source, destination, np.repeat(flows.size_bytes / parts, parts), np.repeat(flows.start_s, parts))


def incast(senders: int, receiver: int, size_bytes: float, hosts: int, spread_s: float = 0.0, seed: int = 0) -> Flows:
    """Hosts drawn at random send one flow each to one receiver.

    Parameters
    ----------
    senders, receiver
        Number of hosts that send; the host that receives.
    size_bytes
        Of each flow [bytes].
    hosts
        Of the fabric.
    spread_s
        Starts are uniform from 0 to this [s].
    seed
        Of the draw of senders and starts.

    Returns
    -------
    `Flows`.
    """
    whole("receiver", receiver, 0, hosts - 1)
    whole("senders", senders, 1, hosts - 1)
    draw = np.random.default_rng(seed)
    source = draw.permutation(np.delete(np.arange(hosts), receiver))[:senders]
    return Flows(source, np.full(senders, receiver), size_bytes, draw.uniform(0, spread_s, senders))


def all_to_all(groups: ArrayLike, size_bytes: float) -> Flows:
    """Every host of a group sends one flow to every other host of its group, all at once.

    groups: hosts, shape [groups, hosts of a group]. size_bytes: of each flow [bytes].
    """
    members = whole("groups", np.atleast_2d(groups), 0)
    size = members.shape[1]
    if size < 2:
        raise ValueError(f"groups has {size} host in a group: give two or more")
    i, j = np.nonzero(~np.eye(size, dtype=bool))
    return Flows(members[:, i].ravel(), members[:, j].ravel(), size_bytes)
