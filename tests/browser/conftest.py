"""The browser tests run only where their folder is named, as `make test-browser` does; `pytest tests` skips them."""

from pathlib import Path

import pytest
from chromium import CHROMIUM, FLAGS, SHOTS, WAIT

HERE = Path(__file__).resolve().parent


def pytest_ignore_collect(collection_path, config):
    start = Path(config.invocation_params.dir)
    named = [(start / argument.split("::")[0]).resolve() for argument in config.args]
    return None if any(path.is_relative_to(HERE) for path in named) else True


@pytest.fixture(scope="session")
def browser():
    """Headless Chromium of the system, driven by Playwright."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no Playwright: pip install --group dev to run this test"
    )
    if CHROMIUM is None:
        pytest.skip("no Chromium on the PATH (Debian: apt install chromium)")
    SHOTS.mkdir(parents=True, exist_ok=True)
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=WAIT * 1000)
        try:
            yield chromium
        finally:
            chromium.close()
