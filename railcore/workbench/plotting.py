"""House style, and plots from DataFrames: data in, Axes out. From railcore this module imports `facts` alone."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from railcore.facts.units import number

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# Okabe and Ito's palette, told apart with every common colour blindness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A8A8A")
MARKERS = "osD^vPX*"


def house_style() -> None:
    """Set fonts, colours and sizes for this process: the same picture in a notebook, a PNG and an SVG."""
    import matplotlib as mpl
    import pandas as pd

    mpl.rcdefaults()
    mpl.rcParams.update(
        {
            "font.family": "DejaVu Sans",
            "font.size": 9,
            "axes.prop_cycle": mpl.cycler(color=COLOURS),
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
    pd.set_option("display.max_colwidth", None, "display.max_rows", 200)


def lines(
    data: "pd.DataFrame",
    x: str,
    y: str,
    group: str,
    ax: "Axes",
    order: Sequence | None = None,
    label: str = "{}",
) -> "Axes":
    """One line with markers for each value of `group`, in `order` or as they appear; colours repeat in that order."""
    for i, value in enumerate(order if order is not None else data[group].unique()):
        part = data[data[group] == value]
        ax.plot(
            part[x],
            part[y],
            color=COLOURS[i % len(COLOURS)],
            marker=MARKERS[i % len(MARKERS)],
            markersize=4.5,
            label=label.format(value if isinstance(value, str) else number(value)),
        )
    return ax


def heatmap(table: "pd.DataFrame", ax: "Axes", label: str, low: float, high: float, text: str = ".0%") -> "Axes":
    """A table as coloured cells with their values; rows downwards, columns to the right, `label` on the colour bar."""
    import seaborn as sns

    sns.heatmap(
        table,
        ax=ax,
        vmin=low,
        vmax=high,
        cmap="cividis",
        annot=True,
        fmt=text,
        annot_kws={"fontsize": 7},
        linewidths=0.5,
        cbar_kws={"label": label},
    )
    ax.grid(False)
    return ax


def tornado(data: "pd.DataFrame", ax: "Axes", centre: float, label: str) -> "Axes":
    """Bars from `at_low` to `at_high` around `centre`, the widest on top; columns: input, low, high (texts), at_low, at_high."""
    data = data.assign(width=(data["at_high"] - data["at_low"]).abs()).sort_values("width", kind="stable")
    for i, row in enumerate(data.itertuples()):
        for value, text, colour in ((row.at_low, row.low, COLOURS[0]), (row.at_high, row.high, COLOURS[4])):
            ax.barh(i, value - centre, left=centre, color=colour, height=0.6)
            side = "left" if value >= centre else "right"
            ax.annotate(
                text,
                (value, i),
                xytext=(3 if side == "left" else -3, 0),
                textcoords="offset points",
                va="center",
                ha=side,
                fontsize=7,
            )
    ax.axvline(centre, color="black", linewidth=0.8)
    ax.set_yticks(range(len(data)), data["input"])
    ax.set_xlabel(label)
    ax.grid(axis="y", visible=False)
    ax.margins(x=0.18)
    return ax
