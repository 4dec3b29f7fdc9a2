"""Parameters edited in a notebook: its results stay in build/custom, until they are published on purpose."""

import json
import shutil
import subprocess

import project
import pytest

from railcore.catalog import files

RECORD = "figures/parameters.csv"
THIRD = "03_traffic_dense"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return project.made_and_kept(tmp_path_factory)


@pytest.fixture
def suite(made):
    return project.put_back(*made)


def edit_first(folder, tiers):
    cell = tiers if isinstance(tiers, str) else project.TIERS.replace("2", str(tiers))
    project.write_notebook(folder, project.FIRST, cell, project.DRAW)


def recorded(folder, run, name=project.FIRST):
    lines = (folder / "build" / "custom" / name / run / "claims" / f"{name}.csv").read_text().splitlines()
    return lines[1].split(",")[1]


def but(snapshot, *names):
    return {path: data for path, data in snapshot.items() if path not in names}


def test_edited_parameters_are_run_but_not_published(suite):
    """Worth its 5 s: a reader's own numbers never become the suite's."""
    before, notebook = project.snapshot(suite), f"notebooks/{project.FIRST}.ipynb"
    edit_first(suite, 5)
    (suite / "build" / "stamps" / f"{project.SECOND}.json").unlink()
    status, printed = project.run(suite)
    assert status == 0 and project.ran(printed) == {project.FIRST, project.SECOND}
    where = f"build/custom/{project.FIRST}/tiers-5"
    assert (
        f"{project.FIRST}: its parameters differ from the published ones (tiers 2 -> 5): results go to {where}; "
        f"make figures NB={project.FIRST} PUBLISH=1 makes them the published ones\n"
    ) in printed
    assert f"results with your own numbers are in {where}; the next" in printed
    assert but(project.snapshot(suite), notebook) == but(before, notebook)
    assert recorded(suite, "tiers-5") == "5"
    status, printed = project.run(suite)
    assert status == 0 and not project.ran(printed)  # its results are still there
    assert "(tiers 2 -> 5)" in printed and f"are in {where}, up to date; " in printed
    edit_first(suite, 2)
    assert "differ from" not in project.run(suite)[1]
    assert project.snapshot(suite) == before


@pytest.mark.slow
def test_a_failed_run_leaves_the_earlier_one_of_its_name(suite):
    assert project.run(suite, "01", "-p", "tiers", "6", "--name", "mine")[0] == 0
    project.write_notebook(suite, project.FIRST, project.TIERS, "raise RuntimeError")
    status, printed = project.run(suite, "01", "-p", "tiers", "7", "--name", "mine")
    assert status == 1 and "earlier results are unchanged" in printed and "(see build/run/" in printed
    assert recorded(suite, "mine") == "6"
    assert [path.name for path in (suite / "build" / "custom" / project.FIRST).iterdir()] == ["mine"]


@pytest.mark.slow
def test_comments_layout_and_types_are_no_other_parameters(suite):
    edit_first(suite, "# of a rail\ntiers: int | None = (0x2)")
    status, printed = project.run(suite)
    assert status == 0 and "differ from" not in printed and project.ran(printed) == {project.FIRST}
    assert json.loads((suite / "notebooks" / f"{project.FIRST}.ipynb").read_text())["cells"][1]["outputs"]


def test_what_differs_is_named(suite):
    before = project.snapshot(suite)
    edit_first(suite, "tiers: float = 2.5\nspare: str = 'a'")
    _, printed = project.run(suite, project.FIRST)
    assert "differ from the published ones (tiers 2 -> 2.5, spare is new): " in printed
    assert but(project.snapshot(suite), f"notebooks/{project.FIRST}.ipynb").items() <= before.items()


def test_they_are_published_on_purpose_and_then_the_others_differ(suite):
    edit_first(suite, 5)
    status, printed = project.run(suite, "--publish")
    assert status == 0 and project.ran(printed) == {project.FIRST, "00_index"}
    assert f"{project.FIRST}: its parameters differ from the published ones (tiers 2 -> 5): those in the" in printed
    assert f"{project.FIRST},tiers,5" in (suite / RECORD).read_text()
    assert ",5,,,1.5,differs," in (suite / "figures" / "reproduction.csv").read_text()
    status, printed = project.run(suite)
    assert status == 0 and "nothing to do" in printed and "differ from" not in printed


@pytest.mark.slow
def test_a_notebook_that_was_never_published_is_published(suite):
    project.write_notebook(suite, THIRD, "sizes: list = [8, 'a, b']", "print(sizes)")
    status, printed = project.run(suite)
    assert status == 0 and "differ from" not in printed and project.ran(printed) >= {THIRD}
    assert f"{THIRD},sizes,\"[8, 'a, b']\"" in (suite / RECORD).read_text()
    project.write_notebook(suite, THIRD, "sizes: list = [8]", "print(sizes)")
    assert "(sizes [8, 'a, b'] -> [8])" in project.run(suite)[1]
    (suite / "notebooks" / f"{THIRD}.ipynb").unlink()
    assert project.run(suite)[0] == 0 and THIRD not in (suite / RECORD).read_text()


@pytest.mark.parametrize(
    ("damage", "clone"),
    [
        pytest.param("record lost", True, marks=pytest.mark.slow),
        pytest.param("both tables lost", False, marks=pytest.mark.slow),
        pytest.param("both sides of a merge", False, marks=pytest.mark.slow),
    ],
)
def test_edited_parameters_are_not_published_after_a_loss(suite, damage, clone):
    before = project.snapshot(suite)
    if damage == "both sides of a merge":
        (suite / RECORD).write_text((suite / RECORD).read_text() + f"{project.FIRST},tiers,5\n")
    else:
        (suite / RECORD).unlink()
    if damage == "both tables lost":
        (suite / "figures" / "MANIFEST.csv").unlink()
    if clone:
        shutil.rmtree(suite / "build")
    edit_first(suite, 5)
    status, printed = project.run(suite)
    assert status == 0 and f"results go to build/custom/{project.FIRST}/" in printed
    for path in before:
        if path.startswith("figures/extra/01_") or path == "figures/reproduction.csv":
            assert (suite / path).read_bytes() == before[path]
    edit_first(suite, 2)
    status, printed = project.run(suite)
    healed = not clone  # which cannot know what they were
    assert status == 0 and (project.snapshot(suite) == before) == healed
    assert ("parameters.csv has lost its published parameters (restore that file" in printed) != healed
    assert "parameters.csv is missing" not in printed  # which would say that it is made again
    if not healed:
        assert project.run(suite, "--publish")[0] == 0
        assert project.snapshot(suite) == before


@pytest.mark.slow
def test_publishing_on_purpose_that_is_killed_is_completed_by_the_next_run(suite):
    patch = (
        "import os, signal\n"
        "rename, count = os.replace, iter(range(99))\n"
        "def stop(source, target):\n"
        "    if 'part' in str(target) and next(count) == 3: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    rename(source, target)\n"
        "os.replace = stop\n"
    )
    edit_first(suite, 5)
    status, _ = project.run(suite, project.FIRST, "--publish", patch=patch)
    assert status == -9
    status, printed = project.run(suite)
    assert status == 0 and "differ from" not in printed
    tables = [(suite / "figures" / "extra" / f"01_part{i}.csv").read_text() for i in range(6)]
    assert all(table.splitlines()[1].endswith(",5") for table in tables)


@pytest.mark.slow
def test_parameters_edited_while_others_run_are_not_published(suite):
    begun, edited = suite / "build" / "begun", suite / "build" / "edited"
    waiting = (
        "import pathlib, time\n"
        f"pathlib.Path({str(begun)!r}).touch()\n"
        f"while not pathlib.Path({str(edited)!r}).exists(): time.sleep(0.02)\n"
    )
    project.write_notebook(suite, project.FIRST, project.TIERS, waiting + project.DRAW)
    (suite / "build" / "stamps" / f"{project.SECOND}.json").unlink()
    one = "from suite.driver import run\nrun._cores = lambda: 1\n"
    process = project.start(suite, patch=f"{one}run._size = {project.FIRST!r}.__eq__")
    assert project.wait_for(begun.exists)
    project.write_notebook(suite, project.SECOND, 'speed: str = "3 bps"', project.OTHER)
    edited.touch()
    printed, _ = process.communicate(timeout=project.TIMEOUT)
    assert process.returncode == 1 and f"{project.SECOND}: FAILED, it was edited while this run" in printed
    assert "5e+10" in (suite / "figures" / "extra" / "02_table.csv").read_text()


def test_a_renamed_notebook_is_refused_before_what_it_has_published_goes(suite):
    before = project.snapshot(suite)
    first = suite / "notebooks" / f"{project.FIRST}.ipynb"
    first.rename(first.with_stem("01_cost_of_network"))
    status, printed = project.run(suite)
    assert status == 2 and f"notebooks/01_cost_of_network.ipynb is {project.FIRST} in data/" in printed
    first.with_stem("01_cost_of_network").rename(first)
    assert project.snapshot(suite) == before


def test_a_parameters_cell_that_cannot_be_read_is_refused_before_it_runs(suite):
    edit_first(suite, "tiers: int = 1 + 1")
    status, printed = project.run(suite)
    assert status == 1 and f"{project.FIRST}: FAILED, parameters cell, line 1: the value is no literal" in printed


@pytest.mark.parametrize(("given", "passed"), [("PUBLISH=1", True), ("PUBLISH=false", False), ("NB=", False)])
def test_make_hands_publish_on(given, passed):
    command = ["make", "-n", "figures", "PYTHON=python", given]
    around = project.environment(files.ROOT) | {"PUBLISH": "1"}  # somebody else's variable counts for nothing
    done = subprocess.run(command, cwd=files.ROOT, env=around, capture_output=True, text=True, check=True)
    assert ("--publish" in done.stdout) == passed
