"""All strategies of a cluster, evaluated together as arrays: the best, the Pareto front of time and memory, and why
others are out; and the best by HB domain size, NIC speed and batch."""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd

from railcore.facts.arguments import checked
from railcore.facts.checks import whole
from railcore.facts.units import show
from railcore.network.topology import domain_warnings
from railcore.training.iteration import (
    REASONS,
    STRATEGY_COLUMNS,
    STRATEGY_RANGES,
    Columns,
    IterationEstimate,
    iteration_time_blocks,
    iteration_times,
)
from railcore.training.layer_time import MODERN, Runtime
from railcore.training.machine import Machine, as_machine
from railcore.training.parallelism import indivisible
from railcore.training.transformer import LEVELS, Transformer, as_model, as_models

_BLOCK_ROWS = 131_072  # strategies at a time: bounds the memory of a search
_TRIED_DOMAINS = 200  # HB domains more or less, for a number of GPUs that divides
_CLEARLY_FASTER = 1.05  # times as fast: worth a warning
_SPLIT = ("tensor", "context", "pipeline", "data")
TIME_EDGES_S = np.logspace(-6, 6, 12 * 200 + 1)  # of `SearchResult.histogram` [s]
Allowed = dict[str, tuple[int, ...] | None]  # values of each name in STRATEGY_COLUMNS, None for whatever divides


@lru_cache(maxsize=4096)
def divisors(n: int) -> np.ndarray:
    """Divisors of n in order."""
    small = np.arange(1, math.isqrt(n) + 1)
    small = small[n % small == 0]
    found = np.unique(np.concatenate([small, n // small]))
    found.setflags(write=False)
    return found


@checked
def strategy_blocks(
    model: Transformer | str, gpus: int, global_batch: int | Sequence[int], **limits: int | Sequence[int]
) -> Iterator[Columns]:
    """Every strategy of `gpus` GPUs that divides heads, layers, sequence, experts and batch, in blocks of columns.

    Parameters
    ----------
    model
        What is trained, or its name in the catalog.
    gpus
        Of the cluster.
    global_batch
        Sequences of an iteration, one number or several.
    limits
        The values allowed of any name in STRATEGY_COLUMNS, such as tensor=8 or recompute=["none", "full"]. By default
        context is 1, and the rest whatever divides.

    Returns
    -------
    Arrays of one shape by the names in STRATEGY_COLUMNS.

    Raises
    ------
    ValueError
        For a count or limit out of range.
    """
    model, allowed = as_model(model), _allowed_values(gpus, global_batch, limits)
    return _blocks(model, _gpu_splits(model, gpus, allowed)[0], allowed)


def _blocks(model: Transformer, splits: np.ndarray, allowed: Allowed) -> Iterator[Columns]:
    """Strategies of all splits of the GPUs, in blocks of _BLOCK_ROWS; the last one may have fewer."""
    pending: list[Columns] = []
    rows = 0
    for part in _parts(model, splits, allowed):
        start, size = 0, part["tensor"].size
        while start < size:
            take = min(_BLOCK_ROWS - rows, size - start)
            pending.append({name: column[start : start + take] for name, column in part.items()})
            rows, start = rows + take, start + take
            if rows == _BLOCK_ROWS:
                yield _merged(pending)
                pending, rows = [], 0
    if rows:
        yield _merged(pending)


def _merged(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in STRATEGY_COLUMNS}


@lru_cache(maxsize=8)
def _block_of_all(model: Transformer, gpus: int, allowed: tuple) -> list[Columns] | None:
    """The strategies of a cluster if one block holds them, else None; kept for searches on other machines."""
    limits = dict(allowed)
    blocks = _blocks(model, _gpu_splits(model, gpus, limits)[0], limits)
    first = list(itertools.islice(blocks, 2))
    return first if len(first) < 2 else None


def _allowed_values(gpus: int, global_batch: Any, limits: dict[str, Any]) -> Allowed:
    """Values allowed for each name in STRATEGY_COLUMNS. Raises ValueError as `strategy_blocks`."""
    if unknown := sorted(set(limits) - set(STRATEGY_COLUMNS)):
        raise ValueError(f"limit {unknown[0]!r} is unknown: name one of {', '.join(STRATEGY_COLUMNS)}")
    given = {"context": 1, **limits, "global_batch": global_batch}
    allowed: Allowed = dict.fromkeys(STRATEGY_COLUMNS)
    for name, values in given.items():
        names = LEVELS.get(name, ())
        listed = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]
        array = np.asarray([names.index(value) if value in names else value for value in listed])
        least, most = STRATEGY_RANGES[name]
        if array.dtype.kind not in "biu" or not array.size or array.min() < least or array.max() > most:
            named = f"{', '.join(names)}, or " if names else ""
            raise ValueError(f"{name} is {values!r}: give {named}whole numbers from {least} to {most}")
        allowed[name] = tuple(np.unique(array.astype(np.int64)).tolist())
    whole("gpus", gpus, most=STRATEGY_RANGES["data"][1])
    return allowed


def _among(values: np.ndarray, allowed: tuple[int, ...] | None) -> np.ndarray:
    """The values that are allowed, all where there is no limit."""
    return values if allowed is None else values[np.isin(values, allowed)]


def _gpu_splits(model: Transformer, gpus: int, allowed: Allowed) -> tuple[np.ndarray, dict[str, int]]:
    """Splits of the GPUs over tensor, context, pipeline and data ranks that divide [n, 4], and all splits by reason."""
    rows = [
        (t, c, p, gpus // (t * c * p))
        for t in _among(divisors(gpus), allowed["tensor"])
        for c in _among(divisors(gpus // t), allowed["context"])
        for p in _among(divisors(gpus // (t * c)), allowed["pipeline"])
    ]
    splits = np.array(rows, np.int64).reshape(-1, len(_SPLIT))
    if allowed["data"] is not None:
        splits = splits[np.isin(splits[:, 3], allowed["data"])]
    columns = {name: splits[:, [i]] for i, name in enumerate(_SPLIT)}
    wrong = indivisible(model, {**columns, "global_batch": allowed["global_batch"]})
    reason = np.full(len(splits), REASONS.index("feasible"))
    for name in reversed(wrong):
        reason[wrong[name].all(axis=1)] = REASONS.index(name)
    return splits[reason == REASONS.index("feasible")], dict(Counter(REASONS[i] for i in reason))


def _parts(model: Transformer, splits: np.ndarray, allowed: Allowed) -> Iterator[Columns]:
    """Strategies of each split of the GPUs, in parts no larger than a block."""
    batches = np.asarray(allowed["global_batch"])
    axes = {"expert": divisors(max(model.experts, 1)), "sequence_parallel": np.arange(2)}
    axes |= {name: np.arange(len(levels)) for name, levels in LEVELS.items()}
    places = np.meshgrid(*(_among(values, allowed[name]) for name, values in axes.items()), indexing="ij")
    choices = {name: values.ravel() for name, values in zip(axes, places, strict=True)}
    for row in splits.tolist():
        split = dict(zip(_SPLIT, row, strict=True))
        d = split["data"]
        k, b = _with_divisors(tuple((batches[batches % d == 0] // d).tolist()))  # sequences of a replica, micro-batch
        if allowed["micro_batch"] is not None:
            k, b = (x[np.isin(b, allowed["micro_batch"])] for x in (k, b))
        chunks = _among(divisors(model.layers // split["pipeline"]), allowed["interleave"])
        batch = {"global_batch": np.repeat(k * d, chunks.size), "micro_batch": np.repeat(b, chunks.size)}
        outer = _dividing(model, split, batch | {"interleave": np.tile(chunks, k.size)})
        inner = _dividing(model, split, choices)
        width = inner["expert"].size
        rows = max(_BLOCK_ROWS // max(width, 1), 1)
        for start in range(0, outer["global_batch"].size, rows):
            some = {name: values[start : start + rows] for name, values in outer.items()}
            size = some["global_batch"].size
            columns = {name: np.full(size * width, value) for name, value in split.items()}
            columns |= {name: np.repeat(values, width) for name, values in some.items()}
            yield columns | {name: np.tile(values, size) for name, values in inner.items()}


def _dividing(model: Transformer, split: dict[str, int], columns: Columns) -> Columns:
    """The rows of some columns that divide at a split of the GPUs."""
    wrong = np.logical_or.reduce(np.broadcast_arrays(*indivisible(model, {**split, **columns}).values()))
    return {name: values[~wrong] for name, values in columns.items()}


@lru_cache(maxsize=64)
def _with_divisors(numbers: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Each number beside each of its divisors."""
    found = [divisors(n) for n in numbers]
    return np.repeat(numbers, [len(some) for some in found]), np.concatenate(found)


@dataclass(frozen=True)
class SearchResult:
    """What a search found. A strategy is a row with columns STRATEGY_COLUMNS, sequence_s, total_s and memory_bytes.

    model, machine, runtime, offload, gpus, limits: what was searched for. counts: strategies by reason, "feasible"
    among them. splits: ways to split the GPUs over tensor, context, pipeline and data ranks, by reason too. best: the
    strategies of least time per sequence, in order, one of each time and memory. pareto: those that no other beats in
    both time and memory, by time. least_memory_bytes: of all strategies that divide. histogram: feasible strategies by
    time per sequence, between TIME_EDGES_S.
    """

    model: Transformer
    machine: Machine
    runtime: Runtime
    offload: str
    gpus: int
    limits: Allowed
    counts: dict[str, int]
    splits: dict[str, int]
    best: pd.DataFrame
    pareto: pd.DataFrame
    least_memory_bytes: float
    histogram: np.ndarray

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Where GPUs do not fill HB domains or groups of the best lie unevenly in them, and what would be faster."""
        uneven = self._estimate(self.best.head(1)).warnings if len(self.best) else ()
        ragged = (*domain_warnings(self.gpus, self.machine.hb_domain_size), *self._better_numbers(), *uneven)
        return (*ragged, *self._faster_with_fewer_of_a_domain()) if ragged else ()

    def _better_numbers(self) -> tuple[str, ...]:
        """Nearest numbers of GPUs that fill HB domains and divide the model, where the nearest that fill do not."""
        K = self.machine.hb_domain_size
        full, rest = divmod(self.gpus, K)
        ways = range(full, 0, -1)[:_TRIED_DOMAINS], range(full + 1, full + 1 + _TRIED_DOMAINS)
        splits = ((n * K for n in way if len(_gpu_splits(self.model, n * K, self.limits)[0])) for way in ways)
        found = [gpus for gpus in (next(some, None) for some in splits) if gpus] if rest else []
        if not rest or {full * K, (full + 1) * K} <= set(found):
            return ()
        if not found:
            tried = f"No number of GPUs within {_TRIED_DOMAINS} HB domains of these"
            remedy = "take another batch, model or HB domain"
            return (f"{tried} fills them and splits {self.model.name} and its batch: {remedy}.",)
        numbers = " and ".join(f"{gpus:,}" for gpus in found)
        return (f"Nearest numbers of GPUs that fill HB domains and split {self.model.name} and its batch: {numbers}.",)

    @property
    def evaluated(self) -> int:
        """Strategies evaluated."""
        return sum(self.counts.values())

    def strategy(self) -> dict[str, int]:
        """The best strategy. Raises ValueError where none is feasible: the least memory needed, and the GPU's."""
        if len(self.best):
            return {name: int(self.best.iloc[0][name]) for name in STRATEGY_COLUMNS}
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
        times = np.maximum(TIME_EDGES_S[some + 1] / self.best["sequence_s"].iloc[0], 1.0)
        return pd.DataFrame({"times_best": times, "share": np.cumsum(self.histogram[some]) / self.histogram.sum()})

    def breakdown(self) -> pd.DataFrame:
        """The best strategies with time [s], memory [bytes], and the parts of the time that any of them has."""
        labelled, parts = with_strategy_labels(self.best), pd.DataFrame(self.estimate().breakdown)
        return labelled[["strategy", "total_s", "memory_bytes"]].join(parts.loc[:, parts.max() > 0])

    def estimate(self) -> IterationEstimate:
        """`iteration_times` of the best strategies, with breakdown, links and memory."""
        return self._estimate(self.best)

    def _estimate(self, strategies: pd.DataFrame) -> IterationEstimate:
        return iteration_times(self.model, self.machine, strategies, self.runtime, self.offload)

    def _faster_with_fewer_of_a_domain(self) -> tuple[str, ...]:
        """The best with as many GPUs of each HB domain in use as divide the cluster, where it is clearly faster."""
        K = self.machine.hb_domain_size
        smaller = divisors(self.gpus)[1:]
        smaller = smaller[smaller < K]
        if self.best.empty or not smaller.size:
            return ()
        size = int(smaller[-1])
        options: dict[str, Any] = {name: values for name, values in self.limits.items() if values is not None}
        options |= {"runtime": self.runtime, "offload": self.offload, "top": 1}
        fewer = search(self.model, replace(self.machine, hb_domain_size=size), self.gpus, **options).best
        if fewer.empty:
            return ()
        row = fewer.iloc[0]
        times = self.best["sequence_s"].iloc[0] / row["sequence_s"]
        if times < _CLEARLY_FASTER:
            return ()
        domains = f"{self.gpus // size:,} HB domains in place of {math.ceil(self.gpus / K):,}"
        return (
            f"The time is too long where GPUs may stay idle. With {size:,} of the {K:,} GPUs of each HB domain in use "
            f"({domains}) the best strategy takes {show(row['total_s'], 's', 3)}, {strategy_label(row)}: "
            f"{times:.3g} times as fast. Search with a machine of hb_domain_size={size}.",
        )


@checked
def search(
    model: Transformer | str,
    machine: Machine | str,
    gpus: int,
    global_batch: int | Sequence[int],
    runtime: Runtime = MODERN,
    offload: str = "none",
    top: int = 10,
    **limits: int | Sequence[int],
) -> SearchResult:
    """Evaluate all strategies; keep the best, the Pareto front of time and memory, and counts by reason.

    Memory is bounded by a block of strategies, whatever their number. Ranks fill HB domains in their order: where
    groups do not divide one, the worst of them sets the time (`Machine.all_gather_time`), so that HB domains of 72 GPUs
    can be worse than those of 64.

    Parameters
    ----------
    model, machine, runtime
        What is trained; a GPU and its links; what the software overlaps. Of the first two names in the catalog do.
    gpus
        Of the cluster.
    global_batch
        Sequences of an iteration, one number or several.
    offload
        "none" or "optimizer", as for `iteration_times`.
    top
        How many of the best to keep.
    limits
        The values allowed of any name in STRATEGY_COLUMNS, as for `strategy_blocks`.

    Returns
    -------
    An empty result is an answer: `SearchResult.counts` says why.

    Raises
    ------
    ValueError
        For an HB domain larger than the cluster, and as `strategy_blocks`.
    """
    model, machine = as_model(model), as_machine(machine)
    allowed = _allowed_values(gpus, global_batch, dict(limits))
    if machine.hb_domain_size > gpus:
        raise ValueError(f"hb_domain_size is {machine.hb_domain_size}, more than gpus {gpus}: give at most {gpus}")
    whole("top", top)
    splits, by_split = _gpu_splits(model, gpus, allowed)
    blocks = _block_of_all(model, gpus, tuple(allowed.items())) or _blocks(model, splits, allowed)
    counts, least = np.zeros(len(REASONS), np.int64), np.inf
    histogram = np.zeros(TIME_EDGES_S.size - 1, np.int64)
    best, front = _Kept(top), _Kept()
    for columns in blocks:
        for rows, result in iteration_time_blocks(model, machine, columns, runtime, offload):
            counts += np.bincount(result.reason, minlength=len(REASONS))
            memory = result.memory_bytes
            least = min(least, memory.min())
            feasible = np.flatnonzero(result.reason == REASONS.index("feasible"))
            place = rows.start + feasible
            time = result.total_s[feasible] / columns["global_batch"][place]
            histogram += np.histogram(time, TIME_EDGES_S)[0]
            best.merge(columns, place, time, memory[feasible])
            front.merge(columns, place, time, memory[feasible])
    by_reason = dict(zip(REASONS, counts.tolist(), strict=True))
    tables = pd.DataFrame(best.rows), pd.DataFrame(front.rows)
    asked = (model, machine, runtime, offload, gpus, allowed)
    return SearchResult(*asked, by_reason, by_split, *tables, float(least), histogram)


class _Kept:
    """Strategies kept from the blocks so far: the `top` fastest, or the Pareto front where top is 0."""

    def __init__(self, top: int = 0) -> None:
        self.top = top
        self.rows: Columns = {name: np.zeros(0, np.int64) for name in STRATEGY_COLUMNS}
        self.rows |= {name: np.zeros(0) for name in ("sequence_s", "total_s", "memory_bytes")}

    def merge(self, columns: Columns, place: np.ndarray, time: np.ndarray, memory: np.ndarray) -> None:
        """Add the rows of a block at `place`, with their time and memory, and keep what counts of all."""
        some = np.flatnonzero(self._not_beaten(time, memory))
        some = some[self._chosen(time[some], memory[some])]
        new = {name: columns[name][place[some]] for name in STRATEGY_COLUMNS}
        new |= {"sequence_s": time[some], "total_s": time[some] * new["global_batch"], "memory_bytes": memory[some]}
        rows = {name: np.concatenate([kept, new[name]]) for name, kept in self.rows.items()}
        chosen = self._chosen(rows["sequence_s"], rows["memory_bytes"])
        self.rows = {name: column[chosen] for name, column in rows.items()}

    def _chosen(self, time: np.ndarray, memory: np.ndarray) -> np.ndarray:
        return _fastest(time, memory, self.top) if self.top else pareto_front(time, memory)

    def _not_beaten(self, time: np.ndarray, memory: np.ndarray) -> np.ndarray:
        """Which rows the kept ones do not rule out at once."""
        times, memories = self.rows["sequence_s"], self.rows["memory_bytes"]
        if self.top:
            return time <= (times[-1] if len(times) == self.top else np.inf)
        some, few = np.ones(time.size, bool), slice(None, None, max(len(times) // 4, 1))  # a few beat most rows
        for t, size in zip(times[few], memories[few], strict=True):
            some &= (time < t) | (memory < size)
        return some


def _fastest(time: np.ndarray, memory: np.ndarray, top: int) -> np.ndarray:
    """Places of the least times, in order; of strategies with the same time and memory the first."""
    order = np.lexsort((memory, time))
    new = np.ones(order.size, bool)
    new[1:] = (np.diff(time[order]) > 0) | (np.diff(memory[order]) != 0)
    return order[new][:top]


def pareto_front(time: np.ndarray, memory: np.ndarray) -> np.ndarray:
    """Places of the pairs that no other equals in both and beats in one, by time; the first of equals."""
    order = np.lexsort((memory, time))
    return order[np.diff(np.minimum.accumulate(memory[order]), prepend=np.inf) < 0]


def strategy_label(row: Mapping) -> str:
    """A strategy in few letters, such as "t8 p4 d16 sp v2 b1 full zero1"."""
    degrees = ("tensor", "context", "expert", "pipeline", "data")
    parts = [f"{name[0]}{int(row[name])}" for name in degrees if row[name] > 1]
    parts += ["sp"] if row["sequence_parallel"] else []
    parts += [f"v{int(row['interleave'])}"] if row["interleave"] > 1 else []
    parts += [f"b{int(row['micro_batch'])}"]
    parts += [("", "selective", "full")[int(row["recompute"])], ("", "zero1", "zero2", "fsdp")[int(row["sharding"])]]
    return " ".join(part for part in parts if part)


def with_strategy_labels(table: pd.DataFrame) -> pd.DataFrame:
    """A table of strategies with their `strategy_label` in the column strategy."""
    return table.assign(strategy=[strategy_label(row) for row in table.to_dict("records")])


@checked
def best_times(
    models: Mapping[str, Transformer | str] | Sequence[str],
    machine: Machine | str,
    gpus: Sequence[int],
    hb_domain_sizes: Sequence[int],
    batches: Mapping[str, Sequence[int]],
    nics_Bps: Sequence[float] = (),
    **options: Any,
) -> pd.DataFrame:
    """Iteration time of the best strategy at every model, cluster, HB domain size, batch and NIC.

    Parameters
    ----------
    models
        By name, or names in the catalog.
    machine
        A GPU and its links, or its platform's name in the catalog.
    gpus, hb_domain_sizes
        Of the clusters; K [GPUs]. HB domains larger than the cluster are left out.
    batches
        By model [sequences].
    nics_Bps
        Bandwidths of a NIC, one direction [bytes/s]; by default the machine's.
    options
        Of `search`: runtime, and limits of the strategies.

    Returns
    -------
    Columns model, gpus, hb_domain_size, batch, nic_Bps, iteration_s, ideal_s (all GPUs in one HB domain), slowdown =
    iteration_s / ideal_s - 1, strategy, gain: share of iteration time that the last doubling of the HB domain saved.
    NaN where no strategy fits. attrs["warnings"]: `domain_warnings` of the clusters.
    """
    rows, machine, models = [], as_machine(machine), as_models(models)
    if missing := sorted(set(models) - set(batches)):
        raise ValueError(f"batches lacks {missing[0]!r}: give the batches of each model")
    nics = nics_Bps if len(nics_Bps) else (machine.nic_Bps,)
    for (name, model), n, nic in itertools.product(models.items(), gpus, nics):
        for batch, k in itertools.product(batches[name], [*(k for k in hb_domain_sizes if k < n), n]):
            box = replace(machine, nic_Bps=nic, hb_domain_size=k)
            best = search(model, box, n, batch, top=1, **options).best
            strategy = strategy_label(best.iloc[0]) if len(best) else "none fits"
            rows.append((name, n, k, batch, nic, best["total_s"].min(), strategy))
    names = ["model", "gpus", "hb_domain_size", "batch", "nic_Bps", "iteration_s", "strategy"]
    table = pd.DataFrame(rows, columns=names)
    clusters = table.groupby(["model", "gpus", "batch", "nic_Bps"])
    ideal_s = clusters["iteration_s"].transform(lambda times: times.iloc[-1])
    gain = 1 - table["iteration_s"] / clusters["iteration_s"].shift()
    doubled = table["hb_domain_size"] == 2 * clusters["hb_domain_size"].shift()
    table.insert(6, "ideal_s", ideal_s)
    table.insert(7, "slowdown", table["iteration_s"] / ideal_s - 1)
    pairs = table[["gpus", "hb_domain_size"]].drop_duplicates().itertuples(index=False)
    table.attrs["warnings"] = tuple(text for pair in pairs for text in domain_warnings(*pair))
    return table.assign(gain=gain.where(doubled))


def smallest_hb_domain_near_ideal(table: pd.DataFrame, within: float) -> int:
    """Smallest HB domain size from which on every cluster of a table is within a share of its ideal."""
    good = table.assign(good=table["slowdown"] <= within).groupby("hb_domain_size")["good"].all()
    return int(good.index[good & good[::-1].cummin()[::-1]].min())


def hb_domain_summary(table: pd.DataFrame, hb_domain_size: int, within: float) -> pd.DataFrame:
    """Slowdown and strategy of each model and cluster at one HB domain size.

    Column plateau is `smallest_hb_domain_near_ideal`.
    """
    sizes = {key: smallest_hb_domain_near_ideal(part, within) for key, part in table.groupby(["model", "gpus"])}
    rows = table[table["hb_domain_size"] == hb_domain_size].assign(
        plateau=lambda mine: [sizes[key] for key in zip(mine["model"], mine["gpus"], strict=True)]
    )
    return rows[["model", "gpus", "iteration_s", "ideal_s", "slowdown", "strategy", "plateau"]]


def increasing_returns_share(table: pd.DataFrame) -> float:
    """Share of doublings of the HB domain that save more seconds than the doubling before."""
    keys = ["model", "gpus", "batch", "nic_Bps"]
    clusters = table.groupby(keys)
    doubled = table["hb_domain_size"] == 2 * clusters["hb_domain_size"].shift()
    saved_s = -clusters["iteration_s"].diff().where(doubled)
    more_s = saved_s - saved_s.groupby([table[key] for key in keys]).shift()
    return float((more_s > 1e-9 * table["iteration_s"])[more_s.notna()].mean())


@checked
def slowdown_by_sustained_rate(
    models: Mapping[str, Transformer | str] | Sequence[str],
    machine: Machine | str,
    gpus: Sequence[int],
    hb_domain_size: int,
    fractions: Sequence[float],
    **options: Any,
) -> pd.DataFrame:
    """Largest slowdown over the clusters at one HB domain size, by the share of its best rate that a GPU sustains.

    Parameters
    ----------
    models
        By name.
    machine
        A GPU and its links.
    gpus, hb_domain_size
        Of the clusters; K [GPUs].
    fractions
        Shares of the GPU's best rate.
    options
        Of `best_times`, batches among them.

    Returns
    -------
    Columns sustained_fraction and one for each model. attrs["warnings"] as of `best_times`.
    """
    rows, texts = [], dict[str, None]()
    for fraction in fractions:
        box = replace(as_machine(machine), sustained_fraction=fraction)
        table = best_times(models, box, gpus, [hb_domain_size], **options)
        texts |= dict.fromkeys(table.attrs["warnings"])
        slowdown = table[table["hb_domain_size"] == hb_domain_size].groupby("model")["slowdown"].max()
        rows.append({"sustained_fraction": fraction, **slowdown})
    table = pd.DataFrame(rows)
    table.attrs["warnings"] = tuple(texts)
    return table
