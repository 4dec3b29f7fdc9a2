"""Sweeps: chunks of points planned in this process, in several, or on a Dask cluster, in the same order everywhere."""

import asyncio
import logging
import os
import re
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pandas as pd

from railcore.catalog.units import minute
from railcore.planner.spec import check_draws
from railcore.planner.sweep_chunk import Planned, inputs_hash, planned_chunk
from railcore.planner.sweep_folder import opened
from railcore.planner.sweep_grid import Chunk, Points, sweep_points

Progress = Callable[[str], object]
Done = tuple[Chunk, Planned | str]  # rows, or why no process could plan the chunk
Planning = Generator[Done, None, None]
Planner = Callable[[Points, Sequence[Chunk], int], Planning]
_MOST_WORKERS = 1024
_CONNECT_S = 5.0
_ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://[^/\s]+:\d+")
_NEEDED = "needs Dask, which is not installed: pip install 'railcore[sweeps]'"


class Lasting(str):
    """A text for `progress` that is to be read: a terminal does not write over it."""


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
        Processes: 1 is this one, 0 as many as there are cores. More than one take Dask (`railcore[sweeps]`), and in a
        script a guard: `if __name__ == "__main__":`.
    scheduler
        Address of a Dask scheduler, such as `tcp://10.0.0.1:8786`, whose workers have this railcore; in place of
        `workers`.
    draws
        Of what is assumed, for each point: adds low and high (5 and 95%) of the number that decides, met (the share of
        draws in which the limits are met) and wins (in which the candidate is the best). 0 for none.
    progress
        Called with a text when a chunk is done: points, failures, time left; and of parts that cannot be trusted.

    Returns
    -------
    Columns point, the keys of `over` (quantities in SI units), rank (1 is the best), and those of `Plan.candidates`, in
    the order of points. attrs["failed"]: reasons by point.

    Raises
    ------
    ValueError
        For a spec or keys that cannot be read, a folder of another sweep or in which one is running, a scheduler that
        cannot be reached, and where every point failed: the first one's reason.

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
    chunks, values = points.chunks(draws), points.table()
    values.insert(0, "point", range(len(values)))
    rows, failed = dict[int, pd.DataFrame](), dict[int, str]()
    folder = nullcontext() if out is None else opened(Path(out), points, chunks, draws)
    with _planner(workers, scheduler) as planner, folder as kept:
        left = [chunk for chunk in chunks if not kept or chunk.number not in kept.done]
        failed |= kept.failed if kept else {}
        if kept and kept.told and progress:
            progress(Lasting(kept.told))
        told = _Told(chunks, left, progress)
        with closing(planner(points, left, draws)) as planning:
            for chunk, planned in planning:
                if isinstance(planned, str):
                    lost = dict.fromkeys(chunk.points, planned)
                    failed |= lost
                    if kept:
                        kept.lost(lost)
                else:
                    failed |= planned.failed
                    rows[chunk.number] = values.loc[[*chunk.points]].merge(planned.rows, on="point")
                    if kept:
                        kept.add(chunk.number, rows.pop(chunk.number), planned.failed)
                told.add(chunk, len(failed))
        whole = kept.rows() if kept else pd.concat([rows[number] for number in sorted(rows)] or [values[:0]])
    if len(failed) == len(points.rows):
        raise ValueError(f"no point of the sweep could be planned; point 0: {failed[0]}")
    whole = whole.sort_values("point", kind="stable", ignore_index=True)
    whole.attrs = {"points": len(points.rows), "failed": dict(sorted(failed.items()))}
    return whole


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
def _planner(workers: int, scheduler: str | None) -> Iterator[Planner]:
    """A function that plans chunks and yields each when it is done.

    Raises ValueError for a scheduler that does not answer.
    """
    count = workers or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1))
    if scheduler is None and count == 1:
        yield _here
        return
    try:
        import distributed
    except ImportError:
        raise ValueError(f"{'a scheduler' if scheduler else 'more than one worker'} {_NEEDED}") from None
    if scheduler is None:
        yield lambda *terms: _on_workers(count, *terms)
        return
    if not _ADDRESS.fullmatch(scheduler):
        raise ValueError(f"scheduler {scheduler!r} is no address: give one such as 'tcp://10.0.0.1:8786'")
    _check_answers(scheduler)
    with distributed.Client(scheduler, timeout=_CONNECT_S) as client:
        yield lambda *terms: _on_dask(client, *terms)


def _check_answers(scheduler: str) -> None:
    """Raises ValueError where no scheduler answers at an address. A client would wait forever for another server."""
    from distributed.comm import connect

    async def knock() -> None:
        comm = await asyncio.wait_for(connect(scheduler, timeout=_CONNECT_S), 2 * _CONNECT_S)
        await comm.close()

    with ThreadPoolExecutor(1) as pool:  # Jupyter runs a loop in this thread
        error = pool.submit(asyncio.run, knock()).exception()
    if isinstance(error, OSError | TimeoutError):
        why = str(error).partition("\n")[0] or "it does not answer"
        start = "start one with `dask scheduler`, and give its address"
        raise ValueError(f"scheduler {scheduler!r} cannot be reached ({why}): {start}")
    if error is not None:
        raise error


def _here(points: Points, chunks: Sequence[Chunk], draws: int) -> Planning:
    for chunk in chunks:
        rows = {point: points.rows[point] for point in chunk.points}
        yield chunk, planned_chunk(points.base, rows, draws, points.si_numbers)


def _on_workers(count: int, points: Points, chunks: Sequence[Chunk], draws: int) -> Planning:
    """On `count` processes of this machine."""
    import dask
    import distributed

    if not chunks:
        return
    options: dict[str, Any] = {
        "n_workers": count,
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": "127.0.0.1:0",
    }
    # By default Dask's workers return memory at once, which costs a third of a search's time.
    keep = {f"distributed.nanny.pre-spawn-environ.MALLOC_{name}_THRESHOLD_": 2**30 for name in ("TRIM", "MMAP")}
    with (
        dask.config.set(keep),
        distributed.LocalCluster(silence_logs=logging.CRITICAL, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield from _on_dask(client, points, chunks, draws)


def _on_dask(client: Any, points: Points, chunks: Sequence[Chunk], draws: int) -> Planning:
    """Dask gives a chunk whose worker has died to another one; after three workers it gives up."""
    import distributed

    tasks = {}
    for chunk in chunks:  # each carries the spec: what is scattered is lost with the worker that holds it
        rows = {point: points.rows[point] for point in chunk.points}
        tasks[client.submit(planned_chunk, points.base, rows, draws, points.si_numbers, pure=False)] = chunk
    for future in distributed.as_completed(list(tasks)):
        chunk = tasks.pop(future)
        try:
            planned = future.result()
        except Exception as error:  # a worker that ran out of memory, or lacks railcore: the others go on
            yield chunk, f"no worker could plan it: {type(error).__name__}: {error}".partition("\n")[0]
            continue
        if planned.inputs != inputs_hash():
            raise ValueError("a worker has another state of railcore's models, data or catalog: give it the same")
        yield chunk, planned
        future.release()


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
