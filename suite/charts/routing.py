"""How much longer an exchange with experts takes by routing, load and platform."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd

from suite.charts.heatmaps import heatmap
from suite.plotting import COLOURS, legend_below, panel_title, percent, percent_axis, text_beside

_PHASES = {"in turn": "one by one", "pipelined": "at once"}
_FACTOR = "NIC / HB\nbandwidth"
_NOTE = (
    "Below 0%, orange: faster than direct. Two-hop: HB domain first, then the rail; hierarchical: the rail first.\n"
    "One by one: the HB phase and the NIC phase after each other; at once: both at the same time."
)
_FORMULA = "\nNIC / HB bandwidth: the slowdown by the document's formula."


def longer_iterations(data: pd.DataFrame, title: str) -> plt.Figure:
    """How much longer an iteration takes, forwarded in two phases or in both at once: two bars for each platform.

    Columns platform, iteration, iteration_at_once.
    """
    figure, ax = plt.subplots(figsize=(10, 1.9 + 0.75 * len(data)))
    names = {
        "iteration": "HB domain and NIC one after the other",
        "iteration_at_once": "HB domain and NIC at once",
    }
    table = data.set_index("platform")[list(names)].rename(columns=names).rename_axis(None)
    table.plot.barh(ax=ax, color=[COLOURS[1], COLOURS[0]], width=0.7, legend=False)
    for lift, name in zip((-0.175, 0.175), table, strict=True):  # half of a bar
        for y, share in enumerate(table[name]):
            text_beside(ax, percent(share, 2), (share, y + lift), (4, 0), va="center", fontsize=10)
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.margins(x=0.1)
    percent_axis(ax.xaxis, "longer iteration on rail-only than on rail-optimized")
    figure.suptitle(title, fontsize=11)
    legend_below(figure, ax)
    return figure


def slowdown_by_routing(data: pd.DataFrame, title: str = "", document: Mapping[str, str] | None = None) -> plt.Figure:
    """A heat map for each load: how much longer than direct, platforms down, routings across; and B_NIC / B_HB.

    Parameters
    ----------
    data
        Columns load, platform, routing, phases, slowdown, bandwidth_ratio.
    title
        Of the figure.
    document
        Slowdown by the document, as text, of each platform that it has one of.

    Returns
    -------
    The figure.
    """
    loads = list(data["load"].unique())
    columns = min(len(loads), 2)
    rows = -(-len(loads) // columns)
    size = (10, 1.6 + rows * (0.9 + 0.38 * data["platform"].nunique()))
    figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, sharey=True)
    names = {name: f"{name}\n(document: {text})" for name, text in (document or {}).items()}
    cases = [f"{routing},\n{_PHASES[phases]}" for routing, phases in zip(data["routing"], data["phases"], strict=True)]
    most = data["slowdown"].abs().max() or 1.0
    for letter, load, ax in zip("abcd", loads, axes.flat, strict=False):
        part = data.assign(case=cases)[data["load"] == load]
        table = part.pivot_table("slowdown", "platform", "case", sort=False)
        table[_FACTOR] = part.groupby("platform")["bandwidth_ratio"].first()
        heatmap(table[::-1].rename(index=names), ax, "", -most, most, bar=False, digits=3)
        ax.set(xlabel="", ylabel="")
        ax.tick_params(axis="x", labelsize=8, rotation=0)
        ax.axvline(len(table.columns) - 1, color="black", linewidth=1.5)
        panel_title(ax, f"({letter}) {load}", left=True)
    figure.suptitle(title, fontsize=11)
    figure.supxlabel(_NOTE + (_FORMULA if document else ""), fontsize=9)
    return figure
