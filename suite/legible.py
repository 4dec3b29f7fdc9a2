"""Checks that a picture can be read on a page: its width, size and words of its texts, its title."""

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_WIDTH_IN = 10.0
MIN_TEXT_PT = 8.0
MAX_COLUMNS = 8
# A picture is read without the text around it, by people who do not know the code. NEXT_HOP is BGP's, not the code's.
_WORDS = re.compile(r"\b(printed|in turn|here|kg|street2025|None|nan)\b|\d us\b|[a-z0-9]_\w|\w_[a-z0-9]")
_FORMULA = re.compile(r"\$[^$]*\$")


def faults(figure: "Figure") -> list[str]:
    """Faults that keep a picture from being read by itself at the width of a page, a clause each.

    Wider than 10 inches, text below 8 points, words that only the text around it or the code explains, no title.
    """
    from matplotlib.text import Text

    width = figure.get_size_inches()[0]
    without = {
        text for ax in figure.axes if not ax.axison for axis in (ax.xaxis, ax.yaxis) for text in axis.findobj(Text)
    }
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    texts = [text for text in texts if text not in without]
    small = sorted({text.get_text() for text in texts if float(text.get_fontsize()) < MIN_TEXT_PT - 1e-6})
    odd = sorted({text.get_text() for text in texts if _WORDS.search(_FORMULA.sub("", text.get_text()))})
    titles = [figure.get_suptitle(), *(ax.get_title(place) for ax in figure.axes for place in ("left", "center"))]
    faults = (
        [f"it is {width:g} inches wide, at most {MAX_WIDTH_IN:g} fit a page"] if width > MAX_WIDTH_IN + 1e-6 else []
    )
    faults += [f"texts below {MIN_TEXT_PT:g} points: {_some(small)}"] if small else []
    faults += [f"words of the code or of the text around it: {_some(odd)}"] if odd else []
    return faults if any(titles) else [*faults, "it has no title"]


def _some(texts: list[str]) -> str:
    """The first few texts, each cut to a line."""
    shown = ", ".join(repr(text.replace("\n", " ")[:40]) for text in texts[:4])
    return shown + f" and {len(texts) - 4} more" * (len(texts) > 4)
