"""Checks of arguments, and the inverse of a monotone function."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
_HALVINGS = 100


def positive(name: str, value: ArrayLike, least: float | None = None) -> Floats:
    """`value` as floats; ValueError unless finite and above 0, or at least `least` where that is given."""
    array = np.asarray(value, dtype=float)
    wanted = "a positive number" if least is None else f"{least:g} or more"
    if not np.all(np.isfinite(array) & (array > 0 if least is None else array >= least)):
        raise ValueError(f"{name} is {value!r}: give {wanted}")
    return array


def probability(name: str, value: ArrayLike, above: float | None = None) -> Floats:
    """`value` as floats; ValueError unless at least 0 (above `above` where that is given) and below 1."""
    array = np.asarray(value, dtype=float)
    if not np.all((array >= 0 if above is None else array > above) & (array < 1)):
        raise ValueError(f"{name} is {value!r}: give a probability {'from' if above is None else 'above'} 0, below 1")
    return array


def inverse(function: Callable[[Floats], Floats], target: ArrayLike, low: float, high: float) -> Floats:
    """The x in [low, high] at which a monotone `function` is `target`, by halving log x; an end where it is beyond."""
    target = np.asarray(target, dtype=float)
    rising = function(np.full_like(target, high)) >= function(np.full_like(target, low))
    left, right = np.full_like(target, np.log(low)), np.full_like(target, np.log(high))
    for _ in range(_HALVINGS):
        middle = (left + right) / 2
        beyond = (function(np.clip(np.exp(middle), low, high)) >= target) == rising
        left, right = np.where(beyond, left, middle), np.where(beyond, middle, right)
    return np.clip(np.exp((left + right) / 2), low, high)
