"""Plots of iteration time by fabric: what failures leave of it, and mixtures of experts on rail-only."""

from typing import TYPE_CHECKING

from railcore.facts import units
from railcore.facts.units import number
from railcore.workbench import plotting
from railcore.workbench.plotting import COLOURS, MARKERS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def goodput(data: "pd.DataFrame") -> "Figure":
    """Goodput over GPUs, a panel for each `stops` and a band from the high to the low failure rates; then tokens/s.

    Columns gpus, fabric, stops, rates ("low", "value", "high"), goodput, tokens_per_s, effective_tokens_per_s.
    """
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, PercentFormatter

    parts, counts = list(data["stops"].unique()), sorted(data["gpus"].unique())
    figure, axes = plt.subplots(1, len(parts) + 1, figsize=(4.2 * (len(parts) + 1), 4.6))
    for ax, stops in zip(axes, parts, strict=False):
        for i, (fabric, lines) in enumerate(data[data["stops"] == stops].groupby("fabric", sort=False)):
            table = lines.pivot(index="gpus", columns="rates", values="goodput")
            ax.fill_between(table.index, table["high"], table["low"], color=COLOURS[i], alpha=0.18, linewidth=0)
            _line(ax, i, table.index, table["value"], str(fabric))
        ax.set(ylim=(0, 1.02), ylabel="goodput, share of time", title=f"{stops} stops the job")
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    shown = data[(data["rates"] == "value") & (data["stops"] == parts[-1])]
    whole = shown.drop_duplicates("gpus")
    axes[-1].plot(whole["gpus"], whole["tokens_per_s"] / 1e6, color=COLOURS[7], linestyle=":", label="without failures")
    for i, (fabric, lines) in enumerate(shown.groupby("fabric", sort=False)):
        _line(axes[-1], i, lines["gpus"], lines["effective_tokens_per_s"] / 1e6, str(fabric))
    axes[-1].set(yscale="log", ylabel="million tokens/s", title=f"effective speed, {parts[-1]}")
    plotting.plain_axis(axes[-1].yaxis)
    for ax in axes:
        ax.title.set_fontsize(10)
        plotting.gpu_axis(ax, counts)
        ax.minorticks_off()
    axes[-1].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    handles, labels = axes[-1].get_legend_handles_labels()
    band = "lines at the catalog's failure rates, bands from its high to its low ones"
    figure.legend(handles, labels, loc="outside lower center", ncols=3, title=band)
    return figure


def _line(ax: "Axes", i: int, x, y, label: str) -> None:
    ax.plot(x, y, color=COLOURS[i], marker=MARKERS[i], linestyle=("-", "--")[i % 2], markersize=4.5, label=label)


def experts(data: "pd.DataFrame") -> "Figure":
    """(a) iteration time and (b) its slowdown over a full layer, over the HB domain size, a line for each way.

    Columns hb_domain_size, way, oversubscription, iteration_s, slowdown.
    """
    import matplotlib.pyplot as plt
    from matplotlib.ticker import PercentFormatter

    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.8))
    sizes, ways = sorted(data["hb_domain_size"].unique()), list(data.groupby(["way", "oversubscription"], sort=False))
    for ax, column in zip(axes, ("iteration_s", "slowdown"), strict=True):
        for i, ((way, ratio), part) in enumerate(ways):
            over = way == "direct"
            style: dict = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)]}
            style |= {} if over else {"linestyle": ":", "markersize": 11, "markerfacecolor": "none"}
            label = f"any-to-any layer {number(ratio)}:1, direct" if over else f"rail-only, {way}"
            ax.plot(part["hb_domain_size"], part[column], label=label, **style)
        ax.set_xscale("log", base=2)
        ax.set_xticks(sizes, [number(size) for size in sizes])
        ax.minorticks_off()
        ax.set_xlabel(units.label("hb_domain_size"))
    axes[0].set(ylabel="iteration time [s]", title="(a) iteration time")
    axes[1].set(ylabel="slowdown over a full layer", title="(b) over rail-optimized, layer 1:1")
    axes[1].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, title="way of the tokens to their experts")
    return figure
