"""One result with one input changed at a time: the table behind a tornado plot."""

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from railcore.catalog.units import number, significant


def tornado_table(
    ends: Mapping[str, tuple[Any, Any]],
    result: Callable[[str, Any], float],
    centre: float,
    text: Callable[[str, Any], str] = lambda _, value: number(value, 4),
) -> pd.DataFrame:
    """The result with each input at its low and at its high, all others at their own value; widest swing first.

    Parameters
    ----------
    ends
        Low and high value of each input, by its name; values of any kind.
    result
        The result for (name, value): that input has the value, all others their own. NaN where there is none.
    centre
        The result with every input at its own value.
    text
        How a person reads the (name, value) of an input; four significant digits by default.

    Returns
    -------
    Columns input, low, high (texts), at_low, at_high, centre (results), swing (largest of the three less the smallest,
    without those that are NaN). Inputs of equal swing keep their order.
    """
    rows = [
        (name, text(name, low), text(name, high), float(result(name, low)), float(result(name, high)))
        for name, (low, high) in ends.items()
    ]
    table = pd.DataFrame(rows, columns=["input", "low", "high", "at_low", "at_high"]).assign(centre=float(centre))
    results = table[["at_low", "at_high", "centre"]]
    table["swing"] = results.max(axis=1) - results.min(axis=1)
    by_swing = {"key": lambda swing: swing.map(lambda value: significant(value, 9)), "ignore_index": True}
    return table.sort_values("swing", ascending=False, kind="stable", **by_swing)
