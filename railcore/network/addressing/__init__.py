"""From a segment fabric to what an engineer deploys: profiles, ports, VLANs, subnets, routes, failover and cost."""

from railcore.network.addressing.cables import cabling_table, link_medium
from railcore.network.addressing.deployment import write_deployment
from railcore.network.addressing.design_build import BuiltDesign, build_design, build_designs
from railcore.network.addressing.design_comparison import design_measures
from railcore.network.addressing.design_cost import compare_designs, design_cost
from railcore.network.addressing.frr import SwitchConfig, frr_text, parse_frr
from railcore.network.addressing.frr_lines import frr_excerpt
from railcore.network.addressing.part_counts import bill_of_parts, design_parts, expected_losses
from railcore.network.addressing.port_map import (
    fabric_switches,
    host_port_map,
    interface_texts,
    nic_bundling,
    rail_switch_ports,
    trunk_port_map,
)
from railcore.network.addressing.resilience import (
    bundle_units,
    ethernet_segments,
    failover,
    failure_domains,
    path_diversity,
)
from railcore.network.addressing.routing import BgpDesign
from railcore.network.addressing.subnets import AddressPlan, address_use
from railcore.network.addressing.summaries import SummaryCheck, summary_check
from railcore.network.addressing.switch_configs import switch_config
