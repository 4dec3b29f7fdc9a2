"""Transformers for language: parameters, FLOPs, activation and state bytes, itemised; dense and mixture of experts.

Symbols: L layers, h hidden, a heads, k heads of keys and values, d elements of a head, f hidden of a feed-forward
layer, m its weight matrices (2, or 3 when gated), V vocabulary, s sequence length, E experts, b sequences of a
micro-batch; t tensor, c context and e expert parallel ranks. Every function takes arrays for b, t, c and e.
"""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from railcore.facts import catalog
from railcore.facts.arguments import checked
from railcore.facts.checks import one_of, whole

RECOMPUTE = ("none", "selective", "full")
SHARDING = ("none", "optimizer", "gradients", "weights")
LEVELS = {"recompute": RECOMPUTE, "sharding": SHARDING}  # names of what a column of strategies has as indices
WEIGHT_BYTES, GRADIENT_BYTES, OPTIMIZER_BYTES = 2, 4, 12


@checked
@dataclass(frozen=True)
class Transformer:
    """A decoder-only transformer.

    layers, hidden, heads, kv_heads, ffn_hidden, vocabulary, sequence_length: L, h, a, k, f, V, s.
    head_dim: d, by default h / a. ffn_matrices: 2, or 3 when gated (SwiGLU). positions: learned position embeddings,
    0 for none. tied_embeddings: input and output share their matrix. biases: of the linear and norm layers.
    parallel_block: attention and feed-forward read one normed input and add their outputs (PaLM).
    experts: E of each mixture layer, 0 for a dense model; top_k: experts of a token; expert_layer_interval: every so
    many layers one is a mixture; imbalance: load of the busiest expert over the mean.

    Raises ValueError naming the argument that is out of range.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn_hidden: int
    vocabulary: int
    sequence_length: int
    head_dim: int = 0
    ffn_matrices: int = 2
    positions: int = 0
    tied_embeddings: bool = True
    biases: bool = True
    parallel_block: bool = False
    experts: int = 0
    top_k: int = 1
    expert_layer_interval: int = 1
    imbalance: float = 1.0
    made_by = "Transformer(...), or the name of a model in the catalog"

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "heads", "kv_heads", "ffn_hidden", "vocabulary", "sequence_length", "top_k"):
            whole(name, getattr(self, name))
        for name in ("head_dim", "positions", "experts"):
            whole(name, getattr(self, name), least=0)
        if not self.head_dim:
            if self.hidden % self.heads:
                raise ValueError(f"heads is {self.heads}, which does not divide hidden {self.hidden}: give head_dim")
            object.__setattr__(self, "head_dim", self.hidden // self.heads)
        if self.heads % self.kv_heads:
            raise ValueError(f"kv_heads is {self.kv_heads}: give a divisor of heads {self.heads}")
        one_of("ffn_matrices", self.ffn_matrices, (2, 3))
        if self.experts and self.top_k > self.experts:
            raise ValueError(f"top_k is {self.top_k}: give at most experts {self.experts}")
        if self.experts and (self.expert_layer_interval < 1 or self.layers % self.expert_layer_interval):
            raise ValueError(f"expert_layer_interval is {self.expert_layer_interval}: give a divisor of {self.layers}")
        whole("expert_layer_interval", self.expert_layer_interval)
        if not 1 <= self.imbalance <= max(1, self.experts):
            raise ValueError(f"imbalance is {self.imbalance!r}: give 1 to experts {self.experts}")

    @property
    def mixture_layers(self) -> int:
        """Layers whose feed-forward is a mixture of experts."""
        return self.layers // self.expert_layer_interval if self.experts else 0

    @property
    def mixture_share(self) -> float:
        """Share of the layers whose feed-forward is a mixture of experts."""
        return self.mixture_layers / self.layers

    @property
    def expert_copies(self) -> float:
        """Tokens that the experts of the busiest rank take, over its own tokens: top_k imbalance."""
        return self.top_k * self.imbalance

    @property
    def attention_weights(self) -> int:
        """Weights of the four projections of a layer: h (2 a + 2 k) d."""
        return self.hidden * (2 * self.heads + 2 * self.kv_heads) * self.head_dim

    @property
    def ffn_weights(self) -> int:
        """Weights of one feed-forward, or of one expert: m h f."""
        return self.ffn_matrices * self.hidden * self.ffn_hidden

    @property
    def ffn_biases(self) -> int:
        """Biases of one feed-forward, or of one expert: (m - 1) f + h, or none."""
        return (self.ffn_matrices - 1) * self.ffn_hidden + self.hidden if self.biases else 0

    @property
    def expert_parameters(self) -> int:
        """Parameters of all experts with their biases; a rank holds those of its experts, and shares the rest."""
        return self.mixture_layers * self.experts * (self.ffn_weights + self.ffn_biases)

    @property
    def last_norm(self) -> int:
        """Parameters of the norm before the logits, as of every norm: h, or 2 h with biases."""
        return self.hidden * (2 if self.biases else 1)

    def parameters(self) -> dict[str, int]:
        """Parameters by kind; their sum is `total_parameters`.

        embedding V h, positions P h, output V h unless tied; of all layers attention, feed-forward (dense layers),
        experts E m h f and router E h of the mixture layers, biases (the experts' too), norms (the last one included).
        """
        dense, mixed = self.layers - self.mixture_layers, self.mixture_layers
        h, attention = self.hidden, (self.heads + 2 * self.kv_heads) * self.head_dim + self.hidden
        biases = self.layers * attention * self.biases + (dense + mixed * self.experts) * self.ffn_biases
        norms = (self.layers * (1 if self.parallel_block else 2) + 1) * self.last_norm
        return {
            "embedding": self.vocabulary * h,
            "positions": self.positions * h,
            "output": 0 if self.tied_embeddings else self.vocabulary * h,
            "attention": self.layers * self.attention_weights,
            "feed-forward": dense * self.ffn_weights,
            "experts": mixed * self.experts * self.ffn_weights,
            "router": mixed * self.experts * h,
            "biases": biases,
            "norms": norms,
        }

    @property
    def total_parameters(self) -> int:
        """All parameters, every expert included."""
        return sum(self.parameters().values())

    @property
    def active_parameters(self) -> int:
        """Parameters that one token meets: top_k of E experts."""
        unused = self.experts - self.top_k if self.experts else 0
        return self.total_parameters - self.expert_parameters // max(self.experts, 1) * unused

    def forward_flops(self, batch: ArrayLike = 1, causal: bool = False) -> dict[str, np.ndarray]:
        """FLOPs of the forward pass of `batch` sequences, by kind.

        projections 2 s h (2 a + 2 k) d and scores 4 s^2 a d a layer (half of it where causal skips what the mask
        hides), feed-forward 2 s m h f (top_k times in a mixture), router 2 s h E, logits 2 s h V.
        The documents and Megatron-LM count the scores in full: 24 s h^2 + 4 s^2 h a layer of a GPT.
        """
        b, s = np.asarray(batch, float), float(self.sequence_length)
        dense, mixed = self.layers - self.mixture_layers, self.mixture_layers
        return {
            "projections": b * 2 * s * self.attention_weights * self.layers,
            "scores": b * 4 * s * s * self.heads * self.head_dim * self.layers * (0.5 if causal else 1.0),
            "feed-forward": b * 2 * s * self.ffn_weights * (dense + mixed * self.top_k),
            "router": b * 2 * s * self.hidden * self.experts * mixed,
            "logits": b * 2 * s * self.hidden * self.vocabulary,
        }

    def training_flops(self, batch: ArrayLike = 1, recompute: str = "none", causal: bool = False) -> np.ndarray:
        """FLOPs of an iteration over `batch` sequences: forward, backward (twice the forward), recompute.

        recompute: "none", "selective" (the scores once more), "full" (all layers once more, not the logits).
        Source: Narayanan et al. 2021, Eq. (3): 96 b s L h^2 (1 + s / 6h + V / 16 L h) for full recompute.
        """
        forward = self.forward_flops(batch, causal)
        once = sum(forward.values())
        again = {"none": 0.0, "selective": forward["scores"], "full": once - forward["logits"]}
        return np.asarray(3 * once + again[one_of("recompute", recompute, RECOMPUTE)])

    def layer_activation_bytes(
        self,
        micro_batch: ArrayLike = 1,
        tensor: ArrayLike = 1,
        context: ArrayLike = 1,
        sequence_parallel: ArrayLike = False,
        recompute: ArrayLike = 0,
        fused_attention: bool = False,
        dropout: bool = True,
    ) -> dict[str, np.ndarray]:
        """Bytes that one layer keeps for one micro-batch's backward pass on one rank, by kind, in 2-byte elements.

        With u = s b h / c, and r = 1 / t where sequence_parallel else 1:

        - inputs 8 u r, of the norms, the attention and the feed-forward; 4 u r in a parallel block;
        - dropout 2 u r, its masks;
        - attention 2 (2 a + 2 k) d s b / (c t), at least one head of keys and values a rank;
        - scores 5 a s^2 b / (c t), 2 in place of 5 without dropout, unless selective or fused;
        - feed-forward 2 m s b f / (c t), in a mixture layer top_k imbalance times;
        - dispatched 2 u top_k imbalance r, what was sent to the experts.

        All layers are averaged. Full recompute keeps the layer's input alone, 2 u r.

        Parameters
        ----------
        micro_batch, tensor, context
            b [sequences], t and c [ranks].
        sequence_parallel, recompute
            Whether activations are split over the tensor ranks, and an index in RECOMPUTE; with the above of one shape.
        fused_attention, dropout
            Whether scores are never stored, and whether there is dropout.

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
        tokens = self.sequence_length * b / c
        kept, mixed = level < 2, self.mixture_share
        copies = 1 - mixed + mixed * self.expert_copies
        norms = 1 if self.parallel_block else 2
        scores = (
            (5 if dropout else 2) * self.heads / t * self.sequence_length * tokens * (level < 1) * (not fused_attention)
        )
        return {
            "inputs": 2 * tokens * self.hidden * share * np.where(kept, 2 * norms, 1),
            "dropout": 2 * tokens * self.hidden * share * kept * dropout,
            "attention": 2 * tokens * self.head_dim * (2 * self.heads / t + 2 * self.kv_heads_of_rank(t)) * kept,
            "scores": scores,
            "feed-forward": 2 * tokens * self.ffn_matrices * self.ffn_hidden / t * kept * copies,
            "dispatched": 2 * tokens * self.hidden * share * kept * mixed * self.expert_copies,
        }

    def kv_heads_of_rank(self, tensor: Any) -> Any:
        """Heads of keys and values on each of t tensor ranks, at least one: they are copied where t is more than k."""
        return np.maximum(self.kv_heads / tensor, 1)

    def stage_layers(self, pipeline: Any, interleave: Any = 1) -> Any:
        """Layers of a pipeline stage, L / p rounded up to whole chunks."""
        return np.ceil(self.layers / (pipeline * interleave)) * interleave

    def rank_parameters(self, tensor: Any, pipeline: Any, expert: Any = 1) -> tuple[Any, Any]:
        """Parameters on one rank of the fullest stage: (shared by all tokens, of its experts)."""
        kinds = self.parameters()
        edge = kinds["embedding"] + kinds["positions"]
        ends = edge + np.where(np.asarray(pipeline) == 1, kinds["output"], 0)  # the last stage's are no more
        inner = self.total_parameters - self.expert_parameters - edge - kinds["output"]
        return (inner / pipeline + ends) / tensor, self.expert_parameters / (pipeline * tensor * expert)

    def state_bytes(
        self,
        tensor: ArrayLike = 1,
        pipeline: ArrayLike = 1,
        replicas: ArrayLike = 1,
        sharding: ArrayLike = 0,
        expert: ArrayLike = 1,
        interleave: ArrayLike = 1,
        whole_layers: int = 2,
    ) -> dict[str, np.ndarray]:
        """Bytes of weights, gradients and optimizer states on one rank of the stage that holds most parameters.

        Per parameter 2 bytes of weights, 4 of gradients (summed in fp32), 12 of optimizer (fp32 copy and two moments).
        P / (t p) parameters without the embeddings, and those on the first stage on top. A sharded state is the rank's
        share of it, and besides the layers that it holds whole for a while: weights gathered for a pass, gradients
        not yet scattered (with these never more than all of the stage).

        Parameters
        ----------
        tensor, pipeline, expert, interleave
            t, p and e ranks, v model chunks of a device.
        replicas
            Ranks that hold the same shared parameters, c d; experts have c d / e replicas.
        sharding
            Index in SHARDING.
        whole_layers
            Layers that a rank holds whole at a time: the one at work and the next. 0: the shares alone.

        Returns
        -------
        weights, gradients, optimizer [bytes], each of the arguments' shape.

        References
        ----------
        Rajbhandari et al. 2020, arXiv:1910.02054, ZeRO stages 1 to 3; Zhao et al. 2023, arXiv:2304.11277 (FSDP).
        """
        t, p, n, e, v = (np.asarray(value, float) for value in (tensor, pipeline, replicas, expert, interleave))
        level = np.asarray(sharding)
        shared, experts = self.rank_parameters(t, p, e)
        all_of_stage, share = shared + experts, shared / n + experts / np.maximum(n // e, 1)
        layers = self.stage_layers(p, v)
        whole = np.where(n > 1, np.minimum(whole_layers, layers) * all_of_stage / layers, 0)
        return {
            "weights": WEIGHT_BYTES * np.where(level >= 3, share + whole, all_of_stage),
            "gradients": GRADIENT_BYTES * np.where(level >= 2, np.minimum(share + whole, all_of_stage), all_of_stage),
            "optimizer": OPTIMIZER_BYTES * np.where(level >= 1, share, all_of_stage),
        }


@checked
def catalog_model(name: str, **changes: Any) -> Transformer:
    """A model of the catalog, such as catalog_model("GPT-3", sequence_length=4096). Raises UnknownName."""
    item, kinds = catalog.item("models", name), get_type_hints(Transformer)
    needed = {field.name for field in fields(Transformer) if field.default is MISSING} - {"name", *changes}
    read: dict[str, Any] = {key: kind(item[key]) for key, kind in kinds.items() if key in item or key in needed}
    return Transformer(**{"name": name, **read, **changes})


@checked
def as_model(model: Transformer | str) -> Transformer:
    """A model as it is, or `catalog_model` of its name. Raises ValueError for anything else."""
    return model if isinstance(model, Transformer) else catalog_model(model)


@checked
def as_models(models: Mapping[str, Transformer | str] | Sequence[str]) -> dict[str, Transformer]:
    """Models by name, or names of the catalog's. Raises ValueError as `as_model`."""
    named = models if isinstance(models, Mapping) else {name: name for name in models}
    return {name: as_model(model) for name, model in named.items()}


@checked
def batch_sequences(name: str) -> int:
    """Published batch of a catalog model [sequences], where it is given in tokens divided by its sequence length."""
    item = catalog.item("models", name)
    tokens = item.row("batch").unit == "tokens"
    return round(item["batch"] / item["sequence_length"]) if tokens else int(item["batch"])


def model_flops_utilization(model_flops: ArrayLike, time_s: ArrayLike, gpus: ArrayLike, peak: ArrayLike) -> np.ndarray:
    """Share of the GPUs' peak rate that the model's own FLOPs use, recompute not counted: F / (T N R).

    Parameters
    ----------
    model_flops
        `Transformer.training_flops` without recompute, F [FLOP].
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
