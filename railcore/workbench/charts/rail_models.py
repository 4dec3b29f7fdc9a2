"""Rail switches, and what they cost, by how many rails share one."""

import matplotlib.pyplot as plt
import pandas as pd

from railcore.workbench import plotting
from railcore.workbench.plotting import COLOURS, GREY


def switches_by_rail_model(data: pd.DataFrame, title: str = "") -> plt.Figure:
    """(a) switches and (b) their CapEx with host links over the NIC ports of a rail, a line for each model.

    Grey: sizes at which two models take as many switches. Columns model, ports_per_rail, switches, total_usd, rises.
    """
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2))
    panels = {"switches": ("(a) rail switches", 1.0), "total_usd": ("(b) switches and host links [thousand USD]", 1e-3)}
    sizes = sorted(data["ports_per_rail"].unique())
    ties = data[~data["rises"]]["ports_per_rail"].unique()
    markers = dict(zip(data["model"].unique(), "osD", strict=False))
    for ax, (column, (name, factor)) in zip(axes, panels.items(), strict=True):
        for size in ties:
            ax.axvspan(size - 0.5, size + 0.5, color=GREY, alpha=0.25, linewidth=0)
        for i, (model, part) in enumerate(data.groupby("model", sort=False)):
            line = {"drawstyle": "steps-mid", "marker": markers[model], "color": COLOURS[i]}
            line |= {"markersize": 7.5 - 2 * i, "linewidth": 3.5 - i}  # lines that fall together stay visible
            ax.plot(part["ports_per_rail"], factor * part[column], label=model, **line)
        ax.set(xlabel="NIC ports of a rail", xlim=(min(sizes) - 0.5, max(sizes) + 0.5), xticks=sizes[3::4])
        ax.set_ylim(0, None)
        plotting.panel_title(ax, name)
    axes[0].axvspan(-2, -1, color=GREY, alpha=0.25, linewidth=0, label="two models take as many switches")
    plotting.legend_below(figure, axes[0], title=title)
    return figure
