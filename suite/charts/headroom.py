"""Room for flexible load by the share of its energy that it gives up."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from railcore.catalog import units
from suite.plotting import COLOURS, document_marks, legend_below, line_style, log_axis, panel_title, percent

_STUDY = "study of 2016 to 2024 (Norris et al. 2025)"
_TOLERANCE = 0.1  # above it ours differs


def headroom_by_curtailed_share(data: pd.DataFrame, published: pd.DataFrame, largest: int = 6) -> plt.Figure:
    """Flexible headroom over the curtailed share: (a) sum of the study's authorities, (b) those with the most.

    data: authority, share, headroom_w, record_headroom_w (below the peaks of nine years).
    published: quantity, authority ("" for the sum), share, published, error; its rows of headroom are hollow marks, in
    (b) in the authority's colour.
    largest: authorities in panel (b).
    """
    marks = published[published["quantity"] == "headroom"]
    codes = [code for code in marks["authority"] if code]
    part = data[data["authority"].isin(codes)]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
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
        right.plot(rows["share"], rows["headroom_w"] / units.GW, **line_style(i, label=code, color=colour))
        mark = marks[marks["authority"] == code]
        right.plot(mark["share"], mark["published"] / units.GW, "D", color=colour, markerfacecolor="none", markersize=8)
    panel_title(right, f"(b) The {len(most)} with the most room", left=True)
    for ax in (left, right):
        log_axis(ax.xaxis, sorted(data["share"].unique()), text=percent)
        ax.set(xlabel="energy that the load gives up in a year", ylabel="load that fits [GW]", ylim=(0, None))
    legend_below(figure, (left, right), columns=4, fontsize=8.5)
    figure.suptitle(
        "Load that fits below the seasons' peaks of demand, if it gives way in the highest hours", fontsize=11
    )
    return figure
