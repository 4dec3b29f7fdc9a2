"""What the notebooks write now against figures/: nbval compares texts and tables, this compares files and pictures.

`make test` lets nbval run the notebooks into build/nbval first.
"""

import csv
import math
import os
from itertools import chain
from pathlib import Path

import pytest
from matplotlib.testing.compare import compare_images

from railcore.facts import files
from railcore.facts.tables import read_csv

MADE = Path(os.environ.get("RAILCORE_NBVAL", "nowhere"))
pytestmark = pytest.mark.skipif(not MADE.exists(), reason="compares what nbval has just made: run make test")


def published():
    with (files.FIGURES / "MANIFEST.csv").open(newline="") as stream:
        return sorted(row["file"] for row in csv.DictReader(stream) if row["notebook"] != "all")


def alike(ours, theirs):
    """Numbers to 1e-8, everything else exactly."""
    try:
        return math.isclose(float(ours), float(theirs), rel_tol=1e-8, abs_tol=1e-12)
    except ValueError:
        return ours == theirs


def rows(path):
    with path.open(newline="") as stream:
        return list(csv.reader(stream))


def differences(made, known):
    """Cells of two CSV files that differ."""
    ours, theirs = rows(made), rows(known)
    if [len(row) for row in ours] != [len(row) for row in theirs]:
        return [("shape", len(ours), len(theirs))]
    pairs = zip(chain.from_iterable(ours), chain.from_iterable(theirs), strict=True)
    return [pair for pair in pairs if not alike(*pair)]


def test_the_notebooks_write_the_published_files():
    made = {path.relative_to(MADE).as_posix() for path in MADE.rglob("*") if path.is_file()}
    assert {name for name in made if not name.startswith("claims/")} == set(published())


@pytest.mark.parametrize("name", [name for name in published() if name.endswith(".csv")])
def test_numbers_are_the_published_ones(name):
    assert not differences(MADE / name, files.FIGURES / name)


@pytest.mark.parametrize("name", [name for name in published() if name.endswith((".md", ".tex"))])
def test_tables_are_the_published_ones(name):
    assert (MADE / name).read_text() == (files.FIGURES / name).read_text()


@pytest.mark.parametrize("name", [name for name in published() if name.endswith(".png")])
def test_pictures_are_the_published_ones(name):
    difference = compare_images(str(files.FIGURES / name), str(MADE / name), tol=1, in_decorator=True)
    assert difference is None, difference


def test_the_ledger_is_what_the_notebooks_record():
    known = {row["id"]: row for row in read_csv(files.FIGURES / "reproduction.csv")}
    made = [row for path in sorted((MADE / "claims").glob("*.csv")) for row in read_csv(path)]
    assert {row["id"] for row in made} == {key for key, row in known.items() if row["verdict"] != "missing"}
    for row in made:
        assert alike(row["value"], known[row["id"]]["value"]) and row["reason"] == known[row["id"]]["reason"]


def test_a_changed_number_and_a_changed_picture_are_seen(tmp_path):
    """The checks above can fail: a constant off by one part in a million, and a line that is gone."""
    name = next(name for name in published() if name.endswith("fig1.csv"))
    table = rows(files.FIGURES / name)
    at = next(i for i, cell in enumerate(table[1]) if alike(cell, cell) and cell.replace(".", "").isdigit())
    table[1][at] = repr(float(table[1][at]) * (1 + 1e-6))
    with (tmp_path / "changed.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(table)
    assert differences(tmp_path / "changed.csv", files.FIGURES / name)

    import matplotlib.pyplot as plt

    pictures = []
    for level in (1.0, 1.01):
        figure, ax = plt.subplots(figsize=(6.5, 3), dpi=200)
        ax.plot([0, 1], [0, level])
        ax.set(ylim=(0, 2))
        pictures.append(str(tmp_path / f"{level}.png"))
        figure.savefig(pictures[-1])
        plt.close(figure)
    assert compare_images(*pictures, tol=1, in_decorator=True) is not None
