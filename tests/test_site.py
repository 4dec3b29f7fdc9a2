"""The static site: every link and picture is there, nothing is asked of another host, and all of the suite is on it."""

import doctest
import html
import inspect
import os
import posixpath
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

import railcore
from railcore.catalog import files
from suite import answers, outputs, workspace

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
    for path in sorted((workspace.FIGURES / "plans").glob("*.html")):
        place = f"figures/plans/{path.name}"
        links = re.search(r'<style>.{,60}</style>\n<p class="way-back">.*</p>\n?', pages[place].text)[0]
        assert pages[place].text.replace(f"\n{links.rstrip()}", "") == path.read_text(encoding="utf-8")
        assert place in pages["plans.html"].links and "../../plans.html" in pages[place].links
        assert ElementTree.parse(folder / f"thumbnails/plans/{path.stem}.svg").getroot().tag.endswith("}svg")
    ledger = pages["reproduction.html"].text
    assert ledger.count("<details>") > 10 and "railonly2025-differs" in pages["reproduction.html"].ids
    assert (folder / "searchindex.js").is_file()


def test_a_notebook_begins_with_its_answer_and_folds_parameters_and_code(site):
    for name in NOTEBOOKS:
        page = site[1][f"notebooks/{name}.html"].text.partition("<article")[2].partition("</article")[0]
        open_ = re.sub("<details.*?</details>", "", page, flags=re.DOTALL)
        assert "cell_input" in page and "cell_input" not in open_, f"{name}: code is open"
        assert "explore.panel" not in page, name
        if name[:2] != "00":
            answer, picture, parameters = (page.find(mark) for mark in ('class="answer"', "<img ", "yours to change"))
            assert 0 < answer < picture < parameters, f"{name}: answer, picture, parameters stand in another order"
            assert "<h2>In short" not in page and "sliders" in page, name


def test_every_page_has_the_version_and_the_license(site):
    folder, pages = site
    own = {place: page for place, page in pages.items() if not place.startswith("figures/")}
    assert not [place for place, page in own.items() if f"railcore {railcore.__version__} ·" not in page.text]
    assert (folder / "LICENSE.txt").read_bytes() == (files.ROOT / "LICENSE").read_bytes()


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


def told(page):
    """A page's words, as they are read."""
    return html.unescape(re.sub("<[^>]*>", "", page.text))


@pytest.fixture
def api(monkeypatch):
    monkeypatch.syspath_prepend(str(BUILD.parent))
    import api

    return api


@pytest.mark.parametrize("name", railcore.__all__)
def test_a_name_of_the_api_has_a_page_with_types_an_example_that_ran_and_its_source(name, site):
    page, target = site[1][f"api/{name}.html"], getattr(railcore, name)
    assert f"railcore.{name}" in page.ids
    assert any(link.startswith("../_modules/railcore/") and link.endswith(f"#{name}") for link in page.links)
    taken = inspect.signature(target).parameters.values()
    listed = page.text.partition(">Parameters</p>")[2].partition('<p class="rubric"')[0]
    assert [each.name for each in taken] == re.findall(r"(?:<dt>|, )<strong>\**(\w+)</strong>", listed)
    signature = html.unescape(re.sub("<[^>]*>", "", page.text.partition('<dl class="py')[2].partition("</dt>")[0]))
    assert not [each.name for each in taken if not re.search(rf"^\W*{each.name}\b", signature, re.MULTILINE)]
    (example,) = doctest.DocTestFinder(recurse=False).find(target, name, globs={})
    for line in "".join(f"{each.source}{each.want}" for each in example.examples).splitlines():
        assert len(line) <= 88 and line in told(page)


def test_the_api_says_units_defaults_and_what_a_quantity_may_be(site):
    words = told(site[1]["api/find_places.html"])
    assert "demand_w: Quantity[W]" in words and 'demand_wQuantity [W], such as "1.2 GW"' in words
    assert re.search(
        r'apart_mQuantity \[m\], such as "75 km"; by default None\s*Least distance between two of the', words
    )
    assert "modelTransformer or name" in told(site[1]["api/search.html"])
    for place in ("api.html", "api/rail_only.html", "api/RailFabric.html"):
        assert re.search(r'"400 Gbps"\W{,2} is 5e\+10 bytes/s', told(site[1][place])), place


def test_the_api_lists_what_a_class_has_and_the_options_that_a_function_hands_to_it(site):
    fields = told(site[1]["api/RailFabric.html"])
    assert re.search(r'nic_BpsQuantity \[bytes/s\], such as "400 Gbps"; by default None\s*Of a GPU', fields)
    assert "as in HBDomains" not in fields and "warningstuple[str, ...]; computed" in fields
    options = site[1]["api/rail_only.html"].text.partition(">Options</p>")[2].partition('<p class="rubric"')[0]
    listed = re.findall(r"<dt><strong>(\w+)</strong>", options)
    assert {"rails", "planes", "nic_Bps"} <= {*listed} and not {"gpus", "radix", "oversubscription"} & {*listed}
    taken = inspect.signature(type(railcore.rail_only(16, 8, 64))).parameters
    railcore.rail_only(16, 8, 64, **{name: taken[name].default for name in listed})


def test_every_name_of_the_api_has_one_subject_and_pictures_are_of_the_suite(api, site):
    assert sorted(" ".join(api.SUBJECTS.values()).split()) == sorted(railcore.__all__)
    assert {f"api/{name}.html" for name in railcore.__all__} <= {*site[1]["api.html"].links}
    for name, target in api.results().items():
        assert f"{target.__module__}.{name}" in site[1][f"api/{name}.html"].ids
        assert f"api/{name}.html" in site[1]["api.html"].links
    assert "RailFabric.html#railcore.network.topology.rails.RailFabric" in site[1]["api/rail_only.html"].links
    for name, item in api.PICTURES.items():
        page = site[1][f"api/{name}.html"]
        assert f"../figures/{item.replace('.', '/', 1)}.svg" in page.loaded
        assert f"../notebooks/{outputs.items()[item]['notebook']}.html" in page.links


def test_the_gallery_has_every_picture_of_a_question_small_and_loaded_when_seen(site):
    folder, pages = site
    page, asked = pages["notebooks.html"], answers.answered()
    headings = [html.unescape(each) for each in re.findall("<h2>(.*?)<a", page.text)]
    assert headings == [f"{answer.notebook[:2]} {answer.question}" for answer in asked] and len(asked) > 20
    notebooks = {answer.notebook for answer in asked}
    pictures = [each for each in outputs.items().values() if "png" in each["files"] and each["notebook"] in notebooks]
    thumbnails = {f"thumbnails/{each['document']}/{each['item']}.png" for each in pictures}
    assert thumbnails == {link for link in page.loaded if link.startswith("thumbnails/")} and len(thumbnails) > 90
    assert page.text.count('loading="lazy"') == len(thumbnails)
    assert sum((folder / each).stat().st_size for each in thumbnails) < 5e6
    first = page.text.partition('<div class="cards tiles">')[2].partition("</a>")[0]
    assert asked[0].picture.replace(".", "/") in first
    assert f'notebooks/{asked[0].notebook}.html#{asked[0].picture.replace(".", "-")}"' in first


def test_the_front_page_has_a_plan_with_its_answer_and_cards_with_questions(site):
    front = told(site[1]["index.html"])
    readme = (files.ROOT / "README.md").read_text(encoding="utf-8")
    answer, rests = re.search(r"railcore plan cluster.toml.*\n((?:.+\n)+)\n((?:(?!network  ).+\n)+)", readme).groups()
    shown = f"{' '.join(answer.split())}\n\n{' '.join(rests.split())}"
    assert f"$ railcore plan cluster.toml\n{shown}\n...\n" in front and "# cluster.toml" in front
    for each in answers.answered():
        assert f"{each.question}{each.sentence}" in front
    assert front.index("HB domain: the GPUs that NVLink") < front.index(answers.answered()[0].question)
    assert f"Version {railcore.__version__}" in front
    assert {"LICENSE.txt", "CITATION.txt", "changelog.html", "guide/networks.html"} <= {*site[1]["index.html"].links}


def test_a_readme_without_its_plan_is_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BUILD.parent))
    import gallery

    (tmp_path / "README.md").write_text("no plan")
    monkeypatch.setattr(files, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=r"README.md has no plan of cluster.toml"):
        gallery.filled("<!-- plan -->")


def _cell(kind, source, outputs=(), *tags):
    cell = {"cell_type": kind, "id": "a", "metadata": {"tags": [*tags]}, "source": source.splitlines(keepends=True)}
    return cell | ({"execution_count": 1, "outputs": [*outputs]} if kind == "code" else {})


def test_a_page_shows_an_answer_once_and_has_no_fold_without_an_output(monkeypatch):
    monkeypatch.syspath_prepend(str(BUILD.parent))
    import pages

    item = outputs.items()["extra.01_saving_map"]
    said = {"output_type": "execute_result", "data": {"text/markdown": "Yes."}}
    drawn = {"output_type": "display_data", "data": {"image/png": ""}}
    drawn["metadata"] = {"image/png": {"alt": item["must_show"]}}
    opening = '# Why?\n\n{}\nYes.\n\n<img src="../figures/extra/01_saving_map.png" width="{}">\n\n*Change it.*\n{}\n'
    neighbours = "[index](00_index.ipynb) \u00b7\n[02 \u2192](02_x.ipynb)"
    opening += f"\n{neighbours}"
    rest = [
        _cell("code", "a: int = 1  # one\nb: int = 2  # two", (), "parameters"),
        _cell("code", "import this"),
        _cell("markdown", "## In short\n"),
        _cell("code", 'outputs.answer("Yes.")', [said]),
        _cell("code", "draw()", [drawn]),
        _cell("code", "tell()", [said]),
    ]

    def page(width):
        first = _cell("markdown", opening.format(answers.MARKERS[0], width, answers.MARKERS[1]))
        return pages.notebook_page({"cells": [first, *rest]}, "01_x.ipynb", str)["cells"]

    first, parameters, switch, last, foot = page(760)
    assert "show code" in switch["source"] and foot["source"] == neighbours
    assert first["source"].endswith(foot["source"])
    assert first["source"].count("Yes.") == 1 and "Change it" not in first["source"]
    assert "../figures/extra/01_saving_map.svg" in first["source"] and ".png" not in first["source"]
    assert parameters["metadata"]["mystnb"]["code_prompt_show"].startswith("2 parameters, yours to change")
    assert last["source"] == 'import this\n\noutputs.answer("Yes.")\n\ndraw()\n\ntell()'
    assert parameters["metadata"]["tags"] == ["hide-input", "parameters"] and last["metadata"]["tags"] == ["hide-input"]
    *_, drawn_again, last, foot = page(400)  # too small to read
    assert drawn_again["source"].endswith("draw()") and last["source"] == "tell()"
    rest[:0] = [_cell("markdown", "{}\n{}\n".format(*answers.MARKERS))]
    cells = pages.notebook_page({"cells": rest}, "01_x.ipynb", str)["cells"]
    assert len(cells) == 7, "In short is left out where no answer is above"
