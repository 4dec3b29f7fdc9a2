"""Plots of searches over strategies: time against memory, and how much worse other strategies are than the best."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from railcore.facts.units import number
from railcore.workbench.plotting import COLOURS, MARKERS, plain_axis

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def pareto(data: "pd.DataFrame", limit_bytes: float, ax: "Axes") -> "Axes":
    """Iteration time against memory of the strategies that none beats in both, ends and middle named.

    Columns total_s, memory_bytes, strategy; limit_bytes: of a GPU.
    """
    memory = data["memory_bytes"] / 1e9
    ax.step(memory, data["total_s"], where="post", color=COLOURS[0], linewidth=1)
    ax.plot(memory, data["total_s"], "o", color=COLOURS[0], markersize=4)
    ax.axvline(limit_bytes / 1e9, color="black", linestyle="--", linewidth=1)
    ax.annotate(
        "a GPU's memory",
        (limit_bytes / 1e9, 1),
        (-4, -4),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        ha="right",
        va="top",
        rotation=90,
        fontsize=8,
    )
    chosen = sorted({0, len(data) // 3, 2 * len(data) // 3, len(data) - 1})
    for i in chosen:
        row = data.iloc[i]
        place, side = ((6, 4), "left") if i else ((-6, 6), "right")
        ax.annotate(
            row["strategy"],
            (row["memory_bytes"] / 1e9, row["total_s"]),
            place,
            textcoords="offset points",
            ha=side,
            fontsize=8,
        )
    ax.set_title(
        "t, p, d: tensor, pipeline, data parallel; sp: sequence parallel; v: chunks of a stage; b: sequences of a "
        "micro-batch\nfull: recomputation; zero1, zero2, fsdp: optimizer state, gradients too, weights too are sharded",
        fontsize=9,
    )
    ax.set(xlabel="memory of the fullest GPU [GB]", ylabel="iteration time [s]", ylim=(0, None))
    ax.margins(x=0.12, y=0.12)
    return ax


def wrong_choice(data: Mapping[str, "pd.DataFrame"], ax: "Axes") -> "Axes":
    """Share of feasible strategies that take at most so many times the best one's time, a line for each search.

    Columns times_best, share (cumulative).
    """
    for i, (name, table) in enumerate(data.items()):
        style: dict = {"color": COLOURS[i % 8], "linestyle": ("-", "--", "-.", ":")[i % 4]}
        ax.step(table["times_best"], 100 * table["share"], where="post", label=name, **style)
    ax.set(xscale="log", xlim=(1, None), ylim=(0, 100))
    ax.set_xticks([1, 1.5, 2, 3, 5, 10, 20, 50, 100])
    plain_axis(ax.xaxis)
    ax.set(xlabel="iteration time over the best strategy's", ylabel="feasible strategies [%]")
    ax.legend(loc="lower right")
    return ax


def best_by_domain(data: "pd.DataFrame", by: str, label: str = "{}") -> "Figure":
    """Slowdown over one HB domain for all against HB domain size, a panel for each `panel`, a line for each `by`.

    Columns panel, hb_domain_size, slowdown.
    """
    import matplotlib.pyplot as plt
    from matplotlib.ticker import PercentFormatter

    panels = list(data["panel"].unique())
    figure, axes = plt.subplots(1, len(panels), figsize=(3.6 * len(panels), 4.4), sharey=True, squeeze=False)
    sizes = sorted(data["hb_domain_size"].unique())
    for ax, panel in zip(axes[0], panels, strict=True):
        for i, (value, part) in enumerate(data[data["panel"] == panel].groupby(by)):
            style = {"color": COLOURS[i], "marker": MARKERS[i], "markersize": 4}
            ax.plot(part["hb_domain_size"], part["slowdown"], label=label.format(number(value)), **style)
        ax.set_xscale("log", base=2)
        ax.set_xticks(sizes, [number(size) for size in sizes], rotation=45)
        ax.minorticks_off()
        ax.set(title=panel, xlabel="HB domain size [GPUs]")
    axes[0][0].set_ylabel("slowdown over one HB domain for all")
    axes[0][0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    return figure
