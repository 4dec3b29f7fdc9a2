"""Training runs of a user's own: a CSV in the columns of data/measured/iterations.csv, its template and its checks."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from railcore import catalog
from railcore.catalog import files, tables
from railcore.catalog.checks import short
from railcore.catalog.letters import check_visible
from railcore.catalog.text_files import csv_header, csv_rows, read_text
from railcore.training.machine import PRECISIONS
from railcore.training.runs import YOURS, check_run, published_runs, with_groups
from railcore.training.software import newest_runtime, runtime_of
from railcore.training.transformer import Transformer, catalog_model

_COMMENT = "#"  # starts a row that is left out
_DEGREES = ("tp", "cp", "pp", "dp")
_OF_MODEL = ("architecture", "model", "seq_len", "vocab", "lora_rank", "lora_targets", "frozen_bytes")
# Needed without an architecture.
_SHAPE = ("layers", "hidden", "heads", "ffn_hidden", "ffn_matrices", "seq_len", "vocab")


class RunColumn(NamedTuple):
    """A column of a file of runs: a row of data/run_columns.csv.

    kind: text, number, count, name (one of `values`), names (several), pattern (a text that the regular expression in
        `values` fits), or platform, precision, model or runtime of the catalog.
    values: names, the least count, or a regular expression.
    needed: "yes", "no" or "without architecture".
    default: what a blank stands for, in words.
    """

    column: str
    kind: str
    values: str
    needed: str
    default: str
    meaning: str
    example: str


def run_columns() -> dict[str, RunColumn]:
    """Columns of a file of runs, by name and in order."""
    return {row["column"]: RunColumn(**row) for row in tables.read_csv(files.data("run_columns.csv"))}


def run_template() -> str:
    """A CSV to fill in: the columns, a row with their meaning, which is left out when it is read, and an example."""
    columns = run_columns()
    meaning = {name: column.meaning + _needed(column) for name, column in columns.items()}
    first = next(iter(columns))
    meaning[first] = f"{_COMMENT} {meaning[first]}"
    return tables.csv_text(list(columns), [meaning, {name: column.example for name, column in columns.items()}])


def write_run_template(path: Path) -> None:
    """Write the template. Raises ValueError where the file is there already: it may hold runs."""
    write_runs(path, run_template())


def runs_text(rows: Iterable[Mapping[str, str]]) -> str:
    """A file of runs, of cells by column."""
    return tables.csv_text(list(run_columns()), rows)


def write_runs(path: Path, text: str) -> None:
    """Write a file of runs. Raises ValueError where the file is there already: it may hold runs."""
    if path.exists():
        raise ValueError(f"{path} is there already: name a new file")
    files.write_whole(path, text)


def cells_to_fill(cells: Mapping[str, str]) -> list[str]:
    """Columns that a run needs and these cells leave blank."""
    needed = ("yes",) if cells.get("architecture") else ("yes", "without architecture")
    return [name for name, column in run_columns().items() if column.needed in needed and not cells.get(name)]


def _needed(column: RunColumn) -> str:
    if column.needed == "yes":
        return " (needed)"
    without = "; needed without architecture" if column.needed != "no" else ""
    return f" (blank: {column.default.removeprefix('blank: ') or 'nothing'}{without})"


def own_runs(path: str | None) -> pd.DataFrame:
    """A user's own runs with the columns of `published_runs`; use, group and seen are "yours".

    path: of a CSV in the form of `run_template`, from the project's folder or the current one; None for no runs.
    Blank cells and missing columns take the default of data/run_columns.csv.
    Raises ValueError for a file that is not there or no such table, and for a row that does not fit: with its line, the
    column, its value and what to give.
    """
    if path is None:
        return no_runs()
    file = _file(path)
    return runs_of_text(file.name, read_runs(file))


def no_runs() -> pd.DataFrame:
    """A table of runs without rows."""
    return _no_runs().copy()


@cache
def _no_runs() -> pd.DataFrame:
    return published_runs().head(0)


def read_runs(path: Path) -> str:
    """The text of a file of runs. Raises ValueError for one that cannot be read."""
    try:
        return read_text(path)
    except OSError as error:
        raise ValueError(files.refusal(error)) from None


def runs_of_text(
    name: str,
    text: str,
    defaults: Mapping[str, str] | None = None,
    models: Mapping[str, Transformer] | None = None,
) -> pd.DataFrame:
    """Runs of a CSV's text, as `own_runs` gives them.

    Parameters
    ----------
    name
        That messages call it.
    text
        In the form of `run_template`.
    defaults, models
        As of `checked_runs`.

    Returns
    -------
    The table.

    Raises
    ------
    ValueError
        For a row that does not fit, with its line.
    """
    rows = ((f"{name}, line {line}", cells) for line, cells in _cells(name, text, defaults or {}))
    hint = " (tensor, context, pipeline, ... are the columns tp, cp, pp, ...)"
    table = checked_runs(rows, defaults, models, hint)
    if table.empty:
        raise ValueError(f"{name} has no runs: write one below the header, or leave the file out")
    return table


def checked_runs(
    rows: Iterable[tuple[str, Mapping[str, str]]],
    defaults: Mapping[str, str] | None = None,
    models: Mapping[str, Transformer] | None = None,
    hint: str = "",
) -> pd.DataFrame:
    """A table of runs, each checked and with every column.

    Parameters
    ----------
    rows
        Where each run stands, for messages, and its cells as texts by column.
    defaults
        Cells in place of blank ones; an architecture only for runs that have no sizes.
    models
        Models by name, which runs may have as architecture beside the catalog's.
    hint
        Behind messages about a strategy.

    Returns
    -------
    The table, with the columns that `published_runs` adds.

    Raises
    ------
    ValueError
        For a run that does not fit, with where it stands, the column, its value and what to give.
    """
    made = []
    for where, cells in rows:
        given = {column: text for column, text in cells.items() if text}
        row = _row(where, {**_defaults(given, defaults or {}), **given}, models or {})
        try:
            check_run(next(pd.DataFrame([row]).itertuples()), models)
        except ValueError as error:
            raise ValueError(f"{where}: {error}{hint}") from None
        made.append(row)
    return with_groups(pd.DataFrame(made)) if made else no_runs()


def _defaults(given: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, str]:
    """Defaults that go with what is given: none of a model beside another, and none of a GPU beside another."""
    left: tuple[str, ...] = ()
    if {"architecture", "hidden"} & {*given} and given.get("architecture") != defaults.get("architecture"):
        left += _OF_MODEL
    if given.get("platform", defaults.get("platform")) != defaults.get("platform"):
        left += ("nic_gbps", "runtime")
    return {column: text for column, text in defaults.items() if column not in left}


def _file(path: str) -> Path:
    """The file, from the project's folder (kernels run in another) or from the current one."""
    places = [folder / files.user_path("runs", path) for folder in (files.ROOT, Path())]
    file = next((place for place in places if place.exists()), None)
    if file is None:
        raise ValueError(f"runs is {path!r}: no such file in {files.ROOT.resolve()}; give its full path")
    return file


def _cells(file: str, text: str, defaults: Mapping[str, str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Line and cells of each run. defaults: columns that the header may lack."""
    header, columns = csv_header(text, file), run_columns()
    names = [*columns, "use"]  # the published table has "use", which does nothing here
    for name in header:
        if name not in names:
            near = catalog.nearest_names(name, names)
            raise ValueError(f"{file}, line 1: column {short(name)} is not known: the nearest are {near}; use commas")
        if header.count(name) > 1:
            raise ValueError(f"{file}, line 1: column {name!r} is there twice: leave one")
    for column in columns.values():
        if column.needed == "yes" and column.column not in (*header, *defaults):
            raise ValueError(f"{file}, line 1: column {column.column!r} is missing: add it, {column.meaning}")
    for line, row in csv_rows(text, file):
        extra = row.pop(None, None)  # type: ignore[call-overload]
        cells = {name: (value or "").strip() for name, value in row.items()}
        if not any(cells.values()) or cells[header[0]].startswith(_COMMENT):
            continue
        if extra:
            raise ValueError(
                f"{file}, line {line}: {short(', '.join(extra))} stands behind the last column: "
                "put texts with commas in quotes"
            )
        for name, cell in cells.items():
            check_visible(f"{file}, line {line}: {name}", cell)
        yield line, cells


def _row(where: str, cells: Mapping[str, str], models: Mapping[str, Transformer]) -> dict[str, Any]:
    """A run with every column, checked one by one."""
    columns = run_columns().items()
    run: dict[str, Any] = {name: _value(where, column, cells.get(name, ""), models) for name, column in columns}
    name = run["architecture"] or ""
    sizes = _sizes_of(models.get(name) or catalog_model(name)) if name else {}
    for column, size in sizes.items():
        if run[column] is not None and column not in ("layers", "seq_len", "vocab") and run[column] not in size:
            raise ValueError(f"{where}: {column} is {run[column]}, but {name} has {size[0]}: leave it blank")
    if missing := [column for column in _SHAPE if run[column] is None and not sizes]:
        meaning = run_columns()[missing[0]].meaning
        raise ValueError(f"{where}: {missing[0]} is blank, without an architecture: give {meaning}")
    run |= {column: size[0] for column, size in sizes.items() if run[column] is None}
    counts = {"kv_heads": run["heads"], "experts": 0, "top_k": 1}
    counts |= dict.fromkeys(("tp", "cp", "pp", "ep", "interleave", "microbatch", "expert_tensor"), 1)
    run |= {column: value for column, value in counts.items() if run[column] is None}
    run["dp"] = run["dp"] or max(run["gpus"] // math.prod(run[name] or 1 for name in _DEGREES), 1)
    if (product := math.prod(run[name] or 1 for name in _DEGREES)) != run["gpus"]:
        degrees = " x ".join(f"{name} {run[name]}" for name in _DEGREES)
        raise ValueError(f"{where}: gpus is {run['gpus']}, but {degrees} = {product}: change one of them")
    run["capacity"] = run["capacity"] or 0.0
    if run["released"] and not run["runtime"]:
        try:
            run["runtime"] = runtime_of(str(run["platform"]), str(run["released"])).name
        except ValueError as error:
            raise ValueError(f"{where}: {error}") from None
    texts = {
        "source": YOURS,
        "runtime": newest_runtime(run["platform"]).name,
        "recompute": "none",
        "sharding": "optimizer",
        "sequence_parallel": int(run["tp"] > 1),
        "pipeline_layout": "even",
        "kind": "measured",
    }
    if run["experts"]:
        dispatch = "drop" if run["capacity"] else "dropless"
        texts |= {"dispatch": dispatch, "dispatcher": "alltoall", "expert_overlap": 0, "graphs": "none"}
    run |= {column: value for column, value in texts.items() if run[column] in (None, "")}
    run["software"] = run["software"] or run["runtime"]
    run["model"] = run["model"] or name or f"{run['layers']} layers of {run['hidden']}"
    blank = {column: "" for column, value in run.items() if value is None}
    return {**run, **blank, "use": YOURS}


def _sizes_of(model: Transformer) -> dict[str, tuple[int, ...]]:
    """What an architecture says of the columns of sizes; widths of a mixture may be those of an expert."""
    same = ("layers", "hidden", "heads", "kv_heads", "ffn_matrices", "experts", "top_k")
    sizes = {name: (int(getattr(model, name)),) for name in same}
    widths = (model.expert_hidden, model.ffn_hidden) if model.experts else (model.ffn_hidden,)
    return sizes | {"ffn_hidden": widths, "seq_len": (model.sequence_length,), "vocab": (model.vocabulary,)}


def _value(where: str, column: RunColumn, text: str, models: Mapping[str, Transformer]) -> object:
    """The value of a cell: a number, a text, or None for a blank one. models: known beside the catalog's."""
    if not text:
        if column.needed == "yes":
            raise ValueError(f"{where}: {column.column} is blank: give {column.meaning}")
        return "" if column.kind in ("text", "pattern", "names") else None
    if column.kind == "text":
        return text
    if column.kind == "pattern":
        if not re.fullmatch(column.values, text):
            raise ValueError(f"{where}: {column.column} is {short(text)}: give {column.meaning}, or leave it blank")
        return text
    if column.kind == "names":
        if wrong := [word for word in text.split() if word not in column.values.split()]:
            every = ", ".join(column.values.split())
            raise ValueError(
                f"{where}: {column.column} has {short(wrong[0])}: give of {every}, with a space between them"
            )
        return text
    if column.kind in ("number", "count"):
        return _number(where, column, text)
    if column.kind == "name":
        if text not in (names := column.values.split()):
            raise ValueError(
                f"{where}: {column.column} is {short(text)}: give one of {', '.join(names)}, or leave it blank"
            )
        return int(text) if text.isdecimal() else text
    names = list(PRECISIONS) if column.kind == "precision" else [*catalog.names(f"{column.kind}s")]
    names += models if column.kind == "model" else ()
    if text not in names:
        near = catalog.nearest_names(text, names)
        raise ValueError(f"{where}: {column.column} is {short(text)}: give a known one, the nearest are {near}")
    return text


def _number(where: str, column: RunColumn, text: str) -> int | float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if column.kind == "count":
        least = int(column.values)
        if not (math.isfinite(value) and value == int(value) and value >= least):
            raise ValueError(f"{where}: {column.column} is {short(text)}: give a whole number of at least {least}")
        return int(value)
    if not math.isfinite(value) or value < 0 or (value == 0 and column.needed == "yes"):
        raise ValueError(f"{where}: {column.column} is {short(text)}: give a number above 0, without its unit")
    return value
