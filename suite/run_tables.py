"""Tables of notebook 06 for people: published runs, the model's errors, and breakdowns."""

from collections.abc import Sequence

import pandas as pd

from railcore.catalog import files
from railcore.catalog.units import KiB
from railcore.training.formats import ELEMENT_BYTES
from railcore.training.iteration import iteration_times
from railcore.training.machine import Machine
from railcore.training.measured_collectives import collective_errors
from railcore.training.measured_parts import part_errors
from railcore.training.measured_products import product_errors
from railcore.training.parallelism import Strategy
from railcore.training.runs import error_summary, predictions
from railcore.training.transformer import Transformer


def breakdown_table(
    model: Transformer, machine: Machine, strategy: Strategy, global_batch: int, runtime: str | None = None
) -> pd.DataFrame:
    """Breakdown of an iteration.

    Parameters
    ----------
    model, machine
        What is trained, on which GPU.
    strategy, global_batch
        How the model is split, and the batch [sequences].
    runtime
        Software of the catalog; by default the newest for the GPU.

    Returns
    -------
    One row, named after the GPUs, with the columns of `iteration_times`' breakdown [s].
    """
    durations = iteration_times(model, machine, strategy.columns(global_batch), runtime)
    times = {name: time.item() for name, time in durations.breakdown.items()}
    return pd.DataFrame(times, index=[f"{strategy.gpus:,} GPUs"])


def schedules_measured_twice(table: pd.DataFrame) -> pd.DataFrame:
    """Schedules in two sources of a table of predictions: errors of both, and how many times longer the first ran.

    Ratios are of times a micro-batch, the data-parallel exchange included.
    """
    keys = ["layers", "hidden", "tp", "pp", "interleave", "microbatch", "recompute"]
    rows = table.assign(m=table["global_batch"] / (table["dp"] * table["microbatch"]))
    pair = rows[rows["dp"] > 1].merge(rows[rows["dp"] == 1], on=keys, suffixes=("", "_other"))
    for name, key in {"measured_ratio": "measured_iteration_s", "modelled_ratio": "modelled_s"}.items():
        pair[name] = pair[key] / pair["m"] / (pair[f"{key}_other"] / pair["m_other"])
    both = [f"{name}{end}" for end in ("", "_other") for name in ("software", "gpus", "error")]
    return pair[["model", *both, "measured_ratio", "modelled_ratio"]]


def errors_as_text(errors: pd.DataFrame) -> pd.DataFrame:
    """An `error_summary` by seen, software, platform, precision, mixture and size, for people: errors in percent."""
    sizes = errors["mixture"].replace("experts", "mixture of experts") + ", " + errors["size"] + " GPUs"
    shown = errors[["seen", "software", "platform", "precision"]].assign(**{"model and size": sizes})
    shown["runs"] = errors["runs"]
    texts = {
        name: [f"{share:.1%}".replace("-0.0%", "0.0%") for share in errors[name]]
        for name in ("mean_error", "mean_absolute_error")
    }
    return shown.assign(**texts)


def measured_twice_as_text(pairs: pd.DataFrame) -> pd.DataFrame:
    """`schedules_measured_twice` for people: errors and ratios in percent, software with its GPUs."""
    first, second = (
        pairs[f"software{end}"] + ", " + pairs[f"gpus{end}"].map("{:,} GPUs".format) for end in ("", "_other")
    )
    shares = {
        "error": pairs["error"],
        "error of the other": pairs["error_other"],
        "time of a micro-batch over the other, measured": pairs["measured_ratio"],
        "the same, modelled": pairs["modelled_ratio"],
    }
    texts = {name: [f"{share:.1%}".replace("-0.0%", "0.0%") for share in values] for name, values in shares.items()}
    return pd.DataFrame({"model": pairs["model"], "run": first, "the other run": second, **texts})


def labelled_runs(table: pd.DataFrame) -> pd.DataFrame:
    """Settings and errors of a table of predictions, with a label for each run."""
    degrees = " TP" + table["tp"].astype(str) + " PP" + table["pp"].astype(str) + " DP" + table["dp"].astype(str)
    label = table["model"] + ", " + table["gpus"].map("{:,} GPUs".format) + degrees + " " + table["recompute"]
    columns = (
        "source group software model platform precision gpus tp cp pp dp ep interleave microbatch global_batch "
        "recompute measured_iteration_s modelled_s error memory_bytes limit"
    )
    return table.assign(label=label)[["label", *columns.split()]]


def runtime_effect(table: pd.DataFrame, runtimes: Sequence[str]) -> pd.DataFrame:
    """Errors of a table of runs under each of some runtimes in place of their own: columns runtime, then the errors."""
    rows = [error_summary(predictions(table.assign(runtime=name)), "use").assign(runtime=name) for name in runtimes]
    return pd.concat(rows)[["runtime", "runs", "mean_error", "mean_absolute_error", "largest_error"]]


def measured_parts() -> pd.DataFrame:
    """Parts of a step beside their measured times, a row for each time.

    Columns source ("one H100", "products", "collectives"), part (a kind, or a GPU with its precision), size ("large";
    "small" of collectives below 64 kB), measured_s, modelled_s and error.
    """
    parts, products, collectives = (
        pd.read_csv(files.data(f"measured/{name}.csv")) for name in ("gpu_parts", "products_public", "collectives")
    )
    alone = part_errors(parts)
    alone = alone.assign(source="one H100", part=_part_names(alone), size="large")
    public = product_errors(products).rename(columns={"seconds": "measured_s"})
    precision = public["precision"].replace({"bfloat16": "bf16", "fp8_block": "fp8 in blocks"})
    public = public.assign(source="products", part=public["gpu"] + ", " + precision, size="large")
    inside = collective_errors(collectives).rename(columns={"seconds": "measured_s"})
    large = ELEMENT_BYTES * inside["message"] >= 64 * KiB
    inside = inside.assign(source="collectives", part=inside["gpu"], size=large.map({True: "large", False: "small"}))
    columns = ["source", "part", "size", "measured_s", "modelled_s", "error"]
    return pd.concat([table[columns] for table in (alone, public, inside)], ignore_index=True)


def _part_names(alone: pd.DataFrame) -> pd.Series:
    """Parts of `part_errors` for people, in their order."""
    names = {
        "product": "products, bf16",
        "product_fp8": "products, fp8",
        "product_between_copies": "products between copies",
        "experts_grouped": "experts, one kernel",
        "experts_loop": "experts, one by one",
        "experts_streams4": "experts, four streams",
        "elementwise": "norm and activation",
        "logits_and_loss": "logits and loss",
        "adamw": "AdamW",
    }
    attention = "attention, " + alone["name"].replace({"flash": "FlashAttention-2", "cudnn": "cuDNN"})
    return alone["kind"].map(names).where(alone["kind"] != "attention", attention)
