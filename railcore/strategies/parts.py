"""A search as parts that run apart, in this process, in several, or on a cluster's workers."""

import importlib
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from railcore.catalog.arguments import Count, Gpus, Listed, checked
from railcore.catalog.checks import whole
from railcore.strategies.answers import KEPT_DESIGNS
from railcore.strategies.bounds import by_least_time
from railcore.strategies.kernel import MEMORY, RECOMPUTED, TIME, TOTAL, Kept, Tables, empty_kept, visit
from railcore.strategies.result import SearchResult
from railcore.strategies.space import Space, pieces, space_of
from railcore.strategies.splits import SPLIT, Allowed, all_splits_at_most, allowed_values, exact_splits, splits_at_most
from railcore.training.critical_path import LAYER_ROW
from railcore.training.group_shares import Fabric
from railcore.training.iteration import OBSTACLES, ends_of, iteration_setting, layer_records, obstacle_names
from railcore.training.layer import layer_costs
from railcore.training.machine import Machine, as_machine
from railcore.training.parallelism import ALL_LAYERS
from railcore.training.runtime import Runtime, checked_offload
from railcore.training.software import as_runtime
from railcore.training.stage import stage_costs
from railcore.training.strategy_columns import STRATEGY_RANGES
from railcore.training.transformer import RECOMPUTE, Transformer, as_model
from railcore.training.unique_rows import Columns, unique_places

_AT_A_TIME = 4_000_000  # strategies between two looks at the clock
_SHOWN_AFTER_S = 2  # a search of so many seconds has a bar


@dataclass(frozen=True)
class SearchPart:
    """All strategies of a cluster with one machine, software and offload. A worker process gets it pickled.

    gpus: of the cluster.
    machine: its hb_domain_size is the GPUs in use of each HB domain, K'.
    hb_domain_size: GPUs of an HB domain where fewer than `gpus` may be used; 0 where all are used.
    share: number of this share of the splits, and how many shares there are.
    only_best: whether strategies slower than the `top` fastest may be skipped.
    below_s: only where fewer GPUs may be used. None: search the splits of `splits_at_most`. A time: search the other
        splits whose least time per sequence is below it; a faster strategy found on the way lowers it [s].
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
    only_best: bool = False
    below_s: float | None = None

    @property
    def at_most(self) -> bool:
        """Whether fewer GPUs may be used."""
        return self.hb_domain_size > 0

    @property
    def _job_at_most(self) -> tuple[Transformer, int, Allowed, int, bool]:
        """Arguments of `splits_at_most`."""
        used = self.machine.hb_domain_size
        whole_domains = used == self.hb_domain_size
        gpus = self.gpus if whole_domains else self.gpus // self.hb_domain_size * used
        return self.model, gpus, self.allowed, used, whole_domains

    def run(self, progress: Callable[[int], Any] | None = None) -> SearchResult:
        """Evaluate the strategies. progress: called with the number of strategies done since the last call."""
        if self.at_most:
            splits, counts = splits_at_most(*self._job_at_most)
        else:
            splits, counts = exact_splits(self.model, self.gpus, self.allowed)
        if self.below_s is None:
            number, shares = self.share
            splits, counts = splits[number::shares], counts if number == 0 else {}
            results = [self.searched(piece, progress) for piece in pieces(self.model, splits, self.allowed)]
        else:
            results, counts = self._faster(splits, self.below_s, progress)
        return replace(SearchResult.merged(results or [self.searched(splits[:0], progress)]), splits=counts)

    def _faster(
        self, tried: np.ndarray, below_s: float, progress: Callable[[int], Any] | None
    ) -> tuple[list[SearchResult], dict[str, int]]:
        """Results of the splits that may be faster, in the order of their least times, and how many splits these are.

        tried: splits already searched with whole HB domains.
        """
        results, searched = list[SearchResult](), 0
        *_, whole_domains = self._job_at_most
        done = tried if whole_domains else tried[:0]
        splits, least_s = by_least_time(self, all_splits_at_most(*self._job_at_most), done)
        for piece in pieces(self.model, splits, self.allowed):
            faster, least_s = piece[least_s[: len(piece)] <= below_s * (1 + 1e-9)], least_s[len(piece) :]
            if not len(faster):
                break
            searched += len(faster)
            results.append(self.searched(faster, progress))
            below_s = min([below_s, *results[-1].fastest["sequence_s"][:1].tolist()])
        return results, {"feasible": searched}

    def searched(
        self, splits: np.ndarray, progress: Callable[[int], Any] | None = None, below_s: float = np.inf
    ) -> SearchResult:
        """The result of some splits. below_s: what takes a sequence longer may be left out [s]."""
        space = space_of(self.model, splits.tobytes(), self.allowed, self.runtime, self.machine.links)
        kept = empty_kept(space.counts.size, self.top)
        if space.counts.size and space.layer_of.size:
            self._visit(space, kept, progress, below_s)
        names = obstacle_names(np.arange(4) << OBSTACLES.index("network"))
        best = slice(kept.size[0])
        return SearchResult(
            parts=(replace(self, share=(0, 1), below_s=None),),
            counts=dict(zip(names.tolist(), kept.counts.tolist(), strict=True)),
            splits={},
            least_memory_bytes=float(kept.least_bytes[0]),
            histogram=np.append(kept.histogram[:-2], kept.histogram[-2:].sum()),
            fastest=_columns(self.model, space, kept.best[best], kept.best_at[best]),
            leaders=_leaders(self.model, space, kept),
            bounds=_bounds(splits, space, kept),
        )

    def _visit(self, space: Space, kept: Kept, progress: Callable[[int], Any] | None, below_s: float) -> None:
        """Evaluate all strategies of a space."""
        ends = [
            layer_costs(self.model, self.machine, self.runtime, space.layers, False, on_first_stage)
            for on_first_stage in ends_of(self.model)
        ]
        stages = stage_costs(self.model, self.machine, self.runtime, self.offload, space.stages).rows
        layers = [np.ascontiguousarray(layer_records(costs), LAYER_ROW).view(np.recarray) for costs in ends]
        least_again_s = np.where(space.layers["recomputed_layers"] == ALL_LAYERS, 0.0, ends[0].again_s)
        passes_s = (ends[0].forward_s + ends[0].backward_s - least_again_s) / space.layers["micro_batch"]
        tables = Tables(
            layers=layers[0],
            first_layers=layers[1] if len(layers) > 1 else layers[0][:0],
            passes_s=passes_s * (1 - 1e-12),
            stages=stages.view(np.recarray),
            layer_of=space.layer_of,
            layer_first=space.layer_first,
            layer_last=space.layer_last,
            **{name: space.stages[name].astype(float) for name in ("pipeline", "data", "interleave")},
            interleaved=space.stages["interleave"] > 1,
            micro_batch=space.layers["micro_batch"].astype(float)[space.layer_of],
            recomputed=space.layers["recomputed_layers"].astype(float)[space.layer_of],
            first=space.first,
            first_interleaved=space.first_interleaved,
            last=space.last,
            batches=space.batches.astype(float),
            counts=space.counts,
        )
        setting = iteration_setting(self.machine, self.runtime, self.offload)
        done = np.concatenate([[0], np.cumsum(space.counts)])
        begin = 0
        while begin < space.counts.size:
            end = min(max(int(np.searchsorted(done, done[begin] + _AT_A_TIME)), begin + 1), space.counts.size)
            evaluated = visit(tables, setting, kept, begin, end, self.only_best, below_s)
            if progress:
                progress(int(evaluated))
            begin = end


def _columns(model: Transformer, space: Space, numbers: np.ndarray, places: np.ndarray) -> Columns:
    rows = space.strategies(*places.T)
    layers = np.ceil((model.layers + 2 * rows["ends_as_layers"]) / rows["pipeline"])
    partly = (rows["recompute"] == RECOMPUTE.index("full")) & (numbers[:, RECOMPUTED] < layers)
    rows["recomputed_layers"] = np.where(partly, numbers[:, RECOMPUTED], ALL_LAYERS).astype(np.int64)
    rows |= {"sequence_s": numbers[:, TIME], "total_s": numbers[:, TOTAL], "memory_bytes": numbers[:, MEMORY]}
    return rows | {"part": np.zeros(len(numbers), np.int64)}


def _leaders(model: Transformer, space: Space, kept: Kept) -> Columns:
    """The fastest strategy of each design, of the fastest designs, in order."""
    order = np.lexsort((kept.of_stage[:, MEMORY], kept.of_stage[:, TIME]))
    order = order[np.isfinite(kept.of_stage[order, TIME])]
    first = np.sort(np.unique(space.design[order], return_index=True)[1])[:KEPT_DESIGNS]
    return _columns(model, space, kept.of_stage[order[first]], kept.of_stage_at[order[first]])


def _bounds(splits: np.ndarray, space: Space, kept: Kept) -> Columns:
    """The splits, each with the least time of a sequence that its strategies may take [s]."""
    columns = dict(zip(SPLIT, splits.T, strict=True))
    both = {name: np.concatenate([columns[name], space.stages[name]]) for name in SPLIT}
    least_s = np.full(len(splits), np.inf)
    stage_s = np.minimum(kept.of_stage[:, TIME], kept.skipped_s)
    np.minimum.at(least_s, unique_places(both, SPLIT)[1][len(splits) :], stage_s)
    return columns | {"least_s": least_s, "part": np.zeros(len(splits), np.int64)}


def search_parts(
    model: Transformer | str,
    machine: Machine | str,
    gpus: int,
    global_batch: int | Sequence[int],
    runtime: Runtime | str | Sequence[Runtime | str] | None = None,
    offload: str | Sequence[str] | list[str | Sequence[str]] = "none",
    top: int = 10,
    at_most: bool = False,
    shares: Listed = 1,
    hb_domain_size: int | None = None,
    only_best: bool = False,
    fabric: Fabric | None = None,
    **limits: int | str | Sequence[int | str | bool],
) -> list[SearchPart]:
    """The parts of a search, to run anywhere. SearchResult.merged([part.run() for part in parts]) is `search`.

    With at_most this is the first round of three: `faster_parts` makes the other two.

    Parameters
    ----------
    model, machine, gpus, global_batch, runtime, offload, top, at_most, hb_domain_size, only_best, fabric, limits
        As for `search`.
    shares
        Into how many parts the splits of each software and offload are cut.

    Returns
    -------
    Parts that together have every strategy once.
    """
    model, machine = as_model(model), as_machine(machine)
    allowed = allowed_values(global_batch, dict(limits))
    whole("gpus", gpus, most=STRATEGY_RANGES["data"][1])
    K = machine.hb_domain_size if hb_domain_size is None else hb_domain_size
    machine = as_machine(machine.changed(hb_domain_size=K), fabric)
    if gpus < K:
        raise ValueError(f"hb_domain_size is {K}, more than gpus {gpus}: give at most {gpus}")
    names = [runtime] if isinstance(runtime, Runtime | str | None) else runtime
    runtimes = [as_runtime(name, machine) for name in names]
    if not runtimes:
        raise ValueError(f"runtime is {runtime!r}: give one, or a list of some")
    if len({software.name for software in runtimes}) < len(runtimes):
        raise ValueError(f"runtime is {runtime!r}, with one name twice: give each a name of its own")
    choices: list[str | Sequence[str]] = list(offload) if isinstance(offload, list) else [offload]
    offloads = [checked_offload(choice) for choice in choices]
    if not offloads or len(set(offloads)) < len(offloads):
        raise ValueError(f"offload is {offload!r}: give a name, or a list of different ones")
    return [
        SearchPart(model, machine, software, away, gpus, allowed, top, K if at_most else 0, (number, shares), only_best)
        for software in runtimes
        for away in offloads
        for number in range(shares)
    ]


def faster_parts(parts: Sequence[SearchPart], result: SearchResult, whole_domains: bool) -> list[SearchPart]:
    """Parts for the later rounds of a search with at_most: all splits that may be faster than the best one so far.

    K' of the K GPUs of an HB domain are in use, K' > K / 2: for a smaller K', a multiple of it places all groups of
    ranks at least as near. Where nothing fits yet, the splits are those of `splits_at_most` for each K'.

    Parameters
    ----------
    parts
        Of `search_parts`.
    result
        Of the rounds so far.
    whole_domains
        Whether all K GPUs are in use, or fewer.

    Returns
    -------
    Parts, none without at_most.
    """
    K = parts[0].hb_domain_size
    below_s = float(result.best["sequence_s"].iloc[0]) if len(result.best) else None
    sizes = [K] * (K > 0 and below_s is not None) if whole_domains else range(K - 1, K // 2, -1)
    if below_s is not None:
        # Which splits a part skips depends on those before: one share, so that any number of workers finds the same.
        parts = [replace(part, share=(0, 1), below_s=below_s) for part in parts if part.share[0] == 0]
    boxes = [parts[0].machine.changed(hb_domain_size=used) for used in sizes]
    return [replace(part, machine=box) for box in boxes for part in parts]


@checked
def search(
    model: Transformer | str,
    machine: Machine | str,
    gpus: Gpus,
    global_batch: int | Sequence[int],
    runtime: Runtime | str | Sequence[Runtime | str] | None = None,
    offload: str | Sequence[str] | list[str | Sequence[str]] = "none",
    top: Listed = 10,
    at_most: bool = False,
    workers: Listed = 1,
    progress: bool | None = None,
    hb_domain_size: Count | None = None,
    only_best: bool = False,
    fabric: Fabric | None = None,
    **limits: int | str | Sequence[int | str | bool],
) -> SearchResult:
    """Evaluate all strategies that divide; keep the best, one of each design, and counts by obstacle.

    The strategies are those of `strategy_blocks`: all splits, context parallelism among them, and all of PLACEMENTS.
    Their tables are made a piece at a time, so that memory stays small. Ranks fill HB domains in their order: where
    groups do not divide one, the worst of them sets the time (`GroupLevels`), so that HB domains of 72 GPUs can be
    worse than those of 64.

    Parameters
    ----------
    model
        Trained model: a `Transformer`, or its name in the catalog.
    machine
        GPU with its links: a `Machine`, or the name of a platform in the catalog.
    gpus
        Of the cluster.
    global_batch
        Sequences of an iteration, one number or several.
    runtime
        The software, or several, each searched: which overlaps are on is a dimension too. None for the newest for the
        GPU.
    offload
        What stays in the host's memory, as a text or a tuple of "optimizer", "activations", "weights"; a list of such
        choices searches each: ["none", ("optimizer", "activations")].
    top
        How many of the best to keep.
    at_most
        Use any number of the GPUs, all of each HB domain or fewer: of its K GPUs K' are in use, K' > K / 2, where
        tensor ranks are K' / t of them or t / K' domains. The best is the best of all such strategies. What cannot be
        faster is left out of counts and designs: the splits that are evaluated are those with the most data ranks for
        their other degrees, and all whose layers alone do not take longer than the best of these. Time is of what is
        bought, whatever of it stays idle.
    workers
        Processes. The answer is the same for any number.
    progress
        Whether a search that takes over 2 s shows a bar (tqdm). By default only where errors are printed to a
        terminal: in a notebook it would be stored with the output, ask for it there.
    hb_domain_size
        GPUs in use of each HB domain (scale-up or NVLink domain), K; None for all that the machine's has.
    only_best
        Whether only `best` is asked: what is slower is passed over where its layers alone say so, and is missing in
        counts, designs and the distribution, which then differ with the processes. Some times faster where there are
        many strategies.
    fabric
        That the NICs are on, as for `iteration_times`: the best strategy moves with it.
    limits
        The values allowed of tensor, context, expert, pipeline, data, interleave, micro_batch, sequence_parallel,
        recompute, sharding, keep_gathered, ends_as_layers, whole_experts, recomputed_layers, recompute_group or
        placement, as for `strategy_blocks`: tensor=8, recompute=["none", "full"]. Without recomputed_layers full
        recompute is of as few layers of a stage as fit in memory, as many of each chunk; where none must be, of all of
        them beside strategies without recompute, else of one of each chunk.

    Returns
    -------
    An empty result is an answer: `SearchResult.counts` says why.

    Raises
    ------
    ValueError
        For an HB domain larger than the cluster or than the fabric's, a cluster larger than the fabric, and as
        `strategy_blocks`.

    Examples
    --------
    >>> import railcore as rc
    >>> answer = rc.search(
    ...     "Llama-3 8B", "DGX H100", gpus=64, global_batch=512, micro_batch=[1, 2], context=1
    ... )
    >>> answer.evaluated, answer.strategy()["data"], answer.strategy()["sharding"]
    (6578, 64, 'optimizer')
    """
    shares = 1 if workers == 1 else 4
    options: dict[str, Any] = {"runtime": runtime, "offload": offload, "top": top, "at_most": at_most, "shares": shares}
    options |= {"hb_domain_size": hb_domain_size, "only_best": only_best, "fabric": fabric}
    parts = search_parts(model, machine, gpus, global_batch, **(options | limits))
    with _Bar(sys.stderr.isatty() if progress is None else progress) as bar:
        result = SearchResult.merged(_results(parts, workers, bar.add))
        for whole_domains in (True, False):
            if more := faster_parts(parts, result, whole_domains):
                result = SearchResult.merged([result, *_results(more, workers, bar.add)])
    return result


def _results(parts: list[SearchPart], workers: int, progress: Callable[[int], Any]) -> list[SearchResult]:
    """Results of the parts in their order."""
    if workers == 1:
        return [part.run(progress) for part in parts]
    with ProcessPoolExecutor(min(workers, len(parts))) as pool:
        jobs = [pool.submit(part.run) for part in parts]
        for job in as_completed(jobs):
            progress(job.result().evaluated)
        return [job.result() for job in jobs]


class _Bar:
    """A progress bar once a search takes long; none where it is not wanted, or tqdm is not installed."""

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
        """Count strategies as done."""
        if self.bar is not None:
            self.bar.update(strategies)
