"""Transformers for language: parameters, FLOPs, activation and state bytes, itemised; dense and mixture of experts.

Symbols: L layers, h hidden, a heads, k heads of keys and values, d elements of a head, f hidden of a feed-forward
layer, m its weight matrices (2, or 3 when gated), V vocabulary, s sequence length, E experts, b sequences of a
micro-batch; t tensor, c context and e expert parallel ranks. Every function takes arrays for b, t, c and e.

Multi-head latent attention (DeepSeek-AI 2024, arXiv:2405.04434, Section 2.1) makes the heads' queries from a vector of
`query_rank` elements, and their keys and values from one of `kv_rank`; keys have a rotary part that all heads share.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from railcore import catalog
from railcore.catalog.arguments import (
    Count,
    Listed,
    ListedOrNone,
    NonNegative,
    NonNegativeArray,
    NonNegativeInt,
    Positive,
    PositiveArray,
    checked,
)
from railcore.catalog.checks import one_of
from railcore.catalog.derived_fields import derive, given
from railcore.training import hugging_face, transformer_memory
from railcore.training.formats import WEIGHT_BYTES

RECOMPUTE = ("none", "selective", "full")
SHARDING = ("none", "optimizer", "gradients", "weights")
LEVELS = {"recompute": RECOMPUTE, "sharding": SHARDING}  # names of what a column of strategies has as indices
_OF_MIXTURES = ("expert_hidden", "shared_hidden", "dense_layers", "expert_groups", "token_groups")
_OF_LATENTS = ("query_rank", "rope_dim", "value_dim")
LORA_TARGETS = ("linear_qkv", "linear_proj", "linear_fc1", "linear_fc2")  # products of a layer, as Megatron names them
_DEFAULT_TARGETS = LORA_TARGETS[:2]


@checked
@dataclass(frozen=True)
class Transformer:
    """A decoder-only transformer.

    name: that tables show.
    layers: L.
    hidden: h, elements of a token between layers.
    heads: a, attention heads.
    kv_heads: k, heads of keys and values; fewer than a for grouped queries.
    ffn_hidden: f, inner width of the feed-forward part.
    vocabulary: V [tokens].
    sequence_length: s [tokens].
    head_dim: d, elements of a head; 0 for h / a.
    ffn_matrices: of the feed-forward part: 2, or 3 where it is gated (SwiGLU); by name, without a default.
    positions: learned position embeddings; 0 for none.
    tied_embeddings: whether input and output share their matrix.
    biases: whether linear and norm layers have one.
    parallel_block: whether attention and feed-forward read one normed input and add their outputs (PaLM).
    experts: E, of a mixture layer; 0 for a dense model.
    top_k: experts that a token passes.
    expert_layer_interval: every so many layers one is a mixture, after the dense ones.
    imbalance: tokens of the busiest expert over the mean.
    expert_hidden: f_e, inner width of an expert; 0 for f.
    shared_hidden: f_s, inner width of all experts together that every token passes besides.
    dense_layers: first layers, which have no experts.
    expert_groups: groups that the experts are in; 0 for none.
    token_groups: groups that the experts of one token may lie in at most; 0 for no limit.
    query_rank: of latent attention (MLA); 0 for queries straight from the hidden layer.
    kv_rank: of latent attention (MLA); 0 for ordinary heads.
    rope_dim: elements of a head's rotary part, beside the d others (MLA).
    value_dim: elements of a head's values; 0 for d.
    window: tokens that a layer attends to; 0 for all.
    mtp_layers: layers behind the others that each predict a token more (multi-token prediction, MTP): a projection of
        2 h to h, a layer, and one more pass of the logits; on the last stage of a pipeline.
    full_attention_interval: with a window, every so many layers one attends to the whole sequence; 0 for none.
    clamped: whether experts bound the inputs of their activation.
    lora_rank: r, of low-rank adapters beside frozen weights (LoRA), which alone are trained; 0: all weights are.
    lora_targets: products that have an adapter, of LORA_TARGETS: queries, keys and values (in latent attention each of
        their products), output of attention, gate and up, down; of experts each its own. Not embeddings and logits.
    frozen_bytes: of a frozen weight in memory [bytes]: 2 in bf16, 1 in fp8, 0.5 in NF4 (QLoRA). Scales are not counted.

    Raises ValueError naming the arguments that are out of range or do not go together.

    Examples
    --------
    >>> import railcore as rc
    >>> sizes = {"layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8}
    >>> sizes |= {"ffn_hidden": 14336, "ffn_matrices": 3, "vocabulary": 128256}
    >>> model = rc.Transformer(
    ...     "ours", **sizes, sequence_length=8192, tied_embeddings=False, biases=False
    ... )
    >>> f"{model.total_parameters:,}"
    '8,030,261,248'
    """

    name: str
    layers: Listed
    hidden: Count
    heads: Listed
    kv_heads: Count
    ffn_hidden: Count
    vocabulary: Count
    sequence_length: Count
    head_dim: NonNegativeInt = 0
    ffn_matrices: NonNegativeInt = field(kw_only=True)  # without a default: it is a third of most models
    positions: NonNegativeInt = 0
    tied_embeddings: bool = True
    biases: bool = True
    parallel_block: bool = False
    experts: ListedOrNone = 0
    top_k: Count = 1
    expert_layer_interval: Count = 1
    imbalance: NonNegative = 1.0
    expert_hidden: NonNegativeInt = 0
    shared_hidden: NonNegativeInt = 0
    dense_layers: NonNegativeInt = 0
    expert_groups: NonNegativeInt = 0
    token_groups: NonNegativeInt = 0
    query_rank: NonNegativeInt = 0
    kv_rank: NonNegativeInt = 0
    rope_dim: NonNegativeInt = 0
    value_dim: NonNegativeInt = 0
    window: NonNegativeInt = 0
    full_attention_interval: NonNegativeInt = 0
    clamped: bool = False
    mtp_layers: NonNegativeInt = 0
    lora_rank: NonNegativeInt = 0
    lora_targets: tuple[str, ...] = _DEFAULT_TARGETS
    frozen_bytes: Positive = WEIGHT_BYTES
    made_by = "Transformer(...), or the name of a model in the catalog"
    foreign_names = hugging_face.FOREIGN_NAMES

    def __post_init__(self) -> None:
        if not given(self, "head_dim"):
            if self.hidden % self.heads:
                raise ValueError(f"heads is {self.heads}, which does not divide hidden {self.hidden}: give head_dim")
            derive(self, "head_dim", self.hidden // self.heads)
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads is {self.kv_heads}: give a divisor of heads {self.heads}")
        one_of("ffn_matrices", self.ffn_matrices, (2, 3))
        for name in self.lora_targets:
            one_of("lora_targets", name, LORA_TARGETS)
        object.__setattr__(self, "lora_targets", tuple(dict.fromkeys(self.lora_targets)))
        if faults := [*self._mixture_obstacles(), *self._attention_obstacles(), *self._adapter_obstacles()]:
            raise ValueError("; ".join(faults))
        if not 1 <= self.imbalance <= max(1, self.experts):
            raise ValueError(f"imbalance is {self.imbalance!r}: give 1 to experts {self.experts}")
        for name, default in (("expert_hidden", self.ffn_hidden), ("value_dim", self.head_dim)):
            if not given(self, name):
                derive(self, name, default)

    @classmethod
    @checked
    def from_config(cls, config: str | Path | Mapping[str, object], **changes: Any) -> "Transformer":
        """The model of a config.json of Hugging Face.

        Families: Llama, Mistral, Mixtral, Qwen 2 and 3, DeepSeek-V2 and V3, Kimi K2, GPT-OSS, Gemma and GLM; of a model
        of images and text its text. A config.json says the longest sequence that a model takes, not that of a training:
        give sequence_length. Layers that predict further tokens are left out: give mtp_layers to train them.

        config: the file, its folder, or what it holds as a dictionary.
        changes: fields of `Transformer` in place of the file's, such as sequence_length=4096.

        Raises ValueError for what is no such file, and by name for what no field says, such as Mamba layers or sparse
        attention.

        Examples
        --------
        >>> import railcore as rc
        >>> sizes = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8}
        >>> ends = {"intermediate_size": 14336, "vocab_size": 128256, "max_position_embeddings": 131072}
        >>> model = rc.Transformer.from_config({"model_type": "llama", **sizes, **ends}, sequence_length=8192)
        >>> f"{model.total_parameters:,}"
        '8,030,261,248'
        """
        return cls(**hugging_face.config_fields(hugging_face.read_config(config), changes))

    def _mixture_obstacles(self) -> Iterator[str]:
        """What does not go together in the fields of mixtures of experts."""
        if not self.experts:
            names = [name for name in _OF_MIXTURES if given(self, name)]
            yield from (f"{name} is {getattr(self, name)}: give experts too" for name in names)
            return
        rest, groups = self.layers - self.dense_layers, self.expert_groups
        if self.top_k > self.experts:
            yield f"top_k is {self.top_k}: give at most experts {self.experts}"
        if rest < 0:
            yield f"dense_layers is {self.dense_layers}: give at most layers {self.layers}"
        elif rest % self.expert_layer_interval:
            yield f"expert_layer_interval is {self.expert_layer_interval}: give a divisor of {rest}"
        if (groups > 0) != (self.token_groups > 0):
            yield f"expert_groups is {groups} and token_groups {self.token_groups}: give both, or neither"
        elif groups and self.experts % groups:
            yield f"expert_groups is {groups}: give a divisor of experts {self.experts}"
        elif self.token_groups > groups:
            yield f"token_groups is {self.token_groups}: give at most expert_groups {groups}"
        elif groups and self.top_k > self.token_groups * self.experts // groups:
            yield f"top_k is {self.top_k}: {self.token_groups} of {groups} groups have fewer experts, give more groups"

    def _attention_obstacles(self) -> Iterator[str]:
        """What does not go together in the fields of latent attention and of windows."""
        if not self.kv_rank:
            names = [name for name in _OF_LATENTS if given(self, name)]
            yield from (f"{name} is {getattr(self, name)}: give kv_rank too" for name in names)
        elif self.kv_heads != self.heads:
            yield f"kv_heads is {self.kv_heads} with kv_rank {self.kv_rank}: give heads {self.heads}, each has its own"
        if self.full_attention_interval and not self.window:
            yield f"full_attention_interval is {self.full_attention_interval}: give window too"
        elif self.full_attention_interval > self.layers:
            yield f"full_attention_interval is {self.full_attention_interval}: give at most layers {self.layers}"

    def _adapter_obstacles(self) -> Iterator[str]:
        """What does not go together in the fields of adapters."""
        if self.lora_rank and not self.lora_targets:
            yield f"lora_targets is (): give some of {', '.join(LORA_TARGETS)}"
        for name, default in (("lora_targets", _DEFAULT_TARGETS), ("frozen_bytes", WEIGHT_BYTES)):
            if not self.lora_rank and getattr(self, name) != default:
                yield f"{name} is {getattr(self, name)!r}: give lora_rank too"

    @property
    def mixture_layers(self) -> int:
        """Layers whose feed-forward is a mixture of experts."""
        return (self.layers - self.dense_layers) // self.expert_layer_interval if self.experts else 0

    def has_experts(self, layer: int) -> bool:
        """Whether a layer, counted from 0, is a mixture: the last of every interval behind the dense layers."""
        behind = layer - self.dense_layers + 1
        return self.experts > 0 and behind > 0 and behind % self.expert_layer_interval == 0

    @property
    def mixture_share(self) -> float:
        """Share of the layers whose feed-forward is a mixture of experts."""
        return self.mixture_layers / self.layers

    @property
    def expert_copies(self) -> float:
        """Tokens that the experts of the busiest rank take, over its own tokens: top_k imbalance."""
        return self.top_k * self.imbalance

    def mixture_width(self, copies: float) -> float:
        """Feed-forward width that a token passes in a mixture layer, in f: copies f_e / f + f_s / f.

        copies: experts that take the token, with f_e = expert_hidden each; f_s = shared_hidden.
        """
        return copies * (self.expert_hidden / self.ffn_hidden) + self.shared_hidden / self.ffn_hidden

    @property
    def query_dim(self) -> int:
        """Elements of a head's query, and of its key: d, in latent attention with the rotary part."""
        return self.head_dim + self.rope_dim

    def attention_matrices(self, tensor: Any) -> list[tuple[Any, Any]]:
        """Products of attention with weights on one of t tensor ranks: (columns of the result, inner side) of each.

        Ordinary heads: queries, keys and values (d (a + 2 k) / t, h), and output (h, a d / t). Latent attention, with
        r = rope_dim: down (query_rank, h) and (kv_rank + r, h), whole on every rank; up (a (d + r) / t, query_rank),
        from h where there is no query_rank, and (a (d + value_dim) / t, kv_rank); output (h, a value_dim / t).
        """
        h, heads = self.hidden, self.heads / tensor
        output = (h, heads * self.value_dim)
        if not self.kv_rank:
            return [(self.head_dim * (heads + 2 * self.kv_heads_of_rank(tensor)), h), output]
        down = [(self.query_rank, h)] if self.query_rank else []
        up = [(heads * self.query_dim, self.query_rank or h), (heads * (self.head_dim + self.value_dim), self.kv_rank)]
        return [*down, (self.kv_rank + self.rope_dim, h), *up, output]

    def attention_products(self, tensor: Any) -> list[tuple[str, Any, Any]]:
        """Names, of LORA_TARGETS, with `attention_matrices`: columns and inner side."""
        *before, output = self.attention_matrices(tensor)
        return [*(("linear_qkv", *sides) for sides in before), ("linear_proj", *output)]

    def feed_forward_products(self, width: Any) -> list[tuple[str, Any, Any]]:
        """Names, columns and inner side of the products of a feed-forward of some width."""
        return [("linear_fc1", (self.ffn_matrices - 1) * width, self.hidden), ("linear_fc2", self.hidden, width)]

    def has_adapter(self, name: str) -> bool:
        """Whether a product, one of LORA_TARGETS, has an adapter beside its frozen weights."""
        return self.lora_rank > 0 and name in self.lora_targets

    def needs_input(self, name: str) -> bool:
        """Whether the backward pass needs a product's input, for gradients of its weights or of its adapter."""
        return not self.lora_rank or self.has_adapter(name)

    @property
    def attention_weights(self) -> int:
        """Weights of a layer's attention: h (2 a + 2 k) d with ordinary heads, else of `attention_matrices`."""
        return round(sum(columns * inner for columns, inner in self.attention_matrices(1)))

    def attention_spans(self) -> list[tuple[float, int]]:
        """Spans of attention: the share of the layers that have one, and the most keys that a query meets in it."""
        if not 0 < self.window < self.sequence_length:
            return [(1.0, self.sequence_length)]
        full = self.layers // self.full_attention_interval / self.layers if self.full_attention_interval else 0.0
        return [span for span in ((1 - full, self.window), (full, self.sequence_length)) if span[0]]

    @property
    def ffn_weights(self) -> int:
        """Weights of a dense feed-forward: m h f."""
        return self.ffn_matrices * self.hidden * self.ffn_hidden

    @property
    def expert_weights(self) -> int:
        """Weights of one expert: m h f_e."""
        return self.ffn_matrices * self.hidden * self.expert_hidden

    @property
    def shared_expert_weights(self) -> int:
        """Weights of a layer's shared experts: m h f_s."""
        return self.ffn_matrices * self.hidden * self.shared_hidden

    def _biases(self, width: int) -> int:
        """Biases of a feed-forward of some width: (m - 1) width + h, or none."""
        return (self.ffn_matrices - 1) * width + self.hidden if self.biases and width else 0

    @property
    def ffn_biases(self) -> int:
        """Biases of a dense feed-forward: (m - 1) f + h, or none."""
        return self._biases(self.ffn_hidden)

    @property
    def expert_biases(self) -> int:
        """Biases of one expert: (m - 1) f_e + h, or none."""
        return self._biases(self.expert_hidden)

    @property
    def shared_expert_biases(self) -> int:
        """Biases of a layer's shared experts, taken as one feed-forward: (m - 1) f_s + h, or none."""
        return self._biases(self.shared_hidden)

    @property
    def expert_parameters(self) -> int:
        """Parameters of all routed experts with biases; a rank holds those of its experts, and shares the rest."""
        mixtures = self.mixture_layers + self.mtp_layers * (self.experts > 0)
        return mixtures * self.experts * (self.expert_weights + self.expert_biases)

    @property
    def mtp_parameters(self) -> int:
        """Parameters of the layers that predict further tokens: projection, layer, norms of both inputs and at last."""
        whole = self.rank_parameters()
        return round(float(whole.prediction + self.mtp_layers * whole.experts))

    @property
    def last_norm(self) -> int:
        """Parameters of the norm before the logits, as of every norm: h, or 2 h with biases."""
        return self.hidden * (2 if self.biases else 1)

    def parameters(self) -> dict[str, int]:
        """Parameters by kind; their sum is `total_parameters`.

        embedding V h, positions P h, output V h unless tied; of all layers attention, feed-forward (dense layers),
        experts E m h f_e, shared experts m h f_s and router E h of the mixture layers, biases (the experts' too, the
        router has none), norms (of latent vectors too, and the last one); with mtp_layers all of those ("prediction").
        """
        dense, mixed = self.layers - self.mixture_layers, self.mixture_layers
        h, attention = self.hidden, round(sum(columns for columns, _ in self.attention_matrices(1)))
        biases = self.layers * attention * self.biases + dense * self.ffn_biases
        biases += mixed * (self.experts * self.expert_biases + self.shared_expert_biases)
        latents = (self.query_rank + self.kv_rank) * (2 if self.biases else 1)
        norms = (self.layers * (1 if self.parallel_block else 2) + 1) * self.last_norm
        return {
            "embedding": self.vocabulary * h,
            "positions": self.positions * h,
            "output": 0 if self.tied_embeddings else self.vocabulary * h,
            "attention": self.layers * self.attention_weights,
            "feed-forward": dense * self.ffn_weights,
            "experts": mixed * self.experts * self.expert_weights,
            "shared experts": mixed * self.shared_expert_weights,
            "router": mixed * self.experts * h,
            "biases": biases,
            "norms": norms + self.layers * latents,
        } | ({"prediction": self.mtp_parameters} if self.mtp_layers else {})

    @property
    def total_parameters(self) -> int:
        """All parameters, every expert included."""
        return sum(self.parameters().values())

    @property
    def trained_parameters(self) -> int:
        """Parameters that are trained: all, or with lora_rank those of the adapters, which come on top of all.

        r (n + k) for each product of n columns and inner side k that has an adapter; each expert has its own.
        """
        if not self.lora_rank:
            return self.total_parameters
        held, mixed = self.rank_adapters(), self.mixture_layers
        layers = held.layers(self.layers - mixed, mixed) + held.prediction
        return round(float(layers + held.experts * (mixed + self.mtp_layers)))

    @property
    def active_parameters(self) -> int:
        """Parameters that one token meets: top_k of E experts; its embedding counts whole."""
        unused = self.experts - self.top_k if self.experts else 0
        return self.total_parameters - self.expert_parameters // max(self.experts, 1) * unused

    @checked
    def forward_flops(self, batch: NonNegativeArray = 1, causal: bool = True) -> dict[str, np.ndarray]:
        """FLOPs of the forward pass of `batch` sequences, by kind.

        projections 2 s h (2 a + 2 k) d (of latent attention 2 s times its weights) and scores 2 s^2 a d a layer:
        attention is causal, so that a query meets n (1 - n / 2 s) of n keys at most on average, half of them where
        n = s, and takes 2 a (query_dim + value_dim) for each; feed-forward 2 s m h f (of a mixture 2 s m h (top_k f_e +
        f_s)), router 2 s h E, logits 2 s h V. With mtp_layers "prediction" has theirs: of projection 4 s h^2, layer and
        logits. With lora_rank "adapters" has 2 s for each of their parameters that a token meets.

        causal: False counts scores that the mask hides too, 4 s^2 a d, as the documents, Narayanan et al. 2021 and
        published shares of the peak rate of their time do.
        Source: GitHub NVIDIA/Megatron-LM, megatron/training/training.py, num_floating_point_operations (2025): half.
        """
        b, s = np.asarray(batch, float), float(self.sequence_length)
        dense, mixed = self.layers - self.mixture_layers, self.mixture_layers
        elements = self.query_dim + self.value_dim
        scores = [
            b * 2 * s * keys * self.heads * elements * self.layers * share * (1 - keys / (2 * s) if causal else 1.0)
            for share, keys in self.attention_spans()
        ]
        flops = {
            "projections": b * 2 * s * self.attention_weights * self.layers,
            "scores": np.asarray(sum(scores)),
            "feed-forward": b * 2 * s * self.ffn_weights * (dense + mixed * self.mixture_width(self.top_k)),
            "router": b * 2 * s * self.hidden * self.experts * mixed,
            "logits": b * 2 * s * self.hidden * self.vocabulary,
        }
        if self.mtp_layers:
            width = self.mixture_width(self.top_k) if self.experts else 1.0
            weights = self.attention_weights + self.ffn_weights * width + self.hidden * (2 * self.hidden + self.experts)
            of_one = b * 2 * s * weights + flops["scores"] / self.layers + flops["logits"]
            flops["prediction"] = self.mtp_layers * of_one
        if self.lora_rank:
            held, met = self.rank_adapters(), self.top_k / max(self.experts, 1) * (mixed + self.mtp_layers)
            flops["adapters"] = b * 2 * s * (held.layers(dense, mixed) + held.prediction + held.experts * met)
        return flops

    @checked
    def training_flops(self, batch: NonNegativeArray = 1, recompute: str = "none", causal: bool = True) -> np.ndarray:
        """FLOPs of an iteration over `batch` sequences: forward, backward (twice the forward), recompute.

        With lora_rank, what is computed: products with frozen weights have a gradient of their inputs alone, so that
        their backward pass is one forward pass; scores and adapters have both.

        recompute: "none", "selective" (the scores once more), "full" (all layers once more, not the logits). causal: as
        for `forward_flops`.
        Source: Narayanan et al. 2021, Eq. (3): 96 b s L h^2 (1 + s / 6h + V / 16 L h) for full recompute of a GPT, all
        scores counted.
        """
        forward = self.forward_flops(batch, causal)
        all_kinds = sum(forward.values())
        logits = (1 + self.mtp_layers) * forward["logits"]
        again = {"none": 0.0, "selective": forward["scores"], "full": all_kinds - logits}
        frozen: Any = 0.0
        if self.lora_rank:
            scores = forward["scores"] * (1 + self.mtp_layers / self.layers)  # those of predicting layers too
            frozen = all_kinds - scores - forward["adapters"]
        return np.asarray(3 * all_kinds - frozen + again[one_of("recompute", recompute, RECOMPUTE)])

    def kv_heads_of_rank(self, tensor: Any) -> Any:
        """Heads of keys and values on each of t tensor ranks, at least one: they are copied where t is more than k."""
        return np.maximum(self.kv_heads / tensor, 1)

    def key_value_elements(self, tensor: Any) -> Any:
        """Elements of a token's keys and values in a layer on each of t tensor ranks, latent ones made into heads."""
        if self.kv_rank:
            return self.heads / tensor * (self.query_dim + self.value_dim)
        return 2 * self.kv_heads_of_rank(tensor) * self.head_dim

    layer_activation_bytes = transformer_memory.layer_activation_bytes
    rank_parameters = transformer_memory.rank_parameters
    rank_adapters = transformer_memory.rank_adapters
    trained_and_frozen = transformer_memory.trained_and_frozen
    stage_parameters = transformer_memory.stage_parameters
    state_bytes = transformer_memory.state_bytes


@checked
def catalog_model(name: str, **changes: Any) -> Transformer:
    """A model of the catalog, such as "Llama-3 70B".

    name: of the model, such as "GPT-3" (`railcore list models`).
    changes: other fields of `Transformer` in place of the catalog's, such as sequence_length=4096.

    Raises UnknownName listing the nearest names.

    Examples
    --------
    >>> import railcore as rc
    >>> model = rc.catalog_model("Llama-3 70B", sequence_length=4096)
    >>> model.layers, model.hidden, model.sequence_length
    (80, 8192, 4096)
    """
    item, kinds = catalog.item("models", name), get_type_hints(Transformer)
    needed = {part.name for part in fields(Transformer) if part.default is MISSING} - {"name", *changes}
    values: dict[str, Any] = {key: kind(item[key]) for key, kind in kinds.items() if key in item or key in needed}
    return Transformer(**{"name": name, **values, **changes})


def as_model(model: Transformer | str) -> Transformer:
    """A model as it is, or `catalog_model` of its name. Raises ValueError for anything else."""
    return model if isinstance(model, Transformer) else catalog_model(model)


def as_models(models: Mapping[str, Transformer | str] | Sequence[str]) -> dict[str, Transformer]:
    """Models by name, or names of the catalog's. Raises ValueError as `as_model`."""
    named = models if isinstance(models, Mapping) else {name: name for name in models}
    return {name: as_model(model) for name, model in named.items()}


def batch_sequences(name: str) -> int:
    """Published batch of a catalog model [sequences], where it is given in tokens divided by its sequence length."""
    item = catalog.item("models", name)
    tokens = item.row("batch").unit == "tokens"
    return round(item["batch"] / item["sequence_length"]) if tokens else int(item["batch"])


def model_flops_utilization(
    model_flops: ArrayLike, time_s: PositiveArray, gpus: PositiveArray, peak: PositiveArray
) -> np.ndarray:
    """Share of the GPUs' peak rate that the model's own FLOPs use, recompute not counted: F / (T N R).

    Parameters
    ----------
    model_flops
        `Transformer.training_flops` without recompute, F [FLOP]: of causal attention what is computed, and of frozen
        weights no gradients.
    time_s, gpus, peak
        Iteration time T [s], GPUs N, and peak rate of a GPU R [FLOP/s].

    Returns
    -------
    A share, of the arguments' shape.

    References
    ----------
    Chowdhery et al. 2022, arXiv:2204.02311, Appendix B.
    """
    seconds = np.asarray(time_s, float) * np.asarray(gpus, float)
    return np.asarray(model_flops, float) / (seconds * np.asarray(peak, float))
