"""Collectives: steps, bytes and time of each algorithm, and each again as a schedule that runs and is counted."""

from railcore.training.collectives.algorithms import (
    OPERATIONS,
    algorithm_bandwidth,
    algorithm_names,
    all_gather_time,
    all_reduce_time,
    all_to_all_time,
    best_algorithm,
    broadcast_time,
    bus_bandwidth,
    collective_time,
    point_to_point_time,
    reduce_scatter_time,
    steps_and_bytes,
)
from railcore.training.collectives.execution import Count, Schedule, Send, count, defined_result, pipelined, run
from railcore.training.collectives.hierarchical import (
    GridBytes,
    grid_bytes,
    hierarchical_all_gather_bytes,
    hierarchical_phase_times,
    hierarchical_schedule,
    hierarchical_time,
)
from railcore.training.collectives.schedules import collective_schedule
