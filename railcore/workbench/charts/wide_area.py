"""Plots of the wide area: one flow under loss, how many fill the capacity, and what priority saves."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from railcore.facts import units
from railcore.workbench.plotting import COLOURS, lines, plain_axis

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")  # drawn more quickly than TeX exponents


def one_flow(data: "pd.DataFrame", needs: Mapping[str, float], ax: "Axes") -> "Axes":
    """Throughput of one flow against loss, a line for each path and law; what is needed as levels [bytes/s].

    Columns path, law, loss, ber, throughput_Bps. The upper axis has the bit error rate without correction.
    """
    _by_path(data.assign(gbps=data["throughput_Bps"] / units.Gbps), "gbps", ax)
    for name, rate in needs.items():
        level = rate / units.Gbps
        ax.axhline(level, color="black", linewidth=0.8)
        place: dict = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "va": "center"}
        ax.annotate(f"needed, {name}:\n{units.number(level, 3)} Gbps", (1, level), xytext=(4, 0), fontsize=8, **place)
    ax.set(ylabel="throughput of one flow [Gbps]", xlim=(data["loss"].min(), data["loss"].max()))
    plain_axis(ax.yaxis)
    ratio = (data["bit_error_rate"] / data["loss"]).min()
    above = ax.secondary_xaxis("top", functions=(lambda p: p * ratio, lambda b: b / ratio))
    for each in (ax, above):
        each.minorticks_off()
        each.xaxis.set_major_formatter(lambda value, _: "10" + f"{math.log10(value):.0f}".translate(RAISED))
    above.set_xlabel("bit error rate without error correction")
    ax.legend(loc="lower left")
    return ax


def waits(data: "pd.DataFrame", ax: "Axes") -> "Axes":
    """Mean wait of gradients against the load of other traffic, a line for each queue.

    Columns other_load, queue, wait_s, infinite beyond the load that a queue can carry, which a dashed line marks.
    """
    from matplotlib.ticker import LogLocator

    finite = data[data["wait_s"] < float("inf")]
    lines(finite.assign(nanoseconds=finite["wait_s"] / units.ns), "other_load", "nanoseconds", "queue", ax)
    ax.set(
        yscale="log", xlabel="load of other traffic, share of the link", ylabel="mean wait of a gradient packet [ns]"
    )
    for full in data.loc[data["wait_s"] == float("inf")].groupby("queue")["other_load"].min():
        ax.axvline(full, color="black", linestyle=(0, (2, 2)), linewidth=0.9, label="link full with the gradients")
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.minorticks_off()
    plain_axis(ax.yaxis)
    ax.legend(loc="upper left")
    return ax


def flow_and_waits(flow: "pd.DataFrame", needs: Mapping[str, float], queue: "pd.DataFrame") -> "Figure":
    """`one_flow` and `waits` side by side."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6))
    one_flow(flow, needs, left)
    waits(queue, right)
    left.set_title("(a) one flow over one path", fontsize=10, pad=8)
    right.set_title("(b) gradients beside other traffic", fontsize=10)
    return figure


def _by_path(data: "pd.DataFrame", y: str, ax: "Axes") -> None:
    """A colour for each path; laws one over the other, from broad and pale to narrow."""
    laws = list(data["law"].unique())
    for i, path in enumerate(data["path"].unique()):
        for j, law in enumerate(laws):
            part = data[(data["path"] == path) & (data["law"] == law)]
            last = j == len(laws) - 1
            look: dict = {"linewidth": 1.4 if last else 4.5, "alpha": 1.0 if last else 0.35}
            ax.plot(part["loss"], part[y], color=COLOURS[i], label=f"{law}, {path}", **look)
    ax.set(xscale="log", yscale="log", xlabel="packet loss")
