"""What railonly2025's Fig. 6 and the extras beside it draw: synchronization after 1F1B, transfers, bubbles."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from railcore.facts import units
from railcore.training import pipeline_schedule
from railcore.training.pipeline_schedule import TRANSFERS, Timetable


def with_synchronization(table: Timetable, sync_s: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Events and critical path with the parameter synchronization of sync_s [s], as early as it can start.

    A stage's gradients are complete only in its last backward pass: synchronization starts there, and what is longer
    than that pass is exposed, an event "sync".
    """
    events, path = table.events.astype({"event": str}), table.critical_path().astype({"event": str})
    final = events[events["event"] == "compute"].groupby("stage").tail(1)
    ends = np.maximum(final["end_s"], final["start_s"] + sync_s)
    sync = final.assign(event="sync", start_s=final["end_s"], end_s=ends)
    first = sync[sync["stage"] == 0].assign(part="synchronization")
    return pd.concat([events, sync], ignore_index=True), pd.concat([path, first], ignore_index=True)


def path_phases(path: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """Start and end [s] of each part of a critical path that takes time, by the name that the figure shows."""
    names = {"fill": "bubble: fill", "last stage": "last stage", "drain": "bubble: drain", "synchronization": "sync"}
    spans = path.groupby("part", sort=False).agg(start=("start_s", "min"), end=("end_s", "max"))
    return {names[str(part)]: (row.start, row.end) for part, row in spans.iterrows() if row.end > row.start}


def schedule_tables(
    stages: int, microbatches: int, forward_s: float, backward_s: float, chunks: int
) -> tuple[dict[str, Timetable], pd.DataFrame]:
    """GPipe, 1F1B and interleaved 1F1B of the same stages and micro-batches.

    Parameters
    ----------
    stages, microbatches, chunks
        p and m, and v of the interleaved schedule.
    forward_s, backward_s
        Passes of a micro-batch in a stage [s].

    Returns
    -------
    The timetables by title, and all their events with columns kind, bubble_share, peak_microbatches.
    """
    kinds = {"GPipe": ("gpipe", 1), "1F1B": ("1f1b", 1), f"interleaved 1F1B, {chunks} chunks": ("interleaved", chunks)}
    found, events = {}, []
    for name, (kind, v) in kinds.items():
        table = pipeline_schedule.schedule(kind, stages, microbatches, forward_s, backward_s, chunks=v)
        title = f"{name}: {units.show(table.total_s, 's', 4)}, bubble {table.bubble_share:.1%}, a stage holds up to "
        found[f"{title}{table.peak_microbatches.max():.4g} micro-batches"] = table
        peaks = table.peak_microbatches[table.events["stage"]]
        events.append(table.events.assign(kind=kind, bubble_share=table.bubble_share, peak_microbatches=peaks))
    return found, pd.concat(events)


def transfer_costs(
    stages: int, microbatches: int, forward_s: float, backward_s: float, send_s: float, chunks: int
) -> pd.DataFrame:
    """Transfers that lengthen the iteration, by schedule and by what a transfer does to the stages.

    Parameters
    ----------
    stages, microbatches, chunks
        p and m, and v of the interleaved schedule.
    forward_s, backward_s, send_s
        Passes of a micro-batch in a stage, and one transfer [s].

    Returns
    -------
    Columns schedule, transfers, transfers that lengthen it, time, bubble; the last row is the document's sum of
    2 (p - 1) in the bubble and 2 m in the last stage.
    """
    rows = []
    for (kind, v), way in itertools.product((("gpipe", 1), ("1f1b", 1), ("interleaved", chunks)), TRANSFERS):
        free_s, total_s = (
            pipeline_schedule.schedule(kind, stages, microbatches, forward_s, backward_s, c, v, way).total_s
            for c in (0.0, send_s)
        )
        rows.append((kind, way, (total_s - free_s) / send_s, total_s))
    sends = 2.0 * (stages - 1 + microbatches)
    free_s = float(pipeline_schedule.pipeline_time(stages, microbatches, forward_s, backward_s))
    rows.append(("1f1b", "the document's sum", sends, free_s + send_s * sends))
    table = pd.DataFrame(rows, columns=["schedule", "transfers", "transfers that lengthen it", "time"])
    busy_s = microbatches * (forward_s + backward_s)
    bubbles = [f"{1 - busy_s / total_s:.1%}" for total_s in table["time"]]
    return table.assign(time=[units.show(total_s, "s", 4) for total_s in table["time"]], bubble=bubbles)


def bubble_curves(
    stages: int,
    per_stage: Sequence[int],
    chunks: Sequence[int],
    forward_s: float,
    backward_s: float,
    sends_s: Mapping[str, float],
) -> pd.DataFrame:
    """Bubble share by micro-batches per stage and chunks, with overlapped transfers.

    Parameters
    ----------
    stages, per_stage, chunks
        p, and the values of m / p and of v.
    forward_s, backward_s
        Passes of a micro-batch in a stage [s].
    sends_s
        Time of a transfer [s], by the name of a curve.

    Returns
    -------
    Columns transfers, stages, chunks, microbatches, microbatches_per_stage, bubble_share.
    """
    cases = pd.MultiIndex.from_product([list(sends_s), chunks, per_stage], names=["transfers", "chunks", "each"])
    table = cases.to_frame(index=False)
    m = stages * table["each"]
    total_s = pipeline_schedule.pipeline_time(
        stages, m, forward_s, backward_s, table["chunks"], table["transfers"].map(sends_s)
    )
    columns = {"stages": stages, "microbatches": m, "microbatches_per_stage": m / stages}
    table = table.assign(**columns, bubble_share=1 - m * (forward_s + backward_s) / total_s)
    return table[["transfers", "stages", "chunks", "microbatches", "microbatches_per_stage", "bubble_share"]]


def gantt_parts(kind: str, stages: int, microbatches: int, chunks: int, ratio: float, send: float) -> dict[str, Any]:
    """Arguments of a Gantt chart of one schedule with its critical path; a forward pass takes 10 ms.

    Parameters
    ----------
    kind, stages, microbatches, chunks
        As in `pipeline_schedule.schedule`; chunks count for the interleaved kind alone.
    ratio, send
        t_b and c over t_f.

    Returns
    -------
    events, path, peaks and title.
    """
    v, t_f = chunks if kind == "interleaved" else 1, 0.01
    table = pipeline_schedule.schedule(kind, stages, microbatches, t_f, ratio * t_f, send * t_f, v)
    title = f"{kind}: bubble {table.bubble_share:.1%}; micro-batches held at the end of each line"
    return {
        "events": table.events,
        "path": table.critical_path(),
        "peaks": table.peak_microbatches,
        "title": title,
    }
