"""Traffic of a training step on rails: by dimension with its dependencies, by rank with windows, windows' lengths."""

from collections.abc import Mapping
from string import ascii_lowercase
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.collections import PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from railcore.catalog import units
from suite.plotting import (
    COLOURS,
    GREY,
    TRAFFIC,
    colours_of,
    document_marks,
    log_axis,
    paler,
    panel_title,
    percent_axis,
    text_beside,
)

_HALF = 0.36  # half of a box's height, lanes being 1 apart
_LANES = {  # of a rank in Fig. 2
    "compute": "compute",
    "tensor": "TP, in the node",
    "data": "FSDP, on the rail",
    "pipeline": "PP, on the rail",
}
_LANE_WORDS = {
    "compute": "compute, F and B: forward and backward pass of a micro-batch",
    "tensor": "tensor parallelism (TP)",
    "data": "data parallelism (FSDP)",
    "pipeline": "pipeline parallelism (PP), both ends joined",
}
_TRAFFIC = {  # of a rail: name and colour
    "AG": ("FSDP AllGather", paler(TRAFFIC["data"], 0.5)),
    "RS": ("FSDP ReduceScatter", TRAFFIC["data"]),
    "PP": ("PP Send/Recv", TRAFFIC["pipeline"]),
    "AR": ("AllReduce of the optimizer", "black"),
    "A2A": ("EP AllToAll", TRAFFIC["expert"]),
}
_CIRCUITS = {  # background of a phase, by who has the circuits: name and colour
    "data": ("circuits of FSDP", paler(TRAFFIC["data"], 0.85)),
    "pipeline": ("circuits of PP", paler(TRAFFIC["pipeline"], 0.7)),
}
_CHARACTER = 0.0078  # width of one in the smallest text, over that of the axes
LONG_S = 1e-3  # windows that the document counts as long
_SHORTEST_S = 1e-6  # windows at or below this are drawn here
_AFTER = {"AR": "AllReduce", "PP": "Send/Recv", "AG": "AllGather", "RS": "ReduceScatter"}


def _lane_boxes(ax: plt.Axes, x: np.ndarray, lane: np.ndarray, colour: str, least: float) -> None:
    """Boxes around lanes from x[:, 0] to x[:, 1], none narrower than `least`."""
    right = np.maximum(x[:, 1], x[:, 0] + least)
    corners = np.stack([x[:, 0], right, right, x[:, 0]], axis=1)
    y = lane[:, None] + [-_HALF, -_HALF, _HALF, _HALF]
    boxes = list(np.stack([corners, y], axis=-1))
    ax.add_collection(PolyCollection(boxes, facecolors=[colour], edgecolors="white", linewidths=0.4))


def _lane_axis(ax: plt.Axes, names: Mapping[float, str], end: float, top: float) -> None:
    """Lanes by their places, downwards."""
    ax.set(xlim=(0, end), ylim=(max(names) + 0.6, top))
    ax.set_yticks(list(names), list(names.values()))
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)


def traffic_by_dimension(operations: pd.DataFrame, dependencies: pd.DataFrame, title: str) -> plt.Figure:
    """Operations of a few ranks over time, a lane for each dimension, and right-angled arrows to what waits.

    operations: columns op, rank, lane (compute, tensor, data, pipeline), operation, microbatch, phase, start_s, end_s.
    dependencies: rank_from, lane_from, end_s_from, rank_to, lane_to, start_s_to.
    """
    ranks, colours = sorted(operations["rank"].unique()), colours_of(_LANES)
    apart = len(_LANES) + 0.4  # lanes from a rank to the next, with room for the names of its passes
    place = {(rank, lane): i * apart + j for i, rank in enumerate(ranks) for j, lane in enumerate(_LANES)}
    end = operations["end_s"].max() * 1.005
    figure, ax = plt.subplots(figsize=(10, 1.7 + 0.5 * len(place)))
    at = pd.Series([place[key] for key in zip(operations["rank"], operations["lane"], strict=True)])
    for lane in _LANES:
        mine = (operations["lane"] == lane).to_numpy()
        x = operations.loc[mine, ["start_s", "end_s"]].to_numpy()
        _lane_boxes(ax, x, at[mine].to_numpy(), colours[lane], end / 700)
    for row in dependencies.drop_duplicates().itertuples():
        _waiting(
            ax, (row.end_s_from, place[row.rank_from, row.lane_from]), (row.start_s_to, place[row.rank_to, row.lane_to])
        )
    hops = operations[operations["operation"] == "send_receive"]
    for _, rows in hops.groupby("op"):
        lanes = [place[rank, "pipeline"] for rank in rows["rank"]]
        ax.plot([rows["start_s"].iloc[0]] * 2, [min(lanes), max(lanes)], color=colours["pipeline"], linewidth=1.5)
    computes = operations[(operations["lane"] == "compute") & (operations["microbatch"] >= 0)]
    for (rank, phase, microbatch), rows in computes.groupby(["rank", "phase", "microbatch"]):
        middle = (rows["start_s"].min() + rows["end_s"].max()) / 2
        name = f"{phase[0].upper()}{microbatch + 1}"
        ax.text(middle, place[rank, "compute"] - 0.62, name, ha="center", va="center", fontsize=9)
    names = {y: f"rank {rank}, {_LANES[lane]}" for (rank, lane), y in place.items()}
    _lane_axis(ax, names, end, -1.0)
    for i in range(1, len(ranks)):
        ax.axhline(i * apart - 0.92, color=GREY, linewidth=0.8)
    ax.set(xlabel="time [s]")
    figure.suptitle(title, fontsize=11)
    handles: list = [Patch(facecolor=colours[lane], label=_LANE_WORDS[lane]) for lane in _LANES]
    handles.append(Line2D([], [], color="black", linewidth=0.9, marker="v", markersize=4, label="waits for the end of"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def _waiting(ax: plt.Axes, start: tuple[float, float], stop: tuple[float, float]) -> None:
    """A right-angled arrow from the end of an operation to the one that waits for it."""
    (x, y), (to, lane) = start, stop
    away = 1 if lane > y else -1
    gap = lane - 0.5 * away  # between the lanes, where nothing is drawn
    points = [(x, y + _HALF * away), (x, gap), (to, gap)]
    ax.plot(*zip(*points, strict=True), color="black", linewidth=0.9, zorder=4)
    arrow: dict = {"arrowstyle": "-|>", "linewidth": 0.9, "color": "black", "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", (to, lane - _HALF * away), (to, gap), arrowprops={**arrow, "mutation_scale": 7}, zorder=4)


def rail_timelines(panels: Mapping[str, Mapping[str, pd.DataFrame]], heading: str = "") -> plt.Figure:
    """Traffic of the ranks of one rail over time, a panel for each title, below a heading.

    Each has tables. traffic: rank, label (AG, RS, PP, AR, A2A), start_s, end_s. windows: window, start_s, duration_s,
    arrows below the ranks with numbers. circuits: kind, circuits, start_s, end_s, shaded, named in the lowest lane.
    parts: part, start_s, end_s, over the panel.
    """
    sizes = [panel["traffic"]["rank"].nunique() + 3.2 for panel in panels.values()]
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(10, 1.2 + 0.42 * sum(sizes)), squeeze=False, height_ratios=sizes
    )
    figure.suptitle(heading, fontsize=11)
    shown: set[str] = set()
    for letter, ax, (title, panel) in zip(ascii_lowercase, axes.flat, panels.items(), strict=False):
        traffic, ranks = panel["traffic"], sorted(panel["traffic"]["rank"].unique())
        end = max(traffic["end_s"].max(), panel["parts"]["end_s"].max()) * 1.01
        _circuit_bands(ax, panel["circuits"], len(ranks), end)
        for label, (_, colour) in _TRAFFIC.items():
            rows = traffic[traffic["label"] == label]
            lanes = rows["rank"].map(ranks.index).to_numpy(float)
            _lane_boxes(ax, rows[["start_s", "end_s"]].to_numpy(float), lanes, colour, end / 300)
            shown |= {label} if len(rows) else set()
        _window_arrows(ax, panel["windows"], len(ranks), end)
        _part_names(ax, panel["parts"], end)
        names = [*(f"rank {rank}" for rank in ranks), "windows", "circuits"]
        _lane_axis(ax, dict(enumerate(names)), end, -1.5)
        panel_title(ax, f"({letter}) {title}" if len(panels) > 1 else title, left=True)
    axes[-1, 0].set_xlabel("time [s]")
    handles = [Patch(facecolor=colour, label=name) for label, (name, colour) in _TRAFFIC.items() if label in shown]
    handles += [Patch(facecolor=colour, label=name) for name, colour in _CIRCUITS.values()]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def _circuit_bands(ax: plt.Axes, circuits: pd.DataFrame, ranks: int, last: float) -> None:
    """Background of phases by their circuits, with the pairs that these join where they fit."""
    starts = np.maximum.accumulate(circuits["start_s"].to_numpy())
    ends = np.append(starts[1:], min(circuits["end_s"].iloc[-1], last))
    for kind, pairs, start, end in zip(circuits["kind"], circuits["circuits"], starts, ends, strict=True):
        ax.axvspan(start, end, color=_CIRCUITS.get(kind, ("", "white"))[1], zorder=0, linewidth=0)
        names = pairs.split(", ")
        lines = [", ".join(names[i : i + 2]) for i in range(0, min(len(names), 6), 2)]
        lines[-1] += " ..." if len(names) > 6 else ""
        if end - start > max(map(len, lines)) * _CHARACTER * last:
            ax.text((start + end) / 2, ranks + 1, "\n".join(lines), ha="center", va="center", fontsize=8)


def _window_arrows(ax: plt.Axes, windows: pd.DataFrame, lane: int, end: float) -> None:
    """A double arrow over each window, a tick where it is too short to see; with its number where there is room."""
    taken = -1.0
    for row in windows.itertuples():
        stop = row.start_s + row.duration_s
        if row.duration_s > end / 120:
            style: dict = {"arrowstyle": "<|-|>", "color": "black", "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7}
            ax.annotate("", (stop, lane + 0.25), (row.start_s, lane + 0.25), arrowprops=style)
        else:
            ax.plot([row.start_s] * 2, [lane, lane + 0.45], color="black", linewidth=1)
        middle = (row.start_s + stop) / 2
        x = max(middle, taken + end / 55)
        if x <= middle + end / 50:
            ax.text(x, lane - 0.18, f"{row.window}", ha="center", va="center", fontsize=8)
            taken = x


def _part_names(ax: plt.Axes, parts: pd.DataFrame, end: float) -> None:
    """Names of the parts of the iteration over the panel, with bars; a part too short for its name has none."""
    for row in parts.itertuples():
        if row.end_s - row.start_s > end / 12:
            style: dict = {"arrowstyle": "|-|", "mutation_scale": 3, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", (row.start_s, -0.75), (row.end_s, -0.75), arrowprops=style)
            ax.text((row.start_s + row.end_s) / 2, -0.85, row.part, ha="center", va="bottom", fontsize=9)


def window_lengths_figure(
    distribution: pd.DataFrame,
    classes: pd.DataFrame,
    title: str,
    document: Mapping[str, float],
    verdicts: Mapping[str, str],
) -> plt.Figure:
    """(a) Cumulative distribution of windows on each rail, (b) their number and (c) mean by the volume that follows.

    Parameters
    ----------
    distribution
        Columns run, rail, duration_s, share; solid lines for the first run, dotted for others.
    classes
        Of one rail: run, after (AR, PP, AG, RS), volume (text), windows, duration_s.
    title
        Of the figure.
    document, verdicts
        The document's share of long windows and mean window before a ReduceScatter [s], and our verdicts, by the
        last words of the claims' ids.

    Returns
    -------
    The figure.
    """
    figure = plt.figure(figsize=(10, 7.6))
    figure.suptitle(title, fontsize=11)
    parts: Any = figure.subfigures(2, 1, height_ratios=(1, 1))
    left, (middle, right) = parts[0].subplots(1, 1), parts[1].subplots(1, 2, width_ratios=(1, 1.5))
    for i, (run, rows) in enumerate(distribution.groupby("run", sort=False)):
        for j, (rail, mine) in enumerate(rows.groupby("rail")):
            x = np.maximum(mine["duration_s"].to_numpy(), _SHORTEST_S)
            x, y = np.append(x, 10.0), np.append(mine["share"].to_numpy(), 1.0)
            look: dict = {"color": COLOURS[j % 4], "label": f"{run}, rail {rail}", "linewidth": 1.6}
            if i:  # rails of a computed run are nearly the same
                look |= {"color": "black", "linestyle": ":", "label": "_" if j else f"{run}, each rail"}
            left.step(x, y, where="post", **look)
    document_marks(left, LONG_S, 1 - document["windows_over_1ms"], verdicts["windows_over_1ms"])
    left.axvline(LONG_S, color=GREY, linewidth=1, linestyle="--")
    text_beside(left, units.show(LONG_S, "s"), (LONG_S, 1.0), (3, 2), fontsize=9)
    ticks = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10]
    log_axis(left.xaxis, ticks, text=lambda s: units.show(s, "s"))
    left.tick_params(axis="x", labelsize=8.5)
    left.set(xlim=(_SHORTEST_S * 0.8, 10), ylim=(0, 1.06), xlabel="window (up to 1 µs at the left end)")
    percent_axis(left.yaxis, "windows no longer than this")
    left.legend(fontsize=9, loc="upper left", handlelength=2.4)
    panel_title(left, "(a) windows of ten iterations, each rail", left=True)
    names, runs = list(dict.fromkeys(classes["after"])), list(dict.fromkeys(classes["run"]))
    width = 0.8 / len(runs)
    for ax, column in ((middle, "windows"), (right, "duration_s")):
        for i, run in enumerate(runs):
            rows = classes[classes["run"] == run].set_index("after").reindex(names)
            x = np.arange(len(names)) + (i - (len(runs) - 1) / 2) * width
            ax.bar(x, rows[column], width * 0.92, color=(COLOURS[0], COLOURS[4], GREY)[i % 3], label=run)
            for at, value in zip(x, rows[column], strict=True):
                shown = (
                    units.number(value, 3) if column == "windows" else units.show(value * (value > _SHORTEST_S), "s", 3)
                )
                ax.text(at, value, shown, ha="center", va="bottom", fontsize=8)
        volumes = classes.drop_duplicates("after").set_index("after")["volume"]
        below = [f"{_AFTER.get(name, name)}\n{volumes[name]}" for name in names]
        if ax is middle:  # less room: the volume alone
            below = [volumes[name] for name in names]
        ax.set_xticks(range(len(names)), below)
        ax.tick_params(axis="x", labelsize=8)
        ax.grid(axis="x", visible=False)
    middle.set(ylabel="windows of an iteration", ylim=(0, classes["windows"].max() * 1.3))
    middle.yaxis.set_major_locator(MaxNLocator(integer=True))
    before = "window_before_reducescatter"
    document_marks(right, names.index("RS") + 0.5 if "RS" in names else [], document[before], verdicts[before])
    right.set(ylabel="mean window [s]", ylim=(0, classes["duration_s"].max() * 1.3))
    panel_title(middle, "(b) rail 0: number, by the volume that follows", left=True)
    panel_title(right, "(c) rail 0: mean length, by what follows", left=True)
    for ax in (middle, right):
        ax.legend(fontsize=8, loc="upper right")
    return figure
