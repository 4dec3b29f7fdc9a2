"""Lines over speeds, loads and loss: what is exposed, one flow, waits behind other traffic."""

import math
from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from railcore.facts import units
from railcore.facts.units import number
from railcore.workbench.plotting import (
    COLOURS,
    entitle,
    legend_below,
    lines,
    log_axis,
    model_name,
    panels,
    percent_axis,
)

PANELS = {"scale-up": "a", "scale-out": "b", "wide area": "c"}
PRINTED = {"=": ("o", "equal or about"), "~": ("o", "equal or about"), "<": ("v", "less than"), ">": ("^", "more than")}
HOLLOW: dict = {"markerfacecolor": "white", "markeredgewidth": 1.6, "markersize": 7, "zorder": 4}
SHARE = "exposed share of the time"
SPEEDS = {"hb_Bps": "scale-up", "nic_Bps": "scale-out"}
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")  # drawn more quickly than TeX exponents


def exposed_share_by_speed(data: pd.DataFrame, printed: pd.DataFrame) -> Figure:
    """Exposed share against the speed of each network, a panel for each, a line for each model and case.

    Columns of data: network, speed_Bps, model, case, share; of printed, points of the document: network, speed_Bps,
    model, share, relation (one of = < >).
    """
    figure, axes = plt.subplots(1, 3, figsize=(12, 4.4), sharey=True)
    for ax, (network, letter) in zip(axes, PANELS.items(), strict=True):
        part = data[data["network"] == network]
        for i, model in enumerate(data["model"].unique()):
            for case, style in zip(data["case"].unique(), ("-", ":"), strict=False):
                rows = part[(part["model"] == model) & (part["case"] == case)]
                name = model_name(f"{model}, {case}" if part["case"].nunique() > 1 else model)
                if len(rows):
                    ax.plot(rows["speed_Bps"] / units.Gbps, rows["share"], style, color=COLOURS[i], label=name, lw=2)
            for row in printed[(printed["network"] == network) & (printed["model"] == model)].itertuples():
                mark = {"marker": PRINTED[row.relation][0], "markeredgecolor": COLOURS[i], **HOLLOW}
                ax.plot(row.speed_Bps / units.Gbps, row.share, **mark)
        log_axis(ax.xaxis)
        ax.set(ylim=(0, 1), xlabel=f"{network.replace(' ', '-')} speed of a GPU [Gbps]")
        entitle(ax, f"({letter}) {network}", left=True)
        ax.legend(fontsize=9)
    axes[0].set_ylabel(SHARE)
    percent_axis(axes[0].yaxis)
    marks = dict(PRINTED[relation] for relation in sorted(set(printed["relation"])))
    black: dict = {"linestyle": "", "color": "black", **HOLLOW}
    handles = [plt.Line2D([], [], marker=mark, label=words, **black) for mark, words in marks.items()]
    title = "printed in the document for its own models and machine, in the colour of the model"
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=9, title=title)
    return figure


def shares_by_micro_batches(data: pd.DataFrame) -> Figure:
    """Exposed and idle share against micro-batches of an iteration, a panel for each model; tokens under the ticks.

    Columns model, micro_batches, tokens, exposed, idle, steady_share.
    """
    figure, parts = panels(data, "model", (10.5 / data["model"].nunique(), 4.6), sharey=True)
    figure.set_layout_engine("constrained", wspace=0.08)  # or the first tick of a panel meets the one before
    for model, part, ax in parts:
        x, busy = part["micro_batches"], part["idle"] + part["exposed"]
        ax.fill_between(x, busy, 1, color=COLOURS[5], alpha=0.5, label="computing")
        ax.fill_between(x, part["idle"], busy, color=COLOURS[1], label="exposed communication")
        ax.fill_between(x, 0, part["idle"], color="#D9D9D9", label="idle: fill and drain")
        steady = "steady state, an exchange each micro-batch: above it exposed"
        ax.plot(x, 1 - part["steady_share"], "k--", label=steady)
        marked = part.iloc[:: max(1, round(len(part) / 7))].set_index("micro_batches")["tokens"]
        log_axis(ax.xaxis, marked.index, text=lambda count, at=marked: f"{count:,}\n{number(at[count] / 1e9, 2)}")
        ax.set(ylim=(0, 1), xlim=(x.min(), x.max()), xlabel="micro-batches of an iteration, batch [billion tokens]")
        entitle(ax, model_name(model), left=True)
    figure.axes[0].set_ylabel("share of the time")
    percent_axis(figure.axes[0].yaxis)
    legend_below(figure, figure.axes[0], 2)
    return figure


def expert_placements(data: pd.DataFrame, at: Mapping[str, float]) -> Figure:
    """Exposed share of every placement of experts against each speed, and the best one over both.

    Columns hb_Bps, nic_Bps, placement, share, best. at: hb_Bps and nic_Bps that the first two panels hold [bytes/s],
    values of the grid.
    """
    names = list(data["placement"].unique())
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(13, 4.8))
    for ax, x, held in ((left, "nic_Bps", "hb_Bps"), (middle, "hb_Bps", "nic_Bps")):
        part = data[data[held] == at[held]]
        lines(part.assign(speed=part[x] / units.Gbps), "speed", "share", "placement", ax, names)
        log_axis(ax.xaxis)
        ax.set(ylim=(0, 1), xlabel=f"{SPEEDS[x]} speed of a GPU [Gbps]", ylabel=SHARE)
        entitle(ax, f"{SPEEDS[held]} at {units.show(at[held], 'bps', 3)}", left=True)
        percent_axis(ax.yaxis)
    best = data[data["best"]].drop_duplicates(["hb_Bps", "nic_Bps"])
    best = best.assign(which=best["placement"].map(names.index))
    grid = best.pivot(index="hb_Bps", columns="nic_Bps", values="which")
    colours = ListedColormap([COLOURS[i % len(COLOURS)] for i in range(len(names))])
    levels = {"vmin": -0.5, "vmax": len(names) - 0.5, "shading": "nearest", "rasterized": True}
    right.pcolormesh(grid.columns / units.Gbps, grid.index / units.Gbps, grid, cmap=colours, **levels)
    for axis in (right.xaxis, right.yaxis):
        log_axis(axis)
    right.set(xlabel="scale-out speed of a GPU [Gbps]", ylabel="scale-up speed of a GPU [Gbps]")
    entitle(right, "least exposed placement", left=True)
    here = (at["nic_Bps"] / units.Gbps, at["hb_Bps"] / units.Gbps)
    right.plot(*here, "*", color="white", markeredgecolor="black", markersize=14)
    right.annotate("here", here, xytext=(9, -3), textcoords="offset points")
    title = "where the experts of a layer are (t: GPUs of a tensor group, b: sequences of a micro-batch if not one)"
    legend_below(figure, left, 4, title=title)
    return figure


def flow_throughput_by_loss(data: pd.DataFrame, needs: Mapping[str, float], ax: Axes) -> Axes:
    """Throughput of one flow against loss, a line for each path and law; what is needed as levels [bytes/s].

    Columns path, law, loss, bit_error_rate, throughput_Bps. The upper axis has the bit error rate without correction.
    A colour is a path; laws are drawn one over the other, from broad and pale to narrow.
    """
    laws = list(data["law"].unique())
    for i, (path, rows) in enumerate(data.groupby("path", sort=False)):
        for law, part in rows.groupby("law", sort=False):
            width: dict = {"linewidth": 1.4} if law == laws[-1] else {"linewidth": 4.5, "alpha": 0.35}
            gbps = part["throughput_Bps"] / units.Gbps
            ax.plot(part["loss"], gbps, color=COLOURS[i], label=f"{law}, {path}", **width)
    ax.set(xscale="log", yscale="log", xlabel="packet loss", ylabel="throughput of one flow [Gbps]")
    for name, rate in needs.items():
        level = rate / units.Gbps
        ax.axhline(level, color="black", linewidth=0.8)
        place: dict = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center"}
        ax.annotate(f"needed, {name}:\n{number(level, 3)} Gbps", (1, level), xytext=(4, 0), fontsize=8, **place)
    ax.set_xlim(data["loss"].min(), data["loss"].max())
    log_axis(ax.yaxis)
    ratio = (data["bit_error_rate"] / data["loss"]).min()
    above = ax.secondary_xaxis("top", functions=(lambda p: p * ratio, lambda b: b / ratio))
    for each in (ax, above):
        each.minorticks_off()
        each.xaxis.set_major_formatter(lambda value, _: "10" + f"{math.log10(value):.0f}".translate(RAISED))
    above.set_xlabel("bit error rate without error correction")
    ax.legend(loc="lower left")
    return ax


def packet_waits(data: pd.DataFrame, ax: Axes) -> Axes:
    """Mean wait of gradients against the load of other traffic, a line for each queue.

    Columns other_load, queue, wait_s, infinite beyond the load that a queue can carry, which a dashed line marks.
    """
    finite = data[data["wait_s"] < math.inf]
    lines(finite.assign(nanoseconds=finite["wait_s"] / units.ns), "other_load", "nanoseconds", "queue", ax)
    ax.set(xlabel="load of other traffic, share of the link", ylabel="mean wait of a gradient packet [ns]")
    for full in data[data["wait_s"] == math.inf].groupby("queue")["other_load"].min():
        ax.axvline(full, color="black", linestyle=(0, (2, 2)), linewidth=0.9, label="link full with the gradients")
    log_axis(ax.yaxis)
    ax.legend(loc="upper left")
    return ax


def wide_area_flow_and_waits(flow: pd.DataFrame, needs: Mapping[str, float], queue: pd.DataFrame) -> Figure:
    """`flow_throughput_by_loss` and `packet_waits` side by side."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6))
    flow_throughput_by_loss(flow, needs, left)
    packet_waits(queue, right)
    left.set_title("(a) one flow over one path", fontsize=10, pad=8)
    entitle(right, "(b) gradients beside other traffic")
    return figure
