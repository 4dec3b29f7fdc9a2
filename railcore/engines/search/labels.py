"""Names of strategies, in few letters and in words."""

from collections.abc import Mapping

import pandas as pd

from railcore.training.rank_order import ORDERS

_SHARDING = ("ZeRO-1", "ZeRO-2", "FSDP")


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
    return " ".join(part for part in [*parts, list(ORDERS)[place] if place else ""] if part)


def strategy_words(row: Mapping) -> str:
    """A strategy for a reader who does not know `strategy_label`.

    Such as "8 tensor ranks, 8 pipeline stages of 12 chunks and 64 data ranks, with micro-batches of 3 sequences,
    sequence parallelism and optimizer states shared by data ranks (ZeRO-1)".
    """
    degrees = [f"{int(row[name])} {name} ranks" for name in ("tensor", "context", "expert") if row[name] > 1]
    chunks = f" of {int(row['interleave'])} chunks" if row["interleave"] > 1 else ""
    degrees += [f"{int(row['pipeline'])} pipeline stages{chunks}"] if row["pipeline"] > 1 else []
    degrees += [f"{row['data']:,.0f} data ranks"] if row["data"] > 1 else []
    size = int(row["micro_batch"])
    options = [f"micro-batches of {size} sequence{'s' * (size > 1)}"]
    options += ["sequence parallelism"] if row["sequence_parallel"] else []
    options += ["gathered inputs kept for the backward pass"] if row.get("keep_gathered", 0) else []
    options += [("", "attention scores recomputed", "all layers recomputed")[int(row["recompute"])]]
    shared = "optimizer states", "optimizer states and gradients", "optimizer states, gradients and weights"
    names = ("", *(f"{what} shared by data ranks ({name})" for what, name in zip(shared, _SHARDING, strict=True)))
    options += [names[int(row["sharding"])]]
    options += ["embedding and loss in the place of a layer each"] if row.get("ends_as_layers", 0) else []
    options += ["whole experts on each tensor rank"] if row.get("whole_experts", 0) else []
    place = int(row.get("placement", 0))
    options += [f"ranks placed {list(ORDERS)[place]}"] if place else []
    return f"{_listed(degrees or ['one rank'])}, with {_listed([option for option in options if option])}"


def _listed(texts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def with_strategy_labels(table: pd.DataFrame) -> pd.DataFrame:
    """A table of strategies with their `strategy_label` in the column strategy."""
    return table.assign(strategy=[strategy_label(row) for row in table.to_dict("records")])
