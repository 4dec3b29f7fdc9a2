"""Bars around a value or side by side: tornados, slowdowns, errors of a model, ranges."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from railcore.facts import units
from railcore.workbench.plotting import (
    COLOURS,
    MARKERS,
    entitle,
    log_axis,
    model_name,
    percent,
    percent_axis,
)

LOW, HIGH = COLOURS[0], COLOURS[4]  # of a tornado's ends
ROUTINGS = {"two-hop": COLOURS[0], "hierarchical": COLOURS[1]}
HATCHES = {"in turn": "", "pipelined": "////"}
MOST_INPUTS = 10  # of a tornado
MOST_SHARE = 1.5  # of a capacity, on the axis
REPORTED, CLEANED, PRINTED = COLOURS[5], COLOURS[0], COLOURS[1]


def tornado_chart(data: pd.DataFrame, ax: Axes, label: str) -> Axes:
    """Bars from `at_low` to `at_high` around `centre`, the widest on top.

    Columns input, low, high (texts at the ends of the bars), at_low, at_high, centre.
    """
    data = data.assign(width=(data["at_high"] - data["at_low"]).abs()).sort_values("width", kind="stable")
    for i, row in enumerate(data.itertuples()):
        both = ((row.at_low, row.low, LOW), (row.at_high, row.high, HIGH))
        one_side = (row.at_low - row.centre) * (row.at_high - row.centre) > 0
        for shorter, (value, text, colour) in enumerate(sorted(both, key=lambda end: -abs(end[0] - row.centre))):
            ax.barh(i, value - row.centre, left=row.centre, color=colour, height=0.6)
            rightward = value > row.centre or (value == row.centre and colour == HIGH)
            if one_side and shorter:  # its text would be lost in the longer bar
                value, rightward = row.centre, not rightward
            _beside(ax, value, i, text, rightward, fontsize=7)
    ends = [Patch(color=LOW, label="at its low"), Patch(color=HIGH, label="at its high")]
    ax.legend(handles=ends, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0.2)
    ax.axvline(data["centre"].iloc[0], color="black", linewidth=0.8)
    ax.set_yticks(range(len(data)), data["input"])
    ax.set_xlabel(label)
    ax.grid(axis="y", visible=False)
    ax.margins(x=0.18)
    return ax


def _beside(ax: Axes, x: float, y: float, text: str, rightward: bool = True, **style) -> None:
    """A text beside the end of a bar, to its right or left."""
    shift, side = (3, "left") if rightward else (-3, "right")
    ax.annotate(text, (x, y), (shift, 0), textcoords="offset points", va="center", ha=side, **style)


def tornado_charts(data: pd.DataFrame) -> Figure:
    """A tornado for each model, its most important inputs; columns model and those of `tornado_chart`, swing."""
    models = list(data["model"].unique())
    figure, axes = plt.subplots(len(models), 1, figsize=(10, 0.5 + 3.3 * len(models)), squeeze=False)
    for ax, model in zip(axes.flat, models, strict=True):
        part = data[(data["model"] == model) & (data["swing"] > 1e-4)].nlargest(MOST_INPUTS, "swing")
        for end in ("low", "high"):  # an end that changes nothing goes into the name
            still = (part[f"at_{end}"] - part["centre"]).abs() < 1e-9
            part.loc[still, "input"] += " (" + part.loc[still, end] + ": no change)"
            part.loc[still, end] = ""
        tornado_chart(part, ax, "exposed share of the time")
        percent_axis(ax.xaxis)
        entitle(ax, model_name(model), left=True)
    return figure


def routing_slowdowns(data: pd.DataFrame, title: str = "") -> Figure:
    """A panel for each load: bars of each routing, in turn and pipelined, over platforms; a dash is B_NIC / B_HB.

    Columns load, platform, routing, phases, slowdown, bandwidth_ratio.
    """
    loads = list(data["load"].unique())
    columns = min(len(loads), 2)
    rows = -(-len(loads) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(10, 3.1 * rows), squeeze=False, sharex=True)
    for ax, load in zip(axes.flat, loads, strict=False):
        panel = data[data["load"] == load]
        places = {name: i for i, name in enumerate(panel["platform"].unique())}
        cases = list(panel.groupby(["phases", "routing"], sort=False))
        for i, ((phases, routing), part) in enumerate(cases):
            at = [places[name] + (i - (len(cases) - 1) / 2) * 0.19 for name in part["platform"]]
            style: dict = {"color": ROUTINGS[routing], "hatch": HATCHES[phases], "edgecolor": "white"}
            ax.bar(at, part["slowdown"], 0.18, label=f"{routing}, {phases}", **style)
            for x in np.compress(part["slowdown"].abs() < 1e-9, at):  # or the bar would seem to be forgotten
                ax.annotate("0", (x, 0), (0, 2), textcoords="offset points", ha="center", fontsize=8)
        ratios = panel.drop_duplicates("platform")
        middles = ratios["platform"].map(places)
        dashes: dict = {"color": "black", "linestyle": "--", "linewidth": 1}
        ax.hlines(ratios["bandwidth_ratio"], middles - 0.42, middles + 0.42, label="B_NIC / B_HB", **dashes)
        ax.axhline(0, color="black", linewidth=0.8)
        ax.set_xticks(range(len(places)), [name.replace(", ", ",\n").replace(" full", "\nfull") for name in places])
        ax.grid(axis="x", visible=False)
        percent_axis(ax.yaxis)
        ax.set(title=load, ylabel="slowdown over direct")
        ax.margins(y=0.15)
    (dash, *bars), (name, *names) = axes.flat[0].get_legend_handles_labels()
    figure.legend([*bars, dash], [*names, name], loc="outside lower center", ncols=3, title=title)
    return figure


def measured_runs(data: pd.DataFrame, note: str = "") -> Figure:
    """Measured and modelled times as points, a run a row, and the errors beside them as bars; note: below.

    Columns label, source, global_batch, measured_iteration_s, modelled_s, error.
    """
    size, widths = (10, 0.3 * len(data) + 2.0), (2.4, 1.3)
    figure, (left, right) = plt.subplots(1, 2, figsize=size, sharey=True, width_ratios=widths)
    places = np.arange(len(data))
    for i, (source, part) in enumerate(data.assign(place=places).groupby("source", sort=False)):
        label = f"measured: {str(source).split(', arXiv')[0].split(', Table')[0]}"
        style: dict = {"marker": MARKERS[i], "markersize": 8, "linestyle": "", "color": COLOURS[i]}
        left.plot(part["measured_iteration_s"], part["place"], label=label, **style)
        right.barh(part["place"], part["error"], color=COLOURS[i], height=0.62)
    left.plot(data["modelled_s"], places, "k|", markersize=15, markeredgewidth=1.6, label="model")
    left.set_yticks(places, data["label"] + data["global_batch"].map(", batch {:,}".format), fontsize=8)
    left.invert_yaxis()
    log_axis(left.xaxis, [1, 2, 5, 10, 20, 50, 100])
    left.set_xlabel("iteration time [s]")
    for i, error in enumerate(data["error"]):
        _beside(right, error, i, f"{'+' * (error > 0)}{percent(error, 2)}", error >= 0, fontsize=8)
    right.axvline(0, color="black", linewidth=0.8)
    right.margins(x=0.3)
    right.set_xlabel("model over measured, less 1")
    percent_axis(right.xaxis)
    right.grid(axis="y", visible=False)
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=9)
    figure.supxlabel(note, fontsize=9)
    return figure


def authority_demand(data: pd.DataFrame) -> Figure:
    """Largest demand of balancing authorities over their capacity, as reported and cleaned, and the generation implied.

    Columns authority, capacity_w, peak_demand_raw_w, peak_demand_clean_w, printed_w (NaN for none): the
    document's disposable power, largest generation less largest demand, so that with the cleaned demand it implies a
    generation. Those without capacity are left out. Bars beyond MOST_SHARE end there with their value, as spikes do.
    """
    data = data[data["capacity_w"] > 0]
    capacity, at = data["capacity_w"], np.arange(len(data))
    figure, ax = plt.subplots(figsize=(10, 1.5 + max(0.26, 0.75 - 0.02 * len(at)) * len(at)), layout="constrained")
    raw, clean, printed = (data[f"{name}_w"] / capacity for name in ("peak_demand_raw", "peak_demand_clean", "printed"))
    ax.barh(at - 0.2, raw.clip(upper=MOST_SHARE), 0.34, color=REPORTED, label="largest demand as reported")
    ax.barh(at + 0.2, clean.clip(upper=MOST_SHARE), 0.34, color=CLEANED, label="the same, cleaned of reporting errors")
    hatch: dict = {"facecolor": "#F6C9A8", "edgecolor": PRINTED, "hatch": "////", "linewidth": 0.8}
    ax.barh(at + 0.2, printed, 0.34, left=clean, label="disposable power as printed, on top", **hatch)
    implied = clean + printed.fillna(0)
    for i, (highest, total, own) in enumerate(zip(raw, implied, capacity, strict=True)):
        more = ", more than its capacity" if total > 1 and printed.notna().iloc[i] else ""
        for value, y, note in ((highest, i - 0.2, ""), (total, i + 0.2, more)):
            if np.isfinite(value):
                box: dict = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.8}
                words = f"{'▶ ' * (value > MOST_SHARE)}{units.show(value * own, 'W', 3)}{note}"
                _beside(ax, min(value, MOST_SHARE), y, words, fontsize=8, bbox=box)
    ax.axvline(1, color="black", linewidth=1, linestyle="--", label="net summer capacity")
    ax.set_yticks(at, data["authority"] + capacity.map(lambda power: f", {units.show(power, 'W', 3)}"))
    words = "share of net summer capacity; numbers: capacity, demand and the generation implied"
    ax.set(xlabel=words, xlim=(0, 1.1 * MOST_SHARE), ylim=(len(data) - 0.5, -0.5))
    ax.set_xticks(np.arange(0, MOST_SHARE + 0.01, 0.25))
    percent_axis(ax.xaxis)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)
    figure.legend(loc="outside lower center", ncols=2, fontsize=9)
    return figure
