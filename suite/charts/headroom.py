"""Room for flexible load by the share of its energy that it gives up."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from railcore.catalog import units
from suite.plotting import COLOURS, document_marks, legend_below, line_style, log_axis, panel_title, percent

_STUDY = "study of 2016 to 2024 (Norris et al. 2025)"
_TOLERANCE = 0.1  # above it ours differs


def headroom_by_curtailed_share(
    data: pd.DataFrame, published: pd.DataFrame, largest: int = 6, names: Mapping[str, str] | None = None
) -> plt.Figure:
    """Flexible headroom over the curtailed share: (a) sum of the study's authorities, (b) those with the most.

    Parameters
    ----------
    data
        Columns authority, share, headroom_w, record_headroom_w (below the peaks of nine years).
    published
        Columns quantity, authority ("" for the sum), share, published, error; its rows of headroom are hollow marks,
        in (b) in the authority's colour.
    largest, names
        Authorities in panel (b), and their names by code.

    Returns
    -------
    The figure.
    """
    names = names or {}
    marks = published[published["quantity"] == "headroom"]
    codes = [code for code in marks["authority"] if code]
    part = data[data["authority"].isin(codes)]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 5.2), layout="constrained")
    sums = part.groupby("share")[["headroom_w", "record_headroom_w"]].sum() / units.GW
    left.plot(sums.index, sums["headroom_w"], **line_style(0, label="hours and peaks of two years"))
    left.plot(sums.index, sums["record_headroom_w"], **line_style(1, "--", label="hours of two years, peaks of nine"))
    total = marks[marks["authority"] == ""]
    verdicts = np.where(total["error"].abs() > _TOLERANCE, "differs", "close")
    document_marks(left, total["share"], total["published"] / units.GW, verdicts, label=_STUDY)
    panel_title(left, f"(a) {len(codes)} authorities together", left=True)
    most = part[part["share"] == part["share"].max()].nlargest(largest, "headroom_w")["authority"]
    for i, code in enumerate(most, start=2):
        rows = part[part["authority"] == code]
        colour = COLOURS[i % len(COLOURS)]
        style = line_style(i, label=names.get(code, code), color=colour)
        right.plot(rows["share"], rows["headroom_w"] / units.GW, **style)
        mark = marks[marks["authority"] == code]
        right.plot(mark["share"], mark["published"] / units.GW, "D", color=colour, markerfacecolor="none", markersize=8)
    right.plot([], [], "D", color="0.4", markerfacecolor="none", markersize=8, label="(b) the study, by colour")
    panel_title(right, f"(b) the {len(most)} with the most room", left=True)
    for ax in (left, right):
        log_axis(ax.xaxis, sorted(data["share"].unique()), text=percent)
        ax.set(xlabel="energy that the load gives up in a year", ylabel="load that fits [GW]", ylim=(0, None))
    legend_below(figure, (left, right), columns=2, fontsize=8.5)
    figure.suptitle(
        "Load that fits below the seasons' peaks of demand, if it gives way in the highest hours", fontsize=11
    )
    return figure
