"""Timetables: every event of a pipeline schedule, from dependencies; symbols as in the folder's docstring."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from railcore.network.topology.clos import Ints
from railcore.training.pipeline_schedule.closed_forms import Floats, checked, compute_time, send_time, warm_up

if TYPE_CHECKING:
    import pandas as pd

EVENTS = ("compute", "send", "receive")
_COMPUTE, _SEND, _RECEIVE = range(3)


@dataclass(frozen=True, eq=False)
class Timetable:
    """When every stage computes, sends and receives in one iteration; made by `schedule`.

    order [stage, step]: what a stage computes, as position x microbatches + micro-batch.
    start_s, end_s [position, micro-batch]: of each compute [s]; depart_s: when its output starts its way [s].
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
    depart_s: Floats

    @property
    def total_s(self) -> float:
        """End of the last backward pass [s]."""
        return float(self.end_s.max())

    @property
    def bubble_s(self) -> Floats:
        """Time of the iteration in which a stage does not compute [stage, s]."""
        stage, _, _ = _positions(self.stages, self.chunks)
        compute_s = (self.end_s - self.start_s).sum(axis=1)
        return self.total_s - np.bincount(stage, compute_s, self.stages).astype(float)

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
        stage, _, sent = _positions(self.stages, self.chunks)
        matrix = np.zeros((self.stages, self.stages))
        np.add.at(matrix, (stage[:-1][sent[:-1]], stage[1:][sent[:-1]]), self.microbatches * message_bytes)
        return matrix

    @cached_property
    def events(self) -> "pd.DataFrame":
        """All events by start: event (of EVENTS), direction, stage, chunk, microbatch, start_s, end_s.

        A send stands at its sender. Receives are listed where they keep the receiver from computing.
        """
        nodes = np.arange(self.end_s.size)
        sends = nodes[_positions(self.stages, self.chunks)[2][nodes // self.microbatches]]
        receives = sends[: 0 if self.transfers == "overlapped" else None] + self.microbatches
        kinds = np.repeat((_COMPUTE, _SEND, _RECEIVE), (nodes.size, sends.size, receives.size))
        table = self._rows(kinds, np.concatenate([nodes, sends, receives]))
        return table.iloc[np.lexsort((table["stage"], table["start_s"]))].reset_index(drop=True)

    def critical_path(self) -> "pd.DataFrame":
        """Events that make the iteration as long as it is, each starting when the one before ends.

        Columns of `events`, and part: fill, before the last stage first computes; drain, after it has last computed;
        last stage, between. Where a start has two causes, the path takes the one in the later stage.
        """
        before = np.full(self.end_s.size, -1)
        before[self.order[:, 1:]] = self.order[:, :-1]
        node, path = int(np.argmax(self.end_s)), []
        while node >= 0:
            path.append((_COMPUTE, node))
            causes, node = self._cause(node, before)
            path += causes
        rows, last = self._rows(*np.array(path[::-1]).T), _positions(self.stages, self.chunks)[0] == self.stages - 1
        middle = (rows["start_s"] + rows["end_s"]) / 2
        parts = middle <= self.start_s[last].min(), middle >= self.end_s[last].max()
        return rows.assign(part=np.select(parts, ("fill", "drain"), "last stage"))

    def _cause(self, node: int, before: Ints) -> tuple[list[tuple[int, int]], int]:
        """Transfers that end when compute `node` starts, the last first, and the compute before them (-1: none)."""
        stage, _, sent = _positions(self.stages, self.chunks)
        start, end, depart = self.start_s.flat, self.end_s.flat, self.depart_s.flat
        q, near = node // self.microbatches, 1e-9 * self.total_s
        prior, source = int(before[node]), node - self.microbatches
        received, sending = bool(q and sent[q - 1]), bool(prior >= 0 and sent[prior // self.microbatches])
        held = self._held(received, sending)
        by_input = q > 0 and abs(depart[source] + self.send_s * received - start[node]) <= near
        by_stage = prior >= 0 and abs(end[prior] + self.send_s * len(held) - start[node]) <= near
        if by_stage and not (by_input and stage[q - 1] >= stage[q]):
            return [(event, node if event == _RECEIVE else prior) for event in held], prior
        if not by_input:
            return [], -1
        path = [(_SEND, source)] if received else []
        while depart[source] > end[source] + near:  # the message had to wait for the one before
            source = int(before[source])
            while not sent[source // self.microbatches]:
                source = int(before[source])
            path.append((_SEND, source))
        return path, source

    def _held(self, received: bool, sending: bool) -> list[int]:
        """Transfers that hold a stage between two computes, the last first."""
        if self.transfers == "overlapped":
            return []
        receive = received and not (sending and self.transfers == "duplex")
        return [_RECEIVE] * receive + [_SEND] * sending

    def _rows(self, kinds: Ints, nodes: Ints) -> "pd.DataFrame":
        import pandas as pd

        stage, chunk, _ = _positions(self.stages, self.chunks)
        position, microbatch = np.divmod(nodes, self.microbatches)
        begun = np.choose(kinds, (self.start_s.flat[nodes], self.depart_s.flat[nodes], self.start_s.flat[nodes]))
        begun = begun - self.send_s * (kinds == _RECEIVE)
        columns = {
            "event": pd.Categorical.from_codes(kinds, EVENTS),
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

    kind: of KINDS; stages p, microbatches m, chunks v (1 but for interleaved, then 2 or more and m a multiple of p).
    forward_s, backward_s [s]: of a micro-batch in a whole stage, one number or one for each stage.
    send_s [s]: of one transfer; transfers: of TRANSFERS, what it does to the stages.
    Raises ValueError naming the argument that is out of range.
    """
    p, m, v = (int(n) for n in checked(kind, stages, microbatches, chunks, transfers))
    if (kind == "interleaved") != (v > 1):
        raise ValueError(f"chunks is {chunks!r} with kind {kind!r}: give 2 or more with 'interleaved', else 1")
    stage, _, sent = _positions(p, v)
    passes = np.array([_per_stage("forward_s", forward_s, p), _per_stage("backward_s", backward_s, p)]) / v
    duration = passes[np.repeat((0, 1), p * v), stage]
    order = _order(kind, p, m, v)
    c = float(send_time(send_s))
    return Timetable(kind, p, m, v, c, transfers, order, *_times(order, duration, sent, m, c, transfers))


def _times(order: Ints, duration: Floats, sent: NDArray[np.bool_], m: int, c: float, transfers: str) -> Floats:
    """Start, end and departure [3, position, micro-batch]; all stages that have their next input step at once."""
    stages, size = len(order), duration.size * m
    order = np.append(order, np.full((stages, 1), size + m), axis=1)  # after its last step a stage waits for ever
    times, ready = np.empty((3, size)), np.full(size + m + 1, np.inf)
    ready[:m] = 0
    waits = transfers != "overlapped"
    lag, hold = c * sent * (not waits), c * sent * waits
    receive = np.append(0.0, hold[:-1])
    every, step = np.arange(stages), np.zeros(stages, dtype=int)
    done, free, wire = np.zeros((3, stages))
    while (going := np.flatnonzero(ready[order[every, step]] < np.inf)).size:
        node = order[going, step[going]]
        q = node // m
        begin = np.maximum(ready[node], (free if transfers == "blocking" else done)[going])
        start = np.maximum(begin + receive[q], free[going])
        end = start + duration[q]
        depart = np.where(sent[q], np.maximum(end, wire[going]), end)
        times[:, node] = start, end, depart
        ready[node + m] = depart + lag[q]
        done[going], free[going] = end, end + hold[q]
        wire[going] = np.where(sent[q], depart + c, wire[going])
        step[going] += 1
    return times.reshape(3, duration.size, m)


def _positions(stages: int, chunks: int) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Stage and chunk of each position, and whether its output goes to another stage."""
    forward = np.arange(stages * chunks)
    virtual = np.concatenate([forward, forward[::-1]])
    stage = virtual % stages
    return stage, virtual // stages, np.append(stage[1:] != stage[:-1], False)


def _order(kind: str, p: int, m: int, v: int) -> Ints:
    """What each stage computes, as position x m + micro-batch [stage, step]."""
    stage, turn = np.arange(p)[:, None], np.arange(m * v)
    chunk, microbatch = 0 * turn, turn
    if v > 1:
        group, place = np.divmod(turn, p * v)
        chunk, microbatch = place // p, group * p + place % p
    forward = (chunk * p + stage) * m + microbatch
    backward = (2 * p * v - 1 - (v - 1 - chunk) * p - stage) * m + microbatch
    first = warm_up(kind, p, m, v, stage)
    rank = np.concatenate([2 * (turn - first), np.broadcast_to(2 * turn + 1, forward.shape)], axis=1)
    return np.take_along_axis(np.concatenate([forward, backward], axis=1), np.argsort(rank, axis=1), axis=1)


def _per_stage(name: str, value: ArrayLike, stages: int) -> Floats:
    times = compute_time(name, value)
    if times.shape not in ((), (stages,)):
        raise ValueError(f"{name} has shape {times.shape}: give one time, or one for each of the {stages} stages")
    return np.broadcast_to(times, stages)
