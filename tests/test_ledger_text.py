"""figures/reproduction.md: every claim once, in the table of its document and verdict; links that lead somewhere."""

import re

import pytest

from railcore.catalog.tables import markdown_words, read_csv
from suite import workspace
from suite.driver.ledger_text import ledger_text
from suite.ledger import claims, grounds


@pytest.fixture(scope="module")
def ledger():
    return read_csv(workspace.FIGURES / "reproduction.csv")


@pytest.fixture(scope="module")
def sections(ledger):
    """Text below each heading, whatever spaces hold together."""
    text = ledger_text(ledger).replace("\u00a0", " ")
    parts = re.split(r"^## (.*)\n", text, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def test_every_claim_stands_once_with_all_that_is_known_of_it(ledger, sections):
    for row in ledger:
        section = sections[f"{row['document']} {row['verdict']}"]
        lines = [line for line in section.splitlines() if f"`{row['id'].partition('.')[2]}`" in line]
        assert len(lines) == 1, row["id"]
        shown = claims.comparison_row(row)
        reason = row["reason"].replace("|", "/")
        for text in grounds.solved_texts(row["id"]):
            assert reason.startswith(text)
            reason = reason[len(text) :].removeprefix("; ")
        words = [shown["ours"], shown["deviation"], row["basis"], reason]
        for text in [row["where"], row["claim"], shown["document"], *words, f"notebook {row['notebook'][:2]}"]:
            assert markdown_words(text.replace("|", "/").replace("\u00a0", " ")) in lines[0], (row["id"], text)


def test_its_links_lead_to_headings_and_files(sections):
    text = "".join(f"## {name}\n{body}" for name, body in sections.items())
    anchors = {name.replace(" ", "-") for name in sections}  # as JupyterLab makes them, and GitHub of lower case
    assert all(name == name.lower() for name in sections)
    for target in set(re.findall(r"\]\(([^)]*)\)", text)):
        path, _, anchor = target.partition("#")
        assert (workspace.FIGURES / path).exists() if path else anchor in anchors, target


def test_the_counts_are_those_of_the_tables(sections):
    for number, name in re.findall(r"\[(\d+)\]\(#(.*?)\)", sections[""]):
        assert sections[name.replace("-", " ")].count("<br>`") == int(number)


def test_a_parameter_is_named_where_it_counts_and_explained_once(sections):
    for number, row in enumerate(grounds.calibrations(), 1):
        line = next(line for line in sections["parameters solved from claims"].splitlines() if f"| P{number} |" in line)
        assert row.parameter in line and row.note in line and all(part in line for part in row.used_text.split(", "))
    tables = "".join(body for name, body in sections.items() if name.endswith((" differs", " close", " reproduced")))
    assert "predicted [P1](#parameters-solved-from-claims)" in tables
    assert "from railonly2025.table1.n32768.r256.cost_saving" not in tables


def test_a_suite_without_results_has_a_ledger_too():
    text = ledger_text(claims.ledger([]))
    assert "railonly2025 missing" in text and "differs\n" not in text.partition("## ")[2]
