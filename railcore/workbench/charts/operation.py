"""Plots of operating a datacenter: goodput under failures by way of recovery, and what serving a model costs."""

from typing import TYPE_CHECKING

from railcore.facts.units import number
from railcore.workbench import plotting
from railcore.workbench.plotting import COLOURS, MARKERS, percent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def recoveries(curves: "pd.DataFrame", ways: "pd.DataFrame", target: float = 0.9) -> "Figure":
    """(a) goodput over the restart time of a job that restarts as a whole, (b) goodput by way of recovery.

    curves: columns case, checkpoint, restart_s, goodput; a colour for each case, a line style for each checkpoint.
    ways: columns way, rates ("low", "value", "high"), goodput; marks at the value, bars between the other two.
    target: a goodput to reach, a dotted level in both.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(12.5, 5))
    cases, saves = (list(curves[column].unique()) for column in ("case", "checkpoint"))
    colours = dict(zip(cases, COLOURS, strict=False))
    styles: dict = dict(zip(saves, ("-", (0, (4, 2)), ":"), strict=False))
    for (case, save), part in curves.groupby(["case", "checkpoint"], sort=False):
        axes[0].plot(part["restart_s"], part["goodput"], color=colours[case], linestyle=styles[save])
    handles = [plt.Line2D([], [], color=colours[case], label=case) for case in cases]
    handles += [plt.Line2D([], [], color="0.3", linestyle=styles[save], label=save) for save in saves]
    axes[0].set(xscale="log", ylim=(0, 1.02), xlabel="restart of the whole job [s]", ylabel="goodput, share of time")
    axes[0].set_title("(a) all GPUs restart after every failure, middle rates", fontsize=10)
    plotting.plain_axis(axes[0].xaxis)
    axes[0].minorticks_off()
    table = ways.pivot(index="way", columns="rates", values="goodput").loc[list(ways["way"].unique())[::-1]]
    places = range(len(table))
    span = axes[1].hlines(places, table["high"], table["low"], color=COLOURS[0], linewidth=5, alpha=0.3)
    (middle,) = axes[1].plot(table["value"], places, MARKERS[0], color=COLOURS[0])
    axes[1].set_yticks(places, table.index)
    axes[1].set(xlim=(-0.01, 1.01), xlabel="goodput, share of all GPUs' time")
    axes[1].set_title("(b) by way of recovery; t: GPUs of a tensor group", fontsize=10)
    shares = [k / 5 for k in range(6)]
    axes[0].set_yticks(shares, [percent(share) for share in shares])
    axes[1].set_xticks(shares, [percent(share) for share in shares])
    goal = axes[0].axhline(target, color="black", linestyle=":", linewidth=0.9)
    axes[1].axvline(target, color="black", linestyle=":", linewidth=0.9)
    labels = [*(str(line.get_label()) for line in handles), f"goodput of {percent(target)}, a target"]
    labels += ["(b) at middle failure rates and times", "(b) from low to high ones"]
    figure.legend([*handles, goal, middle, span], labels, loc="outside lower center", ncols=3, fontsize=9)
    return figure


def serving(data: "pd.DataFrame") -> "Figure":
    """Cost of a million tokens over the speed that a user sees, a panel for each `context`, a line for each model.

    Columns model, weight_bits, context, user_tokens_per_s, cost_per_million_tokens_usd, copies, and copy_gpus in
    rising order.
    """
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator

    contexts = sorted(data["context"].unique())
    figure, axes = plt.subplots(
        1, len(contexts), figsize=(max(5.4 * len(contexts), 8), 4.8), sharey=True, squeeze=False
    )
    for ax, context in zip(axes[0], contexts, strict=True):
        for i, (key, part) in enumerate(data[data["context"] == context].groupby(["model", "weight_bits"], sort=False)):
            _served(ax, i, part, f"{key[0]}, {number(key[1])}-bit weights")
        ax.set(yscale="log", xlabel="tokens/s of a user")
        ax.set_title(f"{number(context)} tokens of context", fontsize=10)
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        plotting.plain_axis(ax.yaxis)
        ax.minorticks_off()
        ax.margins(0.12)
        ax.set_xlim(0, ax.get_xlim()[1] * 1.05)
    axes[0][0].set_ylabel("cost of a million decoded tokens [USD]")
    handles, labels = axes[0][0].get_legend_handles_labels()
    title = "numbers: GPUs of the smallest copy × copies that the machine holds; larger copies to the left"
    figure.legend(handles, labels, loc="outside lower center", ncols=2 * len(contexts), title=title)
    return figure


def _served(ax: "Axes", i: int, part: "pd.DataFrame", label: str) -> None:
    colour = COLOURS[i % len(COLOURS)]
    x, y = part["user_tokens_per_s"], part["cost_per_million_tokens_usd"]
    ax.plot(
        x, y, color=colour, marker=MARKERS[i % len(MARKERS)], linestyle=("-", "--")[i % 2], markersize=4.5, label=label
    )
    ends: dict = {"xytext": (7, -4), "textcoords": "offset points", "fontsize": 7, "color": colour}
    first = part.iloc[0]
    ax.annotate(f"{number(first['copy_gpus'])} GPUs\n× {number(first['copies'])}", (x.iloc[0], y.iloc[0]), **ends)
