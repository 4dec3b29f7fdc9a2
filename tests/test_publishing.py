"""What the driver does where files, folders, tables, stamps or notebooks are not as it left them."""

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import project
import pytest

from railcore import catalog
from railcore.catalog import files
from suite.driver import kernels, publish, readme
from suite.driver.run import load_notebook

LEDGER, INPUTS, MANIFEST = (f"figures/{name}.csv" for name in ("reproduction", "inputs", "MANIFEST"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return project.made_and_kept(tmp_path_factory)


@pytest.fixture
def suite(made):
    return project.put_back(*made)


def run_again(folder, *names):
    """Run notebooks that are up to date once more."""
    for name in names:
        (folder / "build" / "stamps" / f"{name}.json").unlink()
    status, printed = project.run(folder)
    assert status == 0 and project.ran(printed) - {"00_index"} == {*names}, printed
    return printed


def edit(path, *change):
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))


PICTURE = """
import io
from IPython.display import Image
from PIL import Image as pixels
stream = io.BytesIO()
pixels.new("L", (20, 20), {level}).save(stream, "png")
picture = Image(stream.getvalue())
"""


def png(level):
    made = {}
    exec(PICTURE.format(level=level), made)
    return base64.b64encode(made["stream"].getvalue()).decode()


def test_measured_files_that_a_run_has_read_are_inputs_with_their_sources():
    measured = sorted(path.relative_to(files.ROOT).as_posix() for path in (files.DATA / "measured").glob("*.csv"))
    rows = publish.measured_inputs(["data/claims.csv", *measured])
    assert [row["name"] for row in rows] == measured and rows[0].keys() == set(catalog.INPUT_COLUMNS) - {"notebook"}
    sources = {row["name"].rpartition("/")[2]: row["source"] for row in rows}
    assert "chuhan-ouyang/torchtitan" in sources["photonic_run.csv"] == sources["photonic_windows.csv"]
    assert not any("data/README.md" in text or "\n" in text for text in sources.values())


@pytest.mark.slow
def test_last_digits_of_another_machine_stay_as_they_are_stored(suite):
    notebook = suite / "notebooks" / f"{project.SECOND}.ipynb"
    shown = PICTURE.format(level=100) + "picture"
    project.write_notebook(suite, project.SECOND, 'speed: str = "400 Gbps"', project.OTHER, shown)
    assert project.run(suite)[0] == 0
    before, table = project.snapshot(suite), suite / "figures" / "extra" / "02_table.csv"
    edit(table, "5e+10", "50000000001")
    edit(notebook, png(100), png(101))
    edit(suite / LEDGER, ",2,,,0,reproduced,", f",2.000000000001,,,{2.000000000001 / 2 - 1:.6g},reproduced,")
    stored = project.snapshot(suite)
    assert "0 files changed" in run_again(suite, project.FIRST, project.SECOND)
    assert project.snapshot(suite) | {MANIFEST: b""} == stored | {MANIFEST: b""}
    assert hashlib.sha256(stored["figures/extra/02_table.csv"]).hexdigest() in (suite / MANIFEST).read_text()
    edit(notebook, png(101), png(102))
    table.with_suffix(".md").write_text("what a person would see")  # then all of the item is new
    edit(suite / LEDGER, "a test", "another reason")
    assert "3 files changed" in run_again(suite, project.FIRST, project.SECOND)
    assert project.snapshot(suite) == before


@pytest.fixture
def paged(suite):
    """The suite with a page in its list, which its second notebook is to write."""
    extras = suite / "data" / "extras.csv"
    listed = extras.read_text()
    extras.write_text(f"{listed}plans.page,plans,page,page,a plan,{project.SECOND},html\n")
    yield suite
    extras.write_text(listed)


@pytest.mark.slow
def test_a_page_is_published_compared_and_removed(paged):
    page, notebook = paged / "figures" / "plans" / "page.html", paged / "notebooks" / f"{project.SECOND}.ipynb"
    save = 'outputs.save_page("plans.page", f"<p>{units.parse(speed, \'bps\') / 1.5e11!r} of it</p>\\n")'
    project.write_notebook(paged, project.SECOND, project.SPEED, project.OTHER, save)
    assert project.run(paged)[0] == 0
    before = project.snapshot(paged)
    assert page.read_text() == f"<p>{1 / 3!r} of it</p>\n"
    assert "[page](../figures/plans/page.html)" in notebook.read_text()
    listed = f"plans/page.html,{project.SECOND},{hashlib.sha256(page.read_bytes()).hexdigest()}\n"
    assert listed in (paged / MANIFEST).read_text()

    edit(page, repr(1 / 3), "0.333333333")
    edited = page.read_bytes()
    assert "0 files changed" in run_again(paged, project.SECOND)
    assert page.read_bytes() == edited
    assert hashlib.sha256(edited).hexdigest() in (paged / MANIFEST).read_text()

    edit(page, "of it", "of them")
    assert "1 file changed" in run_again(paged, project.SECOND)
    assert project.snapshot(paged) == before

    project.write_notebook(paged, project.SECOND, project.SPEED, project.OTHER)
    assert project.run(paged)[0] == 0
    assert not page.exists() and "plans/" not in (paged / MANIFEST).read_text()


@pytest.mark.parametrize(
    ("fault", "folder"), [("ENOSPC", "notebooks"), pytest.param("EACCES", "extra", marks=pytest.mark.slow)]
)
def test_a_full_disk_and_a_closed_folder_change_nothing(suite, fault, folder):
    patch = (
        "import errno, os\n"
        "real = os.open\n"
        "def fail(path, flags, *terms, **named):\n"
        f"    if flags & os.O_CREAT and os.path.dirname(path).endswith({folder!r}):\n"
        f"        raise OSError(errno.{fault}, 'no')\n"
        "    return real(path, flags, *terms, **named)\n"
        "os.open = fail\n"
    )
    project.write_notebook(suite, project.FIRST, "tiers: int = 3", project.DRAW)
    changed = project.snapshot(suite)
    status, printed = project.run(suite, project.FIRST, "--publish", patch=patch)
    assert status == 1 and f"FAILED: {project.FIRST}; earlier results are unchanged" in printed
    assert project.snapshot(suite) == changed


def test_publishing_that_stops_half_way_says_what_is_new_and_the_next_run_completes(suite):
    """Worth its 5 s: all or none is the driver's promise."""
    before, part = project.snapshot(suite), suite / "figures" / "extra" / "01_part3.csv"
    project.write_notebook(suite, project.FIRST, "tiers: int = 3", project.DRAW)
    patch = (
        "import os\n"
        "replace = os.replace\n"
        "def fail(source, target):\n"
        "    if str(target).endswith('01_part3.csv'): raise OSError('the disk was pulled out')\n"
        "    replace(source, target)\n"
        "os.replace = fail\n"
    )
    status, printed = project.run(suite, project.FIRST, "--publish", patch=patch)
    assert status == 1 and "unchanged" not in printed and "run `make figures` again" in printed
    new, rest = re.search(r"half published: .*; new: (.*); as before: ([^;]*);", printed).groups()
    now = project.snapshot(suite)
    changed = {path for path in now if now[path] != before[path] and path.startswith("figures/")}
    assert set(new.split(", ")) == changed
    assert part.relative_to(suite).as_posix() in rest.split(", ") and LEDGER in rest.split(", ")
    assert project.FIRST in project.ran(project.run(suite, project.FIRST)[1])


@pytest.mark.slow
def test_a_folder_in_the_way_of_a_figure_changes_nothing(suite):
    part = suite / "figures" / "extra" / "01_part3.csv"
    project.write_notebook(suite, project.FIRST, "tiers: int = 3", project.DRAW)
    part.unlink()
    part.mkdir()
    before = project.snapshot(suite)
    status, printed = project.run(suite, project.FIRST, "--publish")
    assert status == 1 and "01_part3.csv" in printed and "is a folder" in printed
    assert f"FAILED: {project.FIRST}; earlier results are unchanged" in printed
    now = project.snapshot(suite)
    kept = [line for line in before[MANIFEST].splitlines(keepends=True) if part.name.encode() not in line]
    assert now == before | {MANIFEST: b"".join(kept)}  # the part was gone before


@pytest.mark.slow
def test_a_stamp_that_cannot_be_written_is_said(suite):
    stamp = suite / "build" / "stamps" / f"{project.SECOND}.json"
    stamp.unlink()
    stamp.mkdir()
    status, printed = project.run(suite, project.SECOND)
    assert status == 1 and "not its stamp in build/" in printed and "unchanged" not in printed


SPOILT = {
    "missing": lambda data: None,
    "empty": lambda data: b"",
    "header only": lambda data: data[: data.index(b"\n") + 1],
    "half": lambda data: data[: len(data) // 2],
    "byte order mark": lambda data: b"\xef\xbb\xbf" + data,
    "NUL": lambda data: data.replace(b"0", b"\x00"),
    "other columns": lambda data: b"a,b\n1,2\n",
    "not UTF-8": lambda data: data + b"\xff",
}
QUICK = ("half",)  # `make slow` has the others


@pytest.mark.parametrize(
    "spoil", [pytest.param(SPOILT[name], marks=() if name in QUICK else pytest.mark.slow, id=name) for name in SPOILT]
)
def test_spoilt_tables_are_made_anew_whole(suite, spoil):
    before = project.snapshot(suite)
    assert before[INPUTS].count(b"\n") > 1
    for name in (MANIFEST, INPUTS, LEDGER):
        (suite / name).unlink()
        if (data := spoil(before[name])) is not None:
            (suite / name).write_bytes(data)
    status, printed = project.run(suite)
    assert status == 0, printed
    assert project.snapshot(suite) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "spoil"), [(INPUTS, "missing"), *((LEDGER, how) for how in ("header only", "other columns"))]
)
def test_one_notebook_is_refused_where_the_others_have_lost_their_rows(suite, name, spoil):
    before, other = project.snapshot(suite), project.FIRST if name == INPUTS else project.SECOND
    (suite / name).unlink()
    if (data := SPOILT[spoil](before[name])) is not None:
        (suite / name).write_bytes(data)
    if spoil != "header only":  # what is no table is seen in a fresh clone, too
        shutil.rmtree(suite / "build" / "stamps")
    status, printed = project.run(suite, other)
    assert status == 2 and f"{name} has lost rows of" in printed and "without NB" in printed
    assert project.run(suite)[0] == 0
    assert project.snapshot(suite) == before


def test_nothing_outside_figures_is_removed(suite):
    kept = suite / "data" / "keep.txt"
    kept.write_text("mine")
    (suite / "figures" / "link").symlink_to(suite / "data")
    hidden = suite / "figures" / "extra" / ".hidden"
    hidden.write_text("mine")
    listed = ["../data/keep.txt", str(kept), "extra/../../data/keep.txt", "link/keep.txt", "extra/.hidden", "extra", ""]
    with (suite / MANIFEST).open("a") as stream:
        stream.writelines(f"{path},{owner},0\n" for path in listed for owner in (project.FIRST, "99_gone"))
    (suite / "build" / "stamps" / f"{project.FIRST}.json").unlink()
    run = project.run(suite)
    assert run[0] == 0
    assert kept.read_text() == hidden.read_text() == "mine"
    assert all(
        f"MANIFEST.csv lists {path!r}, which is no figure or table: it is left alone" in run[1] for path in listed
    )
    kept.unlink()


def test_files_that_no_result_is_in_are_named(monkeypatch):
    before, owned = publish.files_of_people(), publish.owners()
    assert not publish.find_strays(before)
    monkeypatch.setattr(publish, "owners", lambda: {path: owned[path] for path in list(owned)[1:]})
    before |= {"data/claims.csv": (0, 0), "notebooks/01_network_cost.ipynb": (0, 0)}  # this is a run's to write
    before["data/gone.csv"] = before.pop("data/extras.csv")
    said = [line.partition(":")[0] for line in publish.find_strays(before, ["01_network_cost"])]
    assert said == [
        f"figures/{next(iter(owned))} belongs to no notebook",
        "data/claims.csv was changed since notebooks began to run",
        "data/extras.csv appeared since notebooks began to run",
        "data/gone.csv was removed since notebooks began to run",
    ]


def test_folders_of_others_where_sockets_are_do_not_stop_the_driver(tmp_path, monkeypatch):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    ours, alive = f"railcore-{gone.pid}-abcd_123", f"railcore-{os.getpid()}-abcd_123"
    strange = [f"railcore-{name}-abcd_123" for name in ("²", "0", "-1", "9" * 30, "", "a", "007")]
    strange += [f"railcore-{gone.pid}-{name}" for name in ("data", "my_plans_2026")]  # of a person
    for name in (ours, alive, *strange):
        (tmp_path / name).mkdir()
    (tmp_path / f"railcore-{gone.pid}-link").symlink_to(tmp_path / alive)
    (tmp_path / f"railcore-{gone.pid}-file").write_text("")
    foreign = tmp_path / f"railcore-{gone.pid}-foreign1"
    foreign.mkdir()
    stat = Path.lstat
    owner = os.stat_result([*stat(foreign)[:4], os.getuid() + 1, *stat(foreign)[5:]])
    monkeypatch.setattr(Path, "lstat", lambda path: owner if path == foreign else stat(path))
    monkeypatch.setattr(kernels, "_SOCKETS_ROOT", tmp_path)
    monkeypatch.setattr(kernels, "_sockets", None)
    kernels.open_sockets()
    assert kernels._sockets.is_dir() and not (tmp_path / ours).exists()
    assert all((tmp_path / name).exists() for name in (alive, *strange, foreign.name))


def as_notebook(**changes):
    whole = {"cells": [project.cell("1", 0)], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole | changes).encode()


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
        as_notebook(nbformat=3),
        as_notebook(metadata=[]),
        as_notebook(cells=["a"]),
        as_notebook(cells=[{"cell_type": "code", "source": "1"}]),
        as_notebook(cells=[{"cell_type": "odd", "source": "1", "metadata": {}}]),
        as_notebook(cells=[{"cell_type": "code", "source": [1], "metadata": {}}]),
        as_notebook(cells=[{"cell_type": "code", "source": "1", "metadata": {"tags": 5}}]),
    ],
)
def test_what_is_no_notebook_is_said(monkeypatch, tmp_path, text):
    monkeypatch.setattr("suite.workspace.NOTEBOOKS", tmp_path)
    (tmp_path / "01_a.ipynb").write_bytes(text)
    with pytest.raises(ValueError, match=r"notebooks/01_a\.ipynb is no (notebook|JSON in UTF-8)"):
        load_notebook("01_a")


@pytest.mark.parametrize(
    "stamp",
    ["[]", "{}", "\x00", '{"used": null, "modules": [], "data": [], "published": {}}']
    + ['{"used": "", "modules": [1], "data": [], "published": {}}', '{"used": "", "modules": [""], "data": []}']
    + ['{"used": "", "modules": [], "data": [], "published": []}', "[" * 100_000, "folder"],
)
def test_a_stamp_of_another_shape_is_as_none(monkeypatch, tmp_path, stamp):
    monkeypatch.setattr("railcore.catalog.files.BUILD", tmp_path)
    path = publish.stamp_path("01_a")
    path.mkdir(parents=True) if stamp == "folder" else files.write_whole(path, stamp)
    assert publish.read_stamp("01_a") == {} and not publish.up_to_date("01_a", {"cells": []}, {})


ENDLESS = 'while True: print("x" * 999_999)): with it the notebook prints more than 10 MB, or more than 20,000 times'


@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("import os\nos._exit(0)", "its kernel ended before the notebook did"),
        pytest.param('while True: print("x" * 999_999)', f"cell 1 ({ENDLESS}", marks=pytest.mark.slow),
        pytest.param('while True: print("y", flush=True)', "cell 1 (while True: print(", marks=pytest.mark.slow),
        pytest.param("raise SystemExit(3)", "cell 1 (raise SystemExit(3)): SystemExit: 3", marks=pytest.mark.slow),
        pytest.param("raise SystemExit(0)", "cell 1: SystemExit: it left the notebook", marks=pytest.mark.slow),
    ],
)
def test_a_notebook_that_ends_itself_has_failed(suite, end, message):
    project.write_notebook(suite, project.SECOND, project.SPEED, end, project.OTHER)
    status, printed = project.run(suite, project.SECOND)
    assert status == 1 and f"{project.SECOND}: FAILED, {message}" in printed


def test_a_file_too_large_to_publish_is_refused(tmp_path):
    place = tmp_path / "extra" / "big.csv"
    place.parent.mkdir()
    with place.open("wb") as stream:
        stream.truncate(10_000_001)
    with pytest.raises(ValueError, match=r"wrote extra/big.csv of 10000001 bytes: at most 10000000 may be published"):
        publish.publish("01_a", tmp_path, {}, {})


@pytest.mark.parametrize("text", ["<!-- /ledger --> <!-- ledger -->", pytest.param("\udcff", marks=pytest.mark.slow)])
def test_readme_without_its_markers_is_said_and_left_alone(suite, text):
    path = suite / "README.md"
    path.write_text(text, errors="surrogateescape")
    before = path.read_bytes()
    status, printed = project.run(suite)
    assert status == 0
    for part in readme.PARTS:
        assert f"warning: README.md lacks the marker <!-- {part} --> or, after it, <!-- /{part} -->" in printed
    assert path.read_bytes() == before
    path.write_text("<!-- answers -->old<!-- /answers --> a <!-- ledger -->old<!-- /ledger --> b <!-- /ledger -->")
    assert "README" not in project.run(suite)[1]
    start, end = r"<!-- answers -->\nnone\n<!-- /answers --> a <!-- ledger -->", "<!-- /ledger --> b <!-- /ledger -->"
    assert re.fullmatch(rf"{start}\n\| document .*\| all [^/]*{end}", path.read_text(), re.DOTALL)
    path.unlink()


@pytest.mark.slow
def test_a_plain_c_locale_and_a_path_beyond_ascii(tmp_path):
    folder = tmp_path / "prüf"
    folder.mkdir()
    project.make(folder)
    status, printed = project.run(folder, project.SECOND, PYTHONUTF8="0", LC_ALL="C")
    assert status == 0 and f"{project.SECOND}: done" in printed, printed
