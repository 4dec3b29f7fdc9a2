"""The static site in Chromium, on a desk and on a phone: nothing fails, nothing is broader than the page, search finds.

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
        if place in ("index.html", "notebooks/01_network_cost.html"):
            page.screenshot(path=SHOTS / f"site_{width}_{place.replace('/', '_')}.png")
    page.goto(f"{base}search.html?q=transceiver")
    page.wait_for_selector("ul.search li a", timeout=30_000)
    page.close()
    assert not faults, "\n".join(faults)
