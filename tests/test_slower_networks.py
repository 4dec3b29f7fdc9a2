"""Searches of few splits on networks that are nowhere faster than one that was searched: what they find, and why."""

from dataclasses import fields, replace

import numpy as np
import pytest

from railcore.network.topology.failed_part import FailedPart
from railcore.network.topology.rails import RailFabric, fat_tree, rail_only, rail_optimized
from railcore.photonics.circuit_search import best_on_circuits
from railcore.planner.fabrics import limiting_fabric
from railcore.strategies import slower_networks
from railcore.strategies.parts import search
from railcore.strategies.slower_networks import fastest_network, search_slower
from railcore.strategies.space import strategy_blocks
from railcore.strategies.splits import SPLIT
from railcore.training.group_shares import group_shares
from railcore.training.iteration import iteration_times
from railcore.training.machine import catalog_machine
from railcore.training.rank_order import gpus_of, group_levels
from railcore.training.runtime import MODERN, Runtime
from railcore.training.software import as_runtime, dated_runtimes
from railcore.training.strategy_columns import STRATEGY_COLUMNS
from railcore.training.transformer import Transformer

DENSE = Transformer("dense", 6, 512, 8, 2, 2048, 4000, 64, ffn_matrices=2)
MIXTURE = Transformer("mixture", 4, 512, 4, 4, 1024, 4000, 24, ffn_matrices=2, experts=16, top_k=2, imbalance=1.5)
ADAPTED = replace(DENSE, name="adapted", lora_rank=8)
GROUPED = replace(MIXTURE, name="grouped", experts=12, expert_groups=4, token_groups=2, sequence_length=6)
GPU = catalog_machine("DGX A100").changed(reserved_bytes=0.0, hb_domain_size=4)
TIGHT = GPU.changed(memory_bytes=2e8)
NODES = Runtime("nodes", dispatcher="nodes", overlap_expert=True, dispatch_bytes=1)
SERIAL = Runtime("serial", attention="unfused", overlap_data=False)
JOBS = [(DENSE, 64, GPU), (MIXTURE, 32, GPU), (ADAPTED, 32, GPU), (GROUPED, 24, GPU), (MIXTURE, 32, TIGHT)]
SHAPE = {"radix": 8, "rails_per_switch": None}


def networks(gpus, K=4):
    """None, and networks with narrow places of many kinds."""
    clos = {"radix": 8, "rails": 1, "rails_per_switch": None}
    yield from (None, rail_only(gpus, K, 8), rail_optimized(gpus, K, 8), fat_tree(gpus, 8, K))
    yield from (RailFabric(gpus, K, oversubscription=s, **SHAPE) for s in (2.0, 4.0))
    yield from (RailFabric(gpus, K, tier_oversubscription=(s,), **clos) for s in (2.0, 4.0))
    yield RailFabric(gpus, K, tier_oversubscription=(4.0,), planes=2, **clos)
    yield FailedPart(fat_tree(gpus, 8, K), "spine")


def runtimes(gpu):
    """Software with each overlap alone and with all of them, and that of the catalog."""
    flags = [field.name for field in fields(Runtime) if field.name.startswith("overlap")]
    alone = [replace(SERIAL, name=flag, **{flag: True}) for flag in flags]
    named = [as_runtime(name, gpu) for name in dated_runtimes(gpu)]
    return [MODERN, NODES, SERIAL, replace(MODERN, name="all", **dict.fromkeys(flags, True)), *alone, *named]


def of_blocks(*job, **limits):
    blocks = list(strategy_blocks(*job, **limits))
    return {name: np.concatenate([block[name] for block in blocks]) for name in STRATEGY_COLUMNS}


def some(columns, count=4000):
    places = np.random.default_rng(0).permutation(columns["data"].size)[:count]
    return {name: values[places] for name, values in columns.items()}


@pytest.mark.parametrize(("model", "gpus", "gpu"), JOBS[:4], ids=lambda value: getattr(value, "name", ""))
def test_no_strategy_is_faster_on_another_network(model, gpus, gpu):
    every, slower = [*networks(gpus)], 0
    for number, runtime in enumerate(runtimes(gpu)):
        columns = some(of_blocks(model, gpu, gpus, 96, runtime), 300)
        best = iteration_times(model, gpu.on(fastest_network(gpus, 4)), columns, runtime)
        for network in every[number % 4 :: 4]:
            times = iteration_times(model, gpu.on(network), columns, runtime)
            assert (times.total_s >= best.total_s * (1 - 1e-12)).all(), (runtime, network)
            assert (times.memory_bytes == best.memory_bytes).all()
            assert not (times.feasible & ~best.feasible).any()
            slower += (times.total_s > best.total_s * (1 + 1e-9)).any()
    assert slower > 3


def test_the_fastest_network_limits_nothing():
    for gpus, K in ((64, 4), (65, 4), (7, 8), (72 * 2**17, 72)):
        columns = some(of_blocks(MIXTURE, GPU, 64, 64)) if gpus >= 64 else {name: 1 for name in STRATEGY_COLUMNS}
        shares = group_shares(fastest_network(gpus, K), group_levels(columns), min(K, 4), gpus_of(columns))
        assert all(np.all(share == 1) for share in (*shares.by_kind.values(), shares.direct))


@pytest.mark.parametrize("only_best", [False, True])
@pytest.mark.parametrize(("model", "gpus", "gpu"), JOBS[1:])
def test_no_strategy_of_a_split_is_faster_than_its_bound(model, gpus, gpu, only_best):
    found = search(model, gpu, gpus, [24, 96], only_best=only_best, top=5)
    numbers = {name: found.bounds[name].tolist() for name in (*SPLIT, "least_s")}
    assert len(set(zip(*(numbers[name] for name in SPLIT), strict=True))) == len(numbers["least_s"])
    exact = 0
    for *split, least_s in zip(*numbers.values(), strict=True):
        limits = dict(zip(SPLIT, split, strict=True))
        best_s = search(model, gpu, gpus, [24, 96], top=1, **limits).best["sequence_s"].min()
        assert least_s <= (np.inf if np.isnan(best_s) else best_s)
        exact += least_s == best_s
        assert only_best or least_s == best_s or np.isnan(best_s)
    assert exact


def same(found, every, designs):
    """Whether a search found what a search of all did: the best strategy, and the best designs in order."""
    assert found.parts[0].machine == every.parts[0].machine
    for table, count in (("fastest", 1), ("leaders", designs)):
        one, other = getattr(found, table), getattr(every, table)
        for name in one:
            assert np.array_equal(one[name][:count], other[name][:count]), (table, name)


@pytest.mark.parametrize(
    ("job", "runtime"), [*zip(JOBS, [MODERN, MODERN, [MODERN, SERIAL], NODES, MODERN], strict=True)]
)
def test_few_splits_have_the_best_of_all(monkeypatch, job, runtime):
    model, gpus, gpu = job
    monkeypatch.setattr(slower_networks, "_FIRST", 1)
    options = {"runtime": runtime, "offload": [("optimizer",), "none"] if gpu is TIGHT else "none"}
    fastest = search(model, gpu, gpus, 96, fabric=fastest_network(gpus, 4), only_best=True, **options)
    for network in [*networks(gpus)][::3]:
        every = search(model, gpu, gpus, 96, fabric=network, **options)
        found = search_slower(fastest, gpu.on(network), designs=3)
        same(found, every, 3)
        assert sum(found.counts.values()) < sum(every.counts.values())
        below_s = float(every.fastest["sequence_s"][4])
        found = search_slower(fastest, gpu.on(network), below_s=below_s, top=20)
        assert np.array_equal(found.fastest["sequence_s"][:5], every.fastest["sequence_s"][:5])


def test_where_nothing_fits_nothing_is_found():
    fastest = search(DENSE, GPU.changed(memory_bytes=1e6), 16, 16, context=1, only_best=True)
    found = search_slower(fastest, fastest.machine.on(rail_only(16, 4, 8)), designs=3)
    assert not fastest.fastest["part"].size and not found.fastest["part"].size


@pytest.mark.parametrize("model", [DENSE, MIXTURE])
@pytest.mark.parametrize("delay_s", [1e-6, 1e-2, 1.0])
@pytest.mark.parametrize("rings", ["any", "even"])
def test_the_best_on_circuits_is_among_few_splits(model, delay_s, rings):
    job, options = (model, GPU, 64, 96, delay_s), {"ports": 2, "rings": rings}
    fastest = search(model, GPU, 64, 96, fabric=fastest_network(64, 4), only_best=True, top=16)
    every, found = best_on_circuits(*job, **options), best_on_circuits(*job, **options, fastest=fastest)
    assert found.equals(every) and {*found.attrs["warnings"]} == {*every.attrs["warnings"]}


@pytest.mark.slow  # a search of all strategies of DeepSeek-V3 on each network
@pytest.mark.parametrize(
    ("name", "platform", "gpus", "batch"),
    [
        ("Llama-3 405B", "DGX H100", 16384, 2048),
        ("Llama-3 405B", "GB200 NVL72", 12312, 2052),
        ("Llama-3 70B", "DGX H100", 1024, 512),
        ("DeepSeek-V3", "DGX H800", 2048, 15360),
        ("Mixtral 8x7B", "DGX A100", 512, 1024),
    ],
)
def test_few_splits_have_the_best_of_all_of_real_jobs(name, platform, gpus, batch):
    gpu = catalog_machine(platform)
    K, options = gpu.hb_domain_size, {"top": 64, "only_best": True}
    fastest = search(name, gpu, gpus, batch, fabric=fastest_network(gpus, K), **options)
    clos = {"radix": 64, "rails": 1, "rails_per_switch": None}
    for network in (
        None,
        rail_optimized(gpus, K, 64),
        RailFabric(gpus, K, 64, oversubscription=4.0, rails_per_switch=None),
        RailFabric(gpus, K, tier_oversubscription=(2.0,), **clos),
        RailFabric(gpus, K, tier_oversubscription=(4.0,), **clos),
    ):
        limits = limiting_fabric(network, fastest.model) if network else None
        every = search(name, gpu, gpus, batch, fabric=limits, **options)
        same(search_slower(fastest, gpu.on(limits), designs=8), every, 8)
