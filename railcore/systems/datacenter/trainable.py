"""The model that a budget would train: size by a scaling law, shape by the depth rule, layout on the racks."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from railcore.facts import catalog, units
from railcore.systems.datacenter.layer import layer, precision
from railcore.systems.datacenter.layout import layout
from railcore.systems.datacenter.site import site
from railcore.systems.datacenter.sizing import best_format, size
from railcore.training.scaling_laws import law, whole_shape
from railcore.training.transformer import Transformer


def trainable(
    platforms: Sequence[str],
    budgets_usd: Sequence[float],
    like: Transformer,
    days: float,
    law_name: str = "Hoffmann 2",
    utilization: float = 1.0,
    document: str = "",
    **changes,
) -> pd.DataFrame:
    """Machine and loss-optimal model of each platform and budget after a training time [days].

    like: its vocabulary, sequence length and proportions. Number format and bytes per parameter: the narrowest of the
    platform's GPU, in the catalog's precisions. changes: fields of `Site`, such as datacenters.
    Rows platform, format, budget_usd, racks, gpus, total_w (at the highest PUE of a document), dense_flops, parameters,
    layers, hidden, tensor_degree (0 where the model does not fit), replicas, warning.
    """
    found, rows = law(law_name), []
    for platform in platforms:
        form = best_format(catalog.item("platforms", platform)["gpu"])
        kept = precision(precision_of(form))
        for budget in budgets_usd:
            box = size(budget, platform, document)
            compute = box.dense_flops * utilization * days * units.day
            model = float(found.parameters(compute))
            shape = whole_shape(model, like.heads)
            machine = site(box.racks, platform, document, f"{form}_dense_rate", **changes)
            plan = layout(layer(like, kept, 1, shape.layers, shape.hidden), machine, strict=False)
            rows.append(
                {
                    "platform": platform,
                    "format": form,
                    "budget_usd": budget,
                    "racks": int(box.racks),
                    "gpus": int(box.gpus),
                    "total_w": float(np.max(box.total_w)),
                    "dense_flops": float(box.dense_flops),
                    "parameters": model,
                    "layers": int(shape.layers),
                    "hidden": int(shape.hidden),
                    "tensor_degree": int(plan.tensor),
                    "replicas": float(plan.replicas_here * np.asarray(plan.datacenters)),
                    "warning": "; ".join((*found.warnings(compute), *shape.warnings)),
                }
            )
    return pd.DataFrame(rows)


def precision_of(form: str) -> str:
    """The catalog's first precision whose products are in a number format. Raises ValueError for another."""
    for name in catalog.names("precisions"):
        if catalog.item("precisions", name)["rate_format"] == form:
            return name
    raise ValueError(f"form is {form!r}: give a rate_format of the catalog's precisions")
