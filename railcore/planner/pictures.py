"""Pictures of a plan's page, drawn by Matplotlib as SVG: networks with their intervals, bars of parts, places.

The numbers under each picture stand on the page too.
"""

import io
import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from railcore.catalog.colours import GREY, SCHEMES
from railcore.catalog.libraries import needed_library
from railcore.catalog.units import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 4.3  # of a picture, two of which stand side by side on A4 [inches]
FONT = 9.0  # of its texts [points]
_STYLE: Any = {
    "svg.fonttype": "none",  # texts stay texts, which can be searched and read aloud
    "svg.hashsalt": "railcore",
    "font.size": FONT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
}
_INK, _SOFT, _LINE, _BAD, _GOOD = (SCHEMES["light"][name] for name in ("ink", "soft", "line", "bad", "good"))
_WIDE = 20.0  # greatest over least number, from which an axis is logarithmic
_REM = 8.0  # of a page, for an inch of a picture, at most
_NAME = 24  # letters of a network's name on a line
_KM_PER_DEGREE = 111.2  # of latitude


def drawn(picture: Any, name: str, title: str, description: str, **options: Any) -> str:
    """A picture as an SVG element for a page.

    Parameters
    ----------
    picture
        One of the functions of this module: takes a figure and what is drawn.
    name
        With which all ids in it begin.
    title, description
        For who cannot see it.
    options
        Of the picture.

    Returns
    -------
    The element; equal options give equal texts.

    Raises
    ------
    ValueError
        Where Matplotlib is not installed.
    """
    check_library()
    from matplotlib import rc_context  # only for who asks for the page
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    stream = io.StringIO()
    with rc_context(_STYLE):
        figure = Figure(layout="constrained")
        picture(figure, **options)
        metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        FigureCanvasSVG(figure).print_svg(stream, metadata=metadata)
    return _element(stream.getvalue(), name, title, description)


def check_library() -> None:
    """Raises ValueError where Matplotlib, which draws the page's pictures, is not installed or broken."""
    needed_library("matplotlib", "the page's pictures need Matplotlib", "page")


def _element(svg: str, name: str, title: str, description: str) -> str:
    """Matplotlib's file as an element with ids of its own, without a size, styles or namespaces."""
    body = re.sub(r"<(metadata|style)\b.*?</\1>|<defs>\s*</defs>", "", svg[svg.index("<svg") :], flags=re.S)
    (view,) = re.findall(r'viewBox="([^"]+)"', body)
    width = float(view.split()[2]) / 72 * _REM
    body = body[body.index(">") + 1 :]
    used = dict.fromkeys(re.findall(r'(?:xlink:href="|url\()#([^")]+)', body))
    names = {old: f"{name}-{count}" for count, old in enumerate(used, start=1)}  # Matplotlib's hang on the last bits
    body = re.sub(r' id="([^"]+)"', lambda it: f' id="{names[it[1]]}"' if it[1] in names else "", body)
    body = re.sub(r'(xlink:href="|url\()#([^")]+)', lambda it: f"{it[1].removeprefix('xlink:')}#{names[it[2]]}", body)
    texts = {"title": title, "desc": description}
    told = "".join(f'<{tag} id="{name}-{tag}">{_escaped(text)}</{tag}>' for tag, text in texts.items())
    labels = " ".join(f"{name}-{tag}" for tag in texts)
    attributes = f'class="picture" role="img" style="max-width:{width:.0f}rem" aria-labelledby="{labels}"'
    return f'<svg {attributes} viewBox="{view}">{told}{body.strip()}'


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def network_intervals(figure: "Figure", chart: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]]) -> None:
    """Candidates in rows, the best on top: two numbers of each with their intervals; limits as dashed lines.

    Parameters
    ----------
    figure
        That it is drawn on.
    chart
        Axes x and y: key of the number, label, limit and wish or None, scale (1 by default).
    candidates
        Those that have both numbers.
    """
    names = ["\n".join(textwrap.wrap(candidate["name"], _NAME)) for candidate in candidates]
    lines = sum(name.count("\n") + 1 for name in names)
    figure.set_size_inches(WIDTH, 0.85 + 0.21 * max(lines, len(names) + 1))
    left, right = figure.subplots(1, 2, sharey=True)
    for ax, way in ((left, "x"), (right, "y")):
        _intervals(ax, chart[way], candidates)
    left.set_yticks(range(len(names)), names)
    left.set_ylim(len(names) - 0.4, -0.75)
    for label, candidate in zip(left.get_yticklabels(), candidates, strict=True):
        label.set_fontweight("bold" if candidate["state"] == "best" else "normal")
    for ax in (left, right):
        ax.tick_params(axis="y", length=0)


def _intervals(ax: "Axes", axis: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]]) -> None:
    """One number of all candidates, a row each."""
    scale, values = axis.get("scale") or 1, []
    for row, candidate in enumerate(candidates):
        entry = candidate["numbers"][axis["key"]]
        value = entry["value"] / scale
        low, high = (value if entry.get(end) is None else entry[end] / scale for end in ("low", "high"))
        values += [low, value, high]
        colour, hollow = candidate["colour"], candidate["state"] == "missed"
        ax.hlines(row, low, high, color=colour, linewidth=2.2, alpha=0.55)
        ax.plot(value, row, "o", ms=5.5, mec=colour, mew=1.4, mfc="white" if hollow else colour)
    for kind, colour, style, raised in (("limit", _BAD, "--", 0), ("wish", _GOOD, ":", 1.2)):
        if axis.get(kind) is not None:
            values.append(axis[kind] / scale)
            ax.axvline(values[-1], color=colour, linewidth=1, linestyle=style)
            ax.annotate(
                f"{kind} {number(values[-1], 3)}", (values[-1], 1), xycoords=("data", "axes fraction"), ha="center",
                va="bottom", color=colour, fontsize=FONT - 1, xytext=(0, FONT * raised), textcoords="offset points",
            )  # fmt: skip
    if min(values) > 0 and max(values) > _WIDE * min(values):
        from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter  # as above

        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 3.0), numticks=4))
        ax.xaxis.set_major_formatter(ScalarFormatter())
        ax.xaxis.set_minor_formatter(NullFormatter())
    else:
        room = 0.07 * (max(values) - min(values)) or 0.05 * abs(max(values)) or 1.0
        ax.set_xlim(min(values) - room, max(values) + room)
        ax.locator_params(axis="x", nbins=4)
    ax.set_xlabel("\n".join(textwrap.wrap(axis["label"], _NAME - 3)), color=_SOFT)
    ax.grid(axis="x", color=_LINE, linewidth=0.5)
    ax.set_axisbelow(True)


def stacked_bars(figure: "Figure", bars: Mapping[str, Any]) -> None:
    """Bars of parts from zero, each below its label.

    figure: that it is drawn on. bars: rows of a label and parts, with value and colour; and their unit.
    """
    rows = bars["rows"]
    figure.set_size_inches(1.5 * WIDTH, 0.5 + 0.42 * len(rows))
    ax = figure.subplots()
    for place, row in enumerate(rows):
        start = 0.0
        for part in row["parts"]:
            ax.barh(place, part["value"], 0.5, start, color=part["colour"], edgecolor="white", linewidth=0.6)
            start += part["value"]
        ax.annotate(row["label"], (0, place - 0.32), va="bottom", xytext=(1, 0), textcoords="offset points")
    ax.set_ylim(len(rows) - 0.6, -0.9)
    ax.set_yticks([])
    ax.set_xlabel(bars["unit"], color=_SOFT)
    ax.grid(axis="x", color=_LINE, linewidth=0.5)
    ax.set_axisbelow(True)


def place_map(figure: "Figure", points: Sequence[Mapping[str, Any]]) -> None:
    """Places by longitude and latitude, numbered as in their list, with a bar of some km.

    figure: that it is drawn on. points: longitude and latitude [degrees]. A degree of longitude has its length in the
    middle of the map, which suits one country and not the world.
    """
    figure.set_size_inches(WIDTH, 0.75 * WIDTH)
    ax = figure.subplots()
    east, north = ([point[way] for point in points] for way in ("longitude", "latitude"))
    middle = (min(north) + max(north)) / 2
    ax.set_aspect(1 / math.cos(math.radians(middle)), adjustable="datalim")
    ax.plot(east, north, "o", ms=6, color=_GOOD)
    ax.margins(0.25)
    for count, place in enumerate(zip(east, north, strict=True), start=1):
        nearest = min(zip(east, north, strict=True), key=lambda other: math.dist(place, other) or math.inf)
        side, above = (1 if here >= there else -1 for here, there in zip(place, nearest, strict=True))
        off: dict[str, Any] = {"xytext": (6 * side, 4 * above), "ha": "left" if side > 0 else "right", "va": "center"}
        ax.annotate(str(count), place, textcoords="offset points", color=_INK, **off)
    ax.set(xlabel="longitude (degrees)", ylabel="latitude (degrees)")
    ax.grid(color=_LINE, linewidth=0.5)
    ax.set_axisbelow(True)
    figure.canvas.draw()
    (west, last), low = ax.get_xlim(), ax.get_ylim()[0]
    degree_km = _KM_PER_DEGREE * math.cos(math.radians(middle))
    length_km = _round_number((last - west) * degree_km / 5)
    start, base = west + 0.04 * (last - west), low + 0.07 * (ax.get_ylim()[1] - low)
    ax.plot([start, start + length_km / degree_km], [base, base], color=_INK, linewidth=2)
    ax.annotate(f"{number(length_km)} km", (start, base), xytext=(0, 3), textcoords="offset points")


def _round_number(most: float) -> float:
    """The greatest of 1, 2, 5, 10, 20, ... that is not above `most`."""
    power = 10.0 ** math.floor(math.log10(most))
    return next(factor * power for factor in (5, 2, 1) if factor * power <= most * (1 + 1e-9))


# The network.

_SHOWN = 4  # groups of switches, and servers, that are drawn of many


def network_drawing(figure: "Figure", drawing: Mapping[str, Any]) -> None:
    """Servers, and above them the tiers of switches with how many there are and the links between.

    figure: that it is drawn on. drawing: as of `network_diagram.diagram`.
    """
    tiers = drawing["tiers"]
    figure.set_size_inches(WIDTH, 0.75 + 0.78 * len(tiers) + 0.3)
    ax = figure.subplots()
    ax.set(xlim=(0, 10), ylim=(-0.35, len(tiers) + 0.5))
    ax.set_axis_off()
    columns = _columns(drawing["groups"])
    hosts = _columns(drawing["servers"])
    _boxes(ax, 0, hosts, "white", drawing["colour"])
    for height in range(1, len(tiers) + 1):
        joined = drawing["joined_from"] is not None and height >= drawing["joined_from"]
        places = [(0.3, 6.2)] if joined else columns
        below = hosts if height == 1 else columns
        _links(ax, height, below, places, drawing["all_groups"])
        _boxes(ax, height, places, drawing["colour"], drawing["colour"], copies=drawing["planes"])
    ax.text(0.3, len(tiers) + 0.42, drawing["note"], va="top", color=_SOFT, fontsize=FONT - 1)
    for height, told in enumerate([drawing["hosts"], *(tier["label"] for tier in tiers)]):
        ax.text(6.75, height, "\n".join(textwrap.wrap(told, 22)), va="center", color=_INK)
    for height, tier in enumerate(tiers):
        ax.text(6.75, height + 0.5, tier["links"], va="center", color=_SOFT, fontsize=FONT - 1)


def _columns(count: int) -> list[tuple[float, float]]:
    """Left end and width of the boxes that are drawn for so many things; a gap before the last of more than shown."""
    slots = min(count, _SHOWN + 1)
    width = 6.2 / max(slots, 1)
    places = [(0.3 + slot * width + 0.06 * width, 0.88 * width) for slot in range(slots)]
    return places if count <= _SHOWN + 1 else [*places[: _SHOWN - 1], places[-1]]


def _boxes(
    ax: "Axes", height: float, places: Sequence[tuple[float, float]], face: str, edge: str, copies: int = 1
) -> None:
    from matplotlib.patches import Rectangle

    for layer in range(min(copies, 3) - 1, -1, -1):
        for left, width in places:
            corner = (left + 0.1 * layer, height - 0.19 + 0.08 * layer)
            ax.add_patch(Rectangle(corner, width, 0.38, fc=face, ec="white" if face == edge else edge, lw=1, zorder=3))
    before, after = places[-2:] if len(places) > 1 else 2 * [*places]
    if after[0] - before[0] > 2 * after[1]:  # some are left out between them
        ax.text((before[0] + before[1] + after[0]) / 2, height, "...", ha="center", va="center", color=_SOFT)


def _links(
    ax: "Axes",
    height: int,
    below: Sequence[tuple[float, float]],
    above: Sequence[tuple[float, float]],
    all_groups: bool,
) -> None:
    """Lines up from a row of boxes: into the one box of a joined tier, from servers to each group, or to the next."""
    for place, (left, width) in enumerate(below):
        share = place / max(len(below) - 1, 1)
        if len(above) == 1:
            ends = [left + width / 2]
        elif height == 1 and all_groups:
            ends = [start + (0.15 + 0.7 * share) * wide for start, wide in above]
        else:
            near = above if height > 1 and not all_groups else [above[round(share * (len(above) - 1))]]
            ends = [start + wide / 2 for start, wide in near]
        for end in ends:
            ax.plot([left + width / 2, end], [height - 0.81, height - 0.19], color=GREY, linewidth=0.7, zorder=1)
