"""What a cluster is built of: servers, the networks of a cluster and what they cost, halls and cable lengths."""

from railcore.deploy.cabling import catalog_floor, cheapest_link_costs, link_media
from railcore.deploy.cluster import Cluster, network_links, network_table
from railcore.deploy.cluster_cost import cluster_network_parts
from railcore.deploy.server import catalog_server, compare_servers, link_table
