"""Values that catalog rows may have between low and high: quantiles, and random draws.

The median of a row is its value. Half of the probability lies between low and value and half between value and high,
on the scale of the row's shape: linear, log (logarithmic), or whole (linear, rounded to whole numbers). It is densest
at the value and falls evenly to nothing at the ends. Where low or high is the value itself, half of the probability is
on the value.
"""

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from railcore import catalog


def quantile(row: catalog.Value, q: ArrayLike) -> np.ndarray:
    """Values of a row at cumulative probabilities q from 0 to 1, in SI units and in the array shape of q.

    x = v + (e - v) s, for log x = v (e / v)^s; value v, end e (low for q < 0.5, else high), way to it
    s = 1 - sqrt(1 - |2 q - 1|).
    A row that lacks low or high, or whose low and high are equal, has its value everywhere.
    """
    q = np.asarray(q, float)
    if not _has_range(row):
        return np.full(q.shape, row.value)
    end, way = np.where(q < 0.5, row.low, row.high), 1 - np.sqrt(1 - np.abs(2 * q - 1))
    on_log_scale = row.shape == "log"
    values = row.value * (end / row.value) ** way if on_log_scale else row.value + (end - row.value) * way
    return np.asarray(np.clip(np.rint(values) if row.shape == "whole" else values, row.low, row.high))


def draws(rows: Iterable[catalog.Value], n: int, seed: int = 1) -> dict[tuple[str, str, str], np.ndarray]:
    """n random values of each row that has a range, by (family, name, parameter), in SI units.

    They are stratified (a Latin hypercube): of n equal parts of a row's probability, each gives one value, in random
    order. A row's values depend on its key, n and seed alone, not on the other rows: draw i is the same case for all
    who ask. Rows without a range are left out: their value is certain. seed: 0 or more.
    """
    values = {}
    for row in rows:
        if _has_range(row):
            key = (row.family, row.name, row.parameter)
            digest = hashlib.sha256("\n".join(key).encode()).digest()
            random = np.random.default_rng([seed, int.from_bytes(digest, "big")])
            values[key] = quantile(row, (random.permutation(n) + random.random(n)) / n)
    return values


def _has_range(row: catalog.Value) -> bool:
    return row.low is not None and row.high is not None and row.low < row.high
