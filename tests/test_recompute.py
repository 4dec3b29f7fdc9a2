"""What selective recompute of modules saves and costs: limits, order, and single modules by hand."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from one_layer import layer_time

from railcore.photonics.circuits import photonic_overhead
from railcore.photonics.estimate import overhead_estimate
from railcore.strategies.parts import search
from railcore.training.iteration import iteration_time, iteration_times, stage_memory
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.runs import predictions, published_runs
from railcore.training.runtime import MODERN, Runtime, catalog_runtime
from railcore.training.transfers import transfer_table
from railcore.training.transformer import Transformer, catalog_model
from railcore.training.transformer_memory import RECOMPUTE_MODULES

GPT = Transformer("gpt", 24, 2048, 16, 16, 8192, 50368, 4096, ffn_matrices=2, positions=4096)
LATENT = Transformer(
    *("latent", 12, 2048, 16, 16, 8192, 100000, 4096),
    **{"head_dim": 128, "ffn_matrices": 3, "biases": False, "tied_embeddings": False, "experts": 64, "top_k": 6},
    **{"expert_hidden": 1024, "shared_hidden": 2048, "expert_layer_interval": 2},
    **{"query_rank": 768, "kv_rank": 512, "rope_dim": 64, "imbalance": 1.2},
)
MODELS = (GPT, replace(GPT, name="parallel", parallel_block=True), LATENT, replace(LATENT, name="one", shared_hidden=0))
MACHINES = (catalog_machine("DGX A100"), catalog_machine("DGX H100", "fp8"))
SPLITS = (
    Strategy(micro_batch=2, data=8),
    Strategy(4, 2, 1, 8, micro_batch=2, sequence_parallel=True),
    Strategy(2, data=8, pipeline=2),
)
SOFTWARE = (MODERN, replace(MODERN, attention="unfused", overlap_tensor_forward=True, fp8_activations=True))
CASES = [*itertools.product(MODELS, MACHINES, SPLITS, SOFTWARE)]


def layer(case, recompute, modules=("core_attn",)):
    model, machine, strategy, runtime = case
    expert = 8 if model.experts else 1
    plan = replace(strategy, expert=expert, recompute=recompute)
    return layer_time(model, machine, replace(runtime, recompute_modules=modules), plan)


@pytest.mark.parametrize("case", CASES)
def test_no_module_is_no_recompute_and_all_of_them_are_at_most_full_recompute(case):
    assert layer(case, "selective", ()) == layer(case, "none")
    every, full = layer(case, "selective", RECOMPUTE_MODULES), layer(case, "full")
    assert full.kept_bytes < every.kept_bytes < layer(case, "none").kept_bytes
    assert every.working_bytes < full.working_bytes and 0 < every.seconds["recompute"] < full.seconds["recompute"]
    for kind in ("tensor", "context", "expert"):
        assert every.links[kind].time_s <= full.links[kind].time_s


@pytest.mark.parametrize("case", CASES)
def test_every_module_more_saves_memory_and_costs_time(case):
    chosen: tuple[str, ...] = ()
    before = layer(case, "selective", chosen)
    for module in ("layernorm", "moe_act", "shared_experts", "mla_up_proj", "mlp", "moe", "core_attn"):
        chosen = (*chosen, module)
        after = layer(case, "selective", chosen)
        assert after.kept_bytes <= before.kept_bytes and after.working_bytes >= before.working_bytes
        assert after.seconds["recompute"] >= before.seconds["recompute"]
        # What is made again is paid for, and is worth it.
        assert (after.kept_bytes < before.kept_bytes) == (after.seconds["recompute"] > before.seconds["recompute"])
        before = after


def test_a_module_in_another_one_counts_once():
    case = (LATENT, MACHINES[0], SPLITS[0], MODERN)
    whole = layer(case, "selective", ("moe",))
    assert whole == layer(case, "selective", ("moe", "moe_act", "shared_experts"))
    assert layer(case, "selective", ("layernorm", "layernorm")) == layer(case, "selective", ("layernorm",))


def test_single_modules_leave_out_what_they_make():
    """Bytes of a token by hand: norms 2 h twice; heads; one of three widths of experts; dense, shared, routed, sent."""
    case = (LATENT, MACHINES[0], SPLITS[0], MODERN)
    tokens, copies, none = 2 * 4096, 6 * 1.2, layer(case, "none").kept_bytes
    saved = {
        "core_attn": 0,  # fused
        "layernorm": 2 * 2 * 2048,
        "mla_up_proj": 2 * 16 * (2 * (128 + 64) + 128),
        "moe_act": 2 * copies * 1024 / 2,
        "mlp": 2 * 3 * 8192 / 2,
        "shared_experts": 2 * 3 * 2048 / 2,
        "moe": 2 * (3 * (copies * 1024 + 2048) + copies * 2048) / 2,
    }
    for module, size in saved.items():
        assert none - layer(case, "selective", (module,)).kept_bytes == pytest.approx(tokens * size, rel=1e-9), module
    assert set(saved) == set(RECOMPUTE_MODULES)


def test_every_operator_made_again_but_every_second_product():
    """torchtitan's op, by hand: a gated model keeps the products of q, v, gate and down, and attention's output."""
    machine, gated = MACHINES[0], replace(GPT, ffn_matrices=3, kv_heads=4, biases=False)
    tokens, h, d = 2 * 4096, gated.hidden, gated.head_dim
    none, op = (layer((gated, machine, SPLITS[0], MODERN), *how) for how in (("none",), ("selective", ("op",))))
    kept = h + d * gated.heads + 4 * d + d * gated.heads + gated.ffn_hidden + h
    assert op.kept_bytes == pytest.approx(2 * tokens * kept, rel=1e-12)
    full = layer((gated, machine, SPLITS[0], MODERN), "full")
    assert full.kept_bytes < op.kept_bytes < none.kept_bytes
    assert 0 < op.seconds["recompute"] < full.seconds["recompute"]
    assert op.working_bytes + op.kept_bytes == pytest.approx(none.kept_bytes, rel=1e-12)


def test_a_runtime_names_its_modules():
    assert MODERN.selective_is_none and not Runtime(recompute_modules=("layernorm",)).selective_is_none
    assert not Runtime(attention="unfused").selective_is_none
    assert catalog_runtime("modern", recompute_modules=["moe", "mlp"]).recompute_modules == ("moe", "mlp")


def test_published_runs_make_again_what_their_recipe_says():
    table = published_runs("check")
    told = table[table["recompute_modules"] != ""]
    plain = predictions(told.assign(recompute_modules=""))
    kept = predictions(told)
    assert (kept["memory_bytes"].to_numpy() <= plain["memory_bytes"].to_numpy()).all()
    assert (kept["modelled_s"].to_numpy() >= plain["modelled_s"].to_numpy()).all()


def test_a_search_tries_selective_recompute_of_modules():
    from railcore.strategies.parts import search

    modules = replace(MODERN, name="modules", recompute_modules=("layernorm",))
    found = search(catalog_model("GPT-3"), "DGX H100", 256, 256, modules, recompute=["none", "selective"])
    plain = search(catalog_model("GPT-3"), "DGX H100", 256, 256, MODERN, recompute=["none", "selective"])
    assert found.evaluated == 2 * plain.evaluated
    assert found.least_memory_bytes < plain.least_memory_bytes
    plan = Strategy(8, 1, 4, 8, sequence_parallel=True, recompute="selective")
    assert iteration_times("GPT-3", "DGX H100", plan, modules, global_batch=256).breakdown["recompute_s"] > 0


def test_llama_3_405b_fits_as_it_was_trained():
    """arXiv:2407.21783, Section 3.3: chunks of one layer, gradients sharded a chunk at a time, nothing made again."""
    plan = Strategy(8, 1, 16, 128, interleave=8, sequence_parallel=True, sharding="optimizer", ends_as_layers=True)
    found = iteration_time("Llama-3 405B", "DGX H100", plan, 2048, "llama3")
    assert found.obstacles == () and found.memory_bytes > 0.9 * catalog_machine("DGX H100").memory_bytes
    assert iteration_time("Llama-3 405B", "DGX H100", plan, 2048).obstacles == ("memory",)


# Full recompute of some layers of a stage, and of groups of layers

LLAMA = catalog_model("Llama-3 8B")
H100 = catalog_machine("DGX H100")
FULL = Strategy(tensor=2, pipeline=2, data=2, sequence_parallel=True, sharding="optimizer", recompute="full")


def time_of(strategy, machine=H100, **options):
    return iteration_time(LLAMA, machine, strategy, global_batch=32, **options)


@pytest.mark.parametrize("offload", ["none", "activations"])
@pytest.mark.parametrize("base", [FULL, replace(FULL, interleave=4), replace(FULL, pipeline=4, ends_as_layers=True)])
def test_recompute_of_some_layers_lies_between_none_and_all(base, offload):
    some = [time_of(replace(base, recomputed_layers=n), offload=offload) for n in (1, 2, 5, 8, 16, 100)]
    none, full = (time_of(replace(base, recompute=level), offload=offload) for level in ("none", "full"))
    times, bytes_ = ([getattr(x, name) for x in (none, *some, full)] for name in ("total_s", "memory_bytes"))
    assert times[-1] == times[-2]
    if offload == "none":  # else fewer activations pass the host's link
        assert times == sorted(times) and times[0] < times[1] < times[2]
    assert bytes_[1:] == sorted(bytes_[1:], reverse=True) and bytes_[-1] == bytes_[-2]
    again = [x.breakdown["recompute_s"] for x in some]
    assert again[:4] == pytest.approx([n * again[0] for n in (1, 2, 5, 8)])
    assert full.links["tensor_link_s"] > some[0].links["tensor_link_s"] > none.links["tensor_link_s"]


def test_each_layer_more_keeps_what_a_recomputed_one_spares():
    """Of one stage: what a layer keeps less is the same for each."""
    base = Strategy(data=8, recompute="full", sharding="weights")
    kept = [time_of(replace(base, recomputed_layers=n)).memory["activations_bytes"] for n in (1, 2, 32)]
    costs = {level: layer_time(LLAMA, H100, MODERN, replace(base, recompute=level)) for level in ("none", "full")}
    spared = costs["none"].kept_bytes.item() - costs["full"].kept_bytes.item()
    assert kept[0] - kept[1] == pytest.approx(spared) and kept[1] - kept[2] == pytest.approx(30 * spared)


def test_stage_memory_agrees_with_the_iteration():
    for base in (FULL, replace(FULL, pipeline=4, interleave=2), replace(FULL, pipeline=4, ends_as_layers=True)):
        for n, offload in ((2, "none"), (4, "none"), (2, "activations")):
            plan = replace(base, recomputed_layers=n)
            table = stage_memory(LLAMA, H100, plan, 32, offload=offload)
            assert table["total"].max() == pytest.approx(time_of(plan, offload=offload).memory_bytes)


def test_a_group_keeps_one_input_and_makes_all_its_layers_again():
    one, four = (layer_time(LLAMA, H100, MODERN, replace(FULL, recompute_group=n)) for n in (1, 4))
    assert four.kept_bytes == one.kept_bytes / 4 and four.working_bytes == 4 * one.working_bytes
    assert time_of(replace(FULL, recompute_group=4)).total_s == time_of(FULL).total_s
    stage, more = (layer_time(LLAMA, H100, MODERN, replace(FULL, recompute_group=n)) for n in (16, 1000))
    assert (stage.kept_bytes, stage.working_bytes) == (more.kept_bytes, more.working_bytes)  # 16 layers a stage


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"recompute": "none", "recomputed_layers": 2}, "recomputed_layers is 2 with recompute 'none'"),
        ({"recompute": "selective", "recompute_group": 2}, "recompute_group is 2 with recompute 'selective'"),
        ({"recomputed_layers": 2, "recompute_group": 2}, "give one of them"),
        ({"recomputed_layers": -1}, "recomputed_layers"),
    ],
)
def test_what_contradicts_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(FULL, **changes)


def test_tables_refuse_what_a_strategy_refuses():
    with pytest.raises(ValueError, match="give one"):
        iteration_times(LLAMA, H100, FULL.columns(32) | {"recomputed_layers": 2, "recompute_group": 2})


def test_a_search_recomputes_as_few_layers_as_fit():
    """The answer is the best of all numbers of layers, tried one by one."""
    box = H100.changed(hb_domain_size=4, memory_bytes=80e9)
    limits = {"data": 4, "micro_batch": 1, "sharding": "weights"}
    found = search(LLAMA, box, 4, 64, **limits).strategy()
    assert found["recompute"] == "full" and 0 < found["recomputed_layers"] < 32
    times = {
        n: iteration_time(LLAMA, box, Strategy(data=4, recompute="full", recomputed_layers=n, sharding="weights"), 64)
        for n in range(1, 33)
    }
    fitting = {n: time.total_s for n, time in times.items() if time.memory_bytes <= box.memory_bytes}
    assert found["recomputed_layers"] == min(fitting, key=fitting.get) == min(fitting)
    given = search(LLAMA, box, 4, 64, recomputed_layers=[0, 9], **limits).best
    assert set(given["recomputed_layers"]) == {0, 9}
    grouped = search(LLAMA, box, 4, 64, recompute_group=2, recompute="full", **limits).best
    assert set(grouped["recompute_group"]) == {2} and set(grouped["recomputed_layers"]) == {0}


def test_transfers_repeat_those_of_the_recomputed_layers():
    sent = {}
    for n in (0, 2, 8):
        table = transfer_table(LLAMA, replace(FULL, recomputed_layers=n), 32)
        sent[n] = table[table["pass"] == "recompute"]["sent_bytes"].sum()
    assert sent[8] == 4 * sent[2] and sent[0] == 8 * sent[2] > 0


def test_layers_that_predict_are_recomputed_with_all_others():
    model = replace(LATENT, layers=8, expert_layer_interval=1, mtp_layers=1)
    plan = Strategy(tensor=2, pipeline=2, data=2, sequence_parallel=True, recompute="full")
    sent = {}
    for n in (0, 2, 4, 9):
        table = transfer_table(model, replace(plan, recomputed_layers=n), 8)
        sent[n] = table[table["pass"] == "recompute"]["sent_bytes"].sum()
    assert sent[4] == sent[9] == sent[0] and sent[2] == pytest.approx(sent[0] * 3 / 5)  # 2 and 1 of 4 and 1


def test_full_recompute_alone_is_of_as_few_layers_as_memory_wants():
    """More memory is never slower."""
    limits = {"data": 4, "micro_batch": 1, "sharding": "weights", "recompute": "full"}
    found = [
        search(LLAMA, H100.changed(hb_domain_size=4, memory_bytes=size), 4, 64, **limits).best.iloc[0]
        for size in (60e9, 70e9, 80e9, 120e9)
    ]
    times, layers = ([row[name] for row in found] for name in ("total_s", "recomputed_layers"))
    assert times == sorted(times, reverse=True) and layers == sorted(layers, reverse=True) and layers[-1] == 1


def test_chunks_that_layers_do_not_divide_over_have_one_more_in_turn():
    base = Strategy(tensor=4, pipeline=2, data=2, interleave=4, sequence_parallel=True, recompute="full")
    box = catalog_machine("DGX H100", hb_domain_size=4)
    times = [
        photonic_overhead(LLAMA, box, replace(base, recomputed_layers=n), 0.01, 16)["electrical_s"].iloc[0]
        for n in (1, 2, 3, 4, 5)
    ]
    assert np.diff(times) == pytest.approx(times[1] - times[0], rel=0.3) and times == sorted(set(times))


def test_the_simulated_step_repeats_some_layers():
    """On electrical rails the simulated step and the iteration grow alike."""
    base = Strategy(tensor=4, pipeline=2, data=2, sequence_parallel=True, sharding="weights", recompute="full")
    box = catalog_machine("DGX H100", hb_domain_size=4)
    times = [
        photonic_overhead(LLAMA, box, replace(base, recomputed_layers=n), 0.01, 16)["electrical_s"].iloc[0]
        for n in (4, 8, 0)
    ]
    estimates = [iteration_time(LLAMA, box, replace(base, recomputed_layers=n), 16).total_s for n in (4, 8, 0)]
    grown, estimated = (np.diff(values) for values in (times, estimates))
    assert grown[1] == pytest.approx(2 * grown[0], rel=0.1) and grown == pytest.approx(estimated, rel=0.15)
    for n in (4, 8):
        plan = replace(base, recomputed_layers=n)
        estimate = overhead_estimate(LLAMA, box, plan, 0.01, global_batch=16)
        assert estimate.changes_s > 0 and estimate.electrical_s == iteration_time(LLAMA, box, plan, 16).total_s


@pytest.mark.parametrize("hb_domain_size", [1, 8])
def test_links_are_busy_and_the_slowest_waited_for_as_long_as_layers_are_recomputed(hb_domain_size):
    box = H100.changed(hb_domain_size=hb_domain_size)
    base = Strategy(tensor=4, sequence_parallel=True, recompute="full")  # no bubble, no replicas
    none, some, full = (
        time_of(plan, box)
        for plan in (replace(base, recompute="none"), replace(base, recomputed_layers=8), base)  # of 32
    )
    for kind in ("hb", "nic"):
        busy = [getattr(time, f"{kind}_utilization") * time.total_s for time in (none, some, full)]
        assert busy[1] - busy[0] == pytest.approx((busy[2] - busy[0]) / 4)
        assert (busy[2] > busy[0]) == ((kind == "nic") == (hb_domain_size == 1))
    waits = [time.breakdown["straggler_s"] for time in (none, some, full)]
    assert waits[1] - waits[0] == pytest.approx((waits[2] - waits[0]) / 4) and waits[2] > waits[0]


def test_recomputed_layers_pass_the_hosts_link_with_their_inputs_alone():
    slow = H100.changed(host_Bps=1e8)
    base = Strategy(data=8, recompute="full")
    none, some, full = (
        time_of(plan, slow, offload="activations").breakdown["offload_s"]
        for plan in (replace(base, recompute="none"), replace(base, recomputed_layers=8), base)
    )
    assert none - some == pytest.approx((none - full) / 4, rel=1e-3) and none > 2 * full


@pytest.mark.parametrize("ends", [False, True])
def test_stage_memory_agrees_where_all_layers_are_recomputed(ends):
    base = Strategy(tensor=2, pipeline=4, data=2, recompute="full", ends_as_layers=ends, micro_batch=4)
    for n in (0, 8, 9, 50):
        plan = replace(base, recomputed_layers=n)
        assert stage_memory(LLAMA, H100, plan, 32)["total"].max() == pytest.approx(time_of(plan).memory_bytes)


def test_both_ends_of_a_pipeline_recompute_as_many_layers():
    """Dense first layers that are wide: the first stage keeps more, so that it decides."""
    model = replace(LATENT, layers=8, dense_layers=3, ffn_hidden=65536, expert_hidden=512, expert_layer_interval=1)
    split = {"tensor": 1, "pipeline": 2, "data": 4, "expert": 4}
    plain = Strategy(**split, recompute="full")
    times = {n: iteration_time(model, H100, replace(plain, recomputed_layers=n), 64) for n in (1, 2, 3, 4)}
    box = H100.changed(memory_bytes=(times[2].memory_bytes + times[3].memory_bytes) / 2)
    limits = {"context": 1, "micro_batch": 1, "sharding": "none", "interleave": 1, "ends_as_layers": False}
    limits |= {"recompute": "full", "placement": "tensor first", "whole_experts": False}
    found = search(model, box, 8, 64, **split, **limits)
    assert found.strategy()["recomputed_layers"] == 3
    assert found.best["total_s"].iloc[0] == times[3].total_s
    assert found.best["memory_bytes"].iloc[0] == pytest.approx(times[3].memory_bytes)


def test_the_closed_form_on_circuits_lies_between_none_and_all():
    """Longer backward passes hide more of a change; passes that the host's link bounds end sooner with less kept."""
    base = Strategy(tensor=4, pipeline=2, data=2, sequence_parallel=True, sharding="weights", recompute="full")
    plans = [replace(base, recompute="none"), *(replace(base, recomputed_layers=n) for n in (4, 12)), base]
    box = catalog_machine("DGX H100", hb_domain_size=4)
    for machine, offload, sign in ((box, "none", -1), (box.changed(host_Bps=2e9), "activations", 1)):
        options = {"provisioning": True, "global_batch": 16, "offload": offload}
        changes = [float(overhead_estimate(LLAMA, machine, plan, 0.3, **options).changes_s) for plan in plans]
        assert (sign * np.diff(changes) > 1e-3).all()


def test_recomputed_layers_send_their_tokens_around_the_rings_again():
    model = replace(LATENT, layers=8, expert_layer_interval=1, shared_hidden=0)
    base = Strategy(data=8, expert=8, sharding="optimizer", recompute="full")
    box = catalog_machine("DGX H100", hb_domain_size=2)
    detours = [
        float(overhead_estimate(model, box, plan, 0.001, global_batch=8).detour_s)
        for plan in (replace(base, recompute="none"), replace(base, recomputed_layers=2), base)
    ]
    assert detours[1] - detours[0] == pytest.approx((detours[2] - detours[0]) / 4) and detours[2] > detours[0]


def test_runs_say_how_many_layers_they_recompute():
    table = published_runs("check")
    table = table[table["recomputed_layers"].astype(str).isin(["16", "20"]) & (table["software"] == "torchtitan")]
    some, every = (predictions(part)["modelled_s"] for part in (table, table.assign(recomputed_layers="")))
    assert len(table) == 2 and (some < 0.95 * every).all()
