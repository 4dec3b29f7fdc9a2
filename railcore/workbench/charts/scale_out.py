"""Plots of scale-out networks: cost by rails and planes, lengths of links, and what locality allows."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from railcore.facts.units import number
from railcore.workbench import plotting
from railcore.workbench.plotting import COLOURS, MARKERS

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def cost_map(data: "pd.DataFrame", marks: Mapping[str, tuple[int, int]]) -> "Figure":
    """Cost as colour over rails (across) and planes (up), tiers written on it, with marks at (rails, planes).

    Columns rails, planes, cost_usd, tiers.
    """
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(9.5, 4.2))
    table = data.pivot(index="planes", columns="rails", values="cost_usd") / 1e9
    planes, edges = list(table.index), np.append(table.columns - 0.5, table.columns[-1] + 0.5)
    mesh = ax.pcolormesh(edges, np.arange(len(planes) + 1) - 0.5, table, cmap=plotting.dark_is_high(), rasterized=True)
    figure.colorbar(mesh, ax=ax, label="cost [billion USD]")
    for (count, tiers), run in data.groupby(["planes", "tiers"])["rails"]:
        if run.size > 0.05 * len(table.columns):
            dark = table.loc[count, run].mean() > table.to_numpy().mean()
            style: dict = {"ha": "center", "va": "top", "fontsize": 8, "color": "white" if dark else "black"}
            ax.text(run.mean(), planes.index(count) + 0.45, f"{tiers} tiers", **style)
    for i, (name, (r, p)) in enumerate(marks.items()):
        style = {"markeredgecolor": "black", "markersize": 10 - i, "linestyle": "", "clip_on": False}
        label = f"{name}: {r} rails, {p} planes"
        ax.plot(r, planes.index(p), MARKERS[i], color=COLOURS[(1, 3, 4, 5, 2)[i % 5]], label=label, **style)
    ax.set_yticks(range(len(planes)), [number(count) for count in planes])
    ax.set(xlabel="rails", ylabel="planes")
    ax.grid(False)
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def costs(data: "pd.DataFrame", budget_usd: float, chip_usd: Sequence[float] = ()) -> "Figure":
    """Bars of cost in billion USD by network, stacked by part, a panel for each `links`; the budget as a dashed line.

    Where the budget is more than twice the highest bar, the legend says it without a line. A network that a panel lacks
    is named there as not laid out.

    Columns links, network, part, cost_usd. chip_usd: low, value and high of a switch chip's price, for whiskers beside
    the bars that show the total over its range.
    """
    import matplotlib.pyplot as plt

    ways, networks = list(data["links"].unique()), list(data["network"].unique())
    wide = 5.8 * len(ways) if len(ways) > 1 else 8.0
    figure, axes = plt.subplots(1, len(ways), figsize=(wide, 5.2), sharey=True)
    near = budget_usd <= 2 * data.groupby(["links", "network"])["cost_usd"].sum().max()
    for ax, way in zip(np.atleast_1d(axes), ways, strict=True):
        part = data[data["links"] == way].assign(billions=data["cost_usd"] / 1e9)
        plotting.stacked(part, "network", "billions", "part", ax, "cost [billion USD]", way)
        if near:
            ax.axhline(budget_usd / 1e9, color="black", linestyle="--", label="budget")
        else:
            ax.plot([], [], " ", label=f"budget: {number(budget_usd / 1e9, 3)} billion USD, far above")
        if chip_usd:
            low, value, high = chip_usd
            chips = part[part["part"] == "switch chips"]["billions"].to_numpy()
            total = part.groupby("network", sort=False)["billions"].sum().to_numpy()
            span, at = [chips * (1 - low / value), chips * (high / value - 1)], np.arange(len(total)) + 0.44
            ax.errorbar(at, total, span, fmt="_", color="#555555", capsize=3, label="range of the chips' price")
        for i in range(part["network"].nunique(), len(networks)):
            ax.text(i, 0.1, f"{networks[i]}:\nnot laid out in racks", rotation=90, ha="center", va="bottom", fontsize=8)
        ax.set_xlim(-0.5, len(networks) - 0.4)
        ax.set_xticks(range(len(networks)), [name.replace(", ", ",\n") for name in networks])
        ax.get_legend().remove()
    handles, labels = np.atleast_1d(axes)[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5)
    return figure


def link_lengths(data: "pd.DataFrame", media: "pd.DataFrame") -> "Figure":
    """Share of links up to each length, a panel for each `network` and a line for each `tier`; reaches as verticals.

    Columns network, tier, length_m, share; of the media: medium, copper, reach_m.
    """
    import matplotlib.pyplot as plt
    from matplotlib.ticker import PercentFormatter

    names = list(data["network"].unique())
    figure, axes = plt.subplots(1, len(names), figsize=(5 * len(names), 4.6), sharey=True, squeeze=False)
    for ax, name in zip(axes[0], names, strict=True):
        part = data[data["network"] == name]
        for i, tier in enumerate(part["tier"].unique()):
            rows = part[part["tier"] == tier]
            label = f"below tier {tier}" + (" (host links)" if tier == 1 else "")
            ax.plot(
                rows["length_m"], rows["share"], color=COLOURS[i], linestyle=("-", "--", "-.", ":")[i % 4], label=label
            )
        for row in media.itertuples():
            ax.axvline(row.reach_m, color=COLOURS[7], linewidth=0.8, linestyle="-" if row.copper else ":")
            place: dict = {"rotation": 90, "fontsize": 8, "va": "bottom", "ha": "right", "color": "#555555"}
            ax.text(row.reach_m * 0.98, 1.02, row.medium.split()[-1], **place)
        ax.set(title=name, xscale="log", ylim=(-0.03, 1.14))
        ax.set_xticks([1, 5, 20, 100, 500])
        ax.set_yticks([0, 0.25, 0.5, 0.75, 1])
        ax.minorticks_off()
        plotting.plain_axis(ax.xaxis)
        ax.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        ax.set_xlabel("length [m]")
    axes[0, 0].set_ylabel("share of links up to it")
    handles, labels = max((ax.get_legend_handles_labels() for ax in axes.flat), key=lambda found: len(found[0]))
    for copper, name in ((True, "reach of a copper cable"), (False, "reach of optics")):
        if (media["copper"] == copper).any():
            handles.append(plt.Line2D([], [], color=COLOURS[7], linewidth=0.8, linestyle="-" if copper else ":"))
            labels.append(name)
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def oversubscribed_costs(data: "pd.DataFrame") -> "Figure":
    """(a) what leaves the busiest leaf by placement against its uplinks, (b) cost; over oversubscription.

    Columns placement, oversubscription, uplinks, most_leaving, fits, cost_usd. The largest oversubscription that fits
    each placement is marked in (b).
    """
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.8))
    one = data.drop_duplicates("oversubscription")
    axes[0].plot(one["oversubscription"], one["uplinks"], color="black", linewidth=2, label="uplinks of a leaf")
    axes[1].plot(one["oversubscription"], one["cost_usd"] / 1e9, color="black", marker=".")
    for i, (name, rows) in enumerate(data.groupby("placement", sort=False)):
        style: dict = {"color": COLOURS[i], "marker": MARKERS[i]}
        axes[0].plot(rows["oversubscription"], rows["most_leaving"], label=name, linestyle=("-", "--")[i % 2], **style)
        best = rows[rows["fits"]].nlargest(1, "oversubscription")
        axes[1].plot(best["oversubscription"], best["cost_usd"] / 1e9, linestyle="", markersize=11 - 2 * i, **style)
    axes[0].set(ylabel="traffic leaving, in NICs at full rate", title="(a) what leaves the busiest leaf", yscale="log")
    axes[1].set(ylabel="cost [billion USD]", title="(b) cost; marked: the most that a placement allows", ylim=0)
    axes[0].set_yticks([10, 20, 50, 100, 200])
    plotting.plain_axis(axes[0].yaxis)
    for ax in axes:
        _ratio_axis(ax, sorted(data["oversubscription"].unique()))
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5)
    return figure


def _ratio_axis(ax: "Axes", ratios: Sequence[float]) -> None:
    ax.set(xscale="log", xlabel="oversubscription of the leaves, bandwidth down : up")
    shown = [ratio for ratio in ratios if ratio == int(ratio)]
    ax.set_xticks(shown, [f"{number(ratio)}:1" for ratio in shown])
    ax.minorticks_off()
