import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_transformer_mixtures import SIZES, models

from railcore import catalog
from railcore.training.transformer import RECOMPUTE, SHARDING, Transformer, batch_sequences, catalog_model
from suite.ledger import claims

SMALL = dict(
    layers=4, hidden=64, heads=8, kv_heads=8, ffn_hidden=256, vocabulary=1000, sequence_length=32, ffn_matrices=2
)
MIXTURE = dict(experts=8, top_k=2, expert_layer_interval=2, imbalance=1.5)
STATES = {"weights": 2, "gradients": 4, "optimizer": 12}


def small(**changes):
    return Transformer("small", **{**SMALL, **changes})


@pytest.mark.parametrize("name", catalog.names("models"))
def test_published_parameter_counts_come_out(name):
    model, printed = catalog_model(name), claims.paper_value("flops2024.model.params")  # a result there, not an input
    assert model.total_parameters == pytest.approx(catalog.item("models", name).get("parameters", printed), rel=0.01)
    assert model.name == name and sum(model.parameters().values()) == model.total_parameters
    assert model.active_parameters <= model.total_parameters
    assert (model.active_parameters == model.total_parameters) == (model.experts == 0)


@given(models())
def test_one_token_meets_top_k_of_the_experts(model):
    every = {"top_k": max(model.experts, 1), "imbalance": 1.0, "expert_groups": 0, "token_groups": 0}
    assert dataclasses.replace(model, **every).active_parameters == model.total_parameters
    wide, m = model.expert_hidden, model.ffn_matrices
    one = m * model.hidden * wide + ((m - 1) * wide + model.hidden) * model.biases
    unused = model.mixture_layers * (model.experts - model.top_k) * one if model.experts else 0
    assert model.active_parameters == model.total_parameters - unused


@pytest.mark.parametrize("name", ["GPT-3", "GPT-1T", "Megatron 22B"])
@pytest.mark.parametrize("batch", [1, 24, 3072])
def test_flops_are_megatrons_formula(name, batch):
    model = catalog_model(name)
    L, h, s, V = model.layers, model.hidden, model.sequence_length, model.vocabulary
    full = 96 * batch * s * L * h**2 * (1 + s / (6 * h) + V / (16 * L * h))
    without = 72 * batch * s * L * h**2 * (1 + s / (6 * h) + V / (12 * L * h))
    assert float(model.training_flops(batch, "full", causal=False)) == pytest.approx(full, rel=1e-12)
    assert float(model.training_flops(batch, causal=False)) == pytest.approx(without, rel=1e-12)
    scores = 4 * batch * s**2 * h * L
    assert float(model.training_flops(batch, "selective", causal=False)) == pytest.approx(without + scores, rel=1e-12)


def test_flops_are_those_that_megatron_counts_today():
    """num_floating_point_operations of Megatron-LM's training.py of 2025, of one sequence of 8,192 tokens."""
    assert float(catalog_model("Llama-3 8B").training_flops()) == 421_645_529_382_912


@given(models())
def test_flops_are_linear_in_the_batch_and_ordered_by_recompute(model):
    batches = np.array([1, 2, 7, 640])
    assert np.allclose(model.training_flops(batches), batches * model.training_flops(), rtol=1e-12)
    none, selective, full = (float(model.training_flops(3, level)) for level in RECOMPUTE)
    assert none < selective < full < 4 / 3 * none + 1
    assert none == pytest.approx(3 * float(sum(model.forward_flops(3).values())), rel=1e-12)


def test_kept_bytes_follow_the_widths():
    h, d, tokens, plain = 64, 8, 32, small().layer_activation_bytes()
    for kv_heads in (8, 2, 1):
        kept = small(kv_heads=kv_heads).layer_activation_bytes()["attention"]
        assert kept == 2 * tokens * d * (16 + 2 * kv_heads)
    assert 2 * small(ffn_matrices=3).layer_activation_bytes()["feed-forward"] == 3 * plain["feed-forward"]
    assert 2 * small(parallel_block=True).layer_activation_bytes()["inputs"] == plain["inputs"]
    one = small(experts=1).layer_activation_bytes()
    assert one["dispatched"] > 0 and sum(one.values()) - one["dispatched"] == sum(plain.values())
    shared = small(experts=8, top_k=2, shared_hidden=256).layer_activation_bytes()
    assert shared["feed-forward"] == small(experts=8, top_k=3).layer_activation_bytes()["feed-forward"]
    latent = dict(query_rank=48, kv_rank=16, rope_dim=4, value_dim=12)
    for sequence_parallel in (False, True):
        kept = small(**latent).layer_activation_bytes(2, 4, 1, sequence_parallel)["attention"]
        vectors, heads = 2 * h * (48 + 16 + 4), 2 * h * 8 * 4 * 12 / 4
        assert kept == vectors / (4 if sequence_parallel else 1) + heads


@pytest.mark.parametrize("name", ["GPT-3", "Megatron 22B", "Megatron 530B"])
@pytest.mark.parametrize("t", [1, 2, 8])
@pytest.mark.parametrize("b", [1, 4])
def test_activations_are_korthikantis_closed_forms(name, t, b):
    model = catalog_model(name)
    s, h, a = model.sequence_length, model.hidden, model.heads

    def kept(sequence_parallel, recompute, **options):
        kinds = model.layer_activation_bytes(b, t, 1, sequence_parallel, RECOMPUTE.index(recompute), **options)
        return float(sum(kinds.values())) / (s * b * h)

    scores = 5 * a * s / h
    assert kept(False, "none") == pytest.approx(10 + 24 / t + scores / t, rel=1e-12)
    assert kept(True, "none") == pytest.approx((34 + scores) / t, rel=1e-12)
    assert kept(False, "selective") == pytest.approx(10 + 24 / t, rel=1e-12)
    assert kept(True, "selective") == pytest.approx(34 / t, rel=1e-12)
    assert kept(False, "full") == pytest.approx(2, rel=1e-12)
    assert kept(True, "full") == pytest.approx(2 / t, rel=1e-12)
    assert kept(True, "none", fused_attention=True) == kept(True, "selective")
    assert kept(True, "none", dropout=False) == pytest.approx((32 + scores * 2 / 5) / t, rel=1e-12)


@given(models(), SIZES, SIZES, SIZES, st.booleans(), st.booleans())
def test_activations_scale(model, b, t, c, sequence_parallel, fused):
    def kept(*args, **options):
        return np.array([*model.layer_activation_bytes(*args, fused_attention=fused, **options).values()])

    levels = [kept(b, t, c, sequence_parallel, level) for level in range(len(RECOMPUTE))]
    assert np.allclose(levels[0], b / c * kept(1, t, 1, sequence_parallel), rtol=1e-12)
    assert np.all(levels[0] >= levels[1]) and np.all(levels[1] >= levels[2])
    assert np.all(kept(b, t, c, True) <= kept(b, t, c, False)) and np.all(kept(b, t, c) >= kept(b, 2 * t, c))
    split = dataclasses.replace(model, kv_heads=model.heads)
    whole, shared = (
        sum(split.layer_activation_bytes(b, ranks, c, True, whole_experts=True).values()) for ranks in (1, t)
    )
    if model.heads % t == 0:
        assert whole == pytest.approx(t * shared, rel=1e-12)


def test_arrays_are_a_loop_of_numbers():
    rng = np.random.default_rng(0)
    b, t, c, e = (rng.choice([1, 2, 4, 8], 40) for _ in range(4))
    sequence_parallel, level, sharding = rng.integers(0, 2, 40), rng.integers(0, 3, 40), rng.integers(0, 4, 40)
    model = small(**MIXTURE, kv_heads=2)
    many = (
        model.layer_activation_bytes(b, t, c, sequence_parallel, level),
        model.state_bytes(t, b, c * e, sharding, e),
    )
    for i in range(40):
        one = model.layer_activation_bytes(b[i], t[i], c[i], sequence_parallel[i], level[i])
        assert {kind: float(x) for kind, x in one.items()} == {kind: x[i] for kind, x in many[0].items()}
        one = model.state_bytes(t[i], b[i], c[i] * e[i], sharding[i], e[i])
        assert {kind: float(x) for kind, x in one.items()} == {kind: x[i] for kind, x in many[1].items()}


@given(models())
def test_one_rank_holds_eighteen_bytes_of_every_parameter(model):
    states = model.state_bytes()
    assert {kind: float(x) for kind, x in states.items()} == {
        kind: size * model.total_parameters for kind, size in STATES.items()
    }


@given(models(), SIZES, SIZES, SIZES, SIZES)
def test_sharding_splits_one_kind_of_state_after_another(model, t, p, ranks, e):
    n = ranks * e
    levels = [model.state_bytes(t, p, n, level, e, whole_layers=0) for level in range(len(SHARDING))]
    shared, experts = model.stage_parameters(t, p, e)
    whole, own = shared + experts, shared / n + experts / ranks
    for level, states in enumerate(levels):
        split = {"optimizer": level >= 1, "gradients": level >= 2, "weights": level >= 3}
        for kind, size in STATES.items():
            assert states[kind] == pytest.approx(size * (own if split[kind] else whole), rel=1e-12)
    totals = [sum(states.values()) for states in levels]
    assert np.all(np.diff(totals) <= 0)
    assert sum(model.state_bytes(t, p, 1, 3, 1).values()) == sum(model.state_bytes(t, p, 1, 0, 1).values())


@given(models(), SIZES, SIZES, SIZES, SIZES)
def test_a_rank_holds_layers_whole_beside_its_share_of_sharded_weights_and_gradients(model, t, p, n, e):
    places = {"tensor": t, "pipeline": p, "replicas": n * e, "expert": e}
    every, shares = model.state_bytes(**places), model.state_bytes(**places, sharding=3, whole_layers=0)
    held = model.state_bytes(**places, sharding=3)
    layers = -(-model.layers // p)
    shared, experts = model.stage_parameters(t, p, e)
    several = shared * (n * e > 1) + experts * (n > 1)  # a rank that alone holds its experts gathers none of them
    two = min(2, layers) / layers * several
    assert held["weights"] == pytest.approx(min(shares["weights"] + 2 * two, every["weights"]), rel=1e-12)
    more = shares["gradients"] + 4 * two
    assert held["gradients"] == pytest.approx(min(more, every["gradients"]), rel=1e-12)
    assert held["optimizer"] == shares["optimizer"]
    again = model.state_bytes(**places, sharding=2)
    assert (again["weights"], again["gradients"]) == (every["weights"], held["gradients"])


@given(models(), SIZES, SIZES, SIZES)
def test_the_fullest_stage_has_its_layers_and_an_end(model, t, p, e):
    held, mixed = model.rank_parameters(t, e), model.mixture_layers
    shared, experts = model.stage_parameters(t, p, e)
    ends = held.embedding + held.positions, held.output + held.last_norm + (held.tied if p > 1 else 0)
    inner = held.layers(model.layers - mixed, mixed) / p
    assert shared == pytest.approx(inner + (sum(ends) if p == 1 else max(ends)), rel=1e-12)
    assert experts == pytest.approx(mixed / p * held.experts, rel=1e-12)


def test_batches_are_sequences_however_they_are_published():
    assert batch_sequences("GPT-1T") == 3072
    assert batch_sequences("GPT-3") == round(3.2e6 / 2048)
