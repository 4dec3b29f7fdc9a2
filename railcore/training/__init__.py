"""Training: models and memory, parallelism, collectives, traffic, iteration time, and runs it is held against."""

from railcore.training.collectives import all_gather_time
from railcore.training.iteration import iteration_time, iteration_times, stage_memory
from railcore.training.launch_lines import megatron_run
from railcore.training.machine import PRECISIONS, catalog_machine
from railcore.training.parallelism import Strategy
from railcore.training.parallelism_splits import parallelism_comparison
from railcore.training.pipeline_schedule import SCHEDULE_KINDS, pipeline_bubble_time
from railcore.training.prediction_error import expected_error, iteration_errors
from railcore.training.run_errors import effects_by_family, goals_reached, mechanism_effects, stored_effects
from railcore.training.run_file import own_runs
from railcore.training.runs import (
    breakdown_table,
    error_summary,
    errors_as_text,
    joined_runs,
    labelled_runs,
    measured_twice_as_text,
    predictions,
    published_runs,
    runtime_effect,
    schedules_measured_twice,
    software_times,
    training_duration,
)
from railcore.training.runtime import Runtime
from railcore.training.scaling_laws import optimal_models, optimal_training_times, scaling_law
from railcore.training.software import as_runtime, runtime_of
from railcore.training.traffic import from_transfers, iteration_traffic, traffic_summaries
from railcore.training.transformer import (
    RECOMPUTE,
    Transformer,
    batch_sequences,
    catalog_model,
    model_flops_utilization,
)
