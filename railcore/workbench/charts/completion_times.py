"""Completion times of flows: by transport, load and paths, over seeds, beside published runs and printed values."""

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from railcore.facts import units
from railcore.facts.units import number
from railcore.workbench import plotting
from railcore.workbench.plotting import COLOURS, GREY, heat_colours, legend_below, log_axis, panel_title, percent_axis

_OPTIMUM: dict = {"color": "black", "linestyle": ":", "linewidth": 1.3}
_PRINTED: dict = {"marker": "D", "linestyle": "none", "color": "white", "markeredgecolor": "black", "markersize": 8}
_STATISTICS = {"mean": "mean of the flows", "p99": "99th percentile", "last": "last flow"}
_NEVER = "never"  # of flows that are not complete
_FEW = 1e-5  # share of packets sent again; less is drawn there


def _styles(names: Sequence[str]) -> dict[str, dict]:
    """Line, marker and colour of each transport; of those of one colour only the first is solid."""
    colours, styles = plotting.colours_of(names), {}
    for i, (name, colour) in enumerate(colours.items()):
        earlier = list(colours.values())[:i].count(colour)
        styles[name] = plotting.line_style(i, ("-", "--", ":")[earlier % 3], color=colour)
    return styles


def _over_seeds(data: pd.DataFrame, by: Sequence[str], value: str) -> pd.DataFrame:
    """Least, median and most over the other columns, in the order of the data."""
    parts = data.groupby(list(by), sort=False)[value]
    return parts.agg(least="min", median="median", most="max").reset_index()


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


def completion_time_curves(shares: pd.DataFrame, last: pd.DataFrame, printed_s: Mapping[str, float]) -> plt.Figure:
    """(a) Share of flows that are complete over time, median of the seeds; (b) last flow of each seed.

    Parameters
    ----------
    shares
        Columns transport, seed, share (of the flows that are complete), time_s.
    last
        Columns transport, seed, last_s, optimum_s.
    printed_s
        Last flow as a document has it, by transport [s].

    Returns
    -------
    The figure.
    """
    names = list(last["transport"].unique())
    styles = _styles(names)
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6), width_ratios=(1.25, 1))
    optimum_ms = 1e3 * last["optimum_s"].median()
    for ax in (left, right):
        ax.axvline(optimum_ms, label="optimum", **_OPTIMUM)
    for name in names:
        curve = shares[shares["transport"] == name].groupby("share")["time_s"].median() * 1e3
        left.plot(curve, curve.index, label=name, **{**styles[name], "marker": ""})
    percent_axis(left.yaxis, "share of the flows that are complete")
    rows = {name: len(names) - 1 - i for i, name in enumerate(names)}
    for name, part in last.groupby("transport", sort=False):
        times = part["last_s"].to_numpy() * 1e3
        dots = {**styles[name], "linestyle": "none", "alpha": 0.65}
        right.plot(np.sort(times), rows[name] + np.linspace(-0.2, 0.2, len(times) + 2)[1:-1], **dots)
        middle, end = float(np.median(times)), max(times.max(), 1e3 * printed_s.get(str(name), 0.0))
        right.plot([middle, middle], [rows[name] - 0.3, rows[name] + 0.3], color=styles[name]["color"], linewidth=2)
        text = "median " * (len(times) > 1) + f"{number(middle, 3)} ms"
        plotting.text_beside(right, text, (end, rows[name]), (9, 0), va="center", fontsize=8)
    for name, time_s in printed_s.items():
        if name in rows:
            right.plot(1e3 * time_s, rows[name], **_PRINTED, zorder=3)
    right.plot([], [], **_PRINTED, label="printed")
    right.set_yticks(list(rows.values()), list(rows))
    right.set_ylim(-0.6, len(rows) - 0.4)
    right.grid(axis="y", visible=False)
    left.set_xlim(0, 1.02 * last["last_s"].max() * 1e3)
    right.set_xlim(0, 1.35 * max([last["last_s"].max(), *printed_s.values()]) * 1e3)
    for ax, title in ((left, "(a) all flows"), (right, "(b) last flow, a mark for each seed; bar: median")):
        ax.set_xlabel("completion time [ms]")
        panel_title(ax, title, left=True)
    handles = dict(zip(*reversed(left.get_legend_handles_labels()), strict=True))
    handles |= dict(zip(*reversed(right.get_legend_handles_labels()), strict=True))
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5)
    return figure


def tail_by_load(data: pd.DataFrame, optimum_s: float) -> plt.Figure:
    """Completion time of the last flow against the share of hosts that send, a line for each transport.

    data: columns transport, load, seed, last_s; optimum_s: of one flow alone [s].
    """
    figure, ax = plt.subplots(figsize=(8.5, 4.6))
    shown = data.assign(last_us=data["last_s"] * 1e6)
    lines_over_seeds(shown, "load", "last_us", "transport", ax)
    ax.axhline(1e6 * optimum_s, label="optimum", **_OPTIMUM)
    ax.set_ylim(bottom=0)
    percent_axis(ax.xaxis, "share of the hosts that send")
    ax.set_ylabel("completion time of the last flow [µs]")
    ax.yaxis.set_major_formatter(lambda value, _: number(value))
    unit_us = 1e6 * optimum_s
    over = ax.secondary_yaxis("right", functions=(lambda y: np.divide(y, unit_us), lambda y: np.multiply(y, unit_us)))
    over.set_ylabel("times the optimum")
    legend_below(figure, ax, 5)
    return figure


def slowdowns_beside_reference(data: pd.DataFrame) -> plt.Figure:
    """Slowdown of each transport beside runs of a public simulator, a panel for each statistic.

    data: columns transport, hosts, statistic, reference, reference_low, reference_high, and a row for each model:
    model, ours, ours_low, ours_high.
    """
    rows = data[["transport", "hosts"]].drop_duplicates().itertuples(index=False)
    place = {(row.transport, row.hosts): -i for i, row in enumerate(rows)}
    figure, parts = plotting.panels(data, "statistic", (3.9, 1.6 + 0.42 * len(place)), sharey=True)
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
            ax.plot(mine["ours"], rows_at, **plotting.line_style(j, "none", zorder=4, label=model))
        log_axis(ax.xaxis, [1, 1.2, 1.5, 2, 2.5] if part["reference_high"].max() < 3 else [1, 1.5, 2, 3, 4, 5, 6, 8])
        ax.set_xlabel("times the optimum")
        panel_title(ax, _STATISTICS.get(statistic, statistic), left=True)
        if not i:
            ax.set_yticks(list(place.values()), [f"{name}, {hosts:,} hosts" for name, hosts in place])
            ax.set_ylim(min(place.values()) - 0.6, 0.6)
    first = figure.axes[0]
    first.plot([], [], color="#CFCFCF", linewidth=9, label="simulator's runs: least to most")
    first.plot([], [], color="black", linewidth=1.6, label="their mean")
    legend_below(figure, first)
    return figure


def errors_beside_baselines(data: pd.DataFrame, names: Mapping[str, str], allowed: Mapping[str, float]) -> plt.Figure:
    """(a) How large the errors are, for a model and its baselines; (b) last flow by group; (c) packets sent again.

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
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(14, 4.4))
    for i, (column, name) in enumerate(names.items()):
        errors = np.sort(data[column].to_numpy(float))
        label = f"{name}: median {plotting.percent(float(np.median(errors)))}"
        shares = np.arange(1, len(errors) + 1) / len(errors)
        left.plot(np.maximum(errors, 1e-3), shares, label=label, **{**plotting.line_style(i), "marker": ""})
    left.set_xlim(1e-3, 10)
    log_axis(left.xaxis, [1e-3, 1e-2, 0.1, 1, 10], text=plotting.percent)
    left.set_xlabel("error in (last flow - optimum), share of the published value")
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
    labels = [f"{name}\n({len(part)} runs)" for name, part in groups.items()]
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
    panel_title(middle, "(b) by kind of run, a mark each", left=True)
    panel_title(right, "(c) packets sent again, as a share", left=True)
    return figure


def last_flow_chances(
    loads: pd.DataFrame, chances: pd.DataFrame, settings: pd.DataFrame, unit_s: float, printed_s: Mapping[str, float]
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
    printed_s
        Completion time of the last flow as a document has it: the first is marked in (a), the last in (b).

    Returns
    -------
    The figure.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.2))
    counts = loads["load"].value_counts(normalize=True).sort_index()
    left.bar(counts.index, counts, width=0.8, color=COLOURS[0], label=f"{number(len(loads))} draws of the hash")
    exactly = chances.assign(chance=chances["chance"].diff().fillna(chances["chance"]))
    exactly = exactly[exactly["load"].between(counts.index.min() - 1, counts.index.max() + 1)]
    left.plot(exactly["load"], exactly["chance"], **plotting.line_style(1, "none", label="links as if independent"))
    (first, first_s), *_, (last, last_s) = printed_s.items()
    left.axvline(first_s / unit_s, color="black", linestyle="--", linewidth=1.2, label=f"{first}, printed")
    left.set_xlabel(f"flows on the most loaded link; each keeps it busy for {units.show(unit_s, 's', 3)}")
    left.set_xticks(range(int(counts.index.min()) - 1, int(counts.index.max()) + 2))
    percent_axis(left.yaxis, "share of the draws")
    left.legend(fontsize=8, loc="upper right")
    names = list(settings["setting"].unique())
    for i, (name, part) in enumerate(settings.groupby("setting", sort=False)):
        slow = part["slowdown"].to_numpy()
        right.plot(np.full(len(slow), names.index(name)), slow, **{**plotting.line_style(0, "none"), "alpha": 0.65})
        right.plot([i - 0.25, i + 0.25], [np.median(slow)] * 2, color=COLOURS[0], linewidth=2)
    right.axhline(last_s / unit_s, color="black", linestyle="--", linewidth=1.2, label=f"{last}, printed")
    right.set_xticks(range(len(names)), names)
    right.set_xlim(-0.6, len(names) - 0.4)
    right.set_ylim(bottom=0)
    right.grid(axis="x", visible=False)
    right.set_xlabel("packets of a link at which it is told to pause / to go on")
    right.set_ylabel("last flow, times the optimum")
    right.legend(fontsize=8, loc="lower right")
    panel_title(left, "(a) single path", left=True)
    panel_title(right, f"(b) {last}: a mark for each seed; bar: median", left=True)
    return figure


def exposed_by_transport_bars(data: pd.DataFrame) -> plt.Figure:
    """Exposed share of the time by transport, a panel for each model, with the range over seeds and printed values.

    data: columns transport, model, least, share, most, printed.
    """
    names = list(data["transport"].unique())
    figure, parts = plotting.panels(data, "model", (5.2, 1.4 + 0.36 * len(names)), sharey=True)
    for model, part, ax in parts:
        rows = part.set_index("transport").reindex(names)
        y = -np.arange(len(names))
        ax.barh(y, rows["share"], height=0.62, color=COLOURS[5])
        ax.hlines(y, rows["least"], rows["most"], color="black", linewidth=1.2)
        ax.plot(rows["printed"], y, **_PRINTED, label="printed")
        ends = rows[["share", "most", "printed"]].max(axis=1)
        for at, share, end in zip(y, rows["share"], ends, strict=True):
            plotting.text_beside(ax, plotting.percent(share), (end, at), (9, 0), va="center", fontsize=8)
        ax.set_yticks(y, names)
        ax.set_xlim(0, 1.18 * rows[["share", "most", "printed"]].max(axis=None))
        ax.grid(axis="y", visible=False)
        percent_axis(ax.xaxis, "share of the time that is exposed")
        panel_title(ax, plotting.model_name(str(model)), left=True)
    figure.axes[0].plot([], [], color="black", linewidth=1.2, label="least to most of the seeds")
    legend_below(figure, figure.axes[0])
    return figure


def slowdown_bars(data: pd.DataFrame, way: str, by: str) -> plt.Figure:
    """Last flow over the optimum: a group of bars for each way, a bar for each condition, ranges over seeds.

    data: columns slowdown (infinite where a flow is never complete) and the two named; a row for each seed.
    way, by: columns of the groups and of the bars in a group.
    """
    names, groups = list(data[way].unique()), list(data[by].unique())
    figure, ax = plt.subplots(figsize=(12, 4.6))
    width = 0.84 / len(groups)
    for i, group in enumerate(groups):
        over = _over_seeds(data[data[by] == group], [way], "slowdown").set_index(way).reindex(names)
        x = np.arange(len(names)) + (i - (len(groups) - 1) / 2) * width
        shown = over.where(np.isfinite(over))
        ax.bar(x, shown["median"], width, color=COLOURS[i], label=str(group), hatch=("", "//", "..", "xx")[i % 4])
        ax.vlines(x, shown["least"], shown["most"], color="black", linewidth=1)
        for place, middle, most in zip(x, over["median"], over["most"], strict=True):
            if np.isinf(middle):
                ax.annotate(
                    _NEVER, (place, 1), (0, 2), textcoords="offset points", ha="center", fontsize=7, rotation=90
                )
            elif middle == middle:
                at = (place, most if np.isfinite(most) else middle)
                ax.annotate(number(middle, 2), at, (0, 2), textcoords="offset points", ha="center", fontsize=6.5)
    ax.axhline(1, label="optimum", **_OPTIMUM)
    log_axis(ax.yaxis, (1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100, 200, 500))
    ax.set_ylim(0.9, 1.3 * data["slowdown"][np.isfinite(data["slowdown"])].max())
    ax.set_ylabel("last flow, times the optimum")
    ax.set_xticks(range(len(names)), [name.replace(" with ", "\nwith ").replace(", ", ",\n") for name in names])
    ax.tick_params(axis="x", labelsize=8.5)
    ax.grid(axis="x", visible=False)
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
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.3), sharey=True)
    lines_over_seeds(sprayed, "entropies", "slowdown", "balancing", left)
    lines_over_seeds(hashed, "subflows", "slowdown", "model", right)
    for i, (name, value) in enumerate(level.items()):
        right.axhline(value, color="black", linestyle=(":", "--")[i % 2], linewidth=1.3, label=name)
    if np.isfinite(needed):
        right.axvline(needed, color=GREY, linewidth=1.2, label=f"{number(needed)} flows a pair")
    for ax, column, data in ((left, "entropies", sprayed), (right, "subflows", hashed)):
        log_axis(ax.xaxis, sorted(data[column].unique()), 2, rotation=45)
        log_axis(ax.yaxis, [1, 1.2, 1.5, 2, 3, 4, 5, 6, 8])
        ax.legend(fontsize=8)
    left.set_ylabel("last flow, times the optimum")
    left.set_xlabel("entropies of a flow, each a path by the hash")
    right.set_xlabel("flows that a transfer is split into, each on one path by the hash")
    panel_title(left, "(a) packets sprayed", left=True)
    panel_title(right, "(b) flows split, ECMP", left=True)
    return figure


def slowdown_heatmaps(data: pd.DataFrame, by: str, rows: str, columns: str, labels: tuple[str, str]) -> plt.Figure:
    """Last flow over the optimum as cells, a panel for each value of a column, on one scale.

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
    for i, (value, part, ax) in enumerate(parts):
        table = part.pivot(index=rows, columns=columns, values="median")
        mesh = ax.pcolormesh(table, edgecolors="white", linewidth=1, **colours)
        for (y, x), cell in np.ndenumerate(table.to_numpy()):
            ink = "white" if cell > (1 + colours["vmax"]) / 2 else "black"
            ax.text(x + 0.5, y + 0.5, number(cell, 3), ha="center", va="center", fontsize=9, color=ink)
        ax.set_xticks(np.arange(table.shape[1]) + 0.5, [number(each) for each in table.columns])
        ax.set_yticks(np.arange(table.shape[0]) + 0.5, [number(each) for each in table.index])
        ax.grid(False)
        ax.tick_params(length=0)
        ax.set(xlabel=labels[1], ylabel="" if i else labels[0])
        panel_title(ax, str(value), left=True)
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
