"""What each choice of a strategy, of software and of a machine changes in an iteration: limits and ratios.

Eager PyTorch with FSDP, mixtures and their dispatchers, windows and latent attention, offloads, stragglers.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from one_layer import layer_work

from railcore.training.iteration import iteration_times
from railcore.training.layer import layer_costs
from railcore.training.layer_work import host_operators
from railcore.training.link_times import exposed_time
from railcore.training.machine import IDEAL_KERNELS, catalog_machine
from railcore.training.machine_parts import DomainCollectives
from railcore.training.parallelism import Strategy
from railcore.training.rank import LAYER_COLUMNS
from railcore.training.runtime import MODERN, Runtime, catalog_runtime
from railcore.training.stage import bucket_calls, slowest_gpu
from railcore.training.transformer import Transformer

H100 = catalog_machine("DGX H100")
APART = replace(MODERN, overlap_tensor=False, overlap_data=False, overlap_pipeline=False)
H, FFN, S, LAYERS = 2048, 8192, 4096, 24
GPT = Transformer("gpt", LAYERS, H, 16, 16, FFN, 50368, S, ffn_matrices=2, positions=S)
MIXTURE = replace(GPT, name="mixture", experts=16, top_k=2, expert_hidden=2048, imbalance=1.0)
SHARDED = Strategy(data=8, micro_batch=2, sharding="weights")


def found(model, strategy, machine=H100, runtime=MODERN, batch=64, **options):
    return iteration_times(model, machine, strategy, runtime, global_batch=batch, **options)


def parts(*arguments, **options):
    return {name: time.item() for name, time in found(*arguments, **options).breakdown.items()}


def one_layer(strategy):
    return {name: np.array([strategy.columns(64)[name]]) for name in LAYER_COLUMNS}


def changed(before, after):
    return {name for name in before if not math.isclose(before[name], after[name], rel_tol=1e-9, abs_tol=1e-15)}


# Eager PyTorch


@pytest.mark.parametrize("slowdown", [1.0, 1.25, 2.0, 8.0])
def test_a_hidden_second_of_a_collective_costs_what_the_kernels_beside_it_lose(slowdown):
    quiet, machine = H100.changed(collective_processors=0), H100.changed(overlap_slowdown=slowdown)
    hidden, shown = (parts(GPT, SHARDED, quiet, replace(MODERN, overlap_data=on))["data_s"] for on in (True, False))
    lost = parts(GPT, SHARDED, machine, replace(MODERN, persistent_kernels=True))["data_s"]
    assert hidden < shown and lost == pytest.approx(hidden + (1 - 1 / slowdown) * (shown - hidden), rel=1e-12)


def test_interference_of_all_processors_hides_nothing_and_of_none_is_free():
    plan = Strategy(2, data=8, pipeline=4, interleave=2, sharding="weights", sequence_parallel=True)
    all_of_it = H100.changed(collective_processors=H100.rates.processors)
    ours = found(GPT, plan, all_of_it)
    for kind in ("tensor", "pipeline", "data"):
        assert ours.breakdown[f"{kind}_s"] == pytest.approx(ours.links[f"{kind}_link_s"], rel=1e-9)
    assert MODERN.interference(H100.changed(collective_processors=0)) == 0 and MODERN.interference(all_of_it) == 1
    assert MODERN.interference(H100.changed(collective_processors=10 * H100.rates.processors)) == 1


def test_an_eager_layer_takes_at_least_as_long_as_its_operators_take_to_start():
    slow = H100.changed(launch_s=1.0, rank_spread=0.0)
    ours = parts(GPT, Strategy(data=8), slow, Runtime(eager=True))
    layers = sum(ours[f"{kind}_s"] for kind in ("linear", "attention", "elementwise", "host"))
    assert layers == pytest.approx(8 * LAYERS * (slow.host.forward_operators + slow.host.backward_operators), rel=1e-9)
    assert parts(GPT, Strategy(data=8), slow, MODERN)["host_s"] == 0


# Bytes of gradients and weights


def test_gradients_on_their_way_and_in_memory_have_their_own_bytes():
    plan = Strategy(data=64)
    wide, narrow = (found(GPT, plan, runtime=replace(MODERN, gradient_bytes=size)) for size in (4, 2))
    start = found(
        replace(GPT),
        plan,
        H100.changed(hb_latency_s=0, nic_latency_s=0, call_latency_s=0),
        replace(MODERN, gradient_bytes=2),
    )
    exact = found(GPT, plan, H100.changed(hb_latency_s=0, nic_latency_s=0, call_latency_s=0))
    assert exact.links["data_link_s"] == pytest.approx(2 * start.links["data_link_s"], rel=1e-12)
    assert narrow.memory["gradients_bytes"] == wide.memory["gradients_bytes"] == 4 * GPT.total_parameters
    small = found(GPT, plan, runtime=replace(MODERN, accumulation_bytes=2))
    assert small.memory["gradients_bytes"] == 2 * GPT.total_parameters
    assert small.links["data_link_s"] == wide.links["data_link_s"]
    assert small.breakdown["linear_s"] < wide.breakdown["linear_s"]  # the product adds to 2 bytes, not to 4


def test_sharded_gradients_are_a_share_and_two_chunks_with_a_sharded_optimizer_alone():
    runtime = replace(MODERN, sharded_gradients=True)
    for sharding, chunks in itertools.product(("none", "optimizer", "gradients", "weights"), (1, 2, 4, 6)):
        plan = Strategy(pipeline=2, data=64, sharding=sharding, interleave=chunks)
        kept, whole = (found(GPT, plan, runtime=each, batch=256) for each in (runtime, MODERN))
        ratio = (kept.memory["gradients_bytes"] / whole.memory["gradients_bytes"]).item()
        assert ratio == pytest.approx(min(1 / 64 + 2 / chunks, 1) if sharding == "optimizer" else 1)
        assert kept.total_s == whole.total_s


def test_states_of_the_optimizer_have_the_bytes_that_the_runtime_says():
    """Two moments, and a copy of the weight where there is one: the step reads and writes them.

    It reads the gradient, 4, writes the weight, 2, and reads it too where the copy is none, or none of all bits. Norm,
    clip and clearing of the gradient move 16.
    """
    for moment, master in itertools.product((2, 4), (0, 2, 4)):
        runtime = replace(MODERN, moment_bytes=moment, master_bytes=master)
        ours, plain = (found(GPT, SHARDED, runtime=each) for each in (runtime, MODERN))
        ratio = ours.memory["optimizer_bytes"] / plain.memory["optimizer_bytes"]
        assert ratio.item() == pytest.approx((2 * moment + master) / 12)
        moved = 2 * (2 * moment + master) + 4 + (2 if master == 4 else 4) + 16
        more = H100.memory.adam_extra_bytes
        share = (moved + more) / (46 + more)
        assert ours.breakdown["optimizer_s"] == pytest.approx(share * plain.breakdown["optimizer_s"], rel=1e-12)


def test_shards_in_fp32_are_the_optimizers_alone():
    """Sharded weights: 2 bytes a parameter of two layers at work; the share is among the 12 of the optimizer."""
    for sharding in ("none", "optimizer", "gradients", "weights"):
        plan = replace(SHARDED, sharding=sharding)
        ours, plain = (found(GPT, plan, runtime=replace(MODERN, fp32_shards=on)) for on in (True, False))
        less = plain.memory["weights_bytes"] - ours.memory["weights_bytes"]
        assert less.item() == pytest.approx(2 * GPT.total_parameters / 8 if sharding == "weights" else 0)


# Tensor ranks


def test_kept_inputs_are_not_gathered_once_more():
    plan = Strategy(8, sequence_parallel=True)
    again, kept = (found(GPT, replace(plan, keep_gathered=on), runtime=APART) for on in (False, True))
    assert (kept.links["tensor_link_s"] / again.links["tensor_link_s"]).item() == pytest.approx(8 / 10, rel=1e-12)
    more = (kept.memory["activations_bytes"] - again.memory["activations_bytes"]).item()
    assert more == pytest.approx(LAYERS * 2 * 2 * S * H * 7 / 8, rel=1e-9)
    full = [found(GPT, replace(plan, keep_gathered=on, recompute="full")).memory_bytes for on in (False, True)]
    assert full[0] == full[1]


def test_ring_exchange_leaves_one_piece_and_never_more_than_the_links_time():
    plan = Strategy(8, sequence_parallel=True)
    ring = replace(MODERN, overlap_tensor_forward=True)
    fast, slow = (H100.changed(collective_processors=0, hb_Bps=rate) for rate in (1e13, 1e8))
    ours = found(GPT, plan, fast, ring)
    assert ours.breakdown["tensor_s"] == pytest.approx(ours.links["tensor_link_s"] / 8, rel=1e-9)
    ours, apart = (found(GPT, plan, slow, each) for each in (ring, APART))
    hidden = (apart.breakdown["tensor_s"] - ours.breakdown["tensor_s"]).item()
    assert hidden == pytest.approx(7 / 8 * apart.breakdown["linear_s"].item(), rel=1e-9)


# Mixtures of experts


def test_whole_experts_hold_more_weights_and_have_the_same_flops():
    plan = Strategy(4, data=8, expert=8, sequence_parallel=True)
    ideal = H100.changed(**IDEAL_KERNELS)
    sliced, whole = (found(MIXTURE, replace(plan, whole_experts=on), ideal) for on in (False, True))
    assert whole.memory["weights_bytes"] > sliced.memory["weights_bytes"]  # 8 runs of 4 slices against 4 x 8 ranks
    flops = sliced.breakdown["linear_s"].item()
    assert whole.breakdown["linear_s"].item() == pytest.approx(flops, rel=1e-3)  # but for sides of tiles


def test_capacity_sets_the_rows_whatever_the_imbalance_and_dropless_routing_follows_it():
    skewed, plan = replace(MIXTURE, imbalance=1.5), Strategy(data=16, expert=16)
    drops = [found(model, plan, runtime=replace(MODERN, capacity=1.5)) for model in (MIXTURE, skewed)]
    assert drops[0].breakdown["linear_s"] == drops[1].breakdown["linear_s"]
    free = found(skewed, plan)
    for kind in ("linear_s", "expert_s", "elementwise_s"):
        assert free.breakdown[kind] == pytest.approx(drops[1].breakdown[kind], rel=1e-12)
    tight = found(skewed, plan, runtime=replace(MODERN, capacity=1.0))
    assert tight.breakdown["expert_s"] < free.breakdown["expert_s"]


def test_exchanges_behind_another_micro_batch_leave_the_machines_share():
    plan, quiet = Strategy(data=16, expert=16), H100.changed(collective_processors=0, nic_Bps=1e13, hb_Bps=1e13)
    runtime = replace(MODERN, overlap_expert=True)
    ours = found(MIXTURE, plan, quiet, runtime)
    least = 1 - quiet.host.exchange_hidden_share
    assert ours.breakdown["expert_s"] == pytest.approx(least * ours.links["expert_link_s"], rel=1e-9)
    slow = quiet.changed(nic_Bps=1e7, exchange_hidden_share=1.0)
    apart, behind = (parts(MIXTURE, plan, slow, each) for each in (MODERN, runtime))
    compute = sum(apart[f"{kind}_s"] for kind in ("linear", "attention", "elementwise"))
    assert apart["expert_s"] - behind["expert_s"] == pytest.approx(compute, rel=1e-9)


def test_the_host_binds_mixture_layers_and_graphs_free_them():
    plan, slow = Strategy(data=16, expert=2), H100.changed(launch_s=1e-3)
    dropless = replace(MODERN, graphs="none")
    bound = parts(MIXTURE, plan, slow, dropless)
    assert bound["host_s"] > 0
    assert parts(MIXTURE, plan, slow, MODERN)["host_s"] == 0
    assert parts(GPT, replace(plan, expert=1), slow, dropless)["host_s"] == 0
    fewer = parts(MIXTURE, replace(plan, expert=16), slow, dropless)
    assert fewer["host_s"] < bound["host_s"]  # a rank with fewer experts starts fewer operators
    never = slow.changed(launch_s=0.0, kernel_launch_s=0.0)
    assert parts(MIXTURE, plan, never, dropless)["host_s"] == 0
    alone = slow.changed(dropless_serial_share=0.0), slow.changed(dropless_serial_share=1.0)
    waits = [parts(MIXTURE, plan, box, dropless)["host_s"] for box in alone]
    work = sum(bound[f"{kind}_s"] for kind in ("linear", "attention", "elementwise", "tensor", "expert"))
    assert waits[1] - waits[0] == pytest.approx(work, rel=1e-9)


def test_dense_first_layers_are_averaged_without_a_pipeline_and_left_to_other_stages_with_one():
    first = replace(MIXTURE, dense_layers=6)
    steady = H100.changed(layer_spare_power=0.0)  # else other kernels of the average layer shorten its products
    all_mixed, some = (layer_costs(model, steady, MODERN, one_layer(Strategy())) for model in (MIXTURE, first))
    staged, plain = (layer_costs(model, steady, MODERN, one_layer(Strategy(pipeline=2))) for model in (first, MIXTURE))
    assert np.array_equal(staged.forward_s, plain.forward_s) and np.array_equal(staged.kept_bytes, plain.kept_bytes)
    dense = layer_costs(GPT, steady, MODERN, one_layer(Strategy()))
    for name in ("linear", "elementwise"):
        wanted = 0.75 * all_mixed.seconds[name] + 0.25 * dense.seconds[name]
        assert some.seconds[name] == pytest.approx(wanted, rel=1e-9)


# Attention


def test_a_window_leaves_its_share_of_the_scores():
    box, w = H100.changed(kernel_s=0.0, window_keys=0.0), 512

    def time(model, box=box):
        return layer_work(model, box, MODERN, Strategy())["attention"].forward.item()

    assert time(replace(GPT, window=w)) == pytest.approx(time(GPT) * w / S * (2 - w / S), rel=1e-12)
    tiles = box.changed(window_keys=300.0)
    assert time(replace(GPT, window=w), tiles) == pytest.approx(time(GPT) * (w * (2 - w / S) + 300) / S, rel=1e-12)
    assert time(replace(GPT, window=S - 1), tiles) == time(GPT, tiles) == time(GPT)
    mixed = time(replace(GPT, window=w, full_attention_interval=4))
    assert mixed == pytest.approx(time(GPT) / 4 + 0.75 * time(replace(GPT, window=w)), rel=1e-12)
    assert time(replace(GPT, window=S)) == time(replace(GPT, window=10 * S)) == time(GPT)


# The host, stragglers, stages


@pytest.mark.parametrize("kind", ["activations", "weights", "optimizer"])
def test_an_offload_saves_its_kind_of_memory_and_takes_the_hosts_link(kind):
    plan = Strategy(data=8, micro_batch=2, recompute="none")
    none, away = found(GPT, plan), found(GPT, plan, offload=kind)
    smaller = {name for name in none.memory if away.memory[name] < none.memory[name] * (1 - 1e-9)}
    assert smaller == {f"{kind}_bytes"}
    if kind == "activations":
        kept = layer_costs(GPT, H100, MODERN, one_layer(plan))
        left = 2 * kept.kept_bytes + kept.logits_bytes
        assert away.memory["activations_bytes"] == pytest.approx(left.item(), rel=1e-12)
    if kind == "weights":
        assert away.memory["weights_bytes"] == pytest.approx(
            none.memory["weights_bytes"].item() * 2 / LAYERS, rel=1e-12
        )
    both = found(GPT, plan, offload=("activations", "optimizer"))
    assert both.memory["activations_bytes"] < none.memory["activations_bytes"]
    assert both.memory["optimizer_bytes"] == 0


def test_offloaded_activations_bind_a_pass_where_the_hosts_link_is_slow():
    plan, slow = Strategy(data=8), H100.changed(host_Bps=1e6, rank_spread=0.0)
    kept = layer_costs(GPT, H100, MODERN, one_layer(plan)).kept_bytes.item()
    found_s = found(GPT, plan, slow, offload="activations").total_s.item()
    assert found_s == pytest.approx(8 * 2 * LAYERS * kept / 1e6, rel=1e-3)


def test_the_slowest_of_more_ranks_is_slower_and_one_rank_waits_for_nobody():
    alone = parts(GPT, Strategy(), batch=8)
    assert alone["straggler_s"] == 0
    spread = [parts(GPT, Strategy(data=d), batch=8 * d)["straggler_s"] for d in (2, 16, 1024)]
    assert spread == sorted(spread) and spread[0] > 0
    ours = parts(GPT, Strategy(data=1024), batch=8 * 1024)
    compute = sum(ours[f"{kind}_s"] for kind in ("linear", "attention", "elementwise", "logits"))
    assert ours["straggler_s"] == pytest.approx(slowest_gpu(H100.rates, 1024) * compute, rel=1e-5)
    assert parts(GPT, Strategy(data=16), H100.changed(rank_spread=0.0, rack_spread=0.0))["straggler_s"] == 0


@pytest.mark.parametrize(("spread", "between"), [(0.02, 0.0), (0.0, 0.02), (0.015, 0.0145)])
def test_the_slowest_gpu_is_that_of_drawn_racks(spread, between):
    rates, draws = replace(H100.rates, rank_spread=spread, rack_spread=between, rack_gpus=16), np.random.default_rng(0)
    for gpus in (1, 8, 16, 64, 512):
        racks = -(-gpus // 16)
        means = draws.normal(0, between, (4000, racks, 1)) * (racks > 1)  # a single rack is its own mean
        drawn = (means + draws.normal(0, spread, (4000, racks, min(gpus, 16)))).max(axis=(1, 2)).mean()
        assert slowest_gpu(rates, gpus) == pytest.approx(drawn, rel=0.06, abs=6e-4)


def test_what_is_done_once_grows_with_the_steps_over_all_ranks():
    box, waits = H100.changed(launch_s=1e-3), replace(MODERN, waiting_operators=10)
    alone, many = (parts(GPT, Strategy(data=d), box, waits, batch=1024)["once_s"] for d in (1, 1024))
    one = H100.links.call_latency_s + 2 * 7 * (4 / 3.4 * H100.links.hb_latency_s + H100.links.nic_latency_s)  # a tree
    assert alone == pytest.approx(0.01)
    assert many - alone == pytest.approx(2 * one)


def test_uneven_stages_take_the_time_and_memory_of_the_fullest_one():
    plan = Strategy(pipeline=5, data=2)
    uneven, full = found(GPT, plan), found(replace(GPT, layers=25), plan)
    assert uneven.feasible and uneven.breakdown["linear_s"] == full.breakdown["linear_s"]
    assert uneven.breakdown["bubble_s"] / full.breakdown["bubble_s"] == pytest.approx((24 / 5 - 1) / 4)
    assert "the fullest stage has 5" in " ".join(plan.check(GPT, 64))
    ends = found(GPT, replace(plan, pipeline=13, ends_as_layers=True))  # 24 layers and both ends in 13 x 2 places
    even = found(replace(GPT, layers=26), replace(plan, pipeline=13))
    assert ends.breakdown["linear_s"] == even.breakdown["linear_s"]
    assert ends.breakdown["logits_s"] < even.breakdown["logits_s"]


def test_micro_batches_that_fill_no_turn_take_their_own_time():
    plan = Strategy(pipeline=4, interleave=2)
    times = [found(GPT, plan, batch=m) for m in range(4, 9)]
    assert all(estimate.feasible or estimate.limits == "memory" for estimate in times)
    steps = np.diff([estimate.total_s.item() for estimate in times])
    assert np.all(steps > 0) and steps == pytest.approx(np.full(4, steps[0]), rel=1e-9)
    assert "interleave" in found(GPT, plan, batch=3).limits.item()
    held = [estimate.memory["activations_bytes"].item() for estimate in times]
    assert held[0] <= held[1] <= held[2] <= held[3] and held[4] < held[3]  # a rest waits with the turn that it joins


# Links


def test_switches_need_not_multicast():
    plain = H100.changed(multicast_latency_s=math.inf)
    assert plain.gather_links(0, 256, 1).time_s > H100.gather_links(0, 256, 1).time_s
    assert plain.gather_links(0, 1, 1).time_s == plain.all_reduce_links(0, 1, 1).time_s == 0
    assert DomainCollectives().multicast_latency_s == math.inf


def test_all_reduces_in_two_phases_take_both_of_them():
    """A tree saves steps, and none of the phases."""
    phases = H100.changed(two_phase_collectives=True, multicast_latency_s=math.inf)  # switches may send less
    for size, (x, y) in itertools.product((1e7, 1e9), ((8, 4), (8, 64), (2, 2), (8, 1), (1, 64))):
        hb, nic = 2 * size * (x - 1) / x / H100.collective_hb_Bps, 2 * size * (y - 1) / x / y / H100.collective_nic_Bps
        assert phases.all_reduce_links(size, x, y).time_s >= hb + nic


def test_rings_take_longer_the_more_ranks_they_pass_and_trees_hardly_do():
    gather, reduce = H100.gather_links, H100.all_reduce_links
    times = [float(gather(1e6, 8, y).time_s) for y in (1, 2, 16, 128, 1024)]
    assert times == sorted(times) and float(reduce(1e6, 8, 1024).time_s) < times[4] / 10
    one_call = 2 * float(gather(1e10, 8, 4).time_s) - H100.links.call_latency_s
    assert float(reduce(1e10, 8, 4).time_s) == pytest.approx(one_call)
    assert float(gather(0, 1, 1).time_s) == 0 and float(reduce(0, 1, 1).time_s) == 0


def test_an_exchange_that_is_longer_than_compute_does_not_pay_for_what_it_slows():
    lost = 0.2
    assert exposed_time(0.0, 1.0, lost) == 0
    assert exposed_time(0.5, 1.0, lost) == pytest.approx(lost * 0.5)
    assert exposed_time(10.0, 1.0, lost) == 9.0
    assert exposed_time(2.0, 0.0, lost) == 2.0
    assert exposed_time(0.5, 1.0, lost, 0.1) == pytest.approx(0.05 + lost * 0.45)
    edge = 1 / (1 - lost)  # both answers meet where the slowed compute ends with the exchange
    assert exposed_time(edge, 1.0, lost) == pytest.approx(edge - 1)


def test_gradients_leave_in_buckets_that_grow_with_the_ranks():
    assert bucket_calls(0, 8) == 0 and bucket_calls(1, 8) == 1
    assert bucket_calls(400e6, 8) == 10 and bucket_calls(400e6, 100) == 4


def test_beside_slow_nics_compute_that_wants_the_memory_loses_little():
    job = Strategy(data=64, micro_batch=4, sharding="weights", recompute="full")
    eager = catalog_runtime("fsdp-eager")
    slow = catalog_machine("DGX A100", nic_Bps="50 Gbps")
    waits = {
        share: parts(GPT, job, slow.changed(memory_contention=share), eager, 256)["data_s"] for share in (False, True)
    }
    assert waits[True] < 0.6 * waits[False]
    assert not eager.contends(H100) and eager.contends(slow) and not MODERN.contends(slow)


# What products take beside other kernels, and how experts start


def test_other_kernels_leave_power_to_the_products_of_a_layer():
    """By their time times the machine's share; unfused attention is products itself."""
    some, none = (H100.changed(layer_spare_power=share) for share in (0.01, 0.0))
    for runtime, of_attention in ((MODERN, 1), (replace(MODERN, attention="unfused"), 0)):
        shorter, alone = (parts(GPT, Strategy(), box, runtime) for box in (some, none))
        other = alone["elementwise_s"] + of_attention * alone["attention_s"]
        assert alone["linear_s"] - shorter["linear_s"] == pytest.approx(0.01 * other, rel=1e-9)


def test_experts_start_in_recompute_as_they_do_forward():
    free = H100.changed(layer_spare_power=0.0, grouped_start_s=0.0, grouped_epilogue_share=1.0)
    plan = Strategy(recompute="selective")
    loop, grouped = (
        parts(MIXTURE, plan, free, replace(MODERN, recompute_modules=("moe",), expert_products=way))
        for way in ("loop", "grouped")
    )
    again = loop["recompute_s"] - grouped["recompute_s"]
    assert again > 0 and loop["linear_s"] - grouped["linear_s"] == pytest.approx(3 * again, rel=1e-9)


def test_the_host_starts_one_kernel_for_all_experts_where_they_are_grouped():
    apart, grouped = (host_operators(8, cast_kernels=1, grouped=on) for on in (False, True))
    assert apart.forward == grouped.forward and apart.backward == grouped.backward
    assert (apart.forward_kernels, grouped.forward_kernels) == (2 * 8 * 2, 2 * 2)
    assert (apart.backward_kernels, grouped.backward_kernels) == (8 * (6 + 2), 2 * (2 + 8) + 2)
