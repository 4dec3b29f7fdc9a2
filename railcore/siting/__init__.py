"""Where places for a datacenter are: areas, the best k places of a demand, and grid data of your own."""

from railcore.siting.areas import Area
from railcore.siting.authorities import authority_caps, data_quality, disposable_power, screen_spikes
from railcore.siting.candidates import candidates_by_radius
from railcore.siting.distances import pairwise_links
from railcore.siting.eia import balance_series, plants
from railcore.siting.grid import load_grid, state_outlines
from railcore.siting.nodes import METHODS, power_nodes
from railcore.siting.reasons import carbon_and_cost, siting_traits
from railcore.siting.sitings import places_of_sitings
from railcore.siting.split import Survey, find_places
from railcore.siting.split_problem import site_options
from railcore.siting.supply import AFTER_LOAD, RULES, demand_warnings, feeds_demand
