"""A search as parts that run apart, in this process, in several, or on a cluster's workers."""

import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from railcore.engines.search.answers import KEPT_DESIGNS
from railcore.engines.search.kernel import MEMORY, TIME, TOTAL, Kept, Tables, empty_kept, sweep
from railcore.engines.search.result import SearchResult
from railcore.engines.search.space import Allowed, Space, allowed_values, exact_splits, space_of, splits_at_most
from railcore.engines.strategies.critical_path import LAYER_ROW
from railcore.engines.strategies.iteration import OBSTACLES as _OBSTACLES
from railcore.engines.strategies.iteration import (
    STRATEGY_RANGES,
    Columns,
    iteration_setting,
    layer_records,
    obstacle_names,
)
from railcore.engines.strategies.layer_time import layer_costs
from railcore.engines.strategies.stage_costs import stage_costs
from railcore.facts.arguments import checked
from railcore.facts.checks import whole
from railcore.training.machine import Machine, as_machine
from railcore.training.runtime import MODERN, Runtime, as_runtime, checked_offload
from railcore.training.transformer import Transformer, as_model

_AT_A_TIME = 4_000_000  # strategies between two looks at the clock
_SHOWN_AFTER_S = 2  # a search of so many seconds has a bar


@dataclass(frozen=True)
class SearchPart:
    """All strategies of a cluster with one machine, software and offload: what a worker needs, to be pickled.

    gpus: of the cluster.
    machine: hb_domain_size are the GPUs in use of each HB domain.
    hb_domain_size: GPUs that a domain has, where any number up to `gpus` may be used, 0 where it is all of them.
    share: which of how many shares of the splits.
    """

    model: Transformer
    machine: Machine
    runtime: Runtime
    offload: tuple[str, ...]
    gpus: int
    allowed: Allowed
    top: int
    hb_domain_size: int = 0
    share: tuple[int, int] = (0, 1)

    @property
    def at_most(self) -> bool:
        """Whether fewer GPUs may be used."""
        return self.hb_domain_size > 0

    def _splits(self) -> tuple[np.ndarray, dict[str, int]]:
        """Splits of this share, and all splits by obstacle in the first share."""
        used = self.machine.hb_domain_size
        if self.at_most:
            every = used == self.hb_domain_size
            gpus = self.gpus if every else self.gpus // self.hb_domain_size * used
            splits, counts = splits_at_most(self.model, gpus, self.allowed, used, every)
        else:
            splits, counts = exact_splits(self.model, self.gpus, self.allowed)
        number, shares = self.share
        return np.ascontiguousarray(splits[number::shares]), counts if number == 0 else {}

    def run(self, progress: Callable[[int], Any] | None = None) -> SearchResult:
        """Evaluate the strategies. progress: called with the number of strategies done since the last call."""
        splits, counts = self._splits()
        space = space_of(self.model, splits.tobytes(), self.allowed, self.runtime.selective_is_none)
        kept = empty_kept(space.counts.size, self.top)
        if space.counts.size and space.layer_of.size:
            self._sweep(space, kept, progress)
        names = obstacle_names(np.arange(4) << _OBSTACLES.index("network"))
        best = slice(kept.size[0])
        return SearchResult(
            parts=(replace(self, share=(0, 1)),),
            counts=dict(zip(names.tolist(), kept.counts.tolist(), strict=True)),
            splits=counts,
            least_memory_bytes=float(kept.least_bytes[0]),
            histogram=np.append(kept.histogram[:-2], kept.histogram[-2:].sum()),
            fastest=_columns(space, kept.best[best], kept.best_at[best]),
            leaders=_leaders(space, kept),
        )

    def _sweep(self, space: Space, kept: Kept, progress: Callable[[int], Any] | None) -> None:
        costs = layer_costs(self.model, self.machine, self.runtime, space.layers)
        stages = stage_costs(self.model, self.machine, self.runtime, self.offload, space.stages).rows
        p, d, v = (space.stages[name].astype(float) for name in ("pipeline", "data", "interleave"))
        tables = Tables(
            layers=np.ascontiguousarray(layer_records(costs), LAYER_ROW).view(np.recarray),
            stages=stages.view(np.recarray),
            layer_of=space.layer_of,
            layer_first=space.layer_first,
            layer_last=space.layer_last,
            pipeline=p,
            data=d,
            interleave=v,
            interleaved=v > 1,
            micro_batch=space.micro_batch.astype(float),
            first=space.first,
            first_interleaved=space.first_interleaved,
            last=space.last,
            batches=space.batches.astype(float),
            counts=space.counts,
        )
        setting = iteration_setting(self.machine, self.runtime, self.offload)
        done = np.concatenate([[0], np.cumsum(space.counts)])
        begin, stages_ = 0, space.counts.size
        while begin < stages_:
            end = min(max(int(np.searchsorted(done, done[begin] + _AT_A_TIME)), begin + 1), stages_)
            evaluated = sweep(tables, setting, kept, begin, end)
            if progress:
                progress(int(evaluated))
            begin = end


def _columns(space: Space, numbers: np.ndarray, places: np.ndarray) -> Columns:
    rows = space.strategies(*places.T)
    rows |= {"sequence_s": numbers[:, TIME], "total_s": numbers[:, TOTAL], "memory_bytes": numbers[:, MEMORY]}
    return rows | {"part": np.zeros(len(numbers), np.int64)}


def _leaders(space: Space, kept: Kept) -> Columns:
    """The fastest strategy of each design, of the fastest designs, in order."""
    order = np.lexsort((kept.of_stage[:, MEMORY], kept.of_stage[:, TIME]))
    order = order[np.isfinite(kept.of_stage[order, TIME])]
    first = np.sort(np.unique(space.design[order], return_index=True)[1])[:KEPT_DESIGNS]
    return _columns(space, kept.of_stage[order[first]], kept.of_stage_at[order[first]])


@checked
def search_parts(
    model: Transformer | str,
    machine: Machine | str,
    gpus: int,
    global_batch: int | Sequence[int],
    runtime: Runtime | str | Sequence = MODERN,
    offload: str | Sequence = "none",
    top: int = 10,
    at_most: bool = False,
    shares: int = 1,
    hb_domain_size: int | None = None,
    **limits: int | str | Sequence,
) -> list[SearchPart]:
    """The parts of a search, to run anywhere: SearchResult.merged([part.run() for part in parts]) is `search`.

    Parameters
    ----------
    model, machine, gpus, global_batch, runtime, offload, top, at_most, hb_domain_size, limits
        As for `search`.
    shares
        Into how many the splits of each part are cut.

    Returns
    -------
    Parts, of the same strategies as one search, each once.
    """
    model, machine = as_model(model), as_machine(machine)
    allowed = allowed_values(global_batch, dict(limits))
    whole("gpus", gpus, most=STRATEGY_RANGES["data"][1])
    K = machine.hb_domain_size if hb_domain_size is None else int(whole("hb_domain_size", hb_domain_size))
    machine = machine.changed(hb_domain_size=K)
    if gpus < K:
        raise ValueError(f"hb_domain_size is {K}, more than gpus {gpus}: give at most {gpus}")
    whole("top", top)
    whole("shares", shares)
    runtimes = [as_runtime(each) for each in ([runtime] if isinstance(runtime, Runtime | str) else runtime)]
    if not runtimes or len({each.name for each in runtimes}) < len(runtimes):
        raise ValueError("runtime has no entry, or several of one name: give each a name of its own")
    offloads = [checked_offload(each) for each in (offload if isinstance(offload, list) else [offload])]
    if not offloads or len(set(offloads)) < len(offloads):
        raise ValueError(f"offload is {offload!r}: give a name, or a list of different ones")
    boxes = [machine]
    if at_most:
        boxes += [machine.changed(hb_domain_size=used) for used in range(K - 1, 0, -1) if 2 * used > K or K % used == 0]
    return [
        SearchPart(model, box, software, away, gpus, allowed, top, K if at_most else 0, (number, shares))
        for box in boxes
        for software in runtimes
        for away in offloads
        for number in range(shares)
    ]


@checked
def search(
    model: Transformer | str,
    machine: Machine | str,
    gpus: int,
    global_batch: int | Sequence[int],
    runtime: Runtime | str | Sequence = MODERN,
    offload: str | Sequence = "none",
    top: int = 10,
    at_most: bool = False,
    workers: int = 1,
    progress: bool | None = None,
    hb_domain_size: int | None = None,
    **limits: int | str | Sequence,
) -> SearchResult:
    """Evaluate all strategies that divide; keep the best, one of each design, and counts by obstacle.

    Of context parallelism and placements only the first is tried, context=1 and placement="tensor first", unless others
    are given: context=[1, 2, 4, 8], placement="all". The strategies are those of `strategy_blocks`. Memory is bounded
    by tables of layers and stages. Ranks fill HB domains in their order: where groups do not divide one, the worst of
    them sets the time (`GroupLevels`), so that HB domains of 72 GPUs can be worse than those of 64.

    Parameters
    ----------
    model, machine
        What is trained; a GPU and its links. Names in the catalog do.
    gpus
        Of the cluster.
    global_batch
        Sequences of an iteration, one number or several.
    runtime
        The software, or several, each searched: which overlaps are on is a dimension too.
    offload
        As for `iteration_times`; a list of such choices searches each: ["none", ("optimizer", "activations")].
    top
        How many of the best to keep.
    at_most
        Use any number of the GPUs: by tensor, context and pipeline ranks the most data ranks that divide a batch, all
        GPUs of each HB domain or fewer. Of its K GPUs K' are in use, K' > K / 2 or a divisor of K, where tensor ranks
        are K' / t of them or t / K' domains. Time is of what is bought, whatever of it stays idle.
    workers
        Processes. The answer is the same for any number.
    progress
        Whether a search that takes over 2 s shows a bar (tqdm). By default only where errors are printed to a
        terminal: in a notebook it would be stored with the output, ask for it there.
    hb_domain_size
        GPUs in use of each HB domain (scale-up or NVLink domain), K; None for all that the machine's has.
    limits
        The values allowed of tensor, context, expert, pipeline, data, interleave, micro_batch, sequence_parallel,
        recompute, sharding, keep_gathered, ends_as_layers, whole_experts or placement, as for `strategy_blocks`:
        tensor=8, recompute=["none", "full"].

    Returns
    -------
    An empty result is an answer: `SearchResult.counts` says why.

    Raises
    ------
    ValueError
        For an HB domain larger than the cluster, and as `strategy_blocks`.
    """
    whole("workers", workers)
    shares = 1 if workers == 1 else 4
    options: dict[str, Any] = {"runtime": runtime, "offload": offload, "top": top, "at_most": at_most, "shares": shares}
    options |= {"hb_domain_size": hb_domain_size}
    parts = search_parts(model, machine, gpus, global_batch, **(options | limits))
    with _Bar(sys.stderr.isatty() if progress is None else progress) as bar:
        results = _in_processes(parts, workers, bar.add) if workers > 1 else [part.run(bar.add) for part in parts]
    return SearchResult.merged(results)


def _run(part: SearchPart) -> SearchResult:
    return part.run()


def _in_processes(parts: list[SearchPart], workers: int, add: Callable[[int], Any]) -> Iterable[SearchResult]:
    """Results of the parts in their order."""
    with ProcessPoolExecutor(min(workers, len(parts))) as pool:
        jobs = [pool.submit(_run, part) for part in parts]
        for job in as_completed(jobs):
            add(job.result().evaluated)
        return [job.result() for job in jobs]


class _Bar:
    """A bar of the strategies done, once a search takes long; nothing where it is not wanted, or without tqdm."""

    def __init__(self, wanted: bool) -> None:
        self.bar: Any = None
        if wanted:
            try:
                tqdm = importlib.import_module("tqdm.auto").tqdm
            except ImportError:
                return
            self.bar = tqdm(desc="strategies", unit="", unit_scale=True, delay=_SHOWN_AFTER_S, leave=False)

    def __enter__(self) -> "_Bar":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()

    def add(self, strategies: int) -> None:
        """So many more are done."""
        if self.bar is not None:
            self.bar.update(strategies)
