"""The model that a budget trains on each machine: loss-optimal for its time, or the largest that its racks hold."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from railcore.facts import catalog
from railcore.facts.units import day, show
from railcore.systems.datacenter.exposed import layer_times
from railcore.systems.datacenter.layouts import Layer, Precision, layer, layout, precision, precision_for_format
from railcore.systems.datacenter.sizing import Site, narrowest_format, site, size
from railcore.training.scaling_laws import scaling_law, whole_shape
from railcore.training.transformer import Transformer

CANDIDATE_PARAMETERS = np.geomspace(1e9, 1e18, 900)  # among which the largest that fits is found, 2.3% apart


def models_by_budget(
    platforms: Sequence[str],
    budgets_usd: Sequence[float],
    like: Transformer,
    days: float,
    price_book: str,
    catalog_site: str,
    law_name: str = "Hoffmann 2",
) -> pd.DataFrame:
    """The loss-optimal model of a training time on each machine, or the largest that its racks hold.

    Number format and bytes per parameter are the narrowest of the platform's GPU, in the catalog's precisions.

    Parameters
    ----------
    platforms, budgets_usd
        Of the catalog, with prices and powers; of the whole datacenter [USD].
    like
        Its vocabulary, sequence length and proportions, in the shape of the depth-to-width rule.
    days
        Training time at full utilization [days].
    price_book, catalog_site
        Of the catalog's prices (`sizing.size`) and sites (`sizing.site`).
    law_name
        Of the scaling laws.

    Returns
    -------
    Columns platform, format, budget_usd, racks, gpus, power_w (of the facility), optimal_parameters,
    largest_parameters (that fit), parameters (that are trained), layers, hidden, tensor_degree, replicas,
    exposed_share, time_days (until the trained model is loss-optimal, with the exposed share of its layout) and limit:
    "time", or what of the loss-optimal model does not fit.
    """
    tables, found = [], scaling_law(law_name)
    budget = np.asarray(budgets_usd, float)
    for platform in platforms:
        number_format = narrowest_format(catalog.item("platforms", platform)["gpu"])
        bytes_of = precision(precision_for_format(number_format))
        bought = size(budget, platform, price_book)
        racks = bought.racks.astype(int)
        machine = site(racks, platform, f"{number_format}_dense_rate", catalog_site)
        optimal = found.parameters_after(days * day, bought.dense_flops)
        wanted, largest = layer_of_size(like, bytes_of, optimal), largest_parameters(like, bytes_of, machine)
        fits = layout(wanted, machine, strict=False).tensor > 0
        trained = np.where(fits, optimal, np.minimum(optimal, largest))
        each = layer_of_size(like, bytes_of, np.maximum(trained, CANDIDATE_PARAMETERS[0]))
        laid = layout(each, machine, strict=False)
        share = layer_times(each, laid, machine).share()
        needed = found.training_time(trained, bought.dense_flops * (1 - np.nan_to_num(share))) / day
        columns = {
            "platform": platform,
            "format": number_format,
            "budget_usd": budget,
            "racks": racks,
            "gpus": bought.gpus.astype(int),
            "power_w": bought.total_w,
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


def budget_table(table: pd.DataFrame) -> pd.DataFrame:
    """`models_by_budget` for people: the columns that matter most, parameters in trillions."""
    short = table.drop(columns=["racks", "largest_parameters", "layers", "hidden", "replicas"])
    return columns_in_trillions(short, "optimal_parameters", "parameters")


def columns_in_trillions(table: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """A table for people with some columns in trillions, which their names then say."""
    return table.assign(**{each: table[each] / 1e12 for each in columns}).rename(
        columns={each: f"{each} [trillion]" for each in columns}
    )


def layer_of_size(like: Transformer, bytes_of: Precision, parameters: np.ndarray) -> Layer:
    """The layer of models of so many parameters in the shape of the depth-to-width rule."""
    shape = whole_shape(parameters, like.heads)
    return layer(like, bytes_of, 1, shape.layers, shape.hidden)


def largest_parameters(like: Transformer, bytes_of: Precision, machine: Site) -> np.ndarray:
    """Parameters of the largest of SIZES, in the shape of the depth-to-width rule, that racks hold; 0 for none.

    machine: its racks may be an array, the result has its shape.
    """
    racks = np.asarray(machine.racks)[..., None]
    tried = layer_of_size(like, bytes_of, CANDIDATE_PARAMETERS)
    fits = layout(tried, replace(machine, racks=racks), strict=False).tensor > 0
    return np.max(np.where(fits, CANDIDATE_PARAMETERS, 0.0), axis=-1)


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
