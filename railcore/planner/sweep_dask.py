"""Chunks of a sweep on a Dask cluster: its scheduler is found, waited for, and told when it is lost."""

import asyncio
import logging
import queue
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from railcore.planner.progress import Lasting
from railcore.planner.sweep_chunk import UNPLANNED, ChunkResults, chunk_terms, planned_chunk
from railcore.planner.sweep_grid import Chunk, Points

_CONNECT_S = 5.0
_LOOK_S = 2.0  # between two looks at a scheduler that says nothing
_SILENT_S = 30.0  # a scheduler that does not answer for as long is lost
_WORKERS_S = 10.0  # between two words on missing workers
_ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://[^/\s]+:\d+")
_NOISY = ("distributed", "tornado", "asyncio")  # they log tracebacks of what is told here in a line


class SchedulerLost(ValueError):
    """The Dask scheduler ended in the middle of a sweep, or no longer answers."""


@contextmanager
def scheduler_client(scheduler: str) -> Iterator[Any]:
    """A Dask client of the scheduler at an address. Raises ValueError where none answers, and for no address."""
    import distributed

    if not _ADDRESS.fullmatch(scheduler):
        raise ValueError(f"scheduler {scheduler!r} is no address: give one such as 'tcp://10.0.0.1:8786'")
    _check_answers(scheduler)
    with _quiet(), distributed.Client(scheduler, timeout=_CONNECT_S) as client:
        yield client


def _check_answers(scheduler: str) -> None:
    """Raises ValueError where no scheduler answers at an address. A client would wait forever for another server."""
    from distributed.comm import connect
    from distributed.security import Security

    terms = Security().get_connection_args("client")
    if scheduler.startswith("tls:") and terms.get("ssl_context") is None:
        raise ValueError(
            f"scheduler {scheduler!r} takes TLS: name the certificates in Dask's settings, distributed.comm.tls"
        )

    async def knock() -> None:
        comm = await asyncio.wait_for(connect(scheduler, timeout=_CONNECT_S, **terms), 2 * _CONNECT_S)
        await comm.close()

    with ThreadPoolExecutor(1) as pool:  # Jupyter runs a loop in this thread
        error = pool.submit(asyncio.run, knock()).exception()
    if isinstance(error, OSError | TimeoutError):
        why = str(error).partition("\n")[0] or "it does not answer"
        start = "start one with `dask scheduler`, and give its address"
        raise ValueError(f"scheduler {scheduler!r} cannot be reached ({why}): {start}")
    if error is not None:
        raise error


@contextmanager
def _quiet() -> Iterator[None]:
    found = [logging.getLogger(name) for name in (*logging.root.manager.loggerDict,) if name.split(".")[0] in _NOISY]
    loud = [logger for logger in found if not logger.disabled]
    for logger in loud:
        logger.disabled = True
    try:
        yield
    finally:
        for logger in loud:
            logger.disabled = False


def planned_on_dask(
    client: Any, say: Callable[[str], object], points: Points, chunks: Sequence[Chunk], draws: int
) -> ChunkResults:
    """Chunks planned on a Dask cluster, each when it is done.

    Dask gives a chunk whose worker has died to another one; after three workers it gives up.

    Parameters
    ----------
    client
        Of Dask.
    say
        Takes a text, from time to time, while the cluster has no workers.
    points, chunks, draws
        Of the sweep.

    Returns
    -------
    Each chunk with its rows, or why no worker could plan it.

    Raises
    ------
    SchedulerLost
        When the scheduler has ended, or does not answer.
    """
    address = client.scheduler.address
    try:
        yield from _planned(client, _workers_told(client, address, say), points, chunks, draws)
    except Exception as error:
        if client.status == "running" and not isinstance(error, TimeoutError):
            raise
        raise SchedulerLost(f"the scheduler {address!r} has ended, or no longer answers") from None


def _planned(
    client: Any, look: Callable[[], object], points: Points, chunks: Sequence[Chunk], draws: int
) -> ChunkResults:
    tasks, done = dict[Any, Chunk](), queue.SimpleQueue[Any]()
    for chunk in chunks:  # each carries the spec: what is scattered is lost with the worker that holds it
        future = client.submit(planned_chunk, *chunk_terms(points, chunk, draws), pure=False)
        tasks[future] = chunk
        future.add_done_callback(done.put)
    while tasks:
        try:
            future = done.get(timeout=_LOOK_S)
        except queue.Empty:
            look()
            continue
        if future.cancelled():  # as all are when the client has lost the scheduler
            raise TimeoutError
        chunk = tasks.pop(future)
        try:
            planned = future.result()
        except Exception as error:  # a worker that ran out of memory, or lacks railcore: the others go on
            if client.status != "running":  # it is the scheduler's end
                raise
            yield chunk, f"{UNPLANNED}{type(error).__name__}: {error}".partition("\n")[0]
            continue
        yield chunk, planned
        future.release()


def _workers_told(client: Any, address: str, say: Callable[[str], object]) -> Callable[[], None]:
    """A look at the scheduler, which raises TimeoutError where it does not answer, and says where it has no workers."""
    last = time.monotonic()

    def look() -> None:
        nonlocal last
        try:
            workers = client.sync(client.scheduler.ncores, callback_timeout=_SILENT_S)
        except Exception:
            raise TimeoutError from None
        now = time.monotonic()
        if workers:
            last = now
        elif now - last >= _WORKERS_S:
            last = now
            say(Lasting(f"the scheduler {address!r} has no workers: start some with `dask worker {address}`"))

    return look
