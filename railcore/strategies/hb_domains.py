"""The best strategy by HB domain size, NIC speed and batch: how large an HB domain has to be."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import pandas as pd

from railcore.catalog.arguments import Range
from railcore.network.topology.rails import domain_warnings
from railcore.strategies.labels import strategy_label
from railcore.strategies.parts import search
from railcore.training.machine import Machine, as_machine
from railcore.training.transformer import Transformer, as_models

_ADVICE = "The warnings of `search` compare numbers that do."


def best_times(
    models: Mapping[str, Transformer | str] | Sequence[str],
    machine: Machine | str,
    gpus: Sequence[int],
    hb_domain_sizes: Sequence[int],
    batches: Mapping[str, Sequence[int]],
    nics_Bps: Annotated[Sequence[float], Range(0, example="400 Gbps")] = (),
    **options: Any,
) -> pd.DataFrame:
    """Iteration time of the best strategy, for every model, cluster, HB domain size, batch and NIC.

    Parameters
    ----------
    models
        By name, or names in the catalog.
    machine
        A GPU and its links, or its platform's name in the catalog.
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
    NaN where no strategy fits. attrs["warnings"]: `domain_warnings` of the clusters.
    """
    rows, machine, models = [], as_machine(machine), as_models(models)
    if missing := sorted(set(models) - set(batches)):
        raise ValueError(f"batches lacks {missing[0]!r}: give the batches of each model")
    nics = nics_Bps if len(nics_Bps) else (machine.nic_Bps,)
    for (name, model), n, nic in itertools.product(models.items(), gpus, nics):
        box = machine.changed(nic_Bps=nic)
        for batch, k in itertools.product(batches[name], [*(k for k in hb_domain_sizes if k < n), n]):
            best = search(model, box, n, batch, top=1, hb_domain_size=k, only_best=True, **options).best
            strategy = strategy_label(best.iloc[0]) if len(best) else "none fits"
            rows.append((name, n, k, batch, nic, best["total_s"].min(), strategy))
    names = ["model", "gpus", "hb_domain_size", "batch", "nic_Bps", "iteration_s", "strategy"]
    table = pd.DataFrame(rows, columns=names)
    clusters = table.groupby(["model", "gpus", "batch", "nic_Bps"])
    ideal_s = clusters["iteration_s"].transform(lambda times: times.iloc[-1])
    gain = 1 - table["iteration_s"] / clusters["iteration_s"].shift()
    doubled = table["hb_domain_size"] == 2 * clusters["hb_domain_size"].shift()
    table.insert(6, "ideal_s", ideal_s)
    table.insert(7, "slowdown", table["iteration_s"] / ideal_s - 1)
    pairs = table[["gpus", "hb_domain_size"]].drop_duplicates().itertuples(index=False)
    table.attrs["warnings"] = tuple(text for n, k in pairs for text in domain_warnings(n, k, _ADVICE))
    return table.assign(gain=gain.where(doubled))


def smallest_hb_domain_near_ideal(table: pd.DataFrame, within: float) -> int:
    """Smallest HB domain size from which on every cluster of a table is within a share of its ideal."""
    good = table.assign(good=table["slowdown"] <= within).groupby("hb_domain_size")["good"].all()
    return int(good.index[good & good[::-1].cummin()[::-1]].min())


def hb_domain_summary(table: pd.DataFrame, hb_domain_size: int, within: float) -> pd.DataFrame:
    """Slowdown and strategy of each model and cluster at one HB domain size.

    Column plateau is `smallest_hb_domain_near_ideal`.
    """
    sizes = {key: smallest_hb_domain_near_ideal(part, within) for key, part in table.groupby(["model", "gpus"])}
    rows = table[table["hb_domain_size"] == hb_domain_size].assign(
        plateau=lambda part: [sizes[key] for key in zip(part["model"], part["gpus"], strict=True)]
    )
    return rows[["model", "gpus", "iteration_s", "ideal_s", "slowdown", "strategy", "plateau"]]


def increasing_returns_share(table: pd.DataFrame) -> float:
    """Share of doublings of the HB domain that save more seconds than the doubling before."""
    keys = ["model", "gpus", "batch", "nic_Bps"]
    clusters = table.groupby(keys)
    doubled = table["hb_domain_size"] == 2 * clusters["hb_domain_size"].shift()
    saved_s = -clusters["iteration_s"].diff().where(doubled)
    more_s = saved_s - saved_s.groupby([table[key] for key in keys]).shift()
    return float((more_s > 1e-9 * table["iteration_s"])[more_s.notna()].mean())
