"""Which numbers of GPUs, in all and of each HB domain, and which batches divide a job well."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from railcore.strategies.parts import search_parts
from railcore.strategies.result import SearchResult
from railcore.strategies.splits import divisors, used_of_domain
from railcore.training.iteration import iteration_times
from railcore.training.machine import Machine, as_machine
from railcore.training.rank_order import PLACEMENTS
from railcore.training.runtime import Runtime
from railcore.training.strategy_columns import STRATEGY_COLUMNS
from railcore.training.transformer import Transformer, as_model

_KEPT = 500  # strategies of the short search
_FEW: tuple[
    dict[str, Any], ...
] = (  # limits of the short search: micro-batches of one sequence, or no pipeline and weights that are gathered
    {"placement": "tensor first", "micro_batch": 1, "sharding": "optimizer"},
    {"placement": "tensor first", "pipeline": 1, "sharding": "weights"},
)
_NEAR = 0.1  # share by which a batch may be off
_MOST_BATCHES = 8
SIZES_FROM = 0.8  # of all GPUs: fewer in use are a case of fewer GPUs
_MOST_DATA = 2**11  # numbers of data ranks of a mapping: of more, multiples of a power of 2
_MAPPINGS = 96  # of the short search, whose data ranks are changed
_PLACED = 2  # mappings of each size that are tried in all placements
_SCALED = ("data", "global_batch")  # of a strategy: they change with the number of GPUs
_SIZE = ["gpus", "hb_domain_size", "global_batch"]


class Batches(NamedTuple):
    """Batches that a job may have [sequences]: any from `low` to `high`; the nearer to `asked` the better."""

    asked: float
    low: int
    high: int

    @classmethod
    def near(cls, asked: float | int) -> "Batches":
        """An int as it is; a float within 10%, and its nearest whole number."""
        if isinstance(asked, int):
            return cls(asked, asked, asked)
        nearest = max(round(asked), 1)
        low, high = math.ceil((1 - _NEAR) * asked), math.floor((1 + _NEAR) * asked)
        return cls(asked, min(max(low, 1), nearest), max(high, nearest))


def job_sizes(
    model: Transformer | str,
    machine: Machine | str,
    gpus: int,
    batch: float | int,
    runtime: Runtime | str | None = None,
    use_all: bool = False,
    **options: Any,
) -> pd.DataFrame:
    """Numbers of GPUs from SIZES_FROM of so many on, with the batches that suit each, the fastest first.

    By a short search on all GPUs: tensor ranks first, and micro-batches of one sequence with sharded optimizer states,
    or sharded weights without pipeline stages (of dense models); all strategies only where none of these fits. All GPUs
    of an HB domain are in use, or a power of 2 of them. Its mappings are timed with every number of data ranks d that
    divides a batch which is allowed, in all placements. Of the multiples of d b, b sequences of a micro-batch, the
    batch is the one nearest to the asked one, or the largest.

    Parameters
    ----------
    model, machine, gpus
        As for `search`.
    batch
        Sequences of an iteration: an int as it is, a float within 10% of it.
    runtime
        As for `search`.
    use_all
        Whether the job has to take all GPUs.
    options
        Of `search`: offload and limits.

    Returns
    -------
    Columns gpus, hb_domain_size (in use), global_batch, sequence_s (of the fastest mapping): a row for each three of
    these numbers. No rows where nothing fits.
    """
    model, machine, batches = as_model(model), as_machine(machine), Batches.near(batch)
    near = [batch] if isinstance(batch, int) else near_batches(batch, gpus)
    short = _short_search(model, machine, gpus, near, use_all, {"runtime": runtime}, options)
    if short.empty:
        return short.reindex(columns=[*_SIZE, "sequence_s"])
    kept = [name for name in STRATEGY_COLUMNS if name not in _SCALED]
    others = [name for name in ("hb_domain_size", "offload") if name in short]
    worth = (short["sequence_s"] * short["gpus"]).sort_values(kind="stable").index  # as data ranks are changed
    mappings = short.loc[worth].drop_duplicates([*kept, *others]).head(_MAPPINGS)
    K, tables = min(machine.hb_domain_size, gpus), []
    for place, mapping in zip(mappings.index, mappings.itertuples(), strict=True):
        usable = gpus if mapping.hb_domain_size == K else gpus // K * int(mapping.hb_domain_size)
        replica = mapping.tensor * mapping.context * mapping.pipeline
        data, batch_of = _data_and_batches(usable // replica, int(mapping.micro_batch), batches)
        tables.append(pd.DataFrame({"mapping": place, "data": data, "global_batch": batch_of}))
    scaled = pd.concat(tables, ignore_index=True)
    rows = mappings.loc[scaled["mapping"], [*kept, *others]].reset_index(drop=True)
    rows = rows.assign(data=scaled["data"], global_batch=scaled["global_batch"])
    rows["gpus"] = rows["tensor"] * rows["context"] * rows["pipeline"] * rows["data"]
    rows = rows[rows["gpus"] == gpus] if use_all else rows
    job = {"runtime": runtime, "offload": options.get("offload", "none")}
    table = _timed(model, machine, rows, others, job)
    if "placement" not in options:
        best = table.groupby(_SIZE, sort=False).head(_PLACED)
        table = pd.concat(
            [table, *(_timed(model, machine, best.assign(placement=name), others, job) for name in PLACEMENTS)]
        )
    table = pd.concat([short, table]).sort_values("sequence_s", kind="stable")[[*_SIZE, "sequence_s"]]
    return table.drop_duplicates(_SIZE, ignore_index=True)


def _timed(
    model: Transformer, machine: Machine, rows: pd.DataFrame, others: Sequence[str], job: dict[str, Any]
) -> pd.DataFrame:
    """Strategies that fit with their times, the fastest first.

    Parameters
    ----------
    model, machine
        As for `search`.
    rows
        Strategies.
    others
        Columns of GPUs in use of an HB domain, and of what is offloaded where that differs.
    job
        Software, and what is offloaded.

    Returns
    -------
    The rows with sequence_s.
    """
    tables = []
    for (domain, *offload), some in rows.groupby([*others], sort=False):
        box = machine.changed(hb_domain_size=int(domain))
        away = tuple(offload[0].split(" and ")) if offload else job["offload"]
        times = iteration_times(model, box, some, job["runtime"], away)
        tables.append(some.assign(sequence_s=times.total_s / some["global_batch"])[times.feasible])
    return pd.concat(tables or [rows.assign(sequence_s=0.0)]).sort_values("sequence_s", kind="stable")


def _data_and_batches(most: int, micro_batch: int, batches: Batches) -> tuple[np.ndarray, np.ndarray]:
    """Data ranks from SIZES_FROM of the most on, or the most that divide a batch, with the batches that suit each."""
    data = np.arange(1, min(most, batches.high // micro_batch) + 1)
    steps = data * micro_batch
    largest = batches.high // steps * steps
    data = data[largest >= batches.low]
    below = data[data < SIZES_FROM * most][-1:]  # for clusters that are smaller than the range by a little
    data = data[data >= SIZES_FROM * most]
    step = 1 << (data.size // _MOST_DATA).bit_length()  # 1 for all but batches of very many sequences
    data = np.concatenate([below, data[:-1][data[:-1] % step == 0], data[-1:]])
    steps = data * micro_batch
    nearest, largest = np.rint(batches.asked / steps).astype(int) * steps, batches.high // steps * steps
    allowed = (nearest >= batches.low) & (nearest <= batches.high) & (nearest != largest)
    return np.concatenate([data, data[allowed]]), np.concatenate([largest, nearest[allowed]])


def _short_search(
    model: Transformer,
    machine: Machine,
    gpus: int,
    global_batch: int | Sequence[int],
    use_all: bool,
    common: dict[str, Any],
    options: dict[str, Any],
) -> pd.DataFrame:
    """Strategies of the short search, the fastest first; of all strategies where none of its own fits."""

    def fastest(**limits: Any) -> pd.DataFrame:
        return _fastest(model, machine, gpus, global_batch, use_all, **limits)

    searches = _FEW[:1] if model.experts else _FEW  # larger micro-batches in one alone would speak for that one
    tables = [fastest(**common, **(limits | options)) for limits in searches]
    if not any(map(len, tables)):
        tables = [fastest(**common, **options)]
    return pd.concat([table for table in tables if len(table)] or tables, ignore_index=True).sort_values(
        "sequence_s", kind="stable", ignore_index=True
    )


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
    domains = np.array([part.machine.hb_domain_size for part in result.parts])
    rows = (result.fastest, result.leaders)  # the fastest, and the fastest of each split
    tables = [result.table(some).assign(hb_domain_size=domains[some["part"]]) for some in rows]
    table = pd.concat(tables, ignore_index=True).sort_values("sequence_s", kind="stable", ignore_index=True)
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
