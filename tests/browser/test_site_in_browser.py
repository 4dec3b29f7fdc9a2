"""The static site in Chromium, on a desk and on a phone: nothing fails or is broader than the page.

Search finds what answers first. On a desk a notebook's first picture is on the first screen, and what is not folded
is inside its column.

What the browser showed is left in build/browser/.
"""

import functools
import http.server
import subprocess
import sys
import threading

import pytest
from chromium import SHOTS

from railcore.catalog import files

pytest.importorskip("myst_nb", reason="the site's packages are not installed: make site")
pytestmark = pytest.mark.browser
WIDTHS = {"desk": (1280, 900), "phone": (390, 844)}
LEFT = "net::ERR_ABORTED"  # of a picture that loads when seen, where the test goes on before it is there
LINKS = "links => links.map(one => one.getAttribute('href'))"
OUTSIDE = """() => {
    const article = document.querySelector('.bd-article'), found = []
    const shown = name => [...(article?.querySelectorAll(name) ?? [])].filter(
        one => !one.closest('details:not([open])'))
    const below = one => [...article.querySelectorAll('h1, h2, h3')].filter(
        heading => heading.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING).pop()?.innerText
    for (const one of shown('table, pre')) {
        for (let box = one; box !== article; box = box.parentElement)
            if (box.scrollWidth > box.clientWidth + 1) {
                found.push(`${below(one)}: ${one.tagName} is ${box.scrollWidth - box.clientWidth} px too broad`)
                break
            }
    }
    for (const row of shown('tr'))
        if (row.offsetHeight > 250 && !row.querySelector('img'))
            found.push(`${below(row)}: a row of ${row.offsetHeight} px`)
    return found
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built") / "site"
    subprocess.run([sys.executable, files.ROOT / "docs" / "build.py", folder], check=True, capture_output=True)
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        places = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.html"))]
        yield f"http://127.0.0.1:{server.server_port}/", places
        server.shutdown()


@pytest.mark.parametrize("width", WIDTHS)
def test_every_page_is_sound(address, browser, width):
    base, places = address
    faults = []
    across, down = WIDTHS[width]
    page = browser.new_page(viewport={"width": across, "height": down})
    page.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
    page.on("requestfailed", lambda asked: asked.failure == LEFT or faults.append(f"failed: {asked.url}"))
    page.on("request", lambda asked: asked.url.startswith((base, "data:")) or faults.append(f"asks {asked.url}"))
    for place in places:
        page.goto(base + place)
        broad = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        silent = page.evaluate("[...document.images].filter(one => !one.alt).map(one => one.src)")
        broken = page.evaluate("[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)")
        faults += [f"{place}: {broad} px too broad"] * (broad > 0) + [f"{place}: {link}" for link in silent + broken]
        if width == "desk":
            faults += [f"{place}: {fault}" for fault in page.evaluate(OUTSIDE)]
            if place.startswith("notebooks/") and not place.startswith("notebooks/00"):
                end = page.evaluate("document.querySelector('.bd-article img').getBoundingClientRect().bottom")
                faults += [f"{place}: its first picture ends at {end:.0f} px"] * (end > down)
        if place in ("index.html", "notebooks/01_network_cost.html"):
            page.screenshot(path=SHOTS / f"site_{width}_{place.replace('/', '_')}.png")
    page.close()
    assert not faults, "\n".join(faults)


SEARCHED = {
    "rail-only": ["notebooks/01_network_cost", "notebooks/02_topologies", "notebooks/04_traffic_moe", "api/rail_only"],
    "all-to-all": ["notebooks/14_photonic_reconfiguration"],
    "all to all": ["notebooks/14_photonic_reconfiguration"],
    "rail only saving": ["notebooks/01_network_cost"],
    "network cost": ["notebooks/01_network_cost"],
    "rail_only": ["api/rail_only"],
    "install": ["guide/first_plan"],
}


@pytest.mark.parametrize("words", SEARCHED)
def test_a_search_finds_questions_and_tasks_first(address, browser, words):
    page = browser.new_page()
    page.goto(f"{address[0]}search.html?q={words.replace(' ', '+')}")
    page.wait_for_selector(".search-summary:has-text('found')", timeout=30_000)
    found = [link.split(".html")[0] for link in page.eval_on_selector_all("ul.search > li > a", LINKS)]
    page.close()
    assert {*[*dict.fromkeys(found)][: len(SEARCHED[words])]} == {*SEARCHED[words]}, found[:9]


def test_a_count_of_the_ledger_opens_its_claims_and_a_phone_shows_code_when_asked(address, browser):
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.goto(f"{address[0]}reproduction.html")
    claims, code = "[id=railonly2025-differs] > details", ".cell:not(.tag_parameters) details.hide"
    assert page.locator(claims).get_attribute("open") is None
    page.click("a[href='#railonly2025-differs']")
    page.wait_for_selector(f"{claims}[open]")
    page.goto(f"{address[0]}notebooks/01_network_cost.html")
    assert not page.locator(code).first.is_visible() and page.locator(".tag_parameters details").is_visible()
    page.click(".show-code")
    assert page.locator(code).first.is_visible()
    page.goto(f"{address[0]}notebooks/07_hb_domain_size.html#railonly2023-fig7")  # past pictures that load when seen
    page.wait_for_timeout(1000)
    assert 0 < page.locator("[id=railonly2023-fig7]").bounding_box()["y"] < 300
    page.close()
