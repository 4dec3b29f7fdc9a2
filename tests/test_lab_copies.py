"""Copies of the notebooks for JupyterLab: refreshed unless edited, brought back or dropped by command, never lost."""

import json
import re
import shutil
import socket
import subprocess
import sys

import project
import pytest

from railcore.catalog import files
from suite import answers

FIRST, SECOND = project.FIRST, project.SECOND


@pytest.fixture
def suite(tmp_path):
    return project.make(tmp_path / "project")


def lab(folder, *arguments, **variables):
    """`python -m suite lab` with JupyterLab itself replaced; gives exit status and what was printed."""
    code = (
        "import os, sys\n"
        "from suite.__main__ import main\n"
        "def shown(program, command, environment):\n"
        "    sys.stdout.flush()\n"
        "    print('starts', *[os.path.relpath(word) for word in command if 'index' in word or 'root_dir' in word])\n"
        "    print(*[word for word in command if '.port=' in word])\n"
        "    sys.stdout.flush()\n"
        "    os._exit(0)\n"
        "os.execve = shown\n"
        "sys.exit(main(['lab', *sys.argv[1:]]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env=project.environment(folder) | variables,
        capture_output=True,
        text=True,
        timeout=project.TIMEOUT,
    )
    return done.returncode, done.stdout + done.stderr


def path_of(folder, name, where="build/lab/notebooks"):
    return folder / where / f"{name}.ipynb"


def change(path, source=None, output=None, parameters=None):
    """What a person does in JupyterLab: run cells, edit cells, save."""
    notebook = json.loads(path.read_text())
    if parameters:
        notebook["cells"][0]["source"] = parameters.splitlines(keepends=True)
    if source:
        notebook["cells"][-1]["source"] = source.splitlines(keepends=True)
    if output:
        made = {"output_type": "stream", "name": "stdout", "text": [output]}
        notebook["cells"][-1] |= {"outputs": [made], "execution_count": 9}
    path.write_text(json.dumps(notebook, indent=1) + "\n")


def test_copies_stand_beside_what_they_link_to_and_are_refreshed_whatever_ran_in_them(suite):
    status, printed = lab(suite)
    assert status == 0 and "copies of the notebooks, in build/lab" in printed and "your edited" not in printed
    assert "build/lab/notebooks/00_index.ipynb" in printed and f"root_dir={suite} " in printed
    for name in ("figures", "data", "railcore"):
        assert (path_of(suite, FIRST).parent / ".." / name).resolve() == suite / name
    copy, notebook = path_of(suite, FIRST), path_of(suite, FIRST, "notebooks")
    before = notebook.read_bytes()
    change(copy, output="ran here\n")
    assert "your edited" not in lab(suite)[1] and copy.read_bytes() == before == notebook.read_bytes()
    change(notebook, source="print(1)")
    path_of(suite, SECOND, "notebooks").unlink()
    assert lab(suite)[0] == 0
    assert copy.read_bytes() == notebook.read_bytes() and not path_of(suite, SECOND).exists()


def test_the_port_that_is_said_is_free_and_the_one_that_is_served(suite):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        _, printed = lab(suite, JUPYTER_PORT=f"{taken}")
    (said,) = re.findall(
        rf"^JupyterLab: port (\d+) of this machine \({taken} is taken\); to stop it: .*", printed, re.M
    )
    assert int(said) > taken and f"--ServerApp.port={said}\n" in printed
    assert "JUPYTER_PORT is '70000': give a port of 1 to 65435" in lab(suite, JUPYTER_PORT="70000")[1]


def test_an_edited_copy_is_kept_and_brought_back_with_the_stored_outputs(suite):
    notebook, copy = path_of(suite, FIRST, "notebooks"), path_of(suite, FIRST)
    change(notebook, output="stored\n")
    lab(suite)
    change(copy, parameters="tiers: int = 5", output="ran here\n")
    edited = copy.read_bytes()
    status, printed = lab(suite)
    keep, drop = f"make lab KEEP={FIRST} writes it into notebooks/", f"make lab DISCARD={FIRST} drops it"
    assert status == 0 and f"{FIRST}: your edited copy is kept: {keep}, {drop}\n" in printed
    assert copy.read_bytes() == edited
    status, printed = lab(suite, "--keep", FIRST)
    assert status == 0 and "has the sources of your copy" in printed and "starts" not in printed
    cells = json.loads(notebook.read_text())["cells"]
    assert cells[0]["source"] == ["tiers: int = 5"] and cells[0]["metadata"] == {"tags": ["parameters"]}
    assert cells[1]["outputs"][0]["text"] == ["stored\n"]
    assert "nothing to bring back" in lab(suite, "--keep", FIRST)[1] and "your edited" not in lab(suite)[1]


@pytest.mark.parametrize(("published", "shown"), [("2", True), ("3", False)])
def test_a_copy_that_is_brought_back_has_the_answer_of_its_own_parameters_or_none(suite, published, shown):
    notebook, copy = path_of(suite, FIRST, "notebooks"), path_of(suite, FIRST)
    head = {
        "cell_type": "markdown",
        "id": "head",
        "metadata": {},
        "source": "# What?\n\n{}\n{}".format(*answers.MARKERS),
    }
    stored = json.loads(notebook.read_text())
    notebook.write_text(json.dumps(stored | {"cells": [head, *stored["cells"]]}))
    (suite / "figures/extra").mkdir()
    (suite / "figures/extra/01_answer.md").write_text("It is so.\n\n[![extra.01_saving_map](x.png)](x.png)\n")
    (suite / "figures/parameters.csv").write_text(f"notebook,parameter,value\n{FIRST},tiers,{published}\n")
    assert lab(suite)[0] == 0
    change(copy, source="print('edited')")
    assert lab(suite, "--keep=01")[0] == 0
    assert ("It is so." in "".join(json.loads(notebook.read_text())["cells"][0]["source"])) == shown


def test_a_notebook_that_has_changed_since_is_not_written_over_unless_forced(suite):
    notebook, copy = path_of(suite, FIRST, "notebooks"), path_of(suite, FIRST)
    lab(suite)
    change(copy, source="print('mine')")
    change(notebook, source="print('theirs')")
    theirs = notebook.read_bytes()
    assert "is kept, and notebooks/ has changed since: make lab KEEP" in lab(suite)[1]
    status, printed = lab(suite, "--keep", FIRST)
    assert (
        status == 2 and f"notebooks/{FIRST}.ipynb has changed since it was copied" in printed and "FORCE=1" in printed
    )
    assert notebook.read_bytes() == theirs
    assert lab(suite, "--keep", FIRST, "--force")[0] == 0
    assert json.loads(notebook.read_text())["cells"][-1]["source"] == ["print('mine')"]


def test_an_edited_copy_is_dropped_by_command(suite):
    lab(suite)
    change(path_of(suite, FIRST), source="print('mine')")
    status, printed = lab(suite, "--discard", FIRST)
    assert status == 0 and "is that of notebooks/ again" in printed
    assert path_of(suite, FIRST).read_bytes() == path_of(suite, FIRST, "notebooks").read_bytes()
    status, printed = lab(suite, "--discard", "01_network_costs")
    assert status == 2 and f"the nearest are '{FIRST}'" in printed


@pytest.mark.slow
def test_an_edited_copy_of_a_notebook_that_is_gone_is_named_and_dropped_by_command(suite):
    lab(suite)
    change(path_of(suite, FIRST), source="print('mine')")
    path_of(suite, FIRST, "notebooks").unlink()
    line = f"{FIRST}: gone from notebooks/; your edited copy is kept in build/lab/notebooks: make lab DISCARD={FIRST}"
    assert line in lab(suite)[1] and path_of(suite, FIRST).exists()
    status, printed = lab(suite, "--discard", FIRST)
    assert status == 0 and "is gone, as its notebook is" in printed and not path_of(suite, FIRST).exists()
    assert FIRST not in lab(suite)[1]


@pytest.mark.slow
def test_tags_of_cells_count_as_edited(suite):
    lab(suite)
    copy = path_of(suite, FIRST)
    notebook = json.loads(copy.read_text())
    notebook["cells"][-1]["metadata"]["tags"] = ["explore"]
    copy.write_text(json.dumps(notebook))
    assert f"{FIRST}: your edited copy is kept" in lab(suite)[1]
    assert lab(suite, "--keep", FIRST)[0] == 0
    assert json.loads(path_of(suite, FIRST, "notebooks").read_text())["cells"][-1]["metadata"]["tags"] == ["explore"]


@pytest.mark.slow
def test_a_copy_is_kept_where_nobody_knows_what_it_was_or_what_it_is(suite):
    lab(suite)
    change(path_of(suite, FIRST), source="print('mine')")
    path_of(suite, SECOND).write_text("[")
    (suite / "build" / "lab" / ".copied.json").write_text("[")
    _, printed = lab(suite)
    assert f"{FIRST}: your edited copy is kept" in printed and f"{SECOND}: your edited copy is kept" in printed
    status, printed = lab(suite, "--keep", SECOND, "--force")
    assert status == 2 and f"build/lab/notebooks/{SECOND}.ipynb is no JSON" in printed


def test_make_clean_refuses_to_remove_work_and_names_it(suite):
    shutil.copy(files.ROOT / "Makefile", suite)

    def clean(*arguments, python=sys.executable):
        command = ["make", "clean", f"PYTHON={python}", *arguments]
        done = subprocess.run(command, cwd=suite, env=project.environment(suite), capture_output=True, text=True)
        return done.returncode, done.stdout

    lab(suite)
    assert clean()[0] == 0 and not (suite / "build").exists()
    lab(suite)
    change(path_of(suite, FIRST), source="print('mine')")
    own = suite / "build" / "lab" / "notebooks" / "my trial.ipynb"
    own.write_text("{}")
    lab(suite)
    status, printed = clean()
    assert status != 0 and own.exists()
    listed = printed.partition("cannot make again:\n")[2].splitlines()[:2]
    assert listed == [f"build/lab/notebooks/{FIRST}.ipynb", "build/lab/notebooks/my trial.ipynb"]
    assert clean(python="/nowhere/python")[0] != 0 and own.exists()
    assert clean("FORCE=0")[0] != 0 and own.exists()
    assert clean("FORCE=1")[0] == 0 and not (suite / "build").exists() and (suite / "figures").exists()
    assert (suite / "data" / "claims.csv").exists()  # links were removed, not what they lead to
