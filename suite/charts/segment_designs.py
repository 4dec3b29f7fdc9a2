"""Designs of one size beside each other."""

from collections.abc import Mapping
from string import ascii_lowercase

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from railcore.catalog.units import number
from suite.charts.bars import stacked_costs
from suite.plotting import colours_of, legend_below, line_style, panel_title


def designs_by_size(
    data: pd.DataFrame, measures: Mapping[str, str], marked: str, note: str, title: str = ""
) -> plt.Figure:
    """A panel for each measure: groups of dots by GPUs, a dot for each design, its value above it.

    Parameters
    ----------
    data
        Columns asked (GPUs), design and those of the measures; a design that a size lacks has no dot there.
    measures
        Column to title. An axis is logarithmic where its values differ by more than 30 times.
    marked, note
        Name of a column that is true where values get a star, and what the star says.
    title
        Of the figure.

    Returns
    -------
    The figure.
    """
    rows = -(-len(measures) // 2)
    figure, axes = plt.subplots(rows, 2, figsize=(10, 2.5 * rows + 0.7), squeeze=False)
    sizes, designs = data["asked"].unique(), data["design"].unique()
    colours = colours_of(designs)
    at, width = np.arange(len(sizes)), 0.84 / len(designs)
    stars = data.pivot(index="asked", columns="design", values=marked)
    stars = stars.reindex(index=sizes, columns=designs).eq(True)
    for letter, ax, (column, name) in zip(ascii_lowercase, axes.flat, measures.items(), strict=False):
        values = data.pivot(index="asked", columns="design", values=column).reindex(index=sizes, columns=designs)
        some = values.to_numpy(float)
        some = some[~np.isnan(some)]
        log = some.max() > 30 * some[some > 0].min() if (some > 0).any() else False
        floor = 0.3 * 10 ** np.floor(np.log10(some[some > 0].min()) + 1e-9) if log else 0.0
        for i, design in enumerate(designs):
            x, height = at + (i - (len(designs) - 1) / 2) * width, values[design].to_numpy(float)
            shown = np.where(height > 0, height, np.nan if log else height)  # no dot for a zero on a log axis
            ax.plot(x, shown, **line_style(i, "none", color=colours[design], markersize=8, label=design))
            for place, value, star in zip(x, height, stars[design], strict=True):
                if np.isnan(value):
                    continue
                over = max(value, floor)
                text = number(value, 4 if value >= 1000 else 3) + "*" * bool(star)
                ax.annotate(text, (place, over), (0, 6), textcoords="offset points", ha="center", fontsize=8)
        top = some.max() or 1.0
        if log:
            ax.set_yscale("log")
            ax.set_ylim(floor, top * (top / floor) ** 0.2)
            ax.minorticks_off()
        else:
            ax.set_ylim(0, 1.2 * top)
        ax.yaxis.set_major_formatter(lambda value, _: number(value))
        ax.set_xticks(at, [f"{size:,} GPUs" for size in sizes])
        ax.set_xlim(-0.5, len(sizes) - 0.5)
        ax.grid(axis="x", visible=False)
        ax.tick_params(labelsize=9)
        panel_title(ax, f"({letter}) {name}" if len(measures) > 1 else name, left=True)
    for ax in list(axes.flat)[len(measures) :]:
        ax.set_visible(False)
    if title:
        figure.suptitle(title, fontsize=11, weight="bold", x=0.01, ha="left")
    legend_below(figure, axes.flat[0], title=f"* {note}" if stars.to_numpy().any() else None)
    return figure


def design_cost_bars(data: pd.DataFrame, title: str) -> plt.Figure:
    """Cost of designs as bars, stacked by part, with the change from the first. Columns design, part, cost_usd."""
    figure, ax = plt.subplots(figsize=(8, 4.2))
    stacked_costs(data.assign(cost=data["cost_usd"] / 1e3), "design", "cost", "part", ax, "cost [k USD]")
    figure.suptitle(title, fontsize=11)
    return figure
