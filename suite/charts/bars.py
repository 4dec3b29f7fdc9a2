"""Bars: tornados, errors of a model, ranges; and stacked: costs by part, times by term, traffic by kind."""

from collections.abc import Callable, Mapping, Sequence
from string import ascii_lowercase

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.patches import Patch

from railcore.catalog import units
from railcore.catalog.units import GB, number, significant
from suite import plotting
from suite.colours import FORMULAS, VERDICTS
from suite.plotting import (
    COLOURS,
    GREY,
    LINKS,
    MARKERS,
    PASSES,
    TRAFFIC,
    ink_on,
    legend_below,
    panel_title,
    percent,
    percent_axis,
    text_beside,
)

_COLUMN: dict = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "center", "fontsize": 8}  # of numbers
_LOW, _HIGH = COLOURS[0], COLOURS[4]  # of a tornado's ends
_MODELS = (  # of an iteration's time: names, columns of time and error, colour
    ("our model", "ours", "modelled_s", "error", "#000000"),
    ("document's formulas", "formulas", "formula_s", "formula_error", FORMULAS),
)
_PATHS = {"HB domain": LINKS["scale-up"], "NIC, same rail": LINKS["scale-out"]}
_PATHS["NIC, other rail"] = plotting.paler(LINKS["scale-out"], 0.55)
_ITERATION_TERMS = {  # of the two-stage model's iteration time: name and colour
    "compute_s": ("compute", PASSES["compute"]),
    "first_dp_s": ("data parallel across HB domains", TRAFFIC["data between"]),
    "second_dp_s": ("data parallel inside HB domains", TRAFFIC["data within"]),
    "model_parallel_s": ("model parallel", TRAFFIC["tensor"]),
}
TRAFFIC_NAMES = {  # in the order of the legend
    "tensor": "tensor parallel",
    "sequence": "tensor and sequence parallel",
    "data within": "data parallel inside HB domains",
    "data between": "data parallel between HB domains",
    "data": "data parallel",
    "pipeline": "pipeline",
    "context": "context",
    "expert": "expert",
    "none": "no traffic",
}


def tornado_chart(data: pd.DataFrame, ax: plt.Axes, label: str) -> plt.Axes:
    """Bars from `at_low` to `at_high`, shares, around `centre`, the widest on top; the label says how wide it is.

    Columns input, low, high (texts at the ends of the bars), at_low, at_high, centre.
    """
    data = data.assign(**{name: data[name].map(significant) for name in ("at_low", "at_high", "centre")})
    data["width"] = [significant(abs(high - low), 9) for high, low in zip(data["at_high"], data["at_low"], strict=True)]
    data = data.sort_values("width", kind="stable")
    for i, row in enumerate(data.itertuples()):
        both = ((row.at_low, row.low, _LOW), (row.at_high, row.high, _HIGH))
        one_side = (row.at_low - row.centre) * (row.at_high - row.centre) > 0
        by_length = sorted(both, key=lambda end: -significant(abs(end[0] - row.centre), 9))
        for shorter, (value, text, colour) in enumerate(by_length):
            ax.barh(i, value - row.centre, left=row.centre, color=colour, height=0.6)
            rightward = value > row.centre or (value == row.centre and colour == _HIGH)
            if one_side and shorter:  # its text would be lost in the longer bar
                value, rightward = row.centre, not rightward
            _beside(ax, value, i, units.words(text), rightward, fontsize=8)
    ends = [Patch(color=_LOW, label="at its low"), Patch(color=_HIGH, label="at its high")]
    ax.figure.legend(handles=ends, loc="outside lower center", ncols=2)
    ax.axvline(data["centre"].iloc[0], color="black", linewidth=0.8)
    ax.set_yticks(range(len(data)), data["input"])
    widest = f"the axis does not start at 0: the longest bar is {number(100 * data['width'].max(), 2)} points"
    percent_axis(ax.xaxis, f"{label}\n({widest})")
    ax.grid(axis="y", visible=False)
    ax.margins(x=0.18)
    return ax


def _beside(ax: plt.Axes, x: float, y: float, text: str, rightward: bool = True, **style) -> None:
    """A text beside the end of a bar, to its right or left."""
    shift, side = (3, "left") if rightward else (-3, "right")
    text_beside(ax, text, (x, y), (shift, 0), va="center", ha=side, **style)


def measured_runs(
    data: pd.DataFrame,
    title: str,
    document: tuple[float, str, str] | None = None,
    others: tuple[float, int] | None = None,
    note: str = "",
) -> plt.Figure:
    """Measured and modelled times as points, a run a row, and the errors beside them as bars, with their means below.

    Parameters
    ----------
    data
        Columns label, source, global_batch, measured_iteration_s, modelled_s, error; formula_s, formula_error of the
        document's formulas.
    title
        Of the figure.
    document
        Mean error that the document has of its own model at most, and our verdicts on the runs and on `others`.
    others
        Mean error of the document's formulas on other runs, and their number.
    note
        Above the legend.

    Returns
    -------
    The figure.
    """
    size, widths = (10, 0.34 * len(data) + 3.2), (1.5, 1.3)
    figure, (left, right) = plt.subplots(1, 2, figsize=size, sharey=True, width_ratios=widths)
    places = np.arange(len(data))
    for i, (source, part) in enumerate(data.assign(place=places).groupby("source", sort=False)):
        label = f"measured: {str(source).split(', arXiv')[0].split(', Table')[0]}"
        style: dict = {"marker": MARKERS[i], "markersize": 8, "linestyle": "", "color": COLOURS[i]}
        left.plot(part["measured_iteration_s"], part["place"], label=label, **style)
    last = len(data) + 0.4  # the row of the means
    for i, (name, short, time, error, colour) in enumerate(_MODELS):
        left.plot(data[time], places, "|", color=colour, markersize=15, markeredgewidth=1.8, label=name)
        mean = data[error].abs().mean()
        right.barh(np.append(places, last) + 0.36 * i - 0.18, [*data[error], mean], color=colour, height=0.34)
        texts = {-1: short, last: _to_a_tenth(mean)}
        texts |= {y: _to_a_tenth(off, "+") for y, off in enumerate(data[error]) if not np.isnan(off)}
        for y, text in texts.items():
            right.annotate(text, (0.84 + 0.18 * i, y), color=colour, **_COLUMN)
    rows = dict(zip(places, data["label"] + data["global_batch"].map(", batch {:,}".format), strict=True))
    rows[last] = "mean of absolute errors"
    if others:
        mean_of_others, count = others
        rows[last + 1] = f"the same on {count} other runs"
        right.barh(last + 1.18, mean_of_others, color=FORMULAS, height=0.34)
        right.annotate(_to_a_tenth(mean_of_others), (1.02, last + 1), color=FORMULAS, **_COLUMN)
    bound, *verdicts = document or (0.0, "")
    if document:
        words = f"document, its own model: within {percent(bound)} on average"
        means = [last, last + 1] if others else [last]
        plotting.document_marks(right, bound, means, verdicts[: len(means)], "<", "x", label=words)
    left.set_yticks([*rows], [*rows.values()], fontsize=8)
    left.set_ylim(max(rows) + 0.6, -1.4)
    plotting.log_axis(left.xaxis, [1, 2, 5, 10, 20, 50, 100])
    left.set_xlabel("iteration time [s]")
    right.axvline(0, color="black", linewidth=0.8)
    right.axhline(last - 0.7, color="black", linewidth=0.8)
    most = max(np.nanmax(data[["error", "formula_error"]].abs()), bound)
    right.set_xlim(-0.4 * most, 1.9 * most)
    right.set_xticks([tick for tick in right.get_xticks() if abs(tick) <= most and tick > -0.4 * most])
    percent_axis(right.xaxis, "modelled over measured, less 1")
    right.grid(axis="y", visible=False)
    panel_title(left, "(a) iteration time")
    panel_title(right, "(b) error")
    legend_below(figure, (left, right), 2, fontsize=9, title=note, title_fontsize=9)
    figure.suptitle(title, fontsize=11)
    return figure


def _to_a_tenth(share: float, sign: str = "") -> str:
    """A share as text, to a tenth of a percent: "5%", "-0.3%"; sign: before one above 0."""
    tenths = round(significant(1000 * share))
    return sign * (tenths > 0) + percent(tenths / 1000, 6)


def _stacked_bars(
    table: pd.DataFrame, ax: plt.Axes, across: bool = False, width: float = 0.6, colours: Sequence = ()
) -> None:
    """A bar for each row, stacked from the columns; by default in the colours of the house, hatched from the ninth on.

    across: bars to the right instead of upwards.
    """
    drawn = table.rename(index=number) if table.index.dtype.kind in "iuf" else table
    drawn = drawn.fillna(0.0).rename_axis(None)
    options: dict = {"stacked": True, "width": width, "legend": False, "ax": ax}
    options["color"] = [*(colours or (COLOURS * 3)[: table.shape[1]])]
    drawn.plot.barh(**options) if across else drawn.plot.bar(rot=0, **options)
    for bars in () if colours else ax.containers[len(COLOURS) :]:
        for bar in bars:
            bar.set_hatch("//")
    ax.grid(axis="y" if across else "x", visible=False)


def _totalled_bars(
    table: pd.DataFrame, ax: plt.Axes, text: Callable, label: str, title: str = "", lift: float = 3, **style
) -> None:
    """Stacked bars with a legend, and text(its total, the first bar's total) so many points above each."""
    _stacked_bars(table, ax, **style)
    totals = table.sum(axis=1).tolist()
    for i, total in enumerate(totals):
        text_beside(ax, text(total, totals[0]), (i, total), (0, lift), ha="center")
    ax.margins(y=0.18)
    ax.set_ylabel(label)
    ax.set_title(title, fontsize=9)
    ax.legend()


def stacked_costs(data: pd.DataFrame, x: str, y: str, by: str, ax: plt.Axes, label: str, title: str = "") -> plt.Axes:
    """Stacked bars with the total on top and its change from the first bar.

    Parameters
    ----------
    data, x, y, by
        Table, and its columns: a bar for each value of x, as high as the sum of y, in a colour for each value of by.
    ax, label, title
        Where to draw; the y axis' label and the title.

    Returns
    -------
    The axes.
    """

    def text(total: float, first: float) -> str:
        change = total / first - 1 if first else 0.0
        return number(total, 4) + (f"\n({'+' * (change > 0)}{percent(change, 2)})" if change else "")

    table = data.pivot_table(index=x, columns=by, values=y, aggfunc="sum", sort=False)
    _totalled_bars(table, ax, text, label, title)
    return ax


def iteration_terms(data: pd.DataFrame, x: str, ax: plt.Axes, title: str = "", lift: float = 3) -> plt.Axes:
    """Iteration time in its terms, stacked, with the total and the speed-up over the first bar.

    Parameters
    ----------
    data, x
        Table with the columns of TERMS [s], and its column with the names of the bars.
    ax, title
        Where to draw, and the title.
    lift
        Of the texts above the bars [points].

    Returns
    -------
    The axes.
    """

    def text(total: float, first: float) -> str:
        return f"{number(total, 3)} s" + (f"\n{number(first / total, 3)}x as fast" if total != first else "")

    names, colours = zip(*_ITERATION_TERMS.values(), strict=True)
    table = data.set_index(x)[list(_ITERATION_TERMS)].set_axis(names, axis=1)
    _totalled_bars(table, ax, text, "iteration time [s]", title, lift, colours=colours)
    ax.set_xlabel(units.label(x))
    return ax


def iteration_time_by_network(data: pd.DataFrame, title: str, marks: pd.DataFrame) -> plt.Figure:
    """Iteration time as bars, a panel for each `model` and a bar for each `network`, stacked by its terms.

    Parameters
    ----------
    data
        Columns model, network, batch_tokens and those of TERMS [s].
    title
        Of the figure.
    marks
        The document's times by ours of the first network: columns model, network, iteration_s, verdict, and text.

    Returns
    -------
    The figure.
    """
    figure, parts = plotting.panels(data, "model", (10 / data["model"].nunique(), 5.6))
    for letter, (model, part, ax) in zip(ascii_lowercase, parts, strict=False):
        iteration_terms(part, "network", ax, lift=10)
        places = {name: i for i, name in enumerate(part["network"])}
        mine = marks[marks["model"] == model]
        for mark in mine.itertuples():
            plotting.document_marks(ax, places[mark.network], mark.iteration_s, mark.verdict)
            plotting.document_text(ax, mark.text, (places[mark.network], mark.iteration_s), mark.verdict, (0, 36))
        ax.margins(y=0.32)
        batch = number(part["batch_tokens"].iloc[0] / 1e6, 3)
        ax.set(xlabel="", ylabel="" if ax is not figure.axes[0] else "iteration time [s]")
        panel_title(ax, f"({letter}) {model}, batch {batch}M tokens")
        ax.tick_params(axis="x", labelsize=9)
        ax.get_legend().remove()
    figure.suptitle(title, fontsize=11)
    legend_below(figure, figure.axes, 3)
    return figure


def iteration_breakdown(data: pd.DataFrame, ax: plt.Axes) -> plt.Axes:
    """One bar for each row of the table, stacked from its columns [s], parts under 1% of every bar left out."""
    shares = data.div(data.sum(axis=1), axis=0).max()
    shown = data[shares.index[shares > 0.01]]
    _stacked_bars(shown.rename(columns=lambda name: units.words(name.removesuffix("_s"))), ax, across=True, width=0.8)
    ax.invert_yaxis()
    for bar in ax.patches:
        bar.set_edgecolor("white")
    ax.set_xlabel("iteration time [s]")
    ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def network_costs(data: pd.DataFrame, budget_usd: float, chip_usd: Sequence[float] = ()) -> plt.Figure:
    """Bars of cost in B USD by network, stacked by part, a panel for each `links`; the budget as a dashed line.

    Where the budget is more than twice the highest bar, the legend says it without a line. A network that a panel lacks
    is named there as not laid out.

    Columns links, network, part, cost_usd. chip_usd: low, value and high of a switch chip's price, for whiskers beside
    the bars that show the total over its range.
    """
    ways, names = data["links"].nunique(), list(data["network"].unique())
    figure, parts = plotting.panels(data, "links", (5.0, 5.6) if ways > 1 else (8.0, 5.6), sharey=True)
    near = budget_usd <= 2 * data.groupby(["links", "network"])["cost_usd"].sum().max()
    for letter, (way, rows, ax) in zip(ascii_lowercase, parts, strict=False):
        part = rows.assign(billions=rows["cost_usd"] / 1e9)
        stacked_costs(part, "network", "billions", "part", ax, "cost [B USD]", f"({letter}) {way}")
        budget = f"budget: {number(budget_usd / 1e9, 3)} B USD"
        if near:
            ax.axhline(budget_usd / 1e9, color="black", linestyle="--", label=budget)
        else:
            ax.plot([], [], " ", label=f"{budget}, far above")
        if chip_usd:
            low, value, high = chip_usd
            chips = part[part["part"] == "switch chips"]["billions"].to_numpy()
            total = part.groupby("network", sort=False)["billions"].sum().to_numpy()
            span, at = [chips * (1 - low / value), chips * (high / value - 1)], np.arange(len(total)) + 0.44
            ax.errorbar(at, total, span, fmt="_", color="#555555", capsize=3, label="range of the chips' price")
        for i in range(part["network"].nunique(), len(names)):
            ax.text(i, 0.1, "not laid\nout in\nracks", ha="center", va="bottom", fontsize=9)
        ax.set_xlim(-0.5, len(names) - 0.4)
        ax.set_xticks(range(len(names)), [name.replace(", ", ",\n") for name in names])
        ax.get_legend().remove()
    legend_below(figure, figure.axes[0], 5)
    return figure


def traffic_by_strategy(data: pd.DataFrame, title: str = "") -> plt.Figure:
    """What the busiest GPU of each kind sends in its HB domain and over its NIC, a bar for each strategy.

    Columns case, kind (of TRAFFIC, or "all", not drawn), domain_gpu_bytes, nic_bytes.
    """
    names = list(data["case"].unique())
    figure, axes = plt.subplots(1, 2, figsize=(10, 1.8 + 0.5 * len(names)), sharey=True)
    kinds = [kind for kind in TRAFFIC_NAMES if kind in set(data["kind"])]
    columns = {"domain_gpu_bytes": "(a) in the HB domain", "nic_bytes": "(b) over the NIC"}
    for ax, (column, name) in zip(axes, columns.items(), strict=True):
        table = data.pivot_table(index="case", columns="kind", values=column, sort=False).reindex(names)[kinds] / GB
        colours, totals = [TRAFFIC[kind] for kind in kinds], table.sum(axis=1)
        _stacked_bars(table.rename(columns=TRAFFIC_NAMES), ax, across=True, width=0.62, colours=colours)
        for y, total in enumerate(totals):
            _beside(ax, total, y, number(total, 3), fontsize=8)
        ax.set(xlabel="sent by a GPU [GB]", xlim=(0, 1.15 * totals.max()))
        panel_title(ax, name)
        ax.xaxis.set_major_formatter(lambda value, _: number(value))
        ax.tick_params(axis="y", length=0)
    axes[0].invert_yaxis()
    figure.suptitle(title, fontsize=10)
    legend_below(figure, axes[0])
    for text, kind in zip(figure.legends[0].get_texts(), kinds, strict=True):
        share = max(data.loc[data["kind"] == kind, name].max() / max(data[name].max(), 1) for name in columns)
        text.set_text(text.get_text() + " (too small to see)" * bool(share < 0.003))
    return figure


_PAIR_KINDS = ("tensor", "data within", "data between")  # stacked; the first two stay inside HB domains
_PAIR_PANELS = {"pairs": ("(a) GPU pairs with traffic", "share of ordered GPU pairs")}
_PAIR_PANELS["volume"] = ("(b) volume", "share of bytes")


def traffic_shares(data: pd.DataFrame, title: str, marks: pd.DataFrame, names: Mapping[str, str]) -> plt.Figure:
    """(a) share of GPU pairs and (b) of the bytes by kind of traffic, stacked, for each model.

    Over the bars stand the share of pairs without traffic and the sum of the kinds that stay inside HB domains.

    Parameters
    ----------
    data
        Columns case, silent_pairs, kind (of _PAIR_KINDS, or "all"), share_of_pairs, share_of_bytes.
    title
        Of the figure.
    marks
        The document's bounds: columns panel ("pairs" or "volume"), share, relation (< or >), verdict, text.
    names
        Of the kinds, in the document's words.

    Returns
    -------
    The figure.
    """
    figure, axes = plt.subplots(1, 2, figsize=(10, 5.4))
    figure.suptitle(title, fontsize=11)
    models = list(data["case"].unique())
    silent = data[data["kind"] == "all"].set_index("case")["silent_pairs"]
    for ax, (panel, (name, label)) in zip(axes, _PAIR_PANELS.items(), strict=True):
        column = "share_of_pairs" if panel == "pairs" else "share_of_bytes"
        table = data.pivot(index="case", columns="kind", values=column).loc[models]
        table = table[[kind for kind in _PAIR_KINDS if kind in table]]
        _stacked_bars(table.rename(columns=names), ax, width=0.75, colours=[TRAFFIC[kind] for kind in table])
        inside, mine = table.drop(columns="data between", errors="ignore").sum(axis=1), marks[marks["panel"] == panel]
        for x, model in enumerate(models):
            whole = table.loc[model].sum(), f"no traffic:\n{percent(silent[model], 4)}", {"shift": (0, 3)}
            ink: dict = {"color": ink_on(TRAFFIC["data between"]), "shift": (0, 3)}
            if panel == "volume":  # on the bar, below the sum and the line of a bound
                face = TRAFFIC["data within"]
                ink = {"color": ink_on(face), "shift": (0, -3), "va": "top"}
                ink["bbox"] = {"facecolor": face, "linewidth": 0, "pad": 0}
            below = min([inside[model], *mine["share"]]) if panel == "volume" else inside[model]
            together = below, f"↓ {percent(inside[model])}", ink
            for y, words, look in (whole, together) if panel == "pairs" else (together,):
                text_beside(ax, words, (x, y), **look, ha="center", fontsize=8)
        for mark in mine.itertuples():
            _bound(ax, mark, len(models))
        panel_title(ax, name)
        ax.set_xlim(-0.5, len(models) - 0.5 + (0.9 if len(marks) else 0))
        ax.margins(y=0.2)
        percent_axis(ax.yaxis, label)
    axes[1].set_yticks(np.linspace(0, 1, 6))
    legend_below(figure, axes, 2, title="↓: all traffic inside HB domains together")
    return figure


def _bound(ax: plt.Axes, mark, x: float) -> None:
    """A bound of the document: a dashed line, at x a mark with an arrow to what is allowed, its words opposite."""
    ax.axhline(mark.share, color=VERDICTS[mark.verdict], linestyle=(0, (4, 3)), linewidth=1)
    words, shift = f"document:\n{mark.text}", (0, 9 if mark.relation == "<" else -9)
    plotting.document_marks(ax, x, mark.share, mark.verdict, mark.relation, text=words, shift=shift)


def volume_by_kind(volumes: pd.DataFrame, ax: plt.Axes) -> plt.Axes:
    """Bytes of each `kind` in GB, stacked by `path`, with their sum and its share on top. Columns kind, path, bytes."""
    table = volumes.pivot_table(index="kind", columns="path", values="bytes", aggfunc="sum", sort=False) / GB
    totals = table.sum(axis=1)

    def text(total: float, _first: float) -> str:
        return f"{number(total, 4)} GB\n{percent(total / totals.sum())}"

    colours = [_PATHS.get(str(path), GREY) for path in table]
    _totalled_bars(table, ax, text, "all GPUs' traffic in an iteration [GB]", width=0.8, colours=colours)
    ax.set_ylim(0, 1.15 * totals.max())
    return ax
