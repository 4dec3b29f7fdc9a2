"""Time and memory of one transformer layer for one micro-batch on one rank, for many strategies at once.

Compute by kind, communication as link time and exposed time, and activations. Symbols as in
`railcore.training.transformer`, and u = s b / c tokens of a micro-batch on a rank.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from railcore.training.machine import Machine
from railcore.training.transformer import Transformer

LAYER_COLUMNS = ("micro_batch", "tensor", "context", "expert", "sequence_parallel", "recompute")
LAYER_PARTS = ("linear", "attention", "elementwise", "recompute", "tensor", "context", "expert")
_TILE = (256, 128)  # rows and columns of the largest common tile of a matrix product
_TILE_STEP = 64  # a side shorter than the tile's takes the next multiple of this
_ELEMENT_BYTES = 2  # of bf16
_LOSS_BYTES = 32  # of cross entropy in fp32 a logit: cast 6, maximum 4, exponent 8, sum 4, gradient 4, cast back 6


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
_MEGATRON_2022 = Runtime(overlap_pipeline=False, overlap_data=False, fused_attention=False, dropout=True)
RUNTIMES = {
    "megatron2021": replace(_MEGATRON_2022, overlap_tensor=False),
    "megatron2022": _MEGATRON_2022,
    "modern": MODERN,
    "megatron-core2024": MODERN,
    "nemo2024": MODERN,
    "nemo2025": MODERN,
    "megatron-bridge2025": MODERN,
    "fsdp-eager": MODERN,
    "fsdp2-eager": MODERN,
    "fsdp2-compile": MODERN,
    "deepspeed": MODERN,
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

    seconds: on the critical path in both passes, by LAYER_PARTS; of communication the exposed part. links: link time of
    tensor, context and expert ranks, hidden or not. forward_s, backward_s: `seconds` by pass, recompute in backward.
    logits_s, logits_link_s: the last stage's logits and loss, and their link time. boundary_bytes: from a rank to the
    next stage, whose tensor ranks gather the whole in boundary_gather_s. kept_bytes: activations kept; working_bytes:
    of the layer being recomputed; logits_bytes: of the last stage, in bf16 and fp32, 6 u V / t.
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

    W whole waves, batch x tiles over the P processors, rounded up; A elements in a tile of _TILE, laid whichever way
    covers the result with fewer elements (the first of equals); a side shorter than the tile's takes the next multiple
    of _TILE_STEP. R the machine's rate. Operands and result pass HBM once.

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
    size = 1 if fp8 else _ELEMENT_BYTES
    # A cast reads 2 bytes and writes 1 each way round; two products use it, so that half falls to each.
    cast = _ELEMENT_BYTES * (m * k + (0 if weights else k * n)) if fp8 else 0
    moved = batch * ((m * k + k * n) * size + m * n * _ELEMENT_BYTES + cast)
    return waves * machine.processors * area * 2 * k / rate + moved / machine.hbm_Bps + machine.kernel_s


def _tiles(m: Any, n: Any) -> tuple[np.ndarray, np.ndarray]:
    """Tiles of an m x n result and elements of a tile, laid whichever way needs less."""
    (upright, upright_area), (turned, turned_area) = (_tiling(m, n, *sides) for sides in (_TILE, _TILE[::-1]))
    less = turned * turned_area < upright * upright_area
    return np.where(less, turned, upright), np.where(less, turned_area, upright_area)


def _tiling(m: Any, n: Any, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Tiles of at most rows x columns on an m x n result, and elements of one."""
    a = np.minimum(rows, np.ceil(np.asarray(m) / _TILE_STEP) * _TILE_STEP)
    b = np.minimum(columns, np.ceil(np.asarray(n) / _TILE_STEP) * _TILE_STEP)
    return np.ceil(m / a) * np.ceil(n / b), a * b


def layer_costs(
    model: Transformer, machine: Machine, runtime: Runtime, columns: Mapping[str, np.ndarray]
) -> LayerCosts:
    """Times and bytes of a layer; in a model with mixture layers, of the average layer.

    Recompute: "selective" repeats the forward attention where it is not fused, "full" the whole forward pass.

    Parameters
    ----------
    model, machine, runtime
        What is trained, on which GPU, with which software.
    columns
        Arrays of one shape by the names in LAYER_COLUMNS, recompute as index in RECOMPUTE.

    Returns
    -------
    Costs, arrays of the same shape.
    """
    b, t, c = (columns[name].astype(float) for name in ("micro_batch", "tensor", "context"))
    sliced, recompute = columns["sequence_parallel"], columns["recompute"]
    u = model.sequence_length * b / c
    work = layer_passes(model, machine, runtime, columns)
    gather, attention = _input_gather_time(model, machine, u, t), work["attention"]
    forward_s, backward_s = sum(kind.forward for kind in work.values()), sum(kind.backward for kind in work.values())
    full, selective = recompute == 2, (recompute == 1) & (not runtime.fused_attention)
    again = np.select([full, selective], [forward_s, attention.forward], 0.0)
    fused = {"fused_attention": runtime.fused_attention, "dropout": runtime.dropout}
    kept, whole = (
        np.asarray(sum(model.layer_activation_bytes(b, t, c, sliced, level, **fused).values()))
        for level in (recompute, 0)
    )
    links = {name: work[name] for name in ("tensor", "context", "expert")}
    return LayerCosts(
        seconds={name: kind.forward + kind.backward for name, kind in work.items()} | {"recompute": again},
        links={name: kind.link_forward * (1 + full) + kind.link_backward for name, kind in links.items()},
        forward_s=forward_s,
        backward_s=backward_s + again,
        logits_s=_logits_time(model, machine, u, t) + 2 * gather,
        logits_link_s=2 * gather,
        boundary_bytes=_ELEMENT_BYTES * u * model.hidden / t,
        boundary_gather_s=np.where(sliced, 0.0, gather),
        kept_bytes=kept,
        working_bytes=whole * full,
        logits_bytes=(_ELEMENT_BYTES + 4) * u * model.vocabulary / t,
    )


def layer_passes(
    model: Transformer, machine: Machine, runtime: Runtime, columns: Mapping[str, np.ndarray]
) -> dict[str, PassTimes]:
    """Times of a layer's work by kind and pass, without recompute: LAYER_PARTS but that one.

    Parameters
    ----------
    model, machine, runtime, columns
        As for `layer_costs`.

    Returns
    -------
    Seconds, arrays of the columns' shape.
    """
    b, t, c, e = (columns[name].astype(float) for name in ("micro_batch", "tensor", "context", "expert"))
    sliced, u = columns["sequence_parallel"], model.sequence_length * b / c
    forward, inputs, weights = _linear_times(model, machine, u, t, e)
    attention = _attention(model, machine, runtime, b, t, c)
    gather = _input_gather_time(model, machine, u, t)
    return {
        "linear": PassTimes(forward, inputs + weights),
        "attention": attention,
        "elementwise": _elementwise(model, machine, runtime, u, t, sliced),
        "tensor": _tensor_traffic(model, runtime, gather, weights, sliced),
        "context": _context_traffic(model, machine, b, t, c, attention),
        "expert": _expert_traffic(model, machine, u, t, e),
    }


def _input_gather_time(model: Transformer, machine: Machine, u: Any, t: Any) -> Any:
    """AllGather of a layer's input among its tensor ranks."""
    return machine.all_gather_time(_ELEMENT_BYTES * u * model.hidden, t)


def _linear_times(model: Transformer, machine: Machine, u: Any, t: Any, e: Any) -> list[Any]:
    """Times of a layer's products with weights: forward, of the inputs' gradients, of the weights' gradients.

    Rows x columns, inner side: queries, keys and values u x (a + 2 k) d / t, h (a rank has a head of keys and values at
    least); projection u x h, a d / t; feed-forward u x (m - 1) f / t, h and u x h, f / t; of an expert u q e / E
    tokens, E / e of them in one, q = top_k imbalance.
    """
    mixed = model.mixture_share
    d, wide = model.head_dim, model.ffn_hidden / t
    columns = d * (model.heads / t + 2 * model.kv_heads_of_rank(t))
    each = u * model.expert_copies * e / max(model.experts, 1)  # tokens of an expert
    ffn = ((model.ffn_matrices - 1) * wide, model.hidden), (model.hidden, wide)
    rows = [(1.0, u, columns, model.hidden, 1), (1.0, u, model.hidden, model.heads * d / t, 1)]
    rows += [(1 - mixed, u, n, k, 1) for n, k in ffn if mixed < 1]
    rows += [(mixed, each, n, k, model.experts / e) for n, k in ffn if mixed]
    fp8 = machine.precision == "fp8"
    passes = [[share * time for time in _product_passes(machine, m, n, k, q, fp8)] for share, m, n, k, q in rows]
    return [sum(times) for times in zip(*passes, strict=True)]


def _product_passes(machine: Machine, m: Any, n: Any, k: Any, batch: Any = 1, fp8: bool = False) -> tuple[Any, ...]:
    """Times of a product forward, of its input's gradient, and of its weights' gradient."""
    forward, inputs = (product_time(machine, m, a, b, batch, fp8) for a, b in ((n, k), (k, n)))
    return forward, inputs, product_time(machine, k, n, m, batch, fp8, False)


def _attention(model: Transformer, machine: Machine, runtime: Runtime, b: Any, t: Any, c: Any) -> PassTimes:
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
    passes = [_product_passes(machine, rows, s, d, heads), _product_passes(machine, rows, d, s, heads)]
    forward, inputs, weights = (sum(times) for times in zip(*passes, strict=True))
    score_bytes = (9, 11) if runtime.dropout else (4, 6)
    softmax = [size * heads * rows * s / machine.hbm_Bps + machine.kernel_s for size in score_bytes]
    return PassTimes(forward + softmax[0], inputs + weights + softmax[1])


def _elementwise(model: Transformer, machine: Machine, runtime: Runtime, u: Any, t: Any, sliced: Any) -> PassTimes:
    """Kernels that move their operands through HBM once.

    A row is bytes of a token forward and backward, and kernels started. Norms and residuals are over t where
    sequence_parallel, and half as many in a parallel block.
    """
    norms, mixed = 1 if model.parallel_block else 2, model.mixture_share
    narrow = norms * model.hidden * np.where(sliced, 1 / t, 1.0)
    wide = model.ffn_hidden / t * (1 + (model.expert_copies - 1) * mixed)
    ordered = 8 * model.hidden * model.expert_copies * mixed / t
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


def _tensor_traffic(model: Transformer, runtime: Runtime, gather: Any, weights: Any, sliced: Any) -> PassTimes:
    """Of tensor ranks, hidden behind the products of the weights' gradients as far as these reach.

    Each of two operators (one in a parallel block; a mixture's counts top_k imbalance times) has an AllReduce, or an
    AllGather and a ReduceScatter, each way; sequence parallelism gathers the input once more for the weights' gradient.
    overlap_tensor hides two gathers' time of the backward pass: without sequence parallelism all, with it all but one.
    """
    operators = 1 if model.parallel_block else 2 + model.mixture_share * (model.expert_copies - 1)
    forward = 2 * operators * gather
    backward = np.where(sliced, 1.5, 1) * forward
    hidden = np.minimum(forward * runtime.overlap_tensor, weights)
    return PassTimes(forward, backward - hidden, forward, backward)


def _context_traffic(model: Transformer, machine: Machine, b: Any, t: Any, c: Any, attention: PassTimes) -> PassTimes:
    """Of context ranks, which gather keys and values behind the scores, twice in the backward pass."""
    size = _ELEMENT_BYTES * 2 * model.sequence_length * b * model.head_dim * model.kv_heads_of_rank(t)
    ring = machine.all_gather_time(size, c, t)
    exposed = np.maximum(ring - attention.forward, 0.0), np.maximum(2 * ring - attention.backward, 0.0)
    return PassTimes(*exposed, ring, 2 * ring)


def _expert_traffic(model: Transformer, machine: Machine, u: Any, t: Any, e: Any) -> PassTimes:
    """Tokens on their way to their experts and back, in each pass; nothing is hidden."""
    sent = _ELEMENT_BYTES * u * model.hidden * model.expert_copies / t
    exchange = 2 * model.mixture_share * machine.all_to_all_time(sent, e, t)
    return PassTimes(exchange, exchange, exchange, exchange)


def _logits_time(model: Transformer, machine: Machine, u: Any, t: Any) -> Any:
    """Compute of logits and loss."""
    products = sum(_product_passes(machine, u, model.vocabulary / t, model.hidden))
    return products + _LOSS_BYTES * u * model.vocabulary / t / machine.hbm_Bps
