"""What the notebooks write now against figures/: nbval compares texts and tables, this compares files and pictures.

`make test` lets nbval run the notebooks into build/nbval first.
"""

import os
from pathlib import Path

import pytest

from railcore.catalog.tables import read_csv
from suite import workspace
from suite.driver import publish, run
from suite.driver.compare import difference, same_value

MADE = Path(os.environ.get("RAILCORE_NBVAL", "nowhere"))
pytestmark = pytest.mark.skipif(not MADE.exists(), reason="compares what nbval has just made: run make test")


def published():
    return sorted(row["file"] for row in read_csv(workspace.FIGURES / "MANIFEST.csv") if row["notebook"] != "all")


def test_the_notebooks_write_the_published_files():
    made = {path.relative_to(MADE).as_posix() for path in MADE.rglob("*") if path.is_file()}
    made = {name for name in made if "/" in name and not name.startswith("claims/")}  # the rest is not for publishing
    assert made == set(published())


@pytest.mark.parametrize("name", published())
def test_the_files_are_the_published_ones(name):
    differences = difference(name, (workspace.FIGURES / name).read_bytes(), (MADE / name).read_bytes())
    assert not differences, f"{name} differs in {differences}"


@pytest.mark.parametrize("name", run.notebook_names())
def test_the_notebooks_have_the_published_parameters(name):
    changes = publish.parameter_changes(name, run.load_notebook(name))
    assert not changes, (
        f"{name}: {changes}; make figures PUBLISH=1 makes them the published ones, git brings the old back"
    )


def test_the_ledger_is_what_the_notebooks_record():
    recorded = {row["id"]: row for row in read_csv(workspace.FIGURES / "reproduction.csv")}
    made = [row for path in sorted((MADE / "claims").glob("*.csv")) for row in read_csv(path)]
    assert {row["id"] for row in made} == {key for key, row in recorded.items() if row["verdict"] != "missing"}
    for row in made:
        stored = recorded[row["id"]]
        assert same_value(row["value"], stored["value"]), row["id"]
        assert all(row.get(key, "") == stored.get(key, "") for key in ("reason", "basis")), row["id"]
