"""railonly2025 on iteration time: mean error (Fig. 7), days of Llama 3 405B, and HB domain size (Fig. 8)."""

import re
from typing import Any

import pandas as pd

from railcore import catalog
from railcore.catalog.units import day
from railcore.strategies.hb_domains import increasing_returns_share
from railcore.training.machine import Machine
from railcore.training.runs import TrainingDuration
from railcore.training.runtime import catalog_runtime
from railcore.training.transformer import Transformer
from suite.ledger import claims
from suite.ledger.readings import Entries, with_prefix

_ERROR, _DAYS = "fig7.mean_error", "intro.llama3_days"
FIG8_MODELS = ("GPT-1T", "GPT-146B")
_FIG8_QUOTED = (  # claim, its model, column of `hb_domain_summary`, format
    ("gpt1t_k256_slowdown", "GPT-1T", "slowdown", ".1%"),
    ("gpt146b_k256_slowdown", "GPT-146B", "slowdown", ".1%"),
    ("gpt1t_plateau", "GPT-1T", "plateau", ","),
)
# How the document describes its model: two phases of a collective in sequence, only gradients hidden, plain 1F1B. On
# GH200 it is in bf16, in which Megatron-LM of the time adds and sums gradients in fp32.
_DESCRIBED = catalog_runtime("megatron2021", gradient_bytes=4, accumulation_bytes=4, overlap_data=True)


def iteration_time_claims(llama: TrainingDuration, model: Transformer, modelled: pd.DataFrame) -> Entries:
    """Values, reasons and readings for `claims.record`.

    llama, model: the training of Llama 3 405B. modelled: `predictions` of the runs that the document cites.
    """
    # Published shares of the peak rate count all scores, as Chowdhery et al. 2022 and Megatron-LM of the time did.
    whole = float(model.training_flops(causal=False) / model.training_flops())
    days, mfu = llama.training_s / day, llama.model_flops_utilization * whole
    printed_days = claims.paper_value(f"railonly2025.{_DAYS}")
    published = catalog.item("models", "Llama-3 405B").row("model_flops_utilization")
    errors = modelled["error"].abs()
    values = {_DAYS: days, _ERROR: float(errors.mean())}
    reason = (
        f"by our model its published split reaches {mfu:.0%} of the peak rate, all scores counted ({published.low:.0%} "
        f"to {published.high:.0%} are published); {printed_days:.0f} days need {mfu * days / printed_days:.0%} for all "
        "tokens, and are the length of a part of the training"
    )
    reading = (
        f"mean absolute error of our model on the {len(modelled)} published runs that the document cites, because its "
        f"own are not public; the largest is {errors.max():.1%}"
    )
    return with_prefix("railonly2025", values, {_DAYS: reason}, {_ERROR: reading})


def fig8_options(machine: Machine) -> tuple[Machine, dict[str, Any]]:
    """The machine, and options of `best_times`, as the document describes its model."""
    described = {"interleave": 1, "sharding": "none", "keep_gathered": 0, "ends_as_layers": 0}
    described |= {"context": 1, "placement": "tensor first"}  # tensor, pipeline and data ranks
    return machine.changed(two_phase_collectives=True), {"runtime": _DESCRIBED, **described}


def fig8_claims(table: pd.DataFrame, summary: pd.DataFrame, rates: pd.DataFrame) -> Entries:
    """Values and reasons of what Fig. 8 and its text say, no readings: each number is the largest over the clusters.

    Parameters
    ----------
    table
        `best_times` of the two models.
    summary
        Its `hb_domain_summary`.
    rates
        `slowdown_by_sustained_rate`, for the sustained rate that comes nearest.

    Returns
    -------
    For `claims.record`.
    """
    values = {"diminishing": increasing_returns_share(table)}
    reasons = {
        "diminishing": "with the domain's size the best strategy changes, where a larger tensor-parallel group starts "
        "to fit, and a change can gain more than the doubling before; while the strategy stays, each doubling gains "
        "less"
    }
    for name, model, column, form in _FIG8_QUOTED:
        mine = summary[summary["model"] == model].set_index("gpus")[column]
        values[name] = mine.max()
        text = ", ".join(f"{value:{form}} at {n:,} GPUs" for n, value in mine.items())
        if column == "slowdown":
            off = rates[model] - claims.paper_value(f"railonly2025.fig8.{name}")
            nearest = rates.loc[off.abs().idxmin()]
            reasons[name] = (
                f"{text}; GPUs that sustain {nearest['share_of_best_rate']:.0%} of their best rate, so that links "
                f"matter less, come nearest to the document with {nearest[model]:.1%}"
            )
        else:
            reasons[name] = f"the largest over the clusters: {text}; the text does not say of which one it speaks"
    return with_prefix("railonly2025.fig8", values, reasons, {})


def slowdown_marks(slowdowns: Entries, within: float) -> pd.DataFrame:
    """The document's numbers of Fig. 8 as slowdowns over HB domain sizes.

    Parameters
    ----------
    slowdowns
        `fig8_claims`.
    within
        Excess over the ideal below which a size counts as near: the place of the plateau's mark.

    Returns
    -------
    Columns model, hb_domain_size, share, differs, text.
    """
    rows: list[tuple[str, float, float, bool, str]] = []
    for name, model, column, _ in _FIG8_QUOTED:
        claim_id = f"railonly2025.fig8.{name}"
        off, printed = claims.differs(claim_id, slowdowns.values[claim_id]), claims.paper_value(claim_id)
        if size := re.search(r"_k(\d+)_", name):
            rows.append((model, int(size[1]), printed, off, f"{printed:.1%}"))
        else:
            rows.append((model, printed, within, off, column))
    return pd.DataFrame(rows, columns=["model", "hb_domain_size", "share", "differs", "text"])


def dense_slowdown_claim(dense: pd.DataFrame, gpus: int, splits: int, hb_Bps: float) -> Entries:
    """Value, reason and reading of the statement that dense models train as fast on rail-only networks.

    Parameters
    ----------
    dense
        Of `dense_slowdowns`.
    gpus, splits
        Of the wired networks; ways to split them for each model.
    hb_Bps
        Of a GPU in its HB domain, for what it forwards [bytes/s].

    Returns
    -------
    Entries for `claims.record`.
    """
    strategies, models = len(dense) // 2, ", ".join(dense["model"].unique())
    reason = (
        f"largest over {strategies} strategies, the {splits} best ways to split {gpus} GPUs for each of {models}, on "
        "wired graphs"
    )
    in_turn = (dense["hb_forwarded_bytes"] / gpus / hb_Bps / dense["iteration_s"]).max()
    reading = f"what HB domains forward costs no time (in turn with all else, spread over the GPUs: {in_turn:.3%})"
    values = {"dense_slowdown": dense["slowdown"].max()}
    return with_prefix("railonly2025.text", values, {"dense_slowdown": reason}, {"dense_slowdown": reading})
