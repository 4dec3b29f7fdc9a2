"""JupyterLab as a reader meets it: the server, the index, a notebook run in Chromium, its sliders moved.

What the browser showed is left in build/browser/.
"""

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

import pytest
from chromium import SHOTS, WAIT

from railcore.catalog import files
from suite import workspace
from suite.driver.kernels import kernel_environment
from suite.driver.lab import refresh
from suite.driver.run import load_notebook

psutil = pytest.importorskip("psutil", reason="the browser tests need psutil: pip install --group dev")

pytestmark = pytest.mark.browser
NOTEBOOK = "01_network_cost.ipynb"
COPIES = "build/lab/notebooks"
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "docmanager-extension/plugin": {"autosave": False},
    "notebook-extension/tracker": {"windowingMode": "none"},  # every cell in the page, also what is out of sight
}
ERRORS = '[data-mime-type="application/vnd.jupyter.stderr"], [data-mime-type="application/vnd.jupyter.error"]'


# The server.


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address with the slash at the end, its token and its process."""

    url: str
    token: str
    process: psutil.Process

    def get(self, path: str, **headers: str) -> SimpleNamespace:
        """Answer to a GET as it is: status, headers and text, no redirection followed."""
        opener = build_opener(ProxyHandler({}), _Unfollowed())
        try:
            with opener.open(Request(self.url + path, headers=headers), timeout=WAIT) as answer:
                return SimpleNamespace(status=answer.status, headers=answer.headers, text=answer.read().decode())
        except HTTPError as error:
            with error:
                return SimpleNamespace(status=error.code, headers=error.headers, text=error.read().decode())

    def listening(self) -> set[str]:
        """Addresses that the server and its kernels listen on."""
        return {
            connection.laddr.ip
            for process in (self.process, *self.process.children(recursive=True))
            for connection in process.net_connections("inet")
            if connection.status == psutil.CONN_LISTEN
        }


class _Unfollowed(HTTPRedirectHandler):
    def redirect_request(self, *_arguments, **_options):
        return None


@contextmanager
def serving(command: list[str], folder: Path) -> Iterator[Lab]:
    """JupyterLab started with `command`, its settings, state and results below `folder`; ended with its kernels."""
    environment = {
        key: value for key, value in kernel_environment().items() if not key.startswith(("JUPYTER", "JPY_", "RAILCORE"))
    }
    environment |= {
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        "JUPYTER_PORT": str(free_port()),
        "RAILCORE_OUT": str(folder / "out"),
        "BROWSER": "true",  # the command that does nothing, should the server open a browser all the same
    }
    for name, settings in SETTINGS.items():
        files.write_whole(folder / "settings/@jupyterlab" / f"{name}.jupyterlab-settings", json.dumps(settings))
    checkpoints = {"checkpoint_dir": str(folder / "checkpoints")}  # none beside the files that are opened
    quiet = json.dumps({"ServerApp": {"open_browser": False, "allow_root": True}, "FileCheckpoints": checkpoints})
    for name in ("jupyter_server_config.json", "jupyter_lab_config.json"):
        files.write_whole(folder / "config" / name, quiet)
    log = folder / "lab.log"
    with log.open("w") as stream:
        started = subprocess.Popen(
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield ready(started, folder / "runtime", log)
    finally:
        end(started)


def free_port() -> int:
    """A port of the loopback that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def ready(started: subprocess.Popen, runtime: Path, log: Path) -> Lab:
    """The server, as soon as it answers; it writes its address and token into its runtime folder."""
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline and started.poll() is None:
        with suppress(OSError, ValueError):
            info = json.loads((runtime / f"jpserver-{started.pid}.json").read_text())
            lab = Lab(info["url"], info["token"], psutil.Process(started.pid))
            if lab.get("api/status", Authorization=f"token {lab.token}").status == 200:
                return lab
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-4000:]}")


def end(started: subprocess.Popen) -> None:
    """Let the server end its kernels, then kill what is left of its process group and of its descendants."""
    family = []
    with suppress(psutil.Error):
        family = psutil.Process(started.pid).children(recursive=True)
    with suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        started.wait(20)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(started.pid, signal.SIGKILL)
    started.wait()
    for process in family:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(family, timeout=10)


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Iterator[Lab]:
    """What `make lab` starts."""
    with serving([sys.executable, "-m", "suite", "lab"], tmp_path_factory.mktemp("lab")) as running:
        yield running


@pytest.fixture
def copy(tmp_path) -> Iterator[Lab]:
    """JupyterLab over a folder that holds nothing but an unexecuted copy of the notebook."""
    notebook = json.loads((workspace.NOTEBOOKS / NOTEBOOK).read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    root = tmp_path / "root"
    files.write_whole(root / NOTEBOOK, json.dumps(notebook))
    command = [sys.executable, "-m", "jupyterlab", "--ip=127.0.0.1", f"--ServerApp.root_dir={root}"]
    with serving(command, tmp_path) as running:
        yield running


# The browser.


@pytest.fixture
def page(browser):
    """An empty page, 1400 pixels wide."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    context.set_default_timeout(WAIT * 1000)
    try:
        yield context.new_page()
    finally:
        context.close()


def open_notebook(page, lab: Lab, path: str) -> None:
    """Open a notebook and wait until its kernel is idle and its session attached."""
    page.goto(f"{lab.url}lab/tree/{path}?reset&token={lab.token}")
    page.locator(".jp-Notebook .jp-Cell").first.wait_for()
    idle = page.locator("#jp-main-statusbar").get_by_text(re.compile(r"Python 3.*\| Idle"))
    idle.wait_for()
    page.wait_for_timeout(1500)  # Run All before the session is attached asks for a kernel and runs nothing
    dialog = page.locator(".jp-Dialog .jp-mod-accept")
    if dialog.count():
        dialog.first.click()
        idle.wait_for()


def run_all(page) -> None:
    """Run > Run All Cells, and wait until the last cell, stored without output, has one, or another one an error."""
    page.locator("#jp-MainMenu").get_by_text("Run", exact=True).click()
    page.locator(".lm-Menu").get_by_text("Run All Cells", exact=True).click()
    page.wait_for_function(
        """errors => document.querySelector(errors) ||
            [...[...document.querySelectorAll('.jp-Notebook .jp-CodeCell')].at(-1).querySelectorAll('.jp-OutputPrompt')]
                .some(prompt => /\\[\\d+\\]/.test(prompt.textContent))""",
        arg=ERRORS,
    )


def picture(page) -> bytes:
    """Bytes of the picture below the sliders."""
    image = page.locator("img.widget-image")
    image.wait_for()
    return bytes(image.evaluate("async image => [...new Uint8Array(await (await fetch(image.src)).arrayBuffer())]"))


def shoot(page, name: str) -> None:
    """A picture of the window, into build/browser/."""
    page.screenshot(path=SHOTS / f"{name}.png")


def shoot_pages(page, name: str) -> None:
    """Pictures of the whole notebook, one for each windowful."""
    for old in SHOTS.glob(f"{name}_[0-9]*.png"):
        old.unlink()
    notebook = page.locator(".jp-WindowedPanel-outer:visible").first
    height, shown = notebook.evaluate(
        """outer => [[...outer.querySelectorAll('.jp-Cell')].at(-1).getBoundingClientRect().bottom
            - outer.getBoundingClientRect().top + outer.scrollTop, outer.clientHeight]"""
    )
    for number, top in enumerate(range(0, int(height) - 40, shown - 40), 1):
        notebook.evaluate("(outer, top) => { outer.scrollTop = top }", top)
        page.wait_for_timeout(300)
        shoot(page, f"{name}_{number:02}")


# The tests.


def test_lab_command_listens_on_loopback_and_asks_for_its_token(lab):
    index, contents = f"lab/tree/{COPIES}/00_index.ipynb", f"api/contents/{COPIES}/00_index.ipynb"
    assert len(lab.token) >= 32
    assert lab.listening() == {"127.0.0.1"}
    assert lab.get(f"{index}?token={lab.token}").status == 200
    start = lab.get("", Authorization=f"token {lab.token}")  # where the address that it prints leads, too
    assert start.status == 302 and start.headers["Location"].rstrip("?").endswith(f"/{index}")
    answer = lab.get(contents, Authorization=f"token {lab.token}")
    assert answer.status == 200
    assert json.loads(answer.text)["content"]["cells"]

    unasked = lab.get(index)
    assert unasked.status == 302
    assert "/login" in unasked.headers["Location"]
    assert lab.get(contents).status == 403
    assert lab.get(contents, Authorization=f"token {secrets.token_hex(24)}").status == 403


def test_index_shows_pictures_and_opens_those_of_its_gallery(lab, page):
    open_notebook(page, lab, f"{COPIES}/00_index.ipynb")
    shoot_pages(page, "index")
    assert page.locator(ERRORS).all_inner_texts() == []
    widths = page.locator(".jp-RenderedMarkdown img").evaluate_all("images => images.map(image => image.naturalWidth)")
    assert len(widths) > 100 and min(widths) >= 1200
    assert page.locator(".jp-RenderedMarkdown mjx-container").count() == 0  # amounts in dollars are no formulas
    page.locator(".jp-RenderedMarkdown td").get_by_role("link", name="png", exact=True).first.click()
    image = page.locator(".jp-ImageViewer img")
    image.wait_for()
    page.wait_for_function("() => document.querySelector('.jp-ImageViewer img').naturalWidth >= 1200")
    shoot(page, "index_picture")


def test_what_is_run_and_saved_in_the_lab_changes_a_copy_alone(lab, page):
    stored, copy = (folder / NOTEBOOK for folder in (workspace.NOTEBOOKS, files.BUILD / "lab" / "notebooks"))
    before = stored.read_bytes()
    open_notebook(page, lab, f"{COPIES}/{NOTEBOOK}")
    run_all(page)
    assert page.locator(ERRORS).all_inner_texts() == []
    saved = copy.stat().st_mtime_ns
    page.keyboard.press("Control+s")
    deadline = time.monotonic() + WAIT
    while copy.stat().st_mtime_ns == saved and time.monotonic() < deadline:
        page.wait_for_timeout(200)
    assert copy.read_bytes() != before == stored.read_bytes()
    refresh()  # as the next `make lab` does
    assert copy.read_bytes() == before
    open_notebook(page, lab, f"{COPIES}/00_index.ipynb")
    page.locator(".jp-RenderedMarkdown").get_by_role("link", name="network cost", exact=False).first.click()
    page.locator(f'.lm-TabBar-tab[title*="{NOTEBOOK}"]').wait_for()


def test_the_ledger_is_read_by_its_counts(lab, page):
    page.goto(f"{lab.url}lab/tree/build/lab/figures/reproduction.md?reset&token={lab.token}")
    ledger = page.locator(".jp-MarkdownViewer")
    ledger.locator("table").nth(1).wait_for()
    page.wait_for_timeout(1500)
    shoot(page, "ledger")
    row = ledger.locator("table").nth(1).locator("tr", has_text="railonly2025")
    link = row.locator('a[href$="railonly2025-differs"]')
    count = int(link.inner_text())
    link.click()
    heading = ledger.get_by_role("heading", name="railonly2025 differs")
    page.wait_for_function(
        "heading => Math.abs(heading.getBoundingClientRect().top) < 300", arg=heading.element_handle()
    )
    shoot(page, "ledger_differs")
    assert heading.locator("xpath=following::table[1]/tbody/tr").count() == count


def test_sliders_of_a_notebook_change_its_picture(copy, page):
    open_notebook(page, copy, NOTEBOOK)
    run_all(page)
    assert page.locator(ERRORS).all_inner_texts() == []
    assert copy.listening() == {"127.0.0.1"}

    image = page.locator("img.widget-image")
    seen = [picture(page)]
    assert seen[0].startswith(b"\x89PNG")
    shoot_pages(page, "notebook")
    image.scroll_into_view_if_needed()
    shoot(page, "explore_before")

    from playwright.sync_api import expect

    handles = page.locator(".widget-slider .noUi-handle")
    assert handles.count() >= 3
    for number in range(handles.count()):
        source = image.get_attribute("src")
        handles.nth(number).focus()
        page.keyboard.press("ArrowRight")
        expect(image, f"slider {number + 1} moved").not_to_have_attribute("src", source, timeout=WAIT * 1000)
        page.wait_for_function("() => document.querySelector('img.widget-image').complete")
        seen.append(picture(page))
    shoot(page, "explore_after")

    assert len(set(seen)) == len(seen), "a slider moved and the picture stayed"
    assert page.locator(ERRORS).all_inner_texts() == []


def test_an_edited_parameter_changes_the_answer_and_nothing_stops(copy, page):
    open_notebook(page, copy, NOTEBOOK)
    (source,) = (
        cell["source"]
        for cell in load_notebook(NOTEBOOK.removesuffix(".ipynb"))["cells"]
        if "parameters" in cell["metadata"].get("tags", [])
    )
    edited = source.replace("gpus: int = 65536", "gpus: int = 12288")
    edited = edited.replace("hb_domain_size: int = 256", "hb_domain_size: int = 72")
    page.locator(".jp-CodeCell", has_text="gpus: int =").first.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(edited)  # it is run as it stands there, and not saved
    run_all(page)
    assert page.locator(ERRORS).all_inner_texts() == []
    answer = page.locator(".jp-OutputArea-output", has_text="A rail-only network of 12,288 GPUs").first
    assert "HB domains of 72" in answer.inner_text()
    compared = page.locator(".jp-OutputArea-output", has_text="Computed with your numbers").first
    assert "differs" not in compared.locator("table").first.inner_text()
    answer.scroll_into_view_if_needed()
    shoot(page, "edited")
