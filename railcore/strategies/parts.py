"""A search as parts that run apart, in this process, in several, or on a cluster's workers."""

import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from railcore.catalog.arguments import Count, Listed, NonNegativeInt, checked
from railcore.catalog.checks import whole
from railcore.strategies.answers import KEPT_DESIGNS
from railcore.strategies.bounds import by_least_time
from railcore.strategies.kernel import MEMORY, TIME, TOTAL, Kept, Tables, empty_kept, visit
from railcore.strategies.result import SearchResult
from railcore.strategies.space import Space, pieces, space_of
from railcore.strategies.splits import Allowed, all_splits_at_most, allowed_values, exact_splits, splits_at_most
from railcore.training.critical_path import LAYER_ROW
from railcore.training.group_shares import Fabric
from railcore.training.iteration import OBSTACLES as _OBSTACLES
from railcore.training.iteration import ends_of, iteration_setting, layer_records, obstacle_names
from railcore.training.layer import layer_costs
from railcore.training.machine import Machine, as_machine
from railcore.training.runtime import Runtime, checked_offload
from railcore.training.software import as_runtime
from railcore.training.stage import stage_costs
from railcore.training.strategy_columns import STRATEGY_RANGES
from railcore.training.transformer import Transformer, as_model
from railcore.training.unique_rows import Columns

_AT_A_TIME = 4_000_000  # strategies between two looks at the clock
_SHOWN_AFTER_S = 2  # a search of so many seconds has a bar


@dataclass(frozen=True)
class SearchPart:
    """All strategies of a cluster with one machine, software and offload: what a worker needs, to be pickled.

    gpus: of the cluster.
    machine: hb_domain_size are the GPUs in use of each HB domain.
    hb_domain_size: GPUs that a domain has, where any number up to `gpus` may be used, 0 where it is all of them.
    share: which of how many shares of the splits.
    only_best: whether what is slower than the `top` fastest may be passed over.
    below_s: where fewer GPUs may be used: None for the splits of `splits_at_most`; else those of the others that may
        take less for a sequence, and less than those of them that came before [s].
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

    def _splits(self) -> tuple[np.ndarray, dict[str, int]]:
        """Splits, and all that were tried by obstacle."""
        if not self.at_most:
            return exact_splits(self.model, self.gpus, self.allowed)
        return splits_at_most(self.model, self._usable_gpus, self.allowed, self._used, self._in_whole_domains)

    @property
    def _used(self) -> int:
        """GPUs in use of each HB domain, K'."""
        return self.machine.hb_domain_size

    @property
    def _in_whole_domains(self) -> bool:
        """Whether these are all of a domain."""
        return self._used == self.hb_domain_size

    @property
    def _usable_gpus(self) -> int:
        """GPUs that may be used, where fewer may."""
        return self.gpus if self._in_whole_domains else self.gpus // self.hb_domain_size * self._used

    def run(self, progress: Callable[[int], Any] | None = None) -> SearchResult:
        """Evaluate the strategies. progress: called with the number of strategies done since the last call."""
        splits, counts = self._splits()
        if self.below_s is None:
            number, shares = self.share
            splits, counts = splits[number::shares], counts if number == 0 else {}
            found = [self._searched(piece, progress) for piece in pieces(self.model, splits, self.allowed)]
        else:
            found, counts = self._faster(splits, self.below_s, progress)
        return replace(SearchResult.merged(found or [self._searched(splits[:0], progress)]), splits=counts)

    def _faster(
        self, tried: np.ndarray, below_s: float, progress: Callable[[int], Any] | None
    ) -> tuple[list[SearchResult], dict[str, int]]:
        """Results of the splits that may be faster, those first that may be fastest, and how many they are.

        tried: splits that whole HB domains were searched for.
        """
        found, number = list[SearchResult](), 0
        done = tried if self._in_whole_domains else tried[:0]
        which = self._usable_gpus, self.allowed, self._used, self._in_whole_domains
        splits, least_s = by_least_time(self, all_splits_at_most(self.model, *which), done)
        for piece in pieces(self.model, splits, self.allowed):
            faster, least_s = piece[least_s[: len(piece)] <= below_s * (1 + 1e-9)], least_s[len(piece) :]
            if not len(faster):
                break
            number += len(faster)
            found.append(self._searched(faster, progress))
            below_s = min([below_s, *found[-1].fastest["sequence_s"][:1].tolist()])
        return found, {"feasible": number}

    def _searched(self, splits: np.ndarray, progress: Callable[[int], Any] | None) -> SearchResult:
        """What the strategies of some splits give."""
        space = space_of(self.model, splits.tobytes(), self.allowed, self.runtime, self.machine.links)
        kept = empty_kept(space.counts.size, self.top)
        if space.counts.size and space.layer_of.size:
            self._sweep(space, kept, progress)
        names = obstacle_names(np.arange(4) << _OBSTACLES.index("network"))
        best = slice(kept.size[0])
        return SearchResult(
            parts=(replace(self, share=(0, 1), below_s=None),),
            counts=dict(zip(names.tolist(), kept.counts.tolist(), strict=True)),
            splits={},
            least_memory_bytes=float(kept.least_bytes[0]),
            histogram=np.append(kept.histogram[:-2], kept.histogram[-2:].sum()),
            fastest=_columns(space, kept.best[best], kept.best_at[best]),
            leaders=_leaders(space, kept),
        )

    def _sweep(self, space: Space, kept: Kept, progress: Callable[[int], Any] | None) -> None:
        ends = [
            layer_costs(self.model, self.machine, self.runtime, space.layers, False, on_first_stage)
            for on_first_stage in ends_of(self.model)
        ]
        stages = stage_costs(self.model, self.machine, self.runtime, self.offload, space.stages).rows
        p, d, v = (space.stages[name].astype(float) for name in ("pipeline", "data", "interleave"))
        layers = [np.ascontiguousarray(layer_records(costs), LAYER_ROW).view(np.recarray) for costs in ends]
        passes_s = (ends[0].forward_s + ends[0].backward_s) / space.layers["micro_batch"]
        tables = Tables(
            layers=layers[0],
            first_layers=layers[1] if len(layers) > 1 else layers[0][:0],
            passes_s=passes_s * (1 - 1e-12),
            stages=stages.view(np.recarray),
            layer_of=space.layer_of,
            layer_first=space.layer_first,
            layer_last=space.layer_last,
            pipeline=p,
            data=d,
            interleave=v,
            interleaved=v > 1,
            micro_batch=space.layers["micro_batch"].astype(float)[space.layer_of],
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
            evaluated = visit(tables, setting, kept, begin, end, self.only_best)
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
    """The parts of a search, to run anywhere: SearchResult.merged([part.run() for part in parts]) is `search`.

    With at_most that is a first round. `faster_parts` makes two more of its result, of whole HB domains and of others.

    Parameters
    ----------
    model, machine, gpus, global_batch, runtime, offload, top, at_most, hb_domain_size, only_best, fabric, limits
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
    machine = as_machine(machine.changed(hb_domain_size=K), fabric)
    if gpus < K:
        raise ValueError(f"hb_domain_size is {K}, more than gpus {gpus}: give at most {gpus}")
    whole("top", top)
    whole("shares", shares)
    asked = [runtime] if isinstance(runtime, Runtime | str | None) else runtime
    runtimes = [as_runtime(each, machine) for each in asked]
    if not runtimes or len({each.name for each in runtimes}) < len(runtimes):
        raise ValueError("runtime has no entry, or several of one name: give each a name of its own")
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


def faster_parts(parts: Sequence[SearchPart], found: SearchResult, whole_domains: bool) -> list[SearchPart]:
    """Where fewer GPUs may be used, parts with all other splits that may be faster than the best one found.

    Of the K GPUs of an HB domain K' are in use, K' > K / 2: with fewer, groups of ranks lie no nearer than with a
    multiple. Where nothing fits yet, these are the splits of `splits_at_most` for each K'.

    Parameters
    ----------
    parts
        Of `search_parts` with at_most.
    found
        Their result.
    whole_domains
        Whether all K are in use, or fewer.

    Returns
    -------
    Parts, none without at_most.
    """
    K = parts[0].hb_domain_size
    below_s = float(found.best["sequence_s"].iloc[0]) if len(found.best) else None
    sizes = [K] * (K > 0 and below_s is not None) if whole_domains else range(K - 1, K // 2, -1)
    boxes = [parts[0].machine.changed(hb_domain_size=used) for used in sizes]
    if below_s is None:
        return [replace(part, machine=box) for box in boxes for part in parts]
    # A part goes through its splits in order and leaves out more and more: in one share, so that all come out alike.
    once = [replace(part, share=(0, 1), below_s=below_s) for part in parts if part.share[0] == 0]
    return [replace(part, machine=box) for box in boxes for part in once]


@checked
def search(
    model: Transformer | str,
    machine: Machine | str,
    gpus: Count,
    global_batch: int | Sequence[int],
    runtime: Runtime | str | Sequence[Runtime | str] | None = None,
    offload: str | Sequence[str] | list[str | Sequence[str]] = "none",
    top: Listed = 10,
    at_most: bool = False,
    workers: NonNegativeInt = 1,
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
        recompute, sharding, keep_gathered, ends_as_layers, whole_experts or placement, as for `strategy_blocks`:
        tensor=8, recompute=["none", "full"].

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
    >>> answer = rc.search("Llama-3 8B", "DGX H100", gpus=64, global_batch=512, context=1, micro_batch=[1, 2])
    >>> answer.evaluated, answer.strategy()["data"], answer.strategy()["sharding"]
    (6578, 64, 'optimizer')
    """
    whole("workers", workers)
    shares = 1 if workers == 1 else 4
    options: dict[str, Any] = {"runtime": runtime, "offload": offload, "top": top, "at_most": at_most, "shares": shares}
    options |= {"hb_domain_size": hb_domain_size, "only_best": only_best, "fabric": fabric}
    parts = search_parts(model, machine, gpus, global_batch, **(options | limits))
    with _Bar(sys.stderr.isatty() if progress is None else progress) as bar:
        found = _found(parts, workers, bar.add)
        for whole_domains in (True, False):
            if more := faster_parts(parts, found, whole_domains):
                found = SearchResult.merged([found, _found(more, workers, bar.add)])
    return found


def _found(parts: list[SearchPart], workers: int, add: Callable[[int], Any]) -> SearchResult:
    results = _in_processes(parts, workers, add) if workers > 1 else [part.run(add) for part in parts]
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
