"""Good calls of what is public in railcore.systems."""

import math

import numpy as np

from railcore.facts.globe import unit_vectors
from railcore.systems.datacenter.exposed import LayerTimes, layer_times
from railcore.systems.datacenter.layouts import Layer, Layout, model_layer, rack_layout
from railcore.systems.datacenter.rack_network import rack_network
from railcore.systems.datacenter.sizing import Site, Sizing, datacenter_site, datacenter_size, narrowest_format
from railcore.systems.siting.candidates import candidate_centres, candidates, candidates_by_radius
from railcore.systems.siting.geometry import inside_rings, within_radii, within_radius
from railcore.systems.siting.grid import PowerGrid, load_grid, state_of
from railcore.systems.siting.nodes import complete_linkage, densest_first, power_nodes
from railcore.systems.siting.supply import (
    Supply,
    available_power_w,
    demand_warnings,
    eligible,
    feeds_demand,
    largest_member,
    supply_of_groups,
)
from railcore.training.formats import Precision, catalog_precision
from railcore.training.transformer import catalog_model

EVERY = load_grid()
OHIO = EVERY.plants[EVERY.plants["state"] == "Ohio"].reset_index(drop=True)
GRID = PowerGrid("Ohio", OHIO, EVERY.lines.iloc[:0], EVERY.substations.iloc[:50], EVERY.loads.iloc[:50])
NODES = power_nodes(GRID, 100000.0)
SITES = unit_vectors(np.array([40.0, 40.1, 42.0]), np.array([-80.0, -80.1, -83.0]))
NEAR = within_radius(SITES, SITES, 50000.0)
SITE = datacenter_site(1000, "GB200 NVL72", "fp8_dense_rate")
LAYER = model_layer(catalog_model("Llama-3 70B"), catalog_precision("fp8"))
LAID = rack_layout(LAYER, SITE)

LayerTimes(0.2, 0.4, 0.2, 0.0, (0.1, 0.1, 0.05, 0.02, 0.1), (0.0, 0.0, 125000000.0, 0.0, 0.0))
LayerTimes(
    forward_s=0.133,
    backward_s=0.266,
    tensor_s=0.0082,
    pipeline_s=0.00217,
    steps_s=(0.0166, 0.0983, 0.0529, 0.0491, 0.00828),
    steps_bytes=(29800000000.0, 9830000000.0, 57100000.0, 4910000000.0, 14900000000.0),
).exposed_s("each network", np.array([5]))
LayerTimes(
    forward_s=0.2,
    backward_s=0.4,
    tensor_s=0.0,
    pipeline_s=0.0,
    steps_s=(0.001, 0.003, 0.001, 0.002, 0.001),
    steps_bytes=(0.0, 0.0, 2500000.0, 0.0, 0.0),
).gradients_s("busiest network")
LayerTimes(
    forward_s=0.133,
    backward_s=0.266,
    tensor_s=0.148,
    pipeline_s=0.00217,
    steps_s=(0.298, 0.0983, 0.0529, 0.0491, 0.149),
    steps_bytes=(29800000000.0, 9830000000.0, 57100000.0, 4910000000.0, 14900000000.0),
).share("each network")
LayerTimes(
    forward_s=0.133,
    backward_s=0.266,
    tensor_s=0.0082,
    pipeline_s=0.00217,
    steps_s=(0.0166, 0.0983, 0.0529, 0.0491, 0.00828),
    steps_bytes=(29800000000.0, 9830000000.0, 57100000.0, 4910000000.0, 14900000000.0),
).steady_s("each network", np.array([5]))
Layer(
    gradient_bytes=48000000000.0,
    layers=118.0,
    hidden=110000.0,
    parameters=96400000000000.0,
    linear_flops=1.54e16,
    score_flops=449000000000000.0,
    tensor_bytes=1750000000.0,
    activation_bytes=52600000000.0,
    all_reduces_per_pass=2,
    heads=256,
    precision=Precision(
        rate_format="fp4", master=1.0, weights=0.5, gradients=0.5, optimizer=2.0, element=0.5, mask=1.0
    ),
    name="flops2024 MoE",
)
Layer(
    layers=118.0,
    hidden=110000.0,
    parameters=96400000000000.0,
    linear_flops=1.54e16,
    score_flops=449000000000000.0,
    tensor_bytes=1750000000.0,
    activation_bytes=52600000000.0,
    gradient_bytes=48000000000.0,
    all_reduces_per_pass=2,
    heads=256,
    precision=Precision(
        rate_format="fp4", master=1.0, weights=0.5, gradients=0.5, optimizer=2.0, element=0.5, mask=1.0
    ),
    name="flops2024 MoE",
).flops(3.0)
Layout(
    tensor=0.0,
    layers_per_rack=math.nan,
    racks_per_layer=1490.0,
    racks_per_layer_here=371.0,
    datacenters=4,
    device_bytes=math.nan,
    active_bytes=math.nan,
    host_bytes=math.nan,
    rack_gpus=8,
    layers=134.0,
    warnings=(),
)
Precision(rate_format="bf16", master=4.0, weights=2.0, gradients=4.0, optimizer=8.0, element=2.0, mask=1.0)
catalog_precision("fp8")
model_layer("Llama-3 405B", "flops2024")
rack_layout(
    model_layer("Llama-3 405B", "flops2024"),
    Site(
        racks=2048,
        rack_gpus=72,
        gpu_rate=2500000000000000.0,
        memory_bytes=186000000000.0,
        hb_Bps=900000000000.0,
        nic_Bps=50000000000.0,
        host_Bps=128000000000.0,
        wan_Bps=2500000000.0,
        one_way_delay_s=0.03,
        datacenters=2,
    ),
    strict=False,
)
rack_network(8, 50000000000.0, "street2025")
Sizing(
    100000000000.0,
    power_w=None,
    most_gpus=None,
    most_racks=None,
    price_book="flops2024",
    network=None,
    rate_format="fp4",
    rack_usd=3000000.0,
    rack_w=130000.0,
    rack_gpus=72,
    gpu_dense_flops=1e16,
    gpu_sparse_flops=2e16,
    gpu_memory_bytes=192000000000.0,
    compute_share=0.7,
    network_share=0.1,
    other_power_share=0.2,
    pue=1.2,
)
datacenter_site(100, "DGX H200", "fp8")
datacenter_size(platform="DGX H100", racks=8)
narrowest_format("H100")
candidates(load_grid(), 75000.0, 1.0).most_of("authority")
candidate_centres(load_grid(), 2.0)
candidates(load_grid(), 50000.0)
candidates_by_radius(load_grid(), [7000.0, 8000.0], [True])
within_radii(np.array([[0.133, -0.754, 0.643]]), np.array([[0.133, -0.754, 0.643]]), [50000.0])
within_radius(np.array([[-0.379, -0.58, 0.721]]), np.array([[-0.379, -0.58, 0.721]]), 37800.0)
load_grid().fuel("firm")
load_grid()
state_of(np.array([40.0]), np.array([-83.0]))
power_nodes(load_grid(), 100000.0).most_of("state")
power_nodes(load_grid(), 100000.0)
available_power_w(
    Supply(
        installed_w=np.array([5000000000.0]),
        firm_w=np.array([4000000000.0]),
        idle_w=np.array([0.0]),
        idle_fuelled_w=np.array([0.0]),
        largest_unit_w=np.array([1000000000.0]),
        largest_site_w=np.array([2000000000.0]),
        coal_w=np.array([0.0]),
        coal_share=np.array([0.0]),
        load_w=np.array([9000000000.0]),
        interconnect_w=np.array([1000000000.0]),
    ),
    "headroom after load",
)
demand_warnings(500.0)
eligible(
    Supply(
        installed_w=np.array([5000000000.0]),
        firm_w=np.array([4000000000.0]),
        idle_w=np.array([0.0]),
        idle_fuelled_w=np.array([0.0]),
        largest_unit_w=np.array([1000000000.0]),
        largest_site_w=np.array([2000000000.0]),
        coal_w=np.array([5000000000.0]),
        coal_share=np.array([0.5]),
        load_w=np.array([0.0]),
        interconnect_w=np.array([1000000000.0]),
    )
)
feeds_demand(
    Supply(
        installed_w=np.array([5000000000.0]),
        firm_w=np.array([4000000000.0]),
        idle_w=np.array([0.0]),
        idle_fuelled_w=np.array([0.0]),
        largest_unit_w=np.array([1000000000.0]),
        largest_site_w=np.array([2000000000.0]),
        coal_w=np.array([0.0]),
        coal_share=np.array([0.0]),
        load_w=np.array([0.0]),
        interconnect_w=np.array([1000000000.0]),
    ),
    5000000000.0,
    "installed",
)
layer_times(LAYER, LAID, SITE)
inside_rings(
    np.array([[-83.0, 40.0], [-70.0, 40.0]]),
    [np.array([[-84.0, 39.0], [-82.0, 39.0], [-82.0, 41.0], [-84.0, 41.0], [-84.0, 39.0]])],
)
GRID.power_by("state", GRID.power_w)
GRID.largest_label("authority", NODES.plants, GRID.power_w)
densest_first(SITES, np.array([1000000000.0, 2000000000.0, 3000000000.0]), 50000.0)
complete_linkage(SITES, np.array([1000000000.0, 2000000000.0, 3000000000.0]), 50000.0)
largest_member(NEAR, np.array([1000000000.0, 2000000000.0, 3000000000.0]))
NODES.most_of("state")
power_nodes(GRID, 100000.0)
supply_of_groups(GRID, NODES.plants, NODES.plants[:, :50], NODES.plants[:, :50])
