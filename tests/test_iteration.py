import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobs import IDEAL_DOMAIN

from railcore import catalog
from railcore.network.topology.failed_part import FailedPart
from railcore.network.topology.rails import RailFabric, fat_tree, rail_only
from railcore.photonics import timetable
from railcore.training import collectives, machine
from railcore.training.iteration import OBSTACLES, TIME_PARTS, iteration_time, iteration_times
from railcore.training.layer import layer_costs
from railcore.training.parallelism import Strategy
from railcore.training.products import product_time
from railcore.training.rank import LAYER_COLUMNS, wide_dense_layers
from railcore.training.rank_order import ORDERS, GroupLevels
from railcore.training.runtime import OFFLOADS, Runtime, catalog_runtime
from railcore.training.strategy_columns import STRATEGY_COLUMNS
from railcore.training.transformer import RECOMPUTE, Transformer, catalog_model

MODELS = {name: catalog_model(name) for name in ("GPT-3", "Llama-3 8B", "PaLM-540B", "MoE-1.3B", "GPT-146B")}
LLAMA = Transformer("dense", 32, 4096, 32, 8, 14336, 32000, 4096, ffn_matrices=3, biases=False)
MODELS["mixture"] = replace(LLAMA, name="mixture", experts=8, top_k=2, imbalance=1.3)
MODELS["latent"] = Transformer(
    *("latent", 13, 2048, 16, 16, 24576, 100000, 4096),  # three times as wide as its mixtures
    **{"head_dim": 128, "ffn_matrices": 3, "biases": False, "tied_embeddings": False, "experts": 64, "top_k": 6},
    **{"expert_hidden": 1024, "shared_hidden": 2048, "dense_layers": 3, "expert_groups": 8, "token_groups": 4},
    **{"query_rank": 768, "kv_rank": 512, "rope_dim": 64, "imbalance": 1.2},
)
MODELS["windows"] = replace(LLAMA, name="windows", layers=24, window=1024, full_attention_interval=6)
CLOS = fat_tree(2**15, 64, 8, tier_oversubscription=(3.0,))  # shares of NICs of larger jobs take seconds
FREE_LATENCY = IDEAL_DOMAIN | {f"{name}_latency_s": 0.0 for name in ("hb", "nic", "call")}
A100, H100 = machine.catalog_machine("DGX A100"), machine.catalog_machine("DGX H100", "fp8")
MACHINES = {
    "A100 of 8": A100,
    "H100 of 256, fp8": H100.changed(hb_domain_size=256),
    "GB200 of 72, fp8": machine.catalog_machine("GB200 NVL72", "fp8"),
    "A100 of 8, in turn": A100.changed(two_phase_collectives=True, pipelined=False),
    "H100 of 8 under 4:1": H100.on(RailFabric(2**20, 8, 64, 4.0)),
    "A100 of 8 in turn on a Clos of 3:1": A100.changed(pipelined=False).on(CLOS),
}
SOFTWARE = {name: catalog_runtime(name) for name in catalog.names("runtimes")} | {
    "unfused": Runtime(overlap_tensor=False, overlap_data=False, scatter_gather=False, attention="unfused"),
    "nothing hidden": Runtime(
        overlap_tensor=False, overlap_data=False, overlap_pipeline=False, attention="unfused", dropout=True
    ),
    "dropless": Runtime(graphs="none", dispatcher="nodes", overlap_expert=True, dispatch_bytes=1),
    "capacity": Runtime(capacity=1.25, sharded_gradients=True, fp8_tensor=True, fp8_weights=True, moment_bytes=2),
    "from both ends": Runtime(schedule="dualpipe", dispatcher="nodes", overlap_expert=True),
    "fp32 shards": Runtime(fp32_shards=True, moment_bytes=2),
    "modules": Runtime(
        recompute_modules=("layernorm", "mla_up_proj", "moe_act", "mlp", "shared_experts"),
        **{"graphs": "none", "fp8_activations": True},
    ),
    "mixtures again": Runtime(recompute_modules=("moe", "core_attn"), attention="unfused", overlap_tensor_forward=True),
    "eager": Runtime(eager=True, graphs="none", gradient_bytes=2, accumulation_bytes=2, dropout=True),
}
KEPT = (*OFFLOADS, ("optimizer", "activations"))
ONE = dict.fromkeys(STRATEGY_COLUMNS, 1)
ONE |= dict.fromkeys(
    ("sequence_parallel", "recompute", "sharding", "keep_gathered", "ends_as_layers", "whole_experts", "placement"), 0
)
ONE |= {"recomputed_layers": 0}


def random_strategies(model, rng, size, most_data=256):
    """Strategies of which most divide; every obstacle comes up in some of a thousand."""
    rows = []
    for i in range(size):
        t = int(rng.choice([1, 2, 4, 8, 16, 3, 48], p=[0.2, 0.2, 0.2, 0.2, 0.1, 0.05, 0.05]))
        p = int(rng.choice([1, 2, 4, 8, 5], p=[0.3, 0.25, 0.25, 0.15, 0.05]))
        c, d = int(rng.choice([1, 1, 2, 4])), int(rng.choice([1, 2, 6, 16, most_data]))
        whole = int(rng.random() < 0.4) if model.experts else 0
        ranks = c * d * (t if whole else 1)
        experts = [e for e in (1, 2, 8, 64) if model.experts % e == 0 and ranks % e == 0] if model.experts else [1]
        v = int(rng.choice([1, 2, 3])) if p > 1 or rng.random() < 0.05 else 1
        b = int(rng.choice([1, 2, 4]))
        m = int(rng.integers(1, 5)) * (p if rng.random() < 0.7 else 1)
        columns = {
            **{"micro_batch": b, "tensor": t, "context": c, "pipeline": p, "data": d, "interleave": v},
            "expert": int(rng.choice(experts)),
            "sequence_parallel": rng.integers(0, 2) if t > 1 or rng.random() < 0.05 else 0,
            "recompute": rng.integers(0, 3),
            "sharding": rng.integers(0, 4),
            "keep_gathered": rng.integers(0, 2),
            "ends_as_layers": int(rng.random() < (0.3 if p > 1 else 0.02)),
            "whole_experts": whole,
            "placement": rng.integers(0, len(ORDERS)),
            **dict(zip(("recomputed_layers", "recompute_group"), ((0, 1), (1, 1), (4, 1), (0, 3))[i % 4], strict=True)),
            "global_batch": d * b * m + (rng.random() < 0.05),
        }
        rows.append([columns[name] for name in STRATEGY_COLUMNS])
    return dict(zip(STRATEGY_COLUMNS, np.array(rows, np.int64).T, strict=True))


def row(strategies, i):
    return {name: int(column[i]) for name, column in strategies.items()}


def random_cases(size, seed=0):
    """Random strategies of each model, machine and runtime; of offloads one after the other."""
    rng = np.random.default_rng(seed)
    for i, (name, gpu, runtime) in enumerate(itertools.product(MODELS, MACHINES, SOFTWARE)):
        offload = KEPT[i % len(KEPT)]
        strategies = random_strategies(MODELS[name], rng, size, 8 if MACHINES[gpu].links.fabric is CLOS else 256)
        yield MODELS[name], MACHINES[gpu], strategies, SOFTWARE[runtime], offload


def same(ours, theirs, rel=1e-12):
    """Whether two estimates are equal in every number."""
    assert np.array_equal(ours.obstacles, theirs.obstacles)
    assert np.allclose(ours.total_s, theirs.total_s, rtol=rel, atol=0)
    for group in ("breakdown", "links", "memory"):
        one_group, other = getattr(ours, group), getattr(theirs, group)
        assert list(one_group) == list(other)
        for kind in one_group:
            assert np.allclose(one_group[kind], other[kind], rtol=rel, atol=0), kind
    return True


@pytest.fixture(scope="module")
def found():
    """Random strategies of models, machines and runtimes, some of their combinations, with their estimates."""
    cases = itertools.islice(random_cases(16, seed=1), 0, None, 13)
    return [(*case, iteration_times(*case)) for case in cases]


def fits(estimate):
    """What divides, whether it has room in memory or not."""
    return (estimate.obstacles & ~(1 << OBSTACLES.index("memory"))) == 0


def names_of(offload):
    return () if offload == "none" else (offload,) if isinstance(offload, str) else offload


def test_one_strategy_may_be_a_row_of_a_search():
    strategy = Strategy(tensor=2, pipeline=2, data=2)
    given = "GPT-3", "DGX H100", strategy.columns(8), 8
    one = iteration_time(*given, offload="optimizer")
    assert one == iteration_time("GPT-3", "DGX H100", strategy, 8, offload=("optimizer",))
    assert str(one) == str(iteration_times("GPT-3", "DGX H100", strategy, global_batch=8, offload="optimizer"))
    assert "limit" in str(one) and one.obstacles == ("memory",)


def test_a_breakdown_adds_up_and_nothing_is_negative(found):
    for *_, estimate in found:
        assert list(estimate.breakdown) == list(TIME_PARTS)
        assert np.allclose(sum(estimate.breakdown.values()), estimate.total_s, rtol=1e-12)
        assert np.array_equal(sum(estimate.memory.values()), estimate.memory_bytes)
        for group in (estimate.breakdown, estimate.links, estimate.memory):
            assert all(np.all(x >= 0) and np.all(np.isfinite(x)) for x in group.values())
        for share in (estimate.hb_utilization, estimate.nic_utilization):
            assert np.all(share >= 0) and np.all(share <= 1 + 1e-12)


def test_what_shards_more_needs_no_more_memory(found):
    for model, gpu, strategies, runtime, offload, _ in found[::5]:
        levels = [strategies | {"sharding": 0 * strategies["sharding"] + level} for level in range(4)]
        memory = [iteration_times(model, gpu, each, runtime, offload).memory_bytes for each in levels]
        assert all(np.all(more <= less * (1 + 1e-12)) for less, more in itertools.pairwise(memory))


def test_exposed_communication_is_at_most_the_links_time(found):
    for *_, runtime, _, estimate in found:
        kinds = ("tensor", "context", "expert", "pipeline") + (() if runtime.eager else ("data",))  # and its copies
        for kind in kinds:
            exposed, link = estimate.breakdown[f"{kind}_s"], estimate.links[f"{kind}_link_s"]
            assert np.all(exposed <= link * (1 + 1e-12))


def test_without_overlap_all_link_time_is_exposed(found):
    for model, gpu, strategies, runtime, offload, estimate in found:
        if runtime.overlap_data or runtime.eager:
            continue
        assert np.allclose(estimate.breakdown["data_s"], estimate.links["data_link_s"], rtol=1e-12)
        if runtime.overlap_pipeline or runtime.overlap_tensor or runtime.overlap_tensor_forward:
            continue
        assert np.allclose(estimate.breakdown["pipeline_s"], estimate.links["pipeline_link_s"], rtol=1e-12)
        once = {**strategies, "recompute": np.zeros(estimate.total_s.size, int)}
        once["ends_as_layers"] = 0 * once["recompute"]
        estimate = iteration_times(replace(model, vocabulary=1), gpu, once, runtime, offload)
        assert np.allclose(estimate.breakdown["expert_s"], estimate.links["expert_link_s"], rtol=1e-12)
        assert np.allclose(estimate.breakdown["tensor_s"], estimate.links["tensor_link_s"], rtol=1e-12)
        assert np.all(estimate.links["logits_link_s"] <= estimate.breakdown["logits_s"])


@pytest.mark.parametrize(
    "names",
    [["hb_Bps"], ["nic_Bps"], ["memory_Bps"], ["host_Bps"], ["hb_fraction"]]
    + [["linear_rate", "bf16_rate"], ["linear_fraction", "bf16_fraction"]]
    + [["attention_fraction"], ["bf16_rate"], ["linear_rate"]]
    + [["kernel_s"], ["launch_s"], ["hb_latency_s"], ["nic_latency_s"], ["call_latency_s"]]
    + [["domain_call_latency_s"], ["domain_step_latency_s"], ["bulk_latency_s"]],
    ids=" ".join,
)
def test_a_better_machine_is_never_slower_and_sometimes_faster(found, names):
    faster, cases = False, found[::3][: len(SOFTWARE)]
    spare = any(name.startswith(("bf16", "attention", "memory")) for name in names)
    assert {case[3] for case in cases} == set(SOFTWARE.values())
    for model, gpu, strategies, runtime, offload, estimate in cases:
        if shares := {name: 0.9 * gpu.values[name] for name in names if name.endswith("fraction")}:
            gpu = gpu.changed(**shares)
            estimate = iteration_times(model, gpu, strategies, runtime, offload)
        less = {name: gpu.values[name] * 0.5 for name in names if name.endswith("_s")}
        more = {name: gpu.values[name] * 1.1 for name in names if name not in less}
        better = less | {name: min(x, 1.0) if name.endswith("fraction") else x for name, x in more.items()}
        ours = iteration_times(model, gpu.changed(**better), strategies, runtime, offload)
        # Work that takes less time leaves less power for the products beside it, which hide as much as before.
        assert np.all(ours.total_s <= estimate.total_s * (1 + (3e-3 if spare else 1e-12)))
        if not wide_dense_layers(model):  # else links are those of the slower end, which may be another one
            assert all(np.all(ours.links[kind] <= x * (1 + 1e-12)) for kind, x in estimate.links.items())
        assert all(np.array_equal(ours.memory[kind], x) for kind, x in estimate.memory.items())
        faster |= bool(np.any(ours.total_s < estimate.total_s * (1 - 1e-9)))
    assert faster


def test_the_nic_has_no_effect_where_one_hb_domain_holds_the_cluster(found):
    for model, gpu, strategies, runtime, offload, _ in found[::5]:
        strategy = row(strategies, 0)
        gpus = math.prod(strategy[name] for name in ("tensor", "context", "pipeline", "data"))
        whole = gpu.changed(hb_domain_size=gpus)
        slow = whole.changed(nic_Bps=1.0, nic_latency_s=1.0)
        if strategy["context"] * strategy["data"] % strategy["expert"] == 0:
            assert same(*(iteration_times(model, x, strategy, runtime, offload) for x in (whole, slow)))


def free(gpu):
    """The machine with links that take no time, and a host that takes none to go on after a hop."""
    return gpu.changed(
        hb_Bps=machine.UNLIMITED_BANDWIDTH,
        nic_Bps=machine.UNLIMITED_BANDWIDTH,
        **FREE_LATENCY,
        launch_s=0.0,
    )


def test_free_links_leave_compute_alone(found):
    for model, gpu, strategies, runtime, offload, estimate in found[::5]:
        if wide_dense_layers(model):  # whose other end may be the slower one then
            continue
        ours = iteration_times(model, free(gpu), strategies, runtime, offload)
        nothing = 1e-15 * ours.total_s
        assert all(np.all(x <= nothing) for x in ours.links.values())
        for kind in ("tensor", "context", "expert", "pipeline", "data"):
            copied = kind == "data" and runtime.eager
            assert copied or np.all(ours.breakdown[f"{kind}_s"] <= nothing)
        for kind in ("linear", "attention", "elementwise", "optimizer"):
            assert np.array_equal(ours.breakdown[f"{kind}_s"], estimate.breakdown[f"{kind}_s"])


@pytest.mark.parametrize("recompute", range(3))
@pytest.mark.parametrize(
    ("p", "v", "rounds"), [(1, 1, 5), (2, 1, 1), (4, 1, 3), (8, 1, 2), (2, 3, 2), (4, 2, 1), (8, 6, 2)]
)
def test_free_links_give_the_time_of_the_timetable(p, v, rounds, recompute):
    model, gpu = MODELS["GPT-3"], free(A100)
    strategy = ONE | {"tensor": 4, "pipeline": p, "interleave": v, "recompute": recompute, "global_batch": p * rounds}
    ours = iteration_times(model, gpu, strategy, SOFTWARE["nothing hidden"])
    layer = layer_costs(
        model, gpu, SOFTWARE["nothing hidden"], {name: np.array([strategy[name]]) for name in LAYER_COLUMNS}
    )
    passes = [float(x[0]) * model.layers / p for x in (layer.forward_s, layer.backward_s)]
    table = timetable.schedule("interleaved" if v > 1 else "1f1b", p, p * rounds, *passes, chunks=v)
    last = sum(ours.breakdown[f"{name}_s"] for name in ("logits", "optimizer", "once", "straggler"))
    assert ours.total_s - last == pytest.approx(table.total_s, rel=1e-12)
    assert ours.breakdown["bubble_s"] == pytest.approx(float(table.bubble_s.mean()), rel=1e-9)
    assert ours.breakdown["bubble_s"] == pytest.approx((p - 1) * sum(passes) / v, rel=1e-12)


@pytest.mark.parametrize("recompute", range(3))
@pytest.mark.parametrize(
    ("p", "v", "m"), [(1, 1, 5), (2, 1, 8), (8, 1, 3), (8, 1, 16), (2, 3, 8), (4, 2, 4), (8, 6, 16), (2, 6, 8)]
)
def test_the_fullest_stage_holds_the_timetables_micro_batches(p, v, m, recompute):
    model = replace(MODELS["GPT-3"], vocabulary=1, layers=480)
    strategy = ONE | {"tensor": 4, "pipeline": p, "interleave": v, "recompute": recompute, "global_batch": m}
    ours = iteration_times(model, A100, strategy, SOFTWARE["megatron2022"])
    table = timetable.schedule("interleaved" if v > 1 else "1f1b", p, m, 1.0, 2.0, chunks=v)
    kept, whole = (sum(model.layer_activation_bytes(1, 4, 1, False, level).values()) for level in (recompute, 0))
    again = (0, whole - kept, whole)[recompute]  # of the layer that is made again
    expected = table.peak_microbatches.max() * kept * 480 / p + again
    assert ours.memory["activations_bytes"] == pytest.approx(float(expected), rel=1e-6)


def test_the_last_stage_holds_the_logits_besides():
    strategy = ONE | {"tensor": 4, "pipeline": 4, "global_batch": 8}
    model = replace(MODELS["GPT-3"], vocabulary=10**8)
    kept = 24 * sum(model.layer_activation_bytes(1, 4, fused_attention=True, dropout=False).values())
    logits = (2 + 4) * 2048 * model.vocabulary / 4  # bf16, and its copy in fp32
    ours = iteration_times(model, A100, strategy)
    assert ours.memory["activations_bytes"] == pytest.approx(float(kept + logits), rel=1e-12)


def test_recompute_costs_at_most_a_forward_pass_and_saves_memory(found):
    for model, gpu, strategies, runtime, offload, _ in found[::5]:
        offload = tuple(set(names_of(offload)) - {"activations"})  # of which fewer pass the host's link
        strategies = {**strategies, "recomputed_layers": 0 * strategies["tensor"]}
        none, selective, full = (
            iteration_times(model, gpu, {**strategies, "recompute": level}, runtime, offload)
            for level in range(len(RECOMPUTE))
        )
        assert np.all(none.total_s <= selective.total_s) and np.all(selective.total_s <= full.total_s)
        assert np.all(selective.memory_bytes <= none.memory_bytes)
        if wide_dense_layers(model):  # whose other end may be the slower one then
            continue
        layer = layer_costs(model, gpu, runtime, {**strategies, "recompute": 0 * strategies["recompute"]})
        stages = none.breakdown["linear_s"] / layer.seconds["linear"]
        assert np.all(none.breakdown["recompute_s"] == 0)
        assert np.allclose(full.breakdown["recompute_s"], stages * layer.forward_s, rtol=1e-12)
        shortest = selective.breakdown["recompute_s"]
        if "mla_up_proj" not in runtime.recompute_modules:  # of which models without latent vectors have nothing
            assert np.all((shortest == 0) == runtime.selective_is_none)
        assert np.all(selective.breakdown["recompute_s"] <= full.breakdown["recompute_s"])
        for kind in ("linear_s", "attention_s", "elementwise_s", "tensor_s", "context_s", "expert_s"):
            assert np.array_equal(full.breakdown[kind], none.breakdown[kind])


def test_states_are_those_of_the_transformer(found):
    """Without a pipeline the fullest stage is all there is, as `Transformer.state_bytes` counts it."""
    for model, gpu, strategies, runtime, _, _ in found[::5]:
        alone = {**strategies, **{name: 0 * strategies["tensor"] for name in ("ends_as_layers", "whole_experts")}}
        alone |= {"pipeline": 0 * strategies["tensor"] + 1, "interleave": 0 * strategies["tensor"] + 1}
        alone["expert"] = np.gcd(alone["expert"], alone["context"] * alone["data"])
        t, c, d, e = (alone[name] for name in ("tensor", "context", "data", "expert"))
        same_bytes = replace(runtime, accumulation_bytes=4, sharded_gradients=False, moment_bytes=4, master_bytes=4)
        same_bytes = replace(same_bytes, fp32_shards=False)
        estimate = iteration_times(model, gpu, alone, same_bytes)
        expected = model.state_bytes(t, 1, d * c, alone["sharding"], e)
        for kind, sizes in expected.items():
            assert np.allclose(estimate.memory[f"{kind}_bytes"], sizes, rtol=1e-12), kind
        half = iteration_times(model, gpu, alone, replace(same_bytes, accumulation_bytes=2))
        assert np.allclose(half.memory["gradients_bytes"], expected["gradients"] / 2, rtol=1e-12)


def test_utilization_stays_below_the_peak(found):
    for model, gpu, strategies, runtime, _, estimate in found:
        gpus = math.prod(strategies[name] for name in ("tensor", "context", "pipeline", "data"))
        flops = model.training_flops(strategies["global_batch"], causal=runtime.fused_attention)
        peak = max(gpu.rates.linear_rate, gpu.rates.bf16_rate)
        assert np.all((flops / (estimate.total_s * gpus * peak))[fits(estimate)] < 1)


@pytest.mark.parametrize("runtime", ["modern", "megatron2021"])
@pytest.mark.parametrize("name", ["GPT-146B", "PaLM-540B"])
def test_on_an_ideal_machine_compute_is_the_models_flops(name, runtime):
    model, gpu = replace(MODELS[name], kv_heads=MODELS[name].heads), A100
    fractions = {field: 1.0 for field in gpu.values if field.endswith("_fraction")}
    ideal = free(gpu).changed(**machine.IDEAL_KERNELS, **fractions)
    ideal = ideal.changed(attention_backward_share=1.0, attention_kernels=())
    strategy = ONE | {"tensor": 4, "context": 2, "data": 3, "micro_batch": 2, "global_batch": 12}
    ours = iteration_times(model, ideal, strategy, SOFTWARE[runtime])
    flops = {kind: 12 * float(x) / (24 * gpu.rates.bf16_rate) for kind, x in model.forward_flops(causal=False).items()}
    assert ours.breakdown["linear_s"] == pytest.approx(3 * (flops["projections"] + flops["feed-forward"]), rel=1e-12)
    passes = 0.5 * 3.5 if runtime == "modern" else 3  # a fused kernel skips the mask, and makes the scores again
    assert ours.breakdown["attention_s"] == pytest.approx(passes * flops["scores"], rel=1e-12)
    assert ours.breakdown["logits_s"] == pytest.approx(3 * flops["logits"], rel=1e-12)
    rest = ("elementwise_s", "recompute_s", "tensor_s", "context_s", "data_s", "optimizer_s", "bubble_s")
    assert all(ours.breakdown[kind] <= 1e-15 * ours.total_s for kind in rest)


def test_arrays_are_a_loop_of_numbers_in_any_order_and_shape(found):
    for model, gpu, strategies, runtime, offload, estimate in found[::5]:
        order = np.random.default_rng(0).permutation(estimate.total_s.size)
        mixed = iteration_times(model, gpu, {k: x[order] for k, x in strategies.items()}, runtime, offload)
        for i in range(4):
            alone = iteration_times(model, gpu, row(strategies, i), runtime, offload)
            assert alone.total_s.shape == alone.obstacles.shape == alone.memory_bytes.shape == ()
            back = int(np.flatnonzero(order == i)[0])
            for many, place in ((estimate, i), (mixed, back)):
                assert many.total_s[place] == alone.total_s and many.obstacles[place] == alone.obstacles
                for group in ("breakdown", "links", "memory"):
                    ours, theirs = getattr(many, group), getattr(alone, group)
                    assert {kind: x[place] for kind, x in ours.items()} == {
                        kind: float(x) for kind, x in theirs.items()
                    }
        square = {name: column.reshape(4, 4) for name, column in strategies.items()}
        assert np.array_equal(iteration_times(model, gpu, square, runtime, offload).total_s.ravel(), estimate.total_s)


def test_columns_broadcast_and_may_be_empty():
    gpu, model = A100, MODELS["GPT-3"]
    sweep = ONE | {"tensor": np.array([[1], [2]]), "global_batch": np.array([1, 2, 3])}
    estimate = iteration_times(model, gpu, sweep)
    assert estimate.total_s.shape == estimate.memory["weights_bytes"].shape == (2, 3)
    assert np.all(np.diff(estimate.total_s, axis=1) > 0) and np.all(np.diff(estimate.total_s, axis=0) < 0)
    empty = iteration_times(model, gpu, ONE | {"tensor": np.zeros(0, int)})
    assert empty.total_s.shape == empty.memory_bytes.shape == empty.breakdown["data_s"].shape == (0,)


def test_missing_columns_are_named():
    columns = {name: 1 for name in STRATEGY_COLUMNS if name not in ("data", "sharding")}
    with pytest.raises(ValueError, match="strategies lack data, sharding: give a Strategy, or an array for each of"):
        iteration_times(MODELS["GPT-3"], A100, columns)


BYTES, RANKS = st.floats(0, 1e12), st.integers(1, 600)


def gathered(gpu, size, ranks, stride=1, calls=1):
    """Seconds of an AllGather of ranks so many GPUs apart."""
    return gpu.gather_links(size, *GroupLevels(ranks, stride).in_domains(gpu.hb_domain_size), calls).time_s


def exchanged(gpu, size, ranks, stride=1):
    """Seconds of an all-to-all of such ranks."""
    return gpu.all_to_all_links(size, *GroupLevels(ranks, stride).in_domains(gpu.hb_domain_size)).time_s


@given(BYTES, RANKS, st.sampled_from(list(MACHINES)))
def test_a_group_in_one_domain_and_a_group_without_one_have_the_rings_time(size, n, name):
    gpu = MACHINES[name].changed(**FREE_LATENCY)
    hb, nic = gpu.hb_Bps * gpu.links.hb_fraction, gpu.nic_Bps * gpu.links.nic_fraction
    for stride in (1, 3):
        whole, alone = gpu.changed(hb_domain_size=n * stride), gpu.changed(hb_domain_size=stride)
        for machine_, rate in ((whole, hb), (alone, min(hb, nic))):
            ring = (
                collectives.all_gather_time(size, n, rate),
                collectives.collective_time("all_reduce", size, n, rate) / 2,
            )
            assert gathered(machine_, size, n, stride) == pytest.approx(float(ring[0]), rel=1e-12)
            assert ring[1] == pytest.approx(float(ring[0]), rel=1e-12)
        for machine_, rate in ((whole, hb), (alone, nic)):
            direct = collectives.collective_time("all_to_all", size, n, rate)
            assert exchanged(machine_, size, n, stride) == pytest.approx(float(direct), rel=1e-12)
            bandwidth, latency = machine_.hop_link(GroupLevels(n, stride).in_domains(machine_.hb_domain_size)[1] == 1)
            send = collectives.collective_time("point_to_point", size, 2, rate)
            assert n == 1 or float(size / bandwidth + latency) == pytest.approx(float(send), rel=1e-12)


def test_a_product_of_whole_waves_runs_at_the_full_rate():
    gpu = A100.changed(kernel_s=0.0)
    m, n, k = 256 * gpu.rates.processors, 128 * 3, 4096
    element_s = 2 * k / gpu.bf16_flops + 1 / gpu.rates.bf16_epilogue_rate
    assert float(product_time(gpu, m, n, k)) == pytest.approx(m * n * element_s, rel=1e-12)
    one_more = float(product_time(gpu, m + 1, n, k)) - float(product_time(gpu, m, n, k))
    assert 0 < one_more <= 256 * 128 * gpu.rates.processors * element_s


def test_a_machine_on_a_fabric_keeps_its_links():
    fabric = rail_only(1024, 64, 64)
    ours = A100.on(fabric)
    assert ours.changed(fabric=None) == A100 and ours.links.fabric == fabric
    with pytest.raises(ValueError, match="fabric has HB domains of 8 GPUs, the machine 72: give a fabric with hb_dom"):
        machine.catalog_machine("GB200 NVL72").on(rail_only(1024, 8, 64))
    with pytest.raises(ValueError, match="fabric has NICs of 800 Gbps, the machine 200 Gbps: give both the same"):
        A100.on(rail_only(1024, 8, 64, nic_Bps="800 Gbps"))
    slow = rail_only(1024, 8, 64, nic_Bps="400 Gbps")  # as the default platform has; given all the same
    with pytest.raises(ValueError, match="fabric has NICs of 400 Gbps, the machine"):
        A100.on(FailedPart(slow, "trunk link"))
    assert machine.catalog_machine("DGX H100").on(slow).links.fabric == slow
