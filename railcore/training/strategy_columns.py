"""Strategies as columns: whole numbers by STRATEGY_COLUMNS, as tables of a search have them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from railcore.catalog import checks
from railcore.training.parallelism import LEVEL_NAMES, STRATEGY_SWITCHES, Strategy, level_places
from railcore.training.transformer import LEVELS
from railcore.training.unique_rows import Columns

_OPTIONAL = {  # what they are where a table lacks them
    **dict.fromkeys(("keep_gathered", "ends_as_layers", "whole_experts", "placement", "recomputed_layers"), 0),
    "recompute_group": 1,
}
_COUNTS = ("micro_batch", "tensor", "context", "expert", "pipeline", "data", "interleave")
STRATEGY_COLUMNS = (*_COUNTS, "sequence_parallel", *LEVELS, *_OPTIONAL, "global_batch")
STRATEGY_RANGES = dict.fromkeys(STRATEGY_COLUMNS, (1, 2**31)) | dict.fromkeys(STRATEGY_SWITCHES, (0, 1))
STRATEGY_RANGES |= {name: (0, len(levels) - 1) for name, levels in LEVEL_NAMES.items()}
STRATEGY_RANGES["recomputed_layers"] = (0, 2**31)


def strategy_columns(
    strategies: Mapping | Sequence | Strategy, global_batch: int | None
) -> tuple[Columns, tuple[int, ...]]:
    """Strategies as flat columns of whole numbers in their ranges, and their shape."""
    if not isinstance(strategies, Mapping | pd.DataFrame | pd.Series):
        rows = [strategies] if isinstance(strategies, Strategy) else list(strategies)
        if not rows or not all(isinstance(row, Strategy) for row in rows):
            raise ValueError(f"strategies is {strategies!r}: give a Strategy, several, or a table of their columns")
        if global_batch is None:
            raise ValueError("global_batch is missing: give the sequences of an iteration beside strategies")
        records = [row.columns(global_batch) for row in rows]
        columns = {name: [record[name] for record in records] for name in records[0]}
        strategies = records[0] if isinstance(strategies, Strategy) else columns
    elif global_batch is not None:
        strategies = {
            **{name: strategies[name] for name in STRATEGY_COLUMNS if name in strategies},
            "global_batch": global_batch,
        }
    if missing := [name for name in STRATEGY_COLUMNS if name not in strategies and name not in _OPTIONAL]:
        names = ", ".join(STRATEGY_COLUMNS)
        raise ValueError(f"strategies lack {', '.join(missing)}: give a Strategy, or an array for each of {names}")
    arrays = np.broadcast_arrays(
        *(column_numbers(name, strategies.get(name, _OPTIONAL.get(name))) for name in STRATEGY_COLUMNS)
    )
    flat = {name: array.ravel() for name, array in zip(STRATEGY_COLUMNS, arrays, strict=True)}
    if ((flat["recomputed_layers"] > 0) & (flat["recompute_group"] > 1)).any():
        raise ValueError("recomputed_layers and recompute_group are given together: groups are of all layers, give one")
    return flat, arrays[0].shape


def column_numbers(name: str, values: Any) -> np.ndarray:
    """A column's values as whole numbers in its range: names by their places, True and False as 1 and 0."""
    if name in LEVEL_NAMES:
        return level_places(name, values)
    if name in STRATEGY_SWITCHES and np.asarray(values).dtype == bool:
        values = np.asarray(values, np.int64)
    return checks.whole(name, values, *STRATEGY_RANGES[name])
