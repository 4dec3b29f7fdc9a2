"""Pages of the site: docs/ with what is filled in, the ledger, the API, and the notebooks as they are shown there."""

import ast
import html
import json
import posixpath
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from railcore.catalog import files
from railcore.catalog.units import words
from suite import outputs, workspace

DOCS = Path(__file__).resolve().parent
SUBJECTS = {
    "network": "Networks, books and reliability",
    "training": "Models, strategies, machines and time",
    "strategies": "The search over all strategies",
    "photonics": "Photonic rails",
    "datacenter": "Datacenters",
    "siting": "Where power is free",
    "planner": "Plans, sweeps and failures",
    "catalog": "Numbers for people",
}
_LINK = re.compile(r"(?P<before>\]\(|\b(?:href|src)=\")(?P<target>[^)\"\s#:]+)(?=[)\"#])")
_PAGES = {  # of the site, for files that are not shown as they are
    **{"README.md": "guide/start.html", "railcore/__init__.pyi": "api.html"},
    "figures/reproduction.md": "reproduction.html",
}
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
            self._add(place, text.replace("<!-- cards -->", cards()), posixpath.join("docs", posixpath.dirname(place)))
        self._add("api.md", api(), "docs")
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
    """A notebook as a page: code folded, pictures from figures/, sliders left out.

    Raises ValueError for a notebook that is not executed, and for a picture that figures/ has not.
    """
    cells = []
    for cell in notebook["cells"]:
        source, tags = "".join(cell["source"]), cell["metadata"].get("tags", [])
        if "explore" in tags:
            cells.append({"cell_type": "markdown", "id": cell["id"], "metadata": {}, "source": _EXPLORE})
        elif cell["cell_type"] == "markdown":
            cells.append({**cell, "source": relinked(source)})
        else:
            if cell["execution_count"] is None:
                raise ValueError(f"{name} is not executed: run make figures")
            hidden = ["hide-input"] * bool(cell["metadata"].get("jupyter", {}).get("source_hidden"))
            shown = [_output(each, name, relinked) for each in cell["outputs"]]
            cells.append({**cell, "source": source, "metadata": {"tags": hidden}, "outputs": shown})
    return {**notebook, "cells": cells}


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
        text = "".join(data["text/markdown"])
        text = re.sub(r'(<img src="[^"]+)\.png" width', r'\1.svg" loading="lazy" width', text)
        return {**output, "data": {"text/markdown": relinked(text)}}
    return output


def cards() -> str:
    """A card for each notebook that has an answer: its picture, its name, and the first sentence of the answer."""
    found = []
    for path in sorted(workspace.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb")):
        stored = workspace.FIGURES / "extra" / f"{path.name[:2]}_answer.md"
        if not stored.is_file():
            continue
        text, _, link = stored.read_text(encoding="utf-8").strip().rpartition("\n\n")
        item = outputs.items()[link.partition("[![")[2].partition("]")[0]]
        picture = f"../figures/{item['document']}/{item['item']}.svg"
        sentence = re.split(r"(?<=[.!?])\s", re.sub(r"[*`]|\[([^]]*)\]\([^)]*\)", r"\1", " ".join(text.split())))[0]
        image = f'<img src="{picture}" alt="{html.escape(item["must_show"])}" loading="lazy">'
        told = f"<strong>{words(path.stem)}</strong><span>{html.escape(sentence)}</span>"
        found.append(f'<a href="../notebooks/{path.name}">{image}{told}</a>')
    return "\n".join(['<div class="cards">', *found, "</div>"])


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


def api() -> str:
    """The public names of the package, by subject, from their docstrings."""
    stub = ast.parse((files.PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    names: dict[str, list[str]] = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            names.setdefault(node.module.split(".")[0], []).append(node.names[0].name)
    lines = [
        "# API",
        "",
        "`import railcore as rc` offers these names, loaded when they are used. Numbers are in SI units;",
        "",
    ]
    lines[2] += ' a text\nwith its unit, such as `"400 Gbps"`, is taken too. **Bandwidth is one direction, per GPU.**'
    for subject, title in SUBJECTS.items():
        lines += [f"## {title}", "", "```{eval-rst}"]
        for name in sorted(names[subject], key=str.lower):
            kind = "class" if name[0].isupper() else "function"
            lines += [f".. auto{kind}:: railcore.{name}", *(["   :members:"] if kind == "class" else []), ""]
        lines += ["```", ""]
    return "\n".join(lines)
