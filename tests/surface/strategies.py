"""Good calls of what is public in railcore.engines.strategies."""

import numpy as np

from railcore.training.iteration import iteration_setting, iteration_times, obstacle_names
from railcore.training.layer import layer_passes
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.parallelism_splits import parallelism_comparison, pure_strategies
from railcore.training.runtime import catalog_runtime
from railcore.training.stage import stage_costs
from railcore.training.strategy_columns import column_numbers, strategy_columns
from railcore.training.transformer import catalog_model

MODEL = catalog_model("Llama-3 8B")
MACHINE = catalog_machine("DGX H100")
STRATEGY = Strategy(tensor=2, pipeline=2, data=2)
RUNTIME = catalog_runtime("modern")
MIXTURE = catalog_model("DeepSeek-V3")

column_numbers("data", 2)
iteration_setting(MACHINE, RUNTIME, ())
obstacle_names(128)
strategy_columns(STRATEGY, 4)
layer_passes(
    MODEL,
    MACHINE,
    RUNTIME,
    {
        "micro_batch": np.array([2]),
        "tensor": np.array([1]),
        "context": np.array([1]),
        "expert": np.array([1]),
        "data": np.array([1]),
        "pipeline": np.array([1]),
        "sequence_parallel": np.array([0]),
        "recompute": np.array([0]),
        "keep_gathered": np.array([0]),
        "whole_experts": np.array([0]),
        "placement": np.array([0]),
    },
)
parallelism_comparison(MODEL, MIXTURE, MACHINE, 4, 8)
pure_strategies(4)
stage_costs(
    MODEL,
    MACHINE,
    RUNTIME,
    (),
    {
        "tensor": np.array([4]),
        "context": np.array([1]),
        "expert": np.array([1]),
        "pipeline": np.array([2]),
        "data": np.array([2]),
        "interleave": np.array([1]),
        "sharding": np.array([3]),
        "ends_as_layers": np.array([0]),
        "whole_experts": np.array([0]),
        "placement": np.array([0]),
    },
)
iteration_times(MODEL, MACHINE, STRATEGY.columns(64))
