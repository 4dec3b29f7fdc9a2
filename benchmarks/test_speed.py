"""Speed of what users sweep; `make bench` prints minimum, median and maximum, and README.md keeps the figures."""

import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from railcore import datacenter, planner
from railcore.network.cost import compare_rail_networks
from railcore.network.price_books import power_book, price_book
from railcore.network.switches import switch_model
from railcore.network.topology import faults, wiring
from railcore.network.topology.clos import rail_parts
from railcore.network.topology.rails import RailFabric, fat_tree, rail_only, rail_optimized
from railcore.photonics import circuits, simulation, stage_program, workload
from railcore.photonics.circuit_search import best_on_circuits
from railcore.photonics.estimate import overhead_estimate
from railcore.photonics.stage_program import fsdp_options
from railcore.photonics.timetable import schedule
from railcore.planner.job_comparison import job_networks
from railcore.planner.planning import plan
from railcore.planner.sweeping import sweep
from railcore.siting import areas, grid, places, points, rules
from railcore.strategies.parts import search
from railcore.strategies.space import strategy_blocks
from railcore.training import machine, rank_order, traffic
from railcore.training.formats import catalog_precision
from railcore.training.group_shares import group_shares
from railcore.training.iteration import iteration_time
from railcore.training.parallelism import Strategy
from railcore.training.scaling_laws import depth_and_width
from railcore.training.transformer import catalog_model
from railcore.transport.fabric import leaf_spine
from railcore.transport.flows import all_to_all, permutation
from railcore.transport.hashing import ecmp_paths, most_loaded_links
from railcore.transport.packets import simulate_packets
from railcore.transport.sharing import fair_sharing, ideal_spraying
from railcore.transport.transports import transport
from suite.deployment.resilience import failover, failure_domains
from suite.deployment.routing import BgpDesign
from suite.deployment.segments import SegmentFabric
from suite.deployment.subnets import AddressPlan
from suite.emulator.comparison import emulated_run
from suite.emulator.feedforward import FeedForward
from suite.flops2024 import counting, sitings, specification
from suite.flops2024.scale_out import network_parts
from suite.flops2024.siting_claims import REGIONS
from suite.photonic2025.photonic_cost import photonic_network_costs
from suite.railonly2023 import two_stage, two_stage_figures

CLUSTER = "from railcore.network.topology import {0}; {0}(65536, 256, 64).graph()"


def peak_mb(code):
    """Peak memory of a process that runs this code. Not ru_maxrss: a child begins with its parent's."""
    peak = "print(*(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    run = {"cwd": Path(__file__).parent, "check": True, "capture_output": True}
    return int(subprocess.run([sys.executable, "-c", f"{code}\n{peak}"], **run).stdout) // 1024


@pytest.fixture(scope="module")
def million():
    rng = np.random.default_rng(0)
    gpus, domains = rng.integers(1024, 131072, 10**6), 2 ** rng.integers(3, 10, 10**6)
    return gpus, domains, 2 * rng.integers(16, 129, 10**6)


@pytest.mark.parametrize("oversubscription", [np.inf, 4.0, 1.0], ids=["rail-only", "layer 4:1", "rail-optimized"])
def test_parts_of_a_million_fabrics(benchmark, million, oversubscription):
    parts = benchmark.pedantic(rail_parts, (*million, oversubscription), rounds=5, warmup_rounds=1)
    assert parts.switches.shape == (10**6,)


def test_costs_of_a_hundred_thousand_pairs(benchmark, million):
    some = [array[: 10**5] for array in million]
    table = benchmark.pedantic(
        compare_rail_networks, (*some, price_book("street2025"), power_book("street2025")), rounds=5
    )
    assert len(table) == 10**5


def test_photonic_rails_beside_three_networks_of_a_hundred_thousand_clusters(benchmark, million):
    some = [array[: 10**5] for array in million]
    books = price_book("street2025"), power_book("street2025")
    table = benchmark.pedantic(photonic_network_costs, (*some, *books, 1008), rounds=5)
    assert len(table) == 4 * 10**5


@pytest.mark.parametrize(
    "shape", [{}, {"oversubscription": 4.0}, {"rails": 1, "tier_oversubscription": (4.0,)}], ids=str
)
def test_shares_of_100000_strategies(benchmark, shape):
    """Target 0.2 s."""
    blocks, found = strategy_blocks("DeepSeek-V3", "DGX H100", 16384, 15360), []
    while sum(block["tensor"].size for block in found) < 10**5:
        found.append(next(blocks))
    columns = {name: np.concatenate([block[name] for block in found])[: 10**5] for name in found[0]}
    levels, fabric = rank_order.group_levels(columns), RailFabric(16384, 8, 64, **shape)
    shares = benchmark.pedantic(group_shares, (fabric, levels, 8, 16384), rounds=10, warmup_rounds=1)
    assert np.shape(shares.by_kind["expert"]) == (10**5,)


def test_networks_of_a_job(benchmark):
    """Target 1 s, after the first one."""
    books = price_book("street2025"), power_book("street2025")
    job = "Llama-3 405B", "GB200 NVL72", 16384, 2048, 64, *books
    table = benchmark.pedantic(job_networks, job, {"hb_domain_size": 64}, rounds=3, warmup_rounds=1)
    assert len(table) == 8


@pytest.mark.parametrize("fabric", [rail_only, rail_optimized])
def test_graph_of_65536_gpus(benchmark, fabric):
    benchmark.extra_info["peak_MB"] = peak_mb(CLUSTER.format(fabric.__name__))
    graph = benchmark.pedantic(lambda: fabric(65536, 256, 64).graph(), rounds=5, warmup_rounds=1)
    assert sum(kind == "gpu" for _, kind in graph.nodes(data="kind")) == 65536


@pytest.mark.parametrize("gpus", [8192, 16384, 65536])
@pytest.mark.parametrize("fabric", [rail_only, rail_optimized])
def test_effects_of_every_kind_of_fault(benchmark, fabric, gpus):
    def effects():
        wiring.whole_wiring.cache_clear()
        return faults.fault_effects(fabric(gpus, 8, 64))

    table = benchmark.pedantic(effects, rounds=5, warmup_rounds=1)
    assert len(table) == len(faults.FAULT_KINDS)


@pytest.mark.parametrize(("platform", "gpus", "batch"), [("DGX H100", 8192, 2048), ("GB200 NVL72", 8208, 2052)])
@pytest.mark.parametrize("layer", [np.inf, 1.0], ids=["rail-only", "rail-optimized"])
def test_slowdown_of_a_job_by_every_kind_of_fault(benchmark, platform, gpus, batch, layer):
    model, box = catalog_model("Llama-3 405B"), machine.catalog_machine(platform)
    fabric, job = planner.platform_fabric(platform, gpus, 64).with_layer(layer), search(model, box, gpus, batch)

    args = fabric, model, box, job.strategy(), batch
    table = benchmark.pedantic(planner.failed_part_slowdowns, args, rounds=5, warmup_rounds=1)
    assert (table["tokens_share"] > 0).all()


@pytest.mark.parametrize("job", ["GPT-3", "DeepSeek-V3"])
def test_time_of_one_strategy(benchmark, job):
    """With names of model and platform looked up; target 7 ms."""
    plans = {
        "GPT-3": Strategy(tensor=8, data=16, pipeline=8, sequence_parallel=True, sharding="optimizer"),
        "DeepSeek-V3": Strategy(tensor=2, data=64, pipeline=4, expert=8, sequence_parallel=True),
    }
    args = job, "DGX H100", plans[job], 512
    assert benchmark.pedantic(iteration_time, args, rounds=50, warmup_rounds=2).total_s > 0


def two_stages(gpus):
    """railonly2023's plan: an entry for every two GPUs of a group."""
    return two_stage_figures.two_stage_matrix(
        two_stage.catalog_two_stage("GPT-3", 1, 1, 1), gpus, 256, 32e6, 4
    ).summary(256)


def rings(gpus):
    strategy = Strategy(tensor=8, pipeline=8, data=gpus // 64, sequence_parallel=True, interleave=2)
    return traffic.iteration_traffic(catalog_model("GPT-3"), strategy, 8 * strategy.data).summary(8)


@pytest.mark.parametrize("gpus", [32768, 65536])
@pytest.mark.parametrize("plan", [two_stages, rings])
def test_traffic_of_a_whole_iteration(benchmark, plan, gpus):
    benchmark.extra_info["peak_MB"] = peak_mb(f"import test_speed; test_speed.{plan.__name__}({gpus})")
    table = benchmark.pedantic(plan, (gpus,), rounds=5, warmup_rounds=1)
    assert table["pairs"].iloc[-1] >= gpus
    assert benchmark.extra_info["peak_MB"] < 1024


def strategies_of_gpt3(batches=tuple(range(64, 1537, 64))):
    """Every strategy of 4,096 A100 with these global batches."""
    return search(catalog_model("GPT-3"), machine.catalog_machine("DGX A100"), 4096, batches)


def strategies_on_a_clos():
    """The same on a Clos whose leaves are oversubscribed 4:1."""
    clos, batches = fat_tree(4096, 64, 8, tier_oversubscription=(4,)), tuple(range(64, 1537, 64))
    return search(catalog_model("GPT-3"), machine.catalog_machine("DGX A100"), 4096, batches, fabric=clos)


def strategies_of_a_mixture():
    """Every strategy of 512 H100 for a mixture of 128 experts, with whole experts, without context ranks."""
    batches = tuple(range(256, 2049, 256))
    return search(catalog_model("MoE-1.3B"), machine.catalog_machine("DGX H100"), 512, batches, context=1)


def strategies_of_deepseek():
    """Every strategy of 2,048 H100 for DeepSeek-V3 with its batch of 15,360."""
    return search("DeepSeek-V3", machine.catalog_machine("DGX H100", "fp8"), 2048, 15360)


def cold_cpu_s(name):
    """CPU time of the first search of a process, its imports left out, with compiled code on disk."""
    code = f"import test_speed, time; t = time.process_time(); test_speed.{name}(); print(time.process_time() - t)"
    run = {"cwd": Path(__file__).parent, "check": True, "capture_output": True}
    return float(subprocess.run([sys.executable, "-c", code], **run).stdout)


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize(
    "space", [strategies_of_gpt3, strategies_on_a_clos, strategies_of_a_mixture, strategies_of_deepseek]
)
def test_strategies_a_second(benchmark, capsys, space):
    """Targets 24, 20, 20 and 12 million a CPU second; the first search of a process loads the compiled loop."""
    info = {"peak_MB": peak_mb(f"import test_speed; test_speed.{space.__name__}()")}
    found = benchmark.pedantic(space, rounds=5, warmup_rounds=1)
    rate = found.evaluated / benchmark.stats.stats.median
    info |= {"evaluated": found.evaluated, "feasible": found.counts["feasible"], "per_cpu_second": round(rate)}
    info["cold_per_cpu_second"] = round(found.evaluated / cold_cpu_s(space.__name__))
    benchmark.extra_info.update(info)
    with capsys.disabled():
        print(f"\n{space.__name__}:", ", ".join(f"{name} {x:,}" for name, x in info.items()))
    assert found.evaluated >= 10**6
    assert info["peak_MB"] < 512


def every_batch(workers):
    """All batches of GPT-3 up to 1,536."""
    limits = {"placement": "tensor first", "workers": workers}
    return search(catalog_model("GPT-3"), machine.catalog_machine("DGX A100"), 4096, tuple(range(1, 1537)), **limits)


@pytest.mark.parametrize("workers", [1, 2])
def test_strategies_of_every_batch(benchmark, workers):
    """Wall time by processes, their start included."""
    benchmark.extra_info["peak_MB"] = peak_mb(f"import test_speed; test_speed.every_batch({workers})")
    found = benchmark.pedantic(every_batch, (workers,), rounds=3, warmup_rounds=1)
    assert found.evaluated > 10**7
    assert benchmark.extra_info["peak_MB"] < 1024


def test_a_small_search(benchmark):
    """As notebook 07 runs hundreds of; target 10 ms, after the first one."""
    box, some = machine.catalog_machine("DGX H100"), {"context": 1, "placement": "tensor first", "only_best": True}
    found = benchmark.pedantic(search, ("Llama-3 70B", box, 256, 256), {"top": 1} | some, rounds=20, warmup_rounds=1)
    assert 1000 < found.evaluated < 100_000


def test_all_strategies_of_a_large_cluster(benchmark):
    """Target 0.1 s for all contexts and placements of 405B on 16,384 H100, so that they are the default."""
    box = machine.catalog_machine("DGX H100")
    found = benchmark.pedantic(search, ("Llama-3 405B", box, 16384, 2048), rounds=10, warmup_rounds=1)
    assert found.evaluated > 500_000


@pytest.mark.parametrize(("name", "platform", "gpus", "batch"), [
    ("Llama-3 405B", "DGX H100", 16384, 2048),
    ("Llama-3 405B", "GB200 NVL72", 12312, 2048),
    ("DeepSeek-V3", "GB200 NVL72", 12312, 15360),
])  # fmt: skip
def test_the_best_of_fewer_gpus(benchmark, name, platform, gpus, batch):
    """Exactly, of any number of GPUs and of those in use of each HB domain; only the best is asked."""
    options = {"at_most": True, "only_best": True, "top": 1}
    found = benchmark.pedantic(search, (name, platform, gpus, batch), options, rounds=3, warmup_rounds=1)
    assert len(found.best) == 1


@pytest.mark.parametrize("only_best", [False, True])
def test_only_the_best_is_faster_where_batches_are_many(benchmark, only_best):
    """GPT-3 on 4,096 A100 with 24 batches: the same best, of far fewer strategies."""
    batches, box = tuple(range(64, 1537, 64)), machine.catalog_machine("DGX A100")
    options = {"only_best": only_best, "top": 1}
    found = benchmark.pedantic(search, ("GPT-3", box, 4096, batches), options, rounds=5, warmup_rounds=1)
    assert len(found.best) == 1


def exposed_of_a_million():
    """Scale-up, scale-out and wide-area speeds and model sizes at random, each with a layout of its own."""
    rng = np.random.default_rng(0)
    n, model = 10**6, catalog_model("flops2024 dense")
    speeds = {name: 10 ** rng.uniform(9, 12, n) for name in ("hb_Bps", "nic_Bps", "wan_Bps")}
    site = specification.document_site(23333, document="flops2024", rate="fp4_dense_rate", **speeds)
    layers, hidden = rng.integers(60, 141, n), rng.uniform(5e4, 3e5, n)
    return model, catalog_precision("flops2024"), layers, hidden, site


def test_timetable_of_64_stages(benchmark):
    table = benchmark.pedantic(schedule, ("1f1b", 64, 512, 1.0, 2.0), rounds=5, warmup_rounds=1)
    assert len(table.events) == 2 * 64 * 512 + 2 * 63 * 512


def test_exposed_share_of_a_million_points(benchmark):
    model, precision, layers, hidden, site = exposed_of_a_million()

    def sweep():
        layer = datacenter.model_layer(model, precision, layers=layers, hidden=hidden)
        return datacenter.layer_times(layer, datacenter.rack_layout(layer, site, strict=False), site).share()

    share = benchmark.pedantic(sweep, rounds=5, warmup_rounds=1)
    assert share.shape == (10**6,)


def test_shapes_of_a_million_models(benchmark):
    shape = benchmark.pedantic(depth_and_width, (np.geomspace(1e9, 1e15, 10**6),), rounds=5, warmup_rounds=1)
    assert shape.layers.shape == (10**6,)


def test_rails_and_planes_of_a_million_networks(benchmark):
    rng = np.random.default_rng(0)
    gpus, rails, planes = rng.integers(1000, 10**6, 10**6), rng.integers(1, 77, 10**6), 2 ** rng.integers(0, 4, 10**6)
    parts = benchmark.pedantic(network_parts, (gpus, rails, 64, planes), rounds=5, warmup_rounds=1)
    assert parts.switches.shape == (10**6,)


@pytest.mark.parametrize("provisioning", [False, True], ids=["on demand", "provisioned"])
@pytest.mark.parametrize("each_pass", [False, True], ids=["weights once", "weights in each pass"])
def test_step_of_llama_405b_on_2048_gpus(benchmark, each_pass, provisioning):
    """Graph and run of one replica on photonic rails; target 10 s. Provisioned runs on demand first, for the order."""
    strategy = Strategy(tensor=8, data=16, pipeline=16, interleave=8, sharding="weights", sequence_parallel=True)
    options = stage_program.StepOptions() if each_pass else stage_program.fsdp_options()
    network = circuits.PhotonicCircuits(0.025, provisioning=provisioning)

    def step():
        job = ("Llama-3 405B", "DGX H100", strategy, 2048, options)
        return simulation.simulate(workload.training_step(*job, one_replica=True), network)

    assert benchmark.pedantic(step, rounds=3).total_s > 0


def siting_power(radius_m=100e3):
    """Points of the whole country by the rule that carries flops2024's account, and one datacenter's demand."""
    demand = float(np.min(specification.document_size(document="flops2024").total_w))
    return rules.available_power(points.points_around(grid.load_grid(), radius_m), "idle fuelled"), demand


def test_siting_swept_over_radius_rule_region_and_oil(benchmark):
    """Six radii, every rule and region, the whole country at 0.25 degrees; target 5 s on one core."""
    radii, demand = (5e3, 25e3, 50e3, 75e3, 100e3, 150e3), siting_power()[1]

    def sweep():
        return counting.siting_sensitivity(points.points_by_radius(grid.load_grid(), radii), demand, REGIONS)

    table = benchmark.pedantic(sweep, rounds=5, warmup_rounds=1)
    assert len(table) == len(radii) * len(rules.RULES) * len(REGIONS) * 2


def test_places_near_a_city(benchmark):
    """Those of 75 km within 500 km of Chicago, grid read before; target 1 s on one core."""
    us, asked = grid.load_grid(), {"area": areas.Area(near="Chicago", near_m=500e3)}
    found = benchmark.pedantic(places.find_places, (us, 1e9, 75e3), asked, rounds=5, warmup_rounds=1)
    assert len(found.places) > 2


@pytest.mark.parametrize("objective", ["shortest", "spare"])
def test_siting_split_into_one_to_six_places(benchmark, objective):
    """At 100 km, 500 km apart; target 10 s on one core."""
    offer, demand = siting_power()
    terms = {"objective": objective, "least_separation_m": 500e3, "resolution_m": 100e3}
    table = benchmark.pedantic(sitings.splits, (offer, demand, range(1, 7)), terms, rounds=5, warmup_rounds=1)
    assert (table["places"].map(len) == table["k"]).all()


def test_reconfiguration_of_an_8b_model_at_twenty_delays(benchmark):
    """Both ways to ask, the workload built before each sweep; target 2 s on one core."""
    strategy = Strategy(tensor=4, data=2, pipeline=2, sharding="weights", recompute="selective", sequence_parallel=True)
    asked = ("Llama-3 8B", "Perlmutter GPU node", strategy, np.linspace(0, 1, 20), 4)
    options = {"options": fsdp_options()}
    table = benchmark.pedantic(circuits.photonic_overhead, asked, options, rounds=3, warmup_rounds=1)
    assert len(table) == 40


def test_estimated_overhead_of_100_000_strategies_and_delays(benchmark):
    """Llama-3 70B with ZeRO-1 on 4,096 GPUs, 100 strategies at 1,000 delays, provisioned; target 1 s on one core."""
    blocks = strategy_blocks("Llama-3 70B", "DGX H100", 4096, 4096, sharding="optimizer", context=1)
    some = {name: np.resize(column, 100) for name, column in next(blocks).items()}
    sweep = ("Llama-3 70B", "DGX H200", some, np.geomspace(1e-6, 1, 1000)[:, None], True)
    found = benchmark.pedantic(overhead_estimate, sweep, rounds=5, warmup_rounds=1)
    assert found.overhead.shape == (1000, 100)


def test_estimated_overhead_of_100_000_strategies(benchmark):
    """Llama-3 70B on 1,024 GPUs, all kinds of strategies at 25 ms, provisioned; target 1 s on one core."""
    degrees = {"tensor": [1, 2, 4, 8], "placement": "tensor first"}
    blocks = list(strategy_blocks("Llama-3 70B", "DGX H200", 1024, 1024, **degrees))
    every = {name: np.resize(np.concatenate([block[name] for block in blocks]), 100_000) for name in blocks[0]}
    found = benchmark.pedantic(overhead_estimate, ("Llama-3 70B", "DGX H200", every, 0.025, True), rounds=5)
    assert found.overhead.shape == (100_000,)


def test_best_strategies_on_circuits_at_25_delays(benchmark):
    """Mixtral 8x7B on 1,024 GPUs, all its strategies with a pipeline; target 2 s on one core."""
    asked = ("Mixtral 8x7B", "DGX H200", 1024, 1024, np.geomspace(1e-6, 1, 25))
    limits = {"pipeline": [2, 4, 8, 16, 32], "placement": "tensor first"}
    table = benchmark.pedantic(best_on_circuits, asked, limits, rounds=3, warmup_rounds=1)
    assert (table["strategy"] != "none fits").all()


def test_a_training_step_of_a_feedforward_network_on_8_simulated_ranks(benchmark):
    strategy = Strategy(tensor=2, pipeline=2, data=2, micro_batch=4)
    run = benchmark.pedantic(emulated_run, (FeedForward([64] * 5), strategy, 16, 4), rounds=5, warmup_rounds=1)
    assert run.step is not None


def test_addresses_of_65536_gpus_in_64_pods(benchmark):
    """2-port NICs on two switches of two rails each: ports, subnets, BGP sessions, routes; target 3 s on one core."""
    switch = switch_model("SN5600")
    design = {"servers": 32, "segments": 4, "pods": 64, "nic_ports": 2, "rails_per_switch": 2}
    above = {"spines": 32, "super_spines": 1024, "super_spine_planes": 32, "uplink_Bps": "800 Gbps"}

    def deploy():
        fabric = SegmentFabric(rail_switch=switch, **design, **above)
        routes = BgpDesign(AddressPlan(fabric, bundling="evpn"))
        plan = routes.plan
        tables = plan.ports, plan.trunks, plan.subnets, plan.summaries, plan.switches
        return (
            *tables,
            routes.neighbours,
            routes.route_counts,
            failover(plan),
            failure_domains(fabric),
        )

    tables = benchmark.pedantic(deploy, rounds=3, warmup_rounds=1)
    assert [len(table) for table in tables[:3]] == [131072, 131072, 2048]
    assert tables[0]["address"].nunique() == 65536


@pytest.fixture(scope="module")
def transfers():
    """Each of 8,192 hosts under 128 leaves sends 97 MB to another."""
    return leaf_spine(8192, 64, "800 Gbps"), permutation(8192, "97 MB")


def test_fair_sharing_of_8192_flows(benchmark, transfers):
    """A permutation on paths of ECMP, compiled before; target 0.1 s on one core."""
    fabric, flows = transfers
    path = ecmp_paths(fabric, flows)
    run = benchmark.pedantic(fair_sharing, (fabric, flows, path), rounds=5, warmup_rounds=1)
    assert run.slowdown.max() > 5


def test_fair_sharing_of_an_all_to_all(benchmark):
    """Groups of 16 among 1,024 hosts, 15,360 flows that all hang together through their hosts' ports."""
    fabric, groups = leaf_spine(1024, 32, "800 Gbps"), np.random.default_rng(0).permutation(1024).reshape(-1, 16)
    flows = all_to_all(groups, "1 MB")
    path = ecmp_paths(fabric, flows)
    run = benchmark.pedantic(fair_sharing, (fabric, flows, path), rounds=3, warmup_rounds=1)
    assert run.slowdown.max() > 15


def test_ideal_spraying_of_8192_flows_with_a_tenth_of_the_links_dead(benchmark, transfers):
    fabric, flows = transfers
    run = benchmark.pedantic(ideal_spraying, (fabric.degraded(0.1), flows), rounds=3, warmup_rounds=1)
    assert 1.1 < run.slowdown.max() < 2


def test_a_thousand_draws_of_the_most_loaded_link_of_8192_hosts(benchmark, transfers):
    table = benchmark.pedantic(most_loaded_links, (*transfers, 1000), rounds=5, warmup_rounds=1)
    assert len(table) == 1000


SIMULATED = ["spraying", "NDP", "RoCEv2", "single path"]


@pytest.mark.parametrize("name", SIMULATED)
def test_packets_of_2_MB_flows_between_8192_hosts(benchmark, name):
    """Packet by packet at 800 Gbps, 16 million packet hops; target 3 s on one core."""
    fabric, flows = leaf_spine(8192, 64, "800 Gbps"), permutation(8192, 2e6)
    run = benchmark.pedantic(simulate_packets, (fabric, flows, transport(name)), rounds=3, warmup_rounds=1)
    assert run.slowdown.min() > 1 - 1e-9


@pytest.mark.parametrize("name", [*SIMULATED, "spraying, all paths"])
def test_packets_of_97_MB_flows_between_8192_hosts(benchmark, transfers, name):
    """The document's full scale, 776 million packet hops; target 40 s on one core, after compilation."""
    preset = transport("spraying", entropies=0) if name not in SIMULATED else transport(name)
    simulate_packets(leaf_spine(64, 8, "800 Gbps"), permutation(64, 1e6), preset)
    run = benchmark.pedantic(simulate_packets, (*transfers, preset), rounds=1)
    assert run.slowdown.min() > 1 - 1e-9


PLANNED = {"cluster": {"platform": "GB200 NVL72", "gpus": 12312}, "job": {"model": "Llama-3 405B"}}
MIXTURE = {"cluster": {"platform": "DGX H800", "gpus": 2048}, "job": {"model": "DeepSeek-V3", "precision": "fp8"}}


@pytest.mark.parametrize("spec", [PLANNED, MIXTURE], ids=["Llama-3 405B on 12,312 GB200", "DeepSeek-V3 on 2,048 H800"])
def test_plan_of_eight_networks(benchmark, spec):
    assert benchmark.pedantic(plan, (spec,), rounds=5, warmup_rounds=1).best


def test_a_sweep_over_prices_shares_its_searches(benchmark):
    """25 prices of a transceiver on 16,384 H100: the searches of one plan."""
    base = {"cluster": {"platform": "DGX H100", "gpus": 16384}, "job": {"model": "Llama-3 405B"}}
    base["books"] = {"prices": {"port": "600 USD", "rate": "400 Gbps"}}
    over = {"books.prices.transceiver": {"from": "100 USD", "to": "1300 USD", "steps": 25}}
    assert len(benchmark.pedantic(sweep, (base, over), rounds=3, warmup_rounds=1)) >= 25 * 5


def test_plan_of_eight_networks_with_a_site(benchmark):
    spec = PLANNED | {"site": {"near": "Houston"}}
    assert benchmark.pedantic(plan, (spec,), rounds=5, warmup_rounds=1).site.places


def test_a_thousand_draws_of_a_plan(benchmark):
    found = plan(PLANNED)
    assert len(benchmark.pedantic(lambda: plan(found.spec).uncertainty.table, rounds=3, warmup_rounds=1))


FROM_THE_SHELL = {
    "dense": '[cluster]\nplatform = "DGX H100"\ngpus = 16384\n[job]\nmodel = "Llama-3 405B"\nbatch = "16M tokens"\n',
    "DeepSeek-V3": '[cluster]\nplatform = "DGX H800"\ngpus = 2048\n[job]\nmodel = "DeepSeek-V3"\nprecision = "fp8"\n',
    "find": '[cluster]\nplatform = "GB200 NVL72"\n[job]\nmodel = "Llama-3 405B"\nbatch = "16M tokens"\n'
    '[find]\ngpus = "fewest"\n[limits]\ndays = 60\n',
}


def cpu_seconds(command):
    """Of a process and those that it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("name", FROM_THE_SHELL)
def test_a_plan_from_the_shell(benchmark, tmp_path, name):
    """Targets: 2.2 s of CPU for a dense job, 3 s for DeepSeek-V3 on 2,048 H800, 5 s for the fewest GPUs, warm."""
    path = tmp_path / "cluster.toml"
    path.write_text(FROM_THE_SHELL[name])
    command, times = [sys.executable, "-m", "railcore", "plan", str(path)], []
    benchmark.pedantic(lambda: times.append(cpu_seconds(command)), rounds=3, warmup_rounds=1)
    benchmark.extra_info["cpu_s"] = float(np.median(times[1:]))


def test_a_sweep_of_sizes_and_prices(benchmark):
    """100 points, 4 sizes and 25 prices; target 8 s of CPU: 2,500 points in 100 s on two cores."""
    base = {"cluster": {"platform": "GB200 NVL72"}, "job": {"model": "Llama-3 405B", "batch": "16M tokens"}}
    base["books"] = {"prices": {"port": "600 USD", "rate": "400 Gbps"}}
    over = {"books.prices.transceiver": {"from": "100 USD", "to": "1300 USD", "steps": 25}}
    over["cluster.gpus"] = [1152, 4608, 9216, 18432]
    assert len(benchmark.pedantic(sweep, (base, over), rounds=1, warmup_rounds=1)) >= 100 * 5
