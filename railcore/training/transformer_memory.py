"""What a rank holds of a transformer: activations of a layer, and weights, gradients and optimizer states.

The functions are methods of `transformer.Transformer`, whose symbols they use; model is one.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

WEIGHT_BYTES, GRADIENT_BYTES, OPTIMIZER_BYTES = 2, 4, 12
WHOLE_LAYERS = 2  # that a rank holds whole at a time where states are sharded: the one at work and the next


def layer_activation_bytes(
    model: Any,
    micro_batch: ArrayLike = 1,
    tensor: ArrayLike = 1,
    context: ArrayLike = 1,
    sequence_parallel: ArrayLike = False,
    recompute: ArrayLike = 0,
    fused_attention: bool = False,
    dropout: bool = True,
    mixture_share: ArrayLike | None = None,
) -> dict[str, np.ndarray]:
    """Bytes that one layer keeps for one micro-batch's backward pass on one rank, by kind, in 2-byte elements.

    With u = s b h / c, and r = 1 / t where sequence_parallel else 1:

    - inputs 8 u r, of the norms, the attention and the feed-forward; 4 u r in a parallel block;
    - dropout 2 u r, its masks;
    - attention 2 (2 a + 2 k) d s b / (c t), at least one head of keys and values a rank; latent attention keeps its
      vectors 2 (query_rank + kv_rank + rope_dim) s b r / c, and the heads' queries, keys, values and output made from
      them 2 a (2 query_dim + 2 value_dim) s b / (c t);
    - scores 5 a s n b / (c t) with n keys of a query, s without windows; 2 in place of 5 without dropout, unless
      selective or fused;
    - feed-forward 2 m s b f / (c t), in a mixture layer f_e top_k imbalance times and f_s once;
    - dispatched 2 u top_k imbalance r, what was sent to the experts.

    Layers of both kinds are averaged. Full recompute keeps the layer's input alone, 2 u r.

    Parameters
    ----------
    model
        A transformer.
    micro_batch, tensor, context
        b [sequences], t and c [ranks].
    sequence_parallel, recompute
        Whether activations are split over the tensor ranks, and an index in RECOMPUTE; with the above of one shape.
    fused_attention, dropout
        Whether scores are never stored, and whether there is dropout.
    mixture_share
        Share of the layers that are mixtures, by default of the whole model's.

    Returns
    -------
    Bytes by kind, arrays of the arguments' shape.

    References
    ----------
    Korthikanti et al. 2022, arXiv:2205.05198, Section 4: s b h (10 + 24/t + 5 a s / (h t)).
    """
    b, t, c = (np.asarray(value, float) for value in (micro_batch, tensor, context))
    level = np.asarray(recompute)
    share = np.where(sequence_parallel, 1 / t, 1.0)
    tokens = model.sequence_length * b / c
    kept, mixed = level < 2, model.mixture_share if mixture_share is None else np.asarray(mixture_share, float)
    wide = 1 - mixed + mixed * model.mixture_width(model.expert_copies)
    norms = 1 if model.parallel_block else 2
    keys = sum(part * most for part, most in model.attention_spans())
    return {
        "inputs": 2 * tokens * model.hidden * share * np.where(kept, 2 * norms, 1),
        "dropout": 2 * tokens * model.hidden * share * kept * dropout,
        "attention": _attention_bytes(model, tokens, t, share) * kept,
        "scores": (5 if dropout else 2) * model.heads / t * keys * tokens * (level < 1) * (not fused_attention),
        "feed-forward": 2 * tokens * model.ffn_matrices * model.ffn_hidden / t * kept * wide,
        "dispatched": 2 * tokens * model.hidden * share * kept * mixed * model.expert_copies,
    }


def _attention_bytes(model: Any, tokens: Any, t: Any, share: Any) -> Any:
    """Queries, keys, values and output of the heads on a rank, and the latent vectors that they are made from."""
    if not model.kv_rank:
        return 2 * tokens * model.head_dim * (2 * model.heads / t + 2 * model.kv_heads_of_rank(t))
    latent = (model.query_rank + model.kv_rank + model.rope_dim) * share
    return 2 * tokens * (latent + 2 * (model.query_dim + model.value_dim) * model.heads / t)


def rank_parameters(model: Any, tensor: Any, pipeline: Any, expert: Any = 1) -> tuple[Any, Any]:
    """Parameters on one rank of the fullest stage.

    Parameters
    ----------
    model
        A transformer.
    tensor, pipeline, expert
        t, p and e ranks.

    Returns
    -------
    Those that all tokens share, shared experts included, and those of its routed experts.
    """
    kinds = model.parameters()
    edge = kinds["embedding"] + kinds["positions"]
    ends = edge + np.where(np.asarray(pipeline) == 1, kinds["output"], 0)  # the last stage's are no more
    inner = model.total_parameters - model.expert_parameters - edge - kinds["output"]
    return (inner / pipeline + ends) / tensor, model.expert_parameters / (pipeline * tensor * expert)


def sharded_parameters(
    held: tuple[Any, ...],
    replicas: Any,
    expert_replicas: Any,
    layers: Any,
    sharding: Any,
    whole_layers: int = WHOLE_LAYERS,
    sharded_gradients: bool = False,
) -> dict[str, Any]:
    """Parameters of which a rank has weights of its own, weights gathered for a while, gradients, optimizer states.

    A sharded state is the rank's share, and for weights gathered and gradients not yet scattered the layers that it
    holds whole for a while besides; gradients are never more than all of the stage.

    Parameters
    ----------
    held
        Of the stage on one rank, shared by all tokens and of routed experts.
    replicas, expert_replicas
        Ranks that hold the same of each.
    layers, sharding
        Of the stage, and index in SHARDING.
    whole_layers
        Layers that a rank holds whole at a time: the one at work and the next. 0: the shares alone.
    sharded_gradients
        Whether sharding "optimizer" keeps a share of the gradients.

    Returns
    -------
    own, gathered, gradients, optimizer, arrays of one shape.

    References
    ----------
    Rajbhandari et al. 2020, arXiv:1910.02054, ZeRO stages 1 to 3; Zhao et al. 2023, arXiv:2304.11277 (FSDP).
    """
    shared, experts = held
    everything = shared + experts
    share = shared / replicas + experts / expert_replicas
    transient = np.where(replicas > 1, np.minimum(whole_layers, layers) * everything / layers, 0.0)
    level_1 = share if sharded_gradients else everything
    return {
        "own": np.where(sharding >= 3, share, everything),
        "gathered": np.where(sharding >= 3, transient, 0.0),
        "gradients": np.select(
            [sharding >= 2, sharding == 1], [np.minimum(share + transient, everything), level_1], everything
        ),
        "optimizer": np.where(sharding >= 1, share, everything),
    }


def state_bytes(
    model: Any,
    tensor: ArrayLike = 1,
    pipeline: ArrayLike = 1,
    replicas: ArrayLike = 1,
    sharding: ArrayLike = 0,
    expert: ArrayLike = 1,
    interleave: ArrayLike = 1,
    whole_layers: int = WHOLE_LAYERS,
) -> dict[str, np.ndarray]:
    """Bytes of weights, gradients and optimizer states on one rank of the stage that holds most parameters.

    Per parameter 2 bytes of weights, 4 of gradients (summed in fp32), 12 of optimizer (fp32 copy and two moments).
    P / (t p) parameters without the embeddings, and those on the first stage on top; sharded as `sharded_parameters`.

    Parameters
    ----------
    model
        A transformer.
    tensor, pipeline, expert, interleave
        t, p and e ranks, v model chunks of a device.
    replicas
        Ranks that hold the same shared parameters, c d; experts have c d / e replicas.
    sharding
        Index in SHARDING.
    whole_layers
        As for `sharded_parameters`.

    Returns
    -------
    weights, gradients, optimizer [bytes], each of the arguments' shape.
    """
    t, p, n, e, v = (np.asarray(value, float) for value in (tensor, pipeline, replicas, expert, interleave))
    layers = np.ceil(model.layers / (p * v)) * v
    held = model.rank_parameters(t, p, e)
    found = sharded_parameters(held, n, np.maximum(n // e, 1), layers, np.asarray(sharding), whole_layers)
    return {
        "weights": WEIGHT_BYTES * (found["own"] + found["gathered"]),
        "gradients": GRADIENT_BYTES * found["gradients"],
        "optimizer": OPTIMIZER_BYTES * found["optimizer"],
    }
