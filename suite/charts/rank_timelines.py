"""What emulated ranks compute and send, as Gantt charts, and their bytes and waiting by strategy."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from railcore.catalog.units import number
from suite.colours import BAND, BUSY
from suite.plotting import GREY, TRAFFIC, ink_on, paler, panel_title, percent_axis, text_beside

_TRANSFERS = {  # series: colour
    "AllGather of outputs, within a DP group": TRAFFIC["tensor"],
    "AllReduce of deltas, within a replica": TRAFFIC["tensor"],
    "outputs to the next layer, on other GPUs of the group": TRAFFIC["pipeline"],
    "deltas to the stage before": TRAFFIC["pipeline"],
    "AllReduce of gradients, across replicas": TRAFFIC["data"],
}
_COMPUTES = tuple(paler(GREY, share) for share in (0.93, 0.6, 0.3, 0.0))  # micro-batches
_PLACES = {"": (-0.44, 0.36), "scale-up": (-0.08, 0.25), "scale-out": (0.17, 0.25)}  # top and height in a lane
_PASS: dict[str, Any] = {"facecolor": "white", "edgecolor": TRAFFIC["pipeline"], "linewidth": 1.0}
_FONT = 8.0  # points of a text in a box; one that does not fit is left out


def rank_gantt(
    events: pd.DataFrame,
    names: Sequence[str],
    title: str = "",
    note: str = "",
    groups: Sequence[Sequence[str]] = (),
) -> plt.Figure:
    """Computations of each rank as tall boxes; below them what it sends, scale-up over scale-out.

    Parameters
    ----------
    events
        Columns rank, what ("compute", an operation, or "pass": a moment at which nothing is sent), link, series (of
        one colour), text, start, end [units].
    names
        Of the ranks.
    title, note
        Of the panel, and of the legend: what the texts mean.
    groups
        Names of what each rank is in, such as its node, a list for each column of brackets on the right.

    Returns
    -------
    The figure.
    """
    size_inches = (10, 1.6 + 0.6 * len(names))
    figure, ax = plt.subplots(figsize=size_inches)
    inches = 0.78 * size_inches[0]
    span = events["end"].max()
    passed = events[events["what"] == "pass"]
    series = list(dict.fromkeys(events["series"][events["what"] != "pass"]))
    computes = sorted(name for name in series if name not in _TRANSFERS)
    colours = {name: _COMPUTES[i % len(_COMPUTES)] for i, name in enumerate(computes)} | _TRANSFERS
    shown = events[events["end"] > events["start"]]
    for name, rows in shown.groupby("series", sort=False):
        top, high = rows["link"].map(lambda link: _PLACES[link][0]), rows["link"].map(lambda link: _PLACES[link][1])
        y = np.stack([rows["rank"] + top, rows["rank"] + top + high], axis=-1)[:, [0, 0, 1, 1]]
        corners = np.stack([rows[["start", "end", "end", "start"]].to_numpy(float), y], axis=-1)
        ax.add_collection(PolyCollection(list(corners), facecolors=[colours[name]], edgecolors="black", linewidths=0.4))
    for row in shown.itertuples():
        top, high = _PLACES[row.link]
        width = row.end - row.start
        if 0.6 * _FONT * len(row.text) <= 72 * 0.97 * width / span * inches:
            place = (row.start + width / 2, row.rank + top + high / 2)
            style: dict = {"fontsize": _FONT, "color": ink_on(colours[row.series])}
            ax.text(*place, row.text, ha="center", va="center_baseline", in_layout=False, **style)
    _draw_passes(ax, passed)
    busy = _all_compute(events, len(names))
    for start, end in busy:
        ax.axvspan(start, end, color=BUSY, zorder=0, linewidth=0)
    ax.set(xlim=(0, span * 1.005), ylim=(len(names) - 0.45, -0.55), xlabel="time [computations of a layer]")
    ax.set_yticks(range(len(names)), names)
    for column, members in enumerate(groups):
        _brackets(ax, members, 1.012 + 0.04 * column)
    ax.tick_params(axis="y", length=0, labelsize=8)
    ax.grid(axis="y", visible=False)
    panel_title(ax, title, left=True)
    drawn = [*computes, *(name for name in _TRANSFERS if name in series)]
    handles = [Patch(facecolor=colours[name], edgecolor="black", linewidth=0.4, label=name) for name in drawn]
    if len(passed):
        handles.append(Patch(label=passed["series"].iloc[0], **_PASS))
    if busy:
        handles.append(Patch(facecolor=BUSY, label=f"all {len(names)} GPUs compute"))
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8, title=note, title_fontsize=8)
    return figure


def _draw_passes(ax: plt.Axes, passed: pd.DataFrame) -> None:
    """The name of each pass in a hollow box behind its moment."""
    for row in passed.itertuples():
        top, high = _PLACES[row.link]
        style: dict[str, Any] = {
            "fontsize": _FONT,
            "ha": "left",
            "va": "center_baseline",
            "bbox": {**_PASS, "pad": 1.2},
        }
        ax.text(row.start + 0.03, row.rank + top + high / 2, row.text, in_layout=False, **style)


def _brackets(ax: plt.Axes, members: Sequence[str], x: float) -> None:
    """A bracket and a name beside each run of lanes of one group. x: of the bracket, as a share of the axes."""
    starts = [i for i, name in enumerate(members) if not i or members[i - 1] != name]
    place: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "clip_on": False}
    for start, end in pairwise([*starts, len(members)]):
        low, high, tip = start - 0.44, end - 0.58, x - 0.006
        ax.plot([tip, x, x, tip], [low, low, high, high], color="black", linewidth=0.8, **place)
        style: dict[str, Any] = {"rotation": 270, "ha": "left", "va": "center", "fontsize": _FONT}
        ax.text(x + 0.004, (low + high) / 2, members[start], **style, **place)


def _all_compute(events: pd.DataFrame, ranks: int) -> list[tuple[float, float]]:
    """Times in which all ranks compute; none for a single rank."""
    computes = events[events["what"] == "compute"]
    times = np.unique(computes[["start", "end"]].to_numpy(float))
    computations: list[tuple[float, float]] = []
    for start, end in pairwise(times) if ranks > 1 else ():
        middle = (start + end) / 2
        if computes.loc[(computes["start"] < middle) & (middle < computes["end"]), "rank"].nunique() == ranks:
            if computations and computations[-1][1] == start:
                start = computations.pop()[0]
            computations.append((start, end))
    return computations


def strategy_bytes(table: pd.DataFrame, title: str = "", marked: str = "") -> plt.Figure:
    """Bytes of a step by strategy, stacked by kind and hatched where they leave the node; idle shares.

    Columns strategy, kind, link ("scale-up" or "scale-out"), bytes and idle_share (in a panel of its own). title: of
    the figure. marked: a strategy on a band.
    """
    names = list(dict.fromkeys(table["strategy"]))
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10, 1.9 + 0.42 * len(names)), sharey=True, width_ratios=(3, 1), layout="constrained"
    )
    ends = np.zeros(len(names))
    for (kind, link), part in table.groupby(["kind", "link"], sort=True):
        sizes = part.set_index("strategy")["bytes"].reindex(names, fill_value=0).to_numpy() / 1e3
        hatch = "///" if link == "scale-out" else ""
        look = {"color": TRAFFIC.get(kind, TRAFFIC["none"]), "edgecolor": "white", "hatch": hatch, "linewidth": 0.5}
        left.barh(names, sizes, left=ends, height=0.6, **look)
        ends += sizes
    for place, total in enumerate(ends):
        text_beside(left, f"{number(total, 4)} kB", (total, place), (3, 0), va="center", fontsize=8)
    left.set_xlim(0, 1.12 * max(ends.max(), 1e-9))
    left.xaxis.set_major_formatter(lambda value, _: number(value))
    idle = table.drop_duplicates("strategy").set_index("strategy")["idle_share"].reindex(names)
    right.barh(names, idle, height=0.6, color=GREY)
    left.invert_yaxis()
    for ax in (left, right) if marked in names else ():
        ax.axhspan(names.index(marked) - 0.5, names.index(marked) + 0.5, color=BAND, zorder=0)
        left.get_yticklabels()[names.index(marked)].set_fontweight("bold")
    figure.suptitle(title, fontsize=10)
    panel_title(left, "(a) bytes by kind and link", left=True)
    panel_title(right, "(b) idle GPUs", left=True)
    left.set_xlabel("bytes sent in a training step, all GPUs [kB]")
    percent_axis(right.xaxis, "idle share, transfers free")
    for ax in (left, right):
        ax.grid(axis="y", visible=False)
    kinds = [kind for kind in TRAFFIC if kind in set(table["kind"]) - {"none"}]
    handles = [Patch(facecolor=TRAFFIC[kind], label=kind) for kind in kinds]
    handles.append(Patch(facecolor="white", edgecolor="black", label="scale-up"))
    handles.append(Patch(facecolor="white", edgecolor="black", hatch="///", label="scale-out"))
    figure.legend(handles=handles, loc="outside lower center", ncols=6, fontsize=8)
    return figure
