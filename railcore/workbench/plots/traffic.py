"""Plots of traffic: DataFrames of entries and summaries in, figures or Axes out."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from railcore.facts.units import GB, number
from railcore.workbench.plotting import COLOURS

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
_CELLS = 512  # of a picture's side: more GPUs share a cell, which shows the largest entry
_PANEL_IN, _GAP_IN, _BOTTOM_IN = 3.6, 0.85, 1.1


def in_gigabytes(table: "pd.DataFrame") -> "pd.DataFrame":
    """A table to show, its columns of bytes as "... [GB]", names in one line."""
    named = {name: f"{name.removesuffix('bytes').rstrip('_') or 'in all'} [GB]" for name in table}
    columns = {name: label for name, label in named.items() if name.endswith("bytes") and not name.startswith("share")}
    sizes = {name: table[name] / GB for name in columns}
    return table.assign(**sizes).rename(columns=columns).replace("\n", ", ", regex=True)


def matrices(panels: Mapping[str, "pd.DataFrame"], hb_domain_size: int, columns: int = 2) -> "Figure":
    """Traffic matrices side by side on one logarithmic colour scale.

    panels: entries by title, columns source, target, bytes; all GPUs from 0 to the last one there are drawn.
    """
    import matplotlib.pyplot as plt
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, LogNorm

    sizes = np.concatenate([entries["bytes"] for entries in panels.values()]) / GB
    norm = LogNorm(sizes.min() / 1.05, sizes.max() * 1.05)
    dark = ListedColormap(plt.get_cmap("cividis_r")(np.linspace(0.25, 1, 256)))  # paler ones drown in the white
    colours = ScalarMappable(norm, dark)
    rows, step = -(-len(panels) // columns), _PANEL_IN + _GAP_IN
    size = np.array([columns * step + 1.3, rows * step + _BOTTOM_IN - 0.4])
    figure = plt.figure(figsize=tuple(size))
    figure.set_layout_engine("none")
    for i, (title, entries) in enumerate(panels.items()):
        corner = (_GAP_IN + i % columns * step, _BOTTOM_IN + (rows - 1 - i // columns) * step)
        ax = figure.add_axes((*(corner / size), *(_PANEL_IN / size)))
        heatmap(entries, hb_domain_size, ax, colours).set_title(title)
    bar = figure.add_axes((*((columns * step + 0.2, _BOTTOM_IN) / size), *((0.2, size[1] - _BOTTOM_IN - 0.45) / size)))
    figure.colorbar(colours, cax=bar, label="sent in one iteration [GB]")
    bar.yaxis.set_major_formatter(lambda value, _: number(value))
    handles, labels = ax.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels))
    return figure


def heatmap(entries: "pd.DataFrame", hb_domain_size: int, ax: "Axes", colours: "ScalarMappable") -> "Axes":
    """One traffic matrix in GB, HB domains boxed and what rail 1 carries ringed."""
    from matplotlib.patches import Rectangle

    source, target = (entries[end].to_numpy() for end in ("source", "target"))
    gpus = int(max(source.max(), target.max())) + 1
    side = min(gpus, _CELLS)
    cells = np.zeros((side, side))
    np.maximum.at(cells, (source * side // gpus, target * side // gpus), entries["bytes"].to_numpy() / GB)
    corners = (0.5, gpus + 0.5)
    style: dict[str, Any] = {"extent": (*corners, *corners[::-1]), "interpolation": "nearest"}
    ax.imshow(colours.to_rgba(np.ma.masked_equal(cells, 0), bytes=True), **style)
    for start in range(0, gpus, hb_domain_size):
        width = min(hb_domain_size, gpus - start)
        box = Rectangle((start + 0.5, start + 0.5), width, width, fill=False, clip_on=False)
        box.set(edgecolor=COLOURS[1], linewidth=1.2, label="" if start else "HB domain")
        ax.add_patch(box)
    rail = (source % hb_domain_size == 0) & (source // hb_domain_size != target // hb_domain_size)
    style = {"marker": "o", "linestyle": "", "fillstyle": "none", "color": COLOURS[3], "clip_on": False}
    if rail.any():
        ax.plot(
            target[rail] + 1, source[rail] + 1, label="from a GPU of rail 1 to other domains", markersize=5, **style
        )
    ticks = [1, *(gpus * quarter // 4 for quarter in range(1, 5))]
    ax.set(xlabel="to GPU", ylabel="from GPU", xlim=corners, ylim=corners[::-1], xticks=ticks, yticks=ticks)
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
        bars = axes[0].bar(place, part["share_of_pairs"], 0.19, color=colour, label=label)
        texts = [f"{number(share, 3)}%" for share in 100 * part["share_of_pairs"]]
        axes[0].bar_label(bars, texts, fontsize=8, padding=2, rotation=90)
        axes[1].bar(models, part["share_of_bytes"], 0.55, bottom=bottom, color=colour)
        for x, (low, height) in enumerate(zip(bottom, part["share_of_bytes"], strict=True)):
            if height > 0.03:
                axes[1].annotate(f"{height:.1%}", (x, low + height / 2), ha="center", va="center", fontsize=8)
        bottom = bottom + part["share_of_bytes"].to_numpy()
    axes[0].set(yscale="log", ylabel="share of ordered GPU pairs", ylim=(1e-5, 12), title="(a) GPU pairs")
    axes[0].set_yticks(10.0 ** np.arange(-5, 1), [f"{number(10.0**power)}%" for power in range(-3, 3)])
    axes[0].minorticks_off()
    axes[0].set_xticks(range(len(models)), models)
    axes[1].set(ylabel="share of bytes", title="(b) volume")
    axes[1].yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    for ax in axes:
        ax.grid(axis="x", visible=False)
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
    margins = {"left": 0.2, "right": 0.98, "top": 1 - 0.4 / height, "bottom": 1 / height, "wspace": 0.1}
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
        ax.grid(axis="y", visible=False)
        ax.set_xlim(0, 1.15 * left.max())
        ax.tick_params(axis="y", length=0)
    axes[0].invert_yaxis()
    figure.suptitle(title, fontsize=10)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels))
    return figure
