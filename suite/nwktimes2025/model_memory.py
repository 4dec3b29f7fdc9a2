"""Memory that a model takes, for inference and for training, and the GPUs and servers that hold it.

Inference: weights, and the keys and values of the tokens in use. Training: weights, a master copy, gradients and
optimizer states by the catalog's precisions; activations come on top (`Transformer.layer_activation_bytes`).
Everything is spread evenly: no GPU holds a copy, so that these are the fewest GPUs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog.arguments import (
    Bytes,
    BytesArray,
    NonNegative,
    NonNegativeArray,
    NonNegativeInt,
    checked,
)
from railcore.catalog.checks import Floats, Ints, at_least, positive, whole
from railcore.training.formats import format_bytes
from railcore.training.transformer import Transformer, as_model

TRAINING_STATES = ("master", "weights", "gradients", "optimizer")
MEMORY_USES = ("inference", "training")
Model = Transformer | str | float


def state_bytes_per_parameter(precision: str) -> dict[str, float]:
    """Bytes that training keeps of a parameter, by kind, in a precision of the catalog. Raises UnknownName."""
    item = catalog.item("precisions", precision)
    return {kind: item[kind] for kind in TRAINING_STATES}


@checked
def kv_cache_bytes(model: Transformer | str, tokens: NonNegativeArray, number_format: str = "bf16") -> Floats:
    """Keys and values that inference keeps: 2 L k d tokens elements, of all sequences together [bytes].

    Latent attention keeps its vectors of kv_rank + rope_dim elements alone. Layers with a window count like all others.

    tokens: in use, of all sequences that are served at once.
    """
    shape = as_model(model)
    token_bytes = shape.layers * shape.cached_elements * format_bytes(number_format)
    return token_bytes * at_least("tokens", tokens)


@checked
def gpus_to_hold(memory_bytes: BytesArray, gpu: str, reserved_bytes: Bytes = 0.0) -> Ints:
    """Fewest GPUs of the catalog whose memory holds so many bytes: ceil(M / (m - reserved)), at least 1.

    reserved_bytes: of each GPU, for what else runs there. Raises ValueError where nothing of a GPU is left.
    """
    room = catalog.item("gpus", gpu)["memory"] - at_least("reserved_bytes", reserved_bytes)
    if room <= 0:
        raise ValueError(f"reserved_bytes is {reserved_bytes!r}: give less than the memory of {gpu}")
    exact = at_least("memory_bytes", memory_bytes) / room
    return np.maximum(np.ceil(exact * (1 - 1e-12)), 1).astype(np.int64)  # what fills GPUs to the brim fits


@checked
def model_memory_table(
    models: Mapping[str, Model] | Sequence[str],
    precisions: Sequence[str],
    gpu: str,
    gpus_per_server: NonNegativeInt,
    uses: Sequence[str] = MEMORY_USES,
    tokens: NonNegative = 0,
    reserved_bytes: Bytes = 0.0,
) -> pd.DataFrame:
    """Memory of models, and the fewest GPUs and servers that hold them.

    Parameters
    ----------
    models
        Names of the catalog; or by name a `Transformer`, a name of the catalog, or just a number of parameters.
    precisions
        For inference a number format of weights and keys ("bf16", "fp8", "int4", ...); for training an item of the
        catalog's precisions. Where training has no such precision, its row is left out.
    gpu, gpus_per_server
        Of the catalog, and how many a server has.
    uses
        Of MEMORY_USES.
    tokens
        Tokens whose keys and values inference keeps, of all sequences together.
    reserved_bytes
        Of each GPU's memory.

    Returns
    -------
    Columns model, parameters, use, precision, weights_bytes (the master copy included), gradients_bytes,
    optimizer_bytes, kv_cache_bytes, memory_bytes, gpus, servers, network: what its GPUs talk over, "none" on one GPU,
    "scale-up" in one server, "scale-up and scale-out" else.

    Raises
    ------
    ValueError
        A model that is only a number has no keys and values to keep; an unknown use; nothing of a GPU is left.
    """
    named: Mapping[str, Any] = models if isinstance(models, Mapping) else {name: name for name in models}
    rows = []
    for name, model in named.items():
        shape = as_model(model) if isinstance(model, str | Transformer) else None
        count = shape.total_parameters if shape else float(positive(f"parameters of {name}", model))
        for use in uses:
            if use not in MEMORY_USES:
                raise ValueError(f"uses holds {use!r}: give {' or '.join(MEMORY_USES)}")
            for precision in precisions:
                if use == "training" and precision not in catalog.names("precisions"):
                    continue
                kept = _kept(shape, count, precision, use, tokens, name)
                rows.append({"model": name, "parameters": count, "use": use, "precision": precision, **kept})
    table = pd.DataFrame(rows)
    table["memory_bytes"] = table[[column for column in table if column.endswith("_bytes")]].sum(axis=1)
    table["gpus"] = gpus_to_hold(table["memory_bytes"].to_numpy(), gpu, reserved_bytes)
    table["servers"] = -(-table["gpus"] // int(whole("gpus_per_server", gpus_per_server)))
    several = np.where(table["servers"] > 1, "scale-up and scale-out", "scale-up")
    return table.assign(network=np.where(table["gpus"] > 1, several, "none"))


def _kept(
    shape: Transformer | None, parameters: float, precision: str, use: str, tokens: float, name: str
) -> dict[str, float]:
    kept = dict.fromkeys(("weights_bytes", "gradients_bytes", "optimizer_bytes", "kv_cache_bytes"), 0.0)
    if use == "training":
        parameter_bytes = state_bytes_per_parameter(precision)
        kept["weights_bytes"] = parameters * (parameter_bytes["weights"] + parameter_bytes["master"])
        return kept | {f"{kind}_bytes": parameters * parameter_bytes[kind] for kind in ("gradients", "optimizer")}
    if tokens and shape is None:
        raise ValueError(f"tokens is {tokens!r}, but {name} is only a number of parameters: give a Transformer")
    cache = float(kv_cache_bytes(shape, tokens, precision)) if shape and tokens else 0.0
    return kept | {"weights_bytes": parameters * format_bytes(precision), "kv_cache_bytes": cache}
