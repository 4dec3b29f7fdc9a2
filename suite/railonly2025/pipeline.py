"""railonly2025's pipeline model: its formulas beside a count, and what Fig. 6 and the extras beside it draw.

Symbols as in `railcore.training.pipeline_schedule`; D_p bytes of one micro-batch between two stages, D_t and D_d of a
collective, AGtime(D) the time of a ring AllGather. Sizes and rates of the formulas are arbitrary: each is linear in
them.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd

from railcore.catalog import units
from railcore.photonics import timetable
from railcore.photonics.timetable import Timetable
from railcore.training import collectives, pipeline_schedule
from railcore.training.pipeline_schedule import TRANSFERS
from suite.emulator import collective_schedules
from suite.ledger.readings import Entries, with_prefix

FORMULAS = {  # what each gives, in words
    "bubble_compute": "the idle time of the bubble",
    "bubble_volume": "the bytes sent in the bubble",
    "pls_compute": "the compute of the last stage",
    "pls_pp_volume": "the bytes that the last stage sends and receives",
    "pls_tp_time": "the time of tensor parallelism in the last stage",
    "sync_time": "the time of parameter synchronization",
}
_D, _RATE_BPS, _OPERATORS = 1e6, 1e11, 4


def formula_checks(
    stages: Iterable[int], microbatches: Iterable[int], ratios: Iterable[float], ranks: Iterable[int]
) -> pd.DataFrame:
    """Each formula as printed and as counted in 1F1B, a row for each combination of cases.

    - bubble_compute (p - 1) (t_f + t_b): against the mean idle time;
    - bubble_volume 2 D_p (p - 1): against messages on the critical path outside the last stage;
    - pls_compute m (t_f + t_b): against the last stage's computes;
    - pls_pp_volume 2 m D_p: against messages out of and into the last stage;
    - pls_tp_time sum of AGtime(D_t) over the operators of a stage: against an AllGather and a ReduceScatter for every
      operator in every pass of the last stage;
    - sync_time 2 AGtime(D_d): against a ring AllReduce, send by send.

    Parameters
    ----------
    stages, microbatches
        p, from 2, and m.
    ratios
        t_b / t_f.
    ranks
        Of a collective.

    Returns
    -------
    Columns formula, stages, microbatches, ratio, ranks, printed, counted, error (|printed / counted - 1|).

    References
    ----------
    railonly2025, "Iteration time modeling".
    """
    ranks = list(ranks)
    cases = itertools.product(stages, microbatches, ratios, ranks)
    rows = [(name, *case, *pair) for case in cases for name, *pair in _printed_and_counted(*case)]
    rows += [("sync_time", 1, 1, 1.0, n, 2 * _ring_all_gather_s(n), _counted_ring_s("all_reduce", n)) for n in ranks]
    columns = ["formula", "stages", "microbatches", "ratio", "ranks", "printed", "counted"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(error=(table["printed"] / table["counted"] - 1).abs())


def checks_as_text(checks: pd.DataFrame) -> pd.DataFrame:
    """The largest error of each formula over all cases of `formula_checks`, in words and percent."""
    errors = checks.groupby("formula", sort=False)["error"].agg(["size", "max"])
    largest = [f"{units.number(100 * error if error > 1e-12 else 0.0, 3)}%" for error in errors["max"]]
    return pd.DataFrame(
        {"formula": [FORMULAS[name] for name in errors.index], "cases": errors["size"].to_numpy()}
    ).assign(**{"largest error": largest})


def pipeline_claims(checks: pd.DataFrame) -> Entries:
    """Values and reasons of the claims on Fig. 6; no readings. checks: of `formula_checks`."""
    tensor = checks[checks["formula"] == "pls_tp_time"]
    factor = tensor["counted"] / tensor["printed"] / tensor["microbatches"]
    cases = ["stages", "microbatches", "ratio", "ranks"]
    volumes = [checks[checks["formula"] == name].set_index(cases) for name in ("bubble_volume", "pls_pp_volume")]
    sends = (volumes[0]["printed"] + volumes[1]["printed"]) / _D
    twice = sends - 2 * (sends.index.get_level_values("stages") + sends.index.get_level_values("microbatches") - 2)
    values = checks.groupby("formula", sort=False)["error"].max().to_dict()
    reasons = {
        "pls_tp_time": "the formula has one AllGather for each operator; a stage has an AllGather and a ReduceScatter, "
        "forward and backward, in each of m micro-batches, so that a factor of "
        f"{_whole(factor)} m is missing; even one for each pass of each micro-batch is half of what is counted",
        "pls_pp_volume": "right for the last stage alone; its first receive and last send are the bubble's last hop "
        f"too, so that the two volumes together count {_whole(twice)} D_p twice",
        "sync_time": "for a ring, counted send by send; the formula has no overlap with the backward pass",
    }
    return with_prefix("railonly2025.fig6", values, reasons, {})


def _whole(numbers: pd.Series | np.ndarray) -> str:
    """A number that is the same in every case, as text; from least to largest where it is not."""
    low, high = min(numbers), max(numbers)
    return units.number(low, 6) if np.isclose(low, high) else f"{units.number(low, 3)} to {units.number(high, 3)}"


def _printed_and_counted(p: int, m: int, ratio: float, n: int) -> Iterator[tuple[str, float, float]]:
    """Name, printed value and count of the formulas of the pipeline, at t_f = 1."""
    pair = 1 + ratio
    table = timetable.schedule("1f1b", p, m, 1.0, ratio)
    last = table.events[(table.events["event"] == "compute") & (table.events["stage"] == p - 1)]
    path = timetable.schedule("1f1b", p, m, 1.0, ratio, send_s=0.01).critical_path()
    moved = table.peer_to_peer_bytes(_D)
    outside = int(((path["event"] == "send") & (path["part"] != "last stage")).sum())
    operator = _counted_ring_s("all_gather", n) + _counted_ring_s("reduce_scatter", n)
    yield "bubble_compute", (p - 1) * pair, float(table.bubble_s.mean())
    yield "bubble_volume", 2 * _D * (p - 1), _D * outside
    yield "pls_compute", m * pair, float((last["end_s"] - last["start_s"]).sum())
    yield "pls_tp_time", _OPERATORS * _ring_all_gather_s(n), len(last) * _OPERATORS * operator
    yield "pls_pp_volume", 2 * m * _D, float(moved[-1].sum() + moved[:, -1].sum())


def _ring_all_gather_s(n: int) -> float:
    return float(collectives.all_gather_time(_D, n, _RATE_BPS))


def _counted_ring_s(operation: str, n: int) -> float:
    """Time of a ring [s], from the bytes of every step of its schedule."""
    ring = collective_schedules.collective_schedule(operation, "ring", n)
    return float(collective_schedules.count_bytes(ring, _D / ring.blocks).step_bytes.sum() / _RATE_BPS)


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
    tables, events = {}, []
    for name, (kind, v) in kinds.items():
        table = timetable.schedule(kind, stages, microbatches, forward_s, backward_s, chunks=v)
        title = f"{name}: {units.show(table.total_s, 's', 4)}, bubble {table.bubble_share:.1%}"
        tables[f"{title}, a stage holds up to {table.peak_microbatches.max():.4g} micro-batches"] = table
        peaks = table.peak_microbatches[table.events["stage"]]
        events.append(table.events.assign(kind=kind, bubble_share=table.bubble_share, peak_microbatches=peaks))
    return tables, pd.concat(events)


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
            timetable.schedule(kind, stages, microbatches, forward_s, backward_s, c, v, way).total_s
            for c in (0.0, send_s)
        )
        rows.append((kind, way, (total_s - free_s) / (send_s or 1), total_s))  # what takes no time lengthens nothing
    sends = 2.0 * (stages - 1 + microbatches)
    busy_s = microbatches * (forward_s + backward_s)
    free_s = busy_s + float(pipeline_schedule.pipeline_bubble_time(stages, microbatches, forward_s, backward_s))
    rows.append(("1f1b", "the document's sum", sends, free_s + send_s * sends))
    table = pd.DataFrame(rows, columns=["schedule", "transfers", "transfers that lengthen it", "time"])
    names = {"gpipe": "GPipe", "1f1b": "1F1B", "interleaved": f"interleaved 1F1B, {chunks} chunks"}
    table["schedule"] = table["schedule"].map(names)
    bubbles = [f"{1 - busy_s / total_s:.1%}" for total_s in table["time"]]
    return table.assign(time=[units.show(total_s, "s", 4) for total_s in table["time"]], bubble=bubbles)


def gantt_parts(kind: str, stages: int, microbatches: int, chunks: int, ratio: float, send: float) -> dict[str, Any]:
    """Arguments of a Gantt chart of one schedule with its critical path; a forward pass takes 10 ms.

    Parameters
    ----------
    kind, stages, microbatches, chunks
        As in `timetable.schedule`; chunks count for the interleaved kind alone.
    ratio, send
        t_b and c over t_f.

    Returns
    -------
    events, path, peaks and title.
    """
    v, t_f = chunks if kind == "interleaved" else 1, 0.01
    table = timetable.schedule(kind, stages, microbatches, t_f, ratio * t_f, send * t_f, v)
    title = f"{kind}: bubble {table.bubble_share:.1%}; micro-batches held at the end of each line"
    return {"events": table.events, "path": table.critical_path(), "peaks": table.peak_microbatches, "title": title}
