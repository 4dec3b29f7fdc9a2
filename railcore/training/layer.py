"""Time and bytes of one transformer layer, for one micro-batch on one rank.

Step by step: matrix products, attention, all other kernels, traffic (`layer_traffic`), the host, and what is kept and
made again (`recompute`). Symbols as in `rank`. In a model with mixture layers it is the average layer of a stage.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from railcore.training.expert_dispatch import host_bound_time, host_operators
from railcore.training.layer_traffic import LayerTraffic, context_traffic, expert_traffic, tensor_traffic
from railcore.training.link_times import NO_LINK, LinkTimes
from railcore.training.machine import Machine
from railcore.training.products import ELEMENT_BYTES, product_passes
from railcore.training.rank import LayerShare, Passes, Rank
from railcore.training.recompute import ForwardWork, kept_bytes, recomputed_modules, working_bytes
from railcore.training.runtime import Runtime
from railcore.training.transformer import RECOMPUTE, Transformer

OWN_KERNELS = (5, 9)  # four products and the attention forward, twice the products and the attention backward
LOSS_BYTES = 32  # of cross entropy in fp32 a logit: cast 6, maximum 4, exponent 8, sum 4, gradient 4, cast back 6


@dataclass(frozen=True)
class LayerTime:
    """Seconds and bytes of a layer for one micro-batch on one rank.

    seconds: of both passes together, by kind; of communication what is not hidden [s].
    links: link time of tensor, context and expert ranks in both passes, hidden or not [s].
    forward_s, backward_s: of all kinds, by pass; what is computed again is in backward [s].
    forward_busy, backward_busy: link time of all traffic, by pass [s].
    weights_s: what a backward pass that leaves out the weights' gradients is shorter, where a pipeline runs from both
        ends; else 0 [s].
    logits_s: of the last stage's logits and loss, and of layers that predict further tokens with theirs [s].
    logits_link: link time in them [s].
    boundary_bytes: from a rank to the next stage.
    boundary_gather: what the next stage's tensor ranks then gather [s].
    kept_bytes: activations kept for the backward pass.
    working_bytes: activations of the layer that is computed again.
    logits_bytes: of the last stage.
    """

    seconds: dict[str, float]
    links: dict[str, LinkTimes]
    forward_s: float
    backward_s: float
    forward_busy: LinkTimes
    backward_busy: LinkTimes
    weights_s: float
    logits_s: float
    logits_link: LinkTimes
    boundary_bytes: float
    boundary_gather: LinkTimes
    kept_bytes: float
    working_bytes: float
    logits_bytes: float

    @property
    def compute_s(self) -> float:
        """Compute of both passes, recompute included [s]."""
        return sum(self.seconds[kind] for kind in ("linear", "attention", "elementwise", "recompute"))


def layer_time(rank: Rank) -> LayerTime:
    """Time and bytes of a layer: compute, traffic that compute does not hide, what the host adds, what is done again.

    rank: with model, machine, runtime, strategy, and its stage.
    """
    model, strategy, t = rank.model, rank.strategy, rank.strategy.tensor
    of_rank, level = (model, rank.machine, rank.runtime, rank.share), RECOMPUTE.index(strategy.recompute)
    products = linear_times(rank)
    work, traffic = _passes(rank, *products)
    forward, backward = _both(work)
    weights_s = 0.0
    if rank.runtime.dual(strategy.pipeline, strategy.interleave):
        without, _ = _passes(rank, *products[:2], 0.0)
        weights_s = backward - _both(without).backward

    # Full recompute repeats the forward pass, with its traffic; selective some modules.
    tensor, expert = traffic["tensor"], traffic["expert"]
    again, repeated = 0.0, dict.fromkeys(traffic, NO_LINK)
    gather = rank.gather(ELEMENT_BYTES * rank.tokens * model.hidden, "tensor")
    if strategy.recompute == "full":
        again, repeated = forward, {name: kind.forward for name, kind in traffic.items()}
    elif strategy.recompute == "selective":
        routed = gather.times(rank.routed_gathers)
        exposed_s = tensor.exposed.forward, expert.exposed.forward
        compute_s = work["attention"].forward, work["elementwise"].forward
        forward_work = ForwardWork(*compute_s, *exposed_s, tensor.forward, expert.forward)
        again, repeated = recomputed_modules(*of_rank, rank.operators, forward_work, routed)
    forward_busy, backward_busy = NO_LINK, NO_LINK
    for name, kind in traffic.items():
        forward_busy = forward_busy.plus(kind.forward)
        backward_busy = backward_busy.plus(kind.backward).plus(repeated[name])
    logits, projection = (
        gather.times(logits_gathers(strategy.sequence_parallel, strategy.keep_gathered)),
        gather.times(2),
    )
    logits_s, logits_link, further = float(logits_time(*of_rank) + logits.time_s), logits, model.mtp_layers
    if further:  # each a layer, its projection, and logits
        one = forward + backward + float(again + projection_time(*of_rank) + projection.time_s) + logits_s
        logits_s, link = logits_s + further * one, forward_busy.plus(backward_busy).plus(logits).plus(projection)
        logits_link = logits.plus(link.times(further))
    sliced = t if strategy.sequence_parallel else 1
    gathered = rank.runtime.scatter_gather and not strategy.sequence_parallel
    by_level = [float(kept_bytes(*of_rank, each)) for each in range(len(RECOMPUTE))]
    kept = by_level[level]
    if strategy.keep_gathered and strategy.sequence_parallel and strategy.recompute != "full":
        kept += rank.operators * ELEMENT_BYTES * rank.tokens * model.hidden * (1 - 1 / t)
    return LayerTime(
        seconds={name: float(sum(passes)) for name, passes in work.items()} | {"recompute": float(again)},
        links={name: kind.forward.plus(repeated[name]).plus(kind.backward) for name, kind in traffic.items()},
        forward_s=forward,
        backward_s=backward + float(again),
        forward_busy=forward_busy,
        backward_busy=backward_busy,
        weights_s=weights_s,
        logits_s=logits_s,
        logits_link=logits_link,
        boundary_bytes=ELEMENT_BYTES * rank.tokens * model.hidden / (t if rank.runtime.scatter_gather else sliced),
        boundary_gather=gather.times(float(gathered)),
        kept_bytes=kept,
        working_bytes=float(working_bytes(by_level, level)),
        # In bf16, and once more in fp32; kept for each token that is predicted.
        logits_bytes=(1 + further) * (ELEMENT_BYTES + 4) * rank.tokens * model.vocabulary / t,
    )


def _passes(
    rank: Rank, forward_products: float, input_products: float, weight_products: float
) -> tuple[dict[str, Passes], dict[str, LayerTraffic]]:
    """Seconds of a layer's work by kind, exposed traffic among it, and its traffic. Products: of `linear_times`."""
    model, strategy = rank.model, rank.strategy
    of_rank = model, rank.machine, rank.runtime
    heads, rows = strategy.micro_batch * model.heads / strategy.tensor, model.sequence_length / strategy.context
    scores = Passes(*map(float, attention_times(*of_rank, heads, rows)))
    work = {
        "linear": Passes(forward_products, input_products + weight_products),
        "attention": scores,
        "elementwise": elementwise_times(rank),
    }
    traffic = {
        "tensor": tensor_traffic(rank, forward_products, input_products, weight_products),
        "context": context_traffic(rank, scores),
    }
    work |= {name: kind.exposed for name, kind in traffic.items()}
    tensor, context = traffic["tensor"], traffic["context"]
    busy = tensor.forward.plus(context.forward), tensor.backward.plus(context.backward)
    traffic["expert"] = expert_traffic(rank, _both(work), busy)
    work["expert"] = traffic["expert"].exposed
    work["host"] = Passes(*map(float, host_waits(*of_rank, rank.share, _both(work))))
    return work, traffic


def _both(work: Mapping[str, Passes]) -> Passes:
    """Forward and backward time of all kinds together."""
    return Passes(*(sum(kind[i] for kind in work.values()) for i in (0, 1)))


def linear_times(rank: Rank) -> tuple[float, float, float]:
    """Products with weights: forward, of the inputs' gradients, of the weights' gradients [s].

    Rows x columns, inner side. Attention: u x its matrices. Feed-forward: u x (m - 1) f / t, h and u x h, f / t; shared
    experts likewise. A rank has E / e routed experts, one after the other, of u q e / E tokens each, q `copies`; a
    whole expert has its full width, and 1 / t of the tokens.
    """
    model, strategy, u, t = rank.model, rank.strategy, rank.tokens, rank.strategy.tensor

    def feed_forward(width: float) -> list[tuple[float, float]]:
        return [((model.ffn_matrices - 1) * width, model.hidden), (model.hidden, width)]

    shapes = [(1.0, u, *sides) for sides in model.attention_matrices(t)]
    shapes += [(1 - rank.mixtures, u, *sides) for sides in feed_forward(model.ffn_hidden / t)]
    if model.experts:
        slices = t if strategy.whole_experts else 1
        tokens, held = u / slices * rank.copies * strategy.expert / model.experts, model.experts // strategy.expert
        width = model.expert_hidden * slices / t
        shapes += [(rank.mixtures * max(held, 1), tokens, *sides) for sides in feed_forward(width)]
        shapes += [(rank.mixtures, u, *sides) for sides in feed_forward(model.shared_hidden / t) if model.shared_hidden]
    moved, form = rank.runtime.gradient_result_bytes, rank.runtime.linear_format(rank.machine)
    passes = [
        [share * time for time in product_passes(rank.machine, m, n, k, 1, form, moved)]
        for share, m, n, k in shapes
        if share
    ]
    forward, inputs, weights = (float(sum(times)) for times in zip(*passes, strict=True))
    return forward, inputs, weights


def attention_keys(machine: Machine, runtime: Runtime, model: Transformer, tokens: Any) -> Any:
    """Keys that a query meets, over the share of bf16_rate that fused attention reaches on them.

    A window of w keys leaves w (2 - w / s) s of the s^2; its tiles and masks are window_keys more, up to all of it.

    Parameters
    ----------
    machine, runtime, model
        GPU, kernel of attention, and the layers' spans and heads.
    tokens
        Of the sequence on a rank, s / c.

    Returns
    -------
    Keys, averaged over the layers, of the shape of tokens.
    """
    s, more = model.sequence_length, machine.rates.window_keys
    keys = sum(share * min(s, most * (2 - most / s) + more * (most < s)) for share, most in model.attention_spans())
    return keys / machine.attention_share(runtime.attention, tokens, model.query_dim, model.value_dim)


def attention_times(model: Transformer, machine: Machine, runtime: Runtime, heads: Any, tokens: Any) -> tuple[Any, Any]:
    """Scores, softmax, and their use of the values.

    Fused: b a / t heads with s^2 / c FLOPs for each of d_query + d_value elements, half of what all pairs of queries
    and keys take, for attention is causal; at the kernel's share of the bf16 rate, and 2.5 times that backward; see
    `attention_keys`. Unfused: two products a head forward and four backward,
    whatever the window, and a softmax that moves 4 and 6 bytes a score, with dropout 5 more each.

    Parameters
    ----------
    model, machine, runtime
        What is trained, on which GPU, with which software.
    heads, tokens
        Of a rank: b a / t, and queries of a sequence, s / c; numbers, or arrays of one shape.

    Returns
    -------
    Seconds forward and backward.
    """
    if runtime.fused_attention:
        elements = heads * tokens * (model.query_dim + model.value_dim)
        keys = attention_keys(machine, runtime, model, tokens)
        forward = elements * keys / machine.rates.bf16_rate + machine.host.kernel_s
        return forward, 2.5 * forward
    s = model.sequence_length
    sides = (s, model.query_dim), (model.value_dim, s)
    passes = [product_passes(machine, tokens, n, k, heads, aligned=True) for n, k in sides]
    forward, inputs, weights = (sum(times) for times in zip(*passes, strict=True))
    moved = (9, 11) if runtime.dropout else (4, 6)
    softmax = [size * heads * tokens * s / machine.hbm_Bps + machine.host.kernel_s for size in moved]
    return forward + softmax[0], inputs + weights + softmax[1]


def elementwise_times(rank: Rank) -> Passes:
    """Kernels that move their operands through HBM once: norms, residuals, activation, positions, order of tokens.

    Bytes of a token, forward and backward. Eager software moves more in the backward pass: a norm's operands for the
    gradients of its weights, gradients that are added at every residual, a product's gradient that is summed for its
    bias, and gradients of queries, keys and values that are joined; and what `gated_kernel_bytes` says. Each kernel has
    its start.
    """
    model, machine, runtime, t = rank.model, rank.machine, rank.runtime, rank.strategy.tensor
    blocks, matrices, mixtures = 1 if model.parallel_block else 2, model.ffn_matrices, rank.mixtures
    narrow = blocks * model.hidden / (t if rank.strategy.sequence_parallel else 1)
    mixture = model.expert_hidden * rank.copies + model.shared_hidden
    wide = (model.ffn_hidden * (1 - mixtures) + mixture * mixtures) / t
    turned = model.rope_dim * (model.heads + 1) if model.kv_rank else model.head_dim * (model.heads + model.kv_heads)
    rotary = 0.0 if model.positions else 4 * turned / t
    several = 2 if model.experts // rank.strategy.expert > 1 else 1  # by ranks, and by the experts of a rank
    ordered = 8 * model.hidden * rank.copies * mixtures / t * several
    forward = narrow * (4 + (7 if runtime.dropout else 6)) + 2 * matrices * wide + rotary + ordered
    backward = narrow * (8 + (5 if runtime.dropout else 0)) + (4 * matrices - 2) * wide + rotary + ordered
    of_experts = [rank.copies * mixtures / t * size for size in expert_kernel_bytes(model)]
    forward, backward = forward + of_experts[0], backward + of_experts[1]
    if runtime.eager:
        joined = model.head_dim * (model.heads + 2 * model.kv_heads) / t
        backward += narrow * (2 + 6) + 4 * joined
        backward += 2 * (joined + (matrices - 1) * wide + blocks * model.hidden) * model.biases
        more = gated_kernel_bytes(model, narrow, wide, rotary, t)
        forward, backward = forward + more[0], backward + more[1]
    counts = machine.host.forward_operators, machine.host.backward_operators
    starts = [max(count - own, 0) * machine.host.kernel_s for count, own in zip(counts, OWN_KERNELS, strict=True)]
    moved = [rank.tokens * size / machine.hbm_Bps for size in (forward, backward)]
    return Passes(moved[0] + starts[0], moved[1] + starts[1])


def gated_kernel_bytes(model: Transformer, narrow: Any, wide: Any, rotary: Any, tensor: Any) -> tuple[Any, Any]:
    """Bytes of a token that a gated model (Llama and its like) moves more where every operator is a kernel of its own.

    Of an element, forward and backward: RMSNorm in fp32 36 and 92 in place of 4 and 10 (cast, square, mean, product,
    cast back, scale; and their gradients); SwiGLU 10 and 18 in place of 6 and 10; rotary positions as complex numbers
    in fp32 20 each way in place of 4. Keys and values are copied for all heads that share them.

    Parameters
    ----------
    model
        Of which ffn_matrices is 3; others' norms and activations are one kernel each.
    narrow, wide
        Elements of the norms, and of the feed-forward's inner side, on a rank.
    rotary
        Bytes that rotary positions move each way as one kernel.
    tensor
        t ranks.

    Returns
    -------
    Bytes forward and backward.

    References
    ----------
    GitHub foundation-model-stack/foundation-model-stack, fms/modules/layernorm.py@0790a15, feedforward.py@00af730 and
    fms/models/llama.py@00b9af6; pytorch/torchtitan, torchtitan/models/norms.py@026e23a (RMSNorm) and
    train_configs/llama2_13b.toml@0c355e6; PyTorch's derivatives.yaml for the gradients.
    """
    if model.ffn_matrices < 3:
        return 0.0, 0.0
    copied = 4 * model.head_dim * (model.heads + model.kv_heads) / tensor if model.kv_heads < model.heads else 0.0
    both = 4 * rotary + copied
    return 32 * narrow + 4 * wide + both, 82 * narrow + 8 * wide + both


def expert_kernel_bytes(model: Transformer) -> tuple[float, float]:
    """Bytes of a row that experts' biases and clamps move, forward and backward: kernels that nothing fuses.

    The bias of the second product is multiplied by the row's weight in fp32, added expert by expert, joined and cast:
    28 and 36 bytes an element. A clamp takes both halves of the first product apart, clamps and joins them: 8 and 10.
    Source: PyPI megatron-core 0.15 to 0.19, megatron/core/transformer/moe/experts.py.
    """
    if not model.experts:
        return 0.0, 0.0
    result, inner = model.biases * model.hidden, model.clamped * 2 * model.expert_hidden
    return 28 * result + 8 * inner, 36 * result + 10 * inner


def host_waits(
    model: Transformer, machine: Machine, runtime: Runtime, share: LayerShare, gpu: tuple[Any, Any]
) -> tuple[Any, Any]:
    """What a layer takes beyond its time on the GPU, because the host starts its operators.

    Eager software takes the longer of both. So do mixture layers without CUDA graphs of the whole layer: the host has
    to learn the numbers of tokens first, and of the shorter time dropless_serial_share adds to the longer. Graphs of
    parts leave it the operators of routed experts, and the start of a graph in each pass.

    Parameters
    ----------
    model, machine, runtime, share
        What is trained, on which GPU, with which software, and what of it is on a rank.
    gpu
        Time on the GPU forward and backward [s].

    Returns
    -------
    Seconds forward and backward.
    """
    waits_for_counts, parts = bool(model.experts) and runtime.graphs != "whole", runtime.graphs_of_parts
    if not (runtime.eager or waits_for_counts):
        return np.zeros(np.shape(gpu[0])), np.zeros(np.shape(gpu[1]))
    host, casts = machine.host, runtime.linear_format(machine).cast_kernels
    more = host_operators(share.experts, casts, model.biases, parts)
    forward, backward = (1, 1) if parts else (host.forward_operators, host.backward_operators)
    serial = host.dropless_serial_share if waits_for_counts else 0.0

    def waits(operators: int, of_experts: Any, kernels: Any, gpu_s: Any) -> Any:
        started = of_experts * host.launch_s + kernels * host.kernel_launch_s
        finite_s = np.where(np.isfinite(gpu_s), gpu_s, 0.0)  # traffic without a route takes infinitely long
        return host_bound_time(finite_s, operators * host.launch_s + share.mixtures * started, serial) - finite_s

    passes = (forward, more.forward, more.forward_kernels), (backward, more.backward, more.backward_kernels)
    return waits(*passes[0], gpu[0]), waits(*passes[1], gpu[1])


def logits_time(model: Transformer, machine: Machine, runtime: Runtime, share: LayerShare) -> Any:
    """Compute of logits and loss, in bf16: three products of u x V / t, h, and the loss.

    Parameters
    ----------
    model, machine, runtime, share
        As for `host_waits`.

    Returns
    -------
    Seconds.
    """
    columns, moved = model.vocabulary / share.tensor, runtime.gradient_result_bytes
    products = product_passes(machine, share.tokens, columns, model.hidden, gradient_bytes=moved, aligned=True)
    return sum(products) + LOSS_BYTES * share.tokens * columns / machine.hbm_Bps


def logits_gathers(sequence_parallel: Any, keep_gathered: Any) -> Any:
    """Gathers of the logits' input, or sums of as many bytes, among tensor ranks: forward, backward, and once more.

    With sequence parallelism the backward pass gathers the input again, unless it is kept, as operators of a layer do.
    Arguments: of the strategy; numbers, or arrays of one shape.
    """
    return 2 + np.asarray(sequence_parallel, bool) * ~np.asarray(keep_gathered, bool)


def projection_time(model: Transformer, machine: Machine, runtime: Runtime, share: LayerShare) -> Any:
    """Of a predicting layer's two inputs to one: products of u x h / t, 2 h, whose results tensor ranks gather.

    Parameters
    ----------
    model, machine, runtime, share
        As for `host_waits`.

    Returns
    -------
    Seconds.
    """
    form, moved = runtime.linear_format(machine), runtime.gradient_result_bytes
    return sum(product_passes(machine, share.tokens, model.hidden / share.tensor, 2 * model.hidden, 1, form, moved))
