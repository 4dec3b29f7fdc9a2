"""The inverse of a monotone function."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts.checks import Floats

_HALVINGS = 100


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
