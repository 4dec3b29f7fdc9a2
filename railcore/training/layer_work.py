"""What a rank computes of one transformer layer for one micro-batch, and what the host adds: seconds by pass.

Matrix products, attention, all other kernels, the host's work, logits. Symbols as in `rank`; arrays of strategies. In a
model with mixture layers it is the average layer of a stage.
"""

from typing import Any, NamedTuple

import numpy as np

from railcore import catalog
from railcore.training.formats import ELEMENT_BYTES
from railcore.training.layer_products import adapter_sides, adapters_of_layer, added_elements, layer_products
from railcore.training.machine import Machine, backward_attention_work
from railcore.training.products import at_spare_power, product_passes
from railcore.training.rank import Rank
from railcore.training.recompute import ordered_bytes
from railcore.training.runtime import Runtime
from railcore.training.transformer import Transformer

# Kernels of products and attention, which count their own starts: four and one forward, eight and one backward.
_OTHER_KERNELS = (5, 9)
_BACKWARD_ATTENTION_KERNELS = 3  # a sum over each row, the gradients, and a cast of that of the queries
NORM_KERNELS = (1, 3)  # of a compiled norm, forward and backward, with two sums for the gradients of its weights
_EXPERT_LAYERS = 2  # linear layers of an expert: gate and up in one, and down
_COMMON_OPERATORS = (28, 14)  # forward and backward, whatever the experts are; see host_operators
_GRAPHED_OPERATORS = (17, 4)  # of them, what a graph of router and preprocessing holds
_ADDED_BYTES, _ADDED_KERNELS = 6, 2  # of an element that is added for an adapter; kernels that scale and add
# Bytes of cross entropy in fp32 a logit: cast 6, maximum 4, exponent 8, sum 4, gradient 4, cast back 6; in kernels that
# store nothing in fp32: maximum 2, sum 2, gradient 4.
LOSS_BYTES, FUSED_LOSS_BYTES = 32, 8


class Passes(NamedTuple):
    """Seconds of a kind of work in the forward and in the backward pass of a layer."""

    forward: Any
    backward: Any

    def plus(self, other: "Passes") -> "Passes":
        """Both, pass by pass."""
        return Passes(self.forward + other.forward, self.backward + other.backward)

    def times(self, factor: float) -> "Passes":
        """So many of them, or a share."""
        return Passes(factor * self.forward, factor * self.backward)


class Products(NamedTuple):
    """Seconds of a layer's products with weights: forward, of the inputs' gradients, of the weights' gradients."""

    forward: Any
    inputs: Any
    weights: Any

    def beside(self, full_clock: "Products", spare: Passes) -> "Products":
        """The same between other kernels, which leave power for so many seconds (`at_spare_power`).

        Backward the products of inputs' and of weights' gradients become shorter by the same share.
        """
        forward = at_spare_power(self.forward, full_clock.forward, spare.forward)
        backward = self.inputs + self.weights
        left = at_spare_power(backward, full_clock.inputs + full_clock.weights, spare.backward) / backward
        return Products(forward, self.inputs * left, self.weights * left)

    @property
    def passes(self) -> Passes:
        """By pass."""
        return Passes(self.forward, self.inputs + self.weights)


def linear_times(rank: Rank, machine: Machine) -> Products:
    """Times of the products with weights, and of adapters.

    The product itself adds the gradients of weights over micro-batches, except in eager software. Frozen weights have
    no gradient; an adapter is two products more, in bf16, with all three passes. Frozen weights that are kept in half
    the bytes of the format in which they are multiplied, or fewer (QLoRA), are widened for each of their products.
    """
    model, runtime = rank.model, rank.runtime
    form, moved = runtime.linear_format(machine), runtime.gradient_result_bytes
    widened = model.lora_rank and 2 * model.frozen_bytes <= form.element_bytes
    times = []
    for name, share, m, n, k, ranks, way, *_ in layer_products(rank):
        passes = product_passes(machine, m, n, k, form=form, gradient_bytes=moved, **way)
        if model.lora_rank:
            read_s = n * k * way["batch"] * (model.frozen_bytes + form.element_bytes) / machine.hbm_Bps * widened
            passes = passes[0] + read_s, passes[1] + read_s, 0.0 * passes[2]
        for sides in adapter_sides(model, name, n, k, ranks):
            thin = product_passes(machine, m, *sides, gradient_bytes=moved, **way)
            passes = passes[0] + thin[0], passes[1] + thin[1], passes[2] + thin[2]
        times.append([share * time for time in passes])
    return Products(*(sum(kind) for kind in zip(*times, strict=True)))


def attention_keys(machine: Machine, model: Transformer) -> float:
    """Keys that a query meets, averaged over the layers.

    Of the s^2 pairs of a sequence a window of w keys leaves w (2 - w / s) s; window_keys more for its tiles and masks.
    """
    s, more = model.sequence_length, machine.rates.window_keys
    return sum(share * min(s, most * (2 - most / s) + more * (most < s)) for share, most in model.attention_spans())


def attention_times(model: Transformer, machine: Machine, runtime: Runtime, heads: Any, tokens: Any) -> tuple[Any, Any]:
    """Times of attention: scores, softmax, and their product with the values.

    Fused: b a / t heads with s^2 / c FLOPs for each of d_query + d_value elements, which is half of what all pairs of
    queries and keys take, since attention is causal; `backward_attention_work` times as many backward; at
    `Machine.attention_shares`. Unfused: two products a head forward and four backward, whatever the window, and a
    softmax that moves 4 bytes a score forward and 6 backward, with dropout 5 more in both.

    Parameters
    ----------
    model, machine, runtime
        What is trained, on which GPU, with which software.
    heads, tokens
        Of a rank: b a / t, and queries of a sequence, s / c; arrays of one shape.

    Returns
    -------
    Seconds forward and backward.
    """
    if runtime.fused_attention:
        keys, fp8 = attention_keys(machine, model), runtime.fp8_attention and machine.narrow
        dims = model.query_dim, model.value_dim
        return fused_attention_times(machine, runtime.attention, heads, tokens, keys, *dims, fp8)
    s = model.sequence_length
    sides = (s, model.query_dim), (model.value_dim, s)
    passes = [product_passes(machine, tokens, n, k, heads, aligned=True) for n, k in sides]
    forward, inputs, weights = (sum(times) for times in zip(*passes, strict=True))
    moved = (9, 11) if runtime.dropout else (4, 6)
    softmax = [size * heads * tokens * s / machine.hbm_Bps + machine.host.kernel_s for size in moved]
    return forward + softmax[0], inputs + weights + softmax[1]


def fused_attention_times(
    machine: Machine,
    kernel: str,
    heads: Any,
    tokens: Any,
    keys: float,
    query_dim: float,
    value_dim: float,
    fp8: bool = False,
) -> tuple[Any, Any]:
    """Times of one causal attention: heads x tokens x keys x (query_dim + value_dim) FLOPs forward.

    Parameters
    ----------
    machine, kernel, fp8
        As for `Machine.attention_shares`.
    heads, tokens, keys
        Heads of all sequences; queries of a sequence; s without a window, for the mask leaves half of these pairs.
    query_dim, value_dim
        Elements of a head.

    Returns
    -------
    Seconds forward and backward.
    """
    flops = heads * tokens * keys * (query_dim + value_dim)
    forward, backward = machine.attention_shares(kernel, heads, tokens, query_dim, value_dim, fp8)
    work, rate, start = backward_attention_work(query_dim, value_dim), machine.rates.bf16_rate, machine.host.kernel_s
    return flops / (rate * forward) + start, work * flops / (rate * backward) + _BACKWARD_ATTENTION_KERNELS * start


def elementwise_times(rank: Rank, machine: Machine) -> Passes:
    """Times of all other kernels: norms, residuals, activation, positions, order of tokens.

    They move their operands through HBM once, and each has its start. Compiled ones add the residual in the norm's
    kernel. Eager software moves more in the backward pass: the same operands, gradients that are added at every
    residual, a product's gradient that is summed for its bias, and gradients of queries, keys and values that are
    joined; and what `gated_kernel_bytes` says. Adapters' results and gradients are added to those of their products.
    """
    model, runtime, t, mixtures = rank.model, rank.runtime, rank.tensor, rank.mixtures
    blocks, matrices = 1 if model.parallel_block else 2, model.ffn_matrices
    narrow = blocks * model.hidden / rank.norm_ranks  # elements of a token in the norms
    mixture = model.expert_hidden * rank.copies + model.shared_hidden
    wide = (model.ffn_hidden + (mixture - model.ffn_hidden) * mixtures) / t  # in the feed-forward's inner side
    turned = model.rope_dim * (model.heads + 1) if model.kv_rank else model.head_dim * (model.heads + model.kv_heads)
    rotary = 0.0 if model.positions else 4 * turned / t
    ordered = ordered_bytes(rank) * mixtures / t
    norm, activation = norm_bytes(runtime, machine), activation_bytes(runtime, machine, matrices)
    residual, mask = 4 if runtime.compiles else 6, int(runtime.dropout)
    forward = narrow * (norm[0] + residual + mask) + activation[0] * wide + rotary + ordered
    backward = narrow * (norm[1] + 2 + 5 * mask) + activation[1] * wide + rotary + ordered
    of_experts = [rank.copies * mixtures / t * size for size in expert_kernel_bytes(model)]
    forward, backward = forward + of_experts[0], backward + of_experts[1]
    if runtime.eager:
        joined = model.head_dim * (model.heads + 2 * model.kv_heads) / t
        backward = backward + narrow * (2 + 6) + 4 * joined
        trained_biases = model.biases and not model.lora_rank
        backward = backward + 2 * (joined + (matrices - 1) * wide + blocks * model.hidden) * trained_biases
        more = gated_kernel_bytes(model, narrow, wide, rotary, t)
        forward, backward = forward + more[0], backward + more[1]
    counts = machine.host.forward_operators, machine.host.backward_operators
    kernels = [max(n - other, 0) for n, other in zip(counts, _OTHER_KERNELS, strict=True)]
    if runtime.compiles:  # norms, positions, activation
        kernels = [blocks * n + 2 for n in NORM_KERNELS]
    if model.lora_rank:
        added, adapters = added_elements(rank), sum(adapters_of_layer(rank, routed) for routed in (False, True))
        forward, backward = forward + _ADDED_BYTES * added[0], backward + _ADDED_BYTES * added[1]
        kernels = [n + _ADDED_KERNELS * adapters for n in kernels]
    starts = [n * machine.host.kernel_s for n in kernels]
    moved = [rank.tokens * size / machine.hbm_Bps for size in (forward, backward)]
    return Passes(moved[0] + starts[0], moved[1] + starts[1])


def norm_bytes(runtime: Runtime, machine: Machine) -> tuple[float, float]:
    """Bytes of an element of a norm, forward and backward, in the time that they take at the bandwidth of a copy.

    Forward 4; backward 6, and 4 to read both operands again for the gradients of the weights; at the machine's shares
    of that bandwidth. Eager software moves 4 and 6 in one kernel, and what `gated_kernel_bytes` says.
    """
    if runtime.eager:
        return 4, 6
    return 4 / machine.memory.norm_share, 10 / machine.memory.norm_backward_share


def activation_bytes(runtime: Runtime, machine: Machine, matrices: int) -> tuple[float, float]:
    """Bytes of an element of the activation function, forward and backward, at the bandwidth of a copy.

    Gated (3 matrices) 6 and 10, else 4 and 6, backward at the machine's share of that bandwidth but in eager software.
    """
    share = 1.0 if runtime.eager else machine.memory.activation_backward_share
    return 2 * matrices, (4 * matrices - 2) / share


def gated_kernel_bytes(model: Transformer, narrow: Any, wide: Any, rotary: Any, tensor: Any) -> tuple[Any, Any]:
    """Bytes of a token that a gated model (such as Llama) moves more where every operator is a kernel of its own.

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
    """Bytes of a row that the unfused kernels of experts' biases and clamps move, forward and backward.

    The bias of the second product is multiplied by the row's weight in fp32, added expert by expert, joined and cast:
    28 and 36 bytes an element. A clamp takes both halves of the first product apart, clamps and joins them: 8 and 10.
    Source: PyPI megatron-core 0.15 to 0.19, megatron/core/transformer/moe/experts.py.
    """
    if not model.experts:
        return 0.0, 0.0
    result, inner = model.biases * model.hidden, model.clamped * 2 * model.expert_hidden
    return 28 * result + 8 * inner, 36 * result + 10 * inner


class HostOperators(NamedTuple):
    """What the host starts for one mixture layer and one micro-batch.

    forward, backward: operators, each from Python.
    forward_kernels, backward_kernels: kernels that a library starts in a loop over the experts.
    """

    forward: Any
    backward: Any
    forward_kernels: Any
    backward_kernels: Any


def host_operators(
    experts: Any, cast_kernels: int = 0, bias: bool = False, graphed: bool = False, grouped: bool = False
) -> HostOperators:
    """What a host starts for a mixture layer, without attention and norms, as Megatron-Core launches it.

    Common to all experts are 28 operators forward: router in fp32 and its losses 6; counts of tokens, their exchange
    and copies to the host 11; two orderings of tokens with their maps 5; exchanges of tokens and of their weights 3;
    activation 1; orderings back 2. Backward 14: seven kernels of the same chain reversed, three exchanges and four of
    the router. Casts pad rows to whole blocks and back, 2 in each pass. Biases take two operators an expert and pass.
    One call starts the kernels of all experts: a product for each linear layer forward, two backward and a place for
    each weight's gradient, 2; and in each pass the casts of each linear layer's operand.

    Parameters
    ----------
    experts
        Of a rank.
    cast_kernels
        That cast an expert's matrix; 0 in bf16.
    bias
        Whether experts have biases.
    graphed
        Router, counts and their preprocessing are in a CUDA graph, of which only the start counts.
    grouped
        Whether one kernel has the products of all experts.

    Returns
    -------
    Numbers. The fixed counts come from reading the code; take them as good to a third.

    References
    ----------
    GitHub NVIDIA/Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py at 0014f13 (2025: dispatcher
    "alltoall"), moe README (grouped products on several streams); GitHub NVIDIA/TransformerEngine,
    pytorch/module/grouped_linear.py at 0069563 (2025), pull request 1525 (2025-04: current scaling).
    """
    n = np.asarray(experts, float)
    per_expert = (2.0 if cast_kernels else 0.0) + 2 * bias * n
    forward, backward = (
        count - graphed * (inside - 1) + per_expert
        for count, inside in zip(_COMMON_OPERATORS, _GRAPHED_OPERATORS, strict=True)
    )
    products = np.ones_like(n) if grouped else n  # kernels of a product, and of the cast of its operand
    casts = products * _EXPERT_LAYERS * cast_kernels
    return HostOperators(
        forward, backward, products * _EXPERT_LAYERS + casts, (2 * products + n) * _EXPERT_LAYERS + casts
    )


def host_waits(rank: Rank, machine: Machine, gpu: Passes) -> Passes:
    """What a layer takes beyond its time on the GPU, because the host starts its operators.

    A GPU's time G and a host's time H make max(G, H) + r min(G, H), with r = 0 where the host is always ahead, and 1
    where each waits for the other. H counts in two cases:

    - eager software, r = 0;
    - mixture layers without CUDA graphs of the whole layer: the host waits once for the numbers of tokens, so that r is
      dropless_serial_share; for padded experts too, whose counts are read as a list. Graphs of parts leave the host the
      operators of routed experts, and the start of a graph in each pass.

    Each product with an adapter has the catalog's lora_operators more in both passes.

    Parameters
    ----------
    rank, machine
        Of the strategies, on which GPU.
    gpu
        Time on the GPU, G [s].

    Returns
    -------
    Seconds.

    References
    ----------
    Megatron-Core, token_dispatcher.py (synchronization before the exchange), experts.py (tokens_per_expert).
    """
    model, runtime, host = rank.model, rank.runtime, machine.host
    waits_for_counts, parts = bool(model.experts) and runtime.graphs != "whole", runtime.graphs_of_parts
    if not (runtime.eager or waits_for_counts):
        return Passes(0 * gpu.forward, 0 * gpu.backward)
    casts = runtime.linear_format(machine).cast_kernels
    mixture = host_operators(rank.experts, casts, model.biases, parts, runtime.expert_products == "grouped")
    forward, backward = (1, 1) if parts else (host.forward_operators, host.backward_operators)
    serial = host.dropless_serial_share if waits_for_counts else 0.0
    if model.lora_rank:
        adapters = adapters_of_layer(rank, routed=True) + (0.0 if parts else adapters_of_layer(rank, routed=False))
        more = catalog.item("efficiencies", "all")["lora_operators"] * adapters
        forward, backward = forward + more, backward + more

    def waits(operators: Any, mixture_operators: Any, kernels: Any, gpu_s: Any) -> Any:
        mixture_s = mixture_operators * host.launch_s + kernels * host.kernel_launch_s
        host_s = operators * host.launch_s + rank.mixtures * mixture_s
        finite_s = np.where(np.isfinite(gpu_s), gpu_s, 0.0)  # traffic without a route takes infinitely long
        return np.maximum(finite_s, host_s) + serial * np.minimum(finite_s, host_s) - finite_s

    return Passes(
        waits(forward, mixture.forward, mixture.forward_kernels, gpu.forward),
        waits(backward, mixture.backward, mixture.backward_kernels, gpu.backward),
    )


def logits_time(rank: Rank, machine: Machine) -> Any:
    """Compute of logits and loss of a rank: u x V / t from h elements a token [s]."""
    columns, moved = rank.model.vocabulary / rank.tensor, rank.runtime.gradient_result_bytes
    frozen = rank.model.lora_rank > 0
    return logits_seconds(machine, rank.runtime, rank.tokens, columns, rank.model.hidden, moved, frozen)


def logits_seconds(
    machine: Machine,
    runtime: Runtime,
    rows: Any,
    columns: Any,
    inner: Any,
    gradient_bytes: int = ELEMENT_BYTES,
    frozen: bool = False,
) -> Any:
    """Compute of logits and loss, in bf16: three products, which the loss leaves power, and the loss.

    Parameters
    ----------
    machine, runtime
        GPU and software.
    rows, columns, inner
        Tokens, words and hidden elements.
    gradient_bytes
        Moved for each element of the weights' gradient.
    frozen
        Whether the weights are, so that the third product is left out.

    Returns
    -------
    Seconds of both passes.
    """
    sustained, full_clock = (
        sum(product_passes(box, rows, columns, inner, gradient_bytes=gradient_bytes, aligned=True)[: 3 - frozen])
        for box in (machine, machine.at_full_clock)
    )
    loss_s = loss_time(runtime, machine, rows * columns)
    return at_spare_power(sustained, full_clock, machine.rates.spare_power * loss_s) + loss_s


def loss_time(runtime: Runtime, machine: Machine, logits: Any) -> Any:
    """Of cross entropy in both passes, without products [s]."""
    moved = FUSED_LOSS_BYTES if runtime.fused_loss or runtime.compiles else LOSS_BYTES
    share = machine.memory.loss_share if runtime.compiles else 1.0
    return moved / share * logits / machine.hbm_Bps


def projection_time(rank: Rank, machine: Machine) -> Any:
    """Of a predicting layer's two inputs to one: products of u x h / t, 2 h [s]."""
    h, form, moved = rank.model.hidden, rank.runtime.linear_format(machine), rank.runtime.gradient_result_bytes
    passes = product_passes(machine, rank.tokens, h / rank.tensor, 2 * h, 1, form, moved)
    return sum(passes[:2] if rank.model.lora_rank else passes)
