"""The static site: every link and picture is there, nothing is asked of another host, and all of the suite is on it."""

import os
import posixpath
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import railcore
from railcore.catalog import files
from suite import workspace

pytest.importorskip("myst_nb", reason="the site's packages are not installed: make site, or pip install --group site")
BUILD = files.ROOT / "docs" / "build.py"
NOTEBOOKS = sorted(path.stem for path in workspace.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}


class Page(HTMLParser):
    """Links, pictures, what is loaded, and ids of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.loaded, self.ids, self.without_alt = [], [], set(), []
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in LOADED and given.get(LOADED[tag]) and given.get("rel") != "canonical":
            self.loaded.append(given[LOADED[tag]])
        if tag == "img" and not given.get("alt"):
            self.without_alt.append(given.get("src"))


def build(*arguments, **variables):
    environment = os.environ | variables
    return subprocess.run([sys.executable, BUILD, *arguments], capture_output=True, text=True, env=environment)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, and its pages by path. Worth its 15 s: all pages are built, where Sphinx is installed."""
    folder = tmp_path_factory.mktemp("built") / "site"
    done = build(str(folder))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.fullmatch(r".*index\.html: \d+ pages, \d+ MB\n", done.stdout) and not done.stderr
    assert sorted(path.name for path in folder.parent.iterdir()) == ["site"]
    return folder, {path.relative_to(folder).as_posix(): Page(path) for path in sorted(folder.rglob("*.html"))}


def is_elsewhere(link):
    return re.match(r"(https?:)?//", link) is not None


def test_every_link_and_picture_is_there(site):
    folder, pages = site
    missing = []
    for place, page in pages.items():
        for link in {*page.links, *page.loaded}:
            path, _, anchor = link.partition("#")
            if is_elsewhere(link) or link.startswith(("data:", "mailto:", "javascript:")):
                continue
            target = posixpath.normpath(posixpath.join(posixpath.dirname(place), unquote(path.partition("?")[0])))
            target = place if not path else target
            if not (folder / target).exists():
                missing.append(f"{place}: {link}")
            elif anchor and target in pages and unquote(anchor) not in pages[target].ids:
                missing.append(f"{place}: {link} has no such anchor")
    assert not missing, "\n".join(missing)


def test_links_of_the_guide_lead_somewhere_in_the_project_too():
    missing = []
    for path in [files.ROOT / "README.md", *sorted(BUILD.parent.rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        for link in re.findall(r"\]\(([^)#:\s]+)[)#]|(?:href|src)=\"([^\"#:]+)\"", text):
            if not (path.parent / "".join(link)).exists():
                missing.append(f"{path.name}: {''.join(link)}")
    assert not missing, "\n".join(missing)


def test_nothing_is_loaded_from_another_host(site):
    folder, pages = site
    found = [f"{place}: {link}" for place, page in pages.items() for link in page.loaded if is_elsewhere(link)]
    for path in sorted(folder.rglob("*.css")):
        text = path.read_text(encoding="utf-8")
        found += [
            f"{path.name}: {each}" for each in re.findall(r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]*)", text)
        ]
    assert not found, "\n".join(found)
    assert not [place for place, page in pages.items() if "mathjax" in page.text.lower()]


def test_every_picture_has_a_text_and_those_of_notebooks_are_svg(site):
    _, pages = site
    assert not {place: page.without_alt for place, page in pages.items() if page.without_alt}
    for name in NOTEBOOKS:
        page = pages[f"notebooks/{name}.html"]
        assert not [link for link in page.loaded if link.startswith("data:") or link.endswith(".png")], name
    assert sum(link.endswith(".svg") for link in pages["notebooks/01_network_cost.html"].loaded) >= 3


def test_all_of_the_suite_is_on_it(site):
    folder, pages = site
    assert {f"notebooks/{name}.html" for name in NOTEBOOKS} <= pages.keys()
    front = pages["index.html"]
    assert {f"notebooks/{name}.html" for name in NOTEBOOKS if name[:2] != "00"} <= {*front.links}
    words = re.sub("<[^>]*>", "", front.text)
    assert "make figures" in words and "make test" in words
    assert {f"railcore.{name}" for name in railcore.__all__} <= pages["api.html"].ids
    for path in sorted((workspace.FIGURES / "plans").glob("*.html")):
        assert (folder / "figures/plans" / path.name).read_bytes() == path.read_bytes()
    ledger = pages["reproduction.html"].text
    assert ledger.count("<details>") > 10 and "railonly2025-differs" in pages["reproduction.html"].ids
    assert (folder / "searchindex.js").is_file()


def test_code_is_folded_but_for_the_parameters(site):
    text = site[1]["notebooks/01_network_cost.html"].text
    assert "hb_domain_size" in text.partition("<details")[0] and text.count("<details") > 5
    assert "explore.panel" not in text and "sliders" in text


def test_a_build_that_cannot_be_says_why_and_leaves_the_last_site(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/letter.txt").write_text("dear")
    done = build(str(tmp_path / "site"))
    assert done.returncode == 2 and "is no site: give a new folder" in done.stderr
    (tmp_path / "myst_nb.py").write_text("raise ImportError('not here', name='myst_nb')")
    done = build(str(tmp_path / "other"), PYTHONPATH=str(tmp_path))
    assert done.returncode == 2 and "the site needs myst_nb: run make site, or pip install --group site" in done.stderr
    assert not (tmp_path / "other").exists() and not list(tmp_path.glob(".site*"))


def test_a_notebook_that_is_not_executed_is_refused(monkeypatch):
    monkeypatch.syspath_prepend(str(BUILD.parent))
    import pages

    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": "1", "execution_count": None, "outputs": []}
    with pytest.raises(ValueError, match=r"01_x.ipynb is not executed: run make figures"):
        pages.notebook_page({"cells": [cell]}, "01_x.ipynb", str)
    picture = {"output_type": "display_data", "data": {"image/png": ""}, "metadata": {"image/png": {"alt": "a cat"}}}
    with pytest.raises(ValueError, match=r"01_x.ipynb shows a picture that figures/ has not: 'a cat'"):
        pages.notebook_page({"cells": [cell | {"execution_count": 1, "outputs": [picture]}]}, "01_x.ipynb", str)
