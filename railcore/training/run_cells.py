"""Cells of a run (data/run_columns.csv) of objects: what `runs.predictions` makes the same objects of again."""

from dataclasses import fields

from railcore.training.parallelism import Strategy
from railcore.training.runtime import Runtime
from railcore.training.transformer import Transformer

_DEGREES = {
    **{"tp": "tensor", "cp": "context", "pp": "pipeline", "dp": "data", "ep": "expert"},
    **{"interleave": "interleave", "microbatch": "micro_batch", "recomputed_layers": "recomputed_layers"},
}
_IN_COLUMNS = (*_DEGREES.values(), "recompute", "sharding", "sequence_parallel", "ends_as_layers", "whole_experts")


def strategy_cells(strategy: Strategy) -> dict[str, str]:
    """Cells of a strategy. Raises ValueError for a field that no column has, such as another order of ranks."""
    plain = Strategy()
    for field in fields(Strategy):
        value = getattr(strategy, field.name)
        if field.name not in (*_IN_COLUMNS, "warnings") and value != getattr(plain, field.name):
            raise ValueError(f"{field.name} is {value!r}, which a measured run cannot say: leave it out")
    cells = {column: str(getattr(strategy, name)) for column, name in _DEGREES.items()}
    cells |= {"recompute": strategy.recompute, "sharding": strategy.sharding}
    cells |= {"sequence_parallel": str(int(strategy.sequence_parallel)), "gpus": str(strategy.gpus)}
    cells |= {"pipeline_layout": "ends" if strategy.ends_as_layers else "even"}
    return cells | {"expert_tensor": str(1 if strategy.whole_experts else strategy.tensor)}


def runtime_cells(runtime: Runtime) -> dict[str, str]:
    """Cells of what software does with experts, beside its name: blanks would stand for others."""
    dispatcher = "deepep" if runtime.dispatcher == "nodes" else "alltoall"
    cells = {"dispatcher": dispatcher, "expert_overlap": str(int(runtime.overlap_expert)), "graphs": runtime.graphs}
    return cells | {"capacity": str(runtime.capacity), "runtime": runtime.name}


def model_cells(model: Transformer) -> dict[str, str]:
    """Cells of a model that is known by its name."""
    cells = {"architecture": model.name, "model": model.name}
    cells |= {"seq_len": str(model.sequence_length), "vocab": str(model.vocabulary)}
    if model.lora_rank:
        cells |= {"lora_rank": str(model.lora_rank), "lora_targets": " ".join(model.lora_targets)}
        cells |= {"frozen_bytes": str(model.frozen_bytes)}
    return cells
