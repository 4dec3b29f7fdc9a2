"""Traffic of railonly2023's plan: model parallel in groups inside an HB domain, data parallel in two stages.

And what Fig. 3 and Fig. 4 claim of it.
"""

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

import pandas as pd

from railcore.documents.readings import Entries, with_prefix
from railcore.facts import catalog, claims, units
from railcore.facts.checks import one_of
from railcore.training import two_stage
from railcore.training.parallelism import Strategy
from railcore.training.traffic import Traffic, from_transfers
from railcore.training.transfers import Transfer
from railcore.training.two_stage import TwoStage


def two_stage_cases(names: Iterable[str], **options: Any) -> dict[str, tuple[TwoStage, float]]:
    """Models of the catalog with the batches [tokens] that railonly2023 trains them with, by name.

    Where the document gives a range of batches the model is there with the smallest and the largest, its name followed
    by a line with the sequences. options: of `two_stage.catalog_two_stage`. Raises UnknownName.
    """
    found = {}
    for name in names:
        item = catalog.item("models", name)
        batch, s = item.row("batch_railonly2023"), item["sequence_length"]
        rounds = item["collective_rounds_railonly2023"]
        model = two_stage.catalog_two_stage(name, 1.0, 1.0, 1.0, rounds, **options)  # rates do not change bytes
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


def fig4_panels(nets: Mapping[str, Traffic], sizes: Iterable[int]) -> dict[str, pd.DataFrame]:
    """Entries between the first GPUs, by the panel's title: a letter for each size and model."""
    cases = zip("abcdef", product(sizes, nets), strict=False)
    return {f"({letter}) {name}, first {size:,} GPUs": nets[name].entries(0, size) for letter, (size, name) in cases}


def two_stage_traffic_claims(
    cases: Mapping[str, tuple[TwoStage, float]],
    nets: Mapping[str, Traffic],
    summaries: pd.DataFrame,
    hb_domain_size: int,
) -> Entries:
    """Values and reasons of the claims on Fig. 3 and 4, no readings; Fig. 4 draws the first two cases.

    Parameters
    ----------
    cases, nets
        Models with their batches [tokens], and their traffic, by name.
    summaries
        Of `traffic.traffic_summaries`.
    hb_domain_size
        GPUs of an HB domain.

    Returns
    -------
    For `claims.record`.
    """
    by_kind = summaries.set_index(["kind", "case"])
    whole, heavy = by_kind.loc["all"], by_kind.loc["tensor"] + by_kind.loc["data within"]
    names = list(cases)[:2]
    net, drawn = nets[names[0]], whole.loc[names]
    groups = [block.group_size(net.gpus, tokens, hb_domain_size) for block, tokens in cases.values()]
    inside, across = "fig4.hb_pair_traffic", "fig4.cross_hb_pair_traffic"
    values = {
        "fig3.gpus": net.gpus,
        "fig3.no_traffic_pairs": whole["silent_pairs"].min(),
        "fig3.mp_dp2_pairs": heavy["share_of_pairs"].max(),
        "fig3.mp_dp2_volume": heavy["share_of_bytes"].min(),
        "fig3.dp_stage_ratio": (by_kind.loc["data within", "bytes"] / by_kind.loc["data between", "bytes"]).min(),
        "fig3.overlapping_pairs": max(each.shared_pairs for each in nets.values()),
        "fig3.mp_group": max(map(float, groups)),
        inside: drawn["domain_pair_bytes"].max(),
        across: drawn["network_pair_bytes"].max(),
        "fig4.four_domain_gpus": net.entries(0, 4 * hb_domain_size)["source"].nunique(),
        "fig4.cross_rail_traffic": whole["cross_rail_bytes"].max(),
    }
    layers = cases[names[0]][0].layers
    blocks = {name: layers * claims.paper_value(f"railonly2023.{name}") / values[name] for name in (inside, across)}
    one_block = {name: units.show(values[name] / layers, "B", 3) for name in (inside, across)}
    largest = [f"{size:.3g} GB" for size in units.convert(drawn["domain_pair_bytes"], "GB")]
    reasons = {
        inside: f"GPT-3's {largest[0]} and OPT3's {largest[1]} are an iteration of {layers:g} blocks; "
        f"{blocks[inside]:.3g} blocks would give the printed value, and one block gives {one_block[inside]}",
        across: f"2 l S_T / N for every pair of a rail and both models; {blocks[across]:.3g} of {layers:g} blocks "
        f"would give the printed value, and one block gives {one_block[across]}: this and the entry inside a domain "
        f"are off by nearly the same factor, {layers / blocks[across]:.3g} and {layers / blocks[inside]:.3g}",
    }
    return with_prefix("railonly2023", values, reasons, {})
