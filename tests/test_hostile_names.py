"""Names and sources of data that look like HTML, Markdown or formulas are shown letter by letter, everywhere."""

import csv
import io
import json
import re
import runpy
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import mistune
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import catalog
from railcore.__main__ import main
from railcore.catalog import files, items, tables
from suite.plotting import house_style

MARKUP = "<script>alert(1)</script><img src=x onerror=alert(2)>&lt;"
LINKS = "[a](javascript:alert(3)) ![b](http://example.invalid/c.png) <http://example.invalid>"
MARKS, DOLLARS = "a|b || `c` *d* _e_ **f** \\g", "$x$ and $\\frac{"
NAMES = [MARKUP, LINKS, MARKS, DOLLARS, "=1+1", "@SUM(A1)", "+A1", "-A1", "# x", "{{ 1 }}"]
FORMULAS = ["=1+1", "+A1", "-A1", "@SUM(A1)", "=cmd|' /C calc'!A0", "\t=1", "-p gpus", "- see note", "-1+1", "-4 dB"]
SPEC = """
[cluster]
platform = 'PLATFORM'
gpus = 64
[job]
model = "Llama-3 8B"
tokens = 1e12
batch = 512
search = {context = 1, micro_batch = 1}
[network]
candidates = ["rail-optimized", "photonic rails"]
"""


class Shown(HTMLParser):
    """What a browser makes of a text: its tags, where links and pictures lead, and the words that are seen."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.targets, self.words = set(), [], ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        names = {name for name, _ in attributes}
        assert not any(name.startswith("on") for name in names), (tag, names)
        self.targets += [value for name, value in attributes if name in ("href", "src")]

    def handle_data(self, text):
        self.words += text


def rendered(markdown):
    """Markdown with tables as Jupyter renders it: tags of its own pass."""
    return Shown(str(mistune.create_markdown(escape=False, plugins=["table"])(markdown)))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_a_markdown_table_is_shown_letter_by_letter(name):
    shown = rendered(tables.markdown_table([{"name": name, "number": 3}]))
    assert shown.tags <= {"table", "thead", "tbody", "tr", "th", "td", "span"} and not shown.targets
    assert name.replace("|", "/") in shown.words
    assert rendered(f"Best is {tables.markdown_words(name)}.").words.strip() == f"Best is {name}."


@given(st.text(st.characters(categories=["L", "N", "P", "S"], include_characters=" "), max_size=30))
def test_any_words_are_shown_letter_by_letter(text):
    words = " ".join(text.split())
    shown = rendered(f"Best is {tables.markdown_words(words)}, we find.")
    assert " ".join(shown.words.split()) == " ".join(f"Best is {words}, we find.".split())
    assert shown.tags <= {"p", "span"}


def test_what_is_made_as_markdown_keeps_our_tags_alone():
    ours = '<details><summary>3 tables</summary>\n\n<a href="../x.svg"><img src="../x.png" width="240" alt="b"></a><br>'
    assert tables.MarkdownText(ours).text == ours
    foreign = (MARKUP, '<a href="javascript:alert(1)">', '<img src="//example.invalid/x">', "<details ontoggle=x>")
    for markup in foreign:
        assert not rendered(tables.MarkdownText(f"Best is {markup}").text).targets
        assert rendered(tables.MarkdownText(f"Best is {markup}").text).tags <= {"p"}


@pytest.mark.parametrize("text", FORMULAS)
def test_a_cell_that_a_spreadsheet_would_compute_is_a_text(text):
    frame = pd.DataFrame({"name": [text, "plain"], "number": [-1.5, 2]})
    for written in (tables.csv_text(["name", "number"], frame.to_dict("records")), tables.frame_csv(frame)):
        first, second = csv.DictReader(io.StringIO(written))
        assert first == {"name": f"'{text}", "number": "-1.5"} and second["name"] == "plain"


@pytest.mark.parametrize("cell", ["-1.5", "+3", "-2.5e-9", "-3.1%", "=", "-", "a=b", "-inf", "", None, -3])
def test_numbers_and_signs_alone_stay_what_they_are(cell):
    assert tables.spreadsheet_cell(cell) == cell


HOSTILE = {"tags": MARKUP, "formula": "=1+1|x", "links": LINKS, "marks": MARKS, "dollars": DOLLARS}
QUICK = ("tags", "formula")  # 2 s each; `make slow` has the others


@pytest.fixture(
    params=[pytest.param(HOSTILE[name], marks=() if name in QUICK else pytest.mark.slow, id=name) for name in HOSTILE]
)
def hostile(request, monkeypatch, tmp_path):
    """The DGX H100 under a hostile name, from hostile sources, in a catalog of a user's own."""
    name, folder = request.param, tmp_path / "mine"
    folder.mkdir()
    for family, old in (("platforms", "DGX H100"), ("gpus", "H100"), ("efficiencies", "H100")):
        with (files.DATA / "catalog" / f"{family}.csv").open(newline="", encoding="utf-8") as stream:
            rows = [row for row in csv.DictReader(stream) if row["name"] == old]
        for row in rows:
            row["name"], row["source"], row["note"] = name, f"{name} by {name}", name
            if row["parameter"] == "gpu":
                row["value"] = name
        with (folder / f"{family}.csv").open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, catalog.COLUMNS)
            writer.writeheader()
            writer.writerows(rows)
    monkeypatch.setenv("RAILCORE_CATALOG", str(folder))
    spec = tmp_path / "spec.toml"
    spec.write_text(SPEC.replace("PLATFORM", name))
    return name, spec


def test_a_plan_shows_hostile_names_as_they_are(hostile, tmp_path, capsys):
    name, spec = hostile
    out = {form: tmp_path / f"plan.{form}" for form in ("html", "markdown", "json", "csv")}
    words = [word for form, path in out.items() for word in (f"--{form}", str(path))]
    assert main(["plan", str(spec), *words]) == 0, capsys.readouterr().err
    page = Shown(out["html"].read_text())
    assert not page.tags & {"script", "img", "iframe"} and name in page.words
    assert all(target.startswith("#") for target in page.targets)
    text = rendered(out["markdown"].read_text())
    assert not text.tags & {"script", "img", "a", "em", "strong"} and not text.targets
    assert name.replace("|", "/") in text.words.replace("\u00a0", " ")
    assert name in json.dumps(json.loads(out["json"].read_text()), ensure_ascii=False).replace("\\\\", "\\")
    cells = [cell for path in out["csv"].iterdir() for row in csv.reader(path.open(newline="")) for cell in row]
    assert any(name in cell for cell in cells)
    for cell in cells:
        assert not re.match(r"[=@]|[+-](?![\d.e+-]+$|inf$|$)", cell), cell


def test_lists_of_the_command_line_show_hostile_names(hostile, capsys):
    name, _ = hostile
    for arguments in (["list", "platforms"], ["list", "gpus"], ["assumptions"], ["support", name, "Llama-3 8B"]):
        assert main(arguments) == 0 and name in capsys.readouterr().out


def test_the_site_shows_hostile_names(monkeypatch):
    """A ledger and a notebook whose data are hostile, rendered as the site's own parser does."""
    config = pytest.importorskip("myst_parser.config.main")
    parsers = pytest.importorskip("myst_parser.parsers.mdit")
    monkeypatch.syspath_prepend(str(files.ROOT / "docs"))
    import pages

    enabled = set(runpy.run_path(str(files.ROOT / "docs" / "conf.py"))["myst_enable_extensions"])
    from markdown_it.renderer import RendererHTML

    parser = parsers.create_md_parser(config.MdParserConfig(enable_extensions=enabled), RendererHTML)
    for name in NAMES:
        table = tables.markdown_table([{"claim": name, "reason": f"{name} by {name}"}])
        ledger = pages.folded_ledger(f"# Ledger\n\n## flops2024 differs\n\n{table}\n")
        cell = {"cell_type": "code", "id": "a", "source": [], "execution_count": 1, "metadata": {}}
        data = {"text/markdown": tables.MarkdownText(f"Best is {tables.markdown_words(name)}.\n\n{table}").text}
        cell["outputs"] = [{"output_type": "display_data", "data": data, "metadata": {}}]
        page = pages.notebook_page({"cells": [cell]}, "01_network_cost.ipynb", str)
        for text in (ledger, page["cells"][0]["outputs"][0]["data"]["text/markdown"]):
            shown = Shown(parser.render(text))
            assert not shown.tags & {"script", "img", "a", "em", "strong", "code", "div"} and not shown.targets
            assert name.replace("|", "/") in shown.words


def test_a_chart_draws_a_name_with_dollars(tmp_path):
    house_style()
    figure, ax = plt.subplots()
    ax.set(title=DOLLARS, xlabel=MARKUP)
    ax.plot([1, 1000], label=DOLLARS)
    ax.legend()
    figure.savefig(tmp_path / "a.svg")
    figure.savefig(tmp_path / "a.png")
    plt.close(figure)
    assert "<script" not in (tmp_path / "a.svg").read_text()


def test_a_name_that_a_terminal_or_a_line_would_not_show_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("RAILCORE_CATALOG", str(tmp_path))
    for name in ("a\nb", "a\x1b[31mb", "a\u2028b", "a\u202eb"):
        row = {"name": name, "parameter": "power", "value": "2", "unit": "kW", "kind": "datasheet", "source": "q"}
        (tmp_path / "gpus.csv").write_text(tables.csv_text(catalog.COLUMNS, [row]))
        items._family.cache_clear()
        with pytest.raises(
            ValueError, match=r"gpus\.csv line \d(?s:.*)column 'name' has a control or invisible character"
        ):
            catalog.names("gpus")
