"""Checks of arguments. Each gives the value back, or raises ValueError with argument, value and remedy."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_MOST_SHOWN, _MOST_LETTERS = 16, 100  # numbers of an array that is refused; letters of another value
LARGEST = 1e60  # of a finite number: products of several are finite too
MOST_WHOLE = 2.0**52 - 1
_MOST_CAST = math.nextafter(2.0**63, 0.0)  # largest float that 63 bits hold: a cast turns a larger one negative
ABOVE_0, BELOW_1 = math.nextafter(0.0, 1.0), math.nextafter(1.0, 0.0)


def _array(name: str, value: ArrayLike, wanted: str) -> NDArray[Any]:
    try:
        array = np.asarray(value)
        if array.dtype.kind == "O":  # whole numbers beyond 64 bits, or no numbers
            array = np.array([float(number) for number in array.flat]).reshape(array.shape)
    except (TypeError, ValueError):
        array = np.asarray("")
    except OverflowError:
        raise ValueError(f"{name} is {short(value)}, more than a float holds: give {wanted}") from None
    if array.dtype.kind not in "iuf":
        raise ValueError(f"{name} is {short(value)}: give {wanted}")
    return array


def short(value: Any) -> str:
    """A value that is refused, in few letters on one line."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # more digits than Python writes
        text = f"a {type(value).__name__}"
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}..."


def _shown(name: str, value: ArrayLike, good: Any) -> str:
    """A value that is refused; of a long array the first number that is."""
    if np.size(value) <= _MOST_SHOWN:
        return f"{name} is {value!r}"
    at = tuple(int(index[0]) for index in np.nonzero(~good))
    return f"{name} is {np.asarray(value)[at]!s} at place {at[0] if len(at) == 1 else at}"


def numbers(name: str, value: ArrayLike, wanted: str = "a number") -> Floats:
    """Floats, infinite ones and NaN too. Refuses texts, None and what else is no number."""
    return _array(name, value, wanted).astype(float, copy=False)


def within(array: NDArray[Any], low: float, high: float) -> bool:
    """Whether all numbers of an array are from `low` to `high`. A NaN is not: it is the smallest and the largest."""
    return not array.size or bool(low <= array.min() and array.max() <= high)


def _floats(name: str, value: ArrayLike, low: float, high: float, wanted: str) -> Floats:
    array = numbers(name, value, wanted)
    if not within(array, low, high):
        raise ValueError(f"{_shown(name, value, (array >= low) & (array <= high))}: give {wanted}")
    return array


def positive(name: str, value: ArrayLike, unit: str = "") -> Floats:
    """Finite floats above 0. unit: of the argument, for the message."""
    return _floats(name, value, ABOVE_0, LARGEST, f"a positive number{f' of {unit}' if unit else ''}")


def at_least(name: str, value: ArrayLike, least: float = 0.0, most: float = math.inf) -> Floats:
    """Finite floats.

    Parameters
    ----------
    name, value
        Of the argument.
    least, most
        Smallest and largest value allowed.

    Returns
    -------
    The value as floats.
    """
    low, high = max(least, -LARGEST), min(most, LARGEST)
    array = numbers(name, value, f"a number of at least {least:g}")
    if within(array, low, high):
        return array
    if most < math.inf:
        wanted = f"a number from {least:g} to {most:g}"
    elif least == -math.inf:
        wanted = "a finite number"
    else:
        wanted = f"{least:g} or more" if within(array, -LARGEST, LARGEST) else f"a finite number of at least {least:g}"
    return _floats(name, value, low, high, wanted)


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
    low, high = ABOVE_0 if above_0 else 0.0, BELOW_1 if below_1 else 1.0
    ends = f"{'above' if above_0 else 'from'} 0 {'and below' if below_1 else 'to'} 1"
    return _floats(name, value, low, high, f"a share {ends}")


def whole(name: str, value: ArrayLike, least: float = 1, most: float | None = None) -> Ints:
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
    upwards = "whole numbers" if least == -math.inf else f"whole numbers of at least {least}"
    wanted = upwards if most is None else f"whole numbers from {least} to {most}"
    array, low, high = _array(name, value, wanted), max(least, -MOST_WHOLE), MOST_WHOLE if most is None else most
    floats = array.dtype.kind not in "iu"
    if floats:
        high = min(high, _MOST_CAST)
    if not within(array, low, high) or (floats and np.any(array != np.floor(array))):
        good = (array >= low) & (array <= high) & (array == np.floor(array))
        raise ValueError(f"{_shown(name, value, good)}: give {wanted}")
    return array.astype(np.int64)


def one_of(name: str, value: Any, choices: Iterable[Any]) -> Any:
    """One of the choices."""
    choices = list(choices)
    try:
        known = value in choices
    except ValueError:  # an array or a table
        known = False
    if not known:
        raise ValueError(f"{name} is {short(value)}: give one of {', '.join(map(str, choices))}")
    return value
