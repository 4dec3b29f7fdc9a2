"""Heat maps: shares over two sizes, costs, traffic matrices, counts of places; dark is high."""

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from string import ascii_uppercase
from textwrap import fill

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.patches import Rectangle
from matplotlib.ticker import NullLocator

from railcore.catalog import units
from railcore.catalog.colours import network_colour
from railcore.catalog.units import GB, counted, number
from suite import plotting
from suite.charts.bars import TRAFFIC_NAMES, volume_by_kind
from suite.plotting import COLOURS, heat_colours, log_axis, panels, percent, percent_axis

_CELLS = 256  # of a matrix' side: more GPUs share a cell, which shows the largest entry
_NO_SHARE_COLOUR = "#CFCFCF"
LEADS = 0.6  # share of draws from which a network is surely the best one


def heatmap(
    table: pd.DataFrame, ax: plt.Axes, label: str, low: float, high: float, bar: bool = True, digits: int = 2
) -> plt.Axes:
    """Shares as coloured cells with their values; rows upwards, columns to the right, cells without a share grey.

    Parameters
    ----------
    table, ax
        Shares, and where to draw them.
    label, bar
        Of the colour bar, and whether there is one.
    low, high
        Ends of the colours; with a low below 0 orange is below 0 and purple above.
    digits
        Of the values written, significant ones.

    Returns
    -------
    The axes.
    """
    import seaborn as sns

    words: dict = {"annot": table.map(percent, digits=digits), "fmt": "", "annot_kws": {"fontsize": 8}}
    scale: dict = {"vmin": low, "vmax": high, "cmap": "PuOr" if low < 0 else heat_colours(), "cbar": bar}
    sns.heatmap(table, ax=ax, linewidths=0.5, cbar_kws={"label": label} if bar else None, **words, **scale)
    if colours := ax.collections[0].colorbar:
        percent_axis(colours.ax.yaxis)
    ax.grid(False)
    ax.set_facecolor(_NO_SHARE_COLOUR)
    ax.invert_yaxis()
    ax.tick_params(length=0)
    ax.tick_params(axis="y", rotation=0)
    return ax


def share_heatmaps(
    data: pd.DataFrame,
    by: str,
    rows: str,
    columns: str,
    values: str,
    label: str,
    title: str = "",
    outlined: tuple | None = None,
) -> plt.Figure:
    """A heat map for each value of a column, side by side on one scale from 0, or around 0 where shares are below it.

    Parameters
    ----------
    data, by
        Table, and the column with a panel for each value.
    rows, columns, values
        Columns of the cells' places and of their shares.
    label, title
        Of the colour bar, and of the figure.
    outlined
        The cell that is spoken of: its panel's value (None: every panel), its row and its column.

    Returns
    -------
    The figure.
    """
    count = data[by].nunique()
    figure, parts = panels(data, by, (min(3.6, 10 / count), 4.2), 9.0, sharey=True)
    figure.suptitle(title)
    low, high = data[values].min(), data[values].max()
    high = np.ceil(max(high, -low) * 10) / 10
    for i, (value, part, ax) in enumerate(parts):
        table = part.pivot(index=rows, columns=columns, values=values)
        heatmap(table.rename(columns=number), ax, label, -high if low < 0 else 0, high, bar=i == len(parts) - 1)
        if outlined and outlined[0] in (value, None):
            corner = table.columns.get_loc(outlined[2]), table.index.get_loc(outlined[1])
            frame: dict = {"fill": False, "edgecolor": COLOURS[1], "linewidth": 3, "clip_on": False, "zorder": 5}
            ax.add_patch(Rectangle(corner, 1, 1, **frame))
        ax.set(title=f"{by} {value}", xlabel=units.label(columns), ylabel="" if i else units.label(rows))
        ax.tick_params(axis="x", rotation=45)
    return figure


def cost_map(data: pd.DataFrame, marks: Mapping[str, tuple[int, int]]) -> plt.Figure:
    """Cost as colour over rails (across) and planes (up), tiers and mean cost on it, with letters at (rails, planes).

    Columns rails, planes, cost_usd, tiers, price_book.
    """
    figure, ax = plt.subplots(figsize=(9.5, 5))
    table = data.pivot(index="planes", columns="rails", values="cost_usd") / 1e9
    planes, edges = list(table.index), np.append(table.columns - 0.5, table.columns[-1] + 0.5)
    mesh = ax.pcolormesh(edges, np.arange(len(planes) + 1) - 0.5, table, cmap=heat_colours(), rasterized=True)
    figure.colorbar(mesh, ax=ax, label=f"cost [B USD], prices of {data['price_book'].iloc[0]}")
    for (count, tiers), run in data.groupby(["planes", "tiers"])["rails"]:
        if run.size > 0.05 * len(table.columns):
            mean, wide = table.loc[count, run].mean(), run.size > 0.15 * len(table.columns)
            ink = plotting.ink_on(mpl.colors.to_hex(tuple(mesh.to_rgba(mean))))
            text = counted(tiers, "tiers") + f": {number(mean, 2)} B USD" * wide
            ax.text(run.mean(), planes.index(count) + 0.42, text, ha="center", va="top", fontsize=9, color=ink)
    costs = data.set_index(["rails", "planes"])["cost_usd"] / 1e9
    for letter, (name, (r, p)) in zip(ascii_uppercase, marks.items(), strict=False):
        label = f"{letter}  {name}: {counted(r, 'rails')}, {counted(p, 'planes')}, {number(costs[r, p], 3)} B USD"
        look: dict = {"color": "white", "markeredgecolor": "black", "clip_on": False, "label": label}
        ax.plot(r, planes.index(p) - 0.12, "o", markersize=15, **look)
        ax.text(r, planes.index(p) - 0.12, letter, ha="center", va="center_baseline", fontsize=9, weight="bold")
    ax.set_yticks(range(len(planes)), [number(count) for count in planes])
    ax.set(xlabel="rails", ylabel="planes")
    ax.grid(False)
    figure.legend(loc="outside lower center", ncols=1, handlelength=0, markerscale=0)
    return figure


def traffic_matrices(
    parts: Mapping[str, pd.DataFrame],
    hb_domain_size: int,
    rows: int = 1,
    title: str = "",
    sizes: Mapping[str, float] | None = None,
    document: Mapping[float, tuple[str, str]] | None = None,
) -> plt.Figure:
    """Traffic matrices on one logarithmic colour scale, column by column.

    Parameters
    ----------
    parts
        Entries by title, columns source, target, bytes; all GPUs from 0 to the last one there are drawn.
    hb_domain_size, rows
        GPUs of an HB domain; rows of panels.
    title
        Of the figure.
    sizes
        Entries that the scale names [bytes], by what they are: `entry_names`.
    document
        Entries that the document prints [bytes], with our verdict and its words: marks on the scale.

    Returns
    -------
    The figure.
    """
    document = document or {}
    sent = np.concatenate([entries["bytes"] for entries in parts.values()])
    colours = _byte_colours(np.append(sent, list(document)))
    columns = -(-len(parts) // rows)
    wide = min(4.2, (10 - 1.5) / columns)
    figure, axes = plt.subplots(rows, columns, figsize=(wide * columns + 1.5, (wide - 0.1) * rows + 1.2), squeeze=False)
    figure.suptitle(title)
    labelled: dict = {}
    for ax, (panel, entries) in zip(axes.T.flat, parts.items(), strict=False):
        _byte_heatmap(entries, hb_domain_size, ax, colours).set_title(panel, fontsize=10)
        handles, labels = ax.get_legend_handles_labels()
        labelled = dict(zip(labels, handles, strict=True)) | labelled
    for ax in axes.T.flat[len(parts) :]:
        ax.remove()
    _byte_colour_bar(figure, colours, axes, sizes, document)
    figure.legend([*labelled.values()], [*labelled], loc="outside lower center", ncols=max(len(labelled), 1))
    return figure


def _byte_colours(sizes: np.ndarray) -> ScalarMappable:
    """Logarithmic colours over positive sizes [bytes], in GB; dark is high."""
    return ScalarMappable(LogNorm(sizes.min() / GB / 1.05, sizes.max() / GB * 1.05), heat_colours())


def entry_names(nets: Mapping[str, pd.DataFrame], kinds: Mapping[str, str] = TRAFFIC_NAMES) -> dict[str, float]:
    """Largest entry of each kind of traffic [bytes] by its name, and by the model's where the models differ.

    nets: entries by model, columns kind and bytes. kinds: names of the kinds.
    """
    largest = pd.DataFrame({model: entries.groupby("kind")["bytes"].max() for model, entries in nets.items()})
    names: dict[str, float] = {}
    for kind, sizes in largest.iterrows():
        name, sizes = kinds[str(kind)], sizes.dropna()
        alike = np.allclose(sizes, sizes.iloc[0])
        names |= {name: sizes.iloc[0]} if alike else {f"{name}, {model}": size for model, size in sizes.items()}
    return names


def _scale_texts(sizes: Mapping[str, float], low: float, high: float) -> dict[float, str]:
    """Ticks of a logarithmic scale from low to high: the named sizes, those nearby together, and powers of ten."""
    near, ticks = (high / low) ** 0.07, dict[float, str]()
    for name, size in sorted(sizes.items(), key=lambda named: -named[1]):
        text = fill(f"{number(size, 3)}: {name}", 24)
        above = min(ticks, default=np.inf)
        ticks |= {above: f"{ticks[above]}\n{text}"} if above < near * size else {size: text}
    decades = [ten for ten in 10.0 ** np.arange(-9, 9) if low <= ten <= high]
    return ticks | {ten: number(ten) for ten in decades if all(not 1 / near < ten / size < near for size in ticks)}


def _byte_colour_bar(
    figure: plt.Figure,
    colours: ScalarMappable,
    axes,
    sizes: Mapping[str, float] | None = None,
    document: Mapping[float, tuple[str, str]] | None = None,
) -> None:
    """Colour bar of `_byte_colours`: names of entries at its ticks, and the document's entries, see `traffic_matrices`.

    By default the ticks are matplotlib's.
    """
    bar = figure.colorbar(colours, ax=axes, aspect=30)
    if sizes:
        bar.ax.set_title("GB in an iteration,\nlogarithmic scale", fontsize=8, pad=12)
        ticks = _scale_texts({name: size / GB for name, size in sizes.items()}, *colours.get_clim())
        bar.set_ticks(list(ticks), labels=list(ticks.values()), fontsize=8)
        bar.ax.yaxis.set_minor_locator(NullLocator())
    else:
        bar.set_label("sent in one iteration [GB], logarithmic scale")
        bar.ax.yaxis.set_major_formatter(lambda size, _: number(size))  # not powers of ten
    for size, (verdict, words) in (document or {}).items():
        place = -0.7, size / GB  # beside the colours, on which a mark would be lost
        plotting.document_marks(bar.ax, *place, verdict, clip_on=False)
        style: dict = {"fontsize": 8, "annotation_clip": False}
        plotting.document_text(bar.ax, f"document:\n{words}", place, verdict, (-8, 0), **style)
    bar.ax.set_xlim(0, 1)


def _byte_heatmap(
    entries: pd.DataFrame, hb_domain_size: int, ax: plt.Axes, colours: ScalarMappable, rail: bool = True
) -> plt.Axes:
    """One traffic matrix in GB, with a box around each HB domain (scale-up or NVLink domain); silent pairs are white.

    Parameters
    ----------
    entries
        Columns source, target, bytes.
    hb_domain_size
        GPUs of a domain; fewer GPUs than that are a part of one, without a box.
    ax, colours
        Where to draw, and with which colours, see `_byte_colours`.
    rail
        Ring what rail 1 carries.

    Returns
    -------
    The axes.
    """
    source, target = (entries[end].to_numpy() for end in ("source", "target"))
    gpus = int(max(source.max(), target.max())) + 1
    side = min(gpus, _CELLS)
    cells = np.zeros((side, side))
    np.maximum.at(cells, (source * side // gpus, target * side // gpus), entries["bytes"].to_numpy() / GB)
    if side < gpus:  # thin lines between domains are lost on a page: three cells broad
        between = source // hb_domain_size != target // hb_domain_size
        row, column = source[between] * side // gpus, target[between] * side // gpus
        for beside in (np.clip(column - 1, 0, side - 1), np.clip(column + 1, 0, side - 1)):
            np.maximum.at(cells, (row, beside), entries["bytes"].to_numpy()[between] / GB)
    corners = (0.5, gpus + 0.5)
    place: dict = {"extent": (*corners, *corners[::-1]), "interpolation": "auto" if side > 64 else "nearest"}
    ax.imshow(colours.to_rgba(np.ma.masked_equal(cells, 0), bytes=True), **place)
    for start in range(0, gpus, hb_domain_size) if gpus >= hb_domain_size else ():
        width = min(hb_domain_size, gpus - start)
        box = Rectangle((start + 0.5, start + 0.5), width, width, fill=False, clip_on=False)
        box.set(edgecolor="black", linewidth=1.2, label="" if start else "HB domain")
        ax.add_patch(box)
    ringed = (source % hb_domain_size == 0) & (source // hb_domain_size != target // hb_domain_size)
    if rail and ringed.any():
        style: dict = {"linestyle": "", "fillstyle": "none", "color": COLOURS[3], "clip_on": False, "markersize": 5}
        ax.plot(target[ringed] + 1, source[ringed] + 1, "o", label="from a GPU of rail 1 to other domains", **style)
    step = hb_domain_size if hb_domain_size < gpus <= 8 * hb_domain_size else max(gpus // 4, 1)
    ticks = [1, *range(step, gpus + 1, step)]
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_ticks(ticks, [number(tick) for tick in ticks])
    wide = number(gpus / side, 3)
    shared = f" (a cell: largest of {wide} × {wide})" if side < gpus else ""
    ax.set(xlabel=f"to GPU{shared}", ylabel="from GPU", xlim=corners, ylim=corners[::-1])
    ax.spines[["top", "right"]].set_visible(True)
    ax.grid(False)
    return ax


def traffic_volume_and_matrix(
    volumes: pd.DataFrame,
    matrix: np.ndarray,
    hb_domain_size: int,
    title: str = "",
    sizes: Mapping[str, float] | None = None,
    document: Mapping[str, tuple[float, str]] | None = None,
) -> plt.Figure:
    """(a) bytes by kind, stacked by path, each kind with its share; (b) bytes between pairs of GPUs, domains boxed.

    Parameters
    ----------
    volumes, matrix
        Columns kind, path, bytes; [from, to] [bytes], on a logarithmic scale, silent pairs white.
    hb_domain_size, title
        GPUs of an HB domain; of the figure.
    sizes
        Entries that the scale names [bytes], by what they are.
    document
        By kind the share that the document prints, marked at that share of all bytes, and our verdict.

    Returns
    -------
    The figure.
    """
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 5), width_ratios=(1, 1.35))
    figure.suptitle(title)
    volume_by_kind(volumes, left).set_title("(a) volume by type")
    kinds, total = list(volumes["kind"].unique()), volumes["bytes"].sum() / GB
    for kind, (share, verdict) in (document or {}).items():
        place, words = (kinds.index(kind), share * total), f"document: {percent(share)}"
        plotting.document_marks(left, *place, verdict, text=words, shift=(0, -9))
    source, target = matrix.nonzero()
    entries = pd.DataFrame({"source": source, "target": target, "bytes": matrix[source, target]})
    colours = _byte_colours(entries["bytes"].to_numpy())
    _byte_heatmap(entries, hb_domain_size, right, colours, rail=False).set_title("(b) traffic matrix")
    _byte_colour_bar(figure, colours, right, sizes)
    right.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14))
    return figure


_MAP_LEGEND = "line: a circuit switch, its dot the largest cluster that it reaches; area: an iteration is longer by"


def overhead_map(
    data: pd.DataFrame, technologies: pd.DataFrame, limits: Sequence[float], title: str = ""
) -> plt.Figure:
    """Overhead as areas over GPUs and the time of a change, with circuit switches as lines up to their reach.

    Parameters
    ----------
    data
        Columns model (a panel each, side by side), software (panels below each other), gpus, reconfiguration_s,
        overhead: a full grid, NaN where nothing fits.
    technologies
        Columns circuit_switch, reconfiguration_s, reach.
    limits, title
        Overheads between the areas; title of the figure.

    Returns
    -------
    The figure.
    """
    models, kinds, sizes = (list(data[name].unique()) for name in ("model", "software", "gpus"))
    shape = (len(kinds), len(models))
    size = (min(max(3.5 * shape[1], 9.0), 10.0), 3.6 * shape[0] + 1.0)
    figure, axes = plt.subplots(*shape, figsize=size, squeeze=False, sharex=True, sharey=True)
    figure.suptitle(title)
    levels = [-np.inf, *limits, np.inf]
    colours = heat_colours()(np.linspace(0, 1, len(levels) - 1))
    low, high = data["reconfiguration_s"].min() * (1 - 1e-9), data["reconfiguration_s"].max() * (1 + 1e-9)
    shown = technologies[technologies["reconfiguration_s"].between(low, high)].sort_values("reconfiguration_s")
    times = shown["reconfiguration_s"].to_numpy()
    near = [*(times[1:] < 3 * times[:-1]), False]  # to the line above: the name stands below
    for ax, (kind, model) in zip(axes.flat, product(kinds, models), strict=True):
        part = data[(data["model"] == model) & (data["software"] == kind)]
        table = part.pivot(index="reconfiguration_s", columns="gpus", values="overhead")
        ax.contourf(table.columns, table.index, table, levels=levels, colors=colours, extend="neither")
        for row, below in zip(shown.itertuples(), near, strict=True):
            reach = [sizes[0], min(row.reach, sizes[-1])]
            ends = {"marker": "o", "markevery": [1]} if row.reach <= sizes[-1] else {}
            line = {"color": "black", "linewidth": 1.3, "path_effects": plotting.HALO, **ends}
            ax.plot(reach, [row.reconfiguration_s] * 2, clip_on=False, **line)
            style = {"fontsize": 8, "path_effects": plotting.HALO}
            plotting.text_beside(
                ax, row.circuit_switch, (sizes[0], row.reconfiguration_s), (3, -10 if below else 3), **style
            )
        ax.set_facecolor(_NO_SHARE_COLOUR)
        plotting.panel_title(ax, f"{model}\n{kind}")
        ax.grid(False)
        plotting.gpu_axis(ax, sizes)
        log_axis(ax.yaxis, text=lambda value: units.show(value, "s"))
    for ax in axes[:-1].flat:
        ax.set_xlabel("")
    for ax in axes[:, 0]:
        ax.set_ylabel("time of a change")
    between = [f"{number(100 * low)} to {percent(high)}" for low, high in pairwise(limits)]
    texts = [f"under {percent(limits[0])}", *between, f"{percent(limits[-1])} or more"]
    handles: list = [Rectangle((0, 0), 1, 1, color=colour) for colour in colours]
    figure.legend(handles, texts, loc="outside lower center", ncols=len(texts), title=_MAP_LEGEND)
    return figure


def winner_maps(data: pd.DataFrame, panels: Mapping[str, float], title: str) -> plt.Figure:
    """Which network is the best over GPUs (across) and HB domain (up), a panel for each price, side by side.

    Parameters
    ----------
    data
        Columns gpus, hb_domain_size, price, network (the best one), wins (the share of the draws in which it is: cells
        below `LEADS` are hatched).
    panels
        Titles, and the price of each.
    title
        Of the figure.

    Returns
    -------
    The figure.
    """
    networks = sorted(data["network"].unique())
    size = (10.0 if len(panels) > 1 else 7.0), 5.2
    figure, axes = plt.subplots(1, len(panels), figsize=size, sharex=True, sharey=True, squeeze=False)
    figure.suptitle(title)
    for ax, (words, price) in zip(axes.flat, panels.items(), strict=True):
        part = data[np.isclose(data["price"], price)]
        sizes, domains = (sorted(data[name].unique()) for name in ("gpus", "hb_domain_size"))
        for row in part.itertuples():
            look: dict = {"facecolor": network_colour(row.network), "edgecolor": "white", "linewidth": 1.5}
            place = sizes.index(row.gpus), domains.index(row.hb_domain_size)
            ax.add_patch(Rectangle(place, 1, 1, **look, hatch="///" * (row.wins < LEADS)))
        ax.set(xlim=(0, len(sizes)), ylim=(0, len(domains)), xlabel="GPUs")
        ax.set_xticks(np.arange(len(sizes)) + 0.5, [number(gpus) for gpus in sizes], rotation=45, ha="right")
        ax.set_yticks(np.arange(len(domains)) + 0.5, [number(gpus) for gpus in domains])
        ax.tick_params(length=0)
        ax.grid(False)
        plotting.panel_title(ax, words)
    axes[0, 0].set_ylabel("HB domain [GPUs]")
    handles = [Rectangle((0, 0), 1, 1, facecolor=network_colour(name), label=name) for name in networks]
    unsure = f"hatched: best in fewer than {percent(LEADS)} of the draws"
    handles.append(Rectangle((0, 0), 1, 1, facecolor=COLOURS[7], edgecolor="white", hatch="///", label=unsure))
    figure.legend(handles=handles, loc="outside lower center", ncols=3 if len(panels) > 1 else 2)
    return figure
