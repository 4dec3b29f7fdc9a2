"""Runs of a spec's own ([[measured]], or a CSV of them) as a table of runs."""

import math
from dataclasses import fields, replace
from typing import Any, NamedTuple

import pandas as pd

from railcore.catalog.units import Gbps
from railcore.planner.spec import MeasuredSpec, Spec, batch_size
from railcore.training.launch_lines import megatron_run
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.run_cells import model_cells, runtime_cells, strategy_cells
from railcore.training.run_file import checked_runs, runs_of_text
from railcore.training.runtime import Runtime
from railcore.training.software import as_runtime
from railcore.training.transformer import Transformer, catalog_model

# Fields in which a launch line's model may differ from the one it is of.
_CHOSEN = ("name", "imbalance", "sequence_length", "vocabulary", "mtp_layers", "positions")
_ADAPTERS = ("lora_rank", "lora_targets", "frozen_bytes")


def spec_runs(
    spec: Spec, model: Transformer, runtime: Runtime, batch: float
) -> tuple[pd.DataFrame, dict[str, Transformer]]:
    """A spec's own runs with the columns of `own_runs`, and the models that they may have beside the catalog's.

    Parameters
    ----------
    spec
        Its `measured` is a list of runs, or the text of a CSV in the form of `run_template`.
    model, runtime, batch
        Of the job: what runs leave out [batch in sequences].

    Returns
    -------
    The table, empty where the spec has no runs, and models by name for `runs.predictions`.

    Raises
    ------
    ValueError
        By dotted key or line for a run that does not fit.
    """
    models = {model.name: model}
    if isinstance(spec.measured, str):
        cluster, job = spec.cluster, spec.job
        defaults = {"platform": cluster.platform, "precision": job.precision, "runtime": runtime.name}
        defaults |= model_cells(model) | _nic(spec)
        return runs_of_text("measured", spec.measured, defaults, models), models
    left_out, rows = _Job(spec, model, runtime, batch), []
    for place, run in enumerate(spec.measured):
        where = f"measured.{place}"
        try:
            rows.append((where, _cells(where, run, left_out, models)))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{where}: {error}") from None
    return checked_runs(rows, models=models), models


class _Job(NamedTuple):
    """What runs leave out."""

    spec: Spec
    model: Transformer
    runtime: Runtime
    batch: float


def _nic(spec: Spec) -> dict[str, str]:
    """The cell of a NIC that is not the platform's."""
    return {} if spec.cluster.nic is None else {"nic_gbps": f"{spec.cluster.nic / Gbps:.9g}"}


def _cells(where: str, run: MeasuredSpec, job: _Job, models: dict[str, Transformer]) -> dict[str, str]:
    """Cells of a run. models: to which the one of its launch line is added, where it is another."""
    platform = run.platform or job.spec.cluster.platform
    precision = run.precision or job.spec.job.precision
    runtime = job.runtime
    if run.runtime or run.platform:
        runtime = as_runtime(run.runtime, catalog_machine(platform, precision))
    model, batch = catalog_model(run.model) if run.model else job.model, job.batch
    if run.launch is None:
        strategy = _mapped(run)
    else:
        line = megatron_run(run.launch, run.gpus, model.vocabulary)
        strategy, batch = line.strategy, line.global_batch
        if line.model:
            model = _line_model(line.model, model, where, models, bool(run.model))
    if run.gpus not in (None, strategy.gpus):
        raise ValueError(f"gpus is {run.gpus}, and the strategy takes {strategy.gpus}: change one of them")
    if run.sequence_length:
        model = replace(model, sequence_length=run.sequence_length)
    sequences = _sequences(run.batch, model, batch)
    seconds = run.seconds
    if run.tokens_per_s:
        seconds = sequences * model.sequence_length / (run.tokens_per_s * strategy.gpus)
    cells = {"platform": platform, "precision": precision, "global_batch": str(sequences)}
    cells |= {"measured_iteration_s": repr(seconds), "note": where} | ({} if run.platform else _nic(job.spec))
    cells |= model_cells(model) | strategy_cells(strategy)
    return cells | (runtime_cells(runtime) if model.experts else {"runtime": runtime.name})


def _line_model(
    line: Transformer, model: Transformer, where: str, models: dict[str, Transformer], named: bool
) -> Transformer:
    """The model of a launch line: the one it is of with its own sequences, or another, which is kept by its place."""
    other = [
        field.name
        for field in fields(Transformer)
        if field.name not in (*_CHOSEN, *_ADAPTERS) and getattr(line, field.name) != getattr(model, field.name)
    ]
    if not other:
        return replace(model, sequence_length=line.sequence_length, vocabulary=line.vocabulary)
    if named:
        name = other[0]
        sizes = f"{name} is {getattr(line, name)} in the line and {getattr(model, name)} in {model.name}"
        raise ValueError(f"launch: {sizes}: give the same, or leave model out")
    models[where] = replace(line, name=where)
    return models[where]


def _mapped(run: MeasuredSpec) -> Strategy:
    """The strategy of a run; without data it takes all its GPUs."""
    mapping = dict(run.strategy or {})
    if "data" not in mapping:
        replica = Strategy(**{key: mapping[key] for key in ("tensor", "context", "pipeline") if key in mapping}).gpus
        if run.gpus is None or run.gpus % replica:
            has = "no gpus" if run.gpus is None else f"{run.gpus} GPUs, no multiple of {replica}"
            raise ValueError(f"strategy has no data, and the run has {has}: give data")
        mapping["data"] = run.gpus // replica
    return Strategy(**mapping)


def _sequences(asked: Any, model: Transformer, batch: float) -> int:
    """Sequences of an iteration. batch: by default."""
    if isinstance(asked, str):
        size, what = batch_size(asked)
        batch = size / model.sequence_length if what == "tokens" else size
    elif asked is not None:
        batch = asked
    if batch != int(batch):
        whole = f"{math.floor(batch)} or {math.ceil(batch)} sequences"
        raise ValueError(f"batch is {batch:,.2f} sequences of {model.sequence_length:,} tokens: give {whole}")
    return int(batch)
