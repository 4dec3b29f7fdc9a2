"""Files with measured times of one's own, whatever wrote them: railcore's script, nccl-tests or SimuMax."""

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd

from railcore.catalog import files
from railcore.catalog.letters import check_visible
from railcore.catalog.text_files import csv_rows, read_text
from railcore.training import gpu_script
from railcore.training.nccl_logs import looks_like_log, read_nccl_log
from railcore.training.own_gpu import Measurement
from railcore.training.simumax_files import looks_like_simumax, simumax_times

_TEXTS = ("gpu", "setup", "date", "kind", "name", "note")


def read_measurement(path: Path) -> Measurement:
    """A file: the CSV of railcore's script, a log of nccl-tests as text or JSON, or a system file of SimuMax.

    Raises ValueError with file, line, column, value and remedy for what is none of these, and for bad values.
    """
    if not files.regular_file(path):
        raise ValueError(f"{path} does not exist: give a CSV of parts, logs of nccl-tests, or a system file of SimuMax")
    try:
        text = read_text(path, path.name)
    except OSError as error:
        raise ValueError(files.refusal(error)) from None
    if text.startswith(",".join(gpu_script.COLUMNS[:4])):
        return _of_parts(path, text)
    if path.suffix.lower() == ".csv":
        first = ", ".join(gpu_script.COLUMNS[:4])
        raise ValueError(f"{path.name} is no CSV of the script, whose columns begin with {first}: give what it wrote")
    document = _json(text)
    if looks_like_simumax(document):
        source = f"{path.name}, a system file of SimuMax (sys_name {document.get('sys_name', 'unknown')})"
        return Measurement(path.name, "", source, "", parts=simumax_times(document, path.name))
    if document is not None and not looks_like_log(document):
        raise ValueError(f"{path.name} is neither a log of nccl-tests nor a system file of SimuMax: give one of them")
    log = read_nccl_log(text, path.name)
    source = f"{path.name}: {log.collective} of nccl-tests on {log.gpus} {log.card}, {log.hosts} hosts"
    table = log.times.assign(collective=log.collective, gpus=log.gpus, hosts=log.hosts)
    return Measurement(path.name, log.card, source, log.date, collectives=table)


def _json(text: str) -> Any:
    """A document of JSON; None for what is none."""
    try:
        return json.loads(text) if text.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None


def _of_parts(path: Path, text: str) -> Measurement:
    """A CSV of the script."""
    rows = []
    for line, row in csv_rows(text, path.name):
        rows.append(row)
        if None in row or None in row.values():
            raise ValueError(f"{path.name} line {line} has other columns than the first line: is the file cut?")
        for column, cell in row.items():
            check_visible(f"{path.name} line {line}, {column}:", cell)
            if column not in _TEXTS and cell and not _is_size(cell):
                raise ValueError(f"{path.name} line {line}, {column}: {cell!r} is no number above 0: measure it again")
    if not rows:
        raise ValueError(f"{path.name} has no rows: measure again")
    cards = sorted({row["gpu"] for row in rows})
    if len(cards) > 1:
        raise ValueError(f"{path.name} is of {' and '.join(cards)}: give a file of each")
    numbers = {
        column: pd.to_numeric([row.get(column, "") for row in rows]) for column in rows[0] if column not in _TEXTS
    }
    table = pd.DataFrame({**{column: [row.get(column, "") for row in rows] for column in _TEXTS}, **numbers})
    setup = ", ".join(sorted({row["setup"] for row in rows} - {""}))
    source = f"railcore measure on one {cards[0]}{f', {setup}' if setup else ''}"
    return Measurement(path.name, cards[0], source, max(row["date"] for row in rows), parts=table)


def _is_size(text: str) -> bool:
    try:
        return 0 < float(text) < math.inf
    except ValueError:
        return False
