"""Memory that a model takes, for inference and for training, and the GPUs and servers that hold it.

Inference: weights. Training: weights, a master copy, gradients and optimizer states by the catalog's precisions;
activations come on top (`Transformer.layer_activation_bytes`). Everything is spread evenly: no GPU holds a copy, so
that these are the fewest GPUs.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.catalog.arguments import Count, checked
from railcore.catalog.checks import Ints
from railcore.training.formats import format_bytes
from railcore.training.machine_rows import shared_memory

MEMORY_USES = ("inference", "training")


def gpu_memory(gpu: str) -> float:
    """Memory of a GPU of the catalog as its driver shows it [bytes]: 80 GB of a name are nearly 80 GiB."""
    return shared_memory(catalog.item("gpus", gpu))


def gpus_to_hold(memory_bytes: ArrayLike, gpu: str) -> Ints:
    """Fewest GPUs of the catalog whose memory, `gpu_memory`, holds so many bytes, at least 1."""
    exact = np.asarray(memory_bytes) / gpu_memory(gpu)
    return np.maximum(np.ceil(exact * (1 - 1e-12)), 1).astype(np.int64)  # what fills GPUs to the brim fits


@checked
def model_memory_table(
    models: Mapping[str, float],
    precisions: Sequence[str],
    gpu: str,
    gpus_per_server: Count,
    uses: Sequence[str] = MEMORY_USES,
) -> pd.DataFrame:
    """Memory of models, and the fewest GPUs and servers that hold them.

    Parameters
    ----------
    models
        Number of parameters by name.
    precisions
        For inference a number format of weights ("bf16", "fp8", "int4", ...); for training an item of the catalog's
        precisions. Where training has no such precision, its row is left out.
    gpu, gpus_per_server
        Of the catalog, and how many a server has.
    uses
        Of MEMORY_USES.

    Returns
    -------
    Columns model, parameters, use, precision, weights_bytes (the master copy included), gradients_bytes,
    optimizer_bytes, kv_cache_bytes (none is counted), memory_bytes, gpus, servers, network: what its GPUs talk over,
    "none" on one GPU, "scale-up" in one server, "scale-up and scale-out" else.
    """
    rows = []
    for (name, parameters), use in ((model, use) for model in models.items() for use in uses):
        for precision in precisions:
            if use == "training" and precision not in catalog.names("precisions"):
                continue
            kept = _parameter_bytes(precision, use)
            sizes = {f"{kind}_bytes": parameters * size for kind, size in kept.items()}
            rows.append({"model": name, "parameters": parameters, "use": use, "precision": precision, **sizes})
    table = pd.DataFrame(rows)
    table["memory_bytes"] = table[[column for column in table if column.endswith("_bytes")]].sum(axis=1)
    table["gpus"] = gpus_to_hold(table["memory_bytes"].to_numpy(), gpu)
    table["servers"] = -(-table["gpus"] // gpus_per_server)
    several = np.where(table["servers"] > 1, "scale-up and scale-out", "scale-up")
    return table.assign(network=np.where(table["gpus"] > 1, several, "none"))


def _parameter_bytes(precision: str, use: str) -> dict[str, float]:
    """Bytes that are kept of a parameter, by kind."""
    if use == "inference":
        return {"weights": format_bytes(precision), "gradients": 0.0, "optimizer": 0.0, "kv_cache": 0.0}
    item = catalog.item("precisions", precision)
    states = {kind: item[kind] for kind in ("gradients", "optimizer")}
    return {"weights": item["weights"] + item["master"], **states, "kv_cache": 0.0}
