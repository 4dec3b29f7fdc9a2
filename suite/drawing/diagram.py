"""Block diagrams in one style: boxes that hold text, links with labels, enclosures. Places are in inches of the page.

    page = Diagram(8, 3)
    host = page.enclosure(0.1, 0.1, 3, 2.8, "Host 1")
    gpu = page.box(0.3, 1.6, 1.2, 0.5, "GPU 1", kind="gpu")
    nic = page.box(0.3, 0.4, 1.2, 0.5, "NIC\n400 Gbps", kind="nic")
    page.link([gpu.edge("bottom"), nic.edge("top")], label="63 GB/s")
    page.figure

Text never leaves its box: it shrinks down to `LEAST_FONT`, and what does not fit then is refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.lines import Line2D
from matplotlib.patches import FancyBboxPatch, Patch

from suite.colours import ALERT as ALERT
from suite.colours import PARTS, VERDICTS
from suite.drawing.symbols import draw_marks, text_outline
from suite.plotting import VERDICT_WORDS, ink_on

LEAST_FONT = 6.0  # points
INK, EDGE, FAINT = "#222222", "#4D4D4D", "#9A9A9A"
KINDS = PARTS  # face of a box
_CORNER: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=0.04"}
_SIDES = {"left": (0.0, None), "right": (1.0, None), "bottom": (None, 0.0), "top": (None, 1.0)}
_LINE = 1.28  # height of a line of text over its font size
_PADDING = 4.0  # points beside a text, both sides together
_BOLD = 1.13  # width of bold letters over plain ones


@dataclass(frozen=True)
class Box:
    """A rectangle on the page [inches]."""

    left: float
    bottom: float
    width: float
    height: float

    @property
    def place(self) -> tuple[float, float, float, float]:
        """Left, bottom, width and height: `page.box(*box.place, text)` draws it."""
        return self.left, self.bottom, self.width, self.height

    @property
    def right(self) -> float:
        """Its right side."""
        return self.left + self.width

    @property
    def top(self) -> float:
        """Its upper side."""
        return self.bottom + self.height

    @property
    def middle(self) -> tuple[float, float]:
        """Its middle."""
        return self.left + self.width / 2, self.bottom + self.height / 2

    def edge(self, side: str, share: float = 0.5) -> tuple[float, float]:
        """A point of a side (left, right, bottom, top), `share` of the way along it from the left or the bottom."""
        x, y = (share if at is None else at for at in _SIDES[side])
        return self.left + x * self.width, self.bottom + y * self.height

    def cells(self, columns: int, rows: int = 1, gap: float = 0.06) -> list["Box"]:
        """Equal boxes inside, row by row from the upper left; gap between and around them [inches]."""
        wide = (self.width - 2 * gap - (columns - 1) * gap) / columns
        high = (self.height - 2 * gap - (rows - 1) * gap) / rows
        return [
            Box(self.left + gap + i * (wide + gap), self.top - gap - high - j * (high + gap), wide, high)
            for j in range(rows)
            for i in range(columns)
        ]


@dataclass
class Diagram:
    """A page [inches] to draw on; `figure` and `ax` are matplotlib's."""

    width: float
    height: float
    title: str = ""
    figure: plt.Figure = field(init=False)
    ax: plt.Axes = field(init=False)

    def __post_init__(self) -> None:
        self.figure = plt.figure(figsize=(self.width, self._page_height), layout="none")
        self.ax = self.figure.add_axes((0.0, 0.0, 1.0, 1.0))
        self.ax.set(xlim=(0, self.width), ylim=(0, self._page_height))
        self.ax.axis("off")
        if self.title:
            place = {"x": 0.08 / self.width, "y": (self.height + 0.13) / self._page_height}
            self.figure.suptitle(self.title, **place, fontsize=10, weight="bold", color=INK, ha="left", va="center")

    @property
    def _page_height(self) -> float:
        """With the line of the title."""
        return self.height + 0.3 * bool(self.title)

    def box(
        self,
        left: float,
        bottom: float,
        width: float,
        height: float,
        text: str = "",
        kind: str = "plain",
        face: str = "",
        font: float = 8.0,
        **style: Any,
    ) -> Box:
        """A box with its text in the middle.

        Parameters
        ----------
        left, bottom, width, height
            Place on the page [inches]; `*box.place` of a Box gives all four.
        text, font
            Lines of text; their size, which shrinks until they fit [points].
        kind, face
            One of KINDS, or the colour of the face, such as `rail_colour(rail)`.
        **style
            Of the patch, such as linestyle or edgecolor; weight="bold" and family="monospace" of the text.

        Returns
        -------
        The box, for links to its edges.

        Raises
        ------
        ValueError
            The text does not fit at `LEAST_FONT`.
        """
        box, face = Box(left, bottom, width, height), face or KINDS[kind]
        words: dict[str, Any] = {name: style.pop(name) for name in ("weight", "family") if name in style}
        look: dict[str, Any] = {"facecolor": face, "edgecolor": EDGE, "linewidth": 0.8, "zorder": 3, **style}
        # as an artist: the limits of the axes are set, and need not be found
        self.ax.add_artist(FancyBboxPatch((left, bottom), width, height, **_CORNER, **look))
        if text:
            self.label(box, text, font, color=ink_on(face), zorder=look["zorder"] + 1, **words)
        return box

    def boxes(self, places: Sequence[Box], faces: Sequence[str], edges: Sequence[str]) -> None:
        """Many boxes without text as one artist, which is drawn several times as fast; their faces and edges."""
        rounded = [FancyBboxPatch((box.left, box.bottom), box.width, box.height, **_CORNER) for box in places]
        look: dict[str, Any] = {"facecolors": faces, "edgecolors": edges, "linewidths": 0.8, "zorder": 3}
        self.ax.add_collection(PatchCollection(rounded, **look), autolim=False)

    def label(self, box: Box, text: str, font: float = 8.0, **style: Any) -> None:
        """A text in the middle of a box that is drawn already.

        Parameters
        ----------
        box
            Where to write.
        text, font
            Lines of text; their size, which shrinks until they fit [points].
        **style
            Of matplotlib's text.

        Returns
        -------
        Nothing.

        Raises
        ------
        ValueError
            The text does not fit at `LEAST_FONT`.
        """
        words: dict[str, Any] = {name: style[name] for name in ("weight", "family") if name in style}
        self.text(*box.middle, text, self.fitted(text, font, box, words), **{"linespacing": 1.15, **style})

    def lines(
        self, rows: Iterable[tuple[float, float, str, float, str]], left: bool = False, bold: bool = False
    ) -> None:
        """Many lines of text as one artist, which is drawn several times as fast.

        rows: x and y of a line's middle, or where it begins if `left` [inches]; text, its size [points], and colour.
        """
        rows = [row for row in rows if row[2]]
        outlines, places, inks = [], [], []
        for x, y, text, font, ink in rows:
            outline, wide = text_outline(text, font, bold)
            outlines.append(outline)
            places.append((x + left * wide / 144, y))
            inks.append(ink)
        if outlines:
            words = "\n".join(row[2] for row in rows)  # for whoever reads the artists
            draw_marks(self.ax, outlines, places, facecolors=inks, linewidths=0, zorder=6, label=words)

    def links(
        self, lines: Sequence, colours: str | Sequence[str], widths: float | Sequence[float], zorder: int = 2
    ) -> None:
        """Many lines as one artist, which is drawn several times as fast.

        Parameters
        ----------
        lines
            Points of each [inches].
        colours, widths
            Of each, or one for all; widths in points.
        zorder
            Matplotlib's: lines of a higher one cover those of a lower one.

        Returns
        -------
        Nothing.
        """
        look: dict[str, Any] = {"colors": colours, "linewidths": widths, "zorder": zorder}
        self.ax.add_collection(LineCollection(lines, **look), autolim=False)

    def enclosure(self, left: float, bottom: float, width: float, height: float, name: str = "", **style: Any) -> Box:
        """A pale box behind others.

        Parameters
        ----------
        left, bottom, width, height
            Place on the page [inches].
        name
            Text in its upper left.
        **style
            Of the patch.

        Returns
        -------
        The box.
        """
        look = {"facecolor": "#F6F6F6", "edgecolor": FAINT, "zorder": 0, **style}
        box = self.box(left, bottom, width, height, **look)
        if name:
            inside = Box(left, bottom, width, 0.24)
            font = self.fitted(name, 8.0, inside)
            self.text(left + 0.07, bottom + height - 0.12, name, font=font, ha="left", zorder=look["zorder"] + 1)
        return box

    def text(self, x: float, y: float, text: str, font: float = 8.0, **style: Any) -> None:
        """A text around a point.

        Parameters
        ----------
        x, y
            The point [inches].
        text, font
            What to write, and its size [points].
        **style
            Of matplotlib's text.

        Returns
        -------
        Nothing.
        """
        self.ax.text(
            x, y, text, **{"fontsize": font, "ha": "center", "va": "center", "color": INK, "zorder": 6, **style}
        )

    def document_text(self, left: float, y: float, said: str, verdict: str, **style: Any) -> None:
        """What the document has, in the verdict's colour, and the verdict unless it is reproduced.

        Parameters
        ----------
        left, y
            Where the text begins, and its middle [inches].
        said, verdict
            The document's numbers in words, and our verdict on them; "" for nothing.
        **style
            Of matplotlib's text.

        Returns
        -------
        Nothing.
        """
        if not said:
            return
        words = "" if verdict == "reproduced" else f"; {VERDICT_WORDS[verdict]}"
        look: dict[str, Any] = {"ha": "left", "color": VERDICTS[verdict], "style": "italic", "linespacing": 1.25}
        self.text(left, y, f"document: {said}{words}", **look | style)

    def link(
        self,
        points: Sequence[tuple[float, float]],
        colour: str = EDGE,
        label: str = "",
        arrow: str = "",
        at: float = 0.5,
        font: float = 8.0,
        **style: Any,
    ) -> None:
        """A line through points, with an arrow head or two, and a label on a white ground.

        Parameters
        ----------
        points
            Two or more places [inches], such as `box.edge("top")`.
        colour
            Of the line.
        label, at, font
            Text on the line, how far along the line it stands (0 to 1), and its size [points].
        arrow
            "", "->" or "<->".
        **style
            Of the line, such as linewidth, linestyle and zorder.

        Returns
        -------
        Nothing.
        """
        look: dict[str, Any] = {"color": colour, "linewidth": 1.0, "solid_joinstyle": "round", "zorder": 2, **style}
        xs, ys = zip(*points, strict=True)
        self.ax.add_artist(Line2D(xs, ys, **look))
        head = {"arrowstyle": "-|>", "color": colour, "linewidth": 0, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 9}
        for tip, tail in ((points[-1], points[-2]), (points[0], points[1]))[: arrow.count("<") + arrow.count(">")]:
            self.ax.annotate("", tip, tail, arrowprops=head, zorder=look["zorder"])
        if label:
            ground = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
            x, y = _along(points, at)
            self.text(x, y, label, font, bbox=ground, zorder=max(5, look["zorder"] + 1))

    def legend(self, entries: Iterable[tuple[str, str]], left: float, bottom: float) -> None:
        """Names and colours, side by side: entries from a place on the page [inches]."""
        handles = [Patch(facecolor=colour, edgecolor=EDGE, linewidth=0.6, label=name) for name, colour in entries]
        place = (left / self.width, bottom / self._page_height)
        self.ax.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=place,
            ncols=len(handles),
            fontsize=8,
            handlelength=1.2,
            columnspacing=1.2,
            borderaxespad=0.0,
        )

    def fitted(self, text: str, font: float, box: Box, words: Mapping[str, Any] | None = None) -> float:
        """Size at which a text fits a box.

        Parameters
        ----------
        text, font
            Lines of text, and their size where there is room [points].
        box
            Where they shall stand.
        words
            Of matplotlib's text: weight and family.

        Returns
        -------
        The size [points].

        Raises
        ------
        ValueError
            It is below `LEAST_FONT`.
        """
        lines, room = text.split("\n"), 72 * box.width - _PADDING
        wide = max(_width(line, words or {}) for line in lines)
        size = min(font, room / wide, (72 * box.height - 1) / (_LINE * len(lines)))
        if size < LEAST_FONT:
            need = (LEAST_FONT * wide + _PADDING) / 72, (LEAST_FONT * _LINE * len(lines) + 1) / 72
            raise ValueError(
                f"text {text!r} does not fit {box.width:.2f} x {box.height:.2f} inches: "
                f"give {need[0]:.2f} x {need[1]:.2f} or more"
            )
        return size


def _width(line: str, words: Mapping[str, Any]) -> float:
    """Width of a line of text over its font size."""
    if words.get("family") == "monospace":
        return 0.61 * max(len(line), 1)
    return max(text_outline(line, 10.0)[1], 1.0) / 10 * (_BOLD if words.get("weight") == "bold" else 1.0)


def _along(points: Sequence[tuple[float, float]], share: float) -> tuple[float, float]:
    """The point at a share of the way along a line."""
    steps = [((b[0] - a[0]) ** 2 + (b[1] - a[1]) ** 2) ** 0.5 for a, b in pairwise(points)]
    left = share * sum(steps)
    for (a, b), step in zip(pairwise(points), steps, strict=True):
        if left <= step and step:
            return a[0] + (b[0] - a[0]) * left / step, a[1] + (b[1] - a[1]) * left / step
        left -= step
    return points[-1]
