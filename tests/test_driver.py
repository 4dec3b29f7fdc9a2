import fcntl
import json
import random
import re
import subprocess
import sys
import time
from types import SimpleNamespace

import project
import pytest
from nbclient import client as nbclient_client
from nbclient.exceptions import CellExecutionComplete
from nbformat import NotebookNode

from suite.driver import client, parameters, run


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    folder = project.make(tmp_path_factory.mktemp("project"))
    status, printed = project.run(folder)
    assert status == 0, printed
    return folder


def published(folder, name):
    lines = (folder / "figures" / "MANIFEST.csv").read_text().splitlines()[1:]
    return {line.split(",")[0] for line in lines if line.split(",")[1] == name}


def test_first_run_publishes_figures_ledger_notebooks_and_manifest(suite):
    assert published(suite, project.FIRST) == {
        f"extra/01_part{i}.{end}" for i in range(6) for end in ("csv", "md", "tex")
    }
    ledger = (suite / "figures" / "reproduction.csv").read_text()
    assert len(ledger.splitlines()) == len((suite / "data" / "claims.csv").read_text().splitlines())
    assert re.search(r"^railonly2025\.text\.r64_tiers_rail_only,.*,reproduced,", ledger, re.MULTILINE)
    executed = json.loads((suite / "notebooks" / f"{project.FIRST}.ipynb").read_text())
    assert executed["cells"][1]["outputs"][0]["text"] == ["made 2\n"]
    assert executed["cells"][1]["execution_count"] == 2
    assert executed["metadata"]["language_info"] == {"name": "python"}
    assert all("papermill" not in json.dumps(cell["metadata"]) for cell in executed["cells"])


def test_second_run_does_nothing_and_a_forced_one_gives_the_same_bytes(suite):
    before = project.snapshot(suite)
    status, printed = project.run(suite)
    assert status == 0 and not project.ran(printed) and "nothing to do" in printed
    for stamp in (suite / "build" / "stamps").iterdir():
        stamp.unlink()
    status, printed = project.run(suite)
    assert project.ran(printed) == {project.FIRST, project.SECOND, "00_index"}
    assert project.snapshot(suite) == before


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("railcore/catalog/items.py", {project.FIRST, project.SECOND, "00_index"}, marks=pytest.mark.slow),
        ("railcore/network/reliability.py", set()),
        ("data/catalog/gpus.csv", set()),
        ("data/claims.csv", {project.FIRST}),
        pytest.param("constraints.txt", {project.FIRST, project.SECOND, "00_index"}, marks=pytest.mark.slow),
    ],
)
def test_a_change_runs_the_notebooks_that_used_the_file(suite, path, expected):
    """Worth 5 s a file: runs that are left out though something changed would publish what is not so."""
    target = suite / path
    text = target.read_text()
    target.write_text(text.rstrip("\n") + "\n\n" if path.endswith(".py") else text + "\n")
    _, printed = project.run(suite)
    target.write_text(text)
    project.run(suite)
    assert project.ran(printed) == expected


def test_what_was_changed_by_hand_is_restored(suite):
    before = project.snapshot(suite)
    figure = suite / "figures" / "extra" / "01_part0.csv"
    ledger = suite / "figures" / "reproduction.csv"
    notebook = suite / "notebooks" / f"{project.SECOND}.ipynb"
    figure.write_text("x\n")
    ledger.write_text(ledger.read_text().replace(",2,0,reproduced,", ",3,0.5,differs,"))
    notebook.write_text(notebook.read_text().replace('"execution_count": 2', '"execution_count": 7'))
    status, _ = project.run(suite)
    assert status == 0
    assert project.snapshot(suite) == before


STRAY = """
from suite import workspace
for folder in (workspace.NOTEBOOKS, workspace.files.DATA):
    (folder / "stray").write_text("")
(workspace.files.DATA / "claims.csv").touch()
"""


def test_a_failed_notebook_publishes_nothing_and_stops_no_other(suite):
    before = project.snapshot(suite)
    good = (suite / "notebooks" / f"{project.SECOND}.ipynb").read_bytes()
    project.write_notebook(suite, project.SECOND, 'speed: str = "1 bps"', project.OTHER + STRAY + "1 / 0")
    (suite / "build" / "stamps" / f"{project.FIRST}.json").unlink()
    status, printed = project.run(suite, "--publish")
    assert status == 1
    assert f"{project.SECOND}: FAILED, cell 1 (1 / 0): ZeroDivisionError" in printed
    assert f"{project.SECOND}: warning: the speed is a crawl" in printed
    assert f"{project.FIRST}: done" in printed
    for name in ("notebooks/stray", "data/stray"):
        assert f"warning: {name} appeared since notebooks began to run" in printed
    assert "warning: data/claims.csv was changed since notebooks began to run" in printed
    for folder in ("notebooks", "data"):
        (suite / folder / "stray").unlink()
    (suite / "notebooks" / f"{project.SECOND}.ipynb").write_bytes(good)
    assert project.snapshot(suite) == before
    assert project.run(suite)[0] == 0


@pytest.mark.slow
def test_a_result_of_another_notebook_is_refused(suite):
    good = (suite / "notebooks" / f"{project.SECOND}.ipynb").read_bytes()
    foreign = 'claims.record({"railonly2025.text.r64_tiers_rail_only": 2})'
    project.write_notebook(suite, project.SECOND, project.SPEED, "from suite.ledger import claims", foreign)
    status, printed = project.run(suite, project.SECOND)
    assert status == 1 and "belongs to notebook 01_network_cost, this is 02_topologies" in printed
    (suite / "notebooks" / f"{project.SECOND}.ipynb").write_bytes(good)
    assert project.run(suite)[0] == 0


def test_what_a_notebook_no_longer_writes_is_removed_and_so_is_a_notebook_that_is_gone(suite):
    """Worth its 6 s: nothing else asks that figures/ loses what is no longer made."""
    first = suite / "notebooks" / f"{project.FIRST}.ipynb"
    kept = first.read_bytes()
    project.write_notebook(suite, project.FIRST, "tiers: int = 2", project.DRAW.replace("range(6)", "range(2)"))
    project.run(suite)
    assert published(suite, project.FIRST) == {
        f"extra/01_part{i}.{end}" for i in range(2) for end in ("csv", "md", "tex")
    }
    assert not (suite / "figures" / "extra" / "01_part4.csv").exists()
    first.unlink()
    project.run(suite)
    assert not published(suite, project.FIRST)
    assert not list((suite / "figures" / "extra").glob("01_*"))
    assert ",reproduced," not in (suite / "figures" / "reproduction.csv").read_text()
    first.write_bytes(kept)
    assert project.run(suite)[0] == 0


@pytest.mark.parametrize("what", ["notebook", pytest.param("module", marks=pytest.mark.slow)])
def test_an_edit_during_the_run_is_neither_lost_nor_taken_as_done(suite, what):
    notebook, module = suite / "notebooks" / f"{project.SECOND}.ipynb", suite / "railcore" / "catalog" / "units.py"
    kept, code = notebook.read_bytes(), module.read_text()
    begun, edited = suite / "build" / "begun", suite / "build" / "edited"
    waiting = (
        "import pathlib, time\n"
        f"pathlib.Path({str(begun)!r}).touch()\n"
        f"while not pathlib.Path({str(edited)!r}).exists(): time.sleep(0.02)\n"
    )
    project.write_notebook(suite, project.SECOND, project.SPEED, waiting + project.OTHER)
    process = project.start(suite, project.SECOND)
    assert project.wait_for(begun.exists)
    if what == "notebook":
        project.write_notebook(suite, project.SECOND, 'speed: str = "3 bps"', project.OTHER)
        edit = notebook.read_bytes()
    else:
        module.write_text(code + "\n")
    edited.touch()
    printed, _ = process.communicate(timeout=project.TIMEOUT)
    if what == "notebook":
        assert process.returncode == 1 and "edited while this run" in printed
        assert notebook.read_bytes() == edit
    else:
        assert process.returncode == 0, printed
    assert project.SECOND in project.ran(project.run(suite, project.SECOND)[1])
    begun.unlink()
    edited.unlink()
    module.write_text(code)
    notebook.write_bytes(kept)
    assert project.run(suite)[0] == 0


def test_a_copy_of_a_notebook_is_left_alone_and_a_broken_one_stops_no_other(suite):
    before = project.snapshot(suite)
    copy = suite / "notebooks" / f"{project.FIRST}-Copy1.ipynb"
    project.write_notebook(suite, copy.stem, "tiers: int = 7", project.DRAW)
    broken, kept = suite / "notebooks" / f"{project.SECOND}.ipynb", before[f"notebooks/{project.SECOND}.ipynb"]
    broken.write_text('{"cells": [')
    status, printed = project.run(suite)
    assert status == 1 and f"{project.SECOND}: FAILED" in printed and copy.stem not in printed
    copy.unlink()
    broken.write_bytes(kept)
    assert project.run(suite)[0] == 0
    assert project.snapshot(suite) == before


@pytest.mark.slow
def test_a_broken_constant_fails_nbval_and_the_comparison_of_files(suite):
    module, name = suite / "railcore" / "catalog" / "units.py", f"notebooks/{project.SECOND}.ipynb"
    code, made = module.read_text(), suite / "build" / "nbval"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--nbval", "--nbval-current-env", name]
    surroundings = project.environment(suite) | {"RAILCORE_OUT": str(made)}
    results = []
    for text in (code, code.replace('"bps": ("B/s", 1 / 8', '"bps": ("B/s", 1 / 9')):
        module.write_text(text)
        done = subprocess.run(command, cwd=suite, env=surroundings, capture_output=True, text=True)
        table = (made / "extra" / "02_table.csv").read_text()
        results.append((done.returncode, table == (suite / "figures" / "extra" / "02_table.csv").read_text()))
    module.write_text(code)
    assert results == [(0, True), (1, False)], done.stdout


def recorded(suite, run):
    lines = (suite / "build" / "custom" / project.FIRST / run / "claims" / f"{project.FIRST}.csv").read_text()
    return lines.splitlines()[1]


@pytest.mark.slow
def test_runs_with_parameters_of_the_user_stay_in_build_side_by_side_by_name(suite):
    before = project.snapshot(suite)
    for tiers, name in (("5", ["--name", "mine"]), ("6", [])):
        status, printed = project.run(suite, "01", "-p", "tiers", tiers, *name)
        where = f"build/custom/{project.FIRST}/{name[-1] if name else 'tiers-6'}"
        assert status == 0 and f"are in {where}; the next run of that name replaces them" in printed
    assert [recorded(suite, run).split(",")[1] for run in ("mine", "tiers-6")] == ["5", "6"]
    assert project.snapshot(suite) == before


@pytest.mark.parametrize(
    ("given", "own_catalog", "name"),
    [
        ({"gpus": 12288, "nic": "800 Gbps"}, "", "gpus-12288_nic-800-Gbps"),
        ({"share": 0.5}, "/somewhere/mine/", "catalog-mine_share-0-5"),
        ({}, "", "edited"),
    ],
)
def test_a_run_is_named_by_what_was_changed(monkeypatch, given, own_catalog, name):
    monkeypatch.setenv("RAILCORE_CATALOG", own_catalog)
    assert run._run_name("01_network_cost", given) == name


def test_long_names_of_runs_are_short_and_their_own():
    names = {run._run_name("01_network_cost", {"gpu_counts": [*range(50), last]}) for last in range(3)}
    assert len(names) == 3 and all(run._RUN_NAME.fullmatch(name) for name in names)


MISTAKES = [
    (["01_network_costs"], "notebook '01_network_costs' does not exist: the nearest are '01_network_cost'"),
    (["0"], "notebook '0' does not exist: the nearest are '00_index', '01_network_cost', '02_topologies'"),
    (["01", "-p", "tiers", "3", "--name", "../mine"], "NAME is '../mine': write up to 100 letters"),
    (["01", "--name", "mine"], "NAME is for results with your own numbers, and none are given: add PARAMS"),
    ([project.FIRST, "-p", "tier", "3"], "'tier' does not exist: the nearest are 'tiers'"),
    ([project.FIRST, "-p", "tiers", "2.5"], "parameter 'tiers' is '2.5': give a whole number"),
    ([project.SECOND, "-p", "speed", "3 GB"], "parameter 'speed' is '3 GB': write a quantity such as '400 Gbps'"),
    (["--params=-p tiers 3"], "parameters need one notebook"),
    ([project.SECOND, "--params=-p speed 3 GB"], "PARAMS is '-p speed 3 GB': write -p NAME VALUE for each parameter"),
    ([project.SECOND, "--params=-p speed '3"], "No closing quotation: write -p NAME VALUE"),
    ([project.SECOND, "--params=--publish -p speed"], "PARAMS is '--publish -p speed': write -p NAME VALUE"),
    ([project.FIRST, "-p", "tiers", "3", "--publish"], "leave out PUBLISH, or PARAMS"),
]


def test_a_mistake_is_refused_before_anything_runs(suite):
    """All in one process, which takes a second to start."""
    several = (
        "from suite.__main__ import main\n"
        f"for arguments in {[arguments for arguments, _ in MISTAKES]!r}:\n"
        "    print('status', main(['figures', *arguments]))\n"
        "raise SystemExit"
    )
    _, printed = project.run(suite, patch=several)
    *parts, rest = re.split(r"status (\d)\n", printed)
    assert not rest and parts[1::2] == ["2"] * len(MISTAKES) and not project.ran(printed)
    for said, (_, message) in zip(parts[::2], MISTAKES, strict=True):
        assert message in said


def test_a_second_driver_is_refused(suite):
    with (suite / "build" / "driver.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        status, printed = project.run(suite)
    assert status == 2 and "another `make figures` is running" in printed


CELL = """gpus: int = 8  # GPUs
share: float = 0.5
copper: bool = False
nic: str = "400 Gbps"
book: str = "railonly2023"
sizes: list = [8, 16]
rates: list = ["100 Gbps"]
paths: list = []
domain: int | None = None  # GPUs; None: the platform's
link: str | None = None  # Gbps per GPU, one direction; None: the platform's
wan: str | None = "20 Gbps"
maker: str | None = None  # name of a maker
ratio: float | None = 0.5
"""


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("gpus", "1024", 1024),
        ("share", "1", 1.0),
        ("copper", "true", True),
        ("nic", "1.6 Tbps", "1.6 Tbps"),
        ("book", "no", "no"),
        ("sizes", "[4]", [4]),
        ("rates", "['50 GB/s', '1 Tbps']", ["50 GB/s", "1 Tbps"]),
        ("paths", "['a.csv', 'b.csv']", ["a.csv", "b.csv"]),
        ("domain", "72", 72),
        ("domain", "None", None),
        ("link", "400 Gbps", "400 Gbps"),
        ("link", "50 GB/s", "50 GB/s"),
        ("wan", "None", None),
        ("maker", "no", "no"),
        ("ratio", "2", 2.0),
        ("book", "None", "None"),
    ],
)
def test_a_parameter_is_read_as_it_is_declared(name, text, value):
    notebook = {"cells": [project.cell(CELL, 0, "parameters")]}
    read = parameters.read_parameters([[name, text]], notebook, "a notebook")
    assert read == {name: value} and type(read[name]) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("gpus", "1e3", "give a whole number such as 8"),
        ("gpus", "True", ""),
        ("gpus", "None", ""),
        ("share", "half", ""),
    ]
    + [("copper", "1", ""), ("nic", "400", "write a quantity such as '400 Gbps', with its unit"), ("nic", "130 kW", "")]
    + [("sizes", "[0.5]", ""), ("sizes", "8", ""), ("sizes", "[]", ""), ("rates", "['1 W']", "")]
    + [("paths", "a.csv", ""), ("paths", "[8]", ""), ("paths", "['1 W']", "")]
    + [("domain", "72.5", "give a whole number, or None"), ("domain", "True", ""), ("ratio", "half", "")]
    + [("link", "3 kW", "write a quantity such as '400 Gbps', with its unit, or None"), ("link", "400", "")],
)
def test_an_unfit_parameter_is_refused_with_what_to_give(name, text, wanted):
    notebook = {"cells": [project.cell(CELL, 0, "parameters")]}
    with pytest.raises(ValueError, match=f"parameter '{name}' is {re.escape(repr(text))}: {wanted}"):
        parameters.read_parameters([[name, text]], notebook, "a notebook")


def test_a_parameters_cell_holds_only_typed_literals():
    for source in (
        "gpus = 8",
        "gpus: int = 4 * 2",
        "import os",
        "gpus: dict = {[]: 1}",
        "gpus: int = None",
        "gpus: int | None = 'eight'",
        "(" * 9999,
    ):
        with pytest.raises(ValueError, match="parameters cell"):
            parameters.defaults({"cells": [project.cell(source, 0, "parameters")]})


def stream(text, name="stdout"):
    return NotebookNode(output_type="stream", name=name, text=text)


def test_streams_are_joined_as_nbclient_joins_them():
    drawn = random.Random(1)
    for _ in range(300):
        text = "".join(drawn.choices("ab\r\r\n\x85", k=drawn.randrange(12)))
        cut = drawn.randrange(len(text) + 1)
        (output,) = client.joined([stream(text[:cut]), stream(text[cut:])])
        assert output["text"] == nbclient_client._RGX_CARRIAGERETURN.sub("", text), repr(text)
    picture = NotebookNode(output_type="display_data", data={})
    shown = [stream("1", "stderr"), stream("2"), picture, stream("3", "stderr"), stream("4")]
    assert client.joined(shown) == [stream("24"), stream("13", "stderr"), picture]


def test_a_notebook_that_shows_too_much_is_left_in_the_middle_of_a_cell(monkeypatch):
    monkeypatch.setattr(client, "MOST_SHOWN", 10)
    left = []
    reply = SimpleNamespace(cancel=lambda: left.append("cell"))
    running = SimpleNamespace(shown=0, task_poll_for_reply=reply)
    message = {"content": {"data": {"text/html": "12345"}, "traceback": ["123456"], "execution_count": 3}}
    with pytest.raises(CellExecutionComplete):
        client._Client.process_message(running, message, None, 1)
    assert left == ["cell"]


@pytest.mark.parametrize("text", ["x" * 5_000_000, "x\r" * 2_500_000], ids=["long line", "carriage returns"])
def test_a_line_of_megabytes_is_joined_at_once(text):
    """nbclient takes hours."""
    started = time.monotonic()
    client.joined([stream(text)])
    assert time.monotonic() - started < 5
