"""From a segment fabric to what an engineer deploys: ports, VLANs, subnets, routes, failover and cost."""

from railcore.engines.deployment.cables import cabling_table, link_medium
from railcore.engines.deployment.design_build import BuiltDesign, build_design, build_designs
from railcore.engines.deployment.design_comparison import compare_designs, design_measures
from railcore.engines.deployment.frr import SwitchConfig, frr_text
from railcore.engines.deployment.part_counts import bill_of_parts, design_cost, design_parts, expected_losses
from railcore.engines.deployment.port_map import (
    fabric_switches,
    host_port_map,
    interface_texts,
    nic_bundling,
    rail_switch_ports,
    trunk_port_map,
)
from railcore.engines.deployment.resilience import failover, failure_domains
from railcore.engines.deployment.routing import BgpDesign
from railcore.engines.deployment.subnets import AddressPlan, address_use
from railcore.engines.deployment.summaries import SummaryCheck, summary_check
from railcore.engines.deployment.switch_configs import switch_config, write_deployment
