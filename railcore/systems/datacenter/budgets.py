"""The largest model that each platform trains for each budget, its exposed communication and its training time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from railcore.facts.units import day, show
from railcore.systems.datacenter.exposed import times
from railcore.systems.datacenter.layer import Layer, Precision, layer, precision
from railcore.systems.datacenter.layout import layout
from railcore.systems.datacenter.site import Site, site
from railcore.systems.datacenter.trainable import precision_of, trainable
from railcore.training.scaling_laws import law, whole_shape
from railcore.training.transformer import Transformer

SIZES = np.geomspace(1e9, 1e18, 900)  # among which the largest that fits is found, 2.3% apart


def budgets(
    platforms: Sequence[str],
    budgets_usd: Sequence[float],
    like: Transformer,
    days: float,
    law_name: str = "Hoffmann 2",
    utilization: float = 1.0,
    document: str = "",
    rule: str = "each network",
    **changes: Any,
) -> pd.DataFrame:
    """`trainable` with the model that fits in its place, where the loss-optimal one of the time does not.

    time_days: until the trained model is loss-optimal, at the utilization and with the exposed share of its layout.
    rule: of `exposed.RULES`. Other arguments as of `trainable`, the parameters of which are optimal_parameters here.
    Rows platform, format, budget_usd, racks, gpus, total_w, optimal_parameters, largest_parameters (that fit),
    parameters (that are trained), layers, hidden, tensor_degree, replicas, exposed_share, time_days and limit: "time",
    or what of the loss-optimal model does not fit.
    """
    tables = []
    optima = trainable(platforms, budgets_usd, like, days, law_name, utilization, document, **changes)
    for platform, part in optima.groupby("platform", sort=False):
        form = part["format"].iloc[0]
        kept = precision(precision_of(form))
        machine = site(part["racks"].to_numpy(), str(platform), document, f"{form}_dense_rate", **changes)
        optimal, fits = part["parameters"].to_numpy(), part["tensor_degree"].to_numpy() > 0
        largest = largest_parameters(like, kept, machine)
        trained = np.where(fits, optimal, np.minimum(optimal, largest))
        shape = whole_shape(np.maximum(trained, SIZES[0]), like.heads)
        each = layer(like, kept, 1, shape.layers, shape.hidden)
        laid = layout(each, machine, strict=False)
        share = times(each, laid, machine).share(rule)
        flops = part["dense_flops"].to_numpy() * (1 - np.nan_to_num(share))
        wanted = whole_shape(optimal, like.heads)
        limits = _limits(layer(like, kept, 1, wanted.layers, wanted.hidden), machine)
        found = {
            "optimal_parameters": optimal,
            "largest_parameters": largest,
            "parameters": np.where(laid.tensor > 0, trained, np.nan),
            "layers": shape.layers.astype(int),
            "hidden": shape.hidden.astype(int),
            "tensor_degree": np.asarray(laid.tensor, int),
            "replicas": laid.replicas_here * np.asarray(machine.datacenters),
            "exposed_share": share,
            "time_days": np.where(
                laid.tensor > 0, law(law_name).training_time(trained, flops, utilization) / day, np.nan
            ),
            "limit": np.where(fits, "time", limits),
        }
        same = ["platform", "format", "budget_usd", "racks", "gpus", "total_w"]
        tables.append(part[same].reset_index(drop=True).assign(**found))
    return pd.concat(tables, ignore_index=True)


def largest_parameters(like: Transformer, kept: Precision, machine: Site) -> np.ndarray:
    """Parameters of the largest of SIZES, in the shape of the depth-to-width rule, that racks hold; 0 for none.

    machine: its racks may be an array, the result has its shape.
    """
    shape = whole_shape(SIZES, like.heads)
    each = layer(like, kept, 1, shape.layers, shape.hidden)
    racks = np.asarray(machine.racks)
    fits = layout(each, replace(machine, racks=racks[..., None]), strict=False).tensor > 0
    return np.max(np.where(fits, SIZES, 0.0), axis=-1)


def _limits(wanted: Layer, machine: Site) -> list[str]:
    """Why each model has no layout: a layer is more than a rack's memory, or layers are more than racks."""
    holds = float(machine.memory_bytes) * float(machine.rack_gpus)
    needs = np.asarray(wanted.layer_state_bytes + wanted.activation_bytes)
    here = np.asarray(machine.racks) / machine.datacenters
    layers = np.asarray(wanted.layers)
    return [
        f"a layer takes {show(need, 'B', 3)}, a rack has {show(holds, 'B', 3)}"
        if need > holds
        else f"{depth:,.0f} layers, {racks:,.0f} racks in a datacenter"
        for need, depth, racks in zip(needs, layers, np.broadcast_to(here, layers.shape), strict=True)
    ]
