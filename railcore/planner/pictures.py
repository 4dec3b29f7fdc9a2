"""Pictures of a plan's page: where points, bars, labels and places stand. How they look is in the templates."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railcore.catalog.units import number

Box = tuple[float, float, float, float]  # left, top, right, bottom
FONT = 12.0  # size of text in pictures
_LETTER = 0.6 * FONT  # its width, at most on average
_KM_PER_DEGREE = 111.2  # of latitude

# Axes.


@dataclass(frozen=True)
class Axis:
    """From values, low to high, to pixels, start to end."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Where a value stands."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self, most: int = 6) -> list[tuple[float, str]]:
        """Round values on the axis, most + 1 at most, and their texts."""
        step = _round_step((self.high - self.low) / most)
        whole = range(math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9) + 1)
        return [(self.at(step * count), _tick(step * count, step)) for count in whole]


def _round_step(least: float) -> float:
    """The smallest of 1, 2, 5, 10, 20, ... that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def _tick(value: float, step: float) -> str:
    return f"{value + 0.0:,.{max(0, -math.floor(math.log10(step) + 1e-9))}f}"


def _padded(values: Iterable[float], share: float = 0.06) -> tuple[float, float]:
    """Range of the values and some room about them."""
    listed = list(values)
    low, high = min(listed), max(listed)
    room = share * (high - low) or 0.1 * abs(high) or 1.0
    return (max(0.0, low - room) if low >= 0 else low - room), high + room


# Labels: each takes the nearest place to its point that is free and crosses few lines.


@dataclass(frozen=True)
class Label:
    """Lines of text that begin at x, or end there with the anchor "end"; the first on the baseline y.

    leader: line to a label that stands apart from its point. It goes from the point to a copy of the point's marker
        beside the text.
    """

    lines: tuple[str, ...]
    x: float
    y: float
    anchor: str
    leader: Box | None = None

    @property
    def box(self) -> Box:
        """The room that text and marker take."""
        width, top, marker = _LETTER * max(map(len, self.lines)), self.y - 0.85 * FONT, 14 if self.leader else 0
        left, right = (self.x - width, self.x + marker) if self.anchor == "end" else (self.x - marker, self.x + width)
        return (left, top, right, top + 1.2 * FONT * len(self.lines))


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _inside(box: Box, frame: Box) -> bool:
    return box[0] >= frame[0] and box[1] >= frame[1] and box[2] <= frame[2] and box[3] <= frame[3]


def _dots(line: Box | None) -> list[Box]:
    """A slanted line as small boxes; without its beginning, which a marker covers."""
    if line is None or (length := math.dist(line[:2], line[2:])) < 8:
        return []
    shares = [at / length for at in range(8, int(length), 3)]
    middles = [(line[0] + share * (line[2] - line[0]), line[1] + share * (line[3] - line[1])) for share in shares]
    return [(x - 1, y - 1, x + 1, y + 1) for x, y in middles]


def _point_labels(
    texts: Sequence[str], points: Sequence[tuple[float, float]], frame: Box, taken: list[Box], crossed: list[Box]
) -> list[Label]:
    """Labels of points, placed in order: off all labels and boxes `taken` where there is room, over few `crossed`."""
    taken, crossed, labels = list(taken), list(crossed), []
    for text, (x, y) in zip(texts, points, strict=True):
        rows = tuple(textwrap.wrap(text, 18 if frame[2] - frame[0] < 350 else 24)) or ("",)
        least, best = math.inf, Label(rows, x + 8, y - 5, "start")
        for off, label in _spots(rows, x, y):
            if off < least and _inside(label.box, frame):
                cost = off + 100 * sum(_overlap(label.box, box) for box in taken)
                cost += 2.5 * sum(_overlap(label.box, line) for line in crossed)
                cost += 4 * sum(_overlap(dot, box) for dot in _dots(label.leader) for box in taken)
                least, best = min((least, best), (cost, label), key=lambda choice: choice[0])
        labels.append(best)
        taken.append(best.box)
        crossed += _dots(best.leader)
    return labels


def _spots(rows: tuple[str, ...], x: float, y: float) -> Iterable[tuple[float, Label]]:
    """Places for a label of a point, and how far off each is."""
    height, first = 1.2 * FONT * len(rows), 0.85 * FONT
    for top in (y - 5 - height, y + 5):
        yield 0, Label(rows, x + 8, top + first, "start")
        yield 0.1, Label(rows, x - 8, top + first, "end")
    for step in range(1, 60):
        away = 5 + 0.5 * FONT * step
        for top in (y - away - height, y + away):
            for aside in (14, 34, 64):
                for side, anchor in ((1, "start"), (-1, "end")):
                    marker = (x + side * aside, top + first - 0.35 * FONT)
                    at = marker[0] + side * 9
                    yield 3 + step + aside / 10, Label(rows, at, top + first, anchor, (x, y, *marker))


def _thick(line: Box) -> Box:
    return (line[0] - 1, line[1] - 1, line[2] + 1, line[3] + 1)


def _first_free(labels: Sequence[Label], frame: Box, taken: Sequence[Box]) -> Label:
    free = (
        label for label in labels if _inside(label.box, frame) and not any(_overlap(label.box, box) for box in taken)
    )
    return next(free, labels[0])


# Pictures.


def _bounds(entry: Mapping[str, Any]) -> tuple[float, float]:
    """Low and high of a number; the number itself where they are missing."""
    low, high = (entry["value"] if entry.get(end) is None else entry[end] for end in ("low", "high"))
    return low, high


def scatter_picture(
    chart: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]], width: float, height: float
) -> dict[str, Any]:
    """Candidates as points with error bars, each with its name; limits as lines.

    A limit that would squeeze the points into less than a third of the picture is a text of `outside`, and no line.

    Parameters
    ----------
    chart
        Axes x and y: key of the number, label, limit and wish or None, scale (1 by default).
    candidates
        Those that have both numbers.
    width, height
        Of the picture, in its own units.

    Returns
    -------
    Sizes, axes, marks, lines and texts for the template picture.svg.j2.
    """
    frame = (52.0, 28.0, width - 18, height - 44)
    x_axis, x_limits, x_outside = _fitted(chart["x"], candidates, frame[0], frame[2])
    y_axis, y_limits, y_outside = _fitted(chart["y"], candidates, frame[3], frame[1])
    marks = [_mark(chart, candidate, x_axis, y_axis) for candidate in candidates]
    points = [(mark["x"], mark["y"]) for mark in marks]
    lines: list[tuple[str, Box, list[Label]]] = []
    for kind, value, text in x_limits:
        x, heights = x_axis.at(value), (frame[3] - 6, frame[1] + FONT)
        spots = [Label((text,), at, y, side) for y in heights for at, side in ((x - 4, "end"), (x + 4, "start"))]
        lines.append((kind, (x, frame[1], x, frame[3]), spots))
    for kind, value, text in y_limits:
        y, ends = y_axis.at(value), ((frame[0] + 4, "start"), (frame[2] - 4, "end"))
        spots = [Label((text,), at, base, side) for base in (y - 4, y + FONT) for at, side in ends]
        lines.append((kind, (frame[0], y, frame[2], y), spots))
    taken: list[Box] = [(x - 6, y - 6, x + 6, y + 6) for x, y in points]
    limits: list[dict[str, Any]] = []
    for kind, line, spots in lines:
        limits.append({"kind": kind, "line": line, "label": _first_free(spots, frame, taken)})
        taken.append(limits[-1]["label"].box)
    crossed = [line for mark in marks for line in mark["bars"]] + 4 * [limit["line"] for limit in limits]
    names = [candidate["name"] for candidate in candidates]
    labels = _point_labels(names, points, frame, taken, [_thick(line) for line in crossed])
    marks = [{**mark, "label": label} for mark, label in zip(marks, labels, strict=True)]
    return {
        "width": width,
        "height": height,
        "frame": frame,
        "ticks": {"x": x_axis.ticks(4 if width < 400 else 6), "y": y_axis.ticks()},
        "titles": {way: chart[way]["label"] for way in ("x", "y")},
        "marks": marks,
        "limits": limits,
        "outside": x_outside + y_outside,
        "from_zero": x_axis.low == y_axis.low == 0,
    }


def _fitted(
    axis: Mapping[str, Any], candidates: Sequence[Mapping[str, Any]], start: float, end: float
) -> tuple[Axis, list[tuple[str, float, str]], list[str]]:
    """An axis over all numbers with their bounds, the limits on it, and texts of the limits far outside of it."""
    scale, limits, outside = axis.get("scale") or 1, [], []
    values = [bound / scale for candidate in candidates for bound in _bounds(candidate["numbers"][axis["key"]])]
    for kind in ("limit", "wish"):
        if axis.get(kind) is not None:
            value, (low, high) = axis[kind] / scale, _padded(values)
            text = f"{kind} {number(value)}"
            if max(high, value) - min(low, value) <= 3 * (high - low):
                limits.append((kind, value, text))
                values.append(value)
            else:
                outside.append(f"{axis['label']}: {text}")
    return Axis(*_padded(values), start, end), limits, outside


def _mark(chart: Mapping[str, Any], candidate: Mapping[str, Any], x_axis: Axis, y_axis: Axis) -> dict[str, Any]:
    """A candidate's point, and its error bars where they are longer than the mark."""
    numbers = {way: candidate["numbers"][chart[way]["key"]] for way in ("x", "y")}
    scales = {way: chart[way].get("scale") or 1 for way in ("x", "y")}
    values = {way: (entry["value"], *_bounds(entry)) for way, entry in numbers.items()}
    x, left, right = (x_axis.at(value / scales["x"]) for value in values["x"])
    y, bottom, top = (y_axis.at(value / scales["y"]) for value in values["y"])
    bars = [(left, y, right, y)] if max(right - x, x - left) > 6 else []
    bars += [(x, top, x, bottom)] if max(bottom - y, y - top) > 6 else []
    told = [f"{chart[way]['label']} {numbers[way]['text']} ({numbers[way]['interval']})" for way in ("x", "y")]
    return {"x": x, "y": y, "bars": bars, "candidate": candidate, "text": f"{candidate['name']}: {'; '.join(told)}"}


def bar_picture(bars: Mapping[str, Any], width: float) -> dict[str, Any]:
    """Stacked bars from zero, each below its label; for the template picture.svg.j2."""
    step, frame = 38.0, (8.0, 4.0, width - 14, 4 + 38.0 * len(bars["rows"]))
    most = max((sum(part["value"] for part in row["parts"]) for row in bars["rows"]), default=0) or 1.0
    axis, rows = Axis(0, most, frame[0], frame[2]), []
    for count, row in enumerate(bars["rows"]):
        parts, before = [], 0.0
        for part in row["parts"]:
            x, before = axis.at(before), before + part["value"]
            parts.append({"part": part, "x": x, "width": axis.at(before) - x})
        label = textwrap.shorten(row["label"], int(width / _LETTER), placeholder="...")
        rows.append({"label": label, "y": frame[1] + step * count, "parts": parts})
    legend = {part["label"]: part["colour"] for row in bars["rows"] for part in row["parts"]}
    ticks = axis.ticks(4 if width < 400 else 8)
    return {"width": width, "height": frame[3] + 22, "frame": frame, "ticks": ticks, "rows": rows, "legend": legend}


def place_picture(places: Mapping[str, Any], width: float) -> dict[str, Any]:
    """Places by longitude and latitude, with a bar of some km; for the template picture.svg.j2.

    A degree of longitude has its length in the middle of the map, which suits one country and not the world.
    """
    points, frame = places["points"], (62.0, 12.0, width - 24, 0.6 * width)
    easts, norths = ([point[way] for point in points] for way in ("longitude", "latitude"))
    east, north = (sum(_ends(values)) / 2 for values in (easts, norths))
    shrunk, wide, high = math.cos(math.radians(north)), frame[2] - frame[0], frame[3] - frame[1]
    spans = [(_ends(easts)[1] - _ends(easts)[0]) * shrunk / wide, (_ends(norths)[1] - _ends(norths)[0]) / high]
    degrees = 1.4 * max(spans) or 1 / wide  # of latitude, a pixel
    x_axis = Axis(east - wide / 2 * degrees / shrunk, east + wide / 2 * degrees / shrunk, frame[0], frame[2])
    y_axis = Axis(north - high / 2 * degrees, north + high / 2 * degrees, frame[3], frame[1])
    length = _round_step(_KM_PER_DEGREE * degrees * wide / 8)
    bar = (frame[0] + 10, frame[3] - 10, frame[0] + 10 + length / _KM_PER_DEGREE / degrees, frame[3] - 10)
    marks = [
        {"x": x_axis.at(point["longitude"]), "y": y_axis.at(point["latitude"]), "point": point} for point in points
    ]
    taken = [(mark["x"] - 6, mark["y"] - 6, mark["x"] + 6, mark["y"] + 6) for mark in marks]
    taken.append((bar[0], bar[1] - 1.5 * FONT, max(bar[2], bar[0] + 8 * _LETTER), bar[3] + 4))
    names, at = [point["label"] for point in points], [(mark["x"], mark["y"]) for mark in marks]
    labels = _point_labels(names, at, frame, taken, [])
    marks = [{**mark, "label": label} for mark, label in zip(marks, labels, strict=True)]
    most = 3 if width < 400 else 6
    return {
        "width": width,
        "height": frame[3] + 30,
        "frame": frame,
        "ticks": {"x": x_axis.ticks(most), "y": y_axis.ticks()},
        "marks": marks,
        "bar": {"line": bar, "text": f"{length:,.0f} km" if length >= 1 else f"{length:g} km"},
    }


def _ends(values: Sequence[float]) -> tuple[float, float]:
    return min(values), max(values)
