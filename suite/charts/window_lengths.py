"""Windows of rails by length: their distribution on each rail, their number and mean by the volume that follows."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import MaxNLocator

from railcore.catalog import units
from suite.charts.rail_operations import BY_SHORT
from suite.colours import VERDICTS
from suite.plotting import COLOURS, GREY, document_marks, log_axis, panel_title, percent, percent_axis, text_beside

LONG_S = 1e-3  # windows that the document counts as long
SHORTEST_S = 1e-6  # windows at or below this are drawn here
_RUN_COLOURS = (COLOURS[0], "#4D4D4D", GREY)  # of bars: measured, computed
_BOUNDS = {"<": ">", ">": "<"}  # of the share of windows that are no longer, by that of the longer ones


def window_lengths_figure(
    distribution: pd.DataFrame,
    classes: pd.DataFrame,
    title: str,
    note: str,
    document: Mapping[str, Any],
    volumes: Mapping[str, str],
) -> plt.Figure:
    """(a) Cumulative distribution of windows on each rail, (b) their number and (c) mean by the volume that follows.

    Parameters
    ----------
    distribution
        Columns run, rail, duration_s, share; solid lines for the first run, dotted for others.
    classes
        Of one rail: run, after (AR, PP, AG, RS), volume (text), windows, duration_s.
    title, note
        Of the figure; of the mean window before a ReduceScatter.
    document
        Marks (`claims.marks`) of the share of long windows and of the mean before a ReduceScatter [s], by the last
        words of the claims' ids; none of what is absent.
    volumes
        The document's volumes as it writes them, by what follows.

    Returns
    -------
    The figure.
    """
    figure = plt.figure(figsize=(10, 8))
    figure.suptitle(title, fontsize=11)
    parts: Any = figure.subfigures(2, 1, height_ratios=(1, 1))
    left, (middle, right) = parts[0].subplots(1, 1), parts[1].subplots(1, 2)
    _distributions(left, distribution)
    first = distribution[distribution["run"] == distribution["run"].iloc[0]]
    iterations = len(first) / first["rail"].nunique() / classes.groupby("run", sort=False)["windows"].sum().iloc[0]
    panel_title(left, f"(a) windows of {units.counted(round(iterations), 'iterations')}, each rail", left=True)
    words, colour = f"longer than {units.show(LONG_S, 's')}", "black"
    if mark := document.get("windows_over_1ms"):
        look: dict = {"label": "document, against measured", "markerfacecolor": "white"}
        document_marks(left, LONG_S, 1 - mark.value, mark.verdict, _BOUNDS.get(mark.relation, "="), **look)
        words, colour = f"{words}: document more than {percent(mark.value)}, against measured", VERDICTS[mark.verdict]
    text_beside(left, words, (LONG_S, 0), (24, 37), fontsize=9, color=colour)
    text_beside(left, _long_shares(distribution), (LONG_S, 0), (24, 34), fontsize=9, va="top")
    left.legend(fontsize=9, loc="upper left", handlelength=2.4)
    _class_bars(middle, classes, "windows", volumes, 1.0)
    _class_bars(right, classes, "duration_s", volumes, units.ms)
    middle.set(ylabel="windows of an iteration", ylim=(0, classes["windows"].max() * 1.3))
    middle.yaxis.set_major_locator(MaxNLocator(integer=True))
    names = list(dict.fromkeys(classes["after"]))
    if "RS" in names:
        mean_s = classes.loc[classes["after"] == "RS", "duration_s"].max()
        at = names.index("RS") + 0.53
        text_beside(right, note, (at - 1, 0.93 * mean_s / units.ms), ha="right", va="center", fontsize=8)
        if mark := document.get("window_before_reducescatter"):
            text = f"document\n{units.number(mark.value / units.ms)} ms"
            document_marks(right, at, mark.value / units.ms, mark.verdict, text=text, shift=(0, 10))
    right.set(ylabel="mean window [ms]", ylim=(0, classes["duration_s"].max() / units.ms * 1.35))
    right.yaxis.set_major_formatter(lambda value, _: units.number(value))
    panel_title(middle, "(b) rail 0: number of windows, by what follows", left=True)
    panel_title(right, "(c) rail 0: mean window, by what follows", left=True)
    for ax in (middle, right):
        ax.legend(fontsize=8, loc="upper left")
    return figure


def hidden_changes(windows_s: pd.Series, delays_s: Sequence[float], title: str) -> plt.Figure:
    """Share of windows that hide a change over its time, with the share at some times in words.

    windows_s: lengths [s], at least one. delays_s: times of a change that are named [s]. title: of the figure.
    """
    if windows_s.empty:
        raise ValueError("windows_s is empty: give one length or more")
    figure, ax = plt.subplots(figsize=(10, 4))
    figure.suptitle(title, fontsize=11)
    lengths = np.sort(np.maximum(windows_s.to_numpy(float), SHORTEST_S))
    ax.step([SHORTEST_S, *lengths], [1.0, *(1 - np.arange(len(lengths)) / len(lengths))], color=COLOURS[0], where="pre")
    ax.set_xlim(SHORTEST_S * 0.8, max(10.0, 1.5 * lengths[-1]))
    ax.set_ylim(0, 1.06)
    log_axis(ax.xaxis, [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10], text=lambda s: units.show(s, "s"))
    for delay in delays_s:
        share, x = (windows_s >= delay).mean(), max(delay, SHORTEST_S)  # 0 is not on the log axis
        look: dict = {"color": COLOURS[1], "linestyle": "--", "linewidth": 1.2}
        ax.plot([x, x, SHORTEST_S * 0.8], [0, share, share], **look)
        ax.plot(x, share, "o", color=COLOURS[1])
        words = f"{units.show(delay, 's', 3)} hides in {percent(share)}"
        text_beside(ax, words, (x, share), (8, 4), fontsize=10, weight="bold", color=COLOURS[1])
    ax.set_xlabel("time that a circuit switch takes to change")
    percent_axis(ax.yaxis, "pauses that hide the change")
    return figure


def _distributions(ax: plt.Axes, distribution: pd.DataFrame) -> None:
    """Steps of each rail of the first run, and dotted ones of others."""
    for i, (run, rows) in enumerate(distribution.groupby("run", sort=False)):
        for j, (rail, mine) in enumerate(rows.groupby("rail")):
            x = np.maximum(mine["duration_s"].to_numpy(), SHORTEST_S)
            x, y = np.append(x, 10.0), np.append(mine["share"].to_numpy(), 1.0)
            look: dict = {"color": COLOURS[j % 4], "label": f"{run}, rail {rail}", "linewidth": 1.6}
            if i:  # rails of a computed run are nearly the same
                look |= {"color": "black", "linestyle": ":", "label": "_" if j else f"{run}, each rail"}
            ax.step(x, y, where="post", **look)
    ax.axvline(LONG_S, color=GREY, linewidth=1, linestyle="--")
    text_beside(ax, units.show(LONG_S, "s"), (LONG_S, 1.0), (3, 2), fontsize=9)
    ticks = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, 10]
    log_axis(ax.xaxis, ticks, text=lambda s: units.show(s, "s"))
    ax.tick_params(axis="x", labelsize=8.5)
    ax.set(xlim=(SHORTEST_S * 0.8, 10), ylim=(0, 1.06), xlabel="window (up to 1 µs at the left end)")
    percent_axis(ax.yaxis, "windows no longer than this")


def _long_shares(distribution: pd.DataFrame) -> str:
    """How many windows of each run are long, on all rails and on each."""
    long = (distribution["duration_s"] > LONG_S).groupby([distribution["run"], distribution["rail"]], sort=False).mean()
    lines = []
    for run, shares in long.groupby(level="run", sort=False):
        rails = ", ".join(f"rail {rail} {percent(share)}" for (_, rail), share in shares.items())
        lines.append(f"{run}: {percent(shares.mean())}" + f" ({rails})" * (shares.nunique() > 1))
    return "\n".join(lines)


def _class_bars(ax: plt.Axes, classes: pd.DataFrame, column: str, volumes: Mapping[str, str], size: float) -> None:
    """Bars by what follows a window, one for each run, in units of `size`, with the volumes below."""
    names, runs = list(dict.fromkeys(classes["after"])), list(dict.fromkeys(classes["run"]))
    width = 0.8 / len(runs)
    for i, run in enumerate(runs):
        rows = classes[classes["run"] == run].set_index("after").reindex(names)
        x = np.arange(len(names)) + (i - (len(runs) - 1) / 2) * width
        ax.bar(x, rows[column] / size, width * 0.92, color=_RUN_COLOURS[i % 3], label=run)
        for at, value in zip(x, rows[column] * (rows[column] > SHORTEST_S) / size, strict=True):
            ax.text(at, value, units.number(value, 3), ha="center", va="bottom", fontsize=8)
    ours = classes.drop_duplicates("after").set_index("after")["volume"]
    texts = [f"{volumes[name]}\n({ours[name]})" if name in volumes else ours[name] for name in names]
    ax.set_xticks(
        range(len(names)), [f"{BY_SHORT[name].name}\n{text}" for name, text in zip(names, texts, strict=True)]
    )
    ax.set_xlabel(f"what follows: {'volume in the document (ours)' if volumes else 'its volume'}")
    ax.tick_params(axis="x", labelsize=8)
    ax.grid(axis="x", visible=False)
