"""Which numbers of GPUs, in all and of each HB domain, and which batches divide a job well."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from railcore.network.topology.rails import RailFabric
from railcore.strategies.parts import search_parts
from railcore.strategies.result import SearchResult
from railcore.strategies.splits import divisors, used_of_domain
from railcore.training.machine import Machine, as_machine
from railcore.training.runtime import Runtime
from railcore.training.transformer import Transformer, as_model

_KEPT = 500  # strategies of the short search
_FEW = {"micro_batch": 1, "placement": "tensor first", "sharding": "optimizer"}  # limits of the short search
_NEAR = 0.1  # share by which a batch may be off
_MOST_BATCHES = 8


def gpu_counts(
    model: Transformer | str,
    machine: Machine | str,
    gpus: int,
    global_batch: int | Sequence[int],
    runtime: Runtime | str | None = None,
    fabric: RailFabric | None = None,
    use_all: bool = False,
    **options: Any,
) -> pd.DataFrame:
    """Numbers of at most so many GPUs on which the job divides, the fastest first.

    By a short search: micro-batches of one sequence, tensor ranks first and sharded optimizer states; all strategies
    only where none of these fits. All GPUs of an HB domain are in use, or a power of 2 of them.

    Parameters
    ----------
    model, machine, gpus, global_batch, runtime, fabric
        As for `search`.
    use_all
        Whether the job has to take all GPUs.
    options
        Of `search`: offload and limits.

    Returns
    -------
    Columns gpus, hb_domain_size (in use), global_batch, sequence_s (of the fastest strategy): a row for each three of
    these numbers. No rows where nothing fits.
    """
    model, machine = as_model(model), as_machine(machine)
    job: dict[str, Any] = {"runtime": runtime, "fabric": fabric}
    for limits in (_FEW | options, options):
        table = _fastest(model, machine, gpus, global_batch, use_all, **job, **limits)
        if len(table):
            break
    columns = ["gpus", "hb_domain_size", "global_batch", "sequence_s"]
    return table.reindex(columns=columns).drop_duplicates(columns[:3], ignore_index=True)


def _fastest(
    model: Transformer,
    machine: Machine,
    gpus: int,
    global_batch: int | Sequence[int],
    use_all: bool,
    **options: Any,
) -> pd.DataFrame:
    """The fastest strategies of the first round of a search, with the GPUs that they take, in all and of a domain."""
    K = min(machine.hb_domain_size, gpus)
    options |= {"top": _KEPT, "only_best": True, "at_most": not use_all}
    parts = []
    for used in [K] if use_all else used_of_domain(K):
        of_size = search_parts(model, machine, gpus, global_batch, hb_domain_size=used, **options)
        parts += of_size if use_all else [replace(part, hb_domain_size=K) for part in of_size]
    result = SearchResult.merged(part.run() for part in parts)
    domains = [part.machine.hb_domain_size for part in result.parts]
    table = result.best.assign(hb_domain_size=np.asarray(domains)[result.fastest["part"]])
    return table if "gpus" in table else table.assign(gpus=gpus)


def near_batches(sequences: float, gpus: int) -> list[int]:
    """Batches within 10% of the one asked for, with many divisors in common with the GPUs; the nearest first.

    sequences: asked for; need not be whole. gpus: that share the batch. The batches are the nearest whole number, and
    the nearest multiples of divisors of the GPUs and of powers of 2; 8 at most.
    """
    steps = np.unique([*divisors(gpus).tolist(), *(2**i for i in range(16))])
    near = np.unique(np.maximum(np.rint(sequences / steps), 1) * steps).astype(int)
    near = near[np.abs(near - sequences) <= _NEAR * sequences]
    widest = np.array([steps[batch % steps == 0].max() for batch in near.tolist()])
    chosen = near[np.argsort(-widest, kind="stable")][: _MOST_BATCHES - 1]
    batches = np.unique([max(round(sequences), 1), *chosen.tolist()])
    return batches[np.argsort(np.abs(batches - sequences), kind="stable")].tolist()
