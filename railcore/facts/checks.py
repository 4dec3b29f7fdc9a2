"""Checks of arguments. Each gives the value back, or raises ValueError with argument, value and remedy."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def positive(name: str, value: ArrayLike, unit: str = "") -> Floats:
    """Finite floats above 0. unit: of the argument, for the message."""
    array = np.asarray(value, dtype=float)
    if not np.all(np.isfinite(array) & (array > 0)):
        raise ValueError(f"{name} is {value!r}: give a positive number{f' of {unit}' if unit else ''}")
    return array


def at_least(name: str, value: ArrayLike, least: float = 0.0) -> Floats:
    """Finite floats from `least` up."""
    array = np.asarray(value, dtype=float)
    if not np.all(np.isfinite(array) & (array >= least)):
        raise ValueError(f"{name} is {value!r}: give {least:g} or more")
    return array


def share(name: str, value: ArrayLike, *, above_0: bool = False, below_1: bool = False) -> Floats:
    """Floats from 0 to 1.

    Parameters
    ----------
    name, value
        Of the argument.
    above_0, below_1
        Refuse 0; refuse 1.

    Returns
    -------
    The value as floats.
    """
    array = np.asarray(value, dtype=float)
    low, high = array > 0 if above_0 else array >= 0, array < 1 if below_1 else array <= 1
    if not np.all(low & high):
        ends = f"{'above' if above_0 else 'from'} 0 {'and below' if below_1 else 'to'} 1"
        raise ValueError(f"{name} is {value!r}: give a share {ends}")
    return array


def whole(name: str, value: ArrayLike, least: int = 1, most: int | None = None) -> Ints:
    """Integers; whole floats become integers.

    Parameters
    ----------
    name, value
        Of the argument.
    least, most
        Smallest and, where it is given, largest value allowed.

    Returns
    -------
    The value as integers.
    """
    array = np.asarray(value)
    is_whole = array.dtype.kind in "iu" or (array.dtype.kind == "f" and bool(np.all(array == np.floor(array))))
    if not is_whole or not np.all((array >= least) & (array <= (2.0**52 - 1 if most is None else most))):
        ends = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} is {value!r}: give whole numbers {ends}")
    return array.astype(np.int64)


def one_of(name: str, value: Any, known: Iterable[Any]) -> Any:
    """One of the values known."""
    known = list(known)
    if value not in known:
        raise ValueError(f"{name} is {value!r}: give one of {', '.join(map(str, known))}")
    return value
