"""What flops2024 prints of a machine, of a model laid out on it and of its communication, by its claims' names."""

from collections.abc import Mapping, Sequence

import numpy as np

from railcore.facts import claims
from railcore.systems.datacenter.exposed import Case, least_wan_Bps
from railcore.systems.datacenter.layouts import Precision, layer
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


def machine_quantities(machine: Sizing) -> dict[str, float]:
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


def model_quantities(case: Case, memory_bytes: float) -> dict[str, float]:
    """A model and its layout in numbers; memory in bytes.

    device_memory: share of a layer and of the activations of one micro-batch at the plan's degree. memory, total: of
    the model; master (with its working copy), gradients and optimizer are its parts. residual: activations that one
    layer keeps for one micro-batch. expert_model_params: of the layers with one expert in each. peers_per_dc: racks
    that hold a layer, as racks_per_layer_per_dc. layer_over_gpu: training state of a layer over memory_bytes.

    memory_bytes: of a GPU. tensor_parallel is the smallest degree of all, dividing a rack or not, whose share fits it.
    """
    model, one, plan = case.model, case.layer, case.layout
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


def activation_formula_error(model: Transformer, bytes_of: Precision, micro_batches: Sequence[int]) -> float:
    """Largest relative error of 10 s b h bytes against the tensors that a layer keeps, counted one by one.

    s sequence length, b micro-batch, h hidden. Source: flops2024, section 4.
    """
    errors = [
        abs(10 * model.sequence_length * b * model.hidden / layer(model, bytes_of, b).activation_bytes - 1)
        for b in micro_batches
    ]
    return float(max(errors))


def communication_quantities(case: Case) -> dict[str, float]:
    """Times and bytes of one layer, by the last part of the claims' ids, in SI units.

    recompute_overhead: the scores once more over forward and backward pass. tp_bytes: 2 s b h r. dp_*: steps of the
    exchange; dp_chunk_gradients: of a rack's share, G / g. dp_masked, dp_exposed: of step 2, by the backward pass;
    compute_bound, network_bound: step 2 over the backward pass. wan_exposed: of step 3. wan_masked: least
    capacity of a GPU that hides step 3 [bytes/s]. exposed: the share.
    """
    one = case.layer
    laid, t = case.layout, case.times
    rack_reduce, site_reduce, wide, site_gather, rack_gather = t.steps_s
    found = {
        "forward": t.forward_s,
        "backward": t.backward_s,
        "recompute_overhead": one.score_flops / (3 * (one.linear_flops + one.score_flops)),
        "tp_bytes": one.exchanges * one.tensor_bytes,
        "tp_input_bytes": one.tensor_bytes,
        "tp_time": t.tensor_s,
        "pp_bytes": one.tensor_bytes / laid.tensor,
        "pp_time": t.pipeline_s,
        "layer_gradients": one.gradient_bytes,
        "dp_scale_up_all_reduce": rack_reduce,
        "dp_scale_out_all_reduce": site_reduce,
        "dp_scale_out_all_gather": site_gather,
        "dp_scale_up_all_gather": rack_gather,
        "dp_chunk_gradients": one.gradient_bytes / laid.layers_per_rack,
        "wan_bytes": t.steps_bytes[2],
        "scale_up_peers": laid.layers_per_rack - 1,
        "scale_out_peers": laid.racks_per_layer_here - 1,
        "compute_bound": site_reduce / t.backward_s,
        "network_bound": site_reduce / t.backward_s,
        "dp_masked": min(site_reduce, t.backward_s),
        "dp_exposed": max(0.0, site_reduce - t.backward_s),
        "wan_exposed": max(0.0, wide - t.backward_s),
        "wan_masked": least_wan_Bps(one, laid, case.site, t.backward_s),
        "exposed": t.share(case.rule),
    }
    return {name: float(value) for name, value in found.items()}


def values_by_id(sections: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Values by claim id, from values by section of the ids and last part; what is no claim is left out."""
    every = {f"flops2024.{part}.{key}": value for part, found in sections.items() for key, value in found.items()}
    return {key: value for key, value in every.items() if key in claims.claims()}
