"""Numbers of GPUs, of those in use of each HB domain, and batches, on which a job divides well."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from railcore.catalog.checks import positive, share, whole
from railcore.network.topology.rails import RailFabric
from railcore.strategies.parts import search_parts
from railcore.strategies.result import SearchResult
from railcore.strategies.splits import divisors
from railcore.training.machine import Machine, as_machine
from railcore.training.runtime import Runtime
from railcore.training.transformer import Transformer, as_model

_KEPT = 500  # strategies of the short search
_FEW = {"micro_batch": 1, "placement": "tensor first", "sharding": "optimizer"}  # of the short search, where they fit


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

    A short search: micro-batches of one sequence, tensor ranks first and sharded optimizer states; all strategies only
    where none of these fits. GPUs fill whole HB domains, or a power of 2 of the GPUs of each.

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
    Columns gpus, hb_domain_size (in use), global_batch, sequence_s; a row for each of them that is the fastest of its
    numbers. None where nothing fits.
    """
    model, machine = as_model(model), as_machine(machine)
    K = min(machine.hb_domain_size, int(whole("gpus", gpus)))
    few = {name: value for name, value in _FEW.items() if name not in options}
    for limits in (options | few, options) if few else (options,):
        found = _first_round(model, machine, gpus, K, global_batch, runtime, fabric, use_all, limits)
        if len(found):
            break
    columns = ["gpus", "hb_domain_size", "global_batch", "sequence_s"]
    return found.reindex(columns=columns).drop_duplicates(columns[:3], ignore_index=True)


def _first_round(
    model: Transformer,
    machine: Machine,
    gpus: int,
    K: int,
    global_batch: int | Sequence[int],
    runtime: Runtime | str | None,
    fabric: RailFabric | None,
    use_all: bool,
    limits: dict[str, Any],
) -> pd.DataFrame:
    """The fastest strategies of a short search, with the numbers that they take."""
    named: dict[str, Any] = {"top": _KEPT, "only_best": True, "fabric": fabric, **limits}
    parts = []
    for used in [K] if use_all else sorted({K, 2 ** (K.bit_length() - 1)}):
        own = search_parts(
            model, machine, gpus, global_batch, runtime, at_most=not use_all, hb_domain_size=used, **named
        )
        parts += own if use_all else [replace(part, hb_domain_size=K) for part in own]
    result = SearchResult.merged(part.run() for part in parts)
    domains = [part.machine.hb_domain_size for part in result.parts]
    table = result.best
    table["hb_domain_size"] = np.asarray(domains)[result.fastest["part"]]
    if "gpus" not in table:
        table["gpus"] = gpus
    return table


def near_batches(sequences: float, gpus: int, within: float = 0.1, most: int = 8) -> list[int]:
    """Batches near one that is asked for that have many divisors in common with a number of GPUs, the nearest first.

    Parameters
    ----------
    sequences
        Asked for; need not be whole.
    gpus
        That share the batch.
    within
        Share of it by which a batch may be off.
    most
        How many are given.

    Returns
    -------
    Whole sequences; the nearest whole number, and the nearest multiples of divisors of the GPUs and of powers of 2.
    """
    asked, off = float(positive("sequences", sequences)), float(share("within", within))
    steps = np.unique([*divisors(int(whole("gpus", gpus))).tolist(), *(2**i for i in range(16))])
    near = np.unique(np.maximum(np.rint(asked / steps), 1) * steps).astype(int)
    near = near[np.abs(near - asked) <= off * asked]
    widest = np.array([steps[batch % steps == 0].max() for batch in near.tolist()])
    chosen = near[np.argsort(-widest, kind="stable")][: int(whole("most", most)) - 1]
    nearest = max(round(asked), 1)
    found = np.unique([nearest, *chosen.tolist()])
    return found[np.argsort(np.abs(found - asked), kind="stable")].tolist()
