"""Publishing: a notebook's files, its rows of the ledger and its executed copy, all or none; the manifest; stamps.

What differs from the stored version by no more than the last bits of another machine (`compare`) stays as it is stored.
A notebook's stamp in build/stamps says by hashes what its last run used and published: is it up to date?
"""

import csv
import hashlib
import io
import json
import math
import os
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from railcore import catalog
from railcore.catalog import files
from railcore.catalog.tables import csv_text, read_csv
from suite import answers, outputs, workspace
from suite.driver import compare, ledger_text, parameters, readme
from suite.ledger import claims

MEASURED = "measured files"  # stands for the family of files in data/measured in figures/inputs.csv
LAST_NOTEBOOKS = ("21", "00")  # these read what the others wrote, and run after them in this order
_LEDGER = workspace.FIGURES / "reproduction.csv"
_INPUTS = workspace.FIGURES / "inputs.csv"
_PARAMETERS = workspace.FIGURES / "parameters.csv"
_MANIFEST = workspace.FIGURES / "MANIFEST.csv"
_PARAMETER_COLUMNS = ("notebook", "parameter", "value")
_SHARED = (_LEDGER.name, "reproduction.md", _INPUTS.name, _PARAMETERS.name)  # made from what every notebook gave
_COLUMNS: dict[Path, tuple[str, ...]] = {
    _LEDGER: ("id", "value", "verdict", "reason", "basis", "notebook"),
    _INPUTS: catalog.INPUT_COLUMNS,
    _PARAMETERS: _PARAMETER_COLUMNS,
    _MANIFEST: ("file", "notebook", "sha256"),
}
_MOST_B = 10_000_000  # of a figure or table; the largest has 1.8 million
_PUBLISHED_PATH = re.compile(r"[^/.\x00][^/\x00]*/[^/.\x00][^/\x00]*")  # <folder>/<file>, neither hidden nor ".."
_README = files.ROOT / "README.md"

Contents = dict[Path, bytes | None]  # what files are to hold; None: the file goes


def _read(table: Path) -> list[dict[str, str]] | None:
    """Rows of a shared table, not to be changed; None where the table is missing or damaged."""
    try:
        return _rows_of(table, table.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, csv.Error):
        return None


@lru_cache(maxsize=8)  # a run asks for the same text some hundred times
def _rows_of(table: Path, text: str) -> list[dict[str, str]] | None:
    rows = csv.DictReader(io.StringIO(text, newline=""))
    if not set(_COLUMNS[table]) <= set(rows.fieldnames or ()):
        return None
    whole = [row for row in rows if all(row[column] is not None for column in _COLUMNS[table])]
    keys = [(row["notebook"], row["parameter"]) for row in whole] if table == _PARAMETERS else []
    return whole if len(set(keys)) == len(keys) else None  # both sides of a merge: neither is known to count


def published_rows() -> list[dict[str, str]]:
    """Rows of figures/reproduction.csv that a notebook has computed, without damaged ones."""
    return [row for row in _read(_LEDGER) or [] if row["verdict"] != "missing" and _is_valid(row)]


def _is_valid(row: Mapping[str, str]) -> bool:
    try:
        numbers = [float(row.get(key) or 0) for key in ("value", "low", "high")]
        return row["id"] in claims.claims() and all(map(math.isfinite, numbers))
    except ValueError:
        return False


def rows_hashes(suite: Iterable[str]) -> dict[str, dict[str, str]]:
    """Hashes of each notebook's rows in ledger, inputs and parameters: {notebook: {"ledger": hash, "inputs": ...}}."""
    tables = {
        "ledger": (published_rows(), claims.RECORDED_COLUMNS),
        "inputs": (_read(_INPUTS) or [], catalog.INPUT_COLUMNS),
        "parameters": (_read(_PARAMETERS) or [], _PARAMETER_COLUMNS),
    }
    return {name: {key: _rows_hash(name, *table) for key, table in tables.items()} for name in suite}


def _rows_hash(name: str, rows: list[dict[str, str]], columns: Iterable[str]) -> str:
    mine = [[row.get(column, "") for column in columns] for row in rows if row["notebook"] == name]
    return hashlib.sha256(json.dumps(mine).encode()).hexdigest()


def published_parameters(name: str) -> dict[str, str]:
    """Parameters that a notebook's published results were made with, as literals of Python; {} where none is recorded.

    They stand in figures/parameters.csv.
    """
    return {row["parameter"]: row["value"] for row in _read(_PARAMETERS) or [] if row["notebook"] == name}


def _parameter_rows(name: str, notebook: Mapping) -> list[dict[str, str]]:
    values = parameters.defaults(notebook).items()
    return [{"notebook": name, "parameter": key, "value": repr(value)} for key, value in values]


def parameter_changes(name: str, notebook: Mapping) -> str:
    """Why a notebook is not the one that was published: a clause that names what differs, "" where nothing does.

    A notebook that has published nothing differs from nothing. One that has, and whose record is lost, is known by its
    stamp alone. Raises ValueError for a parameters cell that cannot be read.
    """
    rows = _parameter_rows(name, notebook)
    now, published = {row["parameter"]: row["value"] for row in rows}, published_parameters(name)
    if not published:
        nothing = name not in {*owners().values(), *(row["notebook"] for row in published_rows())}
        last_run = read_stamp(name).get("published", {}).get("parameters")
        same = nothing or not rows or last_run == _rows_hash(name, rows, _PARAMETER_COLUMNS)
        lost = f"figures/{_PARAMETERS.name} has lost its published parameters (restore that file from git)"
        return "" if same else lost
    changed = [f"{key} {published[key]} -> {value}" for key, value in now.items() if published.get(key, value) != value]
    changed += [f"{key} is new" for key in now if key not in published]
    changed += [f"{key} is gone" for key in published if key not in now]
    return f"its parameters differ from the published ones ({', '.join(changed)})" if changed else ""


def own_parameters(name: str, notebook: Mapping) -> dict[str, str]:
    """Parameters of a notebook that are not the published ones, as literals of Python; none if it has published none.

    Raises ValueError for a parameters cell that cannot be read.
    """
    published, rows = published_parameters(name), _parameter_rows(name, notebook)
    return {
        row["parameter"]: row["value"] for row in rows if published and published.get(row["parameter"]) != row["value"]
    }


def owners() -> dict[str, str]:
    """Notebook of every published file that is there, by path relative to figures/.

    As data/ lists the figures and tables, so that a lost manifest is made again whole, and as figures/MANIFEST.csv does
    for what data/ no longer lists.
    """
    listed = {row["file"]: row["notebook"] for row in _read(_MANIFEST) or []}
    for item in outputs.items().values():
        for extension in item["files"].split():
            listed[f"{item['document']}/{item['item']}.{extension}"] = item["notebook"]
    return {path: owner for path, owner in listed.items() if _is_inside(path) and (workspace.FIGURES / path).is_file()}


def _is_inside(path: str) -> bool:
    """True for <folder>/<file> of figures/, not through a link. Other entries of a manifest are left alone."""
    if not _PUBLISHED_PATH.fullmatch(path):
        return False
    folder = workspace.FIGURES / path.partition("/")[0]
    return folder.is_dir() and not folder.is_symlink()


def find_damage() -> list[str]:
    """Damage to the shared tables and to README, a sentence each."""
    filled = any(entry.is_dir() for entry in workspace.FIGURES.glob("*"))
    made_again = [table for table in _COLUMNS if table != _PARAMETERS]  # nobody knows what the parameters were
    damaged = [table.name for table in made_again if filled and _read(table) is None]
    listed = [row["file"] for row in _read(_MANIFEST) or [] if row["file"] not in _SHARED]
    unknown = [path for path in listed if not _is_inside(path)]
    lines = [f"figures/{name} is missing or damaged: it is made again" for name in damaged]
    lines += [f"figures/MANIFEST.csv lists {path!r}, which is no figure or table: it is left alone" for path in unknown]
    if _README.exists():
        text = _README.read_text(encoding="utf-8", errors="replace")
        lines += [
            f"README.md lacks the marker <!-- {part} --> or, after it, <!-- /{part} -->: what is between is not updated"
            for part in readme.lacking(text)
        ]
    return lines


def files_of_people() -> dict[str, tuple[int, int]]:
    """Time and size of every file in notebooks/ and data/, where runs write the suite's notebooks alone."""
    known = {}
    for path in (*_seen(workspace.NOTEBOOKS), *_seen(files.DATA)):
        with suppress(FileNotFoundError):  # an editor's, gone again
            stat = os.stat(files.ROOT / path)
            known[path] = stat.st_mtime_ns, stat.st_size
    return known


def find_strays(before: Mapping[str, tuple[int, int]], ran: Iterable[str] = ()) -> list[str]:
    """Files that no result is in, a sentence each: those of no notebook in figures/, and what a run left elsewhere.

    before: `files_of_people` as the run began. ran: notebooks, which are published anew.
    Whether a notebook or a person wrote a file since, nobody can tell.
    """
    owned = {f"figures/{path}" for path in (*owners(), *_SHARED)}
    lines = [
        f"{path} belongs to no notebook: it is left alone; remove it, outputs.save writes what is published"
        for path in _figures_files()
        if path not in owned
    ]
    now, published = files_of_people(), {f"notebooks/{name}.ipynb" for name in ran}
    for path in sorted(before.keys() | now.keys()):
        what = "was removed" if path not in now else "appeared" if path not in before else "was changed"
        if before.get(path) != now.get(path) and path not in published:
            text = f"{path} {what} since notebooks began to run: if you did not do that, one of them did; put it right"
            lines.append(text)
    return lines


def refuse_lost_rows(suite: Iterable[str]) -> None:
    """Raise ValueError where a shared table has lost the rows of a notebook that will not run now."""
    nothing, published = _rows_hash("", [], ()), set(owners().values())
    for name, rows in rows_hashes(suite).items():
        stamped = read_stamp(name).get("published", {})
        for key, table in (("ledger", _LEDGER), ("inputs", _INPUTS), ("parameters", _PARAMETERS)):
            damaged = name in published and _read(table) is None
            if damaged or rows[key] == nothing != stamped.get(key, nothing):
                raise ValueError(f"figures/{table.name} has lost rows of {name}: run `make figures` without NB first")


def notebook_text(notebook: Mapping, executed: Mapping, answer: answers.NotebookAnswer | None = None) -> str:
    """The notebook as text, with the outputs and counts of its execution and nothing that changes from run to run.

    answer: stands in its first cell.
    """
    import nbformat

    cells = []
    for cell, done in zip(notebook["cells"], executed["cells"], strict=True):
        cell = dict(cell)
        if cell["cell_type"] == "code":
            tags = cell["metadata"].get("tags", [])
            cell["outputs"] = [] if "explore" in tags else _described(done["outputs"], cell["source"])
            cell["execution_count"] = done["execution_count"]
            if "parameters" not in tags:  # a reader of a page wants the answer; one click shows the code
                cell["metadata"] = {**cell["metadata"], "jupyter": {"source_hidden": True}}
        cells.append(cell)
    cells[:1] = [{**cell, "source": answers.headed(cell["source"], answer, outputs.PUBLISHED)} for cell in cells[:1]]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return nbformat.writes(nbformat.from_dict({**notebook, "cells": cells, "metadata": metadata})) + "\n"


def _described(cell_outputs: list, source: str) -> list:
    """Outputs of a cell, its pictures with what they must show as alternative text."""
    ids = [item_id for item_id in re.findall(r'"([\w.]+)"', source) if item_id in outputs.items()]
    texts = [outputs.items()[item_id]["must_show"] for item_id in ids]
    described = []
    for output in cell_outputs:
        if "image/png" in output.get("data", {}) and texts:
            output = {**output, "metadata": {**output["metadata"], "image/png": {"alt": texts[0]}}}
            texts = texts[1:] or texts
        described.append(output)
    return described


def publish(name: str, folder: Path, notebook: Mapping, report: Mapping) -> tuple[dict[str, str], int]:
    """Put what a run left in a folder in its place.

    The parameters' record comes first, then figures and tables, then what the notebook no longer writes goes, then
    ledger, inputs, notebook and manifest: a kill in between leaves whole files, and no stamp, so that the next run
    does it again, with parameters that are the recorded ones.

    Parameters
    ----------
    name, notebook
        Of the suite, and as it was run.
    folder, report
        What the run wrote, and what `kernels.execute` gave.

    Returns
    -------
    Hashes of what is published now, by path, and how many figures and tables are new or changed.

    Raises
    ------
    ValueError
        For a parameters cell that cannot be read, and a file over 10 MB: nothing was changed.
    OSError
        When nothing was changed.
    files.HalfWritten
        When a rename failed after others; it names what was changed.
    """
    made = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    for path, source in made.items():
        if (size := source.stat().st_size) > _MOST_B and "/" in path:
            raise ValueError(f"it wrote {path} of {size} bytes: at most {_MOST_B} may be published, leave detail out")
    figures = {path: source for path, source in made.items() if "/" in path and not path.startswith("claims/")}
    owned, new = owners(), _changed_items(figures)
    stale: Contents = {
        workspace.FIGURES / path: None for path, by in owned.items() if by == name and path not in figures
    }
    ledger = {row["id"]: row for row in published_rows()}
    rows = [row for row in ledger.values() if row["notebook"] != name]
    rows += [_stored_if_same(row, ledger.get(row["id"])) for row in read_csv(folder / "claims" / f"{name}.csv")]
    inputs = [row for row in _read(_INPUTS) or [] if row["notebook"] != name]
    inputs += [{"notebook": name, **row} for row in [*report["inputs"], *measured_inputs(report["data"])]]
    recorded = [row for row in _read(_PARAMETERS) or [] if row["notebook"] != name] + _parameter_rows(name, notebook)
    target, answer = workspace.NOTEBOOKS / f"{name}.ipynb", answers.stored(name, folder)
    executed = notebook_text(notebook, report["notebook"], answer).encode()
    if not new and not compare.difference(target.name, target.read_bytes(), executed):
        executed = target.read_bytes()
    shared = _shared_tables(rows, inputs, recorded) | _readme(rows, answer)
    _write(new | stale | shared | {target: executed}, owned | dict.fromkeys(figures, name))
    published = {f"figures/{path}": sha256(workspace.FIGURES / path) for path in figures}
    return published | {f"notebooks/{name}.ipynb": sha256(target)} | rows_hashes([name])[name], len(new)


def measured_inputs(read: Iterable[str]) -> list[dict[str, str]]:
    """Files of data/measured that a run has read, as inputs; their sources as data/README.md has them."""
    described = files.DATA / "README.md"
    text = described.read_text(encoding="utf-8") if described.exists() else ""
    rows = []
    for path in read:
        if path.startswith("data/measured/"):
            named = path.removeprefix("data/")
            section = next((part for part in text.split("\n## ") if named in part.partition("\n")[0]), "")
            source = re.search(r"(?:Source: |Facts from |Computed for )[^;\n]*", section)
            origin = source[0].removeprefix("Source: ") if source else "see data/README.md"
            row = {"family": MEASURED, "name": path, "kind": "measured", "source": origin}
            rows.append(dict.fromkeys(catalog.INPUT_COLUMNS[1:], "") | row)
    return rows


def _changed_items(made: Mapping[str, Path]) -> Contents:
    """All files of every item that has a new or changed file: one digit changes a table, but hardly its picture."""
    changed = {path.rpartition(".")[0] for path, source in made.items() if _is_changed(path, source)}
    items = {path: source for path, source in made.items() if path.rpartition(".")[0] in changed}
    return {workspace.FIGURES / path: source.read_bytes() for path, source in items.items()}


def _is_changed(path: str, made: Path) -> bool:
    stored = workspace.FIGURES / path
    return not stored.is_file() or bool(compare.difference(path, stored.read_bytes(), made.read_bytes()))


def _stored_if_same(row: dict[str, str], stored_row: Mapping[str, str] | None) -> dict[str, str]:
    """A recorded row of the ledger, with the stored numbers where they differ by no more than the last digits."""
    if stored_row is None or any(row.get(key, "") != stored_row.get(key, "") for key in ("reason", "basis")):
        return row
    stored = {key: stored_row.get(key, "") for key in ("value", "low", "high")}
    return row | stored if all(compare.same_value(stored[key], row.get(key, "")) for key in stored) else row


def rewrite_shared_tables(suite: list[str]) -> None:
    """Write the shared tables again from the rows in them and the files that are there.

    Files and rows of notebooks that are no longer in the suite go.
    """
    owned = owners()
    gone: Contents = {workspace.FIGURES / path: None for path, owner in owned.items() if owner not in suite}
    tables = (published_rows(), _read(_INPUTS) or [], _read(_PARAMETERS) or [])
    rows, inputs, recorded = ([row for row in rows if row["notebook"] in suite] for rows in tables)
    _write(gone | _shared_tables(rows, inputs, recorded) | _readme(rows), owned)


def _shared_tables(
    rows: list[dict[str, str]], inputs: list[dict[str, str]], recorded: list[dict[str, str]]
) -> Contents:
    """The ledger for machines and for people, the inputs and the parameters."""
    ledger = claims.ledger(rows)
    return {
        _LEDGER: csv_text(claims.LEDGER_COLUMNS, ledger).encode(),
        _LEDGER.with_suffix(".md"): ledger_text.ledger_text(ledger).encode(),
        _INPUTS: csv_text(catalog.INPUT_COLUMNS, sorted(inputs, key=lambda row: row["notebook"])).encode(),
        _PARAMETERS: csv_text(_PARAMETER_COLUMNS, sorted(recorded, key=lambda row: row["notebook"])).encode(),
    }


def _readme(rows: list[dict[str, str]], new: answers.NotebookAnswer | None = None) -> Contents:
    """README with the answers and the counts of these rows of the ledger; nothing where it cannot be read.

    new: in place of the stored answer of its notebook.
    """
    try:
        text = _README.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return {}
    known = {answer.notebook: answer for answer in [*answers.answered(), *([new] if new else [])]}
    return {_README: readme.written(text, claims.ledger(rows), known.values()).encode()}


def _write(contents: Contents, owned: Mapping[str, str]) -> None:
    """Write what differs from what is stored, and the manifest: file, notebook, sha256; shared tables belong to all."""
    listed = []
    for path, owner in sorted({**owned, **dict.fromkeys(_SHARED, "all")}.items()):
        place = workspace.FIGURES / path
        data = contents[place] if place in contents else _stored(place)
        if data is not None:
            listed.append({"file": path, "notebook": owner, "sha256": hashlib.sha256(data).hexdigest()})
    first = {_PARAMETERS: contents[_PARAMETERS]}
    whole = first | contents | {_MANIFEST: csv_text(_COLUMNS[_MANIFEST], listed).encode()}
    files.write_all({place: data for place, data in whole.items() if data != _stored(place)})


def _stored(place: Path) -> bytes | None:
    return place.read_bytes() if place.is_file() else None


def sha256(path: Path) -> str:
    """Hash of a file, or "" where there is none."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _module_path(name: str) -> str:
    """Path of a module's file relative to the project, or "" where it is gone."""
    path = Path(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if (files.ROOT / candidate).is_file():
            return str(candidate)
    return ""


def source_hashes() -> dict[str, str]:
    """Hash of every file that a run may use, by path, as it is when the run begins."""
    folders = ((files.PACKAGE, "*.py"), (files.ROOT / "suite", "*.py"), (files.DATA, "*"))
    paths = [path for folder, pattern in folders for path in folder.rglob(pattern) if path.is_file()]
    return {str(path.relative_to(files.ROOT)): sha256(path) for path in (*paths, files.ROOT / "constraints.txt")}


def _used_hash(name: str, notebook: Mapping, report: Mapping, stored: Mapping[str, str]) -> str:
    """Hash of all that a notebook's results depend on; stored: hashes to use in place of those of the files."""
    used = ["constraints.txt", *map(_module_path, report["modules"]), *report["data"]]
    if name[:2] in LAST_NOTEBOOKS:
        used += [path for path in _figures_files() if not path.startswith(f"figures/extra/{name[:2]}_")]
    hashes = [(path, stored.get(path) or sha256(files.ROOT / path)) for path in used]
    cells = [[cell["cell_type"], cell["source"], cell["metadata"], cell.get("id", "")] for cell in notebook["cells"]]
    parts = [cells, sys.version_info[:2], hashes]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _figures_files() -> list[str]:
    """Files in figures/ without the manifest, as `_seen`."""
    return [path for path in _seen(workspace.FIGURES) if not path.endswith("/MANIFEST.csv")]


def _seen(folder: Path) -> list[str]:
    """Files in a folder relative to the project, sorted, hidden ones and caches of Python left out."""
    paths = (path.relative_to(files.ROOT) for path in folder.rglob("*") if path.is_file())
    return sorted(str(path) for path in paths if not any(part.startswith((".", "__")) for part in path.parts))


def stamp_path(name: str, run_name: str | None = None) -> Path:
    """Where a notebook's stamp is kept; run_name: that of a run whose results went to build/custom."""
    return files.BUILD / (f"custom_stamps/{name}/{run_name}.json" if run_name else f"stamps/{name}.json")


def write_stamp(
    name: str, notebook: Mapping, report: Mapping, published: Mapping[str, str], run_name: str | None = None
) -> None:
    """Stamp a notebook.

    Parameters
    ----------
    name, notebook
        Of the suite, and its sources.
    report
        What its kernel reported (modules, data), and `before`, the hashes of all files when the run began.
    published
        Hash of everything that it published, by path.
    run_name
        Of a run whose results went to build/custom.

    Returns
    -------
    Nothing: the stamp is written.
    """
    stamp = {"modules": report["modules"], "data": report["data"], "published": dict(published)}
    stamp["used"] = _used_hash(name, notebook, report, report["before"])
    files.write_whole(stamp_path(name, run_name), json.dumps(stamp, indent=1))


def read_stamp(name: str, run_name: str | None = None) -> dict[str, Any]:
    """A notebook's stamp, {} where there is none of the shape that `write_stamp` gives."""
    try:
        stamp = json.loads(stamp_path(name, run_name).read_text(encoding="utf-8"))
        texts = [stamp["used"], *stamp["modules"], *stamp["data"], *stamp["published"], *stamp["published"].values()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    return stamp if all(isinstance(text, str) for text in texts) else {}


def up_to_date(name: str, notebook: Mapping, rows: Mapping[str, str], run_name: str | None = None) -> bool:
    """True when nothing that the last run used has changed and everything that it made is still there.

    Parameters
    ----------
    name, notebook
        Of the suite, and its sources.
    rows
        Hash of the notebook's rows in each shared table as they stand.
    run_name
        Of a run whose results went to build/custom: it has no such rows.

    Returns
    -------
    Whether a run would give what is there.
    """
    stamp, rows = read_stamp(name, run_name), {} if run_name else rows
    if not stamp:
        return False
    there = {path: sha256(files.ROOT / path) for path in stamp["published"] if path not in rows}
    same = stamp["published"] == {**there, **rows}
    return same and stamp["used"] == _used_hash(name, notebook, stamp, {})
