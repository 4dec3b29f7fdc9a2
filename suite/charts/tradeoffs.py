"""Lines of one quantity against another: cost, time, memory, size, goodput, length."""

from collections.abc import Mapping, Sequence
from string import ascii_lowercase

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from railcore.catalog.colours import network_colour
from railcore.catalog.units import distinct, number, significant
from suite import plotting
from suite.colours import ALERT, BAND
from suite.plotting import COLOURS, legend_below, line_style, log_axis, percent, percent_axis, text_beside

_TARGET = 0.9  # goodput to reach
_PLACEMENTS = {
    "rings together": "rings together: racks of one stage side by side",
    "pipelines together": "pipelines together: all stages of a replica side by side",
    "bands": "bands: some stages of some replicas side by side",
    "random": "random",
}
_RATIOS = 0.5, 1.5  # modelled over measured; what is beyond stands at the edge, as a triangle
_DASHES = ("-", "--", "-.", ":")
_DAYS = {"1 hour": 1 / 24, "1 day": 1, "1 week": 7, "1 month": 30, "1 year": 365, "4 years": 1460}
_DAYS |= {"15 years": 5475, "50 years": 18250}


def oversubscribed_costs(data: pd.DataFrame) -> plt.Figure:
    """(a) what leaves the busiest leaf by placement against its uplinks, (b) cost; over oversubscription.

    Columns placement, oversubscription, uplinks, most_leaving, fits, cost_usd. The largest oversubscription that fits
    each placement is marked in (b).
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.8))
    one = data.drop_duplicates("oversubscription")
    left.plot(one["oversubscription"], one["uplinks"], color="black", linewidth=2, label="uplinks of a leaf")
    right.plot(one["oversubscription"], one["cost_usd"] / 1e9, color="black", marker=".")
    for i, (name, rows) in enumerate(data.groupby("placement", sort=False)):
        style = line_style(i, ("-", "--")[i % 2], markersize=6, label=_PLACEMENTS.get(name.partition(",")[0], name))
        left.plot(rows["oversubscription"], rows["most_leaving"], **style)
    most = data[data["fits"]].groupby("placement", sort=False)["oversubscription"].max()
    for ratio, same in most.groupby(most):
        cost = one.loc[one["oversubscription"] == ratio, "cost_usd"].iloc[0] / 1e9
        right.plot(ratio, cost, "o", color="black", markersize=9)
        words = ",\n".join(name.partition(",")[0] for name in same.index)
        text_beside(right, f"{words}\n{number(ratio)}:1, {number(cost, 3)} B USD", (ratio, cost), (9, 0), fontsize=9)
    log_axis(left.yaxis, [10, 20, 50, 100, 200])
    left.set(ylabel="traffic leaving [NICs at full rate]")
    right.set(ylabel="cost [B USD]", ylim=(0, 1.18 * one["cost_usd"].max() / 1e9))
    plotting.panel_title(left, "(a) traffic that leaves the busiest leaf", left=True)
    plotting.panel_title(right, "(b) cost; marked: most oversubscription without slower flows", left=True)
    shown = [ratio for ratio in distinct(one["oversubscription"]) if ratio == int(ratio)]
    for ax in (left, right):
        plotting.ratio_axis(ax, shown, "oversubscription of the leaves, bandwidth down : up")
    legend_below(figure, left, 2)
    return figure


def strategies_by_slowdown(data: Mapping[str, pd.DataFrame], ax: plt.Axes) -> plt.Axes:
    """Share of feasible strategies that take at most so many times the best one's time, a line for each search.

    Columns times_best, share (cumulative).
    """
    for i, (name, table) in enumerate(data.items()):
        style = line_style(i, _DASHES[i % 4], marker="", label=name)
        ax.step(table["times_best"], table["share"], where="post", **style)
    ax.axvline(2, color="black", linestyle="--", linewidth=1.2, label="twice the best one's time")
    longest = max(2.0, *(table["times_best"].max() for table in data.values()))
    ticks = [digit * 10.0**power for power in range(9) for digit in (1, 2, 5)]
    log_axis(ax.xaxis, [tick for tick in ticks if tick <= longest])
    ax.set(xlim=(1, longest), ylim=(0, 1), xlabel="at most so many times the best strategy's iteration time")
    percent_axis(ax.yaxis, "share of feasible strategies")
    ax.legend(loc="lower right")
    return ax


def model_size_by_training_time(
    data: pd.DataFrame, chosen: pd.DataFrame, ax: plt.Axes, names: Sequence[str] = ()
) -> plt.Axes:
    """Loss-optimal parameters against training time, a line for each `law`; sizes of `chosen` are marked on the lines.

    Parameters
    ----------
    data, chosen
        Columns law, training_days, parameters, warning, of both.
    ax
        Where to draw.
    names
        Of the sizes, from the least.

    Returns
    -------
    The axes.
    """
    for i, (name, part) in enumerate(data.groupby("law", sort=False)):
        label = name.replace("Hoffmann", "Hoffmann et al., approach").replace("Kaplan", "Kaplan et al.")
        ax.plot(part["training_days"], part["parameters"], **line_style(i, _DASHES[i % 4], marker="", label=label))
        picked = chosen[chosen["law"] == name]
        ax.plot(picked["training_days"], picked["parameters"], **line_style(i, "", markersize=6))
        soon = i < chosen["law"].nunique() / 2  # on the left of its line, above the size's; the others on the right
        side: dict = {"ha": "right", "va": "bottom"} if soon else {"ha": "left", "va": "top"}
        for row in picked.itertuples():
            at, shift = (row.training_days, row.parameters), (-3, 3) if soon else (3, -3)
            text_beside(
                ax, _duration(row.training_days), at, shift, fontsize=9, color=COLOURS[i % len(COLOURS)], **side
            )
    for i, size in enumerate(sorted(chosen["parameters"].round(-9).unique())):
        ax.axhline(size, color="black", linewidth=0.8, linestyle=(0, (2, 3)))
        place: dict = {"xycoords": ax.get_yaxis_transform(), "fontsize": 9}
        text = f"{number(size / 1e12)}T" + "".join(f", {name}" for name in names[i : i + 1])
        text_beside(ax, text, (0.3, size), (4, 4 if i else -12), **place)
    first, last = data["training_days"].min(), data["training_days"].max()
    shown = {days: text for text, days in _DAYS.items() if first <= days <= last}
    log_axis(ax.xaxis, shown, text=shown.__getitem__)
    _trillions(ax)
    ax.set(xlim=(first, last), xlabel="training time on the whole machine")
    ax.set_ylabel("loss-optimal parameters [trillion]")
    title = "every point is extrapolated from far smaller experiments" if data["warning"].all() else None
    ax.legend(loc="upper left", title=title, alignment="left")
    return ax


def _duration(days: float) -> str:
    """A training time in words, such as "2.7 years"."""
    units = {"years": 365, "days": 1, "hours": 1 / 24, "minutes": 1 / 1440}
    name, unit = next((item for item in units.items() if days >= item[1]), ("seconds", 1 / 86400))
    return f"{number(days / unit, 2)} {name}"


def sizes_by_budget(data: pd.DataFrame, ax: plt.Axes) -> plt.Axes:
    """Loss-optimal parameters against the budget, a line, and those that fit on the racks, marks, by platform.

    Columns platform, format, budget_usd, optimal_parameters, parameters (NaN where nothing fits).
    """
    for i, (platform, part) in enumerate(data.groupby("platform", sort=False)):
        label = f"{platform}, {part['format'].iloc[0].upper()}"
        ax.plot(part["budget_usd"], part["optimal_parameters"], **line_style(i, marker=""))
        ax.plot(part["budget_usd"], part["parameters"], **line_style(i, ":", markersize=6, label=label))
    ax.plot([], [], "-", color=plotting.GREY, label="loss-optimal")
    ax.plot([], [], "o:", color=plotting.GREY, label="largest that fits the racks")
    ax.margins(0.08)
    log_axis(ax.xaxis, sorted(data["budget_usd"].unique()), text=lambda budget: number(budget / 1e9))
    _trillions(ax)
    ax.set(xlabel="budget [B USD]", ylabel="parameters of the model [trillion]")
    ax.legend()
    return ax


def _trillions(ax: plt.Axes) -> None:
    """Powers of ten of a logarithmic y axis as plain numbers of trillions."""
    ax.set_yscale("log")
    low, high = ax.get_ylim()
    shown = [10.0**k for k in range(6, 24) if low <= 10.0**k <= high]
    log_axis(ax.yaxis, shown, text=lambda size: number(size / 1e12))
    ax.set_ylim(low, high)


def memory_by_degree(data: pd.DataFrame, limit_bytes: float, ax: plt.Axes, title: str = "") -> plt.Axes:
    """Memory of a GPU against the tensor-parallel degree, a line for each model; degrees that fit are filled.

    Parameters
    ----------
    data
        Columns model, tensor, bytes.
    limit_bytes
        Memory of a GPU [bytes].
    ax, title
        Where to draw, and the title.

    Returns
    -------
    The axes.
    """
    plotting.plot_lines(data.assign(gigabytes=data["bytes"] / 1e9), "tensor", "gigabytes", "model", ax)
    for line in ax.get_lines():
        line.set_markerfacecolor("white")
    for i, (_, part) in enumerate(data.groupby("model", sort=False)):
        fits = part[part["bytes"] <= limit_bytes]
        ax.plot(fits["tensor"], fits["bytes"] / 1e9, **line_style(i, ""))
    ax.axhline(limit_bytes / 1e9, color="black", linestyle="--", linewidth=1, label="a GPU's memory")
    log_axis(ax.xaxis, sorted(data["tensor"].unique()))
    ax.set_yscale("log")
    log_axis(ax.yaxis)
    ax.set(xlabel="GPUs that share a layer (tensor-parallel degree)", ylabel="memory of a GPU [GB]")
    ax.set_title(title, fontsize=9)
    ax.legend()
    return ax


def goodput_by_recovery(curves: pd.DataFrame, ways: pd.DataFrame) -> plt.Figure:
    """(a) goodput over the restart time of a job that restarts as a whole, (b) goodput by way of recovery.

    curves: columns case, checkpoint, restart_s, goodput; a colour for each case, a line style for each checkpoint.
    ways: columns way, rates ("low", "value", "high"), goodput; marks at the value, bars between the other two.
    A dotted level in both is TARGET.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 5.4), width_ratios=(1, 0.8))
    colours: dict = dict(zip(curves["case"].unique(), COLOURS, strict=False))
    styles: dict = dict(zip(curves["checkpoint"].unique(), ("-", (0, (4, 2)), ":"), strict=False))
    for (case, save), part in curves.groupby(["case", "checkpoint"], sort=False):
        left.plot(part["restart_s"], part["goodput"], color=colours[case], linestyle=styles[save])
    log_axis(left.xaxis)
    left.set(ylim=(0, 1.02), xlabel="restart of the whole job [s]", ylabel="goodput, share of time")
    plotting.panel_title(left, "(a) all GPUs restart after every failure", left=True)
    table = ways.pivot(index="way", columns="rates", values="goodput").loc[list(ways["way"].unique())[::-1]]
    span = right.hlines(range(len(table)), table["high"], table["low"], color=COLOURS[0], linewidth=5, alpha=0.3)
    (middle,) = right.plot(table["value"], range(len(table)), plotting.MARKERS[0], color=COLOURS[0])
    right.set_yticks(range(len(table)), table.index)
    right.set(xlim=(-0.01, 1.01), xlabel="goodput, share of all GPUs' time\n(t: GPUs of a tensor group)")
    plotting.panel_title(right, "(b) by way of recovery", left=True)
    goal = left.axhline(_TARGET, color="black", linestyle=":", linewidth=0.9)
    right.axvline(_TARGET, color="black", linestyle=":", linewidth=0.9)
    for axis in (left.yaxis, right.xaxis):
        percent_axis(axis)
    handles = {case: plt.Line2D([], [], color=colour) for case, colour in colours.items()}
    handles |= {save: plt.Line2D([], [], color=plotting.GREY, linestyle=style) for save, style in styles.items()}
    handles |= {f"goodput of {percent(_TARGET)}, a target": goal, "(b) at middle failure rates and times": middle}
    handles["(b) from low to high ones"] = span
    figure.legend([*handles.values()], [*handles], loc="outside lower center", ncols=3, fontsize=9)
    return figure


def modelled_over_measured(data: pd.DataFrame, by: str, title: str) -> plt.Figure:
    """Modelled over measured time of runs, a line of points for each value of `by`; "yours" are black.

    Columns modelled_s, measured_iteration_s.
    """
    groups = {str(name): part for name, part in data.groupby(by, sort=False)}
    figure, ax = plt.subplots(figsize=(10, 1.6 + 0.36 * len(groups)))
    errors = {name: part["modelled_s"] / part["measured_iteration_s"] - 1 for name, part in groups.items()}
    _ratio_lines(ax, errors, "run")
    ax.set_xlabel("modelled over measured time")
    figure.suptitle(title, fontsize=11)
    legend_below(figure, ax, 4, fontsize=9)
    return figure


def _ratio_lines(ax: plt.Axes, errors: Mapping[str, pd.Series], point: str) -> None:
    """Modelled over measured times as points, a line for each name, with how many and their mean absolute error.

    The legend names the points (each is a `point`), those beyond the axis, and their mean.
    """
    ax.axvspan(0.9, 1.1, color=BAND, zorder=0, label="within 10%")
    ax.axvline(1, color="black", linewidth=0.8)
    for y, (name, error) in enumerate(errors.items()):
        ratios, (low, high) = 1 + error.to_numpy(), _RATIOS
        style: dict = {"linestyle": "", "markersize": 4.5, "color": "black" if name == "yours" else COLOURS[0]}
        for marker, part in (("o", (low <= ratios) & (ratios <= high)), ("<", ratios < low), (">", ratios > high)):
            if part.any():  # an empty line that is not clipped would lie at the figure's corner
                ax.plot(np.clip(ratios[part], low, high), [y] * part.sum(), marker, alpha=0.4, clip_on=False, **style)
        ax.plot([ratios.mean()], [y], "|", color="black", markersize=13, markeredgewidth=2)
    for marker, label in {"o": f"a {point}", ">": "beyond the axis"}.items():
        ax.plot([], [], marker, color=COLOURS[0], alpha=0.4, label=label)
    ax.plot([], [], "|", color="black", markersize=13, markeredgewidth=2, label="mean")
    names = [f"{name} ({len(error)}): {percent(error.abs().mean(), 2)}" for name, error in errors.items()]
    ax.set_yticks(range(len(names)), names, fontsize=8)
    ax.set(ylim=(len(names) - 0.5, -0.5), xlim=_RATIOS)


def parts_over_measured(data: pd.DataFrame, title: str) -> plt.Figure:
    """Modelled over measured times of parts of a step: a panel for each source, a line for each part.

    data: columns source, part and error, a row for each time.
    """
    sources = list(data["source"].unique())
    figure, axes = plt.subplots(1, len(sources), figsize=(10, 6.6), sharex=True, squeeze=False)
    for letter, ax, source in zip(ascii_lowercase, axes.flat, sources, strict=False):
        parts = data[data["source"] == source].groupby("part", sort=False)["error"]
        _ratio_lines(ax, {str(name): errors for name, errors in parts}, "size")
        plotting.panel_title(ax, f"({letter}) {source}")
    figure.suptitle(title, fontsize=11)
    axes.flat[len(sources) // 2].set_xlabel("modelled over measured time")  # there is no room for three
    legend_below(figure, axes.flat[0], 4, fontsize=9)
    return figure


def candidates_by_cost(data: pd.DataFrame, title: str, limit_days: float | None = None) -> plt.Figure:
    """Networks of a cluster, the best on top: (a) price of the network, (b) training cost, (c) days of the training.

    Columns of data: network, network_usd, cost_usd, days, iteration_s, iteration_low_s and iteration_high_s, the ends
    between which nine of ten cases lie; the best first. title: model, cluster and link rate. limit_days: a line in (c).
    """
    figure, axes = plt.subplots(1, 3, figsize=(10, 1.9 + 0.32 * len(data)), sharey=True)
    figure.suptitle(title, fontsize=11)
    names, places = list(data["network"]), -np.arange(len(data))
    colours = [*plotting.colours_of(names).values()]
    labels = {"network_usd": "(a) price of the network", "cost_usd": "(b) cost of the training"}
    for ax, (column, words) in zip(axes, labels.items(), strict=False):
        values = data[column] / 1e6
        ax.barh(places, values, 0.62, color=colours)
        for at, value in zip(places, values, strict=True):
            text_beside(ax, f"{significant(value):,.1f}", (value, at), (4, 0), va="center", fontsize=9)
        ax.set(xlim=(0, 1.2 * values.max()), xlabel="[M USD]")
        plotting.panel_title(ax, words, left=True)
    days = data["days"]
    low, high = (days * data[f"iteration_{end}_s"] / data["iteration_s"] for end in ("low", "high"))
    axes[2].hlines(places, low, high, color=colours, linewidth=2.2, alpha=0.55)
    axes[2].scatter(days, places, color=colours, s=36, zorder=3)
    for at, value, end in zip(places, days, high, strict=True):
        text_beside(axes[2], f"{significant(value):,.1f}", (end, at), (4, 0), va="center", fontsize=9)
    axes[2].set(xlim=(0, 1.2 * max(high.max(), limit_days or 0)), xlabel="[days]; line: nine of ten cases")
    if limit_days:
        axes[2].axvline(limit_days, color=ALERT, linestyle="--", linewidth=1.2)
        words = f"limit of {number(limit_days)} days"
        text_beside(axes[2], words, (limit_days, 0.62), (4, 0), va="center", fontsize=9, color=ALERT)
    plotting.panel_title(axes[2], "(c) training", left=True)
    axes[0].set_yticks(places, [f"{name} (best)" if not i else name for i, name in enumerate(names)])
    for ax in axes:
        ax.grid(axis="y", visible=False)
    return figure


def days_by_network_price(data: pd.DataFrame, title: str) -> plt.Figure:
    """How much longer a training takes than on the fastest network over the price, a panel for each job.

    Columns job, network, cost_usd, days; NaN where a network is not there. A mark for each network; of marks at one
    place the later ones are smaller. title: links and prices.
    """
    jobs, networks = list(data["job"].unique()), list(data["network"].unique())
    wide = min(len(jobs), 2)
    size = max(5 * wide, 8), 3.0 * -(-len(jobs) // wide) + 1.2
    figure, axes = plt.subplots(-(-len(jobs) // wide), wide, figsize=size, sharey=True)
    figure.suptitle(title, fontsize=11)
    highest = 0.01
    for ax, letter, job in zip(np.ravel(axes), ascii_lowercase, jobs, strict=False):
        rows = data[data["job"] == job].set_index("network").loc[networks]
        least = rows["days"].min()
        places = np.column_stack([rows["cost_usd"] / 1e6, rows["days"] / least - 1])
        for i, network in enumerate(networks):
            later = sum(np.allclose(places[i], other, rtol=0.02) for other in places[i + 1 :])
            edge: dict = {"markeredgecolor": "white", "markeredgewidth": 0.6, "markersize": 10 + 6 * later}
            style = line_style(i % len(COLOURS), "", label=network, color=network_colour(network), **edge)
            if data.loc[data["network"] == network, "cost_usd"].isna().all():
                style["label"] += " (none)"
            ax.plot(*places[i : i + 1].T, **style, clip_on=bool(np.isnan(places[i]).any()))
        highest = max(highest, np.nanmax(places[:, 1]))
        ax.set(xlim=(0, 1.08 * np.nanmax(places[:, 0])), xlabel="price of the network [M USD]")
        plotting.panel_title(ax, f"({letter}) {job}: {number(least, 3)} days at the fastest")
    for ax in np.ravel(axes)[::wide]:
        percent_axis(ax.yaxis, "longer than the fastest")
    np.ravel(axes)[0].set_ylim(-0.06 * highest, 1.1 * highest)
    for ax in np.ravel(axes)[len(jobs) :]:
        ax.set_axis_off()
    legend_below(figure, np.ravel(axes)[0], 4)
    return figure
