"""Intervals of modelled times against measured ones: coverage, width, and what own runs change."""

from collections.abc import Sequence
from itertools import product

import matplotlib.pyplot as plt
import pandas as pd

from suite import plotting
from suite.colours import BAND
from suite.plotting import COLOURS, GREY, MARKERS, legend_below, line_style, log_axis, percent_axis, text_beside

_STATED = 0.9  # share that panel (b) is about
_BAND = 0.85, 0.95  # that the share held should be in
_SEEN = "runs predicted: looked at while the model was built, or kept aside until then"
_LARGEST_ERROR = 0.4  # of a page; what is beyond stands at the edge


def coverage_and_width(data: pd.DataFrame, methods: Sequence[str], title: str) -> plt.Figure:
    """(a) share of runs inside over the share stated, of one method; (b) share inside and width of 90% intervals.

    data: columns kind, method, seen, share, held, width; rows of the first value of seen are drawn. methods: the one of
    (a) first. A colour for each kind, a marker for each method.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 5.0))
    colours = dict(zip(data["kind"].unique(), COLOURS, strict=False))
    data = data[data["seen"] == data["seen"].iloc[0]]
    left.plot([0, 1], [0, 1], color="black", linewidth=0.8)
    left.plot([_STATED] * 2, _BAND, color=GREY, linewidth=7, alpha=0.5, solid_capstyle="butt")
    lines = data[data["method"] == methods[0]]
    for i, (kind, rows) in enumerate(lines.groupby("kind", sort=False)):
        left.plot(rows["share"], rows["held"], **line_style(i, markersize=4, color=colours[kind], label=kind))
        left.get_lines()[-1].set_marker("o")
    left.set(xlim=(0, 1), ylim=(0, 1))
    percent_axis(left.xaxis, "share that the interval should hold")
    percent_axis(left.yaxis, "share of runs that it holds")
    plotting.panel_title(left, f"(a) our intervals, {methods[0]}", left=True)
    right.axvspan(*_BAND, color=BAND, zorder=0)
    marks = data[data["share"] == _STATED].dropna(subset=["held"])
    for row in marks.itertuples():
        style: dict = {"marker": MARKERS[methods.index(row.method)], "color": colours[row.kind], "markersize": 9}
        right.plot(row.held, row.width, linestyle="none", alpha=0.85, **style)
    log_axis(
        right.yaxis,
        [value for value in (0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5) if value < 1.3 * marks["width"].max()],
        text=lambda value: plotting.percent(value),
    )
    right.set(ylabel="median width of the 90% interval, high / low - 1")
    percent_axis(right.xaxis, "share of runs that it holds")
    plotting.panel_title(right, "(b) intervals of 90%; grey: they hold 85 to 95%", left=True)
    names: dict = {kind: plt.Line2D([], [], color=colour) for kind, colour in colours.items()}
    for method, marker in zip(methods, MARKERS, strict=False):
        names[f"(b) {method}"] = plt.Line2D([], [], linestyle="none", marker=marker, color="black")
    figure.suptitle(title, fontsize=10)
    figure.legend([*names.values()], [*names], loc="outside lower center", ncols=2, fontsize=9)
    return figure


def errors_after_own_runs(data: pd.DataFrame, title: str) -> plt.Figure:
    """(a) errors of pages before and after one own run, by likeness; (b) mean error and width over how many own runs.

    data: columns likeness, own_runs, seen, before, after, width_after, a row for each page. Rows of (a) have one own
    run and no draw; a likeness with 0 own runs is that of (b). In (a) the mean of all pages is a black mark.
    """
    drawn = data["likeness"].isin(data.loc[data["own_runs"] == 0, "likeness"])
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.8), width_ratios=(1.5, 1))
    names, seen = list(dict.fromkeys(data.loc[~drawn, "likeness"])), list(dict.fromkeys(data["seen"]))
    for y, (name, when) in enumerate(product(names, ("before", "after"))):
        rows = data[~drawn & (data["likeness"] == name)]
        for i, kind in enumerate(seen):
            errors = rows.loc[rows["seen"] == kind, when]
            level = y + 0.22 * (i - 0.5 * (len(seen) - 1))
            for beyond, part in errors.groupby(errors > _LARGEST_ERROR):
                style = line_style(i, "", markersize=5, alpha=0.5, clip_on=False)
                style |= {"marker": ">"} if beyond else {}
                left.plot(part.clip(upper=_LARGEST_ERROR), [level] * len(part), **style)
        mean = rows[when].mean()
        left.plot([mean], [y], "|", color="black", markersize=18, markeredgewidth=2)
        place: dict = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8}
        text_beside(left, plotting.percent(mean, 2), (1.02, y), **place)
    rows_of = [f"{name}\n{when}" if when == "before" else when for name, when in product(names, ("before", "after"))]
    left.set_yticks(range(len(rows_of)), rows_of, fontsize=8)
    left.set(ylim=(len(rows_of) - 0.5, -0.5), xlim=(0, _LARGEST_ERROR))
    for i, kind in enumerate(seen):
        left.plot([], [], **line_style(i, "", markersize=5, alpha=0.5, label=f"(a) a page, {kind}"))
    left.plot([], [], "k|", markersize=9, markeredgewidth=2, label="(a) mean of all pages, number at the right")
    left.plot([], [], ">", color=GREY, label=f"(a) beyond {plotting.percent(_LARGEST_ERROR)}")
    percent_axis(left.xaxis, "mean absolute error of a page's other runs")
    plotting.panel_title(left, "(a) one own run, by what it shares with the run predicted", left=True)
    for i, kind in enumerate(seen):
        rows = data[drawn & (data["seen"] == kind)]
        means = rows.groupby("own_runs")[["after", "width_after"]].mean()
        plain = rows.loc[rows["own_runs"] == 0, "before"].mean()
        style = line_style(i, markersize=6)
        right.plot(means.index, means["after"], **style, label=f"error, {kind}")
        right.axhline(plain, color=style["color"], linestyle=":", linewidth=1.2, label=f"uncorrected, {kind}")
        right.plot(means.index, means["width_after"], **style | {"linestyle": "--"}, label=f"width, {kind}")
    log_axis(right.yaxis, [0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1], text=plotting.percent)
    right.set(xlabel="own runs, any of the page")
    right.set_ylabel("mean absolute error; width of the 90% interval", fontsize=9)
    right.set_xticks(sorted(data.loc[drawn, "own_runs"].unique()))
    plotting.panel_title(right, "(b) more own runs", left=True)
    figure.suptitle(title, fontsize=10)
    legend_below(figure, (right, left), 3, fontsize=8, title=_SEEN, title_fontsize=9)
    return figure
