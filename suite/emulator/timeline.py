"""Times at which emulated ranks compute and send: the logged events of a run, each as early as possible.

A computation takes a unit of time unless told otherwise, a step of a transfer what its slowest link takes. Rules:

- a rank computes one thing at a time, in the logged order, and a micro-batch's next layer when its inputs are there;
- a transfer of a micro-batch starts when all its ranks have computed what they send, one without a micro-batch (the
  gradients) when they have computed everything;
- transfers overlap with computation; a rank's port, one for each link, sends one transfer and receives one at a time,
  in the order in which they become ready.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from suite.emulator.ranks import SCALE_OUT, SCALE_UP, EmulatedRanks, LoggedCompute


@dataclass(frozen=True)
class RankTimeline:
    """Events of a run with their times [units].

    table: columns order, what ("compute" or an operation), phase, kind ("compute" or the transfer's), layer,
        microbatch, ranks (that take part), link ("" of a computation), bytes, start, end, step (of a computation: how
        many computations, one after the other, end with it).
    ranks: number of ranks.
    """

    table: pd.DataFrame
    ranks: int

    @cached_property
    def computations(self) -> pd.DataFrame:
        """Rows of computations, with the column rank."""
        table = self.table[self.table["what"] == "compute"]
        return table.assign(rank=np.array([ranks[0] for ranks in table["ranks"]], int))

    @property
    def lanes(self) -> pd.DataFrame:
        """Events by rank: a row for each rank of a computation or a collective, and for the sender of a send."""
        members = [
            ranks[:1] if what == "send_receive" else ranks
            for what, ranks in zip(self.table["what"], self.table["ranks"], strict=True)
        ]
        return self.table.assign(rank=members).explode("rank", ignore_index=True).astype({"rank": int})

    @property
    def idle_share(self) -> float:
        """Share of ranks x time, up to the end of the last computation, in which ranks do not compute."""
        table = self.computations
        return float(1 - (table["end"] - table["start"]).sum() / (self.ranks * table["end"].max()))

    def peak_active(self, phase: str | None = None) -> int:
        """Ranks that compute at once, at most, in one pass or in any; 0 where none computes."""
        table = self.computations
        table = table if phase is None else table[table["phase"] == phase]
        changes = pd.concat([pd.Series(1, table["start"]), pd.Series(-1, table["end"])]).groupby(level=0).sum()
        return int(changes.cumsum().max()) if len(changes) else 0


def rank_timeline(
    ranks: EmulatedRanks,
    backward_time: float = 1.0,
    scale_up_time: float = 0.0,
    scale_out_time: float = 0.0,
) -> RankTimeline:
    """Times of all computations and sends so far.

    Parameters
    ----------
    ranks
        After a run.
    backward_time
        Of one layer of one micro-batch in the backward pass [units]; in the others it takes 1.
    scale_up_time, scale_out_time
        Of one step of a transfer [units].

    Returns
    -------
    The timeline.
    """
    links = {SCALE_UP: scale_up_time, SCALE_OUT: scale_out_time}
    logged: list[Any] = [*ranks.computes, *ranks.logged_operations()]
    logged.sort(key=lambda event: event.order)
    events = [_event(event, backward_time, links) for event in logged]
    starts, steps = _started(events)
    rows = [
        (*event.place, event.ranks, event.link, event.bytes, start, start + event.duration, step)
        for event, start, step in zip(events, starts, steps, strict=True)
    ]
    columns = "order what phase kind layer microbatch ranks link bytes start end step"
    table = pd.DataFrame(rows, columns=columns.split()).astype({"layer": "Int64", "microbatch": "Int64"})
    return RankTimeline(table, ranks.ranks)


class _Event(NamedTuple):
    """A computation (link is "") or a transfer; place: order, what, phase, kind, layer, micro-batch."""

    place: tuple
    ranks: tuple[int, ...]
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    microbatch: int | None
    link: str
    bytes: float
    duration: float


def _event(logged: Any, backward_time: float, links: Mapping[str, float]) -> _Event:
    if isinstance(logged, LoggedCompute):
        place = (logged.order, "compute", logged.phase, "compute", logged.layer, logged.microbatch)
        ranks, duration = (logged.rank,), backward_time if logged.phase == "backward" else 1.0
        return _Event(place, ranks, ranks, ranks, logged.microbatch, "", 0.0, duration)
    place = (logged.order, logged.operation, logged.phase, logged.kind, logged.layer, logged.microbatch)
    group = logged.group
    ends = (group[:1], group[1:]) if logged.operation == "send_receive" else (group, group)
    return _Event(place, group, *ends, logged.microbatch, logged.link, logged.bytes, logged.steps * links[logged.link])


def _started(events: Sequence[_Event]) -> tuple[list[float], list[int]]:
    """Start of each event and its step; a port serves transfers in the order in which they become ready."""
    before = _dependencies(events)
    followers: list[list[int]] = [[] for _ in events]
    for number, sources in enumerate(before):
        for source in sources:
            followers[source].append(number)
    waits = [len(sources) for sources in before]
    ready, steps, starts = [0.0] * len(events), [0] * len(events), [0.0] * len(events)
    ports: dict[tuple[str, str, int], float] = {}
    queue = [(0.0, number) for number, count in enumerate(waits) if not count]
    while queue:
        when, number = heappop(queue)
        event = events[number]
        used = [("out", event.link, rank) for rank in event.sources if event.link]
        used += [("in", event.link, rank) for rank in event.targets if event.link]
        starts[number] = max([when] + [ports.get(port, 0.0) for port in used])
        steps[number] += not event.link
        end = starts[number] + event.duration
        ports |= dict.fromkeys(used, end)
        for other in followers[number]:
            ready[other], steps[other] = max(ready[other], end), max(steps[other], steps[number])
            waits[other] -= 1
            if not waits[other]:
                heappush(queue, (ready[other], other))
    return starts, steps


def _dependencies(events: Sequence[_Event]) -> list[set[int]]:
    """Events that each event waits for, by their place in the log."""
    computed: dict[int, int] = {}  # the last computation of each rank
    there: dict[tuple[int, int | None], set[int]] = {}  # what brought a micro-batch's data to a rank
    dependencies = []
    for number, event in enumerate(events):
        sources = set().union(*(there.get((rank, event.microbatch), ()) for rank in event.sources))
        if not event.link or event.microbatch is None:
            sources |= {computed[rank] for rank in event.sources if rank in computed}
        dependencies.append(sources)
        for rank in event.targets:
            arrived = there.get((rank, event.microbatch), set()) if event.sources != event.targets else set()
            there[rank, event.microbatch] = arrived | {number}
        if not event.link:
            computed[event.ranks[0]] = number
    return dependencies
