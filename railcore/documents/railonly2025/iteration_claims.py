"""railonly2025 on iteration time: mean error (Fig. 7), days of Llama 3 405B, and HB domain size (Fig. 8)."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from railcore.documents.readings import Entries, with_prefix
from railcore.engines.search import increasing_returns_share
from railcore.engines.validation import TrainingDuration
from railcore.facts import catalog, claims
from railcore.facts.units import day
from railcore.training.machine import Machine
from railcore.training.runtime import catalog_runtime

_ERROR, _DAYS = "fig7.mean_error", "intro.llama3_days"
FIG8_MODELS = ("GPT-1T", "GPT-146B")
_FIG8_QUOTED = (  # claim, its model, column of `hb_domain_summary`, format
    ("gpt1t_k256_slowdown", "GPT-1T", "slowdown", ".2%"),
    ("gpt146b_k256_slowdown", "GPT-146B", "slowdown", ".2%"),
    ("gpt1t_plateau", "GPT-1T", "plateau", ","),
)
# How the document describes its model: two phases of a collective in sequence, only gradients hidden, plain 1F1B. On
# GH200 it is in bf16, in which Megatron-LM of the time adds and sums gradients in fp32.
_DESCRIBED = catalog_runtime("megatron2021", gradient_bytes=4, accumulation_bytes=4, overlap_data=True)


def iteration_time_claims(llama: TrainingDuration, modelled: pd.DataFrame) -> Entries:
    """Values, reasons and readings for `claims.record`.

    llama: the training of Llama 3 405B. modelled: `predictions` of the runs that the document cites.
    """
    days, mfu = llama.training_s / day, llama.model_flops_utilization
    printed_days = claims.paper_value(f"railonly2025.{_DAYS}")
    published = catalog.item("models", "Llama-3 405B").row("model_flops_utilization")
    errors = modelled["error"].abs()
    values = {_DAYS: days, _ERROR: float(errors.mean())}
    reason = (
        f"all tokens at {mfu:.1%} of the peak rate, by this model; {published.low:.0%} to {published.high:.0%} are "
        f"published. The printed days need {mfu * days / printed_days:.1%}: they are those of a part of the training"
    )
    reading = (
        f"our model on the {len(modelled)} published runs that the document cites, because its own are not public; "
        f"mean absolute error, no number fitted to any of them; the largest is {errors.max():.1%}"
    )
    return with_prefix("railonly2025", values, {_DAYS: reason}, {_ERROR: reading})


def fig8_options(machine: Machine) -> tuple[Machine, dict[str, Any]]:
    """The machine, and options of `best_times`, as the document describes its model."""
    described = {"interleave": 1, "sharding": "none", "keep_gathered": 0, "ends_as_layers": 0}
    described |= {"context": 1, "placement": "tensor first"}  # tensor, pipeline and data ranks
    return machine.changed(two_phase_collectives=True), {"runtime": _DESCRIBED, **described}


def fig8_claims(table: pd.DataFrame, summary: pd.DataFrame, rates: pd.DataFrame) -> Entries:
    """Values and reasons of what Fig. 8 and its text say; of three clusters the largest value counts.

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
    values, reasons = {"diminishing": increasing_returns_share(table)}, dict[str, str]()
    for name, model, column, form in _FIG8_QUOTED:
        mine = summary[summary["model"] == model].set_index("gpus")[column]
        each = ", ".join(f"{value:{form}} at {n:,} GPUs" for n, value in mine.items())
        values[name] = mine.max()
        reasons[name] = f"the largest of {each}"
        if column == "slowdown":
            off = rates[model] - claims.paper_value(f"railonly2025.fig8.{name}")
            nearest = rates.loc[off.abs().idxmin()]
            reasons[name] += (
                f". It would come nearest, with {nearest[model]:{form}}, if a GPU sustained "
                f"{nearest['share_of_best_rate']:.2g} of its best rate"
            )
    reasons["diminishing"] = (
        "the best strategy changes where a larger tensor-parallel group starts to fit; while it stays, every doubling "
        "gains less"
    )
    return with_prefix("railonly2025.fig8", values, reasons, {})


def slowdown_marks(table: pd.DataFrame, hb_domain_size: int, values: Mapping[str, float]) -> pd.DataFrame:
    """Times that the document's slowdowns at an HB domain size mean, on the cluster where ours is largest.

    table: of `best_times`. values: ours, by claim id. Columns model, hb_domain_size, seconds, differs.
    """
    rows, at_size = [], table[table["hb_domain_size"] == hb_domain_size]
    for name, model, column, _ in _FIG8_QUOTED:
        mine = at_size[at_size["model"] == model]
        if column == "slowdown" and len(mine):
            claim_id = f"railonly2025.fig8.{name}"
            ideal = mine.loc[mine["slowdown"].idxmax(), "ideal_s"]
            differs = claims.differs(claim_id, values[claim_id])
            rows.append((model, hb_domain_size, ideal * (1 + claims.paper_value(claim_id)), differs))
    return pd.DataFrame(rows, columns=["model", "hb_domain_size", "seconds", "differs"])


def dense_slowdown_claim(dense: pd.DataFrame, gpus: int, splits: int) -> Entries:
    """Value and reason of the statement that dense models train as fast on rail-only networks.

    dense: of `dense_slowdowns`; gpus: of the wired networks; splits: ways to split them for each model.
    """
    strategies, models = len(dense) // 2, ", ".join(dense["model"].unique())
    reason = (
        f"largest over {strategies} strategies, the {splits} best ways to split {gpus} GPUs for each of {models}, on "
        "wired graphs"
    )
    values = {"dense_slowdown": dense["slowdown"].max()}
    return with_prefix("railonly2025.text", values, {"dense_slowdown": reason}, {})
