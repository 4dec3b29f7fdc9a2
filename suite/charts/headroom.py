"""Room for flexible load by the share of its energy that it gives up."""

from collections.abc import Mapping

import matplotlib.pyplot as plt
import pandas as pd

from railcore.catalog import units
from suite.plotting import COLOURS, document_marks, legend_below, line_style, log_axis, panel_title, percent

_STUDY = "study (Norris et al. 2025)"


def headroom_by_curtailed_share(
    data: pd.DataFrame, published: pd.DataFrame, largest: int = 6, names: Mapping[str, str] | None = None
) -> plt.Figure:
    """Flexible headroom over the curtailed share: (a) sum of the study's authorities, (b) those with the most.

    Parameters
    ----------
    data
        Columns authority, share, headroom_w, record_headroom_w (below the peaks of nine years).
    published
        Columns quantity, authority ("" for the sum), share, published, verdict; its rows of headroom are hollow marks,
        in (b) with the authority's code.
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
    document_marks(left, total["share"], total["published"] / units.GW, total["verdict"], label=_STUDY)
    panel_title(left, f"(a) {len(codes)} authorities together", left=True)
    most = part[part["share"] == part["share"].max()].nlargest(largest, "headroom_w")["authority"]
    for i, code in enumerate(most, start=2):
        rows = part[part["authority"] == code]
        style = line_style(i, label=names.get(code, code), color=COLOURS[i % len(COLOURS)])
        right.plot(rows["share"], rows["headroom_w"] / units.GW, **style)
        mark, shift = marks[marks["authority"] == code], (-9 if i % 2 else 9, 0)  # neighbours on the other side
        place = mark["share"], mark["published"] / units.GW
        document_marks(right, *place, mark["verdict"], text=code, shift=shift, label=_STUDY)
    panel_title(right, f"(b) the {len(most)} with the most room", left=True)
    for ax in (left, right):
        log_axis(ax.xaxis, sorted(data["share"].unique()), text=percent)
        ax.set(xlabel="energy that the load gives up in a year", ylabel="load that fits [GW]", ylim=(0, None))
    legend_below(figure, (left, right), columns=2, fontsize=8.5)
    figure.suptitle(
        "Load that fits below the seasons' peaks of demand, if it gives way in the highest hours", fontsize=11
    )
    return figure
