"""Splits of a cluster's GPUs over tensor, context, pipeline and data ranks, and the values that a search allows."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from railcore.training.iteration import OBSTACLES
from railcore.training.parallelism import indivisible
from railcore.training.rank_order import PLACEMENTS
from railcore.training.strategy_columns import STRATEGY_COLUMNS, column_numbers
from railcore.training.transformer import Transformer

SPLIT = ("tensor", "context", "pipeline", "data")
Allowed = tuple[tuple[str, tuple[int, ...] | None], ...]  # of each of STRATEGY_COLUMNS, None for whatever divides
_MOST_VALUES = 2**14  # of one name: what is searched grows with each


@lru_cache(maxsize=4096)
def divisors(n: int) -> np.ndarray:
    """Divisors of n in order."""
    small = np.arange(1, math.isqrt(n) + 1)
    small = small[n % small == 0]
    every = np.unique(np.concatenate([small, n // small]))
    every.setflags(write=False)
    return every


def used_of_domain(K: int) -> list[int]:
    """GPUs in use of an HB domain of K that a short search tries: the largest power of 2, and all."""
    return sorted({K, 2 ** (K.bit_length() - 1)})


def allowed_values(global_batch: Any, limits: dict[str, Any]) -> Allowed:
    """Values allowed for each name in STRATEGY_COLUMNS. Raises ValueError as `strategy_blocks`."""
    if unknown := sorted(set(limits) - set(STRATEGY_COLUMNS)):
        raise ValueError(f"limit {unknown[0]!r} is unknown: name one of {', '.join(STRATEGY_COLUMNS)}")
    limits = {"placement": "all", **limits, "global_batch": global_batch}
    allowed: dict[str, tuple[int, ...] | None] = dict.fromkeys(STRATEGY_COLUMNS)
    for name, values in limits.items():
        count = len(values) if isinstance(values, Sequence) else np.size(values)
        if count > _MOST_VALUES:
            raise ValueError(f"{name} has {count:,} values: give at most {_MOST_VALUES:,}")
        every = name == "placement" and isinstance(values, str) and values == "all"
        numbers = np.unique(column_numbers(name, PLACEMENTS if every else values))
        if not numbers.size:
            raise ValueError(f"{name} is {values!r}: give one value or several, or leave the limit out")
        allowed[name] = tuple(numbers.tolist())
    return tuple(allowed.items())


def among(values: np.ndarray, allowed: tuple[int, ...] | None) -> np.ndarray:
    """The values that are allowed, all where there is no limit."""
    return values if allowed is None else values[np.isin(values, allowed)]


def exact_splits(model: Transformer, gpus: int, allowed: Allowed) -> tuple[np.ndarray, dict[str, int]]:
    """Splits of all GPUs over tensor, context, pipeline and data ranks that divide [n, 4]; counts by obstacle."""
    limits = dict(allowed)
    rows = [
        (t, c, p, gpus // (t * c * p))
        for t in among(divisors(gpus), limits["tensor"]).tolist()
        for c in among(divisors(gpus // t), limits["context"]).tolist()
        for p in among(divisors(gpus // (t * c)), limits["pipeline"]).tolist()
    ]
    splits = np.array(rows, np.int64).reshape(-1, len(SPLIT))
    if limits["data"] is not None:
        splits = splits[np.isin(splits[:, 3], limits["data"])]
    obstacle = _split_obstacles(model, splits, limits)
    good = obstacle == len(OBSTACLES)
    return splits[good], dict(Counter([*OBSTACLES, "feasible"][i] for i in obstacle))


def _split_obstacles(model: Transformer, splits: np.ndarray, limits: dict[str, Any]) -> np.ndarray:
    """Place in OBSTACLES of the first obstacle of each split for every batch and both ends; len(OBSTACLES) for none."""
    columns = {name: splits[:, i, None, None] for i, name in enumerate(SPLIT)}
    ends = np.asarray(limits["ends_as_layers"] or (0, 1))
    columns |= {"global_batch": np.asarray(limits["global_batch"])[:, None], "ends_as_layers": ends}
    wrong = indivisible(model, columns)
    obstacle = np.full(len(splits), len(OBSTACLES))
    for name in reversed(wrong):
        every = np.broadcast_to(wrong[name], (len(splits), columns["global_batch"].size, ends.size)).all(axis=(1, 2))
        obstacle[every] = OBSTACLES.index(name)
    return obstacle


def _degrees_at_most(
    model: Transformer, gpus: int, limits: dict[str, Any], domain: int, ragged: bool
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Tensor ranks, context ranks, and layers that a pipeline may split: with its ends as layers or without."""
    t = among(divisors(model.heads), limits["tensor"])
    t = t[(t <= gpus) & (ragged | (domain % t == 0) | (t % domain == 0))]
    c = among(divisors(model.sequence_length), limits["context"])
    return t, c[c <= gpus], sorted({model.layers + 2 * ends for ends in limits["ends_as_layers"] or (0, 1)})


def _data_degrees(batch: int, limits: dict[str, Any]) -> np.ndarray:
    """Data ranks that divide a batch, with a micro-batch that is allowed."""
    shares = [batch // b for b in limits["micro_batch"] or (1,) if batch % b == 0]
    return among(np.unique(np.concatenate([divisors(n) for n in shares] or [np.zeros(0, int)])), limits["data"])


def splits_at_most(
    model: Transformer, gpus: int, allowed: Allowed, domain: int, ragged: bool
) -> tuple[np.ndarray, dict[str, int]]:
    """Splits [n, 4] that use most of the GPUs, and number of splits by obstacle.

    For each t, c and p the largest d that divides a batch, with t c p d <= `gpus`. Of all p with the same number of
    layers on the fullest stage only the least, unless p is limited.

    Parameters
    ----------
    model, gpus, allowed
        What is trained, GPUs that can be used, values allowed.
    domain
        GPUs used of an HB domain, K'.
    ragged
        Whether t may neither divide K' nor be a multiple of it.

    Returns
    -------
    Rows of t, c, p, d in order; counts.
    """
    limits = dict(allowed)
    t, c, places = _degrees_at_most(model, gpus, limits, domain, ragged)
    p = np.unique([-(-many // -(-many // n)) for many in places for n in range(1, many + 1)])
    if limits["pipeline"] is not None:
        p = np.asarray(limits["pipeline"])
    t, c, p = (grid.ravel() for grid in np.meshgrid(t, c, p, indexing="ij"))
    most = gpus // (t * c * p)
    of_batch = []
    for batch in limits["global_batch"] or ():
        d = _data_degrees(batch, limits)
        place = np.searchsorted(d, most, "right") - 1
        of_batch.append(np.column_stack([t, c, p, d[place]])[place >= 0] if d.size else np.zeros((0, 4), int))
    splits = np.unique(np.concatenate(of_batch), axis=0)
    obstacle = _split_obstacles(model, splits, limits)
    return splits[obstacle == len(OBSTACLES)], dict(Counter([*OBSTACLES, "feasible"][i] for i in obstacle))


def all_splits_at_most(model: Transformer, gpus: int, allowed: Allowed, domain: int, ragged: bool) -> np.ndarray:
    """All splits of at most so many GPUs that divide.

    Parameters
    ----------
    model, gpus, allowed, domain, ragged
        As for `splits_at_most`.

    Returns
    -------
    Rows of t, c, p, d in order.
    """
    limits = dict(allowed)
    t, c, places = _degrees_at_most(model, gpus, limits, domain, ragged)
    p = among(np.arange(1, min(places[-1], gpus) + 1), limits["pipeline"])
    d = np.unique(np.concatenate([_data_degrees(batch, limits) for batch in limits["global_batch"] or ()]))
    grids = np.meshgrid(t, c, p, d[d <= gpus], indexing="ij")
    splits = np.column_stack([grid.ravel() for grid in grids])
    splits = splits[np.prod(splits, axis=1) <= gpus]
    return splits[_split_obstacles(model, splits, limits) == len(OBSTACLES)]
