"""Reconfiguration of rails: iteration time against the switch's time, circuits over time, the control plane's part."""

from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from railcore.catalog import units
from suite import plotting
from suite.charts.rail_operations import OPERATIONS
from suite.colours import CIRCUIT_UP, ON_DEMAND
from suite.plotting import GREY, NETWORKS, ink_on, legend_below, panel_title, percent

_LANES = {"compute": plotting.PASSES["compute"], "circuits": CIRCUIT_UP, "change": "#333333"}
_WAITS: dict = {"facecolor": "white", "edgecolor": GREY, "hatch": "/////"}
WAYS = {"on demand": "without provisioning", "provisioned": "with provisioning"}  # in the document's words
_WAY_COLOURS = dict(zip(WAYS, (ON_DEMAND, NETWORKS["photonic"]), strict=True))  # both are photonic rails
_SHORT_S = 0.2  # end of the enlarged panel


def iteration_time_by_reconfiguration(
    data: pd.DataFrame,
    base_s: Mapping[str, float],
    marked_s: float,
    title: str,
    document: Mapping[str, Any],
) -> plt.Figure:
    """Iteration time against the switch's time, a panel for each source, the first enlarged beside it.

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
        By way to ask a mark (`claims.marks`) of the increase there, for the enlarged panel.

    Returns
    -------
    The figure.
    """
    figure, axes = plt.subplots(2, 2, figsize=(10, 8))
    figure.suptitle(title, fontsize=11)
    first, *others = data["source"].unique()
    panels = [(first, first), (first, f"{first}, up to {units.show(_SHORT_S, 's')}"), *zip(others, others, strict=True)]
    for letter, ax, (source, name) in zip(ascii_lowercase, axes.flat, panels, strict=False):
        part = data[data["source"] == source]
        near = part[part["reconfiguration_s"] <= _SHORT_S * 1.001] if letter == "b" else part
        _lines_of_ways(ax, near, base_s[source], marked_s, increases=letter != "b")
        ax.set(xlabel="reconfiguration of the switch [s]", ylabel="iteration time [s]")
        panel_title(ax, f"({letter}) {name}", left=True)
        if letter == "b":
            ax.margins(y=0.25)
            ax.locator_params(axis="x", nbins=5)
            _document_increases(ax, base_s[source], marked_s, document)
    ends = data["iteration_s"].min(), data["iteration_s"].max()
    for ax in (axes[0, 0], *axes[1]):
        ax.set_ylim(ends[0] - 0.05 * (ends[1] - ends[0]), ends[1] + 0.1 * (ends[1] - ends[0]))
    look: dict = {"color": NETWORKS["electrical rails"], "linestyle": ":", "linewidth": 1.6}
    axes[0, 0].plot([], [], **look, label="baseline: nothing reconfigures, no control plane")
    legend_below(figure, axes, 3)
    return figure


def overhead_by_reconfiguration(
    data: pd.DataFrame, marked_s: float, switches: Mapping[str, float], title: str
) -> plt.Figure:
    """How much longer an iteration is over the time of a change, a line for each network, with its share at one time.

    Parameters
    ----------
    data
        Columns network, reconfiguration_s (those of 0 are not drawn), overhead (share).
    marked_s
        Time of a change at which the shares are written [s].
    switches
        Times of circuit switches [s] by name: lines at the top, of those within the data's times.
    title
        Of the figure.

    Returns
    -------
    The figure.
    """
    data = data[data["reconfiguration_s"] > 0]
    first, last = data["reconfiguration_s"].min(), data["reconfiguration_s"].max()
    figure, ax = plt.subplots(figsize=(10, 4.6))
    figure.suptitle(title, fontsize=11)
    for i, (name, line) in enumerate(data.groupby("network", sort=False)):
        colour = (NETWORKS["photonic"], GREY)[i % 2]
        ax.plot(line["reconfiguration_s"], line["overhead"], color=colour, linewidth=2, label=name)
        words: dict = {"fontsize": 10, "ha": "right", "weight": "bold", "color": colour}
        for share in line.loc[np.isclose(line["reconfiguration_s"], marked_s, atol=0), "overhead"]:
            ax.plot(marked_s, share, "o", color=colour, zorder=3)
            text = f"{units.show(marked_s, 's')}: +{percent(share)}"
            plotting.text_beside(ax, text, (marked_s, share), (-8, 6), **words)
    ax.set(xlim=(first, last), ylim=(0, max(1.25 * data["overhead"].max(), 0.01)))
    plotting.log_axis(ax.xaxis, text=lambda s: units.show(s, "s"))
    for name, time_s in switches.items():
        if first < time_s < last:
            ax.axvline(time_s, color=GREY, linestyle=":", linewidth=1)
            top: dict = {"xycoords": ("data", "axes fraction"), "va": "top", "ha": "right", "rotation": 90}
            ax.annotate(name, (time_s, 0.98), (-2, 0), textcoords="offset points", fontsize=9, **top)
    ax.set_xlabel("time that a circuit switch takes to change; dotted: switches of Table 3")
    plotting.percent_axis(ax.yaxis, "longer iteration")
    legend_below(figure, ax, 1)
    return figure


def _lines_of_ways(ax: plt.Axes, part: pd.DataFrame, base: float, marked_s: float, increases: bool) -> None:
    """A line for each way to ask, or points where measured, over the dotted base.

    increases: whether those at `marked_s` are written.
    """
    for i, (way, line) in enumerate(part.groupby("requests", sort=False)):
        name = WAYS.get(str(way), str(way))
        style: dict = {"marker": "", "linestyle": ("--", "-")[i % 2]}
        if line["measured"].all():
            style, name = {"linestyle": "none"}, f"{name}, measured"
        ax.plot(
            line["reconfiguration_s"],
            line["iteration_s"],
            **(plotting.line_style(i, label=name, color=_WAY_COLOURS.get(str(way), GREY)) | style),
        )
        near = np.isclose(line["reconfiguration_s"], marked_s, atol=0)
        for row in line[near].itertuples() if increases else ():
            text = f"{WAYS.get(str(way), way)}, {units.show(marked_s, 's')}: +{percent(row.iteration_s / base - 1)}"
            place: dict = {"xycoords": "axes fraction", "fontsize": 9}
            ax.annotate(text, (0.03, 0.94 - 0.07 * i), **place)
    ax.axhline(base, color=NETWORKS["electrical rails"], linestyle=":", linewidth=1.6)


def _document_increases(ax: plt.Axes, base: float, marked_s: float, document: Mapping) -> None:
    """The document's increases at `marked_s` as marks, with its numbers and ours in words."""
    for way, mark in document.items():
        height, first = base * (1 + mark.value), way == next(iter(document))
        text = f"{WAYS.get(way, way)}:\ndocument +{percent(mark.value)}, ours +{percent(mark.ours)}"
        plotting.document_marks(
            ax, marked_s, height, mark.verdict, mark.relation, text=text, shift=((9, -8), (-9, 8))[first]
        )


def circuit_timelines(parts: Mapping[str, pd.DataFrame], until_s: float, title: str = "") -> plt.Figure:
    """Computes, traffic and circuits of ranks, a panel for each title; traffic waits for circuits where shaded.

    parts: by title, columns rank, lane, what, microbatch, asked_s, start_s, end_s as
    `circuit_lanes.rank_lanes` has them; until_s: end of the axis [s]. title: of the figure. On the first rank a double
    arrow leads from a change that starts before it is asked for to when it is.
    """
    ranks = sorted({rank for lanes in parts.values() for rank in lanes["rank"]})
    figure, axes = plt.subplots(
        len(parts), 1, figsize=(10, 1.3 + len(parts) * (0.6 + 0.95 * len(ranks))), squeeze=False, sharex=True
    )
    figure.suptitle(title)
    kinds: dict[str, str] = {}
    from_s = min([0.0, *(lanes["start_s"].min() for lanes in parts.values())])
    for letter, ax, (panel, lanes) in zip(ascii_lowercase, axes.flat, parts.items(), strict=False):
        shown = lanes[lanes["start_s"] < until_s].assign(end_s=lanes["end_s"].clip(upper=until_s))
        names = []
        for i, rank in enumerate(ranks):
            _rank_lanes(ax, shown[shown["rank"] == rank], 3.4 * i, until_s)
            names += [
                (3.4 * i + j, f"rank {rank}, {name}") for j, name in enumerate(("compute", "traffic", "circuits"))
            ]
        ax.set(xlim=(from_s, until_s), ylim=(3.4 * len(ranks) - 0.8, -0.6))
        ax.set_yticks(*zip(*names, strict=True))
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", visible=False)
        panel_title(ax, f"({letter}) {WAYS.get(panel, panel)}" if len(parts) > 1 else panel, left=True)
        seen = shown[(shown["lane"] == "traffic") & (shown["end_s"] - shown["start_s"] > until_s / 2000)]
        kinds |= {OPERATIONS[what].traffic: OPERATIONS[what].colour for what in seen["what"].unique()}
        if from_s < 0:
            ax.axvline(0, color=GREY, linewidth=1)
        _early_changes(ax, lanes, ranks, until_s)
        _second_send(ax, lanes[lanes["rank"] == ranks[0]], until_s)
    axes[-1, 0].set_xlabel("time from the start of the iteration [s]; before 0: the end of the one before")
    handles = [Patch(facecolor=_LANES["compute"], label="compute")]
    handles += [Patch(facecolor=colour, label=name) for name, colour in kinds.items()]
    handles += [Patch(facecolor=_LANES["circuits"], edgecolor=GREY, label="circuit is up: above to, below from a rank")]
    handles += [Patch(facecolor=_LANES["change"], label="switch reconfigures")]
    handles += [Patch(**_WAITS, label="traffic waits for circuits")]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def _early_changes(ax: plt.Axes, lanes: pd.DataFrame, ranks: Sequence[int], until_s: float) -> None:
    """Double arrows from a change of the first rank's circuits to the traffic that asks for them, if far apart.

    Where the change waits for another rank's traffic, a line leads there.
    """
    first, others = lanes[lanes["rank"] == ranks[0]], lanes[(lanes["rank"] != ranks[0]) & (lanes["lane"] == "traffic")]
    traffic = first[first["lane"] == "traffic"].sort_values("start_s")
    for row in first[first["lane"] == "change"].itertuples():
        after = traffic[traffic["start_s"] >= row.end_s - 1e-9]["asked_s"]
        if len(after) and 0.1 * until_s < after.iloc[0] - row.start_s and after.iloc[0] < until_s:
            arrow: dict = {"arrowstyle": "<|-|>", "color": "black", "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", (row.start_s, 1), (after.iloc[0], 1), arrowprops={**arrow, "mutation_scale": 8}, zorder=6)
            words = f"changes {units.show(after.iloc[0] - row.start_s, 's', 3)} before it is asked for"
            middle = (row.start_s + after.iloc[0]) / 2
            plotting.text_beside(ax, words, (middle, 1), (0, 3), va="bottom", ha="center", fontsize=8)
            for cause in others[abs(others["end_s"] - row.start_s) < 1e-6].iloc[:1].itertuples():
                y = 3.4 * ranks.index(cause.rank) + 1
                ax.plot([row.start_s] * 2, [1.6, y], color="black", linestyle=":", linewidth=1.2, zorder=5)
                call = f"rank {cause.rank}'s {OPERATIONS[cause.what].name}"
                words = f"can change when {call}\nhas ended: the circuit goes to its port"
                plotting.text_beside(ax, words, (row.start_s, 2), (-5, 0), ha="right", va="center", fontsize=8)


def _second_send(ax: plt.Axes, lanes: pd.DataFrame, until_s: float) -> None:
    """When a rank's second Send/Recv ends, in words over it."""
    sends = lanes[(lanes["what"] == "send_receive") & (lanes["start_s"] >= 0)].sort_values("end_s")
    for row in sends.iloc[1:2].itertuples():
        if row.end_s < until_s:
            words = f"second Send/Recv ends at {units.number(row.end_s, 3)} s"
            plotting.text_beside(ax, words, (row.asked_s, 0), (-3, 0), ha="right", va="center", fontsize=8)


def _rank_lanes(ax: plt.Axes, lanes: pd.DataFrame, y: float, until_s: float) -> None:
    """Lanes of one rank from y down: compute, traffic with its waiting, circuits of both ports with their changes."""
    _spans(ax, lanes[lanes["lane"] == "compute"], y, 0.38, _LANES["compute"])
    traffic = lanes[lanes["lane"] == "traffic"]
    waits: dict = {"edgecolors": _WAITS["edgecolor"], "hatch": _WAITS["hatch"], "linewidths": 0.5}
    waiting = traffic.assign(end_s=traffic["start_s"], start_s=traffic["asked_s"])
    waiting = waiting[waiting["end_s"] > waiting["start_s"] + 1e-9]
    _spans(ax, waiting, y + 1, 0.38, _WAITS["facecolor"], **waits)
    for what, rows in traffic.groupby("what"):
        _spans(ax, rows, y + 1, 0.38, OPERATIONS[str(what)].colour)
    for row in traffic.itertuples():
        called = OPERATIONS[row.what]
        _label(ax, row, called.name, y + 1, until_s, color=ink_on(called.colour))
    for side, shift in (("out circuit", -0.21), ("in circuit", 0.21)):
        up = lanes[lanes["lane"] == side]
        _spans(ax, up, y + 2 + shift, 0.18, _LANES["circuits"], edgecolors=GREY, linewidths=0.5)
        changes = lanes.loc[lanes["lane"] == "change", "start_s"]
        for row in up.itertuples():
            text = f"{'to' if side.startswith('out') else 'from'} {row.what}"
            following = min([*changes[changes > row.start_s], *up.loc[up["start_s"] > row.start_s, "start_s"], until_s])
            _label(ax, row, text, y + 2 + shift, until_s, room_s=following - row.end_s)
    _spans(ax, lanes[lanes["lane"] == "change"], y + 2, 0.4, _LANES["change"], edgecolors="white", linewidths=0.8)


def _spans(ax: plt.Axes, rows: pd.DataFrame, y: float, half: float, fill: str, **style) -> None:
    x = rows[["start_s", "end_s"]].to_numpy(float)
    corners = np.stack([x[:, [0, 1, 1, 0]], np.tile(y + half * np.array([-1, -1, 1, 1]), (len(x), 1))], axis=-1)
    ax.add_collection(PolyCollection(list(corners), facecolors=[fill], **{"linewidths": 0, **style}))


def _label(ax: plt.Axes, row, text: str, y: float, until_s: float, room_s: float = 0.0, **style) -> None:
    """A text in the middle of a span where it fits, else behind it where there is as much room [s]."""
    inches = ax.get_window_extent().width / ax.figure.dpi
    wide_s = 0.62 * 8 * len(text) / (inches * 72) * until_s
    if row.end_s - row.start_s > wide_s:
        ax.text((row.start_s + row.end_s) / 2, y, text, ha="center", va="center", fontsize=8, **style)
    elif room_s > 1.2 * wide_s:
        ax.text(row.end_s + 0.1 * wide_s, y, text, ha="left", va="center", fontsize=8, **style)
