"""The inverse of a monotone function."""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts.checks import Floats


def inverse(function: Callable[..., Floats], target: ArrayLike, low: float, high: float, *args: ArrayLike) -> Floats:
    """The x in [low, high] at which a monotone function(x, *args) is `target`, found over log x.

    Parameters
    ----------
    function
        Of arrays, element by element.
    target, args
        Values wanted, and further arguments; they broadcast.
    low, high
        Ends of x, above 0.

    Returns
    -------
    x, the nearer end where the target is beyond it.
    """
    from scipy.optimize.elementwise import find_root

    def off(log_x: Floats, wanted: Floats, *more: Floats) -> Floats:
        return function(np.clip(np.exp(log_x), low, high), *more) - wanted

    wanted, *more = np.broadcast_arrays(np.asarray(target, dtype=float), *args)
    ends = np.full(wanted.shape, np.log(low)), np.full(wanted.shape, np.log(high))
    root = find_root(off, ends, args=(wanted, *more))
    at_low, at_high = (np.abs(off(end, wanted, *more)) for end in ends)
    return np.where(root.success, np.clip(np.exp(root.x), low, high), np.where(at_low < at_high, low, high))
