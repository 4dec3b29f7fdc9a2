"""Published training runs, the model's times for them, the one fitted number, and the effect of each physical term."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from railcore.engines.strategies.iteration import TIME_PARTS, iteration_times
from railcore.facts import files
from railcore.facts.checks import one_of
from railcore.training.machine import UNLIMITED_BANDWIDTH, Machine, catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.runtime import Runtime, as_runtime
from railcore.training.transformer import Transformer, catalog_model, model_flops_utilization
from railcore.training.transformer_memory import RECOMPUTE_MODULES

_MACHINE_TERMS: Mapping[str, Mapping[str, Any]] = {
    "best product of the GPU": {"linear_fraction": 1.0, "bf16_fraction": 1.0, "sustained_fraction": 1.0},
    "whole waves of tiles": {"processors": 1},
    "memory traffic": {"memory_Bps": UNLIMITED_BANDWIDTH},
    "kernel starts": {"kernel_s": 0.0},
    "the slowest GPU": {"rank_spread": 0.0},
    "compute lost to collectives beside it": {"collective_processors": 0},
    "host between iterations": {"iteration_host_s": 0.0},
    "HB links": {"hb_Bps": UNLIMITED_BANDWIDTH, "hb_latency_s": 0.0},
    "NICs": {"nic_Bps": UNLIMITED_BANDWIDTH, "nic_latency_s": 0.0},
}
_BREAKDOWN_TERMS = {
    "attention": "attention_s",
    "elementwise kernels": "elementwise_s",
    "logits and loss": "logits_s",
    "pipeline hops": "pipeline_s",
    "pipeline bubble": "bubble_s",
    "exchange of gradients": "data_s",
    "optimizer step": "optimizer_s",
}
_SIZES = (16, 128, 1024)  # upper ends of classes of GPUs
_PRODUCTS = {"mxfp8": "fp8"}  # with scales of blocks, at the same rate


class TrainingDuration(NamedTuple):
    """A whole training: times [s], share of the peak rate in bf16, and what rules it out ("feasible" for nothing)."""

    iteration_s: float
    iterations: float
    training_s: float
    model_flops_utilization: float
    memory_bytes: float
    limit: str


def training_duration(
    model: Transformer, machine: Machine, strategy: Strategy, global_batch: int, tokens: float, gpus: int | None = None
) -> TrainingDuration:
    """Time of a training on so many tokens.

    Parameters
    ----------
    model, machine, strategy
        What is trained, on which GPU, and how it is split.
    global_batch, tokens
        Of an iteration [sequences] and of the whole training.
    gpus
        GPUs that the strategy must take; None for any number.

    Returns
    -------
    Times, the share of the peak rate that the model's own FLOPs use, and the memory of the fullest GPU.

    Raises
    ------
    ValueError
        For a strategy that does not divide the GPUs, the model or the batch.
    """
    strategy.check(model, global_batch, gpus)
    found = iteration_times(model, machine, strategy, global_batch=global_batch)
    seconds, iterations = found.total_s.item(), tokens / (global_batch * model.sequence_length)
    flops = model.training_flops(global_batch)
    utilization = model_flops_utilization(flops, seconds, strategy.gpus, machine.rates.bf16_rate).item()
    limit = found.limits.item()
    return TrainingDuration(seconds, iterations, iterations * seconds, utilization, found.memory_bytes.item(), limit)


def breakdown_table(model: str, platform: str, precision: str, strategy: Strategy, global_batch: int) -> pd.DataFrame:
    """Breakdown of an iteration of a catalog model on a catalog platform.

    Parameters
    ----------
    model, platform, precision
        Of the catalog.
    strategy, global_batch
        How the model is split, and the batch [sequences].

    Returns
    -------
    One row, named after the GPUs, with the columns of `iteration_times`' breakdown [s].
    """
    gpu = catalog_machine(platform, precision)
    found = iteration_times(catalog_model(model), gpu, strategy.columns(global_batch))
    times = {name: time.item() for name, time in found.breakdown.items()}
    return pd.DataFrame(times, index=[f"{strategy.gpus:,} GPUs"])


def published_runs(use: str = "fit") -> pd.DataFrame:
    """Rows of data/measured/iterations.csv by `use`: "fit", "check", "forward" or "outside", as data/README.md has it.

    Adds mixture ("experts" or "dense"), group (a coarser software), half (odd or even rows of a source), size (GPUs by
    class) and seen ("looked at" while the model was built, "left aside", or "forward").
    Raises ValueError for another use.
    """
    table = pd.read_csv(files.data("measured/iterations.csv"), keep_default_na=False)
    one_of("use", use, sorted(set(table["use"])))
    table = table[table["use"] == use].reset_index(drop=True)
    kind = table["software"].where(table["experts"] == 0, "mixtures of experts")
    sizes = pd.cut(table["gpus"], [0, *_SIZES, np.inf], labels=[f"up to {n}" for n in _SIZES] + ["more"])
    aside = np.where(table["aside"] == 1, "left aside", "looked at")
    return table.assign(
        mixture=np.where(table["experts"] > 0, "experts", "dense"),
        group=kind.where(kind != "NeMo", "NeMo, " + table["precision"]),
        half=np.where(table.groupby("source").cumcount() % 2, "even rows", "odd rows"),
        size=sizes.astype(str),
        seen=np.where(table["use"] == "forward", "forward", aside),
    )


def _model(row: Any) -> Transformer:
    if row.architecture:
        model = catalog_model(row.architecture)
        dense = min(model.dense_layers, row.layers)
        sizes = {"layers": row.layers, "dense_layers": dense, "sequence_length": row.seq_len, "vocabulary": row.vocab}
        sizes |= {"mtp_layers": int("m" in row.pipeline_layout)}
        return replace(model, name=row.model, **sizes)
    same = ("layers", "hidden", "heads", "kv_heads", "ffn_hidden", "ffn_matrices", "experts", "top_k")
    # MPT too has learned positions, tied embeddings and biases: with them its parameters are as many as are printed.
    gpt = row.use == "fit" or row.software.startswith("llm-foundry")
    return Transformer(
        row.model,
        vocabulary=row.vocab,
        sequence_length=row.seq_len,
        positions=row.seq_len if gpt else 0,
        tied_embeddings=gpt,
        biases=gpt,
        **{name: getattr(row, name) for name in same},
    )


def _strategy(row: Any) -> Strategy:
    degrees = (row.tp, row.cp, row.pp, row.dp, row.ep, row.interleave, row.microbatch)
    return Strategy(
        *degrees,
        "selective" if row.recompute == "none" and _modules(row) else row.recompute,
        bool(row.sequence_parallel),
        row.sharding,
        ends_as_layers=row.pp > 1 and row.pipeline_layout != "even",
        whole_experts=row.experts > 0 and row.tp > 1 and str(row.expert_tensor) == "1",
    )


def _modules(row: Any) -> tuple[str, ...]:
    """Modules of a layer that a run makes again; what is said in other words than Megatron-Core's is not modelled."""
    names = tuple(row.recompute_modules.split())
    return names if set(names) <= set(RECOMPUTE_MODULES) else ()


def _runtime(row: Any) -> Runtime:
    """The software of a run, with what its recipe says otherwise."""
    changes: dict[str, Any] = {"recompute_modules": modules} if (modules := _modules(row)) else {}
    if row.gradient_bytes:
        size = int(row.gradient_bytes)
        changes |= {"gradient_bytes": size, "accumulation_bytes": size}
    if row.experts:
        changes |= {"dispatcher": "nodes" if row.dispatcher in ("deepep", "hybridep") else "copies"}
        changes |= {"overlap_expert": str(row.expert_overlap) == "1", "host_ahead": str(row.graphs) == "1"}
        changes |= {"capacity": float(row.capacity or 0)}
    return replace(as_runtime(row.runtime), **changes)


def _used_domains(machine: Machine, gpus: int) -> Machine:
    """The machine with as many GPUs of each HB domain as divide the run: 64 of 72 on 256 GPUs."""
    used = next(size for size in range(min(machine.hb_domain_size, gpus), 0, -1) if gpus % size == 0)
    return machine.changed(hb_domain_size=used)


def predictions(table: pd.DataFrame, runtime: Mapping[str, Any] | None = None, **changes: Any) -> pd.DataFrame:
    """The table with the model's iteration time of each run; all layers have experts unless `architecture` says more.

    runtime: fields of `Runtime` in place of the run's. changes: fields of `Machine` in place of the catalog's.
    Adds modelled_s; error = modelled / measured - 1; memory_bytes, fit_in_memory and limit ("feasible", or what would
    rule the run out; it ran all the same); the columns of the breakdown.
    """
    kinds = set(zip(table["platform"], table["precision"].replace(_PRODUCTS), strict=True))
    machines, rows = {kind: catalog_machine(*kind, **changes) for kind in kinds}, []
    for row in table.itertuples():
        machine = _used_domains(machines[row.platform, _PRODUCTS.get(row.precision, row.precision)], row.gpus)
        software = replace(_runtime(row), **(runtime or {}))
        found = iteration_times(_model(row), machine, _strategy(row), software, global_batch=row.global_batch)
        memory, seconds = found.memory_bytes.item(), found.total_s.item()
        fits, limit = memory <= machine.memory_bytes, found.limits.item()
        rows.append((seconds, memory, fits, limit, *(found.breakdown[name].item() for name in TIME_PARTS)))
    columns = ["modelled_s", "memory_bytes", "fit_in_memory", "limit", *TIME_PARTS]
    table = table.join(pd.DataFrame(rows, columns=columns, index=table.index))
    return table.assign(error=table["modelled_s"] / table["measured_iteration_s"] - 1)


def fitted_fraction(table: pd.DataFrame) -> float:
    """Sustained share of a product's best rate with the least squares of the runs' errors, from 0.3 to 1.

    Found as its inverse, on which the errors depend almost linearly. Raises ValueError for a table without runs.
    """
    from scipy.optimize import least_squares

    if table.empty:
        raise ValueError("table has no runs: give at least one")

    def errors(inverse: np.ndarray) -> pd.Series:
        return predictions(table, sustained_fraction=1 / float(inverse[0]))["error"]

    found = least_squares(errors, [1 / 0.9], bounds=([1.0], [1 / 0.3]), method="dogbox", xtol=1e-6)
    return 1 / float(found.x[0])


def error_summary(table: pd.DataFrame, by: str | list[str] = "source") -> pd.DataFrame:
    """Errors of `predictions` by a column: runs, mean_error, mean_absolute_error, largest_error."""
    absolute = table.assign(absolute=table["error"].abs()).groupby(by, sort=False)
    return absolute.agg(
        runs=("error", "count"),
        mean_error=("error", "mean"),
        mean_absolute_error=("absolute", "mean"),
        largest_error=("absolute", "max"),
    ).reset_index()


def cross_validation(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Fitted to the runs of one value of a column, the errors of all other runs; every value in turn.

    Columns fitted_to, fitted (the fraction), and those of `error_summary` by source.
    """
    found = []
    for name, part in table.groupby(by, sort=False):
        fraction = fitted_fraction(part)
        errors = error_summary(predictions(table.drop(part.index), sustained_fraction=fraction))
        found.append(pd.DataFrame({"fitted_to": name, "fitted": fraction}, index=errors.index).join(errors))
    return pd.concat(found)


def schedules_measured_twice(table: pd.DataFrame) -> pd.DataFrame:
    """Schedules in two sources of a table of predictions: errors of both, and how many times longer the first ran.

    Ratios are of times a micro-batch, the data-parallel exchange included.
    """
    keys = ["layers", "hidden", "tp", "pp", "interleave", "microbatch", "recompute"]
    each = table.assign(m=table["global_batch"] / (table["dp"] * table["microbatch"]))
    pair = each[each["dp"] > 1].merge(each[each["dp"] == 1], on=keys, suffixes=("", "_other"))
    for name, key in {"measured_ratio": "measured_iteration_s", "modelled_ratio": "modelled_s"}.items():
        pair[name] = pair[key] / pair["m"] / (pair[f"{key}_other"] / pair["m_other"])
    both = [f"{name}{end}" for end in ("", "_other") for name in ("software", "gpus", "error")]
    return pair[["model", *both, "measured_ratio", "modelled_ratio"]]


def labelled_runs(table: pd.DataFrame) -> pd.DataFrame:
    """Settings and errors of a table of predictions, with a label for each run."""
    degrees = " t" + table["tp"].astype(str) + " p" + table["pp"].astype(str) + " d" + table["dp"].astype(str)
    label = table["model"] + ", " + table["gpus"].map("{:,} GPUs".format) + degrees + " " + table["recompute"]
    columns = (
        "source software model platform precision gpus tp cp pp dp ep interleave microbatch global_batch recompute "
        "measured_iteration_s modelled_s error memory_bytes limit"
    )
    return table.assign(label=label)[["label", *columns.split()]]


def runtime_effect(table: pd.DataFrame, runtimes: Sequence[str]) -> pd.DataFrame:
    """Errors of a table of runs under each of some runtimes in place of their own: columns runtime, then the errors."""
    rows = [error_summary(predictions(table.assign(runtime=name)), "use").assign(runtime=name) for name in runtimes]
    return pd.concat(rows)[["runtime", "runs", "mean_error", "mean_absolute_error", "largest_error"]]


def term_ablation(table: pd.DataFrame) -> pd.DataFrame:
    """What the model loses without each physical term, everything else as it is.

    Columns term, time_share (mean share of the iteration that goes with it), mean_error, mean_absolute_error and
    largest_error without it.
    """
    whole = predictions(table)
    times = {"nothing": whole["modelled_s"]}
    times |= {term: predictions(table, **changes)["modelled_s"] for term, changes in _MACHINE_TERMS.items()}
    times |= {term: whole["modelled_s"] - whole[part] for term, part in _BREAKDOWN_TERMS.items()}
    times["hiding of tensor traffic"] = predictions(table, {"overlap_tensor": False})["modelled_s"]
    without = pd.DataFrame(times)
    errors = without.div(table["measured_iteration_s"], axis=0) - 1
    columns = {
        "time_share": 1 - without.div(whole["modelled_s"], axis=0).mean(),
        "mean_error": errors.mean(),
        "mean_absolute_error": errors.abs().mean(),
        "largest_error": errors.abs().max(),
    }
    return pd.DataFrame(columns).rename_axis("term").reset_index()
