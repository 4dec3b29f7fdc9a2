"""Reconfiguration of rails: iteration time against the switch's time, circuits over time, the control plane's part."""

from collections.abc import Mapping
from string import ascii_lowercase

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from railcore.catalog import units
from suite import plotting
from suite.colours import CIRCUIT_UP
from suite.plotting import COLOURS, GREY, TRAFFIC, ink_on, legend_below, panel_title, percent

_LANES = {"compute": plotting.PASSES["compute"], "circuits": CIRCUIT_UP, "change": "#333333"}
_WAITS: dict = {"facecolor": "white", "edgecolor": GREY, "hatch": "/////"}
_TRAFFIC = {  # by operation: what it belongs to, and its colour
    "all_gather": ("FSDP traffic", TRAFFIC["data"]),
    "reduce_scatter": ("FSDP traffic", TRAFFIC["data"]),
    "send_receive": ("PP traffic", TRAFFIC["pipeline"]),
    "all_to_all": ("EP traffic", TRAFFIC["expert"]),
    "all_reduce": ("AllReduce", "#000000"),
}
CALLS = {
    "all_gather": "AllGather",
    "reduce_scatter": "ReduceScatter",
    "all_reduce": "AllReduce",
    "all_to_all": "AllToAll",
    "send_receive": "Send/Recv",
}


def iteration_time_by_reconfiguration(
    data: pd.DataFrame,
    base_s: Mapping[str, float],
    marked_s: float,
    title: str,
    document: Mapping[str, tuple[float, str]],
) -> plt.Figure:
    """Iteration time against the switch's time, a panel for each source, a line for each way to ask.

    Parameters
    ----------
    data
        Columns source, requests, reconfiguration_s, iteration_s, measured (points, not lines).
    base_s
        Iteration time without reconfiguration by source [s], dashed.
    marked_s
        A switch's time at which the increase is written [s].
    title
        Of the figure.
    document
        By way to ask the document's increase there, marked in the first panel, and our verdict.

    Returns
    -------
    The figure.
    """
    figure, parts = plotting.panels(data, "source", (3.3, 4.6), sharey=True)
    figure.suptitle(title)
    for letter, (source, part, ax) in zip(ascii_lowercase, parts, strict=False):
        base = base_s[source]
        for share, verdict in document.values() if letter == "a" else ():
            plotting.document_marks(ax, marked_s, base * (1 + share), verdict)
        for i, (way, line) in enumerate(part.groupby("requests", sort=False)):
            style = {"linestyle": "none"} if line["measured"].all() else {"marker": "", "linestyle": ("-", "--")[i % 2]}
            ax.plot(line["reconfiguration_s"], line["iteration_s"], **{**plotting.line_style(i, label=way), **style})
            for row in line[np.isclose(line["reconfiguration_s"], marked_s)].itertuples():
                text = f"{way} at {units.show(marked_s, 's')}: +{percent(row.iteration_s / base - 1)}"
                place: dict = {"xycoords": "axes fraction", "fontsize": 9, "color": COLOURS[i]}
                ax.annotate(text, (0.03, 0.95 - 0.06 * i), **place)
        ax.axhline(base, color="black", linestyle=":", linewidth=1.2)
        ax.set(xlabel="reconfiguration of the switch [s]")
        panel_title(ax, f"({letter}) {source}", left=True)
    first = figure.axes[0]
    first.set_ylabel("iteration time [s]")
    first.plot([], [], color="black", linestyle=":", label="without reconfiguration")
    legend_below(figure, first)
    return figure


def circuit_timelines(parts: Mapping[str, pd.DataFrame], until_s: float, title: str = "") -> plt.Figure:
    """Computes, traffic and circuits of ranks, a panel for each title; traffic waits for circuits where shaded.

    parts: by title, columns rank, lane, what, microbatch, asked_s, start_s, end_s as
    `circuit_lanes.rank_lanes` has them; until_s: end of the axis [s]. title: of the figure. A double arrow
    leads from a change that starts before it is asked for to when it is.
    """
    ranks = sorted({rank for lanes in parts.values() for rank in lanes["rank"]})
    figure, axes = plt.subplots(
        len(parts), 1, figsize=(10, 1.3 + len(parts) * (0.6 + 0.95 * len(ranks))), squeeze=False, sharex=True
    )
    figure.suptitle(title)
    kinds: dict[str, str] = {}
    for letter, ax, (panel, lanes) in zip(ascii_lowercase, axes.flat, parts.items(), strict=False):
        shown = lanes[lanes["start_s"] < until_s].assign(end_s=lanes["end_s"].clip(upper=until_s))
        names = []
        for i, rank in enumerate(ranks):
            _rank_lanes(ax, shown[shown["rank"] == rank], 3.4 * i, until_s)
            names += [
                (3.4 * i + j, f"rank {rank}, {name}") for j, name in enumerate(("compute", "traffic", "circuits"))
            ]
        ax.set(xlim=(0, until_s), ylim=(3.4 * len(ranks) - 0.8, -0.6))
        ax.set_yticks(*zip(*names, strict=True))
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", visible=False)
        panel_title(ax, f"({letter}) {panel}", left=True)
        kinds |= dict(_TRAFFIC[what] for what in shown.loc[shown["lane"] == "traffic", "what"].unique())
        for i, rank in enumerate(ranks):
            _early_changes(ax, lanes[lanes["rank"] == rank], 3.4 * i + 1, until_s)
    axes[-1, 0].set_xlabel("time from the start of the iteration [s]")
    handles = [Patch(facecolor=_LANES["compute"], label="compute")]
    handles += [Patch(facecolor=colour, label=name) for name, colour in kinds.items()]
    handles += [Patch(facecolor=_LANES["circuits"], edgecolor=GREY, label="circuit up: out port over in port")]
    handles += [Patch(facecolor=_LANES["change"], label="switch reconfigures")]
    handles += [Patch(**_WAITS, label="traffic waits for circuits")]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def _early_changes(ax: plt.Axes, lanes: pd.DataFrame, y: float, until_s: float) -> None:
    """Double arrows from a change of a rank's circuits to the traffic that asks for them, if far apart."""
    traffic = lanes[lanes["lane"] == "traffic"].sort_values("start_s")
    for row in lanes[lanes["lane"] == "change"].itertuples():
        after = traffic[traffic["start_s"] >= row.end_s - 1e-9]["asked_s"]
        if len(after) and 0.1 * until_s < after.iloc[0] - row.start_s and after.iloc[0] < until_s:
            arrow: dict = {"arrowstyle": "<|-|>", "color": "black", "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", (row.start_s, y), (after.iloc[0], y), arrowprops={**arrow, "mutation_scale": 8}, zorder=6)
            words = f"changes {units.show(after.iloc[0] - row.start_s, 's', 3)} before it is asked for"
            middle = (row.start_s + after.iloc[0]) / 2
            plotting.text_beside(ax, words, (middle, y), (0, 3), va="bottom", ha="center", fontsize=8)


def _rank_lanes(ax: plt.Axes, lanes: pd.DataFrame, y: float, until_s: float) -> None:
    """Lanes of one rank from y down: compute, traffic with its waiting, circuits of both ports with their changes."""
    _spans(ax, lanes[lanes["lane"] == "compute"], y, 0.38, _LANES["compute"])
    traffic = lanes[lanes["lane"] == "traffic"]
    waits: dict = {"edgecolors": _WAITS["edgecolor"], "hatch": _WAITS["hatch"], "linewidths": 0.5}
    waiting = traffic.assign(end_s=traffic["start_s"], start_s=traffic["asked_s"])
    waiting = waiting[waiting["end_s"] > waiting["start_s"] + 1e-9]
    _spans(ax, waiting, y + 1, 0.38, _WAITS["facecolor"], **waits)
    for what, rows in traffic.groupby("what"):
        _spans(ax, rows, y + 1, 0.38, _TRAFFIC[str(what)][1])
    for row in traffic.itertuples():
        _label(ax, row, CALLS[row.what], y + 1, until_s, color=ink_on(_TRAFFIC[row.what][1]))
    for side, shift in (("out circuit", -0.21), ("in circuit", 0.21)):
        up = lanes[lanes["lane"] == side]
        _spans(ax, up, y + 2 + shift, 0.18, _LANES["circuits"], edgecolors=GREY, linewidths=0.5)
        for row in up.itertuples():
            _label(ax, row, f"{'to' if side.startswith('out') else 'from'} {row.what}", y + 2 + shift, until_s)
    _spans(ax, lanes[lanes["lane"] == "change"], y + 2, 0.4, _LANES["change"])


def _spans(ax: plt.Axes, rows: pd.DataFrame, y: float, half: float, fill: str, **style) -> None:
    x = rows[["start_s", "end_s"]].to_numpy(float)
    corners = np.stack([x[:, [0, 1, 1, 0]], np.tile(y + half * np.array([-1, -1, 1, 1]), (len(x), 1))], axis=-1)
    ax.add_collection(PolyCollection(list(corners), facecolors=[fill], **{"linewidths": 0, **style}))


def _label(ax: plt.Axes, row, text: str, y: float, until_s: float, **style) -> None:
    """A text in the middle of a span, where it fits."""
    inches = ax.get_window_extent().width / ax.figure.dpi
    if (row.end_s - row.start_s) / until_s * inches * 72 > 0.62 * 8 * len(text):
        ax.text((row.start_s + row.end_s) / 2, y, text, ha="center", va="center", fontsize=8, **style)
