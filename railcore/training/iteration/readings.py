"""Which reading of a document serves most of its numbers: every combination of what it leaves open, held against them.

A reading is a row of choices; the quantities are computed for all rows at once by whoever asks.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from railcore.facts import units

if TYPE_CHECKING:
    import pandas as pd


def combinations(ours: Mapping, choices: Mapping[str, Sequence]) -> "pd.DataFrame":
    """Every combination of `choices`, one row each, with the reading `ours` as row 0.

    Raises ValueError where `ours` and `choices` name different things.
    """
    import pandas as pd

    if set(ours) != set(choices):
        raise ValueError(f"ours names {sorted(ours)}: give one choice for each of {sorted(choices)}")
    rows = pd.DataFrame(list(product(*choices.values())), columns=list(choices))
    return pd.concat([pd.DataFrame([ours])[list(choices)], rows]).drop_duplicates(ignore_index=True)


def compared(
    readings: "pd.DataFrame",
    values: "pd.DataFrame",
    paper: Sequence[float],
    tolerance: Sequence[float],
    best: int = 8,
    **only,
) -> "pd.DataFrame":
    """Readings worth a look, with claims met, mean deviation and values; the first row is the document's own.

    Then ours (row 0 of `readings`), the `best` of all (most claims met, then least mean deviation, those with the
    same values once), the two best with the choices of `only`, and every reading that differs from ours in one choice.
    paper, tolerance: of each column of `values`, relative. Columns reading (what differs from ours), claims_met,
    mean_deviation, and those of `values`.
    """
    import pandas as pd

    off = (values / np.asarray(paper) - 1).abs()
    table = values.assign(
        claims_met=(off <= np.asarray(tolerance) + 1e-12).sum(axis=1), mean_deviation=off.mean(axis=1)
    )
    order = table.sort_values(["claims_met", "mean_deviation"], ascending=[False, True], kind="stable").index
    order = values.loc[order].round(6).drop_duplicates().index
    changed = readings.ne(readings.iloc[0])
    fits = np.logical_and.reduce(
        [readings[key] == value for key, value in only.items()] or [np.ones(len(readings), bool)]
    )
    picked = [0, *order[:best], *order[fits[order]][:2], *np.flatnonzero(changed.sum(axis=1) == 1)]
    picked = list(dict.fromkeys(int(row) for row in picked))
    said = [_said(readings.loc[row][changed.loc[row]]) for row in picked]
    printed = pd.DataFrame([paper], columns=list(values)).assign(claims_met=len(values.columns), mean_deviation=0.0)
    found = pd.concat([printed, table.loc[picked]], ignore_index=True)
    found.insert(0, "reading", ["the document", *said])
    return found[["reading", "claims_met", "mean_deviation", *values]]


def _said(changes: "pd.Series") -> str:
    texts = []
    for key, value in changes.items():
        stem, _, suffix = str(key).rpartition("_")
        symbol = {"Bps": "B/s", "flops": "FLOP/s"}.get(suffix, "")
        text = value if isinstance(value, str) else units.show(value, symbol)
        texts.append(f"{units.words(stem if symbol and stem else str(key))} {text}")
    return ", ".join(texts) or "ours"
