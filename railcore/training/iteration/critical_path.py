"""Iteration time on the critical path of a 1F1B pipeline, for many strategies at once; breakdown and memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from railcore.training.iteration.layer import KEY, MODERN, Runtime, layer_times
from railcore.training.iteration.machine import Machine
from railcore.training.transformer import (
    GRADIENT_BYTES,
    OPTIMIZER_BYTES,
    RECOMPUTE,
    SHARDING,
    WEIGHT_BYTES,
    Transformer,
)

STRATEGY = (*KEY, "pipeline", "data", "interleave", "sharding", "global_batch")
PLACE = ("tensor", "context", "expert", "pipeline", "data", "interleave", "sharding")
BLOCK = 16_384  # rows computed together: their arrays stay in a core's cache
STAGE = ("linear", "attention", "elementwise", "recompute", "tensor", "context", "expert")
TIMES = (*(f"{name}_s" for name in STAGE), "logits_s", "pipeline_s", "bubble_s", "data_s", "optimizer_s", "offload_s")
REASONS = ("feasible", "heads", "layers", "batch", "interleave", "sequence", "experts", "network", "memory")
OFFLOAD = ("none", "optimizer")
UPDATE_BYTES = 46  # of Adam in fp32 a parameter: 16 read, 14 written, 16 to norm, clip and clear the gradient


@dataclass(frozen=True)
class Estimate:
    """Times [s] and bytes of each strategy, arrays of one shape.

    breakdown: by TIMES, what stands on the critical path; they add up to `total_s`. links: how long a rank's links are
    busy with each kind of traffic, hidden or not. memory: by kind, on the fullest rank. reason: index in REASONS of
    the first thing that rules a strategy out, 0 where nothing does.
    """

    total_s: np.ndarray
    breakdown: dict[str, np.ndarray]
    links: dict[str, np.ndarray]
    memory: dict[str, np.ndarray]
    reason: np.ndarray

    @property
    def memory_bytes(self) -> np.ndarray:
        """Bytes on the fullest rank."""
        return np.asarray(sum(self.memory.values()))


def iteration_times(
    model: Transformer, machine: Machine, strategies: Mapping[str, Any], runtime: Runtime = MODERN, offload="none"
) -> Estimate:
    """Iteration time of every strategy, its breakdown, link times and memory.

    T = m (S + logits) + (p - 1) S / v + D + U. m = G / (d b) micro-batches pass the last of p stages one after another;
    S is forward, backward and recompute of a stage's L / p layers, the hops to and from its neighbours, and what of
    all their communication is exposed; filling and draining takes 1 / v of S, its hops never hidden, for every other
    stage; D is the exposed exchange of gradients and weights, U the optimizer's step, or the way of gradients and
    weights to the host and back and the step in its memory. Kinds of traffic are taken not to share links at a time.
    strategies: arrays of one shape by the names in STRATEGY, recompute and sharding as indices in RECOMPUTE and
    SHARDING. Ranks are placed tensor first, then context, data, pipeline; expert ranks are neighbours among the
    context and data ranks. offload: "optimizer" keeps its states in the host's memory.
    D: a pass of all but one of the stage's layers hides a link time, but never a layer's share of it; without
    overlap_data all of it is exposed (`_data_links`). Sharding that exchanges with every micro-batch is part of S.
    What does not divide is computed with layers and micro-batches rounded up, and carries its reason; so does sequence
    parallelism over one tensor rank ("sequence"), and a time that is not finite ("network"). Raises ValueError for a
    missing or odd column.
    Source: railonly2025, Iteration Time Modeling; Narayanan et al. 2021, arXiv:2104.04473, Section 2.2.
    """
    parts = list(estimates(model, machine, strategies, runtime, offload))
    shape = np.broadcast_shapes(*(np.shape(strategies[name]) for name in STRATEGY))
    joined: dict[str, Any] = {}
    for name, first in vars(parts[0]).items():
        columns = [getattr(part, name) for part in parts]
        if isinstance(first, dict):
            joined[name] = {key: np.concatenate([column[key] for column in columns]).reshape(shape) for key in first}
        else:
            joined[name] = np.concatenate(columns).reshape(shape)
    return Estimate(**joined)


def estimates(
    model: Transformer, machine: Machine, strategies: Mapping[str, Any], runtime: Runtime = MODERN, offload="none"
) -> Iterator[Estimate]:
    """`iteration_times` in blocks of BLOCK rows, in order; at least one."""
    if offload not in OFFLOAD:
        raise ValueError(f"offload is {offload!r}: give one of {', '.join(OFFLOAD)}")
    columns = _columns(strategies)
    (key, layer_of), (place, place_of) = (_distinct(columns, names) for names in (KEY, PLACE))
    layers = _table(vars(layer_times(model, machine, runtime, key)) | _unfit(model, key))
    places = _table(_placed(model, machine, runtime, offload, place))
    for start in range(0, max(layer_of.size, 1), BLOCK):
        rows = slice(start, start + BLOCK)
        at = {name: column[layer_of[rows]] for name, column in layers.items()}
        at |= {name: column[place_of[rows]] for name, column in places.items()}
        at |= {name: columns[name][rows].astype(float) for name in ("micro_batch", "data", "pipeline", "global_batch")}
        yield _assembled(machine, at)


def _table(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return dict(zip(columns, np.broadcast_arrays(*columns.values()), strict=True))


def _columns(strategies: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if missing := [name for name in STRATEGY if name not in strategies]:
        raise ValueError(f"strategies lack {', '.join(missing)}: give an array for each of {', '.join(STRATEGY)}")
    given = {name: np.asarray(strategies[name]) for name in STRATEGY}
    for name, array in given.items():
        if array.dtype.kind not in "iubf" or (array.dtype.kind == "f" and not np.all(np.mod(array, 1) == 0)):
            raise ValueError(f"{name} is {strategies[name]!r}: give whole numbers")
    arrays = [array.ravel() for array in np.broadcast_arrays(*(array.astype(np.int64) for array in given.values()))]
    top = {"sequence_parallel": 1, "recompute": len(RECOMPUTE) - 1, "sharding": len(SHARDING) - 1}
    for name, array in zip(STRATEGY, arrays, strict=True):
        least, most = (0, top[name]) if name in top else (1, 2**31)
        if array.size and not (least <= array.min() and array.max() <= most):
            raise ValueError(f"{name} is {array.min()} to {array.max()}: give whole numbers from {least} to {most}")
    return dict(zip(STRATEGY, arrays, strict=True))


def _distinct(columns: dict[str, np.ndarray], names: tuple[str, ...]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """The different rows of some columns, and which of them each strategy has: what they decide is computed once."""
    code, codes = np.zeros((), np.int64), 1
    for name in names:
        column, span = columns[name], int(columns[name].max(initial=0)) + 1
        if codes * span > 2**62:  # number what occurs anew
            code, column = (np.unique(array, return_inverse=True)[1] for array in (code, column))
            codes, span = int(code.max(initial=0)) + 1, int(column.max(initial=0)) + 1
        code, codes = code * span + column, codes * span
    _, first, index = np.unique(code, return_index=True, return_inverse=True)
    return {name: columns[name][first] for name in names}, index


def _unfit(model: Transformer, key: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What of a layer does not divide: heads and columns over tensor ranks, the sequence over context ranks."""
    t, c, sp = (key[name] for name in ("tensor", "context", "sequence_parallel"))
    kv, s = model.kv_heads, model.sequence_length
    heads = (model.heads % t > 0) | (model.ffn_hidden % t > 0) | ((kv % t > 0) & (t % kv > 0))
    return {"heads": heads, "sequence": (s % (c * np.where(sp, t, 1)) > 0) | ((sp == 1) & (t == 1))}


def _placed(model, machine, runtime, offload, place) -> dict[str, np.ndarray]:
    """What the places of ranks decide.

    layers: of a stage. fill: passes of a stage that filling and draining takes. flight, flight_last: micro-batches
    whose activations wait on the first stage, p or p + (p - 1) / v interleaved, and on the last, (1 + (v - 1) p) / v.
    weights_bytes, gradients_bytes: sharded, a GPU's share and two layers at work. hop_s, hop_s_per_byte: of the 2 v
    hops of a micro-batch, hidden where chunks are interleaved. States [bytes]. Link times (`_data_links`).
    """
    t, c, e, p, d, v, sharding = (place[name] for name in PLACE)
    shared, experts = model.rank_parameters(t, p, e)
    ranks, same = d * c, np.maximum(d * c // e, 1)
    mine, own = shared + experts, shared / ranks + experts / same
    layers = np.ceil(model.layers / (p * v)) * v
    latency = machine.send_time(0, p, t * c * d)
    per_byte = (machine.send_time(1.0, p, t * c * d) - latency) * 2 * v
    update = np.where(sharding >= 1, own, mine)
    away = (GRADIENT_BYTES + WEIGHT_BYTES) / machine.host_Bps + UPDATE_BYTES / machine.host_memory_Bps
    moved = away * (offload == "optimizer")
    working = np.minimum(2, layers) * mine / layers  # two layers at work, gathered or not yet scattered
    return _data_links(model, machine, place, shared, experts) | {
        "layers": layers,
        "fill": (p - 1) / v,
        "flight": np.where(v > 1, p + (p - 1) / v, p),
        "flight_last": (1 + (v - 1) * p) / v,
        "hop_s": 2 * v * latency,
        "hop_s_per_byte": per_byte,
        "hops": 2.0 * v * (p > 1),
        "hide": (v > 1) * float(runtime.overlap_pipeline),
        "window": (layers - 1) * runtime.overlap_data,
        "weights_bytes": WEIGHT_BYTES * np.where(sharding == 3, own + working, mine),
        "gradients_bytes": GRADIENT_BYTES * np.where(sharding >= 2, np.minimum(own + working, mine), mine),
        "optimizer_bytes": OPTIMIZER_BYTES * update * (offload == "none"),
        "optimizer_s": UPDATE_BYTES / machine.hbm_Bps * update * (offload == "none"),
        "offload_s": moved * update,
        "uneven": layers * p != model.layers,
        "alone": (v > 1) & (p == 1),
        "chunked": v > 1,
        "experts": (max(model.experts, 1) % e > 0) | (ranks % e > 0),
    }


def _data_links(model, machine, place, shared, experts) -> dict[str, np.ndarray]:
    """Link times of gradients and weights: after and before an iteration's passes, in each forward and backward pass.

    Plain: an AllReduce of the gradients after the last backward pass. "optimizer": a ReduceScatter then, and an
    AllGather of the weights before the first forward pass. "gradients": the ReduceScatter in every backward pass.
    "weights": besides, an AllGather in every forward and every backward pass. Shared parameters travel among the
    context and data ranks, experts among those that hold the same ones, a layer at a time.
    """
    t, c, e, p, d, v, sharding = (place[name] for name in PLACE)
    layers = np.ceil(model.layers / (p * v)) * v
    times = []
    for size in (GRADIENT_BYTES, WEIGHT_BYTES):
        time = machine.link_time(size * shared, d * c, t, layers)
        if model.experts:
            time = time + machine.link_time(size * experts, np.maximum(d * c // e, 1), t * e, layers)
        times.append(time)
    gradients, weights = times
    inner = np.where(sharding == 3, weights, 0.0)
    return {
        "after": np.where(sharding == 0, 2, sharding == 1) * gradients,
        "before": np.where((sharding == 1) | (sharding == 2), weights, 0.0),
        "inner_f": inner,
        "inner_b": np.where(sharding >= 2, gradients, 0.0) + inner,
    }


def _assembled(machine: Machine, at: dict[str, np.ndarray]) -> Estimate:
    p, layers = at["pipeline"], at["layers"]
    exact = at["global_batch"] / (at["data"] * at["micro_batch"])
    m = np.ceil(exact)
    forward, backward = at["window"] * at["forward"], at["window"] * at["backward"]
    each = _left(at["inner_f"], forward, layers) + _left(at["inner_b"], backward, layers)
    stage = layers * at["stage"] + each
    hop = at["hop_s"] + at["boundary_bytes"] * at["hop_s_per_byte"] + at["hops"] * at["boundary_gather"]
    waiting = hop - at["hide"] * np.minimum(hop, stage)
    all_layers = m * layers
    breakdown = {f"{name}_s": all_layers * at[name] for name in STAGE} | {
        "logits_s": m * at["logits"],
        "pipeline_s": m * waiting,
        "bubble_s": at["fill"] * (stage + hop),
        "data_s": m * each + _left(at["after"], backward, layers) + _left(at["before"], forward, layers),
        "optimizer_s": at["optimizer_s"],
        "offload_s": at["offload_s"],
    }
    links = {f"{name}_link_s": all_layers * at[f"{name}_link"] for name in ("tensor", "context", "expert")}
    links |= {
        "logits_link_s": m * at["logits_link"],
        "pipeline_link_s": m * hop,
        "data_link_s": m * (at["inner_f"] + at["inner_b"]) + at["after"] + at["before"],
    }
    memory = _memory(machine, at, m)
    used = np.asarray(sum(memory.values()))
    late = at["alone"] | (at["chunked"] & (np.floor(m / p) * p != m))
    total = np.asarray(sum(breakdown.values()))
    wrong: tuple[np.ndarray, ...] = (
        at["heads"],
        at["uneven"],
        np.not_equal(exact, m),
        late,
        at["sequence"],
        at["experts"],
        ~np.isfinite(total),
        used > machine.memory_bytes,
    )
    reason = np.zeros(used.shape, np.int8)
    for code in range(len(wrong), 0, -1):
        if wrong[code - 1].any():
            reason[wrong[code - 1]] = code
    return Estimate(total, breakdown, links, memory, reason)


def _left(link, window, layers):
    """What a window does not hide of a link time: at least one layer's share, all of it without a window."""
    return np.maximum(link - window, link / layers)


def _memory(machine: Machine, at: dict[str, np.ndarray], m: np.ndarray) -> dict[str, np.ndarray]:
    kept = at["layers"] * at["kept_bytes"]
    first = np.minimum(at["flight"], m) * kept
    last = np.minimum(at["flight_last"], m) * kept + at["logits_bytes"]
    states = {name: at[name] for name in ("weights_bytes", "gradients_bytes", "optimizer_bytes")}
    working = {"activations_bytes": np.maximum(first, last) + at["working_bytes"]}
    return states | working | {"reserved_bytes": np.full_like(m, machine.reserved_bytes)}
