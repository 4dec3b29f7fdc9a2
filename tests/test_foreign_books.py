"""Notebooks with a price book of one's own: no other book stays behind in what they compute, save and show."""

import json
import shutil

import project
import pytest

from railcore import catalog
from railcore.catalog import files, tables
from suite import workspace
from suite.driver import parameters, run
from suite.ledger import claims

BOOKS = {  # by family: rows of our books by name
    family: {
        name: [row for row in tables.read_csv(files.DATA / "catalog" / f"{family}.csv") if row["name"] == name]
        for name in catalog.names(family)
        if f"port_{what}" in catalog.item(family, name)
    }
    for family, (what, _) in catalog.BOOKS.items()
}
HIDDEN = "not-asked-for "  # before the names of our books, while a notebook runs with others
FACTOR = 0.9  # of a foreign book's numbers over those of ours: shares of a budget stay shares


def book_parameters(name):
    """Parameters of a notebook that name a book, and their defaults."""
    declared = parameters.defaults(run.load_notebook(name))
    return {each: default for each, default in declared.items() if each.endswith("_book")}


NOTEBOOKS = [name for name in run.notebook_names() if "price_book" in book_parameters(name)]


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """A copy of the project in which our books have other names: who asks for one by its name fails."""
    folder = project.make(tmp_path_factory.mktemp("suite"))
    shutil.copytree(workspace.NOTEBOOKS, folder / "notebooks", dirs_exist_ok=True)
    for family, books in BOOKS.items():
        path = folder / "data" / "catalog" / f"{family}.csv"
        rows = [row | {"name": HIDDEN * (row["name"] in books) + row["name"]} for row in tables.read_csv(path)]
        path.write_text(tables.csv_text(catalog.COLUMNS, rows), encoding="utf-8")
    return folder


def write_foreign_books(folder, defaults):
    """Books of one's own, each in place of a default: at its link rate or 400 Gbps, with all rows that ours have."""
    folder.mkdir()
    for family, books in BOOKS.items():
        like = {row["parameter"]: row for book in reversed(books.values()) for row in book}
        rows = []
        for parameter, default in defaults.items():
            of_default = {row["parameter"]: row["value"] for row in BOOKS["prices"].get(default, ())}
            rate = BOOKS["prices"]["street2025"][0] | {"value": of_default.get("bandwidth", "400")}
            for row in (rate, *(row for row in like.values() if row["parameter"] != "bandwidth")):
                numbers = {key: row[key] and f"{FACTOR * float(row[key]):.12g}" for key in ("value", "low", "high")}
                rows.append(row | (numbers if row is not rate else {}) | {"name": foreign_name(parameter)})
        (folder / f"{family}.csv").write_text(tables.csv_text(catalog.COLUMNS, rows), encoding="utf-8")


def foreign_name(parameter):
    return f"foreign-{parameter.replace('_', '-')}"


def saved_texts(folder):
    """What a run saved and showed, by place: its files of text, and what cells printed and returned."""
    texts = {
        str(path.relative_to(folder)): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".csv", ".md", ".tex", ".svg", ".txt")
    }
    (notebook,) = folder.glob("*.ipynb")
    for number, cell in enumerate(json.loads(notebook.read_text(encoding="utf-8"))["cells"]):
        for output in cell.get("outputs", ()):
            shown = {"text": output.get("text", "")} | output.get("data", {})
            words = ["".join(text) for kind, text in shown.items() if kind.startswith("text")]
            texts[f"cell {number}"] = "\n".join([texts.get(f"cell {number}", ""), *words])
    return texts


def test_notebooks_that_buy_have_the_parameter():
    calls = ("matching_books(", "book_of_document(", "catalog_equipment(", "cluster_network_parts(")
    for name in run.notebook_names():
        source = "\n".join(cell["source"] for cell in run.load_notebook(name)["cells"])
        assert name in NOTEBOOKS or not any(call in source for call in calls)


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_no_other_book_stays_behind(name, suite, tmp_path):
    """Our books are hidden, so that their numbers are out of reach; a document's name alone may stand for itself."""
    defaults = book_parameters(name)
    write_foreign_books(tmp_path / "own", defaults)
    words = [word for parameter in defaults for word in ("-p", parameter, foreign_name(parameter))]
    status, printed = project.run(suite, name, *words, "--name", "foreign", RAILCORE_CATALOG=str(tmp_path / "own"))
    assert status == 0, printed
    texts = saved_texts(suite / "build" / "custom" / name / "foreign")
    documents = {key.partition(".")[0] for key in claims.claims()}
    others = {HIDDEN, *(book for books in BOOKS.values() for book in books if book not in documents)}
    for word in sorted(others):
        assert not [place for place, text in texts.items() if word in text], word
    for parameter in defaults:
        assert [place for place, text in texts.items() if foreign_name(parameter) in text], parameter
