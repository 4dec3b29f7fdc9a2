"""Every notebook with the last bits of railcore's powers, logarithms and products changed: nothing that is shown moves.

`make slow` runs it, with the unit tests in the same state: RAILCORE_ULP is the seed of the changes.
"""

import os
import shutil
from pathlib import Path

import nbclient
import nbformat
import pytest
from test_pictures import alike, differences

from railcore.facts import files
from railcore.facts.tables import read_csv
from railcore.workbench.driver import kernel_environment

SEED = os.environ.get("RAILCORE_ULP")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not SEED, reason="a minute and more: run make slow")]
NOTEBOOKS = sorted(path.stem for path in files.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
INSTALL = """\
import sys
sys.path.insert(0, {tests!r})
import ulp
ulp.install({seed!r})
get_ipython().ast_transformers.append(ulp.Rewrite())"""


@pytest.fixture(scope="module", params=NOTEBOOKS)
def run(request):
    """A notebook, its executed copy and the folder of what it wrote."""
    name = request.param
    folder = files.BUILD / "ulp" / SEED / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    notebook = nbformat.read(files.NOTEBOOKS / f"{name}.ipynb", as_version=4)
    install = INSTALL.format(tests=str(Path(__file__).parent), seed=SEED)
    copy = nbformat.from_dict({**notebook, "cells": [nbformat.v4.new_code_cell(install), *notebook.cells]})
    environment = kernel_environment() | {"RAILCORE_OUT": str(folder), "RAILCORE_NOTEBOOK": name}
    client = nbclient.NotebookClient(
        copy,
        timeout=None,
        startup_timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": files.NOTEBOOKS}},
    )
    done = client.execute(env=environment)
    nbformat.write(done, folder / f"{name}.ipynb")
    return notebook.cells, done.cells[1:], folder


def published(notebook):
    rows = read_csv(files.FIGURES / "MANIFEST.csv")
    return {row["file"] for row in rows if row["notebook"] == notebook}


def texts(cell):
    """What a person reads of a cell's outputs: printed text and every text form of a result."""
    for output in cell.get("outputs", []):
        yield output.get("text") or {kind: text for kind, text in output.get("data", {}).items() if "text" in kind}


def test_texts_tables_and_verdicts_stay(run):
    stored, done, folder = run
    name = folder.name
    for before, after in zip(stored, done, strict=True):
        if "nbval-ignore-output" not in before["metadata"].get("tags", []):
            assert list(texts(after)) == list(texts(before)), before["source"]
    for path in sorted(published(name)):
        if path.endswith((".md", ".tex")):
            assert (folder / path).read_text() == (files.FIGURES / path).read_text(), path
        if path.endswith(".csv"):
            assert not differences(folder / path, files.FIGURES / path), path
    known = {row["id"]: row for row in read_csv(files.FIGURES / "reproduction.csv")}
    for row in read_csv(folder / "claims" / f"{name}.csv"):
        assert alike(row["value"], known[row["id"]]["value"]), row["id"]
        assert row["reason"] == known[row["id"]]["reason"], row["id"]
