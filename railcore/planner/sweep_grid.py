"""The points of a sweep: a spec, and values of its keys that are put into it, point by point."""

import copy
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, time
from pathlib import Path, PurePath
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog import files, readings
from railcore.catalog.plain_values import MOST_DEEP, plain_faults
from railcore.catalog.text_files import csv_rows, read_text
from railcore.planner.answer import CIRCUIT_KEYS
from railcore.planner.spec_reading import FILE_KEYS, IN_LINES, check_key, file_value, read_value, spec_values

MOST_POINTS = 1_000_000
_RANGE = {"from", "to", "steps", "spacing"}
_PLAIN: dict[type, Callable[[Any], Any]] = {str: str.__str__, int: int.__int__, float: float.__float__}
_SPACINGS = ("even", "log")
_SHARED = ("cluster.", "job.", *(f"network.{key}" for key in CIRCUIT_KEYS))  # keys that all strategies depend on
# Rough seconds, which only decide how points are divided.
_SEARCHES_S, _MIXTURE_S, _FOUND_S, _PLAN_S = 1.5, 10.0, 20.0, 0.02
_CHUNK_S = 10.0
_DRAW_S = 0.004


class Chunk(NamedTuple):
    """Points that one process plans. number: of the chunk, from 0. points: their numbers. cost_s: rough time."""

    number: int
    points: tuple[int, ...]
    cost_s: float


@dataclass(frozen=True)
class Points:
    """A spec and the values that each point puts into it.

    base: the spec as a dictionary.
    keys: dotted keys, in order.
    rows: of each point its values by key; a key that a point does not give is left out.
    si_numbers: whether quantities may be plain numbers, as nothing is of a file or of TOML.
    """

    base: Mapping[str, Any]
    keys: tuple[str, ...]
    rows: Sequence[Mapping[str, Any]] = field(repr=False)
    si_numbers: bool = True

    def spec(self, point: int) -> dict[str, Any]:
        """The spec of a point, as a dictionary."""
        return with_values(self.base, self.rows[point])

    def shown(self, point: int) -> dict[str, Any]:
        """Values of a point as they were given: of a file its name."""
        row = dict(self.rows[point])
        return {key: _file_names(value) if key in FILE_KEYS else value for key, value in row.items()}

    def table(self) -> pd.DataFrame:
        """A row for each point: quantities in SI units, lists and tables as JSON."""
        rows = [self.shown(point) for point in range(len(self.rows))]
        return pd.DataFrame({key: _column(key, [row.get(key) for row in rows]) for key in self.keys})

    def chunks(self, draws: int = 0) -> list[Chunk]:
        """Points in chunks of about ten seconds. Points that share strategies stand side by side.

        Such a group is cut only where its plans take longer than its searches, and than a chunk.
        """
        groups: dict[str, list[int]] = {}
        for point, row in enumerate(self.rows):
            shared = {key: value for key, value in row.items() if key.startswith(_SHARED)}
            groups.setdefault(json.dumps(shared, sort_keys=True, default=str), []).append(point)
        chunks: list[Chunk] = []
        points: list[int] = []
        cost_s = 0.0

        def close() -> None:
            nonlocal points, cost_s
            if points:
                chunks.append(Chunk(len(chunks), tuple(points), cost_s))
            points, cost_s = [], 0.0

        plan_s = _PLAN_S + _DRAW_S * draws
        network_keys = [key for key in self.keys if key.startswith("network.")]
        for group in groups.values():
            networks = {str([self.rows[point].get(key) for key in network_keys]) for point in group}
            search_s = self._searches_s(group[0]) * len(networks)
            most = max(int(max(_CHUNK_S, search_s) / plan_s), 1)
            for first in range(0, len(group), most):
                piece = group[first : first + most]
                piece_s = search_s + plan_s * len(piece)
                if cost_s + piece_s > _CHUNK_S:
                    close()
                points, cost_s = points + piece, cost_s + piece_s
        close()
        return chunks

    def _searches_s(self, point: int) -> float:
        values = self.spec(point)
        job = values.get("job", {})
        model = job.get("model") if isinstance(job, Mapping) else None
        seconds = _MIXTURE_S if _is_mixture(model) else _SEARCHES_S
        return seconds * (_FOUND_S if values.get("find") else 1.0)


def with_values(base: Mapping[str, Any], row: Mapping[str, Any]) -> dict[str, Any]:
    """The spec `base` with other values. row: values by dotted key."""
    values = copy.deepcopy(dict(base))
    for key, value in row.items():
        *sections, last = key.split(".")
        place = values
        for name in sections:
            place = place.setdefault(name, {})
        place[last] = value
    return values


def sweep_points(spec: Mapping[str, Any] | str | Path, over: Any = None) -> Points:
    """The points of a sweep.

    Parameters
    ----------
    spec
        As of `plan`; without the keys that every point gives.
    over
        A mapping of dotted keys to lists of values: every combination, the last key changes fastest. In place of a
        list, {"from": 1024, "to": 65536, "steps": 7, "spacing": "log"}, also of quantities. Or a DataFrame with dotted
        keys as columns, or a list of mappings: a point each; NaN and None are not given. Or the name of a CSV file with
        such columns. By default the spec's own `over`: a table of keys, an array of tables, or the file's name, which
        stands beside the spec.

    Returns
    -------
    `Points`.

    Raises
    ------
    ValueError
        For no points, too many, and keys that a spec does not have.
    """
    base, folder = spec_values(spec)
    of_spec = base.pop("over", None)
    if over is None:
        over = folder / of_spec if isinstance(of_spec, str) else of_spec
    elif of_spec is not None:
        raise ValueError("over is given twice, in the spec and beside it: give one of them")
    si_numbers = not isinstance(spec, str | Path) and not isinstance(over, str | Path)
    base = _of_plain_types(base)
    rows = _combinations(over) if isinstance(over, Mapping) else [*_rows(over)]
    keys = tuple(dict.fromkeys(key for row in rows for key in row))
    if not keys:
        raise ValueError(
            "over gives no values: give a key of the spec with a list, such as cluster.gpus = [1024, 2048]"
        )
    for key in keys:
        check_key(key)
        _check_place(base, key, keys)
    if of_files := set(FILE_KEYS) & set(keys):  # with what the files hold: a sweep of other contents is another sweep
        rows = [row | {key: file_value(key, row[key], folder) for key in of_files & row.keys()} for row in rows]
    return Points(base, keys, rows, si_numbers)


def _rows(over: Any) -> Iterator[dict[str, Any]]:
    """Values by dotted key of each point of a table."""
    if isinstance(over, str | Path):
        placed = _csv_rows(Path(over))
    elif isinstance(over, pd.DataFrame | Sequence):
        _check_count(len(over))
        if isinstance(over, pd.DataFrame):
            over = over.astype(object).where(over.notna(), None).to_dict("records")
        placed = ((f"point {number} of over", row) for number, row in enumerate(over))
    else:
        raise ValueError("over is missing: give keys of the spec with lists of values, such as cluster.gpus")
    for where, row in placed:
        yield {key: _plain(where, key, value) for key, value in _flat(_checked_row(row)) if not _is_blank(value)}


def _is_blank(value: Any) -> bool:
    return value is None or value is pd.NA


def _file_names(value: Any) -> Any:
    """Names of the files of a value, or of each of a list; of none the value."""
    if isinstance(value, list):
        return [_file_names(part) for part in value]
    return Path(value["file"]).name if isinstance(value, Mapping) and "file" in value else value


def _combinations(over: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every combination of the values of a grid."""
    lists = {key: _values(key, values) for key, values in _flat(over)}
    _check_count(math.prod(map(len, lists.values())))
    return [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]


def _check_count(count: int) -> None:
    if count > MOST_POINTS:
        raise ValueError(f"over has {count:,} points: give at most {MOST_POINTS:,}")


def _checked_row(row: Any) -> Mapping[str, Any]:
    if not isinstance(row, Mapping):
        raise ValueError(f"a point of over is {row!r}: give a table of keys and values for each")
    return row


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of nested tables."""
    if before.count(".") > MOST_DEEP:
        raise ValueError(f"over is nested more than {MOST_DEEP} deep, or holds itself: give fewer tables in others")
    for name, value in table.items():
        key = f"{before}{name}"
        if isinstance(value, Mapping) and not ({"from", "to"} <= value.keys()):
            yield from _flat(value, f"{key}.")
        else:
            yield key, value


def _values(key: str, values: Any) -> list[Any]:
    """The values of a key of a grid."""
    if isinstance(values, Mapping):
        return _range(key, values)
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray | pd.Series | range):
        raise ValueError(f"over.{key} is {values!r}: give a list of values")
    _check_count(len(values))
    plain = [_plain("over", key, value) for value in values]
    if not plain:
        raise ValueError(f"over.{key} is an empty list: give values")
    if len({json.dumps(value, sort_keys=True, default=str) for value in plain}) < len(plain):
        raise ValueError(f"over.{key} has a value twice: give each once")
    return plain


def _range(key: str, table: Mapping[str, Any]) -> list[Any]:
    """Evenly spaced values from one end to the other; whole numbers where both ends are, each once."""
    what = f"over.{key}"
    spacing, steps = table.get("spacing", _SPACINGS[0]), table.get("steps")
    if stray := sorted(table.keys() - _RANGE):
        raise ValueError(f"{what}.{stray[0]} is unknown: give from, to, steps and spacing")
    if spacing not in _SPACINGS:
        raise ValueError(f"{what}.spacing is {spacing!r}: give {' or '.join(map(repr, _SPACINGS))}")
    if not isinstance(steps, int) or isinstance(steps, bool) or not 2 <= steps <= MOST_POINTS:
        raise ValueError(f"{what}.steps is {steps!r}: give a whole number from 2 to {MOST_POINTS:,}")
    texts = [table["from"], table["to"]]
    told = f"{what} goes from {texts[0]!r} to {texts[1]!r}"
    try:
        (first, unit), (last, last_unit) = map(_end, texts)
    except readings.SeveralMeanings as error:
        raise ValueError(f"{told}: {error}") from None
    except (TypeError, ValueError):
        raise ValueError(f"{told}: give numbers, or both with a unit") from None
    if unit != last_unit:
        raise ValueError(f"{told}: give both in one unit")
    if not math.isfinite(first + last) or (spacing == "log" and min(first, last) <= 0):
        raise ValueError(f"{told}: give finite numbers, above 0 for spacing log")
    spaced = (np.geomspace if spacing == "log" else np.linspace)(first, last, steps)
    numbers = [float(f"{value:.9g}") for value in spaced]  # the last bits of another machine change nothing
    if not unit and not any(isinstance(text, float) for text in texts) and first.is_integer() and last.is_integer():
        return list(dict.fromkeys(round(value) for value in numbers))
    return [f"{readings.one_meaning(value)} {unit}" for value in numbers] if unit else numbers


def _end(value: Any) -> tuple[float, str]:
    """Number and unit of an end of a range. Raises TypeError or ValueError for what is none."""
    if not isinstance(value, str):
        return float(str(value)), ""  # True is no number
    number, unit = readings.number_and_unit(value)
    return readings.typed_number(number), unit


def _plain(where: str, key: str, value: Any) -> Any:
    """A value as TOML has it. Raises ValueError, which begins with where it stands, for what TOML cannot hold."""
    if faults := plain_faults({key: value}, IN_LINES):
        raise ValueError(f"{where}: {faults[0]}")
    value = _of_plain_types(value, key)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)  # of a column of a table that has blanks
    return value


def _of_plain_types(value: Any, key: str = "") -> Any:
    """A value of Python's own types, which every other process can read. Raises ValueError for what has none."""
    if hasattr(value, "tolist"):  # a number of NumPy, an array, or a column of a table
        value = value.tolist()
    if isinstance(value, set | frozenset):
        value = sorted(value, key=str)
    if isinstance(value, Mapping):
        return {
            _of_plain_types(name, key): _of_plain_types(part, f"{key}.{name}" if key else str(name))
            for name, part in value.items()
        }
    if isinstance(value, list | tuple | range):
        return [_of_plain_types(part, key) for part in value]
    if value is None or isinstance(value, bool | date | time):
        return value
    for kind, plain in _PLAIN.items():
        if isinstance(value, kind):
            return plain(value)
    if isinstance(value, PurePath):
        return str(value)
    raise ValueError(f"{key} is of type {type(value).__name__}: give a text, a number, a list, a table or a date")


def _csv_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Places and values of the points of a CSV file: numbers, lists and truth values as TOML has them, else text.

    Blank cells are not given. A column without a name, as pandas writes its index, is passed over.
    """
    if not path.is_file():
        raise ValueError(f"over is {str(path)!r}, which is no file: give a CSV file with keys of the spec as columns")
    try:
        text = read_text(path, path.name)
    except OSError as error:
        raise ValueError(files.refusal(error)) from None
    _check_count(sum(1 for _ in csv_rows(text, path.name)))  # before all are kept
    for line, row in csv_rows(text, path.name):
        where = f"{path.name} line {line}"
        if any(cell.strip() for cell in row.pop(None, ())):  # type: ignore[call-overload]
            raise ValueError(f"{where} has more cells than columns: quote cells with a comma")
        yield where, {key: _cell(cell) for key, cell in row.items() if key.strip() and cell and cell.strip()}


def _cell(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()
    return value if isinstance(value, bool | int | float | list) else text.strip()


def _check_place(base: Mapping[str, Any], key: str, keys: Sequence[str]) -> None:
    """Raises ValueError for a key whose section is a value, in the base or among the other keys."""
    *sections, _ = key.split(".")
    place: Any = base
    for depth, name in enumerate(sections):
        dotted = ".".join(sections[: depth + 1])
        if dotted in keys:
            raise ValueError(f"over gives {dotted} and {key}: give one of them")
        place = place.get(name, {})
        if not isinstance(place, Mapping):
            raise ValueError(f"over gives {key}, and the spec has {dotted} = {place!r}: leave one of them out")


def _is_mixture(model: Any) -> bool:
    if isinstance(model, Mapping):
        return "experts" in model
    listed = catalog.listed_name(model, catalog.names("models"))
    return listed is not None and "experts" in catalog.item("models", listed)


def _column(key: str, values: list[Any]) -> pd.Series:
    """Values of a key as a column: of numbers, or of texts where one of them is no number."""
    read_once: dict[str, Any] = {}
    read = []
    for value in values:
        text = json.dumps(value, sort_keys=True, default=str)
        if text not in read_once:
            read_once[text] = None if value is None else read_value(key, value)
        read.append(read_once[text])
    distinct = [value for value in read_once.values() if value is not None]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in distinct):
        whole = all(isinstance(value, int) for value in distinct) and None not in read
        return pd.Series(read, dtype="int64" if whole else "float64")
    texts = [value if value is None or isinstance(value, str) else json.dumps(value) for value in values]
    return pd.Series(texts, dtype="str")
