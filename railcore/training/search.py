"""All strategies of a cluster, evaluated together as arrays: the best, the Pareto front of time and memory, and why
others are out."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from railcore.facts.units import show
from railcore.training.iteration.critical_path import REASONS, STRATEGY, Estimate, estimates, iteration_times
from railcore.training.iteration.layer import MODERN, Runtime
from railcore.training.iteration.machine import Machine
from railcore.training.transformer import Transformer

if TYPE_CHECKING:
    import pandas as pd

BLOCK = 131_072  # rows of `space` at a time: bounds the memory of a search
EDGES = np.logspace(-6, 6, 12 * 200 + 1)  # of `Found.histogram` [s]


@dataclass(frozen=True)
class Found:
    """What a search found, strategies a row each with columns STRATEGY, and sequence_s, total_s and memory_bytes.

    model, machine, runtime, offload, gpus: what was searched for. counts: strategies by reason, "feasible" among them;
    splits: of the GPUs over tensor, context, pipeline and data ranks, those that do not divide by reason.
    best: those of least time a sequence, in order, one of each time and memory. pareto: none is faster with less
    memory, by time. least_memory_bytes: of all strategies that divide. histogram: feasible ones by time a sequence,
    between EDGES.
    """

    model: Transformer
    machine: Machine
    runtime: Runtime
    offload: str
    gpus: int
    counts: dict[str, int]
    splits: dict[str, int]
    best: "pd.DataFrame"
    pareto: "pd.DataFrame"
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

    def distribution(self) -> "pd.DataFrame":
        """Feasible strategies by time: columns times_best (over the best strategy's time) and share, cumulative."""
        import pandas as pd

        if self.best.empty:
            return pd.DataFrame({"times_best": [], "share": []})
        some = np.flatnonzero(self.histogram)
        times = np.maximum(EDGES[some + 1] / self.best["sequence_s"].iloc[0], 1.0)
        return pd.DataFrame({"times_best": times, "share": np.cumsum(self.histogram[some]) / self.histogram.sum()})

    def estimate(self, table: "pd.DataFrame | None" = None) -> Estimate:
        """`iteration_times` of rows of `best` or `pareto`, with breakdown, links and memory."""
        rows = self.best if table is None else table
        return iteration_times(self.model, self.machine, rows, self.runtime, self.offload)


@lru_cache(maxsize=4096)
def divisors(n: int) -> np.ndarray:
    """Divisors of n in order."""
    small = np.arange(1, int(n**0.5) + 1)
    small = small[n % small == 0]
    found = np.unique(np.concatenate([small, n // small]))
    found.setflags(write=False)
    return found


def space(
    model: Transformer,
    gpus: int,
    global_batch: int | Sequence[int],
    block: int = BLOCK,
    **limits: int | Sequence[int],
) -> Iterator[dict[str, np.ndarray]]:
    """Every strategy of `gpus` GPUs that divides heads, layers, sequence, experts and batch, in blocks of columns.

    global_batch: sequences of an iteration, one or several. limits: the values allowed of any name in STRATEGY, such as
    tensor=8 or recompute=[0, 2]; by default context is 1, and the rest whatever divides.
    Raises ValueError for a count or limit out of range.
    """
    if block < 1:
        raise ValueError(f"block is {block!r}: give 1 row or more")
    yield from _blocks(_parts(model, gpus, _limits(gpus, global_batch, limits), Counter()), block)


def _blocks(parts: Iterator[dict[str, np.ndarray]], block: int) -> Iterator[dict[str, np.ndarray]]:
    pending: list[dict[str, np.ndarray]] = []
    rows = 0
    for part in parts:
        start, size = 0, part["tensor"].size
        while start < size:
            take = min(block - rows, size - start)
            pending.append({name: column[start : start + take] for name, column in part.items()})
            rows, start = rows + take, start + take
            if rows == block:
                yield _merged(pending)
                pending, rows = [], 0
    if rows:
        yield _merged(pending)


@lru_cache(maxsize=8)
def _in_one(model: Transformer, gpus: int, limits: tuple) -> tuple[dict[str, np.ndarray], dict[str, int]] | None:
    """A space of no more than a block and its splits, kept for searches on other machines; None for a larger one."""
    allowed = {name: None if values is None else np.array(values) for name, values in limits}
    splits = Counter[str]()
    blocks = _blocks(_parts(model, gpus, allowed, splits), BLOCK)
    first = next(blocks, {})
    return None if next(blocks, None) else (first, dict(splits))


def _listed(model: Transformer, gpus: int, allowed: dict) -> tuple[Iterator[dict[str, np.ndarray]], Counter[str]]:
    """The blocks of a space, and its splits by reason, complete once all blocks are taken."""
    limits = tuple((name, None if values is None else tuple(values.tolist())) for name, values in allowed.items())
    if few := _in_one(model, gpus, limits):
        return iter([few[0]] if few[0] else []), Counter(few[1])
    splits = Counter[str]()
    return _blocks(_parts(model, gpus, allowed, splits), BLOCK), splits


def _merged(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in STRATEGY}


def _limits(gpus: int, global_batch: Any, limits: dict[str, Any]) -> dict[str, np.ndarray | None]:
    if unknown := sorted(set(limits) - set(STRATEGY)):
        raise ValueError(f"limit {unknown[0]!r} is unknown: name one of {', '.join(STRATEGY)}")
    given = {"context": 1, **limits, "global_batch": global_batch}
    allowed: dict[str, np.ndarray | None] = dict.fromkeys(STRATEGY)
    for name, values in given.items():
        array = np.unique(np.atleast_1d(np.asarray(values)))
        least, most = {"sequence_parallel": (0, 1), "recompute": (0, 2), "sharding": (0, 3)}.get(name, (1, 2**31))
        if array.dtype == bool:
            array = array.astype(np.int64)
        whole = array.size and np.issubdtype(array.dtype, np.integer)
        if not whole or array.min() < least or array.max() > most:
            raise ValueError(f"{name} is {values!r}: give whole numbers from {least} to {most}")
        allowed[name] = array
    if not (isinstance(gpus, int | np.integer) and gpus >= 1):
        raise ValueError(f"gpus is {gpus!r}: give a positive whole number")
    return allowed


def _among(values: np.ndarray, allowed: np.ndarray | None) -> np.ndarray:
    return values if allowed is None else values[np.isin(values, allowed)]


def _parts(
    model: Transformer, gpus: int, allowed: dict[str, np.ndarray | None], splits: Counter[str]
) -> Iterator[dict[str, np.ndarray]]:
    """Strategies of each split of the GPUs, in order of tensor, context, pipeline; counts the splits by reason."""
    batches = np.asarray(allowed["global_batch"])
    for t in _among(divisors(gpus), allowed["tensor"]):
        heads = model.heads % t or model.ffn_hidden % t or (model.kv_heads % t and t % model.kv_heads)
        for c in _among(divisors(gpus // t), allowed["context"]):
            for p in _among(divisors(gpus // (t * c)), allowed["pipeline"]):
                d = gpus // (t * c * p)
                if allowed["data"] is not None and d not in allowed["data"]:
                    continue
                wrong = (heads, model.layers % p, np.all(batches % d), 0, model.sequence_length % c)
                reason = next((i for i, value in enumerate(wrong, start=1) if value), 0)
                splits[REASONS[reason]] += 1
                if not reason:
                    yield from _split(model, t, c, p, d, allowed)


def _split(model: Transformer, t, c, p, d, allowed) -> Iterator[dict[str, np.ndarray]]:
    batches = allowed["global_batch"]
    k, b = _with_divisors(tuple((batches[batches % d == 0] // d).tolist()))
    if allowed["micro_batch"] is not None:
        k, b = (x[np.isin(b, allowed["micro_batch"])] for x in (k, b))
    chunks = _among(divisors(model.layers // p) if p > 1 else np.ones(1, np.int64), allowed["interleave"])
    experts = _among(divisors(max(model.experts, 1)), allowed["expert"])
    parallel = np.array([0, 1] if t > 1 and model.sequence_length % (c * t) == 0 else [0])
    kinds = [experts[(d * c) % experts == 0], _among(parallel, allowed["sequence_parallel"])]
    kinds += [_among(np.arange(3), allowed["recompute"]), _among(np.arange(4), allowed["sharding"])]
    inner = [axis.ravel() for axis in np.meshgrid(*kinds, indexing="ij")]
    fixed = dict(zip(("tensor", "context", "pipeline", "data"), (t, c, p, d), strict=True))
    outer = [np.repeat(k * d, chunks.size), np.repeat(b, chunks.size), np.tile(chunks, k.size)]
    m = np.repeat(k // b, chunks.size)
    keep = (outer[2] == 1) | (m % p == 0)
    outer = [x[keep] for x in outer]
    each = max(BLOCK // max(inner[0].size, 1), 1)  # a part is no larger than a block
    for start in range(0, outer[0].size, each):
        some = [x[start : start + each] for x in outer]
        columns = {name: np.full(some[0].size * inner[0].size, x) for name, x in fixed.items()}
        for name, x in zip(("global_batch", "micro_batch", "interleave"), some, strict=True):
            columns[name] = np.repeat(x, inner[0].size)
        for name, x in zip(("expert", "sequence_parallel", "recompute", "sharding"), inner, strict=True):
            columns[name] = np.tile(x, some[0].size)
        yield columns


@lru_cache(maxsize=64)
def _with_divisors(numbers: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Each number beside each of its divisors."""
    found = [divisors(n) for n in numbers]
    return np.repeat(numbers, [len(some) for some in found]), np.concatenate(found)


def search(
    model: Transformer,
    machine: Machine,
    gpus: int,
    global_batch: int | Sequence[int],
    runtime: Runtime = MODERN,
    offload: str = "none",
    top: int = 10,
    **limits: int | Sequence[int],
) -> Found:
    """Evaluate `space` block by block; keep the `top` best, the Pareto front of time and memory, and counts by reason.

    Memory is bounded by a block, whatever the number of strategies. An empty result is an answer: `Found.counts` says
    why. Raises ValueError for an HB domain larger than the cluster, and what `space` refuses.
    """
    if machine.hb_domain_size > gpus:
        raise ValueError(f"hb_domain_size is {machine.hb_domain_size}, more than gpus {gpus}: give at most {gpus}")
    if top < 1:
        raise ValueError(f"top is {top!r}: give 1 or more")
    blocks, splits = _listed(model, gpus, _limits(gpus, global_batch, dict(limits)))
    counts, least = np.zeros(len(REASONS), np.int64), np.inf
    histogram = np.zeros(EDGES.size - 1, np.int64)
    best, front = _Kept(top), _Kept()
    for columns in blocks:
        start = 0
        for result in estimates(model, machine, columns, runtime, offload):
            memory, rows = result.memory_bytes, slice(start, start := start + result.total_s.size)
            counts += np.bincount(result.reason, minlength=len(REASONS))
            least = min(least, memory.min())
            good = np.flatnonzero(result.reason == 0)
            if not good.size:
                continue
            time = result.total_s[good] / columns["global_batch"][rows][good]
            histogram += np.histogram(time, EDGES)[0]
            place = start - result.total_s.size + good
            best.merge(columns, place, time, memory[good])
            front.merge(columns, place, time, memory[good])
    by_reason = dict(zip(REASONS, counts.tolist(), strict=True))
    return Found(
        model,
        machine,
        runtime,
        offload,
        gpus,
        by_reason,
        dict(splits),
        best.table(),
        front.table(),
        float(least),
        histogram,
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

    def table(self) -> "pd.DataFrame":
        import pandas as pd

        table = pd.DataFrame(self.rows, columns=list(STRATEGY))
        return table.assign(sequence_s=self.time, total_s=self.time * table["global_batch"], memory_bytes=self.memory)


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
