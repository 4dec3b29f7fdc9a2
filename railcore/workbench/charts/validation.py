"""Plots of modelled against measured iteration times."""

from typing import TYPE_CHECKING

from railcore.workbench.plotting import COLOURS, MARKERS, percent, plain_axis

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def measured_runs(data: "pd.DataFrame", note: str = "") -> "Figure":
    """Measured and modelled times as points, a run a row, and the errors beside them as bars; note: below.

    Columns label, source, global_batch, measured_iteration_s, modelled_s, error.
    """
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(
        1, 2, figsize=(10, 0.3 * len(data) + 2.0), sharey=True, gridspec_kw={"width_ratios": [2.4, 1.3]}
    )
    places = range(len(data))
    for i, (source, part) in enumerate(data.assign(place=places).groupby("source", sort=False)):
        label = f"measured: {str(source).split(', arXiv')[0].split(', Table')[0]}"
        style: dict = {"marker": MARKERS[i], "markersize": 8, "linestyle": "", "color": COLOURS[i]}
        left.plot(part["measured_iteration_s"], part["place"], label=label, **style)
        right.barh(part["place"], 100 * part["error"], color=COLOURS[i], height=0.62)
    left.plot(data["modelled_s"], list(places), "k|", markersize=15, markeredgewidth=1.6, label="model")
    runs = data["label"] + data["global_batch"].map(", batch {:,}".format)
    left.set_yticks(list(places), runs, fontsize=8)
    left.invert_yaxis()
    left.set(xscale="log", xlabel="iteration time [s]")
    left.set_xticks([1, 2, 5, 10, 20, 50, 100])
    left.minorticks_off()
    plain_axis(left.xaxis)
    for i, error in enumerate(data["error"]):
        shift, side = (3, "left") if error >= 0 else (-3, "right")
        place: dict = {"textcoords": "offset points", "va": "center", "ha": side, "fontsize": 8}
        sign = "+" if error > 0 else ""
        right.annotate(f"{sign}{percent(error, 2)}", (100 * error, i), xytext=(shift, 0), **place)
    right.axvline(0, color="black", linewidth=0.8)
    right.margins(x=0.3)
    right.set_xlabel("model over measured, less 1 [%]")
    right.grid(axis="y", visible=False)
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=9)
    figure.supxlabel(note, fontsize=9)
    return figure


def checks(data: "pd.DataFrame", by: str, ax: "Axes") -> "Axes":
    """Modelled over measured time against GPUs, a marker for each value of `by`; a band of 10% about 1.

    Columns gpus, modelled_s, measured_iteration_s.
    """
    ax.axhspan(0.9, 1.1, color="#EEEEEE", zorder=0, label="within 10%")
    ax.axhline(1, color="black", linewidth=0.8)
    for i, (name, part) in enumerate(data.groupby(by, sort=False)):
        style: dict = {"color": COLOURS[i % 8], "marker": MARKERS[i % 8], "markersize": 5, "alpha": 0.75}
        label = f"{name} ({len(part)})"
        ax.plot(part["gpus"], part["modelled_s"] / part["measured_iteration_s"], linestyle="", label=label, **style)
    ax.set_xscale("log", base=2)
    ax.set(xlabel="GPUs", ylabel="modelled over measured iteration time", yscale="log")
    ax.set_yticks([0.3, 0.5, 0.7, 0.9, 1, 1.1, 1.5])
    ax.set_xticks([2**power for power in range(2, 12)])
    ax.minorticks_off()
    plain_axis(ax.yaxis)
    plain_axis(ax.xaxis)
    ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def breakdown(data: "pd.DataFrame", ax: "Axes") -> "Axes":
    """One bar for each row of the table, stacked from its columns [s], parts under 1% of every bar left out."""
    shares = data.div(data.sum(axis=1), axis=0).max()
    left = [0.0] * len(data)
    for i, name in enumerate(shares.index[shares > 0.01]):
        hatch = "" if i < len(COLOURS) else "//"
        label = name.removesuffix("_s").replace("_", " ")
        ax.barh(data.index, data[name], left=left, color=COLOURS[i % 8], hatch=hatch, edgecolor="white", label=label)
        left = [a + b for a, b in zip(left, data[name], strict=True)]
    ax.invert_yaxis()
    ax.set_xlabel("iteration time [s]")
    ax.grid(axis="y", visible=False)
    ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax
