"""The page of a plan as a reader meets it in Chromium: on a phone, a tablet and a desk, light and dark, on paper.

What the browser showed is left in build/browser/.
"""

import re
from itertools import combinations

import pytest
from chromium import SHOTS, WAIT
from plan_documents import document, documents

from railcore.planner import page as plan_page

pytestmark = pytest.mark.browser
WIDTHS = {360: 740, 820: 1100, 1440: 900}
GIVEN = {"one": lambda: [document()], "several": documents}
# Contrast of each text that is shown, with its nearest ground; texts in pictures stand on the page itself.
CONTRASTS = r"""() => {
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const parts = colour => {
        canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const luminance = colour => parts(colour).slice(0, 3).map(part => part / 255)
        .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
        .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at], 0);
    const ground = element => {
        for (let it = element; it; it = it.parentElement) {
            const colour = getComputedStyle(it).backgroundColor;
            if (parts(colour)[3] > 0) return colour;
        }
    };
    const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const element = walker.currentNode.parentElement;
        if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest('title, desc')) continue;
        const style = getComputedStyle(element), text = element.closest('text') ? style.fill : style.color;
        const both = [luminance(text), luminance(ground(element))].sort((one, other) => one - other);
        found.push([(both[1] + 0.05) / (both[0] + 0.05), walker.currentNode.data.trim().slice(0, 40)]);
    }
    return found;
}"""
LABELS = """() => [...document.querySelectorAll('svg.picture')].filter(svg => svg.checkVisibility()).map(svg =>
    [svg.getBoundingClientRect(), ...[...svg.querySelectorAll('text')].map(text => text.getBoundingClientRect())]
        .map(box => [box.left, box.top, box.right, box.bottom]))"""
UNFOLD = "() => document.querySelectorAll('details').forEach(each => each.open = true)"


@pytest.fixture
def opened(browser, tmp_path):
    """A function that opens the page of documents; what it asked for and complained of is in `asked` and `said`."""
    contexts = []

    def show(given, width, scheme="light"):
        file = tmp_path / "plan.html"
        file.write_text(plan_page.page_html(given), encoding="utf-8")
        contexts.append(browser.new_context(viewport={"width": width, "height": WIDTHS[width]}, color_scheme=scheme))
        tab = contexts[-1].new_page()
        tab.set_default_timeout(WAIT * 1000)
        tab.asked, tab.said = [], []
        tab.on("request", lambda request: tab.asked.append(request.url))
        tab.on("console", lambda message: tab.said.append(message.text))
        tab.on("pageerror", lambda error: tab.said.append(str(error)))
        tab.goto(file.as_uri())
        tab.asked.remove(file.as_uri())
        return tab

    yield show
    for context in contexts:
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("given", GIVEN)
def test_it_is_quiet_fits_its_window_and_can_be_read(opened, given, width, scheme):
    tab = opened(GIVEN[given](), width, scheme)
    tab.evaluate(UNFOLD)
    tab.screenshot(path=SHOTS / f"plan_{given}_{width}_{scheme}.png", full_page=True)
    assert tab.asked == [] and tab.said == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    contrasts = tab.evaluate(CONTRASTS)
    assert len(contrasts) > 200
    assert not [(round(contrast, 2), text) for contrast, text in contrasts if contrast < 4.5]


def test_the_first_screen_at_a_desk_has_the_answer(opened):
    tab = opened([document()], 1440)
    for shown in ("h1", ".headline", ".verdicts", "svg.picture", ".answer tbody tr.is-best"):
        box = tab.locator(shown).first.bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 900, shown


@pytest.mark.parametrize("width", WIDTHS)
def test_texts_of_pictures_do_not_overlap_and_are_whole(opened, width):
    tab = opened([document()], width)
    tab.evaluate(UNFOLD)
    pictures = tab.evaluate(LABELS)
    assert len(pictures) == 4
    for (left, top, right, bottom), *labels in pictures:
        assert len(labels) >= 5
        assert all(left <= a and top <= b and c <= right and d <= bottom for a, b, c, d in labels)
        for one, other in combinations(labels, 2):
            apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] + 3 or other[3] <= one[1] + 3
            assert apart, (one, other)


@pytest.mark.parametrize("width", [360, 1440])
def test_a_source_is_shown_to_who_comes_by_the_tab_key(opened, width):
    tab = opened([document()], width)
    for _ in range(40):
        tab.keyboard.press("Tab")
        if "mark-letter" in (tab.evaluate("document.activeElement.className") or ""):
            break
    told = tab.evaluate("getComputedStyle(document.activeElement, '::after').content")
    assert "made up for this test" in told
    tab.screenshot(path=SHOTS / f"plan_source_{width}.png")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_what_is_folded_opens_with_the_keyboard(opened):
    tab = opened([document()], 1440)
    assert not tab.locator("#assumptions").is_visible()
    tab.locator("details.section > summary", has_text="Assumptions").press("Enter")
    assert tab.locator("#assumptions").is_visible()


@pytest.mark.parametrize("size", ["A4", "Letter"])
def test_paper_is_light_and_has_the_sheet_on_one_page_and_what_is_unfolded(opened, size):
    tab = opened([document()], 1440, "dark")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    tab.emulate_media(media="print", color_scheme="dark")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert _pages(tab.pdf(path=SHOTS / f"plan_{size}.pdf", format=size)) == 1
    tab.evaluate(UNFOLD)
    assert _pages(tab.pdf(path=SHOTS / f"plan_whole_{size}.pdf", format=size)) > 1


def _pages(pdf):
    assert pdf.startswith(b"%PDF")
    return len(re.findall(rb"/Type\s*/Page\b", pdf))
