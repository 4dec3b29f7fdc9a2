"""Names of strategies in words."""

from collections.abc import Mapping

import pandas as pd

from railcore.training.parallelism import ALL_LAYERS, LEVEL_NAMES, level_places

_DEGREES = {"tensor": "TP", "context": "CP", "expert": "EP", "pipeline": "PP", "data": "DP"}
_SWITCHES = (("sequence_parallel", "sequence parallel"), ("keep_gathered", "keeps gathered inputs"))
_RECOMPUTE = {"none": "", "selective": "selective recompute", "full": "full recompute"}
_SHARDING = {"none": "", "optimizer": "ZeRO-1", "gradients": "ZeRO-2", "weights": "FSDP"}
_LAST = (("ends_as_layers", "ends as layers"), ("whole_experts", "whole experts"))


def strategy_label(row: Mapping) -> str:
    """A strategy in words, such as "TP8 PP4 DP16, 2 chunks, micro-batch 1, sequence parallel, ZeRO-1".

    TP, CP, EP, PP and DP are the degrees of tensor, context, expert, pipeline and data parallelism; those of 1 are left
    out, and so is what is off. row: of a search's tables, or `Strategy.columns`; its batch is not part of the label.
    """
    row = {"placement": 0, **row}
    level = {name: names[level_places(name, row[name])] for name, names in LEVEL_NAMES.items()}
    degrees = [f"{short}{int(row[name])}" for name, short in _DEGREES.items() if row[name] > 1]
    parts = [" ".join(degrees) or "one GPU"]
    parts += [f"{int(row['interleave'])} chunks"] if row["interleave"] > 1 else []
    parts += [f"micro-batch {int(row['micro_batch'])}"]
    parts += [words for name, words in _SWITCHES if row.get(name, 0)]
    parts += [_recomputed(level["recompute"], row), _SHARDING[level["sharding"]]]
    parts += [words for name, words in _LAST if row.get(name, 0)]
    parts += [_placed(level["placement"])]
    return ", ".join(part for part in parts if part)


def _recomputed(level: str, row: Mapping) -> str:
    """What is recomputed, nothing for "none"."""
    some, group = int(row.get("recomputed_layers", ALL_LAYERS)), int(row.get("recompute_group", 1))
    if level == "full" and some != ALL_LAYERS:
        return f"recompute of {some} layer{'s' * (some > 1)} a stage"
    return f"full recompute of {group} layers together" if level == "full" and group > 1 else _RECOMPUTE[level]


def _placed(order: str) -> str:
    """The order of ranks, nothing for the first one."""
    if order == LEVEL_NAMES["placement"][0]:
        return ""
    return f"order {order.replace(', ', '-')}" if "," in order else order


def with_strategy_labels(table: pd.DataFrame) -> pd.DataFrame:
    """A table of strategies with their `strategy_label` in the column strategy."""
    return table.assign(strategy=[strategy_label(row) for row in table.to_dict("records")])
