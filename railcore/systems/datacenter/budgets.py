"""The largest model that each platform trains for each budget, its exposed communication and its training time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from railcore.documents.flops2024.quantities import trillions
from railcore.facts import catalog
from railcore.facts.units import day, show
from railcore.systems.datacenter.exposed import times
from railcore.systems.datacenter.layer import Layer, Precision, layer, precision
from railcore.systems.datacenter.layout import layout
from railcore.systems.datacenter.site import Site, site
from railcore.systems.datacenter.sizing import best_format, size
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
    """The loss-optimal model of a training time [days] on each machine, or the largest that its racks hold.

    like: its vocabulary, sequence length and proportions, in the shape of the depth-to-width rule. Number format and
    bytes per parameter: the narrowest of the platform's GPU, in the catalog's precisions. document: as of `size`.
    rule: of `exposed.RULES`. changes: fields of `Site`, such as datacenters.
    time_days: until the trained model is loss-optimal, at the utilization and with the exposed share of its layout.
    Rows platform, format, budget_usd, racks, gpus, power_w (of the facility, at the highest PUE of a document),
    optimal_parameters, largest_parameters (that fit), parameters (that are trained), layers, hidden, tensor_degree,
    replicas, exposed_share, time_days and limit: "time", or what of the loss-optimal model does not fit.
    """
    tables, found = [], law(law_name)
    for platform in platforms:
        form = best_format(catalog.item("platforms", platform)["gpu"])
        kept = precision(precision_of(form))
        box = size(np.asarray(budgets_usd, float)[:, None], platform, document)
        flops, racks = box.dense_flops[:, 0], box.racks[:, 0].astype(int)
        machine = site(racks, platform, document, f"{form}_dense_rate", **changes)
        optimal = found.parameters_after(days * day, flops, utilization)
        wanted, largest = shaped(like, kept, optimal), largest_parameters(like, kept, machine)
        fits = layout(wanted, machine, strict=False).tensor > 0
        trained = np.where(fits, optimal, np.minimum(optimal, largest))
        each = shaped(like, kept, np.maximum(trained, SIZES[0]))
        laid = layout(each, machine, strict=False)
        share = times(each, laid, machine).share(rule)
        needed = found.training_time(trained, flops * (1 - np.nan_to_num(share)), utilization) / day
        columns = {
            "platform": platform,
            "format": form,
            "budget_usd": box.budget_usd[:, 0],
            "racks": racks,
            "gpus": box.gpus[:, 0].astype(int),
            "power_w": np.max(box.total_w, axis=1),
            "optimal_parameters": optimal,
            "largest_parameters": largest,
            "parameters": np.where(laid.tensor > 0, trained, np.nan),
            "layers": each.layers.astype(int),
            "hidden": each.hidden.astype(int),
            "tensor_degree": laid.tensor.astype(int),
            "replicas": laid.replicas_here * machine.datacenters,
            "exposed_share": share,
            "time_days": np.where(laid.tensor > 0, needed, np.nan),
            "limit": np.where(fits, "time", _limits(wanted, machine)),
        }
        tables.append(pd.DataFrame(columns))
    return pd.concat(tables, ignore_index=True)


def shown(table: pd.DataFrame) -> pd.DataFrame:
    """`budgets` as people read it: without what racks and layers follow from, parameters in trillions."""
    short = table.drop(columns=["racks", "largest_parameters", "layers", "hidden", "replicas"])
    return trillions(short, "optimal_parameters", "parameters")


def shaped(like: Transformer, kept: Precision, parameters: np.ndarray) -> Layer:
    """The layer of models of so many parameters in the shape of the depth-to-width rule."""
    shape = whole_shape(parameters, like.heads)
    return layer(like, kept, 1, shape.layers, shape.hidden)


def precision_of(form: str) -> str:
    """The catalog's first precision whose products are in a number format. Raises ValueError for another."""
    for name in catalog.names("precisions"):
        if catalog.item("precisions", name)["rate_format"] == form:
            return name
    raise ValueError(f"form is {form!r}: give a rate_format of the catalog's precisions")


def largest_parameters(like: Transformer, kept: Precision, machine: Site) -> np.ndarray:
    """Parameters of the largest of SIZES, in the shape of the depth-to-width rule, that racks hold; 0 for none.

    machine: its racks may be an array, the result has its shape.
    """
    racks = np.asarray(machine.racks)[..., None]
    fits = layout(shaped(like, kept, SIZES), replace(machine, racks=racks), strict=False).tensor > 0
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
