"""Evaluation of all strategies, and what is kept of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from railcore.facts.units import show
from railcore.training.iteration.critical_path import REASONS, STRATEGY, Estimate, estimates, iteration_times
from railcore.training.iteration.layer import MODERN, Runtime
from railcore.training.iteration.machine import Machine
from railcore.training.search.enumeration import blocks_and_splits, checked_limits
from railcore.training.transformer import Transformer

EDGES = np.logspace(-6, 6, 12 * 200 + 1)  # of `SearchResult.histogram` [s]


@dataclass(frozen=True)
class SearchResult:
    """What a search found. A strategy is a row with columns STRATEGY, sequence_s, total_s and memory_bytes.

    model, machine, runtime, offload, gpus: what was searched for. counts: strategies by reason, "feasible" among them.
    splits: ways to split the GPUs over tensor, context, pipeline and data ranks, by reason too. best: the strategies of
    least time per sequence, in order, one of each time and memory. pareto: those that no other beats in both time and
    memory, by time. least_memory_bytes: of all strategies that divide. histogram: feasible strategies by time per
    sequence, between EDGES.
    """

    model: Transformer
    machine: Machine
    runtime: Runtime
    offload: str
    gpus: int
    counts: dict[str, int]
    splits: dict[str, int]
    best: pd.DataFrame
    pareto: pd.DataFrame
    least_memory_bytes: float
    histogram: np.ndarray

    @property
    def evaluated(self) -> int:
        """Strategies evaluated."""
        return sum(self.counts.values())

    def strategy(self) -> dict[str, int]:
        """The best strategy. Raises ValueError where none is feasible: the least memory needed, and the GPU's."""
        if len(self.best):
            return {name: int(self.best.iloc[0][name]) for name in STRATEGY}
        if not self.evaluated:
            raise ValueError(
                f"no split of {self.gpus} GPUs divides {self.model.name} and its batch (splits by what stops them: "
                f"{self.splits}): change the GPUs or the batch"
            )
        raise ValueError(
            f"{self.model.name} fits no strategy of {self.gpus} GPUs: the least needs "
            f"{show(self.least_memory_bytes, 'B', 4)} of a GPU's {show(self.machine.memory_bytes, 'B', 4)}: "
            "take more GPUs or larger ones"
        )

    def distribution(self) -> pd.DataFrame:
        """Feasible strategies by time: columns times_best (over the best strategy's time) and share, cumulative."""
        if self.best.empty:
            return pd.DataFrame({"times_best": [], "share": []})
        some = np.flatnonzero(self.histogram)
        times = np.maximum(EDGES[some + 1] / self.best["sequence_s"].iloc[0], 1.0)
        return pd.DataFrame({"times_best": times, "share": np.cumsum(self.histogram[some]) / self.histogram.sum()})

    def breakdown(self) -> pd.DataFrame:
        """The best strategies with time [s], memory [bytes], and the parts of the time that any of them has."""
        parts = pd.DataFrame(self.estimate().breakdown)
        return with_labels(self.best)[["strategy", "total_s", "memory_bytes"]].join(parts.loc[:, parts.max() > 0])

    def estimate(self, table: pd.DataFrame | None = None) -> Estimate:
        """`iteration_times` of rows of `best` or `pareto`, with breakdown, links and memory."""
        rows = self.best if table is None else table
        return iteration_times(self.model, self.machine, rows, self.runtime, self.offload)


def search(
    model: Transformer,
    machine: Machine,
    gpus: int,
    global_batch: int | Sequence[int],
    runtime: Runtime = MODERN,
    offload: str = "none",
    top: int = 10,
    **limits: int | Sequence[int],
) -> SearchResult:
    """Evaluate all strategies; keep the best, the Pareto front of time and memory, and counts by reason.

    Memory is bounded by a block of strategies, whatever their number. Ranks fill HB domains in their order: where
    groups do not divide one, the worst of them sets the time (`Machine.link_time`), so that HB domains of 72 GPUs can
    be worse than those of 64.

    Parameters
    ----------
    model, machine, runtime
        What is trained; a GPU and its links; what the software overlaps.
    gpus
        Of the cluster.
    global_batch
        Sequences of an iteration, one number or several.
    offload
        "none" or "optimizer", as for `iteration_times`.
    top
        How many of the best to keep.
    limits
        The values allowed of any name in STRATEGY, as for `strategy_blocks`.

    Returns
    -------
    An empty result is an answer: `SearchResult.counts` says why.

    Raises
    ------
    ValueError
        For an HB domain larger than the cluster, and as `strategy_blocks`.
    """
    allowed = checked_limits(gpus, global_batch, dict(limits))
    if machine.hb_domain_size > gpus:
        raise ValueError(f"hb_domain_size is {machine.hb_domain_size}, more than gpus {gpus}: give at most {gpus}")
    if top < 1:
        raise ValueError(f"top is {top!r}: give 1 or more")
    blocks, splits = blocks_and_splits(model, gpus, allowed)
    counts, least = np.zeros(len(REASONS), np.int64), np.inf
    histogram = np.zeros(EDGES.size - 1, np.int64)
    best, front = _Kept(top), _Kept()
    for columns in blocks:
        start = 0
        for result in estimates(model, machine, columns, runtime, offload):
            memory, size = result.memory_bytes, result.total_s.size
            rows = {name: column[start : start + size] for name, column in columns.items()}
            start += size
            counts += np.bincount(result.reason, minlength=len(REASONS))
            least = min(least, memory.min())
            good = np.flatnonzero(result.reason == 0)
            time = result.total_s[good] / rows["global_batch"][good]
            histogram += np.histogram(time, EDGES)[0]
            best.merge(rows, good, time, memory[good])
            front.merge(rows, good, time, memory[good])
    by_reason = dict(zip(REASONS, counts.tolist(), strict=True))
    tables = best.table(), front.table()
    return SearchResult(
        model, machine, runtime, offload, gpus, by_reason, dict(splits), *tables, float(least), histogram
    )


@dataclass
class _Kept:
    """Rows kept from the blocks so far: the `top` fastest, or the Pareto front where top is 0."""

    top: int = 0
    rows: np.ndarray = field(default_factory=lambda: np.zeros((0, len(STRATEGY)), np.int64))
    time: np.ndarray = field(default_factory=lambda: np.zeros(0))
    memory: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def merge(self, columns, place, time, memory) -> None:
        """Add what can still matter of a block's rows at `place`, and keep what counts of all."""
        some = self._open(time, memory)
        place, time, memory = place[some], time[some], memory[some]
        new = self._chosen(time, memory)
        rows = np.column_stack([columns[name][place[new]] for name in STRATEGY])
        rows, time, memory = (
            np.concatenate(pair) for pair in ((self.rows, rows), (self.time, time[new]), (self.memory, memory[new]))
        )
        kept = self._chosen(time, memory)
        self.rows, self.time, self.memory = rows[kept], time[kept], memory[kept]

    def _open(self, time, memory) -> np.ndarray:
        """Which rows the kept ones do not rule out at once."""
        some = np.ones(time.size, bool)
        if self.top:
            return some if len(self.time) < self.top else time <= self.time[-1]
        few = slice(None, None, -(-len(self.time) // 4) or None)  # these beat most rows
        for t, size in zip(self.time[few], self.memory[few], strict=True):
            some &= (time < t) | (memory < size)
        return some

    def _chosen(self, time, memory) -> np.ndarray:
        return _fastest(time, memory, self.top) if self.top else pareto_front(time, memory)

    def table(self) -> pd.DataFrame:
        columns = dict(zip(STRATEGY, self.rows.T, strict=True))
        times = {"sequence_s": self.time, "total_s": self.time * columns["global_batch"]}
        return pd.DataFrame({**columns, **times, "memory_bytes": self.memory})


def _fastest(time: np.ndarray, memory: np.ndarray, top: int) -> np.ndarray:
    """Places of the least times, in order; of strategies with the same time and memory the first."""
    order = np.lexsort((memory, time))
    new = np.ones(order.size, bool)
    new[1:] = (np.diff(time[order]) > 0) | (np.diff(memory[order]) != 0)
    return order[new][:top]


def pareto_front(time: np.ndarray, memory: np.ndarray) -> np.ndarray:
    """Places of the pairs that no other equals in both and beats in one, by time; the first of equals."""
    if not time.size:
        return np.zeros(0, np.intp)
    order = np.lexsort((memory, time))
    ahead = np.minimum.accumulate(memory[order])
    first = np.concatenate([[True], memory[order][1:] < ahead[:-1]])
    return order[first]


def strategy_label(row: Mapping) -> str:
    """A strategy in few letters, such as "t8 p4 d16 sp v2 b1 full zero1"."""
    parts = [f"{name[0]}{int(row[name])}" for name in ("tensor", "context", "expert", "pipeline", "data")]
    parts = [part for part in parts if not part.endswith("1") or len(part) > 2]
    parts += ["sp"] if row["sequence_parallel"] else []
    parts += [f"v{int(row['interleave'])}"] if row["interleave"] > 1 else []
    parts += [f"b{int(row['micro_batch'])}"]
    parts += [("", "selective", "full")[int(row["recompute"])], ("", "zero1", "zero2", "fsdp")[int(row["sharding"])]]
    return " ".join(part for part in parts if part)


def with_labels(table: pd.DataFrame) -> pd.DataFrame:
    """A table of strategies with their `strategy_label` in the column strategy."""
    return table.assign(strategy=[strategy_label(row) for row in table.to_dict("records")])
