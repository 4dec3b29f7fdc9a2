"""Cases of claim_inputs.csv: what each input of the catalog that a notebook reads does to its claims.

A case is a notebook. Its cells up to the last that records claims run once as they are, once with each assumed row of
the catalog at its low and at its high end, once for each claim with all rows at the ends that make it smaller and once
larger, with the other numbers of each item larger (by `_enlarged`), and once with the stored results of each other
table here 1% larger. A row has a claim whose value differs then, and that value; a case without any has one row without
a claim. Where a notebook refuses a value, or asks for runs that are not stored, the claims that it recorded before
count.
"""

import ast
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from statistics import median
from typing import Any

import pandas as pd

from railcore.catalog import files
from railcore.catalog.tables import csv_text, read_csv
from railcore.catalog.units import unit
from suite import workspace
from suite.driver import run as suite
from suite.ledger.grounds import ENDS

CODE = ("railcore", "suite", "notebooks")
CASE = "notebook"  # column that tells the rows of a case
COLUMNS = ["notebook", "family", "name", "parameter", "end", "id", "value"]
_LEAST = 1e-8  # relative difference that counts: above the last bits of another machine
_MORE = 0.01  # of a number, for one that is larger
_TOGETHER = ["", "all of these together", ""]  # in the columns family, name and parameter
Change = list[dict[str, str]]  # rows of the catalog, each with its family and the value that it takes


def cases() -> list[str]:
    """Notebooks that answer for claims."""
    return sorted({row["notebook"] for row in read_csv(files.data("claims.csv"))} & {*suite.notebook_names()})


def size(case: str) -> int:
    """Rows of the catalog that the notebook reads."""
    return len(_read_rows(case))


def key(case: str) -> tuple:
    """The notebook, and the rows that its last run read, with their ends."""
    return case, *(tuple(row.values()) for row in _read_rows(case))


def _read_rows(notebook: str) -> list[dict[str, str]]:
    """Numbers of the catalog that the published notebook has read, as their files have them, with the family."""
    published = read_csv(workspace.FIGURES / "inputs.csv")
    read = {(row["family"], row["name"], row["parameter"]) for row in published if row["notebook"] == notebook}
    return [
        {"family": path.stem, **row}
        for path in sorted((files.DATA / "catalog").glob("*.csv"))
        for row in read_csv(path)
        if (path.stem, row["name"], row["parameter"]) in read and row["unit"] != "name"
    ]


def _assumed(row: dict[str, str]) -> bool:
    return row["kind"] == "assumed"


def run(case: str) -> pd.DataFrame:
    """The rows of a case, from a process of its own."""
    command = [sys.executable, __file__, case]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "PYTHONPATH": str(files.ROOT), "PYTHONHASHSEED": "0"}
    done = subprocess.run(
        command, env=environment, cwd=workspace.NOTEBOOKS, stdout=subprocess.PIPE, text=True, check=True
    )
    return pd.DataFrame(json.loads(done.stdout), columns=COLUMNS)


def named(case: str) -> str:
    """A case in a line."""
    return f"{case}: {size(case)} rows"


def _cells(notebook: str) -> list[str]:
    """Sources of the code cells up to the last that records claims."""
    code = [cell["source"] for cell in suite.load_notebook(notebook)["cells"] if cell["cell_type"] == "code"]
    return code[: 1 + max(i for i, source in enumerate(code) if "claims.record(" in source)]


def _import_all(cells: list[str]) -> None:
    """Import what the cells import, and Numba, so that each run, a fork, finds it there."""
    importlib.import_module("numba")
    imports = [
        node for source in cells for node in ast.parse(source).body if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    exec(compile(ast.Module(imports, []), "imports", "exec"), {})


def _recorded(changed: Change, larger: str, cells: list[str]) -> tuple[dict[str, float], list[str]]:
    """Values that the cells record, and the tables of data/derived that they read.

    changed: rows in place of the catalog's. larger: the table of data/derived whose results are to be larger, or "".
    """
    from suite.flops2024 import transport_runs as runs
    from suite.ledger import claims

    recorded: dict[str, float] = {}

    def record(values, reasons=None, readings=None, draws=None):
        given = {**values, **{claim_id: median(each) for claim_id, each in (draws or {}).items()}}
        recorded.update({claim_id: float(value) for claim_id, value in given.items() if value is not None})

    def not_stored(**_case):
        raise ValueError("this run is not stored")

    with tempfile.TemporaryDirectory() as folder:
        claims.record, runs.simulate_packets = record, not_stored
        workspace.parameterized = lambda: False
        os.environ["RAILCORE_OUT"] = f"{folder}/out"
        if larger:
            copy, data = _larger(larger, Path(folder) / "larger.csv"), files.data
            files.data = lambda name: copy if name == f"derived/{larger}.csv" else data(name)
        own = Path(folder) / "own"
        own.mkdir()
        for family in {row["family"] for row in changed}:
            rows = [row for row in changed if row["family"] == family]
            columns = [name for name in rows[0] if name != "family"]
            (own / f"{family}.csv").write_text(csv_text(columns, rows), encoding="utf-8")
        if changed:
            os.environ["RAILCORE_CATALOG"] = str(own)
        names: dict[str, Any] = {"__name__": "notebook"}
        try:
            with open(os.devnull, "w") as quiet, redirect_stdout(quiet):
                for source in cells:
                    exec(source, names)
        except Exception as error:  # what a notebook does with an impossible number is its own affair
            if not changed and not larger:
                raise
            where = "; ".join(f"{row['name']}, {row['parameter']}: {row['value']}" for row in changed)
            print(f"{where or larger}: {error}", file=sys.stderr)
    read = [Path(path).stem for path in files.data_files_read() if path.startswith("data/derived/")]
    return recorded, [name for name in read if name != Path(__file__).stem]


def _larger(table: str, copy: Path) -> Path:
    """The path of a copy of a stored table whose results, its columns of times and errors, are 1% larger."""
    rows = pd.read_csv(files.DATA / f"derived/{table}.csv")
    inputs = {"link_latency_s", "switch_latency_s", "nic_latency_s", "start_spread_s", "reconfiguration_s"}
    results = [name for name in rows if name.endswith(("_s", "error", "gained")) and name not in inputs]
    rows.assign(**{name: (1 + _MORE) * rows[name] for name in results}).to_csv(copy, index=False)
    return copy


def _forked(changed: Change, larger: str, cells: list[str]) -> tuple[dict[str, float], list[str]]:
    """`_recorded` in a fork of this process, which has read nothing of the catalog and has no other thread."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        with os.fdopen(writing, "w") as stream:
            json.dump(_recorded(changed, larger, cells), stream)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as stream:
        text = stream.read()
    if os.waitpid(child, 0)[1] or not text:
        raise RuntimeError(f"the run with {changed or larger or 'nothing'} changed has failed: its message is above")
    return json.loads(text)


def _rows(notebook: str) -> list[list]:
    """The rows of a case."""
    cells = _cells(notebook)
    _import_all(cells)
    base, stored = _forked([], "", cells)
    single: list[tuple[list[str], Change, str]] = [
        ([row["family"], row["name"], row["parameter"], end], [row | {"value": row[end]}], "")
        for row in filter(_assumed, _read_rows(notebook))
        for end in ENDS
    ]
    single += [(["derived", f"data/derived/{table}.csv", "", "+1%"], [], table) for table in stored]
    rows: list[list] = []
    pushes: dict[str, list[tuple[float, dict[str, str]]]] = {}
    for label, changed, larger in single:
        for claim_id, value in _moved(base, _forked(changed, larger, cells)[0]).items():
            rows.append([notebook, *label, claim_id, value])
            pushes.setdefault(claim_id, []).extend((value - base[claim_id], row) for row in changed)
    for claim_id, pushed in pushes.items():
        for end, sign in (("low", -1), ("high", 1)):
            if len(changed := _pushing(pushed, sign)) > 1:
                values = _moved(base, _forked(changed, "", cells)[0])
                rows += [[notebook, *_TOGETHER, end, claim_id, values[claim_id]]] if claim_id in values else []
    others = [row for row in _read_rows(notebook) if not _assumed(row)]
    rows += [
        [notebook, *label, claim_id, value]
        for label, moved in _moving(others, base, cells)
        for claim_id, value in moved.items()
    ]
    return rows or [[notebook, *[""] * (len(COLUMNS) - 2), None]]


def _moving(rows: Change, base: dict[str, float], cells: list[str]) -> Iterator[tuple[list[str], dict[str, float]]]:
    """Items of the catalog that move a claim when all their rows are larger, and the claims' values.

    rows: of an item next to each other. What moves any claim is halved until one item is left, and where the notebook
    refuses its numbers together, until one row is. The labels are those of a row of the table.
    """
    if not rows:
        return
    items = [(row["family"], row["name"]) for row in rows]
    larger = [_enlarged(row, 1 + place / len(rows)) for place, row in enumerate(rows)]
    values = _forked(larger, "", cells)[0]
    if len(rows) == 1 and len(values) < len(base):  # refused, such as 2.02 bytes
        larger = [rows[0] | {"value": f"{2 * float(rows[0]['value']):g}"}]
        values = _forked(larger, "", cells)[0]
    moved, refused = _moved(base, values), len(values) < len(base)
    if len(rows) == 1 or (len(set(items)) == 1 and not refused):
        parameter = rows[0]["parameter"] if len(rows) == 1 else ""
        yield from [([*items[0], parameter, "larger"], moved)] if moved else []
    elif moved or refused:
        starts = [place for place in range(1, len(rows)) if items[place] != items[place - 1]] or [len(rows) // 2]
        half = min(starts, key=lambda place: abs(place - len(rows) / 2))
        yield from _moving(rows[:half], base, cells)
        yield from _moving(rows[half:], base, cells)


def _enlarged(row: dict[str, str], times: float) -> dict[str, str]:
    """A row with a larger number: by 1%, twice as large of a count, 1 in place of 0, and 0 of 1.

    times: of the 1%, so that rows which are larger together do not cancel each other.
    """
    value = float(row["value"])
    if value in (0, 1):
        return row | {"value": f"{1 - value:g}"}
    if value.is_integer() and unit(row["unit"])[0] == "1":
        return row | {"value": f"{2 * value:g}"}
    return row | {"value": f"{value * (1 + _MORE * times):.12g}"}


def _moved(base: dict[str, float], values: dict[str, float]) -> dict[str, float]:
    """Values that differ from the base."""
    return {
        claim_id: float(f"{value:.10g}")
        for claim_id, value in values.items()
        if abs(value - base[claim_id]) > _LEAST * max(abs(base[claim_id]), 1e-12)
    }


def _pushing(pushed: list[tuple[float, dict[str, str]]], sign: int) -> Change:
    """Of each row the end that moves a claim farthest in one direction, as far as one does."""
    best: dict[tuple[str, str, str], tuple[float, dict[str, str]]] = {}
    for by, row in pushed:
        place = row["family"], row["name"], row["parameter"]
        if sign * by > max(0.0, best.get(place, (0.0, row))[0]):
            best[place] = sign * by, row
    return [row for _, row in best.values()]


if __name__ == "__main__":
    json.dump(_rows(sys.argv[1]), sys.stdout)
