"""Marks on maps of power siting: plants by fuel, lines by voltage, rings of nodes, and what a legend shows of them."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from railcore.facts import units
from railcore.workbench.charts.maps.basemap import ORIGIN, GridTables, albers
from railcore.workbench.plotting import COLOURS

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
LINES = {  # lines: least voltage [kV], colour and width
    "345 kV": (345, "#A9BDD1", 0.5),
    "500 kV": (500, "#6C8CAD", 0.8),
    "765 kV": (765, "#2F5A87", 1.3),
    "direct current": (0, "#8C2D04", 1.3),
}
PASS, FAIL, PLACE, FOUND = "#111111", "#B5AFA4", COLOURS[1], "#DDD6F2"
DARK = "#8A3500"
LEAST_W = 10e6  # smaller plants are hardly seen: 0.4% of the power of the embedded grid


def draw_plants(ax: Axes, plants: pd.DataFrame, origin: tuple[float, float] = ORIGIN, scale: float = 1.0) -> None:
    """Marks of plants by group of fuels, the largest first, area by power; those below LEAST_W are left out.

    Parameters
    ----------
    ax, origin
        Of the map, see `basemap.ground`.
    plants
        Columns latitude, longitude, fuel, power_w.
    scale
        How much larger the marks are than on a map of the country.

    Returns
    -------
    Nothing.
    """
    x, y = albers(plants["latitude"], plants["longitude"], origin)
    group = plants["fuel"].replace(GROUPS).to_numpy()
    power = plants["power_w"].to_numpy(float)
    seen = inside(ax, x, y) & (power >= LEAST_W)
    for name, (colour, marker) in FUELS.items():
        order = np.flatnonzero((group == name) & seen)
        order = order[np.argsort(-power[order], kind="stable")]
        look: dict = {"edgecolors": "white", "linewidths": 0.25, "rasterized": True, "zorder": 3}
        ax.scatter(x[order], y[order], s=area(power[order], scale), color=colour, marker=marker, **look)


def area(power_w: Any, scale: float = 1.0) -> Any:
    """Area of a plant's mark [square points]: 28 for each GW, 0.6 at least."""
    return scale * np.maximum(28 * np.asarray(power_w) / units.GW, 0.6)


def draw_lines(ax: Axes, grid: GridTables, origin: tuple[float, float] = ORIGIN, scale: float = 1.0) -> None:
    """Lines of 345 kV and more, and DC, by voltage, those of a kind as one path.

    Parameters
    ----------
    ax, origin
        Of the map, see `basemap.ground`.
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
    kind = grid.lines["kv"].map(_voltage).mask(grid.lines["type"] == "DC", "direct current").to_numpy()
    for name, (_, colour, width) in LINES.items():
        mine: dict = {"color": colour, "linewidth": width * scale, "linestyle": _dashes(name), "zorder": 2}
        ax.plot(x[kind == name].ravel(), y[kind == name].ravel(), scalex=False, scaley=False, **mine)


def _dashes(name: str) -> Any:
    return (0, (4, 2)) if name == "direct current" else "solid"


def _voltage(kv: float) -> str:
    found = [name for name, (least, _, _) in LINES.items() if least and kv >= least]
    return found[-1] if found else ""


def inside(ax: Axes, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """True for the points within the limits of the axes."""
    (west, east), (south, north) = ax.get_xlim(), ax.get_ylim()
    return (x > west) & (x < east) & (y > south) & (y < north)


def handles(scale: float = 1.0) -> dict[str, list[Line2D]]:
    """What a legend shows: plants by fuel, sizes (of 0.1, 1 and 4 GW), lines, nodes that pass and fail, places."""

    def mark(label: str, marker: str, colour: str, size: float, edge: str = "white", width: float = 0.5) -> Line2D:
        look: dict = {"linestyle": "none", "markeredgecolor": edge, "markeredgewidth": width}
        return Line2D([], [], marker=marker, color=colour, markersize=size, label=label, **look)

    sizes = {"100 MW": 0.1, "1 GW": 1.0, "4 GW": 4.0}
    return {
        "plants": [mark(name, marker, colour, 7) for name, (colour, marker) in FUELS.items()],
        "sizes": [
            mark(name, "o", "white", area(gw * units.GW, scale) ** 0.5, "#555555", 1) for name, gw in sizes.items()
        ],
        "lines": [
            Line2D([], [], color=colour, linewidth=width * 1.6, label=name, linestyle=_dashes(name))
            for name, (_, colour, width) in LINES.items()
        ],
        "nodes": [mark("passes", "o", "none", 10, PASS, 1.3), mark("fails", "o", "none", 10, FAIL, 0.8)],
        "places": [mark("chosen place", "*", PLACE, 13)],
    }
