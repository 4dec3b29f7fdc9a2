"""House style, and plots from DataFrames: data in, Axes out. From railcore this module imports `facts` alone."""

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from railcore.facts import units
from railcore.facts.units import number

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.figure import Figure

# Okabe and Ito's palette, told apart with every common colour blindness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A8A8A")
MARKERS = "osD^vPX*"


def house_style() -> None:
    """Set fonts, colours and sizes for this process: the same picture in a notebook, a PNG and an SVG."""
    import matplotlib as mpl
    import pandas as pd
    from cycler import cycler

    mpl.rcdefaults()
    mpl.rcParams.update(
        {
            "font.family": "DejaVu Sans",
            "font.size": 10,
            "axes.prop_cycle": cycler(color=COLOURS),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": "#E3E3E3",
            "legend.frameon": False,
            "figure.dpi": 72,
            "figure.constrained_layout.use": True,
            "svg.hashsalt": "railcore",
        }
    )
    if (shell := sys.modules.get("IPython")) and shell.get_ipython():
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("png", bbox_inches=None)  # the picture as saved; a tight box draws it once more
    pd.set_option("display.max_colwidth", None, "display.max_rows", 200)


def lines(
    data: "pd.DataFrame",
    x: str,
    y: str,
    group: str,
    ax: "Axes",
    order: Sequence | None = None,
    label: str = "{}",
    nested: bool = False,
) -> "Axes":
    """One line with markers for each value of `group`, in `order` or as they appear; every other one is dashed.

    nested: a line is broader for each later one that covers half of its points or more, so that both are seen.
    """
    parts = {value: data[data[group] == value] for value in (order if order is not None else data[group].unique())}
    drawn = [part[[x, y]].to_numpy(float) for part in parts.values()]
    for i, (value, part) in enumerate(parts.items()):
        over = drawn[i + 1 :] if nested else []
        broader = sum(2 * _shared_points(drawn[i], later) >= len(part) for later in over)
        ax.plot(
            part[x],
            part[y],
            color=COLOURS[i % len(COLOURS)],
            marker=MARKERS[i % len(MARKERS)],
            linestyle=("-", "--")[i % 2],
            linewidth=1.5 + 1.8 * broader,
            markersize=4.5 + 3.5 * broader,
            label=label.format(value if isinstance(value, str) else number(value)),
        )
    return ax


def _shared_points(one: np.ndarray, other: np.ndarray) -> int:
    """How many points (rows of x and y) two lines have in common."""
    return int(np.isclose(one[:, None], other, rtol=1e-6, atol=0).all(axis=-1).sum())


def cost_and_power(data: "pd.DataFrame", counts: Sequence[int], title: str) -> "Figure":
    """Two panels over GPU counts, cost in million USD and peak power in MW, one line for each `link`.

    Columns link, gpus, cost_usd, power_w.
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(10, 5))
    for ax, column, label in zip(axes, ("cost_usd", "power_w"), ("cost [million USD]", "peak power [MW]"), strict=True):
        lines(data.assign(millions=data[column] / 1e6), "gpus", "millions", "link", ax, nested=True)
        gpu_axis(ax, counts).set(yscale="log", ylabel=label)
        plain_axis(ax.yaxis)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, title=title)
    return figure


def gpu_axis(ax: "Axes", counts: Sequence[int]) -> "Axes":
    """A logarithmic axis of GPU counts with each count written out."""
    ax.set_xscale("log", base=2)
    ax.set_xticks(counts, [f"{count:,}" for count in counts], rotation=45, ha="right")
    ax.set_xlabel("GPUs")
    return ax


def dark_is_high() -> "Colormap":
    """Colours of every heat map: dark is high, and the palest still differs from the white of no value."""
    import matplotlib as mpl

    return mpl.colors.ListedColormap(mpl.colormaps["cividis_r"](np.linspace(0.2, 1, 256)))


def plain_axis(axis) -> None:
    """Numbers written out on a logarithmic axis, not powers of ten."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axis.set_minor_formatter(NullFormatter())


def percent(share: float, digits: int = 3) -> str:
    """A share as text: percent(0.375) = "37.5%"."""
    return f"{number(100 * share, digits)}%"


def heatmap(table: "pd.DataFrame", ax: "Axes", label: str, low: float, high: float, bar: bool = True) -> "Axes":
    """Shares as coloured cells with their values; rows upwards, columns to the right, `label` on the colour bar."""
    import seaborn as sns

    drawn = sns.heatmap(
        table,
        ax=ax,
        vmin=low,
        vmax=high,
        cmap=dark_is_high(),
        annot=table.map(percent, digits=2),
        fmt="",
        annot_kws={"fontsize": 8},
        linewidths=0.5,
        cbar=bar,
        cbar_kws={"label": label} if bar else None,
    )
    if bar:
        drawn.collections[0].colorbar.ax.yaxis.set_major_formatter(lambda share, _: percent(share))
    ax.grid(False)
    ax.invert_yaxis()
    ax.tick_params(length=0)
    ax.tick_params(axis="y", rotation=0)
    return ax


def heatmaps(data: "pd.DataFrame", by: str, rows: str, columns: str, values: str, label: str) -> "Figure":
    """A heat map for each value of `by`, side by side on one scale from 0."""
    import matplotlib.pyplot as plt

    parts = list(data.groupby(by))
    figure, axes = plt.subplots(1, len(parts), figsize=(3.6 * len(parts), 3.8), sharey=True)
    high = math.ceil(data[values].max() * 10) / 10
    for i, (ax, (value, part)) in enumerate(zip(axes, parts, strict=True)):
        table = part.pivot(index=rows, columns=columns, values=values)
        table.columns = [number(count) for count in table.columns]
        heatmap(table, ax, label, 0, high, bar=i == len(parts) - 1)
        ax.set(title=f"{by} {value}", xlabel=units.label(columns), ylabel="" if i else units.label(rows))
        ax.tick_params(axis="x", rotation=45)
    return figure


def oversubscription(data: "pd.DataFrame", ax: "Axes") -> "Axes":
    """Cost over rail-optimized against oversubscription, a line for each `network`; an infinite one is a dashed level.

    Columns network, oversubscription, relative_cost.
    """
    finite = data["oversubscription"] < float("inf")
    lines(data[finite], "oversubscription", "relative_cost", "network", ax)
    for level in data.loc[~finite, "relative_cost"]:
        ax.axhline(level, color="black", linestyle="--", label="rail-only: no layer")
    ratios = sorted(data.loc[finite, "oversubscription"].unique())
    ax.set(
        xscale="log", xlabel="oversubscription, bandwidth down : up", ylabel="cost over rail-optimized", ylim=(0, 1.05)
    )
    ax.set_xticks(ratios, [f"{number(ratio)}:1" for ratio in ratios])
    ax.minorticks_off()
    ax.legend()
    return ax


def tornado(data: "pd.DataFrame", ax: "Axes", label: str) -> "Axes":
    """Bars from `at_low` to `at_high` around `centre`, the widest on top.

    Columns input, low, high (texts at the ends of the bars), at_low, at_high, centre.
    """
    from matplotlib.patches import Patch

    data = data.assign(width=(data["at_high"] - data["at_low"]).abs()).sort_values("width", kind="stable")
    for i, row in enumerate(data.itertuples()):
        both = ((row.at_low, row.low, COLOURS[0]), (row.at_high, row.high, COLOURS[4]))
        one_side = (row.at_low - row.centre) * (row.at_high - row.centre) > 0
        for shorter, (value, text, colour) in enumerate(sorted(both, key=lambda end: -abs(end[0] - row.centre))):
            ax.barh(i, value - row.centre, left=row.centre, color=colour, height=0.6)
            rightward = value > row.centre or (value == row.centre and colour == COLOURS[4])
            if one_side and shorter:  # its text would be lost in the longer bar
                value, rightward = row.centre, not rightward
            shift, side = (3, "left") if rightward else (-3, "right")
            style: dict = {"textcoords": "offset points", "va": "center", "ha": side, "fontsize": 7}
            ax.annotate(text, (value, i), xytext=(shift, 0), **style)
    ends = [
        Patch(color=colour, label=name) for name, colour in (("at its low", COLOURS[0]), ("at its high", COLOURS[4]))
    ]
    ax.legend(handles=ends, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0.2)
    ax.axvline(data["centre"].iloc[0], color="black", linewidth=0.8)
    ax.set_yticks(range(len(data)), data["input"])
    ax.set_xlabel(label)
    ax.grid(axis="y", visible=False)
    ax.margins(x=0.18)
    return ax


def stacked(data: "pd.DataFrame", x: str, y: str, by: str, ax: "Axes", label: str, title: str = "") -> "Axes":
    """Bars at each `x`, stacked from the rows of each `by`; on top the total and its change from the first bar."""
    places = list(data[x].unique())
    bottom: dict = {}
    for i, part in enumerate(data[by].unique()):
        rows = data[data[by] == part].groupby(x, sort=False)[y].sum()
        heights = [float(rows.get(place, 0.0)) for place in places]
        ax.bar(
            places, heights, bottom=[bottom.get(p, 0.0) for p in places], color=COLOURS[i % 8], label=part, width=0.6
        )
        bottom |= {p: bottom.get(p, 0.0) + h for p, h in zip(places, heights, strict=True)}
    for i, place in enumerate(places):
        change = bottom[place] / bottom[places[0]] - 1 if i and bottom[places[0]] else 0.0
        text = number(bottom[place], 4) + (f"\n({'+' * (change > 0)}{percent(change, 2)})" if change else "")
        ax.annotate(text, (i, bottom[place]), xytext=(0, 3), textcoords="offset points", ha="center")
    ax.grid(axis="x", visible=False)
    ax.margins(y=0.15)
    ax.set_ylabel(label)
    ax.set_title(title, fontsize=9)
    ax.legend()
    return ax
