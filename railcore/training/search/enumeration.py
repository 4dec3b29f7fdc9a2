"""The strategies of a cluster that divide its model and batch, as blocks of columns."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from railcore.training.iteration.critical_path import REASONS, STRATEGY
from railcore.training.transformer import RECOMPUTE, SHARDING, Transformer

BLOCK = 131_072  # rows of `space` at a time: bounds the memory of a search


@lru_cache(maxsize=4096)
def divisors(n: int) -> np.ndarray:
    """Divisors of n in order."""
    small = np.arange(1, math.isqrt(n) + 1)
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
    tensor=8 or recompute=["none", "full"]; by default context is 1, and the rest whatever divides.
    Raises ValueError for a count or limit out of range.
    """
    if block < 1:
        raise ValueError(f"block is {block!r}: give 1 row or more")
    yield from _blocks(_parts(model, gpus, checked_limits(gpus, global_batch, limits), Counter()), block)


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


def blocks_of(model: Transformer, gpus: int, allowed: dict) -> tuple[Iterator[dict[str, np.ndarray]], Counter[str]]:
    """The blocks of a space, and its splits by reason, complete once all blocks are taken."""
    limits = tuple((name, None if values is None else tuple(values.tolist())) for name, values in allowed.items())
    if few := _in_one(model, gpus, limits):
        return iter([few[0]] if few[0] else []), Counter(few[1])
    splits = Counter[str]()
    return _blocks(_parts(model, gpus, allowed, splits), BLOCK), splits


def _merged(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([part[name] for part in parts]) for name in STRATEGY}


def checked_limits(gpus: int, global_batch: Any, limits: dict[str, Any]) -> dict[str, np.ndarray | None]:
    """Values allowed for each name in STRATEGY, None for whatever divides. Raises ValueError as `space`."""
    if unknown := sorted(set(limits) - set(STRATEGY)):
        raise ValueError(f"limit {unknown[0]!r} is unknown: name one of {', '.join(STRATEGY)}")
    given = {"context": 1, **limits, "global_batch": global_batch}
    allowed: dict[str, np.ndarray | None] = dict.fromkeys(STRATEGY)
    for name, values in given.items():
        places = {"recompute": RECOMPUTE, "sharding": SHARDING}.get(name, ())
        listed = [values] if isinstance(values, str | int | np.integer) else list(values)
        array = np.unique(np.asarray([places.index(value) if value in places else value for value in listed]))
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
