"""Memory of a GPU on each pipeline stage, by kind: the table behind `iteration_times`' memory of the fullest GPU."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from railcore.engines.strategies.critical_path import LAYERS_IN_MEMORY
from railcore.engines.strategies.iteration import strategy_columns
from railcore.engines.strategies.layer_time import LAYER_COLUMNS, layer_costs
from railcore.engines.strategies.stage_costs import STAGE_COLUMNS, stage_costs
from railcore.facts.arguments import checked
from railcore.training.machine import Machine, as_machine
from railcore.training.parallelism import Strategy, as_strategy
from railcore.training.pipeline_schedule import microbatches_in_flight
from railcore.training.runtime import MODERN, Runtime, as_runtime, checked_offload
from railcore.training.transformer import Transformer, as_model


@checked
def stage_memory(
    model: Transformer | str,
    machine: Machine | str,
    strategy: Strategy | Mapping,
    global_batch: int,
    runtime: Runtime | str = MODERN,
    offload: str | Sequence[str] = "none",
) -> pd.DataFrame:
    """Peak memory of a GPU on each pipeline stage, a row a stage.

    Activations are those of the micro-batches in flight (`in_flight`, of v chunks counting 1/v each), of the layer that
    is recomputed, and on the last stage of the logits. Where layers do not divide, each stage is taken to be as full as
    the fullest. The fullest row is the memory of `iteration_times`.

    Parameters
    ----------
    model, machine, runtime
        What is trained, on which GPU, with which software; names in the catalog do.
    strategy, global_batch
        How it is split, or a row of `search`'s tables; and the sequences of an iteration.
    offload
        What stays in the host's memory, as for `iteration_times`.

    Returns
    -------
    Columns stage, layers, in_flight, then weights, gradients, optimizer, activations, reserved and total [bytes], and
    fits.

    Raises
    ------
    ValueError
        As `iteration_times`.
    """
    model, machine, runtime = as_model(model), as_machine(machine), as_runtime(runtime)
    away, strategy = checked_offload(offload), as_strategy(strategy)
    columns, _ = strategy_columns(strategy, global_batch)
    layer = layer_costs(model, machine, runtime, {name: columns[name] for name in LAYER_COLUMNS})
    costs = stage_costs(model, machine, runtime, away, {name: columns[name] for name in STAGE_COLUMNS})
    p, v, n = strategy.pipeline, strategy.interleave, int(costs.rows["layers"].item())
    m = -(-global_batch // (strategy.data * strategy.micro_batch))
    kept = layer.kept_bytes.item()
    rows = []
    for stage in range(p):
        edge = stage in (0, p - 1)
        kind = "first" if stage == 0 else "last" if stage == p - 1 else "middle"
        layers = n - int(edge and strategy.ends_as_layers)
        flight = float(microbatches_in_flight(p, m, v, stage))
        held = LAYERS_IN_MEMORY * kept if "activations" in away else flight * layers * kept
        held += layer.working_bytes.item() + (stage == p - 1) * layer.logits_bytes.item()
        states = {name: size.item() for name, size in costs.states[kind].items()}
        rows.append({"stage": stage, "layers": layers, "in_flight": flight, **states, "activations": held})
    table = pd.DataFrame(rows).assign(reserved=machine.memory.reserved_bytes)
    total = table[["weights", "gradients", "optimizer", "activations", "reserved"]].sum(axis=1)
    return table.assign(total=total, fits=np.asarray(total <= machine.memory_bytes))
