"""Networks of a cluster side by side: bandwidth of a GPU in each."""

import matplotlib.pyplot as plt
import pandas as pd

from railcore.catalog.units import Gbps, show
from suite.plotting import COLOURS, legend_below, log_axis, text_beside

_CASES = {"alone_Bps": "a GPU that sends alone", "gpu_Bps": "each GPU while all of its node send"}


def network_bandwidth_bars(table: pd.DataFrame, title: str = "") -> plt.Figure:
    """Bandwidth of a GPU in each network of a cluster, alone and while all GPUs of its node send.

    Columns network, nic, alone_Bps, gpu_Bps.
    """
    figure, ax = plt.subplots(figsize=(9, 0.9 + 0.62 * len(table)))
    least = table["gpu_Bps"].min() / Gbps / 2
    for i, (column, label) in enumerate(_CASES.items()):
        speeds = table[column] / Gbps
        places = [y + 0.38 * (i - 0.5) for y in range(len(table))]
        ax.barh(places, speeds - least, left=least, height=0.36, color=COLOURS[i], label=label)
        for y, speed in zip(places, table[column], strict=True):
            text_beside(ax, show(speed, "bps", 4), (speed / Gbps, y), (3, 0), va="center", fontsize=8)
    ax.set_yticks(range(len(table)), [f"{row.network}\n{row.nic}" for row in table.itertuples()])
    ax.invert_yaxis()
    ax.grid(visible=False)
    log_axis(ax.xaxis)
    ax.set_xlim(least, 6 * table["alone_Bps"].max() / Gbps)
    ax.set_xlabel("bandwidth of a GPU, one direction [Gbps]")
    if title:
        ax.set_title(title, fontsize=10, loc="left")
    legend_below(figure, ax)
    return figure
