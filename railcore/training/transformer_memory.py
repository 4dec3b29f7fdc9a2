"""What a rank holds of a transformer: activations of a layer, and weights, gradients and optimizer states.

The functions are methods of `transformer.Transformer`, whose symbols they use; model is one.
"""

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from railcore.catalog.arguments import Flags, PositiveArray
from railcore.training.formats import (
    BF16_BYTES,
    BF16_ELEMENTS,
    GRADIENT_BYTES,
    OPTIMIZER_BYTES,
    WEIGHT_BYTES,
    ElementBytes,
)

SPLIT_INSIDE = ("linear_proj", "linear_fc2")  # products whose inner side tensor ranks split; of others the columns
WHOLE_LAYERS = 2  # that a rank holds whole at a time where states are sharded: the one at work and the next
RECOMPUTE_MODULES = ("core_attn", "layernorm", "mla_up_proj", "moe_act", "mlp", "moe", "shared_experts")
EVERY_OPERATOR = "op"  # beside them: all of a dense layer but fused attention and every second product with weights


def layer_activation_bytes(
    model: Any,
    micro_batch: ArrayLike = 1,
    tensor: PositiveArray = 1,
    context: PositiveArray = 1,
    sequence_parallel: Flags = False,
    recompute: ArrayLike = 0,
    fused_attention: bool = False,
    dropout: bool = True,
    mixture_share: ArrayLike | None = None,
    modules: Collection[str] = ("core_attn",),
    element_bytes: ElementBytes = BF16_ELEMENTS,
    whole_experts: Flags = False,
) -> dict[str, np.ndarray]:
    """Bytes that one layer keeps on one rank for the backward pass of one micro-batch, by kind.

    Elements have 2 bytes here, or those of `element_bytes`.

    With u = s b h / c, and r = 1 / t where sequence_parallel else 1:

    - inputs 8 u r, of the norms, the attention and the feed-forward; 4 u r in a parallel block;
    - dropout 2 u r, its masks;
    - attention 2 (2 a + 2 k) d s b / (c t), at least one head of keys and values a rank; latent attention keeps its
      vectors 2 (query_rank + kv_rank + rope_dim) s b r / c, and the heads' queries, keys, values and output made from
      them 2 a (2 query_dim + 2 value_dim) s b / (c t);
    - scores 5 a s n b / (c t) with n keys of a query, s without windows; 2 in place of 5 without dropout, unless fused;
    - feed-forward 2 m s b f / (c t), in a mixture layer f_e top_k imbalance times and f_s once;
    - dispatched 2 u top_k imbalance, what was sent to the experts and gathered by the tensor ranks that split them;
      with whole experts 1 / t of it.

    Layers of both kinds are averaged. Full recompute keeps the layer's input alone, 2 u r. Selective recompute leaves
    out, by module:

    - core_attn: scores;
    - layernorm: half of the inputs, what the norms made;
    - mla_up_proj: queries, keys and values made from latent vectors;
    - moe_act: what the routed experts' activation function made, f_e of the m f_e;
    - mlp: the feed-forward of dense layers;
    - shared_experts: that of shared experts;
    - moe: the feed-forward of mixture layers, and what was dispatched.

    With lora_rank r, inputs of products are kept where they have an adapter, in bf16, and not where their weights are
    frozen alone; what adapters make in between, 2 r s b / c each, is kept too ("adapters"). Their dropout is left out.

    op keeps the layer's input and these results: of attention, and of every second product with weights, in the order
    queries, keys, values, output, feed-forward.

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
    modules
        What selective recompute makes again, of RECOMPUTE_MODULES and EVERY_OPERATOR.
    element_bytes
        Of kept elements.
    whole_experts
        Whether tensor ranks hold whole experts.

    Returns
    -------
    Bytes by kind, arrays of the arguments' shape.

    Raises
    ------
    ValueError
        For op in a model with experts or latent attention.

    References
    ----------
    Korthikanti et al. 2022, arXiv:2205.05198, Section 4: s b h (10 + 24/t + 5 a s / (h t)). Modules: Megatron-Core,
    megatron/core/transformer/transformer_config.py, recompute_modules; op: pytorch/torchtitan,
    torchtitan/parallelisms/parallelize_llama.py@004b314, selective_ac_option.
    """
    b, t, c = (np.asarray(value, float) for value in (micro_batch, tensor, context))
    level, size = np.asarray(recompute), element_bytes
    share = np.where(sequence_parallel, 1 / t, 1.0)
    tokens = model.sequence_length * b / c
    not_full, mixtures = level < 2, model.mixture_share if mixture_share is None else np.asarray(mixture_share, float)

    def unless(*names: str) -> Any:
        """Whether a layer keeps what these modules would make again."""
        return not_full & ((level < 1) | (not {*names} & {*modules}))

    def feed_forward(width: Any, whole: Any, result: Any) -> Any:
        """Bytes of a token: inputs and result of the activation function, each kept or not."""
        product = input_bytes("linear_fc2", size.of_product)
        return width * ((model.ffn_matrices - 1) * size.before_activation * whole + product * result)

    def input_bytes(name: str, trained: float) -> float:
        """Bytes of an element of a product's input: `trained` with trained weights, as adapters read it, or none."""
        return BF16_BYTES * model.has_adapter(name) if model.lora_rank else trained

    norms = 1 if model.parallel_block else 2
    keys = sum(part * most for part, most in model.attention_spans())
    copies, dense, moe, shared = model.expert_copies, unless("mlp"), unless("moe"), unless("moe", "shared_experts")
    wide = (1 - mixtures) * feed_forward(model.ffn_hidden, dense, dense)
    wide = wide + mixtures * copies * feed_forward(model.expert_hidden, moe, unless("moe", "moe_act"))
    wide = wide + mixtures * feed_forward(model.shared_hidden, shared, shared)
    of_norms = [input_bytes(name, size.of_product) for name in ("linear_qkv", "linear_fc1")]
    normed = (max(of_norms) if model.parallel_block else sum(of_norms)) * unless("layernorm")
    kinds = {
        "inputs": tokens * model.hidden * share * (np.where(not_full, 2 * norms, 2) + normed),
        "dropout": 2 * tokens * model.hidden * share * not_full * dropout,
        "attention": _attention_bytes(model, tokens, t, share, size, unless("mla_up_proj")) * not_full,
        "scores": (5 if dropout else 2) * model.heads / t * keys * tokens * unless("core_attn") * (not fused_attention),
        "feed-forward": tokens * wide / t,
        "dispatched": input_bytes("linear_fc1", size.dispatched)
        * tokens
        * model.hidden
        * np.where(whole_experts, 1 / t, 1.0)
        * moe
        * mixtures
        * copies,
    }
    if model.lora_rank:
        of_attention = sum(model.has_adapter(name) for name, *_ in model.attention_products(1)) * not_full
        rows = (1 - mixtures) * dense + mixtures * (copies * moe + shared * (model.shared_hidden > 0))
        of_feed_forward = sum(model.has_adapter(name) for name, *_ in model.feed_forward_products(1)) * rows
        kinds["adapters"] = BF16_BYTES * model.lora_rank * tokens * (of_attention + of_feed_forward)
    if EVERY_OPERATOR not in modules:
        return kinds
    if model.experts or model.kv_rank:
        raise ValueError(f"recompute_modules has {EVERY_OPERATOR}: it is of dense models without latent attention")
    queries, values = model.head_dim * model.heads / t, model.head_dim * model.kv_heads_of_rank(t)
    last = 2 * (model.ffn_matrices > 2)  # the last product's result, where their number is odd
    alone = {
        "inputs": tokens * model.hidden * share * (2 + last),
        "attention": tokens * (2 * queries + 2 * values + size.of_attention * model.value_dim * model.heads / t),
        "feed-forward": tokens * 2 * model.ffn_hidden / t,
    }
    return {kind: np.where(level == 1, alone.get(kind, 0.0), whole) for kind, whole in kinds.items()}


def _attention_bytes(model: Any, tokens: Any, t: Any, share: Any, size: ElementBytes, made: Any) -> Any:
    """Queries, keys, values and output of the heads on a rank, and the latent vectors that they are made from.

    made: whether queries, keys and values from latent vectors are kept.
    """
    output = size.of_attention * model.value_dim * model.heads / t
    if not model.kv_rank:
        return tokens * (2 * model.head_dim * (model.heads / t + 2 * model.kv_heads_of_rank(t)) + output)
    latent = (model.query_rank + model.kv_rank + model.rope_dim) * share
    heads = (2 * model.query_dim + model.value_dim) * model.heads / t
    return tokens * (2 * (latent + heads * made) + output)


@dataclass(frozen=True)
class RankParameters:
    """Parameters of each part of a model that one rank holds, where it has the part; numbers, or arrays of one shape.

    embedding, positions: of the first stage.
    output: of the last stage; 0 where it is tied to the embedding.
    tied: the copy of the embedding that the last of several stages has then, else 0.
    last_norm: before the logits.
    dense_layer, mixture_layer: of one layer, without routed experts.
    experts: the routed ones of one mixture layer.
    prediction: of the layers that predict further tokens, without routed experts and the embedding.
    """

    embedding: Any
    positions: Any
    output: Any
    tied: Any
    last_norm: Any
    dense_layer: Any
    mixture_layer: Any
    experts: Any
    prediction: Any = 0

    def times(self, factor: float) -> "RankParameters":
        """So many of each."""
        return RankParameters(*(factor * getattr(self, part.name) for part in fields(self)))

    @property
    def first(self) -> Any:
        """What the first stage of a pipeline has besides its layers."""
        return self.embedding + self.positions

    def last(self, pipeline: Any) -> Any:
        """What the last of p stages has besides its layers; one stage has `first` too, and no copy of the embedding."""
        copied = np.asarray(self.tied) + self.embedding * (np.asarray(self.prediction) > 0) * (
            np.asarray(self.tied) == 0
        )
        return self.output + copied * (np.asarray(pipeline) > 1) + self.last_norm + self.prediction

    def layers(self, dense: Any, mixture: Any) -> Any:
        """Parameters of so many layers without their routed experts."""
        return dense * self.dense_layer + mixture * self.mixture_layer


def rank_parameters(model: Any, tensor: Any = 1, expert: Any = 1, whole_experts: Any = False) -> RankParameters:
    """Parameters that one of t tensor and e expert ranks holds of each part of a model.

    Tensor ranks split the rows of embedding, positions and output, the heads, and the columns and rows of the
    feed-forward with the biases of its columns. Each of them has a copy of all else: norms, biases behind a sum, the
    router, the first products of latent attention, and a head of keys and values where t is more than their number.
    Copies are exchanged over the replicas like other parameters.

    Parameters
    ----------
    model
        A transformer.
    tensor, expert
        t and e ranks.
    whole_experts
        Whether tensor ranks hold whole experts. All arguments broadcast.

    Returns
    -------
    Parameters by part.

    References
    ----------
    Shoeybi et al. 2019, arXiv:1909.08053, Section 3; Megatron-LM, core/tensor_parallel and core/transformer.
    """
    t, e = np.asarray(tensor, float), np.asarray(expert, float)
    h, matrices, one_norm = model.hidden, model.attention_matrices(t), model.last_norm

    def feed_forward(width: int, slices: Any) -> Any:
        biases = (model.ffn_matrices - 1) * width / slices + h if model.biases and width else 0
        return model.ffn_matrices * h * width / slices + biases

    biases = sum(columns for columns, _ in matrices) * model.biases
    latents = (model.query_rank + model.kv_rank) * (2 if model.biases else 1)
    norms = (1 if model.parallel_block else 2) * one_norm + latents
    attention = sum(columns * inner for columns, inner in matrices) + biases + norms
    rows = model.vocabulary * h / t
    dense = attention + feed_forward(model.ffn_hidden, t)
    mixture = attention + model.experts * h + feed_forward(model.shared_hidden, t)
    predicting = 2 * h * h / t + 3 * one_norm + (mixture if model.experts else dense)
    return RankParameters(
        embedding=rows,
        positions=model.positions * h / t,
        output=rows * (not model.tied_embeddings),
        tied=rows * model.tied_embeddings,
        last_norm=one_norm,
        dense_layer=dense,
        mixture_layer=mixture,
        experts=model.experts / e * feed_forward(model.expert_hidden, np.where(whole_experts, 1, t)),
        prediction=model.mtp_layers * predicting,
    )


def rank_adapters(model: Any, tensor: Any = 1, expert: Any = 1, whole_experts: Any = False) -> RankParameters:
    """Parameters of adapters that one of t tensor and e expert ranks holds of each part of a model.

    k x r and r x n of a product of n columns and inner side k, which tensor ranks split as the product itself. What
    each rank has of the product, such as copied heads of keys, it has of its adapter. Predicting layers have those of a
    layer; embeddings and logits none.

    Parameters
    ----------
    model
        A transformer.
    tensor, expert, whole_experts
        As for `rank_parameters`.

    Returns
    -------
    Parameters by part.

    References
    ----------
    Hu et al. 2021, arXiv:2106.09685, Section 4.1; GitHub NVIDIA-NeMo/Megatron-Bridge, src/megatron/bridge/peft/lora.py
    and utils.py (ParallelLinearAdapter). There the experts of a rank share one adapter, unless share_expert_adapters
    is False: then each has its own, as here.
    """
    t, e = np.asarray(tensor, float), np.asarray(expert, float)
    slices = np.where(whole_experts, 1, t)  # of a routed expert

    def adapters(products: Any, ranks: Any) -> Any:
        """Of a rank's products: A over one side, and B over the other, of which one is split already."""
        ours = [(name in SPLIT_INSIDE, sides) for name, *sides in products if model.has_adapter(name)]
        return model.lora_rank * sum(sides[inside] + sides[1 - inside] / ranks for inside, sides in ours)

    attention = adapters(model.attention_products(t), t)
    shared = adapters(model.feed_forward_products(model.shared_hidden / t), t) if model.shared_hidden else 0
    routed = adapters(model.feed_forward_products(model.expert_hidden / slices), slices)
    wide = adapters(model.feed_forward_products(model.ffn_hidden / t), t)
    dense, mixture, nothing = attention + wide, attention + shared, 0 * t
    return RankParameters(
        embedding=nothing,
        positions=nothing,
        output=nothing,
        tied=nothing,
        last_norm=nothing,
        dense_layer=dense,
        mixture_layer=mixture,
        experts=model.experts / e * routed,
        prediction=model.mtp_layers * (mixture if model.experts else dense),
    )


def trained_and_frozen(
    model: Any, tensor: Any = 1, expert: Any = 1, whole_experts: Any = False
) -> tuple[RankParameters, RankParameters]:
    """Parameters that a rank trains, and those that it holds frozen: all and none, or adapters and all.

    Parameters
    ----------
    model
        A transformer.
    tensor, expert, whole_experts
        As for `rank_parameters`.

    Returns
    -------
    Both by part.
    """
    weights = model.rank_parameters(tensor, expert, whole_experts)
    adapters = model.rank_adapters(tensor, expert, whole_experts) if model.lora_rank else weights
    return adapters, weights.times(float(model.lora_rank > 0))


def stage_parameters(model: Any, tensor: Any, pipeline: Any, expert: Any = 1) -> tuple[Any, Any]:
    """Parameters on one rank of the fullest stage, layers of both kinds spread evenly over p stages; no adapters.

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
    return _of_fullest_stage(model, model.rank_parameters(tensor, expert), pipeline)


def _of_fullest_stage(model: Any, rank: RankParameters, pipeline: Any) -> tuple[Any, Any]:
    p, mixtures = np.asarray(pipeline), model.mixture_layers
    first, last = rank.first, rank.last(p)
    ends = np.where(p == 1, first + last, np.maximum(first, last))
    experts = rank.experts * (mixtures / p + model.mtp_layers)
    return rank.layers(model.layers - mixtures, mixtures) / p + ends, experts


def sharded_parameters(
    stage_parameters: tuple[Any, ...],
    replicas: Any,
    expert_replicas: Any,
    layers: Any,
    sharding: Any,
    whole_layers: int = WHOLE_LAYERS,
    sharded_gradients: bool = False,
    chunks: Any = 1,
) -> dict[str, Any]:
    """Parameters of a stage whose weights, gathered weights, gradients and optimizer states are on one rank.

    Of what is sharded a rank keeps its share. Besides, it has the weights of a few layers gathered, or their gradients
    before they are scattered; all gradients are never more than the stage's. Parameters without replicas are never
    gathered.

    Parameters
    ----------
    stage_parameters
        Of the stage before sharding: those that all tokens share, and those of routed experts.
    replicas, expert_replicas
        Ranks that hold the same of each.
    layers, sharding
        Of the stage, and index in SHARDING.
    whole_layers
        Layers that a rank holds whole at a time: the one at work and the next. 0: the shares alone.
    sharded_gradients
        Whether sharding "optimizer" keeps a share of the gradients, beside two chunks of whole ones.
    chunks
        Of a stage, whose gradients are then reduced one after the other.

    Returns
    -------
    weights, gathered, gradients, optimizer: numbers of parameters, arrays of one shape.

    References
    ----------
    Rajbhandari et al. 2020, arXiv:1910.02054, ZeRO stages 1 to 3; Zhao et al. 2023, arXiv:2304.11277 (FSDP).
    """
    shared, experts = stage_parameters
    all_parameters = shared + experts
    rank_share = shared / replicas + experts / expert_replicas
    with_replicas = np.where(replicas > 1, shared, 0.0) + np.where(expert_replicas > 1, experts, 0.0)
    whole = np.minimum(whole_layers / layers, 1.0) * with_replicas
    two_chunks = np.minimum(2 / chunks, 1.0) * with_replicas
    summed = np.minimum(rank_share + two_chunks, all_parameters) if sharded_gradients else all_parameters
    shards_optimizer, shards_gradients, shards_weights = sharding >= 1, sharding >= 2, sharding >= 3
    return {
        "weights": np.where(shards_weights, rank_share, all_parameters),
        "gathered": np.where(shards_weights, whole, 0.0),
        "gradients": np.select(
            [shards_gradients, shards_optimizer],
            [np.minimum(rank_share + whole, all_parameters), summed],
            all_parameters,
        ),
        "optimizer": np.where(shards_optimizer, rank_share, all_parameters),
    }


def state_bytes(
    model: Any,
    tensor: PositiveArray = 1,
    pipeline: PositiveArray = 1,
    replicas: PositiveArray = 1,
    sharding: ArrayLike = 0,
    expert: PositiveArray = 1,
    whole_layers: int = WHOLE_LAYERS,
) -> dict[str, np.ndarray]:
    """Bytes of weights, gradients and optimizer states on one rank of the stage that holds most parameters.

    Per trained parameter 2 bytes of weights, 4 of gradients (summed in fp32), 12 of optimizer (fp32 copy and two
    moments); per frozen one its frozen_bytes. Sharded as `sharded_parameters`.

    Parameters
    ----------
    model
        A transformer.
    tensor, pipeline, expert
        t, p and e ranks.
    replicas
        Ranks that hold the same shared parameters, c d; experts have c d / e replicas.
    sharding
        Index in SHARDING.
    whole_layers
        Layers that a rank holds whole at a time where their state is sharded.

    Returns
    -------
    weights, gradients, optimizer [bytes], each of the arguments' shape.
    """
    t, p, n, e = (np.asarray(value, float) for value in (tensor, pipeline, replicas, expert))
    layers = np.ceil(model.layers / p)
    trained, frozen = (_of_fullest_stage(model, held, p) for held in model.trained_and_frozen(t, e))
    places = (n, np.maximum(n // e, 1), layers, np.asarray(sharding), whole_layers)
    on_rank, base = (sharded_parameters(stage, *places) for stage in (trained, frozen))
    weights, frozen_weights = (
        np.minimum(held["weights"] + held["gathered"], sum(stage))
        for held, stage in ((on_rank, trained), (base, frozen))
    )
    return {
        "weights": WEIGHT_BYTES * weights + model.frozen_bytes * frozen_weights,
        "gradients": GRADIENT_BYTES * on_rank["gradients"],
        "optimizer": OPTIMIZER_BYTES * on_rank["optimizer"],
    }
