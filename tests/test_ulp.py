"""Every notebook with the last bits of powers, logarithms and products changed: what it shows and writes stays.

`make slow` runs it, with the unit tests in the same state: RAILCORE_ULP is the seed of the changes.
"""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from railcore.catalog import files
from railcore.catalog.tables import read_csv
from railcore.training import scaling_laws
from suite import workspace
from suite.driver.compare import difference, same_value
from suite.driver.kernels import kernel_environment

SEED = os.environ.get("RAILCORE_ULP", "")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not SEED, reason="two minutes and more: run make slow")]
NOTEBOOKS = sorted(path.stem for path in workspace.NOTEBOOKS.glob("[0-9][0-9]_*.ipynb"))
INSTALL = """\
import sys
sys.path.insert(0, {tests!r})
import ulp
ulp.install({seed!r})
get_ipython().ast_transformers.append(ulp.Rewrite())"""


@pytest.fixture(scope="module", params=NOTEBOOKS)
def run(request):
    """A notebook's stored cells, the same executed, and the folder of what it wrote."""
    import nbclient  # over a second of every worker's start
    import nbformat

    name = request.param
    folder = files.BUILD / "ulp" / SEED / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    stored = nbformat.read(workspace.NOTEBOOKS / f"{name}.ipynb", as_version=4)
    install = nbformat.v4.new_code_cell(INSTALL.format(tests=str(Path(__file__).parent), seed=SEED))
    copy = nbformat.from_dict({**stored, "cells": [install, *stored.cells]})
    place = {"metadata": {"path": workspace.NOTEBOOKS}}
    client = nbclient.NotebookClient(copy, timeout=None, startup_timeout=600, kernel_name="python3", resources=place)
    done = client.execute(env=kernel_environment() | {"RAILCORE_OUT": str(folder), "RAILCORE_NOTEBOOK": name})
    return stored.cells, done.cells[1:], folder


def test_the_last_bits_are_changed():
    law, computes = scaling_laws.scaling_law("Kaplan"), np.geomspace(1e18, 1e30, 100)
    plain = law.parameters_scale * (computes / law.compute_scale) ** law.exponent
    for ours in (law.parameters(computes), np.array([law.parameters(compute) for compute in computes])):
        assert np.sum(ours != plain) > 80 and ours == pytest.approx(plain, rel=1e-15)


def shown(cell):
    """A cell's outputs, texts and pictures, as a notebook has them."""
    outputs = [{**output, "execution_count": None} for output in cell.get("outputs", [])]
    return json.dumps(outputs).encode()


def test_nothing_shown_or_written_hangs_on_the_last_bit(run):
    stored, done, folder = run
    for before, after in zip(stored, done, strict=True):
        if "nbval-ignore-output" not in before["metadata"].get("tags", []):
            differences = difference("cell.ipynb", shown(before), shown(after))
            assert not differences, f"{differences} of {before['source']}"
    made = {path.relative_to(folder).as_posix(): path for path in folder.glob("*/*.*") if path.parent.name != "claims"}
    listed = read_csv(workspace.FIGURES / "MANIFEST.csv")
    assert set(made) == {row["file"] for row in listed if row["notebook"] == folder.name}
    for name, path in made.items():
        differences = difference(name, (workspace.FIGURES / name).read_bytes(), path.read_bytes())
        assert not differences, f"{name} differs in {differences}"
    recorded = {row["id"]: row for row in read_csv(workspace.FIGURES / "reproduction.csv")}
    for row in read_csv(folder / "claims" / f"{folder.name}.csv"):
        stored_row = recorded[row["id"]]
        assert same_value(row["value"], stored_row["value"]) and row["reason"] == stored_row["reason"], row["id"]
