"""The page of a plan: what it says, that it stands alone, that all can read it. tests/browser has it in Chromium."""

import copy
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from plan_documents import DRAWING, document, documents

import railcore as rc
from railcore.network.topology.photonic import PhotonicRails
from railcore.planner import interval, network_diagram, page, pictures, shown
from railcore.planner.report import verdicts
from railcore.planner.spec import GoalsSpec
from railcore.planner.time_columns import own_run_columns

ALONE = {"meta", "path", "use", "rect"}  # they have no end tag of their own, or are written <path ... />
TOKENS = ("state", "kind", "id", "key", "misses", "colour", "align", "grade")  # what nobody reads as text
PAGES = {"one": [document()], "several": documents()}


class Parsed(HTMLParser):
    """Elements of a page, each with its attributes and the names of those around it, and the texts between them."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.texts, self.open = [], [], []
        self.feed(html)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes), tuple(self.open)))
        if tag not in ALONE:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes), tuple(self.open)))

    def handle_endtag(self, tag):
        if tag not in ALONE:
            assert self.open and self.open[-1] == tag, f"</{tag}> within {self.open}"
            self.open.pop()

    def handle_data(self, text):
        if text.strip():
            self.texts.append(text.strip())

    def of(self, tag):
        return [attributes for name, attributes, _ in self.elements if name == tag]

    def attributes(self, name):
        return [attributes[name] for _, attributes, _ in self.elements if name in attributes]


@pytest.fixture(params=PAGES)
def html(request):
    return page.page_html(PAGES[request.param])


# It stands alone.


def test_the_page_is_one_file_that_loads_nothing(html):
    parsed = Parsed(html)
    used = {tag for tag, _, _ in parsed.elements}
    assert not used & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "image"}
    for _, attributes, _ in parsed.elements:
        assert not [name for name in attributes if name.startswith("on") or name in ("src", "srcset", "xlink:href")]
    assert all(href.startswith("#") for href in parsed.attributes("href"))
    assert "http" not in html and "//" not in html
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.S)
    assert "url(" not in style and "@import" not in style
    assert len(html.encode()) < 2e6


def test_the_page_says_what_a_browser_needs_first(html):
    parsed = Parsed(html)
    assert html.lower().startswith("<!doctype html>")
    assert parsed.of("html")[0]["lang"] == "en"
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in parsed.of("meta")
    assert {"charset": "utf-8"} in parsed.of("meta")
    assert len(parsed.of("h1")) == len(parsed.of("main")) == 1
    levels = [int(tag[1]) for tag, _, _ in parsed.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_ids_are_unique_and_every_reference_is_there(html):
    parsed = Parsed(html)
    ids = parsed.attributes("id")
    assert len(ids) == len(set(ids))
    named = " ".join(parsed.attributes("aria-labelledby")).split()
    assert {href[1:] for href in parsed.attributes("href")} | set(named) <= set(ids)


def test_the_sheet_comes_first_and_all_that_defends_it_is_folded():
    for given, prefixes in ((PAGES["one"], [""]), (PAGES["several"], ["s1-", "s2-"])):
        parsed = Parsed(page.page_html(given))
        folded = [(a["id"], "details" in around) for tag, a, around in parsed.elements if tag == "section"]
        wanted = []
        for prefix, one in zip(prefixes, given, strict=True):
            names = ["notes", "networks-compared", *(section["id"] for section in one["sections"])]
            wanted += [(f"{prefix}{name}", True) for name in names]
        assert folded == wanted
        assert not [a for a in parsed.of("details") if "open" in a]
    html = page.page_html(PAGES["one"])
    sheet = html[html.index('<div class="sheet">') : html.index('<details class="section">')]
    one = PAGES["one"][0]
    for text in (one["headline"], one["rests_on"][0], *one["risks"], *one["next_steps"], one["made"]):
        assert text in sheet
    assert sheet.count("<svg") == 2 and "171 GB200 NVL72" in sheet and "216 leaves" in sheet
    assert one["rests_on"][1] not in sheet and one["verdicts"][1]["text"] not in sheet
    assert one["verdicts"][0]["text"] in sheet  # a limit that is missed


def test_equal_documents_give_equal_bytes_and_are_left_as_they_were():
    given = documents()
    before = copy.deepcopy(given)
    html = page.page_html(given)
    assert given == before
    assert html == page.page_html(before) == page.page_html(tuple(_reordered(documents())))


def _reordered(value):
    """The same with the keys of every dictionary in another order."""
    if isinstance(value, dict):
        return {key: _reordered(value[key]) for key in sorted(value, reverse=True)}
    return [_reordered(each) for each in value] if isinstance(value, list) else value


# What it says.


def _texts(value, key=""):
    """Every text of a document that a reader is to see."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _texts(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each, key)
    elif isinstance(value, str) and value and key not in TOKENS:
        yield value


def _missing(given, html):
    """Texts that are not on the page, whatever space is between their words; a number may lack its column's unit."""
    parsed = Parsed(html)
    shown = "".join([*parsed.texts, *(f" {text} " for _, a, _ in parsed.elements for text in a.values() if text)])
    shown = re.sub(r"\s", "", shown)
    units = {column["unit"] for each in given for column in each["columns"]}
    found = {
        text: next((text.removesuffix(unit) for unit in units if text.endswith(unit)), "") for text in _texts(given)
    }
    return [text for text, bare in found.items() if re.sub(r"\s", "", bare or text) not in shown]


def test_every_text_of_the_documents_is_on_the_page():
    for given in PAGES.values():
        assert not _missing(given, page.page_html(given))


def test_texts_are_escaped():
    mark = "<b>&amp;\"'{{ 1 }}"

    def marked(value, key=""):
        if isinstance(value, dict):
            return {name: marked(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [marked(each, key) for each in value]
        return f"{value} {mark}" if isinstance(value, str) and value and key not in TOKENS else value

    given = [marked(each) for each in documents()]
    html = page.page_html(given)
    parsed = Parsed(html)
    plain = Parsed(page.page_html(documents()))
    kept = {"li", "section", "table", "td", "th", "svg", "h2", "h3", "p"}
    assert [tag for tag, _, _ in parsed.elements if tag in kept] == [tag for tag, _, _ in plain.elements if tag in kept]
    assert len(parsed.of("b")) == len(plain.of("b"))
    assert not _missing(given, html)


def _rows(html, table=1):
    """Rows of a table of candidates or plans as texts without marks between; the first is without intervals."""
    body = re.findall(r'<div class="answer.*?<tbody>(.*?)</tbody>', html, re.S)[table]
    rows = re.findall(r"<tr.*?</tr>", body, re.S)
    return [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", row)) for row in rows]


def test_candidates_are_listed_the_best_first_and_marked_in_words():
    given = document()
    given["candidates"].reverse()
    rows = _rows(page.page_html([given]))
    assert len(rows) == 8
    assert rows[0].split()[:3] == ["rail-only", "★", "best"]
    assert "51.2 X 44.0 to 59.8" in rows[0] and "412 A 363 to 471" in rows[0]
    assert "ties with the best" in rows[1] and "fat tree, Clos" in rows[1]
    assert [("limit missed: training" in row, "✗ limit missed: 6" in row) for row in rows[2:]].count((True, True)) == 2
    assert rows[-1].split()[0] == "dragonfly" and "no answer" in rows[-1] and "No model of its routing" in rows[-1]
    assert not re.search(r"\d", rows[-1])
    brief = _rows(page.page_html([given]), 0)
    assert [row.split()[0] for row in brief] == [row.split()[0] for row in rows]
    assert "51.2" in brief[0] and "44.0 to 59.8" not in brief[0] and "No model of its routing" not in brief[-1]


def test_only_numbers_that_decide_have_a_letter():
    given = document()
    html = page.page_html([given])
    best = _rows(html)[0]
    assert re.search(r"\b51\.2 X ", best) and re.search(r"\b412 A ", best)
    assert not re.search(r"\d%? [A-Z] ", re.sub(r"51\.2 X|412 A", "", best))
    (legend,) = re.findall(r'<p class="grades soft">(.*?)</p>', html, re.S)
    listed = re.findall(r"<b>(.)</b> (\w+)", legend)
    assert listed == [("P", "paper"), ("C", "derived"), ("A", "assumed"), ("X", "mixed")]  # sections have P and C
    tips = [a["aria-label"] for _, a, _ in Parsed(html).elements if "aria-label" in a]
    assert "148 M USD, datasheet: made up for this test: build_usd" in tips
    given |= {"deciding": [], "sections": []}
    assert "Letters" not in page.page_html([given])


def test_several_scenarios_are_compared_first():
    rows = _rows(page.page_html(documents()), 0)
    assert len(rows) == 2
    assert all(each["title"] in row and "rail-only" in row for each, row in zip(documents(), rows, strict=True))
    assert "51.2" in rows[0] and "25.6" in rows[1]
    given = documents()
    for candidate in given[1]["candidates"]:
        candidate["state"] = "missed"
    assert "None is best" in _rows(page.page_html(given), 0)[1]


@pytest.mark.parametrize(
    ("texts", "interval", "head", "shown"),
    [
        (["51.2 days", "40 days"], "44 to 60.1 days", "days", "51.2 X 44 to 60.1"),
        (["16.1 M USD", "9 M USD"], "11.3 M to 25.9 M USD", "M USD", "16.1 X 11.3 to 25.9"),
        (["16.1 M USD", "900 k USD"], "11.3 M to 25.9 M USD", "days", "16.1 M USD X 11.3 M to 25.9 M USD"),
        (["1.2 MW", "2 MW"], "973 kW to 1.3 MW", "MW", "1.2 X 973 kW to 1.3 MW"),
        (["92.8%", "93%"], "from 83.8%", "days", "92.8% X from 83.8%"),
        (["1,260", "980"], "900 to 1,300", "days", "1,260 X 900 to 1,300"),
    ],
)
def test_a_unit_that_all_numbers_of_a_column_share_stands_in_its_head(texts, interval, head, shown):
    given = document()
    given["candidates"] = given["candidates"][:2]
    for candidate, text in zip(given["candidates"], texts, strict=True):
        candidate["numbers"]["days"].update(text=text, interval=interval)
    html = page.page_html([given])
    assert shown in _rows(html)[0]
    assert f'data-label="training ({head})"' in html


def test_a_document_may_lack_what_it_does_not_know():
    given = document()
    for candidate in given["candidates"]:
        candidate["numbers"] = {}
    given |= {"verdicts": [], "sections": [], "drawing": None, "risks": [], "next_steps": [], "rests_on": []}
    parsed = Parsed(page.page_html([given]))
    assert not parsed.of("svg")


# Who reads it.


def _luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    """Contrast of two colours by WCAG 2."""
    dark, light = sorted(map(_luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("scheme", page.SCHEMES)
def test_texts_stand_out_from_their_ground(scheme):
    colours = page.SCHEMES[scheme]
    for text, ground in page.TEXT_PAIRS:
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


def test_the_style_uses_the_listed_colours_alone(html):
    (style,) = re.findall(r"<style>(.*?)</style>", html, re.S)
    for colours in page.SCHEMES.values():
        for name, colour in colours.items():
            assert f"--{name}:{colour};" in style
            style = style.replace(f"--{name}:{colour};", "")
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b|rgba?\(|hsla?\(", style)
    texts = set(re.findall(r"(?<![-\w])(?:color|fill): var\(--(\w+)\)", style))
    grounds = set(re.findall(r"background: var\(--(\w+)\)", style))
    assert texts - {"c"} <= {text for text, _ in page.TEXT_PAIRS}
    assert grounds - {"c"} <= {ground for _, ground in page.TEXT_PAIRS}


def test_what_pointing_tells_a_keyboard_and_a_reader_of_screens_get_too(html):
    parsed = Parsed(html)
    tips = [a for _, a, _ in parsed.elements if "tip" in (a.get("class") or "").split()]
    assert len(tips) > 50
    assert all(tip["tabindex"] == "0" and tip["role"] == "note" and tip["aria-label"] for tip in tips)


def test_pictures_have_a_title_and_a_description_and_ids_of_their_own(html):
    parsed = Parsed(html)
    pictures = parsed.of("svg")
    assert len(pictures) >= 4
    for picture in pictures:
        assert picture["role"] == "img" and "width" not in picture
        title, description = picture["aria-labelledby"].split()
        assert {"id": title} in parsed.of("title") and {"id": description} in parsed.of("desc")
    used = re.findall(r'(?:href="|url\()#([^")]+)', html)
    assert used and set(used) <= set(parsed.attributes("id"))


# Pictures.


def _figure(picture, **options):
    figure = Figure(layout="constrained")
    FigureCanvasSVG(figure)
    picture(figure, **options)
    return figure


def _listed(given):
    return [candidate for candidate in given["candidates"] if candidate["numbers"]]


def test_dots_bars_and_limits_stand_where_their_values_are():
    given = document()
    figure = _figure(pictures.network_intervals, chart=given["chart"], candidates=_listed(given))
    for ax, key, scale, lines in zip(figure.axes, ("days", "training_usd"), (1, 1e6), ((60,), (480, 400)), strict=True):
        numbers = [candidate["numbers"][key] for candidate in _listed(given)]
        dots = [line.get_xydata()[0] for line in ax.lines if line.get_marker() == "o"]
        assert [tuple(dot) for dot in dots] == [
            pytest.approx((number["value"] / scale, row)) for row, number in enumerate(numbers)
        ]
        bars = [bar.get_segments()[0] for bar in ax.collections]
        assert [(*bar[0], bar[1][0]) for bar in bars] == [
            pytest.approx((number["low"] / scale, row, number["high"] / scale)) for row, number in enumerate(numbers)
        ]
        drawn_lines = [line.get_xdata()[0] for line in ax.lines if line.get_marker() != "o"]
        assert drawn_lines == pytest.approx(lines)
        assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first on top
    hollow = [line.get_markerfacecolor() == "white" for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert hollow == [candidate["state"] == "missed" for candidate in _listed(given)]
    assert [label.get_text().replace("\n", " ") for label in figure.axes[0].get_yticklabels()] == [
        candidate["name"] for candidate in _listed(given)
    ]


@pytest.mark.parametrize(("high", "scale"), [(60, "linear"), (6000, "log")])
def test_an_axis_of_far_ends_is_logarithmic(high, scale):
    given = document(limit=None)
    given["candidates"][0]["numbers"]["days"]["high"] = high
    figure = _figure(pictures.network_intervals, chart=given["chart"], candidates=_listed(given))
    assert figure.axes[0].get_xscale() == scale


def test_numbers_without_bounds_have_no_bars():
    given = document()
    for candidate in given["candidates"]:
        for number in candidate["numbers"].values():
            number.update(low=None, high=None, interval="")
    figure = _figure(pictures.network_intervals, chart=given["chart"], candidates=_listed(given))
    assert all(np.ptp(bar.get_segments()[0][:, 0]) == 0 for ax in figure.axes for bar in ax.collections)
    assert page.page_html([given])


def test_bars_are_as_long_as_their_values_and_the_legend_has_their_colours():
    given = document()
    bars = given["sections"][0]["bars"]
    (ax,) = _figure(pictures.stacked_bars, bars=bars).axes
    values = [part["value"] for row in bars["rows"] for part in row["parts"]]
    assert [patch.get_width() for patch in ax.patches] == pytest.approx(values)
    for place, row in enumerate(bars["rows"]):
        ends = [patch.get_x() + patch.get_width() for patch in ax.patches if patch.get_y() == place - 0.25]
        assert max(ends) == pytest.approx(sum(part["value"] for part in row["parts"]))
    legend = re.search(r'<ul class="legend">(.*?)</ul>', page.page_html([given]), re.S)[1]
    assert re.findall(r"--c:(#\w+).*?</span>(\w+)<", legend) == [
        ("#6A6A6A", "compute"), ("#0072B2", "tensor"), ("#CC79A7", "pipeline"), ("#D55E00", "data")
    ]  # fmt: skip


def test_places_are_as_far_apart_as_the_bar_of_km_says():
    points = document()["sections"][2]["places"]["points"]
    (ax,) = _figure(pictures.place_map, points=points).axes
    bar = ax.lines[-1].get_xdata()
    kilometres = float(ax.texts[-1].get_text().removesuffix(" km").replace(",", "")) / (bar[1] - bar[0])
    by_name = {point["label"]: (point["longitude"], point["latitude"]) for point in points}
    (x, y), (east, south) = by_name["Abilene, Texas"], by_name["Houston"]
    assert kilometres * np.hypot(east - x, (y - south) * ax.get_aspect()) == pytest.approx(
        511, rel=0.01
    )  # great circle
    assert [text.get_text() for text in ax.texts[:-1]] == ["1", "2", "3", "4", "5"]
    assert _figure(pictures.place_map, points=points[:1]).axes


@pytest.mark.parametrize("groups", [1, 2, 4, 5, 8, 72])
@pytest.mark.parametrize("joined", [None, 2])
def test_the_drawing_has_every_tier_with_its_numbers(groups, joined):
    drawing = DRAWING | {"groups": groups, "joined_from": joined, "servers": 3}
    (ax,) = _figure(pictures.network_drawing, drawing=drawing).axes
    texts = [text.get_text().replace("\n", " ") for text in ax.texts]
    wanted = ["171 GB200 NVL72", *(text for tier in DRAWING["tiers"] for text in tier.values())]
    assert set(wanted) <= set(texts) and DRAWING["note"] in texts
    boxes = [min(groups, 4) if groups > 5 else groups] * 2
    boxes[1] = 1 if joined else boxes[1]
    rows = [round(patch.get_y() + 0.19) for patch in ax.patches]
    assert [rows.count(height) for height in (0, 1, 2)] == [3, *boxes]
    assert texts.count("...") == (groups > 5) * (1 if joined else 2)


def test_without_the_library_of_pictures_a_page_is_refused(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ValueError, match=r"need Matplotlib, which is not installed: pip install 'railcore\[page\]'"):
        page.page_html([document()])


# What a diagram has.

FABRICS = {
    "rail-only": (rc.rail_only(16384, 8, 64), 8, None, "8 rails, not joined"),
    "two planes": (rc.rail_only(16384, 8, 64, planes=2), 8, None, "8 rails, not joined, 2 planes that do not meet"),
    "rail-optimized": (rc.rail_optimized(1024, 8, 64), 8, 2, "8 rails"),
    "rails of two tiers": (rc.rail_optimized(16384, 8, 64), 8, 3, "8 rails"),
    "Clos": (rc.fat_tree(2048, 64, 8), 64, 2, ""),
    "one switch": (rc.fat_tree(64, 64, 8), 1, 1, ""),
    "circuits": (PhotonicRails(1024, 8, 576, 2, planes=2), 8, None, "8 rails, not joined, 2 ports of each NIC"),
}


@pytest.mark.parametrize("name", FABRICS)
def test_a_diagram_counts_as_the_bill_does(name):
    fabric, groups, joined, note = FABRICS[name]
    lines = [line for line in fabric.parts.bill() if line.scope == "switches"]
    bill = pd.DataFrame([{"scope": line.scope, "tier": line.tier, "count": float(line.count)} for line in lines])
    drawing = network_diagram.diagram(fabric, bill, fabric.domains, "DGX H100", "#000000")
    told = [int(tier["label"].split()[0].replace(",", "")) for tier in drawing["tiers"]]
    assert told == [int(line.count) for line in lines]
    assert (drawing["groups"], drawing["joined_from"], drawing["note"]) == (groups, joined, note)
    links = int(drawing["tiers"][0]["links"].split()[0].replace(",", ""))
    assert links == fabric.gpus * fabric.nic_ports
    assert drawing["all_groups"] == (drawing["note"] != "")


# What own runs change.

SPEC = {"cluster": {"platform": "DGX H100", "gpus": 16}, "job": {"model": "Llama-3 8B", "tokens": 1e11, "batch": 32}}
RUN = {"strategy": {"tensor": 2, "sequence_parallel": True, "sharding": "optimizer"}, "gpus": 16, "batch": 32}
TWO = (RUN | {"seconds": 3.0}, RUN | {"seconds": 3.3})


@pytest.fixture(scope="module")
def plain():
    return rc.plan(SPEC)


@pytest.fixture(scope="module")
def corrected():
    return rc.plan(SPEC | {"measured": list(TWO)})


@pytest.fixture(scope="module")
def both(plain, corrected):
    return plain.document(False), corrected.document(False)


def _strategy(told):
    (section,) = [section for section in told["sections"] if section["id"] == "strategy"]
    return section


def test_runs_of_ones_own_stand_beside_the_model_and_before_and_after(plain, corrected, both):
    section = _strategy(both[1])
    tables = {table["caption"]: table for table in section["tables"]}
    runs, errors = tables["Your runs beside the model"], corrected.case.own_errors
    label = "TP2 DP8, micro-batch 1, sequence parallel, ZeRO-1"
    assert [row[:4] for row in runs["rows"]] == [[label, "16", "32", f"{seconds} s"] for seconds in ("3", "3.3")]
    over = [float(row[-1].removesuffix(" times")) for row in runs["rows"]]
    assert over == pytest.approx([*(errors["measured_iteration_s"] / errors["modelled_s"])], rel=5e-3)
    before, after = tables[f"Your runs: before and after, on {corrected.best.name}"]["rows"]
    for row, answer in ((before, plain), (after, corrected)):
        assert row[1] == shown("iteration_s", answer.best.numbers["iteration_s"])
        ends = answer.candidates.loc[0, ["iteration_low_s", "iteration_high_s"]]
        assert row[2] == interval("iteration_s", *ends)
    assert before[1:] != after[1:]
    assert not section["notes"]
    assert not _strategy(both[0])["notes"]
    assert not [table for table in _strategy(both[0])["tables"] if table["caption"].startswith("Your runs")]


@pytest.mark.parametrize("failures", ["low", "high"])
def test_an_end_of_the_failure_rates_is_no_risk_of_its_own(failures):
    told = rc.plan(SPEC | {"operation": {"failures": failures}}).document(False)
    assert len(told["risks"]) == 2 and not [text for text in told["risks"] if text.startswith("Failures")]


def test_a_run_of_another_job_says_which(corrected):
    table = corrected.case.own_errors
    other = replace(corrected)
    vars(other)["case"] = case = replace(corrected.case)
    vars(case)["own_errors"] = table.assign(model=["Llama-3 8B", "Llama-2 13B"])
    vars(other)["expected_error"] = corrected.expected_error
    labels = own_run_columns(other)["Your runs beside the model"]["strategy"]
    assert [label.partition("TP2")[0] for label in labels] == ["", "Llama-2 13B on DGX H100: "]


def test_the_first_verdicts_say_what_the_time_rests_on(both):
    told = [[*each["rests_on"]] for each in both]
    assert re.match(r"This rests on \d+ published runs like it \(dense models in bf16 on H100\)", told[0][0])
    assert "of yours" not in told[0][0] and "Before your runs" not in told[0][0]
    assert told[1][0].startswith("This rests on 2 runs of yours, and ")
    assert "Before your runs an iteration took" in told[1][0] and "With them it takes" in told[1][0]
    assert all(re.match(r"The nearest published run: .*: measured .*, ours ", each[1]) for each in told)
    errors = [each["error"] for each in both]
    assert [error["own"] for error in errors] == [0, 2]
    assert errors[1]["published_low_s"] == pytest.approx(errors[0]["iteration_low_s"])
    for each, error in zip(both, errors, strict=True):
        assert error["days_low"] < error["days_high"] and error["iteration_low_s"] < error["iteration_high_s"]
        assert re.search(r"between [\d.]+ and [\d.]+ days in nine of ten cases", each["headline"])
        assert each["deciding"] == ["days", "cost_usd"]


@pytest.mark.parametrize(("beyond", "told"), [(0.99, True), (1.01, False)])
def test_a_limit_within_the_interval_is_not_sure(plain, beyond, told):
    limits = GoalsSpec(days=beyond * plain.days_interval[1])
    limited = replace(plain, spec=plain.spec.model_copy(update={"limits": limits}))
    texts = " ".join(verdict["text"] for verdict in verdicts(limited, False))
    assert limited.met and ("is not sure: the training may take" in texts) == told
