"""What a layer keeps for its backward pass, and what selective recompute makes again of it, module by module.

    module           made again in the backward pass
    core_attn        scores and their use of the values, where attention is not fused
    layernorm        the norms
    mla_up_proj      queries, keys and values of the heads from latent vectors, and their positions
    moe_act          the activation function of the routed experts
    mlp              the feed-forward of dense layers, and what its tensor ranks exchange
    shared_experts   that of shared experts
    moe              the whole mixture: dispatch, routed and shared experts, and what their tensor ranks exchange
    op               all but fused attention and every second product: keys, output, and of the feed-forward the
                     second; gathers of tensor ranks. Of dense models

Forward compute of modules and the traffic that comes with it are of one strategy or of arrays. Symbols as in `rank`.

Sources: Megatron-Core, megatron/core/transformer/transformer_config.py, recompute_modules; op: pytorch/torchtitan,
torchtitan/parallelisms/parallelize_llama.py@004b314, selective_ac_option.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from railcore.training.formats import LinearFormat
from railcore.training.layer_traffic import LayerTraffic
from railcore.training.link_times import NO_LINK, LinkTimes
from railcore.training.machine import Machine
from railcore.training.products import ELEMENT_BYTES, product_passes
from railcore.training.rank import Passes, Rank
from railcore.training.transformer import RECOMPUTE, Transformer
from railcore.training.transformer_memory import EVERY_OPERATOR


class LayerShare(NamedTuple):
    """What one rank has of a layer.

    tokens: u of a micro-batch.
    tensor: t ranks.
    norm_ranks: ranks that split norms, t with sequence parallelism, else 1.
    mixtures: share of mixture layers.
    copies: rows of routed experts, over the tokens.
    experts: routed experts of the rank, at least 1, of a mixture layer.
    expert_tokens: of one of them.
    expert_ranks: tensor ranks that split one of them, t or 1.
    """

    tokens: Any
    tensor: Any
    norm_ranks: Any
    mixtures: Any
    copies: Any
    experts: Any
    expert_tokens: Any
    expert_ranks: Any


def recomputed_compute(
    model: Transformer, machine: Machine, modules: Collection[str], share: LayerShare, form: LinearFormat
) -> Any:
    """Forward compute of the modules [s]: of core_attn nothing, of op its products.

    Products as in `layer.linear_times`; other kernels move what they have in `layer.elementwise_times` and start once.

    Parameters
    ----------
    model, machine
        What is trained, on which GPU.
    modules
        Of RECOMPUTE_MODULES and EVERY_OPERATOR. What is part of another one counts once.
    share
        Of the rank.
    form
        Number format of the linear layers, with what the software's casts read.

    Returns
    -------
    Seconds.
    """
    u, t, mixtures = share.tokens, share.tensor, share.mixtures

    def kernel(bytes_of_token: Any, kernels: Any = 1) -> Any:
        return u * bytes_of_token / machine.hbm_Bps + kernels * machine.host.kernel_s

    def product(rows: Any, columns: Any, side: Any) -> Any:
        return product_passes(machine, rows, columns, side, form=form)[0]

    def activation(width: Any) -> Any:
        return kernel(2 * model.ffn_matrices * width / t)

    def feed_forward(rows: Any, width: Any, ranks: Any) -> Any:
        h, slim = model.hidden, width / ranks
        return product(rows, (model.ffn_matrices - 1) * slim, h) + product(rows, h, slim)

    found = 0 * u
    if EVERY_OPERATOR in modules:
        keys, heads = model.head_dim * model.kv_heads_of_rank(t), model.head_dim * model.heads / t
        inner, h = model.ffn_hidden / t, model.hidden
        second = (inner, h) if model.ffn_matrices > 2 else (h, inner)
        return found + sum(product(u, *sides) for sides in ((keys, h), (h, heads), second))
    if "layernorm" in modules:
        norms = 1 if model.parallel_block else 2
        found = found + kernel(4 * norms * model.hidden / share.norm_ranks, norms)
    if "mla_up_proj" in modules and model.kv_rank:
        up = model.attention_matrices(t)[-3:-1]
        turned = 0 if model.positions else 4 * model.rope_dim * (model.heads + 1) / t
        found = found + sum(product(u, *sides) for sides in up) + kernel(turned)
    if "mlp" in modules and model.mixture_layers < model.layers:
        dense = feed_forward(u, model.ffn_hidden, t) + activation(model.ffn_hidden)
        found = found + (1 - mixtures) * dense
    if model.experts and {"moe", "moe_act"} & {*modules}:
        clamped = kernel(16 * model.clamped * model.expert_hidden * share.copies / t, model.clamped)
        found = found + mixtures * (activation(model.expert_hidden * share.copies) + clamped)
    if model.experts and "moe" in modules:
        routed = share.experts * feed_forward(share.expert_tokens, model.expert_hidden, share.expert_ranks)
        found = found + mixtures * (routed + kernel(ordered_bytes(model, share) / t))
    if model.shared_hidden and {"moe", "shared_experts"} & {*modules}:
        shared = feed_forward(u, model.shared_hidden, t) + activation(model.shared_hidden)
        found = found + mixtures * shared
    return found


def ordered_bytes(model: Transformer, share: LayerShare) -> Any:
    """Bytes of a token that are moved to order tokens by ranks, and where a rank has several experts by these."""
    return 8 * model.hidden * share.copies * (1 + (share.experts > 1))


def recomputed_operators(model: Transformer, modules: Collection[str], mixtures: Any, operators: Any) -> Any:
    """Share of a layer's operators whose exchange among tensor ranks comes again, routed experts apart.

    Parameters
    ----------
    model, modules
        What is trained, and what is made again.
    mixtures
        Share of mixture layers.
    operators
        Of a layer, as `Rank.operators`; a parallel block has one for both of its parts.

    Returns
    -------
    From 0 to 1.
    """
    if EVERY_OPERATOR in modules:
        return 0.5  # what is scattered is kept
    shared = bool(model.shared_hidden) and bool({"moe", "shared_experts"} & {*modules})
    again = (1 - mixtures) * ("mlp" in modules) + mixtures * shared
    return again / np.where(operators > 0, operators, 1.0)


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
    rank: Rank, scores: Passes, rest: Passes, tensor: LayerTraffic, expert: LayerTraffic
) -> tuple[float, dict[str, LinkTimes]]:
    """What the runtime's modules add to the backward pass.

    Parameters
    ----------
    rank
        With its runtime.
    scores, rest, tensor, expert
        Attention, other kernels, and traffic, of the passes.

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
    unfused = "core_attn" in modules and not rank.runtime.fused_attention
    form = rank.runtime.linear_format(rank.machine)
    again = scores.forward * unfused + rest.forward * (EVERY_OPERATOR in modules)
    again += float(recomputed_compute(model, rank.machine, modules, share, form))
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
