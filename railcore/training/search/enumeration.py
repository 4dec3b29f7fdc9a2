"""The strategies of a cluster that divide its model and batch, as blocks of columns."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from railcore.training.iteration.critical_path import REASONS, STRATEGY
from railcore.training.parallelism import indivisible
from railcore.training.transformer import RECOMPUTE, SHARDING, Transformer

BLOCK = 131_072  # strategies at a time: bounds the memory of a search
Columns = dict[str, np.ndarray]
Allowed = dict[str, np.ndarray | None]  # values of each name in STRATEGY, None for whatever divides


@lru_cache(maxsize=4096)
def divisors(n: int) -> np.ndarray:
    """Divisors of n in order."""
    small = np.arange(1, math.isqrt(n) + 1)
    small = small[n % small == 0]
    found = np.unique(np.concatenate([small, n // small]))
    found.setflags(write=False)
    return found


def strategy_blocks(
    model: Transformer,
    gpus: int,
    global_batch: int | Sequence[int],
    block: int = BLOCK,
    **limits: int | Sequence[int],
) -> Iterator[Columns]:
    """Every strategy of `gpus` GPUs that divides heads, layers, sequence, experts and batch, in blocks of columns.

    Parameters
    ----------
    model
        What is trained.
    gpus
        Of the cluster.
    global_batch
        Sequences of an iteration, one number or several.
    block
        Strategies in a block.
    limits
        The values allowed of any name in STRATEGY, such as tensor=8 or recompute=["none", "full"]. By default context
        is 1, and the rest whatever divides.

    Returns
    -------
    Arrays of one shape by the names in STRATEGY.

    Raises
    ------
    ValueError
        For a count or limit out of range.
    """
    allowed = checked_limits(gpus, global_batch, limits)
    yield from _blocks(_parts(model, gpu_splits(model, gpus, allowed)[0], allowed), block)


def _blocks(parts: Iterable[Columns], block: int) -> Iterator[Columns]:
    pending: list[Columns] = []
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


def _merged(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in STRATEGY}


def blocks_and_splits(model: Transformer, gpus: int, allowed: Allowed) -> tuple[Iterable[Columns], Counter[str]]:
    """The blocks of `strategy_blocks`, and the splits of the GPUs by reason. allowed: of `checked_limits`."""
    splits, counts = gpu_splits(model, gpus, allowed)
    limits = tuple((name, None if values is None else tuple(values.tolist())) for name, values in allowed.items())
    few = _in_one(model, gpus, limits)
    return (_blocks(_parts(model, splits, allowed), BLOCK) if few is None else few), counts


@lru_cache(maxsize=8)
def _in_one(model: Transformer, gpus: int, limits: tuple) -> list[Columns] | None:
    """The strategies of a cluster where one block holds them, kept for searches on other machines; None for more."""
    allowed = {name: None if values is None else np.array(values) for name, values in limits}
    blocks = _blocks(_parts(model, gpu_splits(model, gpus, allowed)[0], allowed), BLOCK)
    first = [block for block, _ in zip(blocks, range(2), strict=False)]
    return first if len(first) < 2 else None


def checked_limits(gpus: int, global_batch: Any, limits: dict[str, Any]) -> Allowed:
    """Values allowed for each name in STRATEGY. Raises ValueError as `strategy_blocks`."""
    if unknown := sorted(set(limits) - set(STRATEGY)):
        raise ValueError(f"limit {unknown[0]!r} is unknown: name one of {', '.join(STRATEGY)}")
    given = {"context": 1, **limits, "global_batch": global_batch}
    allowed: Allowed = dict.fromkeys(STRATEGY)
    for name, values in given.items():
        names = {"recompute": RECOMPUTE, "sharding": SHARDING}.get(name, ())
        listed = [values] if isinstance(values, str | int | np.integer) else list(values)
        array = np.unique(np.asarray([names.index(value) if value in names else value for value in listed]))
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


def gpu_splits(model: Transformer, gpus: int, allowed: Allowed) -> tuple[np.ndarray, Counter[str]]:
    """Splits of the GPUs over tensor, context, pipeline and data ranks that divide [n, 4], and all splits by reason."""
    rows = [
        (t, c, p, gpus // (t * c * p))
        for t in _among(divisors(gpus), allowed["tensor"])
        for c in _among(divisors(gpus // t), allowed["context"])
        for p in _among(divisors(gpus // (t * c)), allowed["pipeline"])
    ]
    splits = np.array(rows, np.int64).reshape(-1, 4)
    if allowed["data"] is not None:
        splits = splits[np.isin(splits[:, 3], allowed["data"])]
    columns = {name: splits[:, [i]] for i, name in enumerate(("tensor", "context", "pipeline", "data"))}
    wrong = indivisible(model, {**columns, "global_batch": allowed["global_batch"]})
    reason = np.zeros(len(splits), np.int64)
    for name in reversed(wrong):
        reason[wrong[name].all(axis=1)] = REASONS.index(name)
    return splits[reason == 0], Counter(REASONS[i] for i in reason)


def _parts(model: Transformer, splits: np.ndarray, allowed: Allowed) -> Iterator[Columns]:
    """Strategies of each split of the GPUs, in parts no larger than a block."""
    batches = np.asarray(allowed["global_batch"])
    for t, c, p, d in splits.tolist():
        k, b = _with_divisors(tuple((batches[batches % d == 0] // d).tolist()))  # sequences of a replica, micro-batch
        if allowed["micro_batch"] is not None:
            k, b = (x[np.isin(b, allowed["micro_batch"])] for x in (k, b))
        chunks = _among(divisors(model.layers // p) if p > 1 else np.ones(1, np.int64), allowed["interleave"])
        experts = _among(divisors(max(model.experts, 1)), allowed["expert"])
        parallel = np.array([0, 1] if t > 1 and model.sequence_length % (c * t) == 0 else [0])
        kinds = [experts[(d * c) % experts == 0], _among(parallel, allowed["sequence_parallel"])]
        kinds += [_among(np.arange(3), allowed["recompute"]), _among(np.arange(4), allowed["sharding"])]
        inner = [axis.ravel() for axis in np.meshgrid(*kinds, indexing="ij")]
        outer = [np.repeat(k * d, chunks.size), np.repeat(b, chunks.size), np.tile(chunks, k.size)]
        keep = (outer[2] == 1) | (np.repeat(k // b, chunks.size) % p == 0)
        outer = [x[keep] for x in outer]
        each = max(BLOCK // max(inner[0].size, 1), 1)
        for start in range(0, outer[0].size, each):
            some = [x[start : start + each] for x in outer]
            size = some[0].size * inner[0].size
            columns = {"tensor": np.full(size, t), "context": np.full(size, c)}
            columns |= {"pipeline": np.full(size, p), "data": np.full(size, d)}
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
