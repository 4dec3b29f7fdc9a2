"""Texts of a figure that overlap or leave its page."""

from itertools import combinations

from matplotlib.collections import PathCollection


def text_collisions(figure):
    """Pairs of texts of a figure that overlap, and texts that leave the page (the second is "page")."""
    renderer, page = figure.canvas.get_renderer(), figure.bbox
    texts = [text for ax in figure.axes for text in ax.texts if text.get_visible() and text.get_text().strip()]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts]
    boxes += [each for ax in figure.axes for marks in ax.collections for each in _line_extents(marks)]
    found = [(a, b) for (a, one), (b, other) in combinations(boxes, 2) if _overlap(one, other)]
    return found + [
        (a, "page") for a, one in boxes if not (page.contains(one.x0, one.y0) and page.contains(one.x1, one.y1))
    ]


def _line_extents(marks):
    """Texts that `Diagram.lines` drew as one artist, with their extents; none for another artist."""
    texts, paths = marks.get_label().split("\n"), marks.get_paths()
    if not isinstance(marks, PathCollection) or len(texts) != len(paths):
        return []
    shifts = marks.get_offset_transform().transform(marks.get_offsets())
    return [
        (text, path.get_extents(marks.get_transform()).translated(*shift))
        for text, path, shift in zip(texts, paths, shifts, strict=True)
    ]


def _overlap(one, other):
    """Whether two extents share more than a pixel each way."""
    wide = min(one.x1, other.x1) - max(one.x0, other.x0)
    high = min(one.y1, other.y1) - max(one.y0, other.y0)
    return wide > 1 and high > 1
