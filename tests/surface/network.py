"""Good calls of what is public in railcore.network."""

import math

import numpy as np
import pandas as pd

from railcore.engines.deployment.segments import SegmentFabric
from railcore.network.bill import bill_counts, bill_table, bill_total, bill_totals, merged_bill
from railcore.network.cost import (
    cluster_breakdown,
    cluster_fabrics,
    cluster_networks,
    compare_rail_networks,
    energy,
    ownership_costs,
    share_saved,
    total_cost,
    with_domain_warnings,
)
from railcore.network.platforms import PlatformLinks, platform_links
from railcore.network.price_books import (
    ItemBook,
    PriceBook,
    book_names,
    book_of_links,
    matching_books,
    power_book,
    price_book,
    switch_book,
)
from railcore.network.reliability import (
    checkpoint_interval,
    cluster_failures,
    expected_failures,
    failure_rows,
    goodput,
    host_gpus,
    job_interruptions,
    mean_time_between_failures,
    parts_at_risk,
    platform_fabrics,
    rate_and_repair,
)
from railcore.network.switches import SwitchModel, switch_model
from railcore.network.topology.bill_line import BillLine
from railcore.network.topology.clos import (
    ClosLayout,
    Parts,
    Pods,
    ceil_div,
    checked_oversubscription,
    checked_radix,
    clos_layout,
    clos_reach,
    down_ports,
    floor_div,
    ideal_clos_parts,
    rail_parts,
    rail_size,
)
from railcore.network.topology.failed_part import FailedPart, has_part, lost_gpus
from railcore.network.topology.graph import (
    bisection_bandwidth,
    build_graph,
    first_pod,
    rail_bisection_bandwidth,
    route,
    switches_to_gpus,
)
from railcore.network.topology.photonic import (
    CircuitParts,
    PhotonicRails,
    circuit_parts,
    circuit_reach,
    ring_lengths,
    ring_warnings,
    rings_of_ports,
)
from railcore.network.topology.rails import HBDomains, RailFabric, domain_warnings, fat_tree, rail_only, rail_optimized
from railcore.network.topology.wiring import WireList, Wiring, even_cuts
from railcore.network.wide_area import Route, fibre_route, one_way_delay

FABRIC = rail_only(64, 8, 16)
PRICES = price_book("street2025")

bill_counts(
    (
        BillLine(part="circuit switch", scope="switches", units=1150.0, count=2.0, tier=1),
        BillLine(part="transceiver", scope="host optics", units=128, tier=1),
    ),
    PRICES,
)
bill_table(
    (
        BillLine(part="switch", scope="switches", units=64, count=1, tier=1),
        BillLine(part="copper cable", scope="host links", units=3, count=3, tier=1),
    ),
    PriceBook(port=0.11, transceiver=0.11, dac=0.11),
    PriceBook(port=0.11, transceiver=0.11, dac=0.11),
)
bill_total(
    (
        BillLine(part="circuit switch", scope="switches", units=1150.0, count=2.0, tier=1),
        BillLine(part="transceiver", scope="host optics", units=128, tier=1),
    ),
    PRICES,
)
bill_totals(
    (
        BillLine(part="switch", scope="switches", units=1170, count=39, tier=1),
        BillLine(part="transceiver", scope="host links", units=1093, tier=1),
        BillLine(part="transceiver", scope="host optics", units=1093, tier=1),
    ),
    PriceBook(port=188.0, transceiver=1.22, dac=1760.0),
    PriceBook(port=188.0, transceiver=1.22, dac=1760.0),
)
merged_bill(
    (
        BillLine(
            part="switch",
            scope="switches",
            units=48,
            count=1,
            tier=1,
            network="management",
            item="48 x 1 Gbps",
            rate_Bps=125000000.0,
        ),
        BillLine(
            part="copper cable",
            scope="host links",
            units=9,
            count=9,
            tier=1,
            network="management",
            rate_Bps=125000000.0,
        ),
    )
)
cluster_breakdown(4096, 16, 32, 4, PRICES, PriceBook(port=20, transceiver=10, dac=0.1))
cluster_fabrics(64, 8, 16, (2, 4), 2)
cluster_networks(
    4096, 16, 32, 4, PriceBook(port=500, transceiver=200, dac=100), PriceBook(port=20, transceiver=10, dac=0.1)
)
compare_rail_networks(65536, 256, 64, PriceBook(port=748, transceiver=374), PriceBook(1, 1))
energy(922000.0, 5, 1.0, 0.76)
ownership_costs(
    4096, 16, 32, PriceBook(port=583.0, transceiver=219.0), PriceBook(port=10.0, transceiver=10.0), 5, 2.24e-08, 1.2
)
share_saved(13200000.0, 57000000.0)
total_cost(25200000.0, 922000.0, 5, 2.24e-08, 1.0, 0.76)
PlatformLinks("GH200", 256, 450000000000.0, 50000000000.0, ("of the platform", "of the platform", "of the platform"))
platform_links("GH200", None, None, hb=None, document="")
ItemBook("price")
PriceBook(17.5, 8.81)
PRICES.at_rate(50000000000.0)
PRICES.of_ports(1)
PRICES.times({"port": 0.5, "transceiver": 0.5, "dac": 0.5, "circuit_port": 0.5, "typical_port": 0.5})
book_names("prices")
book_of_links("prices", PriceBook(17.5, 8.81))
matching_books("street2025")
price_book("street2025")
checkpoint_interval(575000.0, 5.0)
expected_failures(parts_at_risk(FABRIC, ""), "value")
failure_rows(set(), None, None)
goodput(575000.0, 5.0, 120.0)
host_gpus("")
mean_time_between_failures(315000.0)
parts_at_risk(FABRIC, "")
platform_fabrics(60, 8, 8, "DGX H100", 4)
rate_and_repair("GPU")
SwitchModel("small", 8, 50000000000.0)
SwitchModel("large", 512, 100000000000.0).ports_of_interface(25000000000.0)
switch_model("51.2T")
BillLine("switch", "switches", 1024, 8, 1)
ClosLayout(
    2,
    2,
    np.array([4.0]),
    np.array([1.0]),
    np.array([7.0]),
    np.array([5.0]),
    [np.array([28.0]), np.array([4.0])],
    [np.array([5.0]), np.array([7.0])],
    [np.array([5.0]), np.array([8.0])],
    [2.0, np.array([math.inf])],
)
ClosLayout(
    2,
    2,
    np.array([4.0]),
    np.array([1.0]),
    np.array([16.0]),
    np.array([8.0]),
    [np.array([64.0]), np.array([4.0])],
    [np.array([8.0]), np.array([16.0])],
    [np.array([8.0]), np.array([16.0])],
    [1.0, np.array([math.inf])],
).uplinks(2, np.array([16.0]))
Parts(2, np.array([4, 2]), np.array([8, 8]), 4)
Parts(tiers=1, switches_by_tier=np.array([8]), links_by_tier=np.array([64]), radix=128).bill(copper_tiers=0)
Pods(np.array([2]), np.array([3]), np.array([2.0]), np.array([2.0]), np.array([3.0]))
ceil_div(72, 72)
checked_oversubscription(2.0)
checked_radix(4)
clos_layout(2, 1, 4, math.inf, 1, (1.01,))
clos_reach(4, 3)
down_ports(np.array([128.0]), np.array([2.0]))
floor_div(8192, 72)
ideal_clos_parts(128, 64)
rail_parts(
    gpus=16,
    hb_domain_size=4,
    radix=4,
    oversubscription=math.inf,
    rails=4,
    rails_per_switch=1,
    planes=2,
    tier_oversubscription=(),
)
rail_size(8, 8)
FailedPart(rail_only(64, 8, 8, planes=4), "plane")
FailedPart(FABRIC, "NIC").uplinks(2, np.array([16.0, 16.0, 16.0, 16.0]))
has_part(FABRIC, "plane")
lost_gpus(FABRIC, "NIC")
bisection_bandwidth(
    SegmentFabric(
        3, SwitchModel("large", 512, 100000000000.0), gpus_per_server=4, port_Bps="100 Gbps", nic_ports=2
    ).graph(),
    ["D1.GPU1"],
    [
        "D1.GPU2",
        "D1.GPU3",
        "D1.GPU4",
        "D2.GPU1",
        "D2.GPU2",
        "D2.GPU3",
        "D2.GPU4",
        "D3.GPU1",
        "D3.GPU2",
        "D3.GPU3",
        "D3.GPU4",
    ],
)
route(build_graph(FABRIC, None), "D1.GPU1", "D1.GPU3")
switches_to_gpus(first_pod(FABRIC), "D1.GPU1")
CircuitParts(8, 1536, 8.0, 2.0, 384.0, 128, 128)
PhotonicRails(16384, 8, 4096)
circuit_parts(64, 8, 192, 2, 2)
circuit_reach(4, 1024, 6, 2, 3)
ring_lengths(2, 2)
ring_warnings(6, 2, 3)
rings_of_ports(4, 1)
HBDomains(1, 1)
RailFabric(48, 4, 8, 3.0)
RailFabric(48, 4, 8, 3.0).block_uplinks(2)
FABRIC.endpoints(2)
FABRIC.with_layer(2.0)
domain_warnings(8, 8)
fat_tree(8, 4)
rail_only(16, 4, 4)
rail_optimized(32, 4, 4)
WireList(FABRIC)
WireList(FABRIC).add_plane(1, range(1, 5))
WireList(FABRIC).add_pod(1, [3, 4])
Wiring(
    fabric=RailFabric(
        gpus=2, hb_domain_size=2, nic_Bps=50000000000.0, hb_Bps=450000000000.0, hb_switches=0, radix=10, rails=2
    ),
    switches=[],
    gpu_works=np.array([True, True]),
    switch_works=np.array([]),
    leaf=np.array([[-1, -1]]),
    lower=np.array([]),
    upper=np.array([]),
    links=np.array([]),
    hb_share=np.array([1.0, 1.0]),
).without_gpus(2)
even_cuts(8, 4)
Route(3660000.0, 1.7, 1.3, 2.1, 4.9e-09)
Route(distance_m=3660000.0, factor=1.7, factor_low=1.3, factor_high=2.1, fibre_delay=4.9e-09).factor_for(0.03)
fibre_route("flops2024 east", "flops2024 west")
one_way_delay(3660000.0, 1.7, 4.9e-09)
with_domain_warnings(pd.DataFrame({"gpus": [100, 64]}), [100, 64], 8)
switch_book("prices", "51.2T", "400G DR4", 50000000000.0)
power_book("street2025")
cluster_failures(144, 72, 64, "GB200 NVL72")
job_interruptions(144, 72, 64, "GB200 NVL72")
rail_bisection_bandwidth(rail_optimized(64, 8, 16).graph(), 2)
