"""Published training runs, the model's times for them, the one fitted number, and what each physical term is worth."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railcore.facts import catalog, files
from railcore.training.iteration.critical_path import REASONS, TIMES, iteration_times
from railcore.training.iteration.layer import RUNTIMES
from railcore.training.iteration.machine import ENDLESS, from_catalog
from railcore.training.parallelism import Strategy
from railcore.training.transformer import Transformer

if TYPE_CHECKING:
    import pandas as pd

FITTED = "sustained_fraction"
TERMS: Mapping[str, Mapping[str, Any]] = {
    "best product of the GPU": {"linear_fraction": 1.0, "half_fraction": 1.0, FITTED: 1.0},
    "whole waves of tiles": {"processors": 1},
    "memory traffic": {"memory_Bps": ENDLESS},
    "kernel starts": {"kernel_s": 0.0},
    "HB links": {"hb_Bps": ENDLESS, "hb_latency_s": 0.0},
    "NICs": {"nic_Bps": ENDLESS, "nic_latency_s": 0.0},
}
PARTS = {
    "attention": "attention_s",
    "elementwise kernels": "elementwise_s",
    "logits and loss": "logits_s",
    "pipeline hops": "pipeline_s",
    "pipeline bubble": "bubble_s",
    "exchange of gradients": "data_s",
    "optimizer step": "optimizer_s",
}


def runs(use: str = "fit") -> "pd.DataFrame":
    """Rows of data/measured/iterations.csv: "fit" the 18 of A100 that the model is fitted to, "check" all others.

    Adds mixture ("experts" or "dense") and group, a coarser software.
    Raises ValueError for another use.
    """
    import pandas as pd

    table = pd.read_csv(files.data("measured/iterations.csv"), keep_default_na=False)
    if use not in set(table["use"]):
        raise ValueError(f"use is {use!r}: give one of {', '.join(sorted(set(table['use'])))}")
    table = table[table["use"] == use].reset_index(drop=True)
    kind = table["software"].where(table["experts"] == 0, "mixtures of experts")
    group = kind.where(kind != "NeMo", "NeMo, " + table["precision"])
    return table.assign(mixture=(table["experts"] > 0).map({True: "experts", False: "dense"}), group=group)


def _model(row: Any) -> Transformer:
    plain = row.use == "fit"
    return Transformer(
        row.model,
        row.layers,
        row.hidden,
        row.heads,
        row.kv_heads,
        row.ffn_hidden,
        row.vocab,
        row.seq_len,
        ffn_matrices=row.ffn_matrices,
        positions=row.seq_len if plain else 0,
        tied_embeddings=plain,
        biases=plain,
        experts=row.experts,
        top_k=row.top_k,
    )


def _strategy(row: Any) -> Strategy:
    return Strategy(
        row.tp,
        row.cp,
        row.pp,
        row.dp,
        row.ep,
        row.interleave,
        row.microbatch,
        row.recompute,
        bool(row.sequence_parallel),
        row.sharding,
    )


def predictions(table: "pd.DataFrame", runtime: Mapping[str, Any] | None = None, **changes: Any) -> "pd.DataFrame":
    """The table with the model's iteration time beside each run: modelled_s, error, memory_bytes, limit, and the
    breakdown's columns.

    limit: "feasible", or what would rule the run out; it ran all the same. error = modelled / measured - 1.
    changes: fields of `Machine` in place of the catalog's; runtime: of `Runtime`.
    Of a mixture all layers are taken to have experts.
    """
    rows, limits, machines = [], [], {}
    for row in table.itertuples():
        kind = (row.platform, row.precision)
        if kind not in machines:
            machines[kind] = from_catalog(*kind, **changes)
        options = replace(RUNTIMES[row.runtime], **(runtime or {}))
        found = iteration_times(_model(row), machines[kind], _strategy(row).columns(row.global_batch), options)
        limits.append(REASONS[found.reason.item()])
        rows.append([found.total_s.item(), found.memory_bytes.item(), *(found.breakdown[n].item() for n in TIMES)])
    values = np.array(rows)
    table = table.assign(modelled_s=values[:, 0], error=values[:, 0] / table["measured_iteration_s"] - 1)
    table = table.assign(memory_bytes=values[:, 1], limit=limits)
    return table.assign(**dict(zip(TIMES, values[:, 2:].T, strict=True)))


def gpu_memory(platform: str) -> float:
    """Memory of a GPU of a catalog platform [bytes]."""
    return catalog.item("gpus", str(catalog.item("platforms", platform)["gpu"]))["memory"]


def fitted(table: "pd.DataFrame", **changes: Any) -> float:
    """The sustained share of a product's best rate that leaves the least squares of the errors of these runs.

    Raises ValueError for fewer runs than one.
    """
    from scipy.optimize import least_squares

    if table.empty:
        raise ValueError("table has no runs: give at least one")
    found = least_squares(
        lambda x: predictions(table, None, **{**changes, FITTED: float(x[0])})["error"],
        [0.9],
        bounds=([0.3], [1.0]),
        xtol=1e-6,
    )
    return float(found.x[0])


def summary(table: "pd.DataFrame", by: str | list[str] = "source") -> "pd.DataFrame":
    """Errors of `predictions` by a column: runs, mean_error, mean_absolute_error, largest_error."""
    groups = table.groupby(by, sort=False)["error"]
    return groups.agg(
        runs="count",
        mean_error="mean",
        mean_absolute_error=lambda error: error.abs().mean(),
        largest_error=lambda error: error.abs().max(),
    ).reset_index()


def measured_twice(table: "pd.DataFrame") -> "pd.DataFrame":
    """Schedules in two sources of a table of predictions: errors of both, and how many times longer the first ran.

    Ratios are of times a micro-batch, the data-parallel exchange included.
    """
    keys = ["layers", "hidden", "tp", "pp", "interleave", "microbatch", "recompute"]
    each = table.assign(m=table["global_batch"] / (table["dp"] * table["microbatch"]))
    pair = each[each["dp"] > 1].merge(each[each["dp"] == 1], on=keys, suffixes=("", "_other"))
    times = {"measured_ratio": "measured_iteration_s", "modelled_ratio": "modelled_s"}
    ratios = {name: pair[key] / pair["m"] / (pair[f"{key}_other"] / pair["m_other"]) for name, key in times.items()}
    pair = pair.assign(**ratios)
    return pair[["model", "software", "gpus", "error", "software_other", "gpus_other", "error_other", *ratios]]


def shown(table: "pd.DataFrame") -> "pd.DataFrame":
    """What a figure's CSV needs of a table of predictions, with a label for each run."""
    of = {name: table[column].astype(str) for name, column in (("t", "tp"), ("p", "pp"), ("d", "dp"))}
    label = table["model"] + ", " + table["gpus"].map("{:,} GPUs".format)
    for letter, degree in of.items():
        label = label + " " + letter + degree
    columns = (
        "source software model platform precision gpus tp cp pp dp ep interleave microbatch global_batch recompute"
    )
    columns += " measured_iteration_s modelled_s error memory_bytes limit"
    return table.assign(label=label + " " + table["recompute"])[["label", *columns.split()]]


def halves(table: "pd.DataFrame") -> "pd.DataFrame":
    """Fitted to every other run of each source, the errors of the runs left out, both ways round."""
    import pandas as pd

    odd = table.groupby("source").cumcount() % 2 == 0
    found = []
    for name, mask in (("odd rows", odd), ("even rows", ~odd)):
        value = fitted(table[mask])
        rest = summary(predictions(table[~mask], None, **{FITTED: value}))
        found.append(rest.assign(fitted_to=name, fitted=value))
    return pd.concat(found)[["fitted_to", "fitted", *found[0].columns[:-2]]]


def across(table: "pd.DataFrame") -> "pd.DataFrame":
    """Fitted to the runs of one source, the errors of the others, and so on round."""
    import pandas as pd

    found = []
    for source, part in table.groupby("source", sort=False):
        value = fitted(part)
        rest = summary(predictions(table[table["source"] != source], None, **{FITTED: value}))
        found.append(rest.assign(fitted_to=source, fitted=value))
    return pd.concat(found)[["fitted_to", "fitted", *found[0].columns[:-2]]]


def worth(table: "pd.DataFrame") -> "pd.DataFrame":
    """What the model loses without each physical term, the rest as it is.

    Columns term, time_share (mean share of the iteration that goes with it), mean_error, mean_absolute_error and
    largest_error without it.
    """
    import pandas as pd

    whole = predictions(table)
    rows = [("nothing", whole["modelled_s"])]
    rows += [(term, predictions(table, None, **changes)["modelled_s"]) for term, changes in TERMS.items()]
    rows += [(term, whole["modelled_s"] - whole[part]) for term, part in PARTS.items()]
    rows += [("hiding of tensor traffic", predictions(table, {"overlap_tensor": False})["modelled_s"])]
    found = []
    for term, times in rows:
        error = times / table["measured_iteration_s"] - 1
        share = 1 - (times / whole["modelled_s"]).mean()
        found.append((term, share, error.mean(), error.abs().mean(), error.abs().max()))
    return pd.DataFrame(found, columns="term time_share mean_error mean_absolute_error largest_error".split())
