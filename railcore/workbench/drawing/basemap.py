"""A map of states under other marks: projection, outlines, scale bar, circles at true scale, labels that make way."""

from collections.abc import Iterable, Mapping, Sequence

import matplotlib.patheffects as effects
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.transforms import Bbox
from numpy.typing import ArrayLike

from railcore.facts import catalog, units
from railcore.facts.units import number

ORIGIN = (23.0, -96.0)  # of x = y = 0
INK = "#222222"
_PARALLELS = (29.5, 45.5)  # on which lengths are true
_LAND, _BORDER = "#F5F3EE", "#BDB8AE"
_SIDES = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (0.8, 0.8), (-0.8, 0.8), (0.8, -0.8), (-0.8, -0.8)])

Place = tuple[float, float]  # latitude and longitude [degrees]
Outlines = Mapping[str, Sequence[np.ndarray]]  # rings of (longitude, latitude) by state


def albers(
    latitude: ArrayLike, longitude: ArrayLike, origin: Place = ORIGIN, radius_m: float = 0.0
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
    a, b = np.radians(_PARALLELS)
    phi, phi0 = np.radians(np.asarray(latitude, float)), np.radians(origin[0])
    n = (np.sin(a) + np.sin(b)) / 2
    c = np.cos(a) ** 2 + 2 * n * np.sin(a)
    rho, rho0 = (radius * np.sqrt(c - 2 * n * np.sin(angle)) / n for angle in (phi, phi0))
    theta = n * np.radians(np.asarray(longitude, float) - origin[1])
    return rho * np.sin(theta), rho0 - rho * np.cos(theta)


def great_circle(start: Place, end: Place) -> tuple[np.ndarray, np.ndarray]:
    """Latitude and longitude of 41 points along the shortest way between two places.

    (start sin (1 - t) d + end sin t d) / sin d of their unit vectors, d the angle between them, t from 0 to 1.
    """
    phi, lam = np.radians(np.array([start, end]).T)
    places = np.stack([np.cos(phi) * np.cos(lam), np.cos(phi) * np.sin(lam), np.sin(phi)])
    d = np.arccos(np.clip(places[:, 0] @ places[:, 1], -1, 1)) or 1e-9
    t = np.linspace(0, 1, 41)
    x, y, z = places @ np.stack([np.sin((1 - t) * d), np.sin(t * d)]) / np.sin(d)
    return np.degrees(np.arcsin(z)), np.degrees(np.arctan2(y, x))


def state_map(
    figure: Figure,
    inches: tuple[float, float, float, float],
    outlines: Outlines,
    origin: Place = ORIGIN,
    half_m: float = 0.0,
    border_zorder: float = 0.0,
    rasterized: bool = False,
) -> Axes:
    """Axes with states in thin grey, at one scale both ways.

    Parameters
    ----------
    figure, inches
        Where to draw: a rectangle of the figure, left, bottom, width and height [inches].
    outlines
        Rings of (longitude, latitude) by state.
    origin, half_m
        Middle of the map, and how far it reaches to all sides [m]; all states where that is 0.
    border_zorder
        Draw the borders at this zorder, above areas that are drawn between it and 0.
    rasterized
        Store the states as an image in an SVG, for small maps.

    Returns
    -------
    The axes.
    """
    width, height = figure.get_size_inches()
    place = tuple(inches / np.array([width, height, width, height]))
    ax = figure.add_axes(place, xticks=[], yticks=[], frame_on=False)
    rings = [np.column_stack(albers(ring[:, 1], ring[:, 0], origin)) for state in outlines.values() for ring in state]
    if half_m:
        low, high = np.full(2, -half_m), np.full(2, half_m)
        rings = [ring for ring in rings if (ring.max(0) > 2 * low).all() and (ring.min(0) < 2 * high).all()]
    else:
        low, high = (edge([edge(ring, axis=0) for ring in rings], axis=0) for edge in (np.min, np.max))
    shapes = Path.make_compound_path(*(Path(ring, closed=True) for ring in rings))
    style: dict = {"linewidth": 0.6, "rasterized": rasterized}
    ax.add_artist(PathPatch(shapes, facecolor=_LAND, edgecolor="none" if border_zorder else _BORDER, zorder=0, **style))
    if border_zorder:
        ax.add_artist(PathPatch(shapes, facecolor="none", edgecolor=_BORDER, zorder=border_zorder, **style))
    box = ax.get_window_extent()
    middle, half = (low + high) / 2, (high - low) / 2 * 1.02
    half = np.array([box.width, box.height]) * max(half / [box.width, box.height])
    ax.set(xlim=middle[0] + half[0] * np.array([-1, 1]), ylim=middle[1] + half[1] * np.array([-1, 1]))
    ax.set_aspect("equal")
    return ax


def draw_scale_bar(ax: Axes, length_m: float = 500e3) -> Bbox:
    """A bar of so many metres in the lower left, labelled in km; gives the box that it takes."""
    (x, right), (y, top) = ax.get_xlim(), ax.get_ylim()
    x, y = x + 0.02 * (right - x), y + 0.03 * (top - y)
    halo = [effects.withStroke(linewidth=4, foreground="white"), effects.Normal()]
    style: dict = {"zorder": 9, "path_effects": halo}
    (bar,) = ax.plot([x, x + length_m], [y, y], color=INK, linewidth=2, solid_capstyle="butt", **style)
    place: dict = {"textcoords": "offset points", "ha": "center", "fontsize": 8}
    text = ax.annotate(f"{number(length_m / units.km)} km", (x + length_m / 2, y), (0, 3), **place, **style)
    return Bbox.union([bar.get_window_extent(), text.get_window_extent()]).padded(2)


def draw_circles(ax: Axes, data: pd.DataFrame, origin: Place = ORIGIN, **style) -> None:
    """Circles at true scale, to 1.3% within the country.

    They are marks, which take a tenth of the room of paths: they keep their size when the axes are zoomed.

    Parameters
    ----------
    ax, origin
        Of the map, see `state_map`.
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
        circle: dict = {"marker": "o", "markersize": size, "linestyle": "none", "zorder": 4} | style
        ax.plot(*albers(part["latitude"], part["longitude"], origin), scalex=False, scaley=False, **circle)


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
    sides = _SIDES[np.argsort(-_SIDES @ np.asarray(away, float), kind="stable")] * reach
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


def within_axes(ax: Axes, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """True for the points within the limits of the axes."""
    (west, east), (south, north) = ax.get_xlim(), ax.get_ylim()
    return (x > west) & (x < east) & (y > south) & (y < north)


def mark_box(ax: Axes, point: np.ndarray | tuple[float, float], reach: float) -> Bbox:
    """Box of a mark that reaches so many typographic points to each side."""
    x, y = ax.transData.transform(point)
    half = reach * ax.figure.dpi / 72
    return Bbox([[x - half, y - half], [x + half, y + half]])
