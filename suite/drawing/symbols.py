"""A fabric on matplotlib Axes: boxes, lines, switches, labels, routes and faults; and many marks as one artist."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise
from operator import itemgetter
from textwrap import fill
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.font_manager import FontProperties
from matplotlib.patches import BoxStyle, FancyBboxPatch, Patch
from matplotlib.path import Path
from matplotlib.patheffects import Normal, Stroke
from matplotlib.textpath import TextPath
from matplotlib.transforms import Affine2D

from suite.colours import ALERT, ROUTES, SEVENTH_RAIL
from suite.drawing import layers
from suite.plotting import COLOURS, LINKS, ink_on

if TYPE_CHECKING:
    import networkx as nx

# Okabe and Ito's colours, with wine for yellow, which is too faint for lines, and brown for black, which routes are.
# Greys are for switches above the rails.
_RAIL_COLOURS = (*COLOURS[:6], SEVENTH_RAIL, LINKS["wide area"])
_TOP, _MIDDLE, _FAINT, _PLAIN, _FAILED = "#4D4D4D", "#A6A6A6", "#B5B5B5", "#E4E4E4", ALERT
_TEXT = 8.5  # points: names of rows, legends
_HANDLE = 9  # letters that the line before an entry of a legend takes
_PAGE = 10.0  # width [inches]
_DASHES = ("-", "--", ":", "-.")
_WHITE = "#FFFFFF"
_BOLD = 2.6  # points
_SHARED_SWITCH: dict[str, Any] = {"facecolor": "#EFEFEF", "edgecolor": _TOP, "linestyle": "--"}


@dataclass(frozen=True)
class _Changes:
    """Changes from one graph to another: lost nodes, lost or thinner edges between live nodes, new edges."""

    dead: frozenset
    lost: frozenset
    new: frozenset


@dataclass(frozen=True)
class _Labels:
    """Texts of a row and their size, whether every node has one, width and height of a node's box [points]."""

    texts: list[str]
    font: float
    all_fit: bool
    wide: float
    high: float


@dataclass(frozen=True)
class _Scale:
    """Points to a GPU width and to a row; of every node its colour, its row's labels, half its box's height [rows]."""

    x: float
    y: float
    colours: dict[str, str]
    labels: dict[str, _Labels]
    half: dict[str, float]

    def width(self, links: int) -> float:
        """Of a line for so many links [points], thinner where GPUs are crowded."""
        return min((0.9 + 0.7 * (links - 1)) * min(1.0, max(0.45, self.x / 16)), 4.0)


def draw_fabric(
    graph: "nx.Graph",
    ax: plt.Axes,
    routes: Sequence[Sequence[str]] = (),
    after: "nx.Graph | None" = None,
    title: str | None = None,
    tiers: Sequence[str] = (),
    endpoint: str = "GPU",
    group: str = "Domain",
    legend: bool = True,
    pod: str = "",
    box: str = "",
) -> plt.Axes:
    """A fabric in layers: GPUs by HB domain (scale-up or NVLink domain) at the bottom, switches by tier above them.

    A rail has a colour (they repeat after eight), a plane a line style and a part of the width; switches that join
    rails are grey, optical circuit switches white ellipses; a trunk is as wide as it has links. Labels shrink, then
    shorten, then thin out until none overlaps.

    Parameters
    ----------
    graph, ax
        Of a fabric, as `fabric.graph()` gives it; where to draw it.
    routes
        Paths to highlight, as node lists; the legend says from where to where, and over how many switches. Hops of one
        that GPUs forward have numbers.
    after
        What is left of the graph; what is missing from it is dashed and crossed out, what is new is drawn bold.
    title, legend
        Title on the left; whether there is a legend.
    tiers
        Names of the rows of switches, tier 1 first.
    endpoint, group, pod
        Names of a GPU, of what holds it, and of what hangs together below the top tier, boxed where it has a name.
    box
        Text in a frame around the switches of all planes, where each plane has one; "" for no frame.

    Returns
    -------
    The axes.
    """
    import networkx as nx

    after = graph if after is None else after
    whole = graph if after is graph else nx.compose(graph, after)
    layout, changes = layers.fabric_layout(whole, tiers, endpoint, group), _changes(graph, after)
    scale = _frame(layout, ax)
    _boxes(layout, ax, scale)
    _pods(layout, ax, scale, pod) if pod else None
    _box_of_planes(layout, ax, scale, box)
    _edges(layout, ax, scale, changes)
    labels = [layers.route_label(whole, path, endpoint, group) for path in routes]
    handles = _routes(layout, ax, scale, dict(zip(labels, routes, strict=True))) + _legend(layout, scale, changes)
    for row in layout.rows:
        _row(layout, ax, scale, row, changes.dead)
    for artist in (*ax.texts, *ax.collections, *ax.patches, *ax.lines):
        artist.set_in_layout(False)  # all inside the limits: the layout need not measure them
    if title:
        ax.set_title(title, fontsize=10, loc="left")
    if legend and handles:
        _draw_legend(ax, handles, scale.x * (layout.width + 1.6))
    return ax


def fabric_figure(graph: "nx.Graph", routes: Sequence[Sequence[str]] = (), **options) -> plt.Figure:
    """One fabric on a page, higher the more tiers it has; arguments as for `draw_fabric`."""
    tiers = max(at["tier"] for _, at in graph.nodes(data=True))
    page, ax = plt.subplots(figsize=(_PAGE, 3.0 + 0.65 * tiers))
    draw_fabric(graph, ax, routes, **options)
    return page


def _draw_legend(ax: plt.Axes, handles: Sequence, room: float) -> None:
    """A legend below the axes in as many columns as fit its room [points]; what is wider than that is wrapped."""
    letters = int(room / (layers.SMALL_LETTER_WIDTH * _TEXT)) - _HANDLE
    for handle in handles:
        handle.set_label(fill(handle.get_label(), letters, break_long_words=False))
    widest = max(len(line) for handle in handles for line in handle.get_label().split("\n"))
    style: dict[str, Any] = {"fontsize": _TEXT, "handlelength": 3, "borderaxespad": 0.2}
    columns = min(3, max(1, letters // (widest + _HANDLE)))
    ax.legend(handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=columns, **style)


def _changes(graph: "nx.Graph", after: "nx.Graph") -> _Changes:
    dead = frozenset(graph) - frozenset(after)
    lost = [
        frozenset((a, b))
        for a, b, at in graph.edges(data=True)
        if not dead & {a, b} and (not after.has_edge(a, b) or after.edges[a, b]["links"] < at["links"])
    ]
    return _Changes(dead, frozenset(lost), frozenset(frozenset(edge) for edge in after.edges - graph.edges))


def rail_colour(rail: int) -> str:
    """Colour of a rail (from 1); colours repeat after eight."""
    return _RAIL_COLOURS[(rail - 1) % len(_RAIL_COLOURS)]


def _colours(graph: "nx.Graph") -> dict[str, str]:
    """Colour of each node: its rail's, or its plane's where there is one rail; else grey."""
    nodes = dict(graph.nodes(data=True))
    several = [key for key in ("rail", "plane") if len({at[key] for at in nodes.values()} - {None}) > 1]
    top, colours = max(at["tier"] for at in nodes.values()), {}
    for node, at in nodes.items():
        if several and at[several[0]] is not None:
            colours[node] = rail_colour(at[several[0]])
        else:
            colours[node] = _PLAIN if at["kind"] == "gpu" else _TOP if at["tier"] in (1, top) else _MIDDLE
    return colours


def _frame(layout: layers.FabricLayout, ax: plt.Axes) -> _Scale:
    """Limits of the axes, names of rows and planes; the scale from the figure's size and how many axes share it."""
    spec, page, dots = ax.get_subplotspec(), ax.figure.bbox, ax.figure.dpi / 72  # dots: to a point
    rows, columns = spec.get_gridspec().get_geometry() if spec else (1, 1)
    longest = max(len(line) for name in layout.levels.values() for line in name.split("\n"))
    margin = longest * layers.SMALL_LETTER_WIDTH * _TEXT + 5
    bottom, x = layout.floor - 0.7, (0.96 * page.width / dots / columns - margin) / (layout.width + 1.6)
    ax.set(xlim=(-0.8 - margin / x, layout.width + 0.8), ylim=(bottom, layout.top), xticks=[], yticks=[])
    ax.axis("off")
    for y, name in layout.levels.items():
        ax.text(-0.8, y, name, fontsize=_TEXT, ha="right", va="center", color="#333333")
    for middle, name in layout.planes.items():
        ax.text(middle, layout.top, name, fontsize=_TEXT, ha="center", va="top")
    y = 0.8 * page.height / dots / rows / (layout.top - bottom)
    labels = {node: labels_here for row in layout.rows for labels_here in [_labels(row, x)] for node in row.nodes}
    half = {node: 0.4 * labels_here.high / y for node, labels_here in labels.items()}  # a little inside
    return _Scale(x, y, _colours(layout.graph), labels, half)


def _box(ax: plt.Axes, scale: _Scale, left: float, low: float, width: float, height: float, **style) -> None:
    corners: dict[str, Any] = {"boxstyle": "round,pad=0.05,rounding_size=0.2", "mutation_aspect": scale.x / scale.y}
    ax.add_patch(FancyBboxPatch((left, low), width, height, linewidth=0.8, zorder=0, **corners, **style))


def _boxes(layout: layers.FabricLayout, ax: plt.Axes, scale: _Scale) -> None:
    """Boxes of HB domains with their names below, and of switches that several rails share."""
    for members in layout.domains.values():
        left, height = layout.at[members[0]][0] - 0.5, 0.5 - layout.floor
        _box(ax, scale, left, layout.floor, len(members), height, facecolor="#F6F6F6", edgecolor="#7A7A7A")
    names = list(layout.domains)
    room = scale.x * (min(map(len, layout.domains.values())) + 0.6)
    labels, font, _ = layers.fit_labels([names, [f"{name[0]}{name.split()[-1]}" for name in names]], room, 0.3)
    for label, members in zip(labels, layout.domains.values(), strict=True):
        middle = (layout.at[members[0]][0] + layout.at[members[-1]][0]) / 2
        ax.text(middle, layout.floor - 0.15, label, fontsize=font, ha="center", va="top")
    for row in layout.rows:
        boxed = row.nodes if row.kind == "switch" else []
        chassis = layers.grouped(boxed, lambda node: layout.graph.nodes[node]["chassis"])
        for members in (nodes for nodes in chassis.values() if len(nodes) > 1):
            (left, y), width = layout.at[members[0]], row.slot * (len(members) - 0.16)
            _box(ax, scale, left - 0.42 * row.slot, y - 0.32, width, 0.64, **_SHARED_SWITCH)


def _pods(layout: layers.FabricLayout, ax: plt.Axes, scale: _Scale, name: str) -> None:
    """Dashed boxes around what hangs together below the top tier, with their names between the highest switches."""
    import networkx as nx

    top = max(layout.at.values(), key=itemgetter(1))[1]
    below = layout.graph.subgraph(node for node, (_, y) in layout.at.items() if y < top)
    for number, members in enumerate(nx.connected_components(below), start=1):
        xs, ys = zip(*(layout.at[node] for node in members), strict=True)
        low, high = layout.floor - 0.55, max(ys) + 0.4
        frame: dict[str, Any] = {"facecolor": "none", "edgecolor": _TOP, "linestyle": "--"}
        _box(ax, scale, min(xs) - 0.62, low, max(xs) - min(xs) + 1.24, high - low, **frame)
        middle = (min(xs) + max(xs)) / 2
        ax.text(middle, max(ys), f"{name} {number}", fontsize=_TEXT, ha="center", va="center", weight="bold")


def _box_of_planes(layout: layers.FabricLayout, ax: plt.Axes, scale: _Scale, text: str) -> None:
    """A frame around the switches of all planes, chips of one box, with a text in its middle."""
    rows = [row for row in layout.rows if row.kind == "switch"]
    if not text or len(layout.planes) < 2 or any(len(row.nodes) > 1 for row in rows):
        return
    places = [layout.at[row.nodes[0]] for row in rows]
    left, right, y = min(x for x, _ in places) - 1, max(x for x, _ in places) + 1, places[0][1]
    _box(ax, scale, left, y - 0.32, right - left, 0.64, **_SHARED_SWITCH)
    ax.text((left + right) / 2, y, text, fontsize=_TEXT, ha="center", va="center")


def _edges(layout: layers.FabricLayout, ax: plt.Axes, scale: _Scale, changes: _Changes) -> None:
    graph, groups = layout.graph, dict[tuple, list]()
    for a, b, at in graph.edges(data=True):
        edge, lower, upper = frozenset((a, b)), *sorted((a, b), key=lambda node: graph.nodes[node]["tier"])
        if changes.dead & edge or (edge in changes.lost and at["links"] <= 1):
            key: tuple = (_FAINT, (0, (3, 2)), 0.7, 1)
        elif at["kind"] == "hb":
            key = (_FAINT, "-", 0.8 * scale.width(1), 1)
        else:
            colour = _MIDDLE
            if graph.nodes[upper]["rail"] or at["kind"] == "host":
                colour = scale.colours[upper if graph.nodes[upper]["rail"] else lower].replace(_TOP, _MIDDLE)
            line = _DASHES[((graph.nodes[upper]["plane"] or 1) - 1) % len(_DASHES)]
            key = (colour, line, *((_BOLD, 3) if edge in changes.new else (scale.width(at["links"]), 2)))
        groups.setdefault(key, []).append(layout.path(a, b, scale.half))
    for (colour, line, width, layer), paths in groups.items():
        style = {"colors": colour, "linestyles": line, "linewidths": width, "zorder": layer}
        # Dense meshes as pixels: an SVG of every arc would pass 1 MB.
        dense = sum(map(len, paths)) > 1000
        ax.add_collection(LineCollection(paths, rasterized=dense, **style), autolim=False)
    moved = {node for edge in changes.new for node in edge if graph.nodes[node]["kind"] == "gpu"}
    failed = sorted(sorted(edge) for edge in changes.lost if not edge & moved)
    _crosses(ax, [[(layout.at[a][i] + layout.at[b][i]) / 2 for i in (0, 1)] for a, b in failed])


def _crosses(ax: plt.Axes, points: Sequence) -> None:
    for colour, width in (("white", 4.0), (_FAILED, 2.0)) if points else ():
        xs, ys = zip(*points, strict=True)
        ax.scatter(xs, ys, marker="x", s=60, color=colour, linewidths=width, zorder=7)


def _routes(layout: layers.FabricLayout, ax: plt.Axes, scale: _Scale, routes: Mapping[str, Sequence[str]]) -> list:
    """Routes as black lines with arrows on a bright band, and their handles for the legend."""
    handles = []
    arrow = {"arrowstyle": "-|>", "color": "black", "linewidth": 0, "shrinkA": 0, "shrinkB": 0}
    for i, (label, nodes) in enumerate(routes.items()):
        band = [Stroke(linewidth=6 - 1.2 * i, foreground=ROUTES[i % len(ROUTES)]), Normal()]
        style: dict[str, Any] = {"color": "black", "linewidth": 1.2, "linestyle": _DASHES[i % 3], "path_effects": band}
        paths = [layout.path(a, b, scale.half) for a, b in pairwise(nodes)]
        ax.plot(*zip(*chain(*paths), strict=True), **style, solid_joinstyle="round", zorder=4)
        for path in paths:
            a, b = path[(len(path) - 1) // 2 : (len(path) - 1) // 2 + 2]
            near = (0.45 * a[0] + 0.55 * b[0], 0.45 * a[1] + 0.55 * b[1])
            ax.annotate("", near, a, arrowprops=arrow, zorder=5)
        _number_hops(layout, ax, nodes, paths)
        handles.append(plt.Line2D([], [], label=label, **style))
    return handles


def _number_hops(layout: layers.FabricLayout, ax: plt.Axes, nodes: Sequence[str], paths: Sequence) -> None:
    """Numbers in circles where the hops of a route begin that GPUs forward; paths: of its edges."""
    starts = [i for i, node in enumerate(nodes[:-1]) if layout.graph.nodes[node]["kind"] == "gpu"]
    circle = {"boxstyle": "circle,pad=0.15", "facecolor": _WHITE, "edgecolor": "black", "linewidth": 0.8}
    for number, i in enumerate(starts, start=1) if len(starts) > 1 else ():
        (xa, ya), (xb, yb) = paths[i][0], paths[i][1]
        place = (0.72 * xa + 0.28 * xb, 0.72 * ya + 0.28 * yb)
        ax.text(*place, str(number), fontsize=8, ha="center", va="center", bbox=circle, zorder=7)


def _labels(row: layers.NodeRow, x: float) -> _Labels:
    """How a row is labelled; x: points to a GPU width."""
    padding = {"ocs": 1.3, "gpu": 0.6}.get(row.kind, 0.8)
    texts, font, all_fit = layers.fit_labels(row.texts, x * row.slot, padding)
    if not all_fit:
        side = min(0.85 * x * row.slot, 9.0)
        return _Labels(texts, font, False, side, side)
    wide = max(text_outline(text, font)[1] for text in texts) + (padding - 0.1) * font
    return _Labels(texts, font, True, wide, 1.5 * font)


def _row(layout: layers.FabricLayout, ax: plt.Axes, scale: _Scale, row: layers.NodeRow, dead: frozenset) -> None:
    """Nodes of a row, each with its label in a box; where not all labels fit, marks with some labels above them."""
    labels, places = scale.labels[row.nodes[0]], [layout.at[node] for node in row.nodes]
    paints = [_paint(row.kind, scale.colours[node], node in dead, labels.all_fit) for node in row.nodes]
    edges, faces, inks, dashes = (list(row) for row in zip(*paints, strict=True))
    style: dict[str, Any] = {"facecolors": faces, "edgecolors": edges, "linestyles": dashes, "zorder": 5}
    symbol = _symbol(row.kind, labels.wide, labels.high)
    draw_marks(ax, [symbol], places, linewidths=2.0 if row.kind == "ocs" else 0.7, **style)
    if labels.all_fit or row.kind != "gpu":
        shift = 0.0 if labels.all_fit else labels.high / 2 + 0.7 * labels.font
        alike = layers.grouped(range(len(places)), labels.texts.__getitem__)
        alike.pop("", None)
        recur = 2 * len(alike) <= len(labels.texts)
        # Labels that recur, as GPUs' numbers do, are an artist each: an SVG then stores their outline once.
        for mine in alike.values() if recur else [sorted(chain(*alike.values()))]:
            outlines = [text_outline(labels.texts[i], labels.font)[0] for i in (mine[:1] if recur else mine)]
            ours: dict[str, Any] = {"facecolors": [inks[i] for i in mine], "linewidths": 0, "zorder": 6}
            draw_marks(ax, outlines, [places[i] for i in mine], shift, **ours)
    _crosses(ax, [place for place, node in zip(places, row.nodes, strict=True) if node in dead])


def _paint(kind: str, colour: str, dead: bool, labelled: bool) -> tuple[str, str, str, str]:
    """Colours of a node's edge, face and label, and the style of its edge."""
    if dead:
        return _FAINT, _WHITE, _FAINT, "--"
    face = _WHITE if kind in ("ocs", "hb") else colour
    return colour if kind in ("gpu", "ocs") else _TOP, face, ink_on(face) if labelled else "#000000", "-"


@cache
def text_outline(text: str, font: float, bold: bool = False) -> tuple[Path, float]:
    """Outline of a text around its middle, and its width [typographic points]; font: size [points]."""
    if not text:
        return Path([(0.0, 0.0)]), 0.0
    path = TextPath((0, 0), text, size=font, prop=FontProperties(weight="bold") if bold else None)
    xs = path.vertices[path.codes != Path.CLOSEPOLY, 0]  # get_extents solves for every curve: 100 times as long
    middle = [(xs.min() + xs.max()) / 2, 0.365 * font]  # half the height of digits and capitals
    return Path(path.vertices - middle, path.codes), xs.max() - xs.min()


def draw_marks(ax: plt.Axes, paths: Sequence[Path], places: Sequence, shift: float = 0.0, **style) -> None:
    """Draw paths around places as one artist.

    Parameters
    ----------
    ax
        Where to draw; the marks leave its limits alone.
    paths, places
        Paths [points], one for all or one for each place; places in the data's coordinates.
    shift
        How many points higher to draw them.
    **style
        Of matplotlib's PathCollection.

    Returns
    -------
    Nothing.
    """
    marks = PathCollection(paths, offsets=places, offset_transform=ax.transData, **style)
    marks.set_transform(Affine2D().translate(0, shift).scale(1 / 72) + ax.figure.dpi_scale_trans)
    ax.add_collection(marks, autolim=False)


def _symbol(kind: str, wide: float, high: float) -> Path:
    """Square for GPUs, ellipse for optical circuit switches, round box for other switches [points]."""
    if kind == "ocs":
        return Path.unit_circle().transformed(Affine2D().scale(0.55 * wide, 0.6 * high))
    corner = 0.0 if kind == "gpu" else 0.15 * high
    return BoxStyle.Round(pad=0, rounding_size=corner)(-wide / 2, -high / 2, wide, high, 1.0)


def _legend(layout: layers.FabricLayout, scale: _Scale, changes: _Changes) -> list:
    """Handles for widths of trunks, faults, moved links and shared switches, where there are any."""
    counts = sorted({at["links"] for *_, at in layout.graph.edges(data=True) if at["kind"] != "hb"})
    handles: list = []
    for links in counts if counts[-1:] > [1] else []:
        label = f"{links} link{'s' * (links > 1)}"
        handles.append(plt.Line2D([], [], color=_TOP, linewidth=scale.width(links), label=label))
    if changes.dead or changes.lost:
        cross: dict[str, Any] = {"marker": "x", "markersize": 7, "markeredgewidth": 2, "linestyle": "none"}
        handles.append(plt.Line2D([], [], color=_FAILED, label="failed", **cross))
    if changes.new:
        handles.append(plt.Line2D([], [], color=_TOP, linewidth=_BOLD, label="moved by an optical switch"))
    chassis = [at["chassis"] for _, at in layout.graph.nodes(data=True) if at["kind"] == "switch"]
    if len(set(chassis)) < len(chassis):
        handles.append(Patch(label="one switch, its rails in VLANs", **_SHARED_SWITCH))
    return handles
