"""Bandwidth inside of servers and to the network."""

import matplotlib.pyplot as plt
import pandas as pd

from railcore.catalog.units import GB, number
from suite.plotting import colours_of, legend_below, log_axis, panel_title, text_beside


def server_bandwidth_bars(data: pd.DataFrame, title: str = "") -> plt.Figure:
    """Bandwidth of a GPU by case, a bar for each server, with the links that limit it.

    data: columns server, case, bandwidth_Bps, bottleneck. title: of the figure.
    """
    cases, servers = list(data["case"].unique()), list(data["server"].unique())
    figure, (ax, right) = plt.subplots(1, 2, figsize=(10, 1.2 + 0.3 * len(data)), sharey=True, width_ratios=(9, 8))
    right.axis("off")
    colours = colours_of(servers)
    step = 1 / (len(servers) + 0.8)
    least = data["bandwidth_Bps"].min() / GB / 2
    for i, (server, rows) in enumerate(data.groupby("server", sort=False)):
        places = [cases.index(case) + (i - (len(servers) - 1) / 2) * step for case in rows["case"]]
        speeds = rows["bandwidth_Bps"] / GB
        ax.barh(places, speeds - least, left=least, height=0.9 * step, color=colours[server], label=server)
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
    ax.grid(visible=False)
    log_axis(ax.xaxis)
    ax.set_xlim(least, 1.2 * data["bandwidth_Bps"].max() / GB)
    ax.set_xlabel("bandwidth of each GPU, one direction [GB/s]")
    panel_title(right, "bandwidth, and the links that limit it", left=True)
    if title:
        figure.suptitle(title, fontsize=11, weight="bold", x=0.01, ha="left")
    legend_below(figure, ax)
    return figure
