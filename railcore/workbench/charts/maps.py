"""Maps of power siting: plants and lines with the places chosen, regions close up, places by count."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import matplotlib.patheffects as effects
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, PathPatch
from matplotlib.path import Path
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike

from railcore.facts import catalog, units
from railcore.facts.units import number
from railcore.workbench.plotting import COLOURS

ORIGIN = (23.0, -96.0)  # latitude and longitude of x = y = 0
PARALLELS = (29.5, 45.5)  # on which lengths are true
LAND, BORDER, INK = "#F5F3EE", "#BDB8AE", "#222222"
SIDES = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (0.8, 0.8), (-0.8, 0.8), (0.8, -0.8), (-0.8, -0.8)])
WORDS = 46  # width of a link's text [typographic points]

FUELS = {  # groups of fuels: colour and marker, in the order in which they are drawn
    "gas": (COLOURS[4], "o"),
    "coal": ("#4D4D4D", "s"),
    "wind": (COLOURS[2], "P"),
    "hydro": (COLOURS[0], "v"),
    "solar": ("#F0E442", "D"),
    "nuclear": (COLOURS[3], "h"),
    "other": ("#A6A6A6", "X"),
}
GROUPS = {"wind_offshore": "wind", "oil": "other", "geothermal": "other"}
VOLTAGES = (345, 500, 765, np.inf)  # least of each kind of lines of alternating current [kV]
LINES: dict[str, tuple[str, float, Any]] = {  # lines: colour, width and dashes
    "345 kV": ("#A9BDD1", 0.5, "solid"),
    "500 kV": ("#6C8CAD", 0.8, "solid"),
    "765 kV": ("#2F5A87", 1.3, "solid"),
    "direct current": ("#8C2D04", 1.3, (0, (4, 2))),
}
PASS, FAIL, PLACE, FOUND = "#111111", "#B5AFA4", COLOURS[1], "#DDD6F2"
DARK = "#8A3500"
LEAST_W = 10e6  # smaller plants are hardly seen: 0.4% of the power of the embedded grid
MOST_NAMED = 3  # links between places that are written on
MOST_WORDS = 7  # plants, and cities, that are written on close up
CITY: dict = {"marker": "o", "markersize": 4.5, "color": "white", "markeredgecolor": INK, "markeredgewidth": 1.4}
POWER: dict = {"fontsize": 7.5, "color": "#333333"}
CLOSE = 5.0  # marks of plants are that much larger close up

Outlines = Mapping[str, Sequence[np.ndarray]]


class GridTables(Protocol):
    """Tables of a grid that a map draws (`systems.siting.grid.PowerGrid`).

    plants: latitude, longitude, fuel, power_w; lines: from_sub, to_sub, kv, type ("AC", "DC"); substations: sub_id,
    latitude, longitude.
    """

    plants: pd.DataFrame
    lines: pd.DataFrame
    substations: pd.DataFrame


def albers(
    latitude: ArrayLike, longitude: ArrayLike, origin: tuple[float, float] = ORIGIN, radius_m: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Albers' equal-area conic projection of degrees to x and y [m], on a sphere, the Earth's by default.

    n = (sin a + sin b) / 2, C = cos² a + 2 n sin a, rho = R sqrt(C - 2 n sin phi) / n, theta = n (lambda - lambda0);
    x = rho sin theta, y = rho0 - rho cos theta; a, b: parallels on which lengths are true, rho0: rho of the origin.

    Parameters
    ----------
    latitude, longitude
        Of the points [degrees].
    origin
        Latitude and longitude of x = y = 0 [degrees].
    radius_m
        R, by default the Earth's [m].

    Returns
    -------
    x, to the east, and y, to the north [m].

    References
    ----------
    Snyder 1987, Map Projections, USGS Professional Paper 1395, equations 14-1 to 14-6.
    """
    radius = radius_m or catalog.item("wide_area", "Earth")["radius"]
    a, b = np.radians(PARALLELS)
    phi, phi0 = np.radians(np.asarray(latitude, float)), np.radians(origin[0])
    n = (np.sin(a) + np.sin(b)) / 2
    c = np.cos(a) ** 2 + 2 * n * np.sin(a)
    rho, rho0 = (radius * np.sqrt(c - 2 * n * np.sin(angle)) / n for angle in (phi, phi0))
    theta = n * np.radians(np.asarray(longitude, float) - origin[1])
    return rho * np.sin(theta), rho0 - rho * np.cos(theta)


def great_circle(start: tuple[float, float], end: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Latitude and longitude of 41 points along the shortest way between two places.

    (start sin (1 - t) d + end sin t d) / sin d of their unit vectors, d the angle between them, t from 0 to 1.
    """
    phi, lam = np.radians(np.array([start, end]).T)
    places = np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)])
    d = np.arccos(np.clip(places[:, 0] @ places[:, 1], -1, 1)) or 1e-9
    t = np.linspace(0, 1, 41)
    x, y, z = places @ np.stack([np.sin((1 - t) * d), np.sin(t * d)]) / np.sin(d)
    return np.degrees(np.arcsin(z)), np.degrees(np.arctan2(y, x))


def map_panel(figure: Figure, inches: tuple[float, float, float, float]) -> Axes:
    """Axes without ticks for a map, in a rectangle of the figure: left, bottom, width, height [inches]."""
    across, up = figure.get_size_inches()
    ax = figure.add_axes(tuple(inches / np.array([across, up, across, up])), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    return ax


def ground(
    ax: Axes,
    outlines: Outlines,
    origin: tuple[float, float] = ORIGIN,
    half_m: float = 0.0,
    bar_m: float = 500e3,
    over: bool = False,
    rasterized: bool = False,
) -> Axes:
    """States in thin grey at one scale both ways, with a scale bar.

    Parameters
    ----------
    ax, outlines
        Where to draw; rings of (longitude, latitude) by state.
    origin, half_m
        Middle of the map, and how far it reaches to all sides [m]; all states where that is 0.
    bar_m
        Length of the scale bar, 0 for none [m].
    over
        Draw borders over areas that are drawn at a zorder below 1.5.
    rasterized
        Store the states as an image in an SVG, for small maps.

    Returns
    -------
    The axes.
    """
    rings = [np.column_stack(albers(ring[:, 1], ring[:, 0], origin)) for state in outlines.values() for ring in state]
    if half_m:
        low, high = np.full(2, -half_m), np.full(2, half_m)
        rings = [ring for ring in rings if (ring.max(0) > 2 * low).all() and (ring.min(0) < 2 * high).all()]
    else:
        low, high = (edge([edge(ring, axis=0) for ring in rings], axis=0) for edge in (np.min, np.max))
    shapes = Path.make_compound_path(*(Path(ring, closed=True) for ring in rings))
    look: dict = {"linewidth": 0.6, "rasterized": rasterized}
    ax.add_artist(PathPatch(shapes, facecolor=LAND, edgecolor="none" if over else BORDER, zorder=0, **look))
    if over:
        ax.add_artist(PathPatch(shapes, facecolor="none", edgecolor=BORDER, zorder=1.5, **look))
    box = ax.get_window_extent()
    middle, half = (low + high) / 2, (high - low) / 2 * 1.02
    half = np.array([box.width, box.height]) * max(half / [box.width, box.height])
    ax.set(xlim=middle[0] + half[0] * np.array([-1, 1]), ylim=middle[1] + half[1] * np.array([-1, 1]))
    ax.set_aspect("equal")
    if bar_m:
        scale_bar(ax, bar_m)
    return ax


def scale_bar(ax: Axes, length_m: float) -> Bbox:
    """A bar of so many metres in the lower left, labelled in km; the box that it takes, for `label`."""
    (x, right), (y, top) = ax.get_xlim(), ax.get_ylim()
    x, y = x + 0.02 * (right - x), y + 0.03 * (top - y)
    halo = [effects.withStroke(linewidth=4, foreground="white"), effects.Normal()]
    look: dict = {"zorder": 9, "path_effects": halo}
    (bar,) = ax.plot([x, x + length_m], [y, y], color=INK, linewidth=2, solid_capstyle="butt", **look)
    text: dict = {"textcoords": "offset points", "ha": "center", "fontsize": 8, **look}
    words = ax.annotate(f"{number(length_m / units.km)} km", (x + length_m / 2, y), xytext=(0, 3), **text)
    return Bbox.union([bar.get_window_extent(), words.get_window_extent()]).padded(2)


def rings(ax: Axes, data: pd.DataFrame, origin: tuple[float, float] = ORIGIN, **style) -> None:
    """Circles at true scale, to 1.3% within the country.

    They are marks, which take a tenth of the room of paths: they keep their size when the axes are zoomed.

    Parameters
    ----------
    ax, origin
        Of the map, see `ground`.
    data
        Columns latitude, longitude, radius_m.
    **style
        Of the circles.

    Returns
    -------
    Nothing.
    """
    (west, east), width_pt = ax.get_xlim(), ax.get_window_extent().width * 72 / ax.figure.dpi
    for radius, part in data.groupby("radius_m"):
        size = 2 * radius * width_pt / (east - west)
        look: dict = {"marker": "o", "markersize": size, "linestyle": "none", "zorder": 4} | style
        ax.plot(*albers(part["latitude"], part["longitude"], origin), scalex=False, scaley=False, **look)


def map_label(
    ax: Axes,
    text: str,
    at: Iterable[tuple[float, float]],
    taken: list,
    reach: float = 7,
    must: bool = True,
    away: ArrayLike = (1, 0),
    steps: Sequence[float] = (1.0, 1.7, 2.6),
    **style,
) -> bool:
    """Write a text beside the first of some points where it covers nothing.

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
    away, steps
        Direction to try first; distances to try, in `reach`.
    **style
        Of the text.

    Returns
    -------
    True if it was written on free ground.
    """
    halo = [effects.withStroke(linewidth=2.2, foreground="white")]
    shown = ax.annotate(text, (0, 0), (0, 0), textcoords="offset points", path_effects=halo, zorder=9, **style)
    inside = ax.get_window_extent()
    sides = SIDES[np.argsort(-SIDES @ np.asarray(away, float), kind="stable")] * reach
    for point in at:
        for x, y in np.concatenate([step * sides for step in steps]) if reach else [(0, 0)]:
            shown.xy, shown.xyann = point, (x, y)
            shown.set(ha=("center", "left", "right")[int(np.sign(x))], va=("center", "bottom", "top")[int(np.sign(y))])
            box = shown.get_window_extent().padded(1)
            within = inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0 and box.y1 <= inside.y1
            if within and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                return True
    if not must:
        shown.remove()
    return False


def links(ax: Axes, data: pd.DataFrame, taken: list, bold: bool = True) -> None:
    """Great circles between places.

    Parameters
    ----------
    ax
        Of the country's map, see `ground`.
    data
        Columns latitude, longitude, latitude_to, longitude_to, distance_m, delay_s.
    taken
        Boxes that texts must not cover, see `label`.
    bold
        Draw them dashed and bold, with length and one-way delay, instead of thin and grey.

    Returns
    -------
    Nothing.
    """
    halo = [effects.withStroke(linewidth=3.4, foreground="white"), effects.Normal()]
    thick: dict = {"color": INK, "linewidth": 1.6, "linestyle": (0, (4, 1.5)), "path_effects": halo, "zorder": 6}
    for row in data.itertuples():
        way = great_circle((row.latitude, row.longitude), (row.latitude_to, row.longitude_to))
        x, y = albers(*way)
        ax.plot(x, y, **thick if bold else {"color": "#777777", "linewidth": 0.8, "zorder": 5})
        if bold:
            km = row.distance_m / units.km
            words = f"{number(km, 4 if km >= 1000 else 3)} km\n{number(row.delay_s / units.ms, 3)} ms"
            along = [(x[i], y[i]) for i in (20, 16, 24, 12, 28, 9, 31)]
            box: dict = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
            look: dict = {"fontsize": 8.5, "bbox": box, "linespacing": 1.1}
            length_pt = np.hypot(*np.diff(ax.transData.transform([(x[0], y[0]), (x[-1], y[-1])]), axis=0)[0])
            short = length_pt * 72 / ax.figure.dpi < 3 * WORDS  # a text on it would hide it
            if short or not map_label(ax, words, along, taken, 0, must=False, **look):
                aside = (along[2][1] - along[1][1], along[1][0] - along[2][0])
                map_label(ax, words, along[:1], taken, 14, away=aside, **look)


def draw_plants(ax: Axes, plants: pd.DataFrame, origin: tuple[float, float] = ORIGIN, scale: float = 1.0) -> None:
    """Marks of plants by group of fuels, the largest first, area by power; those below LEAST_W are left out.

    Parameters
    ----------
    ax, origin
        Of the map, see `ground`.
    plants
        Columns latitude, longitude, fuel, power_w.
    scale
        How much larger the marks are than on a map of the country.

    Returns
    -------
    Nothing.
    """
    x, y = albers(plants["latitude"], plants["longitude"], origin)
    marks = plants.assign(x=x, y=y, group=plants["fuel"].replace(GROUPS))
    marks = marks[inside(ax, x, y) & (marks["power_w"] >= LEAST_W)]
    marks = marks.sort_values("power_w", ascending=False, kind="stable")
    look: dict = {"edgecolors": "white", "linewidths": 0.25, "rasterized": True, "zorder": 3}
    for name, (colour, marker) in FUELS.items():
        mine = marks[marks["group"] == name]
        ax.scatter(mine["x"], mine["y"], s=area(mine["power_w"], scale), color=colour, marker=marker, **look)


def area(power_w: Any, scale: float = 1.0) -> Any:
    """Area of a plant's mark [square points]: 28 for each GW, 0.6 at least."""
    return scale * np.maximum(28 * np.asarray(power_w) / units.GW, 0.6)


def draw_lines(ax: Axes, grid: GridTables, origin: tuple[float, float] = ORIGIN, scale: float = 1.0) -> None:
    """Lines of 345 kV and more, and DC, by voltage, those of a kind as one path.

    Parameters
    ----------
    ax, origin
        Of the map, see `ground`.
    grid
        Tables of the grid.
    scale
        How much wider the lines are than on a map of the country.

    Returns
    -------
    Nothing.
    """
    places = grid.substations.set_index("sub_id")[["latitude", "longitude"]]
    ends = [places.loc[grid.lines[end]].to_numpy() for end in ("from_sub", "to_sub")]
    latitude, longitude = np.stack([*ends, np.full_like(ends[0], np.nan)], axis=1).transpose(2, 0, 1)
    x, y = albers(latitude, longitude, origin)
    kind = pd.cut(grid.lines["kv"], VOLTAGES, right=False, labels=list(LINES)[:-1]).astype(object)
    kind = kind.mask(grid.lines["type"] == "DC", "direct current").to_numpy()
    for name, (colour, width, dashes) in LINES.items():
        mine: dict = {"color": colour, "linewidth": width * scale, "linestyle": dashes, "zorder": 2}
        ax.plot(x[kind == name].ravel(), y[kind == name].ravel(), scalex=False, scaley=False, **mine)


def inside(ax: Axes, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """True for the points within the limits of the axes."""
    (west, east), (south, north) = ax.get_xlim(), ax.get_ylim()
    return (x > west) & (x < east) & (y > south) & (y < north)


def handles(scale: float = 1.0) -> dict[str, list[Line2D]]:
    """What a legend shows: plants by fuel, sizes (of 0.1, 1 and 4 GW), lines, nodes that pass and fail, places."""

    def mark(map_label: str, marker: str, colour: str, size: float, edge: str = "white", width: float = 0.5) -> Line2D:
        look: dict = {"linestyle": "none", "markeredgecolor": edge, "markeredgewidth": width}
        return Line2D([], [], marker=marker, color=colour, markersize=size, label=map_label, **look)

    sizes = {"100 MW": 0.1, "1 GW": 1.0, "4 GW": 4.0}
    return {
        "plants": [mark(name, marker, colour, 7) for name, (colour, marker) in FUELS.items()],
        "sizes": [
            mark(name, "o", "white", area(gw * units.GW, scale) ** 0.5, "#555555", 1) for name, gw in sizes.items()
        ],
        "lines": [
            Line2D([], [], color=colour, linewidth=width * 1.6, label=name, linestyle=dashes)
            for name, (colour, width, dashes) in LINES.items()
        ],
        "nodes": [mark("passes", "o", "none", 10, PASS, 1.3), mark("fails", "o", "none", 10, FAIL, 0.8)],
        "places": [mark("chosen place", "*", PLACE, 13)],
    }


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
        Links between the places, with the columns of `links`; all named up to three, else the longest.
    title, note
        Above the map; what the grid is, below it.

    Returns
    -------
    The figure.
    """
    figure = plt.figure(figsize=(11, 6.5), layout="none")
    ax = ground(map_panel(figure, (0.1, 0.1, 9.3, 6.0 if title else 6.3)), outlines)
    draw_lines(ax, grid)
    draw_plants(ax, grid.plants)
    if nodes is not None:
        fails, holds = nodes[~nodes["passes"]], nodes[nodes["passes"]]
        rings(ax, fails, color="none", markeredgecolor=FAIL, markeredgewidth=0.6, zorder=1.5)
        rings(ax, holds, color="none", markeredgecolor="white", markeredgewidth=2.6)
        rings(ax, holds, color="none", markeredgecolor=PASS, markeredgewidth=1.3)
    taken: list = []
    if places is not None:
        rings(ax, places, color=PLACE, alpha=0.25)
        _stars(ax, places, taken)
    if ways is not None:
        by_length = ways.sort_values("distance_m", ascending=False)
        named = len(ways) if len(ways) <= MOST_NAMED else 1
        links(ax, by_length.iloc[named:], taken, bold=False)
        links(ax, by_length.iloc[:named], taken)
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
        ax = ground(
            map_panel(figure, (0.1 + 5.45 * i, 1.0, 5.35, 5.2)), outlines, origin, view.half_m, bar_m=0, over=True
        )
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
        Columns k and those of `links`.
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
        ax = ground(map_panel(figure, (left, bottom, 3.55, 2.3)), outlines, bar_m=0 if i else 500e3, rasterized=True)
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
        map_label(ax, name, [tuple(point)], taken, reach + 2, away=away, fontsize=9, fontweight="bold", color=DARK)


def _mark(ax: Axes, point: np.ndarray | tuple[float, float], reach: float) -> Bbox:
    """Box of a mark that reaches so many typographic points to each side."""
    x, y = ax.transData.transform(point)
    half = reach * ax.figure.dpi / 72
    return Bbox([[x - half, y - half], [x + half, y + half]])


def _plant_words(ax: Axes, plants: pd.DataFrame, taken: list, origin: tuple[float, float]) -> None:
    """Power of the largest plants in view [MW], beside their marks and those of the others."""
    x, y = albers(plants["latitude"], plants["longitude"], origin)
    seen = plants.assign(x=x, y=y)[inside(ax, x, y)].nlargest(MOST_WORDS, "power_w")
    reaches = area(seen["power_w"].to_numpy(), CLOSE) ** 0.5 / 2
    boxes = [_mark(ax, point, reach * 0.8) for point, reach in zip(seen[["x", "y"]].to_numpy(), reaches, strict=True)]
    for i, row in enumerate(seen.itertuples()):
        others = [*taken, *boxes]
        words = number(row.power_w / units.MW, 3)
        if map_label(ax, words, [(row.x, row.y)], others, reaches[i] + 1, must=False, steps=(1.0, 1.3), **POWER):
            taken.append(others[-1])
    taken += boxes


def _cities(
    ax: Axes,
    cities: pd.DataFrame,
    taken: list,
    origin: tuple[float, float],
    bar: Bbox | None = None,
) -> None:
    """Names of the largest cities in view, none near a larger one and none on the scale bar, where there is room."""
    x, y = albers(cities["latitude"], cities["longitude"], origin)
    seen = cities.assign(x=x, y=y)[inside(ax, x, y)].sort_values("population", ascending=False)
    at = seen[["x", "y"]].to_numpy()
    near = np.tril(np.hypot(*(at[:, None] - at).transpose(2, 0, 1)) < 40e3, -1).any(axis=1)
    for row in seen[~near].head(MOST_WORDS).itertuples():
        if bar is not None and bar.overlaps(_mark(ax, (row.x, row.y), CITY["markersize"] / 2)):
            continue
        ax.plot(row.x, row.y, zorder=7, **CITY)
        map_label(ax, row.city, [(row.x, row.y)], taken, 4, must=False, fontsize=8.5, style="italic", color=INK)


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
