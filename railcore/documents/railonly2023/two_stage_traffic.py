"""Traffic of railonly2023's plan: model parallel in groups inside an HB domain, data parallel in two stages."""

from collections.abc import Iterable
from typing import Any

from railcore.facts import catalog
from railcore.facts.checks import one_of
from railcore.training.iteration import two_stage
from railcore.training.iteration.two_stage import TwoStage
from railcore.training.parallelism import Strategy
from railcore.training.traffic import Traffic, Transfer, from_transfers


def two_stage_cases(names: Iterable[str], **options: Any) -> dict[str, tuple[TwoStage, float]]:
    """Models of the catalog with the batches [tokens] that railonly2023 trains them with, by name.

    Where the document gives a range of batches the model is there with the smallest and the largest, its name followed
    by a line with the sequences. options: of `two_stage.from_catalog`. Raises UnknownName.
    """
    found = {}
    for name in names:
        item = catalog.item("models", name)
        batch, s = item.row("batch_railonly2023"), item["sequence_length"]
        rounds = item["collective_rounds_railonly2023"]
        model = two_stage.from_catalog(name, 1.0, 1.0, 1.0, rounds, **options)  # rates do not change bytes
        tokens = {f"{name}\n{b:g} seq.": b * s for b in (batch.low, batch.high) if b} or {name: batch.value}
        found.update({case: (model, size) for case, size in tokens.items()})
    return found


def two_stage_matrix(
    model: TwoStage,
    gpus: int,
    hb_domain_size: int,
    batch_tokens: float,
    group_size: int | None = None,
    algorithm: str = "direct",
) -> Traffic:
    """Traffic of an iteration, N = N_M N_Ds N_Df and K = N_M N_Ds, as Eq. (1) has it.

    A GPU sends l M_cc b d e (N_M - 1) / N bytes to its model group, then 2 l S_T (N_Ds - 1) / K within its HB domain
    and 2 l S_T (N_Df - 1) / N between domains.

    Parameters
    ----------
    model
        A transformer in the document's terms.
    gpus, hb_domain_size
        GPUs N, and GPUs of an HB domain K.
    batch_tokens
        Tokens of an iteration, b.
    group_size
        GPUs of a model-parallel group N_M, by default the model's own.
    algorithm
        "direct", as in the document, or "ring".

    Returns
    -------
    Kinds "tensor", "data within" (the second stage) and "data between" (the first).

    Raises
    ------
    ValueError
        Where N_M does not divide K, or K does not divide N.

    References
    ----------
    railonly2023, Section 3.2, Eq. (1).
    """
    n_m = float(model.group_size(gpus, batch_tokens, hb_domain_size)) if group_size is None else group_size
    if gpus % hb_domain_size or n_m < 1 or hb_domain_size % n_m:
        raise ValueError(
            f"gpus {gpus}, hb_domain_size {hb_domain_size}, group_size {n_m:g}: each must divide the one before"
        )
    one_of("algorithm", algorithm, ("direct", "ring"))
    strategy = Strategy(tensor=int(n_m), data=gpus // int(n_m))
    gathered = batch_tokens * model.hidden * model.element_bytes * n_m / gpus
    calls, gradients = model.layers * model.collective_rounds, model.layers * model.block_bytes / n_m
    rows = [
        Transfer("tensor", "forward", "all_gather", "layer", "tensor", "every", calls, gathered, strategy.tensor),
        Transfer("data", "after", "all_reduce", "model", "data", "every", 1, gradients, strategy.data),
    ]
    data = "hierarchical_direct" if algorithm == "direct" else "hierarchical"
    return from_transfers(
        strategy, [row for row in rows if row.ranks > 1], {"tensor": algorithm, "data": data}, hb_domain_size
    )
