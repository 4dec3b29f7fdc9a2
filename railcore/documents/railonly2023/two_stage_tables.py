"""Tables of the two-stage model: the document's variables with their values, and N_M by each rule."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from railcore.documents.railonly2023.two_stage_count import numerical_optimum
from railcore.facts import units
from railcore.training.two_stage import TwoStage, two_stage_sweep


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
    found = {name: _variables(model, gpus, hb_domain_size, batch_tokens[name]) for name, model in models.items()}
    table = pd.DataFrame([row[:3] for row in next(iter(found.values()))], columns=["symbol", "description", "unit"])
    return table.assign(**{name: [float(value) for *_, value in rows] for name, rows in found.items()})


def _variables(model: TwoStage, n: float, k: float, b: float) -> list[tuple[str, str, str, Any]]:
    n_m, time = model.group_size(n, b, k), model.iteration(n, k, b)
    return [
        ("N", "GPUs of the cluster, N_M N_Df N_Ds", "GPUs", n),
        ("N_M", "GPUs of a model-parallel group", "GPUs", n_m),
        ("N_Df", "GPUs of a first-level data-parallel group, across HB domains", "GPUs", n / k),
        ("N_Ds", "GPUs of a second-level data-parallel group, inside", "GPUs", k / n_m),
        ("K", "GPUs of an HB domain, N_M N_Ds", "GPUs", k),
        ("d_model", "embedding dimension", "elements", model.hidden),
        ("M_flop", "FLOPs of an iteration", "FLOP", b * model.token_flops),
        ("M_cc", "model-parallel collectives of a block", "1", model.collective_rounds),
        ("l", "transformer blocks", "1", model.layers),
        ("B_F", "bandwidth of a GPU in its HB domain", "B/s", model.hb_Bps),
        ("B_S", "bandwidth of a GPU on its rail", "B/s", model.nic_Bps),
        ("C", "compute rate of a GPU", "FLOP/s", model.gpu_flops),
        ("S_T", "size of a block", "B", model.block_bytes),
        ("b", "batch", "tokens", b),
        ("T_c", "compute, all blocks", "s", time.compute_s),
        ("T_Df", "first-level data parallelism, all blocks", "s", time.first_dp_s),
        ("T_Ds", "second-level data parallelism, all blocks", "s", time.second_dp_s),
        ("T_M", "model parallelism, all blocks", "s", time.model_parallel_s),
    ]


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
    least, tables = "minimum of Eq. (1)", []
    for name, model in models.items():
        b = batch_tokens[name]
        sizes = {
            "Eq. (2)": model.printed_group_size(gpus, b),
            "Eq. (2), all in bytes": model.printed_group_size(gpus, b, model.element_bytes),
            least: numerical_optimum(model, gpus, hb_domain_size, b),
            "our reading": model.group_size(gpus, b, hb_domain_size),
        }
        size = pd.Series({rule: float(x) for rule, x in sizes.items()})
        table = pd.DataFrame({"group_size": size.clip(1, hb_domain_size), "over_minimum": size / size[least]})
        table["iteration_s"] = model.iteration(gpus, hb_domain_size, b, table["group_size"]).iteration_s
        table = table.assign(slowdown=table["iteration_s"] / table["iteration_s"][least], model=name)
        tables.append(table.rename_axis("rule").reset_index())
    columns = ["model", "rule", "group_size", "over_minimum", "iteration_s", "slowdown"]
    return pd.concat(tables, ignore_index=True)[columns]


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
