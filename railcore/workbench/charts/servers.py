"""Servers and what they are joined by: bandwidth inside, one-way delay over cables, GPUs that hold a model."""

import matplotlib.pyplot as plt
import pandas as pd

from railcore.facts.units import GB, number, us
from railcore.workbench import plotting
from railcore.workbench.plotting import COLOURS, legend_below, log_axis, panel_title, text_beside


def server_bandwidth_bars(data: pd.DataFrame) -> plt.Figure:
    """Bandwidth of a GPU by case, a bar for each server, with the links that limit it.

    Columns server, case, bandwidth_Bps, bottleneck.
    """
    cases, servers = list(data["case"].unique()), list(data["server"].unique())
    figure, (ax, right) = plt.subplots(1, 2, figsize=(10, 0.9 + 0.27 * len(data)), sharey=True, width_ratios=(3, 2))
    right.axis("off")
    step = 1 / (len(servers) + 0.8)
    least = data["bandwidth_Bps"].min() / GB / 2
    for i, (server, rows) in enumerate(data.groupby("server", sort=False)):
        places = [cases.index(case) + (i - (len(servers) - 1) / 2) * step for case in rows["case"]]
        speeds = rows["bandwidth_Bps"] / GB
        ax.barh(places, speeds - least, left=least, height=0.9 * step, color=COLOURS[i], label=server)
        for y, speed, bottleneck in zip(places, speeds, rows["bottleneck"], strict=True):
            words = f"{number(speed, 4)} GB/s: {bottleneck}"
            text_beside(right, words, (0, y), va="center", fontsize=7)
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
    ax.set_xlabel("of each GPU, one direction [GB/s]")
    panel_title(right, "bandwidth, and the links that limit it", left=True)
    legend_below(figure, ax)
    return figure


def delay_over_cables(data: pd.DataFrame, bound_s: float, halls: pd.DataFrame) -> plt.Figure:
    """One-way delay over the length of all cables, a line and a band for each path; the bound; cables of halls.

    Columns of data: path, cables_m, delay_s, low_s, high_s; of halls: racks, cables_m.
    """
    figure, ax = plt.subplots(figsize=(9.5, 5))
    for i, (path, part) in enumerate(data.groupby("path", sort=False)):
        ax.fill_between(part["cables_m"], part["low_s"] / us, part["high_s"] / us, color=COLOURS[i], alpha=0.15, lw=0)
        ax.plot(part["cables_m"], part["delay_s"] / us, **plotting.line_style(i, marker="", label=path, linewidth=2))
    ax.axhline(bound_s / us, color="black", linestyle="--", linewidth=1.2, label=f"bound, {number(bound_s / us)} us")
    for row in halls.itertuples():
        ax.axvline(row.cables_m, color=plotting.GREY, linestyle=":", linewidth=1.2)
        style: dict = {"xycoords": ("data", "axes fraction"), "rotation": 90, "ha": "right", "va": "top", "fontsize": 8}
        text_beside(ax, f"hall of {number(row.racks)} racks", (row.cables_m, 0.98), (-3, 0), **style)
    ax.set(xlabel="cables of the path, all together [m]", ylabel="one-way delay, unloaded [us]", ylim=(0, None))
    ax.set_xlim(0, data["cables_m"].max())
    legend_below(figure, ax, 3, title="bands: all latencies at their low to all at their high")
    return figure
