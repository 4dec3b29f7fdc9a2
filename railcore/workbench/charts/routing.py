"""Pictures of mixture-of-experts traffic: what is sent, between whom, and how long its routing takes."""

from typing import TYPE_CHECKING, Any

import numpy as np

from railcore.facts.units import GB, ms, number
from railcore.workbench.charts import traffic
from railcore.workbench.plotting import COLOURS, MARKERS, percent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

HATCHES = {"in turn": "", "pipelined": "////"}


def volume_and_matrix(volumes: "pd.DataFrame", matrix: np.ndarray, hb_domain_size: int) -> "Figure":
    """(a) bytes by kind, stacked by path, each kind with its share; (b) bytes between pairs of GPUs, domains boxed.

    Columns of volumes kind, path, bytes; matrix [from, to] [bytes], on a logarithmic scale, silent pairs white.
    """
    import matplotlib.pyplot as plt
    import pandas as pd

    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.6), width_ratios=(1, 1.35))
    sums = volumes.groupby("kind", sort=False)["bytes"].sum()
    bottom = dict.fromkeys(sums.index, 0.0)
    for i, (path, part) in enumerate(volumes.groupby("path", sort=False)):
        heights = part["bytes"] / GB
        left.bar(part["kind"], heights, bottom=[bottom[kind] for kind in part["kind"]], color=COLOURS[i], label=path)
        bottom |= {kind: bottom[kind] + height for kind, height in zip(part["kind"], heights, strict=True)}
    for i, (kind, total) in enumerate(sums.items()):
        text = f"{number(total / GB, 4)} GB\n{percent(total / sums.sum())}"
        left.annotate(text, (i, bottom[kind]), xytext=(0, 3), textcoords="offset points", ha="center")
    left.grid(axis="x", visible=False)
    left.set(ylabel="all GPUs' traffic in an iteration [GB]", title="(a) volume by type")
    left.set_ylim(0, 1.15 * max(bottom.values()))
    left.legend()
    source, target = matrix.nonzero()
    entries = pd.DataFrame({"source": source, "target": target, "bytes": matrix[source, target]})
    colours = traffic.shades(entries["bytes"].to_numpy() / GB)
    traffic.byte_heatmap(entries, hb_domain_size, right, colours, rail=False).set_title("(b) traffic matrix")
    traffic.colour_bar(figure, colours, ax=right)
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14))
    return figure


def slowdowns(data: "pd.DataFrame", title: str = "") -> "Figure":
    """A panel for each load: bars of each routing, in turn and pipelined, over platforms; a black dash is B_NIC/B_HB.

    Columns load, platform, routing, phases, slowdown, bandwidth_ratio.
    """
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    loads = list(data["load"].unique())
    columns = min(len(loads), 2)
    rows = -(-len(loads) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(10, 3.1 * rows), squeeze=False, sharex=True)
    for ax, load in zip(axes.flat, loads, strict=False):
        panel = data[data["load"] == load]
        places = {name: i for i, name in enumerate(panel["platform"].unique())}
        cases = list(panel.groupby(["phases", "routing"], sort=False))
        for i, ((phases, routing), part) in enumerate(cases):
            at = [places[name] + (i - (len(cases) - 1) / 2) * 0.19 for name in part["platform"]]
            style: dict = {"color": COLOURS[("two-hop", "hierarchical").index(routing)], "edgecolor": "white"}
            ax.bar(at, part["slowdown"], 0.18, hatch=HATCHES[phases], label=f"{routing}, {phases}", **style)
            for x in np.compress(part["slowdown"].abs() < 1e-9, at):  # or the bar would seem to be forgotten
                ax.annotate("0", (x, 0), (0, 2), textcoords="offset points", ha="center", fontsize=8)
        ratios = panel.drop_duplicates("platform")
        ends = [(places[name] - 0.42, places[name] + 0.42) for name in ratios["platform"]]
        ax.hlines(ratios["bandwidth_ratio"], *zip(*ends, strict=True), color="black", linestyle="--", linewidth=1)
        ax.axhline(0, color="black", linewidth=0.8)
        ax.set_xticks(range(len(places)), [name.replace(", ", ",\n").replace(" full", "\nfull") for name in places])
        ax.grid(axis="x", visible=False)
        ax.yaxis.set_major_formatter(lambda share, _: percent(share))
        ax.set(title=load, ylabel="slowdown over direct")
        ax.margins(y=0.15)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    handles.append(Line2D([], [], color="black", linestyle="--", linewidth=1))
    figure.legend(handles, [*labels, "B_NIC / B_HB"], loc="outside lower center", ncols=3, title=title)
    return figure


def layers(data: "pd.DataFrame") -> "Figure":
    """A panel for each imbalance: time of an exchange over the layer's oversubscription, and without a layer.

    Lines with markers are direct over the layer, one for each HB domain size; in the same colour broad two-hop and
    dotted hierarchical without a layer. Columns imbalance, hb_domain_size, oversubscription, direct_s, two_hop_s,
    hierarchical_s.
    """
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D

    panels = list(data.groupby("imbalance"))
    figure, axes = plt.subplots(1, len(panels), figsize=(max(5 * len(panels), 8), 4.6), squeeze=False)
    for ax, (imbalance, panel) in zip(axes.flat, panels, strict=True):
        for i, (size, part) in enumerate(panel.groupby("hb_domain_size")):
            style: dict = {"color": COLOURS[i % len(COLOURS)]}
            marked = {"marker": MARKERS[i % len(MARKERS)], "markersize": 4.5, "label": f"{size} GPUs"}
            ax.plot(part["oversubscription"], part["direct_s"] / ms, **style, **marked)
            ax.plot(part["oversubscription"], part["two_hop_s"] / ms, linewidth=4.5, alpha=0.4, **style)
            ax.plot(part["oversubscription"], part["hierarchical_s"] / ms, linestyle=":", linewidth=2, **style)
        ratios = sorted(panel["oversubscription"].unique())
        ax.set(xscale="log", ylim=(0, None), xlabel="oversubscription of the any-to-any layer, down : up")
        ax.set_xticks(ratios, [f"{number(ratio)}:1" for ratio in ratios], rotation=45)
        ax.minorticks_off()
        load = "uniform load" if imbalance == 1 else f"one hot expert, {number(imbalance)} times the mean"
        ax.set(title=load, ylabel="time of one exchange [ms]")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    grey: dict[str, Any] = {"color": COLOURS[7]}
    handles += [Line2D([], [], **grey), Line2D([], [], linewidth=4.5, alpha=0.4, **grey)]
    handles += [Line2D([], [], linestyle=":", linewidth=2, **grey)]
    labels += ["direct", "two-hop, no layer", "hierarchical, no layer"]
    figure.legend(
        handles, labels, loc="outside lower center", ncols=4, title="HB domain size, and the way to the experts"
    )
    return figure
