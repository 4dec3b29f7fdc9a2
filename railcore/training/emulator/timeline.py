"""When emulated ranks compute and send: the logged events of a run, each started as early as it can be.

A computation takes a unit of time, a step of a transfer what its slowest link takes. Rules:

- a rank computes one thing at a time, in the logged order, and a micro-batch's next layer when its inputs are there;
- a transfer of a micro-batch starts when all its ranks have computed what they send, one without a micro-batch (the
  gradients) when they have computed everything;
- transfers overlap with computation; a rank's port, one for each link, sends one transfer and receives one at a time.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from railcore.facts import checks
from railcore.facts.arguments import checked
from railcore.training.emulator.ranks import SCALE_OUT, SCALE_UP, EmulatedRanks, LoggedCompute


@dataclass(frozen=True)
class RankTimeline:
    """Events of a run with their times [units].

    table: columns order, what ("compute" or an operation), phase, kind ("compute" or the transfer's), layer,
    microbatch, ranks (that take part), link ("" of a computation), bytes, start, end, step (of a computation: how many
    computations, one after the other, end with it). ranks: number of ranks.
    """

    table: pd.DataFrame
    ranks: int

    @property
    def computations(self) -> pd.DataFrame:
        """Rows of computations, with the column rank."""
        found = self.table[self.table["what"] == "compute"]
        return found.assign(rank=[ranks[0] for ranks in found["ranks"]])

    @property
    def total(self) -> float:
        """Time from the first event to the end of the last [units]."""
        return float(self.table["end"].max()) if len(self.table) else 0.0

    @property
    def idle_share(self) -> float:
        """Share of ranks x time, up to the end of the last computation, in which ranks do not compute."""
        found = self.computations
        if found.empty:
            return 0.0
        return float(1 - (found["end"] - found["start"]).sum() / (self.ranks * found["end"].max()))

    @property
    def active(self) -> pd.DataFrame:
        """Ranks that compute at once: columns start [units] and active, a row where the number changes."""
        found = self.computations
        changes = pd.concat([pd.Series(1, found["start"]), pd.Series(-1, found["end"])]).groupby(level=0).sum()
        table = changes.cumsum().rename_axis("start").reset_index(name="active")
        return table[table["active"].diff().fillna(1) != 0].reset_index(drop=True)

    @property
    def peak_active(self) -> int:
        """Ranks that compute at once, at most."""
        return int(self.active["active"].max()) if len(self.table) else 0


@checked
def rank_timeline(
    ranks: EmulatedRanks,
    forward_time: float = 1.0,
    backward_time: float = 1.0,
    scale_up_time: float = 0.0,
    scale_out_time: float = 0.0,
) -> RankTimeline:
    """Times of all that ranks have computed and sent so far.

    Parameters
    ----------
    ranks
        After a run.
    forward_time, backward_time
        Of one layer of one micro-batch; a recomputed pass takes forward_time [units].
    scale_up_time, scale_out_time
        Of one step of a transfer [units].

    Returns
    -------
    The timeline.

    Raises
    ------
    ValueError
        For a time that is not a number of at least 0.
    """
    times = {
        name: float(checks.at_least(f"{name}_time", value))
        for name, value in (("forward", forward_time), ("backward", backward_time))
    }
    links = {
        SCALE_UP: float(checks.at_least("scale_up_time", scale_up_time)),
        SCALE_OUT: float(checks.at_least("scale_out_time", scale_out_time)),
    }
    clock, rows = _Clock(ranks.ranks), []
    for event in sorted([*ranks.computes, *ranks.operations.itertuples(index=False)], key=lambda each: each.order):
        if isinstance(event, LoggedCompute):
            duration = times["backward" if event.phase == "backward" else "forward"]
            start, step = clock.compute(event.rank, event.microbatch, duration)
            what, kind, members, link, size = "compute", "compute", (event.rank,), "", 0.0
        else:
            duration, members, link = event.steps * links[event.link], event.group, event.link
            microbatch = None if pd.isna(event.microbatch) else int(event.microbatch)
            ends = (members[:1], members[1:]) if event.operation == "send_receive" else (members, members)
            start, step = clock.transfer(*ends, link, microbatch, duration)
            what, kind, size = event.operation, event.kind, event.bytes
        place = (event.order, what, event.phase, kind, event.layer, event.microbatch)
        rows.append((*place, members, link, size, start, start + duration, step))
    columns = [
        "order",
        "what",
        "phase",
        "kind",
        "layer",
        "microbatch",
        "ranks",
        "link",
        "bytes",
        "start",
        "end",
        "step",
    ]
    table = pd.DataFrame(rows, columns=columns).astype({"layer": "Int64", "microbatch": "Int64"})
    return RankTimeline(table, ranks.ranks)


class _Clock:
    """When ranks and ports are free, and when and after how many computations a micro-batch's data are on a rank."""

    def __init__(self, ranks: int) -> None:
        self.free = np.zeros(ranks)
        self.steps = np.zeros(ranks, int)
        self.ports: dict[tuple[str, str, int], float] = {}
        self.ready: dict[tuple[int, int | None], tuple[float, int]] = {}

    def compute(self, rank: int, microbatch: int | None, duration: float) -> tuple[float, int]:
        """Start and step of a computation."""
        there, step = self.ready.get((rank, microbatch), (0.0, 0))
        start = max(float(self.free[rank]), there)
        self.steps[rank] = max(int(self.steps[rank]), step) + 1
        self.free[rank] = start + duration
        self.ready[rank, microbatch] = (start + duration, int(self.steps[rank]))
        return start, int(self.steps[rank])

    def transfer(
        self, sources: tuple[int, ...], targets: tuple[int, ...], link: str, microbatch: int | None, duration: float
    ) -> tuple[float, int]:
        """Start and step of a transfer: the step of the computations that it follows."""
        ports = [("out", link, rank) for rank in sources] + [("in", link, rank) for rank in targets]
        there = [self._ready(rank, microbatch) for rank in sources]
        step = max(each[1] for each in there)
        start = max([each[0] for each in there] + [self.ports.get(port, 0.0) for port in ports])
        for port in ports:
            self.ports[port] = start + duration
        for rank in targets:
            own, own_step = self.ready.get((rank, microbatch), (0.0, 0))
            self.ready[rank, microbatch] = (max(own, start + duration), max(own_step, step))
        return start, step

    def _ready(self, rank: int, microbatch: int | None) -> tuple[float, int]:
        own = self.ready.get((rank, microbatch), (0.0, 0))
        return own if microbatch is not None else (max(own[0], float(self.free[rank])), int(self.steps[rank]))
