"""Timelines: Gantt charts of pipeline schedules, steps of an exchange on their networks, hours of demand."""

from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import Any, Protocol

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke

from railcore.catalog import units
from railcore.catalog.units import number
from suite.colours import CRITICAL_PATH, VERDICTS, WAITS
from suite.plotting import (
    COLOURS,
    LINKS,
    PASSES,
    TRAFFIC,
    document_text,
    model_name,
    paler,
    panel_title,
    text_beside,
    verdict_label,
)

_FILLS = PASSES | {"sync": TRAFFIC["data"]}
_HALF = 0.42  # half of a box's height, stages being 1 apart
_LANES = ("GPU", "scale-up", "scale-out", "wide area")
_EXCHANGE_EVENTS = {  # of the exchange: name and colour
    "forward": ("forward", _FILLS["forward"]),
    "backward": ("backward", _FILLS["backward"]),
    "tensor": ("tensor, a pass", TRAFFIC["tensor"]),
    "pipeline": ("pipeline, a pass", TRAFFIC["pipeline"]),
    "scale-up reduce": ("1 AllReduce", LINKS["scale-up"]),
    "scale-out reduce": ("2 AllReduce", LINKS["scale-out"]),
    "wide area": ("3 exchange", LINKS["wide area"]),
    "propagation": ("delay, one way", paler(LINKS["wide area"], 0.6)),
    "scale-out gather": ("4 AllGather", paler(LINKS["scale-out"], 0.55)),
    "scale-up gather": ("5 AllGather", paler(LINKS["scale-up"], 0.55)),
}


_EVENTS_OF_LANES = (
    ("forward", "backward"),
    ("tensor", "scale-up reduce", "scale-up gather"),
    ("pipeline", "scale-out reduce", "scale-out gather"),
    ("wide area", "propagation"),
)
_TIMES_AT = (12, 24, 150, 205)  # columns right of a panel: mark, name, our time, the document's [points]


class Timed(Protocol):
    """What `exchange_timelines` draws: events, and when the backward pass ends and the next pass can go on [s]."""

    events: pd.DataFrame
    backward_end_s: float
    due_s: float

    @property
    def durations_s(self) -> dict[str, float]:
        """Time of each event in all [s]."""


def _boxes(ax: plt.Axes, x: np.ndarray, y: np.ndarray, **style) -> None:
    """Rectangles from x[:, 0] to x[:, 1] and from y[:, 0] to y[:, 1], as one artist."""
    corners = np.stack([x[:, [0, 1, 1, 0]], y[:, [0, 0, 1, 1]]], axis=-1)
    ax.add_collection(PolyCollection(list(corners), **style))


def pipeline_gantt(
    events: pd.DataFrame, ax: plt.Axes, path: pd.DataFrame | None = None, peaks: Sequence[float] = (), title: str = ""
) -> plt.Axes:
    """Computes as boxes with the micro-batch's number, stage 1 on top; the critical path as a line with an arrow.

    Chunks above the first are paler; sends and receives are thin bars under the computes, and sync a bar of its own.

    Parameters
    ----------
    events, path
        Columns of both: event (compute, send, receive, sync), direction, stage, chunk, microbatch, start_s, end_s.
    ax, title
        Where to draw, and the title.
    peaks
        Micro-batches held at once by each stage, written at its end.

    Returns
    -------
    The axes.
    """
    scale, unit = _unit(events["end_s"].max())
    timed = events.assign(start=events["start_s"] * scale, end=events["end_s"] * scale)
    timed = timed[timed["end"] > timed["start"]]
    computes, span = timed[timed["event"] == "compute"], timed["end"].max()
    for (direction, chunk), part in computes.groupby(["direction", "chunk"], observed=True):
        _stage_boxes(ax, part, paler(_FILLS[direction], 0.6 * chunk / max(1, computes["chunk"].max())))
    _stage_boxes(ax, timed[timed["event"].isin(("send", "receive"))], "black", _HALF - 0.06, _HALF + 0.04)
    synced = timed[timed["event"] == "sync"]
    _stage_boxes(ax, synced, _FILLS["sync"])
    for row in synced.itertuples():
        ax.text((row.start + row.end) / 2, row.stage, "sync", ha="center", va="center", fontsize=8)
    _numbers(ax, computes, span, 0.0 if path is None else 0.08)
    if path is not None:
        _path(ax, path[["start_s", "end_s"]].to_numpy() * scale, path["stage"].to_numpy())
    stages = events["stage"].max() + 1
    for stage, peak in enumerate(peaks):
        ax.text(span * 1.012, stage, f"holds {number(peak, 4)}", va="center", fontsize=8)
    ax.set(xlim=(0, span * (1.11 if len(peaks) else 1.005)), ylim=(stages - 0.4, -0.6), xlabel=f"time [{unit}]")
    _lanes(ax, [f"stage {stage + 1}" for stage in range(stages)])
    panel_title(ax, title, left=True)
    return ax


def pipeline_gantts(parts: Sequence[tuple[str, pd.DataFrame, Sequence[float]]]) -> plt.Figure:
    """Gantt charts over one another on one axis of time, lettered, each from its title, events and peaks."""
    rows = sum(events["stage"].max() + 3 for _, events, _ in parts)
    figure, axes = plt.subplots(len(parts), 1, figsize=(10, 0.6 + 0.38 * rows), squeeze=False)
    for letter, ax, (title, events, peaks) in zip(ascii_lowercase, axes.flat, parts, strict=False):
        pipeline_gantt(events, ax, peaks=peaks, title=f"({letter}) {title}")
    right = max(ax.get_xlim()[1] for ax in axes.flat)
    for ax in axes.flat:
        ax.set_xlim(right=right)
    for ax in axes.flat[:-1]:
        ax.set(xlabel="", xticklabels=[])
    return figure


def gantt_legend(figure: plt.Figure, *more: str, chunks: int = 1) -> None:
    """What colours and lines of `pipeline_gantt` mean, below the panels; more: of path, send, sync."""
    handles: list = [Patch(facecolor=_FILLS[way], edgecolor="black", label=way) for way in ("forward", "backward")]
    if chunks > 1:
        handles.append(Patch(facecolor="white", edgecolor="black", label="paler: later chunks"))
    extra = {
        "sync": Patch(facecolor=_FILLS["sync"], edgecolor="black", label="parameter synchronization, exposed"),
        "send": Patch(facecolor="black", label="transfer"),
        "path": plt.Line2D([], [], color=CRITICAL_PATH, linewidth=2.5, marker=">", label="critical path"),
    }
    figure.legend(handles=[*handles, *(extra[name] for name in more)], loc="outside lower center", ncols=6)


def gantt_phases(ax: plt.Axes, ends_s: Mapping[str, tuple[float, float]]) -> None:
    """Names of stretches of time over a Gantt chart, each with its start and end [s]."""
    scale, _ = _unit(max(end for _, end in ends_s.values()))
    for name, (start, end) in ends_s.items():
        bar: dict = {"arrowstyle": "|-|", "mutation_scale": 3, "shrinkA": 0, "shrinkB": 0}
        here, there = (start * scale, -0.62), (end * scale, -0.62)
        ax.annotate("", xy=here, xytext=there, annotation_clip=False, arrowprops=bar)
        ax.text((start + end) / 2 * scale, -0.72, name, ha="center", va="bottom", fontsize=9)
    ax.set_ylim(top=-1.05)


def _unit(longest_s: float) -> tuple[float, str]:
    return (1.0, "s") if longest_s >= 10 else (1e3, "ms")


def _lanes(ax: plt.Axes, names: Sequence[str]) -> None:
    """Names of the lanes, the first on top."""
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)


def _stage_boxes(ax: plt.Axes, events: pd.DataFrame, fill: Any, top: float = -_HALF, bottom: float = _HALF) -> None:
    """Boxes around the line of a stage; columns start, end, stage."""
    y = events["stage"].to_numpy()[:, None] + [top, bottom]
    _boxes(ax, events[["start", "end"]].to_numpy(), y, facecolors=[fill], edgecolors="black", linewidths=0.5)


def _numbers(ax: plt.Axes, computes: pd.DataFrame, span: float, lift: float) -> None:
    """Micro-batch numbers, from 1: in all boxes of a direction and chunk if they fit there, else in none.

    lift: above the middle, where the path goes below.
    """
    inches = ax.get_window_extent().width / ax.figure.dpi
    for _, alike in computes.groupby(["direction", "chunk"], observed=True):
        digits, width = len(str(alike["microbatch"].max() + 1)), (alike["end"] - alike["start"]).min()
        size = min(9.0, 72 * 0.85 * width / span * inches / (0.65 * digits))
        for row in alike.itertuples() if size >= 8 else ():
            text = str(row.microbatch + 1)
            ax.text((row.start + row.end) / 2, row.stage - lift, text, ha="center", va="center", fontsize=size)


def _path(ax: plt.Axes, times: np.ndarray, stages: np.ndarray) -> None:
    """A line through the lower part of the boxes, along the events and from stage to stage."""
    x, y = times.ravel(), stages.repeat(2) + 0.26
    cased: dict = {"path_effects": [withStroke(linewidth=5.5, foreground="white")], "zorder": 5}
    ax.plot(x, y, color=CRITICAL_PATH, linewidth=2.5, solid_joinstyle="round", **cased)
    arrow = {"arrowstyle": "-|>", "color": CRITICAL_PATH, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 14}
    ax.annotate("", xy=(x[-1], y[-1]), xytext=(x[-2], y[-1]), arrowprops=arrow, zorder=6)


def exchange_timelines(
    parts: Mapping[str, tuple[str, Timed]],
    title: str = "",
    document: Mapping[str, Mapping[str, tuple[float, str]]] | None = None,
) -> plt.Figure:
    """A device's passes and the steps of the exchange on their networks, a panel for each, by name: title and events.

    Each with events (columns lane, event, chunk, start_s, end_s), backward_end_s and due_s [s], end of the backward
    pass, dashed, and of what the next pass waits for; between them the exchange is exposed, shaded. title: of all.
    Beside each lane are the times of its events in all; document: of panels, a document's times and verdicts by event.
    """
    document = document or {}
    figure, axes = plt.subplots(len(parts), 1, figsize=(10, 1.3 + 2.6 * len(parts)), squeeze=False)
    figure.suptitle(title, fontsize=11)
    for letter, ax, (name, (heading, part)) in zip(ascii_lowercase, axes.flat, parts.items(), strict=False):
        events = part.events[part.events["end_s"] > part.events["start_s"]]
        end_ms = events["end_s"].max() * 1e3
        for event in reversed(_EXCHANGE_EVENTS):  # the passes' traffic over the steps that it interrupts
            rows, colour = events[events["event"] == event], _EXCHANGE_EVENTS[event][1]
            half = 0.12 if event == "propagation" else 0.36
            y = rows["lane"].map(_LANES.index).to_numpy(float)[:, None] + [-half, half]
            x = rows[["start_s", "end_s"]].to_numpy() * 1e3
            thin = np.diff(x).max(initial=0) < 0.008 * end_ms  # seen by its edge
            edges: dict = (
                {"edgecolors": colour, "linewidths": 0.8} if thin else {"edgecolors": "white", "linewidths": 0.3}
            )
            _boxes(ax, x, y, facecolors=[colour], **edges)
        if part.due_s > part.backward_end_s:
            ax.axvspan(part.backward_end_s * 1e3, part.due_s * 1e3, color=WAITS, zorder=0)
        ax.axvline(part.backward_end_s * 1e3, color="black", linestyle="--", linewidth=1)
        ax.set(xlim=(0, end_ms), ylim=(len(_LANES) - 0.5, -0.8), xlabel="time [ms]")
        _lanes(ax, _LANES)
        _times_of_events(ax, part.durations_s, document.get(name, {}))
        panel_title(ax, f"({letter}) {model_name(heading)}", left=True)
    handles: list = [Patch(facecolor=WAITS, label="exchange exposed: the next forward pass waits")]
    handles.append(plt.Line2D([], [], color="black", linestyle="--", linewidth=1, label="end of the backward pass"))
    verdicts = {verdict for times in document.values() for _, verdict in times.values()}
    for verdict in sorted(verdicts, key=[*VERDICTS].index):
        handles.append(Patch(facecolor=VERDICTS[verdict], label=verdict_label(verdict)))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def _times_of_events(ax: plt.Axes, ours_s: Mapping[str, float], document: Mapping[str, tuple[float, str]]) -> None:
    """Right of each lane what its colours mean, how long they last, and a document's times in the verdict's colour."""
    mark, name, ours, theirs = _TIMES_AT
    place: dict = {"xycoords": ax.get_yaxis_transform(), "va": "center", "fontsize": 8.5, "annotation_clip": False}
    for text, column in (("ours [ms]", ours), ("document", theirs))[: 1 + bool(document)]:
        text_beside(ax, text, (1, -0.62), (column, 0), ha="right", **place)
    for lane, events in enumerate(_EVENTS_OF_LANES):
        for row, event in enumerate(events):
            at, (words, colour) = (1, lane + 0.31 * (row - (len(events) - 1) / 2)), _EXCHANGE_EVENTS[event]
            text_beside(ax, "\u25a0", at, (mark, 0), ha="center", color=colour, **place)
            text_beside(ax, words, at, (name, 0), ha="left", **place)
            text_beside(ax, f"{units.significant(1e3 * ours_s[event], 12):.2f}", at, (ours, 0), ha="right", **place)
            if event in document:
                time_s, verdict = document[event]
                document_text(ax, number(1e3 * time_s), at, verdict, (theirs, 0), ha="right", **place)


def hourly_demand(data: pd.DataFrame, title: str = "") -> plt.Figure:
    """Demand and net generation of one balancing authority, a panel each: reported in grey, and cleaned of spikes.

    Columns as `hours.screen_spikes` has them, of one authority: hour_utc, demand_w, demand_screened_w and,
    where they are known, net_generation_w, net_generation_screened_w. The axis ends a third above what was cleaned;
    spikes reported beyond it are triangles there, the highest with its value; dashed is the largest cleaned hour.
    """
    names = [name for name in ("demand", "net_generation") if f"{name}_screened_w" in data]
    top = 4 / 3 * max(data[f"{name}_screened_w"].max() for name in names) / units.GW
    size = (10, 0.8 + 2.5 * len(names))
    figure, axes = plt.subplots(len(names), 1, figsize=size, sharex=True, squeeze=False, layout="constrained")
    hours = data["hour_utc"]
    for ax, name, colour in zip(axes.flat, names, (COLOURS[0], COLOURS[2]), strict=False):
        raw, clean = (data[f"{name}{kind}_w"].to_numpy(float) / units.GW for kind in ("", "_screened"))
        ax.plot(hours, np.minimum(raw, top), color="#9A9A9A", linewidth=0.7, rasterized=True)
        ax.plot(hours, clean, color=colour, linewidth=0.5, rasterized=True)
        largest, beyond = np.nanmax(clean), np.flatnonzero(raw > top)
        ax.axhline(largest, color="black", linewidth=0.9, linestyle="--")
        text_beside(ax, units.show(largest * units.GW, "W", 3), (hours.iloc[0], largest), (2, 3), fontsize=8.5)
        ax.plot(hours.iloc[beyond], np.full(len(beyond), 0.97 * top), "^", color=COLOURS[1])
        if len(beyond):
            highest = beyond[raw[beyond].argmax()]
            words = f"{units.show(raw[highest] * units.GW, 'W', 3)} reported"
            text_beside(ax, words, (hours.iloc[highest], 0.97 * top), (7, -3), fontsize=8.5)
        ax.set(ylabel=f"{units.words(name)} [GW]", ylim=(0, top))
    figure.suptitle(title, fontsize=11)
    return figure
