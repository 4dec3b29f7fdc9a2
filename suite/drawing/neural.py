"""Neural networks on GPUs as diagrams: layers in a chain, a weight matrix split by rows, a gather step by step."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.patches import Circle

from railcore.catalog.units import number
from suite.colours import PARTS
from suite.drawing.diagram import EDGE, FAINT, Box, Diagram
from suite.plotting import LINKS

_PARTS = tuple(PARTS[name] for name in ("gpu", "nic", "pcie", "hb", "alert", "switch", "storage", "plain"))
_GPU, _INPUT = PARTS["gpu around"], PARTS["storage"]
_PAGE = 10.0  # width of a page [inches]
_RADIUS, _LINE = 0.17, 0.135  # of a neuron, of a line of text [inches]
_FONT = 8.0  # points
_DIGITS = 3


def chain_diagram(
    neurons: pd.DataFrame,
    transfers: pd.DataFrame,
    inputs: Sequence[str] = (),
    result: str = "",
    title: str = "",
    key: Sequence[str] = (),
) -> plt.Figure:
    """Layers on GPUs side by side, their neurons with edges and numbers, and what GPUs send to each other below them.

    Parameters
    ----------
    neurons
        Columns gpu, node ("" for none drawn), heading (of the GPU), neuron (its name) and text (below it), a row for
        each neuron.
    transfers
        Columns source, target (of gpu), link and text.
    inputs, result
        Texts of the inputs before the first GPU, such as "x1 = 0.7", and of the box behind the last.
    title, key
        Of the page, and lines that explain its symbols.

    Returns
    -------
    The figure.
    """
    gpus = neurons.drop_duplicates("gpu")
    left, right = 0.75 if len(inputs) else 0.1, 1.3 if result else 0.1
    wide, drawn = (_PAGE - left - right) / len(gpus), bool((gpus["node"] != "").any())
    high = 2 * _RADIUS + _LINE * int(neurons["text"].str.count("\n").max() + 1) + 0.2
    deepest = _LINE * int(transfers["text"].str.count("\n").max() + 1) if len(transfers) else 0.0
    foot = 0.1 + _LINE * len(key) + 0.25 * bool(set(transfers["link"]) & set(LINKS))
    band = foot + (0.55 + 2 * deepest if drawn else 0.25 + deepest)
    tall = 0.3 + max(neurons.groupby("gpu").size().max(), len(inputs)) * high
    page = Diagram(_PAGE, band + tall + (0.42 if drawn else 0.08), title)
    frames: dict[str, Box] = {}
    before = [(0.32, band + (tall - 0.3) - (i + 0.5) * (tall - 0.3) / len(inputs)) for i in range(len(inputs))]
    for name, place in zip(inputs, before, strict=True):
        symbol, _, value = name.partition(" = ")
        _neuron(page, place, symbol, f"= {value}", _INPUT, "#FFFFFF")
    for number_, row in enumerate(gpus.itertuples()):
        frame = (left + number_ * wide + 0.1, band, wide - 0.2, tall)
        frames[row.gpu] = page.enclosure(*frame, row.heading, facecolor=_GPU, zorder=1)
        neurons_here, middle = neurons[neurons["gpu"] == row.gpu], frames[row.gpu].middle[0]
        slot, lift = (
            (tall - 0.36) / len(neurons_here),
            (high - 0.2) / 2 - _RADIUS,
        )  # a circle and its text in the slot's middle
        places = [(middle, band + tall - 0.3 - (i + 0.5) * slot + lift) for i in range(len(neurons_here))]
        page.links([[start, end] for start in before for end in places], FAINT, 0.8)
        for neuron, place in zip(neurons_here.itertuples(), places, strict=True):
            _neuron(page, place, neuron.neuron, neuron.text, "#FFFFFF", _GPU, wide - 0.24)
        before = places
    for node, members in gpus[gpus["node"] != ""].groupby("node", sort=False)["gpu"]:
        first, last = frames[members.iloc[0]], frames[members.iloc[-1]]
        low = band - 0.3 - deepest
        page.enclosure(first.left - 0.06, low, last.right - first.left + 0.12, band + tall + 0.36 - low, node)
    if result:
        middle = band + (tall - 0.3) / 2
        box = page.box(_PAGE - 1.2, middle - 0.55, 1.1, 1.1, result, kind="note", font=_FONT)
        page.links([[start, (box.left, middle)] for start in before], FAINT, 0.8)
    for row in transfers.itertuples():
        level = band - 0.12 - deepest / 2 - (row.link == "scale-out") * drawn * (deepest + 0.28)
        _under(page, frames[row.source], frames[row.target], level, row)
    used = [(name, colour) for name, colour in LINKS.items() if name in set(transfers["link"])]
    if used:
        page.legend(used, 0.12, foot - 0.2)
    for i, line in enumerate(key):
        page.text(0.12, 0.1 + _LINE * (len(key) - i - 0.5), line, font=_FONT, ha="left")
    return page.figure


def _neuron(
    page: Diagram, place: tuple[float, float], name: str, text: str, face: str, ground: str, wide: float = 0.66
) -> None:
    """A circle with its name inside and its numbers below, on a ground that hides the edges behind them."""
    x, y = place
    page.ax.add_artist(Circle(place, _RADIUS, facecolor=face, edgecolor=EDGE, linewidth=0.9, zorder=4))
    page.text(x, y, name, font=_FONT, zorder=7)
    lines = text.count("\n") + 1
    size = page.fitted(text, _FONT, Box(x - wide / 2, y, wide, 0.18 * lines))
    look = {"bbox": {"facecolor": ground, "edgecolor": "none", "pad": 0.5}, "linespacing": 1.12}
    page.text(x, y - _RADIUS - 0.03 - _LINE * lines / 2, text, font=size, zorder=5, **look)


def _under(page: Diagram, source: Box, target: Box, level: float, row) -> None:
    """A transfer as a line below two GPUs, its text on it."""
    away = 0.58 if source.left < target.left else 0.42
    start, end = source.edge("bottom", away), target.edge("bottom", 1 - away)
    points = [start, (start[0], level), (end[0], level), end]
    page.link(points, LINKS.get(row.link, EDGE), label=row.text, arrow="->", font=_FONT, linewidth=1.6, zorder=4)


def split_matrix_diagram(weights: pd.DataFrame, title: str = "") -> plt.Figure:
    """A weight matrix, its rows by GPU, the same input on each GPU, and the part of the output that each computes.

    Columns of weights, a row for each: gpu, neuron, input, value (of the input), weight, output (of the neuron).
    title: of the page.
    """
    faces = dict(zip(weights["gpu"].unique(), _PARTS, strict=False))
    inputs = weights.drop_duplicates("input").set_index("input")["value"]
    outputs = weights.drop_duplicates("neuron").set_index("neuron")["output"]
    of_gpu = weights.drop_duplicates("neuron").set_index("neuron")["gpu"]
    matrix = weights.pivot_table("weight", "neuron", "input", sort=False)
    cell, high = min(0.4, 3.2 / len(inputs)), 0.3
    parts = [of_gpu.index[of_gpu == gpu] for gpu in faces]
    edges = [0.5 + len(rows) * high for rows in parts]
    page = Diagram(_PAGE, max(sum(edges), len(matrix) * high + 0.45) + 0.35, title)
    top = page.height - 0.4
    page.text(0.35 + cell * len(inputs) / 2, top + 0.2, f"weights of the layer, {len(matrix)} x {len(inputs)}")
    for place, (neuron, row) in enumerate(matrix.iterrows()):
        bottom = top - (place + 1) * high
        page.text(0.18, bottom + high / 2, str(neuron), font=8)
        _cells(page, 0.35, bottom, cell, high, row, faces[of_gpu[neuron]])
    shift, up = 0.35 + cell * len(inputs) + 0.55, page.height
    for (gpu, face), rows, tall in zip(faces.items(), parts, edges, strict=True):
        up -= tall
        box = page.enclosure(shift - 0.1, up + 0.05, _PAGE - shift, tall - 0.12, str(gpu))
        bottom = up + 0.12 + len(rows) * high
        start = (0.35 + cell * len(inputs), top - (list(matrix.index).index(rows[0]) + len(rows) / 2) * high)
        page.link([start, (box.left, bottom - len(rows) * high / 2)], arrow="->")
        for place, neuron in enumerate(rows):
            y = bottom - (place + 1) * high
            _cells(page, shift + 0.3, y, cell, high, matrix.loc[neuron], face)
            page.text(shift + 0.12, y + high / 2, str(neuron), font=8)
            place_right = page.box(_PAGE - 0.95, y + 0.02, 0.75, high - 0.04, "", face=face)
            page.text(*place_right.middle, f"{neuron} = {number(outputs[neuron] + 0.0, _DIGITS)}", font=8)
        middle = bottom - len(rows) * high / 2
        x = shift + 0.3 + cell * len(inputs)
        page.text(x + 0.14, middle, "x", font=9)
        page.box(x + 0.28, middle - 0.17, 0.86, 0.34, "input vector", kind="storage", font=8)
        page.link([(x + 1.14, middle), (_PAGE - 0.97, middle)], arrow="->", label="")
    values = ",  ".join(f"{name} {number(value + 0.0, _DIGITS)}" for name, value in inputs.items())
    page.text(0.15, 0.14, f"input vector, the same on every GPU: {values}", font=8, ha="left")
    return page.figure


def _cells(page: Diagram, left: float, bottom: float, wide: float, high: float, row: pd.Series, face: str) -> None:
    for place, weight in enumerate(row):
        page.box(
            left + place * wide, bottom, wide, high, number(weight + 0.0, _DIGITS), face=face, font=8, linewidth=0.5
        )


def gather_diagram(slots: pd.DataFrame, sends: pd.DataFrame, title: str = "") -> plt.Figure:
    """What each GPU holds before, between and after the steps of a gather, and what is sent in each step.

    Parameters
    ----------
    slots
        Columns stage (title of a column of the page), gpu, slot, text ("" where it is not held), owner (number of the
        GPU whose part it is) and note (under the GPU).
    sends
        Columns stage (behind which it is sent), source, target (of gpu) and text.
    title
        Of the page.

    Returns
    -------
    The figure.
    """
    stages, gpus = slots["stage"].unique(), list(slots["gpu"].unique())
    count = slots["slot"].nunique()
    wide, high = (_PAGE - 0.2) / len(stages), 0.95
    page = Diagram(_PAGE, 0.45 + high * len(gpus), title)
    inside = wide - 1.1
    left = {stage: 1.0 + place * wide for place, stage in enumerate(stages)}
    bottom = {gpu: high * (len(gpus) - 1 - place) + 0.3 for place, gpu in enumerate(gpus)}
    boxes = {}
    for stage in stages:
        page.text(left[stage] + inside / 2, page.height - 0.13, stage, weight="bold")
        for gpu in gpus:
            slots_here = slots[(slots["stage"] == stage) & (slots["gpu"] == gpu)]
            boxes[stage, gpu] = frame = Box(left[stage], bottom[gpu], inside, 0.45)
            for place, row in enumerate(slots_here.itertuples()):
                face = _PARTS[row.owner % len(_PARTS)] if row.text else "#FFFFFF"
                look = {} if row.text else {"linestyle": ":"}
                step = inside / count
                page.box(frame.left + place * step, frame.bottom, step, 0.45, row.text, face=face, font=8, **look)
            page.text(frame.middle[0], frame.bottom - 0.13, slots_here["note"].iloc[0], font=8)
    for gpu in gpus:
        page.text(0.08, bottom[gpu] + 0.22, gpu, ha="left", weight="bold")
    for row in sends.itertuples():
        following = stages[list(stages).index(row.stage) + 1]
        start, end = boxes[row.stage, row.source].edge("right"), boxes[following, row.target].edge("left")
        page.link([start, end], LINKS.get(row.link, EDGE), row.text, "->", at=0.27, linewidth=1.6)
    used = [(name, colour) for name, colour in LINKS.items() if name in set(sends["link"])]
    page.legend(used, 0.1, 0.03)
    return page.figure
