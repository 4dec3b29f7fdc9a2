"""Rebuild data/derived, which takes longer than a notebook may, and compare it with what is stored.

python data/derived/rebuild.py [--write] [--jobs N] [--smallest N] [TABLE ...]

A table is a module beside this file, with its cases, how large a case is and what rows it gives; TABLE.csv has the rows
of all cases, and TABLE.sha256 the hash of its inputs. Each finished case is kept in build/derived: a run that was
stopped goes on where it was, until code or inputs change.

Exit status 0 where stored and new agree, 1 where they do not.
"""

import argparse
import ast
import hashlib
import io
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))

import claim_inputs
import error_spreads
import iteration_errors
import level_errors
import mechanism_effects
import photonic_runs
import plan_checks
import plan_draws
import product_laws
import sweep_winners
import transport_runs

from railcore.catalog import files

TABLES: dict[str, ModuleType] = {
    "claim_inputs": claim_inputs,
    "iteration_errors": iteration_errors,
    "error_spreads": error_spreads,  # of the table before it
    "level_errors": level_errors,
    "mechanism_effects": mechanism_effects,
    "photonic_runs": photonic_runs,
    "plan_checks": plan_checks,
    "plan_draws": plan_draws,
    "product_laws": product_laws,
    "sweep_winners": sweep_winners,
    "transport_runs": transport_runs,
}


def digest(*parts: object) -> str:
    """Hash of what is given, by its text."""
    return hashlib.sha256("\n".join(map(repr, parts)).encode()).hexdigest()


def inputs_hash(table: str) -> str:
    """Hash of what a table is computed from, but the code."""
    return digest(*map(TABLES[table].key, TABLES[table].cases()))


def code_hash(table: str) -> str:
    """Hash of the code that a table is computed by, without comments and docstrings.

    Raises ValueError for a path of it that does not exist.
    """
    paths = [files.ROOT / path for path in TABLES[table].CODE]
    for named, path in zip(TABLES[table].CODE, paths, strict=True):
        if not path.exists():
            raise ValueError(f"CODE of {table} has {named!r}, which does not exist: write where that code is now")
    kinds = ("*.py", "*.ipynb")
    inside = [
        sorted(each for kind in kinds for each in path.rglob(kind)) if path.is_dir() else [path] for path in paths
    ]
    found = [each for folder in inside for each in folder]
    return digest(*map(_without_words, [*found, Path(TABLES[table].__file__ or "")]))


@cache  # several tables are of the same code
def _without_words(path: Path) -> str:
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        return repr([cell["source"] for cell in cells if cell["cell_type"] == "code"])
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            if isinstance(lines := getattr(node, name, None), list):
                setattr(node, name, [each for each in lines if not _is_text(each)])
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def csv_text(rows: pd.DataFrame) -> str:
    """A table as it is stored."""
    return rows.to_csv(index=False, float_format="%.10g", lineterminator="\n")


def as_stored(new: pd.DataFrame, old: pd.DataFrame) -> bool:
    """Whether rows agree, numbers to 1e-8."""
    try:
        new, old = (each.reset_index(drop=True) for each in (new, old))
        pd.testing.assert_frame_equal(new, old, check_dtype=False, rtol=1e-8, atol=1e-12)
    except AssertionError:
        return False
    return True


def smallest(table: str, count: int | None = None) -> list[int]:
    """Places of so many of the smallest cases of a table, in its order; by default of all."""
    cases = TABLES[table].cases()
    return sorted(sorted(range(len(cases)), key=lambda place: TABLES[table].size(cases[place]))[:count])


def finished(table: str, cases: list[Any], jobs: int = 1) -> Iterator[tuple[int, pd.DataFrame, bool]]:
    """Place and rows of each case, and whether they were kept from an earlier run; those come first."""
    code = code_hash(table)
    paths = [files.BUILD / "derived" / table / f"{digest(code, TABLES[table].key(case))[:32]}.csv" for case in cases]
    left = [place for place, path in enumerate(paths) if not path.is_file()]
    for place in sorted(set(range(len(cases))) - set(left)):
        yield place, pd.read_csv(paths[place]), True
    for place, rows in _computed(TABLES[table], cases, left, jobs):
        files.write_whole(paths[place], text := csv_text(rows))
        yield place, pd.read_csv(io.StringIO(text)), False


def _computed(table: ModuleType, cases: list[Any], left: list[int], jobs: int) -> Iterator[tuple[int, pd.DataFrame]]:
    if jobs == 1:
        yield from ((place, table.run(cases[place])) for place in left)
        return
    with ProcessPoolExecutor(jobs) as pool:
        waiting = {pool.submit(table.run, cases[place]): place for place in left}
        yield from ((waiting[each], each.result()) for each in as_completed(waiting))


def rebuild(table: str, write: bool, jobs: int, count: int | None = None) -> bool:
    """Compute a table, or so many of its smallest cases, and store or compare it. True where it is what is stored."""
    recipe, places = TABLES[table], smallest(table, count)
    every = recipe.cases()
    cases = [every[place] for place in places]
    path, hashed = files.DATA / f"derived/{table}.csv", files.DATA / f"derived/{table}.sha256"
    parts: dict[int, pd.DataFrame] = {}
    began = time.monotonic()
    for number, rows, kept in finished(table, cases, jobs):
        parts[number] = rows
        if not kept:
            took = f"{time.monotonic() - began:.0f} s"
            print(f"{table}, {len(parts)} of {len(cases)}, {took}: {recipe.named(cases[number])}", file=sys.stderr)
    new = pd.concat([parts[number] for number in range(len(cases))], ignore_index=True)
    if write:
        files.write_all({path: csv_text(new), hashed: inputs_hash(table) + "\n"})
        return True
    old = pd.read_csv(path) if path.is_file() else pd.DataFrame()
    if not as_stored(new, _stored_rows(recipe, old, places)):
        print(f"{path.name} is not what comes out: find out why, then give --write")
        return False
    if hashed.read_text(encoding="utf-8").strip() != inputs_hash(table):
        print(f"{hashed.name} is of other inputs, with the same results: give --write")
        return False
    return True


def _stored_rows(recipe: ModuleType, old: pd.DataFrame, places: list[int]) -> pd.DataFrame:
    """Stored rows of the cases at these places: `ROWS` each, or those with the case in the column `CASE`.

    Nothing where the table has rows of other cases.
    """
    every = recipe.cases()
    if column := getattr(recipe, "CASE", ""):
        known = old.columns.size and set(old[column]) == set(every)
        return old[old[column].isin([every[place] for place in places])] if known else old.head(0)
    wanted = [place * recipe.ROWS + row for place in places for row in range(recipe.ROWS)]
    return old.iloc[wanted] if len(old) == len(every) * recipe.ROWS else old.head(0)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(TABLES)}; all by default")
    parser.add_argument("--write", action="store_true", help="replace what is stored")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes, 1 by default")
    parser.add_argument("--smallest", type=int, metavar="N", help="compare the N smallest cases alone")
    given = parser.parse_args()
    if given.smallest is not None and (given.write or given.smallest < 1):
        parser.error(f"--smallest {given.smallest}: give 1 or more, without --write, which stores all cases")
    for table in given.tables:
        if table not in TABLES:
            parser.error(f"no table {table!r}: give {', '.join(TABLES)}")
    return (
        0 if all([rebuild(table, given.write, given.jobs, given.smallest) for table in given.tables or TABLES]) else 1
    )


if __name__ == "__main__":
    sys.exit(main())
