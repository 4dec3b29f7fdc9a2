"""Pictures of tables, by kind: DataFrames in, Axes or figures out."""

from railcore.workbench.charts.bars import authorities, measured_runs, slowdowns, tornado, tornadoes
from railcore.workbench.charts.heatmaps import cost_map, heatmaps, matrices, sensitivity, volume_and_matrix
from railcore.workbench.charts.maps.power_maps import close_up, grid_map, places_by_k
from railcore.workbench.charts.scaling import (
    batches,
    best_by_domain,
    bubbles,
    cost_and_power,
    domain_sizes,
    experts,
    goodput,
    optimum,
    rails,
)
from railcore.workbench.charts.speeds import (
    against_micro_batches,
    against_speeds,
    flow_and_waits,
    one_flow,
    placements,
)
from railcore.workbench.charts.stacks import breakdown, by_strategy, costs, networks, shares, stacked, stacked_terms
from railcore.workbench.charts.tables import in_gigabytes, in_megawatts
from railcore.workbench.charts.timelines import gantt, gantts, hourly, legend, phases, timelines
from railcore.workbench.charts.tradeoffs import (
    checks,
    layers,
    link_lengths,
    machines,
    memory_by_degree,
    optimal_sizes,
    oversubscribed_costs,
    oversubscription,
    pareto,
    recoveries,
    serving,
    wrong_choice,
)
