"""Plans of one chunk of points: what a process does, here or elsewhere."""

import hashlib
import os
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from railcore.catalog import files
from railcore.planner.planning import Shared, plan
from railcore.planner.result import CANDIDATE_NUMBERS, Plan
from railcore.planner.spec_reading import read_spec
from railcore.planner.sweep_grid import Chunk, Points, with_values

_TEXTS = ("candidate", "also", "strategy", "limits_missed", "wishes_missed", "site", "note")
_DRAWN = ("low", "high", "met", "wins")
UNPLANNED = "no worker could plan it: "  # begins why a chunk is lost


class Planned(NamedTuple):
    """rows: of all candidates of the points that could be planned. failed: why the other points could not, by point.

    inputs: hash of the code and the data that the plans rest on.
    """

    rows: pd.DataFrame
    failed: dict[int, str]
    inputs: str


ChunkResults = Generator[tuple[Chunk, Planned | str], None, None]  # chunks that are done: rows, or why there are none


def chunk_terms(points: Points, chunk: Chunk, draws: int) -> tuple[Any, ...]:
    """What `planned_chunk` takes for a chunk of points, to send to another process."""
    return points.base, {point: points.rows[point] for point in chunk.points}, draws, points.si_numbers


def planned_chunk(
    base: Mapping[str, Any], points: Mapping[int, Mapping[str, Any]], draws: int = 0, si_numbers: bool = True
) -> Planned:
    """Plan points one after the other; what they share is computed once.

    Parameters
    ----------
    base
        The spec.
    points
        By number, the values that each puts into the spec.
    draws
        Of uncertain rows, for the columns of `_DRAWN`; 0 for none.
    si_numbers
        As of `read_spec`.

    Returns
    -------
    `Planned`. Rows have the columns point, rank (1 is the best candidate), those of `Plan.candidates`, site; and with
    draws: low and high (5 and 95% of the number that decides), met and wins (shares of the draws in which the candidate
    meets the limits, and is the best).
    """
    shared, rows, failed = Shared(), list[pd.DataFrame](), dict[int, str]()
    for point, values in points.items():
        try:
            spec = read_spec(with_values(base, values), si_numbers)
            if draws:
                uncertainty = spec.uncertainty.model_copy(update={"draws": draws})
                spec = spec.model_copy(update={"uncertainty": uncertainty})
            rows.append(_rows(plan(spec, shared=shared), draws).assign(point=point))
        except Exception as error:  # the other points go on
            failed[point] = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
    return Planned(_typed(rows, draws), failed, inputs_hash())


def _rows(planned: Plan, draws: int) -> pd.DataFrame:
    site = ""
    if planned.site is not None:
        site = planned.site.note or "; ".join(planned.site.chosen["name"])
    table = planned.candidates.assign(rank=range(1, len(planned.answers) + 1), site=site)
    if draws and planned.uncertainty is not None:
        ends = [planned.uncertainty.interval(name, planned.rank) for name in table["candidate"]]
        wins = planned.wins
        table["low"], table["high"] = zip(*ends, strict=True)
        table["met"] = [planned.uncertainty.met(name) for name in table["candidate"]]
        table["wins"] = [wins.get(name, 0.0) for name in table["candidate"]]
    return table


def _typed(tables: Sequence[pd.DataFrame], draws: int) -> pd.DataFrame:
    """Tables one below the other, with the same columns of the same types whatever they hold."""
    numbers = [*CANDIDATE_NUMBERS, *(_DRAWN if draws else ())]
    columns = ["point", "rank", *_TEXTS[:3], *numbers, *_TEXTS[3:]]
    table = pd.concat(tables or [pd.DataFrame()], ignore_index=True).reindex(columns=columns)
    types = {"point": "int64", "rank": "int64", **dict.fromkeys(numbers, "float64"), **dict.fromkeys(_TEXTS, "str")}
    return table.astype(types)


def inputs_hash() -> str:
    """Hash of what a plan rests on: the models' code, the data, and the catalog of RAILCORE_CATALOG."""
    digest = hashlib.sha256()
    paths = sorted(files.PACKAGE.rglob("*.py"))
    paths += [
        path
        for name in ("catalog", "derived", "grid", "measured", "rules")
        for path in sorted((files.DATA / name).rglob("*.csv*"))
    ]
    if folder := os.environ.get("RAILCORE_CATALOG"):
        paths += sorted(Path(folder).glob("*.csv"))
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
