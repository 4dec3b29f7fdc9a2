"""Pages of the site: docs/ with what is filled in, the ledger, the API, and the notebooks as they are shown there."""

import html
import json
import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import api
import gallery

from railcore.catalog import files, units
from suite import answers, outputs, workspace
from suite.driver import parameters

DOCS = Path(__file__).resolve().parent
_LINK = re.compile(r"(?P<before>\]\(|\b(?:href|src)=\")(?P<target>[^)\"\s#:]+)(?=[)\"#])")
_PAGES = {  # of the site, for files that are not shown as they are
    **{"README.md": "guide/first_plan.html", "railcore/__init__.pyi": "api.html"},
    "figures/reproduction.md": "reproduction.html",
}
_ANSWER = re.compile(r"{}\n(.+?)(?:\n\*\w[^\n]*\*)?\s*{}".format(*answers.MARKERS), re.DOTALL)  # without its note
_LEGIBLE_PX = 700  # least width at which letters of a picture of 960 px are read with ease
_EXPLORE = "In JupyterLab (`make lab`) this place has sliders over the picture."


class Pages:
    """Pages by path in the site's source, with links that lead within the site.

    linked: files of the project that a page links to or shows.
    """

    def __init__(self) -> None:
        self.linked: set[str] = set()
        self.texts: dict[str, str] = {}
        for path in sorted(DOCS.rglob("*.md")):
            text = path.read_text(encoding="utf-8")
            place = path.relative_to(DOCS).as_posix()
            self._add(place, gallery.filled(text), posixpath.join("docs", posixpath.dirname(place)))
        for place, text in api.pages().items():
            self._add(place, text, posixpath.join("docs", posixpath.dirname(place)))
        ledger = (workspace.FIGURES / "reproduction.md").read_text(encoding="utf-8")
        self._add("reproduction.md", folded(ledger), "figures")
        for path in sorted(workspace.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")):
            notebook = json.loads(path.read_text(encoding="utf-8"))
            page = notebook_page(notebook, path.name, lambda text: self._relinked(text, "notebooks", "notebooks"))
            self.texts[f"notebooks/{path.name}"] = json.dumps(page, ensure_ascii=False)

    def _add(self, place: str, text: str, links_from: str) -> None:
        self.texts[place] = self._relinked(text, links_from, posixpath.dirname(place))

    def _relinked(self, text: str, links_from: str, folder: str) -> str:
        """A text whose links are relative to one folder of the project, as a page in a folder of the site."""

        def link(found: re.Match[str]) -> str:
            path = posixpath.normpath(posixpath.join(links_from, found["target"]))
            page = self._page_of(path)
            if page is None:
                if not (files.ROOT / path).is_file():
                    return found[0]  # a word in brackets that is no link
                self.linked.add(path)
            return found["before"] + posixpath.relpath(page or path, folder or ".")

        return _LINK.sub(link, text)

    def _page_of(self, path: str) -> str | None:
        """The page that shows a file of the project; None for one that is linked as it is."""
        if path in _PAGES:
            return _PAGES[path]
        stem, end = posixpath.splitext(path)
        if (end == ".ipynb" and path.startswith("notebooks/")) or (end == ".md" and path.startswith("docs/")):
            return f"{stem.removeprefix('docs/')}.html"
        return None


def notebook_page(notebook: dict[str, Any], name: str, relinked: Callable[[str], str]) -> dict[str, Any]:
    """A notebook as a page: the answer first, parameters and code folded, pictures from figures/, sliders left out.

    The answer and a legible picture of the opening cell are not shown again below it. Code that shows nothing is in
    the fold of the next cell that shows something.

    Raises ValueError for a notebook that is not executed, and for a picture that figures/ has not.
    """
    cells: list[dict[str, Any]] = []
    code: list[str] = []
    answer = ""
    for cell in notebook["cells"]:
        source, tags = "".join(cell["source"]), cell["metadata"].get("tags", [])
        if "explore" in tags:
            cells.append({"cell_type": "markdown", "id": cell["id"], "metadata": {}, "source": _EXPLORE})
        elif cell["cell_type"] == "markdown":
            if found := _ANSWER.search(source):
                answer = _scalable(found[1])
                source = source.replace(found[0], f'<div class="answer">\n\n{answer}\n\n</div>')
            if not (answer and source.strip() == "## In short"):
                cells.append({**cell, "source": relinked(source)})
        elif cell["execution_count"] is None:
            raise ValueError(f"{name} is not executed: run make figures")
        elif "parameters" in tags:
            count = units.counted(len(parameters.defaults({"cells": [{**cell, "source": source}]})), "parameters")
            cells.append(_folded(cell, source, [], f"{count}, yours to change in JupyterLab (make lab)"))
        else:
            code.append(source)
            shown = [_output(each, name, relinked) for each in cell["outputs"]]
            if answer:
                shown = [each for each in shown if not _repeats(each, source, answer)]
            if shown:
                cells.append(_folded(cell, "\n\n".join(code), shown, "code"))
                code = []
    return {**notebook, "cells": cells}


def _folded(cell: dict[str, Any], source: str, shown: list[dict[str, Any]], prompt: str) -> dict[str, Any]:
    metadata = {"tags": ["hide-input"], "mystnb": {"code_prompt_show": prompt, "code_prompt_hide": prompt}}
    return {**cell, "source": source, "metadata": metadata, "outputs": shown}


def _repeats(output: dict[str, Any], source: str, answer: str) -> bool:
    """Whether the opening cell has an output of the cell with this source: the answer, or its picture, legible."""
    data = output.get("data", {})
    picture = re.search(r'src="[^"]*"', data.get("text/html", ""))
    if picture is None:
        return "outputs.answer(" in source and "text/markdown" in data
    opening = re.search(rf'{re.escape(picture[0])} width="(\d+)"', answer)
    return opening is not None and int(opening[1]) >= _LEGIBLE_PX


def _scalable(text: str) -> str:
    """A text of a notebook with the SVG of each picture that has one in figures/."""

    def place(found: re.Match[str]) -> str:
        path = f"{found[1]}.svg"
        return path if (workspace.FIGURES / path.removeprefix("../figures/")).is_file() else found[0]

    return re.sub(r'(?<=")(\.\./figures/[^"]+)\.png(?=")', place, text)


def _output(output: dict[str, Any], name: str, relinked: Callable[[str], str]) -> dict[str, Any]:
    data = output.get("data", {})
    if "image/png" in data:
        alternative = output["metadata"]["image/png"]["alt"]
        found = [
            item
            for item in outputs.items().values()
            if item["notebook"][:2] == name[:2] and item["must_show"] == alternative and "svg" in item["files"].split()
        ]
        if not found:
            raise ValueError(f"{name} shows a picture that figures/ has not: {alternative!r}")
        place = f"../figures/{found[0]['document']}/{found[0]['item']}.svg"
        image = f'<img src="{place}" alt="{html.escape(alternative)}" loading="lazy">'
        return {**output, "data": {"text/html": relinked(f'<a href="{place}">{image}</a>')}, "metadata": {}}
    if "text/markdown" in data:
        text = _scalable("".join(data["text/markdown"])).replace("<img ", '<img loading="lazy" ')
        return {**output, "data": {"text/markdown": relinked(text)}}
    return output


def folded(ledger: str) -> str:
    """The ledger with the claims of each document and verdict folded away."""

    def fold(found: re.Match[str]) -> str:
        heading, body = found[1], found[2].strip()
        if "<details>" in body:
            return found[0]
        return f"## {heading}\n\n<details><summary>{_rows(body)}</summary>\n\n{body}\n\n</details>\n\n"

    return re.sub(r"^## (.*)\n((?:(?!^## ).*\n)*)", fold, ledger, flags=re.MULTILINE)


def _rows(table: str) -> str:
    return f"{sum(line.startswith('|') for line in table.splitlines()) - 2} rows"
