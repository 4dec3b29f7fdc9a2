"""Equal rows of columns, so that what depends on them is computed once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any

import numpy as np
import pandas as pd

Columns = dict[str, np.ndarray]


def unique_places(columns: Mapping[str, np.ndarray], names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Places of the different rows, in order of appearance, and for each row the number of its equal among these.

    Parameters
    ----------
    columns
        Flat arrays of whole numbers from 0.
    names
        Columns in which rows are equal.

    Returns
    -------
    Places of first rows, and numbers.
    """
    code, codes = np.zeros((), np.int64), 1
    for name in names:
        column, span = columns[name], int(columns[name].max(initial=0)) + 1
        if codes * span > 2**62:  # number what occurs anew
            code, column = (pd.factorize(array)[0] for array in (code, column))
            codes, span = int(code.max(initial=0)) + 1, int(column.max(initial=0)) + 1
        code, codes = code * span + column, codes * span
    index, different = pd.factorize(code)
    first = np.empty(len(different), np.int64)
    first[index[::-1]] = np.arange(index.size)[::-1]  # of equal rows the last one written stays
    return first, index


def unique_rows(columns: Mapping[str, np.ndarray], names: Sequence[str]) -> tuple[Columns, np.ndarray]:
    """The different rows as columns, and for each row the number of its equal among these."""
    first, index = unique_places(columns, names)
    return {name: columns[name][first] for name in names}, index


def each_array(function: Callable[..., Any], value: Any, *others: Any) -> Any:
    """A function of every array in nested dicts, tuples, lists and dataclasses of one form, in the same form."""
    if isinstance(value, dict):
        return {name: each_array(function, item, *(other[name] for other in others)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        items = [each_array(function, *item) for item in zip(value, *others, strict=True)]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if is_dataclass(value):
        return type(value)(**each_array(function, vars(value), *(vars(other) for other in others)))  # type: ignore[misc]
    return function(value, *others)
