"""Plots of pipeline schedules: DataFrames of events in, Axes or figures out."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from railcore.facts.units import number
from railcore.workbench import plotting
from railcore.workbench.plotting import COLOURS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FILLS = {"forward": COLOURS[5], "backward": COLOURS[4], "sync": COLOURS[3]}
_HALF = 0.42


def gantt(
    events: "pd.DataFrame", ax: "Axes", path: "pd.DataFrame | None" = None, peaks: Sequence[float] = (), title: str = ""
) -> "Axes":
    """Computes as boxes with the micro-batch's number, stage 1 on top; the critical path as a line with an arrow.

    Columns of both: event (compute, send, receive, sync), direction, stage, chunk, microbatch, start_s, end_s.
    Chunks above the first are paler; sends and receives are thin bars under the computes, and sync a bar of its own.
    peaks: micro-batches held at once by each stage, written at its end.
    """
    scale, unit = _unit(events["end_s"].max())
    timed = events.assign(start=events["start_s"] * scale, end=events["end_s"] * scale)
    timed = timed[timed["end"] > timed["start"]]
    computes = timed[timed["event"] == "compute"]
    span = timed["end"].max()
    for (direction, chunk), boxes in computes.groupby(["direction", "chunk"], observed=True):
        _boxes(ax, boxes, FILLS[direction], -_HALF, _HALF, 1 - 0.6 * chunk / max(1, computes["chunk"].max()))
    for _, boxes in timed[timed["event"].isin(("send", "receive"))].groupby("event", observed=True):
        _boxes(ax, boxes, "black", _HALF - 0.06, _HALF + 0.04)
    _boxes(ax, timed[timed["event"] == "sync"], FILLS["sync"], -_HALF, _HALF, label="sync")
    _numbers(ax, computes, span)
    if path is not None:
        _path(ax, path.assign(start=path["start_s"] * scale, end=path["end_s"] * scale))
    stages = events["stage"].max() + 1
    for stage, peak in enumerate(peaks):
        ax.text(span * 1.01, stage, f"holds {number(peak, 4)}", va="center", fontsize=8)
    ax.set(xlim=(0, span * (1.11 if len(peaks) else 1.005)), ylim=(stages - 0.4, -0.6), xlabel=f"time [{unit}]")
    ax.set_yticks(range(stages), [f"stage {stage + 1}" for stage in range(stages)])
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)
    ax.set_title(title, fontsize=10, loc="left")
    return ax


def gantts(parts: Sequence[tuple[str, "pd.DataFrame", Sequence[float]]]) -> "Figure":
    """Gantt charts over one another on one axis of time, each from its title, events and peaks."""
    import matplotlib.pyplot as plt

    rows = sum(events["stage"].max() + 3 for _, events, _ in parts)
    figure, axes = plt.subplots(len(parts), 1, figsize=(11, 0.6 + 0.38 * rows), squeeze=False)
    for ax, (title, events, peaks) in zip(axes.flat, parts, strict=True):
        gantt(events, ax, peaks=peaks, title=title)
    right = max(ax.get_xlim()[1] for ax in axes.flat)
    for ax in axes.flat:
        ax.set_xlim(right=right)
    for ax in axes.flat[:-1]:
        ax.set(xlabel="", xticklabels=[])
    return figure


def legend(figure: "Figure", *more: str, chunks: int = 1) -> None:
    """What colours and lines of `gantt` mean, above the panels; more: of path, send, sync."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list = [Patch(facecolor=FILLS[way], edgecolor="black", label=way) for way in ("forward", "backward")]
    if chunks > 1:
        handles.append(Patch(facecolor="white", edgecolor="black", label="paler: later chunks"))
    extra = {
        "sync": Patch(facecolor=FILLS["sync"], edgecolor="black", label="parameter synchronization, exposed"),
        "send": Patch(facecolor="black", label="transfer"),
        "path": Line2D([], [], color="black", linewidth=2, marker=">", label="critical path"),
    }
    figure.legend(handles=[*handles, *(extra[name] for name in more)], loc="outside upper center", ncols=6)


def phases(ax: "Axes", ends_s: Mapping[str, tuple[float, float]]) -> None:
    """Names of stretches of time over a Gantt chart, each with its start and end [s]."""
    scale, _ = _unit(max(end for _, end in ends_s.values()))
    for name, (start, end) in ends_s.items():
        bar: dict = {"arrowstyle": "|-|", "mutation_scale": 3, "shrinkA": 0, "shrinkB": 0}
        here, there = (start * scale, -0.62), (end * scale, -0.62)
        ax.annotate("", xy=here, xytext=there, annotation_clip=False, arrowprops=bar)
        ax.text((start + end) / 2 * scale, -0.72, name, ha="center", va="bottom", fontsize=9)
    ax.set_ylim(top=-1.05)


def bubbles(data: "pd.DataFrame", by: str) -> "Figure":
    """Share of the bubble against micro-batches per stage, a panel for each `by` and a line for each `chunks`.

    Columns chunks, microbatches_per_stage, bubble_share and `by`.
    """
    import matplotlib.pyplot as plt
    from matplotlib.ticker import PercentFormatter

    parts = list(data.groupby(by, sort=False))
    figure, axes = plt.subplots(1, len(parts), figsize=(10, 4.2), sharey=True, squeeze=False)
    for ax, (name, part) in zip(axes.flat, parts, strict=True):
        plotting.lines(part, "microbatches_per_stage", "bubble_share", "chunks", ax)
        ticks = sorted(part["microbatches_per_stage"].unique())
        ax.set_xscale("log", base=2)
        ax.set_xticks(ticks, [number(tick) for tick in ticks])
        ax.minorticks_off()
        ax.set(xlabel="micro-batches per stage", ylim=(0, 1.05 * data["bubble_share"].max()))
        ax.set_title(name, fontsize=10)
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes[0, 0].set_ylabel("bubble, share of the iteration")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), title="chunks of a stage")
    return figure


def _unit(longest_s: float) -> tuple[float, str]:
    return (1.0, "s") if longest_s >= 10 else (1e3, "ms")


def _boxes(ax, boxes, colour: str, top: float, bottom: float, alpha: float = 1.0, label: str = "") -> None:
    """One collection of rectangles from start to end, around the line of their stage."""
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgb

    fill = tuple(1 - alpha * (1 - part) for part in to_rgb(colour))
    corners = [
        [
            (row.start, row.stage + top),
            (row.end, row.stage + top),
            (row.end, row.stage + bottom),
            (row.start, row.stage + bottom),
        ]
        for row in boxes.itertuples()
    ]
    ax.add_collection(PolyCollection(corners, facecolors=[fill], edgecolors="black", linewidths=0.5))
    for row in boxes.itertuples() if label else ():
        ax.text((row.start + row.end) / 2, row.stage, label, ha="center", va="center", fontsize=8)


def _numbers(ax, boxes, span: float) -> None:
    """Micro-batch numbers, from 1: in all boxes of a direction and chunk if they fit there, else in none."""
    inches = ax.figure.get_size_inches()[0] * ax.get_position().width
    for _, alike in boxes.groupby(["direction", "chunk"], observed=True):
        digits, width = len(str(alike["microbatch"].max() + 1)), (alike["end"] - alike["start"]).min()
        size = min(9.0, 72 * 0.85 * width / span * inches / (0.65 * digits))
        for row in alike.itertuples() if size >= 4 else ():
            text = str(row.microbatch + 1)
            ax.text((row.start + row.end) / 2, row.stage - 0.08, text, ha="center", va="center", fontsize=size)


def _path(ax, path) -> None:
    """A line through the lower part of the boxes, along the events and from stage to stage."""
    from matplotlib.patheffects import withStroke

    x = path[["start", "end"]].to_numpy().ravel()
    y = path["stage"].to_numpy().repeat(2) + 0.26
    cased = {"path_effects": [withStroke(linewidth=4, foreground="white")], "zorder": 5}
    ax.plot(x, y, color="black", linewidth=2, solid_joinstyle="round", **cased)
    arrow = {"arrowstyle": "-|>", "color": "black", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 14}
    ax.annotate("", xy=(x[-1], y[-1]), xytext=(x[-2], y[-1]), arrowprops=arrow, zorder=6)
