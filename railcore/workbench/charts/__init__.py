"""Pictures of tables, by kind: DataFrames in, Axes or figures out."""

from railcore.workbench.charts.bars import authority_demand, measured_runs, routing_slowdowns, tornado_chart, tornado_charts
from railcore.workbench.charts.heatmaps import cost_map, share_heatmaps, traffic_matrices, places_by_assumption, traffic_volume_and_matrix
from railcore.workbench.charts.maps.power_maps import region_maps, grid_map, places_by_k
from railcore.workbench.charts.scaling import (
    iteration_time_by_batch,
    slowdown_by_domain_size,
    bubble_by_micro_batches,
    cost_and_power,
    iteration_time_by_domain_size,
    expert_iteration_times,
    goodput_by_gpus,
    iteration_time_by_group_size,
    slowdown_by_rails,
)
from railcore.workbench.charts.speeds import (
    shares_by_micro_batches,
    exposed_share_by_speed,
    wide_area_flow_and_waits,
    flow_throughput_by_loss,
    expert_placements,
)
from railcore.workbench.charts.stacks import iteration_breakdown, traffic_by_strategy, network_costs, iteration_time_by_network, traffic_shares, stacked_costs, iteration_terms
from railcore.workbench.charts.tables import in_gigabytes, in_megawatts
from railcore.workbench.charts.timelines import pipeline_gantt, pipeline_gantts, hourly_demand, gantt_legend, gantt_phases, exchange_timelines
from railcore.workbench.charts.tradeoffs import (
    modelled_over_measured,
    exchange_time_by_oversubscription,
    link_lengths,
    sizes_by_budget,
    memory_by_degree,
    model_size_by_training_time,
    oversubscribed_costs,
    cost_by_oversubscription,
    time_and_memory_frontier,
    goodput_by_recovery,
    serving_costs,
    strategies_by_slowdown,
)
