"""Good calls of what is public in railcore.engines.deployment."""

from ipaddress import ip_network

import numpy as np
import pandas as pd

from railcore.engines.deployment.cables import (
    LinkMedium,
    cable_lengths,
    cable_speed,
    cabling_table,
    link_medium,
    ports_at_ends,
)
from railcore.engines.deployment.cabling import (
    Floor,
    catalog_floor,
    cheapest_link_costs,
    is_copper_item,
    link_media,
    rail_link_lengths,
)
from railcore.engines.deployment.cluster import Cluster, ClusterNetwork
from railcore.engines.deployment.cluster_cost import cluster_network_parts
from railcore.engines.deployment.design_build import build_design, build_designs, design_lengths, designs_sizing
from railcore.engines.deployment.design_comparison import compare_designs, design_measures
from railcore.engines.deployment.frr import EthernetSegment, EvpnPeer, RoutedLink, SwitchConfig, VlanGateway, frr_text
from railcore.engines.deployment.part_counts import (
    cost_of_parts,
    design_cost,
    design_parts,
    expected_losses,
    host_interfaces,
)
from railcore.engines.deployment.port_map import (
    checked_vlan_base,
    free_interfaces,
    host_port_map,
    interface_texts,
    lanes_of,
    nic_bundling,
    peer_link_count,
    trunk_port_map,
    vlan_count,
)
from railcore.engines.deployment.routing import BgpDesign
from railcore.engines.deployment.scale_out import (
    Equipment,
    block_sizes,
    catalog_equipment,
    chip_modes,
    compare_shapes,
    fewest_rails,
    network_combinations,
    network_parts,
    network_shapes,
    notable_shapes,
    oversubscribed_leaf_costs,
    rack_rails,
    rail_plane_networks,
)
from railcore.engines.deployment.segment_sizing import SegmentDemand
from railcore.engines.deployment.segments import SegmentFabric, leaf_name, rails_name
from railcore.engines.deployment.server import (
    PartBandwidth,
    Server,
    bottleneck_text,
    catalog_server,
    compare_servers,
    flow_bandwidths,
    part_bandwidth,
    pcie_bandwidth,
)
from railcore.engines.deployment.subnets import AddressPlan, address_texts
from railcore.engines.deployment.summaries import (
    first_free,
    free_network,
    ipv4_network,
    refuse_overlaps,
    smallest_cover,
    summary_check,
)
from railcore.engines.deployment.switch_configs import interface_name, switch_config
from railcore.network.price_books import PriceBook, power_book, price_book
from railcore.network.switches import SwitchModel

PRICES = price_book("street2025")
POWERS = power_book("street2025")
DESIGN = build_design(
    SegmentDemand(gpus=256, rail_switch=SwitchModel("SN5600", 64, 100000000000.0), rails_per_switch=2),
    Floor(0.6, 2.4, 16.0, 2.4, 1.5, 1.5, 0.1),
    addresses={"bundling": "none"},
)
LARGE = SegmentFabric(8, SwitchModel("SN5600", 64, 100000000000.0))

LinkMedium((("400G DR4", 1, 1), ("800G DR8", 2, 1)), 650.0)
cable_lengths({})
cable_speed(
    SegmentFabric(
        servers=2,
        rail_switch=SwitchModel("large", 512, 100000000000.0),
        gpus_per_server=4,
        nic_ports=2,
        homing=1,
        rails_per_switch=2,
        spine=SwitchModel("large", 512, 100000000000.0),
        super_spine=SwitchModel("large", 512, 100000000000.0),
        uplink_Bps=100000000000.0,
        routed=False,
        hb_Bps=450000000000.0,
    ),
    "host",
)
cabling_table(
    AddressPlan(
        fabric=SegmentFabric(
            servers=2,
            rail_switch=SwitchModel("large", 512, 100000000000.0),
            gpus_per_server=4,
            nic_ports=2,
            homing=1,
            rails_per_switch=2,
            spine=SwitchModel("large", 512, 100000000000.0),
            super_spine=SwitchModel("large", 512, 100000000000.0),
            uplink_Bps=100000000000.0,
            routed=False,
            hb_Bps=450000000000.0,
        ),
        bundling="none",
        peer_links=0,
        trunk_bundles=False,
        gateways=1,
        prefix_length=29,
        servers=2,
    )
)
link_medium(
    SegmentFabric(
        servers=3,
        rail_switch=SwitchModel("large", 512, 100000000000.0),
        gpus_per_server=2,
        nic_ports=2,
        homing=2,
        rails_per_switch=2,
        spine=SwitchModel("large", 512, 100000000000.0),
        super_spine=SwitchModel("large", 512, 100000000000.0),
        uplink_Bps=100000000000.0,
        routed=False,
        hb_Bps=450000000000.0,
    ),
    "host",
    None,
)
ports_at_ends(
    SegmentFabric(
        servers=2,
        rail_switch=SwitchModel(name="any", ports=32, port_Bps=50000000000.0),
        gpus_per_server=4,
        segments=2,
        nic_ports=2,
        homing=2,
        port_Bps=25000000000.0,
        rails_per_switch=4,
        spines=2,
        spine=SwitchModel(name="any", ports=32, port_Bps=50000000000.0),
        super_spine=SwitchModel(name="any", ports=32, port_Bps=50000000000.0),
        uplink_Bps=50000000000.0,
        routed=True,
        hb_Bps=450000000000.0,
    ),
    "host",
)
Floor(rack_pitch_m=0.6, row_pitch_m=2.4, racks_per_row=16.0, cross_aisle_m=2.4, drop_m=1.5, in_rack_m=1.5, slack=0.1)
Floor(
    rack_pitch_m=0.6, row_pitch_m=2.4, racks_per_row=16.0, cross_aisle_m=2.4, drop_m=1.5, in_rack_m=1.5, slack=0.1
).rack_positions(2)
catalog_floor("GPU hall")
cheapest_link_costs(
    Floor(
        rack_pitch_m=0.6, row_pitch_m=2.4, racks_per_row=16.0, cross_aisle_m=2.4, drop_m=1.5, in_rack_m=1.5, slack=0.1
    ),
    100,
    {"a": (4, (8, 64))},
    400,
    link_media(100000000000.0, 1000.0),
)
is_copper_item("400G DAC")
link_media(50000000000.0)
rail_link_lengths(
    Floor(
        rack_pitch_m=0.6, row_pitch_m=2.4, racks_per_row=16.0, cross_aisle_m=2.4, drop_m=1.5, in_rack_m=1.5, slack=0.1
    ),
    3,
    3,
    (4,),
)
ClusterNetwork(
    name="scale-up",
    nodes=8,
    gpus_per_node=8,
    pcie_Bps=63000000000.0,
    port_Bps=450000000000.0,
    hb_switches=1,
    switch=None,
)
cluster_network_parts(Cluster(43, 8), PRICES, POWERS, books={"management": (PRICES, POWERS)})
build_design(
    SegmentDemand(
        gpus=256,
        rail_switch=SwitchModel("SN5600", 64, 100000000000.0, ((50000000000.0, 128), (25000000000.0, 256))),
        rails_per_switch=2,
    ),
    Floor(
        rack_pitch_m=0.6, row_pitch_m=2.4, racks_per_row=16.0, cross_aisle_m=2.4, drop_m=1.5, in_rack_m=1.5, slack=0.1
    ),
    addresses={"bundling": "none"},
)
build_designs(
    [1024, 1024],
    [8, 2, 3, 2],
    {
        "rail_switch": SwitchModel("SN5600", 64, 100000000000.0, ((50000000000.0, 128), (25000000000.0, 256))),
        "nic_ports": 2,
        "port_Bps": 25000000000.0,
    },
    Floor(
        rack_pitch_m=0.6, row_pitch_m=2.4, racks_per_row=16.0, cross_aisle_m=2.4, drop_m=1.5, in_rack_m=1.5, slack=0.1
    ),
    addresses={"bundling": "evpn"},
)
design_lengths(
    SegmentFabric(
        servers=128,
        rail_switch=SwitchModel("SN5600", 64, 100000000000.0, ((50000000000.0, 128), (25000000000.0, 256))),
        nic_ports=2,
        homing=2,
        port_Bps=25000000000.0,
        rails_per_switch=2,
        spine=SwitchModel("SN5600", 64, 100000000000.0, ((50000000000.0, 128), (25000000000.0, 256))),
        super_spine=SwitchModel("SN5600", 64, 100000000000.0, ((50000000000.0, 128), (25000000000.0, 256))),
        uplink_Bps=100000000000.0,
        routed=False,
        hb_Bps=450000000000.0,
    ),
    Floor(
        rack_pitch_m=0.6, row_pitch_m=2.4, racks_per_row=16.0, cross_aisle_m=2.4, drop_m=1.5, in_rack_m=1.5, slack=0.1
    ),
    4,
)
compare_designs(
    {
        "one": SegmentFabric(
            servers=2,
            rail_switch=SwitchModel("large", 512, 100000000000.0),
            homing=1,
            rails_per_switch=8,
            spine=SwitchModel("large", 512, 100000000000.0),
            super_spine=SwitchModel("large", 512, 100000000000.0),
            uplink_Bps=100000000000.0,
            routed=False,
            hb_Bps=450000000000.0,
        )
    },
    cost=False,
)
EthernetSegment("bond2", 2, "02:00:00:00:00:01", ("swp1s1",))
EvpnPeer("Super1", "192.168.0.13", 64512)
RoutedLink("bond1", "172.16.0.0/31", "ABOVE", "Pod1.Spine1", "bond1", "172.16.0.1", 64513, ("swp5", "swp6"))
SwitchConfig(
    hostname="Pod1.Seg1.Leaf1",
    loopback="192.168.0.1",
    as_number=0,
    mtu=9216,
    links=(),
    gateways=(),
    ethernet_segments=(),
    networks=(),
    aggregates=(),
    summary_only=True,
    above_only=(),
    not_below=(),
    maximum_paths=1,
    evpn_peers=(),
)
VlanGateway(102, 2, "10.0.0.9/29", "")
frr_text(SwitchConfig(hostname="Pod1.Seg1.Leaf1", loopback="192.168.0.1"))
design_cost(
    AddressPlan(
        SegmentFabric(
            rail_switch=SwitchModel("SN5600", 64, 100000000000.0, ((50000000000.0, 128), (25000000000.0, 256))),
            segments=2,
            spines=2,
            nic_ports=2,
            servers=3,
            gpus_per_server=4,
            rails_per_switch=2,
            port_Bps="200 Gbps",
            spine_links=2,
        ),
        bundling="mlag",
    ),
    prices={"large": 1000.0, "broken out": 1000.0, "SN5600": 1000.0},
)
design_parts(
    SegmentFabric(
        servers=3,
        rail_switch=SwitchModel("large", 512, 100000000000.0),
        gpus_per_server=2,
        nic_ports=2,
        homing=2,
        rails_per_switch=2,
        spine=SwitchModel("large", 512, 100000000000.0),
        super_spine=SwitchModel("large", 512, 100000000000.0),
        uplink_Bps=100000000000.0,
        routed=False,
        hb_Bps=450000000000.0,
    )
)
expected_losses(
    SegmentFabric(
        servers=3,
        rail_switch=SwitchModel("large", 512, 100000000000.0),
        gpus_per_server=2,
        segments=2,
        nic_ports=2,
        homing=2,
        rails_per_switch=2,
        spines=2,
        spine=SwitchModel("large", 512, 100000000000.0),
        super_spine=SwitchModel("large", 512, 100000000000.0),
        uplink_Bps=100000000000.0,
        routed=True,
        hb_Bps=450000000000.0,
    ),
    "NIC",
)
host_interfaces(
    SegmentFabric(
        servers=4,
        rail_switch=SwitchModel("SN5600", 64, 100000000000.0, ((50000000000.0, 128), (25000000000.0, 256))),
        nic_ports=2,
        homing=2,
        port_Bps=25000000000.0,
        rails_per_switch=8,
        spine=SwitchModel("SN5600", 64, 100000000000.0, ((50000000000.0, 128), (25000000000.0, 256))),
        super_spine=SwitchModel("SN5600", 64, 100000000000.0, ((50000000000.0, 128), (25000000000.0, 256))),
        uplink_Bps=100000000000.0,
        routed=False,
        hb_Bps=450000000000.0,
    ),
    4,
)
checked_vlan_base(
    SegmentFabric(3, SwitchModel("large", 512, 100000000000.0), gpus_per_server=4, port_Bps="100 Gbps", nic_ports=2),
    "mlag",
    101,
)
free_interfaces(
    SegmentFabric(3, SwitchModel("large", 512, 100000000000.0), gpus_per_server=4, port_Bps="100 Gbps", nic_ports=2),
    "by server",
    2,
)
host_port_map(
    SegmentFabric(3, SwitchModel("large", 512, 100000000000.0), gpus_per_server=4, port_Bps="100 Gbps", nic_ports=2),
    "by server",
    "mlag",
    101,
)
interface_texts([9], [0])
lanes_of(
    SegmentFabric(3, SwitchModel("large", 512, 100000000000.0), gpus_per_server=4, port_Bps="100 Gbps", nic_ports=2),
    1,
    up=False,
)
nic_bundling(
    SegmentFabric(
        rail_switch=SwitchModel("SN5600", 64, 100000000000.0, ((50000000000.0, 128), (25000000000.0, 256))),
        segments=2,
        spines=2,
        nic_ports=2,
        servers=3,
        gpus_per_server=4,
        rails_per_switch=2,
        port_Bps="200 Gbps",
        spine_links=2,
    ),
    "mlag",
)
peer_link_count(
    SegmentFabric(3, SwitchModel("large", 512, 100000000000.0), gpus_per_server=4, port_Bps="100 Gbps", nic_ports=2),
    "mlag",
    2,
)
trunk_port_map(
    SegmentFabric(
        rail_switch=SwitchModel("SN5600", 64, 100000000000.0, ((50000000000.0, 128), (25000000000.0, 256))),
        segments=2,
        spines=2,
        nic_ports=2,
        servers=3,
        gpus_per_server=4,
        rails_per_switch=2,
        port_Bps="200 Gbps",
        spine_links=2,
    ),
    "by server",
    "mlag",
    2,
    True,
)
vlan_count(
    SegmentFabric(3, SwitchModel("large", 512, 100000000000.0), gpus_per_server=4, port_Bps="100 Gbps", nic_ports=2),
    "mlag",
)
BgpDesign(
    AddressPlan(
        fabric=SegmentFabric(
            servers=3,
            rail_switch=SwitchModel("large", 512, 100000000000.0),
            gpus_per_server=2,
            segments=3,
            nic_ports=2,
            homing=2,
            rails_per_switch=2,
            spines=3,
            spine=SwitchModel("large", 512, 100000000000.0),
            spine_links=3,
            super_spine=SwitchModel("large", 512, 100000000000.0),
            super_spine_links=2,
            uplink_Bps=50000000000.0,
            routed=True,
            hb_Bps=450000000000.0,
        ),
        bundling="mlag",
        gateways=3,
        prefix_length=29,
        servers=9,
    ),
    "eBGP",
)
Equipment(
    "51.2T", 100000000000.0, PriceBook(800, 1000, rate_Bps=100000000000.0), PriceBook(17, 15, rate_Bps=100000000000.0)
)
Equipment(chip="51.2T", nic_Bps=100000000000.0, prices=PRICES, powers=POWERS).radix(np.array([2]))
block_sizes(
    800000,
    72,
    {
        "fat tree": (1, 1),
        "4 planes": (1, 4),
        "72 rails": (72, 1),
        "72 rails, 4 planes": (72, 4),
        "76 rails, 4 planes": (76, 4),
    },
    Equipment(
        "51.2T",
        100000000000.0,
        PriceBook(800, 1000, rate_Bps=100000000000.0),
        PriceBook(17, 15, rate_Bps=100000000000.0),
    ),
)
compare_shapes(
    [1000],
    {"4 rails": (4, 1)},
    Equipment(
        "51.2T",
        100000000000.0,
        PriceBook(800, 1000, rate_Bps=100000000000.0),
        PriceBook(17, 15, rate_Bps=100000000000.0),
    ),
)
fewest_rails(9899, 64, 4, 2)
network_combinations(
    20000,
    12,
    [1, 2, 4, 8, 16],
    Equipment(
        "51.2T",
        100000000000.0,
        PriceBook(800, 1000, rate_Bps=100000000000.0),
        PriceBook(17, 15, rate_Bps=100000000000.0),
    ),
)
network_parts(185, 1, 4, 8)
network_shapes(8, 6, 2)
notable_shapes(
    network_combinations(
        20000,
        12,
        [1, 2, 4, 8, 16],
        Equipment(
            "51.2T",
            100000000000.0,
            PriceBook(800, 1000, rate_Bps=100000000000.0),
            PriceBook(17, 15, rate_Bps=100000000000.0),
        ),
    ),
    4,
    12,
    2,
    Equipment(
        "51.2T",
        100000000000.0,
        PriceBook(800, 1000, rate_Bps=100000000000.0),
        PriceBook(17, 15, rate_Bps=100000000000.0),
    ),
)
oversubscribed_leaf_costs(
    8000, 76, 4, 4.0, Equipment(chip="51.2T", nic_Bps=100000000000.0, prices=PRICES, powers=POWERS)
)
rack_rails(8, 6)
rail_plane_networks(241, 48, 4, Equipment(chip="51.2T", nic_Bps=100000000000.0, prices=PRICES, powers=POWERS), "whole")
SegmentDemand(
    256,
    SwitchModel("SN5600", 64, 100000000000.0, ((50000000000.0, 128), (25000000000.0, 256))),
    rails_per_switch=8,
    nic_ports=2,
    port_Bps=25000000000.0,
)
leaf_name(1, 1, 2)
rails_name(8, 8)
PartBandwidth(63000000000.0, (("GPU 2", "PCIe switch 1"),), "GPU 2 to PCIe switch 1, 16 lanes")
Server(4, 25000000000.0, 3, 50000000000.0, 5, [5], 2, [1], pcie_switches=2, host_lanes=16)
bottleneck_text(
    Server(4, 25000000000.0, 2, 25000000000.0, 5, [2], 1, [], pcie_switches=2, host_lanes=16).graph(),
    (("network", "NIC 1"), ("network", "NIC 2")),
)
compare_servers([Server(8, 25000000000.0, 1, "200 Gbps", 5, (5, 4, 4, 5), 2, (4, 4, 4, 4), switch_lanes=144)])
flow_bandwidths(
    Server(4, 25000000000.0, 3, 25000000000.0, 5, [5, 3, 3], 1, [], pcie_switches=2, host_lanes=16).graph(),
    [("GPU 2", "GPU 3")],
)
part_bandwidth(
    Server(4, 25000000000.0, 3, 25000000000.0, 5, [5, 3, 3], 1, [], pcie_switches=2, host_lanes=16).graph(),
    "GPU 2",
    "GPU 3",
)
pcie_bandwidth(5)
AddressPlan(
    SegmentFabric(3, SwitchModel("large", 512, 100000000000.0), gpus_per_server=4, port_Bps="100 Gbps", nic_ports=2)
)
address_texts(np.array([3232235521]))
first_free(64, [], ipv4_network("pool", "10.0.0.0/8"), 2)
ipv4_network("pool", "10.0.0.0/8")
summary_check("10.0.1.0/24", ("10.0.1.0/24",))
interface_name(7, 0, 2)
switch_config(
    BgpDesign(
        plan=AddressPlan(
            fabric=SegmentFabric(
                servers=2,
                rail_switch=SwitchModel("large", 512, 100000000000.0),
                gpus_per_server=4,
                nic_ports=2,
                homing=1,
                rails_per_switch=2,
                spine=SwitchModel("large", 512, 100000000000.0),
                super_spine=SwitchModel("large", 512, 100000000000.0),
                uplink_Bps=100000000000.0,
                routed=False,
                hb_Bps=450000000000.0,
            ),
            bundling="none",
            peer_links=0,
            trunk_bundles=False,
            gateways=1,
            prefix_length=29,
            servers=2,
        ),
        first_asn=64512,
        summarised=False,
    ),
    "Pod1.Seg1.Leaf1",
)
chip_modes("51.2T", 50000000000.0)
catalog_equipment("51.2T", 50000000000.0, "street2025", "400G DR4")
catalog_server("DGX H100")
refuse_overlaps("subnets", [ip_network("10.0.0.0/24"), ip_network("10.0.1.0/24")])
free_network(24, [ip_network("10.0.0.0/24")], [ip_network("10.0.0.0/16")])
smallest_cover([ip_network("10.0.0.0/24"), ip_network("10.0.1.0/24")])
design_measures([DESIGN])
cost_of_parts(design_parts(LARGE))
SegmentFabric(8, SwitchModel("SN5600", 64, 100000000000.0))
Cluster(16, 8)
designs_sizing({"own": DESIGN}, pd.DataFrame())
