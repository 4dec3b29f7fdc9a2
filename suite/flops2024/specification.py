"""The datacenter that flops2024 specifies, and what the document prints of it, by its claims' names.

Prices, powers, memory and speeds of its own stand in place of the catalog's. In notebooks the parameter `document`
names whose rows these are; empty for the catalog's alone. Its price book counts with them: `book_of_document`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.catalog.units import Gbps, show
from railcore.datacenter.exposed import least_wan_Bps
from railcore.datacenter.layouts import Layer, model_layer, rack_layout
from railcore.datacenter.sizing import DatacenterSite, Sizing, datacenter_site, datacenter_size
from railcore.network.price_books import DEFAULT_BOOK
from railcore.training.formats import Precision
from railcore.training.formats import catalog_precision as precision_of
from railcore.training.transformer import Transformer
from suite.flops2024.training_case import TrainingCase
from suite.ledger import claims

DOCUMENT = "flops2024"  # of the catalog's prices and sites
PLATFORM = "GB200 NVL72"
Cases = Mapping[str, TrainingCase]  # by name, such as "dense" and "moe"


def book_of_document(document: str, price_book: str | None) -> tuple[str, str]:
    """The document whose own rows of a platform count, and the price book.

    Without a price book the document's own, or `DEFAULT_BOOK` without a document. Another book than the document's puts
    the catalog's rows in place of its prices and powers.
    """
    book = price_book or document or DEFAULT_BOOK
    return (document if book == document else ""), book


def document_size(
    budget_usd: ArrayLike | None = None,
    platform: str = PLATFORM,
    document: str = DOCUMENT,
    price_book: str | None = None,
    **changes: Any,
) -> Sizing:
    """`datacenter_size` of the document's budget and platform, with its lowest and highest PUE as an array of two.

    The document gives the network a share of budget and power; without it the network is counted part by part.

    Parameters
    ----------
    budget_usd
        By default the document's [USD].
    platform
        Of the catalog's platforms.
    document, price_book
        Whose own rows replace the catalog's where it has some, "" for none; and the price book, as in
        `book_of_document`.
    **changes
        As in `datacenter_size`: rate_format, network, and fields of a `Sizing`.

    Returns
    -------
    A `Sizing`.
    """
    whose, book = book_of_document(document, price_book)
    if whose and "pue" not in changes:
        energy = catalog.item("prices", "energy")
        changes["pue"] = np.array([energy[f"pue_{end}_{whose}"] for end in ("low", "high")])
    budget = catalog.item("prices", DOCUMENT)["datacenter_price"] if budget_usd is None else budget_usd
    changes.setdefault("network", "shares" if whose else "parts")
    return datacenter_size(budget, platform, book, whose, **changes)


def document_site(
    racks: ArrayLike, platform: str = PLATFORM, document: str = DOCUMENT, rate: str = "bf16_dense_rate", **changes: Any
) -> DatacenterSite:
    """`datacenter_site` in the document's datacenters, by default of its platform.

    Parameters
    ----------
    racks
        Of all datacenters.
    platform
        Of the catalog's platforms.
    document
        Whose own rows replace the catalog's where it has some, "" for none.
    rate, **changes
        As in `datacenter_site`.

    Returns
    -------
    A `DatacenterSite`.
    """
    return datacenter_site(racks, platform, rate, DOCUMENT, document, **changes)


def memory_chart_arguments(
    model: str, one: Layer, budget_usd: float, platform: str, datacenters: int, price_book: str | None = None
) -> dict[str, Any]:
    """Memory of a GPU by tensor-parallel degree on the racks that a budget buys, by the catalog's own rows.

    Parameters
    ----------
    model, one
        Name and layer of a model.
    budget_usd, platform, datacenters
        Of the whole datacenter [USD]; of the catalog; that share the racks.
    price_book
        Of the catalog, by default `DEFAULT_BOOK`.

    Returns
    -------
    Arguments of `charts.tradeoffs.memory_by_degree`: data, limit_bytes and title.
    """
    machine = document_size(budget_usd, platform, "", price_book)
    where = document_site(int(machine.racks), platform, "", datacenters=datacenters)
    plan = rack_layout(one, where, strict=False)
    if plan.tensor:
        trains = f"{plan.replicas_here:,.0f} replicas in each datacenter"
    elif np.isnan(plan.device_bytes):
        trains = "does not fit: a layer needs more memory than a rack has"
    else:
        trains = f"does not fit: {plan.layers * plan.datacenters:,.0f} racks needed"
    degrees = np.array([t for t in range(1, where.rack_gpus + 1) if where.rack_gpus % t == 0])
    parts = {"state_bytes": one.layer_state_bytes / degrees, "activation_bytes": one.activation_bytes / degrees}
    power = show(float(np.max(machine.total_w)), "W", 3)
    return {
        "data": pd.DataFrame({"model": model, "tensor": degrees, **parts, "bytes": sum(parts.values())}),
        "limit_bytes": where.memory_bytes,
        "title": f"{machine.racks:,.0f} racks, {machine.gpus:,.0f} GPUs, {power}; {trains}",
    }


def case_with_settings(
    case: TrainingCase, platform: str, rule: str, rate: str, precision: str, datacenters: int, **speeds_gbps: float
) -> TrainingCase:
    """A case under other settings, as a person gives them.

    Parameters
    ----------
    case, platform
        What is changed, and the catalog's platform whose GPU it has.
    rule, rate, precision
        Of `exposed.OVERLAP_RULES`, of the GPU's rows, of the catalog's precisions.
    datacenters
        That share the racks.
    speeds_gbps
        hb_gbps, nic_gbps, wan_gbps: scale-up, scale-out and wide-area bandwidth of a GPU, one direction [Gbps].

    Returns
    -------
    A `TrainingCase`.
    """
    gpu = catalog.item("gpus", catalog.item("platforms", platform)["gpu"])
    speeds = {name.replace("_gbps", "_Bps"): speed * Gbps for name, speed in speeds_gbps.items()}
    site = {"gpu_rate": gpu[rate], "datacenters": datacenters, **speeds}
    return case.changed(rule=rule, precision=precision_of(precision), site=site)


MACHINE_COLUMNS = {  # names with their units, as columns of a table
    "compute_power": "power of the racks_w",
    "it_power": "power of all IT_w",
    "total_power_low": "power of the facility, least_w",
    "total_power_high": "power of the facility, most_w",
    "dense_rate": "dense FLOP/s",
    "sparse_rate": "sparse FLOP/s",
    "memory": "GPU memory_bytes",
    "network": "network_usd",
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


def model_quantities(case: TrainingCase, memory_bytes: float) -> dict[str, float]:
    """A model and its layout in numbers; memory in bytes.

    device_memory: share of a layer's training state at the plan's degree; activations are offloaded. memory, total: of
    the model; master (with its working copy), gradients and optimizer are its parts. residual: activations that one
    layer keeps for one micro-batch. expert_model_params: of the layers with one expert in each. peers_per_dc: racks
    that hold a layer, as racks_per_layer_per_dc. replicas_of_dcs: with as many racks of a layer in each datacenter.
    layer_over_gpu: training state of a layer over memory_bytes.

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
        "device_memory": float(plan.device_bytes),
        "layers_per_rack": float(plan.layers_per_rack),
        "racks_per_layer_per_dc": float(plan.racks_per_layer_here),
        "peers_per_dc": float(plan.racks_per_layer_here),
        "replicas": float(plan.replicas),
        "replicas_per_dc": float(plan.replicas_here),
        "replicas_of_dcs": float(plan.replicas_here * plan.datacenters),
        "gpus_per_dc": float(plan.gpus_here),
    }


def activation_formula_error(model: Transformer, bytes_of: Precision, micro_batches: Sequence[int]) -> float:
    """Largest relative error of 10 s b h bytes against the tensors that a layer keeps, counted one by one.

    s sequence length, b micro-batch, h hidden. Source: flops2024, section 4.
    """
    printed = 10 * model.sequence_length * model.hidden
    errors = [abs(printed * b / model_layer(model, bytes_of, b).activation_bytes - 1) for b in micro_batches]
    return float(max(errors))


def communication_quantities(case: TrainingCase) -> dict[str, float]:
    """Times and bytes of one layer, by the last part of the claims' ids, in SI units.

    recompute_overhead: the scores once more over forward and backward pass. tp_bytes: 2 s b h r. dp_*: steps of the
    exchange; dp_chunk_gradients: of a rack's share, G / g. dp_masked, dp_exposed: of step 2, by the backward pass;
    compute_bound, network_bound: step 2 over the backward pass. wan_exposed: of step 3. wan_masked: least
    capacity of a GPU that hides step 3 [bytes/s]. exposed: the share.
    """
    one = case.layer
    laid, t = case.layout, case.times
    rack_reduce, site_reduce, wide, site_gather, rack_gather = t.steps_s
    quantities = {
        "forward": t.forward_s,
        "backward": t.backward_s,
        "recompute_overhead": one.score_flops / (3 * (one.linear_flops + one.score_flops)),
        "tp_bytes": one.all_reduces_per_pass * one.tensor_bytes,
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
    return {name: float(value) for name, value in quantities.items()}


def values_by_id(sections: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Values by claim id, from values by section of the ids and last part; what is no claim is left out."""
    every = {f"flops2024.{part}.{key}": value for part, values in sections.items() for key, value in values.items()}
    return {key: value for key, value in every.items() if key in claims.claims()}
