"""Good calls of what is public in railcore.engines.datacenter."""

import numpy as np

from railcore.engines.datacenter.expert_placement import expert_placement, fitting_placements, placements_by_speed
from railcore.engines.datacenter.operation import (
    OperatingPrices,
    TrainingRun,
    layer_of_size,
    models_by_budget,
    operating_prices,
    precision_for_format,
    run_of_time,
    training_run,
    training_runs,
    training_time,
    utilization_cases,
)
from railcore.engines.datacenter.recovery import (
    ReplicaGrid,
    binomial_probabilities,
    blast_radius,
    checkpoint_and_load_times,
    recovery_goodput,
    replica_grid,
    restart_curves,
    share_of_complete_pipelines,
    spares_needed,
)
from railcore.engines.datacenter.timeline import timeline, titled_timelines
from railcore.engines.datacenter.training_case import (
    TrainingCase,
    iterations_by_micro_batches,
    pipelined_iteration,
    share_by_datacenters,
    share_by_speed,
)
from railcore.systems.datacenter.exposed import LayerTimes
from railcore.systems.datacenter.layouts import Layout
from railcore.systems.datacenter.rack_network import PricedNetwork
from railcore.systems.datacenter.sizing import Site, Sizing, datacenter_site, datacenter_size
from railcore.training.formats import Precision, catalog_precision
from railcore.training.scaling_laws import scaling_law
from railcore.training.transformer import catalog_model

MODEL = catalog_model("Llama-3 8B")
MIXTURE = catalog_model("DeepSeek-V3")
SITE = datacenter_site(1000, "GB200 NVL72", "fp8_dense_rate")
CASE = TrainingCase(catalog_model("Llama-3 70B"), catalog_precision("fp8"), SITE)
MIXED = TrainingCase(MIXTURE, catalog_precision("fp8"), SITE)
FAR = datacenter_site(1000, "GB200 NVL72", "fp8_dense_rate", "flops2024")

TrainingRun(1000000000000.0, 5.79e22, 1410000.0, 113000000000.0, 2540.0, 22400.0).carbon_kg(2.78e-07)
layer_of_size(
    MODEL,
    Precision(rate_format="fp4", master=1.0, weights=0.5, gradients=0.5, optimizer=2.0, element=0.5, mask=1.0),
    np.array([5580000000000.0, 52300000000000.0]),
)
models_by_budget(["GB200 NVL72", "DGX H100"], [1000000000.0, 100000000000.0], MODEL, 365, "flops2024", "flops2024")
operating_prices("low", "high")
precision_for_format("fp4")
run_of_time(
    1000000000000.0,
    5.79e22,
    1410000.0,
    Sizing(
        budget_usd=None,
        rack_usd=300000.0,
        rack_w=10200.0,
        rack_gpus=8,
        gpu_dense_flops=1980000000000000.0,
        gpu_memory_bytes=80000000000.0,
        pue=1.2,
        network=PricedNetwork(103000.0, 6330.0),
        most_racks=8,
        price_book="street2025",
        rate_format="fp8",
    ),
    OperatingPrices(electricity_price=2.24e-08, useful_life=158000000.0, mean_load=0.76),
)
training_run(
    10000000000000.0,
    100000000000000.0,
    datacenter_size(100000000000.0, "GB200 NVL72", "flops2024", "flops2024", pue=1.2, network="shares"),
    operating_prices(),
    0.4,
)
training_time(5.91, 4194304, 1000000000000.0, 0.998, 0.2)
utilization_cases("GB200", 0.05, 0.9)
ReplicaGrid(134, 18, 4, 72, 87, 2)
ReplicaGrid(134, 18, 4, 72, 87, 2).groups_per_block(4)
binomial_probabilities(18, 0.04)
blast_radius(ReplicaGrid(134, 18, 4, 72, 87, 2), "GB200 NVL72")
recovery_goodput(
    Layout(
        tensor=18.0,
        layers_per_rack=4.0,
        racks_per_layer=174.0,
        racks_per_layer_here=87.0,
        datacenters=2,
        device_bytes=159000000000.0,
        active_bytes=4340000000.0,
        host_bytes=582000000000.0,
        rack_gpus=72,
        layers=134.0,
        warnings=("tensor degree 18 does not divide heads 256", "17 of 23,333 racks are left without a layer"),
    ),
    "GB200 NVL72",
    {"storage": 2.8},
    110,
)
replica_grid(
    Layout(
        tensor=1.0,
        layers_per_rack=72.0,
        racks_per_layer=174.0,
        racks_per_layer_here=87.0,
        datacenters=2,
        device_bytes=2870000000000.0,
        active_bytes=78200000000.0,
        host_bytes=10500000000000.0,
        rack_gpus=72,
        layers=134.0,
        warnings=("17 of 23,333 racks are left without a layer",),
    )
)
restart_curves(
    ReplicaGrid(134, 18, 4, 72, 87, 2),
    104.0,
    110.0,
    839376,
    {"storage": 2.29, "host memory": 1.24},
    168000000000000.0,
    [5.0],
)
share_of_complete_pipelines(binomial_probabilities(87, 0.0139), 134)
spares_needed(57, 0.5, 0.5, 57)
timeline(
    LayerTimes(0.2, 0.4, 0.2, 0.0, (0.1, 0.1, 0.05, 0.02, 0.1), (0.0, 0.0, 125000000.0, 0.0, 0.0)),
    Site(
        racks=23333,
        rack_gpus=72,
        gpu_rate=2e16,
        memory_bytes=192000000000.0,
        hb_Bps=1800000000000.0,
        nic_Bps=100000000000.0,
        host_Bps=128000000000.0,
        wan_Bps=2500000000.0,
        datacenters=2,
        one_way_delay_s=0.03,
    ),
    1,
    due=5,
)
TrainingCase(
    MIXTURE,
    Precision(rate_format="fp4", master=1.0, weights=0.5, gradients=0.5, optimizer=2.0, element=0.5, mask=1.0),
    Site(
        racks=23333,
        rack_gpus=72,
        gpu_rate=2e16,
        memory_bytes=192000000000.0,
        hb_Bps=1800000000000.0,
        nic_Bps=100000000000.0,
        host_Bps=128000000000.0,
        wan_Bps=2500000000.0,
        datacenters=2,
        one_way_delay_s=0.03,
    ),
    {"recomputed": 3.0},
)
pipelined_iteration(
    LayerTimes(
        forward_s=0.133,
        backward_s=0.266,
        tensor_s=0.0082,
        pipeline_s=0.00217,
        steps_s=(0.0166, 0.0983, 0.0529, 0.0491, 0.00828),
        steps_bytes=(29800000000.0, 9830000000.0, 57100000.0, 4910000000.0, 14900000000.0),
    ),
    3,
    [5],
)
expert_placement(MIXED)
fitting_placements(MIXED)
placements_by_speed(MIXED, [900000000000.0], [50000000000.0])
training_runs(
    {"70B": CASE.model}, {"70B": 0.1}, 0.95, datacenter_size(1000000000.0), scaling_law("Hoffmann 2"), "GB200"
)
checkpoint_and_load_times(CASE.layer, CASE.layout, SITE, 1000000000000.0)
titled_timelines({"70B": CASE})
iterations_by_micro_batches({"70B": CASE}, [4, 8])
share_by_speed({"70B": CASE}, {"nic_Bps": [50000000000.0, 100000000000.0]})
share_by_datacenters({"70B": TrainingCase(catalog_model("Llama-3 70B"), catalog_precision("fp8"), FAR)}, [1, 2])
