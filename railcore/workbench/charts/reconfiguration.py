"""Reconfiguration of rails: iteration time against the switch's time, circuits over time, the control plane's part."""

from collections.abc import Mapping
from string import ascii_lowercase

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from railcore.facts import units
from railcore.workbench import plotting
from railcore.workbench.plotting import COLOURS, GREY, legend_below, log_axis, panel_title, percent, percent_axis

_LANES = {"compute": COLOURS[5], "traffic": COLOURS[4], "circuits": "#D9E9DF", "change": COLOURS[1]}
_WAITS = "#F6D7D2"
_BARS = (*COLOURS[:6], "#B9E0D3", "#F3B98C", "#9A9A9A")
_OPERATIONS = {"all_gather": "AllGather", "reduce_scatter": "ReduceScatter", "all_reduce": "AllReduce"}


def iteration_time_by_reconfiguration(
    data: pd.DataFrame, base_s: Mapping[str, float], marked_s: float = 0.0
) -> plt.Figure:
    """Iteration time against the switch's time, a panel for each source, a line for each way to ask.

    Parameters
    ----------
    data
        Columns source, requests, reconfiguration_s, iteration_s, measured (points, not lines).
    base_s
        Iteration time without reconfiguration by source [s], dashed.
    marked_s
        A switch's time at which the increase is written [s]; 0 for none.

    Returns
    -------
    The figure.
    """
    figure, parts = plotting.panels(data, "source", (4.3, 4.3), sharey=True)
    for letter, (source, part, ax) in zip(ascii_lowercase, parts, strict=False):
        base = base_s[source]
        for i, (way, line) in enumerate(part.groupby("requests", sort=False)):
            style = {"linestyle": "none"} if line["measured"].all() else {"marker": "", "linestyle": ("-", "--")[i % 2]}
            ax.plot(line["reconfiguration_s"], line["iteration_s"], **{**plotting.line_style(i, label=way), **style})
            at = line[np.isclose(line["reconfiguration_s"], marked_s)] if marked_s else line[:0]
            for row in at.itertuples():
                text = f"{way} at {units.show(marked_s, 's')}: +{percent(row.iteration_s / base - 1)}"
                place: dict = {"xycoords": "axes fraction", "fontsize": 8.5, "color": COLOURS[i]}
                ax.annotate(text, (0.03, 0.95 - 0.06 * i), **place)
        ax.axhline(base, color="black", linestyle=":", linewidth=1.2)
        ax.set(xlabel="reconfiguration of the switch [s]")
        panel_title(ax, f"({letter}) {source}", left=True)
    first = figure.axes[0]
    first.set_ylabel("iteration time [s]")
    first.set_ylim(bottom=0)
    first.plot([], [], color="black", linestyle=":", label="without reconfiguration")
    legend_below(figure, first)
    return figure


def circuit_timelines(parts: Mapping[str, pd.DataFrame], until_s: float) -> plt.Figure:
    """Computes, traffic and circuits of ranks, a panel for each title; traffic waits for circuits where shaded.

    parts: by title, columns rank, lane, what, microbatch, asked_s, start_s, end_s as
    `circuit_policies.rank_lanes` has them; until_s: end of the axis [s].
    """
    ranks = sorted({rank for lanes in parts.values() for rank in lanes["rank"]})
    figure, axes = plt.subplots(
        len(parts), 1, figsize=(11, 0.9 + len(parts) * (0.6 + 0.9 * len(ranks))), squeeze=False, sharex=True
    )
    for letter, ax, (title, lanes) in zip(ascii_lowercase, axes.flat, parts.items(), strict=False):
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
        panel_title(ax, f"({letter}) {title}", left=True)
    axes[-1, 0].set_xlabel("time from the start of the iteration [s]")
    handles = [Patch(facecolor=_LANES[name], label=name) for name in ("compute", "traffic")]
    handles += [Patch(facecolor=_LANES["circuits"], edgecolor=GREY, label="circuit up: out port over in port")]
    handles += [Patch(facecolor=_LANES["change"], label="switch reconfigures")]
    handles += [Patch(facecolor=_WAITS, label="traffic waits for circuits")]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=9)
    return figure


def _rank_lanes(ax: plt.Axes, lanes: pd.DataFrame, y: float, until_s: float) -> None:
    """Lanes of one rank from y down: compute, traffic with its waiting, circuits of both ports with their changes."""
    _spans(ax, lanes[lanes["lane"] == "compute"], y, 0.38, _LANES["compute"])
    traffic = lanes[lanes["lane"] == "traffic"]
    _spans(ax, traffic.assign(end_s=traffic["start_s"], start_s=traffic["asked_s"]), y + 1, 0.38, _WAITS)
    _spans(ax, traffic, y + 1, 0.38, _LANES["traffic"])
    for row in traffic.itertuples():
        _label(ax, row, _OPERATIONS.get(row.what, "Send/Recv"), y + 1, until_s)
    for side, shift in (("out circuit", -0.21), ("in circuit", 0.21)):
        up = lanes[lanes["lane"] == side]
        _spans(ax, up, y + 2 + shift, 0.18, _LANES["circuits"], edgecolors=GREY, linewidths=0.5)
        for row in up.itertuples():
            _label(ax, row, f"{'to' if side.startswith('out') else 'from'} {row.what}", y + 2 + shift, until_s, 7)
    _spans(ax, lanes[lanes["lane"] == "change"], y + 2, 0.4, _LANES["change"])


def _spans(ax: plt.Axes, rows: pd.DataFrame, y: float, half: float, fill: str, **style) -> None:
    x = rows[["start_s", "end_s"]].to_numpy(float)
    corners = np.stack([x[:, [0, 1, 1, 0]], np.tile(y + half * np.array([-1, -1, 1, 1]), (len(x), 1))], axis=-1)
    ax.add_collection(PolyCollection(list(corners), facecolors=[fill], **{"linewidths": 0, **style}))


def _label(ax: plt.Axes, row, text: str, y: float, until_s: float, size: float = 8) -> None:
    """A text in the middle of a span, where it fits."""
    inches = ax.get_figure().get_size_inches()[0] * 0.8
    if (row.end_s - row.start_s) / until_s * inches * 72 > 0.62 * size * len(text):
        ax.text((row.start_s + row.end_s) / 2, y, text, ha="center", va="center", fontsize=size)


def control_plane_bars(data: pd.DataFrame) -> plt.Figure:
    """What each step takes of a reconfiguration, a bar for each switch with the whole time behind it.

    Columns switch, step, time_s, share, as `control_plane.step_shares` has them.
    """
    names, steps = list(data["switch"].unique()), list(data["step"].unique())
    figure, ax = plt.subplots(figsize=(10, 1.4 + 0.42 * len(names)))
    left = np.zeros(len(names))
    for step, colour in zip(steps, _BARS, strict=False):
        shares = data[data["step"] == step].set_index("switch")["share"].reindex(names).to_numpy()
        ax.barh(names, shares, left=left, color=GREY if step == "switch" else colour, label=step, height=0.7)
        left += shares
    for i, name in enumerate(names):
        whole = data.loc[data["switch"] == name, "time_s"].sum()
        ax.text(1.01, i, units.show(whole, "s", 3), va="center", fontsize=9)
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.set_xlim(0, 1.1)
    ax.set_xticks(np.linspace(0, 1, 6))
    percent_axis(ax.xaxis, "share of the time from the last rank's call to usable circuits; that time on the right")
    legend_below(figure, ax, 4)
    return figure


def controller_load_by_size(data: pd.DataFrame, most: float = 1.0) -> plt.Figure:
    """(a) How busy a controller is and (b) how long the last request of a change waits, against cluster size.

    data: columns who (who asks), gpus, utilization, burst_s; most: share of the time at which it is full, dashed.
    """
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2))
    for ax, column, name in zip(
        axes,
        ("utilization", "burst_s"),
        ("share of the time that it is busy", "wait of the last request of a change [s]"),
        strict=True,
    ):
        plotting.plot_lines(data, "gpus", column, "who", ax)
        log_axis(plotting.gpu_axis(ax, sorted(data["gpus"].unique())).yaxis)
        ax.set_ylabel(name)
    percent_axis(axes[0].yaxis, "share of the time that the controller is busy")
    axes[0].axhline(most, color="black", linestyle="--", linewidth=1)
    panel_title(axes[0], "(a) load", left=True)
    panel_title(axes[1], "(b) all stages change at once", left=True)
    legend_below(figure, axes[0])
    return figure


def policy_costs(predictions: pd.DataFrame, granularity: pd.DataFrame, ports: pd.DataFrame) -> plt.Figure:
    """Iteration time over electrical rails against (a) wrong predictions, (b) and (c) the switch's time.

    predictions: columns wrong_predictions, added, least, most, on_demand (all over electrical rails); granularity:
    reconfiguration_s, overhead, line; ports: reconfiguration_s, overhead, way.
    """
    figure, axes = plt.subplots(1, 3, figsize=(14, 4.6))
    first = axes[0]
    first.fill_between(
        predictions["wrong_predictions"],
        predictions["least"],
        predictions["most"],
        color=COLOURS[0],
        alpha=0.2,
        linewidth=0,
    )
    first.plot(
        predictions["wrong_predictions"],
        predictions["added"],
        **plotting.line_style(0, label="provisioned, mean of seeds"),
    )
    first.axhline(predictions["on_demand"].mean(), color=COLOURS[1], linestyle="--", label="on demand")
    percent_axis(first.xaxis, "share of predictions that are wrong")
    plotting.plot_lines(granularity, "reconfiguration_s", "overhead", "line", axes[1])
    plotting.plot_lines(ports, "reconfiguration_s", "overhead", "way", axes[2], nested=True)
    titles = ("(a) wrong predictions", "(b) a group's ports, or the whole rail", "(c) ports of the NIC")
    for ax, title in zip(axes, titles, strict=True):
        panel_title(ax, title, left=True)
        percent_axis(ax.yaxis)
        ax.set_ylim(bottom=0)
        ax.legend(fontsize=8)
        ax.margins(y=0.35)
    for ax in axes[1:]:
        ax.set_xlabel("reconfiguration of the switch [s]")
    first.set_ylabel("iteration time over electrical rails")
    return figure


def spread_by_seed(data: pd.DataFrame) -> plt.Figure:
    """Iteration time over that of electrical rails of the same seed, a mark a seed, a panel for each jitter.

    Columns jitter, requests, reconfiguration_s, overhead.
    """
    figure, parts = plotting.panels(data, "jitter", (4.2, 4.0), least=8, sharey=True)
    for jitter, part, ax in parts:
        delays = sorted(part["reconfiguration_s"].unique())
        for i, (way, rows) in enumerate(part.groupby("requests", sort=False)):
            x = np.searchsorted(delays, rows["reconfiguration_s"]) + 0.16 * (2 * i - 1)
            ax.plot(x, rows["overhead"], **plotting.line_style(i, "none", label=way, alpha=0.6))
        ax.set_xticks(range(len(delays)), [units.show(delay, "s") for delay in delays])
        ax.set_xlabel("reconfiguration of the switch")
        panel_title(ax, f"compute times vary by {percent(jitter)}")
    percent_axis(figure.axes[0].yaxis, "iteration time over electrical rails")
    legend_below(figure, figure.axes[0])
    return figure
