"""What `railcore plan` does: reads specs, answers, writes pages, JSON, Markdown and tables."""

import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel

from railcore.catalog import files
from railcore.catalog.tables import frame_csv
from railcore.catalog.text_files import check_not_read
from railcore.planner import report
from railcore.planner.differences import Differences, differences_text
from railcore.planner.page import page_html
from railcore.planner.pictures import check_library
from railcore.planner.planning import plan
from railcore.planner.price_list import check_workbooks, workbook
from railcore.planner.progress import ProgressLine
from railcore.planner.result import Plan
from railcore.planner.spec import UncertaintySpec, check_draws
from railcore.planner.spec_reading import read_spec

_OF_SYSTEM = re.compile(r"/(proc|dev/(fd|stdin|stdout|stderr))(/|$)")  # where a file may be a terminal, or another one
NOT_MET = 3  # exit status where a hard limit is not met
_SHEETS = ("candidates", "neighbours", "bill", "ownership", "designs", "failures", "defaults", "sources")
TABLES: tuple[str, ...] = ("candidates", "neighbours", "designs", "times", "memory", "bill", "failures", "ownership")
TABLES += ("defaults", "sources", "flips")


def run(specs: Sequence[str], written: Mapping[str, str | None], draws: int | None) -> int:
    """Plan each spec and print or write it. Gives the exit status: 3 where a plan misses a limit.

    Parameters
    ----------
    specs
        TOML files.
    written
        Where "html", "json", "markdown", "csv" and "xlsx" go, None for nowhere, "-" for the terminal.
    draws
        Of uncertain rows. None: the spec's on pages and in JSON, and none elsewhere.

    Returns
    -------
    0, or 3.

    Raises
    ------
    ValueError
        For no spec, and for specs with faults.
    """
    check_draws("--draws", draws or 0)
    if not specs:
        raise ValueError("plan needs a spec: give a TOML file; `railcore plan --init` prints one to fill in")
    _check_targets(written)
    with ProgressLine() as tell:
        plans, contents, printed = _planned(specs, written, draws, tell)
    for path in contents:  # the catalog too, which is read late
        check_not_read("the plan", path)
    files.write_all(contents)
    if printed:
        print(printed, end="")
    named = [path for name, path in written.items() if path and (name == "csv" or Path(path) in contents)]
    for target in named:
        print(f"{target}: written", file=sys.stderr)
    return 0 if all(planned.met for planned in plans) else NOT_MET


def _planned(
    specs: Sequence[str], written: Mapping[str, str | None], draws: int | None, tell: Callable[[str], None]
) -> tuple[list[Plan], dict[Path, str | bytes | None], str]:
    """The plans of specs, what is written into files, and what is printed.

    Parameters
    ----------
    specs, written, draws
        As of `run`.
    tell
        Called with what is being done.

    Returns
    -------
    Plans, contents of files, text for the terminal.
    """
    plans, read = [], [read_spec(path) for path in specs]
    for name, target in written.items():
        if target and target != "-":
            tables = [folder / f"{table}.csv" for folder in _csv_folders(target, len(read)) for table in TABLES]
            for place in tables if name == "csv" else [Path(target)]:
                check_not_read(f"--{name}", place)
    for spec in read:
        if not spec.date:
            spec = spec.model_copy(update={"date": date.today().isoformat()})
        if draws:
            spec = spec.model_copy(update={"uncertainty": UncertaintySpec(draws=draws, seed=spec.uncertainty.seed)})
        plans.append(plan(spec, tell))
    drawn = draws != 0 and (draws is not None or any(written[name] for name in ("html", "json")))
    with_terminal = "-" not in (written["json"], written["markdown"])
    tell("texts and tables")
    with_document = any(written[name] for name in ("html", "json", "markdown"))
    documents = [planned.document(drawn) for planned in plans] if with_document else []
    between = Differences(*plans) if len(plans) == 2 else None
    told = None if between is None or not (written["html"] or with_terminal) else between.document()
    contents: dict[Path, str | bytes | None] = {}
    printed = ""
    if written["html"]:
        contents[Path(written["html"])] = page_html(documents, told)
    if written["xlsx"]:
        contents[Path(written["xlsx"])] = workbook(plans, _SHEETS)
    texts = {
        "json": lambda: json.dumps([_plain(whole) for whole in map(_whole, plans, documents)], indent=1) + "\n",
        "markdown": lambda: report.markdown_text(plans, documents) + "\n",
    }
    for name, text in texts.items():
        if written[name] == "-":
            printed += text()
        elif written[name]:
            contents[Path(str(written[name]))] = text()
    if written["csv"]:
        contents |= _csv_files(plans, written["csv"])
    if with_terminal:
        texts_of_plans = [report.terminal_text(planned, drawn) for planned in plans]
        printed += "\n\n".join([*texts_of_plans, *([differences_text(told)] if told else [])]) + "\n"
    return plans, contents, printed


def _check_targets(written: Mapping[str, str | None]) -> None:
    """Raises ValueError for files that cannot be written, before anything is computed."""
    if "-" in (written["html"], written["csv"], written["xlsx"]):
        raise ValueError("--html, --csv and --xlsx are files: give a name in place of -")
    if written["html"]:
        check_library()
    if written["xlsx"]:
        check_workbooks("--xlsx")
    if empty := [name for name, path in written.items() if path == ""]:
        raise ValueError(f"--{empty[0]} is '': give the name of a file, or of a folder for --csv")
    paths = {name: Path(path) for name, path in written.items() if path and path != "-"}
    places = [path.resolve() for path in paths.values()]
    for name, path in paths.items():
        if places.count(path.resolve()) > 1:
            raise ValueError(f"{path} is given twice: give each form a file of its own")
        if path.suffix == ".csv" and "csv" in paths and paths["csv"].resolve() in path.resolve().parents:
            raise ValueError(f"{path} is in the folder of --csv: give --{name} another place")
        if _OF_SYSTEM.match(str(path.absolute())):
            raise ValueError(f"--{name} is {str(path)!r}: give a file, or - for the terminal")
        if name != "csv":
            files.regular_file(path)
        place = next(place for place in (path.absolute(), *path.absolute().parents) if place.exists())
        if not os.access(place, os.W_OK) or (place != path.absolute() and not place.is_dir()):
            raise ValueError(f"{path} cannot be written: give a place where you may write")


def _whole(planned: Plan, document: Mapping[str, Any]) -> dict[str, Any]:
    """A plan for JSON: what the page shows, and every table in SI units."""
    tables = {name: getattr(planned, name) for name in (*TABLES, "own_strategy", "rule_of_thumb")}
    tables |= {} if planned.site is None else {"places": planned.site.table, "site_costs": planned.site_costs}
    if "uncertainty" in vars(planned) and planned.uncertainty is not None:  # drawn already
        tables["draws"] = planned.uncertainty.table
    return {**document, "tables": {name: table.to_dict("records") for name, table in tables.items()}}


def _csv_folders(folder: str, plans: int) -> list[Path]:
    """Where the tables of each of several plans go."""
    return [Path(folder) / (f"scenario_{place}" if plans > 1 else "") for place in range(1, plans + 1)]


def _csv_files(plans: Sequence[Plan], folder: str) -> dict[Path, str | bytes | None]:
    """Each table of each plan; of several plans, each has a folder of its own."""
    contents: dict[Path, str | bytes | None] = {}
    for into, planned in zip(_csv_folders(folder, len(plans)), plans, strict=True):
        for name in TABLES:
            table: pd.DataFrame = getattr(planned, name)
            if len(table):
                contents[into / f"{name}.csv"] = frame_csv(table)
    return contents


def _plain(value: Any) -> Any:
    """A value for JSON: without NumPy and sections, and null for what is not finite."""
    if isinstance(value, BaseModel):
        value = value.model_dump(exclude_none=True)
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
