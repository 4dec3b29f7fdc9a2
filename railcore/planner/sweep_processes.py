"""Chunks of a sweep in several processes of this machine.

Each process has pipes of its own to the one that sweeps: nothing listens on a port, so that no other user of the
machine can reach it. A process ends when its pipe does: however the sweep ends, none is left.
"""

import json
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from typing import IO, Any, cast

from railcore.planner.sweep_chunk import UNPLANNED, ChunkResults, Planned, chunk_terms, planned_chunk
from railcore.planner.sweep_grid import Chunk, Points

_MOST_DEATHS = 3  # of processes that plan the same chunk
_START = "import json, sys; sys.path[:] = json.loads(sys.argv[1])"
_START += f"; from {__name__} import serve_chunks; serve_chunks()"
# The processes are as many as the cores: each has one thread.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def planned_by_processes(count: int, points: Points, chunks: Sequence[Chunk], draws: int) -> ChunkResults:
    """Chunks planned by processes, each when it is done. Another one takes the chunk of a process that is killed.

    Parameters
    ----------
    count
        Of processes.
    points, chunks, draws
        Of the sweep.

    Returns
    -------
    Each chunk with its rows, or why three processes could not plan it.

    Raises
    ------
    ValueError
        For a process that cannot start.
    """
    waiting, deaths = deque(chunks), Counter[int]()
    idle, busy, started = list[_Process](), dict[_Process, Chunk](), list[_Process]()

    def start() -> _Process:
        started.append(_Process(_ONE_THREAD | os.environ))
        return started[-1]

    try:
        idle += [start() for _ in range(min(count, len(chunks)))]
        while waiting or busy:
            while waiting and len(busy) < count:
                process = idle.pop() if idle else start()
                busy[process] = chunk = waiting.popleft()
                process.give(chunk_terms(points, chunk, draws))
            for process in cast(list[_Process], wait(cast(Any, [*busy]))):
                chunk, planned = busy.pop(process), process.reply()
                if planned is not None:
                    idle.append(process)
                    yield chunk, planned
                    continue
                ended = process.end()
                deaths[chunk.number] += 1
                if deaths[chunk.number] < _MOST_DEATHS:
                    waiting.appendleft(chunk)
                else:
                    yield chunk, f"{UNPLANNED}{_MOST_DEATHS} processes died at it, the last by {ended}"
    finally:
        for process in started:
            process.end()


class _Process:
    """Another process, which plans one chunk after the other."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        start = [sys.executable, "-P", "-c", _START, json.dumps([*map(str, sys.path)])]
        # A group of its own: Ctrl-C stops the sweep, which ends its processes.
        self._running = subprocess.Popen(
            start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, process_group=0
        )
        self._tasks, self._replies = cast(IO[bytes], self._running.stdin), cast(IO[bytes], self._running.stdout)
        self._works = False

    def fileno(self) -> int:
        """What `wait` looks at."""
        return self._replies.fileno()

    def give(self, task: tuple[Any, ...]) -> None:
        """Give a task to a process that is idle. One that has died gives no reply."""
        with suppress(BrokenPipeError):
            pickle.dump(task, self._tasks)
            self._tasks.flush()

    def reply(self) -> Planned | str | None:
        """What it planned, or why it could not; None for a process that has died.

        Raises ValueError for one that could not start.
        """
        try:
            planned = pickle.load(self._replies)
        except (EOFError, pickle.UnpicklingError):
            if (status := self._running.wait()) > 0 and not self._works:
                raise ValueError(
                    f"a process of the sweep ended with status {status}, and said why above: mend it, or give workers=1"
                ) from None
            return None
        self._works = True
        return planned

    def end(self) -> str:
        """Kill it. Gives what ended it."""
        self._running.kill()
        status = self._running.wait()
        for pipe in (self._tasks, self._replies):
            with suppress(BrokenPipeError):
                pipe.close()
        return f"signal {-status}" if status < 0 else f"exit status {status}"


def serve_chunks() -> None:
    """What such a process does: reads chunks, and writes their plans, until what it reads from ends."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a model prints is no reply
    tasks = queue.SimpleQueue[tuple[Any, ...]]()

    threading.Thread(target=_take, args=(sys.stdin.buffer, tasks), daemon=True).start()
    while True:
        planned: Planned | str
        try:
            planned = planned_chunk(*tasks.get())
        except Exception as error:  # such as no memory: the other chunks go on
            planned = f"{UNPLANNED}{type(error).__name__}: {error}".partition("\n")[0]
        pickle.dump(planned, replies)
        replies.flush()


def _take(stream: IO[bytes], tasks: "queue.SimpleQueue[tuple[Any, ...]]") -> None:
    """Take tasks from a stream. The process ends with it, or where it cannot be read."""
    try:
        while True:
            tasks.put(pickle.load(stream))
    finally:
        os._exit(0)  # the sweep has ended: so does what is being planned
