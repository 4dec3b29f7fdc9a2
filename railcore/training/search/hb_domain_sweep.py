"""What HB domain size, NIC speed and batch do to iteration time, with the best strategy at every point."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from railcore.training.iteration.machine import Machine
from railcore.training.search.result import search, strategy_label
from railcore.training.transformer import Transformer


def best_times(
    models: Mapping[str, Transformer],
    machine: Machine,
    gpus: Sequence[int],
    hb_domain_sizes: Sequence[int],
    batches: Mapping[str, Sequence[int]],
    nics_Bps: Sequence[float] = (),
    **options: Any,
) -> pd.DataFrame:
    """Iteration time of the best strategy at every model, cluster, HB domain size, batch and NIC.

    Parameters
    ----------
    models
        By name.
    machine
        A GPU and its links.
    gpus, hb_domain_sizes
        Of the clusters; K [GPUs]. HB domains larger than the cluster are left out.
    batches
        By model [sequences].
    nics_Bps
        Bandwidths of a NIC, one direction [bytes/s]; by default the machine's.
    options
        Of `search`: runtime, and limits of the strategies.

    Returns
    -------
    Columns model, gpus, hb_domain_size, batch, nic_Bps, iteration_s, ideal_s (all GPUs in one HB domain), slowdown =
    iteration_s / ideal_s - 1, strategy, gain: share of iteration time that the last doubling of the HB domain saved.
    NaN where no strategy fits.
    """
    rows = []
    for (name, model), n, nic in itertools.product(models.items(), gpus, nics_Bps or (machine.nic_Bps,)):
        for batch in batches[name]:
            sizes = [*(k for k in hb_domain_sizes if k < n), n]
            boxes = [replace(machine, nic_Bps=nic, hb_domain_size=k) for k in sizes]
            found = [search(model, box, n, batch, top=1, **options).best for box in boxes]
            times = [float(best["total_s"].iloc[0]) if len(best) else np.nan for best in found]
            for i, k in enumerate(sizes):
                gain = 1 - times[i] / times[i - 1] if i and k == 2 * sizes[i - 1] else np.nan
                strategy = strategy_label(found[i].iloc[0]) if len(found[i]) else "none fits"
                slowdown = times[i] / times[-1] - 1
                rows.append((name, n, k, batch, nic, times[i], times[-1], slowdown, strategy, gain))
    columns = "model gpus hb_domain_size batch nic_Bps iteration_s ideal_s slowdown strategy gain".split()
    return pd.DataFrame(rows, columns=columns)


def smallest_near_ideal(table: pd.DataFrame, within: float) -> int:
    """Smallest HB domain size from which on every cluster of a table is within a share of its ideal."""
    good = table.assign(good=table["slowdown"] <= within).groupby("hb_domain_size")["good"].all()
    return int(good.index[good & good[::-1].cummin()[::-1]].min())


def hb_domain_summary(table: pd.DataFrame, hb_domain_size: int, within: float) -> pd.DataFrame:
    """Slowdown and strategy of each model and cluster at one HB domain size, and `smallest_near_ideal` as plateau."""
    sizes = {key: smallest_near_ideal(part, within) for key, part in table.groupby(["model", "gpus"])}
    rows = table[table["hb_domain_size"] == hb_domain_size].assign(
        plateau=lambda mine: [sizes[key] for key in zip(mine["model"], mine["gpus"], strict=True)]
    )
    return rows[["model", "gpus", "iteration_s", "ideal_s", "slowdown", "strategy", "plateau"]]


def rising_gains(table: pd.DataFrame) -> float:
    """Share of doublings of the HB domain that save more seconds than the doubling before."""
    rises = []
    for _, part in table.groupby(["model", "gpus", "batch", "nic_Bps"]):
        doubled = part["hb_domain_size"].diff() == part["hb_domain_size"].shift()
        saved = -part["iteration_s"].diff().where(doubled)
        steps = saved.notna() & saved.shift().notna()
        rises += list((saved.diff() > 1e-9 * part["iteration_s"])[steps])
    return float(np.mean(rises))


def slowdown_by_sustained_rate(
    models: Mapping[str, Transformer],
    machine: Machine,
    gpus: Sequence[int],
    hb_domain_size: int,
    fractions: Sequence[float],
    **options: Any,
) -> pd.DataFrame:
    """Largest slowdown over the clusters at one HB domain size, by the share of its best rate that a GPU sustains.

    Parameters
    ----------
    models
        By name.
    machine
        A GPU and its links.
    gpus, hb_domain_size
        Of the clusters; K [GPUs].
    fractions
        Shares of the GPU's best rate.
    options
        Of `best_times`, batches among them.

    Returns
    -------
    Columns sustained_fraction and one for each model.
    """
    rows = []
    for fraction in fractions:
        box = replace(machine, sustained_fraction=fraction)
        table = best_times(models, box, gpus, [hb_domain_size], **options)
        slowdown = table[table["hb_domain_size"] == hb_domain_size].groupby("model")["slowdown"].max()
        rows.append({"sustained_fraction": fraction, **slowdown})
    return pd.DataFrame(rows)
