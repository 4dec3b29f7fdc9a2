"""Iteration time of many strategies at once: the critical path of a 1F1B pipeline, link times and memory.

Symbols as in `railcore.training.layer_time`, which gives the costs of a layer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from railcore.facts import checks
from railcore.facts.arguments import checked
from railcore.training.layer_time import LAYER_COLUMNS, LAYER_PARTS, MODERN, LayerCosts, Runtime, layer_costs
from railcore.training.machine import Machine, as_machine
from railcore.training.parallelism import indivisible
from railcore.training.transformer import GRADIENT_BYTES, LEVELS, OPTIMIZER_BYTES, WEIGHT_BYTES, Transformer, as_model

STRATEGY_COLUMNS = (*LAYER_COLUMNS, "pipeline", "data", "interleave", "sharding", "global_batch")
STRATEGY_RANGES = dict.fromkeys(STRATEGY_COLUMNS, (1, 2**31)) | {"sequence_parallel": (0, 1)}
STRATEGY_RANGES |= {name: (0, len(levels) - 1) for name, levels in LEVELS.items()}
_RANK_PARTS = ("logits", "pipeline", "bubble", "data", "optimizer", "offload")
TIME_PARTS = tuple(f"{name}_s" for name in (*LAYER_PARTS, *_RANK_PARTS))
REASONS = ("feasible", "heads", "layers", "batch", "interleave", "sequence", "experts", "network", "memory")
OFFLOAD = ("none", "optimizer")
_STAGE_COLUMNS = ("tensor", "context", "expert", "pipeline", "data", "interleave", "sharding")
_BATCH_COLUMNS = ("micro_batch", "pipeline", "data", "interleave", "global_batch")
_BLOCK_ROWS = 16_384  # rows computed together: their arrays stay in a core's cache
_UPDATE_BYTES = 46  # of Adam in fp32 a parameter: 16 read, 14 written, 16 to norm, clip and clear the gradient
Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class IterationEstimate:
    """Times [s] and bytes of each strategy, arrays of one shape.

    breakdown: what is on the critical path, by TIME_PARTS; it adds up to `total_s`. links: how long a rank's links are
    busy with each kind of traffic, hidden or not. memory: by kind, on the fullest rank. reason: index in REASONS of
    the first thing that rules a strategy out, 0 where nothing does. warnings: where groups of ranks lie unevenly in HB
    domains, as texts.
    """

    total_s: np.ndarray
    breakdown: dict[str, np.ndarray]
    links: dict[str, np.ndarray]
    memory: dict[str, np.ndarray]
    reason: np.ndarray
    warnings: tuple[str, ...] = ()

    @property
    def memory_bytes(self) -> np.ndarray:
        """Bytes on the fullest rank."""
        return np.asarray(sum(self.memory.values()))


@dataclass(frozen=True)
class _StageCosts:
    """What the places of ranks decide for a pipeline stage, arrays of one shape.

    layers: of a stage, rounded up to whole chunks. hop_Bps, hop_latency_s: of the link to the next stage.
    after_s, before_s: link time of gradients and weights after and before an iteration's passes; in_forward_s,
    in_backward_s: in each pass of a micro-batch. states: bytes of weights, gradients and optimizer on the GPU.
    optimizer_s: the optimizer's step on the GPU; offload_s: in the host's memory, with the way there and back.
    """

    layers: np.ndarray
    hop_Bps: np.ndarray
    hop_latency_s: np.ndarray
    after_s: np.ndarray
    before_s: np.ndarray
    in_forward_s: np.ndarray
    in_backward_s: np.ndarray
    states: dict[str, np.ndarray]
    optimizer_s: np.ndarray
    offload_s: np.ndarray


@checked
def iteration_times(
    model: Transformer | str,
    machine: Machine | str,
    strategies: Mapping,
    runtime: Runtime = MODERN,
    offload: str = "none",
) -> IterationEstimate:
    """Iteration time of every strategy, its breakdown, link times and memory.

    T = m (S + logits) + (p - 1) S / v + D + U. m = G / (d b) micro-batches pass the last of p stages one after another.
    S: forward, backward and recompute of a stage's L / p layers, the hops to and from its neighbours, and the exposed
    part of all their communication. Filling and draining takes S / v for every other stage, whose hops are never
    hidden. D: the exposed exchange of gradients and weights (`_data_links`); a pass over all but one of the stage's
    layers hides a link time, but never one layer's share of it; without overlap_data all of it is exposed. Sharding
    that exchanges with every micro-batch is part of S. U: the optimizer's step, or the way of gradients and weights to
    the host and back and the step in its memory. Assumed: two kinds of traffic never use a link at the same time.

    Ranks are placed tensor first, then context, data, pipeline; expert ranks are neighbours among the context and data
    ranks. What does not divide is computed with layers and micro-batches rounded up, and carries its reason
    (`parallelism.indivisible`); so does a time that is not finite ("network").

    Parameters
    ----------
    model, machine, runtime
        What is trained, on which GPU, with which software. Of the first two names in the catalog do.
    strategies
        Whole numbers that broadcast, by the names in STRATEGY_COLUMNS; recompute and sharding as indices in RECOMPUTE
        and SHARDING.
    offload
        "optimizer" keeps the optimizer's states in the host's memory.

    Returns
    -------
    An estimate, arrays of the strategies' common shape.

    Raises
    ------
    ValueError
        For a missing column, and for values that are not whole or out of range.

    References
    ----------
    railonly2025, Iteration Time Modeling; Narayanan et al. 2021, arXiv:2104.04473, Section 2.2.
    """
    parts = [part for _, part in iteration_time_blocks(model, machine, strategies, runtime, offload)]
    shape = np.broadcast_shapes(*(np.shape(strategies[name]) for name in STRATEGY_COLUMNS))

    def joined(arrays: list[Any]) -> Any:
        if isinstance(arrays[0], dict):
            return {name: joined([array[name] for array in arrays]) for name in arrays[0]}
        return arrays[0] if isinstance(arrays[0], tuple) else np.concatenate(arrays).reshape(shape)

    return IterationEstimate(**{name: joined([getattr(part, name) for part in parts]) for name in vars(parts[0])})


@checked
def iteration_time_blocks(
    model: Transformer | str,
    machine: Machine | str,
    strategies: Mapping,
    runtime: Runtime = MODERN,
    offload: str = "none",
) -> Iterator[tuple[slice, IterationEstimate]]:
    """`iteration_times` of a block of rows after another.

    Parameters
    ----------
    model, machine, strategies, runtime, offload
        As for `iteration_times`.

    Returns
    -------
    The rows of each block, counted over the flattened columns, and their estimate; at least one.
    """
    model, machine = as_model(model), as_machine(machine)
    checks.one_of("offload", offload, OFFLOAD)
    columns = _checked_columns(strategies)
    layer_rows, layer_of = _unique_rows(columns, LAYER_COLUMNS)
    stage_rows, stage_of = _unique_rows(columns, _STAGE_COLUMNS)
    layers = layer_costs(model, machine, runtime, layer_rows)
    stages = _stage_costs(model, machine, offload, stage_rows)
    warnings = _placement_warnings(machine, stage_rows)
    wrong_layer = _first_reason(indivisible(model, layer_rows), "heads", "sequence")
    wrong_stage = _first_reason(indivisible(model, stage_rows), "layers", "experts")
    for start in range(0, max(layer_of.size, 1), _BLOCK_ROWS):
        rows = slice(start, start + _BLOCK_ROWS)
        batch = {name: columns[name][rows] for name in _BATCH_COLUMNS}
        wrong_batch = _first_reason(indivisible(model, batch), "batch", "interleave")
        wrong = np.minimum(wrong_batch, np.minimum(wrong_layer[layer_of[rows]], wrong_stage[stage_of[rows]]))
        layer, stage = _selected(layers, layer_of[rows]), _selected(stages, stage_of[rows])
        yield rows, replace(_estimate(machine, runtime, batch, layer, stage, wrong), warnings=warnings)


def _placement_warnings(machine: Machine, columns: Columns) -> tuple[str, ...]:
    """Which groups of ranks lie unevenly in HB domains, and what that does to the time."""
    t, c, e, d = (columns[name] for name in ("tensor", "context", "expert", "data"))
    groups = {"tensor": (t, np.ones_like(t)), "context": (c, t), "expert": (e, t), "data": (c * d, t)}
    uneven = {name: machine.lies_unevenly(*group) for name, group in groups.items()}
    names = [name for name, found in uneven.items() if found.any()]
    if not names:
        return ()
    K, some = machine.hb_domain_size, "" if np.logical_or.reduce(list(uneven.values())).all() else " in some strategies"
    fewest = all((K % stride[uneven[name]] == 0).all() for name, (_, stride) in groups.items())
    what = (
        "the one with the fewest ranks in a domain sets the time of all, which is too long rather than too short."
        if fewest
        else "the model takes as many ranks in each domain, so that the time is approximate, perhaps too short."
    )
    return (f"Groups of {' and '.join(names)} ranks lie unevenly in HB domains of {K:,}{some}: {what}",)


def _checked_columns(strategies: Mapping) -> Columns:
    """Strategies as flat columns of whole numbers in their ranges."""
    if missing := [name for name in STRATEGY_COLUMNS if name not in strategies]:
        names = ", ".join(STRATEGY_COLUMNS)
        raise ValueError(f"strategies lack {', '.join(missing)}: give an array for each of {names}")
    arrays = [checks.whole(name, strategies[name], *STRATEGY_RANGES[name]) for name in STRATEGY_COLUMNS]
    return dict(zip(STRATEGY_COLUMNS, (array.ravel() for array in np.broadcast_arrays(*arrays)), strict=True))


def _unique_rows(columns: Columns, names: tuple[str, ...]) -> tuple[Columns, np.ndarray]:
    """Unique rows of some columns, and each strategy's row index: what they decide is computed once."""
    code, codes = np.zeros((), np.int64), 1
    for name in names:
        column, span = columns[name], int(columns[name].max(initial=0)) + 1
        if codes * span > 2**62:  # number what occurs anew
            code, column = (pd.factorize(array)[0] for array in (code, column))
            codes, span = int(code.max(initial=0)) + 1, int(column.max(initial=0)) + 1
        code, codes = code * span + column, codes * span
    index, found = pd.factorize(code)
    first = np.empty(len(found), np.int64)
    first[index[::-1]] = np.arange(index.size)[::-1]  # of equal rows the last one written stays
    return {name: columns[name][first] for name in names}, index


def _selected(costs: Any, index: np.ndarray) -> Any:
    """Rows of a dataclass of arrays, or of dicts of arrays."""
    fields = {
        name: {key: array.take(index) for key, array in value.items()} if isinstance(value, dict) else value.take(index)
        for name, value in vars(costs).items()
    }
    return type(costs)(**fields)


def _first_reason(wrong: Mapping[str, np.ndarray], *names: str) -> np.ndarray:
    """Index in REASONS of the first of these names that is wrong, len(REASONS) where none is."""
    found = np.full(np.shape(wrong[names[0]]), len(REASONS), np.int8)
    for name in reversed(names):
        found[wrong[name]] = REASONS.index(name)
    return found


def _stage_costs(model: Transformer, machine: Machine, offload: str, columns: Columns) -> _StageCosts:
    """Costs of a stage for arrays of one shape by the names in _STAGE_COLUMNS."""
    t, c, e, p, d, v, sharding = (columns[name] for name in _STAGE_COLUMNS)
    layers = model.stage_layers(p, v)
    states = model.state_bytes(t, p, d * c, sharding, e, v)
    updated = states["optimizer"] / OPTIMIZER_BYTES  # parameters that a rank's optimizer updates
    host_s = (GRADIENT_BYTES + WEIGHT_BYTES) / machine.host_Bps + _UPDATE_BYTES / machine.host_memory_Bps
    away = offload == "optimizer"
    return _StageCosts(
        layers,
        *machine.neighbour_link(p, t * c * d),
        *_data_links(model, machine, columns, layers),
        states=states | {"optimizer": states["optimizer"] * (not away)},
        optimizer_s=_UPDATE_BYTES / machine.hbm_Bps * updated * (not away),
        offload_s=host_s * updated * away,
    )


def _data_links(model: Transformer, machine: Machine, columns: Columns, layers: Any) -> tuple[Any, Any, Any, Any]:
    """Link times of gradients and weights: after and before an iteration's passes, in each forward and backward pass.

    Plain: an AllReduce of the gradients after the last backward pass. "optimizer": a ReduceScatter then, and an
    AllGather of the weights before the first forward pass. "gradients": the ReduceScatter in every backward pass.
    "weights": besides, an AllGather in every forward and every backward pass. Shared parameters travel among the
    context and data ranks, experts among those that hold the same ones, a layer at a time.
    """
    t, c, e, p, d, _, sharding = (columns[name] for name in _STAGE_COLUMNS)
    shared, experts = model.rank_parameters(t, p, e)
    groups = [(shared, d * c, t)]
    if model.experts:
        groups.append((experts, np.maximum(d * c // e, 1), t * e))
    gradients, weights = (
        sum(machine.all_gather_time(size * held, ranks, stride, layers) for held, ranks, stride in groups)
        for size in (GRADIENT_BYTES, WEIGHT_BYTES)
    )
    after = np.select([sharding == 0, sharding == 1], [2 * gradients, gradients], 0.0)
    before = np.where((sharding == 1) | (sharding == 2), weights, 0.0)
    in_forward = np.where(sharding == 3, weights, 0.0)
    return after, before, in_forward, np.where(sharding >= 2, gradients, 0.0) + in_forward


def _estimate(
    machine: Machine, runtime: Runtime, batch: Columns, layer: LayerCosts, stage: _StageCosts, wrong: np.ndarray
) -> IterationEstimate:
    """Estimate of a block of rows; wrong: what of them does not divide, by `_first_reason`."""
    b, p, d, v, G = (batch[name].astype(float) for name in _BATCH_COLUMNS)
    m, fill, chunked = np.ceil(G / (d * b)), (p - 1) / v, v > 1
    window = (stage.layers - 1) * runtime.overlap_data
    forward, backward = window * layer.forward_s, window * layer.backward_s
    data_s = _exposed(stage.in_forward_s, forward, stage.layers) + _exposed(stage.in_backward_s, backward, stage.layers)
    stage_s = stage.layers * (layer.forward_s + layer.backward_s) + data_s  # of a micro-batch, as the hops
    hop = stage.hop_latency_s + layer.boundary_bytes / stage.hop_Bps + layer.boundary_gather_s
    hops = 2 * v * (p > 1) * hop
    hidden = np.minimum(hops, stage_s) * (chunked & runtime.overlap_pipeline)
    all_layers = m * stage.layers
    breakdown = {f"{name}_s": all_layers * layer.seconds[name] for name in LAYER_PARTS} | {
        "logits_s": m * layer.logits_s,
        "pipeline_s": m * (hops - hidden),
        "bubble_s": fill * (stage_s + hops),
        "data_s": m * data_s
        + _exposed(stage.after_s, backward, stage.layers)
        + _exposed(stage.before_s, forward, stage.layers),
        "optimizer_s": stage.optimizer_s,
        "offload_s": stage.offload_s,
    }
    links = {f"{name}_link_s": all_layers * time for name, time in layer.links.items()} | {
        "logits_link_s": m * layer.logits_link_s,
        "pipeline_link_s": m * hops,
        "data_link_s": m * (stage.in_forward_s + stage.in_backward_s) + stage.after_s + stage.before_s,
    }
    # Activations of p micro-batches wait on the first stage, interleaved of p + fill, and of p - fill on the last one.
    kept = stage.layers * layer.kept_bytes
    first, last = np.minimum(p + chunked * fill, m) * kept, np.minimum(p - fill, m) * kept + layer.logits_bytes
    memory = {f"{kind}_bytes": size for kind, size in stage.states.items()} | {
        "activations_bytes": np.maximum(first, last) + layer.working_bytes,
        "reserved_bytes": np.full_like(m, machine.reserved_bytes),
    }
    total, used = np.asarray(sum(breakdown.values())), np.asarray(sum(memory.values()))
    short = {"network": ~np.isfinite(total), "memory": used > machine.memory_bytes}
    reason = np.minimum(wrong, _first_reason(short, "network", "memory"))
    reason[reason == len(REASONS)] = REASONS.index("feasible")
    return IterationEstimate(total, breakdown, links, memory, reason)


def _exposed(link_s: np.ndarray, window_s: np.ndarray, layers: np.ndarray) -> np.ndarray:
    """What a window does not hide of a link time: at least one layer's share, all of it without a window."""
    return np.maximum(link_s - window_s, link_s / layers)
