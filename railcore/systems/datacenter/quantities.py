"""Quantities of a machine and of a model laid out on it, by the names that people quote, and as tables."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from railcore.systems.datacenter.layer import Layer, Precision, layer
from railcore.systems.datacenter.layout import Layout, device_bytes
from railcore.systems.datacenter.sizing import Sizing
from railcore.training.transformer import Transformer

UNITS = {  # names with their units, as columns of a table
    "compute_power": "compute_w",
    "it_power": "it_w",
    "total_power_low": "total_low_w",
    "total_power_high": "total_high_w",
    "dense_rate": "dense_flops",
    "sparse_rate": "sparse_flops",
    "memory": "memory_bytes",
    "network": "network_usd",
}


def of_machine(machine: Sizing) -> dict[str, float]:
    """A `Sizing` in numbers: racks, gpus, compute, IT and total power [W], dense and sparse rate [FLOP/s].

    Memory in bytes, network in USD. With one PUE total_power_low and total_power_high are the same.
    """
    totals = np.ravel(machine.total_w)
    return {
        "racks": float(machine.racks),
        "gpus": float(machine.gpus),
        "compute_power": float(machine.racks_w),
        "it_power": float(machine.it_w),
        "total_power_low": float(totals.min()),
        "total_power_high": float(totals.max()),
        "dense_rate": float(machine.dense_flops),
        "sparse_rate": float(machine.sparse_flops),
        "memory": float(machine.memory_bytes),
        "network": float(machine.network_usd),
    }


def of_model(model: Transformer, one: Layer, plan: Layout, memory_bytes: float) -> dict[str, float]:
    """A model and its layout in numbers; memory in bytes.

    device_memory: training state of a GPU. memory, total: of the model, master with its working copy, gradients and
    optimizer. residual: activations that one layer keeps for one micro-batch. expert_model_params: of the layers with
    one expert in each. peers_per_dc: racks that hold a layer, as racks_per_layer_per_dc. layer_over_gpu: training state
    of a layer over memory_bytes, a GPU's.
    """
    kinds, state = model.parameters(), one.state_bytes
    return {
        "params": model.total_parameters,
        "active_params": model.active_parameters,
        "expert_model_params": model.layers * (model.attention_weights + model.ffn_weights),
        "router_share": kinds["router"] / model.total_parameters,
        "memory": float(sum(state.values())),
        "total": float(sum(state.values())),
        "master": float(state["model"]),
        "gradients": float(state["gradients"]),
        "optimizer": float(state["optimizer"]),
        "residual": float(one.activation_bytes),
        "layer_over_gpu": float(one.layer_state_bytes / memory_bytes),
        "tensor_parallel": float(plan.tensor),
        "pipeline_parallel": float(plan.layers),
        "device_memory": float(plan.device_bytes),
        "layers_per_rack": float(plan.layers_per_rack),
        "racks_per_layer_per_dc": float(plan.racks_per_layer_here),
        "peers_per_dc": float(plan.racks_per_layer_here),
        "replicas": float(plan.replicas),
        "replicas_per_dc": float(plan.replicas_here),
        "gpus_per_dc": float(plan.gpus_here),
    }


def activation_formula_error(
    model: Transformer, kept: Precision, micro_batches: Sequence[int], degrees: Sequence[int]
) -> float:
    """Largest relative error of 10 s b h / t against the tensors that a layer keeps, counted one by one [bytes].

    s sequence length, b micro-batch, h hidden, t tensor-parallel degree. Source: flops2024, section 4.
    """
    errors = [
        abs(10 * model.sequence_length * b * model.hidden / t / (layer(model, kept, b).activation_bytes / t) - 1)
        for b in micro_batches
        for t in degrees
    ]
    return float(max(errors))


def memory_by_degree(layers: Mapping[str, Layer], rack_gpus: int) -> pd.DataFrame:
    """Memory of a GPU by model and by every tensor-parallel degree that divides a rack.

    Columns model, tensor, state_bytes (weights, gradients, optimizer), activation_bytes (one micro-batch), bytes.
    """
    degrees = np.array([t for t in range(1, rack_gpus + 1) if rack_gpus % t == 0])
    tables = []
    for model, each in layers.items():
        state, active = device_bytes(each, degrees)
        columns = {"tensor": degrees, "state_bytes": state, "activation_bytes": active, "bytes": state + active}
        tables.append(pd.DataFrame({"model": model, **columns}))
    return pd.concat(tables, ignore_index=True)


def by_degree(table: pd.DataFrame, memory_bytes: float) -> pd.DataFrame:
    """`memory_by_degree` with a row for each degree and a column of bytes for each model, and the models that fit."""
    wide = table.pivot(index="tensor", columns="model", values="bytes")[list(table["model"].unique())]
    fits = [", ".join(row.index[row <= memory_bytes]) for _, row in wide.iterrows()]
    return wide.add_suffix("_bytes").assign(fits=fits).rename_axis(columns=None).reset_index(names="tensor_degree")


def beside(layouts: Mapping[str, Layout], host_memory_bytes: float = np.nan) -> pd.DataFrame:
    """Layouts of models that fit, side by side.

    Rows case, tensor_degree, layers_per_rack, racks_per_layer and gpus of a datacenter, replicas (all racks) and
    replicas_used (whole racks in each datacenter), state_bytes and activation_bytes of a GPU, host_bytes and host_share
    (of host_memory_bytes, a GPU's share of its host's memory), warnings.
    """
    rows = [
        {
            "case": name,
            "tensor_degree": int(plan.tensor),
            "layers_per_rack": int(plan.layers_per_rack),
            "racks_per_layer_here": int(plan.racks_per_layer_here),
            "gpus_here": int(plan.gpus_here),
            "replicas": int(plan.replicas),
            "replicas_used": int(plan.replicas_here * plan.datacenters),
            "state_bytes": plan.device_bytes,
            "activation_bytes": plan.active_bytes,
            "host_bytes": plan.host_bytes,
            "host_share": plan.host_bytes / host_memory_bytes,
            "warnings": "; ".join(plan.warnings),
        }
        for name, plan in layouts.items()
    ]
    return pd.DataFrame(rows)
