"""Time and bytes of one transformer layer, for one micro-batch on one rank.

Step by step: matrix products, attention, all other kernels, the traffic between tensor, context and expert ranks, and
the host. Symbols as in `transformer`; t tensor, c context, e expert ranks, b sequences of a micro-batch, and
u = s b / c its tokens on a rank. In a model with mixture layers it is the average layer of the fullest stage.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from railcore.training.expert_dispatch import capacity_copies, dispatch_bytes, host_bound_time, host_operators
from railcore.training.link_times import NO_LINK, LinkTimes, exposed_time
from railcore.training.machine import Machine
from railcore.training.parallelism import Strategy
from railcore.training.products import ELEMENT_BYTES, product_passes
from railcore.training.rank_order import GroupLevels, group_levels
from railcore.training.recompute import LayerShare, recomputed_compute, recomputed_operators
from railcore.training.runtime import Runtime
from railcore.training.transformer import RECOMPUTE, Transformer

OWN_KERNELS = (5, 9)  # four products and the attention forward, twice the products and the attention backward
LOSS_BYTES = 32  # of cross entropy in fp32 a logit: cast 6, maximum 4, exponent 8, sum 4, gradient 4, cast back 6


class Passes(NamedTuple):
    """Seconds of a kind of work in the forward and in the backward pass of a layer."""

    forward: float
    backward: float


class LayerTraffic(NamedTuple):
    """A kind of traffic: seconds that it adds to each pass, and how long it takes and keeps links busy there."""

    exposed: Passes
    forward: LinkTimes
    backward: LinkTimes


@dataclass(frozen=True)
class LayerTime:
    """Seconds and bytes of a layer for one micro-batch on one rank.

    seconds: of both passes together, by kind; of communication what is not hidden [s].
    links: link time of tensor, context and expert ranks in both passes, hidden or not [s].
    forward_s, backward_s: of all kinds, by pass; what is computed again is in backward [s].
    forward_busy, backward_busy: link time of all traffic, by pass [s].
    weights_s: of the backward pass, products of the weights' gradients [s].
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


@dataclass(frozen=True)
class Rank:
    """What one rank of a job has of it.

    model, machine, runtime, strategy: what is trained, on which GPU, with which software, split how.
    """

    model: Transformer
    machine: Machine
    runtime: Runtime
    strategy: Strategy

    @property
    def tokens(self) -> float:
        """u = s b / c, tokens of a micro-batch."""
        return self.model.sequence_length * self.strategy.micro_batch / self.strategy.context

    @cached_property
    def groups(self) -> dict[str, GroupLevels]:
        """Where each kind of group lies in the cluster."""
        return group_levels(self.strategy.columns(1))

    @property
    def mixtures(self) -> float:
        """Share of mixture layers in the fullest stage. Where the first layers are dense, it is a stage after them."""
        behind_dense = self.strategy.pipeline > 1 and self.model.dense_layers > 0
        return 1 / self.model.expert_layer_interval if behind_dense else self.model.mixture_share

    @property
    def copies(self) -> float:
        """Rows that the experts of the busiest rank compute, over its own tokens."""
        return expert_rows(self.model, self.runtime)

    @property
    def operators(self) -> float:
        """Operators of a layer whose activations tensor ranks exchange, routed experts apart."""
        return (1 if self.model.parallel_block else 2) - self.mixtures * (0 if self.model.shared_hidden else 1)

    @property
    def fp8(self) -> bool:
        """Whether linear layers compute in 8 bits or fewer."""
        return self.machine.narrow

    @property
    def lost(self) -> float:
        """Share of a second of compute that a collective beside it takes."""
        return self.runtime.interference(self.machine)

    def gather(self, message_bytes: float, group: str, calls: float = 1) -> LinkTimes:
        """An AllGather, or a ReduceScatter, of so many bytes in a kind of group."""
        inside, domains = self.domains(group)
        return self.machine.gather_links(message_bytes, inside, domains, calls)

    def domains(self, group: str) -> tuple:
        """Ranks of a group in an HB domain, and HB domains that it is in."""
        return self.groups[group].in_domains(self.machine.hb_domain_size)


def expert_rows(model: Transformer, runtime: Runtime) -> float:
    """Rows that the experts of the busiest rank compute, over its own tokens; padded to the capacity where it drops.

    Raises ValueError for a capacity above the model's number of experts, which no routing fills.
    """
    if not model.experts:
        return 1.0
    if runtime.capacity > model.experts:
        raise ValueError(f"capacity is {runtime.capacity:g}: give at most experts {model.experts} of {model.name}")
    capacity = runtime.capacity or math.inf
    return float(capacity_copies(model.top_k, capacity, model.imbalance, padded=bool(runtime.capacity)))


def layer_time(rank: Rank) -> LayerTime:
    """Time and bytes of a layer: compute, traffic that compute does not hide, what the host adds, what is done again.

    rank: with model, machine, runtime and strategy.
    """
    model, strategy, t = rank.model, rank.strategy, rank.strategy.tensor
    forward_products, input_products, weight_products = linear_times(rank)
    linear = Passes(forward_products, input_products + weight_products)
    scores, rest = attention_times(rank), elementwise_times(rank)
    compute = [linear, scores, rest]
    tensor = tensor_traffic(rank, forward_products, input_products, weight_products)
    context = context_traffic(rank, scores)
    expert = expert_traffic(rank, Passes(*(sum(kind[i] for kind in compute) for i in (0, 1))))
    on_gpu = [*compute, tensor.exposed, context.exposed, expert.exposed]
    busy = Passes(*(sum(kind[i] for kind in on_gpu) for i in (0, 1)))
    host = host_waits(rank, busy)
    forward, backward = (float(busy[i] + host[i]) for i in (0, 1))

    # Full recompute repeats the forward pass, with its traffic; selective some modules.
    traffic = {"tensor": tensor, "context": context, "expert": expert}
    again, repeated = 0.0, dict.fromkeys(traffic, NO_LINK)
    if strategy.recompute == "full":
        again, repeated = forward, {name: kind.forward for name, kind in traffic.items()}
    elif strategy.recompute == "selective":
        again, repeated = recomputed_modules(rank, scores, tensor, expert)
    forward_busy, backward_busy = NO_LINK, NO_LINK
    for name, kind in traffic.items():
        forward_busy = forward_busy.plus(kind.forward)
        backward_busy = backward_busy.plus(kind.backward).plus(repeated[name])
    seconds = {"linear": linear, "attention": scores, "elementwise": rest, "host": host}
    seconds |= {name: kind.exposed for name, kind in traffic.items()}
    logits = rank.gather(ELEMENT_BYTES * rank.tokens * model.hidden, "tensor").times(2)
    logits_s, logits_link, further = float(_logits_time(rank) + logits.time_s), logits, model.mtp_layers
    if further:  # each a layer, its projection, and logits
        one = forward + backward + again + float(_projection_time(rank) + logits.time_s) + logits_s
        logits_s, link = logits_s + further * one, forward_busy.plus(backward_busy).plus(logits.times(2))
        logits_link = logits.plus(link.times(further))
    sliced = t if strategy.sequence_parallel else 1
    gathered = rank.runtime.scatter_gather and not strategy.sequence_parallel
    return LayerTime(
        seconds={name: float(sum(passes)) for name, passes in seconds.items()} | {"recompute": again},
        links={name: kind.forward.plus(repeated[name]).plus(kind.backward) for name, kind in traffic.items()},
        forward_s=forward,
        backward_s=backward + again,
        forward_busy=forward_busy,
        backward_busy=backward_busy,
        weights_s=weight_products,
        logits_s=logits_s,
        logits_link=logits_link,
        boundary_bytes=ELEMENT_BYTES * rank.tokens * model.hidden / (t if rank.runtime.scatter_gather else sliced),
        boundary_gather=logits.times(0.5 * gathered),
        kept_bytes=kept_bytes(rank, strategy.recompute),
        working_bytes=working_bytes(rank),
        # In bf16, and once more in fp32; kept for each token that is predicted.
        logits_bytes=(1 + further) * (ELEMENT_BYTES + 4) * rank.tokens * model.vocabulary / t,
    )


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


def attention_times(rank: Rank) -> Passes:
    """Scores, softmax, and their use of the values.

    Fused: b a / t heads with 2 s^2 / c FLOPs for each of d_query + d_value elements, at the kernel's share of the bf16
    rate, and 2.5 times that backward; see `attention_keys`. Unfused: two products a head forward and four backward, and
    a softmax that moves 4 and 6 bytes a score, with dropout 5 more each.
    """
    model, machine, runtime, s = rank.model, rank.machine, rank.runtime, rank.model.sequence_length
    heads, rows = rank.strategy.micro_batch * model.heads / rank.strategy.tensor, s / rank.strategy.context
    if runtime.fused_attention:
        elements = heads * rows * (model.query_dim + model.value_dim)
        keys = attention_keys(machine, runtime, model, rows)
        forward = float(elements * keys / machine.rates.bf16_rate) + machine.host.kernel_s
        return Passes(forward, 2.5 * forward)
    query_key = product_passes(machine, rows, s, model.query_dim, heads, aligned=True)
    score_value = product_passes(machine, rows, model.value_dim, s, heads, aligned=True)
    moved = (9, 11) if runtime.dropout else (4, 6)
    softmax = [n * heads * rows * s / machine.hbm_Bps + machine.host.kernel_s for n in moved]
    forward = query_key[0] + score_value[0] + softmax[0]
    return Passes(float(forward), float(sum(query_key[1:]) + sum(score_value[1:]) + softmax[1]))


def elementwise_times(rank: Rank) -> Passes:
    """Kernels that move their operands through HBM once: norms, residuals, activation, positions, order of tokens.

    Bytes of a token, forward and backward. Eager software moves more in the backward pass: a norm's operands for the
    gradients of its weights, gradients that are added at every residual, a product's gradient that is summed for its
    bias, and gradients of queries, keys and values that are joined. Each kernel has its start.
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
    counts = machine.host.forward_operators, machine.host.backward_operators
    starts = [max(count - own, 0) * machine.host.kernel_s for count, own in zip(counts, OWN_KERNELS, strict=True)]
    moved = [rank.tokens * size / machine.hbm_Bps for size in (forward, backward)]
    return Passes(moved[0] + starts[0], moved[1] + starts[1])


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


def tensor_traffic(rank: Rank, forward_products: float, input_products: float, weight_products: float) -> LayerTraffic:
    """Between tensor ranks: each operator gathers its input and scatters its output, an AllReduce in two halves.

    With sequence parallelism the backward pass gathers the input once more, unless it is kept. `overlap_tensor` hides
    as much as the forward traffic of the backward pass behind the products of the weights' gradients;
    `overlap_tensor_forward` exchanges in t pieces behind the products, of which one stays exposed, where the ranks are
    in one HB domain: its copies go from GPU to GPU over NVLink. What is sliced of routed experts is gathered with every
    copy of their tokens, and is not hidden.

    Parameters
    ----------
    rank
        With its strategy.
    forward_products, input_products, weight_products
        Of `linear_times`, behind which it hides [s].

    Returns
    -------
    Exposed time and link times of both passes.
    """
    runtime, t = rank.runtime, rank.strategy.tensor
    gather = rank.gather(ELEMENT_BYTES * rank.tokens * rank.model.hidden, "tensor")
    narrow = 0.5 if runtime.fp8_tensor and rank.fp8 else 1.0  # one byte an element on the way there
    again = narrow if rank.strategy.sequence_parallel and not rank.strategy.keep_gathered else 0.0
    forward = gather.times(rank.operators * (1 + narrow))
    backward = gather.times(rank.operators * (1 + narrow + again))
    if runtime.overlap_tensor_forward and rank.domains("tensor")[1] == 1:
        behind = forward_products, input_products + weight_products
        exposed = [
            exposed_time(link.time_s, (t - 1) / t * window, rank.lost, 1 / t)
            for link, window in zip((forward, backward), behind, strict=True)
        ]
    else:
        beside = exposed_time(forward.time_s, weight_products, rank.lost) if runtime.overlap_tensor else forward.time_s
        exposed = [forward.time_s, backward.time_s - forward.time_s + beside]
    sliced = rank.model.experts and not rank.strategy.whole_experts
    routed = gather.times(2 * rank.mixtures * rank.copies if sliced else 0.0)
    both = Passes(*(float(time + routed.time_s) for time in exposed))
    return LayerTraffic(both, forward.plus(routed), backward.plus(routed))


def context_traffic(rank: Rank, scores: Passes) -> LayerTraffic:
    """Between context ranks: keys and values are gathered behind the scores, twice in the backward pass."""
    model, strategy = rank.model, rank.strategy
    elements = model.sequence_length * strategy.micro_batch * model.key_value_elements(strategy.tensor)
    ring = rank.gather(ELEMENT_BYTES * elements, "context")
    forward, backward = ring, ring.times(2)
    exposed = [
        exposed_time(link.time_s, window, rank.lost) for link, window in zip((forward, backward), scores, strict=True)
    ]
    return LayerTraffic(Passes(*map(float, exposed)), forward, backward)


def expert_traffic(rank: Rank, compute: Passes) -> LayerTraffic:
    """Tokens on their way to their experts and back, in each pass.

    compute: of another micro-batch [s], behind which `overlap_expert` hides at most exchange_hidden_share of it.
    """
    if not rank.model.experts:
        return LayerTraffic(Passes(0.0, 0.0), NO_LINK, NO_LINK)
    there, home = _dispatch(rank, rank.runtime.dispatch_bytes), _dispatch(rank, ELEMENT_BYTES)
    forward, backward = there.plus(home).times(rank.mixtures), home.times(2 * rank.mixtures)
    if not rank.runtime.overlap_expert:
        return LayerTraffic(Passes(forward.time_s, backward.time_s), forward, backward)
    least = 1 - rank.machine.host.exchange_hidden_share
    exposed = [
        exposed_time(link.time_s, window, rank.lost, least)
        for link, window in zip((forward, backward), compute, strict=True)
    ]
    return LayerTraffic(Passes(*map(float, exposed)), forward, backward)


def host_waits(rank: Rank, gpu: Passes) -> Passes:
    """What a layer takes beyond its time on the GPU, because the host starts its operators.

    Eager software takes the longer of both. So do mixture layers without CUDA graphs of the whole layer: the host has
    to learn the numbers of tokens first, and of the shorter time dropless_serial_share adds to the longer. Graphs of
    parts leave it the operators of routed experts, and the start of a graph in each pass.
    """
    model, machine, runtime = rank.model, rank.machine, rank.runtime
    waits_for_counts, parts = bool(model.experts) and runtime.graphs != "whole", runtime.graphs_of_parts
    if not (runtime.eager or waits_for_counts):
        return Passes(0.0, 0.0)
    host = machine.host
    counts = (1, 1) if parts else (host.forward_operators, host.backward_operators)
    starts = [count * host.launch_s for count in counts]
    if model.experts:
        local, casts = max(model.experts // rank.strategy.expert, 1), runtime.linear_format(machine).cast_kernels
        more = host_operators(local, casts, model.biases, parts)
        starts[0] += rank.mixtures * float(more.forward * host.launch_s + more.forward_kernels * host.kernel_launch_s)
        starts[1] += rank.mixtures * float(more.backward * host.launch_s + more.backward_kernels * host.kernel_launch_s)
    serial = host.dropless_serial_share if waits_for_counts else 0.0
    waits = [float(host_bound_time(time, start, serial)) - time for time, start in zip(gpu, starts, strict=True)]
    return Passes(*waits)


def kept_bytes(rank: Rank, recompute: str) -> float:
    """Activations that a layer keeps for the backward pass of one micro-batch [bytes].

    Elements have the runtime's `element_bytes`. `keep_gathered` keeps the gathered inputs besides.

    recompute: one of RECOMPUTE.
    """
    model, strategy, runtime, level = rank.model, rank.strategy, rank.runtime, RECOMPUTE.index(recompute)
    if runtime.capacity and model.experts:
        model = replace(model, imbalance=rank.copies / model.top_k)
    kinds = model.layer_activation_bytes(
        strategy.micro_batch,
        strategy.tensor,
        strategy.context,
        strategy.sequence_parallel,
        level,
        fused_attention=runtime.fused_attention,
        dropout=runtime.dropout,
        mixture_share=rank.mixtures,
        modules=runtime.recompute_modules,
        element_bytes=runtime.element_bytes(rank.fp8),
    )
    kept = float(sum(kinds.values()))
    if strategy.keep_gathered and strategy.sequence_parallel and recompute != "full":
        kept += rank.operators * ELEMENT_BYTES * rank.tokens * model.hidden * (1 - 1 / strategy.tensor)
    return kept


def working_bytes(rank: Rank) -> float:
    """Activations of the layer that is made again [bytes]: all of it, or of modules what it did not keep.

    Scores are left out, as in Korthikanti et al. 2022, arXiv:2205.05198.
    """
    alone = replace(rank, strategy=replace(rank.strategy, keep_gathered=False))
    if rank.strategy.recompute == "full":
        return kept_bytes(alone, "none")
    if rank.strategy.recompute == "none":
        return 0.0
    scores = replace(alone, runtime=replace(rank.runtime, recompute_modules=("core_attn",)))
    others = {*rank.runtime.recompute_modules, "core_attn"}
    every = replace(alone, runtime=replace(rank.runtime, recompute_modules=tuple(others)))
    return kept_bytes(scores, "selective") - kept_bytes(every, "selective")


def recomputed_modules(
    rank: Rank, scores: Passes, tensor: LayerTraffic, expert: LayerTraffic
) -> tuple[float, dict[str, LinkTimes]]:
    """What the runtime's modules add to the backward pass.

    Parameters
    ----------
    rank
        With its runtime.
    scores, tensor, expert
        Attention, and traffic, of the passes.

    Returns
    -------
    Seconds, traffic that is not hidden included, and link time by kind of traffic.
    """
    model, strategy, modules = rank.model, rank.strategy, rank.runtime.recompute_modules
    held, slices = max(model.experts // strategy.expert, 1), strategy.tensor if strategy.whole_experts else 1
    share = LayerShare(
        tokens=rank.tokens,
        tensor=strategy.tensor,
        norm_ranks=strategy.tensor if strategy.sequence_parallel else 1,
        mixtures=rank.mixtures,
        copies=rank.copies,
        experts=held,
        expert_tokens=rank.tokens / slices * rank.copies * strategy.expert / max(model.experts, 1),
        expert_ranks=strategy.tensor / slices,
    )
    unfused, form = (
        "core_attn" in modules and not rank.runtime.fused_attention,
        rank.runtime.linear_format(rank.machine),
    )
    again = scores.forward * unfused + float(recomputed_compute(model, rank.machine, modules, share, form))
    # Of the traffic of tensor ranks a share, and all or nothing of routed experts.
    part = float(recomputed_operators(model, modules, rank.mixtures, rank.operators))
    sliced = model.experts and not strategy.whole_experts
    routed = rank.gather(ELEMENT_BYTES * rank.tokens * model.hidden, "tensor").times(
        2 * rank.mixtures * rank.copies if sliced else 0.0
    )
    again += part * (tensor.exposed.forward - routed.time_s)
    repeated = tensor.forward.plus(routed.times(-1)).times(part)
    if "moe" not in modules:
        return again, {"tensor": repeated, "context": NO_LINK, "expert": NO_LINK}
    again += routed.time_s + expert.exposed.forward
    return again, {"tensor": repeated.plus(routed), "context": NO_LINK, "expert": expert.forward}


def _dispatch(rank: Rank, element_bytes: int) -> LinkTimes:
    """One way of the tokens of a rank: a copy for each expert, or one for each HB domain with one of them."""
    model, (x, y) = rank.model, rank.domains("expert")
    tokens = rank.tokens / rank.strategy.tensor
    if rank.runtime.dispatcher == "copies":
        return rank.machine.all_to_all_links(element_bytes * tokens * model.hidden * rank.copies, x, y)
    sizes = (tokens, model.hidden, model.experts, model.top_k, x * y, x)
    nic_bytes, hb_bytes = dispatch_bytes(*sizes, "nodes", element_bytes, model.expert_groups, model.token_groups)
    busiest = rank.copies / model.top_k  # rows of the busiest rank over the mean
    return rank.machine.routed_links(busiest * hb_bytes, busiest * nic_bytes, x, y)


def _logits_time(rank: Rank) -> float:
    """Compute of logits and loss, in bf16: three products of u x V / t, h, and the loss."""
    model, machine, columns = rank.model, rank.machine, rank.model.vocabulary / rank.strategy.tensor
    moved = rank.runtime.gradient_result_bytes
    products = product_passes(machine, rank.tokens, columns, model.hidden, gradient_bytes=moved, aligned=True)
    return float(sum(products)) + LOSS_BYTES * rank.tokens * columns / machine.hbm_Bps


def _projection_time(rank: Rank) -> float:
    """Of a predicting layer's two inputs to one: products of u x h / t, 2 h, whose results tensor ranks gather."""
    h, moved = rank.model.hidden, rank.runtime.gradient_result_bytes
    sizes = rank.tokens, h / rank.strategy.tensor, 2 * h
    return float(sum(product_passes(rank.machine, *sizes, 1, rank.runtime.linear_format(rank.machine), moved)))
