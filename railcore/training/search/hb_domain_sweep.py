"""What HB domain size, NIC speed and batch do to iteration time, the best strategy taken at every point."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from railcore.facts import claims
from railcore.training.iteration.layer import MODERN, RUNTIMES, Runtime
from railcore.training.iteration.machine import Machine
from railcore.training.search import search, short
from railcore.training.transformer import Transformer

if TYPE_CHECKING:
    import pandas as pd

# How railonly2025 describes its model: two phases of a collective in sequence, only gradients hidden, plain 1F1B.
DOCUMENT = replace(RUNTIMES["megatron2021"], overlap_data=True)
READINGS: Mapping[str, Mapping[str, Any]] = {
    "as the document describes it": {"phases": True, "runtime": DOCUMENT, "interleave": 1, "sharding": 0},
    "rings with all NICs of a domain": {"phases": False, "runtime": DOCUMENT, "interleave": 1, "sharding": 0},
    "nothing hidden": {"phases": True, "runtime": RUNTIMES["megatron2021"], "interleave": 1, "sharding": 0},
    "today's software": {"phases": False, "runtime": MODERN},
}


def best_times(
    models: Mapping[str, Transformer],
    machine: Machine,
    gpus: Sequence[int],
    hb_domain_sizes: Sequence[int],
    batches: Mapping[str, Sequence[int]],
    nics_Bps: Sequence[float] = (),
    phases: bool = False,
    runtime: Runtime = MODERN,
    **limits: Any,
) -> "pd.DataFrame":
    """Iteration time of the best strategy at every model, cluster, HB domain size, batch and NIC.

    HB domains larger than the cluster are left out; the ideal has all GPUs in one.
    batches: sequences, by model. nics_Bps: by default the machine's. limits: as of `search`.
    Columns model, gpus, hb_domain_size, batch, nic_Bps, iteration_s, ideal_s, slowdown = iteration_s / ideal_s - 1,
    strategy, gain: share of iteration time that the last doubling of the HB domain took away. NaN where none fits.
    """
    import pandas as pd

    rows = []
    for (name, model), n, nic in itertools.product(models.items(), gpus, nics_Bps or (machine.nic_Bps,)):
        for batch in batches[name]:
            sizes = [*(k for k in hb_domain_sizes if k < n), n]
            box = replace(machine, nic_Bps=nic, phases=phases)
            found = [
                search(model, replace(box, hb_domain_size=k), n, batch, runtime, top=1, **limits).best for k in sizes
            ]
            times = [float(best["total_s"].iloc[0]) if len(best) else np.nan for best in found]
            for i, k in enumerate(sizes):
                gain = 1 - times[i] / times[i - 1] if i and k == 2 * sizes[i - 1] else np.nan
                strategy = short(found[i].iloc[0]) if len(found[i]) else "none fits"
                slowdown = times[i] / times[-1] - 1
                rows.append((name, n, k, batch, nic, times[i], times[-1], slowdown, strategy, gain))
    columns = "model gpus hb_domain_size batch nic_Bps iteration_s ideal_s slowdown strategy gain".split()
    return pd.DataFrame(rows, columns=columns)


def plateau(table: "pd.DataFrame", within: float) -> int:
    """Smallest HB domain size at which every cluster of a table is within a share of its ideal."""
    good = table.assign(good=table["slowdown"] <= within).groupby("hb_domain_size")["good"].all()
    return int(good.index[good & good[::-1].cummin()[::-1]].min())


def summary(table: "pd.DataFrame", hb_domain_size: int, within: float) -> "pd.DataFrame":
    """Of each model and cluster the slowdown and strategy at one HB domain size, and the `plateau`."""
    sizes = {key: plateau(part, within) for key, part in table.groupby(["model", "gpus"])}
    rows = table[table["hb_domain_size"] == hb_domain_size].assign(
        plateau=lambda mine: [sizes[key] for key in zip(mine["model"], mine["gpus"], strict=True)]
    )
    return rows[["model", "gpus", "iteration_s", "ideal_s", "slowdown", "strategy", "plateau"]]


def rising_gains(table: "pd.DataFrame") -> float:
    """Share of doublings of the HB domain that take away more seconds than the doubling before."""
    rises = []
    for _, part in table.groupby(["model", "gpus", "batch", "nic_Bps"]):
        doubled = part["hb_domain_size"].diff() == part["hb_domain_size"].shift()
        saved = -part["iteration_s"].diff().where(doubled)
        steps = saved.notna() & saved.shift().notna()
        rises += list((saved.diff() > 1e-9 * part["iteration_s"])[steps])
    return float(np.mean(rises))


def by_rate(
    models: Mapping[str, Transformer],
    machine: Machine,
    gpus: Sequence[int],
    hb_domain_size: int,
    fractions: Sequence[float],
    **options: Any,
) -> "pd.DataFrame":
    """Largest slowdown over the clusters at one HB domain size, by the share of its best rate that a GPU sustains.

    options: as of `best_times`. Columns sustained_fraction and one for each model.
    """
    import pandas as pd

    rows = []
    for fraction in fractions:
        box = replace(machine, sustained_fraction=fraction)
        table = best_times(models, box, gpus, [hb_domain_size], **options)
        slowdown = table[table["hb_domain_size"] == hb_domain_size].groupby("model")["slowdown"].max()
        rows.append({"sustained_fraction": fraction, **slowdown})
    return pd.DataFrame(rows)


def quoted(
    table: "pd.DataFrame", found: "pd.DataFrame", rates: "pd.DataFrame", gpus: int
) -> tuple[dict[str, float], dict[str, str], dict[str, str]]:
    """Values, reasons and readings of what railonly2025, Fig. 8, quotes, by the last part of its claims.

    table: of `best_times`; found: its `summary`; rates: `by_rate`, for the sustained rate that would come nearest;
    gpus: the cluster taken, for the document does not say which one it speaks of.
    """
    values, reasons, taken = {"diminishing": rising_gains(table)}, dict[str, str](), dict[str, str]()
    for key, name in (("gpt1t", "GPT-1T"), ("gpt146b", "GPT-146B")):
        mine = found[found["model"] == name].set_index("gpus")
        values[f"{key}_k256_slowdown"] = mine["slowdown"][gpus]
        each = [f"{row.slowdown:.2%} at {row.Index:,} GPUs" for row in mine.itertuples() if row.Index != gpus]
        taken[f"{key}_k256_slowdown"] = f"{gpus:,} GPUs, the cluster is not printed; {', '.join(each)}"
        paper = claims.paper_value(f"railonly2025.fig8.{key}_k256_slowdown")
        nearest = rates.loc[(rates[name] - paper).abs().idxmin()]
        reasons[f"{key}_k256_slowdown"] = (
            f"the largest of all clusters would come nearest, with {nearest[name]:.2%}, if a GPU sustained "
            f"{nearest['sustained_fraction']:.2g} of its best rate"
        )
        if key == "gpt1t":
            values["gpt1t_plateau"] = mine["plateau"][gpus]
            sizes = [f"{row.plateau:,} at {row.Index:,} GPUs" for row in mine.itertuples() if row.Index != gpus]
            taken["gpt1t_plateau"] = f"{gpus:,} GPUs, the cluster is not printed; {', '.join(sizes)}"
    reasons["diminishing"] = (
        "the best strategy changes where a larger tensor-parallel group starts to fit; while it stays, every doubling "
        "gains less"
    )
    return values, reasons, taken


def readings(
    models: Mapping[str, Transformer],
    machine: Machine,
    gpus: Sequence[int],
    hb_domain_sizes: Sequence[int],
    batches: Mapping[str, Sequence[int]],
) -> "pd.DataFrame":
    """Slowdown over the ideal under each of READINGS.

    Columns reading, hb_domain_size, and for each model the least and the largest slowdown over the clusters.
    """
    import pandas as pd

    rows = []
    for reading, options in READINGS.items():
        table = best_times(models, machine, gpus, hb_domain_sizes, batches, **options)
        for k in hb_domain_sizes:
            ends = table[table["hb_domain_size"] == k].groupby("model")["slowdown"].agg(["min", "max"])
            row = {f"{name} {end}": ends.loc[name, end] for name in models for end in ("min", "max")}
            rows.append({"reading": reading, "hb_domain_size": k} | row)
    return pd.DataFrame(rows)
