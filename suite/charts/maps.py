"""Maps of power siting on states in a true-area projection: plants, lines, chosen places; regions; places by count."""

import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from string import ascii_lowercase
from typing import Any, Protocol

import matplotlib.patheffects as effects
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike

from railcore.catalog import units
from railcore.catalog.units import counted, number
from railcore.network.globe import earth_radius_m, great_circle_way
from suite.colours import BORDER, LAND, NO_PLACE, PLACE_NAME, POWER_LINES
from suite.plotting import COLOURS, FUELS

ORIGIN = (23.0, -96.0)  # latitude and longitude of x = y = 0
INK = "#222222"
_WIDTH = 7.5  # of a figure [inches]: narrow, so that
_TEXT = 10.5  # points are as tall as a page's text where the figure is shown over its width
_CHARACTERS = 84  # of that text in a line
_LINE = 0.185  # height of a line of that text [inches]
_MAP_HEIGHT = 4.55  # of the whole country over that width [inches]
_PARALLELS = (29.5, 45.5)  # on which lengths are true
_SIDES = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (0.8, 0.8), (-0.8, 0.8), (0.8, -0.8), (-0.8, -0.8)])

Place = tuple[float, float]  # latitude and longitude [degrees]
Outlines = Mapping[str, Sequence[np.ndarray]]  # rings of (longitude, latitude) by state

# groups of fuels: colour and marker, in the order in which they are drawn
_FUELS = {name: (colour, marker) for (name, colour), marker in zip(FUELS.items(), "osPvDhX", strict=True)}
_GROUPS = {"wind_offshore": "wind", "oil": "other", "geothermal": "other"}
_VOLTAGES = (345, 500, 765, np.inf)  # least of each kind of lines of alternating current [kV]
_LINES: dict[str, tuple[str, float, Any]] = {  # lines: colour, width and dashes
    name: (POWER_LINES[name], width, dashes)
    for name, width, dashes in (
        ("345 kV", 0.5, "solid"),
        ("500 kV", 0.8, "solid"),
        ("765 kV", 1.3, "solid"),
        ("direct current", 1.3, (0, (4, 2))),
    )
}
_PASS, _PLACE = "#111111", COLOURS[1]
_LEAST_W = 10e6  # smaller plants are hardly seen: 0.4% of the power of the embedded grid
_MOST_LINKS = 3  # that all have their length written on; of more, only the longest has
_STEPS = (1.0, 1.7, 2.6, 4.0)  # distances from a point that are tried for its label, in its reach
_FAR_LABEL = 14  # distance from which a line leads to a label [typographic points]
_LINK_TEXT = 58  # width of a link's text [typographic points]


class GridTables(Protocol):
    """Tables of a grid that a map draws (`siting.grid.PowerGrid`).

    plants: latitude, longitude, fuel, power_w.
    lines: from_sub, to_sub, kv, type ("AC", "DC").
    substations: sub_id, latitude, longitude.
    """

    plants: pd.DataFrame
    lines: pd.DataFrame
    substations: pd.DataFrame


def albers(latitude: ArrayLike, longitude: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Albers' equal-area conic projection of degrees to x (to the east) and y (to the north) [m], on a sphere.

    n = (sin a + sin b) / 2, C = cos² a + 2 n sin a, rho = R sqrt(C - 2 n sin phi) / n, theta = n (lambda - lambda0);
    x = rho sin theta, y = rho0 - rho cos theta; a, b: parallels on which lengths are true, rho0: rho of ORIGIN, R the
    Earth's radius. Source: Snyder 1987, Map Projections, USGS Professional Paper 1395, equations 14-1 to 14-6.
    """
    radius = earth_radius_m()
    a, b = np.radians(_PARALLELS)
    phi, phi0 = np.radians(np.asarray(latitude, float)), np.radians(ORIGIN[0])
    n = (np.sin(a) + np.sin(b)) / 2
    c = np.cos(a) ** 2 + 2 * n * np.sin(a)
    rho, rho0 = (radius * np.sqrt(c - 2 * n * np.sin(angle)) / n for angle in (phi, phi0))
    theta = n * np.radians(np.asarray(longitude, float) - ORIGIN[1])
    return rho * np.sin(theta), rho0 - rho * np.cos(theta)


def state_map(
    figure: plt.Figure,
    inches: tuple[float, float, float, float],
    outlines: Outlines,
    rasterized: bool = False,
) -> plt.Axes:
    """Axes with states in thin grey, at one scale both ways.

    Parameters
    ----------
    figure, inches
        Where to draw: a rectangle of the figure, left, bottom, width and height [inches].
    outlines
        Rings of (longitude, latitude) by state.
    rasterized
        Store the states as an image in an SVG, for small maps.

    Returns
    -------
    The axes.
    """
    width, height = figure.get_size_inches()
    place = tuple(inches / np.array([width, height, width, height]))
    ax = figure.add_axes(place, xticks=[], yticks=[], frame_on=False)
    rings = [np.column_stack(albers(ring[:, 1], ring[:, 0])) for state in outlines.values() for ring in state]
    low, high = (edge([edge(ring, axis=0) for ring in rings], axis=0) for edge in (np.min, np.max))
    shapes = Path.make_compound_path(*(Path(ring, closed=True) for ring in rings))
    style: dict = {"linewidth": 0.6, "rasterized": rasterized, "zorder": 0}
    ax.add_artist(PathPatch(shapes, facecolor=LAND, edgecolor=BORDER, **style))
    box = ax.get_window_extent()
    middle, half = (low + high) / 2, (high - low) / 2 * 1.02
    half = np.array([box.width, box.height]) * max(half / [box.width, box.height])
    ax.set(xlim=middle[0] + half[0] * np.array([-1, 1]), ylim=middle[1] + half[1] * np.array([-1, 1]))
    ax.set_aspect("equal")
    return ax


def draw_scale_bar(ax: plt.Axes) -> None:
    """A bar of 500 km in the lower left."""
    length_m = 500e3
    (x, right), (y, top) = ax.get_xlim(), ax.get_ylim()
    x, y = x + 0.02 * (right - x), y + 0.03 * (top - y)
    halo = [effects.withStroke(linewidth=4, foreground="white"), effects.Normal()]
    style: dict = {"zorder": 9, "path_effects": halo}
    ax.plot([x, x + length_m], [y, y], color=INK, linewidth=2, solid_capstyle="butt", **style)
    place: dict = {"textcoords": "offset points", "ha": "center", "fontsize": _TEXT}
    ax.annotate(f"{number(length_m / units.km)} km", (x + length_m / 2, y), (0, 3), **place, **style)


def draw_circles(ax: plt.Axes, data: pd.DataFrame, **style) -> None:
    """Circles at true scale, to 1.3% within the country.

    They are marks, which take a tenth of the room of paths: they keep their size when the axes are zoomed.
    data: columns latitude, longitude, radius_m. style: of the circles.
    """
    (west, east), width_pt = ax.get_xlim(), ax.get_window_extent().width * 72 / ax.figure.dpi
    for radius, part in data.groupby("radius_m"):
        size = 2 * radius * width_pt / (east - west)
        circle: dict = {"marker": "o", "markersize": size, "linestyle": "none", "zorder": 4} | style
        ax.plot(*albers(part["latitude"], part["longitude"]), scalex=False, scaley=False, **circle)


def map_label(
    ax: plt.Axes,
    text: str,
    at: Iterable[tuple[float, float]],
    taken: list,
    reach: float = 7,
    must: bool = True,
    away: ArrayLike = (1, 0),
    **style,
) -> bool:
    """Write a text beside the first of some points where it covers nothing, with a line to the point from farther off.

    Parameters
    ----------
    ax, text
        Where to write, and what.
    at
        The points.
    taken
        Boxes that the text must not cover; its own is added.
    reach
        Distance from the point [typographic points]; a reach of 0 writes on the point.
    must
        Where nothing is free, write at the last place tried; else not at all.
    away
        Direction to try first.
    **style
        Of the text.

    Returns
    -------
    True if it was written on free ground.
    """
    halo = [effects.withStroke(linewidth=2.2, foreground="white")]
    shown = ax.annotate(text, (0, 0), (0, 0), textcoords="offset points", path_effects=halo, zorder=9, **style)
    inside = ax.get_window_extent()
    way = np.asarray(away, float) / (np.abs(away).max() or 1.0)
    towards = np.round(_SIDES @ way, 9)  # of sides that are as good the first
    sides = _SIDES[np.argsort(-towards, kind="stable")] * reach
    for point in at:
        for x, y in np.concatenate([step * sides for step in _STEPS]) if reach else [(0, 0)]:
            shown.xy, shown.xyann = point, (x, y)
            shown.set(ha=("center", "left", "right")[int(np.sign(x))], va=("center", "bottom", "top")[int(np.sign(y))])
            box = shown.get_window_extent().padded(1)
            within = inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
            if within and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                if np.hypot(x, y) > _FAR_LABEL * (1 + 1e-9):
                    end = ax.transData.inverted().transform(
                        ax.transData.transform(point) + np.array([x, y]) * ax.figure.dpi / 72
                    )
                    ax.plot(*zip(point, end, strict=True), color=INK, linewidth=0.7, zorder=7)
                return True
    if not must:
        shown.remove()
    return False


def within_axes(ax: plt.Axes, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """True for the points within the limits of the axes."""
    (west, east), (south, north) = ax.get_xlim(), ax.get_ylim()
    return (x > west) & (x < east) & (y > south) & (y < north)


def mark_box(ax: plt.Axes, point: np.ndarray | tuple[float, float], reach: float) -> Bbox:
    """Box of a mark with a half-width of so many points."""
    x, y = ax.transData.transform(point)
    half = reach * ax.figure.dpi / 72
    return Bbox([[x - half, y - half], [x + half, y + half]])


def _draw_links(ax: plt.Axes, data: pd.DataFrame, taken: list[Bbox], named: int) -> None:
    """Great circles between places; the longest, so many, are dashed and bold, with length and one-way delay.

    Columns latitude, longitude, latitude_to, longitude_to, distance_m, delay_s. taken: boxes that texts must not cover.
    """
    halo = [effects.withStroke(linewidth=3.4, foreground="white"), effects.Normal()]
    bold: dict = {"color": INK, "linewidth": 1.6, "linestyle": (0, (4, 1.5)), "path_effects": halo, "zorder": 6}
    for i, row in enumerate(data.sort_values("distance_m", ascending=False).itertuples()):
        way = great_circle_way((row.latitude, row.longitude), (row.latitude_to, row.longitude_to))
        x, y = albers(*way)
        if i >= named:
            ax.plot(x, y, color="#777777", linewidth=0.8, zorder=5)
            continue
        ax.plot(x, y, **bold)
        km = row.distance_m / units.km
        text = f"{number(km, 4 if km >= 1000 else 3)} km\n{number(row.delay_s / units.ms, 3)} ms"
        along = [(x[j], y[j]) for j in (20, 16, 24, 12, 28, 9, 31)]
        box: dict = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
        style: dict = {"fontsize": _TEXT, "bbox": box, "linespacing": 1.1}
        length_pt = np.hypot(*np.diff(ax.transData.transform([(x[0], y[0]), (x[-1], y[-1])]), axis=0)[0])
        short = length_pt * 72 / ax.figure.dpi < 3 * _LINK_TEXT  # a text on it would hide it
        if short or not map_label(ax, text, along, taken, 0, must=False, **style):
            aside = (along[2][1] - along[1][1], along[1][0] - along[2][0])
            map_label(ax, text, along[:1], taken, 14, away=aside, **style)


def _draw_plants(ax: plt.Axes, plants: pd.DataFrame) -> None:
    """Marks of plants by group of fuels, the largest first, area by power; those below _LEAST_W are left out.

    Columns latitude, longitude, fuel, power_w.
    """
    x, y = albers(plants["latitude"], plants["longitude"])
    marks = plants.assign(x=x, y=y, group=plants["fuel"].replace(_GROUPS))
    marks = marks[within_axes(ax, x, y) & (marks["power_w"] >= _LEAST_W)]
    marks = marks.sort_values("power_w", ascending=False, kind="stable")
    style: dict = {"edgecolors": "white", "linewidths": 0.25, "rasterized": True, "zorder": 3}
    for name, (colour, marker) in _FUELS.items():
        mine = marks[marks["group"] == name]
        ax.scatter(mine["x"], mine["y"], s=_mark_area(mine["power_w"]), color=colour, marker=marker, **style)


def _mark_area(power_w: Any) -> Any:
    """Area of a plant's mark [square points]: 17 for each GW, 0.4 at least."""
    return np.maximum(17 * np.asarray(power_w) / units.GW, 0.4)


def _draw_lines(ax: plt.Axes, grid: GridTables) -> None:
    """Lines of 345 kV and more, and DC, by voltage, those of a kind as one path."""
    places = grid.substations.set_index("sub_id")[["latitude", "longitude"]]
    ends = [places.loc[grid.lines[end]].to_numpy() for end in ("from_sub", "to_sub")]
    latitude, longitude = np.stack([*ends, np.full_like(ends[0], np.nan)], axis=1).transpose(2, 0, 1)
    x, y = albers(latitude, longitude)
    kind = pd.cut(grid.lines["kv"], _VOLTAGES, right=False, labels=list(_LINES)[:-1]).astype(object)
    kind = kind.mask(grid.lines["type"] == "DC", "direct current").to_numpy()
    for name, (colour, width, dashes) in _LINES.items():
        style: dict = {"color": colour, "linewidth": width, "linestyle": dashes, "zorder": 2}
        ax.plot(x[kind == name].ravel(), y[kind == name].ravel(), scalex=False, scaley=False, **style)


def _legend_marks() -> dict[str, list[plt.Line2D]]:
    """Marks of a legend: plants by fuel, sizes (of 0.1, 1 and 4 GW), lines, nodes that pass and fail, places."""

    def mark(label: str, marker: str, colour: str, size: float, edge: str = "white", width: float = 0.5) -> plt.Line2D:
        style: dict = {"linestyle": "none", "markeredgecolor": edge, "markeredgewidth": width}
        return plt.Line2D([], [], marker=marker, color=colour, markersize=size, label=label, **style)

    sizes = {name: _mark_area(gw * units.GW) ** 0.5 for name, gw in (("100 MW", 0.1), ("1 GW", 1), ("4 GW", 4))}
    return {
        "plants": [mark(name, marker, colour, 7) for name, (colour, marker) in _FUELS.items()],
        "sizes": [mark(name, "o", "white", size, "#555555", 1) for name, size in sizes.items()],
        "lines": [
            plt.Line2D([], [], color=colour, linewidth=width * 1.6, label=name, linestyle=dashes)
            for name, (colour, width, dashes) in _LINES.items()
        ],
        "nodes": [mark("passes", "o", "none", 10, _PASS, 1.3), mark("fails", "o", "none", 10, NO_PLACE, 0.8)],
        "places": [mark("chosen place", "*", _PLACE, 13)],
    }


def grid_map(
    grid: GridTables,
    outlines: Outlines,
    nodes: pd.DataFrame | None = None,
    places: pd.DataFrame | None = None,
    ways: pd.DataFrame | None = None,
    title: str = "",
    note: str = "",
) -> plt.Figure:
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
        Links between the places: columns latitude, longitude, latitude_to, longitude_to, distance_m, delay_s; up to
        three have length and delay written on, of more the longest.
    title, note
        Above the map; what the grid is, below it.

    Returns
    -------
    The figure.
    """
    marks = _legend_marks()
    columns = [[_heading(f"plants ≥ {number(_LEAST_W / units.MW)} MW"), *marks["plants"][:5]]]
    columns += [[_heading(), *marks["plants"][5:], *marks["sizes"]], [_heading("lines"), *marks["lines"]]]
    drawn = {"nodes": nodes, "places": places}
    columns.append([mark for key in drawn if drawn[key] is not None for mark in (_heading(key), *marks[key])])
    top, notes = _height(len(_lines_of(title))), _height(len(_lines_of(note)))
    below = notes + _height(max(map(len, columns)))
    figure = plt.figure(figsize=(_WIDTH, top + _MAP_HEIGHT + below), layout="none")
    ax = state_map(figure, (0.05, below, _WIDTH - 0.1, _MAP_HEIGHT), outlines)
    draw_scale_bar(ax)
    _draw_lines(ax, grid)
    _draw_plants(ax, grid.plants)
    taken: list[Bbox] = []
    if nodes is not None:
        fails, holds = nodes[~nodes["passes"]], nodes[nodes["passes"]]
        draw_circles(ax, fails, color="none", markeredgecolor=NO_PLACE, markeredgewidth=0.6, zorder=1.5)
        draw_circles(ax, holds, color="none", markeredgecolor="white", markeredgewidth=2.6)
        draw_circles(ax, holds, color="none", markeredgecolor=_PASS, markeredgewidth=1.3)
    if places is not None:
        draw_circles(ax, places, color=_PLACE, alpha=0.25)
        _draw_places(ax, places, taken)
    if ways is not None:
        _draw_links(ax, ways, taken, named=len(ways) if len(ways) <= _MOST_LINKS else 1)
    _draw_legend(figure, columns, notes)
    _title_and_notes(figure, title, note)
    return figure


def places_by_k(
    places: pd.DataFrame, ways: pd.DataFrame, outlines: Outlines, note: str = "", title: str = ""
) -> plt.Figure:
    """A small map for each number of places `k`, with circles, links and the longest link's length and delay.

    Parameters
    ----------
    places
        Columns k, name, latitude, longitude, radius_m.
    ways
        Columns k, latitude, longitude, latitude_to, longitude_to, distance_m, delay_s.
    outlines
        Rings of (longitude, latitude) by state.
    note, title
        Written below, and above.

    Returns
    -------
    The figure.
    """
    counts = sorted(places["k"].unique())
    texts = ("dashed: the longest link, its length and one-way delay", note)
    rows, below, (wide, high) = -(-len(counts) // 2), _height(len(_lines_of(*texts))), (_WIDTH / 2, 2.65)
    top = _height(len(_lines_of(title))) if title else 0.0
    figure = plt.figure(figsize=(_WIDTH, below + high * rows + top), layout="none")
    for i, (letter, k) in enumerate(zip(ascii_lowercase, counts, strict=False)):
        left, bottom = 0.04 + wide * (i % 2), below + high * (rows - 1 - i // 2)
        ax = state_map(figure, (left, bottom, wide - 0.08, high - 0.3), outlines, rasterized=True)
        if i == 0:
            draw_scale_bar(ax)
        part, taken = places[places["k"] == k], list[Bbox]()
        draw_circles(ax, part, color=_PLACE, alpha=0.25)
        _draw_places(ax, part, taken, size=90)
        _draw_links(ax, ways[ways["k"] == k], taken, named=1)
        ax.set_title(f"({letter}) {counted(k, 'places')}", fontsize=_TEXT, pad=2)
    _title_and_notes(figure, title, *texts)
    return figure


def _draw_places(ax: plt.Axes, places: pd.DataFrame, taken: list[Bbox], size: float = 210) -> None:
    """Stars at places with their names, on the side away from the other places."""
    at = np.column_stack(albers(places["latitude"], places["longitude"]))
    seen = within_axes(ax, *at.T)
    at, reach = at[seen], size**0.5 / 2
    ax.scatter(at[:, 0], at[:, 1], s=size, marker="*", color=_PLACE, edgecolors="white", linewidths=0.8, zorder=8)
    taken += [mark_box(ax, point, reach) for point in at]
    for point, name in zip(at, places["name"][seen], strict=True):
        away = (point - at.mean(axis=0)) + (1e3, 0)
        look: dict = {"fontsize": _TEXT, "fontweight": "bold", "color": PLACE_NAME}
        map_label(ax, name, [tuple(point)], taken, reach + 2, away=away, **look)


def _heading(text: str = "") -> plt.Line2D:
    """A row of a legend without a mark."""
    return plt.Line2D([], [], linestyle="none", label=text)


def _draw_legend(figure: plt.Figure, columns: Sequence[Sequence[Any]], bottom: float) -> None:
    """Columns of marks side by side, those without a mark in bold, `bottom` inches above the lower edge."""
    columns = [column for column in columns if column]
    rows = max(map(len, columns))
    every = [mark for column in columns for mark in [*column, *[_heading()] * (rows - len(column))]]
    style: dict = {"fontsize": _TEXT, "labelspacing": 0.25, "columnspacing": 1.4, "handletextpad": 0.5}
    place: dict = {"loc": "lower center", "bbox_to_anchor": (0.5, bottom / figure.get_size_inches()[1])}
    legend = figure.legend(handles=every, ncols=len(columns), borderaxespad=0.0, borderpad=0.2, **place, **style)
    for mark, text in zip(every, legend.get_texts(), strict=True):
        if isinstance(mark, plt.Line2D) and mark.get_linestyle() == mark.get_marker() == "None":
            text.set_fontweight("bold")


def _lines_of(*texts: str) -> list[str]:
    """Texts joined, in lines of a figure's width: broken after semicolons if that is enough, not after numbers."""
    parts = [re.sub(r"(?<=\d) (?=\w)", "\u00a0", part) for part in "; ".join(filter(None, texts)).split("; ")]
    lines = [""]
    for part in parts:
        joined = f"{lines[-1]}; {part}".removeprefix("; ")
        lines[-1:] = [joined] if len(joined) < _CHARACTERS or not lines[-1] else [f"{lines[-1]};", part]
    fits = max(map(len, lines)) <= _CHARACTERS
    return list(filter(None, lines)) if fits else textwrap.wrap("; ".join(parts), _CHARACTERS)


def _height(lines: int) -> float:
    """Height of lines of text with a little room around them [inches]."""
    return _LINE * lines + 0.08


def _title_and_notes(figure: plt.Figure, title: str, *notes: str) -> None:
    """Title above and notes below."""
    _, up = figure.get_size_inches()
    style: dict = {"ha": "center", "linespacing": 1.2, "fontsize": _TEXT}
    if title:
        figure.suptitle("\n".join(_lines_of(title)), x=0.5, y=1 - 0.06 / up, va="top", **style)
    figure.text(0.5, 0.06 / up, "\n".join(_lines_of(*notes)), va="bottom", color="#666666", **style)
