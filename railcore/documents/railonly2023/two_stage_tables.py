"""Tables of the two-stage model: the document's variables with their values, and N_M by each rule."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from railcore.documents.railonly2023.two_stage_count import numerical_optimum
from railcore.facts import units
from railcore.training.iteration.two_stage import TERMS, TwoStage, two_stage_sweep

_VARIABLES = (
    ("N", "GPUs of the cluster, N_M N_Df N_Ds", "GPUs"),
    ("N_M", "GPUs of a model-parallel group", "GPUs"),
    ("N_Df", "GPUs of a first-level data-parallel group, across HB domains", "GPUs"),
    ("N_Ds", "GPUs of a second-level data-parallel group, inside", "GPUs"),
    ("K", "GPUs of an HB domain, N_M N_Ds", "GPUs"),
    ("d_model", "embedding dimension", "elements"),
    ("M_flop", "FLOPs of an iteration", "FLOP"),
    ("M_cc", "model-parallel collectives of a block", "1"),
    ("l", "transformer blocks", "1"),
    ("B_F", "bandwidth of a GPU in its HB domain", "B/s"),
    ("B_S", "bandwidth of a GPU on its rail", "B/s"),
    ("C", "compute rate of a GPU", "FLOP/s"),
    ("S_T", "size of a block", "B"),
    ("b", "batch", "tokens"),
    ("T_c", "compute, all blocks", "s"),
    ("T_Df", "first-level data parallelism, all blocks", "s"),
    ("T_Ds", "second-level data parallelism, all blocks", "s"),
    ("T_M", "model parallelism, all blocks", "s"),
)


def two_stage_variables(
    models: Mapping[str, TwoStage], gpus: float, hb_domain_size: float, batch_tokens: Mapping[str, float]
) -> pd.DataFrame:
    """The variables of railonly2023 Table 1 with their values for each model; times are of a whole iteration.

    Parameters
    ----------
    models
        By name.
    gpus, hb_domain_size
        N; K [GPUs].
    batch_tokens
        b by model [tokens].

    Returns
    -------
    Columns symbol, description, unit, and one for each model.
    """
    columns: dict[str, list] = {}
    for name, model in models.items():
        b = batch_tokens[name]
        n_m, time = float(model.group_size(gpus, b, hb_domain_size)), model.iteration(gpus, hb_domain_size, b)
        sizes = [gpus, n_m, gpus / hb_domain_size, hb_domain_size / n_m, hb_domain_size, model.hidden]
        work = [b * model.token_flops, model.collective_rounds, model.layers, model.hb_Bps, model.nic_Bps]
        rest = [model.gpu_flops, model.block_bytes, b, *(getattr(time, term) for term in TERMS)]
        columns[name] = [float(value) for value in sizes + work + rest]
    return pd.DataFrame(_VARIABLES, columns=["symbol", "description", "unit"]).assign(**columns)


def variables_as_text(table: pd.DataFrame) -> pd.DataFrame:
    """`two_stage_variables` for people: each value with its unit, whole numbers in full, others with four digits."""
    symbols = ["" if unit in ("1", "GPUs", "elements", "tokens") else unit for unit in table["unit"]]
    text = table.drop(columns="unit")
    for name in list(text)[2:]:
        text[name] = [
            units.show(value, symbol, 15 if not symbol and value == round(value) else 4)
            for value, symbol in zip(table[name], symbols, strict=True)
        ]
    return text


def group_size_rules(
    models: Mapping[str, TwoStage], gpus: float, hb_domain_size: float, batch_tokens: Mapping[str, float]
) -> pd.DataFrame:
    """N_M by Eq. (2) as printed (b d in elements or in bytes), at the minimum of Eq. (1), and as the model takes it.

    Parameters
    ----------
    models
        By name.
    gpus, hb_domain_size
        N; K [GPUs].
    batch_tokens
        b by model [tokens].

    Returns
    -------
    Columns model, rule, group_size (1 to K), over_minimum (of the size before it is limited to 1 to K), iteration_s,
    slowdown over the minimum.
    """
    rows = []
    for name, model in models.items():
        b = batch_tokens[name]
        found = {
            "Eq. (2)": model.printed_group_size(gpus, b),
            "Eq. (2), all in bytes": model.printed_group_size(gpus, b, model.element_bytes),
            "minimum of Eq. (1)": numerical_optimum(model, gpus, hb_domain_size, b),
            "our reading": model.group_size(gpus, b, hb_domain_size),
        }
        sizes = {rule: float(np.clip(size, 1.0, hb_domain_size)) for rule, size in found.items()}
        times = {rule: float(model.iteration(gpus, hb_domain_size, b, n).iteration_s) for rule, n in sizes.items()}
        least = "minimum of Eq. (1)"
        for rule, size in found.items():
            row = {"model": name, "rule": rule, "group_size": sizes[rule], "over_minimum": float(size / found[least])}
            rows.append(row | {"iteration_s": times[rule], "slowdown": times[rule] / times[least]})
    return pd.DataFrame(rows)


def terms_by_hb_domain_size(
    model: TwoStage, gpus: int, hb_domain_size: int, batch_tokens: float, nic_Bps: float, rails: int
) -> pd.DataFrame:
    """Eq. (1) at the HB domain size and at a quarter, half, twice and four times of it, as far as the cluster goes.

    Parameters
    ----------
    model
        The model, with its GPU and links.
    gpus, hb_domain_size
        N; K [GPUs].
    batch_tokens
        b [tokens].
    nic_Bps
        Of a GPU, one direction [bytes/s].
    rails
        NICs of an HB domain.

    Returns
    -------
    A row for each size, columns of `two_stage_sweep`.
    """
    sizes = [k for k in (hb_domain_size * 2**i // 4 for i in range(5)) if 1 <= k <= gpus]
    grid = {"gpus": [gpus], "hb_domain_size": sizes, "batch_tokens": [batch_tokens], "rails": [rails]}
    return two_stage_sweep({"": replace(model, nic_Bps=nic_Bps)}, **grid)
