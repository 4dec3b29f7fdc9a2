"""Pages of the site: docs/ with what is filled in, the ledger, the API, and the notebooks as they are shown there."""

import json
import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import api
import gallery

from railcore.catalog import files, tables, units
from suite import answers, outputs, workspace
from suite.driver import parameters

DOCS = Path(__file__).resolve().parent
_LINK = re.compile(r"(?P<before>\]\(|\b(?:href|src)=\")(?P<target>[^)\"\s#:]+)(?=[)\"#])")
_PAGES = {  # of the site, for files that are not shown as they are
    **{"README.md": "guide/first_plan.html", "railcore/__init__.pyi": "api.html"},
    "figures/reproduction.md": "reproduction.html",
    **{"CHANGELOG.md": "changelog.html", "LICENSE": "LICENSE.txt", "CITATION.cff": "CITATION.txt"},
}
_ANSWER = re.compile(r"{}\n(.+?)(?:\n\*\w[^\n]*\*)?\s*{}".format(*answers.MARKERS), re.DOTALL)  # without its note
_LEGIBLE_PX = 700  # least width at which letters of a picture of 960 px are read with ease
_NEIGHBOURS = re.compile(r"^\[index\]\(.*\Z", re.DOTALL | re.MULTILINE)  # links that end the opening cell
_SLIDERS = "In JupyterLab (`make lab`) this notebook ends with sliders for its parameters."
_SHOW_CODE = '<label class="show-code"><input type="checkbox"> show code</label>'  # on a phone


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
        self._add("reproduction.md", folded_ledger(ledger), "figures")
        changes = (files.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
        self._add("changelog.md", f"---\norphan: true\n---\n{changes}", "")
        for path in sorted(workspace.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")):
            notebook = json.loads(path.read_text(encoding="utf-8"))
            page = notebook_page(notebook, path.name, self._relink_of_notebook())
            self.texts[f"notebooks/{path.name}"] = json.dumps(page, ensure_ascii=False)

    def _relink_of_notebook(self) -> Callable[[str], str]:
        """For the texts of a notebook's page in their order: where a picture first stands, others can link to it."""
        anchors: set[str] = set()

        def anchored(found: re.Match[str]) -> str:
            name = gallery.anchor({"document": found[1], "item": found[2]})
            named = "" if name in anchors else f'id="{name}" '
            anchors.add(name)
            return found[0] + named

        def relinked(text: str) -> str:
            text = re.sub(r'<a href="\.\./figures/([^/"]+)/([^/"]+)\.\w+"><img ', anchored, text)
            return self._relinked(text, "notebooks", "notebooks")

        return relinked

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

    Links to the notebooks before and after it stand at its end too. The answer and a legible picture of the opening
    cell are not shown again below it. Code that shows nothing is in the fold of the next cell that shows something.

    Raises ValueError for a notebook that is not executed, and for a picture that figures/ has not.
    """
    cells: list[dict[str, Any]] = []
    code: list[str] = []
    foot: list[str] = []
    answer = ""
    for cell in notebook["cells"]:
        source, tags = "".join(cell["source"]), cell["metadata"].get("tags", [])
        if "explore" in tags:
            foot.insert(0, _SLIDERS)
        elif cell["cell_type"] == "markdown":
            foot += _NEIGHBOURS.findall(source)
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
            cells.append(_text(f"{cell['id']}-code", _SHOW_CODE))
        else:
            code.append(source)
            shown = [_output(each, name, relinked) for each in cell["outputs"]]
            if answer:
                shown = [each for each in shown if not _repeats(each, source, answer)]
            if shown:
                cells.append(_folded(cell, "\n\n".join(code), shown, "code"))
                code = []
    if foot:
        cells.append(_text("foot", relinked("\n\n".join(dict.fromkeys(foot)))))
    return {**notebook, "cells": cells}


def _text(name: str, source: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}


def _folded(cell: dict[str, Any], source: str, shown: list[dict[str, Any]], prompt: str) -> dict[str, Any]:
    kept = {"parameters"} & {*cell["metadata"].get("tags", [])}
    metadata = {"tags": ["hide-input", *kept], "mystnb": {"code_prompt_show": prompt, "code_prompt_hide": prompt}}
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
    """A text of a notebook with the SVG of each picture that has one in figures/, and its height beside its width."""

    def place(found: re.Match[str]) -> str:
        picture = workspace.FIGURES / f"{found[1]}.svg"
        if not picture.is_file():
            return found[0]
        width, height = gallery.size(picture)
        high = f' width="{found[2]}" height="{round(int(found[2]) * height / width)}"' if found[2] else ""
        return f'"../figures/{found[1]}.svg"{high}'

    return re.sub(r'"\.\./figures/([^"]+)\.png"(?: width="(\d+)")?', place, text)


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
        image = f'<a href="{place}">{gallery.image(found[0], "../figures")}</a>'
        return {**output, "data": {"text/html": relinked(image)}, "metadata": {}}
    if "text/markdown" in data:
        text = _scalable("".join(data["text/markdown"])).replace("<img ", '<img loading="lazy" ')
        return {**output, "data": {"text/markdown": relinked(text)}}
    return output


def folded_ledger(ledger: str) -> str:
    """The ledger with the claims of each document and verdict folded away."""

    def fold(found: re.Match[str]) -> str:
        heading, body = found[1], found[2].strip()
        if "<details>" in body:
            return found[0]
        return f"## {heading}\n\n{tables.folded(f'Show {_rows(body)}', body)}\n"

    return re.sub(r"^## (.*)\n((?:(?!^## ).*\n)*)", fold, ledger, flags=re.MULTILINE)


def _rows(table: str) -> str:
    return f"{sum(line.startswith('|') for line in table.splitlines()) - 2} rows"
