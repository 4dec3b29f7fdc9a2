"""Layouts of several models and machines side by side, and what keeps a model off its racks."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from railcore.facts.units import show
from railcore.systems.datacenter.layer import Layer
from railcore.systems.datacenter.layout import Layout, device_bytes, layout
from railcore.systems.datacenter.site import Site
from railcore.systems.datacenter.sizing import Sizing

_COUNTS = ["tensor_degree", "layers_per_rack", "racks_per_layer_here", "gpus_here", "replicas", "replicas_used"]


def tensor_degree_memory(layers: Mapping[str, Layer], rack_gpus: int) -> pd.DataFrame:
    """Memory of a GPU for each model and each tensor-parallel degree that divides a rack.

    Columns model, tensor, state_bytes (weights, gradients, optimizer), activation_bytes (one micro-batch), bytes.
    """
    degrees = np.array([t for t in range(1, rack_gpus + 1) if rack_gpus % t == 0])
    tables = []
    for model, each in layers.items():
        state, active = device_bytes(each, degrees)
        columns = {"tensor": degrees, "state_bytes": state, "activation_bytes": active, "bytes": state + active}
        tables.append(pd.DataFrame({"model": model, **columns}))
    return pd.concat(tables, ignore_index=True)


def fitting_models(table: pd.DataFrame, memory_bytes: float) -> pd.DataFrame:
    """`tensor_degree_memory` with a row for each degree, a column of bytes for each model, and the models that fit."""
    wide = table.pivot(index="tensor", columns="model", values="bytes")[list(table["model"].unique())]
    fits = [", ".join(row.index[row <= memory_bytes]) for _, row in wide.iterrows()]
    return wide.add_suffix("_bytes").assign(fits=fits).rename_axis(columns=None).reset_index(names="tensor_degree")


def layouts_across(layers: Mapping[str, Layer], sites: Mapping[str, Site]) -> dict[str, Layout]:
    """Layout of each model on each machine, whether it fits or not, by the names of both."""
    return {
        f"{model}, {where}": layout(one, place, strict=False)
        for where, place in sites.items()
        for model, one in layers.items()
    }


def misfit(plan: Layout) -> str:
    """Why a model does not fit its racks: memory, or too few racks; "" where it fits.

    The layout is one of `layout(..., strict=False)`.
    """
    if plan.tensor:
        return ""
    if np.isnan(plan.device_bytes):
        return "does not fit: a layer needs more memory than a rack has"
    return f"does not fit: {plan.layers * plan.datacenters:,.0f} racks needed"


def layout_summary(machine: Sizing, plan: Layout) -> str:
    """A machine in one line, and how many replicas of a model it trains in each datacenter, or why none."""
    power = show(float(np.max(machine.total_w)), "W", 3)
    trains = misfit(plan) or f"{plan.replicas_here:,.0f} replicas in each datacenter"
    return f"{machine.racks:,.0f} racks, {machine.gpus:,.0f} GPUs, {power}; {trains}"


def layout_warnings(layouts: Mapping[str, Layout]) -> pd.DataFrame:
    """Warnings of layouts, each once: columns warning, cases (names of the layouts that have it)."""
    every = [(text, name) for name, plan in layouts.items() for text in plan.warnings]
    table = pd.DataFrame(every, columns=["warning", "cases"])
    return table.groupby("warning", sort=False, as_index=False).agg(", ".join)


def layout_table(layouts: Mapping[str, Layout], host_memory_bytes: float = np.nan) -> pd.DataFrame:
    """Layouts of models side by side; counts of one that does not fit are 0, its bytes not a number.

    Columns case, tensor_degree, layers_per_rack, racks_per_layer_here and gpus_here of a datacenter, replicas (all
    racks) and replicas_used (whole racks in each datacenter), state_bytes and activation_bytes of a GPU, host_bytes and
    host_share (of host_memory_bytes, a GPU's share of its host's memory), note (`misfit`), warnings.
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
    table[_COUNTS] = table[_COUNTS].where(table["tensor_degree"] > 0, 0).astype(int)
    return table
