"""DualPipe: a pipeline from both ends, against its table and against one from one end."""

from dataclasses import replace

import pytest
from jobs import IDEAL_DOMAIN
from one_layer import layer_time

from railcore.training.iteration import iteration_time, stage_memory
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.runtime import MODERN, catalog_runtime
from railcore.training.transformer import Transformer, catalog_model

GPT = Transformer("gpt", 32, 2048, 16, 16, 8192, 50304, 2048, ffn_matrices=2, positions=2048, tied_embeddings=False)
STILL = catalog_machine("DGX H100").changed(
    rank_spread=0.0,
    **IDEAL_DOMAIN,
    hb_latency_s=0.0,
    nic_latency_s=0.0,
    call_latency_s=0.0,
    launch_s=0.0,
    hb_Bps=1e30,
    nic_Bps=1e30,
)
BOTH = replace(MODERN, schedule="dualpipe")


@pytest.mark.parametrize("stages", [2, 4, 8, 16])
def test_the_bubble_is_that_of_the_table(stages):
    """(p / 2 - 1) (F&B + B - 3 W), with F&B = F + B."""
    strategy = Strategy(pipeline=stages, data=2)
    one, both = (iteration_time(GPT, STILL, strategy, 128, runtime) for runtime in (MODERN, BOTH))
    layer, n = layer_time(GPT, STILL, BOTH, strategy), GPT.layers // stages
    each = n * (layer.forward_s + 2 * layer.backward_s - 3 * layer.weights_s)
    assert both.breakdown["bubble_s"] == pytest.approx((stages / 2 - 1) * each, rel=1e-6, abs=1e-9)
    assert one.breakdown["bubble_s"] == pytest.approx((stages - 1) * n * (layer.forward_s + layer.backward_s), rel=1e-6)
    assert both.breakdown["logits_s"] == pytest.approx(one.breakdown["logits_s"] / 2)
    assert both.total_s < one.total_s


def test_it_holds_parameters_twice_and_a_micro_batch_more_than_stages():
    """Table 2: parameters 2 x, activations p + 1. The optimizer's states are shared by twice as many ranks."""
    strategy = Strategy(pipeline=8, data=4, sharding="optimizer")
    one, both = (stage_memory(GPT, STILL, strategy, 256, runtime) for runtime in (MODERN, BOTH))
    assert (both["in_flight"] == 9).all() and one["in_flight"].tolist() == list(range(8, 0, -1))
    inner = slice(1, 7)
    for kind, ratio in (("weights", 2), ("gradients", 2), ("optimizer", 1)):
        assert both[kind][inner].tolist() == pytest.approx((ratio * one[kind][inner]).tolist())
    layers = both["weights"][1] / one["weights"][1] * one["weights"][1]
    ends = one["weights"][[0, 7]].sum() - 2 * one["weights"][1]
    assert both["weights"][0] == pytest.approx(layers + ends) and both["weights"][7] == both["weights"][0]
    assert both["activations"][0] == both["activations"][7] > both["activations"][1]


def test_few_micro_batches_one_stage_chunks_and_odd_stages_are_as_without_it():
    few = Strategy(pipeline=8, data=4)
    assert set(stage_memory(GPT, STILL, few, 12, BOTH)["in_flight"]) == {3}
    thirty = replace(GPT, layers=30)
    for strategy in (Strategy(data=4), Strategy(pipeline=5, data=2, interleave=2), Strategy(pipeline=15, data=2)):
        one, both = (iteration_time(thirty, STILL, strategy, 70, runtime) for runtime in (MODERN, BOTH))
        assert both == one


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_deepseek_v3_fits_as_it_was_trained(precision):
    """arXiv:2412.19437, 3.2 to 3.3 and Table 2: on GPUs of 80 GB, in fp8 with what software of 2024 cut to fit."""
    plan = Strategy(1, 1, 16, 128, 64, recompute="selective", sharding="optimizer")
    machine = catalog_machine("DGX H100", precision)
    found = iteration_time("DeepSeek-V3", machine, plan, 15360, "deepseek2024")
    assert (found.obstacles == ()) == (precision == "fp8")
    assert iteration_time("DeepSeek-V3", machine, plan, 15360).obstacles == ("memory",)
    # Bytes of a token that a layer keeps: inputs of two norms, latent vectors, attention's output, SwiGLU's inputs,
    # and tokens of the experts.
    h, latent, heads, experts = 7168, 1536 + 512 + 64, 128 * 128, 9 * 2048
    kept = {"fp8": 4 * h + 2 * latent + 1.5 * heads + 2 * experts + 8 * h}
    kept["bf16"] = 4 * h + 2 * latent + 2 * heads + 4 * experts + 2 * 8 * h + 2 * 2048  # shared experts' SwiGLU is kept
    kept["fp8"] += 2048
    layer = layer_time(catalog_model("DeepSeek-V3"), machine, catalog_runtime("deepseek2024"), plan)
    assert layer.kept_bytes == pytest.approx(4096 * kept[precision], rel=1e-9)


def test_ends_as_layers_and_logits_count_half_on_each_end():
    """The rank of both ends has two layers fewer of 2 n, and logits of every second micro-batch."""
    strategy = Strategy(pipeline=4, data=2, ends_as_layers=True)
    model, layer = replace(GPT, layers=30), layer_time(GPT, STILL, BOTH, Strategy(pipeline=4, data=2))
    found = iteration_time(model, STILL, strategy, 128, BOTH).breakdown["logits_s"]
    passes = layer.forward_s + layer.backward_s
    assert found == pytest.approx(64 * max(layer.logits_s / 2 - passes, 0), rel=1e-6)
    slow = replace(model, vocabulary=40 * model.vocabulary)
    large = layer_time(slow, STILL, BOTH, strategy)
    found = iteration_time(slow, STILL, strategy, 128, BOTH).breakdown["logits_s"]
    assert found == pytest.approx(64 * (large.logits_s / 2 - passes), rel=1e-6) and found > 0
