"""Published training runs, the model's times for them, and their errors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from railcore.catalog import files, units
from railcore.catalog.arguments import Count, Positive, checked
from railcore.catalog.checks import one_of
from railcore.training.iteration import TIME_PARTS, iteration_times
from railcore.training.machine import Machine, as_machine, catalog_machine
from railcore.training.parallelism import Strategy, as_strategy
from railcore.training.runtime import Runtime
from railcore.training.software import as_runtime, dated_runtimes
from railcore.training.transformer import Transformer, catalog_model, model_flops_utilization
from railcore.training.transformer_memory import EVERY_OPERATOR, RECOMPUTE_MODULES

_SIZES = (16, 128, 1024)  # upper ends of classes of GPUs
YOURS = "yours"  # use, group and seen of runs that a user adds
MODELLED = ("fit", "check", "forward")  # uses of runs that count as evidence
EVIDENCE = (*MODELLED, "outside")  # with runs whose strategy the model cannot say


class TrainingDuration(NamedTuple):
    """A whole training: times [s], share of the peak rate in bf16, and what rules it out ("feasible" for nothing)."""

    iteration_s: float
    iterations: float
    training_s: float
    model_flops_utilization: float
    memory_bytes: float
    limit: str


def training_duration(
    model: Transformer,
    machine: Machine,
    strategy: Strategy,
    global_batch: int,
    tokens: Positive,
    gpus: int | None = None,
    runtime: Runtime | str | None = None,
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
    runtime
        The software; None for the newest for the GPU.

    Returns
    -------
    Times, the share of the peak rate that the model's own FLOPs use (of causal attention what is computed), and the
    memory of the fullest GPU.

    Raises
    ------
    ValueError
        For a strategy that does not divide the GPUs, the model or the batch.
    """
    strategy.check(model, global_batch, gpus)
    estimate = iteration_times(model, machine, strategy, runtime, global_batch=global_batch)
    seconds, iterations = estimate.total_s.item(), tokens / (global_batch * model.sequence_length)
    flops = model.training_flops(global_batch)
    utilization = model_flops_utilization(flops, seconds, strategy.gpus, machine.rates.bf16_rate).item()
    memory, limit = estimate.memory_bytes.item(), estimate.limits.item()
    return TrainingDuration(seconds, iterations, iterations * seconds, utilization, memory, limit)


def published_runs(use: str = "fit") -> pd.DataFrame:
    """Rows of data/measured/iterations.csv by `use`: "fit", "solve", "check", "forward" or "outside", as data/README.md
    has it.

    Adds mixture ("experts", "adapters" beside frozen weights, or "dense"), group (a coarser software), size (GPUs by
    class) and seen ("looked at" while the model was built, "solved from" where a number was, "kept aside" of use
    "forward"; "yours" of runs that a user adds).
    Raises ValueError for another use.
    """
    table = published_table()
    one_of("use", use, sorted(set(table["use"])))
    return table[table["use"] == use].reset_index(drop=True)


def published_table() -> pd.DataFrame:
    """All rows of data/measured/iterations.csv, by their number, with the columns that `published_runs` adds."""
    return with_groups(pd.read_csv(files.data("measured/iterations.csv"), keep_default_na=False))


def with_groups(table: pd.DataFrame) -> pd.DataFrame:
    """Runs in the columns of data/measured/iterations.csv, with those that `published_runs` adds."""
    adapters = table["lora_rank"].astype(str).str.contains("[1-9]")
    kind = table["software"].str.replace(" (Together AI)", "", regex=False)
    kind = kind.mask(kind.str.contains("MLPerf"), "MLPerf Training").mask(adapters, "adapters (LoRA)")
    kind = kind.where(table["experts"] == 0, "mixtures of experts")
    sizes = pd.cut(table["gpus"], [0, *_SIZES, np.inf], labels=[f"up to {n}" for n in _SIZES] + ["more"])
    apart = table["use"].replace(
        {"fit": "looked at", "check": "looked at", "solve": "solved from", "forward": "kept aside"}
    )
    return table.assign(
        mixture=np.select([table["experts"] > 0, adapters], ["experts", "adapters"], "dense"),
        group=kind.where(kind != "NeMo", "NeMo, " + table["precision"]).mask(apart == YOURS, YOURS),
        size=sizes.astype(str),
        seen=apart,
    )


def _model(row: Any, models: Mapping[str, Transformer] | None = None) -> Transformer:
    """What a run trains. models: by name of an architecture, before the catalog's."""
    adapters: dict[str, Any] = {"lora_rank": int(row.lora_rank or 0)}
    if row.lora_targets:
        adapters["lora_targets"] = tuple(row.lora_targets.split())
    if row.frozen_bytes:
        adapters["frozen_bytes"] = float(row.frozen_bytes)
    if row.architecture:
        own = (models or {}).get(row.architecture)
        model = own or catalog_model(row.architecture)
        dense = min(model.dense_layers, row.layers)
        sizes = {"layers": row.layers, "dense_layers": dense, "sequence_length": row.seq_len, "vocabulary": row.vocab}
        # The catalog leaves predicting layers off, which a training may have; one's own model says them.
        sizes |= {} if own else {"mtp_layers": int("m" in row.pipeline_layout)}
        return replace(model, name=row.model, **sizes, **adapters)
    same = ("layers", "hidden", "heads", "kv_heads", "ffn_hidden", "ffn_matrices", "experts", "top_k")
    # MPT too has learned positions, tied embeddings and biases: with them its parameters are as many as are printed.
    gpt = row.use == "fit" or row.software.startswith(("llm-foundry", "Megatron-DeepSpeed"))
    return Transformer(
        row.model,
        vocabulary=row.vocab,
        sequence_length=row.seq_len,
        positions=row.seq_len if gpt else 0,
        tied_embeddings=gpt,
        biases=gpt,
        **{name: getattr(row, name) for name in same},
        **adapters,
    )


def strategy_of_run(row: Any) -> Strategy:
    """The strategy of a run, with the columns of data/measured/iterations.csv as attributes."""
    degrees = (row.tp, row.cp, row.pp, row.dp, row.ep, row.interleave, row.microbatch)
    return Strategy(
        *degrees,
        "selective" if row.recompute == "none" and _modules(row) else row.recompute,
        bool(row.sequence_parallel),
        row.sharding,
        ends_as_layers=row.pp > 1 and row.pipeline_layout != "even",
        recomputed_layers=int(row.recomputed_layers or 0),
        whole_experts=row.experts > 0 and row.tp > 1 and str(row.expert_tensor) == "1",
    )


def _modules(row: Any) -> tuple[str, ...]:
    """Modules that a run makes again; none where the run names some that the model does not have."""
    names = tuple(row.recompute_modules.split())
    return names if set(names) <= {*RECOMPUTE_MODULES, EVERY_OPERATOR} else ()


def _runtime(row: Any) -> Runtime:
    """The software of a run, with what its recipe says otherwise."""
    changes: dict[str, Any] = {"recompute_modules": modules} if (modules := _modules(row)) else {}
    if row.gradient_bytes:
        size = int(row.gradient_bytes)
        changes |= {"gradient_bytes": size, "accumulation_bytes": size}
    if str(row.fp8_attention):
        changes |= {"fp8_attention": str(row.fp8_attention) == "1"}
    if row.experts:
        changes |= {"dispatcher": "nodes" if row.dispatcher in ("deepep", "hybridep") else "copies"}
        changes |= {"overlap_expert": str(row.expert_overlap) == "1", "graphs": row.graphs or "none"}
        changes |= {"capacity": float(row.capacity or 0)}
    return replace(as_runtime(row.runtime), **changes)


def check_run(row: Any, models: Mapping[str, Transformer] | None = None) -> None:
    """Refuse a run whose model, strategy or software contradicts itself. Raises ValueError.

    row: with the columns of data/measured/iterations.csv as attributes. models: by name of an architecture, before the
    catalog's.
    """
    catalog_machine(row.platform, row.precision)
    _runtime(row)
    strategy_of_run(row).check(_model(row, models), row.global_batch, row.gpus)


def joined_runs(*tables: pd.DataFrame) -> pd.DataFrame:
    """Tables of runs one below another, those without rows left out."""
    return pd.concat([table for table in tables if not table.empty], ignore_index=True)


def _machine_of(row: Any, machine: Machine) -> Machine:
    """The machine of a run: as many GPUs of each HB domain as divide it (64 of 72 on 256 GPUs), and its own NICs."""
    used = next(size for size in range(min(machine.hb_domain_size, row.gpus), 0, -1) if row.gpus % size == 0)
    machine = machine.changed(hb_domain_size=used)
    return machine.changed(nic_Bps=float(row.nic_gbps) * units.Gbps) if row.nic_gbps else machine


def job_of(row: Any, models: Mapping[str, Transformer] | None = None) -> tuple[Transformer, Machine, Runtime]:
    """Model, machine and software of a run, with the columns of data/measured/iterations.csv as attributes.

    models: by name of an architecture, before the catalog's.
    """
    return _model(row, models), _machine_of(row, catalog_machine(row.platform, row.precision)), _runtime(row)


def predictions(
    table: pd.DataFrame,
    runtime: Mapping[str, Any] | None = None,
    altered: Callable[[Machine], Machine] | None = None,
    models: Mapping[str, Transformer] | None = None,
    **changes: Any,
) -> pd.DataFrame:
    """The table with the model's iteration time of each run; all layers have experts unless `architecture` says more.

    Parameters
    ----------
    table
        Runs, as `published_runs` has them.
    runtime
        Fields of `Runtime` in place of the run's.
    altered
        Gives the machine to take in place of the catalog's.
    models
        Models by name of an architecture, before the catalog's: those of one's own.
    changes
        Fields of `Machine` in place of the catalog's.

    Returns
    -------
    The table with modelled_s; error = modelled / measured - 1; memory_bytes, fit_in_memory and limit ("feasible", or
    what would rule the run out; it ran all the same); the columns of the breakdown.
    """
    kinds = set(zip(table["platform"], table["precision"], strict=True))
    machines, rows = {kind: catalog_machine(*kind, **changes) for kind in kinds}, []
    if altered:
        machines = {kind: altered(machine) for kind, machine in machines.items()}
    for row in table.itertuples():
        machine = _machine_of(row, machines[row.platform, row.precision])
        software = replace(_runtime(row), **(runtime or {}))
        estimate = iteration_times(
            _model(row, models), machine, strategy_of_run(row), software, global_batch=row.global_batch
        )
        memory, seconds = estimate.memory_bytes.item(), estimate.total_s.item()
        fits, limit = memory <= machine.memory_bytes, estimate.limits.item()
        rows.append((seconds, memory, fits, limit, *(estimate.breakdown[name].item() for name in TIME_PARTS)))
    columns = ["modelled_s", "memory_bytes", "fit_in_memory", "limit", *TIME_PARTS]
    table = table.join(pd.DataFrame(rows, columns=columns, index=table.index))
    return table.assign(error=table["modelled_s"] / table["measured_iteration_s"] - 1)


def error_summary(table: pd.DataFrame, by: str | list[str] = "source") -> pd.DataFrame:
    """Errors of `predictions` by a column: runs, mean_error, mean_absolute_error, largest_error."""
    for name in [by] if isinstance(by, str) else by:
        one_of("by", name, table.columns)
    absolute = table.assign(absolute=table["error"].abs()).groupby(by, sort=False)
    return absolute.agg(
        runs=("error", "count"),
        mean_error=("error", "mean"),
        mean_absolute_error=("absolute", "mean"),
        largest_error=("absolute", "max"),
    ).reset_index()


@checked
def software_times(
    model: Transformer | str,
    machine: Machine | str,
    strategy: Strategy | Mapping[str, object],
    global_batch: Count,
    runtimes: Sequence[str] = (),
) -> pd.DataFrame:
    """Iteration time of one strategy under each runtime: the band that software alone makes.

    Parameters
    ----------
    model
        Trained model: a `Transformer`, or its name in the catalog.
    machine
        GPU with its links: a `Machine`, or the name of a platform in the catalog.
    strategy
        How the model is split over GPUs: a `Strategy`, or a row of `search`'s tables.
    global_batch
        Sequences of an iteration.
    runtimes
        Of the catalog; by default all that have a date (`runtime_of`) and drive the machine's GPU.

    Returns
    -------
    Columns runtime, iteration_s, limit and over_best, the fastest first; the best is the fastest that is feasible, if
    any is.

    Examples
    --------
    >>> import railcore as rc
    >>> strategy = rc.Strategy(tensor=2, data=32)
    >>> table = rc.software_times("Llama-3 8B", "DGX H100", strategy, global_batch=256)
    >>> table["runtime"].iloc[0]
    'megatron-bridge2026'
    """
    machine = as_machine(machine)
    names = runtimes or dated_runtimes(machine)
    rows = []
    for name in names:
        estimate = iteration_times(model, machine, as_strategy(strategy), name, global_batch=global_batch)
        rows.append({"runtime": name, "iteration_s": estimate.total_s.item(), "limit": estimate.limits.item()})
    table = pd.DataFrame(rows).sort_values("iteration_s", ignore_index=True)
    fits = table["iteration_s"][table["limit"] == "feasible"]
    return table.assign(over_best=table["iteration_s"] / (fits if len(fits) else table["iteration_s"]).min())
