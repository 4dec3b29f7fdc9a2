"""Good calls of what is public in railcore.engines.photonics."""

import numpy as np

from railcore.engines.photonics.circuit_changes import rail_ring
from railcore.engines.photonics.circuit_search import best_on_circuits, technology_overheads
from railcore.engines.photonics.circuits import PhotonicCircuits, photonic_overhead
from railcore.engines.photonics.control_plane import (
    ControlPlane,
    catalog_control_plane,
    reconfiguration_sequence,
    saturating_gpus,
)
from railcore.engines.photonics.estimate import OverheadEstimate, circuit_terms, overhead_estimate
from railcore.engines.photonics.failed_parts import FailedPort, failure_slowdowns, moved_rings, slower_nic
from railcore.engines.photonics.photonic_cost import circuit_switch_plans, photonic_network_costs, photonic_ownership
from railcore.engines.photonics.ring_limits import (
    nic_port_modes,
    ring_all_to_all_ratio,
    ring_neighbours,
    ring_ports,
    ring_step_ratio,
    static_port_partition,
)
from railcore.engines.steps.stage_program import StepOptions
from railcore.engines.steps.workload import training_step
from railcore.network.price_books import PriceBook, power_book, price_book
from railcore.training.machine import catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.rank_order import group_levels
from railcore.training.runtime import catalog_runtime
from railcore.training.transformer import catalog_model

MODEL = catalog_model("Llama-3 8B")
MACHINE = catalog_machine("DGX H100")
STRATEGY = Strategy(tensor=2, pipeline=2, data=2)
PRICES = price_book("street2025")
POWERS = power_book("street2025")
PLAN = photonic_network_costs([64, 128], 8, 16, PRICES, POWERS, ocs_ports=64, nic_ports=2, planes=2)

best_on_circuits(
    MODEL,
    "DGX H100",
    64,
    128,
    np.array([0.0, 0.0001, 0.002, 0.05]),
    True,
    sharding="weights",
    tensor=[4, 8],
    pipeline=[2, 4, 8],
    context=1,
    interleave=1,
    whole_experts=0,
    placement="tensor first",
)
technology_overheads(["Llama-3 8B"], "DGX H200", [16], [0.001], 16)
photonic_overhead(MODEL, MACHINE, STRATEGY, "1 ms", 4, True)
ControlPlane(
    interception_s=0.882,
    selection_s=0.882,
    local_s=0.38,
    message_s=0.915,
    service_s=1.69e-240,
    configuration_s=0.101,
    lookup_s=0.186,
    command_s=0.38,
    frontend_bytes=0.115,
)
ControlPlane(
    interception_s=0.882,
    selection_s=0.882,
    local_s=0.38,
    message_s=0.915,
    service_s=1.69e-240,
    configuration_s=0.101,
    lookup_s=0.186,
    command_s=0.38,
    frontend_bytes=0.115,
).overhead_s(19, "up")
ControlPlane(
    interception_s=0.882,
    selection_s=0.882,
    local_s=0.38,
    message_s=0.915,
    service_s=1.69e-240,
    configuration_s=0.101,
    lookup_s=0.186,
    command_s=0.38,
    frontend_bytes=0.115,
).steps(19, "up")
reconfiguration_sequence(catalog_control_plane(), 0.025, {0: 0.0, 4: 0.0003}, "AllGather")
saturating_gpus(catalog_control_plane("host-driven", "low"), 8, 8, 12.3, 2, True)
OverheadEstimate(0.287, 14.0, 0.0485, ())
overhead_estimate(MODEL, "DGX H100", STRATEGY, 1e-06, False, StepOptions(), global_batch=4)
failure_slowdowns(
    training_step(
        "Llama-3 8B",
        catalog_machine("DGX A100", hb_domain_size=2),
        STRATEGY,
        4,
        StepOptions(
            detail=True,
            reshard_after_forward=False,
            accumulate_gradients=True,
            gradients_after_pass=True,
            sync_groups=("replica", "pipeline"),
        ),
        iterations=2,
    ),
    PhotonicCircuits(rates_Bps={}, reconfiguration_s=0.01),
    (2, 4),
)
moved_rings(
    training_step(
        "Llama-3 8B",
        MACHINE,
        STRATEGY,
        4,
        StepOptions(
            detail=True,
            reshard_after_forward=False,
            accumulate_gradients=True,
            gradients_after_pass=True,
            sync_groups=("replica", "pipeline"),
        ),
        iterations=2,
    ),
    [0],
)
slower_nic(
    training_step(
        "Llama-3 8B",
        MACHINE,
        STRATEGY,
        4,
        StepOptions(
            detail=True,
            reshard_after_forward=False,
            accumulate_gradients=True,
            gradients_after_pass=True,
            sync_groups=("replica", "pipeline"),
        ),
        iterations=2,
    ),
    0,
    0.5,
)
photonic_network_costs(
    [1024, 2048, 4096, 8192],
    8,
    64,
    PRICES,
    PriceBook(port=39.4, transceiver=10.0, circuit_port=0.393),
    nic_ports=2,
    transceivers_per_gpu=1,
)
ring_neighbours(STRATEGY, 4)
ring_ports(np.array([5]))
ring_step_ratio(2)
static_port_partition({"group 0": 5}, 11, 1.0)
photonic_ownership(PLAN, 4.0, 2e-08, 1.2)
ring_all_to_all_ratio(8)
rail_ring(group_levels({"tensor": 2, "pipeline": 2, "data": 4})["replica"], 2)
PhotonicCircuits(0.01)
catalog_control_plane("host-driven")
FailedPort(0.05, ports=4)
circuit_switch_plans(["Polatis 6000N"], 64, 8, 64, PRICES, POWERS)
nic_port_modes("ConnectX-7")
circuit_terms(
    MODEL,
    MACHINE,
    catalog_runtime("modern"),
    ("none",),
    {name: np.array([value]) for name, value in STRATEGY.columns(8).items()},
)
