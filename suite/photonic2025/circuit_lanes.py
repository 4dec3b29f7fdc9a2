"""What chosen ranks do over time in the last iteration of a run on photonic rails, and how often circuits change."""

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from railcore.photonics.simulation import StepTimeline
from railcore.photonics.workload import Workload


def _last_changes(run: StepTimeline) -> list[int]:
    """Operations whose circuits changed in the last iteration."""
    last = run.workload.iterations - 1
    return [op for op, *_ in run.reconfiguration_log if run.workload.iteration_of[op] == last]


def changes_of_a_rank(run: StepTimeline) -> float:
    """Changes of circuits in the last iteration that a rank takes part in, the mean of all simulated."""
    ranks, simulated = run.workload.ranks, run.workload.simulated
    return sum(len(simulated.intersection(ranks[op])) for op in _last_changes(run)) / len(simulated)


def rank_lanes(run: StepTimeline, ranks: Sequence[int], lead_s: float = 0.0) -> pd.DataFrame:
    """What some ranks compute, send over the rails and are joined to in the last iteration, from its start on.

    lead_s: how much before the start is shown too, at times below 0 [s].

    Columns rank, lane (compute, traffic, out circuit, in circuit, change), what (phase, operation, or other rank of a
    circuit), microbatch (-1 where none), asked_s (when its slowest rank joined), start_s, end_s. Traffic of one group
    in one pass is a row.
    """
    workload = run.workload
    last = workload.iteration_of == workload.iterations - 1
    begin, end, table = run.end_s[~last].max(initial=0.0), run.total_s, run.table
    computes = table[table["kind"] == "compute"]
    computes = computes.assign(lane="compute", what=computes["phase"], asked_s=computes["ready_s"])
    sent = table[table["link"] == "rail"].groupby("burst", sort=False)
    sent = sent.agg(
        ranks=("ranks", "first"),
        what=("operation", "first"),
        microbatch=("microbatch", "first"),
        asked_s=("ready_s", "min"),
        start_s=("start_s", "min"),
        end_s=("end_s", "max"),
    ).assign(lane="traffic")
    changes = run.reconfigurations.merge(table[["op", "ranks"]], on="op")
    changes = changes.assign(lane="change", what=changes["group"], microbatch=-1)
    every = pd.concat([computes, sent, changes], ignore_index=True)
    up = run.circuits[run.circuits["rank"].isin(ranks) & run.circuits["port"].str.contains("out|in")]
    up = up.rename(columns={"up_s": "start_s", "down_s": "end_s"})
    sides, ends = up["port"].str.partition(" ")[0], up["circuit"].str.partition("-")
    peers = ends[2].where(sides == "out", ends[0])
    up = up.assign(lane=sides + " circuit", what=peers, microbatch=-1, asked_s=up["start_s"])
    parts = [up, *(every[_holds(every["ranks"], rank)].assign(rank=rank) for rank in ranks)]
    columns = "rank lane what microbatch asked_s start_s end_s".split()
    lanes = pd.concat([part[columns] for part in parts], ignore_index=True)
    lanes = lanes[(lanes["end_s"] > begin - lead_s) & (lanes["start_s"] < end)]
    times = lanes[["asked_s", "start_s", "end_s"]].clip(lower=begin - lead_s, upper=end) - begin
    return lanes.assign(**times).sort_values(["rank", "lane", "start_s"], kind="stable", ignore_index=True)


def _holds(groups: Iterable[tuple[int, ...]], rank: int) -> np.ndarray:
    return np.array([rank in members for members in groups], bool)


def ranks_on_rails_with(workload: Workload, rank: int) -> list[int]:
    """A rank and at most two others that it sends to over the rails: the first of its groups of each kind of traffic.

    Raises ValueError for a rank without traffic over the rails.
    """
    table = workload.table
    table = table[(table["link"] == "rail") & _holds(table["ranks"], rank)]
    if table.empty:
        raise ValueError(
            f"rank is {rank}, which sends nothing over the rails in this job of {workload.strategy.gpus}: give one of "
            "its ranks, and more GPUs than an HB domain has"
        )
    firsts = (sorted(set(ranks) - {rank})[0] for ranks in table.groupby("kind", sort=False)["ranks"].first())
    return list(dict.fromkeys((rank, *firsts)))[:3]


def warm_up_end_s(lanes: pd.DataFrame) -> float:
    """End of the warm-up stage of the ranks of `rank_lanes`, with a twentieth more: when the last of them begins its
    first backward pass, or the time of all where none does [s]."""
    computes = lanes[lanes["lane"] == "compute"]
    first = computes[computes["what"] == "backward"].groupby("rank")["start_s"].min()
    return 1.05 * float(first.max() if len(first) else lanes["end_s"].max())
