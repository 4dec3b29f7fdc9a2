"""Plots of traffic: DataFrames of entries and summaries in, figures or Axes out."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from railcore.facts.units import GB, number
from railcore.workbench.plotting import COLOURS, MARKERS, dark_is_high, percent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

KINDS = {
    "tensor": ("tensor (model parallel)", COLOURS[0]),
    "sequence": ("tensor and sequence", COLOURS[0]),
    "data within": ("data, within HB domains", COLOURS[4]),
    "data between": ("data, between HB domains", COLOURS[1]),
    "data": ("data", COLOURS[1]),
    "pipeline": ("pipeline", COLOURS[2]),
    "context": ("context", COLOURS[3]),
    "expert": ("expert", COLOURS[5]),
    "none": ("no traffic", COLOURS[7]),
}
_CELLS = 256  # of a picture's side: more GPUs share a cell, which shows the largest entry
_PANEL_IN, _GAP_IN, _BOTTOM_IN = 3.6, 0.85, 1.1


def in_gigabytes(table: "pd.DataFrame") -> "pd.DataFrame":
    """A table to show, its columns of bytes as "... [GB]", names in one line."""
    named = {name: f"{name.removesuffix('bytes').rstrip('_') or 'in all'} [GB]" for name in table}
    columns = {name: label for name, label in named.items() if name.endswith("bytes") and not name.startswith("share")}
    sizes = {name: table[name] / GB for name in columns}
    return table.assign(**sizes).rename(columns=columns).replace("\n", ", ", regex=True)


def matrices(panels: Mapping[str, "pd.DataFrame"], hb_domain_size: int, rows: int = 1) -> "Figure":
    """Traffic matrices on one logarithmic colour scale, column by column in so many rows.

    panels: entries by title, columns source, target, bytes; all GPUs from 0 to the last one there are drawn.
    """
    import matplotlib.pyplot as plt

    sizes = np.concatenate([entries["bytes"] for entries in panels.values()]) / GB
    colours = shades(sizes)
    columns, step = -(-len(panels) // rows), _PANEL_IN + _GAP_IN
    size = np.array([columns * step + 1.3, rows * step + _BOTTOM_IN - 0.4])
    figure = plt.figure(figsize=tuple(size))
    figure.set_layout_engine("none")
    for i, (title, entries) in enumerate(panels.items()):
        corner = (_GAP_IN + i // rows * step, _BOTTOM_IN + (rows - 1 - i % rows) * step)
        ax = figure.add_axes((*(corner / size), *(_PANEL_IN / size)))
        byte_heatmap(entries, hb_domain_size, ax, colours).set_title(title)
    bar = figure.add_axes((*((columns * step + 0.2, _BOTTOM_IN) / size), *((0.2, size[1] - _BOTTOM_IN - 0.45) / size)))
    colour_bar(figure, colours, cax=bar)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    for ax in figure.axes[1:-1]:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            if label not in labels:
                handles, labels = [*handles, handle], [*labels, label]
    figure.legend(handles, labels, loc="lower center", ncols=len(labels))
    return figure


def shades(sizes: np.ndarray) -> "ScalarMappable":
    """Logarithmic colours over positive sizes [GB], dark is high."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LogNorm

    return ScalarMappable(LogNorm(sizes.min() / 1.05, sizes.max() * 1.05), dark_is_high())


def colour_bar(figure: "Figure", colours: "ScalarMappable", **place) -> None:
    """The scale of `shades`."""
    from matplotlib.ticker import NullFormatter

    bar = figure.colorbar(colours, label="sent in one iteration [GB]", **place)
    bar.ax.yaxis.set_major_formatter(lambda value, _: number(value))
    bar.ax.yaxis.set_minor_formatter(NullFormatter())


def byte_heatmap(
    entries: "pd.DataFrame", hb_domain_size: int, ax: "Axes", colours: "ScalarMappable", rail: bool = True
) -> "Axes":
    """One traffic matrix in GB, HB domains boxed and, with `rail`, what rail 1 carries ringed; silent pairs are white.

    Fewer GPUs than an HB domain are a part of one, without a box.
    """
    from matplotlib.patches import Rectangle

    source, target = (entries[end].to_numpy() for end in ("source", "target"))
    gpus = int(max(source.max(), target.max())) + 1
    side = min(gpus, _CELLS)
    cells = np.zeros((side, side))
    np.maximum.at(cells, (source * side // gpus, target * side // gpus), entries["bytes"].to_numpy() / GB)
    corners = (0.5, gpus + 0.5)
    style: dict[str, Any] = {"extent": (*corners, *corners[::-1]), "interpolation": "nearest"}
    ax.imshow(colours.to_rgba(np.ma.masked_equal(cells, 0), bytes=True), **style)
    for start in range(0, gpus, hb_domain_size) if gpus >= hb_domain_size else ():
        width = min(hb_domain_size, gpus - start)
        box = Rectangle((start + 0.5, start + 0.5), width, width, fill=False, clip_on=False)
        box.set(edgecolor=COLOURS[1], linewidth=1.2, label="" if start else "HB domain")
        ax.add_patch(box)
    ringed = (source % hb_domain_size == 0) & (source // hb_domain_size != target // hb_domain_size)
    style = {"marker": "o", "linestyle": "", "fillstyle": "none", "color": COLOURS[3], "clip_on": False}
    if rail and ringed.any():
        words = "from a GPU of rail 1 to other domains"
        ax.plot(target[ringed] + 1, source[ringed] + 1, label=words, markersize=5, **style)
    ticks = [1, *(gpus * quarter // 4 for quarter in range(1, 5))]
    ax.set_xticks(ticks, [number(tick) for tick in ticks])
    ax.set_yticks(ticks, [number(tick) for tick in ticks])
    shared = f", {number(gpus / side, 3)} of them a cell" if side < gpus else ""
    ax.set(xlabel=f"to GPU{shared}", ylabel=f"from GPU{shared}", xlim=corners, ylim=corners[::-1])
    ax.spines[["top", "right"]].set_visible(True)
    ax.grid(False)
    return ax


def shares(data: "pd.DataFrame") -> "Figure":
    """Share of GPU pairs and of bytes by kind, for each model.

    Columns case, silent_pairs, kind (of KINDS, or "all"), share_of_pairs, share_of_bytes.
    """
    import matplotlib.pyplot as plt
    import pandas as pd

    margins = {"left": 0.1, "right": 0.99, "top": 0.92, "bottom": 0.19, "wspace": 0.18}
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), gridspec_kw=margins)
    figure.set_layout_engine("none")
    silent = data[data["kind"] == "all"].assign(kind="none", share_of_pairs=data["silent_pairs"], share_of_bytes=0.0)
    data = pd.concat([silent, data[data["kind"] != "all"]])
    models, kinds = list(data["case"].unique()), list(data["kind"].unique())
    bottom = np.zeros(len(models))
    for i, kind in enumerate(kinds):
        part, (label, colour) = data[data["kind"] == kind].set_index("case").loc[models], KINDS[kind]
        place = np.arange(len(models)) + (i - (len(kinds) - 1) / 2) * 0.2
        style: dict[str, Any] = {"color": colour, "marker": MARKERS[i], "markersize": 7, "linestyle": ""}
        axes[0].plot(place, part["share_of_pairs"], label=label, **style)
        for x, share in zip(place, part["share_of_pairs"], strict=True):
            text: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontsize": 8, "rotation": 90}
            axes[0].annotate(percent(share), (x, share), (0, 9), **text)
        axes[1].bar(models, part["share_of_bytes"], 0.55, bottom=bottom, color=colour)
        for x, (low, height) in enumerate(zip(bottom, part["share_of_bytes"], strict=True)):
            share = percent(height)
            ink = {"color": "white" if colour == COLOURS[0] else "black", "ha": "center", "fontsize": 8}
            if height > 0.03:
                axes[1].annotate(share, (x, low + height / 2), va="center", **ink)
            elif height:  # too low for its text: the last one in a stack, so that there is room above
                axes[1].annotate(
                    share, (x, low + height), (0, 2), textcoords="offset points", **ink | {"color": "black"}
                )
        bottom = bottom + part["share_of_bytes"].to_numpy()
    axes[0].set(yscale="log", ylabel="share of ordered GPU pairs", ylim=(4e-5, 12), title="(a) GPU pairs")
    axes[0].set_yticks(10.0 ** np.arange(-4, 1), [f"{number(10.0**power)}%" for power in range(-2, 3)])
    axes[0].minorticks_off()
    axes[0].set_xticks(range(len(models)), models)
    axes[1].set(ylabel="share of bytes", title="(b) volume")
    axes[1].yaxis.set_major_formatter(lambda share, _: percent(share))
    for ax in axes:
        ax.grid(axis="x", visible=False)
    axes[0].set_xlim(-0.5, len(models) - 0.5)
    for edge in range(1, len(models)):
        axes[0].axvline(edge - 0.5, color="#E3E3E3", linewidth=0.8)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels))
    return figure


def by_strategy(data: "pd.DataFrame", title: str = "") -> "Figure":
    """What the busiest GPU of each kind sends in its HB domain and over its NIC, a bar for each strategy.

    Columns case, kind (of KINDS, or "all", not drawn), domain_gpu_bytes, nic_bytes.
    """
    import matplotlib.pyplot as plt

    names = list(data["case"].unique())
    height = 1.6 + 0.5 * len(names)
    margins = {"left": 0.2, "right": 0.98, "top": 1 - 0.4 / height, "bottom": 1 / height, "wspace": 0.13}
    figure, axes = plt.subplots(1, 2, figsize=(10.5, height), sharey=True, gridspec_kw=margins)
    figure.set_layout_engine("none")
    kinds = [kind for kind in KINDS if kind in set(data["kind"])]
    columns = (("domain_gpu_bytes", "in the HB domain [GB per GPU]"), ("nic_bytes", "over the NIC [GB per GPU]"))
    for ax, (column, label) in zip(axes, columns, strict=True):
        table = data.pivot_table(index="case", columns="kind", values=column, sort=False).reindex(names).fillna(0)
        left = np.zeros(len(names))
        for kind in kinds:
            ax.barh(names, table[kind] / GB, 0.62, left=left, color=KINDS[kind][1], label=KINDS[kind][0])
            left = left + table[kind].to_numpy() / GB
        for y, total in enumerate(left):
            ax.annotate(number(total, 3), (total, y), (3, 0), textcoords="offset points", va="center", fontsize=8)
        ax.set_xlabel(label)
        ax.xaxis.set_major_formatter(lambda value, _: number(value))
        ax.grid(axis="y", visible=False)
        ax.set_xlim(0, 1.15 * left.max())
        ax.tick_params(axis="y", length=0)
    axes[0].invert_yaxis()
    figure.suptitle(title, fontsize=10)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels))
    return figure
