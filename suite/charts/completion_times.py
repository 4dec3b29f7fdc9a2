"""Completion times of flows: by transport, load and paths, over seeds, beside published runs and printed values."""

from collections.abc import Mapping, Sequence
from string import ascii_lowercase

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.colors import to_hex

from railcore.catalog import units
from railcore.catalog.units import number
from suite import plotting
from suite.colours import BAND, VERDICTS
from suite.plotting import COLOURS, GREY, heat_colours, legend_below, log_axis, panel_title, percent_axis

_OPTIMUM: dict = {"color": "black", "linestyle": ":", "linewidth": 1.3}
_STATISTICS = {"mean": "mean of the flows", "p99": "99th percentile", "last": "last flow"}
_LABELS = {"single path": "best effort, single path"}
_NEAR = 1.5  # times the optimum: what ends earlier is named on the left of its line
_FEW = 1e-5  # share of packets sent again; less is drawn there


def _styles(names: Sequence[str]) -> dict[str, dict]:
    """Line, marker and colour of each transport. Of one colour, the first is solid and the others are dashed."""
    colours, styles = plotting.colours_of(names), {}
    for i, (name, colour) in enumerate(colours.items()):
        earlier = list(colours.values())[:i].count(colour)
        styles[name] = plotting.line_style(i, ("-", "--", ":")[earlier % 3], color=colour)
    return styles


def _over_seeds(data: pd.DataFrame, by: Sequence[str], value: str) -> pd.DataFrame:
    """Least, median and most of a value over its seeds, in the order of the data."""
    parts = data.groupby(list(by), sort=False)[value]
    return parts.agg(least="min", median="median", most="max").reset_index()


def _seeds(data: pd.DataFrame) -> str:
    """How many seeds the transports have: "20; NDP 3"."""
    counts = data.groupby("transport", sort=False)["seed"].nunique()
    most = counts.max()
    return "; ".join([str(most), *(f"{name} {count}" for name, count in counts.items() if count < most)])


def lines_over_seeds(data: pd.DataFrame, x: str, y: str, by: str, ax: plt.Axes) -> plt.Axes:
    """A line of medians over seeds with a band from the least to the most, for each value of a column.

    Parameters
    ----------
    data, x, y
        Table with a row for each seed, and its columns along the axes.
    by
        Column with a line for each value.
    ax
        Where to draw.

    Returns
    -------
    The axes.
    """
    styles = _styles(list(data[by].unique()))
    for name, part in data.groupby(by, sort=False):
        style = styles[str(name)]
        over = _over_seeds(part, [x], y).sort_values(x)
        ax.fill_between(over[x], over["least"], over["most"], color=style["color"], alpha=0.15, linewidth=0)
        ax.plot(over[x], over["median"], label=name, **style)
    return ax


def completion_time_curves(
    shares: pd.DataFrame, last: pd.DataFrame, document: pd.DataFrame, title: str = ""
) -> plt.Figure:
    """(a) Share of flows that are complete over time, median of the seeds; (b) last flow of each seed.

    Parameters
    ----------
    shares
        Columns transport, seed, share (of the flows that are complete), time_s; lines between them.
    last
        Columns transport, seed, last_s, optimum_s.
    document
        Marks of the last flow: columns transport, time_s, relation, verdict, text.
    title
        Of both panels.

    Returns
    -------
    The figure.
    """
    names = list(last["transport"].unique())
    styles = _styles(names)
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(10, 7), sharex=True, height_ratios=(1.25, 1))
    figure.suptitle(title, fontsize=11)
    optimum_ms = 1e3 * last["optimum_s"].median()
    for ax in (upper, lower):
        ax.axvline(optimum_ms, **_OPTIMUM)
    parts = {name: shares[shares["transport"] == name] for name in names}
    curves = {name: 1e3 * part.groupby("share")["time_s"].median() for name, part in parts.items()}
    for name, curve in curves.items():
        upper.plot(
            curve, curve.index, linewidth=2, **{**styles[name], "linestyle": "-", "marker": ".", "markersize": 7}
        )
    _names_of_curves(upper, curves, optimum_ms)
    percent_axis(upper.yaxis, "share of the flows that are complete")
    upper.set_ylim(0, 1.02)
    rows = {name: len(names) - i for i, name in enumerate(["optimum", *names])}
    small: dict = {"va": "center", "fontsize": 9}
    plotting.text_beside(lower, f"{number(optimum_ms, 3)} ms", (optimum_ms, rows["optimum"]), (14, 0), **small)
    for name, part in last.groupby("transport", sort=False):
        times = part["last_s"].to_numpy() * 1e3
        dots = {**styles[name], "linestyle": "none", "alpha": 0.65}
        lower.plot(np.sort(times), rows[name] + np.linspace(-0.2, 0.2, len(times) + 2)[1:-1], **dots)
        middle = float(np.median(times))
        lower.plot([middle, middle], [rows[name] - 0.3, rows[name] + 0.3], color=styles[name]["color"], linewidth=2)
        there = document.loc[document["transport"] == name, "time_s"] * 1e3
        words = "median " * (len(times) > 1) + f"{number(middle, 3)} ms"
        plotting.text_beside(lower, words, (max([times.max(), *there]), rows[name]), (12, 0), **small)
    for row in document[document["transport"].isin(rows)].itertuples():
        place, near = (row.time_s * 1e3, rows[row.transport]), row.time_s * 1e3 < _NEAR * optimum_ms
        shift = (-24 if row.relation == "<" else -9, 0) if near else (0, 11)  # left of an arrow, or over the mark
        plotting.document_marks(lower, *place, row.verdict, row.relation, "x", row.text, shift)
    lower.set_yticks(list(rows.values()), [_LABELS.get(name, name) for name in rows])
    lower.grid(axis="y", visible=False)
    most = max(last["last_s"].max(), document["time_s"].max()) * 1e3 / optimum_ms
    log_axis(lower.xaxis, [tick for tick in (1, 1.5, 2, 3, 5, 7, 9, 12, 20) if optimum_ms * 0.9 <= tick])
    ends = (0.52 * optimum_ms, 1.75 * most * optimum_ms)
    lower.set(xlim=ends, ylim=(-0.6, len(rows) - 0.4), xlabel="completion time [ms]")
    upper.tick_params(labelbottom=True)
    panel_title(upper, "(a) all flows, median of the seeds; straight between stored shares (dots)", left=True)
    panel_title(lower, f"(b) last flow: a mark for each seed ({_seeds(last)}), a bar at their median", left=True)
    if lower.get_legend_handles_labels()[1]:
        legend_below(figure, lower)
    return figure


def _names_of_curves(ax: plt.Axes, curves: Mapping[str, pd.Series], optimum_ms: float) -> None:
    """Names of curves by time [ms]: of those near the optimum one below the other left of it, of others beside them."""
    near = ["optimum", *(name for name, curve in curves.items() if curve.iloc[-1] < _NEAR * optimum_ms)]
    colours = {"optimum": "black"} | plotting.colours_of(curves)
    for i, name in enumerate(near):
        share = 0.92 - 0.18 * i
        x = float(np.interp(share, curves[name].index, curves[name])) if name in curves else optimum_ms
        line = {"arrowstyle": "-", "color": colours[name], "linewidth": 0.9}
        place: dict = {"xytext": (0.95 * optimum_ms, share), "va": "center", "ha": "right", "arrowprops": line}
        ax.annotate(_LABELS.get(name, name), (x, share), color=colours[name], **place)
    for i, name in enumerate(name for name in curves if name not in near):
        share, shift, side = (0.68, 7, "left") if i else (0.83, -7, "right")  # of the first on its left, where room is
        at = (float(np.interp(share, curves[name].index, curves[name])), share)
        plotting.text_beside(ax, _LABELS.get(name, name), at, (shift, 0), color=colours[name], ha=side, va="center")


def tail_by_load(data: pd.DataFrame, optimum_s: float, title: str = "") -> plt.Figure:
    """Completion time of the last flow against the share of hosts that send, a line for each transport.

    data: columns transport, load, seed, last_s; optimum_s: of one flow alone [s].
    """
    figure, ax = plt.subplots(figsize=(10, 5))
    ax.set_title(title, fontsize=11)
    shown = data.assign(last_us=data["last_s"] * 1e6)
    lines_over_seeds(shown, "load", "last_us", "transport", ax)
    ax.hlines(1e6 * optimum_s, 0, shown["load"].max(), colors="black", linestyles=":", linewidth=1.3)
    styles, full = _styles(list(data["transport"].unique())), shown[shown["load"] == shown["load"].max()]
    ends = full.groupby("transport", sort=False)["last_us"].median().sort_values()
    ends = pd.concat([pd.Series({"optimum": 1e6 * optimum_s}), ends]).sort_values(kind="stable")
    apart = 0.052 * shown["last_us"].max()
    at = ends.iloc[0] - 1.8 * apart  # the first below its line
    for name, end in ends.items():
        at = max(end, at + apart) if name != ends.index[0] else at + apart
        colour = styles[name]["color"] if name in styles else "black"
        line = {"arrowstyle": "-", "color": colour, "linewidth": 0.8}
        place: dict = {"xytext": (1.03 * full["load"].iloc[0], at), "va": "center", "arrowprops": line}
        ax.annotate(_LABELS.get(str(name), str(name)), (full["load"].iloc[0], end), color=colour, **place)
    ax.set(ylim=(0, 1.04 * shown["last_us"].max()), xlim=(0, 1.29 * full["load"].iloc[0]))
    ax.set_xticks(sorted(data["load"].unique()))
    percent_axis(ax.xaxis, "share of the hosts that send")
    ax.set_ylabel("completion time of the last flow [µs]")
    ax.yaxis.set_major_formatter(lambda value, _: number(value))
    unit_us = 1e6 * optimum_s
    over = ax.secondary_yaxis("right", functions=(lambda y: np.divide(y, unit_us), lambda y: np.multiply(y, unit_us)))
    over.set_ylabel("times the optimum")
    over.set_yticks(range(0, int(1.04 * shown["last_us"].max() / unit_us) + 1, 2))  # none beyond the axis
    (middle,) = ax.plot([], [], color=GREY, marker="o")
    band = ax.fill_between([], [], [], color=GREY, alpha=0.25)
    names = [f"median of the seeds ({_seeds(data)})", "from the least to the most of the seeds"]
    ax.legend([middle, band], names, loc="upper left")
    return figure


def slowdowns_beside_reference(data: pd.DataFrame) -> plt.Figure:
    """Slowdown of each transport beside runs of a public simulator, a panel for each statistic.

    data: columns transport, hosts, statistic, reference, reference_low, reference_high, and a row for each model:
    model, ours, ours_low, ours_high.
    """
    rows = data[["transport", "hosts"]].drop_duplicates().itertuples(index=False)
    place = {(row.transport, row.hosts): -i for i, row in enumerate(rows)}
    figure, parts = plotting.panels(data, "statistic", (3.3, 2.1 + 0.42 * len(place)), sharey=True)
    models = list(data["model"].unique())
    for i, (statistic, part, ax) in enumerate(parts):
        for row in part.drop_duplicates(["transport", "hosts"]).itertuples():
            y = place[row.transport, row.hosts]
            ax.plot([row.reference_low, row.reference_high], [y, y], color="#CFCFCF", linewidth=9, zorder=1)
            ax.plot([row.reference] * 2, [y - 0.22, y + 0.22], color="black", linewidth=1.6, zorder=2)
        for j, model in enumerate(models):
            mine = part[part["model"] == model]
            shift = 0.13 * (j - (len(models) - 1) / 2)
            rows_at = [place[key] + shift for key in zip(mine["transport"], mine["hosts"], strict=True)]
            ax.hlines(rows_at, mine["ours_low"], mine["ours_high"], color=COLOURS[j], linewidth=1.5, zorder=3)
            ours: dict = {"zorder": 4, "label": f"ours, {model}: mean, and 5th to 95th percentile of the seeds"}
            ax.plot(mine["ours"], rows_at, **plotting.line_style(j, "none", **ours))
        log_axis(ax.xaxis, [1, 1.2, 1.5, 2, 2.5] if part["reference_high"].max() < 3 else [1, 1.5, 2, 3, 4, 5, 6, 8])
        ax.set_xlabel("times the optimum")
        panel_title(ax, f"({ascii_lowercase[i]}) {_STATISTICS.get(statistic, statistic)}", left=True)
        if not i:
            ax.set_yticks(list(place.values()), [f"{name}, {hosts:,} hosts" for name, hosts in place])
            ax.set_ylim(min(place.values()) - 0.6, 0.6)
    first = figure.axes[0]
    first.plot([], [], color="#CFCFCF", linewidth=9, label="simulator's runs: least to most")
    first.plot([], [], color="black", linewidth=1.6, label="their mean")
    legend_below(figure, first, 2)
    return figure


def errors_beside_baselines(data: pd.DataFrame, names: Mapping[str, str], allowed: Mapping[str, float]) -> plt.Figure:
    """(a) How large the errors are, for a model and its baselines; (b) packets sent again; (c) last flow by group.

    Parameters
    ----------
    data
        A row for each published run: columns of `names`, last_error (ours over theirs, less 1), rule, control,
        retransmitted_share and ours_retransmitted_share (of the packets).
    names
        Columns of the errors, and what each is.
    allowed
        Error that each group is allowed, in the order of its rows.

    Returns
    -------
    The figure.
    """
    figure = plt.figure(figsize=(10, 8))
    grid = figure.add_gridspec(2, 2)
    left, right, middle = (figure.add_subplot(place) for place in (grid[0, 0], grid[0, 1], grid[1, :]))
    for i, (column, name) in enumerate(names.items()):
        errors = np.sort(data[column].to_numpy(float))
        label = f"{name}: median {plotting.percent(float(np.median(errors)))}"
        shares = np.arange(1, len(errors) + 1) / len(errors)
        left.plot(np.maximum(errors, 1e-3), shares, label=label, **{**plotting.line_style(i), "marker": ""})
    left.set_xlim(1e-3, 10)
    log_axis(left.xaxis, [1e-3, 1e-2, 0.1, 1, 10], text=plotting.percent)
    left.set_xlabel("error of (last flow - optimum), of the published value")
    percent_axis(left.yaxis, f"share of the {len(data)} runs")
    left.legend(fontsize=8, loc="upper left")
    groups = {rule: data[data["rule"] == rule] for rule in allowed}
    groups["other runs, without a bound"] = data[~data["rule"].isin(allowed)]
    groups = {name: part for name, part in groups.items() if len(part)}
    for i, (name, part) in enumerate(groups.items()):
        errors = part["last_error"].to_numpy(float)
        places = -i + 0.5 * (np.arange(len(errors)) / max(1, len(errors) - 1) - 0.5)
        if name in allowed:
            ends = (-allowed[name], allowed[name])
            middle.fill_betweenx([-i - 0.4, -i + 0.4], *ends, color="#E8E8E8", zorder=0)
        middle.plot(errors, places, **{**plotting.line_style(i, "none"), "markersize": 3, "alpha": 0.7})
    middle.axvline(0, color="black", linewidth=0.8)
    labels = [f"{name}\n({units.counted(len(part), 'runs')})" for name, part in groups.items()]
    labels = [label.replace("nscc", "NSCC").replace("rccc", "RCCC") for label in labels]
    middle.set_yticks([-i for i in range(len(labels))], labels)
    middle.tick_params(axis="y", labelsize=8)
    middle.grid(axis="y", visible=False)
    percent_axis(middle.xaxis, "our last flow over the published one, less 1; grey: allowed")
    ticks = [_FEW, 1e-4, 1e-3, 1e-2, 0.1, 1]
    right.plot([_FEW, 2], [_FEW, 2], color="black", linewidth=0.8)
    for i, (control, part) in enumerate(data.groupby("control", sort=False)):
        shares = np.maximum(part[["retransmitted_share", "ours_retransmitted_share"]].to_numpy(float), _FEW)
        style = plotting.line_style(i, "none", label=str(control).upper(), alpha=0.7)
        right.plot(*shares.T, **{**style, "markersize": 3})
    for axis, whose in ((right.xaxis, "published"), (right.yaxis, "ours")):
        log_axis(axis, ticks, text=lambda share: "less" if share == _FEW else plotting.percent(share))
        axis.set_label_text(f"packets sent again, {whose}")
    right.legend(fontsize=8, loc="upper left")
    panel_title(left, "(a) errors of the model and of two baselines", left=True)
    panel_title(middle, "(c) by kind of run, a mark each", left=True)
    panel_title(right, "(b) packets sent again, as a share", left=True)
    return figure


def last_flow_chances(
    loads: pd.DataFrame,
    chances: pd.DataFrame,
    settings: pd.DataFrame,
    unit_s: float,
    document: pd.DataFrame,
    transports: tuple[str, str] = ("single path", "RoCEv2"),
) -> plt.Figure:
    """(a) How often the most loaded link has so many flows; (b) last flow of each seed by pause thresholds.

    Parameters
    ----------
    loads, chances
        A column load with a row for each draw of the hash; columns load and chance (of at most this load).
    settings
        Columns setting (in the order of the axis), slowdown (a row for each seed).
    unit_s
        Time that one flow keeps a link busy [s].
    document
        Marks of the last flow: columns transport, time_s, verdict, text; those of the panels are drawn as lines.
    transports
        Of (a) and of (b).

    Returns
    -------
    The figure.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.8))
    counts = loads["load"].value_counts(normalize=True).sort_index()
    left.bar(counts.index, counts, width=0.8, color=COLOURS[0], label=f"{number(len(loads))} draws of the hash")
    exactly = chances.assign(chance=chances["chance"].diff().fillna(chances["chance"]))
    exactly = exactly[exactly["load"].between(counts.index.min() - 1, counts.index.max() + 1)]
    left.plot(exactly["load"], exactly["chance"], **plotting.line_style(1, "none", label="links as if independent"))
    for line, transport in zip((left.axvline, right.axhline), transports, strict=True):
        for row in document[document["transport"] == transport].itertuples():
            words = plotting.verdict_label(row.verdict, f"document, {transport}, {row.text}")
            line(row.time_s / unit_s, color=VERDICTS[row.verdict], linestyle="--", linewidth=1.2, label=words)
    left.set_xlabel(f"flows on the most loaded link, each {number(1e3 * unit_s, 3)} ms")
    left.set_xticks(range(int(counts.index.min()) - 1, int(counts.index.max()) + 2))
    percent_axis(left.yaxis, "share of the draws")
    names = list(settings["setting"].unique())
    for i, (name, part) in enumerate(settings.groupby("setting", sort=False)):
        slow = part["slowdown"].to_numpy()
        right.plot(np.full(len(slow), names.index(name)), slow, **{**plotting.line_style(0, "none"), "alpha": 0.65})
        right.plot([i - 0.25, i + 0.25], [np.median(slow)] * 2, color=COLOURS[0], linewidth=2)
    right.set_xticks(range(len(names)), names)
    right.set(xlim=(-0.6, len(names) - 0.4), ylim=(0, None), ylabel="last flow, times the optimum")
    right.grid(axis="x", visible=False)
    right.set_xlabel("packets at which a link pauses / goes on")
    legend_below(figure, (left, right), 2)
    names = [_LABELS.get(transport, transport) for transport in transports]
    panel_title(left, f"(a) {names[0]}", left=True)
    panel_title(right, f"(b) {names[1]}, a mark for each seed; bar: median", left=True)
    return figure


def exposed_by_transport_bars(data: pd.DataFrame) -> plt.Figure:
    """Exposed share of the time by transport, a panel for each model, with the range over seeds and printed values.

    data: columns transport, model, least, share, most, printed, verdict.
    """
    names = list(data["transport"].unique())
    figure, parts = plotting.panels(data, "model", (4.9, 1.8 + 0.36 * len(names)), sharey=True)
    for letter, (model, part, ax) in zip("ab", parts, strict=False):
        rows = part.set_index("transport").reindex(names)
        y = -np.arange(len(names))
        ax.barh(y, rows["share"], height=0.62, color=COLOURS[5])
        ax.hlines(y, rows["least"], rows["most"], color="black", linewidth=1.2)
        has_printed = rows["printed"].notna().to_numpy()
        marked = rows[has_printed]
        plotting.document_marks(ax, marked["printed"], y[has_printed], marked["verdict"])
        ends = rows[["share", "most", "printed"]].max(axis=1)
        for at, share, end, printed in zip(y, rows["share"], ends, rows["printed"], strict=True):
            words = plotting.percent(share) + (f" (document: {plotting.percent(printed)})" if printed > 0 else "")
            plotting.text_beside(ax, words, (end, at), (9, 0), va="center", fontsize=8)
        ax.set_yticks(y, [_LABELS.get(name, name) for name in names])
        ax.set_xlim(0, 1.3 * rows[["share", "most", "printed"]].max(axis=None))
        ax.grid(axis="y", visible=False)
        percent_axis(ax.xaxis, "share of the time that is exposed")
        panel_title(ax, f"({letter}) {plotting.model_name(str(model))}", left=True)
        ax.plot([], [], color="black", linewidth=1.2, label="least to most of the seeds")
    legend_below(figure, max(figure.axes, key=lambda ax: len(ax.get_legend_handles_labels()[1])))
    return figure


def slowdown_bars(data: pd.DataFrame, way: str, by: str) -> plt.Figure:
    """Last flow over the optimum: a group of marks for each way, a mark for each condition, ranges over seeds.

    data: columns slowdown (infinite where a flow is never complete) and the two named; a row for each seed.
    way, by: columns of the groups and of the marks in a group.
    """
    names, groups = list(data[way].unique()), list(data[by].unique())
    figure, ax = plt.subplots(figsize=(10, 1.6 + 0.14 * len(names) * (len(groups) + 0.8)))
    width = 0.84 / len(groups)
    for i, group in enumerate(groups):
        over = _over_seeds(data[data[by] == group], [way], "slowdown").set_index(way).reindex(names)
        y = np.arange(len(names)) + (i - (len(groups) - 1) / 2) * width
        shown = over.where(np.isfinite(over))
        style = plotting.line_style(i, "none", markersize=6, label=str(group))
        ax.hlines(y, shown["least"], shown["most"], color=style["color"], linewidth=2)
        ax.plot(shown["median"], y, **style)
        for place, middle, most in zip(y, over["median"], over["most"], strict=True):
            if np.isinf(middle):
                plotting.text_beside(ax, "never", (1, place), (4, 0), va="center", fontsize=8)
            elif middle == middle:
                at = (most if np.isfinite(most) else middle, place)
                plotting.text_beside(ax, number(middle, 2), at, (4, 0), va="center", fontsize=8)
    ax.axvline(1, label="optimum", **_OPTIMUM)
    log_axis(ax.xaxis, (1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 200, 500))
    ax.set_xlim(0.9, 1.4 * data["slowdown"][np.isfinite(data["slowdown"])].max())
    ax.set_xlabel("last flow, times the optimum")
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)
    for i in range(0, len(names), 2):
        ax.axhspan(i - 0.5, i + 0.5, color=BAND, zorder=0)
    ax.plot([], [], color=GREY, linewidth=2, label="least to most of the seeds; number: median")
    legend_below(figure, ax, 3)
    return figure


def tail_by_paths(sprayed: pd.DataFrame, hashed: pd.DataFrame, level: Mapping[str, float], needed: float) -> plt.Figure:
    """(a) Last flow against the entropies that a flow sprays over; (b) against the flows that ECMP splits a pair into.

    Parameters
    ----------
    sprayed
        Columns entropies, balancing, seed, slowdown.
    hashed
        Columns model, subflows, seed, slowdown.
    level
        Horizontal lines in (b) by their names.
    needed
        Subflows at which ECMP is as good as the last of the levels; not a number for none.

    Returns
    -------
    The figure.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.8), sharey=True)
    lines_over_seeds(sprayed, "entropies", "slowdown", "balancing", left)
    ends = hashed.groupby("model")["subflows"].max()
    names = {name: f"{name}, up to {end} flows" if end < ends.max() else name for name, end in ends.items()}
    lines_over_seeds(hashed.assign(model=hashed["model"].map(names)), "subflows", "slowdown", "model", right)
    for i, (name, value) in enumerate(level.items()):
        right.axhline(value, color="black", linestyle=(":", "--")[i % 2], linewidth=1.3, label=name)
    if np.isfinite(needed):
        right.axvline(needed, color=GREY, linewidth=1.2, label=f"{number(needed)} flows a pair needed")
    for ax, column, data in ((left, "entropies", sprayed), (right, "subflows", hashed)):
        log_axis(ax.xaxis, sorted(data[column].unique()), 2, rotation=45)
        log_axis(ax.yaxis, [1, 1.2, 1.5, 2, 3, 4, 5, 6, 8])
        ax.fill_between([], [], [], color=GREY, alpha=0.25, label="least to most of the seeds")
        ax.legend(fontsize=9)
    left.set_ylabel("last flow, times the optimum")
    left.set_xlabel("entropies of a flow, each a path by the hash")
    right.set_xlabel("flows of a transfer, each on a path by the hash")
    panel_title(left, "(a) packets sprayed", left=True)
    panel_title(right, "(b) flows split, ECMP", left=True)
    return figure


def slowdown_heatmaps(data: pd.DataFrame, by: str, rows: str, columns: str, labels: tuple[str, str]) -> plt.Figure:
    """Last flow over the optimum as cells, a panel for each value of a column; across shares, upwards ratios.

    Parameters
    ----------
    data, by
        Table with a row for each seed and a column slowdown; the column with a panel for each value.
    rows, columns, labels
        Columns of the cells' places, and the labels of both axes.

    Returns
    -------
    The figure.
    """
    cells = _over_seeds(data, [by, rows, columns], "slowdown")
    figure, parts = plotting.panels(cells, by, (4.4, 3.6), 9.0, sharey=True)
    colours = {"cmap": heat_colours(), "vmin": 1, "vmax": cells["median"].max()}
    for i, (letter, (value, part, ax)) in enumerate(zip(ascii_lowercase, parts, strict=False)):
        table = part.pivot(index=rows, columns=columns, values="median")
        mesh = ax.pcolormesh(table, edgecolors="white", linewidth=1, **colours)
        for (y, x), cell in np.ndenumerate(table.to_numpy()):
            ink = plotting.ink_on(to_hex(mesh.to_rgba(cell)))
            ax.text(x + 0.5, y + 0.5, number(cell, 3), ha="center", va="center", fontsize=9, color=ink)
        ax.set_xticks(np.arange(table.shape[1]) + 0.5, [plotting.percent(column) for column in table.columns])
        ax.set_yticks(np.arange(table.shape[0]) + 0.5, [f"{number(value)}:1" for value in table.index])
        ax.grid(False)
        ax.tick_params(length=0)
        ax.set(xlabel=labels[1], ylabel="" if i else labels[0])
        panel_title(ax, f"({letter}) {_LABELS.get(str(value), value)}", left=True)
    figure.colorbar(mesh, ax=figure.axes, label="last flow, times the optimum")
    return figure


def completion_curves(data: pd.DataFrame, title: str = "") -> plt.Figure:
    """Share of the flows that are complete over time, a line for each model.

    data: columns model, share, time_s; title: of the picture.
    """
    figure, ax = plt.subplots(figsize=(8.5, 4.4))
    for i, (name, part) in enumerate(data.groupby("model", sort=False)):
        label = f"{name}: last {units.show(float(part['time_s'].max()), 's', 3)}"
        style = plotting.line_style(i, ("-", "--")[i % 2], marker="", label=label)
        ax.plot(part["time_s"] * 1e3, part["share"], **style)
    log_axis(ax.xaxis)
    ax.set_xlabel("completion time [ms]")
    percent_axis(ax.yaxis, "share of the flows that are complete")
    panel_title(ax, title, left=True)
    legend_below(figure, ax, 2)
    return figure
