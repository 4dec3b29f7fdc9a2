"""railonly2025 on iteration time: mean error (Fig. 7), days of Llama 3 405B, and HB domain size (Fig. 8)."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from railcore import catalog
from railcore.catalog.units import day, number
from railcore.strategies.hb_domains import best_times, increasing_returns_share, smallest_hb_domain_near_ideal
from railcore.strategies.parts import search
from railcore.training.iteration import iteration_times
from railcore.training.machine import Machine
from railcore.training.parallelism import as_strategy
from railcore.training.runs import TrainingDuration, predictions
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
_OTHERS_NEAR = (0.025, 0.1)  # other excesses over the ideal that may count as near
_COMPUTE = ("linear_s", "attention_s", "elementwise_s", "recompute_s")


def formula_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """Those of `published_runs` whose split the document's formulas can say, on its GPU: dense, bf16, DGX A100.

    Tensor, pipeline and data ranks, no sharded weights.
    """
    dense = (runs["mixture"] == "dense") & (runs["precision"] == "bf16") & (runs["platform"] == "DGX A100")
    return runs[dense & (runs["cp"] == 1) & runs["sharding"].isin(["none", "optimizer"])]


def formula_predictions(runs: pd.DataFrame, **runtime: Any) -> pd.DataFrame:
    """`predictions` of runs by the document's formulas: plain 1F1B, two-phase collectives, only gradients hidden.

    A kernel and a link take what they take in our model. runtime: fields of `Runtime` in place of those described.
    """
    described = {name: value for name, value in asdict(_DESCRIBED).items() if name != "name"}
    plain = runs.assign(interleave=1, sharding="none")
    return predictions(plain, described | runtime, two_phase_collectives=True)


def formula_columns(modelled: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """formula_s and formula_error: times and errors of the document's formulas, for those runs that they can say.

    modelled: `predictions`; columns: of `published_runs`.
    """
    predicted = formula_predictions(formula_runs(modelled[list(columns)]))
    return predicted[["modelled_s", "error"]].set_axis(["formula_s", "formula_error"], axis=1)


def mean_error_mark(values: Mapping[str, float], aside: pd.DataFrame, shown: pd.DataFrame) -> dict[str, tuple]:
    """Arguments of `bars.measured_runs`: the document's mean error, and that of its formulas on runs kept aside.

    values: ours, by claim id. aside: runs kept aside. shown: `formula_columns` of those in the figure.
    """
    claim_id = f"railonly2025.{_ERROR}"
    options: dict[str, tuple] = {"others": (values[claim_id], len(formula_runs(aside)))}
    for mark in claims.marks({claim_id: values[claim_id]}).values():
        on_shown = claims.verdict_of(claim_id, float(shown["formula_error"].abs().mean()))
        options["document"] = mark.value, on_shown, mark.verdict
    return options


def runs_aside_text(aside: pd.DataFrame) -> str:
    """Which runs the document's formulas are judged on; aside: runs kept aside."""
    runs = formula_runs(aside)
    owners = sorted({source.removeprefix("github.com/").partition("/")[0] for source in runs["source"]})
    return (
        f"other runs: {len(runs)} of DGX A100, {runs['gpus'].min():,} to {runs['gpus'].max():,} GPUs, published by "
        f"{' and '.join(owners)}; nothing was solved from them"
    )


def mean_absolute_error(predicted: pd.DataFrame) -> float:
    """Mean of |modelled / measured - 1| over `predictions`."""
    return float(predicted["error"].abs().mean())


def iteration_time_claims(
    llama: TrainingDuration, model: Transformer, modelled: pd.DataFrame, aside: pd.DataFrame
) -> Entries:
    """Values, reasons and readings for `claims.record`.

    Parameters
    ----------
    llama, model
        The training of Llama 3 405B.
    modelled
        `predictions` of the runs that the document cites.
    aside
        Runs kept aside, as `published_runs` has them; `formula_runs` of them count.

    Returns
    -------
    Of the mean error and of the days.
    """
    # Published shares of the peak rate count all scores, as Chowdhery et al. 2022 and Megatron-LM of the time did.
    whole = float(model.training_flops(causal=False) / model.training_flops())
    days, mfu = llama.training_s / day, llama.model_flops_utilization * whole
    printed_days = claims.paper_value(f"railonly2025.{_DAYS}")
    published = catalog.item("models", "Llama-3 405B").row("model_flops_utilization")
    counted = formula_runs(aside)
    kept, cited = (formula_predictions(runs) for runs in (counted, modelled[aside.columns]))
    narrow = formula_predictions(counted, gradient_bytes=2, accumulation_bytes=2)
    values = {_DAYS: days, _ERROR: mean_absolute_error(kept)}
    reason = (
        f"by our model its published split reaches {mfu:.0%} of the peak rate, all scores counted ({published.low:.0%} "
        f"to {published.high:.0%} are published); {printed_days:.0f} days need {mfu * days / printed_days:.0%} for all "
        "tokens, and are the length of a part of the training"
    )
    reading = (
        f"its formulas with kernels and links as we measured them, 4-byte gradients, on the {len(kept)} dense runs on "
        f"DGX A100 kept aside (2-byte gradients: {mean_absolute_error(narrow):.1%}; the {len(cited)} runs that it "
        f"cites: {mean_absolute_error(cited):.1%}; our own model on these, built with them in sight: "
        f"{mean_absolute_error(modelled):.1%})"
    )
    return with_prefix("railonly2025", values, {_DAYS: reason}, {_ERROR: reading})


def fig8_options(machine: Machine) -> tuple[Machine, dict[str, Any]]:
    """The machine, and options of `best_times`, as the document describes its model."""
    described = {"interleave": 1, "sharding": "none", "keep_gathered": 0, "ends_as_layers": 0}
    described |= {"context": 1, "placement": "tensor first"}  # tensor, pipeline and data ranks
    return machine.changed(two_phase_collectives=True), {"runtime": _DESCRIBED, **described}


def fig8_settings(
    models: Mapping[str, Transformer],
    machine: Machine,
    gpus: Sequence[int],
    hb_domain_size: int,
    choices: Mapping[str, Sequence[Any]],
    **options: Any,
) -> pd.DataFrame:
    """Slowdown of each model and cluster at one HB domain size, under every combination of what Fig. 8 leaves open.

    Parameters
    ----------
    models
        By name.
    machine
        A GPU and its links, as `fig8_options` has it.
    gpus, hb_domain_size
        Of the clusters; K [GPUs].
    choices
        Values to try of best_rate_share (that GPUs sustain, of their best rate), hb_Bps, gradient_bytes and
        overlap_data.
    options
        Of `best_times`, batches and runtime among them.

    Returns
    -------
    Columns setting (a number), those of the choices, model, gpus and slowdown.
    """
    best = {name: machine.values[name] for name in ("linear_fraction", "bf16_fraction")}
    tables = []
    for i, values in enumerate(product(*choices.values())):
        setting = dict(zip(choices, values, strict=True))
        size, hidden = setting["gradient_bytes"], setting["overlap_data"]
        software = replace(options["runtime"], gradient_bytes=size, accumulation_bytes=size, overlap_data=hidden)
        rates = {name: setting["best_rate_share"] * share for name, share in best.items()}
        box = machine.changed(hb_Bps=setting["hb_Bps"], **rates)
        table = best_times(models, box, gpus, [hb_domain_size], **options | {"runtime": software})
        table = table[table["hb_domain_size"] == hb_domain_size]
        tables.append(table[["model", "gpus", "slowdown"]].assign(setting=i, **setting))
    return pd.concat(tables, ignore_index=True)[["setting", *choices, "model", "gpus", "slowdown"]]


def compute_shares(
    model: Transformer,
    machine: Machine,
    gpus: Sequence[int],
    hb_domain_sizes: Sequence[int],
    batch: int,
    **options: Any,
) -> pd.DataFrame:
    """Share of computation in the iteration of the best strategy, by cluster and HB domain size.

    Parameters
    ----------
    model, machine
        What is trained; a GPU and its links.
    gpus, hb_domain_sizes
        Of the clusters; K [GPUs], larger ones than the cluster left out.
    batch
        Sequences of an iteration.
    options
        Of `search`, runtime among them.

    Returns
    -------
    Columns gpus, hb_domain_size, alone (m micro-batches of a stage) and share, which counts the computation in the
    bubble too, (m + p - 1) / m times as much, as the document's sum of bubble and last stage does.
    """
    rows = []
    for n, k in product(gpus, hb_domain_sizes):
        if k > n:
            continue
        best = search(model, machine, n, batch, top=1, hb_domain_size=k, only_best=True, **options).best
        for row in best.to_dict("records"):  # none where no strategy fits
            strategy = as_strategy(row)
            time = iteration_times(
                model, machine.changed(hb_domain_size=k), strategy, options["runtime"], global_batch=batch
            )
            alone = sum(float(time.breakdown[part].item()) for part in _COMPUTE) / time.total_s.item()
            microbatches = batch / (strategy.data * strategy.micro_batch)
            rows.append((n, k, alone, alone * (1 + (strategy.pipeline - 1) / microbatches)))
    return pd.DataFrame(rows, columns=["gpus", "hb_domain_size", "alone", "share"])


def rising_savings_share(table: pd.DataFrame) -> float:
    """Share of the curves of `best_times` along which doublings of the HB domain save more and more seconds.

    A curve's trend is the slope of a straight line through the seconds that each doubling saves.
    """
    rising = []
    for _, curve in table.groupby(["model", "gpus"]):
        saved_s = -curve["iteration_s"].diff()[curve["gain"].notna()].to_numpy()
        if len(saved_s) > 1:
            rising.append(np.polyfit(np.arange(len(saved_s)), saved_s, 1)[0] >= 0)
    return float(np.mean(rising)) if rising else float("nan")


def fig8_claims(
    table: pd.DataFrame, summary: pd.DataFrame, gpus: int, settings: pd.DataFrame, computing: pd.DataFrame
) -> Entries:
    """Values, reasons and readings of what Fig. 8 and its text say, its numbers at the cluster of `gpus`.

    Parameters
    ----------
    table
        `best_times` of the two models.
    summary
        Its `hb_domain_summary`.
    gpus
        Of the cluster, one of the table's.
    settings
        `fig8_settings`.
    computing
        `compute_shares` of GPT-1T.

    Returns
    -------
    For `claims.record`.
    """
    trend, falls = rising_savings_share(table), increasing_returns_share(table)
    plateau = int(claims.paper_value("railonly2025.fig8.gpt1t_plateau"))
    from_there = computing[computing["hb_domain_size"] >= plateau]
    values = {"diminishing": trend, "gpt1t_compute_share": from_there["share"].min()}
    readings = {
        "diminishing": "the trend of a curve is the slope of a line through the seconds that each doubling saves; of "
        f"single doublings {falls:.0%} save more than the one before, where a larger tensor-parallel group starts to "
        "fit",
        "gpt1t_compute_share": "computation in the bubble counts, as in the document's sum; without it "
        f"{from_there['alone'].min():.0%} to {from_there['alone'].max():.0%}; with it, it is "
        f"{computing['share'][computing['hb_domain_size'] < plateau].min():.0%} or more in smaller domains too",
    }
    reasons, met = {}, _settings_that_meet(settings)
    for name, model, column, form in _FIG8_QUOTED:
        mine = summary[summary["model"] == model].set_index("gpus")[column]
        values[name] = mine[gpus]
        others = ", ".join(f"{n:,}: {value:{form}}" for n, value in mine.items() if n != gpus)
        readings[name] = f"{gpus:,} GPUs, the middle one of the clusters ({others})"
        if column == "slowdown":
            tried = settings[(settings["model"] == model) & (settings["gpus"] == gpus)][column]
            reasons[name] = (
                "rates, bytes of gradients, how much is hidden and the cluster are not printed: "
                f"{settings['setting'].nunique()} settings give {tried.min():.1%} to {tried.max():.1%}, and {met} both "
                "numbers of the text at one cluster"
            )
        else:
            curve = table[(table["model"] == model) & (table["gpus"] == gpus)]
            sizes = {share: smallest_hb_domain_near_ideal(curve, share) for share in _OTHERS_NEAR}
            readings[name] += "; within 5% is ours: " + ", ".join(f"{x:.1%}: {k:,}" for x, k in sizes.items())
    return with_prefix("railonly2025.fig8", values, reasons, readings)


def _settings_that_meet(settings: pd.DataFrame) -> str:
    """How many settings meet Fig. 8's slowdowns of both models at one of the clusters, as text."""
    names = {model: f"railonly2025.fig8.{name}" for name, model, column, _ in _FIG8_QUOTED if column == "slowdown"}
    met = [
        claims.verdict_of(names[model], slowdown) == "reproduced"
        for model, slowdown in zip(settings["model"], settings["slowdown"], strict=True)
    ]
    both = int(settings.assign(met=met).groupby(["setting", "gpus"])["met"].all().groupby("setting").any().sum())
    return {0: "none gives", 1: "one gives"}.get(both, f"{both} give")


def slowdown_marks(slowdowns: Entries, within: float, gpus: int) -> pd.DataFrame:
    """The document's numbers of Fig. 8 as slowdowns over HB domain sizes.

    Parameters
    ----------
    slowdowns
        `fig8_claims`.
    within
        Excess over the ideal below which a size counts as near.
    gpus
        Of the cluster of the claims.

    Returns
    -------
    Columns model, hb_domain_size, share (not a number for the plateau, which is a size alone), verdict, gpus, text.
    """
    rows: list[tuple[str, float, float, str, int, str]] = []
    models = {f"railonly2025.fig8.{name}": model for name, model, *_ in _FIG8_QUOTED}
    for name, mark in claims.marks({name: slowdowns.values[name] for name in models}).items():
        if size := re.search(r"_k(\d+)_", name):
            printed = f"{number(100 * mark.value)}% at {size[1]}"
            text = f"document: {printed},\ncluster not said; arrow:\nto {gpus:,} GPUs, our reading"
            rows.append((models[name], int(size[1]), mark.value, mark.verdict, gpus, text))
        else:
            ours = f"(within {number(100 * within)}% of the ideal: our reading,\nat {gpus:,} GPUs)"
            text = f"document: plateau above {number(mark.value)}\n{ours}"
            rows.append((models[name], mark.value, math.nan, mark.verdict, gpus, text))
    return pd.DataFrame(rows, columns=["model", "hb_domain_size", "share", "verdict", "gpus", "text"])


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
