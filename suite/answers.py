"""Each notebook's question and answer: at the head of the notebook, in the index and on the site.

The question is the notebook's title. The answer is what `outputs.answer` kept in figures/extra.
"""

import json
import re
import struct
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from railcore.catalog.tables import Markdown, MarkdownText, markdown_table, markdown_words
from suite import legible, outputs, workspace

MARKERS = ("<!-- answer -->", "<!-- /answer -->")  # in a notebook's first cell; the driver writes what is between
_BETWEEN = re.compile("(?<={}\n).*(?={})".format(*MARKERS), re.DOTALL)
_WIDTH_PX, _HEIGHT_PX = 760, 420  # of a picture at a notebook's head, at most: the first screen has it
_PUBLISHED = "With the published parameters. Change the next cell and run all cells: **In short** then has your answer."


@dataclass(frozen=True)
class NotebookAnswer:
    """What a notebook answers.

    notebook: its name.
    question: its title.
    text: the answer, in Markdown.
    picture: id of its most telling figure.
    width: of that picture on the first screen [px].
    """

    notebook: str
    question: str
    text: str
    picture: str
    width: int = _WIDTH_PX

    @property
    def sentence(self) -> str:
        """The answer's first sentence, without Markdown."""
        plain = re.sub(r"[*`]|\[([^]]*)\]\([^)]*\)", r"\1", self.text)
        return legible.SENTENCE_END.split(plain)[0]

    @property
    def place(self) -> str:
        """The picture's file in figures/."""
        item = outputs.items()[self.picture]
        return f"{item['document']}/{item['item']}.png"

    def image(self, figures: str, width: int = 0) -> str:
        """The picture in HTML.

        figures: where the folder of figures is, as seen from the page. width: [px]; 0 for one that fits the first
        screen.
        """
        words = outputs.alternative(self.picture)
        return f'<img src="{figures}/{self.place}" width="{width or self.width}" alt="{words}">'


def _first_screen_width(picture: Path) -> int:
    if not picture.is_file():
        return _WIDTH_PX
    across, down = struct.unpack(">II", picture.read_bytes()[16:24])  # of a PNG's first block
    return min(_WIDTH_PX, round(_HEIGHT_PX * across / down))


def answered() -> list[NotebookAnswer]:
    """The notebooks that have an answer in figures/, by number."""
    found = [stored(path.stem, workspace.FIGURES) for path in sorted(workspace.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))]
    return [answer for answer in found if answer]


def stored(notebook: str, folder: Path) -> NotebookAnswer | None:
    """A notebook's answer among the results in a folder; None where it or its picture's row in data/ is not there."""
    path = folder / "extra" / f"{notebook[:2]}_answer.md"
    if not path.is_file():
        return None
    text, _, link = path.read_text(encoding="utf-8").strip().rpartition("\n\n")
    picture = link.partition("[![")[2].partition("]")[0]
    if picture not in outputs.items():
        return None
    answer = NotebookAnswer(notebook, question(notebook), " ".join(text.split()), picture)
    return replace(answer, width=_first_screen_width(folder / answer.place))


def question(notebook: str) -> str:
    """A notebook's title."""
    try:
        cells = json.loads((workspace.NOTEBOOKS / f"{notebook}.ipynb").read_text(encoding="utf-8"))["cells"]
        return "".join(cells[0]["source"]).partition("\n")[0].removeprefix("# ")
    except (OSError, ValueError, LookupError, TypeError):  # being edited
        return outputs.units.words(notebook)


def headed(source: str, answer: NotebookAnswer | None, figures: str = "") -> str:
    """A notebook's first cell with the answer between its markers; without one with nothing between them.

    figures: where the folder of figures is, as seen from the notebook: "../figures" where it is published.
    """
    text = ""
    if answer:
        told = _PUBLISHED if figures == outputs.PUBLISHED else "With your parameters."
        text = f"{textwrap.fill(answer.text, 120, break_on_hyphens=False)}\n\n"
        text += f'<a href="{figures}/{answer.place}">{answer.image(figures)}</a>\n\n*{told}*\n'
    return _BETWEEN.sub(lambda _: text, source)


def index() -> MarkdownText:
    """Each notebook's question with its answer and a small picture, as far as figures/ has answers.

    Pictures and notebooks are linked from the folder of the notebooks; a picture leads to its notebook.
    """
    return MarkdownText(_table({answer: answer.text for answer in answered()}))


def overview(listed: Iterable[NotebookAnswer]) -> str:
    """Each question with its answer's first sentence and a small picture, linked from the project's folder."""
    return _table({answer: markdown_words(answer.sentence) for answer in listed}, "notebooks/", "figures")


def _table(told: Mapping[NotebookAnswer, str], notebooks: str = "", figures: str = outputs.PUBLISHED) -> str:
    rows = []
    for answer, text in told.items():
        link = f"{notebooks}{answer.notebook}.ipynb"
        image = f'<a href="{link}">{answer.image(figures, outputs.THUMBNAIL_PX)}</a>'
        cell = f"**[{escape(answer.question, quote=False)}]({link})**<br>{text}"
        rows.append({"picture": Markdown(image), "question and answer": Markdown(cell)})
    return markdown_table(rows)
