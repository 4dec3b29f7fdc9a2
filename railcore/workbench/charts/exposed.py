"""Plots of exposed communication: timelines of the exchange, shares against speeds and micro-batches, placements."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from railcore.facts import units
from railcore.facts.units import number
from railcore.workbench import plotting
from railcore.workbench.charts.pipeline import FILLS
from railcore.workbench.plotting import COLOURS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

LANES = ("GPU", "scale-up", "scale-out", "wide area")
EVENTS = {  # colour of what stands in the lanes, in the order of the legend
    "forward": FILLS["forward"],
    "backward": FILLS["backward"],
    "tensor": COLOURS[6],
    "pipeline": COLOURS[7],
    "scale-up reduce": COLOURS[0],
    "scale-out reduce": COLOURS[1],
    "wide area": COLOURS[2],
    "propagation": "#B9E0D3",
    "scale-out gather": "#F3B98C",
    "scale-up gather": "#9CC8E6",
}
WORDS = {"tensor": "tensor exchange, exposed", "pipeline": "pipeline send, exposed", "wide area": "3 wide area"}
WORDS |= {"scale-up reduce": "1 scale-up reduce", "scale-out reduce": "2 scale-out reduce"}
WORDS |= {"scale-out gather": "4 scale-out gather", "scale-up gather": "5 scale-up gather"}
PANELS = (("scale-up", "a"), ("scale-out", "b"), ("wide area", "c"))


PRINTED = {"=": ("o", "equal or about"), "~": ("o", "equal or about"), "<": ("v", "less than"), ">": ("^", "more than")}
HOLLOW: dict = {"markerfacecolor": "white", "markeredgewidth": 1.6, "markersize": 7, "zorder": 4}


class Timed(Protocol):
    """What `timelines` draws."""

    events: "pd.DataFrame"
    backward_end_s: float
    due_s: float


def timelines(parts: "Mapping[str, Timed]") -> "Figure":
    """A device's passes and the steps of the exchange on their networks, a panel for each, by title.

    Each with events (columns lane, event, chunk, start_s, end_s), backward_end_s and due_s [s], end of the backward
    pass, dashed, and of what the next pass waits for; between them the exchange is exposed, shaded.
    """
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure, axes = plt.subplots(len(parts), 1, figsize=(11, 0.9 + 2.4 * len(parts)), squeeze=False)
    for ax, (title, part) in zip(axes.flat, parts.items(), strict=True):
        events, backward_end_s, due_s = part.events, part.backward_end_s, part.due_s
        for event in reversed(EVENTS):  # the passes' traffic over the steps that it interrupts
            _bars(ax, events[(events.event == event) & (events.end_s > events.start_s)], EVENTS[event])
        if due_s > backward_end_s:
            ax.axvspan(backward_end_s * 1e3, due_s * 1e3, color="#F6D7D2", zorder=0)
        ax.axvline(backward_end_s * 1e3, color="black", linestyle="--", linewidth=1)
        ax.set(xlim=(0, events.end_s.max() * 1e3), ylim=(len(LANES) - 0.5, -0.5))
        ax.set_yticks(range(len(LANES)), LANES)
        ax.tick_params(axis="y", length=0)
        ax.grid(axis="y", visible=False)
        _entitle(ax, title)
    axes[-1, 0].set_xlabel("time [ms]")
    handles: list = [Patch(facecolor=colour, label=WORDS.get(event, event)) for event, colour in EVENTS.items()]
    handles.append(Patch(facecolor="#F6D7D2", label="exchange exposed"))
    handles.append(Line2D([], [], color="black", linestyle="--", linewidth=1, label="end of the backward pass"))
    figure.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=9)
    return figure


def against_speeds(data: "pd.DataFrame", printed: "pd.DataFrame") -> "Figure":
    """Exposed share against the speed of each network, a panel for each, a line for each model and case.

    Columns of data: network, speed_Bps, model, case, share; of printed, points of the document: network, speed_Bps,
    model, share, relation (one of = < >).
    """
    import matplotlib.pyplot as plt
    from matplotlib.ticker import PercentFormatter

    figure, axes = plt.subplots(1, 3, figsize=(12, 4.4), sharey=True)
    for ax, (network, letter) in zip(axes, PANELS, strict=True):
        part = data[data.network == network]
        for i, model in enumerate(data.model.unique()):
            for case, style in zip(data.case.unique(), ("-", ":"), strict=False):
                rows = part[(part.model == model) & (part.case == case)]
                name = _named(f"{model}, {case}" if part.case.nunique() > 1 else model)
                if len(rows):
                    ax.plot(rows.speed_Bps / units.Gbps, rows.share, style, color=COLOURS[i], label=name, linewidth=2)
            points = printed[(printed.network == network) & (printed.model == model)]
            for row in points.itertuples():
                look = {"markeredgecolor": COLOURS[i]} | HOLLOW
                ax.plot(row.speed_Bps / units.Gbps, row.share, PRINTED[row.relation][0], **look)
        ax.set(xscale="log", ylim=(0, 1), xlabel=f"{network.replace(' ', '-')} speed of a GPU [Gbps]")
        _decades(ax.xaxis)
        _entitle(ax, f"({letter}) {network}")
        ax.legend(fontsize=9)
    axes[0].set_ylabel("exposed share of the time")
    axes[0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    marks = dict(PRINTED[relation] for relation in sorted(set(printed.relation)))
    handles = [
        plt.Line2D([], [], marker=mark, linestyle="", color="black", label=marks[mark], **HOLLOW) for mark in marks
    ]
    title = "printed in the document for its own models and machine, in the colour of the model"
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=9, title=title)
    return figure


def against_micro_batches(data: "pd.DataFrame") -> "Figure":
    """Exposed and idle share against micro-batches of an iteration, a panel for each model; tokens under the ticks.

    Columns model, micro_batches, tokens, exposed, idle, steady_share.
    """
    import matplotlib.pyplot as plt
    from matplotlib.ticker import PercentFormatter

    models = list(data.model.unique())
    figure, axes = plt.subplots(1, len(models), figsize=(10.5, 4.6), sharey=True, squeeze=False)
    figure.set_layout_engine("constrained", wspace=0.08)  # or the first tick of a panel meets the one before
    for ax, model in zip(axes.flat, models, strict=True):
        part = data[data.model == model]
        exposed = {"color": COLOURS[1], "label": "exposed communication"}
        ax.fill_between(part.micro_batches, part.idle + part.exposed, 1, color=COLOURS[5], alpha=0.5, label="computing")
        ax.fill_between(part.micro_batches, part.idle, part.idle + part.exposed, **exposed)
        ax.fill_between(part.micro_batches, 0, part.idle, color="#D9D9D9", label="idle: fill and drain")
        steady = 1 - part.steady_share
        ax.plot(part.micro_batches, steady, "k--", label="steady state, an exchange each micro-batch: above it exposed")
        ax.set(xscale="log", ylim=(0, 1), xlabel="micro-batches of an iteration, batch [billion tokens]")
        ax.set_xlim(part.micro_batches.min(), part.micro_batches.max())
        marked = part.iloc[:: max(1, round(len(part) / 7))]
        ax.set_xticks(
            marked.micro_batches,
            [f"{row.micro_batches:,}\n{number(row.tokens / 1e9, 2)}" for row in marked.itertuples()],
        )
        ax.minorticks_off()
        _entitle(ax, model)
    axes[0, 0].set_ylabel("share of the time")
    axes[0, 0].yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2)
    return figure


def placements(data: "pd.DataFrame", at: Mapping[str, float]) -> "Figure":
    """Exposed share of every placement of experts against each speed, and the best one over both.

    Columns hb_Bps, nic_Bps, placement, share, best. at: hb_Bps and nic_Bps that the first two panels hold [bytes/s],
    values of the grid.
    """
    import matplotlib.pyplot as plt
    from matplotlib.colors import ListedColormap
    from matplotlib.ticker import PercentFormatter

    names = list(data.placement.unique())
    titles = {"hb_Bps": "scale-up", "nic_Bps": "scale-out"}
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.8))
    for ax, x, held in zip(axes, ("nic_Bps", "hb_Bps"), ("hb_Bps", "nic_Bps"), strict=False):
        part = data[data[held] == at[held]].assign(speed=lambda rows, x=x: rows[x] / units.Gbps)
        plotting.lines(part, "speed", "share", "placement", ax, names)
        ax.set(
            xscale="log", ylim=(0, 1), xlabel=f"{titles[x]} speed of a GPU [Gbps]", ylabel="exposed share of the time"
        )
        _entitle(ax, f"{titles[held]} at {units.show(at[held], 'bps', 3)}")
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        _decades(ax.xaxis)
    best = data[data.best].drop_duplicates(["hb_Bps", "nic_Bps"])
    grid = best.assign(which=best.placement.map(names.index)).pivot(index="hb_Bps", columns="nic_Bps", values="which")
    colours = ListedColormap([COLOURS[i % len(COLOURS)] for i in range(len(names))])
    columns, rows = grid.columns / units.Gbps, grid.index / units.Gbps
    levels = {"vmin": -0.5, "vmax": len(names) - 0.5, "shading": "nearest", "rasterized": True}
    axes[2].pcolormesh(columns, rows, grid, cmap=colours, **levels)
    axes[2].set(xscale="log", yscale="log", xlabel="scale-out speed of a GPU [Gbps]")
    axes[2].set_ylabel("scale-up speed of a GPU [Gbps]")
    _entitle(axes[2], "least exposed placement")
    for axis in (axes[2].xaxis, axes[2].yaxis):
        _decades(axis)
    here = (at["nic_Bps"] / units.Gbps, at["hb_Bps"] / units.Gbps)
    axes[2].plot(*here, "*", color="white", markeredgecolor="black", markersize=14)
    axes[2].annotate("here", here, xytext=(9, -3), textcoords="offset points")
    handles, labels = axes[0].get_legend_handles_labels()
    title = "where the experts of a layer are (t: GPUs of a tensor group, b: sequences of a micro-batch if not one)"
    figure.legend(handles, labels, loc="outside lower center", ncols=4, title=title)
    return figure


def tornadoes(data: "pd.DataFrame", most: int = 10) -> "Figure":
    """A tornado for each model, the `most` important inputs; columns model and those of `plotting.tornado`, swing."""
    import matplotlib.pyplot as plt
    from matplotlib.ticker import PercentFormatter

    models = list(data.model.unique())
    figure, axes = plt.subplots(len(models), 1, figsize=(10, 0.5 + 3.3 * len(models)), squeeze=False)
    for ax, model in zip(axes.flat, models, strict=True):
        part = data[(data.model == model) & (data.swing > 1e-4)].nlargest(most, "swing")
        for low in ("low", "high"):  # an end that changes nothing goes into the name
            still = (part[f"at_{low}"] - part.centre).abs() < 1e-9
            part.loc[still, "input"] += " (" + part.loc[still, low] + ": no change)"
            part.loc[still, low] = ""
        plotting.tornado(part, ax, "exposed share of the time")
        ax.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        _entitle(ax, model)
    return figure


def _named(title: str) -> str:
    """A title with the mixture's short name, a claim's, written out."""
    return title.replace("moe", "mixture of experts", 1) if title.startswith("moe") else title


def _entitle(ax: "Axes", title: str) -> None:
    ax.set_title(_named(title), fontsize=10, loc="left", y=1)  # given y, drawing need not look for it each time


def _decades(axis: "Axis") -> None:
    """Numbers written out on a logarithmic axis, at 1, 2 and 5 where there is room, and no minor ticks."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 300 * low else (1,)))
    axis.set_minor_locator(NullLocator())
    axis.set_tick_params(labelsize=9)
    plotting.plain_axis(axis)


def _bars(ax: "Axes", events: "pd.DataFrame", colour: str) -> None:
    from matplotlib.collections import PolyCollection

    corners = []
    for row in events.itertuples():
        y, half, start, end = LANES.index(row.lane), 0.36, row.start_s * 1e3, row.end_s * 1e3
        if row.event == "propagation":
            half = 0.12
        corners.append([(start, y - half), (end, y - half), (end, y + half), (start, y + half)])
    ax.add_collection(PolyCollection(corners, facecolors=[colour], edgecolors="white", linewidths=0.3))
