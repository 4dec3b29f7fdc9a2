"""Bandwidth inside of servers and to the network."""

import matplotlib.pyplot as plt
import pandas as pd

from railcore.catalog.units import GB, number
from suite.plotting import GREY, colours_of, legend_below, line_style, log_axis, panel_title, text_beside


def server_bandwidth_dots(data: pd.DataFrame, title: str = "") -> plt.Figure:
    """Bandwidth of a GPU by case, a dot for each server, with the links that limit it.

    data: columns server, case, bandwidth_Bps, bottleneck. title: of the figure.
    """
    cases, servers = list(data["case"].unique()), list(data["server"].unique())
    figure, (ax, right) = plt.subplots(1, 2, figsize=(10, 1.2 + 0.3 * len(data)), sharey=True, width_ratios=(9, 8))
    right.axis("off")
    colours = colours_of(servers)
    step = 1 / (len(servers) + 0.8)
    for i, (server, rows) in enumerate(data.groupby("server", sort=False)):
        places = [cases.index(case) + (i - (len(servers) - 1) / 2) * step for case in rows["case"]]
        speeds = rows["bandwidth_Bps"] / GB
        ax.plot(speeds, places, **line_style(i, "none", color=colours[server], markersize=8, label=server))
        for y, speed, bottleneck in zip(places, speeds, rows["bottleneck"], strict=True):
            words = f"{number(speed, 4)} GB/s: {bottleneck}"
            text_beside(right, words, (0, y), va="center", fontsize=8)
    ax.set_yticks(
        range(len(cases)),
        [
            case.replace(" to ", "\nto ", 1).replace(" at once", ",\nat once").replace(" over ", ",\nover ")
            for case in cases
        ],
    )
    ax.invert_yaxis()
    ax.set_xlim(data["bandwidth_Bps"].min() / GB / 1.3, 1.3 * data["bandwidth_Bps"].max() / GB)
    log_axis(ax.xaxis)
    ax.grid(visible=False, axis="y")
    for case in range(1, len(cases)):
        ax.axhline(case - 0.5, color=GREY, linewidth=0.6)
    ax.set_xlabel("bandwidth of each GPU, one direction [GB/s]")
    panel_title(right, "bandwidth, and the links that limit it", left=True)
    if title:
        figure.suptitle(title, fontsize=11, weight="bold", x=0.01, ha="left")
    legend_below(figure, ax)
    return figure
