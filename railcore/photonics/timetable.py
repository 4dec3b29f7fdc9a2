"""Timetables of pipeline schedules: when every stage computes, sends and receives in one iteration, from dependencies.

Symbols and schedules as in `training.pipeline_schedule`. Chunk k of stage i is virtual stage k p + i. A micro-batch
passes positions q = 0 ... 2 p v - 1: virtual stage q forward, 2 p v - 1 - q backward. Stages, chunks and micro-batches
count from 0. Where stages wait for a transfer, they send right after the compute and receive right before it; an input
that arrives earlier is buffered.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from railcore.catalog.checks import Floats, Ints
from railcore.training.pipeline_schedule import checked_sizes


class _Positions(NamedTuple):
    """Stage and chunk of each position, and whether its output goes to another stage."""

    stage: Ints
    chunk: Ints
    sends: NDArray[np.bool_]


def _positions(stages: int, chunks: int) -> _Positions:
    forward = np.arange(stages * chunks)
    virtual = np.concatenate([forward, forward[::-1]])
    stage = virtual % stages
    return _Positions(stage, virtual // stages, np.append(stage[1:] != stage[:-1], False))


_EVENTS = ("compute", "send", "receive")
_COMPUTE, _SEND, _RECEIVE = range(3)


@dataclass(frozen=True, eq=False)
class Timetable:
    """When every stage computes, sends and receives in one iteration; made by `schedule`.

    kind, stages, microbatches, chunks, send_s, transfers: arguments of `schedule`.
    order [stage, step]: what a stage computes, as node = position x microbatches + micro-batch.
    start_s, end_s [position, micro-batch]: of each compute [s].
    send_start_s: when its output leaves [s].
    input_ready_s, stage_ready_s: when its input and its stage are ready; start_s is the later one [s].
    """

    kind: str
    stages: int
    microbatches: int
    chunks: int
    send_s: float
    transfers: str
    order: Ints
    start_s: Floats
    end_s: Floats
    send_start_s: Floats
    input_ready_s: Floats
    stage_ready_s: Floats

    @cached_property
    def _positions(self) -> _Positions:
        return _positions(self.stages, self.chunks)

    @property
    def total_s(self) -> float:
        """End of the last backward pass [s]."""
        return float(self.end_s.max())

    @property
    def bubble_s(self) -> Floats:
        """Time of the iteration in which a stage does not compute [stage, s]."""
        compute_s = (self.end_s - self.start_s).sum(axis=1)
        return self.total_s - np.bincount(self._positions.stage, compute_s, self.stages).astype(float)

    @property
    def bubble_share(self) -> float:
        """Share of the iteration in which stages do not compute, their mean."""
        return float(self.bubble_s.mean() / self.total_s)

    @property
    def peak_microbatches(self) -> Floats:
        """Most micro-batches whose activations a stage holds at once, a chunk counting 1/v of one [stage]."""
        forward = self.order < self.end_s.size // 2
        return np.cumsum(np.where(forward, 1, -1), axis=1).max(axis=1) / self.chunks

    def peer_to_peer_bytes(self, message_bytes: float) -> Floats:
        """Bytes of one iteration [from stage, to stage] where each message has message_bytes [bytes]."""
        matrix, stage = np.zeros((self.stages, self.stages)), self._positions.stage
        senders = np.flatnonzero(self._positions.sends)
        np.add.at(matrix, (stage[senders], stage[senders + 1]), self.microbatches * message_bytes)
        return matrix

    @cached_property
    def events(self) -> pd.DataFrame:
        """All events by start: event (compute, send, receive), direction, stage, chunk, microbatch, start_s, end_s.

        A send is listed at its sender. A receive is listed where the receiver cannot compute meanwhile.
        """
        nodes = np.arange(self.end_s.size)
        sends = nodes[self._positions.sends[nodes // self.microbatches]]
        receives = sends[: 0 if self.transfers == "overlapped" else None] + self.microbatches
        kinds = np.repeat((_COMPUTE, _SEND, _RECEIVE), (nodes.size, sends.size, receives.size))
        table = self._rows(kinds, np.concatenate([nodes, sends, receives]))
        return table.iloc[np.lexsort((table["stage"], table["start_s"]))].reset_index(drop=True)

    def critical_path(self) -> pd.DataFrame:
        """The longest chain of events: each starts when the one before ends.

        Columns of `events`, and part: "fill" before the last stage first computes, "drain" after it last computes,
        "last stage" between. Where a start has two causes, the path takes the one in the later stage.
        """
        stage, _, sends = self._positions
        before, m = np.full(self.end_s.size, -1), self.microbatches
        before[self.order[:, 1:]] = self.order[:, :-1]
        node, path = int(np.argmax(self.end_s)), []
        while node >= 0:
            path.append((_COMPUTE, node))
            q, prior, near = node // m, int(before[node]), self.start_s.flat[node] - 1e-9 * self.total_s
            received, sending = bool(q and sends[q - 1]), bool(prior >= 0 and sends[prior // m])
            by_input, by_stage = q > 0 and self.input_ready_s.flat[node] >= near, self.stage_ready_s.flat[node] >= near
            if by_stage and not (by_input and stage[q - 1] >= stage[q]):
                path += self._transfers_between(node, prior, received, sending)
                node = prior
            else:
                path += [(_SEND, source) for source in self._senders(node - m, before) if received]
                node = path[-1][1] if received else node - m
        rows, last = self._rows(*np.array(path[::-1]).T), stage == self.stages - 1
        middle = (rows["start_s"] + rows["end_s"]) / 2
        parts = middle <= self.start_s[last].min(), middle >= self.end_s[last].max()
        return rows.assign(part=np.select(parts, ("fill", "drain"), "last stage"))

    def _transfers_between(self, node: int, prior: int, received: bool, sending: bool) -> list[tuple[int, int]]:
        """Transfers that hold a stage between the computes `prior` and `node`, the last first."""
        if self.transfers == "overlapped":
            return []
        receives = received and not (sending and self.transfers == "duplex")
        return [(_RECEIVE, node)] * receives + [(_SEND, prior)] * sending

    def _senders(self, node: int, before: Ints) -> list[int]:
        """The compute whose output is sent, then the computes whose messages it waits for, the last first."""
        sends, senders = self._positions.sends, [node]
        while self.send_start_s.flat[node] > self.end_s.flat[node] + 1e-9 * self.total_s:
            node = int(before[node])
            while not sends[node // self.microbatches]:
                node = int(before[node])
            senders.append(node)
        return senders

    def _rows(self, kinds: Ints, nodes: Ints) -> pd.DataFrame:
        stage, chunk, _ = self._positions
        position, microbatch = np.divmod(nodes, self.microbatches)
        begun = np.choose(kinds, (self.start_s.flat[nodes], self.send_start_s.flat[nodes], self.start_s.flat[nodes]))
        begun = begun - self.send_s * (kinds == _RECEIVE)
        columns = {
            "event": pd.Categorical.from_codes(kinds, _EVENTS),
            "direction": pd.Categorical.from_codes(position * 2 // len(stage), ("forward", "backward")),
            "stage": stage[position],
            "chunk": chunk[position],
            "microbatch": microbatch,
            "start_s": begun,
            "end_s": np.where(kinds == _COMPUTE, self.end_s.flat[nodes], begun + self.send_s),
        }
        return pd.DataFrame(columns)


def schedule(
    kind: str,
    stages: int,
    microbatches: int,
    forward_s: ArrayLike,
    backward_s: ArrayLike,
    send_s: float = 0.0,
    chunks: int = 1,
    transfers: str = "overlapped",
) -> Timetable:
    """The timetable of one iteration: each compute as early as its input and its stage allow.

    Parameters
    ----------
    kind
        One of SCHEDULE_KINDS.
    stages, microbatches, chunks
        p, m and v. v is 1; for "interleaved" it is 2 or more and m a multiple of p.
    forward_s, backward_s
        Passes of a micro-batch in a whole stage [s], one number or one for each stage.
    send_s
        One transfer between stages [s].
    transfers
        One of TRANSFERS: what a transfer does to the stages.

    Returns
    -------
    When every stage computes, sends and receives.

    Raises
    ------
    ValueError
        As `pipeline_schedule.checked_sizes`, and for chunks that do not fit the kind.
    """
    p, m, v = (int(size) for size in checked_sizes(kind, stages, microbatches, chunks, transfers))
    if (kind == "interleaved") != (v > 1):
        raise ValueError(f"chunks is {chunks!r} with kind {kind!r}: give 2 or more with 'interleaved', else 1")
    passes_s = np.array([np.broadcast_to(time_s, p) for time_s in (forward_s, backward_s)]) / v
    stage, _, sends = _positions(p, v)
    duration_s, order = passes_s[np.repeat((0, 1), p * v), stage], _order(kind, p, m, v)
    return Timetable(kind, p, m, v, send_s, transfers, order, *_times(order, duration_s, sends, m, send_s, transfers))


def _times(order: Ints, duration_s: Floats, sends: NDArray[np.bool_], m: int, send_s: float, transfers: str) -> Floats:
    """start_s, end_s, send_start_s, input_ready_s, stage_ready_s. All stages with an input take a step at once."""
    stages, size = len(order), duration_s.size * m
    order = np.append(order, np.full((stages, 1), size + m), axis=1)  # after its last step a stage waits for ever
    times, ready = np.empty((5, size)), np.full(size + m + 1, np.inf)
    ready[:m] = 0
    waits = transfers != "overlapped"
    lag, hold = send_s * sends * (not waits), send_s * sends * waits
    receive = np.append(0.0, hold[:-1])
    every, step = np.arange(stages), np.zeros(stages, dtype=int)
    done, idle, wire = np.zeros((3, stages))  # computed, also sent, also nothing on the wire
    while (going := np.flatnonzero(ready[order[every, step]] < np.inf)).size:
        node = order[going, step[going]]
        q = node // m
        input_ready = ready[node] + receive[q]
        stage_ready = np.maximum((idle if transfers == "blocking" else done)[going] + receive[q], idle[going])
        start = np.maximum(input_ready, stage_ready)
        end = start + duration_s[q]
        send_start = np.where(sends[q], np.maximum(end, wire[going]), end)
        times[:, node] = start, end, send_start, input_ready, stage_ready
        ready[node + m] = send_start + lag[q]
        done[going], idle[going] = end, end + hold[q]
        wire[going] = np.where(sends[q], send_start + send_s, wire[going])
        step[going] += 1
    return times.reshape(5, duration_s.size, m)


def _order(kind: str, p: int, m: int, v: int) -> Ints:
    """What each stage computes, as position x m + micro-batch [stage, step]."""
    stage, turn = np.arange(p)[:, None], np.arange(m * v)
    group, place = np.divmod(turn, p * v)
    chunk, microbatch = place // p, group * p + place % p
    forward = (chunk * p + stage) * m + microbatch
    backward = (2 * p * v - 1 - (v - 1 - chunk) * p - stage) * m + microbatch
    # Forward passes before a stage turns to one forward, one backward.
    after = p - 1 - stage
    first = np.minimum(m * v, 2 * after + (v - 1) * p if v > 1 else after)
    if kind == "gpipe":
        first = np.full_like(stage, m * v)
    rank = np.concatenate([2 * (turn - first), np.broadcast_to(2 * turn + 1, forward.shape)], axis=1)
    return np.take_along_axis(np.concatenate([forward, backward], axis=1), np.argsort(rank, axis=1), axis=1)
