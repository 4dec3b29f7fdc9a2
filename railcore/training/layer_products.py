"""A layer's products with weights on one rank, and the two thin products of each adapter (LoRA).

x W of n columns and inner side k becomes x W + (x A) B, with A of k x r and B of r x n in bf16. Tensor ranks split an
adapter as the product beside it: where they split its columns (`linear_qkv`, `linear_fc1`) those of A and of B, where
they split its inner side (`linear_proj`, `linear_fc2`) that of A, and the columns of B. Symbols as in `rank`.

Sources: Hu et al. 2021, arXiv:2106.09685; GitHub NVIDIA-NeMo/Megatron-Bridge, src/megatron/bridge/peft/utils.py
(ParallelLinearAdapter).
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from railcore.training.products import expert_way
from railcore.training.rank import Rank
from railcore.training.transformer import Transformer
from railcore.training.transformer_memory import SPLIT_INSIDE


class LayerProduct(NamedTuple):
    """A product of a layer on a rank.

    name: of LORA_TARGETS.
    share: of the layers that have it.
    rows, columns, inner: of the result, and the side that is summed over.
    ranks: that split it.
    way: how many there are and how they start, as arguments of `product_passes`.
    routed: whether it is of routed experts.
    modules: of selective recompute that make it again.
    """

    name: str
    share: Any
    rows: Any
    columns: Any
    inner: Any
    ranks: Any
    way: dict[str, Any]
    routed: bool = False
    modules: tuple[str, ...] = ()


def layer_products(rank: Rank) -> Iterator[LayerProduct]:
    """All of a layer.

    Attention: u x its matrices. Feed-forward: u x (m - 1) f / t, inner h, and u x h, inner f / t; shared experts
    likewise. A rank has E / e routed experts, of u q e / E tokens each, q = `copies`; a whole expert has its full
    width, and 1 / t of the tokens.
    """
    model, u, t, single = rank.model, rank.tokens, rank.tensor, {"batch": 1}
    for product in model.attention_products(t):
        yield LayerProduct(product[0], 1.0, u, *product[1:], t, single)
    if model.mixture_share < 1:
        for product in model.feed_forward_products(model.ffn_hidden / t):
            yield LayerProduct(product[0], 1 - rank.mixtures, u, *product[1:], t, single, modules=("mlp",))
    if not model.experts:
        return
    ranks, way = rank.expert_ranks, expert_way(rank.runtime.expert_products, rank.experts)
    for product in model.feed_forward_products(model.expert_hidden / ranks):
        yield LayerProduct(product[0], rank.mixtures, rank.expert_tokens, *product[1:], ranks, way, True, ("moe",))
    if model.shared_hidden:
        for product in model.feed_forward_products(model.shared_hidden / t):
            modules = "moe", "shared_experts"
            yield LayerProduct(product[0], rank.mixtures, u, *product[1:], t, single, modules=modules)


def adapter_sides(model: Transformer, name: str, columns: Any, inner: Any, ranks: Any) -> list[tuple[Any, Any]]:
    """Columns and inner side of A and of B on one of the ranks that split a product; empty without an adapter.

    Parameters
    ----------
    model
        With the adapters' rank r.
    name, columns, inner, ranks
        Of the product, as in `LayerProduct`.

    Returns
    -------
    Two pairs, or none.
    """
    if not model.has_adapter(name):
        return []
    if name in SPLIT_INSIDE:
        return [(model.lora_rank, inner), (columns / ranks, model.lora_rank)]
    return [(model.lora_rank / ranks, inner), (columns, model.lora_rank)]


def added_elements(rank: Rank) -> tuple[Any, Any]:
    """Elements of a token that a rank adds for adapters: forward to the results of products, backward to gradients.

    A result that is whole on every rank is added in the slices of sequence parallelism. Backward the gradients of both
    products' inputs are added, before tensor ranks sum them.
    """
    forward: Any = 0.0
    backward: Any = 0.0
    for product in layer_products(rank):
        if rank.model.has_adapter(product.name):
            slices = (rank.norm_ranks > 1) * (product.ranks - 1) + 1
            times = product.share * product.way["batch"] * product.rows / rank.tokens
            forward = forward + times * product.columns / (slices if product.name in SPLIT_INSIDE else 1)
            backward = backward + times * product.inner
    return forward, backward


def adapters_of_layer(rank: Rank, routed: bool) -> Any:
    """Products with an adapter in the average layer: of routed experts, each linear layer once, or all others."""
    of_kind = (product for product in layer_products(rank) if product.routed is routed)
    return sum(product.share for product in of_kind if rank.model.has_adapter(product.name))
