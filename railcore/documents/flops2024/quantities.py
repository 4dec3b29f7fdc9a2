"""Quantities of a machine and of a model laid out on it, by the names that people quote, and as tables."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from railcore.facts.units import show
from railcore.systems.datacenter.layer import Layer, Precision, layer
from railcore.systems.datacenter.layout import Layout, device_bytes, layout
from railcore.systems.datacenter.site import Site
from railcore.systems.datacenter.sizing import Sizing
from railcore.training.transformer import Transformer

UNITS = {  # names with their units, as columns of a table
    "compute_power": "power of the racks_w",
    "it_power": "power of all IT_w",
    "total_power_low": "power of the facility, least_w",
    "total_power_high": "power of the facility, most_w",
    "dense_rate": "dense FLOP/s",
    "sparse_rate": "sparse FLOP/s",
    "memory": "GPU memory_bytes",
    "network": "network budget_usd",
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

    tensor_parallel: smallest degree of all, dividing a rack or not, at which memory_bytes, a GPU's, hold its share of a
    layer and of the activations of one micro-batch; all else is of the plan. device_memory: that share at the plan's
    degree. memory, total: of the model, master with its working copy, gradients and optimizer. residual: activations
    that one layer keeps for one micro-batch. expert_model_params: of the layers with one expert in each. peers_per_dc:
    racks that hold a layer, as racks_per_layer_per_dc. layer_over_gpu: training state of a layer over memory_bytes.
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
        "tensor_parallel": float(np.ceil((one.layer_state_bytes + one.activation_bytes) / memory_bytes)),
        "pipeline_parallel": float(plan.layers),
        "device_memory": float(plan.device_bytes + plan.active_bytes),
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


def trillions(table: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """A table for people with some columns in trillions, which their names then say."""
    return table.assign(**{each: table[each] / 1e12 for each in columns}).rename(
        columns={each: f"{each} [trillion]" for each in columns}
    )


def across(layers: Mapping[str, Layer], sites: Mapping[str, Site]) -> dict[str, Layout]:
    """Layout of each model on each machine, whether it fits or not, by the names of both."""
    return {
        f"{model}, {where}": layout(one, place, strict=False)
        for where, place in sites.items()
        for model, one in layers.items()
    }


def misfit(plan: Layout) -> str:
    """What keeps one model off its racks: memory, or too few racks; "" where it fits.

    The layout is one of `layout(..., strict=False)`.
    """
    if plan.tensor:
        return ""
    if np.isnan(plan.device_bytes):
        return "does not fit: a layer needs more memory than a rack has"
    return f"does not fit: {plan.layers * plan.datacenters:,.0f} racks needed"


def summary(machine: Sizing, plan: Layout) -> str:
    """A machine in a line, and how many replicas of a model it trains in each datacenter, or why none."""
    power = show(float(np.max(machine.total_w)), "W", 3)
    trains = misfit(plan) or f"{plan.replicas_here:,.0f} replicas in each datacenter"
    return f"{machine.racks:,.0f} racks, {machine.gpus:,.0f} GPUs, {power}; {trains}"


def warnings(layouts: Mapping[str, Layout]) -> pd.DataFrame:
    """What is odd but allowed about layouts: rows warning, cases (those that share it)."""
    cases: dict[str, list[str]] = {}
    for name, plan in layouts.items():
        for text in plan.warnings:
            cases.setdefault(text, []).append(name)
    return pd.DataFrame({"warning": cases.keys(), "cases": map(", ".join, cases.values())})


def beside(layouts: Mapping[str, Layout], host_memory_bytes: float = np.nan) -> pd.DataFrame:
    """Layouts of models side by side; counts of one that does not fit are 0, its bytes not a number.

    Rows case, tensor_degree, layers_per_rack, racks_per_layer and gpus of a datacenter, replicas (all racks) and
    replicas_used (whole racks in each datacenter), state_bytes and activation_bytes of a GPU, host_bytes and host_share
    (of host_memory_bytes, a GPU's share of its host's memory), note (`misfit`), warnings.
    """
    rows = [
        {
            "case": name,
            "tensor_degree": plan.tensor,
            "layers_per_rack": plan.layers_per_rack,
            "racks_per_layer_here": plan.racks_per_layer_here,
            "gpus_here": plan.gpus_here,
            "replicas": plan.replicas,
            "replicas_used": plan.replicas_here * plan.datacenters,
            "state_bytes": plan.device_bytes,
            "activation_bytes": plan.active_bytes,
            "host_bytes": plan.host_bytes,
            "host_share": plan.host_bytes / host_memory_bytes,
            "note": misfit(plan),
            "warnings": "; ".join(plan.warnings),
        }
        for name, plan in layouts.items()
    ]
    table = pd.DataFrame(rows)
    counts = list(table.columns[1:7])
    return table.assign(**table[counts].where(table["tensor_degree"] > 0, 0).astype(int))
