"""A sweep on disk: its parts as Parquet files, what it is of, and the points that failed.

FOLDER/plans/part-00000.parquet   rows of one chunk of points, and why its other points failed
FOLDER/failed.csv                 points that could not be planned, and why: written when a sweep ends, never read
FOLDER/sweep.json                 the spec, the keys, and hashes of points, inputs and itself
FOLDER/set_aside                  what stood among the parts, and is no whole part of this sweep
"""

import hashlib
import itertools
import json
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from railcore.catalog import checks, files
from railcore.catalog.libraries import needed_library
from railcore.catalog.tables import csv_text
from railcore.catalog.text_files import read_text
from railcore.catalog.units import counted
from railcore.planner.sweep_grid import Chunk, Points
from railcore.planner.sweep_part import StoredPart, part_content, part_name, read_part

_ABOUT, _FAILED, _PARTS, _ASIDE = "sweep.json", "failed.csv", "plans", "set_aside"
_MOST_TOLD = 3


class SweepFolder:
    """Where parts of a sweep are kept, each written whole.

    done: numbers of the chunks whose parts are there. failed: reasons by point, of which those that no part has are
    reported, and tried again by the next call. told: what was set aside, else empty.
    """

    def __init__(self, folder: Path, points: Points, sweep: str) -> None:
        self.folder = folder
        self._points, self._sweep = points, sweep
        self.done: set[int] = set()
        self.failed: dict[int, str] = {}
        strays = []
        for path, part in _parts(folder, sweep):
            if isinstance(part, StoredPart):
                self.done.add(part.number)
                self.failed |= part.failed
            else:
                _set_aside(path, folder / _ASIDE)
                strays.append(part)
        self.told = _strays_text(folder, strays)
        if strays:
            self.told += f"; moved to {folder / _ASIDE}, and what is missing is planned again"
        self._reported = -1
        self.report()

    def add(self, number: int, rows: pd.DataFrame, failed: dict[int, str]) -> None:
        """Keep the rows of a chunk, and why its other points failed."""
        path = self.folder / _PARTS / part_name(number)
        files.write_whole(path, part_content(self._sweep, number, rows, failed))
        self.failed |= failed
        self.done.add(number)

    def report(self) -> None:
        """Write failed.csv, where there is more to report; where no point failed, remove it."""
        path, shown = self.folder / _FAILED, self._points.shown
        if len(self.failed) == self._reported or not (files.regular_file(path) or self.failed):
            return
        rows = ({"point": point, **shown(point), "reason": reason} for point, reason in sorted(self.failed.items()))
        text = csv_text(["point", *self._points.keys, "reason"], rows)
        files.write_all({path: text if self.failed else None})
        self._reported = len(self.failed)

    def rows(self) -> pd.DataFrame:
        """All rows, in the order of points. Raises ValueError where a part is no longer what was written."""
        tables, lacking = [], self.done.copy()
        for _, part in _parts(self.folder, self._sweep):
            if isinstance(part, StoredPart) and part.number in lacking:
                lacking.remove(part.number)
                tables.append(part.rows())
        if lacking:
            raise ValueError(
                f"{self.folder / _PARTS / part_name(min(lacking))} was changed while the sweep ran: "
                "leave the folder alone and sweep again, which plans what is missing"
            )
        return _table(tables)


class SweepMemory:
    """What a `SweepFolder` is, for a sweep that is not stored."""

    told = ""

    def __init__(self) -> None:
        self.failed: dict[int, str] = {}
        self.done: set[int] = set()
        self._tables: list[pd.DataFrame] = []

    def add(self, number: int, rows: pd.DataFrame, failed: dict[int, str]) -> None:
        """Keep the rows of a chunk, and why its other points failed."""
        self.done.add(number)
        self._tables.append(rows)
        self.failed |= failed

    def rows(self) -> pd.DataFrame:
        """All rows, in the order of points."""
        return _table(self._tables)


@contextmanager
def opened(folder: Path, points: Points, chunks: list[Chunk], draws: int, inputs: str) -> Iterator[SweepFolder]:
    """A folder for a sweep: a new one, or one with parts of the same sweep, which then goes on.

    Parameters
    ----------
    folder
        Made where it is not there.
    points, chunks, draws
        Of the sweep.
    inputs
        Hash of the code and the data, as of `Planned`.

    Returns
    -------
    A context with a `SweepFolder`, which is locked while it is open.

    Raises
    ------
    ValueError
        For a folder of another sweep, with other files, or in which a sweep is running; and without pyarrow.
    """
    _check_pyarrow()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{folder} cannot be made ({error.strerror}): give another folder") from None
    about: dict[str, Any] = {
        "points": len(points.rows),
        "chunks": len(chunks),
        "draws": draws,
        "points_hash": _hash([points.base, points.rows, chunks, points.si_numbers]),
        "inputs_hash": inputs,
        "keys": points.keys,
        "spec": points.base,
    }
    about = json.loads(json.dumps(about, default=str))  # as it is when it is read again
    about = {"hash": _hash(about), **about}
    about_path, ours = folder / _ABOUT, {folder / ".lock", *_temporaries(folder)}
    if not about_path.exists() and (stray := sorted(path.name for path in folder.iterdir() if path not in ours)):
        raise ValueError(f"{folder} holds other files, such as {stray[0]}: give a new folder")
    with files.locked(folder / ".lock", f"another sweep is running in {folder}"):
        if about_path.exists():
            _check_same(folder, _about(folder), about)
        else:
            files.write_whole(about_path, json.dumps(about, indent=1, ensure_ascii=False) + "\n")
        for left in _temporaries(folder):
            left.unlink()
        try:
            (folder / _PARTS).mkdir(exist_ok=True)
        except OSError as error:
            raise ValueError(files.refusal(error)) from None
        kept = SweepFolder(folder, points, about["hash"])
        try:
            yield kept
        finally:
            kept.report()


def _temporaries(folder: Path) -> list[Path]:
    """What a sweep left that was killed while it wrote."""
    return [left for place in (folder, folder / _PARTS) for left in place.glob(files.TEMPORARY)]


def _check_same(folder: Path, stored: dict[str, Any], about: dict[str, Any]) -> None:
    if stored["hash"] == about["hash"]:
        return
    what = {
        "draws": f"{stored.get('draws')} draws in place of {about['draws']}",
        "points_hash": "other points, or another spec",
        "inputs_hash": "another state of railcore's models, data or catalog",
        "keys": "the same points, with their keys in another order",
        "hash": "another railcore",
    }
    told = next(text for key, text in what.items() if stored.get(key) != about[key])
    raise ValueError(f"{folder} holds a sweep of {told}: give a new folder")


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def stored_sweep(folder: str | Path) -> pd.DataFrame:
    """Rows of a stored sweep, also of one that has not ended, in the order of points.

    Each part is checked. One that is damaged, or of another sweep, is left out with a warning.

    folder: of `sweep`. attrs["points"]: how many points the sweep has. attrs["failed"]: reasons by point.
    attrs["missing"]: points that no part has. attrs["left_out"]: files that were left out, and why.
    Raises ValueError for a folder without a sweep, a damaged sweep.json, and without pyarrow.
    """
    _check_pyarrow()
    if not isinstance(folder, str | Path):
        raise ValueError(f"folder is {checks.short(folder)}: give the folder that a sweep was written to")
    folder = Path(folder)
    about = _about(folder)
    tables, failed, strays = list[pd.DataFrame](), dict[int, str](), list[str]()
    for _, part in _parts(folder, about["hash"]):
        if isinstance(part, StoredPart):
            tables.append(part.rows())
            failed |= part.failed
        else:
            strays.append(part)
    if strays:
        told = f"{_strays_text(folder, strays)}; left out: the same sweep into this folder plans what is missing"
        warnings.warn(told, stacklevel=2)
    table = _table(tables)
    missing = set(range(about["points"])) - set(table["point"]) - failed.keys()
    table.attrs |= {
        "points": about["points"],
        "failed": dict(sorted(failed.items())),
        "missing": sorted(missing),
        "left_out": strays,
    }
    return table


def _check_pyarrow() -> None:
    needed_library("pyarrow", "a sweep is stored with pyarrow", "sweeps")


def _about(folder: Path) -> dict[str, Any]:
    """What sweep.json says. Raises ValueError where there is none, and where it is not as it was written."""
    path = folder / _ABOUT
    if not files.regular_file(path):
        raise ValueError(f"{folder} holds no sweep: give the folder that a sweep was written to")
    try:
        about = json.loads(read_text(path))
    except OSError as error:
        raise ValueError(files.refusal(error)) from None
    except (ValueError, RecursionError):
        about = None
    if isinstance(about, dict) and "points_hash" in about and "hash" not in about:
        raise ValueError(f"{folder} is of an earlier railcore, whose parts cannot be checked: sweep into a new folder")
    if not isinstance(about, dict) or about.pop("hash", None) != _hash(about):
        raise ValueError(f"{path} is not as railcore wrote it: put back a copy of it, or sweep into a new folder")
    return {"hash": _hash(about), **about}


def _parts(folder: Path, sweep: str) -> Iterator[tuple[Path, StoredPart | str]]:
    """Files among the parts of a sweep: each part, or what it is instead. Hidden files are passed over."""
    try:
        paths = sorted((folder / _PARTS).iterdir())
    except FileNotFoundError:  # it was stopped before its first part
        paths = []
    except OSError as error:
        raise ValueError(files.refusal(error)) from None
    for path in paths:
        if not path.name.startswith((".", "_")):  # as pandas.read_parquet skips them too
            try:
                yield path, read_part(path, sweep)
            except ValueError as error:
                yield path, str(error)


def _strays_text(folder: Path, strays: Sequence[str]) -> str:
    """What is told of files that are no parts of the sweep."""
    shown = ", ".join(strays[:_MOST_TOLD]) + (", ..." if len(strays) > _MOST_TOLD else "")
    return f"{folder / _PARTS} has {counted(len(strays), 'files')} that cannot be trusted: {shown}" if strays else ""


def _set_aside(path: Path, place: Path) -> None:
    """Move a file or folder to where it is in nobody's way, beside what was set aside before."""
    place.mkdir(exist_ok=True)
    targets = (place / f"{path.name}{end}" for end in itertools.chain([""], map(".{}".format, itertools.count(2))))
    shutil.move(path, next(target for target in targets if not os.path.lexists(target)))


def _table(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    table = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame({"point": []}, dtype="int64")
    return table.sort_values("point", kind="stable", ignore_index=True)
