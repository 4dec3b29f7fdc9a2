"""Publishing: a notebook's files, its rows of the ledger and its executed copy, each by rename; and the manifest."""

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from railcore.facts import catalog, claims, files
from railcore.facts.tables import as_csv, markdown, read_csv
from railcore.facts.units import number
from railcore.workbench.driver.stamps import sha256

LEDGER = files.FIGURES / "reproduction.csv"
README = files.ROOT / "README.md"
INPUTS = files.FIGURES / "inputs.csv"
MANIFEST = files.FIGURES / "MANIFEST.csv"
SHARED = (LEDGER.name, "reproduction.md", INPUTS.name)  # made from what every notebook gave


def published_rows() -> list[dict[str, str]]:
    """Rows of figures/reproduction.csv that a notebook has computed; none where there is no ledger."""
    return [row for row in read_csv(LEDGER) if row.get("verdict") not in (None, "missing") and _sound(row)]


def _sound(row: Mapping[str, str]) -> bool:
    """False for a row that somebody has spoilt: its notebook then runs again."""
    try:
        whole = None not in (row["reason"], row["basis"])
        return row["id"] in claims.claims() and math.isfinite(float(row["value"] or 0)) and whole
    except (KeyError, TypeError, ValueError):
        return False


def rows_hash(name: str) -> str:
    """Hash of a notebook's rows in the ledger."""
    rows = [
        (row["id"], row["value"], row["reason"], row["basis"]) for row in published_rows() if row["notebook"] == name
    ]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def manifest() -> dict[str, tuple[str, str]]:
    """Notebook and hash of every published file, by path relative to figures/."""
    return {row["file"]: (row["notebook"], row["sha256"]) for row in read_csv(MANIFEST) if row["file"] not in SHARED}


def cleaned(notebook: Mapping, executed: Mapping) -> str:
    """The notebook as text, with the outputs and counts of its execution and nothing that changes from run to run."""
    import nbformat

    cells = []
    for cell, done in zip(notebook["cells"], executed["cells"], strict=True):
        cell = dict(cell)
        if cell["cell_type"] == "code":
            hidden = "explore" in cell["metadata"].get("tags", [])
            cell["outputs"] = [] if hidden else done["outputs"]
            cell["execution_count"] = done["execution_count"]
        cells.append(cell)
    whole = nbformat.from_dict({**notebook, "cells": cells})
    whole.metadata = nbformat.from_dict(
        {
            "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        }
    )
    return nbformat.writes(whole) + "\n"


def publish(name: str, folder: Path, notebook: Mapping, report: Mapping) -> dict[str, str]:
    """Put what a run left in `folder` in its place; gives the hash of each published file by path.

    New files first, then the ledger, then what the notebook no longer writes goes, then manifest and notebook: a
    stop in between leaves whole files, and no stamp, so that the next run does it again.
    """
    made = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    rows = read_csv(folder / "claims" / f"{name}.csv")
    figures = {path: source for path, source in made.items() if "/" in path and not path.startswith("claims/")}
    listed = manifest()
    ours = {path: (name, sha256(source)) for path, source in figures.items()}
    # Listed before they are there: a file that a killed run has added is then known to be this notebook's.
    write_manifest(listed | ours)
    for path, source in figures.items():
        files.write_whole(files.FIGURES / path, source.read_bytes())
    write_ledger([row for row in published_rows() if row["notebook"] != name] + rows)
    others = [row for row in read_csv(INPUTS) if row["notebook"] != name]
    _write_inputs(others + [{"notebook": name, **row} for row in report["inputs"]])
    stale = [path for path, (owner, _) in listed.items() if owner == name and path not in ours]
    for path in stale:
        (files.FIGURES / path).unlink(missing_ok=True)
    write_manifest({path: entry for path, entry in listed.items() if path not in stale} | ours)
    target = files.NOTEBOOKS / f"{name}.ipynb"
    files.write_whole(target, cleaned(notebook, report["notebook"]))
    published = {f"figures/{path}": sha256(files.FIGURES / path) for path in figures}
    return published | {f"notebooks/{name}.ipynb": sha256(target), "ledger": rows_hash(name)}


def forget(suite: list[str]) -> None:
    """Remove the files, ledger rows and inputs of notebooks that are no longer in the suite."""
    gone = {path for path, (owner, _) in manifest().items() if owner not in suite}
    for path in gone:
        (files.FIGURES / path).unlink(missing_ok=True)
    write_ledger([row for row in published_rows() if row["notebook"] in suite])
    _write_inputs([row for row in read_csv(INPUTS) if row["notebook"] in suite])
    write_manifest({path: entry for path, entry in manifest().items() if path not in gone})


def _write_inputs(rows: list[dict[str, str]]) -> None:
    _write_changed(INPUTS, as_csv(catalog.INPUTS, sorted(rows, key=lambda row: row["notebook"])))


def write_ledger(rows: list[dict[str, str]]) -> Counter:
    """Write figures/reproduction.csv and .md and the counts in README.md, where they change; counts by verdict."""
    ledger = claims.ledger(rows)
    _write_changed(LEDGER, as_csv(claims.LEDGER, ledger))
    _write_changed(LEDGER.with_suffix(".md"), _readable(ledger))
    if README.exists():
        text = README.read_text(encoding="utf-8")
        state = f"<!-- ledger -->\n{markdown(claims.counts(ledger))}<!-- /ledger -->"
        _write_changed(README, re.sub(r"<!-- ledger -->.*<!-- /ledger -->", lambda _: state, text, flags=re.DOTALL))
    return Counter(row["verdict"] for row in ledger)


def write_manifest(listed: Mapping[str, tuple[str, str]]) -> None:
    """Write figures/MANIFEST.csv: file, notebook, sha256; the ledger and the inputs belong to every notebook."""
    shared = {path: ("all", sha256(files.FIGURES / path)) for path in SHARED if (files.FIGURES / path).exists()}
    rows = [
        {"file": path, "notebook": owner, "sha256": known}
        for path, (owner, known) in sorted({**listed, **shared}.items())
    ]
    _write_changed(MANIFEST, as_csv(("file", "notebook", "sha256"), rows))


def _write_changed(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        files.write_whole(path, text)


def _readable(ledger: list[dict[str, str]]) -> str:
    """The ledger for people: counts, then a table for each document."""
    table = claims.counts(ledger)
    text = (
        "# Claims of the documents, and what comes out\n\n"
        "Made by `make figures`; the numbers are in [reproduction.csv](reproduction.csv). "
        "`python -m railcore claim <document>.<id>` shows one claim with its inputs.\n\n"
        f"{markdown(table)}\n"
        "Reproduced: the relation holds within the tolerance. Close: within 10% of the document's value. "
        "Differs: farther off. Unavailable: needs data that the project does not carry. Missing: no notebook computes "
        "it yet.\n\nWhat a value rests on (`basis`; where several apply, the last of them counts):\n\n"
    )
    text += "".join(f"- {name}: {meaning}\n" for name, meaning in claims.BASES.items())
    if solved := claims.calibration_counts(ledger):
        text += f"\n## Parameters solved from claims\n\n{markdown(solved)}"
    for document in (row["document"] for row in table[:-1]):
        text += f"\n## {document}\n\n"
        text += markdown([_line(row) for row in ledger if row["document"] == document])
    return text


def _line(row: Mapping[str, str]) -> dict[str, str]:
    paper, ours, deviation = float(row["paper_value"]), row["value"], row["deviation"]
    return {
        "where": row["where"],
        "claim": row["claim"],
        "document": f"{claims.RELATIONS[row['relation']]} {claims.amount(paper, row['unit'])}",
        "ours": claims.amount(float(ours), row["unit"]) if ours else "",
        "deviation": (f"{float(deviation):+.2%}" if paper else number(float(deviation))) if deviation else "",
        "verdict": row["verdict"],
        "basis": row["basis"],
        "reason": row["reason"],
        "id": f"`{row['id'].partition('.')[2]}`",
        "notebook": f"[{row['notebook'][:2]}](../notebooks/{row['notebook']}.ipynb)",
    }
