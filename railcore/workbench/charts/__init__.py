"""Pictures of tables: DataFrames in, Axes or figures out."""

from railcore.workbench.charts.datacenter import machines, memory_by_degree, optimal_sizes
from railcore.workbench.charts.exposed import (
    against_micro_batches,
    against_speeds,
    placements,
    timelines,
    tornadoes,
)
from railcore.workbench.charts.fabrics import experts, goodput
from railcore.workbench.charts.iteration import batches, domain_sizes, networks, optimum, rails, stacked_terms
from railcore.workbench.charts.operation import recoveries, serving
from railcore.workbench.charts.pipeline import bubbles, gantt, gantts, legend, phases
from railcore.workbench.charts.routing import layers, slowdowns, volume_and_matrix
from railcore.workbench.charts.scale_out import cost_map, costs, link_lengths, oversubscribed_costs
from railcore.workbench.charts.siting.maps import close_up, grid_map, places_by_k
from railcore.workbench.charts.siting.panels import authorities, hourly, in_megawatts, sensitivity
from railcore.workbench.charts.strategies import best_by_domain, pareto, wrong_choice
from railcore.workbench.charts.traffic import by_strategy, in_gigabytes, matrices, shares
from railcore.workbench.charts.validation import breakdown, checks, measured_runs
from railcore.workbench.charts.wide_area import flow_and_waits

__all__ = [
    "against_micro_batches",
    "against_speeds",
    "authorities",
    "batches",
    "best_by_domain",
    "breakdown",
    "bubbles",
    "by_strategy",
    "checks",
    "close_up",
    "cost_map",
    "costs",
    "domain_sizes",
    "experts",
    "flow_and_waits",
    "gantt",
    "gantts",
    "goodput",
    "grid_map",
    "hourly",
    "in_gigabytes",
    "in_megawatts",
    "layers",
    "legend",
    "link_lengths",
    "machines",
    "matrices",
    "measured_runs",
    "memory_by_degree",
    "networks",
    "optimal_sizes",
    "optimum",
    "oversubscribed_costs",
    "pareto",
    "phases",
    "placements",
    "places_by_k",
    "rails",
    "recoveries",
    "sensitivity",
    "serving",
    "shares",
    "slowdowns",
    "stacked_terms",
    "timelines",
    "tornadoes",
    "volume_and_matrix",
    "wrong_choice",
]
