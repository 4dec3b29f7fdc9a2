"""The loop over all strategies of a search: it reads tables of layers and stages, and keeps what is best.

Nothing is stored for each strategy. Where numbers are equal the strategy that comes first stays, so that no CPU and no
number of processes changes an answer.
"""

from typing import Any, NamedTuple

import numpy as np

from railcore.compiled import inlined, larger, njit, smaller
from railcore.training.critical_path import critical_path, microbatches_held
from railcore.training.parallelism import ALL_LAYERS

# Recomputed: as few layers as fit in memory. Where none must be, all of them, for beside strategies without recompute
# nothing else is worth a look; or without such strategies one of each chunk.
FEWEST_LAYERS, FEWEST_LAYERS_ALONE = -1, -2
TIME_EDGES_S = np.logspace(-6, 6, 12 * 200 + 1)  # of `SearchResult.histogram` [s]
_CELL_SHIFT = 52 - 7  # a cell of numbers: the same exponent, and the same first 7 bits of the mantissa, 1/128 wide
_STAGE, _LAYER, _BATCH = range(3)  # columns of places
TIME, MEMORY, TOTAL, RECOMPUTED = range(4)  # columns of what is kept of a strategy


class Tables(NamedTuple):
    """What a search reads.

    layers, stages: records.
    first_layers: records of layers on the first stage, where these differ and are computed too; else empty.
    passes_s: (t_f + t_b) / b of each layer, rounded down: a sequence takes at least (n / d) passes_s.
    layer_of: the row of layers of each entry; the entries of a stage are those from layer_first to layer_last.
    pipeline, data, interleave: p, d and v of each stage, as floats.
    interleaved: whether v > 1, of each stage.
    micro_batch: b of each entry.
    recomputed: layers of a stage that are recomputed, of each entry: a number, ALL_LAYERS, FEWEST_LAYERS or
        FEWEST_LAYERS_ALONE.
    first, first_interleaved, last: the part of `batches` of each entry: from `first`, or from first_interleaved where
        v > 1, up to `last`.
    batches: sequences of an iteration.
    counts: strategies of a stage.
    """

    layers: Any
    first_layers: Any
    passes_s: Any
    stages: Any
    layer_of: Any
    layer_first: Any
    layer_last: Any
    pipeline: Any
    data: Any
    interleave: Any
    interleaved: Any
    micro_batch: Any
    recomputed: Any
    first: Any
    first_interleaved: Any
    last: Any
    batches: Any
    counts: Any


class Kept(NamedTuple):
    """What a search writes.

    counts: strategies by the bits of what rules them out.
    least_bytes: least memory of all.
    histogram: feasible strategies by time between edges; the last number is of those on the last edge.
    cells: the bin in which each cell of numbers begins; the first cell is number first_cell.
    best: columns TIME (of a sequence), MEMORY, TOTAL and RECOMPUTED (layers of a stage) of the fastest strategies, in
        order of time.
    best_at: their places, stage, layer and batch.
    size: rows of `best`.
    of_stage, of_stage_at: the fastest strategy of each stage, and its place.
    skipped_s: of each stage, least time of a sequence that the layers that were skipped may take.
    """

    counts: Any
    least_bytes: Any
    histogram: Any
    edges: Any
    cells: Any
    first_cell: int
    best: Any
    best_at: Any
    size: Any
    of_stage: Any
    of_stage_at: Any
    skipped_s: Any


def empty_kept(stages: int, top: int) -> Kept:
    """A `Kept` with room for the `top` fastest strategies and the fastest one of each stage. stages: their number."""
    low, high = (int(np.float64(edge).view(np.int64) >> _CELL_SHIFT) for edge in TIME_EDGES_S[[0, -1]])
    starts = (np.arange(low, high + 1, dtype=np.int64) << _CELL_SHIFT).view(np.float64)
    cells = np.clip(np.searchsorted(TIME_EDGES_S, starts, "right") - 1, 0, TIME_EDGES_S.size - 2)
    return Kept(
        counts=np.zeros(4, np.int64),
        least_bytes=np.full(1, np.inf),
        histogram=np.zeros(TIME_EDGES_S.size, np.int64),
        edges=TIME_EDGES_S,
        cells=cells,
        first_cell=low,
        best=np.zeros((top, 4)),
        best_at=np.zeros((top, 3), np.int64),
        size=np.zeros(1, np.int64),
        of_stage=np.full((stages, 4), np.inf),
        of_stage_at=np.zeros((stages, 3), np.int64),
        skipped_s=np.full(stages, np.inf),
    )


@njit
def visit(tables: Tables, setting: Any, kept: Kept, begin: int, end: int, only_best: bool, below_s: float) -> int:
    """Evaluate the strategies of the stages from `begin` to `end`.

    Parameters
    ----------
    tables, setting
        Records of layers and stages, and of machine and software.
    kept
        Written.
    begin, end
        Stages.
    only_best
        Whether layers are skipped whose passes alone take longer than the slowest of a full `best`.
    below_s
        Time of a sequence [s]: layers are skipped whose passes alone take longer.

    Returns
    -------
    How many strategies were evaluated.
    """
    before = kept.counts.sum()
    top, shortest, longest = kept.best.shape[0], kept.edges[0], kept.edges[-1]
    least, both_ends = kept.least_bytes[0], tables.first_layers.size > 0
    for s in range(begin, end):
        stage, p, d, v = tables.stages[s], tables.pipeline[s], tables.data[s], tables.interleave[s]
        first = tables.first_interleaved if tables.interleaved[s] else tables.first
        share = stage.layers / d
        for i in range(tables.layer_first[s], tables.layer_last[s]):
            full, passes_s = only_best and kept.size[0] == top, share * tables.passes_s[tables.layer_of[i]]
            if passes_s > below_s or (full and passes_s > kept.best[top - 1, TIME]):
                kept.skipped_s[s] = smaller(passes_s, kept.skipped_s[s])
                continue
            row, b, some = tables.layer_of[i], tables.micro_batch[i], tables.recomputed[i]
            layer = tables.layers[row]
            for g in range(first[i], tables.last[i]):
                batch = tables.batches[g]
                layers = smaller(some, stage.layers)
                if some < ALL_LAYERS:
                    layers = fewest_layers(layer, stage, setting, b, p, d, v, batch)
                    if both_ends:
                        other = fewest_layers(tables.first_layers[row], stage, setting, b, p, d, v, batch)
                        layers = larger(other, layers)
                if layers == ALL_LAYERS:
                    layers = smaller(v, stage.layers) if some == FEWEST_LAYERS_ALONE else stage.layers
                path = critical_path(layer, stage, setting, b, p, d, v, batch, layers)
                total, memory, short = path.total_s, path.memory_bytes, int(path.short)
                if both_ends:
                    end = tables.first_layers[row]
                    first_s, bytes_, why = _of_an_end(end, stage, setting, b, p, d, v, batch, layers)
                    total, memory, short = larger(first_s, total), larger(bytes_, memory), short | why
                kept.counts[short] += 1
                least = memory if memory < least else least
                if short:
                    continue
                time = total / batch
                if shortest <= time <= longest:  # a cell is narrower than a bin: there is one edge in it at most
                    place = kept.cells[(np.float64(time).view(np.int64) >> _CELL_SHIFT) - kept.first_cell]
                    kept.histogram[place + (time >= kept.edges[place + 1])] += 1
                fastest = kept.of_stage[s]
                if time < fastest[TIME] or (time == fastest[TIME] and memory < fastest[MEMORY]):
                    _write(kept.of_stage, kept.of_stage_at, s, (time, memory, total, layers), (s, i, g))
                size = kept.size[0]
                if size < top or time <= kept.best[size - 1, TIME]:
                    kept.size[0] = _keep_fastest(kept, size, (time, memory, total, layers), (s, i, g))
    kept.least_bytes[0] = least
    return kept.counts.sum() - before


@njit
def fewest_layers(layer: Any, stage: Any, setting: Any, b: float, p: float, d: float, v: float, batch: float) -> float:
    """Layers of each stage that must be recomputed to fit in memory, as many of each chunk; 0 where none must be.

    A stage with l layers, q micro-batches in flight and s bytes of states needs s + q (l kept + (l - r) spared) for the
    least r, as `critical_path` has it. Activations on the host need no room. Of what fits by its last bits alone one
    layer more is taken.

    Parameters
    ----------
    layer, stage, setting, b, p, d, v, batch
        As for `critical_path`.

    Returns
    -------
    r, at most all layers.
    """
    if setting.offload_activations:
        return 0.0
    room = setting.memory_bytes - setting.reserved_bytes - layer.working_bytes
    # Most strategies fit with more micro-batches in flight than any stage has.
    states = larger(stage.first_bytes, larger(stage.middle_bytes, stage.last_bytes + layer.logits_bytes))
    most = smaller(stage.first_flight + p, batch / (d * b) + 1) * stage.layers
    if states + most * (layer.kept_bytes + layer.spared_bytes) <= room:
        return 0.0
    held = microbatches_held(stage, p, 1 / v, np.ceil(batch / (d * b)))
    lacking = _lacking(stage.first_layers, held[0], room - stage.first_bytes, layer)
    lacking = larger(lacking, _lacking(stage.last_layers, held[2], room - stage.last_bytes - layer.logits_bytes, layer))
    if p > 2:
        lacking = larger(lacking, _lacking(stage.layers, held[1], room - stage.middle_bytes, layer))
    return smaller(v * np.ceil(lacking / v), stage.layers) if lacking else 0.0


@inlined
def _lacking(layers: float, held: float, room: float, layer: Any) -> float:
    """Layers of a stage whose activations have no room."""
    bytes_ = held * layers * (layer.kept_bytes + layer.spared_bytes) - room
    return bytes_ / larger(held * layer.spared_bytes, 1.0) + 1e-9 if bytes_ > 0 else 0.0


@njit
def _of_an_end(
    layer: Any, stage: Any, setting: Any, b: float, p: float, d: float, v: float, batch: float, recomputed: float
) -> tuple[float, float, int]:
    """Time, memory and obstacles of an iteration: a function of its own, so that the loop stays short."""
    path = critical_path(layer, stage, setting, b, p, d, v, batch, recomputed)
    return path.total_s, path.memory_bytes, int(path.short)


@inlined
def _write(numbers: Any, places: Any, row: int, values: tuple, place: tuple) -> None:
    for column in range(4):
        numbers[row, column] = values[column]
    places[row, _STAGE], places[row, _LAYER], places[row, _BATCH] = place


@inlined
def _move(numbers: Any, places: Any, to: int, row: int) -> None:
    for column in range(4):
        numbers[to, column] = numbers[row, column]
    for column in range(3):
        places[to, column] = places[row, column]


@njit
def _keep_fastest(kept: Kept, size: int, values: tuple, place: tuple) -> int:
    """Put a strategy among the fastest, by time and memory; of equal ones the earlier stays. Returns the rows then."""
    best, places = kept.best, kept.best_at
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        time, memory = best[middle, TIME], best[middle, MEMORY]
        if time < values[TIME] or (time == values[TIME] and memory <= values[MEMORY]):
            low = middle + 1
        else:
            high = middle
    same = low > 0 and best[low - 1, TIME] == values[TIME] and best[low - 1, MEMORY] == values[MEMORY]
    if same or low == best.shape[0]:
        return size
    size = min(size + 1, best.shape[0])
    for row in range(size - 1, low, -1):
        _move(best, places, row, row - 1)
    _write(best, places, low, values, place)
    return size
