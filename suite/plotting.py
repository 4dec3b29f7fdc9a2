"""House style, and what charts share: colours, axes, panels, lines. From railcore this imports `catalog` alone."""

import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from cycler import cycler
from matplotlib.axis import Axis, XAxis, YAxis
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogLocator, NullLocator
from numpy.typing import ArrayLike

from railcore.catalog.colours import COLOURS, PASSES, TRAFFIC, network_colour
from railcore.catalog.colours import GREY as GREY
from railcore.catalog.colours import NETWORKS as NETWORKS
from railcore.catalog.units import number
from suite.colours import FUELS, LINKS, TRANSPORTS, VERDICTS

MARKERS = "o^vP*<>p"
VERDICT_MARKERS = dict(zip(VERDICTS, "DsX", strict=True))  # MARKERS of lines has none of them
_THINGS = TRAFFIC | PASSES | LINKS | TRANSPORTS | FUELS


def house_style() -> None:
    """Set fonts, colours and sizes for this process: the same picture in a notebook, a PNG and an SVG."""
    mpl.rcdefaults()
    mpl.rc("font", family="DejaVu Sans", size=10)
    mpl.rc("axes", prop_cycle=cycler(color=COLOURS), grid=True, axisbelow=True)
    mpl.rc("axes.spines", top=False, right=False)
    mpl.rc("grid", color="#E3E3E3")
    mpl.rc("legend", frameon=False)
    mpl.rc("figure", dpi=100)
    mpl.rc("figure.constrained_layout", use=True)
    mpl.rc("svg", hashsalt="railcore")
    mpl.rc("text", parse_math=False)  # a name with two $ is no formula
    if (shell := sys.modules.get("IPython")) and shell.get_ipython():
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("png", bbox_inches=None)  # the picture as saved; a tight box draws it once more
    pd.set_option("display.max_colwidth", None, "display.max_rows", 200)


def heat_colours() -> mpl.colors.Colormap:
    """Colours of every heat map: dark is high, and the palest still differs from the white of no value."""
    return mpl.colors.ListedColormap(mpl.colormaps["cividis_r"](np.linspace(0.2, 1, 256)))


def percent(share: float, digits: int = 3) -> str:
    """A share as text: percent(0.375) = "37.5%"."""
    return f"{number(100 * share, digits)}%"


def percent_axis(axis: Axis, label: str = "") -> None:
    """Shares on an axis, written as percent; label: of the axis, by default as it is."""
    axis.set_major_formatter(lambda share, _: percent(share))
    if label:
        axis.set_label_text(label)


def log_axis(
    axis: XAxis | YAxis, values: Iterable[float] = (), base: int = 10, text: Callable = number, **style
) -> None:
    """A logarithmic axis with numbers written out and without minor ticks.

    Parameters
    ----------
    axis
        Of axes that hold their data already.
    values
        Where the ticks are; by default at the powers of the base, and over few decades at 2 and 5 times them too.
    base, text
        Base of the logarithm; text of a tick's value.
    **style
        Of the ticks' texts, such as rotation.

    Returns
    -------
    Nothing: the axis is changed.
    """
    getattr(axis.axes, f"set_{axis.axis_name}scale")("log", base=base)
    if values := list(values):
        axis.set_ticks(values, [text(value) for value in values], **style)
    else:
        low, high = axis.get_view_interval()
        room = 300 if axis.axis_name == "x" else 1e4
        axis.set_major_locator(LogLocator(base, subs=(1, 2, 5) if base == 10 and high < room * low else (1,)))
        axis.set_major_formatter(lambda value, _: text(value))
    axis.set_minor_locator(NullLocator())


def gpu_axis(ax: plt.Axes, counts: Sequence[int]) -> plt.Axes:
    """A logarithmic x axis of GPU counts with each count written out."""
    log_axis(ax.xaxis, counts, 2, rotation=45, ha="right")
    ax.set_xlabel("GPUs")
    return ax


def ratio_axis(ax: plt.Axes, ratios: Iterable[float], label: str, **style) -> None:
    """A logarithmic x axis of oversubscriptions, written as 4:1.

    Parameters
    ----------
    ax, ratios, label
        Axes, where the ticks are, and the axis' label.
    **style
        Of the ticks' texts, such as rotation.

    Returns
    -------
    Nothing: the axis is changed.
    """
    log_axis(ax.xaxis, ratios, text=lambda ratio: f"{number(ratio)}:1", **style)
    ax.set_xlabel(label)


def text_beside(ax: plt.Axes, text: str, at: tuple, shift: tuple[float, float] = (0, 0), **style) -> None:
    """A text beside a place of the axes.

    Parameters
    ----------
    ax, text
        Where to write, and what.
    at, shift
        The place in the data's coordinates, and how far from it the text is [points].
    **style
        Of matplotlib's annotation.

    Returns
    -------
    Nothing.
    """
    ax.annotate(text, at, shift, textcoords="offset points", **style)


def panel_title(ax: plt.Axes, title: str, left: bool = False) -> None:
    """A small title of one of several panels, in the middle or on the left."""
    ax.set_title(title, fontsize=10, loc="left" if left else "center", y=1 if left else None)


def model_name(title: str) -> str:
    """A title that begins with "moe", as claims name a mixture of experts, with these words in its place."""
    return title.replace("moe", "mixture of experts", 1) if title.startswith("moe") else title


def panels(
    data: pd.DataFrame, by: str, size: tuple[float, float], least: float = 0.0, **options
) -> tuple[plt.Figure, list[tuple]]:
    """A figure with a panel for each value of a column, side by side.

    Parameters
    ----------
    data, by
        Table, and the column whose values get a panel each, in the order in which they appear.
    size
        Width and height of a panel [inches].
    least
        Least width of the figure [inches].
    **options
        Of `matplotlib.pyplot.subplots`.

    Returns
    -------
    The figure, and (value, its rows, axes) for each panel.
    """
    parts = list(data.groupby(by, sort=False))
    width = max(size[0] * len(parts), least)
    figure, axes = plt.subplots(1, len(parts), figsize=(width, size[1]), squeeze=False, **options)
    return figure, [(value, part, ax) for (value, part), ax in zip(parts, axes.flat, strict=True)]


def legend_below(figure: plt.Figure, ax: plt.Axes | Iterable[plt.Axes], columns: int = 0, **options) -> None:
    """One legend for the whole figure, below it.

    Parameters
    ----------
    figure, ax
        The figure, and the axes, one or several, whose lines, bars and areas the legend names, each name once.
    columns
        Of the legend; by default all is in one row.
    **options
        Of matplotlib's legend, such as its title.

    Returns
    -------
    Nothing.
    """
    named: dict = {}
    for axes in np.ravel(np.array(ax, dtype=object)):
        named |= {label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend([*named.values()], [*named], loc="outside lower center", ncols=columns or len(named), **options)


_DOCUMENT: dict = {"linestyle": "none", "markerfacecolor": "none", "markeredgewidth": 1.6, "markersize": 9, "zorder": 5}
HALO = [withStroke(linewidth=3, foreground="white")]  # of texts on lines
VERDICT_WORDS = {"reproduced": "reproduced", "close": "close (ours within 10%)", "differs": "ours differs"}


def document_marks(
    ax: plt.Axes,
    x: ArrayLike,
    y: ArrayLike,
    verdict: ArrayLike = "reproduced",
    relation: str = "=",
    axis: str = "y",
    text: str = "",
    shift: tuple[float, float] = (9, 0),
    **look,
) -> None:
    """Hollow marks where the document has numbers: shape and colour say our verdict, as everywhere in the suite.

    Parameters
    ----------
    ax
        Where to draw; its legend names the marks of each verdict, once.
    x, y
        Places in the data's coordinates.
    verdict
        Of the ledger (`claims.marks`), for each mark or for all.
    relation, axis
        A bound ("<" or ">") has an arrow along the axis of the values, to those that the document allows.
    text, shift
        Beside each mark, in its colour: what the document has, and how far from it [points].
    **look
        Of matplotlib's line, such as another size or the document's name as `label`.

    Returns
    -------
    Nothing.
    """
    x, y, verdict = np.broadcast_arrays(np.atleast_1d(x), np.atleast_1d(y), np.atleast_1d(verdict))
    length = {"<": -20, ">": 20}.get(relation, 0)
    for judged, colour in VERDICTS.items():
        if not (here := verdict == judged).any():
            continue
        name = verdict_label(judged, look.get("label", "document"))
        style = _DOCUMENT | {"marker": VERDICT_MARKERS[judged], "markeredgecolor": colour} | look
        ax.plot(x[here], y[here], **style | {"label": "_" if name in ax.get_legend_handles_labels()[1] else name})
        for place in zip(x[here], y[here], strict=True):
            if length:
                line: dict = {"arrowstyle": "<-", "color": colour, "linewidth": 1.4, "shrinkA": 0, "shrinkB": 5}
                text_beside(ax, "", place, (length, 0) if axis == "x" else (0, length), arrowprops=line)
            if text:
                document_text(ax, text, place, judged, shift)


def document_text(
    ax: plt.Axes, text: str, at: tuple, verdict: str, shift: tuple[float, float] = (0, 0), **style
) -> None:
    """What a document has, beside a place of the axes, in the colour of our verdict, on a white halo.

    Parameters
    ----------
    ax, text
        Where to write, and what.
    at, shift
        The place in the data's coordinates, and how far from it the text is [points]: on that side of it.
    verdict
        Of the ledger.
    **style
        Of matplotlib's annotation.

    Returns
    -------
    Nothing.
    """
    sides = ("right", "center", "left"), ("top", "center", "bottom")
    ha, va = (names[int(np.sign(length)) + 1] for names, length in zip(sides, shift, strict=True))
    look: dict = {"ha": ha, "va": va, "fontsize": 9, "color": VERDICTS[verdict], "path_effects": HALO, "zorder": 6}
    text_beside(ax, text, at, shift, **look | style)


def verdict_label(verdict: str, name: str = "document") -> str:
    """The legend's text of a verdict's marks."""
    return f"{name}: {VERDICT_WORDS[verdict]}"


def colours_of(names: Iterable[str]) -> dict[str, str]:
    """Colour of each name: its own (TRAFFIC, NETWORKS, ...), else the next of the palette that is not taken.

    "NDP, queues of 32" is a variant of NDP and has its colour, "rail-optimized and fat tree" that of the first.
    """
    colours = {
        name: _THINGS.get(name) or network_colour(name, "") or _THINGS.get(name.partition(", ")[0]) for name in names
    }
    free = cycle([colour for colour in COLOURS if colour not in colours.values()] or COLOURS)
    return {name: colour or next(free) for name, colour in colours.items()}


def paler(colour: str, share: float) -> str:
    """A colour mixed with a share of white."""
    red, green, blue = (1 - (1 - share) * (1 - part) for part in mpl.colors.to_rgb(colour))
    return mpl.colors.to_hex((red, green, blue))


def ink_on(face: str) -> str:
    """Black or white, whichever is legible on a colour."""
    return "#FFFFFF" if np.dot(mpl.colors.to_rgb(face), (0.299, 0.587, 0.114)) < 0.55 else "#000000"


def line_style(i: int, style: str = "-", **more) -> dict:
    """Colour and marker of the line number `i`, the same in every chart; markers are hollow after one round of them."""
    marker = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "markersize": 4.5}
    if i >= len(COLOURS):
        marker |= {"markerfacecolor": "white", "marker": MARKERS[(i + 3) % len(MARKERS)]}
    return {**marker, "linestyle": style, **more}


def plot_lines(
    data: pd.DataFrame,
    x: str,
    y: str,
    group: str,
    ax: plt.Axes,
    order: Sequence | None = None,
    label: str = "{}",
    nested: bool = False,
) -> plt.Axes:
    """One line with markers for each value of a column; every other one is dashed.

    seaborn's lineplot gives the same, but importing and calling it costs a notebook 1 s of CPU.

    Parameters
    ----------
    data, x, y
        Table and its columns along the axes.
    group, order
        Column with a line for each value; the values in the order of their colours, by default as they appear.
    ax
        Where to draw.
    label
        Text of a line in the legend, around its value.
    nested
        Draw a line broader for each later one that covers half of its points or more, so that both are seen.

    Returns
    -------
    The axes.
    """
    order = list(data[group].unique() if order is None else order)
    colours = colours_of(map(str, order))
    points = [data.loc[data[group] == value, [x, y]].to_numpy(float) for value in order]
    for i, (value, drawn) in enumerate(zip(order, points, strict=True)):
        over = points[i + 1 :] if nested else []
        broader = sum(2 * _shared_points(drawn, later) >= len(drawn) for later in over)
        look: dict = {"linewidth": 1.5 + 1.8 * broader, "markersize": 4.5 + 3.5 * broader}
        name = label.format(value if isinstance(value, str) else number(value))
        ax.plot(*drawn.T, **line_style(i, ("-", "--")[i % 2], label=name, color=colours[str(value)], **look))
    return ax


def _shared_points(one: np.ndarray, other: np.ndarray) -> int:
    """How many points (rows of x and y) two lines have in common."""
    return int(np.isclose(one[:, None], other, rtol=1e-6, atol=0).all(axis=-1).sum())
