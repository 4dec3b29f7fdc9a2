"""From a segment fabric to what an engineer deploys: ports, VLANs, subnets, routes, failover and cost."""

from suite.deployment.cables import cabling_table, link_medium
from suite.deployment.design_build import BuiltDesign, build_design, build_designs
from suite.deployment.design_comparison import compare_designs, design_measures, rails_words
from suite.deployment.frr import SwitchConfig, frr_text
from suite.deployment.part_counts import design_parts, expected_losses
from suite.deployment.resilience import failover, failure_domains
from suite.deployment.routing import BgpDesign
from suite.deployment.subnets import AddressPlan, address_use
from suite.deployment.switch_configs import switch_config, write_deployment
