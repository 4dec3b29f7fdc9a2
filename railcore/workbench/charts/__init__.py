"""Pictures of tables, by kind: DataFrames in, Axes or figures out."""

from railcore.workbench.charts.bars import (
    authority_demand,
    measured_runs,
    routing_slowdowns,
    tornado_chart,
    tornado_charts,
)
from railcore.workbench.charts.heatmaps import (
    cost_map,
    places_by_assumption,
    share_heatmaps,
    traffic_matrices,
    traffic_volume_and_matrix,
)
from railcore.workbench.charts.maps import grid_map, places_by_k, region_maps
from railcore.workbench.charts.scaling import (
    bubble_by_micro_batches,
    cost_and_power,
    expert_iteration_times,
    goodput_by_gpus,
    iteration_time_by_batch,
    iteration_time_by_domain_size,
    iteration_time_by_group_size,
    slowdown_by_domain_size,
    slowdown_by_rails,
)
from railcore.workbench.charts.speeds import (
    expert_placements,
    exposed_share_by_speed,
    flow_throughput_by_loss,
    shares_by_micro_batches,
    wide_area_flow_and_waits,
)
from railcore.workbench.charts.stacks import (
    iteration_breakdown,
    iteration_terms,
    iteration_time_by_network,
    network_costs,
    stacked_costs,
    traffic_by_strategy,
    traffic_shares,
)
from railcore.workbench.charts.tables import in_gigabytes, in_megawatts
from railcore.workbench.charts.timelines import (
    exchange_timelines,
    gantt_legend,
    gantt_phases,
    hourly_demand,
    pipeline_gantt,
    pipeline_gantts,
)
from railcore.workbench.charts.tradeoffs import (
    cost_by_oversubscription,
    exchange_time_by_oversubscription,
    goodput_by_recovery,
    link_lengths,
    memory_by_degree,
    model_size_by_training_time,
    modelled_over_measured,
    oversubscribed_costs,
    serving_costs,
    sizes_by_budget,
    strategies_by_slowdown,
    time_and_memory_frontier,
)
