"""What one layer costs for one micro-batch on one rank: compute by kind, communication as link time and exposed time.

Symbols as in `railcore.training.transformer`, and u = s b / c tokens of a micro-batch on a rank.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from railcore.training.iteration.machine import Machine
from railcore.training.transformer import Transformer

KEY = ("micro_batch", "tensor", "context", "expert", "sequence_parallel", "recompute")
TILE = (256, 128)  # rows and columns of the largest common tile of a matrix product
STEP = 64  # a side shorter than the tile's takes the next multiple of this
ELEMENT = 2  # bytes of bf16
LOSS_BYTES = 32  # of cross entropy in fp32 a logit: cast 6, maximum 4, exponent 8, sum 4, gradient 4, cast back 6


@dataclass(frozen=True)
class Runtime:
    """What the training software overlaps and fuses.

    overlap_tensor: the backward pass hides what it sends between tensor ranks behind the products of the weights'
    gradients. overlap_pipeline: with interleaved chunks, what goes to the next stage travels behind others.
    overlap_data: gradients and sharded weights travel behind backward and forward passes. fused_attention: scores are
    never stored, so that selective recompute changes nothing, and what the causal mask hides is not computed.
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


@dataclass(frozen=True)
class Layer:
    """Seconds and bytes of a layer for one micro-batch on one rank, forward and backward together, arrays of one shape.

    linear, attention, elementwise: compute. tensor, context, expert: exposed communication; *_link: all of it.
    recompute: what the backward pass does again. stage: sum of these; forward, backward: by pass. logits: the last
    stage's logits and loss, with their link time in logits_link. boundary_bytes: of a rank to the next stage, whose
    tensor ranks gather the whole in boundary_gather. kept_bytes: activations kept; working_bytes: of the layer being
    recomputed; logits_bytes: of the last stage, in bf16 and fp32, 6 u V / t.
    """

    linear: np.ndarray
    attention: np.ndarray
    elementwise: np.ndarray
    tensor: np.ndarray
    context: np.ndarray
    expert: np.ndarray
    recompute: np.ndarray
    stage: np.ndarray
    forward: np.ndarray
    backward: np.ndarray
    tensor_link: np.ndarray
    context_link: np.ndarray
    expert_link: np.ndarray
    logits: np.ndarray
    logits_link: np.ndarray
    boundary_bytes: np.ndarray
    boundary_gather: np.ndarray
    kept_bytes: np.ndarray
    working_bytes: np.ndarray
    logits_bytes: np.ndarray


def product_time(
    machine: Machine, m: Any, n: Any, k: Any, batch: Any = 1, fp8: bool = False, weights: bool = True
) -> np.ndarray:
    """Time of `batch` matrix products of m x k by k x n [s].

    2 W P A k / R + bytes / B_HBM + kernel start. A elements in a tile of TILE, laid whichever way covers the result
    with fewer elements (the first of equals); a side shorter than the tile's takes the next multiple of STEP. W whole
    waves, batch x tiles over the P processors, rounded up; R the machine's rate. Operands and result pass HBM once.
    fp8: operands of one byte, and 2 bytes more for each element cast from bf16; the k x n operand is cast too unless
    it is `weights`, whose cast serves all micro-batches.
    """
    tiles, area = _tiles(m, n)
    waves = np.ceil(tiles * batch / machine.processors)
    rate = machine.linear_flops if fp8 else machine.half_flops
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


def layer_times(model: Transformer, machine: Machine, runtime: Runtime, key: dict[str, np.ndarray]) -> Layer:
    """A layer's times for every row of `key`, arrays named as in KEY; a mixture's layers count on average.

    Products (rows x columns, inner side), each with its input's and its weights' gradient: queries, keys and values
    u x (a + 2 k) d / t, h (a rank has a head of keys and values at least); projection u x h, a d / t; feed-forward
    u x (m - 1) f / t, h and u x h, f / t; of an expert u q e / E tokens, E / e of them in one, q = top_k imbalance.
    Scores unfused: b a / t products s / c x s, d and s / c x d, s; fused: 2 s^2 d / c FLOPs a head at
    attention_fraction of half_rate, and 2.5 times that backward.
    Elementwise kernels move their operands through HBM once: norms 4 u h and 8 u h bytes forward and backward, residual
    and dropout 7 u h and 5 u h (6 and 0 without dropout), each over t where sequence_parallel and half as many in a
    parallel block; activation 2 m u f / t and (4 m - 2) u f / t; rotary, without learned positions, 4 u (a + k) d / t
    each way; tokens put in their experts' order and back 8 u h q / t each way; unfused softmax 4 and 6 bytes a score,
    dropout 5 and 5 more. Kernels started each way: two for a norm, one for the activation, one for rotary.
    Recompute: "selective" the forward attention where it is not fused, "full" the whole forward pass.
    """
    b, t, c, e = (key[name].astype(float) for name in KEY[:4])
    u = model.sequence_length * b / c
    products = _products(model, machine, u, t, e)
    linear = products[0], products[1] + products[2]
    attention = _attention(model, machine, runtime, b, t, c)
    elementwise = _elementwise(model, machine, runtime, key, u, t)
    sent = _communication(model, machine, runtime, key, u, products[2], attention)
    passes = [sum(kind[i] for kind in (linear, attention, elementwise, *sent)) for i in (0, 1)]
    selective = 0.0 if runtime.fused_attention else attention[0]
    again = np.where(key["recompute"] == 2, passes[0], np.where(key["recompute"] == 1, selective, 0.0))
    tensor, context, expert = sent
    logits, logits_link = _logits(model, machine, u, t)
    options = {"fused_attention": runtime.fused_attention, "dropout": runtime.dropout}
    kept, whole = (
        sum(model.layer_activation_bytes(b, t, c, key["sequence_parallel"], level, **options).values())
        for level in (key["recompute"], 0)
    )
    full = key["recompute"] == 2
    found = {
        "linear": linear[0] + linear[1],
        "attention": attention[0] + attention[1],
        "elementwise": elementwise[0] + elementwise[1],
        "tensor": tensor[0] + tensor[1],
        "context": context[0] + context[1],
        "expert": expert[0] + expert[1],
        "recompute": again,
        "stage": passes[0] + passes[1] + again,
        "forward": passes[0],
        "backward": passes[1] + again,
        "tensor_link": tensor[2] + full * tensor[0],
        "context_link": context[2] + full * context[3],
        "expert_link": expert[0] + expert[1] + full * expert[0],
        "logits": logits,
        "logits_link": logits_link,
        "boundary_bytes": ELEMENT * u * model.hidden / t,
        "boundary_gather": np.where(
            key["sequence_parallel"], 0.0, machine.link_time(ELEMENT * u * model.hidden, key["tensor"])
        ),
        "kept_bytes": kept,
        "working_bytes": whole * full,
        "logits_bytes": (ELEMENT + 4) * u * model.vocabulary / t,
    }
    return Layer(**dict(zip(found, np.broadcast_arrays(*found.values()), strict=True)))


def _products(model, machine, u, t, e):
    """Products of a layer: forward, of the inputs' gradients, of the weights' gradients; layers averaged."""
    mixed = model.mixture_layers / model.layers
    d, wide = model.head_dim, model.ffn_hidden / t
    columns = d * (model.heads / t + 2 * np.maximum(model.kv_heads / t, 1))
    each = u * model.top_k * model.imbalance * e / max(model.experts, 1)  # tokens of an expert
    ffn = ((model.ffn_matrices - 1) * wide, model.hidden), (model.hidden, wide)
    shapes = [(1.0, u, columns, model.hidden, 1), (1.0, u, model.hidden, model.heads * d / t, 1)]
    shapes += [(1 - mixed, u, n, k, 1) for n, k in ffn if mixed < 1]
    shapes += [(mixed, each, n, k, model.experts / e) for n, k in ffn if mixed]
    fp8 = machine.precision == "fp8"
    passes = [[w * time for time in _passes(machine, m, n, k, batch, fp8)] for w, m, n, k, batch in shapes]
    return [sum(times) for times in zip(*passes, strict=True)]


def _passes(machine, m, n, k, batch=1, fp8=False):
    """Times of a product forward, of its input's gradient, and of its weights' gradient."""
    forward, inputs = (product_time(machine, m, a, b, batch, fp8) for a, b in ((n, k), (k, n)))
    return forward, inputs, product_time(machine, k, n, m, batch, fp8, False)


def _attention(model, machine, runtime, b, t, c):
    """Scores and their use of the values, forward and backward; a context rank has s / c queries and all keys."""
    heads, s, d = b * model.heads / t, float(model.sequence_length), model.head_dim
    if runtime.fused_attention:
        rate = machine.half_rate * machine.attention_fraction
        forward = 4 * heads * s * s / c * d / 2 / rate + machine.kernel_s
        return forward, 2.5 * forward
    rows = s / c
    passes = [_passes(machine, rows, s, d, heads), _passes(machine, rows, d, s, heads)]
    forward, *gradients = [sum(times) for times in zip(*passes, strict=True)]
    backward = sum(gradients)
    scores = heads * rows * s / machine.hbm_Bps
    masks = (5, 5) if runtime.dropout else (0, 0)
    return forward + (4 + masks[0]) * scores + machine.kernel_s, backward + (6 + masks[1]) * scores + machine.kernel_s


def _elementwise(model, machine, runtime, key, u, t):
    norms = 1 if model.parallel_block else 2
    mixed = model.mixture_layers / model.layers
    narrow = model.hidden * np.where(key["sequence_parallel"], 1 / t, 1.0) * norms
    wide = model.ffn_hidden / t * (1 + (model.top_k * model.imbalance - 1) * mixed)
    copied = 8 * model.hidden * model.top_k * model.imbalance * mixed / t
    if not model.positions:
        copied = copied + 4 * model.head_dim * (model.heads + model.kv_heads) / t
    residual = (7, 5) if runtime.dropout else (6, 0)
    m = model.ffn_matrices
    start = machine.kernel_s * (2 * norms + (1 if model.positions else 2))
    forward = u * (narrow * (4 + residual[0]) + 2 * m * wide + copied) / machine.hbm_Bps + start
    backward = u * (narrow * (8 + residual[1]) + (4 * m - 2) * wide + copied) / machine.hbm_Bps + start
    return forward, backward


def _communication(model, machine, runtime, key, u, weight, attention):
    """Of tensor, context and expert ranks: exposed forward, exposed backward, link time of both.

    Each of two operators (one in a parallel block; a mixture's counts top_k imbalance times) has an AllReduce, or an
    AllGather and a ReduceScatter, each way; sequence parallelism gathers the input once more for the weights' gradient.
    overlap_tensor hides two gathers' time of the backward pass behind the weights' gradients, as far as these reach:
    without sequence parallelism all, with it all but one gather. Context ranks gather keys and values behind the
    scores, twice in the backward pass. Tokens go to their experts and back, each way.
    """
    t, c, e = (key[name] for name in ("tensor", "context", "expert"))
    mixed = model.mixture_layers / model.layers
    blocks = 1 if model.parallel_block else 2 + mixed * (model.top_k * model.imbalance - 1)
    gather = blocks * machine.link_time(ELEMENT * u * model.hidden, t)
    hidden = np.minimum(2 * gather * runtime.overlap_tensor, weight)
    behind = np.where(key["sequence_parallel"], 3, 2) * gather
    heads = model.head_dim * np.maximum(model.kv_heads / t, 1)
    ring = machine.link_time(ELEMENT * 2 * model.sequence_length * key["micro_batch"] * heads, c, t)
    context = [np.maximum(n * ring - core, 0.0) for n, core in zip((1, 2), attention, strict=True)]
    sent = ELEMENT * u * model.hidden * model.top_k * model.imbalance / t
    exchange = 2 * mixed * machine.exchange_time(sent, e, t)
    return (
        (2 * gather, behind - hidden, 2 * gather + behind),
        (*context, 3 * ring, ring),
        (exchange, exchange, 2 * exchange),
    )


def _logits(model, machine, u, t):
    compute = sum(_passes(machine, u, model.vocabulary / t, model.hidden))
    loss = LOSS_BYTES * u * model.vocabulary / t / machine.hbm_Bps
    link = machine.link_time(ELEMENT * u * model.hidden, t)
    return compute + loss + 2 * link, 2 * link
