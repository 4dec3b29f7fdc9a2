"""What a layer keeps for its backward pass, and what selective recompute makes again, module by module.

    module           made again in the backward pass
    core_attn        scores and their use of the values, where attention is not fused
    layernorm        the norms
    mla_up_proj      queries, keys and values of the heads from latent vectors, and their positions
    moe_act          the activation function of the routed experts
    mlp              the feed-forward of dense layers, and what its tensor ranks exchange
    shared_experts   that of shared experts
    moe              the whole mixture: dispatch, routed and shared experts, and what their tensor ranks exchange
    op               all but fused attention and every second product (these are made again: keys, output, and the
                     second one of the feed-forward), and what tensor ranks gather. For dense models alone

Symbols as in `rank`.

Sources: Megatron-Core, megatron/core/transformer/transformer_config.py, recompute_modules; op: pytorch/torchtitan,
torchtitan/parallelisms/parallelize_llama.py@004b314, selective_ac_option.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.training.layer_products import adapter_sides
from railcore.training.machine import Machine
from railcore.training.products import expert_way, product_passes
from railcore.training.rank import Rank
from railcore.training.transformer_memory import EVERY_OPERATOR


def recomputed_compute(rank: Rank, machine: Machine) -> Any:
    """Forward compute of the runtime's recompute_modules [s]; without core_attn, and of op its products alone.

    Products are those of `layer_work.linear_times`, with their adapters. Other kernels move the bytes of
    `layer_work.elementwise_times` and start once. What is part of two modules counts once.
    """
    model, modules, form = rank.model, {*rank.runtime.recompute_modules}, rank.runtime.linear_format(machine)
    u, t, mixtures = rank.tokens, rank.tensor, rank.mixtures

    def kernel(bytes_of_token: Any, kernels: Any = 1) -> Any:
        return u * bytes_of_token / machine.hbm_Bps + kernels * machine.host.kernel_s

    def product(rows: Any, name: str, columns: Any, side: Any, ranks: Any = t, **way: Any) -> Any:
        thin = adapter_sides(model, name, columns, side, ranks)
        adapter = sum(product_passes(machine, rows, *sides, **way)[0] for sides in thin)
        return product_passes(machine, rows, columns, side, form=form, **way)[0] + adapter

    def activation(width: Any) -> Any:
        return kernel(2 * model.ffn_matrices * width / t)

    def feed_forward(rows: Any, width: Any, ranks: Any, **way: Any) -> Any:
        first, second = (product(rows, *sides, ranks, **way) for sides in model.feed_forward_products(width / ranks))
        return first + second

    seconds = 0 * u
    if EVERY_OPERATOR in modules:
        keys, heads = model.head_dim * model.kv_heads_of_rank(t), model.head_dim * model.heads / t
        inner, h = model.ffn_hidden / t, model.hidden
        second = ("linear_fc1", inner, h) if model.ffn_matrices > 2 else ("linear_fc2", h, inner)
        products = (("linear_qkv", keys, h), ("linear_proj", h, heads), second)
        return seconds + sum(product(u, *sides) for sides in products)
    if "layernorm" in modules:
        norms = 1 if model.parallel_block else 2
        seconds = seconds + kernel(4 * norms * model.hidden / rank.norm_ranks, norms)
    if "mla_up_proj" in modules and model.kv_rank:
        up = model.attention_products(t)[-3:-1]
        turned = 0 if model.positions else 4 * model.rope_dim * (model.heads + 1) / t
        seconds = seconds + sum(product(u, *sides) for sides in up) + kernel(turned)
    if "mlp" in modules and model.mixture_layers < model.layers:
        dense = feed_forward(u, model.ffn_hidden, t) + activation(model.ffn_hidden)
        seconds = seconds + (1 - mixtures) * dense
    if model.experts and {"moe", "moe_act"} & modules:
        clamped = kernel(16 * model.clamped * model.expert_hidden * rank.copies / t, model.clamped)
        seconds = seconds + mixtures * (activation(model.expert_hidden * rank.copies) + clamped)
    if model.experts and "moe" in modules:
        way = expert_way(rank.runtime.expert_products, rank.experts)
        routed = feed_forward(rank.expert_tokens, model.expert_hidden, rank.expert_ranks, **way)
        seconds = seconds + mixtures * (routed + kernel(ordered_bytes(rank) / t))
    if model.shared_hidden and {"moe", "shared_experts"} & modules:
        shared = feed_forward(u, model.shared_hidden, t) + activation(model.shared_hidden)
        seconds = seconds + mixtures * shared
    return seconds


def ordered_bytes(rank: Rank) -> Any:
    """Bytes moved for a token to order the tokens by ranks, and on a rank with several experts by experts."""
    return 8 * rank.model.hidden * rank.copies * (1 + (rank.experts > 1))


def recomputed_operators(rank: Rank) -> Any:
    """Share of a layer's `operators` whose exchange among tensor ranks selective recompute repeats, from 0 to 1."""
    modules = {*rank.runtime.recompute_modules}
    if EVERY_OPERATOR in modules:
        return 0.5  # inputs are gathered again; results, which were scattered, are kept
    shared = bool(rank.model.shared_hidden) and bool({"moe", "shared_experts"} & modules)
    again = (1 - rank.mixtures) * ("mlp" in modules) + rank.mixtures * shared
    return again / np.where(rank.operators > 0, rank.operators, 1.0)


def kept_bytes(rank: Rank, recompute: Any, modules: Collection[str] | None = None) -> Any:
    """Activations that a layer keeps for the backward pass of one micro-batch [bytes].

    Elements have the runtime's `element_bytes`.

    Parameters
    ----------
    rank
        Of the strategies.
    recompute
        Index in RECOMPUTE; a number, or of the rank's shape.
    modules
        What selective recompute makes again; None for the runtime's.

    Returns
    -------
    Bytes, of the rank's shape.
    """
    model, runtime = rank.model, rank.runtime
    if runtime.capacity and model.experts:
        model = replace(model, imbalance=rank.copies / model.top_k)
    kinds = model.layer_activation_bytes(
        rank.tokens / model.sequence_length,
        rank.tensor,
        1,
        rank.norm_ranks > 1,
        recompute,
        fused_attention=runtime.fused_attention,
        dropout=runtime.dropout,
        mixture_share=rank.mixtures,
        modules=runtime.recompute_modules if modules is None else modules,
        element_bytes=runtime.element_bytes(rank.narrow),
        whole_experts=rank.expert_ranks < rank.tensor,
    )
    return sum(kinds.values())


def working_bytes(kept: Sequence[Any], recompute: ArrayLike) -> Any:
    """Activations of the layer that is made again [bytes]: all of them, or what selective recompute did not keep.

    kept: `kept_bytes` by level of recompute. recompute: index in RECOMPUTE, of their shape.
    """
    level = np.asarray(recompute)
    return kept[0] * (level == 2) + (kept[0] - kept[1]) * (level == 1)
