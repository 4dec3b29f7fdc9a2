"""Step times that training software prints: logs of Megatron-LM, NeMo, Megatron-Bridge and torchtitan, and llmb-run's
jobs.sqlite3.

Which lines are read: data/log_lines.csv, a regular expression each. Which settings of a job: data/log_settings.csv.
"""

import re
import sqlite3
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from railcore.catalog import files, tables, units
from railcore.catalog.checks import LARGEST
from railcore.catalog.text_files import check_mark, check_no_nul
from railcore.training.logged_jobs import architecture_of, job_cells, mesh_cells

_WARM_UP_STEPS, _WARM_UP_PART = 10, 5  # the first fifth, and no more than ten
_BLOCK = 1 << 20  # letters that are read at once
_LONGEST = 1 << 16  # letters of a line, of which the rest is left out
_LONGEST_STEP = 1e7  # s, of what a log prints: a longer one is no time
_DIGITS = re.compile(r"\d{19}")  # of a number that no log of a job has
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_SQLITE = b"SQLite format 3\0"
_LLMB = "llmb-run"
_NOTHING = ("", "none", "null", "~")


class LogLine(NamedTuple):
    """A line of a log that is read: a row of data/log_lines.csv.

    mark: letters without which the pattern, a regular expression, is not tried. Its groups are names of a `StepTimes`'
        job, or of the step: iteration, epoch, seconds, milliseconds, tokens_per_s (of a GPU).
    """

    tool: str
    mark: str
    pattern: str
    source: str


@cache
def log_lines() -> dict[str, tuple[tuple[str, re.Pattern], ...]]:
    """Tools and patterns by mark."""
    rows = [LogLine(**row) for row in tables.read_csv(files.data("log_lines.csv"))]
    marks = dict.fromkeys(row.mark for row in rows)
    return {mark: tuple((row.tool, re.compile(row.pattern)) for row in rows if row.mark == mark) for mark in marks}


@cache
def log_settings() -> dict[str, str]:
    """What each setting means, by its name in a log."""
    return {row["setting"]: row["means"] for row in tables.read_csv(files.data("log_settings.csv"))}


@dataclass(frozen=True)
class StepTimes:
    """Step times of one job, and what its log says of it.

    tool: that printed them.
    source: name of the file, and of the job where it has several.
    seconds: of each printed step, in order [s]. The first fifth of them, at least one and at most ten, is warm-up. One
        alone is a mean.
    job: cells of a file of runs by column, without those that the log does not say.
    notes: what of the job no column says.
    """

    tool: str
    source: str
    seconds: tuple[float, ...]
    job: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @cached_property
    def kept(self) -> np.ndarray:
        """Times after the warm-up [s]."""
        count = len(self.seconds)
        return np.array(self.seconds[min(_WARM_UP_STEPS, max(count // _WARM_UP_PART, int(count > 1))) :])

    @property
    def median_s(self) -> float:
        """Median after the warm-up [s]; NaN where the log has no time."""
        return float(np.median(self.kept)) if self.seconds else np.nan

    @property
    def spread_s(self) -> tuple[float, float]:
        """5 and 95% of the times after the warm-up [s]; NaN where the log has no time."""
        low, high = np.quantile(self.kept, (0.05, 0.95)) if self.seconds else (np.nan, np.nan)
        return float(low), float(high)

    def summary(self) -> str:
        """What was read, in words."""
        if not self.seconds:
            return f"{self.source} ({self.tool}), no time ({'; '.join(self.notes)})"
        if len(self.seconds) == 1:
            return f"{self.source} ({self.tool}), {self.median_s:.6g} s"
        count, (low, high) = f"{len(self.kept)} of {len(self.seconds)} steps", self.spread_s
        return f"{self.source} ({self.tool}), {self.median_s:.6g} s, median of {count} ({low:.4g} to {high:.4g} s)"

    def cells(self) -> dict[str, str]:
        """A row of a file of runs (`run_file.run_template`), blank where the log says nothing."""
        time = {"measured_iteration_s": f"{self.median_s:.6g}"} if self.seconds else {}
        return {"source": self.source, "software": self.tool, **self.job, **time, "note": "; ".join(self.notes)}


def step_times(path: str | Path) -> tuple[StepTimes, ...]:
    """Step times of a log or of a job history, which is told by what the file holds.

    Parameters
    ----------
    path
        A log of Megatron-LM, NeMo 1 or 2, Megatron-Bridge or torchtitan: colours, prefixes of ranks, lines of several
        ranks and a cut last line do no harm. Or llmb-run's jobs.sqlite3 (NVIDIA/dgxc-benchmarking), of which jobs
        without a valid time, with a profiler and of proxy models are left out. A file is read piece by piece.

    Returns
    -------
    One `StepTimes` of a log, and one of each job of a history. Of a step that is printed several times the last line
    counts; of batches that grow, the steps of the last batch.

    torchtitan prints T, tokens a second of a GPU: t = G s / (N T), with batch G, sequence length s and N GPUs.

    Raises
    ------
    ValueError
        For a file that cannot be read, and for one that is none of these.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from railcore.training.step_logs import step_times
    >>> line = " iteration {:8d}/ 50 | elapsed time per iteration (ms): {} | global batch size: 256 |"
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = Path(folder, "train.log")
    ...     _ = log.write_text("\\n".join(line.format(n, 9000 if n < 3 else 6700 + n) for n in range(1, 51)))
    ...     (times,) = step_times(log)
    >>> times.tool, times.median_s, times.job["global_batch"]
    ('Megatron-LM', 6.7305, '256')
    """
    path = files.user_path("path", path)
    try:
        if not files.regular_file(path):
            raise ValueError(f"{path} is not there: give a log or a jobs.sqlite3")
        with path.open("rb") as stream:
            history = (start := stream.read(len(_SQLITE))) == _SQLITE
        check_mark(start, path.name)
    except OSError as error:
        raise ValueError(files.refusal(error)) from None
    return _of_history(path) if history else (_of_log(path),)


def _of_log(path: Path) -> StepTimes:
    steps, said, settings, tools = _Steps(), dict[str, str](), dict[str, str](), dict[str, None]()
    setting = re.compile(
        rf"(?<![\w-])({'|'.join(map(re.escape, log_settings()))})[\"']?\s*(?:\.{{2,}}|[:=])\s*[\"']?([\w.+-]+)"
    )
    for line, marks in _marked_lines(path):
        for mark in marks:
            if mark in log_settings():
                continue
            for tool, pattern in log_lines()[mark]:
                if found := pattern.search(line):
                    groups = {name: text for name, text in found.groupdict().items() if text is not None}
                    if any(map(_DIGITS.search, groups.values())):
                        steps.odd += 1
                        continue
                    if _Steps.is_of(groups):
                        tools[tool] = None
                        steps.add(tool, groups)
                    said |= {name: text for name, text in groups.items() if name not in _Steps.NAMES}
                    if "global_batch" in groups:
                        steps.batch(groups["global_batch"])
        for name, value in setting.findall(line):
            if value.lower() not in _NOTHING and not _DIGITS.search(value):
                settings.setdefault(log_settings()[name], value)
    if not steps:
        with path.open(encoding="utf-8", errors="replace") as stream:
            check_no_nul(stream.read(_LONGEST), path.name)  # a log that a system cut may have some
        raise ValueError(f"{path.name} is no log that is read: {_forms()}")
    tool = next(name for name in ("Megatron-Bridge", *tools) if name in tools)
    mesh, mesh_notes = mesh_cells(said)
    cells, notes = job_cells(settings | said)
    cells |= mesh
    seconds, more = steps.seconds(cells)
    if steps.odd:
        more = (*more, f"{units.counted(steps.odd, 'lines')} with a number that no job has left out")
    return StepTimes(tool, path.name, seconds, cells, (*notes, *mesh_notes, *more))


def _forms() -> str:
    """What a log must have, by tool."""
    marks = {"Megatron-LM": "elapsed time per iteration (ms)", "Megatron-Bridge": "Step Time : ... MODEL_TFLOP/s/GPU"}
    marks |= {"NeMo": "train_step_timing in s", "torchtitan": "step: ... tps:"}
    each = ", ".join(f"{tool} ({mark!r})" for tool, mark in marks.items())
    return f"give one with lines of {each}, or {_LLMB}'s jobs.sqlite3"


def _marked_lines(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Lines with marks or names of settings, and these. A progress bar's return ends a line too."""
    every = [*log_lines(), *log_settings()]
    with path.open(encoding="utf-8", errors="replace") as stream:
        rest, more = "", True
        while more:
            more = bool(block := stream.read(_BLOCK))
            text, end, rest = (rest + block).rpartition("\n") if more else (rest, "", "")
            text += end
            rest = rest[:_LONGEST]
            if "\x1b" in text:
                text = _COLOUR.sub("", text)
            if marks := [mark for mark in every if mark in text]:
                for line in text.splitlines(keepends=True):  # a number at a cut end is none
                    if inside := [mark for mark in marks if mark in line]:
                        yield line[:_LONGEST], inside


class _Steps:
    """Printed steps, by tool, epoch and iteration."""

    NAMES = ("iteration", "epoch", "seconds", "milliseconds", "tokens_per_s", "tflops")

    def __init__(self) -> None:
        self._times: dict[tuple, float] = {}
        self._rates: dict[tuple, float] = {}
        self._batches: dict[tuple, str] = {}
        self._last: tuple = ()
        self.odd = 0  # lines with a number that is none

    def __bool__(self) -> bool:
        return bool(self._times or self._rates)

    @staticmethod
    def is_of(groups: Mapping[str, str]) -> bool:
        return any(name in groups for name in ("seconds", "milliseconds", "tokens_per_s"))

    def add(self, tool: str, groups: Mapping[str, str]) -> None:
        """Keep a step. Cut numbers are no numbers."""
        count = len(self._times)  # of a line that does not say its iteration
        place = (tool == "Megatron-Bridge", int(groups.get("epoch", 0)), int(groups.get("iteration", count)))
        rate = "tokens_per_s" in groups
        text = groups["tokens_per_s"].replace(",", "") if rate else groups.get("seconds") or groups["milliseconds"]
        try:
            number = float(text) * (1 if rate or "seconds" in groups else 1e-3)
        except ValueError:
            return
        if not 0 <= number <= (LARGEST if rate else _LONGEST_STEP):
            self.odd += 1
            return
        (self._rates if rate else self._times)[place] = number
        self._last = place

    def batch(self, text: str) -> None:
        """Batch of the step that was read last."""
        self._batches[self._last] = text

    def seconds(self, job: Mapping[str, str]) -> tuple[tuple[float, ...], tuple[str, ...]]:
        """Times of the steps of the last batch [s], and notes. job: says what a rate of tokens needs."""
        if self._rates:
            return self._of_rates(job)
        times = {place: time for place, time in self._times.items() if time > 0}
        if named := {place: time for place, time in times.items() if not place[0]}:
            times = named  # Megatron-Bridge prints both lines: this one has more digits
        last = next((self._batches[place] for place in sorted(times, reverse=True) if place in self._batches), None)
        kept = tuple(times[place] for place in sorted(times) if self._batches.get(place, last) == last)
        left = len(times) - len(kept)
        return kept, (f"{left} steps of other batches left out",) if left else ()

    def _of_rates(self, job: Mapping[str, str]) -> tuple[tuple[float, ...], tuple[str, ...]]:
        rates = np.array([self._rates[place] for place in sorted(self._rates) if self._rates[place] > 0])
        needed = ("global_batch", "seq_len", "gpus")
        if missing := [name for name in needed if name not in job]:
            median = float(np.median(rates[len(rates) // _WARM_UP_PART :]))
            return (), (f"{median:.6g} tokens/s of a GPU: the time needs {' and '.join(missing)}",)
        batch, length, gpus = (int(job[name]) for name in needed)
        times = batch * length / (gpus * rates)
        return tuple(times[times <= _LONGEST_STEP].tolist()), ()


def _of_history(path: Path) -> tuple[StepTimes, ...]:
    """Jobs of llmb-run's history (NVIDIA/dgxc-benchmarking, llmb_run/job_history.py, schema 1 and 2).

    Its times are means of iterations 35 to 44. Columns that a version lacks are blank.
    """
    try:
        with closing(sqlite3.connect(f"file:{urllib.parse.quote(str(path))}?mode=ro", uri=True)) as history:
            history.row_factory = sqlite3.Row
            rows = [dict(row) for row in history.execute("SELECT * FROM jobs ORDER BY job_id")]
    except sqlite3.Error as error:
        raise ValueError(f"{path.name} is no job history of {_LLMB} ({error}): {_forms()}") from None
    jobs = tuple(_of_job(path.name, row) for row in rows if _is_valid(row))
    if not jobs:
        raise ValueError(
            f"{path.name} has {len(rows)} jobs, none with a valid time: run `llmb-run jobs`, which reads their logs"
        )
    return jobs


def _is_valid(row: Mapping) -> bool:
    time = row.get("train_step_time_seconds")
    in_time = isinstance(time, int | float) and 0 < time <= _LONGEST_STEP
    return bool(
        in_time
        and row.get("perf_parse_status") == "success"
        and not row.get("profile_enabled")
        and not row.get("proxy")
    )


def _of_job(file: str, row: Mapping) -> StepTimes:
    name = " ".join(str(row[column]) for column in ("model_name", "model_size") if row.get(column))
    job = {"model": name, "architecture": architecture_of(name), "precision": str(row.get("dtype") or "").lower()}
    job["gpus"] = str(row.get("scale") or "")
    notes = tuple(
        f"{word} {row[name]}" for word, name in (("workload", "workload_key"), ("log", "log_dir")) if row.get(name)
    )
    said = {column: text for column, text in job.items() if text}
    return StepTimes(_LLMB, f"{file}, job {row['job_id']}", (float(row["train_step_time_seconds"]),), said, notes)
