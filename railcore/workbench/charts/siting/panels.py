"""Charts of power siting: places under every assumption, balancing authorities, hours."""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from railcore.facts import units
from railcore.facts.units import number
from railcore.workbench.charts.siting.basemap import INK, LAND, panel
from railcore.workbench.plotting import COLOURS, percent

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REPORTED, CLEANED, PRINTED = COLOURS[5], COLOURS[0], COLOURS[1]


def sensitivity(data: "pd.DataFrame", values: str = "places", title: str = "") -> "Figure":
    """A table of counts for each region: rows rule and oil, columns radius, darker for more.

    A count of none is a dash, one that is not given empty. Columns rule, oil (True if counted), region, radius_m and
    `values`; exact, where there is one: a count that is a lower bound gets a plus sign.
    """
    import matplotlib.pyplot as plt

    regions, rules = (list(data[name].unique()) for name in ("region", "rule"))
    radii, rows = (
        sorted(data["radius_m"].unique()),
        [(r, o) for r in rules for o in (True, False) if (data["oil"] == o).any()],
    )
    across, high = 4 if len(regions) > 6 else 3, 0.2 * len(rows)
    down, wide = -(-len(regions) // across), 8.95 / across
    figure = plt.figure(figsize=(11, 0.3 + 0.25 * bool(title) + down * (high + 0.5)), layout="none")
    for i, region in enumerate(regions):
        corner = (1.95 + wide * (i % across), 0.5 + (down - 1 - i // across) * (high + 0.5))
        ax = panel(figure, *corner, wide - 0.12, high)
        part = data[data["region"] == region].set_index(["rule", "oil", "radius_m"])
        cells = part.reindex([(*row, radius) for row in rows for radius in radii])
        _counts(ax, cells, values, (len(rows), len(radii)), float(data[values].max()))
        ax.set_title(region, fontsize=9.5, pad=3)
        ax.set_xticks(np.arange(len(radii)) + 0.5, [number(radius / units.km) for radius in radii], fontsize=8)
        names = [rule if oil else f"{rule}, no oil" for rule, oil in rows]
        if i % across == 0:
            ax.set_yticks(np.arange(len(rows)) + 0.5, names, fontsize=8)
        ax.tick_params(length=0)
        ax.grid(False)
    words = "radius [km]; darker: more; –: none" + "; +: a lower bound" * ("exact" in data)
    words += "; places share no plant" * (values == "places")
    figure.text(0.5, 0.05 / figure.get_size_inches()[1], words, ha="center", va="bottom", fontsize=9)
    figure.suptitle(title, fontsize=11, y=1 - 0.05 / figure.get_size_inches()[1])
    return figure


def _counts(ax: "Axes", cells: "pd.DataFrame", values: str, shape: tuple[int, int], most: float) -> None:
    """Cells coloured by the logarithm of one and the count, with the counts."""
    counts = cells[values].to_numpy(float)
    exact = cells["exact"].fillna(True).to_numpy(bool) if "exact" in cells else np.ones(len(counts), bool)
    shade = np.log1p(counts) / np.log1p(max(most, 1.0))
    look: dict = {"cmap": "Blues", "vmin": -0.15, "vmax": 1.1, "edgecolor": "white", "linewidth": 1}
    ax.pcolormesh(np.ma.masked_where(~(shade > 0), shade).reshape(shape), **look)
    ax.set(xlim=(0, shape[1]), ylim=(shape[0], 0), facecolor=LAND)
    words = [
        f"{number(count)}{'' if sure else '+'}" if count else "–" for count, sure in zip(counts, exact, strict=True)
    ]
    y, x = np.indices(shape).reshape(2, -1) + 0.5
    for chosen, colour in ((shade > 0.55, "white"), (shade <= 0.55, INK)):
        written(ax, x[chosen], y[chosen], [words[i] for i in np.flatnonzero(chosen)], colour)


def written(ax: "Axes", x: np.ndarray, y: np.ndarray, words: Sequence[str], colour: str, size: float = 7.5) -> None:
    """Many short texts, centred on their points, as one path, which is drawn several times faster than texts.

    For axes whose place and limits are settled.
    """
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    if not len(words):
        return
    box, points = ax.get_window_extent(), 72 / ax.figure.dpi
    scale = np.diff([ax.get_xlim(), ax.get_ylim()]).ravel() / (box.width * points, box.height * points)
    glyphs = [_glyphs(text, size) for text in words]
    at = np.repeat(np.column_stack([x, y]), [len(codes) for _, codes in glyphs], axis=0)
    path = Path(np.concatenate([corners for corners, _ in glyphs]) * scale + at, np.concatenate([c for _, c in glyphs]))
    ax.add_artist(PathPatch(path, facecolor=colour, edgecolor="none"))


@cache
def _glyphs(text: str, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Outline of a text around the middle of its digits [typographic points], and the path's codes."""
    from matplotlib.textpath import TextPath

    path = TextPath((0, 0), text, size=size)
    across = path.vertices[path.codes != path.CLOSEPOLY, 0]
    return path.vertices - ((across.min() + across.max()) / 2, 0.36 * size), path.codes


def in_megawatts(table: "pd.DataFrame") -> "pd.DataFrame":
    """Table 1 of flops2024 to show: its three columns under their names, then the other columns, powers in MW.

    Columns authority, printed_w, region and any others.
    """
    printed = {"authority": "Balancing Authority", "printed_w": "Max Available (MW)", "region": "Region"}
    ours = {name: f"{units.words(name.removesuffix('_w'))}{' (MW)' * name.endswith('_w')}" for name in table}
    powers = {name: table[name] / units.MW for name in table if name.endswith("_w")}
    names = {name: ours[name] for name in table if name not in printed}
    return table.assign(**powers)[[*printed, *names]].rename(columns=printed | names)


def authorities(data: "pd.DataFrame", most: float = 1.5, title: str = "") -> "Figure":
    """Largest demand of balancing authorities over their capacity, as reported and cleaned, and the generation implied.

    Columns authority, capacity_w, peak_demand_raw_w, peak_demand_clean_w, printed_w (NaN for none): the
    document's disposable power, largest generation less largest demand, so that with the cleaned demand it implies a
    generation. Those without capacity are left out. Bars beyond `most` end there with their value, as spikes do.
    """
    import matplotlib.pyplot as plt

    data = data[data["capacity_w"] > 0]
    capacity, at = data["capacity_w"], np.arange(len(data))
    figure, ax = plt.subplots(figsize=(10, 1.5 + max(0.26, 0.75 - 0.02 * len(at)) * len(at)), layout="constrained")
    raw, clean, printed = (data[f"{name}_w"] / capacity for name in ("peak_demand_raw", "peak_demand_clean", "printed"))
    ax.barh(at - 0.2, raw.clip(upper=most), 0.34, color=REPORTED, label="largest demand as reported")
    ax.barh(at + 0.2, clean.clip(upper=most), 0.34, color=CLEANED, label="the same, cleaned of reporting errors")
    hatch: dict = {"facecolor": "#F6C9A8", "edgecolor": PRINTED, "hatch": "////", "linewidth": 0.8}
    ax.barh(at + 0.2, printed, 0.34, left=clean, label="disposable power as printed, on top", **hatch)
    implied = clean + printed.fillna(0)
    for i, (highest, total, own) in enumerate(zip(raw, implied, capacity, strict=True)):
        more = ", more than its capacity" if total > 1 and printed.notna().iloc[i] else ""
        _end(ax, highest, i - 0.2, _gw(highest * own), most)
        _end(ax, total, i + 0.2, f"{_gw(total * own)}{more}", most)
    ax.axvline(1, color="black", linewidth=1, linestyle="--", label="net summer capacity")
    ax.set_yticks(at, [f"{name}, {_gw(value)}" for name, value in zip(data["authority"], capacity, strict=True)])
    numbers = "GW of capacity, of demand and of the generation implied"
    ax.set(
        xlabel=f"share of net summer capacity; numbers: {numbers}",
        xlim=(0, most * 1.1),
        ylim=(len(data) - 0.5, -0.5),
        title=title,
    )
    ax.set_xticks(np.arange(0, most + 0.01, 0.25))
    ax.xaxis.set_major_formatter(lambda value, _: percent(value))
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)
    figure.legend(loc="outside lower center", ncols=2, fontsize=9)
    return figure


def _gw(value_w: float) -> str:
    return f"{number(value_w / units.GW, 3)} GW"


def _end(ax: "Axes", value: float, y: float, words: str, most: float) -> None:
    """A bar's value at its end, with an arrow where the bar runs off the axis; nothing for NaN."""
    if np.isfinite(value):
        place: dict = {"xytext": (3, 0), "textcoords": "offset points", "va": "center", "fontsize": 8}
        box: dict = {"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.8}
        ax.annotate(f"▶ {words}" if value > most else words, (min(value, most), y), bbox=box, **place)


def hourly(data: "pd.DataFrame", title: str = "") -> "Figure":
    """Demand and net generation of one balancing authority, a panel each: reported in grey, and cleaned of spikes.

    Columns as `siting.eia.cleaned` has them, of one authority: hour_utc, demand_w, demand_screened_w and, where they
    are known, net_generation_w, net_generation_screened_w. The axis ends a third above what was cleaned; spikes
    reported beyond it are triangles there, the highest with its value; dashed is the largest cleaned hour.
    """
    import matplotlib.pyplot as plt

    names = [name for name in ("demand", "net_generation") if f"{name}_screened_w" in data]
    top = 4 / 3 * max(data[f"{name}_screened_w"].max() for name in names) / units.GW
    size = (10, 0.8 + 2.5 * len(names))
    figure, axes = plt.subplots(len(names), 1, figsize=size, sharex=True, squeeze=False, layout="constrained")
    for ax, name, colour in zip(axes.flat, names, (COLOURS[0], COLOURS[2]), strict=False):
        raw, clean = (data[f"{name}{kind}_w"].to_numpy(float) / units.GW for kind in ("", "_screened"))
        ax.plot(data["hour_utc"], np.minimum(raw, top), color="#9A9A9A", linewidth=0.7, rasterized=True)
        ax.plot(data["hour_utc"], clean, color=colour, linewidth=0.5, rasterized=True)
        largest, beyond = np.nanmax(clean), np.flatnonzero(raw > top)
        ax.axhline(largest, color="black", linewidth=0.9, linestyle="--")
        place: dict = {"textcoords": "offset points", "fontsize": 8.5}
        ax.annotate(f"{_gw(largest * units.GW)}", (data["hour_utc"].iloc[0], largest), xytext=(2, 3), **place)
        ax.plot(data["hour_utc"].iloc[beyond], np.full(len(beyond), 0.97 * top), "^", color=COLOURS[1])
        if len(beyond):
            i = beyond[raw[beyond].argmax()]
            words = f"{_gw(raw[i] * units.GW)} reported"
            ax.annotate(words, (data["hour_utc"].iloc[i], 0.97 * top), xytext=(7, -3), **place)
        ax.set(ylabel=f"{units.words(name)} [GW]", ylim=(0, top))
    figure.suptitle(title, fontsize=11)
    return figure
