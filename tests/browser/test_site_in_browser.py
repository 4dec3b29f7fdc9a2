"""The static site in Chromium, on a desk and on a phone: nothing fails or is broader than the page, search finds.

On a desk a notebook's first picture is on the first screen, and what is not folded is inside its column.

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
    page.on("requestfailed", lambda request: faults.append(f"failed: {request.url}"))
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
    page.goto(f"{base}search.html?q=transceiver")
    page.wait_for_selector("ul.search li a", timeout=30_000)
    page.close()
    assert not faults, "\n".join(faults)
