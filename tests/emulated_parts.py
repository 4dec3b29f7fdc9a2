"""Parts of a transformer in float64, each with its backward pass by hand: norm, attention, feed-forward, experts.

A backward pass takes weights w and adds to their gradients g. The parts take slices of weights as well: a rank of
`emulated_block` calls them with its heads, its columns and its rows of the vocabulary.

Activations are [sequence, batch, ...]: s positions, b sequences. Weights are named by unit ("embedding", "positions",
"layer 0" ..., "last norm", "output") and then by tensor: q [h, a, d], k and v [h, k, d], o [a, d, h]; up and, where
gated, gate [h, f], down [f, h]; embedding and output [V, h], positions [P, h]; scale and shift of each norm [h], and
biases. With biases a norm is LayerNorm and else RMSNorm; the feed-forward is GELU's with two matrices and SwiGLU with
three. Position embeddings are added to the tokens', there are no rotary ones, and no dropout: none of them sends.

A mixture layer i has a router [h, E] in its unit, and its experts' tensors in a unit "experts i", E in front. Its
tokens go to experts by their position, position j to j k ... j k + k - 1 modulo E, so that all experts have equally
many; the router's chances (softmax over all experts) weight what they give.
"""

from typing import NamedTuple

import numpy as np

from railcore.catalog.checks import Floats, Ints
from railcore.training.transformer import Transformer

Tensors = dict[str, Floats]
Weights = dict[str, Tensors]
_EPSILON = 1e-5  # of a norm
_GELU = np.sqrt(2 / np.pi), 0.044715


def operators(model: Transformer, layer: int = 0) -> tuple[tuple[str, ...], ...]:
    """What follows each norm of a layer: attention, then feed-forward or experts, or both at once in a parallel block.

    Of every `expert_layer_interval` layers of a mixture the last has experts.
    """
    last = "experts" if model.has_experts(layer) else "ffn"
    return (("attention", last),) if model.parallel_block else (("attention",), (last,))


def unit_shapes(model: Transformer) -> dict[str, dict[str, tuple[int, ...]]]:
    """Shape of every tensor of a model by unit and name; the elements are `model.total_parameters`.

    Not of latent attention, windows, shared experts, limited groups and experts of another width.
    """
    h, f, d = model.hidden, model.ffn_hidden, model.head_dim
    a, k = (model.heads, d), (model.kv_heads, d)
    heads: dict[str, tuple[int, ...]] = {"q": (h, *a), "k": (h, *k), "v": (h, *k), "o": (*a, h)}
    ffn: dict[str, tuple[int, ...]] = {"up": (h, f), "gate": (h, f), "down": (f, h)}
    last: dict[str, tuple[int, ...]] = {"scale0": (h,)}
    if model.biases:
        heads |= {"q_bias": a, "k_bias": k, "v_bias": k, "o_bias": (h,)}
        ffn |= {"up_bias": (f,), "gate_bias": (f,), "down_bias": (h,)}
        last["shift0"] = (h,)
    if model.ffn_matrices == 2:
        ffn = {name: shape for name, shape in ffn.items() if not name.startswith("gate")}
    units: dict[str, dict[str, tuple[int, ...]]] = {"embedding": {"embedding": (model.vocabulary, h)}}
    units |= {"positions": {"positions": (model.positions, h)}} if model.positions else {}
    for layer in range(model.layers):
        blocks = operators(model, layer)
        norms = {f"{name[:-1]}{i}": shape for name, shape in last.items() for i in range(len(blocks))}
        mixture = "experts" in blocks[-1]
        units[f"layer {layer}"] = heads | norms | ({"router": (h, model.experts)} if mixture else ffn)
        if mixture:
            units[f"experts {layer}"] = {name: (model.experts, *shape) for name, shape in ffn.items()}
    return (
        units | {"last norm": last} | ({} if model.tied_embeddings else {"output": {"output": (model.vocabulary, h)}})
    )


def starting_weights(model: Transformer, seed: int = 0) -> Weights:
    """Random weights, all biases and norms other than 0 and 1."""
    rng = np.random.default_rng(seed)

    def drawn(unit: str, name: str, shape: tuple[int, ...]) -> Floats:
        if len(shape) == 1 or name.endswith("bias"):
            return float(name.startswith("scale")) + 0.1 * rng.standard_normal(shape)
        inputs = shape[:2] if name == "o" else shape[1:2] if unit.startswith("experts") else shape[:1]
        return rng.standard_normal(shape) / np.sqrt(np.prod(inputs))

    units = unit_shapes(model).items()
    return {unit: {name: drawn(unit, name, shape) for name, shape in shapes.items()} for unit, shapes in units}


def random_tokens(model: Transformer, global_batch: int, seed: int = 0) -> Ints:
    """Sequences of random tokens [batch, s + 1]: each position's target is the next token."""
    shape = (global_batch, model.sequence_length + 1)
    return np.random.default_rng(seed).integers(0, model.vocabulary, shape)


def normalise(x: Floats, w: Tensors, i: int = 0) -> Floats:
    """Norm i of a unit, over the last axis: LayerNorm where it has a shift, else RMSNorm."""
    return _standard(x, w, i)[0] * w[f"scale{i}"] + w.get(f"shift{i}", 0.0)


def normalise_backward(dn: Floats, x: Floats, w: Tensors, g: Tensors, i: int = 0) -> Floats:
    """Gradient of the input x of norm i of a unit, from that of its output, dn."""
    standard, size = _standard(x, w, i)
    g[f"scale{i}"] += (dn * standard).sum(axis=(0, 1))
    dn_scaled = dn * w[f"scale{i}"]
    dx = dn_scaled - standard * (dn_scaled * standard).mean(axis=-1, keepdims=True)
    if f"shift{i}" in w:
        g[f"shift{i}"] += dn.sum(axis=(0, 1))
        dx -= dn_scaled.mean(axis=-1, keepdims=True)
    return dx / size


def _standard(x: Floats, w: Tensors, i: int) -> tuple[Floats, Floats]:
    """x over its size, less its mean where the norm has a shift; and the size."""
    centred = x - x.mean(axis=-1, keepdims=True) if f"shift{i}" in w else x
    size = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + _EPSILON)
    return centred / size, size


class Projected(NamedTuple):
    """Queries [s, b, a, d], keys and values [s, b, k, d]."""

    q: Floats
    k: Floats
    v: Floats


def project(n: Floats, w: Tensors) -> Projected:
    """Queries, keys and values of a normed input."""
    return Projected(*(np.tensordot(n, w[name], 1) + w.get(f"{name}_bias", 0.0) for name in Projected._fields))


def project_backward(n: Floats, gradients: Projected, w: Tensors, g: Tensors) -> Floats:
    """Gradient of the input n of `project`, from those of queries, keys and values."""
    dn = np.zeros_like(n)
    for name, each in zip(Projected._fields, gradients, strict=True):
        g[name] += np.tensordot(n, each, ((0, 1), (0, 1)))
        if f"{name}_bias" in w:
            g[f"{name}_bias"] += each.sum(axis=(0, 1))
        dn += np.tensordot(each, w[name], ((2, 3), (1, 2)))
    return dn


def attention_scores(qkv: Projected, first: int = 0) -> Floats:
    """Causal softmax [b, a, queries, keys]; first: place of the first query among the keys."""
    q, k, _ = _by_query_head(qkv)
    scores = np.einsum("ibad,jbad->baij", q, k) / np.sqrt(q.shape[-1])
    later = np.arange(len(k)) > np.arange(len(q))[:, None] + first
    scores = np.exp(
        np.where(later, -np.inf, scores - scores.max(axis=-1, where=~later, initial=-np.inf, keepdims=True))
    )
    return scores / scores.sum(axis=-1, keepdims=True)


def attended(qkv: Projected, scores: Floats) -> Floats:
    """Values weighted by scores [s, b, a, d]."""
    return np.einsum("baij,jbad->ibad", scores, _by_query_head(qkv).v)


def attended_backward(gradient: Floats, qkv: Projected, scores: Floats) -> Projected:
    """Gradients of queries, keys and values."""
    q, k, v = _by_query_head(qkv)
    by_score = np.einsum("ibad,jbad->baij", gradient, v)
    by_score = scores * (by_score - (by_score * scores).sum(axis=-1, keepdims=True)) / np.sqrt(q.shape[-1])
    dk = np.einsum("baij,ibad->jbad", by_score, q)
    dv = np.einsum("baij,ibad->jbad", scores, gradient)
    grouped = (*qkv.k.shape[:3], -1, qkv.k.shape[3])
    return Projected(
        np.einsum("baij,jbad->ibad", by_score, k), dk.reshape(grouped).sum(axis=3), dv.reshape(grouped).sum(axis=3)
    )


def _by_query_head(qkv: Projected) -> Projected:
    """Keys and values repeated for the queries' heads that share them."""
    times = qkv.q.shape[2] // qkv.k.shape[2]
    return Projected(qkv.q, np.repeat(qkv.k, times, axis=2), np.repeat(qkv.v, times, axis=2))


def output_backward(dy: Floats, of_heads: Floats, w: Tensors, g: Tensors) -> Floats:
    """Gradient of what attention gives to its output projection, from that of the projection, dy."""
    g["o"] += np.tensordot(of_heads, dy, ((0, 1), (0, 1)))
    return np.tensordot(dy, w["o"], (2, 2))


def widened(n: Floats, w: Tensors) -> Tensors:
    """Feed-forward up to its last matrix: up, gate where there is one, and wide, which that matrix multiplies."""
    names = [name for name in ("up", "gate") if name in w]
    kept: Tensors = {name: n @ w[name] + w.get(f"{name}_bias", 0.0) for name in names}
    return kept | {"wide": _activated(kept)[0]}


def widened_backward(dy: Floats, n: Floats, kept: Tensors, w: Tensors, g: Tensors) -> Floats:
    """Gradient of the input n of a feed-forward, from that of its output, dy; kept: what `widened` gave."""
    g["down"] += np.tensordot(kept["wide"], dy, ((0, 1), (0, 1)))
    wide, dn = dy @ w["down"].T, np.zeros_like(n)
    slopes: Tensors = _activated(kept)[1]
    for name, slope in slopes.items():
        each = wide * slope
        g[name] += np.tensordot(n, each, ((0, 1), (0, 1)))
        if f"{name}_bias" in w:
            g[f"{name}_bias"] += each.sum(axis=(0, 1))
        dn += each @ w[name].T
    return dn


def _activated(kept: Tensors) -> tuple[Floats, Tensors]:
    """GELU of up, or SiLU of gate times up; and its slopes."""
    x = kept["up"]
    if "gate" in kept:
        gate = kept["gate"]
        sigmoid = 1 / (1 + np.exp(-gate))
        return sigmoid * gate * x, {"up": sigmoid * gate, "gate": x * sigmoid * (1 + gate * (1 - sigmoid))}
    scale, cubic = _GELU
    bent = np.tanh(scale * (x + cubic * x**3))
    slope = (1 + bent) / 2 + x / 2 * (1 - bent**2) * scale * (1 + 3 * cubic * x**2)
    return x / 2 * (1 + bent), {"up": slope}


def expert_chances(n: Floats, w: Tensors) -> Floats:
    """What the router gives each expert [s, b, E]."""
    logits = n @ w["router"]
    chances = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return chances / chances.sum(axis=-1, keepdims=True)


def expert_chances_backward(by_chance: Floats, chances: Floats, n: Floats, w: Tensors, g: Tensors) -> Floats:
    """Gradient of the router's input n, from that of its chances."""
    by_logit = chances * (by_chance - (by_chance * chances).sum(axis=-1, keepdims=True))
    g["router"] += np.tensordot(n, by_logit, ((0, 1), (0, 1)))
    return by_logit @ w["router"].T


def expert_positions(model: Transformer, positions: int, first: int = 0) -> Ints:
    """Positions whose tokens go to each expert [E, positions k / E], counted from `first`, the place of the first one.

    E divides positions k: all experts have equally many.
    """
    place, choice = np.indices((positions, model.top_k)).reshape(2, -1)
    expert = ((place + first) * model.top_k + choice) % model.experts
    return place[np.argsort(expert, kind="stable")].reshape(model.experts, -1)


def one_expert(tensors: Tensors, expert: int) -> Tensors:
    """The tensors of one expert, which share the memory of all."""
    return {name: each[expert] for name, each in tensors.items()}


def table_rows(table: Floats, index: Ints, first: int = 0) -> Floats:
    """Rows of a table, 0 where another rank has them; first: the number of the table's first row."""
    local = index - first
    here = (local >= 0) & (local < len(table))
    return table[np.where(here, local, 0)] * here[..., None]


def add_table_rows(table: Floats, index: Ints, gradient: Floats, first: int = 0) -> None:
    """Add a gradient of what `table_rows` gave to the rows of a table of gradients."""
    local = index - first
    here = (local >= 0) & (local < len(table))
    np.add.at(table, local[here], gradient[here])
