"""Good calls of what is public in railcore.training."""

import math

import numpy as np

from railcore.facts.catalog import item
from railcore.network.topology.rails import rail_only
from railcore.training.collectives import (
    algorithm_cost,
    algorithm_names,
    bus_factor,
    collective_time,
    default_algorithm,
    doublings,
    hierarchical_phase_times,
    hierarchical_phases,
    hierarchical_time,
    rings_time,
    steps_and_bytes,
)
from railcore.training.expected_error import expected_error, gpu_generation
from railcore.training.expert_dispatch import (
    capacity_copies,
    copies_by_place,
    dispatch_bytes,
    host_bound_time,
    host_operators,
    parts_groups,
)
from railcore.training.experts import busiest_links, checked_imbalance, expert_all_to_all_time, routed_time
from railcore.training.formats import LinearFormat, format_bytes
from railcore.training.group_shares import group_shares
from railcore.training.iteration import iteration_time, stage_memory
from railcore.training.layer_traffic import tensor_traffic
from railcore.training.link_times import (
    Latencies,
    LinkTimes,
    all_reduce_links,
    exposed_time,
    gather_links,
)
from railcore.training.machine import (
    Machine,
    as_machine,
    cast_share_row,
    catalog_machine,
    product_share,
    product_share_row,
)
from railcore.training.machine_parts import CollectiveWays, GpuLinks, GpuMemory, GpuRates, HostWork
from railcore.training.parallelism import Strategy, as_strategy, indivisible, level_places
from railcore.training.pipeline_schedule import checked_sizes, critical_sends, pipeline_bubble_time
from railcore.training.products import product_passes, product_time, sustained_share
from railcore.training.rank import Rank
from railcore.training.rank_order import gpus_of, group_levels
from railcore.training.recompute import working_bytes
from railcore.training.runtime import Runtime, catalog_runtime, checked_offload
from railcore.training.scaling_laws import (
    ScalingLaw,
    depth_and_width,
    fit_power_law,
    hoffmann_table,
    joint_loss,
    optimal_models,
    optimal_training_times,
    parameters_at_depth,
    parametric_loss,
    parametric_optimum,
    scaling_law,
    whole_shape,
)
from railcore.training.software import as_runtime, dated_runtimes, newest_runtime, runtime_of
from railcore.training.stage import (
    bucket_calls,
    expected_maximum,
    held_parameters,
    replica_exchanges,
    spare_layers,
    stage_of,
    stage_state_bytes,
)
from railcore.training.traffic import iteration_traffic, traffic_summaries
from railcore.training.transfers import step_transfers, transfer_table
from railcore.training.transformer import (
    Transformer,
    as_model,
    as_models,
    batch_sequences,
    catalog_model,
    model_flops_utilization,
)
from railcore.training.transformer_memory import layer_activation_bytes, sharded_parameters, state_bytes

MODEL = catalog_model("Llama-3 8B")
MACHINE = catalog_machine("DGX H100")
STRATEGY = Strategy(tensor=2, pipeline=2, data=2)
RUNTIME = catalog_runtime("modern")
MIXTURE = catalog_model("DeepSeek-V3")
ROUTED = busiest_links(np.array([25000000.0]), np.array([64]), np.array([8]), "two-hop", 1.0)
BUSY = LinkTimes(0.01, 0.004, 0.006)
DATA = group_levels(STRATEGY.columns(8))["replica"]

algorithm_cost("all_gather", "ring")
algorithm_names("scatter")
bus_factor("all_gather", 2)
collective_time("all_gather", 1000.0, 2, 50000000000.0, 1e-06, "ring")
default_algorithm("all_gather")
doublings(8)
hierarchical_phase_times("all_gather", 4, 2, 2, 1, 1)
hierarchical_phases("all_gather", None, None)
hierarchical_time("all_gather", 0, 2, 2, 1, 1, 1, 1)
rings_time(0.0, np.array([2]), np.array([4]), 232000000000.0, 24000000000.0)
steps_and_bytes("all_reduce", "ring", 4, 2)
expected_error("DGX H100")
gpu_generation("H100")
capacity_copies(4, math.inf, 1.0, padded=False)
copies_by_place(256, 8, np.array([8]), 8, 4)
dispatch_bytes(np.array([4100.0]), 7168, 256, 8, np.array([8]), np.array([8]), "nodes", 2, 8, 4)
host_bound_time(np.array([0.00427]), np.array([0.00161]), 0.7)
host_operators(np.array([4.0]), 3, False, False)
parts_groups("nodes", 8, np.array([64]), np.array([8]))
busiest_links(np.array([25200000.0]), np.array([8]), np.array([2]), "two-hop", 1.0)
checked_imbalance(1.0, np.array([8]))
expert_all_to_all_time(
    np.array([25200000.0]), np.array([8]), np.array([2]), 370000000000.0, 45800000000.0, pipelined=True
)
iteration_time(MODEL, MACHINE, STRATEGY, 4, RUNTIME, ("weights",))
tensor_traffic(Rank(model=MODEL, machine=MACHINE, runtime=RUNTIME, strategy=STRATEGY), 0.00439, 0.00439, 0.00486)
exposed_time(np.array([0.00165]), np.array([0.00442]), 0.185)
MACHINE.all_reduce_links(0.0, np.array([4]), np.array([4]))
MACHINE.all_to_all_links(
    np.array([699000.0, 524000.0, 8390000.0, 524000.0]), np.array([8, 2, 2, 1]), np.array([8, 1, 1, 8]), 1.0, 0.0
)
MACHINE.attention_share("best", 8190.0, 128, 128)
MACHINE.gather_links(67100000.0, 4, 1, nic_share=1.0)
MACHINE.hop_link(np.array([False]), 1.0)
MACHINE.off_fabrics("circuits")
MACHINE.routed_links(
    np.array([2100000.0, 524000.0, 0.0, 786000.0]),
    np.array([0.0, 1020000.0, 2060000.0, 983000.0]),
    np.array([2, 2, 1, 4]),
    np.array([1, 32, 64, 16]),
    1.0,
)
as_machine("Perlmutter GPU node")
catalog_machine("DGX H100")
CollectiveWays(collective_processors=20, overlap_slowdown=2.0, memory_contention=False)
GpuLinks(
    hb_domain_size=8,
    hb_Bps=300000000000.0,
    hb_latency_s=3.4e-06,
    nic_Bps=25000000000.0,
    nic_latency_s=1.4e-05,
    call_latency_s=8.4e-06,
    multicast_latency_s=math.inf,
    hb_fraction=0.772,
    nic_fraction=0.96,
)
GpuMemory(
    memory_bytes=199000000000.0,
    memory_Bps=8000000000000.0,
    reserved_bytes=4300000000.0,
    cast_fraction=0.85,
    memory_fraction=0.85,
)
GpuRates(
    linear_rate=312000000000000.0,
    bf16_rate=312000000000000.0,
    linear_fraction=0.847,
    bf16_fraction=0.847,
    processors=108,
    rank_spread=0.015,
    attention_kernels=(("flash1", 0.323), ("flash2", 0.567), ("cudnn", 0.444)),
    attention_shapes=(("head64", 1.0),),
    attention_ramp=236.0,
    window_keys=826.0,
    unaligned_share=0.74,
    attention_fraction=0.575,
)
HostWork(
    kernel_s=3e-06,
    launch_s=1.45e-05,
    kernel_launch_s=5e-06,
    iteration_host_s=0.01,
    forward_operators=40,
    backward_operators=60,
    dropless_serial_share=0.7,
    exchange_hidden_share=0.83,
    host_Bps=64000000000.0,
    host_memory_Bps=40000000000.0,
)
Strategy(tensor=256)
STRATEGY.columns(4)
STRATEGY.coordinates(np.array([0]))
STRATEGY.group_places("tensor", 2)
STRATEGY.groups("tensor")
STRATEGY.microbatches(4)
Strategy(data=32).placement(32)
STRATEGY.rank_of(tensor=1)
as_strategy(STRATEGY)
indivisible(
    MODEL,
    {
        "tensor": 2,
        "context": 1,
        "pipeline": 2,
        "data": 2,
        "expert": 1,
        "interleave": 1,
        "micro_batch": 1,
        "recompute": "none",
        "sequence_parallel": False,
        "sharding": "weights",
        "order": ("tensor", "context", "data", "pipeline"),
        "ends_as_layers": False,
        "keep_gathered": False,
        "whole_experts": False,
        "warnings": (),
        "global_batch": 4,
    },
)
level_places("sharding", 3)
checked_sizes("interleaved", 2, 2, 2, "overlapped")
critical_sends(2, 2, 1, "1f1b", "overlapped")
pipeline_bubble_time(2, 2, 0.1, 0.1, 1, 0.1, "1f1b", "overlapped")
product_passes(MACHINE, 8190.0, 32100.0, 4096, gradient_bytes=8, aligned=True)
Rank(model=MODEL, machine=MACHINE, runtime=RUNTIME, strategy=STRATEGY).gather(50300000.0, "tensor")
gpus_of(
    {
        "tensor": np.array([2]),
        "context": np.array([1]),
        "expert": np.array([1]),
        "pipeline": np.array([2]),
        "data": np.array([2]),
        "interleave": np.array([1]),
        "sharding": np.array([3]),
        "ends_as_layers": np.array([0]),
        "whole_experts": np.array([0]),
        "placement": np.array([0]),
    }
)
group_levels(
    {
        "tensor": np.array([2]),
        "context": np.array([1]),
        "expert": np.array([1]),
        "pipeline": np.array([2]),
        "data": np.array([2]),
        "interleave": np.array([1]),
        "sharding": np.array([3]),
        "ends_as_layers": np.array([0]),
        "whole_experts": np.array([0]),
        "placement": np.array([0]),
    }
)
working_bytes((np.array([579000000.0]), np.array([327000000.0]), np.array([50300000.0])), np.array([2]))
Runtime(overlap_data=False)
as_runtime(RUNTIME)
catalog_runtime("llama3")
checked_offload("none")
ScalingLaw(
    "Hoffmann 2",
    "Hoffmann et al. 2022, arXiv:2203.15556, Table 2",
    63000000000.0,
    5.76e23,
    0.49,
    parameters_range=(70000000.0, 16000000000.0),
    tokens_range=(5000000000.0, 500000000000.0),
    compute_range=(6e18, 3e21),
    loss_of=None,
)
scaling_law("Kaplan").compute(30200000.0)
scaling_law("Kaplan").loss(1000000.0, 1e60)
scaling_law("Kaplan").parameters(1e21)
scaling_law("Kaplan").parameters_after(2.5, 1e18, 0.4)
scaling_law("Kaplan").tokens(1e18)
scaling_law("Kaplan").training_time(30200000.0, 1e18, 0.4)
ScalingLaw(
    "Hoffmann 2",
    "Hoffmann et al. 2022, arXiv:2203.15556, Table 2",
    0.145,
    1.0,
    0.49,
    parameters_range=(70000000.0, 16000000000.0),
    tokens_range=(5000000000.0, 500000000000.0),
    compute_range=(6e18, 3e21),
    loss_of=None,
).warnings(1e20)
depth_and_width(1.9)
fit_power_law(np.array([1000.0, 1000000000.0]), np.array([0.01, 0.01]))
hoffmann_table(2)
joint_loss(1000000.0, 1e60, N_c=64000000000000.0, D_c=18000000000000.0, alpha_N=0.076, alpha_D=0.103)
optimal_models(["Hoffmann 2"], np.array([1e-06, 1000.0]), 1e21)
optimal_training_times(
    ("Kaplan", "Hoffmann 1", "Hoffmann 2", "Hoffmann 3", "Hoffmann 3, rounded", "Besiroglu"),
    [50000000000000.0, 104000000000000.0],
    1.68e22,
)
parameters_at_depth(134.0)
parametric_loss(10000000000.0, 1000000000000.0, E=1.69, A=406.0, B=411.0, alpha=0.339, beta=0.285)
parametric_optimum(406.0, 411.0, 0.34, 0.28)
scaling_law("Kaplan")
whole_shape(10000000.0, 64)
newest_runtime(MACHINE)
runtime_of("DGX H100", "2021-04")
bucket_calls(np.array([2010000000.0]), np.array([2]))
expected_maximum(8)
held_parameters(Rank(model=MODEL, machine=MACHINE, runtime=RUNTIME, strategy=STRATEGY), 96)
replica_exchanges(Rank(model=MODEL, machine=MACHINE, runtime=RUNTIME, strategy=STRATEGY), (21800000000.0, 0.0), 96)
spare_layers(Rank(model=MODEL, machine=MACHINE, runtime=RUNTIME, strategy=STRATEGY), 96)
stage_of(Rank(model=MODEL, machine=MACHINE, runtime=RUNTIME, strategy=STRATEGY), ("weights",))
stage_state_bytes(Rank(model=MODEL, machine=MACHINE, runtime=RUNTIME, strategy=STRATEGY), (21800000000.0, 0.0), 96, ())
iteration_traffic(MODEL, STRATEGY, 64).entries()
iteration_traffic("MoE-1.3B", STRATEGY, 512)
step_transfers(MIXTURE, STRATEGY, 16)
Transformer("dense", 8, 512, 8, 4, 2048, 4000, 64, ffn_matrices=2)
MIXTURE.has_experts(2)
MODEL.mixture_width(1)
as_model("Llama-3 8B")
as_models(["Llama-3 8B"])
catalog_model("GPT-3")
model_flops_utilization(3000000000000000.0, 10.0, 3, 1000000000000000.0)
layer_activation_bytes(MODEL, sequence_parallel=True, recompute=1)
sharded_parameters(
    (np.array([873000000.0]), np.array([0.0])),
    np.array([2]),
    np.array([2]),
    np.array([16.0]),
    np.array([3]),
    sharded_gradients=False,
    chunks=np.array([1]),
)
routed_time(ROUTED, 450000000000.0, 50000000000.0)
stage_memory(MODEL, MACHINE, STRATEGY, 8)
gather_links(1000000000.0, 8, 2, (450000000000.0, 50000000000.0), Latencies(1e-06, 5e-06))
all_reduce_links(1000000000.0, 8, 2, (450000000000.0, 50000000000.0), Latencies(1e-06, 5e-06))
Machine.of_values(MACHINE.values)
product_share(item("efficiencies", "H100"), "bf16")
product_share_row(item("efficiencies", "H100"), "bf16")
cast_share_row("bf16")
Strategy.from_columns(STRATEGY.columns(8))
STRATEGY.check(MODEL, 8)
product_time(MACHINE, 4096, 4096, 4096)
dated_runtimes("DGX H100")
traffic_summaries({"8B": iteration_traffic(MODEL, STRATEGY, 8)}, 8)
transfer_table(MODEL, STRATEGY, 8)
MODEL.forward_flops(2)
MODEL.training_flops(2, "full")
batch_sequences("Llama-3 405B")
state_bytes(MODEL, 2, 2, 2)
group_shares(rail_only(64, 8, 16), {"replica": DATA}, 8, 8)
DATA.in_domains(8)
DATA.between_domains(8)
DATA.lie_unevenly(8)
MODEL.layer_activation_bytes(2, 2)
MODEL.state_bytes(2, 2, 2)
format_bytes("bf16")
sustained_share(MACHINE, [(4096, 4096, 4096)], 900000000000000.0, LinearFormat(900000000000000.0, 2, 0, 0, 0, 2))
MACHINE.places({"replica": DATA}, 8)
