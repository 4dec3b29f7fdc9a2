"""A parameter that a document does not print, solved from a number that it does."""

from collections.abc import Callable

import numpy as np


def hidden_value(quantity: Callable[[float], float], target: float, near: float, span: float = 16.0) -> float:
    """Argument at which a quantity is `target`.

    Parameters
    ----------
    quantity
        Of one positive argument, monotone.
    target
        Printed value.
    near, span
        The argument is looked for from near / span to near x span.

    Returns
    -------
    The argument, not a number where none in the span gives the target.
    """
    from scipy.optimize import elementwise

    off = np.vectorize(lambda power: quantity(np.exp(power)) - target, otypes=[float])
    ends = np.log(near / span), np.log(near * span)
    found = elementwise.find_root(off, ends, tolerances={"xatol": 1e-9})
    return float(np.exp(found.x)) if found.success else float("nan")
