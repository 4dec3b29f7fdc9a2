"""railonly2025's Fig. 8, HB domain size against iteration time: readings of its model, and its claims."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from railcore.documents.readings import Entries, with_prefix
from railcore.facts import claims
from railcore.training.iteration import MODERN, RUNTIMES
from railcore.training.machine import Machine
from railcore.training.search import best_times, rising_gains
from railcore.training.transformer import Transformer

MODELS = {"gpt1t": "GPT-1T", "gpt146b": "GPT-146B"}
# How the document describes its model: two phases of a collective in sequence, only gradients hidden, plain 1F1B.
_DESCRIBED = replace(RUNTIMES["megatron2021"], overlap_data=True)
FIG8_READINGS: Mapping[str, Mapping[str, Any]] = {
    "as the document describes it": {"phases": True, "runtime": _DESCRIBED, "interleave": 1, "sharding": 0},
    "rings with all NICs of a domain": {"phases": False, "runtime": _DESCRIBED, "interleave": 1, "sharding": 0},
    "nothing hidden": {"phases": True, "runtime": RUNTIMES["megatron2021"], "interleave": 1, "sharding": 0},
    "today's software": {"phases": False, "runtime": MODERN},
}


def fig8_options(machine: Machine, reading: str = "as the document describes it") -> tuple[Machine, dict[str, Any]]:
    """The machine, and options of `best_times`, under one of FIG8_READINGS."""
    options = dict(FIG8_READINGS[reading])
    return replace(machine, phases=options.pop("phases")), options


def fig8_by_reading(
    models: Mapping[str, Transformer],
    machine: Machine,
    gpus: Sequence[int],
    hb_domain_size: int,
    batches: Mapping[str, Sequence[int]],
) -> pd.DataFrame:
    """Slowdown over the ideal under each of FIG8_READINGS.

    Parameters
    ----------
    models
        By name.
    machine
        A GPU and its links.
    gpus, hb_domain_size
        Of the clusters; K [GPUs].
    batches
        By model [sequences].

    Returns
    -------
    Columns reading, hb_domain_size, and for each model the least and the largest slowdown over the clusters.
    """
    rows = []
    for reading in FIG8_READINGS:
        box, options = fig8_options(machine, reading)
        table = best_times(models, box, gpus, [hb_domain_size], batches, **options)
        ends = table[table["hb_domain_size"] == hb_domain_size].groupby("model")["slowdown"].agg(["min", "max"])
        row = {f"{name} {end}": ends.loc[name, end] for name in models for end in ("min", "max")}
        rows.append({"reading": reading, "hb_domain_size": hb_domain_size} | row)
    return pd.DataFrame(rows)


def fig8_claims(table: pd.DataFrame, summary: pd.DataFrame, rates: pd.DataFrame, gpus: int) -> Entries:
    """Values, reasons and readings of what Fig. 8 and its text say.

    Parameters
    ----------
    table
        `best_times` of the two models.
    summary
        Its `hb_domain_summary`.
    rates
        `slowdown_by_sustained_rate`, for the sustained rate that comes nearest.
    gpus
        The cluster taken; the document does not say which one it speaks of.

    Returns
    -------
    For `claims.record`.
    """
    values, reasons, taken = {"diminishing": rising_gains(table)}, dict[str, str](), dict[str, str]()
    for key, name in MODELS.items():
        mine = summary[summary["model"] == name].set_index("gpus")
        others = mine.drop(index=gpus)
        slow = f"{key}_k256_slowdown"
        values[slow] = mine["slowdown"][gpus]
        each = ", ".join(f"{share:.2%} at {n:,} GPUs" for n, share in others["slowdown"].items())
        taken[slow] = f"{gpus:,} GPUs, the cluster is not printed; {each}"
        paper = claims.paper_value(f"railonly2025.fig8.{slow}")
        nearest = rates.loc[(rates[name] - paper).abs().idxmin()]
        reasons[slow] = (
            f"the largest of all clusters would come nearest, with {nearest[name]:.2%}, if a GPU sustained "
            f"{nearest['sustained_fraction']:.2g} of its best rate"
        )
        if key == "gpt1t":
            values["gpt1t_plateau"] = mine["plateau"][gpus]
            each = ", ".join(f"{size:,} at {n:,} GPUs" for n, size in others["plateau"].items())
            taken["gpt1t_plateau"] = f"{gpus:,} GPUs, the cluster is not printed; {each}"
    reasons["diminishing"] = (
        "the best strategy changes where a larger tensor-parallel group starts to fit; while it stays, every doubling "
        "gains less"
    )
    return with_prefix("railonly2025.fig8", values, reasons, taken)


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
