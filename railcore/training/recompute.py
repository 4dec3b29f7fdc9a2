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

All of it is of one rank or of arrays. Symbols as in `rank`.

Sources: Megatron-Core, megatron/core/transformer/transformer_config.py, recompute_modules; op: pytorch/torchtitan,
torchtitan/parallelisms/parallelize_llama.py@004b314, selective_ac_option.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts.arguments import checked
from railcore.training.formats import LinearFormat
from railcore.training.link_times import NO_LINK, LinkTimes
from railcore.training.machine import Machine
from railcore.training.products import product_passes
from railcore.training.rank import LayerShare
from railcore.training.runtime import Runtime
from railcore.training.transformer import Transformer
from railcore.training.transformer_memory import EVERY_OPERATOR

_SCORES = frozenset({"core_attn"})


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


def kept_bytes(
    model: Transformer,
    machine: Machine,
    runtime: Runtime,
    share: LayerShare,
    recompute: Any,
    modules: Collection[str] | None = None,
) -> Any:
    """Activations that a layer keeps for the backward pass of one micro-batch [bytes].

    Elements have the runtime's `element_bytes`.

    Parameters
    ----------
    model, machine, runtime, share
        What is trained, on which GPU, with which software, and what of it is on a rank.
    recompute
        Index in RECOMPUTE; with the share's of one shape.
    modules
        What selective recompute makes again; None for the runtime's.

    Returns
    -------
    Bytes, of that shape.
    """
    if runtime.capacity and model.experts:
        model = replace(model, imbalance=share.copies / model.top_k)
    kinds = model.layer_activation_bytes(
        share.tokens / model.sequence_length,
        share.tensor,
        1,
        share.norm_ranks > 1,
        recompute,
        fused_attention=runtime.fused_attention,
        dropout=runtime.dropout,
        mixture_share=share.mixtures,
        modules=runtime.recompute_modules if modules is None else modules,
        element_bytes=runtime.element_bytes(machine.narrow),
        whole_experts=np.asarray(share.expert_ranks) < share.tensor,
    )
    return sum(kinds.values())


@checked
def working_bytes(kept: Sequence[Any], recompute: ArrayLike) -> Any:
    """Activations of the layer that is made again [bytes]: all of it, or of modules what it did not keep.

    kept: of `kept_bytes`, by level of recompute. recompute: index in RECOMPUTE, of their shape.
    """
    level = np.asarray(recompute)
    return kept[0] * (level == 2) + (kept[0] - kept[1]) * (level == 1)


class ForwardWork(NamedTuple):
    """Of a layer's forward pass: seconds of scores, other kernels and exposed traffic, and how long links are busy."""

    scores_s: Any
    rest_s: Any
    tensor_s: Any
    expert_s: Any
    tensor: LinkTimes
    expert: LinkTimes


def recomputed_modules(
    model: Transformer,
    machine: Machine,
    runtime: Runtime,
    share: LayerShare,
    operators: Any,
    work: ForwardWork,
    routed: LinkTimes,
) -> tuple[Any, dict[str, LinkTimes]]:
    """What the runtime's modules add to the backward pass.

    Parameters
    ----------
    model, machine, runtime, share
        As for `kept_bytes`.
    operators
        As for `recomputed_operators`.
    work
        Of the forward pass.
    routed
        Of its traffic between tensor ranks what is of routed experts.

    Returns
    -------
    Seconds, traffic that is not hidden included, and link time by kind of traffic.
    """
    modules, links = runtime.recompute_modules, dict.fromkeys(("tensor", "context", "expert"), NO_LINK)
    again = work.scores_s * ("core_attn" in modules and not runtime.fused_attention)
    if set(modules) <= _SCORES:
        return again, links
    again = again + work.rest_s * (EVERY_OPERATOR in modules)
    again = again + recomputed_compute(model, machine, modules, share, runtime.linear_format(machine))
    # Of the traffic of tensor ranks a share, and all or nothing of routed experts.
    part = recomputed_operators(model, modules, share.mixtures, operators)
    again = again + part * (work.tensor_s - routed.time_s)
    links["tensor"] = work.tensor.plus(routed.times(-1)).times(part)
    if "moe" in modules:
        again = again + routed.time_s + work.expert_s
        links |= {"tensor": links["tensor"].plus(routed), "expert": work.expert}
    return again, links
