"""Maps of power siting: plants and lines with places chosen, regions close up, places by count."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import Bbox

from railcore.facts import units
from railcore.facts.units import number
from railcore.workbench.charts.maps.basemap import (
    INK,
    ORIGIN,
    GridTables,
    Outlines,
    albers,
    ground,
    label,
    links,
    panel,
    rings,
    scale_bar,
)
from railcore.workbench.charts.maps.symbols import (
    DARK,
    FAIL,
    FOUND,
    LEAST_W,
    PASS,
    PLACE,
    area,
    draw_lines,
    draw_plants,
    handles,
    inside,
)

MOST_NAMED = 3  # links between places that are written on
CITY: dict = {"marker": "o", "markersize": 4.5, "color": "white", "markeredgecolor": INK, "markeredgewidth": 1.4}
POWER: dict = {"fontsize": 7.5, "color": "#333333"}
CLOSE = 5.0  # marks of plants are that much larger close up


def grid_map(
    grid: GridTables,
    outlines: Outlines,
    nodes: pd.DataFrame | None = None,
    places: pd.DataFrame | None = None,
    ways: pd.DataFrame | None = None,
    title: str = "",
    note: str = "",
) -> Figure:
    """Plants by fuel with area by power, lines of 345 kV and more, nodes that pass and fail, chosen places and links.

    Parameters
    ----------
    grid, outlines
        Tables of the grid, and rings of (longitude, latitude) by state.
    nodes
        Columns latitude, longitude, radius_m, passes.
    places
        Columns name, latitude, longitude, radius_m.
    ways
        Links between the places, with the columns of `basemap.links`; all named up to three, else the longest.
    title, note
        Above the map; what the grid is, below it.

    Returns
    -------
    The figure.
    """
    figure = plt.figure(figsize=(11, 6.5), layout="none")
    ax = ground(panel(figure, (0.1, 0.1, 9.3, 6.0 if title else 6.3)), outlines)
    draw_lines(ax, grid)
    draw_plants(ax, grid.plants)
    if nodes is not None:
        fails, holds = nodes[~nodes["passes"]], nodes[nodes["passes"]]
        rings(ax, fails, color="none", markeredgecolor=FAIL, markeredgewidth=0.6, zorder=1.5)
        rings(ax, holds, color="none", markeredgecolor="white", markeredgewidth=2.6)
        rings(ax, holds, color="none", markeredgecolor=PASS, markeredgewidth=1.3)
    _places(ax, places, ways)
    shown = handles()
    groups = {f"plants ≥ {number(LEAST_W / units.MW)} MW": shown["plants"] + shown["sizes"]}
    groups["lines"] = shown["lines"]
    groups |= {"nodes": shown["nodes"]} if nodes is not None else {}
    groups |= {"datacenter": shown["places"]} if places is not None else {}
    _legend(figure, groups)
    _words(figure, title, note)
    return figure


def region_maps(
    grid: GridTables,
    outlines: Outlines,
    views: pd.DataFrame,
    passing: pd.DataFrame,
    places: pd.DataFrame,
    cities: pd.DataFrame,
    step_deg: float,
    note: str = "",
) -> Figure:
    """Regions close up: plants by fuel, lines, centres that pass, circles of the chosen places, the largest cities.

    Parameters
    ----------
    grid, outlines
        Tables of the grid, and rings of (longitude, latitude) by state.
    views
        Columns title, latitude, longitude, half_m (to each side).
    passing, step_deg
        Centres that pass: columns latitude, longitude, radius_m; the lattice that they are on [degrees].
    places
        Columns name, latitude, longitude, radius_m.
    cities
        Columns city, latitude, longitude, population.
    note
        Written below.

    Returns
    -------
    The figure; numbers at plants are MW.
    """
    figure = plt.figure(figsize=(11, 6.5), layout="none")
    for i, view in enumerate(views.itertuples()):
        origin = (view.latitude, view.longitude)
        ax = ground(panel(figure, (0.1 + 5.45 * i, 1.0, 5.35, 5.2)), outlines, origin, view.half_m, bar_m=0, over=True)
        corners = _cells(passing, step_deg, origin)
        corners = corners[(np.abs(corners) < 1.1 * view.half_m).all(axis=(1, 2))]
        tiles = PolyCollection(list(corners), facecolor=FOUND, edgecolor="white", linewidth=0.4, zorder=1)
        ax.add_collection(tiles, autolim=False)
        draw_lines(ax, grid, origin, 1.5)
        draw_plants(ax, grid.plants, origin, CLOSE)
        rings(ax, places, origin, color="none", markeredgecolor="white", markeredgewidth=3.4)
        rings(ax, places, origin, color="none", markeredgecolor=PLACE, markeredgewidth=1.8)
        bar = scale_bar(ax, 100e3)
        taken: list = [bar]
        _stars(ax, places, taken, origin)
        _plant_words(ax, grid.plants, taken, origin)
        _cities(ax, cities, taken, origin, bar)
        ax.set_title(view.title, fontsize=10.5, pad=4)
    rings_m = [number(table["radius_m"].max() / units.km) if len(table) else "–" for table in (passing, places)]
    around: dict = {"linestyle": "none", "marker": "o", "markersize": 13, "markerfacecolor": "none"}
    circle = Line2D([], [], markeredgecolor=PLACE, markeredgewidth=1.8, label=f"{rings_m[1]} km around it", **around)
    city = Line2D([], [], linestyle="none", label="city", **CITY)
    found = Patch(facecolor=FOUND, label=f"passes with {rings_m[0]} km around it")
    marks = handles(CLOSE)
    every = [*marks["plants"], *marks["sizes"][:2], *marks["lines"], city, found, *marks["places"], circle]
    figure.legend(handles=every, loc="lower center", bbox_to_anchor=(0.5, 0.02), ncols=6, fontsize=8.5)
    _words(figure, "", "; ".join(["numbers: MW of a plant", *filter(None, [note])]))
    return figure


def places_by_k(places: pd.DataFrame, ways: pd.DataFrame, outlines: Outlines, note: str = "") -> Figure:
    """A small map for each number of places `k`, with circles, links and the longest link's length and delay.

    Parameters
    ----------
    places
        Columns k, name, latitude, longitude, radius_m.
    ways
        Columns k and those of `basemap.links`.
    outlines
        Rings of (longitude, latitude) by state.
    note
        Written below.

    Returns
    -------
    The figure.
    """
    counts = sorted(places["k"].unique())
    rows = -(-len(counts) // 3)
    figure = plt.figure(figsize=(11, 0.2 + 2.65 * rows), layout="none")
    for i, k in enumerate(counts):
        left, bottom = 0.1 + 3.63 * (i % 3), 0.2 + 2.65 * (rows - 1 - i // 3)
        ax = ground(panel(figure, (left, bottom, 3.55, 2.3)), outlines, bar_m=0 if i else 500e3, rasterized=True)
        part, between = places[places["k"] == k], ways[ways["k"] == k].sort_values("distance_m")
        rings(ax, part, color=PLACE, alpha=0.25)
        taken: list = []
        _stars(ax, part, taken, size=90)
        links(ax, between.iloc[:-1], taken, bold=False)
        links(ax, between.iloc[-1:], taken)
        ax.set_title(f"{k} place{'s' if k > 1 else ''}", fontsize=10, pad=2)
    _words(figure, "", "; ".join(["dashed: the longest link, its length and one-way delay", *filter(None, [note])]))
    return figure


def _cells(centres: pd.DataFrame, step_deg: float, origin: tuple[float, float] = ORIGIN) -> np.ndarray:
    """Corners (n, 4, 2) of the cells of a lattice that hold a centre."""
    cells = (centres[["latitude", "longitude"]] / step_deg).round().drop_duplicates().to_numpy()
    latitude = (cells[:, :1] + [-0.5, -0.5, 0.5, 0.5]) * step_deg
    longitude = (cells[:, 1:] + [-0.5, 0.5, 0.5, -0.5]) * step_deg
    return np.stack(albers(latitude, longitude, origin), axis=-1)


def _places(ax: Axes, places: pd.DataFrame | None, ways: pd.DataFrame | None) -> None:
    taken: list = []
    if places is not None:
        rings(ax, places, color=PLACE, alpha=0.25)
        _stars(ax, places, taken)
    if ways is not None:
        by_length = ways.sort_values("distance_m", ascending=False)
        named = len(ways) if len(ways) <= MOST_NAMED else 1
        links(ax, by_length.iloc[named:], taken, bold=False)
        links(ax, by_length.iloc[:named], taken)


def _stars(
    ax: Axes, places: pd.DataFrame, taken: list, origin: tuple[float, float] = ORIGIN, size: float = 210
) -> None:
    """Stars at places with their names, on the side away from the other places."""
    at = np.column_stack(albers(places["latitude"], places["longitude"], origin))
    seen = inside(ax, *at.T)
    at, reach = at[seen], size**0.5 / 2
    ax.scatter(at[:, 0], at[:, 1], s=size, marker="*", color=PLACE, edgecolors="white", linewidths=0.8, zorder=8)
    taken += [_mark(ax, point, reach) for point in at]
    for point, name in zip(at, places["name"][seen], strict=True):
        away = (point - at.mean(axis=0)) + (1e3, 0)
        label(ax, name, [tuple(point)], taken, reach + 2, away=away, fontsize=9, fontweight="bold", color=DARK)


def _mark(ax: Axes, point: np.ndarray | tuple[float, float], reach: float) -> Bbox:
    """Box of a mark that reaches so many typographic points to each side."""
    x, y = ax.transData.transform(point)
    half = reach * ax.figure.dpi / 72
    return Bbox([[x - half, y - half], [x + half, y + half]])


def _plant_words(ax: Axes, plants: pd.DataFrame, taken: list, origin: tuple[float, float], most: int = 7) -> None:
    """Power of the largest plants in view [MW], beside their marks and those of the others."""
    x, y = albers(plants["latitude"], plants["longitude"], origin)
    seen = plants.assign(x=x, y=y)[inside(ax, x, y)].nlargest(most, "power_w")
    reaches = area(seen["power_w"].to_numpy(), CLOSE) ** 0.5 / 2
    boxes = [_mark(ax, point, reach * 0.8) for point, reach in zip(seen[["x", "y"]].to_numpy(), reaches, strict=True)]
    for i, row in enumerate(seen.itertuples()):
        others = [*taken, *boxes]
        words = number(row.power_w / units.MW, 3)
        if label(ax, words, [(row.x, row.y)], others, reaches[i] + 1, must=False, steps=(1.0, 1.3), **POWER):
            taken.append(others[-1])
    taken += boxes


def _cities(
    ax: Axes,
    cities: pd.DataFrame,
    taken: list,
    origin: tuple[float, float],
    bar: Bbox | None = None,
    most: int = 7,
    apart_m: float = 40e3,
) -> None:
    """Names of the largest cities in view, none near a larger one and none on the scale bar, where there is room."""
    x, y = albers(cities["latitude"], cities["longitude"], origin)
    seen = cities.assign(x=x, y=y)[inside(ax, x, y)].sort_values("population", ascending=False)
    at = seen[["x", "y"]].to_numpy()
    near = np.tril(np.hypot(*(at[:, None] - at).transpose(2, 0, 1)) < apart_m, -1).any(axis=1)
    for row in seen[~near].head(most).itertuples():
        if bar is not None and bar.overlaps(_mark(ax, (row.x, row.y), CITY["markersize"] / 2)):
            continue
        ax.plot(row.x, row.y, zorder=7, **CITY)
        label(ax, row.city, [(row.x, row.y)], taken, 4, must=False, fontsize=8.5, style="italic", color=INK)


def _legend(figure: Figure, groups: dict[str, list[Line2D]]) -> None:
    """A column of marks at the right, with a heading for each group."""
    rows = [row for head, marks in groups.items() for row in (Line2D([], [], linestyle="none", label=head), *marks)]
    legend = figure.legend(handles=rows, loc="center right", bbox_to_anchor=(0.998, 0.48), fontsize=8.5)
    for text in legend.get_texts():
        text.set_fontweight("bold" if text.get_text() in groups else "normal")


def _words(figure: Figure, title: str, note: str) -> None:
    """Title above and note below, both small."""
    _, up = figure.get_size_inches()
    figure.text(0.5, 1 - 0.08 / up, title, ha="center", va="top", fontsize=11)
    figure.text(0.995, 0.06 / up, note, ha="right", va="bottom", fontsize=7.5, color="#777777")
