"""Designs of one size beside each other."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from railcore.facts.units import number
from railcore.workbench.plotting import COLOURS, legend_below, panel_title


def designs_by_size(data: pd.DataFrame, measures: Mapping[str, str], marked: str, note: str) -> plt.Figure:
    """A panel for each measure: groups of bars by GPUs, a bar for each design, its value above it.

    Parameters
    ----------
    data
        Columns asked (GPUs), design and those of the measures; a design that a size lacks has no bar there.
    measures
        Column to title. An axis is logarithmic where its values differ by more than 30 times.
    marked, note
        Name of a column that is true where values get a star, and what the star says.

    Returns
    -------
    The figure.
    """
    rows = -(-len(measures) // 3)
    figure, axes = plt.subplots(rows, 3, figsize=(11, 2.7 * rows), squeeze=False)
    sizes, designs = data["asked"].unique(), data["design"].unique()
    at, width = np.arange(len(sizes)), 0.84 / len(designs)
    stars = data.pivot(index="asked", columns="design", values=marked)
    stars = stars.reindex(index=sizes, columns=designs).eq(True)
    for ax, (column, title) in zip(axes.flat, measures.items(), strict=False):
        values = data.pivot(index="asked", columns="design", values=column).reindex(index=sizes, columns=designs)
        some = values.to_numpy(float)
        some = some[~np.isnan(some)]
        log = some.max() > 30 * some[some > 0].min() if (some > 0).any() else False
        floor = 0.3 * 10 ** np.floor(np.log10(some[some > 0].min()) + 1e-9) if log else 0.0
        for i, design in enumerate(designs):
            x, height = at + (i - (len(designs) - 1) / 2) * width, values[design].to_numpy(float)
            ax.bar(x, np.maximum(height, floor), width, color=COLOURS[i], label=design, hatch=("", "//", "..")[i % 3])
            for place, value, star in zip(x, height, stars[design], strict=True):
                if np.isnan(value):
                    continue
                over = max(value, floor)
                text = number(value, 4) + "*" * bool(star)
                ax.annotate(text, (place, over), (0, 2), textcoords="offset points", ha="center", fontsize=6)
        top = some.max() or 1.0
        if log:
            ax.set_yscale("log")
            ax.set_ylim(floor, top * (top / floor) ** 0.15)
            ax.minorticks_off()
        else:
            ax.set_ylim(0, 1.15 * top)
        ax.yaxis.set_major_formatter(lambda value, _: number(value))
        ax.set_xticks(at, [f"{size:,} GPUs" for size in sizes])
        ax.grid(axis="x", visible=False)
        ax.tick_params(labelsize=8)
        panel_title(ax, title, left=True)
    for ax in list(axes.flat)[len(measures) :]:
        ax.set_visible(False)
    legend_below(figure, axes.flat[0], title=f"* {note}" if stars.to_numpy().any() else None)
    return figure
