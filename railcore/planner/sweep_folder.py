"""A sweep on disk: its parts as Parquet files, what it is of, and the points that failed.

FOLDER/plans/part-00000.parquet   rows of one chunk of points
FOLDER/failed.csv                 points that could not be planned, and why
FOLDER/sweep.json                 the spec, the keys, and hashes of points and inputs
"""

import hashlib
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from railcore.catalog import files
from railcore.catalog.tables import csv_text, read_csv
from railcore.planner.sweep_chunk import inputs_hash
from railcore.planner.sweep_grid import Chunk, Points

_ABOUT, _FAILED, _PARTS = "sweep.json", "failed.csv", "plans"


class SweepFolder:
    """Where parts of a sweep are kept, each written whole."""

    def __init__(self, folder: Path, points: Points, chunks: list[Chunk]) -> None:
        self.folder = folder
        self._points = points
        logged = read_csv(folder / _FAILED)
        self._failed: list[dict[str, Any]] = [row for row in logged if self._part(int(row["chunk"])).exists()]
        if len(self._failed) < len(logged):  # the others are tried again
            files.write_all({folder / _FAILED: self._log_text() if self._failed else None})
        self.done = {chunk.number for chunk in chunks if self._part(chunk.number).exists()}

    def _part(self, number: int) -> Path:
        return self.folder / _PARTS / f"part-{number:05}.parquet"

    @property
    def failed(self) -> dict[int, str]:
        """Reasons by point, of the chunks that are done."""
        return {int(row["point"]): row["reason"] for row in self._failed}

    def add(self, number: int, rows: pd.DataFrame, failed: dict[int, str]) -> None:
        """Keep the rows of a chunk, and why its other points failed."""
        contents: dict[Path, str | bytes | None] = {}
        if failed:
            contents[self.folder / _FAILED] = self._log(number, failed)
        stream = io.BytesIO()
        rows.to_parquet(stream, index=False)
        files.write_all(contents | {self._part(number): stream.getvalue()})

    def lost(self, number: int, failed: dict[int, str]) -> None:
        """Log a chunk that no process could plan. The next call tries its points again."""
        files.write_whole(self.folder / _FAILED, self._log(number, failed))

    def _log(self, number: int, failed: dict[int, str]) -> str:
        """The log of failed points with those of one more chunk."""
        shown = self._points.shown
        self._failed += [{"chunk": number, "point": point, **shown(point), "reason": failed[point]} for point in failed]
        return self._log_text()

    def _log_text(self) -> str:
        rows = sorted(self._failed, key=lambda row: int(row["point"]))
        return csv_text(["point", *self._points.keys, "reason", "chunk"], rows)

    def rows(self) -> pd.DataFrame:
        """All rows that are there, in the order of points."""
        return _stored_rows(self.folder)


@contextmanager
def opened(folder: Path, points: Points, chunks: list[Chunk], draws: int) -> Iterator[SweepFolder]:
    """A folder for a sweep: a new one, or one with parts of the same sweep, which then goes on.

    Parameters
    ----------
    folder
        Made where it is not there.
    points, chunks, draws
        Of the sweep.

    Returns
    -------
    A context with a `SweepFolder`, which is locked while it is open.

    Raises
    ------
    ValueError
        For a folder of another sweep, with other files, or in which a sweep is running; and without pyarrow.
    """
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise ValueError(
            "a sweep is stored with pyarrow, which is not installed: pip install 'railcore[sweeps]'"
        ) from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"{folder} cannot be made ({error.strerror}): give another folder") from None
    about: dict[str, Any] = {
        "points": len(points.rows),
        "chunks": len(chunks),
        "draws": draws,
        "points_hash": _hash([points.base, points.rows, chunks, points.si_numbers]),
        "inputs_hash": inputs_hash(),
        "keys": points.keys,
        "spec": points.base,
    }
    about_path = folder / _ABOUT
    if not about_path.exists() and (stray := sorted(path.name for path in folder.iterdir() if path.name != ".lock")):
        raise ValueError(f"{folder} holds other files, such as {stray[0]}: give a new folder")
    with files.locked(folder / ".lock", f"another sweep is running in {folder}"):
        if about_path.exists():
            _check_same(folder, json.loads(about_path.read_text(encoding="utf-8")), about)
        else:
            files.write_whole(about_path, json.dumps(about, indent=1, default=str, ensure_ascii=False) + "\n")
        for left in (folder / _PARTS).glob(".*.tmp"):  # of a sweep that was killed while it wrote
            left.unlink()
        yield SweepFolder(folder, points, chunks)


def _check_same(folder: Path, stored: dict[str, Any], about: dict[str, Any]) -> None:
    what = {
        "draws": f"{stored.get('draws')} draws in place of {about['draws']}",
        "points_hash": "other points, or another spec",
        "inputs_hash": "another state of railcore's models, data or catalog",
    }
    for key, text in what.items():
        if stored.get(key) != about[key]:
            raise ValueError(f"{folder} holds a sweep of {text}: give a new folder")


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()


def stored_sweep(folder: str | Path) -> pd.DataFrame:
    """Rows of a stored sweep, also of one that has not ended, in the order of points.

    folder: of `sweep`. attrs["points"]: how many points the sweep has. attrs["failed"]: reasons by point.
    Raises ValueError for a folder without a sweep.
    """
    folder = Path(folder)
    if not (folder / _ABOUT).is_file():
        raise ValueError(f"{folder} holds no sweep: give the folder that a sweep was written to")
    return _stored_rows(folder)


def _stored_rows(folder: Path) -> pd.DataFrame:
    about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
    paths = sorted((folder / _PARTS).glob("part-*.parquet"))
    table = pd.concat(map(pd.read_parquet, paths), ignore_index=True) if paths else pd.DataFrame({"point": []})
    table = table.sort_values("point", kind="stable", ignore_index=True)
    table.attrs |= {
        "points": about["points"],
        "failed": {int(row["point"]): row["reason"] for row in read_csv(folder / _FAILED)},
    }
    return table
