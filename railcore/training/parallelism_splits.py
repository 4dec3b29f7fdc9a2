"""What each way of parallelism splits: a GPU's memory and compute, and what it sends, beside one GPU alone."""

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pandas as pd

from railcore.catalog.arguments import Count
from railcore.training.formats import WEIGHT_BYTES
from railcore.training.layer import layer_costs
from railcore.training.machine import IDEAL_KERNELS, Machine
from railcore.training.parallelism import Strategy
from railcore.training.rank import LAYER_COLUMNS
from railcore.training.runtime import MODERN
from railcore.training.transfers import transfer_table
from railcore.training.transformer import Transformer

_EQUAL = 1e-3  # relative
_HELD = ("weights", "gradients", "optimizer", "activations")  # by a GPU


def pure_strategies(degree: int) -> dict[str, Strategy]:
    """For each way of parallelism, by its usual name, the strategy that splits over `degree` GPUs in this way alone."""
    return {
        "DP": Strategy(data=degree),
        "FSDP": Strategy(data=degree, sharding="weights"),
        "TP": Strategy(tensor=degree),
        "TP & SP": Strategy(tensor=degree, sequence_parallel=True),
        "CP": Strategy(context=degree),
        "PP": Strategy(pipeline=degree),
        "EP": Strategy(data=degree, expert=degree),
    }


def parallelism_comparison(
    model: Transformer,
    mixture: Transformer,
    machine: Machine,
    degree: Count,
    batch: int,
    kept: Collection[str] = (),
) -> pd.DataFrame:
    """What each of `pure_strategies` splits, beside one GPU that has the whole batch, and what a GPU sends.

    A GPU takes its part of the batch at once, a pipeline as `degree` micro-batches. Embeddings are left out. EP is
    shown on the mixture, without what its data ranks split and send; CP without the sum of gradients.

    Parameters
    ----------
    model, mixture
        A dense model; a mixture of experts.
    machine
        A GPU, for its rates.
    degree
        GPUs of each way.
    batch
        [sequences].
    kept
        What is not gathered again in the backward pass, as for `transfer_table`. Memory is without it.

    Returns
    -------
    Columns strategy; weights_bytes, gradients_bytes, optimizer_bytes, experts_bytes (their weights), activations_bytes
    of a GPU; products_s, elementwise_s of a GPU in an iteration (rates alone); experts_run: of a mixture layer, on a
    GPU; sent_bytes of a GPU; memory, compute: what of these is 1 / degree of one GPU's; communication: pass and
    operation of the transfers; per: how often; one_gpu_bytes, one_gpu_s: memory and time of one GPU that has all.

    Raises
    ------
    ValueError
        Unless degree divides the batch, for a model with adapters, and as `transfer_table`.
    """
    if batch % degree:
        raise ValueError(f"batch is {batch}: give a multiple of degree {degree}")
    if model.lora_rank:
        raise ValueError(
            f"lora_rank is {model.lora_rank}: the table is of models whose weights are all trained, give 0"
        )
    ways, rows = pure_strategies(degree), []
    for name, strategy in ways.items():
        shape = replace(mixture if name == "EP" else model, vocabulary=1, positions=0)
        sizes, alone, data = (_sizes(shape, machine, plan, batch) for plan in (strategy, Strategy(), ways["DP"]))
        split = [key for key in alone if alone[key] and abs(sizes[key] * degree / alone[key] - 1) < _EQUAL]
        if name == "EP":
            split = [key for key in split if data[key] == alone[key]]
        table = transfer_table(shape, replace(strategy, micro_batch=1), batch, MODERN, kept=kept)
        kind = {"EP": "expert", "CP": "context"}.get(name)
        table = table[(table["kind"] == kind) if kind else ~table["stages"].isin(("first", "last", "ends"))]
        compute = " ".join(key.removesuffix("_s").removesuffix("_run") for key in split if key.endswith(("_s", "_run")))
        passes = table["pass"].replace("after", "backward") + ":" + table["operation"]
        rows.append(
            {"strategy": name, **sizes}
            | {"sent_bytes": float(table["sent_bytes"].sum())}
            | {"memory": " ".join(key.removesuffix("_bytes") for key in split if key.endswith("_bytes"))}
            | {"compute": compute}
            | {"communication": " ".join(dict.fromkeys(passes)), "per": "/".join(dict.fromkeys(table["per"]))}
            | {"one_gpu_bytes": sum(alone[f"{key}_bytes"] for key in _HELD)}
            | {"one_gpu_s": alone["products_s"] + alone["elementwise_s"]}
        )
    return pd.DataFrame(rows)


def _sizes(model: Transformer, machine: Machine, strategy: Strategy, batch: int) -> dict[str, float]:
    t, c, p, d = strategy.tensor, strategy.context, strategy.pipeline, strategy.data
    columns = strategy.columns(batch) | {"micro_batch": batch // (d * p)}
    states = model.state_bytes(t, p, d * c, columns["sharding"], strategy.expert, whole_layers=0)
    split = (columns["micro_batch"], t, c, strategy.sequence_parallel, columns["recompute"])
    kept = sum(model.layer_activation_bytes(*split, fused_attention=True).values())
    row = {name: np.array([columns[name]]) for name in LAYER_COLUMNS}
    rates = layer_costs(model, machine.changed(**IDEAL_KERNELS), MODERN, row)
    moves = layer_costs(model, machine.changed(kernel_s=0.0), MODERN, row)
    return {
        **{f"{name}_bytes": float(size) for name, size in states.items()},
        "experts_bytes": float(WEIGHT_BYTES * model.stage_parameters(t, p, strategy.expert)[1]),
        "activations_bytes": float(model.layers * kept),
        "products_s": float(model.layers * (rates.seconds["linear"] + rates.seconds["attention"]).item()),
        "elementwise_s": float(model.layers * moves.seconds["elementwise"].item()),
        "experts_run": model.experts / strategy.expert,
    }
