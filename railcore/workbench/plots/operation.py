"""Plots of operating a datacenter: goodput under failures by way of recovery, and what serving a model costs."""

from typing import TYPE_CHECKING

from railcore.workbench import plotting
from railcore.workbench.plotting import COLOURS, MARKERS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def recoveries(curves: "pd.DataFrame", ways: "pd.DataFrame", target: float = 0.9) -> "Figure":
    """(a) goodput over the restart time of a job that restarts as a whole, (b) goodput by way of recovery.

    curves: columns case, checkpoint, restart_s, goodput; a colour for each case and checkpoint.
    ways: columns way, rates ("low", "value", "high"), goodput; marks at the value, bars between the other two.
    target: a dotted level in both.
    """
    import matplotlib.pyplot as plt
    from matplotlib.ticker import PercentFormatter

    figure, axes = plt.subplots(1, 2, figsize=(12.5, 5.4))
    cases, saves = (list(curves[column].unique()) for column in ("case", "checkpoint"))
    for (case, save), part in curves.groupby(["case", "checkpoint"], sort=False):
        style = {"color": COLOURS[cases.index(case) % 8], "linestyle": ("-", "--", ":")[saves.index(save) % 3]}
        axes[0].plot(part["restart_s"], part["goodput"], label=f"{case}, {save}", **style)
    axes[0].set(xscale="log", ylim=(0, 1.02), xlabel="restart of the whole job [s]", ylabel="goodput, share of time")
    axes[0].set_title("(a) everything restarts after every failure", fontsize=10)
    plotting.plain_axis(axes[0].xaxis)
    axes[0].minorticks_off()
    table = ways.pivot(index="way", columns="rates", values="goodput").loc[list(ways["way"].unique())[::-1]]
    places = range(len(table))
    axes[1].hlines(places, table["high"], table["low"], color=COLOURS[0], linewidth=5, alpha=0.3)
    axes[1].plot(table["value"], places, MARKERS[0], color=COLOURS[0])
    axes[1].set_yticks(places, table.index)
    axes[1].set(xlim=(-0.01, 1.01), xlabel="goodput, share of all GPUs' time")
    axes[1].set_title("(b) by way of recovery; bars from high to low rates and times", fontsize=10)
    axes[1].xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes[0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes[0].axhline(target, color="black", linestyle=":", linewidth=0.9)
    axes[1].axvline(target, color="black", linestyle=":", linewidth=0.9)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower left", ncols=2, fontsize=8.5, title="mean time between failures, checkpoint"
    )
    return figure


def serving(data: "pd.DataFrame") -> "Figure":
    """Cost of a million tokens over the speed that a user sees, a panel for each `context`, a line for each model.

    Columns model, weight_bits, context, user_tokens_per_s, million_tokens_usd, and copy_gpus, in rising order.
    """
    import matplotlib.pyplot as plt

    contexts = sorted(data["context"].unique())
    figure, axes = plt.subplots(1, len(contexts), figsize=(5.4 * len(contexts), 4.8), sharey=True, squeeze=False)
    for ax, context in zip(axes[0], contexts, strict=True):
        for i, (key, part) in enumerate(data[data["context"] == context].groupby(["model", "weight_bits"], sort=False)):
            _served(ax, i, part, f"{key[0]}, {key[1]:g}-bit weights")
        ax.set(yscale="log", xlabel="tokens/s of a user")
        ax.set_title(f"{context:,.0f} tokens of context", fontsize=10)
        plotting.plain_axis(ax.yaxis)
        ax.minorticks_off()
        ax.margins(0.12)
        ax.set_xlim(0, ax.get_xlim()[1])
    axes[0][0].set_ylabel("cost of a million tokens [USD]")
    handles, labels = axes[0][0].get_legend_handles_labels()
    title = f"numbers: GPUs of the smallest copy; lines end at copies of {data['copy_gpus'].max():,.0f}"
    figure.legend(handles, labels, loc="outside lower center", ncols=4, title=title)
    return figure


def _served(ax: "Axes", i: int, part: "pd.DataFrame", label: str) -> None:
    colour = COLOURS[i % len(COLOURS)]
    x, y = part["user_tokens_per_s"], part["million_tokens_usd"]
    ax.plot(
        x, y, color=colour, marker=MARKERS[i % len(MARKERS)], linestyle=("-", "--")[i % 2], markersize=4.5, label=label
    )
    ends: dict = {"xytext": (5, 4), "textcoords": "offset points", "fontsize": 7, "color": colour}
    ax.annotate(f"{part['copy_gpus'].iloc[0]:,.0f}", (x.iloc[0], y.iloc[0]), **ends)
