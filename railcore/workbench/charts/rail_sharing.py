"""Rails that share: all-to-all that passes through other ranks, jobs on one circuit switch, rails with failed parts."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from railcore.facts import units
from railcore.workbench import plotting
from railcore.workbench.plotting import COLOURS, legend_below, log_axis, panel_title

_FAILURE_COLOURS = {"none": "#B8B8B8", "port": COLOURS[0], "switch of a rail": COLOURS[1]}


def all_to_all_slowdowns(by_ranks: pd.DataFrame, by_size: pd.DataFrame) -> plt.Figure:
    """Time of an all-to-all over that on electrical rails, against (a) ranks and (b) bytes, a line for each way.

    Both as `photonic_routing.all_to_all_ways` has them: columns message_bytes, ranks, way, slowdown. The first has one
    message, the second one number of ranks.
    """
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), sharey=True)
    for ax, data, x in zip(axes, (by_ranks, by_size), ("ranks", "message_bytes"), strict=True):
        plotting.plot_lines(data[data["way"] != "electrical rails"], x, "slowdown", "way", ax, nested=True)
        ax.axhline(1, color="black", linestyle=":", linewidth=1.2, label="electrical rails")
        ax.set_xscale("log")
        log_axis(ax.yaxis)
    sizes = sorted(by_ranks["ranks"].unique())
    axes[0].set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes[0].set_xlabel("ranks of a rail in the exchange")
    messages = sorted(by_size["message_bytes"].unique())
    axes[1].set_xticks(messages, [units.show(size, "B") for size in messages])
    axes[1].set_xlabel("bytes that a rank sends")
    for ax in axes:
        ax.minorticks_off()
    axes[0].set_ylabel("time over electrical rails")
    panel_title(axes[0], f"(a) {units.show(by_ranks['message_bytes'].iloc[0], 'B')} a rank", left=True)
    panel_title(axes[1], f"(b) {by_size['ranks'].iloc[0]:,} ranks", left=True)
    legend_below(figure, axes[0], 4)
    return figure


def job_slowdowns_and_failures(jobs: pd.DataFrame, failures: pd.DataFrame) -> plt.Figure:
    """(a) Slowdown of jobs on the same circuit switches by the start of the last; (b) iteration time with failed parts.

    jobs: columns network, start_s, slowdown, a line for each network with its slowest job. failures: columns way,
    ports, failure, iteration_s, a group of bars for each way and number of ports.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6), width_ratios=(1, 1.25))
    worst = jobs.groupby(["network", "start_s"], sort=False)["slowdown"].max().reset_index()
    plotting.plot_lines(worst, "start_s", "slowdown", "network", left, nested=True)
    left.set(xlabel="start of the second job after the first [s]", ylabel="iteration time over that alone")
    left.legend(fontsize=8.5)
    left.margins(y=0.3)
    bars = failures.pivot_table(index=["way", "ports"], columns="failure", values="iteration_s", sort=False)
    place, width = np.arange(len(bars)), 0.8 / len(bars.columns)
    for i, failure in enumerate(bars.columns):
        colour = _FAILURE_COLOURS.get(failure, COLOURS[i])
        at = place + (i - (len(bars.columns) - 1) / 2) * width
        right.bar(at, bars[failure], width, color=colour, label=f"failed: {failure}")
    right.set_xticks(place, [f"{way},\n{ports} ports" for way, ports in bars.index], fontsize=8.5)
    right.set(ylabel="iteration time [s]", ylim=(0, 1.25 * bars.to_numpy().max()))
    right.grid(axis="x", visible=False)
    right.legend(fontsize=8.5, ncols=3, loc="upper left")
    for ax, title in ((left, "(a) two jobs on the same circuit switches"), (right, "(b) one part of the fabric fails")):
        panel_title(ax, title, left=True)
    return figure
