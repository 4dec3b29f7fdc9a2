"""Neural networks on GPUs as diagrams: layers in a chain, a weight matrix split by rows, a gather step by step."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import pandas as pd

from railcore.catalog.units import number
from suite.colours import PARTS
from suite.drawing.diagram import EDGE, FAINT, Box, Diagram
from suite.drawing.symbols import text_outline
from suite.plotting import LINKS

_PARTS = tuple(PARTS[name] for name in ("gpu", "nic", "pcie", "hb", "alert", "switch", "storage", "plain"))
_GPU, _INPUT = PARTS["gpu around"], PARTS["storage"]
_PAGE = 10.0  # width of a page [inches]
_LINE = 0.135  # of text [inches]
_FONT = 8.0  # points
_DIGITS = 3
_HEAD = 0.3  # of a GPU's frame, for its name [inches]


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
    left, right = 0.78 if len(inputs) else 0.1, 1.3 if result else 0.1
    wide, drawn = (_PAGE - left - right) / len(gpus), bool((gpus["node"] != "").any())
    high = 0.1 + _LINE * int(neurons["text"].str.count("\n").max() + 2)  # of a neuron's box
    deepest = _LINE * int(transfers["text"].str.count("\n").max() + 1) if len(transfers) else 0.0
    foot = 0.1 + _LINE * len(key) + 0.25 * bool(set(transfers["link"]) & set(LINKS))
    band = foot + (0.46 + 2 * deepest if drawn else 0.25 + deepest)
    tall = _HEAD + max(neurons.groupby("gpu").size().max() * (high + 0.14), len(inputs) * 0.35)
    page = Diagram(_PAGE, band + tall + (0.42 if drawn else 0.08), title)
    lines = [line for text in neurons["text"] for line in text.split("\n")]
    box_wide = min(max(text_outline(line, _FONT)[1] for line in lines) / 72 + 0.14, wide - 0.3)
    frames: dict[str, Box] = {}
    before = _column(0.06, 0.66, 0.22, len(inputs), band, tall)
    for text, box in zip(inputs, before, strict=True):
        page.box(*box.place, text, face=_INPUT, font=_FONT)
    for place, row in enumerate(gpus.itertuples()):
        frame = (left + place * wide + 0.1, band, wide - 0.2, tall)
        frames[row.gpu] = page.enclosure(*frame, row.heading, facecolor=_GPU, zorder=1)
        here = neurons[neurons["gpu"] == row.gpu]
        boxes = _column(frames[row.gpu].middle[0] - box_wide / 2, box_wide, high, len(here), band, tall)
        _edges(page, before, boxes)
        for neuron, box in zip(here.itertuples(), boxes, strict=True):
            _neuron(page, box, neuron.neuron, neuron.text)
        before = boxes
    for node, members in gpus[gpus["node"] != ""].groupby("node", sort=False)["gpu"]:
        first, last = frames[members.iloc[0]], frames[members.iloc[-1]]
        low = band - 0.22 - deepest
        page.enclosure(first.left - 0.06, low, last.right - first.left + 0.12, band + tall + 0.36 - low, node)
    if result:
        (box,) = _column(_PAGE - 1.2, 1.1, 1.1, 1, band, tall)
        page.box(*box.place, result, kind="note", font=_FONT)
        _edges(page, before, [box])
    for row in transfers.itertuples():
        level = band - 0.12 - (row.link == "scale-out") * drawn * (deepest + 0.2)
        _under(page, frames[row.source], frames[row.target], level, row)
    used = [(name, colour) for name, colour in LINKS.items() if name in set(transfers["link"])]
    if used:
        page.legend(used, 0.12, foot - 0.2)
    for i, line in enumerate(key):
        page.text(0.12, 0.1 + _LINE * (len(key) - i - 0.5), line, font=_FONT, ha="left")
    return page.figure


def _column(left: float, wide: float, high: float, count: int, band: float, tall: float) -> list[Box]:
    """Boxes of one width and height, evenly one above the other beside or inside a GPU's frame.

    Parameters
    ----------
    left, wide, high
        Of a box [inches].
    count
        Boxes.
    band, tall
        Bottom and height of the frame [inches].

    Returns
    -------
    The boxes from the top.
    """
    slot = (tall - _HEAD) / max(count, 1)
    return [Box(left, band + tall - _HEAD - (i + 0.5) * slot - high / 2, wide, high) for i in range(count)]


def _edges(page: Diagram, before: Sequence[Box], after: Sequence[Box]) -> None:
    """A line from each box to each one on its right."""
    page.links([[start.edge("right"), end.edge("left")] for start in before for end in after], FAINT, 0.8)


def _neuron(page: Diagram, box: Box, name: str, text: str) -> None:
    """A box with a neuron's name and its numbers below."""
    page.box(*box.place, face=PARTS["plain"], zorder=4)
    head = Box(box.left, box.top - 0.05 - _LINE, box.width, _LINE)
    page.text(*head.middle, name, font=_FONT, weight="bold", zorder=7)
    size = page.fitted(text, _FONT, box)
    page.text(box.middle[0], (box.bottom + head.bottom) / 2, text, font=size, zorder=7, linespacing=1.12)


def _under(page: Diagram, source: Box, target: Box, level: float, row) -> None:
    """A transfer as a line below two GPUs, its text below it."""
    away = 0.58 if source.left < target.left else 0.42
    start, end = source.edge("bottom", away), target.edge("bottom", 1 - away)
    points = [start, (start[0], level), (end[0], level), end]
    page.link(points, LINKS.get(row.link, EDGE), arrow="->", linewidth=1.6, zorder=4)
    lines = row.text.count("\n") + 1
    page.text((start[0] + end[0]) / 2, level - 0.05 - _LINE * lines / 2, row.text, font=_FONT, linespacing=1.12)


def split_matrix_diagram(weights: pd.DataFrame, title: str = "") -> plt.Figure:
    """A weight matrix, its rows by GPU, and on each GPU its rows, the same input, z, and the part of the output.

    Columns of weights, a row for each: gpu, neuron, input, value (of the input), weight, z and output (of the neuron).
    title: of the page.
    """
    faces = dict(zip(weights["gpu"].unique(), _PARTS, strict=False))
    inputs = weights.drop_duplicates("input").set_index("input")["value"]
    of_neuron = weights.drop_duplicates("neuron").set_index("neuron")
    matrix = weights.pivot_table("weight", "neuron", "input", sort=False)
    cell, high = min(0.34, 2.72 / len(inputs)), 0.3
    parts = [of_neuron.index[of_neuron["gpu"] == gpu] for gpu in faces]
    edges = [0.5 + len(rows) * high for rows in parts]
    page = Diagram(_PAGE, max(sum(edges), len(matrix) * high + 0.45) + 0.35, title)
    top = page.height - 0.4
    page.text(0.35 + cell * len(inputs) / 2, top + 0.2, f"weights of the layer: {len(matrix)} x {len(inputs)}")
    for place, (neuron, row) in enumerate(matrix.iterrows()):
        bottom = top - (place + 1) * high
        page.text(0.18, bottom + high / 2, str(neuron), font=8)
        _cells(page, 0.35, bottom, cell, high, row, faces[of_neuron.loc[neuron, "gpu"]])
    shift, up = 0.35 + cell * len(inputs) + 0.5, page.height
    for (gpu, face), rows, tall in zip(faces.items(), parts, edges, strict=True):
        up -= tall
        name = f"{gpu}: weights {len(rows)} x {len(inputs)}"
        box = page.enclosure(shift - 0.1, up + 0.05, _PAGE - shift, tall - 0.12, name)
        bottom = up + 0.12 + len(rows) * high
        start = (0.35 + cell * len(inputs), top - (list(matrix.index).index(rows[0]) + len(rows) / 2) * high)
        page.link([start, (box.left, bottom - len(rows) * high / 2)], arrow="->")
        x, middle = shift + 0.3 + cell * len(inputs), bottom - len(rows) * high / 2
        for place, neuron in enumerate(rows):
            y = bottom - (place + 1) * high
            _cells(page, shift + 0.3, y, cell, high, matrix.loc[neuron], face)
            page.text(shift + 0.12, y + high / 2, str(neuron), font=8)
            for left, name, column in ((x + 1.1, "z", "z"), (_PAGE - 1.02, "y", "output")):
                value = number(of_neuron.loc[neuron, column] + 0.0, _DIGITS)
                text = f"{name} = {value}" if name == "z" else f"{neuron}: y = {value}"
                page.box(left, y + 0.02, 0.66 if name == "z" else 0.87, high - 0.04, text, face=face, font=8)
        page.text(x + 0.1, middle, "x", font=9)
        page.box(x + 0.2, middle - 0.17, 0.66, 0.34, "input", font=8)
        page.text(x + 0.98, middle, "=", font=9)
        page.link([(x + 1.78, middle), (_PAGE - 1.04, middle)], arrow="->")
        page.text((x + 1.78 + _PAGE - 1.04) / 2, middle + 0.1, "ReLU", font=8)
        for middle, name in ((x + 1.43, "pre-activation"), (_PAGE - 0.585, "partial output")):
            page.text(middle, box.top - 0.12, name, font=8)
    values = ",  ".join(f"{name} {number(value + 0.0, _DIGITS)}" for name, value in inputs.items())
    page.text(0.15, 0.14, f"input features, the same on every GPU: {values}. ReLU(z) = max(z, 0)", font=8, ha="left")
    return page.figure


def _cells(page: Diagram, left: float, bottom: float, wide: float, high: float, row: pd.Series, face: str) -> None:
    for place, weight in enumerate(row):
        page.box(
            left + place * wide, bottom, wide, high, number(weight + 0.0, _DIGITS), face=face, font=8, linewidth=0.5
        )


def gather_diagram(
    slots: pd.DataFrame, sends: pd.DataFrame, title: str = "", note: tuple[str, str] = ("", "")
) -> plt.Figure:
    """What each GPU holds before, between and after the steps of a gather, and what is sent in each step.

    Parameters
    ----------
    slots
        Columns stage (title of a column of the page), gpu, slot, text ("" where it is not held), owner (number of the
        GPU whose part it is), twice (whether it is held once more, as a partial output) and note (under the GPU).
    sends
        Columns stage (behind which it is sent), source, target (of gpu) and text.
    title, note
        Of the page, and what the document has, a line at its foot, with its verdict.

    Returns
    -------
    The figure.
    """
    stages, gpus = slots["stage"].unique(), list(slots["gpu"].unique())
    count = slots["slot"].nunique()
    wide, high, foot = (_PAGE - 0.2) / len(stages), 1.1, 0.46
    page = Diagram(_PAGE, foot + 0.1 + high * len(gpus), title)
    inside = wide - 1.1
    left = {stage: 1.0 + place * wide for place, stage in enumerate(stages)}
    bottom = {gpu: high * (len(gpus) - 1 - place) + foot for place, gpu in enumerate(gpus)}
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
                if row.twice:
                    above = Box(frame.left + place * step, frame.top + 0.05, step, 0.2)
                    page.box(*above.place, row.slot, face=face, font=8, linestyle="--")
            page.text(frame.middle[0], frame.bottom - 0.13, slots_here["note"].iloc[0], font=8)
    for gpu in gpus:
        page.text(0.08, bottom[gpu] + 0.22, gpu, ha="left", weight="bold")
    for row in sends.itertuples():
        following = stages[list(stages).index(row.stage) + 1]
        start, end = boxes[row.stage, row.source].edge("right"), boxes[following, row.target].edge("left")
        page.link([start, end], LINKS.get(row.link, EDGE), row.text, "->", at=0.27, linewidth=1.6)
    used = [(name, colour) for name, colour in LINKS.items() if name in set(sends["link"])]
    page.legend(used, 0.1, 0.03)
    page.text(1.2, 0.1, "dashed: partial outputs that are not freed yet", font=8, ha="left")
    page.document_text(3.9, 0.1, *note)
    return page.figure
