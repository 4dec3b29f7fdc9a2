"""Lines over counts (GPUs, HB domain size, rails, sequences), speeds, loads and loss."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from string import ascii_lowercase
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap

from railcore.catalog import units
from railcore.catalog.colours import network_colour
from railcore.catalog.units import number
from suite import plotting
from suite.colours import VERDICTS
from suite.plotting import COLOURS, legend_below, log_axis, panel_title, percent_axis, plot_lines

_NETWORKS = {"scale-up": "a", "scale-out": "b", "wide area": "c"}
_EXPOSED_SHARE = "exposed share of the time"
_SPEED_NAMES = {"hb_Bps": "scale-up", "nic_Bps": "scale-out"}


def cost_and_power(
    data: pd.DataFrame,
    counts: Sequence[int],
    title: str,
    note: str,
    legend_columns: int = 3,
    document: Iterable[tuple[str, float, float, str, str]] = (),
    texts: Iterable[tuple[str, float, float, str]] = (),
    beyond: tuple[float, str] | None = None,
) -> plt.Figure:
    """Two panels over GPU counts, cost in M USD and peak power in MW, one line for each `link`.

    Parameters
    ----------
    data
        Columns link, gpus, cost_usd, power_w.
    counts
        GPUs, written out on the axis.
    title, note
        Of the figure; over the legend.
    legend_columns
        Of the legend.
    document
        Numbers of the document: column, GPUs, value, our verdict, and a text to write beside the mark.
    texts
        Of ours: column, GPUs, value, and what to write beside it.
    beyond
        GPUs from which the range is shaded, and what holds there, for the legend.

    Returns
    -------
    The figure.
    """
    figure, axes = plt.subplots(1, 2, figsize=(10, 5))
    columns = {"cost_usd": "cost [M USD]", "power_w": "peak power [MW]"}
    for ax, (column, label) in zip(axes, columns.items(), strict=True):
        plot_lines(data.assign(millions=data[column] / 1e6), "gpus", "millions", "link", ax, nested=True)
        log_axis(plotting.gpu_axis(ax, counts).yaxis)
        ax.set_ylabel(label)
    figure.suptitle(title)
    for letter, ax, (column, label) in zip("ab", axes, columns.items(), strict=True):
        plotting.panel_title(ax, f"({letter}) {label.partition(' [')[0]}", left=True)
        if beyond and beyond[0] < max(counts):
            ax.axvspan(beyond[0], max(counts) * 1.08, color="#E9E9E9", zorder=0, label=beyond[1])
            ax.set_xlim(right=max(counts) * 1.08)
        marks = [row for row in document if row[0] == column]
        for _, gpus, value, verdict, text in marks:  # beside the axes at their edge
            shift = (9, -5) if gpus == max(counts) else (4, -16)
            plotting.document_marks(ax, gpus, value / 1e6, verdict, text=text, shift=shift)
        written = [row for row in texts if row[0] == column]
        for _, gpus, value, text in written:
            shift, ha = ((8, -12), "right") if gpus == max(counts) else ((4, -6), "left")
            plotting.text_beside(ax, text, (gpus, value / 1e6), shift, ha=ha, va="top", fontsize=8.5)
        values = [row[2] for row in marks] + [row[2] for row in written]
        ax.set_ylim(bottom=min([ax.get_ylim()[0], *(value / 1.8e6 for value in values)]))
    legend_below(figure, figure.axes, legend_columns, title=note)
    return figure


_SHARES = {  # under an iteration time: its column, the axis' label and the panel's title
    "slowdown": ("longer than the ideal", "slowdown against the ideal"),
    "saving": ("iteration time saved", "gain of doubling the HB domain to this size"),
}


def iteration_time_by_domain_size(data: pd.DataFrame, share: str, title: str, marks: pd.DataFrame) -> plt.Figure:
    """Iteration time against HB domain size over a share of it, a column of panels for each model.

    Parameters
    ----------
    data
        Columns model, batch (a text), gpus, hb_domain_size, iteration_s, ideal_s and the share, a line for each `gpus`
        and its ideal dashed. Rows of one HB domain for all, and a share that is 0 or no number, are not drawn.
    share
        "slowdown" against the ideal, or "saving" by the doubling before.
    title
        Of the figure.
    marks
        The document's shares: columns model, hb_domain_size, share, verdict, text. No share: a size alone. Where they
        are of no named cluster, gpus of the one compared: a line for all of them, an arrow to that one.

    Returns
    -------
    The figure.
    """
    models = list(data["model"].unique())
    figure, axes = plt.subplots(2, len(models), figsize=(10, 6.4), squeeze=False, height_ratios=(0.75, 1))
    for column, model in enumerate(models):
        (top, bottom), rows = axes[:, column], data[data["model"] == model]
        smaller = rows[rows["hb_domain_size"] < rows["gpus"]]
        part = rows if smaller.empty else smaller
        sizes, colours = sorted(part["hb_domain_size"].unique()), {}
        for i, (gpus, rows) in enumerate(part.groupby("gpus")):
            style = plotting.line_style(i, label=f"{gpus:,} GPUs")
            colours[gpus] = style["color"]
            top.plot(rows["hb_domain_size"], rows["iteration_s"], **style)
            top.axhline(rows["ideal_s"].iloc[0], color=style["color"], linestyle="--", linewidth=1.2)
            drawn = rows[rows[share] > 0]
            bottom.plot(drawn["hb_domain_size"], drawn[share], **style)
        bottom.margins(y=0.18)
        for mark in marks[marks["model"] == model].itertuples():
            at_size = part[part["hb_domain_size"] == mark.hb_domain_size].set_index("gpus")[share]
            ours = {gpus: (value, colours[gpus]) for gpus, value in at_size.items()} if "gpus" in marks else {}
            _domain_size_mark(bottom, mark, sizes[0], ours)
        log_axis(bottom.yaxis, text=plotting.percent)
        if part["iteration_s"].max() > 5 * part["ideal_s"].min():
            log_axis(top.yaxis)
        else:
            top.set_ylim(0, None)
        panel_title(top, f"({ascii_lowercase[column]}) {model}, batch of {part['batch'].iloc[0]}")
        top.set_ylabel("iteration time [s]")
        panel_title(bottom, f"({ascii_lowercase[len(models) + column]}) {model}: {_SHARES[share][1]}")
        bottom.set_ylabel(_SHARES[share][0])
        for ax in (top, bottom):
            plotting.gpu_axis(ax, sizes)
            ax.set(xlabel="HB domain size [GPUs]", xlim=(0.8 * sizes[0], 1.3 * sizes[-1]))
    axes[0, 0].plot([], [], color="black", linestyle="--", label="ideal: one HB domain for all GPUs")
    figure.suptitle(title, fontsize=11)
    legend_below(figure, axes, 3)
    return figure


def _domain_size_mark(ax: plt.Axes, mark, first: float, ours: Mapping[int, tuple[float, str]]) -> None:
    """A number of the document over HB domain sizes, with its words.

    Parameters
    ----------
    ax, mark
        Where to draw; its row of `iteration_time_by_domain_size`.
    first
        HB domain size at the left end.
    ours
        By GPUs our share at the mark's size, and its colour, where the mark is of no named cluster; else none.

    Returns
    -------
    Nothing.
    """
    x, y, colour = mark.hb_domain_size, mark.share, VERDICTS[mark.verdict]
    if math.isnan(y):
        ax.axvline(x, 0.45, color=colour, linestyle=":", linewidth=1.5)
        place: dict = {"xycoords": ("data", "axes fraction"), "fontsize": 8.5}
        plotting.document_text(ax, mark.text, (x, 1), mark.verdict, (5, -2), **place)
        return
    if not ours:
        plotting.document_marks(ax, x, y, mark.verdict, text=mark.text, shift=(-6, -7), markersize=11)
        return
    aside = x / 2**0.4  # beside our points, so that the arrow to one of them is seen
    plotting.document_marks(ax, aside, y, mark.verdict, markersize=11)
    ax.axhline(y, color=colour, linestyle=(0, (4, 3)), linewidth=1)
    plotting.document_text(ax, mark.text, (first, y), mark.verdict, (-6, -4), ha="left", fontsize=8.5)
    if mark.gpus in ours:
        line: dict = {"arrowstyle": "->", "color": colour, "linewidth": 1.4, "shrinkA": 5, "shrinkB": 3}
        ax.annotate("", (x, ours[mark.gpus][0]), (aside, y), arrowprops=line, zorder=6)
    look: dict = {"fontsize": 8.5, "path_effects": plotting.HALO, "zorder": 7, "weight": "bold"}
    for share, colour in ours.values():
        side: dict = {"shift": (7, 4)} if share > y else {"shift": (-4, -14), "ha": "right"}
        plotting.text_beside(ax, plotting.percent(share, 2), (x, share), **side, color=colour, **look)


def slowdown_by_domain_size(data: pd.DataFrame, by: str, title: str, label: str = "{}") -> plt.Figure:
    """Slowdown over one HB domain for all against HB domain size, a panel for each `panel`, a line for each `by`.

    Parameters
    ----------
    data, by
        Columns panel, hb_domain_size, slowdown and `by`.
    title
        Model, cluster and links.
    label
        Text of a line in the legend, around its value of `by`.

    Returns
    -------
    The figure.
    """
    figure, parts = plotting.panels(data, "panel", (3.3, 4.6), sharey=True)
    for panel, part, ax in parts:
        plot_lines(part, "hb_domain_size", "slowdown", by, ax, sorted(data[by].unique()), label)
        log_axis(ax.xaxis, sorted(data["hb_domain_size"].unique()), 2, rotation=45)
        ax.set(title=panel, xlabel="HB domain size [GPUs]")
    figure.suptitle(title)
    percent_axis(figure.axes[0].yaxis, "slowdown against one HB domain for all")
    legend_below(figure, figure.axes[0])
    return figure


def excess_by_domain_size(data: pd.DataFrame, near: float, title: str) -> plt.Figure:
    """How much longer an iteration takes than in one HB domain for all GPUs, a panel for each model.

    data: columns model, gpus (a line each), hb_domain_size, slowdown; one HB domain for all, and 0, are not drawn.
    near: share, a line.
    """
    figure, axes = plt.subplots(1, data["model"].nunique(), figsize=(10, 4.6), squeeze=False, sharey=True)
    for letter, ax, (model, rows) in zip(ascii_lowercase, axes.flat, data.groupby("model", sort=False), strict=False):
        rows = rows[rows["hb_domain_size"] < rows["gpus"]]
        for i, (gpus, line) in enumerate(rows[rows["slowdown"] > 0].groupby("gpus")):
            ax.plot(line["hb_domain_size"], line["slowdown"], **plotting.line_style(i, label=f"{gpus:,} GPUs"))
        ax.axhline(near, color="black", linestyle="--", linewidth=1.2, label=f"{plotting.percent(near)} longer")
        panel_title(ax, f"({letter}) {model}")
        plotting.gpu_axis(ax, sorted(rows["hb_domain_size"].unique()))
        ax.set_xlabel("HB domain size [GPUs]")
    log_axis(axes[0, 0].yaxis, text=plotting.percent)
    axes[0, 0].set_ylabel("longer iteration than in one HB domain")
    figure.suptitle(title, fontsize=11)
    legend_below(figure, axes[0, 0], 4)
    return figure


def iteration_time_by_batch(data: pd.DataFrame, title: str, marks: pd.DataFrame) -> plt.Figure:
    """(a) Iteration time and (b) performance relative to the ideal against batch, a line for each HB domain size.

    Where another size of the model-parallel groups begins, the lines bend: a vertical line with both sizes says so.

    Parameters
    ----------
    data
        Columns hb_domain_size, batch_sequences, batch_tokens, group_size, iteration_s, ideal_s, relative.
    title
        Of the figure.
    marks
        The document's performance relative to the ideal: columns batch_sequences, relative, verdict, text.

    Returns
    -------
    The figure.
    """
    figure, axes = plt.subplots(1, 2, figsize=(10, 5.2))
    sizes = list(data["hb_domain_size"].unique())
    ideal = data[data["hb_domain_size"] == sizes[0]]
    for ax, column in zip(axes, ("iteration_s", "relative"), strict=True):
        plot_lines(data, "batch_sequences", column, "hb_domain_size", ax, sizes, "HB domains of {} GPUs")
        ax.set_xticks(ideal["batch_sequences"], [number(count) for count in ideal["batch_sequences"]])
        if data.groupby("batch_sequences")["group_size"].nunique().max() == 1:
            ax.margins(x=0.09)
            _group_sizes(ideal, ax)
    axes[0].plot(
        ideal["batch_sequences"], ideal["ideal_s"], color="black", linestyle=":", label="ideal: one HB domain for all"
    )
    for mark in marks.itertuples():
        place = mark.batch_sequences, mark.relative
        plotting.document_marks(axes[1], *place, mark.verdict, markersize=11)
        side, ha = (-10, "left") if mark.batch_sequences == ideal["batch_sequences"].min() else (10, "right")
        plotting.document_text(axes[1], mark.text, place, mark.verdict, (side, -9), ha=ha)
    tokens = data["batch_tokens"].iloc[0] / data["batch_sequences"].iloc[0]
    for ax in axes:
        ax.set_xlabel(f"batch [sequences of {number(tokens)} tokens]")
    axes[0].set(ylabel="iteration time [s]", ylim=(0, None))
    axes[1].set_ylim(0, 1)
    percent_axis(axes[1].yaxis, "ideal iteration time over iteration time")
    panel_title(axes[0], "(a) iteration time")
    panel_title(axes[1], "(b) performance relative to the ideal")
    figure.suptitle(title, fontsize=11)
    legend_below(figure, axes, 3)
    return figure


def _group_sizes(data: pd.DataFrame, ax: plt.Axes) -> None:
    """Sizes of model-parallel groups N_M at the foot of the axes, a vertical line where they change."""
    runs = [run for _, run in data.groupby((data["group_size"].diff().fillna(0) != 0).cumsum())]
    for before, after in pairwise(runs):
        change = (before["batch_sequences"].iloc[-1] + after["batch_sequences"].iloc[0]) / 2
        ax.axvline(change, color=plotting.GREY, linestyle=(0, (2, 2)), linewidth=1)
    for run in runs if len(runs) > 1 else []:
        wide = len(run) > 1
        words = f"{'model-parallel ' * wide}groups\nof {number(run['group_size'].iloc[0], 3)}{' GPUs' * wide}"
        place: dict = {"xycoords": ("data", "axes fraction"), "ha": "center", "va": "bottom", "fontsize": 8}
        ax.annotate(words, (run["batch_sequences"].mean(), 0.02), **place)


def expert_iteration_times(data: pd.DataFrame, title: str) -> plt.Figure:
    """(a) iteration time and (b) its slowdown over rail-optimized, over the HB domain size, a line for each network.

    data: columns hb_domain_size, way, oversubscription, iteration_s, slowdown. title: model, cluster and links.
    """
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.8))
    figure.suptitle(title)
    ratios = sorted({ratio for ratio in data["oversubscription"] if math.isfinite(ratio)})
    for ax, column in zip(axes, ("iteration_s", "slowdown"), strict=True):
        for i, ((way, ratio), part) in enumerate(data.groupby(["way", "oversubscription"], sort=False)):
            label = f"{way}, leaves {number(ratio)}:1" if ratio in ratios else way
            pale = 0.7 * ratios.index(ratio) / len(ratios) if ratio in ratios else 0.5 * ("at once" in way)
            colour = plotting.paler(network_colour(label), pale)
            style = plotting.line_style(i, "-" if ratio in ratios else "--", markersize=6, label=label, color=colour)
            ax.plot(part["hb_domain_size"], part[column], **style)
        log_axis(ax.xaxis, sorted(data["hb_domain_size"].unique()), 2)
        ax.set_xlabel(units.label("hb_domain_size"))
    axes[0].set(ylabel="iteration time [s]", ylim=(0, None))
    panel_title(axes[0], "(a) iteration time")
    panel_title(axes[1], "(b) against a rail-optimized network")
    percent_axis(axes[1].yaxis, "longer iteration")
    legend_below(figure, axes[0], 3)
    return figure


def exposed_share_by_speed(
    data: pd.DataFrame,
    title: str,
    speeds: Mapping[str, Sequence[float]],
    printed: pd.DataFrame | None = None,
    hidden: tuple[float, str, str] | None = None,
    note: str = "",
) -> plt.Figure:
    """Exposed share against the speed of each network, a panel for each, a line for each model and case.

    Parameters
    ----------
    data
        Columns network, speed_Bps, model, case, share.
    title
        Of all panels.
    speeds
        Of each network, that have a tick [bytes/s].
    printed
        Marks: columns network, speed_Bps, model, share, relation, verdict, text, over (whether ours is above).
    hidden
        Wide-area speed that a document finds enough [bytes/s], our verdict, and text.
    note
        Below the panels.

    Returns
    -------
    The figure.
    """
    figure, axes = plt.subplots(1, 3, figsize=(10, 5), sharey=True)
    figure.suptitle(title, fontsize=11)
    for ax, (network, letter) in zip(axes, _NETWORKS.items(), strict=True):
        part = data[data["network"] == network]
        for i, model in enumerate(data["model"].unique()):
            for case, style in zip(data["case"].unique(), ("-", ":"), strict=False):
                rows = part[(part["model"] == model) & (part["case"] == case)]
                name = plotting.model_name(model) + (", wide area with tail loss of 1 RTT" if style == ":" else "")
                if len(rows):
                    ax.plot(rows["speed_Bps"] / units.Gbps, rows["share"], style, color=COLOURS[i], label=name, lw=2)
        for row in () if printed is None else printed[printed["network"] == network].itertuples():
            _printed_share(ax, row)
        least, most = part["speed_Bps"].min() / units.Gbps, part["speed_Bps"].max() / units.Gbps
        log_axis(ax.xaxis, _ticks([speed / units.Gbps for speed in speeds[network]], least, most))
        ax.tick_params(axis="x", labelsize=9)
        ax.set(ylim=(-0.08, 1), xlabel=f"{network.replace(' ', '-')} speed of a GPU [Gbps]")
        panel_title(ax, f"({letter}) {network}", left=True)
    if hidden:
        speed_Bps, verdict, text = hidden
        axes[2].axvline(speed_Bps / units.Gbps, linestyle="--", linewidth=1.2, color=VERDICTS[verdict])
        place = (speed_Bps / units.Gbps, 0.98)
        plotting.document_text(axes[2], text, place, verdict, (4, 0), va="top", fontsize=8.5)
    percent_axis(axes[0].yaxis, _EXPOSED_SHARE)
    named: dict = {}
    for ax in axes[::-1]:
        named |= dict(zip(*reversed(ax.get_legend_handles_labels()), strict=True))
    named = dict(sorted(named.items(), key=lambda item: item[0].startswith("document")))
    look: dict = {"ncols": 3, "fontsize": 9, "title": note, "title_fontsize": 9}
    figure.legend(named.values(), named.keys(), loc="outside lower center", **look)
    return figure


def _printed_share(ax: plt.Axes, row: Any) -> None:
    """A document's share at a speed: its mark, and the number on the side where our line is not."""
    below = (row.over or row.share < 0.1) and row.relation != "<"  # near the axis there is room below
    at, shift = (row.speed_Bps / units.Gbps, row.share), (-7, -1) if below else (7, 2)
    plotting.document_marks(ax, *at, row.verdict, row.relation, text=row.text, shift=shift)


def _ticks(wanted: Iterable[float], least: float, most: float) -> list[float]:
    """Ticks of a logarithmic axis: those wanted, and digits 1, 2, 5 that are far enough from all others."""
    ticks = [value for value in wanted if least <= value <= most]
    for value in [digit * 10.0**power for power in range(-3, 7) for digit in (1, 2, 5)]:
        apart = (abs(math.log(value / tick)) for tick in ticks)
        if least <= value <= most and min(apart, default=math.inf) > 0.13 * math.log(most / least):
            ticks.append(value)
    return sorted(ticks)


def shares_by_micro_batches(data: pd.DataFrame) -> plt.Figure:
    """Exposed and idle share against micro-batches of an iteration, a panel for each model; tokens under the ticks.

    Columns model, micro_batches, tokens, exposed, idle, steady_share.
    """
    figure, parts = plotting.panels(data, "model", (10 / data["model"].nunique(), 5), sharey=True)
    figure.set_layout_engine("constrained", wspace=0.08)  # or the first tick of a panel meets the one before
    for letter, (model, part, ax) in zip(ascii_lowercase, parts, strict=False):
        x, computes = part["micro_batches"], 1 - part["idle"] - part["exposed"]
        ax.fill_between(x, 1 - part["idle"], 1, color="#D9D9D9", label="idle: fill and drain")
        ax.fill_between(x, computes, 1 - part["idle"], color=COLOURS[1], label="exposed communication")
        ax.fill_between(x, 0, computes, color=COLOURS[5], alpha=0.5, label="computing")
        steady = "computing in the steady state, an exchange each micro-batch"
        ax.plot(x, 1 - part["steady_share"], "k--", label=steady)
        marked = part.iloc[:: max(1, round(len(part) / 7))].set_index("micro_batches")["tokens"]
        log_axis(ax.xaxis, marked.index, text=lambda count, at=marked: f"{count:,}\n{number(at[count] / 1e9, 2)}")
        ax.set(ylim=(0, 1), xlim=(x.min(), x.max()), xlabel="micro-batches of an iteration, batch [billion tokens]")
        panel_title(ax, f"({letter}) {plotting.model_name(model)}", left=True)
    percent_axis(figure.axes[0].yaxis, "share of the time")
    legend_below(figure, figure.axes[0], 2)
    return figure


def expert_placements(data: pd.DataFrame, at: Mapping[str, float]) -> plt.Figure:
    """Exposed share of every placement of experts against each speed, and the best one over both.

    Columns hb_Bps, nic_Bps, placement, share, best. at: hb_Bps and nic_Bps that the first two panels hold [bytes/s],
    values of the grid.
    """
    names = list(data["placement"].unique())
    figure = plt.figure(figsize=(10, 7.5))
    grid = figure.add_gridspec(2, 2, width_ratios=(1, 1.1))
    left, middle, right = (figure.add_subplot(place) for place in (grid[0, 0], grid[1, 0], grid[:, 1]))
    for letter, ax, x, held in (("a", left, "nic_Bps", "hb_Bps"), ("b", middle, "hb_Bps", "nic_Bps")):
        part = data[data[held] == at[held]]
        plot_lines(part.assign(speed=part[x] / units.Gbps), "speed", "share", "placement", ax, names)
        log_axis(ax.xaxis)
        ax.set(ylim=(0, 1), xlabel=f"{_SPEED_NAMES[x]} speed of a GPU [Gbps]")
        panel_title(ax, f"({letter}) {_SPEED_NAMES[held]} at {units.show(at[held], 'bps', 3)}", left=True)
        percent_axis(ax.yaxis, _EXPOSED_SHARE)
    best = data[data["best"]].drop_duplicates(["hb_Bps", "nic_Bps"])
    best = best.assign(which=best["placement"].map(names.index))
    which = best.pivot(index="hb_Bps", columns="nic_Bps", values="which")
    colours = ListedColormap([COLOURS[i % len(COLOURS)] for i in range(len(names))])
    levels: dict = {"vmin": -0.5, "vmax": len(names) - 0.5, "shading": "nearest", "rasterized": True}
    right.pcolormesh(which.columns / units.Gbps, which.index / units.Gbps, which, cmap=colours, **levels)
    for axis in (right.xaxis, right.yaxis):
        log_axis(axis)
    for i in sorted(set(best["which"])):
        wide = (which == i).sum(axis=1).to_numpy()
        y = int(np.median(np.flatnonzero(wide == wide.max())))  # a row with most of this placement
        across = which.columns[(which == i).iloc[y]]
        place = (across[len(across) // 2] / units.Gbps, which.index[y] / units.Gbps)
        ink, name = plotting.ink_on(COLOURS[i % len(COLOURS)]), names[i].replace(", ", ",\n")
        plotting.text_beside(right, name, place, (0, 9), ha="center", color=ink)  # above the star
    right.set(xlabel="scale-out speed of a GPU [Gbps]", ylabel="scale-up speed of a GPU [Gbps]")
    panel_title(right, "(c) least exposed placement; star: the speeds of (a) and (b)", left=True)
    here = (at["nic_Bps"] / units.Gbps, at["hb_Bps"] / units.Gbps)
    right.plot(*here, "*", color="white", markeredgecolor="black", markersize=14)
    title = "where the experts of a layer are (t: GPUs of a tensor group, b: sequences of a micro-batch if not one)"
    legend_below(figure, left, 4, title=title)
    return figure
