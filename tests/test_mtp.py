"""Layers that predict a further token (multi-token prediction): parameters, FLOPs, memory and time."""

import math
from dataclasses import replace

import pytest
from one_layer import layer_time

from railcore.training.iteration import iteration_time, stage_memory
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.runs import MODELLED, joined_runs, predictions, published_runs
from railcore.training.runtime import MODERN
from railcore.training.transformer import Transformer, catalog_model

GPT = Transformer("gpt", 14, 2048, 16, 16, 8192, 50304, 2048, ffn_matrices=2, positions=2048, tied_embeddings=False)
LATENT = Transformer(
    *("latent", 13, 2048, 16, 16, 8192, 100000, 4096),
    **{"head_dim": 128, "ffn_matrices": 3, "biases": False, "tied_embeddings": False, "experts": 64, "top_k": 6},
    **{"expert_hidden": 1024, "shared_hidden": 2048, "dense_layers": 1},
    **{"query_rank": 768, "kv_rank": 512, "rope_dim": 64, "imbalance": 1.2},
)
TIED = replace(GPT, name="tied", tied_embeddings=True)
H100 = catalog_machine("DGX H100", "fp8")


def further(model, layers=1):
    return replace(model, mtp_layers=layers)


def test_deepseek_v3s_module_has_the_published_parameters():
    """Hugging Face deepseek-ai/DeepSeek-V3, README_WEIGHTS.md: 11.5e9 without the shared embedding and output head."""
    model = catalog_model("DeepSeek-V3")
    assert model.mtp_layers == 0 and "prediction" not in model.parameters()
    assert further(model).parameters()["prediction"] == pytest.approx(11.5e9, rel=0.01)
    assert further(model).total_parameters - model.total_parameters == further(model).mtp_parameters
    # 2.4e9 of them meet a token, the router, attention and projection among them
    assert further(model).active_parameters - model.active_parameters == pytest.approx(0.70e9, rel=0.05)


@pytest.mark.parametrize("model", [GPT, LATENT, TIED])
def test_two_cost_twice_as_much_as_one(model):
    none, one, two = (replace(model, mtp_layers=n) for n in range(3))
    assert two.mtp_parameters == 2 * one.mtp_parameters > 0 == none.mtp_parameters
    each = one.forward_flops(3)["prediction"]
    assert two.forward_flops(3)["prediction"] == 2 * each
    assert one.training_flops(3) == pytest.approx(none.training_flops(3) + 3 * each)
    dense = model.forward_flops(3)
    layer = sum(dense[kind] for kind in ("projections", "scores", "feed-forward", "router")) / model.layers
    assert each == pytest.approx(layer + dense["logits"] + 3 * 2 * 2048 * model.sequence_length * 2 * 2048, rel=0.15)


@pytest.mark.parametrize("model", [GPT, LATENT, TIED])
@pytest.mark.parametrize("tensor", [1, 4])
def test_a_rank_alone_holds_all_of_it(model, tensor):
    """And of t ranks each its part; whole on each of them what is not split: norms, router, latent products."""
    none, one = (replace(model, mtp_layers=n).rank_parameters(tensor) for n in range(2))
    held = float(one.last(1) - none.last(1)) + float(one.experts)
    parameters = further(model).mtp_parameters
    if not model.experts:
        held -= float(one.experts)
    assert held * tensor == pytest.approx(parameters, rel=1e-12 if tensor == 1 else 0.1)
    copied = float(one.last(2) - none.last(2)) - float(one.last(1) - none.last(1))
    assert copied == pytest.approx(0 if model.tied_embeddings else float(one.embedding))


@pytest.mark.parametrize("pipeline", [1, 2, 4, 7])
@pytest.mark.parametrize("ends", [False, True])
def test_it_is_the_last_stages_and_fills_what_rounding_leaves(pipeline, ends):
    """14 layers on 4 stages leave 2 free places on the last one: beyond these its layer and logits lengthen all."""
    if ends and pipeline == 1:
        return
    strategy = Strategy(pipeline=pipeline, data=2, ends_as_layers=ends)
    layer, n = layer_time(further(GPT), H100, MODERN, strategy), math.ceil((GPT.layers + 2 * ends) / pipeline)
    spare = min(pipeline * n - GPT.layers, n)
    found = iteration_time(further(GPT), H100, strategy, 32, MODERN)
    passes = layer.forward_s + layer.backward_s
    assert found.breakdown["logits_s"] == pytest.approx(16 * max(layer.logits_s - spare * passes, 0), rel=0.02)
    alone = layer_time(GPT, H100, MODERN, strategy)
    assert layer.logits_s > 2 * alone.logits_s + passes and layer.logits_bytes == 2 * alone.logits_bytes
    memory = stage_memory(further(GPT), H100, strategy, 32, MODERN)
    assert memory["layers"].iloc[-1] == n - spare + 1


def test_published_runs_have_it_where_their_layout_says():
    table = joined_runs(*map(published_runs, MODELLED))
    told = table[table["pipeline_layout"].str.contains("m")]
    ours = predictions(told)
    without = predictions(told.assign(pipeline_layout=told["pipeline_layout"].str.replace("m", "")))
    assert (ours["modelled_s"] >= without["modelled_s"]).all() and (ours["modelled_s"] > without["modelled_s"]).any()
