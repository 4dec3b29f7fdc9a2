"""Names of strategies in few letters."""

from collections.abc import Mapping

import pandas as pd

from railcore.training.rank_order import PLACEMENTS


def strategy_label(row: Mapping) -> str:
    """A strategy in few letters, such as "t8 p4 d16 sp kg v2 b1 full zero1 ends pipeline near".

    sp: sequence_parallel, kg: keep_gathered, ends: ends_as_layers, whole: whole_experts.
    """
    degrees = ("tensor", "context", "expert", "pipeline", "data")
    parts = [f"{name[0]}{int(row[name])}" for name in degrees if row[name] > 1]
    parts += ["sp"] if row["sequence_parallel"] else []
    parts += ["kg"] if row.get("keep_gathered", 0) else []
    parts += [f"v{int(row['interleave'])}"] if row["interleave"] > 1 else []
    parts += [f"b{int(row['micro_batch'])}"]
    parts += [("", "selective", "full")[int(row["recompute"])], ("", "zero1", "zero2", "fsdp")[int(row["sharding"])]]
    parts += ["ends"] if row.get("ends_as_layers", 0) else []
    parts += ["whole"] if row.get("whole_experts", 0) else []
    place = int(row.get("placement", 0))
    return " ".join(part for part in [*parts, PLACEMENTS[place] if place else ""] if part)


def with_strategy_labels(table: pd.DataFrame) -> pd.DataFrame:
    """A table of strategies with their `strategy_label` in the column strategy."""
    return table.assign(strategy=[strategy_label(row) for row in table.to_dict("records")])
