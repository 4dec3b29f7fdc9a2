"""The page of a plan: what it says, that it stands alone, that all can read it. tests/browser has it in Chromium."""

import copy
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations, pairwise

import pytest
from plan_documents import document, documents

import railcore as rc
from railcore.planner import interval, page, pictures, shown
from railcore.planner.report import verdicts
from railcore.planner.spec import GoalsSpec
from railcore.planner.time_columns import own_run_columns

ALONE = {"meta", "line", "path", "rect", "circle"}  # they have no end tag of their own, or are written <line ... />
TOKENS = ("state", "kind", "id", "key", "misses", "colour", "marker", "align", "grade")  # what nobody reads as text
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
    assert not used & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "image", "use", "a:href"}
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


def test_every_section_has_an_entry_in_the_contents():
    for given, prefixes in ((PAGES["one"], [""]), (PAGES["several"], ["s1-", "s2-"])):
        parsed = Parsed(page.page_html(given))
        linked = [a["href"] for tag, a, around in parsed.elements if tag == "a" and "nav" in around]
        wanted = zip(prefixes, given, strict=True)
        assert linked == [f"#{prefix}{each['id']}" for prefix, one in wanted for each in one["sections"]]


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


def _rows(html, table=0):
    """Rows of a table of candidates or scenarios as texts without marks between."""
    body = re.findall(r'<div class="answer">.*?<tbody>(.*?)</tbody>', html, re.S)[table]
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
    rows = _rows(page.page_html(documents()))
    assert len(rows) == 2
    assert all(each["title"] in row and "rail-only" in row for each, row in zip(documents(), rows, strict=True))
    assert "51.2" in rows[0] and "25.6" in rows[1]
    given = documents()
    for candidate in given[1]["candidates"]:
        candidate["state"] = "missed"
    assert "None is best" in _rows(page.page_html(given))[1]


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
    given |= {"verdicts": [], "sections": []}
    parsed = Parsed(page.page_html([given]))
    assert not [a for a in parsed.of("svg") if a.get("role") == "img"]
    assert not parsed.of("nav")


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


def test_pictures_have_a_title_and_a_description(html):
    parsed = Parsed(html)
    pictures = parsed.of("svg")
    assert len(pictures) > 10
    for picture in pictures:
        if picture.get("aria-hidden") != "true":
            assert picture["role"] == "img"
            title, description = picture["aria-labelledby"].split()
            assert {"id": title} in parsed.of("title") and {"id": description} in parsed.of("desc")


# Pictures.


def test_coordinates_have_a_tenth_at_most(html):
    parsed = Parsed(html)
    names = "x y x1 y1 x2 y2 cx cy width height viewBox transform".lower().split()
    for tag, attributes, around in parsed.elements:
        if tag == "svg" or "svg" in around:
            for name in names:
                assert not re.search(r"\.\d\d|e-|nan|inf", attributes.get(name) or ""), (tag, attributes)


def _chart(given, **size):
    drawn = [candidate for candidate in given["candidates"] if candidate["numbers"]]
    return pictures.scatter_picture(given["chart"], drawn, size.get("width", 520), size.get("height", 470))


def _apart(one, other):
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


@pytest.mark.parametrize("width", [340, 520])
@pytest.mark.parametrize("spread", [1.0, 0.1, 0.0])
def test_labels_lie_over_no_other_and_over_no_mark(width, spread):
    given = document()
    for candidate in given["candidates"]:
        for key, middle in (("days", 52.0), ("training_usd", 420e6)):
            if candidate["numbers"]:
                number = candidate["numbers"][key]
                number.update({end: middle + spread * (number[end] - middle) for end in ("value", "low", "high")})
    chart = _chart(given, width=width)
    boxes = [mark["label"].box for mark in chart["marks"]] + [limit["label"].box for limit in chart["limits"]]
    assert len(boxes) == 10
    assert all(_apart(one, other) for one, other in combinations(boxes, 2))
    frame = chart["frame"]
    for box in boxes:
        assert frame[0] <= box[0] and box[2] <= frame[2] and frame[1] <= box[1] and box[3] <= frame[3]
        for mark in chart["marks"]:
            assert _apart(box, (mark["x"] - 5, mark["y"] - 5, mark["x"] + 5, mark["y"] + 5))


def test_points_bars_and_limits_stand_where_their_values_are():
    given = document()
    chart = _chart(given)
    (at,) = [mark for mark in chart["marks"] if mark["candidate"]["name"] == "rail-only"]
    (other,) = [mark for mark in chart["marks"] if mark["candidate"]["name"] == "single rail"]
    (limit,) = [limit for limit in chart["limits"] if limit["label"].lines == ("limit 60",)]
    pixels = (other["x"] - at["x"]) / (68.3 - 51.2)  # a day
    assert limit["line"][0] == limit["line"][2] == pytest.approx(at["x"] + pixels * (60 - 51.2))
    across, upright = at["bars"]
    assert across == pytest.approx((at["x"] - pixels * 51.2 * 0.14, at["y"], at["x"] + pixels * 51.2 * 0.168, at["y"]))
    assert upright[0] == upright[2] == at["x"] and upright[1] < at["y"] < upright[3]
    assert other["y"] < at["y"]  # dearer is higher
    assert {limit["kind"] for limit in chart["limits"]} == {"limit", "wish"}
    assert [text for _, text in chart["ticks"]["x"]] == ["50", "60", "70", "80"]


def test_a_limit_far_away_is_told_instead_of_drawn():
    given = document(limit=365.0)
    chart = _chart(given)
    assert chart["outside"] == ["training time (days): limit 365"]
    assert "limit 365" not in [" ".join(limit["label"].lines) for limit in chart["limits"]]
    assert "Outside of the picture: training time (days): limit 365" in page.page_html([given])


def test_numbers_without_bounds_have_no_error_bars():
    given = document()
    for candidate in given["candidates"]:
        for number in candidate["numbers"].values():
            number.update(low=None, high=None, interval="")
    assert not [bar for mark in _chart(given)["marks"] for bar in mark["bars"]]
    assert page.page_html([given])


def test_bars_are_as_long_as_their_values():
    bars = document()["sections"][0]["bars"]
    picture = pictures.bar_picture(bars, 720)
    pixels = (picture["frame"][2] - picture["frame"][0]) / max(
        sum(part["value"] for part in row["parts"]) for row in bars["rows"]
    )
    for row in picture["rows"]:
        at = picture["frame"][0]
        for it in row["parts"]:
            assert (it["x"], it["width"]) == pytest.approx((at, pixels * it["part"]["value"]))
            at += it["width"]
    assert picture["legend"] == {"compute": "#6A6A6A", "tensor": "#0072B2", "pipeline": "#CC79A7", "data": "#D55E00"}


def test_places_are_as_far_apart_as_the_bar_of_km_says():
    picture = pictures.place_picture(document()["sections"][2]["places"], 600)
    at = {mark["point"]["label"]: (mark["x"], mark["y"]) for mark in picture["marks"]}
    line, text = picture["bar"]["line"], picture["bar"]["text"]
    kilometres = float(text.removesuffix(" km").replace(",", "")) / (line[2] - line[0])
    (x, y), (east, south) = at["Abilene, Texas"], at["Houston"]
    assert x < east and y < south
    assert kilometres * ((east - x) ** 2 + (south - y) ** 2) ** 0.5 == pytest.approx(511, rel=0.01)  # by great circle
    alone = {"caption": "", "points": document()["sections"][2]["places"]["points"][:1]}
    assert pictures.place_picture(alone, 340)["marks"][0]["label"].lines == ("Abilene, Texas",)


@pytest.mark.parametrize("scale", [1e-6, 0.03, 1.0, 17.0, 1e9])
def test_ticks_are_round_inside_the_axis_and_told_apart(scale):
    axis = pictures.Axis(0.9 * scale, 2.3 * scale, 0.0, 100.0)
    ticks = axis.ticks()
    assert 3 <= len(ticks) <= 7
    assert all(-1e-6 <= at <= 100 + 1e-6 for at, _ in ticks)
    texts = [text for _, text in ticks]
    assert len(set(texts)) == len(texts)
    for at, text in ticks:
        assert float(text.replace(",", "")) == pytest.approx((0.9 + 1.4 * at / 100) * scale)


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


def test_a_run_of_another_job_says_which(corrected):
    table = corrected.case.own_errors
    other = replace(corrected)
    vars(other)["case"] = case = replace(corrected.case)
    vars(case)["own_errors"] = table.assign(model=["Llama-3 8B", "Llama-2 13B"])
    vars(other)["expected_error"] = corrected.expected_error
    labels = own_run_columns(other)["Your runs beside the model"]["strategy"]
    assert [label.partition("TP2")[0] for label in labels] == ["", "Llama-2 13B on DGX H100: "]


def test_the_first_verdicts_say_what_the_time_rests_on(both):
    told = [[verdict["text"] for verdict in each["verdicts"][:2]] for each in both]
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
