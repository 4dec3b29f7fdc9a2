"""Neural networks on GPUs as diagrams: layers in a chain, a weight matrix split by rows, a gather step by step."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import pandas as pd

from railcore.facts.units import number
from railcore.workbench.drawing.diagram import EDGE, Box, Diagram
from railcore.workbench.plotting import LINKS

_PARTS = ("#CFE5F4", "#F3D49A", "#E9D3E2", "#BFE3D4", "#F6D7D2", "#D9D9D9", "#F6E3B8", "#FFFFFF")
_PAGE = 10.0  # width of a page [inches]
_DIGITS = 3


def chain_diagram(
    neurons: pd.DataFrame,
    transfers: pd.DataFrame,
    inputs: Sequence[str] = (),
    result: str = "",
    lines: int = 2,
) -> plt.Figure:
    """Layers on GPUs side by side, each neuron with its numbers, and what GPUs send to each other below them.

    Parameters
    ----------
    neurons
        Columns gpu, node ("" for none drawn), heading (of the GPU) and text (of the neuron), a row for each neuron.
    transfers
        Columns source, target (of gpu), link and text.
    inputs, result
        Texts of the boxes before the first GPU and behind the last.
    lines
        Of text in the tallest neuron.

    Returns
    -------
    The figure.
    """
    gpus = neurons.drop_duplicates("gpu")
    left = 0.95 if len(inputs) else 0.15
    wide = (_PAGE - left - (1.35 if result else 0.15)) / len(gpus)
    drawn = bool((gpus["node"] != "").any())
    high, band = 0.2 + 0.13 * lines, 0.95 if drawn else 0.55
    tall = 0.4 + neurons.groupby("gpu").size().max() * (high + 0.1)
    page = Diagram(_PAGE, band + tall + (0.45 if drawn else 0.1))
    places: dict[str, Box] = {}
    for number_, row in enumerate(gpus.itertuples()):
        places[row.gpu] = page.enclosure(
            left + number_ * wide + 0.12, band, wide - 0.24, tall, row.heading, facecolor="#E9F3FA", zorder=1
        )
        own = neurons[neurons["gpu"] == row.gpu]["text"]
        free = tall - 0.35 - len(own) * (high + 0.1)
        for place, text in enumerate(own):
            bottom = band + tall - 0.3 - free / 2 - (place + 1) * (high + 0.1) + 0.05
            page.box(places[row.gpu].left + 0.08, bottom, wide - 0.4, high, text, font=7.5)
    for node, members in gpus[gpus["node"] != ""].groupby("node", sort=False)["gpu"]:
        first, last = places[members.iloc[0]], places[members.iloc[-1]]
        page.enclosure(first.left - 0.07, band - 0.42, last.right - first.left + 0.14, tall + 0.72, node)
    middle = band + tall / 2
    for place, text in enumerate(inputs):
        bottom = middle + (len(inputs) / 2 - place - 1) * 0.46 + 0.06
        box = page.box(0.12, bottom, 0.72, 0.34, text, kind="storage", font=7.5)
        page.link([box.edge("right"), places[gpus["gpu"].iloc[0]].edge("left")], arrow="->")
    if result:
        last = places[gpus["gpu"].iloc[-1]]
        backward = bool(len(transfers)) and _leftward(transfers, list(places))
        box = page.box(_PAGE - 1.3, middle - 0.5, 1.2, 1.0, result, kind="note", font=7.5)
        ends = [last.edge("right"), box.edge("left")]
        page.link(ends[::-1] if backward else ends, arrow="->")
    for row in transfers.itertuples():
        _under(page, places[row.source], places[row.target], band, row)
    used = [(name, colour) for name, colour in LINKS.items() if name in set(transfers["link"])]
    if used:
        page.legend(used, 0.15, 0.05)
    return page.figure


def _leftward(transfers: pd.DataFrame, order: list[str]) -> bool:
    """Whether what is sent goes to an earlier GPU."""
    first = transfers.iloc[0]
    return order.index(first["source"]) > order.index(first["target"])


def _under(page: Diagram, source: Box, target: Box, band: float, row) -> None:
    """A transfer as a line below two GPUs, that of the scale-out network below the nodes."""
    level = band - (0.62 if row.link == "scale-out" else 0.24)
    away = 0.62 if source.left < target.left else 0.38
    start, end = source.edge("bottom", away), target.edge("bottom", 1 - away)
    points = [start, (start[0], level), (end[0], level), end]
    colour = LINKS.get(row.link, EDGE)
    page.link(points, colour, label=row.text, arrow="->", linewidth=1.6, zorder=4)


def split_matrix_diagram(weights: pd.DataFrame) -> plt.Figure:
    """A weight matrix, its rows by GPU, the same input on each GPU, and the part of the output that each computes.

    Columns of weights, a row for each: gpu, neuron, input, value (of the input), weight, output (of the neuron).
    """
    faces = dict(zip(weights["gpu"].unique(), _PARTS, strict=False))
    inputs = weights.drop_duplicates("input").set_index("input")["value"]
    outputs = weights.drop_duplicates("neuron").set_index("neuron")["output"]
    of_gpu = weights.drop_duplicates("neuron").set_index("neuron")["gpu"]
    matrix = weights.pivot_table("weight", "neuron", "input", sort=False)
    cell, high = min(0.4, 3.2 / len(inputs)), 0.3
    parts = [of_gpu.index[of_gpu == gpu] for gpu in faces]
    each = [0.5 + len(rows) * high for rows in parts]
    page = Diagram(_PAGE, max(sum(each), len(matrix) * high + 0.45) + 0.35)
    top = page.height - 0.4
    page.text(0.35 + cell * len(inputs) / 2, top + 0.2, f"weights of the layer, {len(matrix)} x {len(inputs)}")
    for place, (neuron, row) in enumerate(matrix.iterrows()):
        bottom = top - (place + 1) * high
        page.text(0.18, bottom + high / 2, str(neuron), font=7.5)
        _cells(page, 0.35, bottom, cell, high, row, faces[of_gpu[neuron]])
    shift, up = 0.35 + cell * len(inputs) + 0.55, page.height
    for (gpu, face), rows, tall in zip(faces.items(), parts, each, strict=True):
        up -= tall
        box = page.enclosure(shift - 0.1, up + 0.05, _PAGE - shift, tall - 0.12, str(gpu))
        bottom = up + 0.12 + len(rows) * high
        start = (0.35 + cell * len(inputs), top - (list(matrix.index).index(rows[0]) + len(rows) / 2) * high)
        page.link([start, (box.left, bottom - len(rows) * high / 2)], arrow="->")
        for place, neuron in enumerate(rows):
            y = bottom - (place + 1) * high
            _cells(page, shift + 0.3, y, cell, high, matrix.loc[neuron], face)
            page.text(shift + 0.12, y + high / 2, str(neuron), font=7.5)
            place_right = page.box(_PAGE - 0.95, y + 0.02, 0.75, high - 0.04, "", face=face)
            page.text(*place_right.middle, f"{neuron} = {number(outputs[neuron] + 0.0, _DIGITS)}", font=7)
        middle = bottom - len(rows) * high / 2
        x = shift + 0.3 + cell * len(inputs)
        page.text(x + 0.14, middle, "x", font=9)
        page.box(x + 0.28, middle - 0.17, 0.86, 0.34, "input vector", kind="storage", font=7)
        page.link([(x + 1.14, middle), (_PAGE - 0.97, middle)], arrow="->", label="")
    values = ",  ".join(f"{name} {number(value + 0.0, _DIGITS)}" for name, value in inputs.items())
    page.text(0.15, 0.14, f"input vector, the same on every GPU: {values}", font=7, ha="left")
    return page.figure


def _cells(page: Diagram, left: float, bottom: float, wide: float, high: float, row: pd.Series, face: str) -> None:
    for place, weight in enumerate(row):
        page.box(
            left + place * wide, bottom, wide, high, number(weight + 0.0, _DIGITS), face=face, font=7, linewidth=0.5
        )


def gather_diagram(slots: pd.DataFrame, sends: pd.DataFrame) -> plt.Figure:
    """What each GPU holds before, between and after the steps of a gather, and what is sent in each step.

    Parameters
    ----------
    slots
        Columns stage (title of a column of the page), gpu, slot, text ("" where it is not held), owner (number of the
        GPU whose part it is) and note (under the GPU).
    sends
        Columns stage (behind which it is sent), source, target (of gpu) and text.

    Returns
    -------
    The figure.
    """
    stages, gpus = slots["stage"].unique(), list(slots["gpu"].unique())
    count = slots["slot"].nunique()
    wide, high = (_PAGE - 0.2) / len(stages), 0.95
    page = Diagram(_PAGE, 0.45 + high * len(gpus))
    inside = wide - 1.1
    left = {stage: 1.0 + place * wide for place, stage in enumerate(stages)}
    bottom = {gpu: high * (len(gpus) - 1 - place) + 0.3 for place, gpu in enumerate(gpus)}
    boxes = {}
    for stage in stages:
        page.text(left[stage] + inside / 2, page.height - 0.13, stage, weight="bold")
        for gpu in gpus:
            own = slots[(slots["stage"] == stage) & (slots["gpu"] == gpu)]
            boxes[stage, gpu] = frame = Box(left[stage], bottom[gpu], inside, 0.45)
            for place, row in enumerate(own.itertuples()):
                face = _PARTS[row.owner % len(_PARTS)] if row.text else "#FFFFFF"
                look = {} if row.text else {"linestyle": ":"}
                step = inside / count
                page.box(frame.left + place * step, frame.bottom, step, 0.45, row.text, face=face, font=7, **look)
            page.text(frame.middle[0], frame.bottom - 0.13, own["note"].iloc[0], font=7)
    for gpu in gpus:
        page.text(0.08, bottom[gpu] + 0.22, gpu, ha="left", weight="bold")
    for row in sends.itertuples():
        following = stages[list(stages).index(row.stage) + 1]
        start, end = boxes[row.stage, row.source].edge("right"), boxes[following, row.target].edge("left")
        page.link([start, end], LINKS.get(row.link, EDGE), row.text, "->", at=0.27, font=6.5, linewidth=1.6)
    used = [(name, colour) for name, colour in LINKS.items() if name in set(sends["link"])]
    page.legend(used, 0.1, 0.03)
    return page.figure
