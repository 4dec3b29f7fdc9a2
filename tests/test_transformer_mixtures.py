"""Latent attention, windows, shared experts, experts of their own width and dense first layers."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railcore import catalog
from railcore.training.transformer import Transformer, catalog_model

SMALL = dict(
    layers=12, hidden=64, heads=8, kv_heads=8, ffn_hidden=256, vocabulary=1000, sequence_length=32, ffn_matrices=2
)
PUBLISHED = [name for name in catalog.names("models") if "active_parameters" in catalog.item("models", name)]
SIZES = st.sampled_from([1, 2, 4, 8])


def small(**changes):
    return Transformer("small", **{**SMALL, **changes})


@st.composite
def models(draw):
    """Dense models and mixtures, with every field at random."""
    latent, heads, experts = draw(st.integers(0, 1)), draw(st.sampled_from([4, 8])), draw(st.sampled_from([0, 8]))
    interval, dense = draw(st.sampled_from([1, 2])), draw(st.integers(0, 3))
    groups, window = draw(st.sampled_from([0, 4])), draw(st.sampled_from([0, 4, 32, 100]))
    mixture = {
        "experts": experts,
        "top_k": draw(st.integers(1, 4)),
        "expert_layer_interval": interval,
        "dense_layers": dense,
        "expert_hidden": draw(st.sampled_from([0, 40])),
        "shared_hidden": draw(st.sampled_from([0, 56])),
        "expert_groups": groups,
        "token_groups": groups and 2,
        "imbalance": draw(st.floats(1, 8)),
    }
    return small(
        layers=dense + interval * draw(st.integers(1, 4)),
        heads=heads,
        kv_heads=heads if latent else draw(st.sampled_from([1, 2, 4])),
        head_dim=draw(st.sampled_from([0, 24])),
        ffn_matrices=draw(st.sampled_from([2, 3])),
        positions=draw(st.sampled_from([0, 64])),
        biases=draw(st.booleans()),
        tied_embeddings=draw(st.booleans()),
        parallel_block=draw(st.booleans()),
        kv_rank=latent and draw(st.integers(1, 40)),
        query_rank=latent and draw(st.sampled_from([0, 20])),
        rope_dim=latent and draw(st.sampled_from([0, 6])),
        value_dim=latent and draw(st.sampled_from([0, 10])),
        window=window,
        full_attention_interval=window and draw(st.integers(0, 1)),
        **(mixture if experts else {}),
    )


def tensors(model):
    """Every matrix and vector of the model by name, one layer after another, as a program would allocate them."""
    h, d, a, m = model.hidden, model.head_dim, model.heads, model.ffn_matrices
    r, v, f = model.rope_dim, model.value_dim, model.ffn_hidden

    def linear(name, rows, columns, bias=model.biases):
        return [(name, rows * columns)] + [("biases", columns)] * bias

    def norm(size=h):
        return [("norms", size)] * (2 if model.biases else 1)

    def feed_forward(name, wide):
        return [part for _ in range(m - 1) for part in linear(name, h, wide)] + linear(name, wide, h)

    def queries():
        if not model.query_rank:
            return linear("attention", h, a * (d + r))
        return (
            linear("attention", h, model.query_rank)
            + norm(model.query_rank)
            + linear("attention", model.query_rank, a * (d + r))
        )

    def keys_and_values():
        if not model.kv_rank:
            return 2 * linear("attention", h, model.kv_heads * d)
        down = linear("attention", h, model.kv_rank + r) + norm(model.kv_rank)
        return down + linear("attention", model.kv_rank, a * (d + v))

    found = [("embedding", model.vocabulary * h), ("positions", model.positions * h), *norm()]
    for layer in range(model.layers):
        found += norm() + queries() + keys_and_values() + linear("attention", a * v, h)
        found += [] if model.parallel_block else norm()
        behind = layer - model.dense_layers + 1
        if model.experts and behind > 0 and behind % model.expert_layer_interval == 0:
            assert model.has_experts(layer)
            found += linear("router", h, model.experts, False)
            found += [part for _ in range(model.experts) for part in feed_forward("experts", model.expert_hidden)]
            found += feed_forward("shared experts", model.shared_hidden) if model.shared_hidden else []
        else:
            assert not model.has_experts(layer)
            found += feed_forward("feed-forward", f)
    return found + [("output", 0 if model.tied_embeddings else h * model.vocabulary)]


def as_printed(ours, printed):
    """Whether a count is within 1% of a printed one, or gives it when rounded or cut at its last digit."""
    digits = f"{printed:.0f}".rstrip("0")
    unit = 10 ** (len(f"{printed:.0f}") - len(digits))
    return abs(ours / printed - 1) <= 0.01 or round(ours / unit) == int(digits) or ours // unit == int(digits)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_counts_come_out_total_and_active(name):
    model, item = catalog_model(name), catalog.item("models", name)
    assert as_printed(model.total_parameters, item["parameters"])
    met = model.active_parameters - (0 if item["active_embedding"] else model.parameters()["embedding"])
    assert as_printed(met, item["active_parameters"])


@pytest.mark.parametrize("name", ["Llama-4 Scout", "Llama-4 Maverick"])
def test_one_chunk_of_attention_is_attention_to_all(name):
    chunked, whole = catalog_model(name), catalog_model(name, window=0, full_attention_interval=0)
    assert chunked.sequence_length == chunked.window and chunked.attention_spans() == whole.attention_spans()
    assert len(catalog_model(name, sequence_length=16384).attention_spans()) == 2


def test_counts_by_kind_of_gpt_oss():
    """Table 1 of its model card: MLP, attention, both embeddings [1e9], rounded to two digits behind the point."""
    for name, printed in (("GPT-OSS 120B", (114.71, 0.96, 1.16)), ("GPT-OSS 20B", (19.12, 0.64, 1.16))):
        model = catalog_model(name)
        kinds = model.parameters()
        found = (model.expert_parameters + kinds["router"], kinds["attention"], kinds["embedding"] + kinds["output"])
        assert [each / 1e9 for each in found] == pytest.approx(printed, abs=0.0051)


@given(models())
def test_parameters_are_those_of_every_tensor(model):
    counted = dict.fromkeys(model.parameters(), 0)
    for kind, size in tensors(model):
        counted[kind] += size
    assert model.parameters() == counted
    one = [size for kind, size in tensors(model) if kind == "experts"]
    assert sum(one) == model.mixture_layers * model.experts * model.expert_weights


@given(models(), st.integers(1, 100))
def test_flops_are_two_for_each_weight_that_a_token_meets(model, batch):
    kinds, flops = model.parameters(), model.forward_flops(batch)
    tokens = batch * model.sequence_length
    assert flops["projections"] == pytest.approx(2 * tokens * kinds["attention"], rel=1e-12)
    met = kinds["feed-forward"] + kinds["experts"] / max(model.experts, 1) * model.top_k + kinds["shared experts"]
    assert flops["feed-forward"] == pytest.approx(2 * tokens * met, rel=1e-12)
    assert flops["router"] == pytest.approx(2 * tokens * kinds["router"], rel=1e-12)
    assert flops["logits"] == 2 * tokens * model.hidden * model.vocabulary


@given(models())
def test_scores_are_counted_query_by_query(model):
    """Two FLOPs for each element of a key and of a value that a query meets."""
    s, each = model.sequence_length, 2 * model.heads * (model.query_dim + model.value_dim)
    full = model.layers if not model.window or model.full_attention_interval else 0
    reach = min(model.window, s)
    met = full * s * s + (model.layers - full) * s * reach
    assert model.forward_flops(causal=False)["scores"] == pytest.approx(each * met, rel=1e-12)
    # A query meets those before it; the diagonal counts half, as in a mask of s^2 / 2.
    masked = full * s * s / 2 + (model.layers - full) * (sum(min(i + 1, reach) for i in range(s)) - reach / 2)
    assert model.forward_flops()["scores"] == pytest.approx(each * masked, rel=1e-12)


def test_spans_are_shares_of_the_layers():
    assert small().attention_spans() == small(window=32).attention_spans() == [(1.0, 32)]
    assert small(window=8).attention_spans() == [(1.0, 8)]
    assert small(window=8, full_attention_interval=1).attention_spans() == [(1.0, 32)]
    assert small(window=8, full_attention_interval=4).attention_spans() == [(0.75, 8), (0.25, 32)]
    few = small(layers=7, window=8, full_attention_interval=3).attention_spans()
    assert few == [(pytest.approx(5 / 7), 8), (pytest.approx(2 / 7), 32)]


@given(models(), SIZES, SIZES)
def test_a_window_as_long_as_the_sequence_is_none(model, b, t):
    none = dataclasses.replace(model, window=0, full_attention_interval=0)
    for window in (32, 1000):
        wide = dataclasses.replace(model, window=window, full_attention_interval=0)
        assert wide.forward_flops(b) == none.forward_flops(b)
        assert wide.layer_activation_bytes(b, t) == none.layer_activation_bytes(b, t)
    short = dataclasses.replace(model, window=8, full_attention_interval=0)
    whole = [kind.forward_flops(b, causal=False)["scores"] for kind in (short, none)]
    assert whole[0] == whole[1] / 4
    assert short.layer_activation_bytes(b, t)["scores"] == none.layer_activation_bytes(b, t)["scores"] / 4


@given(models(), SIZES)
def test_attention_matrices_are_split_over_tensor_ranks_but_for_the_latent_ones(model, t):
    whole = sum(columns * inner for columns, inner in model.attention_matrices(1))
    assert whole == model.attention_weights
    ours = sum(columns * inner for columns, inner in model.attention_matrices(t))
    h, d = model.hidden, model.head_dim
    if model.kv_rank:
        copied = h * (model.query_rank + model.kv_rank + model.rope_dim)
    else:
        copied = 2 * h * d * max(1 - model.kv_heads / t, 0)
    more = copied * (t - 1) / t if model.kv_rank else copied
    assert ours == pytest.approx(whole / t + more, rel=1e-12)
    many = [columns * inner for columns, inner in model.attention_matrices(np.array([1, t]))]
    assert np.allclose(sum(many), [whole, ours], rtol=1e-12)


@given(models(), SIZES, SIZES)
def test_tensor_and_expert_ranks_hold_the_model_and_copies_besides(model, t, e):
    """Copied: norms, biases behind a sum, the router, latent vectors, heads of keys and values beyond their number."""
    held, one, h = model.rank_parameters(t, e), model.rank_parameters(), model.hidden
    mixed, bias, ranks = model.mixture_layers, int(model.biases), model.query_rank + model.kv_rank
    layers = one.layers(model.layers - mixed, mixed) + mixed * one.experts
    assert layers + one.first + one.last(1) == model.total_parameters
    norms = (1 if model.parallel_block else 2) * model.last_norm + ranks * (1 + bias)
    latent = (ranks + model.rope_dim) * (h + bias) if model.kv_rank else 0
    heads = 0 if model.kv_rank else 2 * max(t - model.kv_heads, 0) * model.head_dim * (h + bias)
    attention = (t - 1) * (norms + h * bias + latent) + heads
    router = model.experts * h + h * (bias if model.shared_hidden else 0)
    assert t * held.dense_layer == pytest.approx(one.dense_layer + attention + (t - 1) * h * bias, rel=1e-12)
    assert t * held.mixture_layer == pytest.approx(one.mixture_layer + attention + (t - 1) * router, rel=1e-12)
    assert t * e * held.experts == pytest.approx(one.experts + (t - 1) * model.experts * h * bias, rel=1e-12)
    assert e * model.rank_parameters(t, e, True).experts == pytest.approx(one.experts, rel=1e-12)
    for part in ("embedding", "positions", "output", "tied"):
        assert t * getattr(held, part) == pytest.approx(getattr(one, part), rel=1e-12)
    assert held.last_norm == model.last_norm


@given(models())
def test_widths_that_follow_from_others_are_found_anew(model):
    other = dataclasses.replace(model, ffn_hidden=24, head_dim=6)
    assert other.expert_hidden == (24 if model.expert_hidden == model.ffn_hidden else model.expert_hidden)
    if not model.kv_rank:
        assert other.value_dim == 6
    assert other == dataclasses.replace(other)


@pytest.mark.parametrize("biases", [True, False])
def test_all_layers_dense_is_a_dense_model(biases):
    none, dense = small(experts=8, dense_layers=12, biases=biases), small(biases=biases)
    assert none.parameters() == dense.parameters() and none.active_parameters == dense.total_parameters
    assert none.forward_flops() == dense.forward_flops() and none.state_bytes(2) == dense.state_bytes(2)
    assert none.layer_activation_bytes(1, 2) == dense.layer_activation_bytes(1, 2)
    assert not any(none.has_experts(layer) for layer in range(12))
    last = small(experts=8, dense_layers=11)
    assert last.mixture_layers == 1 and last.has_experts(11) and not last.has_experts(10)


@given(models(), SIZES, SIZES)
def test_layers_of_both_kinds_average_to_the_model(model, b, t):
    every = model.layer_activation_bytes(b, t)
    dense, mixed = (model.layer_activation_bytes(b, t, mixture_share=share) for share in (0.0, 1.0))
    part = model.mixture_share
    for kind, size in every.items():
        assert size == pytest.approx((1 - part) * dense[kind] + part * mixed[kind], rel=1e-12, abs=1e-9)
    assert dense["dispatched"] == 0
    both = model.layer_activation_bytes(b, t, mixture_share=np.array([0.0, 1.0]))["feed-forward"]
    assert both.tolist() == [dense["feed-forward"], mixed["feed-forward"]]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"kv_heads": 3}, "kv_heads is 3: give a divisor of heads 8"),
        ({"heads": 7, "kv_heads": 7}, "heads is 7.*give head_dim"),
        ({"shared_hidden": 64, "dense_layers": 1}, "shared_hidden is 64: give experts too; dense_layers is 1: give e"),
        ({"experts": 8, "dense_layers": 1, "expert_layer_interval": 2}, "interval is 2: give a divisor of 11"),
        ({"experts": 8, "expert_groups": 3, "token_groups": 2}, "expert_groups is 3: give a divisor of experts 8"),
        ({"experts": 8, "top_k": 5, "expert_groups": 4, "token_groups": 2}, "top_k is 5: 2 of 4 groups have fewer"),
        ({"query_rank": 8, "rope_dim": 4}, "query_rank is 8: give kv_rank too; rope_dim is 4: give kv_rank too"),
        ({"full_attention_interval": 2}, "full_attention_interval is 2: give window too"),
        ({"experts": 4, "top_k": 5, "kv_rank": 8, "kv_heads": 2}, "top_k is 5.*; kv_heads is 2"),
    ],
)
def test_errors_name_what_is_out_of_range_or_does_not_go_together(changes, named):
    with pytest.raises(ValueError, match=named):
        small(**changes)
