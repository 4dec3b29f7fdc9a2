"""Sweeps: chunks of points planned in this process, in several, or on a Dask cluster, in the same order everywhere."""

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import pandas as pd

from railcore.catalog.arguments import checked
from railcore.catalog.libraries import needed_library
from railcore.catalog.units import minute
from railcore.planner.progress import Lasting, Progress
from railcore.planner.spec import check_draws
from railcore.planner.sweep_chunk import ChunkResults, chunk_terms, inputs_hash, planned_chunk
from railcore.planner.sweep_dask import SchedulerLost, planned_on_dask, scheduler_client
from railcore.planner.sweep_folder import SweepFolder, SweepMemory, opened
from railcore.planner.sweep_grid import Chunk, Points, sweep_points
from railcore.planner.sweep_processes import planned_by_processes

Planner = Callable[[Points, Sequence[Chunk], int], ChunkResults]
_MOST_WORKERS = 1024


@checked
def sweep(
    spec: Mapping[str, object] | str | Path,
    over: pd.DataFrame | Mapping[str, object] | Sequence[Mapping[str, object]] | str | Path | None = None,
    out: str | Path | None = None,
    workers: int = 1,
    scheduler: str | None = None,
    draws: int = 0,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Plans of many specs: a row for each candidate of each point.

    Searches, parts, failures and places are computed once for the points that share them: points that differ in prices
    alone are quick. Points that cannot be planned do not stop the others.

    Parameters
    ----------
    spec
        A TOML file, its text, or a dictionary, without the keys that every point gives; `plan` says its form.
    over
        What the points give: {"cluster.gpus": [1024, 2048], "cluster.nic": ["400 Gbps", "800 Gbps"]} for every
        combination, the last key changing fastest; {"from": 1024, "to": 65536, "steps": 7, "spacing": "log"} in place
        of a list; a DataFrame with such keys as columns, a list of dictionaries or a CSV file for a point a row. By
        default the spec's own table `over`. Quantities may be plain numbers in SI units where nothing is of a file or
        of TOML.
    out
        Folder in which the rows are kept as Parquet files, part by part. The same call goes on where it was stopped. A
        part that is damaged or of another sweep is moved to its folder set_aside, and its points are planned again.
    workers
        Processes of this machine: 1 is this one, 0 as many as there are cores.
    scheduler
        Address of a Dask scheduler, such as `tcp://10.0.0.1:8786`, whose workers have this railcore; in place of
        `workers`. It takes Dask (`railcore[sweeps]`).
    draws
        Of what is assumed, for each point: adds low and high (5 and 95%) of the number that decides, met (the share of
        draws in which the limits are met) and wins (in which the candidate is the best). 0 for none.
    progress
        Called with a text when a chunk is done: points, failures, time left; of parts that cannot be trusted, and while
        a scheduler has no workers, which both are warnings otherwise.

    Returns
    -------
    Columns point, the keys of `over` (quantities in SI units), rank (1 is the best), and those of `Plan.candidates`, in
    the order of points. attrs["failed"]: reasons by point.

    Raises
    ------
    ValueError
        For a spec or keys that cannot be read, a folder of another sweep or in which one is running, a scheduler that
        cannot be reached, code or data that change while it runs, and where every point failed: the first one's reason.
    SchedulerLost
        A ValueError, when the scheduler ends in the middle: says how many points are kept in `out`.

    Examples
    --------
    >>> import railcore as rc
    >>> spec = {"cluster": {"platform": "DGX H100"}}
    >>> spec["network"] = {"candidates": ["rail-only"]}
    >>> spec["job"] = {"model": "Llama-3 8B", "tokens": "1T tokens", "batch": 512}
    >>> rows = rc.sweep(spec, {"cluster.gpus": [64, 128]})
    >>> print(rows[["cluster.gpus", "candidate"]].to_string(index=False))
     cluster.gpus candidate
               64 rail-only
              128 rail-only
    """
    points = sweep_points(spec, over)
    check_numbers(workers, scheduler, draws)
    chunks, values, inputs = points.chunks(draws), points.table(), inputs_hash()
    values.insert(0, "point", range(len(values)))
    folder: AbstractContextManager[SweepFolder | SweepMemory]
    folder = nullcontext(SweepMemory()) if out is None else opened(Path(out), points, chunks, draws, inputs)
    say: Progress = progress or partial(warnings.warn, stacklevel=3)  # past `checked`
    with _planner(workers, scheduler, say) as planner, folder as kept:
        if kept.told:
            say(Lasting(kept.told))
        left = [chunk for chunk in chunks if chunk.number not in kept.done]
        told = _Told(chunks, left, progress)
        try:
            with closing(planner(points, left, draws)) as results:
                _keep(results, kept, values, inputs, told)
        except SchedulerLost as error:
            there = sum(len(chunk.points) for chunk in chunks if chunk.number in kept.done)
            where = f"{there:,} of {len(points.rows):,} points are in {out}; the same command goes on"
            raise SchedulerLost(f"{error}: {where if out else 'nothing is kept; give a folder as out'}") from None
        whole = kept.rows()
    if len(kept.failed) == len(points.rows):
        raise ValueError(f"no point of the sweep could be planned; point 0: {kept.failed[0]}")
    whole.attrs = {"points": len(points.rows), "failed": dict(sorted(kept.failed.items()))}
    return whole


def _keep(
    results: ChunkResults, kept: SweepFolder | SweepMemory, values: pd.DataFrame, inputs: str, told: "_Told"
) -> None:
    """Keep what is planned, chunk by chunk.

    Parameters
    ----------
    results, kept, told
        Of the sweep.
    values
        Of each point: the first columns of its rows.
    inputs
        Hash of the code and the data that the sweep began with.

    Raises
    ------
    ValueError
        For plans of other code or data.
    """
    for chunk, planned in results:
        if isinstance(planned, str):
            kept.failed |= dict.fromkeys(chunk.points, planned)
        elif planned.inputs != inputs:
            raise ValueError(
                "railcore's models, data or catalog are not those that the sweep began with, here or on a worker: put "
                "them back, or sweep into a new folder; what is kept stays"
            )
        else:
            rows = values.loc[[*chunk.points]].merge(planned.rows, on="point")
            kept.add(chunk.number, rows, planned.failed)
        told.add(chunk, len(kept.failed))


def check_numbers(workers: int, scheduler: str | None, draws: int) -> None:
    """Raises ValueError for numbers of workers and draws out of range, and for workers beside a scheduler."""
    for name, value in (("workers", workers), ("draws", draws)):
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(f"{name} is {value!r}: give a whole number, 0 or more")
    if not 0 <= workers <= _MOST_WORKERS:
        raise ValueError(f"workers is {workers}: give a whole number from 0, for all cores, to {_MOST_WORKERS}")
    check_draws("draws", draws)
    if scheduler is not None and workers != 1:
        raise ValueError(f"workers is {workers} beside a scheduler, which has its own: give one of them")


@contextmanager
def _planner(workers: int, scheduler: str | None, say: Progress) -> Iterator[Planner]:
    """A function that plans chunks and yields each when it is done.

    Raises ValueError for a scheduler that does not answer.
    """
    if scheduler is not None:
        needed_library("distributed", "a scheduler needs Dask", "sweeps")
        with scheduler_client(scheduler) as client:
            yield lambda *terms: planned_on_dask(client, say, *terms)
        return
    count = workers or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))
    yield _here if count == 1 else lambda *terms: planned_by_processes(count, *terms)


def _here(points: Points, chunks: Sequence[Chunk], draws: int) -> ChunkResults:
    for chunk in chunks:
        yield chunk, planned_chunk(*chunk_terms(points, chunk, draws))


def _time_text(seconds: float) -> str:
    return f"{seconds / minute:.0f} minutes" if seconds > 2 * minute else f"{seconds:.0f} s"


class _Told:
    """Tells how far a sweep is, and when it will end, by the time that its chunks are thought to take."""

    def __init__(self, chunks: Sequence[Chunk], left: Sequence[Chunk], progress: Progress | None) -> None:
        self.say: Progress = progress or (lambda text: None)
        self.points = sum(len(chunk.points) for chunk in chunks)
        self.done = self.points - sum(len(chunk.points) for chunk in left)
        self.left_s, self.done_s, self.began = sum(chunk.cost_s for chunk in left), 0.0, time.monotonic()
        if self.done:
            self.say(f"{self.done:,} of {self.points:,} points are there already")

    def add(self, chunk: Chunk, failed: int) -> None:
        """A chunk is done."""
        self.done, self.done_s = self.done + len(chunk.points), self.done_s + chunk.cost_s
        self.left_s -= chunk.cost_s
        left = self.left_s * (time.monotonic() - self.began) / self.done_s
        told = f"{self.done:,} of {self.points:,} points"
        told += f", {failed:,} failed" if failed else ""
        self.say(told + (f", about {_time_text(left)} left" if self.done < self.points else ""))
