"""Flows between hosts: who sends how much to whom, and when."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from railcore.catalog.arguments import (
    Bytes,
    BytesArray,
    Listed,
    NonNegative,
    NonNegativeArray,
    NonNegativeInt,
    NonNegativeInts,
    Seconds,
    SecondsArray,
    checked,
)
from railcore.catalog.checks import Floats, at_least, positive, seed_of, share, whole


@checked
@dataclass(frozen=True)
class Flows:
    """Transfers over a fabric, one a row.

    source, destination [flows]: hosts.
    size_bytes [flows]: payload of each, or one number for all [bytes].
    start_s [flows]: when each starts, or one number for all [s].

    Raises ValueError for flows of no bytes, starts before 0 and shapes that do not match.
    """

    source: NonNegativeInts
    destination: NonNegativeInts
    size_bytes: BytesArray
    start_s: SecondsArray = 0.0

    def __post_init__(self) -> None:
        put = object.__setattr__
        source, destination = whole("source", self.source, 0), whole("destination", self.destination, 0)
        if source.ndim != 1 or source.shape != destination.shape or not len(source):
            raise ValueError(f"source has shape {source.shape}, destination {destination.shape}: give two equal rows")
        put(self, "source", source)
        put(self, "destination", destination)
        for name, value in (("size_bytes", positive("size_bytes", self.size_bytes, "bytes")),
                            ("start_s", at_least("start_s", self.start_s))):  # fmt: skip
            if value.ndim and value.shape != source.shape:
                raise ValueError(
                    f"{name} has {value.size:,} values: give one, or one for each of {len(source):,} flows"
                )
            put(self, name, np.broadcast_to(value, source.shape).astype(float))

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class FlowTimes:
    """Completion times of flows from their starts, and of each flow alone on the fabric; shape [flows] [s]."""

    completion_s: Floats
    alone_s: Floats

    @property
    def slowdown(self) -> Floats:
        """Completion time over that of the flow alone."""
        return self.completion_s / self.alone_s


@checked
def permutation(hosts: Listed, size_bytes: Bytes, load: NonNegative = 1.0, seed: NonNegativeInt = 0) -> Flows:
    """Every active host sends one flow to another active host, and receives one; all start at once.

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
    count = round(float(share("load", load, above_0=True)) * int(whole("hosts", hosts, 2)))
    if count < 2:
        raise ValueError(f"load is {load:g}: {count} of {hosts:,} hosts would be active; give {2 / hosts:g} or more")
    draw = np.random.default_rng(seed_of(seed))
    active = np.sort(draw.permutation(hosts)[:count])
    while True:  # e tries on average
        partner = draw.permutation(count)
        if not np.any(partner == np.arange(count)):
            return Flows(active, active[partner], size_bytes)


def permutation_in_groups(group: ArrayLike, size_bytes: float, seed: int = 0) -> Flows:
    """Every host sends one flow to another host of its group, such as its rail, and receives one.

    group: of every host, two hosts or more in each. size_bytes: of each flow [bytes]. seed: of the draw of partners.
    """
    draw, groups = np.random.default_rng(seed_of(seed)), whole("group", group, 0)
    destination = np.empty(len(groups), np.int64)
    for each in np.unique(groups):
        hosts = draw.permutation(np.flatnonzero(groups == each))
        if len(hosts) < 2:
            raise ValueError(f"group {each} has one host: give groups of two or more")
        destination[hosts] = np.roll(hosts, 1)  # a cycle through all: nobody is his own partner
    return Flows(np.arange(len(groups)), destination, size_bytes)


def split_flows(flows: Flows, parts: Listed) -> Flows:
    """Each flow as so many equal ones, which stand one after the other."""
    count = int(whole("parts", parts))
    source, destination = np.repeat(flows.source, count), np.repeat(flows.destination, count)
    return Flows(source, destination, np.repeat(flows.size_bytes / count, count), np.repeat(flows.start_s, count))


def incast(
    senders: NonNegativeInt,
    receiver: NonNegativeInt,
    size_bytes: Bytes,
    hosts: Listed,
    spread_s: Seconds = 0.0,
    seed: NonNegativeInt = 0,
):
    """Hosts drawn at random all send one flow to one receiver.

    Parameters
    ----------
    senders, receiver
        How many hosts send; the host that receives.
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
    others = np.delete(np.arange(int(whole("hosts", hosts, 2))), int(whole("receiver", receiver, 0, hosts - 1)))
    count = int(whole("senders", senders, 1, len(others)))
    draw = np.random.default_rng(seed_of(seed))
    source = draw.permutation(others)[:count]
    starts = draw.uniform(0, float(at_least("spread_s", spread_s)), count)
    return Flows(source, np.full(count, receiver), size_bytes, starts)


def all_to_all(groups: NonNegativeArray, size_bytes: Bytes) -> Flows:
    """Every host of a group sends one flow to every other host of its group, all at once.

    groups: hosts, shape [groups, hosts of a group]. size_bytes: of each flow [bytes].
    """
    members = whole("groups", np.atleast_2d(groups), 0)
    if members.shape[1] < 2:
        raise ValueError(f"groups has {members.shape[1]} host in a group: give two or more")
    each = members.shape[1]
    i, j = np.nonzero(~np.eye(each, dtype=bool))
    return Flows(members[:, i].ravel(), members[:, j].ravel(), size_bytes)
