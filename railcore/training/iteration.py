"""Iteration time, for many strategies at once: what a layer costs, and the critical path of a 1F1B pipeline.

A layer: compute by kind, communication as link time and exposed time, for one micro-batch on one rank. An iteration:
its time with a breakdown, link times and memory. Symbols as in `railcore.training.transformer`, and u = s b / c tokens
of a micro-batch on a rank.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from railcore.facts import checks
from railcore.training.machine import Machine
from railcore.training.parallelism import indivisible
from railcore.training.transformer import (
    GRADIENT_BYTES,
    OPTIMIZER_BYTES,
    RECOMPUTE,
    SHARDING,
    WEIGHT_BYTES,
    Transformer,
)

KEY = ("micro_batch", "tensor", "context", "expert", "sequence_parallel", "recompute")
STAGE = ("linear", "attention", "elementwise", "recompute", "tensor", "context", "expert")
TILE = (256, 128)  # rows and columns of the largest common tile of a matrix product
STEP = 64  # a side shorter than the tile's takes the next multiple of this
ELEMENT = 2  # bytes of bf16
LOSS_BYTES = 32  # of cross entropy in fp32 a logit: cast 6, maximum 4, exponent 8, sum 4, gradient 4, cast back 6
STRATEGY = (*KEY, "pipeline", "data", "interleave", "sharding", "global_batch")
STAGE_KEY = ("tensor", "context", "expert", "pipeline", "data", "interleave", "sharding")
BATCH_KEY = ("micro_batch", "pipeline", "data", "interleave", "global_batch")
ROWS_TOGETHER = 16_384  # rows computed together: their arrays stay in a core's cache
TIME_PARTS = (
    *(f"{name}_s" for name in STAGE),
    "logits_s",
    "pipeline_s",
    "bubble_s",
    "data_s",
    "optimizer_s",
    "offload_s",
)
REASONS = ("feasible", "heads", "layers", "batch", "interleave", "sequence", "experts", "network", "memory")
OFFLOAD = ("none", "optimizer")
RANGES = {"sequence_parallel": (0, 1), "recompute": (0, len(RECOMPUTE) - 1), "sharding": (0, len(SHARDING) - 1)}
UPDATE_BYTES = 46  # of Adam in fp32 a parameter: 16 read, 14 written, 16 to norm, clip and clear the gradient


@dataclass(frozen=True)
class Runtime:
    """What the training software overlaps and fuses.

    overlap_tensor: the backward pass hides its traffic between tensor ranks behind the products of the weights'
    gradients. overlap_pipeline: with interleaved chunks, sends to the next stage are hidden behind other chunks.
    overlap_data: gradients and sharded weights are exchanged behind backward and forward passes. fused_attention:
    scores are never stored; then selective recompute changes nothing, and what the causal mask hides is not computed.
    dropout: after attention and feed-forward.
    """

    overlap_tensor: bool = True
    overlap_pipeline: bool = True
    overlap_data: bool = True
    fused_attention: bool = True
    dropout: bool = False


MODERN = Runtime()
RUNTIMES = {
    "megatron2021": Runtime(False, False, False, False, True),
    "megatron2022": Runtime(True, False, False, False, True),
    "modern": MODERN,
}


class PassTimes(NamedTuple):
    """Seconds of one kind of work in a layer: on the critical path, and on the links that it keeps busy."""

    forward: Any
    backward: Any
    link_forward: Any = 0.0
    link_backward: Any = 0.0


@dataclass(frozen=True)
class LayerCosts:
    """Seconds and bytes of a layer for one micro-batch on one rank, arrays of one shape.

    seconds: on the critical path in both passes, by STAGE; of communication the exposed part. links: seconds of the
    links of tensor, context and expert ranks, hidden or not. forward_s, backward_s: `seconds` by pass, recompute in
    backward. logits_s, logits_link_s: the last stage's logits and loss, and their link time. boundary_bytes: from a
    rank to the next stage, whose tensor ranks gather the whole in boundary_gather_s. kept_bytes: activations kept;
    working_bytes: of the layer being recomputed; logits_bytes: of the last stage, in bf16 and fp32, 6 u V / t.
    """

    seconds: dict[str, np.ndarray]
    links: dict[str, np.ndarray]
    forward_s: np.ndarray
    backward_s: np.ndarray
    logits_s: np.ndarray
    logits_link_s: np.ndarray
    boundary_bytes: np.ndarray
    boundary_gather_s: np.ndarray
    kept_bytes: np.ndarray
    working_bytes: np.ndarray
    logits_bytes: np.ndarray


def product_time(
    machine: Machine, m: Any, n: Any, k: Any, batch: Any = 1, fp8: bool = False, weights: bool = True
) -> np.ndarray:
    """Time of `batch` matrix products of m x k by k x n: 2 W P A k / R + bytes / B_HBM + kernel start.

    W whole waves, batch x tiles over the P processors, rounded up; A elements in a tile of TILE, laid whichever way
    covers the result with fewer elements (the first of equals); a side shorter than the tile's takes the next multiple
    of STEP. R the machine's rate. Operands and result pass HBM once.

    Parameters
    ----------
    machine
        Rates of the GPU.
    m, n, k, batch
        Sizes and number of the products; they broadcast.
    fp8
        Operands have one byte, and each element cast from bf16 moves 2 bytes more.
    weights
        Whether the k x n operand is weights, whose cast serves all micro-batches; else it is cast too.

    Returns
    -------
    Seconds.
    """
    tiles, area = _tiles(m, n)
    waves = np.ceil(tiles * batch / machine.processors)
    rate = machine.linear_flops if fp8 else machine.bf16_flops
    size = 1 if fp8 else ELEMENT
    # A cast reads 2 bytes and writes 1 each way round; two products use it, so that half falls to each.
    cast = ELEMENT * (m * k + (0 if weights else k * n)) if fp8 else 0
    moved = batch * ((m * k + k * n) * size + m * n * ELEMENT + cast)
    return waves * machine.processors * area * 2 * k / rate + moved / machine.hbm_Bps + machine.kernel_s


def _tiles(m: Any, n: Any) -> tuple[np.ndarray, np.ndarray]:
    """Tiles of an m x n result and elements of a tile, laid whichever way needs less."""
    found = []
    for rows, columns in (TILE, TILE[::-1]):
        a = np.minimum(rows, np.ceil(np.asarray(m) / STEP) * STEP)
        b = np.minimum(columns, np.ceil(np.asarray(n) / STEP) * STEP)
        found.append((np.ceil(m / a) * np.ceil(n / b), a * b))
    (count, area), (turned, turned_area) = found
    less = turned * turned_area < count * area
    return np.where(less, turned, count), np.where(less, turned_area, area)


def layer_costs(model: Transformer, machine: Machine, runtime: Runtime, key: Mapping[str, np.ndarray]) -> LayerCosts:
    """Times and bytes of a layer; in a model with mixture layers, of the average layer.

    Recompute: "selective" repeats the forward attention where it is not fused, "full" the whole forward pass.

    Parameters
    ----------
    model, machine, runtime
        What is trained, on which GPU, with which software.
    key
        Arrays of one shape by the names in KEY, recompute as index in RECOMPUTE.

    Returns
    -------
    Costs, arrays of the same shape.
    """
    b, t, c, e = (key[name].astype(float) for name in KEY[:4])
    u = model.sequence_length * b / c
    forward, inputs, weights = _products(model, machine, u, t, e)
    attention = _attention(model, machine, runtime, b, t, c)
    gather = machine.all_gather_time(ELEMENT * u * model.hidden, t)  # of a layer's input among its tensor ranks
    work = {
        "linear": PassTimes(forward, inputs + weights),
        "attention": attention,
        "elementwise": _elementwise(model, machine, runtime, key, u, t),
        "tensor": _tensor_traffic(model, runtime, key, gather, weights),
        "context": _context_traffic(model, machine, key, attention),
        "expert": _expert_traffic(model, machine, key, u),
    }
    full, selective = key["recompute"] == 2, (key["recompute"] == 1) & (not runtime.fused_attention)
    forward_s, backward_s = sum(kind.forward for kind in work.values()), sum(kind.backward for kind in work.values())
    again = np.select([full, selective], [forward_s, attention.forward], 0.0)
    fused = {"fused_attention": runtime.fused_attention, "dropout": runtime.dropout}
    kept, whole = (
        np.asarray(sum(model.layer_activation_bytes(b, t, c, key["sequence_parallel"], level, **fused).values()))
        for level in (key["recompute"], 0)
    )
    return LayerCosts(
        seconds={name: kind.forward + kind.backward for name, kind in work.items()} | {"recompute": again},
        links={name: work[name].link_forward * (1 + full) + work[name].link_backward for name in STAGE[-3:]},
        forward_s=forward_s,
        backward_s=backward_s + again,
        logits_s=_logits(model, machine, u, t) + 2 * gather,
        logits_link_s=2 * gather,
        boundary_bytes=ELEMENT * u * model.hidden / t,
        boundary_gather_s=np.where(key["sequence_parallel"], 0.0, gather),
        kept_bytes=kept,
        working_bytes=whole * full,
        logits_bytes=(ELEMENT + 4) * u * model.vocabulary / t,
    )


def _products(model: Transformer, machine: Machine, u, t, e) -> list[Any]:
    """Products of a layer: forward, of the inputs' gradients, of the weights' gradients.

    Rows x columns, inner side: queries, keys and values u x (a + 2 k) d / t, h (a rank has a head of keys and values at
    least); projection u x h, a d / t; feed-forward u x (m - 1) f / t, h and u x h, f / t; of an expert u q e / E
    tokens, E / e of them in one, q = top_k imbalance.
    """
    mixed = model.mixture_layers / model.layers
    d, wide = model.head_dim, model.ffn_hidden / t
    columns = d * (model.heads / t + 2 * np.maximum(model.kv_heads / t, 1))
    each = u * model.top_k * model.imbalance * e / max(model.experts, 1)  # tokens of an expert
    ffn = ((model.ffn_matrices - 1) * wide, model.hidden), (model.hidden, wide)
    rows = [(1.0, u, columns, model.hidden, 1), (1.0, u, model.hidden, model.heads * d / t, 1)]
    rows += [(1 - mixed, u, n, k, 1) for n, k in ffn if mixed < 1]
    rows += [(mixed, each, n, k, model.experts / e) for n, k in ffn if mixed]
    fp8 = machine.precision == "fp8"
    passes = [[share * time for time in _passes(machine, m, n, k, batch, fp8)] for share, m, n, k, batch in rows]
    return [sum(times) for times in zip(*passes, strict=True)]


def _passes(machine: Machine, m, n, k, batch=1, fp8=False) -> tuple[np.ndarray, ...]:
    """Times of a product forward, of its input's gradient, and of its weights' gradient."""
    forward, inputs = (product_time(machine, m, a, b, batch, fp8) for a, b in ((n, k), (k, n)))
    return forward, inputs, product_time(machine, k, n, m, batch, fp8, False)


def _attention(model: Transformer, machine: Machine, runtime: Runtime, b, t, c) -> PassTimes:
    """Scores and their use of the values; a context rank has s / c queries and all keys.

    Unfused: b a / t products s / c x s, d and s / c x d, s, and a softmax of 4 and 6 bytes a score, dropout 5 and 5
    more. Fused: 2 s^2 d / c FLOPs a head at attention_fraction of bf16_rate, and 2.5 times that backward.
    """
    heads, s, d = b * model.heads / t, float(model.sequence_length), model.head_dim
    if runtime.fused_attention:
        rate = machine.bf16_rate * machine.attention_fraction
        forward = 4 * heads * s * s / c * d / 2 / rate + machine.kernel_s
        return PassTimes(forward, 2.5 * forward)
    rows = s / c
    passes = [_passes(machine, rows, s, d, heads), _passes(machine, rows, d, s, heads)]
    forward, inputs, weights = (sum(times) for times in zip(*passes, strict=True))
    score_bytes = (9, 11) if runtime.dropout else (4, 6)
    softmax = [size * heads * rows * s / machine.hbm_Bps + machine.kernel_s for size in score_bytes]
    return PassTimes(forward + softmax[0], inputs + weights + softmax[1])


def _elementwise(model: Transformer, machine: Machine, runtime: Runtime, key, u, t) -> PassTimes:
    """Kernels that move their operands through HBM once: rows of bytes of a token forward, backward, kernels started.

    Norms and residuals are over t where sequence_parallel, and half as many in a parallel block.
    """
    norms = 1 if model.parallel_block else 2
    mixed, copies = model.mixture_layers / model.layers, model.top_k * model.imbalance
    narrow = norms * model.hidden * np.where(key["sequence_parallel"], 1 / t, 1.0)
    wide = model.ffn_hidden / t * (1 + (copies - 1) * mixed)
    ordered = 8 * model.hidden * copies * mixed / t
    turned = 0 if model.positions else 4 * model.head_dim * (model.heads + model.kv_heads) / t
    m, dropout = model.ffn_matrices, runtime.dropout
    rows = [
        (4 * narrow, 8 * narrow, 2 * norms),  # norms
        ((7 if dropout else 6) * narrow, (5 if dropout else 0) * narrow, 0),  # residual and dropout
        (2 * m * wide, (4 * m - 2) * wide, 1),  # activation
        (ordered, ordered, 0),  # tokens in the order of their experts, and back
        (turned, turned, 0 if model.positions else 1),  # rotary positions
    ]
    *moved, kernels = (sum(column) for column in zip(*rows, strict=True))
    return PassTimes(*(u * size / machine.hbm_Bps + kernels * machine.kernel_s for size in moved))


def _tensor_traffic(model: Transformer, runtime: Runtime, key, gather, weights) -> PassTimes:
    """Of tensor ranks, hidden behind the products of the weights' gradients as far as these reach.

    Each of two operators (one in a parallel block; a mixture's counts top_k imbalance times) has an AllReduce, or an
    AllGather and a ReduceScatter, each way; sequence parallelism gathers the input once more for the weights' gradient.
    overlap_tensor hides two gathers' time of the backward pass: without sequence parallelism all, with it all but one.
    """
    mixed = model.mixture_layers / model.layers
    operators = 1 if model.parallel_block else 2 + mixed * (model.top_k * model.imbalance - 1)
    forward = 2 * operators * gather
    backward = np.where(key["sequence_parallel"], 1.5, 1) * forward
    hidden = np.minimum(forward * runtime.overlap_tensor, weights)
    return PassTimes(forward, backward - hidden, forward, backward)


def _context_traffic(model: Transformer, machine: Machine, key, attention: PassTimes) -> PassTimes:
    """Of context ranks, which gather keys and values behind the scores, twice in the backward pass."""
    heads = model.head_dim * np.maximum(model.kv_heads / key["tensor"], 1)
    size = ELEMENT * 2 * model.sequence_length * key["micro_batch"] * heads
    ring = machine.all_gather_time(size, key["context"], key["tensor"])
    exposed = np.maximum(ring - attention.forward, 0.0), np.maximum(2 * ring - attention.backward, 0.0)
    return PassTimes(*exposed, ring, 2 * ring)


def _expert_traffic(model: Transformer, machine: Machine, key, u) -> PassTimes:
    """Tokens on their way to their experts and back, in each pass; nothing is hidden."""
    sent = ELEMENT * u * model.hidden * model.top_k * model.imbalance / key["tensor"]
    mixed = model.mixture_layers / model.layers
    exchange = 2 * mixed * machine.all_to_all_time(sent, key["expert"], key["tensor"])
    return PassTimes(exchange, exchange, exchange, exchange)


def _logits(model: Transformer, machine: Machine, u, t) -> Any:
    """Compute of logits and loss."""
    products = sum(_passes(machine, u, model.vocabulary / t, model.hidden))
    return products + LOSS_BYTES * u * model.vocabulary / t / machine.hbm_Bps


@dataclass(frozen=True)
class Estimate:
    """Times [s] and bytes of each strategy, arrays of one shape.

    breakdown: what is on the critical path, by TIME_PARTS; it adds up to `total_s`. links: how long a rank's links are
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


@dataclass(frozen=True)
class StageCosts:
    """What the places of ranks decide for a pipeline stage, arrays of one shape.

    layers: of a stage, rounded up to whole chunks. hop_Bps, hop_latency_s: of the link to the next stage.
    after_s, before_s: link time of gradients and weights after and before an iteration's passes; in_forward_s,
    in_backward_s: in each pass of a micro-batch. weights_bytes, gradients_bytes, optimizer_bytes: states on the GPU.
    optimizer_s: the optimizer's step on the GPU; offload_s: in the host's memory, with the way there and back.
    """

    layers: np.ndarray
    hop_Bps: np.ndarray
    hop_latency_s: np.ndarray
    after_s: np.ndarray
    before_s: np.ndarray
    in_forward_s: np.ndarray
    in_backward_s: np.ndarray
    weights_bytes: np.ndarray
    gradients_bytes: np.ndarray
    optimizer_bytes: np.ndarray
    optimizer_s: np.ndarray
    offload_s: np.ndarray


def iteration_times(
    model: Transformer,
    machine: Machine,
    strategies: Mapping[str, Any],
    runtime: Runtime = MODERN,
    offload: str = "none",
) -> Estimate:
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
        What is trained, on which GPU, with which software.
    strategies
        Whole numbers that broadcast by the names in STRATEGY, recompute and sharding as indices in RECOMPUTE and
        SHARDING.
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
    parts = list(estimates(model, machine, strategies, runtime, offload))
    shape = np.broadcast_shapes(*(np.shape(strategies[name]) for name in STRATEGY))

    def joined(arrays: list[Any]) -> Any:
        if isinstance(arrays[0], dict):
            return {name: joined([array[name] for array in arrays]) for name in arrays[0]}
        return np.concatenate(arrays).reshape(shape)

    return Estimate(**{name: joined([getattr(part, name) for part in parts]) for name in vars(parts[0])})


def estimates(
    model: Transformer,
    machine: Machine,
    strategies: Mapping[str, Any],
    runtime: Runtime = MODERN,
    offload: str = "none",
) -> Iterator[Estimate]:
    """`iteration_times` in blocks.

    Parameters
    ----------
    model, machine, strategies, runtime, offload
        As for `iteration_times`.

    Returns
    -------
    Estimates of ROWS_TOGETHER rows each, in order; at least one.
    """
    checks.one_of("offload", offload, OFFLOAD)
    columns = _columns(strategies)
    (keys, layer_of), (places, stage_of) = (_unique_rows(columns, names) for names in (KEY, STAGE_KEY))
    layers, stages = layer_costs(model, machine, runtime, keys), _stage_costs(model, machine, offload, places)
    wrong_layer = _first_reason(indivisible(model, keys), "heads", "sequence")
    wrong_stage = _first_reason(indivisible(model, places), "layers", "experts")
    for start in range(0, max(layer_of.size, 1), ROWS_TOGETHER):
        rows = slice(start, start + ROWS_TOGETHER)
        batch = {name: columns[name][rows] for name in BATCH_KEY}
        wrong = np.minimum(wrong_layer[layer_of[rows]], wrong_stage[stage_of[rows]])
        layer, stage = _selected(layers, layer_of[rows]), _selected(stages, stage_of[rows])
        yield _estimate(model, machine, runtime, batch, layer, stage, wrong)


def _columns(strategies: Mapping[str, Any]) -> dict[str, np.ndarray]:
    if missing := [name for name in STRATEGY if name not in strategies]:
        raise ValueError(f"strategies lack {', '.join(missing)}: give an array for each of {', '.join(STRATEGY)}")
    arrays = [checks.whole(name, strategies[name], *RANGES.get(name, (1, 2**31))) for name in STRATEGY]
    return dict(zip(STRATEGY, (array.ravel() for array in np.broadcast_arrays(*arrays)), strict=True))


def _unique_rows(columns: dict[str, np.ndarray], names: tuple[str, ...]) -> tuple[dict[str, np.ndarray], np.ndarray]:
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


def _stage_costs(model: Transformer, machine: Machine, offload: str, place: dict[str, np.ndarray]) -> StageCosts:
    t, c, e, p, d, v, sharding = (place[name] for name in STAGE_KEY)
    layers = np.ceil(model.layers / (p * v)) * v
    states = model.state_bytes(t, p, d * c, sharding, e, v)
    updated = states["optimizer"] / OPTIMIZER_BYTES  # parameters that a rank's optimizer updates
    hop_Bps, hop_latency_s = machine.neighbour_link(p, t * c * d)
    after, before, in_forward, in_backward = _data_links(model, machine, place, layers)
    host_s = (GRADIENT_BYTES + WEIGHT_BYTES) / machine.host_Bps + UPDATE_BYTES / machine.host_memory_Bps
    away = offload == "optimizer"
    return StageCosts(
        layers=layers,
        hop_Bps=hop_Bps,
        hop_latency_s=hop_latency_s,
        after_s=after,
        before_s=before,
        in_forward_s=in_forward,
        in_backward_s=in_backward,
        weights_bytes=states["weights"],
        gradients_bytes=states["gradients"],
        optimizer_bytes=states["optimizer"] * (not away),
        optimizer_s=UPDATE_BYTES / machine.hbm_Bps * updated * (not away),
        offload_s=host_s * updated * away,
    )


def _data_links(model: Transformer, machine: Machine, place: dict[str, np.ndarray], layers) -> tuple[np.ndarray, ...]:
    """Link times of gradients and weights: after and before an iteration's passes, in each forward and backward pass.

    Plain: an AllReduce of the gradients after the last backward pass. "optimizer": a ReduceScatter then, and an
    AllGather of the weights before the first forward pass. "gradients": the ReduceScatter in every backward pass.
    "weights": besides, an AllGather in every forward and every backward pass. Shared parameters travel among the
    context and data ranks, experts among those that hold the same ones, a layer at a time.
    """
    t, c, e, p, d, _, sharding = (place[name] for name in STAGE_KEY)
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
    model: Transformer, machine: Machine, runtime: Runtime, batch, layer: LayerCosts, stage: StageCosts, wrong
) -> Estimate:
    b, p, d, v, G = (batch[name].astype(float) for name in BATCH_KEY)
    m, fill, chunked = np.ceil(G / (d * b)), (p - 1) / v, v > 1
    window = (stage.layers - 1) * runtime.overlap_data
    forward, backward = window * layer.forward_s, window * layer.backward_s
    each = _exposed(stage.in_forward_s, forward, stage.layers) + _exposed(stage.in_backward_s, backward, stage.layers)
    stage_s = stage.layers * (layer.forward_s + layer.backward_s) + each
    hop = stage.hop_latency_s + layer.boundary_bytes / stage.hop_Bps + layer.boundary_gather_s
    hops = 2 * v * (p > 1) * hop  # of a micro-batch
    hidden = np.minimum(hops, stage_s) * (chunked & runtime.overlap_pipeline)
    all_layers = m * stage.layers
    breakdown = {f"{name}_s": all_layers * layer.seconds[name] for name in STAGE} | {
        "logits_s": m * layer.logits_s,
        "pipeline_s": m * (hops - hidden),
        "bubble_s": fill * (stage_s + hops),
        "data_s": m * each
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
    memory = {
        "weights_bytes": stage.weights_bytes,
        "gradients_bytes": stage.gradients_bytes,
        "optimizer_bytes": stage.optimizer_bytes,
        "activations_bytes": np.maximum(first, last) + layer.working_bytes,
        "reserved_bytes": np.full_like(m, machine.reserved_bytes),
    }
    total, used = np.asarray(sum(breakdown.values())), np.asarray(sum(memory.values()))
    rest = indivisible(model, batch) | {"network": ~np.isfinite(total), "memory": used > machine.memory_bytes}
    reason = np.minimum(wrong, _first_reason(rest, "batch", "interleave", "network", "memory"))
    return Estimate(total, breakdown, links, memory, np.where(reason == len(REASONS), 0, reason).astype(np.int8))


def _exposed(link, window, layers):
    """What a window does not hide of a link time: at least one layer's share, all of it without a window."""
    return np.maximum(link - window, link / layers)
