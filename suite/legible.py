"""Checks that a picture can be read on a page (its width, title, and its texts' size, words, places), and an answer."""

import re
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.collections import Collection
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

MAX_WIDTH_IN = 10.0
MIN_TEXT_PT = 8.0
MAX_COLUMNS = 8
MAX_SENTENCES, MAX_WORDS, MAX_NUMBERS = 3, 60, 3  # of a notebook's answer: two sentences and an advice
# A picture is read without the text around it, by people who do not know the code. NEXT_HOP is BGP's, not the code's.
_WORDS = re.compile(r"\b(printed|in turn|here|kg|street2025|None|nan)\b|\d us\b|[a-z0-9]_\w|\w_[a-z0-9]")
_FORMULA = re.compile(r"\$[^$]*\$")
_NUMBER = re.compile(r"(?<![\w.,-])[-+]?\d[\d.,]*(?!\w)")  # not of a name, such as 405B, H100, GPT-3, 1F1B
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_REFERENCE = re.compile(r"\b(?:Fig|Table|Eq|Section)\.? [\w-]+")


def faults(figure: "Figure") -> list[str]:
    """Faults that keep a picture from being read by itself at the width of a page, a clause each.

    Wider than 10 inches, text below 8 points, words that only the text around it or the code explains, texts that
    overlap or leave the page, no title. figure: laid out.
    """
    width, texts = figure.get_size_inches()[0], _texts(figure)
    small = sorted({text.get_text() for text in texts if float(text.get_fontsize()) < MIN_TEXT_PT - 1e-6})
    odd = sorted({text.get_text() for text in texts if _WORDS.search(_FORMULA.sub("", text.get_text()))})
    titles = [figure.get_suptitle(), *(ax.get_title(place) for ax in figure.axes for place in ("left", "center"))]
    faults = (
        [f"it is {width:g} inches wide, at most {MAX_WIDTH_IN:g} fit a page"] if width > MAX_WIDTH_IN + 1e-6 else []
    )
    faults += [f"texts below {MIN_TEXT_PT:g} points: {_some(small)}"] if small else []
    faults += [f"words of the code or of the text around it: {_some(odd)}"] if odd else []
    over = [f"{one!r} over {other!r}" for one, other in overlaps(figure)]
    faults += [f"texts that overlap or leave the page: {_some(over, 90)}"] if over else []
    return faults if any(titles) else [*faults, "it has no title"]


def answer_faults(text: str) -> list[str]:
    """What keeps a notebook's answer from being read at once, a clause each.

    More than three sentences, 60 words or three numbers. Digits in names, such as DGX H100 or Fig. 13-8, are none.
    """
    counts = {
        "sentences": (len(SENTENCE_END.split(text.strip())), MAX_SENTENCES),
        "words": (len(text.split()), MAX_WORDS),
        "numbers": (len(_NUMBER.findall(_REFERENCE.sub("", text))), MAX_NUMBERS),
    }
    return [f"{count} {name} (at most {most})" for name, (count, most) in counts.items() if count > most]


def overlaps(figure: "Figure") -> list[tuple[str, str]]:
    """Pairs of texts of a figure that overlap by more than a pixel each way, and texts that leave the page.

    The second of those is "the page". Slanted texts are not compared with each other: their extents overlap, not they.
    """
    from matplotlib.text import Text

    figure.draw_without_rendering()  # labels of axes and texts of legends have their places only then
    extents = [(text.get_text(), Text.get_window_extent(text), text.get_rotation() % 90 > 0) for text in _texts(figure)]
    extents += [(*line, False) for ax in figure.axes for marks in ax.collections for line in _line_extents(marks)]
    if not extents:
        return []
    low = np.array([box.min for _, box, _ in extents])
    high = np.array([box.max for _, box, _ in extents])
    slanted = np.array([slant for *_, slant in extents])
    shared = np.minimum(high[:, None], high) - np.maximum(low[:, None], low)
    pairs = np.argwhere(np.triu((shared > 1).all(axis=-1) & ~(slanted[:, None] & slanted), 1))
    outside = np.flatnonzero(((low < -1) | (high > np.asarray(figure.bbox.max) + 1)).any(axis=1))
    return [(extents[a][0], extents[b][0]) for a, b in pairs] + [(extents[i][0], "the page") for i in outside]


def _texts(figure: "Figure") -> list["Text"]:
    """Texts that are drawn: not those of axes without axis, nor those of ticks beyond their ends."""
    from matplotlib.text import Text

    without: set[Text] = set()
    for ax in figure.axes:
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            room = 1e-9 * (high - low)
            beyond = [tick for tick in axis.get_major_ticks() if not low - room <= tick.get_loc() <= high + room]
            for hidden in beyond if ax.axison else [axis]:
                without |= set(hidden.findobj(Text))
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    return [text for text in texts if text not in without]


def _line_extents(marks: "Collection") -> list[tuple[str, "Bbox"]]:
    """Texts that `Diagram.lines` drew as one artist, with their extents; none for another artist."""
    from matplotlib.collections import PathCollection

    label, paths = str(marks.get_label()), marks.get_paths()
    shifts = np.atleast_2d(marks.get_offset_transform().transform(marks.get_offsets()))
    texts = [] if label.startswith("_") or not isinstance(marks, PathCollection) else label.split("\n")
    if not len(texts) == len(paths) == len(shifts):
        return []
    return [
        (text, path.get_extents(marks.get_transform()).translated(*shift))
        for text, path, shift in zip(texts, paths, shifts, strict=True)
    ]


def _some(texts: list[str], most: int = 40) -> str:
    """The first few texts, each cut to a line."""
    shown = ", ".join(repr(text.replace("\n", " ")[:most]) for text in texts[:4])
    return shown + f" and {len(texts) - 4} more" * (len(texts) > 4)
